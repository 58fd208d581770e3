"""Constraints: the best policy whose expected discounted cost from the start is at most a bound.

Let R and C be the return and the cost of a policy from the start. The dual function

    D(m) = max over policies of R - m (C - bound),      m >= 0,

is convex and piecewise linear, each piece being a deterministic policy, and its minimum is the best return of a policy
that keeps the bound (a linear program over occupation measures; Altman, *Constrained Markov Decision Processes*, 1999).
The minimum is found from two policies, one that breaks the bound and one that keeps it: the multiplier at which both
are worth the same is solved for, and the policy found there replaces one of the two, until it is worth no more than
they are. Every step finds another policy, so that the search ends.

Where the bound is binding, the optimum is a mixture: one of the two policies is chosen once, at the beginning, with
such probabilities that the cost is the bound exactly. A stationary policy that chooses at random in every state has
the same return and the same cost: its probabilities are those of the mixture of the two occupations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from .._support.checks import finite_array, require_shape
from ..errors import ModelError, ParameterError
from ..models.mdp import MDP
from ..types import FloatArray, IntArray, StartLike
from .base import Constraint, PlanningProblem
from .known_problem import KnownProblem
from .options import SolverOptions
from .solution import Solution
from .stationary import solve_stationary

MAX_POLICIES = 200
TIE = 1e-10  # of the return: a policy that is worth no more is none better


class _Candidate(NamedTuple):
    """A deterministic policy with its return and its cost from the start."""

    policy: IntArray
    earns: float
    costs: float


class _Dual:
    """The Lagrangian of one model, one cost and one start."""

    def __init__(self, mdp: MDP, cost: FloatArray, start: FloatArray, options: SolverOptions) -> None:
        self.mdp, self.cost, self.start, self.options = mdp, cost, start, options
        self.error, self.iterations = 0.0, 0
        live = mdp.admissible & ~mdp.terminal[:, np.newaxis]
        self.cost = np.where(live, cost, 0.0)

    def best(self, multiplier: float, weight: float = 1.0) -> _Candidate:
        """Return the policy that is best for ``weight`` times the reward less ``multiplier`` times the cost."""
        reward = weight * self.mdp.reward - multiplier * self.cost
        solution = self._solved(reward, None, weight * self.mdp.terminal_value)
        return _Candidate(solution.policy, *self.judged(solution.policy))

    def judged(self, policy: Any) -> tuple[float, float]:
        """Return what a policy earns and costs from the start."""
        earns = self._solved(self.mdp.reward, policy, self.mdp.terminal_value)
        costs = self._solved(self.cost, policy, np.zeros(self.mdp.n_states))
        return float(self.start @ earns.value), float(self.start @ costs.value)

    def _solved(self, reward: FloatArray, policy: Any, terminal: FloatArray) -> Solution:
        twin = self.mdp.with_rewards(reward, terminal)
        solution = solve_stationary(KnownProblem(twin), policy, self.options)
        self.error, self.iterations = max(self.error, solution.error_bound), self.iterations + solution.iterations
        return solution

    def visits(self, policy: IntArray) -> FloatArray:
        """Return the discounted visits [S] of a policy from the start: d = start + discount P' d."""
        pairs = np.arange(policy.size) * self.mdp.n_actions + policy
        rows = self.mdp.transition[pairs]
        system = sparse.eye_array(policy.size, format="csc") - self.mdp.discount * rows.T.tocsc()
        return np.maximum(splu(system).solve(self.start), 0.0)


def solve_constrained(
    problem: PlanningProblem, costs: Any, at_most: Any, start: StartLike, options: SolverOptions
) -> Solution:
    """Return the best policy whose cost from the start is at most a bound; see ``prudent.solve``."""
    if not problem.is_mean:
        message = "costs are expectations over the posterior: solve them at alpha=0, or in problem.mean_mdp()"
        raise ParameterError(message, code="conflicting-arguments", argument="costs")
    mdp = problem.mean_mdp()
    name, cost, bound = _read(costs, at_most, mdp)
    first = mdp.start_distribution(start)
    dual = _Dual(mdp, cost, first, options)
    free = dual.best(0.0)
    slack = TIE * max(1.0, float(abs(cost).max()))
    if free.costs <= bound + slack:
        return _solution(problem, dual, name, bound, free, free, 1.0, 0.0)
    low = dual.best(1.0, weight=0.0)  # the cheapest
    if low.costs > bound + slack:
        message = f"at_most[{name!r}] is {bound:g}, but no policy costs less than {low.costs:.6g} from the start"
        raise ModelError(message, code="infeasible", argument="at_most", value=bound, least=low.costs)
    over, under = free, low
    multiplier = 0.0
    for _ in range(MAX_POLICIES):
        if over.costs - under.costs <= slack:
            break
        multiplier = max(0.0, (over.earns - under.earns) / (over.costs - under.costs))
        found = dual.best(multiplier)
        ahead = (found.earns - multiplier * found.costs) - (over.earns - multiplier * over.costs)
        if ahead <= TIE * max(1.0, abs(over.earns)):
            break
        over, under = (found, under) if found.costs > bound else (over, found)
    share = (bound - under.costs) / (over.costs - under.costs) if over.costs > under.costs else 0.0
    return _solution(problem, dual, name, bound, over, under, min(max(share, 0.0), 1.0), multiplier)


def _read(costs: Any, at_most: Any, mdp: MDP) -> tuple[Any, FloatArray, float]:
    """Return the name of the cost, the cost [S, A] and its bound."""
    if not isinstance(costs, Mapping) or not isinstance(at_most, Mapping) or set(costs) != set(at_most):
        message = "costs and at_most are mappings with the same names: costs={'stops': array}, at_most={'stops': 2.0}"
        raise ParameterError(message, code="wrong-type", argument="at_most" if costs else "costs")
    if len(costs) != 1:
        message = f"costs has {len(costs)} names; one cost can be bounded at a time"
        raise ParameterError(message, code="too-many", argument="costs", value=len(costs))
    name = next(iter(costs))
    cost = finite_array(costs[name], f"costs[{name!r}]", error=ParameterError)
    if cost.ndim == 1:
        cost = np.broadcast_to(cost[:, np.newaxis], mdp.admissible.shape) if cost.size == mdp.n_states else cost
    require_shape(cost, f"costs[{name!r}]", mdp.admissible.shape, "[S, A] or [S]", error=ParameterError)
    bound = float(finite_array(at_most[name], f"at_most[{name!r}]", ndim=0, error=ParameterError))
    return name, np.asarray(cost), bound


def _solution(
    problem: PlanningProblem,
    dual: _Dual,
    name: Any,
    bound: float,
    over: _Candidate,
    under: _Candidate,
    share: float,
    multiplier: float,
) -> Solution:
    """Return the mixture of two policies as a solution with a stationary policy."""
    mdp, eye = dual.mdp, np.eye(dual.mdp.n_actions)
    if np.array_equal(over.policy, under.policy):
        policy: Any = over.policy
    else:
        parts = [share * dual.visits(over.policy), (1.0 - share) * dual.visits(under.policy)]
        total = parts[0] + parts[1]
        shares = [np.divide(part, total, out=np.full(total.size, 0.5), where=total > 0.0) for part in parts]
        policy = shares[0][:, None] * eye[over.policy] + shares[1][:, None] * eye[under.policy]
        policy /= policy.sum(axis=1, keepdims=True)
    values = solve_stationary(KnownProblem(mdp), policy, dual.options)
    earns = share * over.earns + (1.0 - share) * under.earns
    costs = share * over.costs + (1.0 - share) * under.costs
    upper = max(each.earns - multiplier * (each.costs - bound) for each in (over, under))
    found = Constraint(
        name=name,
        at_most=bound,
        cost=costs,
        multiplier=multiplier,
        objective_value=earns,
        upper_bound=upper,
        gap=max(0.0, upper - earns),
        policies=(over.policy, under.policy),
        probabilities=(share, 1.0 - share),
    )
    kept = replace(values, problem=problem, iterations=dual.iterations, constraint=found, start=dual.start)
    return replace(kept, error_bound=max(values.error_bound, dual.error))
