"""Names of states, actions and outcomes, and how they become indices.

A user who names things is asked for names and told names. Without names, the labels of n things are 0, 1, ..., n-1.
What cannot be found is a ``ParameterError`` where it is an argument, a ``DataError`` where it is in a log, and a
``ModelError`` where it is in a table that defines a model: the caller says which.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support.checks import IntArray, index_array
from ..errors import ModelError, ParameterError, PrudentError

Column = npt.NDArray[Any]
Names = Iterable[Hashable] | None
Place = Callable[[int], str]  # how a message calls a row: ``log row 3``


class Labels:
    """The labels of one axis. Labels that are just 0, 1, ..., n-1 are their own indices and need no names."""

    def __init__(self, what: str, names: Names, size: int) -> None:
        self.what = what
        self.size = size
        self.names: tuple[Hashable, ...] | None = None
        self._index: dict[Hashable, int] = {}
        if names is None:
            return
        given = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
        if len(given) != size:
            raise ModelError(f"{what}: {len(given)} names were given, expected {size}")
        for i, name in enumerate(given):
            try:
                first = self._index.setdefault(name, i)
            except TypeError:
                raise ModelError(f"the name of {what} {i} is {name!r}, which is not hashable") from None
            if first != i:
                raise ModelError(f"the names of {what} {first} and {what} {i} are the same, {name!r}")
        if given != tuple(range(size)) or any(isinstance(name, bool) for name in given):  # False and True equal 0, 1
            self.names = given

    @classmethod
    def learn(cls, what: str, *columns: Iterable[Hashable]) -> Labels:
        """Return the labels that occur: sorted, or as first seen if they cannot be compared.

        The number 1 and the text '1' are refused side by side: they are one thing, read from two files.
        """
        try:
            values = dict.fromkeys(chain.from_iterable(_distinct(column) for column in columns))
            names: list[Any] = list(dict.fromkeys(_whole(value) for value in values if not _is_missing(value)))
        except TypeError as fault:
            raise ModelError(f"table has a label of {what} that cannot be a name: {fault}") from None
        numbers = {str(name): name for name in names if isinstance(name, int | float)}
        for name in names:
            if isinstance(name, str) and name in numbers:
                raise ModelError(
                    f"{what} is {numbers[name]!r} in some rows and {name!r} in others, a number and a text; make it one"
                )
        with suppress(TypeError):
            names.sort()
        return cls(what, names, len(names))

    def find(self, label: Any) -> int:
        """Return the index of a label, or -1 if there is no such label."""
        with suppress(TypeError):  # from labels that cannot be hashed, or are no numbers
            if self.names is not None:
                return self._index.get(label, -1)
            index = operator.index(_whole(label))
            return index if 0 <= index < self.size else -1
        return -1

    def index(self, label: Any, name: str | None = None, error: type[PrudentError] = ParameterError) -> int:
        """Return the index of a label, or raise; ``name`` is what the caller wrote it for, by default ``what``."""
        if type(label) is int and self.names is None and 0 <= label < self.size:
            return label  # a short cut for agents, which look up plain numbers at every step
        index = self.find(label)
        if index < 0:
            raise error(f"{name or self.what} is {label!r}, expected {self.expected()}")
        return index

    def indices(self, labels: Any, name: str, error: type[PrudentError]) -> IntArray:
        """Return the index of a label, or the indices [T] of a list or an array of labels."""
        if self.names is None:
            return index_array(labels, name, self.size, error)
        cells = label_cells(labels, self)
        found = np.fromiter(map(self.find, cells.ravel().tolist()), np.int64, cells.size).reshape(cells.shape)
        if (found < 0).any():
            place = int(np.argmax(found < 0))
            where = f"{name}[{place}]" if cells.ndim else name
            raise error(f"{where} is {cells.ravel()[place]!r}, expected {self.expected()}")
        return found

    def encode(
        self, column: Column, what: str, *, place: Place, error: type[PrudentError], gaps: bool = False
    ) -> IntArray:
        """Return the indices of a column of labels; with ``gaps`` an empty cell or -1 becomes -1."""
        if self.names is None and column.dtype.kind in "iuf":
            within = (column >= 0) & (column < self.size)
            indices = np.where(within, column, -1).astype(np.int64)
            bad = ~within | (indices != column)
            if gaps:
                bad &= ~((column == -1) | np.isnan(column))
        else:
            values = column.tolist()
            try:  # a long log has millions of cells, and this way no line of Python is run for each
                found = map(self._index.get, values, repeat(-1)) if self.names is not None else map(self.find, values)
                indices = np.fromiter(found, dtype=np.int64, count=len(values))
            except TypeError:  # from cells that cannot be hashed
                indices = np.fromiter(map(self.find, values), dtype=np.int64, count=len(values))
            bad = indices < 0
            if gaps:
                bad &= np.fromiter((not is_gap(value) for value in values), dtype=np.bool_, count=len(values))
        if bad.any():
            row = int(np.argmax(bad))
            raise error(f"{place(row)}: {what} is {cell(column, row)!r}, expected {self.expected()}")
        return indices

    def expected(self) -> str:
        """Return what a valid label looks like: ``one of 'red', 'green'``."""
        if self.names is None:
            return f"a whole number from 0 to {self.size - 1}"
        shown = ", ".join(map(repr, self.names[:5]))
        return f"one of {shown}" + (f", ... ({self.size} in all)" if self.size > 5 else "")

    def show(self, index: int) -> str:
        """Return how to call the member with this index in a message: ``state 'red'``."""
        return f"{self.what} {index if self.names is None else repr(self.names[index])}"


def encode_each(
    labels: Sequence[Labels],
    which: IntArray,
    column: Column,
    what: str,
    *,
    place: Place,
    error: type[PrudentError],
    gaps: bool = False,
) -> IntArray:
    """Return the indices of a column in which row i is a label of ``labels[which[i]]``."""
    indices = np.empty(column.size, dtype=np.int64)
    for row, (one, value) in enumerate(zip(which.tolist(), column.tolist(), strict=True)):
        indices[row] = labels[one].find(value)
        if indices[row] < 0 and not (gaps and is_gap(value)):
            raise error(f"{place(row)}: {what} is {value!r}, expected {labels[one].expected()}")
    return indices


def label_cells(values: Any, labels: Labels) -> Column:
    """Return one label as an array without axes, several as an object array [T].

    A list or an array holds several; a tuple is one label where a name is a tuple; a text is always one.
    """
    several = isinstance(values, list | range) or (hasattr(values, "__array__") and np.ndim(values) > 0)
    if isinstance(values, tuple):
        several = not any(isinstance(name, tuple) for name in labels.names or ())
    if not several:
        alone = np.empty((), dtype=object)
        alone[()] = values.item() if isinstance(values, np.generic) else values
        return alone
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return np.fromiter(listed, dtype=object, count=len(listed))


def _distinct(column: Iterable[Hashable]) -> Iterable[Any]:
    if not isinstance(column, np.ndarray):
        return column
    return (np.unique(column) if column.dtype.kind in "iuf" else column).tolist()


def _whole(value: Any) -> Any:
    """Return 3 for 3.0: tables of numbers often hold their labels as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or pandas' NA, which cannot be compared."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def is_missing(column: Column) -> npt.NDArray[np.bool_]:
    """Return which cells of a column are empty."""
    if column.dtype.kind in "iuf":
        return np.asarray(column != column)
    return np.fromiter(map(_is_missing, column.tolist()), dtype=np.bool_, count=column.size)


def is_gap(value: Any) -> bool:
    """Return whether a cell says that an outcome was not observed: it is empty, or -1."""
    return _is_missing(value) or (isinstance(value, (int, float)) and value == -1)


def cell(column: Column, row: int) -> Any:
    """Return one cell as a plain Python value; a tuple stays whole."""
    return column[row : row + 1].tolist()[0]
