"""The table of results: how it is kept, and what became slower since.

A table is JSON: machine, versions and date; then for every piece its kind ("rows", "growth" or "limits"), date,
seconds, the calibration of that moment and the items: the fields of :class:`Row`, :class:`Fit` or :class:`Limit`.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._timing import Row

COMMITTED = Path(__file__).with_name("table.json")
SLOWER = 1.2  # times as long as before, relative to the reference of the same run
PACKAGES = (
    "prudent",
    "numpy",
    "numba",
    "scipy",
    "quantecon",
    "mdpsolver",
    "mdpax",
    "stormpy",
    "jax",
    "bayesianbandits",
    "coba",
    "contextualbandits",
    "mabwiser",
    "vowpalwabbit",
    "obp",
    "scikit-learn",
    "distributed",
)

Table = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """How time and memory of a job grow with one dimension of its problem."""

    job: str
    dimension: str
    sizes: list[int]
    seconds: list[float]
    megabytes: list[float]  # at the peak, above what the process had before
    expected: str
    time_exponent: float
    time_error: float
    memory_exponent: float  # nan: too little to tell
    memory_error: float


@dataclass(frozen=True)
class Limit:
    """What a kernel takes, and the least that the machine needs for what the kernel must move or do."""

    kernel: str
    seconds: float
    least: float
    work: str  # what must be done
    rate: str  # at which measured rate
    note: str = ""
    compared: bool = True  # with earlier runs

    @property
    def fraction(self) -> float:
        """The share of the time that could not be saved."""
        return self.least / self.seconds


def empty() -> Table:
    """Return a table without pieces, of this machine and this day."""
    return {"date": today(), "machine": machine(), "versions": versions(), "pieces": {}}


def today() -> str:
    """Return the date as tables write it."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine() -> dict[str, str]:
    """Return what there is to say about this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    caches = [line.split(":", 1)[1].strip() for line in lines if line.startswith("cache size")]
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "cache": caches[0] if caches else "unknown",
        "system": f"{platform.system()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what is compared; those that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def piece_of(items: list[Any], seconds: float, calibration: float) -> dict[str, Any]:
    """Return the entry of a piece that was run now."""
    kind = {Row: "rows", Fit: "growth", Limit: "limits"}[type(items[0])]
    return {
        "kind": kind,
        "date": today(),
        "processor_name": machine()["processor"],
        "seconds": seconds,
        "calibration": calibration,
        "items": [asdict(item) for item in items],
    }


def items_of(piece: dict[str, Any]) -> list[Any]:
    """Return the items of a piece as Rows, Fits or Limits."""
    made = {"rows": Row, "growth": Fit, "limits": Limit}[piece["kind"]]
    return [made(**_read(item)) for item in piece["items"]]


def load(path: Path) -> Table:
    """Return the table in a file, or an empty one if there is none."""
    return json.loads(path.read_text()) if path.exists() else empty()


def save(table: Table, path: Path) -> None:
    """Write a table: four digits, no NaN."""
    path.write_text(json.dumps(_written(table), indent=1, allow_nan=False) + "\n")


def merged(old: Table, new: Table, whole: bool) -> Table:
    """Return the pieces of both tables, the new ones where both have them.

    Machine, versions and date are those of the last run of the whole: pieces have a date and a processor of their own.
    """
    head = new if whole or not old["pieces"] else old
    return {**head, "pieces": {**old["pieces"], **new["pieces"]}}


@dataclass(frozen=True)
class Slower:
    """A row that takes longer than it did, and by how much, relative to its reference."""

    piece: str
    name: str
    factor: float
    reference: str

    def __str__(self) -> str:
        longer = f"{self.factor:.2f} times as long as before, relative to {self.reference}"
        return f"{self.piece}: {self.name.strip()}: {longer}"


def slower(old: Table, new: Table, by: float = SLOWER) -> list[Slower]:
    """Return what became slower by more than 20%, the worst first.

    A row with a peer that was measured beside it is compared by the ratio of the two; a row without one by the
    calibration, a fixed piece of work that is timed with every piece; a limit by the rate of the machine; memory as it
    is. Rows that only one of the tables has, and how well bandits learn, are not compared.
    """
    found = []
    for name, piece in new["pieces"].items():
        before = old["pieces"].get(name)
        if before is None or before["kind"] != piece["kind"] or piece["kind"] == "growth":
            continue
        known = {item.name if isinstance(item, Row) else item.kernel: item for item in items_of(before)}
        for item in items_of(piece):
            key = item.name if isinstance(item, Row) else item.kernel
            if key not in known:
                continue
            factor, reference = _factor(known[key], item, before["calibration"], piece["calibration"])
            if factor > by:
                found.append(Slower(name, key, factor, reference))
    return sorted(found, key=lambda one: -one.factor)


def _factor(old: Any, new: Any, old_calibration: float, new_calibration: float) -> tuple[float, str]:
    """Return how many times as long the new one takes, and relative to what; nan where there is no telling."""
    if not new.compared:
        return math.nan, ""
    if isinstance(new, Limit):
        return old.fraction / new.fraction, "the rate of the machine"
    if new.missing or old.missing or new.higher or new.unit not in ("s", "GiB"):
        return math.nan, ""
    if new.unit == "GiB":
        return new.ours / old.ours, "itself"
    if new.fixed or not math.isfinite(new.other) or not math.isfinite(old.other):
        return new.ours / old.ours * old_calibration / new_calibration, "the calibration"
    return old.ratio / new.ratio, "what it is compared with"


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _written(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_written(each) for each in value]
    if isinstance(value, np.bool_ | np.integer):
        value = value.item()
    if isinstance(value, bool | int | str) or value is None:
        return value
    value = float(value)
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _read(item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with what JSON cannot say, NaN, as it was."""
    return {key: math.nan if value is None else value for key, value in item.items()}
