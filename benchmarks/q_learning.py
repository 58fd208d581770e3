"""Bayesian-risk Q-learning beside BRPS-RL on Frozen Lake and RiverSwim: regret, in all and of the last tenth.

``python -m benchmarks.q_learning --replications 20 --workers 2 --out FOLDER`` plays 1,000 episodes of ten steps. Every
run is a line of FOLDER/q_learning.jsonl when it ends, and a call that was stopped goes on with what is missing.
Replication i of all agents has the same random numbers of the environment, so that the difference to BRPS-RL is
compared run by run.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

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
Run = dict[str, Any]


def played(world: str, agent: int, replication: int, episodes: int) -> Run:
    """Return the regret of one run, after the tenths of the episodes."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = pr.simulate(
            WORLDS[world](),
            AGENTS[agent],
            episodes=episodes,
            replications=1,
            first_replication=replication,
            rng=1,
            threads=1,
        )
    regret = np.asarray(runs.regret).reshape(episodes)
    tenths = np.linspace(0, episodes, 11).astype(int)[1:] - 1
    return {
        "world": world, "agent": AGENTS[agent].label, "replication": replication, "episodes": episodes,
        "regret": regret[tenths].tolist(), "seconds": time.process_time() - began,
    }  # fmt: skip


def table(runs: list[Run]) -> Iterator[str]:
    """Yield the lines of a Markdown table: means over the runs and their standard errors."""
    yield "| world | agent | runs | regret | less BRPS-RL | of an episode at the end | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for world in WORLDS:
        whole = {}
        for settings in AGENTS:
            own = {run["replication"]: run for run in runs if (run["world"], run["agent"]) == (world, settings.label)}
            if not own:
                continue
            whole[settings.label] = {number: run["regret"][-1] for number, run in own.items()}
            tenth = next(iter(own.values()))["episodes"] / 10.0
            late = [(run["regret"][-1] - run["regret"][-2]) / tenth for run in own.values()]
            base = whole[AGENTS[0].label]
            less = [total - base[number] for number, total in whole[settings.label].items() if number in base]
            seconds = float(np.mean([run["seconds"] for run in own.values()]))
            cells = [said(list(whole[settings.label].values())), "" if settings is AGENTS[0] else said(less)]
            yield f"| {world} | {settings.label} | {len(own)} | {' | '.join(cells)} | {said(late, 3)} | {seconds:.2g} |"


def said(numbers: list[float], digits: int = 1) -> str:
    """Return a mean and its standard error."""
    error = np.std(numbers, ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return f"{np.mean(numbers):.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    """Play what is missing, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.q_learning", description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1_000)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of q_learning.jsonl")
    asked = parser.parse_args()
    file, runs = asked.out / "q_learning.jsonl" if asked.out else None, []
    if file is not None and file.exists():
        runs = [json.loads(line) for line in file.read_text().splitlines()]
    runs = [run for run in runs if run["episodes"] == asked.episodes and run["replication"] < asked.replications]
    done = {(run["world"], run["agent"], run["replication"]) for run in runs}
    jobs = [
        (world, agent, number, asked.episodes)
        for number in range(asked.replications)
        for world in WORLDS
        for agent in range(len(AGENTS))
        if (world, AGENTS[agent].label, number) not in done
    ]
    if file is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.workers) as pool:
        for run in pool.map(played, *zip(*jobs, strict=True)) if jobs else ():
            runs.append(run)
            if file is not None:
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(run) + "\n")
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
