"""Frozen Lake as in :mod:`prudent.envs.frozen_lake`, in episodes of ten steps. What its studies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ..run import Arrays, Run, grid, stacked
from ..study import Figure, Quantity, Table, curve, curves

if TYPE_CHECKING:
    import xarray

__all__ = [
    "AGENTS",
    "COORDS",
    "ESCAPES",
    "P_H",
    "REGRET",
    "LakeRun",
    "by_p_h",
    "figure_by_p_h",
    "lakes",
    "regret",
    "table_by_p_h",
]

AGENTS = {"TS-RL": 0.0} | {f"BRPS-RL {alpha}": alpha for alpha in (0.5, 0.8, 0.9, 0.99)}
ESCAPES = (0.1, 0.2, 0.6, 0.8)  # p_h
REGRET = Quantity("cumulative regret", "reward", ("agent", "replication", "episode"))
P_H = Quantity("chance to leave a hole")
COORDS = {
    "agent": Quantity("algorithm"),
    "replication": Quantity("replication"),
    "episode": Quantity("episode", "10 steps"),
}


@dataclass(frozen=True)
class LakeRun(Run):
    """An agent on Frozen Lake: BRPS-RL at level ``alpha`` (0: Thompson sampling), or optimistic value iteration.

    Regret is recorded after the episodes of a grid, BR-regret at ``br_levels`` in these episodes.
    """

    kind: ClassVar[str] = "lake"
    p_h: float
    alpha: float
    episodes: int
    points: int
    geometric: bool = False
    br_levels: tuple[float, ...] = ()
    optimistic: bool = False
    sweeps: int | None = None

    @property
    def grid(self) -> IntArray:
        """The recorded episodes [T], counted from 1."""
        return grid(self.episodes, self.points, self.geometric)

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 4e-5 * self.episodes + 0.02 * len(self.br_levels) * min(self.points, self.episodes)

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, T, L]."""
        from ...agents.optimistic_vi import optimistic_vi
        from ...agents.posterior_sampling import brps_rl
        from ...envs.frozen_lake import frozen_lake
        from ...simulation.tabular import simulate

        places = self.grid - 1
        runs = simulate(
            frozen_lake(self.p_h),
            optimistic_vi(self.alpha) if self.optimistic else brps_rl(self.alpha, sweeps=self.sweeps),
            episodes=self.episodes,
            replications=count,
            seed=seed,
            br_episodes=places if self.br_levels else (),
            levels=self.br_levels or None,
            first_replication=first,
            threads=1,
        )
        found = {"regret": np.ascontiguousarray(runs.regret.values[0][:, places])}
        if self.br_levels:
            found["br_regret"] = runs.br_regret.values[0]
        return found


# -- regret of all agents, for each p_h --------------------------------------------------------------------


def lakes(replications: int, episodes: int, points: int) -> tuple[LakeRun, ...]:
    """Return the runs of all agents on all lakes."""
    return tuple(LakeRun(replications, p_h, alpha, episodes, points) for p_h in ESCAPES for alpha in AGENTS.values())


def by_p_h(runs: tuple[LakeRun, ...], results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return regret as an array over p_h and agents, and its coordinates."""
    found = stacked(results, "regret")
    return (
        {"regret": found.reshape(len(ESCAPES), len(AGENTS), *found.shape[1:])},
        {
            "p_h": list(ESCAPES),
            "agent": list(AGENTS),
            "replication": np.arange(runs[0].replications),
            "episode": runs[0].grid,
        },
    )


def figure_by_p_h(name: str, title: str, says: str) -> Figure:
    """Return the figure with one panel for each p_h."""
    return curves(name, title, says, [curve("regret", f"p_h = {p:g}", p_h=p) for p in ESCAPES])


def table_by_p_h() -> Table:
    """Return the table with one column for each p_h."""
    return Table("agents", "Regret", {"variable": "regret", "across": "p_h", "head": "p_h ="})


def regret(data: xarray.Dataset, p_h: float, agent: str, episode: int | None = None) -> FloatArray:
    """Return the regret [R] of an agent up to an episode (default: the last)."""
    chosen = data.regret.sel(p_h=p_h, agent=agent)
    return (chosen.isel(episode=-1) if episode is None else chosen.sel(episode=episode, method="nearest")).values
