"""The only Bellman code: what one step ahead is worth, for known models and under a posterior.

For a value function V the three operators give every admissible pair (s, a) a number Q(s, a):

    risk-neutral     r(s, a) + gamma sum_s' P(s' | s, a) V(s')
    sampled          rho of the N numbers Z_i = r_i(s, a) + sum_k theta_i[b, k] (r(s, a, k) + gamma V(next(s, a, k)))
    exact            rho of the same Z under theta[b] ~ Dirichlet(psi[b]),      b = source(s, a)

The second is the approximate Bayesian-risk operator T-hat of the paper (with any spectral rho in place of CVaR),
the third is T^psi itself. All are monotone, and shift with V: adding c to V adds gamma (1 - leak) c to Q, where the
leak is what the row lacks to sum to one. Hence maximising over actions, or following a policy, gives a contraction
with MacQueen's bounds (see :mod:`prudent.planning.newton`). An outcome that ends the process has no V: its probability
is a leak.

Each is also piecewise smooth in V with a known gradient, and concave at levels from 0 on: probabilities of outcomes,
which for CVaR are those of the tail. ``linearise`` returns them as an ordinary Markov chain with rewards that touches
the operator at V; solving that chain is the Newton step.

The error that a backup returns bounds the distance between the computed Q and that of the equations above, for the
numbers as given: products, sums, and what was rounded before them (posterior means, weights of draws).

Pairs are numbered s * A + a. Operators answer for the pairs they are asked about: all of them for control, one per
state for a fixed policy.

**The screen.** Control needs Q of the best action of each state, and of the others only that they are no better. So
``back_up_best`` may leave an upper bound in place of Q, as long as the greatest number of each state is Q itself.
Everything that compares actions stays right then: the greedy action is the same, and an action whose upper bound
the certificate proves suboptimal is suboptimal. The exact operator has two bounds, each for a few additions:

- CVaR of X, the mean of its lower tail, is at most the mean of X; other measures exceed it by a number of standard
  deviations that is known (see :meth:`Levels.of`).
- Operators are monotone and shift with V: where V rises by at most c since a pair was evaluated, its Q rises by at most
  gamma c (by gamma (1 - leak) c, with the leak that makes it more). So what was once evaluated stays bounded.

It evaluates the likeliest best action first, which is that of the last backup or else the best by the approximation of
:mod:`prudent._numerics.dirichlet_moments`, and then only those actions whose bound is not below the best found. Bounds
are rounded upwards. Where Q itself has the error eta, so has the greatest of a state.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._numerics.compensated import EPS, two_product, two_sum
from .._numerics.compile import inlined, kernel, lean, over_rows
from .._numerics.dirichlet_draws import draw_slots
from .._numerics.dirichlet_moments import (
    Shape,
    moments_of_row,
    rough_quantile,
    rough_tail,
    rough_tail_means,
    shape_of,
)
from .._numerics.dirichlet_tail import SCRATCH, quantile_of_row, tail_of_row, tails_of
from .._numerics.krylov import Chain
from .._numerics.order_statistics import spectral, two_lowest, weighted_draws
from .._support.checks import BoolArray, FloatArray, IntArray
from .._support.progress import Progress
from ..models.entries import END, Entries, expected_model
from ..models.uncertain import UncertainMDP
from ..risk import CVaR, ExactForm, RiskMeasure

__all__ = [
    "ApproximateOperator",
    "Draws",
    "ExactOperator",
    "ExpectedOperator",
    "GivenDraws",
    "Memory",
    "Operator",
    "SampledOperator",
    "Scratch",
    "SlotDraws",
    "Table",
    "back_up_pair",
    "best_of_group",
    "consequences",
    "counts_of",
    "expected_rows",
    "lowest_of_pair",
    "rows_of",
    "tail_of_pair",
]


UNDERFLOW = 1e-310  # more than products of tiny numbers can lose
KEPT = 2**29  # bytes of draws that are kept; more are drawn again when needed
BLOCK = 2**25  # bytes of the draws that are made at once then


# -- one pair ----------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """Posterior draws and the risk measure that weighs them."""

    theta: FloatArray  # [F, N] by slots; draws last, so that the sum over outcomes runs over contiguous memory
    offset: int  # the slot of the first row of theta, which may hold a block of sources only
    rewards: FloatArray  # [S*A, N] added to the rewards of the model, or [0, 0]
    weights: FloatArray  # [M] of the lowest draws in ascending order, or of the highest in descending order
    is_mean: bool  # whether the weights are all equal, so that order does not matter


@inlined
def _draws_of_pair(p, entries, draws, n, sign, value, z):
    """Write ``sign`` times Z_1, ..., Z_n of pair p at ``value`` into z; return the size of the largest sum in them."""
    biggest = 0.0
    if draws.rewards.size:
        for i in range(n):
            z[i] = sign * draws.rewards[p, i]
            biggest = max(biggest, abs(z[i]))
    else:
        for i in range(n):
            z[i] = 0.0
    extra = biggest
    first = entries.first[p]
    slot = entries.begin[entries.source[p]] - draws.offset
    for j in range(entries.first[p + 1] - first):
        target = entries.next_state[first + j]
        earned = entries.reward[first + j]
        later = entries.discount * value[target] if target >= 0 else 0.0
        y = sign * (earned + later)
        biggest = max(biggest, abs(earned) + abs(later) + extra)
        row = draws.theta[slot + j]
        for i in range(n):
            z[i] += row[i] * y
    return biggest


@inlined
def back_up_pair(p, entries, draws, n, share, value, z, order):
    """Return Q of pair p at ``value``, and the size of the largest sum in it.

    Of the draws the first ``n`` count; a single one stands for all. Below zero, ``n`` is minus their number and the
    weights are those of the highest draws: of the lowest among the negated ones. A ``share`` above zero is the weight
    of the outermost draw, the next one having the rest, whatever the weights are. z and order are scratch for n.
    """
    sign = 1.0 if n > 0 else -1.0
    n = abs(n)
    biggest = _draws_of_pair(p, entries, draws, n, sign, value, z)
    if n == 1:
        return sign * z[0], biggest
    if share > 0.0:
        return sign * two_lowest(z[:n], order, share), biggest
    return sign * (z[:n].mean() if draws.is_mean else spectral(z[:n], order[:n], draws.weights)), biggest


@inlined
def tail_of_pair(p, entries, draws, n, share, value, z, order, means):
    """Write the gradient of :func:`back_up_pair` into ``means``, in the order of the entries; return the reward drawn.

    These are the outcome probabilities, and the mean reward, of the draws in the tail at ``value``.
    """
    slot = entries.begin[entries.source[p]] - draws.offset
    size = entries.first[p + 1] - entries.first[p]
    sign = 1.0 if n > 0 else -1.0
    n = abs(n)
    if n == 1:
        for j in range(size):
            means[j] = draws.theta[slot + j, 0]
        return draws.rewards[p, 0] if draws.rewards.size else 0.0
    if share > 0.0:
        _draws_of_pair(p, entries, draws, n, sign, value, z)
        two_lowest(z[:n], order, share)
        for j in range(size):
            row = draws.theta[slot + j]
            means[j] = share * row[order[0]] + (1.0 - share) * row[order[1]]
        return 0.0  # schedules have no reward draws
    if draws.is_mean:
        for i in range(n):
            order[i] = i
    else:
        _draws_of_pair(p, entries, draws, n, sign, value, z)
        spectral(z[:n], order[:n], draws.weights)
    for j in range(size):
        means[j] = weighted_draws(draws.theta[slot + j], order, draws.weights)
    return weighted_draws(draws.rewards[p], order, draws.weights) if draws.rewards.size else 0.0


@inlined
def lowest_of_pair(p, slot, first, next_state, reward, discount, theta, n, sign, value, z):
    """Return the lowest of ``sign`` times Z_1, ..., Z_n of pair p, whose outcomes begin at ``slot``, and its place.

    As :func:`back_up_pair` where nothing else counts, for lean kernels that call it for every pair. ``p``, ``slot`` and
    all places are unsigned: there is no test for counting from the end, which takes a third of the time.
    """
    none, one, two = np.uint64(0), np.uint64(1), np.uint64(2)
    low, place = np.inf, none  # type: float, Any
    begin, end = np.uint64(first[p]), np.uint64(first[p + one])
    if n == 1:
        low = 0.0
        for j in range(begin, end):
            target = next_state[j]
            y = sign * (reward[j] + (discount * value[np.uint64(target)] if target >= 0 else 0.0))
            low += theta[slot + (j - begin), none] * y
    elif end - begin <= 3:
        # a draw at a time: loops over few draws take longer to begin than to end
        y0, y1, y2 = 0.0, 0.0, 0.0
        for j in range(begin, end):
            target = next_state[j]
            later = discount * value[np.uint64(target)] if target >= 0 else 0.0
            y0, y1, y2 = y1, y2, sign * (reward[j] + later)
        last = slot + (end - begin) - one
        r0, r1 = last - min(last, two), last - min(last, one)  # any rows where y is zero
        for i in range(np.uint64(n)):
            x = theta[r0, i] * y0 + theta[r1, i] * y1 + theta[last, i] * y2
            place = i if x < low else place
            low = min(low, x)
    else:
        for i in range(np.uint64(n)):
            z[i] = 0.0
        for j in range(begin, end):
            target = next_state[j]
            y = sign * (reward[j] + (discount * value[np.uint64(target)] if target >= 0 else 0.0))
            row = theta[slot + (j - begin)]
            for i in range(np.uint64(n)):
                z[i] += row[i] * y
        for i in range(np.uint64(n)):
            place = i if z[i] < low else place
            low = min(low, z[i])
    return low, place


# -- all pairs ---------------------------------------------------------------------------------------------


class Operator(ABC):
    """One Bellman operator on a model with S states and A actions."""

    n_states: int
    n_actions: int
    discount: float
    leaks: tuple[float, float] = (0.0, 0.0)  # bounds on 1 - row sum over the admissible pairs
    refines = False  # whether ``residual`` is there
    accuracy = 0.0  # the error that a backup may leave, if that makes it cheaper; zero asks for the least
    rough = False  # whether it is an approximation, of whose fixed point more than a few digits are worth nothing
    costly = False  # whether backups take so long that products with the chain of a policy are nothing beside them
    puts_off_q = False  # whether Q of all actions is worked out when it is read, rather than with the solution
    threads = 1  # that backups use
    tell: Callable[[float], None] | None = None  # hears from long backups how much of them is done

    @abstractmethod
    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """Write Q(s, a) into ``q`` [S*A] for ``pairs`` and return a bound on the rounding error of these numbers."""

    def back_up_best(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """As :meth:`backup` of ascending ``pairs``, but only the greatest of each state need be Q(s, a).

        The others are below it, and are upper bounds on their Q(s, a).
        """
        return self.backup(value, pairs, q)

    def approximation(self) -> Operator | None:
        """Return a cheap operator with about the same fixed point, where to start from; or None if there is none."""
        return None

    def residual(self, value: FloatArray, rest: FloatArray, pairs: IntArray, out: FloatArray) -> float:
        """Write Q(s, a) - V(s) at V = ``value`` + ``rest`` into ``out``, computed in twice the precision.

        Returns a bound on the error but for the last rounding, which is in proportion to the residual and not to V.
        """
        raise NotImplementedError

    @abstractmethod
    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """Return the chain that follows ``pairs`` [S] and touches the operator at ``value``."""

    def vector(self, value: FloatArray) -> Any:
        """Return values [S] where the operator wants them: as they are, or on another device."""
        return value

    def table(self, pairs: IntArray, control: bool) -> Table:
        """Return the table of Q for ``pairs``: all that are admissible (``control``), or those of a policy."""
        return Table(self, pairs, control)


class Table:
    """Q of the pairs that are still in the running, and what a solver does with it.

    An operator on another device has a table of its own with these methods, and vectors of its own: they add, subtract,
    and have ``abs``, ``min``, ``max`` and ``copy``.
    """

    def __init__(self, operator: Operator, pairs: IntArray, control: bool, rows: int | None = None) -> None:
        """``rows`` is the number of states whose pairs the operator has, if that is not all of them."""
        self._operator, self._control = operator, control
        self.pairs = pairs.copy()  # ascending
        self.q = np.full((operator.n_states if rows is None else rows, operator.n_actions), -np.inf)

    def back_up(self, value: FloatArray) -> float:
        """Write Q at ``value``, or upper bounds where only the best counts; return a bound on its rounding error."""
        back_up = self._operator.back_up_best if self._control else self._operator.backup
        return back_up(value, self.pairs, self.q.reshape(-1))

    def residual(self, value: FloatArray, rest: FloatArray) -> float:
        """Write Q - V at V = ``value`` + ``rest``; see :meth:`Operator.residual`."""
        return self._operator.residual(value, rest, self.pairs, self.q.reshape(-1))

    def of_pairs(self) -> FloatArray:
        """Return Q of the pairs."""
        return self.q.reshape(-1)[self.pairs]

    def best(self) -> tuple[FloatArray, IntArray, float]:
        """Return the best of Q in each state, its actions, and the widest distance to another one."""
        best, actions = np.empty(self.q.shape[0]), np.empty(self.q.shape[0], np.int64)
        return best, actions, greedy(self.q, best, actions)

    def drop(self, value: FloatArray, distance: float) -> None:
        """Drop the pairs whose Q is further than ``distance`` below ``value`` of their state."""
        self.pairs = self.pairs[: keep_close(self.q, value, distance, self.pairs)]

    def linearise(self, value: FloatArray, actions: IntArray) -> Chain:
        """Return the chain that takes ``actions`` [S] and touches the operator at ``value``."""
        n_states, n_actions = self.q.shape
        return self._operator.linearise(value, np.arange(0, n_states * n_actions, n_actions) + actions)


class ExpectedOperator(Operator):
    """Risk-neutral: a known model, Bellman's equation of the paper's Section 2."""

    refines = True

    def __init__(
        self,
        transition: sparse.csr_array,
        reward: FloatArray,
        discount: float,
        leaks: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``transition`` (S*A) x S in CSR with 32-bit or 64-bit indices, ``reward`` [S, A], ``leaks`` of the rows."""
        self.leaks = leaks
        self.n_states, self.n_actions = reward.shape
        self.discount = discount
        # a "chain" with a row for each pair
        self.rows = Chain(transition.indptr, transition.indices, transition.data, reward.reshape(-1))
        self._longest = int(np.diff(transition.indptr).max(initial=0))
        self._roundings = 0.5 * self._longest + 2.0  # EPS/2 for each product, sum, and the two steps after them
        self._averaged = 0.0  # the size of the sums that were rounded into ``reward``

    @classmethod
    def of_outcomes(cls, model: UncertainMDP, theta: FloatArray) -> ExpectedOperator:
        """Return the operator of an uncertain model with outcome probabilities ``theta`` [B, K].

        These stand for quotients of counts, whose rows sum to one before rounding.
        """
        transition, reward, ending = expected_model(model.entries, theta, model.n_states)
        least, greatest = leaks_of(model.entries)
        if greatest > 0.0:
            rounding = (model.n_outcomes + 4.0) * EPS
            chances = ending[model.admissible]
            least, greatest = max(least, chances.min() - rounding), min(greatest, chances.max() + rounding)
        operator = cls(transition, reward, model.discount, (least, greatest))
        operator.refines = False  # the quotients were rounded, and so were the mean rewards
        operator._roundings += 0.5 * model.n_outcomes + 1.0  # of a quotient
        operator._averaged = 2.0 * float(abs(model.entries.reward).max())  # in its mean, and in the quotients
        return operator

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        reward, later = expected_rows(self.rows, self.discount, value, pairs, q)
        return self.rounding(reward, later)

    def rounding(self, reward: float, later: float) -> float:
        """Return a bound on the rounding error of sums of these sizes."""
        return _bound(self._roundings * EPS, reward + self._averaged + later)

    def residual(self, value: FloatArray, rest: FloatArray, pairs: IntArray, out: FloatArray) -> float:
        """See :meth:`Operator.residual`."""
        size = _residuals(self.rows, self.discount, value, rest, self.n_actions, pairs, out)
        return _bound(((self._longest + 8) * EPS) ** 2, size)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`; the operator of a policy is linear, so ``value`` does not matter."""
        return rows_of(self.rows, pairs)


@kernel
def rows_of(chain, rows):
    """Return the given rows of a chain, packed: repeated products then stay in cache."""
    indptr = chain.indptr
    start = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        start[i + 1] = start[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    columns = np.empty(start[-1], np.int32)
    entries = np.empty(start[-1])
    to = np.uint64(0)
    for i in range(rows.size):
        for j in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            columns[to] = chain.indices[j]
            entries[to] = chain.data[j]
            to += np.uint64(1)
    return Chain(start, columns, entries, chain.reward[rows])


@kernel
def expected_rows(rows, discount, value, pairs, q):
    """Write r + gamma P V into ``q`` for the rows ``pairs``; return the largest reward and the size of the rest."""
    indptr, indices, data, reward = rows
    top = 0.0
    for s in range(value.size):
        top = max(top, abs(value[s]))
    biggest = 0.0
    for i in range(pairs.size):
        p = np.uint64(pairs[i])  # unsigned: no test for counting from the end, which halves the time
        total = 0.0
        for j in range(np.uint64(indptr[p]), np.uint64(indptr[p + np.uint64(1)])):
            total += data[j] * value[np.uint64(indices[j])]
        q[p] = reward[p] + discount * total
        biggest = max(biggest, abs(reward[p]))
    return biggest, discount * top


@kernel
def _residuals(rows, discount, value, rest, n_actions, pairs, out):
    """Write r + gamma P V - V for V = value + rest; return the size of what cancels."""
    indptr, indices, data, reward = rows
    top, size = 0.0, 0.0
    for s in range(value.size):
        top = max(top, abs(value[s]))
    for p in pairs:
        total, low = 0.0, 0.0
        for j in range(indptr[p], indptr[p + 1]):
            product, lost = two_product(data[j], value[indices[j]])
            low += lost + data[j] * rest[indices[j]]
            total, lost = two_sum(total, product)
            low += lost
        later, lost = two_product(discount, total)
        low = lost + discount * low
        total, lost = two_sum(reward[p], -value[p // n_actions])
        low += lost - rest[p // n_actions]
        total, lost = two_sum(total, later)
        out[p] = total + (low + lost)
        size = max(size, abs(reward[p]))
    return size + 2.0 * top


def _bound(relative: float, size: float) -> float:
    """Return ``relative`` times ``size``, and at least what underflow can hide; zero stays zero."""
    return relative * size + UNDERFLOW if size > 0.0 else 0.0


def leaks_of(entries: Entries) -> tuple[float, float]:
    """Return bounds on the probability of an end over the admissible pairs, whatever the outcome probabilities."""
    return float((entries.next_state == END).all()), float((entries.next_state == END).any())


class _OutcomeOperator(Operator):
    """What the sampled and the exact operator share: outcomes with known consequences, unknown probabilities."""

    def __init__(self, model: UncertainMDP) -> None:
        self.entries = model.entries
        self.leaks = leaks_of(model.entries)
        self.n_states, self.n_actions = model.source.shape
        self.discount = model.discount
        self._longest = int(model.entries.sizes().max())

    def _chain(
        self, weights: FloatArray, entries: IntArray, starts: IntArray, extra_reward: FloatArray | float = 0.0
    ) -> Chain:
        """Return the chain whose rows are these entries with these probabilities; row i begins at ``starts[i]``."""
        targets = self.entries.next_state[entries]
        gain = np.add.reduceat(weights * self.entries.reward[entries], starts[:-1]) + extra_reward
        if self.leaks[1] > 0.0:
            weights, targets = np.where(targets >= 0, weights, 0.0), np.maximum(targets, 0)
        return Chain(starts, targets, weights, gain)


class SlotDraws:
    """Draws of a Dirichlet posterior by slots [F, N], block by block of sources: the numbers of one generator.

    What does not fit into ``most`` bytes is not kept but drawn again, from where the generator was, when it is asked
    for.
    """

    def __init__(self, entries: Entries, counts: FloatArray, n: int, rng: np.random.Generator, most: int) -> None:
        """``counts`` [F] by slots; ``rng`` draws everything now."""
        self._begin, self.counts, self.n = entries.begin, counts, n
        slots = int(entries.begin[-1])
        all_kept = 8 * n * slots <= most
        size = slots if all_kept else max(1, min(slots, BLOCK // (8 * n)))
        edges = np.searchsorted(entries.begin, np.arange(0, slots + size, size).clip(max=slots))
        self.edges: list[tuple[int, int]] = list(pairwise(np.unique(edges).tolist()))  # of the sources of each block
        self._kept: list[FloatArray | None] = []
        self._streams: list[np.random.Generator] = []
        progress = Progress("drawing")
        for block in range(len(self.edges)):
            progress.show(f"block {block + 1} of {len(self.edges)}")
            self._streams.append(rng if all_kept else copy.deepcopy(rng))
            theta = self._draw(block, rng)
            most -= theta.nbytes
            self._kept.append(theta if most >= 0 else None)
        progress.close()

    def _draw(self, block: int, rng: np.random.Generator) -> FloatArray:
        first, last = self.edges[block]
        begin = self._begin[first : last + 1]
        theta = np.empty((begin[-1] - begin[0], self.n))
        draw_slots(rng, self.counts[begin[0] : begin[-1]], begin - begin[0], theta, np.empty(self.n))
        return theta

    def block(self, block: int) -> FloatArray:
        """Return the draws of one block [slots of the block, N]."""
        kept = self._kept[block]
        return self._draw(block, copy.deepcopy(self._streams[block])) if kept is None else kept


class GivenDraws:
    """Draws that somebody else made, all of them kept: one block."""

    def __init__(self, model: UncertainMDP, theta: FloatArray) -> None:
        """``theta`` [N, B, K]."""
        self.n = theta.shape[0]
        self.edges = [(0, theta.shape[1])]
        self.theta = np.ascontiguousarray(model.entries.pack(theta).T)
        if model.terminal.any():
            self.theta[-1] = 1.0  # an end is certain, whatever the caller's rounding

    def block(self, block: int) -> FloatArray:
        """Return all draws [F, N]."""
        return self.theta


class SampledOperator(_OutcomeOperator):
    """A spectral risk of N posterior draws: the paper's approximate Bayesian-risk operator."""

    def __init__(
        self,
        model: UncertainMDP,
        theta: SlotDraws | GivenDraws,
        risk: RiskMeasure,
        reward_draws: FloatArray | None = None,
        threads: int = 1,
        leaks: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``theta`` has rows that lack ``leaks`` to sum to one; ``reward_draws`` [N, S, A] come on top."""
        super().__init__(model)
        # where an outcome ends the process, a row may lack anything beyond that
        least, greatest = self.leaks
        self.leaks = (least if least > 0.0 else leaks[0], max(greatest, leaks[1]))
        outermost = risk.outermost(theta.n)
        lowest = np.ascontiguousarray(outermost.weights)
        self.draws = int(outermost.sign) * theta.n  # below zero: of the highest
        self.theta = theta
        self.rewards = np.zeros((0, 0))
        if reward_draws is not None:
            self.rewards = np.ascontiguousarray(reward_draws.reshape(theta.n, -1).T)
        self.weights = lowest
        self.is_mean = bool(lowest.size == theta.n and (lowest == lowest[0]).all())
        self.threads = threads

    def _blocks(self, pairs: IntArray) -> Iterator[tuple[IntArray | slice, Draws]]:
        """Yield which of ``pairs`` belong to a block of sources, with its draws."""
        source = self.entries.source[pairs]
        for block, (first, last) in enumerate(self.theta.edges):
            mine: IntArray | slice = slice(None)
            if len(self.theta.edges) > 1:
                mine = np.flatnonzero((source >= first) & (source < last))
                if not mine.size:
                    continue
            offset = int(self.entries.begin[first])
            yield mine, Draws(self.theta.block(block), offset, self.rewards, self.weights, self.is_mean)

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        biggest, done = 0.0, 0
        for mine, draws in self._blocks(pairs):
            some = pairs[mine]
            sizes = over_rows(
                lambda i, j, some=some, draws=draws: _sampled(some[i:j], self.entries, draws, self.draws, value, q),  # type: ignore[misc]
                some.size,
                self.threads,
                smallest=max(1, 200_000 // (self._longest * self.theta.n)),
            )
            biggest = max(biggest, *sizes)
            done += some.size
            if self.tell is not None and done < pairs.size:
                self.tell(done / pairs.size)
        return self.rounding(biggest)

    def rounding(self, size: float) -> float:
        """Return a bound on the rounding error of sums of this size."""
        # K products and sums, M of each with the weights, and the M weights themselves were rounded
        return _bound((0.5 * self._longest + self.weights.size + 8.0) * EPS, size)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`: the mean over the tail draws, in their sorted order at ``value``."""
        entries, starts = self.entries.of_pairs(pairs)
        weights = np.empty(entries.size)
        extra = np.empty(pairs.size)
        places = np.arange(pairs.size)
        for mine, draws in self._blocks(pairs):
            _tail_draws(places[mine], pairs, self.entries, draws, self.draws, value, starts, weights, extra)
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
def _tail_draws(places, pairs, entries, draws, n, value, starts, means, extra):
    z = np.empty(abs(n))
    order = np.empty(abs(n), np.int64)
    for i in places:
        extra[i] = tail_of_pair(pairs[i], entries, draws, n, 0.0, value, z, order, means[starts[i] : starts[i + 1]])


class ApproximateOperator(_OutcomeOperator):
    """About CVaR under Dirichlet posteriors, from three moments: where to start with the exact operator.

    It is neither monotone nor concave where it is far from CVaR. Its fixed point is a guess and certifies nothing.
    """

    rough = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, shape: Shape, threads: int = 1) -> None:
        """``counts`` [F] by slots, zero where an outcome cannot happen."""
        super().__init__(model)
        self.counts = counts
        self.shape = shape
        self.threads = threads

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`."""
        rows = self.entries, self.counts, self.shape, value, self._longest, q
        sizes = over_rows(lambda i, j: _approximate(pairs[i:j], *rows), pairs.size, self.threads, smallest=10_000)
        return self.rounding(max(sizes))

    def rounding(self, size: float) -> float:
        """Return about the rounding error of sums of this size."""
        return _bound(8.0 * EPS, size)

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`."""
        entries, starts = self.entries.of_pairs(pairs)
        means = np.empty(entries.size)
        _approximate_means(pairs, self.entries, self.counts, self.shape, value, self._longest, starts, means)
        return self._chain(means, entries, starts)


class Levels(NamedTuple):
    """The exact form of a measure as kernels read it: a mixture of J CVaRs or quantiles."""

    tail: FloatArray  # [J] mass of the tail
    sign: FloatArray  # [J] 1.0: of the lower tail, -1.0: of the upper one
    weight: FloatArray  # [J]
    z: FloatArray  # [J] quantile of a normal that leaves out the tail
    quantile: bool  # whether it is of quantiles
    reach: float  # how many standard deviations it may lie above the mean, at the most

    @classmethod
    def of(cls, form: ExactForm) -> Levels:
        """Read an exact form.

        CVaR of a lower tail is at most the mean. By Cantelli's inequality no more than p/(1 - p) lies further than the
        root of that above the mean, so a quantile with mass p below is at most so many standard deviations above it;
        and CVaR of an upper tail of mass p is at most the root of (1 - p)/p above it.
        """
        tail, sign = tails_of(form.levels, form.quantile)
        below = np.where(sign > 0.0, tail, 1.0 - tail)  # mass below a quantile
        with np.errstate(divide="ignore"):
            reach = np.sqrt(below / (1.0 - below)) if form.quantile else np.sqrt((1.0 - tail) / tail) * (sign < 0.0)
        z = [shape_of(1.0 - float(mass)).z if 0.0 < mass < 1.0 else np.nan for mass in tail]
        used = form.weights > 0.0
        most = float((form.weights[used] * reach[used]).sum()) if (form.weights >= 0.0).all() else np.inf
        weight = np.ascontiguousarray(form.weights, dtype=np.float64)
        return cls(tail, sign, weight, np.array(z), form.quantile, most * (1.0 + 16.0 * EPS))

    def shape(self) -> Shape:
        """Return the shape whose rough tail is about this measure: the skewness counts to first order."""
        kappa, lean = 0.0, 0.0
        for mass, sign, weight, z in zip(self.tail, self.sign, self.weight, self.z, strict=True):
            if np.isnan(z):  # the mean, or one of the ends, of which moments say nothing
                continue
            own = -float(z) if self.quantile else shape_of(1.0 - float(mass)).kappa
            kappa += weight * sign * own
            lean += weight * ((1.0 - z * z) if self.quantile else own * z)
        return Shape(float(lean / kappa) if kappa else 0.0, float(kappa))


class Memory(NamedTuple):
    """What the exact operator remembers of its pairs, P = S*A, and of their E entries."""

    start: FloatArray  # [P, J] the quantiles in standard deviations from the mean, or NaN
    upper: FloatArray  # [P] Q is at most this plus what it can have risen since the first backup; infinity if unknown
    best: IntArray  # [S] the greedy pair of the last backup, or -1
    means: FloatArray  # [E] tail means
    has_means: BoolArray  # [P] whether they are those at the values of the last backup


class ExactOperator(_OutcomeOperator):
    """Risk under Dirichlet posteriors without sampling: for CVaR it is the paper's operator T^psi itself.

    The risk is a mixture of CVaRs of both tails, or of quantiles. All of these are monotone and shift with V, so the
    certificate holds for each. At positive levels it is concave, at negative ones convex, and Newton then is policy
    iteration over tails, which only rises; a quantile is neither, and Newton may lapse, where sweeps take over. The
    gradient is that of the mixture: the weighted tail means, or for VaR the means E[w | w.y = VaR].
    """

    costly = True
    puts_off_q = True

    def __init__(
        self,
        model: UncertainMDP,
        counts: FloatArray,
        risk: ExactForm | float,
        threads: int = 1,
        *,
        screens: bool = True,
    ) -> None:
        """``counts`` [B, K], zero where an outcome cannot happen; without ``screens`` every pair is evaluated.

        ``risk`` is an exact form, or the level of CVaR.
        """
        super().__init__(model)
        self._model = model
        self.counts = self.entries.pack(counts)
        self.levels = Levels.of(risk if isinstance(risk, ExactForm) else CVaR(risk).exact_form())
        self.shape = self.levels.shape()
        self.threads = threads
        self._screens = screens
        # a model may be some states of a larger one, whose values these are
        self._means_at = np.full(model.n_states, np.nan)  # the values that they are for
        self._bounds_at = np.zeros(model.n_states)  # the values of the last screened backup
        self._risen = 0.0  # how much Q can have risen up to then, since the first
        self._row_leaks = self.leaks  # of the rows themselves: ``leaks`` may be set to what holds in another norm

    @cached_property
    def _memory(self) -> Memory:
        pairs = self.n_states * self.n_actions
        # a backup finds the tail means on the way: they are kept for the chain at the same values
        return Memory(
            start=np.full((pairs, self.levels.tail.size), np.nan),
            upper=np.full(pairs, np.inf),
            best=np.full(self.n_states, -1),
            means=np.zeros(self.entries.next_state.size),
            has_means=np.zeros(pairs, dtype=np.bool_),
        )

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`. Each pair starts from its own quantile of the last time."""
        return self._over_groups(value, pairs, np.arange(pairs.size + 1), 16, q)

    def approximation(self) -> ApproximateOperator | None:
        """See :meth:`Operator.approximation`; there is one for caution."""
        if not self.shape.kappa > 0.0:
            return None
        return ApproximateOperator(self._model, self.counts, self.shape, self.threads)

    def back_up_best(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.back_up_best` and the screen at the top of this file."""
        if not self._screens:
            return self.backup(value, pairs, q)
        self._risen = self.risen(self._risen, self._bounds_at, value)
        self._bounds_at[:] = value
        first = np.searchsorted(pairs, np.arange(self.n_states + 1) * self.n_actions)
        return self._over_groups(value, pairs, first, 4, q)

    def risen(self, before: float, last: Any, value: Any) -> float:
        """Return how much Q can have risen at ``value`` if it was ``before`` at the values ``last``."""
        highest = float((value - last).max())
        highest += EPS * (abs(highest) + float(abs(value).max()) + float(abs(last).max()))
        rise = self.discount * (1.0 - self._row_leaks[0 if highest > 0.0 else 1]) * highest
        return before + rise + 2.0 * EPS * (abs(rise) + abs(before))

    def _over_groups(self, value: FloatArray, pairs: IntArray, first: IntArray, smallest: int, q: FloatArray) -> float:
        """Return the largest error in the best of each group of ``pairs``; a group begins at each of ``first[:-1]``."""
        if not np.array_equal(value, self._means_at):
            self._means_at[:] = value
            self._memory.has_means[:] = False
        rows = self.entries, self.counts, self.levels, self.shape, self.accuracy, value, self._longest, self._memory
        groups, done = first.size - 1, 0

        def back_up(i: int, j: int) -> float:
            nonlocal done
            error = _exact(pairs, first[i : j + 1], *rows, self._risen, q)
            done += j - i
            if self.tell is not None:
                self.tell(done / groups)
            return error

        return float(max(over_rows(back_up, groups, self.threads, smallest)))

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`: the tail means, those of the last backup where it was at ``value``."""
        known = self._memory.has_means[pairs] & np.array_equal(value, self._means_at)
        if not known.all():
            self.backup(value, pairs[~known], np.empty(self.n_states * self.n_actions))
        entries, starts = self.entries.of_pairs(pairs)
        return self._chain(self._memory.means[entries], entries, starts)


@inlined
def consequences(p, entries, value, y):
    """Write what each outcome of pair p is worth at ``value`` into y; return the size of the largest sum in it."""
    size = 0.0
    here = entries.first[p]
    for j in range(entries.first[p + 1] - here):
        target = entries.next_state[here + j]
        later = entries.discount * value[target] if target >= 0 else 0.0
        y[j] = entries.reward[here + j] + later
        size = max(size, abs(entries.reward[here + j]) + abs(later))
    return size


@inlined
def counts_of(p, entries, counts):
    """Return the counts of the outcomes of pair p."""
    slot = entries.begin[entries.source[p]]
    return counts[slot : slot + entries.first[p + 1] - entries.first[p]]


@kernel
def _approximate(pairs, entries, counts, shape, value, longest, q):
    y = np.empty(longest)
    biggest = 0.0
    for p in pairs:
        biggest = max(biggest, consequences(p, entries, value, y))
        row = counts_of(p, entries, counts)
        low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
        q[p] = rough_tail(low, mean, sd, skew, shape)
    return biggest


@kernel
def _approximate_means(pairs, entries, counts, shape, value, longest, starts, means):
    y = np.empty(longest)
    for i in range(pairs.size):
        consequences(pairs[i], entries, value, y)
        row = counts_of(pairs[i], entries, counts)
        rough_tail_means(y[: row.size], row, shape, means[starts[i] : starts[i + 1]])


class Scratch(NamedTuple):
    """Room for one state: what its outcomes are worth, the integrals of a row, tail means, how good actions seem."""

    y: FloatArray  # [K]
    work: FloatArray  # [SCRATCH, K]
    means: FloatArray  # [K]
    guess: FloatArray  # [A]


@kernel
def _exact(pairs, first, entries, counts, levels, shape, accuracy, value, longest, memory, risen, q):
    """Do :func:`best_of_group` for each group ``pairs[first[i] : first[i + 1]]``; return the largest error."""
    scratch = Scratch(np.zeros(longest), np.empty((SCRATCH, longest)), np.empty(longest), np.empty(entries.n_actions))
    worst = 0.0
    for i in range(first.size - 1):
        mine = pairs[first[i] : first[i + 1]]
        error = best_of_group(mine, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q)
        worst = max(worst, error)
    return worst


@kernel
def best_of_group(pairs, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q):
    """Write Q of the best of ``pairs``, which are of one state, and upper bounds of the others; return the error.

    ``risen`` is what Q can have risen by since the first time; a group of one pair does not care.
    """
    y, work, means, guess = scratch
    for i in range(pairs.size):
        guess[i] = 0.0
        if pairs.size > 1:
            p = pairs[i]
            size = consequences(p, entries, value, y)
            row = counts_of(p, entries, counts)
            low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
            q[p] = mean + (3.0 * row.size + 16.0) * EPS * size
            if levels.reach > 0.0:
                q[p] += (1.0 + (4.0 * row.size + 32.0) * EPS) * levels.reach * (sd + EPS * size)
            q[p] = min(q[p], memory.upper[p] + risen + EPS * (abs(memory.upper[p]) + abs(risen)))
            guess[i] = rough_tail(low, mean, sd, skew, shape)
            if p == memory.best[p // entries.n_actions]:
                guess[i] = np.inf
    best, worst = -np.inf, 0.0
    while True:
        # the likeliest of those that can still be the best
        i = -1
        for j in range(pairs.size):
            if guess[j] > -np.inf and (pairs.size == 1 or q[pairs[j]] >= best) and (i < 0 or guess[j] > guess[i]):
                i = j
        if i < 0:
            return worst
        guess[i] = -np.inf
        p = pairs[i]
        size = consequences(p, entries, value, y)
        row = counts_of(p, entries, counts)
        there = memory.means[entries.first[p] : entries.first[p + 1]]
        q[p], error = risk_of_row(y[: row.size], row, levels, memory.start[p], accuracy, work, means, there)
        memory.has_means[p] = True
        error += 2.0 * EPS * size
        worst = max(worst, error)
        if pairs.size > 1:
            upper = q[p] + error - risen
            memory.upper[p] = upper + 2.0 * EPS * (abs(upper) + abs(risen))
            if q[p] > best:
                memory.best[p // entries.n_actions] = p
        best = max(best, q[p])


@kernel
def risk_of_row(y, counts, levels, start, accuracy, work, means, out):
    """Return the risk of w.y for w ~ Dirichlet(counts), and a bound on its error; write its gradient into ``out``.

    ``start`` [J] are the quantiles of the last time, and become those of this time; y, work and means are scratch.
    """
    n, size = y.size, 0.0
    for k in range(n):
        out[k] = 0.0
        size = max(size, abs(y[k]))
    if start[0] != start[0]:
        _, _, _, skew, total = moments_of_row(y, counts)
        for j in range(start.size):
            start[j] = rough_quantile(levels.sign[j] * skew, total, Shape(levels.z[j], 0.0))
    total, error, sign = 0.0, 0.0, 1.0
    for j in range(levels.tail.size):
        if levels.sign[j] != sign:
            sign = -sign
            for k in range(n):
                y[k] = -y[k]
        if levels.quantile:
            risk, _, start[j], doubt = quantile_of_row(y, counts, levels.tail[j], start[j], accuracy, work, means[:n])
        else:
            risk, _, start[j], doubt = tail_of_row(y, counts, levels.tail[j], start[j], accuracy, work, means[:n])
        total += sign * levels.weight[j] * risk
        error += levels.weight[j] * doubt
        for k in range(n):
            out[k] += levels.weight[j] * means[k]
    if levels.tail.size > 1:  # products and sums were rounded, and so were the weights
        error += 3.0 * (levels.tail.size + 1.0) * EPS * size
    return total, error


@lean
def greedy(q, value, policy):
    """Write the best entry of each row of ``q`` [S, A] into ``value`` and its first place into ``policy``.

    Returns the widest distance between the best entry of a row and another one that is finite.
    """
    widest = 0.0
    for s in range(q.shape[0]):
        # written without branches, which a processor cannot predict here
        best, worst, place = q[s, 0], np.inf, 0
        for a in range(q.shape[1]):
            here = q[s, a]
            place = a if here > best else place
            best = max(best, here)
            worst = min(worst, here if here > -np.inf else np.inf)
        value[s] = best
        policy[s] = place
        widest = max(widest, best - worst)
    return widest


@kernel
def keep_close(q, value, distance, pairs):
    """Move to the front of ``pairs`` those with q within ``distance`` of ``value``; set q of the others to -inf.

    ``q`` [S, A], ``value`` [S], ``pairs`` ascending. Returns how many are kept.
    """
    kept = 0
    n_actions = q.shape[1]
    flat = q.reshape(-1)
    s, end = 0, n_actions
    for i in range(pairs.size):
        p = pairs[i]
        while p >= end:
            s += 1
            end += n_actions
        if flat[p] < value[s] - distance:
            flat[p] = -np.inf
        else:
            pairs[kept] = p
            kept += 1
    return kept
