"""What the analyses share: they read policies, a posterior or its draws, and do work in units on threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._numerics.compile import each_row, over_rows
from .._support.checks import require_scale, whole_number
from .._support.progress import Progress
from ..data.policy import Policy, named_policies
from ..errors import ParameterError, PosteriorError
from ..models.base import TabularModel
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP, RewardsLike
from ..planning.solution import Solution
from ..types import FloatArray, IntArray, PolicyLike


class NamedPolicy(NamedTuple):
    """A policy with its name."""

    name: Hashable
    weights: FloatArray  # [S, A] probabilities of actions; with a horizon [T, S, A], or [1, S, A] if always the same
    value: FloatArray | None  # [S] values of the Solution that it is from


class Belief(NamedTuple):
    """Posterior of the probabilities of outcomes: Dirichlet counts, or draws; packed by slots."""

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
        """Largest excess over one of the probabilities of a source, in draws of the caller."""
        if self.theta is None:
            return 0.0
        return max(0.0, float(np.add.reduceat(self.theta, self.begin[:-1], axis=1).max()) - 1.0)


def problem_of(model: UncertainMDP, posterior: Any, alpha: float, reward_posterior: RewardsLike) -> BayesianRiskMDP:
    """Return the Bayesian risk MDP of a posterior: an object, counts [B, K], or draws [N, B, K]."""
    if posterior is None or isinstance(posterior, (str, bytes)):
        kinds = "a DirichletPosterior, its counts [B, K], or draws [N, B, K]"
        message = f"posterior must be {kinds}, got {posterior!r}"
        raise PosteriorError(message, code="wrong-type", argument="posterior", value=posterior)
    drawn = isinstance(posterior, (np.ndarray, list, tuple)) and np.ndim(posterior) > 2
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
        return whole_number(horizon, "horizon")
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


def over_units(work: Callable[[int], int], units: int, threads: int, what: str, progress: str) -> None:
    """Call ``work(unit)`` for each unit, on threads, and show how much is done.

    Parameters
    ----------
    work : callable
        Does a unit and returns how much that is.
    units, threads : int
        Numbers of units and of threads.
    what : str
        Title of the line of progress.
    progress : str
        Its text, a format with a field for how much is done.
    """
    line, done = Progress(what), 0

    def part(begin: int, end: int) -> None:
        nonlocal done
        for unit in each_row(begin, end):
            done += work(unit)
            line.show(progress.format(done))

    over_rows(part, units, threads, long=True)
    line.close()
