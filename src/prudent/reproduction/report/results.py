"""What `prudent reproduce` left in a folder, read and checked.

A dataset says in its attributes how it is to be shown: ``report`` is JSON with the setting, the dimensions of its
variables, its figures and its tables; ``studies`` has the titles of all studies, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..._support.checks import FloatArray
from ..._support.datasets import read_dataset
from ...errors import DataError
from ..claims import Claim

if TYPE_CHECKING:
    import xarray

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
    claims: list[Claim]
    timings: dict[str, Any]


def read(folder: Path, datasets: Mapping[str, xarray.Dataset] | None = None) -> Results:
    """Read claims.json and timings.json in ``folder`` and, unless they are given, all its datasets."""
    if not folder.is_dir():
        message = f"{folder} is not a folder; expected the output of `prudent reproduce`"
        raise DataError(message, code="missing-file", path=str(folder))
    if datasets is None:
        datasets = {file.stem: read_dataset(file) for file in sorted(folder.glob("*.nc"))}
    if not datasets:
        message = f"{folder} holds no results: there is no dataset (*.nc) in it"
        raise DataError(message, code="missing-file", path=str(folder))
    titles: dict[str, str] = {}
    sections = {}
    for name, data in datasets.items():
        file = folder / f"{name}.nc"
        sections[name] = _section(name, file, data)
        titles |= _attribute(data, "studies", file)
    file = folder / "claims.json"
    claims = [Claim.from_record(record, f"{file}: claim {i}") for i, record in enumerate(_json(file, list))]
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
        raise DataError(f"{file} is not JSON: {error}", code="wrong-format", path=str(file)) from None
    if not isinstance(content, kind):
        message = f"{file} must hold a {kind.__name__}, got a {type(content).__name__}"
        raise DataError(message, code="wrong-format", path=str(file))
    return content


def _attribute(data: xarray.Dataset, name: str, file: Path) -> dict[str, Any]:
    """Return an attribute of a dataset that holds an object of JSON."""
    try:
        content = json.loads(data.attrs[name])
    except (KeyError, TypeError, ValueError):
        content = None
    if not isinstance(content, dict):
        message = f"{file} has no attribute {name!r} in JSON: was it written by `prudent reproduce`?"
        raise DataError(message, code="missing-field", path=str(file), index=name)
    return content


def _section(name: str, file: Path, data: xarray.Dataset) -> Section:
    shown = _attribute(data, "report", file)
    for variable, dims in shown.get("variables", {}).items():
        if variable not in data:
            message = f"{file} has no variable {variable!r}"
            raise DataError(message, code="missing-field", path=str(file), index=variable)
        actual = tuple(map(str, data[variable].dims))
        if sorted(actual) != sorted(dims):
            message = f"{file}: {variable} has dimensions {actual}, expected {tuple(dims)}"
            raise DataError(message, code="wrong-shape", path=str(file), index=variable, expected=tuple(dims))
        data[variable] = data[variable].transpose(*dims)
    figures, tables = (tuple(shown.get(kind, ())) for kind in ("figures", "tables"))
    for figure in figures:
        if not re.fullmatch(r"[\w-]+", str(figure.get("name"))):  # it becomes the name of a file
            message = f"{file}: {figure.get('name')!r} is not a valid name of a figure"
            raise DataError(message, code="wrong-format", path=str(file), value=figure.get("name"))
    title = str(data.attrs.get("title", name))
    return Section(name, title, str(shown.get("setting", "")), data, figures, tables)


def make(section: Section, kinds: Mapping[str, Callable[..., _Made]], spec: Mapping[str, Any], *words: str) -> _Made:
    """Return what the function of this kind makes of the dataset of a section, with these words of the spec."""
    kind = str(spec.get("kind"))
    if kind not in kinds:
        message = f"{section.name}.nc asks for {kind!r}, expected one of {', '.join(kinds)}"
        raise DataError(message, code="unknown-option", value=kind, expected=tuple(kinds))
    try:
        return kinds[kind](section.data, *(str(spec[word]) for word in words), **spec.get("options", {}))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        message = f"{section.name}.nc lacks what its {kind!r} shows: {error}"
        raise DataError(message, code="wrong-format", value=kind) from error


# -- what figures and tables take from a dataset -----------------------------------------------------------


def chosen(data: xarray.Dataset, variable: str, where: Mapping[str, Any] | None = None) -> xarray.DataArray:
    """Return a variable at some coordinates, of the replications that it has there."""
    for name, value in (where or {}).items():
        if value not in data[name].values:
            raise ValueError(f"there is no {name} = {value}")
    part = data[variable].sel(where or {})
    return part.dropna("replication", how="all") if "replication" in part.dims else part


def label_of(data: xarray.DataArray) -> str:
    """Return the label of an axis: the long name, and units in brackets."""
    name, units = data.attrs.get("long_name", data.name), data.attrs.get("units")
    return f"{name} ({units})" if units else str(name)


def relative(data: xarray.Dataset, series: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Return the means of several quantities of the agents, by label, as multiples of the first agent's."""
    ratios = {}
    for quantity in series:
        part = chosen(data, quantity["variable"], quantity.get("where"))
        means = np.asarray((part.mean("replication") if "replication" in part.dims else part).values)
        ratios[str(quantity["label"])] = means / means[0]
    return ratios


def action_names(data: xarray.Dataset, variable: str) -> list[str]:
    """Return the action of each state by name, from names or numbers; "" where there is none (the goal)."""
    actions = [str(action) for action in data.action.values]
    names = dict(enumerate(actions)) | dict(zip(actions, actions, strict=True))
    return [names.get(entry, "") for entry in data[variable].values.tolist()]
