"""Bayesian-risk Q-learning beside BRPS-RL on Frozen Lake and RiverSwim: regret after the last episode.

``python -m benchmarks.q_learning --replications 200``
"""

from __future__ import annotations

import argparse
import time

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


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.q_learning", description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--replications", type=int, default=50)
    asked = parser.parse_args()
    print(f"{'world':>12} {'agent':>34} {'regret':>8} {'standard error':>15} {'seconds':>8}")
    for name, world in (("Frozen Lake", pr.envs.frozen_lake(0.2)), ("RiverSwim", pr.envs.river_swim())):
        for agent in AGENTS:
            began = time.perf_counter()
            runs = pr.simulate(world, agent, episodes=asked.episodes, replications=asked.replications, rng=1)
            last = np.asarray(runs.regret.isel(episode=-1)).ravel()
            error = last.std(ddof=1) / np.sqrt(last.size)
            seconds = time.perf_counter() - began
            print(f"{name:>12} {agent.label:>34} {last.mean():>8.2f} {error:>15.2f} {seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
