"""RiverSwim: a chain where the reward is upstream, and every step there may be washed back.

The swimmer starts at the left bank. Swimming left succeeds always; swimming right fights the current: from the middle
of the river it moves on with probability 0.35, back with 0.05, and else stays. At the left bank swimming left pays 0.005 a
step, at the right end swimming right pays 1. An agent that is content with what it knows stays at the left bank for
ever (Strehl and Littman, Journal of Computer and System Sciences 74, 2008; probabilities as in Osband and Van Roy).

Every pair has a source of its own; that a step leads to a neighbouring state is known.
"""

from __future__ import annotations

import numpy as np

from .._support.checks import whole_number
from ..models.uncertain import UncertainMDP
from .problem import Problem

__all__ = ["river_swim"]


def river_swim(n_states: int = 6, *, discount: float = 0.95) -> Problem:
    """Return RiverSwim with ``n_states`` >= 2 states, in direct parametrisation; actions are 0 left and 1 right.

    >>> model, theta = river_swim()
    >>> model
    UncertainMDP(6 states, 2 actions, 12 sources, up to 3 outcomes, discount 0.95)
    >>> river_swim().mdp().dense()[:, 1].round(2)[:2]
    array([[0.4 , 0.6 , 0.  , 0.  , 0.  , 0.  ],
           [0.05, 0.6 , 0.35, 0.  , 0.  , 0.  ]])
    """
    n = whole_number(n_states, "n_states", minimum=2)
    last = n - 1
    chances = np.zeros((n, 2, n))
    for s in range(n):
        chances[s, 0, max(s - 1, 0)] = 1.0
        chances[s, 1, max(s - 1, 0)] += 0.05
        chances[s, 1, s] += 0.6
        chances[s, 1, min(s + 1, last)] += 0.35
    chances[0, 1, :2] = 0.4, 0.6
    chances[last, 1, last - 1 :] = 0.4, 0.6
    reward = np.zeros((n, 2))
    reward[0, 0], reward[last, 1] = 0.005, 1.0
    near = abs(np.arange(n)[:, np.newaxis] - np.arange(n)) <= 1
    support = np.broadcast_to(near[:, np.newaxis, :], chances.shape)
    model = UncertainMDP.direct(reward, discount, support=support)
    theta = np.zeros((model.n_sources, model.n_outcomes))
    targets = model.next_state.reshape(model.n_sources, model.n_outcomes)
    rows = chances.reshape(model.n_sources, n)
    inside = targets >= 0
    theta[inside] = np.take_along_axis(rows, np.maximum(targets, 0), axis=1)[inside]
    return Problem(model, theta)
