"""CVaR without sampling, against closed forms in 40 digits and more, quadrature and draws."""

import warnings
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from _beta import beta_cvar
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import integrate, stats

from prudent import exact
from prudent._numerics.normal import clipped_normal_cvar, normal_tail
from prudent.errors import ConvergenceWarning, DataError, ParameterError, PosteriorError
from prudent.exact import cvar_clipped_normal, cvar_dirichlet, cvar_normal, dirichlet_tail

LEVELS = [0.0, 0.001, 0.1, 0.5, 0.7, 0.9, 0.99, 0.999, 0.9999]
COUNTS = [0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 1e3, 1e6, 1e9]


# -- two outcomes: the Beta distribution ---------------------------------------------------------------------


@pytest.mark.parametrize("low", COUNTS)
def test_two_outcomes_agree_with_the_beta_closed_form(low):
    for high, alpha in product(COUNTS, LEVELS):
        if low == high == 1e9 and alpha not in (0.1, 0.9):  # the reference is slow there
            continue
        tail = dirichlet_tail([0.0, 1.0], [low, high], alpha)
        expected = beta_cvar(low, high, alpha)
        error = abs(float(mp.mpf(float(tail.cvar)) - expected))
        assert error <= 1e-10, (low, high, alpha)
        assert error <= tail.error, (low, high, alpha)
        assert abs(tail.tail_means.sum() - 1.0) <= 1e-15
        assert abs(tail.tail_means[1] - tail.cvar) <= 1e-10, (low, high, alpha)


def test_quantile_is_where_the_closed_form_has_mass_one_minus_alpha():
    counts = np.array([(a, b) for a, b in product([0.5, 1.0, 3.0, 40.0], repeat=2)])
    for alpha in (0.1, 0.5, 0.9, 0.999):
        tail = dirichlet_tail([0.0, 1.0], counts, alpha)
        mass = stats.beta.cdf(tail.quantile, counts[:, 1], counts[:, 0])
        np.testing.assert_allclose(mass, 1.0 - alpha, rtol=1e-5)


# -- more outcomes -------------------------------------------------------------------------------------------


def divided_difference(f, derivative, knots):
    """Divided difference of f at sorted knots, which may repeat; derivative(y, m) is its m-th derivative over m!."""
    table = [f(y) for y in knots]
    for m in range(1, len(knots)):
        table = [
            derivative(knots[i], m)
            if knots[i] == knots[i + m]
            else (table[i + 1] - table[i]) / (knots[i + m] - knots[i])
            for i in range(len(knots) - m)
        ]
    return table[0]


def simplex_cvar(values, counts, alpha):
    """CVaR of a Dirichlet mean with whole counts in 60 digits, by Hermite and Genocchi.

    E g(X) = (n-1)! f[knots] with f^(n-1) = g and value k repeated counts[k] times; for g = (x - y)+ and its
    derivative in x, f is a truncated power.
    """
    with mp.workdps(60):
        knots = [mp.mpf(float(v)) for v, c in sorted(zip(values, counts, strict=True)) for _ in range(c)]
        n, p = len(knots), 1 - mp.mpf(alpha)

        def moment(x, power):  # power n: E[(x - X)+], power n - 1: P(X <= x)
            def derivative(y, m):
                return (-1) ** m * mp.binomial(power, m) * (x - y) ** (power - m) if y < x else mp.mpf(0)

            factor = (-1) ** (n - 1) / mp.mpf(n if power == n else 1)
            return factor * divided_difference(lambda y: derivative(y, 0), derivative, knots)

        left, right = knots[0], knots[-1]
        for _ in range(60):
            x = (left + right) / 2
            left, right = (x, right) if moment(x, n - 1) < p else (left, x)
        return float(x - moment(x, n) / p)


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.99])
def test_three_and_five_outcomes_agree_with_divided_differences(k, alpha):
    rng = np.random.default_rng(k)
    for _ in range(8):
        counts = rng.integers(1, 5, k)
        values = np.sort(rng.random(k))
        assert abs(cvar_dirichlet(values, counts, alpha) - simplex_cvar(values, counts, alpha)) <= 1e-10


@pytest.mark.parametrize("counts", [(0.3, 1.7, 0.05), (1.0, 1e4, 1.0), (250.0, 3.0, 1e3), (0.02, 0.9, 30.0)])
@pytest.mark.parametrize("alpha", [0.2, 0.9, 0.999])
def test_three_outcomes_with_broken_and_uneven_counts_agree_with_quadrature(counts, alpha):
    """Given w_1, the rest is a Beta mean whose hinge moment is elementary; one integral over w_1 remains."""
    values = np.array([0.1, 0.35, 1.0])
    a, b, c = counts
    tail = dirichlet_tail(values, counts, alpha)
    x = float(tail.quantile)

    def shortfall_given(w):  # E[(x - X)+ | w_1 = w], X = w v_1 + (1 - w)(v_2 + (v_3 - v_2) B), B ~ Beta(c, b)
        scale = (1.0 - w) * (values[2] - values[1])
        y = (x - w * values[0] - (1.0 - w) * values[1]) / scale if scale > 0 else np.inf
        if y <= 0.0:
            return 0.0
        if y >= 1.0:
            return scale * (y - c / (b + c)) if scale > 0 else max(x - values[0], 0.0)
        return scale * (y * stats.beta.cdf(y, c, b) - c / (b + c) * stats.beta.cdf(y, c + 1.0, b))

    first = stats.beta(a, b + c)
    # integrating over quantiles of w_1 tames the singular density; break where the integrand has kinks
    kinks = [first.cdf((x - v) / (values[0] - v)) for v in values[1:]]
    edges = np.unique(np.clip([0.0, *kinks, 1.0], 0.0, 1.0))
    shortfall = sum(
        integrate.quad(lambda u: shortfall_given(first.ppf(u)), lo, hi, epsabs=1e-13, epsrel=1e-11, limit=400)[0]
        for lo, hi in pairwise(edges)
    )
    assert abs(tail.cvar - (x - shortfall / (1.0 - alpha))) <= 2e-10 / (1.0 - alpha) ** 0.25


def test_agrees_with_draws(rng):
    """False-alarm rate 4e-8 per comparison (5.5 standard errors); catches a relative error of the excess of 1%."""
    for alpha in (0.5, 0.9):
        counts, values = rng.uniform(0.2, 5.0, 6), rng.random(6)
        draws = np.sort(rng.dirichlet(counts, 400_000) @ values)
        tail = draws[: round(len(draws) * (1.0 - alpha))]
        # standard error of the CVaR estimator: that of (x - X)+ / (1 - alpha)
        hinge = np.maximum(tail[-1] - draws, 0.0) / (1.0 - alpha)
        error = hinge.std() / np.sqrt(len(draws))
        assert abs(cvar_dirichlet(values, counts, alpha) - tail.mean()) <= 5.5 * error + 1e-6


def test_tail_means_are_the_gradient():
    rng = np.random.default_rng(3)
    counts, values = rng.uniform(0.5, 9.0, 5), rng.random(5)
    means = dirichlet_tail(values, counts, 0.8).tail_means
    h = 1e-4
    for k, step in enumerate(np.eye(5) * h):
        slope = (cvar_dirichlet(values + step, counts, 0.8) - cvar_dirichlet(values - step, counts, 0.8)) / (2 * h)
        assert abs(slope - means[k]) <= 1e-6


# -- laws ----------------------------------------------------------------------------------------------------

rows = st.integers(2, 7).flatmap(
    lambda k: st.tuples(
        st.lists(st.floats(-5, 5), min_size=k, max_size=k),
        st.lists(st.floats(-2, 9).map(lambda e: 10.0**e), min_size=k, max_size=k),
        st.integers(0, k - 1),
    )
)


@given(rows, st.floats(0, 0.9999), st.floats(-100, 100), st.floats(1e-3, 1e3))
def test_is_coherent_and_certified(row, alpha, shift, scale):
    values, counts, bump = np.array(row[0]), np.array(row[1]), row[2]
    counts[bump] += 1.0
    spread = np.ptp(values) + 1e-300
    tail = dirichlet_tail(values, counts, alpha)
    mean = counts @ values / counts.sum()
    rounding = 1e-14 * np.abs(values).max()
    assert values.min() - 1e-9 * spread - rounding <= tail.cvar <= mean + 1e-9 * spread + rounding
    assert tail.error <= 2e-9 * spread + rounding
    assert (tail.tail_means >= 0).all()
    assert abs(tail.tail_means.sum() - 1.0) <= 1e-14
    assert abs(tail.tail_means @ values - tail.cvar) <= 1e-9 * spread + rounding
    moved = cvar_dirichlet(values * scale + shift, counts, alpha)
    assert abs(moved - (tail.cvar * scale + shift)) <= 1e-9 * spread * scale + 1e-13 * (1 + abs(shift) + 5 * scale)
    raised = values.copy()
    raised[bump] += 0.3
    assert cvar_dirichlet(raised, counts, alpha) >= tail.cvar - 1e-9 * np.ptp(raised)


@given(rows, st.floats(0, 0.99))
def test_is_superadditive_and_falls_with_alpha(row, alpha):
    values, counts = np.array(row[0]), np.array(row[1])
    counts[row[2]] += 1.0
    other = values[::-1] ** 2
    slack = 1e-9 * (np.ptp(values) + np.ptp(other)) + 1e-12
    joint = cvar_dirichlet(values + other, counts, alpha)
    assert joint >= cvar_dirichlet(values, counts, alpha) + cvar_dirichlet(other, counts, alpha) - slack
    assert cvar_dirichlet(values, counts, alpha + 0.5 * (1 - alpha)) <= cvar_dirichlet(values, counts, alpha) + slack


@given(rows, st.floats(0.01, 0.999), st.floats(-6, 6))
@example(([0.5, 0.0, 1.0], [1.0, 0.1, 0.1], 0), 0.5, 0.0)  # the quantile is a value
@example(([1.1125369292536007e-308, 0.0, 1.0], [1.0, 0.1, 0.1], 0), 0.5, 0.0)
def test_a_warm_start_changes_nothing(row, alpha, start):
    values, counts = np.array(row[0]), np.array(row[1])
    counts[row[2]] += 1.0
    cold, warm = dirichlet_tail(values, counts, alpha), dirichlet_tail(values, counts, alpha, start=start)
    assert abs(cold.cvar - warm.cvar) <= cold.error + warm.error


# -- shapes and edges ----------------------------------------------------------------------------------------


def test_broadcasts_and_threads_agree():
    rng = np.random.default_rng(0)
    values, counts = rng.random((40, 1, 4)), rng.uniform(0.5, 20.0, (30, 4))
    one = dirichlet_tail(values, counts, [[0.9]], threads=1)
    two = dirichlet_tail(values, counts, 0.9, threads=2)
    assert one.cvar.shape == (40, 30)
    assert one.tail_means.shape == (40, 30, 4)
    np.testing.assert_array_equal(one.cvar, two.cvar)
    assert one.cvar[7, 11] == cvar_dirichlet(values[7, 0], counts[11], 0.9)


def test_special_rows():
    assert cvar_dirichlet([3.0, 3.0, 3.0], [1, 2, 3], 0.9) == 3.0
    assert cvar_dirichlet([3.0, 8.0], [1.0, 0.0], 0.9) == 3.0
    with_zero = cvar_dirichlet([0.0, 0.5, 1.0, -9.0], [1.0, 2.0, 3.0, 0.0], 0.9)
    assert with_zero == cvar_dirichlet([0.0, 0.5, 1.0], [1.0, 2.0, 3.0], 0.9)
    equal = cvar_dirichlet([0.0, 0.5, 0.5, 1.0], [1.0, 2.0, 3.0, 4.0], 0.9)
    assert abs(equal - cvar_dirichlet([0.0, 0.5, 1.0], [1.0, 5.0, 4.0], 0.9)) <= 1e-12
    assert dirichlet_tail([0.0, 1.0, 2.0], [1.0, 0.0, 1.0], 0.5).tail_means[1] == 0.0


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e8, 1e300])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_values_of_any_size(scale, offset):
    values = np.array([0.0, 0.2, 0.7, 1.0])
    expected = cvar_dirichlet(values, [1.0, 4.0, 2.0, 3.0], 0.9)
    got = cvar_dirichlet((values + offset) * scale, [1.0, 4.0, 2.0, 3.0], 0.9)
    assert abs(got / scale - offset - expected) <= 1e-11


def test_many_outcomes():
    rng = np.random.default_rng(0)
    values = rng.random(500)
    tail = dirichlet_tail(values, np.ones(500), 0.9)
    assert tail.error <= 1e-10
    assert abs(tail.tail_means @ values - tail.cvar) <= 1e-10
    # grouping equal values is exact: 500 outcomes with ten values are ten outcomes
    groups = np.repeat(np.arange(10.0), 50)
    assert (
        abs(cvar_dirichlet(groups, np.ones(500), 0.9) - cvar_dirichlet(np.arange(10.0), np.full(10, 50.0), 0.9)) <= 1e-9
    )


def test_totals_below_one_pass():
    tail = dirichlet_tail([0.0, 0.4, 1.0], [0.01, 0.02, 0.005], 0.9)
    assert np.isfinite(tail.cvar)
    assert 0.0 <= tail.cvar <= 1e-3


@pytest.mark.parametrize("alpha", [1.0 - 1e-6, 1.0 - 1e-9])
def test_beyond_the_levels_of_the_promise_coarse_rows_are_named(alpha, rng):
    counts = np.concatenate(
        [
            np.full((20, 30), 1.0),
            1.0 / 30 + rng.multinomial(4, np.full(30, 1.0 / 30), 20),
            10.0 ** rng.uniform(-4, 9, (20, 30)),
            np.where(np.arange(30) == 7, 10.0 ** rng.uniform(0, 9, (20, 1)), 10.0 ** rng.uniform(-4, 0, (20, 1))),
        ]
    )
    values = rng.random((80, 30))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tail = dirichlet_tail(values, counts, alpha)
    spread = np.ptp(values, axis=1)
    mean = (values * counts).sum(axis=1) / counts.sum(axis=1)
    assert (tail.error <= (mean - values.min(axis=1)) + 1e-13).all()
    assert (tail.cvar >= values.min(axis=1)).all()
    assert (tail.cvar <= mean + 1e-15).all()
    coarse = np.flatnonzero(tail.error > 1e-10 * spread + 4.0 * np.spacing(1.0))
    assert len(caught) == (coarse.size > 0)
    for warning in caught:
        assert warning.category is ConvergenceWarning
        assert warning.filename == __file__
        assert f"row[{coarse[0]}]" in str(warning.message)
        assert f"{coarse.size} of 80 rows" in str(warning.message)


def test_two_outcomes_beyond_the_levels_of_the_promise_stay_within_their_bound():
    for low, high, alpha in product([0.01, 1.0, 40.0, 1e4], [0.3, 1.0, 1e3], [1.0 - 1e-6, 1.0 - 1e-9]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            tail = dirichlet_tail([0.0, 1.0], [low, high], alpha)
        expected = beta_cvar(low, high, alpha)
        assert abs(float(mp.mpf(float(tail.cvar)) - expected)) <= tail.error, (low, high, alpha)


def test_a_coarse_row_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(exact, "SHARP", 0.0)  # now every row is
    counts = np.ones((2, 3, 4))
    counts[0, 0, 2:] = 0.0
    with warned(ConvergenceWarning, "coarse-rows", index=(0, 1)) as seen:
        cvar_dirichlet([1e-3, 1e-3, 0.5, 1.0], counts, 0.9)
    assert len(seen) == 1
    assert seen[0].filename == __file__


# -- normals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 0.9999])
def test_normal_closed_form(alpha):
    with mp.workdps(40):
        p = 1 - mp.mpf(alpha)
        z = mp.sqrt(2) * mp.erfinv(2 * p - 1) if alpha else mp.inf
        expected = 2 - 3 * (mp.npdf(z) / p if alpha else 0)
    assert abs(cvar_normal(2.0, 3.0, alpha) - float(expected)) <= 1e-12 * abs(float(expected))


@pytest.mark.parametrize("mean", [-3.0, -0.2, 0.0, 0.3, 0.99, 1.5, 40.0])
@pytest.mark.parametrize("sd", [0.0, 1e-9, 0.01, 0.5, 7.0, 1e6])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 0.9, 0.999])
def test_clipped_normal_agrees_with_its_quantile_function(mean, sd, alpha):
    got = cvar_clipped_normal(mean, sd, alpha)
    if sd == 0.0:
        assert got == min(max(mean, 0.0), 1.0)
        return
    with mp.workdps(30):
        # (1/p) times the integral of p - P(Y <= y) over y in [0, x], x the clipped quantile
        p = 1 - mp.mpf(alpha)
        z = mp.sqrt(2) * mp.erfinv(2 * p - 1) if alpha else mp.inf
        x = min(max(mp.mpf(mean) + mp.mpf(sd) * z, 0), 1)
        knots = sorted({mp.mpf(0), x, *(min(max(mp.mpf(mean) + k * mp.mpf(sd), 0), x) for k in (-8, -3, 0, 3, 8))})
        expected = float(mp.quad(lambda y: p - mp.ncdf((y - mean) / sd), knots) / p) if x > 0 else 0.0
    assert abs(got - expected) <= 1e-12


@given(st.floats(-2, 3), st.floats(-3, 2), st.sampled_from([0.0, 0.3, 0.9, 0.999]))
def test_the_quick_form_of_clipped_normals_is_off_by_no_more_than_rounding(mean, log_sd, alpha):
    # simulations use it: see clipped_normal_cvar
    sd, tail = 10.0**log_sd, 1.0 - alpha
    quick = clipped_normal_cvar(mean, sd, tail, float(normal_tail(tail)[0]), False)
    assert abs(quick - cvar_clipped_normal(mean, sd, alpha)) <= 2e-15 * (1.0 + sd) * (1.0 + abs(mean)) / tail


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "code", "fields"),
    [
        (lambda: cvar_dirichlet([0, 1], [1, 1], 1.0), ParameterError, "alpha-range", {"value": 1.0}),
        (
            lambda: cvar_normal(0, 1, [0.5, -1.1]),
            ParameterError,
            "alpha-range",
            {"argument": "alpha[1]", "value": -1.1},
        ),
        (
            lambda: cvar_dirichlet([0, 1], [[1, 1], [-2, 1]], 0.5),
            PosteriorError,
            "negative",
            {"index": (1, 0), "value": -2},
        ),
        (lambda: cvar_dirichlet([0, 1], [[1, 1], [0, 0]], 0.5), PosteriorError, "sum-zero", {"index": (1,)}),
        (
            lambda: cvar_dirichlet([0, 1], [np.nan, 1], 0.5),
            PosteriorError,
            "not-finite",
            {"argument": "counts", "index": (0,)},
        ),
        (
            lambda: cvar_dirichlet([0, np.inf], [1, 1], 0.5),
            DataError,
            "not-finite",
            {"argument": "values", "index": (1,)},
        ),
        (
            lambda: cvar_dirichlet([0, 1, 2], [1, 1], 0.5),
            PosteriorError,
            "wrong-shape",
            {"value": (2,), "expected": (3,)},
        ),
        (lambda: cvar_normal(0, -1, 0.5), DataError, "negative", {"argument": "sd", "value": -1.0}),
    ],
)
def test_bad_input_is_named(call, error, code, fields):
    with refused(error, code, **fields):
        call()
