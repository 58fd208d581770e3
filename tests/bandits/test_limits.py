"""Floors and caps by arm: probabilities within them, exact, and repeated by the journal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.optimize import minimize

import prudent as pr
from prudent.bandits.limits import projected
from prudent.errors import ParameterError

FLOORS, CAPS = {"a": 0.1, "c": 0.2}, {"a": 0.1, "b": 0.45}  # a is a control arm


def taught(rewards="gaussian", seed=1, dim=1, **options):
    """Return a bandit that prefers b, then d."""
    options = {"min_propensity": FLOORS, "max_propensity": CAPS} | options
    bandit = pr.LinearBandit(["a", "b", "c", "d"], dim, rewards=rewards, rng=seed, **options)
    good = {"a": 0, "b": 6, "c": 1, "d": 4}
    for arm, wins in good.items():
        for i in range(8):
            bandit.update([0.5] * dim, arm, float(i < wins))
    return bandit


def counted(arms, names):
    return np.array([(arms == name).sum() for name in names])


@given(st.lists(st.tuples(*[st.floats(0.0, 1.0)] * 3), min_size=2, max_size=6))
def test_probabilities_are_within_their_limits_and_sum_to_one(rows):
    q, low, high = np.array(rows).T
    q = (q + 1e-6) / (q + 1e-6).sum()
    low = low / max(low.sum(), 1.0) * 0.999
    high = np.maximum(high, low) if np.maximum(high, low).sum() >= 1.0 else np.ones_like(low)
    p = projected(q[np.newaxis], low, high)[0]
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert (p >= low).all()
    assert (p <= high).all()
    free = (p > low) & (p < high)
    if free.sum() > 1:  # arms within their limits keep their ratios
        assert np.ptp(np.log(p[free] / q[free])) < 1e-5


def test_they_are_the_closest_ones(rng):
    """An independent computation: Kullback-Leibler divergence minimised by SLSQP."""
    q = rng.dirichlet(np.ones(4))
    low, high = np.array([0.1, 0.0, 0.2, 0.0]), np.array([0.1, 0.45, 1.0, 1.0])
    p = projected(q[np.newaxis], low, high)[0]
    total = {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    found = minimize(
        lambda x: (x * np.log(np.maximum(x, 1e-12) / q)).sum(), np.clip(np.full(4, 0.25), low, high),
        method="SLSQP", bounds=list(zip(low, high, strict=True)), constraints=[total], options={"ftol": 1e-12},
    )  # fmt: skip
    assert p == pytest.approx(found.x, abs=1e-4)


@pytest.mark.parametrize(
    ("rewards", "dim", "options"),
    [
        ("gaussian", 1, {"noise_sd": 1.0}),
        ("gaussian", 1, {"noise": "by arm", "alpha": 0.5}),
        ("gaussian", 1, {"min_propensity": 0.05, "max_propensity": 0.6}),
        ("bernoulli", 0, {}),
        ("bernoulli", 1, {"first_pulls": 9}),
    ],
)
def test_arms_are_chosen_as_often_as_their_propensities_say(rewards, dim, options, seed):
    """3,000 decisions of 4 arms in 5 settings: within 5.8 standard errors, false-alarm rate 1e-6 in all."""
    bandit = taught(rewards, seed, dim, **options)
    names, n = bandit.arms, 3000
    p = bandit.propensities([0.5] * dim)
    assert p.sum() == pytest.approx(1.0)
    many = np.full((n, dim), 0.5)
    if bandit.settings.first_pulls:  # what is lacking changes with every decision: the first one alone
        chosen = np.array([bandit.copy(stream=0).select([0.5] * dim).arm for _ in range(500)])
    else:
        decision = bandit.copy().select(many)
        chosen = decision.arm
        assert decision.propensity == pytest.approx(p[[names.index(arm) for arm in chosen]], abs=1e-9)
    size = len(chosen)
    assert (np.abs(counted(chosen, names) - size * p) <= 5.8 * np.sqrt(size * p * (1.0 - p)) + 1e-9).all()
    if not options.get("min_propensity"):
        assert p[0] == pytest.approx(0.1)  # the control arm
        assert p[2] >= 0.2
        assert p[1] <= 0.45


def test_single_decisions_and_their_log(seed, tmp_path):
    """2,000 decisions one by one; limits survive a file, an export and a journal whose decisions are repeated."""
    bandit = taught(seed=seed, noise_sd=1.0)
    again = pr.LinearBandit.from_bytes(bandit.to_bytes())
    assert again.limits == bandit.limits
    one, two = bandit.select([0.5]), again.select([0.5])
    assert (one.arm, one.propensity, one.score) == (two.arm, two.propensity, two.score)
    with pr.Journal(tmp_path / "log.db", bandit) as live:
        found = [live.select([0.5]) for _ in range(300)]
        for decision in found[:20]:
            live.reward(decision.id, 1.0)
        report = live.verify()
        live.export(tmp_path / "log.jsonl")
    assert report is None or not getattr(report, "wrong", None)
    copied = pr.LinearBandit.from_log(tmp_path / "log.jsonl")
    assert copied.limits == bandit.limits
    tries = bandit.clock()["tries"]
    chosen = [bandit.select([0.5]).arm for _ in range(100)]
    after = bandit.clock()["tries"]
    assert {arm: after[arm] - tries[arm] for arm in after} == {arm: chosen.count(arm) for arm in after}


def test_what_cannot_be_is_refused():
    with refused(ParameterError, "probability-range", argument="min_propensity"):
        pr.LinearBandit(["a", "b"], 1, min_propensity={"a": 0.7, "b": 0.4})
    with refused(ParameterError, "probability-range", argument="max_propensity"):
        pr.LinearBandit(["a", "b"], 1, max_propensity=0.4)
    with refused(ParameterError, "conflicting-arguments", argument="min_propensity", arm="a"):
        pr.LinearBandit(["a", "b"], 1, min_propensity={"a": 0.5}, max_propensity={"a": 0.4})
    with refused(ParameterError, "unknown-arm", argument="max_propensity", arm="z"):
        pr.LinearBandit(["a", "b"], 1, max_propensity={"z": 0.4})
    with refused(ParameterError, "wrong-type", argument="max_propensity"):
        pr.LinearBandit(["a", "b"], 1, max_propensity=[[1.0], [1.0, 2.0]])
    bandit = pr.LinearBandit(["a", "b", "c"], 1, max_propensity=0.4)
    before = bandit.position
    with refused(ParameterError, "probability-range", argument="max_propensity"):
        bandit.select([1.0], arms=["a", "b"])
    assert bandit.position == before
