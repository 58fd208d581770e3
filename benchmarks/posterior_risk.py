"""The best risk of the return over a posterior: time and nodes of the search, what its bounds buy, and other methods.

Side by side with coordinate ascent (CADP) and an exact projected policy gradient, those of the study
``prudent reproduce posterior-risk`` (``prudent.reproduction.runs.static_risk``). Both are plain NumPy, so that their
times are for the record; what they lose is not.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import prudent as pr
from prudent.planning.posterior_risk import DrawnModels
from prudent.planning.static_search import StaticSearch
from prudent.reproduction.runs.static_risk import RISK, Dense, coordinate_ascent, policy_gradient, random_rows

from ._timing import Row

PROBLEMS, COMPARED = 40, 15


def searched(problem: pr.BayesianRiskMDP, bounds: str) -> tuple[float, int, float]:
    """Return seconds, nodes and gap of a search with some of the bounds, from the policy of zeros."""
    models = DrawnModels(problem, np.eye(problem.model.n_states)[0], problem.draws, None).models(every=False)
    search = StaticSearch(models.chains, models.admissible, RISK, 1, bounds)
    began = time.process_time()
    search.begin(None, [np.zeros(models.states.size, dtype=np.int64)])
    search.run()
    return time.process_time() - began, search.nodes, search.upper_bound - search.best


def small() -> list[Row]:
    """Random problems of 12 states, 4 actions and 200 draws."""
    drawn = [random_rows(np.random.default_rng(i), 12, 4, 200) for i in range(PROBLEMS)]
    problems = [one.problem() for one in drawn]
    for bounds in ("own", "ahead", "tail", "visits"):
        searched(problems[0], bounds)  # compiles
    found = {bounds: [searched(one, bounds) for one in problems] for bounds in ("visits", "tail", "ahead", "own")}
    ours = found["visits"]
    seconds, nodes = ({name: statistics.median(row[i] for row in rows) for name, rows in found.items()} for i in (0, 1))
    proved = all(gap < 1e-6 * 20.0 for _, _, gap in ours)
    size = f"12 states x 4 actions x 200 draws, {PROBLEMS} problems"
    rows = [
        Row(f"best CVaR of the return, {size}: by the models' own optima", seconds["visits"], seconds["own"],
            "optimum proved in all", proved, "median of one thread", counts=False)
    ]  # fmt: skip
    words = {"tail": "least visits of the root", "ahead": "one state ahead", "own": "own optima only"}
    for name, what in words.items():
        rows.append(
            Row(f"  nodes, median: {what}", nodes["visits"], nodes[name], "for the record", True, unit="", counts=False)
        )
    losses: dict[str, list[float]] = {"CADP, stationary": [], "policy gradient, exact": []}
    times: dict[str, list[float]] = {name: [] for name in losses}
    gaps: dict[str, list[float]] = {name: [] for name in losses}
    spent: dict[str, list[float]] = {name: [] for name in losses}
    for one, problem in zip(drawn[:COMPARED], problems, strict=False):
        dense = Dense(one)
        for name, method, mix in zip(losses, (coordinate_ascent, policy_gradient), (False, True), strict=True):
            began = time.process_time()
            best = pr.solve(problem, objective=pr.PosteriorRisk(RISK, randomised=mix), start=0, threads=1)
            then = time.process_time()
            policy = method(dense)
            spent[name].append(then - began)
            times[name].append(time.process_time() - then)
            gaps[name].append(100.0 * best.gap / best.objective_value)
            losses[name].append(100.0 * (best.objective_value - dense.worth(policy)) / best.objective_value)
    for name, lost in losses.items():
        least = 1e-4 if name.startswith("CADP") else 10.0
        clock = f"{statistics.median(times[name]):.2g} s against {statistics.median(spent[name]):.2g} s"
        note = f"from {min(lost):.2g} to {max(lost):.2g} %; {clock}; ours is the proved gap"
        rows.append(
            Row(f"  lost to ours, mean of {COMPARED}: {name}", max(gaps[name]), statistics.mean(lost),
                f"gap of ours below {least:g} %", max(gaps[name]) < least, note, unit="%", counts=False)
        )  # fmt: skip
    return rows


def large() -> list[Row]:
    """One problem of 50 states, 5 actions and 1,000 draws."""
    problem = random_rows(np.random.default_rng(0), 50, 5, 1_000).problem()
    began = time.perf_counter()
    best = pr.solve(problem, objective=pr.PosteriorRisk(RISK), start=0, time_limit=100.0)
    seconds = time.perf_counter() - began
    note = f"gap {best.gap / best.objective_value:.1e} of {best.objective_value:.5g}, {best.search.nodes} nodes"
    name = "best CVaR of the return, 50 states x 5 actions x 1,000 draws"
    return [Row(name, seconds, 120.0, "2 minutes, gap stated", seconds <= 120.0, note, fixed=True)]


PIECES = {"small": small, "large": large}
