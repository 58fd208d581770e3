"""Names of states, actions, sources and outcomes, and the indices that they stand for.

A user who names things is asked for names and shown names. Without names, the labels of n things are the integers
0, 1, ..., n-1, which are their own indices. The caller says which error reports a label that does not exist:
``ParameterError`` for an argument, ``DataError`` for a log, ``ModelError`` for a table that defines a model.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from .._support.checks import IntArray, index_array
from ..errors import ModelError, ParameterError, PrudentError
from ..types import BoolArray

Column = npt.NDArray[Any]
Names = Iterable[Hashable] | None


class Labels:
    """Labels of one axis.

    Parameters
    ----------
    what : str
        What is labelled, for messages: ``"state"``.
    names : iterable of hashable, optional
        The labels in the order of their indices. By default they are 0, 1, ..., size-1.
    size : int
        Number of labels.
    error : type of PrudentError, default=ModelError
        Raised if names are not distinct and hashable, or not as many as ``size``.

    Attributes
    ----------
    numbered : bool
        Whether the labels are 0, 1, ..., size-1.
    """

    def __init__(self, what: str, names: Names, size: int, error: type[PrudentError] = ModelError) -> None:
        self.what, self.size, self.numbered = what, size, True
        self._index: dict[Hashable, int] = {}
        if names is None:
            return
        given = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
        if len(given) != size:
            raise error(f"{what}: {len(given)} names were given, expected {size}", code="name-count", value=len(given))
        for i, name in enumerate(given):
            try:
                first = self._index.setdefault(name, i)
            except TypeError:
                message = f"the name of {what} {i} is {name!r}, which is not hashable"
                raise error(message, code="not-hashable", value=name, index=i) from None
            if first != i:
                message = f"the names of {what} {first} and {what} {i} are the same, {name!r}"
                raise error(message, code="duplicate-name", value=name, index=i)
        if not is_numbered(given):
            self.numbered, self.names = False, given

    @classmethod
    def of(
        cls, what: str, names: Names, *columns: Iterable[Hashable], error: type[PrudentError] = ModelError
    ) -> Labels:
        """Return the labels ``names``, or without them those that occur in ``columns``.

        Labels that occur are sorted, numbers within texts by size ("bed 2" before "bed 10"), or in the order of their
        first occurrence if they cannot be compared. The number 1 and the text '1' are refused side by side: they are
        one label that was read from two files.
        """
        if names is not None:
            given = tuple(names)
            return cls(what, given, len(given), error)
        try:
            values = dict.fromkeys(chain.from_iterable(_distinct(column) for column in columns))
            learned: list[Any] = list(dict.fromkeys(_integral(value) for value in values if not is_empty(value)))
        except TypeError as fault:
            message = f"table has a label of {what} that cannot be a name: {fault}"
            raise error(message, code="not-hashable") from None
        numbers = {str(name): name for name in learned if isinstance(name, int | float)}
        for name in learned:
            if isinstance(name, str) and name in numbers:
                message = f"{what} is the number {numbers[name]!r} in some rows and the text {name!r} in others"
                raise error(message, code="mixed-types", column=what, value=name)
        with suppress(TypeError):
            learned.sort()
            if all(isinstance(name, str) for name in learned):
                learned.sort(key=_natural)
        return cls(what, learned, len(learned), error)

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The labels, in the order of their indices."""
        return tuple(range(self.size))

    def some(self, which: BoolArray) -> Labels:
        """Return the labels for which ``which`` [size] is True."""
        return self if which.all() else Labels(self.what, self.names_at(np.flatnonzero(which)), int(which.sum()))

    def names_at(self, indices: IntArray) -> list[Hashable]:
        """Return the labels of some indices."""
        names = self.names
        return [names[i] for i in indices.tolist()]

    def find(self, label: Any) -> int:
        """Return the index of a label, or -1 if there is no such label."""
        if type(label) is int and self.numbered:  # fast path for agents, which look up plain numbers at every step
            return label if 0 <= label < self.size else -1
        with suppress(TypeError):  # from labels that cannot be hashed, or are no numbers
            if not self.numbered:
                return self._index.get(label, -1)
            index = operator.index(_integral(label))
            return index if 0 <= index < self.size else -1
        return -1

    def index(self, label: Any, argument: str | None = None, error: type[PrudentError] = ParameterError) -> int:
        """Return the index of a label, or raise; ``argument`` is what the caller gave it as, by default ``what``."""
        if type(label) is int and self.numbered and 0 <= label < self.size:  # without a second call
            return label
        index = self.find(label)
        if index < 0:
            raise self.unknown(label, argument or self.what, error)
        return index

    def unknown(self, label: Any, argument: str, kind: type[PrudentError]) -> PrudentError:
        """Return the error for a label that does not exist."""
        expected = self.expected()
        message = f"{argument} is {label!r}, expected {expected}"
        return kind(message, code=self.unknown_code, argument=argument, value=label, expected=expected)

    @property
    def unknown_code(self) -> str:
        """Code of the error for a label that does not exist: ``unknown-state``."""
        return f"unknown-{self.what.split()[0]}"

    def indices(self, labels: Any, argument: str, error: type[PrudentError]) -> IntArray:
        """Return the index of a label, or the indices [T] of a list or an array of labels."""
        if self.numbered:
            return index_array(labels, argument, self.size, error)
        cells = label_cells(labels, self)
        places = self.find_all(cells.ravel()).reshape(cells.shape)
        if (places < 0).any():
            i = int(np.argmax(places < 0))
            raise self.unknown(cells.ravel()[i], f"{argument}[{i}]" if cells.ndim else argument, error)
        return places

    def find_all(self, column: Column) -> IntArray:
        """Return the indices of a column of labels [M], -1 where there is no such label."""
        if self.numbered and column.dtype.kind in "iuf":
            with np.errstate(invalid="ignore"):  # NaN
                indices = column.astype(np.int64, copy=False)
            return np.where((indices == column) & (indices >= 0) & (indices < self.size), indices, -1)
        values = column.tolist()
        try:  # a log has millions of cells: no line of Python is run for each
            places = map(self.find, values) if self.numbered else map(self._index.get, values, repeat(-1))
            return np.fromiter(places, dtype=np.int64, count=len(values))
        except TypeError:  # from cells that cannot be hashed
            return np.fromiter(map(self.find, values), dtype=np.int64, count=len(values))

    def expected(self) -> str:
        """Return what a valid label looks like: ``one of 'red', 'green'``."""
        if self.numbered:
            return f"a whole number from 0 to {self.size - 1}"
        shown = ", ".join(map(repr, self.names[:5]))
        return f"one of {shown}" + (f", ... ({self.size} in all)" if self.size > 5 else "")

    def show(self, index: int) -> str:
        """Format a member for messages: ``state 'red'``."""
        return f"{self.what} {index if self.numbered else repr(self.names[index])}"


def is_numbered(names: Sequence[Hashable] | None) -> bool:
    """Return whether names are just 0, 1, ..., n-1, or missing."""
    if names is None:
        return True
    # False and True equal 0 and 1
    return tuple(names) == tuple(range(len(names))) and not any(isinstance(name, bool) for name in names)


def label_cells(values: Any, labels: Labels) -> Column:
    """Return one label as an array without axes, several as an object array [T].

    A list or an array holds several; a tuple is one label where a name is a tuple; a text is always one.
    """
    several = isinstance(values, list | range) or (hasattr(values, "__array__") and np.ndim(values) > 0)
    if isinstance(values, tuple):
        several = labels.numbered or not any(isinstance(name, tuple) for name in labels.names)
    if not several:
        return object_array([values.item() if isinstance(values, np.generic) else values]).reshape(())
    return object_array(values.tolist() if hasattr(values, "tolist") else list(values))


def object_array(cells: Sequence[Any]) -> Column:
    """Return cells as an object array [T], in which a tuple stays a tuple."""
    return np.fromiter(cells, dtype=object, count=len(cells))


def label_array(names: Sequence[Hashable] | None, size: int = 0) -> Column:
    """Return names as an array [S], of numbers if there are none."""
    return np.arange(size) if names is None or (size and names == tuple(range(size))) else object_array(names)


def plain_name(name: Any) -> Any:
    """Return a name as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple | list | frozenset):
        return [plain_name(part) for part in name]
    if isinstance(name, float) and not np.isfinite(name):
        return str(name)
    return name if name is None or isinstance(name, bool | int | float | str) else str(name)


def _distinct(column: Iterable[Hashable]) -> Iterable[Any]:
    import pandas

    return pandas.unique(column).tolist() if isinstance(column, np.ndarray) else column


def _integral(value: Any) -> Any:
    """Return 3 for 3.0: tables of numbers often hold their labels as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_empty(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or pandas' NA, which cannot be compared."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def is_missing(column: Column) -> BoolArray:
    """Return which cells of a column are empty."""
    if column.dtype.kind in "biuU":
        return np.zeros(column.shape, dtype=np.bool_)
    if column.dtype == object and column.ndim == 1 and set(map(type, column)) <= {str, int, bool}:
        return np.zeros(column.shape, dtype=np.bool_)  # sooner than loading pandas
    import pandas

    return np.asarray(pandas.isna(column))


def is_gap(value: Any) -> bool:
    """Return whether a cell says that an outcome was not observed: it is empty, or -1."""
    return is_empty(value) or (isinstance(value, (int, float)) and value == -1)


def cell(column: Column, row: int) -> Any:
    """Return one cell as a plain Python value; a tuple stays a tuple."""
    return column[row : row + 1].tolist()[0]


def _natural(name: str) -> list[str | int]:
    """Return the key of a text by which "bed 2" comes before "bed 10"."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]{1,300})", name))]
