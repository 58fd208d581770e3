"""Student's interval for a mean, which the verdicts and the report share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

from .checks import FloatArray

__all__ = ["mean_and_half_width"]


def mean_and_half_width(
    values: Any, confidence: float, comparisons: int = 1, axis: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return the mean over replications, along ``axis``, and the half width of its interval by Student's t.

    With several ``comparisons`` the confidence is that of all their intervals together (Bonferroni). The half width of
    a single replication is NaN: it says nothing about the mean.

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
    return mean, error * float(stdtrit(count - 1, 1.0 - (1.0 - confidence) / (2.0 * comparisons)))
