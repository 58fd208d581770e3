"""Random numbers by their place: Philox4x64-10, the counter-based generator of ``numpy.random.Philox``.

The number at a place (b, k) needs no numbers before it. So the k-th use of source b has the same uniform number in
every run with the same key, whatever happened between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .compile import kernel

FACTORS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
SPARE = np.uint64(11)  # bits of 64 that a double in [0, 1) has no room for


@kernel
def _high(x: np.uint64, y: np.uint64) -> np.uint64:
    """Return the upper 64 bits of a product of unsigned 64-bit numbers."""
    x0, x1, y0, y1 = x & LOW, x >> HALF, y & LOW, y >> HALF
    middle = x1 * y0 + ((x0 * y0) >> HALF)
    other = x0 * y1 + (middle & LOW)
    return x1 * y1 + (middle >> HALF) + (other >> HALF)


@kernel
def uniform_at(key: npt.NDArray[np.uint64], b: int, k: int) -> float:
    """Return the uniform number in [0, 1) at the place (b, k), under a key of two 64-bit numbers."""
    c0, c1, c2, c3 = np.uint64(k), np.uint64(b), np.uint64(0), np.uint64(0)
    k0, k1 = key[0], key[1]
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = (
            _high(FACTORS[1], c2) ^ c1 ^ k0,
            FACTORS[1] * c2,
            _high(FACTORS[0], c0) ^ c3 ^ k1,
            FACTORS[0] * c0,
        )
        k0 += STEPS[0]
        k1 += STEPS[1]
    return float(c0 >> SPARE) * (1.0 / 9007199254740992.0)
