"""Columns of whatever people call a table: a DataFrame, a dict of columns, a structured array, rows of values.

Nothing here imports pandas: what has ``columns`` is read like a DataFrame. A label stays as it is, even a tuple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import PrudentError
from .checks import FloatArray
from .labels import Column, cell


def read_columns(
    given: Any,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    table: str,
    error: type[PrudentError],
) -> dict[str, Column]:
    """Return the columns of a DataFrame, a dict of columns, a structured array, or rows in this order."""
    wanted = (*required, *optional)
    held = _column_names(given)
    if held is None:
        by_position = _by_position(given, len(required), len(wanted), table, error)
        found = dict(zip(wanted, by_position, strict=False))
    else:
        for name in required:
            if name not in held:
                raise error(f"{table} has no column {name!r}; its columns are {list(held)}")
        found = {name: _column(given[name]) for name in wanted if name in held}
    first = found[required[0]]
    for name, column in found.items():
        if column.ndim != 1 or column.size != first.size:
            raise error(f"column {name!r} of {table} has shape {column.shape}, but {required[0]!r} has {first.shape}")
    return found


def read_numbers(column: Column, what: str, *, table: str, error: type[PrudentError]) -> FloatArray:
    """Return a column of finite numbers."""
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.array([_number(value) for value in column.tolist()])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise error(f"{table} row {row}: {what} is {cell(column, row)!r}, expected a finite number")
    return numbers


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _column_names(given: Any) -> Sequence[Any] | None:
    if isinstance(given, Mapping):
        return list(given)
    if isinstance(given, np.ndarray):
        return given.dtype.names
    return list(given.columns) if hasattr(given, "columns") else None


def _column(values: Any) -> Column:
    """Return an array of cells in which every label stays whole, even a tuple."""
    if hasattr(values, "dtype"):
        return np.asarray(values)
    cells = list(values)
    if all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in set(map(type, cells))):
        return np.asarray(cells)
    return np.fromiter(cells, dtype=object, count=len(cells))


def _by_position(given: Any, fewest: int, most: int, table: str, error: type[PrudentError]) -> list[Column]:
    width = str(fewest) if fewest == most else f"{fewest} to {most}"
    if isinstance(given, np.ndarray) and given.size:
        if given.ndim != 2 or not fewest <= given.shape[1] <= most:
            raise error(f"{table} has shape {given.shape}, expected rows of {width} values")
        return list(given.T)
    try:
        rows = list(given)
    except TypeError:
        raise error(f"{table} must hold rows of {width} values, got {given!r}") from None
    for i, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__len__") or not fewest <= len(row) <= most:
            raise error(f"{table} row {i} is {row!r}, expected {width} values")
    if not rows:
        return [np.empty(0, dtype=np.int64)] * fewest
    widths = set(map(len, rows))
    if len(widths) > 1:
        rows = [(*row, *[None] * (max(widths) - len(row))) for row in rows]
    return [_column(cells) for cells in zip(*rows, strict=True)]
