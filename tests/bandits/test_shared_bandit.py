"""The bandit with shared features against dense Gaussian regression, its own propensities and repeated sampling."""

import copy
import math
import os
import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from _forgery import forged, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import stats

from prudent.bandits import SharedLinearBandit
from prudent.errors import DataError, ParameterError, PosteriorError, StateFileError
from prudent.posteriors.linear import LinearGaussianPosterior

FALSE_ALARM = 1e-6  # of every statistical test as a whole
PRIOR = np.array([[2.0, 0.5], [0.5, 1.0]])


def contents(bandit, tmp_path):
    bandit.save(tmp_path / "state")
    return (tmp_path / "state").read_bytes()


def data(rng, size, dim, noise=0.5):
    features = rng.normal(size=(size, dim))
    return features, features @ np.linspace(-1.0, 1.0, dim) + 2.0 + noise * rng.normal(size=size)


def learned(dim=2, size=40, seed=0, **options):
    """A bandit that has seen some rewards, of five items if it has offsets."""
    rng = np.random.default_rng(seed)
    bandit = SharedLinearBandit(dim, rng=seed, **options)
    features, rewards = data(rng, size, dim)
    names = [f"item {i}" for i in rng.integers(0, 5, size)]
    return bandit.update(features, names if options.get("offsets") else None, rewards)


# -- what is learned ---------------------------------------------------------------------------------------


def test_with_known_noise_it_is_the_linear_posterior():
    features, rewards = data(np.random.default_rng(1), 50, 2)
    points = np.random.default_rng(2).normal(size=(200, 2))  # several blocks
    bandit = SharedLinearBandit(2, noise_sd=0.7, prior_precision=PRIOR, intercept=False).update(features, None, rewards)
    expected = LinearGaussianPosterior(2, PRIOR, 0.7).update(features, rewards)
    assert bandit.posterior == expected
    for found, known in zip(bandit.predict(points), expected.predict(points), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-13, atol=1e-14)
    constant = LinearGaussianPosterior(3, 1.0, 0.7).update(np.column_stack([np.ones(50), features]), rewards)
    bandit = SharedLinearBandit(2, noise_sd=0.7).update(features, None, rewards)
    for found, known in zip(
        bandit.predict(points), constant.predict(np.column_stack([np.ones(200), points])), strict=True
    ):
        np.testing.assert_allclose(found, known, rtol=1e-13, atol=1e-14)
    mean, sd = bandit.coefficients()
    np.testing.assert_allclose(mean, constant.mean(), rtol=1e-13)
    np.testing.assert_allclose(sd**2, constant.variance(), rtol=1e-13)


def dense(design, rewards, prior, level):
    """Mean and covariance over nu^2 of the coefficients, and nu, by the dense normal law of all rewards."""
    size = len(rewards)
    covariance = np.eye(size) + design @ np.linalg.solve(prior, design.T)
    c = 0.0
    if level is not None:
        direction = design @ level
        solved = np.linalg.solve(covariance, direction)
        c = (solved @ rewards) / (solved @ direction)
        rewards = rewards - c * direction
    noise = math.sqrt(rewards @ np.linalg.solve(covariance, rewards) / (size - (level is not None)))
    precision = prior + design.T @ design
    mean = np.linalg.solve(precision, design.T @ rewards)
    return mean + (c * level if level is not None else 0.0), np.linalg.inv(precision), noise


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("size", [2, 3, 60])
def test_learned_noise_is_that_of_the_dense_normal_law(intercept, size):
    features, rewards = data(np.random.default_rng(size), size, 2)
    points = np.random.default_rng(2).normal(size=(7, 2))
    bandit = SharedLinearBandit(2, prior_precision=PRIOR, intercept=intercept).update(features, None, rewards)
    prior, design, rows, level = PRIOR, features, points, None
    if intercept:
        prior = np.eye(3)
        prior[1:, 1:] = PRIOR
        design, rows = np.column_stack([np.ones(size), features]), np.column_stack([np.ones(7), points])
        level = np.array([1.0, 0.0, 0.0])
    mean, covariance, noise = dense(design, rewards, prior, level)
    assert bandit.noise_sd == pytest.approx(noise, rel=1e-11)
    found_mean, found_sd = bandit.predict(points)
    np.testing.assert_allclose(found_mean, rows @ mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found_sd, noise * np.sqrt(np.einsum("ki,ij,kj->k", rows, covariance, rows)), rtol=1e-10)
    np.testing.assert_allclose(bandit.posterior.mean(), mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(bandit.posterior.predict(rows)[1], found_sd, rtol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("noise_sd", [None, 0.7])
def test_offsets_are_a_dense_joint_regression(intercept, noise_sd):
    """Coefficients and offsets of all items at once, 60 rewards of 6 items."""
    rng = np.random.default_rng(4)
    features, rewards = data(rng, 60, 2)
    items = rng.integers(0, 6, 60)
    rewards += np.linspace(-1.0, 1.0, 6)[items]
    options = {"offsets": True, "offset_precision": 0.4, "intercept": intercept, "noise_sd": noise_sd}
    bandit = SharedLinearBandit(2, **options).update(features[:50], items[:50], rewards[:50])
    for i in range(50, 60):
        bandit.update(features[i], items[i], rewards[i])
    first = int(intercept)
    own = np.eye(6)[items]
    design = np.hstack([np.ones((60, first)), features, own])
    prior = np.diag([1.0] * (2 + first) + [0.4] * 6)
    level = np.eye(9)[0] if intercept and noise_sd is None else None
    mean, covariance, noise = dense(design, rewards, prior, level)
    noise = noise if noise_sd is None else noise_sd
    assert bandit.noise_sd == pytest.approx(noise, rel=1e-11)
    points = rng.normal(size=(8, 2))
    whole = np.hstack([np.ones((8, first)), points, np.vstack([np.eye(6), np.zeros((2, 6))])])
    found_mean, found_sd = bandit.predict(points, arms=[0, 1, 2, 3, 4, 5, "new", 99])
    extra = np.array([0.0] * 6 + [1 / 0.4] * 2)  # of items not seen before
    sds = noise * np.sqrt(np.einsum("ki,ij,kj->k", whole, covariance, whole) + extra)
    np.testing.assert_allclose(found_mean, whole @ mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found_sd, sds, rtol=1e-10)
    assert bandit.pulls == {int(i): int((items == i).sum()) for i in dict.fromkeys(items.tolist())}


def test_batch_is_sequential(tmp_path):
    features, rewards = data(np.random.default_rng(5), 30, 3)
    for options in ({}, {"offsets": True}):
        names = [i % 4 for i in range(30)]
        batch = SharedLinearBandit(3, rng=1, **options).update(features, names, rewards)
        single = SharedLinearBandit(3, rng=1, **options)
        for i in range(30):
            single.update(features[i], names[i], rewards[i])
        assert contents(batch, tmp_path) == contents(single, tmp_path)


def test_rewards_far_from_zero_lose_little():
    """Rewards near a million are learned as the same rewards near zero, but for the rounding of their squares."""
    features, rewards = data(np.random.default_rng(6), 300, 3, noise=1e-3)
    rewards = np.round(rewards * 2**20) / 2**20  # so that adding a million is exact
    near = SharedLinearBandit(3).update(features, None, rewards)
    far = SharedLinearBandit(3).update(features, None, rewards + 1e6)
    assert far.noise_sd == pytest.approx(near.noise_sd, rel=1e-3)
    np.testing.assert_allclose(far.predict(features)[0] - 1e6, near.predict(features)[0], atol=1e-8)


def test_many_features_are_updated_and_worked_out_anew(tmp_path):
    """From 64 features on the root is updated: the same posterior as from the sums, and the same after a restart."""
    rng = np.random.default_rng(7)
    features, rewards = data(rng, 1300, 70)
    bandit = SharedLinearBandit(70, rng=3).update(features[:100], None, rewards[:100])
    for i in range(100, 1300):
        if i % 400 == 0:
            bandit.select(features[:3])
        bandit.update(features[i], None, rewards[i])
    assert 0 < bandit.belief._absorbed < 1200
    bandit.save(tmp_path / "bandit")
    again = SharedLinearBandit.load(tmp_path / "bandit")
    assert again.select(features[:9]).score == bandit.select(features[:9]).score
    assert contents(again, tmp_path) == contents(bandit, tmp_path)
    fresh = SharedLinearBandit(70).update(features, None, rewards)
    for found, known in zip(bandit.predict(features[:50]), fresh.predict(features[:50]), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-12)
    assert bandit.noise_sd == pytest.approx(fresh.noise_sd, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"alpha": 0.7}, {"offsets": True}, {"draws": "joint"}, {"intercept": False}])
@pytest.mark.parametrize("power", [-40, 3, 60])
def test_the_unit_of_rewards_changes_no_bit_of_a_decision(options, power):
    rng = np.random.default_rng(8)
    one, two = (SharedLinearBandit(3, rng=5, min_propensity=0.01, **options) for _ in range(2))
    unit = 2.0**power
    for _ in range(40):
        rows = rng.normal(size=(6, 3))
        first, second = (bandit.select(rows, arms=range(6), top=2) for bandit in (one, two))
        assert first.slate == second.slate
        assert first.propensity == second.propensity
        np.testing.assert_array_equal(first.scores * unit, second.scores)
        rewards = rng.normal(size=2) + 1.0
        one.update(first.chosen, first.slate, rewards)
        two.update(second.chosen, second.slate, rewards * unit)


# -- decisions ---------------------------------------------------------------------------------------------


def test_before_two_different_rewards_all_are_equal():
    bandit = SharedLinearBandit(2, alpha=0.9, rng=1)
    rows = [[1.0, 2.0], [50.0, 0.0], [0.0, 0.0]]
    for _ in range(3):
        decision = bandit.select(rows)
        assert decision.propensity == 1 / 3
        np.testing.assert_array_equal(decision.propensities, np.full(3, 1 / 3))
        assert np.isinf(decision.sd).all()
        assert bandit.noise_sd is None
        bandit.update(decision.context, None, 5.0)
    with refused(PosteriorError, "unknown-noise"):
        _ = bandit.posterior
    assert bandit.update([1.0, 0.0], None, 4.0).noise_sd > 0.0
    assert np.isfinite(bandit.select(rows).sd).all()


def check_frequencies(counts, chances):
    """A chi-square test of counts at the level FALSE_ALARM; rare cells are pooled."""
    total = counts.sum()
    rare = total * chances < 10.0
    observed, expected = counts[~rare], total * chances[~rare]
    if rare.any():
        observed, expected = np.append(observed, counts[rare].sum()), np.append(expected, total * chances[rare].sum())
    keep = expected > 1e-9
    assert observed[~keep].sum() == 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / np.maximum(expected[keep], 0.1)).sum()
    if keep.sum() > 1 and expected[keep].min() > 5.0:
        assert statistic < stats.chi2.isf(FALSE_ALARM, keep.sum() - 1)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 0.9])
@pytest.mark.parametrize(
    ("k", "options"), [(2, {}), (30, {}), (6, {"offsets": True}), (6, {"min_propensity": 0.05}), (5, {"noise_sd": 0.8})]
)
def test_decisions_follow_the_propensities(alpha, k, options):
    bandit = learned(alpha=alpha, size=12, **options)
    rows = 0.7 * np.random.default_rng(k).normal(size=(k, 2))
    names = [f"item {i}" for i in range(k)]
    decision = bandit.select(rows, names)
    chances = decision.propensities
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert decision.propensity == pytest.approx(chances[names.index(decision.arm)], abs=1e-12)
    assert decision.propensity_error == 0.0
    np.testing.assert_array_equal(bandit.propensities(rows, names), chances)
    assert chances.min() >= options.get("min_propensity", 0.0)
    counts = np.zeros(k)
    for _ in range(4000):
        counts[names.index(bandit.select(rows, names).arm)] += 1
    check_frequencies(counts, chances)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7])
@pytest.mark.parametrize("offsets", [False, True])
def test_joint_decisions_follow_the_sampled_propensities(alpha, offsets):
    """Two samples of the same chances, the error of each known: a normal test at 1e-6 for each of six items."""
    bandit = learned(alpha=alpha, size=12, draws="joint", offsets=offsets)
    rows = 0.7 * np.random.default_rng(3).normal(size=(6, 2))
    names = [f"item {i}" for i in range(6)]
    decision = bandit.select(rows, names, top=2)
    chances, errors = decision.inclusion(draws=4000, rng=1)
    assert chances.sum() == pytest.approx(2.0, abs=1e-9)
    counts, firsts = np.zeros(6), np.zeros(6)
    for _ in range(4000):
        places = [names.index(arm) for arm in bandit.select(rows, names, top=2).slate]
        counts[places] += 1
        firsts[places[0]] += 1
    bound = stats.norm.isf(FALSE_ALARM / 24)
    spread = np.sqrt(errors**2 + chances * (1 - chances) / 4000 + 1e-6)
    assert (np.abs(counts / 4000 - chances) < bound * spread).all()
    first = decision.propensities
    assert first.sum() == pytest.approx(1.0, abs=1e-9)
    assert (np.abs(firsts / 4000 - first) < bound * np.sqrt(first * (1 - first) / 2000 + 1e-6)).all()
    assert decision.propensity_error > 0.0


def test_joint_scores_are_those_of_one_theta():
    """Without offsets equal rows get equal scores, and half a row half of what is above the intercept."""
    bandit = SharedLinearBandit(2, noise_sd=1.0, intercept=False, draws="joint", rng=1)
    decision = bandit.select([[2.0, 2.0], [1.0, 1.0], [-1.0, -1.0]], top=3)
    scores = dict(zip(decision.slate, decision.scores, strict=True))
    assert scores[0] == pytest.approx(2 * scores[1]) == pytest.approx(-2 * scores[2])
    firsts = {bandit.select([[1.0, 2.0]] * 4).arm for _ in range(200)}  # ties: 1e-24 that one of four never wins
    assert firsts == {0, 1, 2, 3}


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("floor", [0.0, 0.02])
def test_slates_follow_the_inclusion_chances(alpha, floor):
    bandit = learned(alpha=alpha, size=12, min_propensity=floor)
    rows = np.random.default_rng(3).normal(size=(12, 2))
    decision = bandit.select(rows, top=4)
    assert len(set(decision.slate)) == 4
    assert (np.diff(decision.scores) <= 0.0).all() or floor > 0.0
    chances, errors = decision.inclusion(draws=4000)
    assert chances.sum() == pytest.approx(4.0, abs=6 * np.sqrt((errors**2).sum()) + 1e-6)
    counts = np.zeros(12)
    for _ in range(4000):
        counts[list(bandit.select(rows, top=4).slate)] += 1
    spread = np.sqrt(errors**2 + chances * (1 - chances) / 4000 + 1e-7)
    assert (np.abs(counts / 4000 - chances) < stats.norm.isf(FALSE_ALARM / 24) * spread).all()
    whole = bandit.select(rows, top=12)
    assert sorted(whole.slate) == list(range(12))
    np.testing.assert_array_equal(whole.inclusion().chance, np.ones(12))


def test_inclusion_in_one_place_is_the_propensity():
    decision = learned(size=12).select(np.random.default_rng(3).normal(size=(9, 2)))
    chances, errors = decision.inclusion(draws=3000)
    bound = stats.norm.isf(FALSE_ALARM / 18)
    assert (np.abs(chances - decision.propensities) < bound * errors + 1e-6).all()


def test_rows_of_zeros_beside_others():
    """A score without spread is beaten by those above it: propensities against repeated sampling and a closed form."""
    bandit = SharedLinearBandit(1, noise_sd=1.0, intercept=False, rng=2).update([[1.0]] * 3, None, [0.4] * 3)
    decision = bandit.select([[0.0], [1.0], [0.0]])
    above = stats.norm.sf(0.0, *(float(part[1]) for part in (decision.mean, decision.sd)))
    np.testing.assert_allclose(decision.propensities, [(1 - above) / 2, above, (1 - above) / 2], atol=1e-9)
    np.testing.assert_allclose(bandit.propensities([[0.0], [0.0]]), [0.5, 0.5], atol=1e-12)
    counts = np.bincount([bandit.select([[0.0], [1.0], [0.0]]).arm for _ in range(4000)], minlength=3)
    check_frequencies(counts, decision.propensities)


def test_a_thousand_items():
    bandit = learned(dim=20, size=200)
    rows = np.random.default_rng(1).normal(size=(1000, 20))
    decision = bandit.select(rows, top=10)
    chances = bandit.propensities(rows)
    assert chances.sum() == pytest.approx(1.0, abs=1e-11)
    assert decision.propensity == pytest.approx(chances[decision.arm], abs=1e-11)
    equal = SharedLinearBandit(20, noise_sd=1.0, rng=1).select(np.ones((1000, 20)))
    assert equal.propensity == pytest.approx(1e-3, abs=1e-11)


def test_looking_changes_nothing(tmp_path):
    bandit = learned(alpha=0.5, offsets=True)
    rows, names = np.eye(2), ["item 0", "other"]
    before = contents(bandit, tmp_path)
    decision_free = bandit.propensities(rows, names), bandit.predict(rows, names), bandit.score(rows, names)
    assert bandit.noise_sd > 0.0
    assert len(decision_free) == 3
    assert contents(bandit, tmp_path) == before
    mean, sd = bandit.predict(rows, names)
    np.testing.assert_allclose(bandit.score(rows, names), mean - sd * stats.norm.pdf(0.0) / 0.5, rtol=1e-12)


def test_a_decision_keeps_what_it_was():
    bandit = learned(draws="joint")
    rows = np.random.default_rng(1).normal(size=(5, 2))
    given = rows.copy()
    one = bandit.select(rows)
    two = copy.deepcopy(bandit)
    rows[:] = 0.0
    bandit.update([1.0, 1.0], None, 1e6)
    np.testing.assert_array_equal(one.candidates, given)
    assert one.propensity == one.propensities[one.arm]
    assert one.propensity == pytest.approx(two.propensities(given)[one.arm], abs=0.2)
    logged = one.to_dict()
    assert logged["arm"] == one.arm
    assert logged["context"] == given[one.arm].tolist()


def test_it_learns_which_items_pay():
    """After 300 rounds with cold items in every round, the best of five is chosen more often than by chance.

    If choices were uniform, 100 or more of the last 200 would be right with a chance below 1e-12.
    """
    rng = np.random.default_rng(11)
    bandit, hits = SharedLinearBandit(3, rng=4), 0
    for t in range(300):
        rows = rng.normal(size=(5, 3))
        pay = rows @ [1.0, -1.0, 0.5]
        decision = bandit.select(rows, arms=[f"new {t}-{i}" for i in range(5)])
        place = decision.arms.index(decision.arm)
        hits += t >= 100 and place == int(np.argmax(pay))
        bandit.update(decision.context, None, 100.0 + 7.0 * (pay[place] + 0.3 * rng.normal()))
    assert hits >= 100


# -- names and rows ----------------------------------------------------------------------------------------


def test_names_of_any_kind():
    bandit = SharedLinearBandit(2, rng=1)
    frame = pd.DataFrame({"price": [0.1, 0.2], "size": [1.0, 2.0]}, index=["small", "large"])
    assert bandit.select(frame).arms == ("small", "large")
    assert bandit.select(frame, arms=["a", 7]).arms == ("a", 7)
    assert bandit.select(frame.to_numpy()).arms == (0, 1)
    for arms in (np.array([3, 4]), pd.Series([3, 4]), [np.int64(3), 4], range(3, 5)):
        decision = bandit.select(frame, arms=arms)
        assert decision.arms == (3, 4)
        assert type(decision.arm) is int


def test_bandit_from_a_log():
    features, rewards = data(np.random.default_rng(1), 20, 2)
    names = [f"item {i % 3}" for i in range(20)]
    expected = SharedLinearBandit(2, offsets=True).update(features, names, rewards).predict(features[:3], names[:3])
    rows = list(zip(features.tolist(), names, rewards.tolist(), strict=True))
    table = {"context": features.tolist(), "arm": names, "reward": rewards}
    for log in (rows, table, pd.DataFrame(table)):
        bandit = SharedLinearBandit.from_log(log, alpha=0.5, offsets=True)
        np.testing.assert_array_equal(bandit.predict(features[:3], names[:3]), expected)
        assert bandit.alpha == 0.5
    for log in ([(row[0], row[2]) for row in rows], rows, {"context": features, "reward": rewards}):
        assert SharedLinearBandit.from_log(log).n_rewards == 20


ROWS = [[1.0, 2.0], [3.0, 4.0]]
BAD = [
    (lambda b: b.select([1.0, 2.0]), DataError, "wrong-shape"),
    (lambda b: b.select([[1.0], [2.0]]), DataError, "wrong-shape"),
    (lambda b: b.select([[1.0, np.nan]]), DataError, "not-finite"),
    (lambda b: b.select([[1.0, 1e200]]), DataError, "too-large"),
    (lambda b: b.select([["a", "b"]]), DataError, "not-numbers"),
    (lambda b: b.select(np.empty((0, 2))), ParameterError, "empty"),
    (lambda b: b.select(ROWS, arms=["a"]), ParameterError, "wrong-shape"),
    (lambda b: b.select(ROWS, arms=["a", "a"]), ParameterError, "duplicate-name"),
    (lambda b: b.select(ROWS, arms="ab"), ParameterError, "wrong-type"),
    (lambda b: b.select(ROWS, arms=["a", 1.5]), ParameterError, "wrong-type"),
    (lambda b: b.select(ROWS, arms=["a", True]), ParameterError, "wrong-type"),
    (lambda b: b.select(ROWS, top=3), ParameterError, "integer-range"),
    (lambda b: b.select(ROWS, top=0), ParameterError, "integer-range"),
    (lambda b: b.select([[1.0, 2.0]] * 30), ParameterError, "probability-range"),
    (lambda b: b.update([1.0, 2.0], None, np.inf), DataError, "not-finite"),
    (lambda b: b.update([1.0, 2.0], None, 1e200), DataError, "too-large"),
    (lambda b: b.update([1.0, 2.0], None, "much"), DataError, "not-numbers"),
    (lambda b: b.update(ROWS, None, [1.0]), DataError, "wrong-shape"),
    (lambda b: b.update([1.0], None, 1.0), DataError, "wrong-shape"),
    (lambda b: b.select(ROWS, propensity=False).inclusion(), ParameterError, "no-propensity"),
    (lambda b: SharedLinearBandit(0), ParameterError, "integer-range"),
    (lambda b: SharedLinearBandit(2, alpha=1.0), ParameterError, "alpha-range"),
    (lambda b: SharedLinearBandit(2, draws="both"), ParameterError, "unknown-option"),
    (lambda b: SharedLinearBandit(2, noise_sd=0.0), ParameterError, "not-positive"),
    (lambda b: SharedLinearBandit(2, min_propensity=1.5), ParameterError, "probability-range"),
    (lambda b: SharedLinearBandit(2, min_propensity="x"), ParameterError, "not-a-number"),
    (lambda b: SharedLinearBandit(2, intercept=1), ParameterError, "not-a-bool"),
    (lambda b: SharedLinearBandit(2, offset_precision=-1.0), ParameterError, "not-positive"),
    (lambda b: SharedLinearBandit(2, prior_precision=np.eye(5)), PosteriorError, "wrong-shape"),
    (lambda b: SharedLinearBandit(2, offsets=True).select(ROWS), ParameterError, "missing-argument"),
    (lambda b: SharedLinearBandit(2, offsets=True).update(ROWS, None, [1.0, 2.0]), DataError, "missing-argument"),
    (lambda b: SharedLinearBandit(2, offsets=True).update(ROWS, ["a"], [1, 2]), DataError, "wrong-shape"),
    (lambda b: SharedLinearBandit.from_log([]), DataError, "no-rows"),
    (lambda b: SharedLinearBandit.from_log([([1.0], 1.0), ([1.0], "a", 1.0)]), DataError, "row-width"),
    (lambda b: SharedLinearBandit.from_log(5), DataError, "wrong-type"),
    (lambda b: SharedLinearBandit.from_log([([1.0],)]), DataError, "row-width"),
    (lambda b: SharedLinearBandit.from_log({"context": [[1.0]]}), DataError, "missing-column"),
]


@pytest.mark.parametrize(("call", "error", "code"), BAD)
def test_bad_calls_name_the_fault_and_leave_the_state_alone(call, error, code, tmp_path):
    bandit = learned(min_propensity=0.05)
    before = contents(bandit, tmp_path)
    with refused(error, code):
        call(bandit)
    if code != "no-propensity":
        assert contents(bandit, tmp_path) == before


def test_propensity_can_be_left_out():
    decision = learned().select(ROWS, propensity=False)
    assert decision.propensity is decision.propensities is decision.propensity_error is None
    assert "Decision(arm=" in repr(decision)


# -- state -------------------------------------------------------------------------------------------------


OPTIONS = [
    {},
    {"alpha": 0.7, "offsets": True},
    {"draws": "joint", "offsets": True, "alpha": 0.5},
    {"noise_sd": 0.5, "min_propensity": 0.1, "intercept": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_restarts_leave_the_trajectory_identical(options, tmp_path):
    def run(restart):
        bandit, rng, seen = SharedLinearBandit(2, rng=9, **options), np.random.default_rng(1), []
        for t in range(40):
            rows = rng.normal(size=(4, 2))
            decision = bandit.select(rows, arms=["a", "b", 3, f"new {t}"], top=2)
            bandit.update(decision.chosen, decision.slate, rng.normal(size=2))
            seen.append((decision.slate, decision.scores.tolist(), decision.propensity))
            if restart and t % 3 == 0:
                bandit.save(tmp_path / "bandit")
                bandit = SharedLinearBandit.load(tmp_path / "bandit")
            elif restart and t % 3 == 1:
                bandit = pickle.loads(pickle.dumps(bandit))
            elif restart:
                bandit, old = copy.copy(bandit), bandit
                old.update([1.0, 1.0], "a", 9.0)  # which no copy learns
        return seen, contents(bandit, tmp_path)

    assert run(True) == run(False)


def test_load_on_a_bandit_replaces_its_state(tmp_path):
    learned(seed=1).save(tmp_path / "one")
    bandit = SharedLinearBandit(7)
    assert bandit.load(tmp_path / "one") is bandit
    assert (bandit.dim, bandit.n_rewards) == (2, 40)


def test_forged_files_are_refused_or_work(tmp_path):
    """Random changes of fields and entries under a valid checksum, as in test_state."""
    rng = np.random.default_rng(3)
    goods = []
    for options in OPTIONS:
        bandit = learned(size=6, **options)
        bandit.select(ROWS, arms=["item 0", "b"])
        goods.append(contents(bandit, tmp_path))
    loaded = 0
    for _ in range(600):
        (tmp_path / "forged").write_bytes(forged(goods[rng.integers(len(goods))], rng))
        try:
            bandit = SharedLinearBandit.load(tmp_path / "forged")
        except StateFileError:
            continue
        loaded += 1
        rows = np.random.default_rng(0).normal(size=(3, bandit.dim))
        try:
            decision = bandit.select(rows, arms=["item 0", 1, "c"], top=2)
        except ParameterError as error:
            assert "min_propensity" in str(error)  # noqa: PT017
            continue
        assert 0.0 <= decision.propensity <= 1.0
        assert np.isfinite(decision.scores).all()
        bandit.update(decision.chosen, decision.slate, [1.0, 2.0])
        bandit.save(tmp_path / "again")
        SharedLinearBandit.load(tmp_path / "again")
    assert loaded < 300
    header, _ = opened(goods[0])
    assert header["kind"] == "SharedLinearBandit"


def test_states_that_contradict_themselves_are_refused(tmp_path):
    good = learned(offsets=True, size=6)
    cases = [
        ("_rewards", 7, "items with"),
        ("_range", (0.0, 1e200), "range"),
        ("_range", (2.0, 1.0), "range"),
        ("_item_means", np.full((3, 4), np.nan), "no number"),
    ]
    for name, value, message in cases:
        bandit = copy.deepcopy(good)
        setattr(bandit.belief, name, value)
        (tmp_path / "bad").write_bytes(bandit.to_bytes())
        with pytest.raises(StateFileError, match=message):
            SharedLinearBandit.load(tmp_path / "bad")
    large = learned(dim=70, size=100)
    large.select(np.ones((2, 70)))
    large.belief._root[3, 2] += 0.1
    (tmp_path / "bad").write_bytes(large.to_bytes())
    with refused(StateFileError, "damaged-file"):
        SharedLinearBandit.load(tmp_path / "bad")


def test_scores_before_the_noise_is_known():
    bandit = SharedLinearBandit(2, alpha=0.5)
    assert (bandit.score(ROWS) == -np.inf).all()
    np.testing.assert_array_equal(bandit.score(ROWS, alpha=0.0), np.zeros(2))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_takes_its_own_decisions():
    bandit = SharedLinearBandit(2, noise_sd=1.0, rng=1)
    bandit.select(ROWS)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, np.float64(bandit.select(ROWS).score).tobytes())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    theirs = np.frombuffer(os.read(reader, 8))[0]
    os.close(reader)
    os.close(writer)
    again = SharedLinearBandit(2, noise_sd=1.0, rng=1)
    again.select(ROWS)
    mine = bandit.select(ROWS).score
    assert mine == again.select(ROWS).score != theirs


# -- threads -----------------------------------------------------------------------------------------------


def test_threads_share_a_bandit():
    """Rewards and features are small integers, so that sums do not depend on the order: nothing is lost or repeated."""
    bandit = SharedLinearBandit(2, rng=1, offsets=False)
    bandit.update([[1.0, 0.0], [0.0, 1.0]], None, [1.0, 2.0])
    scores, lock = [], threading.Lock()

    def work(number):
        rng = np.random.default_rng(number)
        own = []
        for _ in range(250):
            rows = rng.integers(-3, 4, size=(3, 2)).astype(float)
            decision = bandit.select(rows)
            own.append(decision.score)
            bandit.update([1.0, 2.0], None, float(rng.integers(0, 5)))
            assert bandit.propensities(rows).sum() == pytest.approx(1.0)
        with lock:
            scores.extend(own)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bandit.decisions == len(set(scores)) == 1000
    assert bandit.n_rewards == 1002
    expected = SharedLinearBandit(2).update([[1.0, 0.0], [0.0, 1.0]], None, [1.0, 2.0])
    for number in range(4):
        rng = np.random.default_rng(number)
        for _ in range(250):
            rng.integers(-3, 4, size=(3, 2))
            expected.update([1.0, 2.0], None, float(rng.integers(0, 5)))
    assert expected.posterior == bandit.posterior


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(-140, 140), st.floats(-140, 140))
def test_no_scale_of_features_or_rewards_breaks_a_decision(seed, k, features_scale, rewards_scale):
    """Scales from 1e-140 to 1e140: decisions have finite scores and chances that sum to one, or are refused."""
    rng = np.random.default_rng(seed)
    bandit = SharedLinearBandit(2, rng=seed)
    unit, pay = 10.0**features_scale, 10.0**rewards_scale
    for _ in range(4):
        before = bandit.to_bytes()
        try:
            decision = bandit.select(unit * rng.normal(size=(k, 2)))
            assert np.isfinite(decision.score)
            assert decision.propensities.sum() == pytest.approx(1.0, abs=1e-9)
            before = bandit.to_bytes()
            bandit.update(decision.context, None, pay * rng.normal())
        except DataError as error:
            if error.code != "too-large":
                raise
            assert max(features_scale, rewards_scale) > 5
            assert bandit.to_bytes() == before
