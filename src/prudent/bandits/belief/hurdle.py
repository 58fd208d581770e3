"""Revenue: arms whose rewards are 0 or a positive amount, as a purchase times a basket.

The expected reward of arm a in context s is p m, where p = 1 / (1 + exp(-s'theta_a)) is the chance of a purchase and
m = s'beta_a the mean basket. The two are learned apart: p from whether there was a purchase (``GlmArms``, with a prior
that the arms share), m from the amounts of purchases alone (``BasketArms``, with a learned noise for each arm). So a
rare large basket says little of p, and what is known of p does not suffer from the spread of baskets. Baskets need not
be normal: s'beta_a is their mean whatever their law.

A score is a draw of log(p m). Given the data p and m are independent. The moments of p are those of a logistic function
of a normal variable, to 1e-15. A mean basket is positive, so m is a normal variable truncated at 0, and its moments are

    E m = c + d h,    var m = d^2 (1 - h (h + c/d)),    h = phi(c/d) / Phi(c/d).

If x and y are the squared coefficients of variation of p and m, that of p m is v = (1 + x)(1 + y) - 1. The posterior of
p m is taken to be the lognormal law with the exact mean and variance: a score is normal, with the variance
w = log(1 + v) and the mean log(E p E m) - w / 2. Where purchases are rare p is the exponential of a normal variable,
and where a basket is known well m is nearly so. Propensities are those of normal scores, exactly.

As long as fewer than two different baskets have been seen, baskets are taken to be equal and the score is log p.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._numerics.glm import COUNTS, mean_odds, sd_odds
from ..._support.checks import BoolArray, FloatArray, IntArray, first_index
from ..._support.state import Arrays
from ...errors import DataError, ParameterError
from ...posteriors.glm import LogisticPosterior
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels import layout as col
from ..kernels.batch import Moments, draw_sds, moments_of, scales
from ..kernels.items import draw_scores
from ..kernels.step import forced_place, lacking, refresh, usable
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..law.normal import NormalRows, ScoreRule
from ..settings import BanditSettings
from .base import Match, score_rule
from .basket import BasketArms
from .glm import GlmArms

_PREFIX = "basket_"  # of names in a state file
_DEEP = -30.0  # c / d, below which a truncated normal variable is exponential to double precision times 1e-3
_LEAST_CHANCE = 1e-300


class HurdlePosterior(NamedTuple):
    """What is known of one arm whose rewards are 0 or a positive amount.

    Attributes
    ----------
    purchase : LogisticPosterior
        Posterior of the coefficients of the log odds of a purchase.
    basket : LinearGaussianPosterior or None
        Posterior of the coefficients of the mean basket; None before two different baskets have been seen.
    """

    purchase: LogisticPosterior
    basket: LinearGaussianPosterior | None


class HurdleArms(GlmArms):
    """Belief about A arms whose rewards are 0 or positive: a chance that they are positive, and a mean if they are.

    The table of this belief is that of the chances; ``basket`` is a belief of its own about the amounts.

    Parameters
    ----------
    count : int
        Number of arms.
    dim : int
        Number of features D, constant feature included.
    prior : ndarray of float, [D, D], optional
        Prior precision of the coefficients of the chances; None to learn the prior.
    intercept : bool, default=True
        Whether the first feature is constant.
    """

    schema: ClassVar[dict[str, str]] = GlmArms.schema

    def __init__(self, count: int, dim: int, prior: FloatArray | None = None, intercept: bool = True) -> None:
        super().__init__(count, "bernoulli", dim, prior, intercept)
        self.reward_kind = "hurdle"
        self.basket = BasketArms(count, dim, prior, intercept)

    @property
    def any_reward(self) -> bool:
        """Whether every finite number is a reward: no, amounts are not negative."""
        return False

    def require(self, reward: Any, values: FloatArray) -> None:
        """Raise an error unless these can be rewards; see ``Belief.require``."""
        strange = values < 0.0
        if strange.any():
            index, value = first_index(strange) if np.ndim(reward) else "", float(values[strange][0])
            message = (
                f"reward{index} is {value:.17g}, expected 0 or a positive amount (rewards='hurdle'); "
                "net refunds, or use rewards='gaussian'"
            )
            raise DataError(message, code="wrong-reward", argument="reward", value=value, expected="0 or positive")

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        for name in ("sampling_sd", "delta"):
            if getattr(settings, name) is not None:
                message = f"{name} does not go with rewards='hurdle': use exploration"
                raise ParameterError(message, code="conflicting-arguments", argument=name)
        super().check(settings)

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision; see ``ArmBelief.use``."""
        super().use(settings)
        self._hurdle_rule = _rule(settings)

    # -- decisions -----------------------------------------------------------------------------------------

    def _moments(self, contexts: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return means and sds [k, T] of the log of the expected reward."""
        values = moments_of(self.table, contexts, rows).values
        chance, spread = np.maximum(mean_odds(*values), _LEAST_CHANCE), sd_odds(*values)
        square = (spread / chance) ** 2
        level = np.log(chance)
        if self._basket_known:
            amounts = moments_of(self.basket.table, contexts, rows)
            mean, ratio = positive_moments(amounts.values[0], amounts.sds)
            level += np.log(mean)
            square = square + ratio + square * ratio
        variance = np.log1p(square)
        return level - 0.5 * variance, np.sqrt(variance)

    @property
    def _basket_known(self) -> bool:
        refresh(self.basket.table, np.empty(0, dtype=np.int64))
        return bool(self.basket.table.pool[col.NOISE] > 0.0)

    def decide(
        self, t: int, point: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[int, float, Law | tuple[FloatArray, ScoreRule]] | None:
        """Take one decision; see ``ArmBelief.decide``."""
        if point.shape != (self.table.mean.shape[1] - int(self.intercept),) or not usable(point):
            return None
        context = np.concatenate([np.ones(int(self.intercept)), point])[np.newaxis]
        decided = self._decided(t, context, rows, stream)
        if decided is None:
            return None
        places, scores, mean, sd, scale, among = decided
        drawn = draw_sds(np.stack([mean.T, sd.T]), scale, self.rule.share)[0]
        draws = np.where(among[0], np.nan, 0.0) if len(among) else drawn
        return int(places[0]), float(scores[0]), (np.stack([mean[0], sd[0], draws, 0.0 * draws]), self._hurdle_rule)

    def decide_rows(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray | Callable[[], FloatArray], Law] | None:
        """Take several decisions; see ``ArmBelief.decide_rows``."""
        decided = self._decided(t, contexts, rows, stream)
        if decided is None:
            return None
        places, scores, mean, sd, scale, among = decided
        return places, scores, _rows_law(mean, sd, scale, among, self._hurdle_rule)

    def _decided(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray, BoolArray] | None:
        """Return places and scores [T], moments [T,k] of the scores, scales [T] and choices by rule [L,k]."""
        with np.errstate(all="ignore"):
            mean, sd = (np.ascontiguousarray(one.T) for one in self._moments(contexts, rows))
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            return None
        marks, rule, (count, k) = self.table.marks, self.rule, mean.shape
        mixed, lowest = rule.first > 0 or rule.floor > 0.0, rule.weights.size
        scale = scales(self.table, rule, t, count, contexts.shape[1])
        stream.reserve(count * (k * lowest + mixed))
        block = stream.block[stream.next : stream.next + count * (k * lowest + mixed)]
        stream.next += block.size
        scores = np.empty(count * k)
        spread = draw_sds(np.stack([mean.T, sd.T]), scale, rule.share).reshape(-1)
        draw_scores(mean.reshape(-1), spread, rule.n, rule.weights, block[count * mixed :].copy(), scores)
        scores = scores.reshape(count, k)
        places = scores.argmax(axis=1)
        among = []
        for i in range(count if mixed else 0):
            if lacking(marks, rule.first, rows) > 0:
                among.append(marks[rows, col.TRIES] < rule.first)
            place = forced_place(marks, rule.first, rule.floor, True, rows, float(block[i]))
            places[i] = place if place >= 0 else places[i]
            marks[rows[places[i]], col.TRIES] += 1
        if not mixed:
            marks[:, col.TRIES] += np.bincount(rows[places], minlength=len(marks))
        by_rule = np.array(among, dtype=np.bool_).reshape(len(among), k)
        return places, scores[np.arange(count), places], mean, sd, scale, by_rule

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores in contexts [T, D]; see ``Belief.law``."""
        mean, sd = self._moments(contexts, rows)
        count = len(contexts)
        scale = np.broadcast_to(scales(self.table, self.rule, t, 1, contexts.shape[1]), count)
        return _rows_law(mean.T, sd.T, scale, self._lacking(rows, settings, count), _rule(settings))

    # -- rewards -------------------------------------------------------------------------------------------

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``."""
        sold = rewards > 0.0
        if not sold.any():
            super().learn(contexts, rows, rewards, weights)
            return
        own = np.unique(rows[sold])
        with self.all_or_none(np.unique(rows)), self.basket.all_or_none(own):  # the basket is judged at its end
            self.basket.learn(contexts[sold], rows[sold], rewards[sold], weights[sold])
            refresh(self.basket.table, np.arange(len(self.pulls)))  # all are judged: noises depend on each other
            super().learn(contexts, rows, sold.astype(np.float64), weights)

    def may_overflow(self, contexts: FloatArray) -> bool:
        """Return whether scores may not be finite; see ``Belief.may_overflow``."""
        return super().may_overflow(contexts) or self.basket.may_overflow(contexts)

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        super().forget(factor)
        self.basket.forget(factor)

    @property
    def faded(self) -> bool:
        """Whether evidence has been forgotten."""
        return self.basket.faded

    def solve_again(self) -> None:
        """Take what was solved from the sums to be unknown; see ``Belief.solve_again``."""
        super().solve_again()
        self.basket.solve_again()

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by a log; see ``Belief.fit``."""
        sold, basket = rewards > 0.0, copy.deepcopy(self.basket)
        basket.clear()
        basket.learn(contexts[sold], rows[sold], rewards[sold], weights[sold])
        super().fit(contexts, rows, sold.astype(np.float64), weights)
        self.basket = basket

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``; see ``Belief.contradiction``."""
        baskets = other.basket, None if since is None else since.basket
        return super().contradiction(other, since, matches) or self.basket.contradiction(*baskets, matches)

    def _merge(self, other: Self, since: Self | None, matches: Sequence[Match]) -> None:
        super()._merge(other, since, matches)
        self.basket.merge(other.basket, None if since is None else since.basket, matches)

    # -- rows ----------------------------------------------------------------------------------------------

    def add_row(self, prior: tuple[FloatArray, FloatArray] | None = None) -> None:
        """Add an arm without data; see ``ArmBelief.add_row``."""
        super().add_row(prior)
        self.basket.add_row()

    def remove_row(self, row: int) -> None:
        """Remove an arm, and a prior of its own; see ``ArmBelief.remove_row``."""
        super().remove_row(row)
        self.basket.remove_row(row)

    # -- what it says --------------------------------------------------------------------------------------

    @property
    def noise_sd(self) -> float | None:
        """Sd of baskets around their mean; None while it is unknown."""
        return self.basket.noise_sd

    def slopes(self, context: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means [A, D] and covariances [A, D, D] of the slopes of log(p m); see ``ArmBelief.slopes``."""
        theta, spread = self.coefficients()
        rest = 1.0 - mean_odds(theta @ context, np.zeros(len(theta)))[:, np.newaxis]
        theta, spread = rest * theta, (rest * rest)[:, :, np.newaxis] * spread
        if not self._basket_known:
            return theta, spread
        beta, wide = self.basket.coefficients()
        size = np.einsum("aij,i,j->a", wide, context, context) ** 0.5
        mean = positive_moments(beta @ context, size)[0][:, np.newaxis]
        return theta + beta / mean, spread + wide / (mean * mean)[:, :, np.newaxis]

    def summary(self) -> dict[str, Any]:
        """Return what is known, as plain arrays; see ``Belief.summary``. Coefficients of baskets follow the others."""
        mean, covariance = self.coefficients()
        beta, wide = self.basket.coefficients()
        size = mean.shape[1]
        both = np.zeros((len(mean), 2 * size, 2 * size))
        both[:, :size, :size], both[:, size:, size:] = covariance, wide
        return super().summary() | {"mean": np.concatenate([mean, beta], axis=1), "covariance": both}

    def tallies(self) -> dict[str, IntArray]:
        """Return numbers [A] by name: of decisions, rewards and purchases of every arm."""
        return super().tallies() | {"purchases": self.basket.pulls.copy()}

    def posterior(self, row: int) -> Any:
        """Return a copy of the two posteriors of one arm; see ``Belief.posterior``."""
        known = self._basket_known
        return HurdlePosterior(self._glm_posterior(row, "bernoulli"), self.basket.posterior(row) if known else None)

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def axes(self) -> dict[str, str]:
        """Nothing: baskets have sums of their own; see ``Belief.axes``."""
        return {}

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        return super().arrays() | {_PREFIX + name: field for name, field in self.basket.arrays().items()}

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        baskets = {name.removeprefix(_PREFIX): field for name, field in arrays.items() if name.startswith(_PREFIX)}
        super().restore(values, {name: field for name, field in arrays.items() if not name.startswith(_PREFIX)})
        self.basket.restore(values, baskets)
        if (self.basket.pulls > self.pulls).any():
            raise ValueError("an arm has more purchases than rewards")


def positive_moments(mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of a normal variable truncated at 0, and the square of its coefficient of variation.

    Parameters
    ----------
    mean, sd : ndarray of float
        Moments of the normal variable.

    Returns
    -------
    tuple of ndarray of float
        Mean, and variance over its square.

    Examples
    --------
    >>> mean, ratio = positive_moments(np.array([0.0, 10.0]), np.array([1.0, 1.0]))   # half a normal; hardly truncated
    >>> mean, ratio
    (array([ 0.7979, 10.    ]), array([0.5708, 0.01  ]))
    """
    from scipy.special import log_ndtr

    sd = np.maximum(sd, 1e-300)
    z = mean / sd
    near = np.maximum(z, _DEEP)
    hazard = np.exp(-0.5 * near * near - 0.5 * math.log(2.0 * math.pi) - log_ndtr(near))
    centre, variance = near + hazard, 1.0 - hazard * (near + hazard)
    u = 1.0 / np.minimum(z, _DEEP) ** 2  # far below zero it is nearly exponential, with the mean sd / |z|
    deep = z < _DEEP
    centre = np.where(deep, np.sqrt(u) * (1.0 - 2.0 * u + 10.0 * u**2 - 74.0 * u**3), centre)
    variance = np.where(deep, u * (1.0 - 6.0 * u + 50.0 * u**2 - 518.0 * u**3), variance)
    return sd * centre, np.maximum(variance, 0.0) / (centre * centre)


def _rule(settings: BanditSettings) -> ScoreRule:
    """Return how scores are made of draws; a score is a log rate."""
    return score_rule(settings, COUNTS)


def _rows_law(mean: FloatArray, sd: FloatArray, scale: FloatArray, among: BoolArray, rule: ScoreRule) -> NormalRows:
    """Return the law of normal scores with moments [T, k]."""
    blank, values = np.empty(0), np.stack([mean.T, sd.T])
    moments = Moments(blank, blank, blank, blank.astype(np.int64), blank, np.zeros(len(values[0])), values)
    return NormalRows(moments, scale, among, rule)
