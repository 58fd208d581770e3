"""Arms without context that pay 0 or 1: the exact law of their scores, and the chance that one is the highest.

With no features the logistic model has a conjugate prior: the chance of arm a is Beta(successes, failures), and nothing
is approximate (``posteriors.scalar.BetaPosterior``). A score is the j-th lowest of n draws: the lowest at levels where
n = 1 / (1 - alpha) is whole, the second lowest else (the modified estimator), and counted from the top at negative
levels. If I is the cdf of a draw, that of a
score is the regularized incomplete beta function of (j, n - j + 1) at I, so one uniform and two inverse functions draw
it at any alpha. Scores are kept as log odds, t = log(x / (1 - x)), which are numbers where chances round to 0 or 1.

Scores are independent: the chance that arm a is the highest is the integral over t of its density times the product of
the others' cdfs. In t all densities are smooth; each is wide where its own quantiles are, so the quantiles of all arms
are the edges of Gauss-Legendre panels. The chances must sum to one: what is missing is their error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from .._support.checks import FloatArray, refuse
from ..errors import ParameterError
from ..risk import ModifiedCVaR, sample_size

__all__ = ["BetaScores", "beta_scores"]


_LEAST_COUNT = 0.05  # below it scores leave the range of numbers
_FARTHEST = 700.0  # log odds beyond which no arm has a chance of 1e-15
_EDGES = np.array([1e-17, 1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.1, 0.3, 0.5])
_NODES, _WEIGHTS = leggauss(16)


class BetaScores(NamedTuple):
    """Scores of k arms: the ``place``-th lowest of ``n`` draws of Beta(successes, failures)."""

    successes: FloatArray  # [k]
    failures: FloatArray  # [k]
    n: int
    place: int  # 1 is the lowest

    def scores(self, uniforms: FloatArray) -> FloatArray:
        """Return scores [k] as log odds, made of uniforms [k] in (0, 1)."""
        from scipy import special

        a, b = self.successes, self.failures
        # the draw's place in its own law, and what is above it, each without cancellation
        below = special.betaincinv(self.place, self.n - self.place + 1, uniforms)
        above = special.betaincinv(self.n - self.place + 1, self.place, 1.0 - uniforms)
        low, high = special.betaincinv(a, b, below), special.betaincinv(b, a, above)
        with np.errstate(divide="ignore"):  # of the one that is not taken, or beyond the farthest
            odds = np.where(below < 0.5, np.log(low) - np.log1p(-low), np.log1p(-high) - np.log(high))
        return np.clip(odds, -_FARTHEST, _FARTHEST)

    def chances(self) -> FloatArray:
        """Return the chance [k] of each arm to have the highest score; they sum to one."""
        from scipy import special

        # upper quantiles are minus the lower ones of the arms with successes and failures exchanged
        mirrored = BetaScores(self.failures, self.successes, self.n, self.n - self.place + 1)
        lower, upper = ([law.scores(np.full(len(self.successes), p)) for p in _EDGES] for law in (self, mirrored))
        edges = np.unique(np.concatenate([*lower, *(-end for end in upper)]))
        middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
        t = (middle[:, np.newaxis] + half[:, np.newaxis] * _NODES).reshape(-1)  # [T]
        mass = (half[:, np.newaxis] * _WEIGHTS).reshape(-1)
        a, b = self.successes[:, np.newaxis], self.failures[:, np.newaxis]
        x, y = special.expit(t), special.expit(-t)
        draw_cdf = np.where(t < 0.0, special.betainc(a, b, x), special.betaincc(b, a, y))
        draw_rest = np.where(t < 0.0, special.betaincc(a, b, x), special.betainc(b, a, y))
        log_density = a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)
        j, left = self.place, self.n - self.place
        cdf = special.betainc(j, left + 1, draw_cdf)
        log_order = special.xlogy(j - 1, draw_cdf) + special.xlogy(left, draw_rest) - special.betaln(j, left + 1)
        density = np.exp(log_density + log_order)
        before = np.cumprod(np.vstack([np.ones_like(t), cdf[:-1]]), axis=0)
        behind = np.cumprod(np.vstack([np.ones_like(t), cdf[:0:-1]]), axis=0)[::-1]
        chances = (density * before * behind) @ mass
        return chances / chances.sum()


def beta_scores(successes: FloatArray, failures: FloatArray, alpha: float) -> BetaScores:
    """Return the scores of arms with chances Beta(successes, failures), [k] each, at a risk level.

    >>> law = beta_scores(np.array([2.0, 1.0]), np.array([1.0, 1.0]), alpha=0.0)
    >>> law.chances()                                       # 2/3 of two uniforms is the chance of the higher one
    array([0.6667, 0.3333])
    """
    n = sample_size(alpha)
    outermost = ModifiedCVaR(alpha).outermost(n)
    place = int(np.flatnonzero(outermost.weights)[0]) + 1
    place = place if outermost.sign > 0.0 else n - place + 1
    for name, counts in (("successes", successes), ("failures", failures)):
        refuse(~(counts >= _LEAST_COUNT), counts, name, f"at least {_LEAST_COUNT}", error=ParameterError)
    return BetaScores(successes, failures, n, place)
