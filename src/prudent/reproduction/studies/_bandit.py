"""The Gaussian bandit of the paper: ten arms, three features, prior N(0, I), noise sd 1. What its studies share.

The paper leaves open how wide an implementation samples and how it begins. As written, draws have the sd of the
posterior and the first decision is made by the prior. The other readings sample four times as wide, in all algorithms;
one of them pulls each arm three times before scores count.
"""

from __future__ import annotations

from typing import NamedTuple

from ..runs.simulation import Component, SimulationRun
from ..scale import Scale
from ..study import Coordinates, Quantity, Table, quantities


class Reading(NamedTuple):
    """How an implementation samples and begins.

    Attributes
    ----------
    width : float
        Width of sampling, in standard deviations of the posterior.
    first_pulls : int
        Pulls of each arm before scores count.
    words : str
        End of the sentence "reproduced when ...".
    """

    width: float
    first_pulls: int
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
DIMS = ("reading", "agent")  # coordinates of the runs
REGRET = Quantity("cumulative regret", "reward", (*DIMS, "replication", "time"))
BR_REGRET = Quantity("cumulative BR-regret", "reward", (*DIMS, "replication", "level", "time"))
COORDS = quantities("agent", "replication", "time", reading="how an implementation samples and begins")
COORDS_BY_LEVEL = COORDS | quantities("level")
BR_TABLE = Table(
    "agents",
    "BR-regret by metric level,",
    {"variable": "br_regret", "across": "level", "head": "level", "where": {"reading": AS_WRITTEN}},
)


def bandit(scale: Scale, alpha: float, reading: Reading, sd: float = 1.0) -> SimulationRun:
    """Return the run of one agent at a scale; ``sd`` is that of its sampling as written."""
    options = {"alpha": alpha, "sampling_sd": sd * reading.width, "first_pulls": reading.first_pulls}
    agent = Component.of("prudent.bandits:BanditSettings", **options)
    environment = Component.of("prudent.envs:gaussian_bandit")
    return SimulationRun(scale.bandit_replications, environment, agent, scale.horizon, POINTS, alphas=LEVELS)


def every_agent(scale: Scale) -> dict[Coordinates, SimulationRun]:
    """Return the runs of all agents under all readings."""
    return {
        (name, agent): bandit(scale, alpha, reading)
        for name, reading in READINGS.items()
        for agent, alpha in AGENTS.items()
    }
