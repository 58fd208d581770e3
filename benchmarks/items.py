"""Clicks of items that share their coefficients, at low rates: ``python -m benchmarks.items [runs]``.

300 items with eight features, 20 of which are candidates for each of 3,000 decisions. The log odds of a click are
linear in the features; in half of the worlds each item also has something of its own (sd 0.7). At an average item the
rate is 2% or 10%. Compared are our bandits, with and without offsets, and Vowpal Wabbit with several kinds of
exploration (its best one in hindsight). What is reported is the share of what an oracle earns beyond uniform choices,
with intervals of 95% over worlds that are drawn anew, the same for all.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from prudent._support.intervals import mean_and_half_width
from prudent.bandits import SharedLinearBandit

from ._timing import Row, show

ITEMS, CANDIDATES, FEATURES, DECISIONS = 300, 20, 8, 3000
WORLDS = {"2%": (0.02, 0.0), "2%, own": (0.02, 0.7), "10%": (0.1, 0.0), "10%, own": (0.1, 0.7)}
OURS: dict[str, dict[str, Any]] = {
    "clicks": {"rewards": "bernoulli"},
    "clicks, full width": {"rewards": "bernoulli", "exploration": 1.0},
    "normal": {},
    "normal, full width": {"exploration": 1.0},
    "offsets": {"offsets": True},
    "offsets of precision 1": {"offsets": True, "offset_precision": 1.0},
}
THEIRS = ("--squarecb", "--epsilon 0.01", "--epsilon 0.05", "--regcb", "--softmax --lambda 20")


class _Ours:
    def __init__(self, seed: int, options: dict[str, Any]) -> None:
        self.bandit, self.named = SharedLinearBandit(FEATURES, rng=seed, **options), options.get("offsets", False)

    def choose(self, rows: np.ndarray, names: np.ndarray) -> int:
        decision = self.bandit.select(rows, names.tolist() if self.named else None, propensity=False)
        return int(np.flatnonzero(names == decision.arm)[0]) if self.named else int(decision.arm)

    def learn(self, rows: np.ndarray, names: np.ndarray, place: int, reward: float) -> None:
        self.bandit.update(rows[place], int(names[place]) if self.named else None, reward)


class _Vowpal:
    def __init__(self, seed: int, exploration: str) -> None:
        import vowpalwabbit

        self.workspace = vowpalwabbit.Workspace(f"--cb_explore_adf {exploration} --quiet --random_seed {seed}")
        self.rng = np.random.default_rng([47, seed])

    @staticmethod
    def _told(rows: np.ndarray) -> list[str]:
        return ["| " + " ".join(f"{i}:{value:.5g}" for i, value in enumerate(row)) for row in rows]

    def choose(self, rows: np.ndarray, names: np.ndarray) -> int:
        chances = np.array(self.workspace.predict(self._told(rows)))
        self.chances = chances / chances.sum()
        return int(self.rng.choice(len(rows), p=self.chances))

    def learn(self, rows: np.ndarray, names: np.ndarray, place: int, reward: float) -> None:
        told = self._told(rows)
        told[place] = f"0:{-reward}:{self.chances[place]:.6g} {told[place]}"
        self.workspace.learn(told)


def share(make: Callable[[int], Any], world: str, seed: int) -> float:
    """Return the share of one run."""
    rate, own = WORLDS[world]
    rng = np.random.default_rng([41, seed])
    features, theta = rng.normal(size=(ITEMS, FEATURES)), rng.normal(size=FEATURES)
    score = np.log(rate) + features @ (0.8 * theta / np.linalg.norm(theta)) + own * rng.normal(size=ITEMS)
    chances, agent = 1.0 / (1.0 + np.exp(-score)), make(seed)
    earned = uniform = best = 0.0
    for _ in range(DECISIONS):
        names, luck = rng.choice(ITEMS, CANDIDATES, replace=False), rng.random()
        place, own_chances = agent.choose(features[names], names), chances[names]
        agent.learn(features[names], names, place, float(luck < own_chances[place]))
        earned, uniform = earned + own_chances[place], uniform + own_chances.mean()
        best += own_chances.max()
    return float((earned - uniform) / (best - uniform))


def run(runs: int = 10) -> list[Row]:
    """Compare all agents in all worlds."""
    makers: dict[str, Callable[[int], Any]] = {
        name: lambda seed, options=options: _Ours(seed, options) for name, options in OURS.items()
    }
    if importlib.util.find_spec("vowpalwabbit") is not None:
        makers |= {f"vw {name}": lambda seed, name=name: _Vowpal(seed, name) for name in THEIRS}
    rows = []
    for world in WORLDS:
        found = {name: np.array([share(make, world, seed) for seed in range(runs)]) for name, make in makers.items()}
        peers = {name: value.mean() for name, value in found.items() if name.startswith("vw")}
        rival = max(peers, key=lambda name: peers[name]) if peers else "clicks, full width"
        for name, values in found.items():
            mean, half = mean_and_half_width(values, 0.95)
            gap, width = mean_and_half_width(values - found[rival], 0.95)
            note = f"+- {half:.3f} over {runs} worlds; {gap:+.3f} +- {width:.3f} beside {rival}"
            rows.append(
                Row(f"{world}, {name}", mean, float(found[rival].mean()), "", True, note, unit="share", higher=True)
            )
    return rows


if __name__ == "__main__":
    show("Clicks of items", run(*map(int, sys.argv[1:2])))
