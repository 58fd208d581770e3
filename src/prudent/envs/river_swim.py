"""RiverSwim: a chain of states with the large reward upstream, where a step may fail or lead back.

The swimmer starts at the left bank. Swimming left succeeds always; swimming right fights the current: in the middle of
the river it leads on with probability 0.35, back with 0.05, and else nowhere. At the left bank swimming left pays 0.005
a step, at the right bank swimming right pays 1. An agent that does not explore stays at the left bank for
ever (Strehl and Littman, Journal of Computer and System Sciences 74, 2008; probabilities as in Osband and Van Roy).

That a step leads to a neighbouring state is known.
"""

from __future__ import annotations

import numpy as np

from .._support.checks import one_of, whole_number
from ..models.uncertain import UncertainMDP
from .problem import Problem

_LEFT, _MIDDLE, _LEFT_BANK, _RIGHT_BANK = range(4)  # sources of the shared reading
_CHANCES = np.array([[0.0, 0.0, 1.0], [0.35, 0.6, 0.05], [0.6, 0.4, 0.0], [0.0, 0.6, 0.4]])  # right, stay, left


def river_swim(n_states: int = 6, *, sources: str = "by pair", discount: float = 0.95) -> Problem:
    """Return RiverSwim: its model and the true probabilities; actions are 0 left and 1 right.

    Parameters
    ----------
    n_states : int, default=6
        Number of states, at least 2.
    sources : {"by pair", "shared"}, default="by pair"
        What is learned together: nothing (every state and action has its own source), or all steps of the same kind
        (left; right in the middle, at the left bank and at the right bank).
    discount : float, default=0.95
        Discount factor in [0, 1).

    Returns
    -------
    Problem
        Model and true probabilities.

    Raises
    ------
    ParameterError
        If an argument is out of range.

    References
    ----------
    Strehl and Littman, Journal of Computer and System Sciences 74, 2008.

    Examples
    --------
    >>> model, theta = river_swim()
    >>> model
    UncertainMDP(6 states, 2 actions, 12 sources, up to 3 outcomes, discount 0.95)
    >>> river_swim().mdp().dense()[:2, 1]
    array([[0.4 , 0.6 , 0.  , 0.  , 0.  , 0.  ],
           [0.05, 0.6 , 0.35, 0.  , 0.  , 0.  ]])
    """
    n = whole_number(n_states, "n_states", minimum=2, memory=256.0)
    one_of(sources, "sources", ("by pair", "shared"))
    states = np.arange(n)
    kind = np.full((n, 2), _MIDDLE)
    kind[:, 0], kind[0, 1], kind[-1, 1] = _LEFT, _LEFT_BANK, _RIGHT_BANK
    reward = np.zeros((n, 2))
    reward[0, 0], reward[-1, 1] = 0.005, 1.0
    target = np.stack([states + 1, states, states - 1], axis=1)  # [S, 3]
    next_state = np.repeat(np.where(target < n, target, -1)[:, np.newaxis], 2, axis=1)
    next_state[0, 0, 2] = 0  # left at the left bank: stays there with certainty
    next_state[0, 0, :2] = next_state[0, 1, 2] = -1
    if sources == "by pair":
        source, theta = np.arange(2 * n).reshape(n, 2), _CHANCES[kind.reshape(-1)]
    else:
        source, theta = kind, _CHANCES
        next_state[:, 0, :2] = -1
    return Problem(UncertainMDP(source, next_state, reward, discount), theta)
