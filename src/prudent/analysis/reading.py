"""What the analyses share: they read policies, a posterior or its draws, and do work in units on threads."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from .._support.checks import axes_of, require_scale, whole_number
from ..data.policy import Policy, named_policies
from ..errors import ParameterError, PosteriorError
from ..models.base import TabularModel
from ..models.uncertain import UncertainMDP
from ..planning.drawn_policies import Belief, NamedPolicy
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.unknown_rewards import RewardsLike
from ..types import FloatArray, PolicyLike


def problem_of(model: UncertainMDP, posterior: Any, alpha: float, reward_posterior: RewardsLike) -> BayesianRiskMDP:
    """Return the Bayesian risk MDP of a posterior: an object, counts [B, K], or draws [N, B, K]."""
    if posterior is None or isinstance(posterior, (str, bytes)):
        kinds = "a DirichletPosterior, its counts [B, K], or draws [N, B, K]"
        message = f"posterior must be {kinds}, got {posterior!r}"
        raise PosteriorError(message, code="wrong-type", argument="posterior", value=posterior)
    drawn = isinstance(posterior, (np.ndarray, list, tuple)) and axes_of(posterior) > 2
    given: dict[str, Any] = {"draws" if drawn else "posterior": posterior}
    problem = BayesianRiskMDP(model, **given, alpha=alpha, reward_posterior=reward_posterior)
    require_scale(model.entries.reward, "questions about returns over the posterior")
    return problem


def read_belief(model: UncertainMDP, posterior: Any, reward_posterior: RewardsLike = "certain") -> Belief:
    """Return what a posterior says, checked against ``model``."""
    problem = problem_of(model, posterior, 0.0, reward_posterior)
    counts = None if problem.posterior is None else model.entries.pack(problem.posterior.counts)
    return Belief(counts, None if problem.draws is None else model.entries.pack(problem.draws), model.entries.begin)


def horizon_of(horizon: int | None, policies: Any, model: UncertainMDP) -> int | None:
    """Return the number of steps: as given, or that of the first policy that depends on time."""
    if horizon is not None:
        return whole_number(horizon, "horizon", maximum=10**9)
    for _, policy in named_policies(policies, model):
        steps = getattr(policy, "horizon", None)
        if steps is None and isinstance(policy, np.ndarray) and policy.ndim == 3:
            steps = policy.shape[0]
        if steps is not None and getattr(policy, "later", None) is None:
            return int(steps)
    return None


def read_policies(
    model: UncertainMDP, policies: PolicyLike | Mapping[Hashable, PolicyLike], horizon: int | None = None
) -> list[NamedPolicy]:
    """Return the policies of a mapping {name: policy}, of a list of policies, or of one policy."""
    given, named = named_policies(policies, model), []
    for name, policy in given:
        try:
            if horizon is None:
                weights = model.policy_matrix(policy)
            else:
                weights = Policy.read(policy, model, horizon).plan(horizon, model.n_actions)
            named.append(NamedPolicy(name, weights, _values(model, policy)))
        except ParameterError as error:
            if len(given) == 1 and name == "policy":
                raise
            raise type(error)(f"policies[{name!r}]: {error}", code=error.code, **error.fields) from None
    return named


def _values(model: UncertainMDP, policy: Any) -> FloatArray | None:
    """Return the values of a Solution in the order of the model's states; 0 for states that it does not have."""
    if not isinstance(policy, Solution):
        return None
    first = policy.value if policy.horizon is None else policy.value[0]
    if policy.states == model.states:
        return first
    values = dict(zip(policy.states or (), first, strict=True))
    return np.array([values.get(state, 0.0) for state in model.states])


def start_in_words(model: TabularModel, start: FloatArray) -> str:
    """Format the distribution ``start`` [S] of the first state for messages and figures."""
    states = np.flatnonzero(start)
    if states.size == 1:
        return model.state_labels.show(int(states[0]))
    even = "evenly" if np.ptp(start[states]) == 0.0 else "with given chances"
    return f"{states.size} states, {even}"
