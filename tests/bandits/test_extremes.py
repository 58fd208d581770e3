"""Numbers from 1e-300 to 1e300: finite results or our errors, and every state loads."""

import warnings

import _extremes
import numpy as np
import pytest
from _learned import learned
from refusals import refused
from scipy import stats

from prudent.bandits import LinearBandit, SharedLinearBandit, SparseLinearBandit
from prudent.bandits.checkup import item_checkup
from prudent.bandits.law.score_law import score_law
from prudent.errors import DataError, PrudentWarning
from prudent.journal import Journal


def test_contexts_of_a_million_in_half_of_the_rows_leave_clicks_that_load():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bandit = LinearBandit(3, 4, rewards="bernoulli", rng=1)
        for _ in range(40):
            point = rng.normal(size=4) * (1e6 if rng.random() < 0.5 else 1.0)
            bandit.update(point, int(rng.integers(3)), int(rng.integers(2)))
        assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


def test_contexts_of_1e13_are_clicks_or_our_error():
    refusals = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bandit = LinearBandit(3, 4, rewards="bernoulli", rng=1)
        for _ in range(40):
            point = rng.normal(size=4) * (1e13 if rng.random() < 0.5 else 1.0)
            try:
                bandit.update(point, int(rng.integers(3)), int(rng.integers(2)))
            except DataError as error:
                if error.code != "too-large":
                    raise
                refusals += 1
        assert np.isfinite(bandit.select(np.ones(4)).score)
        LinearBandit.from_bytes(bandit.to_bytes())
    assert refusals < 40 * 40


@pytest.mark.parametrize("size", [1e149, 9.9e149, 1e120, 1e59])
@pytest.mark.parametrize("made", [lambda: LinearBandit(2, 3, rng=1), lambda: SharedLinearBandit(3, rng=1)])
def test_large_contexts_are_finite_or_refused_and_change_nothing(tmp_path, made, size):
    rng = np.random.default_rng(4)
    with Journal(tmp_path / "j", made()) as live:
        items = isinstance(live.bandit, SharedLinearBandit)
        for _ in range(8):
            before, count = learned(live.bandit), len(list(live.rows()))
            try:
                decision = live.select(size * rng.normal(size=(2, 3)) if items else size * rng.normal(size=3))
                assert np.isfinite(decision.score)
                live.reward(decision.id, float(rng.normal()))
            except DataError as error:
                if error.code != "too-large":
                    raise
                if len(list(live.rows())) == count:
                    assert learned(live.bandit) == before
        live.verify()
    with Journal(tmp_path / "j") as live:
        assert all(np.isfinite(row["score"]) for row in live.rows())


def test_two_features_that_drown_the_prior_are_refused():
    """Their product is rounded by more than the prior precision, and the posterior would be noise."""
    bandit = LinearBandit(1, 2, noise_sd=1.0, rng=1)
    before = bandit.to_bytes()
    with refused(DataError, "too-large", argument="context"):
        bandit.update([1e11, 1.3e11], 0, 1.0)
    with refused(DataError, "too-large", argument="context"):
        bandit.update([[1.0, 2.0], [1e11, 1.3e11]], [0, 0], [1.0, 1.0])
    assert bandit.to_bytes() == before
    assert bandit.update([1e11, 0.0], 0, 1.0).n_rewards == 1  # one alone does no harm


def test_a_gain_that_has_faded_far_loads():
    bandit = LinearBandit(1, 1, noise_sd=1.0).update([1.0], 0, 1.0)
    for factor in (0.5**60 * 0.6, 0.9, 1e-20, 0.3):
        bandit.forget(factor)
        assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


def same_again(bandit):
    return type(bandit).from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()


@pytest.mark.parametrize("value", [1e6, 1e9, 1e30, 1e59])
def test_sparse_variances_of_large_contexts_are_exact_and_load(value):
    """With one value nothing is dropped: the precision is that of the prior and the square of the value."""
    bandit = SparseLinearBandit(1, 3, noise_sd=1.0, intercept=False, prior_precision=2.0)
    bandit.update([0.0, value, 0.0], 0, value)
    mean, covariance = bandit.belief.coefficients()
    np.testing.assert_allclose(covariance[0, 1, 1], 1.0 / (2.0 + value**2), rtol=1e-14)
    np.testing.assert_allclose(mean[0, 1], value**2 / (2.0 + value**2), rtol=1e-14)
    assert same_again(bandit)
    bandit.update([0.0, value, 1.0], 0, 1.0)  # the other value has kept its digits
    np.testing.assert_allclose(
        np.diagonal(bandit.belief.coefficients()[1][0])[2], 0.5 - 0.25 / (0.5 + 1.0 + 1.0), rtol=1e-12
    )
    assert same_again(bandit)


def test_a_refused_batch_leaves_a_sparse_bandit_as_it_was():
    bandit = SparseLinearBandit(2, 3, prior_precision=1e-60, rng=1).update([[1.0, 2.0, 3.0]] * 2, [0, 1], [1.0, 3.0])
    before = bandit.to_bytes()
    with refused(DataError, "too-large", argument="context"):
        bandit.update([[1.0, 0.0, 2.0], [1e60, 1.0, 1.0]], [0, 1], [2.0, 1.0])
    assert bandit.to_bytes() == before
    with refused(DataError, "too-large", argument="context"):
        bandit.update([1e60, 1.0, 1.0], 1, 1.0)
    assert bandit.to_bytes() == before


def test_what_a_sparse_bandit_forgets_for_good_loads():
    bandit = SparseLinearBandit(2, 3, rng=1).update([[1.0, 2.0, 3.0]] * 3, [0, 1, 0], [1.0, 3.0, 2.0])
    for factor in (1e-300, 0.5, 1e-300, 0.0):
        bandit.forget(factor)
        assert same_again(bandit)
    np.testing.assert_allclose(bandit.belief.spread, 1.0)
    assert bandit.noise_sd is None
    assert same_again(bandit.update([1.0, 0.0, 0.0], 0, 5.0))
    assert bandit.predict([1.0, 0.0, 0.0])[0][0] == pytest.approx(5.0)  # the first reward is the level again


def test_empty_contexts_of_sparse_bandits_have_finite_scores():
    """Without a constant feature nothing is unknown about a context of zeros, and 0 times no noise is no number."""
    bandit = SparseLinearBandit(2, 3, intercept=False, rng=1)
    np.testing.assert_array_equal(bandit.propensities(np.zeros((2, 3))), 0.5)
    assert np.isfinite(bandit.select(np.zeros((2, 3))).score).all()


def test_sparse_bandits_show_what_they_know():
    bandit = SparseLinearBandit(["a", "b"], 2, rng=1).update([[1.0, 2.0], [0.0, 1.0]], ["a", "b"], [1.0, 3.0])
    data = bandit.to_xarray()
    assert data["pulls"].values.tolist() == [1, 1]
    assert np.isfinite(data["mean"].values).all()
    assert bandit.interactions_found == ()
    assert bandit.plot() is not None


@pytest.mark.parametrize("size", [1.0, 1e4, 1e7])
def test_interactions_keep_a_row_of_any_size_once(size):
    """A large context is learned as a batch of one, which kept it a second time."""
    points = size * np.eye(2)[np.arange(30) % 2]
    bandit = LinearBandit(2, 2, interactions="auto", intercept=False, rng=1)
    for t, point in enumerate(points):
        bandit.update(point, t % 2, float(t % 3))
        np.testing.assert_array_equal(bandit.belief.arrays()["kept_points"], points[: t + 1])
        assert same_again(bandit)


def test_fuzzed_lives(seed):
    assert _extremes.main(seed, 25) == 0


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_lives(seed):
    assert _extremes.main(seed, 100_000, workers=8) == 0


@pytest.mark.parametrize(
    "seed",
    [
        9910000013,  # arms that forget: less certain than before data when they are solved again
        9920000511,  # items whose evidence fades
        9920000567,  # means of 1e124 from two features that could not be told apart
        9920000709,  # a refused batch left the noise of other arms behind
        9920000973,  # counts that could not be faded had moved their clock
        9920001903,  # a prior like that of others which was not that of its own inverse
        9920002437,  # propensities that were not numbers
        9920002774,  # a prior that cannot be inverted
        9930000714,  # chances of arms that are 1e102 scales apart
        9930001908,  # first counts that were refused left roots of another prior behind
        202611180001038,  # sds of scores that overflowed in many contexts at a time
        202611180017940,  # clicks of features that cannot be told apart: a posterior solved again from its sums
        202611180037193,  # the same after one large context
        202611180051327,  # counts learned after large contexts without a check: a root that did not load
        202611180051629,  # sds of items that overflowed
        202611180056195,  # scores of minus infinity
        202611180058230,  # as 51327: a mean that did not load
        202611180080316,  # chances of Student's t of arms 1e48 scales apart
        202611190001161,  # as 51327, of arms
        2026112010020999,  # propensities of -3e-33
    ],
)
def test_lives_that_failed_once(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrudentWarning)
        _extremes.life(seed, _extremes.made)


@pytest.mark.parametrize(
    "seed",
    [
        920000721,  # revenue: a refused batch moved the prior of baskets in the last digit
        920000868,  # the same
        920002756,  # sparse features: zero times a noise that is not known
    ],
)
def test_lives_of_later_kinds_that_failed_once(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrudentWarning)
        _extremes.life(seed)


@pytest.mark.parametrize("shared", [False, True])
def test_what_large_contexts_leave_open_is_right_or_refused(shared, rng):
    """After one reward the direction across the context is as uncertain as before it, whatever the scale."""
    kept = 0
    for power in range(4, 12):
        for _ in range(20):
            context = 10.0**power * rng.normal(size=2)
            options = {"noise_sd": 1.0, "intercept": False}
            bandit = SharedLinearBandit(2, **options) if shared else LinearBandit(1, 2, **options)
            try:
                bandit.update(context, 0, 1.0)
            except DataError as error:
                if error.code != "too-large":
                    raise
                continue
            across = np.array([-context[1], context[0]]) / np.hypot(*context)
            _, sd = bandit.predict(across[np.newaxis] if shared else across)
            assert sd.item() ** 2 == pytest.approx(1.0, abs=0.02)
            kept += 1
    assert kept >= 40  # up to a million they are all learned


def _of_tiny_features(shared, half_life, draws="independent"):
    """Return a bandit whose learned prior takes coefficients of 1e130 to be likely."""
    options = {"rewards": "poisson", "half_life": half_life, "rng": 1}
    bandit = SharedLinearBandit(1, draws=draws, **options) if shared else LinearBandit(["a", "b"], 1, **options)
    rng = np.random.default_rng(3)
    bandit.update(1e-130 * rng.normal(size=(20, 1)), ["a"] * 20, rng.poisson(3.0, 20))
    return bandit


@pytest.mark.parametrize("half_life", [None, 2.0])
@pytest.mark.parametrize("how", ["one", "many", "independent", "joint"])
def test_a_decision_whose_scores_would_overflow_is_refused_and_changes_nothing(how, half_life):
    shared = how in ("independent", "joint")
    bandit = _of_tiny_features(shared, half_life, how if shared else "independent")
    far = np.full(1, 1e50) if how == "one" else np.full((2, 1), 1e50)
    small = np.full((2, 1), 1e-130) if shared else np.full(1, 1e-130)
    for _ in range(3):
        bandit.select(small)
    twin, before = bandit.copy(stream=None), bandit.to_bytes()
    with refused(DataError, "too-large", argument="context"):
        bandit.select(far)
    assert bandit.to_bytes() == before
    one, two = bandit.select(small), twin.select(small)
    assert (one.arm, one.score) == (two.arm, two.score)
    assert np.isfinite(one.score)


@pytest.mark.parametrize("shared", [False, True])
def test_counts_learned_after_a_large_context_load_or_are_refused(shared, rng):
    """A small context is learned with what large ones have left of the sums, so it is checked as they are."""
    kept = 0
    for _ in range(30):
        options = {"rewards": "poisson", "prior_precision": 4e-6, "rng": 1}
        bandit = SharedLinearBandit(2, **options) if shared else LinearBandit(["a"], 2, **options)
        for scale in (1.0, 10.0 ** rng.uniform(5.0, 45.0), 1.0, 1e-8, 1.0):
            before = bandit.to_bytes()
            try:
                bandit.update(scale * rng.normal(size=2), "a", int(rng.poisson(2.0)))
                kept += 1
            except DataError as error:
                if error.code != "too-large" or bandit.to_bytes() != before:
                    raise
            content = bandit.to_bytes()
            assert type(bandit).from_bytes(content).to_bytes() == content
    assert kept >= 60


def test_the_posterior_of_clicks_has_the_moments_that_decisions_are_taken_from(rng):
    """Also where the sums of large contexts cannot be solved again."""
    bandit = SharedLinearBandit(5, rewards="bernoulli", rng=1)
    bandit.update(1e13 * np.abs(rng.normal(size=(4, 5))), None, [1, 0, 0, 1])
    bandit.update(rng.normal(size=(5, 5)), None, [1, 1, 1, 0, 1])
    data = bandit.to_xarray()
    points = np.vstack([np.eye(5), rng.normal(size=(3, 5))])
    mean, sd = bandit.predict(points)
    constant = np.column_stack([np.ones(len(points)), points])
    assert mean == pytest.approx(constant @ data["mean"].values, rel=1e-9)
    found = np.einsum("ti,ij,tj->t", constant, data["covariance"].values, constant)
    assert np.sqrt(found) == pytest.approx(sd, rel=1e-6)
    assert (data["sd"].values < 1.01).all()  # at most that before data


def test_chances_of_students_t_at_any_distance_of_scales():
    """Two sharp arms far apart, and a wide one: the chance of the latter is its tail."""
    law = score_law(1, (1.0,), False)
    freedom = np.array([7.0, 8.0, 4.0])
    for gap in (1e-3, 1.0, 1e3, 1e9):
        for sharp in (1e-4, 1e-9, 1e-35, 1e-100):
            means, scales = np.array([[-gap, 0.0, -gap]]), np.array([[0.1 * sharp, sharp, 1.0]])
            for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
                found = law.every_chance(means[:, order], scales[:, order], freedom[order])[0]
                wide = stats.t.sf(gap, 4.0)
                expected = np.array([0.0, 1.0 - wide, wide])[order]
                # the sharp arm moves the threshold by its own scale, and below 1e-3 apart the lower one may win
                assert found == pytest.approx(expected, abs=1e-12 + 2.0 * sharp), (gap, sharp, order)


def test_the_checkup_of_clicks_of_next_to_no_weight():
    """What the rewards weigh may be so little that the squares of means overflow."""
    sums = np.array([[1e-170, 1e-16, 1e-80], [1e-16, 1e140, 1.0], [1e-80, 1.0, 1e20]])
    assert not list(item_checkup(sums, 20, True))
    assert [finding.kind for finding in item_checkup(sums[1:, 1:], 20, False)] == ["scales"]
    still = np.array([[10.0, 20.0, 1.0], [20.0, 40.0, 2.0], [1.0, 2.0, 5.0]])
    assert [finding.kind for finding in item_checkup(still, 20, True)] == ["constant"]
