"""Checks that both bandits make of what users give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._support.checks import FloatArray, finite_array, instance_of
from ..data.features import read_named
from ..data.transformers import encoder_of, is_encoder
from ..errors import ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from ..schedules import Schedule, named_schedule
from .settings import BanditSettings


def settings_of(settings: Any, alpha: float | Schedule | None, rewards: str, options: dict[str, Any]) -> BanditSettings:
    """Return settings given as such or as single options, those that are not None."""
    if settings is None:
        settings = BanditSettings((0.0 if rewards == "gaussian" else 0.5) if alpha is None else alpha)
    elif alpha is not None:
        message = "give alpha or settings, not both: settings have their own alpha"
        raise ParameterError(message, code="conflicting-arguments", argument="alpha")
    instance_of(settings, "settings", BanditSettings)
    changed = {name: value for name, value in options.items() if value is not None}
    if changed and settings.label == settings.default_label():  # a name of its own stays
        changed["label"] = ""
    return replace(settings, **changed)


def refuse_noise(rewards: str, noise_sd: float | None, noise: str = "shared") -> None:
    """Raise if a noise is given for rewards that have none."""
    if noise_sd is not None or noise != "shared":
        name = "noise_sd" if noise_sd is not None else "noise"
        message = f"{name} does not go with rewards={rewards!r}: the law of such rewards has no noise to be set"
        raise ParameterError(message, code="conflicting-arguments", argument=name)


def item_prior(precision: Any, dim: int, intercept: bool) -> FloatArray:
    """Return the prior precision of theta, intercept included: that of a matrix of features alone is 1."""
    size = dim + int(intercept)
    if intercept and np.shape(precision) == (dim, dim):
        prior = np.eye(size)
        prior[1:, 1:] = LinearGaussianPosterior(dim, precision).prior
        return prior
    return LinearGaussianPosterior(size, precision).prior


def context_size(contexts: Any, features: Any) -> int:
    """Return the number of features of the contexts of a log."""
    encoder = encoder_of(features) if is_encoder(features) else None
    if encoder is not None:
        return encoder.dim
    named = read_named(contexts, None, "context")
    points = finite_array(contexts, "context", ndim=2) if named is None else named.values
    return int(points.shape[1])


def options_of(about: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the bandit that wrote an exported log, where ``options`` do not say otherwise."""
    settings = dict(about["settings"])
    if isinstance(settings["alpha"], dict):
        settings["alpha"] = named_schedule(settings["alpha"])
    names = ("features", "rewards", "intercept", "noise_sd", "interactions")
    found: dict[str, Any] = {name: about[name] for name in names if name in about}
    if about.get("encoder") is not None:
        found["features"] = encoder_of(about["encoder"])
    limits = about.get("limits")
    if limits is not None:
        caps = dict(limits["caps"])
        found |= {"min_propensity": dict(limits["floors"]), "max_propensity": caps or limits["cap"]}
    if "alpha" not in options:
        found["settings"] = BanditSettings(**settings)
    return found | options
