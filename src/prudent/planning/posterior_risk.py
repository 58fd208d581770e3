"""The best policy for a risk of the return over the posterior: draws, the search, and its result.

One model is true and stays. The return of a policy in each drawn model is computed exactly, and the risk of these
returns is what is maximised, over stationary policies: by branch and bound (``StaticSearch``) for deterministic ones,
from there by gradients for those that choose at random. Under a posterior the draws are made here, in growing sets; the
policy found is then judged by fresh draws, because a policy that is best for its draws looks better under these than it
is.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._support.checks import axes_of, generator, positive, whole_number
from .._support.notices import warn_caller
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.base import plural
from ..models.entries import END, Outcomes
from ..models.uncertain import UncertainMDP
from ..risk import CVaR
from ..types import BoolArray, FloatArray, IntArray, RngLike, StartLike
from .base import OutOfSample, PolicySearch, with_terminal_values
from .drawn_chains import Chains, best_policies, mixed_returns, project
from .drawn_policies import Belief, DrawnPolicies, NamedPolicy
from .ends import find_over
from .from_draws import check_draws, read_draws
from .model_draws import Layout
from .objectives import PosteriorRisk
from .options import SolverOptions
from .solution import Solution
from .static_search import StaticSearch
from .stationary import solve_stationary

DIAL = (0.0, 0.5, 0.8, 0.9, 0.99)  # levels of the nested problems whose policies are tried
FIRST_DRAWS, DEFAULT_DRAWS = 250, 1_000  # of growing sets: the first, and the largest by default
FRESH_DRAWS, BATCHES = 20_000, 20  # for the value out of sample, and its standard error
ENOUGH = 2.0  # standard errors: so much optimism of a set of draws is no reason for a larger one
MAX_BYTES = 4e9  # of all models
MAX_WORK = 1e11  # operations of solving them once, about a minute
ASCENTS = 300  # steps of a randomised policy
SMOOTHING = (10.0, 3.0, 1.0)  # weights of the models for a standard deviation of the return, of the largest one
SHORTEST = 1e-6  # step, in probability


class _Models(NamedTuple):
    """All drawn models, over some of the states."""

    states: IntArray
    chains: Chains
    admissible: BoolArray  # [R, A]


class DrawnModels:
    """A problem with draws: the models that a search sees."""

    def __init__(self, problem: Any, start: FloatArray, theta: FloatArray, extra: FloatArray | None) -> None:
        self.problem, self.start, self.theta, self.extra = problem, start, theta, extra
        model = problem.model
        packed = model.entries.pack(theta)
        self.possible = (packed > 0.0).any(axis=0)
        self.packed = packed[:, self.possible]
        self.layout = Layout.of(model, self.possible)
        if model.discount == 1.0:
            over = self._over()[self.layout.pair // self.layout.n_actions]
            self.layout = self.layout._replace(target=np.where(over, -1, self.layout.target))

    def _over(self) -> BoolArray:
        """Return where the process is over [S] at discount 1; it must end whatever is done."""
        model, pair = self.problem.model, self.layout.pair
        target = np.where(self.layout.target < 0, END, self.layout.target).astype(np.int32)
        first = np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=model.source.size))))
        earned = self.layout.reward
        if self.extra is not None:
            earned = earned + ~model.absorbing[pair // self.layout.n_actions]
        return find_over(model, Outcomes(first, target, earned, np.ones(pair.size)))

    def models(self, every: bool) -> _Models:
        """Return the models over the states that can be reached from the start, or over all."""
        model = self.problem.model
        admissible = model.admissible
        weights = admissible.astype(np.float64)
        states = np.arange(model.n_states) if every else self.layout.reached(self.start, weights)
        rows = self.layout.pairs(states, weights)
        n_draws, n_rows = self.packed.shape[0], rows.indptr.size - 1
        if 8.0 * n_draws * (rows.place.size + 4 * n_rows) > MAX_BYTES or n_draws * float(states.size) ** 3 > MAX_WORK:
            size = f"{n_draws:,} draws of {plural(states.size, 'state')} and {plural(model.n_actions, 'action')}"
            message = f"draws must be fewer: {size} are too many to solve all models again and again"
            raise ParameterError(message, code="too-large", argument="draws", value=n_draws)
        chances = self.packed[:, rows.place]
        gain = np.zeros((n_draws, n_rows))
        filled = np.flatnonzero(np.diff(rows.indptr) > 0)
        gain[:, filled] = np.add.reduceat(chances * rows.earning, rows.indptr[filled], axis=1)
        if self.extra is not None:
            gain += np.where(admissible[states], self.extra[:, states], 0.0).reshape(n_draws, -1)
        chances *= rows.weight
        chains = Chains(rows.indptr, rows.indices, chances, gain, self.start[states], float(model.discount))
        return _Models(states, chains, np.ascontiguousarray(admissible[states]))


def solve_posterior_risk(
    problem: Any,
    objective: PosteriorRisk,
    start: StartLike,
    draws: npt.ArrayLike | None,
    rng: RngLike,
    threads: int | None,
    time_limit: float | None,
    options: SolverOptions,
) -> Solution:
    """Return the best stationary policy for the risk of the return over the posterior; see ``prudent.solve``."""
    if not hasattr(problem, "posterior") or not isinstance(problem.model, UncertainMDP):
        message = "objective=PosteriorRisk(...) needs a BayesianRiskMDP, a model with a posterior or draws"
        raise ParameterError(message, code="conflicting-arguments", argument="objective")
    for name in ("sweeps", "device", "method"):
        if getattr(options, name) != getattr(SolverOptions(), name):
            message = f"{name} cannot be combined with a PosteriorRisk"
            raise ParameterError(message, code="conflicting-arguments", argument=name)
    return _Run(problem, objective, start, draws, rng, threads, options).solved(time_limit, options.max_iterations)


class _Run:
    """One question: the search goes on when it is asked to."""

    def __init__(
        self,
        problem: Any,
        objective: PosteriorRisk,
        start: StartLike,
        draws: npt.ArrayLike | None,
        rng: RngLike,
        threads: int | None,
        options: SolverOptions,
    ) -> None:
        self.problem, self.objective, self.tol = problem, objective, options.tol
        self.start = problem.model.start_distribution(start)
        self.threads = default_threads() if threads is None else whole_number(threads, "threads")
        self.random = np.random.default_rng(1) if rng is None and self._given(draws) else generator(rng)
        if rng is not None and self._given(draws) and problem.reward_posterior is None:
            message = "rng is only used with a number of draws; omit it when the draws are given"
            raise ParameterError(message, code="conflicting-arguments", argument="rng")
        self.theta, self.sizes = self._draw(draws)
        self.extra = None
        if problem.reward_posterior is not None:
            self.extra = problem.quieted(problem.reward_posterior.sample(self.theta.shape[0], self.random))
        self.seed = int(self.random.integers(2**63)) if problem.posterior is not None else 0
        self.nested = self._nested()
        self.search: StaticSearch | None = None
        self.nodes = 0

    def _given(self, draws: npt.ArrayLike | None) -> bool:
        return self.problem.posterior is None or (draws is not None and axes_of(draws) > 0)

    def _draw(self, draws: npt.ArrayLike | None) -> tuple[FloatArray, list[int]]:
        """Return all draws [N, B, K], and the sizes of the sets to solve one after the other."""
        problem, model = self.problem, self.problem.model
        if problem.posterior is None:
            if draws is not None:
                message = "draws cannot be given for a problem made from draws: it has no posterior for others"
                raise ParameterError(message, code="conflicting-arguments", argument="draws")
            return problem.draws, [problem.draws.shape[0]]
        if self._given(draws):
            theta = read_draws(draws, model)
            check_draws(theta, model, theta.shape[2] * EPS)
            return theta, [theta.shape[0]]
        most = DEFAULT_DRAWS if draws is None else whole_number(draws, "draws", memory=64.0)
        sizes = [most]
        while draws is None and sizes[0] > FIRST_DRAWS:
            sizes.insert(0, max(FIRST_DRAWS, sizes[0] // 2))
        return problem.posterior.sample(most, self.random), sizes

    def _nested(self) -> list[IntArray]:
        """Return the policies [S] of the nested problems of a dial."""
        policies = []
        for level in DIAL:
            twin = copy.copy(self.problem)
            twin.risk, twin.alpha = CVaR(level), level
            if level != 0.0 and not twin.is_exact and twin.posterior is not None:
                continue  # rewards that have to be drawn
            policies.append(solve_stationary(twin, threads=self.threads).policy)
        return policies

    def solved(self, time_limit: float | None = None, max_nodes: int | None = None) -> Solution:
        """Search, or go on with it, until the gap is closed or a limit is reached."""
        time_limit = None if time_limit is None else positive(time_limit, "time_limit")
        max_nodes = None if max_nodes is None else whole_number(max_nodes, "max_iterations")
        began = time.perf_counter()
        fresh = None
        while True:
            if self.search is None:
                size = self.sizes[0]
                extra = None if self.extra is None else self.extra[:size]
                self.world = DrawnModels(self.problem, self.start, self.theta[:size], extra)
                self.models = self.world.models(every=False)
                tried = [policy[self.models.states] for policy in self.nested]
                self.search = StaticSearch(
                    self.models.chains, self.models.admissible, self.objective.risk, self.threads
                )
                self.search.begin(self.tol, tried)
            left = None if time_limit is None else max(0.0, time_limit - (time.perf_counter() - began))
            why = self.search.run(left, max_nodes)
            if self.problem.posterior is not None:
                fresh = self._out_of_sample(self._policy(self.search.policy))
            if why is not None or len(self.sizes) == 1:
                break
            assert fresh is not None
            if self.search.upper_bound - fresh.value <= ENOUGH * fresh.error:
                break
            self.nested.append(self._policy(self.search.policy))
            self.sizes.pop(0)
            self.search = None
        return self._solution(why, fresh)

    def _policy(self, reached: Any) -> Any:
        """Return a policy of all states; that of the nested problem where the process cannot come."""
        policy = self.nested[0].astype(np.int64)
        policy[self.models.states] = reached
        return policy

    def _out_of_sample(self, policy: npt.NDArray[Any]) -> OutOfSample:
        """Return what a policy [S] or [S, A] is worth under fresh draws."""
        problem, model = self.problem, self.problem.model
        weights = policy if policy.ndim == 2 else np.eye(model.n_actions)[policy]
        belief = Belief(model.entries.pack(problem.posterior.counts), None, model.entries.begin)
        asked = DrawnPolicies(
            model, belief, [NamedPolicy("policy", weights, None)], self.start, False, problem.reward_posterior
        )
        returns = asked.run(FRESH_DRAWS, self.seed, self.threads).policies[:, 0]
        parts = [float(self.objective.risk(part)) for part in returns.reshape(BATCHES, -1)]
        error = float(np.std(parts, ddof=1) / np.sqrt(BATCHES))
        return OutOfSample(float(self.objective.risk(returns)), error, FRESH_DRAWS)

    def _solution(self, why: str | None, fresh: OutOfSample | None) -> Solution:
        search, risk, model = self.search, self.objective.risk, self.problem.model
        assert search is not None
        policy: npt.NDArray[Any] = self._policy(search.policy)
        worth, upper = search.best, search.upper_bound
        if self.objective.randomised:
            mixed, worth, upper = self._randomised(search)
            policy = np.eye(model.n_actions)[policy]
            policy[self.models.states] = mixed
            if fresh is not None:
                fresh = self._out_of_sample(policy)
        full = self.world.models(every=True)
        weights = policy if policy.ndim == 2 else np.eye(model.n_actions)[policy]
        value, q, _ = _evaluated(full.chains, weights)
        worths = np.asarray(risk(value))
        usable = np.isfinite(q[0])
        ahead = np.full(usable.shape, -np.inf)
        ahead[usable] = risk(q[:, usable])
        ahead = np.where(model.admissible, with_terminal_values(model, ahead), -np.inf)
        returns = value @ self.start
        error, everywhere = (
            search.residual * self._longest() + 64.0 * EPS * float(np.abs(values).max())
            for values in (value[:, self.models.states], value)
        )
        upper = max(upper, worth)
        gap = upper - worth
        asked = search.tol + 4.0 * error
        nodes = plural(search.nodes, "node")
        message = f"no policy is worth more than {max(gap, error):.2g} beyond this, {nodes}"
        if gap > asked and self.objective.randomised:
            message = f"a policy may be worth up to {gap:.2g} more; the bound is that of all randomised policies"
        elif gap > asked:
            message = f"a policy may be worth up to {gap:.2g} more, stopped {why}"
            warn_caller(ConvergenceWarning(message, code="search-cap", error_bound=gap))
        found = PolicySearch(
            upper_bound=upper + error,
            gap=gap + error,
            draws=self.world.theta.shape[0],
            nodes=search.nodes,
            seconds=search.seconds,
            root_bounds=dict(search.root_bounds),
            returns=returns,
            out_of_sample=fresh,
            resume=self.solved,
        )
        return Solution(
            value=worths,
            policy=policy,
            q_source=ahead,
            residual=search.residual,
            error_bound=everywhere,
            iterations=search.nodes,
            converged=gap <= asked,
            message=message,
            states=model.states,
            actions=model.actions,
            terminal=model.terminal,
            problem=self.problem.snapshot(),
            objective=self.objective,
            objective_value=worth,
            start=self.start,
            search=found,
        )

    def _longest(self) -> float:
        """Return the largest expected discounted number of steps."""
        chains = self.models.chains
        if chains.discount < 1.0:
            return 1.0 / (1.0 - chains.discount)
        timed = chains._replace(gain=np.ones_like(chains.gain))
        shape = (timed.data.shape[0], self.models.states.size)
        times, loss, spent = np.empty(shape), np.empty((*shape, self.models.admissible.shape[1])), np.empty(shape)
        first = np.zeros(shape, np.int32)
        best_policies(timed, self.models.admissible, first, times, loss, spent, np.arange(shape[0]))
        if not np.isfinite(times).all():
            message = "at discount 1 a drawn process takes so long to end that 64-bit floats cannot bound its values"
            raise ModelError(message, code="endless-process")
        return float(times.max())

    def _randomised(self, search: StaticSearch) -> tuple[FloatArray, float, float]:
        """Return probabilities [R, A] that are at least as good as the best policy, their risk, and a bound for all."""
        sure = np.eye(search.n_actions)[search.policy]
        even = search.admissible / search.admissible.sum(axis=1, keepdims=True)
        climbs = [_climb(search, first) for first in (sure, even, 0.9 * sure + 0.1 * even)]
        best, worth = max(climbs, key=lambda climb: climb[1])
        return best, worth, search.mixed_bound()


def _climb(search: StaticSearch, weights: FloatArray) -> tuple[FloatArray, float]:
    """Improve probabilities [R, A] along gradients, by exact values in all models; return them with their risk.

    At a kink of the risk the gradient leads nowhere. Directions with the smoothed weights of the models, nearest to
    minus the returns among those of the risk, are tried as well, from much to no smoothing.
    """
    chains, risk, admissible = search.chains, search.risk, search.admissible
    value, q, spent = _evaluated(chains, weights)
    returns = value @ chains.start
    worth = float(risk(returns))
    step = np.ones(len(SMOOTHING) + 1)
    for _ in range(ASCENTS):
        better = False
        for way, tail in enumerate(_tails(search, returns)):
            slope = np.einsum("n,nr,nra->ra", tail, spent, np.where(admissible, q, 0.0))
            slope -= (slope * weights).sum(axis=1, keepdims=True)
            slope /= max(float(np.abs(np.where(admissible, slope, 0.0)).max()), 1e-300)
            while step[way] > SHORTEST:
                tried = _on_simplex(weights + step[way] * slope, admissible)
                found = _evaluated(chains, tried)
                there = float(risk(found[0] @ chains.start))
                if there > worth + 1e-12 * abs(worth):
                    weights, worth, (value, q, spent), better = tried, there, found, True
                    returns = value @ chains.start
                    break
                step[way] *= 0.5
            step[way] = min(4.0 * step[way], 1.0)
            if better:
                break
        if not better:
            break
    return weights, worth


def _tails(search: StaticSearch, returns: FloatArray) -> Iterator[FloatArray]:
    """Yield weights of the models: those of the risk, then smoothed ones."""
    yield np.asarray(search.risk.gradient(returns))
    spread = float(returns.std())
    if search.concave and spread > 0.0:
        for share in SMOOTHING:
            point, out = (
                (returns.mean() - returns) * (share * search.sorted_weights[0] / spread),
                np.empty(returns.size),
            )
            project(point, search.sorted_weights, out)
            yield out


def _evaluated(chains: Chains, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values [N, R], values of actions [N, R, A] and visits [N, R] of a policy with probabilities [R, A]."""
    n_draws, shape = chains.data.shape[0], weights.shape
    value, q, spent = np.empty((n_draws, shape[0])), np.empty((n_draws, *shape)), np.empty((n_draws, shape[0]))
    mixed_returns(chains, np.ascontiguousarray(weights), value, q, spent, np.arange(n_draws))
    return value, q, spent


def _on_simplex(weights: FloatArray, admissible: BoolArray) -> FloatArray:
    """Return the nearest probabilities [R, A] of admissible actions."""
    moved = np.where(admissible, weights, -np.inf)
    ordered = -np.sort(-moved, axis=1)
    finite = np.where(np.isfinite(ordered), ordered, 0.0)
    counts = np.arange(1, ordered.shape[1] + 1)
    excess = (np.cumsum(finite, axis=1) - 1.0) / counts
    used = (ordered > excess) & np.isfinite(ordered)
    last = used.shape[1] - 1 - used[:, ::-1].argmax(axis=1)
    share = np.maximum(moved - excess[np.arange(len(moved)), last][:, None], 0.0)
    return np.asarray(share / share.sum(axis=1, keepdims=True))
