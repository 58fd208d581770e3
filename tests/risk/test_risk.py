"""Risk measures, the draw rule, the normal kernels and order-statistic draws, against independent forms."""

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

from prudent._numerics.normal import normal_cdf, normal_from_log_survival, normal_pdf, normal_quantile
from prudent._numerics.order_statistics import lowest_normals_into
from prudent.errors import DataError, ParameterError
from prudent.risk import (
    CVaR,
    Mean,
    MeanCVaR,
    Mixture,
    ModifiedCVaR,
    RiskMeasure,
    Spectral,
    VaR,
    WorstCase,
    cvar,
    lowest_normals,
    modified_cvar,
    sample_size,
    sample_size_is_exact,
)


def label(measure):
    """A name for a test case, without the address of a lambda: workers must agree on it."""
    return repr(measure).split(" at 0x")[0]


FALSE_ALARM = 1e-6  # of every statistical test as a whole
LEVELS = st.floats(0.0, 1.0, exclude_max=True)
# Multiples of 1/8 within +-1000: sums are exact, ties are common.
DRAWS = st.lists(st.integers(-8000, 8000).map(lambda i: i / 8), min_size=1, max_size=50)
MEASURES = [Mean(), CVaR(0.9), CVaR(0.37), VaR(0.6), WorstCase(), MeanCVaR(0.8, 0.3), ModifiedCVaR(0.7)]
MEASURES += [ModifiedCVaR(0.75), Spectral(lambda u: 1 - (1 - u) ** 3), MeanCVaR(0.8, 0.0), CVaR(-0.9), VaR(-0.6)]
MEASURES += [MeanCVaR(-0.8, 0.3), Mixture((-0.5, 0.9), (0.4, 0.6))]


def max_form(draws, alpha, weights=None):
    """max_x x - E[(x - Z)+] / (1 - alpha): piecewise linear and concave, so a breakpoint attains it."""
    z = np.asarray(draws, dtype=float)
    w = np.full(len(z), 1 / len(z)) if weights is None else np.asarray(weights, dtype=float) / np.sum(weights)
    return max(x - (w * np.maximum(x - z, 0)).sum() / (1 - alpha) for x in z)


def spread(draws):
    return np.ptp(draws) + 1e-300


# -- CVaR of draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 51))
def test_cvar_is_the_max_form(n):
    rng = np.random.default_rng(n)
    levels = [0.0, 0.5, 0.9, 1 - 1 / n, 0.999, *rng.random(20)]
    for alpha in levels:
        for z in (rng.standard_normal(n), 1e6 + rng.random(n), rng.integers(0, 4, n).astype(float)):
            tolerance = 1e-12 * spread(z) + 4e-16 * np.abs(z).max()  # the second term is rounding of the result
            assert abs(cvar(z, alpha) - max_form(z, alpha)) <= tolerance
            w = rng.integers(0, 4, n) + (np.arange(n) == rng.integers(n))
            assert abs(cvar(z, alpha, weights=w) - max_form(z, alpha, w)) <= tolerance


@given(DRAWS, LEVELS)
def test_cvar_is_the_mean_of_the_lowest_draws_by_fraction(draws, alpha):
    m = Fraction(len(draws)) * (1 - Fraction(alpha))
    exact = Fraction(0)
    left = m
    for z in sorted(draws):
        exact += min(left, 1) * Fraction(z)
        left -= min(left, 1)
    assert cvar(draws, alpha) == pytest.approx(float(exact / m), abs=1e-12 * spread(draws), rel=1e-14)


@given(DRAWS, LEVELS, st.data())
def test_integer_weights_are_repeated_draws(draws, alpha, data):
    times = data.draw(st.lists(st.integers(0, 5), min_size=len(draws), max_size=len(draws)).filter(any))
    repeated = np.repeat(draws, times)
    expected = cvar(repeated, alpha)
    assert cvar(draws, alpha, weights=times) == pytest.approx(expected, abs=1e-12 * spread(draws), rel=1e-14)


@given(DRAWS, LEVELS, st.integers(-1000, 1000), st.integers(0, 1000).map(lambda i: i / 8))
def test_cvar_is_translation_equivariant_and_positively_homogeneous(draws, alpha, shift, scale):
    z = np.array(draws)
    tolerance = 1e-11 * (1 + abs(shift) + np.abs(z).max()) * (1 + scale)
    assert cvar(z + shift, alpha) == pytest.approx(cvar(z, alpha) + shift, abs=tolerance)
    assert cvar(scale * z, alpha) == pytest.approx(scale * cvar(z, alpha), abs=tolerance)


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 2), min_size=1, max_size=50), LEVELS)
def test_cvar_is_monotone_and_superadditive(pairs, alpha):
    x, y = np.array(pairs).T
    tolerance = 1e-12 * (1 + np.abs(x).max() + np.abs(y).max())
    assert cvar(x + y, alpha) >= cvar(x, alpha) + cvar(y, alpha) - tolerance
    assert cvar(np.maximum(x, y), alpha) >= cvar(x, alpha) - tolerance


@given(DRAWS, LEVELS, LEVELS)
def test_cvar_falls_from_the_mean_to_the_worst_as_alpha_grows(draws, one, two):
    low, high = sorted((one, two))
    tolerance = 1e-12 * spread(draws) + 1e-12
    assert cvar(draws, 0.0) == pytest.approx(np.mean(draws), abs=tolerance)
    assert cvar(draws, high) <= cvar(draws, low) + tolerance
    assert cvar(draws, 1 - 1e-9) == min(draws)


@given(st.floats(-1e300, 1e300), st.integers(1, 40), LEVELS)
def test_cvar_of_a_constant_is_exactly_it(value, n, alpha):
    assert cvar([value] * n, alpha) == value


def test_axes_weights_and_containers():
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((4, 5, 6)), rng.random((4, 5, 6))
    for axis in (0, 1, 2, -1, -3):
        moved, chances = np.moveaxis(z, axis, 0), np.moveaxis(w, axis, 0)
        lines = [(i, j) for i in range(moved.shape[1]) for j in range(moved.shape[2])]
        plain, weighted = cvar(z, 0.6, axis=axis), cvar(z, 0.6, axis=axis, weights=w)
        one_per_draw = cvar(z, 0.6, axis=axis, weights=chances[:, 0, 0])
        assert plain.shape == weighted.shape == moved.shape[1:]
        for i, j in lines:
            line = moved[:, i, j]
            assert plain[i, j] == pytest.approx(max_form(line, 0.6), abs=1e-12)
            assert weighted[i, j] == pytest.approx(max_form(line, 0.6, chances[:, i, j]), abs=1e-12)
            assert one_per_draw[i, j] == pytest.approx(max_form(line, 0.6, chances[:, 0, 0]), abs=1e-12)
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [4.0, 3.0]})
    np.testing.assert_array_equal(cvar(frame, 0.5), [1.0, 3.0])
    assert isinstance(cvar([1, 2, 3], 0.5), float)
    before = z.copy()
    cvar(z, 0.5)
    np.testing.assert_array_equal(z, before)
    # weights only matter up to scale, also when their products leave the range of floats
    assert cvar([1.0, 2.0, 9.0], 0.5, weights=[1e-320, 1e-320, 0.0]) == 1.0
    assert cvar([1.0, 2.0, 1e300], 0.0, weights=[1e308, 1e308, 0.0]) == 1.5


@pytest.mark.parametrize(
    ("call", "error", "code", "fields"),
    [
        (
            lambda: cvar([[1.0, 2.0], [3.0, math.nan]], 0.5),
            DataError,
            "not-finite",
            {"argument": "draws", "index": (1, 1)},
        ),
        (
            lambda: cvar([1.0, -math.inf], 0.5),
            DataError,
            "not-finite",
            {"argument": "draws", "index": (1,), "value": -math.inf},
        ),
        (lambda: cvar(["a"], 0.5), DataError, "not-numbers", {"argument": "draws"}),
        (lambda: cvar(3.0, 0.5), DataError, "wrong-shape", {"argument": "draws", "value": ()}),
        (lambda: cvar([], 0.5), DataError, "wrong-shape", {"argument": "draws", "value": (0,)}),
        (lambda: cvar([1.0], 1.0), ParameterError, "alpha-range", {"argument": "alpha", "value": 1.0}),
        (lambda: cvar([1.0], -1.1), ParameterError, "alpha-range", {"argument": "alpha", "value": -1.1}),
        (lambda: cvar([1.0], math.nan), ParameterError, "not-a-number", {"argument": "alpha"}),
        (lambda: cvar([1.0], 0.5, axis=1), ParameterError, "index-range", {"argument": "axis", "value": 1}),
        (lambda: cvar([1.0], 0.5, axis=-2), ParameterError, "integer-range", {"argument": "axis", "value": -2}),
        (
            lambda: cvar([1.0, 2.0], 0.5, weights=[1, -3]),
            DataError,
            "negative",
            {"argument": "weights", "index": (1,), "value": -3.0},
        ),
        (
            lambda: cvar([1.0, 2.0], 0.5, weights=[1, math.nan]),
            DataError,
            "not-finite",
            {"argument": "weights", "index": (1,)},
        ),
        (lambda: cvar([1.0, 2.0], 0.5, weights=[0, 0]), DataError, "sum-zero", {"argument": "weights"}),
        (
            lambda: cvar(np.ones((2, 3)), 0.5, weights=[[1, 0, 1], [1, 0, 1]]),
            DataError,
            "sum-zero",
            {"argument": "weights"},
        ),
        (
            lambda: cvar(np.ones((2, 3)), 0.5, weights=[1, 1, 1]),
            DataError,
            "wrong-shape",
            {"argument": "weights", "value": (3,)},
        ),
        (lambda: MeanCVaR(0.5, 1.5), ParameterError, "probability-range", {"argument": "weight", "value": 1.5}),
        (lambda: MeanCVaR(0.5, "x"), ParameterError, "probability-range", {"argument": "weight", "value": "x"}),
        (lambda: VaR(2), ParameterError, "alpha-range", {"argument": "alpha", "value": 2.0}),
        (lambda: modified_cvar([1.0], 0.7), ParameterError, "integer-range", {"argument": "n", "value": 1}),
        (lambda: CVaR(0.5).weights(0), ParameterError, "integer-range", {"argument": "n", "value": 0}),
        (lambda: CVaR(0.5).weights(2.0), ParameterError, "not-an-integer", {"argument": "n", "value": 2.0}),
        (lambda: Spectral(3), ParameterError, "wrong-type", {"argument": "distortion", "value": 3}),
        (
            lambda: Spectral(lambda u: u / 2),
            ParameterError,
            "wrong-distortion",
            {"argument": "distortion", "value": 0.5},
        ),
        (lambda: Spectral(lambda u: "x"), ParameterError, "wrong-distortion", {"argument": "distortion", "value": "x"}),
        (
            lambda: Spectral(lambda u: u if u in (0, 1) else 2 - u).weights(2),
            ParameterError,
            "wrong-distortion",
            {"argument": "distortion", "value": 1.0},
        ),
        (lambda: sample_size(1), ParameterError, "alpha-range", {"argument": "alpha", "value": 1.0}),
        (lambda: sample_size_is_exact("x"), ParameterError, "not-a-number", {"argument": "alpha", "value": "x"}),
        (lambda: lowest_normals(3, 4), ParameterError, "integer-range", {"argument": "m", "value": 4}),
        (lambda: lowest_normals(0, 0), ParameterError, "integer-range", {"argument": "n", "value": 0}),
        (
            lambda: lowest_normals(2**60, 1),
            ParameterError,
            "integer-range",
            {"argument": "n", "value": 2**60},
        ),
        (lambda: lowest_normals(3, 1, size=-1), ParameterError, "integer-range", {"argument": "size", "value": -1}),
        (lambda: lowest_normals(3, 1, rng="x"), ParameterError, "not-an-rng", {"argument": "rng", "value": "x"}),
    ],
)
def test_errors_name_the_place_and_the_value(call, error, code, fields):
    with refused(error, code, **fields):
        call()


# -- the draw rule -----------------------------------------------------------------------------------------


def test_sample_size_of_every_level_1_minus_1_over_n():
    for n in range(1, 10**6 + 1):
        if sample_size(1 - 1 / n) != n:
            pytest.fail(f"n = {n}: 1 - 1/n gives {sample_size(1 - 1 / n)}")


def test_sample_size_between_whole_numbers_and_computed_otherwise():
    rng = np.random.default_rng(5)
    for n in [*range(1, 2000), *rng.integers(2000, 10**6, 2000).tolist()]:
        assert sample_size((n - 1) / n) == n
        assert sample_size(float(np.nextafter(1 - 1 / n, 0))) == n
        assert sample_size(float(np.nextafter(1 - 1 / n, 1))) == n
        assert sample_size_is_exact(1 - 1 / n)
        for inside in (0.001, 0.5, 0.999):
            assert sample_size(1 - 1 / (n + inside)) == n + 1
            assert not sample_size_is_exact(1 - 1 / (n + inside))


@given(st.integers(1, 7).flatmap(lambda d: st.tuples(st.integers(0, 10**d - 1), st.just(d))))
def test_sample_size_of_a_decimal_is_that_of_its_exact_value(decimal):
    digits, places = decimal
    inverse = 1 / (1 - Fraction(digits, 10**places))
    alpha = float(f"0.{digits:0{places}d}")
    # Up to 2**26 neighbouring whole numbers are told apart; a decimal that is none is at least 1e-7 away.
    assert sample_size(alpha) == math.ceil(inverse)
    assert sample_size_is_exact(alpha) == (inverse.denominator == 1)


def test_sample_size_named_values():
    levels = [0, 0.5, 2 / 3, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6, 0.7, 1e-9]
    assert [sample_size(a) for a in levels] == [1, 2, 3, 4, 5, 10, 20, 100, 1000, 10**6, 4, 2]
    assert sample_size(math.nextafter(1, 0)) == 2**53
    assert isinstance(sample_size(0.9), int)


# -- weights on sorted draws -------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", MEASURES, ids=label)
@pytest.mark.parametrize("n", [2, 3, 10, 97])
def test_weights_are_those_of_a_measure(measure: RiskMeasure, n):
    weights, lowest = measure.weights(n), measure.lowest_weights(n)
    assert weights.shape == (n,)
    assert weights.dtype == np.float64
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_array_equal(lowest, weights[: lowest.size])
    assert lowest[-1] > 0
    assert not weights[lowest.size :].any()
    rng = np.random.default_rng(n)
    for draws in (rng.standard_normal((n, 3)), rng.integers(0, 3, (n, 3)).astype(float)):
        expected = weights @ np.sort(draws, axis=0)
        np.testing.assert_allclose(measure(draws), expected, atol=1e-14)
        np.testing.assert_allclose(measure(draws.T, axis=1), expected, atol=1e-14)
        np.testing.assert_allclose(measure(draws[rng.permutation(n)] + 5) - 5, expected, atol=1e-14)


@given(st.integers(1, 200), LEVELS)
def test_cvar_weights_fall_and_reproduce_cvar(n, alpha):
    weights = CVaR(alpha).weights(n)
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    assert (np.diff(weights) <= 1e-15).all()  # a coherent measure weighs bad outcomes more
    draws = np.random.default_rng(n).standard_normal(n)
    assert weights @ np.sort(draws) == pytest.approx(cvar(draws, alpha), abs=1e-13)


@given(LEVELS.filter(lambda a: a < 1 - 1e-6))
def test_the_draw_rule_needs_one_draw_or_two(alpha):
    n = sample_size(alpha)
    lowest = CVaR(alpha).lowest_weights(n)
    if sample_size_is_exact(alpha):
        np.testing.assert_array_equal(lowest, [1.0])
        np.testing.assert_array_equal(ModifiedCVaR(alpha).lowest_weights(n), [1.0])
    else:
        first = 1 / (n * (1 - alpha))  # the paper's weight of the lowest draw
        np.testing.assert_allclose(lowest, [first, 1 - first], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(ModifiedCVaR(alpha).lowest_weights(n), [0.0, 1.0])


def test_weights_in_closed_form():
    np.testing.assert_array_equal(Mean().weights(4), [0.25] * 4)
    np.testing.assert_array_equal(WorstCase().weights(3), [1, 0, 0])
    np.testing.assert_array_equal(CVaR(0.9).weights(20), [0.5, 0.5] + [0] * 18)
    np.testing.assert_allclose(CVaR(0.5).weights(3), [2 / 3, 1 / 3, 0], rtol=1e-15)
    np.testing.assert_array_equal(MeanCVaR(0.5, 0.5).weights(2), [0.75, 0.25])
    np.testing.assert_array_equal(MeanCVaR(0.5, 1.0).weights(2), Mean().weights(2))
    for alpha in (0.0, 0.3, 0.9):
        same = Spectral(lambda u, tail=1 - alpha: min(u / tail, 1.0))
        np.testing.assert_allclose(same.weights(17), CVaR(alpha).weights(17), atol=1e-15)


@given(DRAWS, LEVELS)
def test_var_is_the_lower_quantile(draws, alpha):
    value = VaR(alpha)(draws)
    tail = 1 - Fraction(alpha)
    slack = Fraction(2) ** -52  # the rounding a level is allowed
    z = np.array(draws)
    assert value in draws
    assert Fraction(int((z <= value).sum()), len(z)) >= tail - slack
    assert Fraction(int((z < value).sum()), len(z)) < tail + slack
    # CVaR averages what lies at or below VaR, and VaR maximises the max-form
    assert cvar(z, alpha) <= value
    assert value - np.maximum(value - z, 0).mean() / (1 - alpha) == pytest.approx(
        cvar(z, alpha), abs=1e-11 * spread(z), rel=1e-13
    )


def test_modified_estimator_is_an_order_statistic():
    z = np.random.default_rng(1).standard_normal((10, 7))
    np.testing.assert_array_equal(modified_cvar(z, 0.9), z.min(axis=0))
    np.testing.assert_array_equal(modified_cvar(z, 0.85), np.sort(z, axis=0)[1])
    assert modified_cvar([5.0], 0.0) == 5.0


def test_measures_are_values():
    assert CVaR(0.5) == CVaR(0.5)
    assert CVaR(0.5) != VaR(0.5)
    assert len({CVaR(0.5), CVaR(0.5), CVaR(0.6), MeanCVaR(0.5, 0.1), Mean(), Mean()}) == 4
    assert repr(MeanCVaR(0.5, 0.1)) == "MeanCVaR(alpha=0.5, weight=0.1)"
    with pytest.raises(AttributeError):
        CVaR(0.5).alpha = 0.6
    with pytest.raises(TypeError):
        RiskMeasure()


# -- the normal kernels ------------------------------------------------------------------------------------


def exact_quantile(p, x):
    """Newton's method in 40 digits from the neighbourhood ``x``."""
    x = mpmath.mpf(x)
    for _ in range(4):
        x -= (mpmath.ncdf(x) - p) / mpmath.npdf(x)
    return x


def test_normal_quantile_to_1e_15_down_to_1e_300():
    rng = np.random.default_rng(0)
    chances = [
        *10.0 ** -rng.uniform(0.01, 300, 150),
        *rng.random(100),
        *0.5 + 10.0 ** -rng.uniform(1, 12, 30),
    ]
    chances += [1e-300, 5e-324, 0.075, 0.925, math.exp(-25), 1 - 2**-53]
    with mpmath.workdps(40):
        for p in chances:
            x = normal_quantile(p)
            assert abs(x / exact_quantile(mpmath.mpf(p), x) - 1) < 1e-15, p
    assert normal_quantile(0.5) == 0.0
    assert normal_quantile(0.0) == -math.inf
    assert normal_quantile(1.0) == math.inf
    assert all(math.isnan(normal_quantile(p)) for p in (-0.1, 1.1, math.nan))


def test_normal_cdf_and_pdf_in_both_tails():
    xs = [*np.linspace(-37.5, 37.5, 151), 0.0, 1e-10, -1e-10]
    with mpmath.workdps(40):
        for x in xs:
            rounding = 4e-16 * (1 + x * x)  # one rounding of x does as much
            assert abs(normal_cdf(x) / mpmath.ncdf(mpmath.mpf(x)) - 1) < rounding
            assert abs(normal_pdf(x) / mpmath.npdf(mpmath.mpf(x)) - 1) < rounding
    assert normal_cdf(-math.inf) == 0.0
    assert normal_cdf(math.inf) == 1.0


def test_normal_from_log_survival_in_both_tails():
    logs = [*-(10.0 ** np.linspace(-300, 2.8, 120)), math.log(0.5), -0.6931, -0.6932]
    with mpmath.workdps(40):
        for log_survival in logs:
            x = normal_from_log_survival(log_survival)
            if log_survival < math.log(0.5):
                target = -exact_quantile(mpmath.exp(mpmath.mpf(log_survival)), -x)
            else:
                target = exact_quantile(-mpmath.expm1(mpmath.mpf(log_survival)), x)
            # Near the median a rounding of log_survival moves x by as much in absolute terms.
            assert abs(x - target) <= 2e-15 * abs(target) + 2e-16, log_survival


# -- order statistics --------------------------------------------------------------------------------------

CASES = [(1, 1), (2, 2), (5, 1), (5, 2), (7, 7), (100, 3)]


@pytest.mark.parametrize(("n", "m"), CASES)
def test_lowest_normals_have_the_law_of_sorted_normals(n, m, rng):
    # Two-sample Kolmogorov-Smirnov on every order statistic and on every gap (the joint law), Bonferroni.
    # With 20,000 draws each, a shift of 0.1 sd is found with probability above 0.9.
    size = 20_000
    direct = lowest_normals(n, m, size=size, rng=rng)
    brute = np.sort(rng.standard_normal((size, n)), axis=1)[:, :m]
    assert (np.diff(direct, axis=1) >= 0).all()
    pairs = [(direct[:, j], brute[:, j]) for j in range(m)]
    pairs += [(np.diff(direct)[:, j], np.diff(brute)[:, j]) for j in range(m - 1)]
    for one, two in pairs:
        assert stats.ks_2samp(one, two, method="asymp").pvalue > FALSE_ALARM / (len(pairs) * len(CASES))


def order_moments(n, j):
    """Mean and variance of the j-th lowest of n standard normals, by quadrature."""
    with mpmath.workdps(30):
        scale = n * mpmath.binomial(n - 1, j - 1)

        def density(x):
            return scale * mpmath.ncdf(x) ** (j - 1) * mpmath.ncdf(-x) ** (n - j) * mpmath.npdf(x)

        points = [-12, -8, -6, -5, -4, -3, -2, -1, 0, 1, 2, 4, 8]
        mean = mpmath.quad(lambda x: x * density(x), points)
        return float(mean), float(mpmath.quad(lambda x: (x - mean) ** 2 * density(x), points))


@pytest.mark.parametrize(("n", "j"), [(2, 1), (10, 1), (10, 2), (1000, 1), (1000, 2), (10**6, 1), (10**6, 2)])
def test_means_of_order_statistics(n, j):
    # z-test: false alarm 1e-6 over the seven cases; 200,000 draws detect a bias of 0.02 sd.
    size = 200_000
    mean, variance = order_moments(n, j)
    draws = lowest_normals(n, j, size=size)[:, j - 1]
    z = (draws.mean() - mean) / math.sqrt(variance / size)
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 14)


def test_correlation_of_the_lowest_two():
    # For n = 2 they are minimum and maximum: means -+1/sqrt(pi), covariance 1/pi. z-test with false alarm
    # 1e-6; with 400,000 pairs it finds a covariance that is off by 0.01.
    size = 400_000
    low, high = lowest_normals(2, 2, size=size).T
    mean = 1 / math.sqrt(math.pi)
    products = (low + mean) * (high - mean)
    z = (products.mean() - 1 / math.pi) / (products.std() / math.sqrt(size))
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)


def test_lowest_normals_in_the_kernel():
    """The kernel is the stated recursion, in place too, and survives the extreme uniforms."""
    uniforms = np.random.default_rng(3).random(6)
    out = np.empty(6)
    lowest_normals_into(out, 6, uniforms)
    u, expected = 0.0, []
    for j, v in enumerate(1 - uniforms):
        u = 1 - (1 - u) * v ** (1 / (6 - j))
        expected.append(stats.norm.ppf(u))
    np.testing.assert_allclose(out, expected, rtol=1e-9)
    same = uniforms.copy()
    lowest_normals_into(same, 6, same)
    np.testing.assert_array_equal(same, out)
    for uniform in (0.0, 1 - 2**-53):
        for n, m in ((1, 1), (5, 5), (2**53, 3), (1000, 1000)):
            out = np.empty(m)
            lowest_normals_into(out, n, np.full(m, uniform))
            assert np.isfinite(out).all()
            assert (np.diff(out) >= 0).all()
    # tiny uniforms reach the far tail, where 1 - (1 - v) would have lost them
    out = np.empty(1)
    lowest_normals_into(out, 10**12, np.array([1e-12]))
    assert out[0] == pytest.approx(normal_quantile(1e-24), rel=1e-13)


def test_lowest_normals_shapes_and_seeds():
    assert lowest_normals(5, 2).shape == (2,)
    assert lowest_normals(5, 2, size=3).shape == (3, 2)
    assert lowest_normals(5, 2, size=(3, 4)).shape == (3, 4, 2)
    assert lowest_normals(5, 2, size=0).shape == (0, 2)
    np.testing.assert_array_equal(lowest_normals(5, 2, 3, rng=1), lowest_normals(5, 2, 3, np.random.default_rng(1)))


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_modified_estimator_is_at_least_cvar_on_average(alpha):
    # The order-statistic lemma, by quadrature; it is stated for X >= 0 but does not depend on location.
    mean, _ = order_moments(sample_size(alpha), 1 if sample_size_is_exact(alpha) else 2)
    tail = 1 - alpha
    assert mean >= -stats.norm.pdf(stats.norm.ppf(tail)) / tail
