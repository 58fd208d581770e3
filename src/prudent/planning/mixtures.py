"""Any exact measure of risk as a Bellman operator: mixtures of CVaRs of both signs, and quantiles.

For values y of the outcomes of a pair, and w ~ Dirichlet(psi) the posterior of its source,

    Q = sum_j weight_j CVaR_{level_j}(w.y),      or with VaR in place of CVaR,

where a negative level is minus CVaR at the positive one of -y. Levels and weights are the exact form of a measure
(:meth:`prudent.risk.RiskMeasure.exact_form`). Like the operators of :mod:`prudent.planning.operators` this one is
monotone and shifts with V, so the certificate of the solver holds unchanged. It need not be concave: at negative levels
it is convex, and Newton is policy iteration over tails, which only rises; VaR is neither, and Newton may lapse, where
sweeps take over.

The gradient is that of the mixture: the weighted tail means, or for VaR the means E[w | w.y = VaR].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import kernel, over_rows
from .._numerics.dirichlet_tail import SCRATCH, quantile_of_row, tail_of_row, tails_of
from .._numerics.krylov import Chain
from .._support.checks import FloatArray, IntArray
from ..models.uncertain import UncertainMDP
from ..risk import ExactForm
from .operators import _OutcomeOperator, consequences, counts_of

__all__ = ["MixtureOperator"]


class Levels(NamedTuple):
    """An exact form as the kernel reads it; J levels."""

    tail: FloatArray  # [J] mass of the tail
    sign: FloatArray  # [J] 1.0: of the lower tail, -1.0: of the upper one
    weight: FloatArray  # [J]
    quantile: bool  # whether it is VaR


class MixtureOperator(_OutcomeOperator):
    """Risk under Dirichlet posteriors without sampling: a mixture of CVaRs, or of quantiles."""

    costly = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, form: ExactForm, threads: int = 1) -> None:
        """``counts`` [B, K], zero where an outcome cannot happen."""
        super().__init__(model)
        pairs = self.n_states * self.n_actions
        self._counts = self.entries.pack(counts)
        tail, sign = tails_of(form.levels, form.quantile)
        self._levels = Levels(tail, sign, np.ascontiguousarray(form.weights), form.quantile)
        self._start = np.full((pairs, form.levels.size), np.nan)
        self.threads = threads
        # a backup finds the gradient on the way: it is kept for the chain at the same values
        self._means = np.zeros(self.entries.next_state.size)
        self._means_at = np.full(self.n_states, np.nan)
        self._has_means = np.zeros(pairs, dtype=np.bool_)

    def backup(self, value: FloatArray, pairs: IntArray, q: FloatArray) -> float:
        """See :meth:`Operator.backup`. Each pair starts from its own quantiles of the last time."""
        if not np.array_equal(value, self._means_at):
            self._means_at[:] = value
            self._has_means[:] = False
        rows = (self.entries, self._counts, self._levels, self.accuracy, value, self._start, self._longest)
        done = 0

        def back_up(i: int, j: int) -> float:
            nonlocal done
            error = _mixtures(pairs[i:j], *rows, self._means, q)
            done += j - i
            if self.tell is not None:
                self.tell(done / pairs.size)
            return error

        errors = over_rows(back_up, pairs.size, self.threads, smallest=max(1, 16 // self._levels.tail.size))
        self._has_means[pairs] = True
        return float(max(errors))

    def linearise(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See :meth:`Operator.linearise`: the gradients, those of the last backup where it was at ``value``."""
        known = self._has_means[pairs] & np.array_equal(value, self._means_at)
        if not known.all():
            self.backup(value, pairs[~known], np.empty(self._has_means.size))
        entries, starts = self.entries.of_pairs(pairs)
        return self._chain(self._means[entries], entries, starts)


@kernel
def _mixtures(pairs, entries, counts, levels, accuracy, value, start, longest, means, q):
    y, q_of = np.zeros(longest), np.zeros(longest)
    work = np.empty((SCRATCH, longest))
    worst = 0.0
    for p in pairs:
        here, own = entries.first[p], counts_of(p, entries, counts)
        n = own.size
        size = consequences(p, entries, value, y)
        for j in range(n):
            means[here + j] = 0.0
        total, error, shares, sign = 0.0, 0.0, 0.0, 1.0
        for i in range(levels.tail.size):
            if levels.sign[i] != sign:
                sign = -sign
                for j in range(n):
                    y[j] = -y[j]
            row = (y[:n], own, levels.tail[i], start[p, i], accuracy, work, q_of[:n])
            risk, _, start[p, i], doubt = quantile_of_row(*row) if levels.quantile else tail_of_row(*row)
            total += sign * levels.weight[i] * risk
            error += abs(levels.weight[i]) * doubt
            shares += abs(levels.weight[i])
            for j in range(n):
                means[here + j] += levels.weight[i] * q_of[j]
        q[p] = total
        # values, weights, products and sums were rounded
        worst = max(worst, error + (2.0 * shares + levels.tail.size * (2.0 + shares)) * EPS * size)
    return worst
