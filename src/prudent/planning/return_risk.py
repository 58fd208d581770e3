"""Entropic risk and EVaR of the discounted return, in a known model.

The Bellman-nested risk of ``BayesianRiskMDP`` is about the model, and taken anew at every step. Here the model is
known, and the risk is that of the whole return R = sum_t gamma^t r_t, which chance makes random. After Hau, Petrik and
Ghavamzadeh, *Entropic Risk Optimization in Discounted MDPs* (AISTATS 2023):

- **Entropic risk** has a recursion. ERM_beta(c X) = c ERM_{c beta}(X), so what is random t steps from now counts with
  beta gamma^t:

      V_t(s) = max over a of ERM_{beta gamma^t}( r + gamma V_{t+1}(s') ),

  one backup of ``EntropicRows`` for each step. The best policy depends on time and
  not on what happened before. The recursion takes a reward as random where the model knows the rewards of single
  steps; a mean reward of a pair counts as certain.
- **The tail.** From time T' on the mean is used in place of the risk, and the risk-neutral policy. By Hoeffding's lemma
  0 <= E[X] - ERM_b(X) <= b D^2 / 8 for a return that varies by at most D, so the values at time 0 are too high by at
  most beta gamma^(2 T') D^2 / 8, and the policy loses no more than that. T' is chosen for the tolerance.
- **EVaR** is the maximum over beta of h(beta) = f(beta) - L / beta, with L = -log(1 - alpha) and f the best entropic
  value at the start, which falls with beta. So h <= f(b1) - L / b2 between two values b1 < b2, h <= f(0) - L / b1
  below b1 and h <= f(b2) above b2. Intervals are split, the most promising first, until none can hold more than the
  best value so far and the tolerance. The result is polished: the best beta for the policy, the best policy for it.
"""

from __future__ import annotations

import heapq
import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._numerics.entropic import entropic_each
from .._support.checks import positive, whole_number
from .._support.notices import warn_caller
from .._support.progress import Progress
from ..data.policy import Policy
from ..errors import ConvergenceWarning, ParameterError
from ..models.base import plural
from ..models.entries import END
from ..models.mdp import MDP
from ..types import FloatArray, PolicyLike, StartLike, TerminalValueLike
from .ends import steps_worth
from .execute.executor import Executor
from .execute.threads import Threads
from .horizon import Induction, backward_induction, one_step, reached, timed_solution
from .known_problem import KnownProblem
from .objectives import Entropic, EVaR, Objective, best_beta
from .row_risks import EntropicRows
from .solution import Solution
from .stationary import solve_stationary

DIGITS = 1e-10  # default tolerance, relative to the range of the return
TAIL_SHARE = 1e-12  # default share of the range that the tail may take, which costs only a few steps
SEARCH_SHARE = 1e-3  # default share of the difference between mean and worst that the search over beta may miss
MAX_BETAS = 5_000  # in one search
MAX_POLISHES = 20


def _entropic_mixture(operator: Executor, shares: FloatArray, q: FloatArray) -> FloatArray:
    """Return the entropic mean over random actions [S] of ``q`` [S, A]."""
    mixed = np.empty(operator.n_states)
    entropic_each(q, shares, operator.rows.beta, mixed)
    return mixed


class _Value(NamedTuple):
    """The best entropic value at the start for one beta, and by how much it may be off."""

    beta: float
    worth: float
    high: float  # the truth is at most that
    error: float  # the truth, and what the policy attains, is at least worth - error


class _Problem:
    """Entropic values of one model from one start, for any beta."""

    def __init__(
        self,
        known: KnownProblem,
        start: StartLike,
        horizon: int | None,
        terminal_value: TerminalValueLike,
        tol: float | None,
        policy: PolicyLike | None,
    ) -> None:
        self.known, mdp = known, known.model
        mdp.require_unit_durations("risks of the return")
        self.mdp, self.tol = mdp, None if tol is None else positive(tol, "tol")
        self.start = mdp.start_distribution(start)
        self.operator = Threads(EntropicRows(mdp), default_threads())
        self.horizon = None if horizon is None else whole_number(horizon, "horizon", memory=16.0)
        self.policy = None if policy is None else Policy.read(policy, mdp, self.horizon)
        outcomes = self.operator.rows.outcomes
        ends = (outcomes.next_state == END).any()  # after an end nothing is earned
        self.spread = float(np.ptp(np.append(outcomes.reward, 0.0) if ends else outcomes.reward))
        self.final_error = 0.0
        self.later: npt.NDArray[Any] | None = None
        self.progress = Progress("risk of the return")
        if self.horizon is not None:
            self.final = mdp.final_values(terminal_value)
            self.spread *= steps_worth(mdp.discount, self.horizon)
            self.spread += float(np.ptp(np.append(self.final, 0.0)))
            if self.policy is not None:
                self.policy.require(self.horizon)
            return
        if mdp.discount == 1.0:
            message = "horizon must be given: at discount 1 the risk of an endless return is not defined"
            raise ParameterError(message, code="missing-argument", argument="horizon")
        self.spread /= 1.0 - mdp.discount
        self.aim = TAIL_SHARE * self.spread if self.tol is None else 0.25 * self.tol
        self._read_tail()

    def _read_tail(self) -> None:
        """Compute the values of the tail: of the best policy for the mean, or of the policy to be evaluated."""
        if self.policy is not None:
            self.later = self.policy.later
            if self.later is None:
                message = f"horizon must be given: policy ends after {self.policy.steps.shape[0]} steps"
                raise ParameterError(message, code="missing-argument", argument="horizon")
            followed = solve_stationary(self.known, self.later)
            self.final, self.final_error = followed.value, followed.error_bound
            return
        best = solve_stationary(self.known)
        self.final, self.later = best.value, best.policy
        followed = solve_stationary(self.known, best.policy)  # the best policy, but for the error of its values
        gap = float(abs(best.value - followed.value).max())
        self.final_error = best.error_bound + followed.error_bound + gap

    def steps(self, beta: float) -> int:
        """Return after how many steps the mean takes the place of the risk."""
        if self.horizon is not None:
            return self.horizon
        least = 1 if self.policy is None else max(1, self.policy.steps.shape[0])
        if min(beta, self.aim, self.spread, self.mdp.discount) == 0.0:
            return least
        excess = self._hoeffding(beta) - math.log(self.aim)
        return max(least, math.ceil(0.5 * excess / -math.log(self.mdp.discount)))

    def _hoeffding(self, beta: float) -> float:
        """Return the logarithm of beta D^2 / 8."""
        return math.log(beta) + 2.0 * math.log(self.spread) - math.log(8.0)

    def _loss(self, beta: float, steps: int) -> float:
        """Return what the mean in place of the risk may add after so many steps."""
        if self.horizon is not None or min(beta, self.spread, self.mdp.discount) == 0.0:
            return 0.0
        return math.exp(min(self._hoeffding(beta) + 2 * steps * math.log(self.mdp.discount), 700.0))

    def induct(self, beta: float, keep: bool, policy: Policy | None = None) -> tuple[Induction, _Value]:
        """Return the values for ``beta``, those of ``policy`` if one is given, and what they say about the start."""
        steps = self.steps(beta)
        if policy is not None and self.horizon is None:
            steps = max(steps, policy.steps.shape[0])
        induction = backward_induction(
            partial(_operator_at, self.operator, beta),
            self.mdp,
            steps,
            self.final,
            self.policy if policy is None else policy,
            keep=keep,
            mix=_entropic_mixture,
            progress=self.progress,
            error=self.final_error,
        )
        begins = self.start > 0.0
        worth = Entropic(beta).of(induction.value[0, begins], self.start[begins])
        error = induction.error + 64.0 * EPS * float(abs(induction.value[0]).max())
        return induction, _Value(beta, worth, worth + error, error + self._loss(beta, steps))

    def solution(
        self, objective: Objective, induction: Induction, beta: float, worth: float, error: float, end: tuple[bool, str]
    ) -> Solution:
        """Return what the objective is worth, for which beta, with the policy that attains it."""
        if not self.mdp.knows_single_rewards:
            end = end[0], f"{end[1]}; the reward of a pair is taken as certain"
        self.progress.close()
        q_source = partial(_one_step, self.operator, self.mdp, beta)
        fields = {"later": self.later, "objective": objective, "objective_value": worth, "beta": beta}
        return timed_solution(self.known, induction, q_source, error, end, start=self.start, **fields)


def solve_objective(
    known: KnownProblem,
    objective: Objective,
    start: StartLike = None,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    tol: float | None = None,
    policy: PolicyLike | None = None,
) -> Solution:
    """Return the best policy for the risk of the return from ``start``, or the risk of the return of ``policy``."""
    if not isinstance(objective, Entropic | EVaR):
        message = f"objective must be Entropic(beta) or EVaR(alpha), got {objective!r}"
        raise ParameterError(message, code="wrong-type", argument="objective", value=objective)
    problem = _Problem(known, start, horizon, terminal_value, tol, policy)
    if isinstance(objective, EVaR) and not objective.is_mean and problem.spread > 0.0:
        return _Search(problem, objective).run()
    beta = objective.beta if isinstance(objective, Entropic) else 0.0
    induction, at = problem.induct(beta, keep=True)
    enough = DIGITS * max(problem.spread, abs(at.worth)) if problem.tol is None else problem.tol
    end = reached(at.error, enough, problem.steps(beta))
    if not end[0] and isinstance(objective, EVaR):
        warn_caller(ConvergenceWarning(end[1], code="search-cap", error_bound=at.error))
    return problem.solution(objective, induction, beta, at.worth, at.error, end)


class _Search:
    """The best beta of an EVaR, with a bound on what others could give."""

    def __init__(self, problem: _Problem, objective: EVaR) -> None:
        self.problem, self.objective, self.price = problem, objective, objective.price
        self.tried = 0
        self.best: _Value | None = None
        self.worth = -math.inf  # of the best so far: entropic value less price

    def at(self, beta: float) -> _Value:
        """Try one beta."""
        value = self.problem.induct(beta, keep=False)[1]
        self.tried += 1
        if value.worth - self.price / beta > self.worth:
            self.best, self.worth = value, value.worth - self.price / beta
        self.problem.progress.show(f"{plural(self.tried, 'beta')} tried")
        return value

    def run(self) -> Solution:
        """Search until no beta can be better by more than the tolerance."""
        problem, price = self.problem, self.price
        mean = problem.induct(0.0, keep=False)[1]
        least = price / problem.spread  # below it the price is more than there is to lose
        factors = np.append(10.0 ** np.arange(0.0, 6.1, 0.5), [1e9, 1e13])
        grid = np.unique(np.minimum(least, 1e307 / factors) * factors)
        tried = [self.at(float(beta)) for beta in grid]
        self.polish(1, 1e-3)
        noise = max(mean.error, *(one.error for one in tried))
        floor = 1e-12 * problem.spread
        # of a tolerance, half is for the search, the rest for the tail: of the best beta, and of what it is compared to
        missed = SEARCH_SHARE * (mean.worth - tried[-1].worth) if problem.tol is None else 0.5 * problem.tol
        aim = max(missed, floor)
        left = [(-(mean.high - price / grid[0]), 0.0, mean.high, float(grid[0]))]
        left += [self._interval(one, other.beta) for one, other in pairwise(tried)]
        left.append(self._interval(tried[-1], math.inf))
        heapq.heapify(left)
        while -left[0][0] > self.worth + aim + noise and self.tried < MAX_BETAS:
            _, low, high, end = heapq.heappop(left)
            begin = low or price / max(mean.high - self.worth, 1e-300)  # below this not even the mean pays the price
            middle = 10.0 * begin if end == math.inf else math.sqrt(begin) * math.sqrt(end)
            if not low < middle < end:  # nothing lies between them
                heapq.heappush(left, (-(high - price / end), low, high, end))
                break
            value = self.at(middle)
            noise = max(noise, value.error)
            heapq.heappush(left, (-(high - price / middle), low, high, middle))
            heapq.heappush(left, self._interval(value, end))
        self.polish(MAX_POLISHES, 1e-8)
        assert self.best is not None
        error = max(-left[0][0] - self.worth, 0.0) + self.best.error
        asked = aim + 4.0 * noise if problem.tol is None else max(problem.tol, floor + 4.0 * noise)
        converged = error <= asked
        tries = plural(self.tried, "beta")
        message = f"no beta gives more than {error:.2g} beyond this, {tries} tried"
        if not converged:
            message = f"another beta may give up to {error:.2g} more, {tries} tried; {asked:.2g} was asked for"
            warn_caller(ConvergenceWarning(message, code="search-cap", error_bound=error))
        induction, _ = problem.induct(self.best.beta, keep=True)
        return problem.solution(self.objective, induction, self.best.beta, self.worth, error, (converged, message))

    def _interval(self, at: _Value, end: float) -> tuple[float, float, float, float]:
        """Return the interval from a beta that was tried to another: first minus the most that it can hold."""
        return (-(at.high - self.price / end), at.beta, at.high, end)

    def polish(self, times: int, xtol: float) -> None:
        """Improve the best so far: the best beta for its policy, the best policy for that beta, and so on."""
        problem = self.problem
        last = None
        for _ in range(times):
            assert self.best is not None
            beta, before = self.best.beta, self.worth
            policy = Policy(problem.induct(beta, keep=True)[0].policy, problem.later)
            if last is not None and np.array_equal(policy.steps, last):
                return
            last = policy.steps

            def entropic(beta: float, policy: Policy = policy) -> float:
                return problem.induct(beta, keep=False, policy=policy)[1].worth

            self.at(best_beta(entropic, self.price, problem.spread, near=beta, xtol=xtol)[0])
            if not self.worth > before + 4.0 * EPS * problem.spread:
                return


def _operator_at(operator: Executor, beta: float, time: int) -> Executor:
    """Return the operator of one time."""
    operator.rows.beta = beta * operator.discount**time
    return operator


def _one_step(operator: Executor, mdp: MDP, beta: float, value: FloatArray, time: int) -> FloatArray:
    """Return Q [S, A] at one time."""
    return one_step(_operator_at(operator, beta, time), mdp, value, time)
