"""CVaR of a Dirichlet mean plus a normal: quadrature in 30 digits, Gauss's rules for Beta laws, laws, extremes."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, roots_jacobi

import prudent as pr
from prudent._numerics.dirichlet_tail import SCRATCH
from prudent._numerics.noisy_tail import FINEST, noisy_tail_of_row


def noisy_cvar(values, counts, sd, p, accuracy=0.0, start=np.nan):
    """Return CVaR of the lower tail of mass p, its error, the tail means, the quantile and the next start."""
    values, counts = np.asarray(values, dtype=float), np.asarray(counts, dtype=float)
    q, work = np.empty(values.size), np.empty((SCRATCH, values.size))
    result, x, start, error = noisy_tail_of_row(values, counts, float(sd), float(p), start, accuracy, work, q)
    return result, error, q, x, start


def moments(values, counts):
    """Return mean and standard deviation of the Dirichlet mean."""
    values, counts = np.asarray(values, dtype=float), np.asarray(counts, dtype=float)
    total = counts.sum()
    mean = counts @ values / total
    return mean, math.sqrt(counts @ (values - mean) ** 2 / total / (total + 1.0))


def beta_mixture(values, counts, order):
    """Return points and weights of the law of w.values: Gauss's rules for the Beta laws of broken sticks."""
    points, weights, rest = np.array([values[-1]]), np.array([1.0]), counts[-1]
    for k in range(len(values) - 2, -1, -1):
        with np.errstate(all="ignore"):  # it fails for many nodes and large counts
            nodes, mass = roots_jacobi(order, rest - 1.0, counts[k] - 1.0)
        share, mass = 0.5 * (1.0 + nodes), mass / mass.sum()
        points = (share[:, None] * values[k] + (1.0 - share)[:, None] * points).ravel()
        weights, rest = (mass[:, None] * weights).ravel(), rest + counts[k]
    return points, weights


def by_gauss(values, counts, sd, p, x, order):
    """Return the maximum of x - E[(x - Z)+]/p near x, by Gauss's rules."""
    points, weights = beta_mixture(values, counts, order)
    u = (x - points) / sd
    below, density = ndtr(u), np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)
    off = p - weights @ below
    return x - sd * (weights @ (u * below + density)) / p + off**2 / (2.0 * p * (weights @ density) / sd)


@pytest.mark.parametrize("outcomes", [2, 3])
def test_gauss_rules_of_beta_laws(rng, outcomes):
    """Rows of all methods: series (wide noise), trapezoid (many counts), panels (few counts)."""
    compared = 0
    for _ in range(40):
        values, counts = rng.normal(size=outcomes), np.exp(rng.uniform(0.0, math.log(100.0), size=outcomes))
        _, own = moments(values, counts)
        sd, p = own * math.exp(rng.uniform(math.log(0.25), math.log(10.0))), math.exp(rng.uniform(-5.0, -0.1))
        found, error, _, x, _ = noisy_cvar(values, counts, sd, p)
        wide = math.hypot(own, sd)
        truth, again = (by_gauss(values, counts, sd, p, x, order) for order in (160, 130))
        unsure = 2.0 * abs(truth - again) + 1e-13 * wide / p
        if not unsure <= 1e-10 * wide:  # the rules themselves need more nodes, or are not found
            continue
        compared += 1
        assert abs(found - truth) <= error + unsure
        assert error <= 1e-9 * wide
    assert compared >= 25


def two_outcomes(values, counts, sd, p, x):
    """Return the maximum of x - E[(x - Z)+]/p near x for a Beta law, in 30 digits."""
    with mpmath.workdps(30):
        b, a = (mpmath.mpf(float(count)) for count in counts)
        low, high, s, p, x = (mpmath.mpf(float(number)) for number in (*values, sd, p, x))
        place, width = float((x - low) / (high - low)), abs(float(s / (high - low)))
        cuts = [place + j * width for j in (-12, -8, -5, -3, -2, -1, 0, 1, 2, 3, 5, 8, 12)]
        middle = float(a / (a + b))
        own = float(mpmath.sqrt(a * b / (a + b + 1)) / (a + b))
        cuts += [middle + j * own for j in (-12, -8, -5, -3, -1.5, 0, 1.5, 3, 5, 8, 12)]
        cuts = sorted({0.5} | {cut for cut in (*cuts, 1e-8, 1e-5, 1e-3, 0.02, 0.2, 0.8, 0.98, 0.999) if 0 < cut < 1})
        left, right = [0.0, *(cut for cut in cuts if cut <= 0.5)], [0.0, *(1.0 - c for c in cuts[::-1] if c >= 0.5)]

        def half(g, a, b, ends):  # t = u^(1/e) takes an infinite end of the density away
            e = min(a, mpmath.mpf(1))
            ends = [mpmath.mpf(end) ** e for end in ends]
            return mpmath.quad(lambda u: g(u ** (1 / e)) * u ** ((a - e) / e) * (1 - u ** (1 / e)) ** (b - 1) / e, ends)

        def mean(g):
            below = half(lambda t: g(low + (high - low) * t), a, b, left)
            above = half(lambda t: g(high - (high - low) * t), b, a, right)
            return (below + above) / mpmath.beta(a, b)

        def shortfall(y):
            u = (x - y) / s
            return s * (u * mpmath.ncdf(u) + mpmath.npdf(u))

        off = p - mean(lambda y: mpmath.ncdf((x - y) / s))
        slope = mean(lambda y: mpmath.npdf((x - y) / s) / s)
        return float(x - mean(shortfall) / p + off**2 / (2 * p * slope))


@pytest.mark.parametrize(
    ("values", "counts", "sd", "p"),
    [
        ((0.0, 0.34), (13.1, 0.15), 0.0065, 0.013),  # F has a spike at the first value
        ((0.54, -0.95), (0.14, 1.5), 0.051, 0.14),
        ((-0.66, -0.24), (0.1, 0.1), 0.0022, 0.032),
        ((0.4, 1.5), (0.58, 0.15), 0.038, 0.0058),
        ((1.35, 2.82), (2.35, 0.16), 0.5, 2e-4),
        ((0.0, 1.0), (700.0, 1.2), 0.001, 0.1),
    ],
)
def test_thirty_digits_where_counts_are_uneven(values, counts, sd, p):
    found, error, _, x, _ = noisy_cvar(values, counts, sd, p)
    _, own = moments(values, counts)
    assert abs(found - two_outcomes(values, counts, sd, p, x)) <= error <= 1e-9 * math.hypot(own, sd)


@pytest.mark.slow
def test_thirty_digits_of_random_rows(rng):
    for _ in range(40):
        values, counts = rng.normal(size=2), np.exp(rng.uniform(math.log(0.05), math.log(300.0), size=2))
        _, own = moments(values, counts)
        sd, p = own * math.exp(rng.uniform(-4.0, 2.5)), math.exp(rng.uniform(-7.0, -0.05))
        found, error, _, x, _ = noisy_cvar(values, counts, sd, p)
        assert abs(found - two_outcomes(values, counts, sd, p, x)) <= error + 1e-14 * math.hypot(own, sd) / p


@pytest.mark.slow
def test_errors_are_over_estimates(rng):
    """The error of a rule, by a finer one, is at most half of what it says (700 rows at four accuracies)."""
    for _ in range(700):
        outcomes = int(rng.integers(2, 12))
        values, counts = rng.normal(size=outcomes), np.exp(rng.uniform(-2.0, rng.uniform(0.0, 8.0), size=outcomes))
        _, own = moments(values, counts)
        sd, p = own * math.exp(rng.uniform(-4.0, 2.5)), math.exp(rng.uniform(-7.0, -0.05))
        fine, least, *_ = noisy_cvar(values, counts, sd, p)
        for accuracy in (1e-3, 1e-5, 1e-7, 1e-9):
            rough, error, *_ = noisy_cvar(values, counts, sd, p, accuracy * math.hypot(own, sd))
            assert abs(rough - fine) <= 0.5 * error + least


rows = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-10.0, 10.0), min_size=n, max_size=n),
        st.lists(st.floats(0.05, 2_000.0), min_size=n, max_size=n),
    )
)
ratios, masses = st.floats(-5.0, 5.0), st.floats(1e-3, 0.99)


@settings(deadline=None, max_examples=60)
@given(rows, ratios, masses, st.floats(-100.0, 100.0), st.floats(1e-3, 1e3))
def test_shifts_and_scales(row, ratio, p, shift, scale):
    values, counts = np.array(row[0]), np.array(row[1])
    _, own = moments(values, counts)
    assume(own > 1e-6)
    sd = own * math.exp(ratio)
    one, error, q, _, _ = noisy_cvar(values, counts, sd, p)
    other, more, r, _, _ = noisy_cvar(shift + scale * values, counts, scale * sd, p)
    assert abs(shift + scale * one - other) <= scale * error + more + 1e-13 * (abs(shift) + 10.0 * scale)
    np.testing.assert_allclose(q, r, atol=1e-4)
    assert q.sum() == pytest.approx(1.0)


@settings(deadline=None, max_examples=60)
@given(rows, ratios, masses, masses)
def test_less_mass_and_more_noise_cost_more(row, ratio, p, other):
    values, counts = np.array(row[0]), np.array(row[1])
    mean, own = moments(values, counts)
    assume(own > 1e-6)
    sd, (low, high) = own * math.exp(ratio), sorted((p, other))
    deep, first, *_ = noisy_cvar(values, counts, sd, low)
    wide, second, *_ = noisy_cvar(values, counts, sd, high)
    more, third, *_ = noisy_cvar(values, counts, 1.1 * sd, low)
    slack = 1e-14 * (1.0 + abs(values).max())
    assert deep <= wide + first + second + slack
    assert more <= deep + first + third + slack
    # Jensen's inequality above, and superadditivity below
    noise, plain = pr.exact.cvar_normal(0.0, sd, 1.0 - low), pr.exact.cvar_dirichlet(values, counts, 1.0 - low)
    assert plain + noise <= deep + first + 1e-11 * abs(values).max()
    assert deep <= min(plain, mean + noise) + first + 1e-11 * abs(values).max()


@settings(deadline=None, max_examples=40)
@given(rows, masses)
def test_limits(row, p):
    values, counts = np.array(row[0]), np.array(row[1])
    mean, own = moments(values, counts)
    assume(own > 1e-3)
    plain = pr.exact.cvar_dirichlet(values, counts, 1.0 - p)
    kappa = -float(pr.exact.cvar_normal(0.0, 1.0, 1.0 - p))
    for sd in (1e-12, 1e-9, 1e-7, 1e-5):  # no noise
        found, error, *_ = noisy_cvar(values, counts, sd, p)
        assert plain - kappa * sd - error - 1e-10 <= found <= plain + error + 1e-10
    for sd in (1e3, 1e6):  # nothing but noise: the variance of the mean adds, its skewness is small
        found, error, *_ = noisy_cvar(values, counts, sd, p)
        normal = mean - kappa * math.hypot(own, sd)
        assert abs(found - normal) <= error + 20.0 * own**3 / sd**2 / p + 1e-12 * sd
    many, error, *_ = noisy_cvar(values, 1e9 * counts, own, p)  # so many counts that the mean is known
    assert abs(many - (mean - kappa * own)) <= error + 1e-3 * own / p


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 0.1, 1.0, 1e3, 1e9, 1e30])
@pytest.mark.parametrize("ratio", [1e-12, 1e-6, 1e-3, 0.3, 3.0, 1e6])
def test_extremes_are_finite_and_enclosed(scale, ratio):
    values, counts = np.array([3.0, -1.0, 0.5, 0.5, 2.0]), scale * np.array([1.0, 2.0, 0.5, 1e-3, 7.0])
    mean, own = moments(values, counts)
    for p in (1e-6, 0.01, 0.5, 0.999):
        sd = 4.0 * ratio
        found, error, q, *_ = noisy_cvar(values, counts, sd, p)
        noise = float(pr.exact.cvar_normal(0.0, sd, 1.0 - p))
        assert np.isfinite(found)
        assert 0.0 <= error < np.inf
        assert (q >= 0.0).all()
        assert q.sum() == pytest.approx(1.0)
        slack = error + 1e-9 * (4.0 + sd)
        assert mean + noise - own * math.sqrt((1.0 - p) / p) - slack <= found <= mean + noise + slack


def test_all_weight_on_one_outcome():
    """With hardly any counts Z is a mixture of normals around the values."""
    values, weights, sd, p = np.array([0.0, 1.0, 5.0]), np.array([0.2, 0.5, 0.3]), 0.4, 0.3
    found, error, _, x, _ = noisy_cvar(values, 1e-13 * weights, sd, p)
    u = (x - values) / sd
    below = weights @ ndtr(u)
    short = sd * weights @ (u * ndtr(u) + np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi))
    assert below == pytest.approx(p, abs=1e-5)
    assert found == pytest.approx(x - short / p, abs=1e-9)
    assert error < 1e-8


def test_a_start_saves_work_and_changes_nothing(rng):
    for _ in range(20):
        values, counts = rng.normal(size=4), rng.gamma(0.5, 3.0, size=4) + 0.1
        _, own = moments(values, counts)
        sd, p = own * math.exp(rng.uniform(-4.0, 1.0)), float(rng.uniform(0.01, 0.9))
        cold, error, _, _, start = noisy_cvar(values, counts, sd, p)
        for off in (0.0, 0.3, -2.0):
            warm, other, *_ = noisy_cvar(values, counts, sd, p, start=start + off)
            assert abs(warm - cold) <= error + other
        assert error <= 10.0 * FINEST * math.hypot(own, sd)
