"""Coverage of the intervals of ``replay`` and ``tune``: how often they contain the truth.

``python -m benchmarks.coverage_runs [LOGS]`` simulates logs as ``benchmarks.coverage`` does, 1,000 in each setting, and
prints for each setting: the mean number of kept and of rewarded rows, the share of logs whose interval contains the
true value (``replay`` by default and with ``interval="normal"``, and each setting of ``tune``), and how often ``tune``
chooses between two settings that are equal, 2.5% at most. The bandit follows the target of the setting and learns
nothing, so that its true value is known. Logs in which too few rows match for ``tune`` are counted apart.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage import Setting

REQUIRED = 0.93
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


def measure(number: int, setting: Setting, logs: int) -> dict[str, float]:
    """Return what is printed for a setting."""
    from prudent.errors import DataError
    from prudent.evaluation import replay, tune

    rng = np.random.default_rng(np.random.SeedSequence(2801, spawn_key=(number,)))
    truth, policy = setting.truth, setting.policy
    kept, rewarded, covered, normal, tuned, chosen, short = [], [], [], [], [], 0, 0
    for log in setting.logs(rng, logs):
        lowest = float(setting.chances.min())
        for interval, found in (("bernstein", covered), ("normal", normal)):
            run = replay(log, Follower(policy, rng), interval=interval, min_propensity=lowest, rng=rng)
            found.append(run.low <= truth <= run.high)
        kept.append(run.matched)
        rewarded.append(run.rewarded)
        try:
            table = tune(
                log,
                {"which": [0, 1]},
                make=lambda arms, dim, rng, which: Follower(policy, rng),
                min_propensity=lowest,
                rng=rng,
            )
        except DataError:
            short += 1
            continue
        frame = table.to_pandas()
        tuned += ((frame["low"] <= truth) & (truth <= frame["high"])).tolist()[:1]  # both are equal
        chosen += table.best is not None
    counted = max(logs - short, 1)
    return {
        "kept": float(np.mean(kept)),
        "rewarded": float(np.mean(rewarded)),
        "replay": float(np.mean(covered)),
        "normal": float(np.mean(normal)),
        "tune": float(np.mean(tuned)) if tuned else np.nan,
        "chosen": chosen / counted,
        "short": short / logs,
    }


def main(logs: int = 1_000) -> int:
    """Print the table; return 1 if a default interval covers less than is required."""
    warnings.simplefilter("ignore")
    print("| rows | rewards, level | logging | kept | rewarded | replay | normal | tune | chosen | too few rows |")
    print("|---" * 10 + "|")
    worst = 1.0
    for number, setting in enumerate(SETTINGS):
        found = measure(number, setting, logs)
        worst = min(worst, found["replay"], found["tune"] if found["short"] < 0.5 else 1.0)
        print(
            f"| {setting.rows:,} | {setting.rewards}, {setting.level:g} | {setting.overlap} | {found['kept']:.0f} | "
            f"{found['rewarded']:.1f} | {found['replay']:.1%} | {found['normal']:.1%} | {found['tune']:.1%} | "
            f"{found['chosen']:.1%} | {found['short']:.0%} |",
            flush=True,
        )
    print(f"\n{logs:,} logs in each setting. The lowest coverage is {worst:.1%}; at least {REQUIRED:.0%} is required.")
    return int(worst < REQUIRED)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
