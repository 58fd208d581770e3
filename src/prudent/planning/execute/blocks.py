"""Backups on the workers of a cluster, in blocks of states; the iteration stays in this process.

A backup sends V to the workers. They return the best Q of each state and the rows of the Newton chain for its action,
which the backup computes as well. The chain is solved in this process. The iteration, its certificate and its result
are therefore those of one machine.

A block is the result of a dask task: if its worker dies, another worker computes it again. The state of earlier backups
(starting points, bounds on Q, dropped pairs) is not part of that result. It stays with the worker, and a copy of the
block starts without it, which costs time but no accuracy.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ..._numerics.compile import default_threads
from ..._support.checks import BoolArray, FloatArray, IntArray
from ..._support.pool import Pool, work
from ...models.entries import Entries
from ...models.uncertain import UncertainMDP
from ..chain import Chain
from ..row_risks import DirichletRows, MeanRows, RowRisk
from .executor import Executor
from .threads import Table, Threads

SENT_BYTES = 2**20  # values V up to this size go with each task
EXACT, MOMENTS, MEAN = "exact", "moments", "mean"  # the row risks of a block
SHORT_BLOCK = 2**20  # outcomes in a block whose backups take less than a second or so
Function = TypeVar("Function", bound=Callable[..., Any])


# -- on a worker -------------------------------------------------------------------------------------------


class BlockModel:
    """Some states of a model in the form that row risks read: pairs count from 0, next states are global."""

    def __init__(self, entries: Entries, counts: FloatArray, n_states: int) -> None:
        """``counts`` [B, K] of the sources of these states; ``n_states`` of all blocks."""
        self.entries = Entries(*(_writable(field) for field in entries))
        self.counts = _writable(counts)
        self.n_states, self.n_actions = n_states, entries.n_actions
        self.source = self.entries.source.reshape(-1, entries.n_actions)
        self.admissible = self.source >= 0
        self.discount = entries.discount
        self.n_outcomes = counts.shape[1]
        self.survival = None  # transitions take one unit of time, see ``require_unit_durations``

    def __reduce__(self) -> Any:
        return BlockModel, (self.entries, self.counts, self.n_states)

    @classmethod
    def of_model(cls, model: UncertainMDP, counts: FloatArray, first: int, last: int) -> BlockModel:
        """Return the states from ``first`` to before ``last`` of a model with ``counts`` [B, K]."""
        of, begin, end = model.entries, first * model.n_actions, last * model.n_actions
        source = of.source[begin:end]
        used, places = np.unique(source[source >= 0], return_inverse=True)
        own = np.full(source.size, -1)
        own[source >= 0] = places
        sizes = np.diff(of.begin)[used]
        slots = np.concatenate(([0], np.cumsum(sizes)))
        outcome = of.outcome[np.arange(slots[-1]) + np.repeat(of.begin[used] - slots[:-1], sizes)]
        mine = slice(of.first[begin], of.first[end])
        starts = of.first[begin : end + 1] - of.first[begin]
        entries = Entries(own, starts, of.next_state[mine], of.reward[mine], slots, outcome, of.discount, of.n_actions)
        return cls(entries, counts[used], model.n_states)


class Job(NamedTuple):
    """One solve: a unique id and its risk level."""

    name: str
    alpha: float

    @classmethod
    def new(cls, alpha: float) -> Job:
        """Return a job with a unique id."""
        return cls(uuid.uuid4().hex, alpha)


class Block:
    """A block of states on its worker, with the executors of one solve and their state."""

    def __init__(self, model: BlockModel) -> None:
        self.model = model
        self.lock = threading.Lock()  # two tasks of one solve may meet
        self._job: Job | None = None
        self._executors: dict[str, Threads] = {}
        self._tables: dict[str, tuple[int, Table]] = {}  # with the number of the last backup

    def __reduce__(self) -> Any:
        return Block, (self.model,)  # a copy starts without the state of earlier backups

    def __sizeof__(self) -> int:
        # dask decides by this size whether to move the block
        arrays = [*self.model.entries, self.model.counts]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    def executor(self, job: Job, kind: str) -> Threads:
        """Return the executor of a kind; each solve has its own, so that it does not depend on earlier solves."""
        if job != self._job:
            self._job, self._executors, self._tables = job, {}, {}
        if kind not in self._executors:
            self._executors[kind] = Threads(_rows_of_kind(cast(Any, self.model), self.model.counts, kind, job.alpha))
        return self._executors[kind]

    def table(self, job: Job, kind: str, turn: int, distance: float) -> Table:
        """Return the table for backup number ``turn`` of a solve, the first being 1.

        The table of the backup before loses the pairs whose Q was further than ``distance`` below the best of their
        state. The table of a copy has all pairs.
        """
        executor = self.executor(job, kind)
        last, table = self._tables.get(kind, (-1, None))
        if table is None or turn == 1:
            table = executor.table(np.flatnonzero(self.model.admissible), True, len(self.model.source))
        elif last == turn - 1 and distance < np.inf:
            table.drop(table.best()[0], distance)
        self._tables[kind] = turn, table
        return table


def _rows_of_kind(model: UncertainMDP, counts: FloatArray, kind: str, alpha: float) -> RowRisk:
    """Return the row risk of a model with Dirichlet ``counts`` [B, K]; ``alpha`` is positive except for the mean."""
    if kind == MEAN:
        return MeanRows.of_outcomes(model, counts / counts.sum(axis=1, keepdims=True))
    exact = DirichletRows(model, counts, alpha)
    rows = exact if kind == EXACT else exact.approximation()
    assert rows is not None
    return rows


def _one_at_a_time(task: Function) -> Function:
    """Make a task, whose last argument is a block, wait for other tasks on the same block."""

    @functools.wraps(task)
    def locked(*arguments: Any) -> Any:
        with arguments[-1].lock:
            return task(*arguments)

    return cast(Function, locked)


@_one_at_a_time
def _facts(i: int, job: Job, kind: str, block: Block) -> tuple[BoolArray, tuple[float, float], int]:
    """Return which pairs of a block are admissible, their leaks, and how many outcomes it has."""
    return block.model.admissible, block.executor(job, kind).leaks, block.model.entries.outcome.size


@_one_at_a_time
def prepare(job: Job, block: Block) -> None:
    """Allocate the memory of the exact risk before its first backup."""
    _ = block.executor(job, EXACT).rows.memory


@_one_at_a_time
def _back_up_best(
    i: int, job: Job, kind: str, accuracy: float, turn: int, distance: float, value: FloatArray, block: Block
) -> tuple[float, FloatArray, IntArray, float, Chain]:
    """Back a block up; return the error, the best Q with its actions and widest gap, and the chain of these actions."""
    value = _writable(value)
    table = block.table(job, kind, turn, distance)
    block.executor(job, kind).accuracy = accuracy
    error = table.back_up(value)
    best, actions, gap = table.best()
    return error, best, actions.astype(np.int32), gap, table.linearise(value, actions)


@_one_at_a_time
def _back_up(
    i: int, job: Job, kind: str, accuracy: float, pairs: IntArray, value: FloatArray, block: Block
) -> tuple[FloatArray, float, Chain]:
    """Return Q of some pairs of a block, a bound on its error, and the chain that these pairs make."""
    executor, pairs, value = block.executor(job, kind), pairs.astype(np.int64), _writable(value)
    executor.accuracy = accuracy
    q = np.full(block.model.source.size, -np.inf)
    error = executor.backup(value, pairs, q)
    return q[pairs], error, executor.linearise(value, pairs)


@_one_at_a_time
def _linearise(i: int, job: Job, kind: str, accuracy: float, pairs: IntArray, value: FloatArray, block: Block) -> Chain:
    """Return the rows of the chain that some pairs of a block make."""
    executor = block.executor(job, kind)
    executor.accuracy = accuracy
    return executor.linearise(_writable(value), pairs.astype(np.int64))


def _writable(what: Any) -> Any:
    """Return a writable array: kernels would be compiled once more for read-only arrays."""
    return np.require(what, requirements=["C", "W"]) if isinstance(what, np.ndarray) else what


# -- in this process ---------------------------------------------------------------------------------------


class Blocks(Executor):
    """Backups by the workers of a pool, each for blocks of states.

    Parameters
    ----------
    blocks : BlockSet
        The blocks and the solve that they are for.
    kind : {"exact", "moments", "mean"}
        The row risk.
    model : object
        Has n_states, n_actions and discount.
    counts : ndarray of shape (B, K), optional
        Dirichlet counts of ``model``, if all of it is in this process: the approximation is then solved here.
    """

    def __init__(self, blocks: BlockSet, kind: str, model: Any, counts: FloatArray | None = None) -> None:
        self.n_states, self.n_actions, self.discount = model.n_states, model.n_actions, model.discount
        self.leaks, self.refines, self.lazy_q = blocks.leaks, False, True
        self.costly, self.approximate = kind != MOMENTS, kind == MOMENTS
        self.threads = default_threads()  # with which Q is computed when it is read
        self.edges = blocks.edges
        self._blocks, self._kind, self._model, self._counts = blocks, kind, model, counts
        self._last: tuple[FloatArray, IntArray, Chain] | None = None  # V, pairs and chain of the last backup

    def ask(
        self, task: Callable[..., Any], value: FloatArray, parts: dict[int, tuple[Any, ...]], keep: Callable[..., None]
    ) -> None:
        """Run ``task`` at ``value`` on the blocks in ``parts``, which has their arguments; call ``keep(i, answer)``."""
        job, pool, blocks, edges = self._blocks[:4]
        sizes, done = np.diff(edges), 0
        # each worker has one block, so a small V is sent with the task
        value = value if value.nbytes <= SENT_BYTES else pool.share(value)

        def kept(piece: tuple[Any, ...], answer: Any) -> None:
            nonlocal done
            keep(piece[0], answer)
            done += sizes[piece[0]]
            if self.tell is not None:
                self.tell(done / sizes[list(parts)].sum())

        pieces = ((i, job, self._kind, self.accuracy, *more, value, blocks[i]) for i, more in parts.items())
        work(pool, task, pieces, kept)

    def _by_block(self, pairs: IntArray) -> tuple[dict[int, slice], dict[int, tuple[IntArray]]]:
        """Return the slices of ascending ``pairs`` that belong to each block, and their numbers in the block."""
        cuts = np.searchsorted(pairs, self.edges * self.n_actions).tolist()
        slices = {i: slice(*cut) for i, cut in enumerate(pairwise(cuts)) if cut[0] < cut[1]}
        own = {i: ((pairs[part] - self.edges[i] * self.n_actions).astype(np.int32),) for i, part in slices.items()}
        return slices, own

    def remark(self, value: FloatArray, pairs: IntArray) -> str:
        """See ``Executor.remark``: the rows are with the workers, and have none."""
        return ""

    def measure_error(self, value: FloatArray) -> float:
        """See ``Executor.measure_error``: the measure is CVaR itself."""
        return 0.0

    def approximation(self) -> Executor | None:
        """See ``Executor.approximation``."""
        if self._counts is None:
            return None
        return Threads(_rows_of_kind(self._model, self._counts, MOMENTS, self._blocks.job.alpha), self.threads)

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See ``Executor.backup``."""
        worst, chains = 0.0, {}
        slices, own = self._by_block(pairs)

        def keep(i: int, answer: tuple[FloatArray, float, Chain]) -> None:
            nonlocal worst
            q[pairs[slices[i]]], error, chains[i] = answer
            worst = max(worst, error)

        self.ask(_back_up, value, own, keep)
        self.note(value, pairs, chains)
        return worst

    def note(self, value: FloatArray, pairs: IntArray, chains: dict[int, Chain]) -> None:
        """Keep the chains of the blocks for ``linearise``."""
        self._last = value.copy(), pairs, _joined([chains[i] for i in sorted(chains)])

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``Executor.linearise``."""
        if self._last is None or not all(map(np.array_equal, (value, pairs), self._last[:2])):
            chains: dict[int, Chain] = {}
            self.ask(_linearise, value, self._by_block(pairs)[1], chains.__setitem__)
            self.note(value, pairs, chains)
        assert self._last is not None
        return self._last[2]

    def table(self, pairs: IntArray, control: bool) -> Any:
        """See ``Executor.table``."""
        return BlockTable(self) if control else Table(self, pairs, control)


class BlockTable:
    """The table of ``prudent.planning.execute.threads.Table`` for control, distributed over the blocks.

    A backup sends V and receives the best Q of each state with its chain; pairs and Q stay on the workers.
    """

    def __init__(self, executor: Blocks) -> None:
        self._executor = executor
        self._turn = 0
        self._distance = np.inf

    def back_up(self, value: FloatArray) -> float:
        """See ``Table``."""
        self._turn += 1
        blocks = range(self._executor.edges.size - 1)
        answers: dict[int, tuple[float, FloatArray, IntArray, float, Chain]] = {}
        more = dict.fromkeys(blocks, (self._turn, self._distance))
        self._executor.ask(_back_up_best, value, more, answers.__setitem__)
        errors, best, chosen, gaps, chains = zip(*(answers[i] for i in blocks), strict=True)
        self._distance = np.inf
        self._best = np.concatenate(best), np.concatenate(chosen).astype(np.int64), max(gaps)
        self._executor.note(value, self._pairs(self._best[1]), dict(enumerate(chains)))
        return max(errors)

    def _pairs(self, actions: IntArray) -> IntArray:
        return np.arange(actions.size) * self._executor.n_actions + actions

    def best(self) -> tuple[FloatArray, IntArray, float]:
        """See ``Table``."""
        return self._best

    def drop(self, value: FloatArray, distance: float) -> None:
        """See ``Table``; ``value`` is the best of the last backup, and what follows happens before the next."""
        self._distance = distance

    def linearise(self, value: FloatArray, actions: IntArray) -> Chain:
        """See ``Table``."""
        return self._executor.linearise(value, self._pairs(actions))


def _joined(parts: Sequence[Chain]) -> Chain:
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return Chain(
        np.concatenate(([0], np.cumsum(sizes))),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data", "reward")),
    )


class BlockSet(NamedTuple):
    """Blocks of a model on workers, and the solve that they are for."""

    job: Job
    pool: Pool
    blocks: list[Any]
    edges: IntArray
    admissible: BoolArray  # [S, A]
    leaks: tuple[float, float]

    @classmethod
    def of(cls, job: Job, pool: Pool, blocks: list[Any], edges: IntArray, kind: str) -> BlockSet:
        """Return the set of ``blocks`` with their admissible pairs and leaks."""
        facts: dict[int, tuple[BoolArray, tuple[float, float], int]] = {}
        pieces = ((i, job, kind, block) for i, block in enumerate(blocks))
        work(pool, _facts, pieces, lambda piece, answer: facts.__setitem__(piece[0], answer))
        admissible, leaks, sizes = zip(*(facts[i] for i in range(len(blocks))), strict=True)
        least, greatest = zip(*leaks, strict=True)
        placed = seats(pool, blocks, sizes)
        return cls(job, pool, placed, edges, np.concatenate(admissible), (min(least), max(greatest)))


def seats(pool: Pool, blocks: list[Any], sizes: Sequence[int]) -> list[Any]:
    """Return handles of blocks with these numbers of outcomes: actors for short work, else tasks.

    An adaptive cluster shrinks when there are no tasks, so long work must be tasks.
    """
    return [pool.seat(block) for block in blocks] if max(sizes) <= SHORT_BLOCK else blocks
