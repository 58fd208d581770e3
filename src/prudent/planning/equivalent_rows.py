"""Row risks of certainty equivalents: measures that are no weighted mean of sorted draws.

The measures are monotone and translation equivariant, so the certificate holds for them as for all other rows. They
need not be positively homogeneous: the tangent of a row has an intercept, rho(Z) - sum_i w_i Z_i with the gradient w,
which is added to the reward of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from ..models.uncertain import UncertainMDP
from ..risk import CertaintyEquivalent, RiskMeasure
from ..risk.equivalents import refuse_unlawful
from ..types import FloatArray, IntArray
from .chain import Chain
from .draw_blocks import GivenDraws, SlotDraws
from .row_risks import UNDERFLOW, OutcomeRows, Task
from .rows import Draws, draws_of_pair, later_value

_CHUNK = 2**22  # numbers that are evaluated at once


class EquivalentDrawRows(OutcomeRows):
    """A certainty equivalent of N posterior draws."""

    costly = True

    def __init__(
        self,
        model: UncertainMDP,
        theta: SlotDraws | GivenDraws,
        risk: RiskMeasure,
        reward_draws: FloatArray | None = None,
        leaks: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Arguments as for ``DrawRows``."""
        super().__init__(model)
        if isinstance(risk, CertaintyEquivalent):
            refuse_unlawful(risk, theta.n)
        self.leaks = self._with_draws(leaks)
        self.theta, self.risk = theta, risk
        self.rewards = np.zeros((0, 0))
        if reward_draws is not None:
            self.rewards = np.ascontiguousarray(reward_draws.reshape(theta.n, -1).T)

    def _chunks(self, value: FloatArray, pairs: IntArray) -> Iterator[tuple[IntArray, Draws, FloatArray, float]]:
        """Yield indices of ``pairs`` with their draws, the values Z [N, pairs] and the largest magnitude of a term."""
        source, later = self.entries.source[pairs], self.later.extended(value)
        most = max(1, _CHUNK // self.theta.n)
        for block, (first, last) in enumerate(self.theta.edges):
            mine = np.flatnonzero((source >= first) & (source < last))
            offset = int(self.entries.begin[first])
            for i in range(0, mine.size, most):
                some = mine[i : i + most]
                draws = Draws(self.theta.block(block), offset, self.rewards, np.zeros(0), False)
                z = np.empty((some.size, self.theta.n))
                yield some, draws, z.T, self._values(pairs[some], draws, later, z)

    def _values(self, pairs: IntArray, draws: Draws, later: FloatArray, z: FloatArray) -> float:
        """Write Z of each draw into z [pairs, N]; return the largest magnitude of a term."""
        return float(_draw_values(pairs, self.entries, draws, self.theta.n, later, z))

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``: one task, since the measure may be a Python function."""

        def run(i: int, j: int) -> float:
            worst, more = 0.0, self.discount * self.later.rounding(value)
            for some, _, z, size in self._chunks(value, pairs[i:j]):
                q[pairs[i:j][some]] = self.risk(z)
                worst = max(worst, (0.5 * self.longest + self.theta.n + 8.0) * EPS * size + UNDERFLOW)
            return worst + more

        yield Task(run, pairs.size, max(1, pairs.size))

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: outcome probabilities, weighted by the gradient of the measure."""
        entries, starts = self.entries.of_pairs(pairs)
        weights, extra = np.empty(entries.size), np.empty(pairs.size)
        slots = self.entries.begin[self.entries.source[pairs]]
        for some, draws, z, _ in self._chunks(value, pairs):
            slopes = self.risk.gradient(z)
            extra[some] = self.risk(z) - (slopes * z).sum(axis=0)
            for column, i in enumerate(some):
                slot = slots[i] - draws.offset
                weights[starts[i] : starts[i + 1]] = (
                    draws.theta[slot : slot + starts[i + 1] - starts[i]] @ slopes[:, column]
                )
                if self.rewards.size:
                    extra[i] += self.rewards[pairs[i]] @ slopes[:, column]
        return self._chain(weights, entries, starts, extra)


@kernel
def _draw_values(pairs, entries, draws, n, value, z):
    biggest = 0.0
    for i in range(pairs.size):
        biggest = max(biggest, draws_of_pair(pairs[i], entries, draws, n, 1.0, value, z[i]))
    return biggest


class EquivalentDirichletRows(OutcomeRows):
    """A certainty equivalent under Dirichlet posteriors, without draws."""

    costly = True

    def __init__(self, model: UncertainMDP, counts: FloatArray, risk: CertaintyEquivalent) -> None:
        """``counts`` [B, K], 0 for an impossible outcome."""
        super().__init__(model)
        refuse_unlawful(risk, self.longest)
        self.counts = self.entries.pack(counts)
        self.risk = risk

    def _rows(self, value: FloatArray, pairs: IntArray) -> tuple[FloatArray, FloatArray, float]:
        """Return values and counts [pairs, K] of the outcomes, and the largest magnitude of a value."""
        y, psi = np.zeros((pairs.size, self.longest)), np.zeros((pairs.size, self.longest))
        return y, psi, _outcome_rows(pairs, self.entries, self.counts, self.later.extended(value), y, psi)

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""

        def run(i: int, j: int) -> float:
            y, psi, size = self._rows(value, pairs[i:j])
            answer = self.risk.of_dirichlet(y, psi)
            q[pairs[i:j]] = answer.value
            more = self.discount * self.later.rounding(value) + 2.0 * EPS * size + UNDERFLOW
            return float(np.max(answer.error, initial=0.0)) + more

        yield Task(run, pairs.size, max(1, 20_000 // self.longest))

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``."""
        entries, starts = self.entries.of_pairs(pairs)
        y, psi, _ = self._rows(value, pairs)
        answer = self.risk.of_dirichlet(y, psi)
        held = np.arange(self.longest) < np.diff(starts)[:, np.newaxis]
        return self._chain(answer.means[held], entries, starts, answer.value - (answer.means * y).sum(axis=1))


@kernel
def _outcome_rows(pairs, entries, counts, value, y, psi):
    biggest = 0.0
    for i in range(pairs.size):
        p = pairs[i]
        begin, slot = entries.first[p], entries.begin[entries.source[p]]
        for j in range(entries.first[p + 1] - begin):
            later = later_value(entries.next_state[begin + j], entries.discount, value)
            y[i, j] = entries.reward[begin + j] + later
            psi[i, j] = counts[slot + j]
            biggest = max(biggest, abs(entries.reward[begin + j]) + abs(later))
    return biggest
