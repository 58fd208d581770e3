"""What a log holds and what was made of it, in words and as a table."""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray
from ..posteriors.scalar import NormalPosterior

if TYPE_CHECKING:
    import pandas

__all__ = ["LogSummary"]

_SHOWN = 5  # names in a line


@dataclass(frozen=True, eq=False, repr=False)
class LogSummary:
    """What :func:`prudent.from_log` read, used and dropped; ``model.summary`` of the model it made.

    It prints as a few lines. :meth:`to_pandas` has the visits of every pair that was tried.

    >>> from prudent.estimation import from_log
    >>> rows = [("ill", "wait", "ill", 0), ("ill", "treat", "well", 1)]
    >>> model, _ = from_log(rows, 0.9, terminal=["well"], support="state")
    >>> print(model.summary)
    rows      2 read, 2 used
    states    2: 1 to act in, 1 terminal ('well'); 1 is never left
    actions   2
    pairs     2 possible: 2 tried, 0 never tried; 2 admissible
    visits    1 to 1 per admissible pair (quartiles 1, 1, 1)
    support   seen after any action in the state: 2 to 2 next states per pair, 4 transitions
    rewards   by transition; 2 transitions never seen earn what others of the same pair do
    """

    rows: int  # read
    used: int  # of them
    dropped: Mapping[str, int]  # why, and how many rows
    observations: float  # used, each row as often as its count says
    columns: Mapping[str, Any]  # our names -> those of the log; empty where columns go by position
    ignored: tuple[Any, ...]  # columns that were not read
    episodes: int | None
    starts: Mapping[Hashable, float] | None  # the share of episodes that begin in each state: a ``start`` for others
    states: tuple[Hashable, ...]  # of the model
    actions: tuple[Hashable, ...]
    terminal: tuple[Hashable, ...]
    absorbing: tuple[Hashable, ...]
    dead_ends: tuple[Hashable, ...]  # states that are arrived at and never left, all of them terminal or absorbing
    never_reached: tuple[Hashable, ...]  # states that no row arrives in
    pairs_seen: int  # pairs (state, action) that were tried
    pairs_unseen: int  # pairs of a state to act in that were never tried
    pairs_below: int  # tried, but fewer than ``min_count`` times, and hence not admissible
    pairs_spared: int  # tried too seldom, but nothing in their state was tried more often
    min_count: float
    support: str
    support_sizes: tuple[int, int]  # fewest and most next states of a pair
    transitions: int  # in the model
    rewards: str
    rewards_varying: int  # transitions (s, a, s') that were seen with several rewards
    rewards_sd: float  # of rewards around the mean of their transition, pooled
    rewards_guessed: int  # transitions that the support allows and nobody has seen
    reward_posterior: NormalPosterior | None  # of what varying rewards leave unknown, [S, A]; see ``from_log``
    notes: tuple[str, ...] = ()
    _visits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def visits(self) -> FloatArray:
        """How often each admissible pair was tried, [number of pairs]."""
        return np.asarray(self._visits["visits"])[np.asarray(self._visits["admissible"])]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for every pair that was tried: visits, next states seen, whether it is admissible, mean reward.

        >>> from prudent.estimation import from_log
        >>> rows = [("ill", "wait", "ill", 0), ("ill", "treat", "well", 1), ("ill", "treat", "ill", 0)]
        >>> from_log(rows, 0.9, terminal=["well"])[0].summary.to_pandas()
          state action  visits  next_states  admissible  reward
        0   ill  treat     2.0            2        True     0.5
        1   ill   wait     1.0            1        True     0.0
        """
        import pandas

        return pandas.DataFrame(dict(self._visits))

    def lines(self) -> list[tuple[str, str]]:
        """Return what is printed: titles and texts."""
        lost = sum(self.dropped.values())
        counted = "" if self.observations == self.used else f" ({self.observations:,.6g} observations by their counts)"
        found = [("rows", f"{self.rows:,} read, {self.used:,} used{counted}")]
        if lost:
            found.append(("dropped", f"{lost:,}: " + ", ".join(f"{n:,} {why}" for why, n in self.dropped.items())))
        others = {name: theirs for name, theirs in self.columns.items() if name != theirs}
        if others or self.ignored:
            used = ", ".join(f"{name} is {theirs!r}" for name, theirs in others.items()) or "as named"
            unread = f"; not read: {_listed(self.ignored)}" if self.ignored else ""
            found.append(("columns", used + unread))
        if self.episodes is not None:
            found.append(("episodes", f"{self.episodes:,}{self._starts()}"))
        found.append(("states", self._states()))
        found.append(("actions", f"{len(self.actions):,}"))
        possible = self.pairs_seen + self.pairs_unseen
        text = f"{possible:,} possible: {self.pairs_seen:,} tried, {self.pairs_unseen:,} never tried; "
        text += f"{self.visits.size:,} admissible"
        if self.pairs_below:
            text += f", {self.pairs_below:,} not (tried fewer than {self.min_count:g} times)"
        found.append(("pairs", text))
        least, low, middle, high, most = np.quantile(self.visits, [0, 0.25, 0.5, 0.75, 1])
        found.append(("visits", f"{least:g} to {most:g} per admissible pair (quartiles {low:g}, {middle:g}, {high:g})"))
        fewest, largest = self.support_sizes
        sizes = f"{fewest:,} to {largest:,} next states per pair, {self.transitions:,} transitions"
        found.append(("support", f"{self.support}: {sizes}"))
        found.append(("rewards", self.rewards))
        return found + [("note", note) for note in self.notes]

    def _starts(self) -> str:
        if not self.starts:
            return ""
        usual = sorted(self.starts, key=lambda state: -self.starts[state])  # type: ignore[index]
        shown = ", ".join(f"{state!r} {self.starts[state]:.0%}" for state in usual[:_SHOWN])
        return f", which begin in {shown}" + (f", ... ({len(usual):,} states in all)" if len(usual) > _SHOWN else "")

    def _states(self) -> str:
        acting = len(self.states) - len(self.terminal) - len(self.absorbing)
        text = f"{len(self.states):,}: {acting:,} to act in"
        for word, names in (("terminal", self.terminal), ("absorbing", self.absorbing)):
            if names:
                text += f", {len(names):,} {word} ({_listed(names)})"
        if self.dead_ends:
            text += f"; {len(self.dead_ends):,} {'is' if len(self.dead_ends) == 1 else 'are'} never left"
        starts = len(self.never_reached)
        return text + (f"; {starts:,} {'is' if starts == 1 else 'are'} never arrived at" if starts else "")

    def __str__(self) -> str:
        return "\n".join(f"{title:<10}{text}" for title, text in self.lines())

    def __repr__(self) -> str:
        return f"LogSummary(\n{self}\n)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(title)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for title, text in self.lines()
        )
        return f"<table>{rows}</table>"


def _listed(names: tuple[Any, ...]) -> str:
    more = f", ... ({len(names):,} in all)" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
