"""Rows with names, out of what users have: mappings, records, tables, files; and what kinds of columns they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from datetime import date
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from ..errors import DataError
from .cell_encoders import empty, number_of
from .source import TableSource

_MOST_CATEGORIES = 100  # of a sample, with a slot each
_SINGLE = frozenset({str, float, int, bool, type(None)})
_PART = 100_000  # rows of a file that are read at a time
_SPARE = 4  # slots and shared places beside them
_COUNT_RANGE = 20.0  # of whole numbers that are taken for counts


class Rows(NamedTuple):
    """Rows with names, and whether they are one row that was not in a list."""

    rows: list[Mapping[str, Any]]
    single: bool


class Sparse(NamedTuple):
    """Encoded rows without their zeros.

    Attributes
    ----------
    places : list of list of int
        Places of each row that are not zero, in no order; the values of a place that occurs twice are added.
    values : list of list of float
        Their values.
    single : bool
        Whether there is one row that was not in a list.
    """

    places: list[list[int]]
    values: list[list[float]]
    single: bool

    def dense(self, dim: int) -> FloatArray:
        """Return the rows [T, D] with their zeros, or the one row [D]."""
        places, values, single = self
        if single:
            return np.bincount(places[0], values[0], dim) if places[0] else np.zeros(dim)  # type: ignore[return-value]
        out = np.zeros((len(places), dim))
        at = np.repeat(np.arange(0, out.size, dim), [len(each) for each in places])
        at += np.fromiter(chain.from_iterable(places), np.int64, at.size)
        np.add.at(out.reshape(-1), at, np.fromiter(chain.from_iterable(values), np.float64, at.size))
        return out


def rows_of(context: Any, kinds: Mapping[str, str], extra: str) -> Rows | None:
    """Return rows with names, for columns of these kinds; None if there are none."""
    row = context if type(context) is dict else record(context)
    if row is not None:
        return Rows(transposed(row), False) if _is_table(row, kinds, extra) else Rows([row], True)
    rows = table_rows(context, kinds if extra == "ignore" else None)
    if rows is not None:
        return Rows(rows, False)
    if not isinstance(context, (list, tuple)) and getattr(getattr(context, "dtype", None), "kind", "") != "O":
        return None
    listed = list(context) if isinstance(context, (list, tuple)) or np.ndim(context) else []
    found = [record(each) for each in listed]
    if all(each is None for each in found):
        return None
    for t, each in enumerate(found):
        if each is None:
            message = f"context[{t}] is {listed[t]!r:.80}, expected a row with names like the others"
            raise DataError(message, code="no-names", argument="context", index=(t,))
    return Rows([each for each in found if each is not None], False)


def _is_table(row: Mapping[str, Any], kinds: Mapping[str, str], extra: str) -> bool:
    """Return whether a mapping holds columns: lists in place of cells."""
    for name, cell in row.items():
        if cell.__class__ in _SINGLE or not isinstance(cell, (list, tuple, np.ndarray)):
            continue
        kind = kinds.get(name)
        if kind is None and extra == "ignore":
            continue
        if kind != "tags" or (isinstance(cell, np.ndarray) and not cell.ndim):
            return True
        if any(isinstance(tag, (list, tuple, set, frozenset, np.ndarray)) for tag in cell):
            return True
    return False


def record(given: Any) -> Mapping[str, Any] | None:
    """Return one row with names; None if it is none."""
    if isinstance(given, Mapping):
        return given if all(type(name) is str for name in given) else {str(name): cell for name, cell in given.items()}
    kind = type(given)
    if kind in (list, tuple, float, int, str, type(None)):
        return None
    if hasattr(kind, "_fields") and hasattr(kind, "_asdict"):
        return dict(given._asdict())
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    if isinstance(given, np.void) and given.dtype.names is not None:
        return {name: given[name].item() for name in given.dtype.names}
    if hasattr(kind, "index") and hasattr(kind, "to_numpy") and not hasattr(kind, "columns"):  # a Series of pandas
        labels = given.index.tolist() if not callable(given.index) else []
        if labels and all(isinstance(label, str) for label in labels):
            return dict(zip(labels, given.tolist(), strict=True))
    return None


def table_rows(given: Any, kept: Container[str] | None = None) -> list[Mapping[str, Any]] | None:
    """Return the rows of a table of pandas, pyarrow or NumPy; None if it is none."""
    if isinstance(given, np.ndarray):
        names = given.dtype.names
        return None if names is None else [dict(zip(names, row, strict=True)) for row in given.reshape(-1).tolist()]
    if callable(getattr(given, "to_pydict", None)) and hasattr(given, "column_names"):
        return transposed(given.to_pydict())
    if not hasattr(type(given), "columns") or not hasattr(given, "iloc"):
        return None
    names = [name for name in given.columns if kept is None or str(name) in kept]
    return transposed({str(name): given[name].tolist() for name in names}, len(given))


def transposed(columns: Mapping[str, Any], size: int | None = None) -> list[Mapping[str, Any]]:
    """Return the rows of columns."""
    lists: dict[str, list[Any]] = {}
    for key, column in columns.items():
        listed = column.tolist() if hasattr(column, "tolist") else column
        if isinstance(listed, (str, bytes, Mapping)) or not isinstance(listed, Iterable):
            message = f"context[{key!r}] is {column!r:.80}, expected a list of cells as in a table of columns"
            raise DataError(message, code="wrong-shape", argument="context", column=str(key))
        lists[str(key)] = list(listed)
    lengths = {len(column) for column in lists.values()} or {size or 0}
    if len(lengths) > 1:
        first, *others = lists
        name = next(name for name in others if len(lists[name]) != len(lists[first]))
        message = f"context[{name!r}] has {len(lists[name])} rows, unlike context[{first!r}]"
        raise DataError(message, code="wrong-shape", argument="context", column=name)
    if not lists:
        return [{}] * (size or 0)
    return [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]


def sample_rows(rows: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a sample; raise if there are none."""
    found: list[Mapping[str, Any]] | None = None
    if isinstance(rows, Mapping):
        found = transposed(rows)
    else:
        found = table_rows(rows)
        if found is None and isinstance(rows, (list, tuple)):
            records = [record(row) for row in rows]
            found = [row for row in records if row is not None]
            found = None if len(found) < len(records) else found
        elif found is None:
            found = []
            for part in TableSource(rows, "rows").blocks(_PART, ()):
                found += transposed(part.columns)
    if not found:
        message = "rows must be a sample of at least one row with names: dicts, a table or a file"
        raise DataError(message, code="no-rows", argument="rows")
    return found


def inferred(name: str, cells: list[Any]) -> dict[str, Any]:
    """Return the declaration of a column, by its cells."""
    found = [cell for cell in cells if not empty(cell)]
    missing = len(found) < len(cells)
    spec: dict[str, Any] = {"missing": missing}
    if not found:
        message = f"rows have nothing in column {name!r}: leave it out, or say what it is: {name}='category'"
        raise DataError(message, code="empty-column", argument="rows", column=name)
    if all(isinstance(cell, (bool, np.bool_)) for cell in found):
        return spec | {"kind": "flag"}
    if all(isinstance(cell, (list, tuple, set, frozenset, np.ndarray)) for cell in found):
        labels = {str(tag) for cell in found for tag in cell}
        return spec | {"kind": "tags"} | _slots(len(labels))
    if all(isinstance(cell, (date, np.datetime64)) or _is_date_text(cell) for cell in found):
        return spec | {"kind": "time"}
    if all(isinstance(cell, str) for cell in found):
        return spec | {"kind": "category"} | _slots(len(set(found)))
    try:
        numbers = np.array([number_of(cell) for cell in found])
    except DataError as fault:
        message = (
            f"rows have {fault.fields['value']!r:.80} in column {name!r} beside other kinds of cells: say what it is"
        )
        raise DataError(message, code="mixed-column", argument="rows", column=name) from None
    if set(numbers.tolist()) <= {0.0, 1.0}:
        return spec | {"kind": "flag"}
    counts = numbers.min() >= 0.0 and numbers.max() > _COUNT_RANGE and bool((numbers == np.round(numbers)).all())
    return spec | {"kind": "count" if counts else "number"}


def _is_date_text(cell: Any) -> bool:
    if not isinstance(cell, str) or len(cell) < 10 or not cell[:4].isdigit():
        return False
    try:
        date.fromisoformat(cell[:10])
    except ValueError:
        return False
    return True


def _slots(distinct: int) -> dict[str, int]:
    return {"slots": min(distinct, _MOST_CATEGORIES) + _SPARE, "shared": _SPARE}
