"""Unknown mean rewards, one number each, in arrays of any shape: chances (Beta) and means (normal).

Beta: successes and failures, the prior's plus the observed. Normal with known noise: with rho = (sd / noise_sd)^2, n
rewards and their surplus over the prior mean,

    precision (1 + n rho) / sd^2,      mean  prior mean + rho surplus / (1 + n rho).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, generator, index_array, refuse, whole_number
from .._support.state import Arrays
from ..errors import DataError, PosteriorError
from .base import RNG, Posterior, equal_lengths, saved_sum

__all__ = ["BetaPosterior", "NormalPosterior"]


class _Elementwise(Posterior):
    """Independent scalars in an array of any shape, e.g. [S,A]."""

    def covariance(self) -> FloatArray:
        """Return the same as :meth:`variance`: entries are independent scalars."""
        return self.variance()

    @staticmethod
    def _observed(index: Any, rewards: FloatArray, shape: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        """Return flat indices [T] and rewards [T]."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != len(shape):
            raise DataError(f"index must have {len(shape)} parts for shape {shape}, got {index!r}")
        places = {f"index {i}": index_array(part, f"index {i}", shape[i]) for i, part in enumerate(parts)}
        *columns, rewards = equal_lengths(**places, reward=rewards)
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
        raise PosteriorError(f"shapes do not broadcast together: {shapes}") from None


def _above_zero(array: FloatArray, name: str) -> None:
    refuse(array <= 0.0, array, name, "a number > 0", error=PosteriorError)


class BetaPosterior(_Elementwise):
    """Independent Beta(successes, failures) posteriors of success chances, in an array of any shape.

    >>> posterior = BetaPosterior(np.ones((2, 2)), 1.0)                 # [S,A], uniform priors
    >>> posterior.update((0, 1), reward=1).mean()
    array([[0.5   , 0.6667],
           [0.5   , 0.5   ]])
    """

    _sums = ("successes", "failures")
    _fixed = ("_prior_successes", "_prior_failures")
    successes: FloatArray
    failures: FloatArray

    def __init__(self, successes: Any, failures: Any) -> None:
        self.successes, self.failures = _prior_arrays(successes=successes, failures=failures)
        _above_zero(self.successes, "successes")
        _above_zero(self.failures, "failures")
        self._prior_successes, self._prior_failures = self.successes.copy(), self.failures.copy()

    @property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """The prior's successes and failures."""
        return self._prior_successes, self._prior_failures

    def update(self, index: Any, reward: Any) -> Self:
        """Add rewards of 0 or 1; this changes the posterior and returns it.

        ``index`` is a place such as ``(s, a)``, with one reward; or both are arrays [T].

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
        """Return the mean chances.

        >>> BetaPosterior([1.0], [3.0]).mean()
        array([0.25])
        """
        return self.successes / (self.successes + self.failures)

    def variance(self) -> FloatArray:
        """Return the variances of the chances.

        >>> BetaPosterior([1.0], [3.0]).variance()
        array([0.0375])
        """
        mean = self.mean()
        return mean * (1.0 - mean) / (self.successes + self.failures + 1.0)

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw ``n`` arrays of chances [N,...].

        >>> BetaPosterior(np.ones((2, 3)), 1.0).sample(5, rng=1).shape
        (5, 2, 3)
        """
        size = (whole_number(n, "n"), *self.successes.shape)
        return generator(rng).beta(self.successes, self.failures, size=size)

    def _learned(self, name: str) -> FloatArray:
        return getattr(self, name) - getattr(self, f"_prior_{name}")

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        posterior = cls(arrays["prior_successes"], arrays["prior_failures"])
        for name in cls._sums:
            prior = getattr(posterior, name)
            sums = saved_sum(arrays[name], name, prior)
            refuse(sums < prior, sums, name, "at least those of the prior", error=PosteriorError)
            setattr(posterior, name, sums)
        return posterior

    def _shown(self) -> dict[str, Any]:
        return {"successes": self.successes, "failures": self.failures}


class NormalPosterior(_Elementwise):
    """Independent normal posteriors of mean rewards, in an array of any shape; the noise is known.

    The prior of each mean is Normal(mean, sd^2); a reward is Normal(its mean, noise_sd^2).

    >>> posterior = NormalPosterior(mean=np.zeros((2, 2)), sd=1.0, noise_sd=1.0)
    >>> posterior.update((0, 1), reward=4.0).mean()
    array([[0., 2.],
           [0., 0.]])
    """

    _sums = ("pulls", "surplus")
    _fixed = ("_prior_mean", "_prior_sd", "_noise_sd")
    pulls: FloatArray  # number of rewards seen
    surplus: FloatArray  # sum of reward - prior mean, so that no data leaves exactly the prior

    def __init__(self, mean: Any, sd: Any, noise_sd: Any) -> None:
        self._prior_mean, self._prior_sd, self._noise_sd = _prior_arrays(mean=mean, sd=sd, noise_sd=noise_sd)
        _above_zero(self._prior_sd, "sd")
        _above_zero(self._noise_sd, "noise_sd")
        ratio = self._prior_sd / self._noise_sd
        refuse(ratio > 1e100, self._prior_sd, "sd", "at most 1e100 times noise_sd", error=PosteriorError)
        self._ratio = ratio * ratio
        self.pulls = np.zeros_like(self._prior_mean)
        self.surplus = np.zeros_like(self._prior_mean)

    @property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """The prior's mean and sd."""
        return self._prior_mean, self._prior_sd

    @property
    def noise_sd(self) -> FloatArray:
        """The known sd of a reward around its mean."""
        return self._noise_sd

    def update(self, index: Any, reward: Any) -> Self:
        """Add rewards; this changes the posterior and returns it.

        ``index`` is a place such as ``(s, a)``, with one reward; or both are arrays [T].

        >>> NormalPosterior([0.0, 0.0], 1.0, 1.0).update([1, 1], [3.0, 6.0]).mean()
        array([0., 3.])
        """
        flat, rewards = self._observed(index, finite_array(reward, "reward"), self.pulls.shape)
        np.add.at(self.pulls.reshape(-1), flat, 1.0)
        np.add.at(self.surplus.reshape(-1), flat, rewards - self._prior_mean.reshape(-1)[flat])
        return self

    def mean(self) -> FloatArray:
        """Return the posterior means of the mean rewards.

        >>> NormalPosterior([5.0], sd=2.0, noise_sd=1.0).mean()
        array([5.])
        """
        return self._prior_mean + self._ratio * self.surplus / (1.0 + self._ratio * self.pulls)

    def variance(self) -> FloatArray:
        """Return the posterior variances of the mean rewards.

        >>> NormalPosterior([5.0], sd=2.0, noise_sd=1.0).variance()
        array([4.])
        """
        return self._prior_sd**2 / (1.0 + self._ratio * self.pulls)

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw ``n`` arrays of mean rewards [N,...].

        >>> NormalPosterior(np.zeros((2, 3)), 1.0, 1.0).sample(5, rng=1).shape
        (5, 2, 3)
        """
        size = (whole_number(n, "n"), *self.pulls.shape)
        return self.mean() + np.sqrt(self.variance()) * generator(rng).standard_normal(size)

    def _learned(self, name: str) -> FloatArray:
        return getattr(self, name)

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        posterior = cls(arrays["prior_mean"], arrays["prior_sd"], arrays["noise_sd"])
        for name in cls._sums:
            setattr(posterior, name, saved_sum(arrays[name], name, posterior.pulls))
        pulls, surplus = posterior.pulls, posterior.surplus
        refuse(pulls < 0.0, pulls, "pulls", "a number >= 0", error=PosteriorError)
        refuse((pulls == 0.0) & (surplus != 0.0), surplus, "surplus", "0 where nothing was seen", error=PosteriorError)
        for name, numbers in (("mean", posterior.mean()), ("variance", posterior.variance())):
            finite_array(numbers, name, error=PosteriorError)
        return posterior

    def _shown(self) -> dict[str, Any]:
        return {"mean": self.mean(), "sd": np.sqrt(self.variance()), "noise_sd": self._noise_sd}
