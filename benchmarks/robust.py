"""Interval models side by side with Storm: values of both within each other's bounds, and the time of both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

import prudent as pr

from ._timing import Row, median_times, tried

PRECISION = 1e-8  # to which Storm's sweeps change values
CASES = (("S 2,000", 2_000, 0.95), ("S 2,000, gamma 0.99", 2_000, 0.99))


def interval_model(n_states: int, discount: float, optimistic: bool, n_actions: int = 4, k: int = 5) -> pr.IntervalMDP:
    """Random successors with probabilities that are known within a third of their value or so."""
    rng = np.random.default_rng(0)
    pairs = n_states * n_actions
    chance = rng.dirichlet(np.ones(k), pairs)
    target = np.sort(rng.integers(0, n_states, (pairs, k)), axis=1)
    rows = np.repeat(np.arange(pairs), k)
    middle = sparse.csr_array((chance.ravel(), (rows, target.ravel())), shape=(pairs, n_states))
    lower, upper = middle.copy(), middle.copy()
    lower.data = middle.data * rng.uniform(0.6, 1.0, middle.nnz)
    upper.data = np.minimum(1.0, middle.data * rng.uniform(1.0, 1.4, middle.nnz))
    return pr.IntervalMDP(lower, upper, rng.random((n_states, n_actions)), discount, optimistic=optimistic)


def write_drn(path: Path, problem: pr.IntervalMDP) -> None:
    """Write the model for Storm: a step is the last one with probability 1 - discount, which is the same value."""
    model, of = problem.model, problem.model.entries
    slots, gamma, end = of.slots(), model.discount, model.n_states
    lower, upper = gamma * problem.sets.low[slots], gamma * problem.sets.high[slots]
    head = f"@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\nreward\n@nr_states\n{end + 1}\n"
    lines = [f"{head}@nr_choices\n{of.source.size + 1}\n@model"]
    for s in range(end):
        lines.append(f"state {s} [0]{' init' * (s == 0)}")
        for p in range(s * model.n_actions, (s + 1) * model.n_actions):
            lines.append(f"\taction {p - s * model.n_actions} [{of.reward[of.first[p]]!r}]")
            for e in range(of.first[p], of.first[p + 1]):
                lines.append(f"\t\t{of.next_state[e]} : [{lower[e]!r}, {upper[e]!r}]")
            lines.append(f"\t\t{end} : [{1.0 - gamma!r}, {1.0 - gamma!r}]")
    lines += [f"state {end} [0] done", "\taction 0 [0]", f"\t\t{end} : [1, 1]", ""]
    path.write_text("\n".join(lines).replace("np.float64(", "").replace(")", ""))


def storm(problem: pr.IntervalMDP) -> Callable[[], np.ndarray]:
    """Return a run of Storm's robust value iteration on the same model."""
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        write_drn(Path(folder) / "model.drn", problem)
        model = stormpy.build_model_from_drn[stormpy.Interval](f"{folder}/model.drn")
    (wanted,) = stormpy.parse_properties('R{"reward"}max=? [ F "done" ]')
    environment = stormpy.Environment()
    rules = environment.solver().min_max()
    rules.precision, rules.relative_termination_criterion = stormpy.Rational(repr(PRECISION)), False
    modes = stormpy.UncertaintyResolutionMode
    mode = modes.MAXIMIZE if problem.optimistic else modes.MINIMIZE

    def run() -> np.ndarray:
        found = stormpy.model_checking(
            model, wanted, only_initial_states=False, uncertainty_resolution_mode=mode, environment=environment
        )
        return np.array(found.get_value_vector())[:-1]

    return run


def run() -> list[Row]:
    """Solve each model by both, the pessimist's and the optimist's."""
    rows = []
    for name, n_states, discount in CASES:
        for optimistic in (False, True):
            problem = interval_model(n_states, discount, optimistic)
            title = f"interval model, {name}, {'best' if optimistic else 'worst'} case: storm"
            other, failed = tried(title, lambda problem=problem: storm(problem))
            rows += failed
            if failed:
                continue
            # sweeps that change values by at most the precision are this close to the fixed point
            bound = PRECISION * discount / (1.0 - discount)
            ours = pr.solve(problem, tol=bound, threads=1)
            value = other()
            gap = float(abs(ours.value - value).max())
            times = median_times(lambda p=problem, t=bound: pr.solve(p, tol=t, threads=1), other, repeats=3)
            met = gap <= ours.error_bound + bound and times[1] >= times[0]
            note = f"values differ by {gap:.1e}, bounds {ours.error_bound:.1e} and {bound:.1e}"
            rows.append(Row(title, *times, "ratio >= 1, values within both bounds", met, note))
    return rows
