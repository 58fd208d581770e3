"""Risk levels that change: with the episode, and with how often a source was observed.

An agent with a fixed high level avoids actions that it knows little of, so it never learns that they are good. A
schedule moves the level from caution to neutrality, or to optimism, as time passes and data comes in. At each level
the draw rule holds, n = ceil(1 / (1 - |level|)): CVaR is the lowest draw, or a mixture of the two lowest where
1 / (1 - |level|) is not whole. So a level that tends to zero without reaching it ends in the mean of two draws, which
has half the variance of Thompson sampling; at level zero it is Thompson sampling.

The *visits* of a pair (s, a) are the observations of its source: those of the pair itself where every pair has a source
of its own, and those of all pairs that share it where they do.

**Source.** Caution at the beginning and curiosity about less visited pairs later is the idea of Song, Wang and Zhou,
arXiv 2605.24345, of which only the abstract was available. The schedules and their parameters, the draw rule at each
level, the level of unseen pairs and the schedules of bandits are our own. The study ``schedules`` of ``prudent
reproduce`` measures them on Frozen Lake and RiverSwim; its claims are kept apart from the paper's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._support.checks import positive, risk_level
from ._support.state import LARGEST_COUNT
from .errors import ParameterError
from .types import ArrayLike, FloatArray, IntArray

__all__ = [
    "Decay",
    "Falling",
    "FunctionSchedule",
    "Schedule",
]

MOST_DRAWS = 1000  # largest number of draws of a schedule, at levels 0.999 and -0.999


class Schedule(ABC):
    """Base class of schedules: a risk level for each episode and number of visits.

    A subclass defines ``level``.

    Examples
    --------
    >>> class Cautious(Schedule):
    ...     def level(self, episode, visits=0):
    ...         return np.where(np.asarray(visits) < 10, 0.5, 0.0)
    >>> Cautious().level(0, [0, 20])
    array([0.5, 0. ])
    """

    @abstractmethod
    def level(self, episode: ArrayLike, visits: ArrayLike = 0) -> FloatArray:
        """Return the risk levels at episodes and visits.

        Parameters
        ----------
        episode : array_like of int
            Episodes, counted from 0.
        visits : array_like of int, default=0
            Observations of the source of a pair. It broadcasts against `episode`.

        Returns
        -------
        ndarray of float
            Levels in (-1, 1).
        """

    def at(self, t: int) -> float:
        """Return the level of a bandit at a decision.

        It is rounded to a level of the form 1 - 1/n, at which a score is the lowest of n draws, or the highest.

        Parameters
        ----------
        t : int
            Decision, counted from 1. Decision t is episode t - 1 of ``level``.

        Returns
        -------
        float
            Level in (-1, 1).
        """
        n = self.draws(t)
        return 0.0 if n == 1 else math.copysign(1.0 - 1.0 / n, float(self.level(t - 1)))

    def draws(self, t: int) -> int:
        """Return the number of draws of a bandit at a decision.

        Parameters
        ----------
        t : int
            Decision, counted from 1.

        Returns
        -------
        int
            Number n of draws, at least 1.
        """
        return max(1, round(1.0 / max(1.0 - abs(float(self.level(t - 1))), 1.0 / LARGEST_COUNT)))

    def signed_draws(self, t: int) -> int:
        """Return the number of draws of a bandit at a decision, negative where the highest draw counts.

        Parameters
        ----------
        t : int
            Decision, counted from 1.

        Returns
        -------
        int
            Number of draws, or minus that number at a negative level.
        """
        return -self.draws(t) if self.at(t) < 0.0 else self.draws(t)

    def rule(self, episode: ArrayLike, visits: ArrayLike = 0) -> tuple[IntArray, FloatArray]:
        """Return the draw rule of an agent: numbers of draws and weights of the lowest draw.

        The second lowest draw has the rest of the weight.

        Parameters
        ----------
        episode : array_like of int
            Episodes, counted from 0.
        visits : array_like of int, default=0
            Observations of the source of a pair. It broadcasts against `episode`.

        Returns
        -------
        draws : ndarray of int
            Number of draws, or minus that number where the level is negative.
        share : ndarray of float
            Weight of the lowest draw, or of the highest where the level is negative.

        Examples
        --------
        >>> Falling(0.9, scale=5).rule([0, 5, 100])
        (array([10,  2,  2]), array([1.    , 0.9091, 0.5224]))
        """
        level = np.asarray(self.level(np.asarray(episode), np.asarray(visits)), dtype=np.float64)
        tail = np.maximum(1.0 - abs(level), 1.0 / MOST_DRAWS)
        nearest = np.rint(1.0 / tail)
        exact = abs(nearest * tail - 1.0) <= nearest * 2.0**-52  # as in prudent.risk
        n = np.where(exact, nearest, np.ceil(1.0 / tail))
        share = np.where(exact, 1.0, np.minimum(1.0 / (n * tail), 1.0))
        return np.where(level < 0.0, -n, n).astype(np.int64), share

    @property
    def most_draws(self) -> int:
        """Largest number of draws that a level needs."""
        return MOST_DRAWS

    @property
    def label(self) -> str:
        """Name in a figure."""
        return repr(self)


@dataclass(frozen=True)
class Decay(Schedule):
    """Level that halves every `half` episodes of an agent, or decisions of a bandit.

    Levels of a bandit are rounded to those of the form 1 - 1/n, at which a score is the lowest of n draws: 0.9, 0.889,
    ... 0.5, 0. The first decision is t = 1.

    Parameters
    ----------
    start : float
        First level, in (-1, 1).
    half : float
        Number of episodes or decisions after which the level is half as high.

    Examples
    --------
    >>> level = Decay(0.9, half=1000)
    >>> [round(level.at(t), 3) for t in (1, 1001, 2001, 5001)]
    [0.9, 0.5, 0.0, 0.0]
    """

    start: float
    half: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", risk_level(self.start, "start"))
        object.__setattr__(self, "half", positive(self.half, "half"))

    def level(self, episode: ArrayLike, visits: ArrayLike = 0) -> FloatArray:  # noqa: D102
        with np.errstate(over="ignore"):  # of a half-life that is nearly zero
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
    """Level ``start / (1 + episode / scale)``.

    Caution about pairs that were never observed keeps an agent from trying them. Caution about pairs with bad outcomes
    pays in the first episodes. `unseen` separates the two.

    Parameters
    ----------
    start : float
        First level, in (-1, 1).
    scale : float
        Number of episodes after which the level is half as high.
    unseen : float, optional
        Level of pairs whose source was never observed: 0 is neutral, a negative level curious. By default they have
        the level of all others.

    Examples
    --------
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

    def level(self, episode: ArrayLike, visits: ArrayLike = 0) -> FloatArray:  # noqa: D102
        with np.errstate(over="ignore"):  # of a scale that is nearly zero
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
    """Level that a function returns.

    Parameters
    ----------
    function : callable
        Function of (episode, visits) that returns a level in (-1, 1). A function of arrays is called once for many
        pairs.

    Examples
    --------
    >>> FunctionSchedule(lambda episode, visits: 0.9 if visits < 3 else 0.0).level(0, [0, 3])
    array([0.9, 0. ])
    """

    function: Callable[[Any, Any], Any]

    def level(self, episode: ArrayLike, visits: ArrayLike = 0) -> FloatArray:  # noqa: D102
        episodes, counts = np.broadcast_arrays(episode, visits)
        try:
            levels = np.asarray(self.function(episodes, counts), dtype=np.float64)
            takes_arrays = levels.shape == episodes.shape
        except Exception:  # whatever a function of numbers raises for arrays
            takes_arrays = False
        if not takes_arrays:
            pairs = zip(episodes.reshape(-1).tolist(), counts.reshape(-1).tolist(), strict=True)
            levels = np.array([self._at(e, v) for e, v in pairs], dtype=np.float64).reshape(episodes.shape)
        wrong = ~(abs(levels) < 1.0)
        if wrong.any():
            level, e, v = float(levels[wrong][0]), int(episodes[wrong][0]), int(counts[wrong][0])
            message = f"alpha must return levels in (-1, 1), got {level} at episode {e} and {v} visits"
            raise ParameterError(message, code="alpha-range", argument="alpha", value=level, episode=e, visits=v)
        return levels

    def _at(self, episode: int, visits: int) -> float:
        value = self.function(episode, visits)
        try:
            return float(value)
        except (TypeError, ValueError):
            message = f"alpha({episode}, {visits}) must be a level in (-1, 1), got {value!r}"
            raise ParameterError(message, code="not-a-number", argument="alpha", value=value) from None

    @property
    def label(self) -> str:  # noqa: D102
        return getattr(self.function, "__name__", "function").replace("<lambda>", "function")


def schedule_of(alpha: Any) -> Schedule | None:
    """Return a schedule for what a caller wrote as a level, or None if it is no schedule."""
    if isinstance(alpha, Schedule):
        return alpha
    return FunctionSchedule(alpha) if callable(alpha) else None


NAMED: dict[str, type[Schedule]] = {kind.__name__: kind for kind in (Decay, Falling)}
"""The schedules that a state file can hold."""


def saved_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return the fields of a schedule, for ``named_schedule``."""
    if type(schedule) not in NAMED.values():
        message = f"{schedule!r} cannot be saved: only named schedules, {', '.join(NAMED)}, can"
        raise ParameterError(message, code="not-savable", value=schedule)
    return {name: getattr(schedule, name) for name in schedule.__dataclass_fields__}  # type: ignore[attr-defined]


def named_schedule(values: dict[str, Any]) -> Schedule:
    """Return the schedule with these fields, as a state file has them."""
    return (Falling if "scale" in values else Decay)(**values)
