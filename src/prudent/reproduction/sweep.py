"""Sweeps: every agent on every environment with every seed, kept in chunks, as one dataset and one table.

:mod:`prudent.reproduction.sweep_spec` says what a file of a sweep looks like. Chunks are those of
:mod:`prudent.reproduction.runner`: a sweep that was killed goes on where it was, more replications keep the old ones,
and a cluster gives the same bytes as one machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import FloatArray, IntArray, whole_number
from .._support.versions import versions
from ..envs.linear_bandit import LinearBanditEnv
from .intervals import mean_interval
from .run import Arrays, Run, grid, key
from .runner import Progress, Silent, compute, joined
from .store import Store, write
from .sweep_spec import Member, SweepSpec, made, read_spec

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["SweepRun", "compared", "sweep"]

LABELS = {
    "regret": ("cumulative regret", "reward"),
    "br_regret": ("cumulative BR-regret", "reward"),
    "total_reward": ("total reward", "reward"),
    "environment": ("environment", ""),
    "agent": ("algorithm", ""),
    "seed": ("seed", ""),
    "replication": ("replication", ""),
    "level": ("risk level of the metric", ""),
    "episode": ("episode", ""),
    "time": ("step", ""),
}


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | SweepSpec,
    out: str | Path = "sweep",
    workers: int | None = None,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
    cluster: Any = None,
) -> xarray.Dataset:
    """Run the sweep of a TOML file (or a mapping with the same keys), write it to ``out`` and return its dataset.

    ``out`` gets ``sweep.nc`` and ``sweep.csv``, the table of :func:`compared`. The dataset has ``total_reward`` and
    ``regret`` (environment, agent, seed, replication, episode or time), as far as the environments know them, and
    ``br_regret`` with an axis ``level`` if the spec has levels. ``workers``, ``chunk``, ``progress`` and ``cluster``
    are those of :func:`prudent.reproduction.run`.

    >>> import tempfile
    >>> small = {"replications": 3, "episodes": 10, "points": 2, "environment": [{"kind": "frozen_lake"}],
    ...          "agent": [{"kind": "brps_rl", "alpha": [0.0, 0.9]}]}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     data = sweep(small, out)
    >>> dict(data.regret.sizes)
    {'environment': 1, 'agent': 2, 'seed': 1, 'replication': 3, 'episode': 2}
    """
    plan = spec if isinstance(spec, SweepSpec) else read_spec(spec)
    workers = default_threads() if workers is None else whole_number(workers, "workers")
    chunk = None if chunk is None else whole_number(chunk, "chunk")
    progress = Silent() if progress is None else progress
    folder = Path(out)
    runs: list[Run] = [
        SweepRun(plan.replications, world, agent, seed, plan.steps, plan.episode_length, plan.points, plan.levels)
        for world in plan.environments
        for agent in plan.agents
        for seed in plan.seeds
    ]
    with Store(folder, progress.say) as store:
        names = {each: key(each, 0, "sweep") for each in runs}
        compute(store, runs, names, 0, chunk, workers, cluster, progress)
        data = _dataset(plan, [joined(store.get(names[each], each)[0], each) for each in runs])
        write(folder / "sweep.nc", bytes(data.to_netcdf(engine="scipy")))
        write(folder / "sweep.csv", compared(data).to_csv(index=False).encode())
    return data


def compared(data: xarray.Dataset) -> pandas.DataFrame:
    """Return the table of a sweep: how each agent ended in each environment, and how far it is from the baseline.

    mean, low, high : of the regret at the end (the total reward where no regret is known), over all replications of
        all seeds, with Student's interval for this mean alone.
    difference, difference_low, difference_high : less the baseline in the same replications (the same randomness),
        with intervals that hold for all differences of the table together (Bonferroni).
    runs : how many replications that is.

    >>> import tempfile
    >>> small = {"replications": 4, "episodes": 10, "environment": [{"kind": "frozen_lake"}],
    ...          "agent": [{"kind": "ts_rl"}, {"kind": "brps_rl", "alpha": 0.9}]}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     table = compared(sweep(small, out))
    >>> table[["agent", "runs"]].values.tolist()
    [['TS-RL', 4], ['BRPS-RL 0.9', 4]]
    """
    import pandas

    about = json.loads(data.attrs["spec"])
    confidence, baseline = about["confidence"], about["baseline"]
    metric = "regret" if "regret" in data else "total_reward"
    ends = data[metric].isel({data[metric].dims[-1]: -1})
    comparisons = max(1, ends.sizes["environment"] * (ends.sizes["agent"] - 1))
    rows = []
    for world in ends.environment.values:
        here = ends.sel(environment=world)
        own = here.sel(agent=baseline).values.ravel()
        for agent in here.agent.values:
            values = here.sel(agent=agent).values.ravel()
            mean = mean_interval(metric, values, 1, confidence)
            row = {"environment": str(world), "agent": str(agent), "metric": metric, "mean": mean.estimate}
            row |= {"low": mean.low, "high": mean.high}
            if str(agent) != baseline:
                apart = mean_interval(metric, values - own, comparisons, confidence)
                row |= {
                    "difference": apart.estimate,
                    "difference_low": apart.low,
                    "difference_high": apart.high,
                }
            rows.append(row | {"runs": values.size})
    columns = ["environment", "agent", "metric", "mean", "low", "high"]
    columns += ["difference", "difference_low", "difference_high", "runs"]
    return pandas.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class SweepRun(Run):
    """One agent of a sweep on one environment with one seed."""

    kind: ClassVar[str] = "sweep"
    environment: Member
    agent: Member
    seed: int
    steps: int
    episode_length: int  # 0 for bandits
    points: int
    levels: tuple[float, ...]

    def record(self) -> dict[str, Any]:
        """See :class:`Run`; more replications, and other labels, leave the numbers as they are."""
        about = super().record()
        del about["replications"], about["environment"]["label"], about["agent"]["label"]
        return about

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        world = made(self.environment.path, self.environment.options)
        if not self.episode_length:
            step = 6e-8 * world.n_arms if isinstance(world, LinearBanditEnv) else 5e-5
            return step * self.steps
        share = world.model.entries.next_state.size / 200  # of what Frozen Lake has
        return share * (4e-5 * self.steps + 0.02 * len(self.levels) * self.points)

    @property
    def times(self) -> IntArray:
        """The recorded episodes or steps [T], counted from 1."""
        return grid(self.steps, self.points)

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret and total_reward [R, T], and br_regret [R, L, T], as far as they are known."""
        from ..simulation.bandits import simulate_bandit
        from ..simulation.tabular import simulate

        same: dict[str, Any] = {"replications": count, "rng": self.seed, "first_replication": first, "threads": 1}
        world, agent = self.environment.make(), self.agent.make()
        if not self.episode_length:
            runs = simulate_bandit(world, agent, horizon=self.steps, times=self.times, alphas=self.levels, **same)
            return {name: runs[name].values[0] for name in ("regret", "br_regret", "total_reward") if name in runs}
        at = self.times - 1
        if self.levels:
            same |= {"br_episodes": at, "alphas": self.levels}
        runs = simulate(world, agent, episodes=self.steps, episode_length=self.episode_length, **same)
        found = {
            "regret": np.ascontiguousarray(runs.regret.values[0][:, at]),
            "total_reward": np.ascontiguousarray(runs.reward.values[0].cumsum(axis=1)[:, at]),
        }
        if self.levels:
            found["br_regret"] = np.ascontiguousarray(runs.br_regret.values[0].swapaxes(1, 2))
        return found


def _dataset(plan: SweepSpec, results: list[Arrays]) -> xarray.Dataset:
    import xarray

    shape = (len(plan.environments), len(plan.agents), len(plan.seeds))
    along = "time" if plan.bandits else "episode"
    dims = ("environment", "agent", "seed", "replication")
    known = [name for name in ("regret", "br_regret", "total_reward") if all(name in each for each in results)]
    if not plan.levels:
        known = [name for name in known if name != "br_regret"]

    def stacked(name: str) -> FloatArray:
        whole = np.stack([each[name] for each in results])
        return whole.reshape(*shape, *whole.shape[1:])

    variables = {name: ((*dims, *(("level",) if name == "br_regret" else ()), along), stacked(name)) for name in known}
    data = xarray.Dataset(
        variables,
        coords={
            "environment": [each.label for each in plan.environments],
            "agent": [each.label for each in plan.agents],
            "seed": np.array(plan.seeds, dtype=np.float64 if max(plan.seeds) >= 2**31 else np.int32),
            "replication": np.arange(plan.replications, dtype=np.int32),
            along: grid(plan.steps, plan.points).astype(np.int32),
        }
        | ({"level": list(plan.levels)} if plan.levels else {}),
    )
    for name in (*data.variables,):
        label, units = LABELS[str(name)]
        data[name].attrs = {"long_name": label, **({"units": units} if units else {})}
    data.attrs = {
        "title": plan.title or "A sweep over agents and environments",
        "spec": json.dumps(asdict(plan), sort_keys=True),
        "versions": json.dumps(versions(), sort_keys=True),
    }
    return data
