"""Rows with two risks by other means than the library's: draws in NumPy, and closed forms in many digits (mpmath).

``reference`` returns the value of a row and how far it may be off: for one or two outcomes, for three of which two have
whole counts, and for the mean over the posterior of any number of outcomes.

**Three outcomes.** The smallest y_1 <= y_2 <= y_3, a = (y_2 - y_1) / (y_3 - y_1), and the share t of outcomes give
sigma = y_3 - (y_3 - y_1) H, where H is linear in theta in each of the polygons C_1 >= t, C_1 < t <= C_2 and C_2 < t of
the simplex. So P(H > h) and E (H - h)+ are integrals of the Dirichlet density times a linear function over polygons.
With two whole counts the density is w^(c - 1) times a polynomial, w the probability of the third count c, so that the
integral over a polygon is a sum of powers. Its terms cancel; digits are added until they do not matter.

The library integrates incomplete Beta functions over C_1 in double precision instead.
"""

from __future__ import annotations

from itertools import pairwise
from math import comb, log10
from typing import NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Number = mp.mpf
Mixture = list[tuple[float, float]]  # of CVaRs: level and weight
SAME = mp.mpf(10) ** -40  # relative distance of corners that are one
LONGEST = 40  # whole count for which polynomials are expanded


class Value(NamedTuple):
    """A value, and how far it may be off."""

    value: Number
    doubt: Number


# -- polynomials in w --------------------------------------------------------------------------------------


def _times(p: list[Number], q: list[Number]) -> list[Number]:
    found = [mp.mpf(0)] * (len(p) + len(q) - 1)
    for i, x in enumerate(p):
        for j, y in enumerate(q):
            found[i + j] += x * y
    return found


def _powers(p: list[Number], most: int) -> list[list[Number]]:
    found = [[mp.mpf(1)]]
    for _ in range(most):
        found.append(_times(found[-1], p))
    return found


def _plus(p: list[Number], q: list[Number]) -> list[Number]:
    size = max(len(p), len(q))
    zero = mp.mpf(0)
    return [(p[i] if i < len(p) else zero) + (q[i] if i < len(q) else zero) for i in range(size)]


# -- three outcomes ----------------------------------------------------------------------------------------

Point = tuple[Number, Number]  # (w, u)
Linear = tuple[Number, Number, Number]  # of 1, w and u


def _at(f: Linear, point: Point) -> Number:
    return f[0] + f[1] * point[0] + f[2] * point[1]


def _clipped(polygon: list[Point], f: Linear) -> list[Point]:
    """Return the part of a convex polygon where f is not negative (Sutherland and Hodgman)."""
    found: list[Point] = []
    for (a, fa), (b, fb) in pairwise([(p, _at(f, p)) for p in [*polygon, *polygon[:1]]]):
        if fa >= 0:
            found.append(a)
        if (fa > 0 > fb) or (fa < 0 < fb):
            s = fa / (fa - fb)
            found.append((a[0] + s * (b[0] - a[0]), a[1] + s * (b[1] - a[1])))
    return found


class _Density:
    """w^(c - 1) u^(p - 1) (1 - w - u)^(q - 1), with whole p and q, normed."""

    def __init__(self, c: Number, p: int, q: int) -> None:
        self.c, self.p, self.q = c, p, q
        self.scale = mp.gamma(c + p + q) / (mp.gamma(c) * mp.gamma(p) * mp.gamma(q))
        self.rest = _powers([mp.mpf(1), mp.mpf(-1)], q - 1)  # of 1 - w

    def integrals(self, polygon: list[Point], f: Linear) -> tuple[Number, Number]:
        """Return the integrals of 1 and of f over a polygon."""
        mass, moment = mp.mpf(0), mp.mpf(0)
        if len(polygon) < 3:
            return mass, moment
        for w0, w1 in pairwise(sorted({point[0] for point in polygon})):
            if w1 - w0 <= SAME * w1:  # one corner, but for rounding
                continue
            middle, sides = (w0 + w1) / 2, []
            for a, b in pairwise([*polygon, *polygon[:1]]):
                if min(a[0], b[0]) < middle < max(a[0], b[0]):
                    slope = (b[1] - a[1]) / (b[0] - a[0])
                    sides.append((a[1] + slope * (middle - a[0]), [a[1] - slope * a[0], slope]))
            if len(sides) != 2:
                continue
            (_, low), (_, high) = sorted(sides, key=lambda side: side[0])
            lows, highs = (_powers(side, self.p + self.q) for side in (low, high))
            level = [f[0], f[1]]
            ones, fs = [mp.mpf(0)], [mp.mpf(0)]
            for j in range(self.q):
                sign = comb(self.q - 1, j) * (-1) ** j
                parts = []
                for more in (0, 1):
                    n = self.p + j + more
                    parts.append([x * sign / n for x in _plus(highs[n], [-y for y in lows[n]])])
                rest = self.rest[self.q - 1 - j]
                ones = _plus(ones, _times(rest, parts[0]))
                fs = _plus(fs, _times(rest, _plus(_times(level, parts[0]), [f[2] * x for x in parts[1]])))
            begun, ended = w0**self.c, w1**self.c
            for j in range(max(len(ones), len(fs))):
                step = (ended - begun) / (self.c + j)
                mass += step * (ones[j] if j < len(ones) else 0)
                moment += step * (fs[j] if j < len(fs) else 0)
                begun, ended = begun * w0, ended * w1
        return self.scale * mass, self.scale * moment


class _Three:
    """H of three outcomes, sorted."""

    def __init__(self, psi: list[Number], a: Number, t: Number) -> None:
        whole = [j for j in range(3) if psi[j] == int(psi[j]) and psi[j] <= LONGEST]
        other = next((j for j in range(3) if j not in whole), max(whole, key=lambda j: psi[j]))
        first, second = (j for j in range(3) if j != other)
        if first not in whole or second not in whole:
            raise ValueError("two counts must be whole")
        self.density = _Density(psi[other], int(psi[first]), int(psi[second]))
        self.psi, self.a, self.t, self.other, self.first = psi, a, t, other, first
        one, zero = mp.mpf(1), mp.mpf(0)
        theta: list[Linear] = [(one, -one, -one)] * 3  # as functions of w and u
        theta[other], theta[first] = (zero, one, zero), (zero, zero, one)
        self.simplex = [(zero, zero), (one, zero), (zero, one)]

        def line(k0: Number, k1: Number, k2: Number) -> Linear:
            found = [k0 + 0, mp.mpf(0), mp.mpf(0)]
            for k, part in ((k1, theta[0]), (k2, theta[1])):
                for i in range(3):
                    found[i] += k * part[i]
            return found[0], found[1], found[2]

        over, under = line(-t, one, zero), line(t, -one, zero)  # C_1 - t and t - C_1
        beyond, below = line(-t, one, one), line(t, -one, -one)  # of C_2
        self.regions = [
            ([over], (one, zero, zero)),
            ([under, beyond], line(1 - a, a / t, zero)),
            ([below], line(zero, 1 / t, (1 - a) / t)),
        ]

    def beyond(self, h: Number) -> tuple[Number, Number]:
        """Return P(H > h) and E (H - h)+."""
        mass, excess = mp.mpf(0), mp.mpf(0)
        for edges, value in self.regions:
            above = (value[0] - h, value[1], value[2])
            polygon = self.simplex
            for edge in [*edges, above]:
                polygon = _clipped(polygon, edge)
            part, more = self.density.integrals(polygon, above)
            mass, excess = mass + part, excess + more
        return mass, excess

    def mean(self) -> Number:
        first, second, third = self.psi
        return (
            self.a * mean_of_least(first, second + third, self.t)
            + (1 - self.a) * mean_of_least(first + second, third, self.t)
        ) / self.t


class _Two:
    """H = min(C, t) / t of C ~ Beta(first, second)."""

    def __init__(self, psi: list[Number], t: Number) -> None:
        (self.first, self.second), self.t = psi, t

    def beyond(self, h: Number) -> tuple[Number, Number]:
        """Return P(H > h) and E (H - h)+."""
        if h >= 1:
            return mp.mpf(0), mp.mpf(0)
        over, sure = share_above(self.first, self.second, self.t * h), share_above(self.first, self.second, self.t)
        share = self.first / (self.first + self.second)
        inside = share * (
            share_above(self.first + 1, self.second, self.t * h) - share_above(self.first + 1, self.second, self.t)
        )
        return over, inside / self.t + sure - h * over

    def mean(self) -> Number:
        return mean_of_least(self.first, self.second, self.t) / self.t


def share_above(a: Number, b: Number, x: Number) -> Number:
    """Return P(C > x) of C ~ Beta(a, b)."""
    if x <= 0 or x >= 1:
        return mp.mpf(int(x <= 0))
    # the smaller part is summed, so that its series is short
    if x > a / (a + b):
        return mp.betainc(b, a, 0, 1 - x, regularized=True)
    return 1 - mp.betainc(a, b, 0, x, regularized=True)


def mean_of_least(a: Number, b: Number, t: Number) -> Number:
    """Return E min(C, t) of C ~ Beta(a, b); a count of 0 is certain."""
    if b == 0 or a == 0:
        return t if b == 0 else mp.mpf(0)
    return a / (a + b) * (1 - share_above(a + 1, b, t)) + t * share_above(a, b, t)


def _mean_of_highest(law: _Two | _Three, share: Number) -> Value:
    """Return the mean of the highest share of H, by the least h + E (H - h)+ / share, and its doubt."""
    low, high = mp.mpf(0), mp.mpf(1)
    if share >= 1:
        return Value(law.mean(), mp.mpf(0))
    sure = law.beyond(1 - mp.mpf(10) ** -25)[0]
    if sure >= share:
        return Value(mp.mpf(1), mp.mpf(0))
    over, under, side = 1 - share, sure - share, 0
    best = None
    for turn in range(200):
        ratio = over / (over - under) if turn % 3 < 2 else mp.mpf(1) / 2
        h = low + min(max(ratio, mp.mpf(1) / 1000), mp.mpf(999) / 1000) * (high - low)
        mass, excess = law.beyond(h)
        off = mass - share
        best = Value(h + excess / share, (high - low) * abs(off) / share)
        if best.doubt < mp.mpf(10) ** -17:
            return best
        if off > 0:
            low, over = h, off
            under = under / 2 if side > 0 else under
            side = 1
        else:
            high, under = h, off
            over = over / 2 if side < 0 else over
            side = -1
    assert best is not None
    return best


def _one(y: list[Number], psi: list[Number], alpha: float, level: float) -> Value:
    """Return CVaR at ``alpha`` over the posterior of CVaR at ``level`` of two or three outcomes."""
    if level < 0.0:
        value, doubt = _one([-x for x in y], psi, -alpha, -level)
        return Value(-value, doubt)
    order = sorted(range(len(y)), key=lambda k: y[k])
    y, psi = [y[k] for k in order], [psi[k] for k in order]
    t, share = mp.mpf(1) - mp.mpf(level), mp.mpf(1) - mp.mpf(abs(alpha))
    spread = y[-1] - y[0]
    if spread == 0:
        return Value(y[0], mp.mpf(0))
    law = _Two(psi, t) if len(y) == 2 else _Three(psi, (y[1] - y[0]) / spread, t)
    if alpha >= 0.0:
        found, doubt = _mean_of_highest(law, share)
    else:  # what the highest H leave
        upper, doubt = _mean_of_highest(law, 1 - share) if share < 1 else Value(mp.mpf(0), mp.mpf(0))
        found, doubt = (law.mean() - (1 - share) * upper) / share, doubt * (1 - share) / share
    return Value(y[-1] - spread * found, spread * doubt)


def reference(y: list[Number], psi: list[float], outer: Mixture, inner: Mixture) -> Value:
    """Return the value of a row of outcomes y with Dirichlet counts, and how far it may be off."""
    possible = [k for k in range(len(y)) if psi[k] > 0.0]
    whole = sum(p == int(p) and p <= LONGEST for p in psi)
    # of three outcomes: what the powers of w cancel
    lost = sum(p for p in psi if p == int(p) and p <= LONGEST) * (1.0 + log10(1.0 + max(psi))) if whole else 0.0
    with mp.workdps(60 + int(1.5 * lost if len(possible) == 3 else 0)):
        y, counts = [mp.mpf(y[k]) for k in possible], [mp.mpf(psi[k]) for k in possible]
        value, doubt = mp.mpf(0), mp.mpf(0)
        for level, weight in inner:
            for alpha, part in outer:
                if len(y) == 1:
                    found = Value(y[0], mp.mpf(0))
                elif alpha == 0.0:
                    found = _mean_row(y, counts, level)
                else:
                    found = _one(y, counts, alpha, level)
                value, doubt = value + weight * part * found.value, doubt + weight * part * found.doubt
        return Value(value, doubt + mp.mpf(10) ** -22 * max(abs(x) for x in y))


def _mean_row(y: list[Number], psi: list[Number], level: float) -> Value:
    if level < 0.0:
        value, doubt = _mean_row([-x for x in y], psi, -level)
        return Value(-value, doubt)
    order, t = sorted(range(len(y)), key=lambda k: y[k]), mp.mpf(1) - mp.mpf(level)
    value, before, total = mp.mpf(0), mp.mpf(0), mp.mpf(0)
    for place, k in enumerate(order):
        total += psi[k]
        after = mean_of_least(total, mp.fsum(psi[j] for j in order[place + 1 :]), t)
        value += y[k] * (after - before) / t
        before = after
    return Value(value, mp.mpf(0))


# -- draws -------------------------------------------------------------------------------------------------


def lucks(y: Floats, theta: Floats, inner: Mixture | float) -> Floats:
    """Return the risk of the outcome under each draw [N, K]: a mixture of CVaRs, or entropic at a number."""
    if isinstance(inner, float):
        at = y.min() if inner > 0.0 else y.max()
        return np.asarray(at - np.log(theta @ np.exp(-inner * (y - at))) / inner)
    total = np.zeros(len(theta))
    for level, weight in inner:
        tail, order = 1.0 - abs(level), np.argsort(y if level >= 0.0 else -y)
        reached = np.minimum(np.cumsum(theta[:, order], axis=1), tail)
        reached[:, -1] = tail  # but for rounding
        total += weight * (np.diff(reached, axis=1, prepend=0.0) / tail @ y[order])
    return total


class Estimate(NamedTuple):
    """The risk of draws: where it is, its standard error, and how far events that were not drawn may move it."""

    value: float
    error: float
    unseen: float


def risk_of(z: Floats, outer: Mixture | float) -> Estimate:
    """Return the risk of draws z, a mixture of CVaRs or entropic at a number."""
    n, reach = z.size, float(np.ptp(z))
    if isinstance(outer, float):
        at = z.min() if outer > 0.0 else z.max()
        terms = np.exp(-outer * (z - at))
        mean = float(terms.mean())
        error = float(terms.std()) / mean / abs(outer) / np.sqrt(n)
        return Estimate(float(at - np.log(mean) / outer), error, 15.0 / n * reach)
    terms, value, unseen = np.zeros(n), 0.0, 0.0
    for level, weight in outer:
        side, sign = (z, 1.0) if level >= 0.0 else (-z, -1.0)
        share = 1.0 - abs(level)
        kept = min(n, max(1, round(share * n)))
        edge = float(np.partition(side, kept - 1)[kept - 1]) if kept < n else float(side.max())
        # Rockafellar and Uryasev: CVaR is the largest mean of edge - (edge - Z)+ / share
        own = sign * (edge - np.maximum(edge - side, 0.0) / share)
        terms += weight * own
        value += weight * float(own.mean())
        unseen += weight * 15.0 / n / share * reach
    return Estimate(value, float(terms.std()) / np.sqrt(n), unseen)
