"""The table of a bandit's arms: rows come and go without the others being solved again, and evidence fades."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from .._support.state import LARGEST_COUNT, Arrays, require_counts
from ..posteriors.linear import LinearGaussianPosterior, require_sums
from .step import (
    COUNT,
    DIRTY,
    FIXED,
    GAIN,
    HIGH,
    LARGEST,
    LOW,
    NOISE,
    SAVED,
    STALE,
    WEIGHT,
    WHICH,
    Arms,
    refresh,
    usable,
)

__all__ = ["forget", "like_prior", "require_table", "with_new_row", "without_row"]


_ROWS = ("gram", "root", "mean", "lines", "parts", "marks", "extra")
_LEAST_GAIN = 2.0**-60
_LEAST_WEIGHT = 2.0**-200  # of an arm's evidence; less is none


def with_new_row(arms: Arms, prior: tuple[FloatArray, FloatArray] | None = None) -> Arms:
    """Return the arms and a new one; it has a prior of its own if precision [D,D] and mean [D] are given."""
    grown: dict[str, Any] = {
        name: _longer(getattr(arms, name)) for name in _ROWS if name != "lines" or arms.kind != FIXED
    }
    grown["marks"][-1] = 0
    grown["marks"][-1, STALE] = 1
    if prior is not None:
        precision, start = prior
        grown["marks"][-1, WHICH] = len(arms.prior)
        grown["prior"] = np.concatenate([arms.prior, precision[np.newaxis] / arms.pool[GAIN]])
        grown["start"] = np.concatenate([arms.start, start[np.newaxis]])
    arms.pool[DIRTY] = 1.0
    return arms._replace(**grown)


def _longer(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array with one more row of zeros, in place if there is room behind it."""
    size, room = len(array), array.base
    if not isinstance(room, np.ndarray) or room.shape[1:] != array.shape[1:] or len(room) <= size:
        room = np.zeros((size + size // 4 + 8, *array.shape[1:]), dtype=array.dtype)
        room[:size] = array
    room[size] = 0
    return room[: size + 1]


def without_row(arms: Arms, place: int) -> Arms:
    """Return the arms without one, and without a prior that was its own."""
    left: dict[str, Any] = {
        name: np.delete(getattr(arms, name), place, axis=0) for name in _ROWS if len(getattr(arms, name))
    }
    which = arms.marks[place, WHICH]
    if which > 0:
        left["prior"], left["start"] = (np.delete(each, which, axis=0) for each in (arms.prior, arms.start))
        left["marks"][left["marks"][:, WHICH] > which, WHICH] -= 1
    arms.pool[DIRTY] = 1.0
    return arms._replace(**left)


def like_prior(arms: Arms, places: Any) -> tuple[FloatArray, FloatArray]:
    """Return precision and mean of a prior like the posteriors of some arms.

    Its mean is the average of theirs; its covariance the average of theirs, and of how they differ.
    """
    places = np.asarray(places, dtype=np.int64)
    refresh(arms, places)
    means, roots, noise = arms.mean[places], arms.root[places], arms.pool[NOISE]
    covariance = (roots.transpose(0, 2, 1) @ roots).mean(axis=0)
    if noise > 0.0:
        gaps = (means - means.mean(axis=0)) / noise
        covariance = covariance + gaps.T @ gaps / len(places)
    precision = np.linalg.inv(covariance)
    return 0.5 * (precision + precision.T), means.mean(axis=0)


def forget(arms: Arms, priors: FloatArray, factor: float) -> None:
    """Multiply all evidence by ``factor``; ``priors`` [J,D,D] are the prior precisions, which stay."""
    pool, weights = arms.pool, arms.parts[:, WEIGHT]
    pool[GAIN] *= factor
    if pool[GAIN] < _LEAST_GAIN:  # the sums fade, by a power of two, which rounds nothing
        scale = 2.0 ** math.floor(math.log2(pool[GAIN])) if pool[GAIN] > _LEAST_WEIGHT else 0.0
        gone = weights * scale < _LEAST_WEIGHT
        for sums in (arms.gram, arms.extra, weights):
            sums *= scale
        arms.gram[gone], weights[gone] = 0.0, 0.0
        pool[GAIN] = pool[GAIN] / scale if scale > 0.0 else 1.0
    arms.prior[:] = priors / pool[GAIN]
    arms.marks[:, STALE] = 1
    pool[DIRTY] = 1.0


def require_table(arms: Arms, arrays: Arrays, *, intercept: bool, clicks: Any = None) -> None:
    """Raise unless the arrays of a state file can be those of such arms; ``clicks`` looks at the sums of clicks."""
    size, dim = arms.mean.shape
    priors, starts, which = (arrays[name] for name in ("prior_precision", "prior_mean", "prior"))
    shapes = {
        "prior_precision": (len(priors), dim, dim),
        "prior_mean": (len(priors), dim),
        "gram": arms.gram.shape,
        "extra": arms.extra.shape,
        "weights": (size,),
        "pool": (SAVED.stop,),
        "uniforms": (arrays["uniforms"].size,),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise ValueError(f"{name} has shape {arrays[name].shape}, expected {shape}")
    for name in ("prior", "pulls", "tries"):
        if arrays[name].shape != (size,):
            raise ValueError(f"{name} has shape {arrays[name].shape}, expected ({size},)")
        require_counts(arrays[name], name)
    pulls, weights, pool, unused = (arrays[name] for name in ("pulls", "weights", "pool", "uniforms"))
    if (arrays["tries"] < pulls).any():
        raise ValueError("an arm has more rewards than decisions")
    learned = clicks is not None and clicks.learned
    moved = starts[0, int(intercept) :] if learned else starts[0]  # only a level is learned
    if sorted(which[which > 0]) != list(range(1, len(priors))) or moved.any() or not usable(starts.reshape(-1)):
        raise ValueError("priors that are not those of the arms")
    for prior in priors:
        if not np.array_equal(LinearGaussianPosterior(dim, prior).prior, prior):
            raise ValueError("prior_precision is not symmetric")
    if clicks is None:
        require_sums(arrays["gram"], pulls)
    else:
        clicks.require_sums(arms, arrays)
    if not np.isfinite(arrays["extra"]).all():
        raise ValueError("extra holds a number that is not finite")
    if not _LEAST_GAIN <= pool[GAIN] <= 1.0:
        raise ValueError(f"the gain is {pool[GAIN]}")
    low, high = pool[LOW], pool[HIGH]
    if not ((low == math.inf and high == -math.inf) or -LARGEST <= low <= high <= LARGEST):
        raise ValueError(f"rewards from {low} to {high}")
    if not usable(pool[GAIN:].copy()) or not 0 <= pool[COUNT] <= LARGEST_COUNT or pool[COUNT] % 1.0:
        raise ValueError("numbers of rewards that cannot be")
    known = (weights >= 0.0) & (pool[GAIN] * weights <= 1.000001 * pulls)
    if intercept and clicks is None:
        known &= np.abs(arrays["gram"][:, 0, 0, 0] - weights) <= 1e-6 * weights
    if not known.all():
        raise ValueError("weights that are not those of the rewards")
    if not ((unused >= 0.0) & (unused < 1.0)).all():
        raise ValueError("uniforms must be numbers in [0, 1)")
