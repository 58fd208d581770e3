"""What a bandit decided, and with what chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray
from .batch import fill_scores, predict_rows
from .score_law import ScoreLaw

__all__ = ["Decision"]


Arm = str | int
Law = Callable[[], ScoreLaw]


# -- a decision --------------------------------------------------------------------------------------------


class Decision:
    """What :meth:`LinearBandit.select` decided, for one context or for a batch [T].

    ``arm`` is the chosen arm (an array [T] of names for a batch), ``score`` its score, ``arms`` the k eligible arms;
    ``mean`` and ``sd`` [k] or [T,k] are those of the posterior of s'theta for each of them.
    ``propensity`` is the exact chance with which the arm was chosen, computed when first asked for (None if
    ``select`` was told to leave it out); ``propensities`` [k] or [T,k] are those of all eligible arms.

    >>> import prudent as pr
    >>> decision = pr.LinearBandit(2, dim=1, seed=1).select([1.0])
    >>> decision.arms, decision.mean, decision.sd
    ((0, 1), array([0., 0.]), array([1., 1.]))
    >>> round(decision.propensity, 12)
    0.5
    """

    __slots__ = ("_law", "_moments", "_place", "_propensity", "_scale", "_score", "arm", "arms")

    def __init__(
        self,
        arm: Any,
        score: Any,
        arms: tuple[Arm, ...],
        moments: Any,
        place: Any,
        scale: Any,
        law: Law | None,
    ) -> None:
        self.arm = arm
        self._score = score
        self.arms = arms
        self._moments = moments
        self._place = place
        self._scale = scale
        self._law = law
        self._propensity: Any = None

    def _worked_out(self) -> FloatArray:
        """Return posterior means and sds, [2,k] or [2,k,T]; a batch works them out when asked."""
        if callable(self._moments):
            self._moments = self._moments()
        moments: FloatArray = self._moments
        return moments

    @property
    def score(self) -> Any:
        """The score of ``arm``, a number or [T]."""
        if callable(self._score):  # a batch works its scores out when asked
            self._score = self._score(self._worked_out())
        return self._score

    @property
    def mean(self) -> FloatArray:
        """The posterior mean of s'theta for every eligible arm, [k] or [T,k]."""
        return self._worked_out()[0].T

    @property
    def sd(self) -> FloatArray:
        """The posterior standard deviation of s'theta for every eligible arm, [k] or [T,k]."""
        return self._worked_out()[1].T

    @property
    def propensity(self) -> Any:
        """The chance with which ``arm`` was chosen, a number or [T]."""
        if self._propensity is None and self._law is not None:
            if isinstance(self._place, int):
                self._propensity = self._law().chance(self.mean, self._scale * self.sd, self._place)
            else:
                self._propensity = self._chances(self._place)
        return self._propensity

    @property
    def propensities(self) -> FloatArray | None:
        """The chances of all eligible arms, [k] or [T,k]; they sum to one."""
        if self._law is None:
            return None
        rows = 1 if self.mean.ndim == 1 else len(self.mean)
        columns = [self._chances(np.full(rows, place)) for place in range(len(self.arms))]
        return np.stack(columns, axis=-1).reshape(self.mean.shape)

    def _chances(self, places: IntArray) -> FloatArray:
        assert self._law is not None
        sds = np.reshape(self._scale, (-1, 1)) * np.atleast_2d(self.sd)
        return self._law().chances(np.atleast_2d(np.ascontiguousarray(self.mean)), np.ascontiguousarray(sds), places)

    def __repr__(self) -> str:
        if isinstance(self._place, int):
            return f"Decision(arm={self.arm!r}, score={self.score:.6g})"
        return f"Decision({len(self.arm)} contexts, arms={self.arms})"


def _all_scores(
    scale: FloatArray,
    n: int,
    clip: bool,
    places: IntArray,
    marks: FloatArray,
    scores: FloatArray,
    moments: FloatArray,
) -> FloatArray:
    fill_scores(moments, scale, n, clip, places, marks, scores)
    return scores


def _all_moments(
    root: FloatArray, mean: FloatArray, points: FloatArray, eligible: IntArray, noise_sd: float
) -> FloatArray:
    moments = np.empty((2, len(eligible), len(points)))
    predict_rows(root, mean, points, eligible, noise_sd, moments)
    return moments


def _name_array(names: Sequence[Arm]) -> np.ndarray[Any, Any]:
    """Return the names as an array of integers or of strings; of objects if both occur."""
    if all(isinstance(name, int) for name in names):
        return np.array(names)
    kind = None if all(isinstance(name, str) for name in names) else object
    return np.array(names, dtype=kind)


def _short(names: tuple[Arm, ...]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return f"({shown}, ...)" if len(names) > 8 else f"({shown})"
