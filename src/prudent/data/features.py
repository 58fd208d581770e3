"""Features by name: contexts that name their numbers, put into one order.

Dicts, rows and tables of pandas, named tuples and structured arrays have names. Lists and arrays have positions.
Labels that are just the numbers 0, 1, ..., D-1 are positions too, in any order. Names are compared as texts, since
tables, JSON and databases do not agree on what else a name may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, finite_array
from ..errors import DataError, ParameterError

PLAIN = frozenset({np.ndarray, list, tuple, type(None)})  # types without names, though their rows may have some
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


class _Labelled(NamedTuple):
    """Numbers with a label for each position of the last axis."""

    labels: Sequence[Any]
    cells: Any  # [D], [T, D] or a list of columns
    columns: bool = False


def checked_names(names: Any, label: str, taken: Iterable[str] = ()) -> Names:
    """Return names of features, all different and none of them ``taken``."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        message = f"{label} must be a list of names, got {names!r}"
        raise ParameterError(message, code="wrong-type", argument=label, value=names)
    listed = tuple(map(str, names))
    second = _repeated(listed)
    if second is not None:
        message = f"{label}[{second}] is {listed[second]!r} for the second time"
        raise ParameterError(message, code="duplicate-name", argument=label, index=(second,), value=listed[second])
    _refuse_taken(listed, label, taken, ParameterError)
    return listed


def read_named(
    given: Any,
    known: Names | None,
    label: str,
    taken: Iterable[str] = (),
    first: int = 0,
    optional: Collection[str] = (),
) -> NamedValues | None:
    """Return the numbers of contexts that have names, in the order of ``known`` names; None if none has a name.

    If no names are known, the order is that of ``given`` or of its first row. ``taken`` are names that a feature
    cannot have; ``optional`` ones may be left out, and are 0 then. Messages call the argument ``label`` and number its
    rows from ``first`` on.

    >>> read_named({"price": 2.0, "age": 30.0}, ("age", "price"), "context")
    NamedValues(values=array([30.,  2.]), names=('age', 'price'))
    >>> read_named([2.0, 30.0], ("age", "price"), "context") is None
    True
    """
    labelled = _labelled(given)
    if labelled is not None:
        return _ordered(labelled, known, label, taken, optional)
    rows = _rows(given)
    if rows is None:
        return None
    values: list[FloatArray] = []
    for i, row in enumerate(rows, first):
        where, labelled = f"{label}[{i}]", _labelled(row)
        if labelled is None:
            values.append(finite_array(row, where))
        else:
            point, known = _ordered(labelled, known, where, taken, optional)
            values.append(point)
        shape = values[-1].shape
        if len(shape) != 1 or shape != values[0].shape:
            message = f"{where} has shape {shape}, expected {values[0].shape[:1]} like the first"
            raise DataError(message, code="wrong-shape", argument=label, index=(i,), value=shape)
    return NamedValues(np.stack(values), known)


def shown(names: Sequence[str]) -> str:
    """Format names for a message, the first of many."""
    return ", ".join(map(repr, names[:_SHOWN])) + (f", ... ({len(names)} in all)" if len(names) > _SHOWN else "")


# -- labels ------------------------------------------------------------------------------------------------


def _labelled(given: Any) -> _Labelled | None:
    """Return numbers and their labels, or None if there are no labels."""
    fields = getattr(getattr(given, "dtype", None), "names", None)
    if fields is not None:  # a structured array
        return _Labelled(fields, [given[name] for name in fields], columns=np.ndim(given) > 0)
    kind = type(given)  # the object itself may have columns or labels with the names of attributes
    if kind in PLAIN:
        return None
    if isinstance(given, Mapping):
        cells = list(given.values())
        return _Labelled(list(given), cells, columns=any(np.ndim(cell) for cell in cells))
    columns = next((name for name in ("column_names", "columns") if hasattr(kind, name)), None)
    if columns is not None:  # the attribute columns of pyarrow holds arrays
        return _Labelled(list(getattr(given, columns)), given)
    if hasattr(kind, "index") and hasattr(kind, "to_numpy") and not callable(given.index):
        return None if _holds_rows(given) else _Labelled(given.index.tolist(), given)
    return _Labelled(given._fields, list(given)) if hasattr(kind, "_fields") else None


def _holds_rows(series: Any) -> bool:
    """Return whether the cells of a Series are contexts, as in a log."""
    return series.dtype.kind == "O" and any(np.ndim(cell) or isinstance(cell, Mapping) for cell in series)


def _rows(given: Any) -> list[Any] | None:
    """Return rows of which some have names, or None if these are none."""
    if not isinstance(given, (list, tuple)) and getattr(getattr(given, "dtype", None), "kind", "") != "O":
        return None
    rows = list(given) if isinstance(given, (list, tuple)) or np.ndim(given) else []
    kinds = set(map(type, rows)) - _NUMBERS
    if kinds <= PLAIN and not (np.ndarray in kinds and any(_labelled(row) for row in rows)):
        return rows if rows and hasattr(given, "index") and hasattr(given, "to_numpy") else None
    return rows if any(_labelled(row) is not None for row in rows) else None


# -- numbers -----------------------------------------------------------------------------------------------


def _ordered(
    labelled: _Labelled, known: Names | None, label: str, taken: Iterable[str], optional: Collection[str]
) -> NamedValues:
    """Return the numbers [D] or [T, D] in the order of the known names, and the names known from now on."""
    names = tuple(map(str, labelled.labels))
    absent = [name for name in known or () if name in optional and name not in names]
    order, known = order_of((*names, *absent), known, label, taken)
    try:
        if labelled.columns:
            values = np.stack([np.asarray(column, dtype=np.float64) for column in labelled.cells], axis=-1)
        else:
            values = np.array(labelled.cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _fault(labelled, names, label) from None
    finite = np.isfinite(values)
    if not finite.all():
        *row, i = np.argwhere(~finite)[0].tolist()
        message = f"{label}{row or ''}[{names[i]!r}] is {values[~finite][0]}, expected a finite number"
        raise DataError(message, code="not-finite", argument=label, index=(*row, i), value=values[~finite][0])
    if absent:
        values = np.concatenate([values, np.zeros((*values.shape[:-1], len(absent)))], axis=-1)
    return NamedValues(values if order is None else np.ascontiguousarray(values[..., order]), known)


def _fault(labelled: _Labelled, names: Names, label: str) -> DataError:
    """Return the error about the first feature that is no number, or has another length than the first."""
    cells: Any = labelled.cells
    columns = [cells[name] for name in labelled.labels] if hasattr(cells, "columns") else list(cells)
    for name, column in zip(names, columns, strict=True):
        where = f"{label}[{name!r}]"
        for i, value in enumerate(column if np.ndim(column) else [column]):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                row = f" in row {i}" if np.ndim(column) else ""
                message = f"{where} is {_short(value)}{row}, expected a number"
                return DataError(message, code="not-a-number", argument=label, column=name)
        if np.shape(column) != np.shape(columns[0]):
            message = f"{where} has shape {np.shape(column)}, unlike {label}[{names[0]!r}]"
            return DataError(message, code="wrong-shape", argument=label, column=name, value=np.shape(column))
    return DataError(f"{label} must hold numbers", code="not-numbers", argument=label)


def _short(value: Any) -> str:
    try:
        return repr(value)[:80]
    except ValueError:  # an integer with too many digits
        return f"a {type(value).__name__}"


# -- names -------------------------------------------------------------------------------------------------


def order_of(
    names: Names, known: Names | None, label: str, taken: Iterable[str] = ()
) -> tuple[list[int] | None, Names | None]:
    """Return the position of each known feature in ``names``, None if in order, and the names known from now on."""
    if names == known:
        return None, known
    second = _repeated(names)
    if second is not None:
        message = f"{label} has two features called {names[second]!r}"
        raise DataError(message, code="duplicate-name", argument=label, value=names[second])
    position = {name: i for i, name in enumerate(names)}
    numbers = tuple(map(str, range(len(names))))
    for wanted in (known, numbers):
        if wanted is not None and position.keys() == set(wanted):
            return [position[name] for name in wanted], known
    if known is None:
        _refuse_taken(names, label, taken, DataError)
        return None, names
    lost, more = [n for n in known if n not in position], [n for n in names if n not in set(known)]
    differs = " and ".join([f"lacks {shown(lost)}"] * bool(lost) + [f"has {shown(more)} besides"] * bool(more))
    message = (
        f"{label} {differs}; the features are {shown(known)}. Give these, or a plain array, which goes by position"
    )
    raise DataError(message, code="different-features", argument=label, missing=lost, unknown=more)


def _repeated(names: Names) -> int | None:
    """Return the position of the first name that occurs before it, or None."""
    return None if len(set(names)) == len(names) else next(i for i, name in enumerate(names) if name in names[:i])


def _refuse_taken(names: Names, label: str, taken: Iterable[str], error: type[DataError | ParameterError]) -> None:
    for name in taken:
        if name in names:
            message = f"{label} has a feature called {name!r}, which the bandit adds by itself: leave it out"
            raise error(message, code="duplicate-name", argument=label, value=name)
