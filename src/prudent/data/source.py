"""The one reader of tables: files, frames, columns and rows that users bring.

A ``TableSource`` reads text files with a header (CSV, TSV, other separators, also gzipped), Parquet files, files
of JSON lines, DataFrames and named Series, tables, datasets and record batches of pyarrow, Datasets of xarray, dicts of
columns, structured arrays, rows (tuples, dicts, named tuples), and generators of rows or of DataFrames.

``TableSource.read`` returns complete columns by our names, ``TableSource.blocks`` streams them in bounded
memory. Columns go by our names, by the usual other ones (``prudent.data.columns.SYNONYMS``), or as ``columns=``
says. A label stays as it is, even a tuple. Messages name the row, or the line of a text file.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, PrudentError
from ..types import IntArray, TableLike
from .columns import Cells, TableBlock, TableColumns, as_column, synonyms
from .labels import Column, object_array

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?")
_NUMBERS = ("reward", "probability", "count", "step")  # all other columns hold labels
_PARQUET, _JSON = (".parquet", ".pq"), (".jsonl", ".ndjson", ".json")


class TableSource:
    """A table in any of the forms that users bring.

    Parameters
    ----------
    table : TableLike
        The table; see the module. Iterators are used up by reading.
    name : str, default="table"
        Name of the argument, for messages.
    error : type of PrudentError, default=DataError
        Raised if the table cannot be read.

    Examples
    --------
    >>> source = TableSource({"s": ["ill", "well"], "a": ["wait", "go"]}, "log")
    >>> columns = source.read(["state", "action"])
    >>> columns["state"].tolist(), columns.used
    (['ill', 'well'], {'state': 's', 'action': 'a'})
    """

    def __init__(self, table: TableLike, name: str = "table", error: type[PrudentError] = DataError) -> None:
        self._table: Any = table
        self.path = Path(table) if isinstance(table, str | os.PathLike) else None
        self.name = name if self.path is None else self.path.name
        self._argument, self._error = name, error

    @property
    def column_names(self) -> list[Any] | None:
        """Names of the columns, or None where they go by position."""
        return self._header[1] if self.is_text else _column_names(self._complete)

    @property
    def named(self) -> bool:
        """Whether the columns have names, and do not go by position."""
        return self.column_names is not None

    def read(
        self,
        required: Sequence[str],
        optional: Sequence[str] = (),
        *,
        named: Sequence[str] = (),
        columns: Mapping[str, Any] | None = None,
    ) -> TableColumns:
        """Return complete columns by our names.

        Parameters
        ----------
        required, optional : sequence of str
            Columns that must and that may exist. Rows without names give them by position, in this order.
        named : sequence of str
            Further optional columns, which only have names.
        columns : mapping, optional
            Our names of columns and those of the table; None says that there is no such column.

        Returns
        -------
        TableColumns
            The columns that exist.

        Raises
        ------
        PrudentError
            If the file or object cannot be read, a column is missing, or its name is ambiguous.
        """
        wanted = (*required, *optional, *named)
        if self.is_text:
            return self._read_text(self._assigned(self._header[1], required, wanted, columns))
        table = _levels_as_columns(self._complete, required, columns)
        names = _column_names(table)
        held = TableColumns(self.name, self._error, _index_labels(table))
        if names is None:
            if columns:
                order = ", ".join(wanted)
                message = f"columns has names, but {self.name} has none: its columns go by position, {order}"
                raise self._error(message, code="conflicting-arguments", argument="columns")
            most = len(required) + len(optional)
            held.update(zip(wanted[:most], self._by_position(table, len(required), most), strict=False))
        else:
            held.used = self._assigned(names, required, wanted, columns)
            held.ignored = tuple(name for name in names if name not in held.used.values())
            held.update({name: as_column(table[theirs]) for name, theirs in held.used.items()})
        first = held[required[0]]
        for name, column in held.items():
            if column.ndim != 1 or column.size != first.size:
                message = (
                    f"column {name!r} of {self.name} has shape {column.shape}, not {first.shape} as {required[0]!r}"
                )
                raise self._error(message, code="wrong-shape", column=name, value=column.shape)
        return held

    def cells(self, *names: str) -> list[list[Any]]:
        """Return the cells of columns with exactly these names, or of rows with exactly these values.

        Examples
        --------
        >>> TableSource([([1.0], "a"), ([2.0], "b")], "log").cells("context", "arm")
        [[[1.0], [2.0]], ['a', 'b']]
        """
        table = self._complete
        held = _column_names(table)
        if held is not None:
            for name in names:
                if name not in held:
                    raise self._missing(name, held)
            found = [self._cells_of(name, table[name]) for name in names]
            for name, column in zip(names, found, strict=True):
                if len(column) != len(found[0]):
                    message = (
                        f"column {name!r} of {self.name} has {len(column)} cells, not {len(found[0])} as {names[0]!r}"
                    )
                    raise self._error(message, code="wrong-shape", column=name, value=len(column))
            return found
        parts = f"({', '.join(names)})"
        if isinstance(table, bytes) or not isinstance(table, Iterable):
            message = f"{self.name} must be rows of {parts} or a table with such columns, got {table!r}"
            raise self._error(message, code="wrong-type", argument=self.name)
        rows = list(table)
        if not rows:
            raise self._error(f"{self.name} is empty", code="no-rows", argument=self.name)
        for i, row in enumerate(rows):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(names):
                message = f"{self.name}[{i}] is {row!r}, expected {parts}"
                raise self._error(message, code="row-width", argument=self.name, row=i, value=row)
        return [list(column) for column in zip(*rows, strict=True)]

    def _cells_of(self, name: str, column: Any) -> list[Any]:
        if isinstance(column, (str, bytes)) or not isinstance(column, Iterable) or getattr(column, "ndim", 1) == 0:
            message = f"column {name!r} of {self.name} is {reprlib.repr(column)}, expected its cells"
            raise self._error(message, code="wrong-shape", column=name, value=column)
        return list(column)

    # -- complete tables -----------------------------------------------------------------------------------

    @property
    def is_text(self) -> bool:
        """Whether the table is a text file with a header."""
        return self.path is not None and _suffix(self.path) not in (*_PARQUET, *_JSON)

    @cached_property
    def _complete(self) -> Any:
        """The table as a frame, a mapping of columns, a structured array, an array, or rows."""
        table: Any = self._table
        if self.is_text:
            held = self._read_text({name: name for name in self._header[1]})
            return {held.used[name]: column for name, column in held.items()}
        if self.path is not None:
            return (
                self._parquet() if _suffix(self.path) in _PARQUET else self._columns_of_rows(list(self._json_lines()))
            )
        if hasattr(table, "to_batches"):  # a table or a dataset of pyarrow
            return (table if hasattr(table, "to_pandas") else table.to_table()).to_pandas()
        if hasattr(table, "to_dataframe"):  # a Dataset of xarray
            return table.to_dataframe().reset_index()
        complete = (
            isinstance(table, bytes | Mapping | np.ndarray) or hasattr(table, "columns") or hasattr(table, "iloc")
        )
        if complete or not isinstance(table, Iterable):
            return table
        rows = list(table)
        if rows and hasattr(rows[0], "columns"):  # the parts of a frame
            import pandas

            return pandas.concat(rows)
        return self._columns_of_rows(rows) if rows and all(isinstance(row, Mapping) for row in rows) else rows

    def _file(self) -> Path:
        """Return the path of the table, after a check that there is a file."""
        path = Path(self._table)
        if not path.is_file():
            message = f"there is no file {os.fspath(path)!r} ({self._argument})"
            raise self._error(message, code="no-file", argument=self._argument, path=os.fspath(path))
        return path

    def _unreadable(self, reason: str, code: str) -> PrudentError:
        return self._error(f"{self.name}{reason}", code=code, path=os.fspath(self._table))

    def _parquet(self) -> Any:
        import pandas

        path = self._file()
        try:
            return pandas.read_parquet(path)
        except ImportError as fault:
            raise self._unreadable(f": reading Parquet needs pyarrow ({fault})", "missing-package") from fault
        except Exception as fault:  # whatever pyarrow raises for a file of another kind
            raise self._unreadable(f" is no Parquet file: {fault}", "damaged-file") from fault

    def _missing(self, name: str, names: Sequence[Any]) -> PrudentError:
        text = any(isinstance(theirs, str) for theirs in names)
        hint = f"; if it has another name: columns={{{name!r}: ...}}" if text else ""
        message = f"{self.name} has no column {name!r}; its columns are {list(names)}{hint}"
        return self._error(message, code="missing-column", column=name)

    def _assigned(
        self, names: Sequence[Any], required: Sequence[str], wanted: Sequence[str], columns: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return which of the columns ``names`` stands for each of our names."""
        used: dict[str, Any] = {}
        for name, theirs in (columns or {}).items():
            if name not in wanted:
                message = f"columns names {name!r}, expected some of {', '.join(wanted)}"
                raise self._error(message, code="unknown-option", argument="columns", value=name)
            if theirs is not None and not (isinstance(theirs, Hashable) and theirs in names):
                message = f"{self.name} has no column {theirs!r} (for {name}); its columns are {list(names)}"
                raise self._error(message, code="missing-column", column=theirs, role=name)
            if theirs is not None:
                used[name] = theirs
        free = [theirs for theirs in names if theirs not in used.values()]
        for name in wanted:
            if columns is not None and name in columns:
                continue
            usual = synonyms(names, name, required=name in required)
            able = [name] if name in free else [theirs for theirs in usual if theirs in free]
            if len(able) > 1:
                shown = " and ".join(map(repr, able))
                message = f"{self.name} has {shown}, each of which may be the {name}; choose: columns={{{name!r}: ...}}"
                raise self._error(message, code="ambiguous-column", column=name, value=able)
            if able:
                used[name] = able[0]
        for name, theirs in used.items():
            if names.count(theirs) > 1:
                message = f"{self.name} has {names.count(theirs)} columns called {theirs!r}, expected one {name}"
                raise self._error(message, code="duplicate-column", column=theirs)
        for name in required:
            if name not in used:
                raise self._missing(name, names)
        return used

    def _by_position(self, table: Any, fewest: int, most: int) -> list[Column]:
        width = str(fewest) if fewest == most else f"{fewest} to {most}"
        if isinstance(table, np.ndarray) and table.size:
            if table.ndim != 2 or not fewest <= table.shape[1] <= most:
                message = f"{self.name} has shape {table.shape}, expected rows of {width} values"
                raise self._error(message, code="wrong-shape", argument=self.name, value=table.shape)
            return list(table.T)
        try:
            rows = list(table)
        except TypeError:
            message = f"{self.name} must hold rows of {width} values, got {table!r}"
            raise self._error(message, code="wrong-type", argument=self.name) from None
        for i, row in enumerate(rows):
            sized = hasattr(row, "__len__") and not isinstance(row, str) and getattr(row, "ndim", 1) > 0
            if not sized or not fewest <= len(row) <= most:
                message = f"{self.name} row {i} is {row!r}, expected {width} values"
                raise self._error(message, code="row-width", argument=self.name, row=i, value=row)
        if not rows:
            return [np.empty(0, dtype=np.int64)] * fewest
        widths = set(map(len, rows))
        if len(widths) > 1:
            rows = [(*row, *[None] * (max(widths) - len(row))) for row in rows]
        return [as_column(cells) for cells in zip(*rows, strict=True)]

    # -- text files ----------------------------------------------------------------------------------------

    @cached_property
    def _header(self) -> tuple[str, list[str]]:
        """The separator of a text file and the names of its columns."""
        path = self._file()
        try:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
                line = str(file.readline())
        except (UnicodeDecodeError, OSError) as fault:
            raise self._unreadable(f" is no text in UTF-8: {fault}", "wrong-format") from fault
        separator = max(",;\t|", key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
        if not any(names) or "\0" in line:
            raise self._unreadable(" is empty, or its first line is; expected the names of the columns", "no-header")
        return separator, names

    def _read_text(self, used: dict[str, Any]) -> TableColumns:
        """Read the columns ``used`` of a text file."""
        import pandas

        separator, names = self._header
        at = {name: names.index(theirs) for name, theirs in used.items()}
        size = len(names)
        try:
            frame = pandas.read_csv(
                self.path,
                sep=separator,
                header=None,
                names=list(range(size + 1)),  # one more, to find rows that are too long
                skiprows=1,
                # texts: the type of a column is decided by all its cells; categories take little memory
                dtype={i: str if i in at.values() else "category" for i in range(size + 1)},
                keep_default_na=False,
                na_values=[""],
                skip_blank_lines=False,
                skipinitialspace=True,
                encoding="utf-8-sig",
            )
        except pandas.errors.EmptyDataError:
            raise self._unreadable(" has the names of columns and no rows", "no-rows") from None
        except (pandas.errors.ParserError, UnicodeDecodeError) as fault:
            reason = str(fault).removeprefix("Error tokenizing data. C error: ").strip()
            reason = re.sub(r"starting at row (\d+)", lambda row: f"starting at line {int(row[1]) + 1}", reason)
            raise self._unreadable(f": {reason}", "wrong-format") from fault
        long = frame[size].notna().to_numpy()
        if long.any():
            line = int(np.argmax(long)) + 2
            message = f"{self.name} line {line} has {size + 1} values, but there are {size} columns"
            raise self._error(message, code="row-width", line=line)
        frame = frame[sorted(set(at.values()))]
        blank = frame.isna().all(axis=1).to_numpy()
        frame = frame[~blank]
        held = TableColumns(self.name, self._error, lines=np.flatnonzero(~blank) + 2)
        held.used = used
        held.ignored = tuple(name for name in names if name not in used.values())
        coded = {name: pandas.factorize(frame[i]) for name, i in at.items()}
        # a state that is a number where it is left and a text where it is reached would be two states
        integral = {name: all(map(_INTEGER.fullmatch, texts)) for name, (_, texts) in coded.items()}
        both = integral.get("state", True) and integral.get("next_state", True)
        for name, (codes, texts) in coded.items():
            if name in _NUMBERS:
                held[name] = _numbers_of(codes, texts.tolist(), decimal_comma=separator == ";")
            else:
                whole = both if name in ("state", "next_state") else integral[name]
                held[name] = _labels_of(codes, texts.tolist(), whole)
        return held

    # -- streams -------------------------------------------------------------------------------------------

    def blocks(self, size: int, positions: Sequence[str]) -> Iterator[TableBlock]:
        """Yield up to ``size`` rows at a time, in memory in proportion to them.

        Rows without names have the columns ``positions``, at least the first three of them.
        """
        before = 0
        for columns, lines in self._parts(self._table, size, positions):
            block = TableBlock(columns, before, self.name, lines)
            yield block
            before += block.size

    def _parts(self, table: Any, size: int, positions: Sequence[str]) -> Iterator[tuple[dict[Any, Cells], Any]]:
        if isinstance(table, (str, os.PathLike)):
            yield from self._file_parts(size, positions)
        elif hasattr(table, "schema") and (hasattr(table, "to_batches") or hasattr(table, "num_rows")):  # of pyarrow
            for batch in table.to_batches() if hasattr(table, "to_batches") else [table]:
                yield from self._sliced(_of_arrow(batch), size)
        elif hasattr(table, "to_dataframe"):
            yield from self._parts(table.to_dataframe().reset_index(), size, positions)
        elif hasattr(table, "columns") or isinstance(table, Mapping) or getattr(table, "dtype", np.dtype(int)).names:
            names = _column_names(table) or []
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise DataError(f"{self.name} has two columns {twice!r}", code="duplicate-column", column=twice)
            yield from self._sliced({name: table[name] for name in names}, size)
        else:
            try:
                rows = iter(table() if callable(table) else table)
            except TypeError:
                message = f"{self.name} must be a table, a file or rows, got {type(table).__name__}"
                raise DataError(message, code="wrong-type", argument=self.name) from None
            begin = next(rows, None)
            if hasattr(begin, "columns"):  # parts of a frame, as pandas.read_csv(..., chunksize=...) gives them
                for part in chain([begin], rows):
                    yield from self._parts(part, size, positions)
            elif begin is not None:
                yield from self._row_parts(chain([begin], rows), size, positions)

    def _sliced(self, columns: dict[Any, Cells], size: int) -> Iterator[tuple[dict[Any, Cells], None]]:
        for name, cells in columns.items():
            if isinstance(cells, str) or not hasattr(cells, "__len__") or getattr(cells, "shape", None) == ():
                message = f"{self.name}[{name!r}] is {cells!r}, expected a column: a cell for each row"
                raise DataError(message, code="wrong-type", argument=self.name, column=name)
        lengths = {name: len(cells) for name, cells in columns.items()}
        if len(set(lengths.values())) > 1:
            message = f"the columns of {self.name} differ in length: {lengths}"
            raise DataError(message, code="wrong-shape", argument=self.name, value=lengths)
        for first in range(0, max(lengths.values(), default=0), size):
            part = slice(first, first + size)
            yield {name: _cells(column, part) for name, column in columns.items()}, None

    def _row_parts(
        self, rows: Iterator[Any], size: int, positions: Sequence[str]
    ) -> Iterator[tuple[dict[Any, Cells], None]]:
        first = 0
        while taken := list(islice(rows, size)):
            yield self._columns_of_rows(taken, first, positions), None
            first += len(taken)

    def _columns_of_rows(self, rows: list[Any], first: int = 0, positions: Sequence[str] = ()) -> dict[Any, list[Any]]:
        """Return the columns of dicts, named tuples or, with ``positions``, other sequences; None in missing cells."""
        columns: dict[Any, list[Any]] = {}
        for i, given in enumerate(rows):
            row = given._asdict() if hasattr(given, "_asdict") else given
            if not isinstance(row, Mapping):
                plain = not isinstance(row, str) and isinstance(row, (Sequence, np.ndarray))
                if not plain or not 3 <= len(row) <= len(positions):
                    expected = f"a dict, or ({', '.join(positions[:4])})" if positions else "a dict"
                    message = f"{self.name} row {first + i} is {row!r}, expected {expected}"
                    raise self._error(message, code="row-width", argument=self.name, row=first + i, value=row)
                row = dict(zip(positions, row, strict=False))
            for name, value in row.items():
                columns.setdefault(name, [None] * i).append(value)
            for column in columns.values():
                if len(column) == i:
                    column.append(None)
        return columns

    def _file_parts(self, size: int, positions: Sequence[str]) -> Iterator[tuple[dict[Any, Cells], Any]]:
        path = self._file()
        try:
            if self.is_text:
                yield from self._text_parts(size)
            elif _suffix(path) in _JSON:
                yield from self._row_parts(self._json_lines(), size, positions)
            else:
                import pyarrow.parquet

                with pyarrow.parquet.ParquetFile(path) as file:
                    for group in range(file.num_row_groups):  # iter_batches over all groups keeps what it has read
                        for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                            yield _of_arrow(batch), None
        except PrudentError:
            raise
        except (OSError, ValueError) as fault:  # of pandas and pyarrow for a file that is damaged or of another kind
            raise self._unreadable(f" cannot be read: {fault}", "damaged-file") from fault

    def _text_parts(self, size: int) -> Iterator[tuple[dict[Any, Cells], IntArray]]:
        import pandas

        separator, decimal = self._header[0], "," if self._header[0] == ";" else "."
        options: dict[str, Any] = {"sep": separator, "decimal": decimal, "encoding": "utf-8-sig"}
        with pandas.read_csv(self.path, chunksize=size, skip_blank_lines=False, **options) as parts:
            for frame in parts:
                if frame.shape[1] and frame.iloc[:, 0].isna().any():
                    frame = frame[~frame.isna().all(axis=1)]  # blank lines
                yield {name: frame[name].to_numpy() for name in frame.columns}, frame.index.to_numpy() + 2

    def _json_lines(self) -> Iterator[Any]:
        path = self._file()
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as fault:
                        message = f"{self.name} line {number} is no JSON: {fault}"
                        raise self._error(message, code="wrong-format", line=number) from None


# -- logs as lists -----------------------------------------------------------------------------------------


def is_table(log: Any) -> bool:
    """Return whether a log has named columns."""
    return hasattr(log, "columns") or isinstance(log, dict)


def context_columns(log: TableLike, features: Iterable[str] | None, *names: str, context: str = "context") -> list[Any]:
    """Return contexts and further columns of a log; a table without contexts has a column for each of the features.

    Examples
    --------
    >>> context_columns({"age": [3.0, 4.0], "arm": ["a", "b"]}, ["age"], "arm")
    [{'age': [3.0, 4.0]}, ['a', 'b']]
    """
    source = TableSource(log, "log")
    wanted = None if features is None or isinstance(features, str) else list(features)
    held = source.column_names
    if wanted is None or held is None or context in held:
        return list(source.cells(context, *names))
    columns = source.cells(*wanted, *names)
    return [dict(zip(wanted, columns, strict=False)), *columns[len(wanted) :]]


# -- columns and cells -------------------------------------------------------------------------------------


def _column_names(table: Any) -> list[Any] | None:
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, np.ndarray):
        return None if table.dtype.names is None else list(table.dtype.names)
    if hasattr(table, "columns"):
        return list(table.columns)
    return [*table.index.names, table.name] if _is_counted_series(table) else None


def _is_counted_series(table: Any) -> bool:
    """Return whether this is a Series by (state, action, ...), as ``groupby(...).size()`` makes it."""
    names = getattr(getattr(table, "index", None), "names", None) or ()
    return hasattr(table, "reset_index") and any(name is not None for name in names)


def _levels_as_columns(table: Any, required: Sequence[str], columns: Mapping[str, Any] | None) -> Any:
    """Return a frame or a counted Series with those levels of its index as columns that we need."""
    if not _is_counted_series(table):
        return table
    if not hasattr(table, "columns"):
        return table.rename(table.name if table.name is not None else "count").reset_index()
    wanted = {(columns or {}).get(name, name) for name in required}
    levels = [name for name in table.index.names if name is not None]
    usual = [theirs for name in required for theirs in synonyms(levels, name)]
    used = [name for name in levels if name in wanted or name in usual]
    return table.reset_index(used) if used and not set(used) & set(table.columns) else table


def _index_labels(table: Any) -> Sequence[Any] | None:
    """Return the index of a frame, unless it is 0, 1, ..., n-1."""
    index = getattr(table, "index", None)
    if not hasattr(table, "columns") or index is None or callable(index):
        return None
    plain = len(index) and getattr(index, "nlevels", 1) == 1 and np.array_equal(index, np.arange(len(index)))
    return None if plain else index


def _suffix(path: Path) -> str:
    """Return the suffix that says what is in a file."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


def _labels_of(codes: Any, texts: list[str], integral: bool) -> Column:
    """Return labels, given as distinct texts: integers if all of them are, else texts; None where empty (-1)."""
    names = [int(text.partition(".")[0]) for text in texts] if integral else texts
    if integral and (codes >= 0).all():
        return np.array(names, dtype=np.int64)[codes]
    return object_array([*names, None])[codes]


def _numbers_of(codes: Any, texts: list[str], decimal_comma: bool) -> Column:
    """Return numbers, given as distinct texts, or the texts if some are no numbers, to be shown in a message."""
    if decimal_comma:
        texts = [text.replace(",", ".") for text in texts]
    try:
        return np.array([*map(float, texts), np.nan])[codes]
    except ValueError:
        return object_array([*texts, None])[codes]


def _of_arrow(batch: Any) -> dict[Any, Cells]:
    """Return the columns of a record batch; lists of one length become an array [T, D] without an object for each."""
    import pyarrow.compute

    columns: dict[Any, Cells] = {}
    lists = (pyarrow.ListType, pyarrow.LargeListType, pyarrow.FixedSizeListType)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if isinstance(column.type, lists) and pyarrow.types.is_floating(column.type.value_type):
            widths = pyarrow.compute.list_value_length(column).unique()
            if len(widths) == 1 and not column.null_count:
                columns[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
                continue
        columns[name] = column.to_pandas().to_numpy()
    return columns


def _cells(column: Cells, rows: slice) -> Cells:
    return column.iloc[rows].to_numpy() if hasattr(column, "iloc") else column[rows]
