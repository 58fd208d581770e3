"""Means and covariances of a stream of rows, in one pass, and the intervals that follow from them."""

from __future__ import annotations

import copy
import math
from typing import Self

import numpy as np
from scipy.special import ndtri

from .._support.checks import FloatArray, IntArray

__all__ = ["Moments", "bernstein", "half_width", "marks_of"]


class Moments:
    """The number of rows seen, their mean [M] and their scatter [M,M] around it; blocks are merged after Chan.

    >>> seen = Moments(1).add(np.array([[1.0], [2.0]])).add(np.array([[6.0]]))
    >>> seen.count, seen.mean, seen.covariance()
    (3, array([3.]), array([[7.]]))
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(size)
        self._scatter: FloatArray = np.zeros((size, size))

    def add(self, values: FloatArray) -> Self:
        """Add rows [T,M]."""
        number = len(values)
        if number:
            mean = values.mean(axis=0)
            centred = values - mean
            step = mean - self.mean
            total = self.count + number
            self._scatter += centred.T @ centred + np.outer(step, step) * (self.count * number / total)
            self.mean = self.mean + step * (number / total)
            self.count = total
        return self

    def covariance(self) -> FloatArray:
        """Return the covariance of a row [M,M], NaN before there are two rows."""
        return self._scatter / (self.count - 1) if self.count > 1 else np.full_like(self._scatter, np.nan)

    def copy(self) -> Self:
        """Return the moments as they are now."""
        twin = copy.copy(self)
        twin._scatter = self._scatter.copy()  # the mean is replaced, never changed
        return twin


def marks_of(count: int) -> IntArray:
    """Return the numbers of rows, rising to ``count``, at which a curve is drawn: at most 200, ten rows apart or more.

    >>> marks_of(45)
    array([11, 22, 33, 45])
    """
    return np.unique(np.linspace(0, count, min(200, max(count // 10, 1)) + 1).astype(np.int64)[1:])


def half_width(variance: float, count: int, level: float) -> float:
    """Return half the normal interval of a mean of ``count`` rows; infinite for a single row.

    >>> round(half_width(4.0, 100, 0.95), 3)
    0.392
    """
    if count < 2 or math.isnan(variance):
        return math.inf
    return float(ndtri(0.5 + 0.5 * level)) * math.sqrt(max(variance, 0.0) / count)


def bernstein(variance: float, span: float, count: int, level: float) -> float:
    """Return half the empirical-Bernstein interval of a mean of rows whose values lie within ``span`` of each other.

    Maurer and Pontil (2009), Theorem 4, on both sides: it holds for every number of rows.

    >>> round(bernstein(0.25, 1.0, 1000, 0.95), 4)
    0.057
    """
    if count < 2:
        return math.inf
    log = math.log(4.0 / (1.0 - level))
    return math.sqrt(2.0 * variance * log / count) + 7.0 * span * log / (3.0 * (count - 1))
