"""Exact rows for every prior: random rows against closed forms and against another path of integration.

The claim for K up to 200, counts from 1e-4 to 1e9 and alpha from 1e-6 to 0.9999: CVaR lies within its stated bound,
the bound is at most 1e-10 of the range of the values, and the tail means reproduce CVaR. Rows are fresh in each run.
The claim has no exceptions, so neither has the test: a failure names the seed, which brings the row back.
"""

import warnings
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from _beta import beta_cdf, beta_cvar, beta_mass

from prudent.errors import ConvergenceWarning
from prudent.exact import dirichlet_tail

BOUND = 1e-10  # in units of the range of the values, for a billion counts; then rounding grows with them


# -- random rows ---------------------------------------------------------------------------------------------


def one_prior_and_a_few_observed(rng, k):
    counts = np.full(k, 10.0 ** rng.uniform(-4, 1))
    seen = rng.integers(0, k, rng.integers(1, 9))
    np.add.at(counts, seen, np.ceil(10.0 ** rng.uniform(0, 4, seen.size)))
    return counts


def mass_one(rng, k):
    return 1.0 / k + rng.multinomial(rng.choice([0, 1, 4, 30]), rng.dirichlet(np.ones(k)))


def wild(rng, k):
    low, high = np.sort(rng.uniform(-4, 9, 2))
    return 10.0 ** rng.uniform(low, high, k)


def one_huge(rng, k):
    counts = 10.0 ** (rng.uniform(-4, 0) + rng.uniform(0, 1) * np.minimum(rng.exponential(1.0, k), 4.0))
    counts[rng.integers(k)] = 10.0 ** rng.uniform(0, 9)
    return counts


def prior_only(rng, k):
    return np.full(k, 10.0 ** rng.uniform(-4, 2))


def weak(rng, k):
    return rng.dirichlet(np.full(k, 10.0 ** rng.uniform(-1, 1))) * 10.0 ** rng.uniform(-2, 0) + 1e-4


FAMILIES = [one_prior_and_a_few_observed, mass_one, wild, one_huge, prior_only, weak]
VALUES = [
    lambda rng, k: rng.random(k),
    lambda rng, k: np.exp(rng.uniform(0.3, 3.0) * rng.standard_normal(k)),
    lambda rng, k: rng.integers(0, rng.integers(2, 9), k).astype(float),  # ties
    lambda rng, k: rng.choice([-3.0, 5.0], k) + 10.0 ** rng.uniform(-9, 0) * rng.random(k),  # two clusters
]


def random_row(rng):
    """Return values [K], counts [K] and alpha of one of the families; the values differ."""
    k = int(np.ceil(200.0 ** rng.uniform(0.13, 1.0)))
    counts = FAMILIES[rng.integers(len(FAMILIES))](rng, k)
    values = VALUES[rng.integers(len(VALUES))](rng, k)
    while np.ptp(values) == 0.0:
        values = VALUES[0](rng, k)
    alpha = 1.0 - 10.0 ** rng.uniform(-4, 0) if rng.random() < 0.7 else 10.0 ** rng.uniform(-6, 0)
    return values, counts, min(max(alpha, 1e-6), 0.9999)


# -- another path --------------------------------------------------------------------------------------------

LD = np.longdouble
NODES = 1200


class Moments(NamedTuple):
    """E[(x - X)+], P(X <= x) and the density of X at x, and bounds on the errors of the first two."""

    G: LD
    F: LD
    f: LD
    G_error: LD
    F_error: LD


def crossing(d, counts):
    """Return the minimum of log M(z) - log z on (0, 1/max d), by bisection, given at least 3/4 of a lowest count."""
    weight = counts.copy()
    weight[d.argmax()] = max(weight[d.argmax()], 0.75)
    low, high = LD(0), 1 / d.max()
    for _ in range(60):
        z = (low + high) / 2
        if (weight * z * d / (1 - z * d)).sum() > 1:
            high = z
        else:
            low = z
    e = d / (1 - z * d)
    return z, 1 / np.sqrt(1 / (z * z) + (weight * e * e).sum())


def along(c, h, bend, d, counts, nodes, far):
    """Sum the integrands of G, F, the density and the identity over z = c + h (i sinh s - bend (cosh s - 1)).

    The trapezoidal rule in s, the plain exponential spacing. Returns the four sums over all nodes, over every other
    node, and a bound on what rounding does to the first. The integrand for F is M S/z, that for G is M/z^2.
    """
    step = far / nodes
    s = step * np.arange(nodes, dtype=LD)
    z = c + h * (1j * np.sinh(s) - bend * (np.cosh(s) - 1))
    dz = h * (1j * np.cosh(s) - bend * np.sinh(s))
    size, angle = np.zeros_like(s), np.zeros_like(s)
    S, T, P = np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)
    load = np.zeros_like(s)  # of rounding
    for dk, psi in zip(d, counts, strict=True):
        t = z * dk
        more = t.real * (t.real - 2) + t.imag * t.imag
        log = psi * np.log1p(np.maximum(more, -0.5)) / 2
        small = more < -0.5
        if small.any():
            log[small] = psi * np.log(abs(1 - t[small]))
        size -= log
        load += abs(log) + psi * abs(np.arctan2(t.imag, 1 - t.real))
        angle += psi * np.arctan2(t.imag, 1 - t.real)
        r = 1 / (1 - t)
        S += psi * r
        T += psi * r * r
        P += psi * dk * r
    with np.errstate(under="ignore"):
        W = np.exp(size) * (np.cos(angle) + 1j * np.sin(angle)) * dz / np.pi * step
        W[0] /= 2
        terms = np.stack([(W / z / z), (W * S / z), (W * (S * S + T)), (W / z * (P - 1 / z))])
    noise = np.finfo(LD).eps * (abs(terms) * (8 + load)).sum(axis=1)
    # as much as the last nodes have is missing beyond them
    noise += 30 * nodes / far * abs(terms[:, -1])
    return terms.imag.sum(axis=1), 2 * terms.imag[:, ::2].sum(axis=1), noise


def moments(x, values, counts, good):
    """Integrate on the path that satisfies the identity best; stop at the first whose error of G is below ``good``."""
    d = LD(x) - values.astype(LD)
    counts = counts.astype(LD)
    total = counts.sum()
    on = d == 0
    # X lies below the value of an outcome if the mean of the others does; G has no use for that outcome either
    c, h = crossing(d, counts)
    away = abs(d[~on])
    far = np.log(2 / (h * min(away.min(), 1 / h))) + 50
    best = None
    for nodes in (NODES, 4 * NODES):
        for bend in (0.0, 0.25, -0.25, 0.6, -0.6, 1.0, -1.0, 0.08, -0.08):
            with np.errstate(over="ignore", invalid="ignore"):
                all_, half, noise = along(c, h, bend, d[~on], counts[~on], nodes, far)
            if not np.isfinite(all_).all():
                continue
            # the rule converges exponentially: half the nodes have at least the square root of the error
            G_error = (abs(all_[3]) + 0.1 * abs(all_[0] - half[0]) + noise[0] + noise[3]) / total
            F_error = (0.1 * abs(all_[1] - half[1]) + noise[1]) / (total - counts[on].sum())
            if best is None or G_error < best.G_error:
                rest = total - counts[on].sum()
                best = Moments(all_[0] / total, all_[1] / rest, all_[2] / rest, G_error, F_error)
            if best.G_error <= good and best.F_error <= 1e-9:
                return best
    return best


def bracket(tail, values, counts, p):
    """Return numbers between which CVaR lies: x - G(x)/p at some x, and where two tangents to it meet.

    It is concave with maximum CVaR and slope 1 - F(x)/p. The points are taken around the reported quantile.
    """
    error, left, right = LD(tail.error), LD(values.min()), LD(values.max())
    mean = (values.astype(LD) * counts).sum() / LD(counts.sum())
    # x, x - G(x)/p, its error, and the slope there, towards the maximum: never too small
    below, above = (left, left, LD(0), LD(1)), (right, right - (right - mean) / p, LD(0), 1 / p - 1)
    lower, meet = max(below[1], above[1]), (left + right) / 2
    x = LD(tail.quantile)
    points = [x]
    for turn in range(40):
        while points and not below[0] < points[0] < above[0]:
            points.pop(0)
        y = points.pop(0) if points else (meet if turn % 2 else (below[0] + above[0]) / 2)
        at = moments(y, values, counts, 0.02 * error * p)
        off = p - at.F
        if turn == 0:
            nearest = values[abs(values - float(x)).argmin()].astype(LD)
            points = [nearest, x - error / 20, x + error / 20, x - error / 4, x + error / 4]
            if at.f > 0:  # a Newton step, and a little to either side, where the maximum is flat
                y1, little = x + off / at.f, np.sqrt(error * p / at.f / 10)
                points = [y1, y1 - little, y1 + little, *points]
        top, slack = y - at.G / p, at.G_error / p
        lower = max(lower, top - slack)
        if off > at.F_error:
            below = (y, top, slack, (off + at.F_error) / p)
        elif off < -at.F_error:
            above = (y, top, slack, (at.F_error - off) / p)
        rise, fall = below[3], above[3]
        meet = (above[1] + fall * above[0] - below[1] + rise * below[0]) / (rise + fall)
        upper = below[1] + rise * (meet - below[0]) + max(below[2], above[2])
        if tail.cvar - error <= lower and upper <= tail.cvar + error:
            break
    return lower, upper


def merged(values, counts):
    """Return the different values and their counts: outcomes of equal value are one outcome."""
    unique, place = np.unique(values, return_inverse=True)
    return unique, np.bincount(place, weights=counts)


def faults(values, counts, alpha):
    """Return what is wrong with this row, as a list of words; empty if all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound is looked at here
        tail = dirichlet_tail(values, counts, alpha, threads=1)
    spread, ulp = np.ptp(values), np.spacing(abs(values).max())
    bound = BOUND * max(1.0, counts.sum() / 1e9)
    wrong = []
    if not tail.error <= bound * spread + 4 * ulp:
        wrong.append(f"bound {tail.error / spread:.1e}")
    if not (tail.tail_means >= 0.0).all():
        wrong.append("negative tail mean")
    if not abs(tail.tail_means.sum() - 1.0) <= 1e-13:
        wrong.append(f"tail means add up to 1 + {tail.tail_means.sum() - 1.0:.1e}")
    miss = abs(tail.tail_means @ (values - tail.cvar))
    if not miss <= bound * spread + 4 * ulp:
        wrong.append(f"tail means miss cvar by {miss / spread:.1e}")
    low, high = bracket(tail, *merged(values, counts), 1 - LD(alpha))
    # both ends within the bound, and they do not contradict each other
    cvar, error = LD(tail.cvar), LD(tail.error)  # the bound may be half a unit in the last place of CVaR
    if not (cvar - error <= low <= high + 0.5 * error and high <= cvar + error):
        off = [float((end - cvar) / error) for end in (low, high)]
        wrong.append(f"CVaR between {off[0]:.2g} and {off[1]:.2g} errors off")
    return wrong


def check(seed, rows):
    for i in range(rows):
        row = random_row(np.random.default_rng([seed, i]))
        wrong = faults(*row)
        assert not wrong, f"random_row(default_rng([{seed}, {i}])): {wrong}"


def test_random_rows_on_another_path():
    check(np.random.SeedSequence().entropy, 60)


@pytest.mark.slow
@pytest.mark.parametrize("_", range(10))
def test_many_random_rows_on_another_path(_):
    check(np.random.SeedSequence().entropy, 500)


def test_the_other_path_finds_faults():
    """The reference is sharp enough to tell that CVaR is off by little more than its bound."""
    values, counts, alpha = np.array([0.0, 0.3, 0.4, 1.0]), np.array([0.25, 4.25, 0.25, 1.25]), 0.9
    tail = dirichlet_tail(values, counts, alpha)
    low, high = bracket(tail, values, counts, 1 - LD(alpha))
    assert high - low <= 1e-12
    for wrong in (tail.cvar + 3e-12, tail.cvar - 3e-12):
        low, high = bracket(tail._replace(cvar=wrong), values, counts, 1 - LD(alpha))
        assert low > wrong + tail.error or high < wrong - tail.error


# -- closed forms --------------------------------------------------------------------------------------------


def two_values(rng, k):
    """Return counts [K] of any family whose reference is quick, and which outcomes are high."""
    while True:
        counts = FAMILIES[rng.integers(len(FAMILIES))](rng, k)
        high = rng.random(k) < 0.5
        if 0 < high.sum() < k and counts.sum() < 1e7:
            return counts, high


@pytest.mark.parametrize("rows", [30, pytest.param(1500, marks=pytest.mark.slow)])
def test_two_values_agree_with_the_beta_closed_form(rows):
    seed = np.random.SeedSequence().entropy
    for i in range(rows):
        rng = np.random.default_rng([seed, i])
        counts, high = two_values(rng, 2 if i % 3 else int(rng.integers(3, 100)))
        alpha = random_row(rng)[2]
        tail = dirichlet_tail(high.astype(float), counts, alpha)
        expected = beta_cvar(mp.fsum(counts[~high]), mp.fsum(counts[high]), alpha)
        error = abs(float(tail.cvar - expected))
        assert error <= tail.error <= BOUND, (seed, i)
        assert abs(tail.tail_means[high].sum() - tail.cvar) <= BOUND, (seed, i)


@pytest.mark.parametrize("rows", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_three_values_agree_with_an_integral_of_beta_closed_forms(rows):
    """Given the weight of the lowest, the rest is a Beta mean; one integral over that weight remains."""
    seed = np.random.SeedSequence().entropy
    for i in range(rows):
        rng = np.random.default_rng([seed, i])
        counts, middle = 10.0 ** rng.uniform(-0.7, 1.5, 3), rng.uniform(0.1, 0.9)
        alpha = rng.uniform(0.05, 0.99)
        tail = dirichlet_tail([0.0, middle, 1.0], counts, alpha)
        with mp.workdps(25):
            a, b, c = map(mp.mpf, counts)
            v, x, p = mp.mpf(middle), mp.mpf(float(tail.quantile)), 1 - mp.mpf(alpha)

            def shortfall(w, rest, a=a, b=b, c=c, v=v, x=x):  # E[(x - X)+ | w], X = (1 - w)(v + (1 - v) B)
                y = (x / rest - v) / (1 - v)
                if y <= 0:
                    return mp.mpf(0)
                mean = c / (b + c)
                if y >= 1:
                    return rest * (1 - v) * (y - mean)
                mass = beta_cdf(c, b, y, 1 - y)
                part = mean * (mass - beta_mass(c, b, y, 1 - y) / c)
                return rest * (1 - v) * (y * mass - part)

            def integrand(t, a=a, b=b, c=c, shortfall=shortfall):  # w = 1 / (1 + exp(-t)), which tames the ends
                w, rest = 1 / (1 + mp.exp(-t)), 1 / (1 + mp.exp(t))
                return beta_mass(a, b + c, w, rest) * shortfall(w, rest)

            # kinks where the Beta variable meets its ends
            kinks = [mp.log((1 - r) / r) for r in (x / v, x) if 0 < r < 1]
            ends = sorted([-mp.mpf(60) / min(a, 1), mp.mpf(0), *kinks, mp.mpf(60) / min(b + c, 1)])
            expected = x - mp.quad(integrand, ends) / p
        assert abs(float(tail.cvar - expected)) <= tail.error <= BOUND, (seed, i)
