r"""Floors and caps of the probabilities of arms, and a control arm with a fixed share.

Let q be the probabilities of the eligible arms as the scores give them, with low_i <= high_i the limits of arm i. The
arms are chosen with

    p_i = min(max(c q_i, low_i), high_i),      c such that the sum is 1:

arms within their limits keep their ratios, and p is the distribution within the limits that is closest to q in
Kullback-Leibler divergence. A decision is first taken by scores, say arm i. It stays with the chance min(1, p_i / q_i);
otherwise it goes to an arm j with the chance (p_j - q_j)^+ / sum (p - q)^+. So arm i is chosen with the probability

    min(p_i, q_i) + (p_i - q_i)^+ = p_i

exactly, and a single uniform more makes the decision, which can be repeated from the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray, probability
from ..errors import ParameterError
from .decision import Arm
from .law.base import Chances, Law

_NEVER = 1e-12  # added to every q, so that an arm that scores never choose can take what caps leave
_SLACK = 1e-9
_ROWS = 2048


@dataclass(frozen=True)
class PropensityLimits:
    """Smallest and largest probabilities of arms.

    Parameters
    ----------
    floor : float
        Smallest probability of every arm that has none of its own.
    cap : float
        Largest probability of every arm that has none of its own.
    floors : tuple of (arm, float)
        Smallest probabilities of arms.
    caps : tuple of (arm, float)
        Largest probabilities of arms.
    """

    floor: float = 0.0
    cap: float = 1.0
    floors: tuple[tuple[Arm, float], ...] = ()
    caps: tuple[tuple[Arm, float], ...] = ()

    @classmethod
    def of(
        cls,
        floor: float,
        min_propensity: float | Mapping[Arm, float] | Sequence[Any] | None,
        max_propensity: float | Mapping[Arm, float] | Sequence[Any] | None,
        arms: Sequence[Arm],
    ) -> PropensityLimits | None:
        """Return the limits that arguments of a bandit name; None if there are none but ``floor``, that of settings."""
        if min_propensity is None and max_propensity is None:
            return None
        least, floors = _read(min_propensity, "min_propensity", arms, floor)
        most, caps = _read(max_propensity, "max_propensity", arms, 1.0)
        found = cls(max(least, floor), most, floors, caps)
        found.ends(arms)
        return found

    def ends(self, arms: Sequence[Arm]) -> tuple[FloatArray, FloatArray]:
        """Return floors and caps [k] of eligible arms; raise if no probabilities are within them."""
        floors, caps = dict(self.floors), dict(self.caps)
        low = np.array([floors.get(arm, self.floor) for arm in arms])
        high = np.array([caps.get(arm, self.cap) for arm in arms])
        for i in np.flatnonzero(low > high).tolist():
            text = f"min_propensity of arm {arms[i]!r} is {low[i]}, above its max_propensity {high[i]}"
            raise ParameterError(text, code="conflicting-arguments", argument="min_propensity", arm=arms[i])
        for argument, total, wrong, most in (
            ("min_propensity", float(low.sum()), low.sum() > 1.0 + _SLACK, "at most"),
            ("max_propensity", float(high.sum()), high.sum() < 1.0 - _SLACK, "at least"),
        ):
            if wrong:
                text = f"{argument} of the {len(arms)} eligible arms sums to {total:.6g}: it must be {most} 1"
                raise ParameterError(text, code="probability-range", argument=argument, value=total)
        return low, high

    def arguments(self) -> tuple[Any, Any]:
        """Return ``min_propensity`` and ``max_propensity`` that give these limits, as JSON can hold them."""
        low = [list(one) for one in self.floors] or (self.floor or None)
        high = [list(one) for one in self.caps] or (self.cap if self.cap < 1.0 else None)
        return low, high

    def saved(self) -> dict[str, Any]:
        """Return the limits as JSON can hold them."""
        return {
            "floor": self.floor,
            "cap": self.cap,
            "floors": [list(one) for one in self.floors],
            "caps": [list(one) for one in self.caps],
        }

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> PropensityLimits:
        """Return the limits that ``saved`` returned."""
        floors, caps = (
            tuple((arm, probability(value, name)) for arm, value in saved[name]) for name in ("floors", "caps")
        )
        return cls(probability(saved["floor"], "floor"), probability(saved["cap"], "cap"), floors, caps)


def _read(values: Any, name: str, arms: Sequence[Arm], default: float) -> tuple[float, tuple[tuple[Arm, float], ...]]:
    """Return the limit of all arms, and the limits of some."""
    if values is None:
        return default, ()
    if not isinstance(values, Mapping | list | tuple):
        return probability(values, name), ()
    try:
        pairs = dict(values)
    except (TypeError, ValueError):
        text = f"{name} must be a probability, or probabilities by arm, got {values!r}"[:200]
        raise ParameterError(text, code="wrong-type", argument=name) from None
    found = []
    for arm, value in pairs.items():
        if arm not in arms:
            text = f"{name} names {arm!r}, which is not one of the arms"
            raise ParameterError(text, code="unknown-arm", argument=name, arm=arm)
        found.append((arm, probability(value, f"{name}[{arm!r}]")))
    return default, tuple(found)


def projected(chances: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return probabilities [T, k] within limits [k] for those of scores.

    >>> projected(np.array([[0.9, 0.1, 0.0]]), np.array([0.0, 0.0, 0.2]), np.array([0.5, 1.0, 0.2]))
    array([[0.5, 0.3, 0.2]])
    """
    if len(chances) > _ROWS:
        parts = range(0, len(chances), _ROWS)
        return np.concatenate([projected(chances[i : i + _ROWS], low, high) for i in parts])
    q = (chances + _NEVER) / (1.0 + _NEVER * chances.shape[1])
    turns = np.sort(np.concatenate([low / q, high / q], axis=1), axis=1)  # [T, 2k] where the sum bends
    sums = np.clip(turns[:, :, np.newaxis] * q[:, np.newaxis], low, high).sum(axis=2)
    last = np.maximum((sums <= 1.0).sum(axis=1) - 1, 0)
    rows = np.arange(len(q))
    c, after = turns[rows, last], turns[rows, np.minimum(last + 1, turns.shape[1] - 1)]
    middle = (0.5 * (c + after))[:, np.newaxis] * q
    free = np.where((middle > low) & (middle < high), q, 0.0).sum(axis=1)
    c = c + np.where(free > 0.0, (1.0 - sums[rows, last]) / np.where(free > 0.0, free, 1.0), 0.0)
    return np.clip(c[:, np.newaxis] * q, low, high)


def moved(places: IntArray, chances: FloatArray, limited: FloatArray, uniforms: FloatArray) -> IntArray:
    """Return the places [T] that decisions have after the limits, given those of the scores and uniforms [T]."""
    rows = np.arange(len(places))
    mine = chances[rows, places]
    stay = np.where(mine > 0.0, np.minimum(limited[rows, places] / np.where(mine > 0.0, mine, 1.0), 1.0), 0.0)
    found = places.copy()
    for t in np.flatnonzero(uniforms >= stay):
        more = np.maximum(limited[t] - chances[t], 0.0).cumsum()
        if more[-1] > 0.0:
            at = (uniforms[t] - stay[t]) / (1.0 - stay[t]) * more[-1]
            found[t] = min(
                int(np.searchsorted(more, at, side="right")), int(np.flatnonzero(limited[t] > chances[t])[-1])
            )
    return found


class LimitedLaw(Law):
    """The law of scores whose decisions are moved to keep probabilities within limits.

    Parameters
    ----------
    law : Law
        The law of the scores, in one context or in many.
    low, high : ndarray of float, [k]
        Floors and caps.
    """

    def __init__(self, law: Law, low: FloatArray, high: FloatArray) -> None:
        self.law, self._low, self._high, self.floor = law, low, high, law.floor
        self._known: tuple[FloatArray, FloatArray] | None = None

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the scores, [k] or [T, k]."""
        return self.law.mean

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations of the scores, [k] or [T, k]."""
        return self.law.sd

    def _both(self) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities [T, k] of the scores, and within the limits, computed once."""
        if self._known is None:
            chances = np.atleast_2d(self.law.chances())
            self._known = chances, projected(chances, self._low, self._high)
        return self._known

    def chances(self) -> FloatArray:
        """Return the probability of every arm to be chosen, [k] or [T, k]."""
        return self._both()[1].reshape(self.law.mean.shape).copy()

    def response(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd of the expected reward, [k] or [T, k] each."""
        return self.law.response()

    def shortfall(self, alpha: float) -> FloatArray:
        """Return CVaR of s'theta at a risk level, [k] or [T, k]."""
        return self.law.shortfall(alpha)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores [N, k]."""
        return self.law.sample(count, rng)

    @property
    def sample_entries(self) -> int:
        """Numbers that one simulated decision takes in memory."""
        return self.law.sample_entries

    def decisions(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return the positions [N] of the arms that simulated decisions choose."""
        places = self.law.decisions(count, rng)
        chances, limited = (one[:1] for one in self._both())
        shape = (count, chances.shape[1])
        return moved(places, np.broadcast_to(chances, shape), np.broadcast_to(limited, shape), rng.random(count))

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the probability of every arm to be chosen; a slate of arms has one place."""
        chances = self.chances()
        return Chances(chances, np.zeros_like(chances))

    def after(self, places: IntArray, uniforms: FloatArray) -> IntArray:
        """Return where decisions [T] by scores go, given a uniform for each."""
        return moved(places, *self._both(), uniforms)
