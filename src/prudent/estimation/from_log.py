"""Estimation of a model and its posterior from a log of transitions.

Every pair (state, action) that was tried often enough gets a source of its own, whose outcomes are next states: the
direct parametrisation on the support that the log shows. With n(s, a, s') the number of times seen and prior counts
phi, theta[s, a] ~ Dirichlet(phi(s, a, .) + n(s, a, .)).

Columns become index arrays once (``LogRows``); all the rest works on the distinct transitions (``Transitions``) and on
the outcomes of the model (``Outcomes``), sorted by pair. There is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from .._support.checks import axes_of, finite_array, positive
from ..data.labels import Column, Labels, object_array
from ..data.naming import NEXT_STATES, PAIRS
from ..data.state_map import StateMap
from ..errors import ParameterError, PosteriorError
from ..models.base import plural
from ..models.builders import called_outcomes, own_sources, places_in
from ..models.log_summary import LogSummary, Pooling, SupportChange
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior, prior_counts
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, Label, NamesLike, TableLike, TerminalLike
from .counts import SUPPORTS, Outcomes, Transitions, often_tried, overlooked, refuse_dead_ends, sums, supported
from .groups import learn_similarity, pooled_priors
from .reading import read as read_any
from .rewards import RewardFacts, rewards_of
from .rows import LogRows
from .state_choice import StateChoice
from .support import support_changes

MAX_GROUP_COUNTS = 10**8  # groups times outcomes


class LogKeywords(TypedDict, total=False):
    """Keywords of ``from_log`` besides ``group``."""

    terminal: TerminalLike
    absorbing: TerminalLike
    min_count: float | None
    prior: float | ArrayLike
    support: str | Mapping[Any, Any] | ArrayLike
    rewards: str | float | Callable[[Any, Any, Any], float] | TableLike
    prior_from: TableLike | None
    features: Sequence[str] | StateMap | None
    states: NamesLike | StateMap | StateChoice
    columns: Mapping[str, Any] | None
    actions: NamesLike
    end: Label
    duration: Label
    gaps: str
    truncated: str


@overload
def from_log(
    log: TableLike, discount: float, *, group: None = None, **keywords: Unpack[LogKeywords]
) -> tuple[UncertainMDP, DirichletPosterior]: ...


@overload
def from_log(
    log: TableLike, discount: float, *, group: str, **keywords: Unpack[LogKeywords]
) -> tuple[UncertainMDP, dict[Label, DirichletPosterior]]: ...


def from_log(
    log: TableLike,
    discount: float,
    *,
    terminal: TerminalLike = (),
    absorbing: TerminalLike = (),
    min_count: float | None = None,
    prior: float | ArrayLike = 1.0,
    support: str | Mapping[Any, Any] | ArrayLike = "state",
    rewards: str | float | Callable[[Any, Any, Any], float] | TableLike = "mean",
    group: str | None = None,
    prior_from: TableLike | None = None,
    features: Sequence[str] | StateMap | None = None,
    states: NamesLike | StateMap | StateChoice = None,
    columns: Mapping[str, Any] | None = None,
    actions: NamesLike = None,
    end: Label = None,
    duration: Label = None,
    gaps: str = "error",
    truncated: str = "error",
) -> tuple[UncertainMDP, DirichletPosterior | dict[Label, DirichletPosterior]]:
    """Return a model of a log of transitions, and the posterior of its probabilities.

    Parameters
    ----------
    log : TableLike
        A table with the columns state, action, next_state and perhaps reward, count, episode, step, or rows (state,
        action, next_state[, reward][, count]). Columns go by these names, by other usual ones (``s``, ``a``, ``s'``,
        ``r``, ``idstatefrom``, ``time``, ...), or as ``columns`` says. ``count`` says how often a row was seen, and no
        other name is read as that. With a column ``episode`` (and perhaps ``step``, which orders it) a next state that
        is missing is the state of the next row of the episode. The last row of an episode may have no action and only
        say where it ended; with an action and no next state it is dropped, unless ``end`` is given. The line "columns"
        of ``model.summary`` says how each column was read, and which were not used.
    discount : float
        Discount factor in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
    terminal : TerminalLike, default=()
        States where the process ends: a list, or a mapping to the value of arriving there (default 0).
    absorbing : TerminalLike, default=()
        States where the process stays for ever: a list, or a mapping to the reward of every step (default 0). They have
        one action, the first. A state that the log never leaves must be terminal or absorbing.
    min_count : float, optional
        An action that was tried fewer times than this in a state is not admissible there, and its rows are not used.
        Where no action was tried as often, the most tried one stays. The default is 1, and 5 with ``features``.
    prior : float or array_like [B, K], default=1
        Dirichlet counts before the log. A number is the total mass of each pair, spread evenly over its support:
        ``prior=1`` is worth one observation, however many next states there are. An array has all counts; for a count
        of 1 for every outcome, pass ``model.prior(1)`` of the model of a first call.
    support : {"state", "action", "all"}, mapping or array_like of bool [S, A, S], default="state"
        Next states that are possible: "state", those seen after any action in this state; "action", those seen after
        this action in this state; "all", all states. A mapping goes from (state, action) or from states to next states
        (pairs that are not in it go by "action"); an array is in the order of the names. ``model.summary`` names the
        states in which "action" and "state" lead to different choices.
    rewards : {"mean", "outcomes"}, float, callable or TableLike, default="mean"
        "mean", the mean reward of each (state, action, next_state) that was seen; "outcomes", each reward that was seen
        is an outcome of its own; a number; a function of (state, action, next_state); or a table with the column reward
        and some of state, action, next_state. A transition that the support allows and the log does not show earns the
        mean of its pair, if all rewards depend on the pair alone; else the mean of arriving in that next state, from
        this state if that was seen.
    group : str, optional
        Name of a column that says which group (site, hospital, machine) a row belongs to. All groups have the same
        model, with the pairs, next states and rewards that the whole log shows, and each has its own posterior. That of
        a group has the transitions of the others in its prior, discounted by how alike the groups are, which is
        learned by leave-one-group-out evidence (``model.summary.pooling``, ``prudent.estimation.groups``).
    prior_from : TableLike, optional
        Another log with the same columns, such as that of an earlier year. Its transitions enter the prior, discounted
        by how well they predict those of ``log``.
    features : sequence of str or StateMap, optional
        Columns of numbers and categories that say what state a row is in, in place of a column state. The next state
        of a row is that of the next row of its episode, or of its columns ``next_NAME``. A column done
        (``terminated``, ``is_terminal``) says after which rows the process ended: a flag, or a name of the outcome,
        which is then a terminal state. A ``StateMap`` says more about the columns, for "auto": which are cyclic or
        categorical.
    states : StateMap, StateChoice, "auto", "as they are" or iterable of hashable, optional
        With features, how rows get their states: a ``StateMap``, which is fitted on the log unless it is fitted
        already; "auto", the default, which chooses one by held-out episodes (``choose_states``); or "as they are",
        each combination of values. Without features, names of states in the order of their indices; by default those
        of the log, sorted, and states that look like measurements are refused (see Notes) unless it is "as they are".

    Returns
    -------
    model : UncertainMDP
        Its sources are called (state, action), its outcomes by next state, or (next_state, reward) where several
        rewards of one transition are kept apart. ``model.summary`` is a ``LogSummary``; ``model.summary.starts``
        says where episodes begin, and can be passed as ``start`` to other functions. With features,
        ``model.summary.state_map`` is the map, and ``model.summary.state_choice`` how it was chosen.
    posterior : DirichletPosterior, or dict of them
        The posterior, with the same names; with ``group`` a dict from the names of the groups to their posteriors.

    Other Parameters
    ----------------
    columns : mapping, optional
        Names of columns: ``{"state": "where", "count": None}``; None says that there is none.
    actions : iterable of hashable, optional
        Names in the order of their indices; by default those of the log, sorted.
    end : hashable, optional
        Name of a terminal state for rows that have no next state.
    duration : hashable, optional
        Name of a column with the time that each transition takes, at least 1. What follows a transition is discounted
        by ``discount ** duration``; its reward is earned at its beginning. Outcomes of a pair are then (next state,
        duration). No column is read as that by its name.
    gaps : {"error", "cut", "fill", "duration"}, default="error"
        What it means if rows of an episode are not equally far apart in ``step`` where a next state is the state of
        the next row. "cut": the row before the gap is not used. "fill": state, action and reward of that row are
        repeated until then. "duration": it is one transition that takes so long, in units of the usual distance.
    truncated : {"error", "drop", "mean"}, default="error"
        What to do with rows that lead to states which the log never leaves and which are neither terminal nor
        absorbing. "drop": they are not used, as if what follows a pair did not depend on whether the log stops. "mean":
        they lead where the other rows of their state lead, in proportion to their numbers.

    Raises
    ------
    DataError
        If the log cannot be read, a value is wrong, states look like measurements, time has gaps, or a state that is
        never left is not declared.
    ParameterError
        If an argument is wrong.

    See Also
    --------
    UncertainMDP.count : Counts of a log for a model that exists.

    Notes
    -----
    States look like measurements if there are more than 20 of them and they are (tuples of) numbers, of which some are
    not whole and each is left fewer than 10 times on average; or half are left once or twice; or more than a third of
    the admissible pairs were seen once, and next states are near states as numbers, which labels are not. Names look
    like those of single rows if there are more than 20 and nine tenths of them are left once.

    If rewards of the same transition vary, their mean is uncertain too: ``model.reward_posterior`` is a
    ``NormalPosterior`` [S, A] of what is to be added to the rewards of the model. Its noise is the pooled spread
    around the means, its prior has the spread of all rewards. ``BayesianRiskMDP`` and all analyses take it by default;
    ``reward_posterior="certain"`` leaves it out.

    Examples
    --------
    >>> import prudent as pr
    >>> log = [("ill", "wait", "ill", 0, 6), ("ill", "wait", "dead", 0, 2), ("ill", "drug", "well", 0, 3),
    ...        ("ill", "drug", "dead", 0, 1), ("ill", "pray", "well", 0, 1)]
    >>> model, posterior = pr.from_log(log, 0.95, terminal={"well": 1, "dead": 0}, min_count=2)
    >>> model
    UncertainMDP(3 states (2 terminal), 2 actions, 3 sources, up to 3 outcomes, discount 0.95)
    >>> posterior.counts.round(2)
    array([[1.33, 0.33, 3.33],
           [2.33, 6.33, 0.33],
           [1.  , 0.  , 0.  ]])
    >>> pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve().policy_names
    (None, 'drug', None)

    Numbers become states by a map:

    >>> log = {"episode": [1, 1, 1, 2, 2], "pressure": [60, 80, 120, 75, 64], "action": ["drug", "wait"] * 2 + ["drug"],
    ...        "reward": [0, 1, 1, 1, -5], "done": [False, False, True, False, True]}
    >>> states = pr.StateMap(["pressure"], method="cuts", cuts={"pressure": [70, 100]}, min_rows=1)
    >>> model, posterior = pr.from_log(log, 0.95, states=states, min_count=1)
    >>> solution = pr.BayesianRiskMDP(model, posterior, alpha=0).solve()
    >>> solution.act({"pressure": 85})
    'wait'
    """
    if isinstance(prior, list | tuple):
        prior = finite_array(prior, "prior", error=PosteriorError)
    read, mapped, threshold = read_any(
        log,
        discount,
        terminal=terminal,
        absorbing=absorbing,
        min_count=min_count,
        prior=prior,
        support=support,
        features=features,
        states=states,
        columns=columns,
        actions=actions,
        end=end,
        duration=duration,
        gaps=gaps,
        truncated=truncated,
        group=group,
        prior_from=prior_from,
    )
    seen = Transitions.of(read, by_reward=isinstance(rewards, str) and rewards == "outcomes")
    kept, spared = often_tried(seen.visits, threshold)
    entries = supported(read, seen, kept, support)
    refuse_dead_ends(read, kept, entries)
    reward, facts = rewards_of(rewards, read, seen, entries)
    axes = _Axes.of(read, kept, entries)
    changes: tuple[SupportChange, ...] = ()
    # rewards of the caller need not cover the transitions that only the wider support has
    logged = isinstance(rewards, str) and rewards in ("mean", "outcomes")
    compared = isinstance(support, str) and (support == "state" or (support == "action" and logged))
    if compared and axes_of(prior) == 0:
        other = supported(read, seen, kept, "action" if support == "state" else "state")
        if other.pair.size != entries.pair.size:
            mine, others = (entries, reward), (other, rewards_of(rewards, read, seen, other)[0])
            by_action, by_state = (mine, others) if support == "action" else (others, mine)
            changes = support_changes(by_action, by_state, read, kept, discount, positive(prior, "prior"))
    summary = _summary(read, seen, kept, spared, entries, threshold, support, facts, axes, changes)
    if mapped is not None:
        notes = (*mapped.notes, *summary.notes)
        summary = replace(summary, state_map=mapped.state_map, state_choice=mapped.choice, notes=notes)
    model = _model(read, axes, kept, entries, reward, discount, summary)
    if read.group is None or read.by_group is None:
        return model, _posterior(model, axes, entries, prior)
    pooling, posteriors = _group_posteriors(model, axes, read, seen, entries, prior)
    model = model.with_summary(replace(summary, pooling=pooling))
    return model, posteriors if prior_from is None else posteriors["log"]


def _group_posteriors(
    model: UncertainMDP, axes: _Axes, read: LogRows, seen: Transitions, entries: Outcomes, prior: float | ArrayLike
) -> tuple[Pooling, dict[Label, DirichletPosterior]]:
    """Return how groups learn from each other, and their posteriors; of two logs only that of the first."""
    assert read.group is not None
    assert read.by_group is not None
    groups, shown = read.by_group.size, seen.times.size
    if groups * entries.pair.size > MAX_GROUP_COUNTS:
        message = (
            f"group has {groups:,} names and the model {entries.pair.size:,} outcomes, more than fit together; use "
            "fewer groups, such as sites instead of patients"
        )
        raise ParameterError(message, code="too-large", argument="group", value=groups)
    by_group = sums(read.group * shown + seen.of_row, read.times, groups * shown).reshape(groups, shown)
    counts = np.where(entries.seen >= 0, by_group[:, entries.seen], 0.0)
    base = _posterior(model, axes, entries._replace(times=np.zeros(entries.pair.size)), prior).prior
    source = model.source.reshape(-1)[axes.pairs(entries.pair)]
    places = source, places_in(source)
    asked = None if read.borrowed is None else range(1)
    pooling = learn_similarity(read.by_group.names, counts, source, base[places], asked)
    posteriors: dict[Label, DirichletPosterior] = {}
    priors = pooled_priors(counts, source, base[places], pooling.similarity, asked)
    for name, borrowed, own in zip(read.by_group.names, priors, counts, strict=False):
        before = base.copy()
        before[places] = borrowed
        after = before.copy()
        after[places] += own
        posteriors[name] = DirichletPosterior(after, prior=before)
        posteriors[name].naming = model.naming
    return pooling, posteriors


# -- model and posterior -----------------------------------------------------------------------------------


class _Axes(NamedTuple):
    """States and actions of the model: those of the log that something leads to, or uses."""

    states: BoolArray  # [S] of the log, which of them are in the model
    actions: BoolArray  # [A]
    by_state: Labels
    by_action: Labels

    @classmethod
    def of(cls, read: LogRows, kept: BoolArray, entries: Outcomes) -> _Axes:
        """Leave out states that only pairs tried too seldom lead to, and actions that no state admits."""
        states = kept.any(axis=1) | read.terminal | read.absorbing
        states[entries.target] = True
        actions = np.asarray(kept.any(axis=0))
        return cls(states, actions, read.by_state.some(states), read.by_action.some(actions))

    def pairs(self, pairs: IntArray) -> IntArray:
        """Return pairs of the log as pairs of the model."""
        s, a = np.divmod(pairs, self.actions.size)
        return (np.cumsum(self.states) - 1)[s] * self.by_action.size + (np.cumsum(self.actions) - 1)[a]

    def targets(self, targets: IntArray) -> IntArray:
        """Return states of the log as states of the model."""
        return (np.cumsum(self.states) - 1)[targets]


def _model(
    read: LogRows,
    axes: _Axes,
    kept: BoolArray,
    entries: Outcomes,
    reward: FloatArray,
    discount: float,
    summary: LogSummary,
) -> UncertainMDP:
    shape = axes.by_state.size, axes.by_action.size
    rests = read.absorbing[axes.states]
    rest = np.flatnonzero(rests)  # an absorbing state has one pair, a loop by the first action
    pair = np.concatenate((axes.pairs(entries.pair), rest * shape[1]))
    order = np.argsort(pair, kind="stable")
    target = np.concatenate((axes.targets(entries.target), rest))[order]
    earned = np.concatenate((reward, read.absorbing_reward[read.absorbing]))[order]
    admissible = kept[np.ix_(axes.states, axes.actions)]
    admissible[rests, 0] = True
    pair = pair[order]
    twice = (np.diff(pair) == 0) & (np.diff(target) == 0)
    lasting = None
    if entries.duration is not None:
        lasting = np.concatenate((entries.duration, np.ones(rest.size)))[order]
    named = lasting is not None or twice.any()
    return UncertainMDP.from_entries(
        own_sources(admissible),
        pair,
        places_in(pair),
        target,
        earned,
        discount,
        states=axes.by_state.names,
        actions=axes.by_action.names,
        sources=PAIRS,
        outcomes=called_outcomes(pair, target, earned, axes.by_state, lasting) if named else NEXT_STATES,
        terminal={read.by_state.names[s]: read.terminal_value[s] for s in np.flatnonzero(read.terminal)},
        duration=lasting,
        notes=summary.notes,
        summary=summary,
    )


def _posterior(model: UncertainMDP, axes: _Axes, entries: Outcomes, prior: float | ArrayLike) -> DirichletPosterior:
    if isinstance(prior, str | tuple) and any(isinstance(part, str) for part in prior):
        message = f"prior is {prior!r}, expected a number, the mass of each pair, or counts [B, K]"
        raise ParameterError(message, code="wrong-type", argument="prior", value=prior)
    start = prior_counts(model, prior)
    if model.terminal.any() and axes_of(prior) == 0:
        start[-1, 0] = 1.0  # the end of terminal states is certain
    counts = start.copy()
    b = model.source.reshape(-1)[axes.pairs(entries.pair)]
    counts[b, places_in(b)] += entries.times  # entries of a pair are adjacent, in the order of its outcomes
    posterior = DirichletPosterior(counts, prior=start)
    posterior.naming = model.naming
    return posterior


# -- summary -----------------------------------------------------------------------------------------------


def _summary(
    read: LogRows,
    seen: Transitions,
    kept: BoolArray,
    spared: int,
    entries: Outcomes,
    threshold: float,
    support: Any,
    facts: RewardFacts,
    axes: _Axes,
    changes: tuple[SupportChange, ...],
) -> LogSummary:
    S, A = read.shape
    states, actions = object_array(read.by_state.names), object_array(read.by_action.names)
    tried, visits = np.flatnonzero(seen.visits), seen.visits.reshape(-1)
    distinct = np.unique(seen.pair * S + seen.target) // S
    table = {
        "state": _as_integers(states[tried // A]),
        "action": _as_integers(actions[tried % A]),
        "visits": visits[tried],
        "next_states": np.bincount(distinct, minlength=S * A)[tried],
        "admissible": kept.reshape(-1)[tried],
    }
    if seen.reward is not None:
        table["reward"] = np.bincount(seen.pair, seen.times * seen.reward, S * A)[tried] / visits[tried]
    arrived = np.bincount(read.target, minlength=S) > 0
    closed = read.terminal | read.absorbing
    used = kept[read.state, read.action]
    mine = np.ones(used.size, dtype=np.bool_) if read.borrowed is None else ~read.borrowed
    dropped = dict(read.dropped)
    if not used[mine].all():
        dropped["of actions tried too seldom in their state"] = np.setdiff1d(read.row[mine], read.row[used & mine]).size
    posterior = facts.posterior(np.where(kept, seen.visits, 0.0)[np.ix_(axes.states, axes.actions)])
    acting = seen.visits.any(axis=1)
    sizes = np.unique(entries.pair, return_counts=True)[1]

    def those(which: BoolArray) -> tuple[Hashable, ...]:
        return tuple(states[which].tolist())

    return LogSummary(
        rows=read.rows,
        used=np.unique(read.row[used & mine]).size,
        dropped=dropped,
        observations=float(read.times[used & mine].sum()),
        columns=read.held.used,
        ignored=read.held.ignored,
        episodes=read.episodes,
        starts=_starts(read, axes),
        states=those(axes.states),
        actions=tuple(actions[axes.actions].tolist()),
        terminal=those(read.terminal),
        absorbing=those(read.absorbing),
        dead_ends=those(closed & arrived),
        never_reached=those(axes.states & ~arrived),
        pairs_seen=tried.size,
        pairs_unseen=int(np.count_nonzero(acting)) * A - tried.size,
        pairs_below=int(np.count_nonzero((seen.visits > 0.0) & ~kept)),
        pairs_spared=spared,
        min_count=threshold,
        support=SUPPORTS[support] if isinstance(support, str) else "as given",
        support_sizes=(int(sizes.min()), int(sizes.max())),
        transitions=entries.pair.size,
        rewards=facts.text,
        rewards_varying=facts.varying,
        rewards_sd=facts.sd,
        rewards_guessed=facts.guessed,
        reward_posterior=posterior,
        support_matters=changes,
        notes=_notes(read, seen, kept, axes, spared, threshold, support),
        _visits=table,
    )


def _starts(read: LogRows, axes: _Axes) -> dict[Hashable, float] | None:
    """Return the share of the episodes that begin in each state of the model where one can act."""
    begun = np.array([read.by_state.find(state) for state in read.starts.tolist()], dtype=np.int64)
    begun = begun[begun >= 0]
    times = np.bincount(begun, minlength=read.by_state.size) * (axes.states & ~read.terminal)
    names, total = read.by_state.names, times.sum()
    return {names[i]: float(times[i] / total) for i in np.flatnonzero(times)} if total else None


def _as_integers(names: Column) -> Column:
    return names.astype(np.int64) if set(map(type, names.tolist())) == {int} else names


def _notes(
    read: LogRows, seen: Transitions, kept: BoolArray, axes: _Axes, spared: int, threshold: float, support: Any
) -> tuple[str, ...]:
    notes = [*read.notes]
    narrow = isinstance(support, str) and support == "action" and read.duration is None
    unseen = overlooked(read, seen, kept) if narrow else None
    if unseen is not None:
        count, pair, target = unseen
        state, action = divmod(pair, read.shape[1])
        visits = float(seen.visits[state, action])
        notes.append(
            f"{read.by_action.show(action)} was tried {visits:g} times in {read.by_state.show(state)} and never led to "
            f"{read.by_state.show(target)}, as other actions there did; support='action' gives that probability 0, "
            "support='state' allows it" + f" ({count} such pairs)" * (count > 1)
        )
    reasons = ("which nothing leads to", "which no state admits")
    for labels, alive, why in zip((read.by_state, read.by_action), (axes.states, axes.actions), reasons, strict=True):
        names = list(map(repr, labels.names_at(np.flatnonzero(~alive))))
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            notes.append(f"{plural(len(names), labels.what)} left out, {why}: {shown}")
    if spared:
        notes.append(
            f"{plural(spared, 'pair')} tried fewer than {threshold:g} times stay admissible: nothing was tried more "
            "often in their states"
        )
    for labels in (read.by_state, read.by_action):
        alike = _alike(labels)
        if alike:
            notes.append(f"{labels.what} names that differ only in blanks or capitals are taken as different: {alike}")
    return tuple(notes)


def _alike(labels: Labels) -> str:
    """Return the first names that look the same, as a text; empty if there are none."""
    spelled: dict[str, list[Hashable]] = {}
    for name in () if labels.numbered else labels.names:
        if isinstance(name, str):
            spelled.setdefault("".join(name.split()).casefold(), []).append(name)
    groups = [" and ".join(map(repr, names)) for names in spelled.values() if len(names) > 1]
    return ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
