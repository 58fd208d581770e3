"""Row risks on the GPU: their arrays, and the kernels that back rows up.

Each thread needs local memory for one row, and Numba must know its size at compile time. Kernels are therefore compiled
for several numbers of outcomes, and a model uses the next larger one.

Backups of known models are limited by memory bandwidth. Rows are stored in slices of 32 states and one action, padded
to the longest row of the slice, so that the threads of a warp read adjacent numbers. Values are read in random order
and stay in the cache of the GPU if they fit.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from typing import Any, NamedTuple

import numba
import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.dirichlet_moments import moments_of_row, rough_tail, rough_tail_means
from ..._numerics.dirichlet_tail import SCRATCH
from ..._numerics.gpu import (
    SIMULATED,
    Vector,
    allocate,
    cuda,
    download,
    grid_for,
    on_device,
    range_in_block,
    sum_in_block,
    upload,
)
from ..._support.checks import IntArray
from ...errors import ParameterError
from ..row_risks import DirichletRows, DrawRows, MeanRows, MomentRows, RowRisk
from ..rows import Scratch, best_of_group, counts_of, later_value, outcome_values
from ..set_rows import SetRows, SetScratch, set_of_pair
from .cuda_chain import GpuChain

WARP = 32
NARROW = 128  # threads of a block if each needs much local memory
# numbers of outcomes of a row that kernels are made for
ROW_SIZES = (2, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)


def device_rows(rows: RowRisk) -> Any:
    """Return ``rows`` on the GPU."""
    if type(rows) in _DEVICE_ROWS:
        return _DEVICE_ROWS[type(rows)](rows)
    message = f'device="gpu" does not support {type(rows).__name__}'
    raise ParameterError(message, code="unknown-option", argument="device", value="gpu")


class Candidates(NamedTuple):
    """The pairs of each state s that may be optimal: the first ``count[s]`` entries of row s of ``pairs``."""

    pairs: Any  # [S, A]
    count: Any  # [S]


def fill(array: Any, number: float) -> None:
    """Fill an array [n] on the GPU with a number."""
    _fill[grid_for(array.size)]((array,), number)


def single_pairs(pairs: Any) -> Candidates:
    """Return candidates with one group for each of ``pairs``, which are on the GPU."""
    ones = allocate(pairs.size, np.int64)
    fill(ones, 1)
    return Candidates(pairs.reshape(pairs.size, 1), ones)


@on_device
def _fill(arrays: Any, number: Any) -> None:
    (a,) = arrays
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        a[i] = number


def _uploaded(bundle: Any) -> Any:
    """Return a named tuple with its arrays on the GPU."""
    return type(bundle)(*(upload(field) if isinstance(field, np.ndarray) else field for field in bundle))


class _DeviceRows:
    """Base of row risks on the GPU."""

    sweeps = False  # whether one kernel computes the best action of each state without storing Q

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.n_states, self.n_actions, self.discount = rows.n_states, rows.n_actions, rows.discount
        self.lazy_q = True

    def approximation(self) -> _DeviceRows | None:
        """See ``SmoothRows.approximation``."""
        return None


# -- known models ------------------------------------------------------------------------------------------


class _Slices(NamedTuple):
    """Rows by slices: entry k of the row of state s and action a is at first[s // 32 * A + a] + 32 k + s % 32."""

    first: Any  # [slices + 1]
    indices: Any
    data: Any
    reward: Any  # [slices * 32], -inf where there is no such pair


class _DeviceMean(_DeviceRows):
    """See ``prudent.planning.row_risks.MeanRows``."""

    sweeps = True

    def __init__(self, rows: MeanRows) -> None:
        super().__init__(rows)
        sizes = np.diff(rows.rows.indptr).reshape(self.n_states, self.n_actions)
        longest = np.maximum.reduceat(sizes, range(0, self.n_states, WARP)).ravel()  # row of each slice
        self._longest = int(longest.max())
        first = np.concatenate(([0], WARP * np.cumsum(longest, dtype=np.int64)))
        size, n_rows = max(1, int(first[-1])), longest.size * WARP
        self._slices = _Slices(upload(first), allocate(size, np.int32), allocate(size), allocate(n_rows))
        _slice[grid_for(n_rows)](tuple(map(upload, rows.rows)), self._slices, self.n_states, self.n_actions)
        self._largest_reward = float(abs(rows.rows.reward).max(initial=0.0))

    def bar(self, pairs: IntArray) -> None:
        """Give all pairs but the admissible ``pairs`` a reward of minus infinity."""
        if pairs.size < self.n_states * self.n_actions:
            admissible = np.zeros(self.n_states * self.n_actions, dtype=np.bool_)
            admissible[pairs] = True
            _bar[grid_for(admissible.size)](self._slices, (upload(admissible),), self.n_actions)

    def _rounding(self, value: Vector) -> float:
        """Return a bound on the rounding error of a backup at ``value``."""
        return float(self.rows.rounding(self._largest_reward, self.discount * abs(value).max()))

    def sweep(self, value: Vector) -> tuple[float, tuple[Vector, Vector, float]]:
        """Return the error of a backup, and the best Q with its actions, by one kernel that reads the model once."""
        best, actions = allocate(value.size), allocate(value.size, np.int64)
        _sweep[grid_for(self.n_states)](self._slices, (value.data, best, actions), self.discount, self.n_actions)
        return self._rounding(value), (Vector(best), Vector(actions), 0.0)

    def back_up(self, value: Vector, candidates: Candidates, q: Any, accuracy: float, best: bool = False) -> float:
        """Write Q of single pairs; return a bound on its error."""
        pairs = candidates.pairs.reshape(candidates.pairs.size)
        _expect_pairs[grid_for(pairs.size)](self._slices, (pairs, value.data, q), self.discount, self.n_actions)
        return self._rounding(value)

    def chain(self, value: Vector, pairs: Any, accuracy: float) -> GpuChain:
        """Return the chain of ``pairs`` [S]."""
        n = self.n_states
        length = max(1, self._longest)
        chain = GpuChain(allocate((length, n), np.int32), allocate((length, n)), allocate(n))
        _pick_rows[grid_for(n)](self._slices, (pairs,), chain, self.n_actions)
        return chain


@on_device
def _bar(slices: Any, arrays: Any, n_actions: Any) -> None:
    """Give pairs that are not admissible a reward of minus infinity."""
    (admissible,) = arrays
    for p in range(cuda.grid(1), admissible.size, cuda.gridsize(1)):
        s, a = p // n_actions, p % n_actions
        if not admissible[p]:
            slices.reward[(s // 32 * n_actions + a) * 32 + s % 32] = -math.inf


@on_device
def _slice(rows: Any, slices: Any, n_states: Any, n_actions: Any) -> None:
    """Move rows into slices."""
    indptr, indices, data, reward = rows
    for i in range(cuda.grid(1), slices.reward.size, cuda.gridsize(1)):
        here, lane = i // 32, i % 32
        s, a = here // n_actions * 32 + lane, here % n_actions
        j = slices.first[here] + lane
        slices.reward[i] = -math.inf
        if s < n_states:
            p = s * n_actions + a
            slices.reward[i] = reward[p]
            for k in range(indptr[p], indptr[p + 1]):
                slices.indices[j], slices.data[j] = indices[k], data[k]
                j += 32
        while j < slices.first[here + 1]:
            slices.indices[j], slices.data[j] = 0, 0.0
            j += 32


@kernel
def _expected(slices, value, discount, n_actions, s, a):
    """Return Q of a pair."""
    here = s // 32 * n_actions + a
    j, end = slices.first[here] + s % 32, slices.first[here + 1]
    total = 0.0
    while j < end:
        total += slices.data[j] * value[slices.indices[j]]
        j += 32
    return slices.reward[here * 32 + s % 32] + discount * total


@on_device
def _sweep(slices: Any, arrays: Any, discount: Any, n_actions: Any) -> None:
    value, best, actions = arrays
    for s in range(cuda.grid(1), value.size, cuda.gridsize(1)):
        top, action = -math.inf, 0
        for a in range(n_actions):
            here = _expected(slices, value, discount, n_actions, s, a)
            if here > top:
                top, action = here, a
        best[s], actions[s] = top, action


@on_device
def _expect_pairs(slices: Any, arrays: Any, discount: Any, n_actions: Any) -> None:
    pairs, value, q = arrays
    for i in range(cuda.grid(1), pairs.size, cuda.gridsize(1)):
        p = pairs[i]
        q[p] = _expected(slices, value, discount, n_actions, p // n_actions, p % n_actions)


@on_device
def _pick_rows(slices: Any, arrays: Any, rows: Any, n_actions: Any) -> None:
    (pairs,) = arrays
    for s in range(cuda.grid(1), rows.reward.size, cuda.gridsize(1)):
        here = s // 32 * n_actions + pairs[s] % n_actions
        j, end = slices.first[here] + s % 32, slices.first[here + 1]
        rows.reward[s] = slices.reward[here * 32 + s % 32]
        for k in range(rows.data.shape[0]):
            if j < end:
                rows.indices[k, s], rows.data[k, s] = slices.indices[j], slices.data[j]
            else:
                rows.indices[k, s], rows.data[k, s] = 0, 0.0
            j += 32


# -- unknown probabilities ---------------------------------------------------------------------------------


class _DeviceOutcomes(_DeviceRows):
    """Base of the risks under a posterior: the entries of an uncertain model."""

    def __init__(self, rows: Any, entries: Any = None) -> None:
        """``entries`` are those of ``rows`` on the GPU, if they were uploaded before."""
        super().__init__(rows)
        self.entries = _uploaded(rows.entries) if entries is None else entries
        self._largest_reward = float(abs(rows.entries.reward).max(initial=0.0))

    def _rounding(self, value: Vector) -> float:
        """Return a bound on the rounding error of a backup at ``value``."""
        return float(self.rows.rounding(self._largest_reward + self.discount * abs(value).max()))

    def _row_size(self) -> int:
        """Return the number of outcomes that kernels are compiled for."""
        if self.rows.longest <= ROW_SIZES[-1]:
            return ROW_SIZES[bisect_left(ROW_SIZES, self.rows.longest)]
        message = f'device="gpu" has room for {ROW_SIZES[-1]} outcomes of a pair, this model has {self.rows.longest}'
        raise ParameterError(message, code="gpu-row-size", value=self.rows.longest, expected=ROW_SIZES[-1])

    def _chain(self, pairs: Any, means: Any, extra: Any) -> GpuChain:
        """Return the chain of ``pairs`` with probabilities ``means`` of the entries and ``extra`` rewards."""
        n, longest = self.n_states, self.rows.longest
        chain = GpuChain(allocate((longest, n), np.int32), allocate((longest, n)), allocate(n))
        _chain_rows[grid_for(n)](self.entries, (pairs, means, extra), chain)
        return chain


@on_device
def _chain_rows(entries: Any, arrays: Any, rows: Any) -> None:
    pairs, means, extra = arrays
    for s in range(cuda.grid(1), rows.reward.size, cuda.gridsize(1)):
        first, last = entries.first[pairs[s]], entries.first[pairs[s] + 1]
        gain = extra[s] if extra.size > 0 else 0.0
        for k in range(rows.data.shape[0]):
            rows.indices[k, s], rows.data[k, s] = 0, 0.0
            j = first + k
            if j < last:
                gain += means[j] * entries.reward[j]
                if entries.next_state[j] >= 0:
                    rows.indices[k, s], rows.data[k, s] = entries.next_state[j], means[j]
        rows.reward[s] = gain


class _DeviceDirichlet(_DeviceOutcomes):
    """See ``prudent.planning.row_risks.DirichletRows``."""

    def __init__(self, rows: DirichletRows) -> None:
        super().__init__(rows)
        self._counts = upload(rows.counts)
        self._memory, self._levels = _uploaded(rows.memory), _uploaded(rows.levels)
        self._kernel = _exact_kernel(self._row_size(), self.n_actions)
        self._bounds_at = Vector(upload(np.zeros(self.n_states)))
        self._risen = 0.0
        self._means_at: Vector | None = None

    def approximation(self) -> _DeviceRows | None:
        """See ``SmoothRows.approximation``; it shares the arrays of the model."""
        rows = self.rows.approximation()
        return None if rows is None else _DeviceMoments(rows, self.entries, self._counts)

    def back_up(self, value: Vector, candidates: Candidates, q: Any, accuracy: float, best: bool = False) -> float:
        """Do ``best_of_group`` for each group of pairs; return the largest error."""
        if best:
            self._risen = self.rows.risen(self._risen, self._bounds_at, value)
            self._bounds_at = value
        grid = grid_for(candidates.count.size, NARROW)
        part = allocate((grid[0], 2))
        level = (self.rows.shape, accuracy, self._risen)
        arrays = (self._counts, value.data, q, part)
        self._kernel[grid](candidates, self.entries, arrays, self._memory, self._levels, level)
        self._means_at = value
        return float(download(part)[:, 1].max())

    def chain(self, value: Vector, pairs: Any, accuracy: float) -> GpuChain:
        """Return the chain of ``pairs`` [S]; the tail means are those of the last backup, if it was at ``value``."""
        if self._means_at is not value:
            self.back_up(value, single_pairs(pairs), allocate(self.n_states * self.n_actions), accuracy)
        return self._chain(pairs, self._memory.means, allocate(0))


@functools.cache
def _exact_kernel(room: int, n_actions: int) -> Any:
    """Return the kernel for rows of up to ``room`` outcomes: a thread has a group of pairs."""

    @on_device
    def exact(candidates: Any, entries: Any, arrays: Any, memory: Any, levels: Any, level: Any) -> None:
        counts, value, q, part = arrays
        y = cuda.local.array(room, numba.float64)
        work = cuda.local.array((SCRATCH, room), numba.float64)
        guess = cuda.local.array(n_actions, numba.float64)
        means = cuda.local.array(room, numba.float64)
        scratch = Scratch(y, work, means, guess)
        shape, accuracy, risen = level
        worst = 0.0
        for i in range(cuda.grid(1), candidates.count.size, cuda.gridsize(1)):
            pairs = candidates.pairs[i, : candidates.count[i]]
            error = best_of_group(pairs, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q)
            worst = max(worst, error)
        range_in_block(0.0, worst, part)

    return exact


class _DeviceMoments(_DeviceOutcomes):
    """See ``prudent.planning.row_risks.MomentRows``."""

    def __init__(self, rows: MomentRows, entries: Any = None, counts: Any = None) -> None:
        """``entries`` and ``counts`` are those of ``rows`` on the GPU, if they were uploaded before."""
        super().__init__(rows, entries)
        self._counts = upload(rows.counts) if counts is None else counts
        self._kernels = _approximate_kernels(self._row_size())

    def back_up(self, value: Vector, candidates: Candidates, q: Any, accuracy: float, best: bool = False) -> float:
        """Write Q of the candidates; return a bound on its error."""
        grid = grid_for(candidates.count.size, NARROW)
        self._kernels[0][grid](candidates, self.entries, (self._counts, value.data, q), self.rows.shape)
        return self._rounding(value)

    def chain(self, value: Vector, pairs: Any, accuracy: float) -> GpuChain:
        """Return the chain of ``pairs`` [S] that touches the backup at ``value``."""
        means = allocate(self.rows.entries.next_state.size)
        arrays = (self._counts, value.data, pairs, means)
        self._kernels[1][grid_for(pairs.size, NARROW)](self.entries, arrays, self.rows.shape)
        return self._chain(pairs, means, allocate(0))


@functools.cache
def _approximate_kernels(room: int) -> tuple[Any, Any]:
    """Return the kernels for rows of up to ``room`` outcomes: for Q, and for its gradient."""

    @on_device
    def values(candidates: Any, entries: Any, arrays: Any, shape: Any) -> None:
        counts, value, q = arrays
        y = cuda.local.array(room, numba.float64)
        for s in range(cuda.grid(1), candidates.count.size, cuda.gridsize(1)):
            for i in range(candidates.count[s]):
                p = candidates.pairs[s, i]
                outcome_values(p, entries, entries.discount, value, y)
                row = counts_of(p, entries, counts)
                low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
                q[p] = rough_tail(low, mean, sd, skew, shape)

    @on_device
    def gradients(entries: Any, arrays: Any, shape: Any) -> None:
        counts, value, pairs, means = arrays
        y = cuda.local.array(room, numba.float64)
        for i in range(cuda.grid(1), pairs.size, cuda.gridsize(1)):
            outcome_values(pairs[i], entries, entries.discount, value, y)
            row = counts_of(pairs[i], entries, counts)
            first = entries.first[pairs[i]]
            rough_tail_means(y[: row.size], row, shape, means[first : first + row.size])

    return values, gradients


class _DeviceDraws(_DeviceOutcomes):
    """See ``prudent.planning.row_risks.DrawRows``: a block of threads shares a pair, and each thread has some draws."""

    def __init__(self, rows: DrawRows) -> None:
        super().__init__(rows)
        self.lazy_q = False  # a solution does not keep the draws, which Q depends on
        draws, begin = rows.theta, rows.entries.begin
        theta = allocate((int(begin[-1]), draws.n))
        for block, (first, last) in enumerate(draws.edges):
            slots = slice(int(begin[first]), int(begin[last]))
            if slots.stop > slots.start:
                theta[slots] = upload(draws.block(block)) if SIMULATED else draws.block(block)
        weights = rows.weights
        if rows.signed_draws < 0:  # weights of the highest draws, while ranks count from the lowest
            weights = np.concatenate([np.zeros(draws.n - weights.size), weights[::-1]])
        self._largest_reward += float(abs(rows.rewards).max(initial=0.0))
        blocks = grid_for(self.n_states * self.n_actions * NARROW, NARROW)[0]
        self._grid = (blocks, 1 if SIMULATED else NARROW)
        self._draws = (theta, upload(rows.rewards), upload(weights))
        self._scratch = (allocate((blocks, draws.n)), allocate((blocks, draws.n)), allocate((blocks, 2)))

    def back_up(self, value: Vector, candidates: Candidates, q: Any, accuracy: float, best: bool = False) -> float:
        """Write Q of the candidates; return a bound on its error."""
        arrays = (value.data, q)
        _sampled[self._grid](candidates, self.entries, self._draws, self._scratch, arrays, self.rows.is_mean)
        return self._rounding(value)

    def chain(self, value: Vector, pairs: Any, accuracy: float) -> GpuChain:
        """Return the chain of ``pairs`` [S] that touches the backup at ``value``."""
        means, extra = allocate(self.rows.entries.next_state.size), allocate(self.n_states)
        arrays = (value.data, pairs, means, extra)
        _sampled_means[self._grid](self.entries, self._draws, self._scratch, arrays, self.rows.is_mean)
        return self._chain(pairs, means, extra)


@cuda.jit(device=True)
def _weigh(p: Any, entries: Any, draws: Any, scratch: Any, value: Any, is_mean: Any) -> None:
    """Write Z_1, ..., Z_N of pair p and their weights into this block's rows of the scratch."""
    theta, rewards, weights = draws
    z, weight, _ = scratch
    mine, n = cuda.blockIdx.x, theta.shape[1]
    first, slot = entries.first[p], entries.begin[entries.source[p]]
    size = entries.first[p + 1] - first
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        total = rewards[p, i] if rewards.size > 0 else 0.0
        for j in range(size):
            later = later_value(entries.next_state[first + j], entries.discount, value)
            total += theta[slot + j, i] * (entries.reward[first + j] + later)
        z[mine, i] = total
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        own, rank = z[mine, i], 0
        if is_mean:
            weight[mine, i] = weights[0]
        else:
            for j in range(n):  # the rank is the number of lower draws
                other = z[mine, j]
                if other < own or (other == own and j < i):
                    rank += 1
            weight[mine, i] = weights[rank] if rank < weights.size else 0.0
    cuda.syncthreads()


@on_device
def _sampled(candidates: Any, entries: Any, draws: Any, scratch: Any, arrays: Any, is_mean: Any) -> None:
    value, q = arrays
    z, weight, part = scratch
    n_actions = candidates.pairs.shape[1]
    for t in range(cuda.blockIdx.x, candidates.pairs.size, cuda.gridDim.x):
        if t % n_actions < candidates.count[t // n_actions]:
            p = candidates.pairs[t // n_actions, t % n_actions]
            _weigh(p, entries, draws, scratch, value, is_mean)
            total = 0.0
            for i in range(cuda.threadIdx.x, z.shape[1], cuda.blockDim.x):
                total += weight[cuda.blockIdx.x, i] * z[cuda.blockIdx.x, i]
            sum_in_block(total, 0.0, part)
            if cuda.threadIdx.x == 0:
                q[p] = part[cuda.blockIdx.x, 0]
            cuda.syncthreads()


@on_device
def _sampled_means(entries: Any, draws: Any, scratch: Any, arrays: Any, is_mean: Any) -> None:
    value, pairs, means, extra = arrays
    theta, rewards, _ = draws
    _, weight, part = scratch
    for s in range(cuda.blockIdx.x, pairs.size, cuda.gridDim.x):
        p = pairs[s]
        _weigh(p, entries, draws, scratch, value, is_mean)
        first, slot = entries.first[p], entries.begin[entries.source[p]]
        for j in range(entries.first[p + 1] - first + 1):  # the reward draw follows the outcomes
            total = 0.0
            for i in range(cuda.threadIdx.x, theta.shape[1], cuda.blockDim.x):
                if first + j < entries.first[p + 1]:
                    total += weight[cuda.blockIdx.x, i] * theta[slot + j, i]
                elif rewards.size > 0:
                    total += weight[cuda.blockIdx.x, i] * rewards[p, i]
            sum_in_block(total, 0.0, part)
            if cuda.threadIdx.x == 0:
                if first + j < entries.first[p + 1]:
                    means[first + j] = part[cuda.blockIdx.x, 0]
                else:
                    extra[s] = part[cuda.blockIdx.x, 0]
            cuda.syncthreads()


class _DeviceSets(_DeviceOutcomes):
    """See ``prudent.planning.set_rows.SetRows``."""

    def __init__(self, rows: SetRows) -> None:
        super().__init__(rows)
        self._sets = _uploaded(rows.sets)
        self._kernels = _set_kernels(self._row_size())

    def back_up(self, value: Vector, candidates: Candidates, q: Any, accuracy: float, best: bool = False) -> float:
        """Write Q of the candidates; return a bound on its error."""
        grid = grid_for(candidates.count.size, NARROW)
        part = allocate((grid[0], 2))
        self._kernels[0][grid](candidates, self.entries, self._sets, (value.data, q, part))
        return float(download(part)[:, 1].max())

    def chain(self, value: Vector, pairs: Any, accuracy: float) -> GpuChain:
        """Return the chain of ``pairs`` [S] that touches the backup at ``value``."""
        means = allocate(self.rows.entries.next_state.size)
        grid = grid_for(pairs.size, NARROW)
        self._kernels[1][grid](self.entries, self._sets, (value.data, pairs, means))
        return self._chain(pairs, means, allocate(0))


@functools.cache
def _set_kernels(room: int) -> tuple[Any, Any]:
    """Return the kernels for rows of up to ``room`` outcomes: for Q, and for what nature chooses."""

    @on_device
    def values(candidates: Any, entries: Any, sets: Any, arrays: Any) -> None:
        value, q, part = arrays
        y, begin = cuda.local.array(room, numba.float64), cuda.local.array(room, numba.float64)
        key, own = cuda.local.array(room, numba.float64), cuda.local.array(room, numba.float64)
        order, hull = cuda.local.array(room, numba.int64), cuda.local.array(room, numba.int64)
        scratch = SetScratch(y, order, hull, begin, key, own)
        worst = 0.0
        for s in range(cuda.grid(1), candidates.count.size, cuda.gridsize(1)):
            for i in range(candidates.count[s]):
                p = candidates.pairs[s, i]
                q[p], error = set_of_pair(p, entries, sets, value, scratch)
                worst = max(worst, error)
        range_in_block(0.0, worst, part)

    @on_device
    def chances(entries: Any, sets: Any, arrays: Any) -> None:
        value, pairs, means = arrays
        y, begin = cuda.local.array(room, numba.float64), cuda.local.array(room, numba.float64)
        key, own = cuda.local.array(room, numba.float64), cuda.local.array(room, numba.float64)
        order, hull = cuda.local.array(room, numba.int64), cuda.local.array(room, numba.int64)
        scratch = SetScratch(y, order, hull, begin, key, own)
        for i in range(cuda.grid(1), pairs.size, cuda.gridsize(1)):
            set_of_pair(pairs[i], entries, sets, value, scratch)
            first = entries.first[pairs[i]]
            for k in range(entries.first[pairs[i] + 1] - first):
                means[first + k] = own[k]

    return values, chances


_DEVICE_ROWS: dict[type[RowRisk], Any] = {
    DirichletRows: _DeviceDirichlet,
    MomentRows: _DeviceMoments,
    DrawRows: _DeviceDraws,
    MeanRows: _DeviceMean,
    SetRows: _DeviceSets,
}
