"""Which row of a log follows which: episodes, gaps in their steps, how long transitions take, and where it ends.

Rows follow each other at distances in the column ``step`` (or ``time``). The unit is the most frequent distance. Where
a next state is missing it is the state of the next row of the episode, which is right if that row is one unit later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.checks import one_of
from ..errors import DataError, PrudentError
from ..types import BoolArray, FloatArray, IntArray
from .columns import TableColumns
from .labels import Column, Labels, cell, is_missing, object_array
from .state_rules import plain_label

GAPS = ("error", "cut", "fill", "duration")
_EVEN = 1e-6  # relative difference of two distances that are the same
_SPANS = (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))
_FALSE = frozenset({"", "false", "f", "no", "n", "0", "0.0", "none", "nan"})
_TRUE = frozenset({"true", "t", "yes", "y", "1", "1.0"})


class Passage(NamedTuple):
    """How much time passes from each row [M] to the next one of its episode."""

    units: FloatArray  # [M] in units; 1 where there is no next row, or no step
    unit: float  # the most frequent distance
    uneven: BoolArray  # [M] rows after which another time passes than one unit

    @classmethod
    def of(cls, step: FloatArray | None, follower: IntArray) -> Passage:
        """Return the times by the steps of rows; ``follower`` [M] is the next row, or -1."""
        units, before = np.ones(follower.size), np.flatnonzero(follower >= 0)
        if step is None or not before.size:
            return cls(units, 1.0, np.zeros(follower.size, dtype=np.bool_))
        apart = step[follower[before]] - step[before]
        rounded = np.round(apart / max(float(apart.max()), np.finfo(np.float64).tiny), 9)
        apart_rounded = rounded[apart > 0.0]
        values, times = np.unique(apart_rounded, return_counts=True)
        unit = 1.0 if not values.size else float(apart[apart > 0.0][apart_rounded == values[np.argmax(times)]][0])
        units[before] = apart / unit
        return cls(units, unit, abs(units - 1.0) > _EVEN)

    def durations(self, held: TableColumns, follower: IntArray) -> FloatArray:
        """Return the times [M] as durations, whole where they nearly are; refuse rows that come too early."""
        whole = np.round(self.units)
        duration = np.where(abs(self.units - whole) < _EVEN, whole, self.units)
        short = np.isin(np.arange(follower.size), follower[(duration < 1.0) & (follower >= 0)])
        least = f"at least {self.unit:g} after the row before it, the usual distance and the unit of durations"
        held.refuse(short, "step", least, "gap")
        return duration

    def waits(self, held: TableColumns, follower: IntArray, jumps: BoolArray) -> FloatArray:
        """Return how many steps are missing after each row [M] of ``jumps``; refuse what is no multiple of a step."""
        waits = np.where(jumps, np.round(self.units) - 1.0, 0.0)
        broken = jumps & ((abs(self.units - np.round(self.units)) > _EVEN) | (waits < 0.0))
        unit = f"a multiple of {self.unit:g} after the row before it, for gaps='fill'"
        held.refuse(np.isin(np.arange(follower.size), follower[broken]), "step", unit, "gap")
        return waits


def _span(seconds: float) -> str:
    """Return a time in the largest unit of which it is at least one."""
    name, unit = next((each for each in _SPANS if seconds >= each[1]), ("second", 1.0))
    count = f"{seconds / unit:g}"
    return f"{count} {name}" if count == "1" else f"{count} {name}s"


def gap_error(held: TableColumns, row: int, follower: int, passage: Passage) -> PrudentError:
    """Return the error about the first row after which time jumps."""
    name, steps, unit = held.used.get("step", "step"), held["step"], passage.unit
    episode, dated = cell(held["episode"], row), held.has_dates("step")
    places = [cell(steps, row), cell(steps, follower)]
    apart = f"and elsewhere by {unit:g}"
    if dated:
        apart = f"which is {_span(passage.units[row] * unit)}, and elsewhere {_span(unit)}"
    else:
        places = [f"{place:g}" for place in held.numbers("step")[[row, follower]]]
    message = (
        f"{name} goes from {places[0]} to {places[1]} in episode {episode!r}, {apart}, and "
        "the next state is that of the next row; say what the jump means: gaps='cut' ends the episode there, "
        "gaps='fill' repeats the row with the state unchanged until then, gaps='duration' makes it one transition that "
        "takes so long (its discount is discount ** duration), and duration='COLUMN' reads how long each takes"
    )
    return held.fault(row, message, "gap", column="step", value=float(passage.units[row] * unit), expected=unit)


def read_durations(held: TableColumns, alive: BoolArray) -> FloatArray:
    """Return the column ``duration``, in which no transition is shorter than the unit of time."""
    durations = held.numbers("duration", where=alive)
    held.refuse(alive & (durations <= 0.0), "duration", "a time above 0", "value-range")
    short = alive & (durations < 1.0)
    if short.any():
        least = float(durations[alive].min())
        expected = (
            f"at least 1, the time that discount is for; in a smaller unit of time: durations divided by {least:g}, "
            f"and discount ** {least:g}"
        )
        raise held.wrong_cell(int(np.argmax(short)), "duration", expected, "value-range")
    return np.where(alive, durations, 1.0)


def require_steps(held: TableColumns, step: FloatArray | None, gaps: str) -> None:
    """Raise if there are no steps that could have gaps."""
    if step is None:
        message = f"gaps={gaps!r} needs numbers or dates in a column step (or time), and a column episode"
        raise DataError(message, code="missing-column", argument="gaps", column="step")


# -- what follows a row ------------------------------------------------------------------------------------


class Episodes(NamedTuple):
    """The episode of each row [M] of a log, and the order of its rows in time.

    Attributes
    ----------
    labels : Labels
        Names of the episodes.
    code : int64 [M]
        Number of the episode of each row.
    order : int64 [M]
        Rows by episode, and in each by time.
    place : int64 [M]
        Place of each row in its episode.
    step : float64 [M] or None
        The times, if the log has some.
    """

    labels: Labels
    code: IntArray
    order: IntArray
    place: IntArray
    step: FloatArray | None

    @classmethod
    def of(cls, held: TableColumns, strict: bool) -> Episodes | None:
        """Return the episodes of a log that has some; ``strict`` refuses times that do not order the rows."""
        if "episode" not in held:
            return None
        labels = Labels.of("episode", None, held["episode"], error=DataError)
        code = held.indices("episode", labels)
        order, step = _in_time(code, held, strict)
        first = np.append(True, code[order[1:]] != code[order[:-1]]) if order.size else np.zeros(0, dtype=np.bool_)
        place = np.empty(code.size, dtype=np.int64)
        place[order] = np.arange(code.size) - np.maximum.accumulate(np.where(first, np.arange(code.size), 0))
        return cls(labels, code, order, place, step)

    @property
    def first(self) -> IntArray:
        """The first row of each episode."""
        return self.order[self.place[self.order] == 0]

    @property
    def follower(self) -> IntArray:
        """The next row of the same episode [M], -1 where there is none."""
        follower = np.full(self.code.size, -1, dtype=np.int64)
        same = self.code[self.order[1:]] == self.code[self.order[:-1]]
        follower[self.order[:-1][same]] = self.order[1:][same]
        return follower


class Flow(NamedTuple):
    """What follows each row [M] of a log.

    Attributes
    ----------
    follower : int64 [M]
        The next row of the same episode, -1 where there is none, the process ended, or the episode is cut.
    given : bool [M]
        Rows whose own columns say what followed.
    ended : object [M]
        Label of the terminal outcome after the row, None where the process goes on.
    alive : bool [M]
        Rows that are transitions: it is known what followed.
    waits : float64 [M]
        How often the row is repeated, its state unchanged, before what follows.
    duration : float64 [M] or None
        How long each transition takes; None if one unit each.
    episodes : Episodes or None
        Episodes and the order of rows.
    dropped : dict of str to int
        Why other rows are no transitions, and how many.
    notes : tuple of str
        Remarks for a summary.
    """

    follower: IntArray
    given: BoolArray
    ended: Column
    alive: BoolArray
    waits: FloatArray
    duration: FloatArray | None
    episodes: Episodes | None
    dropped: dict[str, int]
    notes: tuple[str, ...]

    @property
    def over(self) -> BoolArray:
        """Rows after which the process ended."""
        return np.array([label is not None for label in self.ended.tolist()], dtype=np.bool_)

    @property
    def leads(self) -> IntArray:
        """The row [M] whose state is the next state; -1 where a column or an outcome says what followed."""
        return np.where(self.given, -1, self.follower)


def flow_of(held: TableColumns, given: BoolArray | None = None, end: Any = None, gaps: str = "error") -> Flow:
    """Return what follows each row: the one place that decides which row follows which.

    Parameters
    ----------
    held : TableColumns
        The columns of a log: perhaps action, episode, step, done, duration.
    given : bool [M], optional
        Rows whose own columns say what followed.
    end : hashable, optional
        Label of the outcome of rows after which nothing is known, and of flags of the column done.
    gaps : str, default="error"
        What uneven steps mean, as for ``from_log``.

    Returns
    -------
    Flow
        What follows each row.
    """
    one_of(gaps, "gaps", GAPS)
    size = held.size
    given = np.zeros(size, dtype=np.bool_) if given is None else given
    lives = Episodes.of(held, strict=gaps != "error" or not bool(given.all()))
    follower = np.full(size, -1, dtype=np.int64) if lives is None else lives.follower
    actless = is_missing(held["action"]) if "action" in held else np.zeros(size, dtype=np.bool_)
    ended = _moved_back(outcomes_of(held, end), follower, actless)
    over = np.array([label is not None for label in ended.tolist()], dtype=np.bool_)
    follower[over] = -1
    lacking = ~given & ~over
    alive, waits, cut = np.ones(size, dtype=np.bool_), np.zeros(size), np.zeros(size, dtype=np.bool_)
    dropped: dict[str, int] = {}
    notes: list[str] = []
    duration = None
    step = None if lives is None else lives.step
    if gaps != "error":
        require_steps(held, step, gaps)
    if lives is not None and step is not None:
        passage, filled = Passage.of(step, follower), lacking & (follower >= 0)
        if gaps == "duration":
            duration = passage.durations(held, follower)
            longest = float(duration[follower >= 0].max(initial=1.0))
            notes.append(f"durations by {held.used.get('step', 'step')}: 1 to {longest:.4g} steps")
        jumps = passage.uneven & filled
        if "duration" in held:  # which may be the time to the next row
            jumps &= abs(passage.units * passage.unit - held.numbers("duration", where=filled)) > 1e-6 * passage.unit
        if jumps.any() and gaps == "error":
            row = int(lives.order[np.argmax(jumps[lives.order])])
            raise gap_error(held, row, int(follower[row]), passage)
        if jumps.any() and gaps == "cut":
            cut = jumps
        if jumps.any() and gaps == "fill":
            waits = passage.waits(held, follower, jumps)
            notes.append(f"{int(waits.sum()):,} missing steps filled: state, action and reward as before")
        if not jumps.any() and gaps == "error" and "duration" not in held and passage.uneven.any():
            apart = passage.units[passage.uneven] * passage.unit
            notes.append(
                f"{held.used.get('step', 'step')} is not even: rows are {min(passage.unit, apart.min()):g} to "
                f"{apart.max():g} apart, and each counts as one step; gaps='duration' or duration= would read the times"
            )
    lacking &= follower < 0
    if cut.any():
        dropped["before a gap in step"] = int(cut.sum())
        follower[cut], alive[cut] = -1, False
    marks = lacking & actless  # only say where an episode ended
    if marks.any() and lives is not None:
        dropped["which only say where an episode ended"] = int(marks.sum())
        alive, lacking = alive & ~marks, lacking & ~marks
    if lacking.any() and end is None:
        why = "without a next state" if lives is None else "at the end of an episode, without a next state"
        dropped[why] = int(lacking.sum())
        alive &= ~lacking
    elif lacking.any():
        ended[lacking] = object_array([end])
    if "duration" in held:
        duration = read_durations(held, alive)
    return Flow(follower, given, ended, alive, waits, duration, lives, dropped, tuple(notes))


def _moved_back(ended: Column, follower: IntArray, actless: BoolArray) -> Column:
    """Return outcomes with those of rows without an action moved to the row before, since they say where it led."""
    over = np.array([label is not None for label in ended.tolist()], dtype=np.bool_)
    marks = np.flatnonzero(over & actless)
    if not marks.size:
        return ended
    before = np.full(ended.size, -1, dtype=np.int64)
    linked = np.flatnonzero(follower >= 0)
    before[follower[linked]] = linked
    arrivals, moved = before[marks], ended.copy()
    moved[arrivals[arrivals >= 0]] = ended[marks[arrivals >= 0]]
    moved[marks] = None
    return moved


def _in_time(episode: IntArray, held: TableColumns, strict: bool) -> tuple[IntArray, FloatArray | None]:
    """Return the rows by episode, in each by its steps or else in their order, and the steps if they are times."""
    if "step" in held:
        try:
            step = held.times("step")
        except DataError:
            if strict:
                raise
        else:
            order = np.lexsort((step, episode))
            twice = (np.diff(episode[order]) == 0) & (np.diff(step[order]) == 0.0)
            if strict and twice.any():
                row = int(order[1:][twice][0])
                shown, which = cell(held["step"], row), cell(held["episode"], row)
                message = (
                    f"step is {shown}, which episode {which!r} has already ({int(twice.sum()):,} such rows); a time "
                    "may occur once in an episode: leave out rows that are there twice, or give a finer time"
                )
                raise held.fault(row, message, "duplicate-row", column="step", value=shown)
            return order, step
    return np.argsort(episode, kind="stable"), None


def outcomes_of(held: TableColumns, end: Any = None) -> Column:
    """Return the terminal outcome after each row: None, ``end`` (or "end") for a flag, or the label of the flag."""
    if "done" not in held:
        return np.full(held.size, None, dtype=object)
    flags = {value: _outcome(value, "end" if end is None else end) for value in set(held["done"].tolist())}
    return object_array([flags[value] for value in held["done"].tolist()])


def _outcome(value: Any, end: Any) -> Any:
    if value is None or value != value:
        return None
    text = str(value).strip()
    if text.lower() in _FALSE:
        return None
    return end if text.lower() in _TRUE else plain_label(value)
