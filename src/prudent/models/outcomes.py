"""Storage of an uncertain model: sources, their outcomes, and what these lead to and earn."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .._support.checks import integer_array, non_negative_array, positive, refuse, require_shape
from ..data.labels import Labels
from ..data.naming import Naming, make_naming
from ..errors import ModelError, ParameterError, PrudentError
from ..posteriors.scalar import NormalPosterior
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, Label, NamesLike, TerminalLike
from .base import TabularModel, held, read_terminal
from .entries import END, NONE, Entries


class OutcomeModel(TabularModel):
    """Base of ``prudent.UncertainMDP``: checks sources and outcomes, stores them, and shows them as arrays."""

    n_sources: int
    n_outcomes: int
    source: IntArray
    entries: Entries
    ends: bool
    naming: Naming
    duration: FloatArray | None = None
    reward_posterior: NormalPosterior | None = None

    def _take_sources(
        self, source: ArrayLike, discount: float, states: NamesLike, actions: NamesLike, terminal: TerminalLike
    ) -> None:
        """Read what does not depend on the outcomes; terminal states get their source later."""
        self.source = np.array(integer_array(source, "source", ndim=2, error=ModelError), np.int64, order="C")
        expected = "0 or more, or -1 if inadmissible"
        refuse(self.source < -1, self.source, "source", expected, error=ModelError, code="index-range")
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
            message = f"no pair uses source {np.argmax(gap)}{where}, but there is a source {numbers[-1]}"
            raise ModelError(message, code="unused-source", argument="source", value=int(np.argmax(gap)))

    def _take_outcomes(
        self,
        sizes: IntArray,  # [P] outcomes of each pair
        outcome: npt.NDArray[Any],  # [E] sorted by pair and number
        next_state: npt.NDArray[Any],  # [E]
        reward: FloatArray,  # [E]
        sources: Any,
        outcomes: Any,
    ) -> None:
        """Check the outcomes and keep them; terminal states get theirs: action 0 ends the process and pays."""
        _, first = np.unique(self.source[self.admissible], return_index=True)
        users = np.flatnonzero(self.admissible)[first]  # [B] the first pair that uses each source
        slots, begins = sizes[users], np.cumsum(sizes) - sizes
        if (slots == 0).any():
            b = int(np.argmin(slots))
            message = f"{self.pair_name(users[b])} has no outcome (source {b})"
            raise ModelError(message, code="no-outcome", source=b, **self.pair_fields(users[b]))
        own = users.size == np.count_nonzero(self.admissible)  # each pair has its own source
        if not own:
            self._check_shared(sizes, begins, outcome, users)
        if not own or (np.diff(users) < 0).any():  # else the outcomes of sources are those of pairs, in order
            ends = np.cumsum(slots)
            outcome = outcome[np.arange(ends[-1]) + np.repeat(begins[users] - (ends - slots), slots)]
        outcome, next_state = outcome.astype(np.int32, copy=False), next_state.astype(np.int32, copy=False)
        if self.terminal.any():
            pairs = np.flatnonzero(self.terminal) * self.n_actions
            next_state = np.insert(next_state, begins[pairs], END)
            reward = np.insert(reward, begins[pairs], self.terminal_value[self.terminal])
            if self.duration is not None:
                self.duration = np.insert(self.duration, begins[pairs], 1.0)
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
        end = np.flatnonzero(self.terminal)[:1] * self.n_actions
        self.naming = make_naming(
            sources, outcomes, self.state_labels, self.action_labels, np.append(users, end), self.entries, own, end.size
        )

    def _check_shared(self, sizes: IntArray, begins: IntArray, outcome: npt.NDArray[Any], users: IntArray) -> None:
        """Raise for a pair that has an outcome which the first pair of its source lacks, or the other way round."""
        source = self.source.reshape(-1)
        pairs = np.flatnonzero(source >= 0)
        model = users[source[pairs]]  # the pair to compare each with
        agree = sizes[pairs] == sizes[model]
        alike, like = pairs[agree], model[agree]
        shift = np.repeat(begins[like] - begins[alike], sizes[alike])
        entries = np.repeat(begins[alike] - (np.cumsum(sizes[alike]) - sizes[alike]), sizes[alike])
        entries += np.arange(entries.size)
        differ = np.repeat(np.arange(alike.size), sizes[alike])[outcome[entries] != outcome[entries + shift]]
        agree[np.flatnonzero(agree)[differ]] = False
        if agree.all():
            return
        pair, other = (int(p[np.argmin(agree)]) for p in (pairs, model))
        numbers = [set(outcome[begins[p] : begins[p] + sizes[p]].tolist()) for p in (pair, other)]
        k, b = min(numbers[0] ^ numbers[1]), int(source[pair])
        having, lacking = (pair, other) if k in numbers[0] else (other, pair)
        message = (
            f"outcome {k} of source {b} has a next state for {self.pair_name(having)} but none for "
            f"{self.pair_name(lacking)}; pairs that share a source must share its outcomes"
        )
        raise ModelError(message, code="unequal-outcomes", source=b, outcome=k, **self.pair_fields(lacking))

    @cached_property
    def next_state(self) -> npt.NDArray[np.int32]:
        """Next states int32 [S, A, K]: -1 where there is no outcome, -2 where the process ends."""
        return self._dense(self.entries.next_state, NONE)

    @cached_property
    def reward(self) -> FloatArray:
        """Rewards float64 [S, A, K]: 0 where there is no outcome."""
        return self._dense(self.entries.reward, 0.0)

    def _dense(self, values: npt.NDArray[Any], fill: float) -> Any:
        array = self.entries.spread(values, self.n_outcomes, fill).reshape(*self.source.shape, self.n_outcomes)
        array.flags.writeable = False  # a copy: to change it would change nothing
        return array

    @cached_property
    def survival(self) -> FloatArray | None:
        """Factor of the next value beyond the discount, discount ** (duration - 1) [E]; None if all are 1."""
        if self.duration is None or self.discount == 1.0:
            return None
        return np.asarray(self.discount ** (self.duration - 1.0))

    def require_unit_durations(self, who: str) -> None:
        """Raise if transitions have durations, which ``who`` (in the message: "agents") cannot handle."""
        if self.duration is not None:
            longest = float(self.duration.max())
            message = (
                f"{who} need transitions that all take one unit of time; those of the model take up to {longest:g}"
            )
            raise ParameterError(message, code="durations", argument="model", value=longest)

    @cached_property
    def outcome_mask(self) -> BoolArray:
        """Outcomes that the sources have, bool [B, K]."""
        return self.entries.mask(self.n_outcomes)

    def leads(self, pair: int) -> npt.NDArray[np.int32]:
        """Return where the outcomes of a pair lead.

        Parameters
        ----------
        pair : int
            The pair s*A + a.

        Returns
        -------
        int32 [K]
            Its part of ``next_state``.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).leads(0)
        array([ 0,  0, -1], dtype=int32)
        """
        of, targets = self.entries, np.full(self.n_outcomes, NONE, dtype=np.int32)
        b = of.source[pair]
        targets[of.outcome[of.begin[b] : of.begin[b + 1]]] = of.next_state[of.first[pair] : of.first[pair + 1]]
        return targets

    @property
    def _called(self) -> tuple[Any, Any]:
        return self.naming.given

    def names(self) -> dict[str, Any]:
        """Return the names as keyword arguments of the constructor, those of sources only if they have names."""
        sources, outcomes = self._called
        axes = {"states": self.state_labels, "actions": self.action_labels}
        names: dict[str, Any] = {what: None if labels.numbered else labels.names for what, labels in axes.items()}
        names["outcomes"] = outcomes
        return names if sources is None else names | {"sources": sources}

    @property
    def sources(self) -> tuple[Hashable, ...] | None:
        """Names of the sources, or None where they are just 0, 1, ..., B-1.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP.direct([[0.0, 1.0]], discount=0.9, states=["here"]).sources
        (('here', 0), ('here', 1))
        """
        return self.naming.source_names

    @property
    def outcomes(self) -> tuple[tuple[Hashable, ...], ...] | None:
        """Names of the outcomes of each source, or None where they are just 0, 1, ..., K-1.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP.direct([[0.0, 1.0]], discount=0.9, states=["here"]).outcomes
        (('here',), ('here',))
        """
        return self.naming.outcome_names

    def _of_outcomes(self, values: ArrayLike, name: str, error: type[PrudentError]) -> FloatArray:
        """Return numbers >= 0, [B, K], that are zero where a source has no such outcome."""
        array = self.with_end(non_negative_array(values, name, ndim=2, error=error))
        letters = "[B, K] (its last row is that of the terminal states)" if self.terminal.any() else "[B, K]"
        require_shape(array, name, self.outcome_mask.shape, letters, error=error)
        none = (array > 0.0) & ~self.outcome_mask
        refuse(none, array, name, "0: this source has no such outcome", error=error, code="no-such-outcome")
        return array

    def with_end(self, values: FloatArray) -> FloatArray:
        """Return numbers [..., B, K], with the row (1, 0, 0, ...) of the terminal states where that was left out."""
        if not self.terminal.any() or values.shape[-2] != self.n_sources - 1 or values.shape[-1] != self.n_outcomes:
            return values
        row = np.zeros((*values.shape[:-2], 1, self.n_outcomes))
        row[..., 0] = 1.0
        return np.concatenate((values, row), axis=-2)

    def with_discount(self, discount: float) -> Self:  # noqa: D102
        twin = super().with_discount(discount)
        twin.entries = self.entries._replace(discount=twin.discount)
        twin.__dict__.pop("survival", None)
        return twin

    @cached_property
    def absorbing(self) -> BoolArray:
        """States that are never left, bool [S]: whatever the action and the outcome, the next state is the same.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP.direct([[0.0], [1.0]], 0.9, support=[[[1, 1]], [[0, 1]]]).absorbing
        array([False, True])
        """
        state = self.entries.pairs() // self.n_actions
        leaves = np.bincount(state, weights=self.entries.next_state != state, minlength=self.n_states)
        return np.asarray(leaves == 0)

    def prior(self, count: float = 1.0) -> FloatArray:
        """Return the Dirichlet counts of a symmetric prior.

        Parameters
        ----------
        count : float, default=1
            Count of every outcome that a source has.

        Returns
        -------
        float64 [B, K]
            Counts, 0 where a source has no such outcome.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).prior()
        array([[1., 1.],
               [1., 1.]])
        """
        return np.where(self.outcome_mask, positive(count, "count"), 0.0)

    def compatible(self, state: Label, action: Label, next_state: Label) -> IntArray:
        """Return the outcomes that lead from a state by an action to a next state; there may be none.

        Parameters
        ----------
        state, action : hashable
            Names of an admissible pair.
        next_state : hashable
            Name of the next state; None asks for the outcomes that end the process.

        Returns
        -------
        int64 array
            Numbers of outcomes.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).compatible(0, 0, 0)
        array([0, 1])
        """
        pair = self.state_index(state) * self.n_actions + self.action_index(action)
        target = END if next_state is None else self.state_labels.index(next_state, "next_state")
        if not self.admissible.flat[pair]:
            message = f"{self.pair_name(pair)} is not admissible"
            raise ParameterError(message, code="inadmissible-action", **self.pair_fields(pair))
        return np.flatnonzero(self.leads(pair) == target)
