"""Arms with very many features, of which a context has few: a belief without covariances.

The mathematics is in ``prudent.bandits.kernels.sparse``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..._support.checks import BoolArray, FloatArray, IntArray
from ..._support.state import Arrays, require_counts
from ...errors import DataError, ParameterError
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels.batch import Moments
from ..kernels.layout import MARKS, PULLS, TRIES
from ..kernels.sparse import (
    COUNT,
    FIRST,
    HIGH,
    LEVEL,
    LEVEL_SPREAD,
    LOW,
    POOL,
    SURPRISE,
    choose,
    fill_moments,
    learn_packed,
)
from ..kernels.step import LARGEST, scale_at, usable
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..law.normal import NormalRows, ScoreRule
from ..settings import BanditSettings
from .base import LARGEST_MOMENT, Belief, Match, all_usable, require_arrays, require_state, score_rule

_MOST = 2000  # features for which covariances are written out
_SCHEMA = {
    "prior_precision": "float64 D",
    "theta": "float64 D A",
    "spread": "float64 D A",
    "pulls": "int64 A",
    "tries": "int64 A",
    "pool": f"float64 {POOL}",
}


def packed_row(places: Any, values: Any, dim: int) -> FloatArray:
    """Return pairs (place, value) [2m] of what is not zero; values of a place that occurs twice are added.

    Its length is never ``dim``, by which it would be taken for a context with all its zeros.

    >>> packed_row([3, 1, 3], [1.0, 2.0, 4.0], 10)
    array([1., 2., 3., 5.])
    """
    where = np.asarray(places, dtype=np.int64)
    numbers: Any = np.asarray(values, dtype=np.float64)
    if where.size:
        where, inverse = np.unique(where, return_inverse=True)
        numbers = np.bincount(inverse, numbers, where.size)
    out = np.zeros(2 * where.size + 2 * (2 * where.size == dim))
    out[: 2 * where.size : 2], out[1 : 2 * where.size : 2] = where, numbers
    return out


class SparseArms(Belief):
    """Belief about A arms with normal rewards and D features, without covariances.

    Parameters
    ----------
    count : int
        Number of arms.
    prior : ndarray of float, [D]
        Prior precision of each coefficient, constant feature included, in units of the noise.
    intercept : bool
        Whether the first feature is constant.
    noise_sd : float or None
        Sd of the noise; None to learn it.
    """

    link: int | None = None

    def __init__(self, count: int, prior: FloatArray, intercept: bool, noise_sd: float | None) -> None:
        self.intercept, self._unit_sd, self.prior = intercept, noise_sd, prior
        self._first, self.dim = int(intercept), len(prior) - int(intercept)
        self._levelled = intercept and noise_sd is None
        self.theta = np.zeros((len(prior), count))
        self.spread = np.repeat(1.0 / prior[:, np.newaxis], count, axis=1)
        self.marks = np.zeros((count, MARKS), dtype=np.int64)
        self.pool = np.zeros(POOL)
        self.pool[[LOW, HIGH]] = math.inf, -math.inf
        self.gain = 1.0
        self.use(BanditSettings())

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        for name in ("clip", "delta"):
            if getattr(settings, name):
                message = f"{name} is not for many sparse features"
                raise ParameterError(message, code="conflicting-arguments", argument=name)
        if self._unit_sd is None and settings.sampling_sd is not None:
            message = "sampling_sd is in units of the reward: give noise_sd too, or leave both out"
            raise ParameterError(message, code="conflicting-arguments", argument="sampling_sd")

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision; see ``ArmBelief.use``.

        Parameters
        ----------
        settings : BanditSettings
            Settings in which the risk level is a number.
        """
        self.rule = settings.rule(len(self.prior), self._unit_sd)
        self._score_rule, self._weights = score_rule(settings, None), np.array(settings.weights, dtype=np.float64)
        self._limits = settings.first_pulls, settings.min_propensity

    def _scale(self, t: int) -> float:
        """Return the sd of a draw over the sd of the posterior at decision ``t``, before draws are narrowed."""
        return float(scale_at(self.rule.scale, 0.0, t, 1, 1.0, self.rule.horizon))

    # -- contexts ------------------------------------------------------------------------------------------

    def packed(self, point: FloatArray) -> FloatArray | None:
        """Return a context [D] or [2m] as pairs; None if it is not usable.

        Parameters
        ----------
        point : ndarray of float
            All values of a context, or places and values of those that are not zero.

        Returns
        -------
        ndarray of float, [2m] or None
            Pairs of place and value.
        """
        if not usable(point):
            return None
        if point.size == self.dim:
            places = np.flatnonzero(point)
            return packed_row(places, point[places], self.dim)
        listed = point[::2]
        inside = point.size % 2 == 0 and (not point.size or (listed.min() >= 0 and listed.max() < self.dim))
        return np.ascontiguousarray(point) if inside and not (listed % 1.0).any() else None

    def _required(self, point: FloatArray) -> FloatArray:
        found = self.packed(point)
        if found is None:
            message = f"context holds numbers that are too large, or no pairs of a place below {self.dim} and a value"
            raise DataError(message, code="too-large", argument="context")
        return found

    # -- decisions -----------------------------------------------------------------------------------------

    @property
    def _noise(self) -> float:
        """Sd of the noise; 0 while it is unknown."""
        if self._unit_sd is not None:
            return self._unit_sd
        return math.sqrt(self.pool[SURPRISE] / self.pool[COUNT]) if self.pool[COUNT] > 0.0 else 0.0

    def decide(
        self, t: int, point: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[int, float, tuple[FloatArray, ScoreRule]] | None:
        """Take decision ``t`` in a context without the constant feature; see ``ArmBelief.decide``.

        Parameters
        ----------
        t : int
            Number of the decision, from 1.
        point : ndarray of float
            Context, packed or not.
        rows : ndarray of int, [k]
            Eligible arms.
        stream : Uniforms
            Random stream.

        Returns
        -------
        tuple or None
            Position of the chosen arm, its score, and moments and rule of a ``NormalLaw``; None if the context is not
            usable.
        """
        packed = self.packed(point)
        if packed is None:
            return None
        k, need = len(rows), 1 + len(rows) * self._weights.size
        moments = np.empty((4, k))
        fill_moments(self.theta, self.spread, self.pool[LEVEL], self._first, packed, rows, moments)
        if not np.isfinite(moments[:2]).all():
            return None
        stream.reserve(need)
        uniforms = stream.block[stream.next : stream.next + need]
        stream.next += need
        first_pulls, floor = self._limits
        how = self._noise, self._scale(t), self.rule.n, self._weights, self.rule.share
        place, score = choose(moments, *how, self.marks, first_pulls, floor, rows, uniforms)
        return place, score, (moments, self._score_rule)

    def decide_rows(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray, Law]:
        """Take decisions ``t`` and following in contexts; see ``ArmBelief.decide_rows``.

        Parameters
        ----------
        t : int
            Number of the first decision.
        contexts : ndarray of float
            Contexts, packed or not.
        rows : ndarray of int, [k]
            Eligible arms.
        stream : Uniforms
            Random stream.

        Returns
        -------
        tuple
            Positions [T] of the chosen arms, their scores [T], and the law.
        """
        packed = [self._required(point) for point in contexts]
        values = self._moments(packed, rows)
        places, scores, among = np.empty(len(packed), dtype=np.int64), np.empty(len(packed)), []
        for i, point in enumerate(packed):
            decided = self.decide(t + i, point, rows, stream)
            assert decided is not None
            places[i], scores[i], (moments, _) = decided
            if np.isnan(moments[2]).any():
                among.append(np.isnan(moments[2]))
        forced = np.array(among, dtype=np.bool_).reshape(-1, rows.size)
        return places, scores, self._law(values, forced, self._score_rule, t, 1)

    def _moments(self, packed: Sequence[FloatArray], rows: IntArray) -> FloatArray:
        """Return means and sds [2,k,T]; sds are infinite while the noise is unknown."""
        values = np.empty((2, rows.size, len(packed)))
        one = np.empty((2, rows.size))
        for i, point in enumerate(packed):
            fill_moments(self.theta, self.spread, self.pool[LEVEL], self._first, point, rows, one)
            values[0, :, i], values[1, :, i] = one[0], one[1] * self._noise if self._noise else math.inf
        if not np.isfinite(values[0]).all() or np.isnan(values[1]).any():
            message = "context has features for which scores would not be finite: scale the features"
            raise DataError(message, code="too-large", argument="context")
        return values

    def _law(self, values: FloatArray, among: BoolArray, rule: ScoreRule, t: int, step: int) -> NormalRows:
        _, k, count = values.shape
        scale = np.array([self._scale(t + step * i) for i in range(count)])
        none, places = np.empty((0, 0)), np.arange(k)
        moments = Moments(none, none, np.empty((count, 0)), places, np.full(k, self._noise), np.zeros(k), values)
        return NormalRows(moments, scale, among, rule)

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores in contexts; see ``Belief.law``."""
        values = self._moments([self._required(point) for point in contexts], rows)
        lacks = self.marks[rows, TRIES] < settings.first_pulls
        unknown = not self._noise > 0.0
        some = lacks if lacks.any() else np.ones(rows.size, dtype=np.bool_)
        among = np.tile(some, (len(contexts) if lacks.any() or unknown else 0, 1))
        return self._law(values, among, score_rule(settings, None), t, 0)

    # -- rewards -------------------------------------------------------------------------------------------

    def learn_one(self, point: FloatArray, row: int, reward: float, weight: float) -> bool:
        """Learn one reward in a context without the constant feature; see ``ArmBelief.learn_one``.

        Parameters
        ----------
        point : ndarray of float
            Context, packed or not.
        row : int
            Row of the arm.
        reward, weight : float
            Reward, and how often it counts.

        Returns
        -------
        bool
            False if the context or the reward is not usable, and nothing was learned.
        """
        packed = self.packed(point)
        if packed is None or not abs(reward) <= LARGEST:
            return False
        if weight > 0.0:
            sums, options = (self.theta, self.spread, self.pool), (self._levelled, self._first)
            if not learn_packed(*sums, *options, packed, row, reward, weight, LARGEST_MOMENT):
                return False
        self.marks[row, PULLS] += 1
        self.marks[row, TRIES] = max(self.marks[row, TRIES], self.marks[row, PULLS])
        return True

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``."""
        packed = [self._required(point) for point in contexts]
        before: list[tuple[Any, ...]] = []
        for point, row, reward, weight in zip(packed, rows.tolist(), rewards.tolist(), weights.tolist(), strict=True):
            own = np.concatenate([np.zeros(self._first), point[::2] + self._first]).astype(np.int64)
            old = self.theta[own, row], self.spread[own, row], self.pool.copy(), self.marks[row].copy()
            before.append((own, row, *old))
            if not self.learn_one(point, row, reward, weight):
                for own, row, *old in reversed(before):
                    self.theta[own, row], self.spread[own, row], self.pool[:], self.marks[row] = old
                message = "context is too large beside what is known; scale the features"
                raise DataError(message, code="too-large", argument="context")

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        prior = self.prior[:, np.newaxis]
        precision = prior + factor * np.maximum(1.0 / self.spread - prior, 0.0)
        self.theta *= factor / (self.spread * precision)
        self.spread = 1.0 / precision
        self.pool[[SURPRISE, COUNT]] *= factor
        self.gain *= factor
        if self.pool[COUNT] * LARGEST_MOMENT < 1.0:  # nothing is left
            self.pool[[SURPRISE, COUNT]] = 0.0
        if self.pool[LEVEL_SPREAD] > factor * LARGEST_MOMENT or factor == 0.0:  # flat, as before the first reward
            self.pool[[LEVEL, LEVEL_SPREAD, FIRST]] = 0.0
        else:
            self.pool[LEVEL_SPREAD] /= factor

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Refuse to merge: what an update leaves out depends on the order of rewards; see ``Belief.contradiction``."""
        message = "other has a belief without covariances, which depends on the order of rewards: it cannot be merged"
        raise ParameterError(message, code="no-merge", argument="other")

    def merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        """Refuse to merge; see ``contradiction``."""
        self.contradiction(other, since, matches)

    # -- rows ----------------------------------------------------------------------------------------------

    def add_row(self, prior: Any = None) -> None:
        """Add an arm without data.

        Parameters
        ----------
        prior : None
            Arms have the same prior.
        """
        blank = 1.0 / self.prior[:, np.newaxis]
        self.theta, self.spread = np.hstack([self.theta, 0.0 * blank]), np.hstack([self.spread, blank])
        self.marks = np.vstack([self.marks, np.zeros((1, MARKS), dtype=np.int64)])

    def remove_row(self, row: int) -> None:
        """Remove an arm.

        Parameters
        ----------
        row : int
            Row of the arm.
        """
        self.theta, self.spread = np.delete(self.theta, row, axis=1), np.delete(self.spread, row, axis=1)
        self.marks = np.delete(self.marks, row, axis=0)

    def prior_like(self, rows: IntArray) -> Any:
        """Refuse a prior of its own.

        Parameters
        ----------
        rows : ndarray of int
            Rows of arms.

        Returns
        -------
        None
            Never.

        Raises
        ------
        ParameterError
            Always.
        """
        message = "like is not for many sparse features: all arms have the same prior"
        raise ParameterError(message, code="conflicting-arguments", argument="like")

    # -- what it says --------------------------------------------------------------------------------------

    @property
    def pulls(self) -> IntArray:
        """Number of rewards of every arm, [A]."""
        return self.marks[:, PULLS]

    @property
    def tries(self) -> IntArray:
        """Number of decisions for every arm, or of rewards if a log brought more, [A]."""
        return self.marks[:, TRIES]

    def tallies(self) -> dict[str, IntArray]:
        """Return copies of numbers [A] by name: of rewards and of decisions of every arm."""
        return {"pulls": self.pulls.copy(), "tries": self.tries.copy()}

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of the coefficients, given those of the features; see ``ArmBelief.labels``."""
        return tuple(names)

    @property
    def n_rewards(self) -> int:
        """Number of rewards seen."""
        return int(self.pulls.sum())

    @property
    def noise_sd(self) -> float | None:
        """Sd of the noise, given or learned; None while it is unknown."""
        return self._noise or None

    @property
    def faded(self) -> bool:
        """Whether evidence has been forgotten."""
        return self.gain != 1.0

    def moments(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return means and sds [A, m] of some coefficients; the level of all arms is in that of the constant feature.

        Parameters
        ----------
        places : ndarray of int, [m]
            Coefficients, the constant feature first.

        Returns
        -------
        tuple of ndarray of float
            Means and sds.
        """
        mean = self.theta[places].T.copy()
        if self._first:
            mean[:, places == 0] += self.pool[LEVEL]
        return mean, (self._noise or math.inf) * np.sqrt(self.spread[places].T)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of theta; see ``Belief.coefficients``."""
        if len(self.prior) > _MOST:
            message = f"covariances of {len(self.prior)} features are too large; explain has those of a context"
            raise ParameterError(message, code="too-many-features", value=len(self.prior), expected=_MOST)
        mean, sd = self.moments(np.arange(len(self.prior)))
        covariance = np.zeros((*mean.shape, mean.shape[1]))
        every = np.arange(mean.shape[1])
        covariance[:, every, every] = sd**2
        return mean, covariance

    def posterior(self, row: int) -> LinearGaussianPosterior:
        """Return a copy of the posterior of theta of one arm; see ``Belief.posterior``."""
        if not self._noise > 0.0:
            raise DataError("the noise is unknown before two different rewards have been seen", code="unknown-noise")
        mean, _ = self.coefficients()
        size, start = len(self.prior), np.zeros(len(self.prior))
        start[0] = self.pool[LEVEL] if self._first else 0.0
        gained = np.maximum(1.0 / self.spread[:, row] - self.prior, 0.0)
        gram = np.zeros((2, size + 1, size + 1))
        gram[0, :size, :size] = np.diag(gained)
        gram[0, :size, size] = gram[0, size, :size] = mean[row] / self.spread[:, row] - self.prior * start
        return LinearGaussianPosterior.of_sums(np.diag(self.prior), self._noise, gram, start)

    # -- state ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        return {"rewards": "gaussian", "prior_precision": self.prior.tolist(), "noise_sd": self._unit_sd}

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        return {"rewards": "gaussian", "prior": "given", "noise_sd": self._unit_sd, "gain": self.gain}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        return {
            "prior_precision": self.prior,
            "theta": self.theta,
            "spread": self.spread,
            "pulls": self.marks[:, PULLS].copy(),
            "tries": self.marks[:, TRIES].copy(),
            "pool": self.pool,
        }

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        require_arrays(arrays, _SCHEMA, {"A": len(self.marks), "D": len(self.prior)})
        for name in ("pulls", "tries"):
            require_counts(arrays[name], name)
        pool, spread = arrays["pool"], arrays["spread"]
        require_state((arrays["tries"] >= arrays["pulls"]).all(), "an arm has more rewards than decisions")
        positive = (spread * LARGEST_MOMENT >= 1.0 - 1e-9).all()
        require_state(all_usable(arrays["theta"], spread) and positive, "moments that cannot be")
        require_state((spread <= (1.0 + 1e-9) / self.prior[:, np.newaxis]).all(), "a variance above that of the prior")
        known = all_usable(pool[:LOW]) and (pool[[LEVEL_SPREAD, SURPRISE, COUNT]] >= 0.0).all()
        require_state(known and pool[FIRST] in (0, 1), "sums of rewards that cannot be")
        none = pool[LOW] == math.inf and pool[HIGH] == -math.inf
        require_state(none or -LARGEST <= pool[LOW] <= pool[HIGH] <= LARGEST, "rewards that cannot be")
        gain = values["gain"]
        require_state(isinstance(gain, float) and 0.0 <= gain <= 1.0, f"the gain is {gain!r}")
        self.gain, self.theta, self.spread, self.pool = gain, arrays["theta"].copy(), spread.copy(), pool.copy()
        self.marks[:, PULLS], self.marks[:, TRIES] = arrays["pulls"], arrays["tries"]
