"""What draws say about a distribution: mean, spread, quantiles, CVaR, each with its Monte Carlo standard error.

Draws are the first axis, [N, ...]. Standard errors are those of large samples, and NaN for a single draw:

    mean, and every mean of numbers      sd / sqrt(N)
    standard deviation                   sd sqrt((m4 - 1) / (4 N)), m4 the fourth moment of standardised draws
    quantile                             half of Q(q + e) - Q(q - e), e = sqrt(q (1 - q) / N) (Woodruff's interval)
    CVaR                                 that of the mean of x - (x - z_i)+ / (1 - alpha), x the edge of the tail
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray
from ..risk import CVaR

__all__ = ["Estimate", "cvar", "cvar_terms", "mean", "quantiles", "standard_deviation"]


class Estimate(NamedTuple):
    """Numbers and their Monte Carlo standard errors, of one shape."""

    value: FloatArray
    error: FloatArray


def mean(draws: FloatArray) -> Estimate:
    """Return the mean over draws.

    >>> [float(number) for number in mean(np.array([1.0, 2.0, 3.0]))]
    [2.0, 0.5774]
    """
    return Estimate(draws.mean(axis=0), _spread(draws) / np.sqrt(draws.shape[0]))


def standard_deviation(draws: FloatArray) -> Estimate:
    """Return the standard deviation over draws.

    >>> float(standard_deviation(np.array([1.0, 2.0, 3.0])).value)
    1.0
    """
    sd = _spread(draws)
    standard = (draws - draws.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)  # no spread, no error
    excess = np.maximum((standard**4).mean(axis=0) - 1.0, 0.0)
    return Estimate(sd, sd * np.sqrt(excess / (4.0 * draws.shape[0])))


def quantiles(draws: FloatArray, levels: Sequence[float]) -> Estimate:
    """Return the quantiles at ``levels``, as the first axis.

    >>> quantiles(np.linspace(0.0, 1.0, 101), [0.05, 0.5]).value
    array([0.05, 0.5 ])
    """
    at = np.asarray(levels, dtype=np.float64)
    reach = np.sqrt(at * (1.0 - at) / draws.shape[0])
    low, high = (np.quantile(draws, np.clip(at + sign * reach, 0.0, 1.0), axis=0) for sign in (-1.0, 1.0))
    error = 0.5 * (high - low)
    return Estimate(np.quantile(draws, at, axis=0), error if draws.shape[0] > 1 else np.full_like(error, np.nan))


def cvar(draws: FloatArray, alpha: float) -> Estimate:
    """Return the CVaR of the draws; with fewer than two of them in the tail nothing is known of its error.

    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.9)[1]
    array(nan)
    """
    value, error = mean(cvar_terms(draws, alpha))
    return Estimate(
        value, error if CVaR(alpha).outermost(draws.shape[0]).weights.size > 1 else np.full_like(error, np.nan)
    )


def cvar_terms(draws: FloatArray, alpha: float) -> FloatArray:
    """Return numbers [N, ...] whose mean is the CVaR of the draws, and the error of that mean that of the CVaR.

    Those of paired draws are paired: the error of a difference of two CVaRs is that of the mean of their difference.

    >>> float(cvar_terms(np.array([1.0, 2.0, 3.0, 4.0]), 0.5).mean())
    1.5
    """
    if alpha < 0.0:
        return -cvar_terms(-draws, -alpha)
    last = CVaR(alpha).lowest_weights(draws.shape[0]).size - 1
    edge = np.partition(draws, last, axis=0)[last]
    return np.asarray(edge - np.maximum(edge - draws, 0.0) / (1.0 - alpha))


def _spread(draws: FloatArray) -> FloatArray:
    if draws.shape[0] < 2:
        return np.full(draws.shape[1:], np.nan)
    return np.asarray(draws.std(axis=0, ddof=1))
