"""What to measure next: the expected gain from more observations of each source.

Let psi be the Dirichlet counts, and c the counts of m further observations of source b. Before they are made, c is
Dirichlet-multinomial: theta[b] from the posterior, then c from theta[b]. Afterwards the posterior of b is psi[b] + c,
and the policy at level alpha is worked out anew. Write pi and pi(c) for the policy now and then, R(pi; c) for what pi
returns from the start in the model at the posterior mean after c, and V, V(c) for the optimal value from the start.

    gain           E[ R(pi(c); c) - R(pi; c) ]      what deciding anew with the data adds to the mean return
    value_change   E[ V(c) ] - V                    how much the value itself rises: the caution that data removes
    switch         P( pi(c) is not pi )             in a state that pi comes to

**Sources are ranked by gain**, then by value_change. Data that changes no decision changes nothing that happens; it
has no gain, although at alpha > 0 it comforts, which value_change counts too.

- At alpha = 0 the gain is never negative. Where the return is linear in the source it is the classic value of
  sample information, E[max R(c)] - max R, and equals value_change. Where a path meets a source more than once the
  return is not linear in it. Then R at the posterior mean stands for the posterior mean of the return, an
  approximation; and value_change also holds the curvature of the return, which no decision earns and which may have
  either sign.
- At alpha > 0 a policy that is cautious by choice is not the one of largest mean return, so that a gain may be
  negative: data can also make a policy more cautious.

**Expectations.** All c are enumerated if they are few (exact: no standard error). Else c is sampled, half of them from
a posterior that is twice as wide, with weights, because the data that changes a policy may be rare. What value_change
owes to the shift of the posterior mean, whose expectation is zero, is taken off as a control variate. A gain of 0
with a standard error of 0 says that no data set in the sample changed the policy.

**What is skipped**, because neither gain nor value_change can differ from zero:

    one outcome         there is nothing to learn
    out of reach        no policy leads from the start to a pair that draws from it
    same worth          its outcomes are worth the same wherever it is used, so the values now are those after any c
    never attractive    the policy does not use it, and no m observations make a pair that does better than the policy.
                        To give an observation to the outcome that is worth most moves the posterior of the worth
                        upwards (write Dirichlet weights as gammas), so m observations of that outcome are the test.

**Other sources.** If no pair of the policy draws from b, its values stay, and c matters if a pair that does beats
them. If one does, only that row of its chain changes, and Newton steps from the present values need no
factorisation but that of the present chain. Q of the other actions is at most what its supergradient says, as CVaR is
concave in the values. Where that leaves another action a chance, or several pairs of the policy draw from b, the
problem is solved again. Leads of less than 1e-7 of the range of what outcomes are worth do not change a policy; and a
change of value is known to about 1e-4 of itself, as rows of the chain that hardly bend are taken as straight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import betaln

from .._drawing.frame import Figure, Panel, drawn
from .._drawing.style import Entry, hex_of
from .._numerics.compile import default_threads, each_row, over_rows
from .._support.checks import BoolArray, FloatArray, IntArray, generator, index_array, whole_number
from .._support.progress import Progress
from ..errors import ParameterError
from ..exact import cvar_dirichlet, dirichlet_tail
from ..models.uncertain import UncertainMDP
from ..planning.brmdp import BayesianRiskMDP
from ..planning.explain import worth_of_outcomes
from ..planning.solution import Solution
from ..planning.solver import SolverOptions
from ..posteriors.dirichlet import DirichletPosterior

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["ValueOfData", "value_of_data"]

FEW = 300  # data sets that are enumerated rather than sampled
MOST = 10**9  # observations
SAME = 1e-7  # of the range of what outcomes are worth: actions so close are equally good, and the present one stays
STRAIGHT = 1e-4  # of a change of the values: bends of CVaR that are left out
STEPS = 20  # towards the values of a policy
BLOCK = 2_000_000  # numbers in memory at a time
SHOWN = 10  # sources in a repr
DRAWN = 15  # sources in a figure
SKIPPED = {
    "one outcome": "have one outcome",
    "out of reach": "are out of reach from the start",
    "same worth": "have outcomes that are worth the same",
    "never attractive": "could not make another action attractive",
}


@dataclass(frozen=True, repr=False)
class ValueOfData:
    """What more observations of each source are worth, most valuable first in tables; made by :func:`value_of_data`.

    Arrays run over ``source``; errors are standard errors, zero where all data sets were enumerated.
    """

    source: IntArray  # [B'] the sources that were asked for
    gain: FloatArray  # [B'] expected gain of the mean return from the start
    gain_error: FloatArray
    value_change: FloatArray  # [B'] expected rise of the Bayesian-risk value from the start
    value_change_error: FloatArray
    switch: FloatArray  # [B'] probability that the policy changes in a state that it comes to
    method: npt.NDArray[Any]  # [B'] "exact", "sampled", or why there was nothing to work out
    observations: int
    alpha: float
    replications: int
    solution: Solution = field(repr=False)  # now
    value: float  # of the present policy from the start: its Bayesian-risk value
    mean_return: float  # and its return at the posterior mean
    _model: UncertainMDP = field(repr=False)
    _posterior: DirichletPosterior = field(repr=False)

    @property
    def ranking(self) -> IntArray:
        """The sources, most valuable first."""
        return self.source[self._order()]

    def _order(self) -> IntArray:
        return np.lexsort((self.source, -self.value_change, -self.gain))

    def used_by(self, source: int) -> str:
        """Return what draws from a source: a pair by name, or how many pairs do."""
        pairs = np.flatnonzero(self._model.source.reshape(-1) == source)
        if pairs.size == 1:
            return self._model.pair_name(pairs[0])
        return f"{pairs.size} pairs, the first {self._model.pair_name(pairs[0])}"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each source, most valuable first."""
        import pandas

        counts = self._posterior.counts[self.source]
        table = pandas.DataFrame(
            {
                "source": self.source,
                "used_by": [self.used_by(b) for b in self.source.tolist()],
                "gain": self.gain,
                "gain_error": self.gain_error,
                "value_change": self.value_change,
                "value_change_error": self.value_change_error,
                "switch": self.switch,
                "evidence": (counts - self._posterior.prior[self.source]).sum(axis=1),
                "total_count": counts.sum(axis=1),
                "method": self.method,
            }
        )
        return table.iloc[self._order()].reset_index(drop=True)

    def to_xarray(self) -> xarray.Dataset:
        """Return the table as a dataset over ``source``, in the order of the model."""
        table = self.to_pandas().set_index("source").sort_index()
        settings = ("observations", "alpha", "replications", "value", "mean_return")
        return table.to_xarray().assign_attrs({name: getattr(self, name) for name in settings})

    def plot(self) -> Canvas:
        """Return a figure of the most valuable sources: gain, and caution removed, with 95% intervals."""
        return drawn(_figure(self))

    def __repr__(self) -> str:
        table = self.to_pandas()
        skipped = table["method"].isin(list(SKIPPED))
        lines = [
            f"Value of {_observations(self.observations)} of a source, at alpha {self.alpha:g}; the policy now returns "
            f"{self.mean_return:.6g} on average, its value is {self.value:.6g}"
        ]
        shown = table[~skipped].head(SHOWN)
        if len(shown):
            columns = ["source", "used_by", "gain", "gain_error", "value_change", "value_change_error", "switch"]
            formats = dict.fromkeys(columns[2:], "{:.4g}".format)
            lines.append(shown[columns].to_string(index=False, formatters=formats))
        rest = int((~skipped).sum()) - len(shown)
        if rest:
            lines.append(f"and {rest} more")
        for reason, count in table.loc[skipped, "method"].value_counts().items():
            lines.append(f"{count} of {len(table)} sources {SKIPPED[str(reason)]}: zero")
        return "\n".join(lines)


def value_of_data(
    model: UncertainMDP,
    posterior: DirichletPosterior | Any,
    alpha: float = 0.0,
    observations: int = 1,
    *,
    start: Any = None,
    sources: Iterable[int] | None = None,
    replications: int = 200,
    rng: Any = None,
    threads: int | None = None,
) -> ValueOfData:
    """Return, for each source, the expected gain in the decision's quality from more observations of it.

    Parameters
    ----------
    model, posterior, alpha : the problem, as for :class:`BayesianRiskMDP`.
    observations : how many more of one source, m.
    start : where the process begins: a state, a mapping from states to probabilities, or probabilities [S]. By default
        every state is as likely.
    sources : which to look at, by number; by default all.
    replications : data sets sampled for each source, where there are too many to look at all of them.
    rng : a seed or a Generator.
    threads : how many to use, by default all cores.

    The result holds, for each source, ``gain``: by how much re-deciding with the data raises the expected return;
    ``value_change``: by how much it raises the Bayesian-risk value, which counts the caution that data removes;
    ``switch``: how likely the data is to change the policy. It ranks by gain, prints as a table, and has
    ``to_pandas``, ``to_xarray`` and ``plot``. The head of :mod:`prudent.analysis.value_of_data` defines them.

    A known action pays 0.5; another one has paid 1 in 2 of 5 cases. One more trial is worth nothing, two are:

    >>> model = UncertainMDP([[0, 1]], next_state=[[[0, -1], [0, 0]]], reward=[[[0.5, 0.0], [1.0, 0.0]]], discount=0.9)
    >>> [float(value_of_data(model, [[1, 0], [2, 3]], observations=m).gain[1]) for m in (1, 2)]
    [0.0, 0.1429]
    """
    m = whole_number(observations, "observations", 1, MOST)
    count = whole_number(replications, "replications", 2)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    problem = BayesianRiskMDP(model, posterior, alpha)
    if problem.posterior is None:
        raise ParameterError("the value of data needs a DirichletPosterior or counts: draws cannot learn")
    study = _Study(problem, m, count, model.start_distribution(start), workers)
    asked = np.arange(model.n_sources) if sources is None else np.unique(_sources(sources, model.n_sources))
    # a stream for each source: the numbers depend neither on threads nor on which others are asked for
    seeds = np.random.SeedSequence(int(generator(rng).integers(2**63))).spawn(model.n_sources)
    progress = Progress("value of data")
    done = 0

    def work(i: int, j: int) -> list[_Answer]:
        nonlocal done
        answers = []
        for row in each_row(i, j):
            answers.append(study.of_source(int(asked[row]), np.random.default_rng(seeds[asked[row]])))
            done += 1
            progress.show(f"source {done} of {asked.size}")
        return answers

    parts = over_rows(work, asked.size, workers, long=True)
    progress.close()
    answers = [answer for part in parts for answer in part]
    columns = {name: np.array([getattr(a, name) for a in answers]) for name in _Answer._fields}
    return ValueOfData(
        source=asked,
        **columns,
        observations=m,
        alpha=study.alpha,
        replications=count,
        solution=study.now,
        value=float(study.start @ study.now.value),
        mean_return=float(study.start @ study.now.posterior_mean_value),
        _model=model,
        _posterior=problem.posterior.copy(),
    )


def _sources(sources: Iterable[int], size: int) -> IntArray:
    asked = index_array(list(sources), "sources", size, ParameterError).reshape(-1)
    if not asked.size:
        raise ParameterError("sources is empty: name at least one")
    return asked


class _Answer(NamedTuple):
    """What is found out about one source."""

    gain: float
    gain_error: float
    value_change: float
    value_change_error: float
    switch: float
    method: str


class _Data(NamedTuple):
    """Data sets that may come, and how to average over them."""

    counts: FloatArray  # [U, K] different ones
    place: IntArray  # [R] which of them is meant
    weight: FloatArray  # [R] sums to one
    halves: tuple[slice, ...]  # of R, sampled each in its own way; none if all that may come are there

    def mean_and_error(self, values: FloatArray) -> tuple[float, float]:
        """Return the mean of ``values`` [U] and its standard error."""
        each = values[self.place]
        mean = float(self.weight @ each)
        deviation = self.weight * (each - mean)
        return mean, math.sqrt(sum(deviation[half].size * float(deviation[half].var(ddof=1)) for half in self.halves))


class _Study:
    """The problem as it is now, and what data on one source would do to it.

    Pairs P are the admissible ones of the states that the start leads to; the policy's own come first, one for each of
    these states S'.
    """

    def __init__(self, problem: BayesianRiskMDP, m: int, replications: int, start: FloatArray, threads: int) -> None:
        self.m, self.replications, self.start = m, replications, start
        self.alpha = float(problem.alpha or 0.0)
        assert problem.posterior is not None
        self.model, self.counts = problem.model, problem.posterior.counts.copy()
        self.now = problem.solve(threads=threads)
        self.policy, self.value = self.now.chosen, self.now.value
        n_states, n_actions = self.model.admissible.shape
        mean = problem.mean_mdp().transition
        entry = mean.tocoo()
        steps = sparse.csr_array((entry.data, (entry.row // n_actions, entry.col)), (n_states, n_states))
        self.states = np.flatnonzero(_reached(steps, start))
        self.visited = _reached(mean[np.arange(0, mean.shape[0], n_actions) + self.policy], start)  # by the policy
        own = self.states * n_actions + self.policy[self.states]
        admissible = self.model.admissible & np.isin(np.arange(n_states), self.states)[:, None]
        self.pairs = np.concatenate([own, np.setdiff1d(np.flatnonzero(admissible), own)])
        self.state = self.pairs // n_actions
        self.source = self.model.source.reshape(-1)[self.pairs]
        self.target = self.model.next_state.reshape(-1, self.model.n_outcomes)[self.pairs]  # [P, K], below 0: none
        self.rewards = self.model.reward.reshape(-1, self.model.n_outcomes)[self.pairs]  # [P, K]
        self.worth = worth_of_outcomes(self.model, self.value, self.pairs)  # [P, K]
        tail = dirichlet_tail(self.worth, self.counts[self.source], self.alpha, threads=threads)
        self.q, self.tail_means, self.first_guess = tail.cvar, tail.tail_means, tail.start
        own_counts = self.counts[self.source[: self.states.size]]
        mean_worth = np.einsum("sk,sk->s", own_counts, self.worth[: self.states.size]) / own_counts.sum(axis=1)
        possible = self.counts[self.source] > 0.0
        size = float(np.max(np.where(possible, abs(self.worth), 0.0)))
        # of caution, in the policy's rows
        self.price = np.maximum(mean_worth - self.q[: self.states.size], 1e-12 * size + 1e-300)
        scale = np.max(self.worth, where=possible, initial=-np.inf) - np.min(self.worth, where=possible, initial=np.inf)
        self.slack = SAME * scale + 1e-12 * size
        self.options = SolverOptions(tol=0.1 * self.slack or 1.0)
        # the supergradient of Q in the values: discounted chances of the next state in the bad cases
        row, k = np.nonzero((self.target >= 0) & (self.tail_means > 0.0))
        entries = (self.model.discount * self.tail_means[row, k], (row, self.target[row, k]))
        self.slope = sparse.csr_array(entries, (self.pairs.size, n_states))  # [P, S]
        chain = sparse.eye_array(self.states.size) - self.slope[: self.states.size][:, self.states]
        self.inverse = splu(sparse.csc_array(chain))  # of I - gamma T, the policy's own chain
        self.visits = self.inverse.solve(self.start[self.states], trans="T")  # type: ignore[call-overload]  # discounted, from the start

    def of_source(self, b: int, rng: np.random.Generator) -> _Answer:
        """Return what m more observations of source b are worth."""
        mine = np.flatnonzero(self.source == b)
        psi = self.counts[b]
        reason = self._nothing_to_gain(mine, psi)
        if reason:
            return _Answer(0.0, 0.0, 0.0, 0.0, 0.0, reason)
        data = _data(psi, self.m, self.replications, rng)
        chosen = mine[mine < self.states.size]
        after = psi + data.counts
        change, may_switch = self._if_kept(mine, chosen, after)
        gain, switch = np.zeros(change.size), np.zeros(change.size)
        for r in np.flatnonzero(may_switch):
            gain[r], change[r], switch[r] = self._solved(b, after[r])
        if data.halves:
            # what the shift of the mean does to the value has expectation zero, and most of the noise
            per_outcome = self.visits[chosen] @ self.worth[chosen]
            change -= (after / after.sum(axis=1, keepdims=True) - psi / psi.sum()) @ per_outcome
        return _Answer(
            *data.mean_and_error(gain),
            *data.mean_and_error(change),
            data.mean_and_error(switch)[0],
            "sampled" if data.halves else "exact",
        )

    def _nothing_to_gain(self, mine: IntArray, psi: FloatArray) -> str:
        """Return why no data on this source can matter, or an empty string."""
        possible = psi > 0.0
        if possible.sum() == 1:
            return "one outcome"
        if not mine.size:
            return "out of reach"
        worth = self.worth[mine][:, possible]
        if (np.ptp(worth, axis=1) <= 4.0 * np.spacing(abs(worth).max(axis=1))).all():
            return "same worth"
        if mine[0] >= self.states.size:
            best = np.where(possible, self.worth[mine], -np.inf).argmax(axis=1)
            lucky = psi + self.m * (np.arange(psi.size) == best[:, None])
            if (self._cvar(self.worth[mine], lucky) <= self.value[self.state[mine]] + self.slack).all():
                return "never attractive"
        return ""

    def _cvar(self, worth: FloatArray, counts: FloatArray) -> FloatArray:
        return cvar_dirichlet(worth, counts, self.alpha, threads=1)

    def _if_kept(self, mine: IntArray, chosen: IntArray, after: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the change of the value from the start [R] if the policy is kept, and where another may be better."""
        n = after.shape[0]
        if chosen.size > 1:  # each data set moves many rows at once: solve again
            return np.zeros(n), np.ones(n, dtype=np.bool_)
        others = mine[mine >= self.states.size]
        if not chosen.size:
            lead = self._cvar(self.worth[others][:, None], after) - self.value[self.state[others]][:, None]
            return np.zeros(n), (lead > self.slack).any(axis=0)
        value, error = self._policy_values(int(chosen[0]), after)  # [R, S], [R]
        rise = value - self.value
        # Q is concave in the values: at most what its supergradient at the present ones says
        rivals = np.setdiff1d(np.arange(self.states.size, self.pairs.size), others)
        lead = (self.q[rivals] - self.value[self.state[rivals]])[:, None] + self.slope[rivals] @ rise.T
        wins = (lead - rise[:, self.state[rivals]].T > self.slack - error).any(axis=0)
        for p in others:
            worth = self.rewards[p] + self._later(p, value.T).T
            wins |= self._cvar(worth, after) - value[:, self.state[p]] > self.slack - error
        return rise @ self.start, wins

    def _policy_values(self, s: int, after: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values of the policy after the data [R, S], and a bound on their error [R] from its decay.

        Row s of the policy's chain draws from the source. At the present values no other row has a residual, so that a
        Newton step is a column of the inverse of this chain, with the new row by the formula of Sherman and Morrison.
        Further steps along the same chain shrink the residual by about the same share each time.
        """
        tail = dirichlet_tail(self.worth[s], after, self.alpha, threads=1)
        new_row = tail.tail_means - self.tail_means[s]  # [R, K], what it has more than the old one
        column = np.zeros(self.value.size)
        column[self.states] = self.inverse.solve(np.eye(1, self.states.size, s)[0])
        kept = 1.0 - new_row @ self._later(s, column)  # [R]
        size = abs(tail.cvar - self.q[s])  # of the residual
        rise = (tail.cvar - self.q[s]) / kept
        value, error = self.value + rise[:, None] * column, np.zeros(size.size)
        spread = self._spread(column)
        left = np.arange(size.size) if self.alpha > 0.0 else np.arange(0)  # at level 0 the chain is all there is
        for _ in range(STEPS):
            if not left.size:
                break
            residual = self._residuals(s, after[left], value[left], abs(rise[left]), spread)  # [R', S']
            step = np.zeros((self.value.size, left.size))
            step[self.states] = self.inverse.solve(residual.T)
            step += column[:, None] * (np.einsum("rk,kr->r", new_row[left], self._later(s, step)) / kept[left])
            value[left] += step.T
            before, size[left] = size[left], np.max(abs(residual), axis=1)
            share = np.minimum(size[left] / np.maximum(before, 1e-300), 1.0)
            error[left] = 2.0 * share * np.max(abs(step), axis=0) + STRAIGHT * abs(rise[left])
            left = left[2.0 * share * np.max(abs(step), axis=0) > np.maximum(self.slack, STRAIGHT * abs(rise[left]))]
        return value, error

    def _spread(self, column: FloatArray) -> FloatArray:
        """Return by how much the next states of each row [S'] rise differently when the values rise by ``column``."""
        rows = self.states.size
        target = self.target[:rows]
        rises = np.where(target >= 0, column[np.maximum(target, 0)], 0.0)
        seen = self.counts[self.source[:rows]] > 0.0
        return np.max(rises, axis=1, where=seen, initial=-np.inf) - np.min(rises, axis=1, where=seen, initial=np.inf)

    def _later(self, p: int, value: FloatArray) -> FloatArray:
        """Return ``value`` [S, ...] at the next state of each outcome of pair p, discounted [K, ...]."""
        later = self.model.discount * value[np.maximum(self.target[p], 0)]
        later[self.target[p] < 0] = 0.0
        return later

    def _residuals(
        self, s: int, after: FloatArray, value: FloatArray, rise: FloatArray, spread: FloatArray
    ) -> FloatArray:
        """Return T V - V of the policy [R, S'] at ``value`` [R, S]; zero where a row is all but straight.

        The values of its next states differ by ``rise`` [R] times ``spread`` [S'] more than now.
        """
        residual = np.zeros((after.shape[0], self.states.size))
        # CVaR follows a constant, and bends over the size of its distance from the mean
        change = rise[:, None] * spread
        bend = change * np.minimum(change / self.price, 1.0)
        enough = np.maximum(0.1 * self.slack, STRAIGHT * rise) * (1.0 - self.model.discount)
        r, row = np.nonzero(bend > enough[:, None])
        block = max(1, BLOCK // self.model.n_outcomes)
        for first in range(0, r.size, block):
            i, p = r[first : first + block], row[first : first + block]
            later = np.where(self.target[p] >= 0, value[i[:, None], np.maximum(self.target[p], 0)], 0.0)
            worth = self.rewards[p] + self.model.discount * later
            counts = np.where((p == s)[:, None], after[i], self.counts[self.source[p]])
            q = dirichlet_tail(worth, counts, self.alpha, start=self.first_guess[p], threads=1).cvar
            residual[i, p] = q - value[i, self.states[p]]
        return residual

    def _solved(self, b: int, psi: FloatArray) -> tuple[float, float, float]:
        """Return gain, change of the value, and 1.0 if the policy changes, where source b has the counts ``psi``."""
        counts = self.counts.copy()
        counts[b] = psi
        problem = BayesianRiskMDP(self.model, counts, self.alpha)
        then = problem.solve(start=self.value, threads=1, options=self.options)
        change = self._beyond_rounding(then.value - self.value)
        kept = then.q[np.arange(then.value.size), self.policy] >= then.value - self.slack
        if kept[self.visited].all():
            return 0.0, change, 0.0
        neutral = problem if self.alpha == 0.0 else BayesianRiskMDP(self.model, counts, 0.0)
        before = neutral.evaluate(self.policy, start=self.value, threads=1, options=self.options).value
        if self.alpha == 0.0:
            return max(self._beyond_rounding(then.value - before), 0.0), change, 1.0
        after = neutral.evaluate(then.policy, start=before, threads=1, options=self.options).value
        return self._beyond_rounding(after - before), change, 1.0

    def _beyond_rounding(self, difference: FloatArray) -> float:
        """Return a difference of values from the start, zero where it is no more than their tolerance."""
        size = float(self.start @ difference)
        return size if abs(size) > self.slack else 0.0


def _reached(step: sparse.csr_array, start: FloatArray) -> BoolArray:
    """Return the states [S] that steps of positive probability [S, S] lead to from the start."""
    reached = start > 0.0
    front = reached
    while front.any():
        front = ((front.astype(np.float64) @ step) > 0.0) & ~reached
        reached = reached | front
    return reached


def _data(psi: FloatArray, m: int, replications: int, rng: np.random.Generator) -> _Data:
    """Return all data sets of m observations if they are few, or else a sample.

    Half of a sample has counts psi, half psi / 4, which is twice as wide and finds the rare data sets that change a
    policy; weights make up for it.
    """
    outcomes = np.flatnonzero(psi > 0.0)
    n = outcomes.size
    halves: tuple[slice, ...] = ()
    if math.comb(m + n - 1, n - 1) <= max(FEW, replications):
        found = _every_count(n, m)
        place = np.arange(len(found))
        log_weight = _log_chance(psi[outcomes], found)
    else:
        halves = (slice(0, replications // 2), slice(replications // 2, replications))
        drawn_counts = []
        for half, wide in zip(halves, (1.0, 4.0), strict=True):
            theta = DirichletPosterior(psi[outcomes] / wide).sample(half.stop - half.start, rng)[:, 0]
            drawn_counts.append(rng.multinomial(m, theta))
        found, place = np.unique(np.concatenate(drawn_counts), axis=0, return_inverse=True)
        wider = _log_chance(psi[outcomes] / 4.0, found) - _log_chance(psi[outcomes], found)
        log_weight = -np.logaddexp(0.0, wider)[place]
    weight = np.exp(log_weight - log_weight.max())
    counts = np.zeros((len(found), psi.size))
    counts[:, outcomes] = found
    return _Data(counts, place.reshape(-1), weight / weight.sum(), halves)


def _every_count(n: int, m: int) -> IntArray:
    """Return all ways [R, K] in which m observations can fall on n outcomes."""
    bars = np.array(list(combinations(range(m + n - 1), n - 1))).reshape(-1, n - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), m + n - 1)])
    return np.diff(edges, axis=1) - 1


def _log_chance(psi: FloatArray, counts: IntArray) -> FloatArray:
    """Return the logarithm of the Dirichlet-multinomial probability of ``counts`` [R, K]."""

    def rising(base: Any, steps: Any) -> FloatArray:  # of base (base + 1) ... (base + steps - 1) / steps!
        some = np.maximum(steps, 1)
        return np.where(steps > 0, -betaln(base, some) - np.log(some), 0.0)

    return rising(psi, counts).sum(axis=1) - rising(psi.sum(), counts.sum(axis=1))


def _observations(m: int) -> str:
    return f"{m:,} more observation{'s' * (m > 1)}"


# -- the figure --------------------------------------------------------------------------------------------


def _figure(result: ValueOfData) -> Figure:
    table = result.to_pandas()
    visible = [abs(table[name]) > 1e-4 * abs(table[name]).max() for name in ("gain", "value_change")]
    shown = table[visible[0] | visible[1]].head(DRAWN)
    rows = np.arange(len(shown))
    names = [text if len(text) <= 40 else f"{text[:39]}…" for text in shown["used_by"]]

    def bars(column: str, colour: str, label: str, ticks: list[str], title: str) -> Panel:
        value, error = shown[column].to_numpy(), 1.96 * shown[f"{column}_error"].to_numpy()
        noisy = error > 0.0

        def draw(axes: Axes) -> None:
            if not rows.size:
                axes.text(0.5, 0.5, "no source can change the decision", ha="center", transform=axes.transAxes)
            axes.barh(rows, value, color=hex_of(colour), height=0.65)
            axes.errorbar(
                value[noisy], rows[noisy], xerr=error[noisy], fmt="none", ecolor=hex_of("ink"), elinewidth=1.0
            )
            axes.set_yticks(rows, [text.replace("$", r"\$") for text in ticks])
            axes.set_ylim(max(rows.size, 3) - 0.4, -0.6)
            axes.set_xlabel(label)
            axes.axvline(0.0, color=hex_of("ink"), lw=0.7)
            axes.grid(axis="y", visible=False)

        return Panel(title, draw)

    some = f"{len(shown)} of {len(table)} sources" if len(shown) < len(table) else "of each source"
    panels = (
        bars("gain", "law", "expected gain of the mean return", names, f"{_observations(result.observations)}, {some}"),
        bars(
            "value_change",
            "brps-0.9",
            "expected rise of the value itself",
            [""] * rows.size,
            "Caution removed" if result.alpha else "",
        ),
    )
    legend = (Entry("95% interval, where data was sampled", "ink"),) if (shown["method"] == "sampled").any() else ()
    return Figure("value-of-data", "", panels, legend, 2, (4.6, max(2.0, 0.26 * rows.size + 0.9)))
