"""What common random numbers gain, and what limits them: ``python -m benchmarks.pairing``.

Thompson sampling against level 0.5 on four problems, paired by step and by the k-th use of each source. Two further
columns say what limits the gain. *Shared* is the share of an agent's transitions whose source and use the other agent
has too: these have the same outcome in both runs. *Copies* is the correlation of two Thompson sampling agents in the
same world, paired by source, whose posterior draws differ: what the world alone can pair. The table goes into
``docs/reference/simulation.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import prudent as pr
from prudent.simulation import regret_table
from prudent.types import FloatArray

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "simulation.md"
MARK = re.compile(r"(<!-- pairing -->\n).*?(\n<!-- end -->)", flags=re.DOTALL)
EPISODES, REPLICATIONS, COPIES = 100, 600, 300
WIND = (0, 0, 0, 1, 1, 1, 2, 2, 1, 0)  # of the columns of the grid


def windy_grid() -> Any:
    """Return the windy grid of Sutton and Barto (Example 6.5), with an unknown gust for each column.

    The wind of a column blows one cell less, as much, or one cell more, each with a chance of a third; the goal sends
    back to the start.
    """
    rows, columns, start, goal = 7, len(WIND), (3, 0), (3, 7)
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    source = np.zeros((rows * columns, 4), dtype=np.int64)
    next_state = np.zeros((rows * columns, 4, 3), dtype=np.int64)
    reward = np.zeros((rows * columns, 4, 3))
    for i, j in np.ndindex(rows, columns):
        for a, (down, right) in enumerate(moves):
            source[i * columns + j, a] = j
            for k in range(3):
                up = WIND[j] + k - 1 if WIND[j] else 0
                to = min(max(i + down - up, 0), rows - 1), min(max(j + right, 0), columns - 1)
                to = start if (i, j) == goal else to
                next_state[i * columns + j, a, k] = to[0] * columns + to[1]
                reward[i * columns + j, a, k] = float((i, j) == goal)
    model = pr.UncertainMDP(source, next_state, reward, 0.9)
    theta = np.full((columns, 3), 1 / 3)
    return pr.envs.Problem(model, theta, start=start[0] * columns + start[1])


PROBLEMS: dict[str, Callable[[], Any]] = {
    "Frozen Lake, three sources": lambda: pr.envs.frozen_lake(0.2),
    "Frozen Lake, one source for each pair": lambda: pr.envs.frozen_lake(0.2, sources="by pair"),
    "River swim, six states": lambda: pr.envs.river_swim(6),
    "Windy grid, one source for each column": windy_grid,
}


def copies(problem: Any, pairing: str) -> float:
    """Return the correlation of the final regrets of two Thompson sampling agents whose posterior draws differ."""

    class Copy(pr.PosteriorSamplingAgent):
        """Draws from a stream of its own."""

        def reset(self, rng: Any) -> None:
            super().reset(rng.spawn(1)[0])

    agents = {
        "one": lambda model: pr.PosteriorSamplingAgent(model, 0.0, indices=True),
        "two": lambda model: Copy(model, 0.0, indices=True),
    }
    runs = pr.simulate(problem, agents, episodes=EPISODES, replications=COPIES, pairing=pairing, rng=1)
    return float(np.corrcoef(runs.regret.values[:, :, -1])[0, 1])


def shared(problem: Any, states: FloatArray, policies: FloatArray) -> float:
    """Return the share of transitions whose source and use the other agent has too, of states [2, R, T, L]."""
    episode = np.arange(states.shape[2])[:, None]
    matched = 0
    for r in range(states.shape[1]):
        uses = []
        for i in range(2):
            actions = policies[i, r][episode, states[i, r]]
            sources = problem.model.source[states[i, r], actions]
            uses.append(np.bincount(sources.ravel(), minlength=problem.model.source.max() + 1))
        matched += np.minimum(*uses).sum()
    return float(matched / states[0].size)


def measured(name: str) -> tuple[str, str]:
    """Return a row of the table about a problem, and its correlations by the number of episodes."""
    problem = PROBLEMS[name]()
    agents = [pr.agents.ts_rl(), pr.brps_rl(0.5)]
    found, along = [], []
    for pairing in ("step", "source"):
        options: dict[str, Any] = {"record": ["states", "policies"], "pairing": pairing, "rng": 1}
        runs = pr.simulate(problem, agents, episodes=EPISODES, replications=REPLICATIONS, **options)
        frame = regret_table(runs).frame
        found.append((frame.correlation[1], frame.gain[1]))
        steps = np.diff(runs.regret.values, axis=2, prepend=0.0)
        parts = [steps[:, :, first:last].sum(axis=2) for first, last in ((0, 5), (5, 20), (20, 100))]
        along.append([float(np.corrcoef(part)[0, 1]) for part in parts])
    share = shared(problem, runs.states.values, runs.policies.values)
    (step, gain), (source, more) = found
    ceiling = copies(problem, "source")
    row = f"| {name} | {step:.2f} | {source:.2f} | {gain:.1f} | {more:.1f} | {share:.0%} | {ceiling:.2f} |"
    early = ", ".join(f"by {each} {np.round(part, 2)}" for each, part in zip(("step", "source"), along, strict=True))
    late = f"{name}: correlation of the regret in episodes 1-5, 6-20, 21-100: {early}"
    return row, late


def main() -> int:
    """Measure all problems and put the table into the page."""
    lines = [
        "| problem | correlation by step | by source | gain by step | by source | shared transitions | copies |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in PROBLEMS:
        row, late = measured(name)
        print(row, late, sep="\n", flush=True)
        lines.append(row)
    PAGE.write_text(MARK.sub(lambda mark: mark[1] + "\n".join(lines) + mark[2], PAGE.read_text()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
