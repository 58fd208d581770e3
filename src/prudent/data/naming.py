"""Names of the sources of a model and of their outcomes.

A model, its posterior and a saved posterior share one ``Naming``. A model of a thousand states may have a million
outcomes, so names are made on request, source by source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
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
        self.names, self.codes, self.first = names, codes, first
        self._made: dict[int, Labels] = {}

    @classmethod
    def of_lists(cls, listed: Sequence[Labels]) -> OutcomeLabels:
        """Return the same labels, each name kept once."""
        distinct: dict[Any, int] = {}
        codes = [distinct.setdefault((type(name), name), len(distinct)) for labels in listed for name in labels.names]
        first = np.concatenate(([0], np.cumsum([labels.size for labels in listed])))
        return cls(tuple(name for _, name in distinct), np.array(codes, dtype=np.int64), first.astype(np.int64))

    def __len__(self) -> int:
        return self.first.size - 1

    def __getitem__(self, b: Any) -> Any:
        b = range(len(self))[b]
        if b not in self._made:
            given, codes = self.names, self.codes[self.first[b] : self.first[b + 1]].tolist()
            names = [None if code < 0 else code if given is None else given[code] for code in codes]
            self._made[b] = Labels(f"outcome of source {b}" if len(self) > 1 else "outcome", names, len(names))
        return self._made[b]

    def check(self, counts: FloatArray) -> None:
        """Raise unless these are distinct names of all outcomes with a positive count [B, K]."""
        B, K = counts.shape
        first, codes = self.first, self.codes
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
        if codes.size and (codes.min() < -1 or (self.names is not None and codes.max() >= len(self.names))):
            raise PosteriorError("the names of outcomes are inconsistent", code="damaged-file")
        row = np.repeat(np.arange(B), sizes)
        twice = np.unique(np.stack([row, codes]), axis=1).shape[1] < codes.size
        names = self.names or ()
        if twice or len(set(names)) < len(names) or None in names:  # None is also what an end is called
            for b in range(B):  # makes the labels, which see what is twice
                self[b]


class Naming:
    """Labels of sources and of their outcomes; None where they are just numbers.

    Parameters
    ----------
    sources, outcomes : labels, None, or a function that returns them
        Functions are called when the labels are first asked for.
    given : tuple of str or None
        Words that stand for these labels as the arguments ``sources`` and ``outcomes`` of a model.
    """

    def __init__(
        self,
        sources: Labels | Callable[[], Labels] | None,
        outcomes: Sequence[Labels] | Callable[[], Sequence[Labels] | None] | None,
        given: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self._sources, self._outcomes, self._given = sources, outcomes, given
        self._agreed: WeakSet[Naming] = WeakSet()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_agreed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _agreed=WeakSet())

    @cached_property
    def sources(self) -> Labels | None:
        """Labels of the sources, or None where they are 0, 1, ..., B-1."""
        return self._sources() if callable(self._sources) else self._sources

    @cached_property
    def outcomes(self) -> Sequence[Labels] | None:
        """Labels of the outcomes of each source, or None where they are 0, 1, ..., K-1."""
        return self._outcomes() if callable(self._outcomes) else self._outcomes

    @property
    def source_names(self) -> tuple[Hashable, ...] | None:
        """The names of the sources, or None."""
        return None if self.sources is None or self.sources.numbered else self.sources.names

    @property
    def outcome_names(self) -> Listed | None:
        """The names of the outcomes of each source, or None."""
        return None if self.outcomes is None else tuple(labels.names for labels in self.outcomes)

    @property
    def given(self) -> tuple[Any, Any]:
        """Arguments ``sources`` and ``outcomes`` of a model that give these names."""
        sources, outcomes = self._given
        return sources or self.source_names, outcomes or self.outcome_names

    def same_as(self, other: Naming) -> bool:
        """Return whether names agree wherever both have some."""
        if self is other or UNNAMED in (self, other) or other in self._agreed:
            return True
        ours, theirs = (self.source_names, self.outcome_names), (other.source_names, other.outcome_names)
        same = all(one is None or two is None or one == two for one, two in zip(ours, theirs, strict=True))
        if same:
            self._agreed.add(other)  # a million names are compared once
        return same


def _pair_labels(states: Labels, actions: Labels, pairs: IntArray, ended: int) -> Labels:
    """Return the labels (state, action) of sources with one pair each; the last is 'terminal' if ``ended``."""
    s, a = np.divmod(pairs, actions.size)
    names: list[Hashable] = list(zip(states.names_at(s), actions.names_at(a), strict=True))
    if ended:
        names[-1] = TERMINAL
    return Labels("source", names, len(names))


def _next_state_labels(states: Labels, pairs: IntArray, entries: Any) -> OutcomeLabels | None:
    """Return the labels of outcomes by their next states, or None if all of them are their own numbers."""
    which, first = entries.of_pairs(pairs)
    position = np.arange(which.size) - np.repeat(first[:-1], np.diff(first))
    codes = entries.next_state[which]
    if states.numbered and np.array_equal(np.where(codes < 0, position, codes), position):
        return None
    names = None if states.numbered else states.names
    return OutcomeLabels(names, np.maximum(codes, -1).astype(np.int64), first.astype(np.int64))


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
        by_state = partial(_next_state_labels, states, pairs, entries)
        given = (PAIRS, NEXT_STATES if by_next_state else None)
        return Naming(
            partial(_pair_labels, states, actions, pairs, ended), by_state if by_next_state else labels, given
        )
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
