"""Features by name: contexts that say which number is which, put into one order.

A dict, a row or a table of pandas, a named tuple and a structured array have names; lists and arrays have positions.
Labels that are just the numbers 0, 1, ..., D-1 are positions too, in whatever order they stand. Names are compared as
text, since tables, JSON and databases do not agree on what else a name may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, first_index
from ..errors import DataError, ParameterError

__all__ = ["PLAIN", "NamedValues", "Names", "checked_names", "order_of", "read_named", "shown"]


PLAIN = frozenset({np.ndarray, list, tuple, type(None)})  # what has no names of its own, though its rows may
_NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64})
_SHOWN = 8
Names = tuple[str, ...]


class NamedValues(NamedTuple):
    """Values of features in one order, and the names of that order.

    Attributes
    ----------
    values : float64 [D] or [T, D]
        Values.
    names : tuple of str or None
        Names of the features.
    """

    values: FloatArray
    names: Names | None


class _Part(NamedTuple):
    """Numbers with a label for each of the last axis."""

    labels: Sequence[Any]
    cells: Any  # [D], [T,D] or a list of columns
    columns: bool = False


def checked_names(names: Any, label: str, taken: Iterable[str] = ()) -> Names:
    """Return names of features, all different and none of them ``taken``."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise ParameterError(f"{label} must be a list of names, got {names!r}")
    told = tuple(map(str, names))
    twice = _twice(told)
    if twice is not None:
        raise ParameterError(f"{label}[{twice}] is {told[twice]!r} for the second time")
    _refuse_taken(told, label, taken, ParameterError)
    return told


def read_named(
    given: Any, known: Names | None, label: str, taken: Iterable[str] = (), first: int = 0
) -> NamedValues | None:
    """Return the numbers of what has names, in the order of ``known`` names; None if nothing in it has a name.

    If none are known, the order is that of ``given``, or of its first row, and its names are to be known from now on.
    ``taken`` are names that a feature cannot have. ``label`` is what the caller calls it: ``context``, with rows from
    ``first`` on.

    >>> read_named({"price": 2.0, "age": 30.0}, ("age", "price"), "context")
    NamedValues(values=array([30.,  2.]), names=('age', 'price'))
    >>> read_named([2.0, 30.0], ("age", "price"), "context") is None
    True
    """
    part = _part(given)
    if part is not None:
        names = tuple(map(str, part.labels))
        order, known = order_of(names, known, label, taken)
        return NamedValues(_ordered(_numbers(part, names, label), order), known)
    rows = _rows(given)
    if rows is None:
        return None
    parts = [_part(row) for row in rows]
    values = []
    for i, (row, each) in enumerate(zip(rows, parts, strict=True)):
        where = f"{label}[{first + i}]"
        if each is None:
            values.append(_plain(row, where))
            continue
        names = tuple(map(str, each.labels))
        order, known = order_of(names, known, where, taken)
        values.append(_ordered(_numbers(each, names, where), order))
    for i, point in enumerate(values):
        if point.ndim != 1 or point.shape != values[0].shape:
            raise DataError(
                f"{label}[{first + i}] has shape {point.shape}, expected {values[0].shape[:1]} like the first"
            )
    return NamedValues(np.stack(values), known)


def shown(names: Sequence[str]) -> str:
    """Return names for a message, the first of many."""
    return ", ".join(map(repr, names[:_SHOWN])) + (f", ... ({len(names)} in all)" if len(names) > _SHOWN else "")


# -- what has names ----------------------------------------------------------------------------------------


def _part(given: Any) -> _Part | None:
    """Return numbers and their labels, or None if there are no labels."""
    if type(given) in PLAIN and getattr(getattr(given, "dtype", None), "names", None) is None:
        return None
    if isinstance(given, Mapping):
        cells = list(given.values())
        return _Part(list(given), cells, columns=any(np.ndim(cell) for cell in cells))
    fields = getattr(getattr(given, "dtype", None), "names", None)
    if fields is not None:  # of a structured array
        return _Part(fields, [given[name] for name in fields], columns=np.ndim(given) > 0)
    kind = type(given)  # and not the object, whose columns or labels may have these names
    columns = next((name for name in ("column_names", "columns") if hasattr(kind, name)), None)
    if columns is not None:  # the columns of pyarrow are arrays
        return _Part(list(getattr(given, columns)), given)
    if hasattr(kind, "index") and hasattr(kind, "to_numpy") and not callable(given.index):
        return None if _holds_rows(given) else _Part(given.index.tolist(), given)
    return _Part(given._fields, list(given)) if hasattr(kind, "_fields") else None


def _holds_rows(series: Any) -> bool:
    """Return whether the cells of a Series are contexts, as a log keeps them."""
    return series.dtype.kind == "O" and any(np.ndim(cell) or isinstance(cell, Mapping) for cell in series)


def _rows(given: Any) -> list[Any] | None:
    """Return rows of which some have names; None if these are none."""
    if not isinstance(given, (list, tuple)) and getattr(getattr(given, "dtype", None), "kind", "") != "O":
        return None
    rows = list(given) if isinstance(given, (list, tuple)) or np.ndim(given) else []
    kinds = set(map(type, rows)) - _NUMBERS
    if kinds <= PLAIN and not (np.ndarray in kinds and any(_part(row) for row in rows)):
        return rows if rows and hasattr(given, "index") and hasattr(given, "to_numpy") else None
    return rows if any(_part(row) is not None for row in rows) else None


# -- numbers -----------------------------------------------------------------------------------------------


def _numbers(part: _Part, names: Names, label: str) -> FloatArray:
    """Return the numbers [D] or [T,D]; what is none is told by name."""
    try:
        if part.columns:
            values = np.stack([np.asarray(column, dtype=np.float64) for column in part.cells], axis=-1)
        else:
            values = np.array(part.cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _fault(part, names, label) from None
    finite = np.isfinite(values)
    if not finite.all():
        *row, place = np.argwhere(~finite)[0].tolist()
        raise DataError(f"{label}{row or ''}[{names[place]!r}] is {values[~finite][0]}, expected a finite number")
    return values


def _plain(row: Any, where: str) -> FloatArray:
    try:
        values = np.array(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{where} is {_short(row)}, expected numbers") from None
    if not np.isfinite(values).all():
        raise DataError(f"{where}{first_index(~np.isfinite(values))} is not finite")
    return values


def _fault(part: _Part, names: Names, label: str) -> DataError:
    """Return the error that names the feature which is no number, or has another length."""
    columns = list(part.cells) if part.columns or not hasattr(part.cells, "columns") else list(_columns(part.cells))
    shapes = set()
    for name, column in zip(names, columns, strict=True):
        where = f"{label}[{name!r}]"
        try:
            shapes.add(np.asarray(column, dtype=np.float64).shape)
        except (TypeError, ValueError, OverflowError):
            if not np.ndim(column):
                return DataError(f"{where} is {_short(column)}, expected a number")
            for i, cell in enumerate(column):
                try:
                    float(cell)
                except (TypeError, ValueError, OverflowError):
                    return DataError(f"{where} is {_short(cell)} in row {i}, expected a number")
        if len(shapes) > 1:
            return DataError(f"{where} has shape {np.shape(column)}, unlike {label}[{names[0]!r}]")
    return DataError(f"{label} must hold numbers")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer that has too many digits to be written
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:80] + "..."


def _columns(table: Any) -> Iterable[Any]:
    return (table.iloc[:, i] for i in range(table.shape[1])) if hasattr(table, "iloc") else table.columns


def _ordered(values: FloatArray, order: list[int] | None) -> FloatArray:
    return values if order is None else np.ascontiguousarray(values[..., order])


# -- names -------------------------------------------------------------------------------------------------


def order_of(
    names: Names, known: Names | None, label: str, taken: Iterable[str] = ()
) -> tuple[list[int] | None, Names | None]:
    """Return where each known feature stands among ``names``, None if in order, and what is known from now on."""
    if names == known:
        return None, known
    twice = _twice(names)
    if twice is not None:
        raise DataError(f"{label} has two features called {names[twice]!r}")
    place = {name: i for i, name in enumerate(names)}
    if known is not None and place.keys() == set(known):
        return [place[name] for name in known], known
    numbers = [str(i) for i in range(len(names))]
    if place.keys() == set(numbers):
        return [place[number] for number in numbers], known
    if known is None:
        _refuse_taken(names, label, taken, DataError)
        return None, names
    lost = [name for name in known if name not in place]
    more = [name for name in names if name not in set(known)]
    told = [f"lacks {shown(lost)}"] * bool(lost) + [f"has {shown(more)} besides"] * bool(more)
    raise DataError(
        f"{label} {' and '.join(told)}; the features are {shown(known)}. Give these, or a plain array, which goes by "
        "position"
    )


def _twice(names: Names) -> int | None:
    """Return the place of the first name that was there before."""
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            return i
        seen.add(name)
    return None


def _refuse_taken(names: Names, label: str, taken: Iterable[str], error: type[DataError | ParameterError]) -> None:
    for name in taken:
        if name in names:
            raise error(f"{label} has a feature called {name!r}, which the bandit adds by itself: leave it out")
