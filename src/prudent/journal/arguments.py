"""Arguments of a journal, and what it asks of its bandit."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np

from ..bandits.kernels.step import LARGEST
from ..bandits.shared import SharedLinearBandit
from ..errors import DataError, ParameterError, PrudentError
from .codec import AnyBandit, AnyDecision

__all__ = ["checked_path", "propensity_of", "reward_number", "seconds_of", "warm_up"]


def checked_path(path: Any) -> str:
    """Return the path of a journal file as text."""
    try:
        text = os.fsdecode(os.fspath(path))
    except TypeError:
        text = ""
    if text in ("", ":memory:") or "\0" in text:
        message = f"path must be the path of a file, got {path!r}"
        raise ParameterError(message, code="wrong-type", argument="path", value=path)
    return text


def reward_number(reward: Any, name: str) -> float:
    """Return a reward as a finite float."""
    try:
        value = float("nan") if isinstance(reward, (str, bytes)) or np.ndim(reward) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not abs(value) <= LARGEST:
        text = f"{name} is {reward!r}, expected a finite number of at most {LARGEST}"
        raise DataError(text, code="not-finite", argument="reward", value=reward)
    return value + 0.0  # SQLite does not know -0.0


def seconds_of(before: Any) -> float:
    """Return a time as seconds since 1970."""
    value = before.timestamp() if isinstance(before, datetime) else before
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value:
        text = f"before must be a datetime or seconds since 1970, got {before!r}"
        raise ParameterError(text, code="wrong-type", argument="before", value=before)
    return float(value)


def warm_up(twin: AnyBandit) -> None:
    """Decide and learn once, so that kernels are compiled now and not while other processes wait."""
    shared = isinstance(twin, SharedLinearBandit)
    point = np.zeros((2, twin.dim) if shared else twin.dim)
    with suppress(PrudentError):  # settings that do not allow so few or so many arms, say
        for reward in (0.0, 1.0, 0.0):  # before and after the first data
            decision: Any = twin.select(point, [0, 1] if shared else None)
            propensity_of(decision)
            twin.update(decision.context, decision.arm, reward)


def propensity_of(decision: AnyDecision) -> float | None:
    """Return the propensity of a decision, or None if its settings define none."""
    try:
        return decision.propensity
    except ParameterError:  # not defined for these settings
        return None
