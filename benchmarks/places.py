"""Clicks by place of a slate: ``python -m benchmarks.places --runs 40``.

Slates of 4 out of 20 items. A click has the chance that the place is looked at times that of the item. Worlds:

- ``own chances``: every item has a chance of its own, log-uniform from 3% to 30%, and a feature of its own;
- ``features``: items are new for every slate, with 8 features and a logistic model of them;
- ``no effect``: the first one where all places are looked at.

Compared are ``rewards="bernoulli"`` with and without ``places=4``, in worlds drawn anew for each seed and the same for
both. Reported are the share of the possible gain (best slates against random ones) and the difference with an interval
of 95%, and the mean of what was learned of the last place. The table goes into the page of bandits in production.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from prudent.bandits import SharedLinearBandit

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "bandits-in-production.md"
MARK = re.compile(r"(<!-- places -->\n).*?(<!-- end of places -->)", flags=re.DOTALL)
USUAL = (1.0, 0.6, 0.4, 0.3)
WORLDS = {"own chances": USUAL, "features": USUAL, "no effect": (1.0, 1.0, 1.0, 1.0)}
ITEMS, FEATURES, SLATES = 20, 8, 3000


def run(world: str, seed: int, places: bool) -> tuple[float, float]:
    """Return the share of the possible gain, and what was learned of the last place (1 without places)."""
    rng, looked_at = np.random.default_rng([seed, len(world)]), np.array(WORLDS[world])
    top = looked_at.size
    if world == "features":
        theta = rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    else:
        own = np.exp(rng.uniform(np.log(0.03), np.log(0.3), ITEMS))
    options: dict[str, Any] = {"places": top} if places else {}
    bandit = SharedLinearBandit(FEATURES if world == "features" else ITEMS, rewards="bernoulli", rng=seed, **options)
    got = best = random = 0.0
    for _ in range(SLATES):
        rows = rng.normal(size=(ITEMS, FEATURES)) if world == "features" else np.eye(ITEMS)
        chances = 1.0 / (1.0 + np.exp(2.5 - rows @ theta)) if world == "features" else own
        slate = list(bandit.select(rows, top=top, propensity=False).slate)
        clicks = looked_at * chances[slate]
        got += clicks.sum()
        best += (np.sort(chances)[::-1][:top] * looked_at).sum()
        random += chances.mean() * looked_at.sum()
        rewards = (rng.random(top) < clicks).astype(float)
        bandit.update(rows[slate], None, rewards, **({"place": range(top)} if places else {}))
    learned = bandit.looked_at()[0][-1] if places else 1.0
    return (got - random) / (best - random), float(learned)


def row(world: str, runs: int) -> str:
    """Return a row of the table."""
    without = np.array([run(world, seed, False)[0] for seed in range(runs)])
    found = np.array([run(world, seed, True) for seed in range(runs)])
    gain = found[:, 0] - without
    half = 1.96 * gain.std(ddof=1) / np.sqrt(runs)
    looked = f"{np.exp(np.log(found[:, 1]).mean()):.2f} ({WORLDS[world][-1]:g})"
    shares = f"{without.mean():.3f} | {found[:, 0].mean():.3f} | {gain.mean():+.3f} ± {half:.3f}"
    return f"| {world} | {shares} | {looked} |"


def main(arguments: list[str]) -> int:
    """Measure, print the rows, and put the table into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.places", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40, help="replications of each world")
    asked = parser.parse_args(arguments)
    lines = ["| world | without `places` | with | difference | last place, learned (true) |", "|---|---|---|---|---|"]
    for world in WORLDS:
        lines.append(row(world, asked.runs))
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    PAGE.write_text(MARK.sub(lambda mark: mark[1] + table + "\n" + mark[2], PAGE.read_text()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
