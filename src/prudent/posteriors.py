"""Conjugate posteriors: categorical outcomes, Bernoulli and normal rewards, linear rewards with normal noise.

Every class speaks the same names. The constructor takes the prior; ``update`` takes one observation or a
batch, changes the posterior in place and returns it, or raises and changes nothing; ``mean``, ``variance``
(entry by entry), ``covariance`` and ``sample`` describe it; ``merge`` joins what two posteriors with the same
prior have learned from separate data; ``prior`` is the prior in the words of the constructor.

All of them are sums over the data, and it is the sums that are kept:

- Dirichlet: counts psi[b,k], the prior's plus the observed; theta[b] ~ Dirichlet(psi[b]).
- Beta: prior successes and failures plus the observed.
- Normal mean, known noise: with rho = (sd / noise_sd)^2 and n rewards, precision (1 + n rho) / sd^2 and mean
  prior mean + rho * sum(reward - prior mean) / (1 + n rho).
- Linear (the paper's Gaussian update): V = prior precision + sum s s', b = sum s r, and
  theta ~ Normal(V^-1 b, nu^2 V^-1). V is the precision: its inverse is the covariance, and shrinks with data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from ._checks import (
    FloatArray,
    IntArray,
    finite_array,
    first_index,
    generator,
    index_array,
    positive,
    whole_number,
)
from ._linear import add_observations, solve_posterior
from .errors import DataError, PosteriorError

__all__ = [
    "BetaPosterior",
    "DirichletPosterior",
    "LinearGaussianPosterior",
    "NormalPosterior",
    "posterior_from_log",
]

RNG = np.random.Generator | int | None


class _Model(Protocol):
    """What :class:`DirichletPosterior` asks of a model with B sources of K outcomes."""

    def prior(self, count: float) -> Any: ...

    def count(self, log: Any, prior: Any, *, indices: bool = False) -> Any: ...


class _Posterior(ABC):
    """Sums over data on top of a prior. Subclasses name the arrays."""

    _sums: ClassVar[tuple[str, ...]]  # arrays that data is added to
    _fixed: ClassVar[tuple[str, ...]]  # arrays that say the prior and the noise

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the posterior mean."""

    @abstractmethod
    def variance(self) -> FloatArray:
        """Return the posterior variance of every entry of :meth:`mean`."""

    @abstractmethod
    def _learned(self, name: str) -> FloatArray:
        """Return what the data has added to the sum ``name``."""

    @abstractmethod
    def _shown(self) -> dict[str, Any]:
        """Return what ``repr`` prints."""

    def copy(self) -> Self:
        """Return a posterior of its own with the same parameters."""
        twin = object.__new__(type(self))
        twin.__dict__.update(
            {name: value.copy() if name in self._sums else value for name, value in self.__dict__.items()}
        )
        return twin

    def merge(self, other: Self) -> Self:
        """Return the posterior given the data of both; the priors must be equal.

        >>> one, two = BetaPosterior(1, 1).update((), 1), BetaPosterior(1, 1).update((), [0, 1])
        >>> one.merge(two)
        BetaPosterior(successes=3.0, failures=2.0)
        """
        if type(other) is not type(self):
            raise PosteriorError(f"cannot merge a {type(self).__name__} with a {type(other).__name__}")
        for name in self._fixed:
            mine, theirs = getattr(self, name), getattr(other, name)
            label = name.lstrip("_").replace("_", " ")
            if mine.shape != theirs.shape:
                raise PosteriorError(f"cannot merge: {label} has shapes {mine.shape} and {theirs.shape}")
            differ = mine != theirs
            if differ.any():
                one, two = mine[differ][0], theirs[differ][0]
                raise PosteriorError(f"cannot merge: {label}{first_index(differ)} is {one} here, {two} there")
        merged = self.copy()
        for name in self._sums:
            merged._add(name, other._learned(name))
        return merged

    def _add(self, name: str, amount: FloatArray) -> None:
        setattr(self, name, getattr(self, name) + amount)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in (*self._sums, *self._fixed))

    __hash__ = None  # type: ignore[assignment]  # it changes with data

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self._shown().items())
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), separator=", ", threshold=12, edgeitems=2, floatmode="maxprec")
    return " ".join(text.split())


# -- categorical outcomes ----------------------------------------------------------------------------------


class DirichletPosterior(_Posterior):
    """Independent Dirichlet posteriors of B unknown categorical distributions (sources) over K outcomes.

    ``counts`` [B,K] are the Dirichlet parameters, prior included; one row may be given as [K]. A zero is an
    outcome that cannot happen; every row has a positive total. ``prior`` [B,K] is the part of ``counts`` that
    is not data, for :meth:`merge`; left out, it is all of them.

    >>> posterior = DirichletPosterior([[1.0, 1.0], [1.0, 3.0]])
    >>> posterior.update(source=0, outcome=1).mean()
    array([[0.3333, 0.6667],
           [0.25  , 0.75  ]])
    """

    _sums = ("counts",)
    _fixed = ("prior",)
    counts: FloatArray  # [B,K]
    prior: FloatArray  # [B,K]

    def __init__(self, counts: Any, prior: Any = None) -> None:
        self.counts = _dirichlet_counts(counts, "counts")
        if prior is None:
            self.prior = self.counts.copy()
        else:
            self.prior = _dirichlet_counts(prior, "prior")
            if self.prior.shape != self.counts.shape:
                raise PosteriorError(f"prior has shape {self.prior.shape}, counts has {self.counts.shape}")
            below = self.counts < self.prior
            if below.any():
                count, least = self.counts[below][0], self.prior[below][0]
                raise PosteriorError(f"counts{first_index(below)} is {count}, below its prior {least}")

    @classmethod
    def for_model(cls, model: _Model, count: float = 1.0) -> Self:
        """Return the prior of ``model`` with ``count`` on every outcome that can happen.

        >>> class Coin:
        ...     def prior(self, count):
        ...         return [[count, count]]
        >>> DirichletPosterior.for_model(Coin())
        DirichletPosterior(counts=[[1., 1.]])
        """
        return cls(model.prior(count))

    @classmethod
    def from_log(cls, model: _Model, log: Any, prior: Any = 1.0, *, indices: bool = False) -> Self:
        """Return the posterior of ``model`` given a log of its transitions.

        ``log`` has rows (s, a, s') or (s, a, s', outcome), by name where the model has names unless ``indices``;
        see :meth:`UncertainMDP.count`. ``prior`` is a count for every outcome that can happen, or counts [B,K].

        >>> from prudent import UncertainMDP
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> DirichletPosterior.from_log(model, [(0, 0, 1), (1, 0, 1)])
        DirichletPosterior(counts=[[1., 2.], [1., 2.]])
        """
        start = model.prior(prior) if np.ndim(prior) == 0 else prior
        return cls(model.count(log, start, indices=indices), prior=start)

    def update(self, source: Any, outcome: Any, count: Any = 1.0) -> Self:
        """Add ``count`` observations of ``outcome`` of ``source``: numbers, or arrays [T] of equal length.

        >>> DirichletPosterior([1.0, 1.0, 0.0]).update([0, 0], [0, 1], count=[2, 5])
        DirichletPosterior(counts=[[3., 6., 0.]])
        """
        rows = index_array(source, "source", self.counts.shape[0])
        columns = index_array(outcome, "outcome", self.counts.shape[1])
        amounts = finite_array(count, "count")
        negative = amounts < 0.0
        if negative.any():
            raise DataError(f"count{first_index(negative)} is {amounts[negative][0]}, expected a number >= 0")
        rows, columns, amounts = _equal_lengths(source=rows, outcome=columns, count=amounts)
        impossible = (self.counts[rows, columns] == 0.0) & (amounts > 0.0)
        if impossible.any():
            t = int(np.argmax(impossible))
            raise DataError(
                f"observation {t}: outcome {columns[t]} of source {rows[t]} cannot happen, its count is zero"
            )
        np.add.at(self.counts, (rows, columns), amounts)
        return self

    def mean(self) -> FloatArray:
        """Return the mean probabilities [B,K].

        >>> DirichletPosterior([1.0, 3.0]).mean()
        array([[0.25, 0.75]])
        """
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    def variance(self) -> FloatArray:
        """Return the variance [B,K] of every probability.

        >>> DirichletPosterior([1.0, 3.0]).variance()
        array([[0.0375, 0.0375]])
        """
        mean = self.mean()
        return mean * (1.0 - mean) / (self.counts.sum(axis=1, keepdims=True) + 1.0)

    def covariance(self) -> FloatArray:
        """Return the covariance [B,K,K] of the probabilities of each source.

        >>> DirichletPosterior([1.0, 3.0]).covariance()
        array([[[ 0.0375, -0.0375],
                [-0.0375,  0.0375]]])
        """
        mean = self.mean()
        totals = self.counts.sum(axis=1) + 1.0
        covariance = -mean[:, :, np.newaxis] * (mean / totals[:, np.newaxis])[:, np.newaxis, :]
        diagonal = np.arange(mean.shape[1])
        covariance[:, diagonal, diagonal] = self.variance()
        return covariance

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw ``n`` sets of probabilities [N,B,K]; rows sum to one, impossible outcomes get exactly zero.

        >>> draws = DirichletPosterior([[0.01, 0.01, 0.0]]).sample(5, rng=1)
        >>> draws.shape, float(draws[:, 0, 2].max())
        ((5, 1, 3), 0.0)
        """
        n = whole_number(n, "n")
        rng = generator(rng)
        # A gamma variate of small shape a underflows; its logarithm is that of shape a + 1 plus log(U) / a.
        small = self.counts < 1.0
        logs = rng.standard_gamma(self.counts + small, size=(n, *self.counts.shape))
        np.log(np.maximum(logs, 1e-300, out=logs), out=logs)
        shapes = np.maximum(self.counts[small], 1e-300)
        logs[:, small] -= rng.standard_exponential((n, shapes.size)) / shapes
        logs[:, self.counts == 0.0] = -np.inf
        logs -= logs.max(axis=2, keepdims=True)
        theta = np.exp(logs, out=logs)
        theta /= theta.sum(axis=2, keepdims=True)
        return theta

    def _learned(self, name: str) -> FloatArray:
        return self.counts - self.prior

    def _shown(self) -> dict[str, Any]:
        return {"counts": self.counts}


def posterior_from_log(model: _Model, log: Any, prior: Any = 1.0, *, indices: bool = False) -> DirichletPosterior:
    """Return the posterior of ``model`` given a log; the same as :meth:`DirichletPosterior.from_log`.

    >>> from prudent import UncertainMDP
    >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    >>> posterior_from_log(model, [(0, 0, 1), (0, 0, 1)]).mean()[0]
    array([0.25, 0.75])
    """
    return DirichletPosterior.from_log(model, log, prior, indices=indices)


def _dirichlet_counts(values: Any, name: str) -> FloatArray:
    counts = np.atleast_2d(finite_array(values, name, error=PosteriorError)).copy()
    if counts.ndim != 2 or counts.size == 0:
        raise PosteriorError(f"{name} must have the shape [B, K] or [K], got {np.shape(values)}")
    negative = counts < 0.0
    if negative.any():
        raise PosteriorError(f"{name}{first_index(negative)} is {counts[negative][0]}, expected a number >= 0")
    empty = counts.sum(axis=1) == 0.0
    if empty.any():
        raise PosteriorError(f"{name}{first_index(empty)} is all zero: no outcome of that source can happen")
    return counts


def _equal_lengths(**arrays: Any) -> list[Any]:
    """Return numbers and arrays [T] as arrays of one shape."""
    lengths = {name: array.shape for name, array in arrays.items() if array.ndim}
    if len(set(lengths.values())) > 1 or any(len(shape) > 1 for shape in lengths.values()):
        listed = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise DataError(f"expected numbers or arrays [T] of equal length, got shapes {listed}")
    return [np.atleast_1d(array) for array in np.broadcast_arrays(*arrays.values())]


# -- rewards, entry by entry -------------------------------------------------------------------------------


class _Elementwise(_Posterior):
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
        *columns, rewards = _equal_lengths(**places, reward=rewards)
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
    bad = ~(array > 0.0)
    if bad.any():
        raise PosteriorError(f"{name}{first_index(bad)} is {array[bad][0]}, expected a number > 0")


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
        """Add rewards of 0 or 1 at ``index``: a place such as ``(s, a)`` and a reward, or arrays [T] of them.

        >>> BetaPosterior([1.0, 1.0], [1.0, 1.0]).update([0, 1, 1], [1, 0, 0])
        BetaPosterior(successes=[2., 1.], failures=[1., 3.])
        """
        rewards = finite_array(reward, "reward")
        bad = (rewards != 0.0) & (rewards != 1.0)
        if bad.any():
            raise DataError(f"reward{first_index(bad)} is {rewards[bad][0]}, expected 0 or 1")
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
        wide = ratio > 1e100
        if wide.any():
            raise PosteriorError(
                f"sd{first_index(wide)} is {self._prior_sd[wide][0]}, expected at most 1e100 times noise_sd"
            )
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
        """Add rewards at ``index``: a place such as ``(s, a)`` and a reward, or arrays [T] of them.

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

    def _shown(self) -> dict[str, Any]:
        return {"mean": self.mean(), "sd": np.sqrt(self.variance()), "noise_sd": self._noise_sd}


# -- linear rewards ----------------------------------------------------------------------------------------


class LinearGaussianPosterior(_Posterior):
    """Normal posterior of theta [D] in reward = s'theta + noise, the noise normal with known sd nu.

    Before data theta ~ Normal(0, nu^2 P^-1), where P is ``prior_precision``: a number (times the identity) or
    a symmetric positive definite matrix [D,D]. After data theta ~ Normal(V^-1 b, nu^2 V^-1) with
    V = P + sum s s' and b = sum s r (the paper's Gaussian update).

    >>> posterior = LinearGaussianPosterior(dim=2)
    >>> posterior.update([1.0, 0.0], reward=3.0).mean()
    array([1.5, 0. ])
    >>> posterior.covariance()
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    _sums = ("_gram",)
    _fixed = ("_prior_precision", "_noise_sd")
    _gram: FloatArray  # [2,D+1,D+1], see prudent._linear
    _solved: (
        tuple[FloatArray, FloatArray] | None
    )  # root [D,D] with V^-1 = root' root, and mean [D]; None after an update

    def __init__(self, dim: int, prior_precision: Any = 1.0, noise_sd: float = 1.0) -> None:
        dim = whole_number(dim, "dim")
        self._noise_sd = np.array(positive(noise_sd, "noise_sd"))
        self._prior_precision = _precision_matrix(prior_precision, dim)
        self._gram = np.zeros((2, dim + 1, dim + 1))
        self._solved = None

    @classmethod
    def _of_sums(cls, prior_precision: FloatArray, noise_sd: float, gram: FloatArray) -> Self:
        """Return the posterior with these sums [2,D+1,D+1], which it keeps."""
        posterior = cls(len(prior_precision), prior_precision, noise_sd)
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
        """Add a reward seen in a context [D], or rewards [T] seen in contexts [T,D].

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
        add_observations(self._gram, _own(contexts).reshape(-1, self.dim), _own(rewards).reshape(-1))
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
            root, mean = np.empty((self.dim, self.dim)), np.empty(self.dim)
            solve_posterior(self._gram, self._prior_precision, root, mean)
            self._solved = root, mean
        return self._solved

    def _add(self, name: str, amount: FloatArray) -> None:
        total = self._gram[0] + amount[0]
        back = total - self._gram[0]
        lost = (self._gram[0] - (total - back)) + (amount[0] - back)
        self._gram = np.stack([total, self._gram[1] + amount[1] + lost])
        self._solved = None

    def _learned(self, name: str) -> FloatArray:
        return self._gram

    def _shown(self) -> dict[str, Any]:
        return {"dim": self.dim, "mean": self.mean(), "noise_sd": self.noise_sd}


def _own(array: FloatArray) -> FloatArray:
    """Return an array that is writable as well as contiguous: a read-only one is one more kernel to compile."""
    return np.require(array, requirements=["C", "W"])


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
