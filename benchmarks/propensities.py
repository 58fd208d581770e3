"""Are logged propensities true: ``python -m benchmarks.propensities --decisions 1000000 --keep propensities.jsonl``.

Processes with replicas of their own decide for users of one slot with an experiment: floors, a cap, a control arm with
a fixed share, a ramp, a hold-out, sticky users. Rewards are learned by all of them, later than decisions are taken, so
replicas lag behind each other. For each part and arm the count of decisions is compared with the sum of the
propensities that the arm had in all decisions of the part: the difference is a martingale with the variance sum of
p (1 - p). A sticky decision counts once. Limit: five standard errors. The work is done in pieces, each with a slot of
its own and ``--replicas`` processes. What a piece has found is appended to the file ``--keep``; run again, the command
goes on with the pieces that are missing.

With ``--store postgresql`` the slots are in servers of PostgreSQL that the command starts.

Before that, bandits with floors and caps by arm decide as often in one and the same context, without a journal.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import prudent as pr
from prudent.errors import ParameterError
from prudent.service.bodies import SlotSpec
from prudent.service.experiment_specs import ExperimentSpec, HoldOut
from prudent.service.experiments import Experiment
from prudent.service.registry import Registry

from ._journal_writers import server
from ._study import results

ARMS = ["control", "a", "b", "c"]
LIMIT = 5.0
_BATCH = 200


def repeated(decisions: int) -> dict[str, Any]:
    """Return counts, sums and variances of decisions in one context, by kind of rewards."""
    found: dict[str, Any] = {}
    given: dict[str, dict[str, Any]] = {
        "gaussian": {"dim": 2, "noise_sd": 1.0},
        "by arm": {"dim": 2, "noise": "by arm", "alpha": 0.5},
        "clicks": {"dim": 0, "rewards": "bernoulli"},
        "logistic": {"dim": 2, "rewards": "bernoulli", "alpha": 0.5},
    }
    for name, options in given.items():
        limits = {"min_propensity": {"control": 0.15, "c": 0.05}, "max_propensity": {"control": 0.15, "a": 0.5}}
        bandit = pr.LinearBandit(ARMS, **options, **limits)
        point = [0.5] * bandit.dim
        for arm, wins in zip(ARMS, (0, 6, 1, 4), strict=True):
            bandit.update([point] * 8, [arm] * 8, [float(i < wins) for i in range(8)])
        p, sums = bandit.propensities(point), np.zeros((3, len(ARMS)))
        total = decisions // len(given)
        for start in range(0, total, 10_000):
            many = np.tile(point, (min(10_000, total - start), 1))
            chosen = bandit.select(many).arm
            sums[0] += [(chosen == arm).sum() for arm in ARMS]
        sums[1], sums[2] = total * p, total * p * (1.0 - p)
        found[name] = sums
    return found


def spec(sticky: float = 1e9) -> ExperimentSpec:
    """Return the experiment."""
    challenger = SlotSpec(arms=list(ARMS), dim=2, noise_sd=1.0, alpha=0.5, min_propensity=0.03)
    return ExperimentSpec(
        ramp=0.3, challenger=challenger, holdout=HoldOut(0.1, {"control": 0.5, "a": 0.25, "c": 0.25}), sticky=sticky,
        control="control", control_share=0.15, min_propensity={"c": 0.05}, max_propensity={"a": 0.5},
    )  # fmt: skip


def prepare(store: str) -> None:
    """Make the slot and start its experiment."""
    registry = Registry(store, synchronous="NORMAL", timeout=120.0)
    with registry.journal("home", pr.LinearBandit(ARMS, 2, noise_sd=1.0)) as journal:
        experiment = Experiment(registry, "home", journal)
        experiment.put(spec(), "benchmark", "home")
        experiment.close()
    registry.close()


def work(given: tuple[str, int, int]) -> dict[str, Any]:
    """Decide and report rewards in one process; return counts, sums and variances by part and arm."""
    store, number, decisions = given
    rng = np.random.default_rng([number, time.time_ns()])
    registry = Registry(store, synchronous="NORMAL", timeout=120.0)
    found: dict[str, Any] = {}
    worth = dict(zip(ARMS, (0.0, 0.6, 0.2, 0.4), strict=True))
    with registry.journal("home") as journal:
        experiment = Experiment(registry, "home", journal)
        late: list[tuple[str, float, None]] = []
        fresh = 0
        while fresh < decisions:
            users = rng.integers(0, 4 * decisions, _BATCH)  # some come back, here or to another process
            contexts = rng.normal(size=(_BATCH, 2))
            asked = [{"context": x.tolist(), "note": {"user": int(u)}} for x, u in zip(contexts, users, strict=True)]
            seen: set[str] = set()
            for one, x in zip(experiment.decide(asked), contexts, strict=True):
                if isinstance(one, Exception):
                    raise one
                assert one.id is not None
                if one.id in seen:  # twice in a batch
                    continue
                seen.add(one.id)
                try:
                    p = one.propensities
                except ParameterError:  # the first decision of a sticky user, taken earlier
                    continue
                fresh += 1
                part = one.id.partition("~")[0] if "~" in one.id else "champion"
                sums = found.setdefault(part, np.zeros((3, len(ARMS))))
                sums[0, ARMS.index(one.arm)] += 1.0
                sums[1:] += p, p * (1.0 - p)
                assert abs(one.propensity - p[ARMS.index(one.arm)]) < 1e-9
                late.append((one.id, float(worth[one.arm] * x[0] + rng.normal()), None))
            if len(late) > 10 * _BATCH:  # rewards come later, and not all of them
                ready, late = late[: 5 * _BATCH], late[5 * _BATCH :]
                experiment.reward([one for one in ready if rng.random() < 0.3])
        experiment.close()
    registry.close()
    return found


def measured(task: tuple[str, int, int, int]) -> dict[str, Any]:
    """Return the sums of a piece: processes that decide for one slot, in a store of their own."""
    store, _, decisions, replicas = task
    database = server() if store == "postgresql" else None
    with tempfile.TemporaryDirectory() as folder:
        try:
            address = f"sqlite:{folder}" if database is None else database.address
            prepare(address)
            shares = [(address, number, math.ceil(decisions / replicas)) for number in range(replicas)]
            with ProcessPoolExecutor(replicas, multiprocessing.get_context("spawn")) as pool:
                return {part: one.tolist() for part, one in _total(pool.map(work, shares)).items()}
        finally:
            if database is not None:
                database.close()


def _total(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for result in results:
        for part, sums in result.items():
            total[part] = total.get(part, 0.0) + np.asarray(sums)
    return total


def deviations(total: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the difference of count and sum in standard errors, by part and arm."""
    return {
        (part, arm): float((sums[0, i] - sums[1, i]) / max(math.sqrt(sums[2, i]), 1e-300)) if sums[2, i] > 1e-9
        else (0.0 if abs(sums[0, i] - sums[1, i]) < 1e-6 else math.inf)
        for part, sums in total.items()
        for i, arm in enumerate(ARMS)
    }  # fmt: skip


def main() -> int:
    """Print the table; return 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, default=Path("propensities.jsonl"), help="file of the pieces")
    parser.add_argument("--piece", type=int, default=25_000, help="decisions of a piece")
    parser.add_argument("--replicas", type=int, default=2, help="processes that decide for one slot")
    parser.add_argument("--workers", type=int, default=1, help="pieces at the same time")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    given = parser.parse_args()
    alone = repeated(given.decisions)
    bad = _show(f"{given.decisions:,} decisions in one context", alone)
    tasks = [(given.store, i, given.piece, given.replicas) for i in range(math.ceil(given.decisions / given.piece))]
    found = results(measured, tasks, given.workers, given.keep)
    made = int(sum(np.array(sums)[0].sum() for one in found for sums in one.values()))
    title = f"{made:,} decisions of {len(found)} slots in {given.store} by {given.replicas} processes each"
    bad |= _show(title, _total(found))
    return int(bad)


def _show(title: str, total: dict[str, Any]) -> bool:
    """Print a table, and return whether the limit is missed."""
    found = deviations(total)
    print(title)
    print(f"{'part':12}{'arm':10}{'count':>10}{'sum of p':>14}{'standard errors':>17}")
    for (part, arm), off in found.items():
        sums, i = total[part], ARMS.index(arm)
        note = "" if abs(off) <= LIMIT else "  MISSED"
        print(f"{part:12}{arm:10}{sums[0, i]:10.0f}{sums[1, i]:14.1f}{off:17.2f}{note}", flush=True)
    return any(abs(off) > LIMIT for off in found.values())


if __name__ == "__main__":
    raise SystemExit(main())
