"""A half-life: how evidence fades with decisions or with time.

Evidence fades in steps of about 2%, a 32nd of a half-life (or one decision, if that is longer), not with every
decision: each step has all arms solved again. What was learned n steps ago weighs 2^(-n step / half-life).
"""

from __future__ import annotations

import datetime
import math
import time as clocks
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._support.checks import FloatArray, one_of, positive, require_length
from ..errors import ParameterError

TimeLike: TypeAlias = float | datetime.datetime | np.datetime64 | None
"""Time: seconds since 1970 or a date with time; None is now."""


_STEPS = 32  # of a half-life


@dataclass(frozen=True)
class HalfLife:
    """A half-life in ``"decisions"`` or in ``"seconds"``."""

    length: float
    unit: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", positive(self.length, "half_life"))
        one_of(self.unit, "unit", ("decisions", "seconds"))

    @classmethod
    def of(cls, value: Any) -> HalfLife | None:
        """Return what a user gave: None, a number of decisions, or a time difference."""
        if value is None or isinstance(value, HalfLife):
            return value
        if isinstance(value, np.timedelta64):
            return cls(value / np.timedelta64(1, "s"), "seconds")
        if isinstance(value, datetime.timedelta):  # pandas' are such
            return cls(value.total_seconds(), "seconds")
        return cls(positive(value, "half_life"), "decisions")

    @property
    def step(self) -> float:
        """How long evidence keeps its weight."""
        return max(1.0, self.length // _STEPS) if self.unit == "decisions" else self.length / _STEPS

    def tick(self, clock: float) -> int:
        """Return the number of the step at a clock of decisions or of seconds."""
        return math.floor(clock / self.step)

    def factor(self, ticks: int) -> float:
        """Return what is left of evidence after so many steps."""
        return float(0.5 ** (ticks * self.step / self.length)) if ticks > 0 else 1.0


HalfLifeLike: TypeAlias = float | datetime.timedelta | np.timedelta64 | HalfLife | None
"""Half-life of evidence: a number of decisions, or a time difference."""


@dataclass
class Drift:
    """A half-life, and the step up to which evidence has faded; None before the first.

    While it is ``held``, only ``to`` moves it: decisions and rewards do not. Rewards enter as faded as they are old.
    """

    half: HalfLife
    tick: int | None = None
    held: bool = False

    def move(self, decisions: int, time: Any) -> float:
        """Go on to ``time``, by default now, or to a number of decisions; return what is left of evidence."""
        return 1.0 if self.held else self.to(self.due(decisions, time))

    def due(self, decisions: int, time: Any) -> int:
        """Return the step of a time, by default now, or of a number of decisions."""
        return self.half.tick(self._clock(decisions, time))

    def weights(self, decisions: int, time: Any, rows: int) -> tuple[float, FloatArray]:
        """Go on to the latest of ``time``, one or [T]; return what is left, and the weights [T] of rewards so old."""
        if self.half.unit == "decisions" or np.ndim(time) == 0:
            times = [self._clock(decisions, time)]
        else:
            times = [seconds_of(each) for each in time]
            require_length(times, "time", rows, "reward")
        ticks = [self.half.tick(each) for each in times]
        if self.held and self.half.unit == "decisions":
            return 1.0, np.ones(rows)
        left = 1.0 if self.held else self.to(max(ticks, default=0))
        now = self.tick or 0
        return left, np.broadcast_to([self.half.factor(now - tick) for tick in ticks], rows).copy()

    def _clock(self, decisions: int, time: Any) -> float:
        if self.half.unit == "decisions":
            return float(decisions)
        return clocks.time() if time is None else seconds_of(time)

    def to(self, tick: int) -> float:
        """Go on to a step; return what is left of evidence."""
        before = tick if self.tick is None else self.tick
        self.tick = max(tick, before)
        return self.half.factor(tick - before)


def seconds_of(time: Any, name: str = "time") -> float:
    """Return a time, seconds or a date with time, as seconds since 1970."""
    if isinstance(time, np.datetime64):
        seconds = (time - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    elif isinstance(time, datetime.datetime):  # pandas' are such
        seconds = time.timestamp()
    else:
        try:
            seconds = math.nan if isinstance(time, (bool, str)) else float(time)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
    if not abs(seconds) < 1e15:
        message = f"{name} must be seconds or a date with time, got {time!r}"
        raise ParameterError(message, code="not-a-time", argument=name, value=time)
    return float(seconds)
