"""Posterior sampling with a risk level: the paper's BRPS-RL (Algorithm 1) and related agents, by one engine.

At the start of an episode the agent draws n models from its posterior, values every action by a risk measure of
these draws at every step ahead (the approximate Bayesian-risk operator T-hat), and follows the optimal policy of that
for the episode. The risk is CVaR_alpha by default and n = ceil(1 / (1 - alpha)), the draw rule.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, whole_number
from .._support.state import LARGEST_COUNT, Arrays, State, require_like
from ..errors import ConvergenceWarning, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.inner import grid, known_part, refresh, work_space
from ..risk import RiskMeasure
from ..types import ArrayLike, Label, RngLike, TableLike
from .sampling_settings import Levels, SamplingSettings
from .tabular import TabularAgent


class PosteriorSamplingAgent(TabularAgent):
    """Agent that learns a model while it acts: BRPS-RL, Thompson sampling, certainty equivalence, worst case.

    An observation may come at any time, also after the episode it belongs to. It counts from the next refresh of the
    policy on.

    Parameters
    ----------
    model : UncertainMDP
        What is known about the environment.
    alpha, draws, risk, estimator, sweeps : optional
        As in `SamplingSettings`.
    settings : SamplingSettings, optional
        All of these at once, instead.
    episode_length : int or None, default=10
        Decisions between refreshes of the policy. With None the policy changes only when `refresh` is called.
    prior : float or array_like, optional
        A number is the mass of a pair of state and action, spread evenly over its outcomes; an array [B, K] gives every
        Dirichlet count. The default is a count of one for every outcome.
    rng : int, Generator or None, optional
        Seed, or a Generator that the agent then owns.
    indices : bool, default=False
        Whether states, actions and outcomes are given by index even if the model has names for them.

    Raises
    ------
    ModelError
        If `model` is not an UncertainMDP with a discount below 1.
    ParameterError
        If a setting is out of range.
    PosteriorError
        If `prior` does not fit the model.

    Examples
    --------
    >>> model = UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
    >>> agent = PosteriorSamplingAgent(model, alpha=0.9, episode_length=5, rng=1)
    >>> action = agent.act(0)
    >>> agent.observe(0, action, 1)
    >>> float(agent.posterior.counts[action].sum())
    3.0
    """

    def __init__(
        self,
        model: UncertainMDP,
        alpha: Levels | None = None,
        *,
        draws: int | str | None = None,
        risk: RiskMeasure | None = None,
        estimator: str = "cvar",
        sweeps: int | None = None,
        settings: SamplingSettings | None = None,
        episode_length: int | None = 10,
        prior: ArrayLike | None = None,
        rng: RngLike = None,
        indices: bool = False,
    ) -> None:
        levels: Any = alpha
        single = SamplingSettings(levels, draws, risk, estimator, sweeps)
        if settings is not None and single != SamplingSettings():
            text = "give either settings or single ones such as alpha and draws, not both"
            raise ParameterError(text, code="conflicting-arguments", argument="settings")
        super().__init__(model, prior, rng, indices)
        self._settings = single if settings is None else settings
        self._length = None if episode_length is None else whole_number(episode_length, "episode_length")
        self._plan = self._settings.plan()
        self._known = known_part(model)
        self.require_memory(self._settings.most_draws)
        self._work = work_space(model, self._settings.most_draws)
        self._value = np.zeros(model.n_states)
        self._policy: IntArray = np.argmax(model.admissible, axis=1)  # until the first refresh
        self._choices: list[Any] = []  # the policy as act returns it; empty before the first refresh
        self._episode = -1
        self._steps_left: float = 0

    def act(self, state: Label) -> Any:
        """Return the action; the first call of every episode refreshes the policy.

        Parameters
        ----------
        state : hashable
            The current state.

        Returns
        -------
        hashable
            The action.
        """
        s = self._reader.states.index(state)
        if self._steps_left <= 0:
            self.refresh()
        self._steps_left -= 1
        return self._choices[s]

    def reset(self, rng: RngLike = None) -> None:
        """Forget what was learned, and begin with another random stream and a new episode.

        Parameters
        ----------
        rng : int, Generator or None, optional
            Seed, or a Generator that the agent then owns.
        """
        super().reset(rng)
        self._value[...] = 0.0
        self._policy = np.argmax(self._model.admissible, axis=1)
        self._choices, self._episode, self._steps_left = [], -1, 0

    def observe(
        self, state: Label, action: Label, next_state: Label, outcome: Any = None, reward: float | None = None
    ) -> None:
        """Count one transition.

        Parameters
        ----------
        state, action : hashable
            Where the transition began, and the action taken.
        next_state : hashable
            Where it led; None if the process ended.
        outcome : hashable, optional
            Outcome of the source, if it was seen.
        reward : float, optional
            Not used: the model knows it.

        Raises
        ------
        DataError
            If the transition is impossible. It is not counted then.
        """
        self.count(self.transition(state, action, next_state, outcome))

    def observe_log(self, log: TableLike) -> None:
        """Count a log of transitions: all rows or, if one is wrong, none.

        Parameters
        ----------
        log : table
            Transitions, as `prudent.UncertainMDP.count` reads them.

        Raises
        ------
        DataError
            If a row is impossible.

        Examples
        --------
        >>> agent = PosteriorSamplingAgent(UncertainMDP.direct([[0.0], [1.0]], discount=0.9), rng=1)
        >>> agent.observe_log([(0, 0, 1), (1, 0, 1)])
        >>> agent.posterior.counts
        array([[1., 2.],
               [1., 2.]])
        """
        self.counts[...] = self._model.count(log, self.counts, indices=self._indices)

    def refresh(self) -> None:
        """Start an episode now: draw from the posterior and solve for a policy."""
        episode = self._episode + 1
        plan = self._plan
        if self._settings.schedule is not None:
            prior = self.prior
            seen = round(float((self.counts - prior).sum(axis=1).max()))
            plan = self._settings.plan(prior, grid(episode)[-1:], max(seen, 0))
        converged = refresh(self.rng, self._known, self._work, self.counts, plan, episode, self._value, self._policy)
        if not converged:
            text = f"the policy of episode {episode} stopped at the maximum number of backups"
            warnings.warn(ConvergenceWarning(text, code="policy-not-optimal", episode=episode), stacklevel=2)
        self._episode = episode
        self._steps_left = math.inf if self._length is None else self._length
        self._choices = self.action_names(self._policy)

    @property
    def settings(self) -> SamplingSettings:
        """How the agent turns its posterior into a policy."""
        return self._settings

    @property
    def policy(self) -> IntArray:
        """Index of the current action in every state [S]; refreshes if there is no policy yet."""
        if self._episode < 0:
            self.refresh()
        return self._policy.copy()

    @property
    def value(self) -> FloatArray:
        """Risk-averse values [S] of the current policy, for the draws that it was made from."""
        if self._episode < 0:
            self.refresh()
        return self._value.copy()

    @property
    def episode(self) -> int:
        """Number of the current episode, counting from 0; -1 before the first."""
        return self._episode

    def own_state(self) -> State:
        """Return settings, episode, value and policy.

        Returns
        -------
        values : dict
            Settings and where the agent is in its episode.
        arrays : dict of str to ndarray
            Value and policy.
        """
        values = {
            "settings": self._settings.to_dict(),
            "episode_length": self._length,
            "episode": self._episode,
            "steps_left": -1 if math.isinf(self._steps_left) else int(self._steps_left),
        }
        return values, {"value": self._value, "policy": self._policy}

    @classmethod
    def from_settings(cls, model: UncertainMDP, values: dict[str, Any]) -> Self:
        """Return a new agent with saved settings.

        Parameters
        ----------
        model : UncertainMDP
            The model of the saved agent.
        values : dict
            Saved values.

        Returns
        -------
        PosteriorSamplingAgent
            An agent without data.
        """
        settings = SamplingSettings.from_dict(values["settings"])
        length, indices = values["episode_length"], values["indices"]
        return cls(model, settings=settings, episode_length=length, rng=0, indices=indices)

    def resume(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take over a saved state.

        Parameters
        ----------
        values : dict
            Saved values.
        arrays : dict of str to ndarray
            Saved arrays.

        Raises
        ------
        ValueError
            If no agent has this state.
        """
        super().resume(values, arrays)
        require_like(arrays, self.own_state()[1])
        self._value[...], self._policy[...] = arrays["value"], arrays["policy"]
        largest = 2.0 * float(abs(self._model.entries.reward).max()) / (1.0 - self._model.discount)
        if not (abs(self._value) <= largest).all():
            raise ValueError(f"value must be numbers of at most {largest}, twice the largest value of the rewards")
        self._model.policy_indices(self._policy)
        self._episode = whole_number(values["episode"], "episode", -1, LARGEST_COUNT)
        endless = self._episode >= 0 and self._length is None
        most = -1 if endless else 0 if self._episode < 0 else self._length
        steps = whole_number(values["steps_left"], "steps_left", -1 if endless else 0, most)
        self._steps_left = math.inf if endless else steps
        if self._episode >= 0:
            self._choices = self.action_names(self._policy)

    def __repr__(self) -> str:
        return f"PosteriorSamplingAgent({self._settings.label}, {self._model!r}, episode {self._episode})"
