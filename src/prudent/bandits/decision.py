"""What a bandit decided, and with what chance: :class:`Decision` in one context, :class:`BatchDecision` in many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import time
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from ..errors import ParameterError
from .batch import Decided, fill_scores
from .score_law import score_law
from .step import Rule

__all__ = ["Arm", "BatchDecision", "Decision", "Law", "Record", "chances_of"]


Arm = str | int
Law = tuple[float, int, tuple[float, ...], bool]  # the floor, and the arguments of score_law


def chances_of(law: Law, means: FloatArray, sds: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the chances [T,k] of arms with means and sds [T,k] of their draws, and degrees of freedom [k] or zeros.

    Where the choice is uniform by rule, sds are NaN for the arms that it is between.
    """
    floor, *key = law
    among: Any = np.isnan(sds)
    if among.any(axis=1).all():  # whatever the law of scores, known or not
        return np.asarray(among / among.sum(axis=1, keepdims=True))
    return score_law(*key).every_chance(means, sds, freedom, floor)


class Record:
    """What decisions of all bandits have in common: the posterior moments of the arms, and what goes on record."""

    __slots__ = ("_moments", "arm", "arms", "id", "score", "time", "version")

    arm: Arm
    arms: tuple[Arm, ...]
    score: float
    version: tuple[int, int]  # decisions and rewards that the model had seen
    time: float
    id: str | None
    _moments: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The posterior mean of the score s'theta of every eligible arm, [k]."""
        return self._moments[0]

    @property
    def sd(self) -> FloatArray:
        """The posterior sd of the score s'theta of every eligible arm, [k]; infinite if the noise is not known yet."""
        return self._moments[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return :meth:`to_dict` as one line of JSON, for a log.

        >>> import json
        >>> import prudent as pr
        >>> json.loads(pr.LinearBandit(2, dim=1, seed=1).select([0.5]).to_json())["context"]
        [0.5]
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def _versions(self) -> dict[str, int]:
        return dict(zip(("decisions", "rewards"), self.version, strict=True))


class Decision(Record):
    """What :meth:`LinearBandit.select` decided in one context.

    ``arm`` is the chosen arm, ``score`` its score, ``arms`` the k eligible arms; ``mean`` and ``sd`` [k] are those of
    the posterior of s'theta for each of them. ``propensity`` is the exact chance with which the arm was chosen;
    ``propensities`` [k] are the chances of all eligible arms. They are worked out when asked for, and None if
    ``select`` was asked to leave them out. For the record: ``context`` [D], ``time`` in seconds since 1970 (UTC),
    ``version``, the numbers of decisions and rewards that the model had seen, and ``id``, which a
    :class:`~prudent.bandits.Journal` gives (None without one).

    As long as a noise that is learned is not known (see :class:`LinearBandit`), ``sd`` is infinite, the choice uniform,
    and ``score`` the mean of the chosen arm.

    >>> import prudent as pr
    >>> decision = pr.LinearBandit(2, dim=1, noise_sd=1.0, intercept=False, seed=1).select([1.0])
    >>> decision.arms, decision.mean, decision.sd
    ((0, 1), array([0., 0.]), array([1., 1.]))
    >>> round(decision.propensity, 12)
    0.5
    """

    __slots__ = ("_law", "_place", "_propensity", "context")

    context: FloatArray  # [D]

    def __init__(
        self,
        arms: tuple[Arm, ...],
        place: int,
        score: float,
        moments: FloatArray,
        law: Law | None,
        context: FloatArray,
        version: tuple[int, int],
    ) -> None:
        self.arm = arms[place]
        self.arms = arms
        self.score = score
        self._place = place
        self._moments = moments  # [4,k] as the kernel ``decide`` writes them
        self._law = law
        self._propensity: float | None = None
        self.context = context
        self.version = version
        self.time = time()
        self.id = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record of the decision as plain values, propensity included.

        >>> import prudent as pr
        >>> record = pr.LinearBandit(["a", "b"], dim=1, seed=1).select([1.0]).to_dict()
        >>> list(record)
        ['id', 'time', 'context', 'arms', 'arm', 'propensity', 'score', 'version']
        >>> record["context"], record["arms"], record["version"]
        ([1.0], ['a', 'b'], {'decisions': 0, 'rewards': 0})
        """
        return {
            "id": self.id,
            "time": self.time,
            "context": self.context.tolist(),
            "arms": list(self.arms),
            "arm": self.arm,
            "propensity": self.propensity,
            "score": self.score,
            "version": self._versions(),
        }

    @property
    def propensity(self) -> float | None:
        """The chance with which ``arm`` was chosen."""
        if self._propensity is None and self._law is not None:
            floor, n, weights, clip = self._law
            try:
                self._propensity = score_law(n, weights, clip).decision_chance(self._moments, self._place, floor)
            except ParameterError:
                self._propensity = float(self._uniform_chances(self._law)[self._place])
        return self._propensity

    @property
    def propensities(self) -> FloatArray | None:
        """The chances of all eligible arms, [k]; they sum to one."""
        if self._law is None:
            return None
        floor, n, weights, clip = self._law
        try:
            return score_law(n, weights, clip).decision_chances(self._moments, floor)
        except ParameterError:
            return self._uniform_chances(self._law)

    def _uniform_chances(self, law: Law) -> FloatArray:
        """Return the chances of a uniform choice; raise if scores decided, whose law is not known."""
        means, _, sds, freedom = self._moments
        return chances_of(law, means[np.newaxis], sds[np.newaxis], freedom)[0]

    def __repr__(self) -> str:
        return f"Decision(arm={self.arm!r}, score={self.score:.6g})"


class BatchDecision:
    """What :meth:`LinearBandit.select` decided in contexts [T,D], all from the same posterior.

    ``arm`` [T] are the names of the chosen arms, ``score`` [T] their scores, ``arms`` the k eligible arms; ``mean`` and
    ``sd`` [T,k] are those of the posterior of s'theta. ``propensity`` [T] and ``propensities`` [T,k] are exact chances
    as in :class:`Decision`. Everything but ``arm`` is worked out when it is asked for, from the posterior as it was at
    the time of the decision.

    >>> import prudent as pr
    >>> batch = pr.LinearBandit(2, dim=1, seed=1).select([[1.0], [2.0], [3.0]])  # nothing is known yet
    >>> batch.arm.shape, batch.sd.shape
    ((3,), (3, 2))
    >>> batch.propensity
    array([0.5, 0.5, 0.5])
    """

    arm: np.ndarray[Any, Any]
    arms: tuple[Arm, ...]

    def __init__(self, arms: tuple[Arm, ...], decided: Decided, rule: Rule, law: Law | None) -> None:
        self.arm = _name_array(arms)[decided.choices.places]
        self.arms = arms
        self._decided = decided
        self._rule = rule
        self._law = law
        self._propensity: FloatArray | None = None

    @property
    def score(self) -> FloatArray:
        """The scores of ``arm``, [T]."""
        choices, moments, scale, _ = self._decided
        fill_scores(self._rule, moments.values, moments.freedom, scale, choices)
        return choices.scores

    @property
    def mean(self) -> FloatArray:
        """The posterior means of s'theta for every eligible arm, [T,k]."""
        return self._decided.moments.values[0].T

    @property
    def sd(self) -> FloatArray:
        """The posterior standard deviations of s'theta for every eligible arm, [T,k]."""
        return self._decided.moments.sds.T

    @property
    def propensity(self) -> FloatArray | None:
        """The chances with which ``arm`` was chosen, [T]."""
        if self._propensity is None and self._law is not None:
            choices, moments, _, among = self._decided
            floor, *key = self._law
            if len(among) or moments.freedom.any():
                chances = chances_of(self._law, *self._draw_moments())
                self._propensity = np.take_along_axis(chances, choices.places[:, np.newaxis], axis=1)[:, 0]
            else:
                scored = score_law(*key).chances(*self._draw_moments()[:2], choices.places)
                self._propensity = floor + (1.0 - floor * len(self.arms)) * scored
        return self._propensity

    @property
    def propensities(self) -> FloatArray | None:
        """The chances of all eligible arms, [T,k]; they sum to one in every context."""
        return None if self._law is None else chances_of(self._law, *self._draw_moments())

    def _draw_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return means and sds [T,k] of the draws, as :func:`chances_of` takes them."""
        _, moments, scale, among = self._decided
        sds = np.ascontiguousarray(scale[:, np.newaxis] * moments.values[1].T)
        sds[: len(among)] = np.where(among, np.nan, 0.0)
        return np.ascontiguousarray(self.mean), sds, moments.freedom

    def __repr__(self) -> str:
        return f"BatchDecision({len(self.arm)} contexts, arms={self.arms})"


def _name_array(names: Sequence[Arm]) -> np.ndarray[Any, Any]:
    """Return the names as an array of integers or of strings; of objects if both occur."""
    if all(isinstance(name, int) for name in names):
        return np.array(names)
    kind = None if all(isinstance(name, str) for name in names) else object
    return np.array(names, dtype=kind)
