"""Columns of whatever people call a table: a DataFrame, a file, a dict of columns, a structured array, rows of values.

pandas is imported for files only: what has ``columns`` is read like a DataFrame. A label stays as it is, even a tuple.
Columns go by our names, by the usual other ones (``SYNONYMS``), or by what ``columns=`` says.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from ..errors import PrudentError
from .labels import Column, cell

# How else a column may be called, after lower case and with _ for blanks, dots and dashes. No name stands twice.
SYNONYMS: dict[str, frozenset[str]] = {
    name: frozenset([name, *others.split()])
    for name, others in {
        "state": "s states current_state state_from statefrom from_state idstatefrom id_state_from idstate from",
        "action": "a actions act idaction id_action",
        "next_state": "s' sp s_prime sprime s_next snext next nextstate next_states new_state newstate state_next "
        "state_to stateto to_state idstateto id_state_to to",
        "reward": "r rewards rew",
        "probability": "p prob probabilities probs",
        "count": "counts n weight weights freq frequency",
        "outcome": "outcomes",
        "source": "sources",
        "sample": "idoutcome id_outcome idsample sample_id draw",
        "episode": "episodes episode_id idepisode ep trajectory trajectory_id traj",
        "step": "steps t time time_step timestep",
    }.items()
}
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?")
_LARGEST_COUNT = 2.0**53  # nobody lives to see so many
_NUMBERS = ("reward", "probability", "count", "step")  # all other columns hold labels


class Columns(dict[str, Column]):
    """The columns of a table by our names, and how to speak of them."""

    used: dict[str, Any]  # our name -> theirs; empty where columns go by position
    ignored: tuple[Any, ...]  # names of columns that were not read

    def __init__(self, table: str, rows: Sequence[Any] | None = None, lines: Any = None) -> None:
        super().__init__()
        self.table = table
        self.used, self.ignored = {}, ()
        self._rows, self._lines = rows, lines

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values())))

    @property
    def from_text(self) -> bool:
        """Whether all of it was text, so that its labels are numbers only because they look so."""
        return self._lines is not None

    def place(self, row: int) -> str:
        """Return how a message calls a row: ``log row 3``, ``log row 3 (index 'b')``, ``log.csv line 5``."""
        if self._lines is not None:
            return f"{self.table} line {self._lines[row]}"
        label = "" if self._rows is None else f" (index {_plain(self._rows[row])!r})"
        return f"{self.table} row {row}{label}"


def read_columns(
    given: Any,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    table: str,
    error: type[PrudentError],
    named: Sequence[str] = (),
    columns: Mapping[str, Any] | None = None,
) -> Columns:
    """Return the columns of a DataFrame, a file, a dict of columns, a structured array, or rows in this order.

    Rows give ``required`` and then ``optional`` by position; ``named`` are further columns that only have names.
    ``columns`` maps our names to those of the table; None says that there is no such column.
    """
    wanted = (*required, *optional, *named)
    if isinstance(given, str | os.PathLike):
        return _read_file(Path(given), required, wanted, columns, error)
    given = _levels_as_columns(given, required, columns)
    held = _column_names(given)
    found = Columns(table, _index_labels(given))
    if held is None:
        if columns:
            raise error(f"columns has names, but {table} has none: its columns go by position, {', '.join(wanted)}")
        most = len(required) + len(optional)
        by_position = _by_position(given, len(required), most, table, error)
        found.update(zip(wanted[:most], by_position, strict=False))
    else:
        found.used = _assigned(held, required, wanted, columns, table, error)
        found.ignored = tuple(name for name in held if name not in found.used.values())
        found.update({name: _column(given[theirs]) for name, theirs in found.used.items()})
    first = found[required[0]]
    for name, column in found.items():
        if column.ndim != 1 or column.size != first.size:
            raise error(f"column {name!r} of {table} has shape {column.shape}, but {required[0]!r} has {first.shape}")
    return found


def has_names(given: Any) -> bool:
    """Return whether the columns of a table have names, and do not go by position."""
    return isinstance(given, str | os.PathLike) or _column_names(given) is not None


def read_numbers(columns: Columns, what: str, *, error: type[PrudentError], where: Any = True) -> FloatArray:
    """Return a column of finite numbers; what stands in rows that are not in the mask ``where`` is not looked at."""
    column = columns[what]
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_number(value) for value in column.tolist()])
    _refuse_row(~np.isfinite(numbers) & where, columns, what, "a finite number", error)
    return numbers


def read_counts(columns: Columns, *, error: type[PrudentError]) -> FloatArray | None:
    """Return how often each row was seen, numbers >= 0; None if the table has no such column."""
    if "count" not in columns:
        return None
    counts = read_numbers(columns, "count", error=error)
    _refuse_row(counts < 0.0, columns, "count", "a number >= 0", error)
    _refuse_row(counts > _LARGEST_COUNT, columns, "count", f"at most {_LARGEST_COUNT:g}", error)
    return counts


def _refuse_row(bad: Any, columns: Columns, what: str, expected: str, error: type[PrudentError]) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        theirs = columns.used.get(what, what)
        name = what if theirs == what else f"{what} (column {theirs!r})"
        raise error(f"{columns.place(row)}: {name} is {cell(columns[what], row)!r}, expected {expected}")


# -- which column is which ---------------------------------------------------------------------------------


def _assigned(
    held: Sequence[Any],
    required: Sequence[str],
    wanted: Sequence[str],
    columns: Mapping[str, Any] | None,
    table: str,
    error: type[PrudentError],
) -> dict[str, Any]:
    """Return which of the table's columns ``held`` stands for each of our names."""
    used: dict[str, Any] = {}
    for name, theirs in (columns or {}).items():
        if name not in wanted:
            raise error(f"columns names {name!r}, expected some of {', '.join(wanted)}")
        if theirs is not None and theirs not in held:
            raise error(f"{table} has no column {theirs!r} (for {name}); its columns are {list(held)}")
        if theirs is not None:
            used[name] = theirs
    free = [theirs for theirs in held if theirs not in used.values()]
    for name in wanted:
        if columns is not None and name in columns:
            continue
        able = [name] if name in free else [theirs for theirs in free if _stands_for(theirs, name)]
        if len(able) > 1:
            shown = " and ".join(map(repr, able))
            raise error(f"{table} has {shown}, each of which may be the {name}; say which: columns={{{name!r}: ...}}")
        if able:
            used[name] = able[0]
    for name, theirs in used.items():
        if held.count(theirs) > 1:
            raise error(f"{table} has {held.count(theirs)} columns called {theirs!r}, expected one {name}")
    for name in required:
        if name not in used:
            hint = f"; if it is called otherwise: columns={{{name!r}: ...}}" if any(map(_is_text, held)) else ""
            raise error(f"{table} has no column {name!r}; its columns are {list(held)}{hint}")
    return used


def _is_text(name: Any) -> bool:
    return isinstance(name, str)


def _stands_for(theirs: Any, name: str) -> bool:
    return isinstance(theirs, str) and re.sub(r"[\s.\-]+", "_", theirs.strip().lower()) in SYNONYMS[name]


def _column_names(given: Any) -> list[Any] | None:
    if isinstance(given, Mapping):
        return list(given)
    if isinstance(given, np.ndarray):
        return None if given.dtype.names is None else list(given.dtype.names)
    return list(given.columns) if hasattr(given, "columns") else None


def _levels_as_columns(given: Any, required: Sequence[str], columns: Mapping[str, Any] | None) -> Any:
    """Return counts by (state, action, ...), as ``groupby(...).size()`` gives them, with their index as columns."""
    levels = [name for name in getattr(getattr(given, "index", None), "names", None) or () if name is not None]
    if not levels or not hasattr(given, "reset_index"):
        return given
    if not hasattr(given, "columns"):  # a Series
        return given.rename(given.name if given.name is not None else "count").reset_index()
    wanted = {(columns or {}).get(name, name) for name in required}
    known = [name for name in levels if name in wanted or any(_stands_for(name, other) for other in required)]
    held = list(given.columns)
    return given.reset_index(known) if known and not set(known) & set(held) else given


def _index_labels(given: Any) -> Sequence[Any] | None:
    """Return the index of a DataFrame where it is more than 0, 1, ..., n-1."""
    index = getattr(given, "index", None)
    if not hasattr(given, "columns") or index is None or callable(index):
        return None
    plain = len(index) and getattr(index, "nlevels", 1) == 1 and np.array_equal(index, np.arange(len(index)))
    return None if plain else index


def _plain(label: Any) -> Any:
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label


# -- cells -------------------------------------------------------------------------------------------------


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _column(values: Any) -> Column:
    """Return an array of cells in which every label stays whole, even a tuple."""
    if hasattr(values, "dtype") and getattr(values.dtype, "kind", "O") not in "mM":  # NumPy would number dates
        return np.asarray(values)
    cells = list(values)
    kinds = set(map(type, cells))
    if bool not in kinds and all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds):
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


# -- files -------------------------------------------------------------------------------------------------


def _read_file(
    path: Path,
    required: Sequence[str],
    wanted: Sequence[str],
    columns: Mapping[str, Any] | None,
    error: type[PrudentError],
) -> Columns:
    """Read a CSV or Parquet file; what is wrong in it is named by line or by row."""
    import pandas

    if not path.is_file():
        raise error(f"there is no file {os.fspath(path)!r}")
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            frame = pandas.read_parquet(path)
        except ImportError as fault:
            raise error(f"{path.name}: reading Parquet needs pyarrow ({fault})") from fault
        except Exception as fault:  # whatever pyarrow says of a file that is none
            raise error(f"{path.name} is no Parquet file: {fault}") from fault
        return read_columns(frame, required, wanted[len(required) :], table=path.name, error=error, columns=columns)
    return _read_text(path, required, wanted, columns, error)


def _read_text(
    path: Path,
    required: Sequence[str],
    wanted: Sequence[str],
    columns: Mapping[str, Any] | None,
    error: type[PrudentError],
) -> Columns:
    import pandas

    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as opened:
            line = str(opened.readline())
    except (UnicodeDecodeError, OSError) as fault:
        raise error(f"{path.name} is no text in UTF-8: {fault}") from fault
    separator = max(",;\t|", key=line.count)
    held = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    if not any(held):
        raise error(f"{path.name} is empty, or its first line is; expected the names of the columns")
    used = _assigned(held, required, wanted, columns, path.name, error)
    at = {name: held.index(theirs) for name, theirs in used.items()}
    size = len(held)
    try:
        frame = pandas.read_csv(
            path,
            sep=separator,
            header=None,
            names=list(range(size + 1)),  # one more, to see what is too long
            skiprows=1,
            # texts: what a column holds is decided when all of it is known; categories take little memory
            dtype={place: str if place in at.values() else "category" for place in range(size + 1)},
            keep_default_na=False,
            na_values=[""],
            skip_blank_lines=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
        )
    except pandas.errors.EmptyDataError:
        raise error(f"{path.name} has the names of columns and no rows") from None
    except (pandas.errors.ParserError, UnicodeDecodeError) as fault:
        told = str(fault).removeprefix("Error tokenizing data. C error: ").strip()
        told = re.sub(r"starting at row (\d+)", lambda row: f"starting at line {int(row[1]) + 1}", told)
        raise error(f"{path.name}: {told}") from fault
    long = frame[size].notna().to_numpy()
    if long.any():
        raise error(f"{path.name} line {int(np.argmax(long)) + 2} has {size + 1} values, but there are {size} columns")
    frame = frame[sorted(set(at.values()))]
    blank = frame.isna().all(axis=1).to_numpy()
    lines = np.flatnonzero(~blank) + 2
    frame = frame[~blank]
    found = Columns(path.name, lines=lines)
    found.used = used
    found.ignored = tuple(name for name in held if name not in used.values())
    coded = {name: pandas.factorize(frame[place]) for name, place in at.items()}
    # a state that is a number where it is left and a text where it is reached would be two states
    whole = {name: all(map(_WHOLE.fullmatch, texts)) for name, (_, texts) in coded.items()}
    both = whole.get("state", True) and whole.get("next_state", True)
    for name, (codes, texts) in coded.items():
        if name in _NUMBERS:
            found[name] = _numbers_of(codes, texts.tolist(), decimal_comma=separator == ";")
        else:
            found[name] = _labels_of(codes, texts.tolist(), both if name in ("state", "next_state") else whole[name])
    return found


def _labels_of(codes: Any, texts: list[str], whole: bool) -> Column:
    """Return labels, given as distinct texts: whole numbers if all of them are, else texts; None where empty (-1)."""
    names = [int(text.partition(".")[0]) for text in texts] if whole else texts
    if whole and (codes >= 0).all():
        return np.array(names, dtype=np.int64)[codes]
    return np.fromiter([*names, None], dtype=object, count=len(names) + 1)[codes]


def _numbers_of(codes: Any, texts: list[str], decimal_comma: bool) -> Column:
    """Return numbers, given as distinct texts, or the texts if some are no numbers, to be shown in a message."""
    if decimal_comma:
        texts = [text.replace(",", ".") for text in texts]
    try:
        return np.array([*map(float, texts), np.nan])[codes]
    except ValueError:
        return np.fromiter([*texts, None], dtype=object, count=len(texts) + 1)[codes]
