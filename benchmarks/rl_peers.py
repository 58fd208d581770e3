"""Agents of rlberry beside ours on RiverSwim: ``python -m benchmarks.rl_peers``, where rlberry-scool is installed.

RiverSwim has six states. Swimming right against the current is worth it, and looks bad at first. Episodes of 20 steps
begin at the left bank; every agent plays 1,000 of them, and earns what its environment pays. The table has the mean
reward of a step with a standard error over replications, over all episodes and over the last tenth, and the seconds of
a replication. The best policy of a known model, by backward induction, is the last row.

- UCBVI and Q-learning are those of rlberry-scool, as they come and with the setting of a few that did best
- ours are Thompson sampling and a level that falls with visits, in a loop in Python, one source for each pair

rlberry 0.7.3 needs a Gymnasium below 1.0, which this script runs with too. In an environment of its own:
``pip install prudent rlberry-scool adastop``, then ``pip install --no-deps rlberry==0.7.3 gymnasium==0.29.1``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import prudent as pr

HORIZON, EPISODES, REPLICATIONS = 20, 1_000, 5
DISCOUNT = 0.95
RIVER = pr.envs.river_swim(discount=DISCOUNT)
MOVES, REWARD = RIVER.mdp().dense(), RIVER.mdp().reward


class River(gymnasium.Env[Any, Any]):
    """RiverSwim in episodes of 20 steps, which notes the rewards that it pays."""

    reward_range = (0.0, 1.0)

    def __init__(self, seed: int = 0) -> None:
        self.observation_space = gymnasium.spaces.Discrete(MOVES.shape[0])
        self.action_space = gymnasium.spaces.Discrete(MOVES.shape[1])
        self.rng = np.random.default_rng(seed)
        self.paid: list[float] = []
        self.state, self.steps = 0, 0

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        """Begin an episode at the left bank."""
        self.state, self.steps = 0, 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Swim left (0) or right (1)."""
        reward = float(REWARD[self.state, int(action)])
        self.state = int(self.rng.choice(MOVES.shape[0], p=MOVES[self.state, int(action)]))
        self.steps += 1
        self.paid.append(reward)
        return self.state, reward, False, self.steps >= HORIZON, {}


def ours(alpha: Any, seed: int, episodes: int) -> list[float]:
    """Return the rewards of a posterior-sampling agent of ours."""
    env = River(seed)
    agent = pr.PosteriorSamplingAgent(RIVER.model, alpha=alpha, episode_length=HORIZON, rng=seed)
    for _ in range(episodes):
        state, ended = env.reset()[0], False
        while not ended:
            action = agent.act(state)
            after, _, _, ended, _ = env.step(action)
            agent.observe(state, action, after)
            state = after
    return env.paid


def theirs(name: str, seed: int, episodes: int, **options: Any) -> list[float]:
    """Return the rewards of an agent of rlberry-scool."""
    from rlberry.spaces import Discrete
    from rlberry_scool.agents.tabular_rl import QLAgent
    from rlberry_scool.agents.ucbvi import UCBVIAgent

    kind, budget = {"UCBVI": (UCBVIAgent, episodes), "QL": (QLAgent, episodes * HORIZON)}[name]
    env = River(seed)
    env.observation_space, env.action_space = map(Discrete, MOVES.shape[:2])  # spaces of its own
    agent = kind(env, seeder=seed, **options)
    agent.env = env  # rlberry copies it
    agent.fit(budget=budget)
    return env.paid


def best() -> float:
    """Return the best mean reward of a step, by backward induction in the known model."""
    value = np.zeros(MOVES.shape[0])
    for _ in range(HORIZON):
        value = (REWARD + MOVES @ value).max(axis=1)
    return float(value[0] / HORIZON)


def agents() -> dict[str, Callable[[int, int], list[float]]]:
    """Return the agents by name, as functions of a seed and a number of episodes."""
    finite = {"gamma": 1.0, "horizon": HORIZON}
    greedy = {"gamma": DISCOUNT, "exploration_type": "epsilon"}
    return {
        "prudent, Thompson sampling": lambda seed, n: ours(0.0, seed, n),
        "prudent, 0.9 falling, 0 unseen": lambda seed, n: ours(pr.schedules.Falling(0.9, scale=5, unseen=0.0), seed, n),
        "prudent, 0.9 fixed": lambda seed, n: ours(0.9, seed, n),
        "rlberry UCBVI, default bonus": lambda seed, n: theirs("UCBVI", seed, n, **finite),
        "rlberry UCBVI, bonus x 0.1": lambda seed, n: theirs("UCBVI", seed, n, bonus_scale_factor=0.1, **finite),
        "rlberry Q-learning, epsilon 0.1": lambda seed, n: theirs("QL", seed, n, exploration_rate=0.1, **greedy),
        "rlberry Q-learning, epsilon 0.3": lambda seed, n: theirs("QL", seed, n, exploration_rate=0.3, **greedy),
    }


def main() -> None:
    """Play and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rl_peers", description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    asked = parser.parse_args()
    print("| agent | reward of a step | over the last tenth | seconds |\n|---|---|---|---|")
    for name, play in agents().items():
        began = time.perf_counter()
        try:
            paid = np.array([play(seed, asked.episodes) for seed in range(asked.replications)])
        except ImportError as error:
            print(f"| {name} | not available: {error} | | |")
            continue
        seconds = (time.perf_counter() - began) / asked.replications
        cells = []
        for part in (paid, paid[:, -paid.shape[1] // 10 :]):
            means = part.mean(axis=1)
            cells.append(f"{means.mean():.4f} +- {means.std(ddof=1) / np.sqrt(means.size):.4f}")
        print(f"| {name} | {cells[0]} | {cells[1]} | {seconds:.1f} |", flush=True)
    print(f"| best policy of the known model | {best():.4f} | {best():.4f} | |")


if __name__ == "__main__":
    main()
