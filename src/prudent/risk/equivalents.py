"""Certainty equivalents: risk measures that are no weighted mean of sorted draws."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._numerics.dirichlet_entropic import entropic_rows
from .._support.checks import open_probability
from ..errors import ConformanceError, ParameterError
from ..types import ArrayLike, FloatArray
from .base import RiskMeasure, draws_along

_ROOM = 1e-6  # of the range of draws, for the rounding of measures that solve an equation


class EquivalentRows(NamedTuple):
    """A certainty equivalent of Dirichlet means, row by row.

    Attributes
    ----------
    value : ndarray of shape (P,)
        Certainty equivalents.
    means : ndarray of shape (P, K)
        Their gradients: weights of the outcomes, which sum to one.
    error : ndarray of shape (P,)
        Bounds on the errors of `value`.
    """

    value: FloatArray
    means: FloatArray
    error: FloatArray


class CertaintyEquivalent(RiskMeasure):
    """Base class of measures that are monotone and translation equivariant, but no weighted mean of sorted draws.

    Monotone: no draw can rise and the measure fall. Translation equivariant: a constant added to all draws is added
    to the measure. Then the Bellman operator contracts and the error bound of a solution holds, as for every other
    measure. Both are promises of the subclass: solvers look for a counterexample before they begin, on a few random
    draws, and ``prudent.testing.check_risk`` looks longer.

    A subclass defines ``of_draws``. With ``gradient`` solvers need fewer backups, and with ``of_dirichlet`` they need
    no draws.

    Examples
    --------
    >>> class HalfwayToWorst(CertaintyEquivalent):
    ...     def of_draws(self, draws):
    ...         return 0.5 * (draws.mean(axis=0) + draws.min(axis=0))
    >>> HalfwayToWorst()([3.0, 1.0, 2.0])
    1.5
    """

    @abstractmethod
    def of_draws(self, draws: FloatArray) -> FloatArray:
        """Return the measure of equally likely draws.

        Parameters
        ----------
        draws : ndarray of shape (N, ...)
            Draws along the first axis, finite numbers.

        Returns
        -------
        ndarray of shape (...)
            Certainty equivalents, accurate to a few units of rounding for each draw.
        """

    def of_dirichlet(self, values: FloatArray, counts: FloatArray) -> EquivalentRows:
        """Return the measure of w.values for w ~ Dirichlet(counts), which needs no draws.

        Parameters
        ----------
        values : ndarray of shape (P, K)
            Values of the outcomes of P rows.
        counts : ndarray of shape (P, K)
            Dirichlet parameters; an outcome with count zero has probability zero, and its value is not used.

        Returns
        -------
        EquivalentRows
            Values, gradients and error bounds.

        Raises
        ------
        ParameterError
            If the measure can only be computed from draws.
        """
        message = f"{self!r} has no exact form; give draws, e.g. draws=1000"
        raise ParameterError(message, code="no-exact-form", value=self)

    @property
    def knows_dirichlet(self) -> bool:
        """Whether the measure needs no draws under a Dirichlet posterior."""
        return type(self).of_dirichlet is not CertaintyEquivalent.of_dirichlet

    def gradient(self, draws: ArrayLike) -> FloatArray:
        """Return the derivative of the measure with respect to each draw.

        It only directs Newton steps, so that a rough one does no harm. By default it is that of the mean.

        Parameters
        ----------
        draws : array_like of shape (N, ...)
            Draws along the first axis.

        Returns
        -------
        ndarray of shape (N, ...)
            Weights of the draws; none is negative, and they sum to one along the first axis.
        """
        values, _ = draws_along(draws, 0)
        return np.full(values.shape, 1.0 / values.shape[0])

    def tail_weights(self, n: int) -> FloatArray:
        """Refuse: there are no such weights.

        Parameters
        ----------
        n : int
            Number of draws.

        Returns
        -------
        ndarray
            Nothing is returned.

        Raises
        ------
        ParameterError
            Always.
        """
        message = (
            f"{self!r} is no weighted mean of sorted draws: use it in BayesianRiskMDP(..., risk=...), or in "
            "simulations by ModelSamplingAgent(model, risk=..., draws=n)"
        )
        raise ParameterError(message, code="no-weights", value=self)

    def _of_draws(self, draws: FloatArray) -> FloatArray:
        return checked_values(self, self.of_draws(draws), draws.shape[1:])


def checked_values(measure: CertaintyEquivalent, given: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return what a measure computed as an array; refuse another shape, and what is not finite."""
    values = np.asarray(given, dtype=np.float64)
    if values.shape != shape:
        message = f"of_draws of {measure!r} must return an array of shape {shape}, got {values.shape}"
        raise ParameterError(message, code="wrong-shape", argument="of_draws", value=values.shape, expected=shape)
    if not np.isfinite(values).all():
        value = float(values[~np.isfinite(values)][0])
        message = f"of_draws of {measure!r} must return finite numbers, got {value}"
        raise ParameterError(message, code="not-finite", argument="of_draws", value=value)
    return values


@dataclass(frozen=True)
class EntropicRisk(CertaintyEquivalent):
    """Entropic risk -(1/beta) log E[exp(-beta Z)]; exact under Dirichlet posteriors, without draws.

    For Z = w.v, w ~ Dirichlet(psi), the expectation is the confluent hypergeometric function of several variables
    (Lauricella's Phi_2); with two outcomes it is Kummer's function 1F1.

    Parameters
    ----------
    beta : float
        Aversion to risk: 0 is the mean, infinity would be the worst case, a negative number is optimistic. Its unit is
        one over that of the rewards.

    Raises
    ------
    ParameterError
        If `beta` is not finite.

    Examples
    --------
    >>> round(EntropicRisk(2.0)([0.0, 1.0]), 6)
    0.28311
    """

    beta: float

    def __post_init__(self) -> None:
        try:
            beta = float(self.beta)
        except (TypeError, ValueError):
            beta = math.nan
        if not math.isfinite(beta):
            message = f"beta must be a finite number, got {self.beta!r}"
            raise ParameterError(message, code="not-finite", argument="beta", value=self.beta)
        object.__setattr__(self, "beta", beta)

    def of_draws(self, draws: FloatArray) -> FloatArray:  # noqa: D102
        low, high = draws.min(axis=0), draws.max(axis=0)
        with np.errstate(over="ignore"):  # halves and the range of the draws keep what overflows in its place
            mean = np.clip(draws.mean(axis=0), low, high)
            if self.beta == 0.0:
                return np.asarray(mean)
            # expm1 and log1p about the mean while the exponents are small, else powers below one about the worst
            near = 2.0 * abs(self.beta * (0.5 * high - 0.5 * low)) < 1.0
            at = np.where(near, mean, low if self.beta > 0.0 else high)
            risen = np.expm1(-2.0 * (self.beta * (0.5 * draws - 0.5 * at))).mean(axis=0)
            return np.asarray(np.clip(at - np.log1p(risen) / self.beta, low, high))

    def gradient(self, draws: ArrayLike) -> FloatArray:  # noqa: D102
        values, _ = draws_along(draws, 0)
        worst = values.min(axis=0) if self.beta > 0.0 else values.max(axis=0)
        weights = np.exp(-self.beta * (values - worst))
        return np.asarray(weights / weights.sum(axis=0))

    def of_dirichlet(self, values: FloatArray, counts: FloatArray) -> EquivalentRows:  # noqa: D102
        value, means, error = np.empty(values.shape[0]), np.empty(values.shape), np.empty(values.shape[0])
        total = counts.sum(axis=1, keepdims=True)
        counts = counts * np.where(total < 1e-290, 2.0**300, 1.0)  # the law is the same, and inverses are finite
        entropic_rows(values, counts, self.beta, value, means, error)
        return EquivalentRows(value, means, error)


@dataclass(frozen=True)
class Expectile(CertaintyEquivalent):
    """Expectile: the number e with (1 - tau) E[(e - Z)+] = tau E[(Z - e)+].

    Parameters
    ----------
    tau : float
        Weight of gains in (0, 1): 0.5 is the mean, and smaller numbers are risk-averse. It is coherent up to 0.5.

    Raises
    ------
    ParameterError
        If `tau` is not in (0, 1).

    Examples
    --------
    >>> Expectile(0.25)([0.0, 1.0])
    0.25
    """

    tau: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", open_probability(self.tau, "tau"))

    def _weights(self, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the expectile, and the weights of the draws whose mean it is."""
        # the expectile is linear between draws: find the draws around it among the sorted ones
        low = np.sort(draws, axis=0)
        n = low.shape[0]
        ranks = np.arange(1, n + 1).reshape(-1, *[1] * (low.ndim - 1))
        shifted = low - low[0]
        sums = np.cumsum(shifted, axis=0)
        # losses below and gains above each draw; the expectile lies at or above the last draw where gains prevail
        loss = ranks * shifted - sums
        gain = sums[-1] - sums - (n - ranks) * shifted
        below = ((1.0 - self.tau) * loss <= self.tau * gain).sum(axis=0)
        at = np.expand_dims(below - 1, 0)
        under = np.take_along_axis(sums, at, 0)[0]
        heavy, light = (1.0 - self.tau) * below, self.tau * (n - below)
        value = low[0] + ((1.0 - self.tau) * under + self.tau * (sums[-1] - under)) / (heavy + light)
        weights = np.where(draws <= value, 1.0 - self.tau, self.tau)
        return value, weights / weights.sum(axis=0)

    def of_draws(self, draws: FloatArray) -> FloatArray:  # noqa: D102
        size = float(np.abs(draws).max(initial=0.0))
        if size > 1e150:  # sums of larger numbers may overflow
            return size * self._weights(draws / size)[0]
        return self._weights(draws)[0]

    def gradient(self, draws: ArrayLike) -> FloatArray:  # noqa: D102
        return self._weights(draws_along(draws, 0)[0])[1]


def refuse_unlawful(measure: CertaintyEquivalent, n: int) -> None:
    """Refuse a measure of n draws, or of n outcomes if it needs no draws, that is not monotone or not equivariant.

    Only a counterexample on a few random rows is found; ``check_risk`` looks longer. Ours are known to be lawful.
    """
    if type(measure) in (EntropicRisk, Expectile):
        return
    random = np.random.default_rng(0)  # the same rows whenever it is called
    rows = max(8, min(64, 20_000 // n))
    scale = 10.0 ** random.uniform(-2.0, 1.0, rows)
    draws = scale * np.where(np.arange(rows) % 2, random.normal(size=(n, rows)), random.integers(-2, 3, (n, rows)))

    def of(z: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):  # what is not finite here may be finite for the values of the model
            if measure.knows_dirichlet:
                found = measure.of_dirichlet(z.T.copy(), np.ones((rows, n))).value
            else:
                found = measure.of_draws(z)
        return np.where(np.isfinite(found), found, np.nan) if np.shape(found) == (rows,) else np.full(rows, np.nan)

    value, shift = of(draws), scale * random.normal(size=rows)
    room = _ROOM * (np.ptp(draws, axis=0) + abs(draws).max(axis=0) + abs(shift))
    apart = abs(of(draws + shift) - value - shift) > room
    if apart.any():
        i = int(apart.argmax())
        _unlawful(measure, "translation", f"does not rise by {shift[i]:.6g} if that is added to all of", draws[:, i])
    one = np.arange(n)[:, np.newaxis] == random.integers(n, size=rows)
    for rise in (one, random.exponential(size=(n, rows))):
        for size in (1e-3, 1.0, 100.0):
            fallen = of(draws + size * scale * rise) < value - room * max(1.0, size)
            if fallen.any():
                i = int(fallen.argmax())
                place = int(rise[:, i].argmax())
                text = f"is not monotone: it falls if draw {place} rises by {size * scale[i]:.6g}"
                text = text if rise is one else "is not monotone: it falls if all draws rise"
                _unlawful(measure, "monotone", f"{text}, from", draws[:, i])


def _unlawful(measure: CertaintyEquivalent, law: str, text: str, draws: FloatArray) -> None:
    shown = ", ".join(f"{z:.6g}" for z in draws[:5]) + (", ..." if draws.size > 5 else "")
    message = f"risk: {measure!r} {text} [{shown}]; the error bound of a solution would not hold"
    raise ConformanceError(message, code="risk-law", argument="risk", law=law, value=measure)
