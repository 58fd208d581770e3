"""Average reward of known models: mdpsolver, mdpax and Storm on the same models, to the same width of the bounds.

With h the relative values a solver returns, the gain lies between the least and the largest of Th - h, whoever found h.
Every solver is asked for bounds that are 1e-8 apart, and the bounds are computed here from what it returned. Ours also
finds out whether the model has one gain or several, and solves for the bias, which the others do not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import prudent as pr

from ._timing import Row, median_times, tried
from .core import RESIDUAL, mdpax_table, mdpsolver_tables, random_model

Run = Callable[[], Any]


def apart(mdp: pr.MDP, relative: np.ndarray) -> tuple[float, float]:
    """Return the bounds of the gain that relative values prove."""
    ahead = mdp.reward + (mdp.transition @ relative).reshape(mdp.reward.shape)
    change = ahead.max(axis=1) - relative
    return float(change.min()), float(change.max())


def mdpsolver_runs(mdp: pr.MDP) -> dict[str, Run]:
    """mdpsolver's algorithms with its standard updates: Gauss-Seidel does not end on average rewards.

    Without a first guess it goes on from what it found before.
    """
    import mdpsolver

    tables, runs = mdpsolver_tables(mdp), {}
    for algorithm in ("mpi", "vi"):
        model = mdpsolver.model()
        model.mdp(discount=0.99, **tables)  # which it does not use

        def run(model=model, algorithm=algorithm):
            model.solve(
                algorithm=algorithm, criterion="average", tolerance=RESIDUAL, parallel=False, verbose=False,
                postProcessing=False, makeFinalCheck=False, initPolicy=[0] * mdp.n_states,
                initValueVector=[0.0] * mdp.n_states,
            )  # fmt: skip
            return apart(mdp, np.array(model.getValueVector()))

        runs[f"mdpsolver {algorithm}"] = run
    return runs


def mdpax_runs(mdp: pr.MDP) -> dict[str, Run]:
    """mdpax's relative value iteration in double precision, compiled before it is timed."""
    from mdpax.solvers import RelativeValueIteration

    solver = RelativeValueIteration(mdpax_table(mdp), epsilon=RESIDUAL, max_batch_size=mdp.n_states, verbose=0)
    start = solver.values
    solver.solve(max_iterations=1)  # compile

    def run():
        solver.values, solver.gain, solver.iteration = start, 0.0, 0
        solver.solve(max_iterations=10**5)
        return apart(mdp, np.asarray(solver.values))

    return {"mdpax relative value iteration": run}


def storm_runs(mdp: pr.MDP) -> dict[str, Run]:
    """Storm's long-run average rewards, on the model that it reads from our UMB file; it returns gains only.

    Its precision is the one it has by default, 1e-6 of the gain: stormpy has no way to set that of long runs.
    """
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        mdp.to_umb(f"{folder}/model.umb")
        model = stormpy.build_model_from_umb(f"{folder}/model.umb")
    (wanted,) = stormpy.parse_properties('R{"reward"}max=? [ LRA ]')

    def run():
        gains = np.array(stormpy.model_checking(model, wanted).get_value_vector())
        return float(gains.min()) * (1.0 - 1e-6), float(gains.max()) * (1.0 + 1e-6)

    return {"storm": run}


PEERS = {"mdpsolver": mdpsolver_runs, "mdpax": mdpax_runs, "storm": storm_runs}
MODELS = (
    ("10,000 states, fast mixing", 10_000, None),
    ("2,000 states, slow mixing", 2_000, 25),
)


def run() -> list[Row]:
    """Return a row for each model and solver: processor time, and what the solver proves of the gain."""
    rows = []
    for name, n_states, reach in MODELS:
        mdp = random_model(0.99, reach, n_states)

        def solve(mdp=mdp):
            return pr.solve(mdp, objective="average", tol=0.5 * RESIDUAL)

        ours = solve()
        assert ours.converged
        for peer, of in PEERS.items():
            title = f"average reward, {name}: "
            runs, failed = tried(title + peer, lambda mdp=mdp, of=of: of(mdp))
            rows += failed
            for other, work in (runs or {}).items():
                found, failed = tried(title + other, work)
                rows += failed
                if not failed:
                    rows.append(_row(title + other, ours, found, median_times(solve, work, repeats=5)))
    return rows


def _row(name: str, ours: pr.Solution, found: tuple[float, float], times: list[float]) -> Row:
    """Return a row; a solver whose bounds are further apart than asked for is shown, and not counted."""
    low, high = found
    met = low - RESIDUAL <= ours.gain <= high + RESIDUAL
    reached = high - low <= 2.0 * RESIDUAL
    note = f"gain {0.5 * (low + high):.9f}, bounds {high - low:.0e} apart" + ("" if reached else ", not reached")
    why = "ours also decides whether there is one gain, and solves for the bias"
    return Row(name, times[0], times[1], "the same gain", met, note, counts=reached, why=why)
