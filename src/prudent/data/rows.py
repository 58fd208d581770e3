"""Logs that users bring as rows of tuples, or as tables: their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import DataError

__all__ = ["context_columns", "is_table", "log_columns"]


def is_table(log: Any) -> bool:
    """Return whether this is a DataFrame or a mapping with named columns."""
    return hasattr(log, "columns") or isinstance(log, dict)


def log_columns(log: Any, *names: str) -> list[list[Any]]:
    """Return the columns of a log: a table or mapping that has columns of these names, or rows with these parts.

    >>> log_columns([([1.0], "a"), ([2.0], "b")], "context", "arm")
    [[[1.0], [2.0]], ['a', 'b']]
    """
    if is_table(log):
        for name in names:
            if name not in log:
                raise DataError(f"log has no column {name!r}")
        return [list(log[name]) for name in names]
    if isinstance(log, (str, bytes)) or not isinstance(log, Iterable):
        raise DataError(f"log must be rows of ({', '.join(names)}) or a table with such columns, got {log!r}")
    rows = list(log)
    if not rows:
        raise DataError("log is empty")
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(names):
            raise DataError(f"log[{i}] is {row!r}, expected ({', '.join(names)})")
    return [list(column) for column in zip(*rows, strict=True)]


def context_columns(log: Any, features: Any, *names: str, context: str = "context") -> list[Any]:
    """Return contexts and further columns of a log; a table without contexts has a column for each of the features.

    >>> context_columns({"age": [3.0, 4.0], "arm": ["a", "b"]}, ["age"], "arm")
    [{'age': [3.0, 4.0]}, ['a', 'b']]
    """
    if features is None or isinstance(features, str) or not is_table(log) or context in log:
        return log_columns(log, context, *names)
    wanted = list(features)
    found = log_columns(log, *wanted, *names)
    return [dict(zip(wanted, found, strict=False)), *found[len(wanted) :]]
