"""Row risks of whole models: the data of the rows, the loops over pairs on the CPU, and the error of a backup.

A ``RowRisk`` holds one model (and posterior) and evaluates its rows with the scalar functions of
``prudent.planning.rows``. An executor of ``prudent.planning.execute`` decides where and in what order rows are
backed up, and keeps the tables of Q.

A backup returns a bound on the distance between the computed Q and the Q of the equations in
``prudent.planning.rows``. It covers the rounding of products and sums, and of what was rounded before them (posterior
means, weights of draws).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from .._numerics.dirichlet_moments import Shape, moments_of_row, rough_tail, rough_tail_means
from .._numerics.dirichlet_tail import SCRATCH
from .._numerics.entropic import entropic_mean
from .._support.checks import FloatArray, IntArray
from ..models.entries import END, Entries, expected_model
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..risk import CVaR, ExactForm, RiskMeasure
from .chain import Chain, rows_of
from .draw_blocks import GivenDraws, SlotDraws
from .rows import (
    Draws,
    Levels,
    Memory,
    Scratch,
    back_up_pair,
    best_of_group,
    counts_of,
    expected_residuals,
    expected_rows,
    outcome_values,
    tail_of_pair,
)

UNDERFLOW = 1e-310  # larger than the error of products that underflow


class Task(NamedTuple):
    """Rows of a backup that may be distributed over threads."""

    run: Callable[[int, int], float]  # backs up rows i to j - 1 and returns a bound on their error
    rows: int
    smallest: int  # smallest number of rows that is worth a thread


class RowRisk(ABC):
    """Q of the rows of a model with S states and A actions, with its error."""

    n_states: int
    n_actions: int
    discount: float
    leaks: tuple[float, float] = (0.0, 0.0)  # bounds on 1 - row sum over the admissible pairs
    refines = False  # whether there is a ``MeanRows.residual``: the iteration can continue in twice the precision
    approximate = False  # an approximation, whose fixed point is solved to a few digits only
    costly = False  # backups take much longer than products with the chain of a policy
    lazy_q = False  # Q of all actions is computed when it is read, not with the solution
    screens = False  # whether a backup of the best action leaves upper bounds for the others

    def measure_error(self, value: FloatArray) -> float:
        """Return a bound on the distance of Q at ``value`` from that of the measure that was asked for.

        It is not zero where lines replace a distortion.
        """
        return 0.0

    def note(self, value: FloatArray, pairs: IntArray) -> str:
        """Return what the message of a solution should say of these rows, the pairs of its policy."""
        return ""

    @abstractmethod
    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """Yield the tasks that write Q(s, a) at ``value`` into ``q`` [S*A] for ``pairs``.

        ``accuracy`` is the error that may remain if that makes the backup cheaper. With ``best``, and only if the risk
        screens, the largest entry of each state is Q(s, a) and the others are upper bounds below it. Then ``pairs``
        ascend, and the rows of a task are states.
        """


class SmoothRows(RowRisk):
    """Base of the risks with a gradient, whose fixed points Newton's method finds."""

    @abstractmethod
    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """Return the chain that follows ``pairs`` [S] and is tangent to the backup at ``value``."""

    def unknown_gradients(self, value: FloatArray, pairs: IntArray) -> IntArray:
        """Return those of ``pairs`` that must be backed up at ``value`` before ``gradient`` is called."""
        return pairs[:0]

    def approximation(self) -> SmoothRows | None:
        """Return a cheap risk with about the same fixed point, for a first guess, or None."""
        return None


def _bound(relative: float, size: float) -> float:
    """Return ``relative`` times ``size`` plus the error of underflow; 0 if ``size`` is 0."""
    return relative * size + UNDERFLOW if size > 0.0 else 0.0


def leaks_of(entries: Entries, survival: FloatArray | None = None) -> tuple[float, float]:
    """Return bounds on the leak of a row over the admissible pairs, whatever the outcome probabilities.

    An outcome leaks everything if it ends the process, and 1 - discount ** (d - 1) if it takes the time d: that much
    less than the discount of one unit of time is left of what follows it.
    """
    over = entries.next_state == END
    if survival is None or over.all():
        return float(over.all()), float(over.any())
    rounding = 4.0 * EPS  # of the powers
    greatest = 1.0 if over.any() else 1.0 - float(survival[~over].min()) + rounding
    return max(0.0, 1.0 - float(survival[~over].max()) - rounding), greatest


class Later(NamedTuple):
    """Values of states after more than one unit of time, which follow the values of the states: V[S + i]."""

    state: IntArray  # [L]
    factor: FloatArray  # [L] discount ** (duration - 1)

    def rounding(self, value: FloatArray) -> float:
        """Return a bound on the error of the values later: that of a power and of a product."""
        return 3.0 * EPS * float(abs(value).max()) if self.state.size else 0.0

    def extended(self, value: FloatArray) -> FloatArray:
        """Return the values of states, and of states later [S + L]."""
        return np.concatenate((value, self.factor * value[self.state])) if self.state.size else value


def later_states(model: UncertainMDP) -> tuple[Entries, Later]:
    """Return the entries with next states that may be later ones, and these."""
    entries, survival = model.entries, model.survival
    if survival is None:
        return entries, Later(np.empty(0, np.int64), np.empty(0))
    late = (entries.next_state >= 0) & (survival != 1.0)
    factors, which = np.unique(survival[late], return_inverse=True)
    codes, of_entry = np.unique(entries.next_state[late].astype(np.int64) * factors.size + which, return_inverse=True)
    targets = entries.next_state.copy()
    targets[late] = (model.n_states + of_entry).astype(np.int32)
    return entries._replace(next_state=targets), Later(codes // factors.size, factors[codes % factors.size])


class MeanRows(SmoothRows):
    """The mean: a known model, Bellman's equation of the paper's Section 2."""

    refines = True

    def __init__(
        self,
        transition: scipy.sparse.csr_array,
        reward: FloatArray,
        discount: float,
        leaks: tuple[float, float] = (0.0, 0.0),
        roundings: float = 0.0,
        averaged: float = 0.0,
    ) -> None:
        """``transition`` (S*A) x S in CSR with 32-bit or 64-bit indices, ``reward`` [S, A], ``leaks`` of the rows.

        ``roundings`` is the number of earlier rounding errors of a row, in units of EPS. ``averaged`` is the magnitude
        of the sums that its reward was rounded from.
        """
        self.leaks = leaks
        self.n_states, self.n_actions = reward.shape
        self.discount = discount
        # a chain with one row for each pair
        self.rows = Chain(transition.indptr, transition.indices, transition.data, reward.reshape(-1))
        self._longest = int(np.diff(transition.indptr).max(initial=0))
        # EPS/2 for each product and sum, and for the two operations after them
        self._roundings = 0.5 * self._longest + 2.0 + roundings
        self._averaged = averaged
        self._followed: tuple[IntArray, Chain] | None = None  # the last pairs whose chain was asked for, and the chain

    @classmethod
    def of_outcomes(cls, model: UncertainMDP, theta: FloatArray) -> MeanRows:
        """Return the rows of an uncertain model with outcome probabilities ``theta`` [B, K].

        ``theta`` has rounded quotients of counts, so its rows sum to one before rounding.
        """
        survival = model.survival
        transition, reward, ending = expected_model(model.entries, theta, model.n_states, survival)
        least, greatest = leaks_of(model.entries, survival)
        if greatest > 0.0:
            rounding = (model.n_outcomes + 8.0) * EPS
            chances = ending[model.admissible]
            least, greatest = max(least, chances.min() - rounding), min(greatest, chances.max() + rounding)
        averaged = 2.0 * float(abs(model.entries.reward).max())
        roundings = 0.5 * model.n_outcomes + (1.0 if survival is None else 4.0)  # of quotients, powers, products
        rows = cls(transition, reward, model.discount, (least, greatest), roundings, averaged)
        rows.refines = False  # the quotients were rounded, and so were the mean rewards
        return rows

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        run = lambda i, j: self.rounding(*expected_rows(self.rows, self.discount, value, pairs[i:j], q))  # noqa: E731
        yield Task(run, pairs.size, max(1, pairs.size))  # one thread: memory bandwidth is the limit

    def rounding(self, reward: float, later: float) -> float:
        """Return a bound on the rounding error of sums of these magnitudes."""
        return _bound(self._roundings * EPS, reward + self._averaged + later)

    def residual(self, value: FloatArray, rest: FloatArray, pairs: IntArray, out: FloatArray) -> float:
        """Write Q(s, a) - V(s) at V = ``value`` + ``rest`` into ``out``, computed in twice the precision.

        Returns a bound on the error without the last rounding, which is proportional to the residual and not to V.
        """
        size = expected_residuals(self.rows, self.discount, value, rest, self.n_actions, pairs, out)
        return _bound(((self._longest + 8) * EPS) ** 2, size)

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``; the backup of a policy is linear, so ``value`` does not matter."""
        if self._followed is None or not np.array_equal(self._followed[0], pairs):
            self._followed = pairs, rows_of(self.rows, pairs)
        return self._followed[1]


class OutcomeRows(SmoothRows):
    """Base of the risks under a posterior: outcomes with known consequences and unknown probabilities."""

    def __init__(self, model: UncertainMDP) -> None:
        self.survival = model.survival
        self.entries, self.later = later_states(model)
        self.leaks = leaks_of(model.entries, self.survival)
        self._targets = model.entries.next_state
        self.n_states, self.n_actions = model.source.shape
        self.discount = model.discount
        self.longest = int(model.entries.sizes().max())

    def _with_draws(self, leaks: tuple[float, float]) -> tuple[float, float]:
        """Return the leaks of rows whose draws sum to one minus ``leaks``."""
        least, greatest = self.leaks
        if self.survival is not None:
            return least + min(leaks[0], 0.0), min(1.0, greatest + max(leaks[1], 0.0))
        # an outcome that ends the process can raise the leak of a row
        return least if least > 0.0 else leaks[0], max(greatest, leaks[1])

    def _chain(
        self, weights: FloatArray, entries: IntArray, starts: IntArray, extra_reward: FloatArray | float = 0.0
    ) -> Chain:
        """Return the chain with the probabilities ``weights`` of ``entries``; row i begins at ``starts[i]``."""
        targets = self._targets[entries]
        gain = np.add.reduceat(weights * self.entries.reward[entries], starts[:-1]) + extra_reward
        if self.survival is not None:
            weights = weights * self.survival[entries]
        if self.leaks[1] > 0.0:
            weights, targets = np.where(targets >= 0, weights, 0.0), np.maximum(targets, 0)
        return Chain(starts, targets, weights, gain)


class DrawRows(OutcomeRows):
    """A spectral risk of N posterior draws: the paper's approximate Bayesian-risk operator."""

    def __init__(
        self,
        model: UncertainMDP,
        theta: SlotDraws | GivenDraws,
        risk: RiskMeasure,
        reward_draws: FloatArray | None = None,
        leaks: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``theta`` has rows that sum to one minus ``leaks``; ``reward_draws`` [N, S, A] are added to the rewards."""
        super().__init__(model)
        self.leaks = self._with_draws(leaks)
        outermost = risk.outermost(theta.n)
        self.weights = np.ascontiguousarray(outermost.weights)
        self.signed_draws = int(outermost.sign) * theta.n  # negative: the weights are those of the highest draws
        self.theta = theta
        self.rewards = np.zeros((0, 0))
        if reward_draws is not None:
            self.rewards = np.ascontiguousarray(reward_draws.reshape(theta.n, -1).T)
        self.is_mean = bool(self.weights.size == theta.n and (self.weights == self.weights[0]).all())

    def _blocks(self, pairs: IntArray) -> Iterator[tuple[IntArray | slice, Draws]]:
        """Yield the indices of ``pairs`` that belong to a block of sources, with the draws of the block."""
        source = self.entries.source[pairs]
        for block, (first, last) in enumerate(self.theta.edges):
            mine: IntArray | slice = slice(None)
            if len(self.theta.edges) > 1:
                mine = np.flatnonzero((source >= first) & (source < last))
                if not mine.size:
                    continue
            offset = int(self.entries.begin[first])
            yield mine, Draws(self.theta.block(block), offset, self.rewards, self.weights, self.is_mean)

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``: one task for each block of draws."""
        more = self.discount * self.later.rounding(value)
        value = self.later.extended(value)
        for mine, draws in self._blocks(pairs):
            some = pairs[mine]

            def run(i: int, j: int, some: IntArray = some, draws: Draws = draws) -> float:
                return more + self.rounding(_sampled(some[i:j], self.entries, draws, self.signed_draws, value, q))

            yield Task(run, some.size, max(1, 200_000 // (self.longest * self.theta.n)))

    def rounding(self, size: float) -> float:
        """Return a bound on the rounding error of sums of this magnitude."""
        # rounding of K products and sums, of M products and sums with the weights, and of the M weights
        return _bound((0.5 * self.longest + self.weights.size + 8.0) * EPS, size)

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: the mean over the tail draws, in their sorted order at ``value``."""
        entries, starts = self.entries.of_pairs(pairs)
        value = self.later.extended(value)
        weights, extra = np.empty(entries.size), np.empty(pairs.size)
        rows = np.arange(pairs.size)
        for mine, draws in self._blocks(pairs):
            _tail_draws(rows[mine], pairs, self.entries, draws, self.signed_draws, value, starts, weights, extra)
        return self._chain(weights, entries, starts, extra)


@kernel
def _sampled(pairs, entries, draws, n, value, q):
    z = np.empty(abs(n))
    order = np.empty(abs(n), np.int64)
    biggest = 0.0
    for i in range(pairs.size):
        q[pairs[i]], size = back_up_pair(pairs[i], entries, draws, n, 0.0, value, z, order)
        biggest = max(biggest, size)
    return biggest


@kernel
def _tail_draws(rows, pairs, entries, draws, n, value, starts, means, extra):
    z = np.empty(abs(n))
    order = np.empty(abs(n), np.int64)
    for i in rows:
        extra[i] = tail_of_pair(pairs[i], entries, draws, n, 0.0, value, z, order, means[starts[i] : starts[i + 1]])


class MomentRows(OutcomeRows):
    """Approximate CVaR under Dirichlet posteriors from three moments: a first guess for ``DirichletRows``.

    The approximation is neither monotone nor concave where it is far from CVaR. Its fixed point is only a first guess,
    without a certificate.
    """

    approximate = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, shape: Shape) -> None:
        """``counts`` [F] by slots; 0 for an impossible outcome."""
        super().__init__(model)
        self.counts = counts
        self.shape = shape

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        rows = self.entries, self.counts, self.shape, self.later.extended(value), self.longest, q
        yield Task(lambda i, j: self.rounding(_approximate(pairs[i:j], *rows)), pairs.size, 10_000)

    def rounding(self, size: float) -> float:
        """Return an estimate of the rounding error of sums of this magnitude."""
        return _bound(8.0 * EPS, size)

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``."""
        entries, starts = self.entries.of_pairs(pairs)
        means, value = np.empty(entries.size), self.later.extended(value)
        _approximate_means(pairs, self.entries, self.counts, self.shape, value, self.longest, starts, means)
        return self._chain(means, entries, starts)


@kernel
def _approximate(pairs, entries, counts, shape, value, longest, q):
    y = np.empty(longest)
    biggest = 0.0
    for p in pairs:
        biggest = max(biggest, outcome_values(p, entries, entries.discount, value, y))
        row = counts_of(p, entries, counts)
        low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
        q[p] = rough_tail(low, mean, sd, skew, shape)
    return biggest


@kernel
def _approximate_means(pairs, entries, counts, shape, value, longest, starts, means):
    y = np.empty(longest)
    for i in range(pairs.size):
        outcome_values(pairs[i], entries, entries.discount, value, y)
        row = counts_of(pairs[i], entries, counts)
        rough_tail_means(y[: row.size], row, shape, means[starts[i] : starts[i + 1]])


class DirichletRows(OutcomeRows):
    """Risk under Dirichlet posteriors without sampling: for CVaR it is the paper's operator T^psi itself.

    The risk is a mixture of CVaRs of both tails, or of quantiles. All of these are monotone and translation
    equivariant, so the certificate holds for each. CVaR is concave at positive levels and convex at negative levels,
    where Newton's method is policy iteration over tails and its values only rise. A quantile is neither: Newton steps
    may fail, and the iteration continues with sweeps. The gradient is that of the mixture: the weighted tail means, or
    for VaR the means E[w | w.y = VaR].
    """

    costly = True
    lazy_q = True

    def __init__(
        self,
        model: UncertainMDP,
        counts: FloatArray,
        risk: ExactForm | float,
        *,
        screens: bool = True,
        gap: float = 0.0,
    ) -> None:
        """``counts`` [B, K], 0 for an impossible outcome; ``risk`` is an exact form, or the level of CVaR.

        Without ``screens`` every pair is evaluated. ``gap`` is the distance of the risk from the one that was asked
        for, as a share of the range of a row.
        """
        super().__init__(model)
        self.gap = gap
        self._model = model
        self.counts = self.entries.pack(counts)
        self.levels = Levels.of(risk if isinstance(risk, ExactForm) else CVaR(risk).exact_form())
        self.shape = self.levels.shape()
        self.screens = screens
        # a block has some of the states, but the values of all
        self._means_at = np.full(model.n_states, np.nan)  # values at which the gradients were computed
        self._bounds_at = np.zeros(model.n_states)  # values of the last screened backup
        self._risen = 0.0  # bound on the rise of Q from the first to the last screened backup

    @cached_property
    def memory(self) -> Memory:
        """State of earlier backups, and the gradients of the last one."""
        pairs = self.n_states * self.n_actions
        # a backup also computes the tail means, which the chain at the same values uses
        return Memory(
            start=np.full((pairs, self.levels.tail.size), np.nan),
            upper=np.full(pairs, np.inf),
            best=np.full(self.n_states, -1),
            means=np.zeros(self.entries.next_state.size),
            has_means=np.zeros(pairs, dtype=np.bool_),
        )

    def measure_error(self, value: FloatArray) -> float:
        """See ``RowRisk.measure_error``: ``gap`` times the widest range of the outcomes of a pair."""
        if self.gap == 0.0:
            return 0.0
        targets = self.entries.next_state
        later = self.later.extended(value)
        worth = self.entries.reward + np.where(targets >= 0, self.discount * later[np.maximum(targets, 0)], 0.0)
        possible = self.counts[self.entries.slots()] > 0.0
        filled = self.entries.first[:-1][self.entries.sizes() > 0]
        high = np.maximum.reduceat(np.where(possible, worth, -np.inf), filled)
        low = np.minimum.reduceat(np.where(possible, worth, np.inf), filled)
        return self.gap * float((high - low).max()) * (1.0 + 8.0 * EPS)

    def approximation(self) -> MomentRows | None:
        """See ``SmoothRows.approximation``; it exists for positive levels only."""
        return MomentRows(self._model, self.counts, self.shape) if self.shape.kappa > 0.0 else None

    def risen(self, before: float, last: FloatArray, value: FloatArray) -> float:
        """Return a bound on the rise of Q up to ``value``, given the bound ``before`` at the values ``last``."""
        highest = float((value - last).max())
        highest += EPS * (abs(highest) + float(abs(value).max()) + float(abs(last).max()))
        rise = self.discount * (1.0 - self.leaks[0 if highest > 0.0 else 1]) * highest
        return before + rise + 2.0 * EPS * (abs(rise) + abs(before))

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``. Each pair starts from its quantile of the last backup."""
        if best:
            self._risen = self.risen(self._risen, self._bounds_at, value)
            self._bounds_at[:] = value
            first = np.searchsorted(pairs, np.arange(self.n_states + 1) * self.n_actions)
        else:
            first = np.arange(pairs.size + 1)  # groups of one pair
        if not np.array_equal(value, self._means_at):
            self._means_at[:] = value
            self.memory.has_means[:] = False
        later = self.later.extended(value)
        rows = self.entries, self.counts, self.levels, self.shape, accuracy, later, self.longest, self.memory
        more = self.discount * self.later.rounding(value)
        run = lambda i, j: more + float(_exact(pairs, first[i : j + 1], *rows, self._risen, q))  # noqa: E731
        yield Task(run, first.size - 1, 4 if best else 16)

    def unknown_gradients(self, value: FloatArray, pairs: IntArray) -> IntArray:
        """See ``SmoothRows.unknown_gradients``: pairs whose tail means were not computed at ``value``."""
        return pairs[~(self.memory.has_means[pairs] & np.array_equal(value, self._means_at))]

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: the tail means of the last backup."""
        entries, starts = self.entries.of_pairs(pairs)
        return self._chain(self.memory.means[entries], entries, starts)


@kernel
def _exact(pairs, first, entries, counts, levels, shape, accuracy, value, longest, memory, risen, q):
    """Call ``best_of_group`` for each group ``pairs[first[i] : first[i + 1]]``; return the largest error."""
    scratch = Scratch(np.zeros(longest), np.empty((SCRATCH, longest)), np.empty(longest), np.empty(entries.n_actions))
    worst = 0.0
    for i in range(first.size - 1):
        mine = pairs[first[i] : first[i + 1]]
        error = best_of_group(mine, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q)
        worst = max(worst, error)
    return worst


class EntropicRows(RowRisk):
    """The entropic risk of one step of a known model, with a parameter ``beta`` that the caller sets.

    It has no gradient, because it is used over a finite horizon and not for a fixed point.
    """

    def __init__(self, mdp: MDP) -> None:
        self.n_states, self.n_actions = mdp.admissible.shape
        self.discount = mdp.discount
        self.beta = 0.0
        self.outcomes = mdp.outcomes()
        self._longest = int(np.diff(self.outcomes.first).max(initial=1))

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        relative = (6.0 * self._longest + 64.0) * EPS
        fixed = self.outcomes, self.discount, self.beta, self._longest, value
        run = lambda i, j: relative * _entropic(*fixed, pairs[i:j], q)  # noqa: E731
        yield Task(run, pairs.size, max(1, 20_000 // self._longest))


@kernel
def _entropic(outcomes, discount, beta, longest, value, pairs, q):
    """Write the entropic mean of r + gamma V(s') into ``q`` for ``pairs``; return the largest magnitude of a sum."""
    y, scratch = np.empty(longest), np.empty(longest)
    biggest = 0.0
    for i in range(pairs.size):
        p = pairs[i]
        begin, end = outcomes.first[p], outcomes.first[p + 1]
        biggest = max(biggest, outcome_values(p, outcomes, discount, value, y))
        q[p] = entropic_mean(y[: end - begin], outcomes.chance[begin:end], beta, scratch)
    return biggest


class NegatedRows(SmoothRows):
    """The risk of the upper tail: minus the risk of the negated values."""

    def __init__(self, inner: SmoothRows) -> None:
        """``inner`` is the risk of a model with negated rewards."""
        self._inner = inner
        self.n_states, self.n_actions, self.discount = inner.n_states, inner.n_actions, inner.discount

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        yield from self._inner.tasks(-value, pairs, q, accuracy, False)
        q[pairs] = -q[pairs]

    def unknown_gradients(self, value: FloatArray, pairs: IntArray) -> IntArray:
        """See ``SmoothRows.unknown_gradients``."""
        return self._inner.unknown_gradients(-value, pairs)

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``."""
        chain = self._inner.gradient(-value, pairs)
        return chain._replace(reward=-chain.reward)
