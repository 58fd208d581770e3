"""Row risks where mean rewards are uncertain too: a normal is added to each row, under Dirichlet posteriors, exactly.

Q(s, a) is the risk of Z + sd(s, a) N: Z as for ``prudent.planning.row_risks.DirichletRows``, and N an independent
standard normal. The means of the unknown rewards are part of the rewards. The risk is a mixture of CVaRs; all of what
``prudent.planning.rows`` says of monotonicity, shifts and leaks holds, so the certificate is the same. The gradient
with respect to V is the vector of tail means, as ever, and what the noise adds in the tail is a reward of the chain.

A backup of the best action evaluates few pairs: CVaR of a lower tail is at most the mean less what the noise alone
costs, and any CVaR exceeds the mean by at most a number of standard deviations, whatever the law (``Levels.reach``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from .._numerics.dirichlet_moments import moments_of_row
from .._numerics.dirichlet_tail import SCRATCH
from .._numerics.noisy_tail import noisy_tail_of_row
from .._support.checks import FloatArray, IntArray
from ..models.uncertain import UncertainMDP
from ..risk import ExactForm
from .chain import Chain
from .row_risks import OutcomeRows, Task, _bound
from .rows import Levels, counts_of, outcome_values, risk_of_row


class _Memory(NamedTuple):
    """State of the operator between backups."""

    start: FloatArray  # [P, J] last quantiles in standard deviations from the mean, or NaN
    means: FloatArray  # [E] tail means of the last backup
    extra: FloatArray  # [P] what the noise adds in the tail


def price_of(levels: Levels) -> float:
    """Return by how many standard deviations the mixture of CVaRs of a normal lies below its mean."""
    tail = np.clip(levels.tail, 1e-300, 1.0)
    density = np.exp(-0.5 * np.nan_to_num(levels.z) ** 2) / np.sqrt(2.0 * np.pi)
    return float((levels.sign * levels.weight * np.where(levels.tail < 1.0, density / tail, 0.0)).sum())


class NoisyRows(OutcomeRows):
    """Mixtures of CVaRs of rows to which normals are added, without sampling."""

    costly = True
    lazy_q = True
    screens = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, sd: FloatArray, form: ExactForm) -> None:
        """``counts`` [B, K]; ``sd`` [S, A] standard deviations of the noise, 0 where there is none."""
        super().__init__(model)
        self._model, self.levels = model, Levels.of(form)
        self.counts, self.sd = self.entries.pack(counts), np.ascontiguousarray(sd.reshape(-1))
        self._price = price_of(self.levels)
        pairs, J = self.n_states * self.n_actions, self.levels.tail.size
        self.memory = _Memory(np.full((pairs, J), np.nan), np.zeros(self.entries.next_state.size), np.zeros(pairs))
        self._known = np.zeros(pairs, dtype=np.bool_)  # whether the tail means are those at ``_means_at``
        self._means_at = np.full(model.n_states, np.nan)

    def approximation(self) -> NoisyMoments | None:
        """See ``SmoothRows.approximation``; it exists for lower tails."""
        lower = bool((self.levels.sign > 0.0).all())
        return NoisyMoments(self._model, self.counts, self.sd, self.levels) if lower else None

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``. Each pair starts from its quantile of the last backup."""
        first = np.arange(pairs.size + 1)
        if best:
            first = np.searchsorted(pairs, np.arange(self.n_states + 1) * self.n_actions)
        if not np.array_equal(value, self._means_at):
            self._means_at[:] = value
            self._known[:] = False
        more, later = self.discount * self.later.rounding(value), self.later.extended(value)
        rows = self.entries, self.counts, self.sd, self.levels, self._price, accuracy, later, self.longest
        memory = self.memory, self._known
        run = lambda i, j: more + float(_noisy(pairs, first[i : j + 1], *rows, *memory, q))  # noqa: E731
        yield Task(run, first.size - 1, 1)

    def unknown_gradients(self, value: FloatArray, pairs: IntArray) -> IntArray:
        """See ``SmoothRows.unknown_gradients``."""
        return pairs[~(self._known[pairs] & np.array_equal(value, self._means_at))]

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: the tail means of the last backup."""
        entries, starts = self.entries.of_pairs(pairs)
        return self._chain(self.memory.means[entries], entries, starts, self.memory.extra[pairs])


class NoisyMoments(OutcomeRows):
    """The same as if every row were normal: a first guess for ``NoisyRows``, without a certificate."""

    approximate = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, sd: FloatArray, levels: Levels) -> None:
        """``counts`` [F] by slots, ``sd`` [S*A]."""
        super().__init__(model)
        self.counts, self.sd = counts, sd
        self._price = price_of(levels)

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        rows = self.entries, self.counts, self.sd, self._price, self.later.extended(value), self.longest, q

        def run(i: int, j: int) -> float:
            return _bound(8.0 * EPS, float(_as_normal(pairs[i:j], *rows)))

        yield Task(run, pairs.size, 10_000)

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``."""
        entries, starts = self.entries.of_pairs(pairs)
        means, extra = np.empty(entries.size), np.empty(pairs.size)
        rows = self.entries, self.counts, self.sd, self._price, self.later.extended(value), self.longest
        _normal_means(pairs, *rows, starts, means, extra)
        return self._chain(means, entries, starts, extra)


@kernel
def _normal_row(p, entries, counts, sd, price, value, y):
    """Return the magnitude, mean, standard deviation of X and of Z of pair p; fill y."""
    size = outcome_values(p, entries, entries.discount, value, y)
    row = counts_of(p, entries, counts)
    _, mean, own, _, _ = moments_of_row(y[: row.size], row)
    return size + price * sd[p], mean, own, np.sqrt(own * own + sd[p] * sd[p])


@kernel
def _as_normal(pairs, entries, counts, sd, price, value, longest, q):
    y, biggest = np.empty(longest), 0.0
    for p in pairs:
        size, mean, _, wide = _normal_row(p, entries, counts, sd, price, value, y)
        q[p] = mean - price * wide
        biggest = max(biggest, size)
    return biggest


@kernel
def _normal_means(pairs, entries, counts, sd, price, value, longest, starts, means, extra):
    y = np.empty(longest)
    for i in range(pairs.size):
        p = pairs[i]
        _, mean, _, wide = _normal_row(p, entries, counts, sd, price, value, y)
        row = counts_of(p, entries, counts)
        total = row.sum()
        # the risk mean - price wide depends on V by the mean and by the variance of X
        worth = 0.0
        for k in range(row.size):
            chance = row[k] / total
            slope = chance * (y[k] - mean) / (total + 1.0)
            means[starts[i] + k] = max(chance - (price * slope / wide if wide > 0.0 else 0.0), 0.0)
        norm = means[starts[i] : starts[i] + row.size].sum()
        for k in range(row.size):
            means[starts[i] + k] /= norm
            worth += means[starts[i] + k] * y[k]
        extra[i] = mean - price * wide - worth


@kernel
def noisy_risk(y, counts, sd, levels, start, accuracy, work, means, out):
    """Return the risk of w.y + sd N, and a bound on its error; write its gradient in y into ``out``.

    As ``prudent.planning.rows.risk_of_row``.
    """
    if sd == 0.0:
        return risk_of_row(y, counts, levels, start, accuracy, work, means, out)
    n, size = y.size, 0.0
    for k in range(n):
        out[k] = 0.0
        size = max(size, abs(y[k]))
    total, error, sign = 0.0, 0.0, 1.0
    for j in range(levels.tail.size):
        if levels.sign[j] != sign:
            sign = -sign
            for k in range(n):
                y[k] = -y[k]
        risk, _, start[j], doubt = noisy_tail_of_row(y, counts, sd, levels.tail[j], start[j], accuracy, work, means[:n])
        total += sign * levels.weight[j] * risk
        error += levels.weight[j] * doubt
        for k in range(n):
            out[k] += levels.weight[j] * means[k]
    if levels.tail.size > 1:
        error += 3.0 * (levels.tail.size + 1.0) * EPS * size
    return total, error


@kernel
def _noisy(pairs, first, entries, counts, sd, levels, price, accuracy, value, longest, memory, known, q):
    """Back up each group ``pairs[first[i] : first[i + 1]]`` of one state, best first; return the largest error.

    Pairs whose upper bound is below the best Q so far keep that bound.
    """
    y, work, means = np.empty(longest), np.empty((SCRATCH, longest)), np.empty(longest)
    guess = np.empty(entries.n_actions)
    worst = 0.0
    for i in range(first.size - 1):
        mine = pairs[first[i] : first[i + 1]]
        for j in range(mine.size):
            p = mine[j]
            guess[j] = 0.0
            if mine.size > 1:
                size = outcome_values(p, entries, entries.discount, value, y)
                row = counts_of(p, entries, counts)
                _, mean, own, _, _ = moments_of_row(y[: row.size], row)
                wide = np.sqrt(own * own + sd[p] * sd[p])
                guess[j] = mean - price * wide
                size += wide
                q[p] = mean + (3.0 * row.size + 16.0) * EPS * size
                if levels.reach > 0.0:
                    q[p] += (1.0 + (4.0 * row.size + 32.0) * EPS) * levels.reach * (wide + EPS * size)
                else:
                    q[p] -= (1.0 - 16.0 * EPS) * price * sd[p]
        best = -np.inf
        while True:
            j = -1
            for k in range(mine.size):
                if guess[k] > -np.inf and (mine.size == 1 or q[mine[k]] >= best) and (j < 0 or guess[k] > guess[j]):
                    j = k
            if j < 0:
                break
            guess[j] = -np.inf
            p = mine[j]
            size = outcome_values(p, entries, entries.discount, value, y)
            row = counts_of(p, entries, counts)
            gradient = memory.means[entries.first[p] : entries.first[p + 1]]
            q[p], error = noisy_risk(
                y[: row.size], row, sd[p], levels, memory.start[p], accuracy, work, means, gradient
            )
            outcome_values(p, entries, entries.discount, value, y)  # an upper tail changed the signs
            worth = 0.0
            for k in range(row.size):
                worth += gradient[k] * y[k]
            memory.extra[p] = q[p] - worth if sd[p] > 0.0 else 0.0
            known[p] = True
            worst = max(worst, error + 2.0 * EPS * size)
            best = max(best, q[p])
    return worst
