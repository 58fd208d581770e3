"""What `prudent.simulate` asks of an agent of any class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..models.uncertain import UncertainMDP


@runtime_checkable
class Agent(Protocol):
    """Protocol of an agent for `prudent.simulate` and `prudent.simulation.learn`.

    States, actions and outcomes are indices. An agent may also have an attribute or property ``policy``: the action
    that it would now take in every state [S], or probabilities of actions [S, A]; [L, S] or [L, S, A] if it depends on
    the step of the episode. Its regret is then exact. An agent that takes an action which the policy excludes is
    refused: one that explores shows probabilities, or no policy, and is then measured by its rewards.

    A class that Numba compiled with ``numba.experimental.jitclass`` runs in a compiled loop. It is told -1 where others
    are told None.

    See Also
    --------
    TabularAgent : A base class that keeps counts, names, random stream and state file.
    prudent.testing.check_agent : Tests whether a class keeps to this protocol.

    Examples
    --------
    >>> class Stubborn:
    ...     def __init__(self, model):
    ...         self.policy = model.admissible.argmax(axis=1)
    ...     def reset(self, rng):
    ...         pass
    ...     def act(self, state):
    ...         return self.policy[state]
    ...     def observe(self, state, action, next_state, outcome, reward):
    ...         pass
    >>> import prudent as pr
    >>> runs = pr.simulate(pr.envs.frozen_lake(0.2), [Stubborn, pr.brps_rl(0.9)], episodes=10, replications=5)
    >>> runs.agent.values.tolist()
    ['Stubborn', 'BRPS-RL 0.9']
    """

    def reset(self, rng: np.random.Generator) -> None:
        """Begin a replication: forget everything that was learned.

        Parameters
        ----------
        rng : Generator
            The random stream of the agent in this replication.
        """

    def act(self, state: int) -> int:
        """Return the action to take.

        Parameters
        ----------
        state : int
            Index of the current state.

        Returns
        -------
        int
            Index of an admissible action.
        """

    def observe(
        self, state: int, action: int, next_state: int | None, outcome: int | None = None, reward: float | None = None
    ) -> None:
        """Learn from one transition.

        Parameters
        ----------
        state, action : int
            Where the transition began, and the action taken.
        next_state : int or None
            Where it led; None if the process ended.
        outcome : int or None, optional
            Outcome of the source; None if the problem does not show it.
        reward : float or None, optional
            Reward of the transition.
        """


AgentFactory: TypeAlias = Callable[[UncertainMDP], Any]
"""A class or function that makes an `Agent` from a model."""
