"""What to measure next: all data sets along one curve, against solving the problem again for each of them."""

from __future__ import annotations

import numpy as np

import prudent as pr
from prudent.analysis import value_of_data

from ._timing import Row, median_times

SOURCES = {0.0: 50, 0.9: 10}  # by level
OBSERVATIONS = 1


def by_solving(model: pr.UncertainMDP, counts: np.ndarray, alpha: float, sources: np.ndarray) -> np.ndarray:
    """Return the gains of some sources: one solve for each data set, started from the present values."""
    now = pr.BayesianRiskMDP(model, counts, alpha).solve(threads=1)
    gains = np.zeros(len(sources))
    for i, b in enumerate(sources):
        for k in np.flatnonzero(counts[b]):
            after = counts.copy()
            after[b, k] += OBSERVATIONS
            then = pr.BayesianRiskMDP(model, after, alpha).solve(initial_value=now.value, threads=1)
            if (then.policy != now.policy).any():
                mean = pr.BayesianRiskMDP(model, after, 0.0)
                more = mean.evaluate(then.policy, threads=1).value - mean.evaluate(now.policy, threads=1).value
                gains[i] += counts[b, k] / counts[b].sum() * more.mean()
    return gains


def run() -> list[Row]:
    problem = pr.envs.random_model(500, 10, branching=10, rng=0, discount=0.95)
    model, rng = problem.model, np.random.default_rng(1)
    counts = model.prior() + rng.poisson(2.0, model.outcome_mask.shape) * model.outcome_mask
    rows = []
    for alpha, limit in SOURCES.items():
        found = value_of_data(model, counts, alpha, OBSERVATIONS, limit=limit, threads=1)
        sources = found.source[found.method == "exact"]
        fresh = by_solving(model, counts, alpha, sources)
        right = bool(np.allclose(fresh, found.gain[sources], atol=1e-6 * abs(found.solution.value).max()))
        ours, other = median_times(
            lambda: value_of_data(model, counts, alpha, OBSERVATIONS, limit=limit, threads=1),  # noqa: B023
            lambda: by_solving(model, counts, alpha, sources),  # noqa: B023
            repeats=3,
        )
        rows.append(
            Row(
                f"value of data, 500 states x 10 actions, {limit} sources, alpha {alpha:g}: solve for each data set",
                ours,
                other,
                "3 times, same gains",
                right and other >= 3 * ours,
                "ours looks at all 5,000 sources first",
            )
        )
    return rows
