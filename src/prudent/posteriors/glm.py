"""Unknown coefficients behind clicks and counts: Laplace posteriors.

theta ~ Normal(0, P^-1) before data. A reward in context s depends on the score s'theta: it is 1 with the chance
1 / (1 + exp(-s'theta)), else 0 (`LogisticPosterior`), or a count with the rate exp(s'theta)
(`PoissonPosterior`). The posterior is taken to be Normal(mode, H^-1) with H the curvature of the log density
there. The mathematics is in ``_numerics.glm``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from .._numerics.glm import COUNTS, ODDS, laplace_sums, learn_rewards, mean_odds
from .._numerics.triangles import flat
from .._support.checks import BoolArray, FloatArray, non_negative_array, probability, refuse, require_shape
from ..data.source import TableSource
from ..errors import DataError, PosteriorError
from ..types import ArrayLike, TableLike
from .base import writable
from .linear import LinearGaussianPosterior, checked_mean

_LARGEST_COUNT = 2.0**53


class _LaplacePosterior(LinearGaussianPosterior):
    """Normal posterior of theta around its mode, for rewards that are not normal.

    Every reward is a normal observation of its score with a weight, so sums, moments, ``sample`` and ``merge`` are
    those of `LinearGaussianPosterior` with a noise of sd 1.
    """

    wanted: ClassVar[str]  # what rewards must be
    _link: ClassVar[int]

    def __init__(self, dim: int, prior_precision: ArrayLike = 1.0) -> None:
        super().__init__(dim, prior_precision, 1.0)
        self._prior_root = self._solution()[0]

    @classmethod
    def from_prior(cls, prior_precision: Any, prior_mean: Any, noise_sd: Any) -> Self:
        """Return the posterior before data.

        Parameters
        ----------
        prior_precision : ndarray of float
            Prior precision [D, D].
        prior_mean : ndarray of float or None
            Prior mean [D].
        noise_sd : float
            Not used: it is 1.

        Returns
        -------
        Posterior
            The posterior.
        """
        posterior = cls(len(prior_precision), prior_precision)
        if prior_mean is not None:
            posterior.prior_mean = checked_mean(prior_mean, posterior.dim)
            posterior.gram = posterior.gram  # what was solved depends on the prior mean
        return posterior

    def update(self, context: ArrayLike, reward: ArrayLike) -> Self:
        """Learn rewards in this order, in O(D^2) each.

        Approximate, see the class; `refit` is exact. All rewards of a batch are learned, or none.

        Parameters
        ----------
        context : array_like
            A context [D], or contexts [T, D].
        reward : array_like
            Its reward, or rewards [T].

        Returns
        -------
        Posterior
            This posterior.

        Raises
        ------
        DataError
            If a reward is not of the right kind, or a context is too large. Nothing is changed then.
        """
        contexts, rewards, _ = self._learnable(context, reward, None)
        gram, (root, mean) = self._gram.copy(), [part.copy() for part in self._solution()]
        prior_root, total, rest, row = flat(self._prior_root, *gram, root)
        learned = learn_rewards(self._link, prior_root, total, rest, row, mean, contexts, rewards)
        if learned < len(rewards):
            where = f"[{learned}]" if np.ndim(reward) else ""
            text = f"context{where} is {contexts[learned]}, too large for the sums: scale the features"
            raise DataError(text, code="too-large", argument="context", index=(learned,))
        self._gram, self._solved = gram, (root, mean)
        return self

    def refit(
        self, contexts: ArrayLike | TableLike, rewards: ArrayLike | None = None, *, weights: ArrayLike | None = None
    ) -> Self:
        """Replace all that was learned by the exact Laplace posterior of a log.

        The mode is found to 1e-12 of the terms that add up to the gradient. Separable data are no problem, because of
        the prior.

        Parameters
        ----------
        contexts : array_like or table
            Contexts [T, D]; or, without `rewards`, a log: rows of (context, reward), or a table or mapping with columns
            ``context`` and ``reward``.
        rewards : array_like, optional
            Rewards [T].
        weights : array_like, optional
            Weights [T] >= 0 of the rewards, e.g. ``0.5 ** (age / half_life)``. The default is one each.

        Returns
        -------
        Posterior
            This posterior.

        Raises
        ------
        DataError
            If data is invalid. Nothing is changed then.
        """
        if rewards is None:
            seen, rewards = TableSource(contexts, "log").cells("context", "reward")
            contexts = [list(context) for context in seen]
        points, values, counted = self._learnable(contexts, rewards, weights)
        prior = self.prior_precision, self.prior_mean
        self.gram = laplace_sums(self._link, *prior, points, values, counted, self.mean())
        return self

    def forget(self, factor: float) -> Self:
        """Multiply the evidence by a factor; the prior stays.

        Parameters
        ----------
        factor : float
            Number in [0, 1].

        Returns
        -------
        Posterior
            This posterior.

        Raises
        ------
        ParameterError
            If `factor` is not in [0, 1].
        """
        self.gram = probability(factor, "factor") * self._gram
        return self

    @abstractmethod
    def reward(self, contexts: ArrayLike) -> FloatArray:
        """Return the posterior mean of the reward.

        Parameters
        ----------
        contexts : array_like
            A context [D], or contexts [T, D].

        Returns
        -------
        ndarray of float
            A number, or [T].
        """

    @staticmethod
    @abstractmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which numbers cannot be rewards.

        Parameters
        ----------
        rewards : ndarray of float
            Numbers of any shape.

        Returns
        -------
        ndarray of bool
            True where a number cannot be a reward.
        """

    def _learnable(self, context: Any, reward: Any, weights: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return contexts [T, D], rewards [T] and weights [T]."""
        contexts, rewards = self._rows(context, reward)
        refuse(self.strange(rewards), rewards, "reward", self.wanted)
        counted = np.ones_like(rewards) if weights is None else non_negative_array(weights, "weights")
        require_shape(counted, "weights", rewards.shape, "one per reward")
        flat = [writable(array).reshape(-1) for array in (rewards, counted)]
        return writable(contexts).reshape(-1, self.dim), flat[0], flat[1]

    def check(self) -> None:
        """Check that the precision is positive definite, and the moments finite.

        Raises
        ------
        PosteriorError
            If they are not.
        """
        if not np.array_equal(self._gram, self._gram.swapaxes(1, 2)):
            raise PosteriorError("gram is not symmetric", code="not-symmetric", argument="gram")
        lowest = np.linalg.eigvalsh(self.precision)[0]  # weights may be negative, see _numerics.glm
        if not lowest > 0.0:
            text = f"the precision is not positive definite: it has the eigenvalue {lowest}"
            raise PosteriorError(text, code="not-positive-definite", argument="precision", value=lowest)
        self._check_moments()

    def summary(self) -> dict[str, Any]:
        """Return what ``repr`` prints.

        Returns
        -------
        dict of str to object
            Number of features and mean.
        """
        return {"dim": self.dim, "mean": self.mean()}


class LogisticPosterior(_LaplacePosterior):
    """Laplace posterior of theta [D] for rewards 0 or 1, where 1 has the probability 1 / (1 + exp(-s'theta)).

    Before data theta ~ Normal(0, P^-1). A constant feature is an intercept.

    `update` learns online, in O(D^2) for a reward. It is exact for the first reward, and for any number of rewards in
    one context; otherwise the evidence of earlier rewards is shifted to the score of the current context. With 20
    features and probabilities of 0.1% to 50%, after 200 and after 5,000 rewards, coefficients are within 2 posterior
    sds of the exact mode, and their sds are 0.8 to 1.7 times the exact ones. `refit` is exact, and may be called with
    the whole log at any time. The Laplace posterior itself is off by about 1 / sqrt(n) sds after n rewards.

    Parameters
    ----------
    dim : int
        Number of features D.
    prior_precision : float or array_like, default=1
        Prior precision P: a number (times the identity), or a symmetric positive definite matrix [D, D].

    See Also
    --------
    PoissonPosterior : The same for counts.

    Examples
    --------
    >>> posterior = LogisticPosterior(dim=1)
    >>> posterior.update([[1.0], [1.0], [1.0]], [1, 1, 0]).mean()      # exact, since the contexts are equal
    array([0.2865])
    >>> posterior.refit([[1.0], [1.0], [1.0]], [1, 1, 0]).mean()      # 2 - 3 / (1 + exp(-x)) = x
    array([0.2865])
    >>> float(posterior.reward([1.0]))
    0.5632
    """

    _link = ODDS
    wanted = "0 or 1"

    def reward(self, contexts: ArrayLike) -> FloatArray:
        """Return the posterior mean of the probability of a 1.

        Parameters
        ----------
        contexts : array_like
            A context [D], or contexts [T, D].

        Returns
        -------
        ndarray of float
            A number, or [T].

        Examples
        --------
        >>> LogisticPosterior(2).reward([[0.0, 0.0], [3.0, 4.0]])
        array([0.5, 0.5])
        """
        return mean_odds(*self.predict(contexts))

    @staticmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which numbers are not 0 or 1.

        Parameters
        ----------
        rewards : ndarray of float
            Numbers of any shape.

        Returns
        -------
        ndarray of bool
            True where a number is neither 0 nor 1.
        """
        return np.asarray((rewards != 0.0) & (rewards != 1.0))


class PoissonPosterior(_LaplacePosterior):
    """Laplace posterior of theta [D] for counts with the rate exp(s'theta).

    Before data theta ~ Normal(0, P^-1). A constant feature is an intercept. Online `update` and exact `refit` are as in
    `LogisticPosterior`.

    Parameters
    ----------
    dim : int
        Number of features D.
    prior_precision : float or array_like, default=1
        Prior precision P: a number (times the identity), or a symmetric positive definite matrix [D, D].

    See Also
    --------
    LogisticPosterior : The same for clicks.

    Examples
    --------
    >>> posterior = PoissonPosterior(dim=1).refit([[1.0], [1.0]], [3, 5])
    >>> posterior.mean()                                               # 8 - 2 exp(x) = x
    array([1.2207])
    >>> posterior.covariance()
    array([[0.1285]])
    """

    _link = COUNTS
    wanted = "a count 0, 1, 2, ..."

    def reward(self, contexts: ArrayLike) -> FloatArray:
        """Return the posterior mean of the rate, which is infinite beyond the largest float.

        Parameters
        ----------
        contexts : array_like
            A context [D], or contexts [T, D].

        Returns
        -------
        ndarray of float
            A number, or [T].

        Examples
        --------
        >>> float(PoissonPosterior(1, prior_precision=0.5).reward([1.0]))         # exp(variance / 2)
        2.7183
        """
        mean, sd = self.predict(contexts)
        with np.errstate(over="ignore"):
            return np.exp(mean + 0.5 * sd * sd)

    @staticmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which numbers are not counts.

        Parameters
        ----------
        rewards : ndarray of float
            Numbers of any shape.

        Returns
        -------
        ndarray of bool
            True where a number is not a count.
        """
        return np.asarray(~(rewards >= 0.0) | (rewards != np.floor(rewards)) | (rewards > _LARGEST_COUNT))
