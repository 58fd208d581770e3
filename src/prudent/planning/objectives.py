"""Risk of the whole return: the entropic risk measure and the entropic value at risk.

For a random return X, of which the left tail is bad,

    ERM_beta(X) = -(1/beta) log E[exp(-beta X)],            ERM_0 = E[X],
    EVaR_alpha(X) = max over beta > 0 of ERM_beta(X) + log(1 - alpha) / beta,      EVaR_0 = E[X].

EVaR is the highest lower bound on CVaR that Chernoff's inequality gives: EVaR_alpha <= CVaR_alpha <= E
(Ahmadi-Javid, J. Optim. Theory Appl. 155, 2012). For fixed X and u = 1/beta, what is maximised is concave in u.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.entropic import entropic_mean
from .._support.checks import FloatArray, finite_array, non_negative_array, risk_level
from ..errors import DataError, ParameterError

__all__ = ["EVaR", "Entropic", "Objective", "best_beta"]


@dataclass(frozen=True)
class Objective:
    """A risk measure of the whole discounted return, for ``prudent.solve(mdp, objective=...)``."""

    def of(self, values: FloatArray, chances: FloatArray) -> float:
        """Return the risk of ``values`` [N] with probabilities in proportion to ``chances`` [N], all positive."""
        raise NotImplementedError

    def __call__(self, draws: Any, weights: Any = None) -> float:
        """Return the risk of draws [N] of a return, with ``weights`` [N] if they are not equally likely.

        >>> round(Entropic(1.0)([0.0, 1.0]), 6), round(EVaR(0.5)([0.0, 1.0]), 6)
        (0.379885, 0.0)
        """
        values = finite_array(draws, "draws", ndim=1)
        if not values.size:
            raise DataError("draws must hold at least one draw")
        chances = np.ones(values.size) if weights is None else non_negative_array(weights, "weights", ndim=1)
        if chances.size != values.size:
            raise DataError(f"weights has {chances.size} numbers, there are {values.size} draws")
        likely = chances > 0.0
        if not likely.any():
            raise DataError("weights sum to zero")
        return self.of(values[likely], chances[likely])


@dataclass(frozen=True)
class Entropic(Objective):
    """Entropic risk with parameter ``beta`` >= 0, in units of one over those of the return; 0 is the mean.

    Large ``beta`` looks at the worst. For a normal return it is the mean less beta/2 times the variance.

    >>> Entropic(2.0)
    Entropic(beta=2.0)
    >>> Entropic(0.0)([1.0, 2.0, 6.0])
    3.0
    """

    beta: float

    def __post_init__(self) -> None:
        try:
            beta = math.nan if isinstance(self.beta, (bool, str, bytes)) else float(self.beta)
        except (TypeError, ValueError):
            beta = math.nan
        if not 0.0 <= beta < math.inf:
            raise ParameterError(f"beta must be a finite number >= 0, got {self.beta!r}")
        object.__setattr__(self, "beta", beta)

    def of(self, values: FloatArray, chances: FloatArray) -> float:
        """Return the risk of ``values`` [N] with probabilities in proportion to ``chances`` [N], all positive."""
        return float(entropic_mean(values, chances, self.beta, np.empty(values.size)))


@dataclass(frozen=True)
class EVaR(Objective):
    """Entropic value at risk at level ``alpha`` in [0, 1): a lower bound on CVaR of the same level; 0 is the mean.

    >>> EVaR(0.9)
    EVaR(alpha=0.9)
    >>> EVaR(0.0)([1.0, 2.0, 6.0])
    3.0
    """

    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", risk_level(self.alpha, cautious=True))

    @property
    def price(self) -> float:
        """-log(1 - alpha): what is paid for a small beta."""
        return -math.log1p(-self.alpha)

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean but for rounding: it is below it by at most sqrt(price / 2) of the spread."""
        return self.price < 1e-33

    def of(self, values: FloatArray, chances: FloatArray) -> float:
        """Return the risk of ``values`` [N] with probabilities in proportion to ``chances`` [N], all positive."""
        low, spread = float(values.min()), float(np.ptp(values))
        if self.is_mean or spread == 0.0:
            return Entropic(0.0).of(values, chances)
        scratch = np.empty(values.size)
        found = best_beta(lambda beta: float(entropic_mean(values, chances, beta, scratch)), self.price, spread)
        return max(low, found[1])  # the limit of large beta, where the worst is that likely


def best_beta(
    entropic: Callable[[float], float], price: float, spread: float, near: float | None = None, xtol: float = 1e-9
) -> tuple[float, float]:
    """Return the beta at which ``entropic(beta) - price / beta`` is highest, and what it is there.

    ``entropic`` is that of one return, whose values differ by at most ``spread``: one maximum in log beta. It is
    looked for within a factor 10 of ``near``, or where it can lie at all: with beta < price / spread the price alone
    is more than there is to lose, beyond 1e13 of that nothing is left to gain.
    """
    from scipy.optimize import minimize_scalar

    lowest = math.log(price) - math.log(spread) if near is None else math.log(near) - 2.3
    lowest = min(max(lowest, -700.0), 690.0)  # of what floats can hold
    ends = (lowest, min(lowest + (30.0 if near is None else 4.6), 700.0))
    found = minimize_scalar(
        lambda place: price / math.exp(place) - entropic(math.exp(place)),
        bounds=ends,
        method="bounded",
        options={"xatol": xtol},
    )
    return math.exp(found.x), -float(found.fun)
