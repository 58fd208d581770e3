"""Planning inside compiled loops: draw a posterior and solve its sampled model, thousands of times a second.

The Bellman code is that of :mod:`prudent.planning.operators`, called pair by pair. What is added here is a Newton
solver for small models that lives inside compiled loops. Agents and the simulator call the same kernels, so both turn
the same generators into the same decisions.

**Draws that cannot matter.** If the risk is the lowest draw (CVaR by the draw rule with whole 1/(1 - alpha), the
worst case), only the corners of the convex hull of a source's draws can ever be the lowest, whatever the
values: two of n for two outcomes, about ten of a hundred for three. If it is the mean, the mean draw stands for all.
Newton works on these; the paper's sweeps, kept for comparison, on all draws.

**Newton.** V and its backup TV bound the fixed point (MacQueen, see :mod:`prudent.planning.solver`). Each step solves
the chain of the greedy actions and tail probabilities at V; it is taken if it shrinks the width of the bounds at
least by gamma, and otherwise replaced by a sweep. It stops when the bounds are ``tolerance`` apart.

Letters: P = S*A pairs, numbered s*A + a; S states, A actions, K outcomes, B sources, N draws, L steps, T episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compile import kernel
from .._numerics.dirichlet_draws import _draw_row
from .._numerics.krylov import chain_values
from .._numerics.order_statistics import _spectral, weighted_draws
from .._support.checks import FloatArray, IntArray
from ..models.uncertain import UncertainMDP
from .operators import EPS, _draws_of_pair, greedy

__all__ = ["Known", "Work", "known_part", "refresh", "work_space"]


DENSE = 300  # chains of up to this many states are solved by elimination


TOLERANCE = 1e-10  # of the values, in units of the largest reward


CAP = 1_000  # backups in one solve


KRYLOV_CAP = 2_000


class Known(NamedTuple):
    """The known part of a model, as the kernels want it."""

    source: IntArray  # [P], -1 where inadmissible
    next_state: npt.NDArray[np.int32]  # [P, K]
    reward: FloatArray  # [P, K]
    twin: IntArray  # [P] the first pair with the same source, next states and rewards
    outcomes: IntArray  # [B, 3] the first three outcomes of a source
    sizes: IntArray  # [B] how many outcomes it has
    source_of: IntArray  # [S, A], the same as source
    next_of: npt.NDArray[np.int32]  # [S, A, K], the same as next_state
    discount: float
    tolerance: float


class Work(NamedTuple):
    """Arrays to work in; those of two threads must differ."""

    theta: FloatArray  # [B, K, N]
    kept: IntArray  # [B] draws of each source still in theta
    z: FloatArray  # [N]
    order: IntArray  # [N]
    rows: FloatArray  # [S, K] outcome probabilities of a chain
    matrix: FloatArray  # [S, S], or [0, 0] for models too large for elimination
    q: FloatArray  # [S, A]
    swept: FloatArray  # [S]
    trial: FloatArray  # [S]
    safe: FloatArray  # [S]
    none: FloatArray  # [0, 0] no reward draws


def known_part(model: UncertainMDP) -> Known:
    """Return the arrays of ``model``."""
    pairs = model.source.size
    next_state = model.next_state.reshape(pairs, -1)
    reward = model.reward.reshape(pairs, -1)
    seen: dict[bytes, int] = {}
    twin = np.array(
        [
            seen.setdefault(model.source.flat[p].tobytes() + next_state[p].tobytes() + reward[p].tobytes(), p)
            for p in range(pairs)
        ]
    )
    outcomes = np.zeros((model.n_sources, 3), dtype=np.int64)
    for b, mask in enumerate(model.outcome_mask):
        first = np.flatnonzero(mask)[:3]
        outcomes[b, : first.size] = first
    biggest = float(abs(reward).max())
    return Known(
        source=model.source.reshape(-1),
        next_state=next_state,
        reward=reward,
        twin=twin,
        outcomes=outcomes,
        sizes=np.count_nonzero(model.outcome_mask, axis=1),
        source_of=model.source,
        next_of=model.next_state,
        discount=model.discount,
        # below the second number rounding alone keeps the bounds apart
        tolerance=biggest * max(TOLERANCE, 16.0 * EPS * model.n_outcomes / (1.0 - model.discount) ** 2),
    )


def work_space(model: UncertainMDP, draws: int) -> Work:
    """Return arrays to work in with up to ``draws`` posterior draws."""
    n_states, dense = model.n_states, model.n_states <= DENSE
    return Work(
        theta=np.zeros((model.n_sources, model.n_outcomes, draws)),
        kept=np.zeros(model.n_sources, dtype=np.int64),
        z=np.empty(draws),
        order=np.empty(draws, dtype=np.int64),
        rows=np.zeros((n_states, model.n_outcomes)),
        matrix=np.empty((n_states, n_states) if dense else (0, 0)),
        q=np.full((n_states, model.n_actions), -np.inf),
        swept=np.empty(n_states),
        trial=np.empty(n_states),
        safe=np.empty(n_states),
        none=np.empty((0, 0)),
    )


@kernel
def _keep(theta: FloatArray, n: int, order: IntArray) -> int:
    """Move the draws with ``order[i]`` >= 0 to the front of ``theta`` [K, N]; return how many there are."""
    kept = 0
    for i in range(n):
        if order[i] >= 0:
            if kept < i:
                for k in range(theta.shape[0]):
                    theta[k, kept] = theta[k, i]
            kept += 1
    return kept


@kernel
def _keep_corners(theta: FloatArray, n: int, size: int, outcomes: IntArray, order: IntArray) -> int:
    """Keep the draws of one source that can be the lowest for some values of its outcomes; return how many.

    For two outcomes these are the extremes, for three the corners of a polygon (found by wrapping it). With more
    outcomes, or if rounding keeps the wrap from closing, all draws stay.
    """
    if size > 3 or n <= 2:
        return n
    if size == 1:
        return 1
    x = theta[outcomes[0]]
    low, high = 0, 0
    for i in range(1, n):
        if x[i] < x[low]:
            low = i
        if x[i] > x[high]:
            high = i
    order[:n] = -1
    if size == 2:
        order[low] = low
        order[high] = high
        return _keep(theta, n, order)
    y = theta[outcomes[1]]
    at = low
    for _ in range(n):
        order[at] = at
        ahead = 0 if at > 0 else 1
        dx, dy = x[ahead] - x[at], y[ahead] - y[at]
        for i in range(n):
            ex, ey = x[i] - x[at], y[i] - y[at]
            turn = dx * ey - dy * ex
            # i lies to the left of the way to the best so far, or further along it
            if turn > 0.0 or (turn == 0.0 and ex * ex + ey * ey > dx * dx + dy * dy):
                ahead, dx, dy = i, ex, ey
        at = ahead
        if at == low:
            return _keep(theta, n, order)
        if order[at] >= 0:
            break
    return n


@kernel
def _keep_mean(theta: FloatArray, n: int) -> int:
    for k in range(theta.shape[0]):
        total = 0.0
        for i in range(n):
            total += theta[k, i]
        theta[k, 0] = total / n
    return 1


# -- solving one sampled model -----------------------------------------------------------------------------


@kernel
def _back_up(known: Known, work: Work, weights: FloatArray, value: FloatArray, policy: IntArray) -> tuple[float, float]:
    """Write Q, TV and the greedy policy at V into work.q, work.swept and ``policy``; return the extremes of TV - V."""
    q = work.q.reshape(-1)
    for p in range(q.size):
        b = known.source[p]
        if b < 0:
            continue
        if known.twin[p] < p:
            q[p] = q[known.twin[p]]
            continue
        z = work.z[: work.kept[b]]
        _draws_of_pair(p, known.source, known.next_state, known.reward, known.discount, work.theta, work.none, value, z)
        q[p] = z[0] if z.size == 1 else _spectral(z, work.order[: z.size], weights)
    greedy(work.q, work.swept, policy)
    low, high = np.inf, -np.inf
    for s in range(value.size):
        low = min(low, work.swept[s] - value[s])
        high = max(high, work.swept[s] - value[s])
    return low, high


@kernel
def _tail_rows(known: Known, work: Work, weights: FloatArray, value: FloatArray, policy: IntArray) -> None:
    """Write the tail probabilities of the outcomes under ``policy`` at ``value`` into work.rows."""
    n_actions = work.q.shape[1]
    for s in range(value.size):
        p = s * n_actions + policy[s]
        b = known.source[p]
        z = work.z[: work.kept[b]]
        if z.size == 1:
            for k in range(work.rows.shape[1]):
                work.rows[s, k] = work.theta[b, k, 0]
            continue
        _draws_of_pair(p, known.source, known.next_state, known.reward, known.discount, work.theta, work.none, value, z)
        _spectral(z, work.order[: z.size], weights)
        for k in range(work.rows.shape[1]):
            work.rows[s, k] = weighted_draws(work.theta[b, k], work.order, weights)


@kernel
def _solve_chain(known: Known, work: Work, policy: IntArray, x: FloatArray) -> None:
    """Write into ``x`` the values of the chain that follows ``policy`` with outcome probabilities work.rows."""
    n, n_actions = policy.size, work.q.shape[1]
    n_outcomes = work.rows.shape[1]
    if work.matrix.size == 0:
        _solve_large_chain(known, work, policy, x)
        return
    a = work.matrix
    for s in range(n):
        p = s * n_actions + policy[s]
        a[s, :] = 0.0
        a[s, s] = 1.0
        x[s] = 0.0
        for k in range(n_outcomes):
            target = known.next_state[p, k]
            if target >= 0:
                a[s, target] -= known.discount * work.rows[s, k]
                x[s] += work.rows[s, k] * known.reward[p, k]
    # The matrix is diagonally dominant by rows, so elimination needs no pivots.
    for i in range(n):
        pivot = 1.0 / a[i, i]
        for j in range(i + 1, n):
            factor = a[j, i] * pivot
            if factor != 0.0:
                for c in range(i + 1, n):
                    a[j, c] -= factor * a[i, c]
                x[j] -= factor * x[i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for c in range(i + 1, n):
            total -= a[i, c] * x[c]
        x[i] = total / a[i, i]


@kernel
def _solve_large_chain(known: Known, work: Work, policy: IntArray, x: FloatArray) -> None:
    n, n_actions = policy.size, work.q.shape[1]
    n_outcomes = work.rows.shape[1]
    indices = np.zeros(n * n_outcomes, np.int32)
    gain = np.zeros(n)
    for s in range(n):
        p = s * n_actions + policy[s]
        for k in range(n_outcomes):
            indices[s * n_outcomes + k] = max(known.next_state[p, k], 0)  # absent outcomes have weight zero
            gain[s] += work.rows[s, k] * known.reward[p, k]
    indptr = np.arange(0, n * n_outcomes + 1, n_outcomes)
    target = 0.1 * known.tolerance * (1.0 - known.discount)
    x[:] = work.swept
    chain_values(indptr, indices, work.rows.reshape(-1), gain, known.discount, x, target, False, KRYLOV_CAP)


@kernel
def _solve(known: Known, work: Work, weights: FloatArray, value: FloatArray, policy: IntArray) -> bool:
    """Improve ``value`` [S] to the fixed point for the draws in ``work``, and ``policy`` [S] to its greedy actions."""
    reach = known.discount / (1.0 - known.discount)
    low, high = _back_up(known, work, weights, value, policy)
    for _ in range(CAP):
        middle = 0.5 * reach * (low + high)
        if 0.5 * reach * (high - low) <= known.tolerance:
            value[:] = work.swept + middle
            return True
        width = high - low
        for s in range(value.size):
            work.safe[s] = work.swept[s] + middle
        _tail_rows(known, work, weights, value, policy)
        _solve_chain(known, work, policy, work.trial)
        value[:] = work.trial
        low, high = _back_up(known, work, weights, value, policy)
        if not high - low <= known.discount * width:
            value[:] = work.safe
            low, high = _back_up(known, work, weights, value, policy)
    value[:] = work.swept
    return False


@kernel
def refresh(
    rng: np.random.Generator,
    known: Known,
    work: Work,
    counts: FloatArray,  # [B, K]
    n: int,  # draws; 0 puts the posterior mean in their place
    weights: FloatArray,  # of the lowest draws
    sweeps: int,  # 0: Newton
    value: FloatArray,  # [S] first guess, then the values
    policy: IntArray,  # [S]
) -> bool:
    """Draw models and solve them for a policy (Algorithm 1, one episode); return whether the solver converged."""
    for b in range(counts.shape[0]):
        work.kept[b] = max(n, 1)
        if n == 0:
            total = counts[b].sum()
            for k in range(counts.shape[1]):
                work.theta[b, k, 0] = counts[b, k] / total
            continue
        _draw_row(rng, counts[b], work.theta[b], n, work.z)
        if sweeps == 0 and n > 1:
            if weights.size == 1:
                work.kept[b] = _keep_corners(work.theta[b], n, known.sizes[b], known.outcomes[b], work.order)
            elif weights.size == n and weights.min() == weights.max():
                work.kept[b] = _keep_mean(work.theta[b], n)
    if sweeps == 0:
        return _solve(known, work, weights, value, policy)
    value[:] = 0.0
    for _ in range(sweeps):
        _back_up(known, work, weights, value, policy)
        value[:] = work.swept
    return True
