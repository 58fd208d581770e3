"""Returns of given policies, and of the best policy, under draws of a posterior: all policies face the same draws.

``prudent.planning.model_draws`` has the compiled loops. ``prudent.posterior_returns`` describes the result.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import each_row, over_rows
from .._numerics.dirichlet_draws import draw_slots
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..errors import ConvergenceWarning, ModelError
from ..models.entries import END, Outcomes
from ..models.uncertain import UncertainMDP
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..types import BoolArray, FloatArray, IntArray
from .ends import find_over, steps_worth
from .model_draws import DENSE, FLOOR, Layout, Rows, Task, drawn_returns, eliminated_returns, plan_returns

RELATIVE_ERROR = 1e-10  # of a return, relative to the largest value
DRAWS_PER_STREAM = 16  # draws that share a random stream
MAX_NUMBERS = 2_000_000  # drawn at a time by one thread; with more outcomes fewer draws share a stream


class NamedPolicy(NamedTuple):
    """A policy with its name."""

    name: Hashable
    weights: FloatArray  # [S, A] probabilities of actions; with a horizon [T, S, A], or [1, S, A] if always the same
    value: FloatArray | None  # [S] values of the Solution that it is from


class Belief(NamedTuple):
    """Posterior of the probabilities of outcomes: Dirichlet counts, or draws; packed by slots."""

    counts: FloatArray | None  # [F]
    theta: FloatArray | None  # [N, F]
    begin: IntArray  # [B + 1] the slots of each source

    @property
    def mean(self) -> FloatArray:
        """The mean probabilities [F]."""
        if self.counts is None:
            assert self.theta is not None
            return np.asarray(self.theta.mean(axis=0))
        return self.counts / np.repeat(np.add.reduceat(self.counts, self.begin[:-1]), np.diff(self.begin))

    @property
    def surplus(self) -> float:
        """Largest excess over one of the probabilities of a source, in draws of the caller."""
        if self.theta is None:
            return 0.0
        return max(0.0, float(np.add.reduceat(self.theta, self.begin[:-1], axis=1).max()) - 1.0)


class DrawnReturns(NamedTuple):
    """Returns under each draw."""

    policies: FloatArray  # [N, J]
    optimal: FloatArray | None  # [N]
    error: float  # bound on the error of each


class _Question(NamedTuple):
    """A value to compute for each draw: the return of a policy, or that of the best policy."""

    rows: Rows
    states: IntArray  # [R]
    start: FloatArray  # [R]
    weights: FloatArray | None  # [R, A] of the policy; None for the best policy, and with a horizon
    clock: FloatArray | None = None  # [E] factor of theta in the time of a step, at discount 1
    plan: FloatArray | None = None  # [T, R, A] of a policy with a horizon, or empty


class DrawnPolicies:
    """The chains of all policies, built once, and the posterior whose draws fill them."""

    def __init__(
        self,
        model: UncertainMDP,
        belief: Belief,
        named: Sequence[NamedPolicy],
        start: FloatArray,
        regret: bool,
        reward_posterior: NormalPosterior | BetaPosterior | None,
        horizon: int | None = None,
        final: FloatArray | None = None,
    ) -> None:
        self.model, self.named, self.start, self.reward_posterior = model, named, start, reward_posterior
        self.horizon, self.final = horizon, final
        possible = belief.mean > 0.0
        self.layout = Layout.of(model, possible)
        self.max_reward = float(np.abs(self.layout.reward).max())
        questions: dict[bytes, int] = {}
        self.questions: list[_Question] = []
        self.column: list[int] = []  # the question of each policy; policies may share one
        for policy in named:
            question = self._plan(policy.weights) if horizon is not None else self._chain(policy.weights)
            # with drawn rewards, chains that are otherwise the same may differ
            parts = [question.states, *question.rows]
            if horizon is not None or reward_posterior is not None:
                parts.append(question.weights if question.plan is None else question.plan)
            key = b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)
            self.column.append(questions.setdefault(key, len(questions)))
            if len(questions) > len(self.questions):
                self.questions.append(question)
        if regret:
            every = (model.source >= 0).astype(np.float64)
            self.questions.append(self._plan(None) if horizon is not None else self._chain(every, best=True))
        self.regret = regret
        groups = {
            column: [p.name for p, c in zip(named, self.column, strict=True) if c == column] for column in self.column
        }
        self.same = [names for names in groups.values() if len(names) > 1]
        self._lay_out_draws(belief, possible)
        quiet = model.terminal | model.absorbing
        self._quiet = model.terminal if quiet.all() else quiet  # states that earn no drawn rewards

    def _chain(self, weights: FloatArray, best: bool = False) -> _Question:
        """Return the question of a policy with weights [S, A], or of the best one among those that have weight."""
        layout, clock = self.layout, None
        if self.model.discount == 1.0:
            over = self._over(None if best else weights)[layout.pair // layout.n_actions]
            layout = layout._replace(target=np.where(over, -1, layout.target))
            clock = layout._replace(reward=np.where(over, 0.0, 1.0))
        states = layout.reached(self.start, weights)
        parts = [
            None if one is None else (one.pairs(states) if best else one.chain(states, weights))
            for one in (layout, clock)
        ]
        assert parts[0] is not None
        times = None if parts[1] is None else parts[1].earning
        return _Question(parts[0], states, self.start[states], None if best else weights[states], times)

    def _plan(self, plan: FloatArray | None) -> _Question:
        """Return the question of a policy [T, S, A] with a horizon; None for the best one."""
        used = (self.model.source >= 0).astype(np.float64) if plan is None else plan.max(axis=0)
        states = self.layout.reached(self.start, used)
        steps = np.empty((0, 0, 0)) if plan is None else np.ascontiguousarray(plan[:, states])
        return _Question(self.layout.pairs(states, used), states, self.start[states], None, None, steps)

    def _over(self, weights: FloatArray | None) -> BoolArray:
        """Return where the process is over [S] at discount 1; it must end."""
        pair, target = self.layout.pair, np.where(self.layout.target < 0, END, self.layout.target).astype(np.int32)
        sizes = np.bincount(pair, minlength=self.model.source.size)
        first = np.concatenate(([0], np.cumsum(sizes)))
        earned = self.layout.reward + (
            0.0 if self.reward_posterior is None else ~self.model.absorbing[pair // self.layout.n_actions]
        )
        outcomes = Outcomes(first, target, earned, np.ones(pair.size))
        return find_over(self.model, outcomes, weights)

    def _lay_out_draws(self, belief: Belief, possible: BoolArray) -> None:
        """Keep the sources that some question uses; renumber their outcomes."""
        slot = np.flatnonzero(possible)  # of each place
        sizes = np.diff(belief.begin)
        source = np.repeat(np.arange(sizes.size), sizes)[slot]
        used = np.zeros(sizes.size, dtype=np.bool_)
        for question in self.questions:
            used[source[question.rows.place]] = True
        kept = used[source]
        number = np.cumsum(kept) - 1
        self.questions = [q._replace(rows=q.rows._replace(place=number[q.rows.place])) for q in self.questions]
        self.slot = slot[kept]
        sizes = np.bincount(source[kept], minlength=used.size)[used]
        self.first = np.concatenate(([0], np.cumsum(sizes)))
        self.counts = None if belief.counts is None else belief.counts[self.slot]
        self.given, self.surplus = belief.theta, belief.surplus
        self.mean = belief.mean[self.slot]
        self.unit = max(1, min(DRAWS_PER_STREAM, MAX_NUMBERS // max(self.slot.size, 1)))

    def _theta(self, unit: int, stop: int, rng: np.random.Generator) -> FloatArray:
        """Return the draws [n, E] of a unit."""
        begin = unit * self.unit
        if self.given is not None:
            return np.ascontiguousarray(self.given[begin:stop, self.slot])
        assert self.counts is not None
        theta = np.empty((self.slot.size, self.unit))  # a whole unit, so that more draws begin with the same ones
        draw_slots(rng, self.counts, self.first, theta, np.empty(self.unit))
        return np.ascontiguousarray(theta.T[: stop - begin])

    def _extra(self, question: _Question, rewards: FloatArray | None) -> FloatArray:
        """Return what drawn rewards [n, S, A] add to the rows of a question."""
        if rewards is None:
            return np.empty((0, 0))
        part = rewards[:, question.states]
        if question.weights is None:
            return np.ascontiguousarray(part.reshape(part.shape[0], -1))
        return np.ascontiguousarray(np.einsum("nra,ra->nr", part, question.weights))

    def _reward_draws(self, n: int, rng: np.random.Generator | None) -> FloatArray | None:
        if self.reward_posterior is None:
            return None
        drawn = self.reward_posterior.mean()[np.newaxis] if rng is None else self.reward_posterior.sample(n, rng)
        return np.where(self._quiet[:, np.newaxis], 0.0, drawn)

    def run(self, count: int, seed: int, threads: int) -> DrawnReturns:
        """Return the returns under ``count`` draws."""
        results = np.empty((len(self.questions), count))
        mean, rewards = self.mean[np.newaxis], self._reward_draws(1, None)
        solvers: list[Any] = []
        for question in self.questions:
            if question.plan is None:
                extra = self._extra(question, rewards)
                solvers.append(_Solver(question, self.model.discount, self.max_reward, mean, extra))
            else:
                assert self.horizon is not None
                assert self.final is not None
                final = self.final[question.states]
                solvers.append(_Induction(question, self.model.discount, self.max_reward, self.horizon, final))

        def work(unit: int) -> int:
            begin, stop = unit * self.unit, min(count, (unit + 1) * self.unit)
            for_theta, for_rewards = replication_streams(seed, unit)
            theta = self._theta(unit, stop, for_theta)
            rewards = self._reward_draws(self.unit, for_rewards)
            for question, solver, row in zip(self.questions, solvers, results, strict=True):
                extra = self._extra(question, None if rewards is None else rewards[: stop - begin])
                solver(theta, extra, row[begin:stop])
            return stop - begin

        progress = f"{{:,}} of {count:,} draws"
        over_units(work, -(-count // self.unit), threads, "returns over the posterior", progress)
        residual = max(solver.unsettled for solver in solvers)
        if residual > 0.0:
            message = f"the values of some draws have a residual of {residual:.2g}; see attrs['error_bound']"
            warnings.warn(ConvergenceWarning(message, code="residual", value=residual), stacklevel=3)
        error = max(solver.error_bound(self.surplus) for solver in solvers)
        return DrawnReturns(results[self.column].T, results[-1] if self.regret else None, error)


class _Solver:
    """Solver of one question for many draws, started at the values of the posterior mean; threads may share it."""

    def __init__(
        self, question: _Question, discount: float, max_reward: float, theta: FloatArray, extra: FloatArray
    ) -> None:
        rows, n_states = question.rows, question.states.size
        self.longest = int(np.diff(rows.indptr).max(initial=0))
        self.max_reward = max_reward  # reward
        self.clock = None if question.clock is None else rows._replace(earning=question.clock)
        self.start = question.start
        self.longest_time = 0.0
        gap = 1.0 / self._time(theta) if discount == 1.0 else 1.0 - discount
        digits = RELATIVE_ERROR * gap
        # tiny rewards have no digits below those of floats
        self.task = Task(rows, question.start, discount, max(digits * max_reward, sys.float_info.min), False)
        self.checks: list[tuple[float, float]] = []  # residual and size of values of each call
        self.guess = np.zeros(n_states)
        self.sparse = False  # by sparse elimination
        products, _, _ = self._compute(theta, extra, self.guess, np.empty(1))
        self.sparse = products < 0  # where the mean model needs it, draws do too
        entries = rows.indices.size * n_states // (rows.indptr.size - 1)
        # in units of an entry of a product with P; elimination runs at the speed of a matrix product
        direct = n_states <= DENSE and 0.1 * n_states**3 < products * (entries + 8 * n_states)
        scale = max(self.max_reward, float(np.abs(self.guess).max()))
        self.task = self.task._replace(aim=digits * scale, direct=direct)

    def __call__(self, theta: FloatArray, extra: FloatArray, out: FloatArray) -> None:
        """Write the returns under the draws ``theta`` [n, E] into ``out`` [n]."""
        self.checks.append(self._compute(theta, extra, self.guess.copy(), out)[1:])
        if self.clock is not None:
            self.longest_time = max(self.longest_time, self._time(theta))

    def _time(self, theta: FloatArray) -> float:
        """Return a bound on the expected number of steps to the end, under every draw and from every state."""
        assert self.clock is not None
        task = Task(self.clock, self.start, 1.0, 1e-3, False)
        guess, out = np.zeros(self.start.size), np.empty(theta.shape[0])
        _, residual, size = drawn_returns(task, theta, np.empty((0, 0)), guess, out)
        if not residual < 0.5:
            _, residual, size = eliminated_returns(task, theta, np.empty((0, 0)), np.zeros(self.start.size), out)
        if not residual < 0.5:
            message = "at discount 1 a drawn process takes so long to end that 64-bit floats cannot bound its values; "
            raise ModelError(message + "give a horizon, or a discount below 1", code="endless-process", steps=size)
        return float(size / (1.0 - residual)) + 1.0

    def _compute(self, theta: FloatArray, extra: FloatArray, guess: FloatArray, out: FloatArray) -> Any:
        try:
            if not self.sparse:
                outcome = drawn_returns(self.task, theta, extra, guess, out)
                if not self._excess(*outcome[1:]):
                    return outcome
                guess[:] = 0.0  # it may have diverged
            return eliminated_returns(self.task, theta, extra, guess, out)
        except (np.linalg.LinAlgError, RuntimeError):  # singular: at discounts within rounding of one
            raise _no_value(self.task.discount) from None

    def _excess(self, residual: float, size: float) -> float:
        """Return the residual if it is above both the target and rounding, else 0."""
        return 0.0 if residual <= 4.0 * max(self.task.aim, FLOOR * size) else residual

    @property
    def unsettled(self) -> float:
        """The largest residual above both the target and rounding; 0 if there is none."""
        return max(self._excess(*check) for check in self.checks)

    def error_bound(self, surplus: float) -> float:
        """Return a bound on the error of every return, if rows sum to at most 1 + ``surplus``."""
        discount, roundings = self.task.discount, (self.longest + 4.0) * EPS
        gap = (1.0 / self.longest_time if discount == 1.0 else 1.0 - discount) - discount * (surplus + roundings)
        if not gap > 0.0:
            raise _no_value(discount)
        return max(residual + roundings * (size + self.max_reward) for residual, size in self.checks) / gap


class _Induction:
    """Solver of one question with a horizon, by backward induction: only rounding is left."""

    unsettled = 0.0

    def __init__(
        self, question: _Question, discount: float, max_reward: float, horizon: int, final: FloatArray
    ) -> None:
        assert question.plan is not None
        self.fixed = (question.rows, question.start, discount, horizon, question.plan, final)
        self.longest = int(np.diff(question.rows.indptr).max(initial=0)) + question.plan.shape[-1]
        self.steps = steps_worth(discount, horizon)
        self.sizes: list[float] = [max_reward]

    def __call__(self, theta: FloatArray, extra: FloatArray, out: FloatArray) -> None:
        """Write the returns under the draws ``theta`` [n, E] into ``out`` [n]."""
        self.sizes.append(plan_returns(*self.fixed, theta, extra, out))

    def error_bound(self, surplus: float) -> float:
        """Return a bound on the error of every return."""
        return (self.longest + 4.0) * EPS * max(self.sizes) * self.steps


def _no_value(discount: float) -> ModelError:
    message = f"at discount {discount!r} the rounding of probabilities leaves no finite value; lower it"
    return ModelError(message, code="discount-range", value=discount)


def over_units(work: Callable[[int], int], units: int, threads: int, what: str, progress: str) -> None:
    """Call ``work(unit)`` for each unit, on threads, and show how much is done.

    Parameters
    ----------
    work : callable
        Does a unit and returns how much that is.
    units, threads : int
        Numbers of units and of threads.
    what : str
        Title of the line of progress.
    progress : str
        Its text, a format with a field for how much is done.
    """
    line, done = Progress(what), 0

    def part(begin: int, end: int) -> None:
        nonlocal done
        for unit in each_row(begin, end):
            done += work(unit)
            line.show(progress.format(done))

    over_rows(part, units, threads, long=True)
    line.close()
