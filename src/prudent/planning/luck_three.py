r"""Rows with two risks and three outcomes: CVaR over the posterior of the CVaR of a step, without draws.

With outcomes sorted by value, gaps g_1, g_2 between them, a = g_1 / (g_1 + g_2) and C_j the sum of the j first
probabilities, CVaR of the lowest share t of outcomes is

    sigma = y_3 - (g_1 + g_2) H,        H = a U + (1 - a) V,    U = min(C_1, t) / t,    V = min(C_2, t) / t,

so that the lower tail of sigma is the upper tail of H. Under Dirichlet(psi) C_1 is Beta(psi_1, psi_2 + psi_3), and
(C_2 - C_1) / (1 - C_1) is Beta(psi_2, psi_3) and independent of it. Given C_1 = c, H exceeds x if c > x t, and for
a smaller c if that Beta variable exceeds b(c) = (x t - c) / ((1 - a)(1 - c)) and c > t (x - 1 + a) / a. Masses and
first moments of a Beta variable beyond a point are incomplete Beta functions. So P(H > x), E[U; H > x] and
E[V; H > x] are integrals over c alone.

They are computed in cells with a proved error (``luck_cells``). CVaR of H is the least x + E[(H - x)+] / p over x, so
that a quantile which is off by d, with a mass that is off by e, changes it by at most d e / p. The quantile is looked
for by a double-exponential rule, which is quick, and where that is too far off by the proved masses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from .._numerics.compensated import EPS
from ..types import BoolArray, FloatArray, IntArray
from .luck_cells import Panel, integrals

STEP = 0.07  # of the rule
LAST = 5.6  # node: exp(-pi sinh 5.6) is 1e-184
OUTSIDE = 1e-17  # mass of C_1 on either side that is left out
SEARCHES = 150  # for a quantile, at most; about 12 are usual
CLOSE = 1e-12  # mass by which a quantile may be off when its search ends, of the tail's
CLEAR = 1e-11  # mass by which a quantile may be off, of the tail's, without a look at how far that is
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

    def of(self, rows: BoolArray | IntArray) -> ThreeCounts:
        """Return some of the rows."""
        return ThreeCounts(self.first[rows], self.second[rows], self.third[rows], self.gap[rows], self.tail)

    @property
    def rest(self) -> FloatArray:
        """Counts of the second and third outcome."""
        return self.second + self.third


class _Nodes(NamedTuple):
    """Nodes c of C_1 between two points, their distances to the upper one, 1 - c, and weights with the density."""

    left: FloatArray  # [P, N]
    other: FloatArray
    weight: FloatArray


def _panel(of: ThreeCounts, low: FloatArray, high: FloatArray) -> _Nodes:
    first, rest = of.first, of.rest
    begin = np.maximum(low, scipy.special.betaincinv(first, rest, OUTSIDE))
    begin = np.where(begin <= 1e-290, 0.0, begin)
    end = np.minimum(high, scipy.special.betainccinv(first, rest, OUTSIDE))
    width = np.maximum(end - begin, 0.0)[:, np.newaxis]
    part = width * _WEIGHT
    c = begin[:, np.newaxis] + width * _RIGHT
    left = (high - end)[:, np.newaxis] + width * _LEFT
    other = np.maximum((1.0 - high)[:, np.newaxis] + left, TINY)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = scipy.special.xlogy(first[:, np.newaxis] - 1.0, c) + scipy.special.xlogy(rest[:, np.newaxis] - 1.0, other)
        log += np.log(part) - scipy.special.betaln(first, rest)[:, np.newaxis]
    weight = np.where(part > 0.0, np.exp(np.where(np.isfinite(log), log, -np.inf)), 0.0)
    return _Nodes(left, other, weight)


def _cuts(of: ThreeCounts, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where C_1 begins to be large enough for H > x, with and without the help of C_2."""
    low = of.tail * np.clip((x - (1.0 - of.gap)) / of.gap, 0.0, 1.0)
    return np.minimum(low, of.tail * x), of.tail * x


def _nearly_above(of: ThreeCounts, x: FloatArray) -> FloatArray:
    """Return P(H > x) by the rule, which may be off where laws are narrow."""
    low, high = _cuts(of, x)
    panel = _panel(of, low, high)
    b = np.minimum(panel.left / ((1.0 - of.gap)[:, np.newaxis] * panel.other), 1.0)
    helped = scipy.special.betaincc(of.second[:, np.newaxis], of.third[:, np.newaxis], b)
    return np.asarray(scipy.special.betaincc(of.first, of.rest, high) + (panel.weight * helped).sum(axis=1))


class _Moments(NamedTuple):
    """P(H > x), E[U; H > x] and E[V; H > x], and bounds on their errors but for rounding."""

    mass: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray  # [3, P]


def _helped(of: ThreeCounts, x: FloatArray) -> Panel:
    """Return where H exceeds x if the second outcome is likely enough: C_1 below x t, but not too small."""
    t, a, end, size = of.tail, of.gap, of.tail * x, x.size
    # where V = 1 is too little, and where B = 1 would be
    width = np.minimum(t * (1.0 - a) * (1.0 - x) / a, end)
    one = (1.0 - a) * (1.0 - end) / a
    beyond = np.where(width < end, (1.0 - a) * (1.0 - t) / a, np.maximum(one - end, 0.0))
    counts, row = (of.first, of.second, of.third), np.arange(size)
    sides = end - width, width, beyond, t * (1.0 - x), 1.0 - end
    return Panel(row, *counts, a, t, *sides, np.ones(size, np.bool_))


def _above(of: ThreeCounts, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P(H > x), and a bound on its error but for rounding."""
    inside, error = integrals(_helped(of, x), x.size, every=False)
    return np.asarray(scipy.special.betaincc(of.first, of.rest, of.tail * x)) + inside[0], error[0]


def _moments(of: ThreeCounts, x: FloatArray) -> _Moments:
    t, size, end = of.tail, x.size, of.tail * x
    inside, error = integrals(_helped(of, x), size)
    counts, row, none = (of.first, of.second, of.third), np.arange(size), np.zeros(size)
    sides = end, t * (1.0 - x), none + 1.0, none, np.full(size, 1.0 - t)
    after, more = integrals(Panel(row, *counts, of.gap, t, *sides, np.zeros(size, np.bool_)), size)
    sure, all_of_it = scipy.special.betaincc(of.first, of.rest, end), scipy.special.betaincc(of.first, of.rest, t)
    share = of.first / (of.first + of.rest)
    higher = scipy.special.betaincc(of.first + 1.0, of.rest, end) - scipy.special.betaincc(of.first + 1.0, of.rest, t)
    mass, first, last = sure + inside[0], share * higher / t + all_of_it + inside[1], all_of_it + inside[2] + after[2]
    return _Moments(mass, first, last, error + [[0.0], [0.0], [1.0]] * more)


def three_weights(of: ThreeCounts, share: float, lower: bool) -> tuple[FloatArray, FloatArray]:
    """Return the weights [P, 3] of sorted outcomes in CVaR of sigma over the posterior, and their doubt [P].

    ``share`` of the posterior counts: the lowest sigma if ``lower``, else the highest.
    """
    part = share if lower else 1.0 - share  # of the highest H
    size = of.first.size
    x, width = np.zeros(size), np.zeros(size)
    floor = FLOOR + 8.0 * EPS * np.sqrt(of.first + of.rest)
    surely = np.asarray(scipy.special.betaincc(of.first, of.rest, of.tail), dtype=np.float64)  # P(H = 1)
    if part < 1.0:
        x, width = _quantiles(of, part, surely, _nearly_above)
    found = _moments(of, x)
    far = np.flatnonzero((abs(part - found.mass) > CLEAR * share) & (surely < part))
    if far.size:
        some = of.of(far)
        x[far], width[far] = _quantiles(some, part, surely[far], lambda rows, at: _above(rows, at)[0])
        for whole, mended in zip(found, _moments(some, x[far]), strict=True):
            whole[..., far] = mended
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
    off = abs(missing) + found.error[0] + floor  # mass by which the quantile may be off
    reach = np.where((off <= CLEAR * share) | (surely >= part), 1.0, width)
    far = np.flatnonzero((off > CLEAR * share) & (surely < part))
    if far.size:
        reach[far] = _reach(of.of(far), x[far], width[far], part)
    reach[(surely - floor >= part)] = 0.0  # it is 1
    doubt = (found.error[0] + found.error[1:].max(axis=0) + 2.0 * floor + reach * off) / share
    doubt += abs(u - raw_u) + abs(v - raw_v)
    return np.stack((u, v - u, 1.0 - v), axis=1), doubt


def _reach(of: ThreeCounts, x: FloatArray, width: FloatArray, part: float) -> FloatArray:
    """Return how far x may be from the quantile: ``width`` if the masses beyond both sides show it, else 1."""
    width = np.maximum(width, 16.0 * EPS)
    low, high = np.maximum(x - width, 0.0), np.minimum(x + width, 1.0)
    (below, doubt), (above, more) = _above(of, low), _above(of, high)
    shown = (below - doubt - FLOOR >= part) | (low == 0.0)
    shown &= (above + more + FLOOR <= part) | (high == 1.0)
    return np.where(shown, width, 1.0)


def expected_least(first: FloatArray, rest: FloatArray, share: FloatArray | float) -> FloatArray:
    """Return E min(C, share) of C ~ Beta(first, rest); C is 0 if ``first`` is 0, and 1 if ``rest`` is 0."""
    inside = (first > 0.0) & (rest > 0.0)
    a, b = np.where(inside, first, 1.0), np.where(inside, rest, 1.0)
    low = a / (a + b) * scipy.special.betainc(a + 1.0, b, share)
    found = low + share * scipy.special.betaincc(a, b, share)
    return np.asarray(np.where(inside, found, np.where(first > 0.0, share, 0.0)))


def _quantiles(
    of: ThreeCounts, part: float, surely: FloatArray, above: Callable[[ThreeCounts, FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return x with P(H > x) near ``part``, by ``above``, and how far from it the quantile may be."""
    size = of.first.size
    low, high = np.zeros(size), np.ones(size)
    over, under = np.full(size, 1.0 - part), surely - part  # P(H > x) - part at the ends
    x, width = np.ones(size), np.zeros(size)
    open_ = under < 0.0  # else the tail has H = 1 only
    side = np.zeros(size)
    for turn in range(SEARCHES):
        if not open_.any():
            break
        i = np.flatnonzero(open_)
        # Illinois, kept away from the ends; every third time the middle, for laws with steps
        ratio = over[i] / (over[i] - under[i]) if turn % 3 < 2 else np.full(i.size, 0.5)
        x[i] = low[i] + np.clip(ratio, 1e-3, 1.0 - 1e-3) * (high[i] - low[i])
        off = above(of.of(open_), x[i]) - part
        up = off > 0.0
        low[i], high[i] = np.where(up, x[i], low[i]), np.where(up, high[i], x[i])
        over[i] = np.where(up, off, np.where(side[i] < 0.0, 0.5 * over[i], over[i]))
        under[i] = np.where(up, np.where(side[i] > 0.0, 0.5 * under[i], under[i]), off)
        side[i] = np.where(up, 1.0, -1.0)
        width[i] = high[i] - low[i]
        open_[i] = (abs(off) > CLOSE * part) & (width[i] > 4.0 * EPS * x[i])
    return x, width
