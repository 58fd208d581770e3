"""How near the kernels are to what the machine can do: the bytes and operations that they must move and do.

The rates of the machine are measured in the same run, on one thread: copies and sums of arrays larger than all caches,
products of matrices, logarithms and angles by NumPy, a synchronised write to disk. The least time of a kernel is its
work at that rate; the fraction says how much of its time could not be saved. Where a kernel beats the rate (NumPy's
logarithm is not the fastest there is), the fraction is above 100%.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from prudent.bandits import LinearBandit
from prudent.exact import dirichlet_tail
from prudent.journal import Journal
from prudent.planning.execute.threads import Threads
from prudent.planning.row_risks import MeanRows

from ._table import Limit
from ._timing import median_times

LARGE = 160 * 2**20  # bytes of an array that no cache holds
NODES = 25  # of the contour integral for ten digits, see prudent/_numerics/dirichlet_tail.py


def rates() -> dict[str, float]:
    """Return what this machine does in a second on one thread."""
    there = np.ones(LARGE // 8)
    to = np.empty_like(there)
    small, small_to = there[: 2**15], to[: 2**15]  # 256 KB each
    square = np.random.default_rng(0).random((768, 768))
    angle = np.random.default_rng(1).random(4096)
    copy, read, cached, product, logs = median_times(
        lambda: np.copyto(to, there),
        there.sum,
        lambda: [np.copyto(small_to, small) for _ in range(100)],
        lambda: square @ square,
        lambda: [(np.log(angle), np.arctan2(angle, 1.0)) for _ in range(20)],
        repeats=7,
    )
    return {
        "copy": 2 * LARGE / copy,
        "read": LARGE / read,
        "cached": 100 * 2 * small.nbytes / cached,
        "flops": 2 * 768**3 / product,
        "logs": 20 * angle.size / logs,
    }


def expected_backup(machine: dict[str, float]) -> list[Limit]:
    """Sweeps over a model that no cache holds: 12 bytes an entry (probability and index), 28 a pair."""
    found = []
    for name, reach in (("next states close by", 2000), ("next states anywhere", None)):
        rng = np.random.default_rng(5)
        states, actions, k = 200_000, 10, 5
        pairs = states * actions
        columns = rng.integers(0, reach or states, (pairs, k), dtype=np.int32)
        if reach:
            columns += (np.arange(pairs) // actions).astype(np.int32)[:, None]
            columns %= states
        data = np.full(pairs * k, 1.0 / k)
        starts = np.arange(0, pairs * k + 1, k, dtype=np.int32)
        matrix = sparse.csr_array((data, columns.ravel(), starts), shape=(pairs, states))
        operator = Threads(MeanRows(matrix, rng.random((states, actions)), 0.99))
        value, every, q = rng.random(states), np.arange(pairs), np.empty(pairs)
        (seconds,) = median_times(lambda o=operator, v=value, e=every, q=q: o.backup(v, e, q), repeats=5)
        # reward, row pointer and number of the pair are read, q is written
        moved = 12 * pairs * k + (8 + 4 + 8 + 8) * pairs + 8 * states
        found.append(
            Limit(
                f"expected backup, 200,000 x 10 x 5, {name}",
                seconds,
                moved / machine["copy"],
                f"{moved / 1e6:.0f} MB",
                f"copy at {machine['copy'] / 1e9:.1f} GB/s",
                f"{1e9 * seconds / (pairs * k):.2f} ns an entry" + ("" if reach else "; values are gathered at random"),
            )
        )
    return found


def exact_row(machine: dict[str, float]) -> list[Limit]:
    """A row of CVaR with K outcomes: at least one logarithm and one angle for each outcome and node."""
    found = []
    for k in (5, 100):
        rng = np.random.default_rng(6)
        values, counts = np.sort(rng.random(k)), 1.0 + rng.poisson(3.0, k).astype(float)
        rows = 200
        stack = np.tile(values, (rows, 1)), np.tile(counts, (rows, 1))
        (seconds,) = median_times(lambda s=stack: dirichlet_tail(*s, 0.9, threads=1), repeats=5)
        seconds /= rows
        operations = seconds * machine["flops"]
        found.append(
            Limit(
                f"exact risk of a row, {k} outcomes, ten digits",
                seconds,
                NODES * k / machine["logs"],
                f"{NODES * k:,} logarithms and angles",
                f"NumPy at {machine['logs'] / 1e6:.0f} M/s",
                f"an outcome takes {operations / k:,.0f} operations of a matrix product; it finds the quantile first",
            )
        )
    return found


def bandit_step(machine: dict[str, float]) -> list[Limit]:
    """A decision reads a triangle for each arm, a reward updates one."""
    found = []
    for arms, dim in ((10, 20), (10, 1000)):
        rng = np.random.default_rng(0)
        contexts = rng.random((10, dim))
        bandit = LinearBandit(arms, dim, noise_sd=1.0, intercept=False, rng=0)
        bandit.update(rng.random((2 * arms, dim)), np.arange(2 * arms) % arms, rng.random(2 * arms))

        def decide(bandit: LinearBandit = bandit, contexts: np.ndarray = contexts) -> None:
            for context in contexts:
                bandit.update(context, bandit.select(context).arm, 1.0)

        (seconds,) = median_times(decide, repeats=9)
        seconds /= len(contexts)
        triangle = dim * (dim + 1) // 2 * 8
        moved = (arms + 4) * triangle  # a triangle each; the sums and the root of one arm are read and written
        wide = dim >= 500
        rate = machine["read"] if wide else machine["cached"]
        found.append(
            Limit(
                f"bandit, select and update, {arms} arms, {dim:,} features",
                seconds,
                moved / rate,
                f"{moved / 1e6:.3g} MB",
                f"{'read' if wide else 'copy in cache'} at {rate / 1e9:.1f} GB/s",
                "" if wide else "two calls from Python take nearly all of it",
            )
        )
    return found


def journal() -> list[Limit]:
    """A decision that the disk has, against one synchronised write of as many bytes."""
    rng = np.random.default_rng(0)
    contexts = rng.random((30, 20))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.open(Path(folder) / "raw", os.O_WRONLY | os.O_CREAT)
        block = os.urandom(4096 + 24)  # a page of the database with the head of its frame

        def synchronised() -> None:
            for _ in contexts:
                os.write(file, block)
                os.fsync(file)

        def written() -> None:
            for _ in contexts:
                os.write(file, block)

        for mode, raw in (("FULL", synchronised), ("NORMAL", written)):
            bandit = LinearBandit(20, 20, rng=0)
            with Journal(Path(folder) / mode, bandit, synchronous=mode) as live:
                ours, least = median_times(
                    lambda j=live: [j.select(x) for x in contexts], raw, repeats=5, clock=time.perf_counter
                )
            found.append(
                Limit(
                    f"journal, a decision, {mode}",
                    ours / len(contexts),
                    least / len(contexts),
                    "one page of 4 KB" + (" and fsync" if mode == "FULL" else ""),
                    f"measured beside it, {1e6 * least / len(contexts):.0f} us",
                    "with the choice, its propensity and SQLite",
                    compared=False,
                )
            )
        os.close(file)
    return found


def run() -> list[Limit]:
    """Return all limits."""
    machine = rates()
    return [*expected_backup(machine), *exact_row(machine), *bandit_step(machine), *journal()]
