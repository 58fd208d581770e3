"""Logs of decisions, read once, whatever they are, and kept in blocks of arrays.

A log is a DataFrame, a dict of columns, a Parquet, CSV or JSON-lines file, a table or dataset of pyarrow, a Journal, or
rows: dicts, as a Decision gives them with a reward added, or tuples (context, arm, reward, propensity). It is read
once, in blocks. A binary copy of what was read stays in memory while it is small, and else in a temporary file, about
8 (D + 5) bytes a row, so that every log can be gone through again in bounded memory, even one that comes from a
generator.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from .._support.checks import BoolArray, FloatArray, IntArray, whole_number
from .._support.progress import Progress
from ..data.features import Names, Told, read_named
from ..errors import DataError, ParameterError

__all__ = ["BLOCK", "BanditLog", "Block", "Layout"]

BLOCK = 16_384  # rows read at a time
IN_MEMORY = 2**26  # bytes; a larger copy goes to a file
LARGEST = 1e100  # of rewards and features: products of them are squared
COLUMNS = ("context", "arm", "reward", "propensity", "arms", "time")
Columns = dict[str, Any]  # of a block: a name and its cells, an array [T], an array [T,D] or a list


class Layout(NamedTuple):
    """How the caller describes a log: names of columns, what an empty reward means."""

    context: str | Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    arms: Iterable[Any] | None = None
    missing_reward: float | str | None = None
    block: int = BLOCK
    timed: bool = False  # whether times are needed
    features: Sequence[str] | None = None  # columns that make a context if nothing else does, as a bandit calls them


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a log, T of them; arms are indices."""

    rows: IntArray  # [T] where they stand in the log
    contexts: FloatArray  # [T,D]
    arms: IntArray  # [T]
    rewards: FloatArray  # [T]
    chances: FloatArray  # [T] of the logged arm; NaN if the log does not say
    times: FloatArray  # [T] seconds since 1970; NaN if nobody asked for them
    which: IntArray  # [T] the set of eligible arms, -1 for all
    members: IntArray  # the different sets, one after the other
    ends: IntArray  # where each of them ends

    def __len__(self) -> int:
        return self.rows.size

    def part(self, chosen: Any) -> Block:
        """Return some of the rows."""
        first = {field.name: getattr(self, field.name)[chosen] for field in fields(self)[:7]}
        return replace(self, **first)

    def arrays(self) -> list[Any]:
        """Return all its arrays, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]

    def sets(self) -> Iterator[tuple[IntArray | None, IntArray]]:
        """Yield each set of eligible arms, None for all, with the rows [M] of the block that have it."""
        for number in np.unique(self.which).tolist():
            rows = np.flatnonzero(self.which == number)
            if number < 0:
                yield None, rows
            else:
                begin = self.ends[number - 1] if number else 0
                yield self.members[begin : self.ends[number]], rows

    def eligible(self, size: int) -> BoolArray | None:
        """Return which of so many arms are eligible in each row, [T,A]; None if all are in all rows."""
        if (self.which < 0).all():
            return None
        mask = np.ones((len(self), size), dtype=np.bool_)
        for members, rows in self.sets():
            if members is not None:
                mask[rows] = np.isin(np.arange(size), members)
        return mask


class BanditLog:
    """A log that was read; ``blocks()`` goes through it as often as needed, until it is closed.

    ``arms`` are the names of its arms: first those that the caller knows, then others as they sort. ``n`` rows count;
    ``left_out`` more had no reward. ``counts`` [A] says how often each arm was logged. ``features`` are the names of
    the D numbers of a context, None if it has none.
    """

    def __init__(self, log: Any, layout: Layout, known: Iterable[Any] = (), what: str = "reading the log") -> None:
        size = whole_number(layout.block, "block")
        text = isinstance(log, (str, os.PathLike)) and _kind(Path(log)) in (".csv", ".tsv")
        self._reader = _Reader(layout, known, text)
        self._copy = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # lives as long as the log
        self._blocks: list[int] = []  # where each begins
        self.n = self.rows = 0
        self.lowest, self.highest = np.inf, -np.inf
        try:
            counted = self._read(_tables(log, size), Progress(what))
            if not self.n:
                none = f"none of the {self.rows} rows of log has a reward"
                raise DataError(none if self.rows else "log is empty: it has no rows")
        except BaseException:
            self.close()
            raise
        self.left_out = self.rows - self.n
        self.arms, self._order = self._reader.settled()
        self.dim = self._reader.dim or 0
        self.features = self._reader.features
        if self.features is None and hasattr(log, "rows"):  # a Journal
            self.features = getattr(getattr(log, "bandit", None), "features", None)
        self.counts = np.zeros(len(self.arms), dtype=np.int64)
        self.counts[self._order[list(counted)]] = list(counted.values())

    def _read(self, tables: Iterator[Columns], line: Progress) -> Counter[int]:
        counted: Counter[int] = Counter()
        try:
            for columns in tables:
                block = self._reader.block(columns, self.rows)
                self.rows += len(next(iter(columns.values())))
                if len(block):
                    self.n += len(block)
                    self.lowest = min(self.lowest, float(block.rewards.min()))
                    self.highest = max(self.highest, float(block.rewards.max()))
                    counted.update(dict(enumerate(np.bincount(block.arms).tolist())))
                    self._keep(block)
                line.show(f"{self.rows:,} rows")
        finally:
            line.close()
        return counted

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, block: Block) -> None:
        try:
            self._blocks.append(self._copy.tell())
            for column in block.arrays():
                np.save(self._copy, column, allow_pickle=False)
        except OSError as error:
            raise DataError(f"log does not fit into {tempfile.gettempdir()}: {error}; set TMPDIR") from error

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, in order."""
        for place in self._blocks:
            self._copy.seek(place)
            block = Block(*(np.load(self._copy, allow_pickle=False) for _ in fields(Block)))
            yield replace(block, arms=self._order[block.arms], members=self._order[block.members])

    @property
    def has_propensities(self) -> bool:
        """Whether the log says with what chance an arm was chosen."""
        return self._reader.has_propensities

    @property
    def columns(self) -> list[Any]:
        """The names of the columns that were there."""
        return self._reader.found

    def require_contexts(self, what: str) -> None:
        """Raise if the log has no contexts, which ``what`` needs."""
        if not self.dim:
            raise ParameterError(
                f"{what} needs contexts, and log has no column 'context'; say with context=[...] which columns are "
                f"features; its columns are {self.columns}"
            )

    def index(self, name: Any) -> int:
        """Return the index of an arm, or -1."""
        try:
            return self.arms.index(_plain(name))
        except ValueError:
            return -1


# -- from columns to blocks --------------------------------------------------------------------------------


class _Reader:
    """Checks columns and makes blocks of them; learns the names of the arms on the way."""

    def __init__(self, layout: Layout, known: Iterable[Any], text: bool) -> None:
        self._text, self._timed = text, layout.timed
        renamed = dict(layout.columns or {})
        for name in renamed:
            if name not in COLUMNS:
                raise ParameterError(f"columns names {name!r}, expected some of {list(COLUMNS)}")
        self._names = {name: renamed.get(name, name) for name in COLUMNS}
        features = layout.context
        if features is not None and not isinstance(features, str):
            features = list(features)
        self._features = features
        self._columns = layout.features
        self.features: Names | None = None
        missing = layout.missing_reward
        if missing is not None and missing != "skip" and not (_is_number(missing) and np.isfinite(float(missing))):
            raise ParameterError(f"missing_reward must be None, 'skip' or a number, got {missing!r}")
        self._missing = missing
        self._closed = layout.arms is not None
        self._index: dict[Any, int] = {}
        declared = known if layout.arms is None else layout.arms
        if isinstance(declared, str):
            raise ParameterError(f"arms must be a list of arms, got the string {declared!r}")
        for name in declared:
            self._index.setdefault(_plain(name), len(self._index))
        self._declared = len(self._index)
        self.dim: int | None = None
        self.has_propensities = False
        self.found: list[Any] = []

    def settled(self) -> tuple[tuple[Any, ...], IntArray]:
        """Return the arms in their final order, and where each that was met has its place in it."""
        names = list(self._index)
        later = sorted(names[self._declared :], key=lambda name: (isinstance(name, str), name))
        final = names[: self._declared] + later
        place = {name: i for i, name in enumerate(final)}
        return tuple(final), np.array([place[name] for name in names], dtype=np.int64)

    def block(self, columns: Columns, first: int) -> Block:
        import pandas

        self.found = list(columns)
        count = len(next(iter(columns.values())))
        for name, cells in columns.items():
            if len(cells) != count:
                raise DataError(f"column {name!r} of log has {len(cells)} rows, another has {count}")
        rewards = pandas.to_numeric(_flat(self._column(columns, "reward")), errors="coerce").to_numpy(np.float64)
        empty = _flat(self._column(columns, "reward")).isna().to_numpy()
        fine = empty | (np.abs(rewards) <= LARGEST)
        _require(fine, first, "reward", columns[self._names["reward"]], f"a number of at most {LARGEST:g}")
        keep = np.ones(count, dtype=np.bool_)
        if empty.any():
            if self._missing is None:
                row = first + int(np.argmax(empty))
                raise DataError(
                    f"log row {row} has no reward; give missing_reward='skip' to leave such rows out, which is right "
                    "if whether a reward is known has nothing to do with it, or a number to put in its place"
                )
            if self._missing == "skip":
                keep = ~empty
            else:
                rewards = np.where(empty, float(self._missing), rewards)
        contexts = self._contexts(columns, count, first)
        arms = self._arms(columns, first)
        which, members, ends = self._sets(columns, arms, count, first)
        chances = np.full(count, np.nan)
        given = columns.get(self._names["propensity"])
        self.has_propensities = given is not None
        if given is not None:
            chances = pandas.to_numeric(_flat(given), errors="coerce").to_numpy(np.float64)
            _require((chances > 0.0) & (chances <= 1.0 + 1e-9), first, "propensity", given, "a chance above 0, up to 1")
        rows = np.arange(first, first + count)
        times = _seconds(self._column(columns, "time"), first) if self._timed else np.full(count, np.nan)
        return Block(rows, contexts, arms, rewards, chances, times, which, members, ends).part(keep)

    def _column(self, columns: Columns, name: str) -> Any:
        wanted = self._names[name]
        if wanted not in columns:
            hint = "" if wanted != name else f"; if it has another name, say columns={{{name!r}: ...}}"
            raise DataError(f"log has no column {wanted!r}{hint}; its columns are {list(columns)}")
        return columns[wanted]

    def _contexts(self, columns: Columns, count: int, first: int) -> FloatArray:
        features = self._features
        if features is None and self._names["context"] not in columns and self._columns:
            theirs = {str(name): name for name in columns}
            features = [theirs.get(name, name) for name in self._columns]
            if not any(name in columns for name in features):  # it has no contexts at all
                return np.empty((count, 0))
        if isinstance(features, list):
            lost = [name for name in features if name not in columns]
            if lost:
                raise DataError(f"log has no column {lost[0]!r} (context); its columns are {list(columns)}")
            points = np.empty((count, len(features)))
            for i, name in enumerate(features):
                points[:, i] = _numbers(columns[name], name, first)
            self.features = tuple(map(str, features))
        else:
            name = features or self._names["context"]
            if name not in columns:
                if features is not None:
                    raise DataError(f"log has no column {name!r} (context); its columns are {list(columns)}")
                return np.empty((count, 0))
            points, self.features = _points(columns[name], first, self.features)
        if self.dim is None:
            self.dim = points.shape[1]
        if points.shape[1] != self.dim:
            raise DataError(f"log row {first}: context has {points.shape[1]} features, before it had {self.dim}")
        small = np.abs(points).max(axis=1, initial=0.0) <= LARGEST
        _require(small, first, "context", points, f"numbers of at most {LARGEST:g}")
        return points

    def _arms(self, columns: Columns, first: int) -> IntArray:
        import pandas

        cells = self._column(columns, "arm")
        codes, names = pandas.factorize(_flat(cells))
        _require(codes >= 0, first, "arm", cells, "the name of an arm")
        places = [self._place(name, first + int(np.argmax(codes == i)), "arm") for i, name in enumerate(names)]
        return np.array(places, dtype=np.int64)[codes]

    def _place(self, name: Any, row: int, what: str) -> int:
        plain = _plain(name)
        if not isinstance(plain, (str, int)) or isinstance(plain, bool):
            raise DataError(f"log row {row}: {what} is {name!r}, expected a string or a whole number")
        if plain not in self._index and self._text:
            # a CSV file does not tell the arm '1' from the arm 1: it is the one that is known
            twin = str(plain) if isinstance(plain, int) else int(plain) if plain.isdecimal() else plain
            plain = twin if twin in self._index else plain
        if plain not in self._index:
            if self._closed:
                raise DataError(f"log row {row}: {what} is {plain!r}, which is not one of arms {list(self._index)}")
            self._index[plain] = len(self._index)
        return self._index[plain]

    def _sets(self, columns: Columns, arms: IntArray, count: int, first: int) -> tuple[IntArray, IntArray, IntArray]:
        cells = columns.get(self._names["arms"])
        if cells is None:
            return np.full(count, -1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        which = np.empty(count, dtype=np.int64)
        seen: dict[Hashable, int] = {}
        sets: list[list[int]] = []
        for i, given in enumerate(cells):
            try:
                key: Any = given if isinstance(given, str) else None if _is_empty(given) else tuple(given)
            except TypeError:
                raise DataError(f"log row {first + i}: arms is {given!r}, expected a list of arms") from None
            if key is None:
                which[i] = -1
                continue
            number = seen.get(key)
            if number is None:
                names = _parsed(key, first + i, "arms") if isinstance(key, str) else key
                places = [self._place(name, first + i, f"arms[{j}]") for j, name in enumerate(names)]
                if not places or len(set(places)) < len(places):
                    raise DataError(f"log row {first + i}: arms is {given!r}, expected different arms, at least one")
                number = seen[key] = len(sets)
                sets.append(places)
            which[i] = number
            if arms[i] not in sets[number]:
                raise DataError(f"log row {first + i}: the logged arm is not among the eligible arms {list(key)}")
        ends = np.cumsum([len(places) for places in sets], dtype=np.int64)
        return which, np.array([place for places in sets for place in places], dtype=np.int64), ends


def _plain(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own, and 3 for 3.0, which an empty cell makes of a column."""
    plain = name.item() if isinstance(name, np.generic) else name
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ == "NAType"


def _flat(cells: Any) -> Any:
    """Return a column as a Series of pandas."""
    import pandas

    if isinstance(cells, list):
        kinds = set(map(type, cells))
        if len(kinds) > 1 and str in kinds:  # else NumPy makes strings of the numbers among them
            return pandas.Series(np.fromiter(cells, dtype=object, count=len(cells)))
    return pandas.Series(np.asarray(cells)).infer_objects()


def _require(good: Any, first: int, what: str, cells: Any, expected: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        cell = cells[row].tolist() if isinstance(cells[row], (np.ndarray, np.generic)) else cells[row]
        raise DataError(f"log row {first + row}: {what} is {cell!r}, expected {expected}")


def _numbers(cells: Any, what: str, first: int) -> FloatArray:
    import pandas

    numbers: FloatArray = pandas.to_numeric(_flat(cells), errors="coerce").to_numpy(np.float64)
    _require(np.isfinite(numbers), first, what, cells, "a finite number")
    return numbers


def _seconds(cells: Any, first: int) -> FloatArray:
    """Return a column of times, seconds or dates with times, as seconds since 1970."""
    import pandas

    column = _flat(cells)
    if not pandas.api.types.is_numeric_dtype(column):
        column = (
            pandas.to_datetime(column, utc=True, errors="coerce") - pandas.Timestamp(0, tz="UTC")
        ).dt.total_seconds()
    seconds: FloatArray = column.to_numpy(np.float64)
    _require(np.isfinite(seconds), first, "time", cells, "a time")
    return seconds


def _points(cells: Any, first: int, known: Names | None) -> Told:
    """Return a column of contexts as an array [T,D], and the names of the features, if contexts name them."""
    if isinstance(cells, np.ndarray) and (cells.ndim == 2 or cells.dtype.kind in "iufb"):
        points = cells  # a column of numbers is a single feature
    else:
        rows = list(cells)
        if rows and all(isinstance(row, str) for row in rows):
            try:
                rows = json.loads("[" + ",".join(rows) + "]")
            except ValueError:
                rows = []
            if len(rows) != len(cells):  # find who is at fault
                rows = [_parsed(row, first + i, "context") for i, row in enumerate(cells)]
        told = read_named(rows, known, "log.context", first=first)
        if told is not None:
            return told
        widths = [np.size(row) if np.ndim(row) == 1 else -1 for row in rows]
        if -1 in widths or len(set(widths)) > 1:
            row = next(i for i, width in enumerate(widths) if width < 0 or width != widths[0])
            raise DataError(f"log row {first + row}: context is {rows[row]!r}, expected {max(widths[0], 1)} numbers")
        points = np.array(rows)
    try:
        points = np.asarray(points, dtype=np.float64).reshape(len(cells), -1 if len(cells) else 0)
    except (TypeError, ValueError, OverflowError):
        for i, row in enumerate(points):
            _numbers(row, f"context of log row {first + i}", 0)
        raise DataError("context must hold numbers") from None
    _require(np.isfinite(points).all(axis=1), first, "context", points, "finite numbers")
    return Told(points, known)


def _parsed(text: str, row: int, what: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise DataError(f"log row {row}: {what} is {text!r}, expected a list as JSON writes it: [1.0, 2.5]")
    return found


# -- from anything to columns ------------------------------------------------------------------------------


def _tables(log: Any, size: int) -> Iterator[Columns]:
    """Yield the columns of up to ``size`` rows at a time."""
    if isinstance(log, (str, os.PathLike)):
        yield from _file(Path(log), size)
    elif hasattr(log, "to_batches"):  # a table or a dataset of pyarrow
        for batch in log.to_batches():
            yield from _sliced(_of_arrow(batch), size)
    elif hasattr(log, "to_dataframe"):  # a Dataset of xarray
        yield from _tables(log.to_dataframe().reset_index(), size)
    elif hasattr(log, "columns"):
        yield from _frame(log, size)
    elif hasattr(log, "rows") and callable(log.rows):  # a Journal
        yield from _of_rows(iter(log.rows()), size)
    elif isinstance(log, np.ndarray) and log.dtype.names:
        yield from _sliced({name: log[name] for name in log.dtype.names}, size)
    elif isinstance(log, Mapping):
        yield from _sliced(dict(log), size)
    else:
        try:
            rows = iter(log() if callable(log) else log)
        except TypeError:
            raise DataError(f"log must be a table, a file or rows, got {type(log).__name__}") from None
        begin = next(rows, None)
        if hasattr(begin, "columns"):  # the parts of a table, as pandas.read_csv(..., chunksize=...) gives them
            for part in chain([begin], rows):
                yield from _tables(part, size)
        elif begin is not None:
            yield from _of_rows(chain([begin], rows), size)


def _frame(table: Any, size: int) -> Iterator[Columns]:
    if hasattr(table, "schema") and hasattr(table, "num_rows"):  # a record batch
        yield from _sliced(_of_arrow(table), size)
        return
    names = list(table.columns)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"log has two columns {twice!r}")
    yield from _sliced({name: table[name] for name in names}, size)


def _sliced(columns: Columns, size: int) -> Iterator[Columns]:
    for name, cells in columns.items():
        if isinstance(cells, str) or not hasattr(cells, "__len__") or getattr(cells, "shape", None) == ():
            raise DataError(f"log[{name!r}] is {cells!r}, expected a column: a cell for each row")
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of log differ in length: {lengths}")
    for first in range(0, max(lengths.values(), default=0), size):
        part = slice(first, first + size)
        yield {
            name: cells.iloc[part].to_numpy() if hasattr(cells, "iloc") else cells[part]
            for name, cells in columns.items()
        }


def _of_rows(rows: Iterator[Any], size: int) -> Iterator[Columns]:
    first = 0
    while taken := list(islice(rows, size)):
        columns: Columns = {}
        for i, row in enumerate(taken):
            if hasattr(row, "_asdict"):
                row = row._asdict()
            if not isinstance(row, Mapping):
                if (
                    isinstance(row, str)
                    or not isinstance(row, (Sequence, np.ndarray))
                    or not 3 <= len(row) <= len(COLUMNS)
                ):
                    raise DataError(
                        f"log row {first + i} is {row!r}, expected a dict, or (context, arm, reward, propensity)"
                    )
                row = dict(zip(COLUMNS, row, strict=False))
            for name, cell in row.items():
                column = columns.setdefault(name, [None] * i)
                column.append(cell)
            for column in columns.values():
                if len(column) == i:
                    column.append(None)
        yield columns
        first += len(taken)


def _kind(path: Path) -> str:
    """Return the suffix that says what is in a file."""
    kind = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if kind == ".gz" else kind


def _file(path: Path, size: int) -> Iterator[Columns]:
    kind = _kind(path)
    try:
        if kind in (".parquet", ".pq"):
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                for group in range(file.num_row_groups):  # all at once it keeps what it has read
                    for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                        yield _of_arrow(batch)
        elif kind in (".csv", ".tsv"):
            import pandas

            with pandas.read_csv(path, chunksize=size, sep="\t" if kind == ".tsv" else ",") as parts:
                for frame in parts:
                    yield {name: frame[name].to_numpy() for name in frame.columns}
        elif kind in (".jsonl", ".ndjson", ".json"):
            yield from _of_rows(_json_lines(path), size)
        else:
            raise ParameterError(f"log is the file {path}, expected one of .parquet, .csv, .tsv, .jsonl")
    except (DataError, ParameterError):
        raise
    except (OSError, ValueError) as error:  # what pandas and pyarrow say of a file that is not there, or not theirs
        raise DataError(f"cannot read the log {path}: {error}") from error


def _json_lines(path: Path) -> Iterator[Any]:
    import gzip

    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise DataError(f"line {number + 1} of the log {path} is no JSON: {error}") from None


def _of_arrow(batch: Any) -> Columns:
    """Return the columns of a record batch; lists of one length become an array [T,D] without an object for each."""
    import pyarrow

    columns: Columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        lists = (
            pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)
        )
        if lists and pyarrow.types.is_floating(kind.value_type) and not column.null_count:
            flat, rows = column.flatten(), len(column)
            even = len(flat) % rows == 0 if rows else False
            if even and not pyarrow.types.is_fixed_size_list(kind):
                even = bool((np.diff(column.offsets.to_numpy()) == len(flat) // rows).all())
            if even:
                columns[name] = flat.to_numpy(zero_copy_only=False).reshape(rows, -1)
                continue
        columns[name] = column.to_pandas().to_numpy()
    return columns
