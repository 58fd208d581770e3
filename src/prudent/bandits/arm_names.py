"""Names of arms as users give them, checked: strings or integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._support.checks import whole_number
from ..errors import ParameterError, PrudentError
from .decision import Arm

__all__ = ["arm_names", "checked_name", "listed_names", "plain_name"]


def plain_name(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own."""
    return name.item() if isinstance(name, np.generic) else name


def checked_name(name: Any, where: str, error: type[PrudentError] = ParameterError) -> Arm:
    """Return the name of an arm; ``where`` is what errors call it."""
    plain = plain_name(name)
    if isinstance(plain, bool) or not isinstance(plain, (str, int)):
        raise error(f"{where} is {name!r}, expected a string or an integer")
    return plain


def arm_names(arms: Any, label: str, error: type[PrudentError] = ParameterError) -> list[Arm]:
    """Return the names of arms, all different, given as such or as their number."""
    if isinstance(arms, (int, np.integer)) and not isinstance(arms, bool):
        return list(range(whole_number(arms, label)))
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise error(f"{label} must be a number of arms or a list of names, got {arms!r}")
    names: dict[Arm, None] = {}
    for i, given in enumerate(arms):
        name = checked_name(given, f"{label}[{i}]", error)
        if name in names:
            raise error(f"{label}[{i}] is {name!r} for the second time")
        names[name] = None
    if not names:
        raise error(f"{label} is empty: a bandit needs at least one arm")
    return list(names)


def listed_names(arms: Any, label: str, error: type[PrudentError]) -> tuple[Arm, ...]:
    """Return names as Python's own strings and integers."""
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise error(f"{label} must be a list of names, got {arms!r}")
    names = tuple(arms.tolist() if hasattr(arms, "tolist") else arms)
    if not set(map(type, names)) <= {str, int}:
        names = tuple(checked_name(name, f"{label}[{i}]", error) for i, name in enumerate(names))
    return names
