"""The journal: decisions and rewards that are written down, against those that are not."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from prudent.bandits import LinearBandit
from prudent.journal import Journal

from ._timing import Row, median_times

N_ARMS, DIM, STEPS, BURST = 20, 20, 2000, 100


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

        (full,) = median_times(lambda: decide("FULL"), repeats=3, clock=time.perf_counter)
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
    plain, normal, together, full, learn = (each / BURST for each in (plain, normal, together, full, learn))
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
            plain,
            "for the record",
            True,
            "against no journal",
            why="it waits until the disk has it",
            compared=False,
        ),
        Row("a decision, no journal", plain, 12e-6, "<= 12 us", plain <= 12e-6, fixed=True),
    ]
