"""Plans that learn inside the horizon beside plans with a fixed posterior, on three cases with random data."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._support.streams import replication_streams
from ...envs.inventory import inventory
from ...models.uncertain import UncertainMDP
from ...planning.learning import LearningPlan
from ...planning.problem import BayesianRiskMDP
from ...types import FloatArray
from .base import Arrays, Run

CASES = ("clinical trial", "shop", "gambler")
GOAL = 4  # capital at which a gambler is done
SEEN = {"clinical trial": (20, 4), "shop": (4,), "gambler": (4,)}  # data of each unknown source


@functools.cache
def model_of(case: str) -> UncertainMDP:
    """Return the model: two arms of a trial, a shop with unknown demand, or a gambler who can stop."""
    if case == "clinical trial":
        return UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], [[[0, 1], [0, 1]]], discount=1)
    if case == "shop":
        return inventory([0.2, 0.5, 0.3], capacity=3, max_order=2).model
    source = np.full((GOAL + 1, 2), -1)
    follows = np.zeros((GOAL + 1, 2, 2), dtype=np.int64)
    for capital in range(1, GOAL):
        source[capital] = 1, 0
        follows[capital, 0] = capital, -1
        follows[capital, 1] = capital - 1, capital + 1
    return UncertainMDP(source, follows, np.zeros((GOAL + 1, 2)), discount=1.0, terminal={0: 0.0, GOAL: 1.0})


def random_counts(case: str, rng: np.random.Generator) -> FloatArray:
    """Return posterior counts [B, K]: a uniform prior, and data from probabilities drawn from it."""
    n_outcomes = 3 if case == "shop" else 2
    rows = [1.0 + rng.multinomial(seen, rng.dirichlet(np.ones(n_outcomes))) for seen in SEEN[case]]
    return np.array([*rows, [1.0, 0.0]] if case == "gambler" else rows)


def learning_plan(case: str, counts: FloatArray, alpha: float, horizon: int) -> tuple[LearningPlan, int]:
    """Return the plan that learns, and the state where it begins."""
    start, final = (0, None) if case != "gambler" else (2, {c: c / GOAL for c in range(1, GOAL)})
    problem = BayesianRiskMDP(model_of(case), counts, alpha)
    plan: Any = problem.solve(horizon=horizon, learning=True, start=start, terminal_value=final, threads=1)
    return plan, start


@dataclass(frozen=True)
class LearningRun(Run):
    """Values of plans with random data, at several levels.

    Attributes
    ----------
    case : str
        One of ``CASES``.
    alphas : tuple of float
        Risk levels.
    horizon : int
        Number of steps.
    """

    kind: ClassVar[str] = "learning"
    case: str
    alphas: tuple[float, ...]
    horizon: int

    @property
    def seconds(self) -> float:
        """See ``Run``."""
        return {"clinical trial": 2e-4, "shop": 2e-4, "gambler": 1.4e-4}[self.case] * self.horizon**2 * len(self.alphas)

    def compute(self, first: int, count: int) -> Arrays:
        """Return learns, fixed and error_bound [R, levels]."""
        found = {name: np.empty((count, len(self.alphas))) for name in ("learns", "fixed", "error_bound")}
        for r in range(count):
            counts = random_counts(self.case, replication_streams(self.seed, first + r)[0])
            for i, alpha in enumerate(self.alphas):
                plan, start = learning_plan(self.case, counts, alpha, self.horizon)
                found["learns"][r, i] = plan.value[start]
                found["fixed"][r, i] = plan.fixed_value[start]
                found["error_bound"][r, i] = plan.error_bound
        return found
