"""The only Bellman code: what one step ahead is worth, for known models and under a posterior.

For a value function V the three operators give every admissible pair (s, a) a number Q(s, a):

    risk-neutral     r(s, a) + gamma sum_s' P(s' | s, a) V(s')
    sampled          rho of the N numbers Z_i = r_i(s, a) + sum_k theta_i[b, k] (r(s, a, k) + gamma V(next(s, a, k)))
    exact            CVaR_alpha of the same Z under theta[b] ~ Dirichlet(psi[b]),      b = source(s, a)

The second is the approximate Bayesian-risk operator T-hat of the paper (with any spectral rho in place of CVaR),
the third is T^psi itself. All are monotone, and shift with V: adding c to V adds gamma c to Q, times the row sum where
rows do not sum to one. Hence maximising over actions, or following a policy, gives a gamma-contraction with MacQueen's
bounds (see :mod:`prudent.planning.solver`).

Each is also concave and piecewise smooth in V with a known gradient: probabilities of outcomes, which for CVaR
are those of the tail. ``linearise`` returns them as an ordinary Markov chain with rewards that touches the
operator at V; solving that chain is the Newton step.

Pairs are numbered s * A + a. Operators answer for the pairs they are asked about: all of them for control, one per
state for a fixed policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._numerics.compile import kernel, over_rows
from .._numerics.dirichlet_tail import tail_of_row
from .._numerics.order_statistics import _spectral, weighted_draws
from .._support.checks import FloatArray, IntArray
from ..risk import RiskMeasure

__all__ = ["Chain", "ExactOperator", "ExpectedOperator", "Operator", "SampledOperator", "greedy", "keep_close"]


EPS = float(np.finfo(np.float64).eps)


class Chain(NamedTuple):
    """A Markov chain with rewards, its transition matrix in CSR form (entries of one row may repeat a column)."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: FloatArray
    reward: FloatArray  # [S]

    def dense(self) -> FloatArray:
        """Return the transition matrix [S, S]."""
        matrix = np.zeros((self.reward.size, self.reward.size))
        _fill(self.indptr, self.indices, self.data, matrix)
        return matrix


@kernel
def _fill(indptr, indices, data, matrix):
    for s in range(matrix.shape[0]):
        for j in range(indptr[s], indptr[s + 1]):
            matrix[s, indices[j]] += data[j]


@kernel
def _rows_of(indptr, indices, data, rows):
    """Return the given rows of a CSR matrix, packed: repeated products then stay in cache."""
    start = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        start[i + 1] = start[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    columns = np.empty(start[-1], np.int32)
    entries = np.empty(start[-1])
    to = np.uint64(0)
    for i in range(rows.size):
        for j in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            columns[to] = indices[j]
            entries[to] = data[j]
            to += np.uint64(1)
    return start, columns, entries


class Operator(ABC):
    """One Bellman operator on a model with S states and A actions."""

    n_states: int
    n_actions: int
    discount: float
    row_sums: tuple[float, float] = (1.0, 1.0)  # least and greatest over the admissible pairs

    @abstractmethod
    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """Write Q(s, a) into ``q`` [S*A] for ``pairs`` and return a bound on the rounding error of these numbers."""

    @abstractmethod
    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """Return the chain that follows ``pairs`` [S] and touches the operator at ``value``.

        Must be called after ``backup`` at the same ``value`` for a superset of ``pairs``.
        """


class ExpectedOperator(Operator):
    """Risk-neutral: a known model, Bellman's equation of the paper's Section 2."""

    def __init__(self, transition: sparse.csr_array, reward: FloatArray, discount: float) -> None:
        """``transition`` (S*A) x S in CSR with 32-bit or 64-bit indices, ``reward`` [S, A]."""
        self.n_states, self.n_actions = reward.shape
        self.discount = discount
        self._rows = (transition.indptr, transition.indices, transition.data)
        self._reward = reward.reshape(-1)
        self._longest = int(np.diff(transition.indptr).max(initial=0))

    @classmethod
    def of_outcomes(
        cls,
        source: IntArray,
        next_state: npt.NDArray[np.int32],
        reward: FloatArray,
        discount: float,
        theta: FloatArray,
    ) -> ExpectedOperator:
        """Return the operator of an uncertain model whose outcome probabilities are ``theta`` [B, K]."""
        n_states, n_actions, n_outcomes = next_state.shape
        weights = np.where(source[..., np.newaxis] >= 0, theta[source], 0.0)  # [S, A, K]
        entries = np.flatnonzero(weights.reshape(-1) > 0.0)
        kept = np.bincount(entries // n_outcomes, minlength=n_states * n_actions)
        indptr = np.concatenate(([0], np.cumsum(kept))).astype(np.int32)
        matrix = sparse.csr_array(
            (weights.reshape(-1)[entries], next_state.reshape(-1)[entries], indptr),
            shape=(n_states * n_actions, n_states),
        )
        return cls(matrix, np.einsum("sak,sak->sa", weights, reward), discount)

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        biggest = _expected(*self._rows, self._reward, self.discount, value, pairs, q)
        return (self._longest + 3) * EPS * biggest

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`; the operator of a policy is linear, so ``value`` does not matter."""
        indptr, indices, data = _rows_of(*self._rows, pairs)
        return Chain(indptr, indices, data, self._reward[pairs])


@kernel
def _expected(indptr, indices, data, reward, discount, value, pairs, q):
    top = 0.0
    for s in range(value.size):
        top = max(top, abs(value[s]))
    biggest = 0.0
    for i in range(pairs.size):
        p = np.uint64(pairs[i])  # unsigned: no test for counting from the end, which halves the time
        total = 0.0
        for j in range(np.uint64(indptr[p]), np.uint64(indptr[p + np.uint64(1)])):
            total += data[j] * value[np.uint64(indices[j])]
        q[p] = reward[p] + discount * total
        biggest = max(biggest, abs(reward[p]))
    return biggest + discount * top


class _OutcomeOperator(Operator):
    """What the sampled and the exact operator share: outcomes with known consequences, unknown probabilities."""

    def __init__(
        self, source: IntArray, next_state: npt.NDArray[np.int32], reward: FloatArray, discount: float
    ) -> None:
        """``source`` [S, A], ``next_state`` and ``reward`` [S, A, K]; a next state of -1: no such outcome."""
        self.n_states, self.n_actions, self.n_outcomes = next_state.shape
        self.discount = discount
        self._model = (
            source.reshape(-1),
            next_state.reshape(-1, self.n_outcomes),
            reward.reshape(-1, self.n_outcomes),
        )

    def _chain(self, weights: FloatArray, pairs: IntArray, extra_reward: FloatArray | float = 0.0) -> Chain:
        """Return the chain in which pair i has outcome probabilities ``weights[i]`` [S, K]."""
        _, next_state, reward = self._model
        targets = np.maximum(next_state[pairs], 0)  # absent outcomes have weight zero
        indptr = np.arange(0, targets.size + 1, self.n_outcomes)
        gain = np.einsum("ik,ik->i", weights, reward[pairs]) + extra_reward
        return Chain(indptr, targets.reshape(-1), weights.reshape(-1), gain)


class SampledOperator(_OutcomeOperator):
    """A spectral risk of N posterior draws: the paper's approximate Bayesian-risk operator."""

    def __init__(
        self,
        source: IntArray,
        next_state: npt.NDArray[np.int32],
        reward: FloatArray,
        discount: float,
        theta: FloatArray,
        risk: RiskMeasure,
        reward_draws: FloatArray | None = None,
        threads: int = 1,
    ) -> None:
        """``theta`` [N, B, K]; ``reward_draws`` [N, S, A] are added to the rewards of the model."""
        super().__init__(source, next_state, reward, discount)
        n_draws = theta.shape[0]
        # draws last: the sum over outcomes then runs over contiguous draws, at vector speed
        self._theta = np.ascontiguousarray(np.moveaxis(theta, 0, -1))  # [B, K, N]
        if reward_draws is None:
            self._reward_draws = np.zeros((0, 0))
        else:
            self._reward_draws = np.ascontiguousarray(reward_draws.reshape(n_draws, -1).T)  # [S*A, N]
        lowest = risk.lowest_weights(n_draws)
        self._weights = np.ascontiguousarray(lowest)
        self._is_mean = bool(lowest.size == n_draws and (lowest == lowest[0]).all())
        self._threads = threads

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        biggest = over_rows(
            lambda i, j: _sampled(
                pairs[i:j], *self._model, self.discount, self._theta, self._reward_draws, self._weights, self._is_mean,
                value, q,
            ),
            pairs.size,
            self._threads,
            smallest=max(1, 200_000 // (self.n_outcomes * self._theta.shape[2])),
        )  # fmt: skip
        return (self.n_outcomes + self._weights.size + 4) * EPS * max(biggest)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`: the mean over the tail draws, in their sorted order at ``value``."""
        weights = np.empty((pairs.size, self.n_outcomes))
        extra = np.zeros(pairs.size)
        _tail_draws(
            pairs, *self._model, self.discount, self._theta, self._reward_draws, self._weights, self._is_mean,
            value, weights, extra,
        )  # fmt: skip
        return self._chain(weights, pairs, extra)


@kernel
def _draws_of_pair(p, source, next_state, reward, discount, theta, reward_draws, value, z):
    """Write the N numbers Z_i of pair p into z; return the largest outcome value in size."""
    n = z.size
    biggest = 0.0
    if reward_draws.size:
        for i in range(n):
            z[i] = reward_draws[p, i]
            biggest = max(biggest, abs(z[i]))
    else:
        z[:] = 0.0
    extra = biggest
    rows = theta[source[p]]
    for k in range(next_state.shape[1]):
        if next_state[p, k] >= 0:
            y = reward[p, k] + discount * value[next_state[p, k]]
            biggest = max(biggest, abs(y) + extra)
            row = rows[k]
            for i in range(n):
                z[i] += row[i] * y
    return biggest


@kernel
def _sampled(pairs, source, next_state, reward, discount, theta, reward_draws, weights, is_mean, value, q):
    n = theta.shape[2]
    z = np.empty(n)
    order = np.empty(n, np.int64)
    biggest = 0.0
    for i in range(pairs.size):
        p = pairs[i]
        size = _draws_of_pair(p, source, next_state, reward, discount, theta, reward_draws, value, z)
        biggest = max(biggest, size)
        q[p] = z.mean() if is_mean else _spectral(z, order, weights)
    return biggest


@kernel
def _tail_draws(
    pairs, source, next_state, reward, discount, theta, reward_draws, weights, is_mean, value, means, extra
):
    n = theta.shape[2]
    z = np.empty(n)
    order = np.empty(n, np.int64)
    for i in range(pairs.size):
        p = pairs[i]
        _draws_of_pair(p, source, next_state, reward, discount, theta, reward_draws, value, z)
        if is_mean:
            for j in range(n):
                order[j] = j
        else:
            _spectral(z, order, weights)
        for k in range(next_state.shape[1]):
            means[i, k] = weighted_draws(theta[source[p], k], order, weights) if next_state[p, k] >= 0 else 0.0
        if reward_draws.size:
            extra[i] = weighted_draws(reward_draws[p], order, weights)


class ExactOperator(_OutcomeOperator):
    """CVaR under Dirichlet posteriors without sampling: the paper's operator T^psi itself."""

    def __init__(
        self,
        source: IntArray,
        next_state: npt.NDArray[np.int32],
        reward: FloatArray,
        discount: float,
        counts: FloatArray,
        alpha: float,
        threads: int = 1,
    ) -> None:
        """``counts`` [B, K], zero where an outcome cannot happen."""
        super().__init__(source, next_state, reward, discount)
        pairs = self.n_states * self.n_actions
        self._counts = counts
        self._tail = 1.0 - alpha
        self._start = np.full(pairs, np.nan)
        self._means = np.zeros((pairs, self.n_outcomes))
        self._threads = threads

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`. Each pair starts from its own quantile of the last time."""
        errors = over_rows(
            lambda i, j: _exact(
                pairs[i:j], *self._model, self.discount, self._counts, self._tail, value, self._start, self._means, q
            ),
            pairs.size,
            self._threads,
            smallest=16,
        )  # fmt: skip
        return max(errors)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`: the tail means, kept from the last backup."""
        return self._chain(self._means[pairs], pairs)


@kernel
def _exact(pairs, source, next_state, reward, discount, counts, tail, value, start, means, q):
    n = next_state.shape[1]
    y = np.zeros(n)
    work = np.empty((6, n + 1))
    worst = 0.0
    for i in range(pairs.size):
        p = pairs[i]
        size = 0.0
        for k in range(n):
            if next_state[p, k] >= 0:
                y[k] = reward[p, k] + discount * value[next_state[p, k]]
                size = max(size, abs(y[k]))
        q[p], _, start[p], error = tail_of_row(y, counts[source[p]], tail, start[p], work, means[p])
        worst = max(worst, error + 2.0 * EPS * size)
    return worst


@kernel
def greedy(q, value, policy):
    """Write the best entry of each row of ``q`` [S, A] into ``value`` and its first place into ``policy``.

    Returns the widest distance between the best entry of a row and another one that is finite.
    """
    widest = 0.0
    for s in range(q.shape[0]):
        # written without branches, which a processor cannot predict here
        best, worst, place = q[s, 0], np.inf, 0
        for a in range(q.shape[1]):
            here = q[s, a]
            place = a if here > best else place
            best = max(best, here)
            worst = min(worst, here if here > -np.inf else np.inf)
        value[s] = best
        policy[s] = place
        widest = max(widest, best - worst)
    return widest


@kernel
def keep_close(q, value, distance, pairs):
    """Move to the front of ``pairs`` those with q within ``distance`` of ``value``; set q of the others to -inf.

    ``q`` [S, A], ``value`` [S], ``pairs`` ascending. Returns how many are kept.
    """
    kept = 0
    n_actions = q.shape[1]
    flat = q.reshape(-1)
    s, end = 0, n_actions
    for i in range(pairs.size):
        p = pairs[i]
        while p >= end:
            s += 1
            end += n_actions
        if flat[p] < value[s] - distance:
            flat[p] = -np.inf
        else:
            pairs[kept] = p
            kept += 1
    return kept
