"""Coverage of the intervals of ``replay`` and ``tune``: how often they contain the truth.

``python -m benchmarks.coverage_runs [LOGS [WORKERS]]`` simulates logs as ``benchmarks.coverage`` does, 1,000 in each
setting, and prints for each setting: the mean number of kept and of rewarded rows, the share of logs whose interval
contains the true value (``replay`` by default and with ``interval="normal"``, and each setting of ``tune``), and how
often ``tune`` chooses between two settings that are equal, 2.5% at most. The bandit follows the target of the setting
and learns nothing, so that its true value is known. Logs in which too few rows match for ``tune`` are counted apart.
"""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage import Setting

REQUIRED = 0.93
CHUNK = 50  # logs in a unit of work
NAMES = ("kept", "rewarded", "replay", "normal", "tune", "chosen", "short")
SETTINGS = (
    *(Setting(rows, "clicks", level, "good") for rows in (300, 1_500) for level in (0.01, 0.1, 0.5)),
    Setting(60, "clicks", 0.1, "good"),
    Setting(60, "clicks", 0.5, "good"),
    *(Setting(rows, rewards, 1.0, "good") for rewards in ("lognormal", "Student (3)") for rows in (300, 1_500)),
    Setting(1_500, "purchases", 1.0, "good"),
    Setting(600, "Beta", 0.2, "uniform", 4, "softmax"),
)


class _Choice(NamedTuple):
    arm: int


class Follower:
    """A bandit that follows fixed chances [x, arm] in contexts (1 - x, x) and learns nothing."""

    def __init__(self, chances: Any, rng: np.random.Generator) -> None:
        self.arms, self._chances, self._rng = list(range(chances.shape[1])), chances, rng

    def propensities(self, contexts: Any, arms: list[int]) -> Any:
        """Return the chances [T, k] of arms."""
        return self._chances[np.asarray(contexts)[:, 1].astype(np.int64)][:, arms]

    def select(self, context: Any, arms: list[int]) -> _Choice:
        """Return the choice between arms of which only one is asked for."""
        return _Choice(arms[0])

    def update(self, context: Any, arm: int, reward: float) -> None:
        """Learn nothing."""


def measure(number: int, setting: Setting, chunk: int, logs: int) -> Any:
    """Return totals of what is printed for a setting: kept, rewarded, covered by replay, by normal; tuned, ..."""
    from prudent.errors import DataError
    from prudent.evaluation import replay, tune

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(np.random.SeedSequence(2801, spawn_key=(number, chunk)))
    truth, policy, totals = setting.truth, setting.policy, np.zeros(len(NAMES))
    lowest = float(setting.chances.min())
    for log in setting.logs(rng, logs):
        runs = [
            replay(log, Follower(policy, rng), interval=interval, min_propensity=lowest, rng=rng)
            for interval in ("bernstein", "normal")
        ]
        covered = [run.low <= truth <= run.high for run in runs]
        try:
            table = tune(
                log,
                {"which": [0, 1]},
                make=lambda arms, dim, rng, which: Follower(policy, rng),
                min_propensity=lowest,
                rng=rng,
            )
            frame = table.to_pandas()
            first = frame.iloc[0]  # both are equal
            tuned = (first["low"] <= truth <= first["high"], table.best is not None, False)
        except DataError:
            tuned = (False, False, True)
        totals += [runs[1].matched, runs[1].rewarded, *covered, *tuned]
    return totals


def main(logs: int = 1_000, workers: int = 1) -> int:
    """Print the table; return 1 if a default interval covers less than is required."""
    print("| rows | rewards, level | logging | kept | rewarded | replay | normal | tune | chosen | too few rows |")
    print("|---" * 10 + "|")
    chunks = [(chunk, min(CHUNK, logs - chunk * CHUNK)) for chunk in range(-(-logs // CHUNK))]
    units = [(number, setting, *chunk) for number, setting in enumerate(SETTINGS) for chunk in chunks]
    worst = 1.0
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(measure, *zip(*units, strict=True))
        for setting in SETTINGS:
            shares = dict(zip(NAMES, sum(next(found) for _ in chunks) / logs, strict=True))
            counted = max(1.0 - shares["short"], 1e-9)
            tuned, chosen = shares["tune"] / counted, shares["chosen"] / counted
            worst = min(worst, shares["replay"], tuned if shares["short"] < 0.5 else 1.0)
            print(
                f"| {setting.rows:,} | {setting.rewards}, {setting.level:g} | {setting.overlap} | "
                f"{shares['kept']:.0f} | {shares['rewarded']:.1f} | {shares['replay']:.1%} | {shares['normal']:.1%} | "
                f"{'none' if shares['short'] == 1.0 else f'{tuned:.1%}'} | {chosen:.1%} | {shares['short']:.0%} |",
                flush=True,
            )
    print(f"\n{logs:,} logs in each setting. The lowest coverage is {worst:.1%}; at least {REQUIRED:.0%} is required.")
    return int(worst < REQUIRED)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
