r"""A decision of last year and this year's data: what changed, and does the old model still hold?

**Has the world changed?** If not, the transitions of a pair in both logs come from one distribution, and which of them
are in the new log is a matter of chance: given the totals, the counts c_k of next states in the new log have a
multivariate hypergeometric distribution. The statistic is the likelihood ratio

    G = 2 sum_k ( c_k log(c_k / e_k) + o_k log(o_k / f_k) ),

where o_k are the old counts, e_k and f_k what both logs together lead to expect. The p-value of a pair is the rank of G
among simulated ones. For all pairs together there are two: of the sum of all G, which sees many small changes, and of
the largest G - df over its standard deviation, which sees a large change of one pair; the smaller one, doubled, counts.
This needs no prior and no large numbers: with nothing changed a p-value is below x with probability at most x. A
transition that the old log never had counts as what it is.

**Returns.** The return of the old policy under the old posterior is what was promised. Under the prior and the new data
alone it is what the new data say. Both are distributions; how likely they agree is read off their difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import rel_entr

from .._support.checks import generator, instance_of, open_probability, whole_number
from ..data.columns import as_column
from ..errors import ParameterError
from ..models.base import plural
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..planning.stay_close import read_baseline
from ..posteriors import DirichletPosterior
from ..types import BoolArray, FloatArray, IntArray, PathLike, RngLike, StartLike
from .packing import summary_or_none
from .posterior_returns import posterior_returns
from .reading import read_belief
from .saved_decision import SavedDecision, load
from .today import SAME, contributions, mean_visits

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


MOST_SIMULATIONS = 10**7  # minutes for a few pairs; ten times as many would take hours


class Transitions(NamedTuple):
    """Transitions of a model in which every pair has its own source, sorted by pair and next state."""

    pair: IntArray  # [E]
    target: IntArray  # [E], -2 for the end
    observed: FloatArray  # [E] beyond the prior


@dataclass(frozen=True, eq=False, repr=False)
class DecisionComparison:
    """A decision that was saved, beside a new log.

    Attributes
    ----------
    old : SavedDecision
        The decision.
    pairs : pandas.DataFrame
        A row for each pair of either log: state, action, old and new number of transitions, ``p_value`` of the pair
        (NaN if one log does not have it), ``unknown`` (new transitions that the old log never had).
    new_states, gone_states : tuple
        States that only the new log has, and those that only the old one has.
    p_value : float
        P-value of all pairs together, that nothing changed; NaN if there are none to compare.
    unknown : float
        New transitions that the old log never had, in all.
    returns : pandas.DataFrame
        Mean, low and high of the return of: the old policy as promised, the old policy by the new data, the new policy
        by the new data.
    agreement : float
        Chance, at most 1, of a difference between promise and new data as large as this one if nothing changed.
    changes : pandas.DataFrame
        States where the new policy differs from the old one, those that matter most first: state, old and new action,
        share of time, contribution to the difference of mean returns.
    uncovered_share : float
        Share of time that the old policy, where it applies, spends in states about which it says nothing.
    confidence : float
        Probability of the intervals.
    """

    old: SavedDecision
    pairs: pandas.DataFrame
    new_states: tuple[Any, ...]
    gone_states: tuple[Any, ...]
    p_value: float
    unknown: float
    returns: pandas.DataFrame
    agreement: float
    changes: pandas.DataFrame
    uncovered_share: float
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the old decision: no p-value below 1%, and no new states."""
        return not (self.p_value < 0.01 or self.agreement < 0.01 or self.new_states)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table of changes.

        Returns
        -------
        pandas.DataFrame
            A copy of ``changes``.
        """
        return self.changes.copy()

    def plot(self) -> Figure:
        """Draw the returns then and now, and the changes that matter most.

        Returns
        -------
        matplotlib.figure.Figure
            What was promised, what the old policy and the new one earn by the new data, with intervals; below, what
            the most important changes add to the mean return.
        """
        from ..display.figures import comparison

        changes = [
            f"{state}: {new} instead of {old}"
            for state, old, new in zip(*(self.changes[name] for name in ("state", "old", "new")), strict=True)
        ]
        returns = self.returns[["mean", "low", "high"]].to_numpy(dtype=np.float64).T
        names = [str(name) for name in self.returns.index]
        worth = self.changes["contribution"].to_numpy(dtype=np.float64)
        return comparison.draw(names, returns, self.confidence, changes, worth).to_matplotlib()

    def lines(self) -> list[str]:
        """Return the comparison in sentences.

        Returns
        -------
        list of str
            What changed in data, in values and in actions, most important first.
        """
        old, new = (float(self.pairs[name].sum()) for name in ("old", "new"))
        promised, by_new, best = (self.returns.loc[name] for name in self.returns.index)
        said = [f"Data: {old:,.0f} transitions then, {new:,.0f} now."]
        for what, states in (("only the new log has", self.new_states), ("only the old log had", self.gone_states)):
            if states:
                shown = ", ".join(map(str, states[:5])) + (", ..." if len(states) > 5 else "")
                said.append(f"{plural(len(states), 'state')} {what}: {shown}.")
        seen = self.old.model.actions
        added = [str(action) for action in self.pairs["action"].unique() if action not in seen]
        if added:
            shown = ", ".join(added[:5]) + (", ..." if len(added) > 5 else "")
            said.append(f"{plural(len(added), 'action')} only the new log has: {shown}.")
        if self.p_value < 0.01:
            row = self.pairs.loc[self.pairs["p_value"].idxmin()]
            said.append(f"Transitions have changed (p = {self.p_value:.3g}), most clearly those of {row['state']}, ")
            said[-1] += f"{row['action']} (p = {row['p_value']:.3g})."
        elif self.p_value == self.p_value:
            said.append(f"Nothing says that transitions have changed (p = {self.p_value:.3g}).")
        else:
            said.append("No pair is in both logs: whether transitions have changed cannot be told.")
        if self.unknown:
            said.append(f"{self.unknown:,.0f} transitions of the new log are of a kind that the old log never had.")

        def interval(row: Any) -> str:
            return f"{row['mean']:.4g} ({row['low']:.4g} to {row['high']:.4g} with {self.confidence:.0%} probability)"

        said.append(f"The old policy promised {interval(promised)}; by the new data it earns {interval(by_new)}.")
        if self.agreement < 0.01:
            said.append(f"That is another world: chance alone makes such a difference with p = {self.agreement:.3g}.")
        if self.uncovered_share > 0.0:
            said.append(f"It spends {self.uncovered_share:.1%} of its time in states that it says nothing about.")
        if len(self.changes):
            said.append(f"A new solve does otherwise in {len(self.changes)} states and earns {interval(best)}.")
            first = self.changes.iloc[0]
            said.append(f"What matters most: in {first['state']}, {first['new']} instead of {first['old']}.")
        else:
            said.append("A new solve does the same everywhere.")
        return said

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"DecisionComparison({'holds' if self.holds else 'does not hold'}, {len(self.changes)} changes)"


def compare(
    old: SavedDecision | PathLike,
    model: UncertainMDP,
    posterior: DirichletPosterior,
    *,
    start: StartLike = None,
    draws: int = 2_000,
    confidence: float = 0.9,
    simulations: int = 999,
    rng: RngLike = 0,
    threads: int | None = None,
) -> DecisionComparison:
    """Compare a decision that was saved with a new log.

    Parameters
    ----------
    old : SavedDecision or path-like
        The decision, or where ``save`` wrote it.
    model, posterior : UncertainMDP, DirichletPosterior
        Model and posterior of the new log alone, as ``from_log`` returns them. It must be read as the old one was:
        with its state map, if it has one (``states=old.model.summary.state_map``).
    start : state, dict or array_like [S], optional
        Where the process begins, as for ``posterior_returns``. By default where the episodes of the new log begin.
    draws : int, default=2000
        Posterior draws of the returns.
    confidence : float, default=0.9
        Probability of the intervals.
    simulations : int, default=999
        Simulations of the p-values, at most 10,000,000. The smallest possible p-value is 1 / (simulations + 1).
    rng : int or numpy.random.Generator, default=0
        Seed or generator.
    threads : int, optional
        Number of threads.

    Returns
    -------
    DecisionComparison
        Prints in sentences; ``changes``, ``pairs`` and ``returns`` are tables.

    Raises
    ------
    ParameterError
        If the old decision has no posterior or depends on time, or pairs of a model share a source.

    Examples
    --------
    >>> import tempfile
    >>> import prudent as pr
    >>> then = [("ill", "wait", "ill", 0, 8), ("ill", "wait", "well", 1, 2), ("ill", "drug", "well", 1, 5)]
    >>> now = [("ill", "wait", "ill", 0, 10), ("ill", "wait", "well", 1, 90), ("ill", "drug", "well", 1, 5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model, posterior = pr.from_log(then, 0.9, terminal=["well"])
    ...     _ = pr.save(folder, pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve())
    ...     found = compare(folder, *pr.from_log(now, 0.9, terminal=["well"]))
    >>> found.p_value
    0.002
    """
    saved = old if isinstance(old, SavedDecision) else load(old)
    whole_number(draws, "draws", 2)
    open_probability(confidence, "confidence")
    instance_of(model, "model", UncertainMDP, "see from_log")
    solution, before, problem = saved.solution, saved.posterior, saved.problem
    timeless = solution.horizon is None and solution.bias is None
    if before is None or not isinstance(problem, BayesianRiskMDP) or not timeless:
        message = "old must be a decision under a posterior, for a discounted return, that does not depend on time"
        raise ParameterError(message, code="wrong-kind", argument="old")
    then, random = problem.model, generator(rng)
    whole_number(simulations, "simulations", maximum=MOST_SIMULATIONS)
    instance_of(posterior, "posterior", DirichletPosterior, "; see from_log")
    again = BayesianRiskMDP(model, posterior, risk=problem.risk)
    pairs, p_value, unknown = _pairs(then, before, model, posterior, simulations, random)
    best = again.solve(threads=threads)
    carried, covered = _carried(solution, then, again)
    summary = summary_or_none(model)
    if start is None and summary is not None:
        start = summary.starts
    first = model.start_distribution(start)
    ends = ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0)
    common: dict[str, Any] = {"draws": draws, "quantiles": ends, "regret": False, "threads": threads}
    seeds = random.integers(2**62, size=2).tolist()
    new = posterior_returns(model, posterior, {"old": carried, "new": best}, first, rng=seeds[0], **common)
    promise = posterior_returns(
        then, before, {"old": solution}, _start_then(then, model, first), rng=seeds[1], **common
    )
    gap = new["returns"].values[:, 0] - promise["returns"].values[:, 0]
    less = float(np.mean(gap < 0.0) + 0.5 * np.mean(gap == 0.0))
    weights = np.stack([carried, model.policy_matrix(best.policy)])
    belief, known = read_belief(model, posterior), again.mean_mdp()
    visited = np.stack([mean_visits(model, belief, policy, first, known) for policy in weights])
    return DecisionComparison(
        old=saved,
        pairs=pairs,
        new_states=tuple(name for name in model.states if then.state_labels.find(name) < 0),
        gone_states=tuple(name for name in then.states if model.state_labels.find(name) < 0),
        p_value=p_value,
        unknown=unknown,
        returns=_table([promise, new, new], [0, 0, 1]),
        agreement=min(1.0, 2.0 * min(less, 1.0 - less) + 1.0 / draws),
        changes=_changes(again, weights[1], carried, visited[1]),
        uncovered_share=float(visited[0][~covered].sum() / visited[0].sum()),
        confidence=confidence,
    )


# -- parts -------------------------------------------------------------------------------------------------


def _transitions(model: UncertainMDP, posterior: DirichletPosterior, argument: str) -> Transitions:
    """Return the transitions of a model and how often each was observed; outcomes to the same next state add up."""
    entries = model.entries
    pairs = entries.pairs()
    if np.unique(entries.source[entries.source >= 0]).size < np.count_nonzero(
        model.admissible & ~model.terminal[:, None]
    ):
        message = f"{argument} has pairs that share a source, whose transitions cannot be told apart"
        raise ParameterError(message, code="shared-sources", argument=argument)
    used = ~model.terminal[pairs // model.n_actions]
    slots = entries.slots()[used]
    counts = entries.pack(posterior.counts)[slots]
    prior = entries.pack(posterior.prior)[slots]
    keys = pairs[used] * (model.n_states + 2) + entries.next_state[used] + 2
    distinct, which = np.unique(keys, return_inverse=True)
    return Transitions(
        distinct // (model.n_states + 2),
        distinct % (model.n_states + 2) - 2,
        np.bincount(which, weights=counts - prior, minlength=distinct.size).astype(np.float64),
    )


def _pairs(
    then: UncertainMDP,
    before: DirichletPosterior,
    now: UncertainMDP,
    posterior: DirichletPosterior,
    simulations: int,
    random: np.random.Generator,
) -> tuple[pandas.DataFrame, float, float]:
    """Return the table of pairs, the p-value of all of them together, and the number of unknown transitions."""
    import pandas

    names: dict[tuple[Any, Any], int] = {}
    targets: dict[Any, int] = {}
    columns = []
    for model, found in ((then, _transitions(then, before, "old")), (now, _transitions(now, posterior, "model"))):
        A, (states, actions) = model.n_actions, (model.states, model.actions)
        pairs = {p: (states[p // A], actions[p % A]) for p in np.unique(found.pair).tolist()}
        pair = {p: names.setdefault(name, len(names)) for p, name in pairs.items()}
        ends = {t: ("end",) if t < 0 else ("state", states[t]) for t in np.unique(found.target).tolist()}
        target = {t: targets.setdefault(name, len(targets)) for t, name in ends.items()}
        columns.append(
            (
                np.array([pair[p] for p in found.pair.tolist()], dtype=np.int64),
                np.array([target[t] for t in found.target.tolist()], dtype=np.int64),
                np.round(found.observed),
            )
        )
    size = len(targets) + 1
    keys = [pair * size + target for pair, target, _ in columns]
    distinct = np.unique(np.concatenate(keys))
    counts = np.zeros((2, distinct.size))
    for i, (key, (_, _, observed)) in enumerate(zip(keys, columns, strict=True)):
        np.add.at(counts[i], np.searchsorted(distinct, key), observed)
    group = distinct // size
    begin = np.flatnonzero(np.append(True, np.diff(group) != 0))
    odd = np.where(counts[0] == 0.0, counts[1], 0.0)
    totals = np.add.reduceat(counts, begin, axis=1)
    values, together = _p_values(counts, begin, simulations, random)
    unknown = np.where(totals[0] > 0.0, np.add.reduceat(odd, begin), 0.0)
    table = pandas.DataFrame(
        {
            "state": as_column([state for state, _ in names]),
            "action": as_column([action for _, action in names]),
            "old": totals[0],
            "new": totals[1],
            "p_value": values,
            "unknown": unknown,
        }
    )
    return table, together, float(unknown.sum())


def _p_values(
    counts: FloatArray, begin: IntArray, simulations: int, random: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return the p-value of each pair, NaN where one log has nothing, and that of all pairs together."""
    total = counts.sum(axis=0)
    sizes = np.diff(np.append(begin, total.size))
    n, drawn = np.add.reduceat(counts, begin, axis=1)[1], np.zeros(total.size)
    both = np.add.reduceat(total, begin)
    tested = (n > 0.0) & (n < both)
    share = np.repeat(n / np.maximum(both, 1.0), sizes)

    def score(new: FloatArray) -> FloatArray:
        """Return G of each pair if ``new`` of the transitions are in the new log."""
        old = total - new
        both_parts = rel_entr(new, total * share) + rel_entr(old, total * (1.0 - share))
        return np.where(tested, 2.0 * np.add.reduceat(both_parts, begin), 0.0)

    free = np.maximum(np.add.reduceat(total > 0.0, begin, dtype=np.int64) - 1.0, 1.0)

    def overall(scores: FloatArray) -> FloatArray:
        return np.array([scores.sum(), np.where(tested, (scores - free) / np.sqrt(2.0 * free), -np.inf).max()])

    observed = score(counts[1])
    above, larger = np.zeros(begin.size), np.zeros(2)
    for _ in range(simulations):
        left, rest = n.copy(), both.copy()  # of the new log, and of both, still to be dealt out
        for k in range(int(sizes.max(initial=0))):
            has = np.flatnonzero(tested & (sizes > k))
            entry = begin[has] + k
            kind = total[entry].astype(np.int64)
            got = random.hypergeometric(kind, rest[has].astype(np.int64) - kind, left[has].astype(np.int64))
            drawn[entry] = got
            left[has] -= got
            rest[has] -= kind
        found = score(drawn)
        above += found >= observed - 1e-9 * (1.0 + observed)  # equal counts must tie
        larger += overall(found) >= overall(observed) - 1e-9 * (1.0 + observed.sum())
    values = np.where(tested, (1.0 + above) / (1.0 + simulations), np.nan)
    return values, min(1.0, 2.0 * float(1.0 + larger.min()) / (1.0 + simulations)) if tested.any() else float("nan")


def _carried(solution: Any, then: UncertainMDP, now: BayesianRiskMDP) -> tuple[FloatArray, BoolArray]:
    """Return the old policy [S, A] in the new model, and for which states it says what to do there.

    Elsewhere it does what the new log does.
    """
    model = now.model
    old = then.policy_matrix(solution.policy)
    states = np.array([then.state_labels.find(name) for name in model.states])
    actions = np.array([then.action_labels.find(name) for name in model.actions])
    moved = np.where((states >= 0)[:, None] & (actions >= 0), old[states][:, actions], 0.0) * model.admissible
    covered = moved.sum(axis=1) > 1.0 - 1e-9
    summary = summary_or_none(model)
    other = (
        read_baseline("log", now) if summary is not None else model.admissible / model.admissible.sum(1, keepdims=True)
    )
    rows = np.where(covered[:, None], moved, other)
    return rows / rows.sum(axis=1, keepdims=True), covered | model.terminal


def _start_then(then: UncertainMDP, now: UncertainMDP, first: FloatArray) -> FloatArray:
    """Return the start [S] of the new model in the old one, where it knows the states."""
    chances = np.zeros(then.n_states)
    for s in np.flatnonzero(first):
        place = then.state_labels.find(now.states[s])
        if place >= 0 and not then.terminal[place]:
            chances[place] += first[s]
    if not chances.any():
        message = "start has no state that the old model knows"
        raise ParameterError(message, code="unknown-state", argument="start")
    return chances / chances.sum()


def _table(datasets: list[Any], columns: list[int]) -> pandas.DataFrame:
    import pandas

    rows = [
        (float(data["mean"].values[i]), *(float(data["quantile"].values[i, end]) for end in (0, -1)))
        for data, i in zip(datasets, columns, strict=True)
    ]
    index = ["old policy, promised", "old policy, new data", "new policy, new data"]
    return pandas.DataFrame(rows, columns=["mean", "low", "high"], index=index)


def _changes(problem: BayesianRiskMDP, new: FloatArray, old: FloatArray, visited: FloatArray) -> pandas.DataFrame:
    """Return where two policies differ, what matters most first."""
    import pandas

    model = problem.model
    gain = contributions(problem.mean_mdp(), new, old, visited)
    differs = np.flatnonzero((abs(new - old).max(axis=1) > SAME) & ~model.terminal)
    order = differs[np.argsort(-abs(gain[differs]), kind="stable")]
    return pandas.DataFrame(
        {
            "state": as_column([model.states[s] for s in order]),
            "old": as_column([model.actions[a] for a in old[order].argmax(axis=1)]),
            "new": as_column([model.actions[a] for a in new[order].argmax(axis=1)]),
            "time_share": visited[order] / visited.sum(),
            "contribution": gain[order],
        }
    )
