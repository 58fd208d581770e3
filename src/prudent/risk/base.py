"""Base class of risk measures: weights on sorted draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._support.checks import SUM_TOLERANCE, finite_array, non_negative_array, require_sum_of_one, whole_number
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


_FINAL = ("__call__", "weights", "lowest_weights", "outermost")  # what follows from the hooks of a subclass


class RiskMeasure(ABC):
    """Base class of risk measures: a weighted mean of sorted draws.

    A subclass defines ``tail_weights``, and ``exact_form`` if it is a mixture of CVaRs or of quantiles. The weights are
    checked wherever they are used: none is negative, and they sum to one. A measure that is no weighted mean of sorted
    draws is a ``CertaintyEquivalent``.

    Raises
    ------
    ParameterError
        When a subclass is defined that overrides ``__call__``, ``weights``, ``lowest_weights`` or ``outermost``:
        solvers would not use it.

    Examples
    --------
    >>> class SecondWorst(RiskMeasure):
    ...     def tail_weights(self, n):
    ...         return np.array([0.0, 1.0])
    >>> SecondWorst()([3.0, 1.0, 2.0])
    2.0
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in _FINAL:
            if name in cls.__dict__:
                message = (
                    f"{cls.__name__} overrides {name}, which solvers would not use: define tail_weights(n), the "
                    "weights of sorted draws, or derive from prudent.risk.CertaintyEquivalent and define of_draws"
                )
                raise ParameterError(message, code="final-method", value=name)

    @property
    def sign(self) -> float:
        """Side of the draws that are weighted: 1.0 for the lowest, -1.0 for the highest."""
        return 1.0

    @property
    def gap(self) -> float:
        """Bound on the distance from the measure that it stands for, as a share of the range of the draws: 0."""
        return 0.0

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
        size, sign = whole_number(n, "n", memory=16.0), float(self.sign)
        if abs(sign) != 1.0:
            message = f"sign of {self!r} must be 1.0 or -1.0, got {self.sign!r}"
            raise ParameterError(message, code="unknown-option", argument="sign", value=self.sign)
        return Outermost(self._checked(self.tail_weights(size), size), sign)

    def _checked(self, given: ArrayLike, n: int) -> FloatArray:
        """Return weights of the outermost of n draws; refuse what is no distribution."""
        weights = non_negative_array(given, "tail_weights", ndim=1, error=ParameterError)
        if not 0 < weights.size <= n:
            message = f"tail_weights({n}) of {self!r} must have from 1 to {n} weights, got {weights.size}"
            raise ParameterError(
                message, code="wrong-shape", argument="tail_weights", value=weights.shape, expected=(n,)
            )
        total = float(require_sum_of_one(weights, "tail_weights", error=ParameterError))
        # what rounding explains is covered by the error bound of a solution
        return weights if abs(total - 1.0) <= weights.size * EPS else weights / total

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
        return plain(self._of_draws(np.moveaxis(values, axis, 0)))

    def _of_draws(self, draws: FloatArray) -> FloatArray:
        """Return the risk of draws [N, ...] along the first axis."""
        weights, sign = self.outermost(draws.shape[0])
        low = draws if sign > 0.0 else -draws
        last = weights.size - 1
        # Draws of equal weight need not be sorted among themselves: select where the weight changes.
        places = np.union1d(np.flatnonzero(np.diff(weights)) + 1, last)
        low = np.sort(low, axis=0) if places.size > 16 else np.partition(low, places, axis=0)
        # Deviations from one of the draws keep the error relative to their range and constants exact.
        centre = low[last]
        with np.errstate(over="ignore", invalid="ignore"):
            found = centre + np.tensordot(weights, low[: last + 1] - centre, axes=1)
        if not np.isfinite(found).all():  # the range of the draws is no float
            half = 0.5 * centre
            found = 2.0 * (half + np.tensordot(weights, 0.5 * low[: last + 1] - half, axes=1))
        return np.asarray(sign * found)

    def gradient(self, draws: ArrayLike) -> FloatArray:
        """Return the derivative of the risk with respect to each draw.

        Parameters
        ----------
        draws : array_like of shape (N, ...)
            Draws along the first axis.

        Returns
        -------
        ndarray of shape (N, ...)
            Weights of the draws, in their own order; none is negative, and they sum to one along the first axis.

        Examples
        --------
        >>> from prudent.risk import CVaR
        >>> CVaR(0.5).gradient([4.0, 1.0, 3.0, 2.0])
        array([0. , 0.5, 0. , 0.5])
        """
        values, _ = draws_along(draws, 0)
        weights = self.weights(values.shape[0])
        out = np.empty(values.shape)
        order = np.argsort(values, axis=0, kind="stable")
        np.put_along_axis(out, order, weights.reshape(-1, *[1] * (values.ndim - 1)), axis=0)
        return out


def form_of(measure: RiskMeasure) -> ExactForm:
    """Return the exact form of a measure; refuse one whose value could fall when outcomes get better.

    With u the share of the lowest outcomes, CVaR of the lowest p weighs them by 1/p for u < p, and CVaR of the highest
    p by 1/p for u > 1 - p. The mixture is monotone if no share has a negative weight.
    """
    levels, weights, quantile = measure.exact_form()
    levels = finite_array(levels, "levels", ndim=1, error=ParameterError)
    weights = finite_array(weights, "weights", ndim=1, error=ParameterError)
    if levels.shape != weights.shape or not levels.size:
        message = (
            f"exact_form() of {measure!r} must have one weight for each level, got {weights.shape}, {levels.shape}"
        )
        raise ParameterError(
            message, code="wrong-shape", argument="exact_form", value=weights.shape, expected=levels.shape
        )
    widest = 1.0 if quantile else np.nextafter(1.0, 0.0)
    if (abs(levels) > widest).any():
        level = float(levels[abs(levels) > widest][0])
        message = f"levels of exact_form() of {measure!r} must lie in (-1, 1), got {level!r}"
        raise ParameterError(message, code="alpha-range", argument="exact_form", value=level)
    require_sum_of_one(weights, "weights", error=ParameterError)
    if quantile:
        density = weights
    else:
        tail = 1.0 - abs(levels)
        ends = np.unique(np.concatenate(([0.0, 1.0], tail[levels >= 0.0], 1.0 - tail[levels < 0.0])))
        middle = 0.5 * (ends[1:] + ends[:-1])[:, np.newaxis]
        counted = np.where(levels >= 0.0, middle < tail, middle > 1.0 - tail)
        density = counted @ (weights / tail)
    if (density < -SUM_TOLERANCE).any():
        message = f"exact_form() of {measure!r} gives some outcomes a negative weight: it is not monotone"
        raise ParameterError(message, code="negative", argument="exact_form", value=float(density.min()))
    return ExactForm(levels, weights, bool(quantile))


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
