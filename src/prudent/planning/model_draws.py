"""Returns in thousands of models drawn from a posterior: of given policies, and of the best policy of each model.

Under one draw of theta an uncertain model is an ordinary MDP, and a policy in it is a Markov chain with the values
V = r + gamma P V. All draws share the structure of the chain; only the probabilities, weight[j] times theta[place[j]],
differ. The structure is computed once (``Rows``), for the states that can be reached from the start, and filled in for
each draw.

**Policy iteration** starts from the values under the posterior mean, which is closer to each draw than another draw is.
A policy is a choice of rows, one for each state; with one row for each state, policy iteration is policy evaluation.
Chains are solved by BiCGStab. Elimination replaces it if the mean model shows that it is faster (few states, or slow
convergence) and if BiCGStab fails. The iteration stops when |TV - V| is a small fraction of the values; TV is then
within gamma/(1 - gamma) times that of the result, whichever method solved the chain.

Dimensions: R rows (states that can be reached), E entries (outcomes that can happen), N draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from .._numerics.copying import put
from .._support.checks import BoolArray, FloatArray, IntArray
from ..models.uncertain import UncertainMDP
from .chain import MAX_PRODUCTS, Chain, chain_values, rows_of, sparse_elimination
from .rows import expected_rows, greedy

TRIES = 4  # runs of BiCGStab, each from the result of the one before
STEPS = 100  # maximum number of steps of policy iteration
LAPSES = 2  # failed evaluations after which policy iteration stops
INNER = 0.01  # residual of a policy evaluation, relative to the change of the backup
OCCUPIED = 1e-9  # error of an occupancy
DENSE = 2_000  # maximum number of states for dense elimination
FLOOR = 16.0 * EPS  # relative size of residuals that are due to rounding


class Rows(NamedTuple):
    """Rows of transition probabilities as multiples of theta. An entry that ends the process has weight 0."""

    indptr: IntArray  # [R + 1]
    indices: npt.NDArray[np.int32]  # [E] row of the next state
    place: IntArray  # [E] index into theta
    weight: FloatArray  # [E] factor of theta in the transition probability
    earning: FloatArray  # [E] factor of theta in the mean reward


class Task(NamedTuple):
    """The computation for each draw."""

    rows: Rows  # one for each state: the chain of a policy; or A for each state, to choose the best from
    start: FloatArray  # [R] weights of the states at the start
    discount: float
    aim: float  # residual at which to stop
    direct: bool  # whether to solve chains by elimination


class Layout(NamedTuple):
    """The outcomes that can happen in a model, by pairs; several pairs may share a source."""

    pair: IntArray  # [E] ascending
    place: IntArray  # [E] index among the possible outcomes of all sources, by sources
    target: IntArray  # [E] next state, -1 if the process ends
    reward: FloatArray  # [E]
    n_states: int
    n_actions: int
    survival: FloatArray | None = None  # [E] factor of the next value beyond the discount; None if all are 1

    @classmethod
    def of(cls, model: UncertainMDP, possible: BoolArray) -> Layout:
        """Return the layout of ``model``; ``possible`` [F] marks the slots with a positive posterior count."""
        entries = model.entries
        slot = entries.slots()
        kept = possible[slot]
        target = np.maximum(entries.next_state[kept], -1).astype(np.int64)
        place = (np.cumsum(possible) - 1)[slot[kept]]
        survival = None if model.survival is None else model.survival[kept]
        sizes = model.n_states, model.n_actions
        return cls(entries.pairs()[kept], place, target, entries.reward[kept], *sizes, survival)

    def reached(self, start: FloatArray, weights: FloatArray) -> IntArray:
        """Return the states that can be reached from ``start`` [S] by actions with positive ``weights`` [S, A]."""
        used = (weights.reshape(-1)[self.pair] > 0.0) & (self.target >= 0)
        begin = np.flatnonzero(start)
        origin = np.concatenate((self.pair[used] // self.n_actions, np.full(begin.size, self.n_states)))
        target = np.concatenate((self.target[used], begin))
        size = self.n_states + 1  # an extra state leads to those of the start
        steps = scipy.sparse.csr_array((np.ones(origin.size, np.int8), (origin, target)), shape=(size, size))
        order = scipy.sparse.csgraph.breadth_first_order(steps, self.n_states, return_predecessors=False)
        return np.asarray(np.sort(order[1:]), dtype=np.int64)

    def chain(self, states: IntArray, weights: FloatArray) -> Rows:
        """Return a row for each of ``states``: the chain of a policy with action probabilities ``weights`` [S, A]."""
        return self._rows(states, self.pair // self.n_actions, weights.reshape(-1)[self.pair])

    def pairs(self, states: IntArray, used: FloatArray | None = None) -> Rows:
        """Return A rows for each of ``states``, one for each pair; the row of an inadmissible pair is empty.

        So is that of a pair that is not ``used`` [S, A], if that is given.
        """
        of_states = (states[:, np.newaxis] * self.n_actions + np.arange(self.n_actions)).reshape(-1)
        weight = np.ones(self.pair.size) if used is None else (used.reshape(-1)[self.pair] > 0.0).astype(np.float64)
        return self._rows(of_states, self.pair, weight, states)

    def _rows(self, rows: IntArray, row: IntArray, weight: FloatArray, states: IntArray | None = None) -> Rows:
        """Return the entries of ``rows``, entry j being in ``row[j]``; next states are indices into ``states``."""
        number = np.full(int(max(row.max(initial=-1), rows.max(initial=-1))) + 1, -1, dtype=np.int64)
        number[rows] = np.arange(rows.size)
        used = np.flatnonzero((number[row] >= 0) & (weight > 0.0))
        column = np.zeros(self.n_states, dtype=np.int32)
        kept = rows if states is None else states
        column[kept] = np.arange(kept.size)
        goes = self.target[used] >= 0
        sizes = np.bincount(number[row[used]], minlength=rows.size)
        return Rows(
            np.concatenate(([0], np.cumsum(sizes))),
            np.where(goes, column[self.target[used]], 0).astype(np.int32),
            self.place[used],
            np.where(goes, weight[used] * (1.0 if self.survival is None else self.survival[used]), 0.0),
            weight[used] * self.reward[used],
        )


def occupancy(rows: Rows, start: FloatArray, theta: FloatArray, discount: float) -> FloatArray:
    """Return the discounted occupancy [R] of the states of the chain ``rows`` from ``start`` [R], with sum one.

    It is d / sum(d) with d = start + gamma P' d.
    """
    spent = visits(rows, start, theta, discount)
    return np.asarray(spent / spent.sum())


def visits(rows: Rows, start: FloatArray, theta: FloatArray, discount: float) -> FloatArray:
    """Return the discounted numbers of visits d = start + gamma P' d [R], solved like the values of a chain."""
    data = rows.weight * theta[rows.place]
    size = start.size
    back = scipy.sparse.csr_array((data, rows.indices, rows.indptr), shape=(size, size)).T.tocsr()
    chain = Chain(back.indptr.astype(np.int64), back.indices.astype(np.int32), back.data, start)
    spent = start.copy()
    for _ in range(TRIES):
        chain_values(chain, discount, spent, OCCUPIED / size, False, MAX_PRODUCTS)
    return np.maximum(spent, 0.0)


@kernel
def _fill(rows, theta, data, gain):
    """Write the probabilities and the mean rewards of ``rows`` under one draw."""
    indptr, _, place, weight, earning = rows
    for r in range(gain.size):
        total = 0.0
        # unsigned indices: no test for counting from the end, which halves the time
        for j in range(np.uint64(indptr[r]), np.uint64(indptr[r + 1])):
            probability = theta[np.uint64(place[j])]
            data[j] = weight[j] * probability
            total += earning[j] * probability
        gain[r] = total


@kernel
def _residual(chain, discount, x, every, q):
    """Return the largest |reward + gamma P x - x|, and the size of the numbers that set its rounding error."""
    reward, later = expected_rows(chain, discount, x, every, q)
    worst = 0.0
    for s in range(x.size):
        worst = max(worst, abs(q[s] - x[s]))
    return (worst if np.isfinite(worst) else np.inf), reward + later


@kernel
def _eliminate(chain, discount, x):
    """Write the values of a chain into ``x``."""
    matrix = np.zeros((x.size, x.size))
    for s in range(x.size):
        matrix[s, s] = 1.0
        for j in range(chain.indptr[s], chain.indptr[s + 1]):
            matrix[s, chain.indices[j]] -= discount * chain.data[j]
    x[:] = np.linalg.solve(matrix, chain.reward)


@kernel
def _settle(chain, discount, x, aim, direct, every, q):
    """Improve ``x`` to the values of a chain; return the largest residual and the products with P."""
    products = 0
    worst, size = np.inf, 0.0
    if not direct:
        worst, size = _residual(chain, discount, x, every, q)
        for _ in range(TRIES):
            target = max(aim, FLOOR * size)
            if worst <= target or worst == np.inf:
                break
            products += chain_values(chain, discount, x, target, False, MAX_PRODUCTS)
            worst, size = _residual(chain, discount, x, every, q)
    if direct or (worst > 2.0 * max(aim, FLOOR * size) and x.size <= DENSE):
        _eliminate(chain, discount, x)
        worst, size = _residual(chain, discount, x, every, q)
        products += MAX_PRODUCTS
    return worst, products


@kernel
def drawn_returns(
    task: Task, theta: FloatArray, extra: FloatArray, guess: FloatArray, returns: FloatArray
) -> tuple[int, float, float]:
    """Write the return of the best choice of rows, one for each state, under each draw of ``theta`` [N, E].

    ``extra`` [N, rows] is added to the rewards unless it is empty. ``guess`` [R] are the values to start from and
    become those of the last draw. Returns the average number of products with P in an evaluation, the largest
    |TV - V|, and the largest size of values plus rewards.
    """
    rows, start, discount, aim, direct = task
    n_states, n_rows = guess.size, rows.indptr.size - 1
    n_actions = n_rows // n_states
    gain, data = np.empty(n_rows), np.empty(rows.indices.size)
    q = np.full((n_states, n_actions), -np.inf)
    value, swept, scratch = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    policy, every = np.empty(n_states, np.int64), np.arange(n_states)
    pairs = np.flatnonzero(rows.indptr[1:] > rows.indptr[:-1])
    products, evaluations, residual, largest = 0, 0, 0.0, 0.0
    for i in range(returns.size):
        _fill(rows, theta[i], data, gain)
        if extra.size:
            gain += extra[i]
        model = Chain(rows.indptr, rows.indices, data, gain)
        put(value, guess)
        change, size, failures = np.inf, 0.0, 0
        for _ in range(STEPS):
            reward, later = expected_rows(model, discount, value, pairs, q.reshape(-1))
            size = reward + later
            greedy(q, swept, policy)
            change = 0.0
            for s in range(n_states):
                change = max(change, abs(swept[s] - value[s]))
            target = max(aim, FLOOR * size)
            if change <= target or failures == LAPSES:
                break
            put(value, swept)
            chain = model if n_actions == 1 else rows_of(model, every * n_actions + policy)
            inner = 0.5 * target if n_actions == 1 else max(INNER * change, 0.5 * target)
            worst, used = _settle(chain, discount, value, inner, direct, every, scratch)
            products += used
            evaluations += 1
            if not worst < change:
                put(value, swept)
                failures += 1
        residual, largest = max(residual, change), max(largest, size)
        returns[i] = (start * swept).sum()
    if returns.size:
        put(guess, swept)
    return products // max(evaluations, 1), residual, largest


@kernel
def plan_returns(
    rows: Rows,
    start: FloatArray,
    discount: float,
    horizon: int,
    plan: FloatArray,
    final: FloatArray,
    theta: FloatArray,
    extra: FloatArray,
    returns: FloatArray,
) -> float:
    """Write the return of ``horizon`` steps, by backward induction, under each draw of ``theta`` [N, E].

    ``rows`` are A for each state; ``plan`` [T, R, A] has probabilities of actions, [1, R, A] if they are always the
    same, and is empty for the best action at each time; ``final`` [R] is what states are worth at the end. Returns the
    largest size of values plus rewards.
    """
    n_states, n_rows = final.size, rows.indptr.size - 1
    n_actions = n_rows // n_states
    gain, data = np.empty(n_rows), np.empty(rows.indices.size)
    q = np.full((n_states, n_actions), -np.inf)
    value, policy = np.empty(n_states), np.empty(n_states, np.int64)
    pairs = np.flatnonzero(rows.indptr[1:] > rows.indptr[:-1])
    largest = 0.0
    for i in range(returns.size):
        _fill(rows, theta[i], data, gain)
        if extra.size:
            gain += extra[i]
        model = Chain(rows.indptr, rows.indices, data, gain)
        put(value, final)
        for time in range(horizon - 1, -1, -1):
            reward, later = expected_rows(model, discount, value, pairs, q.reshape(-1))
            largest = max(largest, reward + later)
            if not plan.size:
                greedy(q, value, policy)
                continue
            at = min(time, plan.shape[0] - 1)
            for s in range(n_states):
                total = 0.0
                for a in range(n_actions):
                    if plan[at, s, a] > 0.0:
                        total += plan[at, s, a] * q[s, a]
                value[s] = total
        returns[i] = (start * value).sum()
    return largest


def eliminated_returns(
    task: Task, theta: FloatArray, extra: FloatArray, guess: FloatArray, returns: FloatArray
) -> tuple[int, float, float]:
    """Do the same as ``drawn_returns`` by sparse elimination, for large chains on which BiCGStab fails.

    Such chains are long and narrow, so elimination adds few entries. The number of products is -1.
    """
    rows, start, discount, aim, _ = task
    n_states, n_rows = guess.size, rows.indptr.size - 1
    row_of = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
    barred = np.diff(rows.indptr) == 0
    first = np.arange(0, n_rows, n_rows // n_states)
    residual, largest = 0.0, 0.0
    for i, draw in enumerate(theta):
        probability = draw[rows.place]
        matrix = scipy.sparse.csr_array(
            (rows.weight * probability, rows.indices, rows.indptr), shape=(n_rows, n_states)
        )
        gain = np.bincount(row_of, weights=rows.earning * probability, minlength=n_rows)
        if extra.size:
            gain += extra[i]
        value, swept = guess.copy(), guess
        change, size = np.inf, 0.0
        for _ in range(STEPS):
            q = np.where(barred, -np.inf, gain + discount * (matrix @ value)).reshape(n_states, -1)
            swept = q.max(axis=1)
            change = float(np.abs(swept - value).max())
            size = float(np.abs(gain).max() + discount * np.abs(value).max())
            if change <= max(aim, FLOOR * size):
                break
            chosen = first + q.argmax(axis=1)
            value = sparse_elimination(matrix[chosen], gain[chosen], discount)
        residual, largest = max(residual, change), max(largest, size)
        returns[i] = start @ swept
        guess[:] = swept
    return -1, residual, largest
