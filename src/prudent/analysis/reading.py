"""How the analysis reads what people give: several policies at once, a posterior or its draws."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, distribution, finite_array, refuse, require_shape
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.known import MDP
from ..models.uncertain import UncertainMDP
from ..planning.brmdp import BayesianRiskMDP
from ..planning.solution import Solution
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior

__all__ = ["Belief", "NamedPolicy", "named_policies", "policy_matrix", "read_belief", "start_distribution"]


class NamedPolicy(NamedTuple):
    """A policy as people call it."""

    name: Hashable
    weights: FloatArray  # [S, A] the chance of each action
    solution: Solution | None  # where it came from


class Belief(NamedTuple):
    """What is believed about theta: Dirichlet counts, or draws."""

    counts: FloatArray | None  # [B, K]
    theta: FloatArray | None  # [N, B, K]

    @property
    def mean(self) -> FloatArray:
        """The mean of theta [B, K]."""
        if self.counts is not None:
            return self.counts / self.counts.sum(axis=1, keepdims=True)
        assert self.theta is not None
        return np.asarray(self.theta.mean(axis=0))


def read_belief(
    model: UncertainMDP, posterior: Any, reward_posterior: NormalPosterior | BetaPosterior | None = None
) -> Belief:
    """Return a :class:`DirichletPosterior` or its counts [B, K], or draws [N, B, K], checked against ``model``."""
    if not isinstance(model, UncertainMDP):
        hint = "; what a policy earns in a known model is prudent.evaluate" if isinstance(model, MDP) else ""
        raise ModelError(f"expected an UncertainMDP, got {type(model).__name__}{hint}")
    given = isinstance(posterior, DirichletPosterior) or np.ndim(posterior) < 3
    problem = BayesianRiskMDP(model, posterior if given else model.prior(), 0.0, reward_posterior=reward_posterior)
    if given:
        return Belief(problem.posterior.counts, None)
    shape = model.outcome_mask.shape
    theta = finite_array(posterior, "posterior", ndim=3, error=PosteriorError)
    require_shape(theta, "posterior", (theta.shape[0], *shape), "[N, B, K]", error=PosteriorError)
    if not theta.size:
        raise PosteriorError("posterior holds no draws")
    theta = distribution(theta, "posterior", error=PosteriorError)
    stray = (theta > 0.0) & ~model.outcome_mask
    refuse(stray, theta, "posterior", "0: this source has no such outcome", error=PosteriorError)
    return Belief(None, theta)


def named_policies(model: UncertainMDP, policies: Any) -> list[NamedPolicy]:
    """Return the policies of a mapping {name: policy}, of a list of policies, or of one policy."""
    if _is_one(model, policies):
        named: list[tuple[Hashable, Any]] = [("policy", policies)]
    elif isinstance(policies, Mapping):
        named = list(policies.items())
    else:
        named = [(f"policy {i}", policy) for i, policy in enumerate(policies)]
    if not named:
        raise ParameterError("policies holds no policy")
    return [_named(model, name, policy) for name, policy in named]


def _named(model: UncertainMDP, name: Hashable, policy: Any) -> NamedPolicy:
    try:
        weights = policy_matrix(model, policy)
    except ParameterError as error:
        raise ParameterError(f"policies[{name!r}]: {error}") from None
    return NamedPolicy(name, weights, policy if isinstance(policy, Solution) else None)


def _is_one(model: UncertainMDP, policies: Any) -> bool:
    """Return whether this is a policy itself, and not several of them."""
    if isinstance(policies, Solution) or (hasattr(policies, "index") and hasattr(policies, "to_numpy")):  # pandas
        return True
    if isinstance(policies, Mapping):
        return all(
            model.state_labels.find(state) >= 0
            and (
                _is_action(model, choice) or (isinstance(choice, Mapping) and all(_is_action(model, a) for a in choice))
            )
            for state, choice in policies.items()
        )
    if isinstance(policies, np.ndarray):
        return True
    try:
        members = list(policies)
    except TypeError:
        raise ParameterError(f"policies must be a policy, a list or a dict of policies, got {policies!r}") from None
    if members and all(np.ndim(each) == 1 and np.asarray(each).dtype.kind == "f" for each in members):
        return True  # rows of probabilities
    return all(_is_action(model, each) or (np.ndim(each) == 0 and not _is_policy(each)) for each in members)


def _is_policy(value: Any) -> bool:
    return isinstance(value, (Solution, Mapping))


def _is_action(model: UncertainMDP, value: Any) -> bool:
    return model.action_labels.find(value) >= 0


def policy_matrix(model: UncertainMDP, policy: Any) -> FloatArray:
    """Return the chance of each action [S, A] under a policy.

    One action for each state (a list, an array, a Solution), probabilities [S, A], or a mapping or pandas object by
    the names of states: to an action, or to the chances of actions.
    """
    weights = np.zeros((model.n_states, model.n_actions))
    if isinstance(policy, Solution):
        policy = policy.policy
    if hasattr(policy, "to_dict") and hasattr(policy, "index"):  # a Series by state, a DataFrame by state and action
        policy = policy.to_dict("index") if hasattr(policy, "columns") else policy.to_dict()
    if isinstance(policy, Mapping):
        _fill_by_name(model, policy, weights)
    elif np.ndim(policy) == 2:
        weights = finite_array(policy, "policy", ndim=2, error=ParameterError)
        require_shape(weights, "policy", (model.n_states, model.n_actions), "[S, A]", error=ParameterError)
    else:
        weights[np.arange(model.n_states), model.policy_indices(policy)] = 1.0
    weights = distribution(weights, "policy", error=ParameterError)
    refuse((weights > 0.0) & ~model.admissible, weights, "policy", "0: not admissible", error=ParameterError)
    return weights


def _fill_by_name(model: UncertainMDP, policy: Mapping[Any, Any], weights: FloatArray) -> None:
    given = np.zeros(model.n_states, dtype=np.bool_)
    for state, choice in policy.items():
        s = model.state_labels.index(state, "a state of the policy")
        given[s] = True
        chances = choice if isinstance(choice, Mapping) else {choice: 1.0}
        for action, chance in chances.items():
            weights[
                s, model.action_labels.index(action, f"the action of the policy in {model.state_labels.show(s)}")
            ] = chance
    if not given.all():
        missing = np.flatnonzero(~given)
        more = f" and {missing.size - 1} more" if missing.size > 1 else ""
        raise ParameterError(f"policy says nothing of {model.state_labels.show(int(missing[0]))}{more}")


def start_distribution(model: UncertainMDP, start: Any) -> FloatArray:
    """Return the chance of each state [S] to be the first: of a state, of probabilities by state or [S], or uniform."""
    if start is None:
        return np.full(model.n_states, 1.0 / model.n_states)
    chances = np.zeros(model.n_states)
    s = model.state_labels.find(start)
    if s >= 0:
        chances[s] = 1.0
        return chances
    if hasattr(start, "to_dict"):
        start = start.to_dict()
    if isinstance(start, Mapping):
        for state, chance in start.items():
            chances[model.state_labels.index(state, "start")] = chance
    elif np.ndim(start) == 0:
        model.state_labels.index(start, "start")  # raises
    else:
        chances = finite_array(start, "start", ndim=1, error=ParameterError)
        require_shape(chances, "start", (model.n_states,), "[S]", error=ParameterError)
    return distribution(chances, "start", error=ParameterError)
