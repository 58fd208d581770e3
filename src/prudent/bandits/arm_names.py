"""Names of arms as users give them, checked: strings or integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._support.checks import whole_number
from ..errors import ParameterError, PrudentError
from .decision import Arm


def plain_name(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own."""
    return name.item() if isinstance(name, np.generic) else name


def checked_name(name: Any, where: str, error: type[PrudentError] = ParameterError) -> Arm:
    """Return the name of an arm; ``where`` is what errors call it."""
    plain = plain_name(name)
    if isinstance(plain, bool) or not isinstance(plain, (str, int)):
        message = f"{where} is {name!r}, expected a string or an integer"
        raise error(message, code="wrong-type", argument=where, value=name)
    return plain


def arm_names(arms: Any, label: str, error: type[PrudentError] = ParameterError) -> list[Arm]:
    """Return the names of arms, all different, given as such or as their number."""
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        return list(range(whole_number(arms, label, memory=64.0)))
    names = listed_names(arms, label, error)
    if not names:
        raise error(f"{label} is empty: a bandit needs at least one arm", code="empty", argument=label)
    if len(set(names)) < len(names):
        i = next(i for i, name in enumerate(names) if name in names[:i])
        message = f"{label}[{i}] is {names[i]!r} for the second time"
        raise error(message, code="duplicate-name", argument=label, index=i, arm=names[i])
    return list(names)


def listed_names(arms: Any, label: str, error: type[PrudentError]) -> tuple[Arm, ...]:
    """Return names as Python's own strings and integers."""
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        message = f"{label} must be a list of names, got {arms!r}"
        raise error(message, code="wrong-type", argument=label, value=arms)
    names = tuple(arms.tolist() if hasattr(arms, "tolist") else arms)
    if not set(map(type, names)) <= {str, int}:
        names = tuple(checked_name(name, f"{label}[{i}]", error) for i, name in enumerate(names))
    return names
