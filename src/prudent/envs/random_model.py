"""Random models, for tests on many problems."""

from __future__ import annotations

import numpy as np

from .._support.checks import generator, positive, whole_number
from .._support.memory import require_memory
from ..models.uncertain import UncertainMDP
from ..types import RngLike
from .problem import Problem


def random_model(
    n_states: int = 10,
    n_actions: int = 3,
    *,
    branching: int | None = None,
    concentration: float = 1.0,
    discount: float = 0.9,
    rng: RngLike = None,
) -> Problem:
    """Return a random model in direct parametrisation, with its true transition probabilities.

    Which states a pair can lead to is known, their probabilities are not. Rewards are uniform in [0, 1].

    Parameters
    ----------
    n_states : int, default=10
        Number of states.
    n_actions : int, default=3
        Number of actions.
    branching : int, optional
        Number of random states that every pair leads to. The default is all.
    concentration : float, default=1
        Parameter of the Dirichlet distribution of the probabilities.
    discount : float, default=0.9
        Discount factor in [0, 1).
    rng : int, Generator or None, optional
        Source of randomness.

    Returns
    -------
    Problem
        Model and true probabilities.

    Raises
    ------
    ParameterError
        If an argument is out of range.

    Examples
    --------
    >>> model, theta = random_model(5, 2, branching=3, rng=1)
    >>> model
    UncertainMDP(5 states, 2 actions, 10 sources, 3 outcomes, discount 0.9)
    """
    n_states, n_actions = whole_number(n_states, "n_states"), whole_number(n_actions, "n_actions")
    branching = n_states if branching is None else whole_number(branching, "branching", maximum=n_states)
    require_memory(24.0 * n_actions * n_states**2, "n_states", n_states)
    random = generator(rng)
    reward = random.random((n_states, n_actions))
    targets = random.random((n_states, n_actions, n_states)).argsort(axis=2)[:, :, :branching]
    support = np.zeros((n_states, n_actions, n_states), dtype=np.bool_)
    np.put_along_axis(support, targets, True, axis=2)
    model = UncertainMDP.direct(reward, discount, support=support)
    chances = random.standard_gamma(positive(concentration, "concentration"), size=(model.n_sources, branching))
    chances = np.maximum(chances, 1e-300)  # a small concentration may underflow
    return Problem(model, chances / chances.sum(axis=1, keepdims=True))
