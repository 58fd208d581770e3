"""Encoders of texts: categories, tags, and products of columns; a place for each text, then shared ones by hash."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from .._support.checks import whole_number
from ..errors import DataError, ParameterError
from .cell_encoders import (
    BinEncoder,
    CellEncoder,
    CountEncoder,
    CycleEncoder,
    NumberEncoder,
    TimeEncoder,
    Token,
    distinct,
    empty,
    label_of,
)

_MOST = 1_000_000  # places of one column


class SlotEncoder(CellEncoder):
    """Base class of encoders of texts: ``slots`` places given in order of appearance, then ``shared`` ones by hash.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether there is a place for missing cells.
    slots : int
        Number of places for one text each.
    shared : int
        Number of places that all further texts share.
    values : sequence, optional
        Texts that have the first slots from the beginning.
    """

    fixed = False

    def __init__(
        self,
        name: str,
        first: int,
        missing: bool = True,
        slots: int | None = None,
        shared: int = 4,
        values: Sequence[Any] = (),
    ) -> None:
        self.given = [label_of(value) for value in values]
        if len(set(self.given)) < len(self.given):
            message = f"{name}.values has a text twice: {self.given!r}"[:200]
            raise ParameterError(message, code="duplicate-name", argument=name)
        default = len(self.given) if self.given else 16
        self.slots = default if slots is None else whole_number(slots, f"{name}.slots", len(self.given), _MOST)
        self.shared = whole_number(shared, f"{name}.shared", 0 if self.slots else 1, _MOST)
        super().__init__(name, first, missing)
        self._hashed = first + self.slots
        self._places = {label: first + i for i, label in enumerate(self.given)}
        self.missed = False  # whether a text without a slot was encoded since this was reset

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        more = {"slots": self.slots, "shared": self.shared}
        return super().options() | more | ({"values": self.given} if self.given else {})

    def _width(self) -> int:
        return self.slots + self.shared

    def _names(self) -> list[str]:
        listed = [f"{self.name}={label}" for label in self._places]
        listed += [f"{self.name} slot {i}" for i in range(len(self._places), self.slots)]
        return [*distinct(listed), *(f"{self.name} other {i}" for i in range(self.shared))]

    @property
    def settled(self) -> bool:
        """Whether nothing more can be learned."""
        return len(self._places) >= self.slots

    def place(self, label: str) -> int | None:
        """Return the place of a text; None if it has none."""
        place = self._places.get(label)
        if place is not None:
            return place
        self.missed = True
        if self.shared:
            place = self._hashed + crc32(label.encode("utf-8", "surrogatepass")) % self.shared
        return place

    def labels(self, cell: Any) -> Iterable[str]:
        """Return the texts of a cell."""
        return (label for label, _ in self.tokens(cell))

    def notice(self, cell: Any) -> bool:
        """Collect what a cell tells; return whether something is to be taken."""
        if self.settled or self._is_empty(cell):
            return False
        return any(label not in self._places for label in self.labels(cell))

    def _is_empty(self, cell: Any) -> bool:
        return empty(cell)

    def take(self, cell: Any) -> None:
        """Let happen what ``notice`` has said is due."""
        for label in self.labels(cell):
            self._give(label)

    def _give(self, label: str) -> None:
        if len(self._places) < self.slots and label not in self._places:
            self._places[label] = self.first + len(self._places)

    def fit(self, cells: list[Any]) -> None:
        """Learn from a sample at once."""
        counts = Counter(label for cell in cells if not self._is_empty(cell) for label in self.labels(cell))
        for label, _ in counts.most_common():  # ties stay in order of appearance
            self._give(label)

    def learned(self) -> Any:
        """Return what was learned, as JSON holds it; None if nothing was."""
        return list(self._places)[len(self.given) :] or None

    def restore(self, learned: Any) -> None:
        """Take what ``learned`` returned; raise ValueError if that cannot be."""
        labels = [*self.given, *(learned or ())]
        wrong = not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels)
        if wrong or len(labels) > self.slots:
            raise ValueError(f"{self.name!r} cannot have the categories {learned!r}"[:200])
        self._places = {label: self.first + i for i, label in enumerate(labels)}


class CategoryEncoder(SlotEncoder):
    """One text or number out of some, such as a country."""

    kind = "category"

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        return [(label_of(cell), 1.0)]

    def notice(self, cell: Any) -> bool:
        """Collect what a cell tells; return whether something is to be taken."""
        if cell in self._places if type(cell) is str else self.settled:
            return False
        return super().notice(cell)

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if type(cell) is str:
            place = self._places.get(cell)
            if place is None:
                place = self.place(cell)
        elif empty(cell):
            self._put_missing(places, values)
            return
        else:
            place = self.place(label_of(cell))
        if place is not None:
            places.append(place)
            values.append(1.0)


class TagEncoder(SlotEncoder):
    """Any number of texts: a list, tuple or set of them, or one text with a separator.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether there is a place for missing cells.
    separator : str, optional
        What separates the tags of a text. By default a text is one tag.
    **options : object
        Options of ``SlotEncoder``.
    """

    kind = "tags"

    def __init__(
        self, name: str, first: int, missing: bool = True, separator: str | None = None, **options: Any
    ) -> None:
        self.separator = separator
        if separator is not None and (not isinstance(separator, str) or not separator):
            message = f"{name}.separator must be a text, got {separator!r}"
            raise ParameterError(message, code="wrong-type", argument=name, value=separator)
        super().__init__(name, first, missing, **options)

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        return super().options() | ({} if self.separator is None else {"separator": self.separator})

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        if isinstance(cell, str):
            parts: Any = [cell] if self.separator is None else [part for part in cell.split(self.separator) if part]
        elif isinstance(cell, (list, tuple, set, frozenset)) or (isinstance(cell, np.ndarray) and cell.ndim):
            parts = cell.tolist() if isinstance(cell, np.ndarray) else cell
        else:
            raise DataError("expected a list of tags", code="not-tags", value=cell)
        found = {label_of(part) for part in parts if not empty(part)}
        return [(label, 1.0) for label in sorted(found)]  # sets have no order that another process would repeat

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if empty(cell):
            self._put_missing(places, values)
            return
        for label, value in self.tokens(cell):
            place = self.place(label)
            if place is not None:
                places.append(place)
                values.append(value)


class CrossEncoder(SlotEncoder):
    """Product of columns: a place for each combination of their texts, with the product of their numbers.

    Parameters
    ----------
    parts : sequence of CellEncoder
        The columns.
    first : int
        First place.
    slots, shared : int
        As of ``SlotEncoder``. Columns of numbers, intervals and times alone have as many places as combinations.
    """

    kind = "cross"

    def __init__(self, parts: Sequence[CellEncoder], first: int, slots: int | None = None, shared: int = 8) -> None:
        self.parts = tuple(parts)
        name, values = " x ".join(part.name for part in parts), []
        if all(part.fixed for part in parts):
            values = [_joined(labels) for labels in product(*map(_fixed_labels, parts))]
            slots, shared = len(values), 0
        super().__init__(name, first, False, 32 if slots is None else slots, shared, values)

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"columns": [part.name for part in self.parts], "slots": self.slots, "shared": self.shared}

    def _names(self) -> list[str]:
        return [self.name] if self.given == [""] else super()._names()

    def _is_empty(self, cell: Any) -> bool:
        return any(map(empty, cell))

    def column_of(self, cell: Any, row: Mapping[str, Any]) -> str:
        """Return the column of a row that a cell at fault is in; columns come first, so a cross reads it again."""
        return next((part.name for part in self.parts if row.get(part.name) is cell), self.name)

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        lists = [part.tokens(each) for part, each in zip(self.parts, cell, strict=True)]
        if len(lists) == 2 and len(lists[0]) == 1 == len(lists[1]):
            (one, x), (two, y) = lists[0][0], lists[1][0]
            return [(f"{_quoted(one)} x {_quoted(two)}" if one and two else _quoted(one or two), x * y)]
        return [
            (_joined([label for label, _ in tokens]), math.prod([value for _, value in tokens]))
            for tokens in product(*lists)
        ]

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if self._is_empty(cell):
            return
        for label, value in self.tokens(cell):
            place = self.place(label)
            if place is not None:
                places.append(place)
                values.append(value)


def _joined(labels: Iterable[str]) -> str:
    """Return the label of a product; different products have different labels."""
    return " x ".join(_quoted(label) for label in labels if label)


def _quoted(label: str) -> str:
    """Return a label in quotes if it could be read as a part of a product."""
    return json.dumps(label) if " x" in label or "x " in label or label[:1] == '"' else label


def _fixed_labels(part: CellEncoder) -> list[str]:
    """Return all labels of the tokens of a column of numbers, intervals or times."""
    if isinstance(part, NumberEncoder):
        return [""]
    if isinstance(part, BinEncoder):
        return [str(i) for i in range(part.bins)]
    return list(TimeEncoder.PARTS) if isinstance(part, TimeEncoder) else ["sin", "cos"]


KINDS: Mapping[str, tuple[type[CellEncoder], dict[str, Any]]] = {
    "number": (NumberEncoder, {}),
    "flag": (NumberEncoder, {"centre": 0.0, "scale": 1.0}),
    "count": (CountEncoder, {}),
    "bins": (BinEncoder, {}),
    "category": (CategoryEncoder, {}),
    "tags": (TagEncoder, {}),
    "time": (TimeEncoder, {}),
    "cycle": (CycleEncoder, {}),
    "hour": (CycleEncoder, {"period": 24.0}),
    "weekday": (CycleEncoder, {"period": 7.0}),
    "month": (CycleEncoder, {"period": 12.0}),
}


def options_of(encoder: type[CellEncoder]) -> list[str]:
    """Return the options of a kind of column."""
    found = {name for kind in encoder.__mro__[:-2] for name in signature(kind).parameters}
    return sorted(found - {"self", "name", "first", "options", "args", "kwargs"})
