"""Constraints: the best policy whose discounted costs from the start are at most given bounds.

Let R be the return and C_j the costs of a policy from the start. The dual function

    D(m) = max over policies of R - sum_j m_j (C_j - bound_j),      m >= 0,

is convex and piecewise linear, each piece being a deterministic policy, and its minimum is the best return of a policy
that keeps the bounds (a linear program over occupation measures; Altman, *Constrained Markov Decision Processes*,
1999). That program is solved by column generation. A small one over the policies found so far gives the best mixture of
them and its multipliers; the policy that is best at these multipliers joins them, until it is worth no more than the
mixture is. Every step finds another policy, so that the search ends. A first phase looks in the same way for a mixture
that keeps the bounds. D at every multiplier that was tried is an upper bound, and the least one is reported.

The optimum is a mixture of at most one more policy than there are bounds that bind: one of them is chosen once, at the
beginning. A stationary policy that chooses at random in every state has the same return and the same costs: its
probabilities are those of the mixture of the occupations.

**CVaR over the posterior.** The expected cost of a policy differs between draws of the model, and its CVaR is the mean
over the worst of them. It is convex in the mixture, so that the small program has a threshold and an excess for each
draw (Rockafellar and Uryasev, 2000), and its multipliers are weights of the draws. Returns and costs are then those of
``prudent.planning.constrained_draws``: a policy that is best for a weighted sum over models is looked for locally, and
the upper bound is that of somebody who knows the model of each draw. That bound is convex in the prices of the draws,
and is lowered by smoothed column generation.

References
----------
Wentges, *Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming*, International Transactions in
Operational Research 4 (1997).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy

from .._support.checks import finite_array, finite_number, require_shape
from ..errors import ModelError, ParameterError
from ..models.mdp import MDP
from ..types import FloatArray, IntArray, RngLike, StartLike
from .base import AtMost, Constraint, PlanningProblem
from .constrained_draws import DrawnModels, Judged, Knowing
from .known_problem import KnownProblem
from .options import SolverOptions
from .solution import Solution
from .stationary import solve_stationary

MAX_POLICIES = 500
TIE = 1e-10  # of the return: a policy that is worth no more is none better
CLOSE = 1e-6  # of the return, over draws, where policies are looked for locally
DRAWN_POLICIES = 40  # that are tried over draws
BOUND_POLICIES = 20  # that are tried for an upper bound over draws
HALVINGS = 40  # of the way to a policy that keeps the bounds
PRECISE: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Pricing(Protocol):
    """A model, or draws of one, in which policies are looked for."""

    draws: int

    def best(self, weight: float, prices: list[FloatArray], known: list[IntArray]) -> tuple[IntArray, float]:
        """Return the best policy for ``weight`` times the return less ``prices`` times the costs, and its worth.

        ``known`` are policies that were found before.
        """

    def judged(self, policy: Any) -> Judged:
        """Return what a policy earns and costs."""


class OneModel:
    """Policies of one known model, each the best one at its prices."""

    draws = 0

    def __init__(self, mdp: MDP, costs: list[FloatArray], start: FloatArray, options: SolverOptions) -> None:
        self.mdp, self.costs, self.start, self.options = mdp, costs, start, options
        self.error, self.iterations = 0.0, 0

    def best(  # noqa: D102
        self, weight: float, prices: list[FloatArray], known: list[IntArray]
    ) -> tuple[IntArray, float]:
        reward = weight * self.mdp.reward
        for price, cost in zip(prices, self.costs, strict=True):
            reward = reward - float(price[0]) * cost
        solution = self._solved(reward, None, weight * self.mdp.terminal_value)
        return solution.policy, float(self.start @ solution.value) + solution.error_bound

    def judged(self, policy: Any) -> Judged:  # noqa: D102
        earns = self._solved(self.mdp.reward, policy, self.mdp.terminal_value)
        nothing = np.zeros(self.mdp.n_states)
        costs = [self._solved(cost, policy, nothing).value for cost in self.costs]
        return Judged(float(self.start @ earns.value), [np.array([self.start @ value]) for value in costs])

    def _solved(self, reward: FloatArray, policy: Any, terminal: FloatArray) -> Solution:
        twin = self.mdp.with_rewards(reward, terminal)
        solution = solve_stationary(KnownProblem(twin), policy, self.options)
        self.error, self.iterations = max(self.error, solution.error_bound), self.iterations + solution.iterations
        return solution


class _Found(NamedTuple):
    """The best mixture of the policies found so far."""

    chances: FloatArray  # of the policies
    value: float  # its return; in the first phase its excess
    prices: list[FloatArray]  # of the costs, and of their draws
    multipliers: FloatArray


class _Mixtures:
    """The policies found so far, with the linear program over their mixtures."""

    def __init__(self, pricing: Pricing, bounds: list[AtMost], scales: list[float]) -> None:
        self.pricing, self.bounds, self.scales = pricing, bounds, scales
        self.policies: list[IntArray] = []
        self.judged: list[Judged] = []
        self.upper, self.room = np.inf, 0.0

    def add(self, policy: IntArray) -> bool:
        """Add a policy; False if it is there already."""
        if any(np.array_equal(policy, old) for old in self.policies):
            return False
        self.policies.append(policy)
        self.judged.append(self.pricing.judged(policy))
        return True

    def solved(self, first_phase: bool) -> _Found:
        """Return the mixture that earns most, or in the first phase that exceeds the bounds least."""
        count, excess = len(self.policies), len(self.policies)
        tails = [j for j, bound in enumerate(self.bounds) if self._is_tail(j)]
        sizes = {j: self.judged[0].costs[j].size for j in tails}
        width = count + 1 + sum(1 + size for size in sizes.values())
        loss = np.zeros(width)
        if first_phase:
            loss[excess] = 1.0
        else:
            loss[:count] = [-one.earns for one in self.judged]
        limits: list[tuple[float | None, float | None]] = [(0.0, None)] * width
        if not first_phase:
            limits[excess] = (0.0, self.room)
        rows: list[Any] = []
        sides: list[float] = []
        places, at = [], count + 1
        for j, bound in enumerate(self.bounds):
            places.append(len(rows))
            row, costs = np.zeros(width), np.array([one.costs[j] for one in self.judged])  # [policy, draw]
            row[excess] = -self.scales[j]
            if j not in sizes:
                row[:count] = costs.mean(axis=1)
                rows, sides = [*rows, row], [*sides, bound.bound]
                continue
            size = sizes[j]
            row[at], row[at + 1 : at + 1 + size] = 1.0, 1.0 / (size * (1.0 - bound.alpha))
            limits[at] = (None, None)
            over = np.zeros((size, width))
            over[:, :count], over[:, at] = costs.T, -1.0
            over[np.arange(size), at + 1 + np.arange(size)] = -1.0
            rows, sides, at = [*rows, row, *over], [*sides, bound.bound, *np.zeros(size)], at + 1 + size
        one = np.zeros((1, width))
        one[0, :count] = 1.0
        program: Any = scipy.optimize.linprog(
            loss, A_ub=np.array(rows), b_ub=sides, A_eq=one, b_eq=[1.0], bounds=limits, method="highs", options=PRECISE
        )
        if program.status != 0:
            message = (
                f"the linear program over {count} policies failed ({program.message}); measure costs in other units"
            )
            raise ModelError(message, code="program-failed", argument="costs")
        marginals = -np.asarray(program.ineqlin.marginals)
        prices = [
            marginals[place + 1 : place + 1 + sizes[j]]
            if j in sizes
            else np.full(self.judged[0].costs[j].size, marginals[place] / self.judged[0].costs[j].size)
            for j, place in enumerate(places)
        ]
        chances = np.maximum(program.x[:count], 0.0)
        value = float(program.fun) if first_phase else -float(program.fun)
        return _Found(chances / chances.sum(), value, [np.maximum(one, 0.0) for one in prices], marginals[places])

    def _is_tail(self, j: int) -> bool:
        return self.bounds[j].alpha > 0.0 and self.judged[0].costs[j].size > 1

    def costs_of(self, costs: list[FloatArray]) -> FloatArray:
        """Return what is bounded of given costs: expectations, or CVaRs over the draws."""
        return np.array(
            [
                cost.mean() if bound.risk is None else -float(bound.risk(-cost))
                for cost, bound in zip(costs, self.bounds, strict=True)
            ]
        )

    def improve(self, first_phase: bool, tie: float, most: int = MAX_POLICIES) -> _Found:
        """Add policies, ``most`` of them, until no other one is worth more than the mixture of those that there are."""
        limits = np.array([bound.bound for bound in self.bounds])
        weight = 0.0 if first_phase else 1.0
        for _ in range(most):
            found = self.solved(first_phase)
            if first_phase and found.value <= tie:
                break
            policy, best = self.pricing.best(weight, found.prices, self.policies)
            dual = best + float(np.maximum(found.multipliers, 0.0) @ limits)
            if not first_phase:
                self.upper = min(self.upper, dual)
            ahead = -found.value if first_phase else found.value
            if dual - ahead <= tie or not self.add(policy):
                break
        return found

    def tighten(self, tie: float, most: int) -> None:
        """Lower ``upper`` by prices of the draws, ``most`` of them, until it is within ``tie`` of the mixture.

        Every price of a draw between 0 and its share of the tail gives a bound, if prices sum to the multiplier. Those
        of the linear program are often one corner of many that are equally good for it, and bad for the bound. So the
        first prices are even, and later ones are halfway between the program's and those of the lowest bound (Wentges
        1997), unless these find no new policy.
        """
        limits = np.array([bound.bound for bound in self.bounds])
        found = self.solved(False)
        kept = tried = found._replace(prices=[np.full(one.size, one.sum() / one.size) for one in found.prices])
        for _ in range(most):
            policy, best = self.pricing.best(1.0, tried.prices, self.policies)
            dual = best + float(np.maximum(tried.multipliers, 0.0) @ limits)
            if dual < self.upper:
                self.upper, kept = dual, tried
            new = self.add(policy)
            if self.upper - found.value <= tie or (not new and tried is found):
                return
            found = self.solved(False) if new else found
            tried = _halfway(kept, found) if new else found


def _halfway(one: _Found, other: _Found) -> _Found:
    """Return the prices and multipliers in the middle of two."""
    prices = [0.5 * (mine + theirs) for mine, theirs in zip(one.prices, other.prices, strict=True)]
    return other._replace(prices=prices, multipliers=0.5 * (one.multipliers + other.multipliers))


def solve_constrained(
    problem: PlanningProblem,
    costs: Any,
    at_most: Any,
    start: StartLike,
    options: SolverOptions,
    draws: Any = None,
    rng: RngLike = None,
) -> Solution:
    """Return the best policy whose costs from the start are at most their bounds; see ``prudent.solve``."""
    names, arrays, bounds = _read(costs, at_most, problem)
    tail = any(bound.alpha > 0.0 for bound in bounds)
    if not (problem.is_mean or (tail and getattr(problem, "alpha", None) == 0.0)):
        message = "costs are expectations over the posterior: solve them at alpha=0, or in problem.mean_mdp()"
        raise ParameterError(message, code="conflicting-arguments", argument="costs")
    if not tail and (draws is not None or rng is not None):
        message = "draws and rng are for costs whose CVaR is bounded: at_most={name: AtMost(bound, CVaR(alpha))}"
        raise ParameterError(message, code="conflicting-arguments", argument="rng" if draws is None else "draws")
    mdp = problem.mean_mdp()
    live = mdp.admissible & ~mdp.terminal[:, np.newaxis]
    arrays = [np.where(live, cost, 0.0) for cost in arrays]
    first = mdp.start_distribution(start)
    centre = OneModel(mdp, arrays, first, options)
    pricing: Any = DrawnModels.of(problem, arrays, first, draws, rng, centre.best) if tail else centre
    scales = [float(abs(cost).max(initial=0.0)) or 1.0 for cost in arrays]
    mixtures = _Mixtures(pricing, bounds, scales)
    nothing = [np.zeros(max(1, pricing.draws)) for _ in bounds]
    mixtures.add(pricing.best(1.0, nothing, [])[0])
    slack = TIE * max(1.0, *(abs(bound.bound) / scale for bound, scale in zip(bounds, scales, strict=True)))
    found = mixtures.improve(True, slack)
    if found.value > 2.0 * slack:
        raise _infeasible(names, bounds, scales, found, mixtures, pricing)
    size, mixtures.room = max(1.0, *(abs(one.earns) for one in mixtures.judged)), max(found.value, 0.0)
    if not tail:
        found = mixtures.improve(False, TIE * size)
    else:
        found = mixtures.improve(False, CLOSE * size, DRAWN_POLICIES)
        knowing = _Mixtures(Knowing.like(pricing), bounds, scales)
        knowing.room = mixtures.room
        for policy, judged in zip(mixtures.policies, mixtures.judged, strict=True):
            knowing.policies.append(np.broadcast_to(policy, (pricing.draws, policy.size)))
            knowing.judged.append(judged)
        knowing.tighten(CLOSE * size, BOUND_POLICIES)
        mixtures.upper = knowing.upper
        pricing.progress.close()
    return _solution(problem, centre, pricing, names, mixtures, found)


def _infeasible(
    names: list[Any],
    bounds: list[AtMost],
    scales: list[float],
    found: _Found,
    mixtures: _Mixtures,
    pricing: Pricing,
) -> ModelError:
    """Return the error of bounds that no policy keeps."""
    who = "no policy" if not pricing.draws else "no policy that was found"
    if len(names) == 1:
        least = bounds[0].bound + found.value * scales[0]
        message = f"at_most[{names[0]!r}] is {bounds[0].bound:g}, but {who} costs less than {least:.6g} from the start"
        return ModelError(message, code="infeasible", argument="at_most", value=bounds[0].bound, least=least)
    mixed = mixtures.costs_of(_mixed(found, mixtures.judged).costs)
    nearby = dict(zip(names, mixed.tolist(), strict=True))
    asked = {name: bound.bound for name, bound in zip(names, bounds, strict=True)}
    nearest = ", ".join(f"{name!r}: {cost:.6g} of {asked[name]:g}" for name, cost in nearby.items())
    message = f"at_most cannot be kept: {who} keeps all bounds at once. The nearest costs {nearest}"
    return ModelError(message, code="infeasible", argument="at_most", value=asked, least=nearby)


def _read(costs: Any, at_most: Any, problem: PlanningProblem) -> tuple[list[Any], list[FloatArray], list[AtMost]]:
    """Return names of costs, costs [S, A] and their bounds."""
    if not isinstance(costs, Mapping) or not isinstance(at_most, Mapping) or set(costs) != set(at_most) or not costs:
        message = "costs and at_most are mappings with the same names: costs={'stops': array}, at_most={'stops': 2.0}"
        if isinstance(costs, Mapping) and isinstance(at_most, Mapping):
            message += f"; got {sorted(map(repr, costs))} and {sorted(map(repr, at_most))}"
        raise ParameterError(message, code="wrong-type", argument="at_most" if costs else "costs")
    shape, arrays, bounds = problem.model.admissible.shape, [], []
    for name in costs:
        cost = finite_array(costs[name], f"costs[{name!r}]", error=ParameterError)
        if cost.ndim == 1 and cost.size == shape[0]:
            cost = np.broadcast_to(cost[:, np.newaxis], shape)
        require_shape(cost, f"costs[{name!r}]", shape, "[S, A] or [S]", error=ParameterError)
        arrays.append(np.asarray(cost))
        given = at_most[name]
        if not isinstance(given, AtMost):
            given = AtMost(finite_number(given, f"at_most[{name!r}]"))
        bounds.append(given)
    return list(costs), arrays, bounds


def _mixed(found: _Found, judged: list[Judged]) -> Judged:
    """Return what a mixture earns and costs."""
    earns = float(found.chances @ [one.earns for one in judged])
    number = len(judged[0].costs)
    return Judged(earns, [found.chances @ np.array([one.costs[j] for one in judged]) for j in range(number)])


def _visits(mdp: MDP, start: FloatArray, policy: IntArray) -> FloatArray:
    """Return the discounted visits [S] of a policy from the start: d = start + discount P' d."""
    rows = mdp.transition[np.arange(policy.size) * mdp.n_actions + policy]
    system = scipy.sparse.eye_array(policy.size, format="csc") - mdp.discount * rows.T.tocsc()
    return np.maximum(scipy.sparse.linalg.splu(system).solve(start), 0.0)


def _stationary(mdp: MDP, start: FloatArray, policies: list[IntArray], chances: FloatArray) -> Any:
    """Return the stationary policy [S, A] with the occupation of a mixture; [S] of one policy."""
    used = np.flatnonzero(chances > 0.0)
    if used.size == 1:
        return policies[int(used[0])]
    policy, even = np.zeros(mdp.admissible.shape), np.zeros(mdp.admissible.shape)
    states = np.arange(mdp.n_states)
    for number in used.tolist():
        policy[states, policies[number]] += chances[number] * _visits(mdp, start, policies[number])
        even[states, policies[number]] += chances[number]
    total = policy.sum(axis=1, keepdims=True)
    policy = np.divide(policy, total, out=even, where=total > 0.0)
    return policy / policy.sum(axis=1, keepdims=True)


def _kept(centre: OneModel, pricing: Pricing, mixtures: _Mixtures, chances: FloatArray) -> Any:
    """Return the stationary policy of a mixture, moved towards a policy that keeps the bounds where it breaks them."""
    policies = mixtures.policies
    policy = _stationary(centre.mdp, centre.start, policies, chances)
    limits = np.array([bound.bound for bound in mixtures.bounds])
    slack = TIE * np.maximum(1.0, abs(limits))

    def excess(judged: Judged) -> float:
        return float((mixtures.costs_of(judged.costs) - limits - slack).max())

    if policy.ndim == 1 or not pricing.draws or excess(pricing.judged(policy)) <= 0.0:
        return policy
    safe = [k for k, judged in enumerate(mixtures.judged) if excess(judged) <= 0.0]
    if not safe:
        return policy
    best = max(safe, key=lambda k: mixtures.judged[k].earns)
    target, low, high = np.eye(len(policies))[best], 0.0, 1.0  # share of the safe policy: breaks, keeps
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        tried = _stationary(centre.mdp, centre.start, policies, (1.0 - middle) * chances + middle * target)
        low, high = (low, middle) if excess(pricing.judged(tried)) <= 0.0 else (middle, high)
        if high - low < 1e-6:
            break
    return _stationary(centre.mdp, centre.start, policies, (1.0 - high) * chances + high * target)


def _solution(
    problem: PlanningProblem, centre: OneModel, pricing: Any, names: list[Any], mixtures: _Mixtures, found: _Found
) -> Solution:
    """Return the mixture as a solution with a stationary policy."""
    chances = np.where(found.chances > TIE, found.chances, 0.0)
    found = found._replace(chances=chances / chances.sum())
    policy = _kept(centre, pricing, mixtures, found.chances)
    values = solve_stationary(KnownProblem(centre.mdp), policy, centre.options)
    mixed = _mixed(found, mixtures.judged)
    upper = max(mixtures.upper, mixed.earns)
    used = np.flatnonzero(found.chances).tolist()
    made = Constraint(
        at_most=dict(zip(names, mixtures.bounds, strict=True)),
        cost=dict(zip(names, mixtures.costs_of(mixed.costs).tolist(), strict=True)),
        multiplier=dict(zip(names, np.maximum(found.multipliers, 0.0).tolist(), strict=True)),
        objective_value=mixed.earns,
        upper_bound=upper,
        gap=upper - mixed.earns,
        policies=tuple(mixtures.policies[k] for k in used),
        probabilities=tuple(float(found.chances[k]) for k in used),
        draws=pricing.draws,
    )
    kept = replace(values, problem=problem, iterations=centre.iterations, constraint=made, start=centre.start)
    return replace(kept, error_bound=max(values.error_bound, centre.error))
