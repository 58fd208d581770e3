"""Beyond the paper: levels that change with the episode and with what was observed, on Frozen Lake and RiverSwim.

Caution pays on the lakes, where holes hold whoever falls into them, and costs on RiverSwim, where the reward is behind
steps that look bad at first. The claims here are ours, about :mod:`prudent.schedules`; the paper keeps its level.

How fast regret grows is measured over the last decade of a long run: the exponent x for which mean regret grows like
T^x between a tenth of the run and its end, with an interval over replications by the delta method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ...schedules import Decay, Falling, Schedule
from ..intervals import (
    BEYOND,
    INCONCLUSIVE,
    Claim,
    Finding,
    Interval,
    claim,
    differences,
    ratio_interval,
    side,
    verdict,
)
from ..run import Arrays, Run, grid
from ..scale import Scale
from ..study import Quantity, Study, Table, curve, curves
from ._lake import COORDS, REGRET

if TYPE_CHECKING:
    import xarray

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


class Place(NamedTuple):
    """A problem: a Frozen Lake with its chance to leave a hole or, without one, RiverSwim; and what shares a source."""

    sources: str
    p_h: float | None = None


PROBLEMS = {
    "lake by action, p_h = 0.1": Place("by action", 0.1),
    "lake by hole, p_h = 0.1": Place("by hole", 0.1),
    "lake by hole, p_h = 0.6": Place("by hole", 0.6),
    "RiverSwim, shared": Place("shared"),
    "RiverSwim, by pair": Place("by pair"),
}
LAKES = tuple(name for name, place in PROBLEMS.items() if place.p_h is not None)
SHARED, BY_PAIR = RIVERS = tuple(name for name in PROBLEMS if name not in LAKES)


@dataclass(frozen=True)
class ScheduleRun(Run):
    """BRPS-RL at a level or a schedule ``alpha`` on Frozen Lake, or on RiverSwim if there is no ``p_h``."""

    kind: ClassVar[str] = "schedule"
    sources: str
    p_h: float | None
    alpha: float | Schedule
    episodes: int
    points: int
    geometric: bool = False

    @property
    def grid(self) -> IntArray:
        """The recorded episodes [T], counted from 1; a tenth of the run is one of them."""
        return np.union1d(grid(self.episodes, self.points, self.geometric), [max(1, self.episodes // 10)])

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return (8e-6 if self.p_h is None else 1.8e-5) * self.episodes

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T]."""
        from ...agents.sampling_settings import brps_rl
        from ...envs.frozen_lake import frozen_lake
        from ...envs.river_swim import river_swim
        from ...simulation.tabular import simulate

        if self.p_h is None:
            problem = river_swim(sources=self.sources)
        else:
            problem = frozen_lake(self.p_h, sources=self.sources)
        runs = simulate(
            problem,
            brps_rl(self.alpha),
            episodes=self.episodes,
            replications=count,
            first_replication=first,
            rng=seed,
            threads=1,
        )
        return {"regret": np.ascontiguousarray(runs.regret.values[0][:, self.grid - 1])}


def _many(scale: Scale) -> dict[tuple[str, str], ScheduleRun]:
    """Return the runs of all agents on all problems."""
    sizes = (scale.schedule_episodes, POINTS)
    return {
        (name, agent): ScheduleRun(scale.schedule_replications, *place, alpha, *sizes)
        for name, place in PROBLEMS.items()
        for agent, alpha in AGENTS.items()
    }


def _long(scale: Scale) -> dict[tuple[str, str], ScheduleRun]:
    """Return the long runs: of the schedules and Thompson sampling, and of the fixed level where it gets stuck."""
    sizes = (scale.schedule_long_episodes, LATE_POINTS)

    def replications(agent: str) -> int:
        return min(scale.few_schedules * (RARE if agent == FIXED else 1), scale.schedule_replications)

    return {
        (name, agent): ScheduleRun(replications(agent), *place, AGENTS[agent], *sizes, geometric=True)
        for name, place in PROBLEMS.items()
        for agent in (TS, *((FIXED,) if name in RIVERS else ()), *SCHEDULES)
    }


def _plan(scale: Scale) -> tuple[ScheduleRun, ...]:
    return (*_many(scale).values(), *_long(scale).values())


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    many, late = _many(scale), _long(scale)
    found = iter(results)
    regret = _placed(many, found, scale.schedule_replications)
    long_regret = _placed(late, found, scale.schedule_replications)
    return (
        {"regret": regret, "long_regret": long_regret},
        {
            "problem": list(PROBLEMS),
            "agent": list(AGENTS),
            "replication": np.arange(scale.schedule_replications),
            "episode": next(iter(many.values())).grid,
            "late": next(iter(late.values())).grid,
        },
    )


def _placed(runs: dict[tuple[str, str], ScheduleRun], results: Any, replications: int) -> FloatArray:
    """Return regret [problem, agent, R, T], NaN where there is none; takes one of the results for each run."""
    names, agents = list(PROBLEMS), list(AGENTS)
    sizes = (len(names), len(agents), replications, next(iter(runs.values())).grid.size)
    regret = np.full(sizes, np.nan)
    for (name, agent), part in runs.items():
        regret[names.index(name), agents.index(agent), : part.replications] = next(results)["regret"]
    return regret


# -- claims ------------------------------------------------------------------------------------------------


def _last(data: xarray.Dataset, problem: str, agent: str) -> FloatArray:
    """Return the regret [R] of the whole run."""
    return data.regret.sel(problem=problem, agent=agent).isel(episode=-1).values


def _gains(data: xarray.Dataset, agents: Sequence[str]) -> list[Interval]:
    """Return by how much agents beat Thompson sampling on the lakes."""
    after = f"after {int(data.episode.values[-1]):,} episodes"
    return differences(
        [
            (f"{lake}, {after}: {TS} minus {agent}", _last(data, lake, TS) - _last(data, lake, agent))
            for agent in agents
            for lake in LAKES
        ]
    )


def _growth(data: xarray.Dataset, problem: str, agent: str, comparisons: int) -> Interval:
    """Return the exponent of the growth of mean regret over the last decade of the long run."""
    last = int(data.late.values[-1])
    early = max(1, last // 10)
    regret = data.long_regret.sel(problem=problem, agent=agent).dropna("replication", how="all")
    after, before = (regret.sel(late=place).values for place in (last, early))
    quantity = f"{problem}, {agent}, episodes {early:,} to {last:,}: exponent"
    ratio = ratio_interval(quantity, after, before, comparisons)
    decades = math.log10(last / early) or math.nan

    def exponent(times: float | None) -> float:
        """Return it to six decimals: what an optimal policy loses by rounding is no growth."""
        return math.nan if times is None or math.isnan(times) else round(math.log10(max(times, 1.0)) / decades, 6)

    # cumulative regret never falls: it grows at least by a factor of one
    return Interval(quantity, exponent(ratio.estimate), exponent(ratio.low), exponent(ratio.high))


def _below(intervals: Sequence[Interval], most: float) -> Finding:
    """Judge that all quantities are below ``most``; what decides is the largest."""
    worst = max(range(len(intervals)), key=lambda i: float(intervals[i].high or 0.0))
    return Finding(intervals, verdict(min(side(each, -math.inf, most) for each in intervals)), worst)


def _claims(data: xarray.Dataset) -> list[Claim]:
    delta = "delta-method intervals of ratios of means, 99% for all of them together (Bonferroni)"
    runs = int(data.long_regret.sel(agent=list(SCHEDULES)).notnull().any(("problem", "agent", "late")).sum())
    few = f"{delta}; {runs} replications miss what happens in one run of twenty with probability {0.95**runs:.2f}"
    growths = [_growth(data, name, agent, len(PROBLEMS) * len(SCHEDULES)) for name in PROBLEMS for agent in SCHEDULES]
    slow = _below(growths, SLOW)
    stuck = {river: _growth(data, river, FIXED, 1) for river in RIVERS}
    within = [
        ratio_interval(
            f"{river}: regret of {VISITS}, as a multiple of {TS}",
            _last(data, river, VISITS),
            _last(data, river, TS),
            len(RIVERS),
        )
        for river in RIVERS
    ]

    def grows(river: str) -> Finding:
        return Finding([stuck[river]], verdict(side(stuck[river], SLOW, math.inf)))

    return [
        claim(
            "beyond-falling-beats-ts",
            "A level that falls with the episode, by halves or as 0.9 / (1 + t / 5), has less regret than Thompson "
            "sampling on all the lakes",
            BEYOND,
            _gains(data, BY_EPISODE),
        ),
        claim(
            "beyond-visits-beats-ts",
            "The schedule by visits, which falls as 0.9 / (1 + t / 5) but is neutral about what was never observed, "
            "has less regret than Thompson sampling on all the lakes",
            BEYOND,
            _gains(data, [VISITS]),
        ),
        claim(
            "beyond-visits-swims",
            f"On RiverSwim the schedule by visits has at most {TIMES:g} times the regret of Thompson sampling",
            BEYOND,
            _below(within, TIMES),
            test=delta,
        ),
        claim(
            "beyond-negative-beats-ts",
            "Optimism at level -0.8 has less regret than Thompson sampling on all the lakes",
            BEYOND,
            _gains(data, [OPTIMIST]),
        ),
        claim(
            "beyond-fixed-stuck",
            f"A level of 0.9 that never changes gets stuck on RiverSwim: its regret grows faster than T^{SLOW:g}",
            BEYOND,
            grows(BY_PAIR),
            {"steps of one kind share a source": grows(SHARED)},
            test=delta,
        ),
        claim(
            "beyond-schedules-learn",
            f"Every schedule learns: its regret grows slower than T^{SLOW:g} over the last decade of {LONG:,} episodes",
            BEYOND,
            slow if int(data.late.values[-1]) >= LONG else slow._replace(verdict=INCONCLUSIVE),
            test=few,
        ),
    ]


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
    claims=_claims,
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
