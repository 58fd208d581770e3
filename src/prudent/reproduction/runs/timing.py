"""Computing time of agents on Frozen Lake, by three methods of computing the policies."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..._support.streams import replication_streams
from ...risk import sample_size
from ...types import FloatArray
from .base import Arrays, Run
from .simulation import Component, SimulationRun

if TYPE_CHECKING:
    from ...envs.problem import Problem

METHODS = ("sweeps", "newton", "loop")  # the paper's sweeps, compiled; our solver; the sweeps in plain Python
SWEEPS = 100
EPISODE_LENGTH = 10


@dataclass(frozen=True)
class TimeRun(Run):
    """Processor seconds of each replication of BRPS-RL on Frozen Lake.

    Attributes
    ----------
    p_h : float
        Probability of leaving a hole.
    alpha : float
        Risk level.
    episodes : int
        Length of a replication.
    method : str
        One of ``METHODS``.
    """

    kind: ClassVar[str] = "time"
    timed: ClassVar[bool] = True
    p_h: float
    alpha: float
    episodes: int
    method: str

    @property
    def seconds(self) -> float:
        """See ``Run``."""
        plain = 2e-3 + 6e-4 * sample_size(self.alpha)
        return {"sweeps": 4e-4, "newton": 3e-5, "loop": plain}[self.method] * self.episodes

    def compute(self, first: int, count: int) -> Arrays:
        """Return seconds [R]."""
        self._play(first, 1)  # compiles
        seconds = np.empty(count)
        for r in range(count):
            began = time.thread_time()  # of this thread, whatever else the machine does
            self._play(first + r, self.episodes)
            seconds[r] = time.thread_time() - began
        return {"seconds": seconds}

    def _play(self, replication: int, episodes: int) -> None:
        if self.method == "loop":
            play_plainly(self.p_h, self.alpha, episodes, *replication_streams(self.seed, replication))
            return
        sweeps = SWEEPS if self.method == "sweeps" else None
        lake = Component.of("prudent.envs:frozen_lake", p_h=self.p_h)
        agent = Component.of("prudent.agents:brps_rl", alpha=self.alpha, sweeps=sweeps)
        SimulationRun(1, lake, agent, episodes, 1, seed=self.seed).compute(replication, 1)


@functools.cache
def _plain_lake(p_h: float) -> tuple[Problem, FloatArray, FloatArray]:
    """Return the lake, its transition probabilities [S, A, S] and its optimal values [S], which are not timed."""
    from ...envs.frozen_lake import frozen_lake
    from ...planning.solve import solve

    problem = frozen_lake(p_h)
    return problem, problem.mdp().dense(), solve(problem.mdp(), tol=1e-12).value


def play_plainly(
    p_h: float, alpha: float, episodes: int, env: np.random.Generator, rng: np.random.Generator
) -> FloatArray:
    """Return the cumulative regret [T] of BRPS-RL on Frozen Lake, with NumPy and a Python loop over the draws."""
    from ...posteriors.dirichlet import DirichletPosterior

    problem, moves, optimal = _plain_lake(p_h)
    model, n = problem.model, sample_size(alpha)
    states, discount, reward = np.arange(model.n_states), model.discount, model.mdp(problem.theta).reward
    counts, state, total = model.prior(1.0), problem.start, 0.0
    regret = np.empty(episodes)
    for t in range(episodes):
        models = [model.mdp(theta).dense() for theta in DirichletPosterior(counts).sample(n, rng)]
        value = np.zeros(states.size)
        for _ in range(SWEEPS):
            # the draw rule makes CVaR the lowest draw
            q = np.min([reward + discount * transition @ value for transition in models], axis=0)
            value = q.max(axis=1)
        policy = q.argmax(axis=1)
        system = np.eye(states.size) - discount * moves[states, policy]
        loss = optimal - np.linalg.solve(system, reward[states, policy])
        for _ in range(EPISODE_LENGTH):
            total += loss[state]
            source = model.source[state, policy[state]]
            outcome = env.choice(problem.theta.shape[1], p=problem.theta[source])
            counts[source, outcome] += 1.0
            state = model.next_state[state, policy[state], outcome]
        regret[t] = total
    return regret
