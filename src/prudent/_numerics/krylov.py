"""The value of a Markov chain by sweeps and BiCGStab, compiled.

SciPy's own BiCGStab spends most of its time between its vector operations at the sizes that matter here (the row "inner
solver" of ``benchmarks/core.py`` measures it) and stops in the 2-norm, where the caller needs the largest entry of
the residual. The method is van der Vorst's (SIAM J. Sci. Stat. Comput. 13, 1992).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._support.checks import FloatArray
from .compile import kernel, over_rows

__all__ = ["CAP", "DENSE", "Chain", "chain_values"]


DENSE = 300  # callers solve chains of up to this many states by elimination
CAP = 2_000  # products with P in one solve, for callers that have nothing better to say
FAST = 0.7  # a sweep that shrinks the variation of the residual by less than this makes way for BiCGStab


class Chain(NamedTuple):
    """A Markov chain with rewards, its transition matrix P in CSR form (entries of one row may repeat a column)."""

    indptr: npt.NDArray[np.int32] | npt.NDArray[np.int64]  # [S + 1]
    indices: npt.NDArray[np.int32]
    data: FloatArray
    reward: FloatArray  # [S]

    def dense(self) -> FloatArray:
        """Return the transition matrix [S, S]."""
        matrix = np.zeros((self.reward.size, self.reward.size))
        _fill(self.indptr, self.indices, self.data, matrix)
        return matrix

    def values(self, discount: float, guess: FloatArray, target: float, conservative: bool) -> FloatArray:
        """Return the values of the chain, or ``guess`` where they cannot be had.

        Up to ``DENSE`` states by elimination, beyond that from ``guess`` on to ``target``, see :func:`chain_values`.
        """
        if guess.size <= DENSE:
            matrix = self.dense()
            matrix *= -discount
            matrix.flat[:: guess.size + 1] += 1.0
            try:
                answer = np.linalg.solve(matrix, self.reward).astype(np.float64, copy=False)
            except np.linalg.LinAlgError:  # at discounts within rounding of one
                return guess
        else:
            answer = guess.copy()
            inner = (self, discount, answer, target, conservative, CAP)
            over_rows(lambda *_: chain_values(*inner), 1, 1, long=self.data.size > 1_000_000)
        return answer if np.isfinite(answer).all() else guess


@kernel
def _fill(indptr, indices, data, matrix):
    for s in range(matrix.shape[0]):
        for j in range(indptr[s], indptr[s + 1]):
            matrix[s, indices[j]] += data[j]


@kernel
def _expect(indptr, indices, data, x, out):
    """Write P x into ``out``."""
    for s in range(x.size):
        total = 0.0
        # unsigned indices: no test for counting from the end, which halves the time
        for j in range(np.uint64(indptr[s]), np.uint64(indptr[s + 1])):
            total += data[j] * x[np.uint64(indices[j])]
        out[s] = total


@kernel
def chain_values(chain, discount, x, target, conservative, most):
    """Improve ``x`` [S] until |reward + gamma P x - x| <= ``target`` everywhere; return the products with P used.

    With rows that sum to one (``conservative``) a constant in the residual does no harm, the caller shifts it away, and
    it is enough that the residual varies by no more than 2 ``target``. Where the chain mixes fast, plain sweeps
    shrink the variation faster than anything; when they slow down BiCGStab takes over. Stops after ``most`` products
    or when the recurrence breaks down; ``x`` is then the best so far.
    """
    indptr, indices, data, reward = chain
    n = x.size
    r, t = np.empty(n), np.empty(n)
    products = 0
    spread = np.inf
    while True:
        _expect(indptr, indices, data, x, t)
        products += 1
        low, high = np.inf, -np.inf
        for i in range(n):
            r[i] = reward[i] + discount * t[i] - x[i]
            low, high = min(low, r[i]), max(high, r[i])
        if not conservative:
            low, high = min(low, -high), max(high, -low)
        slow = high - low > FAST * spread
        spread = high - low
        if spread <= 2.0 * target or products >= most:
            return products
        if slow:
            break
        for i in range(n):
            x[i] += r[i]

    biggest = max(abs(low), abs(high))
    shadow = r.copy()
    p, v = np.zeros(n), np.zeros(n)
    rho, alpha, omega = 1.0, 1.0, 1.0
    while biggest > target and products < most:
        new = 0.0
        for i in range(n):
            new += shadow[i] * r[i]
        if new == 0.0 or omega == 0.0:
            break
        beta = (new / rho) * (alpha / omega)
        rho = new
        for i in range(n):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
        _expect(indptr, indices, data, p, v)
        along = 0.0
        for i in range(n):
            v[i] = p[i] - discount * v[i]
            along += shadow[i] * v[i]
        if along == 0.0:
            break
        alpha = rho / along
        for i in range(n):
            r[i] -= alpha * v[i]
        _expect(indptr, indices, data, r, t)
        products += 2
        rt, tt = 0.0, 0.0
        for i in range(n):
            t[i] = r[i] - discount * t[i]
            rt += r[i] * t[i]
            tt += t[i] * t[i]
        omega = rt / tt if tt > 0.0 else 0.0
        biggest = 0.0
        for i in range(n):
            x[i] += alpha * p[i] + omega * r[i]
            r[i] -= omega * t[i]
            biggest = max(biggest, abs(r[i]))
    return products
