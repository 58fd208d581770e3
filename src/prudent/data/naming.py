"""Names of the sources of a model and of their outcomes.

A model, its posterior and a saved posterior share one ``Naming``. A model of a thousand states may have a million
outcomes, so names are made on request, source by source.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakSet

import numpy as np

from .._support.checks import FloatArray, IntArray
from ..errors import ModelError, ParameterError, PosteriorError
from .labels import Labels

Listed = tuple[tuple[Hashable, ...], ...]

PAIRS = "pair"  # sources called by their (state, action)
NEXT_STATES = "next_state"  # outcomes called by the state they lead to
TERMINAL = "terminal"  # the source that all terminal states share


class OutcomeLabels(Sequence[Labels]):
    """The labels of the outcomes of each source: entry ``first[b] + k`` of ``codes`` says which of ``names`` k has.

    ``names`` None are the numbers themselves. A negative code is the end of the process, which is called None.
    """

    def __init__(self, names: tuple[Hashable, ...] | None, codes: IntArray, first: IntArray) -> None:
        self._names, self._codes, self._first = names, codes, first
        self._made: dict[int, Labels] = {}

    @classmethod
    def of_lists(cls, listed: Sequence[Labels]) -> OutcomeLabels:
        """Return the same labels, each name kept once."""
        distinct: dict[Any, int] = {}
        codes = [distinct.setdefault((type(name), name), len(distinct)) for labels in listed for name in labels.names]
        first = np.concatenate(([0], np.cumsum([labels.size for labels in listed])))
        return cls(tuple(name for _, name in distinct), np.array(codes, dtype=np.int64), first.astype(np.int64))

    def __len__(self) -> int:
        return self._first.size - 1

    def __getitem__(self, b: Any) -> Any:
        b = range(len(self))[b]
        if b not in self._made:
            names = self.names_of(b)
            what = f"outcome of source {b}" if len(self) > 1 else "outcome"
            self._made[b] = Labels(what, names, len(names))
        return self._made[b]

    def names_of(self, b: int) -> tuple[Hashable, ...]:
        """Return the names of the outcomes of source b."""
        codes = self._codes[self._first[b] : self._first[b + 1]].tolist()
        names = self._names
        return tuple(None if code < 0 else code if names is None else names[code] for code in codes)

    def parts(self) -> tuple[tuple[Hashable, ...] | None, IntArray, IntArray]:
        """Return the distinct names, the codes and where each source begins, as they are saved."""
        return self._names, self._codes, self._first

    def check(self, counts: FloatArray) -> None:
        """Raise unless these are distinct names of all outcomes with a positive count [B, K]."""
        B, K = counts.shape
        first, codes = self._first, self._codes
        if first.shape != (B + 1,):
            message = f"outcomes has names for {first.size - 1} sources, expected {B}"
            raise PosteriorError(message, code="name-count", argument="outcomes", value=first.size - 1)
        sizes = np.diff(first)
        if first[0] != 0 or first[-1] != codes.size or (sizes < 0).any():
            raise PosteriorError("the names of outcomes are inconsistent", code="damaged-file")
        named = np.arange(K) < sizes[:, np.newaxis]
        lacking = ((counts > 0.0) & ~named).any(axis=1) | (sizes > K)
        if lacking.any():
            b = int(np.argmax(lacking))
            message = f"outcomes[{b}] has {sizes[b]} names, but source {b} has {K} outcomes"
            raise PosteriorError(message, code="name-count", argument="outcomes", value=int(sizes[b]))
        if codes.size and (codes.min() < -1 or (self._names is not None and codes.max() >= len(self._names))):
            raise PosteriorError("the names of outcomes are inconsistent", code="damaged-file")
        row = np.repeat(np.arange(B), sizes)
        twice = np.unique(np.stack([row, codes]), axis=1).shape[1] < codes.size
        names = self._names or ()
        if twice or len(set(names)) < len(names) or None in names:  # None is also what an end is called
            for b in range(B):  # makes the labels, which see what is twice
                self[b]


class Naming:
    """The labels of sources and of their outcomes; None where they are just numbers."""

    def __init__(self, sources: Labels | None, outcomes: Sequence[Labels] | None) -> None:
        self._sources, self._outcomes = sources, outcomes
        self._agreed: WeakSet[Naming] = WeakSet()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_agreed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _agreed=WeakSet())

    @property
    def sources(self) -> Labels | None:
        """The labels of the sources, or None where they are 0, 1, ..., B-1."""
        return self._sources

    @property
    def outcomes(self) -> Sequence[Labels] | None:
        """The labels of the outcomes of each source, or None where they are 0, 1, ..., K-1."""
        return self._outcomes

    @property
    def source_names(self) -> tuple[Hashable, ...] | None:
        """The names of the sources, or None."""
        return None if self.sources is None or self.sources.numbered else self.sources.names

    @property
    def outcome_names(self) -> Listed | None:
        """The names of the outcomes of each source, or None."""
        if self.outcomes is None:
            return None
        return tuple(labels.names for labels in self.outcomes)

    @property
    def given(self) -> tuple[Any, Any]:
        """What to give as ``sources`` and ``outcomes`` to name things like this."""
        return self.source_names, self.outcome_names

    def same_as(self, other: Naming) -> bool:
        """Return whether names agree wherever both have some."""
        if self is other or UNNAMED in (self, other) or other in self._agreed:
            return True
        ours, theirs = (self.source_names, self.outcome_names), (other.source_names, other.outcome_names)
        same = all(one is None or two is None or one == two for one, two in zip(ours, theirs, strict=True))
        if same:
            self._agreed.add(other)  # a million names are compared once
        return same


class PairNaming(Naming):
    """Each source belongs to one pair and is called (state, action).

    ``pairs`` [B] are numbers s*A + a; with ``ended`` the last source is the one that terminal states share. Outcomes
    have the names ``outcomes``, or ``by_next_state`` those of the states they lead to. The entries of the model have
    them: places ``first[pair]`` to ``first[pair + 1]`` of ``next_state``, where -2 is the end of the process.
    """

    def __init__(
        self,
        states: Labels,
        actions: Labels,
        pairs: IntArray,
        ended: bool,
        entries: Any,
        outcomes: Sequence[Labels] | None,
        by_next_state: bool,
    ) -> None:
        super().__init__(None, outcomes)
        self._states, self._actions, self._pairs, self._ended = states, actions, pairs, ended
        self._entries, self._by_next_state = entries, by_next_state

    @property
    def sources(self) -> Labels:
        """The labels of the sources: pairs (state, action), and 'terminal' for the end of all terminal states."""
        return self._source_labels

    @property
    def outcomes(self) -> Sequence[Labels] | None:
        """The labels of the outcomes of each source, or None where they are 0, 1, ..., K-1."""
        return self._next_states if self._by_next_state else self._outcomes

    @cached_property
    def _source_labels(self) -> Labels:
        states, actions = self._states.names, self._actions.names
        names: list[Hashable] = [
            (states[pair // len(actions)], actions[pair % len(actions)]) for pair in self._pairs.tolist()
        ]
        if self._ended:
            names[-1] = TERMINAL
        return Labels("source", names, len(names))

    @cached_property
    def _next_states(self) -> OutcomeLabels | None:
        first, pairs = self._entries.first, self._pairs
        sizes = first[pairs + 1] - first[pairs]
        begin = np.concatenate(([0], np.cumsum(sizes)))
        place = np.arange(begin[-1]) - np.repeat(begin[:-1], sizes)
        codes = self._entries.next_state[np.repeat(first[pairs], sizes) + place]
        if self._states.numbered and np.array_equal(np.where(codes < 0, place, codes), place):
            return None  # all of them are numbers already
        names = None if self._states.numbered else self._states.names
        return OutcomeLabels(names, np.maximum(codes, -1).astype(np.int64), begin.astype(np.int64))

    @property
    def given(self) -> tuple[Any, Any]:
        """What to give as ``sources`` and ``outcomes`` to name things like this."""
        return PAIRS, NEXT_STATES if self._by_next_state else self.outcome_names


UNNAMED = Naming(None, None)


def make_naming(
    sources: Any,
    outcomes: Any,
    states: Labels,
    actions: Labels,
    pairs: IntArray,  # [B] the first pair that uses each source
    entries: Any,
    own: bool,  # whether each pair has its own source
    ended: int,  # 1 if the last source is the one that terminal states share
) -> Naming:
    """Return the labels of sources and outcomes, by the arguments of an ``UncertainMDP``."""
    by_pair, by_next_state = (
        isinstance(names, str) and names == word for names, word in ((sources, PAIRS), (outcomes, NEXT_STATES))
    )
    if by_next_state and not by_pair:
        message = "outcomes can be called by their next states only if sources are called by their pairs"
        raise ModelError(message, code="conflicting-arguments", argument="outcomes")
    if by_pair and not own:
        message = "sources can be called by their pairs only if each pair has its own"
        raise ModelError(message, code="conflicting-arguments", argument="sources")
    size = pairs.size
    labels = None if outcomes is None or by_next_state else _outcome_labels(outcomes, entries, size, ended)
    if by_pair:
        return PairNaming(states, actions, pairs, bool(ended), entries, labels, by_next_state)
    if sources is None:
        return Naming(None, labels)
    names = tuple(sources)
    if ended and len(names) == size - 1:
        names = (*names, TERMINAL)
    return Naming(Labels("source", names, size), labels)


def _outcome_labels(outcomes: Any, entries: Any, size: int, ended: int) -> list[Labels] | None:
    """Return the labels of listed names of outcomes, None if all of them are numbers."""
    if ended and len(outcomes) == size - 1:
        outcomes = [*outcomes, range(1)]
    if len(outcomes) != size:
        message = f"outcomes has names for {len(outcomes)} sources, expected {size - ended}"
        raise ModelError(message, code="name-count", argument="outcomes", value=len(outcomes))
    sizes = 1 + entries.outcome[entries.begin[1:] - 1]
    labels = [
        Labels(f"outcome of source {b}" if size > 1 else "outcome", names, int(count))
        for b, (names, count) in enumerate(zip(outcomes, sizes, strict=True))
    ]
    return None if all(axis.numbered for axis in labels) else labels


# -- in files ----------------------------------------------------------------------------------------------


def plain_names(names: Any, what: str) -> Any:
    """Return names as JSON can hold them: tuples become lists."""
    if isinstance(names, tuple):
        return [plain_names(name, what) for name in names]
    if names is None or isinstance(names, str | int) or (isinstance(names, float) and math.isfinite(names)):
        return names
    message = f"one of the {what} has the name {names!r}; a state file can hold strings and numbers only"
    raise ParameterError(message, code="unsaved-name", value=names)


def names_of_plain(names: Any) -> Any:
    """Return the names that ``plain_names`` wrote."""
    return tuple(names_of_plain(name) for name in names) if isinstance(names, list) else names
