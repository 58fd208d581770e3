"""Evidence of a bandit with shared features fades: against dense regression with weights, step by step."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from prudent.bandits import SharedLinearBandit
from prudent.errors import DataError, ParameterError

ITEMS = ["a", "b", "c", "d"]


def dense(features, rewards, weights, arms, points, names, *, noise_sd, q, intercept):
    """Means and sds of items by one regression on theta, the level c and an indicator for each item, O((D+I)^3)."""
    rows = np.column_stack([np.ones(len(features)), features]) if intercept else features
    points = np.column_stack([np.ones(len(points)), points]) if intercept else points
    known = list(dict.fromkeys(arms)) if q else []
    known += [name for name in names if q and name not in known]
    one = lambda given: np.array([[float(name == item) for item in known] for name in given])  # noqa: E731
    rows = np.column_stack([rows, one(arms)]) if q else rows
    points = np.column_stack([points, one(names)]) if q else points
    size = rows.shape[1]
    prior = np.diag([1.0] * (size - len(known)) + [q] * len(known))
    precision = prior + rows.T @ (weights[:, None] * rows)
    covariance = np.linalg.inv(precision)
    level = 0.0
    if noise_sd is None:
        # twice the exponent of the likelihood is a quadratic in the level c, the prior mean of the constant feature
        cut = np.linalg.inv(np.diag(1.0 / weights) + rows @ np.linalg.inv(prior) @ rows.T)
        if intercept:
            level = np.ones(len(rows)) @ cut @ rewards / (np.ones(len(rows)) @ cut @ np.ones(len(rows)))
        gap = rewards - level
        count = weights.sum()
        free = max(count - 1.0, 0.5 * count) if intercept else count
        noise_sd = np.sqrt(gap @ cut @ gap / free)
    start = np.zeros(size)
    start[0] = level
    mean = start + covariance @ rows.T @ (weights * (rewards - rows @ start))
    return points @ mean, noise_sd * np.sqrt((points @ covariance * points).sum(axis=1)), noise_sd


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("noise_sd", [None, 0.7])
def test_what_has_faded_counts_less_and_the_priors_stay(offsets, intercept, noise_sd):
    rng = np.random.default_rng(5)
    options = {"offsets": offsets, "offset_precision": 3.0, "intercept": intercept, "noise_sd": noise_sd}
    bandit = SharedLinearBandit(2, **options)
    features, rewards, arms, weights = np.empty((0, 2)), np.empty(0), [], np.empty(0)
    points, names = rng.normal(size=(5, 2)), [*ITEMS, "new"]
    for factor in (1.0, 0.5, 0.9, 0.01, 0.7):
        bandit.forget(factor)
        weights = factor * weights
        fresh, paid, who = rng.normal(size=(6, 2)), rng.normal(size=6) + 3.0, rng.choice(ITEMS, 6).tolist()
        bandit.update(fresh, who, paid)
        features, rewards = np.concatenate([features, fresh]), np.append(rewards, paid)
        arms, weights = arms + who, np.append(weights, np.ones(6))
        told = {"noise_sd": noise_sd, "q": 3.0 if offsets else 0.0, "intercept": intercept}
        mean, sd, noise = dense(features, rewards, weights, arms, points, names, **told)
        found = bandit.predict(points, names)
        np.testing.assert_allclose(found[0], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[1], sd, rtol=1e-12)
        assert bandit.noise_sd == pytest.approx(noise, rel=1e-12)
    assert bandit.n_rewards == 30
    assert sum(bandit.pulls.values()) == (30 if offsets else 0)


def test_half_lives_in_decisions_and_in_time_are_steps_of_forgetting():
    rng = np.random.default_rng(2)
    rows, rewards = rng.normal(size=(100, 3, 2)), rng.normal(size=100)
    fading, plain = (SharedLinearBandit(2, rng=1, offsets=True, **more) for more in ({"half_life": 64}, {}))
    for t in range(100):
        one, two = (bandit.select(rows[t], arms=ITEMS[:3]) for bandit in (fading, plain))
        assert one.to_dict() | {"time": 0.0} == two.to_dict() | {"time": 0.0}
        if t % 2:  # two decisions are a 32nd of the half-life
            plain.forget(0.5 ** (2 / 64))
        fading.update(one.context, [one.arm], rewards[t])
        plain.update(one.context, [one.arm], rewards[t])
    hour = datetime.timedelta(hours=1)
    timed = SharedLinearBandit(1, noise_sd=1.0, intercept=False, half_life=hour)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    timed.update([1.0], None, 8.0, time=start)
    timed.update([[1.0], [1.0]], None, [4.0, 4.0], time=[start + hour, start])  # one of them late by an hour
    assert timed.coefficients()[0][0] == pytest.approx((4.0 + 4.0 + 2.0) / (1.0 + 0.5 + 1.0 + 0.5), rel=1e-14)
    timed.select([[1.0]], time=start + 3 * hour)
    assert timed.coefficients()[0][0] == pytest.approx(0.25 * 10.0 / 1.5, rel=1e-14)
    timed.select([[1.0]], time=start)  # clocks that go backwards change nothing
    assert timed.coefficients()[0][0] == pytest.approx(0.25 * 10.0 / 1.5, rel=1e-14)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), st.booleans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_forgetting_twice_is_forgetting_the_product(factors, offsets, seed):
    rng = np.random.default_rng(seed)
    rows, rewards, arms = rng.normal(size=(12, 2)), rng.normal(size=12), rng.choice(ITEMS, 12).tolist()
    one, two = (SharedLinearBandit(2, offsets=offsets, noise_sd=1.0).update(rows, arms, rewards) for _ in range(2))
    for factor in factors:
        one.forget(factor)
    two.forget(float(np.prod(factors)))
    for found, known in zip(one.predict(rows[:4], ITEMS), two.predict(rows[:4], ITEMS), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offsets", [False, True])
def test_evidence_may_fade_altogether(offsets, tmp_path):
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    bandit = SharedLinearBandit(2, offsets=offsets, rng=1).update(rows, ITEMS[:3], [5.0, 6.0, 9.0])
    for _ in range(400):
        bandit.forget(0.1)
        bandit.save(tmp_path / "faded")
        assert SharedLinearBandit.load(tmp_path / "faded").to_bytes() == bandit.to_bytes()
        decision = bandit.select(rows, ITEMS[:3])
        assert np.isfinite(decision.scores).all()
        assert 0.0 <= decision.propensity <= 1.0
    assert bandit.noise_sd is None  # nothing is known any more: choices are uniform
    np.testing.assert_allclose(bandit.propensities(rows, ITEMS[:3]), 1.0 / 3.0)
    bandit.update(rows, ITEMS[:3], [5.0, 6.0, 9.0])
    again = SharedLinearBandit(2, offsets=offsets).update(rows, ITEMS[:3], [5.0, 6.0, 9.0])
    for found, known in zip(bandit.predict(rows, ITEMS[:3]), again.predict(rows, ITEMS[:3]), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-12)


def test_of_little_evidence_the_mean_reward_is_left():
    rows = np.random.default_rng(1).normal(size=(20, 2))
    for factor in (1e-6, 1e-12, 1e-16, 1e-30):
        bandit = SharedLinearBandit(2).update(rows, None, 100.0 + rows[:, 0]).forget(factor)
        np.testing.assert_allclose(bandit.predict(rows[:3])[0], 100.0 + np.mean(rows[:, 0]), atol=0.01)


@pytest.mark.parametrize("power", [-40, 3, 60])
def test_the_unit_of_rewards_changes_no_decision(power):
    def run(unit):
        rng = np.random.default_rng(3)
        bandit = SharedLinearBandit(2, alpha=0.5, offsets=True, half_life=20, rng=4)
        seen = []
        for _ in range(80):
            decision = bandit.select(rng.normal(size=(4, 2)), ITEMS, top=2)
            bandit.update(decision.chosen, decision.slate, unit * rng.normal(size=2))
            seen.append(decision.slate)
        return seen

    assert run(1.0) == run(2.0**power)


def test_it_finds_the_new_best_item_after_a_change():
    """Items change sides at half time; the share of the second half spent on the better one, over 20 runs.

    With a half-life of 30 decisions it is 0.90 (sd of the mean 0.006), without 0.51 (0.057): bounds are 5 sds away.
    """
    share = {}
    for half in (None, 30):
        hits = np.zeros(20)
        for seed in range(20):
            rng = np.random.default_rng(seed)
            bandit = SharedLinearBandit(2, half_life=half, rng=seed)
            for t in range(600):
                decision = bandit.select(np.eye(2))
                better = 0 if t < 300 else 1
                bandit.update(decision.context, None, float(decision.arm == better) + rng.normal() * 0.5)
                hits[seed] += t >= 300 and decision.arm == better
        share[half] = hits.mean() / 300
    assert share[30] > 0.85
    assert share[30] > share[None] + 0.1


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda b: b.forget(1.5), ParameterError, "probability-range"),
        (lambda b: b.forget(None), ParameterError, "not-a-number"),
        (lambda b: SharedLinearBandit(2, half_life=0), ParameterError, "not-positive"),
        (lambda b: SharedLinearBandit(2, half_life="1h"), ParameterError, "not-a-number"),
        (lambda b: b.select([[1.0, 2.0]], time="noon"), ParameterError, "not-a-time"),
        (
            lambda b: b.update([[1.0, 2.0]] * 2, None, [1.0, 2.0], time=[1.0]),
            DataError,
            "wrong-shape",
        ),
    ],
)
def test_bad_calls_change_nothing(call, error, code):
    bandit = SharedLinearBandit(2, half_life=datetime.timedelta(days=1), rng=1)
    bandit.update([[1.0, 0.0], [0.0, 1.0]], None, [1.0, 2.0], time=1e9)
    before = bandit.to_bytes()
    with refused(error, code):
        call(bandit)
    assert bandit.to_bytes() == before


def test_workers_have_streams_of_their_own(tmp_path):
    bandit = SharedLinearBandit(2, noise_sd=1.0, rng=1)
    bandit.save(tmp_path / "state")
    draws = [
        each.select([[1.0, 0.0]]).score
        for each in (bandit.copy(0), SharedLinearBandit.load(tmp_path / "state", stream=0), bandit.copy(1), bandit)
    ]
    assert len(set(draws)) == 4
    assert SharedLinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()
