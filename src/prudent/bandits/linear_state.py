"""The state of a LinearBandit: what is written to a file, and how a bandit is made from what was read."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._support.checks import whole_number
from .._support.state import LARGEST_COUNT, Arrays, State, generator_from_state, generator_state
from ..schedules import Schedule, named_schedule, saved_schedule
from .arm_names import arm_names
from .clicks import Clicks
from .coins import Coins
from .fading import HalfLife
from .settings import BanditSettings
from .step import (
    BY_ARM,
    CENTRE,
    DIRTY,
    EXTRAS,
    FREEDOM,
    GAIN,
    LEVEL,
    NOISE,
    OWN_NOISE,
    PULLS,
    Q1,
    Q2,
    SAVED,
    STALE,
    TRIES,
    UPDATES,
    WEIGHT,
    WHICH,
    Uniforms,
    refresh,
    usable,
)
from .table import require_table

if TYPE_CHECKING:
    from .bandit import LinearBandit

__all__ = ["prior_kind", "restored", "state_of", "upgraded"]


Bandit = TypeVar("Bandit", bound="LinearBandit")


def state_of(bandit: LinearBandit) -> State:
    """Return the values and arrays of a bandit, for a file."""
    arms = bandit._arms
    # A root that was updated with rewards is in no file. What goes on must be what a load would go on with.
    updated = arms.parts[:, UPDATES] > 0.0  # never of clicks
    if updated.any():
        arms.marks[updated, STALE], arms.pool[DIRTY] = 1, 1.0
    meta = {
        "settings": _saved_settings(bandit._settings),
        "noise_sd": bandit._noise_sd,
        "noise": bandit._noise,
        "rewards": bandit.reward_kind,
        "prior": prior_kind(bandit._clicks),
        "intercept": bandit._intercept,
        "features": None if bandit._names_of_features is None else list(bandit._names_of_features),
        "half_life": None if bandit._drift is None else asdict(bandit._drift.half),
        "tick": None if bandit._drift is None else bandit._drift.tick,
        "arms": list(bandit._names),
        "decisions": bandit._decisions,
        "rng": generator_state(bandit._stream.rng),
    }
    arrays = {
        "prior_precision": bandit._priors if bandit._clicks is None else arms.prior,
        "prior_mean": arms.start,
        "prior": arms.marks[:, WHICH],
        "gram": arms.gram,
        "extra": arms.extra,
        "weights": arms.parts[:, WEIGHT],
        "pulls": arms.marks[:, PULLS],
        "tries": arms.marks[:, TRIES],
        "pool": arms.pool[SAVED],
        "uniforms": bandit._stream.unused,
    }
    return meta, arrays if bandit._clicks is None else arrays | bandit._clicks.solved(arms)


def restored(kind: type[Bandit], meta: dict[str, Any], arrays: Arrays) -> Bandit:
    """Return the bandit of a state; raise if it cannot be one."""
    options = dict(meta["settings"])
    if isinstance(options["alpha"], dict):
        options["alpha"] = named_schedule(options["alpha"])
    if not isinstance(meta["arms"], list):
        raise ValueError(f"arms must be a list of names, got {meta['arms']!r}")
    names = arm_names(meta["arms"], "arms")
    priors, gram = arrays["prior_precision"], arrays["gram"]
    if gram.ndim != 4 or priors.ndim != 3 or not len(priors):
        raise ValueError(f"sums of shape {gram.shape} and priors of shape {priors.shape}")
    size, dim = len(names), priors.shape[1]
    if gram.shape != (size, 2, dim + 1, dim + 1):
        raise ValueError(f"sums of shape {gram.shape} for {size} arms and {dim} features")
    bandit = kind(
        names,
        dim - bool(meta["intercept"]),
        noise_sd=meta["noise_sd"],
        noise=meta["noise"],
        rewards=meta["rewards"],
        intercept=meta["intercept"],
        features=meta["features"],
        prior_precision=None if meta["prior"] == "uniform" else priors[0],
        half_life=None if meta["half_life"] is None else HalfLife(**meta["half_life"]),
        settings=BanditSettings(**options),
    )
    if meta["prior"] == "learned" and bandit._clicks is not None:
        bandit._clicks.learned = True
    if meta["prior"] != prior_kind(bandit._clicks):
        raise ValueError(f"prior is {meta['prior']!r}")
    require_table(bandit._arms, arrays, intercept=bandit._intercept, clicks=bandit._clicks)
    tick = None
    if meta["tick"] is not None:
        tick = whole_number(meta["tick"], "tick", -LARGEST_COUNT, LARGEST_COUNT)
    if bandit._drift is not None:
        bandit._drift.tick = tick
    arms = bandit._arms
    arms.pool[SAVED] = arrays["pool"]
    arms.gram[:], arms.extra[:], arms.parts[:, WEIGHT] = gram, arrays["extra"], arrays["weights"]
    arms.marks[:, WHICH], arms.marks[:, TRIES] = arrays["prior"], arrays["tries"]
    arms.marks[:, PULLS] = arrays["pulls"]
    bandit._priors = priors
    bandit._set_arms(names, arms._replace(prior=priors / arms.pool[GAIN], start=arrays["prior_mean"]))
    if bandit._clicks is not None and "root" in arrays:
        bandit._clicks.set_prior(bandit._arms)
        bandit._arms.root[:], bandit._arms.mean[:] = arrays["root"], arrays["mean"]
        bandit._arms.marks[:, STALE] = 0
    refresh(bandit._arms, bandit._every)
    root, parts = bandit._arms.root, bandit._arms.parts
    noise = arms.parts[:, OWN_NOISE].max() if arms.kind == BY_ARM else arms.pool[NOISE]
    solved = [root, 1.0 / np.diagonal(root, axis1=1, axis2=2), noise * root, bandit._arms.mean]
    solved += [arms.pool[[CENTRE, NOISE]], parts[:, [WEIGHT, LEVEL, Q1, Q2, OWN_NOISE, FREEDOM]]]
    if not all(usable(np.ascontiguousarray(part).reshape(-1)) for part in solved):
        raise ValueError("the moments of a posterior are too large or too small to square")
    bandit._decisions = whole_number(meta["decisions"], "decisions", 0, LARGEST_COUNT)
    bandit._use_settings(bandit._settings.at(bandit._decisions + 1))
    bandit._set_handle()
    bandit._stream = Uniforms(generator_from_state(meta["rng"]), arrays["uniforms"])
    return bandit


def prior_kind(clicks: Clicks | None) -> Any:
    """Return how the prior came about: ``"given"``, ``"learned"`` or ``"uniform"``."""
    return "uniform" if isinstance(clicks, Coins) else "learned" if clicks is not None and clicks.learned else "given"


def upgraded(meta: dict[str, Any], arrays: Arrays) -> State:
    """Return the state of a file of an earlier version as one of version 5.

    In version 1 the noise was given, and there was no intercept; in version 2 rewards were normal; in version 3 there
    was no exploration to be set; in version 4 features had no names.
    """
    meta = {"features": None} | meta
    if "exploration" not in meta["settings"]:
        meta = meta | {"settings": meta["settings"] | {"exploration": 1.0}}
    if "rewards" not in meta:
        meta = meta | {"rewards": "gaussian", "prior": "given"}
    if "half_life" in meta or "noise_sd" not in meta:
        return meta, arrays
    settings = meta["settings"] | {"first_pulls": 0, "min_propensity": 0.0}
    meta = meta | {"settings": settings, "noise": "shared", "intercept": False, "half_life": None, "tick": None}
    gram, pulls, dim = arrays["gram"], arrays["pulls"], len(arrays["prior_precision"])
    more = {
        "prior_precision": arrays["prior_precision"][np.newaxis],
        "prior_mean": np.zeros((1, dim)),
        "prior": np.zeros(len(pulls), dtype=np.int64),
        "extra": np.zeros((len(gram), EXTRAS, dim + 2)),
        "weights": pulls.astype(np.float64),
        "tries": pulls,
        "pool": np.array([math.inf, -math.inf, 1.0, 0.0, 0.0, 0.0]),
    }
    return meta, arrays | more


def _saved_settings(settings: BanditSettings) -> dict[str, Any]:
    """Return settings as JSON can hold them."""
    values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    if isinstance(settings.alpha, Schedule):
        values["alpha"] = saved_schedule(settings.alpha)
    return values
