"""Student's t distribution as scalar kernels, for any number of degrees of freedom from 1 up.

The upper tail is half an incomplete beta function, P(T > x) = I_{v / (v + x^2)}(v / 2, 1 / 2) / 2, by its continued
fraction (modified Lentz). From 200 degrees of freedom on it is a normal tail at Hill's normal deviate (G. W. Hill, CACM
Algorithm 395, 1970): with a = v - 1/2, b = 48 a^2 and y = sqrt(a log(1 + x^2 / v)),

    z = y + (y^3 + 3 y) / b - (4 y^7 + 33 y^5 + 240 y^3 + 855 y) / (10 b (b + 0.8 y^4 + 100)),

which is then good to about 1e-12. The quantile solves that for y, and below 200 degrees of freedom improves it by
Newton steps on the logarithm of the tail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .beta import beta_fraction
from .compile import kernel
from .normal import normal_cdf, normal_from_log_survival

_MANY = 200.0  # degrees of freedom from which Hill's deviate is as good as the rest
_TINY = 1e-300
_LOG_HALF = math.log(0.5)


@kernel
def student_log_constant(freedom: float) -> float:
    """Return the logarithm of the density at 0."""
    half = 0.5 * freedom
    if freedom >= _MANY:  # the difference of two large logarithms, by its expansion
        ratio = 0.5 * math.log(half) - 0.125 / half + 1.0 / (192.0 * half**3) - 1.0 / (640.0 * half**5)
    else:
        ratio = math.lgamma(half + 0.5) - math.lgamma(half)
    return ratio - 0.5 * math.log(freedom * math.pi)


@kernel
def student_pdf(x: float, freedom: float, log_constant: float) -> float:
    """Return the density at ``x``, given ``student_log_constant``."""
    return math.exp(log_constant - 0.5 * (freedom + 1.0) * math.log1p(x * x / freedom))


@kernel
def _normal_deviate(y: float, freedom: float) -> float:
    """Return Hill's z, see above."""
    a = freedom - 0.5
    b = 48.0 * a * a
    square = y * y
    top = (((4.0 * square + 33.0) * square + 240.0) * square + 855.0) * y
    return y + ((square + 3.0) * y - top / (10.0 * (b + 0.8 * square * square + 100.0))) / b


@kernel
def student_survival(x: float, freedom: float, log_constant: float) -> float:
    """Return P(T > x), without cancellation in either tail."""
    if freedom >= _MANY:
        z = _normal_deviate(math.sqrt((freedom - 0.5) * math.log1p(x * x / freedom)), freedom)
        return normal_cdf(-z if x > 0.0 else z)
    tail = _tail(abs(x), freedom, log_constant)
    return tail if x > 0.0 else 1.0 - tail


@kernel
def _tail(x: float, freedom: float, log_constant: float) -> float:
    """Return P(T > x) for x >= 0 and few degrees of freedom, which is half of I_u(v / 2, 1 / 2)."""
    square = x * x / freedom
    u = 1.0 / (1.0 + square)
    # u^(v/2) (1-u)^(1/2) / B(v/2, 1/2) is |x| times the density
    front = x * student_pdf(x, freedom, log_constant)
    if u < (0.5 * freedom + 1.0) / (0.5 * freedom + 2.5):
        return front / freedom * beta_fraction(0.5 * freedom, 0.5, u)
    return 0.5 - front * beta_fraction(0.5, 0.5 * freedom, square * u)


@kernel
def student_from_log_survival(log_survival: float, freedom: float) -> float:
    """Return the x with log P(T > x) = ``log_survival``."""
    z = normal_from_log_survival(log_survival)
    size = abs(z)
    y = size
    for _ in range(3):
        y -= _normal_deviate(y, freedom) - size
    x = math.sqrt(freedom * math.expm1(min(y * y / (freedom - 0.5), 600.0)))
    if freedom >= _MANY or size == 0.0:
        return math.copysign(x, z)
    # the smaller tail, by its logarithm
    log_tail = log_survival if log_survival < _LOG_HALF else math.log(-math.expm1(log_survival))
    log_constant = student_log_constant(freedom)
    for _ in range(20):
        tail = max(_tail(x, freedom, log_constant), _TINY)
        # in log x the tail is all but straight far out, and near 0 the step is that of Newton's in x
        step = (math.log(tail) - log_tail) * tail / student_pdf(x, freedom, log_constant)
        x = x * math.exp(min(step / x, 5.0)) if step > 0.5 * x else max(x + step, 0.1 * x)
        if abs(step) <= 1e-13 * x:
            break
    return math.copysign(x, z)


def student_shortfall(alpha: float, freedom: Any) -> Any:
    """Return minus CVaR_alpha of Student's t: (v + q^2) / (v - 1) f(q) / (1 - alpha), q the quantile at 1 - alpha.

    With the density f(q) = C (1 + q^2 / v)^(-(v + 1) / 2) the first factors are v C (1 + q^2 / v)^(-(v - 1) / 2).
    """
    from scipy.special import stdtrit

    if alpha == 0.0:
        return np.zeros(np.shape(freedom))
    quantile = stdtrit(freedom, alpha)  # that of the other tail, which has digits however small alpha is
    constant = np.vectorize(student_log_constant, otypes=[np.float64])(freedom)
    wide = np.log(np.hypot(1.0, quantile / np.sqrt(freedom)))
    return freedom / (freedom - 1.0) * np.exp(constant - (freedom - 1.0) * wide) / (1.0 - alpha)
