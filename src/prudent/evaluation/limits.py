"""Intervals of off-policy estimates, from the means and covariances of their columns.

Every estimate but the direct method solves sum of y(v) = 0 for the value v, where a row of the log has

    ips, clipped_ips    y = w r - v
    snips               y = w (r - v)
    dr, switch_dr       y = q(x, pi) + w (r - q(x, a)) - v
    sndr                y = q(x, pi) - Q + w (r - q(x, a) + Q - v),      Q the mean of q(x, pi)

At the true value the mean of y is zero given all earlier rows, also if the log is that of a policy that learned,
because E[w] = 1. So ``prudent.evaluation.confidence_sequences`` applies, within the ranges of rewards and weights. The
clipped and the switched estimate are biased, and their interval is for what they estimate.

The error of the direct method is that of its reward model, which no interval of its own can show. Its interval is
widened until it contains that of dr, which measures how wrong the model is.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from .._support.intervals import normal_half_width
from ..types import FloatArray
from .confidence_sequences import Sums, interval_of_sums
from .estimators import CR, WR, C, E, Q, R, S, W, estimates_at
from .moments import Moments

INTERVALS = ("bernstein", "normal")


Pair: TypeAlias = tuple[FloatArray, FloatArray]


class Ranges(NamedTuple):
    """Ranges of rewards, weights and predictions."""

    rewards: tuple[float, float]  # equal if it is not known how far rewards go
    weight: float
    clip: float
    switch: float
    predictions: tuple[float, float]
    products: FloatArray | None = None  # [3, 2] range of w r, w (r - centre), w (r - q), if rewards are as seen


def mean_limits(
    mean: float,
    variance: float,
    count: int,
    rewards: tuple[float, float],
    confidence: float,
    *,
    interval: str,
    planned: int,
) -> tuple[float, float]:
    """Return the interval of a mean of so many rewards; infinite without rows, or if their range is not known.

    >>> [round(end, 4) for end in mean_limits(0.0, 0.0, 300, (0.0, 1.0), 0.95, interval="bernstein", planned=300)]
    [0.0, 0.0177]
    """
    low, high = rewards
    if interval == "normal" or not low < high or not count:
        half = normal_half_width(variance, count, confidence) if interval == "normal" else math.inf
        return (mean - half, mean + half) if count else (-math.inf, math.inf)
    span = high - low
    unit, spread = (mean - low) / span, (variance / span / span if count > 1 else 0.0) * (count - 1)

    def sums(m: FloatArray) -> Sums:
        return Sums(count * (unit - m), count * (unit - m) ** 2 + spread, -m, 1.0 - m)

    found = interval_of_sums(sums, min(max(unit, 0.0), 1.0), 0.0, 1.0, 1.0, confidence, planned)
    return low + span * found[0], low + span * found[1]


def limits_of(
    name: str,
    moments: Moments,
    centre: float,
    ranges: Ranges,
    confidence: float,
    *,
    interval: str,
    planned: int,
    spread: float = 0.0,
) -> tuple[float, float]:
    """Return the interval of an estimate; ``spread`` is the variance that comes from the reward model's own error.

    ``name`` is that of an estimator, or "logged" for the mean reward of the log.
    """
    if name == "logged":
        logged, variance = centre + float(moments.mean[R]), float(moments.covariance()[R, R])
        return mean_limits(
            logged, variance, moments.count, ranges.rewards, confidence, interval=interval, planned=planned
        )
    estimate = estimates_at(moments.mean, centre)[name]
    if estimate.weight is not None and moments.mean[W] <= 0.0:
        known = interval == "bernstein" and ranges.products is None and ranges.rewards[0] < ranges.rewards[1]
        return ranges.rewards if known else (-math.inf, math.inf)
    if interval == "normal" or name == "dm":
        variance = float(estimate.gradient @ moments.covariance() @ estimate.gradient)
        half = normal_half_width(variance + moments.count * spread, moments.count, confidence)
        low, high = estimate.value - half, estimate.value + half
        if interval == "normal":
            return low, high
        others = limits_of("dr", moments, centre, ranges, confidence, interval=interval, planned=planned)
        if ranges.rewards[0] < ranges.rewards[1]:
            low, high = max(low, ranges.rewards[0]), min(high, ranges.rewards[1])
        return min(others[0], low, estimate.value), max(others[1], high, estimate.value)
    return _bernstein(name, estimate.value, moments, centre, ranges, confidence, planned)


def _bernstein(
    name: str, value: float, moments: Moments, centre: float, ranges: Ranges, confidence: float, planned: int
) -> tuple[float, float]:
    low, high = ranges.rewards
    n = moments.count
    if not low < high or n < 2:
        return -math.inf, math.inf
    # values relative to the centre, so that small differences of large rewards are not lost
    mean = np.append(moments.mean, 1.0)
    covariance = np.zeros((10, 10))
    covariance[:9, :9] = moments.covariance()
    base = float(moments.mean[Q])
    fixed, slope = np.zeros(10), np.zeros(10)
    if name in ("ips", "clipped_ips"):
        earned, weight = (WR, W) if name == "ips" else (CR, C)
        fixed[[earned, weight, 9]], slope[9] = (1.0, centre, -centre), -1.0
    elif name == "snips":
        fixed[WR], slope[W] = 1.0, -1.0
    elif name in ("dr", "switch_dr"):
        fixed[[Q, E if name == "dr" else S]], slope[9] = 1.0, -1.0
    else:  # sndr
        fixed[[Q, E, W, 9]], slope[W] = (1.0, 1.0, base, -base), -1.0

    top = min(ranges.weight, {"clipped_ips": ranges.clip, "switch_dr": ranges.switch}.get(name, math.inf))
    least, most = ranges.predictions[0] - centre, ranges.predictions[1] - centre

    def product(kind: int, lowest: FloatArray | float, highest: FloatArray | float, shift: FloatArray | float) -> Pair:
        """Return the range of w (z - shift) for z from lowest to highest, or as seen."""
        ends = top * np.minimum(lowest - shift, 0.0), top * np.maximum(highest - shift, 0.0)
        if ranges.products is None:
            return ends
        seen = ranges.products[kind]
        moved = seen[0] - top * np.maximum(shift, 0.0), seen[1] - top * np.minimum(shift, 0.0)
        return np.maximum(ends[0], np.minimum(moved[0], 0.0)), np.minimum(ends[1], np.maximum(moved[1], 0.0))

    def bounds(m: FloatArray) -> Pair:
        """Return the lowest and highest y of a row at candidates m."""
        residuals = low - ranges.predictions[1], high - ranges.predictions[0]
        if name in ("ips", "clipped_ips"):
            ends = product(0, low, high, 0.0)
            return ends[0] - centre - m, ends[1] - centre - m
        if name == "snips":
            return product(1, low - centre, high - centre, m)
        if name in ("dr", "switch_dr"):
            ends = product(2, *residuals, 0.0)
            return least + ends[0] - m, most + ends[1] - m
        ends = product(2, *residuals, m - base)
        return least - base + ends[0], most - base + ends[1]

    ends = np.array([low - centre, high - centre])
    around = np.array([value - centre]) if ranges.products is not None else ends
    span = float(max(np.abs(side).max() for side in bounds(around)))
    if ranges.products is not None and not span > 0.0:  # no row with a weight has a reward
        return _bernstein(name, value, moments, centre, ranges._replace(products=None), confidence, planned)
    middle = (fixed @ mean, slope @ mean)
    scatter = [float(one @ covariance @ two) * (n - 1) for one, two in ((fixed, fixed), (fixed, slope), (slope, slope))]

    def sums(m: FloatArray) -> Sums:
        average = (middle[0] + middle[1] * m) / span
        spread = (scatter[0] / span + 2.0 * m * (scatter[1] / span) + m * m * (scatter[2] / span)) / span
        least, most = bounds(m)
        return Sums(n * average, n * average**2 + np.maximum(spread, 0.0), least / span, most / span)

    inside = min(max(value - centre, ends[0]), ends[1])
    found = interval_of_sums(sums, inside, ends[0], ends[1], 1.0, confidence, planned)
    return min(centre + found[0], value), max(centre + found[1], value)
