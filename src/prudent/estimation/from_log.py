"""From a log of transitions to a model and its posterior, in one call.

Every pair (state, action) that was tried often enough gets a source of its own, whose outcomes are next states: the
direct parametrisation on the support that the log shows. With n(s, a, s') the number of times seen and prior counts
phi, theta[s, a] ~ Dirichlet(phi(s, a, .) + n(s, a, .)).

Columns become index arrays once (``LogRows``); all the rest works on the distinct transitions (``Transitions``) and on
the outcomes of the model (``Outcomes``), sorted by pair. There is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import BoolArray, FloatArray, IntArray, positive
from ..data.labels import Column, Labels, Names
from ..data.naming import NEXT_STATES, PAIRS
from ..errors import ParameterError
from ..models.base import plural
from ..models.builders import called_outcomes, own_sources, places_in
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import NormalPosterior
from .counts import SUPPORTS, Outcomes, Transitions, often_tried, overlooked, refuse_dead_ends, supported
from .rewards import Told, rewards_of
from .rows import LogRows, names_of, read_log
from .summary import LogSummary

__all__ = ["from_log"]


def from_log(
    log: Any,
    discount: float,
    *,
    terminal: Any = (),
    absorbing: Any = (),
    min_count: float = 1,
    prior: Any = 1.0,
    support: Any = "action",
    rewards: Any = "mean",
    columns: Mapping[str, Any] | None = None,
    states: Names = None,
    actions: Names = None,
    end: Hashable = None,
) -> tuple[UncertainMDP, DirichletPosterior]:
    """Return a model of a log of transitions, and the posterior of its probabilities; ``model.summary`` tells the rest.

    Parameters
    ----------
    log : a DataFrame, the path of a CSV or Parquet file, a dict of columns, or rows (state, action, next_state[,
        reward][, count]). Columns go by these names, by other usual ones (``s``, ``a``, ``s'``, ``r``, ``n``,
        ``weight``, ``idstatefrom``, ...), or as ``columns`` says. A column ``count`` or ``weight`` says how often a row
        was seen.
        With a column ``episode`` (and perhaps ``step``, which orders it) a next state that is missing is the state of
        the next row of the episode. The last row of an episode may have no action and only say where it ended;
        with an action and no next state it is dropped, unless ``end`` is given. ``model.summary.starts`` says where
        episodes begin; give it as ``start`` to those who ask where the process does.
    discount : in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
    terminal : states where the process ends: a list, or a mapping to what arriving there is worth (default 0).
    absorbing : states where it stays for ever: a list, or a mapping to the reward of every step (default 0). They have
        one action, the first. A state that the log never leaves must be one of the two.
    min_count : an action that was tried fewer times than this in a state is not admissible there, and its rows
        are not used. Where no action was tried as often, the most tried one stays.
    prior : the Dirichlet counts before the log. A number is the total mass of each pair, spread evenly over its
        support: ``prior=1`` is worth one observation, however many next states there are. ``("outcome", x)`` gives x to
        every outcome: the prior then weighs more the larger the support is. An array [B, K] gives all of them.
    support : which next states are possible: "action", those seen after this action in this state; "state", those
        seen after any action in this state; "all", all states. Or a mapping from (state, action) or from states to next
        states (what is not in it goes by "action"), or bool [S, A, S] in the order of the names.
    rewards : "mean", the mean reward of each (state, action, next_state) that was seen; "outcomes", each reward
        that was seen is an outcome of its own; a number; a function of (state, action, next_state); or a table with the
        column reward and some of state, action, next_state. A transition that the support allows and nobody has seen
        earns the mean of its pair, if all rewards depend on the pair alone; else the mean of arriving in that next
        state, from this state if that was seen.
    columns : which column is which: ``{"state": "where", "count": None}``; None says that there is none.
    states, actions : names in the order of their indices; by default those of the log, sorted.
    end : the name of a terminal state for rows that have no next state.

    Returns
    -------
    model : :class:`UncertainMDP`; its sources are called (state, action), its outcomes by next state, or (next_state,
        reward) where several rewards of one transition are kept apart. ``model.summary`` is a :class:`LogSummary`.
    posterior : :class:`DirichletPosterior` with the same names.

    If rewards of the same transition vary, their mean is not certain either: ``model.summary.reward_posterior`` is a
    :class:`NormalPosterior` [S, A] of what is to be added to the rewards of the model. Its noise is the pooled spread
    around the means, its prior has the spread of all rewards. ``BayesianRiskMDP(..., reward_posterior=...)`` takes it.

    Examples
    --------
    >>> import prudent as pr
    >>> from prudent.estimation import from_log
    >>> log = [("ill", "wait", "ill", 0, 6), ("ill", "wait", "dead", 0, 2), ("ill", "drug", "well", 0, 3),
    ...        ("ill", "drug", "dead", 0, 1), ("ill", "pray", "well", 0, 1)]
    >>> model, posterior = from_log(log, 0.95, terminal={"well": 1, "dead": 0}, min_count=2)
    >>> model
    UncertainMDP(3 states (2 terminal), 2 actions, 3 sources, up to 2 outcomes, discount 0.95)
    >>> posterior.counts
    array([[1.5, 3.5],
           [2.5, 6.5],
           [1. , 0. ]])
    >>> pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve().policy_names
    (None, 'drug', None)
    """
    threshold = positive(min_count, "min_count")
    read = read_log(log, columns, states, actions, terminal, absorbing, end)
    seen = Transitions.of(read, by_reward=isinstance(rewards, str) and rewards == "outcomes")
    kept, spared = often_tried(seen.visits, threshold)
    entries = supported(read, seen, kept, support)
    refuse_dead_ends(read, kept, entries)
    reward, told = rewards_of(rewards, read, seen, entries)
    axes = _Axes.of(read, kept, entries)
    model = _model(read, axes, kept, entries, reward, discount)
    posterior = _posterior(model, axes, entries, prior)
    model.summary = _summary(read, seen, kept, spared, entries, threshold, support, told, axes)
    model.notes = model.summary.notes
    return model, posterior


# -- model and posterior -----------------------------------------------------------------------------------


class _Axes(NamedTuple):
    """The states and actions of the model: those of the log that something leads to, or uses."""

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
        return cls(states, actions, _those(read.by_state, states), _those(read.by_action, actions))

    def pairs(self, pairs: IntArray) -> IntArray:
        """Return pairs of the log as pairs of the model."""
        s, a = np.divmod(pairs, self.actions.size)
        return (np.cumsum(self.states) - 1)[s] * self.by_action.size + (np.cumsum(self.actions) - 1)[a]

    def targets(self, targets: IntArray) -> IntArray:
        """Return states of the log as states of the model."""
        return (np.cumsum(self.states) - 1)[targets]


def _those(labels: Labels, which: BoolArray) -> Labels:
    if which.all():
        return labels
    return Labels(labels.what, [names_of(labels)[i] for i in np.flatnonzero(which)], int(which.sum()))


def _model(
    read: LogRows, axes: _Axes, kept: BoolArray, entries: Outcomes, reward: FloatArray, discount: Any
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
    return UncertainMDP._of_entries(
        own_sources(admissible),
        pair,
        places_in(pair),
        target,
        earned,
        discount,
        states=axes.by_state.names,
        actions=axes.by_action.names,
        sources=PAIRS,
        outcomes=called_outcomes(pair, target, earned, axes.by_state) if twice.any() else NEXT_STATES,
        terminal={names_of(read.by_state)[s]: read.terminal_value[s] for s in np.flatnonzero(read.terminal)},
    )


def _posterior(model: UncertainMDP, axes: _Axes, entries: Outcomes, prior: Any) -> DirichletPosterior:
    start = _prior(model, prior)
    counts = start.copy()
    b = model.source.reshape(-1)[axes.pairs(entries.pair)]
    counts[b, places_in(b)] += entries.times  # entries of a pair stand together, in the order of its outcomes
    posterior = DirichletPosterior(counts, prior=start)
    posterior.naming = model.naming
    return posterior


def _prior(model: UncertainMDP, prior: Any) -> FloatArray:
    named = isinstance(prior, tuple) and len(prior) == 2 and isinstance(prior[0], str)
    if not named and np.ndim(prior) > 0:
        return model.count([], prior)
    kind, mass = prior if named else ("pair", prior)
    if kind not in ("pair", "outcome"):
        raise ParameterError(f"prior is {prior!r}, expected a number, ('pair', x), ('outcome', x), or counts [B, K]")
    sizes = model.outcome_mask.sum(axis=1, keepdims=True)
    each = positive(mass, "prior[1]" if named else "prior") / (sizes if kind == "pair" else 1.0)
    start = np.where(model.outcome_mask, each, 0.0)
    if model.terminal.any():
        start[-1, 0] = 1.0  # the end of terminal states is certain
    return start


# -- summary -----------------------------------------------------------------------------------------------


def _summary(
    read: LogRows,
    seen: Transitions,
    kept: BoolArray,
    spared: int,
    entries: Outcomes,
    threshold: float,
    support: Any,
    told: Told,
    axes: _Axes,
) -> LogSummary:
    S, A = read.shape
    states, actions = (np.fromiter(names_of(labels), object, labels.size) for labels in (read.by_state, read.by_action))
    tried, visits = np.flatnonzero(seen.visits), seen.visits.reshape(-1)
    distinct = np.unique(seen.pair * S + seen.target) // S
    table = {
        "state": _tidy(states[tried // A]),
        "action": _tidy(actions[tried % A]),
        "visits": visits[tried],
        "next_states": np.bincount(distinct, minlength=S * A)[tried],
        "admissible": kept.reshape(-1)[tried],
    }
    if seen.reward is not None:
        table["reward"] = np.bincount(seen.pair, seen.times * seen.reward, S * A)[tried] / visits[tried]
    arrived = np.bincount(read.target, minlength=S) > 0
    closed = read.terminal | read.absorbing
    used = kept[read.state, read.action]
    dropped = dict(read.dropped)
    if not used.all():
        dropped["of actions tried too seldom in their state"] = int(np.count_nonzero(~used))
    posterior = None
    if told.sd > 0.0:
        posterior = NormalPosterior(np.zeros((axes.by_state.size, axes.by_action.size)), told.wide, told.sd)
        posterior.pulls[...] = np.where(kept, seen.visits, 0.0)[np.ix_(axes.states, axes.actions)]
    acting = seen.visits.any(axis=1)
    sizes = np.unique(entries.pair, return_counts=True)[1]

    def those(which: BoolArray) -> tuple[Hashable, ...]:
        return tuple(states[which].tolist())

    return LogSummary(
        rows=read.rows,
        used=int(np.count_nonzero(used)),
        dropped=dropped,
        observations=float(read.times[used].sum()),
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
        rewards=told.text,
        rewards_varying=told.varying,
        rewards_sd=told.sd,
        rewards_guessed=told.guessed,
        reward_posterior=posterior,
        notes=_notes(read, axes, spared, threshold, _unseen(read, seen, kept, support)),
        _visits=table,
    )


def _starts(read: LogRows, axes: _Axes) -> dict[Hashable, float] | None:
    """Return the share of the episodes that begin in each state of the model where one can act."""
    begun = np.array([read.by_state.find(state) for state in read.starts.tolist()], dtype=np.int64)
    begun = begun[begun >= 0]
    times = np.bincount(begun, minlength=read.by_state.size) * (axes.states & ~read.terminal)
    names, total = names_of(read.by_state), times.sum()
    return {names[i]: float(times[i] / total) for i in np.flatnonzero(times)} if total else None


def _tidy(cells: Column) -> Column:
    """Return names as an array of numbers or texts where they are such."""
    kinds = set(map(type, cells.tolist()))
    return cells.astype(np.int64) if kinds == {int} else cells


def _unseen(read: LogRows, seen: Transitions, kept: BoolArray, support: Any) -> tuple[int, int, int] | None:
    return overlooked(read, seen, kept) if isinstance(support, str) and support == "action" else None


def _notes(
    read: LogRows, axes: _Axes, spared: int, threshold: float, unseen: tuple[int, int, int] | None
) -> tuple[str, ...]:
    notes = []
    if unseen is not None:
        count, pair, target = unseen
        state, action = divmod(pair, read.shape[1])
        pair_of, arrival = f"{read.by_action.show(action)} in {read.by_state.show(state)}", read.by_state.show(target)
        notes.append(
            f"on few observations, {pair_of} is taken as unable to lead to {arrival}, as other actions there do; "
            "support='state' allows it" + f" ({count} such pairs)" * (count > 1)
        )
    lost = ("which nothing leads to", "which no state admits")
    for labels, alive, why in zip((read.by_state, read.by_action), (axes.states, axes.actions), lost, strict=True):
        names = [repr(names_of(labels)[i]) for i in np.flatnonzero(~alive)]
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
    for name in labels.names or ():
        if isinstance(name, str):
            spelled.setdefault("".join(name.split()).casefold(), []).append(name)
    groups = [" and ".join(map(repr, names)) for names in spelled.values() if len(names) > 1]
    return ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
