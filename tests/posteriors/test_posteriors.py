"""Conjugate posteriors against closed forms, exact arithmetic, numerical integration and their samples."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import stats

from prudent.errors import DataError, ParameterError, PosteriorError
from prudent.models.uncertain import UncertainMDP
from prudent.posteriors.dirichlet import DirichletPosterior
from prudent.posteriors.linear import LinearGaussianPosterior
from prudent.posteriors.scalar import BetaPosterior, NormalPosterior

FALSE_ALARM = 1e-6  # of every statistical test as a whole

PRIOR_COUNTS = [[0.1, 1.0, 2.5], [0.0, 0.3, 4.0]]
PRIOR_PRECISION = [[2.0, 0.5], [0.5, 1.0]]


def dirichlet():
    return DirichletPosterior(PRIOR_COUNTS)


def beta():
    return BetaPosterior([[1.0, 0.5, 3.0], [2.0, 0.1, 1.0]], 1.5)


def normal():
    return NormalPosterior([[0.1, -0.7, 3.0], [2.0, 0.0, 1e3]], sd=0.3, noise_sd=[[0.7, 1.0, 2.0]])


def linear():
    return LinearGaussianPosterior(2, prior_precision=PRIOR_PRECISION, noise_sd=0.7)


def dirichlet_data(rng, size):
    source = rng.integers(0, 2, size)
    return source, np.where(source == 0, rng.integers(0, 3, size), rng.integers(1, 3, size)), rng.random(size)


def beta_data(rng, size):
    return (rng.integers(0, 2, size), rng.integers(0, 3, size)), rng.integers(0, 2, size)


def normal_data(rng, size):
    return (rng.integers(0, 2, size), rng.integers(0, 3, size)), 3 * rng.standard_normal(size)


def linear_data(rng, size):
    return rng.standard_normal((size, 2)), rng.standard_normal(size)


def rows(data, keep):
    """The observations at ``keep`` (a slice or an index) of a batch."""
    return tuple(tuple(x[keep] for x in part) if isinstance(part, tuple) else part[keep] for part in data)


FAMILIES = [(dirichlet, dirichlet_data), (beta, beta_data), (normal, normal_data), (linear, linear_data)]
families = pytest.mark.parametrize(("make", "data"), FAMILIES, ids=["Dirichlet", "Beta", "Normal", "Linear"])


def assert_close(one, two, rtol=1e-13):
    for name in ("mean", "variance", "covariance"):
        first, second = getattr(one, name)(), getattr(two, name)()
        np.testing.assert_allclose(first, second, rtol=rtol, atol=rtol * np.abs(second).max())


# -- what all of them do -----------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("size", [0, 1, 2, 700])
def test_batch_equals_sequential_in_any_order(make, data, size):
    rng = np.random.default_rng(size)
    batch = data(rng, size)
    together, single, shuffled = make(), make(), make()
    assert together.update(*batch) is together
    for t in range(size):
        single.update(*rows(batch, t))
    shuffled.update(*rows(batch, rng.permutation(size)))
    assert_close(together, single)
    assert_close(together, shuffled)
    if size == 0:
        assert together == make()
    else:
        assert together != make()


@families
def test_merge_is_the_posterior_of_both_data_sets(make, data):
    batch = data(np.random.default_rng(1), 300)
    one, two = make().update(*rows(batch, slice(0, 100))), make().update(*rows(batch, slice(100, None)))
    kept = one.copy(), two.copy()
    assert_close(one.merge(two), make().update(*batch))
    assert_close(two.merge(one), make().update(*batch))
    assert one.merge(make()) == one
    assert (one, two) == kept
    # a merged posterior can be merged again: its prior is still the prior
    assert_close(one.merge(two).merge(one), one.merge(one).merge(two))


@families
def test_copies_are_independent_equal_and_unhashable(make, data):
    batch = data(np.random.default_rng(2), 5)
    first = make().update(*batch)
    twin = first.copy()
    assert twin == first
    twin.update(*batch)
    assert twin != first
    assert first == make().update(*batch)
    assert first != "something else"
    with pytest.raises(TypeError):
        hash(first)


@families
def test_samples_have_the_stated_moments(make, data):
    # Means and products against mean() and covariance(): z-tests with the sample's own standard error, false
    # alarm 1e-6 over all entries. 100,000 draws find a mean that is off by 0.03 sd, a variance off by 4 %.
    size = 100_000
    posterior = make().update(*data(np.random.default_rng(3), 20))
    draws = posterior.sample(size)
    assert draws.shape == (size, *posterior.mean().shape)
    deviations = draws - posterior.mean()
    statistics = [deviations, deviations**2 - posterior.variance()]
    if posterior.covariance().ndim > posterior.variance().ndim:
        statistics.append(deviations[..., :, np.newaxis] * deviations[..., np.newaxis, :] - posterior.covariance())
    flat = np.concatenate([s.reshape(size, -1) for s in statistics], axis=1)
    spread = flat.std(axis=0)
    still = spread == 0  # impossible outcomes
    assert np.abs(flat[:, still]).max(initial=0) == 0
    z = flat[:, ~still].mean(axis=0) / (spread[~still] / math.sqrt(size))
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / (2 * z.size))


@families
def test_samples_follow_the_generator(make, data):
    posterior = make()
    np.testing.assert_array_equal(posterior.sample(4, 7), posterior.sample(4, np.random.default_rng(7)))
    assert not np.array_equal(posterior.sample(4), posterior.sample(4))
    with refused(ParameterError, "integer-range", argument="n"):
        posterior.sample(0)
    with refused(ParameterError, "not-an-rng", argument="rng"):
        posterior.sample(1, "x")


def test_input_arrays_are_copied():
    given_array = np.ones((2, 2))
    made = [
        DirichletPosterior(given_array, prior=given_array),
        BetaPosterior(given_array, given_array),
        NormalPosterior(given_array, given_array, given_array),
    ]
    kept = [posterior.copy() for posterior in made]
    given_array[:] = 0.5
    assert made == kept
    made[0].update(0, 0)
    assert made[0].prior[0, 0] == 1


def test_untouched_is_the_stated_prior_exactly():
    counts = np.array(PRIOR_COUNTS)
    np.testing.assert_array_equal(dirichlet().counts, counts)
    np.testing.assert_array_equal(dirichlet().mean(), counts / counts.sum(axis=1, keepdims=True))
    a = np.array([[1.0, 0.5, 3.0], [2.0, 0.1, 1.0]])
    np.testing.assert_array_equal(beta().prior, (a, np.full((2, 3), 1.5)))
    np.testing.assert_array_equal(beta().mean(), a / (a + 1.5))
    rng = np.random.default_rng(0)
    mean, sd, noise = rng.standard_normal(100), rng.random(100) + 0.01, rng.random(100) + 0.01
    untouched = NormalPosterior(mean, sd, noise)
    np.testing.assert_array_equal(untouched.mean(), mean)
    np.testing.assert_array_equal(untouched.variance(), sd**2)
    np.testing.assert_array_equal(untouched.prior, (mean, sd))
    np.testing.assert_array_equal(untouched.noise_sd, noise)
    # the prior stays what was stated while other entries learn
    touched = untouched.copy().update(np.arange(1, 100), np.ones(99))
    assert (touched.mean()[0], touched.variance()[0]) == (mean[0], sd[0] ** 2)
    for precision in (4.0, 1.0, 0.25):
        ridge = LinearGaussianPosterior(3, prior_precision=precision, noise_sd=3.0)
        np.testing.assert_array_equal(ridge.precision, precision * np.eye(3))
        np.testing.assert_array_equal(ridge.mean(), np.zeros(3))
        np.testing.assert_array_equal(ridge.covariance(), 9 / precision * np.eye(3))
    np.testing.assert_allclose(linear().covariance(), 0.49 * np.linalg.inv(PRIOR_PRECISION), rtol=1e-15)
    np.testing.assert_array_equal(linear().prior, PRIOR_PRECISION)


def test_reprs_are_short_and_say_the_parameters():
    assert repr(DirichletPosterior([1.0, 2.5])) == "DirichletPosterior(counts=[[1. , 2.5]])"
    assert repr(BetaPosterior([1, 2], 3)) == "BetaPosterior(successes=[1., 2.], failures=[3., 3.])"
    assert repr(NormalPosterior(0, 2, 1)) == "NormalPosterior(mean=0., sd=2., noise_sd=1.)"
    assert repr(LinearGaussianPosterior(1)) == "LinearGaussianPosterior(dim=1, mean=[0.], noise_sd=1.)"
    assert len(repr(DirichletPosterior(np.ones((1000, 1000))))) < 130


# -- Dirichlet ---------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), max_size=20),
)
def test_dirichlet_counts_and_moments_in_exact_arithmetic(prior, observations):
    observations = [(b % len(prior), k, c) for b, k, c in observations]
    posterior = DirichletPosterior(prior)
    if observations:
        posterior.update(*map(list, zip(*observations, strict=True)))
    counts = [list(map(Fraction, row)) for row in prior]
    for b, k, c in observations:
        counts[b][k] += c
    np.testing.assert_array_equal(posterior.counts, np.array(counts, dtype=float))
    np.testing.assert_array_equal(posterior.prior, prior)
    for b, row in enumerate(counts):
        total = sum(row)
        for i in range(3):
            assert posterior.mean()[b, i] == pytest.approx(float(row[i] / total), rel=1e-14)
            for j in range(3):
                exact = ((i == j) * row[i] * total - row[i] * row[j]) / (total**2 * (total + 1))
                assert posterior.covariance()[b, i, j] == pytest.approx(float(exact), rel=1e-13)
            exact = row[i] * (total - row[i]) / (total**2 * (total + 1))
            assert posterior.variance()[b, i] == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize(
    "counts",
    [[0.01, 0.01, 0.01], [1e-300, 1e-300, 0.0], [5e-324, 1e3, 0.0], [0.0, 0.0, 2.0], [1.0, 1e12, 0.5]],
)
def test_dirichlet_samples_are_probabilities_at_any_counts(counts):
    draws = DirichletPosterior([counts, [1.0, 2.0, 3.0]]).sample(2000)
    assert (draws >= 0).all()
    np.testing.assert_allclose(draws.sum(axis=2), 1, rtol=1e-14)
    assert not draws[:, 0, np.array(counts) == 0].any()


def test_dirichlet_samples_of_small_and_large_counts_are_beta():
    # Each entry of a Dirichlet is a Beta. At counts of 0.01 gamma variates underflow, and a sampler without
    # logarithms leaves NaN or a lump at 0. Kolmogorov-Smirnov where floats resolve the law, and its mass.
    size = 20_000
    for counts in ([0.01, 0.02], [0.5, 40.0], [3.0, 1.0]):
        draws = DirichletPosterior(counts).sample(size)[:, 0]
        for k in (0, 1):
            law = stats.beta(counts[k], sum(counts) - counts[k])
            inside = (draws[:, k] > 1e-300) & (draws[:, k] < 1 - 1e-12)
            low, high = law.cdf(1e-300), law.cdf(1 - 1e-12)
            assert stats.binomtest(int(inside.sum()), size, high - low).pvalue > FALSE_ALARM / 12
            uniform = (law.cdf(draws[inside, k]) - low) / (high - low)
            assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM / 12


def coin():
    """One source, heads or tails, seen as the next state."""
    return UncertainMDP([[0], [0]], [[[0, 1]], [[0, 1]]], [[0.0], [0.0]], 0.9, states=["h", "t"])


def test_dirichlet_from_a_model_and_its_log():
    def log(word):
        return [("h", 0, face) for face in word]

    assert DirichletPosterior.for_model(coin()) == DirichletPosterior([1.0, 1.0])
    assert DirichletPosterior.for_model(coin(), 1) == DirichletPosterior([0.5, 0.5])  # mass, spread evenly
    posterior = DirichletPosterior.from_log(coin(), log("hht"), prior=1)
    assert posterior == DirichletPosterior([2.5, 1.5], prior=[0.5, 0.5])
    by_index = [(0, 0, 0), (1, 0, 0), (0, 0, 1)]
    assert posterior == DirichletPosterior.from_log(coin(), by_index, 1, indices=True)
    assert posterior == DirichletPosterior.for_model(coin(), 1).update([0, 0, 0], [0, 0, 1])
    assert posterior.merge(posterior) == DirichletPosterior.from_log(coin(), log("hhthht"), prior=1)
    array = DirichletPosterior.from_log(coin(), log("h"), prior=[[2.0, 1.0]])
    assert array == DirichletPosterior([3.0, 1.0], prior=[2.0, 1.0])


def test_dirichlet_reads_frames_and_broadcasts_numbers():
    log = pd.DataFrame({"source": [0, 1, 0], "outcome": [2, 1, 2]})
    posterior = dirichlet().update(log.source, log.outcome)
    expected = np.array(PRIOR_COUNTS)
    expected[0, 2] += 2
    expected[1, 1] += 1
    np.testing.assert_array_equal(posterior.counts, expected)
    np.testing.assert_array_equal(dirichlet().update(0, [0, 1], 3).counts - PRIOR_COUNTS, [[3, 3, 0], [0, 0, 0]])
    assert DirichletPosterior(pd.DataFrame(PRIOR_COUNTS)) == dirichlet()
    # nothing seen of an impossible outcome is no contradiction
    assert dirichlet().update(1, 0, 0.0) == dirichlet()


# -- Beta and normal ---------------------------------------------------------------------------------------


def moments_on_a_grid(points, log_density):
    """Mean and variance of an unnormalised density by the trapezoid rule."""
    weights = np.exp(log_density - log_density.max())
    weights /= np.trapezoid(weights, points)
    mean = np.trapezoid(weights * points, points)
    return mean, np.trapezoid(weights * (points - mean) ** 2, points)


@pytest.mark.parametrize("seed", range(4))
def test_beta_is_prior_times_likelihood(seed):
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 2, 15)
    a, b = 2 + 3 * rng.random(2)
    chance = np.linspace(0, 1, 200_001)[1:-1]
    log_density = (a - 1) * np.log(chance) + (b - 1) * np.log1p(-chance)
    for reward in rewards:
        log_density += np.log(chance if reward else 1 - chance)
    mean, variance = moments_on_a_grid(chance, log_density)
    posterior = BetaPosterior(a, b).update((), rewards)
    assert posterior.mean() == pytest.approx(mean, rel=1e-8)
    assert posterior.variance() == pytest.approx(variance, rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_normal_is_prior_times_likelihood(seed):
    rng = np.random.default_rng(seed)
    start, sd, noise = rng.standard_normal(), 0.5 + rng.random(), 0.5 + rng.random()
    rewards = start + 2 + noise * rng.standard_normal(9)
    mu = np.linspace(start - 15, start + 15, 200_001)
    log_density = -0.5 * ((mu - start) / sd) ** 2
    for reward in rewards:
        log_density -= 0.5 * ((reward - mu) / noise) ** 2
    mean, variance = moments_on_a_grid(mu, log_density)
    posterior = NormalPosterior(start, sd, noise).update((), rewards)
    assert posterior.mean() == pytest.approx(mean, rel=1e-9)
    assert posterior.variance() == pytest.approx(variance, rel=1e-9)
    # and the textbook form: precisions add, the mean is weighted by them
    precision = 1 / sd**2 + 9 / noise**2
    assert posterior.variance() == pytest.approx(1 / precision, rel=1e-14)
    assert posterior.mean() == pytest.approx((start / sd**2 + rewards.sum() / noise**2) / precision, rel=1e-13)


def test_beta_moments_are_those_of_scipy():
    posterior = beta().update((1, [0, 0, 2]), [1, 1, 0])
    law = stats.beta(posterior.successes, posterior.failures)
    np.testing.assert_allclose(posterior.mean(), law.mean(), rtol=1e-14)
    np.testing.assert_allclose(posterior.variance(), law.var(), rtol=1e-13)
    learned = np.zeros((2, 3))
    learned[1, 0] = 2
    np.testing.assert_array_equal(posterior.successes - beta().successes, learned)
    learned[1] = [0, 0, 1]
    np.testing.assert_array_equal(posterior.failures - beta().failures, learned)


def test_a_wide_normal_prior_learns_the_sample_mean():
    posterior = NormalPosterior(0.0, sd=1e60, noise_sd=1.0).update((), [1.0, 2.0, 6.0])
    assert posterior.mean() == pytest.approx(3.0, rel=1e-14)
    assert posterior.variance() == pytest.approx(1 / 3, rel=1e-14)


# -- linear ------------------------------------------------------------------------------------------------


def test_linear_is_the_closed_form():
    rng = np.random.default_rng(5)
    contexts, rewards = rng.standard_normal((40, 2)), rng.standard_normal(40)
    posterior = linear().update(contexts, rewards)
    precision = np.array(PRIOR_PRECISION) + contexts.T @ contexts
    np.testing.assert_allclose(posterior.precision, precision, rtol=1e-14)
    np.testing.assert_allclose(posterior.weighted_sum, contexts.T @ rewards, rtol=1e-13)
    np.testing.assert_allclose(posterior.mean(), np.linalg.solve(precision, contexts.T @ rewards), rtol=1e-12)
    covariance = 0.49 * np.linalg.inv(precision)
    np.testing.assert_allclose(posterior.covariance(), covariance, rtol=1e-12)
    np.testing.assert_allclose(posterior.variance(), np.diag(covariance), rtol=1e-12)
    points = rng.standard_normal((7, 2))
    mean, sd = posterior.predict(points)
    np.testing.assert_allclose(mean, points @ posterior.mean(), rtol=1e-12)
    np.testing.assert_allclose(sd, [math.sqrt(s @ covariance @ s) for s in points], rtol=1e-12)
    one_mean, one_sd = posterior.predict(points[3])
    assert (one_mean, one_sd) == (pytest.approx(mean[3], rel=1e-14), pytest.approx(sd[3], rel=1e-14))
    assert (posterior.dim, posterior.noise_sd) == (2, 0.7)


def test_linear_in_one_dimension_is_the_normal_mean():
    rewards = np.random.default_rng(6).standard_normal(30)
    scalar = NormalPosterior(0.0, sd=0.7 / 2, noise_sd=0.7).update((), rewards)
    vector = LinearGaussianPosterior(1, prior_precision=4.0, noise_sd=0.7).update(np.ones((30, 1)), rewards)
    assert vector.mean()[0] == pytest.approx(scalar.mean(), rel=1e-13)
    assert vector.covariance()[0, 0] == pytest.approx(scalar.variance(), rel=1e-13)


def test_linear_samples_with_the_covariance_not_the_precision():
    # After 1000 pulls of s the score s'theta has sd nu / sqrt(1001); with the precision in its place it would
    # be nu * sqrt(1001). The chi-square bounds hold but for one time in a million.
    context = np.array([0.6, 0.8])
    posterior = LinearGaussianPosterior(2, noise_sd=2.0).update(np.tile(context, (1000, 1)), np.ones(1000))
    _, sd = posterior.predict(context)
    assert sd == pytest.approx(2 / math.sqrt(1001), rel=1e-12)
    _, across = posterior.predict([0.8, -0.6])
    assert across == pytest.approx(2.0, rel=1e-9)  # never tried: still the prior
    size = 10_000
    scores = posterior.sample(size) @ context
    ratio = ((scores - posterior.mean() @ context) ** 2).sum() / sd**2
    assert stats.chi2.ppf(FALSE_ALARM / 2, size) < ratio < stats.chi2.isf(FALSE_ALARM / 2, size)


def exact_dot(x, y):
    """Sum of products of integer arrays below 2**40, without overflow."""
    (xh, xl), (yh, yl) = divmod(x, 2**13), divmod(y, 2**13)
    return sum(int(part.sum()) << shift for part, shift in ((xh * yh, 26), (xh * yl, 13), (xl * yh, 13), (xl * yl, 0)))


@pytest.mark.parametrize(("tilt", "tolerance"), [(1e-2, 1e-9), (1e-3, 1e-8)])
def test_a_million_nearly_collinear_contexts(tilt, tolerance):
    # Contexts and rewards are multiples of a power of two, so the sums are exact integers and the closed form
    # is solved in 50 digits.
    rng = np.random.default_rng(8)
    size, dim, unit = 10**6, 4, 2**22
    contexts = np.rint((1 + tilt * rng.standard_normal((size, dim))) * unit).astype(np.int64)
    rewards = np.rint((contexts / unit @ [1, -1, 0.5, 2] + rng.standard_normal(size)) * unit).astype(np.int64)
    with mpmath.workdps(50):
        scale = mpmath.mpf(unit) ** 2
        gram = [[exact_dot(contexts[:, i], contexts[:, j]) / scale for j in range(dim)] for i in range(dim)]
        precision = mpmath.matrix(gram) + mpmath.eye(dim)
        weighted = mpmath.matrix([exact_dot(contexts[:, i], rewards) / scale for i in range(dim)])
        mean = np.array((precision**-1 * weighted).T.tolist(), dtype=float)[0]
        covariance = np.array((precision**-1).tolist(), dtype=float)
    posterior = LinearGaussianPosterior(dim)
    for start in range(0, size, 1000):  # many calls, as in use
        block = slice(start, start + 1000)
        posterior.update(contexts[block] / unit, rewards[block] / unit)
    at_once = LinearGaussianPosterior(dim).update(contexts / unit, rewards / unit)
    for result in (posterior, at_once):
        np.testing.assert_allclose(result.mean(), mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(result.covariance(), covariance, rtol=0, atol=tolerance)


def test_linear_sums_keep_what_rounding_would_take():
    """Ten thousand tiny contexts after a huge one: a plain sum would not see any of them."""
    posterior = LinearGaussianPosterior(1).update([1e9], 0.0)
    for _ in range(10_000):
        posterior.update([1.0], 1.0)
    assert posterior.precision[0, 0] == float(10**18 + 10_001)
    assert posterior.weighted_sum[0] == 10_000


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (dirichlet, (2, 0), "source is 2, expected a whole number from 0 to 1"),
        (dirichlet, ([0, -1], [0, 0]), "source[1] is -1, expected a whole number from 0 to 1"),
        (dirichlet, ([0, 0], [0, 3]), "outcome[1] is 3, expected a whole number from 0 to 2"),
        (dirichlet, (0.0, 1), "source must hold whole numbers, got float64 values"),
        (dirichlet, (0, 1, -1), "count is -1.0, expected a number >= 0"),
        (dirichlet, ([0, 0], [0, 1], [1.0, -2.0]), "count[1] is -2.0, expected a number >= 0"),
        (dirichlet, ([0, 0], [0, 1], [1.0, math.nan]), "count[1] is nan, expected a finite number"),
        (
            dirichlet,
            ([0, 0], [0, 1, 2]),
            "expected numbers or arrays [T] of equal length, got shapes source (2,), outcome (3,)",
        ),
        (
            dirichlet,
            ([0, 1], [1, 0]),
            "observation 1: outcome 0 of source 1 cannot happen, its count is zero",
        ),
        (beta, ((0, 0), 0.5), "reward is 0.5, expected 0 or 1"),
        (beta, (([0, 1], [0, 1]), [1, 2]), "reward[1] is 2.0, expected 0 or 1"),
        (beta, ((0, 0), math.nan), "reward is nan, expected a finite number"),
        (beta, ((0, 3), 1), "index 1 is 3, expected a whole number from 0 to 2"),
        (beta, (([0, -1], [0, 0]), [1, 1]), "index 0[1] is -1, expected a whole number from 0 to 1"),
        (beta, (0, 1), "index must have 2 parts for shape (2, 3), got 0"),
        (beta, ((0, 0), "x"), "reward must be an array of numbers, got str"),
        (
            beta,
            (([0, 1], 0), [1, 1, 0]),
            "expected numbers or arrays [T] of equal length, got shapes index 0 (2,), reward (3,)",
        ),
        (normal, (([0, 0], 0), [1.0, math.inf]), "reward[1] is inf, expected a finite number"),
        (normal, ((5, 0), 1.0), "index 0 is 5, expected a whole number from 0 to 1"),
        (linear, ([1.0, math.nan], 1.0), "context[1] is nan, expected a finite number"),
        (linear, ([1.0, 2.0, 3.0], 1.0), "context has shape (3,), expected (2,) or (T, 2)"),
        (linear, ([[1.0, 2.0]], 1.0), "reward has shape (), expected one per context = (1,)"),
        (linear, ([1.0, 2.0], math.inf), "reward is inf, expected a finite number"),
        (
            linear,
            ([[1.0, 2.0], [0.0, -1e200]], [1.0, 1.0]),
            "context[1, 1] is -1e+200, expected a number that can be squared",
        ),
        (linear, ([1.0, 2.0], 1e200), "reward is 1e+200, expected a number that can be squared"),
    ],
)
def test_bad_observations_change_nothing(make, arguments, message):
    posterior = make()
    with pytest.raises(DataError) as caught:
        posterior.update(*arguments)
    assert str(caught.value) == message
    assert posterior == make()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: DirichletPosterior([[1, -2]]),
            PosteriorError,
            "counts[0, 1] is -2.0, expected a number >= 0",
        ),
        (
            lambda: DirichletPosterior([[1, math.nan]]),
            PosteriorError,
            "counts[0, 1] is nan, expected a finite number",
        ),
        (
            lambda: DirichletPosterior([[1, 2], [0, 0]]),
            PosteriorError,
            "counts[1] is all zero: no outcome of that source can happen",
        ),
        (
            lambda: DirichletPosterior(np.ones((1, 2, 3))),
            PosteriorError,
            "counts must have the shape [B, K] or [K], got (1, 2, 3)",
        ),
        (
            lambda: DirichletPosterior([]),
            PosteriorError,
            "counts must have the shape [B, K] or [K], got (0,)",
        ),
        (
            lambda: DirichletPosterior([1, 2], prior=[1, 1, 1]),
            PosteriorError,
            "prior has shape (1, 3), counts has (1, 2)",
        ),
        (
            lambda: DirichletPosterior([1, 2], prior=[1, 3]),
            PosteriorError,
            "counts[0, 1] is 2.0, expected at least that of the prior",
        ),
        (lambda: BetaPosterior([1, 0], 1), PosteriorError, "successes[1] is 0.0, expected a number > 0"),
        (
            lambda: BetaPosterior(1, [[2, -1]]),
            PosteriorError,
            "failures[0, 1] is -1.0, expected a number > 0",
        ),
        (
            lambda: BetaPosterior([1, 1], [1, 1, 1]),
            PosteriorError,
            "shapes do not broadcast together: successes (2,), failures (3,)",
        ),
        (lambda: NormalPosterior(math.nan, 1, 1), PosteriorError, "mean is nan, expected a finite number"),
        (lambda: NormalPosterior([0, 0], [1, 0], 1), PosteriorError, "sd[1] is 0.0, expected a number > 0"),
        (lambda: NormalPosterior(0, 1, -1), PosteriorError, "noise_sd is -1.0, expected a number > 0"),
        (
            lambda: NormalPosterior(0, 1e200, 1),
            PosteriorError,
            "sd is 1e+200, expected at most 1e+150",
        ),
        (lambda: LinearGaussianPosterior(0), ParameterError, "dim must be at least 1, got 0"),
        (
            lambda: LinearGaussianPosterior(2, 0.0),
            ParameterError,
            "prior_precision must be a positive number, got 0.0",
        ),
        (
            lambda: LinearGaussianPosterior(2, 1, 0),
            ParameterError,
            "noise_sd must be a positive number, got 0.0",
        ),
        (
            lambda: LinearGaussianPosterior(2, np.eye(3)),
            PosteriorError,
            "prior_precision has shape (3, 3), expected a number or (2, 2)",
        ),
        (
            lambda: LinearGaussianPosterior(2, [[1, 0.5], [0.2, 1]]),
            PosteriorError,
            "prior_precision[0, 1] is 0.5 but prior_precision[1, 0] is 0.2",
        ),
        (
            lambda: LinearGaussianPosterior(2, [[1, 0], [0, -2]]),
            PosteriorError,
            "prior_precision is not positive definite: it has the eigenvalue -2.0",
        ),
        (lambda: linear().predict([1, 2, 3]), DataError, "contexts has shape (3,), expected (2,) or (T, 2)"),
        (
            lambda: beta().merge(normal()),
            PosteriorError,
            "cannot merge a BetaPosterior with a NormalPosterior",
        ),
        (
            lambda: DirichletPosterior([1, 1]).merge(DirichletPosterior([1, 1, 1])),
            PosteriorError,
            "cannot merge: prior has shapes (1, 2) and (1, 3)",
        ),
        (
            lambda: DirichletPosterior([1, 1]).merge(DirichletPosterior([1, 2])),
            PosteriorError,
            "cannot merge: prior[0, 1] is 1.0 here and 2.0 there",
        ),
        (
            lambda: NormalPosterior(0, 1, 1).merge(NormalPosterior(0, 1, 2)),
            PosteriorError,
            "cannot merge: noise_sd is 1.0 here and 2.0 there",
        ),
    ],
)
def test_errors_name_the_place_and_the_value(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message
