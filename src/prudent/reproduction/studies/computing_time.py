"""Computing time on Frozen Lake by risk level: the paper's 100 sweeps of value iteration, and our solver.

The sweeps are timed twice. Compiled, all draws of a source are one array, and a hundred of them cost little more than
one. Written plainly, as a loop in Python over the draws, each draw has a price of its own. The paper's times are a
fixed cost and a price for each draw, to a few percent: how many draws the fixed cost is worth tells about the code.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..._support.checks import FloatArray
from ..._support.streams import replication_streams
from ...risk import sample_size
from ..intervals import BEYOND, STUDENT, Claim, Finding, Interval, claim, differences, ratio_interval, side, verdict
from ..run import Arrays, Run, stacked
from ..scale import Scale
from ..study import Figure, Quantity, Study, Table
from ._lake import AGENTS, P_H, LakeRun

if TYPE_CHECKING:
    import xarray

    from ...envs.problem import Problem

METHODS = ("sweeps", "newton", "loop")  # the paper's sweeps, compiled; our solver; the sweeps in plain Python
EPISODES = 400  # times are stated for so many
SWEEPS = 100
STEPS = 10  # of an episode
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


@dataclass(frozen=True)
class TimeRun(Run):
    """The time of an agent on Frozen Lake: processor seconds of each replication, by one of ``METHODS``."""

    kind: ClassVar[str] = "time"
    timed: ClassVar[bool] = True
    p_h: float
    alpha: float
    episodes: int
    method: str

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        plain = 2e-3 + 6e-4 * sample_size(self.alpha)
        return {"sweeps": 4e-4, "newton": 3e-5, "loop": plain}[self.method] * self.episodes

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return seconds [R]."""
        self._play(seed, first, 1)  # compiles
        found = np.empty(count)
        for r in range(count):
            began = time.thread_time()  # of this thread, whatever else the machine does
            self._play(seed, first + r, self.episodes)
            found[r] = time.thread_time() - began
        return {"seconds": found}

    def _play(self, seed: int, replication: int, episodes: int) -> None:
        if self.method == "loop":
            play_plainly(self.p_h, self.alpha, episodes, *replication_streams(seed, replication))
        else:
            sweeps = SWEEPS if self.method == "sweeps" else None
            LakeRun(1, self.p_h, self.alpha, episodes, 1, sweeps=sweeps).compute(seed, replication, 1)


@functools.cache
def plain_lake(p_h: float) -> tuple[Problem, FloatArray, FloatArray]:
    """Return the lake, its transition probabilities [S, A, S] and its optimal values [S]; no part of the times."""
    from ...envs.frozen_lake import frozen_lake
    from ...planning.solve import solve

    problem = frozen_lake(p_h)
    return problem, problem.mdp().dense(), solve(problem.mdp(), tol=1e-12).value


def play_plainly(
    p_h: float, alpha: float, episodes: int, env: np.random.Generator, rng: np.random.Generator
) -> FloatArray:
    """Return the cumulative regret [T] of BRPS-RL on Frozen Lake, with NumPy and no thought of speed."""
    from ...posteriors.dirichlet import DirichletPosterior

    problem, moves, optimal = plain_lake(p_h)
    model, n = problem.model, sample_size(alpha)
    states, discount, reward = np.arange(model.n_states), model.discount, model.mdp(problem.theta).reward
    counts, state, total = model.prior(1.0), problem.start, 0.0
    found = np.empty(episodes)
    for t in range(episodes):
        drawn = [model.mdp(theta).dense() for theta in DirichletPosterior(counts).sample(n, rng)]
        value = np.zeros(states.size)
        for _ in range(SWEEPS):
            # the draw rule makes CVaR the lowest draw
            q = np.min([reward + discount * each @ value for each in drawn], axis=0)
            value = q.max(axis=1)
        policy = q.argmax(axis=1)
        system = np.eye(states.size) - discount * moves[states, policy]
        lost = optimal - np.linalg.solve(system, reward[states, policy])
        for _ in range(STEPS):
            total += lost[state]
            source = model.source[state, policy[state]]
            outcome = env.choice(problem.theta.shape[1], p=problem.theta[source])
            counts[source, outcome] += 1.0
            state = model.next_state[state, policy[state], outcome]
        found[t] = total
    return found


def _episodes(scale: Scale) -> dict[str, int]:
    """Return how many episodes each method plays."""
    return {method: scale.loop_episodes if method == "loop" else scale.timing_episodes for method in METHODS}


def _plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(
        TimeRun(scale.timing_replications, ESCAPE, alpha, episodes, method)
        for method, episodes in _episodes(scale).items()
        for alpha in AGENTS.values()
    )


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    seconds = stacked(results, "seconds").reshape(len(METHODS), len(AGENTS), -1)
    played = np.array(list(_episodes(scale).values()))[:, np.newaxis, np.newaxis]
    return (
        {
            "seconds": seconds * EPISODES / played,
            "paper_seconds": np.array([PAPER_SECONDS[agent] for agent in AGENTS]),
        },
        {
            "method": list(METHODS),
            "agent": list(AGENTS),
            "replication": np.arange(scale.timing_replications),
            "p_h": ESCAPE,
            "episodes": EPISODES,
        },
    )


Times = dict[str, Any]  # of the agents: seconds [R], or one number


def _claims(data: xarray.Dataset) -> list[Claim]:
    agents = data.agent.values.tolist()
    paper: Times = dict(zip(agents, data.paper_seconds.values.tolist(), strict=True))
    ours, newton, plain = (
        dict(zip(agents, data.seconds.sel({"method": method}).values, strict=True)) for method in METHODS
    )
    source = "Frozen Lake study, result 4 and table of computing times"
    delta = "intervals of ratios of means (delta method), 99% for all of them together"
    faster = [
        ratio_interval(f"{agent}: 100 sweeps over our solver", ours[agent], newton[agent], len(agents))
        for agent in agents
    ]

    def timed(name: str, statement: str, find: Any, test: str) -> Claim:
        return claim(name, statement, source, find(ours, paper), {WORDS: find(plain, paper)}, test=test)

    return [
        timed("time-rises-with-level", "The higher the risk level, the more computing time", _rises, STUDENT),
        timed(
            "time-eight-fold",
            "Level 0.99 takes about eight times as long as level 0.9",
            _eight_fold,
            f"{delta}, within a factor {ALIKE:g} of 8",
        ),
        timed(
            "time-table-ratios",
            "Computing times stand to that of Thompson sampling as in the table",
            _table_ratios,
            f"{delta}, within a factor {ALIKE:g} of the table's",
        ),
        claim(
            "beyond-time-our-solver",
            "Our solver takes less time than the paper's 100 sweeps at every level",
            BEYOND,
            Finding(faster, verdict(min(side(each, 1.0, math.inf) for each in faster))),
            test=f"{delta}, above 1",
        ),
    ]


def _rises(times: Times, paper: Times) -> Finding:
    pairs = [
        (f"seconds of {after} minus those of {before}", times[after] - times[before])
        for before, after in itertools.pairwise(times)
    ]
    return Finding(differences(pairs))


def _eight_fold(times: Times, paper: Times) -> Finding:
    printed = paper["BRPS-RL 0.99"] / paper["BRPS-RL 0.9"]
    ratio = ratio_interval(
        f"BRPS-RL 0.99 over BRPS-RL 0.9 (paper: {printed:.2f})", times["BRPS-RL 0.99"], times["BRPS-RL 0.9"], 1
    )
    return Finding([ratio], verdict(side(ratio, 8.0 / ALIKE, 8.0 * ALIKE)))


def _table_ratios(times: Times, paper: Times) -> Finding:
    first, *rest = times
    printed = [paper[agent] / paper[first] for agent in rest]
    ratios = [
        ratio_interval(f"{agent} over {first} (paper: {ratio:.2f})", times[agent], times[first], len(rest))
        for agent, ratio in zip(rest, printed, strict=True)
    ]
    sides = [side(each, ratio / ALIKE, ratio * ALIKE) for each, ratio in zip(ratios, printed, strict=True)]
    fixed = Interval(
        f"fixed cost of an episode, in draws (paper: {fixed_cost(paper):.1f})", round(fixed_cost(times), 3)
    )
    return Finding([*ratios, fixed], verdict(min(sides)), decisive=len(ratios) - 1)


def fixed_cost(times: Times) -> float:
    """Return the fixed cost in units of the price of a draw: ``times`` are fitted by a line in the number of draws.

    >>> round(fixed_cost({agent: 6.0 + 2.0 * sample_size(alpha) for agent, alpha in AGENTS.items()}), 6)
    3.0
    """
    means = np.array([float(np.mean(times[agent])) for agent in times])
    price, fixed = np.polyfit([sample_size(AGENTS[agent]) for agent in times], means, 1, w=1.0 / means)
    return float(fixed / price)


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
        Table("series", f"Seconds for {EPISODES} episodes (the paper’s: for a replication)", {"series": TIMED}),
        Table("multiples", "Ratios to Thompson sampling", {"series": TIMED}),
    ),
)
