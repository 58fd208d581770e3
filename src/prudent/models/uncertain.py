"""A model whose dynamics are known but for the distributions of its sources.

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

An outcome may also end the process. With theta it is an ``MDP``; with a log of transitions it gives the Dirichlet
counts of a posterior of theta.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    finite_array,
    generator,
    integer_array,
    non_negative_array,
    number_array,
    positive,
    refuse,
    require_shape,
    require_sum_of_one,
    whole_number,
)
from .._support.labels import Labels, Names
from .._support.naming import NEXT_STATES, PAIRS, TERMINAL, Naming, PairNaming
from ..errors import ModelError, ParameterError, PosteriorError, PrudentError
from .builders import own_sources, packed, uncertain_direct, uncertain_dynamics, uncertain_table
from .expected import END, NONE, expected_model
from .frame import TabularModel, held, plural, read_terminal
from .known import MDP
from .logs import Course, LogReader, add_log, cumulative_rows, draw, walk

__all__ = ["UncertainMDP"]


class UncertainMDP(TabularModel):
    """Known dynamics driven by sources whose distributions are not known.

    Action a in state s draws an outcome k from source ``source[s, a]``, leads to ``next_state[s, a, k]`` and
    earns ``reward[s, a, k]``.

    Parameters
    ----------
    source : int [S, A], numbers 0..B-1, all of them used; -1 where the action is not admissible.
    next_state : int [S, A, K]; -1 where the source has no such outcome, -2 where the outcome ends the process:
        nothing is earned after it. All pairs that share a source must agree on which outcomes it has.
    reward : [S, A, K], or [S, A] if it does not depend on the outcome. What is given where there is no
        outcome is not looked at.
    discount : in [0, 1).
    states, actions : names, unique and hashable. Names 0, 1, ..., n-1 are the same as no names.
    sources : names of the sources; or "pair" where each has a pair of its own and is called (state, action).
    outcomes : B sequences of names, one for each outcome of the source; or, with ``sources="pair"``, "next_state":
        outcomes are called by the state they lead to.
    terminal : states where the process ends: a list of them (by name, where states have names), or a mapping from
        states to what arriving there is worth, by default 0. A terminal state has no actions; what the arrays
        say about it is not looked at (its sources may be -1).

    Inside, action 0 of a terminal state stands for the end: it pays the value of the state and is the last step. All
    terminal states share one source for it, which is added as the last one and has one outcome: with terminal states
    B is one more than the number of sources in ``source``, and theta, draws and counts have a row for it, of which only
    the first place is used (``prior()`` and the posteriors have it).

    Attributes
    ----------
    source : int64 [S, A].
    next_state : int32 [S, A, K], -1 where there is no outcome, -2 where the process ends.
    reward : float64 [S, A, K], 0 where there is no outcome.
    admissible : bool [S, A].
    outcome_mask : bool [B, K], True where the source has the outcome.
    terminal : bool [S]; terminal_value : float64 [S], 0 elsewhere.

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

    _compared = ("discount", "states", "actions", "_called", "source", "next_state", "reward", "terminal")

    n_sources: int
    n_outcomes: int
    source: IntArray  # [S, A]
    next_state: npt.NDArray[np.int32]  # [S, A, K]
    reward: FloatArray  # [S, A, K]
    outcome_mask: BoolArray  # [B, K]
    ends: bool  # whether the process can end at all
    naming: Naming  # how sources and outcomes are called; for users there are ``sources`` and ``outcomes``

    def __init__(
        self,
        source: Any,
        next_state: Any,
        reward: Any,
        discount: float,
        *,
        states: Names = None,
        actions: Names = None,
        sources: Names = None,
        outcomes: Sequence[Iterable[Hashable]] | str | None = None,
        terminal: Any = None,
    ) -> None:
        self.source = np.array(integer_array(source, "source", ndim=2, error=ModelError), np.int64, order="C")
        refuse(self.source < -1, self.source, "source", "0 or more, or -1 if inadmissible", error=ModelError)
        states = held(states)
        ended, self.terminal_value = read_terminal(terminal, Labels("state", states, len(self.source)))
        self.terminal = ended
        self._frame(self.source >= 0, discount, states, actions, ended)
        self.source[ended] = -1
        self.admissible = self.source >= 0
        numbers, first = np.unique(self.source[self.admissible], return_index=True)
        self.n_sources = numbers.size
        gap = numbers != np.arange(self.n_sources)
        if gap.any():
            where = " but perhaps in a terminal state" if ended.any() else ""
            raise ModelError(f"no pair uses source {np.argmax(gap)}{where}, but there is a source {numbers[-1]}")
        self.next_state = self._checked_next_state(next_state)
        self.n_outcomes = self.next_state.shape[2]
        exists = self.next_state != NONE
        first = np.flatnonzero(self.admissible)[first]  # the first pair that uses each source
        self.outcome_mask = exists.reshape(self.source.size, self.n_outcomes)[first]
        self._check_shared_outcomes(exists, first)
        self.reward = self._checked_reward(reward, exists)
        if ended.any():
            self._close()
        self.ends = bool((self.next_state == END).any())
        self.naming = self._named(sources, outcomes, first)

    def _close(self) -> None:
        """Give terminal states their only pair, action 0, whose source has one outcome, the end."""
        self.source[self.terminal, 0] = self.n_sources
        self.admissible[self.terminal, 0] = True
        self.next_state[self.terminal, 0, 0] = END
        self.reward[self.terminal, 0, 0] = self.terminal_value[self.terminal]
        self.outcome_mask = np.vstack((self.outcome_mask, np.arange(self.n_outcomes) == 0))
        self.n_sources += 1

    def _checked_next_state(self, next_state: Any) -> npt.NDArray[np.int32]:
        given = integer_array(next_state, "next_state", ndim=3, error=ModelError)
        require_shape(given, "next_state", (*self.source.shape, given.shape[2]), "[S, A, K]", error=ModelError)
        bad = ((given < END) | (given >= self.n_states)) & self.admissible[:, :, None]
        expected = f"a state from 0 to {self.n_states - 1}, or -1 for no such outcome, or -2 for the end"
        refuse(bad, given, "next_state", expected, error=ModelError)
        targets = np.array(given, dtype=np.int32, order="C")
        targets[~self.admissible] = NONE
        return targets

    def _check_shared_outcomes(self, exists: BoolArray, first: IntArray) -> None:
        empty = ~self.outcome_mask.any(axis=1)
        if empty.any():
            b = int(np.argmax(empty))
            raise ModelError(f"{self.pair_name(first[b])} has no outcome (source {b})")
        odd = (exists != self.outcome_mask[self.source]) & self.admissible[:, :, None]
        if odd.any():
            pair, k = divmod(int(np.argmax(odd)), self.n_outcomes)
            b = int(self.source.flat[pair])
            having, lacking = (first[b], pair) if self.outcome_mask[b, k] else (pair, first[b])
            raise ModelError(
                f"outcome {k} of source {b} has a next state for {self.pair_name(having)} but none for "
                f"{self.pair_name(lacking)}; pairs that share a source must share its outcomes"
            )

    def _checked_reward(self, reward: Any, exists: BoolArray) -> FloatArray:
        given = number_array(reward, "reward", error=ModelError)
        if given.ndim == 2:
            require_shape(given, "reward", self.source.shape, "[S, A]", error=ModelError)
            given = given[:, :, None]
        else:
            require_shape(given, "reward", exists.shape, "[S, A, K]", error=ModelError)
        return finite_array(np.where(exists, given, 0.0), "reward", error=ModelError)

    def _named(self, sources: Any, outcomes: Any, first: IntArray) -> Naming:
        """Return how sources and outcomes are called; ``first`` [B] is the first pair that uses each source."""
        by_pair, by_next_state = (
            isinstance(given, str) and given == word for given, word in ((sources, PAIRS), (outcomes, NEXT_STATES))
        )
        if by_next_state and not by_pair:
            raise ModelError("outcomes can be called by their next states only if sources are called by their pairs")
        if by_pair and np.count_nonzero(self.admissible & ~self.terminal[:, None]) != first.size:
            raise ModelError("sources can be called by their pairs only if each pair has its own")
        end = np.full(self.n_sources - first.size, -1)
        if by_next_state:
            targets = self.next_state.reshape(self.source.size, self.n_outcomes)
            return PairNaming(self.state_labels, self.action_labels, np.append(first, end), targets)
        labels = self._listed_outcomes(outcomes)
        if by_pair:
            return PairNaming(self.state_labels, self.action_labels, np.append(first, end), outcomes=labels)
        if sources is None:
            return Naming(None, labels)
        names = tuple(sources)
        if len(names) == first.size < self.n_sources:
            names = (*names, TERMINAL)
        return Naming(Labels("source", names, self.n_sources), labels)

    def _listed_outcomes(self, outcomes: Sequence[Iterable[Hashable]] | None) -> list[Labels] | None:
        if outcomes is None:
            return None
        own = self.n_sources - bool(self.terminal.any())
        if len(outcomes) == own < self.n_sources:
            outcomes = [*outcomes, range(1)]
        if len(outcomes) != self.n_sources:
            raise ModelError(f"outcomes has names for {len(outcomes)} sources, expected {own}")
        sizes = self.n_outcomes - np.argmax(self.outcome_mask[:, ::-1], axis=1)
        labels = [
            Labels(f"outcome of source {b}" if self.n_sources > 1 else "outcome", names, int(size))
            for b, (names, size) in enumerate(zip(outcomes, sizes, strict=True))
        ]
        return labels if any(each.names is not None for each in labels) else None

    @property
    def _called(self) -> tuple[Any, Any]:
        return self.naming.given

    def names(self) -> dict[str, Any]:
        """Return the names, as the constructor takes them; those of sources only if there are some."""
        sources, outcomes = self._called
        names = {"states": self.states, "actions": self.actions, "outcomes": outcomes}
        return names if sources is None else names | {"sources": sources}

    @property
    def sources(self) -> tuple[Hashable, ...] | None:
        """The names of the sources, or None where they are just 0, 1, ..., B-1.

        >>> UncertainMDP.direct([[0.0, 1.0]], discount=0.9, states=["here"]).sources
        (('here', 0), ('here', 1))
        """
        return self.naming.source_names

    @property
    def outcomes(self) -> tuple[tuple[Hashable, ...], ...] | None:
        """The names of the outcomes of each source, or None where they are just 0, 1, ..., K-1.

        >>> UncertainMDP.direct([[0.0, 1.0]], discount=0.9, states=["here"]).outcomes
        (('here',), ('here',))
        """
        return self.naming.outcome_names

    @classmethod
    def direct(
        cls,
        reward: Any,
        discount: float,
        *,
        support: Any = None,
        admissible: Any = None,
        states: Names = None,
        actions: Names = None,
        terminal: Any = None,
    ) -> UncertainMDP:
        """Return the model in which every row of the transition matrix is unknown (direct parametrisation).

        Each pair has its own source, numbered s*A + a, whose outcome is the next state: K = S and
        next_state[s, a, k] = k. If some pairs are inadmissible, the others are numbered in that order
        without gaps. ``reward`` is [S, A], or [S, A, S] if it depends on the next state.

        ``support``, bool [S, A, S], says which next states are possible at all: then the outcomes of a pair
        are its possible next states in order, and K is the largest number of them. ``terminal`` states, as in the
        class itself, have no pairs of their own.

        >>> model = UncertainMDP.direct([[0.0, 1.0], [2.0, 3.0]], discount=0.9)
        >>> model.source
        array([[0, 1],
               [2, 3]])
        >>> model.next_state[1, 0]
        array([0, 1], dtype=int32)
        """
        states, terminal = held(states), held(terminal)
        arrays = uncertain_direct(reward, support, admissible, states, terminal)
        return cls(**arrays, discount=discount, states=states, actions=actions, terminal=terminal)

    @classmethod
    def from_mdp(cls, mdp: MDP) -> UncertainMDP:
        """Return the direct model on the transitions that a known MDP has; their probabilities are forgotten.

        Steps that end the process are one more outcome of their pair; states where every step does are terminal.
        An MDP that was given rewards for single transitions (see :attr:`MDP.transition_reward`) passes them on, so
        that they enter the risk. One that knows only the mean reward of a pair pays it whatever the outcome: its
        rewards enter the risk as certain.

        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9)
        >>> UncertainMDP.from_mdp(mdp).next_state.tolist()
        [[[0, 1]], [[1, -1]]]
        """
        pairs, targets, earned = mdp.steps()
        goes_on = ~mdp.terminal[pairs // mdp.n_actions]
        shape, pairs = mdp.admissible.shape, pairs[goes_on]
        states = range(mdp.n_states) if mdp.states is None else mdp.states
        return cls(
            own_sources(mdp.admissible & ~mdp.terminal[:, None]),
            packed(pairs, targets[goes_on], shape),
            packed(pairs, earned[goes_on], shape, fill=0.0),
            mdp.discount,
            states=mdp.states,
            actions=mdp.actions,
            sources=PAIRS,
            outcomes=NEXT_STATES,
            terminal={states[s]: mdp.terminal_value[s] for s in np.flatnonzero(mdp.terminal)},
        )

    @classmethod
    def from_dynamics(
        cls,
        dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
        states: Iterable[Hashable],
        actions: Iterable[Hashable],
        noise: Iterable[Hashable] | Mapping[Hashable, Iterable[Hashable]],
        discount: float,
        *,
        source: Callable[[Any, Any], Hashable] | None = None,
        admissible: Callable[[Any, Any], bool] | None = None,
        terminal: Any = None,
    ) -> UncertainMDP:
        """Return the model of ``dynamics(state, action, noise) -> (next_state, reward)`` on your own labels.

        ``noise`` lists the outcomes of the only source; or it maps the name of each source to its outcomes,
        and ``source(state, action)`` names the one that acts. Sources are numbered in the order of the
        mapping. ``admissible(state, action)`` says which actions are allowed, by default all; an action that no
        state admits is dropped with a word in ``notes``. A next state of None ends the process; ``terminal`` states
        are those of the class itself, and ``dynamics`` is not called in them.

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
        return cls._noted(arrays | {"terminal": terminal}, discount)

    @classmethod
    def from_table(
        cls,
        table: Any,
        discount: float,
        *,
        states: Names = None,
        actions: Names = None,
        columns: Mapping[str, Any] | None = None,
        terminal: Any = None,
    ) -> UncertainMDP:
        """Return the model of a long table of known dynamics.

        Its columns are state, action, outcome, next_state, reward and optionally source: a DataFrame, the path of a
        CSV or Parquet file, a dict of columns, a structured array, or rows of values in that order. Without sources,
        one drives every pair. Pairs that are not listed are inadmissible. The labels of states, actions, sources, and
        of the outcomes of each source become indices as in ``MDP.from_table``, and ``columns`` is used as there.
        A next state that is missing (None, NaN) ends the process; ``terminal`` states are those of the class itself and
        need no rows.

        A table with named columns may have no outcomes. Then every pair has its own source, called (state, action),
        whose outcomes are the next states that are listed for it; a next state listed with several rewards is as many
        outcomes, called (next_state, reward). Probabilities are not looked at: they are what is not known.

        >>> rows = [("up", "bet", "win", "up", 1.0), ("up", "bet", "loss", "down", -1.0),
        ...         ("down", "bet", "win", "up", 1.0), ("down", "bet", "loss", "down", -1.0)]
        >>> model = UncertainMDP.from_table(rows, discount=0.9)
        >>> model.outcomes
        (('loss', 'win'),)
        >>> model.compatible("up", "bet", "down")
        array([0])
        """
        return cls._noted(uncertain_table(table, states, actions, columns) | {"terminal": terminal}, discount)

    def mdp(self, theta: Any) -> MDP:
        """Return the MDP in which source b draws its outcomes with probabilities ``theta[b]``, theta [B, K].

        Outcomes that lead to the same state add up; the reward is the mean over the outcomes. Those that end the
        process add up to ``termination``, which is 1 in terminal states.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).mdp([[0.25, 0.75], [1.0, 0.0]]).dense()[0]
        array([[0.25, 0.75]])
        """
        probabilities = self._distributions(theta)
        transition, reward, ending = expected_model(self.source, self.next_state, self.reward, probabilities)
        return MDP(
            transition,
            reward,
            self.discount,
            termination=ending,
            admissible=self.admissible,
            states=self.states,
            actions=self.actions,
        )

    def _distributions(self, theta: Any) -> FloatArray:
        rows = self._of_outcomes(theta, "theta", ModelError)
        require_sum_of_one(rows, "theta", error=ModelError)
        if self.terminal.any():
            rows = rows.copy()
            rows[-1, 0] = 1.0  # an end is certain, whatever the caller's rounding
        return rows

    def _of_outcomes(self, values: Any, name: str, error: type[PrudentError]) -> FloatArray:
        """Return numbers >= 0, [B, K], that are zero where a source has no such outcome."""
        array = non_negative_array(values, name, ndim=2, error=error)
        letters = "[B, K] (its last row is that of the terminal states)" if self.terminal.any() else "[B, K]"
        require_shape(array, name, self.outcome_mask.shape, letters, error=error)
        refuse((array > 0.0) & ~self.outcome_mask, array, name, "0: this source has no such outcome", error=error)
        return array

    def prior(self, count: float = 1.0) -> FloatArray:
        """Return Dirichlet counts [B, K]: ``count`` for every outcome a source has, 0 elsewhere.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).prior()
        array([[1., 1.],
               [1., 1.]])
        """
        return np.where(self.outcome_mask, positive(count, "count"), 0.0)

    def compatible(self, state: Hashable, action: Hashable, next_state: Hashable) -> IntArray:
        """Return the outcomes that lead from ``state`` by ``action`` to ``next_state``; there may be none.

        A ``next_state`` of None asks for those that end the process.

        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).compatible(0, 0, 0)
        array([0, 1])
        """
        s, a = self.state_index(state), self.action_index(action)
        target = END if next_state is None else self.state_labels.index(next_state, "next_state")
        if not self.admissible[s, a]:
            raise ParameterError(f"{self.pair_name(s * self.n_actions + a)} is not admissible")
        return np.flatnonzero(self.next_state[s, a] == target)

    def count(
        self, log: Any, prior: Any, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> FloatArray:
        """Return the Dirichlet counts [B, K] after a log of transitions: ``prior`` [B, K] plus what was seen.

        The log has rows (state, action, next_state) or (state, action, next_state, outcome): tuples, an array
        [M, 3] or [M, 4], a DataFrame or dict with these columns, or the path of a CSV or Parquet file. A column
        ``count`` (or ``weight``, ``n``) says how often a row was seen; other usual names of columns are known, and
        ``columns={"state": "where", "count": None}`` says which is which, and what there is not. By default what has a
        name goes by its name; with ``indices=True`` everything goes by index, as in a log made by ``trajectory``. An
        outcome of None, NaN or -1 was not observed. A next state of None, NaN or -2 says that the process
        ended, where it can; no row starts in a terminal state.

        If the outcome is known, or only one leads to the next state, the counts are those of the exact
        posterior. If several do, the count of 1 is split over them in proportion to their posterior means
        given the rows before: an approximation, which depends on the order of the rows. If any row is
        impossible, a ``DataError`` names it and nothing is counted.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.count([(0, 0, 1), (1, 0, 1), (1, 0, 0)], prior=model.prior())
        array([[1., 2.],
               [2., 2.]])
        """
        counts = self._of_outcomes(prior, "prior", PosteriorError).copy()
        rows, times = LogReader(self, indices).rows(log, counts, columns)
        add_log(self.source, self.next_state, counts, rows, times)
        return counts

    def trajectory(
        self,
        theta: Any,
        policy: Any,
        steps: int,
        state: int | None = None,
        rng: np.random.Generator | int | None = None,
        *,
        start: Any = None,
    ) -> IntArray:
        """Return a random trajectory as a log int64 [M, 4]: rows (state, action, next_state, outcome), as indices.

        Sources draw from ``theta`` [B, K]; ``policy`` [S] gives the action in each state; ``state`` is the index
        of the first state. With the same ``rng``, a longer log begins with the shorter one. In a model with names,
        count it with ``count(log, prior, indices=True)``.

        After a step that ends the process (its next state is -2) or arrives in a terminal state, the next one starts
        anew: in ``start``, a state or a distribution over states as :meth:`start_distribution` reads it, which also
        gives the first state if ``state`` is not given. Without ``start`` it is ``state``, by default 0.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.trajectory([[0.0, 1.0], [1.0, 0.0]], policy=[0, 0], steps=3)
        array([[0, 0, 1, 1],
               [1, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        probabilities = self._distributions(theta)
        chosen = self.policy_indices(policy)
        by_index = Labels("state", None, self.n_states)
        first = by_index.index(0 if state is None else state)
        starts = np.eye(1, self.n_states, first)[0] if start is None else self.start_distribution(start)
        if start is None and self.terminal[first]:
            raise ParameterError(f"{self.state_labels.show(first)} is terminal: nothing happens there; say start")
        random, size = generator(rng), whole_number(steps, "steps", 0)
        restarts = cumulative_rows(starts[np.newaxis])[0]
        if state is None and start is not None:
            first = draw(restarts, random.random())
        uniforms = random.random((size, 1 + (start is not None)))
        log = np.empty((size, 4), dtype=np.int64)
        walk(self._course(probabilities, restarts), chosen, uniforms, first, log)
        return log

    def course(self, theta: FloatArray, start: int) -> Course:
        """Return what kernels need to walk with true probabilities ``theta`` [B, K], and to restart in one state."""
        return self._course(theta, np.heaviside(np.arange(self.n_states) - start, 1.0))

    def _course(self, theta: FloatArray, restarts: FloatArray) -> Course:
        return Course(self.source, self.next_state, self.terminal, cumulative_rows(theta), restarts)

    def __repr__(self) -> str:
        most = "" if self.outcome_mask.all() else "up to "
        parts = [*self._sizes(), plural(self.n_sources, "source"), most + plural(self.n_outcomes, "outcome")]
        return f"UncertainMDP({', '.join(parts)}, discount {self.discount})"
