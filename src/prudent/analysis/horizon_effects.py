"""Effects of data on one source on a plan with a horizon; ``prudent.analysis.value_of_data`` defines the terms.

Every data set is solved for by backward induction, which takes as many backups as there are steps.
"""

from __future__ import annotations

import numpy as np

from ..data.policy import Policy
from ..errors import ParameterError
from ..planning.execute.threads import Threads
from ..planning.horizon import backward_induction
from ..planning.model_draws import Layout
from ..planning.problem import BayesianRiskMDP
from ..planning.row_risks import DirichletRows, MeanRows
from ..planning.solution import Solution
from ..types import FloatArray, IntArray
from .data_effects import TIE, Effect
from .future_data import data_sets


class HorizonEffects:
    """The plan with the present data, and the effects of more data on each source."""

    def __init__(
        self,
        problem: BayesianRiskMDP,
        solution: Solution,
        m: int,
        replications: int,
        start: FloatArray,
        final: FloatArray,
        threads: int,
    ) -> None:
        assert problem.posterior is not None
        if problem.reward_posterior is not None:
            message = 'reward_posterior cannot be combined with a horizon here; give reward_posterior="certain"'
            raise ParameterError(message, code="conflicting-arguments", argument="reward_posterior")
        self.m, self.replications, self.alpha = m, replications, float(problem.alpha or 0.0)
        self.model, self.full_start, self.counts = problem.model, start, problem.posterior.counts.copy()
        self.now, self.final, self.threads = solution, final, threads
        self.horizon = int(solution.policy.shape[0])
        self.mean_values = self._followed(self._mean(self.counts), solution.policy)
        self.mean_value = self.mean_values[0]
        self._measure()

    def _mean(self, counts: FloatArray) -> Threads:
        theta = counts / counts.sum(axis=1, keepdims=True)
        return Threads(MeanRows.of_outcomes(self.model, theta))

    def _risk(self, counts: FloatArray) -> Threads:
        """Return the operator of the risk level; one thread, as sources are already on threads."""
        if self.alpha == 0.0:
            return self._mean(counts)
        return Threads(DirichletRows(self.model, counts, self.alpha))

    def _followed(self, operator: Threads, actions: IntArray) -> FloatArray:
        """Return the values [T + 1, S] of actions [T, S]."""
        steps = Policy(actions, None)
        return backward_induction(lambda _: operator, self.model, self.horizon, self.final, steps).value

    def _measure(self) -> None:
        """Compute visits, the worth of outcomes over time, and by how much the data may move the mean of a pair."""
        model, entries = self.model, self.model.entries
        mean, spent = self._mean(self.counts).rows.rows, np.zeros((self.horizon, model.n_states))
        at = self.full_start
        for time, actions in enumerate(self.now.policy):
            spent[time] = at
            rows = np.arange(model.n_states) * model.n_actions + actions
            ahead = np.zeros(model.n_states)
            for s in np.flatnonzero(at):
                part = slice(mean.indptr[rows[s]], mean.indptr[rows[s] + 1])
                np.add.at(ahead, mean.indices[part], model.discount * at[s] * mean.data[part])
            at = ahead
        self.spent = spent
        pairs, psi = entries.pairs(), entries.pack(self.counts)[entries.slots()]
        total = np.bincount(pairs, weights=psi, minlength=entries.source.size)
        weight = psi / np.maximum(total, 1e-300)[pairs]
        goes = entries.next_state >= 0
        self.span, self.moves = 0.0, np.zeros(entries.source.size)
        survival = 1.0 if model.survival is None else model.survival
        for value in self.now.value[1:]:
            later = np.where(goes, value[np.maximum(entries.next_state, 0)], 0.0)
            worth = entries.reward + model.discount * survival * later
            self.span = max(self.span, float(np.ptp(worth[psi > 0.0])))
            centre = np.bincount(pairs, weights=weight * worth, minlength=total.size)
            square = np.bincount(pairs, weights=weight * (worth - centre[pairs]) ** 2, minlength=total.size)
            share = self.m / np.maximum(total + self.m, 1e-300)
            self.moves = np.maximum(self.moves, np.sqrt(square / (total + 1.0) * share))

    def skip_reasons(self) -> list[str]:
        """Return for each source [B] why no data on it can matter, or an empty string."""
        entries = self.model.entries
        layout = Layout.of(self.model, entries.pack(self.counts) > 0.0)
        reached = np.zeros(self.model.n_states, dtype=np.bool_)
        reached[layout.reached(self.full_start, self.model.admissible.astype(np.float64))] = True
        used = (self.model.admissible & reached[:, np.newaxis]).reshape(-1)
        drawn = np.bincount(entries.source[used], minlength=self.model.n_sources) > 0
        several = (self.counts > 0.0).sum(axis=1) > 1
        kinds: list[str] = np.select([~several, ~drawn], ["one outcome", "out of reach"], default="").tolist()
        return kinds

    def promise(self) -> FloatArray:
        """Return a guess of the gain for each source [B]: visits times how far the data may move the mean."""
        often = self.spent.sum(axis=0)
        weight = np.repeat(often + 1e-9 * often.sum(), self.model.n_actions)
        guess, used = np.zeros(self.model.n_sources), np.flatnonzero(self.model.admissible)
        np.add.at(guess, self.model.entries.source[used], (weight * self.moves)[used])
        return guess

    def effect_of(self, b: int, rng: np.random.Generator) -> Effect:
        """Return the effect of m more observations of source b."""
        data = data_sets(self.counts[b], self.m, self.replications, rng)
        rows = np.array([self._solved(b, self.counts[b] + more) for more in data.counts])
        gain, change, switch = rows.T
        return Effect(
            *data.mean_and_error(gain),
            *data.mean_and_error(change),
            data.mean_and_error(switch)[0],
            "sampled" if data.halves else "exact",
        )

    def _solved(self, b: int, row: FloatArray) -> tuple[float, float, float]:
        """Return gain, change of the value, and whether the plan changes where it is used, with new counts of b."""
        counts = self.counts.copy()
        counts[b] = row
        operator, mean = self._risk(counts), self._mean(counts)
        plan, used = np.empty_like(self.now.policy), self.now.policy
        states, every = np.arange(self.model.n_states), np.flatnonzero(self.model.admissible)
        value, q = self.final, np.full(self.model.admissible.shape, -np.inf)
        slack = TIE * self.span
        for time in range(self.horizon - 1, -1, -1):
            operator.backup(value, every, q.reshape(-1))
            best = q.argmax(axis=1)
            value = q[states, best]
            plan[time] = np.where(q[states, used[time]] >= value - slack, used[time], best)
        changed = bool(((plan != used) & (self.spent > 0.0) & ~self.model.terminal).any())
        change = float(self.full_start @ (value - self.now.value[0]))
        if not changed and np.array_equal(plan, used):
            return 0.0, change, 0.0
        then, still = (self._followed(mean, actions)[0] for actions in (plan, used))
        return float(self.full_start @ (then - still)), change, float(changed)
