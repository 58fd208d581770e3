"""Rows with two risks: over the posterior (ignorance) and over the outcome of the step (luck).

    Q = rho_theta[ sigma_{k ~ theta}( y_k ) ],        y_k = r(s, a, k) + gamma V(next(s, a, k))

rho is the risk of the problem, sigma its ``outcome_risk``: a mixture of CVaRs of either tail, or the entropic risk.

With y sorted and C_j the sum of the j first probabilities, CVaR of the lowest share t of outcomes is

    sigma = sum_j y_j (min(C_j, t) - min(C_{j-1}, t)) / t,

piecewise linear in theta. Under Dirichlet(psi) C_j is Beta(A_j, n - A_j) with the sums A_j of the counts. So

- **the mean over the posterior** needs E min(C, t) = (A/n) I_t(A + 1, n - A) + t I_{1-t}(n - A, A) only: exact;
- **two outcomes** make sigma a monotone function of one Beta, so that CVaRs of it are partial moments: exact for every
  mixture of CVaRs over the posterior;
- **three outcomes** make them integrals over one Beta (``luck_three``), for one CVaR of outcomes;
- all else is sampled. The certificate is then about the draws, and the message of a solution says by how much other
  draws would change it.

The upper tail is minus the lower tail of -y. All of it is monotone and translation equivariant, so the certificate of
every other row holds; ``docs/mathematics/ignorance-and-luck.md`` has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from .._numerics.dirichlet_tail import tails_of
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..risk import EntropicRisk, ExactForm, RiskMeasure, form_of
from ..types import BoolArray, FloatArray, IntArray
from .chain import Chain
from .draw_blocks import GivenDraws, SlotDraws
from .equivalent_rows import EquivalentDrawRows
from .luck_three import ThreeCounts, expected_least, three_weights
from .row_risks import UNDERFLOW, OutcomeRows, Task
from .rows import Draws, outcome_values
from .set_rows import sort_by

NEARBY = 8.0 * EPS  # of a quantile of a Beta law; near 1 a density can be so steep that a rounding moves a mass of 0.1
SMALLEST_GAP = 1e-12  # between outcomes, of the range: nearer ones are that far apart
LEAST_COUNT = 0.1  # of three outcomes: the rule of integration reaches no further
CONCENTRATED = 1e14  # counts of a row: beyond, laws are narrower than incomplete Beta functions are wrong
BATCHES = 10  # of draws, whose differences say how much a sampled value depends on the draws


class Luck(NamedTuple):
    """The risk of an outcome: a mixture of CVaRs, or entropic."""

    tail: FloatArray  # [J] share of the outcomes that count
    sign: FloatArray  # [J] 1.0: the lowest, -1.0: the highest
    weight: FloatArray  # [J]
    beta: float  # of the entropic risk, or 0

    @property
    def cautious(self) -> bool:
        """Whether only lower tails count, so that the risk is coherent."""
        return self.beta == 0.0 and bool((self.sign > 0.0).all())


def luck_of(measure: RiskMeasure | None) -> Luck | None:
    """Return the risk of outcomes for kernels; None if it is their mean. Refuse what is neither CVaR nor entropic."""
    if measure is None:
        return None
    if isinstance(measure, EntropicRisk):
        return Luck(np.zeros(0), np.zeros(0), np.zeros(0), measure.beta) if measure.beta != 0.0 else None
    form = form_of(measure) if isinstance(measure, RiskMeasure) and measure.gap == 0.0 else None
    if form is None or form.quantile or (form.weights < 0.0).any():
        message = f"outcome_risk must be CVaR, a mixture of CVaRs or EntropicRisk, got {measure!r}"
        raise ParameterError(message, code="unsupported-measure", argument="outcome_risk", value=repr(measure))
    if (form.levels == 0.0).all():
        return None
    tail, sign = tails_of(form.levels, False)
    return Luck(tail, sign, np.ascontiguousarray(form.weights, dtype=np.float64), 0.0)


def knows_luck(counts: FloatArray, form: ExactForm, luck: Luck) -> bool:
    """Return whether rows with ``counts`` [B, K] need no draws."""
    if form.quantile or luck.beta != 0.0:
        return False
    most = 3 if luck.tail.size == 1 and counts[counts > 0.0].min(initial=np.inf) >= LEAST_COUNT else 2
    return bool((form.levels == 0.0).all()) or int(np.count_nonzero(counts, axis=1).max()) <= most


# -- without draws -----------------------------------------------------------------------------------------


def mean_weights(counts: FloatArray, tail: float) -> FloatArray:
    """Return weights [P, K] of sorted outcomes with ``counts``: the mean over theta of those of their lowest share."""
    after = np.cumsum(counts, axis=1)
    rest = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # nothing cancels
    rest = np.concatenate((rest[:, 1:], np.zeros((len(counts), 1))), axis=1)
    within = expected_least(after, rest, tail)
    return np.diff(np.minimum(np.maximum.accumulate(within, axis=1), tail), axis=1, prepend=0.0) / tail


def certain_weights(counts: FloatArray, tail: float) -> FloatArray:
    """Return weights [P, K] of sorted outcomes in their lowest share, for probabilities in proportion to ``counts``."""
    after = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1)
    return np.diff(np.minimum(after, tail), axis=1, prepend=0.0) / tail


def worse_share(first: FloatArray, rest: FloatArray, luck: Luck, form: ExactForm) -> tuple[FloatArray, FloatArray]:
    """Return the weight [P] of the worse of two outcomes with these counts, ``first`` of the worse, and its doubt [P].

    Its weight in sigma is a function h of its probability C that does not fall: min(C, t)/t, and for the highest share
    t of outcomes max(C - (1 - t), 0)/t. The lower tail of sigma is the upper tail of C. A quantile c of C that is off
    leaves a mass d too much or too little in the tail; h(c) times d mends that but for d times the change of h. That
    change is at most NEARBY / t where masses on both sides show the quantile to be that near, and else at most 1.
    """
    weight, doubt = np.zeros(first.size), np.zeros(first.size)
    change = min(1.0, NEARBY / float(luck.tail.min()))
    tails, sides = tails_of(form.levels, False)
    for tail, side, part in zip(tails, sides, form.weights, strict=True):
        # a share ``tail`` of the posterior: the highest C for a lower tail of sigma, the lowest for an upper one
        inverse, within = (
            (scipy.special.betainccinv, scipy.special.betaincc)
            if side > 0.0
            else (scipy.special.betaincinv, scipy.special.betainc)
        )
        cut = np.full(first.size, 0.0 if side > 0.0 else 1.0)
        if tail < 1.0:
            cut = np.asarray(inverse(first, rest, tail), dtype=np.float64)
        missing = tail - np.asarray(within(first, rest, cut), dtype=np.float64)
        sides_of_cut = [within(first, rest, np.clip(cut + step, 0.0, 1.0)) for step in (-NEARBY, NEARBY)]
        near = (np.minimum(*sides_of_cut) <= tail) & (tail <= np.maximum(*sides_of_cut))
        doubt += abs(part) * abs(missing) / tail * np.where(near, change, 1.0)
        for t, sign, own in zip(luck.tail, luck.sign, luck.weight, strict=True):
            # E[h; C in the tail] by masses and first moments of C between the cut and the corner of h
            corner = t if sign > 0.0 else 1.0 - t
            edge = np.maximum(cut, corner) if side > 0.0 else np.minimum(cut, corner)
            mass, mass_cut = (within(first, rest, x) for x in (edge, cut))
            moment, moment_cut = (first / (first + rest) * within(first + 1.0, rest, x) for x in (edge, cut))
            if (side > 0.0) == (sign > 0.0):  # linear from the cut to the corner, then constant; or the other way
                found = moment_cut - moment + t * mass if side > 0.0 else _beyond(moment_cut, moment, mass_cut, mass, t)
            else:
                found = moment - (1.0 - t) * mass if side > 0.0 else moment + t * (mass_cut - mass)
            at = np.minimum(cut, t) if sign > 0.0 else np.maximum(cut - (1.0 - t), 0.0)
            weight += part * own * np.clip((found + at * missing) / (t * tail), 0.0, 1.0)
    return weight, doubt


def _beyond(moment_cut: Any, moment: Any, mass_cut: Any, mass: Any, t: float) -> Any:
    """Return E[max(C - (1 - t), 0); C < cut] from masses and moments below the cut and below the corner."""
    return (moment_cut - moment) - (1.0 - t) * (mass_cut - mass)


class LuckRows(OutcomeRows):
    """Both risks without draws: the mean over the posterior, or rows with at most three outcomes."""

    def __init__(self, model: UncertainMDP, counts: FloatArray, form: ExactForm, luck: Luck) -> None:
        """``counts`` [B, K], 0 for an impossible outcome."""
        super().__init__(model)
        self.counts, self.form, self.luck = self.entries.pack(counts), form, luck
        self.is_mean = bool((form.levels == 0.0).all())
        # of incomplete Beta functions, which masses of a tail are divided by; a test measures it
        totals = counts.sum(axis=1)
        total = float(totals[totals <= CONCENTRATED].max(initial=0.0))
        self._beta_error = (
            4.0 * (1e-14 + 4.0 * EPS * np.sqrt(total)) / (1.0 if self.is_mean else float(luck.tail.min()))
        )
        self._doubt = 0.0  # largest share of the posterior by which a quantile was off

    def _rows(self, value: FloatArray, pairs: IntArray) -> tuple[FloatArray, FloatArray, BoolArray, float]:
        """Return weights, values [pairs, K] and which of these exist, and the largest magnitude of a value."""
        entries, starts = self.entries.of_pairs(pairs)
        shape = pairs.size, int(np.diff(starts).max(initial=1))
        held = np.arange(shape[1]) < np.diff(starts)[:, np.newaxis]
        later = self.later.extended(value)
        target, earned = self.entries.next_state[entries], self.entries.reward[entries]
        worth = np.where(target >= 0, self.discount * later[np.maximum(target, 0)], 0.0)
        size = float((abs(earned) + abs(worth)).max(initial=0.0))
        y, psi = np.zeros(shape), np.zeros(shape)
        y[held] = earned + worth
        slots = np.repeat(self.entries.begin[self.entries.source[pairs]] - starts[:-1], np.diff(starts))
        psi[held] = self.counts[slots + np.arange(entries.size)]
        possible = psi > 0.0
        weights, total, few = np.zeros(shape), psi.sum(axis=1), possible.sum(axis=1) <= 2
        known = total > CONCENTRATED
        if known.any():
            self._doubt = max(self._doubt, self._spread(float(total[known].min())))
        kinds = [(known, self._certain)]
        kinds += [(~known, self._mean)] if self.is_mean else [(~known & few, self._two), (~known & ~few, self._three)]
        for some, kind in kinds:
            if some.any():
                weights[some] = kind(y[some], psi[some])
        weights[~possible] = 0.0
        return weights, y, held, size

    def _spread(self, total: float) -> float:
        """Return by how much of the range rows with ``total`` counts differ from those of the posterior mean.

        The sd of C is at most 1 / (2 sqrt(total)), and the mean of abs(C - E C) over a share s of the posterior at most
        that over sqrt(s). A risk of the lowest share t of outcomes changes by at most 1 / t of it.
        """
        tails, _ = tails_of(self.form.levels, False)
        share = float((abs(self.form.weights) / np.sqrt(tails)).sum())
        return 0.5 / np.sqrt(total) * share * float((self.luck.weight / self.luck.tail).sum())

    def _certain(self, y: FloatArray, psi: FloatArray) -> FloatArray:
        """Return weights of rows whose probabilities are as good as known."""
        return self._sorted(y, psi, certain_weights)

    def _mean(self, y: FloatArray, psi: FloatArray) -> FloatArray:
        """Return weights of rows for the mean over the posterior."""
        return self._sorted(y, psi, mean_weights)

    def _sorted(
        self, y: FloatArray, psi: FloatArray, weights_of: Callable[[FloatArray, float], FloatArray]
    ) -> FloatArray:
        """Return weights of rows, given those of outcomes that are sorted from worst to best."""
        weights = np.zeros(y.shape)
        for tail, sign, own in zip(self.luck.tail, self.luck.sign, self.luck.weight, strict=True):
            order = np.argsort(np.where(psi > 0.0, sign * y, np.inf), axis=1, kind="stable")
            found = weights_of(np.take_along_axis(psi, order, axis=1), float(tail))
            back = np.empty_like(found)
            np.put_along_axis(back, order, found, axis=1)
            weights += own * back
        return weights

    def _two(self, y: FloatArray, psi: FloatArray) -> FloatArray:
        """Return weights of rows with at most two possible outcomes."""
        possible, rows, weights = psi > 0.0, np.arange(len(y)), np.zeros(y.shape)
        low = np.argmin(np.where(possible, y, np.inf), axis=1)
        high = possible.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)
        other = np.where(high == low, np.argmax(possible, axis=1), high)
        single = other == low
        first, rest = psi[rows, low], np.where(single, 1.0, psi[rows, other])
        share, doubt = worse_share(np.where(single, 1.0, first), rest, self.luck, self.form)
        self._doubt = max(self._doubt, float(np.where(single, 0.0, doubt).max(initial=0.0)))
        weights[rows, other] = 1.0 - share
        weights[rows, low] = share
        weights[single] = 0.0
        weights[rows[single], low[single]] = 1.0
        return weights

    def _three(self, y: FloatArray, psi: FloatArray) -> FloatArray:
        """Return weights of rows with three possible outcomes."""
        (tail,), (sign,) = self.luck.tail.tolist(), self.luck.sign.tolist()
        order = np.argsort(np.where(psi > 0.0, sign * y, np.inf), axis=1, kind="stable")[:, :3]
        worth, counts = (np.take_along_axis(part, order, axis=1) for part in (sign * y, psi))
        gaps = np.diff(worth, axis=1)
        # equal outcomes get equal shares of a gap; their weights multiply nothing
        gap = np.where(gaps.sum(axis=1) > 0.0, gaps[:, 0] / np.maximum(gaps.sum(axis=1), UNDERFLOW), 0.5)
        first, second, third = np.ascontiguousarray(counts.T)
        rows = ThreeCounts(first, second, third, np.clip(gap, SMALLEST_GAP, 1.0 - SMALLEST_GAP), tail)
        found, doubts = np.zeros(counts.shape), np.full(len(y), SMALLEST_GAP)
        tails, sides = tails_of(self.form.levels, False)
        for share, side, part in zip(tails.tolist(), sides.tolist(), self.form.weights.tolist(), strict=True):
            own, doubt = three_weights(rows, share, side * sign > 0.0)
            found += part * own
            doubts += abs(part) * doubt
        self._doubt = max(self._doubt, float(doubts.max()))
        weights = np.zeros(y.shape)
        np.put_along_axis(weights, order, found, axis=1)
        return weights

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""

        def run(i: int, j: int) -> float:
            weights, y, held, size = self._rows(value, pairs[i:j])
            low = np.where(held, y, np.inf).min(axis=1, keepdims=True)
            span = np.where(held, y - low, 0.0)
            q[pairs[i:j]] = low[:, 0] + (weights * span).sum(axis=1)
            error = (self._doubt + self._beta_error + (2.0 * self.longest + 16.0) * EPS) * float(span.max(initial=0.0))
            return error + 3.0 * EPS * size + self.discount * self.later.rounding(value) + UNDERFLOW

        yield Task(run, pairs.size, max(1, 20_000 // self.longest))

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: the mean weights of the outcomes."""
        entries, starts = self.entries.of_pairs(pairs)
        weights, _, held, _ = self._rows(value, pairs)
        return self._chain(weights[held], entries, starts)


def luck_rows(
    model: UncertainMDP, counts: FloatArray | None, risk: RiskMeasure, outcome_risk: RiskMeasure | None, luck: Luck
) -> LuckRows:
    """Return the rows that need no draws; ``counts`` is None where there are none."""
    if counts is None:
        message = (
            f"draws must be given: {risk!r} of {outcome_risk!r} is exact for CVaRs over outcomes if the risk over the "
            "posterior is the mean (alpha=0) or no source has more than three outcomes (two if CVaRs over outcomes are "
            "mixed); e.g. draws=1000"
        )
        raise ParameterError(message, code="missing-argument", argument="draws")
    return LuckRows(model, counts, form_of(risk), luck)


# -- with draws --------------------------------------------------------------------------------------------


@kernel
def _inner(y, order, theta, slot, i, luck, weights):
    """Write the weights of the outcomes in sigma under draw i, its gradient in y; return sigma.

    ``order`` sorts y; weights sum to one.
    """
    n, total = y.size, 0.0
    for k in range(n):
        weights[k] = 0.0
        total += theta[slot + k, i]
    if luck.beta != 0.0:
        at = y[order[0]] if luck.beta > 0.0 else y[order[n - 1]]
        risen = 0.0
        for k in range(n):
            risen += theta[slot + k, i] / total * np.expm1(-luck.beta * (y[k] - at))
            weights[k] = theta[slot + k, i] / total * np.exp(-luck.beta * (y[k] - at))
        for k in range(n):
            weights[k] /= 1.0 + risen
        return at - np.log1p(risen) / luck.beta
    value = 0.0
    for j in range(luck.tail.size):
        left = luck.tail[j]
        for m in range(n):
            k = order[m] if luck.sign[j] > 0.0 else order[n - 1 - m]
            # what rounding leaves goes to the last outcome
            part = min(left, theta[slot + k, i] / total) if m < n - 1 else left
            weights[k] += luck.weight[j] * part / luck.tail[j]
            left -= part
    for k in range(n):
        value += weights[k] * y[k]
    return value


@kernel
def _luck_values(pairs, entries, draws, n, value, luck, longest, z):
    """Write sigma of each draw into z [pairs, N]; return the largest magnitude of a term."""
    y, order, weights = np.empty(longest), np.empty(longest, np.int64), np.empty(longest)
    biggest = 0.0
    for row in range(pairs.size):
        p = pairs[row]
        size = entries.first[p + 1] - entries.first[p]
        slot = entries.begin[entries.source[p]] - draws.offset
        top = outcome_values(p, entries, entries.discount, value, y)
        for k in range(size):
            order[k] = k
        sort_by(y, order, size)
        for i in range(n):
            extra = draws.rewards[p, i] if draws.rewards.size else 0.0
            z[row, i] = _inner(y[:size], order, draws.theta, slot, i, luck, weights) + extra
            biggest = max(biggest, top + abs(extra))
    return biggest


@kernel
def _luck_means(pairs, entries, draws, n, value, luck, longest, slopes, starts, means, extra):
    """Write the weights of outcomes, averaged by ``slopes`` [pairs, N], and add what is no product of them to extra."""
    y, order, weights = np.empty(longest), np.empty(longest, np.int64), np.empty(longest)
    for row in range(pairs.size):
        p = pairs[row]
        size = entries.first[p + 1] - entries.first[p]
        slot = entries.begin[entries.source[p]] - draws.offset
        outcome_values(p, entries, entries.discount, value, y)
        for k in range(size):
            order[k] = k
            means[starts[row] + k] = 0.0
        sort_by(y, order, size)
        for i in range(n):
            own = _inner(y[:size], order, draws.theta, slot, i, luck, weights)
            for k in range(size):
                means[starts[row] + k] += slopes[row, i] * weights[k]
                own -= weights[k] * y[k]
            extra[row] += slopes[row, i] * (own + (draws.rewards[p, i] if draws.rewards.size else 0.0))


def inner_values(luck: Luck, theta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sigma [N] of the values y [K] under draws [N, K], and the weights of the outcomes in it [N, K]."""
    order = np.argsort(y, kind="stable")
    found, weights = np.empty(len(theta)), np.empty(theta.shape)
    by_outcome = np.ascontiguousarray(theta.T)
    for i in range(len(theta)):
        found[i] = _inner(y, order, by_outcome, 0, i, luck, weights[i])
    return found, weights


class LuckDrawRows(EquivalentDrawRows):
    """Both risks by N posterior draws, for every risk over the posterior."""

    def __init__(
        self,
        model: UncertainMDP,
        theta: SlotDraws | GivenDraws,
        risk: RiskMeasure,
        luck: Luck,
        reward_draws: FloatArray | None = None,
        leaks: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Arguments as for ``EquivalentDrawRows``, and the risk of an outcome."""
        super().__init__(model, theta, risk, reward_draws, (min(leaks[0], 0.0), max(leaks[1], 0.0)))
        self.luck = luck

    def _values(self, pairs: IntArray, draws: Draws, later: FloatArray, z: FloatArray) -> float:
        return float(_luck_values(pairs, self.entries, draws, self.theta.n, later, self.luck, self.longest, z))

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``."""
        entries, starts = self.entries.of_pairs(pairs)
        weights, extra = np.empty(entries.size), np.empty(pairs.size)
        later = self.later.extended(value)
        for some, draws, z, _ in self._chunks(value, pairs):
            slopes = self.risk.gradient(z)
            extra[some] = self.risk(z) - (slopes * z).sum(axis=0)
            sizes = starts[some + 1] - starts[some]
            first = np.concatenate(([0], np.cumsum(sizes)))
            means, more = np.empty(first[-1]), np.zeros(some.size)
            rows = self.entries, draws, self.theta.n, later, self.luck, self.longest
            _luck_means(pairs[some], *rows, np.ascontiguousarray(slopes.T), first, means, more)
            weights[np.repeat(starts[some] - first[:-1], sizes) + np.arange(first[-1])] = means
            extra[some] += more
        return self._chain(weights, entries, starts, extra)

    def errors(self, value: FloatArray, pairs: IntArray) -> FloatArray:
        """Return standard errors [pairs] of rows by their draws, from batches of these."""
        found, each = np.empty(pairs.size), self.theta.n // BATCHES
        for some, _, z, _ in self._chunks(value, pairs):
            means = np.stack([np.asarray(self.risk(z[i * each : (i + 1) * each])) for i in range(BATCHES)])
            found[some] = means.std(axis=0, ddof=1) / np.sqrt(BATCHES)
        return found

    def note(self, value: FloatArray, pairs: IntArray) -> str:
        """See ``RowRisk.note``: how much the values of these pairs depend on the draws, from batches of them."""
        if self.theta.n < 10 * BATCHES:
            return f"; for these {self.theta.n} posterior draws, too few to say how much others would change it"
        worst = float(self.errors(value, pairs).max()) / (1.0 - self.discount if self.discount < 1.0 else 1.0)
        return f"; for {self.theta.n:,} posterior draws, whose standard error is up to about {worst:.1g}"
