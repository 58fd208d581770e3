"""How the analysis reads what people give: several policies at once, a posterior or its draws."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, IntArray
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.base import TabularModel
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..posteriors.scalar import BetaPosterior, NormalPosterior

__all__ = ["Belief", "NamedPolicy", "named_policies", "problem_of", "read_belief", "start_in_words"]


class NamedPolicy(NamedTuple):
    """A policy as people call it."""

    name: Hashable
    weights: FloatArray  # [S, A] the chance of each action
    value: FloatArray | None  # [S] of the Solution that it came from


class Belief(NamedTuple):
    """What is believed about the probabilities of outcomes: Dirichlet counts, or draws; packed by slots."""

    counts: FloatArray | None  # [F]
    theta: FloatArray | None  # [N, F]
    begin: IntArray  # [B + 1] the slots of each source

    @property
    def mean(self) -> FloatArray:
        """The mean probabilities [F]."""
        if self.counts is None:
            assert self.theta is not None
            return np.asarray(self.theta.mean(axis=0))
        return self.counts / np.repeat(np.add.reduceat(self.counts, self.begin[:-1]), np.diff(self.begin))

    @property
    def surplus(self) -> float:
        """By how much the probabilities of a source may exceed one, in draws that were given."""
        if self.theta is None:
            return 0.0
        return max(0.0, float(np.add.reduceat(self.theta, self.begin[:-1], axis=1).max()) - 1.0)


def problem_of(
    model: UncertainMDP,
    posterior: Any,
    alpha: float,
    reward_posterior: NormalPosterior | BetaPosterior | None,
) -> BayesianRiskMDP:
    """Return the Bayesian risk MDP of a posterior: an object, counts [B, K], or draws [N, B, K]."""
    if not isinstance(model, UncertainMDP):
        hint = "; what a policy earns in a known model is prudent.evaluate" if isinstance(model, MDP) else ""
        raise ModelError(f"expected an UncertainMDP, got {type(model).__name__}{hint}")
    model.require_discounted("questions about returns over the posterior")
    if posterior is None or isinstance(posterior, (str, bytes)):
        kinds = "a DirichletPosterior, its counts [B, K], or draws [N, B, K]"
        raise PosteriorError(f"posterior must be {kinds}, got {posterior!r}")
    drawn = isinstance(posterior, (np.ndarray, list, tuple)) and np.ndim(posterior) > 2
    given: dict[str, Any] = {"draws" if drawn else "posterior": posterior}
    return BayesianRiskMDP(model, **given, alpha=alpha, reward_posterior=reward_posterior)


def read_belief(
    model: UncertainMDP, posterior: Any, reward_posterior: NormalPosterior | BetaPosterior | None = None
) -> Belief:
    """Return what a posterior says, checked against ``model``."""
    problem = problem_of(model, posterior, 0.0, reward_posterior)
    counts = None if problem.posterior is None else model.entries.pack(problem.posterior.counts)
    return Belief(counts, None if problem.draws is None else model.entries.pack(problem.draws), model.entries.begin)


def named_policies(model: UncertainMDP, policies: Any) -> list[NamedPolicy]:
    """Return the policies of a mapping {name: policy}, of a list of policies, or of one policy."""
    if isinstance(policies, str) or not (isinstance(policies, Solution) or hasattr(policies, "__iter__")):
        raise ParameterError(f"policies must be a policy, a list or a dict of policies, got {policies!r}")
    if not isinstance(policies, (Mapping, Solution)) and not hasattr(policies, "__len__"):
        policies = list(policies)
    if not isinstance(policies, Solution) and len(policies) == 0:
        raise ParameterError("policies holds no policy")
    if _is_one(model, policies):
        return [NamedPolicy("policy", model.policy_matrix(policies), _values(model, policies))]
    if isinstance(policies, Mapping):
        named: list[tuple[Hashable, Any]] = list(policies.items())
    else:
        named = [(f"policy {i}", policy) for i, policy in enumerate(policies)]
    return [_named(model, name, policy) for name, policy in named]


def _named(model: UncertainMDP, name: Hashable, policy: Any) -> NamedPolicy:
    try:
        return NamedPolicy(name, model.policy_matrix(policy), _values(model, policy))
    except ParameterError as error:
        raise ParameterError(f"policies[{name!r}]: {error}") from None


def _values(model: UncertainMDP, policy: Any) -> FloatArray | None:
    """Return the values of a Solution in the order of the model's states; 0 for states that it does not know."""
    if not isinstance(policy, Solution) or policy.states == model.states:
        return policy.value if isinstance(policy, Solution) else None
    known = dict(zip(range(policy.value.size) if policy.states is None else policy.states, policy.value, strict=True))
    return np.array([known.get(state, 0.0) for state in model.states or range(model.n_states)])


def _is_one(model: UncertainMDP, policies: Any) -> bool:
    """Return whether this is a policy itself, and not several of them.

    A mapping is one if it leads to actions, or from states to chances of actions. A list is one if it holds
    actions, or rows of probabilities.
    """
    if isinstance(policies, Mapping):
        chances = all(
            isinstance(choice, Mapping) and all(map(_action_of(model), choice)) for choice in policies.values()
        )
        by_state = all(model.state_labels.find(state) >= 0 for state in policies)
        return (by_state and chances) or not any(_is_policy(model, choice) for choice in policies.values())
    if not isinstance(policies, (list, tuple)):
        return True  # a Solution, an array, a pandas object
    if not any(_is_policy(model, each) for each in policies):
        return True
    rows = all(isinstance(each, (list, tuple, np.ndarray)) and np.ndim(each) == 1 for each in policies)
    return rows and any(isinstance(number, (float, np.floating)) for row in policies for number in row)


def _is_policy(model: UncertainMDP, value: Any) -> bool:
    """Return whether this cannot be an action."""
    return isinstance(value, (Solution, Mapping)) or (np.ndim(value) > 0 and not _action_of(model)(value))


def _action_of(model: UncertainMDP) -> Callable[[Any], bool]:
    return lambda value: model.action_labels.find(value) >= 0


def start_in_words(model: TabularModel, start: FloatArray) -> str:
    """Return where a process begins, with probabilities ``start`` [S], as messages and figures say it."""
    states = np.flatnonzero(start)
    if states.size == 1:
        return model.state_labels.show(int(states[0]))
    even = "evenly" if np.ptp(start[states]) == 0.0 else "with given chances"
    return f"{states.size} states, {even}"
