"""The chance of each of k Beta-distributed arms to have the highest score, in one pass over panels of log odds.

In log odds t the density of an arm is exp(g(t)), g(t) = a t - (a + b) log(1 + e^t) - log B(a, b): smooth, concave in
the logarithm, with tails of slope a and -b. Panels with 16 Gauss-Legendre nodes are so short that every density that is
not negligible there is a polynomial to rounding. Its cdf at the nodes is the integral of the same polynomial, by a
matrix of weights, so that no incomplete beta function is evaluated: the cost is one exponential for each node and arm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import legendre

from ..._numerics.compile import kernel
from ..._support.checks import FloatArray

_SIZE = 16
_NODES, _WEIGHTS = legendre.leggauss(_SIZE)
# integrals from -1 to each node, and to 1, of the polynomial with given values at the nodes
_FIT = np.linalg.inv(legendre.legvander(_NODES, _SIZE - 1))
_SUMS = np.array([legendre.legint(np.eye(_SIZE)[i], lbnd=-1) for i in range(_SIZE)])
_INTEGRALS = np.ascontiguousarray((legendre.legvander(_NODES, _SIZE) @ _SUMS.T @ _FIT).T)
PANELS = (_NODES, _WEIGHTS, _INTEGRALS)
_DROP = 42.0  # in the logarithm, below which a density is negligible: e^-42 is 6e-19
_LONGEST = 1.0  # panel: the logistic function has poles at a distance of pi
_LENGTH = 2.5  # of a panel, in local standard deviations
_SLOPE = 6.0  # by which the logarithm of a density may change in a panel, near its mode
_MORE = 0.4  # for each unit that it is below that of the mode, of one draw: what is small may be less exact


@kernel
def _log_one_plus(t: float) -> float:
    """Return log(1 + e^t)."""
    return t + math.log1p(math.exp(-t)) if t > 0.0 else math.log1p(math.exp(t))


@kernel
def _end(a: float, b: float, side: float) -> float:
    """Return where the density has dropped by ``_DROP`` on one side of its mode."""
    mode = math.log(a / b)
    top = a * mode - (a + b) * _log_one_plus(mode)
    t = mode + side * math.sqrt(2.0 * _DROP * (1.0 / a + 1.0 / b))  # that of a normal law: too near
    for _ in range(60):
        drop = top - a * t + (a + b) * _log_one_plus(t) - _DROP
        slope = (a + b) / (1.0 + math.exp(-t)) - a
        if slope == 0.0 or abs(drop) < 0.5:
            break
        step = drop / slope
        t -= min(max(step, -50.0 / min(a, b)), 50.0 / min(a, b))
    return t


@kernel
def _shape(a: float, b: float, top: float, t: float) -> tuple[float, float, float]:
    """Return sharpness, slope and drop of a log density at log odds ``t``, of which the largest is ``top``."""
    if t > 0.0:
        rest = math.exp(-t)
        p, log_rest = 1.0 / (1.0 + rest), t + math.log1p(rest)
    else:
        odds = math.exp(t)
        p, log_rest = odds / (1.0 + odds), math.log1p(odds)
    return math.sqrt((a + b) * p * (1.0 - p)), abs(a - (a + b) * p), max(0.0, top - a * t + (a + b) * log_rest)


@kernel
def _panels(begin: tuple[float, float, float], end: tuple[float, float, float], more: float) -> float:
    """Return how many panels an arm needs in a unit of log odds, between two points with these shapes."""
    slope = max(begin[1], end[1]) / (_SLOPE + more * min(begin[2], end[2]))
    return max(begin[0] / _LENGTH, end[0] / _LENGTH, slope)


@kernel
def highest_chances(
    a: FloatArray,
    b: FloatArray,
    logs: FloatArray,
    n: int,
    place: int,
    log_order: float,
    nodes: FloatArray,
    weights: FloatArray,
    integrals: FloatArray,
    chances: FloatArray,
) -> None:
    """Write the chance [k] of each arm to have the highest score.

    A score is the ``place``-th lowest of ``n`` draws in log odds; ``logs`` [k] are the logarithms of beta functions,
    ``log_order`` that of B(place, n - place + 1).
    """
    k, size = a.shape[0], nodes.shape[0]
    left, right, before, top = np.empty(k), np.empty(k), np.zeros(k), np.empty(k)
    for i in range(k):
        mode = math.log(a[i] / b[i])
        top[i] = a[i] * mode - (a[i] + b[i]) * _log_one_plus(mode)
        left[i], right[i] = _end(a[i], b[i], -1.0), _end(a[i], b[i], 1.0)
        chances[i] = 0.0
    more = _MORE if n == 1 else 0.0
    extra = 1.0 if n == 1 else 1.0 + 0.5 * math.sqrt(math.log(float(n)))
    t, last = left.min(), right.max()
    density, cdf, score = np.empty((k, size)), np.empty((k, size)), np.empty((k, size))
    logistic, parts = np.empty(size), np.empty(size)  # log(1 + e^x) at the nodes, integrals up to them
    while t < last:
        length = min(_LONGEST, last - t)
        for i in range(k):
            if left[i] > t:
                length = min(length, left[i] - t)
            elif right[i] > t:
                begin = _shape(a[i], b[i], top[i], t)
                for _ in range(60):  # the panel must be short enough at both ends
                    most = extra * _panels(begin, _shape(a[i], b[i], top[i], t + length), more)
                    if most * length <= 1.000001:
                        break
                    length = max(1.0 / most, 0.5 * length)
        half = 0.5 * length
        for j in range(size):
            logistic[j] = _log_one_plus(t + half * (1.0 + nodes[j]))
        for i in range(k):
            if left[i] > t or right[i] <= t:
                gone = 1.0 if right[i] <= t else 0.0
                for j in range(size):
                    density[i, j], score[i, j] = 0.0, gone
                continue
            for j in range(size):
                x = t + half * (1.0 + nodes[j])
                cdf[i, j] = math.exp(a[i] * x - (a[i] + b[i]) * logistic[j] - logs[i])
            total = 0.0
            parts[:] = 0.0
            for m in range(size):
                for j in range(size):
                    parts[j] += integrals[m, j] * cdf[i, m]
            for j in range(size):
                below = min(max(before[i] + half * parts[j], 0.0), 1.0)
                density[i, j] = cdf[i, j]
                total += weights[j] * cdf[i, j]
                if n == 1:
                    score[i, j] = below
                else:
                    # the density of an order statistic; its cdf is summed as the chance of at least ``place`` draws
                    rest = 1.0 - below
                    density[i, j] *= math.exp(-log_order) * below ** (place - 1) * rest ** (n - place)
                    score[i, j] = _at_least(below, n, place)
            before[i] += half * total
        for j in range(size):
            behind = 1.0
            for i in range(k):  # the product of those before, then times that of those behind
                density[i, j], behind = density[i, j] * behind, behind * score[i, j]
            behind = half * weights[j]
            for i in range(k - 1, -1, -1):
                chances[i] += density[i, j] * behind
                behind *= score[i, j]
        t += length


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
