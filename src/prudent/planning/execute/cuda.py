"""Backups on a GPU: the model is uploaded once, iterations stay on the GPU, and the solution is downloaded.

The iteration is that of ``prudent.planning.newton``. Rows are computed by the functions of ``prudent.planning.rows``: a
thread works on one state or one pair at a time and calls the same functions as the CPU. The kernels of each row risk
are in ``prudent.planning.execute.cuda_rows``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._numerics.gpu import BLOCKS, Vector, allocate, cuda, download, grid_for, on_device, range_in_block, upload
from ..._support.checks import FloatArray, IntArray
from ...errors import ParameterError
from ..row_risks import RowRisk
from .cuda_chain import GpuChain
from .cuda_rows import Candidates, device_rows, fill, single_pairs
from .executor import Executor


class Cuda(Executor):
    """Backups on the GPU, where Q of all pairs is an array [S*A].

    Parameters
    ----------
    rows : RowRisk
        The risk of single rows.
    threads : int, default=1
        Number of threads on the host.
    leaks : tuple of float, optional
        Bounds on 1 - row sum; by default those of ``rows``.
    device : optional
        ``rows`` on the GPU, if they were uploaded before.
    """

    def __init__(
        self, rows: RowRisk, threads: int = 1, leaks: tuple[float, float] | None = None, device: Any = None
    ) -> None:
        super().__init__(rows, threads)
        self.refines = False
        self.leaks = rows.leaks if leaks is None else leaks
        self.device = device_rows(rows) if device is None else device
        self.lazy_q = self.device.lazy_q

    @classmethod
    def of(cls, executor: Executor) -> Cuda:
        """Return an executor with the same rows, leaks and threads on the GPU."""
        if getattr(executor.rows, "survival", None) is not None:
            message = "device='gpu' solves models whose transitions all take one unit of time; use device='cpu'"
            raise ParameterError(message, code="durations", argument="device")
        if getattr(executor.rows, "sd", None) is not None:
            message = (
                "device='gpu' has no exact operator for unknown rewards; use device='cpu', draws, or certain rewards"
            )
            raise ParameterError(message, code="conflicting-arguments", argument="device")
        return executor if isinstance(executor, cls) else cls(executor.rows, executor.threads, executor.leaks)

    def vector(self, value: FloatArray) -> Vector:
        """See ``Executor.vector``."""
        return value if isinstance(value, Vector) else Vector(upload(np.asarray(value, dtype=np.float64)))

    def table(self, pairs: IntArray, control: bool) -> GpuTable:
        """See ``Executor.table``."""
        if not control and pairs.size != self.n_states:
            message = 'policy mixes actions; device="gpu" evaluates policies with one action for each state'
            raise ParameterError(message, code="gpu-stochastic-policy", argument="policy")
        return GpuTable(self, pairs, control)

    def backup(self, value: Any, pairs: IntArray, q: FloatArray) -> float:
        """See ``Executor.backup``; ``q`` is an array on the host."""
        uploaded = allocate(self.n_states * self.n_actions)
        error = self.device.back_up(self.vector(value), single_pairs(upload(pairs)), uploaded, self.accuracy)
        q[pairs] = download(uploaded)[pairs]
        return float(error)

    def linearise(self, value: Any, pairs: IntArray) -> GpuChain:
        """See ``Executor.linearise``."""
        return self.chain(self.vector(value), upload(pairs))

    def chain(self, value: Vector, pairs: Any) -> GpuChain:
        """As ``linearise``, with value and pairs on the GPU."""
        chain: GpuChain = self.device.chain(value, pairs, self.accuracy)
        return chain

    def approximation(self) -> Cuda | None:
        """See ``Executor.approximation``; it shares the arrays of the model."""
        device = self.device.approximation()
        return None if device is None else Cuda(device.rows, self.threads, device=device)


class GpuTable:
    """As ``prudent.planning.execute.threads.Table``, on the GPU."""

    def __init__(self, executor: Cuda, pairs: IntArray, control: bool) -> None:
        self._executor, self._device = executor, executor.device
        n_states, n_actions = executor.n_states, executor.n_actions
        self._best: tuple[Vector, Any, float] | None = None
        self._sweeps = control and self._device.sweeps
        if self._sweeps:  # limited by memory bandwidth: it stores no Q and drops no pairs
            self._device.bar(pairs)
            return
        self._q = allocate(n_states * n_actions)
        fill(self._q, -math.inf)
        self._control = control
        self._pairs = upload(pairs)
        self._candidates = single_pairs(self._pairs)
        if control:
            count = np.diff(np.searchsorted(pairs, np.arange(n_states + 1) * n_actions))
            rows = np.zeros((n_states, n_actions), dtype=np.int64)
            rows[np.arange(n_actions) < count[:, np.newaxis]] = pairs
            self._candidates = Candidates(upload(rows), upload(count))

    def back_up(self, value: Vector) -> float:
        """See ``Table``."""
        if self._sweeps:
            error, self._best = self._device.sweep(value)
            return float(error)
        return float(
            self._device.back_up(value, self._candidates, self._q, self._executor.accuracy, best=self._control)
        )

    def of_pairs(self) -> Vector:
        """See ``Table``."""
        out = allocate(self._pairs.size)
        _gather[grid_for(out.size)]((self._q, self._pairs, out))
        return Vector(out)

    def best(self) -> tuple[Vector, Any, float]:
        """See ``Table``."""
        if self._best is not None:
            return self._best
        n_states, n_actions = self._executor.n_states, self._executor.n_actions
        best, actions, part = allocate(n_states), allocate(n_states, np.int64), allocate((BLOCKS, 2))
        grid = grid_for(n_states)
        _greedy[grid]((self._q, best, actions, part), n_actions)
        return Vector(best), Vector(actions), float(download(part)[: grid[0], 1].max())

    def drop(self, value: Vector, distance: float) -> None:
        """See ``Table``."""
        _drop[grid_for(value.size)]((self._q, value.data), self._candidates, distance)

    def linearise(self, value: Vector, actions: Any) -> GpuChain:
        """See ``Table``."""
        pairs = allocate(self._executor.n_states, np.int64)
        chosen = actions.data if isinstance(actions, Vector) else upload(actions)
        _pair_of[grid_for(pairs.size)]((chosen, pairs), self._executor.n_actions)
        return self._executor.chain(value, pairs)


@on_device
def _gather(arrays: Any) -> None:
    q, pairs, out = arrays
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = q[pairs[i]]


@on_device
def _pair_of(arrays: Any, n_actions: Any) -> None:
    actions, pairs = arrays
    for s in range(cuda.grid(1), pairs.size, cuda.gridsize(1)):
        pairs[s] = s * n_actions + actions[s]


@on_device
def _greedy(arrays: Any, n_actions: Any) -> None:
    """As ``greedy`` of ``prudent.planning.rows``."""
    q, value, actions, part = arrays
    widest = 0.0
    for s in range(cuda.grid(1), value.size, cuda.gridsize(1)):
        best, worst, action = q[s * n_actions], math.inf, 0
        for a in range(n_actions):
            here = q[s * n_actions + a]
            if here > best:
                best, action = here, a
            if -math.inf < here < worst:
                worst = here
        value[s], actions[s] = best, action
        if best - worst > widest:
            widest = best - worst
    range_in_block(0.0, widest, part)


@on_device
def _drop(arrays: Any, candidates: Any, distance: Any) -> None:
    """As ``keep_close`` of ``prudent.planning.rows``, state by state."""
    q, value = arrays
    rows, count = candidates
    for s in range(cuda.grid(1), value.size, cuda.gridsize(1)):
        kept = 0
        for i in range(count[s]):
            p = rows[s, i]
            if q[p] < value[s] - distance:
                q[p] = -math.inf
            else:
                rows[s, kept] = p
                kept += 1
        count[s] = kept
