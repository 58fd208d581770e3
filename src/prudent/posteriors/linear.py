"""Unknown coefficients of a linear reward: the paper's Gaussian update.

V = P + sum s s' is the PRECISION of theta and b = sum s r; theta ~ Normal(V^-1 b, nu^2 V^-1), and V^-1 shrinks with
data. The sums are kept together with their rounding errors (see ``_numerics.least_squares``).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._numerics.least_squares import add_to_square, factor_precision, solve_residuals
from .._numerics.triangles import flat
from .._support.checks import finite_array, generator, positive, refuse, require_shape, whole_number
from .._support.memory import require_memory
from .._support.state import LARGEST_COUNT
from ..errors import DataError, PosteriorError
from ..types import ArrayLike, FloatArray, IntArray, RngLike
from .base import Posterior, writable

MOST_INFLATED = 1e13  # of a variance, by what else is learned: beyond, rounding of the sums decides it
_LARGEST_SQUARED = 1e150  # the square of a larger number may overflow
_WIDE = 1e12  # square of a feature over its prior precision: beyond, what was learned is checked
_LARGE_REWARD = 1e60  # beyond, too


class LinearGaussianPosterior(Posterior):
    """Normal posterior of theta [D] in reward = s'theta + noise, where the noise is normal with known sd nu.

    Before data theta ~ Normal(m, nu^2 P^-1). After data theta ~ Normal(V^-1 (P m + b), nu^2 V^-1) with V = P + sum s s'
    and b = sum s r (the paper's Gaussian update).

    Parameters
    ----------
    dim : int
        Number of features D.
    prior_precision : float or array_like, default=1
        Prior precision P in units of 1 / noise_sd^2: a number (times the identity), or a symmetric positive definite
        matrix [D, D].
    noise_sd : float, default=1
        Standard deviation nu of the noise, > 0.
    prior_mean : array_like, optional
        Prior mean m [D] of theta. The default is zero.

    Attributes
    ----------
    gram : ndarray of float
        Sums over the data [2, D+1, D+1]: total and rounding error. Setting it replaces what was learned.
    prior_precision : ndarray of float
        Prior precision P [D, D].
    prior_mean : ndarray of float
        Prior mean [D] of theta.
    noise_sd : float
        Known standard deviation nu of the noise.

    Raises
    ------
    PosteriorError
        If a parameter has the wrong shape, or the precision is not positive definite.

    Examples
    --------
    >>> posterior = LinearGaussianPosterior(dim=2)
    >>> posterior.update([1.0, 0.0], reward=3.0).mean()
    array([1.5, 0. ])
    >>> posterior.covariance()
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    sums = ("gram",)
    fixed = ("prior_precision", "prior_mean", "noise_sd")
    _solved: tuple[FloatArray, FloatArray] | None  # root [D, D], V^-1 = root' root, and mean [D]; None after an update

    def __init__(
        self, dim: int, prior_precision: ArrayLike = 1.0, noise_sd: float = 1.0, prior_mean: ArrayLike | None = None
    ) -> None:
        dim = whole_number(dim, "dim")
        require_memory(32.0 * float(dim) ** 2, "dim", dim)
        self.noise_sd = positive(noise_sd, "noise_sd")
        self.prior_precision = _precision_matrix(prior_precision, dim)
        self.prior_mean = np.zeros(dim) if prior_mean is None else checked_mean(prior_mean, dim)
        self.gram = np.zeros((2, dim + 1, dim + 1))

    @classmethod
    def of_sums(
        cls,
        prior_precision: FloatArray,
        noise_sd: float,
        gram: FloatArray,
        prior_mean: FloatArray | None = None,
        solved: tuple[FloatArray, FloatArray] | None = None,
    ) -> Self:
        """Return the posterior with given sums.

        Parameters
        ----------
        prior_precision : ndarray of float
            Prior precision [D, D].
        noise_sd : float
            Standard deviation of the noise.
        gram : ndarray of float
            Sums [2, D+1, D+1], which the posterior keeps without a copy.
        prior_mean : ndarray of float, optional
            Prior mean [D]. The default is zero.
        solved : tuple of ndarray of float, optional
            Root [D, D], whose transpose times itself is the inverse of the precision, and mean [D]. The default is to
            solve them from the sums.

        Returns
        -------
        LinearGaussianPosterior
            The posterior.
        """
        posterior = cls.from_prior(prior_precision, prior_mean, noise_sd)
        posterior.use_sums(gram, solved)
        return posterior

    def use_sums(self, gram: FloatArray, solved: tuple[FloatArray, FloatArray] | None) -> None:
        """Take sums, and what is solved from them if it is known.

        Parameters
        ----------
        gram : ndarray of float
            Sums [2, D+1, D+1], which the posterior keeps without a copy.
        solved : tuple of ndarray of float or None
            Root [D, D] and mean [D]; None to solve them from the sums.
        """
        self._gram, self._solved = np.ascontiguousarray(gram), solved

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
            Standard deviation of the noise.

        Returns
        -------
        LinearGaussianPosterior
            The posterior.
        """
        return cls(len(prior_precision), prior_precision, float(noise_sd), prior_mean)

    @property
    def gram(self) -> FloatArray:
        """Sums over the data [2, D+1, D+1]: total and rounding error."""
        return self._gram

    @gram.setter
    def gram(self, sums: FloatArray) -> None:
        self._gram, self._solved = np.ascontiguousarray(sums), None

    @property
    def dim(self) -> int:
        """Number of features D."""
        return int(self.prior_precision.shape[0])

    @property
    def prior(self) -> FloatArray:
        """Prior precision [D, D], in units of 1 / noise_sd^2."""
        return self.prior_precision

    @property
    def precision(self) -> FloatArray:
        """Posterior precision V [D, D], in units of 1 / noise_sd^2.

        Examples
        --------
        >>> LinearGaussianPosterior(2, prior_precision=4.0).precision
        array([[4., 0.],
               [0., 4.]])
        """
        d = self.dim
        return (self.prior_precision + self._gram[0, :d, :d]) + self._gram[1, :d, :d]

    @property
    def weighted_sum(self) -> FloatArray:
        """Sum b = sum s r, [D]."""
        return self._gram.sum(axis=0)[:-1, -1]

    def update(self, context: ArrayLike, reward: ArrayLike) -> Self:
        """Add observations in place.

        Parameters
        ----------
        context : array_like
            A context [D], or contexts [T, D].
        reward : array_like
            Its reward, or rewards [T].

        Returns
        -------
        LinearGaussianPosterior
            This posterior.

        Raises
        ------
        DataError
            If a number is not finite or too large for double precision, or shapes do not match. Nothing is changed
            then.

        Examples
        --------
        >>> LinearGaussianPosterior(1).update([[1.0], [2.0]], [1.0, 2.0]).precision
        array([[6.]])
        """
        contexts, rewards = self._rows(context, reward)
        _refuse_huge(rewards, "reward")
        widest = _WIDE * float(np.diagonal(self.prior_precision).min())
        large = np.abs(contexts).max(initial=0.0) ** 2 > widest or np.abs(rewards).max(initial=0.0) > _LARGE_REWARD
        before = self._gram.copy() if large else None
        add_to_square(self._gram, writable(contexts).reshape(-1, self.dim), writable(rewards).reshape(-1))
        self._solved = None
        if before is not None and not self._usable():
            self.gram = before
            text = "context or reward is too large for double precision beside what is known: scale them"
            raise DataError(text, code="too-large", argument="context")
        return self

    def _usable(self) -> bool:
        """Return whether moments are finite, and not decided by rounding."""
        with np.errstate(all="ignore"):
            root, mean = self._solution()
            moments = np.concatenate([self.covariance().reshape(-1), mean])
            return bool(np.isfinite(moments).all()) and resolved(np.diagonal(self.precision), root)

    def mean(self) -> FloatArray:
        """Return the posterior mean of theta.

        Returns
        -------
        ndarray of float
            Mean [D].

        Examples
        --------
        >>> LinearGaussianPosterior(1).update([1.0], 4.0).mean()
        array([2.])
        """
        return self._solution()[1].copy()

    def variance(self) -> FloatArray:
        """Return the posterior variance of every entry of theta.

        Returns
        -------
        ndarray of float
            Variances [D].

        Examples
        --------
        >>> LinearGaussianPosterior(1, prior_precision=4.0).variance()
        array([0.25])
        """
        return self.noise_sd**2 * (self._solution()[0] ** 2).sum(axis=0)

    def covariance(self) -> FloatArray:
        """Return the posterior covariance nu^2 V^-1 of theta.

        Returns
        -------
        ndarray of float
            Covariance [D, D].

        Examples
        --------
        >>> LinearGaussianPosterior(1, prior_precision=4.0, noise_sd=2.0).covariance()
        array([[1.]])
        """
        root, _ = self._solution()
        return self.noise_sd**2 * (root.T @ root)

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the expected reward s'theta.

        Parameters
        ----------
        contexts : array_like
            A context [D], or contexts [T, D].

        Returns
        -------
        mean : ndarray of float
            Posterior mean of s'theta, a number or [T].
        sd : ndarray of float
            Posterior standard deviation of s'theta, a number or [T].

        Examples
        --------
        >>> mean, sd = LinearGaussianPosterior(2).predict([3.0, 4.0])
        >>> float(mean), float(sd)
        (0.0, 5.0)
        """
        points = self._contexts(contexts, "contexts")
        with np.errstate(all="ignore"):
            mean = points @ self.mean()
            sd = self.noise_sd * np.sqrt(((points @ self._solution()[0].T) ** 2).sum(axis=-1))
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            text = "contexts has numbers that are too large: s'theta or its variance overflows; scale the features"
            raise DataError(text, code="too-large", argument="contexts")
        return mean, sd

    def sample(self, n: int, rng: RngLike = None) -> FloatArray:
        """Draw coefficients theta.

        Parameters
        ----------
        n : int
            Number of draws N.
        rng : int, Generator or None, optional
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, D].

        Examples
        --------
        >>> LinearGaussianPosterior(3).sample(5, rng=1).shape
        (5, 3)
        """
        normals = generator(rng).standard_normal((whole_number(n, "n", memory=16.0 * self.dim), self.dim))
        return self.mean() + self.noise_sd * (normals @ self._solution()[0])

    def _contexts(self, values: Any, name: str = "context") -> FloatArray:
        array = finite_array(values, name)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dim:
            text = f"{name} has shape {array.shape}, expected ({self.dim},) or (T, {self.dim})"
            raise DataError(text, code="wrong-shape", argument=name, value=array.shape)
        return array

    def _rows(self, context: Any, reward: Any) -> tuple[FloatArray, FloatArray]:
        """Return a context [D] and its reward, or contexts [T, D] and rewards [T], checked."""
        contexts, rewards = self._contexts(context), finite_array(reward, "reward")
        require_shape(rewards, "reward", contexts.shape[:-1], "one per context", error=DataError)
        _refuse_huge(contexts, "context")
        return contexts, rewards

    def _solution(self) -> tuple[FloatArray, FloatArray]:
        if self._solved is None:
            root, step = np.empty((self.dim, self.dim)), np.empty(self.dim)
            total, rest, prior, row = flat(*self._gram, self.prior_precision, root)
            careful = factor_precision(total, rest, prior, row, self.dim)
            solve_residuals(total, rest, prior, row, careful, self.prior_mean, step)
            self._solved = root, self.prior_mean + step
        return self._solved

    def combined(self, name: str, amount: FloatArray) -> FloatArray:
        """Return the sums with those of another posterior added, rounding errors included.

        Parameters
        ----------
        name : str
            ``"gram"``.
        amount : ndarray of float
            Sums [2, D+1, D+1] of the other posterior.

        Returns
        -------
        ndarray of float
            Sums [2, D+1, D+1].
        """
        total = self._gram[0] + amount[0]
        back = total - self._gram[0]
        lost = (self._gram[0] - (total - back)) + (amount[0] - back)
        return np.stack([total, self._gram[1] + amount[1] + lost])

    def check(self) -> None:
        """Check that the sums can be those of some rewards, and the moments finite.

        Raises
        ------
        PosteriorError
            If they cannot.
        """
        require_sums(self._gram[np.newaxis], np.array([LARGEST_COUNT]))  # the number of rewards is not saved
        self._check_moments()

    def _check_moments(self) -> None:
        for name, numbers in (("mean", self.mean()), ("covariance", self.covariance())):
            finite_array(numbers, name, error=PosteriorError)

    def summary(self) -> dict[str, Any]:
        """Return what ``repr`` prints.

        Returns
        -------
        dict of str to object
            Number of features, mean and noise.
        """
        return {"dim": self.dim, "mean": self.mean(), "noise_sd": self.noise_sd}


def checked_mean(prior_mean: Any, dim: int) -> FloatArray:
    """Return a prior mean [D]."""
    mean = finite_array(prior_mean, "prior_mean", ndim=1, error=PosteriorError)
    require_shape(mean, "prior_mean", (dim,), "[D]", error=PosteriorError)
    return mean


def _refuse_huge(array: FloatArray, name: str) -> None:
    """Raise if a number is too large to square."""
    refuse(np.abs(array) > _LARGEST_SQUARED, array, name, "a number that can be squared", code="too-large")


def resolved(precision: FloatArray, root: FloatArray) -> bool:
    """Return whether the sums of large contexts leave digits for what little is known of some direction.

    The variance of a coefficient times its own precision, the entry of the diagonal [..., D], is how much it is
    inflated by what else is learned. Relative errors of the sums count as many times.
    """
    return bool((precision * (root**2).sum(axis=-2) <= MOST_INFLATED).all())  # NaN is not


def require_sums(gram: FloatArray, pulls: IntArray) -> None:
    """Raise unless ``gram`` [A, 2, D+1, D+1] can be sums over ``pulls`` [A] rewards; see ``least_squares``."""
    if not np.isfinite(gram).all():
        raise PosteriorError("gram holds a number that is not finite", code="not-finite", argument="gram")
    if not np.array_equal(gram, gram.swapaxes(2, 3)):
        raise PosteriorError("gram is not symmetric", code="not-symmetric", argument="gram")
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
        text = f"gram is not positive semidefinite: it has the eigenvalue {eigenvalues.min()}"
        raise PosteriorError(text, code="not-positive-definite", argument="gram", value=eigenvalues.min())
    refuse(ranks > pulls[seen], ranks, "the rank of gram", "at most the number of rewards", error=PosteriorError)


def _precision_matrix(value: Any, dim: int) -> FloatArray:
    if not isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) == 0:
        return positive(value, "prior_precision") * np.eye(dim)
    matrix = finite_array(value, "prior_precision", error=PosteriorError)
    if not matrix.ndim:
        return positive(float(matrix), "prior_precision") * np.eye(dim)
    if matrix.shape != (dim, dim):
        text = f"prior_precision has shape {matrix.shape}, expected a number or ({dim}, {dim})"
        raise PosteriorError(text, code="wrong-shape", argument="prior_precision", value=matrix.shape)
    skew = np.abs(matrix - matrix.T) > 1e-12 * np.abs(matrix).max()
    if skew.any():
        i, j = np.argwhere(skew)[0]
        text = f"prior_precision[{i}, {j}] is {matrix[i, j]} but prior_precision[{j}, {i}] is {matrix[j, i]}"
        raise PosteriorError(text, code="not-symmetric", argument="prior_precision", index=(int(i), int(j)))
    matrix = 0.5 * (matrix + matrix.T)
    lowest = np.linalg.eigvalsh(matrix)[0]
    if lowest <= 0.0:
        text = f"prior_precision is not positive definite: it has the eigenvalue {lowest}"
        raise PosteriorError(text, code="not-positive-definite", argument="prior_precision", value=lowest)
    return matrix
