"""Exact rows for every prior: random rows against closed forms and against another path of integration.

The claim for K up to 200, counts from 1e-4 to 1e9 and alpha from 1e-6 to 0.9999: CVaR lies within its stated bound,
the bound is at most 1e-10 of the range of the values, and the tail means reproduce CVaR. Rows are fresh in each run.
The claim has no exceptions, so neither has the test: a failure names the seed, which brings the row back.
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from prudent.exact import dirichlet_tail

BOUND = 1e-10  # in units of the range of the values


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


FAMILIES = [one_prior_and_a_few_observed, mass_one, wild, one_huge, prior_only]
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
    """Return numbers between which CVaR lies, from tangents to the concave function x - G(x)/p beside the quantile."""
    x, error = LD(tail.quantile), LD(tail.error)
    good = 0.02 * error * p
    here = moments(x, values, counts, good)
    top, slack = x - here.G / p, here.G_error / p
    off = p - here.F
    side = 1 if off > 0 else -1
    widths = [0.05 * error, 0.2 * error, error]
    if here.f > 0:
        widths.insert(0, 3 * abs(off) / here.f + 4 * np.finfo(float).eps * abs(x))
    upper = LD(np.inf)
    for width in widths:
        y = min(max(x + side * width, LD(values.min())), LD(values.max()))
        if y in (values.min(), values.max()):
            mean = (values * counts).sum() / counts.sum()
            there = Moments(LD(0) if side < 0 else y - mean, LD(0) if side < 0 else LD(1), LD(0), LD(0), LD(0))
        else:
            there = moments(y, values, counts, good)
        # slopes of the tangents, x's towards y and y's towards x; F is known to F_error
        rise = max(side * (1 - (here.F - side * here.F_error) / p), LD(0))
        fall = side * ((there.F + side * there.F_error) / p - 1)
        crossed = side * (there.F - side * there.F_error - p) >= 0
        other = y - there.G / p
        if crossed:
            reach = abs(y - x)
            at = (other - top + fall * reach) / (rise + fall) if rise + fall > 0 else LD(0)
            upper = min(upper, top + rise * min(max(at, LD(0)), reach) + max(slack, there.G_error / p))
            if upper <= tail.cvar + error:
                break
    return top - slack, upper


def merged(values, counts):
    """Return the different values and their counts: outcomes of equal value are one outcome."""
    unique, place = np.unique(values, return_inverse=True)
    return unique, np.bincount(place, weights=counts)


def faults(values, counts, alpha):
    """Return what is wrong with this row, as a list of words; empty if all is well."""
    tail = dirichlet_tail(values, counts, alpha, threads=1)
    spread = np.ptp(values)
    wrong = []
    if not tail.error <= BOUND * spread:
        wrong.append(f"bound {tail.error / spread:.1e}")
    if not (tail.tail_means >= 0.0).all():
        wrong.append("negative tail mean")
    if not abs(tail.tail_means.sum() - 1.0) <= 1e-13:
        wrong.append(f"tail means add up to 1 + {tail.tail_means.sum() - 1.0:.1e}")
    miss = abs(tail.tail_means @ (values - values.min()) - (tail.cvar - values.min())) / spread
    if not miss <= BOUND:
        wrong.append(f"tail means miss cvar by {miss:.1e}")
    low, high = bracket(tail, *merged(values, counts), 1 - LD(alpha))
    if not high < np.inf:
        wrong.append("no proof that this is the quantile")
    if not tail.cvar - tail.error <= low:
        wrong.append(f"CVaR below its bound: {float((low - tail.cvar) / tail.error):.2g} errors")
    if high < np.inf and not high <= tail.cvar + tail.error:
        wrong.append(f"CVaR above its bound: {float((high - tail.cvar) / tail.error):.2g} errors")
    return wrong
