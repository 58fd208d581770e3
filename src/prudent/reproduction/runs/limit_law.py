"""Bayesian-risk values of Frozen Lake from growing data, and the limit law that they tend to."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._support.streams import replication_streams
from ...types import FloatArray
from .base import Arrays, Run


@dataclass(frozen=True)
class LimitRun(Run):
    """Scaled errors sqrt(N) (V_N - V*) in one state of Frozen Lake, from the first N steps of one trajectory.

    Attributes
    ----------
    p_h : float
        Probability of leaving a hole.
    alpha : float
        Risk level.
    state : int
        State whose value is studied.
    sizes : tuple of int
        Numbers of observations N.
    draws : int
        Posterior draws of the sampled values.
    """

    kind: ClassVar[str] = "limit law"
    p_h: float
    alpha: float
    state: int
    sizes: tuple[int, ...]
    draws: int

    @property
    def seconds(self) -> float:
        """See ``Run``."""
        return 2e-8 * self.sizes[-1] + len(self.sizes) * (0.004 + 1.2e-5 * self.draws)

    def compute(self, first: int, count: int) -> Arrays:
        """Return scaled_error [R, 2, sizes]: from posterior draws, and exact."""
        lake = true_lake(self.p_h, self.alpha)
        errors = np.empty((count, 2, len(self.sizes)))
        for r in range(count):
            env, agent = replication_streams(self.seed, first + r)
            for i, (size, counts) in enumerate(zip(self.sizes, lake.counts(env, self.sizes), strict=True)):
                for j, draws in enumerate((self.draws, None)):
                    value = lake.value_of(counts, draws, agent)[self.state]
                    errors[r, j, i] = np.sqrt(size) * (value - lake.value[self.state])
        return {"scaled_error": errors}


class TrueLake:
    """The true Frozen Lake, its optimal policy, and Bayesian-risk values of that policy."""

    def __init__(self, p_h: float, alpha: float) -> None:
        from ...envs.frozen_lake import frozen_lake
        from ...models.uncertain import UncertainMDP
        from ...planning.solve import evaluate, solve
        from ...theory import limit_law

        self.alpha = alpha
        self.problem = frozen_lake(p_h)
        mdp = self.problem.mdp()
        states = np.arange(mdp.n_states)
        self.policy = solve(mdp, tol=1e-12).policy
        self.value = evaluate(mdp, self.policy, tol=1e-14).value
        self.law = limit_law(mdp, self.policy, alpha)
        self.course = self.problem.model.course(self.problem.theta, self.problem.start)
        # only the pairs of the policy matter for its value: one action
        self.model = UncertainMDP.direct(mdp.reward[states, self.policy][:, np.newaxis], mdp.discount)

    def counts(self, rng: np.random.Generator, sizes: tuple[int, ...]) -> list[FloatArray]:
        """Return the posterior counts [S, S] after the first ``sizes`` steps of one trajectory, with priors of one."""
        from ...models.transitions import walk

        n = self.value.size
        state, before, seen, after_sizes = self.problem.start, 0, np.ones(n * n), []
        for size in sizes:
            log = np.empty((size - before, 4), dtype=np.int64)
            uniforms = rng.random((size - before, 1))
            walk(self.course, self.policy, np.empty((0, 0)), uniforms, state, log)
            seen = seen + np.bincount(log[:, 0] * n + log[:, 2], minlength=n * n)
            after_sizes.append(seen.reshape(n, n))
            state, before = int(log[-1, 2]), size
        return after_sizes

    def value_of(self, counts: FloatArray, draws: int | None, rng: np.random.Generator) -> FloatArray:
        """Return the Bayesian-risk values [S] of the policy, from draws or exact."""
        from ...planning.problem import BayesianRiskMDP

        brmdp = BayesianRiskMDP(self.model, counts, self.alpha)
        policy = np.zeros(self.value.size, dtype=np.int64)
        source = None if draws is None else rng
        return brmdp.evaluate(policy, draws, source, initial_value=self.value, tol=1e-12, threads=1).value


true_lake = functools.lru_cache(maxsize=4)(TrueLake)
"""Return the lake, solved once for all chunks."""
