"""Summary of a log that a model was estimated from, as text and as a table."""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.state_map import StateMap
from ..posteriors.scalar import NormalPosterior
from ..types import FloatArray

if TYPE_CHECKING:
    import pandas

BY_POSITION = "by position: state, action, next_state, reward, count (how often a row was seen)"
_SHOWN = 5  # names in a line
_ORDER = ("state", "action", "next_state", "reward", "count", "episode", "step", "duration", "group", "done")
_READ_AS = {  # what columns mean whose name leaves it open
    "count": "how often a row was seen",
    "episode": "rows that belong together",
    "step": "their order",
    "duration": "time that a transition takes",
    "group": "what learns from each other",
    "done": "where the process ended",
}


class SupportChange(NamedTuple):
    """A state in which the best action depends on which next states are taken as possible.

    Attributes
    ----------
    state : hashable
        The state.
    by_action, by_state : hashable
        Best action under ``support="action"`` and under ``support="state"``, at the posterior means.
    """

    state: Hashable
    by_action: Hashable
    by_state: Hashable


class Pooling(NamedTuple):
    """What one group of a log (a site, a hospital) learned from the others; see ``prudent.estimation.groups``.

    Attributes
    ----------
    names : tuple
        Names of the G groups.
    observations : tuple of float
        Observations of each.
    similarity : float
        How alike the groups are: the most observations of its own that the others are worth to one of them, for each
        pair. 0: nothing, each is fitted apart. Infinity: all are one.
    weights : tuple of float
        What an observation elsewhere is worth in each group, as a share of one of its own, on average.
    evidence_over_apart, evidence_over_pooled : float
        Log evidence, leaving each group out in turn, beyond that of groups fitted apart, and of all as one. A
        difference of 3 says that the data are twenty times as likely.
    grid, evidence : tuple of float
        Similarities that were tried, and the log evidence of each.
    """

    names: tuple[Any, ...]
    observations: tuple[float, ...]
    similarity: float
    weights: tuple[float, ...]
    evidence_over_apart: float
    evidence_over_pooled: float
    grid: tuple[float, ...]
    evidence: tuple[float, ...]

    def text(self) -> str:
        """Return the line of a summary.

        Returns
        -------
        str
            Groups, weights and evidence in words.
        """
        worth = [f"{name!r} {weight:.2g}" for name, weight in zip(self.names, self.weights, strict=False)]
        alike = "as if all were one" if self.similarity == np.inf else f"at most {self.similarity:.3g} for each pair"
        shown = ", ".join(worth[:_SHOWN]) + _more(worth)
        apart, one = (f"{gain:+.3g}" for gain in (self.evidence_over_apart, self.evidence_over_pooled))
        return (
            f"{len(self.names):,}; an observation elsewhere is worth this part of an own one: {shown} ({alike}); log "
            f"evidence {apart} against fits apart, {one} against one fit for all"
        )


@dataclass(frozen=True, eq=False, repr=False)
class LogSummary:
    """Summary of the log that ``prudent.from_log`` read: ``model.summary`` of the model it made.

    It prints as a few lines. ``to_pandas`` has the visits of every pair that was tried.

    Attributes
    ----------
    rows, used : int
        Rows that were read, and those that were used.
    dropped : dict of str to int
        Reasons why rows were not used, and how many.
    observations : float
        Rows used, each as often as its count says.
    columns : dict of str to hashable
        Our names of columns and those of the log; empty where columns go by position.
    ignored : tuple
        Columns that were not read.
    episodes : int or None
        Number of episodes.
    starts : dict or None
        Share of the episodes that begin in each state: a ``start`` for other functions.
    states, actions : tuple
        Names of the states and actions of the model.
    terminal, absorbing : tuple
        States that were declared terminal or absorbing.
    dead_ends : tuple
        States that are reached and never left; all of them are terminal or absorbing.
    never_reached : tuple
        States that no row leads to.
    pairs_seen, pairs_unseen : int
        Pairs (state, action) that were tried, and pairs of a state to act in that were never tried.
    pairs_below : int
        Pairs tried fewer than ``min_count`` times, which are not admissible.
    pairs_spared : int
        Pairs tried too seldom that stay admissible, because nothing in their state was tried more often.
    min_count : float
        The argument.
    support : str
        Next states that are possible.
    support_sizes : tuple of int
        Smallest and largest number of next states of a pair.
    transitions : int
        Transitions of the model.
    rewards : str
        Where rewards come from.
    rewards_varying : int
        Transitions (s, a, s') that were seen with several rewards.
    rewards_sd : float
        Standard deviation of rewards around the mean of their transition, pooled.
    rewards_guessed : int
        Transitions that the support allows and the log does not show.
    reward_posterior : NormalPosterior or None
        Posterior [S, A] of what varying rewards leave unknown; see ``prudent.from_log``.
    support_matters : tuple of SupportChange
        States in which ``support="action"`` and ``support="state"`` lead to different choices, at the posterior means.
    pooling : Pooling or None
        What groups learned from each other, or a log from another one (``group`` and ``prior_from``).
    notes : tuple of str
        Remarks.
    state_map : StateMap or None
        The map from features to states.
    state_choice : StateChoice or None
        How it was chosen, with ``states="auto"``.

    Examples
    --------
    >>> from prudent import from_log
    >>> rows = [("ill", "wait", "ill", 0), ("ill", "treat", "well", 1)]
    >>> model, _ = from_log(rows, 0.9, terminal=["well"])
    >>> print(model.summary)
    rows      2 read, 2 used
    states    2: 1 to act in, 1 terminal ('well'); 1 is never left
    actions   2
    pairs     2 possible: 2 tried, 0 never tried; 2 admissible
    visits    1 to 1 per admissible pair (quartiles 1, 1, 1)
    support   seen after any action in the state: 2 to 2 next states per pair, 4 transitions
    rewards   by transition; 2 transitions never seen earn what others of the same pair do
    """

    rows: int
    used: int
    dropped: Mapping[str, int]
    observations: float
    columns: Mapping[str, Any]
    ignored: tuple[Any, ...]
    episodes: int | None
    starts: Mapping[Hashable, float] | None
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    terminal: tuple[Hashable, ...]
    absorbing: tuple[Hashable, ...]
    dead_ends: tuple[Hashable, ...]
    never_reached: tuple[Hashable, ...]
    pairs_seen: int
    pairs_unseen: int
    pairs_below: int
    pairs_spared: int
    min_count: float
    support: str
    support_sizes: tuple[int, int]
    transitions: int
    rewards: str
    rewards_varying: int
    rewards_sd: float
    rewards_guessed: int
    reward_posterior: NormalPosterior | None
    support_matters: tuple[SupportChange, ...] = ()
    pooling: Pooling | None = None
    notes: tuple[str, ...] = ()
    state_map: StateMap | None = None
    state_choice: Any = None
    _visits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def visits(self) -> FloatArray:
        """Number of times that each admissible pair was tried [number of pairs]."""
        return np.asarray(self._visits["visits"])[np.asarray(self._visits["admissible"])]

    def most_tried(self, state: Hashable) -> Hashable:
        """Return what the log did most often in a state, or in its most visited pair if it was never there.

        Parameters
        ----------
        state : hashable
            Name of the state.

        Returns
        -------
        hashable
            The action; of equals the first.
        """
        here = np.flatnonzero([name == state for name in self._visits["state"].tolist()])
        if not here.size:
            here = np.arange(len(self._visits["state"]))
        best = here[int(np.argmax(self._visits["visits"][here]))]
        return self._visits["action"][best : best + 1].tolist()[0]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table of the pairs that were tried.

        Returns
        -------
        pandas.DataFrame
            A row for every pair: visits, number of next states seen, whether it is admissible, mean reward.

        Examples
        --------
        >>> from prudent import from_log
        >>> rows = [("ill", "wait", "ill", 0), ("ill", "treat", "well", 1), ("ill", "treat", "ill", 0)]
        >>> from_log(rows, 0.9, terminal=["well"])[0].summary.to_pandas()
          state action  visits  next_states  admissible  reward
        0   ill  treat     2.0            2        True     0.5
        1   ill   wait     1.0            1        True     0.0
        """
        import pandas

        return pandas.DataFrame(dict(self._visits))

    def lines(self) -> list[tuple[str, str]]:
        """Return the titles and texts that are printed.

        Returns
        -------
        list of (str, str)
            A title and a text for each line.
        """
        lost = sum(self.dropped.values())
        counted = "" if self.observations == self.used else f" ({self.observations:,.6g} observations by their counts)"
        lines = [("rows", f"{self.rows:,} read, {self.used:,} used{counted}")]
        if lost:
            lines.append(("dropped", f"{lost:,}: " + ", ".join(f"{n:,} {why}" for why, n in self.dropped.items())))
        if self.columns:
            lines.append(("columns", columns_text(self.columns, self.ignored)))
        elif self.observations != self.used:
            lines.append(("columns", BY_POSITION))
        if self.episodes is not None:
            lines.append(("episodes", f"{self.episodes:,}{self._starts()}"))
        if self.pooling is not None:
            lines.append(("groups", self.pooling.text()))
        lines.append(("states", self._states()))
        lines.append(("actions", f"{len(self.actions):,}"))
        possible = self.pairs_seen + self.pairs_unseen
        text = f"{possible:,} possible: {self.pairs_seen:,} tried, {self.pairs_unseen:,} never tried; "
        text += f"{self.visits.size:,} admissible"
        if self.pairs_below:
            text += f", {self.pairs_below:,} not (tried fewer than {self.min_count:g} times)"
        lines.append(("pairs", text))
        least, low, middle, high, most = np.quantile(self.visits, [0, 0.25, 0.5, 0.75, 1])
        lines.append(("visits", f"{least:g} to {most:g} per admissible pair (quartiles {low:g}, {middle:g}, {high:g})"))
        fewest, largest = self.support_sizes
        sizes = f"{fewest:,} to {largest:,} next states per pair, {self.transitions:,} transitions"
        lines.append(("support", f"{self.support}: {sizes}"))
        lines.append(("rewards", self.rewards))
        if self.support_matters:
            shown = "; ".join(
                f"{change.state!r}: {change.by_action!r} by 'action', {change.by_state!r} by 'state'"
                for change in self.support_matters[:_SHOWN]
            )
            lines.append(("choices", f"the best action depends on support: {shown}{_more(self.support_matters, ';')}"))
        return lines + [("note", note) for note in self.notes]

    def _starts(self) -> str:
        if not self.starts:
            return ""
        usual = sorted(self.starts, key=lambda state: -self.starts[state])  # type: ignore[index]
        shown = ", ".join(f"{state!r} {self.starts[state]:.0%}" for state in usual[:_SHOWN])
        return f", which begin in {shown}{_more(usual)}"

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


def columns_text(columns: Mapping[str, Any], ignored: Sequence[Any]) -> str:
    """Return how each column was read, and all that were not."""
    place = {name: i for i, name in enumerate(_ORDER)}
    listed = sorted(columns.items(), key=lambda column: place.get(column[0], len(place)))
    used = ", ".join(
        name + ("" if name == theirs else f" is {theirs!r}") + (f" ({_READ_AS[name]})" if name in _READ_AS else "")
        for name, theirs in listed
        if name in place
    )
    features = [str(theirs) for name, theirs in listed if name not in place]
    if features:
        used += f"; features: {', '.join(features)}"
    return used + (f"; not used: {', '.join(map(repr, ignored))}" if ignored else "")


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + _more(names)


def _more(names: Sequence[Any], separator: str = ",") -> str:
    """Return the end of a list of which the first ``_SHOWN`` members are shown."""
    return f"{separator} ... ({len(names):,} in all)" if len(names) > _SHOWN else ""
