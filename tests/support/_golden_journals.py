"""Write the golden journals, one for each kind of decision: ``python tests/support/_golden_journals.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from prudent.bandits import Decay, LinearBandit, SharedLinearBandit
from prudent.journal import Journal

KINDS = {
    "arms": lambda: LinearBandit(["a", "b", "c"], 2, alpha=Decay(0.9, half=10), first_pulls=2, rng=1),
    "clicks": lambda: LinearBandit(["a", "b"], features=["x", "y"], rewards="bernoulli", rng=2),
    "beta": lambda: LinearBandit(3, 0, rewards="bernoulli", min_propensity=0.1, rng=3),
    "items": lambda: SharedLinearBandit(2, offsets=True, alpha=0.5, rng=4),
}


def write(kind: str, path: Path) -> None:
    rng = np.random.default_rng(5)
    with Journal(path, KINDS[kind](), snapshot_every=9) as live:
        for i in range(24):
            if kind == "items":
                slate = live.select(rng.normal(size=(4, 2)), ["p", "q", "r", 7], top=1 + i % 3, key=f"request {i}")
                live.reward(slate.ids[-1], float(rng.normal()))
                continue
            context = [] if kind == "beta" else rng.normal(size=2)
            decision = live.select(context, note={"user": i % 3} if i % 2 else None)
            if i % 4:
                live.reward(decision.id, float(rng.normal() if kind == "arms" else rng.random() < 0.4))
            if kind == "arms" and i == 11:
                live.add_arm("d", like=["a", "b"])
                live.forget(0.9)
        live.erase({"user": 1})


if __name__ == "__main__":
    for kind in KINDS:
        target = Path(sys.argv[1]) / f"journal-{kind}.db"
        target.unlink(missing_ok=True)
        write(kind, target)
