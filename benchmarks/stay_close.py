"""Does staying close to the log's policy keep new policies from being worse than it? Simulated logs of random models.

    python -m benchmarks.stay_close --logs 200 --workers 16

Each model has 30 states and 4 actions, 4 next states for each pair, discount 0.95, and a goal that pays 1 and is seldom
reached. In the world "experts" half of the states have a trap: an action that pays 0.3 at once, and in one of ten cases
ends in an accident that costs 5. The policy of the log is good, and seldom takes the trap. In the world "open" there
are accidents too, but the policy of the log is a softmax of the best values, mixed with up to half of chance. From a
log of T episodes of up to 50 steps each rule makes a policy, and all are evaluated in the true model, from the start.
For each world, T and rule: the share of logs in which the new policy earns less than that of the log (by more than
0.01), and the tenth percentile and the mean of what it earns more. Errors of shares are at most 0.5 / sqrt(logs).
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np

import prudent as pr
from benchmarks._study import results

STATES, ACTIONS, NEXT, DISCOUNT = 30, 4, 4, 0.95
GOAL, ACCIDENT = STATES, STATES + 1  # terminal
WORLDS, EPISODES, LENGTH = ("experts", "open"), (20, 100, 500), 50
RULES: dict[str, tuple[float, dict[str, float]]] = {
    "alpha 0": (0.0, {}),
    "alpha 0.9": (0.9, {}),
    "N = 5": (0.0, {"min_visits": 5}),
    "N = 20": (0.0, {"min_visits": 20}),
    "N = 50": (0.0, {"min_visits": 50}),
    "epsilon 0.1": (0.0, {"epsilon": 0.1}),
    "epsilon 0.3": (0.0, {"epsilon": 0.3}),
    "N = 5, alpha 0.9": (0.9, {"min_visits": 5}),
}


def true_model(traps: bool, rng: np.random.Generator) -> tuple[pr.MDP, np.ndarray, np.ndarray]:
    """Return a model with the two terminal states, its transition probabilities and its rewards."""
    transition = np.zeros((STATES + 2, ACTIONS, STATES + 2))
    for row in transition[:STATES].reshape(-1, STATES + 2):
        row[rng.choice(STATES, NEXT, replace=False)] = rng.dirichlet(np.ones(NEXT))
    for s in rng.choice(STATES, 3, replace=False):  # from where the goal can be reached
        _divert(transition[s, rng.integers(ACTIONS)], GOAL, 0.5)
    reward = np.zeros(transition.shape)
    reward[:STATES, :, GOAL], reward[:STATES, :, ACCIDENT] = 1.0, -5.0
    for s in range(STATES):
        a = int(rng.integers(ACTIONS))
        if traps and rng.random() < 0.5:
            _divert(transition[s, a], ACCIDENT, 0.1)
            reward[s, a, :STATES] = 0.3
        elif not traps:
            _divert(transition[s, a], ACCIDENT, 0.05)
    transition[GOAL, :, GOAL] = transition[ACCIDENT, :, ACCIDENT] = 1.0
    return pr.MDP(transition, reward, DISCOUNT), transition, reward


def _divert(row: np.ndarray, state: int, chance: float) -> None:
    """Let a pair lead to ``state`` with this probability."""
    row *= 1.0 - chance
    row[state] += chance


def one_log(task: tuple[str, int, int]) -> list[float]:
    """Return what the policy of each rule earns more than that of the log."""
    world, episodes, seed = task
    rng = np.random.default_rng([seed, episodes])
    true, transition, reward = true_model(world == "experts", rng)
    best = pr.solve(true)
    width, most = (0.05, 0.1) if world == "experts" else (0.3, 0.5)
    scaled = (best.q - best.q.max(axis=1, keepdims=True)) / (width * np.ptp(best.value[:STATES]))
    softmax = np.exp(scaled) / np.exp(scaled).sum(axis=1, keepdims=True)
    chance = rng.uniform(0.0, most)
    behaviour = (1.0 - chance) * softmax + chance / ACTIONS
    base = pr.evaluate(true, behaviour).value[0]
    rows = []
    for _ in range(episodes):
        state = 0
        for _ in range(LENGTH):
            action = int(rng.choice(ACTIONS, p=behaviour[state]))
            after = int(rng.choice(STATES + 2, p=transition[state, action]))
            rows.append((state, action, after, float(reward[state, action, after])))
            state = after
            if state >= STATES:
                break
    ended = sorted({row[2] for row in rows} - {row[0] for row in rows})  # or never left, at the end of an episode
    model, posterior = pr.from_log(rows, DISCOUNT, terminal=ended)
    gains = []
    for alpha, rule in RULES.values():
        close = {"baseline": "log", **rule} if rule else {}
        found = pr.BayesianRiskMDP(model, posterior, alpha).solve(threads=1, **close)
        # states and actions that the log does not have are as the log's policy would act there
        policy = behaviour.copy()
        weights = found.policy if found.policy.ndim == 2 else np.eye(model.n_actions)[found.policy]
        for s, row in zip(model.states, weights, strict=True):
            if model.terminal[model.state_index(s)]:
                continue
            policy[s] = 0.0
            policy[s, list(model.actions)] = row
        gains.append(float(pr.evaluate(true, policy).value[0] - base))
    return gains


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stay_close", description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a file for what was found so far, from which a run goes on")
    asked = parser.parse_args()
    settings = list(product(WORLDS, EPISODES))
    tasks = [(*setting, seed) for setting in settings for seed in range(asked.logs)]
    said = results(one_log, tasks, asked.workers, asked.keep)
    print(f"{'world':>8} {'episodes':>8} {'rule':>18} {'worse than the log':>20} {'10th percentile':>16} {'mean':>8}")
    for i, (world, episodes) in enumerate(settings):
        found = np.array(said[i * asked.logs : (i + 1) * asked.logs])
        for name, gains in zip(RULES, found.T, strict=True):
            cells = f"{(gains < -0.01).mean():>20.1%} {np.quantile(gains, 0.1):>16.3f} {gains.mean():>8.3f}"
            print(f"{world:>8} {episodes:>8,} {name:>18} {cells}", flush=True)


if __name__ == "__main__":
    main()
