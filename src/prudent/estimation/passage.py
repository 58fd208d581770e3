"""Time between the rows of an episode: gaps in its steps, and how long transitions take.

Rows follow each other at distances in the column ``step`` (or ``time``). The unit is the most frequent distance. Where
a next state is missing it is the state of the next row of the episode, which is right if that row is one unit later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.columns import TableColumns
from ..data.labels import cell
from ..errors import DataError, PrudentError
from ..types import BoolArray, FloatArray, IntArray

GAPS = ("error", "cut", "fill", "duration")
_EVEN = 1e-6  # relative difference of two distances that are the same


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
        values, times = np.unique(rounded[apart > 0.0], return_counts=True)
        unit = 1.0 if not values.size else float(apart[rounded == values[np.argmax(times)]][0])
        units[before] = apart / unit
        return cls(units, unit, abs(units - 1.0) > _EVEN)


def gap_error(held: TableColumns, step: FloatArray, row: int, follower: int, unit: float) -> PrudentError:
    """Return the error about the first row after which time jumps."""
    name = held.used.get("step", "step")
    episode = cell(held["episode"], row)
    message = (
        f"{name} goes from {step[row]:g} to {step[follower]:g} in episode {episode!r} and elsewhere by {unit:g}, and "
        "the next state is that of the next row; say what the jump means: gaps='cut' ends the episode there, "
        "gaps='fill' repeats the row with the state unchanged until then, gaps='duration' makes it one transition that "
        "takes so long (its discount is discount ** duration), and duration='COLUMN' reads how long each takes"
    )
    return held.fault(row, message, "gap", column="step", value=float(step[follower] - step[row]), expected=unit)


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
        message = f"gaps={gaps!r} needs numbers in a column step (or time) and a column episode"
        raise DataError(message, code="missing-column", argument="gaps", column="step")
