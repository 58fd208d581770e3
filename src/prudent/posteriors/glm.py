"""Unknown coefficients behind clicks and counts: Laplace posteriors.

theta ~ Normal(0, P^-1) before data. A reward in context s depends on the score s'theta: it is 1 with the chance
1 / (1 + exp(-s'theta)), else 0 (:class:`LogisticPosterior`), or a count with the rate exp(s'theta)
(:class:`PoissonPosterior`). The posterior is taken to be Normal(mode, H^-1) with H the curvature of the log density
there. The mathematics is told in ``_numerics.glm``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from .._numerics.glm import COUNTS, ODDS, laplace_sums, learn_rewards, mean_odds
from .._support.checks import BoolArray, FloatArray, finite_array, first_index, non_negative_array, probability, refuse
from .._support.state import Arrays
from ..data.source import log_columns
from ..errors import DataError, PosteriorError
from .base import saved_sum, writable
from .linear import LinearGaussianPosterior

__all__ = ["LogisticPosterior", "PoissonPosterior"]


_LARGEST_COUNT = 2.0**53


class _LaplacePosterior(LinearGaussianPosterior):
    """Normal posterior of theta around its mode, for rewards that are not normal.

    Every reward is a normal observation of its score with a weight, so sums, moments, ``sample`` and ``merge`` are
    those of :class:`LinearGaussianPosterior` with a noise of sd 1.
    """

    _link: ClassVar[int]
    wanted: ClassVar[str]  # what rewards must be

    def __init__(self, dim: int, prior_precision: Any = 1.0) -> None:
        super().__init__(dim, prior_precision, 1.0)
        self._prior_root = self._solution()[0]

    @classmethod
    def of_sums(
        cls, prior_precision: FloatArray, noise_sd: float, gram: FloatArray, prior_mean: FloatArray | None = None
    ) -> Self:
        """Return the posterior with these sums [2,D+1,D+1], which it keeps; ``noise_sd`` is not used."""
        posterior = cls(len(prior_precision), prior_precision)
        posterior._gram = gram
        if prior_mean is not None:
            posterior._prior_mean, posterior._solved = prior_mean, None
        return posterior

    @property
    def noise_sd(self) -> float:
        """1: weights stand for the noise of a reward, and :attr:`precision` is H itself."""
        return 1.0

    def update(self, context: Any, reward: Any) -> Self:
        """Learn a reward in a context [D], or rewards [T] in contexts [T,D] in this order, in O(D^2) each.

        Approximate, see the class; :meth:`refit` is exact. A batch is learned whole or not at all.
        """
        contexts, rewards, _ = self._rows(context, reward, None)
        gram, (root, mean) = self._gram.copy(), [part.copy() for part in self._solution()]
        learned = learn_rewards(self._link, self._prior_root, gram, root, mean, contexts, rewards)
        if learned < len(rewards):
            where = f"[{learned}]" if np.ndim(reward) else ""
            raise DataError(f"context{where} is {contexts[learned]}, too large for the sums: scale the features")
        self._gram, self._solved = gram, (root, mean)
        return self

    def refit(self, contexts: Any, rewards: Any = None, *, weights: Any = None) -> Self:
        """Replace all that was learned by the exact Laplace posterior given rewards [T] in contexts [T,D].

        Or give one argument, a log: rows of (context, reward), or a table or mapping with columns ``context`` and
        ``reward``. ``weights`` [T] >= 0 count rewards more or less than once, e.g. 0.5 ** (age / half_life). The mode
        is found to 1e-12 of the sizes that add up to the gradient; data that can be separated are no problem, because
        of the prior.
        """
        if rewards is None:
            seen, rewards = log_columns(contexts, "context", "reward")
            contexts = [list(context) for context in seen]
        points, values, counted = self._rows(contexts, rewards, weights)
        prior = self._prior_precision, self._prior_mean
        self._gram = laplace_sums(self._link, *prior, points, values, counted, self.mean())
        self._solved = None
        return self

    def forget(self, factor: float) -> Self:
        """Let the evidence fade to ``factor`` in [0, 1] of what it is; the prior stays."""
        self._gram = probability(factor, "factor") * self._gram
        self._solved = None
        return self

    @abstractmethod
    def reward(self, contexts: Any) -> FloatArray:
        """Return the posterior mean of the reward, for a context [D] or contexts [T,D]."""

    @staticmethod
    @abstractmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which of these cannot be rewards."""

    def _rows(self, context: Any, reward: Any, weights: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return contexts [T,D], rewards [T] and weights [T]."""
        contexts, rewards = self._contexts(context), finite_array(reward, "reward")
        if rewards.shape != contexts.shape[:-1]:
            raise DataError(f"reward has shape {rewards.shape}, expected {contexts.shape[:-1]}, one per context")
        huge = np.abs(contexts) > 1e150
        if huge.any():
            raise DataError(f"context{first_index(huge)} is {contexts[huge][0]}, too large to square")
        refuse(self.strange(rewards), rewards, "reward", self.wanted)
        counted = np.ones_like(rewards) if weights is None else non_negative_array(weights, "weights")
        if counted.shape != rewards.shape:
            raise DataError(f"weights has shape {counted.shape}, expected {rewards.shape}, one per reward")
        flat = [writable(array).reshape(-1) for array in (rewards, counted)]
        return writable(contexts).reshape(-1, self.dim), flat[0], flat[1]

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        prior, start = arrays["prior_precision"], arrays["prior_mean"]
        posterior = cls(len(prior), prior)
        gram = saved_sum(arrays["gram"], "gram", posterior._gram)
        saved_sum(start, "prior_mean", posterior._prior_mean)
        if not np.array_equal(gram, gram.swapaxes(1, 2)):
            raise PosteriorError("gram is not symmetric")
        made = cls.of_sums(prior, 1.0, gram, start)
        lowest = np.linalg.eigvalsh(made.precision)[0]  # weights may be negative, see _numerics.glm
        if not lowest > 0.0:
            raise PosteriorError(f"the precision is not positive definite: it has the eigenvalue {lowest}")
        for name, numbers in (("mean", made.mean()), ("covariance", made.covariance())):
            finite_array(numbers, name, error=PosteriorError)
        return made

    def _shown(self) -> dict[str, Any]:
        return {"dim": self.dim, "mean": self.mean()}


class LogisticPosterior(_LaplacePosterior):
    """Laplace posterior of theta [D] for rewards 0 or 1, where 1 has the chance 1 / (1 + exp(-s'theta)).

    Before data theta ~ Normal(0, P^-1), where P is ``prior_precision``: a number (times the identity) or a symmetric
    positive definite matrix [D,D]. A constant feature is an intercept.

    ``update`` learns online, in O(D^2) for a reward. It is exact for the first reward, and for any number of rewards in
    one context; else what earlier rewards say is taken to shift with the score of the context at hand. With 20 features
    and chances of 0.1% to 50%, after 200 and after 5,000 rewards, coefficients are within 2 posterior sds of the exact
    mode, and their sds are 0.8 to 1.7 times the exact ones (`tests/posteriors/test_glm.py`). :meth:`refit` is exact,
    and may be
    called with the whole log at any time. The Laplace posterior itself is off by about 1 / sqrt(n) sds after n rewards.

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

    def reward(self, contexts: Any) -> FloatArray:
        """Return the posterior mean of the chance of a 1, for a context [D] or contexts [T,D].

        >>> LogisticPosterior(2).reward([[0.0, 0.0], [3.0, 4.0]])
        array([0.5, 0.5])
        """
        return mean_odds(*self.predict(contexts))

    @staticmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which of these cannot be rewards."""
        return np.asarray((rewards != 0.0) & (rewards != 1.0))


class PoissonPosterior(_LaplacePosterior):
    """Laplace posterior of theta [D] for counts with the rate exp(s'theta).

    Before data theta ~ Normal(0, P^-1), where P is ``prior_precision``: a number (times the identity) or a symmetric
    positive definite matrix [D,D]. A constant feature is an intercept. Online ``update`` and exact :meth:`refit` are as
    in :class:`LogisticPosterior`.

    >>> posterior = PoissonPosterior(dim=1).refit([[1.0], [1.0]], [3, 5])
    >>> posterior.mean()                                               # 8 - 2 exp(x) = x
    array([1.2207])
    >>> posterior.covariance()
    array([[0.1285]])
    """

    _link = COUNTS
    wanted = "a count 0, 1, 2, ..."

    def reward(self, contexts: Any) -> FloatArray:
        """Return the posterior mean of the rate, for a context [D] or contexts [T,D].

        A rate beyond the largest number is infinite.

        >>> float(PoissonPosterior(1, prior_precision=0.5).reward([1.0]))         # exp(variance / 2)
        2.7183
        """
        mean, sd = self.predict(contexts)
        with np.errstate(over="ignore"):
            return np.exp(mean + 0.5 * sd * sd)

    @staticmethod
    def strange(rewards: FloatArray) -> BoolArray:
        """Return which of these cannot be rewards."""
        return np.asarray(~(rewards >= 0.0) | (rewards != np.floor(rewards)) | (rewards > _LARGEST_COUNT))
