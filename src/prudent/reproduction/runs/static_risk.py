"""Policies for the risk of the return over the posterior, by the search and by other methods, on random problems.

The methods beside ``PosteriorRisk`` are the nested solutions of a dial, coordinate ascent (CADP: Su and Petrik,
*Solving Multi-Model MDPs by Coordinate Ascent and Dynamic Programming*, UAI 2023), here for stationary policies, the
tail weights being those of the current policy, and a projected policy gradient with the weights of the risk envelope
(Wang, Lin and Zhou 2025, arXiv 2509.15509) with exact gradients. The last two end in a stationary point and know no
bound. Both are plain NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from ..._support.streams import replication_streams
from ...models.uncertain import UncertainMDP
from ...planning.objectives import PosteriorRisk
from ...planning.problem import BayesianRiskMDP
from ...planning.solution import Solution
from ...planning.solve import solve
from ...risk import CVaR
from ...types import FloatArray
from .base import Arrays, Run

TAIL = 0.9  # level of the CVaR of the return
RISK = CVaR(TAIL)
LEVELS = (0.0, 0.5, 0.9, 0.99)
NESTED = tuple(f"nested {level:g}" for level in LEVELS)
BEST, MIXED, ASCENT, GRADIENT = "PosteriorRisk", "PosteriorRisk, randomised", "coordinate ascent", "policy gradient"
SEARCHES = (BEST, MIXED)
METHODS = (BEST, *NESTED, ASCENT, MIXED, GRADIENT)
FAMILIES = ("random rows", "venture")


class Drawn(NamedTuple):
    """A model, its posterior counts [B, K] and draws [N, B, K]; the process begins in state 0."""

    model: UncertainMDP
    counts: FloatArray
    draws: FloatArray

    @classmethod
    def of(cls, model: UncertainMDP, counts: FloatArray, n_draws: int, rng: np.random.Generator) -> Drawn:
        """Return a model with draws from its posterior."""
        theta = np.where(counts > 0.0, rng.standard_gamma(counts, (n_draws, *counts.shape)) + 1e-300, 0.0)
        return cls(model, counts, theta / theta.sum(axis=2, keepdims=True))

    def problem(self) -> BayesianRiskMDP:
        """Return the problem made from the draws."""
        return BayesianRiskMDP(self.model, draws=self.draws, alpha=TAIL)


def random_rows(rng: np.random.Generator, n_states: int, n_actions: int, n_draws: int) -> Drawn:
    """Return a model whose rows are all unknown, to all states or to three of them, with few data."""
    support = np.ones((n_states, n_actions, n_states), dtype=np.bool_)
    if rng.random() < 0.5:
        support = rng.random(support.shape).argsort(axis=2) < 3
    model = UncertainMDP.direct(rng.random((n_states, n_actions)), discount=0.95, support=support)
    counts = np.where(model.outcome_mask, rng.exponential(1.0, model.outcome_mask.shape) + 0.1, 0.0)
    return Drawn.of(model, counts, n_draws, rng)


def venture(rng: np.random.Generator, n_draws: int, stages: int = 6) -> Drawn:
    """Return a large gamble by a well-known or a new option, and then a chain of stages that can be sold at any time.

    The nested risk is taken at every stage, so that caution sells; over the whole return the stages make up for each
    other. How well things are known and the price are random.
    """
    over = stages + 1
    price = rng.uniform(0.86, 0.88)
    source, follows = np.full((over + 1, 2), -1), np.full((over + 1, 2, 2), over)
    reward = np.zeros((over + 1, 2, 2))
    source[0], follows[0], reward[0, :, 0] = [0, 1], 1, 20.0
    for stage in range(1, over):
        source[stage] = stage + 1, stages + 2
        follows[stage, 0, 0], reward[stage, 0, 0] = stage + 1, 10.0 * (stage == stages)
        follows[stage, 1, 1], reward[stage, 1, 0] = -1, 10.0 * price ** (over - stage)
    model = UncertainMDP(source, follows, reward, discount=0.99, terminal=[over])
    known, new, seen = rng.uniform(200, 1000), rng.uniform(5, 20), rng.uniform(50, 200)
    rows = [[0.5 * known, 0.5 * known], [0.65 * new, 0.35 * new], *[[0.9 * seen, 0.1 * seen]] * stages, [1.0, 0.0]]
    return Drawn.of(model, np.array(rows), n_draws, rng)


class Dense:
    """All models of a problem as dense arrays."""

    def __init__(self, problem: Drawn) -> None:
        known = [problem.model.mdp(theta) for theta in problem.draws]
        self.chance = np.stack([mdp.dense() for mdp in known])  # [N, S, A, S]
        self.reward = np.stack([mdp.reward for mdp in known])
        self.mean = problem.model.mdp(problem.draws.mean(axis=0))
        self.discount, self.start = problem.model.discount, np.eye(problem.model.n_states)[0]

    def values(self, policy: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return values [N, S], Q [N, S, A] and visits [N, S] of a policy [S, A]."""
        chance = np.einsum("sa,nsat->nst", policy, self.chance)
        system = np.eye(self.start.size) - self.discount * chance
        value = np.linalg.solve(system, np.einsum("sa,nsa->ns", policy, self.reward)[..., None])[..., 0]
        q = self.reward + self.discount * np.einsum("nsat,nt->nsa", self.chance, value)
        first = np.broadcast_to(self.start[:, None], (*value.shape, 1))
        return value, q, np.linalg.solve(system.transpose(0, 2, 1), first)[..., 0]

    def worth(self, policy: FloatArray) -> float:
        """Return the risk of the return of a policy [S, A]."""
        return float(RISK(self.values(policy)[0] @ self.start))


def coordinate_ascent(dense: Dense) -> FloatArray:
    """Return the policy [S, A] where no sweep over the states improves it, from the best policy of the mean."""
    n_states, n_actions = dense.reward.shape[1:]
    policy = np.eye(n_actions)[solve(dense.mean, threads=1).policy]
    best, kept = -np.inf, policy
    for _ in range(100):
        for state in range(n_states):
            value, q, visits = dense.values(policy)
            weights = RISK.gradient(value @ dense.start) * visits[:, state]
            policy[state] = np.eye(n_actions)[(weights @ q[:, state]).argmax()]
        worth = dense.worth(policy)
        if worth <= best + 1e-12:
            break
        best, kept = worth, policy.copy()
    return kept


def policy_gradient(dense: Dense, steps: int = 300) -> FloatArray:
    """Return the policy [S, A] after some steps of a projected gradient from the uniform one, with halved steps."""
    n_states, n_actions = dense.reward.shape[1:]
    policy = np.full((n_states, n_actions), 1.0 / n_actions)
    value, q, visits = dense.values(policy)
    worth, step = float(RISK(value @ dense.start)), 1.0
    for _ in range(steps):
        slope = np.einsum("n,ns,nsa->sa", RISK.gradient(value @ dense.start), visits, q)
        slope -= slope.mean(axis=1, keepdims=True)
        while step > 1e-8:
            moved = projected(policy + step * slope)
            tried = dense.values(moved)
            there = float(RISK(tried[0] @ dense.start))
            if there > worth:
                policy, worth, (value, q, visits) = moved, there, tried
                step *= 2.0
                break
            step *= 0.5
        else:
            break
    return policy


def projected(points: FloatArray) -> FloatArray:
    """Return the nearest probabilities [S, A] to points."""
    ordered = -np.sort(-points, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    count = (ordered > excess).sum(axis=1)
    return np.maximum(points - excess[np.arange(len(points)), count - 1][:, None], 0.0)


@dataclass(frozen=True)
class StaticRun(Run):
    """The worth of each method's policy on a random problem.

    Attributes
    ----------
    family : str
        One of ``FAMILIES``.
    states, actions : int
        Size of problems with random rows.
    draws, fresh : int
        Draws that policies are chosen by, and those that they are judged by.
    """

    kind: ClassVar[str] = "static risk"
    family: str
    states: int = 5
    actions: int = 3
    draws: int = 60
    fresh: int = 4_000

    @property
    def seconds(self) -> float:
        """See ``Run``."""
        return 0.12

    def made(self, rng: np.random.Generator) -> Drawn:
        """Return a random problem."""
        if self.family == "venture":
            return venture(rng, self.draws)
        return random_rows(rng, self.states, self.actions, self.draws)

    def compute(self, first: int, count: int) -> Arrays:
        """Return worth, fresh_worth and fresh_mean [R, methods]; upper_bound, gap and nodes [R, searches]."""
        from ...analysis.posterior_returns import posterior_returns

        names = ("worth", "fresh_worth", "fresh_mean", "upper_bound", "gap", "nodes")
        rows: dict[str, list[list[float]]] = {name: [] for name in names}
        for r in range(first, first + count):
            env, other = replication_streams(self.seed, r)
            drawn = self.made(env)
            dense, found = Dense(drawn), _searched(drawn)
            policies = {
                BEST: _mixed(found[BEST]),
                **{name: _nested(drawn, level) for name, level in zip(NESTED, LEVELS, strict=True)},
                ASCENT: coordinate_ascent(dense),
                MIXED: _mixed(found[MIXED]),
                GRADIENT: policy_gradient(dense),
            }
            judged = posterior_returns(
                drawn.model, drawn.counts, policies, 0, self.fresh, other, tail_alpha=TAIL, threads=1
            )
            rows["worth"].append([dense.worth(policies[name]) for name in METHODS])
            rows["fresh_worth"].append(judged["cvar"].values.tolist())
            rows["fresh_mean"].append(judged["mean"].values.tolist())
            rows["upper_bound"].append([found[name].upper_bound for name in SEARCHES])
            rows["gap"].append([found[name].gap for name in SEARCHES])
            rows["nodes"].append([float(_nodes(found[name])) for name in SEARCHES])
        return {name: np.array(values) for name, values in rows.items()}


@dataclass(frozen=True)
class StaticTimeRun(StaticRun):
    """Processor seconds of each method on the same problems; those of a nested level are of one solve."""

    kind: ClassVar[str] = "static risk, time"
    timed: ClassVar[bool] = True

    def compute(self, first: int, count: int) -> Arrays:
        """Return seconds [R, methods]."""
        seconds = np.empty((count, len(METHODS)))
        for r in range(-1, count):  # the first one compiles
            drawn = self.made(replication_streams(self.seed, first + max(r, 0))[0])
            dense = Dense(drawn)
            ways: list[Callable[[], object]] = [
                partial(_search, drawn, False),
                *(partial(_nested, drawn, level) for level in LEVELS),
                partial(coordinate_ascent, dense),
                partial(_search, drawn, True),
                partial(policy_gradient, dense),
            ]
            for i, way in enumerate(ways):
                began = time.thread_time()
                way()
                seconds[max(r, 0), i] = time.thread_time() - began
        return {"seconds": seconds}


def _search(drawn: Drawn, randomised: bool) -> Solution:
    return solve(drawn.problem(), objective=PosteriorRisk(RISK, randomised=randomised), start=0, threads=1)


def _searched(drawn: Drawn) -> dict[str, Solution]:
    return {BEST: _search(drawn, False), MIXED: _search(drawn, True)}


def _nodes(solution: Solution) -> int:
    assert solution.search is not None
    return solution.search.nodes


def _nested(drawn: Drawn, level: float) -> FloatArray:
    """Return the policy [S, A] of the nested risk of the posterior, exactly."""
    return _mixed(BayesianRiskMDP(drawn.model, drawn.counts, level).solve(threads=1))


def _mixed(solution: Solution) -> FloatArray:
    """Return the policy of a solution as probabilities [S, A]."""
    policy = solution.policy
    return policy if policy.ndim == 2 else np.eye(len(solution.actions))[policy]
