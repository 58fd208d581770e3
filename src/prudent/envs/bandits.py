"""Environments of contextual bandits: the protocol, clicks with a logistic law, and drift.

Any object with ``n_arms``, ``dim``, ``context(t, rng)`` and ``reward(t, context, arm, rng)`` is an environment for
`prudent.simulation.simulate_bandit`. Optional are ``mean_rewards(t, context)`` [A], from which regret is
computed, ``steps``, the largest length of a run, and ``start(rng)``, which returns the environment of one run (with
another order of the rows, say).
A reward should draw the same number of random numbers whatever the arm, so that all agents face the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import scipy

from .._support.checks import (
    FloatArray,
    axes_of,
    finite_array,
    finite_number,
    generator,
    instance_of,
    open_probability,
    require_shape,
    whole_number,
)
from ..errors import ModelError, ParameterError
from ..types import ArrayLike, RngLike
from .linear_bandit import OfTheta, coefficients


@runtime_checkable
class BanditEnvironment(Protocol):
    """Protocol of an environment for `prudent.simulation.simulate_bandit`; steps are t = 1, 2, ...

    Examples
    --------
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
        """Number of arms A."""

    @property
    def dim(self) -> int:
        """Number of features D."""

    def context(self, t: int, rng: np.random.Generator) -> Any:
        """Draw the context of a step.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of float
            Context [D].
        """

    def reward(self, t: int, context: ArrayLike, arm: int, rng: np.random.Generator) -> float:
        """Draw the reward of an arm.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Context [D] of the step.
        arm : int
            The arm.
        rng : Generator
            Source of randomness.

        Returns
        -------
        float
            The reward.
        """


@dataclass(frozen=True, eq=False)
class LogisticBanditEnv(OfTheta):
    """Bandit of clicks: arm a pays 1 with probability 1 / (1 + exp(-(offset_a + s'theta_a))), else 0.

    Contexts s are standard normal [D].

    Parameters
    ----------
    theta : array_like
        Coefficients [A, D] of the arms.
    offset : array_like
        Log odds [A] of a click in the mean context.

    Attributes
    ----------
    theta : ndarray of float
        Coefficients [A, D].
    offset : ndarray of float
        Log odds [A].

    Raises
    ------
    ModelError
        If shapes do not match.

    See Also
    --------
    logistic_bandit : Random coefficients.

    Examples
    --------
    >>> env = LogisticBanditEnv(theta=[[1.0, 0.0], [0.0, 1.0]], offset=[0.0, -1.0])
    >>> env.mean_rewards(1, [0.0, 1.0])
    array([0.5, 0.5])
    """

    theta: FloatArray
    offset: FloatArray

    def __post_init__(self) -> None:
        offset = finite_array(self.offset, "offset", ndim=1, error=ModelError).copy()
        object.__setattr__(self, "theta", coefficients(self.theta))
        object.__setattr__(self, "offset", offset)
        require_shape(offset, "offset", (self.n_arms,), "[A]", error=ModelError)

    def context(self, t: int, rng: np.random.Generator) -> FloatArray:
        """Draw the context of a step.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of float
            Context [D].
        """
        return rng.standard_normal(self.dim)

    def reward(self, t: int, context: ArrayLike, arm: int, rng: np.random.Generator) -> float:
        """Draw the reward of an arm.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Context [D] of the step.
        arm : int
            The arm.
        rng : Generator
            Source of randomness.

        Returns
        -------
        float
            1 for a click, else 0.
        """
        return float(rng.random() < scipy.special.expit(self.offset[arm] + self.theta[arm] @ context))

    def mean_rewards(self, t: int, context: ArrayLike) -> FloatArray:
        """Return the probabilities of a click.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Context [D] of the step.

        Returns
        -------
        ndarray of float
            Probabilities [A].
        """
        return scipy.special.expit(self.offset + self.theta @ np.asarray(context))


def logistic_bandit(
    n_arms: int = 10,
    dim: int = 20,
    rates: Sequence[float] = (0.01, 0.05),
    *,
    strength: float = 0.5,
    rng: RngLike = 0,
    drift: int | None = None,
) -> LogisticBanditEnv | DriftingEnv:
    """Return a bandit of clicks with random coefficients.

    Parameters
    ----------
    n_arms : int, default=10
        Number of arms.
    dim : int, default=20
        Number of features.
    rates : sequence of float, default=(0.01, 0.05)
        Lowest and highest click rate in the mean context; those of the arms are spread evenly between.
    strength : float, default=0.5
        Standard deviation of an arm's score between contexts.
    rng : int, Generator or None, default=0
        Source of the normal coefficients.
    drift : int, optional
        Step after which every arm takes the coefficients of the next one.

    Returns
    -------
    LogisticBanditEnv or DriftingEnv
        The environment.

    Raises
    ------
    ParameterError
        If an argument is out of range.

    Examples
    --------
    >>> logistic_bandit(3, 2).mean_rewards(1, [0.0, 0.0])
    array([0.01, 0.03, 0.05])
    """
    arms, features = whole_number(n_arms, "n_arms", memory=64.0), whole_number(dim, "dim", memory=64.0)
    ends = finite_array(rates, "rates", ndim=1, error=ParameterError)
    require_shape(ends, "rates", (2,), "[2], the ends of the range", error=ParameterError)
    low, high = (open_probability(rate, f"rates[{i}]") for i, rate in enumerate(ends))
    scale = finite_number(strength, "strength") / np.sqrt(features)
    theta = generator(rng).standard_normal((arms, features)) * scale
    env = LogisticBanditEnv(theta, scipy.special.logit(np.linspace(low, high, arms)))
    if drift is None:
        return env
    return drifting(env, LogisticBanditEnv(np.roll(theta, -1, axis=0), np.roll(env.offset, -1)), at=drift)


class DriftingEnv:
    """Environment that becomes another one after a step.

    Parameters
    ----------
    envs : sequence of BanditEnvironment
        The environments in order.
    ends : sequence of int
        Last steps of all but the last environment.

    Attributes
    ----------
    n_arms : int
        Number of arms A.
    dim : int
        Number of features D.
    steps : int or None
        Largest length of a run, if an environment has one.

    See Also
    --------
    drifting : Checks its arguments and returns this environment.
    """

    def __init__(self, envs: Sequence[BanditEnvironment], ends: Sequence[int]) -> None:
        self._envs, self._ends = tuple(envs), tuple(ends)
        self.n_arms: int = envs[0].n_arms
        self.dim: int = envs[0].dim
        limits = [getattr(env, "steps", None) for env in envs]
        self.steps: int | None = min((limit for limit in limits if limit is not None), default=None)
        if all(hasattr(env, "mean_rewards") for env in envs):
            self.mean_rewards = self._mean_rewards

    def _now(self, t: int) -> Any:
        return self._envs[sum(t > end for end in self._ends)]

    def context(self, t: int, rng: np.random.Generator) -> Any:
        """Draw the context of a step.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of float
            Context [D].
        """
        return self._now(t).context(t, rng)

    def reward(self, t: int, context: ArrayLike, arm: int, rng: np.random.Generator) -> float:
        """Draw the reward of an arm.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Context [D] of the step.
        arm : int
            The arm.
        rng : Generator
            Source of randomness.

        Returns
        -------
        float
            The reward.
        """
        return self._now(t).reward(t, context, arm, rng)

    def _mean_rewards(self, t: int, context: ArrayLike) -> Any:
        return self._now(t).mean_rewards(t, context)

    def start(self, rng: np.random.Generator) -> Self:
        """Return the environment of one run.

        Parameters
        ----------
        rng : Generator
            Source of randomness.

        Returns
        -------
        DriftingEnv
            The environment.
        """
        begun = [env.start(rng) if hasattr(env, "start") else env for env in self._envs]
        return type(self)(begun, self._ends)


def drifting(*envs: BanditEnvironment, at: int | Sequence[int]) -> DriftingEnv:
    """Return an environment that is the first one up to a step, then the second, and so on.

    Parameters
    ----------
    *envs : BanditEnvironment
        Environments with the same numbers of arms and features.
    at : int or sequence of int
        Last steps of all but the last environment, rising.

    Returns
    -------
    DriftingEnv
        The environment.

    Raises
    ------
    ParameterError
        If steps do not rise, or environments differ in arms or features.

    Examples
    --------
    >>> from prudent.envs import LinearBanditEnv
    >>> env = drifting(LinearBanditEnv([[1.0], [0.0]]), LinearBanditEnv([[0.0], [1.0]]), at=100)
    >>> env.mean_rewards(100, [1.0]), env.mean_rewards(101, [1.0])
    (array([1., 0.]), array([0., 1.]))
    """
    ends = [whole_number(end, "at") for end in ([at] if axes_of(at) == 0 else at)]  # type: ignore[union-attr]
    if len(envs) != len(ends) + 1 or any(end >= later for end, later in pairwise(ends)):
        text = f"at is {at!r}, expected {len(envs) - 1} rising steps for {len(envs)} environments"
        raise ParameterError(text, code="not-rising", argument="at", value=at)
    for i, env in enumerate(envs):
        instance_of(env, f"envs[{i}]", BanditEnvironment)  # type: ignore[type-abstract]
        shape, first = (env.n_arms, env.dim), (envs[0].n_arms, envs[0].dim)
        if shape != first:
            text = f"envs[{i}] has {shape} arms and features, expected {first} as envs[0]"
            raise ParameterError(text, code="wrong-shape", argument="envs", index=(i,), value=shape, expected=first)
    return DriftingEnv(envs, ends)
