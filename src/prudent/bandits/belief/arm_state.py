"""What arrays of a state file must be, to be those of arms with coefficients of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._support.checks import FloatArray
from ..._support.state import LARGEST_COUNT, Arrays, require_counts
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels import layout as col
from ..kernels.layout import Arms
from ..kernels.step import LARGEST
from .base import all_usable, require_state

LEAST_GAIN = 2.0**-60
ARM_SCHEMA = {
    "prior_precision": "float64 J D D",
    "prior_mean": "float64 J D",
    "prior": "int64 A",
    "gram": "float64 A 2 D+1 D+1",
    "extra": f"float64 A {col.EXTRAS} D+2",
    "weights": "float64 A",
    "pulls": "int64 A",
    "tries": "int64 A",
    "pool": f"float64 {col.SAVED.stop}",
}


def tallies_of(arms: Arms) -> Arrays:
    """Return the parts of a table that a state file holds as they are, as views."""
    return {
        "prior": arms.marks[:, col.WHICH],
        "extra": arms.extra,
        "weights": arms.parts[:, col.WEIGHT],
        "pulls": arms.marks[:, col.PULLS],
        "tries": arms.marks[:, col.TRIES],
    }


def row_sums(arms: Arms, row: int) -> dict[str, Any]:
    """Return the sums over the rewards of an arm, by name in a state file."""
    sums: dict[str, Any] = {name: field[row] for name, field in tallies_of(arms).items() if name != "prior"}
    return sums | {"gram": col.sums_of(arms, row)}


def require_priors(arrays: Arrays, moved: FloatArray) -> None:
    """Raise unless priors are those of the arms; ``moved`` are entries of the first mean that are never learned."""
    priors, starts, which = (arrays[name] for name in ("prior_precision", "prior_mean", "prior"))
    for name in ("prior", "pulls", "tries"):
        require_counts(arrays[name], name)
    require_state((arrays["tries"] >= arrays["pulls"]).all(), "an arm has more rewards than decisions")
    own = sorted(which[which > 0]) == list(range(1, len(priors))) and not moved.any()
    require_state(own and all_usable(starts), "priors that are not those of the arms")
    same = all(np.array_equal(LinearGaussianPosterior(len(prior), prior).prior, prior) for prior in priors)
    require_state(same, "prior_precision is not symmetric")


def require_tallies(arrays: Arrays) -> None:
    """Raise unless numbers and ranges of rewards can be."""
    pulls, weights, pool = (arrays[name] for name in ("pulls", "weights", "pool"))
    low, high, gain, count = pool[[col.LOW, col.HIGH, col.GAIN, col.COUNT]]
    none = low == math.inf and high == -math.inf
    require_state(np.isfinite(arrays["extra"]).all(), "extra holds a number that is not finite")
    require_state(LEAST_GAIN <= gain <= 1.0, f"the gain is {gain}")
    require_state(none or -LARGEST <= low <= high <= LARGEST, f"rewards from {low} to {high}")
    counted = all_usable(pool[col.GAIN :]) and 0 <= count <= LARGEST_COUNT and not count % 1.0
    require_state(counted, "numbers of rewards that cannot be")
    light = (weights >= 0.0) & (gain * weights <= 1.000001 * pulls)
    require_state(light.all(), "weights that are not those of the rewards")
