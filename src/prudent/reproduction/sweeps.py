"""Sweeps: every agent on every environment with every seed, kept in chunks, as one dataset and one table.

``prudent.reproduction.sweep_spec`` says what a file of a sweep looks like. Chunks are those of
``prudent.reproduction.runner``: a sweep that was killed continues where it was, more replications keep the old ones,
and a cluster gives the same bytes as one machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.output import write
from .._support.versions import versions
from ..types import PathLike
from .claims import mean_interval
from .runner import Progress, computed
from .runs.base import Arrays
from .runs.simulation import SimulationRun
from .study import Coordinates, Quantity, labelled, quantities, stacked
from .sweep_spec import SweepSpec, read_spec

if TYPE_CHECKING:
    import pandas
    import xarray

DIMS = ("environment", "agent", "seed")
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
        Folder for ``sweep.nc`` and ``sweep.csv``, the table of ``compared``.
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
        environments know them, and ``br_regret`` with a dimension ``level`` if the spec has levels.

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
        data = _dataset(plan, runs, {where: result_of(run)[0] for where, run in runs.items()})
        write(folder / "sweep.nc", bytes(data.to_netcdf(engine="scipy")))
        write(folder / "sweep.csv", compared(data).to_csv(index=False).encode())
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
        One row for each environment and agent. ``mean``, ``low`` and ``high``: regret at the end (total reward where
        no regret is known), over all replications of all seeds, with Student's interval for this mean alone.
        ``difference``, ``difference_low`` and ``difference_high``: the same minus that of the baseline in the same
        replications, with intervals that hold for all differences together (Bonferroni). ``runs``: number of
        replications.

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
    import pandas

    spec = json.loads(data.attrs["spec"])
    confidence, baseline = spec["confidence"], spec["baseline"]
    metric = metric_of(data)
    ends = data[metric].isel({data[metric].dims[-1]: -1})
    comparisons = max(1, ends.sizes["environment"] * (ends.sizes["agent"] - 1))
    rows = []
    for environment in ends.environment.values:
        there = ends.sel(environment=environment)
        reference = there.sel(agent=baseline).values.ravel()
        for agent in map(str, there.agent.values):
            values = there.sel(agent=agent).values.ravel()
            mean = mean_interval(metric, values, 1, confidence)
            difference = mean_interval(metric, values - reference, comparisons, confidence)
            lead = (np.nan, np.nan, np.nan) if agent == baseline else astuple(difference)[1:]
            rows.append((str(environment), agent, *astuple(mean), *lead, values.size))
    columns = ["environment", "agent", "metric", "mean", "low", "high"]
    columns += ["difference", "difference_low", "difference_high", "runs"]
    return pandas.DataFrame(rows, columns=columns)


def metric_of(data: xarray.Dataset) -> str:
    """Return what the agents of a sweep are compared by: regret, or total reward if not all of them have a regret."""
    known = "regret" in data and not data.regret.isnull().all(("seed", "replication", data.regret.dims[-1])).any()
    return "regret" if known else "total_reward"


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
    data.attrs = {
        "title": plan.title or "A sweep over agents and environments",
        "spec": json.dumps(asdict(plan), sort_keys=True),
        "versions": json.dumps(versions(), sort_keys=True),
    }
    return data
