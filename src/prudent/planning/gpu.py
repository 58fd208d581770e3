"""The operators on a GPU: the model goes there once, iterations stay there, the solution comes back.

The solver is that of :mod:`prudent.planning.newton`; here are only its operators, their tables of Q and their chains. A
thread has a state, or a pair, and calls the same compiled functions as the CPU: the exact row, the screen and the
bounds are not written a second time. They need room for one row each, whose size Numba must know when it compiles, so
kernels are made for each number of outcomes, rounded up.

Known models are swept at the speed of memory. Rows are kept in slices of 32 states and one action, padded to the
longest of them, so that the threads of a warp read neighbouring numbers; values, which are read in any order, stay in
the cache of the GPU as long as they fit.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from typing import Any, NamedTuple

import numba
import numpy as np

from .._numerics.compile import kernel
from .._numerics.dirichlet_moments import moments_of_row, rough_tail, rough_tail_means
from .._numerics.dirichlet_tail import SCRATCH
from .._numerics.gpu import (
    BLOCKS,
    SIMULATED,
    Rows,
    Vector,
    allocate,
    chain_values,
    cuda,
    download,
    grid_for,
    on_device,
    range_in_block,
    sum_in_block,
    upload,
)
from .._support.checks import FloatArray, IntArray
from ..errors import ParameterError
from ..models.entries import Entries
from .operators import (
    ApproximateOperator,
    ExactOperator,
    ExpectedOperator,
    Memory,
    Operator,
    SampledOperator,
    Scratch,
    best_of_group,
    consequences,
    counts_of,
)

__all__ = ["on_gpu"]

WARP = 32
NARROW = 128  # threads of a block whose threads need much room each
SIZES = (2, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)  # of rows that kernels are made for


def on_gpu(operator: Operator) -> Operator:
    """Return ``operator`` on the GPU."""
    if isinstance(operator, _GpuOperator):
        return operator
    for kind, there in _THERE.items():
        if isinstance(operator, kind):
            return there(operator)
    raise ParameterError(f'device="gpu" is not there for {type(operator).__name__}')


class GpuChain(NamedTuple):
    """The chain of a policy on the GPU."""

    rows: Rows

    def values(self, discount: float, guess: Vector, target: float, conservative: bool) -> Vector:
        """Return the values of the chain, or ``guess`` where they cannot be had."""
        answer = chain_values(self.rows, discount, guess, target, conservative)
        return answer if math.isfinite(answer.min() + answer.max()) else guess


class _GpuOperator(Operator):
    """What the operators on the GPU share; Q of all pairs is an array [S*A] there."""

    puts_off_q = True

    def __init__(self, here: Operator) -> None:
        self.here: Any = here
        self.n_states, self.n_actions, self.discount = here.n_states, here.n_actions, here.discount
        self.leaks, self.costly, self.rough, self.threads = here.leaks, here.costly, here.rough, here.threads

    def vector(self, value: FloatArray) -> Vector:
        """See :meth:`Operator.vector`."""
        return value if isinstance(value, Vector) else Vector(upload(np.asarray(value, dtype=np.float64)))

    def table(self, pairs: IntArray, control: bool) -> Any:
        """See :meth:`Operator.table`."""
        if control:
            return self.control_table(pairs)
        if pairs.size != self.n_states:
            raise ParameterError('device="gpu" evaluates policies with one action for each state; this one mixes them')
        return _PolicyTable(self, pairs)

    def backup(self, value: Any, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`; ``q`` is here, not on the GPU."""
        there = allocate(self.n_states * self.n_actions)
        error = self.back_up_pairs(self.vector(value), upload(pairs), there)
        q[pairs] = download(there)[pairs]
        return error

    def linearise(self, value: Any, pairs: IntArray) -> Any:
        """See :meth:`Operator.linearise`."""
        return self.chain(self.vector(value), upload(pairs))

    @abstractmethod
    def control_table(self, pairs: IntArray) -> Any:
        """Return the table for control, with all admissible ``pairs``."""

    @abstractmethod
    def back_up_pairs(self, value: Vector, pairs: Any, q: Any) -> float:
        """As :meth:`Operator.backup`, with pairs and ``q`` on the GPU."""

    @abstractmethod
    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """As :meth:`Operator.linearise`, with pairs on the GPU."""


class Running(NamedTuple):
    """The pairs that are still in the running: the first ``count[s]`` of row s of ``pairs``."""

    pairs: Any  # [S, A]
    count: Any  # [S]


class _GpuTable:
    """As :class:`~prudent.planning.operators.Table`, on the GPU."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def linearise(self, value: Vector, actions: Any) -> GpuChain:
        """See :class:`Table`."""
        pairs = allocate(self._operator.n_states, np.int64)
        given = actions.data if isinstance(actions, _Actions) else upload(actions)
        _pair_of[grid_for(pairs.size)]((given, pairs), self._operator.n_actions)
        chain: GpuChain = self._operator.chain(value, pairs)
        return chain


class _PolicyTable(_GpuTable):
    """Q of the pairs of a policy."""

    def __init__(self, operator: _GpuOperator, pairs: IntArray) -> None:
        super().__init__(operator)
        self._q = allocate(operator.n_states * operator.n_actions)
        self._pairs = upload(pairs)

    def back_up(self, value: Vector) -> float:
        """See :class:`Table`."""
        return float(self._operator.back_up_pairs(value, self._pairs, self._q))

    def of_pairs(self) -> Vector:
        """See :class:`Table`."""
        out = allocate(self._pairs.size)
        _gather[grid_for(out.size)]((self._q, self._pairs, out))
        return Vector(out)


class _RunningTable(_GpuTable):
    """Q of all pairs, and which of them are still in the running."""

    def __init__(self, operator: _GpuOutcomes, pairs: IntArray) -> None:
        super().__init__(operator)
        n_states, n_actions = operator.n_states, operator.n_actions
        self._q = allocate(n_states * n_actions)
        _fill[grid_for(self._q.size)]((self._q,), -math.inf)
        starts = upload(np.searchsorted(pairs, np.arange(n_states + 1) * n_actions))
        self._running = Running(allocate((n_states, n_actions), np.int64), allocate(n_states, np.int64))
        _spread[grid_for(n_states)]((upload(pairs), starts), self._running)

    def back_up(self, value: Vector) -> float:
        """See :class:`Table`."""
        return float(self._operator.back_up_running(value, self._running, self._q))

    def best(self) -> tuple[Vector, Any, float]:
        """See :class:`Table`."""
        n_states, n_actions = self._operator.n_states, self._operator.n_actions
        best, actions, part = allocate(n_states), allocate(n_states, np.int64), allocate((BLOCKS, 2))
        grid = grid_for(n_states)
        _greedy[grid]((self._q, best, actions, part), n_actions)
        return Vector(best), _Actions(actions), float(download(part)[: grid[0], 1].max())

    def drop(self, value: Vector, distance: float) -> None:
        """See :class:`Table`."""
        _drop[grid_for(value.size)]((self._q, value.data), self._running, distance)


class _Actions:
    """An action for each state, on the GPU."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(download(self.data), dtype=dtype)


@on_device
def _fill(arrays: Any, number: Any) -> None:
    (a,) = arrays
    i = cuda.grid(1)
    while i < a.size:
        a[i] = number
        i += cuda.gridsize(1)


@on_device
def _gather(arrays: Any) -> None:
    q, pairs, out = arrays
    i = cuda.grid(1)
    while i < out.size:
        out[i] = q[pairs[i]]
        i += cuda.gridsize(1)


@on_device
def _pair_of(arrays: Any, n_actions: Any) -> None:
    actions, pairs = arrays
    s = cuda.grid(1)
    while s < pairs.size:
        pairs[s] = s * n_actions + actions[s]
        s += cuda.gridsize(1)


@on_device
def _spread(arrays: Any, running: Any) -> None:
    pairs, starts = arrays
    rows, count = running
    s = cuda.grid(1)
    while s < count.size:
        count[s] = starts[s + 1] - starts[s]
        for i in range(count[s]):
            rows[s, i] = pairs[starts[s] + i]
        s += cuda.gridsize(1)


@on_device
def _greedy(arrays: Any, n_actions: Any) -> None:
    """As ``greedy`` of the operators."""
    q, value, actions, part = arrays
    widest = 0.0
    s = cuda.grid(1)
    while s < value.size:
        best, worst, place = q[s * n_actions], math.inf, 0
        for a in range(n_actions):
            here = q[s * n_actions + a]
            if here > best:
                best, place = here, a
            if -math.inf < here < worst:
                worst = here
        value[s], actions[s] = best, place
        if best - worst > widest:
            widest = best - worst
        s += cuda.gridsize(1)
    range_in_block(0.0, widest, part)


@on_device
def _drop(arrays: Any, running: Any, distance: Any) -> None:
    """As ``keep_close`` of the operators, state by state."""
    q, value = arrays
    rows, count = running
    s = cuda.grid(1)
    while s < value.size:
        kept = 0
        for i in range(count[s]):
            p = rows[s, i]
            if q[p] < value[s] - distance:
                q[p] = -math.inf
            else:
                rows[s, kept] = p
                kept += 1
        count[s] = kept
        s += cuda.gridsize(1)


# -- known models ------------------------------------------------------------------------------------------


class _Slices(NamedTuple):
    """Rows by slices: entry k of the row of state s and action a is at first[s // 32 * A + a] + 32 k + s % 32."""

    first: Any  # [slices + 1]
    indices: Any
    data: Any
    reward: Any  # [slices * 32], -inf where there is no such pair


class GpuExpected(_GpuOperator):
    """A known model: see :class:`~prudent.planning.operators.ExpectedOperator`."""

    def __init__(self, here: ExpectedOperator) -> None:
        super().__init__(here)
        indptr, indices, data, reward = here.rows
        blocks = -(-self.n_states // WARP)
        n_slices = blocks * self.n_actions
        given = tuple(upload(each) for each in (indptr, indices, data, reward))
        lengths = allocate(n_slices, np.int64)
        _measure[grid_for(n_slices)]((given[0], lengths), self.n_states, self.n_actions)
        first = np.zeros(n_slices + 1, dtype=np.int64)
        np.cumsum(download(lengths), out=first[1:])
        self._longest = int(np.diff(first).max()) // WARP
        self._slices = _Slices(
            upload(first),
            allocate(max(1, int(first[-1])), np.int32),
            allocate(max(1, int(first[-1]))),
            allocate(n_slices * WARP),
        )
        _slice[grid_for(n_slices * WARP)](given, self._slices, self.n_states, self.n_actions)
        self._largest_reward = float(abs(reward).max(initial=0.0))

    def control_table(self, pairs: IntArray) -> Any:
        """See :class:`_GpuOperator`: it sweeps."""
        if pairs.size < self.n_states * self.n_actions:
            admissible = np.zeros(self.n_states * self.n_actions, dtype=np.bool_)
            admissible[pairs] = True
            _bar[grid_for(admissible.size)](self._slices, (upload(admissible),), self.n_actions)
        return _SweptTable(self)

    def rounding(self, value: Vector) -> float:
        """Return a bound on the rounding error of a backup at ``value``."""
        return self.here.rounding(self._largest_reward, self.discount * abs(value).max())

    def sweep(self, value: Vector, best: Any, actions: Any) -> None:
        """Write the best Q and action of each state: one kernel, which reads the model once and keeps no Q."""
        _sweep[grid_for(self.n_states)](self._slices, (value.data, best, actions), self.discount, self.n_actions)

    def back_up_pairs(self, value: Vector, pairs: Any, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        _expect_pairs[grid_for(pairs.size)](self._slices, (pairs, value.data, q), self.discount, self.n_actions)
        return self.rounding(value)

    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """See :class:`_GpuOperator`."""
        n = self.n_states
        rows = Rows(allocate((max(1, self._longest), n), np.int32), allocate((max(1, self._longest), n)), allocate(n))
        _pick_rows[grid_for(n)](self._slices, (pairs,), rows, self.n_actions)
        return GpuChain(rows)


class _SweptTable(_GpuTable):
    """The table of a known model for control: the best of each state is all that there is."""

    def back_up(self, value: Vector) -> float:
        """See :class:`Table`."""
        self._best = allocate(value.size)
        self._actions = allocate(value.size, np.int64)
        self._operator.sweep(value, self._best, self._actions)
        return float(self._operator.rounding(value))

    def best(self) -> tuple[Vector, Any, float]:
        """See :class:`Table`; nothing is ever dropped, since a sweep takes as long as reading the model."""
        return Vector(self._best), _Actions(self._actions), 0.0


@on_device
def _bar(slices: Any, arrays: Any, n_actions: Any) -> None:
    """Give pairs that are not admissible a reward of minus infinity."""
    (admissible,) = arrays
    p = cuda.grid(1)
    while p < admissible.size:
        s, a = p // n_actions, p % n_actions
        if not admissible[p]:
            slices.reward[(s // 32 * n_actions + a) * 32 + s % 32] = -math.inf
        p += cuda.gridsize(1)


@on_device
def _measure(arrays: Any, n_states: Any, n_actions: Any) -> None:
    """Write the number of entries of each slice."""
    indptr, lengths = arrays
    i = cuda.grid(1)
    while i < lengths.size:
        block, a = i // n_actions, i % n_actions
        longest = 0
        for s in range(block * 32, min(block * 32 + 32, n_states)):
            longest = max(longest, indptr[s * n_actions + a + 1] - indptr[s * n_actions + a])
        lengths[i] = 32 * longest
        i += cuda.gridsize(1)


@on_device
def _slice(rows: Any, slices: Any, n_states: Any, n_actions: Any) -> None:
    """Move rows into slices."""
    indptr, indices, data, reward = rows
    i = cuda.grid(1)
    while i < slices.reward.size:
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
        i += cuda.gridsize(1)


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
    s = cuda.grid(1)
    while s < value.size:
        top, place = -math.inf, 0
        for a in range(n_actions):
            here = _expected(slices, value, discount, n_actions, s, a)
            if here > top:
                top, place = here, a
        best[s], actions[s] = top, place
        s += cuda.gridsize(1)


@on_device
def _expect_pairs(slices: Any, arrays: Any, discount: Any, n_actions: Any) -> None:
    pairs, value, q = arrays
    i = cuda.grid(1)
    while i < pairs.size:
        p = pairs[i]
        q[p] = _expected(slices, value, discount, n_actions, p // n_actions, p % n_actions)
        i += cuda.gridsize(1)


@on_device
def _pick_rows(slices: Any, arrays: Any, rows: Any, n_actions: Any) -> None:
    (pairs,) = arrays
    s = cuda.grid(1)
    while s < rows.reward.size:
        here = s // 32 * n_actions + pairs[s] % n_actions
        j, end = slices.first[here] + s % 32, slices.first[here + 1]
        rows.reward[s] = slices.reward[here * 32 + s % 32]
        for k in range(rows.data.shape[0]):
            if j < end:
                rows.indices[k, s], rows.data[k, s] = slices.indices[j], slices.data[j]
            else:
                rows.indices[k, s], rows.data[k, s] = 0, 0.0
            j += 32
        s += cuda.gridsize(1)


# -- unknown probabilities ---------------------------------------------------------------------------------


class _GpuOutcomes(_GpuOperator):
    """What the exact, the approximate and the sampled operator share: the entries of an uncertain model."""

    def __init__(self, here: Any, entries: Entries | None = None) -> None:
        """``entries`` are those of ``here`` if they are on the GPU already."""
        super().__init__(here)
        if entries is None:
            arrays = ("source", "first", "next_state", "reward", "begin", "outcome")
            entries = here.entries._replace(**{name: upload(getattr(here.entries, name)) for name in arrays})
        self._entries = entries
        self._longest = int(here.entries.sizes().max())
        self._largest_reward = float(abs(here.entries.reward).max(initial=0.0))

    def control_table(self, pairs: IntArray) -> Any:
        """See :class:`_GpuOperator`."""
        return _RunningTable(self, pairs)

    @abstractmethod
    def back_up_running(self, value: Vector, running: Running, q: Any) -> float:
        """As :meth:`Operator.back_up_best` of the pairs in the running, with all of it on the GPU."""

    def _size(self, value: Vector) -> float:
        """Return what no sum in a backup exceeds."""
        return self._largest_reward + self.discount * abs(value).max()

    def _room(self) -> int:
        """Return the outcomes of a row that kernels make room for."""
        for size in SIZES:
            if size >= self._longest:
                return size
        raise ParameterError(
            f'device="gpu" has room for {SIZES[-1]} outcomes of a pair, this model has {self._longest}'
        )

    def _chain(self, pairs: Any, means: Any, extra: Any) -> GpuChain:
        """Return the chain with probabilities ``means`` by entries, and rewards on top."""
        n = self.n_states
        rows = Rows(allocate((self._longest, n), np.int32), allocate((self._longest, n)), allocate(n))
        _chain_rows[grid_for(n)](self._entries, (pairs, means, extra), rows)
        return GpuChain(rows)


@on_device
def _chain_rows(entries: Any, arrays: Any, rows: Any) -> None:
    pairs, means, extra = arrays
    s = cuda.grid(1)
    while s < rows.reward.size:
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
        s += cuda.gridsize(1)


class GpuExact(_GpuOutcomes):
    """See :class:`~prudent.planning.operators.ExactOperator`."""

    def __init__(self, here: ExactOperator) -> None:
        super().__init__(here)
        n_pairs, n_entries = self.n_states * self.n_actions, here.entries.next_state.size
        self._counts = upload(here.counts)
        self._memory = Memory(
            start=allocate((n_pairs, here.levels.tail.size)),
            upper=allocate(n_pairs),
            best=allocate(self.n_states, np.int64),
            means=allocate(n_entries),
            has_means=allocate(n_pairs, np.bool_),
        )
        start = self._memory.start.reshape(self._memory.start.size)
        for array, number in ((start, math.nan), (self._memory.upper, math.inf), (self._memory.best, -1)):
            _fill[grid_for(array.size)]((array,), number)
        levels = here.levels
        there = {name: upload(getattr(levels, name)) for name in ("tail", "sign", "weight", "z")}
        self._levels = levels._replace(**there)
        self._kernel = _exact_kernel(self._room(), self.n_actions)
        self._bounds_at = self.vector(np.zeros(self.n_states))
        self._risen = 0.0
        self._means_at: Vector | None = None

    def _groups(self, value: Vector, groups: Running, q: Any) -> float:
        """Do ``best_of_group`` for each group of pairs; return the largest error."""
        grid = grid_for(groups.count.size, NARROW)
        part = allocate((grid[0], 2))
        level = (self.here.shape, self.accuracy, self._risen)
        arrays = (self._counts, value.data, q, part)
        self._kernel[grid](groups, self._entries, arrays, self._memory, self._levels, level)
        self._means_at = value
        return float(download(part)[:, 1].max())

    def approximation(self) -> Operator | None:
        """See :meth:`Operator.approximation`; it has the same model, which is there already."""
        rough = self.here.approximation()
        return None if rough is None else GpuApproximate(rough, self._entries, self._counts)

    def back_up_running(self, value: Vector, running: Running, q: Any) -> float:
        """See :class:`_GpuOutcomes`: a thread has a state, and does there what the CPU does."""
        self._risen = self.here.risen(self._risen, self._bounds_at, value)
        self._bounds_at = value
        return self._groups(value, running, q)

    def back_up_pairs(self, value: Vector, pairs: Any, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        return self._groups(value, _single(pairs), q)

    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """See :class:`_GpuOperator`; the tail means are those of the last backup, if it was at ``value``."""
        if self._means_at is not value:
            self.back_up_pairs(value, pairs, allocate(self.n_states * self.n_actions))
        return self._chain(pairs, self._memory.means, allocate(0))


@functools.cache
def _exact_kernel(room: int, n_actions: int) -> Any:
    """Return the kernel for rows of up to ``room`` outcomes: a thread has a group of pairs."""

    @on_device
    def exact(groups: Any, entries: Any, arrays: Any, memory: Any, levels: Any, level: Any) -> None:
        counts, value, q, part = arrays
        y = cuda.local.array(room, numba.float64)
        work = cuda.local.array((SCRATCH, room), numba.float64)
        guess = cuda.local.array(n_actions, numba.float64)
        means = cuda.local.array(room, numba.float64)
        scratch = Scratch(y, work, means, guess)
        shape, accuracy, risen = level
        worst = 0.0
        i = cuda.grid(1)
        while i < groups.count.size:
            pairs = groups.pairs[i, : groups.count[i]]
            error = best_of_group(pairs, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q)
            worst = max(worst, error)
            i += cuda.gridsize(1)
        range_in_block(0.0, worst, part)

    return exact


class GpuApproximate(_GpuOutcomes):
    """See :class:`~prudent.planning.operators.ApproximateOperator`."""

    def __init__(self, here: ApproximateOperator, entries: Entries | None = None, counts: Any = None) -> None:
        """``entries`` and ``counts`` are those of ``here`` if they are on the GPU already."""
        super().__init__(here, entries)
        self._counts = upload(here.counts) if counts is None else counts
        self._kernels = _approximate_kernels(self._room())

    def back_up_running(self, value: Vector, running: Running, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        grid = grid_for(running.count.size, NARROW)
        self._kernels[0][grid](running, self._entries, (self._counts, value.data, q), self.here.shape)
        return self.here.rounding(self._size(value))

    def back_up_pairs(self, value: Vector, pairs: Any, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        return self.back_up_running(value, _single(pairs), q)

    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """See :class:`_GpuOperator`."""
        means = allocate(self.here.entries.next_state.size)
        arrays = (self._counts, value.data, pairs, means)
        self._kernels[1][grid_for(pairs.size, NARROW)](self._entries, arrays, self.here.shape)
        return self._chain(pairs, means, allocate(0))


def _single(pairs: Any) -> Running:
    """Return groups of one pair each."""
    ones = allocate(pairs.size, np.int64)
    _fill[grid_for(pairs.size)]((ones,), 1)
    return Running(pairs.reshape(pairs.size, 1), ones)


@functools.cache
def _approximate_kernels(room: int) -> tuple[Any, Any]:
    """Return the kernels for rows of up to ``room`` outcomes: for Q, and for its gradient."""

    @on_device
    def values(running: Any, entries: Any, arrays: Any, shape: Any) -> None:
        counts, value, q = arrays
        y = cuda.local.array(room, numba.float64)
        s = cuda.grid(1)
        while s < running.count.size:
            for i in range(running.count[s]):
                p = running.pairs[s, i]
                consequences(p, entries, value, y)
                row = counts_of(p, entries, counts)
                low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
                q[p] = rough_tail(low, mean, sd, skew, shape)
            s += cuda.gridsize(1)

    @on_device
    def gradients(entries: Any, arrays: Any, shape: Any) -> None:
        counts, value, pairs, means = arrays
        y = cuda.local.array(room, numba.float64)
        i = cuda.grid(1)
        while i < pairs.size:
            consequences(pairs[i], entries, value, y)
            row = counts_of(pairs[i], entries, counts)
            first = entries.first[pairs[i]]
            rough_tail_means(y[: row.size], row, shape, means[first : first + row.size])
            i += cuda.gridsize(1)

    return values, gradients


class GpuSampled(_GpuOutcomes):
    """See :class:`~prudent.planning.operators.SampledOperator`: a block of threads has a pair, a thread some draws."""

    puts_off_q = False  # a solution does not keep the draws that it would need

    def __init__(self, here: SampledOperator) -> None:
        super().__init__(here)
        draws = here.theta
        self._theta = allocate((int(here.entries.begin[-1]), draws.n))
        for block, (first, last) in enumerate(draws.edges):
            slots = slice(int(here.entries.begin[first]), int(here.entries.begin[last]))
            if slots.stop > slots.start:
                self._theta[slots] = upload(draws.block(block)) if SIMULATED else draws.block(block)
        weights = here.weights
        if here.draws < 0:  # of the highest draws, but ranks count from the lowest
            weights = np.concatenate([np.zeros(draws.n - weights.size), weights[::-1]])
        self._rewards, self._weights = upload(here.rewards), upload(weights)
        self._largest_reward += float(abs(here.rewards).max(initial=0.0))
        blocks = grid_for(self.n_states * self.n_actions * NARROW, NARROW)[0]
        self._grid = (blocks, 1 if SIMULATED else NARROW)
        self._given = (self._theta, self._rewards, self._weights)
        self._scratch = (allocate((blocks, draws.n)), allocate((blocks, draws.n)), allocate((blocks, 2)))

    def back_up_running(self, value: Vector, running: Running, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        arrays = (value.data, q)
        _sampled[self._grid](running, self._entries, self._given, self._scratch, arrays, self.here.is_mean)
        return self.here.rounding(self._size(value))

    def back_up_pairs(self, value: Vector, pairs: Any, q: Any) -> float:
        """See :class:`_GpuOperator`."""
        return self.back_up_running(value, _single(pairs), q)

    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """See :class:`_GpuOperator`."""
        means, extra = allocate(self.here.entries.next_state.size), allocate(self.n_states)
        arrays = (value.data, pairs, means, extra)
        _sampled_means[self._grid](self._entries, self._given, self._scratch, arrays, self.here.is_mean)
        return self._chain(pairs, means, extra)


@cuda.jit(device=True)
def _weigh(p: Any, entries: Any, given: Any, scratch: Any, value: Any, is_mean: Any) -> None:
    """Write Z_1, ..., Z_N of pair p and their weights into this block's rows of the scratch."""
    theta, rewards, weights = given
    z, weight, _ = scratch
    mine, n = cuda.blockIdx.x, theta.shape[1]
    first, slot = entries.first[p], entries.begin[entries.source[p]]
    size = entries.first[p + 1] - first
    i = cuda.threadIdx.x
    while i < n:
        total = rewards[p, i] if rewards.size > 0 else 0.0
        for j in range(size):
            target = entries.next_state[first + j]
            later = entries.discount * value[target] if target >= 0 else 0.0
            total += theta[slot + j, i] * (entries.reward[first + j] + later)
        z[mine, i] = total
        i += cuda.blockDim.x
    cuda.syncthreads()
    i = cuda.threadIdx.x
    while i < n:
        here, rank = z[mine, i], 0
        if is_mean:
            weight[mine, i] = weights[0]
        else:
            for j in range(n):  # how many come before it
                other = z[mine, j]
                if other < here or (other == here and j < i):
                    rank += 1
            weight[mine, i] = weights[rank] if rank < weights.size else 0.0
        i += cuda.blockDim.x
    cuda.syncthreads()


@on_device
def _sampled(running: Any, entries: Any, given: Any, scratch: Any, arrays: Any, is_mean: Any) -> None:
    value, q = arrays
    z, weight, part = scratch
    n_actions = running.pairs.shape[1]
    t = cuda.blockIdx.x
    while t < running.pairs.size:
        if t % n_actions < running.count[t // n_actions]:
            p = running.pairs[t // n_actions, t % n_actions]
            _weigh(p, entries, given, scratch, value, is_mean)
            total = 0.0
            i = cuda.threadIdx.x
            while i < z.shape[1]:
                total += weight[cuda.blockIdx.x, i] * z[cuda.blockIdx.x, i]
                i += cuda.blockDim.x
            sum_in_block(total, 0.0, part)
            if cuda.threadIdx.x == 0:
                q[p] = part[cuda.blockIdx.x, 0]
            cuda.syncthreads()
        t += cuda.gridDim.x


@on_device
def _sampled_means(entries: Any, given: Any, scratch: Any, arrays: Any, is_mean: Any) -> None:
    value, pairs, means, extra = arrays
    theta, rewards, _ = given
    _, weight, part = scratch
    s = cuda.blockIdx.x
    while s < pairs.size:
        p = pairs[s]
        _weigh(p, entries, given, scratch, value, is_mean)
        first, slot = entries.first[p], entries.begin[entries.source[p]]
        for j in range(entries.first[p + 1] - first + 1):  # after the outcomes comes the reward that was drawn
            total = 0.0
            i = cuda.threadIdx.x
            while i < theta.shape[1]:
                if first + j < entries.first[p + 1]:
                    total += weight[cuda.blockIdx.x, i] * theta[slot + j, i]
                elif rewards.size > 0:
                    total += weight[cuda.blockIdx.x, i] * rewards[p, i]
                i += cuda.blockDim.x
            sum_in_block(total, 0.0, part)
            if cuda.threadIdx.x == 0:
                if first + j < entries.first[p + 1]:
                    means[first + j] = part[cuda.blockIdx.x, 0]
                else:
                    extra[s] = part[cuda.blockIdx.x, 0]
            cuda.syncthreads()
        s += cuda.gridDim.x


_THERE: dict[type[Operator], Any] = {
    ExactOperator: GpuExact,
    ApproximateOperator: GpuApproximate,
    SampledOperator: GpuSampled,
    ExpectedOperator: GpuExpected,
}
