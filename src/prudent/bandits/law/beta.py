"""Arms without context that pay 0 or 1: the exact law of their scores, and the chance that one is the highest.

With no features the logistic model has a conjugate prior: the chance of arm a is Beta(successes, failures), and nothing
is approximate (``posteriors.scalar.BetaPosterior``). A score is the j-th lowest of n draws: the lowest at levels where
n = 1 / (1 - alpha) is an integer, the second lowest else (the modified estimator), and counted from the top at
negative levels. If I is the cdf of a draw, that of a score is the regularized incomplete beta function of
(j, n - j + 1) at I, so one uniform and two inverse functions draw it at any alpha. Scores are kept as log odds,
t = log(x / (1 - x)), which are numbers where chances round to 0 or 1.

Scores are independent: the chance that arm a is the highest is the integral over t of its density times the product of
the others' cdfs. In t all densities are smooth. ``prudent.bandits.kernels.highest`` integrates them in microseconds.
All chances must sum to one: what is missing is their error. Where that shows, cdfs are incomplete beta functions
instead. Each density is wide where its own quantiles are, so the quantiles of all arms are the edges of Gauss-Legendre
panels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss

from ..._support.checks import BoolArray, FloatArray, IntArray, refuse
from ...errors import ParameterError
from ...risk import ModifiedCVaR, sample_size
from ..kernels.highest import FARTHEST, highest_chances, peaks, scores_of
from .base import Law

_LEAST_COUNT = 0.05  # below it scores leave the range of numbers
_EDGES = np.array([1e-17, 1e-12, 1e-8, 1e-5, 1e-3, 0.02, 0.1, 0.3, 0.5])
_NODES, _WEIGHTS = leggauss(16)
_LARGEST_DEFECT = 1e-9  # of the sum of chances, up to which they are exact for our purposes


class BetaLaw(Law):
    """Law of the scores of k arms that pay 1 with a Beta-distributed chance; scores are log odds.

    Parameters
    ----------
    successes, failures : ndarray of float, [k]
        Parameters of the Beta laws.
    alpha : float
        Risk level.
    floor : float, default=0
        Smallest probability of an arm.
    among : ndarray of bool, [L, k], optional
        The arms between which the first L choices are uniform by rule.
    rows : int, optional
        Number T of decisions; None for one, of which arrays have no first axis.

    Examples
    --------
    >>> law = BetaLaw(np.array([2.0, 1.0]), np.array([1.0, 1.0]), alpha=0.0)
    >>> law.chances()                                       # 2/3 of two uniforms is the chance of the higher one
    array([0.6667, 0.3333])
    """

    def __init__(
        self,
        successes: FloatArray,
        failures: FloatArray,
        alpha: float,
        floor: float = 0.0,
        among: BoolArray | None = None,
        rows: int | None = None,
    ) -> None:
        self.counts = np.empty((3, successes.size))  # successes, failures, and what kernels make of them
        self.counts[0], self.counts[1] = successes, failures
        if not peaks(self.counts) >= _LEAST_COUNT:  # NaN is not
            for name, counts in (("successes", successes), ("failures", failures)):
                if not counts.min() >= _LEAST_COUNT:
                    refuse(~(counts >= _LEAST_COUNT), counts, name, f"at least {_LEAST_COUNT}", error=ParameterError)
        self.successes, self.failures, self.floor = self.counts[0], self.counts[1], floor
        self.n, self.place, self._log_order = _order(alpha)
        self._rows = rows
        self._chances: FloatArray | None = None  # of arms to have the highest score
        self._one: dict[int, float] = {}  # that of some, by itself
        self._among = np.zeros((0, successes.size), dtype=np.bool_) if among is None else among

    def _tiled(self, values: FloatArray) -> FloatArray:
        return values if self._rows is None else np.tile(values, (self._rows, 1))

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the log odds, [k] or [T, k]."""
        from scipy.special import digamma

        return self._tiled(digamma(self.successes) - digamma(self.failures))

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviations of the log odds, [k] or [T, k]."""
        from scipy.special import polygamma

        return self._tiled(np.sqrt(polygamma(1, self.successes) + polygamma(1, self.failures)))

    def chances(self) -> FloatArray:
        """Return the exact probability of every arm to be chosen, [k] or [T, k]."""
        count = len(self._among)
        uniform = self._among / np.maximum(self._among.sum(axis=1, keepdims=True), 1)
        if count and count == (self._rows or 1):
            return uniform[0] if self._rows is None else uniform
        chances = self._tiled(self.floor + (1.0 - self.floor * self.successes.size) * self._highest())
        if self._rows is not None:
            chances[:count] = uniform
        return chances

    def chance(self, place: int) -> float:
        """Return the exact probability that one arm is chosen."""
        if self._rows is not None or len(self._among):
            return super().chance(place)
        found = self._one.get(place)
        if found is None:
            found = self._one[place] = min(max(float(self._integrated(place)[place]), 0.0), 1.0)
        return self.floor + (1.0 - self.floor * self.successes.size) * found

    def _highest(self) -> FloatArray:
        """Return the chance [k] of every arm to have the highest score; they sum to one."""
        if self._chances is None:
            chances = self._integrated(-1)
            total = float(chances.sum())
            near = abs(total - 1.0) < _LARGEST_DEFECT
            self._chances = chances / total if near else self.highest_by_cdfs()
        return self._chances

    def _integrated(self, only: int) -> FloatArray:
        """Return the chance [k] of every arm, or that of one arm at its place, by panels of log odds."""
        chances = np.empty(self.successes.size)
        highest_chances(self.counts, self.n, self.place, self._log_order, only, chances)
        return chances

    def highest_by_cdfs(self) -> FloatArray:
        """Return the same by incomplete beta functions: slower, and right for millions of rewards as well.

        Returns
        -------
        ndarray of float, [k]
            Probabilities, which sum to one.
        """
        from scipy import special

        edges, j, left = _EDGES[:, np.newaxis], self.place, self.n - self.place
        # upper quantiles are minus the lower ones of the arms with successes and failures exchanged
        mirrored = -_log_odds(self.failures, self.successes, self.n, left + 1, edges)
        edges = np.unique(np.concatenate([_log_odds(self.successes, self.failures, self.n, j, edges), mirrored]))
        middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
        t = (middle[:, np.newaxis] + half[:, np.newaxis] * _NODES).reshape(-1)  # [T]
        mass = (half[:, np.newaxis] * _WEIGHTS).reshape(-1)
        a, b = self.successes[:, np.newaxis], self.failures[:, np.newaxis]
        x, y = special.expit(t), special.expit(-t)
        draw_cdf = np.where(t < 0.0, special.betainc(a, b, x), special.betaincc(b, a, y))
        draw_rest = np.where(t < 0.0, special.betaincc(a, b, x), special.betainc(b, a, y))
        log_density = a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)
        cdf = special.betainc(j, left + 1, draw_cdf)
        log_order = special.xlogy(j - 1, draw_cdf) + special.xlogy(left, draw_rest) - special.betaln(j, left + 1)
        density = np.exp(log_density + log_order)
        before = np.cumprod(np.vstack([np.ones_like(t), cdf[:-1]]), axis=0)
        behind = np.cumprod(np.vstack([np.ones_like(t), cdf[:0:-1]]), axis=0)[::-1]
        chances = (density * before * behind) @ mass
        return np.asarray(chances / chances.sum())

    def draw(self, uniforms: FloatArray) -> FloatArray:
        """Return scores made of uniforms.

        Parameters
        ----------
        uniforms : ndarray of float, [N, k]
            Numbers in (0, 1).

        Returns
        -------
        ndarray of float, [N, k]
            Scores.
        """
        rows = np.ascontiguousarray(np.atleast_2d(uniforms))
        scores = np.empty(rows.shape)
        scores_of(self.counts, self.n, self.place, rows, scores)
        return scores.reshape(uniforms.shape)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return simulated scores [N, k]."""
        counts = np.stack([self.successes, self.failures])
        gammas = rng.standard_gamma(counts, (count, self.n, *counts.shape))
        return np.asarray(np.sort(np.log(gammas[:, :, 0]) - np.log(gammas[:, :, 1]), axis=1)[:, self.place - 1])

    @property
    def sample_entries(self) -> int:
        """Numbers that one simulated decision takes in memory."""
        return 2 * self.n * self.successes.size

    def uniform(self) -> IntArray | None:
        """Return the positions of the arms between which the first choice is uniform by rule."""
        return np.flatnonzero(self._among[0]) if len(self._among) else None

    def response(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd of the chance of a 1, [k] or [T, k] each."""
        a, b = self.successes, self.failures
        mean = a / (a + b)
        return self._tiled(mean), self._tiled(np.sqrt(mean * (1.0 - mean) / (a + b + 1.0)))

    def shortfall(self, alpha: float) -> FloatArray:
        """Return CVaR of the log odds at a risk level, [k] or [T, k]."""
        a, b = self.successes, self.failures
        if alpha == 0.0:
            return self.mean
        # at negative levels it is minus that of the negated log odds, which are those of a failure
        return self._tiled(_shortfall(a, b, alpha) if alpha > 0.0 else -_shortfall(b, a, -alpha))


@lru_cache(256)
def _order(alpha: float) -> tuple[int, int, float]:
    """Return the number of draws of a score, which of them counts, from the lowest, and the size of its law."""
    from scipy.special import betaln

    n = sample_size(alpha)
    outermost = ModifiedCVaR(alpha).outermost(n)
    place = int(np.flatnonzero(outermost.weights)[0]) + 1
    place = place if outermost.sign > 0.0 else n - place + 1
    return n, place, float(betaln(place, n - place + 1))


def _log_odds(successes: FloatArray, failures: FloatArray, n: int, place: int, uniforms: FloatArray) -> FloatArray:
    """Return scores as log odds, made of uniforms in (0, 1), [k] or [N, k]."""
    from scipy import special

    # the draw's place in its own law, and what is above it, each without cancellation
    below, above = uniforms, 1.0 - uniforms
    if n > 1:
        below = special.betaincinv(place, n - place + 1, uniforms)
        above = special.betaincinv(n - place + 1, place, above)
    low = below < 0.5
    side = special.betaincinv(
        np.where(low, successes, failures), np.where(low, failures, successes), np.where(low, below, above)
    )
    with np.errstate(divide="ignore"):  # beyond the farthest
        odds = np.log(side) - np.log1p(-side)
    np.negative(odds, out=odds, where=~low)
    return np.asarray(np.minimum(np.maximum(odds, -FARTHEST), FARTHEST))


def _shortfall(successes: FloatArray, failures: FloatArray, alpha: float) -> FloatArray:
    """Return CVaR of log odds [k]: an integral of quantiles, in log odds of their probability."""
    from scipy.special import expit

    t = np.arange(-36.0, 36.0, 0.05)  # a trapezoid rule: u = (1 - alpha) expit(t)
    mass = expit(t) * expit(-t) * 0.05
    return np.asarray(mass @ _log_odds(successes, failures, 1, 1, (1.0 - alpha) * expit(t)[:, np.newaxis]))
