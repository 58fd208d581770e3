"""Planning inside compiled loops: draw models from a posterior and solve them, thousands of times a second.

The row functions are those of ``prudent.planning.rows``, called pair by pair. This module adds a Newton solver without
a certificate and without Python between the steps. Agents and the simulator call the same kernels, so the same
generator gives both the same decisions.

**Draws that cannot matter.** If the risk is the lowest draw, or the highest (the worst case, or CVaR by the draw rule
with an integer 1/(1 - |alpha|)), only corners of the convex hull of the draws of a source can attain it, whatever the
values are: two of n for two outcomes, about ten of a hundred for three. If the risk is the mean, the mean draw replaces
all draws. Newton's method works on these draws only; the sweeps of the paper, kept for comparison, work on all draws.

**Newton.** V and its backup TV bound the fixed point (MacQueen's bounds, see ``prudent.planning.certificate``). Each
step solves the chain of the greedy actions and tail probabilities at V. It is accepted if the distance between the
bounds shrinks at least by the factor gamma; otherwise a sweep replaces it. The iteration stops when the bounds are
``tolerance`` apart.

Dimensions: S states, A actions, P = S*A pairs numbered s*A + a, K outcomes, B sources, F slots, N draws, E episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import kernel, lean
from .._numerics.copying import put
from .._numerics.dirichlet_draws import draw_row
from .._support.checks import BoolArray, FloatArray, IntArray
from ..models.entries import Entries
from ..models.uncertain import UncertainMDP
from .chain import DENSE, MAX_PRODUCTS, Chain, chain_values
from .rows import Draws, back_up_pair, greedy, lowest_of_pair, tail_of_pair

TOLERANCE = 1e-10  # tolerance of the values, relative to the largest reward
CAP = 1_000  # maximum number of Newton steps of one solve


class Known(NamedTuple):
    """The known part of a model, in the form that kernels read."""

    entries: Entries
    twin: IntArray  # [P] the first pair with the same source, next states and rewards
    tolerance: float  # tolerance of the values
    terminal: BoolArray  # [S]
    leaky: bool  # whether the process can end: a constant added to V then does not shift TV by a constant


class Plan(NamedTuple):
    """Number and weights of the draws of E episodes; the last entry holds for all later episodes.

    A schedule replaces both by tables over the episode and the number of observations of a source, indexed by
    ``grid_place``: the number of draws, and the weight of the lowest (or highest) draw. The next draw has the rest.
    """

    n: IntArray  # [E] number of draws; 0: the posterior mean instead; below zero: the weights are of the highest draws
    weights: FloatArray  # [E, M] of the lowest draws, or of the highest
    lengths: IntArray  # [E] number of weights in use
    sweeps: int  # sweeps of value iteration; 0: Newton's method
    table: IntArray = np.zeros((0, 0), np.int64)  # [E', V] number of draws of the schedule, or [0, 0]
    share: FloatArray = np.zeros((0, 0))  # [E', V] weight of the lowest (or highest) draw
    prior: FloatArray = np.zeros(0)  # [B] prior counts of each source, if there is a schedule


class Work(NamedTuple):
    """Scratch arrays of one thread."""

    theta: FloatArray  # [F, N] by slots
    counts: FloatArray  # [K] counts of one source
    kept: IntArray  # [B] number of draws of each source in theta, negative if the weights are of the highest draws
    share: FloatArray  # [B] weight of the lowest (or highest) draw of each source, or 0 to use the weights of the plan
    z: FloatArray  # [N]
    order: IntArray  # [3 N]
    rows: FloatArray  # [S, K] outcome probabilities of a chain, in the order of the entries
    matrix: FloatArray  # [S, S], or [0, 0] if the model is too large for elimination
    q: FloatArray  # [S, A]
    swept: FloatArray  # [S]
    trial: FloatArray  # [S]
    safe: FloatArray  # [S]
    none: FloatArray  # [0, 0] stands for no reward draws


def known_part(model: UncertainMDP) -> Known:
    """Return the known part of ``model``."""
    entries = model.entries
    seen: dict[bytes, int] = {}
    ranges = zip(entries.source, entries.first[:-1], entries.first[1:], strict=True)
    keys = (b.tobytes() + entries.next_state[i:j].tobytes() + entries.reward[i:j].tobytes() for b, i, j in ranges)
    largest = float(abs(entries.reward).max())
    return Known(
        entries=entries,
        twin=np.array([seen.setdefault(key, p) for p, key in enumerate(keys)]),
        terminal=model.terminal,
        leaky=model.ends,
        # rounding keeps the bounds further apart than the second number
        tolerance=largest * max(TOLERANCE, 16.0 * EPS * model.n_outcomes / (1.0 - model.discount) ** 2),
    )


def work_space(model: UncertainMDP, draws: int) -> Work:
    """Return scratch arrays for up to ``draws`` posterior draws."""
    n_states, dense = model.n_states, model.n_states <= DENSE
    return Work(
        theta=np.zeros((model.entries.outcome.size, draws)),
        counts=np.empty(model.n_outcomes),
        kept=np.zeros(model.n_sources, dtype=np.int64),
        share=np.zeros(model.n_sources),
        z=np.empty(draws),
        order=np.empty(3 * draws, dtype=np.int64),
        rows=np.zeros((n_states, model.n_outcomes)),
        matrix=np.empty((n_states, n_states) if dense else (0, 0)),
        q=np.full((n_states, model.n_actions), -np.inf),
        swept=np.empty(n_states),
        trial=np.empty(n_states),
        safe=np.empty(n_states),
        none=np.empty((0, 0)),
    )


@lean
def _keep(theta: FloatArray, n: int, order: IntArray) -> int:
    """Move the draws with ``order[i]`` >= 0 to the front of ``theta`` [K, N]; return their number."""
    kept = 0
    for i in range(n):
        if order[i] >= 0:
            if kept < i:
                for k in range(theta.shape[0]):
                    theta[k, kept] = theta[k, i]
            kept += 1
    return kept


@lean
def _left_of(x: FloatArray, y: FloatArray, i: int, j: int, k: int) -> float:
    """Return a positive number if point k lies to the left of the line from point i to point j."""
    return (x[j] - x[i]) * (y[k] - y[i]) - (y[j] - y[i]) * (x[k] - x[i])


@lean
def _extremes(x: FloatArray, y: FloatArray, n: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Return the furthest points in eight directions, anticlockwise from the lowest y."""
    s, se, e, ne, nn, nw, w, sw = 0, 0, 0, 0, 0, 0, 0, 0
    left, right, low, high = x[0], x[0], y[0], y[0]
    sum_low, sum_high, less_low, less_high = x[0] + y[0], x[0] + y[0], x[0] - y[0], x[0] - y[0]
    for i in range(1, n):  # the numbers are kept beside the places: looking them up would be the longest part
        u, v = x[i] + y[i], x[i] - y[i]
        s, low = (i, y[i]) if y[i] < low else (s, low)
        nn, high = (i, y[i]) if y[i] > high else (nn, high)
        w, left = (i, x[i]) if x[i] < left else (w, left)
        e, right = (i, x[i]) if x[i] > right else (e, right)
        sw, sum_low = (i, u) if u < sum_low else (sw, sum_low)
        ne, sum_high = (i, u) if u > sum_high else (ne, sum_high)
        nw, less_low = (i, v) if v < less_low else (nw, less_low)
        se, less_high = (i, v) if v > less_high else (se, less_high)
    return s, se, e, ne, nn, nw, w, sw


@lean
def _cut(x: FloatArray, y: FloatArray, n: int, i: int, j: int, cuts: IntArray) -> None:
    """Add one to ``cuts`` of the points that are not to the left of the line from point i to point j."""
    if i != j:
        px, py = x[i], y[i]
        dx, dy = x[j] - px, y[j] - py
        for k in range(n):
            cuts[k] += dx * (y[k] - py) - dy * (x[k] - px) <= 0.0


@lean
def _outside(x: FloatArray, y: FloatArray, n: int, order: IntArray, cuts: IntArray) -> int:
    """Write the points outside the polygon of eight extreme points into ``order``, by x and y; return their number."""
    s, se, e, ne, nn, nw, w, sw = _extremes(x, y, n)
    for i in range(n):
        cuts[i] = 0
    _cut(x, y, n, s, se, cuts)
    _cut(x, y, n, se, e, cuts)
    _cut(x, y, n, e, ne, cuts)
    _cut(x, y, n, ne, nn, cuts)
    _cut(x, y, n, nn, nw, cuts)
    _cut(x, y, n, nw, w, cuts)
    _cut(x, y, n, w, sw, cuts)
    _cut(x, y, n, sw, s, cuts)
    size = 0
    for i in range(n):
        if cuts[i] == 0 and i != s:  # s is kept if all points are equal
            continue
        at = size
        while at > 0 and (x[i] < x[order[at - 1]] or (x[i] == x[order[at - 1]] and y[i] < y[order[at - 1]])):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
        size += 1
    return size


@lean
def keep_corners(theta: FloatArray, n: int, order: IntArray) -> int:
    """Keep the draws [K, N] of one source that are the lowest for some values of its outcomes; return their number.

    For two outcomes these are the extremes, for three the corners of the convex hull (Andrew's monotone chain, once
    for the lower and once for the upper hull; a corner that rounding hides is on an edge up to rounding). With more
    outcomes all draws stay. ``order`` [3 N] is scratch.
    """
    size = theta.shape[0]
    if size > 3 or n <= 2:
        return n
    if size == 1:
        return 1
    x = theta[0]
    if size == 2:
        first, last = 0, 0
        low, high = x[0], x[0]
        for i in range(1, n):
            first, low = (i, x[i]) if x[i] < low else (first, low)
            last, high = (i, x[i]) if x[i] > high else (last, high)
        first, last = min(first, last), max(first, last)
        for k in range(size):
            theta[k, 0], theta[k, 1] = theta[k, first], theta[k, last]
        return 1 if first == last else 2
    y = theta[1]
    marks, below, points = order[:n], order[n : 2 * n], order[2 * n :]
    size = _outside(x, y, n, points, marks)
    for i in range(n):
        marks[i] = -1
    for side in (1.0, -1.0):
        top = points[0]
        below[top] = -1
        for at in range(1, size):
            i = points[at]
            while below[top] >= 0 and side * _left_of(x, y, below[top], top, i) <= 0.0:
                top = below[top]
            below[i] = top
            top = i
        while top >= 0:
            marks[top] = top
            top = below[top]
    return _keep(theta, n, marks)


@lean
def _keep_mean(theta: FloatArray, n: int) -> int:
    for k in range(theta.shape[0]):
        total = 0.0
        for i in range(n):
            total += theta[k, i]
        theta[k, 0] = total / n
    return 1


@lean
def _all_equal(numbers: FloatArray) -> bool:
    same = True
    for i in range(1, numbers.size):
        same = same and numbers[i] == numbers[0]
    return same


# -- schedules ---------------------------------------------------------------------------------------------


@lean
def grid_place(i: int) -> int:
    """Return the index of a number in the grid 0, 1, ..., 999, 1000, 1010, ..., 9990, 10000, 10100, ...

    Other numbers are rounded down to three digits first.
    """
    shift = 0
    while i >= 1000:
        i //= 10
        shift += 1
    return i if shift == 0 else 1000 + 900 * (shift - 1) + i - 100


def grid(last: int) -> IntArray:
    """Return the numbers of the grid of ``grid_place`` up to ``last``."""
    low = np.arange(1000)
    decades = [low[100:] * 10**shift for shift in range(1, 19)]
    return np.concatenate([low, *decades])[: grid_place(last) + 1]


@lean
def _draws_of_source(plan: Plan, episode: int, b: int, total: float) -> tuple[int, float]:
    """Return the number of draws of source b, whose counts sum to ``total``, and the weight of the lowest draw.

    The number is negative if the weights are of the highest draws. The weight is 0 if the plan has weights instead.
    """
    if plan.table.size == 0:
        return plan.n[min(episode, plan.n.size - 1)], 0.0
    row = min(grid_place(episode), plan.table.shape[0] - 1)
    column = min(grid_place(int(total - plan.prior[b] + 0.5)), plan.table.shape[1] - 1)
    return plan.table[row, column], plan.share[row, column]


# -- solving one sampled model -----------------------------------------------------------------------------


@lean
def _outermost(kept: IntArray, share: FloatArray, weights: FloatArray) -> bool:
    """Return whether one draw of each source has all the weight: its only draw, or its lowest or highest."""
    single = True
    for b in range(kept.size):
        single = single and share[b] == 0.0 and (weights.size == 1 or abs(kept[b]) == 1)
    return single


@lean
def _lowest_q(known: Known, work: Work, weight: float, value: FloatArray) -> None:
    """Write Q at V into work.q if one draw of each source has all the weight."""
    source, first, next_state, reward, begin, _, discount, _ = known.entries
    q, theta, kept, z, twin = work.q.reshape(-1), work.theta, work.kept, work.z, known.twin
    for p in range(np.uint64(q.size)):
        if source[p] < 0:
            continue
        other = np.uint64(twin[p])
        if other < p:
            q[p] = q[other]
            continue
        b = np.uint64(source[p])
        slot, n, sign = np.uint64(begin[b]), abs(kept[b]), 1.0 if kept[b] > 0 else -1.0
        low, _ = lowest_of_pair(p, slot, first, next_state, reward, discount, theta, n, sign, value, z)
        q[p] = sign * (low if n == 1 else low * weight)


@lean
def _any_q(known: Known, work: Work, draws: Draws, value: FloatArray) -> None:
    """Write Q at V into work.q."""
    q, entries = work.q.reshape(-1), known.entries
    for p in range(q.size):
        b = entries.source[p]
        if b < 0:
            continue
        if known.twin[p] < p:
            q[p] = q[known.twin[p]]
            continue
        q[p], _ = back_up_pair(p, entries, draws, work.kept[b], work.share[b], value, work.z, work.order)


@lean
def _back_up(known: Known, work: Work, draws: Draws, value: FloatArray, policy: IntArray) -> tuple[float, float]:
    """Write Q, TV and the greedy policy at V into work.q, work.swept and ``policy``; return bounds on TV - V.

    These are its extremes or, if the process can end, plus and minus its largest size: those bound the fixed point.
    """
    if _outermost(work.kept, work.share, draws.weights):
        _lowest_q(known, work, draws.weights[0], value)
    else:
        _any_q(known, work, draws, value)
    greedy(work.q, work.swept, policy)
    low, high = np.inf, -np.inf
    for s in range(value.size):
        low = min(low, work.swept[s] - value[s])
        high = max(high, work.swept[s] - value[s])
    if known.leaky:
        high = max(high, -low)
        low = -high
    return low, high


@lean
def _lowest_rows(known: Known, work: Work, weight: float, value: FloatArray, policy: IntArray) -> None:
    """As ``_tail_rows`` if one draw of each source has all the weight."""
    source, first, next_state, reward, begin, _, discount, n_actions = known.entries
    rows, theta, kept, z = work.rows, work.theta, work.kept, work.z
    for s in range(np.uint64(value.size)):
        p = s * np.uint64(n_actions) + np.uint64(policy[s])
        b = np.uint64(source[p])
        slot, n, sign = np.uint64(begin[b]), abs(kept[b]), 1.0 if kept[b] > 0 else -1.0
        index, share = np.uint64(0), 1.0
        if n > 1:
            _, index = lowest_of_pair(p, slot, first, next_state, reward, discount, theta, n, sign, value, z)
            share = weight
        for j in range(np.uint64(first[p + np.uint64(1)] - first[p])):
            rows[s, j] = share * theta[slot + j, index]


@lean
def _tail_rows(known: Known, work: Work, draws: Draws, value: FloatArray, policy: IntArray) -> None:
    """Write the tail probabilities of the outcomes under ``policy`` at ``value`` into work.rows."""
    if _outermost(work.kept, work.share, draws.weights):
        _lowest_rows(known, work, draws.weights[0], value, policy)
        return
    n_actions, entries = work.q.shape[1], known.entries
    for s in range(value.size):
        p = s * n_actions + policy[s]
        b = entries.source[p]
        tail_of_pair(p, entries, draws, work.kept[b], work.share[b], value, work.z, work.order, work.rows[s])


@lean
def solve_chain(known: Known, work: Work, policy: IntArray, x: FloatArray) -> None:
    """Write into ``x`` the values of the chain of ``policy`` with outcome probabilities work.rows.

    The certified solver calls LAPACK for this system. Here chains are so small that a call which allocates and pivots
    would take longer than the elimination itself.
    """
    n, n_actions = policy.size, work.q.shape[1]
    if work.matrix.size == 0:
        _solve_large_chain(known, work, policy, x)
        return
    entries = known.entries
    a = work.matrix
    for s in range(n):
        p = s * n_actions + policy[s]
        first = entries.first[p]
        a[s, :] = 0.0
        a[s, s] = 1.0
        x[s] = 0.0
        for j in range(entries.first[p + 1] - first):
            target = entries.next_state[first + j]
            if target >= 0:
                a[s, target] -= entries.discount * work.rows[s, j]
            x[s] += work.rows[s, j] * entries.reward[first + j]
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
    n, n_actions, entries = policy.size, work.q.shape[1], known.entries
    indptr = np.zeros(n + 1, np.int64)
    for s in range(n):
        p = s * n_actions + policy[s]
        indptr[s + 1] = indptr[s] + entries.first[p + 1] - entries.first[p]
    indices, chances, gain = np.zeros(indptr[n], np.int32), np.zeros(indptr[n]), np.zeros(n)
    for s in range(n):
        first = entries.first[s * n_actions + policy[s]]
        for j in range(indptr[s + 1] - indptr[s]):
            target = entries.next_state[first + j]
            if target >= 0:  # the end of the process has no column
                indices[indptr[s] + j], chances[indptr[s] + j] = target, work.rows[s, j]
            gain[s] += work.rows[s, j] * entries.reward[first + j]
    target = 0.1 * known.tolerance * (1.0 - entries.discount)
    put(x, work.swept)
    chain_values(Chain(indptr, indices, chances, gain), entries.discount, x, target, False, MAX_PRODUCTS)


@lean
def _solve(known: Known, work: Work, draws: Draws, value: FloatArray, policy: IntArray) -> bool:
    """Improve ``value`` [S] to the fixed point for ``draws``, and ``policy`` [S] to its greedy actions."""
    discount = known.entries.discount
    reach = discount / (1.0 - discount)
    low, high = _back_up(known, work, draws, value, policy)
    for _ in range(CAP):
        middle = 0.5 * reach * (low + high)
        for s in range(value.size):
            work.safe[s] = work.swept[s] + middle
        if 0.5 * reach * (high - low) <= known.tolerance:
            put(value, work.safe)
            return True
        width = high - low
        _tail_rows(known, work, draws, value, policy)
        solve_chain(known, work, policy, work.trial)
        put(value, work.trial)
        low, high = _back_up(known, work, draws, value, policy)
        if not high - low <= discount * width:
            put(value, work.safe)
            low, high = _back_up(known, work, draws, value, policy)
    put(value, work.swept)
    return False


@lean
def draw_and_solve(
    rng: np.random.Generator,
    known: Known,
    work: Work,
    counts: FloatArray,  # [B, K]
    plan: Plan,
    episode: int,
    value: FloatArray,  # [S] first guess, then the values
    policy: IntArray,  # [S]
) -> bool:
    """Draw models and solve them for a policy (Algorithm 1, one episode); return whether the solver converged."""
    e = min(episode, plan.n.size - 1)
    weights = plan.weights[e, : plan.lengths[e]]
    entries = known.entries
    for b in range(counts.shape[0]):
        begin, end = entries.begin[b], entries.begin[b + 1]
        theta, own = work.theta[begin:end], work.counts[: end - begin]
        total = 0.0
        for j in range(own.size):
            own[j] = counts[b, entries.outcome[begin + j]]
            total += own[j]
        signed, work.share[b] = _draws_of_source(plan, episode, b, total)
        n = abs(signed)
        work.kept[b] = max(n, 1)
        if n == 0:
            for j in range(own.size):
                theta[j, 0] = own[j] / total
            continue
        draw_row(rng, own, theta, n, work.z)
        if plan.sweeps == 0 and n > 1:
            if weights.size == 1 and work.share[b] in (0.0, 1.0):
                work.share[b] = 0.0
                work.kept[b] = keep_corners(theta, n, work.order)
            elif weights.size == n and _all_equal(weights):
                work.kept[b] = _keep_mean(theta, n)
        if signed < 0:
            work.kept[b] = -work.kept[b]
    draws = Draws(work.theta, 0, work.none, weights, False)
    if plan.sweeps == 0:
        return _solve(known, work, draws, value, policy)
    value[:] = 0.0
    for _ in range(plan.sweeps):
        _back_up(known, work, draws, value, policy)
        put(value, work.swept)
    return True


@kernel
def refresh(
    rng: np.random.Generator,
    known: Known,
    work: Work,
    counts: FloatArray,
    plan: Plan,
    episode: int,
    value: FloatArray,
    policy: IntArray,
) -> bool:
    """Do the same for callers in Python, which must not pass a Generator to a lean kernel (see ``lean``)."""
    return draw_and_solve(rng, known, work, counts, plan, episode, value, policy)
