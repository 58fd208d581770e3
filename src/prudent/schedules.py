"""Risk levels that change: with the episode, and with how often a source was observed.

An agent that never changes its level pays for it in the end: caution keeps it from what it knows little of, so it never
learns that it was good. A schedule lets the level go from caution to neutrality, or to optimism, as time and data come
in. At each level the draw rule holds, n = ceil(1 / (1 - |level|)): CVaR is the lowest draw, or a mixture of the two
lowest where 1 / (1 - |level|) is not whole. So a level that tends to zero without ever being it ends in the mean of two
draws, which explores half as much as Thompson sampling, in terms of variance; at zero it is Thompson sampling.

The *visits* of a pair (s, a) are the observations of its source: those of the pair itself where every pair has a source
of its own, and those of all pairs that share it where they do. They say how much is known.

**What is ours.** That caution suits the beginning, where nothing is known, and curiosity about the less visited what
comes after is the idea of Song, Wang and Zhou, arXiv 2605.24345, of which we had the abstract and not the text. All
else here is ours and not theirs: the schedules and their parameters, the draw rule at each level, the level of what is
unseen, schedules of bandits. How they do on Frozen Lake and RiverSwim, with intervals, is the study ``schedules`` of
``prudent reproduce``: our claims, kept apart from the paper's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._support.checks import FloatArray, IntArray, positive, risk_level
from ._support.state import LARGEST_COUNT
from .errors import ParameterError

__all__ = [
    "Decay",
    "Falling",
    "FunctionSchedule",
    "Schedule",
]

MOST_DRAWS = 1000  # of a schedule, at levels 0.999 and -0.999


class Schedule(ABC):
    """A risk level for each episode = 0, 1, ... and number of visits = 0, 1, ..."""

    @abstractmethod
    def level(self, episode: Any, visits: Any = 0) -> FloatArray:
        """Return the levels at these episodes and visits, which broadcast."""

    def at(self, t: int) -> float:
        """Return the level of a bandit at decision ``t`` = 1, 2, ..., which is episode t - 1.

        It is rounded to one of the form 1 - 1/n, at which a score is the lowest of n draws, or the highest.
        """
        n = self.draws(t)
        return 0.0 if n == 1 else math.copysign(1.0 - 1.0 / n, float(self.level(t - 1)))

    def draws(self, t: int) -> int:
        """Return the number n of draws of a bandit at decision ``t`` = 1, 2, ..."""
        return max(1, round(1.0 / max(1.0 - abs(float(self.level(t - 1))), 1.0 / LARGEST_COUNT)))

    def signed_draws(self, t: int) -> int:
        """Return the draws of a bandit at decision ``t``, below zero where the highest count."""
        return -self.draws(t) if self.at(t) < 0.0 else self.draws(t)

    def rule(self, episode: Any, visits: Any = 0) -> tuple[IntArray, FloatArray]:
        """Return the number of draws of an agent, and the share of the lowest of them; the next one has the rest.

        Where the level is negative it is minus the number of draws, and the share is that of the highest.

        >>> Falling(0.9, scale=5).rule([0, 5, 100])
        (array([10,  2,  2]), array([1.    , 0.9091, 0.5224]))
        """
        level = np.asarray(self.level(np.asarray(episode), np.asarray(visits)), dtype=np.float64)
        tail = np.maximum(1.0 - abs(level), 1.0 / MOST_DRAWS)
        whole = np.rint(1.0 / tail)
        exact = abs(whole * tail - 1.0) <= whole * 2.0**-52  # as in prudent.risk
        n = np.where(exact, whole, np.ceil(1.0 / tail))
        share = np.where(exact, 1.0, np.minimum(1.0 / (n * tail), 1.0))
        return np.where(level < 0.0, -n, n).astype(np.int64), share

    @property
    def most_draws(self) -> int:
        """The most draws that a level asks for."""
        return MOST_DRAWS

    @property
    def label(self) -> str:
        """How it is called in a plot."""
        return repr(self)


@dataclass(frozen=True)
class Decay(Schedule):
    """A level that falls with the episode, or the decision of a bandit: half of ``start`` after ``half``, and on.

    Levels of a bandit are rounded to those of the form 1 - 1/n, at which a score is the lowest of n draws: 0.9, 0.889,
    ... 0.5, 0. The first decision is t = 1.

    >>> level = Decay(0.9, half=1000)
    >>> [round(level.at(t), 3) for t in (1, 1001, 2001, 5001)]
    [0.9, 0.5, 0.0, 0.0]
    """

    start: float
    half: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", risk_level(self.start, "start"))
        object.__setattr__(self, "half", positive(self.half, "half"))

    def level(self, episode: Any, visits: Any = 0) -> FloatArray:  # noqa: D102
        level, _ = np.broadcast_arrays(self.start * 0.5 ** (np.asarray(episode) / self.half), visits)
        return level.copy()

    def draws(self, t: int) -> int:  # noqa: D102  # without arrays: bandits ask at every decision
        return max(1, round(1.0 / (1.0 - abs(self.start) * 0.5 ** ((t - 1) / self.half))))

    def signed_draws(self, t: int) -> int:  # noqa: D102
        return -n if (n := self.draws(t)) > 1 and self.start < 0.0 else n

    @property
    def most_draws(self) -> int:  # noqa: D102
        return int(abs(self.rule(0)[0]))

    @property
    def label(self) -> str:  # noqa: D102
        return f"{self.start:g}, halving"


@dataclass(frozen=True)
class Falling(Schedule):
    """The level ``start`` / (1 + episode / ``scale``): half of it after ``scale`` episodes, and on.

    ``unseen`` is another level, for what was never observed: 0, neutrality, or one below zero, curiosity. Caution about
    what nobody has tried is what keeps an agent from trying it; caution about what was seen to go wrong is what pays in
    the first episodes.

    >>> Falling(0.9, scale=5).level([0, 5, 45]).round(3)
    array([0.9 , 0.45, 0.09])
    >>> Falling(0.9, scale=5, unseen=0).level(0, [0, 1, 2])
    array([0. , 0.9, 0.9])
    """

    start: float
    scale: float
    unseen: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", risk_level(self.start, "start"))
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if self.unseen is not None:
            object.__setattr__(self, "unseen", risk_level(self.unseen, "unseen"))

    def level(self, episode: Any, visits: Any = 0) -> FloatArray:  # noqa: D102
        level, seen = np.broadcast_arrays(self.start / (1.0 + np.asarray(episode) / self.scale), visits)
        return level.copy() if self.unseen is None else np.where(seen > 0, level, self.unseen)

    @property
    def most_draws(self) -> int:  # noqa: D102
        return int(abs(self.rule(0, [0, 1])[0]).max())

    @property
    def label(self) -> str:  # noqa: D102
        return f"{self.start:g}, falling" + ("" if self.unseen is None else f", {self.unseen:g} unseen")


@dataclass(frozen=True)
class FunctionSchedule(Schedule):
    """The level that a function of (episode, visits) returns; one that takes arrays is called once for many of them.

    >>> FunctionSchedule(lambda episode, visits: 0.9 if visits < 3 else 0.0).level(0, [0, 3])
    array([0.9, 0. ])
    """

    function: Callable[[Any, Any], Any]

    def level(self, episode: Any, visits: Any = 0) -> FloatArray:  # noqa: D102
        episode, visits = np.broadcast_arrays(episode, visits)
        try:
            levels = np.asarray(self.function(episode, visits), dtype=np.float64)
            whole = levels.shape == episode.shape
        except Exception:  # whatever a function of numbers says to arrays
            whole = False
        if not whole:
            pairs = zip(episode.reshape(-1).tolist(), visits.reshape(-1).tolist(), strict=True)
            levels = np.array([self._at(e, v) for e, v in pairs], dtype=np.float64).reshape(episode.shape)
        wrong = ~(abs(levels) < 1.0)
        if wrong.any():
            e, v = episode[wrong][0], visits[wrong][0]
            raise ParameterError(
                f"alpha must return levels in (-1, 1), got {levels[wrong][0]} at episode {e} and {v} visits"
            )
        return levels

    def _at(self, episode: int, visits: int) -> float:
        value = self.function(episode, visits)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ParameterError(f"alpha({episode}, {visits}) must be a level in (-1, 1), got {value!r}") from None

    @property
    def label(self) -> str:  # noqa: D102
        return getattr(self.function, "__name__", "function").replace("<lambda>", "function")


def schedule_of(alpha: Any) -> Schedule | None:
    """Return a schedule for what a caller wrote as a level, or None if it is no schedule."""
    if isinstance(alpha, Schedule):
        return alpha
    return FunctionSchedule(alpha) if callable(alpha) else None


NAMED: dict[str, type[Schedule]] = {each.__name__: each for each in (Decay, Falling)}
"""The schedules that a state file can hold."""


def saved_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return the fields of a schedule, for :func:`named_schedule`."""
    if type(schedule) not in NAMED.values():
        raise ParameterError(f"{schedule!r} cannot be saved: only named schedules, {', '.join(NAMED)}, can")
    return {name: getattr(schedule, name) for name in schedule.__dataclass_fields__}  # type: ignore[attr-defined]


def named_schedule(values: dict[str, Any]) -> Schedule:
    """Return the schedule with these fields, as a state file has them."""
    kind = Falling if "scale" in values else Decay
    return kind(**values)
