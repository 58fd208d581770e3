"""Exact risk and solves at absurd sizes: right, or our warning or error; never a silent NaN."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from refusals import refused
from scipy.special import betainc, betaincinv

import prudent as pr
from prudent import exact
from prudent.errors import DataError, ModelError, ParameterError, PosteriorError, PrudentWarning
from prudent.risk import VaR


def test_close_values_are_one():
    """It was NaN: two values that differ by 1e-129 of the range."""
    found = exact.dirichlet_tail([0.0, 1.5e-33, 4.9e-162], [0.25, 0.125, 1.0], 0.3)
    one = exact.dirichlet_tail([0.0, 1.5e-33], [1.25, 0.125], 0.3)
    assert found.cvar == pytest.approx(float(one.cvar), rel=1e-9)
    assert found.tail_means.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e60, 1e154, 1e308])
def test_huge_counts_have_no_spread(size):
    counts = size * np.array([0.2, 0.3, 0.5])
    mean = 0.3 + 0.5 * 4.0
    for call in (exact.dirichlet_tail, exact.dirichlet_quantile):
        found = call([0.0, 1.0, 4.0], counts, 0.9)
        assert found[0] == pytest.approx(mean, rel=1e-12)
        assert found.error < 1e-10
        assert found[1] == pytest.approx([0.2, 0.3, 0.5], rel=1e-12)


@pytest.mark.parametrize("size", [1e-60, 1e-154, 1e-320])
def test_tiny_counts_are_a_choice_of_one_outcome(size):
    """All weight is on one outcome: CVaR at 0.5 of values 0, 1, 4 with probabilities 1/4, 1/4, 1/2 is 1/2."""
    counts = size * np.array([1.0, 1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrudentWarning)  # the median is between 1 and 4: VaR may warn
        assert exact.cvar_dirichlet([0.0, 1.0, 4.0], counts, 0.5) == pytest.approx(0.5, abs=1e-9)
    assert exact.var_dirichlet([0.0, 1.0, 4.0], counts, 0.6) == pytest.approx(1.0, abs=1e-9)


def test_scale_of_values_does_not_matter():
    counts, values = np.array([2.0, 1.0, 3.0]), np.array([0.0, 1.0, 5.0])
    plain = exact.dirichlet_tail(values, counts, 0.8)
    for scale in (2.0**-1000, 2.0**500, 2.0**1020):
        found = exact.dirichlet_tail(scale * values, counts, 0.8)
        assert found.cvar / scale == pytest.approx(float(plain.cvar), rel=1e-12)
    wide = exact.cvar_dirichlet([-1.7e308, 1.7e308], [1.0, 1.0], 0.5)
    assert wide == pytest.approx(-0.85e308, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 0.9, -0.5])
def test_two_outcomes_are_the_beta_distribution(alpha, rng):
    checked = 0
    for counts in 10.0 ** rng.uniform(-3, 7, (60, 2)):
        a, b = counts if alpha > 0 else counts[::-1]
        p = 1.0 - abs(alpha)
        x = betaincinv(a, b, p)
        if not 1e-8 < x < 1.0 - 1e-8:
            continue  # the reference has no digits there
        expected = a / (a + b) * betainc(a + 1.0, b, x) / p
        expected = expected if alpha > 0 else 1.0 - expected
        checked += 1
        room = 1e-9 + 1e-15 * counts.sum()  # the reference loses digits at large counts
        assert exact.cvar_dirichlet([0.0, 1.0], counts[::-1], alpha) == pytest.approx(expected, abs=room)
    assert checked > 20


def test_every_size_is_finite_and_in_range(rng):
    sizes = 10.0 ** rng.uniform(-320, 308, (400, 2, 4))
    for i in range(400):
        values, counts = sizes[i, 0] * rng.choice([-1.0, 1.0], 4), sizes[i, 1]
        if not (counts > 0.0).any():
            continue
        alpha = float(rng.choice([0.0, 0.3, 0.9, 1 - 1e-9, -0.5]))
        for call in (exact.dirichlet_tail, exact.dirichlet_quantile):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrudentWarning)
                found = call(values, counts, alpha)
            low, high = values[counts > 0.0].min(), values[counts > 0.0].max()
            room = 1e-9 * (high / 2 - low / 2)
            assert low - room <= found[0] <= high + room
            assert found[1].sum() == pytest.approx(1.0)


def test_normal_risks_that_overflow_are_refused():
    for call in (exact.cvar_normal, exact.var_normal):
        with refused(DataError, "overflow", argument="sd"):
            call(0.0, 1e308, 0.999)
    assert exact.cvar_clipped_normal(1.7e277, 1e-320, 0.5) == 1.0
    assert exact.cvar_clipped_normal(-1e300, 1e-300, 0.0) == 0.0
    assert exact.cvar_clipped_normal(0.25, 1e-320, 0.9) == pytest.approx(0.25)


@pytest.mark.parametrize("reward", [1e307, 1.7e308])
def test_values_that_overflow_are_refused(reward):
    chances = np.full((3, 2, 3), 1 / 3)
    with refused(ModelError, "overflow", argument="reward"):
        pr.solve(pr.MDP(chances, np.full((3, 2), reward), 0.999))
    model = pr.UncertainMDP.direct(np.full((3, 2), reward), 0.999)
    with refused(ModelError, "overflow", argument="reward"):
        pr.BayesianRiskMDP(model, np.ones((6, 3)), 0.9).solve()


def test_rewards_of_any_size_are_solved():
    reward = np.array([[1.0, 2.0], [0.0, 3.0]])
    counts = np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 1.0], [2.0, 5.0]])
    plain = pr.BayesianRiskMDP(pr.UncertainMDP.direct(reward, 0.9), counts, 0.9).solve().value
    for scale in (2.0**-900, 2.0**990):
        found = pr.BayesianRiskMDP(pr.UncertainMDP.direct(scale * reward, 0.9), counts, 0.9).solve().value
        assert found / scale == pytest.approx(plain, rel=1e-9)


def test_counts_of_1e60_are_solved_and_larger_ones_refused():
    model = pr.UncertainMDP.direct(np.array([[1.0, 2.0], [0.0, 3.0]]), 0.9)
    for risk in (VaR(0.9), pr.CVaR(0.9)):
        found = pr.BayesianRiskMDP(model, np.full((4, 2), 1e60), risk=risk).solve()
        known = pr.solve(model.mdp(np.full((4, 2), 0.5)))
        assert found.value == pytest.approx(known.value, rel=1e-9)
        assert found.error_bound < 1e-9
    with refused(PosteriorError, "count-range", argument="counts"):
        pr.DirichletPosterior(np.full((4, 2), 1e200))


BIG = 10**14


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("draws", lambda model, lake: pr.BayesianRiskMDP(model, np.ones((6, 3)), 0.5).solve(draws=BIG, rng=0)),
        ("n", lambda model, lake: pr.DirichletPosterior(np.ones((6, 3))).sample(BIG, 0)),
        ("draws", lambda model, lake: pr.posterior_returns(model, np.ones((6, 3)), {"a": [0] * 3}, draws=BIG, start=0)),
        ("episodes", lambda model, lake: pr.simulate(lake, [pr.brps_rl(0.5)], episodes=BIG)),
        ("replications", lambda model, lake: pr.simulate(lake, [pr.brps_rl(0.5)], episodes=10, replications=BIG)),
        ("replications", lambda model, lake: pr.value_of_data(model, np.ones((6, 3)), replications=BIG)),
        ("arms", lambda model, lake: pr.LinearBandit(BIG, dim=1)),
        ("dim", lambda model, lake: pr.LinearBandit(2, dim=10**8)),
        ("dim", lambda model, lake: pr.SharedLinearBandit(10**8)),
        ("capacity", lambda model, lake: pr.envs.inventory(capacity=10**10)),
        ("n_states", lambda model, lake: pr.envs.random_model(10**8, 10)),
    ],
)
def test_memory_that_cannot_be_had_is_one_line(argument, call):
    model, lake = pr.UncertainMDP.direct(np.ones((3, 2)), 0.9), pr.envs.frozen_lake(p_h=0.2)
    with refused(ParameterError, "memory", argument=argument):
        call(model, lake)


def test_math_is_not_nan():
    assert not math.isnan(float(exact.var_dirichlet([1.0, 2.0], [1e-200, 1e200], 0.5)))
