"""Beyond the paper: levels that change with the episode and with what was observed, on Frozen Lake and RiverSwim.

Caution pays on the lakes, where holes hold whoever falls into them, and costs on RiverSwim, where the reward is behind
steps that look bad at first. The claims here are ours, about ``prudent.schedules``; the paper keeps its level.

How fast regret grows is measured over the last decade of a long run: the exponent x for which mean regret grows like
T^x between a tenth of the run and its end, with an interval over replications by the delta method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...schedules import Decay, Falling, Schedule
from ...types import FloatArray
from ..claims import BEYOND, Data, Finding, Interval, Samples, Statement, Verdict, below, claim, ratio_interval, within
from ..runs.base import Arrays
from ..runs.simulation import Component, SimulationRun
from ..scale import Scale
from ..study import Coordinates, Parts, Quantity, Study, Table, curve, curves, stacked
from ._lake import COORDS, REGRET, brps, lake

POINTS, LATE_POINTS = 100, 41  # episodes that are recorded, of the many runs and of the long ones
LONG = 10_000  # episodes: what a long run is to us
SLOW = 0.6  # exponent of the growth of regret
RARE = 4  # times as many long runs of the fixed level: where sources are shared, few of them stay stuck
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
        for agent, count in {TS: few, FIXED: RARE * few, **dict.fromkeys(SCHEDULES, few)}.items()
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


def _beats(agents: Sequence[str], data: Data, readings: int) -> Samples:
    """Return by how much agents beat Thompson sampling on the lakes."""
    after = f"after {int(data.episode.values[-1]):,} episodes"
    return {
        f"{name}, {after}: {TS} minus {agent}": _last(data, name, TS) - _last(data, name, agent)
        for agent in agents
        for name in LAKES
    }


def _growth(data: Data, problem: str, agent: str, comparisons: int) -> Interval:
    """Return the exponent of the growth of mean regret over the last decade of the long run."""
    last = int(data.late.values[-1])
    early = max(1, last // 10)
    regret = data.long_regret.sel(problem=problem, agent=agent).dropna("replication", how="all")
    after, before = (regret.sel(late=episode).values for episode in (last, early))
    quantity = f"{problem}, {agent}, episodes {early:,} to {last:,}: exponent"
    ratio = ratio_interval(quantity, after, before, comparisons)
    decades = math.log10(last / early) or math.nan

    def exponent(times: float | None) -> float:
        """Return it to six decimals: what an optimal policy loses by rounding is no growth."""
        return math.nan if times is None or math.isnan(times) else round(math.log10(max(times, 1.0)) / decades, 6)

    # cumulative regret never falls: it grows at least by a factor of one
    return Interval(quantity, exponent(ratio.estimate), exponent(ratio.low), exponent(ratio.high))


DELTA = "delta-method intervals of ratios of means, 99% for all of them together (Bonferroni)"


@claim(
    "beyond-visits-swims",
    f"On RiverSwim the schedule by visits has at most {TIMES:g} times the regret of Thompson sampling",
    BEYOND,
    test=DELTA,
)
def _visits_swims(data: Data, readings: int) -> Finding:
    quantity = f"regret of {VISITS}, as a multiple of {TS}"
    ends = {river: (_last(data, river, VISITS), _last(data, river, TS)) for river in RIVERS}
    return below([ratio_interval(f"{river}: {quantity}", *pair, len(RIVERS)) for river, pair in ends.items()], TIMES)


def _grows(river: str, data: Data) -> Finding:
    return within([_growth(data, river, FIXED, 1)], SLOW)


def _learning_test(data: Data) -> str:
    runs = int(data.long_regret.sel(agent=list(SCHEDULES)).notnull().any(("problem", "agent", "late")).sum())
    return f"{DELTA}; {runs} replications miss what happens in one run of twenty with probability {0.95**runs:.2f}"


@claim(
    "beyond-schedules-learn",
    f"Every schedule learns: its regret grows slower than T^{SLOW:g} over the last decade of {LONG:,} episodes",
    BEYOND,
    test=_learning_test,
)
def _learns(data: Data, readings: int) -> Finding:
    growths = [_growth(data, name, agent, len(PROBLEMS) * len(SCHEDULES)) for name in PROBLEMS for agent in SCHEDULES]
    slow = below(growths, SLOW)
    return slow if int(data.late.values[-1]) >= LONG else slow._replace(verdict=Verdict.INCONCLUSIVE)


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
        f"A level of 0.9 that never changes gets stuck on RiverSwim: its regret grows faster than T^{SLOW:g}",
        BEYOND,
        lambda data, readings: _grows(BY_PAIR, data),
        DELTA,
        lambda data: {"steps of one kind share a source": _grows(SHARED, data)},
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
