"""Frozen Lake as in :mod:`prudent.envs.frozen_lake`, in episodes of ten steps. What its studies share.

The paper leaves open what an agent takes to be the same: one chance to leave any hole, as it is written, or one for
each hole; one slip, or one for each action, or nothing shared at all. Every claim is judged under all these readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ..run import Arrays, Run, grid
from ..study import Figure, Quantity, Table, curve, curves

if TYPE_CHECKING:
    import xarray

__all__ = [
    "AGENTS",
    "AS_WRITTEN",
    "BY_HOLE",
    "BY_READING",
    "COORDS",
    "ESCAPES",
    "P_H",
    "READING",
    "REGRET",
    "WORDS",
    "LakeRun",
    "by_reading",
    "figure_by_p_h",
    "lakes",
    "regret",
    "tables_by_p_h",
]

AGENTS = {"TS-RL": 0.0} | {f"BRPS-RL {alpha}": alpha for alpha in (0.5, 0.8, 0.9, 0.99)}
ESCAPES = (0.1, 0.2, 0.6, 0.8)  # p_h
AS_WRITTEN, BY_HOLE = "shared", "by hole"
WORDS = {  # readings, by the name of their sources, and what ends the sentence "reproduced when ..."
    AS_WRITTEN: "",
    BY_HOLE: "each hole has its own unknown p_h",
    "by action": "each action has its own unknown slip",
    "by pair": "every state and action has its own unknown chances",
}
TITLES = {AS_WRITTEN: "one chance for all holes, as written", BY_HOLE: "each hole its own chance"}
FULL = (AS_WRITTEN, BY_HOLE)  # readings with all replications; the others have fewer
REGRET = Quantity("cumulative regret", "reward", ("agent", "replication", "episode"))
BY_READING = REGRET._replace(dims=("reading", "p_h", *REGRET.dims))
P_H = Quantity("chance to leave a hole")
READING = Quantity("what shares a source")
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
    sources: str = AS_WRITTEN
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
        return (8e-5 if self.sources == "by pair" else 2.5e-5) * self.episodes + 0.02 * len(self.br_levels) * min(
            self.points, self.episodes
        )

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, T, L]."""
        from ...agents.optimistic_vi import optimistic_vi
        from ...agents.sampling_settings import brps_rl
        from ...envs.frozen_lake import frozen_lake
        from ...simulation.tabular import simulate

        places = self.grid - 1
        runs = simulate(
            frozen_lake(self.p_h, sources=self.sources),
            optimistic_vi(self.alpha) if self.optimistic else brps_rl(self.alpha, sweeps=self.sweeps),
            episodes=self.episodes,
            replications=count,
            rng=seed,
            br_episodes=places if self.br_levels else (),
            alphas=self.br_levels or None,
            first_replication=first,
            threads=1,
        )
        found = {"regret": np.ascontiguousarray(runs.regret.values[0][:, places])}
        if self.br_levels:
            found["br_regret"] = runs.br_regret.values[0]
        return found


# -- regret of all agents, for each reading and p_h --------------------------------------------------------


def lakes(
    replications: int, few: int, episodes: int, points: int, escapes: tuple[float, ...] = ESCAPES
) -> tuple[LakeRun, ...]:
    """Return the runs of all agents on all lakes under all readings, of which some have ``few`` replications."""
    return tuple(
        LakeRun(replications if each in FULL else min(few, replications), p_h, alpha, episodes, points, each)
        for each in WORDS
        for p_h in escapes
        for alpha in AGENTS.values()
    )


def by_reading(runs: tuple[LakeRun, ...], results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return regret as an array over readings, p_h and agents, NaN where there is none, and its coordinates."""
    count, escapes = runs[0].replications, list(dict.fromkeys(run.p_h for run in runs))
    found = np.full((len(runs), count, runs[0].grid.size), np.nan)
    for i, arrays in enumerate(results):
        found[i, : runs[i].replications] = arrays["regret"]
    return (
        {"regret": found.reshape(len(WORDS), len(escapes), len(AGENTS), *found.shape[1:])},
        {
            "reading": list(WORDS),
            "p_h": escapes,
            "agent": list(AGENTS),
            "replication": np.arange(count),
            "episode": runs[0].grid,
        },
    )


def figure_by_p_h(name: str, title: str, says: str, escapes: tuple[float, ...] = ESCAPES) -> Figure:
    """Return the figure with two panels for each p_h: the reading with a chance for each hole, and as written."""
    panels = [
        curve("regret", f"p_h = {p:g}: {TITLES[each]}", p_h=p, reading=each)
        for p in escapes
        for each in (BY_HOLE, AS_WRITTEN)
    ]
    return curves(name, title, says, panels, share_rows=True)


def tables_by_p_h() -> tuple[Table, ...]:
    """Return the tables with one column for each p_h, one table for each reading."""

    def table(reading: str, fold: str = "") -> Table:
        options = {"variable": "regret", "across": "p_h", "head": "p_h =", "where": {"reading": reading}}
        return Table("agents", f"Regret, {TITLES.get(reading, WORDS[reading])},", options, fold)

    others = (table(each, f"When {WORDS[each]}") for each in WORDS if each not in FULL)
    return (table(BY_HOLE), table(AS_WRITTEN), *others)


def regret(data: xarray.Dataset, p_h: float, agent: str, episode: int | None = None) -> FloatArray:
    """Return the regret [R] of an agent up to an episode (default: the last)."""
    chosen = data.regret.sel(p_h=p_h, agent=agent)
    return (chosen.isel(episode=-1) if episode is None else chosen.sel(episode=episode, method="nearest")).values
