"""The entropic mean -(1/beta) log E[exp(-beta Y)]: stable for every beta >= 0, of which 0 is the mean.

With m the least value and d = Y - m, it is m - log(1 - x) / beta with x = -E[expm1(-beta d)]. For x up to 1/2 that is
as accurate as E[d]: log1p and expm1 lose nothing, whatever the size of beta. Beyond, E[exp(-beta d)] is summed as it
is: then beta max(d) > log 2, and an error in the logarithm, divided by beta, is small against max(d). The error is at
most about (3 K + 20) EPS max(d) for K values, and the rounding of the values themselves.

Chances are weights: what matters is their share in the sum, and those that are zero are not looked at.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from .compile import kernel

__all__ = ["entropic_each", "entropic_mean", "entropic_rows"]

TINY = 1e-280  # beta times the spread, below which the mean cannot be told from it


@kernel
def entropic_mean(values: FloatArray, chances: FloatArray, beta: float) -> float:
    """Return the entropic mean of ``values`` with probabilities in proportion to ``chances``."""
    low, high, total = np.inf, -np.inf, 0.0
    for i in range(values.size):
        if chances[i] > 0.0:
            low, high, total = min(low, values[i]), max(high, values[i]), total + chances[i]
    if not beta * (high - low) > TINY:
        mean = 0.0
        for i in range(values.size):
            if chances[i] > 0.0:
                mean += chances[i] * (values[i] - low)
        return low + mean / total
    lost = 0.0
    for i in range(values.size):
        if chances[i] > 0.0:
            lost -= chances[i] * math.expm1(-beta * (values[i] - low))
    lost /= total
    if lost <= 0.5:
        return low - math.log1p(-lost) / beta
    kept = 0.0
    for i in range(values.size):
        if chances[i] > 0.0:
            kept += chances[i] * math.exp(-beta * (values[i] - low))
    return low - math.log(kept / total) / beta


@kernel
def entropic_rows(
    outcomes: Any, discount: float, beta: float, longest: int, value: FloatArray, pairs: Any, q: FloatArray
) -> float:
    """Write the entropic mean of r + gamma V(s') into ``q`` for ``pairs``; return the size of the largest sum."""
    first, next_state, reward, chance = outcomes
    y = np.empty(longest)
    biggest = 0.0
    for i in range(pairs.size):
        p = pairs[i]
        begin, n = first[p], first[p + 1] - first[p]
        for j in range(n):
            target = next_state[begin + j]
            later = discount * value[target] if target >= 0 else 0.0
            y[j] = reward[begin + j] + later
            biggest = max(biggest, abs(reward[begin + j]) + abs(later))
        q[p] = entropic_mean(y[:n], chance[begin : begin + n], beta)
    return biggest


@kernel
def entropic_each(values: FloatArray, chances: FloatArray, beta: float, out: FloatArray) -> None:
    """Write the entropic mean of each row of ``values`` [S, A] into ``out`` [S]."""
    for s in range(out.size):
        out[s] = entropic_mean(values[s], chances[s], beta)
