"""False alarms of ``LinearBandit.check``, and what following its advice earns.

Three arms with the same law of rewards, which depends on nothing: normal, lognormal, 3% conversions with lognormal
baskets, and clicks of 10%. Every finding is a false alarm. 1,000 runs each, of 1,500 rows with a rare 0/1 column,
rewards missing at random and delays; ``CHECK_RUNS`` sets another number, ``CHECK_WORKERS`` that of processes. Then four
worlds in which a finding is right: how often it is made, and the share of the possible gain with and without what it
advises.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import prudent as pr
from prudent._support.streams import replication_streams

from ._bandit_worlds import Means, World
from ._timing import Row, show

ROWS = 1500
KINDS = ("normal", "lognormal", "conversions", "clicks")
ARMS = ["a", "b", "c"]


def rewards_of(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return rewards that depend on nothing."""
    if kind == "normal":
        return rng.normal(size=ROWS)
    if kind == "lognormal":
        return rng.lognormal(0.0, 1.0, ROWS)
    if kind == "conversions":
        return (rng.random(ROWS) < 0.03) * rng.lognormal(3.0, 0.8, ROWS)
    return (rng.random(ROWS) < 0.1).astype(float)


def false_alarms(kind: str, run: int) -> list[str]:
    """Return the kinds of the findings of one run in which nothing is to be found."""
    rng = np.random.default_rng([23, KINDS.index(kind), run])
    contexts = np.column_stack([rng.normal(size=(ROWS, 2)), rng.random(ROWS) < 0.01])
    arms, rewards = rng.choice(ARMS, ROWS).tolist(), rewards_of(kind, rng)
    bandit = pr.LinearBandit(ARMS, features=["u", "v", "flag"], rng=run).update(contexts, arms, rewards)
    lost, times, late = rng.random(ROWS) < 0.1, 60.0 * np.arange(ROWS), rng.exponential(600.0, ROWS)
    log = {
        "context": list(contexts),
        "arm": arms,
        "reward": [None if gone else float(reward) for gone, reward in zip(lost, rewards, strict=True)],
        "time": times,
        "reward_time": [None if gone else float(time) for gone, time in zip(lost, times + late, strict=True)],
    }
    return [finding.kind for finding in bandit.check(log)]


def _xor(x: np.ndarray, t: int) -> np.ndarray:
    return np.array([float(x[0] != x[1]), float(x[0] == x[1])])


def _turning(x: np.ndarray, t: int) -> np.ndarray:
    return np.array([1.0, -1.0, 0.5]) * x[0] * (1.0 if t <= ROWS else -1.0) + np.array([0.0, 0.0, x[1]])


PLAIN = {"interactions": "none"}
ADVICE: dict[str, tuple[str, Means, dict[str, Any], dict[str, Any]]] = {
    "product": ("interactions", _xor, {"contexts": "binary"}, {"interactions": "auto"}),
    "threshold": (
        "interactions",
        lambda x, t: np.array([float(x[0] > 0.3), float(x[0] <= 0.3)]),
        {},
        {"interactions": "auto"},
    ),
    "drift": ("drift", _turning, {}, {"half_life": 300}),
}


def advised(name: str, run: int) -> tuple[bool, float, float]:
    """Return whether the finding is made from the first half, and the shares in the second half without and with."""
    kind, means, options, advice = ADVICE[name]
    n_arms = len(means(np.zeros(4), 1))
    shares = []
    found = False
    for more in (PLAIN, PLAIN | advice):
        env_rng, agent_rng = replication_streams(29, run)
        world = World(4, n_arms, means, **options)
        bandit = pr.LinearBandit(n_arms, 4, rng=agent_rng, **more)
        log: dict[str, list[Any]] = {"context": [], "arm": [], "reward": []}
        earned = uniform = best = 0.0
        for t in range(1, 2 * ROWS + 1):
            context = world.context(t, env_rng)
            arm = bandit.select(context).arm
            reward = world.reward(t, context, arm, env_rng)
            bandit.update(context, arm, reward)
            for column, value in zip(log.values(), (context, arm, reward), strict=True):
                column.append(value)
            expected = world.mean_rewards(t, context)
            if t > ROWS:
                earned, uniform, best = earned + expected[arm], uniform + expected.mean(), best + expected.max()
        if more == PLAIN:
            found = kind in {finding.kind for finding in bandit.check(log)}
        shares.append(float((earned - uniform) / (best - uniform)))
    return found, shares[0], shares[1]


def run() -> list[Row]:
    """Count false alarms, and follow advice."""
    count, workers = (
        int(os.environ.get(f"CHECK_{name}", least)) for name, least in (("RUNS", "1000"), ("WORKERS", "2"))
    )
    rows = []
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for kind in KINDS:
            several = list(pool.map(partial(false_alarms, kind), range(count), chunksize=20))
            alarms = sum(bool(found) for found in several)
            told = ", ".join(f"{word} {times}" for word, times in Counter(w for f in several for w in f).items())
            note = f"{count} runs; {told or 'none'}"
            limit = 0.001 * count
            rows.append(
                Row(f"false alarms, {kind}", alarms, limit, "<= 1 in 1,000", alarms <= limit, note, unit="", fixed=True)
            )
        for name in ADVICE:
            several = list(pool.map(partial(advised, name), range(max(count // 50, 2))))
            made = sum(found for found, _, _ in several)
            without, following = (float(np.mean([each[i] for each in several])) for i in (1, 2))
            note = f"finding made in {made} of {len(several)} runs; share of the gain with and without following it"
            met = following > without
            rows.append(Row(f"advice, {name}", following, without, "helps", met, note, unit="share", higher=True))
    return rows


if __name__ == "__main__":
    show("Checking a bandit", run())
