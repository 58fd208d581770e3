"""Coverage of the intervals of ``off_policy``, ``replay`` and ``value_of_data``: how often they contain the truth.

``python -m benchmarks coverage --workers 16`` simulates 2,000 logs in each of 40 settings whose true value is known,
and prints a table in Markdown: the share of logs whose interval contains the truth, for the default interval and for
the normal one, and the median width of the default interval relative to 2 x 1.96 standard deviations of the estimate,
which is the width of a normal interval if the standard deviation were known. ``--logs 50`` is a quick run. A chunk of
logs is a unit of work: the result does not depend on the workers.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ESTIMATORS = ("ips", "snips", "dm", "dr", "sndr")
CHUNK = 50  # logs in a unit of work
REQUIRED = 0.93
FACTOR = np.array([[0.5, 1.0, 1.5], [1.0, 0.7, 1.2]])  # mean rewards [x, arm] relative to the level of a setting
TARGET = np.array([2, 1])  # arm that the target chooses at x = 0 and x = 1
CHANCES = {  # of the logging policy [x, arm]
    "good": np.array([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]]),
    "poor": np.array([[0.57, 0.4, 0.03], [0.6, 0.03, 0.37]]),
}


class Setting(NamedTuple):
    """A way of making logs."""

    rows: int
    rewards: str
    level: float
    overlap: str

    @property
    def truth(self) -> float:
        """Mean reward of the target."""
        return self.level * float(FACTOR[[0, 1], TARGET].mean())

    def log(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return a log."""
        if self.overlap == "adaptive":
            return self._adaptive(rng)
        x = rng.integers(0, 2, self.rows)
        chances = CHANCES[self.overlap][x]
        arm = (chances.cumsum(axis=1) < rng.random((self.rows, 1))).sum(axis=1).clip(max=2)
        reward = REWARDS[self.rewards](self.level * FACTOR[x, arm], rng)
        return {
            "context": np.column_stack([1.0 - x, x]),
            "arm": arm,
            "reward": reward,
            "propensity": chances[np.arange(self.rows), arm],
        }

    def _adaptive(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the log of a bandit that learns from its own rewards."""
        import prudent as pr

        bandit = pr.LinearBandit(3, dim=2, min_propensity=0.05, rng=rng)
        x = rng.integers(0, 2, self.rows)
        points = np.column_stack([1.0 - x, x])
        arms, rewards, chances = [], [], []
        for i, point in zip(x.tolist(), points, strict=True):
            decision = bandit.select(point)
            reward = float(REWARDS[self.rewards](np.array([self.level * FACTOR[i, decision.arm]]), rng)[0])
            bandit.update(point, decision.arm, reward)
            arms.append(decision.arm)
            rewards.append(reward)
            chances.append(decision.propensity)
        return {"context": points, "arm": arms, "reward": rewards, "propensity": chances}


def _clicks(mean: Any, rng: np.random.Generator) -> Any:
    return (rng.random(mean.shape) < mean).astype(np.float64)


REWARDS: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "clicks": _clicks,
    "normal": lambda mean, rng: mean + rng.standard_normal(mean.shape),
    "lognormal": lambda mean, rng: mean * np.exp(rng.standard_normal(mean.shape) - 0.5),
    "Student (3)": lambda mean, rng: mean + rng.standard_t(3.0, mean.shape),
    "Pareto (2.5)": lambda mean, rng: mean * (1.0 + rng.pareto(2.5, mean.shape)) * 0.6,
    "purchases": lambda mean, rng: 10.0 * _clicks(0.1 * mean, rng) * np.exp(rng.standard_normal(mean.shape) - 0.5),
}


def settings() -> Iterator[Setting]:
    """Yield the 40 settings."""
    for rows in (50, 300, 2_000, 10_000):
        for level in (0.01, 0.1, 0.5):
            for overlap in ("good", "poor"):
                yield Setting(rows, "clicks", level, overlap)
    for rewards in ("lognormal", "Student (3)", "Pareto (2.5)", "purchases"):
        for rows in (50, 1_000):
            yield Setting(rows, rewards, 1.0, "good")
        yield Setting(1_000, rewards, 1.0, "poor")
    for rewards, level in (("clicks", 0.05), ("normal", 1.0)):
        for rows in (50, 500):
            yield Setting(rows, rewards, level, "adaptive")


def measure(number: int, setting: Setting, chunk: int, count: int) -> Any:
    """Return estimates [L, E], and limits of the default and of the normal interval [L, E, 4]."""
    from prudent.evaluation import off_policy

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    rng = np.random.default_rng(np.random.SeedSequence(28, spawn_key=(number, chunk)))
    found = np.empty((count, len(ESTIMATORS), 5))
    warnings.simplefilter("ignore")
    for i in range(count):
        log = setting.log(rng)
        for j, interval in enumerate(("bernstein", "normal")):
            table = off_policy(log, TARGET[np.argmax(log["context"], axis=1)], arms=[0, 1, 2], interval=interval).table
            found[i, :, 0] = table.loc[list(ESTIMATORS), "estimate"]
            found[i, :, 1 + 2 * j : 3 + 2 * j] = table.loc[list(ESTIMATORS), ["low", "high"]]
    return found


def main(workers: int = 1, logs: int = 2_000, page: Path | None = None) -> int:
    """Print the table, or write it as a page; return 1 if an interval covers less than is required."""
    chosen = list(settings())
    units = [
        (number, setting, chunk, min(CHUNK, logs - chunk * CHUNK))
        for number, setting in enumerate(chosen)
        for chunk in range(-(-logs // CHUNK))
    ]
    results: dict[int, list[Any]] = {}
    with ProcessPoolExecutor(workers) as pool:
        for done, (unit, found) in enumerate(zip(units, pool.map(measure, *zip(*units, strict=True)), strict=True), 1):
            results.setdefault(unit[0], []).append(found)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(units)} chunks", end="", file=sys.stderr)
    lines, worst = [], 1.0
    for number, setting in enumerate(chosen):
        found = np.concatenate(results[number])
        truth = setting.truth
        cells = []
        for e in range(len(ESTIMATORS)):
            value, low, high, normal_low, normal_high = found[:, e].T
            covered = np.mean((low <= truth) & (truth <= high))
            normal = np.mean((normal_low <= truth) & (truth <= normal_high))
            width = np.median(high - low) / (2.0 * 1.959964 * np.nanstd(value))
            cells.append(f"{covered:.1%} ({normal:.1%}) {width:.1f}")
            worst = min(worst, float(covered))
        lines.append(
            f"| {setting.rows:,} | {setting.rewards}, {setting.level:g} | {setting.overlap} | {' | '.join(cells)} |"
        )
    head = [f"| rows | rewards, level | overlap | {' | '.join(ESTIMATORS)} |", "|---" * (3 + len(ESTIMATORS)) + "|"]
    verdict = f"{logs:,} logs in each setting. The lowest coverage is {worst:.1%}; at least {REQUIRED:.0%} is required."
    if page is not None:
        page.write_text(PAGE + "\n".join([*head, *lines, "", verdict]) + "\n", encoding="utf-8")
    print("\n".join([*head, *lines, "", verdict]))
    return int(worst < REQUIRED)


PAGE = """# Coverage of intervals

How often the 95% intervals of [`off_policy`][prudent.off_policy] contain the true value of the target. Each cell has
the share of simulated logs whose default interval contains the truth, in brackets the share for `interval="normal"`,
and the median width of the default interval relative to 2 x 1.96 standard deviations of the estimate, which a normal
interval would have if the standard deviation were known. `python -m benchmarks coverage --workers 16 --page
docs/coverage.md` simulates the logs and writes this page.

- **Overlap.** The logging policy gives each arm that the target chooses the probability 0.3 or more (good) or 0.03
  (poor), or is a `LinearBandit` with `min_propensity=0.05` that learns from its own rewards (adaptive).
- **Rewards.** Clicks are 0 or 1. Normal and Student rewards have noise of either sign around their mean; lognormal
  and Pareto rewards are skewed; purchases are lognormal amounts in about one row of ten, else 0. The level is about
  their mean. No range of rewards is given: that of clicks is known, the others are estimated from the log.

The default interval covers more than it says, because it holds for every distribution in its range. `dm` is only as
good as its reward model; its interval contains that of `dr`. No interval can know a reward that is rarer than one in
as many rows as the log has: at 50 rows of purchases some logs show none at all.

"""
