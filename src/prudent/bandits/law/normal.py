"""Laws of independent normal or Student's t scores: of one context, and of many.

A score weighs the lowest (or highest) of n posterior draws; ``score_law`` has the mathematics and the kernels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..._numerics.glm import COUNTS, mean_odds, sd_odds
from ..._numerics.order_statistics import lowest_normals_rows
from ..._numerics.student import student_shortfall
from ..._support.checks import BoolArray, FloatArray, IntArray
from ...errors import ParameterError
from ...exact import cvar_clipped_normal, cvar_normal
from ..kernels.batch import Choices, Moments, draw_sds, fill_scores
from ..kernels.items import draw_highest, draw_scores
from ..kernels.layout import Rule
from .base import Chances, Law, outer_mean
from .score_law import ScoreLaw, score_law
from .slate import order_chance, place_chances, set_chance

_CELLS = 512  # of uniforms, within which draws are bounded
_FEW = 32  # scores that are all drawn
_MOST_PRODUCTS = 1_000_000  # arms times squared length of a slate, up to which inclusion is exact


@lru_cache(maxsize=16)
def _draw_bounds(n: int) -> FloatArray:
    """Return bounds [2, C + 1] of the outermost of n draws at the ends of the cells of its uniform."""
    uniforms = np.minimum(np.arange(_CELLS + 1.0) / _CELLS, 1.0 - 2.0**-53)[:, np.newaxis]
    lowest_normals_rows(uniforms, n)
    draws = uniforms[:, 0]
    slack = 1e-12 * (1.0 + np.abs(draws))  # more than what a quantile is off by
    return np.stack((draws - slack, draws + slack))


class ScoreRule(NamedTuple):
    """How scores are made of draws, and choices of scores."""

    floor: float  # smallest probability of an arm
    n: int  # draws for each score; below zero, the highest count
    weights: tuple[float, ...]  # of the outermost draws
    clip: bool  # draws to [0, 1]
    link: int | None  # of clicks (ODDS) or counts (COUNTS); None for normal rewards
    share: float = 0.0  # of the kernels' rule: by it draws of many contexts are narrowed


class DrawnLaw(Law):
    """Law of scores that a rule makes of normal or Student's t draws; a base class.

    Parameters
    ----------
    moments : ndarray of float, [2 or more, k]
        Posterior means and sds of the scores.
    rule : ScoreRule
        How scores are made of draws.
    """

    freedom: FloatArray = np.zeros(1)  # degrees of freedom [k], 0 for normal draws

    def __init__(self, moments: FloatArray, rule: ScoreRule) -> None:
        self._moments, self._rule, self.floor = moments, rule, rule.floor

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the scores, [k] or [T, k]."""
        return self._moments[0]

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations of the scores, [k] or [T, k]."""
        return self._moments[1]

    @property
    def score_law(self) -> ScoreLaw:
        """Law of a score of mean 0 and sd 1."""
        return score_law(self._rule.n, self._rule.weights, self._rule.clip)

    def response(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd of the expected reward, [k] or [T, k] each."""
        mean, sd = self.mean.copy(), self.sd.copy()
        if self._rule.link is None:
            return mean, sd
        if self._rule.link != COUNTS:
            return mean_odds(mean, sd), sd_odds(mean, sd)
        with np.errstate(over="ignore", invalid="ignore"):
            rate = np.exp(mean + 0.5 * sd * sd)
            return rate, rate * np.sqrt(np.expm1(sd * sd))

    def shortfall(self, alpha: float) -> FloatArray:
        """Return CVaR of s'theta at a risk level, [k] or [T, k]."""
        mean, sd, clip = self.mean.copy(), self.sd.copy(), self._rule.clip
        if alpha == 0.0 and not clip:
            return mean
        if not np.isfinite(sd).all():
            return np.full_like(mean, -np.copysign(np.inf, alpha))
        if self.freedom.any():
            below = np.copysign(student_shortfall(abs(alpha), self.freedom), alpha)
            return np.asarray(mean - sd * np.sqrt(1.0 - 2.0 / self.freedom) * below)
        return np.asarray((cvar_clipped_normal if clip else cvar_normal)(mean, sd, alpha))

    def _every_chance(self, means: FloatArray, sds: FloatArray, freedom: FloatArray) -> FloatArray:
        """Return the probabilities [T,k] of arms with means and sds [T,k] of draws, and degrees of freedom [k] or 0.

        Where the choice is uniform by rule, sds are NaN for the arms that it is between.
        """
        try:
            law = self.score_law
        except ParameterError:  # the law is not tabulated, which does not matter where all choices are uniform
            among: Any = np.isnan(sds)
            if not among.any(axis=1).all():
                raise
            return np.asarray(among / among.sum(axis=1, keepdims=True))
        # the interpolated cdf of arms that are far apart may dip below zero, by less than 1e-30
        return np.maximum(law.every_chance(means, sds, freedom, self.floor), 0.0)


class NormalLaw(DrawnLaw):
    """Law of independent scores in one context: the weighted lowest of n normal or Student's t draws of each arm.

    Parameters
    ----------
    moments : ndarray of float, [4, k]
        Posterior means, posterior sds, sds of the draws (NaN for arms between which the choice is uniform by rule) and
        degrees of freedom (0 for normal draws).
    rule : ScoreRule
        How scores are made of draws.
    sort : bool, default=False
        Integrate over the likeliest arms first, which is faster for many arms.
    """

    def __init__(self, moments: FloatArray, rule: ScoreRule, sort: bool = False) -> None:
        super().__init__(moments, rule)
        self._sort, self.freedom = sort, moments[3]

    def _sorted(self) -> tuple[FloatArray, IntArray]:
        """Return moments in the order of integration, and the rank of every arm."""
        if not self._sort:
            return self._moments, np.arange(self._moments.shape[1])
        # The likeliest rivals first: the product of their cdfs is then soon known to be zero where it is.
        order = np.argsort(-(self._moments[0] + self._moments[2]))
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return np.take(self._moments, order, axis=1), rank

    def chance(self, place: int) -> float:
        """Return the exact probability that one arm is chosen."""
        try:
            law = self.score_law
        except ParameterError:
            return super().chance(place)
        if not self._sort:
            return law.decision_chance(self._moments, place, self.floor)
        moments, rank = self._sorted()
        return law.decision_chance(moments, int(rank[place]), self.floor)

    def chances(self) -> FloatArray:
        """Return the exact probability of every arm to be chosen, [k]."""
        moments, rank = self._sorted()
        return np.asarray(self._every_chance(moments[:1], moments[2:3], moments[3])[0, rank])

    def uniform(self) -> IntArray | None:
        """Return the positions of the arms between which the choice is uniform by rule; None if scores decide."""
        among = np.flatnonzero(np.isnan(self._moments[2]))
        return among if among.size else None

    @property
    def uniforms_needed(self) -> int:
        """Number of uniforms that ``draw`` takes."""
        return self._moments.shape[1] * len(self._rule.weights)

    def draw(self, uniforms: FloatArray, top: int) -> FloatArray:
        """Return normal scores made of uniforms, which are used up.

        Parameters
        ----------
        uniforms : ndarray of float
            Numbers in [0, 1), one for each outermost draw of each arm.
        top : int
            How many of the highest scores are needed; lower ones may be -inf.

        Returns
        -------
        ndarray of float, [k]
            Scores.
        """
        scores = np.empty(self._moments.shape[1])
        mean, sd, n, weights = self._moments[0], self._moments[2], self._rule.n, self._rule.weights
        screened = scores.size > max(_FEW, 2 * top) and weights == (1.0,)
        if not (screened and draw_highest(mean, sd, n, _draw_bounds(n), top, uniforms, scores)):
            draw_scores(mean, sd, n, np.array(weights), uniforms, scores)
        return scores

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores [N, k]."""
        mean, _, sd, freedom = self._moments
        n, weights = self._rule.n, np.array(self._rule.weights)
        shape = (count, abs(n), mean.size)
        draws = rng.standard_t(freedom, shape) if freedom[0] > 0.0 else rng.standard_normal(shape)
        if not self._rule.clip:
            return np.asarray(mean + sd * outer_mean(draws, weights, n))
        return outer_mean(np.clip(mean + sd * draws, 0.0, 1.0), weights, n)

    @property
    def sample_entries(self) -> int:
        """Numbers that one simulated decision takes in memory."""
        return self._moments.shape[1] * abs(self._rule.n)

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the probability of every arm to be among the ``top`` highest, exact unless there are very many.

        Then it is sampled: given the scores of the others, an arm is among the first if its score exceeds the
        ``top``-th highest of them, a probability that its own law gives. It is averaged over sampled scores of the
        others.
        """
        mean, _, sd, _ = self._moments
        size = mean.size
        if self.uniform() is not None:
            return self.mixed(Chances(np.full(size, top / size), np.zeros(size)), top)
        if not self._has_density:
            return super().included(top, draws, rng)
        if size * top * top <= _MOST_PRODUCTS:
            chance, error = self.placed(top, draws, rng)
            return Chances(chance.sum(axis=0), error.sum(axis=0))
        law = self.score_law
        # between its nodes the law is known to 1e-6, much better than samples can tell
        nodes = np.linspace(-12.0, 9.0, 8401) if self._rule.n > 0 else np.linspace(-9.0, 12.0, 8401)
        cdf = np.array([law.cdf(x) for x in nodes])
        totals = np.zeros((2, size))
        for scores in self.samples(draws, rng):
            ranked = -np.partition(-scores, (top - 1, top), axis=1)[:, top - 1 : top + 1]
            hurdle = np.where(scores >= ranked[:, :1], ranked[:, 1:], ranked[:, :1])
            chance = 1.0 - np.interp((hurdle - mean) / sd, nodes, cdf)
            totals += chance.sum(axis=0), (chance * chance).sum(axis=0)
        average = totals[0] / draws
        errors = np.sqrt(np.maximum(totals[1] / draws - average * average, 0.0) / draws)
        return self.mixed(Chances(average, errors), top)

    @property
    def _has_density(self) -> bool:
        """Whether scores have one law with a density, but for mean and sd."""
        return not (self.freedom[0] > 0.0 or self._rule.clip)

    def placed(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the exact probability of every arm to have each of the ``top`` highest scores, [top, k]."""
        size = self._moments.shape[1]
        if self.uniform() is None and not self._has_density:
            return super().placed(top, draws, rng)
        moments, rank = self._sorted()
        found = np.full((top, size), 1.0 / size)
        if self.uniform() is None:
            place_chances(moments[0], moments[2], self.score_law.table, found)
        return self.mixed(Chances(found[:, rank], np.zeros_like(found)))

    def slate_chance(self, places: IntArray, ordered: bool) -> float:
        """Return the exact probability of a slate; see ``Law.slate_chance``."""
        size, top = self._moments.shape[1], places.size
        if top == 1 or (self.uniform() is None and not self._has_density):
            return super().slate_chance(places, ordered)
        equal = 1.0 / (math.perm(size, top) if ordered else math.comb(size, top))
        if self.uniform() is not None:
            return equal
        kernel = order_chance if ordered else set_chance
        scored = kernel(self._moments[0], self._moments[2], places, self.score_law.table)
        uniform = min(size * self.floor, 1.0)
        return uniform * equal + (1.0 - uniform) * min(max(scored, 0.0), 1.0)


class NormalRows(DrawnLaw):
    """Law of independent normal or Student's t scores in T contexts, computed when it is read.

    Parameters
    ----------
    moments : Moments
        Posterior moments of k arms in the contexts.
    scale : ndarray of float, [T]
        Sds of draws over posterior sds.
    among : ndarray of bool, [L, k]
        The arms between which the first L choices are uniform by rule.
    rule : ScoreRule
        How scores are made of draws.
    """

    def __init__(self, moments: Moments, scale: FloatArray, among: BoolArray, rule: ScoreRule) -> None:
        self._contexts, self._scale, self._among, self._rule = moments, scale, among, rule
        self.floor, self.freedom = rule.floor, moments.freedom

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the scores, [T, k]."""
        return self._contexts.values[0].T

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations of the scores, [T, k]."""
        return self._contexts.sds.T

    def chance_rows(self, places: IntArray) -> FloatArray:
        """Return the probability [T] of one arm for each context; see ``Law.chance_rows``."""
        if len(self._among) or self.freedom.any():
            return super().chance_rows(places)
        scored = self.score_law.chances(*self._draws()[:2], places)
        return np.asarray(self.floor + (1.0 - self.floor * self.mean.shape[1]) * scored)

    def chances(self) -> FloatArray:
        """Return the exact probability of every arm to be chosen, [T, k]."""
        return self._every_chance(*self._draws())

    def scores(self, rule: Rule, choices: Choices) -> FloatArray:
        """Return the scores [T] of the chosen arms, computed from their uniforms where that was not needed to decide.

        Parameters
        ----------
        rule : Rule
            The rule of the decisions as kernels read it.
        choices : Choices
            What was decided.

        Returns
        -------
        ndarray of float, [T]
            Scores.
        """
        fill_scores(rule, self._contexts.values, self.freedom, self._scale, choices)
        return choices.scores

    def _draws(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return means and sds [T,k] of the draws, and degrees of freedom [k]."""
        sds = draw_sds(self._contexts.values, self._scale, self._rule.share)
        sds[: len(self._among)] = np.where(self._among, np.nan, 0.0)
        return np.ascontiguousarray(self.mean), sds, self.freedom

    def _first(self) -> NormalLaw:
        """Return the law of the first context."""
        means, sds, freedom = self._draws()
        return NormalLaw(np.stack([means[0], self.sd[0], sds[0], freedom]), self._rule)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores [N, k] of the first context."""
        return self._first().sample(count, rng)

    def uniform(self) -> IntArray | None:
        """Return the positions of the arms between which the first choice is uniform by rule."""
        return self._first().uniform()
