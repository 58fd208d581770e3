"""A model whose dynamics are known but for the distributions of its sources.

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

An outcome may also end the process. With theta it is an ``MDP``; with a log of transitions it gives the Dirichlet
counts of a posterior of theta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support import checks
from ..data.labels import Labels
from ..data.policy import Policy
from ..errors import ModelError, ParameterError, PosteriorError
from ..posteriors.groups import Group
from ..types import (
    ArrayLike,
    FloatArray,
    IntArray,
    Label,
    NamesLike,
    PolicyLike,
    RngLike,
    SparseLike,
    StartLike,
    TableLike,
    TerminalLike,
)
from .base import held, plural
from .builders import BY_PAIR, own_sources, places_in, read_dense, uncertain_direct, uncertain_dynamics, uncertain_table
from .entries import expected_model, read_entries
from .log_reader import LogReader
from .log_summary import LogSummary
from .mdp import MDP
from .outcomes import OutcomeModel
from .transitions import Course, add_log, ambiguous_groups, cumulative_rows, plan_of, walk

OutcomeNames = Sequence[Iterable[Label]] | str | None


class UncertainMDP(OutcomeModel):
    """Known dynamics driven by sources whose distributions are unknown.

    Action a in state s draws an outcome k from source ``source[s, a]``, leads to ``next_state[s, a, k]`` and
    earns ``reward[s, a, k]``.

    Parameters
    ----------
    source : array_like of int [S, A]
        Numbers 0..B-1, all of them used; -1 where the action is not admissible.
    next_state : array_like of int [S, A, K]
        Next states; -1 where the source has no such outcome, -2 where the outcome ends the process: nothing is earned
        after it. All pairs that share a source must agree on which outcomes it has.
    reward : array_like [S, A, K] or [S, A]
        Rewards, also [S, A] if they do not depend on the outcome. Ignored where there is no outcome.
    discount : float
        Discount factor in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
    states, actions : iterable of hashable, optional
        Names, unique and hashable. By default 0, 1, ..., n-1.
    sources : iterable of hashable or "pair", optional
        Names of the sources; "pair" if each belongs to one pair and is called (state, action).
    outcomes : sequence of iterables of hashable or "next_state", optional
        Names of the outcomes of each source. With ``sources="pair"`` also "next_state": outcomes are called by the
        state they lead to.
    terminal : TerminalLike, optional
        States where the process ends: their names, or a mapping from names to the value of arriving there, by default
        0. A terminal state has no actions; what the arrays say about it is ignored (its sources may be -1).

    Attributes
    ----------
    source : int64 [S, A]
        Source of each pair.
    next_state : int32 [S, A, K]
        Next states, -1 where there is no outcome, -2 where the process ends. Read-only, made when it is first read.
    reward : float64 [S, A, K]
        Rewards, 0 where there is no outcome. Read-only, made when it is first read.
    outcome_mask : bool [B, K]
        Outcomes that each source has. Read-only, made when it is first read.
    n_sources, n_outcomes : int
        Number of sources B, and largest number of outcomes K.
    entries : Entries
        The outcomes, in memory in proportion to their number.
    duration : float64 [E] or None
        Time that each of the entries takes; None if all take one unit.
    reward_posterior : NormalPosterior or None
        What a log leaves unknown of mean rewards [S, A], to be added to ``reward``; ``prudent.BayesianRiskMDP`` and
        all analyses take it by default.
    ends : bool
        Whether the process can end.
    naming : Naming
        Labels of sources and outcomes.

    Raises
    ------
    ModelError
        If shapes disagree, a source is missing, or pairs that share a source have different outcomes.

    See Also
    --------
    MDP : A model with known probabilities.

    Notes
    -----
    Action 0 of a terminal state stands for the end: it pays the value of the state and is the last step. All terminal
    states share one source for it, which is added as the last one and has one outcome. So with terminal states B is one
    more than the number of sources in ``source``, and theta, draws and counts have a row for it, of which only the
    first entry is used (``prior()`` and posteriors have it; where it is left out it is added).

    Examples
    --------
    A coin of unknown bias decides whether the next state is 0 or 1, and pays for 1:

    >>> model = UncertainMDP(source=[[0], [0]], next_state=[[[0, 1]], [[0, 1]]],
    ...                      reward=[[[-1, 1]], [[-1, 1]]], discount=0.9)
    >>> model
    UncertainMDP(2 states, 1 action, 1 source, 2 outcomes, discount 0.9)
    >>> model.mdp([[0.25, 0.75]]).reward.ravel()
    array([0.5, 0.5])

    A game that is won or lost with unknown chances:

    >>> game = UncertainMDP([[0], [-1], [-1]], [[[0, 1, 2]]] * 3, [[0.0]] * 3, discount=0.9,
    ...                     states=["play", "won", "lost"], terminal={"won": 1.0, "lost": -1.0})
    >>> game
    UncertainMDP(3 states (2 terminal), 1 action, 2 sources, up to 3 outcomes, discount 0.9)
    """

    _compared = ("discount", "states", "actions", "_called", "n_outcomes", "entries", "terminal", "duration")

    def __init__(
        self,
        source: ArrayLike,
        next_state: ArrayLike,
        reward: ArrayLike,
        discount: float,
        *,
        states: NamesLike = None,
        actions: NamesLike = None,
        sources: NamesLike = None,
        outcomes: OutcomeNames = None,
        terminal: TerminalLike = None,
    ) -> None:
        self._take_sources(source, discount, states, actions, terminal)
        self.n_outcomes, arrays = read_dense(next_state, reward, self.admissible & ~self.terminal[:, None])
        self._take_outcomes(*arrays, sources, outcomes)

    @classmethod
    def from_entries(
        cls,
        source: IntArray,
        pair: IntArray,
        outcome: IntArray,
        next_state: npt.NDArray[Any],
        reward: FloatArray,
        discount: float,
        *,
        states: NamesLike = None,
        actions: NamesLike = None,
        sources: NamesLike = None,
        outcomes: OutcomeNames = None,
        terminal: TerminalLike = None,
        duration: FloatArray | None = None,
        notes: tuple[str, ...] = (),
        summary: LogSummary | None = None,
    ) -> UncertainMDP:
        """Return the model with a list of outcomes, in memory in proportion to their number.

        Parameters
        ----------
        source : int64 [S, A]
            Source of each pair, -1 where it is not admissible.
        pair : int64 [E]
            Pair s*A + a of each entry, in any order.
        outcome : int64 [E]
            Number of the outcome of its source.
        next_state : int [E]
            Next state, -2 for the end of the process.
        reward : float64 [E]
            Reward.
        discount : float
            Discount factor in [0, 1].
        states, actions, sources : iterable of hashable, optional
            Names, as for the class.
        outcomes : sequence of iterables of hashable, optional
            Names of the outcomes of each source, as for the class.
        terminal : mapping, iterable or mask, optional
            Terminal states, as for the class.
        duration : float64 [E], optional
            Time that each entry takes, at least 1: what follows it is discounted by ``discount ** duration``. By
            default every transition takes one unit of time.
        notes : tuple of str, default=()
            What a builder did without being asked.
        summary : LogSummary, optional
            Summary of the log that the entries come from; its ``reward_posterior`` becomes that of the model.

        Returns
        -------
        UncertainMDP
            The model.

        Examples
        --------
        >>> entries = np.array([0, 0]), np.array([0, 1]), np.array([0, -2]), np.array([1.0, 5.0])
        >>> UncertainMDP.from_entries(np.array([[0]]), *entries, discount=0.9)
        UncertainMDP(1 state, 1 action, 1 source, 2 outcomes, discount 0.9)
        """
        self = cls.__new__(cls)
        self._take_sources(source, discount, states, actions, terminal)
        given = read_entries(self.source.size, pair, outcome, next_state, reward, duration)
        pair, outcome, next_state, reward, duration = given
        used = (self.admissible & ~self.terminal[:, None]).reshape(-1)[pair]
        order = np.flatnonzero(used)[np.lexsort((outcome[used], pair[used]))]
        sizes = np.bincount(pair[order], minlength=self.source.size)
        self.n_outcomes = int(outcome[order].max(initial=0)) + 1
        if duration is not None and (duration[order] != 1.0).any():
            checks.refuse(~(duration >= 1.0), duration, "duration", "at least 1", error=ModelError, code="value-range")
            self.duration = duration[order]
        self._take_outcomes(sizes, outcome[order], next_state[order], reward[order], sources, outcomes)
        self.notes, self._summary = notes, summary
        self.reward_posterior = None if summary is None else summary.reward_posterior
        return self

    @classmethod
    def direct(
        cls,
        reward: ArrayLike,
        discount: float,
        *,
        support: ArrayLike | SparseLike | None = None,
        admissible: ArrayLike | None = None,
        states: NamesLike = None,
        actions: NamesLike = None,
        terminal: TerminalLike = None,
    ) -> UncertainMDP:
        """Return the model in which every row of the transition matrix is unknown (direct parametrisation).

        Each pair has its own source, numbered s*A + a, whose outcome is the next state: K = S and
        next_state[s, a, k] = k. If some pairs are inadmissible, the others are numbered in that order without gaps.

        Parameters
        ----------
        reward : array_like [S, A] or [S, A, S]
            Rewards, with a last axis if they depend on the next state.
        discount : float
            Discount factor in [0, 1].
        support : array_like of bool [S, A, S] or sparse matrix (S*A) x S, optional
            Next states that are possible. The outcomes of a pair are then its possible next states in order, and K is
            the largest number of them. By default all states are possible.
        admissible : array_like of bool [S, A], optional
            Admissible pairs, by default all.
        states, actions : iterable of hashable, optional
            Names, by default 0, 1, ..., n-1.
        terminal : TerminalLike, optional
            States where the process ends; they have no pairs of their own.

        Returns
        -------
        UncertainMDP
            The model.

        Examples
        --------
        >>> model = UncertainMDP.direct([[0.0, 1.0], [2.0, 3.0]], discount=0.9)
        >>> model.source
        array([[0, 1],
               [2, 3]])
        >>> model.next_state[1, 0]
        array([0, 1], dtype=int32)
        """
        states, terminal = held(states), held(terminal)
        arrays = uncertain_direct(reward, support, admissible, states, terminal)
        make: Callable[..., UncertainMDP] = cls if support is None else cls.from_entries
        return make(**arrays, discount=discount, states=states, actions=actions, terminal=terminal)

    @classmethod
    def from_mdp(cls, mdp: MDP) -> UncertainMDP:
        """Return the direct model on the transitions of a known MDP; their probabilities are not used.

        Steps that end the process are one more outcome of their pair; states where every step does are terminal.

        Parameters
        ----------
        mdp : MDP
            The known model. If it has rewards of single transitions (``MDP.transition_reward``), they enter the
            risk. Otherwise a pair earns its mean reward whatever the outcome, so that rewards are certain.

        Returns
        -------
        UncertainMDP
            The model.

        Examples
        --------
        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9)
        >>> UncertainMDP.from_mdp(mdp).next_state.tolist()
        [[[0, 1]], [[1, -1]]]
        """
        pairs, targets, earned = mdp.steps()
        source = own_sources(mdp.admissible & ~mdp.terminal[:, None])
        terminal = {mdp.states[s]: mdp.terminal_value[s] for s in np.flatnonzero(mdp.terminal)}
        names: dict[str, Any] = {"states": mdp.states, "actions": mdp.actions, "terminal": terminal, **BY_PAIR}
        return cls.from_entries(source, pairs, places_in(pairs), targets, earned, mdp.discount, **names)

    @classmethod
    def from_dynamics(
        cls,
        dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
        states: Iterable[Label],
        actions: Iterable[Label],
        noise: Iterable[Label] | Mapping[Label, Iterable[Label]],
        discount: float,
        *,
        source: Callable[[Any, Any], Label] | None = None,
        admissible: Callable[[Any, Any], bool] | None = None,
        terminal: TerminalLike = None,
    ) -> UncertainMDP:
        """Return the model of a function of state, action and noise.

        Parameters
        ----------
        dynamics : callable
            ``dynamics(state, action, noise) -> (next_state, reward)``, by the names of states and actions. A next state
            of None ends the process. It is not called in terminal states.
        states, actions : iterable of hashable
            Names. An action that no state admits is dropped, which ``notes`` says.
        noise : iterable of hashable or mapping
            Outcomes of the only source, or a mapping from names of sources to their outcomes.
        discount : float
            Discount factor in [0, 1].
        source : callable, optional
            ``source(state, action)`` is the name of the source that acts; needed if there are several.
        admissible : callable, optional
            ``admissible(state, action)`` says whether an action is allowed, by default all are.
        terminal : TerminalLike, optional
            States where the process ends.

        Returns
        -------
        UncertainMDP
            The model; sources are numbered in the order of the mapping.

        Examples
        --------
        Inventory control with unknown demand:

        >>> def day(stock, order, demand):
        ...     sold = min(stock + order, demand)
        ...     return stock + order - sold, 5.0 * sold - 2.0 * order
        >>> UncertainMDP.from_dynamics(day, states=range(11), actions=range(6), noise=range(8), discount=0.95,
        ...                            admissible=lambda stock, order: stock + order <= 10)
        UncertainMDP(11 states, 6 actions, 15 inadmissible pairs, 1 source, 8 outcomes, discount 0.95)
        """
        terminal = held(terminal)
        arrays = uncertain_dynamics(dynamics, states, actions, noise, source, admissible, terminal)
        return cls.from_entries(**arrays, terminal=terminal, discount=discount)

    @classmethod
    def from_table(
        cls,
        table: TableLike,
        discount: float,
        *,
        states: NamesLike = None,
        actions: NamesLike = None,
        columns: Mapping[str, Any] | None = None,
        terminal: TerminalLike = None,
    ) -> UncertainMDP:
        """Return the model of a long table of known dynamics.

        Parameters
        ----------
        table : TableLike
            A table with the columns state, action, outcome, next_state, reward and optionally source, or rows of values
            in that order. Without sources, one drives every pair. Pairs that are not listed are inadmissible. A next
            state that is missing ends the process. A table with named columns may have no outcomes. Then every pair has
            its own source, whose outcomes are the next states that are listed for it; a next state listed with several
            rewards is as many outcomes, called (next_state, reward). Probabilities are ignored.
        discount : float
            Discount factor in [0, 1].
        states, actions : iterable of hashable, optional
            Labels in the order of their indices, by default those that occur, sorted.
        columns : mapping, optional
            Names of columns: ``{"state": "where"}``.
        terminal : TerminalLike, optional
            States where the process ends; they need no rows.

        Returns
        -------
        UncertainMDP
            The model.

        Raises
        ------
        ModelError
            If the table cannot be read, or is no model.

        Examples
        --------
        >>> rows = [("up", "bet", "win", "up", 1.0), ("up", "bet", "loss", "down", -1.0),
        ...         ("down", "bet", "win", "up", 1.0), ("down", "bet", "loss", "down", -1.0)]
        >>> model = UncertainMDP.from_table(rows, discount=0.9)
        >>> model.outcomes
        (('loss', 'win'),)
        >>> model.compatible("up", "bet", "down")
        array([0])
        """
        arrays = uncertain_table(table, states, actions, columns)
        return cls.from_entries(**arrays, terminal=terminal, discount=discount)

    def mdp(self, theta: ArrayLike) -> MDP:
        """Return the MDP with given probabilities of outcomes.

        Outcomes that lead to the same state add up; the reward is the mean over the outcomes. Those that end the
        process add up to ``termination``, 1 in terminal states. Rewards of single outcomes are kept for simulated
        returns and for objectives such as ``prudent.EVaR``, which depend on more than means. What a duration d
        discounts beyond one unit of time, 1 - discount ** (d - 1), is in ``termination`` too; values stay as they are.

        Parameters
        ----------
        theta : array_like [B, K]
            Probabilities of the outcomes of each source.

        Returns
        -------
        MDP
            The model.

        Raises
        ------
        ModelError
            If the probabilities have another shape, are negative or do not sum to one.

        Examples
        --------
        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).mdp([[0.25, 0.75], [1.0, 0.0]]).dense()[0]
        array([[0.25, 0.75]])
        """
        probabilities = self._distributions(theta)
        transition, reward, ending = expected_model(self.entries, probabilities, survival=self.survival)
        names: dict[str, Any] = {"states": self.states, "actions": self.actions}
        mdp = MDP(transition, reward, self.discount, termination=ending, admissible=self.source >= 0, **names)
        mdp.keep_outcomes(self.entries, probabilities)
        mdp.arrival_value = self.terminal_value
        mdp.has_durations = self.survival is not None
        mdp.lost_durations = self.duration is not None and self.survival is None
        mdp.admissible = mdp.admissible & self.admissible  # actions may be excluded, see ``without``
        return mdp

    def _distributions(self, theta: ArrayLike) -> FloatArray:
        rows = self._of_outcomes(theta, "theta", ModelError)
        checks.require_sum_of_one(rows, "theta", error=ModelError)
        if self.terminal.any():
            rows = rows.copy()
            rows[-1, 0] = 1.0  # an end is certain, whatever the caller's rounding
        return rows

    def count(
        self, log: TableLike, prior: ArrayLike, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> FloatArray:
        """Return the Dirichlet counts after a log of transitions.

        If the outcome of a row is observed, or only one leads to its next state, the counts are those of the exact
        posterior. If several do, the count of 1 is split over them in proportion to their posterior means given the
        rows before: an approximation, which depends on the order of the rows and is surer than the data are. Agents
        count in this way. ``DirichletPosterior.from_log`` does not: its counts are not surer than the posterior, and
        ``prudent.posteriors.GroupedPosterior`` is the posterior itself.

        Parameters
        ----------
        log : TableLike
            Rows (state, action, next_state) or (state, action, next_state, outcome), an array [M, 3] or [M, 4], or a
            table with these columns. A column ``count`` says how often a row was seen. An outcome of None, NaN or -1
            was not observed. A next state of None, NaN or -2 says that the process ended, where it can; no row starts
            in a terminal state.
        prior : array_like [B, K]
            Counts before the log.
        indices : bool, default=False
            Whether the log goes by indices, as one made by ``trajectory``, and not by names.
        columns : mapping, optional
            Names of columns: ``{"state": "where", "count": None}``; None says that there is none.

        Returns
        -------
        float64 [B, K]
            ``prior`` plus the counts of the log.

        Raises
        ------
        DataError
            If a row is impossible; nothing is counted then.

        Examples
        --------
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.count([(0, 0, 1), (1, 0, 1), (1, 0, 0)], prior=model.prior())
        array([[1., 2.],
               [2., 2.]])
        """
        counts = self._of_outcomes(prior, "prior", PosteriorError).copy()
        rows, times = LogReader(self, indices).rows(log, counts, columns)
        add_log(self.entries, counts, rows, times)
        return counts

    def tally(
        self, log: TableLike, prior: ArrayLike, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> tuple[FloatArray, list[Group]]:
        """Return the counts of known outcomes after a log of transitions, and the groups of the others.

        Parameters
        ----------
        log : TableLike
            As for ``count``.
        prior : array_like [B, K]
            Counts before the log.
        indices : bool, default=False
            As for ``count``.
        columns : mapping, optional
            As for ``count``.

        Returns
        -------
        counts : float64 [B, K]
            ``prior`` plus the counts of rows that one outcome explains.
        groups : list of Group
            The outcomes that explain the other rows, and how many rows there are.

        Raises
        ------
        DataError
            If a row is impossible.

        Examples
        --------
        At a wall two moves lead nowhere:

        >>> model = UncertainMDP([[0]], [[[0, 0]]], [[[0.0, 0.0]]], discount=0.9)
        >>> model.tally([(0, 0, 0), (0, 0, 0, 1)], prior=model.prior())
        (array([[1., 2.]]), [Group(source=0, outcomes=(0, 1), times=1.0)])
        """
        counts = self._of_outcomes(prior, "prior", PosteriorError).copy()
        rows, times = LogReader(self, indices).rows(log, counts, columns)
        clear, groups = ambiguous_groups(self.entries, counts, rows, times)
        add_log(self.entries, counts, rows[clear], times[clear])
        return counts, groups

    def trajectory(
        self,
        theta: ArrayLike,
        policy: PolicyLike,
        steps: int,
        state: int | None = None,
        rng: RngLike = None,
        *,
        start: StartLike = None,
    ) -> IntArray:
        """Return a random trajectory.

        After a step that ends the process or arrives in a terminal state, the next one starts anew. With the same
        ``rng``, a longer log begins with the shorter one.

        Parameters
        ----------
        theta : array_like [B, K]
            Probabilities of the outcomes of each source.
        policy : PolicyLike
            The policy. One that depends on time counts it from each start, and the process starts anew after its T
            steps.
        steps : int
            Number of steps M.
        state : int, optional
            Index of the first state, by default drawn from ``start``, or 0 without it.
        rng : RngLike
            Source of randomness.
        start : StartLike
            Where the process starts anew, by default in ``state``.

        Returns
        -------
        int64 [M, 4]
            Rows (state, action, next_state, outcome), as indices; the next state is -2 where the process ends. Count
            them with ``count(log, prior, indices=True)``.

        Examples
        --------
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.trajectory([[0.0, 1.0], [1.0, 0.0]], policy=[0, 0], steps=3)
        array([[0, 0, 1, 1],
               [1, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        probabilities = self._distributions(theta)
        timed = Policy.read(policy, self)
        timed.require(1)
        chosen = timed.at(0)
        choices = cumulative_rows(chosen) if timed.mixed else np.empty((0, 0))
        first = Labels("state", None, self.n_states).index(0 if state is None else state)
        starts = np.eye(1, self.n_states, first)[0] if start is None else self.start_distribution(start)
        if start is None and self.terminal[first]:
            message = f"{self.state_labels.show(first)} is terminal: nothing happens there; give start"
            raise ParameterError(message, code="terminal-start", state=self.states[first])
        random, size = checks.generator(rng), checks.whole_number(steps, "steps", 0, memory=32.0)
        restarts = cumulative_rows(starts[np.newaxis])[0]
        if state is None and start is not None:
            first = int(np.searchsorted(restarts, random.random(), side="right"))
        uniforms = random.random((size, 1 + timed.mixed + (start is not None)))
        log = np.empty((size, 4), dtype=np.int64)
        actions = np.empty(0, dtype=np.int64) if timed.mixed else chosen
        course = self._course(probabilities, restarts)
        if timed.steps.shape[0] == 0:
            walk(course, actions, choices, uniforms, first, log)
        else:
            walk(course, actions, choices, uniforms, first, log, plan_of(*timed))
        return log

    def course(self, theta: FloatArray, start: int) -> Course:
        """Return the model as kernels walk through it, with one state after each end.

        Parameters
        ----------
        theta : float64 [B, K]
            Probabilities of outcomes.
        start : int
            Index of the state after an end.

        Returns
        -------
        Course
            The model with cumulative probabilities.
        """
        return self._course(theta, np.heaviside(np.arange(self.n_states) - start, 1.0))

    def _course(self, theta: FloatArray, restarts: FloatArray) -> Course:
        return Course(self.entries, self.terminal, self.entries.pack(cumulative_rows(theta)), restarts)

    def __repr__(self) -> str:
        most = "" if self.outcome_mask.all() else "up to "
        parts = [*self._sizes(), plural(self.n_sources, "source"), most + plural(self.n_outcomes, "outcome")]
        if self.duration is not None:
            parts.append(f"durations {self.duration.min():g} to {self.duration.max():g}")
        return f"UncertainMDP({', '.join(parts)}, discount {self.discount})"
