"""The journal: decisions and rewards that are written down, against those that are not."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from prudent.bandits import LinearBandit
from prudent.journal import Journal

from ._journal_writers import measured, server
from ._timing import Row, absent, median_times

N_ARMS, DIM, STEPS, BURST = 20, 20, 2000, 100
THREADS = 32


def trained() -> tuple[LinearBandit, np.ndarray]:
    rng = np.random.default_rng(0)
    contexts = rng.random((STEPS, DIM))
    bandit = LinearBandit(N_ARMS, DIM, rng=0)
    return bandit.update(contexts, rng.integers(0, N_ARMS, STEPS), rng.random(STEPS)), contexts


def run() -> list[Row]:
    bandit, contexts = trained()
    with tempfile.TemporaryDirectory() as folder:
        lives = {mode: Journal(Path(folder) / mode, bandit, synchronous=mode) for mode in ("NORMAL", "FULL")}
        few = {"NORMAL": contexts[:BURST], "FULL": contexts[:BURST]}
        ids: list[str | None] = []

        def decide(mode: str) -> None:
            for context in few[mode]:
                ids.append(lives[mode].select(context).id)

        def reward() -> None:
            for _ in range(BURST):
                assert lives["NORMAL"].reward(ids.pop(), 1.0) == "ok"

        full, grouped, synced = median_times(
            lambda: decide("FULL"),
            lambda: at_once(lives["FULL"], contexts),
            lambda: synced_writes(Path(folder)),
            repeats=3,
            clock=time.perf_counter,
        )
        # NORMAL does not wait for the disk: its time is that on the processor
        plain, normal, together = median_times(
            lambda: [bandit.select(context) for context in few["NORMAL"]],
            lambda: decide("NORMAL"),
            lambda: lives["NORMAL"].select(few["NORMAL"]),
            repeats=20,
            clock=time.thread_time,
        )
        ids = [row["id"] for row in lives["NORMAL"].rows()]
        (learn,) = median_times(reward, repeats=15, clock=time.thread_time)
        for live in lives.values():
            live.close()
    times = [each / BURST for each in (plain, normal, together, full, learn, synced)]
    return [*_single(*times, grouped / (THREADS * BURST)), *clicks(), *writers()]


def at_once(live: Journal, contexts: np.ndarray) -> None:
    """Decide in threads, which wait for the disk together."""
    threads = [
        threading.Thread(target=lambda: [live.select(context) for context in contexts[:BURST]]) for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def synced_writes(folder: Path) -> None:
    """Write pages of 4 KB to the end of a file, and wait after each until the disk has it."""
    with (folder / "pages").open("ab", buffering=0) as file:
        for _ in range(BURST):
            file.write(bytes(4096))
            os.fdatasync(file.fileno())


def clicks() -> list[Row]:
    """Return what clicks without context cost, against a context of one feature."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        lives = []
        for dim in (0, 1):
            live = Journal(
                Path(folder) / str(dim), LinearBandit(5, dim, rewards="bernoulli", rng=1), synchronous="NORMAL"
            )
            for i in range(50):
                live.reward(live.select(np.ones(dim)).id, i % 2)
            lives.append((live, np.ones(dim)))
        jobs = [lambda live=live, point=point: [live.select(point) for _ in range(BURST)] for live, point in lives]
        pairs = [
            lambda live=live, point=point: [live.reward(live.select(point).id, i % 2) for i in range(BURST)]
            for live, point in lives
        ]
        times = [each / BURST for each in median_times(*jobs, *pairs, repeats=10, clock=time.thread_time)]
        for live, _ in lives:
            live.close()
    note = "against a context of one feature, five arms"
    return [
        Row(
            name,
            ours,
            theirs,
            ">= 0.91",
            theirs >= ours / 1.1,
            note,
            why="quantiles and chances of Beta laws are integrals",
        )
        for name, ours, theirs in (
            ("a click without context", times[0], times[1]),
            ("  and its reward, one by one", times[2], times[3]),
        )
    ]


def writers() -> list[Row]:
    """Return pairs of select and reward a second of 1, 2 and 4 writers, and the worst select, in each store."""
    bandit, rows = trained()[0], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shared"
        Journal(path, bandit, synchronous="NORMAL").close()
        rows += _writers("SQLite, NORMAL", lambda: Journal(path, synchronous="NORMAL"))
    try:
        made = server()
    except Exception as error:  # no server, or no psycopg
        return [*rows, absent("  PostgreSQL", error)]
    try:
        for mode in ("NORMAL", "FULL"):
            name = mode.lower()
            Journal(made.address, bandit, name=name, synchronous=mode).close()
            opened = partial(Journal, made.address, name=name, synchronous=mode)
            rows += _writers(f"PostgreSQL, {mode}", opened, scales=True)
    finally:
        made.close()
    return rows


def _writers(name: str, opened: Callable[[], Journal], scales: bool = False) -> list[Row]:
    found = {count: measured(opened, count, DIM) for count in (1, 2, 4)}
    alone, rows = found[1][0], []
    for count, (pairs, worst) in found.items():
        wanted = scales and count == 4
        rows += [
            Row(
                f"{name}, {count} writers",
                pairs,
                alone,
                ">= one writer" if wanted else "for the record",
                not wanted or pairs >= alone,
                "pairs of select and reward a second, against one writer",
                unit="/s",
                higher=True,
                compared=False,
                counts=wanted,
            ),
            Row("  worst select", worst, 0.1, "<= 100 ms", worst <= 0.1, fixed=True, compared=False),
        ]
    return rows


def _single(
    plain: float, normal: float, together: float, full: float, learn: float, synced: float, grouped: float
) -> list[Row]:
    """Return the rows of one process."""
    return [
        Row(
            "a decision, NORMAL",
            normal,
            1e-4,
            "<= 0.1 ms",
            normal <= 1e-4,
            "10,000 a second, with its propensity, 20 arms, d = 20",
            fixed=True,
        ),
        Row("  many contexts together", together, normal, ">= 1.2", normal >= 1.2 * together, "against one by one"),
        Row("a reward, NORMAL", learn, 1e-4, "<= 0.1 ms", learn <= 1e-4, fixed=True),
        Row(
            "a decision, FULL",
            full,
            synced,
            "for the record",
            True,
            "other: 4 KB that the disk has; a decision waits for the disk once",
            compared=False,
            counts=False,
        ),
        Row(
            f"  {THREADS} threads at once",
            grouped,
            full,
            ">= 2",
            full >= 2.0 * grouped,
            "against one thread; they wait for the disk together",
            compared=False,
        ),
        Row("a decision, no journal", plain, 12e-6, "<= 12 us", plain <= 12e-6, fixed=True),
    ]
