"""Returns and costs of policies over draws of a posterior, and policies that are good for a weighted sum of them.

The best policy for a weighted sum over models is hard to find (a multi-model decision process is NP-hard). It is looked
for locally. With V the value and d the discounted visits of a policy in the model of draw i, whose rewards are
``weight * r / N - sum_j price_ij c_j``, action a in state s promises

    sum over i of d_i(s) (q_i(s, a) - V_i(s)),

to first order. All states where that is positive switch, or those where it is largest, if switching all does not pay.

An upper bound is what somebody earns who knows i and may take another policy in each model (``Knowing``), under the
same bounds on costs. There the best policies are found exactly, so that column generation gives the best such bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._support.checks import axes_of, generator, whole_number
from .._support.progress import Progress
from ..errors import ModelError, ParameterError
from ..models.entries import expected_model
from ..types import FloatArray, IntArray, RngLike
from .base import PlanningProblem
from .from_draws import read_draws

DEFAULT_DRAWS = 200
SWITCHES = 100  # rounds of a local search
LATEST = 4  # policies found before that a search may begin with
ROUNDS = 100  # of policy iteration in the model of one draw
DENSE_NUMBERS = 20_000_000  # probabilities of all draws that are kept as one array
PAYS = 1e-11  # of the largest value: a switch that promises less is none


class Judged(NamedTuple):
    """What a policy earns and costs from the start."""

    earns: float
    costs: list[FloatArray]  # of each cost, one number or one for each draw


class DrawnModels:
    """The models of N draws of a posterior, with costs and a start."""

    def __init__(
        self,
        transition: list[scipy.sparse.csr_array],
        rewards: list[FloatArray],
        problem: PlanningProblem,
        costs: list[FloatArray],
        start: FloatArray,
        guess: Callable[..., Any],
    ) -> None:
        """``guess(weight, prices, known)`` returns a policy to begin a search with."""
        model = problem.model
        self.transition, self.costs, self.start, self.guess = transition, costs, start, guess
        self.rewards = np.array(rewards)
        self.admissible, self.discount, self.draws = model.admissible, model.discount, len(transition)
        self.ends = np.where(model.terminal, model.terminal_value, 0.0)
        self.live = ~model.terminal
        self.choices = self.admissible & self.live[:, np.newaxis]
        self.dense = None
        if self.rewards.size * self.live.size <= DENSE_NUMBERS:
            shape = (*self.admissible.shape, self.live.size)
            self.dense = np.array([matrix.toarray().reshape(shape) for matrix in transition])
        self.progress = Progress("policies over draws of the posterior")
        self.searched = 0

    @classmethod
    def of(
        cls,
        problem: Any,
        costs: list[FloatArray],
        start: FloatArray,
        draws: Any,
        rng: RngLike,
        guess: Callable[..., Any],
    ) -> DrawnModels:
        """Return the models of given draws [N, B, K], or of a number of them."""
        if getattr(problem, "posterior", None) is None and getattr(problem, "draws", None) is None:
            message = "at_most has the CVaR of a cost over a posterior; a known model has none: bound the expected cost"
            raise ParameterError(message, code="conflicting-arguments", argument="at_most")
        if problem.posterior is None:
            if draws is not None:
                message = "draws cannot be given for a problem made from draws: it has no posterior to draw others from"
                raise ParameterError(message, code="conflicting-arguments", argument="draws")
            theta = problem.draws
        elif draws is not None and axes_of(draws) > 0:
            theta = read_draws(draws, problem.model)
        else:
            count = DEFAULT_DRAWS if draws is None else whole_number(draws, "draws", memory=64.0)
            theta = problem.posterior.sample(count, generator(rng))
        model = problem.with_mean_rewards()
        made = [expected_model(model.entries, one, survival=model.survival) for one in theta]
        rewards = [np.where(model.terminal[:, np.newaxis], 0.0, reward) for _, reward, _ in made]
        return cls([matrix for matrix, _, _ in made], rewards, problem, costs, start, guess)

    def _values(
        self, policies: FloatArray, rewards: FloatArray, counting: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return values [N, S] and discounted visits [N, S], if ``counting``, of policies [N, S, A] of the draws."""
        values, visits = np.zeros((2, self.draws, self.live.size))
        earned = np.einsum("nsa,nsa->ns", policies, rewards)
        try:
            if self.dense is not None:
                system = np.einsum("nsa,nsat->nst", policies, self.dense)
                system *= -self.discount
                system += np.eye(self.live.size)
                values[:] = np.linalg.solve(system, earned[..., np.newaxis])[..., 0]
                if counting:
                    visits[:] = np.linalg.solve(system.transpose(0, 2, 1), self.start[:, np.newaxis])[..., 0]
                return values, np.maximum(visits, 0.0)
            for draw, (matrix, policy) in enumerate(zip(self.transition, policies, strict=True)):
                pair = np.flatnonzero(policy)
                place = (pair // policy.shape[1], np.arange(pair.size))
                shares = scipy.sparse.csr_array((policy.reshape(-1)[pair], place), shape=(self.live.size, pair.size))
                factors: Any = scipy.sparse.linalg.splu(
                    (scipy.sparse.eye_array(self.live.size) - self.discount * (shares @ matrix[pair])).tocsc()
                )
                values[draw], visits[draw] = factors.solve(earned[draw]), factors.solve(self.start, trans="T")
        except (RuntimeError, np.linalg.LinAlgError):
            message = (
                "at discount 1 a drawn process may go on for ever; give a discount below 1 to bound a CVaR of costs"
            )
            raise ModelError(message, code="endless-process") from None
        return values, np.maximum(visits, 0.0)

    def _ahead(self, values: FloatArray, rewards: FloatArray) -> FloatArray:
        """Return what actions [N, S, A] are worth one step ahead of values [N, S]."""
        if self.dense is not None:
            next_values = np.matmul(self.dense.reshape(self.draws, -1, self.live.size), values[..., np.newaxis])
        else:
            next_values = np.array([matrix @ value for matrix, value in zip(self.transition, values, strict=True)])
        return rewards + self.discount * next_values.reshape(rewards.shape)

    def _spread(self, policy: Any) -> FloatArray:
        """Return a policy [S] or [S, A] of all draws, or policies [N, S], as probabilities [N, S, A]."""
        n_actions = self.admissible.shape[1]
        if policy.dtype.kind == "f":
            return np.broadcast_to(policy, (self.draws, *policy.shape))
        return np.broadcast_to(np.eye(n_actions)[policy], (self.draws, self.live.size, n_actions))

    def judged(self, policy: Any) -> Judged:
        """Return the mean return of a policy over the draws, and its costs [N]."""
        policies = self._spread(policy)
        values, visits = self._values(policies, self.rewards)
        costs = [np.einsum("ns,nsa,sa->n", visits, policies, cost, optimize=True) for cost in self.costs]
        return Judged(float((values @ self.start).mean()) + float(self.start @ self.ends), costs)

    def best(self, weight: float, prices: list[FloatArray], known: list[IntArray]) -> tuple[IntArray, float]:
        """Return a policy for ``weight`` times the mean return less the prices of costs, and what it is worth."""
        total = [np.array([price.sum()]) for price in prices]
        first = np.asarray(self.guess(weight, total, [])[0])
        self.searched += 1
        self.progress.show(f"policy {self.searched}")
        rewards = self._priced(weight, prices)
        begin = max([first, *known[-LATEST:]], key=lambda one: self._worth(rewards, one))
        policy, value = self._climbed(rewards, begin)
        return policy, value + weight * float(self.start @ self.ends)

    def _priced(self, weight: float, prices: list[FloatArray]) -> FloatArray:
        """Return the rewards [N, S, A] of the draws, less their costs."""
        rewards = (weight / self.draws) * self.rewards
        for price, cost in zip(prices, self.costs, strict=True):
            rewards = rewards - price[:, np.newaxis, np.newaxis] * cost
        return rewards

    def _worth(self, rewards: FloatArray, policy: IntArray) -> float:
        """Return what a policy is worth."""
        return float((self._values(self._spread(policy), rewards, False)[0] @ self.start).sum())

    def _promises(self, rewards: FloatArray, policy: IntArray) -> tuple[float, FloatArray]:
        """Return what a policy is worth, and what switching to each action [S, A] promises."""
        values, visits = self._values(self._spread(policy), rewards)
        ahead = self._ahead(values, rewards) - values[..., np.newaxis]
        promise = np.einsum("ns,nsa->sa", visits, ahead)
        return float((values @ self.start).sum()), np.where(self.choices, promise, -np.inf)

    def _climbed(self, rewards: FloatArray, policy: IntArray) -> tuple[IntArray, float]:
        """Return a policy that no switch of what it promises most improves, and what it is worth."""
        worth, promise = self._promises(rewards, policy)
        size = float(abs(rewards).max(initial=0.0)) * self.draws
        for _ in range(SWITCHES):
            better, gain = promise.argmax(axis=1), promise.max(axis=1)
            order = np.argsort(-gain)
            many = int((gain > PAYS * size).sum())
            while many:
                chosen = order[:many]
                tried = policy.copy()
                tried[chosen] = better[chosen]
                value, after = self._promises(rewards, tried)
                if value > worth + PAYS * size:
                    policy, worth, promise = tried, value, after
                    break
                many //= 2
            else:
                break
        return policy, worth


class Knowing(DrawnModels):
    """The models of draws for somebody who knows which one is true: a policy is one for each draw, [N, S]."""

    @classmethod
    def like(cls, models: DrawnModels) -> Knowing:
        """Return the models for somebody who knows which one is true."""
        twin = cls.__new__(cls)
        twin.__dict__.update(models.__dict__)
        return twin

    def best(self, weight: float, prices: list[FloatArray], known: list[IntArray]) -> tuple[IntArray, float]:
        """Return the best policies [N, S] for ``weight`` times the return less the prices, and an upper bound."""
        self.searched += 1
        self.progress.show(f"bound, policies {self.searched}")
        rewards, policy = self._priced(weight, prices), known[-1]
        for _ in range(ROUNDS):  # of policy iteration
            values, _ = self._values(self._spread(policy), rewards, False)
            ahead = np.where(self.choices, self._ahead(values, rewards), -np.inf)
            better = ahead.argmax(axis=2)
            rise = np.where(self.live, ahead.max(axis=2) - values, 0.0)
            pays = rise > PAYS * np.maximum(abs(values).max(axis=1, keepdims=True), 1e-300)
            if not pays.any():
                break
            policy = np.where(pays, better, policy)
        # values that no backup raises by more than this are at most that much times the steps below the best
        rest = np.maximum(rise.max(axis=1), 0.0) / (1.0 - self.discount) if self.discount < 1.0 else 0.0
        return policy, float((values @ self.start + rest).sum()) + weight * float(self.start @ self.ends)
