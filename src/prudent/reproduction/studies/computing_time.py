"""Computing time on Frozen Lake by risk level: the paper's 100 sweeps of value iteration, and our solver.

The sweeps are timed twice. Compiled, all draws of a source are one array, and a hundred of them cost little more than
one. Written plainly, as a loop in Python over the draws, each draw has a price of its own. The paper's times are a
fixed cost and a price for each draw, to a few percent: how many draws the fixed cost is worth tells about the code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...risk import sample_size
from ..claims import BEYOND, Data, Statement, claim
from ..rules import Interval, Ratios, Samples
from ..runs.base import Arrays
from ..runs.timing import METHODS, TimeRun
from ..scale import Scale
from ..study import Coordinates, Figure, Parts, Quantity, Study, Table, quantities
from ._lake import AGENTS, P_H

EPISODES = 400  # times are stated for so many
ESCAPE = 0.1  # p_h
ALIKE = 2.0  # times are alike within this factor
WORDS = "policies are computed in Python, one draw after the other"
PAPER_SECONDS = {
    "TS-RL": 10.45,
    "BRPS-RL 0.5": 13.01,
    "BRPS-RL 0.8": 20.95,
    "BRPS-RL 0.9": 33.88,
    "BRPS-RL 0.99": 253.43,
}


def _episodes(scale: Scale) -> dict[str, int]:
    """Return how many episodes each method plays."""
    return {method: scale.loop_episodes if method == "loop" else scale.timing_episodes for method in METHODS}


def _plan(scale: Scale) -> dict[Coordinates, TimeRun]:
    return {
        (method, agent): TimeRun(scale.timing_replications, ESCAPE, alpha, episodes, method)
        for method, episodes in _episodes(scale).items()
        for agent, alpha in AGENTS.items()
    }


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    seconds = np.stack([arrays["seconds"] for arrays in results.values()]).reshape(len(METHODS), len(AGENTS), -1)
    played = np.array(list(_episodes(scale).values()))[:, np.newaxis, np.newaxis]
    variables = {"seconds": seconds * EPISODES / played, "paper_seconds": np.array(list(PAPER_SECONDS.values()))}
    coords = {"method": list(METHODS), "agent": list(AGENTS), "replication": np.arange(scale.timing_replications)}
    return variables, {**coords, "p_h": ESCAPE, "episodes": EPISODES}


# -- claims ------------------------------------------------------------------------------------------------

Times = dict[str, Any]  # of the agents: seconds [R], or one number


def _times(data: Data, method: str) -> Times:
    return dict(zip(data.agent.values.tolist(), data.seconds.sel({"method": method}).values, strict=True))


def _rises(times: Times) -> Samples:
    return {
        f"seconds of {after} minus those of {before}": times[after] - times[before]
        for before, after in itertools.pairwise(times)
    }


def _over(times: Times, above: str, below: str, printed: float) -> Samples:
    return {f"{above} over {below} (paper: {printed:.2f})": np.stack([times[above], times[below]], axis=1)}


def _eight_fold(times: Times) -> Samples:
    high, higher = "BRPS-RL 0.9", "BRPS-RL 0.99"
    return _over(times, higher, high, PAPER_SECONDS[higher] / PAPER_SECONDS[high])


FIRST, *REST = PAPER_SECONDS
PRINTED = {agent: PAPER_SECONDS[agent] / PAPER_SECONDS[FIRST] for agent in REST}


def _table_ratios(times: Times) -> Samples:
    return {name: pair for agent in REST for name, pair in _over(times, agent, FIRST, PRINTED[agent]).items()}


def _fixed(data: Data) -> list[Interval]:
    quantity = f"fixed cost of an episode, in draws, compiled (paper: {fixed_cost(PAPER_SECONDS):.1f})"
    return [Interval(quantity, round(fixed_cost(_times(data, "sweeps")), 3))]


def fixed_cost(times: Times) -> float:
    """Return the fixed cost in units of the price of a draw: ``times`` are fitted by a line in the number of draws.

    >>> round(fixed_cost({agent: 6.0 + 2.0 * sample_size(alpha) for agent, alpha in AGENTS.items()}), 6)
    3.0
    """
    means = np.array([float(np.mean(times[agent])) for agent in times])
    price, fixed = np.polyfit([sample_size(AGENTS[agent]) for agent in times], means, 1, w=1.0 / means)
    return float(fixed / price)


def _timed(name: str, statement: str, find: Callable[[Times], Samples], **options: Any) -> Statement:
    """Return a claim about the compiled sweeps, and under the reading that they are a Python loop over draws."""
    return Statement(
        name,
        statement,
        "Frozen Lake study, result 4 and table of computing times",
        lambda data: find(_times(data, "sweeps")),
        others=lambda data: {WORDS: find(_times(data, "loop"))},
        **options,
    )


@claim(
    "beyond-time-our-solver",
    "Our solver takes less time than the paper's 100 sweeps at every level",
    BEYOND,
    rule=Ratios(((1.0, math.inf),) * len(AGENTS)),
)
def _our_solver(data: Data) -> Samples:
    sweeps, newton = _times(data, "sweeps"), _times(data, "newton")
    return {
        f"{agent}: 100 sweeps over our solver": np.stack([sweeps[agent], newton[agent]], axis=1) for agent in sweeps
    }


CLAIMS = (
    _timed("time-rises-with-level", "The higher the risk level, the more computing time", _rises),
    _timed(
        "time-eight-fold",
        "Level 0.99 takes about eight times as long as level 0.9",
        _eight_fold,
        rule=Ratios.near([8.0], ALIKE),
    ),
    _timed(
        "time-table-ratios",
        "Computing times stand to that of Thompson sampling as in the table",
        _table_ratios,
        rule=Ratios.near(list(PRINTED.values()), ALIKE),
        also=_fixed,
    ),
    _our_solver,
)

TIMED = [
    {"label": "here, 100 sweeps, compiled", "variable": "seconds", "where": {"method": "sweeps"}},
    {"label": "in the paper", "variable": "paper_seconds"},
    {"label": "here, 100 sweeps, a Python loop over draws", "variable": "seconds", "where": {"method": "loop"}},
    {"label": "here, prudent’s solver", "variable": "seconds", "where": {"method": "newton"}},
]

STUDY = Study(
    name="computing-time",
    order=60,
    title="Frozen Lake: computing time",
    setting=f"Time for {EPISODES} episodes on Frozen Lake, on one core. Machines differ, so compare the ratios: they "
    "tell about an implementation. Compiled, all draws of a source are one array; in a Python loop over the draws each "
    "has its own price.",
    variables={
        "seconds": Quantity("computing time of the episodes", "s", ("method", "agent", "replication")),
        "paper_seconds": Quantity("computing time in the paper", "s", ("agent",)),
    },
    coords={
        **quantities("agent", "replication", method="how policies are computed", episodes="episodes of a replication"),
        "p_h": P_H,
    },
    plan=_plan,
    assemble=_assemble,
    claims=CLAIMS,
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
        Table("series", f"Seconds for {EPISODES} episodes (the paper’s: for a replication)", {"series": TIMED}),
        Table("multiples", "Ratios to Thompson sampling", {"series": TIMED}),
    ),
)
