r"""Importance weights of episodes, and the estimators that are sums of ratios of means.

Episode i has the actions a_t, rewards r_t and the ratios rho_t = pi(a_t|s_t) / p_t of the target and of the policy
that acted. Its weight up to step t is W_t = rho_0 ... rho_t, with W_-1 = 1; after the end of an episode W stays as it
is and rewards are 0. With values Q(s, a) of the target and V(s) = sum_a pi(a|s) Q(s, a), which may be any functions
that were not fitted to the episode, and means over the n episodes:

    is     mean of W_H sum_t gamma^t r_t                                             unbiased
    wis    the same over the mean of W_H
    pdis   mean of sum_t gamma^t W_t r_t                                             unbiased
    wpdis  sum_t (mean of gamma^t W_t r_t) / (mean of W_t)
    dr     mean of sum_t gamma^t (W_t (r_t - Q(s_t, a_t)) + W_t-1 V(s_t))            unbiased, whatever Q
    wdr    the same as sum_t of two ratios, over the mean of W_t and over that of W_t-1

(Precup, Sutton and Singh 2000; Jiang and Li 2016; Thomas and Brunskill 2016). Each is v = sum_k mean(x_k) / mean(d_k)
with columns x, d [n, K]: ``RatioSum``. To first order the error of v is the mean of the influences

    psi_i = sum_k (x_ik - d_ik X_k / D_k) / D_k,      X_k, D_k the means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...types import FloatArray
from .log import EpisodeLog

LARGEST_LOG = 230.0  # of a weight: e^230 is 1e100, and its square is finite


class Weights(NamedTuple):
    """Importance weights.

    Attributes
    ----------
    upto : float64 [n, H]
        Weight of each episode up to and with each step; after the end of an episode it stays as it is.
    before : float64 [n, H]
        Weight up to the step before, 1 at the first.
    ratio : float64 [M]
        Ratio of the two probabilities in each row.
    """

    upto: FloatArray
    before: FloatArray
    ratio: FloatArray

    @classmethod
    def of(cls, log: EpisodeLog, ratio: FloatArray) -> Weights:
        """Return the weights of the rows' ratios [M]."""
        table = log.padded(ratio, 1.0)
        with np.errstate(divide="ignore"):
            logs = np.cumsum(np.log(table), axis=1)
        upto = np.exp(np.minimum(logs, LARGEST_LOG))
        return cls(upto, np.concatenate((np.ones((log.n, 1)), upto[:, :-1]), axis=1), ratio)

    @property
    def last(self) -> FloatArray:
        """Weights of whole episodes [n]."""
        return self.upto[:, -1]


class RatioSum(NamedTuple):
    """An estimate that is a sum of ratios of means over episodes.

    Attributes
    ----------
    top : float64 [n, K]
        Terms of the numerators.
    bottom : float64 [n, K] or None
        Terms of the denominators; None if all are 1.
    """

    top: FloatArray
    bottom: FloatArray | None

    @property
    def value(self) -> float:
        """The estimate; NaN if a denominator is 0."""
        means = self.top.mean(axis=0)
        if self.bottom is None:
            return float(means.sum())
        below = self.bottom.mean(axis=0)
        return float((means / np.where(below > 0.0, below, np.nan)).sum())

    @property
    def influence(self) -> FloatArray:
        """Influence of each episode [n]; their mean is zero."""
        if self.bottom is None:
            sums = self.top.sum(axis=1)
            return np.asarray(sums - sums.mean())
        below = self.bottom.mean(axis=0)
        below = np.where(below > 0.0, below, np.nan)
        return np.asarray(((self.top - self.bottom * (self.top.mean(axis=0) / below)) / below).sum(axis=1))


def effective(weights: FloatArray) -> float:
    """Return the effective number of rows of these weights: (sum w)^2 / sum w^2.

    >>> effective(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    top = float(weights.max(initial=0.0))
    if not top > 0.0:
        return 0.0
    scaled = weights / top
    return float(scaled.sum() ** 2 / (scaled @ scaled))


def weighted_estimates(
    log: EpisodeLog, weights: Weights, discount: float, q: FloatArray | None, v: FloatArray | None
) -> dict[str, RatioSum]:
    """Return is, wis, pdis and wpdis, and with values ``q``, ``v`` [M] of the rows dr and wdr."""
    factor = discount ** np.arange(log.longest)
    reward = log.padded(log.reward) * factor
    earned = reward.sum(axis=1)
    last = weights.last
    found = {
        "is": RatioSum((last * earned)[:, np.newaxis], None),
        "wis": RatioSum((last * earned)[:, np.newaxis], last[:, np.newaxis]),
        "pdis": RatioSum((weights.upto * reward).sum(axis=1)[:, np.newaxis], None),
        "wpdis": RatioSum(weights.upto * reward, weights.upto),
    }
    if q is not None and v is not None:
        rest = weights.upto * (log.padded(log.reward - q) * factor)
        known = weights.before * (log.padded(v) * factor)
        found["dr"] = RatioSum((rest + known).sum(axis=1)[:, np.newaxis], None)
        both = np.concatenate((rest, known), axis=1)
        found["wdr"] = RatioSum(both, np.concatenate((weights.upto, weights.before), axis=1))
    return found
