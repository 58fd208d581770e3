"""The journal: decisions and rewards that are written down, against those that are not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from prudent.bandits import Journal, LinearBandit

from ._timing import Row, best_times

N_ARMS, DIM, STEPS = 20, 20, 2000


def trained() -> tuple[LinearBandit, np.ndarray]:
    rng = np.random.default_rng(0)
    contexts = rng.random((STEPS, DIM))
    bandit = LinearBandit(N_ARMS, DIM, noise_sd=1.0, seed=0)
    return bandit.update(contexts, rng.integers(0, N_ARMS, STEPS), rng.random(STEPS)), contexts


def run() -> list[Row]:
    bandit, contexts = trained()
    with tempfile.TemporaryDirectory() as folder:
        lives = {mode: Journal(Path(folder) / mode, bandit, synchronous=mode) for mode in ("NORMAL", "FULL")}
        few = {"NORMAL": contexts, "FULL": contexts[:100]}
        ids: list[str | None] = []

        def decide(mode: str) -> None:
            for context in few[mode]:
                ids.append(lives[mode].select(context).id)

        def reward() -> None:
            for _ in range(STEPS):
                assert lives["NORMAL"].reward(ids.pop(), 1.0) == "ok"

        plain, normal, full = best_times(
            lambda: [bandit.select(context) for context in contexts],
            lambda: decide("NORMAL"),
            lambda: decide("FULL"),
            repeats=5,
        )
        ids = [row["id"] for row in lives["NORMAL"].rows()]
        (learn,) = best_times(reward, repeats=3)
        for live in lives.values():
            live.close()
    plain, normal, full, learn = plain / STEPS, normal / STEPS, full / len(few["FULL"]), learn / STEPS
    return [
        Row(
            "a decision, NORMAL",
            normal,
            1e-4,
            "<= 0.1 ms",
            normal <= 1e-4,
            "with its propensity, 20 arms, d = 20",
        ),
        Row("a reward, NORMAL", learn, 1e-4, "<= 0.1 ms", learn <= 1e-4),
        Row("a decision, FULL", full, plain, "for the record", True, "a disk; against no journal"),
        Row("a decision, no journal", plain, 12e-6, "<= 12 us", plain <= 12e-6),
    ]
