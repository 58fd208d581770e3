"""Unknown mean rewards, one number each, in arrays of any shape: probabilities (Beta) and means (normal).

Beta: successes and failures, the prior's plus the observed. Normal with known noise: with rho = (sd / noise_sd)^2, n
rewards and surplus = the sum of reward - prior mean,

    precision (1 + n rho) / sd^2,      mean  prior mean + rho surplus / (1 + n rho).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, generator, index_array, refuse, whole_number
from ..errors import DataError, PosteriorError
from ..types import ArrayLike, RngLike
from .base import Posterior, equal_lengths

Index = ArrayLike | tuple[ArrayLike, ...]  # of one entry, or of T entries as arrays [T]


class _Elementwise(Posterior):
    """Independent scalars in an array of any shape, e.g. [S, A]."""

    def covariance(self) -> FloatArray:
        """Return the same as `variance`: entries are independent scalars.

        Returns
        -------
        ndarray of float
            Variance of every entry.
        """
        return self.variance()

    @staticmethod
    def _observed(index: Any, rewards: FloatArray, shape: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        """Return flat indices [T] and rewards [T]."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != len(shape):
            text = f"index must have {len(shape)} parts for shape {shape}, got {index!r}"
            raise DataError(text, code="wrong-shape", argument="index", value=len(parts), expected=len(shape))
        axes = {f"index {i}": index_array(part, f"index {i}", shape[i]) for i, part in enumerate(parts)}
        *columns, rewards = equal_lengths(**axes, reward=rewards)
        flat = np.zeros(rewards.size, dtype=np.int64)
        for column, length in zip(columns, shape, strict=True):
            flat = flat * length + column
        return flat, rewards


def _prior_arrays(**values: Any) -> list[FloatArray]:
    """Return prior parameters broadcast to one shape."""
    arrays = [finite_array(value, name, error=PosteriorError) for name, value in values.items()]
    try:
        return [array.copy() for array in np.broadcast_arrays(*arrays)]
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(values, arrays, strict=True))
        text = f"shapes do not broadcast together: {shapes}"
        raise PosteriorError(text, code="wrong-shape", value=[a.shape for a in arrays]) from None


def _above_zero(array: FloatArray, name: str) -> None:
    refuse(array <= 0.0, array, name, "a number > 0", error=PosteriorError, code="not-positive")


_LARGEST = 1e150  # of rewards and their means: squares do not overflow


class BetaPosterior(_Elementwise):
    """Independent Beta posteriors of success probabilities, in an array of any shape.

    Parameters
    ----------
    successes : array_like
        First parameter of each Beta prior, > 0.
    failures : array_like
        Second parameter of each Beta prior, > 0. Both are broadcast to one shape.

    Attributes
    ----------
    successes, failures : ndarray of float
        Parameters of the posteriors: those of the prior plus what was observed.
    prior_successes, prior_failures : ndarray of float
        Parameters of the priors.

    Raises
    ------
    PosteriorError
        If a parameter is not a positive number, or shapes do not broadcast.

    Examples
    --------
    >>> posterior = BetaPosterior(np.ones((2, 2)), 1.0)                 # [S, A], uniform priors
    >>> posterior.update((0, 1), reward=1).mean()
    array([[0.5   , 0.6667],
           [0.5   , 0.5   ]])
    """

    sums = ("successes", "failures")
    fixed = ("prior_successes", "prior_failures")
    successes: FloatArray
    failures: FloatArray

    def __init__(self, successes: ArrayLike, failures: ArrayLike) -> None:
        self.successes, self.failures = _prior_arrays(successes=successes, failures=failures)
        _above_zero(self.successes, "successes")
        _above_zero(self.failures, "failures")
        self.prior_successes, self.prior_failures = self.successes.copy(), self.failures.copy()

    @property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """Successes and failures of the prior."""
        return self.prior_successes, self.prior_failures

    def update(self, index: Index, reward: ArrayLike) -> Self:
        """Add rewards of 0 or 1 in place.

        Parameters
        ----------
        index : int, array_like or tuple
            Entry of each reward, such as ``(s, a)``; with several rewards arrays [T].
        reward : array_like
            A reward, or rewards [T].

        Returns
        -------
        BetaPosterior
            This posterior.

        Raises
        ------
        DataError
            If a reward is not 0 or 1, or an index is out of range. Nothing is changed then.

        Examples
        --------
        >>> BetaPosterior([1.0, 1.0], [1.0, 1.0]).update([0, 1, 1], [1, 0, 0])
        BetaPosterior(successes=[2., 1.], failures=[1., 3.])
        """
        rewards = finite_array(reward, "reward")
        refuse((rewards != 0.0) & (rewards != 1.0), rewards, "reward", "0 or 1")
        flat, rewards = self._observed(index, rewards, self.successes.shape)
        np.add.at(self.successes.reshape(-1), flat, rewards)
        np.add.at(self.failures.reshape(-1), flat, 1.0 - rewards)
        return self

    def mean(self) -> FloatArray:
        """Return the mean probabilities.

        Returns
        -------
        ndarray of float
            Mean of every probability.

        Examples
        --------
        >>> BetaPosterior([1.0], [3.0]).mean()
        array([0.25])
        """
        return self.successes / (self.successes + self.failures)

    def variance(self) -> FloatArray:
        """Return the variances of the probabilities.

        Returns
        -------
        ndarray of float
            Variance of every probability.

        Examples
        --------
        >>> BetaPosterior([1.0], [3.0]).variance()
        array([0.0375])
        """
        mean = self.mean()
        return mean * (1.0 - mean) / (self.successes + self.failures + 1.0)

    def sample(self, n: int, rng: RngLike = None) -> FloatArray:
        """Draw probabilities.

        Parameters
        ----------
        n : int
            Number of draws N.
        rng : int, Generator or None, optional
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, ...].

        Examples
        --------
        >>> BetaPosterior(np.ones((2, 3)), 1.0).sample(5, rng=1).shape
        (5, 2, 3)
        """
        size = (whole_number(n, "n", memory=16.0 * self.successes.size), *self.successes.shape)
        return generator(rng).beta(self.successes, self.failures, size=size)

    def check(self) -> None:
        """Check that sums are at least those of the prior.

        Raises
        ------
        PosteriorError
            If one is below.
        """
        for name, prior in zip(self.sums, self.prior, strict=True):
            total = getattr(self, name)
            refuse(total < prior, total, name, "at least that of the prior", error=PosteriorError)

    def summary(self) -> dict[str, Any]:
        """Return what ``repr`` prints.

        Returns
        -------
        dict of str to object
            Successes and failures.
        """
        return {"successes": self.successes, "failures": self.failures}


class NormalPosterior(_Elementwise):
    """Independent normal posteriors of mean rewards with known noise, in an array of any shape.

    The prior of each mean is Normal(mean, sd^2); a reward is Normal(its mean, noise_sd^2).

    Parameters
    ----------
    mean : array_like
        Prior means.
    sd : array_like
        Prior standard deviations, > 0 and at most 1e100 times `noise_sd`.
    noise_sd : array_like
        Standard deviation of a reward around its mean, > 0. All three are broadcast to one shape.

    Attributes
    ----------
    pulls : ndarray of float
        Number of rewards seen.
    surplus : ndarray of float
        Sum of reward - prior mean, so that no data leaves exactly the prior.
    prior_mean, prior_sd : ndarray of float
        Means and standard deviations of the priors.
    noise_sd : ndarray of float
        Standard deviation of a reward around its mean.

    Raises
    ------
    PosteriorError
        If a standard deviation is not positive, a number is above 1e150, or shapes do not broadcast.

    Examples
    --------
    >>> posterior = NormalPosterior(mean=np.zeros((2, 2)), sd=1.0, noise_sd=1.0)
    >>> posterior.update((0, 1), reward=4.0).mean()
    array([[0., 2.],
           [0., 0.]])
    """

    sums = ("pulls", "surplus")
    fixed = ("prior_mean", "prior_sd", "noise_sd")
    pulls: FloatArray
    surplus: FloatArray

    def __init__(self, mean: ArrayLike, sd: ArrayLike, noise_sd: ArrayLike) -> None:
        self.prior_mean, self.prior_sd, self.noise_sd = _prior_arrays(mean=mean, sd=sd, noise_sd=noise_sd)
        _above_zero(self.prior_sd, "sd")
        _above_zero(self.noise_sd, "noise_sd")
        for name, numbers in (("mean", self.prior_mean), ("sd", self.prior_sd)):
            refuse(np.abs(numbers) > _LARGEST, numbers, name, f"at most {_LARGEST:g}", error=PosteriorError)
        with np.errstate(over="ignore"):
            ratio = self.prior_sd / self.noise_sd
        refuse(ratio > 1e100, self.prior_sd, "sd", "at most 1e100 times noise_sd", error=PosteriorError)
        self._ratio = ratio * ratio
        self.pulls = np.zeros_like(self.prior_mean)
        self.surplus = np.zeros_like(self.prior_mean)

    @property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the prior."""
        return self.prior_mean, self.prior_sd

    def update(self, index: Index, reward: ArrayLike) -> Self:
        """Add rewards in place.

        Parameters
        ----------
        index : int, array_like or tuple
            Entry of each reward, such as ``(s, a)``; with several rewards arrays [T].
        reward : array_like
            A reward, or rewards [T].

        Returns
        -------
        NormalPosterior
            This posterior.

        Raises
        ------
        DataError
            If a reward is not finite or above 1e150, or an index is out of range. Nothing is changed then.

        Examples
        --------
        >>> NormalPosterior([0.0, 0.0], 1.0, 1.0).update([1, 1], [3.0, 6.0]).mean()
        array([0., 3.])
        """
        flat, rewards = self._observed(index, finite_array(reward, "reward"), self.pulls.shape)
        refuse(np.abs(rewards) > _LARGEST, rewards, "reward", f"at most {_LARGEST:g}", code="too-large")
        np.add.at(self.pulls.reshape(-1), flat, 1.0)
        np.add.at(self.surplus.reshape(-1), flat, rewards - self.prior_mean.reshape(-1)[flat])
        return self

    def mean(self) -> FloatArray:
        """Return the posterior means of the mean rewards.

        Returns
        -------
        ndarray of float
            Mean of every mean reward.

        Examples
        --------
        >>> NormalPosterior([5.0], sd=2.0, noise_sd=1.0).mean()
        array([5.])
        """
        return self.prior_mean + self._ratio / (1.0 + self._ratio * self.pulls) * self.surplus

    def variance(self) -> FloatArray:
        """Return the posterior variances of the mean rewards.

        Returns
        -------
        ndarray of float
            Variance of every mean reward.

        Examples
        --------
        >>> NormalPosterior([5.0], sd=2.0, noise_sd=1.0).variance()
        array([4.])
        """
        return self.prior_sd**2 / (1.0 + self._ratio * self.pulls)

    def sample(self, n: int, rng: RngLike = None) -> FloatArray:
        """Draw mean rewards.

        Parameters
        ----------
        n : int
            Number of draws N.
        rng : int, Generator or None, optional
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, ...].

        Examples
        --------
        >>> NormalPosterior(np.zeros((2, 3)), 1.0, 1.0).sample(5, rng=1).shape
        (5, 2, 3)
        """
        size = (whole_number(n, "n", memory=16.0 * self.pulls.size), *self.pulls.shape)
        return self.mean() + np.sqrt(self.variance()) * generator(rng).standard_normal(size)

    def check(self) -> None:
        """Check that the sums are those of some rewards, and the moments finite.

        Raises
        ------
        PosteriorError
            If they are not.
        """
        pulls, surplus = self.pulls, self.surplus
        refuse(pulls < 0.0, pulls, "pulls", "a number >= 0", error=PosteriorError, code="negative")
        refuse((pulls == 0.0) & (surplus != 0.0), surplus, "surplus", "0 without rewards", error=PosteriorError)
        for name, numbers in (("mean", self.mean()), ("variance", self.variance())):
            finite_array(numbers, name, error=PosteriorError)

    def summary(self) -> dict[str, Any]:
        """Return what ``repr`` prints.

        Returns
        -------
        dict of str to object
            Means, standard deviations and noise.
        """
        return {"mean": self.mean(), "sd": np.sqrt(self.variance()), "noise_sd": self.noise_sd}
