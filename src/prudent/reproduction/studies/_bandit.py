"""The Gaussian bandit of the paper: ten arms, three features, prior N(0, I), noise sd 1. What its studies share.

The paper leaves open how wide an implementation samples and how it begins. As written, draws have the sd of the
posterior and the first decision is made by the prior. The other readings sample four times as wide, in all algorithms;
one of them pulls each arm three times before scores count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._support.checks import IntArray
from ..run import Arrays, Run, grid, stacked
from ..scale import Scale
from ..study import Quantity, Table

__all__ = [
    "AGENTS",
    "AS_WRITTEN",
    "BR_REGRET",
    "BR_TABLE",
    "COORDS",
    "LEVEL",
    "LEVELS",
    "READINGS",
    "REGRET",
    "WORDS",
    "BanditRun",
    "Reading",
    "assembled",
    "bandit",
    "every_agent",
]


class Reading(NamedTuple):
    """How an implementation samples and begins; ``words`` end the sentence "reproduced when ..."."""

    width: float  # of sampling, in standard deviations of the posterior
    first_pulls: int  # of each arm, before scores count
    words: str = ""


AS_WRITTEN = "as written"
READINGS = {
    AS_WRITTEN: Reading(1.0, 0),
    "sampling sd × 4": Reading(4.0, 0, "sampling is four times as wide"),
    "sampling sd × 4, three first pulls": Reading(
        4.0, 3, "sampling is four times as wide after three pulls of each arm"
    ),
}
WORDS = {name: reading.words for name, reading in READINGS.items()}
LEVELS = (0.5, 0.8, 0.9)
AGENTS = {"TS-CMAB": 0.0} | {f"BRPS-CMAB {alpha}": alpha for alpha in LEVELS}
POINTS = 200  # steps that are recorded
REGRET = Quantity("cumulative regret", "reward", ("reading", "agent", "replication", "time"))
BR_REGRET = Quantity("cumulative BR-regret", "reward", ("reading", "agent", "replication", "level", "time"))
COORDS = {
    "reading": Quantity("how an implementation samples and begins"),
    "agent": Quantity("algorithm"),
    "replication": Quantity("replication"),
    "time": Quantity("step"),
}
LEVEL = Quantity("risk level of the metric")
BR_TABLE = Table(
    "agents",
    "BR-regret by metric level,",
    {"variable": "br_regret", "across": "level", "head": "level", "where": {"reading": AS_WRITTEN}},
)


@dataclass(frozen=True)
class BanditRun(Run):
    """Algorithm 2 at risk level ``alpha`` on the Gaussian bandit, sampling with sd ``sampling_sd`` (1: the noise's)."""

    kind: ClassVar[str] = "bandit"
    alpha: float
    sampling_sd: float
    first_pulls: int
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
        return 0.8e-6 * self.horizon

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, L, T]."""
        from ...bandits import BanditSettings
        from ...envs import gaussian_bandit
        from ...simulation.bandits import simulate_bandit

        runs = simulate_bandit(
            gaussian_bandit(),
            BanditSettings(self.alpha, sampling_sd=self.sampling_sd, first_pulls=self.first_pulls),
            horizon=self.horizon,
            replications=count,
            seed=seed,
            levels=self.levels,
            times=self.times,
            first_replication=first,
            threads=1,
        )
        return {"regret": runs.regret.values[0], "br_regret": runs.br_regret.values[0]}


def bandit(scale: Scale, alpha: float, reading: Reading, sd: float = 1.0) -> BanditRun:
    """Return the run of one agent at a scale; ``sd`` is that of its sampling as written."""
    width, pulls = sd * reading.width, reading.first_pulls
    return BanditRun(scale.bandit_replications, alpha, width, pulls, scale.horizon, POINTS, LEVELS)


def every_agent(scale: Scale) -> tuple[BanditRun, ...]:
    """Return the runs of all agents under all readings."""
    return tuple(bandit(scale, alpha, reading) for reading in READINGS.values() for alpha in AGENTS.values())


def assembled(
    scale: Scale, agents: list[str], results: list[Arrays], *names: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays called ``names`` over readings and agents, and the coordinates that all bandit studies have."""
    found = {name: stacked(results, name) for name in names}
    return (
        {name: array.reshape(len(READINGS), len(agents), *array.shape[1:]) for name, array in found.items()},
        {
            "reading": list(READINGS),
            "agent": agents,
            "replication": np.arange(scale.bandit_replications),
            "time": bandit(scale, 0.0, READINGS[AS_WRITTEN]).times,
        },
    )
