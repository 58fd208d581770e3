"""Mean, CVaR, VaR, worst case, their mixtures, and the modified estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._support.checks import instance_of, non_negative_array, require_sum_of_one, risk_level, risk_levels
from ..errors import ParameterError
from ..types import FloatArray
from .base import ExactForm, RiskMeasure
from .draw_rule import is_whole, tail_count


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
        count = tail_count(n, abs(self.alpha))
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
        return _only(math.ceil(tail_count(n, abs(self.alpha))) - 1)


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
            message = f"weight must be a number in [0, 1], got {self.weight!r}"
            raise ParameterError(message, code="probability-range", argument="weight", value=self.weight)
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
        rank = 0 if is_whole(abs(self.alpha)) else 1
        if n <= rank:
            message = f"n must be at least 2 for ModifiedCVaR({self.alpha!r}), the second lowest draw, got {n}"
            raise ParameterError(message, code="integer-range", argument="n", value=n)
        return _only(rank)


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
        shares = non_negative_array(self.shares, "shares", error=ParameterError)
        if alphas.ndim != 1 or alphas.shape != shares.shape or not alphas.size:
            message = f"alphas and shares must have the same length, at least one, got {alphas.shape}, {shares.shape}"
            fields = {"argument": "shares", "value": shares.shape, "expected": alphas.shape}
            raise ParameterError(message, code="wrong-shape", **fields)
        require_sum_of_one(shares, "shares", error=ParameterError)
        object.__setattr__(self, "alphas", tuple(alphas.tolist()))
        object.__setattr__(self, "shares", tuple((shares / shares.sum()).tolist()))

    def exact_form(self) -> ExactForm:  # noqa: D102
        alphas, shares = np.array(self.alphas), np.array(self.shares)
        return ExactForm(alphas[shares > 0.0], shares[shares > 0.0], False)

    def tail_weights(self, n: int) -> FloatArray:  # noqa: D102
        alphas, shares, _ = self.exact_form()
        weights = sum(share * CVaR(alpha).weights(n) for alpha, share in zip(alphas, shares, strict=True))
        return np.trim_zeros(np.asarray(weights), "b")


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
        message = "give either a risk level alpha or a risk measure, and not both"
        raise ParameterError(
            message, code="missing-argument" if alpha is None else "conflicting-arguments", argument="alpha"
        )
    if alpha is not None:
        return CVaR(alpha)
    return instance_of(risk, "risk", RiskMeasure, "; CVaR(0.9) is one")  # type: ignore[type-abstract]


def _only(rank: int) -> FloatArray:
    """Return weights that are one for a single draw."""
    return np.append(np.zeros(rank), 1.0)
