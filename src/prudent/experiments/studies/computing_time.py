"""Computing time on Frozen Lake by risk level: the paper's 100 sweeps of value iteration, and our solver."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..intervals import Claim, claim, differences, ratio_interval, side, verdict
from ..run import Arrays, Run, stacked
from ..scale import Scale
from ..study import Figure, Quantity, Study, Table
from ._lake import AGENTS, P_H, LakeRun

if TYPE_CHECKING:
    import xarray

METHODS = {"sweeps": 100, "newton": None}
ESCAPE = 0.1  # p_h
ALIKE = 2.0  # times are alike within this factor
PAPER_SECONDS = {
    "TS-RL": 10.45,
    "BRPS-RL 0.5": 13.01,
    "BRPS-RL 0.8": 20.95,
    "BRPS-RL 0.9": 33.88,
    "BRPS-RL 0.99": 253.43,
}


@dataclass(frozen=True)
class TimeRun(Run):
    """The time of an agent on Frozen Lake: processor seconds of each replication, by sweeps or by our solver."""

    kind: ClassVar[str] = "time"
    timed: ClassVar[bool] = True
    p_h: float
    alpha: float
    episodes: int
    sweeps: int | None

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return (6e-5 if self.sweeps is None else 8e-4) * self.episodes

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return seconds [R]."""
        LakeRun(1, self.p_h, self.alpha, 1, 1, sweeps=self.sweeps).compute(seed, 0, 1)  # compiles
        run = LakeRun(1, self.p_h, self.alpha, self.episodes, 1, sweeps=self.sweeps)
        found = np.empty(count)
        for r in range(count):
            began = time.thread_time()  # of this thread, whatever else the machine does
            run.compute(seed, first + r, 1)
            found[r] = time.thread_time() - began
        return {"seconds": found}


def _plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(
        TimeRun(scale.timing_replications, ESCAPE, alpha, scale.timing_episodes, sweeps)
        for sweeps in METHODS.values()
        for alpha in AGENTS.values()
    )


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    seconds = stacked(results, "seconds")
    return (
        {
            "seconds": seconds.reshape(len(METHODS), len(AGENTS), -1),
            "paper_seconds": np.array([PAPER_SECONDS[agent] for agent in AGENTS]),
        },
        {
            "method": list(METHODS),
            "agent": list(AGENTS),
            "replication": np.arange(scale.timing_replications),
            "p_h": ESCAPE,
            "episodes": scale.timing_episodes,
        },
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    agents = data.agent.values.tolist()
    paper = dict(zip(agents, data.paper_seconds.values.tolist(), strict=True))
    ours, newton = (
        dict(zip(agents, data.seconds.sel({"method": method}).values, strict=True)) for method in ("sweeps", "newton")
    )
    source = "Frozen Lake study, result 4 and table of computing times"
    rising = [
        (f"seconds of {after} minus those of {before}", ours[after] - ours[before])
        for before, after in itertools.pairwise(agents)
    ]
    printed = {agent: paper[agent] / paper[agents[0]] for agent in agents[1:]}
    ratios = [
        ratio_interval(f"{agent} over {agents[0]} (paper: {ratio:.2f})", ours[agent], ours[agents[0]], 4)
        for agent, ratio in printed.items()
    ]
    sides = [side(each, ratio / ALIKE, ratio * ALIKE) for each, ratio in zip(ratios, printed.values(), strict=True)]
    eight = ratio_interval("BRPS-RL 0.99 over BRPS-RL 0.9 (paper: 7.48)", ours["BRPS-RL 0.99"], ours["BRPS-RL 0.9"], 1)
    faster = [
        ratio_interval(f"{agent}: 100 sweeps over our solver", ours[agent], newton[agent], len(agents))
        for agent in agents
    ]
    delta = "intervals of ratios of means (delta method), 99% for all of them together"
    return [
        claim(
            "time-rises-with-level", "The higher the risk level, the more computing time", source, differences(rising)
        ),
        claim(
            "time-eight-fold",
            "Level 0.99 takes about eight times as long as level 0.9",
            source,
            [eight],
            test=f"{delta}, within a factor {ALIKE:g} of 8",
            verdict=verdict(side(eight, 8.0 / ALIKE, 8.0 * ALIKE)),
        ),
        claim(
            "time-table-ratios",
            "Computing times stand to that of Thompson sampling as in the table",
            source,
            ratios,
            test=f"{delta}, within a factor {ALIKE:g} of the table's",
            verdict=verdict(min(sides)),
        ),
        claim(
            "beyond-time-our-solver",
            "Our solver takes less time than the paper's 100 sweeps at every level",
            "beyond the paper",
            faster,
            test=f"{delta}, above 1",
            verdict=verdict(min(side(each, 1.0, math.inf) for each in faster)),
        ),
    ]


TIMED = [
    {"label": "here, 100 sweeps as in the paper", "variable": "seconds", "where": {"method": "sweeps"}},
    {"label": "in the paper", "variable": "paper_seconds"},
    {"label": "here, prudent’s solver", "variable": "seconds", "where": {"method": "newton"}},
]

STUDY = Study(
    name="computing-time",
    order=60,
    title="Frozen Lake: computing time",
    setting="Time for one replication on Frozen Lake, on one core. Machines differ, so compare the ratios.",
    variables={
        "seconds": Quantity("computing time of a replication", "s", ("method", "agent", "replication")),
        "paper_seconds": Quantity("computing time in the paper", "s", ("agent",)),
    },
    coords={
        "method": Quantity("how policies are computed"),
        "agent": Quantity("algorithm"),
        "replication": Quantity("replication"),
        "p_h": P_H,
        "episodes": Quantity("episodes of a replication"),
    },
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(
        Figure(
            "multiples",
            "computing-time",
            "Computing time, relative to Thompson sampling",
            "The work grows with the number of posterior draws, about 1/(1 − α). Level 0.99 takes "
            "24 times as long as Thompson sampling and almost eight times as long as level 0.9, for little gain in "
            "regret.",
            {"series": TIMED, "label": "time as a multiple of Thompson sampling’s"},
        ),
    ),
    tables=(
        Table("series", "Seconds for one replication", {"series": TIMED}),
        Table("multiples", "Ratios to Thompson sampling", {"series": TIMED}),
    ),
)
