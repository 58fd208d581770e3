"""Many drawn models at once: the best policy of each, least visits, deviations from a policy, and the dual of a tail.

A model has R states and A actions; N draws of its probabilities share one structure (``Chains``). R is small, so that
chains are solved by elimination. The matrix I - gamma P is an M-matrix, for which elimination needs no pivots.

``docs/mathematics/posterior-risk.md`` has the proofs of what is computed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compile import kernel, lean
from ..types import BoolArray, FloatArray, IntArray

MAX_STEPS = 200  # of policy iteration
SLACK = 1e-12  # relative: an action must be better by more than that to be taken


class Chains(NamedTuple):
    """The models of all draws: rows of pairs in compressed form, with the same structure in every draw."""

    indptr: IntArray  # [R*A + 1]; the row of an inadmissible pair is empty
    indices: npt.NDArray[np.int32]  # [E] next states
    data: FloatArray  # [N, E] probabilities, 0 where the process ends
    gain: FloatArray  # [N, R*A] mean rewards
    start: FloatArray  # [R]
    discount: float


@lean
def _factor(matrix):
    """Replace a matrix by its factors L and U, without pivots."""
    size = matrix.shape[0]
    for k in range(size):
        pivot = 1.0 / matrix[k, k]
        for i in range(k + 1, size):
            factor = matrix[i, k] * pivot
            matrix[i, k] = factor
            if factor != 0.0:
                for j in range(k + 1, size):
                    matrix[i, j] -= factor * matrix[k, j]


@lean
def _solve(matrix, x):
    """Solve L U y = x in place."""
    size = x.size
    for i in range(1, size):
        total = x[i]
        for j in range(i):
            total -= matrix[i, j] * x[j]
        x[i] = total
    for i in range(size - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, size):
            total -= matrix[i, j] * x[j]
        x[i] = total / matrix[i, i]


@lean
def _solve_transposed(matrix, x):
    """Solve (L U)' y = x in place."""
    size = x.size
    for i in range(size):
        x[i] /= matrix[i, i]
        for j in range(i + 1, size):
            x[j] -= matrix[i, j] * x[i]
    for i in range(size - 1, 0, -1):
        for j in range(i):
            x[j] -= matrix[i, j] * x[i]


@lean
def _fill(chains, i, policy, matrix):
    """Write I - gamma P of a policy in one model, and its factors."""
    n_states = policy.size
    n_actions = (chains.indptr.size - 1) // n_states
    for s in range(n_states):
        for t in range(n_states):
            matrix[s, t] = 0.0
        matrix[s, s] = 1.0
        row = s * n_actions + policy[s]
        for j in range(chains.indptr[row], chains.indptr[row + 1]):
            matrix[s, chains.indices[j]] -= chains.discount * chains.data[i, j]
    _factor(matrix)


@lean
def _ahead(chains, i, row, value):
    """Return gamma times the mean value after one pair."""
    total = 0.0
    for j in range(chains.indptr[row], chains.indptr[row + 1]):
        total += chains.data[i, j] * value[chains.indices[j]]
    return chains.discount * total


@kernel
def best_policies(
    chains: Chains,
    allowed: BoolArray,
    policy: npt.NDArray[np.int32],
    value: FloatArray,
    loss: FloatArray,
    spent: FloatArray,
    which: IntArray,
) -> float:
    """Compute the best policy of the models ``which`` among the ``allowed`` [R, A] actions.

    ``policy`` [N, R] is where to start and becomes the best one, ``value`` [N, R] its values, ``loss`` [N, R, A] what
    other actions lose one step ahead (infinity where not allowed), ``spent`` [N, R] its discounted visits from the
    start. Returns the largest residual.
    """
    n_states, n_actions = allowed.shape
    matrix, x, q = np.empty((n_states, n_states)), np.empty(n_states), np.empty(n_actions)
    worst = 0.0
    for i in which:
        for s in range(n_states):
            if not allowed[s, policy[i, s]]:
                for a in range(n_actions):
                    if allowed[s, a]:
                        policy[i, s] = a
                        break
        for step in range(MAX_STEPS):
            _fill(chains, i, policy[i], matrix)
            for s in range(n_states):
                x[s] = chains.gain[i, s * n_actions + policy[i, s]]
            _solve(matrix, x)
            largest = 0.0
            for s in range(n_states):
                largest = max(largest, abs(x[s]))
            changed, residual = False, 0.0
            for s in range(n_states):
                for a in range(n_actions):
                    if allowed[s, a]:
                        row = s * n_actions + a
                        q[a] = chains.gain[i, row] + _ahead(chains, i, row, x)
                        loss[i, s, a] = x[s] - q[a]
                    else:
                        q[a] = -np.inf
                        loss[i, s, a] = np.inf
                best = policy[i, s]
                for a in range(n_actions):
                    if q[a] > q[best] + SLACK * largest:
                        best = a
                residual = max(residual, q.max() - x[s])
                if best != policy[i, s]:
                    policy[i, s] = best
                    changed = True
            if not changed or step == MAX_STEPS - 1:
                worst = max(worst, residual)
                break
        for s in range(n_states):
            value[i, s] = x[s]
            spent[i, s] = chains.start[s]
            for a in range(n_actions):
                loss[i, s, a] = max(loss[i, s, a], 0.0)
        _solve_transposed(matrix, spent[i])
    return worst


@kernel
def least_visits(
    chains: Chains,
    allowed: BoolArray,
    targets: IntArray,
    policy: npt.NDArray[np.int32],
    least: FloatArray,
    which: IntArray,
) -> None:
    """Write the least discounted visits of each of the states ``targets`` by any allowed policy into ``least`` [N, R].

    ``policy`` [N, R] are policies to start from.
    """
    n_states, n_actions = allowed.shape
    matrix, x = np.empty((n_states, n_states)), np.empty(n_states)
    now = np.empty(n_states, np.int32)
    for i in which:
        now[:] = policy[i]
        for s in targets:
            for _ in range(MAX_STEPS):
                _fill(chains, i, now, matrix)
                x[:] = 0.0
                x[s] = 1.0
                _solve(matrix, x)
                changed = False
                for t in range(n_states):
                    if x[t] <= 0.0:
                        continue
                    best = now[t]
                    lowest = _ahead(chains, i, t * n_actions + best, x) * (1.0 - SLACK)
                    for a in range(n_actions):
                        if allowed[t, a] and a != now[t]:
                            ahead = _ahead(chains, i, t * n_actions + a, x)
                            if ahead < lowest:
                                lowest, best = ahead, a
                    if best != now[t]:
                        now[t] = best
                        changed = True
                if not changed:
                    break
            total = 0.0
            for t in range(n_states):
                total += chains.start[t] * x[t]
            # policy iteration ends within rounding of the least, from above
            least[i, s] = max(least[i, s], total * (1.0 - 1e-9))


@kernel
def deviations(
    chains: Chains,
    policy: npt.NDArray[np.int32],
    allowed: BoolArray,
    returns: FloatArray,
    changed: FloatArray,
    which: IntArray,
) -> None:
    """Write the returns [N] of a policy [R] in all models, and those of all policies that differ in one state.

    ``changed`` [R*A, N] is the return with another action in one state, for ever: exact, from one inverse.
    """
    n_states, n_actions = allowed.shape
    matrix, inverse = np.empty((n_states, n_states)), np.empty((n_states, n_states))
    value, visits = np.empty(n_states), np.empty(n_states)
    for i in which:
        _fill(chains, i, policy, matrix)
        for s in range(n_states):
            inverse[s, :] = 0.0
            inverse[s, s] = 1.0
            _solve(matrix, inverse[s])  # row s: visits of s, from each state
            value[s] = chains.gain[i, s * n_actions + policy[s]]
        _solve(matrix, value)
        total = 0.0
        for s in range(n_states):
            total += chains.start[s] * value[s]
        returns[i] = total
        for s in range(n_states):
            first = 0.0  # discounted chance to come to s at all, from the start
            for t in range(n_states):
                visits[t] = inverse[s, t] / inverse[s, s]
                first += chains.start[t] * visits[t]
            for a in range(n_actions):
                row = s * n_actions + a
                if not allowed[s, a]:
                    changed[row, i] = -np.inf
                    continue
                better = chains.gain[i, row] + _ahead(chains, i, row, value) - value[s]
                changed[row, i] = total + first / (1.0 - _ahead(chains, i, row, visits)) * better


@kernel
def mixed_returns(
    chains: Chains, weights: FloatArray, value: FloatArray, q: FloatArray, spent: FloatArray, which: IntArray
) -> None:
    """Write values [N, R], values of actions [N, R, A] and visits [N, R] of a policy with probabilities [R, A]."""
    n_states, n_actions = weights.shape
    matrix, x = np.empty((n_states, n_states)), np.empty(n_states)
    for i in which:
        for s in range(n_states):
            matrix[s, :] = 0.0
            matrix[s, s] = 1.0
            x[s] = 0.0
            for a in range(n_actions):
                row = s * n_actions + a
                if weights[s, a] > 0.0:
                    x[s] += weights[s, a] * chains.gain[i, row]
                    for j in range(chains.indptr[row], chains.indptr[row + 1]):
                        matrix[s, chains.indices[j]] -= chains.discount * weights[s, a] * chains.data[i, j]
        _factor(matrix)
        _solve(matrix, x)
        for s in range(n_states):
            value[i, s] = x[s]
            spent[i, s] = chains.start[s]
            for a in range(n_actions):
                row = s * n_actions + a
                q[i, s, a] = -np.inf
                if chains.indptr[row + 1] > chains.indptr[row]:
                    q[i, s, a] = chains.gain[i, row] + _ahead(chains, i, row, x)
        _solve_transposed(matrix, spent[i])


@kernel
def project(point: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    """Write the nearest point to ``point`` [N] among the mixtures of permutations of ``weights`` (descending) [N].

    By isotonic regression: what is left after subtracting a descending fit to the sorted point less the weights.
    """
    order = np.argsort(-point)
    size = point.size
    means, counts = np.empty(size), np.empty(size, np.int64)
    blocks = 0
    for k in range(size):
        means[blocks], counts[blocks] = point[order[k]] - weights[k], 1
        blocks += 1
        while blocks > 1 and means[blocks - 2] <= means[blocks - 1]:
            both = counts[blocks - 2] + counts[blocks - 1]
            means[blocks - 2] += (means[blocks - 1] - means[blocks - 2]) * counts[blocks - 1] / both
            counts[blocks - 2] = both
            blocks -= 1
    k = 0
    for block in range(blocks):
        for _ in range(counts[block]):
            out[order[k]] = max(point[order[k]] - means[block], 0.0)
            k += 1


@kernel
def tail_dual(
    value: FloatArray,
    loss: FloatArray,
    first: IntArray,
    weights: FloatArray,
    q: FloatArray,
    target: float,
    steps: int,
    may_drop: bool,
    dropped: BoolArray,
    chosen: IntArray,
) -> float:
    """Minimise the dual bound over weights of the models; return the lowest bound found.

    A choice of one of the pairs ``first[l]`` to ``first[l + 1]`` for each of L states is worth at most
    value[i] - sum of loss[pair, i] in model i. ``weights`` [N] descending are those of the sorted returns. ``q`` [N] is
    where to start and becomes the best point. ``dropped`` [J] marks pairs with which nothing above ``target`` is
    possible, if any ``may_drop``; ``chosen`` [L] the pairs that are best at the end. The steps are those of Polyak.
    """
    size, n_states = value.size, first.size - 1
    point, step_to, slope = q.copy(), np.empty(size), np.empty(size)
    cost, best, low = np.empty(loss.shape[0]), np.inf, -np.inf
    picks = np.empty(n_states, np.int64)
    stale = 0
    for _ in range(steps):
        total = 0.0
        for i in range(size):
            total += point[i] * value[i]
            slope[i] = value[i]
        for state in range(n_states):
            pick, least = -1, np.inf
            for j in range(first[state], first[state + 1]):
                cost[j] = np.inf
                if dropped[j]:
                    continue
                cost[j] = np.dot(point, loss[j])
                if cost[j] < least:
                    pick, least = j, cost[j]
            if pick < 0:
                return target  # no action is left: nothing above the target
            picks[state] = pick
            total -= least
            for i in range(size):
                slope[i] -= loss[pick, i]
        for state in range(n_states if may_drop else 0):
            for j in range(first[state], first[state + 1]):
                if not dropped[j] and total - (cost[j] - cost[picks[state]]) <= target:
                    dropped[j] = True
        if total < best - 1e-4 * abs(best - target):
            stale = 0
        stale += 1
        if total < best:
            best = total
            q[:] = point
            chosen[:] = picks
        if best <= target or stale > 12:
            break
        ordered = np.sort(slope)
        reached = 0.0
        for i in range(size):
            reached += weights[i] * ordered[i]
        low = max(low, reached)
        aim = max(target, low)
        if best - low <= 1e-9 * (abs(best) + abs(low)) or best - low <= 0.01 * (best - target):
            break
        mean = slope.mean()
        length = 0.0
        for i in range(size):
            length += (slope[i] - mean) ** 2
        if not length > 0.0:
            break
        scale = (total - aim) / length
        for i in range(size):
            step_to[i] = point[i] - scale * slope[i]
        project(step_to, weights, point)
    return best
