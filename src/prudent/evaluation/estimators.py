"""Off-policy estimates as functions of the means of a few columns.

The columns are those of ``prudent.evaluation.off_policy``, which also has the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

ESTIMATORS = ("ips", "snips", "clipped_ips", "dm", "dr", "sndr", "switch_dr")
# columns whose means are kept: w, w r; both with w clipped; q(x, pi); w (r - q), the same switched, w switched; r
W, WR, C, CR, Q, E, S, V, R = range(9)


class Estimate(NamedTuple):
    """An estimate as a function of the means of the columns: its value, its gradient, and the column of its weights."""

    value: float
    gradient: FloatArray
    weight: int | None


def estimates_at(mean: FloatArray, centre: float) -> dict[str, Estimate]:
    """Return every estimate at these means [9]; NaN where no weight is above zero."""

    def linear(weight: int | None, shift: float, factors: dict[int, float]) -> Estimate:
        gradient = np.zeros(9)
        gradient[list(factors)] = list(factors.values())
        return Estimate(shift + float(gradient @ mean), gradient, weight)

    def ratio(top: int, shift: float, base: int | None) -> Estimate:
        """Return shift + mean[top] / mean[W], with mean[base] added."""
        gradient = np.zeros(9)
        share = mean[top] / mean[W] if mean[W] > 0.0 else math.nan
        gradient[top] = 1.0 / mean[W] if mean[W] > 0.0 else math.nan
        gradient[W] = -share * gradient[top]
        if base is not None:
            gradient[base] = 1.0
            shift += mean[base]
        return Estimate(float(shift + share), gradient, W)

    return {
        "ips": linear(W, 0.0, {WR: 1.0, W: centre}),
        "snips": ratio(WR, centre, None),
        "clipped_ips": linear(C, 0.0, {CR: 1.0, C: centre}),
        "dm": linear(None, centre, {Q: 1.0}),
        "dr": linear(W, centre, {Q: 1.0, E: 1.0}),
        "sndr": ratio(E, centre, Q),
        "switch_dr": linear(V, centre, {Q: 1.0, S: 1.0}),
    }
