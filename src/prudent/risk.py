"""Risk of a sample of rewards: CVaR and other weights on sorted draws, the draw rule, order-statistic draws.

Rewards are risked, so the LEFT tail is bad. The risk level ``alpha`` lies in (-1, 1); 0 is risk-neutral.

**Both ways.** A positive level is caution, a negative one optimism: CVaR at -a is the mean of the best 1 - a. It is
minus CVaR at a of the negated draws, and every measure with a level is read so below zero.

**CVaR of draws.** With z_(1) <= ... <= z_(N) and m = N (1 - alpha), CVaR averages the m lowest draws:
floor(m) of them whole and the next one by its fraction. It is max over x of x - E[(x - Z)+] / (1 - alpha)
under the empirical distribution: the paper's Monte Carlo estimator of CVaR.

**Weights on sorted draws.** Mean, CVaR, VaR, worst case, their mixtures and every distortion are one linear
form sum_i w_i z_(i) with w >= 0 and sum w = 1. ``RiskMeasure`` keeps only the weights of the outermost
draws, up to the last one that counts: the lowest ones, or the highest if the level is negative.

**Mixtures of CVaRs.** A distortion g that is linear between 0 = u_0 < ... < u_J = 1 is the mixture of CVaRs at the
levels 1 - u_j with weights u_j (s_j - s_{j+1}), s_j being the slope of g before u_j and s_{J+1} = 0. So whatever
knows CVaR exactly, under a posterior say, knows all of these.

**Draw rule.** n = ceil(1 / (1 - |alpha|)) draws: the fewest of which one is expected in the tail. A level is a
rounded number: in floating point 1 / (1 - 0.9) exceeds 10. So a count N (1 - alpha) is taken for the
nearest whole number when a change of ``alpha`` by two units in the last place (2**-52) would make it so;
the draw rule, the weights and the modified estimator all ask the same function.

**Order statistics.** The lowest m of n standard normals are drawn without the other n - m. By Renyi's
representation the logarithm of the survival probability falls from one order statistic to the next by an
independent exponential of rate n, n - 1, ...: log(1 - U_(j+1)) = log(1 - U_(j)) + log(V) / (n - j). It is
carried as a logarithm, hence accurate in both tails, and mapped by the normal quantile.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ._numerics.order_statistics import _lowest_normals_rows
from ._support.checks import (
    SUM_TOLERANCE,
    finite_array,
    first_index,
    generator,
    refuse,
    risk_level,
    risk_levels,
    whole_number,
)
from .errors import DataError, ParameterError
from .types import ArrayLike, FloatArray, RngLike

__all__ = [
    "CVaR",
    "Mean",
    "MeanCVaR",
    "Mixture",
    "ModifiedCVaR",
    "RiskMeasure",
    "Spectral",
    "VaR",
    "WorstCase",
    "cvar",
    "lowest_normals",
    "measure_of",
    "modified_cvar",
    "sample_size",
    "sample_size_is_exact",
]


_ROUNDING = 2.0**-52  # by how much a risk level may differ from the number its author had in mind
MOST_DRAWS = 2**53


# -- the draw rule -----------------------------------------------------------------------------------------


def sample_size(alpha: float) -> int:
    """Return the number of draws that the paper uses at a risk level.

    It is n = ceil(1 / (1 - |alpha|)). A level within two units in the last place of 1 - 1/n counts as 1 - 1/n.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).

    Returns
    -------
    int
        Number of draws n.

    Raises
    ------
    ParameterError
        If `alpha` is not in (-1, 1).

    Examples
    --------
    >>> [sample_size(a) for a in (0, 0.5, 0.7, 0.8, 0.9, 0.99, 0.999, -0.9)]
    [1, 2, 4, 5, 10, 100, 1000, 10]
    """
    level = abs(risk_level(alpha))
    inverse = 1.0 / (1.0 - level)
    return round(inverse) if _is_whole(level) else math.ceil(inverse)


def sample_size_is_exact(alpha: float) -> bool:
    """Return whether 1 / (1 - |alpha|) is a whole number, so that ``sample_size`` does not round up.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).

    Returns
    -------
    bool
        Whether the draw rule is exact at this level.

    Examples
    --------
    >>> sample_size_is_exact(0.9), sample_size_is_exact(0.7)
    (True, False)
    """
    return _is_whole(abs(risk_level(alpha)))


def _is_whole(level: float) -> bool:
    return _tail_count(round(1.0 / (1.0 - level)), level) == 1.0


def _tail_count(n: int, level: float) -> float:
    """Return m = n (1 - level), as a whole number when only the rounding of ``level`` separates them."""
    count = n * (1.0 - level)
    whole = float(round(count))
    if whole >= 1.0 and abs(count - whole) <= n * _ROUNDING:
        return whole
    return count


# -- weights on sorted draws -------------------------------------------------------------------------------


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
        >>> CVaR(-0.7).outermost(4)
        Outermost(weights=array([0.8333, 0.1667]), sign=-1.0)
        """
        return Outermost(self.tail_weights(whole_number(n, "n")), self.sign)

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
        >>> CVaR(0.7).lowest_weights(4), CVaR(-0.7).lowest_weights(4)
        (array([0.8333, 0.1667]), array([0.    , 0.    , 0.1667, 0.8333]))
        """
        weights, sign = self.outermost(n)
        return weights if sign > 0.0 else np.trim_zeros(_padded(weights, n)[::-1], "b").copy()

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
        >>> CVaR(0.5).weights(4), CVaR(-0.5).weights(4)
        (array([0.5, 0.5, 0. , 0. ]), array([0. , 0. , 0.5, 0.5]))
        """
        return _padded(self.lowest_weights(n), n)

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
        >>> MeanCVaR(0.9, weight=0.25).exact_form()
        ExactForm(levels=array([0. , 0.9]), weights=array([0.25, 0.75]), quantile=False)
        """
        raise ParameterError(
            f"{self!r} has no exact form; give draws, e.g. draws=1000", code="no-exact-form", value=self
        )

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
        >>> WorstCase()([[3.0, 1.0], [2.0, 5.0]])
        array([2., 1.])
        """
        values, axis = _draws(draws, axis)
        low = np.moveaxis(values if self.sign > 0.0 else -values, axis, 0)
        weights = self.tail_weights(low.shape[0])
        last = weights.size - 1
        # Draws of equal weight need not be sorted among themselves: select where the weight changes.
        places = np.union1d(np.flatnonzero(np.diff(weights)) + 1, last)
        low = np.sort(low, axis=0) if places.size > 16 else np.partition(low, places, axis=0)
        # Deviations from one of the draws keep the error relative to their range and constants exact.
        centre = low[last]
        return _plain(self.sign * (centre + np.tensordot(weights, low[: last + 1] - centre, axes=1)))


def _padded(weights: FloatArray, n: int) -> FloatArray:
    every = np.zeros(n)
    every[: weights.size] = weights
    return every


@dataclass(frozen=True)
class Mean(RiskMeasure):
    """Mean: no aversion to risk.

    Examples
    --------
    >>> Mean()([1.0, 2.0, 6.0])
    3.0
    """

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        return np.full(n, 1.0 / n)

    def exact_form(self) -> ExactForm:  # noqa: D102
        return CVaR(0.0).exact_form()


@dataclass(frozen=True)
class WorstCase(RiskMeasure):
    """Worst case: the lowest draw; without draws, the lowest value that is possible.

    Examples
    --------
    >>> WorstCase()([3.0, 1.0, 2.0])
    1.0
    """

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        return np.ones(1)

    def exact_form(self) -> ExactForm:  # noqa: D102
        return ExactForm(np.ones(1), np.ones(1), True)


@dataclass(frozen=True)
class _Level(RiskMeasure):
    """Risk measure with a risk level."""

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", risk_level(self.alpha))

    @property
    def sign(self) -> float:
        return math.copysign(1.0, self.alpha)


@dataclass(frozen=True)
class CVaR(_Level):
    """Conditional value at risk: the mean of the lowest N (1 - alpha) draws, the last one by its fraction.

    At a negative level it is the mean of the highest N (1 - |alpha|) draws.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1). Positive levels are risk-averse, negative ones optimistic.

    See Also
    --------
    cvar : The same as a function of draws, which may have probabilities.

    Examples
    --------
    >>> CVaR(0.5)([4.0, 1.0, 3.0, 2.0]), CVaR(-0.5)([4.0, 1.0, 3.0, 2.0])
    (1.5, 3.5)
    """

    def exact_form(self) -> ExactForm:  # noqa: D102
        return ExactForm(np.array([self.alpha]), np.ones(1), False)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        count = _tail_count(n, abs(self.alpha))
        last = math.ceil(count) - 1
        weights = np.full(last + 1, 1.0 / count)
        weights[last] = (count - last) / count
        return weights


@dataclass(frozen=True)
class VaR(_Level):
    """Value at risk, the (1 - alpha)-quantile: the lowest draw with at least N (1 - alpha) draws at or below it.

    That is order statistic ceil(N (1 - alpha)), a draw and not an interpolation; at ``alpha = 0`` it is the
    highest. VaR is the paper's VaR_{1-alpha}. It is translation equivariant and monotone but not
    superadditive. A negative level counts from the top: the highest draw with at least N (1 - |alpha|) draws at or
    above it, the |alpha|-quantile.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1). Positive levels are risk-averse, negative ones optimistic.

    Examples
    --------
    >>> VaR(0.75)([4.0, 1.0, 3.0, 2.0]), VaR(-0.75)([4.0, 1.0, 3.0, 2.0])
    (1.0, 4.0)
    """

    def exact_form(self) -> ExactForm:  # noqa: D102
        return ExactForm(np.array([self.alpha]), np.ones(1), True)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        return _only(math.ceil(_tail_count(n, abs(self.alpha))) - 1)


@dataclass(frozen=True)
class MeanCVaR(_Level):
    """Mixture ``weight * mean + (1 - weight) * CVaR_alpha``.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1). Positive levels are risk-averse, negative ones optimistic.
    weight : float
        Weight of the mean, in [0, 1].

    Examples
    --------
    >>> MeanCVaR(0.5, weight=0.5)([4.0, 1.0, 3.0, 2.0])
    2.0
    """

    weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            weight = float(self.weight)
        except (TypeError, ValueError):
            weight = math.nan
        if not 0.0 <= weight <= 1.0:
            raise ParameterError(
                f"weight must be a number in [0, 1], got {self.weight!r}",
                code="probability-range",
                argument="weight",
                value=self.weight,
            )
        object.__setattr__(self, "weight", weight)

    def exact_form(self) -> ExactForm:  # noqa: D102
        return Mixture((0.0, self.alpha), (self.weight, 1.0 - self.weight)).exact_form()

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        tail = CVaR(self.alpha).tail_weights(n)
        if self.weight == 0.0:
            return tail
        weights = np.full(n, self.weight / n)
        weights[: tail.size] += (1.0 - self.weight) * tail
        return weights


@dataclass(frozen=True)
class ModifiedCVaR(_Level):
    """Modified estimator of the paper: the lowest draw if 1/(1 - alpha) is whole, else the second lowest.

    It is meant for ``sample_size(alpha)`` draws, where its mean is at least the CVaR of the distribution drawn
    from (the order-statistic lemma). The second lowest needs at least two draws. At a negative level it is the highest
    draw, or the second highest.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1). Positive levels are risk-averse, negative ones optimistic.

    Examples
    --------
    >>> ModifiedCVaR(0.9)([3.0, 1.0, 2.0]), ModifiedCVaR(0.7)([3.0, 1.0, 2.0])
    (1.0, 2.0)
    """

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        place = 0 if _is_whole(abs(self.alpha)) else 1
        if n <= place:
            raise ParameterError(
                f"n must be at least 2 for ModifiedCVaR({self.alpha!r}), the second lowest draw, got {n}",
                code="integer-range",
                argument="n",
                value=n,
            )
        return _only(place)


@dataclass(frozen=True)
class Mixture(RiskMeasure):
    """Mixture of CVaRs at several risk levels.

    Levels of both signs may be mixed: half of CVaR at 0.9 and half at -0.9 weighs the worst against the best.

    Parameters
    ----------
    alphas : sequence of float
        Risk levels in (-1, 1).
    shares : sequence of float
        Weight of CVaR at each level; none is negative, and they sum to one.

    Examples
    --------
    >>> Mixture([0.0, 0.5], [0.5, 0.5])([4.0, 1.0, 3.0, 2.0])
    2.0
    """

    alphas: Sequence[float]
    shares: Sequence[float]

    def __post_init__(self) -> None:
        alphas = risk_levels(self.alphas, "alphas")
        shares = finite_array(self.shares, "shares", error=ParameterError)
        if alphas.ndim != 1 or alphas.shape != shares.shape or not alphas.size:
            raise ParameterError(
                f"alphas and shares must have the same length, at least one, got {alphas.shape}, {shares.shape}",
                code="wrong-shape",
                argument="shares",
                value=shares.shape,
                expected=alphas.shape,
            )
        refuse(shares < 0.0, shares, "shares", "a number >= 0", error=ParameterError, code="negative")
        total = float(shares.sum())
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise ParameterError(
                f"shares sum to {total!r}, expected 1", code="sum-not-one", argument="shares", value=total
            )
        object.__setattr__(self, "alphas", tuple(alphas.tolist()))
        object.__setattr__(self, "shares", tuple((shares / shares.sum()).tolist()))

    def exact_form(self) -> ExactForm:  # noqa: D102
        alphas, shares = np.array(self.alphas), np.array(self.shares)
        return ExactForm(alphas[shares > 0.0], shares[shares > 0.0], False)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        alphas, shares, _ = self.exact_form()
        weights = sum(share * CVaR(alpha).weights(n) for alpha, share in zip(alphas, shares, strict=True))
        return np.trim_zeros(np.asarray(weights), "b")


@dataclass(frozen=True)
class Spectral(RiskMeasure):
    """Weights from a distortion g of [0, 1]: sorted draw i of N has the weight g(i/N) - g((i-1)/N).

    The measure is coherent when g is concave. CVaR_alpha is g(u) = min(u / (1 - alpha), 1). Two measures are equal if
    they hold the same function.

    Without draws, g must be piecewise linear: the measure is then a mixture of CVaRs, whose levels are found from g. A
    g that bends everywhere can be replaced by ``pieces`` lines between equidistant points of it. That is another
    measure, which differs by at most ``gap`` times the range of the draws.

    Parameters
    ----------
    distortion : callable
        Nondecreasing function g of one number with g(0) = 0 and g(1) = 1.
    pieces : int, optional
        Number of lines that replace g, at most 10,000. By default g itself is used.

    Raises
    ------
    ParameterError
        If `distortion` falls, or does not map 0 to 0 and 1 to 1.

    Examples
    --------
    >>> Spectral(lambda u: 1 - (1 - u) ** 2).weights(2)
    array([0.75, 0.25])
    >>> Spectral(lambda u: min(2 * u, 0.5 + 0.5 * u, 1)).exact_form()
    ExactForm(levels=array([0.    , 0.6667]), weights=array([0.5, 0.5]), quantile=False)
    >>> Spectral(lambda u: 1 - (1 - u) ** 2, pieces=10).gap
    0.0025
    """

    distortion: Callable[[float], float]
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.distortion):
            raise ParameterError(
                f"distortion must be a function of one number, got {self.distortion!r}",
                code="wrong-type",
                argument="distortion",
                value=self.distortion,
            )
        for end in (0.0, 1.0):
            value = self._at(end)
            if not abs(value - end) <= 1e-12:
                raise _distortion_error(f"distortion({end}) must be {end}, got {value!r}", value=value)
        if self.pieces is not None:
            object.__setattr__(self, "pieces", whole_number(self.pieces, "pieces", maximum=10_000))

    def _at(self, u: float) -> float:
        value = self.distortion(u)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise _distortion_error(f"distortion({u}) must be a number, got {value!r}", value=value) from None

    def _values(self, places: FloatArray) -> FloatArray:
        """Return g at ``places``, which must not fall."""
        values = np.array([self._at(u) for u in places.tolist()])
        bad = ~(np.diff(values) >= -1e-12)
        if bad.any():
            i = int(np.argmax(bad))
            raise _distortion_error(
                f"distortion must not fall: distortion({places[i]}) = {values[i]} but "
                f"distortion({places[i + 1]}) = {values[i + 1]}",
                value=values[i + 1],
            )
        return values

    @property
    def gap(self) -> float:
        """Largest distance of g from its ``pieces``, as seen at 16 points of each; 0 without pieces."""
        if self.pieces is None:
            return 0.0
        fine = np.arange(16 * self.pieces + 1) / (16 * self.pieces)
        values = self._values(fine)
        return float(abs(values - np.interp(fine, fine[::16], values[::16])).max())

    def exact_form(self) -> ExactForm:  # noqa: D102
        if self.pieces is None:
            knots, values = lines_of(self._at)
        else:
            knots = np.arange(self.pieces + 1) / self.pieces
            values = self._values(knots)
        slopes = np.append(np.diff(values) / np.diff(knots), 0.0)
        weights = -np.diff(slopes) * knots[1:]
        kept = abs(weights) > 1e-14
        return ExactForm((1.0 - knots[1:])[kept][::-1], weights[kept][::-1] / weights[kept].sum(), False)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        places = np.array([i / n for i in range(n + 1)])
        if self.pieces is None:
            values = self._values(places)
        else:
            knots = np.arange(self.pieces + 1) / self.pieces
            values = np.interp(places, knots, self._values(knots))
        weights = np.trim_zeros(np.maximum(np.diff(values), 0.0), "b")
        return weights / weights.sum()


_MAX_HALVINGS = 30  # of [0, 1], to find where a distortion bends
_MAX_BENDS = 64
_LINE_TOLERANCE = 4e-15  # largest distance of a line from a distortion


def _distortion_error(message: str, *, code: str = "wrong-distortion", **fields: object) -> ParameterError:
    return ParameterError(message, code=code, argument="distortion", **fields)


def lines_of(g: Callable[[float], float]) -> tuple[FloatArray, FloatArray]:
    """Return the ends [J+1] of the lines of a piecewise linear distortion, from 0 to 1, and its values there.

    An interval on which g is not a line is halved repeatedly. An interval that is not a line after 30 halvings holds a
    bend, which lies where the lines on both sides of it meet.

    >>> lines_of(lambda u: min(u / 0.3, 1.0))
    (array([0. , 0.3, 1. ]), array([0., 1., 1.]))
    """
    inside = (0.5, 0.2887, 0.8117)  # shares of an interval, at which g is compared with a line
    crooked, straight = [(0.0, 1.0)], []
    for _ in range(_MAX_HALVINGS):
        halves = []
        for a, b in crooked:
            ga, gb = g(a), g(b)
            if all(abs(g(a + t * (b - a)) - (ga + t * (gb - ga))) <= _LINE_TOLERANCE for t in inside):
                straight.append((a, b))
            else:
                halves += [(a, 0.5 * (a + b)), (0.5 * (a + b), b)]
        if len(halves) > 4 * _MAX_BENDS:
            a, b = halves[0]
            raise _distortion_error(
                f"distortion bends everywhere, between {a} and {b} for example: it is no mixture of a few CVaRs. Give "
                "draws, e.g. draws=1000, or replace it by lines, e.g. Spectral(distortion, pieces=50)",
                code="no-exact-form",
            )
        crooked = halves
    straight.sort()
    if not straight or straight[0][0] > 0.0 or straight[-1][1] < 1.0:
        raise _distortion_error(
            "distortion jumps at 0 or at 1: it is no mixture of CVaRs, give draws, e.g. draws=1000",
            code="no-exact-form",
        )
    lines: list[tuple[float, float, float]] = []  # begin, end, slope
    for a, b in straight:
        slope = (g(b) - g(a)) / (b - a)
        if lines:
            begin, end, before = lines[-1]
            bent = abs(slope - before) * min(b - a, end - begin) > 4.0 * _LINE_TOLERANCE
            if not bent and abs(g(a) - g(begin) - before * (a - begin)) <= 4.0 * _LINE_TOLERANCE:
                lines[-1] = (begin, b, (g(b) - g(begin)) / (b - begin))
                continue
        lines.append((a, b, slope))
    knots, values = [0.0], [0.0]
    for (_, b, before), (c, _, after) in pairwise(lines):
        # a bend between b and c, which may be one point
        u = (g(c) - g(b) + before * b - after * c) / (before - after) if before != after else math.inf
        if not b - 1e-9 <= u <= c + 1e-9:
            raise _distortion_error(
                f"distortion jumps at {b}: it is no mixture of CVaRs, give draws, e.g. draws=1000", code="no-exact-form"
            )
        u = min(max(u, b), c)
        knots.append(u)
        values.append(g(b) + before * (u - b))
    return np.array([*knots, 1.0]), np.array([*values, 1.0])


def measure_of(alpha: float | None, risk: RiskMeasure | None) -> RiskMeasure:
    """Return the risk measure of two alternative arguments.

    Parameters
    ----------
    alpha : float or None
        Risk level of CVaR.
    risk : RiskMeasure or None
        Risk measure. Exactly one of the two arguments must be given.

    Returns
    -------
    RiskMeasure
        CVaR at level `alpha`, or `risk`.

    Raises
    ------
    ParameterError
        If both are given or none is, or if `risk` is no risk measure.

    Examples
    --------
    >>> measure_of(0.9, None)
    CVaR(alpha=0.9)
    """
    if (alpha is None) == (risk is None):
        raise ParameterError(
            "give either a risk level alpha or a risk measure, and not both",
            code="missing-argument" if alpha is None else "conflicting-arguments",
            argument="alpha",
        )
    if risk is not None and not isinstance(risk, RiskMeasure):
        raise ParameterError(
            f"risk must be a risk measure such as CVaR(0.9), got {risk!r}",
            code="wrong-type",
            argument="risk",
            value=risk,
        )
    return risk if alpha is None and risk is not None else CVaR(alpha)  # type: ignore[arg-type]


def _only(place: int) -> FloatArray:
    weights = np.zeros(place + 1)
    weights[place] = 1.0
    return weights


# -- functions of draws ------------------------------------------------------------------------------------


def cvar(draws: ArrayLike, alpha: float, axis: int = 0, weights: ArrayLike | None = None) -> float | FloatArray:
    """Return CVaR of draws: the mean of the lowest 1 - alpha of them.

    Of N equally likely draws it takes the m = N (1 - alpha) lowest, the last one by its fraction. At a negative level
    it is the mean of the highest 1 - |alpha|.

    Parameters
    ----------
    draws : array_like
        Draws, finite numbers.
    alpha : float
        Risk level in (-1, 1).
    axis : int, default=0
        Axis of the N draws.
    weights : array_like, optional
        Probabilities of the draws, not necessarily normalised: one per draw [N], or an array that broadcasts to the
        shape of `draws`. By default all draws are equally likely.

    Returns
    -------
    float or ndarray
        CVaR, in the shape of `draws` without `axis`.

    Raises
    ------
    ParameterError
        If `alpha` is not in (-1, 1) or `axis` does not exist.
    DataError
        If there is no draw, a number is not finite, or a weight is negative.

    Examples
    --------
    >>> cvar([4.0, 1.0, 3.0, 2.0], alpha=0.5)
    1.5
    >>> cvar([[4.0, 0.0], [1.0, 9.0], [3.0, 9.0]], alpha=0.5)      # the lowest draw and half of the next
    array([1.6667, 3.    ])
    >>> cvar([4.0, 1.0], alpha=0.5, weights=[1.0, 3.0])
    1.0
    """
    level = risk_level(alpha)
    if weights is None:
        return CVaR(level)(draws, axis)
    values, axis = _draws(draws, axis)
    sign = CVaR(level).sign
    chances = np.moveaxis(_probability_weights(weights, values.shape, axis), axis, 0)
    low = sign * np.moveaxis(values, axis, 0)
    order = np.argsort(low, axis=0)
    low = np.take_along_axis(low, order, axis=0)
    chances = np.take_along_axis(chances, order, axis=0)
    mass = np.cumsum(chances, axis=0)
    tail = (1.0 - abs(level)) * mass[-1]
    # The max-form at the quantile. It is flat there, so rounding in the choice of the draw does no harm.
    place = np.argmax(mass >= tail, axis=0)
    quantile = np.take_along_axis(low, place[np.newaxis], axis=0)[0]
    shortfall = (chances * np.maximum(quantile - low, 0.0)).sum(axis=0)
    return _plain(sign * (quantile - shortfall / tail))


def modified_cvar(draws: ArrayLike, alpha: float, axis: int = 0) -> float | FloatArray:
    """Return the paper's modified CVaR estimator of draws.

    Parameters
    ----------
    draws : array_like
        Draws, finite numbers.
    alpha : float
        Risk level in (-1, 1).
    axis : int, default=0
        Axis of the draws.

    Returns
    -------
    float or ndarray
        Estimate, in the shape of `draws` without `axis`.

    See Also
    --------
    ModifiedCVaR : The estimator as a risk measure.

    Examples
    --------
    >>> modified_cvar([3.0, 1.0, 2.0], alpha=0.5), modified_cvar([3.0, 1.0, 2.0], alpha=0.6)
    (1.0, 2.0)
    """
    return ModifiedCVaR(alpha)(draws, axis)


def _draws(draws: Any, axis: Any) -> tuple[FloatArray, int]:
    values = finite_array(draws, "draws")
    if values.ndim == 0:
        raise DataError(
            f"draws must have at least one axis, got the number {values}",
            code="wrong-shape",
            argument="draws",
            value=values.shape,
        )
    place = whole_number(axis, "axis", minimum=-values.ndim)
    if place >= values.ndim:
        raise ParameterError(
            f"axis must be below {values.ndim}, the number of axes of draws, got {place}",
            code="index-range",
            argument="axis",
            value=place,
        )
    place %= values.ndim
    if values.shape[place] == 0:
        raise DataError(
            f"draws must hold at least one draw along axis {place}, got shape {values.shape}",
            code="wrong-shape",
            argument="draws",
            value=values.shape,
        )
    return values, place


def _probability_weights(weights: Any, shape: tuple[int, ...], axis: int) -> FloatArray:
    """Return ``weights`` broadcast to ``shape``, the largest along ``axis`` scaled to one."""
    array = finite_array(weights, "weights")
    refuse(array < 0.0, array, "weights", "a number >= 0", code="negative")
    if array.ndim == 1:  # one weight per draw, whichever axis the draws are on
        array = array.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise DataError(
            f"weights has shape {np.shape(weights)}, which is not ({shape[axis]},) nor broadcasts to {shape}",
            code="wrong-shape",
            argument="weights",
            value=np.shape(weights),
            expected=shape,
        ) from None
    largest = array.max(axis=axis, keepdims=True)
    if not (largest > 0.0).all():
        place = first_index(np.squeeze(largest == 0.0, axis=axis))
        raise DataError(
            f"weights sum to zero along axis {axis}" + (f" at {place}" if place else ""),
            code="sum-zero",
            argument="weights",
        )
    return array / largest


def _plain(result: Any) -> float | FloatArray:
    return float(result) if np.ndim(result) == 0 else result


def lowest_normals(n: int, m: int, size: int | tuple[int, ...] | None = None, rng: RngLike = None) -> FloatArray:
    """Draw the lowest of n independent standard normals; the cost does not grow with n.

    Parameters
    ----------
    n : int
        Number of normals, at most 2**53.
    m : int
        How many of the lowest are drawn, at most `n`.
    size : int or tuple of int, optional
        Independent repetitions, in the leading axes. By default there is one, without an axis.
    rng : RngLike, optional
        Seed or Generator.

    Returns
    -------
    ndarray of shape (*size, m)
        The `m` lowest normals, ascending along the last axis.

    Raises
    ------
    ParameterError
        If `n` or `m` is out of range.

    Examples
    --------
    >>> lowest = lowest_normals(10**12, 2, size=1000, rng=7)
    >>> lowest.shape, bool((lowest[:, 0] <= lowest[:, 1]).all())
    ((1000, 2), True)
    """
    n = whole_number(n, "n")
    m = whole_number(m, "m")
    if n > MOST_DRAWS:
        raise ParameterError(f"n must be at most 2**53, got {n}", code="integer-range", argument="n", value=n)
    if m > n:
        raise ParameterError(f"m must be at most n = {n}, got {m}", code="integer-range", argument="m", value=m)
    lengths = () if size is None else size if isinstance(size, tuple) else (size,)
    shape = (*(whole_number(length, "size", minimum=0) for length in lengths), m)
    draws = generator(rng).random(shape)
    _lowest_normals_rows(draws.reshape(-1, m), n)
    return draws
