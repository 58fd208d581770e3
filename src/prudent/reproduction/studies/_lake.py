"""Frozen Lake as in ``prudent.envs.frozen_lake``, in episodes of ten steps: what its studies share.

The paper leaves open what an agent takes to be the same: one probability of leaving any hole, as it is written, or one
for each hole; one slip, or one for each action, or nothing shared at all. Every claim is judged under all these
readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...types import FloatArray
from ..claims import Data
from ..rules import Samples
from ..runs.simulation import Component, SimulationRun
from ..study import Coordinates, Figure, Quantity, Table, curve, curves, quantities

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
COORDS = {**quantities("agent", "replication"), "episode": Quantity("episode", "10 steps")}
COORDS_BY_READING = COORDS | {"p_h": P_H, "reading": Quantity("what shares a source")}


def lake(p_h: float, sources: str = AS_WRITTEN) -> Component:
    """Return Frozen Lake with this probability of leaving a hole."""
    return Component.of("prudent.envs:frozen_lake", p_h=p_h, sources=sources)


def brps(alpha: Any) -> Component:
    """Return BRPS-RL at a risk level or schedule; Thompson sampling at level 0."""
    return Component.of("prudent.agents:brps_rl", alpha=alpha)


# -- regret of all agents, for each reading and p_h --------------------------------------------------------


def lakes(
    replications: int, fewer: int, episodes: int, points: int, escapes: tuple[float, ...] = ESCAPES
) -> dict[Coordinates, SimulationRun]:
    """Return the runs of all agents on all lakes under all readings, of which some have ``fewer`` replications."""
    return {
        (reading, p_h, agent): SimulationRun(
            replications if reading in FULL else min(fewer, replications),
            lake(p_h, reading),
            brps(alpha),
            episodes,
            points,
        )
        for reading in WORDS
        for p_h in escapes
        for agent, alpha in AGENTS.items()
    }


def figure_by_p_h(name: str, title: str, says: str, escapes: tuple[float, ...] = ESCAPES) -> Figure:
    """Return the figure with two panels for each p_h: the reading with a chance for each hole, and as written."""
    panels = [
        curve("regret", f"p_h = {p:g}: {TITLES[reading]}", p_h=p, reading=reading)
        for p in escapes
        for reading in (BY_HOLE, AS_WRITTEN)
    ]
    return curves(name, title, says, panels, share_rows=True)


def tables_by_p_h() -> tuple[Table, ...]:
    """Return the tables with one column for each p_h, one table for each reading."""

    def table(reading: str, fold: str = "") -> Table:
        options = {"variable": "regret", "across": "p_h", "head": "p_h =", "where": {"reading": reading}}
        return Table("agents", f"Regret, {TITLES.get(reading, WORDS[reading])},", options, fold)

    others = (table(reading, f"When {WORDS[reading]}") for reading in WORDS if reading not in FULL)
    return (table(BY_HOLE), table(AS_WRITTEN), *others)


def regret(data: Data, p_h: float, agent: str, episode: int | None = None) -> FloatArray:
    """Return the regret [R] of an agent up to an episode (default: the last)."""
    last = data.episode[-1] if episode is None else episode
    return data.regret.sel(p_h=p_h, agent=agent).sel(episode=last, method="nearest").values


def gaps(data: Data, pairs: Iterable[tuple[float, str, str]], episode: int | None = None) -> Samples:
    """Return, for each p_h and pair of agents, how much more regret [R] the first agent has than the second."""
    after = "" if episode is None else f", after {episode} episodes"
    return {
        f"p_h = {p}{after}: {first} minus {second}": regret(data, p, first, episode) - regret(data, p, second, episode)
        for p, first, second in pairs
    }
