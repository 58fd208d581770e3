"""ICU-Sepsis: does caution save lives, and from how much data on? `python -m benchmarks.icu` answers with intervals.

The benchmark of Choudhary et al. (PyPI: icu-sepsis) is a known model of sepsis in intensive care: 716 states, 25
actions, made from MIMIC-III, with the policy of the clinicians. Here its truth is hidden: the clinicians treat a number
of admissions, :func:`prudent.from_log` reads the log, a policy is worked out at several risk levels, and every policy
is judged in the true model by the probability that a patient survives.

- outcomes of an action are all states that were seen after the state, whatever the action; prior mass 1 for each pair
- a policy is followed wherever the log has been; in states that it never saw, the clinicians decide
- survival is the probability of absorption, without any discount; the planner has the discount 0.999
- logs are independent; all levels see the same logs, so that differences are paired

`python -m benchmarks.icu measure exact|DRAWS` measures time and peak memory of one solve in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import prudent as pr
from prudent._support.intervals import mean_and_half_width

DISCOUNT = 0.999
DEATH, SURVIVAL = 713, 714
SIZES = (1_000, 3_000, 10_000, 30_000)
LEVELS = (0.0, 0.5, 0.9)
LEAST = (1, 5)  # an action tried fewer times in a state is not considered there


class Truth(NamedTuple):
    """The true model, which no policy gets to see."""

    move: np.ndarray  # [S, A, S'] probabilities
    expert: np.ndarray  # [S, A] chances of what clinicians do
    start: np.ndarray  # [S]

    @property
    def alive(self) -> int:
        """How many states there are to act in; death, survival and what comes after follow them."""
        return DEATH

    def survival(self, weights: np.ndarray) -> float:
        """Return the probability that a patient survives, for the chances of actions [S, A] of a policy."""
        n = self.alive
        chain = np.einsum("sa,sat->st", weights[:n], self.move[:n])
        lower = splu(sparse.csc_array(np.eye(n) - chain[:, :n]))
        return float(self.start[:n] @ lower.solve(np.ascontiguousarray(chain[:, SURVIVAL])))

    def best(self) -> float:
        """Return the survival under the best policy that only does what clinicians do now and then."""
        n = self.alive
        reward = np.where(self.expert[:n] > 0.0, self.move[:n, :, SURVIVAL], -1.0)
        move = self.move[:n, :, :n]  # what is lacking to one ends the process
        value, policy = np.zeros(n), np.zeros(n, dtype=int)
        improved = True
        while improved:  # policy iteration
            q = reward + move @ value
            better = q.max(axis=1) > q[np.arange(n), policy] + 1e-12
            improved = bool(better.any())
            policy = np.where(better, q.argmax(axis=1), policy)
            chain = move[np.arange(n), policy]
            value = np.linalg.solve(np.eye(n) - chain, reward[np.arange(n), policy])
        return self.survival(self.weights(policy))

    def weights(self, policy: np.ndarray) -> np.ndarray:
        """Return the chances of actions [S, A] of a policy that is an action for each state."""
        weights = self.expert.copy()
        weights[: policy.size] = np.eye(self.expert.shape[1])[policy]
        return weights

    def followed(self, solution: pr.planning.Solution) -> np.ndarray:
        """Return the chances of actions [S, A] of a policy from a log: where it has none, clinicians decide."""
        weights = self.expert.copy()
        states = range(solution.value.size) if solution.states is None else solution.states
        for state, action in zip(states, solution.policy_names, strict=True):
            if action is not None:
                weights[state] = 0.0
                weights[state, action] = 1.0
        return weights


@cache
def truth() -> Truth:
    """Return the true model; reads the file of the package, whose import would need gym."""
    spec = importlib.util.find_spec("icu_sepsis")
    assert spec is not None, "pip install icu-sepsis"
    assert spec.origin is not None
    with np.load(Path(spec.origin).parent / "envs" / "assets" / "dynamics.npz") as data:
        expert = data["expert_policy"] / np.maximum(data["expert_policy"].sum(axis=1, keepdims=True), 1e-300)
        move = data["tx_mat"] / data["tx_mat"].sum(axis=2, keepdims=True)
        return Truth(move, expert, data["d_0"] / data["d_0"].sum())


def admissions(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the log of so many admissions that clinicians treated: rows (state, action, next state)."""
    known = truth()
    choices, moves = known.expert.cumsum(axis=1), known.move.cumsum(axis=2)
    state = np.searchsorted(known.start.cumsum(), rng.random(count) * known.start.sum(), side="right")
    rows = []
    while state.size:
        action = (choices[state] <= (rng.random(state.size) * choices[state, -1])[:, None]).sum(axis=1)
        row = moves[state, action]
        target = (row <= (rng.random(state.size) * row[:, -1])[:, None]).sum(axis=1)
        rows.append(np.stack((state, action, target), axis=1))
        state = target[target < known.alive]
    return np.concatenate(rows)


def problem(log: np.ndarray, least: float = 1) -> tuple[pr.UncertainMDP, pr.DirichletPosterior]:
    """Return the model and the posterior of a log."""
    return pr.from_log(
        log,
        DISCOUNT,
        terminal={DEATH: 0.0, SURVIVAL: 1.0},
        min_count=least,
        support="state",
        rewards=0,
    )


def plans(model: pr.UncertainMDP, posterior: pr.DirichletPosterior) -> dict[float, pr.planning.Solution]:
    """Return the policies of all levels."""
    found: dict[float, pr.planning.Solution] = {}
    value = None
    for alpha in LEVELS:
        found[alpha] = pr.BayesianRiskMDP(model, posterior, alpha).solve(tol=1e-7, initial_value=value, threads=1)
        value = found[alpha].value
    return found


def survivals(log: np.ndarray, least: float) -> list[float]:
    """Return the true survival of the policies of all levels that are made from one log."""
    known = truth()
    return [known.survival(known.followed(solution)) for solution in plans(*problem(log, least)).values()]


def study(sizes: Any, logs: int, seed: int) -> dict[tuple[int, int], np.ndarray]:
    """Return, for each size and least count, the survival [logs, levels] of the policies of all levels."""
    found = {(size, least): np.empty((logs, len(LEVELS))) for size in sizes for least in LEAST}
    for i in range(logs):
        for size in sizes:
            log = admissions(size, np.random.default_rng([seed, size, i]))
            for least in LEAST:
                found[size, least][i] = survivals(log, least)
            print(f"log {i + 1} of {logs}, {size} admissions, {time.process_time():.0f} s of CPU", flush=True)
    return found


def table(found: dict[tuple[int, int], np.ndarray]) -> str:
    """Return the results as a table in Markdown: survival in percent, and paired differences, with 95% intervals."""
    known = truth()
    expert = 100.0 * known.survival(known.expert)
    head = ["admissions", "tried at least", *(f"α = {alpha:g}" for alpha in LEVELS)]
    head += [f"α = {alpha:g} less α = 0" for alpha in LEVELS[1:]] + ["α = 0 less clinicians"]
    lines = [f"| {' | '.join(head)} |", f"|{'---:|' * len(head)}"]
    for (size, least), survival in found.items():
        percent = 100.0 * survival
        columns = [*percent.T, *(percent[:, j] - percent[:, 0] for j in range(1, len(LEVELS))), percent[:, 0] - expert]
        cells = [f"{m:.2f} ± {h:.2f}" for m, h in (mean_and_half_width(column, 0.95) for column in columns)]
        lines.append(f"| {size:,} | {least} | {' | '.join(cells)} |")
    lines.append(f"\nClinicians {expert:.2f}%; the best policy that knows the truth {100.0 * known.best():.2f}%.")
    return "\n".join(lines)


def measure(draws: int | None) -> None:
    """Print time and peak memory of one solve at level 0.9, from a log of 10,000 admissions."""
    model, posterior = problem(admissions(10_000, np.random.default_rng(0)))
    for alpha in LEVELS if draws is None else LEVELS[-1:]:
        began = time.process_time()
        solution = pr.BayesianRiskMDP(model, posterior, alpha).solve(draws, None if draws is None else 1, threads=1)
        spent = time.process_time() - began
        how = "exact" if draws is None else f"{draws} draws"
        print(f"{how}, level {alpha:g}: {spent:.1f} s of CPU; {solution}")
    print(f"peak {_peak():.0f} MB; {model}")


def _peak() -> float:
    """Return the peak of memory in MB: of this program, where ``ru_maxrss`` begins with that of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(next(line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line)) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="study", choices=("study", "measure"))
    parser.add_argument("draws", nargs="?", default="exact")
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    if told.what == "measure":
        measure(None if told.draws == "exact" else int(told.draws))
    else:
        print(table(study(told.sizes, told.logs, told.seed)))
