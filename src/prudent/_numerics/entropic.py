"""The entropic mean -(1/beta) log E[exp(-beta Y)]: stable for every beta >= 0, of which 0 is the mean.

With m the least value and d = Y - m, it is m - log(1 - x) / beta with x = -E[expm1(-beta d)]. For x up to 1/2 that is
as accurate as E[d]: log1p and expm1 lose nothing, whatever the size of beta. Where x is larger, as it can only be for
beta max(d) of some size, E[exp(-beta d)] is summed as it is: an error in its logarithm, divided by beta, is small
against max(d). The error is at most about (4 K + 40) EPS max(d) for K values, and the rounding of the values.

Chances are weights above zero: what matters is their share in the sum.

The C library's ``expm1`` is a call, one number at a time. Here it is a polynomial after a reduction without branches,
exp(-z) = 2^-k exp(-r) with |r| <= log(2)/2, so that the loop becomes vector code. With e = expm1(-r) the answer is
2^-k e + (2^-k - 1): as accurate as e for k = 0, and without cancellation beyond.
"""

from __future__ import annotations

import math

import numpy as np

from .._support.checks import FloatArray
from .compile import kernel

TINY = 1e-280  # beta times the spread, below which the mean cannot be told from it
FARTHEST = 700.0  # exp(-z) of more than this is nothing
_LN2_HIGH, _LN2_LOW, _PER_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.4426950408889634
_TERMS = tuple(1.0 / math.factorial(i) for i in range(2, 15))
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13, _C14 = _TERMS


@kernel
def _exponentials(values: FloatArray, low: float, beta: float, minus: float, out: FloatArray) -> None:
    """Write exp(-beta (values - low)) - ``minus`` into ``out``, accurately also for ``minus`` = 1."""
    for j in range(values.size):
        z = min(beta * (values[j] - low), FARTHEST)
        k = np.int32(z * _PER_LN2 + 0.5)
        turns = np.float64(k)
        r = turns * _LN2_HIGH - z + turns * _LN2_LOW
        tail = _C8 + r * (_C9 + r * (_C10 + r * (_C11 + r * (_C12 + r * (_C13 + r * _C14)))))
        e = r + r * r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * (_C7 + r * tail))))))
        scale = np.int64((np.int64(1023) - np.int64(k)) << np.int64(52)).view(np.float64)  # 2^-k
        out[j] = scale * e + (scale - minus)


@kernel
def entropic_mean(values: FloatArray, chances: FloatArray, beta: float, scratch: FloatArray) -> float:
    """Return the entropic mean of ``values`` [K] with probabilities in proportion to ``chances`` [K], all positive.

    ``scratch`` has room for K numbers.
    """
    n = values.size
    low, high, total = values[0], values[0], 0.0
    for j in range(n):
        low, high = min(low, values[j]), max(high, values[j])
        total += chances[j]
    if not beta * (high - low) > TINY:
        mean = 0.0
        for j in range(n):
            mean += chances[j] * (values[j] - low)
        return low + mean / total
    if beta * (high - low) > 2.0:  # then it may be that most is lost
        kept = 0.0
        _exponentials(values, low, beta, 0.0, scratch[:n])
        for j in range(n):
            kept += chances[j] * scratch[j]
        if kept < 0.75 * total:
            return low - math.log(kept / total) / beta
    lost = 0.0
    _exponentials(values, low, beta, 1.0, scratch[:n])
    for j in range(n):
        lost -= chances[j] * scratch[j]
    return low - math.log1p(-lost / total) / beta


@kernel
def entropic_each(values: FloatArray, chances: FloatArray, beta: float, out: FloatArray) -> None:
    """Write the entropic mean of each row of ``values`` [S, A] into ``out`` [S]; chances may be zero."""
    n = values.shape[1]
    some, likely, scratch = np.empty(n), np.empty(n), np.empty(n)
    for s in range(out.size):
        kept = 0
        for a in range(n):
            if chances[s, a] > 0.0:
                some[kept], likely[kept] = values[s, a], chances[s, a]
                kept += 1
        out[s] = entropic_mean(some[:kept], likely[:kept], beta, scratch)
