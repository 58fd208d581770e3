"""Revenue as purchases times baskets: ``python -m benchmarks revenue --workers N``.

Five arms; a decision earns nothing, or a basket if there is a purchase. Chances of a purchase follow a logistic model
of three features, baskets are lognormal with a coefficient of variation of 1.5. Three worlds:

- ``conversion``: baskets are the same for all arms, the chances of a purchase differ by arm and context;
- ``trap``: the arm that sells most often sells what is cheap, the best one sells rarely and much;
- ``both``: chances and mean baskets both depend on the context.

Compared are ``rewards="hurdle"``, the default on the same revenue (``rewards="gaussian"``), the same with Thompson
sampling and without interactions, and clicks alone (``rewards="bernoulli"`` of whether there was a purchase). What is
reported is the share of the best expected revenue that was lost, over all decisions, in worlds drawn anew for each seed
and the same for all bandits.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from prudent.bandits import LinearBandit

from . import _study
from ._timing import Row

WORLDS = ("conversion", "trap", "both")
BANDITS: dict[str, dict[str, Any]] = {
    "hurdle": {"rewards": "hurdle"},
    "default": {},
    "Thompson": {"exploration": 1.0, "interactions": "none"},
    "clicks": {"rewards": "bernoulli"},
}
ARMS, FEATURES, SPREAD = 5, 3, 1.5
DECISIONS, AT_A_TIME = 20_000, 20


class _World:
    """Chances of purchases and mean baskets of one draw of a world."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        levels = np.log(0.04) + 0.35 * rng.normal(size=ARMS)
        self.slopes = 0.35 * rng.normal(size=(ARMS, FEATURES))
        self.baskets, self.turns = np.full(ARMS, 40.0), np.zeros((ARMS, FEATURES))
        if name == "trap":
            order = np.argsort(np.argsort(-levels))
            self.baskets = 12.0 * 2.2**order  # the more rarely an arm sells, the larger the basket
            levels = np.log(0.06) - 0.5 * order + 0.1 * rng.normal(size=ARMS)
        if name == "both":
            self.baskets = 40.0 * np.exp(0.4 * rng.normal(size=ARMS))
            self.turns = 0.25 * rng.normal(size=(ARMS, FEATURES))
        self.levels = levels

    def means(self, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return chances and mean baskets [T, A]."""
        chance = 1.0 / (1.0 + np.exp(-(self.levels + x @ self.slopes.T)))
        return chance, self.baskets * np.maximum(1.0 + x @ self.turns.T, 0.2)


def lost(task: tuple[Any, ...]) -> float:
    """Return the share of the best expected revenue that one bandit loses in one world."""
    name, bandit, seed, decisions = task[:4]
    rng = np.random.default_rng([seed, WORLDS.index(name)])
    world, options = _World(name, rng), dict(BANDITS[bandit])
    learner = LinearBandit(ARMS, FEATURES, rng=seed, **options)
    log_sd = math.sqrt(math.log1p(SPREAD**2))
    earned = best = 0.0
    for _ in range(decisions // AT_A_TIME):
        x = rng.normal(size=(AT_A_TIME, FEATURES))
        chance, basket = world.means(x)
        sold, size = rng.random(AT_A_TIME), np.exp(log_sd * rng.normal(size=AT_A_TIME) - 0.5 * log_sd**2)
        arms = learner.select(x, propensity=False).arm.astype(np.int64)
        rows = np.arange(AT_A_TIME)
        value = chance * basket
        earned, best = earned + value[rows, arms].sum(), best + value.max(axis=1).sum()
        reward = np.where(sold < chance[rows, arms], size * basket[rows, arms], 0.0)
        learner.update(x, arms.tolist(), np.sign(reward) if options.get("rewards") == "bernoulli" else reward)
    return float(1.0 - earned / best)


def table(runs: int, decisions: int, workers: int, keep: Path | None = None) -> dict[str, dict[str, list[float]]]:
    """Return the losses of all runs, by world and bandit."""
    tasks = [(w, b, seed, decisions) for seed in range(runs) for w in WORLDS for b in BANDITS]
    said = _study.results(lost, tasks, workers, keep)
    found: dict[str, dict[str, list[float]]] = {w: {b: [] for b in BANDITS} for w in WORLDS}
    for task, loss in zip(tasks, said, strict=True):
        found[task[0]][task[1]].append(loss)
    return found


def listing(found: dict[str, dict[str, list[float]]]) -> str:
    """Return the losses with intervals at 95%, and the paired differences to the hurdle, as text."""
    lines = []
    for world, losses in found.items():
        ours = np.array(losses["hurdle"])
        for bandit, values in losses.items():
            each = np.array(values)
            gap = each - ours
            half = 1.96 / math.sqrt(each.size)
            more = (
                "" if bandit == "hurdle" else f"   {gap.mean():+7.2%} +- {half * gap.std(ddof=1):.2%} than the hurdle"
            )
            lines.append(f"{world:12} {bandit:8} loses {each.mean():6.2%} +- {half * each.std(ddof=1):.2%}{more}")
    return "\n".join(lines)


def run(runs: int = 6, decisions: int = 4000) -> list[Any]:
    """Return the rows of the table of benchmarks."""
    rows = []
    for world, losses in table(runs, decisions, 1).items():
        ours, theirs = np.array(losses["hurdle"]), np.array(losses["default"])
        error = float((theirs - ours).std(ddof=1)) / math.sqrt(runs)
        note = f"share of revenue lost in {decisions:,} decisions, world {world}, difference +- {error:.3f}"
        met = bool(ours.mean() <= theirs.mean() + 2.0 * error)
        kept = {"unit": "", "higher": False, "compared": False}
        rows.append(Row(f"revenue, {world}", float(ours.mean()), float(theirs.mean()), "not worse", met, note, **kept))
    return rows


def main(arguments: list[str]) -> int:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks revenue", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file of finished runs, from which a run goes on")
    asked = parser.parse_args(arguments)
    print(listing(table(asked.runs, asked.decisions, asked.workers, asked.keep)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
