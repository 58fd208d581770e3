"""Arithmetic in twice the precision: a number is the unevaluated sum of two.

``two_sum`` and ``two_product`` are exact (Knuth; Dekker): the result and what rounding took from it. Sums and products
built from them err by about EPS^2 of the sizes that they add up (Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.checks import BoolArray, FloatArray
from .compile import kernel

EPS = float(np.finfo(np.float64).eps)
_SPLIT = 134217729.0  # 2**27 + 1


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the rounded a + b and what is missing."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@kernel
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return the rounded a * b and what is missing."""
    product = a * b
    scaled = _SPLIT * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLIT * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def two_sums(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``two_sum`` of each entry."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@kernel
def sums_and_leaks(indptr: Any, data: FloatArray, counted: BoolArray, sums: FloatArray) -> tuple[float, float]:
    """Write the rounded sum of each row of a sparse matrix with entries >= 0 into ``sums``.

    Returns bounds on the leaks, 1 - sum, of the ``counted`` rows, which hold for the numbers as given.
    """
    least, greatest = np.inf, -np.inf
    for i in range(sums.size):
        total, rest = 0.0, 0.0
        for j in range(indptr[i], indptr[i + 1]):
            total, lost = two_sum(total, data[j])
            rest += lost
        sums[i] = total + rest
        if counted[i]:
            leak = (1.0 - total) - rest  # the bracket is exact for sums near one
            n = indptr[i + 1] - indptr[i]
            error = EPS * (abs(leak) + n * n * EPS * total)
            least, greatest = min(least, leak - error), max(greatest, leak + error)
    return least, greatest
