r"""Rows with two risks and three outcomes: CVaR over the posterior of the CVaR of a step, without draws.

With outcomes sorted by value, gaps g_1, g_2 between them, a = g_1 / (g_1 + g_2) and C_j the sum of the j first
probabilities, CVaR of the lowest share t of outcomes is

    sigma = y_3 - (g_1 + g_2) H,        H = a U + (1 - a) V,    U = min(C_1, t) / t,    V = min(C_2, t) / t,

so that the lower tail of sigma is the upper tail of H. Under Dirichlet(psi) C_1 is Beta(psi_1, psi_2 + psi_3), and
(C_2 - C_1) / (1 - C_1) is Beta(psi_2, psi_3) and independent of it. Given C_1 = c, H exceeds x if c > x t, and for
a smaller c if that Beta variable exceeds b(c) = (x t - c) / ((1 - a)(1 - c)) and c > t (x - 1 + a) / a. Masses and
first moments of a Beta variable beyond a point are incomplete Beta functions. So P(H > x), E[U; H > x] and
E[V; H > x] are integrals over c alone.

They are computed by a double-exponential rule, whose nodes crowd at both ends, where densities of counts below one are
infinite. Three numbers say how good it is: what half of the nodes give, by how much the rule misses the known masses of
C_1, and by how much P(H > x) misses the share of the tail. CVaR of H is the least x + E[(H - x)+] / p over x, so
that a quantile which is off by d, with a mass that is off by e, changes it by at most d e / p.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from .._numerics.compensated import EPS
from ..types import BoolArray, FloatArray

STEP = 0.035  # of the rule
LAST = 5.6  # node: exp(-pi sinh 5.6) is 1e-184
OUTSIDE = 1e-17  # mass of C_1 on either side that is left out
SEARCHES = 60  # for a quantile, at most; about 12 are usual
CLOSE = 1e-12  # mass by which a quantile may be off when its search ends, of the tail's
TINY = 1e-300
FLOOR = 2e-14  # of incomplete Beta functions and sums
_U = np.arange(-LAST, LAST + STEP / 2, STEP)
_RIGHT, _LEFT = 1.0 / (1.0 + np.exp([-np.pi * np.sinh(_U), np.pi * np.sinh(_U)]))  # shares of a panel
_WEIGHT = STEP * np.pi * np.cosh(_U) * _RIGHT * _LEFT


class ThreeCounts(NamedTuple):
    """Rows with three outcomes, sorted by value: counts, the share a of the first gap, and the share t of outcomes."""

    first: FloatArray  # [P]
    second: FloatArray
    third: FloatArray
    gap: FloatArray  # [P] in (0, 1)
    tail: float

    def of(self, rows: BoolArray) -> ThreeCounts:
        """Return some of the rows."""
        return ThreeCounts(self.first[rows], self.second[rows], self.third[rows], self.gap[rows], self.tail)

    @property
    def rest(self) -> FloatArray:
        """Counts of the second and third outcome."""
        return self.second + self.third


class _Panel(NamedTuple):
    """Nodes c of C_1 between two points, their distances to the upper one, and weights with the density of C_1."""

    c: FloatArray  # [P, N]
    left: FloatArray
    other: FloatArray  # 1 - c
    weight: FloatArray
    missed: FloatArray  # [P] by how much the weights miss the mass


def _panel(of: ThreeCounts, low: FloatArray, high: FloatArray, every: int = 1) -> _Panel:
    first, rest = of.first, of.rest
    begin = np.maximum(low, scipy.special.betaincinv(first, rest, OUTSIDE))
    begin = np.where(begin <= 1e-290, 0.0, begin)
    end = np.minimum(high, scipy.special.betainccinv(first, rest, OUTSIDE))
    width = np.maximum(end - begin, 0.0)[:, np.newaxis]
    part = every * width * _WEIGHT[::every]
    c = begin[:, np.newaxis] + width * _RIGHT[::every]
    left = (high - end)[:, np.newaxis] + width * _LEFT[::every]
    other = np.maximum((1.0 - high)[:, np.newaxis] + left, TINY)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = scipy.special.xlogy(first[:, np.newaxis] - 1.0, c) + scipy.special.xlogy(rest[:, np.newaxis] - 1.0, other)
        log += np.log(part) - scipy.special.betaln(first, rest)[:, np.newaxis]
    weight = np.where(part > 0.0, np.exp(np.where(np.isfinite(log), log, -np.inf)), 0.0)
    mass = scipy.special.betainc(first, rest, high) - scipy.special.betainc(first, rest, np.minimum(low, high))
    return _Panel(c, left, other, weight, abs(weight.sum(axis=1) - mass))


def _cuts(of: ThreeCounts, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where C_1 begins to be large enough for H > x, with and without the help of C_2."""
    low = of.tail * np.clip((x - (1.0 - of.gap)) / of.gap, 0.0, 1.0)
    return np.minimum(low, of.tail * x), of.tail * x


def _beyond(of: ThreeCounts, panel: _Panel) -> FloatArray:
    """Return b(c), from which the share of the second outcome makes H exceed x; the panel ends at x t."""
    return np.minimum(panel.left / ((1.0 - of.gap)[:, np.newaxis] * panel.other), 1.0)


def _above(of: ThreeCounts, x: FloatArray) -> FloatArray:
    """Return P(H > x) by half of the nodes, for a search."""
    low, high = _cuts(of, x)
    panel = _panel(of, low, high, 2)
    helped = scipy.special.betaincc(of.second[:, np.newaxis], of.third[:, np.newaxis], _beyond(of, panel))
    return np.asarray(scipy.special.betaincc(of.first, of.rest, high) + (panel.weight * helped).sum(axis=1))


class _Moments(NamedTuple):
    """P(H > x), E[U; H > x] and E[V; H > x], with what is known of the error of a mean of H in the tail."""

    mass: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray


def _moments(of: ThreeCounts, x: FloatArray) -> _Moments:
    t, mean = of.tail, (of.second / (of.second + of.third))[:, np.newaxis]
    second, third = of.second[:, np.newaxis], of.third[:, np.newaxis]
    low, high = _cuts(of, x)
    below, above = _panel(of, low, high), _panel(of, high, np.full_like(high, t))

    def capped(panel: _Panel, end: FloatArray | float, b: FloatArray | float) -> FloatArray:
        """Return E[V; B > b] given C_1 = c; the panel ends at ``end``."""
        full = np.clip((np.reshape(t - end, (-1, 1)) + panel.left) / panel.other, 0.0, 1.0)
        start = np.minimum(b, full)
        mass = scipy.special.betaincc(second, third, start) - scipy.special.betaincc(second, third, full)
        moment = scipy.special.betaincc(second + 1.0, third, start) - scipy.special.betaincc(second + 1.0, third, full)
        rest = scipy.special.betaincc(second, third, np.maximum(b, full))
        return np.asarray((panel.c * mass + panel.other * mean * moment) / t + rest)

    b = _beyond(of, below)
    helped = scipy.special.betaincc(second, third, b)
    sure, all_of_it = scipy.special.betaincc(of.first, of.rest, high), scipy.special.betaincc(of.first, of.rest, t)
    share = of.first / (of.first + of.rest)
    higher = scipy.special.betaincc(of.first + 1.0, of.rest, high) - scipy.special.betaincc(of.first + 1.0, of.rest, t)
    v_terms = np.concatenate((below.weight * capped(below, high, b), above.weight * capped(above, t, 0.0)), axis=1)
    parts = [
        (sure, below.weight * helped),
        (share * higher / t + all_of_it, below.weight * below.c / t * helped),
        (all_of_it, v_terms),
    ]
    half = np.zeros(x.size)
    found = []
    for known, terms in parts:
        found.append(np.asarray(known + terms.sum(axis=1)))
        # the halved rule; its error is about the root of that of the whole one
        every = 2.0 * terms.reshape(x.size, -1, _U.size)[..., ::2].sum(axis=(1, 2))
        half = np.maximum(half, abs(every - terms.sum(axis=1)))
    mass, first, last = found
    return _Moments(mass, first, last, 10.0 * half**1.5 + below.missed + above.missed)


def three_weights(of: ThreeCounts, share: float, lower: bool) -> tuple[FloatArray, FloatArray]:
    """Return the weights [P, 3] of sorted outcomes in CVaR of sigma over the posterior, and their doubt [P].

    ``share`` of the posterior counts: the lowest sigma if ``lower``, else the highest.
    """
    part = share if lower else 1.0 - share  # of the highest H
    size = of.first.size
    x, error = np.zeros(size), np.zeros(size)
    surely = np.asarray(scipy.special.betaincc(of.first, of.rest, of.tail), dtype=np.float64)  # P(H = 1)
    if part < 1.0:
        x, error = _quantiles(of, part, surely)
    found = _moments(of, x)
    at_most = np.minimum(found.mass, 1.0)
    if lower:
        missing = part - at_most
        u, v = (moment + x * missing for moment in (found.first, found.second))
    else:
        # all of it less the upper part, which begins at x
        every = (expected_least(of.first, of.rest, of.tail), expected_least(of.first + of.second, of.third, of.tail))
        missing = share - (1.0 - at_most)
        u, v = (
            whole / of.tail - moment + x * missing
            for whole, moment in zip(every, (found.first, found.second), strict=True)
        )
    raw_u, raw_v = u / share, v / share
    u = np.clip(raw_u, 0.0, 1.0)
    v = np.clip(raw_v, u, 1.0)
    doubt = (found.error + FLOOR + error * abs(missing)) / share + abs(u - raw_u) + abs(v - raw_v)
    return np.stack((u, v - u, 1.0 - v), axis=1), doubt


def expected_least(first: FloatArray, rest: FloatArray, share: FloatArray | float) -> FloatArray:
    """Return E min(C, share) of C ~ Beta(first, rest); C is 0 if ``first`` is 0, and 1 if ``rest`` is 0."""
    inside = (first > 0.0) & (rest > 0.0)
    a, b = np.where(inside, first, 1.0), np.where(inside, rest, 1.0)
    low = a / (a + b) * scipy.special.betainc(a + 1.0, b, share)
    found = low + share * scipy.special.betaincc(a, b, share)
    return np.asarray(np.where(inside, found, np.where(first > 0.0, share, 0.0)))


def _quantiles(of: ThreeCounts, part: float, surely: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return x with P(H > x) near ``part``, and how far from it the quantile may be."""
    size = of.first.size
    low, high = np.zeros(size), np.ones(size)
    above, below = np.full(size, 1.0 - part), surely - part  # P(H > x) - part at the ends
    x, width = np.ones(size), np.zeros(size)
    open_ = below < 0.0  # else the tail has H = 1 only
    side = np.zeros(size)
    for _ in range(SEARCHES):
        if not open_.any():
            break
        i = np.flatnonzero(open_)
        ratio = above[i] / (above[i] - below[i])
        # Illinois, kept away from the ends
        x[i] = low[i] + np.clip(ratio, 1e-3, 1.0 - 1e-3) * (high[i] - low[i])
        off = _above(of.of(open_), x[i]) - part
        up = off > 0.0
        low[i], high[i] = np.where(up, x[i], low[i]), np.where(up, high[i], x[i])
        above[i] = np.where(up, off, np.where(side[i] < 0.0, 0.5 * above[i], above[i]))
        below[i] = np.where(up, np.where(side[i] > 0.0, 0.5 * below[i], below[i]), off)
        side[i] = np.where(up, 1.0, -1.0)
        width[i] = high[i] - low[i]
        open_[i] = (abs(off) > CLOSE * part) & (width[i] > 4.0 * EPS * x[i])
    return x, width
