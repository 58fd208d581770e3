"""A model whose dynamics are known but for the distributions of its sources.

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

An outcome may also end the process. With theta it is an ``MDP``; with a log of transitions it gives the Dirichlet
counts of a posterior of theta.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support.checks import (
    BoolArray,
    FloatArray,
    IntArray,
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
from ..data.labels import Labels, Names
from ..data.naming import NEXT_STATES, PAIRS, TERMINAL, Naming, PairNaming
from ..errors import ModelError, ParameterError, PosteriorError, PrudentError
from .base import TabularModel, held, plural, read_terminal
from .builders import own_sources, places_in, uncertain_direct, uncertain_dynamics, uncertain_table
from .entries import END, NONE, Entries, expected_model
from .mdp import MDP
from .timed_policy import read_timed
from .transitions import Course, LogReader, add_log, cumulative_rows, walk

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
    discount : in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
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
    the first place is used (``prior()`` and the posteriors have it; where it is left out it is added).

    Attributes
    ----------
    source : int64 [S, A].
    next_state : int32 [S, A, K], -1 where there is no outcome, -2 where the process ends.
    reward : float64 [S, A, K], 0 where there is no outcome.
    admissible : bool [S, A].
    outcome_mask : bool [B, K], True where the source has the outcome.
    entries : the same, in memory in proportion to the outcomes that exist. ``next_state``, ``reward`` and
        ``outcome_mask`` are read-only arrays, made when they are read first.
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

    _compared = ("discount", "states", "actions", "_called", "n_outcomes", "entries", "terminal")

    n_sources: int
    n_outcomes: int
    source: IntArray  # [S, A]
    entries: Entries  # what the outcomes lead to and earn, as kernels want it
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
        self._take_sources(source, discount, states, actions, terminal)
        given = integer_array(next_state, "next_state", ndim=3, error=ModelError)
        require_shape(given, "next_state", (*self.source.shape, given.shape[2]), "[S, A, K]", error=ModelError)
        own = self.admissible & ~self.terminal[:, None]
        exists = (given != NONE) & own[:, :, None]
        bad = exists & ((given < END) | (given >= self.n_states))
        expected = f"a state from 0 to {self.n_states - 1}, or -1 for no such outcome, or -2 for the end"
        refuse(bad, given, "next_state", expected, error=ModelError)
        exists = exists.reshape(self.source.size, given.shape[2])
        users = self._first_pairs()
        mask = exists[users]
        self._check_outcomes(np.count_nonzero(mask, axis=1), users)
        odd = (exists != mask[np.where(own, self.source, 0).reshape(-1)]) & own.reshape(-1, 1)
        if odd.any():
            pair, k = divmod(int(np.argmax(odd)), exists.shape[1])
            self._refuse_odd(pair, k, users, mask)
        kept = exists.reshape(given.shape)
        earned = number_array(reward, "reward", error=ModelError)
        if earned.ndim == 2:
            require_shape(earned, "reward", self.source.shape, "[S, A]", error=ModelError)
            earned = np.broadcast_to(earned[:, :, None], given.shape)
        else:
            require_shape(earned, "reward", given.shape, "[S, A, K]", error=ModelError)
        refuse(kept & ~np.isfinite(earned), earned, "reward", "a finite number", error=ModelError)
        self._store(
            np.count_nonzero(exists, axis=1),
            given[kept].astype(np.int32, copy=False),
            earned[kept],
            np.count_nonzero(mask, axis=1),
            np.broadcast_to(np.arange(given.shape[2], dtype=np.int32), mask.shape)[mask],
        )
        self.n_outcomes = given.shape[2]
        self.naming = self._named(sources, outcomes, users)

    @classmethod
    def _of_entries(
        cls,
        source: IntArray,  # [S, A]
        pair: IntArray,  # [E] s*A + a, in any order
        outcome: IntArray,  # [E]
        next_state: npt.NDArray[Any],  # [E], -2 for the end
        reward: FloatArray,  # [E]
        discount: float,
        *,
        states: Names = None,
        actions: Names = None,
        sources: Names = None,
        outcomes: Sequence[Iterable[Hashable]] | str | None = None,
        terminal: Any = None,
    ) -> UncertainMDP:
        """Return the model with these outcomes and no others, in memory in proportion to them; builders call it."""
        self = cls.__new__(cls)
        self._take_sources(source, discount, states, actions, terminal)
        own = self.admissible & ~self.terminal[:, None]
        used = own.reshape(-1)[pair]
        order = np.flatnonzero(used)[np.lexsort((outcome[used], pair[used]))]
        pair, outcome, next_state, reward = pair[order], outcome[order], next_state[order], reward[order]
        sizes = np.bincount(pair, minlength=self.source.size)
        users = self._first_pairs()
        self._check_outcomes(sizes[users], users)
        begins = np.cumsum(sizes) - sizes
        of_users = np.arange(sizes[users].sum()) + np.repeat(
            begins[users] - (np.cumsum(sizes[users]) - sizes[users]), sizes[users]
        )
        of_source = self.source.reshape(-1)[pair]  # of each entry
        slots = np.cumsum(sizes[users]) - sizes[users]
        place = np.arange(pair.size) - begins[pair]
        agree = (place < sizes[users][of_source]) & (sizes[pair] == sizes[users][of_source])
        agree[agree] = outcome[agree] == outcome[of_users][slots[of_source[agree]] + place[agree]]
        if not agree.all():
            e = int(np.argmin(agree))
            mine, theirs = (set(outcome[pair == p].tolist()) for p in (pair[e], users[of_source[e]]))
            k = min(mine ^ theirs)
            mask = np.zeros((self.n_sources, k + 1), dtype=np.bool_)
            mask[of_source[e], k] = k in theirs
            self._refuse_odd(int(pair[e]), k, users, mask)
        self._store(sizes, next_state.astype(np.int32), reward, sizes[users], outcome[of_users].astype(np.int32))
        self.n_outcomes = int(outcome.max(initial=0)) + 1
        self.naming = self._named(sources, outcomes, users)
        return self

    def _take_sources(self, source: Any, discount: float, states: Names, actions: Names, terminal: Any) -> None:
        """Read what does not depend on the outcomes; terminal states get their source later."""
        self.source = np.array(integer_array(source, "source", ndim=2, error=ModelError), np.int64, order="C")
        refuse(self.source < -1, self.source, "source", "0 or more, or -1 if inadmissible", error=ModelError)
        states = held(states)
        self.terminal, self.terminal_value = read_terminal(terminal, Labels("state", states, len(self.source)))
        self._frame(self.source >= 0, discount, states, actions, self.terminal)
        self.arrival_value = self.terminal_value
        self.source[self.terminal] = -1
        self.admissible = self.source >= 0
        numbers = np.unique(self.source[self.admissible])
        self.n_sources = numbers.size
        gap = numbers != np.arange(self.n_sources)
        if gap.any():
            where = " but perhaps in a terminal state" if self.terminal.any() else ""
            raise ModelError(f"no pair uses source {np.argmax(gap)}{where}, but there is a source {numbers[-1]}")

    def _first_pairs(self) -> IntArray:
        """Return the first pair that uses each source [B]."""
        _, first = np.unique(self.source[self.admissible], return_index=True)
        return np.flatnonzero(self.admissible)[first]

    def _check_outcomes(self, sizes: IntArray, users: IntArray) -> None:
        if (sizes == 0).any():
            b = int(np.argmin(sizes))
            raise ModelError(f"{self.pair_name(users[b])} has no outcome (source {b})")

    def _refuse_odd(self, pair: int, k: int, users: IntArray, mask: BoolArray) -> None:
        """Raise for a pair that has an outcome k which the first pair of its source lacks, or the other way round."""
        b = int(self.source.flat[pair])
        having, lacking = (users[b], pair) if mask[b, k] else (pair, users[b])
        raise ModelError(
            f"outcome {k} of source {b} has a next state for {self.pair_name(having)} but none for "
            f"{self.pair_name(lacking)}; pairs that share a source must share its outcomes"
        )

    def _store(
        self,
        sizes: IntArray,  # [P] entries of each pair
        next_state: npt.NDArray[np.int32],  # [E]
        reward: FloatArray,  # [E]
        slots: IntArray,  # [B] outcomes of each source
        outcome: npt.NDArray[np.int32],  # [F]
    ) -> None:
        """Keep the outcomes, and give terminal states theirs: action 0 ends the process and pays their value."""
        if self.terminal.any():
            pairs = np.flatnonzero(self.terminal) * self.n_actions
            places = (np.cumsum(sizes) - sizes)[pairs]  # in front of which they go
            next_state = np.insert(next_state, places, END)
            reward = np.insert(reward, places, self.terminal_value[self.terminal])
            sizes[pairs] = 1
            # of the same type: kernels would be compiled once more for another one
            slots, outcome = np.append(slots, 1), np.append(outcome, np.int32(0))
            self.source.flat[pairs] = self.n_sources
            self.admissible.flat[pairs] = True
            self.n_sources += 1
        self.entries = Entries(
            source=self.source.reshape(-1),
            first=np.concatenate(([0], np.cumsum(sizes))),
            next_state=next_state,
            reward=np.ascontiguousarray(reward),
            begin=np.concatenate(([0], np.cumsum(slots))),
            outcome=outcome,
            discount=self.discount,
            n_actions=self.n_actions,
        )
        self.ends = bool((next_state == END).any())

    @cached_property
    def next_state(self) -> npt.NDArray[np.int32]:
        """Where the outcomes lead, int32 [S, A, K]: -1 where there is none, -2 where the process ends."""
        return self._dense(self.entries.next_state, NONE)

    @cached_property
    def reward(self) -> FloatArray:
        """What the outcomes earn, float64 [S, A, K]: 0 where there is none."""
        return self._dense(self.entries.reward, 0.0)

    def _dense(self, values: npt.NDArray[Any], fill: float) -> Any:
        array = self.entries.spread(values, self.n_outcomes, fill).reshape(*self.source.shape, self.n_outcomes)
        array.flags.writeable = False  # a copy: to change it would change nothing
        return array

    @cached_property
    def outcome_mask(self) -> BoolArray:
        """Which outcomes the sources have, bool [B, K]."""
        return self.entries.mask(self.n_outcomes)

    def leads(self, pair: int) -> npt.NDArray[np.int32]:
        """Return where the outcomes of the pair s*A + a lead [K], as ``next_state`` has it.

        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).leads(0)
        array([ 0,  0, -1], dtype=int32)
        """
        of, found = self.entries, np.full(self.n_outcomes, NONE, dtype=np.int32)
        b = of.source[pair]
        found[of.outcome[of.begin[b] : of.begin[b + 1]]] = of.next_state[of.first[pair] : of.first[pair + 1]]
        return found

    def _named(self, sources: Any, outcomes: Any, users: IntArray) -> Naming:
        """Return how sources and outcomes are called; ``users`` [B] are the first pairs that use each source."""
        by_pair, by_next_state = (
            isinstance(given, str) and given == word for given, word in ((sources, PAIRS), (outcomes, NEXT_STATES))
        )
        if by_next_state and not by_pair:
            raise ModelError("outcomes can be called by their next states only if sources are called by their pairs")
        end = np.flatnonzero(self.terminal)[: self.n_sources - users.size] * self.n_actions
        pairs, ended = np.append(users, end), bool(end.size)
        if by_pair:
            if np.count_nonzero(self.admissible & ~self.terminal[:, None]) != users.size:
                raise ModelError("sources can be called by their pairs only if each pair has its own")
            labels = None if by_next_state else self._listed_outcomes(outcomes)
            return PairNaming(self.state_labels, self.action_labels, pairs, ended, self.entries, labels, by_next_state)
        labels = self._listed_outcomes(outcomes)
        if sources is None:
            return Naming(None, labels)
        names = tuple(sources)
        if len(names) == users.size < self.n_sources:
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
        sizes = 1 + self.entries.outcome[self.entries.begin[1:] - 1]
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

        ``support``, bool [S, A, S] or a SciPy sparse matrix (S*A) x S, says which next states are possible at all:
        then the outcomes of a pair are its possible next states in order, and K is the largest number of them.
        ``terminal`` states, as in the class itself, have no pairs of their own.

        >>> model = UncertainMDP.direct([[0.0, 1.0], [2.0, 3.0]], discount=0.9)
        >>> model.source
        array([[0, 1],
               [2, 3]])
        >>> model.next_state[1, 0]
        array([0, 1], dtype=int32)
        """
        states, terminal = held(states), held(terminal)
        arrays = uncertain_direct(reward, support, admissible, states, terminal)
        make = cls if support is None else cls._of_entries
        return make(**arrays, discount=discount, states=states, actions=actions, terminal=terminal)

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
        states = range(mdp.n_states) if mdp.states is None else mdp.states
        return cls._of_entries(
            own_sources(mdp.admissible & ~mdp.terminal[:, None]),
            pairs,
            places_in(pairs),
            targets,
            earned,
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
        return cls._noted(arrays | {"terminal": terminal}, discount, cls._of_entries)

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
        arrays = uncertain_table(table, states, actions, columns)
        return cls._noted(arrays | {"terminal": terminal}, discount, cls._of_entries)

    def mdp(self, theta: Any) -> MDP:
        """Return the MDP in which source b draws its outcomes with probabilities ``theta[b]``, theta [B, K].

        Outcomes that lead to the same state add up; the reward is the mean over the outcomes. Those that end the
        process add up to ``termination``, which is 1 in terminal states. What single outcomes earn is kept for
        :func:`prudent.returns` and for objectives such as :class:`prudent.EVaR`, which look at more than means.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).mdp([[0.25, 0.75], [1.0, 0.0]]).dense()[0]
        array([[0.25, 0.75]])
        """
        probabilities = self._distributions(theta)
        transition, reward, ending = expected_model(self.entries, probabilities)
        known = MDP(
            transition,
            reward,
            self.discount,
            termination=ending,
            admissible=self.admissible,
            states=self.states,
            actions=self.actions,
        )
        known.keep_outcomes(self.entries, probabilities)
        known.arrival_value = self.terminal_value
        return known

    def _distributions(self, theta: Any) -> FloatArray:
        rows = self._of_outcomes(theta, "theta", ModelError)
        require_sum_of_one(rows, "theta", error=ModelError)
        if self.terminal.any():
            rows = rows.copy()
            rows[-1, 0] = 1.0  # an end is certain, whatever the caller's rounding
        return rows

    def _of_outcomes(self, values: Any, name: str, error: type[PrudentError]) -> FloatArray:
        """Return numbers >= 0, [B, K], that are zero where a source has no such outcome."""
        array = self.with_end(non_negative_array(values, name, ndim=2, error=error))
        letters = "[B, K] (its last row is that of the terminal states)" if self.terminal.any() else "[B, K]"
        require_shape(array, name, self.outcome_mask.shape, letters, error=error)
        refuse((array > 0.0) & ~self.outcome_mask, array, name, "0: this source has no such outcome", error=error)
        return array

    def with_end(self, values: FloatArray) -> FloatArray:
        """Return numbers [..., B, K], with the row of the terminal states (1, 0, 0, ...) where that was left out."""
        if not self.terminal.any() or values.shape[-2] != self.n_sources - 1 or values.shape[-1] != self.n_outcomes:
            return values
        row = np.zeros((*values.shape[:-2], 1, self.n_outcomes))
        row[..., 0] = 1.0
        return np.concatenate((values, row), axis=-2)

    @cached_property
    def absorbing(self) -> BoolArray:
        """Which states are never left, bool [S]: whatever the action and the outcome, the next state is the same.

        >>> UncertainMDP.direct([[0.0], [1.0]], 0.9, support=[[[1, 1]], [[0, 1]]]).absorbing
        array([False, True])
        """
        state = self.entries.pairs() // self.n_actions
        leaves = np.bincount(state, weights=self.entries.next_state != state, minlength=self.n_states)
        return np.asarray(leaves == 0)

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
        return np.flatnonzero(self.leads(s * self.n_actions + a) == target)

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
        add_log(self.entries, counts, rows, times)
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

        Sources draw from ``theta`` [B, K]; ``policy`` gives the action in each state, or the probabilities of actions
        [S, A] (see :meth:`policy_matrix`); ``state`` is the index of the first state. With the same ``rng``, a longer
        log begins with the shorter one. In a model with names, count it with ``count(log, prior, indices=True)``.

        After a step that ends the process (its next state is -2) or arrives in a terminal state, the next one starts
        anew: in ``start``, a state or a distribution over states as :meth:`start_distribution` reads it, which also
        gives the first state if ``state`` is not given. Without ``start`` it is ``state``, by default 0.

        A policy may depend on time, which counts from each start: a Solution with a horizon, actions [T, S],
        probabilities [T, S, A], or a list of policies. After its T steps the process starts anew.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.trajectory([[0.0, 1.0], [1.0, 0.0]], policy=[0, 0], steps=3)
        array([[0, 0, 1, 1],
               [1, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        probabilities = self._distributions(theta)
        timed = read_timed(self, policy)
        chosen = timed.at(0)
        choices = cumulative_rows(chosen) if timed.mixed else np.empty((0, 0))
        by_index = Labels("state", None, self.n_states)
        first = by_index.index(0 if state is None else state)
        starts = np.eye(1, self.n_states, first)[0] if start is None else self.start_distribution(start)
        if start is None and self.terminal[first]:
            raise ParameterError(f"{self.state_labels.show(first)} is terminal: nothing happens there; say start")
        random, size = generator(rng), whole_number(steps, "steps", 0)
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
            walk(course, actions, choices, uniforms, first, log, timed.plan())
        return log

    def course(self, theta: FloatArray, start: int) -> Course:
        """Return what kernels need to walk with true probabilities ``theta`` [B, K], and to restart in one state."""
        return self._course(theta, np.heaviside(np.arange(self.n_states) - start, 1.0))

    def _course(self, theta: FloatArray, restarts: FloatArray) -> Course:
        return Course(self.entries, self.terminal, self.entries.pack(cumulative_rows(theta)), restarts)

    def __repr__(self) -> str:
        most = "" if self.outcome_mask.all() else "up to "
        parts = [*self._sizes(), plural(self.n_sources, "source"), most + plural(self.n_outcomes, "outcome")]
        return f"UncertainMDP({', '.join(parts)}, discount {self.discount})"
