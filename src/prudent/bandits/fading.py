"""A half-life: how evidence fades with decisions or with time.

Evidence fades in steps of about 2%, a 32nd of a half-life (or one decision, if that is longer), not with every
decision: each step has all arms solved again. What was learned n steps ago weighs 2^(-n step / half-life).
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.checks import positive
from ..errors import ParameterError

__all__ = ["HalfLife", "seconds_of"]


_STEPS = 32  # of a half-life


@dataclass(frozen=True)
class HalfLife:
    """A half-life in ``"decisions"`` or in ``"seconds"``."""

    length: float
    unit: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", positive(self.length, "half_life"))
        if self.unit not in ("decisions", "seconds"):
            raise ParameterError(f"half_life is in decisions or in seconds, not in {self.unit!r}")

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


def seconds_of(time: Any) -> float:
    """Return a time, seconds or a date with time, as seconds since 1970."""
    if isinstance(time, np.datetime64):
        seconds = (time - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    elif isinstance(time, datetime.datetime):  # pandas' are such
        seconds = time.timestamp()
    else:
        try:
            seconds = math.nan if isinstance(time, (bool, str)) else float(time)
        except (TypeError, ValueError):
            seconds = math.nan
    if not abs(seconds) < 1e15:
        raise ParameterError(f"time must be seconds or a date with time, got {time!r}")
    return float(seconds)
