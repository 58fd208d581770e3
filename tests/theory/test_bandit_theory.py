"""Bounds against the paper's formulas in other arithmetic, and the lemma they rest on as a property."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from prudent import cvar, sample_size
from prudent.errors import DataError, ParameterError
from prudent.risk import modified_cvar
from prudent.theory import br_regret_bound, expected_order_statistic, expected_regret_bound, regret_bound


@pytest.mark.parametrize(("alpha", "nu"), [(0.5, 1.0), (0.8, 0.25), (0.99, 2.0)])
def test_br_regret_bound_is_the_theorem(alpha, nu):
    T, K, d = 12_345, 7, 4
    with mpmath.workdps(30):
        a = mpmath.mpf(alpha)
        quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * a - 1)
        bracket = 1 / mpmath.sqrt(2 * mpmath.pi) + mpmath.npdf(quantile)
        width = nu * mpmath.sqrt(2 * (1 - a) * mpmath.log(K * T**2)) + nu / (1 - a) * bracket
        bound = width * 5 * mpmath.sqrt(d * K * T * mpmath.log(T)) + 1
    assert br_regret_bound(T, K, d, alpha, nu) == pytest.approx(float(bound), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_conventional_bounds_are_the_theorem(alpha):
    T, K, d, delta = 5000, 3, 6, 0.05

    def bound(delta):
        constant = mpmath.mpf(3) / 2 * (4 * mpmath.sqrt(mpmath.pi) * mpmath.e) ** ((2 - a) / (1 - a))
        growth = mpmath.sqrt(d * mpmath.log(4 * T / delta) * mpmath.log(2 * T**2 / (1 - a)))
        rest = 6 * mpmath.sqrt(2 * T * mpmath.log(2 / delta))
        return float(constant * growth * (15 * mpmath.sqrt(d * K * T * mpmath.log(T)) + rest))

    with mpmath.workdps(30):
        a = mpmath.mpf(alpha)
        assert regret_bound(T, K, d, alpha, delta) == pytest.approx(bound(mpmath.mpf(delta)), rel=1e-12)
        assert expected_regret_bound(T, K, d, alpha) == pytest.approx(bound(mpmath.mpf(1) / T**2), rel=1e-12)


def test_bounds_are_vectorised_over_time_and_rise():
    T = np.arange(1, 2000)
    for bound in (
        br_regret_bound(T, 10, 3, 0.8, 1.0),
        regret_bound(T, 10, 3, 0.8, 0.1),
        expected_regret_bound(T, 10, 3, 0.8),
    ):
        assert bound.shape == T.shape
        assert (np.diff(bound) > 0).all()
    assert br_regret_bound(T[7], 10, 3, 0.8, 1.0) == br_regret_bound(T, 10, 3, 0.8, 1.0)[7]
    assert br_regret_bound(1, 10, 3, 0.8, 1.0) == 1.0


def test_order_of_growth():
    # BR-regret: sqrt(T) ln T; regret: sqrt(T ln^3 T); in alpha: 1/(1-alpha) and exp(1/(1-alpha))
    far, near = 10**9, 10**8
    growth = math.sqrt(10) * math.log(far) / math.log(near)
    assert br_regret_bound(far, 5, 2, 0.5, 1.0) / br_regret_bound(near, 5, 2, 0.5, 1.0) == pytest.approx(
        growth, rel=0.05
    )
    growth = math.sqrt(10) * (math.log(far) / math.log(near)) ** 1.5
    assert regret_bound(far, 5, 2, 0.5, 0.1) / regret_bound(near, 5, 2, 0.5, 0.1) == pytest.approx(growth, rel=0.05)


@pytest.mark.parametrize("alpha", [0.999, np.array(0.99925133), 1.0 - 1e-12])
@pytest.mark.parametrize(
    "bound", [lambda alpha: regret_bound(10, 2, 2, alpha, 0.1), lambda alpha: expected_regret_bound(100, 3, 2, alpha)]
)
def test_bounds_beyond_the_largest_float_are_refused(bound, alpha):
    """They are exp of about 3 / (1 - alpha)."""
    with refused(ParameterError, "overflow", argument="alpha"):
        bound(alpha)
    assert np.isfinite(bound(0.99))


values = st.lists(st.floats(0, 100), min_size=1, max_size=12)


@settings(max_examples=300)
@given(values, st.integers(1, 40), st.data())
def test_order_statistic_lemma(x, n, data):
    weights = data.draw(st.lists(st.floats(0.01, 1), min_size=len(x), max_size=len(x)))
    slack = 1e-9 * (1 + max(x))
    assert expected_order_statistic(x, 1, n, weights) >= cvar(x, 1 - 1 / n, weights=weights) - slack
    if n >= 2:
        assert expected_order_statistic(x, 2, n, weights) >= cvar(x, 1 - 2 / n, weights=weights) - slack


@settings(max_examples=200)
@given(values, st.floats(0, 0.97))
def test_the_modified_estimator_is_at_least_cvar_on_average(x, alpha):
    # modified_cvar tells which order statistic of n = ceil(1/(1-alpha)) it takes
    n = sample_size(alpha)
    k = int(modified_cvar(np.arange(1.0, n + 1), alpha))
    assert k in (1, 2)
    assert expected_order_statistic(x, k, n) >= cvar(x, alpha) - 1e-9 * (1 + max(x))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_expected_order_statistic_by_enumeration(n):
    x, chance = np.array([3.0, -1.0, 0.5]), np.array([0.2, 0.3, 0.5])
    for k in range(1, n + 1):
        total = 0.0
        for outcome in np.ndindex(*(3,) * n):
            total += np.prod(chance[list(outcome)]) * np.sort(x[list(outcome)])[k - 1]
        assert expected_order_statistic(x, k, n, weights=7 * chance) == pytest.approx(total, abs=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "code", "fields"),
    [
        (
            lambda: br_regret_bound(10, 2, 2, 0.4, 1.0),
            ParameterError,
            "alpha-range",
            {"argument": "alpha", "value": 0.4},
        ),
        (
            lambda: br_regret_bound([5, 0], 2, 2, 0.5, 1.0),
            ParameterError,
            "value-range",
            {"argument": "T", "index": (1,), "value": 0.0},
        ),
        (lambda: br_regret_bound(10, 2, 2, 0.5, 0.0), ParameterError, "not-positive", {"argument": "nu", "value": 0.0}),
        (lambda: br_regret_bound(10, 0, 2, 0.5, 1.0), ParameterError, "integer-range", {"argument": "K", "value": 0}),
        (lambda: regret_bound(10, 2, 2, 1.0, 0.1), ParameterError, "alpha-range", {"argument": "alpha", "value": 1.0}),
        (
            lambda: regret_bound(10, 2, 2, 0.5, 1.0),
            ParameterError,
            "probability-range",
            {"argument": "delta", "value": 1.0},
        ),
        (lambda: expected_regret_bound(10, 2, 0, 0.5), ParameterError, "integer-range", {"argument": "d", "value": 0}),
        (lambda: expected_order_statistic([1.0], 3, 2), ParameterError, "integer-range", {"argument": "k", "value": 3}),
        (lambda: expected_order_statistic([], 1, 2), DataError, "wrong-shape", {"argument": "weights", "value": (0,)}),
        (
            lambda: expected_order_statistic([1.0, 2.0], 1, 2, [1.0, -1.0]),
            DataError,
            "negative",
            {"argument": "weights", "index": (1,), "value": -1.0},
        ),
        (lambda: expected_order_statistic([1.0], 1, 2, [0.0]), DataError, "sum-zero", {"argument": "weights"}),
    ],
)
def test_bad_arguments(call, error, code, fields):
    with refused(error, code, **fields):
        call()
