"""What a study is: its runs, the dataset that they make, its claims, and how the report shows it.

Each study is one file in ``prudent.reproduction.studies``. What the report has to know travels with the dataset, as
JSON in its attributes: ``report`` (setting, dimensions, figures, tables) and ``studies`` (the titles of all studies,
in order, so that a page can say which were not run).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..types import ArrayLike, IntArray
from .claims import Claim, Data, Statement
from .runs.base import Arrays, Run
from .scale import Scale

Coordinates: TypeAlias = tuple[Hashable, ...]
"""Coordinates of a run in the dataset of its study."""


class Quantity(NamedTuple):
    """What a variable or a coordinate of a dataset is.

    Attributes
    ----------
    label : str
        Name on an axis.
    units : str
        Units.
    dims : tuple of str
        Dimensions of a variable.
    """

    label: str
    units: str = ""
    dims: tuple[str, ...] = ()


LABELS = {"agent": "algorithm", "replication": "replication", "time": "step", "level": "risk level of the metric"}
"""Labels of coordinates that many datasets have."""
COUNTED = Quantity("number of replications")


def quantities(*names: str, **labels: str) -> dict[str, Quantity]:
    """Return coordinates without units: some of ``LABELS``, and others with their labels.

    Examples
    --------
    >>> quantities("agent", seed="seed of the run")["seed"].label
    'seed of the run'
    """
    return {name: Quantity(label) for name, label in ({name: LABELS[name] for name in names} | labels).items()}


@dataclass(frozen=True)
class Figure:
    """A figure of the report, and what the paper says about it.

    Attributes
    ----------
    kind : str
        One of ``prudent.reproduction.report.figures.KINDS``.
    name : str
        Stem of the files.
    title : str
        Title.
    says : str
        What the paper says about it.
    options : mapping
        Options of the function that draws this kind.
    """

    kind: str
    name: str
    title: str
    says: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table of the report.

    Attributes
    ----------
    kind : str
        One of ``prudent.reproduction.report.tables.KINDS``.
    caption : str
        Caption.
    options : mapping
        Options of the function that makes this kind.
    fold : str
        Summary under which the table is folded away; empty for a table that is shown.
    """

    kind: str
    caption: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fold: str = ""


def curves(name: str, title: str, says: str, panels: Sequence[Any], **options: Any) -> Figure:
    """Return a figure of curves: means over replications with their bands, in panels made by ``curve``."""
    return Figure("curves", name, title, says, {"panels": panels, **options})


def curve(variable: str, title: str, *, log: bool = False, agents: list[str] | None = None, **where: Any) -> Any:
    """Return one panel of a figure of curves: a variable of the agents (default: all) at some coordinates.

    Examples
    --------
    >>> curve("regret", "p_h = 0.1", p_h=0.1)["where"]
    {'p_h': 0.1}
    """
    return {"variable": variable, "title": title, "log": log, "agents": agents, "where": where}


Parts: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""Variables and coordinates of a dataset, without labels."""


@dataclass(frozen=True)
class Study:
    """One study.

    Attributes
    ----------
    name : str
        Name on the command line and of the dataset file.
    order : int
        Studies are listed and shown by rising order.
    title, setting : str
        Title and description in the report.
    variables, coords : mapping of str to Quantity
        What the variables and the coordinates of the dataset are.
    plan : callable
        Function of the scale that returns the runs by their coordinates.
    assemble : callable, optional
        Function of the scale and of the results by coordinates that returns variables and coordinates. The default is
        ``stacked``: the runs fill a grid of coordinates.
    claims : tuple of Statement
        The claims about the dataset.
    figures : tuple of Figure
        Figures of the report.
    tables : tuple of Table
        Tables of the report.
    readings : mapping of str to str
        Readings of the paper along the dimension ``reading``; see ``Statement.judge``.
    further : callable, optional
        Function of the scale and of the dataset that returns the runs of the next look at growing data: those of
        ``plan`` with more replications. None if the claims are decided.

    Examples
    --------
    >>> from prudent.reproduction import STUDIES
    >>> STUDIES["limit-law"].title
    'The limit law of Bayesian-risk values'
    """

    name: str
    order: int
    title: str
    setting: str
    variables: Mapping[str, Quantity]
    coords: Mapping[str, Quantity]
    plan: Callable[[Scale], Mapping[Coordinates, Run]]
    claims: tuple[Statement, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    assemble: Callable[[Scale, Mapping[Coordinates, Arrays]], Parts] | None = None
    readings: Mapping[str, str] = field(default_factory=dict)
    further: Callable[[Scale, Data], Mapping[Coordinates, Run] | None] | None = None

    @property
    def paper_says(self) -> str:
        """What the paper says about all figures of the study."""
        return " ".join(figure.says for figure in self.figures)

    def judge(self, data: Data) -> list[Claim]:
        """Return the claims, judged by the dataset.

        Parameters
        ----------
        data : xarray.Dataset
            Dataset of this study.

        Returns
        -------
        list of Claim
            The claims with their verdicts.
        """
        return [statement.judge(data, self.readings) for statement in self.claims]

    def dataset(
        self,
        scale: Scale,
        results: Mapping[Coordinates, Arrays],
        plan: Mapping[Coordinates, Run] | None = None,
    ) -> Data:
        """Return the results of the runs as a dataset, with labels, units and what the report needs.

        Parameters
        ----------
        scale : Scale
            Size of the study.
        results : mapping
            Arrays of the runs, by the coordinates of ``plan``.
        plan : mapping, optional
            The runs, if they are not those of ``plan``.

        Returns
        -------
        xarray.Dataset
            The dataset.
        """
        if self.assemble is None:
            dims = next(iter(self.variables.values())).dims
            grid = dims[: dims.index("replication")]
            values, coordinates = stacked(grid, plan or self.plan(scale), results, tuple(self.variables))
        else:
            values, coordinates = self.assemble(scale, results)
        variables = {name: (self.variables[name].dims, value) for name, value in values.items()}
        data = labelled(variables, coordinates, {**self.variables, **self.coords})
        shown = {
            "setting": self.setting,
            "variables": {str(name): variable.dims for name, variable in data.data_vars.items()},
            "figures": [asdict(figure) for figure in self.figures],
            "tables": [asdict(table) for table in self.tables],
        }
        data.attrs = {"title": self.title, "report": json.dumps(shown)}
        return data


def labelled(
    variables: Mapping[str, tuple[Sequence[str], Any]], coords: Mapping[str, Any], quantities: Mapping[str, Quantity]
) -> Data:
    """Return a dataset whose variables and coordinates have labels and units.

    For every variable NAME with replications there is ``NAME_replications``: how many of them each cell has. Where
    cells differ in this, the dimension is as long as the largest number needs, and the rest of a cell is NaN.
    """
    import xarray

    arrays = {name: np.asarray(coordinate) for name, coordinate in coords.items()}
    # NetCDF-3 has no 64-bit integers
    small = {name: array.astype(np.int32) if array.dtype == np.int64 else array for name, array in arrays.items()}
    counts = {}
    for name, (dims, values) in variables.items():
        if "replication" in dims:
            cells, found = replications_of(dims, values)
            counts[counted(name)] = (cells, found.astype(np.int32))
    data = xarray.Dataset({**variables, **counts}, small)
    for name in map(str, data.variables):
        quantity = COUNTED if name in counts else quantities[name]
        data[name].attrs = {"long_name": quantity.label, **({"units": quantity.units} if quantity.units else {})}
    return data


def counted(name: str) -> str:
    """Return the name of the variable that has the numbers of replications of another one."""
    return f"{name}_replications"


def replications_of(dims: Sequence[str], values: ArrayLike) -> tuple[tuple[str, ...], IntArray]:
    """Return the dimensions of a variable before ``replication``, and the number of replications of each cell there.

    Examples
    --------
    >>> dims, counts = replications_of(("agent", "replication", "time"), [[[1.0, np.nan], [np.nan, np.nan]]])
    >>> dims, counts.tolist()
    (('agent',), [1])
    """
    place = list(dims).index("replication")
    there = ~np.isnan(np.asarray(values, dtype=np.float64))
    rows = there.reshape(*there.shape[: place + 1], -1).any(axis=-1)
    return tuple(dims[:place]), rows.sum(axis=-1, dtype=np.int64)


def stacked(
    dims: Sequence[str],
    plan: Mapping[Coordinates, Any],
    results: Mapping[Coordinates, Arrays],
    names: Sequence[str],
    given: Mapping[str, Sequence[Hashable]] | None = None,
) -> Parts:
    """Return the arrays of simulations over the coordinates of their runs.

    Parameters
    ----------
    dims : sequence of str
        Dimensions of the coordinates in ``plan``.
    plan : mapping
        Simulations by their coordinates.
    results : mapping
        Arrays of the runs, by the same coordinates.
    names : sequence of str
        Arrays to return.
    given : mapping, optional
        Coordinates of some dimensions; the default is the order in which they occur in the plan.

    Returns
    -------
    variables : dict of str to ndarray
        Arrays [*dims, R, ...], NaN where there is no run, no such array, or no such replication.
    coords : dict of str to sequence
        Coordinates of the dimensions, the replications, the recorded times and, with BR-regret, the risk levels.
    """
    axes = {dim: list(dict.fromkeys(coordinates[i] for coordinates in plan)) for i, dim in enumerate(dims)}
    axes |= {dim: list(values) for dim, values in (given or {}).items()}
    runs = list(plan.values())
    replications = max(run.replications for run in runs)
    variables = {}
    for name in names:
        shape = next(arrays[name].shape[1:] for arrays in results.values() if name in arrays)
        array = np.full((*map(len, axes.values()), replications, *shape), np.nan)
        for coordinates, run in plan.items():
            if name in results[coordinates]:
                cell = tuple(axis.index(value) for axis, value in zip(axes.values(), coordinates, strict=True))
                array[cell][: run.replications] = results[coordinates][name]
        variables[name] = array
    coords = {**axes, "replication": np.arange(replications), runs[0].along: runs[0].times}
    return variables, coords | ({"level": list(runs[0].alphas)} if "br_regret" in names else {})
