"""Which choices depend on the next states that are taken as possible.

The model at the posterior means is solved under ``support="action"`` and under ``support="state"``.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy

from ..errors import ConvergenceWarning, ModelError
from ..models.log_summary import SupportChange
from ..models.mdp import MDP
from ..planning.solve import solve
from ..types import BoolArray, FloatArray
from .counts import Outcomes, sums
from .rows import LogRows

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

    There are none for a model that cannot be solved because nothing is discounted.
    """
    if not 0.0 <= discount < 1.0:
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
    earned = sums(entries.pair, chances * reward, S * A).reshape(S, A)
    if entries.duration is not None:  # what a long transition loses is as good as a chance to end
        chances = chances * discount ** (entries.duration - 1.0)
    # a state without actions ends the process and pays its value
    closed = ~kept.any(axis=1)
    value = np.where(read.absorbing, read.absorbing_reward / (1.0 - discount), read.terminal_value)
    earned[closed, 0] = value[closed]
    only = np.zeros((S, A), dtype=np.bool_)
    only[closed, 0] = True
    transition = scipy.sparse.coo_array((chances, (entries.pair, entries.target)), shape=(S * A, S))
    ending = only.astype(np.float64)
    if entries.duration is not None:
        ending = np.where(kept, np.clip(1.0 - sums(entries.pair, chances, S * A).reshape(S, A), 0.0, 1.0), ending)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve(MDP(transition, earned, discount, termination=ending, admissible=kept | only))
    except ModelError:  # at discounts within rounding of one
        return None
    return np.where(kept, solution.q, -np.inf) if solution.converged else None
