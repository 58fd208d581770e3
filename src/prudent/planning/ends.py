"""Where processes end: the graph of possible steps, pairs that a policy takes, and what a number of steps is worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import ModelError
from ..models.base import TabularModel
from ..models.entries import Outcomes
from ..types import BoolArray, IntArray


def taken_pairs(policy: npt.NDArray[Any], n_actions: int) -> IntArray:
    """Return the pairs s*A + a that a policy, [S] or [S, A], takes."""
    if policy.ndim == 2:
        return np.flatnonzero(policy)
    return np.arange(policy.size) * n_actions + policy


def steps_worth(stretch: float, horizon: int) -> float:
    """Return 1 + g + ... + g^(T-1), or a little more: what T steps of reward 1 are worth."""
    return float(horizon) if stretch >= 1.0 else min(float(horizon), 1.0 / (1.0 - stretch))


class _Graph(NamedTuple):
    """Where steps lead: those of the pairs that may be taken."""

    pair: IntArray  # [M]
    target: IntArray  # [M], below zero where the process ends
    n_actions: int
    leading: scipy.sparse.csr_array  # [S, P] whether a pair may lead to a state

    @classmethod
    def of(cls, pair: IntArray, target: IntArray, n_states: int, n_actions: int) -> _Graph:
        goes = target >= 0
        shape, edges = (n_states, n_states * n_actions), (target[goes], pair[goes])
        return cls(pair, target, n_actions, scipy.sparse.csr_array((np.ones(edges[0].size, np.bool_), edges), shape))

    def before(self, states: IntArray) -> IntArray:
        """Return the pairs that may lead to one of ``states``."""
        return np.unique(self.leading[states].indices)


def _over(graph: _Graph, earning: IntArray) -> BoolArray:
    """Return the states from which nothing is ever earned again [S], given those where something is."""
    over = np.ones(graph.leading.shape[0], dtype=np.bool_)
    while earning.size:
        over[earning] = False
        before = np.unique(graph.before(earning) // graph.n_actions)
        earning = before[over[before]]
    return over


def _endless(graph: _Graph, over: BoolArray) -> IntArray:
    """Return pairs, one for each state, by which the process can go on for ever; -1 where it cannot [S].

    It cannot where every pair may end the process, or lead to a state that is over or from which it cannot.
    """
    n_actions, pairs = graph.n_actions, np.unique(graph.pair)
    safe = over.copy()
    left = np.bincount(pairs // n_actions, minlength=over.size)  # pairs of which that is not known
    hit = np.zeros(over.size * n_actions, dtype=np.bool_)
    fresh = np.union1d(graph.pair[graph.target < 0], graph.before(np.flatnonzero(over)))
    while fresh.size:
        hit[fresh] = True
        states, counts = np.unique(fresh // n_actions, return_counts=True)
        left[states] -= counts
        new = states[(left[states] == 0) & ~safe[states]]
        safe[new] = True
        before = graph.before(new)
        fresh = before[~hit[before]]
    keeping = np.full(over.size, -1)
    goes_on = pairs[~hit[pairs] & ~safe[pairs // n_actions]]
    keeping[goes_on // n_actions] = goes_on
    return keeping


def find_over(
    model: TabularModel, outcomes: Outcomes, policy: npt.NDArray[Any] | None = None, *, must_end: bool = True
) -> BoolArray:
    """Return the states where a process is over [S]: nothing is ever earned again.

    With ``must_end`` raise if the process may go on for ever without that. ``policy`` says which actions are taken: any
    by default, one [S], those of a mask [S, A] in any order, or all that have a probability [S, A] with just that.
    """
    n_states, n_actions = model.admissible.shape
    taken = model.admissible.reshape(-1).copy()
    if policy is not None:
        taken[:] = False
        taken[taken_pairs(policy, n_actions)] = True
    pair = np.repeat(np.arange(outcomes.first.size - 1), np.diff(outcomes.first))
    used = taken[pair]
    if policy is not None and policy.dtype == np.float64:  # chance takes all of them: as one action
        pair, n_actions = pair // n_actions, 1
    graph = _Graph.of(pair[used], outcomes.next_state[used].astype(np.int64), n_states, n_actions)
    over = _over(graph, np.unique(pair[used & (outcomes.reward != 0.0)] // n_actions))
    if not must_end:
        return over
    keeping = _endless(graph, over)
    if (keeping >= 0).any():
        state = int(np.argmax(keeping >= 0))
        action = model.action_labels.show(int(keeping[state]) % n_actions)
        whatever = "" if policy is not None else f" (with {action} there)"
        message = (
            f"at discount 1 the process may go on for ever from {model.state_labels.show(state)}{whatever}; give a "
            "horizon, a discount below 1, or a model that ends whatever is done, or in which going on costs something"
        )
        raise ModelError(message, code="endless-process", state=state)
    return over
