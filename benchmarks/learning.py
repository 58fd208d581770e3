"""Plans that learn inside the horizon: two Beta arms beside a plain recursion over counts, and a long one."""

from __future__ import annotations

import time

import numpy as np
from scipy import special

import prudent as pr

from ._timing import Row, median_times

ARMS = pr.UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], [[[0, 1], [0, 1]]], discount=1)
SHORT, LONG, LIMIT = 20, 60, 10.0
SAME = 1e-8


def plan(alpha: float, horizon: int, threads: int | None = 1) -> float:
    """Return the value of two uniform arms."""
    problem = pr.BayesianRiskMDP(ARMS, np.ones((2, 2)), alpha)
    return float(problem.solve(horizon=horizon, learning=True, threads=threads).value[0])


def plain(alpha: float, horizon: int) -> float:
    """Return the same by a recursion over (wins, losses) of both arms, one array a layer, with SciPy's Beta tails."""
    value = np.zeros((horizon + 1,) * 4)  # wins and losses of the first arm, wins and losses of the second
    for t in range(horizon - 1, -1, -1):
        seen = np.indices((t + 1,) * 4)
        node = tuple(seen[:, seen.sum(axis=0) == t])
        options = []
        for arm in (0, 1):
            wins, losses = node[2 * arm] + 1.0, node[2 * arm + 1] + 1.0
            worth = []
            for k in (0, 1):
                after = [axis.copy() for axis in node]
                after[2 * arm + k] += 1
                worth.append(value[tuple(after)] + (k == 0))
            win, lose = worth
            a, b = np.where(win >= lose, wins, losses), np.where(win >= lose, losses, wins)
            share = a / (a + b)
            if alpha > 0.0:  # the mean of the lowest part of a Beta variable
                quantile = special.betaincinv(a, b, 1.0 - alpha)
                share = share * special.betainc(a + 1.0, b, quantile) / (1.0 - alpha)
            options.append(np.minimum(win, lose) + abs(win - lose) * share)
        value[node] = np.maximum(*options)
    return float(value[0, 0, 0, 0])


def run() -> list[Row]:
    """Time short plans beside the plain recursion, and a long one by itself."""
    rows = []
    for alpha in (0.0, 0.9):
        ours, other = plan(alpha, SHORT), plain(alpha, SHORT)
        times = median_times(lambda a=alpha: plan(a, SHORT), lambda a=alpha: plain(a, SHORT), repeats=3)
        note = f"values differ by {abs(ours - other):.1e}"
        name = f"two arms, {SHORT} steps, level {alpha:g}: a recursion in NumPy and SciPy"
        rows.append(Row(name, *times, f"values within {SAME:g}", abs(ours - other) <= SAME, note, counts=False))
    for alpha in (0.0, 0.9):
        began = time.perf_counter()
        value = plan(alpha, LONG, None)
        seconds = time.perf_counter() - began
        name = f"two arms, {LONG} steps, level {alpha:g}"
        rows.append(Row(name, seconds, LIMIT, "10 s", seconds <= LIMIT, f"value {value:.6f}", fixed=True))
    return rows
