"""Logs of episodes: rows by episode and step, and how each episode ended.

An episode is over if the log says so: a column ``done``, a last row without an action, or a next state that the caller
calls terminal. A log that says nothing of this has episodes that are over after their last row, or, if all of them
have the same length, episodes that stop after so many steps. Episodes that are not over must be as long as the longest
one, which is then the horizon; shorter ones are unfinished, and the caller says what to do with them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._support.checks import items_of, one_of, require_scale, whole_number
from ...data.columns import TableColumns, as_column, synonyms
from ...data.feature_columns import feature_of
from ...data.flow import Episodes, Passage, outcomes_of
from ...data.labels import Column, Labels, cell, is_missing
from ...data.source import TableSource
from ...data.state_map import StateMap
from ...errors import DataError, ParameterError
from ...types import BoolArray, FloatArray, IntArray, Label, TableLike

if TYPE_CHECKING:
    import pandas

ROLES = ("state", "next_state", "step", "done", "count")
UNFINISHED = ("error", "drop", "end")
LARGEST = 1e50  # of a reward: products with weights, which are 1e100 at most, are squared
SMALLEST = 1e-40  # of a propensity
UNKNOWN = -1  # a next state that the log does not tell


@dataclass(frozen=True, eq=False)
class EpisodeLog:
    """A log of n episodes with M rows, sorted by episode and step.

    Attributes
    ----------
    episode, place : int64 [M]
        Episode of each row, and its place in the episode, from 0.
    action : int64 [M]
        Index of the action.
    reward : float64 [M]
        Rewards.
    state, target : int64 [M] or None
        Index of the state and of the next state: S where the process ended, -1 where it is not known. None if the log
        has no states.
    propensity : float64 [M] or None
        Probability of the action under the policy that acted.
    lengths : int64 [n]
        Numbers of rows of the episodes.
    ended : bool [n]
        Whether the process ended after the last row of the episode; else the log stops there.
    horizon : int or None
        Number of steps after which every episode stops; None if episodes go on until the process ends.
    by_state, by_action : Labels
        Names of states and actions.
    row : int64 [M]
        Number of each row in the table.
    rows : int
        Number of rows of the table.
    dropped : int
        Number of episodes that are not used.
    held : TableColumns
        The columns that were read.
    """

    episode: IntArray
    place: IntArray
    action: IntArray
    reward: FloatArray
    state: IntArray | None
    target: IntArray | None
    propensity: FloatArray | None
    lengths: IntArray
    ended: BoolArray
    horizon: int | None
    by_state: Labels | None
    by_action: Labels
    row: IntArray
    rows: int
    dropped: int
    held: TableColumns
    _source: TableSource

    @property
    def n(self) -> int:
        """Number of episodes."""
        return self.lengths.size

    @property
    def longest(self) -> int:
        """Length of the longest episode."""
        return int(self.lengths.max())

    @cached_property
    def first(self) -> IntArray:
        """First row of each episode [n]."""
        return np.concatenate(([0], np.cumsum(self.lengths)[:-1]))

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """All columns of the log, a row for each of [M]."""
        import pandas

        names = self._source.column_names or []
        keys = {f"raw {i}": name for i, name in enumerate(names)}
        held = self._source.read(list(keys), columns=keys)
        cells = {
            name: (feature_of(held, key, None).cells if held.from_text else as_column(held[key]))
            for key, name in keys.items()
        }
        return pandas.DataFrame({name: column[self.row] for name, column in cells.items()})

    def padded(self, values: FloatArray, rest: float = 0.0) -> FloatArray:
        """Return a column [M] as an array [n, H], with ``rest`` after the end of an episode."""
        table = np.full((self.n, self.longest), rest)
        table[self.episode, self.place] = values
        return table

    def returns(self, discount: float) -> FloatArray:
        """Return the discounted return of each episode [n]."""
        return np.bincount(self.episode, discount**self.place * self.reward, self.n).astype(np.float64)

    def until(self, horizon: int) -> EpisodeLog:
        """Return the log with episodes that stop after so many steps, which none exceeds."""
        return replace(self, horizon=horizon)

    def with_actions(self, names: Iterable[Label]) -> EpisodeLog:
        """Return the log with further actions, which it never shows."""
        more = [name for name in dict.fromkeys(names) if self.by_action.find(name) < 0]
        if not more:
            return self
        listed = (*self.by_action.names, *more)
        return replace(self, by_action=Labels("action", listed, len(listed), ParameterError))


def read_episodes(
    log: TableLike,
    *,
    episode: str | None,
    columns: Mapping[str, Any] | None = None,
    horizon: int | None = None,
    terminal: Iterable[Label] | None = None,
    unfinished: str = "error",
    states: StateMap | None = None,
) -> EpisodeLog:
    """Return the rows of a log of episodes.

    Parameters
    ----------
    log : TableLike
        A table with the columns episode, action, reward, and perhaps step, state, next_state, done and propensity.
    episode : str, optional
        Name of the column of episodes; by default the usual names.
    columns : mapping, optional
        Names of other columns, as for ``from_log``.
    horizon : int, optional
        Number of steps that count.
    terminal : iterable of hashable, optional
        States where the process ends.
    unfinished : {"error", "drop", "end"}, default="error"
        What to do with episodes that are not over and shorter than others.
    states : StateMap, optional
        Map that gives rows their states.

    Returns
    -------
    EpisodeLog
        The rows.

    Raises
    ------
    DataError
        If the log cannot be read or a value is wrong.
    """
    one_of(unfinished, "unfinished", UNFINISHED)
    limit = None if horizon is None else whole_number(horizon, "horizon", maximum=10**9)
    source = TableSource(log, "log")
    held = _columns(source, episode, columns)
    if not held.size:
        raise DataError(f"{held.table} has no rows", code="no-rows", argument="log")
    held.refuse(held.counts() != 1.0, "count", "1: an episode is a row for each step", "value-range")
    lives = _in_time(held)
    labels, code, order = lives.labels, lives.code, lives.order
    idle = is_missing(held["action"])
    reward = held.numbers("reward", where=~idle)
    held.refuse(abs(np.where(idle, 0.0, reward)) > LARGEST, "reward", f"at most {LARGEST:g}", "value-range")
    require_scale(reward[~idle], "evaluation of a log", error=DataError)
    names = None if states is None and "state" not in held else _state_cells(held, source, states)
    following = _following(held, names, order, code)
    ends = _ends(terminal, following)
    told, ended = _ended(held, code, order, idle, _arrivals(following, ends, held.size))

    held.refuse(idle & (np.nan_to_num(reward) != 0.0), "reward", "none or 0 in a row without an action", "value-range")
    keep = order[~idle[order]]
    lengths = np.bincount(code[keep], minlength=labels.size)
    chosen = lengths > 0  # others only say where they ended
    if not chosen.any():
        raise DataError(f"{held.table} has no row with an action", code="no-rows", argument="log")
    if not told and limit is None and np.unique(lengths[chosen]).size == 1:
        limit = int(lengths.max())
    elif not told:
        ended[:] = True
    if limit is not None:
        ended &= lengths <= limit
    open_ended = chosen & ~ended & (lengths < (int(lengths.max()) if limit is None else limit))
    if open_ended.any():
        if unfinished == "error" or (unfinished == "drop" and open_ended.sum() == chosen.sum()):
            raise _unfinished(held, labels, lengths, open_ended)
        chosen, ended = (chosen & ~open_ended, ended) if unfinished == "drop" else (chosen, ended | open_ended)
    stops = limit if limit is not None else (None if ended[chosen].all() else int(lengths.max()))
    place = np.arange(keep.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    used = chosen[code[keep]] & (True if limit is None else place < limit)
    keep, place, number = keep[used], place[used], np.cumsum(chosen) - 1
    dropped, ended = int(np.count_nonzero(~chosen)), ended[chosen]
    lengths = lengths[chosen] if limit is None else np.minimum(lengths[chosen], limit)
    over = ended[number[code[keep]]] & (place == lengths[number[code[keep]]] - 1)
    by_action = Labels.of("action", None, held["action"][keep], error=DataError)
    by_state, state, target = _states(names, following, keep, over, ends, held)
    chance = None
    if "propensity" in held:
        chance = held.numbers("propensity", where=~idle)
        good = idle | ((chance >= SMALLEST) & (chance <= 1.0 + 1e-9))
        held.refuse(~good, "propensity", f"a probability from {SMALLEST:g} to 1", "probability-range")
        chance = np.minimum(chance[keep], 1.0)
    return EpisodeLog(
        episode=number[code[keep]],
        place=place,
        action=held.indices("action", by_action, column=held["action"][keep], rows=keep),
        reward=reward[keep],
        state=state,
        target=target,
        propensity=chance,
        lengths=lengths,
        ended=ended,
        horizon=stops,
        by_state=by_state,
        by_action=by_action,
        row=keep,
        rows=held.size,
        dropped=dropped,
        held=held,
        _source=source,
    )


def episode_columns(names: Sequence[Any]) -> list[Any]:
    """Return those columns of a table that usually hold episodes."""
    return ["episode"] if "episode" in names else synonyms(names, "episode", required=True)


def _columns(source: TableSource, episode: str | None, columns: Mapping[str, Any] | None) -> TableColumns:
    names = source.column_names
    if names is None:
        message = f"{source.name} has columns without names; episodes need the columns episode, action and reward"
        raise DataError(message, code="missing-column", argument="log", column="episode")
    if columns is not None and not isinstance(columns, Mapping):
        message = f"columns must be a mapping such as {{'episode': 'patient'}}, got {columns!r}"[:300]
        raise ParameterError(message, code="wrong-type", argument="columns")
    given = dict(columns or {})
    if episode is not None:
        given["episode"] = episode
    given.setdefault("propensity", "propensity" if "propensity" in names else None)
    return source.read(("episode", "action", "reward"), named=(*ROLES, "propensity"), columns=given)


def _in_time(held: TableColumns) -> Episodes:
    """Return the episodes of the rows; steps must be even, because a missing row has a missing decision."""
    lives = Episodes.of(held, strict=True)
    assert lives is not None
    passage = Passage.of(lives.step, lives.follower)
    if passage.uneven.any():
        row = int(lives.order[np.argmax(passage.uneven[lives.order])])
        apart = float(passage.units[row] * passage.unit)
        message = (
            f"the next row of episode {cell(held['episode'], row)!r} is {apart:g} later in step, and elsewhere "
            f"{passage.unit:g}: a decision is missing; add the row, leave out the episode, or give "
            "columns={'step': None} if rows follow each other as they are"
        )
        raise held.fault(row, message, "gap", column="step", value=apart, expected=passage.unit)
    return lives


def _ended(
    held: TableColumns, code: IntArray, order: IntArray, idle: BoolArray, arrives: BoolArray
) -> tuple[bool, BoolArray]:
    """Return whether the log says which episodes are over, and which are."""
    final = np.append(code[order[1:]] != code[order[:-1]], True)  # in order
    marked = np.append(idle[order[1:]] & ~final[:-1], False)  # the next row has no action
    last = np.zeros((2, code.size), dtype=np.bool_)
    last[:, order] = final, final | marked
    expected = "an action: only the last row of an episode may have none"
    held.refuse(idle & ~last[0], "action", expected, "missing-value")
    outcome = np.array([label is not None for label in outcomes_of(held)], dtype=np.bool_)
    held.refuse(outcome & ~last[1], "done", "no further rows of the episode after it", "terminal-state")
    if (arrives & ~last[1]).any():
        row = int(np.argmax(arrives & ~last[1]))
        message = "the next state is declared terminal, but the episode goes on"
        raise held.fault(row, message, "terminal-state", argument="terminal")
    ended = np.zeros(int(code.max()) + 1, dtype=np.bool_)
    ended[code[idle | outcome | arrives]] = True
    return "done" in held or bool(idle.any()) or bool(arrives.any()), ended


def _state_cells(held: TableColumns, source: TableSource, states: StateMap | None) -> Column:
    if states is None:
        return held["state"]
    names = list(states.features)
    table = source.read(names, columns={name: name for name in names})
    rows = {name: table[name] for name in names}
    if not states.fitted:
        known = {"episode": held["episode"], "action": held["action"], "reward": held["reward"]}
        known |= {role: held[role] for role in ("step", "done") if role in held}
        states = states.fit(rows | known)
    return states.transform(rows)


def _following(held: TableColumns, names: Column | None, order: IntArray, code: IntArray) -> Column | None:
    """Return the next state of each row: that of the log, or the state of the next row of the episode, or None."""
    if names is None:
        return None
    given = held.get("next_state")
    cells = np.full(held.size, None, dtype=object) if given is None else given.astype(object)
    lacking = is_missing(cells)
    cells[lacking] = None
    same = code[order[1:]] == code[order[:-1]]
    before, after = order[:-1][same], order[1:][same]
    fill = lacking[before]
    cells[before[fill]] = names.astype(object)[after[fill]]
    return cells


def _ends(terminal: Iterable[Label] | None, following: Column | None) -> list[Label]:
    ends: list[Label] = (
        [] if terminal is None else [terminal] if isinstance(terminal, str) else items_of(terminal, "terminal")
    )
    if not all(isinstance(end, Hashable) for end in ends):
        message = f"terminal must be names of states, got {terminal!r}"[:300]
        raise ParameterError(message, code="wrong-type", argument="terminal")
    if ends and following is None:
        message = "terminal names states, but log has no column 'state'"
        raise ParameterError(message, code="missing-column", argument="terminal", column="state")
    return ends


def _arrivals(cells: Column | None, ends: Sequence[Any], size: int) -> BoolArray:
    """Return the rows whose next state is one of ``ends``."""
    if cells is None or not ends:
        return np.zeros(size, dtype=np.bool_)
    members = set(ends)
    return np.fromiter((value in members for value in cells.tolist()), np.bool_, cells.size)


def _unfinished(held: TableColumns, labels: Labels, lengths: IntArray, open_ended: BoolArray) -> DataError:
    number = int(np.argmax(open_ended))
    message = (
        f"{held.table}: {np.count_nonzero(open_ended)} of {lengths.size} episodes are not over and shorter than the "
        f"longest one, for instance {labels.names[number]!r} after {lengths[number]} steps; give unfinished='drop' to "
        "leave them out, which is right if the log stops for reasons that have nothing to do with the rewards, "
        "unfinished='end' if nothing more was earned, or horizon= to count the first steps of every episode only"
    )
    return DataError(message, code="unfinished-episode", argument="unfinished", value=labels.names[number])


def _states(
    names: Column | None,
    following: Column | None,
    keep: IntArray,
    over: BoolArray,
    ends: Sequence[Any],
    held: TableColumns,
) -> tuple[Labels | None, IntArray | None, IntArray | None]:
    """Return the labels of the states in which the log acts, and the states and next states of the rows."""
    if names is None or following is None:
        return None, None, None
    lacking = is_missing(names[keep])
    if lacking.any():
        row = int(keep[np.argmax(lacking)])
        raise held.fault(row, "state is missing; give every row one", "missing-value", column="state")
    by_state = Labels.of("state", None, names[keep], error=DataError)
    state = by_state.find_all(names[keep])
    if (state < 0).any():
        row = int(keep[np.argmax(state < 0)])
        raise held.fault(
            row, f"state {names[row]!r} cannot be a name; use texts or numbers", "wrong-type", column="state"
        )
    target = by_state.find_all(following[keep])  # -1: never left, or not known
    target[_arrivals(following[keep], ends, keep.size)] = by_state.size
    target[over] = by_state.size
    return by_state, state, target
