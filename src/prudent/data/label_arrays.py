"""Names of states and actions as arrays and as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["label_array", "plain_name"]


def label_array(names: Any, size: int = 0) -> npt.NDArray[Any]:
    """Return names as a one-dimensional array, also where each name is a tuple; numbers if there are none."""
    if names is None or (size and names == tuple(range(size))):
        return np.arange(size)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def plain_name(name: Any) -> Any:
    """Return a name as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple | list | frozenset):
        return [plain_name(part) for part in name]
    if isinstance(name, float) and not np.isfinite(name):
        return str(name)
    return name if name is None or isinstance(name, bool | int | float | str) else str(name)
