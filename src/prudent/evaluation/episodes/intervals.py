r"""Intervals of estimates over episodes: the studentised bootstrap, and limits that hold at every number of episodes.

**Bootstrap.** Episodes are drawn with replacement, never rows. Each replicate gives the estimate v* and its standard
error s*, both from the influences of the drawn episodes, and the interval is v - q s with the quantiles q of
(v* - v) / s*. It is right to second order for skewed estimates, such as sums of weights (Hall 1992). Estimates that are
no sums of ratios (tables of states) are replicated by the mean of their influences.

**Betting.** Weights have mean one and returns lie in [lo, hi]. So X = W (G - lo) >= 0 has the mean v - lo, and
Y = W (hi - G) >= 0 has the mean hi - v. For a number X >= 0 with mean m, prod (1 + b (X_i - m)) is a non-negative
martingale for every b < 1 / m, and so is a mixture over b. An m at which it exceeds 1 / delta is refuted with
confidence 1 - delta (Ville), and all smaller ones are as well, because with b = c / m the product falls with m. That
needs no bound on the weights, which the limits of Thomas, Theocharous and Ghavamzadeh (2015) have to cut off. See
Waudby-Smith and Ramdas (2024).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ...types import FloatArray
from .weights import RatioSum

CHUNK = 2_000_000  # numbers of a chunk of replicates
KEPT = 20_000_000  # numbers of all chunks together that are kept
BETS = 12  # sizes of bets, each half of the one before


class Interval(NamedTuple):
    """An interval and the standard error that it rests on."""

    low: float
    high: float
    error: float


class Resamples:
    """How often each of ``n`` episodes is drawn, in chunks [B, n] with ``draws`` replicates in all.

    Chunks are kept while they are small, and else drawn again in every pass.
    """

    def __init__(self, n: int, draws: int, rng: np.random.Generator) -> None:
        self.n, self.draws = n, draws
        self._seed = int(rng.integers(2**63))
        self._kept = list(self._drawn()) if n * draws <= KEPT else None

    def __iter__(self) -> Iterator[FloatArray]:
        return iter(self._drawn() if self._kept is None else self._kept)

    def _drawn(self) -> Iterator[FloatArray]:
        rng, n = np.random.default_rng(self._seed), self.n
        size = max(1, min(self.draws, CHUNK // n))
        for begin in range(0, self.draws, size):
            count = min(size, self.draws - begin)
            picked = rng.integers(0, n, (count, n)) + np.arange(count)[:, np.newaxis] * n
            yield np.bincount(picked.reshape(-1), minlength=count * n).reshape(count, n).astype(np.float64)


def student(value: float, influence: FloatArray, extra: float, confidence: float) -> Interval:
    """Return the interval by Student's law; ``extra`` is variance that the influences do not show."""
    n = influence.size
    if n < 2 or not math.isfinite(value):
        return Interval(-math.inf, math.inf, math.nan)
    error = math.sqrt(float(influence.var(ddof=1)) / n + extra)
    half = float(stdtrit(n - 1, 0.5 + 0.5 * confidence)) * error
    return Interval(value - half, value + half, error)


def bootstrap(estimate: RatioSum, chunks: Resamples, confidence: float) -> Interval:
    """Return the studentised interval of a sum of ratios, over replicates of the episodes."""
    value, influence = estimate.value, estimate.influence
    plain = student(value, influence, 0.0, confidence)
    if not (math.isfinite(value) and plain.error > 0.0):
        return plain
    n = influence.size
    scores = []
    for counts in chunks:
        top = counts @ estimate.top / n  # [B, K]
        if estimate.bottom is None:
            values = top.sum(axis=1)
            squares = counts @ estimate.top.sum(axis=1) ** 2 / n - values**2
        else:
            below = counts @ estimate.bottom / n
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.where(below > 0.0, top / below, np.nan)
                scale = np.where(below > 0.0, 1.0 / below, np.nan)
            values = rate.sum(axis=1)
            each = scale @ estimate.top.T - (rate * scale) @ estimate.bottom.T  # [B, n]
            squares = (counts * each**2).sum(axis=1) / n
        with np.errstate(divide="ignore", invalid="ignore"):
            scores.append((values - value) / np.sqrt(np.maximum(squares, 0.0) / n))
    return _studentised(plain, value, np.concatenate(scores), n, confidence)


def bootstrap_mean(value: float, influence: FloatArray, extra: float, chunks: Resamples, confidence: float) -> Interval:
    """Return the studentised interval of an estimate with these influences [n], replicated by their means."""
    plain = student(value, influence, extra, confidence)
    if not (math.isfinite(value) and plain.error > 0.0):
        return plain
    centred, n = influence - influence.mean(), influence.size
    scores = []
    for counts in chunks:
        means = counts @ centred / n
        squares = np.maximum(counts @ centred**2 / n - means**2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores.append(means / np.sqrt(squares / n))
    return _studentised(plain, value, np.concatenate(scores), n, confidence)


def _studentised(plain: Interval, value: float, scores: FloatArray, n: int, confidence: float) -> Interval:
    """Return the interval of studentised replicates; a replicate without spread is as far away as can be."""
    tail = 0.5 * (1.0 - confidence)
    clean = np.nan_to_num(scores, nan=0.0, posinf=1e6, neginf=-1e6)
    # of B + 1 exchangeable scores one falls between those of rank p (B + 1) and (1 - p) (B + 1) with chance 1 - 2 p
    low, high = np.quantile(clean, (1.0 - tail, tail), method="weibull")
    adjust = math.sqrt(n / max(n - 1, 1))
    return Interval(value - float(low) * plain.error / adjust, value - float(high) * plain.error / adjust, plain.error)


def betting_limit(values: FloatArray, delta: float) -> float:
    """Return a lower limit with confidence 1 - ``delta`` for the mean of numbers >= 0.

    >>> round(betting_limit(np.array([0.0, 1.0] * 500), 0.025), 2)
    0.45
    """
    bets = 0.9 * 0.5 ** np.arange(BETS)
    goal = math.log(BETS / delta)
    distinct, counts = np.unique(values, return_counts=True)
    low, high = 0.0, float(values.mean())
    while high - low > 1e-6 * high:
        m = 0.5 * (low + high)
        capital = [float(counts @ np.log1p(bet * (distinct / m - 1.0))) for bet in bets.tolist()]
        low, high = (m, high) if float(np.logaddexp.reduce(capital)) >= goal else (low, m)
    return low


def safe_limits(weights: FloatArray, returns: FloatArray, ends: tuple[float, float], confidence: float) -> Interval:
    """Return limits of the value that hold for every distribution of weights, if returns [n] stay within ``ends``."""
    low, high = ends
    delta = 0.5 * (1.0 - confidence)
    below = betting_limit(weights * (returns - low), delta)
    above = betting_limit(weights * (high - returns), delta)
    return Interval(min(low + below, high), max(high - above, low), math.nan)
