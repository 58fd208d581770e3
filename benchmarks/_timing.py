"""One way to time, one kind of result row, one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure: ours against another's, and what is required of the ratio."""

    name: str
    ours: float  # seconds, or whatever ``unit`` says
    other: float
    required: str
    met: bool
    note: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.other / self.ours


def best_times(
    *jobs: Callable[[], Any], repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the shortest time of each job; jobs take turns, so that all see the same machine.

    With ``clock=time.thread_time`` it is the time on the processor, which other programs change little.
    """
    shortest = [float("inf")] * len(jobs)
    for job in jobs:
        job()  # compile, warm caches
    for _ in range(repeats):
        for i, job in enumerate(jobs):
            began = clock()
            job()
            shortest[i] = min(shortest[i], clock() - began)
    return shortest


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    print(f"\n{title}")
    width = max(len(row.name) for row in rows)
    print(f"{'':{width}}  {'ours':>10}  {'other':>10}  {'ratio':>8}  required")
    for row in rows:
        ours, other = (_number(x, row.unit) for x in (row.ours, row.other))
        mark = "met" if row.met else "NOT MET"
        print(f"{row.name:{width}}  {ours:>10}  {other:>10}  {row.ratio:8.2f}  {row.required}: {mark}  {row.note}")


def _number(x: float, unit: str) -> str:
    if x != x:
        return "-"
    if unit == "s" and x < 0.1:
        return f"{1e3 * x:.3g} ms"
    return f"{x:.3g} {unit}"
