"""Unknown categorical distributions: theta[b] ~ Dirichlet(psi[b]) for each source b, independently.

psi [B,K] are the counts: those of the prior plus how often source b was seen to draw outcome k.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from .._numerics.dirichlet_draws import draw_theta
from .._support.checks import FloatArray, first_index, generator, index_array, non_negative_array, whole_number
from ..errors import DataError, PosteriorError
from .base import RNG, Posterior, equal_lengths

__all__ = ["DirichletPosterior", "posterior_from_log"]


class _Model(Protocol):
    """What :class:`DirichletPosterior` asks of a model with B sources of K outcomes."""

    def prior(self, count: float) -> Any: ...

    def count(self, log: Any, prior: Any, *, indices: bool = False) -> Any: ...


class DirichletPosterior(Posterior):
    """Independent Dirichlet posteriors of B unknown categorical distributions (sources) over K outcomes.

    ``counts`` [B,K] are the Dirichlet parameters, prior included; one row may be given as [K]. A zero is an
    outcome that cannot happen; every row has a positive total. ``prior`` [B,K] is the part of ``counts`` that
    is not data, for :meth:`merge`; by default all of them.

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

        ``log`` has rows (s, a, s') or (s, a, s', outcome): names where the model has names or, with ``indices=True``,
        numbers; see :meth:`UncertainMDP.count`. ``prior`` is a count for every outcome that can happen, or [B,K].

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
        amounts = non_negative_array(count, "count")
        rows, columns, amounts = equal_lengths(source=rows, outcome=columns, count=amounts)
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
        theta = np.empty((*self.counts.shape, n))
        draw_theta(rng, self.counts, theta, n, np.empty(n))
        return np.ascontiguousarray(np.moveaxis(theta, -1, 0))

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
    counts = np.atleast_2d(non_negative_array(values, name, error=PosteriorError)).copy()
    if counts.ndim != 2 or counts.size == 0:
        raise PosteriorError(f"{name} must have the shape [B, K] or [K], got {np.shape(values)}")
    empty = counts.sum(axis=1) == 0.0
    if empty.any():
        raise PosteriorError(f"{name}{first_index(empty)} is all zero: no outcome of that source can happen")
    return counts
