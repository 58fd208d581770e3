"""Beta distributions of log odds against mpmath: sizes, tails and quantiles."""

import math

import mpmath
import numpy as np
import pytest

from prudent._numerics.beta import log_drop, log_odds_quantile, log_odds_tails, log_one_plus, log_peak


def lower_tail(a, b, t):
    """Return P(log odds <= t) by the hypergeometric series, all of whose terms are positive."""
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    x = 1 / (1 + mpmath.exp(-mpmath.mpf(t)))
    term = total = mpmath.mpf(1)
    count = 0
    while term > total * mpmath.mpf(10) ** -25 or count < 10:
        term *= (a + b + count) / (a + 1 + count) * x
        total += term
        count += 1
    return x**a * (1 - x) ** b / (a * mpmath.beta(a, b)) * total


def exact_tails(a, b, t):
    if t < math.log(a / b):
        below = lower_tail(a, b, t)
        return below, 1 - below
    above = lower_tail(b, a, -t)
    return 1 - above, above


def random_counts(rng, largest):
    return np.maximum(10.0 ** rng.uniform(-1.3, largest, 2), 0.05).tolist()


def test_the_density_at_the_mode_and_its_drop(rng):
    for _ in range(60):
        a, b = random_counts(rng, 8)
        t = math.log(a / b) + 3.0 * rng.standard_normal() * math.sqrt(1.0 / a + 1.0 / b)
        with mpmath.workdps(40):
            exact = mpmath.mpf(a) * t - (mpmath.mpf(a) + b) * mpmath.log1p(mpmath.exp(mpmath.mpf(t)))
            exact -= mpmath.log(mpmath.beta(a, b))
        assert log_peak(a, b) - log_drop(a, b, t) == pytest.approx(float(exact), rel=1e-13, abs=1e-11), (a, b, t)


def test_tails_and_quantiles(rng):
    for _ in range(60):
        a, b = random_counts(rng, 3)
        u = max(rng.random() ** rng.choice([1, 5, 20]), 2.0**-54)
        below, above = (u, 1.0 - u) if rng.random() < 0.5 else (1.0 - u, u)
        if min(below, above) == 0.0:
            continue
        t = log_odds_quantile(a, b, log_peak(a, b), below, above)
        with mpmath.workdps(30):
            exact = exact_tails(a, b, t)
        for found, wanted in zip(log_odds_tails(a, b, log_peak(a, b), t), exact, strict=True):
            assert found == pytest.approx(float(wanted), rel=1e-11, abs=1e-15), (a, b, t)
        smaller = int(above < below)
        assert float(exact[smaller]) == pytest.approx((below, above)[smaller], rel=1e-11), (a, b, u, t)


def test_far_out():
    for t in (-800.0, -700.0, 700.0, 800.0):
        below, above = log_odds_tails(2.0, 0.05, log_peak(2.0, 0.05), t)
        assert 0.0 <= below <= 1.0
        assert 0.0 <= above <= 1.0
    assert log_one_plus(800.0) == 800.0
    assert log_drop(1e8, 1e8, 700.0) > 1e9
