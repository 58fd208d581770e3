"""Standard errors and confidence intervals: one function for each.

Draws or replications are the first axis, [N, ...], unless a function has ``axis``. Standard errors of an
``Estimate`` are those of large samples, and NaN for a single draw:

    mean                    sd / sqrt(N)
    standard deviation      sd sqrt((m4 - 1) / (4 N)), m4 the fourth moment of the standardised draws
    quantile                half of Q(q + e) - Q(q - e), e = sqrt(q (1 - q) / N) (Woodruff's interval)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from ..types import ArrayLike, FloatArray


class Estimate(NamedTuple):
    """Estimates and their Monte Carlo standard errors, arrays of one shape."""

    value: FloatArray
    error: FloatArray


def estimate_mean(draws: FloatArray) -> Estimate:
    """Return the mean over draws.

    >>> [float(number) for number in estimate_mean(np.array([1.0, 2.0, 3.0]))]
    [2.0, 0.5774]
    """
    return Estimate(draws.mean(axis=0), _spread(draws) / np.sqrt(draws.shape[0]))


def estimate_standard_deviation(draws: FloatArray) -> Estimate:
    """Return the standard deviation over draws.

    >>> float(estimate_standard_deviation(np.array([1.0, 2.0, 3.0])).value)
    1.0
    """
    sd = _spread(draws)
    standard = (draws - draws.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)  # no spread, no error
    excess = np.maximum((standard**4).mean(axis=0) - 1.0, 0.0)
    return Estimate(sd, sd * np.sqrt(excess / (4.0 * draws.shape[0])))


def estimate_quantiles(draws: FloatArray, quantiles: Sequence[float]) -> Estimate:
    """Return the quantiles with these probabilities [Q], as the first axis.

    >>> estimate_quantiles(np.linspace(0.0, 1.0, 101), [0.05, 0.5]).value
    array([0.05, 0.5 ])
    """
    at = np.asarray(quantiles, dtype=np.float64)
    reach = np.sqrt(at * (1.0 - at) / draws.shape[0])
    low, high = (np.quantile(draws, np.clip(at + sign * reach, 0.0, 1.0), axis=0) for sign in (-1.0, 1.0))
    error = 0.5 * (high - low)
    return Estimate(np.quantile(draws, at, axis=0), error if draws.shape[0] > 1 else np.full_like(error, np.nan))


def mean_and_half_width(
    values: ArrayLike, confidence: float, comparisons: int = 1, axis: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return the mean over replications, along ``axis``, and the half width of its interval by Student's t.

    With several ``comparisons`` the confidence is that of all their intervals together (Bonferroni). The half width of
    a single replication is NaN.

    >>> mean, half = mean_and_half_width([1.0, 2.0, 3.0], 0.95)
    >>> float(mean), float(half)
    (2.0, 2.4841)
    """
    data = np.asarray(values, dtype=np.float64)
    count = data.shape[axis]
    mean = data.mean(axis=axis)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    error = data.std(axis=axis, ddof=1) / np.sqrt(count)
    return mean, error * student_factor(count, confidence, comparisons)


def student_factor(count: int, confidence: float, comparisons: int = 1) -> float:
    """Return the half width of Student's interval of a mean of ``count`` values, in standard errors (Bonferroni).

    >>> round(student_factor(3, 0.95), 3)
    4.303
    """
    return float(stdtrit(count - 1, 1.0 - (1.0 - confidence) / (2.0 * comparisons)))


def normal_half_width(variance: float, count: int, confidence: float) -> float:
    """Return half the normal interval of a mean of ``count`` rows; infinite for a single row.

    >>> round(normal_half_width(4.0, 100, 0.95), 3)
    0.392
    """
    if count < 2 or math.isnan(variance):
        return math.inf
    return float(ndtri(0.5 + 0.5 * confidence)) * math.sqrt(max(variance, 0.0) / count)


def _spread(draws: FloatArray) -> FloatArray:
    """Return the standard deviation over draws, NaN for a single draw."""
    if draws.shape[0] < 2:
        return np.full(draws.shape[1:], np.nan)
    return np.asarray(draws.std(axis=0, ddof=1))
