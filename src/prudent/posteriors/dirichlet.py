"""Unknown categorical distributions: theta[b] ~ Dirichlet(psi[b]) for each source b, independently.

psi [B,K] are the counts: those of the prior plus how often source b was seen to draw outcome k.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from .._numerics.dirichlet_draws import draw_theta
from .._support.checks import FloatArray, IntArray, first_index, generator, non_negative_array, whole_number
from .._support.state import Arrays, State
from ..data.labels import Labels, Names, label_cells
from ..data.naming import UNNAMED, Naming, OutcomeLabels, names_of_plain, plain_names
from ..errors import DataError, PosteriorError
from .base import RNG, Posterior, equal_lengths

__all__ = ["DirichletPosterior", "posterior_from_log"]

_BY_NAME = "; positions go with indices=True"


class _Model(Protocol):
    """What :class:`DirichletPosterior` asks of a model with B sources of K outcomes."""

    def prior(self, count: float) -> Any: ...

    def count(
        self, log: Any, prior: Any, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> Any: ...


class DirichletPosterior(Posterior):
    """Independent Dirichlet posteriors of B unknown categorical distributions (sources) over K outcomes.

    ``counts`` [B,K] are the Dirichlet parameters, prior included; one row may be given as [K]. A zero is an
    outcome that cannot happen; every row has a positive total. ``prior`` [B,K] is the part of ``counts`` that
    is not data, for :meth:`merge`; by default all of them.

    ``sources`` are B names and ``outcomes`` B sequences of names. A posterior made for a model (:meth:`for_model`,
    :meth:`from_log`) has those of the model. What has a name is then called by it, and by nothing else.

    >>> posterior = DirichletPosterior([[1.0, 1.0], [1.0, 3.0]])
    >>> posterior.update(source=0, outcome=1).mean()
    array([[0.3333, 0.6667],
           [0.25  , 0.75  ]])
    >>> DirichletPosterior([[1.0, 1.0]], sources=["coin"], outcomes=[["head", "tail"]]).update("coin", "tail").counts
    array([[1., 2.]])
    """

    _sums = ("counts",)
    _fixed = ("prior",)
    counts: FloatArray  # [B,K]
    prior: FloatArray  # [B,K]
    naming: Naming  # shared with the model; for users there are ``sources`` and ``outcomes``

    def __init__(
        self,
        counts: Any,
        prior: Any = None,
        *,
        sources: Names = None,
        outcomes: Sequence[Iterable[Hashable]] | None = None,
    ) -> None:
        self.counts = _dirichlet_counts(counts, "counts")
        self.naming = _listed_names(sources, outcomes, self.counts)
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
        return cls._for(model, model.prior(count))

    @classmethod
    def _for(cls, model: Any, counts: Any, prior: Any = None) -> Self:
        posterior = cls(counts, prior)
        posterior.naming = getattr(model, "naming", UNNAMED)
        return posterior

    @property
    def sources(self) -> tuple[Hashable, ...] | None:
        """The names of the sources, or None where they are just 0, 1, ..., B-1."""
        return self.naming.source_names

    @property
    def outcomes(self) -> tuple[tuple[Hashable, ...], ...] | None:
        """The names of the outcomes of each source, or None where they are just 0, 1, ..., K-1."""
        return self.naming.outcome_names

    @classmethod
    def from_log(
        cls,
        model: _Model,
        log: Any,
        prior: Any = 1.0,
        *,
        indices: bool = False,
        columns: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the posterior of ``model`` given a log of its transitions.

        ``log`` has rows (s, a, s') or (s, a, s', outcome), or is a table or a file with such columns and perhaps
        ``count``: names where the model has names or, with ``indices=True``, numbers; see :meth:`UncertainMDP.count`,
        also for ``columns``. ``prior`` is a count for every outcome that can happen, or [B,K]. To make the model from
        the log as well: :func:`prudent.from_log`.

        >>> from prudent import UncertainMDP
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> DirichletPosterior.from_log(model, [(0, 0, 1), (1, 0, 1)])
        DirichletPosterior(counts=[[1., 2.], [1., 2.]])
        """
        start = model.prior(prior) if np.ndim(prior) == 0 else prior
        return cls._for(model, model.count(log, start, indices=indices, columns=columns), prior=start)

    def update(self, source: Any, outcome: Any, count: Any = 1.0, *, indices: bool = False) -> Self:
        """Add observations; this changes the posterior and returns it (:meth:`updated` returns a new one).

        ``count`` observations of ``outcome`` of ``source``: one of each, or arrays [T] of equal length. Sources and
        outcomes with names go by their names only; with ``indices=True`` all go by position.

        >>> DirichletPosterior([1.0, 1.0, 0.0]).update([0, 0], [0, 1], count=[2, 5])
        DirichletPosterior(counts=[[3., 6., 0.]])
        >>> from prudent import UncertainMDP
        >>> dice = UncertainMDP.from_dynamics(lambda state, action, eyes: (0, eyes), [0], ["roll"], [1, 2, 3, 4], 0.9)
        >>> DirichletPosterior.for_model(dice).update(0, [1, 1, 3])  # one, one and three eyes
        DirichletPosterior(counts=[[3., 1., 2., 1.]])
        """
        amounts = non_negative_array(count, "count")
        naming = UNNAMED if indices else self.naming
        B, K = self.counts.shape
        rows = _indices(naming.sources or Labels("source", None, B), source, "source")
        if naming.outcomes is None:
            columns = _indices(Labels("outcome", None, K), outcome, "outcome")
            rows, columns, amounts = equal_lengths(source=rows, outcome=columns, count=amounts)
        else:
            cells = label_cells(outcome, naming.outcomes[int(rows.flat[0]) if rows.size else 0])
            many = cells.ndim > 0
            rows, cells, amounts = equal_lengths(source=rows, outcome=cells, count=amounts)
            columns = _each_index(naming.outcomes, rows, cells, many)
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

    def merge(self, other: Self) -> Self:
        """Return the posterior given the data of both; the priors must be equal, and names may not differ.

        >>> DirichletPosterior([1.0, 1.0]).update(0, 1).merge(DirichletPosterior([1.0, 1.0]).update(0, 0))
        DirichletPosterior(counts=[[2., 2.]])
        """
        merged = super().merge(other)
        if not self.naming.same_as(other.naming):
            raise PosteriorError("cannot merge: the sources or outcomes have other names here than there")
        return merged

    def _learned(self, name: str) -> FloatArray:
        return self.counts - self.prior

    def _state(self) -> State:
        values, arrays = super()._state()
        values |= {"sources": plain_names(self.sources, "sources"), "outcomes": None}
        listed = self.naming.outcomes
        if listed is not None:
            names, codes, first = (
                listed if isinstance(listed, OutcomeLabels) else OutcomeLabels.of_lists(listed)
            ).parts()
            values["outcomes"] = {"names": plain_names(names, "outcomes")}
            arrays |= {"outcome_codes": codes, "outcome_first": first}
        return values, arrays

    @classmethod
    def _made(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        posterior = cls(arrays["counts"], arrays["prior"], sources=names_of_plain(values["sources"]))
        if values["outcomes"] is not None:
            names = names_of_plain(values["outcomes"]["names"])
            labels = OutcomeLabels(names, arrays["outcome_codes"], arrays["outcome_first"])
            labels.check(posterior.counts)
            posterior.naming = Naming(posterior.naming.sources, labels)
        return posterior

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


def _indices(labels: Labels, given: Any, name: str) -> IntArray:
    try:
        return labels.indices(given, name, DataError)
    except DataError as fault:
        hint = "" if labels.numbered else _BY_NAME
        raise DataError(f"{fault}{hint}") from None


def _each_index(labels: Sequence[Labels], rows: IntArray, cells: Any, many: bool) -> IntArray:
    """Return the index of each label [T] among those of its source."""
    found = np.empty(rows.size, dtype=np.int64)
    for t, (b, value) in enumerate(zip(rows.tolist(), cells.tolist(), strict=True)):
        found[t] = labels[b].find(value)
        if found[t] < 0:
            name = f"outcome[{t}]" if many else "outcome"
            raise DataError(f"{name} is {value!r}, expected {labels[b].expected()}{_BY_NAME}")
    return found


def _listed_names(sources: Names, outcomes: Any, counts: FloatArray) -> Naming:
    if sources is None and outcomes is None:
        return UNNAMED
    labels = None if sources is None else Labels("source", sources, len(counts))
    if outcomes is None:
        return Naming(labels, None)
    rows = [tuple(names) for names in outcomes]
    listed = [Labels(f"outcome of source {b}", names, len(names)) for b, names in enumerate(rows)]
    coded = OutcomeLabels.of_lists(listed)
    coded.check(counts)
    return Naming(labels, coded)


def _dirichlet_counts(values: Any, name: str) -> FloatArray:
    counts = np.atleast_2d(non_negative_array(values, name, error=PosteriorError)).copy()
    if counts.ndim != 2 or counts.size == 0:
        raise PosteriorError(f"{name} must have the shape [B, K] or [K], got {np.shape(values)}")
    empty = counts.sum(axis=1) == 0.0
    if empty.any():
        raise PosteriorError(f"{name}{first_index(empty)} is all zero: no outcome of that source can happen")
    return counts
