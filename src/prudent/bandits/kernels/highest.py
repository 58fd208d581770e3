"""Scores of k Beta-distributed arms, and the chance of each to have the highest, in one pass over panels of log odds.

In log odds t the logarithm of the density of an arm is smooth and concave, with tails of slope a and -b. Panels with 16
Gauss-Legendre nodes are so short that every density that is not negligible there is a polynomial to rounding. Its cdf
at the nodes is the integral of the same polynomial, by a matrix of weights, so that incomplete beta functions are
evaluated at one point only, where the panels begin: the cost is one exponential for each node and arm. The cdf of an
arm below its mode is at most e^-d, where d is the drop of the logarithm of its density from the mode: panels begin
where the drops of all arms together make the product of cdfs negligible. The chance of one arm takes the panels in
which that arm may be.

Of scores only the highest counts. It is found with few quantiles: whether another score is above the highest so far is
answered by a cdf there, or by the same bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import legendre

from ..._numerics.beta import expit, log_drop, log_odds_quantile, log_odds_tails, log_one_plus, log_peak
from ..._numerics.compile import kernel, lean
from ..._numerics.normal import normal_quantile
from ..._numerics.triangles import HalfArray, error_of
from ..._support.checks import BoolArray, FloatArray, IntArray
from . import layout as col
from .step import forced_place, lacking

_SIZE = 16
_NODES, _WEIGHTS = legendre.leggauss(_SIZE)
# integrals from -1 to each node, and to 1, of the polynomial with given values at the nodes
_FIT = np.linalg.inv(legendre.legvander(_NODES, _SIZE - 1))
_SUMS = np.array([legendre.legint(np.eye(_SIZE)[i], lbnd=-1) for i in range(_SIZE)])
_INTEGRALS = np.ascontiguousarray((legendre.legvander(_NODES, _SIZE) @ _SUMS.T @ _FIT).T)
_DROP = 42.0  # in the logarithm, below which a density is negligible: e^-42 is 6e-19
FARTHEST = 700.0  # log odds beyond which no arm has a chance of 1e-15
_LENGTH = 2.5  # of a panel, in local standard deviations
_SLOPE = 6.0  # by which the logarithm of a density may change in a panel, near its mode
_MORE = 0.4  # for each unit that it is below that of the mode, of one draw: what is small may be less exact


@kernel
def _panels(a: float, b: float, top: float, ends: FloatArray, more: float) -> float:
    """Return how many panels an arm needs in a unit of log odds, between two ends.

    ``ends`` [2,3] are their t, 1 / (1 + e^-t) and log(1 + e^t); ``top`` is the largest log density.
    """
    spread, slope, drop = 0.0, 0.0, math.inf
    for i in range(2):
        t, p, grown = ends[i]
        spread = max(spread, (a + b) * p * (1.0 - p))
        slope = max(slope, abs(a - (a + b) * p))
        drop = min(drop, max(0.0, top - a * t + (a + b) * grown))
    return max(math.sqrt(spread) / _LENGTH, slope / (_SLOPE + more * drop))


@kernel
def _set_end(ends: FloatArray, i: int, t: float) -> None:
    ends[i, 0], ends[i, 1], ends[i, 2] = t, expit(t), log_one_plus(t)


@kernel
def _longest(t: float) -> float:
    """Return how long a panel from ``t`` may be: the logistic function has poles at a distance of pi from 0."""
    return math.sqrt(t * t / (math.pi * math.pi) + 1.0) if t > 0.0 else max(1.0, -t / (1.0 + math.pi))


@kernel
def _rise(t: float, share: float, shift: float) -> float:
    """Return log(1 + e^(t + shift)) - log(1 + e^t), where ``share`` is 1 / (1 + e^|t|)."""
    if t > 0.0:
        return shift + math.log1p(share * math.expm1(-shift))
    return math.log1p(share * math.expm1(shift))


@kernel
def _first(counts: FloatArray, drop: float) -> float:
    """Return log odds up to which the drops of all arms together are at least ``drop``, and soon below it."""
    t = -math.inf
    for i in range(counts.shape[1]):  # as if densities were normal
        a, b = counts[0, i], counts[1, i]
        t = max(t, math.log(a / b) - math.sqrt(2.0 * drop * (1.0 / a + 1.0 / b)))
    for _ in range(30):  # the sum is convex and falls: after the first of Newton's steps none passes its root
        total, slope = -drop, 0.0
        for i in range(counts.shape[1]):
            a, b = counts[0, i], counts[1, i]
            if t < math.log(a / b):
                total += log_drop(a, b, t)
                slope += a - (a + b) * expit(t)
        if 0.0 <= total <= 1.0 or not slope > 0.0:
            break
        t += total / slope
    return t


@lean
def _integrate(values: FloatArray, parts: FloatArray) -> None:
    """Write the integrals from -1 to each node of the polynomial with ``values`` at the nodes."""
    for j in range(_SIZE):
        parts[j] = 0.0
    for h in range(0, _SIZE, 4):  # four at a time: ``parts`` is read and written a quarter as often
        p, q, r, s = values[h], values[h + 1], values[h + 2], values[h + 3]
        for j in range(_SIZE):
            first, second = _INTEGRALS[h, j] * p + _INTEGRALS[h + 1, j] * q, _INTEGRALS[h + 2, j] * r
            parts[j] += first + (second + _INTEGRALS[h + 3, j] * s)


@lean
def _dot(one: FloatArray, two: FloatArray) -> float:
    total = 0.0
    for j in range(one.shape[0]):
        total += one[j] * two[j]
    return total


@kernel
def highest_chances(
    counts: FloatArray,
    n: int,
    place: int,
    log_order: float,
    only: int,
    chances: FloatArray,
) -> None:
    """Write the chance [k] of each arm to have the highest score, or with ``only`` >= 0 that of one arm.

    A score is the ``place``-th lowest of ``n`` draws in log odds; ``counts`` [3,k] are successes, failures and
    ``log_peak``, ``log_order`` is the logarithm of B(place, n - place + 1).
    """
    k, size = counts.shape[1], _SIZE
    a, b, peak = counts[0], counts[1], counts[2]
    before, top, base = np.empty(k), np.empty(k), np.empty(k)
    t = _first(counts, _DROP + k * math.log(float(n)))
    left, there = 0, np.empty(k, dtype=np.int64)  # arms that may be here or farther right, the first ``left``
    for i in range(k):
        mode, drop = math.log(a[i] / b[i]), log_drop(a[i], b[i], t)
        top[i] = a[i] * mode - (a[i] + b[i]) * log_one_plus(mode)
        base[i] = peak[i] - drop  # log density, at the centre of the latest panel
        chances[i] = 0.0
        if t < mode or drop < _DROP:
            before[i] = log_odds_tails(a[i], b[i], peak[i], t)[0] if drop < _DROP else 0.0
            there[left] = i
            left += 1
    more = _MORE if n == 1 else 0.0
    extra = 1.0 if n == 1 else 1.0 + 0.5 * math.sqrt(math.log(float(n)))
    density, score, values = np.empty((k, size)), np.empty((k, size)), np.empty(size)
    shift, grown, parts, ends = np.empty(size), np.empty(size), np.empty(size), np.empty((2, 3))
    product, behind, order = np.empty(size), np.empty(size), math.exp(-log_order)
    _set_end(ends, 1, t)
    centre, going = t, left > 0 and only < 0
    for m in range(left):
        going = going or there[m] == only
    while going:
        length = _longest(t)
        ends[0] = ends[1]
        for _ in range(60):  # the panel must be short enough at both ends
            _set_end(ends, 1, t + length)
            most = 0.0
            for m in range(left):
                i = there[m]
                most = max(most, extra * _panels(a[i], b[i], top[i], ends, more))
            if most * length <= 1.000001:
                break
            length = max(1.0 / most, 0.5 * length)
        half = 0.5 * length
        # from one place to another the logarithm of a density changes by a shift - (a + b) grown
        step = t + half - centre
        risen = _rise(centre, expit(-abs(centre)), step)
        centre = t + half
        share = expit(-abs(centre))
        for j in range(size):
            shift[j] = half * _NODES[j]
            grown[j] = _rise(centre, share, shift[j])
        for m in range(left):
            i = there[m]
            both = a[i] + b[i]
            base[i] += a[i] * step - both * risen
            for j in range(size):
                values[j] = math.exp(base[i] + a[i] * shift[j] - both * grown[j])
            _integrate(values, parts)
            for j in range(size):
                below = min(max(before[i] + half * parts[j], 0.0), 1.0)
                density[i, j], score[i, j] = values[j], below
                if n > 1:
                    # the density of an order statistic; its cdf is summed as the chance of at least ``place`` draws
                    density[i, j] *= order * below ** (place - 1) * (1.0 - below) ** (n - place)
                    score[i, j] = _at_least(below, n, place)
            before[i] += half * (_dot(_WEIGHTS[:8], values[:8]) + _dot(_WEIGHTS[8:], values[8:]))
        for j in range(size):
            product[j] = half * _WEIGHTS[j]
        if only >= 0:
            for m in range(left):
                factors = density[only] if there[m] == only else score[there[m]]
                for j in range(size):
                    product[j] *= factors[j]
            for j in range(size):
                chances[only] += product[j]
        else:  # the product of those before, then times that of those behind
            behind[:] = 1.0
            for m in range(left):
                i = there[m]
                for j in range(size):
                    density[i, j], behind[j] = density[i, j] * behind[j], behind[j] * score[i, j]
            for m in range(left - 1, -1, -1):
                i = there[m]
                chances[i] += _dot(density[i], product)
                for j in range(size):
                    product[j] *= score[i, j]
        t += length
        kept = 0
        for m in range(left):
            i = there[m]
            if not (peak[i] - base[i] > _DROP and centre > math.log(a[i] / b[i])):
                there[kept] = i
                kept += 1
            elif i == only:
                going = False
        left = kept
        going = going and left > 0


@kernel
def _at_least(below: float, n: int, place: int) -> float:
    """Return the chance that at least ``place`` of ``n`` draws lie below a point; place is 1, 2, n - 1 or n."""
    rest = 1.0 - below
    if place == 1:
        return 1.0 - rest**n
    if place == 2:
        return 1.0 - rest**n - n * below * rest ** (n - 1)
    if place == n:
        return below**n
    return below**n + n * below ** (n - 1) * rest


# -- scores ------------------------------------------------------------------------------------------------


@kernel
def peaks(counts: FloatArray) -> float:
    """Complete ``counts`` [3,k] by ``log_peak``, and return the least count; NaN if one is not a number."""
    least = math.inf
    for i in range(counts.shape[1]):
        for j in range(2):
            least = counts[j, i] if not counts[j, i] >= least else least
        counts[2, i] = log_peak(counts[0, i], counts[1, i]) if counts[0, i] > 0.0 and counts[1, i] > 0.0 else math.nan
    return least


@kernel
def coins_of(gram: FloatArray, lost: HalfArray, rows: IntArray, counts: FloatArray) -> None:
    """Write successes and failures of some arms, each plus one, to ``counts`` [3,k]; ``gram`` and ``lost`` are sums."""
    for i in range(rows.shape[0]):
        sums, errors = gram[rows[i]], lost[rows[i]]
        ones = sums[1] + error_of(errors[1])
        counts[0, i] = 1.0 + ones
        counts[1, i] = 1.0 + max(sums[0] + error_of(errors[0]) - ones, 0.0)


@kernel
def _order_tails(uniform: float, n: int, place: int) -> tuple[float, float]:
    """Return where the ``place``-th lowest of ``n`` draws is in the law of one, from below and from above."""
    if n == 1:
        return uniform, 1.0 - uniform
    if place == 1:
        log_above = math.log1p(-uniform) / n
        return -math.expm1(log_above), math.exp(log_above)
    if place == n:
        log_below = math.log(uniform) / n
        return math.exp(log_below), -math.expm1(log_below)
    j, rest = float(place), float(n - place + 1)
    t = log_odds_quantile(j, rest, log_peak(j, rest), uniform, 1.0 - uniform)
    return expit(t), expit(-t)


@kernel
def score_of(counts: FloatArray, i: int, n: int, place: int, uniform: float) -> float:
    """Return the score that an arm makes of a uniform."""
    below, above = _order_tails(uniform, n, place)
    t = log_odds_quantile(counts[0, i], counts[1, i], counts[2, i], below, above)
    return min(max(t, -FARTHEST), FARTHEST)


@kernel
def scores_of(counts: FloatArray, n: int, place: int, uniforms: FloatArray, scores: FloatArray) -> None:
    """Write the scores [N,k] of all arms."""
    for t in range(uniforms.shape[0]):
        for i in range(uniforms.shape[1]):
            scores[t, i] = score_of(counts, i, n, place, uniforms[t, i])


@kernel
def _highest_score(counts: FloatArray, n: int, place: int, uniforms: FloatArray) -> tuple[int, float]:
    """Return the arm with the highest score, and the score."""
    chosen, likeliest = 0, -math.inf
    for i in range(counts.shape[1]):  # as if scores were normal
        a, b = counts[0, i], counts[1, i]
        z = normal_quantile(_order_tails(uniforms[i], n, place)[0] if n > 1 else uniforms[i])
        score = math.log(a / b) + z * math.sqrt(1.0 / a + 1.0 / b)
        if score > likeliest:
            chosen, likeliest = i, score
    first, best = chosen, score_of(counts, chosen, n, place, uniforms[chosen])
    for i in range(counts.shape[1]):
        if i == first:
            continue
        a, b = counts[0, i], counts[1, i]
        below, above = _order_tails(uniforms[i], n, place)
        if best > math.log(a / b) and math.exp(-log_drop(a, b, best)) < above:
            continue
        tails = log_odds_tails(a, b, counts[2, i], best)
        if tails[0] > below if below < 0.5 else tails[1] < above:
            continue
        score = score_of(counts, i, n, place, uniforms[i])
        if score > best:
            chosen, best = i, score
    return chosen, best


@kernel
def decide_coins(
    counts: FloatArray,
    marks: IntArray,
    rows: IntArray,
    uniforms: FloatArray,
    n: int,
    place: int,
    first: int,
    floor: float,
    chosen: IntArray,
    scores: FloatArray,
    among: BoolArray,
) -> int:
    """Take T decisions between k arms: write positions [T] and scores [T], and count the decisions in ``marks``.

    There are T uniforms before the others if ``first`` or ``floor`` is above zero. ``among`` [T or 0,k] gets the arms
    that a choice was uniform between because they lacked first decisions; returns for how many decisions it was.
    """
    k, short = rows.shape[0], 0
    mixed = first > 0 or floor > 0.0
    drawn, least = np.empty(k), 2.0**-54
    for t in range(chosen.shape[0]):
        start = t * k + (chosen.shape[0] if mixed else 0)
        for i in range(k):
            drawn[i] = max(uniforms[start + i], least)
        chosen[t], scores[t] = _highest_score(counts, n, place, drawn)
        if mixed:
            if first > 0 and lacking(marks, first, rows) > 0:
                for i in range(k):
                    among[short, i] = marks[rows[i], col.TRIES] < first
                short += 1
            forced = forced_place(marks, first, floor, True, rows, uniforms[t])
            if forced >= 0:
                chosen[t], scores[t] = forced, score_of(counts, forced, n, place, drawn[forced])
        marks[rows[chosen[t]], col.TRIES] += 1
    return short
