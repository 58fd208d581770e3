"""Logarithms and angles as vector code, against the C library."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prudent._numerics.logarithms import log_and_angle, sum_logs_and_angles

EPS = np.finfo(float).eps
sides = st.floats(-1e150, 1e150).filter(lambda side: abs(side) > 1e-150)


@given(st.one_of(st.floats(-1 + 1e-12, 1e300), st.floats(-1e-3, 1e-3)), sides, sides)
def test_agree_with_the_c_library(more, real, imaginary):
    log, angle = log_and_angle(more, real, imaginary)
    assert abs(log - math.log1p(more)) <= 3 * EPS * abs(math.log1p(more)) + 1e-320
    assert abs(angle - math.atan2(imaginary, real)) <= 3 * EPS * abs(math.atan2(imaginary, real)) + 1e-310


@pytest.mark.parametrize("real", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize("imaginary", [-1.5, 0.0, 1e-300])
def test_on_the_axes(real, imaginary):
    if real or imaginary:
        assert log_and_angle(0.0, real, imaginary) == (0.0, pytest.approx(math.atan2(imaginary, real), rel=4 * EPS))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 31, 200])
def test_sums_over_outcomes(n):
    rng = np.random.default_rng(n)
    e, psi = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6, n), 10.0 ** rng.uniform(-4, 4, n)
    X, Y = rng.normal(size=2)
    logs, angles = sum_logs_and_angles(X, Y, X * X + Y * Y, n, e, psi)
    w = 1 - X * e + 1j * Y * e
    assert logs == pytest.approx((psi * np.log1p(e * (e * (X * X + Y * Y) - 2 * X))).sum(), rel=1e-12)
    assert angles == pytest.approx((psi * np.angle(w)).sum(), rel=1e-12)
