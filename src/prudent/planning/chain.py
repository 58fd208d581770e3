"""The value of a Markov chain with rewards, V = r + gamma P V: elimination for small chains, BiCGStab for large ones.

There is one iterative driver, ``bicgstab``. It is written over six vector operations and made twice: compiled with
loops over arrays for the CPU, where compiled loops call it too, and in Python with kernel launches for the GPU (see
``prudent.planning.execute.cuda_chain``). SciPy's own BiCGStab spends most of its time between its vector operations
at the sizes that matter here (the row "inner solver" of ``benchmarks/core.py`` measures it) and stops in the 2-norm,
where callers need the largest entry of the residual. The method is van der Vorst's (SIAM J. Sci. Stat. Comput. 13,
1992).

Elimination has three forms, each for its callers: LAPACK for chains of up to ``DENSE`` states, sparse elimination for
long and narrow chains on which BiCGStab fails, and in ``prudent.planning.inner`` a loop without pivots for the tiny
chains of compiled simulations, where a call of LAPACK takes longer than the work itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compile import kernel, over_rows
from .._support.checks import FloatArray

DENSE = 300  # chains of up to this many states are solved by elimination
FILLED = 0.05  # share of entries above which a chain is eliminated as a dense matrix
LARGEST_FILLED = 5_000  # states up to which it is
MAX_PRODUCTS = 2_000  # products with P in one iterative solve
FAST_SWEEP = 0.7  # a sweep that shrinks the variation of the residual by less than this makes way for BiCGStab
LONG_CHAIN = 1_000_000  # entries of a chain whose solve Ctrl-C should be able to interrupt


class Chain(NamedTuple):
    """A Markov chain with rewards, its transition matrix P in CSR form (entries of one row may repeat a column)."""

    indptr: npt.NDArray[np.int32] | npt.NDArray[np.int64]  # [S + 1]
    indices: npt.NDArray[np.int32]
    data: FloatArray
    reward: FloatArray  # [S]

    def dense(self) -> FloatArray:
        """Return the transition matrix [S, S]."""
        matrix = np.zeros((self.reward.size, self.reward.size))
        _add_entries(self.indptr, self.indices, self.data, matrix)
        return matrix

    def with_reward(self, reward: FloatArray) -> Chain:
        """Return the chain with another reward [S]."""
        return self._replace(reward=reward)

    def values(
        self,
        discount: float,
        guess: FloatArray,
        target: float,
        conservative: bool,
        products: int = MAX_PRODUCTS,
    ) -> FloatArray:
        """Return the values of the chain, or ``guess`` where they are not finite.

        Up to ``DENSE`` states by elimination, beyond that from ``guess`` on to ``target``, see ``chain_values``.
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
            inner = (self, discount, answer, target, conservative, products)
            over_rows(lambda *_: chain_values(*inner), 1, 1, long=self.data.size > LONG_CHAIN)
        return answer if np.isfinite(answer).all() else guess


def is_filled(size: int, entries: int) -> bool:
    """Return whether a chain with so many states and transitions is eliminated as a dense matrix."""
    return size <= LARGEST_FILLED and entries > FILLED * size * size


def most_products(size: int, entries: int) -> int:
    """Return the products with P after which a chain is better eliminated, if it is known how."""
    return max(20, size // 10) if is_filled(size, entries) else MAX_PRODUCTS


def sparse_elimination(matrix: scipy.sparse.csr_array, reward: FloatArray, discount: float = 1.0) -> FloatArray:
    """Return the values of a chain with transition ``matrix`` by a sparse LU factorisation.

    For chains on which BiCGStab fails: they are long and narrow, and elimination hardly fills them.
    """
    from scipy.sparse.linalg import splu

    size = reward.size
    if is_filled(size, matrix.nnz):
        return np.asarray(np.linalg.solve(np.eye(size) - discount * matrix.toarray(), reward))
    one = scipy.sparse.eye_array(size, format="csc")
    steps = matrix.tocsc()
    return np.asarray(splu(one - (steps if discount == 1.0 else discount * steps)).solve(reward))


@kernel
def rows_of(chain, rows):
    """Return the given rows of a chain, packed: repeated products then stay in cache."""
    indptr = chain.indptr
    start = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        start[i + 1] = start[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    columns = np.empty(start[-1], np.int32)
    entries = np.empty(start[-1])
    to = np.uint64(0)
    for i in range(rows.size):
        for j in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            columns[to] = chain.indices[j]
            entries[to] = chain.data[j]
            to += np.uint64(1)
    return Chain(start, columns, entries, chain.reward[rows])


@kernel
def _add_entries(indptr, indices, data, matrix):
    for s in range(matrix.shape[0]):
        for j in range(indptr[s], indptr[s + 1]):
            matrix[s, indices[j]] += data[j]


# -- the driver --------------------------------------------------------------------------------------------


def bicgstab(sweep: Any, step: Any, begin: Any, aim: Any, apply: Any, move: Any) -> Any:
    """Return the driver over six vector operations, as a function of (chain, discount, x, target, conservative, most).

    The function improves ``x`` [S] until |reward + gamma P x - x| <= ``target`` everywhere and returns the number of
    products with P. With rows that sum to one (``conservative``) a constant in the residual does no harm, the caller
    shifts it away, and it is enough that the residual varies by no more than 2 ``target``. Where the chain mixes fast,
    plain sweeps shrink the variation faster than anything; when they slow down BiCGStab takes over. It stops after
    ``most`` products or when the recurrence breaks down; ``x`` is then the best so far.

    Vectors other than x are the operations' own: ``work`` has r, t, v, p and shadow.

    Parameters
    ----------
    sweep : callable
        ``(chain, discount, x, work)``: write r = reward + gamma P x - x; return the extremes of r.
    step : callable
        ``(x, work)``: add r to x.
    begin : callable
        ``(work)``: copy r into shadow, set p and v to zero; return r.r.
    aim : callable
        ``(chain, discount, beta, omega, work)``: write p = r + beta (p - omega v) and v = p - gamma P p; return
        shadow.v.
    apply : callable
        ``(chain, discount, alpha, work)``: subtract alpha v from r, write t = r - gamma P r; return r.t and t.t.
    move : callable
        ``(x, alpha, omega, work)``: add alpha p + omega r to x, subtract omega t from r; return shadow.r and max |r|.
    """

    def values(chain, discount, x, target, conservative, most, work):
        products, spread = 0, math.inf
        while True:
            low, high = sweep(chain, discount, x, work)
            products += 1
            if not conservative:
                low, high = min(low, -high), max(high, -low)
            slow = high - low > FAST_SWEEP * spread
            spread = high - low
            if spread <= 2.0 * target or products >= most or not math.isfinite(spread):
                return products
            if slow:
                break
            step(x, work)
        biggest = max(abs(low), abs(high))
        new = begin(work)
        rho, alpha, omega = 1.0, 1.0, 1.0
        while biggest > target and products < most:
            if new == 0.0 or omega == 0.0:
                break
            beta = (new / rho) * (alpha / omega)
            rho = new
            along = aim(chain, discount, beta, omega, work)
            if along == 0.0:
                break
            alpha = rho / along
            rt, tt = apply(chain, discount, alpha, work)
            products += 2
            omega = rt / tt if tt > 0.0 else 0.0
            new, biggest = move(x, alpha, omega, work)
        return products

    return values


class _Work(NamedTuple):
    """The vectors of BiCGStab."""

    r: FloatArray
    t: FloatArray
    v: FloatArray
    p: FloatArray
    shadow: FloatArray


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
def _sweep(chain, discount, x, work):
    r, t = work.r, work.t
    _expect(chain.indptr, chain.indices, chain.data, x, t)
    low, high = np.inf, -np.inf
    for i in range(x.size):
        r[i] = chain.reward[i] + discount * t[i] - x[i]
        low, high = min(low, r[i]), max(high, r[i])
    return low, high


@kernel
def _step(x, work):
    r = work.r
    for i in range(x.size):
        x[i] += r[i]


@kernel
def _begin(work):
    r, v, p, shadow = work.r, work.v, work.p, work.shadow
    square = 0.0
    for i in range(r.size):
        shadow[i] = r[i]
        p[i] = v[i] = 0.0
        square += shadow[i] * r[i]
    return square


@kernel
def _aim(chain, discount, beta, omega, work):
    r, v, p, shadow = work.r, work.v, work.p, work.shadow
    for i in range(r.size):
        p[i] = r[i] + beta * (p[i] - omega * v[i])
    _expect(chain.indptr, chain.indices, chain.data, p, v)
    along = 0.0
    for i in range(r.size):
        v[i] = p[i] - discount * v[i]
        along += shadow[i] * v[i]
    return along


@kernel
def _apply(chain, discount, alpha, work):
    r, t, v = work.r, work.t, work.v
    for i in range(r.size):
        r[i] -= alpha * v[i]
    _expect(chain.indptr, chain.indices, chain.data, r, t)
    rt, tt = 0.0, 0.0
    for i in range(r.size):
        t[i] = r[i] - discount * t[i]
        rt += r[i] * t[i]
        tt += t[i] * t[i]
    return rt, tt


@kernel
def _move(x, alpha, omega, work):
    r, t, p, shadow = work.r, work.t, work.p, work.shadow
    new, biggest = 0.0, 0.0
    for i in range(x.size):
        x[i] += alpha * p[i] + omega * r[i]
        r[i] -= omega * t[i]
        new += shadow[i] * r[i]
        biggest = max(biggest, abs(r[i]))
    return new, biggest


_drive = kernel(bicgstab(_sweep, _step, _begin, _aim, _apply, _move))


@kernel
def chain_values(chain, discount, x, target, conservative, most):
    """Improve ``x`` [S] to the values of ``chain`` on the CPU, see ``bicgstab``; return the products with P."""
    n = x.size
    work = _Work(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    return _drive(chain, discount, x, target, conservative, most, work)
