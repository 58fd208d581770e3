"""Sweeps: every agent on every environment with every seed, kept in chunks, as one dataset and one table.

``prudent.reproduction.sweep_spec`` says what a file of a sweep looks like. Chunks are those of
``prudent.reproduction.runner``: a sweep that was killed continues where it was, more replications keep the old ones,
and a cluster gives the same bytes as one machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.content import Content
from .._support.datasets import LARGEST_VARIABLE, write_large
from .._support.output import write
from .._support.provenance import provenance
from .._support.running import Moments, Quantiles
from ..simulation.agents import Custom, described
from ..simulation.table import RegretTable, regret_table
from ..types import PathLike
from .runner import Progress, computed
from .runs.base import Arrays
from .runs.simulation import KNOWN, SimulationRun
from .study import COUNTED, Coordinates, Quantity, counted, labelled, quantities, replications_of, stacked
from .sweep_spec import SweepSpec, read_spec

if TYPE_CHECKING:
    import pandas
    import xarray

DIMS = ("environment", "agent", "seed")
PROBABILITIES = [0.05, 0.25, 0.5, 0.75, 0.95]  # of the quantiles of a summary
QUANTITIES = {
    "regret": Quantity("cumulative regret", "reward"),
    "br_regret": Quantity("cumulative BR-regret", "reward"),
    "total_reward": Quantity("total reward", "reward"),
    **quantities("agent", "replication", "time", "level", environment="environment", seed="seed", episode="episode"),
}


def sweep(
    spec: PathLike | Mapping[str, Any] | SweepSpec,
    out: PathLike = "sweep",
    workers: int | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
    cluster: object = None,
    allow_modules: Sequence[str] = (),
) -> xarray.Dataset:
    """Run every agent on every environment with every seed.

    Parameters
    ----------
    spec : path-like, mapping or SweepSpec
        What to run: a TOML file, or a mapping with the same keys (see ``prudent.reproduction.sweep_spec``).
    out : path-like, default="sweep"
        Folder for ``sweep.nc``, and for the table of ``compared`` as ``sweep.csv`` and ``sweep.tex``.
    workers : int, optional
        Number of threads; the default is the number of cores. The dataset does not depend on it.
    chunk : int, optional
        Replications that are computed and stored at a time. The dataset does not depend on it.
    progress : Progress, optional
        Receiver of the progress.
    cluster : str, dask cluster or dask client, optional
        Where to compute. The dataset does not depend on it.
    allow_modules : sequence of str, optional
        Modules and packages whose functions the spec may name as a ``kind``. The default is none: a spec that you did
        not write must not run code of its choice.

    Returns
    -------
    xarray.Dataset
        ``total_reward`` and ``regret`` (environment, agent, seed, replication, episode or time), as far as the
        environments know them, and ``br_regret`` with a dimension ``level`` if the spec has levels. With
        ``keep = "summary"``: ``regret_mean``, ``regret_variance`` (environment, agent, episode or time),
        ``regret_quantile``, ``regret_covariance`` (environment, agent, other_agent) of the end, the same of
        ``total_reward``, and ``replications`` (environment, agent).

    Raises
    ------
    ParameterError
        If the spec has a mistake.
    DataError
        If the file cannot be read.
    StoreError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> small = {"replications": 3, "episodes": 10, "points": 2, "environment": [{"kind": "frozen_lake"}],
    ...          "agent": [{"kind": "brps_rl", "alpha": [0.0, 0.9]}]}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     data = sweep(small, out)
    >>> dict(data.regret.sizes)
    {'environment': 1, 'agent': 2, 'seed': 1, 'replication': 3, 'episode': 2}
    """
    plan = spec if isinstance(spec, SweepSpec) else read_spec(spec, allow_modules)
    folder = Path(out)
    runs = plan.runs()
    with computed(folder, list(runs.values()), workers, chunk, progress, cluster) as result_of:

        def arrays_of(where: Coordinates) -> Arrays:
            return result_of(runs[where])[0]

        if plan.keep == "summary":
            data = _summary(plan, runs, arrays_of)
        elif plan.largest > LARGEST_VARIABLE:
            data = _large(folder / "sweep.nc", plan, runs, arrays_of)
        else:
            data = _dataset(plan, runs, {where: arrays_of(where) for where in runs})
        if plan.keep == "summary" or plan.largest <= LARGEST_VARIABLE:
            write(folder / "sweep.nc", bytes(data.to_netcdf(engine="scipy")))
        table = sweep_table(data)
        write(folder / "sweep.csv", table.to_csv().encode())
        write(folder / "sweep.tex", table.to_latex().encode())
    return data


def compared(data: xarray.Dataset) -> pandas.DataFrame:
    """Return the table of a sweep: the final regret of each agent in each environment, and its lead over the baseline.

    Parameters
    ----------
    data : xarray.Dataset
        What ``sweep`` returned.

    Returns
    -------
    pandas.DataFrame
        One row for each environment and agent, with the columns of ``prudent.simulation.RegretTable`` and ``metric``.
        The baseline and the confidence are those of the spec.

    Examples
    --------
    >>> import tempfile
    >>> small = {"replications": 4, "episodes": 10, "environment": [{"kind": "frozen_lake"}],
    ...          "agent": [{"kind": "ts_rl"}, {"kind": "brps_rl", "alpha": 0.9}]}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     table = compared(sweep(small, out))
    >>> table[["agent", "runs"]].values.tolist()
    [['TS-RL', 4], ['BRPS-RL 0.9', 4]]
    """
    table = sweep_table(data)
    frame = table.to_pandas()
    frame.insert(2, "metric", table.metric)
    return frame


def sweep_table(data: xarray.Dataset) -> RegretTable:
    """Return the table of a sweep, with the baseline and the confidence of its spec."""
    spec = json.loads(data.attrs["spec"])
    return regret_table(data, baseline=spec["baseline"], confidence=spec["confidence"])


def metric_of(data: xarray.Dataset) -> str:
    """Return what the agents of a sweep are compared by: regret, or total reward if not all of them have a regret."""
    return sweep_table(data).metric


def _dataset(
    plan: SweepSpec, runs: Mapping[Coordinates, SimulationRun], results: Mapping[Coordinates, Arrays]
) -> xarray.Dataset:
    along = next(iter(runs.values())).along
    dims = {"regret": (along,), "br_regret": ("level", along), "total_reward": (along,)}
    names = [name for name in dims if all(name in arrays for arrays in results.values())]
    values, coords = stacked(DIMS, runs, results, names)
    coords["seed"] = np.array(plan.seeds, dtype=np.float64 if max(plan.seeds) >= 2**31 else np.int32)
    variables = {name: ((*DIMS, "replication", *dims[name]), values[name]) for name in names}
    data = labelled(variables, coords, QUANTITIES)
    data.attrs = _attributes(plan)
    return data


def _attributes(plan: SweepSpec) -> dict[str, str]:
    """Return the spec, the full settings of agents, the content of environments, and where the numbers come from."""
    agents = {}
    for member in plan.agents:
        made = member.make()
        agents[member.label] = described(Custom(made, member.label) if callable(made) else made)
    environments = {member.label: Content(member.make(), known=KNOWN).hexdigest() for member in plan.environments}
    return {
        "title": plan.title or "A sweep over agents and environments",
        "spec": json.dumps(asdict(plan), sort_keys=True),
        "agents": json.dumps(agents),
        "environments": json.dumps(environments),
        **provenance(),
    }


def _large(
    file: Path, plan: SweepSpec, runs: Mapping[Coordinates, SimulationRun], arrays_of: Callable[[Coordinates], Arrays]
) -> xarray.Dataset:
    """Write a dataset that does not fit into memory, run by run; return it without reading it."""
    first = next(iter(runs.values()))
    extra = {"regret": (first.along,), "br_regret": ("level", first.along), "total_reward": (first.along,)}
    known = arrays_of(next(iter(runs)))
    names = {name: (*DIMS, "replication", *extra[name]) for name in extra if name in known}
    axes = {dim: list(dict.fromkeys(where[i] for where in runs)) for i, dim in enumerate(DIMS)}
    coords = {**axes, "replication": np.arange(plan.replications), first.along: first.times}
    coords |= {"level": list(first.alphas)} if "br_regret" in names else {}
    attributes: dict[str, dict[str, Any]] = {"": dict(_attributes(plan))}
    counts = {counted(name): DIMS for name in names}
    for name in (*names, *counts, *coords):
        quantity = COUNTED if name in counts else QUANTITIES[name]
        attributes[name] = {"long_name": quantity.label} | ({"units": quantity.units} if quantity.units else {})

    def fill(put: Callable[[str, Any, Any], None]) -> None:
        for where in runs:
            arrays = arrays_of(where)
            cell = tuple(axes[dim].index(value) for dim, value in zip(DIMS, where, strict=True))
            for name in names:
                if name in arrays:
                    put(name, cell, arrays[name])
                    put(counted(name), cell, replications_of(names[name][len(DIMS) :], arrays[name])[1])

    return write_large(file, coords, names, counts, attributes, fill)


def _summary(
    plan: SweepSpec, runs: Mapping[Coordinates, SimulationRun], arrays_of: Callable[[Coordinates], Arrays]
) -> xarray.Dataset:
    """Return the statistics of all replications of all seeds, from one run at a time."""
    along, times = next(iter(runs.values())).along, next(iter(runs.values())).times
    labels = [agent.label for agent in plan.agents]
    shape = (len(plan.environments), len(labels))
    values: dict[str, Any] = {}
    for i, environment in enumerate(plan.environments):
        ends: dict[str, list[Any]] = {}
        for j, agent in enumerate(labels):
            moments: dict[str, tuple[Moments, Quantiles]] = {}
            last: dict[str, list[Any]] = {}
            for seed in plan.seeds:
                for name, rows in arrays_of((environment.label, agent, seed)).items():
                    mean, sketch = moments.setdefault(name, (Moments(times.size), Quantiles(times.size)))
                    mean.add(rows)
                    sketch.add(rows)
                    last.setdefault(name, []).append(rows[:, -1].copy())
            for name, (mean, sketch) in moments.items():
                values.setdefault(f"{name}_mean", np.full((*shape, times.size), np.nan))[i, j] = mean.mean
                values.setdefault(f"{name}_variance", np.full((*shape, times.size), np.nan))[i, j] = mean.variance
                quantiles = values.setdefault(
                    f"{name}_quantile", np.full((*shape, len(PROBABILITIES), times.size), np.nan)
                )
                quantiles[i, j] = sketch.at(PROBABILITIES)
                ends.setdefault(name, []).append(np.concatenate(last[name]))
        for name, finals in ends.items():
            if len(finals) == len(labels):
                spread = values.setdefault(f"{name}_covariance", np.full((*shape, len(labels)), np.nan))
                spread[i] = np.atleast_2d(np.cov(np.stack(finals)))
    dims = {"mean": (along,), "variance": (along,), "quantile": ("quantile", along), "covariance": ("other_agent",)}
    variables: dict[str, Any] = {
        name: (("environment", "agent", *dims[name.rpartition("_")[2]]), array) for name, array in values.items()
    }
    count = plan.replications * len(plan.seeds)
    variables["replications"] = (("environment", "agent"), np.full(shape, count, np.int32))
    coords = {
        "environment": [environment.label for environment in plan.environments],
        "agent": labels,
        "other_agent": labels,
        "quantile": PROBABILITIES,
        along: times,
    }
    quantities_of = {name: QUANTITIES.get(name, Quantity(name.replace("_", " "))) for name in (*variables, *coords)}
    data = labelled(variables, coords, quantities_of)
    data.attrs = _attributes(plan)
    return data
