"""Rows of a log as indices: columns, episodes, names, terminal and absorbing states."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import one_of
from ..data.columns import TableColumns
from ..data.flow import Flow, flow_of
from ..data.labels import Column, Labels, is_missing
from ..data.source import TableSource
from ..data.transitions import TransitionTable
from ..errors import DataError, ParameterError
from ..models.base import plural, read_terminal
from ..models.log_summary import BY_POSITION, columns_text
from ..types import BoolArray, FloatArray, IntArray, Label, NamesLike, TableLike, TerminalLike

_LARGEST_REWARD = 1e140  # its square must be finite
TRUNCATED = ("error", "drop", "mean")


class LogRows(NamedTuple):
    """Rows that are used [M], as indices, with the names and declarations that they go by."""

    state: IntArray
    action: IntArray
    target: IntArray
    times: FloatArray  # how often each row was seen
    reward: FloatArray | None
    by_state: Labels
    by_action: Labels
    terminal: BoolArray  # [S]
    terminal_value: FloatArray  # [S]
    absorbing: BoolArray  # [S]
    absorbing_reward: FloatArray  # [S]
    held: TableColumns
    row: IntArray  # number of each row in the log
    rows: int  # of the log
    dropped: dict[str, int]  # why rows are not used, and how many
    episodes: int | None
    starts: Column  # [episodes] state of the first row of each, empty if there are none
    by_episode: Labels | None  # None if the log has no episodes; else
    episode: IntArray  # [M] which one each row is of
    place: IntArray  # [M] its place in the episode
    leads: IntArray  # [M] row of the log whose state is the next state, itself for steps that were filled in, else -1
    waits: FloatArray  # [M] how many steps before a gap were filled in by this, 0 for rows of the log
    duration: FloatArray | None = None  # [M] time that each transition takes; None if one unit each
    notes: tuple[str, ...] = ()
    group: IntArray | None = None  # [M] of each row
    by_group: Labels | None = None
    borrowed: BoolArray | None = None  # [M] rows of another log, which only the prior learns from

    def some(self, rows: IntArray | BoolArray, **changes: Any) -> LogRows:
        """Return some of the rows, in any order and perhaps repeated, with other fields as given."""
        per_row: tuple[str, ...] = (
            "state",
            "action",
            "target",
            "times",
            "row",
            "reward",
            "leads",
            "waits",
            "duration",
            "group",
            "borrowed",
        )
        per_row += () if self.by_episode is None else ("episode", "place")
        kept: dict[str, Any] = {name: getattr(self, name) for name in per_row}
        kept = {name: None if values is None else values[rows] for name, values in kept.items()}
        return self._replace(**kept)._replace(**changes)

    def lines(self) -> list[tuple[str, str]]:
        """Return titles and texts that say what was read: rows, columns and notes."""
        lines = [("rows", f"{self.rows:,} read, {np.unique(self.row).size:,} used")]
        if self.dropped:
            lost = ", ".join(f"{n:,} {why}" for why, n in self.dropped.items())
            lines.append(("dropped", f"{sum(self.dropped.values()):,}: {lost}"))
        if self.held.used:
            lines.append(("columns", columns_text(self.held.used, self.held.ignored)))
        elif "count" in self.held:
            lines.append(("columns", BY_POSITION))
        return lines + [("note", note) for note in self.notes]

    def discounts(self, discount: float) -> FloatArray | float:
        """Return what the value of the next state of each row is worth: ``discount``, or [M] by durations."""
        return discount if self.duration is None else discount**self.duration

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states and actions."""
        return self.by_state.size, self.by_action.size


class OpenLog(NamedTuple):
    """A log whose columns were read, and what follows its rows.

    Attributes
    ----------
    held : TableColumns
        The columns, among them state, and next_state where one says what followed.
    flow : Flow
        What follows each row.
    texts : bool
        Whether names of states may be texts of numbers.
    """

    held: TableColumns
    flow: Flow
    texts: bool

    @property
    def targets(self) -> Column:
        """The next state of each row: of its column, of the row that follows, or an outcome."""
        leads, over = self.flow.leads, self.flow.over
        targets = self.held.get("next_state", np.full(self.held.size, None, dtype=object))
        if (leads >= 0).any() or over.any():
            targets = targets.astype(object)
            targets[leads >= 0] = self.held["state"][leads[leads >= 0]]
            targets[over] = self.flow.ended[over]
        return targets


def open_log(
    log: TableLike,
    columns: Mapping[str, Any] | None,
    end: Label = None,
    duration: Label = None,
    gaps: str = "error",
    group: str | None = None,
    argument: str = "log",
) -> OpenLog:
    """Read the columns of a log with states, by the arguments of ``from_log``; messages call it ``argument``."""
    if duration is not None:
        columns = dict(columns or {}) | {"duration": duration}
    held = _columns(log, columns, group, argument)
    if not held.size:
        raise DataError(f"{held.table} has no rows", code="no-rows", argument=argument)
    given = ~is_missing(held["next_state"]) if "next_state" in held else None
    flow = flow_of(held, given, end, gaps)
    if flow.episodes is None and not flow.alive.all():
        message = "next_state is missing; if the process ends there, name a terminal state for it: end='...'"
        raise held.fault(int(np.argmin(flow.alive)), message, "missing-value", column="next_state")
    return OpenLog(held, flow, held.from_text or isinstance(log, str | os.PathLike))


def read_log(
    log: TableLike,
    columns: Mapping[str, Any] | None,
    states: NamesLike,
    actions: NamesLike,
    terminal: TerminalLike,
    absorbing: TerminalLike,
    end: Label,
    duration: Label = None,
    gaps: str = "error",
    group: str | None = None,
) -> LogRows:
    """Read a log with states by the arguments of ``from_log``."""
    opened = open_log(log, columns, end, duration, gaps, group)
    return read_rows(opened, states, actions, terminal, absorbing, end)


def read_rows(
    opened: OpenLog,
    states: NamesLike,
    actions: NamesLike,
    terminal: TerminalLike,
    absorbing: TerminalLike,
    end: Label,
) -> LogRows:
    """Return the rows of a log as indices."""
    held, flow = opened.held, opened.flow
    lives, targets, alive, dropped = flow.episodes, opened.targets, flow.alive.copy(), dict(flow.dropped)
    times = held.counts()
    reward = held.numbers("reward", where=alive) if "reward" in held else None
    if reward is not None:
        held.refuse(np.abs(reward) > _LARGEST_REWARD, "reward", f"at most {_LARGEST_REWARD:g}", "value-range")
    never = alive & (times == 0.0)
    if never.any():
        dropped["with a count of 0"] = int(never.sum())
        alive &= ~never
    row = np.flatnonzero(alive)
    if not row.size:
        raise _unusable(held, held.size, dropped)
    table = TransitionTable.of(held, states, actions, error=DataError, next_states=targets, rows=row)
    by_state = table.states
    if opened.texts:  # from a command line names come as texts
        terminal, absorbing = (_as_written(given, by_state) for given in (terminal, absorbing))
    over, worth = read_terminal(_with_end(terminal, end if by_state.find(end) >= 0 else None), by_state)
    stays, earns = read_terminal(absorbing, by_state, "absorbing")
    both = over & stays
    if both.any():
        s = int(np.argmax(both))
        message = f"{by_state.show(s)} cannot be terminal and absorbing at once"
        raise ParameterError(message, code="conflicting-arguments", state=by_state.names[s])
    lasting = None if flow.duration is None else flow.duration[row]
    read = LogRows(
        state=table.state,
        action=table.action,
        target=table.next_state,
        times=times[row],
        reward=None if reward is None else reward[row],
        by_state=by_state,
        by_action=table.actions,
        terminal=over,
        terminal_value=worth,
        absorbing=stays,
        absorbing_reward=earns,
        held=held,
        row=row,
        rows=held.size,
        dropped=dropped,
        episodes=None if lives is None else lives.labels.size,
        starts=held["state"][:0] if lives is None else held["state"][lives.first],
        by_episode=None if lives is None else lives.labels,
        episode=row[:0] if lives is None else lives.code[row],
        place=row[:0] if lives is None else lives.place[row],
        duration=None if lasting is None or (lasting == 1.0).all() else lasting,
        notes=flow.notes,
        leads=flow.leads[row],
        waits=np.zeros(row.size),
    )
    if "group" in held:
        read = _grouped(read)
    waits = flow.waits[row]
    if waits.any():  # rows that are repeated until the next one
        again = np.flatnonzero(waits)
        every = np.concatenate((np.arange(row.size), again))
        read = read.some(
            every,
            target=np.concatenate((read.target, read.state[again])),
            times=np.concatenate((read.times, (read.times * waits)[again])),
            leads=np.concatenate((read.leads, row[again])),
            waits=np.concatenate((read.waits, waits[again])),
        )
    return _without_rest(read)


def read_two(
    log: OpenLog,
    other: OpenLog,
    states: NamesLike,
    actions: NamesLike,
    terminal: TerminalLike,
    absorbing: TerminalLike,
    end: Label,
) -> LogRows:
    """Return the rows of two logs with the same names: group 0 has those of ``log``, and group 1 those of ``other``.

    What is told of the log as a whole is about the first one.
    """
    cells = [column for each in (log, other) for column in (each.held["state"], each.targets)]
    labels = (
        Labels.of("state", states, *cells, error=DataError),
        Labels.of("action", actions, log.held["action"], other.held["action"], error=DataError),
    )
    names = labels[0].names, labels[1].names
    first, second = (read_rows(each, *names, terminal, absorbing, end) for each in (log, other))
    if (first.reward is None) != (second.reward is None):
        message = "prior_from and log must both have rewards, or neither"
        raise DataError(message, code="missing-column", argument="prior_from", column="reward")
    size = first.state.size, second.state.size
    per_row = ("state", "action", "target", "times", "row", "leads", "waits")
    both: dict[str, Any] = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))
        for name in (*per_row, *([] if first.reward is None else ["reward"]))
    }
    if first.duration is not None or second.duration is not None:
        parts = [
            np.ones(n) if read.duration is None else read.duration
            for read, n in zip((first, second), size, strict=True)
        ]
        both["duration"] = np.concatenate(parts)
    which = np.repeat([0, 1], size)
    by_group = Labels("group", ("log", "prior_from"), 2)
    if first.by_episode is not None:  # the other log is an episode of its own, which nothing is told of
        episodes = (*first.by_episode.names, "prior_from")
        both["by_episode"] = Labels("episode", episodes, len(episodes), DataError)
        both["episode"] = np.concatenate((first.episode, np.full(size[1], len(episodes) - 1)))
        both["place"] = np.concatenate((first.place, np.arange(size[1])))
    return first._replace(**both, group=which, by_group=by_group, borrowed=which == 1)


def _grouped(read: LogRows) -> LogRows:
    """Return the rows with their groups."""
    cells = read.held["group"]
    lacking = is_missing(cells)[read.row]
    if lacking.any():
        raise read.held.fault(
            int(read.row[np.argmax(lacking)]), "group is missing; give every row one", "missing-value", column="group"
        )
    by_group = Labels.of("group", None, cells[read.row], error=DataError)
    if by_group.size < 2:
        message = f"group has one name only, {by_group.names[0]!r}; omit it, or give the log of all groups"
        raise DataError(message, code="one-group", argument="group", value=by_group.names[0])
    return read._replace(group=by_group.find_all(cells[read.row]), by_group=by_group)


def _unusable(held: TableColumns, rows: int, dropped: Mapping[str, int]) -> DataError:
    why = ", ".join(f"{n:,} {reason}" for reason, n in dropped.items())
    message = f"{held.table} has {plural(rows, 'row')}, none of which can be used: {why}"
    return DataError(message, code="no-rows", argument="log")


def _columns(
    log: TableLike, columns: Mapping[str, Any] | None, group: str | None = None, argument: str = "log"
) -> TableColumns:
    source = TableSource(log, argument)
    if columns is not None and columns.get("done") is not None:
        message = (
            "columns names 'done', which is read with features=[...]; where a column has the states, let next_state "
            "name the state in which the process ended, and declare it: terminal=..."
        )
        raise ParameterError(message, code="unknown-option", argument="columns", value="done")
    if group is not None and not source.named:
        message = f"group is {group!r}, but log has no names of columns"
        raise DataError(message, code="missing-column", argument="group", column=group)
    if not source.named:
        return source.read(("state", "action", "next_state"), ("reward", "count"), columns=columns)
    named: tuple[str, ...] = ("next_state", "reward", "count", "episode", "step")
    if columns is not None and columns.get("duration") is not None:  # never guessed
        named = (*named, "duration")
    if group is not None:
        named, columns = (*named, "group"), {**(columns or {}), "group": group}
    try:
        held = source.read(("state", "action"), named=named, columns=columns)
    except DataError as error:
        if error.code != "missing-column" or error.fields.get("column") != "state":
            raise
        message = f"{error}; if several columns say what the state is, such as measurements: features=[...]"
        raise DataError(message, code="missing-column", column="state") from None
    if "next_state" not in held and "episode" not in held:
        names = [*held.used.values(), *held.ignored]
        message = (
            f"{held.table} has no column 'next_state', and none of episodes whose rows follow each other; its columns "
            f"are {names}; if one of them has another name: columns={{'next_state': ...}}"
        )
        raise DataError(message, code="missing-column", column="next_state")
    return held


def _as_written(given: Any, labels: Labels) -> Any:
    """Return names as the labels of a text file, which are numbers if all of them look so: "4" is then the state 4."""

    def label(name: Any) -> Any:
        whole = isinstance(name, str) and labels.find(name) < 0 and name.strip().lstrip("-").isdecimal()
        return int(name) if whole else name

    if hasattr(given, "items"):
        return {label(name): value for name, value in given.items()}
    if isinstance(given, str) or not isinstance(given, Iterable) or hasattr(given, "dtype"):
        return label(given)
    return [label(name) for name in given]


def _with_end(terminal: Any, end: Hashable) -> Any:
    if end is None:
        return terminal
    if hasattr(terminal, "items"):
        return {end: 0.0} | dict(terminal.items())
    listed = [terminal] if isinstance(terminal, str) or not isinstance(terminal, Iterable) else list(terminal)
    return [*listed, end]


def _without_rest(read: LogRows) -> LogRows:
    """Refuse rows that start in a terminal state, and drop rows that stay in an absorbing state."""

    def refuse_rows(bad: BoolArray, code: str, message: str) -> None:
        if bad.any():
            i, labels = int(np.argmax(bad)), read.by_state
            s = int(read.state[i])
            facts = {"state": labels.show(s), "target": labels.show(int(read.target[i])), "rows": int(bad.sum())}
            earned = 0.0 if read.reward is None else read.reward[i]
            text = message.format(**facts, reward=earned, declared=read.absorbing_reward[s])
            raise read.held.fault(int(read.row[i]), text, code, state=labels.names[s])

    refuse_rows(
        read.terminal[read.state],
        "terminal-state",
        "{state} is declared terminal, but this row goes on to {target}; leave out such rows ({rows:,} here), or "
        "declare it absorbing if the process stays there",
    )
    rests = read.absorbing[read.state]
    if not rests.any():
        return read
    leaves = rests & (read.target != read.state)
    if read.reward is not None:
        refuse_rows(
            rests & ~leaves & (read.reward != read.absorbing_reward[read.state]),
            "absorbing-reward",
            "reward is {reward:g}, but a step in the absorbing {state} earns {declared:g}; declare what it earns: "
            "absorbing={{state: reward}}",
        )
    refuse_rows(leaves, "absorbing-state", "{state} is declared absorbing, but this row goes on to {target}")
    dropped = read.dropped | {"that stay in an absorbing state": int(rests.sum())}
    if rests.all():
        raise _unusable(read.held, read.rows, dropped)
    return read.some(~rests, dropped=dropped)


def close_truncated(read: LogRows, truncated: str) -> LogRows:
    """Return the rows without those that lead to states which are never left, for logs that stop before the process.

    "drop" leaves them out. "mean" reads such a row as leading where the other rows of its state lead, in proportion to
    their numbers. A state that has no other rows is then itself never left, and so on.
    """
    one_of(truncated, "truncated", TRUNCATED)
    S, lost, closed = read.by_state.size, 0, 0
    while truncated != "error":
        left = np.bincount(read.state, minlength=S) > 0
        cut = ~(left | read.terminal | read.absorbing)[read.target]
        if not cut.any():
            break
        open_ended = np.bincount(read.state[~cut], minlength=S) > 0
        mended = cut & open_ended[read.state] if truncated == "mean" else np.zeros(cut.size, dtype=np.bool_)
        closed += int(np.count_nonzero(mended))
        lost += int(np.count_nonzero(cut & ~mended))
        kept = np.flatnonzero(~cut)
        steps, which = np.unique(read.state[kept] * S + read.target[kept], return_inverse=True)
        share = np.bincount(which, read.times[kept]) / np.bincount(read.state[kept], read.times[kept], S)[steps // S]
        sizes, first = np.bincount(steps // S, minlength=S), np.searchsorted(steps, np.arange(S) * S)
        rows = np.flatnonzero(mended)
        again = np.repeat(rows, sizes[read.state[rows]])
        place = np.arange(again.size) - np.repeat(np.cumsum(sizes[read.state[rows]]), sizes[read.state[rows]])
        place += np.repeat(sizes[read.state[rows]] + first[read.state[rows]], sizes[read.state[rows]])
        target = np.concatenate((read.target[kept], steps[place] % S))
        times = np.concatenate((read.times[kept], read.times[again] * share[place]))
        if not kept.size:
            raise _unusable(read.held, read.rows, read.dropped | {"that lead to a state that is never left": lost})
        leads = np.concatenate((read.leads[kept], np.full(again.size, -1)))
        read = read.some(np.concatenate((kept, again)), target=target, times=times, leads=leads)
    notes, dropped = list(read.notes), dict(read.dropped)
    if closed:
        notes.append(
            f"{plural(closed, 'row')} that led to a state which is never left were read as leading where the other "
            "rows of their state lead (truncated='mean')"
        )
    if lost:
        dropped["that lead to a state that is never left"] = lost
    return read._replace(notes=tuple(notes), dropped=dropped)
