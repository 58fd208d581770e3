"""Dirichlet draws from a NumPy Generator, for posteriors and inside compiled loops.

A Dirichlet draw is a row of independent gamma variates divided by their sum. A gamma variate of shape well below one
underflows, so a source with a count below one is drawn in logarithms. Draws are the last axis, [K, N] for one source:
the loops over draws then run over contiguous memory.
"""

from __future__ import annotations

import math

import numpy as np
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r
from numba.np.random.generator_core import next_double, next_uint64

from .._support.checks import FloatArray, IntArray
from .compile import kernel, lean

LEAST = 1e-300  # smaller counts count as this one: their reciprocal must be finite
_WITHIN = ki_double.astype(np.int64)  # sizes below these lie within their strip of the ziggurat


@lean
def _edge(rng: np.random.Generator, strip: np.uint64, size: np.int64, x: float) -> float:
    """Return the normal variate of a first try of NumPy's ziggurat that lies at the edge of its strip."""
    bits = rng.bit_generator
    if strip == 0:
        while True:
            beyond = -ziggurat_nor_inv_r * np.log1p(-next_double(bits))
            height = -np.log1p(-next_double(bits))
            if height + height > beyond * beyond:
                return -(ziggurat_nor_r + beyond) if (size >> 8) & 1 else ziggurat_nor_r + beyond
    low, high = fi_double[strip], fi_double[strip - np.uint64(1)]
    return x if (high - low) * next_double(bits) + low < math.exp(-0.5 * x * x) else rng.standard_normal()


@lean
def _decided(rng: np.random.Generator, c: float, d: float, x: float, u: float) -> float:
    """Return a gamma variate from a first try of Marsaglia and Tsang's method that is not taken for certain."""
    while True:
        v = 1.0 + c * x
        v = v * v * v
        if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        x = rng.standard_normal()
        while c * x <= -1.0:
            x = rng.standard_normal()
        u = rng.random()


@lean
def _gammas(rng: np.random.Generator, shape: float, out: FloatArray, n: int) -> None:
    """Write n gamma variates of ``shape`` >= 1: Marsaglia and Tsang's method, in NumPy's order of draws.

    The same numbers as ``rng.standard_gamma(shape, n)`` in a third of the time: the constants are computed once,
    logarithms where they decide, and the first try of a normal variate is here, without a branch for its sign, which
    no processor can foresee. With t = c x the logarithm of the chance to be taken is 3 d (log(1 + t) - t + t^2 / 2
    - t^3 / 3), which is at least -3/4 d t^4 / (1 - |t|). For |t| < 1/2 the chance is thus above 1 - 3/2 d t^4.
    """
    if shape == 1.0:
        for i in range(n):
            out[i] = rng.standard_exponential()
        return
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    bound = 1.51 * d
    bits = rng.bit_generator
    for i in range(n):
        word = next_uint64(bits)
        strip = word & np.uint64(0xFF)
        size = np.int64((word >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
        negative = np.int64((word >> np.uint64(8)) & np.uint64(1))
        x = size * wi_double[strip] * (1.0 - 2.0 * negative)
        if size >= _WITHIN[strip]:
            x = _edge(rng, strip, size, x)
        t = c * x
        while t <= -1.0:
            x = rng.standard_normal()
            t = c * x
        u = next_double(bits)
        v = 1.0 + t
        out[i] = d * (v * v * v)
        if abs(t) >= 0.5 or u >= 1.0 - bound * (t * t) * (t * t):
            out[i] = _decided(rng, c, d, x, u)


@lean
def draw_row(rng: np.random.Generator, counts: FloatArray, theta: FloatArray, n: int, total: FloatArray) -> None:
    """Write n Dirichlet draws of one source, counts [K], into theta [K, N]; ``total`` [N] is scratch."""
    small, possible = False, 0
    for k in range(counts.size):
        small = small or 0.0 < counts[k] < 1.0
        possible += counts[k] > 0.0
    for k in range(counts.size):
        if counts[k] == 0.0:
            theta[k, :n] = 0.0
            continue
        if not small:
            _gammas(rng, counts[k], theta[k], n)
            continue
        # A gamma variate of small shape a underflows; its logarithm is that of shape a + 1 less an exponential / a.
        _gammas(rng, counts[k] + 1.0, theta[k], n)
        for i in range(n):
            theta[k, i] = math.log(theta[k, i]) - rng.standard_exponential() / max(counts[k], LEAST)
    if small:
        for i in range(n):
            top = -np.inf
            for k in range(counts.size):
                if counts[k] > 0.0:
                    top = max(top, theta[k, i])
            for k in range(counts.size):
                if counts[k] > 0.0:
                    theta[k, i] = math.exp(theta[k, i] - top)
    total[:n] = 1e-300
    for k in range(counts.size):
        row = theta[k]
        for i in range(n):
            total[i] += row[i]
    for i in range(n):
        total[i] = 1.0 / total[i]
    for k in range(counts.size):
        row = theta[k]
        for i in range(n):
            row[i] *= total[i]
    if possible == 1:  # what is certain is so to the last digit
        for k in range(counts.size):
            if counts[k] > 0.0:
                theta[k, :n] = 1.0


@kernel
def draw_slots(
    rng: np.random.Generator, counts: FloatArray, begin: IntArray, theta: FloatArray, work: FloatArray
) -> None:
    """Write posterior draws into ``theta`` [F, N], source after source: source b has the rows from ``begin[b]`` on."""
    for b in range(begin.size - 1):
        draw_row(rng, counts[begin[b] : begin[b + 1]], theta[begin[b] : begin[b + 1]], theta.shape[1], work)


@kernel
def draw_theta(rng: np.random.Generator, counts: FloatArray, theta: FloatArray, n: int, work: FloatArray) -> None:
    """Write n posterior draws of every source into ``theta`` [B, K, N]; sources first, then outcomes, then draws."""
    for b in range(counts.shape[0]):
        draw_row(rng, counts[b], theta[b], n, work)
