"""What `prudent reproduce` left in a folder, read and checked; and the one interval that the report uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from .._support.checks import FloatArray
from ..errors import DataError

if TYPE_CHECKING:
    import xarray

__all__ = ["SCHEMA", "Results", "mean_and_half_width", "read"]

LEVEL = 0.95  # of every interval and band in the report
_LAKE: dict[str, tuple[str, ...]] = {"regret": ("p_h", "agent", "replication", "episode")}
SCHEMA: dict[str, dict[str, tuple[str, ...]]] = {
    "bandit-four": {
        "br_regret": ("agent", "replication", "level", "time"),
        "regret": ("agent", "replication", "time"),
    },
    "bandit-br": {"br_regret": ("agent", "replication", "level", "time")},
    "bandit-conventional": {"regret": ("nu", "agent", "replication", "time")},
    "lake-regret": _LAKE,
    "lake-long": _LAKE,
    "optimal-policy": {
        "q": ("state", "action"),
        "value": ("state",),
        "policy": ("state",),
        "paper_policy": ("state",),
        "hole": ("state",),
    },
    "limit-law": {
        "scaled_error": ("method", "size", "replication"),
        "limit_mean": (),
        "limit_sd": (),
    },
    "beyond": {
        "br_regret": ("agent", "replication", "episode"),
        "regret": ("agent", "replication", "episode"),
    },
}
"""What the report reads: the variables of each dataset and their dimensions, in order."""


@dataclass(frozen=True)
class Results:
    """Everything the report shows: datasets by experiment, claims, measured times."""

    datasets: dict[str, xarray.Dataset]
    claims: list[dict[str, Any]]
    timings: dict[str, Any]


def read(folder: Path) -> Results:
    """Read the datasets, claims.json and timings.json that ``folder`` has.

    >>> read(Path("no-such-folder"))
    Traceback (most recent call last):
    prudent.errors.DataError: no-such-folder is no folder; it should hold what `prudent reproduce` wrote
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; it should hold what `prudent reproduce` wrote")
    files = {name: folder / f"{name}.nc" for name in SCHEMA}
    datasets = {name: _dataset(name, file) for name, file in files.items() if file.exists()}
    timings = _json(folder / "timings.json", dict)
    if not datasets and not timings:
        raise DataError(f"{folder} holds no results: none of {', '.join(file.name for file in files.values())}")
    claims = _json(folder / "claims.json", list)
    for i, claim in enumerate(claims):
        for key in ("id", "statement", "verdict"):
            if not isinstance(claim, dict) or key not in claim:
                raise DataError(f"{folder / 'claims.json'}: claim {i} has no {key!r}: {claim!r}")
    return Results(datasets, claims, timings)


def _json(file: Path, kind: type) -> Any:
    if not file.exists():
        return kind()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} is no JSON: {error}") from None
    if not isinstance(content, kind):
        raise DataError(f"{file} should hold a {kind.__name__}, got a {type(content).__name__}")
    return content


def _dataset(name: str, file: Path) -> xarray.Dataset:
    import xarray

    try:
        data = xarray.load_dataset(file, engine="scipy")
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"{file} cannot be read as NetCDF: {error}") from None
    for variable, dims in SCHEMA[name].items():
        if variable not in data:
            raise DataError(f"{file} has no variable {variable!r}")
        found = tuple(map(str, data[variable].dims))
        if sorted(found) != sorted(dims):
            raise DataError(f"{file}: {variable} has dimensions {found}, expected {dims}")
        data[variable] = data[variable].transpose(*dims)
    return data


def mean_and_half_width(values: Any, axis: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return the mean over replications and the half width of its 95% interval by Student's t.

    The half width of a single replication is NaN: it says nothing about the mean.

    >>> mean, half = mean_and_half_width([1.0, 2.0, 3.0])
    >>> float(mean), float(half)
    (2.0, 2.4841)
    """
    data = np.asarray(values, dtype=np.float64)
    count = data.shape[axis]
    mean = data.mean(axis=axis)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    factor = float(stdtrit(count - 1, 0.5 + LEVEL / 2)) / np.sqrt(count)
    return mean, factor * data.std(axis=axis, ddof=1)
