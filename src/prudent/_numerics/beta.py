"""Beta distributions as scalar kernels, on the scale of log odds t = log(x / (1 - x)).

The density of t is exp(a t - (a + b) log(1 + e^t)) / B(a, b). Its logarithm is that at the mode less the *drop* from
there, and neither loses digits if counts are large. A tail is the density times a continued fraction (modified Lentz)
that converges where the tail is the smaller one, about. The logarithm of a tail is concave in t, so Newton's steps for
a quantile come to it from one side; with Halley's correction about three are enough.
"""

from __future__ import annotations

import math

from .compile import kernel
from .normal import normal_quantile

_TINY = 1e-300
_MANY = 10.0  # from which Stirling's series is good to 1e-16
_FAR = 600.0  # log odds from the mode, beyond which e^t is not formed
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@kernel
def log_one_plus(t: float) -> float:
    """Return log(1 + e^t)."""
    return t + math.log1p(math.exp(-t)) if t > 0.0 else math.log1p(math.exp(t))


@kernel
def expit(t: float) -> float:
    """Return 1 / (1 + e^-t)."""
    return 1.0 / (1.0 + math.exp(-t)) if t > 0.0 else math.exp(t) / (1.0 + math.exp(t))


@kernel
def _stirling(x: float) -> float:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2."""
    if x < _MANY:
        return math.lgamma(x) - (x - 0.5) * math.log(x) + x - _HALF_LOG_TWO_PI
    r = 1.0 / (x * x)
    series = 1.0 / 1260.0 - r * (1.0 / 1680.0 - r * (1.0 / 1188.0 - r * (691.0 / 360360.0 - r / 156.0)))
    return (1.0 / 12.0 - r * (1.0 / 360.0 - r * series)) / x


@kernel
def log_peak(a: float, b: float) -> float:
    """Return the logarithm of the density of the log odds at their mode, log(a / b)."""
    return 0.5 * math.log(a / (a + b) * b) - _HALF_LOG_TWO_PI - _stirling(a) - _stirling(b) + _stirling(a + b)


@kernel
def log_drop(a: float, b: float, t: float) -> float:
    """Return by how much the logarithm of the density at ``t`` is below that at the mode."""
    d = t - math.log(a / b)
    if a > b:  # the same with successes and failures exchanged
        a, b, d = b, a, -d
    share = a / (a + b)
    grown = math.log1p(share * math.expm1(d)) if d < _FAR else math.log(share) + d
    return max((a + b) * grown - a * d, 0.0)


@kernel
def beta_fraction(a: float, b: float, u: float) -> float:
    """Return a I_u(a, b) B(a, b) / (u^a (1 - u)^b), the continued fraction of the incomplete beta function."""
    c = 1.0
    d = 1.0 - (a + b) * u / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 400 + int(5.0 * math.sqrt(max(a, b)))):
        even = m * (b - m) * u / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        odd = -(a + m) * (a + b + m) * u / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        for step in range(2):
            term = even if step == 0 else odd
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value


@kernel
def log_odds_tails(a: float, b: float, peak: float, t: float) -> tuple[float, float]:
    """Return the chances that the log odds are below ``t`` and above it, given ``log_peak``."""
    density, x = math.exp(peak - log_drop(a, b, t)), expit(t)
    if x * (a + b + 2.0) < a + 1.0:
        below = min(density / a * beta_fraction(a, b, x), 1.0)
        return below, 1.0 - below
    above = min(density / b * beta_fraction(b, a, expit(-t)), 1.0)
    return 1.0 - above, above


@kernel
def _lower_quantile(a: float, b: float, peak: float, p: float) -> float:
    """Return the log odds below which the chance is ``p``, at most one half."""
    log_p, mode = math.log(p), math.log(a / b)
    # far out the tail is e^(a t) / (a B(a, b)), and nowhere more: this is too low
    log_size = a * mode - (a + b) * log_one_plus(mode) - peak
    t = max((log_p + math.log(a) + log_size) / a, mode + normal_quantile(p) * math.sqrt(1.0 / a + 1.0 / b))
    for _ in range(100):
        log_density, x = peak - log_drop(a, b, t), expit(t)
        if x * (a + b + 2.0) < a + 1.0:
            ratio = beta_fraction(a, b, x) / a  # of the tail to the density
            gap = log_density + math.log(ratio) - log_p
        else:
            density = math.exp(log_density)
            below = 1.0 - density / b * beta_fraction(b, a, expit(-t))
            ratio, gap = below / density, math.log(below) - log_p
        step = gap * ratio
        t -= step / max(1.0 - 0.5 * gap * (ratio * (a - (a + b) * x) - 1.0), 0.5)
        if abs(step) < 1e-5 * ratio:
            break
    return t


@kernel
def log_odds_quantile(a: float, b: float, peak: float, below: float, above: float) -> float:
    """Return the log odds with the chances ``below`` and ``above``, of which the smaller one decides."""
    if below < 0.5:
        return _lower_quantile(a, b, peak, below)
    return -_lower_quantile(b, a, peak, above)
