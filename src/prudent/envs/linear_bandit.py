"""Linear contextual bandits to test agents on: the paper's Gaussian study and a bounded variant.

In a context s [D] arm a pays s'theta_a on average. Gaussian: s is uniform on [0,1]^D and the noise is normal. Bounded
(Assumption 1 of the regret analysis: rewards in [0, 1], s >= 0, |s| <= 1): s is uniform on [0, 1/sqrt(D)]^D and a
reward is 1 with chance s'theta_a, else 0.

Context and noise of a step are drawn before the arm is known and do not depend on it, so agents that read the same
stream face the same problem, step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.compile import kernel
from .._support.checks import FloatArray, finite_array, positive, whole_number
from ..errors import ModelError
from ..types import ArrayLike


@kernel
def draw_context(rng: np.random.Generator, bounded: bool, context: FloatArray) -> None:
    """Draw a context [D] in place."""
    side = 1.0 / math.sqrt(context.shape[0]) if bounded else 1.0
    for i in range(context.shape[0]):
        context[i] = side * rng.random()


@kernel
def draw_noise(rng: np.random.Generator, bounded: bool) -> float:
    """Draw the noise of a reward: a uniform if bounded, else a standard normal."""
    return rng.random() if bounded else rng.standard_normal()


@kernel
def reward_of(mean: float, noise: float, bounded: bool, noise_sd: float) -> float:
    """Return the reward of an arm with this mean."""
    if bounded:
        return 1.0 if noise < mean else 0.0
    return mean + noise_sd * noise


def coefficients(theta: ArrayLike) -> FloatArray:
    """Return a copy of the coefficients [A, D] of arms, of which there is at least one."""
    array = finite_array(theta, "theta", ndim=2, error=ModelError).copy()
    if not array.size:
        text = f"theta must have at least one arm and one feature, got shape {array.shape}"
        raise ModelError(text, code="wrong-shape", argument="theta", value=array.shape)
    return array


class OfTheta:
    """Sizes that follow from the shape of ``theta`` [A, D]."""

    theta: FloatArray

    @property
    def n_arms(self) -> int:
        """Number of arms A."""
        return int(self.theta.shape[0])

    @property
    def dim(self) -> int:
        """Number of features D."""
        return int(self.theta.shape[1])


@dataclass(frozen=True, eq=False)
class LinearBanditEnv(OfTheta):
    """Linear bandit with known coefficients: rewards are s'theta_a plus noise.

    Parameters
    ----------
    theta : array_like
        Coefficients [A, D] of the arms.
    noise_sd : float, default=1
        Standard deviation of the noise; with `bounded`, the standard deviation that agents assume.
    bounded : bool, default=False
        Whether rewards are 0 or 1, with mean s'theta_a.

    Attributes
    ----------
    theta : ndarray of float
        Coefficients [A, D].

    Raises
    ------
    ModelError
        If `theta` has the wrong shape, or bounded mean rewards leave [0, 1].

    Examples
    --------
    >>> env = LinearBanditEnv(theta=[[1.0, 0.0], [0.0, 1.0]], noise_sd=0.5)
    >>> env.n_arms, env.dim
    (2, 2)
    """

    theta: FloatArray
    noise_sd: float = 1.0
    bounded: bool = False

    def __post_init__(self) -> None:
        theta = coefficients(self.theta)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "noise_sd", positive(self.noise_sd, "noise_sd"))
        object.__setattr__(self, "bounded", bool(self.bounded))
        if self.bounded:
            # s'theta_a is extreme at corners of the box of contexts
            side = 1.0 / math.sqrt(self.dim)
            least = side * np.minimum(theta, 0.0).sum(axis=1)
            most = side * np.maximum(theta, 0.0).sum(axis=1)
            bad = (least < 0.0) | (most > 1.0)
            if bad.any():
                a = int(np.argmax(bad))
                text = f"theta[{a}] gives mean rewards from {least[a]:.6g} to {most[a]:.6g}, expected them in [0, 1]"
                raise ModelError(text, code="reward-range", argument="theta", index=(a,))

    def contexts(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw contexts.

        Parameters
        ----------
        n : int
            Number of contexts N.
        rng : Generator
            Source of randomness.

        Returns
        -------
        ndarray of float
            Contexts [N, D].

        Examples
        --------
        >>> gaussian_bandit().contexts(5, np.random.default_rng(1)).shape
        (5, 3)
        """
        points = np.empty((whole_number(n, "n", minimum=0, memory=8.0 * self.dim), self.dim))
        for point in points:
            draw_context(rng, self.bounded, point)
        return points

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
        return self.contexts(1, rng)[0]

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
        mean = float(self.theta[arm] @ np.asarray(context))
        return float(reward_of(mean, draw_noise(rng, self.bounded), self.bounded, self.noise_sd))

    def mean_rewards(self, t: int, context: ArrayLike) -> FloatArray:
        """Return the mean rewards of all arms.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Context [D] of the step.

        Returns
        -------
        ndarray of float
            Mean rewards [A].

        Examples
        --------
        >>> LinearBanditEnv(theta=[[1.0, 0.0], [0.0, 1.0]]).mean_rewards(1, [0.5, 2.0])
        array([0.5, 2. ])
        """
        return self.theta @ np.asarray(context)


def gaussian_bandit(n_arms: int = 10, noise_sd: float = 1.0) -> LinearBanditEnv:
    """Return the paper's Gaussian bandit: contexts U[0,1]^3, theta_i = (0.5, 0.5 + sin i, 0.5 + cos i).

    Parameters
    ----------
    n_arms : int, default=10
        Number of arms.
    noise_sd : float, default=1
        Standard deviation of the noise.

    Returns
    -------
    LinearBanditEnv
        The environment.

    Examples
    --------
    >>> gaussian_bandit().theta.shape
    (10, 3)
    """
    i = np.arange(1, whole_number(n_arms, "n_arms", memory=64.0) + 1)
    theta: Any = np.column_stack([np.full(i.size, 0.5), 0.5 + np.sin(i), 0.5 + np.cos(i)])
    return LinearBanditEnv(theta, noise_sd)


def bounded_bandit(n_arms: int = 10, noise_sd: float = 0.5) -> LinearBanditEnv:
    """Return a bandit within Assumption 1: rewards 0 or 1, contexts U[0, 1/sqrt(3)]^3, |theta_i| < 1.

    theta_i = (1, 1 + sin i, 1 + cos i) / sqrt(12): the coefficients of the Gaussian bandit, moved into the box.

    Parameters
    ----------
    n_arms : int, default=10
        Number of arms.
    noise_sd : float, default=0.5
        Standard deviation nu in the agents' posteriors; no 0-1 reward has one above 1/2.

    Returns
    -------
    LinearBanditEnv
        The environment.

    Examples
    --------
    >>> env = bounded_bandit()
    >>> bool((env.theta >= 0).all()), env.noise_sd
    (True, 0.5)
    """
    i = np.arange(1, whole_number(n_arms, "n_arms", memory=64.0) + 1)
    theta: Any = np.column_stack([np.ones(i.size), 1.0 + np.sin(i), 1.0 + np.cos(i)]) / math.sqrt(12.0)
    return LinearBanditEnv(theta, noise_sd, bounded=True)
