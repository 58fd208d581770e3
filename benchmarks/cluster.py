"""What a cluster costs: two workers with a thread each, on this machine, against two threads.

Wall times of jobs that take turns, and the seconds on the processor of all processes together, which other programs on
the machine change little; what an idle cluster takes meanwhile is subtracted. With PRUDENT_BENCH_SHARE=0.1 the lake
study has a tenth of its replications.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import prudent as pr
from benchmarks._problems import large_problem
from benchmarks._timing import Row
from prudent.reproduction import SCALES
from prudent.reproduction import run as reproduce

MOST = 1.25
ROUNDS = 4


def compared(
    name: str, client: Any, there: Callable[[], Any], here: Callable[[], Any], most: float = MOST
) -> list[Row]:
    """Return the rows of one job on the cluster and on threads; both run once before they count."""
    wall: tuple[list[float], list[float]] = ([], [])
    cpu: tuple[list[float], list[float]] = ([], [])
    used = processor(client)
    time.sleep(3.0)
    idle = (processor(client) - used) / 3.0  # of the processes of a cluster that has nothing to do
    for count in range(ROUNDS + 1):
        for i, job in enumerate((there, here)):
            began, used = time.perf_counter(), processor(client)
            job()
            if count:
                passed = time.perf_counter() - began
                wall[i].append(passed)
                cpu[i].append(processor(client) - used - idle * passed)
    rows = []
    for kind, times in (("wall time", wall), ("processor time", cpu)):
        ours, other = map(statistics.median, times)
        asked = f"ratio >= {1.0 / most:.1f}"
        why = "messages, and a model that must be sent"
        rows.append(
            Row(
                f"{name}, {kind}: 2 threads",
                ours,
                other,
                asked,
                ours <= most * other,
                why=why,
            )
        )
    return rows


def processor(client: Any) -> float:
    """Return the seconds that this process and the workers have had on processors."""
    return time.process_time() + sum(client.run(time.process_time).values())


def run() -> list[Row]:
    """Return all rows; takes about ten minutes on two cores."""
    from distributed import Client, LocalCluster

    paper = SCALES["paper"]
    share = float(os.environ.get("PRUDENT_BENCH_SHARE", "1"))
    scale = replace(paper, lake_replications=max(2, round(share * paper.lake_replications)))
    problem = large_problem(20_000)
    changed = pr.BayesianRiskMDP(problem.model, problem.posterior.updated(0, 0), 0.9)
    turns = cycle([changed, problem])  # so that the workers never have the model already
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        folders = iter(range(1000))

        def lake(**who: Any) -> None:
            reproduce(["lake-regret"], scale, f"{folder}/{next(folders)}", **who)

        return [
            *compared(
                "exact solve, 20,000 states",
                client,
                lambda: problem.solve(client=client),
                lambda: problem.solve(threads=2),
            ),
            *compared(
                "exact solve of a model that is not there yet",
                client,
                lambda: next(turns).solve(client=client),
                lambda: problem.solve(threads=2),
                math.inf,
            ),
            *compared(
                f"lake study, {scale.lake_replications} replications",
                client,
                lambda: lake(cluster=client),
                lambda: lake(workers=2),
            ),
        ]
