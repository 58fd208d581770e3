"""What a study is: its runs, the dataset they make, what the paper says about it, how it is shown and how it is judged.

Each study is one file in :mod:`prudent.reproduction.studies`. What the report has to know travels with the dataset, as
JSON in its attributes: ``report`` (setting, dimensions, figures, tables) and ``studies`` (the titles of all studies,
in order, so that a page can say which were not run).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .intervals import STUDENT, Claim, Finding, claim
from .run import Arrays, Run
from .scale import Scale

if TYPE_CHECKING:
    import xarray

__all__ = ["Figure", "Quantity", "Study", "Table", "curve", "curves", "judged"]


class Quantity(NamedTuple):
    """What a variable or a coordinate of a dataset is: its name on an axis, its units, and a variable's dimensions."""

    label: str
    units: str = ""
    dims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of the report, and what the paper says about it.

    ``kind`` is one of ``prudent.reproduction.report.figures.KINDS``, ``name`` the stem of the files, ``options`` go to
    the function that draws this kind.
    """

    kind: str
    name: str
    title: str
    says: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of the report: ``kind`` is one of ``prudent.reproduction.report.tables.KINDS``, with its ``options``.

    A table with a text ``fold`` is folded away under this text.
    """

    kind: str
    caption: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fold: str = ""


def curves(name: str, title: str, says: str, panels: Sequence[Any], **options: Any) -> Figure:
    """Return a figure of curves: means over replications with their bands, in panels made by :func:`curve`."""
    return Figure("curves", name, title, says, {"panels": panels, **options})


def curve(variable: str, title: str, *, log: bool = False, agents: list[str] | None = None, **where: Any) -> Any:
    """Return one panel of a figure of curves: a variable of the agents (default: all) at some coordinates.

    >>> curve("regret", "p_h = 0.1", p_h=0.1)["where"]
    {'p_h': 0.1}
    """
    return {"variable": variable, "title": title, "log": log, "agents": agents, "where": where}


@dataclass(frozen=True)
class Study:
    """One study: its place among the others, its runs, its dataset, its claims, and how the report shows it.

    ``plan`` gives the runs at a scale; ``assemble`` makes of their results the variables and the coordinates, whose
    meaning ``variables`` and ``coords`` say; ``claims`` judges the dataset.

    >>> from prudent.reproduction import STUDIES
    >>> STUDIES["limit-law"].title
    'The limit law of Bayesian-risk values'
    """

    name: str
    order: int  # studies are listed and shown by rising order
    title: str
    setting: str
    variables: Mapping[str, Quantity]
    coords: Mapping[str, Quantity]
    plan: Callable[[Scale], tuple[Run, ...]]
    assemble: Callable[[Scale, list[Arrays]], tuple[dict[str, Any], dict[str, Any]]]
    claims: Callable[[xarray.Dataset], list[Claim]]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]

    @property
    def paper_says(self) -> str:
        """What the paper says about all figures of the study."""
        return " ".join(figure.says for figure in self.figures)

    def dataset(self, scale: Scale, results: list[Arrays]) -> xarray.Dataset:
        """Return the dataset that the results of the runs make, with labels and units, and what the report needs."""
        import xarray

        values, places = self.assemble(scale, results)
        arrays = {name: np.asarray(place) for name, place in places.items()}
        # NetCDF-3 has no 64-bit integers
        small = {name: array.astype(np.int32) if array.dtype == np.int64 else array for name, array in arrays.items()}
        data = xarray.Dataset({name: (self.variables[name].dims, value) for name, value in values.items()}, small)
        for name, quantity in {**self.variables, **self.coords}.items():
            units = {"units": quantity.units} if quantity.units else {}
            data[name].attrs = {"long_name": quantity.label, **units}
        data.attrs = {"title": self.title, "report": self._for_the_report()}
        return data

    def _for_the_report(self) -> str:
        shown = {
            "setting": self.setting,
            "variables": {name: quantity.dims for name, quantity in self.variables.items()},
            "figures": [asdict(figure) for figure in self.figures],
            "tables": [asdict(table) for table in self.tables],
        }
        return json.dumps(shown)


def judged(
    data: xarray.Dataset,
    readings: Mapping[str, str],
    name: str,
    statement: str,
    source: str,
    find: Callable[[xarray.Dataset, int], Finding],
    *,
    test: str = STUDENT,
) -> Claim:
    """Return a claim judged under every reading that a dataset has along its dimension ``reading``.

    The first of ``readings`` is the paper as written; the others come with the words that end the sentence "reproduced
    when ...". ``find`` judges the dataset of one reading, given how many readings share the confidence. A reading may
    have fewer replications than others: the rest is NaN.
    """
    as_written, *others = (each for each in readings if each in data.reading.values)

    def found(reading: str, sharing: int) -> Finding:
        return find(data.sel(reading=reading).dropna("replication", how="all"), sharing)

    tried = {readings[each]: found(each, len(others)) for each in others}
    return claim(name, statement, source, found(as_written, 1), tried, test=test)
