"""Mean, spread and skewness of a Dirichlet mean, and what they say about its tail without an integral.

Let w ~ Dirichlet(psi), total n, X = w.v, and let mu, s^2 and m be the mean, the variance and the third central moment
of v under the weights psi/n. Then X has mean mu, variance s^2/(n + 1) and third central moment 2 m/((n + 1)(n + 2)).

- CVaR of X lies between mu - sd sqrt(alpha/(1 - alpha)) and mu, whatever its law.
- By Cornish and Fisher CVaR is about mu - kappa sd with kappa = k (1 + z skew/6), where z is the normal quantile at
  1 - alpha and k = pdf(z)/(1 - alpha) is kappa of a normal. With exp(z skew/6) in place of 1 + z skew/6 kappa stays
  above zero. The quantile itself is about mu + sd (z + (z^2 - 1) skew/6).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compensated import EPS
from .compile import kernel
from .normal import normal_pdf, normal_quantile

MOST = 3.0  # kappa differs from that of a normal by no more than this power of e
LOPSIDED = 1.5  # no quantile is guessed for a skewness beyond this,
FEW = 2.0  # nor for fewer counts than this


class Shape(NamedTuple):
    """What the approximations need to know of a risk level."""

    z: float  # quantile of a normal at 1 - alpha
    kappa: float  # how many standard deviations CVaR of a normal lies below its mean


def shape_of(alpha: float) -> Shape:
    """Return the shape for a risk level in [0, 1)."""
    z = float(normal_quantile(min(1.0 - alpha, 1.0 - EPS)))  # levels below rounding have a quantile, too
    return Shape(z, float(normal_pdf(z)) / (1.0 - alpha))


@kernel
def moments_of_row(values, counts):
    """Return the lowest value that can happen; mean, standard deviation and skewness of w.values; total of counts."""
    total, low, high = 0.0, np.inf, -np.inf
    for k in range(values.size):
        if counts[k] > 0.0:
            total += counts[k]
            low, high = min(low, values[k]), max(high, values[k])
    spread = high - low
    if not spread > 0.0:
        return low, low, 0.0, 0.0, total
    mean = 0.0
    for k in range(values.size):
        mean += counts[k] * ((values[k] - low) / spread)
    mean /= total
    second, third = 0.0, 0.0
    for k in range(values.size):
        d = (values[k] - low) / spread - mean
        second += counts[k] * d * d
        third += counts[k] * d * d * d
    if not second > 0.0:
        return low, low + spread * mean, 0.0, 0.0, total
    second /= total
    sd = math.sqrt(second / (total + 1.0))
    skew = 2.0 * (third / total) * math.sqrt(total + 1.0) / ((total + 2.0) * second * math.sqrt(second))
    return low, low + spread * mean, spread * sd, skew, total


@kernel
def rough_tail(low, mean, sd, skew, shape):
    """Return about CVaR of X, which lies between ``low`` and the mean."""
    return max(mean - sd * (shape.kappa * math.exp(min(max(shape.z * skew / 6.0, -MOST), MOST))), low)


@kernel
def rough_quantile(skew, total, shape):
    """Return about where the quantile lies, in standard deviations from the mean; NaN where that is a poor guess."""
    if abs(skew) > LOPSIDED or total < FEW:
        return np.nan
    return shape.z + (shape.z * shape.z - 1.0) * skew / 6.0


@kernel
def rough_tail_means(values, counts, shape, weights):
    """Write the gradient of ``rough_tail`` into ``weights``, made probabilities that still give its value."""
    n = values.size
    low, mean, sd, skew, total = moments_of_row(values, counts)
    lowest = 0
    for k in range(n):
        if counts[k] > 0.0 and values[k] == low:
            lowest = k
    for k in range(n):
        weights[k] = counts[k] / total
    if not sd > 0.0:
        return
    tail = rough_tail(low, mean, sd, skew, shape)
    kappa = (mean - tail) / sd
    norm, reached = 0.0, 0.0
    for k in range(n):
        d = (values[k] - mean) / sd  # slopes of the standard deviation and of the skewness, as multiples of the weight
        slope = d / (total + 1.0)
        lean = 6.0 * (d * d / (total + 1.0) - 1.0) / (total + 2.0) - 3.0 * skew * slope
        weights[k] *= max(1.0 - kappa * (slope + shape.z / 6.0 * lean), 0.0)
        norm += weights[k]
        reached += weights[k] * (values[k] - mean)
    reached = mean + reached / norm if norm > 0.0 else mean
    share = (reached - tail) / (reached - low) if reached > tail else 0.0
    back = (tail - reached) / (mean - reached) if reached < tail else 0.0
    for k in range(n):
        weight = weights[k] / norm if norm > 0.0 else counts[k] / total
        weights[k] = (1.0 - share) * weight + back * (counts[k] / total - weight)
    weights[lowest] += share
