"""A model whose dynamics are known but for the distributions of its sources.

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

With theta it is an ``MDP``; with a log of transitions it gives the Dirichlet counts of a posterior of theta.
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
from .._support.naming import NEXT_STATES, PAIRS, Naming, PairNaming
from ..errors import ModelError, ParameterError, PosteriorError, PrudentError
from .builders import own_sources, packed, row_numbers, uncertain_direct, uncertain_dynamics, uncertain_table
from .expected import expected_model
from .frame import TabularModel, plural
from .known import MDP
from .logs import LogReader, add_log, cumulative_rows, walk

__all__ = ["UncertainMDP"]


class UncertainMDP(TabularModel):
    """Known dynamics driven by sources whose distributions are not known.

    Action a in state s draws an outcome k from source ``source[s, a]``, leads to ``next_state[s, a, k]`` and
    earns ``reward[s, a, k]``.

    Parameters
    ----------
    source : int [S, A], numbers 0..B-1, all of them used; -1 where the action is not admissible.
    next_state : int [S, A, K]; -1 where the source has no such outcome. All pairs that share a source must
        agree on which outcomes it has.
    reward : [S, A, K], or [S, A] if it does not depend on the outcome. What is given where there is no
        outcome is not looked at.
    discount : in [0, 1).
    states, actions : names, unique and hashable. Names 0, 1, ..., n-1 are the same as no names.
    sources : names of the sources; or "pair" where each has a pair of its own and is called (state, action).
    outcomes : B sequences of names, one for each outcome of the source; or, with ``sources="pair"``, "next_state":
        outcomes are called by the state they lead to.

    Attributes
    ----------
    source : int64 [S, A].
    next_state : int32 [S, A, K], -1 where there is no outcome.
    reward : float64 [S, A, K], 0 where there is no outcome.
    admissible : bool [S, A].
    outcome_mask : bool [B, K], True where the source has the outcome.

    Examples
    --------
    A coin of unknown bias decides whether the next state is 0 or 1, and pays for 1:

    >>> model = UncertainMDP(source=[[0], [0]], next_state=[[[0, 1]], [[0, 1]]],
    ...                      reward=[[[-1, 1]], [[-1, 1]]], discount=0.9)
    >>> model
    UncertainMDP(2 states, 1 action, 1 source, 2 outcomes, discount 0.9)
    >>> model.mdp([[0.25, 0.75]]).reward.ravel()
    array([0.5, 0.5])
    """

    _compared = ("discount", "states", "actions", "_called", "source", "next_state", "reward")

    n_sources: int
    n_outcomes: int
    source: IntArray  # [S, A]
    next_state: npt.NDArray[np.int32]  # [S, A, K]
    reward: FloatArray  # [S, A, K]
    outcome_mask: BoolArray  # [B, K]
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
    ) -> None:
        self.source = np.array(integer_array(source, "source", ndim=2, error=ModelError), np.int64, order="C")
        refuse(self.source < -1, self.source, "source", "0 or more, or -1 if inadmissible", error=ModelError)
        self._frame(self.source >= 0, discount, states, actions)
        numbers, first = np.unique(self.source[self.admissible], return_index=True)
        self.n_sources = numbers.size
        gap = numbers != np.arange(self.n_sources)
        if gap.any():
            raise ModelError(f"no pair uses source {np.argmax(gap)}, but there is a source {numbers[-1]}")
        self.next_state = self._checked_next_state(next_state)
        self.n_outcomes = self.next_state.shape[2]
        exists = self.next_state >= 0
        first = np.flatnonzero(self.admissible)[first]  # the first pair that uses each source
        self.outcome_mask = exists.reshape(self.source.size, self.n_outcomes)[first]
        self._check_shared_outcomes(exists, first)
        self.reward = self._checked_reward(reward, exists)
        self.naming = self._named(sources, outcomes, first)

    def _checked_next_state(self, next_state: Any) -> npt.NDArray[np.int32]:
        given = integer_array(next_state, "next_state", ndim=3, error=ModelError)
        require_shape(given, "next_state", (*self.source.shape, given.shape[2]), "[S, A, K]", error=ModelError)
        bad = ((given < -1) | (given >= self.n_states)) & self.admissible[:, :, None]
        expected = f"a state from 0 to {self.n_states - 1}, or -1 for no such outcome"
        refuse(bad, given, "next_state", expected, error=ModelError)
        targets = np.array(given, dtype=np.int32, order="C")
        targets[~self.admissible] = -1
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
        if by_pair and np.count_nonzero(self.admissible) != self.n_sources:
            raise ModelError("sources can be called by their pairs only if each pair has its own")
        if by_next_state:
            targets = self.next_state.reshape(self.source.size, self.n_outcomes)
            return PairNaming(self.state_labels, self.action_labels, first, targets)
        labels = self._listed_outcomes(outcomes)
        if by_pair:
            return PairNaming(self.state_labels, self.action_labels, first, outcomes=labels)
        return Naming(None if sources is None else Labels("source", sources, self.n_sources), labels)

    def _listed_outcomes(self, outcomes: Sequence[Iterable[Hashable]] | None) -> list[Labels] | None:
        if outcomes is None:
            return None
        if len(outcomes) != self.n_sources:
            raise ModelError(f"outcomes has names for {len(outcomes)} sources, expected {self.n_sources}")
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
    ) -> UncertainMDP:
        """Return the model in which every row of the transition matrix is unknown (direct parametrisation).

        Each pair has its own source, numbered s*A + a, whose outcome is the next state: K = S and
        next_state[s, a, k] = k. If some pairs are inadmissible, the others are numbered in that order
        without gaps. ``reward`` is [S, A], or [S, A, S] if it depends on the next state.

        ``support``, bool [S, A, S], says which next states are possible at all: then the outcomes of a pair
        are its possible next states in order, and K is the largest number of them.

        >>> model = UncertainMDP.direct([[0.0, 1.0], [2.0, 3.0]], discount=0.9)
        >>> model.source
        array([[0, 1],
               [2, 3]])
        >>> model.next_state[1, 0]
        array([0, 1], dtype=int32)
        """
        arrays = uncertain_direct(reward, support, admissible)
        return cls(**arrays, discount=discount, states=states, actions=actions)

    @classmethod
    def from_mdp(cls, mdp: MDP) -> UncertainMDP:
        """Return the direct model on the transitions that a known MDP has; their probabilities are forgotten.

        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9)
        >>> UncertainMDP.from_mdp(mdp).next_state.tolist()
        [[[0, 1]], [[1, -1]]]
        """
        if mdp.termination is not None:
            pair = int(np.argmax(mdp.termination > 0.0))
            raise ModelError(
                f"{mdp.pair_name(pair)} ends the process with probability {mdp.termination.flat[pair]}, which an "
                "uncertain model cannot; send such steps to an absorbing state with reward 0 instead"
            )
        return cls(
            own_sources(mdp.admissible),
            packed(row_numbers(mdp.transition), mdp.transition.indices, mdp.admissible.shape),
            mdp.reward,
            mdp.discount,
            states=mdp.states,
            actions=mdp.actions,
            sources=PAIRS,
            outcomes=NEXT_STATES,
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
    ) -> UncertainMDP:
        """Return the model of ``dynamics(state, action, noise) -> (next_state, reward)`` on your own labels.

        ``noise`` lists the outcomes of the only source; or it maps the name of each source to its outcomes,
        and ``source(state, action)`` names the one that acts. Sources are numbered in the order of the
        mapping. ``admissible(state, action)`` says which actions are allowed, by default all; an action that no
        state admits is dropped with a word in ``notes``.

        Inventory control with unknown demand:

        >>> def day(stock, order, demand):
        ...     sold = min(stock + order, demand)
        ...     return stock + order - sold, 5.0 * sold - 2.0 * order
        >>> UncertainMDP.from_dynamics(day, states=range(11), actions=range(6), noise=range(8), discount=0.95,
        ...                            admissible=lambda stock, order: stock + order <= 10)
        UncertainMDP(11 states, 6 actions, 15 inadmissible pairs, 1 source, 8 outcomes, discount 0.95)
        """
        return cls._noted(uncertain_dynamics(dynamics, states, actions, noise, source, admissible), discount)

    @classmethod
    def from_table(
        cls,
        table: Any,
        discount: float,
        *,
        states: Names = None,
        actions: Names = None,
        columns: Mapping[str, Any] | None = None,
    ) -> UncertainMDP:
        """Return the model of a long table of known dynamics.

        Its columns are state, action, outcome, next_state, reward and optionally source: a DataFrame, the path of a
        CSV or Parquet file, a dict of columns, a structured array, or rows of values in that order. Without sources,
        one drives every pair. Pairs that are not listed are inadmissible. The labels of states, actions, sources, and
        of the outcomes of each source become indices as in ``MDP.from_table``, and ``columns`` is used as there.

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
        return cls._noted(uncertain_table(table, states, actions, columns), discount)

    def mdp(self, theta: Any) -> MDP:
        """Return the MDP in which source b draws its outcomes with probabilities ``theta[b]``, theta [B, K].

        Outcomes that lead to the same state add up; the reward is the mean over the outcomes.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).mdp([[0.25, 0.75], [1.0, 0.0]]).dense()[0]
        array([[0.25, 0.75]])
        """
        probabilities = self._distributions(theta)
        transition, reward = expected_model(self.source, self.next_state, self.reward, probabilities)
        return MDP(
            transition,
            reward,
            self.discount,
            admissible=self.admissible,
            states=self.states,
            actions=self.actions,
        )

    def _distributions(self, theta: Any) -> FloatArray:
        rows = self._of_outcomes(theta, "theta", ModelError)
        require_sum_of_one(rows, "theta", error=ModelError)
        return rows

    def _of_outcomes(self, values: Any, name: str, error: type[PrudentError]) -> FloatArray:
        """Return numbers >= 0, [B, K], that are zero where a source has no such outcome."""
        array = non_negative_array(values, name, ndim=2, error=error)
        require_shape(array, name, self.outcome_mask.shape, "[B, K]", error=error)
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

        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).compatible(0, 0, 0)
        array([0, 1])
        """
        s, a = self.state_index(state), self.action_index(action)
        target = self.state_labels.index(next_state, "next_state")
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
        outcome of None, NaN or -1 was not observed.

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
        state: int = 0,
        rng: np.random.Generator | int | None = None,
    ) -> IntArray:
        """Return a random trajectory as a log int64 [M, 4]: rows (state, action, next_state, outcome), as indices.

        Sources draw from ``theta`` [B, K]; ``policy`` [S] gives the action in each state; ``state`` is the index
        of the first. With the same ``rng``, a longer log begins with the shorter one. In a model with names, count
        it with ``count(log, prior, indices=True)``.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.trajectory([[0.0, 1.0], [1.0, 0.0]], policy=[0, 0], steps=3)
        array([[0, 0, 1, 1],
               [1, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        probabilities = self._distributions(theta)
        chosen = self.policy_indices(policy)
        start = Labels("state", None, self.n_states).index(state)
        uniforms = generator(rng).random(whole_number(steps, "steps", 0))
        log = np.empty((uniforms.size, 4), dtype=np.int64)
        walk(self.source, self.next_state, cumulative_rows(probabilities), chosen, uniforms, start, log)
        return log

    def __repr__(self) -> str:
        most = "" if self.outcome_mask.all() else "up to "
        parts = [*self._sizes(), plural(self.n_sources, "source"), most + plural(self.n_outcomes, "outcome")]
        return f"UncertainMDP({', '.join(parts)}, discount {self.discount})"
