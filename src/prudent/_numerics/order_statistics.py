"""The lowest of many, or the highest: selected from given draws, or drawn directly."""

from __future__ import annotations

import math

import numpy as np

from .._support.checks import FloatArray
from .compile import kernel, lean
from .copying import put
from .normal import normal_from_log_survival
from .student import student_from_log_survival

_LEAST_UNIFORM = 2.0**-54  # stands for a uniform that came out as 0: the middle of what was rounded to 0


# -- order statistics --------------------------------------------------------------------------------------


@lean
def _lowest_into(out: FloatArray, n: int, uniforms: FloatArray, freedom: float) -> None:
    """Write the lowest draws of Student's t, or of the normal if ``freedom`` is infinite."""
    log_survival, highest = 0.0, -math.inf
    for j in range(out.shape[0]):
        uniform = max(uniforms[j], _LEAST_UNIFORM)
        # the survival of a negated draw is the cdf
        log_survival += (math.log1p(-uniform) if n > 0 else math.log(uniform)) / (abs(n) - j)
        if freedom == math.inf:
            draw = normal_from_log_survival(log_survival)
        else:
            draw = student_from_log_survival(log_survival, freedom)
        highest = max(highest, draw)  # rounding may swap two neighbours
        out[j] = highest if n > 0 else -highest


@lean
def lowest_normals_into(out: FloatArray, n: int, uniforms: FloatArray) -> None:
    """Write the lowest M of ``n`` standard normal draws into ``out`` [M], ascending.

    ``uniforms`` [M] are independent uniforms in [0, 1), used up in order; ``out`` may be the same array. If ``n`` is
    below zero, the highest of -n draws are written, descending. Both rise with the first uniform.
    """
    _lowest_into(out, n, uniforms, math.inf)


@lean
def lowest_students_into(out: FloatArray, n: int, uniforms: FloatArray, freedom: float) -> None:
    """Write the lowest M of ``n`` draws of Student's t into ``out``, as ``lowest_normals_into`` does."""
    _lowest_into(out, n, uniforms, freedom)


@lean
def lowest_normals_rows(rows: FloatArray, n: int) -> None:
    """Replace each row of uniforms by the lowest draws, see ``lowest_normals_into``."""
    for i in range(rows.shape[0]):
        lowest_normals_into(rows[i], n, rows[i])


@kernel
def _select(z, order, m):
    """Rearrange ``order``, as long as z, so that its first m places index the m lowest of z, ascending."""
    lo, hi = 0, order.size - 1
    while lo < hi and m < order.size:
        middle = z[order[(lo + hi) // 2]]
        i, j = lo, hi
        while i <= j:
            while z[order[i]] < middle:
                i += 1
            while z[order[j]] > middle:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if m - 1 <= j:
            hi = j
        elif m - 1 >= i:
            lo = i
        else:
            break
    if m > 1:
        ranked = order[:m][np.argsort(z[order[:m]])]
        put(order, ranked)


@lean
def weighted_draws(draws, order, weights):
    """Return the sum of ``weights`` times ``draws`` in the given order."""
    total = 0.0
    for i in range(weights.size):
        total += weights[i] * draws[order[i]]
    return total


@lean
def spectral(z, order, weights):
    """Return the sum of ``weights`` times the lowest draws in ascending order; ``order`` ends up sorting them."""
    if weights.size == 1:
        low = 0
        for i in range(1, z.size):
            if z[i] < z[low]:
                low = i
        order[0] = low
        return z[low] * weights[0]
    for i in range(z.size):
        order[i] = i
    _select(z, order, weights.size)
    return weighted_draws(z, order, weights)


@lean
def two_lowest(z, order, share):
    """Return ``share`` of the lowest of at least two draws and the rest of the next one; ``order`` begins with both."""
    low, next_one = (0, 1) if z[0] <= z[1] else (1, 0)
    for i in range(2, z.size):
        if z[i] < z[low]:
            low, next_one = i, low
        elif z[i] < z[next_one]:
            next_one = i
    order[0], order[1] = low, next_one
    return share * z[low] + (1.0 - share) * z[next_one]
