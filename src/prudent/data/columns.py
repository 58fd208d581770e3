"""Columns of a table by our names, and the errors that name a row or a line of it."""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, PrudentError
from ..types import BoolArray, FloatArray, IntArray
from .labels import Column, Labels, cell, is_empty, is_gap, object_array

# Other usual names of columns, in lower case and with _ for blanks, dots and dashes. No name stands for two columns. A
# count has no other name: a column "weight" or "n" may hold anything, and as a count it would change every number.
SYNONYMS: dict[str, frozenset[str]] = {
    name: frozenset([name, *others.split()])
    for name, others in {
        "state": "s states current_state state_from statefrom from_state idstatefrom id_state_from idstate from",
        "action": "a actions act idaction id_action",
        "next_state": "s' sp s_prime sprime s_next snext next nextstate next_states new_state newstate state_next "
        "state_to stateto to_state idstateto id_state_to to",
        "reward": "r rewards rew",
        "probability": "p prob probabilities probs",
        "count": "",
        "outcome": "outcomes",
        "source": "sources",
        "sample": "idoutcome id_outcome idsample sample_id draw",
        "episode": "episodes episode_id idepisode ep trajectory trajectory_id traj",
        "step": "steps t time time_step timestep",
        "duration": "",
        "group": "",
        "done": "terminated is_terminal terminal ended",
    }.items()
}
# letters that are read only where the column is required, or next to "s" and "a": alone they may stand for anything
LETTERS = {"reward": "r", "step": "t"}
Cells = Any  # of one column: an array [M], an array [M, D] or a list
_DOTTED, _ISO = re.compile(r"^(\d\d?)\.(\d\d?)\.(\d{4})"), re.compile(r"\d{4}-\d\d")
_LARGEST_COUNT = 2.0**53  # up to which floats count exactly


class TableColumns(dict[str, Column]):
    """Columns of a table by our names, with the errors that name a place in it.

    Attributes
    ----------
    table : str
        What messages call the table: the name of the argument, or of the file.
    used : dict
        Our name of each column that was read, and the name that the table has for it. Empty where columns go by
        position.
    ignored : tuple
        Names of the columns that were not read.
    """

    def __init__(
        self, table: str, error: type[PrudentError], index: Sequence[Any] | None = None, lines: IntArray | None = None
    ) -> None:
        super().__init__()
        self.table, self._error = table, error
        self.used: dict[str, Any] = {}
        self.ignored: tuple[Any, ...] = ()
        self._row_names, self._lines = index, lines

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values())))

    @property
    def from_text(self) -> bool:
        """Whether the table is a text file, whose labels are numbers if all of them look like numbers."""
        return self._lines is not None

    def place(self, row: int) -> str:
        """Format a row for messages: ``log row 3``, ``log row 3 (index 'b')``, ``log.csv line 5``."""
        if self._lines is not None:
            return f"{self.table} line {self._lines[row]}"
        label = "" if self._row_names is None else f" (index {_plain(self._row_names[row])!r})"
        return f"{self.table} row {row}{label}"

    def fault(self, row: int, message: str, code: str, **fields: Any) -> PrudentError:
        """Return an error about a row; its fields have the row, or the line of a text file."""
        where = {"row": row} if self._lines is None else {"line": int(self._lines[row])}
        return self._error(f"{self.place(row)}: {message}", code=code, **where, **fields)

    def wrong_cell(self, row: int, name: str, expected: str, code: str) -> PrudentError:
        """Return the error about one cell: ``log row 3: reward (column 'r') is 'x', expected a finite number``."""
        value, theirs = cell(self[name], row), self.used.get(name, name)
        shown = name if theirs == name else f"{name} (column {theirs!r})"
        return self.fault(
            row, f"{shown} is {value!r}, expected {expected}", code, column=name, value=value, expected=expected
        )

    def refuse(self, bad: BoolArray, name: str, expected: str, code: str) -> None:
        """Raise for the first row where ``bad`` is True."""
        if bad.any():
            raise self.wrong_cell(int(np.argmax(bad)), name, expected, code)

    def numbers(self, name: str, where: BoolArray | bool = True) -> FloatArray:
        """Return a column of finite numbers; rows that are not in the mask ``where`` are not checked."""
        column = self[name]
        try:
            numbers = column.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.array([_number(value) for value in column.tolist()])
        self.refuse(np.asarray(~np.isfinite(numbers) & where), name, "a finite number", "not-finite")
        return numbers

    def times(self, name: str) -> FloatArray:
        """Return a column of times: numbers, or seconds since 1970 of dates (2024-12-31 08:30, or 31.12.2024 08:30)."""
        if not self.has_dates(name):
            return self.numbers(name)
        moments = _moments(self[name])
        self.refuse(np.isnan(moments), name, "a date like 2024-12-31 08:30, as the others are", "not-finite")
        return moments

    def has_dates(self, name: str) -> bool:
        """Whether a column holds dates."""
        column = self[name]
        if column.dtype.kind in "iufb" or not column.size:
            return column.dtype.kind == "M"
        first = next((value for value in column.tolist() if not is_gap(value)), None)
        return first is not None and bool(np.isfinite(_moments(object_array([first]))[0]))

    def with_columns(self, columns: Mapping[str, Column]) -> TableColumns:
        """Return other columns of the same table, with the same places in messages."""
        made = copy.copy(self)
        made.clear()
        made.update(columns)
        return made

    def probabilities(self) -> FloatArray:
        """Return the column ``probability``, in which no number is negative."""
        chances = self.numbers("probability")
        self.refuse(chances < 0.0, "probability", "one in [0, 1]", "probability-range")
        return chances

    def counts(self) -> FloatArray:
        """Return how often each row was seen [M], numbers >= 0; all one if the table has no column ``count``."""
        if "count" not in self:
            return np.ones(self.size)
        counts = self.numbers("count")
        self.refuse(counts < 0.0, "count", "a number >= 0", "negative")
        self.refuse(counts > _LARGEST_COUNT, "count", f"at most {_LARGEST_COUNT:g}", "value-range")
        return counts

    def indices(
        self, name: str, labels: Labels, *, column: Column | None = None, rows: IntArray | None = None
    ) -> IntArray:
        """Return the indices of a column of labels; ``column`` replaces its cells by others, those of ``rows``."""
        cells = self[name] if column is None else column
        indices = labels.find_all(cells)
        if (indices < 0).any():
            i = int(np.argmin(indices))
            raise self._unknown(i if rows is None else int(rows[i]), name, cell(cells, i), labels)
        return indices

    def outcomes(self, name: str, labels: Sequence[Labels], which: IntArray, gaps: bool = False) -> IntArray:
        """Return the indices of a column in which row i has a label of ``labels[which[i]]``.

        With ``gaps``, an empty cell or -1 becomes -1.
        """
        cells = self[name]
        if len(labels) == 1:
            indices = labels[0].find_all(cells)
        else:
            members = zip(which.tolist(), cells.tolist(), strict=True)
            indices = np.fromiter((labels[b].find(value) for b, value in members), np.int64, cells.size)
        for row in np.flatnonzero(indices < 0).tolist():
            if not (gaps and is_gap(cell(cells, row))):
                raise self._unknown(row, name, cell(cells, row), labels[which[row] if len(labels) > 1 else 0])
        return indices

    def _unknown(self, row: int, name: str, value: Any, labels: Labels) -> PrudentError:
        expected = labels.expected()
        found = f"missing ({value!r})" if is_empty(value) else repr(value)
        message = f"{name} is {found}, expected {expected}"
        return self.fault(row, message, labels.unknown_code, column=name, value=value, expected=expected)


class TableBlock(NamedTuple):
    """Some consecutive rows of a table.

    Attributes
    ----------
    columns : dict
        Cells of each column, by the names of the table.
    first : int
        Number of rows before these.
    table : str
        What messages call the table.
    lines : int64 [T] or None
        Line of each row in a text file.
    """

    columns: dict[Any, Cells]
    first: int
    table: str
    lines: IntArray | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def fault(self, row: int, message: str, code: str, **fields: Any) -> DataError:
        """Return an error about one of the rows."""
        if self.lines is None:
            return DataError(f"log row {self.first + row}: {message}", code=code, row=self.first + row, **fields)
        line = int(self.lines[row])
        return DataError(f"{self.table} line {line}: {message}", code=code, line=line, **fields)


def synonyms(names: Sequence[Any], name: str, required: bool = True) -> list[Any]:
    """Return those of the columns ``names`` that usually are what we call ``name``."""
    spelled = {theirs: _spelled(theirs) for theirs in names if isinstance(theirs, str)}
    plain = required or {"s", "a"} <= set(spelled.values())
    usual = SYNONYMS[name] if plain else SYNONYMS[name] - {LETTERS.get(name)}
    return [theirs for theirs in names if isinstance(theirs, str) and spelled[theirs] in usual]


def _spelled(name: str) -> str:
    """Return a name in lower case, with _ for blanks, dots and dashes."""
    return re.sub(r"[\s.\-]+", "_", name.strip().lower())


def _plain(label: Any) -> Any:
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label


def _moments(cells: Column) -> FloatArray:
    """Return dates as seconds since 1970, NaN for what is none."""
    import pandas

    texts = [str(value).strip() if isinstance(value, str | datetime.date | np.datetime64) else "" for value in cells]
    dates = [_DOTTED.sub(lambda found: f"{found[3]}-{found[2]:0>2}-{found[1]:0>2}", text) for text in texts]
    whole = [text if _ISO.match(text) else "" for text in dates]  # and not the number 2024
    parsed = pandas.to_datetime(pandas.Series(whole, dtype=object), format="ISO8601", errors="coerce", utc=True)
    seconds = (parsed - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)
    return np.asarray(seconds, dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def as_column(values: Any) -> Column:
    """Return an array of cells in which every label stays as it is, even a tuple."""
    if hasattr(values, "dtype") and getattr(values.dtype, "kind", "O") not in "mM":  # NumPy would number dates
        return np.asarray(values)
    try:
        cells = list(values)
    except TypeError:  # a number where a column should be
        return np.asarray(values, dtype=object)
    kinds = set(map(type, cells))
    if bool not in kinds and all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds):
        return np.asarray(cells)
    return object_array(cells)
