"""The dial goes both ways: negative levels, quantiles and mixtures, exact and sampled, in measures and in solves."""

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from _beta import beta_quantile
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import stats

import prudent as pr
from prudent import exact, theory
from prudent.errors import ParameterError
from prudent.risk import CVaR, MeanCVaR, Mixture, ModifiedCVaR, Spectral, VaR, WorstCase, sample_size
from prudent.risk.spectral import lines_of

LEVELS = st.floats(0.0, 0.999)
VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6)


def random_rows(rng, rows, k):
    return rng.normal(size=(rows, k)), 10.0 ** rng.uniform(-1.0, 3.0, (rows, k))


# -- a level ---------------------------------------------------------------------------------------------------


def test_a_level_is_checked_in_one_place_and_the_message_says_what_negative_ones_mean():
    for call in (lambda a: pr.cvar([1.0], a), sample_size, CVaR, lambda a: exact.cvar_normal(0.0, 1.0, a), pr.brps_rl):
        for wrong in (-1.0, 1.0, math.inf):
            with pytest.raises(ParameterError):
                call(wrong)
    with refused(ParameterError, "alpha-range", argument="alpha"):
        CVaR(-1)
    with refused(ParameterError, "alpha-range", argument="alpha[1]"):
        exact.cvar_dirichlet([0, 1], [1, 1], [0.5, -1.0])
    for bound in (lambda a: theory.regret_bound(10, 2, 2, a, 0.1), lambda a: pr.agents.optimistic_vi(a)):
        with refused(ParameterError, "alpha-range", argument="alpha"):
            bound(-0.5)


def test_minus_zero_is_zero():
    assert math.copysign(1.0, CVaR(-0.0).alpha) == 1.0
    assert CVaR(-0.0) == CVaR(0.0)
    assert VaR(-0.0)([1.0, 2.0]) == VaR(0.0)([1.0, 2.0]) == 2.0
    assert exact.var_dirichlet([1.0, 2.0], [1, 1], -0.0) == 2.0
    assert exact.cvar_normal(1.0, 2.0, -0.0) == 1.0


# -- measures of draws -------------------------------------------------------------------------------------------


@given(VALUES, LEVELS, st.floats(0.0, 1.0))
def test_a_negative_level_is_the_positive_one_of_the_negated_draws(draws, level, weight):
    z = np.array(draws)
    measures = [CVaR, VaR, lambda a: MeanCVaR(a, weight), lambda a: Mixture((a, 0.0), (weight, 1.0 - weight))]
    if len(draws) >= sample_size(level):
        measures.append(ModifiedCVaR)
    for measure in measures if level > 0.0 else ():
        up, down = measure(-level), measure(level)
        assert up(z) == pytest.approx(-down(-z), abs=1e-12 * (1 + abs(z).max()))
        np.testing.assert_allclose(up.weights(z.size), down.weights(z.size)[::-1], atol=1e-15)
        assert up(z) == pytest.approx(up.weights(z.size) @ np.sort(z), abs=1e-10 * (1 + abs(z).max()))
        lowest = up.lowest_weights(z.size)
        assert up(z) == pytest.approx(lowest @ np.sort(z)[: lowest.size], abs=1e-10 * (1 + abs(z).max()))
    chances = np.arange(1.0, z.size + 1.0)
    up, down = pr.cvar(z, -level, weights=chances), pr.cvar(-z, level, weights=chances)
    if level > 0.0:
        assert up == pytest.approx(-down, abs=1e-12 * (1 + abs(z).max()))
    assert sample_size(-level) == sample_size(level)


def test_lines_of_distortions():
    ends, values = lines_of(lambda u: min(2 * u, 0.5 + 0.5 * u, 1.0))
    np.testing.assert_allclose(ends, [0.0, 1 / 3, 1.0], atol=1e-12)
    np.testing.assert_allclose(values, [0.0, 2 / 3, 1.0], atol=1e-12)
    mixtures = [((0.0,), (1.0,)), ((0.9,), (1.0,)), ((0.1, 0.5, 0.999), (0.2, 0.3, 0.5)), ((0.0, 1 - 1e-6), (0.5, 0.5))]
    for levels, shares in mixtures:
        parts = list(zip(levels, shares, strict=True))
        form = Spectral(lambda u, parts=parts: sum(share * min(u / (1 - a), 1) for a, share in parts)).exact_form()
        np.testing.assert_allclose(form.levels, levels, atol=1e-9)
        np.testing.assert_allclose(form.weights, shares, atol=1e-7)
    convex = Spectral(lambda u: max(0.0, (u - 0.75) / 0.25)).exact_form()  # the best quarter: CVaR at -0.75
    v, psi = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 1.5])
    direct = exact.cvar_dirichlet(v, psi, -0.75)
    assert sum(w * exact.cvar_dirichlet(v, psi, a) for a, w in zip(convex.levels, convex.weights, strict=True)) == (
        pytest.approx(float(direct), abs=1e-10)
    )
    with refused(ParameterError, "no-exact-form"):
        Spectral(lambda u: 1 - (1 - u) ** 2).exact_form()
    with refused(ParameterError, "no-exact-form"):
        Spectral(lambda u: 0.0 if u == 0 else 0.5 + 0.5 * u).exact_form()
    with refused(ParameterError, "no-exact-form"):
        Spectral(lambda u: 0.5 * u if u < 0.3 else 0.5 + 0.5 * u).exact_form()


def test_pieces_take_the_place_of_a_smooth_distortion_within_the_stated_gap():
    smooth = Spectral(lambda u: 1 - (1 - u) ** 2)
    draws = np.random.default_rng(1).uniform(size=1000)
    for pieces in (5, 20):
        lines = Spectral(smooth.distortion, pieces=pieces)
        assert 0.25 / pieces**2 <= lines.gap + 1e-12 <= 0.3 / pieces**2
        assert abs(lines(draws) - smooth(draws)) <= lines.gap + 1e-12
    levels, weights, _ = lines.exact_form()
    assert weights.sum() == pytest.approx(1.0)
    assert levels.size == 20


@pytest.mark.parametrize(
    ("call", "code", "fields"),
    [
        (lambda: Mixture((0.5, 0.9), (1.0,)), "wrong-shape", {"argument": "shares", "value": (1,)}),
        (lambda: Mixture((0.5, 2.0), (0.5, 0.5)), "alpha-range", {"argument": "alphas[1]", "value": 2.0}),
        (lambda: Mixture((0.5, 0.9), (1.5, -0.5)), "negative", {"argument": "shares", "index": (1,), "value": -0.5}),
        (lambda: Mixture((0.5, 0.9), (0.5, 0.6)), "sum-not-one", {"argument": "shares", "value": 1.1}),
        (lambda: Mixture((), ()), "wrong-shape", {"argument": "shares", "value": (0,)}),
        (lambda: Spectral(lambda u: u, pieces=0), "integer-range", {"argument": "pieces", "value": 0}),
        (lambda: ModifiedCVaR(0.5).exact_form(), "no-exact-form", {}),
    ],
)
def test_bad_measures_are_named(call, code, fields):
    with refused(ParameterError, code, **fields):
        call()


# -- exact -------------------------------------------------------------------------------------------------------


def test_exact_functions_mirror():
    rng = np.random.default_rng(0)
    v, psi = random_rows(rng, 60, 5)
    level = rng.uniform(0.01, 0.99, 60)
    mixed = np.where(rng.random(60) < 0.5, -level, level)
    for function in (exact.cvar_dirichlet, exact.var_dirichlet):
        up, down = function(v, psi, -level), function(-v, psi, level)
        np.testing.assert_allclose(up, -down, rtol=0, atol=1e-12)
        both = function(v, psi, mixed)
        np.testing.assert_allclose(both, np.where(mixed < 0, up, function(v, psi, level)), atol=1e-12)
    mean, sd = rng.normal(0.5, 1.0, 60), rng.uniform(0.0, 2.0, 60)
    for function in (exact.cvar_normal, exact.var_normal):
        np.testing.assert_allclose(function(mean, sd, -level), -function(-mean, sd, level), atol=1e-12)
    np.testing.assert_allclose(
        exact.cvar_clipped_normal(mean, sd, -level), 1.0 - exact.cvar_clipped_normal(1.0 - mean, sd, level), atol=1e-12
    )
    tail = exact.dirichlet_tail(v, psi, -level)
    np.testing.assert_allclose((tail.tail_means * v).sum(axis=1), tail.cvar, atol=1e-9)
    assert (tail.cvar >= (psi * v).sum(axis=1) / psi.sum(axis=1) - 1e-12).all()


def test_the_upper_tail_of_a_clipped_normal_by_quadrature():
    for mean, sd, level in product((-0.5, 0.3, 1.2), (0.2, 3.0), (0.2, 0.9)):
        u = (np.arange(200_000) + 0.5) / 200_000
        upper = np.clip(mean + sd * stats.norm.ppf(level + (1 - level) * u), 0.0, 1.0).mean()
        assert exact.cvar_clipped_normal(mean, sd, -level) == pytest.approx(upper, abs=1e-5)


@pytest.mark.parametrize("low", [0.01, 0.5, 1.0, 2.0, 40.0, 1e3, 1e6])
def test_quantiles_of_two_outcomes_agree_with_the_beta_closed_form(low):
    for high, alpha in product([0.01, 0.1, 1.0, 3.0, 1e3, 1e9], [0.001, 0.1, 0.5, 0.9, 0.9999]):
        found = exact.dirichlet_quantile([0.0, 1.0], [low, high], alpha)
        error = abs(float(mp.mpf(float(found.var)) - beta_quantile(low, high, alpha)))
        assert error <= 1e-9, (low, high, alpha)
        assert error <= found.error <= 1e-9, (low, high, alpha)
        assert found.means == pytest.approx([1.0 - found.var, found.var], abs=1e-9)


def test_quantiles_of_many_outcomes_have_the_stated_mass():
    """The share of 100,000 draws at or below the quantile: 6 standard errors, false alarm 2e-9 for each of 24 rows."""
    rng = np.random.default_rng(4)
    for k in (3, 8, 30):
        v, psi = random_rows(rng, 8, k)
        psi[:4] *= 0.02  # and rows with spikes
        level = rng.uniform(-0.95, 0.95, 8)
        found = exact.var_dirichlet(v, psi, level)
        for i in range(8):
            share = (rng.dirichlet(psi[i], 100_000) @ v[i] <= found[i] + 1e-9).mean()
            p = 1.0 - level[i] if level[i] > 0 else -level[i]
            assert abs(share - p) < 6.0 * math.sqrt(p * (1 - p) / 100_000) + 1e-6


def test_means_at_the_quantile_are_its_gradient():
    rng = np.random.default_rng(7)
    v, psi = random_rows(rng, 20, 4)
    psi += 1.0
    for level in (-0.8, 0.3, 0.9):
        found = exact.dirichlet_quantile(v, psi, level)
        np.testing.assert_allclose(found.means.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose((found.means * v).sum(axis=1), found.var, atol=1e-10)
        for k in range(4):
            step = 1e-4 * np.eye(4)[k]
            slope = (exact.var_dirichlet(v + step, psi, level) - exact.var_dirichlet(v - step, psi, level)) / 2e-4
            np.testing.assert_allclose(slope, found.means[:, k], atol=1e-5)


@given(VALUES, st.floats(-0.99, 0.99), st.floats(-100, 100), st.floats(0.01, 100))
def test_quantiles_are_monotone_and_equivariant(values, level, shift, scale):
    v = np.array(values)
    psi = np.linspace(0.5, 4.0, v.size)
    x = float(exact.var_dirichlet(v, psi, level))
    assert v.min() - 1e-9 <= x <= v.max() + 1e-9
    size = 1e-9 * (1 + abs(v).max() + abs(shift)) * (1 + scale)
    assert exact.var_dirichlet(scale * v + shift, psi, level) == pytest.approx(scale * x + shift, abs=size)
    assert exact.var_dirichlet(np.maximum(v, 0.0), psi, level) >= x - size


def test_ends_and_degenerate_rows():
    v, psi = [1.0, 5.0, 9.0], [1.0, 0.0, 2.0]
    assert exact.var_dirichlet(v, psi, 0.0) == 9.0
    assert exact.dirichlet_quantile(v, psi, 0.0).means.tolist() == [0.0, 0.0, 1.0]
    assert exact.risk_dirichlet(v, psi, WorstCase()).value == 1.0
    assert exact.risk_dirichlet([5.0, 5.0], [1.0, 3.0], VaR(0.3)).means == pytest.approx([0.25, 0.75])
    assert exact.var_normal(2.0, 0.0, 0.0) == 2.0
    assert exact.var_normal(2.0, 1.0, 0.0) == math.inf
    # of three outcomes that are nearly certain, the quantile lies at one of them
    assert exact.var_dirichlet([0.0, 1.0, 2.0], [1e-3] * 3, 0.5) == pytest.approx(1.0, abs=1e-9)


def test_a_flat_distribution_function_has_a_wide_bound():
    with warned(pr.errors.ConvergenceWarning, "coarse-rows"):
        found = exact.dirichlet_quantile([0.0, 1.0], [1e-9, 1e-9], 0.5 + 1e-13)
    assert abs(float(found.var - beta_quantile(1e-9, 1e-9, 0.5 + 1e-13))) <= found.error


def test_mixtures_agree_with_200_000_draws():
    """Mean of weighted sorted draws against the exact mixture: 6 standard errors by batches of draws."""
    rng = np.random.default_rng(11)
    v, psi = rng.normal(size=6), np.array([1.0, 2.0, 0.5, 4.0, 1.0, 9.0])
    draws = (rng.dirichlet(psi, 200_000) @ v).reshape(100, 2_000)
    measures = [MeanCVaR(0.9, 0.3), MeanCVaR(-0.7, 0.5), Mixture(np.linspace(-0.9, 0.9, 10), np.full(10, 0.1))]
    measures += [Spectral(lambda u: min(2 * u, 0.5 + 0.5 * u, 1.0)), CVaR(-0.95)]
    for measure in measures:
        found = exact.risk_dirichlet(v, psi, measure)
        parts = measure(draws, axis=1)
        bias = 2e-4  # of a batch of 2,000 draws
        assert abs(parts.mean() - found.value) < 6.0 * parts.std() / 10.0 + bias
        assert abs(measure(draws.reshape(-1)) - found.value) < 6.0 * parts.std() / 10.0 + 1e-5
        assert found.means @ v == pytest.approx(float(found.value), abs=1e-9)
        assert found.error < 1e-9


# -- theory ------------------------------------------------------------------------------------------------------


def test_limit_laws_of_other_measures():
    coin = pr.MDP([[[0.5, 0.5]], [[0.3, 0.7]]], reward=[0.0, 1.0], discount=0.5)
    base = theory.limit_law(coin, [0, 0], 0.9)
    for other, ratio in (
        ({"alpha": -0.9}, -1.0),
        ({"risk": VaR(0.9)}, stats.norm.ppf(0.1) / float(exact.cvar_normal(0, 1, 0.9))),
        ({"risk": MeanCVaR(0.9, 0.25)}, 0.75),
    ):
        law = theory.limit_law(coin, [0, 0], **other)
        np.testing.assert_allclose(law.mean, ratio * base.mean, rtol=1e-12)
        np.testing.assert_allclose(law.cov, base.cov)
    with refused(ParameterError, "no-limit"):
        theory.limit_law(coin, [0, 0], risk=VaR(0.0))
    with refused(ParameterError, "missing-argument"):
        theory.limit_law(coin, [0, 0])


def test_bayesian_quantile_values_tend_to_the_limit_law():
    """With N = 1e8 expected observations, N (V - V*) / sqrt(N) is the mean of the law but for 1 / sqrt(N)."""
    mdp = pr.MDP([[[0.5, 0.5]], [[0.3, 0.7]]], reward=[0.0, 1.0], discount=0.5)
    n = 1e8
    model = pr.UncertainMDP.direct([[0.0], [1.0]], 0.5)
    visits = theory.stationary_distribution(mdp.dense()[:, 0])
    counts = n * visits[:, None] * mdp.dense()[:, 0]
    truth = pr.solve(mdp).value
    for risk in (VaR(0.9), CVaR(-0.8), MeanCVaR(0.9, 0.5)):
        value = pr.BayesianRiskMDP(model, counts, risk=risk).solve().value
        expected = theory.limit_law(mdp, [0, 0], risk=risk).mean
        np.testing.assert_allclose(math.sqrt(n) * (value - truth), expected, atol=1e-3)


# -- operators ---------------------------------------------------------------------------------------------------


def random_problem(rng, n_states=4, n_actions=2, discount=0.7, sign=1.0):
    reward = sign * rng.normal(size=(n_states, n_actions))
    counts = 10.0 ** rng.uniform(-0.5, 1.5, (n_states * n_actions, n_states))
    return pr.UncertainMDP.direct(reward, discount), counts


def swept(model, counts, risk, sweeps):
    """Plain value iteration with the exact measure, in NumPy."""
    value = np.zeros(model.n_states)
    for _ in range(sweeps):
        worth = np.broadcast_to(model.reward + model.discount * value[model.next_state], model.next_state.shape)
        q = exact.risk_dirichlet(worth, counts.reshape(worth.shape), risk, threads=1).value
        value = q.max(axis=1)
    return value


def test_certified_quantile_solves_on_200_random_models():
    rng = np.random.default_rng(2)
    for i in range(200):
        model, counts = random_problem(rng, 3, 2, discount=0.4)
        risk = VaR(float(rng.uniform(-0.98, 0.98)))
        solution = pr.BayesianRiskMDP(model, counts, risk=risk).solve(threads=1)
        assert solution.converged, (i, solution.message)
        plain = swept(model, counts, risk, 24)  # 0.4 ** 24 = 3e-10
        assert abs(solution.value - plain).max() <= solution.error_bound + 1e-9, i


def test_solves_mirror():
    rng = np.random.default_rng(3)
    for alpha in (0.3, 0.9, 0.99):
        reward = rng.normal(size=(6, 3))
        counts = 10.0 ** rng.uniform(-0.5, 2.0, (18, 6))
        policy = rng.integers(0, 3, 6)
        up = pr.BayesianRiskMDP(pr.UncertainMDP.direct(reward, 0.9), counts, -alpha)
        down = pr.BayesianRiskMDP(pr.UncertainMDP.direct(-reward, 0.9), counts, alpha)
        one, two = up.evaluate(policy, tol=1e-11), down.evaluate(policy, tol=1e-11)
        np.testing.assert_allclose(one.value, -two.value, atol=1e-12 + one.error_bound + two.error_bound)
        one, two = (each.evaluate(policy, draws=50, rng=1, tol=1e-11) for each in (up, down))
        np.testing.assert_allclose(one.value, -two.value, atol=1e-11)
        values = [pr.BayesianRiskMDP(up.model, counts, a).solve().value for a in (-alpha, 0.0, alpha)]
        assert (values[0] >= values[1]).all()
        assert (values[1] >= values[2]).all()


@pytest.mark.parametrize(
    "risk",
    [CVaR(-0.9), VaR(0.8), VaR(-0.8), VaR(0.0), WorstCase(), MeanCVaR(-0.9, 0.4), Mixture((-0.9, 0.95), (0.5, 0.5)),
     Spectral(lambda u: min(2 * u, 0.5 + 0.5 * u, 1.0)), Spectral(lambda u: max(0.0, (u - 0.75) / 0.25))],
    ids=lambda risk: repr(risk).split("<")[0],
)  # fmt: skip
def test_every_exact_measure_against_plain_value_iteration(risk):
    rng = np.random.default_rng(5)
    model, counts = random_problem(rng)
    problem = pr.BayesianRiskMDP(model, counts, risk=risk)
    assert problem.is_exact
    solution = problem.solve(threads=1)
    plain = swept(model, counts, risk, 70)  # 0.7 ** 70 = 1e-11
    assert abs(solution.value - plain).max() <= solution.error_bound + 1e-9
    assert solution.converged
    own = problem.evaluate(solution.policy)
    np.testing.assert_allclose(own.value, solution.value, atol=own.error_bound + solution.error_bound)
    repr(solution.explain(0))
    by_sweeps = problem.solve(method="value_iteration")
    np.testing.assert_allclose(by_sweeps.value, solution.value, atol=by_sweeps.error_bound + solution.error_bound)


def test_terminal_states_shared_sources_and_ends_at_negative_levels():
    problem = pr.envs.frozen_lake(0.2)
    counts = 3.0 * problem.model.prior()
    neutral = pr.BayesianRiskMDP(problem.model, counts, 0.0).solve().value
    hopeful = pr.BayesianRiskMDP(problem.model, counts, -0.9).solve()
    assert hopeful.converged
    assert (hopeful.value > neutral).all()


@pytest.mark.parametrize("alpha", [-0.9, -0.7, -0.37])
def test_sampled_operator_weighs_the_highest_draws(alpha):
    rng = np.random.default_rng(8)
    model, _ = random_problem(rng)
    theta = rng.dirichlet(np.ones(4), (9, 8))
    value = pr.BayesianRiskMDP(model, draws=theta, alpha=alpha).solve(tol=1e-12).value
    plain = np.zeros(4)
    measure = CVaR(alpha)
    for _ in range(90):
        worth = model.reward + model.discount * plain[model.next_state]  # [S, A, K]
        z = np.einsum("nsak,sak->nsa", theta.reshape(9, 4, 2, 4), worth)
        plain = measure(z).max(axis=1)
    np.testing.assert_allclose(value, plain, atol=1e-10)
