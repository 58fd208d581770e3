"""The rows of a log as indices: columns, episodes, names, terminal and absorbing states."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import BoolArray, FloatArray, IntArray
from ..data.labels import Column, Labels, Names, is_missing
from ..data.tables import Columns, has_names, read_columns, read_counts, read_numbers
from ..errors import DataError, ModelError, ParameterError
from ..models.base import plural, read_terminal

_LARGEST_REWARD = 1e140


class LogRows(NamedTuple):
    """The rows that count [M], as indices, and what was learned on the way."""

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
    held: Columns
    row: IntArray  # the row of the log
    rows: int
    dropped: dict[str, int]
    episodes: int | None
    starts: Column  # [episodes] the state of the first row of each, empty if there are none

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of states and actions."""
        return self.by_state.size, self.by_action.size


def read_log(
    log: Any, columns: Any, states: Names, actions: Names, terminal: Any, absorbing: Any, end: Hashable
) -> LogRows:
    """Read a log by the arguments of ``from_log``."""
    held = _columns(log, columns)
    rows = held.size
    if not rows:
        raise DataError(f"{held.table} has no rows")
    times = read_counts(held, error=DataError)
    times = np.ones(rows) if times is None else times
    targets, alive, dropped, episodes, starts = _next_states(held, end)
    reward = read_numbers(held, "reward", error=DataError, where=alive) if "reward" in held else None
    if reward is not None and (np.abs(reward) > _LARGEST_REWARD).any():
        worst = int(np.argmax(np.abs(reward) > _LARGEST_REWARD))
        raise DataError(f"{held.place(worst)}: reward is {reward[worst]}, too large to square")
    never = alive & (times == 0.0)
    if never.any():
        dropped["with a count of 0"] = int(never.sum())
        alive &= ~never
    row = np.flatnonzero(alive)
    if not row.size:
        raise DataError(f"{held.table} has {plural(rows, 'row')}, none of which can be used: {_why(dropped)}")
    where, moves, targets = held["state"][row], held["action"][row], targets[row]
    by_state = _labels("state", states, where, targets)
    by_action = _labels("action", actions, moves)
    told: dict[str, Any] = {"place": lambda i: held.place(int(row[i])), "error": DataError}
    s, a, t = (
        labels.encode(cells, what, **told)
        for what, labels, cells in (
            ("state", by_state, where),
            ("action", by_action, moves),
            ("next_state", by_state, targets),
        )
    )
    if held.from_text or isinstance(log, str | os.PathLike):  # from a command line names come as texts
        terminal, absorbing = (_as_written(given, by_state) for given in (terminal, absorbing))
    over, worth = read_terminal(_with_end(terminal, end if by_state.find(end) >= 0 else None), by_state)
    stays, earns = read_terminal(absorbing, by_state, "absorbing")
    both = over & stays
    if both.any():
        raise ParameterError(f"{by_state.show(int(np.argmax(both)))} cannot be terminal and absorbing at once")
    read = LogRows(
        s, a, t, times[row], None if reward is None else reward[row], by_state, by_action,
        over, worth, stays, earns, held, row, rows, dropped, episodes, starts,
    )  # fmt: skip
    return _without_rest(read)


def _columns(log: Any, columns: Any) -> Columns:
    told: dict[str, Any] = {"table": "log", "error": DataError, "columns": columns}
    if not has_names(log):
        return read_columns(log, ("state", "action", "next_state"), ("reward", "count"), **told)
    named = ("next_state", "reward", "count", "episode", "step")
    held = read_columns(log, ("state", "action"), named=named, **told)
    if "next_state" not in held and "episode" not in held:
        known = [*held.used.values(), *held.ignored]
        raise DataError(
            f"{held.table} has no column 'next_state', and none of episodes whose rows follow each other; its columns "
            f"are {known}; if one of them is called otherwise: columns={{'next_state': ...}}"
        )
    return held


def _labels(what: str, given: Names, *columns: Column) -> Labels:
    try:
        if given is None:
            return Labels.learn(what, *columns)
        names = tuple(given)
        return Labels(what, names, len(names))
    except ModelError as fault:
        raise DataError(str(fault)) from None


def _next_states(held: Columns, end: Hashable) -> tuple[Column, BoolArray, dict[str, int], int | None, Column]:
    """Return each row's next state, which rows are transitions, why others are none, the episodes and their starts."""
    size, dropped, episodes = held.size, {}, None
    targets = held.get("next_state", np.full(size, None, dtype=object))
    lacking = is_missing(targets)
    alive = np.ones(size, dtype=np.bool_)
    starts = held["state"][:0]
    if "episode" in held:
        by_episode = _labels("episode", None, held["episode"])
        episodes = by_episode.size
        episode = by_episode.encode(held["episode"], "episode", place=held.place, error=DataError)
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
            row = int(np.argmax(lacking))
            raise DataError(
                f"{held.place(row)}: next_state is missing; if the process ends there, name a terminal state for it: "
                "end='...'"
            )
        targets = targets.astype(object)
        cells = np.empty(1, dtype=object)
        cells[0] = end
        targets[lacking] = cells
    return targets, alive, dropped, episodes, starts


def _in_time(episode: IntArray, held: Columns, strict: bool) -> IntArray:
    """Return the rows by episode, and in each by its steps or else as they stand; steps must be good if ``strict``."""
    if "step" in held:
        try:
            step = read_numbers(held, "step", error=DataError)
        except DataError:
            if strict:
                raise
        else:
            order = np.lexsort((step, episode))
            twice = (np.diff(episode[order]) == 0) & (np.diff(step[order]) == 0.0)
            if strict and twice.any():
                row = int(order[1:][twice][0])
                raise DataError(f"{held.place(row)}: step is {step[row]:g}, which this episode has already")
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
    """Refuse rows that start in a terminal state, and drop those that say that an absorbing state absorbs."""
    ended = read.terminal[read.state]
    if ended.any():
        i = int(np.argmax(ended))
        state, target = (read.by_state.show(int(x[i])) for x in (read.state, read.target))
        raise DataError(
            f"{read.held.place(int(read.row[i]))}: {state} is declared terminal, but this row goes on to {target}; "
            f"leave out such rows ({int(ended.sum()):,} here), or declare it absorbing if the process stays there"
        )
    rests = read.absorbing[read.state]
    if not rests.any():
        return read
    leaves = rests & (read.target != read.state)
    if read.reward is not None:
        odd = rests & ~leaves & (read.reward != read.absorbing_reward[read.state])
        if odd.any():
            i = int(np.argmax(odd))
            state, declared = read.by_state.show(int(read.state[i])), read.absorbing_reward[read.state[i]]
            raise DataError(
                f"{read.held.place(int(read.row[i]))}: reward is {read.reward[i]:g}, but a step in the absorbing "
                f"{state} earns {declared:g}; absorbing={{state: reward}} says what it earns"
            )
    if leaves.any():
        i = int(np.argmax(leaves))
        state, target = (read.by_state.show(int(x[i])) for x in (read.state, read.target))
        raise DataError(
            f"{read.held.place(int(read.row[i]))}: {state} is declared absorbing, but this row goes on to {target}"
        )
    return _chosen(read, ~rests, "that stay in an absorbing state")


def _chosen(read: LogRows, which: BoolArray, why: str) -> LogRows:
    """Return the rows for which ``which`` [M] is True; the others are dropped for a reason."""
    lost = int(np.count_nonzero(~which))
    if not lost:
        return read
    dropped = read.dropped | {why: lost}
    if lost == which.size:
        raise DataError(f"{read.held.table} has {plural(read.rows, 'row')}, none of which can be used: {_why(dropped)}")
    rows = {name: getattr(read, name)[which] for name in ("state", "action", "target", "times", "row")}
    return read._replace(**rows, reward=None if read.reward is None else read.reward[which], dropped=dropped)


def _why(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {why}" for why, n in dropped.items())


def names_of(labels: Labels) -> Any:
    """Return the names, or the numbers where there are none."""
    return labels.names if labels.names is not None else range(labels.size)
