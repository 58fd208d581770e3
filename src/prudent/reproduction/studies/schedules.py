"""Beyond the paper: levels that change with the episode and with what was observed, on Frozen Lake and RiverSwim.

Caution pays on the lakes, where holes hold whoever falls into them, and costs on RiverSwim, where the reward is behind
steps that look bad at first. The claims here are ours, about ``prudent.schedules``; the paper keeps its level.

How fast regret grows is measured over the last decade of a long run, from a tenth of it to its end: slower than T^x if
by less than a factor of 10^x. A mean would say nothing of runs that are stuck so rarely that few replications have
none, so a claim that schedules learn is about the share of runs that do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...schedules import Decay, Falling, Schedule
from ...types import BoolArray, FloatArray
from ..claims import BEYOND, Data, Statement, claim, until
from ..distributions import Shares
from ..rules import Ratios, Samples
from ..runs.base import Arrays
from ..runs.simulation import Component, SimulationRun
from ..scale import Scale
from ..study import Coordinates, Parts, Quantity, Study, Table, curve, curves, stacked
from ._lake import COORDS, REGRET, brps, lake

POINTS, LATE_POINTS = 100, 41  # episodes that are recorded, of the many runs and of the long ones
LONG = 10_000  # episodes: what a long run is to us
SLOW = 0.6  # exponent of the growth of regret
SHARE = 0.9  # of runs: so many learn, or are stuck
ROUNDING = 1e-6  # what an optimal policy loses by rounding is no growth
TIMES = 3.0  # what the schedule by visits may lose on RiverSwim, in multiples of Thompson sampling

TS, FIXED, OPTIMIST = "TS-RL", "BRPS-RL 0.9", "BRPS-RL -0.8"
HALVING, FALLING, VISITS = "0.9 halving", "0.9 falling", "0.9 falling, 0 unseen"
AGENTS: dict[str, float | Schedule] = {
    TS: 0.0,
    FIXED: 0.9,
    OPTIMIST: -0.8,
    HALVING: Decay(0.9, half=5),
    FALLING: Falling(0.9, scale=5),
    VISITS: Falling(0.9, scale=5, unseen=0.0),
}
BY_EPISODE = (HALVING, FALLING)
SCHEDULES = (*BY_EPISODE, VISITS)
MOVING = [agent for agent in AGENTS if agent != FIXED]  # those that do not get stuck
THREE: dict[str, Any] = {"columns": 3, "size": [3.1, 2.7]}


def _river(sources: str) -> Component:
    return Component.of("prudent.envs:river_swim", sources=sources)


LAKES = {
    "lake by action, p_h = 0.1": lake(0.1, "by action"),
    "lake by hole, p_h = 0.1": lake(0.1, "by hole"),
    "lake by hole, p_h = 0.6": lake(0.6, "by hole"),
}
RIVERS = {"RiverSwim, shared": _river("shared"), "RiverSwim, by pair": _river("by pair")}
SHARED, BY_PAIR = RIVERS
PROBLEMS = LAKES | RIVERS


def _run(count: int, problem: Component, agent: str, episodes: int, points: int, **options: Any) -> SimulationRun:
    """Return the run of an agent, in which a tenth of the episodes is recorded, too."""
    also = (max(1, episodes // 10),)
    return SimulationRun(count, problem, brps(AGENTS[agent]), episodes, points, also=also, **options)


def _many(scale: Scale) -> dict[Coordinates, SimulationRun]:
    """Return the runs of all agents on all problems."""
    return {
        (name, agent): _run(scale.schedule_replications, problem, agent, scale.schedule_episodes, POINTS)
        for name, problem in PROBLEMS.items()
        for agent in AGENTS
    }


def _long(scale: Scale) -> dict[Coordinates, SimulationRun]:
    """Return the long runs: of the schedules and Thompson sampling, and of the fixed level where it gets stuck."""
    few, most, sizes = scale.few_schedules, scale.schedule_replications, (scale.schedule_long_episodes, LATE_POINTS)
    return {
        (name, agent): _run(min(count, most), problem, agent, *sizes, geometric=True)
        for name, problem in PROBLEMS.items()
        for agent, count in dict.fromkeys((TS, FIXED, *SCHEDULES), few).items()
        if agent != FIXED or name in RIVERS
    }


def _plan(scale: Scale) -> dict[Coordinates, SimulationRun]:
    return _many(scale) | {(*coordinates, "long"): run for coordinates, run in _long(scale).items()}


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    given = {"problem": list(PROBLEMS), "agent": list(AGENTS)}
    dims = tuple(given)
    long = {coordinates: results[(*coordinates, "long")] for coordinates in _long(scale)}
    many, coords = stacked(dims, _many(scale), results, ("regret",), given)
    late, late_coords = stacked(dims, _long(scale), long, ("regret",), given)
    regret = np.full((*many["regret"].shape[:3], late["regret"].shape[-1]), np.nan)
    regret[:, :, : late["regret"].shape[2]] = late["regret"]  # fewer replications than the others
    return {**many, "long_regret": regret}, {**coords, "late": late_coords["episode"]}


# -- claims ------------------------------------------------------------------------------------------------


def _last(data: Data, problem: str, agent: str) -> FloatArray:
    """Return the regret [R] at the end of the run."""
    return data.regret.sel(problem=problem, agent=agent).isel(episode=-1).values


def _beats(agents: Sequence[str], data: Data) -> Samples:
    """Return by how much agents beat Thompson sampling on the lakes."""
    after = f"after {int(data.episode.values[-1]):,} episodes"
    return {
        f"{name}, {after}: {TS} minus {agent}": _last(data, name, TS) - _last(data, name, agent)
        for agent in agents
        for name in LAKES
    }


def _decade(data: Data, problem: str, agent: str) -> tuple[str, FloatArray]:
    """Return the name of the last decade of the long runs, and the regret [R, 2] at its end and at its beginning."""
    last = int(data.late.values[-1])
    early = max(1, last // 10)
    regret = data.long_regret.sel(problem=problem, agent=agent).dropna("replication", how="all")
    name = f"{problem}, {agent}, episodes {early:,} to {last:,}"
    return name, np.stack([regret.sel(late=episode).values for episode in (last, early)], axis=1)


@claim(
    "beyond-visits-swims",
    f"On RiverSwim the schedule by visits has at most {TIMES:g} times the regret of Thompson sampling",
    BEYOND,
    rule=Ratios(((-math.inf, TIMES),) * len(RIVERS)),
)
def _visits_swims(data: Data) -> Samples:
    quantity = f"regret of {VISITS}, as a multiple of {TS}"
    return {
        f"{river}: {quantity}": np.stack([_last(data, river, VISITS), _last(data, river, TS)], axis=1)
        for river in RIVERS
    }


def _slow(data: Data, problem: str, agent: str) -> tuple[str, BoolArray]:
    """Return the name of the last decade, and in which runs [R] regret grows slowly over it."""
    name, regret = _decade(data, problem, agent)
    return name, regret[:, 0] < 10.0**SLOW * regret[:, 1] + ROUNDING


def _stuck(river: str, data: Data) -> Samples:
    name, slow = _slow(data, river, FIXED)
    return {f"{name}: share of runs that are stuck": 1.0 - slow}


@claim(
    "beyond-schedules-learn",
    f"Every schedule learns: in more than {SHARE:.0%} of runs its regret grows slower than T^{SLOW:g} over the last "
    f"decade of {LONG:,} episodes",
    BEYOND,
    rule=Shares(SHARE),
    short=lambda data: until(LONG, int(data.late.values[-1]), "episodes"),
)
def _learns(data: Data) -> Samples:
    shares = {}
    for problem, agent in itertools.product(PROBLEMS, SCHEDULES):
        name, slow = _slow(data, problem, agent)
        shares[f"{name}: share of runs that slow down"] = 1.0 * slow
    return shares


CLAIMS = (
    Statement(
        "beyond-falling-beats-ts",
        "A level that falls with the episode, by halves or as 0.9 / (1 + t / 5), has less regret than Thompson "
        "sampling on all the lakes",
        BEYOND,
        partial(_beats, BY_EPISODE),
    ),
    Statement(
        "beyond-visits-beats-ts",
        "The schedule by visits, which falls as 0.9 / (1 + t / 5) but is neutral about what was never observed, "
        "has less regret than Thompson sampling on all the lakes",
        BEYOND,
        partial(_beats, [VISITS]),
    ),
    _visits_swims,
    Statement(
        "beyond-negative-beats-ts",
        "Optimism at level -0.8 has less regret than Thompson sampling on all the lakes",
        BEYOND,
        partial(_beats, [OPTIMIST]),
    ),
    Statement(
        "beyond-fixed-stuck",
        f"A level of 0.9 that never changes gets stuck on RiverSwim: in more than {SHARE:.0%} of runs its regret grows "
        f"faster than T^{SLOW:g} over the last decade",
        BEYOND,
        partial(_stuck, BY_PAIR),
        Shares(SHARE),
        lambda data: {"steps of one kind share a source": _stuck(SHARED, data)},
    ),
    _learns,
)

OURS = "Nothing: it has no schedules of levels, no levels below zero and no RiverSwim."
ON = REGRET._replace(dims=("problem", *REGRET.dims))

STUDY = Study(
    name="schedules",
    order=95,
    title="Beyond the paper: levels that change",
    setting="Thompson sampling, a fixed level of 0.9, optimism at level -0.8, and three schedules: 0.9 halved every 5 "
    "episodes; 0.9 / (1 + t / 5) in episode t; and the same, but neutral about what was never observed (0 unseen). On "
    "Frozen Lake, where caution pays, and on RiverSwim (6 states, discount 0.95), where it keeps from the reward. "
    "The schedules are ours, picked from a few that were tried on these problems with other seeds, which the intervals "
    "do not count.",
    variables={"regret": ON, "long_regret": ON._replace(dims=(*ON.dims[:-1], "late"))},
    coords={**COORDS, "problem": Quantity("problem"), "late": COORDS["episode"]},
    plan=_plan,
    assemble=_assemble,
    claims=CLAIMS,
    figures=(
        curves(
            "schedules",
            "Levels that change: regret on Frozen Lake and RiverSwim",
            OURS,
            [curve("regret", name, problem=name) for name in LAKES]
            + [curve("regret", f"{name}, without {FIXED}", agents=MOVING, problem=name) for name in RIVERS],
            **THREE,
        ),
        curves(
            "schedules-long",
            "Levels that change: regret in long runs",
            OURS,
            [curve("long_regret", name, log=name in RIVERS, problem=name) for name in PROBLEMS],
            **THREE,
        ),
    ),
    tables=(Table("agents", "Regret", {"variable": "regret", "across": "problem", "head": ""}),),
)
