"""Parts of a log: what they know, the bare model of one, the chain of a policy in it, and how a log is split.

**Unknown rewards.** ``BayesianRiskMDP`` adds a normal of standard deviation s(s, a) to the Dirichlet mean of a row, and
its exact risk of the sum costs milliseconds a row. A part is solved many times for its policy alone, so it takes

    m - sign(alpha) sqrt((m - c)^2 + (p s)^2),

with m the mean and c the exact risk of the row without the normal, p the CVaR of a standard normal. It is exact if both
are normal and if one of them is constant; elsewhere it was within a tenth of what the noise takes off the values.
It is the fixed point of solves with known rewards to which the difference to c, at the last values, is added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from ..errors import DataError, ParameterError
from ..exact import cvar_normal
from ..models.builders import own_sources, places_in
from ..models.uncertain import UncertainMDP
from ..planning.base import with_rewards
from ..planning.chain import Chain, sparse_elimination
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.stay_close import log_policy
from ..posteriors.dirichlet import DirichletPosterior, prior_counts
from ..posteriors.scalar import NormalPosterior
from ..types import BoolArray, FloatArray, IntArray
from .counts import Outcomes, Transitions, often_tried, sums, supported
from .groups import learn_similarity, pooled_priors
from .rewards import rewards_of
from .rows import LogRows

SMALL = 300  # states up to which chains are solved by dense elimination; products are faster for more
MOST_DENSE = 1_500  # states up to which it is dense at all
SETTLED = 1e-6  # relative error of values by products; if they leave more, it is elimination
TOLERANCE = 1e-6  # of solves, relative to the largest reward
NEAR = 1e-3  # of what unknown rewards take off, relative to their largest risk
ROUNDS = 30  # solves until then
PRECISION = 1e-10  # of values of larger chains, relative to the largest


class Limits(NamedTuple):
    """What the policies of parts keep to, by the indices of the log, and the group that they are for."""

    excluded: BoolArray | None = None  # [S, A] what must not be done
    baseline: FloatArray | str | None = None  # [S, A] or "log": what policies stay close to
    min_visits: float | None = None
    epsilon: float | None = None
    group: int | None = None  # whose rows are judged; those of others only enter the prior

    def own(self, read: LogRows) -> BoolArray | None:
        """Return the rows [M] of the group; None if there is none."""
        return None if self.group is None or read.group is None else read.group == self.group


UNLIMITED = Limits()


class Units(NamedTuple):
    """What is split: episodes, or the observations of a log without episodes."""

    size: int  # N
    of_row: IntArray  # [M]
    first: IntArray | None  # [N] the first row of each episode; None without episodes
    times: FloatArray  # [M]
    sign: FloatArray  # [M] random signs

    @classmethod
    def of(cls, read: LogRows, folds: int, own: BoolArray | None = None) -> Units:
        """Return the units of a log, or of its rows ``own`` [M]; refuse one that has fewer than ``folds``.

        Other rows have no weight in any fold.
        """
        if own is not None:
            rows, every = np.flatnonzero(own), np.zeros(own.size, dtype=np.int64)
            some = cls.of(read.some(own), folds)
            of_row, times, sign = every.copy(), every.astype(np.float64), every.astype(np.float64)
            of_row[rows], times[rows], sign[rows] = some.of_row, some.times, some.sign
            return cls(some.size, of_row, None if some.first is None else rows[some.first], times, sign)
        sign = np.where(np.random.default_rng(0).random(read.times.size) < 0.5, -1.0, 1.0)
        if read.by_episode is None:
            if read.times.sum() < 2 * folds:
                message = f"{read.held.table} has {read.times.sum():g} observations, too few for {folds} folds"
                raise DataError(message, code="few-episodes", argument="log", value=float(read.times.sum()))
            return cls(read.times.size, np.arange(read.times.size), None, read.times, sign)
        names, of_row = np.unique(read.episode, return_inverse=True)  # episodes without a row are none
        if names.size < folds:
            message = f"{read.held.table} has {names.size} episodes, too few for {folds} folds"
            raise DataError(message, code="few-episodes", argument="log", value=int(names.size))
        order = np.lexsort((read.place, of_row))
        first = order[np.searchsorted(of_row[order], np.arange(names.size))]
        return cls(names.size, of_row, first, read.times, sign)

    def split(self, random: np.random.Generator, folds: int) -> Any:
        """Return a function whose iterator gives the weights [M] of the rows in each fold."""
        if self.first is not None:
            fold = random.permutation(np.arange(self.size) % folds)[self.of_row]
            return lambda: (np.where(fold == k, self.times, 0.0) for k in range(folds))
        whole = np.floor(self.times).astype(np.int64)
        parts = random.multinomial(whole, np.full(folds, 1.0 / folds))
        rest, lucky = self.times - whole, random.integers(folds, size=self.size)
        return lambda: (parts[:, k] + np.where(lucky == k, rest, 0.0) for k in range(folds))


class Part(NamedTuple):
    """The transitions of one part, without those into states that it never leaves."""

    seen: Transitions
    acting: BoolArray  # [S]
    lost: float  # observations that were left out

    @classmethod
    def of(cls, every: Transitions, read: LogRows) -> Part:
        """Leave out transitions until every state that is left leads on."""
        seen, closed = every, read.terminal | read.absorbing
        while True:
            acting = np.asarray(seen.visits.any(axis=1))
            leads = (acting | closed)[seen.target]
            if leads.all():
                return cls(seen, acting, float(every.times.sum() - seen.times.sum()))
            seen = seen.some(leads)


def first_states(
    read: LogRows, part: Part, weights: FloatArray, units: Units, start: Mapping[Hashable, float] | None
) -> FloatArray:
    """Return the distribution [S] of the first state in a part."""
    S = read.by_state.size
    if start is not None:
        begin = np.zeros(S)
        for name, chance in start.items():
            begin[read.by_state.index(name, "start", ParameterError)] += chance
    elif units.first is not None:
        at = units.first[weights[units.first] > 0.0]
        begin = np.bincount(read.state[at], minlength=S).astype(np.float64)
    else:
        begin = np.ones(S)
    begin = begin * part.acting
    if not begin.any():
        begin = part.acting.astype(np.float64)
    return np.asarray(begin / max(float(begin.sum()), np.finfo(np.float64).tiny))


def bare_problem(
    read: LogRows,
    kept: BoolArray,
    entries: Outcomes,
    reward: FloatArray,
    prior: float,
    discount: float,
    borrowed: FloatArray | None = None,
) -> tuple[UncertainMDP, DirichletPosterior]:
    """Return the bare model of a part on all states and the actions that it uses, and its posterior.

    States without rows end the process. ``borrowed`` [E] is what other groups add to the prior counts of outcomes.
    """
    rest, used = np.flatnonzero(read.absorbing), np.flatnonzero(kept.any(axis=0))
    admissible = kept[:, used]
    admissible[rest, 0] = True
    s, a = np.divmod(entries.pair, kept.shape[1])
    pair = np.concatenate((s * used.size + np.searchsorted(used, a), rest * used.size))
    order = np.argsort(pair, kind="stable")
    target = np.concatenate((entries.target, rest))[order]
    earned = np.concatenate((reward, read.absorbing_reward[rest]))[order]
    times = np.concatenate((entries.times, np.zeros(rest.size)))[order]
    lasting = None
    if entries.duration is not None:
        lasting = np.concatenate((entries.duration, np.ones(rest.size)))[order]
    pair = pair[order]
    ended = np.flatnonzero(~admissible.any(axis=1))
    model = UncertainMDP.from_entries(
        own_sources(admissible),
        pair,
        places_in(pair),
        target,
        earned,
        discount,
        terminal=dict(zip(ended.tolist(), read.terminal_value[ended].tolist(), strict=True)),
        duration=lasting,
    )
    start = prior_counts(model, prior)
    b = model.source.reshape(-1)[pair]
    if borrowed is not None:
        start[b, places_in(b)] += np.concatenate((borrowed, np.zeros(rest.size)))[order]
    counts = start.copy()
    counts[b, places_in(b)] += times
    return model, DirichletPosterior(counts, prior=start)


class PolicyChain:
    """The chain of a policy: its values, and the discounted time from a start."""

    def __init__(self, chain: Chain, discount: float) -> None:
        self.chain, self.discount = chain, discount
        self._factors: Any = None

    @classmethod
    def of(
        cls,
        read: LogRows,
        discount: float,
        origin: IntArray,
        target: IntArray,
        chance: FloatArray,
        reward: FloatArray,
        duration: FloatArray | None = None,
    ) -> PolicyChain:
        """Return the chain with these entries, sorted by origin; other states earn what they are worth and end.

        What an entry of a long duration loses is as good as a chance to end.
        """
        S = read.by_state.size
        earned = sums(origin, chance * reward, S)
        if duration is not None:
            chance = chance * discount ** (duration - 1.0)
        fixed = np.where(read.absorbing, read.absorbing_reward / (1.0 - discount), read.terminal_value)
        closed = read.terminal | read.absorbing
        earned[closed] = fixed[closed]
        indptr = np.concatenate(([0], np.cumsum(np.bincount(origin, minlength=S))))
        return cls(Chain(indptr, target.astype(np.int32), chance, earned), discount)

    def values(self) -> FloatArray:
        """Return the values of all states."""
        return self._solve(self.chain.reward, False)

    def occupancy(self, start: FloatArray) -> FloatArray:
        """Return the discounted number of visits of each state from ``start``."""
        return np.maximum(self._solve(start, True), 0.0)

    def _solve(self, right: FloatArray, back: bool) -> FloatArray:
        """Return the solution for a right side: by products, or by elimination if they are few or do not settle."""
        S = right.size
        if S > SMALL and self._factors is None:
            target = PRECISION * max(float(np.abs(right).max()), np.finfo(np.float64).tiny)
            steps = scipy.sparse.csr_array((self.chain.data, self.chain.indices, self.chain.indptr), shape=(S, S))
            chain, flow = self.chain._replace(reward=right), steps.T.tocsr() if back else steps
            if back:
                chain = Chain(flow.indptr.astype(np.int64), flow.indices.astype(np.int32), flow.data, right)
            found = chain.values(self.discount, np.zeros(S), target, False)
            left = float(np.abs(right + self.discount * (flow @ found) - found).max())
            if left <= SETTLED * (1.0 - self.discount) * float(np.abs(found).max()):  # which bounds the error
                return found
        if S > MOST_DENSE:
            return sparse_elimination(flow, right, self.discount)
        if self._factors is None:
            matrix = self.chain.dense()
            matrix *= -self.discount
            matrix.flat[:: S + 1] += 1.0
            self._factors = scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)
        return np.asarray(scipy.linalg.lu_solve(self._factors, right, trans=1 if back else 0, check_finite=False))


class Learned(NamedTuple):
    """The policy that a part leads to at one risk level."""

    alpha: float
    policy: IntArray  # [S], -1 in states that the part does not know
    value: FloatArray  # [S] Bayesian-risk values
    chain: PolicyChain  # at the posterior mean
    mixture: FloatArray | None = None  # [S, A] probabilities of a policy that chooses at random


class Learner(NamedTuple):
    """The model of a part and its posterior, without names and summary."""

    read: LogRows
    discount: float
    kept: BoolArray  # [S, A]
    entries: Outcomes
    reward: FloatArray  # [E]
    chance: FloatArray  # [E] posterior mean
    unknown: NormalPosterior | None  # what is not known of mean rewards
    model: UncertainMDP
    posterior: DirichletPosterior
    limits: Limits = UNLIMITED

    @classmethod
    def of(
        cls,
        read: LogRows,
        seen: Transitions,
        discount: float,
        prior: float,
        support: Any,
        least: float,
        rewards: Any,
        limits: Limits = UNLIMITED,
        weights: FloatArray | None = None,
    ) -> Learner:
        """Return the model of the transitions ``seen``, whose rows counted ``weights`` [M] times (for groups)."""
        size = read.shape[0] * read.shape[1]
        kept, _ = often_tried(seen.visits, least)
        entries = supported(read, seen, kept, support)
        reward, facts = rewards_of(rewards, read, seen, entries)
        unknown = facts.posterior(np.where(kept, seen.visits, 0.0)[:, kept.any(axis=0)])
        sizes, borrowed = np.bincount(entries.pair, minlength=size), None
        if limits.group is not None:
            times, borrowed = _of_group(read, seen, entries, prior / sizes[entries.pair], limits.group, weights)
            entries = entries._replace(times=times)
        known = entries.times if borrowed is None else entries.times + borrowed
        visits = sums(entries.pair, known, size)
        chance = (known + prior / sizes[entries.pair]) / (visits + prior)[entries.pair]
        problem = bare_problem(read, kept, entries, reward, prior, discount, borrowed)
        return cls(read, discount, kept, entries, reward, chance, unknown, *problem, limits)

    def _barred(self) -> tuple[BoolArray, BoolArray]:
        """Return the pairs [S, A] that policies leave out, and the states [S] where nothing else was tried."""
        if self.limits.excluded is None:
            return np.zeros(self.kept.shape, dtype=np.bool_), np.zeros(self.kept.shape[0], dtype=np.bool_)
        barred = self.limits.excluded & self.kept
        stuck: BoolArray = np.asarray(self.kept.any(axis=1) & ~(self.kept & ~barred).any(axis=1))
        return barred & ~stuck[:, np.newaxis], stuck

    def _keywords(self) -> dict[str, Any]:
        """Return what solves keep to."""
        used, (barred, _) = np.flatnonzero(self.kept.any(axis=0)), self._barred()
        limits: dict[str, Any] = {}
        if barred.any():
            s, a = np.nonzero(barred)
            limits["exclude"] = list(zip(s.tolist(), np.searchsorted(used, a).tolist(), strict=True))
        if self.limits.min_visits is not None or self.limits.epsilon is not None:
            limits |= {"min_visits": self.limits.min_visits, "epsilon": self.limits.epsilon}
            given = self.limits.baseline
            limits["baseline"] = given if isinstance(given, str) else self._given(np.asarray(given)[:, used], barred)
        return limits

    def _given(self, baseline: FloatArray, barred: BoolArray) -> FloatArray:
        """Return a baseline [S, U] on what the part knows: elsewhere what the part did."""
        used = self.kept.any(axis=0)
        usual = log_policy(self.model, self.posterior)
        shares = np.where(self.kept[:, used] & ~barred[:, used], baseline, 0.0)
        total = shares.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), usual)

    def policies(self, levels: Sequence[float], threads: int | None = None) -> Iterator[Learned]:
        """Give the policy of each level; each solve starts from the values of the one before."""
        A, value = self.read.shape[1], None
        amounts = self.reward, self.read.terminal_value, self.read.absorbing_reward
        scale = max(float(np.abs(amount).max(initial=0.0)) for amount in amounts)
        for alpha in levels:
            solution = self._solved(alpha, value, TOLERANCE * scale, threads)
            value = solution.value
            used = np.flatnonzero(self.kept.any(axis=0))
            mixture, chance = None, self.chance
            if np.ndim(solution.policy) == 2:
                mixture = np.zeros(self.kept.shape)
                mixture[:, used] = solution.policy
                mixture[~self.kept.any(axis=1)] = 0.0
                policy = np.where(self.kept.any(axis=1), mixture.argmax(axis=1), -1)
                chosen = mixture.reshape(-1)[self.entries.pair] > 0.0
                chance = chance * mixture.reshape(-1)[self.entries.pair]
            else:
                policy = np.where(self.kept.any(axis=1), used[solution.policy], -1)
                chosen = policy[self.entries.pair // A] == self.entries.pair % A
            pair, target = self.entries.pair[chosen], self.entries.target[chosen]
            lasting = None if self.entries.duration is None else self.entries.duration[chosen]
            steps = pair // A, target, chance[chosen], self.reward[chosen], lasting
            stuck = self._barred()[1]  # nothing else was tried there: the policy is unknown
            policy[stuck] = -1
            if mixture is not None:
                mixture[stuck] = 0.0
            yield Learned(alpha, policy, value, PolicyChain.of(self.read, self.discount, *steps), mixture)

    def _solved(self, alpha: float, value: FloatArray | None, tol: float, threads: int | None) -> Solution:
        """Return the solution at one level, its values in the shifted model (see the module) if rewards are unknown."""

        limits = self._keywords()

        def solved(model: UncertainMDP, guess: FloatArray | None) -> Solution:
            problem = BayesianRiskMDP(model, self.posterior, alpha, reward_posterior="certain")
            return problem.solve(tol=tol or None, initial_value=guess, threads=threads, **limits)

        solution = solved(self.model, value)
        if self.unknown is None or alpha == 0.0:
            return solution
        exact, mean = (
            BayesianRiskMDP(self.model, self.posterior, level, reward_posterior="certain") for level in (alpha, 0.0)
        )
        wide = cvar_normal(0.0, exact.quieted(np.sqrt(self.unknown.variance())), alpha)
        shift = np.zeros(wide.shape)
        for _ in range(ROUNDS):
            risk, middle = (each.q_values(solution.value, threads=threads) for each in (exact, mean))
            spread = np.where(self.model.admissible, risk, 0.0) - np.where(self.model.admissible, middle, 0.0)
            last, shift = shift, -np.sign(alpha) * np.hypot(spread, wide) - spread
            if abs(shift - last).max() <= NEAR * abs(wide).max():
                break
            solution = solved(with_rewards(self.model, shift), solution.value)
        return solution

    def log_chain(self, seen: Transitions, reward: FloatArray) -> PolicyChain:
        """Return the chain of what was done in the transitions ``seen``."""
        origin = seen.pair // self.read.shape[1]
        done = seen.times / seen.visits.sum(axis=1)[origin]
        return PolicyChain.of(self.read, self.discount, origin, seen.target, done, reward, seen.duration)


def _of_group(
    read: LogRows, seen: Transitions, entries: Outcomes, base: FloatArray, group: int, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return how often a group saw each outcome [E], and what the others add to its prior counts, as ``from_log``."""
    assert read.group is not None
    assert read.by_group is not None
    times = read.times if weights is None else weights
    here, shown, groups = seen.of_row >= 0, seen.times.size, read.by_group.size
    by_group = sums(read.group[here] * shown + seen.of_row[here], times[here], groups * shown).reshape(groups, shown)
    counts = np.where(entries.seen >= 0, by_group[:, entries.seen], 0.0)
    pair = np.unique(entries.pair, return_inverse=True)[1]
    asked = None if read.borrowed is None else range(1)
    pooling = learn_similarity(read.by_group.names, counts, pair, base, asked)
    prior = pooled_priors(counts, pair, base, pooling.similarity, range(group, group + 1))[0]
    return counts[group], prior - base
