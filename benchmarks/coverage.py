"""Coverage of the intervals of ``off_policy``, ``replay`` and ``value_of_data``: how often they contain the truth.

``python -m benchmarks coverage --workers 16`` simulates 2,000 logs in each of 54 settings whose true value is known,
and prints a table in Markdown: the share of logs whose interval contains the truth, for the default interval and for
the normal one, and the median width of the default interval relative to 2 x 1.96 standard deviations of the estimate,
which is the width of a normal interval if the standard deviation were known. ``--logs 50`` is a quick run. A chunk of
logs is a unit of work: the result does not depend on the workers. With ``--keep FOLDER`` finished chunks are kept
there, and a run that was stopped goes on.

Nothing about the intervals was chosen on the last 14 settings (``unseen``): other numbers of arms, targets, rewards and
logging policies, among them ones that learn.
"""

from __future__ import annotations

import hashlib
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
CHANCES = {  # of the logging policy [x, arm]
    "good": np.array([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]]),
    "poor": np.array([[0.57, 0.4, 0.03], [0.6, 0.03, 0.37]]),
}
LEARNS = ("adaptive", "ucb", "falling epsilon")


class Setting(NamedTuple):
    """A way of making logs."""

    rows: int
    rewards: str
    level: float
    overlap: str
    arms: int = 3
    target: str = "fixed"

    @property
    def factor(self) -> Any:
        """Mean rewards [x, arm] relative to the level."""
        return FACTOR if self.arms == 3 else np.random.default_rng(self.arms).uniform(0.5, 1.5, (2, self.arms))

    @property
    def policy(self) -> Any:
        """Probabilities of the target [x, arm]."""
        if self.target == "fixed":
            return np.eye(3)[[2, 1]]
        if self.target == "uniform":
            return np.full((2, self.arms), 1.0 / self.arms)
        if self.target == "best":
            return np.eye(self.arms)[self.factor.argmax(axis=1)]
        weights = np.exp(self.factor / 0.2)
        return weights / weights.sum(axis=1, keepdims=True)

    @property
    def chances(self) -> Any:
        """Probabilities of a logging policy that does not learn [x, arm]."""
        if self.overlap in CHANCES:
            return CHANCES[self.overlap]
        if self.overlap == "uniform":
            return np.full((2, self.arms), 1.0 / self.arms)
        assert self.overlap == "nearly fixed"
        return 0.02 / self.arms + 0.98 * np.eye(self.arms)[[0, self.arms - 1]]

    @property
    def truth(self) -> float:
        """Mean reward of the target."""
        return self.level * float((self.policy * self.factor).sum(axis=1).mean())

    def logs(self, rng: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """Yield logs; those of policies that learn are made side by side, a row at a time."""
        if self.overlap == "adaptive":
            for _ in range(count):
                yield self._adaptive(rng)
            return
        if self.overlap in LEARNS:
            yield from self._learned(rng, count)
            return
        for _ in range(count):
            x = rng.integers(0, 2, self.rows)
            chances = self.chances[x]
            arm = (chances.cumsum(axis=1) < rng.random((self.rows, 1))).sum(axis=1).clip(max=self.arms - 1)
            reward = REWARDS[self.rewards](self.level * self.factor[x, arm], rng)
            yield self._log(x, arm, reward, chances[np.arange(self.rows), arm])

    @staticmethod
    def _log(x: Any, arm: Any, reward: Any, chance: Any) -> dict[str, Any]:
        return {"context": np.column_stack([1.0 - x, x]), "arm": arm, "reward": reward, "propensity": chance}

    def _learned(self, rng: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """Yield logs of policies that learn: mostly the highest upper bound, or an epsilon that falls."""
        size, logs = self.arms, np.arange(count)
        total, pulls = np.zeros((2, count, size)), np.full((2, count, size), 1e-9)  # [x, log, arm]
        x = rng.integers(0, 2, (self.rows, count))
        arms, rewards, chances = np.empty((self.rows, count), int), np.empty(x.shape), np.empty(x.shape)
        for t in range(self.rows):
            tries = pulls[x[t], logs]
            worth = total[x[t], logs] / tries
            if self.overlap == "ucb":
                worth, epsilon = worth + self.level * np.sqrt(2.0 * np.log(t + 2.0) / np.maximum(tries, 0.1)), 0.2
            else:
                epsilon = max(0.05, 1.0 / np.sqrt(1.0 + t / 10.0))
            best = np.argmax(worth, axis=1)
            arm = np.where(rng.random(count) < epsilon, rng.integers(0, size, count), best)
            reward = REWARDS[self.rewards](self.level * self.factor[x[t], arm], rng)
            total[x[t], logs, arm] += reward
            pulls[x[t], logs, arm] += 1.0
            arms[t], rewards[t], chances[t] = arm, reward, epsilon / size + (1.0 - epsilon) * (arm == best)
        for i in range(count):
            yield self._log(x[:, i], arms[:, i], rewards[:, i], chances[:, i])

    def _adaptive(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the log of a bandit that learns from its own rewards."""
        import prudent as pr

        bandit = pr.LinearBandit(3, dim=2, min_propensity=0.05, rng=rng)
        x = rng.integers(0, 2, self.rows)
        arms, rewards, chances = [], [], []
        for i, point in zip(x.tolist(), np.column_stack([1.0 - x, x]), strict=True):
            decision = bandit.select(point)
            reward = float(REWARDS[self.rewards](np.array([self.level * FACTOR[i, decision.arm]]), rng)[0])
            bandit.update(point, decision.arm, reward)
            arms.append(decision.arm)
            rewards.append(reward)
            chances.append(decision.propensity)
        return self._log(x, arms, rewards, chances)


def _clicks(mean: Any, rng: np.random.Generator) -> Any:
    return (rng.random(mean.shape) < mean).astype(np.float64)


REWARDS: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "clicks": _clicks,
    "normal": lambda mean, rng: mean + rng.standard_normal(mean.shape),
    "lognormal": lambda mean, rng: mean * np.exp(rng.standard_normal(mean.shape) - 0.5),
    "Student (3)": lambda mean, rng: mean + rng.standard_t(3.0, mean.shape),
    "Pareto (2.5)": lambda mean, rng: mean * (1.0 + rng.pareto(2.5, mean.shape)) * 0.6,
    "Beta": lambda mean, rng: rng.beta(0.8 * mean, 0.8 * (1.0 - mean)),
    "jackpots": lambda mean, rng: mean * (0.5 + 25.0 * _clicks(np.full(mean.shape, 0.02), rng)),
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
    yield from unseen()


def unseen() -> Iterator[Setting]:
    """Yield 14 settings on which nothing about the intervals was chosen."""
    for rows in (60, 700):
        yield Setting(rows, "Beta", 0.2, "uniform", 4, "softmax")
        yield Setting(rows, "Beta", 0.05, "good", 3, "fixed")
        yield Setting(rows, "clicks", 0.1, "uniform", 25, "best")
    yield Setting(700, "jackpots", 1.0, "good", 3, "fixed")
    yield Setting(3_000, "jackpots", 1.0, "uniform", 6, "softmax")
    yield Setting(400, "clicks", 0.3, "nearly fixed", 3, "uniform")
    yield Setting(3_000, "lognormal", 1.0, "nearly fixed", 4, "best")
    for overlap in ("ucb", "falling epsilon"):
        yield Setting(200, "clicks", 0.2, overlap, 5, "best")
        yield Setting(1_000, "Beta", 0.3, overlap, 4, "uniform")


def measure(number: int, setting: Setting, chunk: int, count: int) -> Any:
    """Return estimates [L, E], and limits of the default and of the normal interval [L, E, 4]."""
    from prudent.evaluation.logs import Layout
    from prudent.evaluation.off_policy import collected, estimates_of

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    rng = np.random.default_rng(np.random.SeedSequence(28, spawn_key=(number, chunk)))
    found = np.empty((count, len(ESTIMATORS), 5))
    warnings.simplefilter("ignore")
    policy, layout = setting.policy, Layout(None, None, list(range(setting.arms)), None, 1 << 14, False)
    for i, log in enumerate(setting.logs(rng, count)):
        x = log["context"][:, 1].astype(np.int64)
        parts = collected(log, policy[x], None, None, 5, layout)  # one pass over the log for both intervals
        for j, interval in enumerate(("bernstein", "normal")):
            table = estimates_of(parts, 0.95, interval).table
            rows = [table.index.get_loc(name) for name in ESTIMATORS]
            numbers = table[["estimate", "low", "high"]].to_numpy()[rows]
            found[i, :, 0], found[i, :, 1 + 2 * j : 3 + 2 * j] = numbers[:, 0], numbers[:, 1:]
    return found


def kept(folder: Path | None, number: int, setting: Setting, chunk: int, count: int) -> Any:
    """Return what `measure` does, from the folder if it is there."""
    if folder is None:
        return measure(number, setting, chunk, count)
    key = hashlib.sha256(repr((number, setting, chunk, count)).encode()).hexdigest()[:20]
    file = folder / f"{key}.npy"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{key}.{os.getpid()}.tmp.npy"
        np.save(partial, measure(number, setting, chunk, count))
        partial.replace(file)
    return np.load(file)


def main(workers: int = 1, logs: int = 2_000, page: Path | None = None, keep: Path | None = None) -> int:
    """Print the table, or write it as a page; return 1 if an interval covers less than is required."""
    chosen = list(settings())
    units = [
        (keep, number, setting, chunk, min(CHUNK, logs - chunk * CHUNK))
        for number, setting in enumerate(chosen)
        for chunk in range(-(-logs // CHUNK))
    ]
    results: dict[int, list[Any]] = {}
    with ProcessPoolExecutor(workers) as pool:
        for done, (unit, found) in enumerate(zip(units, pool.map(kept, *zip(*units, strict=True)), strict=True), 1):
            results.setdefault(unit[1], []).append(found)
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
            f"| {setting.rows:,} | {setting.rewards}, {setting.level:g} | {setting.overlap} | "
            f"{setting.arms}, {setting.target} | {' | '.join(cells)} |"
        )
    names = ["rows", "rewards, level", "logging", "arms, target", *ESTIMATORS]
    head = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
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

- **Logging.** The logging policy gives each arm that the target chooses the probability 0.3 or more (good) or 0.03
  (poor), is uniform, or takes one arm in 98% of the rows (nearly fixed). Others learn from their own rewards: a
  `LinearBandit` with `min_propensity=0.05` (adaptive), the highest upper confidence bound in 80% of the rows (ucb), and
  the best arm so far but for a share of random choices that falls from 1 to 0.05 (falling epsilon).
- **Target.** One arm for each of two contexts (fixed, or the best), a softmax of the true means, or uniform.
- **Rewards.** Clicks are 0 or 1. Normal and Student rewards have noise of either sign around their mean; lognormal
  and Pareto rewards are skewed; purchases are lognormal amounts in about one row of ten, else 0; Beta rewards crowd at
  0 and 1; one row of fifty has a jackpot of fifty times the others. The level is about their mean. No range of rewards
  is given: that of clicks is known, the others are estimated from the log.

Nothing about the intervals was chosen on the last 14 rows. The default interval covers more than it says, because it
holds for every distribution in its range. `dm` is only as good as its reward model; its interval contains that of
`dr`. No interval can know a reward that is rarer than one in as many rows as the log has: at 50 rows of purchases some
logs show none at all.

"""
