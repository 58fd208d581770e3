"""The posterior of sources some of whose draws were seen only as one of several outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from .._support.checks import generator, whole_number
from ..types import ArrayLike, FloatArray, RngLike, TableLike
from .dirichlet import DirichletPosterior, SourceModel, prior_counts
from .groups import Group, added_up, by_source, matched_counts


class GroupedPosterior:
    """Posterior of B sources some of whose draws were seen only as one of several outcomes.

    Parameters
    ----------
    counts : array_like of shape (B, K)
        Dirichlet counts: the prior and the draws whose outcome is known.
    groups : iterable of Group
        The other draws. Groups of one source with the same outcomes are added up.
    prior : array_like of shape (B, K), optional
        The part of `counts` that is not data. The default is all of them.

    Attributes
    ----------
    counts, prior : ndarray of shape (B, K)
        As given.
    groups : tuple of Group
        As given, added up.
    ambiguous : ndarray of shape (B,)
        Number of draws of each source whose outcome is not known.

    Raises
    ------
    PosteriorError
        If counts are invalid.
    DataError
        If a group has no outcome that is possible, or its number of draws is negative.

    See Also
    --------
    DirichletPosterior : The posterior where every outcome is known.

    Examples
    --------
    Two outcomes of three look alike. Five draws were one of them, two were the third:

    >>> posterior = GroupedPosterior([[1.0, 1.0, 3.0]], [Group(0, (0, 1), 5.0)])
    >>> posterior.mean()
    array([[0.35, 0.35, 0.3 ]])
    >>> posterior.dirichlet()
    DirichletPosterior(counts=[[1.33707865, 1.33707865, 1.14606742]], ambiguous=[5.])
    """

    def __init__(self, counts: ArrayLike, groups: Iterable[Group], prior: ArrayLike | None = None) -> None:
        checked = DirichletPosterior(counts, prior)
        self.prior, self.naming = checked.prior, checked.naming
        self.counts, self.groups, self.ambiguous = added_up(checked.counts, groups)

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
            As for `DirichletPosterior.from_log`.
        prior : float or array_like, optional
            As for `DirichletPosterior.for_model`.
        indices : bool, default=False
            Whether the log has positions instead of names.
        columns : mapping, optional
            Which column is which, see `prudent.UncertainMDP.count`.

        Returns
        -------
        GroupedPosterior
            The posterior.

        Raises
        ------
        DataError
            If a row of the log is impossible.
        """
        before = prior_counts(model, prior)
        counts, groups = model.tally(log, before, indices=indices, columns=columns)
        posterior = cls(counts, groups, before)
        posterior.naming = getattr(model, "naming", posterior.naming)
        return posterior

    def mean(self) -> FloatArray:
        """Return the mean probabilities.

        Returns
        -------
        ndarray of shape (B, K)
            Means; exact unless a Gibbs sampler is needed.
        """
        return self._moments()[0]

    def variance(self) -> FloatArray:
        """Return the variance of every probability.

        Returns
        -------
        ndarray of shape (B, K)
            Variances; exact unless a Gibbs sampler is needed.
        """
        return self._moments()[1]

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        plain = DirichletPosterior(self.counts)
        mean, variance = plain.mean(), plain.variance()
        for source, posterior in by_source(self.counts, self.groups):
            mean[source], variance[source] = posterior.moments()
        return mean, variance

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
        ndarray of shape (N, B, K)
            Draws, for ``BayesianRiskMDP(model, draws=...)``.

        Warns
        -----
        ConvergenceWarning
            If a Gibbs sampler did not converge.
        """
        size, random = whole_number(n, "n"), generator(rng)
        theta = DirichletPosterior(self.counts).sample(size, random)
        for source, posterior in by_source(self.counts, self.groups):
            theta[:, source] = posterior.sample(size, random)
        return theta

    def dirichlet(self) -> DirichletPosterior:
        """Return Dirichlet counts in place of the posterior: an approximation that is not surer than it.

        Each source with groups keeps its means, with the largest total count at which no outcome has a smaller
        variance than in the posterior.

        Returns
        -------
        DirichletPosterior
            Its ``ambiguous`` has the number of draws whose outcome is not known.
        """
        counts = matched_counts(self.counts, self.groups)
        posterior = DirichletPosterior(counts, np.minimum(self.prior, counts))
        posterior.naming = self.naming
        posterior.ambiguous = self.ambiguous.copy()
        return posterior

    def __repr__(self) -> str:
        unknown = f"{self.ambiguous.sum():g} ambiguous observations in {len(self.groups)} groups"
        return f"GroupedPosterior({self.counts.shape[0]} sources, {unknown})"
