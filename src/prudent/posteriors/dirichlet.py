"""Unknown categorical distributions: theta[b] ~ Dirichlet(psi[b]) for each source b, independently.

psi [B,K] are the counts: those of the prior plus how often source b was seen to draw outcome k.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from .._numerics.dirichlet_draws import draw_theta
from .._support.checks import first_index, first_place, generator, non_negative_array, positive, refuse, whole_number
from .._support.state import Arrays, State
from ..data.labels import Labels, Names, label_cells
from ..data.naming import UNNAMED, Naming, OutcomeLabels, names_of_plain, plain_names
from ..errors import DataError, PosteriorError
from ..types import ArrayLike, FloatArray, IntArray, Label, RngLike, TableLike
from .base import Posterior, equal_lengths
from .groups import Group, added_up, matched_counts

LARGEST_COUNT = 1e150  # squares of totals are finite
_BY_NAME = "; positions go with indices=True"


class SourceModel(Protocol):
    """A model with B sources of K outcomes, such as `prudent.UncertainMDP`."""

    def prior(self, count: float = 1.0) -> FloatArray:
        """Return Dirichlet counts [B, K]: ``count`` for every outcome that a source has, 0 elsewhere."""

    def count(
        self, log: Any, prior: Any, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> FloatArray:
        """Return the counts [B, K] after a log."""

    def tally(
        self, log: Any, prior: Any, *, indices: bool = False, columns: Mapping[str, Any] | None = None
    ) -> tuple[FloatArray, list[Group]]:
        """Return the counts [B, K] of known outcomes after a log, and the groups of the others."""


def prior_counts(model: SourceModel, prior: ArrayLike | None = None) -> FloatArray:
    """Return the Dirichlet counts [B, K] of a prior; the only reader of the argument ``prior``.

    Parameters
    ----------
    model : SourceModel
        The model whose sources are unknown.
    prior : float or array_like, optional
        A number is the mass of a pair: the total count of a source, spread evenly over its outcomes. An array [B, K]
        gives every count. The default is a count of one for every outcome, the uniform distribution.

    Returns
    -------
    ndarray of float
        Counts [B, K], 0 where a source has no such outcome.

    Raises
    ------
    ParameterError
        If a number is not positive.
    PosteriorError
        If an array does not fit the model.

    Examples
    --------
    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    >>> prior_counts(model), prior_counts(model, 1.0)
    (array([[1., 1.],
           [1., 1.]]), array([[0.5, 0.5],
           [0.5, 0.5]]))
    """
    if prior is None:
        return np.asarray(model.prior(), dtype=np.float64)
    if isinstance(prior, list | tuple) or np.ndim(prior) > 0:
        return model.count([], prior)
    possible = np.asarray(model.prior()) > 0.0
    return np.where(possible, positive(prior, "prior") / possible.sum(axis=1, keepdims=True), 0.0)


class DirichletPosterior(Posterior):
    """Independent Dirichlet posteriors of B unknown categorical distributions (sources) over K outcomes.

    Parameters
    ----------
    counts : array_like
        Dirichlet parameters [B, K], prior included; one row may be given as [K]. A zero is an outcome that cannot
        happen; every row has a positive total.
    prior : array_like, optional
        The part of `counts` that is not data, for `merge`. The default is all of them.
    sources : sequence of hashable, optional
        Names of the B sources.
    outcomes : sequence of sequence of hashable, optional
        Names of the outcomes of each source.

    Attributes
    ----------
    counts : ndarray of float
        Dirichlet parameters [B, K].
    prior : ndarray of float
        The part of `counts` [B, K] that is not data.
    ambiguous : ndarray of float
        Observations [B] of each source that were one of several outcomes. Where there are any, the counts are an
        approximation of the posterior that is not surer than it (see `GroupedPosterior`).
    naming : Naming
        Names that are shared with the model; see `sources` and `outcomes`.

    Raises
    ------
    PosteriorError
        If counts are negative, a row is all zero, or the prior exceeds the counts.

    See Also
    --------
    prudent.from_log : Model and posterior from a log.

    Notes
    -----
    A posterior made for a model (`for_model`, `from_log`) has the names of the model. Sources and outcomes that have
    names are addressed by name only, unless ``indices=True``.

    Examples
    --------
    >>> posterior = DirichletPosterior([[1.0, 1.0], [1.0, 3.0]])
    >>> posterior.update(source=0, outcome=1).mean()
    array([[0.3333, 0.6667],
           [0.25  , 0.75  ]])
    >>> DirichletPosterior([[1.0, 1.0]], sources=["coin"], outcomes=[["head", "tail"]]).update("coin", "tail").counts
    array([[1., 2.]])
    """

    sums = ("counts", "ambiguous")
    fixed = ("prior",)
    counts: FloatArray
    ambiguous: FloatArray
    prior: FloatArray
    naming: Naming

    def __init__(
        self,
        counts: ArrayLike,
        prior: ArrayLike | None = None,
        *,
        sources: Names = None,
        outcomes: Sequence[Iterable[Hashable]] | None = None,
    ) -> None:
        self.counts = _dirichlet_counts(counts, "counts")
        self.ambiguous = np.zeros(self.counts.shape[0])
        self.naming = _listed_names(sources, outcomes, self.counts)
        if prior is None:
            self.prior = self.counts.copy()
            return
        self.prior = _dirichlet_counts(prior, "prior")
        if self.prior.shape != self.counts.shape:
            text = f"prior has shape {self.prior.shape}, counts has {self.counts.shape}"
            raise PosteriorError(text, code="wrong-shape", argument="prior", value=self.prior.shape)
        self.check()

    @classmethod
    def for_model(cls, model: SourceModel, prior: ArrayLike | None = None) -> Self:
        """Return the posterior of a model before data.

        Parameters
        ----------
        model : UncertainMDP
            The model whose sources are unknown.
        prior : float or array_like, optional
            A number is the mass of a pair of state and action, spread evenly over its outcomes; an array [B, K] gives
            every count. The default is a count of one for every outcome.

        Returns
        -------
        DirichletPosterior
            The prior, with the names of the model.

        Examples
        --------
        >>> import prudent as pr
        >>> model = pr.UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> DirichletPosterior.for_model(model)
        DirichletPosterior(counts=[[1., 1.], [1., 1.]])
        >>> DirichletPosterior.for_model(model, prior=1)
        DirichletPosterior(counts=[[0.5, 0.5], [0.5, 0.5]])
        """
        return cls._of(model, prior_counts(model, prior))

    @classmethod
    def _of(cls, model: Any, counts: Any, prior: Any = None) -> Self:
        posterior = cls(counts, prior)
        posterior.naming = getattr(model, "naming", UNNAMED)
        return posterior

    @property
    def sources(self) -> tuple[Hashable, ...] | None:
        """Names of the sources, or None if they are numbered 0, 1, ..., B-1."""
        return self.naming.source_names

    @property
    def outcomes(self) -> tuple[tuple[Hashable, ...], ...] | None:
        """Names of the outcomes of each source, or None if they are numbered 0, 1, ..., K-1."""
        return self.naming.outcome_names

    @classmethod
    def from_log(
        cls,
        model: SourceModel,
        log: TableLike,
        prior: ArrayLike | None = None,
        *,
        indices: bool = False,
        columns: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the posterior of a model given a log of its transitions.

        Parameters
        ----------
        model : UncertainMDP
            The model that the log is about.
        log : table
            Rows (s, a, s') or (s, a, s', outcome), or a table or file with such columns and perhaps ``count``; see
            `prudent.UncertainMDP.count`.
        prior : float or array_like, optional
            As for `for_model`.
        indices : bool, default=False
            Whether the log has positions instead of names.
        columns : mapping, optional
            Which column is which, see `prudent.UncertainMDP.count`.

        Returns
        -------
        DirichletPosterior
            The posterior, with the names of the model. Rows that several outcomes explain are counted in
            ``ambiguous``, and make the counts approximate.

        Raises
        ------
        DataError
            If a row of the log is impossible.

        See Also
        --------
        GroupedPosterior : The exact posterior where outcomes are ambiguous.
        prudent.from_log : Makes the model from the log as well.

        Examples
        --------
        >>> from prudent import UncertainMDP
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> DirichletPosterior.from_log(model, [(0, 0, 1), (1, 0, 1)])
        DirichletPosterior(counts=[[1., 2.], [1., 2.]])
        """
        before = prior_counts(model, prior)
        counts, groups, ambiguous = added_up(*model.tally(log, before, indices=indices, columns=columns))
        counts = matched_counts(counts, groups)
        posterior = cls._of(model, counts, prior=np.minimum(before, counts))
        posterior.ambiguous = ambiguous
        return posterior

    def update(
        self, source: Label | ArrayLike, outcome: Label | ArrayLike, count: ArrayLike = 1.0, *, indices: bool = False
    ) -> Self:
        """Add observations in place.

        Parameters
        ----------
        source : hashable or array_like
            Source of the observation, or sources [T].
        outcome : hashable or array_like
            Outcome that was seen, or outcomes [T].
        count : array_like, default=1
            How often it was seen, or counts [T].
        indices : bool, default=False
            Whether sources and outcomes are given by position even if they have names.

        Returns
        -------
        DirichletPosterior
            This posterior.

        Raises
        ------
        DataError
            If a source or outcome is unknown, or the outcome cannot happen. Nothing is changed then.

        Examples
        --------
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
            text = f"observation {t}: outcome {columns[t]} of source {rows[t]} cannot happen, its count is zero"
            names = {"source": int(rows[t]), "outcome": int(columns[t])}
            raise DataError(text, code="impossible-outcome", index=(t,), **names)
        np.add.at(self.counts, (rows, columns), amounts)
        return self

    def mean(self) -> FloatArray:
        """Return the mean probabilities.

        Returns
        -------
        ndarray of float
            Means [B, K].

        Examples
        --------
        >>> DirichletPosterior([1.0, 3.0]).mean()
        array([[0.25, 0.75]])
        """
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    def variance(self) -> FloatArray:
        """Return the variance of every probability.

        Returns
        -------
        ndarray of float
            Variances [B, K].

        Examples
        --------
        >>> DirichletPosterior([1.0, 3.0]).variance()
        array([[0.0375, 0.0375]])
        """
        mean = self.mean()
        return mean * (1.0 - mean) / (self.counts.sum(axis=1, keepdims=True) + 1.0)

    def covariance(self) -> FloatArray:
        """Return the covariance of the probabilities of each source.

        Returns
        -------
        ndarray of float
            Covariances [B, K, K].

        Examples
        --------
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

    def sample(self, n: int, rng: RngLike = None) -> FloatArray:
        """Draw probabilities of all sources.

        Parameters
        ----------
        n : int
            Number of draws N.
        rng : int, Generator or None, optional
            Source of randomness.

        Returns
        -------
        ndarray of float
            Draws [N, B, K]. Rows sum to one, and impossible outcomes get exactly zero.

        Examples
        --------
        >>> draws = DirichletPosterior([[0.01, 0.01, 0.0]]).sample(5, rng=1)
        >>> draws.shape, float(draws[:, 0, 2].max())
        ((5, 1, 3), 0.0)
        """
        n = whole_number(n, "n", memory=8.0 * self.counts.size)
        theta = np.empty((*self.counts.shape, n))
        draw_theta(generator(rng), self.counts, theta, n, np.empty(n))
        return np.ascontiguousarray(np.moveaxis(theta, -1, 0))

    def merge(self, other: Self) -> Self:
        """Return the posterior given the data of both.

        Parameters
        ----------
        other : DirichletPosterior
            A posterior with the same prior and names, which has learned from other data.

        Returns
        -------
        DirichletPosterior
            A new posterior.

        Raises
        ------
        PosteriorError
            If priors or names differ.

        Examples
        --------
        >>> DirichletPosterior([1.0, 1.0]).update(0, 1).merge(DirichletPosterior([1.0, 1.0]).update(0, 0))
        DirichletPosterior(counts=[[2., 2.]])
        """
        merged = super().merge(other)
        if not self.naming.same_as(other.naming):
            text = "cannot merge: the names of sources or outcomes differ"
            raise PosteriorError(text, code="name-mismatch", argument="names")
        return merged

    def learned(self, name: str) -> FloatArray:
        """Return the observed counts.

        Parameters
        ----------
        name : str
            ``"counts"``.

        Returns
        -------
        ndarray of float
            Counts [B, K] without the prior; or ``"ambiguous"``, [B].
        """
        return self.counts - self.prior if name == "counts" else self.ambiguous

    def check(self) -> None:
        """Check that counts are at least those of the prior.

        Raises
        ------
        PosteriorError
            If one is below.
        """
        below = self.counts < self.prior
        refuse(below, self.counts, "counts", "at least that of the prior", error=PosteriorError, code="below-prior")
        refuse(self.ambiguous < 0.0, self.ambiguous, "ambiguous", "at least 0", error=PosteriorError, code="negative")

    def state(self) -> State:
        """Return the values and arrays that `save` writes.

        Returns
        -------
        values : dict
            Names of sources and outcomes.
        arrays : dict of str to ndarray
            Counts, prior and codes of outcomes.
        """
        values, arrays = super().state()
        if not self.ambiguous.any():
            del arrays["ambiguous"]
        values |= {"sources": plain_names(self.sources, "sources"), "outcomes": None}
        listed = self.naming.outcomes
        if listed is not None:
            labels = listed if isinstance(listed, OutcomeLabels) else OutcomeLabels.of_lists(listed)
            values["outcomes"] = {"names": plain_names(labels.names, "outcomes")}
            arrays |= {"outcome_codes": labels.codes, "outcome_first": labels.first}
        return values, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the posterior with a given state.

        Parameters
        ----------
        values : dict
            Values of `state`.
        arrays : dict of str to ndarray
            Arrays of `state`.

        Returns
        -------
        DirichletPosterior
            The posterior.

        Raises
        ------
        ValueError
            If no posterior has this state.
        """
        arrays = {"ambiguous": np.zeros(len(arrays["counts"])), **arrays}
        posterior = super().from_state(values, arrays)
        posterior.naming = _listed_names(names_of_plain(values["sources"]), None, posterior.counts)
        if values["outcomes"] is not None:
            names = names_of_plain(values["outcomes"]["names"])
            labels = OutcomeLabels(names, arrays["outcome_codes"], arrays["outcome_first"])
            labels.check(posterior.counts)
            posterior.naming = Naming(posterior.naming.sources, labels)
        return posterior

    def summary(self) -> dict[str, Any]:
        """Return what ``repr`` prints.

        Returns
        -------
        dict of str to object
            The counts, and the ambiguous observations if there are any.
        """
        return {"counts": self.counts} | ({"ambiguous": self.ambiguous} if self.ambiguous.any() else {})


def _indices(labels: Labels, members: Any, name: str) -> IntArray:
    try:
        return labels.indices(members, name, DataError)
    except DataError as fault:
        hint = "" if labels.numbered else _BY_NAME
        raise type(fault)(f"{fault}{hint}", code=fault.code, **fault.fields) from None


def _each_index(labels: Sequence[Labels], rows: IntArray, cells: Any, many: bool) -> IntArray:
    """Return the index of each label [T] among those of its source."""
    columns = np.empty(rows.size, dtype=np.int64)
    for t, (b, value) in enumerate(zip(rows.tolist(), cells.tolist(), strict=True)):
        columns[t] = labels[b].find(value)
        if columns[t] < 0:
            name = f"outcome[{t}]" if many else "outcome"
            text = f"{name} is {value!r}, expected {labels[b].expected()}{_BY_NAME}"
            raise DataError(text, code="unknown-outcome", argument="outcome", value=value, index=(t,))
    return columns


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
        text = f"{name} must have the shape [B, K] or [K], got {np.shape(values)}"
        raise PosteriorError(text, code="wrong-shape", argument=name, value=np.shape(values))
    refuse(counts > LARGEST_COUNT, counts, name, f"at most {LARGEST_COUNT:g}", error=PosteriorError, code="count-range")
    empty = np.asarray(~(counts > 0.0).any(axis=1))
    if empty.any():
        text = f"{name}{first_index(empty)} is all zero: no outcome of that source can happen"
        raise PosteriorError(text, code="no-outcome", argument=name, index=first_place(empty))
    return counts
