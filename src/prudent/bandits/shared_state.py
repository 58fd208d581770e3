"""The state of a SharedLinearBandit: what is written to a file, and how a bandit is made from what was read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._support.checks import FloatArray, IntArray, whole_number
from .._support.state import LARGEST_COUNT, Arrays, State, generator_from_state, generator_state, require_counts
from ..errors import ParameterError
from ..posteriors.linear import require_sums
from .arm_names import listed_names
from .fading import HalfLife
from .step import LARGEST, Uniforms, usable

if TYPE_CHECKING:
    from .shared import SharedLinearBandit

__all__ = ["MANY_FEATURES", "MOST_ABSORBED", "restored", "state_of", "upgraded"]


MANY_FEATURES = 64  # from which on a root is updated rather than worked out anew
MOST_ABSORBED = 1000  # rewards after which it is worked out anew all the same
Bandit = TypeVar("Bandit", bound="SharedLinearBandit")


def state_of(bandit: SharedLinearBandit) -> State:
    """Return the values and arrays of a bandit, for a file."""
    items = len(bandit._index)
    kept = len(bandit._prior) >= MANY_FEATURES and not bandit._stale  # else it is worked out from the sums
    values = {
        "alpha": bandit._alpha,
        "noise_sd": bandit._noise_sd,
        "intercept": bandit._intercept,
        "features": None if bandit._names_of_features is None else list(bandit._names_of_features),
        "offsets": bandit._offsets,
        "offset_precision": bandit._offset_precision,
        "draws": bandit._draws,
        "min_propensity": bandit._floor,
        "half_life": None if bandit._drift is None else asdict(bandit._drift.half),
        "tick": None if bandit._drift is None else bandit._drift.tick,
        "decisions": bandit._decisions,
        "rewards": bandit._rewards,
        "weight": bandit._weight,
        "range": None if bandit._range is None else list(bandit._range),
        "items": list(bandit._index),
        "absorbed": bandit._absorbed if kept else 0,
        "rng": generator_state(bandit._stream.rng),
    }
    arrays = {
        "prior_precision": bandit._prior,
        "gram": bandit._gram,
        "root": bandit._root if kept else np.empty((0, 0)),
        "item_means": bandit._item_means[:items],
        "item_weights": bandit._item_weights[:items],
        "item_counts": bandit._item_counts[:items],
        "uniforms": bandit._stream.unused,
    }
    return values, arrays


def restored(kind: type[Bandit], values: dict[str, Any], arrays: Arrays) -> Bandit:
    """Return the bandit of a state; raise if it cannot be one."""
    prior, gram, unused = arrays["prior_precision"], arrays["gram"], arrays["uniforms"]
    numbers = ("prior_precision", "gram", "root", "item_means", "item_weights", "uniforms")
    floats = {name: arrays[name].dtype for name in numbers}
    if any(dtype != np.float64 for dtype in floats.values()):
        raise ValueError(f"arrays of types {floats}, expected float64")
    size = len(prior)
    names = ("noise_sd", "intercept", "features", "offsets", "offset_precision", "draws", "min_propensity")
    options = {name: values[name] for name in names}
    half = None if values["half_life"] is None else HalfLife(**values["half_life"])
    bandit = kind(size - int(values["intercept"]), values["alpha"], prior_precision=prior, half_life=half, **options)
    if bandit._drift is not None and values["tick"] is not None:
        bandit._drift.tick = whole_number(values["tick"], "tick", -LARGEST_COUNT, LARGEST_COUNT)
    if gram.shape != (2, size + 1, size + 1):
        raise ValueError(f"sums of shape {gram.shape} for {size} features")
    rewards = whole_number(values["rewards"], "rewards", 0, LARGEST_COUNT)
    require_sums(gram[np.newaxis], np.array([rewards]))
    bandit._gram, bandit._rewards = gram, rewards
    bandit._decisions = whole_number(values["decisions"], "decisions", 0, LARGEST_COUNT)
    _restore_range(bandit, values["range"])
    _restore_items(bandit, values["items"], *(arrays[f"item_{name}"] for name in ("means", "weights", "counts")))
    _restore_weight(bandit, values["weight"])
    if unused.ndim != 1 or not ((unused >= 0.0) & (unused < 1.0)).all():
        raise ValueError("uniforms must be numbers in [0, 1)")
    bandit._stream = Uniforms(generator_from_state(values["rng"]), unused)
    _restore_root(bandit, arrays["root"], values["absorbed"])
    stale = bandit._stale
    bandit._solve()
    solved = [bandit._root, 1.0 / np.diagonal(bandit._root), bandit._mean, np.array([bandit._noise])]
    solved.append((bandit._noise or 1.0) * bandit._root)
    if not all(usable(np.ascontiguousarray(part).reshape(-1)) for part in solved):
        raise ValueError("the moments of the posterior are too large or too small to square")
    bandit._stale = bandit._unsolved = stale
    return bandit


def _restore_range(bandit: SharedLinearBandit, given: Any) -> None:
    if (given is None) != (bandit._rewards == 0):
        raise ValueError(f"the range of {bandit._rewards} rewards is {given!r}")
    if given is not None:
        low, high = given
        if not -LARGEST <= low <= high <= LARGEST or (low < high and bandit._rewards < 2):
            raise ValueError(f"the range of {bandit._rewards} rewards is {given!r}")
        bandit._range = low, high


def _restore_weight(bandit: SharedLinearBandit, weight: Any) -> None:
    """Take the weight of the rewards, if it can be that of the sums."""
    totals = bandit._item_weights.sum() if bandit._offsets else weight
    totals = bandit._gram[0, 0, 0] if bandit._intercept and not bandit._offsets else totals
    if not 0.0 <= weight <= 1.000001 * bandit._rewards or not abs(totals - weight) <= 1e-6 * weight:
        raise ValueError(f"{bandit._rewards} rewards of the weight {weight!r}, which is not that of the sums")
    bandit._weight = weight


def _restore_items(
    bandit: SharedLinearBandit, items: Any, means: FloatArray, weights: FloatArray, counts: IntArray
) -> None:
    if not isinstance(items, list):
        raise ValueError(f"items must be a list of names, got {items!r}")
    names = listed_names(items, "items", ParameterError)
    require_counts(counts, "item_counts")
    if counts.shape != (len(names),) or means.shape != (len(names), len(bandit._prior) + 1):
        raise ValueError(f"offsets of shapes {counts.shape} and {means.shape} for {len(names)} items")
    if len(set(names)) < len(names) or not usable(means.reshape(-1)):
        raise ValueError("an item that occurs twice, or a mean that is no number")
    if bandit._offsets and (int(counts.sum()) != bandit._rewards or (counts == 0).any()):
        raise ValueError(f"items with {counts.tolist()} rewards, expected {bandit._rewards} in all")
    if names and not bandit._offsets:
        raise ValueError("items of a bandit without offsets")
    bandit._index = {name: i for i, name in enumerate(names)}
    if weights.shape != counts.shape or not ((weights >= 0.0) & (weights <= 1.000001 * counts)).all():
        raise ValueError(f"items with {counts.tolist()} rewards and the weights {weights.tolist()}")
    bandit._item_means, bandit._item_weights, bandit._item_counts = means, weights, counts


def _restore_root(bandit: SharedLinearBandit, root: FloatArray, absorbed: Any) -> None:
    """Take the root of many features as it was, if it is one of the sums; else it is worked out from them."""
    size = len(bandit._prior)
    bandit._absorbed = whole_number(absorbed, "absorbed", 0, MOST_ABSORBED)
    if root.shape == (0, 0) and absorbed == 0:
        return
    if root.shape != (size, size) or size < MANY_FEATURES:
        raise ValueError(f"a root of shape {root.shape} for {size} features")
    precision = (bandit._prior + bandit._gram[0, :-1, :-1]) + bandit._gram[1, :-1, :-1]
    away = np.abs(root @ precision @ root.T - np.eye(size)).max()
    if np.triu(root, 1).any() or not away < 1e-6:
        raise ValueError(f"the root is not that of the sums: it is off by {away}")
    bandit._root, bandit._stale = root, False


def upgraded(values: dict[str, Any], arrays: Arrays) -> State:
    """Return the state of a file of an earlier version as one of version 3.

    In version 1 evidence did not fade; in version 2 features had no names.
    """
    values = {"features": None} | values
    if "weight" in values or "rewards" not in values:
        return values, arrays
    values = values | {"half_life": None, "tick": None, "weight": float(values["rewards"])}
    return values, arrays | {"item_weights": arrays["item_counts"].astype(np.float64)}
