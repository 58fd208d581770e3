"""Rows of a journal as tables for evaluation: a DataFrame, or a Parquet, CSV or JSON lines file in chunks."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

from .._support.files import replacing
from .._support.output import plain_cell
from ..bandits.decision import Arm
from ..data.log_files import META, beside
from ..errors import ParameterError
from ..types import PathLike

Row = dict[str, Any]
Names = Callable[[], Collection[Arm]]
COLUMNS = ("id", "time", "context", "arms", "arm", "propensity", "score", "reward", "reward_time", "note")
SHARED_COLUMNS = (*COLUMNS, "place", "features")  # position on the slate, from 0, and features of all candidates
_TIMES = ("time", "reward_time")
_CHUNK = 10_000


def table_of(rows: Iterable[Row], columns: Sequence[str]) -> Any:
    """Return rows as a DataFrame."""
    import pandas as pd

    table = pd.DataFrame.from_records(list(rows), columns=list(columns))
    for name in _TIMES:
        table[name] = pd.to_datetime(table[name].astype("float64"), unit="s", utc=True)
    for name in ("propensity", "score", "reward"):
        table[name] = table[name].astype("float64")
    return table


def write_rows(rows: Iterable[Row], path: PathLike, columns: Sequence[str], names: Names, about: Row) -> int:
    """Write rows in the format of the file name and return their number; ``names`` returns all arms that occur.

    What the rows are, ``about``, goes into the metadata of a Parquet file, and beside other files.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _WRITERS:
        text = f"path must end in {', '.join(_WRITERS)}, got {os.fspath(path)!r}"
        raise ParameterError(text, code="unknown-option", argument="path", value=suffix)
    counter = count()
    with replacing(target) as file:
        _WRITERS[suffix]((row for row, _ in zip(rows, counter, strict=False)), file, columns, names, about)
    if suffix != ".parquet":
        with replacing(beside(target)) as file:
            file.write(json.dumps(about, indent=1).encode())
    return next(counter)


def _write_parquet(rows: Iterator[Row], file: BinaryIO, columns: Sequence[str], names: Names, about: Row) -> None:
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        text = "path is a Parquet file, which needs pyarrow; install it, or write a .csv file instead"
        raise ParameterError(text, code="missing-package", argument="path", value="pyarrow") from None
    # Mixed names, integers beyond 64 bits and strings that are not valid Unicode have no Arrow type: they become JSON.
    plain: Callable[[Arm], Any] = lambda name: name  # noqa: E731
    arms = names()
    if all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in arms):
        kind = pa.int64()
    else:
        kind = pa.string()
        if not all(isinstance(name, str) and name.isprintable() for name in arms):
            plain = json.dumps
    moment, number = pa.timestamp("us", tz="UTC"), pa.float64()
    types = [pa.string(), moment, pa.list_(number), pa.list_(kind), kind, number, number, number, moment, pa.string()]
    types += [pa.int64(), pa.list_(pa.list_(number))]
    schema = pa.schema([pair for pair in zip(SHARED_COLUMNS, types, strict=True) if pair[0] in columns])
    schema = schema.with_metadata({META: json.dumps(about)})
    with parquet.ParquetWriter(file, schema) as writer:
        while chunk := list(islice(rows, _CHUNK)):
            for row in chunk:
                row.update({name: None if row[name] is None else round(1e6 * row[name]) for name in _TIMES})
                row.update(arm=plain(row["arm"]), arms=[plain(name) for name in row["arms"]], note=_text(row["note"]))
            writer.write_table(pa.Table.from_pylist(chunk, schema))


def _text(note: Any) -> str | None:
    return None if note is None else json.dumps(note)


def _write_csv(rows: Iterator[Row], file: BinaryIO, columns: Sequence[str], names: Names, about: Row) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        row.update({name: None if row[name] is None else _iso(row[name]) for name in _TIMES})
        row.update(note=_text(row["note"]), arm=plain_cell(row["arm"]))
        writer.writerow(row | {name: json.dumps(row[name]) for name in ("context", "arms", "features") if name in row})
    text.detach()  # flushes, and leaves the file open


def _write_lines(rows: Iterator[Row], file: BinaryIO, columns: Sequence[str], names: Names, about: Row) -> None:
    for row in rows:
        file.write(json.dumps(row).encode() + b"\n")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_lines}
