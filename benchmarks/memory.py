"""Peak memory of ICU-Sepsis: `python -m benchmarks.memory` solves it exactly and with 1,000 draws, each on its own.

A log of 10,000 admissions by the expert; actions tried fewer than five times are not admissible; outcomes are the
states that were seen after the state, whatever the action; total prior mass 1 for each pair.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

import prudent as pr

ADMISSIONS, LEAST, DISCOUNT = 10_000, 5, 0.99
ENDS = {713: 0.0, 714: 1.0, 715: 0.0}  # death, survival, neither


def expert_log(rng: np.random.Generator) -> np.ndarray:
    """Return rows (state, action, next state)."""
    import icu_sepsis

    data = np.load(Path(icu_sepsis.__file__).parent / "envs" / "assets" / "dynamics.npz")
    choices, moves = data["expert_policy"].cumsum(axis=1), data["tx_mat"].cumsum(axis=2)
    state = np.searchsorted(data["d_0"].cumsum(), rng.random(ADMISSIONS) * data["d_0"].sum(), side="right")
    rows = []
    while state.size:
        action = (choices[state] <= (rng.random(state.size) * choices[state, -1])[:, None]).sum(axis=1)
        row = moves[state, action]
        target = (row <= (rng.random(state.size) * row[:, -1])[:, None]).sum(axis=1)
        rows.append(np.stack((state, action, target), axis=1))
        state = target[~np.isin(target, list(ENDS))]
    return np.concatenate(rows)


def problem(log: np.ndarray) -> pr.BayesianRiskMDP:
    n_states, n_actions = 716, 25
    tried = np.zeros((n_states, n_actions), dtype=int)
    np.add.at(tried, (log[:, 0], log[:, 1]), 1)
    allowed = tried >= LEAST
    rare = ~allowed.any(axis=1)
    allowed[rare, tried[rare].argmax(axis=1)] = True
    seen = np.zeros((n_states, n_states), dtype=bool)
    seen[log[:, 0], log[:, 2]] = True
    seen[~seen.any(axis=1), 713] = True
    support = sparse.csr_array(seen)[np.repeat(np.arange(n_states), n_actions)]
    reward = np.zeros((n_states, n_actions))
    model = pr.UncertainMDP.direct(reward, DISCOUNT, support=support, admissible=allowed, terminal=ENDS)
    prior = model.prior()
    kept = log[allowed[log[:, 0], log[:, 1]]]
    counts = model.count(kept, prior / prior.sum(axis=1, keepdims=True), indices=True)
    return pr.BayesianRiskMDP(model, counts, alpha=0.9)


def measure(draws: int | None) -> None:
    task = problem(expert_log(np.random.default_rng(0)))
    started = time.process_time()
    solution = task.solve() if draws is None else task.solve(draws=draws, rng=1)
    spent = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'exact' if draws is None else f'{draws} draws'}: peak {peak:.0f} MB, {spent:.1f} s of CPU; {solution}")
    print(f"    {task.model}, {task.model.entries.outcome.size} outcomes in all")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(None if sys.argv[1] == "exact" else int(sys.argv[1]))
    else:
        for what in ("exact", "1000"):
            subprocess.run([sys.executable, "-m", "benchmarks.memory", what], check=True)
