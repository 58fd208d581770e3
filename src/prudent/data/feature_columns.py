"""Columns of features in a log: numbers, categories and cyclic values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, ParameterError
from ..types import BoolArray, FloatArray, TableLike
from .columns import TableColumns, synonyms
from .labels import Column, is_missing, object_array
from .source import TableSource
from .state_rules import plain_label

ROLES = ("action", "reward", "count", "episode", "step", "done")
_NO_FEATURES = {  # roles of columns that a state must not depend on
    "action": "the action of the row",
    "reward": "the reward of the row",
    "done": "where the process ended",
    "next_state": "what followed the row",
    "duration": "how long the transition took",
    "episode": "which rows belong together",
    "count": "how often a row was seen",
}


def read_feature_columns(
    log: TableLike,
    features: Sequence[str],
    required: Sequence[str] = (),
    roles: Sequence[str] = ROLES,
    columns: Mapping[str, Any] | None = None,
    argument: str = "log",
) -> TableColumns:
    """Return a log whose features are called ``feature NAME`` and ``next NAME``, besides the columns of ``roles``.

    A column can be a feature and a role at once, such as a step that is a feature too.
    """
    source = TableSource(log, argument)
    names = source.column_names
    if names is None:
        message = f"{source.name} has columns without names; features need names: {', '.join(features)}"
        raise DataError(message, code="missing-column", column=features[0])
    for name in features:
        if name not in names:
            message = f"{source.name} has no column {name!r}, which features names; its columns are {list(names)}"
            raise DataError(message, code="missing-column", column=name)
    given = dict(columns or {})
    shared = {}
    for name in features:
        for role in roles:
            if _column_of(role, names, given, role in required) == name:
                _refuse_role(name, role, source.name)
                shared[name] = role
        if name.lower().startswith("next_") and (name[5:] in names or synonyms([name], "next_state")):
            _refuse_role(name, "next_state", source.name)
    asked = {f"feature {name}": name for name in features if name not in shared}
    if all(f"next_{name}" in names for name in features):
        asked |= {f"next {name}": f"next_{name}" for name in features}
    needed = [*required, *(role for role in dict.fromkeys(shared.values()) if role not in required), *asked]
    held = source.read(needed, named=[role for role in roles if role not in needed], columns=given | asked)
    for name, role in shared.items():
        held[f"feature {name}"] = held[role]
    return held


def _column_of(role: str, names: Sequence[Any], given: Mapping[str, Any], required: bool) -> Any:
    """Return the column that is read as ``role``; None if there is none."""
    if role in given:
        return given[role]
    usual = synonyms(names, role, required)
    exact = [name for name in usual if name == role]
    return (exact or usual or [None])[0]


def _refuse_role(name: str, role: str, table: str) -> None:
    """Raise if a feature says what followed the row, or names single episodes: a state must not depend on it."""
    if role not in _NO_FEATURES:
        return
    message = (
        f"features has {name!r}, which is {_NO_FEATURES[role]} in {table}: a state that depends on it is not known "
        f"when the action is chosen, or never comes back; leave it out, or say which column is {role}: "
        f"columns={{{role!r}: ...}}"
    )
    raise ParameterError(message, code="feature-role", argument="features", value=name, role=role)


class Feature(NamedTuple):
    """One column of features: floats with NaN where it is missing, or labels with None."""

    cells: Column
    numeric: bool

    @property
    def missing(self) -> BoolArray:
        """Which cells are empty."""
        return np.isnan(self.cells) if self.numeric else is_missing(self.cells)


def feature_of(held: TableColumns, key: str, numeric: bool | None) -> Feature:
    """Return a column; ``numeric`` says what it must be, None to tell by its cells."""
    column = held[key]
    name = key.partition(" ")[2]
    if column.dtype.kind in "mM" or any(hasattr(value, "isoformat") for value in column[:100].tolist()):
        message = f"column {name!r} of {held.table} holds dates; make numbers of them first, for instance the hour"
        raise DataError(message, code="wrong-type", column=name)
    if column.dtype.kind in "iuf" and numeric is not False:
        return Feature(column.astype(np.float64), True)
    empty = is_missing(column)
    cells = object_array([None if gone else plain_label(value) for gone, value in zip(empty, column, strict=True)])
    cells[cells == ""] = None
    if numeric is not False:
        numbers = _as_numbers(cells)
        if numbers is not None:
            return Feature(numbers, True)
        if numeric:
            odd = next(
                i for i, value in enumerate(cells) if value is not None and _as_numbers(cells[i : i + 1]) is None
            )
            raise held.wrong_cell(odd, key, "a number", "not-finite")
    return Feature(cells, False)


def _as_numbers(cells: Column) -> FloatArray | None:
    """Return cells as floats, NaN where they are empty; None if some are no numbers."""
    if any(value in ("True", "False") for value in cells.tolist()):
        return None
    for comma in (False, True):
        texts = [value.replace(",", ".") if comma and isinstance(value, str) else value for value in cells.tolist()]
        try:
            return np.array([np.nan if value is None else float(value) for value in texts])
        except (TypeError, ValueError):
            continue
    return None
