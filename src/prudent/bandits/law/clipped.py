"""The law of a score that weighs the two outermost of n draws, each clipped to [0, 1]."""

from __future__ import annotations

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.normal import normal_cdf, normal_pdf
from .tables import TableLaw

_INNER_NODES, _INNER_WEIGHTS = np.polynomial.legendre.leggauss(48)


@kernel
def clipped_pair(x: float, m: float, s: float, law: TableLaw, before: bool) -> tuple[float, float]:
    """Return cdf and density at ``x`` in [0, 1) of w_1 clip(r_1) + w_2 clip(r_2), the two outermost of n draws.

    ``before`` asks for the limit from the left at the third atom. One minus a clipped draw is one minus the draw,
    clipped: the law of the highest two at x is that of the lowest two at 1 - x, with mean 1 - m.
    """
    if law.n > 0:
        return lowest_pair(x, m, s, law.n, law.first, law.low, before)
    y = 1.0 - x
    if not y < 1.0:
        return normal_cdf(-m / s) ** -law.n, 0.0
    cdf, density = lowest_pair(y, 1.0 - m, s, -law.n, law.first, law.low, y == 1.0 - law.first and not before)
    return 1.0 - cdf, density


@kernel
def third_atom(law: TableLaw) -> float:
    """Return where one of two clipped draws is at 0 and the other at 1."""
    return 1.0 - law.first if law.n > 0 else 1.0 - (1.0 - law.first)


@kernel
def lowest_pair(x: float, m: float, s: float, n: int, first: float, low: float, before: bool) -> tuple[float, float]:
    """Return cdf and density at ``x`` in [0, 1) of w_1 clip(r_1) + w_2 clip(r_2), the two lowest of n draws.

    The score exceeds x if both draws do, or if r_1 <= 0 and w_2 r_2 > x, or if 0 < r_1 <= x and
    w_2 r_2 > x - w_1 r_1. ``before`` asks for the limit from the left at the atom x = w_2.
    """
    second = 1.0 - first
    above = normal_cdf((m - x) / s)
    power = above ** (n - 1)
    survival = power * above
    density = 0.0
    if x < second or before:
        gap = (m - x / second) / s
        beyond = normal_cdf(gap)
        weight = n * normal_cdf(-m / s)
        survival += weight * beyond ** (n - 1)
        density += weight * (n - 1) * beyond ** (n - 2) * normal_pdf(gap) / (s * second)
    start = 0.0
    if x > second and not before:
        start = (x - second) / first
        density += n * normal_pdf((start - m) / s) * normal_cdf((m - 1.0) / s) ** (n - 1) / (s * first)
    left = max(start, m + low * s)
    right = min(x, m - low * s)
    # The second draw makes up for r_1 only near x: below `never` it cannot, above `surely` it does.
    never = min(max((x - second * (m - low * s)) / first, left), right)
    surely = min(max((x - second * (m + low * s)) / first, never), right)
    edges = (never, 0.5 * (never + surely), surely, right)
    for piece in range(3):
        half = 0.5 * (edges[piece + 1] - edges[piece])
        if half <= 0.0:
            continue
        for i in range(_INNER_NODES.shape[0]):
            r = edges[piece] + half * (1.0 + _INNER_NODES[i])
            gap = (m - (x - first * r) / second) / s
            beyond = normal_cdf(gap)
            power = beyond ** (n - 2)
            weight = half * _INNER_WEIGHTS[i] * n * normal_pdf((r - m) / s) / s
            survival += weight * power * beyond
            density += weight * (n - 1) * power * normal_pdf(gap) / (s * second)
    return 1.0 - survival, density
