"""Solves on a cluster: a model in this process that is sent out in blocks, or one that its workers build.

The executor is ``prudent.planning.execute.blocks``. The blocks of a model in this process stay on the workers
until the client sends those of another: the next level or policy finds them there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, Unpack
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads
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
from .._support.pool import Pool, on_threads
from ..errors import ModelError, ParameterError, PrudentError
from ..models.base import TabularModel
from ..models.entries import END, NONE, Entries
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..types import PolicyLike
from .execute.blocks import EXACT, MEAN, MOMENTS, Block, BlockModel, Blocks, BlockSet, Job, prepare, seats
from .fixed_point import rough_guess, solve_operator
from .options import SolverKeywords, SolverOptions
from .row_risks import leaks_of
from .solution import Solution

Build = Callable[[int, int], tuple[Any, Any, Any]]


def read_block(build: Build, first: int, last: int, n_states: int, n_actions: int, discount: float) -> BlockModel:
    """Return the states that ``build`` describes, see ``ClusterModel``; each pair has a source of its own."""
    answer = build(first, last)
    try:
        next_state, reward, counts = answer
    except (TypeError, ValueError):
        message = f"build returned {type(answer).__name__}, expected (next_state, reward, counts)"
        raise ModelError(message, code="wrong-type", argument="build", value=type(answer).__name__) from None
    leads = integer_array(next_state, "next_state", ndim=3, error=ModelError)
    shape = (last - first, n_actions, leads.shape[2])
    require_shape(leads, "next_state", shape, "[n, A, K]", error=ModelError)
    expected = f"a state from 0 to {n_states - 1}, or -1 for no such outcome, or -2 for the end"
    refuse((leads < END) | (leads >= n_states), leads, "next_state", expected, error=ModelError)
    exists = leads != NONE
    admissible = exists.any(axis=2)
    stuck = ~admissible.any(axis=1)
    if stuck.any():
        state = first + int(np.argmax(stuck))
        raise ModelError(f"state {state} has no action with an outcome", code="no-action", state=state)
    earned = number_array(reward, "reward", error=ModelError)
    if earned.ndim == 2:
        require_shape(earned, "reward", shape[:2], "[n, A]", error=ModelError)
        earned = np.broadcast_to(earned[:, :, None], shape)
    require_shape(earned, "reward", shape, "[n, A, K]", error=ModelError)
    refuse(exists & ~np.isfinite(earned), earned, "reward", "a finite number", error=ModelError)
    numbers = finite_array(counts, "counts", ndim=3, error=ModelError)
    require_shape(numbers, "counts", shape, "[n, A, K]", error=ModelError)
    refuse((numbers != 0.0) & ~exists, numbers, "counts", "0 where there is no such outcome", error=ModelError)
    own = DirichletPosterior(numbers[admissible]).counts  # raises if these are no counts
    sizes = exists.sum(axis=2).reshape(-1)
    source = np.where(admissible.reshape(-1), np.cumsum(admissible) - 1, -1)
    outcomes = np.broadcast_to(np.arange(shape[2], dtype=np.int32), shape)[exists]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    slots = np.concatenate(([0], np.cumsum(sizes[source >= 0])))
    entries = Entries(
        source, starts, leads[exists].astype(np.int32), earned[exists], slots, outcomes, discount, n_actions
    )
    return BlockModel(entries, own, n_states)


def _built_block(build: Build, first: int, last: int, sizes: tuple[int, int, float]) -> Block:
    try:
        return Block(read_block(build, first, last, *sizes))
    except PrudentError as error:
        raise type(error)(f"build({first}, {last}): {error}", code=error.code, **error.fields) from None


class _BlockedModel(TabularModel):
    """The part of a model that the client holds while its blocks are on workers."""

    def __init__(self, admissible: BoolArray, discount: float) -> None:
        self._frame(admissible, discount, None, None)
        self.terminal = np.zeros(self.n_states, dtype=np.bool_)
        self.terminal_value = np.zeros(self.n_states)


@contextmanager
def _at_work(client: Any) -> Iterator[tuple[Pool, int]]:
    """Yield the worker pool and its number of threads."""
    threads = default_threads()
    workers: AbstractContextManager[Any] = on_threads(threads) if client is None else on_cluster(client)
    with workers as pool:
        yield pool, threads if client is None else pool.threads


def _edges(n_states: int, blocks: int | None, threads: int) -> IntArray:
    count = min(n_states, blocks or max(1, threads))  # each block costs ten milliseconds a backup
    return np.arange(count + 1) * n_states // count


def _require_cpu(options: SolverOptions) -> None:
    if options.device != "cpu":
        message = f"device is {options.device!r}, but a cluster solves its blocks on its processors; omit device"
        raise ParameterError(message, code="conflicting-arguments", argument="device", value=options.device)


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
    parts = [BlockModel.of_model(model, counts, *edge) for edge in pairwise(edges.tolist())]
    blocks = [pool.send(Block, part, place=i) for i, part in enumerate(parts)]
    blocks = seats(pool, blocks, [part.entries.outcome.size for part in parts])
    if client is not None:
        _KEPT[client] = digest, blocks
    return blocks


def _digest(*parts: Any) -> bytes:
    """Return a digest of arrays and numbers."""

    def own(part: Any) -> bytes:
        array = np.ascontiguousarray(part)
        digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
        return digest.digest()

    with ThreadPoolExecutor(default_threads()) as threads:
        return b"".join(threads.map(own, parts))


@contextmanager
def cluster_operator(
    model: UncertainMDP, counts: FloatArray, alpha: float, client: Any, options: SolverOptions
) -> Iterator[Blocks]:
    """Yield the executor of exact CVaR whose backups are done by the workers of a cluster."""
    _require_cpu(options)
    with _at_work(client) as (pool, threads):
        edges = _edges(model.n_states, None, threads)
        blocks = _sent(model, counts, pool, edges)
        job = Job.new(alpha)
        _ready = [pool.send(prepare, job, block) for block in blocks]  # in the time of the rough guess
        made = BlockSet(job, pool, blocks, edges, model.admissible, leaks_of(model.entries))
        yield Blocks(made, EXACT, model, counts)


class ClusterModel:
    """A Bayesian risk MDP that is too large for one machine: workers build it in blocks of states and keep it.

    Each pair has a source of its own. The calling process holds a few numbers for each pair, and the outcomes of one
    action for each state while it solves. For a model that fits into one process, use ``client`` of
    ``prudent.solve``.

    Parameters
    ----------
    build : callable
        A function of (first, last) that returns (next_state, reward, counts) of the states first, ..., last - 1. It is
        called on the workers, again if one of them is lost, and must return the same every time: from a formula, or
        from files that all workers can read. With n = last - first:

        - next_state : int [n, A, K], any states of the model; -1 where there is no such outcome, -2 where it ends the
          process. A pair without outcomes is not admissible.
        - reward : [n, A, K], or [n, A] if it does not depend on the outcome.
        - counts : [n, A, K], Dirichlet counts of the posterior; 0 where there is no such outcome.
    n_states : int
        Number of states S.
    n_actions : int
        Number of actions A.
    discount : float
        Discount factor in [0, 1).
    blocks : int, optional
        Number of blocks, by default one for each thread of the cluster.

    Raises
    ------
    ParameterError
        If an argument is out of range.

    See Also
    --------
    prudent.solve : Solves a model in this process, also on a cluster.

    Examples
    --------
    >>> def build(first, last):  # a walk on a ring: to the left or to the right, with unknown chances
    ...     s = np.arange(first, last)
    ...     steps = np.stack([(s - 1) % 1000, (s + 1) % 1000], axis=-1)
    ...     next_state = np.repeat(steps[:, None, :], 2, axis=1)
    ...     counts = np.broadcast_to([[2.0, 1.0], [1.0, 3.0]], next_state.shape)
    ...     return next_state, np.repeat((s == 0.0)[:, None], 2, axis=1), counts
    >>> ring = ClusterModel(build, n_states=1000, n_actions=2, discount=0.9, blocks=3)
    >>> careful = ring.solve(alpha=0.9)                       # or ring.solve(alpha=0.9, client=client)
    >>> careful.converged, careful.policy[[1, 999]].tolist()
    (True, [0, 1])
    """

    def __init__(
        self, build: Build, n_states: int, n_actions: int, discount: float, *, blocks: int | None = None
    ) -> None:
        if not callable(build):
            message = f"build is {build!r}, expected a function of (first, last)"
            raise ParameterError(message, code="wrong-type", argument="build", value=build)
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
        """Return the optimal Bayesian-risk values and policy, certified to ``tol``.

        Parameters
        ----------
        alpha : float
            Risk level in [0, 1).
        client : dask.distributed.Client, cluster or str, optional
            A client, a cluster object or the address of a scheduler. By default the blocks are built and solved in this
            process.
        tol : float, optional
            Bound on the error of every value; by default ten digits of the largest one.
        initial_value : array_like of shape (S,), optional
            First guess of the values.
        options : SolverOptions, optional
            Settings of the iteration as one object.
        **keywords : object
            Settings of the iteration: ``method``, ``sweeps``, ``max_iterations``, see ``SolverOptions``.

        Returns
        -------
        Solution
            Its ``q`` has the chosen actions, and NaN for the others.

        Raises
        ------
        ModelError
            If the answer of ``build`` is no model.
        ClusterError
            If the cluster is lost.
        """
        return self._solved(None, alpha, client, SolverOptions.chosen(options, tol, keywords), initial_value)

    def evaluate(
        self,
        policy: PolicyLike,
        alpha: float,
        *,
        client: Any = None,
        tol: float | None = None,
        initial_value: npt.ArrayLike | None = None,
        options: SolverOptions | None = None,
        **keywords: Unpack[SolverKeywords],
    ) -> Solution:
        """Return the Bayesian-risk values of a policy, certified to ``tol``.

        Parameters
        ----------
        policy : PolicyLike
            An action for each state [S], or probabilities of actions [S, A].
        alpha : float
            Risk level in [0, 1).
        client : dask.distributed.Client, cluster or str, optional
            A client, a cluster object or the address of a scheduler. By default the blocks are built and solved in this
            process.
        tol : float, optional
            Bound on the error of every value; by default ten digits of the largest one.
        initial_value : array_like of shape (S,), optional
            First guess of the values.
        options : SolverOptions, optional
            Settings of the iteration as one object.
        **keywords : object
            Settings of the iteration: ``method``, ``sweeps``, ``max_iterations``, see ``SolverOptions``.

        Returns
        -------
        Solution
            Its ``q`` has the actions of the policy.

        Raises
        ------
        ModelError
            If the answer of ``build`` is no model.
        ClusterError
            If the cluster is lost.
        """
        return self._solved(policy, alpha, client, SolverOptions.chosen(options, tol, keywords), initial_value)

    def _solved(
        self,
        policy: PolicyLike | None,
        alpha: float,
        client: Any,
        options: SolverOptions,
        initial_value: npt.ArrayLike | None,
    ) -> Solution:
        level = risk_level(alpha)
        _require_cpu(options)
        kind = EXACT if level > 0.0 else MEAN
        with _at_work(client) as (pool, threads):
            edges = _edges(self.n_states, self.blocks, threads)
            about = (self.n_states, self.n_actions, self.discount)
            blocks = [
                pool.send(_built_block, self.build, *ends, about, place=i)
                for i, ends in enumerate(pairwise(edges.tolist()))
            ]
            made = BlockSet.of(Job.new(level), pool, blocks, edges, kind)
            model: Any = _BlockedModel(made.admissible, self.discount)
            operator = Blocks(made, kind, model)
            guess = None
            if kind == EXACT and options.method == "newton" and options.sweeps is None and initial_value is None:
                guess = rough_guess(Blocks(made, MOMENTS, model), model, policy, options)
            # reading Q later would need the cluster, so only that of the chosen actions is kept
            solution = solve_operator(operator, model, policy, options, initial_value, guess, defer_q=policy is None)
        if policy is not None:
            return solution
        q = np.where(made.admissible, np.nan, -np.inf)
        q[np.arange(self.n_states), solution.policy] = solution.value
        return replace(solution, q_source=q)

    def __repr__(self) -> str:
        return f"ClusterModel({self.n_states} states, {self.n_actions} actions, discount {self.discount})"
