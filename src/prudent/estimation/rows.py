"""Rows of a log as indices: columns, episodes, names, terminal and absorbing states."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..data.columns import TableColumns
from ..data.labels import Column, Labels, is_missing, object_array
from ..data.source import TableSource
from ..data.transitions import TransitionTable
from ..errors import DataError, ParameterError
from ..models.base import plural, read_terminal
from ..types import BoolArray, FloatArray, IntArray, Label, NamesLike, TableLike, TerminalLike

_LARGEST_REWARD = 1e140  # its square must be finite


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
    group: IntArray | None = None  # [M] of each row
    by_group: Labels | None = None
    borrowed: BoolArray | None = None  # [M] rows of another log, which only the prior learns from

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states and actions."""
        return self.by_state.size, self.by_action.size


def read_log(
    log: TableLike,
    columns: Mapping[str, Any] | None,
    states: NamesLike,
    actions: NamesLike,
    terminal: TerminalLike,
    absorbing: TerminalLike,
    end: Label,
    group: str | None = None,
    argument: str = "log",
) -> LogRows:
    """Read a log by the arguments of ``from_log``; ``argument`` is what messages call it."""
    held = _columns(log, columns, group, argument)
    rows = held.size
    if not rows:
        raise DataError(f"{held.table} has no rows", code="no-rows", argument="log")
    times = held.counts()
    targets, alive, dropped, episodes, starts = _next_states(held, end)
    reward = held.numbers("reward", where=alive) if "reward" in held else None
    if reward is not None:
        held.refuse(np.abs(reward) > _LARGEST_REWARD, "reward", f"at most {_LARGEST_REWARD:g}", "value-range")
    never = alive & (times == 0.0)
    if never.any():
        dropped["with a count of 0"] = int(never.sum())
        alive &= ~never
    row = np.flatnonzero(alive)
    if not row.size:
        raise _unusable(held, rows, dropped)
    table = TransitionTable.of(held, states, actions, error=DataError, next_states=targets, rows=row)
    by_state = table.states
    if held.from_text or isinstance(log, str | os.PathLike):  # from a command line names come as texts
        terminal, absorbing = (_as_written(given, by_state) for given in (terminal, absorbing))
    over, worth = read_terminal(_with_end(terminal, end if by_state.find(end) >= 0 else None), by_state)
    stays, earns = read_terminal(absorbing, by_state, "absorbing")
    both = over & stays
    if both.any():
        s = int(np.argmax(both))
        message = f"{by_state.show(s)} cannot be terminal and absorbing at once"
        raise ParameterError(message, code="conflicting-arguments", state=by_state.names[s])
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
        rows=rows,
        dropped=dropped,
        episodes=episodes,
        starts=starts,
    )
    if group is not None:
        read = _grouped(read)
    return _without_rest(read)


def read_two_logs(log: TableLike, other: TableLike, columns: Mapping[str, Any] | None, **arguments: Any) -> LogRows:
    """Return the rows of two logs with the same names: group 0 has those of ``log``, and group 1 those of ``other``.

    ``arguments`` are the others of ``read_log``. What is told of the log as a whole is about the first one.
    """
    tables = {"log": log, "prior_from": other}
    held = [_columns(table, columns, argument=name) for name, table in tables.items()]
    cells = [(part["state"], _next_states(part, arguments["end"])[0]) for part in held]
    labels = {
        "states": Labels.of("state", arguments.pop("states"), *cells[0], *cells[1], error=DataError),
        "actions": Labels.of("action", arguments.pop("actions"), *(part["action"] for part in held), error=DataError),
    }
    names: dict[str, Any] = {name: axis.names for name, axis in labels.items()}
    first, second = (read_log(table, columns, **names, **arguments, argument=name) for name, table in tables.items())
    if (first.reward is None) != (second.reward is None):
        message = "prior_from and log must both have rewards, or neither"
        raise DataError(message, code="missing-column", argument="prior_from", column="reward")
    size = first.state.size, second.state.size
    both: dict[str, Any] = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))
        for name in ("state", "action", "target", "times", "row", *([] if first.reward is None else ["reward"]))
    }
    which = np.repeat([0, 1], size)
    by_group = Labels("group", ("log", "prior_from"), 2)
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
    if group is not None and not source.named:
        message = f"group is {group!r}, but log has no names of columns"
        raise DataError(message, code="missing-column", argument="group", column=group)
    if not source.named:
        return source.read(("state", "action", "next_state"), ("reward", "count"), columns=columns)
    named: tuple[str, ...] = ("next_state", "reward", "count", "episode", "step")
    if group is not None:
        named, columns = (*named, "group"), {**(columns or {}), "group": group}
    held = source.read(("state", "action"), named=named, columns=columns)
    if "next_state" not in held and "episode" not in held:
        names = [*held.used.values(), *held.ignored]
        message = (
            f"{held.table} has no column 'next_state', and none of episodes whose rows follow each other; its columns "
            f"are {names}; if one of them has another name: columns={{'next_state': ...}}"
        )
        raise DataError(message, code="missing-column", column="next_state")
    return held


def _next_states(held: TableColumns, end: Hashable) -> tuple[Column, BoolArray, dict[str, int], int | None, Column]:
    """Return next states, which rows are transitions, why others are dropped, the number of episodes, their starts."""
    size, dropped, episodes = held.size, {}, None
    targets = held.get("next_state", np.full(size, None, dtype=object))
    lacking = is_missing(targets)
    alive = np.ones(size, dtype=np.bool_)
    starts = held["state"][:0]
    if "episode" in held:
        by_episode = Labels.of("episode", None, held["episode"], error=DataError)
        episodes = by_episode.size
        episode = held.indices("episode", by_episode)
        order = _in_time(episode, held, strict=bool(lacking.any()))
        same = episode[order[1:]] == episode[order[:-1]]
        starts = held["state"][order[np.flatnonzero(~np.append(False, same))]]
        if lacking.any():
            follower = np.full(size, -1, dtype=np.int64)  # the next row of the same episode
            follower[order[:-1][same]] = order[1:][same]
            targets = targets.astype(object)
            filled = lacking & (follower >= 0)
            targets[filled] = held["state"][follower[filled]]
            lacking &= ~filled
            marks = lacking & is_missing(held["action"])  # only say where an episode ended
            alive, lacking = alive & ~marks, lacking & ~marks
            if marks.any():
                dropped["which only say where an episode ended"] = int(marks.sum())
            if lacking.any() and end is None:
                dropped["at the end of an episode, without a next state"] = int(lacking.sum())
                alive, lacking = alive & ~lacking, lacking & False
    if lacking.any():
        if end is None:
            message = "next_state is missing; if the process ends there, name a terminal state for it: end='...'"
            raise held.fault(int(np.argmax(lacking)), message, "missing-value", column="next_state")
        targets = targets.astype(object)
        targets[lacking] = object_array([end])
    return targets, alive, dropped, episodes, starts


def _in_time(episode: IntArray, held: TableColumns, strict: bool) -> IntArray:
    """Return the rows by episode, and in each by its steps or else in their order; ``strict`` refuses bad steps."""
    if "step" in held:
        try:
            step = held.numbers("step")
        except DataError:
            if strict:
                raise
        else:
            order = np.lexsort((step, episode))
            twice = (np.diff(episode[order]) == 0) & (np.diff(step[order]) == 0.0)
            if strict and twice.any():
                row = int(order[1:][twice][0])
                message = f"step is {step[row]:g}, which this episode has already"
                raise held.fault(row, message, "duplicate-row", column="step", value=step[row])
            return order
    return np.argsort(episode, kind="stable")


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
    rows = {name: getattr(read, name)[~rests] for name in ("state", "action", "target", "times", "row")}
    groups = None if read.group is None else read.group[~rests]
    reward = None if read.reward is None else read.reward[~rests]
    return read._replace(**rows, reward=reward, group=groups, dropped=dropped)
