"""Checks that both bandits make of what users give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._support.checks import FloatArray, first_index, first_place
from ..data.features import NamedValues, read_named
from ..data.source import context_columns
from ..errors import DataError, ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from .kernels.step import LARGEST
from .settings import BanditSettings

__all__ = ["check_floor", "item_prior", "log_contexts", "refuse_noise", "refuse_unknown", "settings_of", "too_large"]


def settings_of(settings: Any, alpha: Any, options: dict[str, Any]) -> BanditSettings:
    """Return settings given as such or as single options, those that are not None."""
    if settings is None:
        settings = BanditSettings(0.0 if alpha is None else alpha)
    elif alpha is not None:
        raise ParameterError(
            "give alpha or settings, not both: settings have their own alpha",
            code="conflicting-arguments",
            argument="alpha",
        )
    elif not isinstance(settings, BanditSettings):
        raise ParameterError(
            f"settings must be a BanditSettings, got {settings!r}", code="wrong-type", argument="settings"
        )
    changed = {name: value for name, value in options.items() if value is not None}
    if changed and settings.label == settings.default_label():  # a name of its own stays
        changed["label"] = ""
    return replace(settings, **changed)


def refuse_unknown(rewards: Any, kinds: Sequence[str]) -> None:
    """Raise unless ``rewards`` is one of the kinds."""
    if not isinstance(rewards, str) or rewards not in kinds:
        raise ParameterError(
            f"rewards must be one of {list(kinds)}, got {rewards!r}",
            code="unknown-option",
            argument="rewards",
            value=rewards,
            expected=list(kinds),
        )


def log_contexts(log: Any, features: Any, *names: str) -> tuple[Any, list[Any], NamedValues | None]:
    """Return contexts and further columns of a log, and the contexts read by name if they have names."""
    contexts, *columns = context_columns(log, features, *names)
    return contexts, columns, read_named(contexts, None, "context")


def refuse_noise(rewards: str, noise_sd: float | None, noise: str = "shared") -> None:
    """Raise if a noise is given for rewards that have none."""
    if noise_sd is not None or noise != "shared":
        name = "noise_sd" if noise_sd is not None else "noise"
        raise ParameterError(
            f"{name} does not go with rewards={rewards!r}: the law of such rewards has no noise to be set",
            code="conflicting-arguments",
            argument=name,
        )


def check_floor(floor: float, k: int) -> None:
    """Raise if ``k`` arms cannot all have the probability ``floor``."""
    if floor * k > 1.0 + 1e-12:
        raise ParameterError(
            f"min_propensity is {floor}, but {k} arms are eligible: it can be at most 1/{k}",
            code="probability-range",
            argument="min_propensity",
            value=floor,
        )


def too_large(points: FloatArray, label: str) -> DataError:
    """Return the error that names the first number whose square overflows."""
    huge = np.abs(points) > LARGEST
    return DataError(
        f"{label}{first_index(huge)} is {points[huge][0]}, too large to square",
        code="too-large",
        argument=label,
        index=first_place(huge),
        value=float(points[huge][0]),
    )


def item_prior(precision: Any, dim: int, intercept: bool) -> FloatArray:
    """Return the prior precision of theta, intercept included: that of a matrix of features alone is 1."""
    size = dim + int(intercept)
    if intercept and np.shape(precision) == (dim, dim):
        prior = np.eye(size)
        prior[1:, 1:] = LinearGaussianPosterior(dim, precision).prior
        return prior
    return LinearGaussianPosterior(size, precision).prior
