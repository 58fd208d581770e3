"""What the paper proves about its agents, as functions: bounds on regret, and the lemma that they rest on.

Misprints are corrected. In the high-probability bound of the conventional-regret theorem T stands under the
logarithm, sqrt(2 ln(2T/delta)); its proof (Azuma-Hoeffding over T steps) and its own expected bound have
sqrt(2T ln(2/delta)). In the expected bound the main text has ln(4T^2) where the appendix has ln(4T^3); delta = 1/T^2
gives the appendix's. In the order-statistic lemma "CVaR_{1/n}" is CVaR of the worst 1/n, at risk level 1 - 1/n here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._checks import FloatArray, finite_array, first_index, positive, risk_level, whole_number
from .errors import DataError, ParameterError
from .weak_convergence import LimitLaw, limit_law, optimistic_vi_regret_bound, stationary_distribution

__all__ = [
    "LimitLaw",
    "br_regret_bound",
    "expected_order_statistic",
    "expected_regret_bound",
    "limit_law",
    "optimistic_vi_regret_bound",
    "regret_bound",
    "stationary_distribution",
]


def br_regret_bound(T: Any, K: int, d: int, alpha: float, nu: float) -> Any:
    """Return the bound on the expected BR-regret of Algorithm 2' after ``T`` steps (the BR-regret theorem).

    (nu sqrt(2 (1-alpha) ln(K T^2)) + nu/(1-alpha) (1/sqrt(2 pi) + phi(Phi^-1(alpha)))) 5 sqrt(d K T ln T) + 1, for
    K arms, d features and alpha >= 1/2. ``T`` may be an array.

    >>> round(float(br_regret_bound(1000, K=10, d=3, alpha=0.5, nu=0.5)))
    6386
    """
    T, K, d = _sizes(T, K, d)
    level = risk_level(alpha)
    if level < 0.5:
        raise ParameterError(f"alpha must be at least 1/2 for the BR-regret bound, got {level}")
    nu = positive(nu, "nu")
    from scipy.special import ndtri

    tail = 1.0 - level
    density = math.exp(-0.5 * float(ndtri(tail)) ** 2) / math.sqrt(2.0 * math.pi)
    width = nu * np.sqrt(2.0 * tail * np.log(K * T * T))
    width = width + nu / tail * (1.0 / math.sqrt(2.0 * math.pi) + density)
    return width * 5.0 * np.sqrt(d * K * T * np.log(T)) + 1.0


def regret_bound(T: Any, K: int, d: int, alpha: float, delta: float) -> Any:
    """Return what the regret of Algorithm 2'' stays below with probability 1 - ``delta`` (conventional-regret theorem).

    (3/2) (4 sqrt(pi) e)^((2-alpha)/(1-alpha)) sqrt(d ln(4T/delta) ln(2T^2/(1-alpha)))
    (15 sqrt(d K T ln T) + 6 sqrt(2 T ln(2/delta))), for K arms and d features. ``T`` may be an array. Near alpha = 1
    the bound leaves the range of floating point and is infinite.

    >>> f"{float(regret_bound(1000, K=10, d=3, alpha=0.0, delta=0.1)):.3g}"
    '8.73e+07'
    """
    delta = positive(delta, "delta")
    if delta >= 1.0:
        raise ParameterError(f"delta must be a probability in (0, 1), got {delta}")
    T, K, d = _sizes(T, K, d)
    return _conventional_bound(T, K, d, risk_level(alpha), np.log(4.0 * T / delta), math.log(2.0 / delta))


def expected_regret_bound(T: Any, K: int, d: int, alpha: float) -> Any:
    """Return the bound on the expected regret of Algorithm 2'' with delta = 1/T^2 (conventional-regret theorem).

    It is :func:`regret_bound` with ln(4T^3) and ln(2T^2) in place of ln(4T/delta) and ln(2/delta). ``T`` may be an
    array.

    >>> bool(expected_regret_bound(1000, 10, 3, 0.5) > regret_bound(1000, 10, 3, 0.5, delta=0.01))
    True
    """
    T, K, d = _sizes(T, K, d)
    return _conventional_bound(T, K, d, risk_level(alpha), np.log(4.0 * T**3), np.log(2.0 * T * T))


def _conventional_bound(T: FloatArray, K: int, d: int, alpha: float, log_width: FloatArray, log_chance: Any) -> Any:
    power = (2.0 - alpha) / (1.0 - alpha) * math.log(4.0 * math.sqrt(math.pi) * math.e)
    growth = np.sqrt(d * log_width * np.log(2.0 * T * T / (1.0 - alpha)))
    steps = 15.0 * np.sqrt(d * K * T * np.log(T)) + 6.0 * np.sqrt(2.0 * T * log_chance)
    with np.errstate(over="ignore"):
        return 1.5 * np.exp(np.float64(power)) * growth * steps


def expected_order_statistic(values: Any, k: int, n: int, weights: Any = None) -> float:
    """Return the mean of the k-th lowest of ``n`` independent draws of a discrete X.

    X takes ``values`` [N] with chances in proportion to ``weights`` [N] (equal ones if left out). The order-statistic
    lemma: for k = 1 and k = 2 it is at least the mean of the worst k/n of X, ``cvar(values, 1 - k/n)``.

    >>> expected_order_statistic([0.0, 1.0], k=1, n=2)
    0.25
    """
    from scipy.special import betainc

    x = finite_array(values, "values", ndim=1)
    chance = np.ones_like(x) if weights is None else finite_array(weights, "weights", ndim=1)
    if not x.size or chance.shape != x.shape:
        raise DataError(f"values and weights must be of one length above 0, got {x.shape} and {chance.shape}")
    if (chance < 0.0).any() or not chance.sum() > 0.0:
        bad = chance < 0.0
        place = f"weights{first_index(bad)} is {chance[bad][0]}" if bad.any() else "weights are all 0"
        raise DataError(f"{place}, expected numbers >= 0 with a positive sum")
    n = whole_number(n, "n")
    k = whole_number(k, "k")
    if k > n:
        raise ParameterError(f"k must be at most n = {n}, got {k}")
    order = np.argsort(x)
    cdf = np.minimum(np.cumsum(chance[order]) / chance.sum(), 1.0)
    cdf[-1] = 1.0
    return float(x[order] @ np.diff(betainc(k, n - k + 1, cdf), prepend=0.0))


def _sizes(T: Any, K: Any, d: Any) -> tuple[FloatArray, int, int]:
    horizon = finite_array(T, "T", error=ParameterError)
    short = horizon < 1.0
    if short.any():
        raise ParameterError(f"T{first_index(short)} must be at least 1, got {horizon[short][0]}")
    return horizon, whole_number(K, "K"), whole_number(d, "d")
