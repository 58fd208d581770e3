"""One way to time, one kind of result row, one table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One figure: ours against another's, and what is required of the ratio.

    ``other`` was measured in the same run, unless ``fixed`` says that it is a limit that somebody wrote down.
    """

    name: str
    ours: float  # seconds, or whatever ``unit`` says
    other: float
    required: str
    met: bool
    note: str = ""
    unit: str = "s"
    fixed: bool = False
    why: str = ""  # why ours is the slower one, where it is
    missing: str = ""  # why there is nothing to show
    higher: bool = False  # more is better
    compared: bool = True  # with earlier runs; a disk is another one every day
    counts: bool = True  # False: the other one did not do the same work, and is shown for the record

    @property
    def ratio(self) -> float:
        """How many times better ours is."""
        if self.higher:
            return self.ours / self.other if self.other else math.nan
        return self.other / self.ours if self.ours else math.nan

    @property
    def lost(self) -> bool:
        """Whether the other one is better, beyond what two digits show."""
        return self.counts and not self.fixed and not self.missing and self.ratio < 0.995


def median_times(
    *jobs: Callable[[], Any], repeats: int = 5, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the median time of each job; jobs take turns, so that all see the same machine.

    The median, because it is what a user waits: the shortest of many hides what a program does now and then (memory
    that goes back to the system, caches that others have emptied). Each job runs once before it counts, which compiles
    it. The time is that on the processor, of all threads, which other programs change little; jobs with several threads
    or a disk need ``clock=time.perf_counter``.
    """
    took: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()  # compile, warm caches
    for _ in range(repeats):
        for times, job in zip(took, jobs, strict=True):
            began = clock()
            job()
            times.append(clock() - began)
    return [statistics.median(times) for times in took]


def absent(name: str, error: BaseException | str, required: str = "for the record") -> Row:
    """Return the row of something that could not be measured."""
    if isinstance(error, ImportError):
        reason = f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
    elif isinstance(error, BaseException):
        reason = f"{type(error).__name__}: {error}"
    else:
        reason = error
    return Row(name, math.nan, math.nan, required, True, missing=" ".join(reason.split())[:160])


def tried(name: str, work: Callable[[], Any]) -> tuple[Any, list[Row]]:
    """Return what ``work`` returns and no rows, or None and the row that says why it failed."""
    try:
        return work(), []
    except Exception as error:  # of another's library: whatever it raises, the rest goes on
        return None, [absent(name, error)]


def calibration(repeats: int = 5) -> float:
    """Return the seconds of a fixed piece of work, the unit of rows that have nobody to be compared with.

    A product with a sparse matrix, a sort and a logarithm: gathers, branches and arithmetic, 8 MB of data.
    """
    from scipy import sparse

    rng = np.random.default_rng(0)
    n, k = 100_000, 5
    columns = rng.integers(0, n, n * k, dtype=np.int32)
    matrix = sparse.csr_array((rng.random(n * k), columns, np.arange(0, n * k + 1, k)), shape=(n, n))
    x = rng.random(n)

    def work() -> None:
        y = matrix @ x
        y.sort()
        np.log(y + 1.0).sum()

    return median_times(work, repeats=repeats)[0]


QUIET = 0.8
"""Share of a processor below which times say more about other programs than about ours."""


def share_of_processor(seconds: float = 0.3) -> float:
    """Return how much of a processor this process gets: 1 on a quiet machine, a third where three share one."""
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - began)


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    print(f"\n{title}")
    width = max((len(row.name) for row in rows), default=0)
    print(f"{'':{width}}  {'ours':>10}  {'other':>10}  {'ratio':>8}  required")
    for row in rows:
        if row.missing:
            print(f"{row.name:{width}}  not available: {row.missing}")
            continue
        ours, other = (number(x, row.unit) for x in (row.ours, row.other))
        mark = "met" if row.met else "NOT MET"
        told = "; ".join(part for part in (row.note, row.why if row.lost else "") if part)
        print(f"{row.name:{width}}  {ours:>10}  {other:>10}  {row.ratio:8.2f}  {row.required}: {mark}  {told}")


def number(x: float, unit: str) -> str:
    """Return a number as tables show it."""
    if x != x:
        return "-"
    if unit == "s" and x < 0.1:
        return f"{1e6 * x:.3g} us" if x < 1e-4 else f"{1e3 * x:.3g} ms"
    return f"{x:.3g} {unit}".strip()
