"""What a contextual bandit is played on: a small protocol, clicks with a logistic law, and drift.

Any object with ``n_arms``, ``dim``, ``context(t, rng)`` and ``reward(t, context, arm, rng)`` is an environment for
:func:`prudent.simulation.simulate_bandit`. Optional are ``mean_rewards(t, context)`` [A], from which regret is
worked out,
``steps``, how long a run can be, and ``start(rng)``, which returns the environment of one run (with a shuffle of its
own, say).
A reward should draw the same number of random numbers whatever the arm, so that all agents face the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from scipy.special import expit, logit

from .._support.checks import FloatArray, finite_array, generator, open_probability, whole_number
from ..errors import ModelError, ParameterError
from .linear_bandit import OfTheta

__all__ = ["BanditEnvironment", "DriftingEnv", "LogisticBanditEnv", "drifting", "logistic_bandit"]


@runtime_checkable
class BanditEnvironment(Protocol):
    """What :func:`prudent.simulation.simulate_bandit` asks of an environment; steps are t = 1, 2, ...

    >>> class Coins:
    ...     n_arms, dim = 2, 1
    ...     def context(self, t, rng):
    ...         return [1.0]
    ...     def reward(self, t, context, arm, rng):
    ...         return float(rng.random() < (0.4, 0.6)[arm])
    >>> isinstance(Coins(), BanditEnvironment)
    True
    """

    @property
    def n_arms(self) -> int:
        """The number of arms A."""

    @property
    def dim(self) -> int:
        """The number of features D."""

    def context(self, t: int, rng: np.random.Generator) -> Any:
        """Return the context [D] of step ``t``."""

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        """Return what ``arm`` pays at step ``t``."""


@dataclass(frozen=True, eq=False)
class LogisticBanditEnv(OfTheta):
    """Clicks: contexts are standard normal [D], and arm a pays 1 with chance 1 / (1 + exp(-(offset_a + s'theta_a))).

    >>> env = LogisticBanditEnv(theta=[[1.0, 0.0], [0.0, 1.0]], offset=[0.0, -1.0])
    >>> env.mean_rewards(1, [0.0, 1.0])
    array([0.5, 0.5])
    """

    theta: FloatArray  # [A,D]
    offset: FloatArray  # [A]

    def __post_init__(self) -> None:
        theta = finite_array(self.theta, "theta", ndim=2, error=ModelError).copy()
        offset = finite_array(self.offset, "offset", ndim=1, error=ModelError).copy()
        if not theta.size or offset.shape != theta.shape[:1]:
            raise ModelError(f"theta has shape {theta.shape} and offset {offset.shape}, expected (A, D) and (A,)")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "offset", offset)

    def context(self, t: int, rng: np.random.Generator) -> FloatArray:
        """Return the context [D] of step ``t``."""
        return rng.standard_normal(self.dim)

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        """Return 1 for a click, else 0."""
        return float(rng.random() < expit(self.offset[arm] + self.theta[arm] @ context))

    def mean_rewards(self, t: int, context: Any) -> FloatArray:
        """Return the chances of a click [A]."""
        return expit(self.offset + self.theta @ np.asarray(context))


def logistic_bandit(
    n_arms: int = 10,
    dim: int = 20,
    rates: Sequence[float] = (0.01, 0.05),
    *,
    strength: float = 0.5,
    seed: Any = 0,
    drift: int | None = None,
) -> LogisticBanditEnv | DriftingEnv:
    """Return a bandit of clicks: the arms' rates in the mean context are spread evenly over ``rates``.

    The coefficients are normal, scaled so that the score of an arm varies by ``strength`` between contexts. With
    ``drift`` every arm takes the coefficients of the next one after step ``drift``.

    >>> logistic_bandit(3, 2).mean_rewards(1, [0.0, 0.0])
    array([0.01, 0.03, 0.05])
    """
    arms, features = whole_number(n_arms, "n_arms"), whole_number(dim, "dim")
    if len(rates) != 2:
        raise ParameterError(f"rates must be the lowest and the highest rate, got {rates!r}")
    low, high = (open_probability(rate, f"rates[{i}]") for i, rate in enumerate(rates))
    theta = generator(seed, "seed").standard_normal((arms, features)) * (float(strength) / np.sqrt(features))
    env = LogisticBanditEnv(theta, logit(np.linspace(low, high, arms)))
    if drift is None:
        return env
    return drifting(env, LogisticBanditEnv(np.roll(theta, -1, axis=0), np.roll(env.offset, -1)), at=drift)


class DriftingEnv:
    """An environment that becomes another one after a step; see :func:`drifting`."""

    def __init__(self, envs: Sequence[Any], ends: Sequence[int]) -> None:
        self._envs, self._ends = tuple(envs), tuple(ends)
        self.n_arms: int = envs[0].n_arms
        self.dim: int = envs[0].dim
        limits = [getattr(env, "steps", None) for env in envs]
        told = [limit for limit in limits if limit is not None]
        self.steps: int | None = min(told) if told else None
        if all(hasattr(env, "mean_rewards") for env in envs):
            self.mean_rewards = self._mean_rewards

    def _now(self, t: int) -> Any:
        return self._envs[sum(t > end for end in self._ends)]

    def context(self, t: int, rng: np.random.Generator) -> Any:
        """Return the context [D] of step ``t``."""
        return self._now(t).context(t, rng)

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        """Return what ``arm`` pays at step ``t``."""
        return self._now(t).reward(t, context, arm, rng)

    def _mean_rewards(self, t: int, context: Any) -> Any:
        return self._now(t).mean_rewards(t, context)

    def start(self, rng: np.random.Generator) -> Self:
        """Return the environment of one run."""
        begun = [env.start(rng) if hasattr(env, "start") else env for env in self._envs]
        return type(self)(begun, self._ends)


def drifting(*envs: Any, at: int | Sequence[int]) -> DriftingEnv:
    """Return an environment that is the first of ``envs`` up to step ``at``, then the second, and so on.

    >>> from prudent.envs import LinearBanditEnv
    >>> env = drifting(LinearBanditEnv([[1.0], [0.0]]), LinearBanditEnv([[0.0], [1.0]]), at=100)
    >>> env.mean_rewards(100, [1.0]), env.mean_rewards(101, [1.0])
    (array([1., 0.]), array([0., 1.]))
    """
    ends = [whole_number(end, "at") for end in ([at] if np.ndim(at) == 0 else at)]  # type: ignore[union-attr]
    if len(envs) != len(ends) + 1 or any(end >= later for end, later in pairwise(ends)):
        raise ParameterError(f"at is {at!r}, expected {len(envs) - 1} rising steps for {len(envs)} environments")
    for i, env in enumerate(envs):
        if not isinstance(env, BanditEnvironment):
            raise ParameterError(f"envs[{i}] is {env!r}, expected a BanditEnvironment")
        shape, first = (env.n_arms, env.dim), (envs[0].n_arms, envs[0].dim)
        if shape != first:
            raise ParameterError(f"envs[{i}] has {shape} arms and features, expected {first} as envs[0]")
    return DriftingEnv(envs, ends)
