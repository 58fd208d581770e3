"""Posterior sampling with any posterior, and in episodes of finite length.

At the start of an episode the agent draws n models theta [n, B, K] from its posterior and follows the policy that is
optimal for a risk measure of these draws at every step: that of the infinite horizon, or, with ``horizon=H``, the
policy [H, S] of H steps. One draw with ``horizon=H`` is posterior sampling for episodic MDPs (PSRL).

The posterior is any object with ``sample(n, rng)``, which returns probabilities of the outcomes of all sources, and
``update(source, outcome)``. So the unknown may have features (softmax, linear), a hierarchy, or come from a sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    generator,
    instance_of,
    require_shape,
    takes,
    whole_number,
)
from ..data.labels import Labels
from ..errors import DataError, ModelError, ParameterError, PosteriorError
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..posteriors.dirichlet import DirichletPosterior, prior_counts
from ..risk import RiskMeasure, measure_of, sample_size
from ..types import RngLike

SUM_TOLERANCE = 1e-9


class ModelPosterior(Protocol):
    """Protocol of a posterior for a `ModelSamplingAgent`."""

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """Draw probabilities of the outcomes of all sources.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, B, K].
        """

    def update(self, source: int, outcome: int) -> Any:
        """Learn one outcome of a source.

        Parameters
        ----------
        source, outcome : int
            Indices.

        Returns
        -------
        object
            Anything.
        """


MakePosterior: TypeAlias = Callable[[UncertainMDP], ModelPosterior]
"""A function that returns the posterior of a model before data."""


class ModelSamplingAgent:
    """Agent that plans with draws from any posterior, also in episodes of finite length.

    It follows the protocol `Agent`, so states, actions and outcomes are indices.

    Parameters
    ----------
    model : UncertainMDP
        What is known about the environment.
    posterior : callable, optional
        Function of the model that returns the posterior before data: an object with ``sample(n, rng)`` and
        ``update(source, outcome)``. The default is a Dirichlet posterior with a count of one for every outcome.
    alpha : float, optional
        Risk level of CVaR in (-1, 1). The default is 0.
    risk : RiskMeasure, optional
        Another measure of the draws, instead.
    draws : int, optional
        Number of posterior draws. The default is ceil(1 / (1 - alpha)).
    episode_length : int, default=10
        Decisions between two draws, if the process runs on.
    horizon : int, optional
        Steps of an episode of finite length. The policy then depends on the step, and the discount may be 1.

    Attributes
    ----------
    posterior : object
        The current posterior.

    Raises
    ------
    ModelError
        If `model` is not an UncertainMDP.
    ParameterError
        If a setting is out of range, or the discount is 1 without a horizon.
    PosteriorError
        If draws are not probabilities of the outcomes of the model.

    See Also
    --------
    PosteriorSamplingAgent : The same for Dirichlet posteriors that run on, compiled.
    prudent.testing.check_posterior : Tests whether a posterior can be used here.

    Examples
    --------
    Posterior sampling in episodes of 8 steps:

    >>> import prudent as pr
    >>> def psrl(model):
    ...     return ModelSamplingAgent(model, horizon=8)
    >>> runs = pr.simulate(pr.envs.river_swim(4), psrl, episodes=20, episode_length=8, replications=3, episodic=True)
    >>> bool((runs.regret.diff("episode") >= -1e-12).all())
    True
    """

    def __init__(
        self,
        model: UncertainMDP,
        posterior: MakePosterior | None = None,
        *,
        alpha: float | None = None,
        risk: RiskMeasure | None = None,
        draws: int | None = None,
        episode_length: int = 10,
        horizon: int | None = None,
    ) -> None:
        self._model = instance_of(model, "model", UncertainMDP, error=ModelError)
        self._states, self._actions = Labels("state", None, model.n_states), Labels("action", None, model.n_actions)
        self._make = _dirichlet if posterior is None else posterior
        self._risk = measure_of(0.0 if alpha is None and risk is None else alpha, risk)
        level = getattr(self._risk, "alpha", None)
        if draws is None and level is None:
            text = f"draws must be given for {self._risk!r}: the draw rule is for a risk level"
            raise ParameterError(text, code="missing-argument", argument="draws")
        self._draws = sample_size(level) if draws is None else whole_number(draws, "draws")  # type: ignore[arg-type]
        self._horizon = None if horizon is None else whole_number(horizon, "horizon")
        if horizon is None:
            model.require_discounted("agents without a horizon")
        self._length = whole_number(episode_length, "episode_length") if horizon is None else self._horizon
        if not callable(self._make):
            text = (
                f"posterior is {posterior!r}, expected a function of the model that returns the posterior before data"
            )
            raise ParameterError(text, code="wrong-type", argument="posterior", value=posterior)
        self.reset(np.random.default_rng(0))
        for name in ("sample", "update"):
            method = getattr(self.posterior, name, None)
            if not callable(method) or not takes(method, 2):
                expected = "sample(n, rng)" if name == "sample" else "update(source, outcome)"
                text = f"posterior returned {self.posterior!r}, which has no {expected}"
                raise ParameterError(text, code="wrong-type", argument="posterior", value=self.posterior)

    def reset(self, rng: RngLike = None) -> None:
        """Forget what was learned, and begin with another random stream.

        Parameters
        ----------
        rng : int, Generator or None, optional
            Seed, or a Generator that the agent then owns.
        """
        self._rng = generator(rng)
        self.posterior = self._make(self._model)
        self._policy: IntArray | None = None
        self._step = 0

    @property
    def policy(self) -> IntArray:
        """Index of the action in every state [S], or at every step of the horizon [H, S]."""
        if self._policy is None:
            self._refresh()
        return self._policy  # type: ignore[return-value]

    def act(self, state: int) -> int:
        """Return the action; the first call of an episode draws a new policy.

        Parameters
        ----------
        state : int
            Index of the current state.

        Returns
        -------
        int
            Index of the action.
        """
        if self._policy is None or self._step == self._length:
            self._refresh()
        row = self.policy[self._step] if self._horizon else self.policy
        self._step += 1
        return int(row[self._states.index(state)])

    def observe(
        self, state: int, action: int, next_state: int | None, outcome: int | None = None, reward: float | None = None
    ) -> None:
        """Learn the outcome of one transition.

        Parameters
        ----------
        state, action : int
            Where the transition began, and the action taken.
        next_state : int or None
            Where it led; None if the process ended.
        outcome : int or None, optional
            Outcome of the source. It may be left out where only one outcome leads to `next_state`.
        reward : float or None, optional
            Not used: the model knows it.

        Raises
        ------
        DataError
            If no outcome, or more than one, explains the transition.
        """
        state, action = self._states.index(state), self._actions.index(action)
        next_state = None if next_state is None else self._states.index(next_state, "next_state")
        source = int(self._model.source[state, action])
        if outcome is None:
            outcome = self._explained(state, action, next_state)
        self.posterior.update(source, int(outcome))
        ended = next_state is None or bool(self._model.terminal[next_state])
        if ended and self._horizon:  # the episode is over
            self._policy = None

    def _explained(self, state: int, action: int, next_state: int | None) -> int:
        targets = self._model.next_state[state, action]
        found = np.flatnonzero(targets == (-2 if next_state is None else next_state))
        if found.size != 1:
            text = (
                f"{found.size} outcomes lead from state {state} with action {action} to {next_state}; this agent "
                "learns only from transitions whose outcome is known"
            )
            raise DataError(text, code="unknown-outcome", argument="outcome", state=state, action=action)
        return int(found[0])

    def _refresh(self) -> None:
        """Draw from the posterior and solve for a policy."""
        theta = self._drawn()
        problem = BayesianRiskMDP(self._model, draws=theta, risk=self._risk)
        solution = problem.solve(horizon=self._horizon, threads=1) if self._horizon else problem.solve(threads=1)
        self._policy, self._step = np.asarray(solution.policy), 0

    def _drawn(self) -> FloatArray:
        theta = finite_array(self.posterior.sample(self._draws, self._rng), "posterior draws", error=PosteriorError)
        shape = (self._draws, *self._model.outcome_mask.shape)
        require_shape(theta, "posterior draws", shape, "[N, B, K]", error=PosteriorError)
        if (theta < 0.0).any() or (abs(theta.sum(axis=2) - 1.0) > SUM_TOLERANCE).any():
            text = "posterior draws must be probabilities that sum to one over the outcomes of each source"
            raise PosteriorError(text, code="sum-not-one", argument="posterior")
        return theta


def _dirichlet(model: UncertainMDP) -> DirichletPosterior:
    """Return a Dirichlet posterior with a count of one for every outcome."""
    return DirichletPosterior(prior_counts(model))
