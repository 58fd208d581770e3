r"""Values of the target in the table of states that a log shows: fitted Q evaluation without a regressor.

The rows of a pair (s, a) give its mean reward r(s, a) and the frequencies P(s'|s, a) of its next states; where the
process ended nothing follows. The values of the target are the fixed point of V = sum_a pi(a|s) (r + gamma P V), or,
with a horizon, the values by steps. This is the limit of fitted Q evaluation with one parameter for each pair (Le,
Voloshin and Yue 2019), and the estimate is efficient if the states are Markov (Yin and Wang 2020).

**Unseen pairs.** What the target does in a state and the log never did there has no rows. There the table follows what
the log did in the state. The share of the discounted time in which it has to is part of the result.

**Error.** With d the discounted occupancy of pairs under the target, to first order the error of the value is the mean
over episodes of

    psi_i = V(s_i0) - v + n sum over rows of episode i of d(s, a) / n(s, a) (r + gamma V(s') - Q(s, a)) n / (n - 1),

where the last factor, of the rows of the pair, corrects a residual for having taken part in the mean. The residual of a
pair with one row is 0: its variance is that of the others, pooled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import splu

from ..._support.memory import require_memory
from ...types import BoolArray, FloatArray, IntArray
from .log import UNKNOWN, EpisodeLog

SHRINKAGE = 1.0  # rows of its state that a pair is mixed with, in tables that only reduce the variance of dr


class Groups(NamedTuple):
    """Which rows are averaged: those of a pair of a state and an action, or those of a state.

    Attributes
    ----------
    of_row : int64 [M]
        Group of each row.
    state : int64 [G]
        State of each group.
    weight : float64 [M]
        Weight of each row in its group.
    """

    of_row: IntArray
    state: IntArray
    weight: FloatArray


class Table(NamedTuple):
    """Mean rewards and frequencies of next states of groups of rows.

    Attributes
    ----------
    groups : Groups
        Groups of the rows.
    reward : float64 [G]
        Mean rewards.
    move : sparse array [G, S]
        Frequencies of the next states; what is lacking to one ends the process.
    total, linked : float64 [G]
        Sum of the weights of the rows of each group, and of those whose next state is known.
    known : bool [M]
        Rows whose next state is known.
    """

    groups: Groups
    reward: FloatArray
    move: sparse.csr_array
    total: FloatArray
    linked: FloatArray
    known: BoolArray


def pairs_of(log: EpisodeLog) -> Groups:
    """Return the pairs of a state and an action that the log shows."""
    assert log.state is not None
    size = log.by_action.size
    codes, of_row = np.unique(log.state * size + log.action, return_inverse=True)
    return Groups(of_row, codes // size, np.ones(log.row.size))


def states_of(log: EpisodeLog, ratio: FloatArray) -> Groups:
    """Return the states, in which a row has the weight pi(a|s) / p."""
    assert log.state is not None
    assert log.by_state is not None
    return Groups(log.state, np.arange(log.by_state.size), ratio)


def _sums(group: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.bincount(group, values, size).astype(np.float64, copy=False)


def tabulate(log: EpisodeLog, groups: Groups, rows: BoolArray, shrinkage: float = 0.0) -> Table:
    """Return the table of some rows [M]; ``shrinkage`` rows of its state are added to every group."""
    assert log.by_state is not None
    assert log.target is not None
    S, G = log.by_state.size, groups.state.size
    weight = np.where(rows, groups.weight, 0.0)
    acting = np.bincount(log.state, rows, S) > 0.0  # type: ignore[arg-type]
    known = rows & (log.target != UNKNOWN)
    inside = np.flatnonzero(known & (log.target < S))
    lost = inside[~acting[log.target[inside]]]  # never left by these rows
    known[lost] = False
    inside = inside[acting[log.target[inside]]]
    total = _sums(groups.of_row, weight, G)
    linked = _sums(groups.of_row[known], weight[known], G)
    entries = (weight[inside], (groups.of_row[inside], log.target[inside]))
    moves = sparse.csr_array(entries, shape=(G, S))
    earned = _sums(groups.of_row, weight * log.reward, G)
    by_state = sparse.csr_array((np.ones(G), (groups.state, np.arange(G))), shape=(S, G))
    # what the log did in a state, for groups without a next state and for shrinkage
    mixed = sparse.csr_array(by_state @ moves)
    in_state, linked_state = _sums(groups.state, total, S), _sums(groups.state, linked, S)
    bare = (total > 0.0) & (linked <= 0.0)
    added = np.where(total > 0.0, shrinkage, 0.0)
    share = np.where(bare, 1.0, added) / np.maximum(linked_state[groups.state], 1e-300)
    if bare.any() or shrinkage > 0.0:
        moves = moves + sparse.diags_array(share) @ mixed[groups.state]
    rest = np.where(linked_state[groups.state] > 0.0, np.where(bare, 1.0, added), 0.0)
    move = sparse.diags_array(1.0 / np.maximum(linked + rest, 1e-300)) @ moves
    mean_of_state = _sums(groups.state, earned, S) / np.maximum(in_state, 1e-300)
    reward = (earned + added * mean_of_state[groups.state]) / np.maximum(total + added, 1e-300)
    return Table(groups, reward, sparse.csr_array(move), total, linked, known)


class Policy(NamedTuple):
    """The target in a table.

    Attributes
    ----------
    chances : function of the step
        Probability of each group in its state [G].
    unseen : float64 [S]
        Mass of the target in each state on actions that have no rows there (at the first step).
    stationary : bool
        Whether the probabilities are the same at all steps.
    """

    chances: Callable[[int], FloatArray]
    unseen: FloatArray
    stationary: bool


def followed(table: Table, by_state: Callable[[int], FloatArray], action: IntArray, stationary: bool = True) -> Policy:
    """Return a policy [S, A] in a table of pairs with these actions [G]; unseen pairs are done as the log did."""
    state, total = table.groups.state, table.total

    def at(step: int) -> tuple[FloatArray, FloatArray]:
        chances = by_state(step)
        own = np.where(total > 0.0, chances[state, action], 0.0)
        unseen = np.clip(1.0 - np.bincount(state, own, chances.shape[0]), 0.0, 1.0)
        unseen[unseen < 1e-12] = 0.0
        visits = np.bincount(state, total, chances.shape[0])
        return own + unseen[state] * total / np.maximum(visits[state], 1e-300), unseen

    first, unseen = at(0)
    return Policy((lambda _: first) if stationary else (lambda step: at(step)[0]), unseen, stationary)


class Values(NamedTuple):
    """Values of the target.

    Attributes
    ----------
    start : float64 [S]
        Values at the first step.
    q, v : float64 [M]
        Values of the state and action, and of the state, of every row at its step.
    """

    start: FloatArray
    q: FloatArray
    v: FloatArray


def values(log: EpisodeLog, table: Table, policy: Policy, discount: float, chances: FloatArray | None) -> Values | None:
    """Return the values of the target; ``chances`` [M, A] are those of the rows, where they depend on more than states.

    The result is None if the process does not end for certain and the discount is 1.
    """
    S, state = table.move.shape[1], table.groups.state
    acting = np.bincount(state, table.total, S) > 0.0
    visits = np.bincount(state, table.total, S)
    at = None if chances is None else _Places.of(log, table)

    def fill(q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return q of pairs, v, and the mean q of states, with means where there are no rows."""
        mean = float(visits @ v / visits.sum())
        usual = np.bincount(state, table.total * q, S) / np.maximum(visits, 1e-300)
        usual, v = np.where(acting, usual, mean), np.where(acting, v, mean)
        return np.where(table.total > 0.0, q, usual[state]), v, usual

    def of_rows(rows: IntArray, q: FloatArray, v: FloatArray, usual: FloatArray) -> tuple[FloatArray, FloatArray]:
        assert log.state is not None
        if at is None or chances is None:
            return q[table.groups.of_row[rows]], v[log.state[rows]]
        return q[table.groups.of_row[rows]], at.mix(rows, chances, q, usual)

    q_rows, v_rows = np.empty((2, log.row.size))
    if log.horizon is None and policy.stationary:
        chance = policy.chances(0)
        chain = _chain(table, chance)
        if discount == 1.0 and not _ends(chain, log, acting):
            return None
        earned = np.bincount(state, chance * table.reward, S)
        v = splu(sparse.csc_array(sparse.eye_array(S) - discount * chain)).solve(earned)
        q, v, usual = fill(table.reward + discount * (table.move @ v), v)
        q_rows, v_rows = of_rows(np.arange(log.row.size), q, v, usual)
        return Values(v, q_rows, v_rows)
    v = np.zeros(S)
    horizon = log.longest if log.horizon is None else log.horizon
    order = np.argsort(log.place, kind="stable")
    cuts = np.searchsorted(log.place[order], np.arange(min(horizon, log.longest) + 1))
    for step in range(horizon - 1, -1, -1):
        q = table.reward + discount * (table.move @ v)
        v = _sums(state, policy.chances(step) * q, S)
        q, v, usual = fill(q, v)
        if step >= log.longest:
            continue
        rows = order[cuts[step] : cuts[step + 1]]
        q_rows[rows], v_rows[rows] = of_rows(rows, q, v, usual)
    return Values(v, q_rows, v_rows)


class _Places(NamedTuple):
    """Where the values of all actions of a row are found."""

    group: IntArray  # [S, A], -1 for a pair without rows
    state: IntArray  # [M]

    @classmethod
    def of(cls, log: EpisodeLog, table: Table) -> _Places:
        assert log.by_state is not None
        assert log.state is not None
        group = np.full((log.by_state.size, log.by_action.size), -1)
        group[log.state, log.action] = np.where(table.total > 0.0, np.arange(table.total.size), -1)[table.groups.of_row]
        return cls(group, log.state)

    def mix(self, rows: IntArray, chances: FloatArray, q: FloatArray, usual: FloatArray) -> FloatArray:
        """Return sum_a pi(a) Q(s, a) in some rows."""
        group, s = self.group[self.state[rows]], self.state[rows]
        return np.asarray((chances[rows] * np.where(group >= 0, q[group], usual[s, np.newaxis])).sum(axis=1))


def _chain(table: Table, chance: FloatArray) -> sparse.csr_array:
    """Return the probabilities [S, S] of next states under a policy."""
    S, G = table.move.shape[1], chance.size
    chosen = sparse.csr_array((chance, (table.groups.state, np.arange(G))), shape=(S, G))
    chain = sparse.csr_array(chosen @ table.move)
    chain.eliminate_zeros()
    return chain


def _ends(chain: sparse.csr_array, log: EpisodeLog, acting: BoolArray) -> bool:
    """Return whether the process ends for certain from every state that the starts lead to."""
    assert log.state is not None
    S = acting.size
    leaves = acting & (1.0 - chain.sum(axis=1) > 1e-12)
    starts = np.unique(log.state[log.first])

    def reached(graph: sparse.csr_array, begin: IntArray) -> BoolArray:
        link = sparse.csr_array((np.ones(begin.size), (np.zeros(begin.size, dtype=np.int64), begin)), shape=(1, S))
        whole: Any = sparse.block_array([[graph, None], [link, sparse.csr_array((1, 1))]], format="csr")
        found = np.zeros(S + 1, dtype=np.bool_)
        found[breadth_first_order(whole, S, directed=True, return_predecessors=False)] = True
        return found[:S]

    forward = sparse.csr_array((np.ones(chain.nnz), chain.indices, chain.indptr), shape=chain.shape)
    ending = reached(sparse.csr_array(forward.T), np.flatnonzero(leaves))
    return bool(ending[reached(forward, starts)].all())


class Evaluation(NamedTuple):
    """The value of the target in a table.

    Attributes
    ----------
    value : float
        Mean over the first states of the episodes.
    influence : float64 [n]
        Influence of each episode.
    extra : float
        Variance of the value from pairs with one row.
    weight : float64 [M]
        What a row counts in the value.
    unseen : float
        Share of the discounted time in pairs that the log does not show.
    start : float64 [S]
        Values at the first step.
    """

    value: float
    influence: FloatArray
    extra: float
    weight: FloatArray
    unseen: float
    start: FloatArray


def evaluate(log: EpisodeLog, table: Table, policy: Policy, discount: float) -> Evaluation | None:
    """Return the value of the target with the influence of each episode; None if it has no value."""
    assert log.state is not None
    found = values(log, table, policy, discount, None)
    if found is None:
        return None
    S, state = table.move.shape[1], table.groups.state
    begin = np.bincount(log.state[log.first], minlength=S) / log.n
    residual = _Residuals(log, table)
    if log.horizon is None and policy.stationary:
        chance = policy.chances(0)
        occupied = splu(sparse.csc_array(sparse.eye_array(S) - discount * _chain(table, chance).T)).solve(begin)
        residual.add(occupied[state] * chance, discount, found.start)
        time = occupied
    else:
        horizon = log.longest if log.horizon is None else log.horizon
        require_memory(8.0 * table.move.shape[1] * horizon, "horizon", horizon)
        ahead = _by_step(table, policy, discount, horizon)
        occupied, time = begin, np.zeros(S)
        for step in range(horizon):
            chance = policy.chances(step)
            mass = occupied[state] * chance
            residual.add(mass, discount, ahead[step + 1])
            time += occupied
            occupied = discount * (table.move.T @ mass)
    start = found.start[log.state[log.first]]
    value = float(start.mean())
    rows, extra = residual.total()
    influence = start - value + log.n * np.bincount(log.episode, rows, log.n)
    unseen = float(time @ policy.unseen / time.sum())
    return Evaluation(value, influence, extra, residual.weight, unseen, found.start)


def _by_step(table: Table, policy: Policy, discount: float, horizon: int) -> FloatArray:
    """Return the values [H + 1, S] at every step."""
    S = table.move.shape[1]
    v = np.zeros((horizon + 1, S))
    for step in range(horizon - 1, -1, -1):
        q = table.reward + discount * (table.move @ v[step + 1])
        v[step] = np.bincount(table.groups.state, policy.chances(step) * q, S)
    return v


class _Residuals:
    """Influence of the rows of a table on the value."""

    def __init__(self, log: EpisodeLog, table: Table) -> None:
        self.log, self.table = log, table
        group = table.groups.of_row
        count = np.bincount(group, minlength=table.total.size)
        self.single = (count == 1)[group]
        self.factor = (count / np.maximum(count - 1.0, 1.0))[group]
        self.share = table.groups.weight / np.maximum(table.total[group], 1e-300)
        self.link = np.where(table.known, table.groups.weight / np.maximum(table.linked[group], 1e-300), 0.0)
        self.rows: FloatArray = np.zeros(log.row.size)
        self.weight: FloatArray = np.zeros(log.row.size)
        self.noise: FloatArray = np.zeros(log.row.size)  # of rows on their own, relative to the residual of others

    def add(self, mass: FloatArray, discount: float, after: FloatArray) -> None:
        """Add the influence through one step; ``mass`` [G] is the occupancy, ``after`` [S] the values of the next."""
        table, group = self.table, self.table.groups.of_row
        assert self.log.target is not None
        part = mass[group]
        following = np.append(after, 0.0)[np.where(table.known, self.log.target, -1)]
        error = self.share * (self.log.reward - table.reward[group])
        error += self.link * discount * (following - (table.move @ after)[group])
        self.rows += part * error
        self.weight += part * self.share

    def total(self) -> tuple[FloatArray, float]:
        """Return the influence of every row [M], corrected, and the variance from rows that are alone."""
        several = ~self.single & (self.weight > 0.0)
        spread = 0.0
        if several.any():
            scale = self.rows[several] * self.factor[several] / self.weight[several]
            spread = float(np.average(scale**2 / self.factor[several], weights=self.weight[several]))
        alone = self.weight[self.single]
        return self.rows * self.factor, float(spread * (alone @ alone))
