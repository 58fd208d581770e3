"""Online risk-averse RL: the compiled Frozen Lake experiment, and an agent in a Python loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

import prudent as pr
from prudent.agents import PosteriorSamplingAgent, SamplingSettings, brps_rl, ts_rl
from prudent.envs.frozen_lake import frozen_lake
from prudent.simulation.tabular import simulate

from ._timing import Row, median_times

LAKE = frozen_lake(0.1)
EPISODES = 400
STEPS = 2000
RUNS = 100


def lake(settings: SamplingSettings, replications: int, threads: int = 1) -> Callable[[], object]:
    return lambda: simulate(LAKE, settings, episodes=EPISODES, replications=replications, threads=threads)


def against_sweeps() -> list[Row]:
    """The time of sweeps is for a few replications of the same experiment: all 500 take minutes."""
    rows = []
    for settings, swept, required in (
        (brps_rl(0.99), brps_rl(0.99, sweeps=100), 6.0),
        (ts_rl(), ts_rl(sweeps=100), math.nan),
    ):
        ours, other = median_times(lake(settings, 10), lake(swept, 10), repeats=3)
        met = not other / ours < required
        wanted = "for information" if math.isnan(required) else f"ratio at least {required:g}"
        rows.append(Row(f"Frozen Lake, {settings.label}: Newton, 100 sweeps", ours, other, wanted, met, "10 runs"))
    return rows


def against_thompson() -> Row:
    ours, other = median_times(lake(brps_rl(0.99), RUNS), lake(ts_rl(), RUNS), repeats=3)
    name = "Frozen Lake, alpha 0.99 against Thompson sampling"
    note = f"{ours / other:.2f} times Thompson sampling; the paper reports 24"
    why = "most of it is 1,600 gamma variates an episode, where Thompson sampling draws 16"
    return Row(name, ours, other, "ratio at least 1/5", ours <= 5.0 * other, f"{RUNS} runs; {note}", why=why)


def threads() -> Row:
    """Short jobs and many turns: on a machine that is shared, some turns find both cores free."""
    jobs = lake(brps_rl(0.99), 50, threads=2), lake(brps_rl(0.99), 50, threads=1)
    ours, other = median_times(*jobs, repeats=12, clock=time.perf_counter)
    name, note = "Frozen Lake, alpha 0.99: 2 threads, 1 thread", "50 runs; needs two cores that nobody else uses"
    return Row(name, ours, other, "ratio at least 1.7", other >= 1.7 * ours, note)


class Still:
    """An agent that does nothing, so that a step is what `simulate` adds to an agent of one's own."""

    def __init__(self, model: pr.UncertainMDP) -> None:
        self.policy = model.admissible.argmax(axis=1)
        self.actions: list[int] = self.policy.tolist()

    def reset(self, rng: np.random.Generator) -> None:
        """Nothing is learned."""

    def act(self, state: int) -> int:
        return self.actions[state]

    def observe(self, *transition: object) -> None:
        """Nothing is learned."""


def own_agent() -> list[Row]:
    (took,) = median_times(lambda: simulate(LAKE, Still, episodes=EPISODES, replications=5))
    name, note = "an agent of one's own in simulate, a step", "with exact regret; an agent that does nothing"
    step = took / (5 * EPISODES * 10)
    return [Row(name, step, 30e-6, "below 0.03 ms", step < 30e-6, note, fixed=True)]


def in_a_loop() -> list[Row]:
    agent = PosteriorSamplingAgent(LAKE.model, alpha=0.99, episode_length=None, rng=1)

    def steps() -> None:
        for _ in range(STEPS):
            action = agent.act(0)
            agent.observe(0, action, int(LAKE.model.next_state[0, action, 0]), 0)

    settled = PosteriorSamplingAgent(LAKE.model, alpha=0.99, prior=LAKE.model.prior() * 20.0, rng=1)
    rng = np.random.default_rng(0)
    direct = pr.UncertainMDP.direct(rng.random((200, 5)), discount=0.95)
    counts = 1.0 + rng.poisson(0.5, size=(1000, 200))
    large = PosteriorSamplingAgent(direct, alpha=0.9, prior=counts, rng=1)
    (step,) = median_times(steps)
    (small,) = median_times(lambda: [settled.refresh() for _ in range(100)])
    (big,) = median_times(large.refresh)
    limits = (
        ("act + observe inside an episode", step / STEPS, 10e-6),
        ("policy refresh, Frozen Lake, alpha 0.99", small / 100, 1e-3),
        ("policy refresh, direct model 200 x 5, alpha 0.9", big, 100e-3),
    )
    return [
        Row(name, took, limit, f"below {1e3 * limit:g} ms", took < limit, fixed=True) for name, took, limit in limits
    ]


PIECES = {
    "in_a_loop": in_a_loop,
    "own_agent": own_agent,
    "sweeps": against_sweeps,
    "thompson": lambda: [against_thompson()],
    "threads": lambda: [threads()],
}
