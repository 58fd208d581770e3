"""What `prudent reproduce` left in a folder, read and checked.

A dataset says in its attributes how it is to be shown: ``report`` is JSON with the setting, the dimensions of its
variables, its figures and its tables; ``studies`` has the titles of all studies, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..._support.checks import FloatArray
from ..._support.datasets import read_dataset
from ...errors import DataError

if TYPE_CHECKING:
    import xarray

__all__ = ["Results", "Section", "action_names", "chosen", "label_of", "make", "read", "relative"]

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Section:
    """One study as the report shows it: its dataset, the words, and what figures and tables to make of it."""

    name: str
    title: str
    setting: str
    data: xarray.Dataset
    figures: tuple[Mapping[str, Any], ...]
    tables: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Results:
    """Everything the report shows: the sections in order, the titles of studies that were not run, claims, times."""

    sections: tuple[Section, ...]
    missing: tuple[str, ...]
    claims: list[dict[str, Any]]
    timings: dict[str, Any]


def read(folder: Path, names: Collection[str] | None = None) -> Results:
    """Read the datasets, claims.json and timings.json that ``folder`` has; of datasets those called ``names`` only.

    >>> read(Path("no-such-folder"))
    Traceback (most recent call last):
    prudent.errors.DataError: no-such-folder is no folder; it should hold what `prudent reproduce` wrote
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; it should hold what `prudent reproduce` wrote")
    files = {file.stem: file for file in sorted(folder.glob("*.nc")) if names is None or file.stem in names}
    if not files:
        raise DataError(f"{folder} holds no results: there is no dataset (*.nc) in it")
    titles: dict[str, str] = {}
    sections = {}
    for name, file in files.items():
        data = read_dataset(file)
        sections[name] = _section(name, file, data)
        titles |= _attribute(data, "studies", file)
    claims = _json(folder / "claims.json", list)
    for i, claim in enumerate(claims):
        for key in ("id", "statement", "verdict"):
            if not isinstance(claim, dict) or key not in claim:
                raise DataError(f"{folder / 'claims.json'}: claim {i} has no {key!r}: {claim!r}")
    order = [*titles, *sorted(set(sections) - set(titles))]
    return Results(
        tuple(sections[name] for name in order if name in sections),
        tuple(str(title) for name, title in titles.items() if name not in sections),
        claims,
        _json(folder / "timings.json", dict),
    )


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


def _attribute(data: xarray.Dataset, name: str, file: Path) -> dict[str, Any]:
    """Return an attribute of a dataset that holds an object of JSON."""
    try:
        found = json.loads(data.attrs[name])
    except (KeyError, TypeError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{file} has no attribute {name!r} in JSON: was it written by `prudent reproduce`?")
    return found


def _section(name: str, file: Path, data: xarray.Dataset) -> Section:
    shown = _attribute(data, "report", file)
    for variable, dims in shown.get("variables", {}).items():
        if variable not in data:
            raise DataError(f"{file} has no variable {variable!r}")
        found = tuple(map(str, data[variable].dims))
        if sorted(found) != sorted(dims):
            raise DataError(f"{file}: {variable} has dimensions {found}, expected {tuple(dims)}")
        data[variable] = data[variable].transpose(*dims)
    figures, tables = (tuple(shown.get(each, ())) for each in ("figures", "tables"))
    for figure in figures:
        if not re.fullmatch(r"[\w-]+", str(figure.get("name"))):  # it becomes the name of a file
            raise DataError(f"{file}: {figure.get('name')!r} is no name for a figure")
    title = str(data.attrs.get("title", name))
    return Section(name, title, str(shown.get("setting", "")), data, figures, tables)


def make(section: Section, kinds: Mapping[str, Callable[..., _Made]], spec: Mapping[str, Any], *words: str) -> _Made:
    """Return what the function of this kind makes of the dataset of a section, with these words of the spec."""
    kind = str(spec.get("kind"))
    if kind not in kinds:
        raise DataError(f"{section.name}.nc asks for {kind!r}, expected one of {', '.join(kinds)}")
    try:
        return kinds[kind](section.data, *(str(spec[word]) for word in words), **spec.get("options", {}))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{section.name}.nc does not hold what its {kind!r} shows: {error}") from error


# -- what figures and tables take from a dataset -----------------------------------------------------------


def chosen(data: xarray.Dataset, variable: str, where: Mapping[str, Any] | None = None) -> xarray.DataArray:
    """Return a variable at some coordinates, of the replications that it has there."""
    for name, place in (where or {}).items():
        if place not in data[name].values:
            raise ValueError(f"there is no {name} = {place}")
    part = data[variable].sel(where or {})
    return part.dropna("replication", how="all") if "replication" in part.dims else part


def label_of(data: xarray.DataArray) -> str:
    """Return the label of an axis: the long name, and units in brackets."""
    name, units = data.attrs.get("long_name", data.name), data.attrs.get("units")
    return f"{name} ({units})" if units else str(name)


def relative(data: xarray.Dataset, series: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Return the means of several quantities of the agents, by label, as multiples of the first agent's."""
    found = {}
    for each in series:
        part = chosen(data, each["variable"], each.get("where"))
        means = np.asarray((part.mean("replication") if "replication" in part.dims else part).values)
        found[str(each["label"])] = means / means[0]
    return found


def action_names(data: xarray.Dataset, variable: str) -> list[str]:
    """Return the action of each state by name; "" where there is none (the goal)."""
    actions = [str(action) for action in data.action.values]
    names = []
    for entry in data[variable].values.tolist():
        if isinstance(entry, (int, float)):
            names.append(actions[int(entry)] if 0 <= entry < len(actions) else "")
        else:
            names.append(str(entry) if str(entry) in actions else "")
    return names
