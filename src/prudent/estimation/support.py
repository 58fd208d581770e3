"""Which choices depend on the next states that are taken as possible.

The model at the posterior means is solved under ``support="action"`` and under ``support="state"``, by policy iteration
with dense linear algebra, which is cheap for models of up to a thousand states.
"""

from __future__ import annotations

import numpy as np

from ..models.log_summary import SupportChange
from ..types import BoolArray, FloatArray
from .counts import Outcomes, sums
from .rows import LogRows

__all__ = ["support_changes"]

LARGEST = 1_000  # states of a model whose supports are compared
_ITERATIONS = 50  # of policy iteration; usually it takes fewer than ten
_TIE = 1e-9  # relative difference of values that makes a choice


def support_changes(
    by_action: tuple[Outcomes, FloatArray],
    by_state: tuple[Outcomes, FloatArray],
    read: LogRows,
    kept: BoolArray,
    discount: float,
    prior: float,
) -> tuple[SupportChange, ...]:
    """Return the states in which the two supports lead to different choices, at the posterior means.

    There are none for a model that is too large, or that cannot be solved because nothing is discounted.
    """
    if read.by_state.size > LARGEST or not 0.0 <= discount < 1.0:
        return ()
    tables = [_values(entries, reward, read, kept, discount, prior) for entries, reward in (by_action, by_state)]
    if any(q is None for q in tables):
        return ()
    one, other = (np.asarray(q) for q in tables)
    best, rival, rows = one.argmax(axis=1), other.argmax(axis=1), np.arange(one.shape[0])
    apart = [
        q[rows, chosen] > q[rows, refused] + _TIE * max(1.0, float(np.abs(q[kept]).max(initial=0.0)))
        for q, chosen, refused in ((one, best, rival), (other, rival, best))
    ]
    states, actions = read.by_state.names, read.by_action.names
    return tuple(
        SupportChange(states[s], actions[best[s]], actions[rival[s]])
        for s in np.flatnonzero(kept.any(axis=1) & apart[0] & apart[1])
    )


def _values(
    entries: Outcomes, reward: FloatArray, read: LogRows, kept: BoolArray, discount: float, prior: float
) -> FloatArray | None:
    """Return the values of pairs [S, A] at the posterior means, or None if they cannot be computed."""
    S, A = read.shape
    sizes = np.bincount(entries.pair, minlength=S * A)
    visits = np.bincount(entries.pair, entries.times, S * A)
    chances = (entries.times + prior / sizes[entries.pair]) / (visits + prior)[entries.pair]
    earned = sums(entries.pair, chances * reward, S * A)
    value = read.terminal_value.copy()
    value[read.absorbing] = read.absorbing_reward[read.absorbing] / (1.0 - discount)
    acts = kept.any(axis=1)
    acting = np.flatnonzero(acts)
    state, action = np.divmod(entries.pair, A)

    def pairs_worth(values: FloatArray) -> FloatArray:
        worth = earned + discount * np.bincount(entries.pair, chances * values[entries.target], S * A)
        return np.where(kept, worth.reshape(S, A), -np.inf)

    policy = pairs_worth(value).argmax(axis=1)
    for _ in range(_ITERATIONS):
        matrix, taken = np.zeros((S, S)), policy[state] == action
        np.add.at(matrix, (state[taken], entries.target[taken]), chances[taken])
        right = earned[acting * A + policy[acting]] + discount * matrix[np.ix_(acting, ~acts)] @ value[~acts]
        value[acting] = np.linalg.solve(np.eye(acting.size) - discount * matrix[np.ix_(acting, acting)], right)
        q = pairs_worth(value)
        best = np.where(q.max(axis=1) > q[np.arange(S), policy] + 1e-12 * np.abs(value).max(), q.argmax(axis=1), policy)
        if np.array_equal(best, policy):
            return q if np.isfinite(value).all() else None
        policy = best
    return None
