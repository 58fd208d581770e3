"""The standard normal distribution as scalar kernels, for use inside other kernels, and CVaR of normals.

The quantile is Wichura's algorithm AS 241 (PPND16, Applied Statistics 37, 1988): three rational functions
whose error is below 1e-16, so what is left is rounding. Density and cdf are as good as ``x`` itself allows:
rounding ``x`` by one part in 1e16 already changes them by ``x**2`` parts in 1e16.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compile import kernel

_SQRT_HALF = math.sqrt(0.5)
_DENSITY_AT_ZERO = 1.0 / math.sqrt(2.0 * math.pi)
_LOG_HALF = math.log(0.5)
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(24)


# Coefficients of AS 241, lowest power first. Centre: |p - 1/2| <= 0.425, in 0.180625 - (p - 1/2)^2.
# fmt: off
_CENTRE_TOP = (
    3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)
_CENTRE_BOTTOM = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)
# Tail: r = sqrt(-log p) up to 5, in r - 1.6.
_TAIL_TOP = (
    1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
    1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
)
_TAIL_BOTTOM = (
    1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
)
# Far tail: r above 5, in r - 5.
_FAR_TOP = (
    6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
)
_FAR_BOTTOM = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
)
# fmt: on


@kernel
def normal_pdf(x: float) -> float:
    """Return the density at ``x``."""
    return _DENSITY_AT_ZERO * math.exp(-0.5 * x * x)


@kernel
def normal_cdf(x: float) -> float:
    """Return P(X <= x), without cancellation in either tail."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@kernel
def _ratio(top: tuple[float, ...], bottom: tuple[float, ...], x: float) -> float:
    numerator = 0.0
    denominator = 0.0
    for i in range(7, -1, -1):
        numerator = numerator * x + top[i]
        denominator = denominator * x + bottom[i]
    return numerator / denominator


@kernel
def normal_quantile(p: float) -> float:
    """Return the x with P(X <= x) = p; minus and plus infinity at 0 and 1, NaN outside [0, 1]."""
    centred = p - 0.5
    if abs(centred) <= 0.425:
        return centred * _ratio(_CENTRE_TOP, _CENTRE_BOTTOM, 0.180625 - centred * centred)
    tail = p if centred < 0.0 else 1.0 - p
    if not tail > 0.0:
        return math.copysign(math.inf, centred) if tail == 0.0 else math.nan
    r = math.sqrt(-math.log(tail))
    if r <= 5.0:
        x = _ratio(_TAIL_TOP, _TAIL_BOTTOM, r - 1.6)
    else:
        x = _ratio(_FAR_TOP, _FAR_BOTTOM, r - 5.0)
    return math.copysign(x, centred)


@kernel
def normal_from_log_survival(log_survival: float) -> float:
    """Return the x with log P(X > x) = ``log_survival``, from whichever tail is the accurate one."""
    if log_survival > _LOG_HALF:
        return normal_quantile(-math.expm1(log_survival))
    return -normal_quantile(math.exp(log_survival))


# -- tails -------------------------------------------------------------------------------------------------


def normal_tail(p: Any) -> tuple[Any, Any]:
    """Return the ``p``-quantile of the standard normal and the density there, phi(Phi^-1(p)).

    Minus density / p is the mean of the lowest ``p``, CVaR at the level 1 - p. At p = 1 they are infinity and 0.
    """
    from scipy.special import ndtri

    quantile = ndtri(p)
    return quantile, np.exp(-0.5 * quantile * quantile) / math.sqrt(2.0 * math.pi)


@kernel
def _shortfall(x: float, sd: float) -> float:
    """Return E[(x - Y)+] for Y ~ Normal(0, sd^2), also where x / sd overflows."""
    z = x / sd
    if abs(z) > 40.0:
        return max(x, 0.0)
    return sd * (normal_pdf(z) + z * normal_cdf(z))


@kernel
def clipped_normal_cvar(mean: float, sd: float, tail: float, quantile: float, careful: bool) -> float:
    """Return the mean of the lowest ``tail`` of Normal(mean, sd^2) clipped to [0, 1].

    ``quantile`` is that of the standard normal at ``tail``. With Y the normal and x its quantile, clipped, the result
    is x - (E[(x - Y)+] - E[(-Y)+]) / tail. The bracket is also the integral of P(Y <= y) over y in [0, x], and loses
    digits if x is small against sd: then ``careful`` integrates tail - P(Y <= y), which is never negative, with 24
    nodes. Simulations are not careful. They add up differences of CVaRs, where an error of 1e-15 sd / tail is nothing,
    and 24 cdfs would cost more than the rest of a step.
    """
    if sd == 0.0:
        return min(max(mean, 0.0), 1.0)
    if mean < -40.0 * sd:  # all of it is clipped
        return 0.0
    x = min(max(mean + sd * quantile, 0.0), 1.0)
    if careful and x <= 2.0 * sd:
        total = 0.0
        for i in range(_GAUSS_NODES.shape[0]):
            y = 0.5 * x * (1.0 + _GAUSS_NODES[i])
            total += _GAUSS_WEIGHTS[i] * (tail - normal_cdf((y - mean) / sd))
        value = 0.5 * x * total / tail
    else:
        value = x - (_shortfall(x - mean, sd) - _shortfall(-mean, sd)) / tail
    return min(max(value, 0.0), x)
