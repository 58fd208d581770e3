"""Bayesian-risk Q-learning beside BRPS-RL on Frozen Lake and RiverSwim: regret, in all and of the last tenth.

``python -m benchmarks.q_learning --replications 200 --workers 16``
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import prudent as pr

AGENTS = (
    pr.brps_rl(0.5),
    pr.agents.ts_rl(),
    pr.agents.brql(0.5),
    pr.agents.brql(0.5, draws=20),
    pr.agents.brql(0.5, risk="var"),
    pr.agents.brql(0.5, risk="var", draws=20),
    pr.agents.brql(0.0, label="BR-QL mean"),
    pr.agents.brql(0.5, batch=1, updates=1, pairs="visited", label="BR-QL CVaR 0.5, one pair a step"),
    pr.agents.brql(0.5, risk="var", batch=1, updates=1, pairs="visited", label="BR-QL VaR 0.5, one pair a step"),
    pr.agents.brql(0.5, batch=10, updates=10, pairs="visited"),
)
WORLDS = {"Frozen Lake": lambda: pr.envs.frozen_lake(0.2), "RiverSwim": pr.envs.river_swim}


def played(world: str, agent: int, episodes: int, replications: int) -> str:
    """Return a line of the table."""
    began = time.process_time()
    runs = pr.simulate(WORLDS[world](), AGENTS[agent], episodes=episodes, replications=replications, rng=1)
    regret = np.asarray(runs.regret).reshape(replications, episodes)
    last, tenth = regret[:, -1], max(1, episodes // 10)
    late = (last - regret[:, -1 - tenth]) / tenth
    error, late_error = (found.std(ddof=1) / np.sqrt(replications) for found in (last, late))
    seconds = time.process_time() - began
    return (
        f"{world:>12} {AGENTS[agent].label:>34} {last.mean():>9.2f} {error:>6.2f} {late.mean():>10.3f} "
        f"{late_error:>6.3f} {seconds:>8.1f}"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.q_learning", description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--replications", type=int, default=50)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    print(f"{'world':>12} {'agent':>34} {'regret':>9} {'+-':>6} {'last tenth':>10} {'+-':>6} {'seconds':>8}")
    jobs = [(world, agent, asked.episodes, asked.replications) for world in WORLDS for agent in range(len(AGENTS))]
    with ProcessPoolExecutor(asked.workers) as pool:
        for line in pool.map(played, *zip(*jobs, strict=True)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
