"""Risk of the whole return: the entropic risk measure and the entropic value at risk.

For a random return X, of which the left tail is bad,

    ERM_beta(X) = -(1/beta) log E[exp(-beta X)],            ERM_0 = E[X],
    EVaR_alpha(X) = max over beta > 0 of ERM_beta(X) + log(1 - alpha) / beta,      EVaR_0 = E[X].

EVaR is the highest lower bound on CVaR that Chernoff's inequality gives: EVaR_alpha <= CVaR_alpha <= E
(Ahmadi-Javid, J. Optim. Theory Appl. 155, 2012). For fixed X and u = 1/beta, what is maximised is concave in u.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._numerics.entropic import entropic_mean
from .._support.checks import finite_array, instance_of, non_negative_array, require_shape, risk_level
from ..errors import DataError, ParameterError
from ..risk import RiskMeasure
from ..types import ArrayLike, FloatArray


@dataclass(frozen=True)
class Objective(ABC):
    """A risk measure of the whole discounted return, for ``prudent.solve(mdp, objective=...)``."""

    @abstractmethod
    def of(self, values: FloatArray, chances: FloatArray) -> float:
        """Compute the risk of a return with given values.

        Parameters
        ----------
        values : ndarray of shape (N,)
            Values of the return.
        chances : ndarray of shape (N,)
            Numbers in proportion to their probabilities, all positive.

        Returns
        -------
        float
            The risk, in units of the return.
        """

    def __call__(self, draws: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Compute the risk of draws of a return.

        Parameters
        ----------
        draws : array_like of shape (N,)
            Draws of the return.
        weights : array_like of shape (N,), optional
            Weights of the draws. By default they are equally likely.

        Returns
        -------
        float
            The risk, in units of the return.

        Raises
        ------
        DataError
            If there are no draws, a number is not finite, or weights do not fit or sum to zero.

        Examples
        --------
        >>> from prudent import Entropic, EVaR
        >>> round(Entropic(1.0)([0.0, 1.0]), 6), round(EVaR(0.5)([0.0, 1.0]), 6)
        (0.379885, 0.0)
        """
        values = finite_array(draws, "draws", ndim=1)
        if not values.size:
            raise DataError("draws must hold at least one draw", code="no-draws", argument="draws")
        chances = np.ones(values.size) if weights is None else non_negative_array(weights, "weights", ndim=1)
        require_shape(chances, "weights", values.shape, "[N]")
        likely = chances > 0.0
        if not likely.any():
            raise DataError("weights sum to zero", code="sum-zero", argument="weights")
        return self.of(values[likely], chances[likely])


@dataclass(frozen=True)
class Entropic(Objective):
    """Entropic risk of the return; large ``beta`` looks at the worst.

    For a normal return it is the mean less beta/2 times the variance.

    Parameters
    ----------
    beta : float
        Parameter >= 0, in units of one over those of the return. 0 is the mean.

    Raises
    ------
    ParameterError
        If ``beta`` is negative or not finite.

    Examples
    --------
    >>> from prudent import Entropic
    >>> Entropic(2.0)
    Entropic(beta=2.0)
    >>> Entropic(0.0)([1.0, 2.0, 6.0])
    3.0
    """

    beta: float

    def __post_init__(self) -> None:
        beta = non_negative_array(self.beta, "beta", ndim=0, error=ParameterError)
        if isinstance(self.beta, bool | str | bytes):
            message = f"beta must be a finite number >= 0, got {self.beta!r}"
            raise ParameterError(message, code="not-a-number", argument="beta", value=self.beta)
        object.__setattr__(self, "beta", float(beta))

    def of(self, values: FloatArray, chances: FloatArray) -> float:  # noqa: D102
        return float(entropic_mean(values, chances, self.beta, np.empty(values.size)))


@dataclass(frozen=True)
class EVaR(Objective):
    """Entropic value at risk of the return: a lower bound on CVaR of the same level.

    Parameters
    ----------
    alpha : float
        Risk level in [0, 1). 0 is the mean.

    Raises
    ------
    ParameterError
        If ``alpha`` is not in [0, 1).

    References
    ----------
    Ahmadi-Javid, *Entropic Value-at-Risk: A New Coherent Risk Measure*, J. Optim. Theory Appl. 155 (2012).

    Examples
    --------
    >>> from prudent import EVaR
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
        """``-log(1 - alpha)``, the numerator of the penalty on small beta."""
        return -math.log1p(-self.alpha)

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean but for rounding: it is below it by at most sqrt(price / 2) of the spread."""
        return self.price < 1e-33

    def of(self, values: FloatArray, chances: FloatArray) -> float:  # noqa: D102
        low, spread = float(values.min()), float(np.ptp(values))
        if self.is_mean or spread == 0.0:
            return Entropic(0.0).of(values, chances)
        scratch = np.empty(values.size)
        _, best = best_beta(lambda beta: float(entropic_mean(values, chances, beta, scratch)), self.price, spread)
        return max(low, best)  # the limit of large beta, where the worst is that likely


@dataclass(frozen=True)
class PosteriorRisk(Objective):
    """Risk of the return over the posterior: one model is true and stays, and one policy is chosen for all of them.

    In each model the return is its expected discounted sum from the start. The risk is that of these returns over the
    models of the posterior, taken once, where the nested risk of ``BayesianRiskMDP`` is taken anew at every step. It is
    the question "what is the policy with the best worst tenth?".

    Parameters
    ----------
    risk : RiskMeasure
        Measure of the returns over the posterior, e.g. ``CVaR(0.9)``, ``Mean()`` or ``VaR(0.9)``.
    randomised : bool, default=False
        Whether policies may choose at random. They start from the best deterministic policy and are never worse. The
        upper bound is then that of all policies, which cannot be lowered by search.

    Raises
    ------
    ParameterError
        If ``risk`` is no risk measure.

    See Also
    --------
    prudent.solve : Finds the best policy for it, with an upper bound.

    Examples
    --------
    Action 1 is better on average, but little is known of it:

    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> problem = pr.BayesianRiskMDP(model, [[60, 40], [1, 1], [50, 50], [60, 40]], alpha=0)
    >>> best = pr.solve(problem, objective=pr.PosteriorRisk(pr.CVaR(0.9)), start=0, draws=200, rng=1)
    >>> best.policy.tolist(), best.converged, best.upper_bound - best.objective_value < 1e-6
    ([0, 0], True, True)
    """

    risk: RiskMeasure
    randomised: bool = False

    def __post_init__(self) -> None:
        instance_of(self.risk, "risk", RiskMeasure, "; CVaR(0.9) is one")  # type: ignore[type-abstract]
        instance_of(self.randomised, "randomised", bool)

    def of(self, values: FloatArray, chances: FloatArray) -> float:  # noqa: D102
        if np.ptp(chances) > 0.0:
            message = "weights must be equal: the draws of a posterior are equally likely"
            raise DataError(message, code="value-range", argument="weights")
        return float(self.risk(values))


def best_beta(
    entropic: Callable[[float], float], price: float, spread: float, near: float | None = None, xtol: float = 1e-9
) -> tuple[float, float]:
    """Return the beta at which ``entropic(beta) - price / beta`` is highest, and its value there.

    ``entropic`` is that of one return, whose values differ by at most ``spread``: one maximum in log beta. It is
    looked for within a factor 10 of ``near``, or where it can lie at all: with beta < price / spread the price alone
    is more than there is to lose, beyond 1e13 of that nothing is left to gain.
    """
    from scipy.optimize import minimize_scalar

    lowest = math.log(price) - math.log(spread) if near is None else math.log(near) - 2.3
    lowest = min(max(lowest, -700.0), 690.0)  # of what floats can hold
    ends = (lowest, min(lowest + (30.0 if near is None else 4.6), 700.0))

    def loss(x: float) -> float:
        return price / math.exp(x) - entropic(math.exp(x))

    optimum = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": xtol})
    return math.exp(optimum.x), -float(optimum.fun)
