"""Unknown coefficients of a linear reward: the paper's Gaussian update.

V = P + sum s s' is the PRECISION of theta and b = sum s r; theta ~ Normal(V^-1 b, nu^2 V^-1), and V^-1 shrinks with
data. The sums are kept with what rounding took from them (see ``_numerics.least_squares``).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._numerics.least_squares import add_observations, factor_precision, solve_residuals
from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    first_index,
    generator,
    positive,
    refuse,
    whole_number,
)
from .._support.state import LARGEST_COUNT, Arrays
from ..errors import DataError, PosteriorError
from .base import RNG, Posterior, saved_sum, writable

__all__ = ["LinearGaussianPosterior"]


class LinearGaussianPosterior(Posterior):
    """Normal posterior of theta [D] in reward = s'theta + noise, the noise normal with known sd nu.

    Before data theta ~ Normal(m, nu^2 P^-1), where m is ``prior_mean`` [D], by default zero, and P is
    ``prior_precision``: a number (times the identity) or a symmetric positive definite matrix [D,D]. After data
    theta ~ Normal(V^-1 (P m + b), nu^2 V^-1) with V = P + sum s s' and b = sum s r (the paper's Gaussian update).

    >>> posterior = LinearGaussianPosterior(dim=2)
    >>> posterior.update([1.0, 0.0], reward=3.0).mean()
    array([1.5, 0. ])
    >>> posterior.covariance()
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    _sums = ("_gram",)
    _fixed = ("_prior_precision", "_prior_mean", "_noise_sd")
    _gram: FloatArray  # [2,D+1,D+1], see prudent._numerics.least_squares
    _solved: tuple[FloatArray, FloatArray] | None  # root [D,D], V^-1 = root' root, and mean [D]; None after an update

    def __init__(self, dim: int, prior_precision: Any = 1.0, noise_sd: float = 1.0, prior_mean: Any = None) -> None:
        dim = whole_number(dim, "dim")
        self._noise_sd = np.array(positive(noise_sd, "noise_sd"))
        self._prior_precision = _precision_matrix(prior_precision, dim)
        self._prior_mean = np.zeros(dim) if prior_mean is None else finite_array(prior_mean, "prior_mean", ndim=1)
        if self._prior_mean.size != dim:
            raise PosteriorError(f"prior_mean has shape {self._prior_mean.shape}, expected ({dim},)")
        self._gram = np.zeros((2, dim + 1, dim + 1))
        self._solved = None

    @classmethod
    def of_sums(
        cls, prior_precision: FloatArray, noise_sd: float, gram: FloatArray, prior_mean: FloatArray | None = None
    ) -> Self:
        """Return the posterior with these sums [2,D+1,D+1], which it keeps."""
        posterior = cls(len(prior_precision), prior_precision, noise_sd, prior_mean)
        posterior._gram = gram
        return posterior

    @property
    def dim(self) -> int:
        """The number of features D."""
        return int(self._prior_precision.shape[0])

    @property
    def prior(self) -> FloatArray:
        """The prior precision [D,D], in units of 1 / noise_sd^2."""
        return self._prior_precision

    @property
    def prior_mean(self) -> FloatArray:
        """The prior mean [D] of theta."""
        return self._prior_mean

    @property
    def noise_sd(self) -> float:
        """The known sd nu of the noise."""
        return float(self._noise_sd)

    @property
    def precision(self) -> FloatArray:
        """The precision V [D,D], in units of 1 / noise_sd^2.

        >>> LinearGaussianPosterior(2, prior_precision=4.0).precision
        array([[4., 0.],
               [0., 4.]])
        """
        d = self.dim
        return (self._prior_precision + self._gram[0, :d, :d]) + self._gram[1, :d, :d]

    @property
    def weighted_sum(self) -> FloatArray:
        """The sum b = sum s r, [D]."""
        return self._gram.sum(axis=0)[:-1, -1]

    def update(self, context: Any, reward: Any) -> Self:
        """Add observations; this changes the posterior and returns it.

        They are a reward seen in a context [D], or rewards [T] seen in contexts [T,D].

        >>> LinearGaussianPosterior(1).update([[1.0], [2.0]], [1.0, 2.0]).precision
        array([[6.]])
        """
        contexts, rewards = self._contexts(context), finite_array(reward, "reward")
        if rewards.shape != contexts.shape[:-1]:
            raise DataError(f"reward has shape {rewards.shape}, expected {contexts.shape[:-1]}, one per context")
        for name, array in (("context", contexts), ("reward", rewards)):
            huge = np.abs(array) > 1e150
            if huge.any():
                raise DataError(f"{name}{first_index(huge)} is {array[huge][0]}, too large to square")
        add_observations(self._gram, writable(contexts).reshape(-1, self.dim), writable(rewards).reshape(-1))
        self._solved = None
        return self

    def mean(self) -> FloatArray:
        """Return the posterior mean of theta [D].

        >>> LinearGaussianPosterior(1).update([1.0], 4.0).mean()
        array([2.])
        """
        return self._solution()[1].copy()

    def variance(self) -> FloatArray:
        """Return the posterior variance of every entry of theta [D].

        >>> LinearGaussianPosterior(1, prior_precision=4.0).variance()
        array([0.25])
        """
        return self.noise_sd**2 * (self._solution()[0] ** 2).sum(axis=0)

    def covariance(self) -> FloatArray:
        """Return the posterior covariance nu^2 V^-1 of theta [D,D].

        >>> LinearGaussianPosterior(1, prior_precision=4.0, noise_sd=2.0).covariance()
        array([[1.]])
        """
        root, _ = self._solution()
        return self.noise_sd**2 * (root.T @ root)

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of the expected reward s'theta, for a context [D] or contexts [T,D].

        >>> mean, sd = LinearGaussianPosterior(2).predict([3.0, 4.0])
        >>> float(mean), float(sd)
        (0.0, 5.0)
        """
        points = self._contexts(contexts, "contexts")
        scaled = points @ self._solution()[0].T
        return points @ self.mean(), self.noise_sd * np.sqrt((scaled**2).sum(axis=-1))

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw ``n`` vectors theta [N,D].

        >>> LinearGaussianPosterior(3).sample(5, rng=1).shape
        (5, 3)
        """
        normals = generator(rng).standard_normal((whole_number(n, "n"), self.dim))
        return self.mean() + self.noise_sd * (normals @ self._solution()[0])

    def _contexts(self, values: Any, name: str = "context") -> FloatArray:
        array = finite_array(values, name)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dim:
            raise DataError(f"{name} has shape {array.shape}, expected ({self.dim},) or (T, {self.dim})")
        return array

    def _solution(self) -> tuple[FloatArray, FloatArray]:
        if self._solved is None:
            root, step = np.empty((self.dim, self.dim)), np.empty(self.dim)
            careful = factor_precision(self._gram, self._prior_precision, root)
            solve_residuals(self._gram, self._prior_precision, root, careful, self._prior_mean, step)
            self._solved = root, self._prior_mean + step
        return self._solved

    def _add(self, name: str, amount: FloatArray) -> None:
        total = self._gram[0] + amount[0]
        back = total - self._gram[0]
        lost = (self._gram[0] - (total - back)) + (amount[0] - back)
        self._gram = np.stack([total, self._gram[1] + amount[1] + lost])
        self._solved = None

    def _learned(self, name: str) -> FloatArray:
        return self._gram

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        posterior = cls(
            len(arrays["prior_precision"]),
            arrays["prior_precision"],
            float(arrays["noise_sd"]),
            arrays["prior_mean"],
        )
        gram = saved_sum(arrays["gram"], "gram", posterior._gram)
        require_sums(gram[np.newaxis], np.array([LARGEST_COUNT]))  # of how many rewards, it does not say
        posterior._gram = gram
        for name, numbers in (("mean", posterior.mean()), ("covariance", posterior.covariance())):
            finite_array(numbers, name, error=PosteriorError)
        return posterior

    def _shown(self) -> dict[str, Any]:
        return {"dim": self.dim, "mean": self.mean(), "noise_sd": self.noise_sd}


def require_sums(gram: FloatArray, pulls: IntArray) -> None:
    """Raise unless ``gram`` [A,2,D+1,D+1] can be the sums of so many rewards [A], see ``_numerics.least_squares``."""
    if not np.isfinite(gram).all():
        raise PosteriorError("gram holds a number that is not finite")
    if not np.array_equal(gram, gram.swapaxes(2, 3)):
        raise PosteriorError("gram is not symmetric")
    total, lost = gram[:, 0], gram[:, 1]
    diagonal = np.diagonal(total, axis1=1, axis2=2)  # [A,D+1]
    refuse(diagonal < 0.0, diagonal, "the diagonal of gram", "a number >= 0", error=PosteriorError)
    # In units of the diagonal, entries are at most one, up to the rounding of products; squares may underflow.
    spare = np.finfo(np.float64).tiny * pulls
    unit = np.sqrt(diagonal + spare[:, np.newaxis])
    unit[pulls == 0] = 0.0
    bound = unit[:, :, np.newaxis] * unit[:, np.newaxis, :]  # [A,D+1,D+1]
    rounding = np.finfo(np.float64).eps * (pulls[:, np.newaxis, np.newaxis] + 1.0)
    beyond = (np.abs(total) > 1.000001 * bound) | (np.abs(lost) > rounding * bound)
    refuse(beyond, total, "gram", "sums of products of contexts and rewards", error=PosteriorError)
    seen = pulls > 0
    eigenvalues = np.linalg.eigvalsh((total[seen] + lost[seen]) / bound[seen])
    noise = 1e-14 * total.shape[1]
    ranks = (eigenvalues > noise).sum(axis=1)
    if (eigenvalues < -noise).any():
        raise PosteriorError(f"gram is not positive semidefinite: it has the eigenvalue {eigenvalues.min()}")
    refuse(ranks > pulls[seen], ranks, "the rank of gram", "at most the number of rewards", error=PosteriorError)


def _precision_matrix(value: Any, dim: int) -> FloatArray:
    if np.ndim(value) == 0:
        return positive(value, "prior_precision") * np.eye(dim)
    matrix = finite_array(value, "prior_precision", error=PosteriorError)
    if matrix.shape != (dim, dim):
        raise PosteriorError(f"prior_precision has shape {matrix.shape}, expected a number or ({dim}, {dim})")
    skew = np.abs(matrix - matrix.T) > 1e-12 * np.abs(matrix).max()
    if skew.any():
        i, j = np.argwhere(skew)[0]
        raise PosteriorError(
            f"prior_precision[{i}, {j}] is {matrix[i, j]} but prior_precision[{j}, {i}] is {matrix[j, i]}"
        )
    matrix = 0.5 * (matrix + matrix.T)
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest <= 0.0:
        raise PosteriorError(f"prior_precision is not positive definite: it has the eigenvalue {lowest}")
    return matrix
