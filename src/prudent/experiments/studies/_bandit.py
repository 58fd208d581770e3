"""The Gaussian bandit of the paper: ten arms, three features, prior N(0, I), noise sd 1. What its studies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._support.checks import IntArray
from ..run import Arrays, Run, grid
from ..scale import Scale
from ..study import Quantity, Table

__all__ = ["AGENTS", "BR_REGRET", "BR_TABLE", "COORDS", "LEVEL", "LEVELS", "REGRET", "BanditRun", "bandit", "places"]

LEVELS = (0.5, 0.8, 0.9)
AGENTS = {"TS-CMAB": 0.0} | {f"BRPS-CMAB {alpha}": alpha for alpha in LEVELS}
POINTS = 200  # steps that are recorded
REGRET = Quantity("cumulative regret", "reward", ("agent", "replication", "time"))
BR_REGRET = Quantity("cumulative BR-regret", "reward", ("agent", "replication", "level", "time"))
COORDS = {
    "agent": Quantity("algorithm"),
    "replication": Quantity("replication"),
    "time": Quantity("step"),
}
LEVEL = Quantity("risk level of the metric")
BR_TABLE = Table("agents", "BR-regret by metric level,", {"variable": "br_regret", "across": "level", "head": "level"})


@dataclass(frozen=True)
class BanditRun(Run):
    """Algorithm 2 at risk level ``alpha`` on the Gaussian bandit, sampling with sd ``sampling_sd`` (1: the noise's)."""

    kind: ClassVar[str] = "bandit"
    alpha: float
    sampling_sd: float
    horizon: int
    points: int
    levels: tuple[float, ...]

    @property
    def times(self) -> IntArray:
        """The recorded steps [T]."""
        return grid(self.horizon, self.points)

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 0.6e-6 * self.horizon

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, L, T]."""
        from ...bandits import BanditSettings
        from ...bandits.simulate import simulate_bandit
        from ...envs import gaussian_bandit

        runs = simulate_bandit(
            gaussian_bandit(),
            BanditSettings(self.alpha, sampling_sd=self.sampling_sd),
            horizon=self.horizon,
            replications=count,
            seed=seed,
            levels=self.levels,
            times=self.times,
            first_replication=first,
            threads=1,
        )
        return {"regret": runs.regret.values[0], "br_regret": runs.br_regret.values[0]}


def bandit(scale: Scale, alpha: float, sd: float = 1.0, levels: tuple[float, ...] = LEVELS) -> BanditRun:
    """Return the run of one agent at a scale."""
    return BanditRun(scale.bandit_replications, alpha, sd, scale.horizon, POINTS, levels)


def places(scale: Scale) -> dict[str, Any]:
    """Return the coordinates that all bandit studies have."""
    return {"replication": np.arange(scale.bandit_replications), "time": bandit(scale, 0.0).times}
