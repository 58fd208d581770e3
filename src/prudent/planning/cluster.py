"""Solves on a cluster: blocks of states on its workers, the solver here.

A backup sends V out and brings back the best of Q in each state, and the rows of the Newton chain for its action,
which the worker has found on the way; the chain is solved here. So the solver, its certificate and its answer are those
of one machine: what is here is one more implementation of :class:`prudent.planning.operators.Operator`.

A block is the value of a task of dask: should its worker die, another one makes it again. What the exact operator
remembers of earlier backups (where to start, bounds on Q, pairs that are out) is not part of that value. It stays where
it arose, and a copy of the block begins without it, which costs time and no digits.

The blocks of a model that is here stay on the workers until the client sends those of another: the next level or policy
finds them there.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, Unpack, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads
from .._numerics.krylov import Chain
from .._support.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    discount_factor,
    finite_array,
    integer_array,
    number_array,
    refuse,
    require_shape,
    risk_level,
    whole_number,
)
from .._support.cluster import on_cluster
from .._support.pool import Pool, on_threads, work
from ..errors import ModelError, ParameterError, PrudentError
from ..models.base import TabularModel
from ..models.entries import END, NONE, Entries
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from .fixed_point import rough_guess, solve_operator
from .operators import ExactOperator, ExpectedOperator, Operator, Table, leaks_of
from .options import SolverKeywords, SolverOptions
from .solution import Solution

__all__ = ["ClusterModel", "cluster_operator"]

BLOCKS = 1  # for each thread of the cluster: each costs ten milliseconds a backup
BESIDE = 2**20  # bytes of V that go with each task
EXACT, ROUGH, MEAN = "exact", "rough", "mean"  # the operators of a block
BRIEF = 2**20  # outcomes in a block whose backups take less than a second or so
Build = Callable[[int, int], tuple[Any, Any, Any]]
Task = TypeVar("Task", bound=Callable[..., Any])


# -- on a worker -------------------------------------------------------------------------------------------


class Rows:
    """Some states of a model, as operators read a model: pairs count from 0, next states are those of the whole."""

    def __init__(self, entries: Entries, counts: FloatArray, n_states: int) -> None:
        """``counts`` [B, K] of the sources of these states; ``n_states`` of the whole model."""
        self.entries = Entries(*(_writable(each) for each in entries))
        self.counts = _writable(counts)
        self.n_states, self.n_actions = n_states, entries.n_actions
        self.source = self.entries.source.reshape(-1, entries.n_actions)
        self.admissible = self.source >= 0
        self.discount = entries.discount
        self.n_outcomes = counts.shape[1]

    def __reduce__(self) -> Any:
        return Rows, (self.entries, self.counts, self.n_states)

    @classmethod
    def of_model(cls, model: UncertainMDP, counts: FloatArray, first: int, last: int) -> Rows:
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

    @classmethod
    def built(cls, build: Build, first: int, last: int, n_states: int, n_actions: int, discount: float) -> Rows:
        """Return the states that ``build`` describes; see :class:`ClusterModel`."""
        answer = build(first, last)
        try:
            next_state, reward, counts = answer
        except (TypeError, ValueError):
            raise ModelError(
                f"build({first}, {last}) returned {type(answer).__name__}, expected (next_state, reward, counts)"
            ) from None
        try:
            return cls._read(next_state, reward, counts, first, last, n_states, n_actions, discount)
        except PrudentError as error:
            raise type(error)(f"build({first}, {last}): {error}") from None

    @classmethod
    def _read(
        cls,
        next_state: Any,
        reward: Any,
        counts: Any,
        first: int,
        last: int,
        n_states: int,
        n_actions: int,
        discount: float,
    ) -> Rows:
        leads = integer_array(next_state, "next_state", ndim=3, error=ModelError)
        shape = (last - first, n_actions, leads.shape[2])
        require_shape(leads, "next_state", shape, "[n, A, K]", error=ModelError)
        expected = f"a state from 0 to {n_states - 1}, or -1 for no such outcome, or -2 for the end"
        refuse((leads < END) | (leads >= n_states), leads, "next_state", expected, error=ModelError)
        exists = leads != NONE
        admissible = exists.any(axis=2)
        stuck = ~admissible.any(axis=1)
        if stuck.any():
            raise ModelError(f"state {first + int(np.argmax(stuck))} has no action with an outcome")
        earned = number_array(reward, "reward", error=ModelError)
        if earned.ndim == 2:
            require_shape(earned, "reward", shape[:2], "[n, A]", error=ModelError)
            earned = np.broadcast_to(earned[:, :, None], shape)
        require_shape(earned, "reward", shape, "[n, A, K]", error=ModelError)
        refuse(exists & ~np.isfinite(earned), earned, "reward", "a finite number", error=ModelError)
        known = finite_array(counts, "counts", ndim=3, error=ModelError)
        require_shape(known, "counts", shape, "[n, A, K]", error=ModelError)
        refuse((known != 0.0) & ~exists, known, "counts", "0 where there is no such outcome", error=ModelError)
        own = DirichletPosterior(known[admissible]).counts  # raises if these are no counts
        sizes = exists.sum(axis=2).reshape(-1)
        source = np.where(admissible.reshape(-1), np.cumsum(admissible) - 1, -1)
        outcomes = np.broadcast_to(np.arange(shape[2], dtype=np.int32), shape)[exists]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        slots = np.concatenate(([0], np.cumsum(sizes[source >= 0])))
        entries = Entries(
            source, starts, leads[exists].astype(np.int32), earned[exists], slots, outcomes, discount, n_actions
        )
        return cls(entries, own, n_states)


class Job(NamedTuple):
    """A solve."""

    name: str
    alpha: float

    @classmethod
    def new(cls, alpha: float) -> Job:
        """Return a solve like no other."""
        return cls(uuid.uuid4().hex, alpha)


class Block:
    """A block of states on the machine that has it, with the operators of one solve and all that they remember."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.lock = threading.Lock()  # two tasks of one solve may meet
        self._job: Job | None = None
        self._operators: dict[str, Operator] = {}
        self._running: dict[str, tuple[int, Table]] = {}  # with the number of the last backup

    def __reduce__(self) -> Any:
        return Block, (self.rows,)  # a copy remembers nothing

    def __sizeof__(self) -> int:
        # by which dask decides whether to move it
        arrays = [*self.rows.entries, self.rows.counts]
        return sum(each.nbytes for each in arrays if isinstance(each, np.ndarray))

    def operator(self, job: Job, kind: str) -> Operator:
        """Return one of the operators; a new solve begins with new ones, so that it does not depend on others."""
        if job != self._job:
            self._job, self._operators, self._running = job, {}, {}
        mine, rows = self._operators, cast(Any, self.rows)
        if kind not in mine:
            if kind == MEAN:
                mean = rows.counts / rows.counts.sum(axis=1, keepdims=True)
                mine[kind] = ExpectedOperator.of_outcomes(rows, mean)
            elif kind == EXACT:
                mine[kind] = ExactOperator(rows, rows.counts, job.alpha)
            else:
                mine[kind] = _approximation(rows, rows.counts, job.alpha)
        return mine[kind]

    def table(self, job: Job, kind: str, turn: int, distance: float) -> Table:
        """Return the table for backup number ``turn`` of a solve, the first being 1.

        If the table is that of the backup before, it loses the pairs whose Q was then further than ``distance`` below
        the best of their state. The table of a copy has all pairs.
        """
        operator = self.operator(job, kind)
        last, table = self._running.get(kind, (-1, None))
        if table is None or turn == 1:
            table = Table(operator, np.flatnonzero(self.rows.admissible), True, len(self.rows.source))
        elif last == turn - 1 and distance < np.inf:
            table.drop(table.best()[0], distance)
        self._running[kind] = turn, table
        return table


def _approximation(model: Any, counts: FloatArray, alpha: float, threads: int = 1) -> Operator:
    """Return the approximation of the exact operator; caution has one."""
    rough = ExactOperator(model, counts, alpha, threads).approximation()
    assert rough is not None
    return rough


def _built_block(build: Build, first: int, last: int, whole: tuple[int, int, float]) -> Block:
    return Block(Rows.built(build, first, last, *whole))


def _alone(task: Task) -> Task:
    """Have a task, whose last argument is a block, wait for others that work on it."""

    @functools.wraps(task)
    def locked(*arguments: Any) -> Any:
        with arguments[-1].lock:
            return task(*arguments)

    return cast(Task, locked)


@_alone
def _facts(i: int, job: Job, kind: str, block: Block) -> tuple[BoolArray, tuple[float, float], int]:
    """Return which pairs of a block are admissible, their leaks, and how many outcomes it has."""
    return block.rows.admissible, block.operator(job, kind).leaks, block.rows.entries.outcome.size


@_alone
def _prepare(job: Job, block: Block) -> None:
    """Have all that the exact operator needs before its first backup."""
    operator = block.operator(job, EXACT)
    assert isinstance(operator, ExactOperator)
    _ = operator._memory


@_alone
def _back_up_best(
    i: int, job: Job, kind: str, accuracy: float, turn: int, distance: float, value: FloatArray, block: Block
) -> tuple[float, FloatArray, IntArray, float, Chain]:
    """Return what a table tells of a block: the error of a backup, what is best, and the chain of that."""
    value = _writable(value)
    table = block.table(job, kind, turn, distance)
    block.operator(job, kind).accuracy = accuracy
    error = table.back_up(value)
    best, actions, gap = table.best()
    return error, best, actions.astype(np.int32), gap, table.linearise(value, actions)


@_alone
def _back_up(
    i: int, job: Job, kind: str, accuracy: float, pairs: IntArray, value: FloatArray, block: Block
) -> tuple[FloatArray, float, Chain]:
    """Return Q of some pairs of a block, a bound on its error, and the chain that these pairs make."""
    operator, pairs, value = block.operator(job, kind), pairs.astype(np.int64), _writable(value)
    operator.accuracy = accuracy
    q = np.full(block.rows.source.size, -np.inf)
    error = operator.backup(value, pairs, q)
    return q[pairs], error, operator.linearise(value, pairs)


@_alone
def _linearise(i: int, job: Job, kind: str, accuracy: float, pairs: IntArray, value: FloatArray, block: Block) -> Chain:
    """Return the rows of the chain that some pairs of a block make."""
    operator = block.operator(job, kind)
    operator.accuracy = accuracy
    return operator.linearise(_writable(value), pairs.astype(np.int64))


def _writable(what: Any) -> Any:
    """Return an array that may be written to: kernels would be compiled once more for others."""
    return np.require(what, requirements=["C", "W"]) if isinstance(what, np.ndarray) else what


# -- here --------------------------------------------------------------------------------------------------


class BlockOperator(Operator):
    """An operator whose states live in blocks, with the workers of a pool."""

    puts_off_q = True

    def __init__(self, made: _Blocks, kind: str, model: Any, rough: Callable[[], Operator] | None = None) -> None:
        """``model`` has n_states, n_actions and discount; ``rough`` makes the approximation."""
        self.n_states, self.n_actions, self.discount = model.n_states, model.n_actions, model.discount
        self.leaks = made.leaks
        self.costly, self.rough = kind != ROUGH, kind == ROUGH
        self.threads = default_threads()  # with which Q is worked out when it is read
        self.edges = made.edges
        self._made, self._kind, self._approximation = made, kind, rough
        self._known: tuple[FloatArray, IntArray, Chain] | None = None  # V, pairs and chain of the last backup

    def ask(
        self, task: Callable[..., Any], value: FloatArray, parts: dict[int, tuple[Any, ...]], keep: Callable[..., None]
    ) -> None:
        """Have ``task`` done at ``value`` by the blocks in ``parts``, which has more for it; ``keep(i, answer)``."""
        job, pool, blocks, edges = self._made[:4]
        sizes, done = np.diff(edges), 0
        # each worker has one block: V that goes with the task saves asking for it
        value = value if value.nbytes <= BESIDE else pool.share(value)

        def kept(piece: tuple[Any, ...], answer: Any) -> None:
            nonlocal done
            keep(piece[0], answer)
            done += sizes[piece[0]]
            if self.tell is not None:
                self.tell(done / sizes[list(parts)].sum())

        pieces = ((i, job, self._kind, self.accuracy, *more, value, blocks[i]) for i, more in parts.items())
        work(pool, task, pieces, kept)

    def _by_block(self, pairs: IntArray) -> tuple[dict[int, slice], dict[int, tuple[IntArray]]]:
        """Return which of ascending ``pairs`` are in which block, and what they are there."""
        cuts = np.searchsorted(pairs, self.edges * self.n_actions).tolist()
        places = {i: slice(*cut) for i, cut in enumerate(pairwise(cuts)) if cut[0] < cut[1]}
        own = {i: ((pairs[place] - self.edges[i] * self.n_actions).astype(np.int32),) for i, place in places.items()}
        return places, own

    def approximation(self) -> Operator | None:
        """See :meth:`Operator.approximation`."""
        return None if self._approximation is None else self._approximation()

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        worst, chains = 0.0, {}
        places, own = self._by_block(pairs)

        def keep(i: int, answer: tuple[FloatArray, float, Chain]) -> None:
            nonlocal worst
            q[pairs[places[i]]], error, chains[i] = answer
            worst = max(worst, error)

        self.ask(_back_up, value, own, keep)
        self.note(value, pairs, chains)
        return worst

    def note(self, value: FloatArray, pairs: IntArray, chains: dict[int, Chain]) -> None:
        """Keep the chains of the blocks for whoever asks for that of all ``pairs``."""
        self._known = value.copy(), pairs, _joined([chains[i] for i in sorted(chains)])

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`."""
        if self._known is None or not all(map(np.array_equal, (value, pairs), self._known[:2])):
            chains: dict[int, Chain] = {}
            self.ask(_linearise, value, self._by_block(pairs)[1], chains.__setitem__)
            self.note(value, pairs, chains)
        assert self._known is not None
        return self._known[2]

    def table(self, pairs: IntArray, control: bool) -> Any:
        """See :meth:`Operator.table`."""
        return _BlockTable(self) if control else super().table(pairs, control)


class _BlockTable:
    """As :class:`~prudent.planning.operators.Table` for control, whose parts are with the blocks.

    V goes out, and what is best comes back, with its chain; pairs and Q stay there.
    """

    def __init__(self, operator: BlockOperator) -> None:
        self._operator = operator
        self._turn = 0
        self._distance = np.inf

    def back_up(self, value: FloatArray) -> float:
        """See :class:`Table`."""
        self._turn += 1
        blocks = range(self._operator.edges.size - 1)
        found: dict[int, tuple[float, FloatArray, IntArray, float, Chain]] = {}
        more = dict.fromkeys(blocks, (self._turn, self._distance))
        self._operator.ask(_back_up_best, value, more, found.__setitem__)
        errors, best, chosen, gaps, chains = zip(*(found[i] for i in blocks), strict=True)
        self._distance = np.inf
        self._best = np.concatenate(best), np.concatenate(chosen).astype(np.int64), max(gaps)
        self._operator.note(value, self._pairs(self._best[1]), dict(enumerate(chains)))
        return max(errors)

    def _pairs(self, actions: IntArray) -> IntArray:
        return np.arange(actions.size) * self._operator.n_actions + actions

    def best(self) -> tuple[FloatArray, IntArray, float]:
        """See :class:`Table`."""
        return self._best

    def drop(self, value: FloatArray, distance: float) -> None:
        """See :class:`Table`; ``value`` is the best of the last backup, and what follows happens before the next."""
        self._distance = distance

    def linearise(self, value: FloatArray, actions: IntArray) -> Chain:
        """See :class:`Table`."""
        return self._operator.linearise(value, self._pairs(actions))


def _joined(parts: Sequence[Chain]) -> Chain:
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    return Chain(
        np.concatenate(([0], np.cumsum(sizes))),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data", "reward")),
    )


class _Whole(TabularModel):
    """What the client knows of a model whose blocks are elsewhere."""

    def __init__(self, admissible: BoolArray, discount: float) -> None:
        self._frame(admissible, discount, None, None)
        self.terminal = np.zeros(self.n_states, dtype=np.bool_)
        self.terminal_value = np.zeros(self.n_states)


class _Blocks(NamedTuple):
    """Blocks that were made, and the solve that they are for."""

    job: Job
    pool: Pool
    blocks: list[Any]
    edges: IntArray
    admissible: BoolArray  # [S, A]
    leaks: tuple[float, float]

    @classmethod
    def made(cls, job: Job, pool: Pool, blocks: list[Any], edges: IntArray, kind: str) -> _Blocks:
        """Return blocks with what must be known of all of them."""
        facts: dict[int, tuple[BoolArray, tuple[float, float], int]] = {}
        pieces = ((i, job, kind, block) for i, block in enumerate(blocks))
        work(pool, _facts, pieces, lambda piece, answer: facts.__setitem__(piece[0], answer))
        admissible, leaks, sizes = zip(*(facts[i] for i in range(len(blocks))), strict=True)
        least, greatest = zip(*leaks, strict=True)
        seated = _seated(pool, blocks, sizes)
        return cls(job, pool, seated, edges, np.concatenate(admissible), (min(least), max(greatest)))


@contextmanager
def _at_work(client: Any) -> Iterator[tuple[Pool, int]]:
    """Give who works, and how many threads they have."""
    if client is None:
        threads = default_threads()
        with on_threads(threads) as here:
            yield here, threads
    else:
        with on_cluster(client) as there:
            yield there, there.threads


def _edges(n_states: int, blocks: int | None, threads: int) -> IntArray:
    count = min(n_states, blocks or BLOCKS * max(1, threads))
    return np.arange(count + 1) * n_states // count


def _require_cpu(options: SolverOptions) -> None:
    if options.device != "cpu":
        raise ParameterError(f"device is {options.device!r}, but the blocks of a cluster are solved by its processors")


# for each client: a digest of the model that it sent last, and dask's futures of its blocks
_KEPT: WeakKeyDictionary[Any, tuple[bytes, list[Any]]] = WeakKeyDictionary()


def _sent(model: UncertainMDP, counts: FloatArray, pool: Pool, edges: IntArray) -> list[Any]:
    """Return the blocks of a problem on the workers of a pool, where they may be already."""
    client = getattr(pool, "client", None)
    digest = b""
    if client is not None:
        digest = _digest(edges, counts, *model.entries)
        if client in _KEPT and _KEPT[client][0] == digest:
            blocks = _KEPT[client][1]
            if all(block.status in ("pending", "finished") for block in blocks):
                return blocks
        _KEPT.pop(client, None)  # before others come
    parts = [Rows.of_model(model, counts, *each) for each in pairwise(edges.tolist())]
    blocks = [pool.send(Block, part, place=i) for i, part in enumerate(parts)]
    blocks = _seated(pool, blocks, [part.entries.outcome.size for part in parts])
    if client is not None:
        _KEPT[client] = digest, blocks
    return blocks


def _seated(pool: Pool, blocks: list[Any], sizes: Sequence[int]) -> list[Any]:
    """Give blocks of so many outcomes seats; long work must be tasks, for clusters that shrink when there are none."""
    return [pool.seat(block) for block in blocks] if max(sizes) <= BRIEF else blocks


def _digest(*parts: Any) -> bytes:
    """Return what tells arrays and numbers from others."""

    def own(part: Any) -> bytes:
        array = np.ascontiguousarray(part)
        found = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        found.update(array.data)
        return found.digest()

    with ThreadPoolExecutor(default_threads()) as threads:
        return b"".join(threads.map(own, parts))


@contextmanager
def cluster_operator(
    model: UncertainMDP, counts: FloatArray, alpha: float, client: Any, options: SolverOptions
) -> Iterator[BlockOperator]:
    """Yield the exact operator of CVaR whose backups are done by the workers of a cluster."""
    _require_cpu(options)

    def rough() -> Operator:
        return _approximation(model, counts, alpha, default_threads())

    with _at_work(client) as (pool, threads):
        edges = _edges(model.n_states, None, threads)
        blocks = _sent(model, counts, pool, edges)
        job = Job.new(alpha)
        _ready = [pool.send(_prepare, job, block) for block in blocks]  # in the time of the rough guess
        made = _Blocks(job, pool, blocks, edges, model.admissible, leaks_of(model.entries))
        yield BlockOperator(made, EXACT, model, rough)


class ClusterModel:
    """A Bayesian risk MDP that is too large for one machine: its workers build it, in blocks of states, and keep it.

    Parameters
    ----------
    build : a function of (first, last) that returns (next_state, reward, counts) of the states first, ..., last - 1.
        It is called on the workers, again if one of them is lost, and must return the same every time: from a formula,
        or from files that all workers can read. With n = last - first:

        - next_state : int [n, A, K], any states of the model; -1 where there is no such outcome, -2 where it ends the
          process. A pair without outcomes is not admissible.
        - reward : [n, A, K], or [n, A] if it does not depend on the outcome.
        - counts : [n, A, K], Dirichlet counts of the posterior; 0 where there is no such outcome.
    n_states, n_actions : S and A.
    discount : in [0, 1).
    blocks : how many blocks, by default one for each thread of the cluster.

    Each pair has a source of its own. This process holds a few numbers for each pair, and the outcomes of one action
    for each state while it solves. :meth:`BayesianRiskMDP.solve` with a ``client`` is for models that fit in here.

    >>> def build(first, last):  # a walk on a ring: to the left or to the right, with unknown chances
    ...     s = np.arange(first, last)
    ...     steps = np.stack([(s - 1) % 1000, (s + 1) % 1000], axis=-1)
    ...     next_state = np.repeat(steps[:, None, :], 2, axis=1)
    ...     counts = np.broadcast_to([[2.0, 1.0], [1.0, 3.0]], next_state.shape)
    ...     return next_state, np.repeat((s == 0.0)[:, None], 2, axis=1), counts
    >>> ring = ClusterModel(build, n_states=1000, n_actions=2, discount=0.9, blocks=3)
    >>> careful = ring.solve(alpha=0.9)                       # here; on a cluster: ring.solve(alpha=0.9, client=client)
    >>> careful.converged, careful.policy[[1, 999]].tolist()
    (True, [0, 1])
    """

    def __init__(
        self, build: Build, n_states: int, n_actions: int, discount: float, *, blocks: int | None = None
    ) -> None:
        if not callable(build):
            raise ParameterError(f"build is {build!r}, expected a function of (first, last)")
        self.build = build
        self.n_states = whole_number(n_states, "n_states", maximum=2**31 - 1)
        self.n_actions = whole_number(n_actions, "n_actions")
        self.discount = discount_factor(discount)
        self.blocks = None if blocks is None else whole_number(blocks, "blocks")

    def solve(
        self,
        alpha: float,
        *,
        client: Any = None,
        tol: float | None = None,
        initial_value: npt.ArrayLike | None = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution:
        """Return the optimal Bayesian-risk values and policy at level ``alpha``, certified to ``tol``.

        ``client`` is a Client of dask.distributed, a cluster object or the address of a scheduler; without one the
        blocks are built and solved here. ``tol``, ``initial_value``, ``method``, ``sweeps``, ``max_iterations`` and
        ``options`` are those of :func:`prudent.solve`. ``Solution.q`` has the chosen actions, and NaN for the others.
        """
        return self._solved(None, alpha, client, SolverOptions.chosen(options, tol, keywords), initial_value)

    def evaluate(
        self,
        policy: Any,
        alpha: float,
        *,
        client: Any = None,
        tol: float | None = None,
        initial_value: npt.ArrayLike | None = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution:
        """Return the Bayesian-risk values of ``policy``: an action for each state [S], or chances of actions [S, A].

        Everything else as for :meth:`solve`.
        """
        return self._solved(policy, alpha, client, SolverOptions.chosen(options, tol, keywords), initial_value)

    def _solved(self, policy: Any, alpha: Any, client: Any, options: SolverOptions, initial_value: Any) -> Solution:
        level = risk_level(alpha)
        _require_cpu(options)
        kind = EXACT if level > 0.0 else MEAN
        with _at_work(client) as (pool, threads):
            edges = _edges(self.n_states, self.blocks, threads)
            about = (self.n_states, self.n_actions, self.discount)
            blocks = [
                pool.send(_built_block, self.build, *each, about, place=i)
                for i, each in enumerate(pairwise(edges.tolist()))
            ]
            made = _Blocks.made(Job.new(level), pool, blocks, edges, kind)
            model: Any = _Whole(made.admissible, self.discount)
            operator = BlockOperator(made, kind, model)
            guess = None
            if kind == EXACT and options.method == "newton" and options.sweeps is None and initial_value is None:
                guess = rough_guess(BlockOperator(made, ROUGH, model), model, policy, options)
            # reading Q later would need the cluster, so only that of the chosen actions is kept
            solution = solve_operator(operator, model, policy, options, initial_value, guess, defer_q=policy is None)
        if policy is not None:
            return solution
        q = np.where(made.admissible, np.nan, -np.inf)
        q[np.arange(self.n_states), solution.policy] = solution.value
        return replace(solution, q_source=q)

    def __repr__(self) -> str:
        return f"ClusterModel({self.n_states} states, {self.n_actions} actions, discount {self.discount})"
