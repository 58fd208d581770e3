"""SparseLinearBandit: a belief without covariances, against exact updates, repeated decisions and full beliefs."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from scipy import sparse, stats

import prudent as pr
from prudent.bandits import LinearBandit, SparseLinearBandit
from prudent.errors import DataError, ParameterError


def pairs(places, values=None):
    return np.column_stack([places, np.ones(len(places)) if values is None else values]).astype(float).reshape(-1)


def trained(rng, **options):
    bandit = SparseLinearBandit(["a", "b", "c"], 50, rng=1, **options)
    for _ in range(60):
        context = pairs(np.sort(rng.choice(50, 4, replace=False)), rng.normal(size=4))
        bandit.update(context, str(rng.choice(["a", "b", "c"])), float(rng.normal()))
    return bandit


def test_contexts_with_one_value_are_learned_exactly(rng):
    one = SparseLinearBandit(2, 6, noise_sd=0.7, intercept=False, prior_precision=2.0)
    full = LinearBandit(2, 6, noise_sd=0.7, intercept=False, prior_precision=2.0)
    for _ in range(200):
        context = np.zeros(6)
        context[rng.integers(6)] = rng.normal()
        arm, reward = int(rng.integers(2)), float(rng.normal())
        one.update(context, arm, reward)
        full.update(context, arm, reward)
    for mine, theirs in zip(one.belief.coefficients(), full.belief.coefficients(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
    context = rng.normal(size=6)
    np.testing.assert_allclose(one.propensities(context), full.propensities(context), atol=1e-9)
    np.testing.assert_allclose(one.posterior(1).mean(), full.posterior(1).mean(), rtol=1e-9)


def test_one_reward_has_the_marginals_of_the_exact_posterior(rng):
    prior, context, noise = rng.uniform(0.5, 2.0, 6), rng.normal(size=5), 0.8
    bandit = SparseLinearBandit(1, 5, noise_sd=noise, prior_precision=prior).update(context, 0, 3.0)
    design = np.concatenate([[1.0], context])
    covariance = np.linalg.inv(np.diag(prior) + np.outer(design, design))
    mean, spread = bandit.belief.coefficients()
    np.testing.assert_allclose(mean[0], covariance @ design * 3.0, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(spread[0]), noise**2 * np.diagonal(covariance), rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.5},
        {"min_propensity": 0.1},
        *(pytest.param(each, marks=pytest.mark.slow) for each in ({}, {"alpha": 0.3}, {"max_propensity": 0.5})),
    ],
)
def test_propensities_are_frequencies(options, rng):
    """A chi-squared test with a false alarm rate of 1e-6."""
    bandit, count = trained(rng, **options), 3000
    context = pairs([1, 7, 30])
    chances = bandit.propensities(context)
    decision = bandit.select(context)
    assert decision.propensity == pytest.approx(chances[bandit.arms.index(decision.arm)], abs=1e-9)
    assert abs(chances.sum() - 1.0) < 1e-9
    found = [bandit.select(context).arm for _ in range(count)]
    seen = np.array([found.count(arm) for arm in bandit.arms])
    assert stats.chi2.sf(((seen - count * chances) ** 2 / (count * chances)).sum(), 2) > 1e-6


def test_unit_and_zero_of_rewards_do_not_matter(rng):
    contexts = [pairs(np.sort(rng.choice(50, 4, replace=False))) for _ in range(80)]
    rewards = rng.normal(size=80)
    one, other = (SparseLinearBandit(["a", "b"], 50, rng=5) for _ in range(2))
    for context, reward in zip(contexts, rewards, strict=True):
        first, second = one.select(context), other.select(context)
        assert first.arm == second.arm
        assert first.propensity == pytest.approx(second.propensity, abs=1e-7)
        one.update(context, first.arm, reward)
        other.update(context, first.arm, 1000.0 * reward - 4e5)
    assert other.noise_sd == pytest.approx(1000.0 * one.noise_sd, rel=1e-6)


def test_the_noise_is_learned(rng):
    """The noise, within 6 standard errors."""
    bandit, truth = SparseLinearBandit(1, 20, rng=1), rng.normal(size=20)
    for _ in range(4000):
        places = rng.choice(20, 3, replace=False)
        bandit.update(pairs(places), 0, float(truth[places].sum() + 0.5 * rng.normal()))
    assert bandit.noise_sd == pytest.approx(0.5, rel=6.0 / np.sqrt(2 * 4000) + 0.05)
    np.testing.assert_allclose(
        bandit.predict(pairs([3]))[0] - bandit.predict(pairs([5]))[0], truth[3] - truth[5], atol=0.3
    )


def test_all_kinds_of_contexts_are_one(rng):
    dense = np.zeros((3, 50))
    dense[[0, 1, 1, 2], [4, 9, 30, 49]] = [1.0, 2.0, -1.0, 0.5]
    bandit = trained(rng)
    expected = bandit.predict(dense)[0]
    ragged = [pairs([4]), pairs([9, 30], [2.0, -1.0]), pairs([49], [0.5])]
    for contexts in (sparse.csr_matrix(dense), sparse.csr_array(dense), ragged, [row.tolist() for row in ragged]):
        np.testing.assert_allclose(bandit.predict(contexts)[0], expected, rtol=1e-13)
    np.testing.assert_allclose(bandit.predict(sparse.csr_matrix(dense[1:2]))[0], expected[1], rtol=1e-13)
    decision = bandit.select(ragged)
    assert decision.arm.shape == (3,)
    np.testing.assert_allclose(decision.propensities, bandit.propensities(dense), atol=1e-9)
    assert bandit.update(decision.context, decision.arm, [1.0, 2.0, 3.0]).n_rewards == 63
    np.testing.assert_allclose(bandit.predict(np.zeros(0))[0], bandit.predict(np.zeros(50))[0])


def test_places_that_occur_twice_are_added(rng):
    features = pr.Features(tags={"kind": "tags", "slots": 0, "shared": 3, "missing": False})
    bandit = SparseLinearBandit(2, features=features, noise_sd=1.0)
    row = {"tags": ["a", "b", "c", "d", "e"]}
    code = features.transform(row)
    assert code.max() > 1.0
    np.testing.assert_allclose(bandit.predict(row), bandit.predict(code))
    assert bandit.select(row).context.size == 2 * np.count_nonzero(code)


@pytest.mark.parametrize(
    "context",
    [np.ones(3), [50.0, 1.0], [-1.0, 1.0], [0.5, 1.0], [3.0, np.nan], [3.0, 1e80], sparse.csr_matrix(np.ones((1, 3)))],
)
def test_wrong_contexts_are_refused(context, rng):
    bandit = trained(rng)
    state = bandit.to_bytes()
    for call in (bandit.select, bandit.propensities, lambda context: bandit.update(context, "a", 1.0)):
        with pytest.raises(DataError):
            call(context)
    assert bandit.to_bytes() == state


def test_wrong_options_are_refused():
    for options in (
        {"prior_precision": np.ones(3)},
        {"prior_precision": -1.0},
        {"settings": pr.bandits.brps_cmab_clipped(0.5)},
    ):
        with pytest.raises(ParameterError):
            SparseLinearBandit(2, 5, **options)
    with refused(ParameterError, "conflicting-arguments", argument="like"):
        SparseLinearBandit(["a"], 5).add_arm("b", like=["a"])
    with refused(ParameterError, "too-many-features"):
        SparseLinearBandit(2, 5000, noise_sd=1.0).to_xarray()


def test_arms_come_and_go(rng):
    bandit = trained(rng)
    before = bandit.predict(pairs([1, 2]))[0]
    bandit.add_arm("d").remove_arm("b")
    after = bandit.predict(pairs([1, 2]))[0]
    assert after[:2].tolist() == before[[0, 2]].tolist()
    assert bandit.arms == ("a", "c", "d")
    assert len(bandit.explain(pairs([1, 2])).arms) > 1
    assert [finding.kind for finding in bandit.check()] == ["starved"]


def test_a_journal_repeats_its_decisions(rng, tmp_path):
    features = pr.Features(user={"kind": "category", "slots": 0, "shared": 5000}, device="category", price="number")
    with pr.Journal(tmp_path / "j", SparseLinearBandit(["a", "b"], features=features, rng=3)) as live:
        for i in range(40):
            row = {"user": f"u{rng.integers(100)}", "device": "pd"[i % 2], "price": float(i)}
            live.reward(live.select(row).id, float(i % 3))
        assert live.verify() == 40
        assert isinstance(live.bandit, SparseLinearBandit)
        assert "u1" not in str(live.bandit.encoder.learned())
        live.export(tmp_path / "log.jsonl")
        again = SparseLinearBandit.from_log(tmp_path / "log.jsonl")
        np.testing.assert_allclose(again.predict(row)[0], live.bandit.predict(row)[0], rtol=1e-9)
    with pr.Journal(tmp_path / "j") as live:
        assert live.select(row).arm in ("a", "b")


def test_it_learns_what_a_full_belief_learns(rng):
    """In a world with 8 groups of one-hot features it gains nearly what a full belief gains."""
    groups, size = 8, 5
    truth = rng.normal(size=(3, groups * size)) / np.sqrt(groups)
    bandits = [SparseLinearBandit(3, groups * size, rng=1), LinearBandit(3, groups * size, rng=1)]
    gained, best, mean = np.zeros(2), 0.0, 0.0
    for _ in range(1500):
        places = rng.integers(size, size=groups) + size * np.arange(groups)
        context = np.zeros(groups * size)
        context[places] = 1.0
        values = truth @ context
        best, mean = best + values.max(), mean + values.mean()
        for i, bandit in enumerate(bandits):
            arm = bandit.select(context).arm
            gained[i] += values[arm]
            bandit.update(context, arm, float(values[arm] + 0.5 * rng.normal()))
    share = (gained - mean) / (best - mean)
    assert share[0] > 0.75
    assert share[0] > share[1] - 0.1
