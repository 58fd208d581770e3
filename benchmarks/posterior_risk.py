"""The best risk of the return over a posterior: time and nodes of the search, what its bounds buy, and other methods.

Side by side with coordinate ascent (CADP) and an exact projected policy gradient, those of the study
``prudent reproduce posterior-risk`` (``prudent.reproduction.runs.static_risk``). Both are plain NumPy, so that their
times are for the record; what they lose is not.

``python -m benchmarks.posterior_risk --workers 16`` is the study of what the bounds buy on larger problems, see
``docs/mathematics/posterior-risk.md``: each problem with each bound, one thread and a limit of time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import prudent as pr
from prudent.planning.posterior_risk import DrawnModels
from prudent.planning.static_search import StaticSearch
from prudent.reproduction.runs.static_risk import RISK, Dense, coordinate_ascent, policy_gradient, random_rows

from ._timing import Row

PROBLEMS, COMPARED = 40, 15
SIZES = {
    "12 x 4 x 200": (12, 4, 200),
    "20 x 4 x 200": (20, 4, 200),
    "30 x 5 x 500": (30, 5, 500),
    "50 x 5 x 1,000": (50, 5, 1_000),
}
WORDS = {
    "own": "own optima only",
    "ahead": "one state ahead, least visits of the root",
    "tail": "the same and the dual of tail weights",
    "visits": "one state ahead, least visits of the node",
}


def searched(problem: pr.BayesianRiskMDP, bounds: str, limit: float | None = None) -> tuple[float, int, float]:
    """Return seconds, nodes and gap of a search with some of the bounds, from the policy of zeros."""
    models = DrawnModels(problem, np.eye(problem.model.n_states)[0], problem.draws, None).models(every=False)
    search = StaticSearch(models.chains, models.admissible, RISK, 1, bounds)
    began = time.process_time()
    search.begin(None, [np.zeros(models.states.size, dtype=np.int64)])
    search.run(limit)
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
    rows += [
        Row(
            f"  nodes, median: {WORDS[name]}",
            nodes["visits"],
            nodes[name],
            "for the record",
            True,
            unit="",
            counts=False,
        )
        for name in ("tail", "ahead", "own")
    ]
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


def _one(size: str, case: int, bounds: str, limit: float) -> dict[str, float | int | str]:
    """Search one problem of the study."""
    problem = random_rows(np.random.default_rng(case), *SIZES[size]).problem()
    seconds, nodes, gap = searched(problem, bounds, limit)
    return {"size": size, "case": case, "bounds": bounds, "seconds": seconds, "nodes": nodes, "gap": gap / 20.0}


def main() -> None:
    """Print a table of medians, and write every search as a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posterior_risk", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=20, help="problems of each size")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES)[:3], choices=list(SIZES))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a search")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file for lines of JSON")
    asked = parser.parse_args()
    searched(random_rows(np.random.default_rng(0), 4, 2, 20).problem(), "visits")  # compiles
    jobs = [(size, case, bounds) for size in asked.sizes for case in range(asked.problems) for bounds in WORDS]
    found = []
    with ProcessPoolExecutor(asked.workers) as pool:
        for done in as_completed([pool.submit(_one, *job, asked.limit) for job in jobs]):
            found.append(done.result())
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    print(f"{'size':>16} {'bounds':40} {'proved':>8} {'nodes':>8} {'seconds':>8} {'largest gap':>12}")
    for size in asked.sizes:
        for bounds, what in WORDS.items():
            rows = [row for row in found if (row["size"], row["bounds"]) == (size, bounds)]
            proved = sum(row["gap"] < 1e-6 for row in rows)
            nodes, seconds = (statistics.median(row[name] for row in rows) for name in ("nodes", "seconds"))
            worst = max(row["gap"] for row in rows)
            print(f"{size:>16} {what:40} {proved:>4}/{len(rows):<3} {nodes:>8.0f} {seconds:>8.3g} {worst:>12.1e}")


if __name__ == "__main__":
    main()
