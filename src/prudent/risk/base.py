"""Base class of risk measures: weights on sorted draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import finite_array, whole_number
from ..errors import DataError, ParameterError
from ..types import ArrayLike, FloatArray


class Outermost(NamedTuple):
    """Weights of the outermost of n draws.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        Weights of the M lowest draws, ascending, or of the M highest draws, descending.
    sign : float
        1.0 if the lowest draws are weighted; -1.0 if the highest are, which are the lowest of the negated draws.
    """

    weights: FloatArray
    sign: float


class ExactForm(NamedTuple):
    """Risk measure as a mixture of CVaRs or of quantiles, which needs no draws.

    Attributes
    ----------
    levels : ndarray of shape (J,)
        Risk levels in (-1, 1). VaR at level 1 is the lowest value that is possible.
    weights : ndarray of shape (J,)
        Weights with sum one; negative where a distortion is convex.
    quantile : bool
        Whether VaR is mixed, not CVaR.
    """

    levels: FloatArray
    weights: FloatArray
    quantile: bool


class RiskMeasure(ABC):
    """Base class of risk measures: a weighted mean of sorted draws.

    A subclass defines ``tail_weights``, and ``exact_form`` if it is a mixture of CVaRs or of quantiles.

    Examples
    --------
    >>> class SecondWorst(RiskMeasure):
    ...     def tail_weights(self, n):
    ...         return np.array([0.0, 1.0])
    >>> SecondWorst()([3.0, 1.0, 2.0])
    2.0
    """

    @property
    def sign(self) -> float:
        """Side of the draws that are weighted: 1.0 for the lowest, -1.0 for the highest."""
        return 1.0

    @abstractmethod
    def tail_weights(self, n: int) -> FloatArray:
        """Return the weights of the outermost draws.

        Parameters
        ----------
        n : int
            Number of draws, at least 1.

        Returns
        -------
        ndarray of shape (M,)
            Weights of the M lowest draws (the highest, if ``sign`` is negative), outermost first. None is negative,
            they sum to one, and the last one is not zero.
        """

    def outermost(self, n: int) -> Outermost:
        """Return the weights of the outermost draws, and on which side these are.

        Parameters
        ----------
        n : int
            Number of draws.

        Returns
        -------
        Outermost
            Weights (M,) and sign.

        Examples
        --------
        >>> from prudent.risk import CVaR
        >>> CVaR(-0.7).outermost(4)
        Outermost(weights=array([0.8333, 0.1667]), sign=-1.0)
        """
        return Outermost(self.tail_weights(whole_number(n, "n", memory=16.0)), self.sign)

    def lowest_weights(self, n: int) -> FloatArray:
        """Return the weights of the lowest draws, up to the last one that is not zero.

        Parameters
        ----------
        n : int
            Number of draws.

        Returns
        -------
        ndarray of shape (M,)
            Weights of the M lowest draws; the other n - M have weight zero.

        Examples
        --------
        >>> from prudent.risk import CVaR
        >>> CVaR(0.7).lowest_weights(4), CVaR(-0.7).lowest_weights(4)
        (array([0.8333, 0.1667]), array([0.    , 0.    , 0.1667, 0.8333]))
        """
        weights, sign = self.outermost(n)
        return weights if sign > 0.0 else np.trim_zeros(padded(weights, n)[::-1], "b").copy()

    def weights(self, n: int) -> FloatArray:
        """Return the weights of all draws, sorted ascending.

        Parameters
        ----------
        n : int
            Number of draws N.

        Returns
        -------
        ndarray of shape (N,)
            Weights; none is negative, and they sum to one.

        Examples
        --------
        >>> from prudent.risk import CVaR
        >>> CVaR(0.5).weights(4), CVaR(-0.5).weights(4)
        (array([0.5, 0.5, 0. , 0. ]), array([0. , 0. , 0.5, 0.5]))
        """
        return padded(self.lowest_weights(n), n)

    def exact_form(self) -> ExactForm:
        """Return the mixture of CVaRs or quantiles that this measure is, which needs no draws.

        Returns
        -------
        ExactForm
            Levels, weights, and whether quantiles are mixed.

        Raises
        ------
        ParameterError
            If the measure is no such mixture.

        Examples
        --------
        >>> from prudent.risk import MeanCVaR
        >>> MeanCVaR(0.9, weight=0.25).exact_form()
        ExactForm(levels=array([0. , 0.9]), weights=array([0.25, 0.75]), quantile=False)
        """
        message = f"{self!r} has no exact form; give draws, e.g. draws=1000"
        raise ParameterError(message, code="no-exact-form", value=self)

    def __call__(self, draws: ArrayLike, axis: int = 0) -> float | FloatArray:
        """Return the risk of draws, in time linear in their number for step weights.

        Parameters
        ----------
        draws : array_like
            Draws, finite numbers.
        axis : int, default=0
            Axis of the N draws.

        Returns
        -------
        float or ndarray
            Risk, in the shape of `draws` without `axis`.

        Examples
        --------
        >>> from prudent.risk import WorstCase
        >>> WorstCase()([[3.0, 1.0], [2.0, 5.0]])
        array([2., 1.])
        """
        values, axis = draws_along(draws, axis)
        low = np.moveaxis(values if self.sign > 0.0 else -values, axis, 0)
        weights = self.tail_weights(low.shape[0])
        last = weights.size - 1
        # Draws of equal weight need not be sorted among themselves: select where the weight changes.
        places = np.union1d(np.flatnonzero(np.diff(weights)) + 1, last)
        low = np.sort(low, axis=0) if places.size > 16 else np.partition(low, places, axis=0)
        # Deviations from one of the draws keep the error relative to their range and constants exact.
        centre = low[last]
        return plain(self.sign * (centre + np.tensordot(weights, low[: last + 1] - centre, axes=1)))


def padded(weights: FloatArray, n: int) -> FloatArray:
    """Return weights of n draws, with zeros after those that are given."""
    return np.pad(weights, (0, n - weights.size))


def draws_along(draws: ArrayLike, axis: int) -> tuple[FloatArray, int]:
    """Return draws as a finite array, and their axis as an index from 0; there must be at least one draw."""
    values = finite_array(draws, "draws")
    if values.ndim == 0:
        message = f"draws must have at least one axis, got the number {values}"
        raise DataError(message, code="wrong-shape", argument="draws", value=values.shape)
    position = whole_number(axis, "axis", minimum=-values.ndim)
    if position >= values.ndim:
        message = f"axis must be below {values.ndim}, the number of axes of draws, got {position}"
        raise ParameterError(message, code="index-range", argument="axis", value=position)
    position %= values.ndim
    if values.shape[position] == 0:
        message = f"draws must hold at least one draw along axis {position}, got shape {values.shape}"
        raise DataError(message, code="wrong-shape", argument="draws", value=values.shape)
    return values, position


def plain(result: Any) -> float | FloatArray:
    """Return a result without axes as a float."""
    return float(result) if np.ndim(result) == 0 else result
