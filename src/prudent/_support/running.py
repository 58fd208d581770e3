"""Statistics of many replications in bounded memory: means, variances and quantiles, block after block.

Means and variances are merged by the formulas of Chan, Golub and LeVeque. Quantiles come from counts in bins whose
edges are powers of gamma = (1 + a) / (1 - a): a quantile is off by at most the share a of itself, whatever the
distribution (Masson, Rim and Lee, DDSketch). Numbers below ``SMALLEST`` in size count as zero.
"""

from __future__ import annotations

import math

import numpy as np

from ..types import FloatArray, IntArray

ACCURACY = 0.005  # largest relative error of a quantile
GAMMA = (1.0 + ACCURACY) / (1.0 - ACCURACY)
SMALLEST, LARGEST = 1e-9, 1e12
BINS = math.ceil(math.log(LARGEST / SMALLEST) / math.log(GAMMA)) + 1


class Moments:
    """Number, mean and covariance of rows [R, N] that come in blocks, or only the variances.

    Examples
    --------
    >>> moments = Moments(2)
    >>> for block in ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 9.0]]):
    ...     moments.add(np.array(block))
    >>> moments.mean, moments.variance
    (array([3., 5.]), array([ 4., 13.]))
    """

    def __init__(self, size: int, covariance: bool = False) -> None:
        self.count, self.mean = 0, np.zeros(size)
        self._squares = np.zeros((size, size) if covariance else size)

    def add(self, rows: FloatArray) -> None:
        """Add a block of rows."""
        n, mean = len(rows), rows.mean(axis=0)
        apart, shift = rows - mean, mean - self.mean
        share = self.count * n / (self.count + n)
        if self._squares.ndim == 2:
            self._squares += apart.T @ apart + share * np.outer(shift, shift)
        else:
            self._squares += (apart**2).sum(axis=0) + share * shift**2
        self.count += n
        self.mean += shift * (n / self.count)

    @property
    def variance(self) -> FloatArray:
        """Variances [N], or covariances [N, N], with one degree of freedom less than rows."""
        return self._squares / (self.count - 1) if self.count > 1 else np.full(self._squares.shape, np.nan)


class Quantiles:
    """Counts of numbers [R, N] in bins, for the quantiles of each of the N columns.

    Examples
    --------
    >>> quantiles = Quantiles(1)
    >>> quantiles.add(np.arange(1.0, 1001.0)[:, np.newaxis])
    >>> bool(abs(quantiles.at([0.5])[0, 0] / 500.0 - 1.0) < 0.0051)
    True
    """

    def __init__(self, size: int) -> None:
        self._counts: IntArray = np.zeros((size, 2 * BINS + 1), dtype=np.int64)  # negative, zero, positive

    def add(self, rows: FloatArray) -> None:
        """Add a block of rows; rows that are not finite are left out."""
        sizes = np.clip(abs(rows), SMALLEST, LARGEST)
        places = np.ceil(np.log(sizes / SMALLEST) / math.log(GAMMA))
        signed = BINS + np.where(abs(rows) <= SMALLEST, 0, np.sign(rows) * places).astype(np.int64, casting="unsafe")
        columns = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
        good = np.isfinite(rows)
        np.add.at(self._counts, (columns[good], signed[good]), 1)

    def at(self, probabilities: list[float] | FloatArray) -> FloatArray:
        """Return quantiles [P, N]; NaN for a column without numbers."""
        cumulative = self._counts.cumsum(axis=1)
        total = cumulative[:, -1]
        steps = np.arange(-BINS, BINS + 1)
        # the middle of a bin, in which a number is off by at most the accuracy
        centres = np.sign(steps) * SMALLEST * 2.0 * GAMMA ** abs(steps) / (GAMMA + 1.0)
        found = np.full((len(probabilities), len(total)), np.nan)
        for i, probability in enumerate(probabilities):
            for j in np.flatnonzero(total):
                rank = max(1, math.ceil(probability * total[j]))
                found[i, j] = centres[np.searchsorted(cumulative[j], rank)]
        return found
