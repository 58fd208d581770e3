"""Means and covariances of a stream of rows, in one pass."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Self

import numpy as np

from ..types import FloatArray, IntArray


class Moments:
    """Number of rows, their mean [M] and their scatter matrix [M,M]; blocks are merged by Chan's formula.

    >>> moments = Moments(1).add(np.array([[1.0], [2.0]])).add(np.array([[6.0]]))
    >>> moments.count, moments.mean, moments.covariance()
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
            mean = np.full(number, 1.0 / number) @ values  # a product is four times as fast as a sum over rows
            centred = values - mean
            step = mean - self.mean
            total = self.count + number
            # new arrays, so that a shallow copy stays as it is
            self._scatter = self._scatter + (centred.T @ centred + np.outer(step, step) * (self.count * number / total))
            self.mean = self.mean + step * (number / total)
            self.count = total
        return self

    def covariance(self) -> FloatArray:
        """Return the covariance of a row [M,M], NaN before there are two rows."""
        return self._scatter / (self.count - 1) if self.count > 1 else np.full_like(self._scatter, np.nan)

    def copy(self) -> Self:
        """Return the moments as they are now."""
        return copy.copy(self)


def curve_marks(count: int) -> IntArray:
    """Return the numbers of rows, rising to ``count``, at which a curve has points: at most 200, ten rows apart.

    >>> curve_marks(45)
    array([11, 22, 33, 45])
    """
    return np.unique(np.linspace(0, count, min(200, max(count // 10, 1)) + 1).astype(np.int64)[1:])


def pieces(marks: IntArray, begin: int, size: int) -> Iterator[tuple[slice, int, bool]]:
    """Cut the rows of a block, which begins after ``begin`` rows, at the marks of a curve.

    Yields the rows of each piece, the number of the next mark, and whether the piece ends there.

    >>> list(pieces(curve_marks(45), begin=20, size=10))
    [(slice(0, 2, None), 1, True), (slice(2, 10, None), 2, False)]
    """
    cuts = marks[(marks > begin) & (marks < begin + size)] - begin
    for i, j in pairwise([0, *cuts.tolist(), size]):
        mark = int(np.searchsorted(marks, begin + j))
        yield slice(i, j), mark, bool(marks[mark] == begin + j)
