"""Solvers against high precision, each other, Gymnasium and their own certificate."""

import subprocess
import sys
import warnings
from dataclasses import fields
from itertools import pairwise, product

import gymnasium
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused, warned
from scipy import sparse, stats

import prudent as pr
from prudent.errors import ConvergenceWarning, ModelError, ParameterError, PosteriorError
from prudent.planning.draw_blocks import GivenDraws
from prudent.planning.execute.threads import Threads
from prudent.planning.options import SolverKeywords, SolverOptions
from prudent.planning.row_risks import DirichletRows, DrawRows, MeanRows

GAMMAS = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]
METHODS = ["newton", "value_iteration"]


def random_mdp(rng, n_states, n_actions, discount, *, terminating=False, barred=False):
    transition = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    reward = rng.normal(size=(n_states, n_actions))
    admissible = np.ones((n_states, n_actions), dtype=bool)
    if barred:
        admissible[:, 1:] = rng.random((n_states, n_actions - 1)) < 0.6
        admissible[0, -1] = admissible[-1, 1:] = True
    termination = None
    if terminating:
        termination = np.where(rng.random((n_states, n_actions)) < 0.4, 0.3, 0.0)
        transition *= (1.0 - termination)[..., None]
    return pr.MDP(transition, reward, discount, termination=termination, admissible=admissible)


def true_values(mdp, policy):
    """Values of a policy, and Q of all pairs, in 40 digits, for the numbers as stored."""
    dense = mdp.dense()
    with mp.workdps(40):
        gamma = mp.mpf(mdp.discount)
        n = mdp.n_states
        matrix = mp.matrix(n, n)
        for s in range(n):
            for t in range(n):
                matrix[s, t] = (1 if s == t else 0) - gamma * mp.mpf(float(dense[s, policy[s], t]))
        value = mp.lu_solve(matrix, mp.matrix([mp.mpf(float(mdp.reward[s, policy[s]])) for s in range(n)]))
        q = [
            [
                mp.mpf(float(mdp.reward[s, a]))
                + gamma * mp.fsum(mp.mpf(float(dense[s, a, t])) * value[t] for t in range(n))
                if mdp.admissible[s, a]
                else -mp.inf
                for a in range(mdp.n_actions)
            ]
            for s in range(n)
        ]
        return value, q


def optimal_values(mdp, policy):
    """Policy iteration in 40 digits, started from ``policy``."""
    with mp.workdps(40):
        for _ in range(50):
            value, q = true_values(mdp, policy)
            better = [max(range(mdp.n_actions), key=lambda a, row=row: (row[a], -a)) for row in q]
            if all(q[s][better[s]] <= value[s] + mp.mpf(10) ** -30 for s in range(mdp.n_states)):
                return value
            policy = better
    raise AssertionError("policy iteration did not end")


def largest_error(value, truth):
    with mp.workdps(40):
        return max(abs(float(mp.mpf(float(v)) - t)) for v, t in zip(value, truth, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gamma", [*GAMMAS[:-1], pytest.param(GAMMAS[-1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["plain", "terminating", "barred"])
def test_the_certificate_holds_at_every_discount(gamma, method, kind):
    rng = np.random.default_rng(int(gamma * 1e4))
    mdp = random_mdp(rng, 6, 3, gamma, terminating=kind == "terminating", barred=kind == "barred")
    for tol in (1e-2, 1e-6, 1e-13):
        solution = pr.solve(mdp, tol=tol, method=method)
        truth = optimal_values(mdp, solution.policy)
        assert largest_error(solution.value, truth) <= solution.error_bound
        assert solution.converged == (solution.error_bound <= tol)
        if tol > 1e-9:
            assert solution.converged
        else:
            assert solution.converged or "rounding" in solution.message
        np.testing.assert_allclose(np.max(solution.q, axis=1), solution.value, atol=2 * solution.error_bound)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_certificate_holds_for_a_policy(gamma, method):
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, 7, 2, gamma, terminating=True)
    policy = rng.integers(0, 2, 7)
    solution = pr.evaluate(mdp, policy, tol=1e-7, method=method)
    truth, q = true_values(mdp, policy)
    assert largest_error(solution.value, truth) <= solution.error_bound <= 1e-7
    np.testing.assert_array_equal(solution.policy, policy)
    assert np.isnan(solution.q[np.arange(7), 1 - policy]).all()
    assert abs(solution.q[3, policy[3]] - float(q[3][policy[3]])) <= 1e-6


def slow_walk(n_states, reward_at=0):
    """Left, stay, right on a line: the chain mixes in about S^2 steps."""
    transition = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        for a, (left, right) in enumerate(((0.45, 0.35), (0.35, 0.45))):
            transition[s, a, max(s - 1, 0)] += left
            transition[s, a, min(s + 1, n_states - 1)] += right
            transition[s, a, s] += 0.2
    reward = np.zeros((n_states, 2))
    reward[reward_at] = 1.0
    return transition, reward


@pytest.mark.parametrize("gamma", [0.99, 0.9999])
@pytest.mark.parametrize("n_states", [120, 700])  # by elimination, by BiCGStab
def test_slow_mixing_models_take_few_backups(gamma, n_states):
    transition, reward = slow_walk(n_states)
    mdp = pr.MDP(transition, reward, gamma)
    solution = pr.solve(mdp, tol=1e-6)
    assert solution.converged
    assert solution.iterations <= 60
    chain = transition[np.arange(n_states), solution.policy]
    direct = np.linalg.solve(np.eye(n_states) - gamma * chain, reward[np.arange(n_states), solution.policy])
    assert np.abs(solution.value - direct).max() <= solution.error_bound + 1e-9


def test_dense_and_sparse_models_and_both_methods_agree():
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(4), (400, 3))
    columns = rng.integers(0, 400, (400, 3, 4))
    rows = np.repeat(np.arange(1200), 4)
    matrix = sparse.csr_array((transition.ravel(), (rows, columns.ravel())), shape=(1200, 400))
    reward = rng.random((400, 3))
    big = pr.solve(pr.MDP(matrix, reward, 0.97), tol=1e-9)
    same = pr.solve(pr.MDP(matrix.toarray().reshape(400, 3, 400), reward, 0.97), tol=1e-9)
    swept = pr.solve(pr.MDP(matrix, reward, 0.97), tol=1e-9, method="value_iteration")
    np.testing.assert_allclose(big.value, same.value, rtol=0, atol=2e-9)
    np.testing.assert_allclose(big.value, swept.value, rtol=0, atol=2e-9)
    q = reward + 0.97 * (matrix @ big.value).reshape(400, 3)
    np.testing.assert_allclose(big.q, q, atol=1e-8)  # also of the actions dropped on the way


def test_given_sweeps_are_done_exactly():
    rng = np.random.default_rng(1)
    mdp = random_mdp(rng, 5, 3, 0.8)
    value = np.zeros(5)
    for _ in range(7):
        value = (mdp.reward + 0.8 * mdp.dense() @ value).max(axis=1)
    swept = pr.solve(mdp, sweeps=7)
    np.testing.assert_allclose(swept.value, value, atol=1e-14)
    truth = optimal_values(mdp, swept.policy)
    assert largest_error(swept.value, truth) <= swept.error_bound <= 0.8**6 * 10
    assert swept.iterations == 7
    assert swept.message == "stopped after 7 sweeps as asked"


def test_a_cap_is_never_silent():
    mdp = random_mdp(np.random.default_rng(2), 5, 3, 0.99)
    with warned(ConvergenceWarning, "iteration-cap", iterations=3):
        solution = pr.solve(mdp, method="value_iteration", max_iterations=3)
    assert not solution.converged
    assert solution.iterations == 3


def test_a_good_start_saves_work():
    mdp = random_mdp(np.random.default_rng(2), 50, 3, 0.99)
    first = pr.solve(mdp)
    again = pr.solve(mdp, initial_value=first.value)
    assert again.iterations <= 2 < first.iterations


# -- Gymnasium -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v3", "CliffWalking-v1"])
def test_gymnasium_models_are_solved(name):
    env = gymnasium.make(name)
    table = env.unwrapped.P
    discount = 0.95
    value = np.zeros(len(table))
    for _ in range(1200):  # 0.95^1200 = 2e-27
        value = np.array(
            [
                max(
                    sum(p * (r + (0.0 if done else discount * value[t])) for p, t, r, done in table[s][a])
                    for a in table[s]
                )
                for s in table
            ]
        )
    solution = pr.solve(pr.MDP.from_gymnasium(env, discount), tol=1e-10)
    assert solution.value.shape == (env.observation_space.n,)
    np.testing.assert_allclose(solution.value, value, rtol=0, atol=1e-9)


# -- Bayesian risk -------------------------------------------------------------------------------------------


def lake_direct(seed=0, visits=40):
    """The direct model of a 4x4 frozen lake (16 states, 4 actions, 16 outcomes) with a random log."""
    lake = pr.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), 0.8).dense()
    lake[15] = 0.0
    lake[15, :, 0] = 1.0  # the goal starts again
    reward = np.zeros((16, 4))
    reward[15] = 1.0
    model = pr.UncertainMDP.direct(reward, discount=0.8)
    rng = np.random.default_rng(seed)
    counts = np.array([rng.multinomial(visits, row) for row in lake.reshape(64, 16)]) + 1.0
    return model, pr.DirichletPosterior(counts, prior=np.ones((64, 16)))


def small_uncertain(rng, n_states=4, n_actions=3, discount=0.9):
    model = pr.UncertainMDP.direct(rng.normal(size=(n_states, n_actions)), discount=discount)
    posterior = pr.DirichletPosterior(rng.uniform(0.3, 8.0, (n_states * n_actions, n_states)))
    return model, posterior


def test_exact_agrees_with_many_draws():
    """Student's test at 10^5 draws in each of 16 states, false alarm 1e-6 in all.

    The standard error comes from thirty evaluations with a fiftieth of the draws; a relative error of 10% in the cost
    of risk would be seen.
    """
    model, posterior = lake_direct()
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    exact = problem.solve(tol=1e-10)
    assert exact.converged
    runs = np.array([problem.evaluate(exact.policy, draws=2_000).value for _ in range(30)])
    widest = stats.t.isf(1e-6 / 16 / 2, 29) * runs.std(axis=0, ddof=1) / np.sqrt(50)
    neutral = pr.BayesianRiskMDP(model, posterior, 0.0).evaluate(exact.policy)
    assert (widest < 0.1 * (neutral.value - exact.value)).all()
    whole = problem.evaluate(exact.policy, draws=100_000)
    np.testing.assert_array_less(np.abs(whole.value - exact.value), widest)


def test_no_policy_beats_the_optimum_and_the_optimal_one_attains_it():
    model, posterior = lake_direct()
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    best = problem.solve(tol=1e-10)
    rng = np.random.default_rng(0)
    for policy in [*rng.integers(0, 4, (5, 16)), best.policy]:
        value = problem.evaluate(policy, tol=1e-10).value
        assert (value <= best.value + 2e-10).all()
    np.testing.assert_allclose(value, best.value, rtol=0, atol=2e-10)


# value iteration at 0.9999 would take a hundred thousand sweeps; the risk-neutral operator covers it
@pytest.mark.parametrize(
    ("gamma", "method"), [*product(GAMMAS, ["newton"]), *product(GAMMAS[:-1], ["value_iteration"])]
)
def test_exact_certificate_at_every_discount(gamma, method):
    rng = np.random.default_rng(3)
    model, posterior = small_uncertain(rng, 3, 2, gamma)
    problem = pr.BayesianRiskMDP(model, posterior, 0.8)
    rough = problem.solve(tol=1e-3, method=method)
    fine = problem.solve(tol=1e-12)
    assert rough.converged
    assert np.abs(rough.value - fine.value).max() <= rough.error_bound + fine.error_bound
    # an independent fixed point: solve V = T V with cvar_dirichlet itself
    value = fine.value
    y = gamma * value[model.next_state] + model.reward
    q = pr.exact.cvar_dirichlet(y, posterior.counts[model.source], 0.8)
    assert np.abs(q.max(axis=1) - value).max() <= 2.0 * fine.error_bound + 1e-11


def test_risk_neutral_is_the_posterior_mean():
    rng = np.random.default_rng(4)
    model, posterior = small_uncertain(rng)
    neutral = pr.BayesianRiskMDP(model, posterior, 0.0).solve(tol=1e-10)
    mean = pr.solve(model.mdp(posterior.mean()), tol=1e-10)
    np.testing.assert_allclose(neutral.value, mean.value, atol=1e-9)
    draws = posterior.sample(50, 0)
    drawn = pr.BayesianRiskMDP(model, posterior, 0.0).solve(draws=draws, tol=1e-10)
    np.testing.assert_allclose(drawn.value, pr.solve(model.mdp(draws.mean(axis=0)), tol=1e-10).value, atol=1e-9)


@pytest.mark.parametrize(
    "risk",
    [
        pr.CVaR(0.9),
        pr.CVaR(0.37),
        pr.VaR(0.8),
        pr.risk.WorstCase(),
        pr.risk.Mean(),
        pr.MeanCVaR(0.9, 0.5),
        pr.risk.ModifiedCVaR(0.7),
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", METHODS)
def test_sampled_fixed_point_of_any_spectral_risk(risk, method):
    rng = np.random.default_rng(6)
    model, posterior = small_uncertain(rng)
    draws = posterior.sample(37, rng)
    solution = pr.BayesianRiskMDP(model, posterior, risk=risk).solve(draws=draws, tol=1e-9, method=method)
    assert solution.converged
    y = 0.9 * solution.value[model.next_state] + model.reward  # [S, A, K]
    z = np.einsum("nsak,sak->nsa", draws[:, model.source], y)
    q = risk(z, axis=0)
    assert np.abs(q.max(axis=1) - solution.value).max() <= 2e-9
    np.testing.assert_allclose(q, solution.q, atol=1e-8)


@pytest.mark.parametrize("kind", ["normal", "beta"])
def test_unknown_rewards_enter_the_sampled_backup(kind):
    rng = np.random.default_rng(7)
    model, posterior = small_uncertain(rng)
    if kind == "normal":
        rewards = pr.posteriors.NormalPosterior(np.zeros((4, 3)), np.full((4, 3), 0.7), 1.0)
    else:
        rewards = pr.posteriors.BetaPosterior(np.full((4, 3), 2.0), np.full((4, 3), 3.0))
    problem = pr.BayesianRiskMDP(model, posterior, 0.8, reward_posterior=rewards)
    solution = problem.solve(draws=60, rng=11, tol=1e-9)
    generator = np.random.default_rng(11)
    theta, bonus = posterior.sample(60, generator), rewards.sample(60, generator)
    y = 0.9 * solution.value[model.next_state] + model.reward
    z = np.einsum("nsak,sak->nsa", theta[:, model.source], y) + bonus
    assert np.abs(pr.cvar(z, 0.8).max(axis=1) - solution.value).max() <= 2e-9
    if kind == "normal":
        assert problem.solve().converged  # exactly; see test_noisy_rewards
        return
    with refused(ParameterError, "missing-argument", argument="draws"):
        problem.solve()


def test_more_data_and_less_aversion_cost_less():
    """The value falls with alpha, and approaches that of the true model as counts grow (weak convergence)."""
    model, few = lake_direct(visits=20)
    _, many = lake_direct(visits=20_000)
    by_level = [pr.BayesianRiskMDP(model, few, alpha).solve().value for alpha in (0.0, 0.5, 0.9, 0.99)]
    for bolder, warier in pairwise(by_level):
        assert (warier <= bolder + 1e-7).all()
    gap_few = by_level[0] - by_level[2]
    gap_many = pr.BayesianRiskMDP(model, many, 0.0).solve().value - pr.BayesianRiskMDP(model, many, 0.9).solve().value
    assert gap_many.max() < 0.1 * gap_few.max()


def test_threads_change_nothing():
    model, posterior = lake_direct()
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    for options in ({}, {"draws": 3000, "rng": 1}):
        one, two = (problem.solve(**options, threads=n) for n in (1, 2))
        np.testing.assert_array_equal(one.value, two.value)


# -- operators -----------------------------------------------------------------------------------------------


def operators(rng):
    model, posterior = small_uncertain(rng)
    mdp = model.mdp(posterior.mean())
    return [
        Threads(MeanRows(mdp.transition, mdp.reward, mdp.discount)),
        Threads(DrawRows(model, GivenDraws(model, posterior.sample(23, rng)), pr.CVaR(0.77))),
        Threads(DrawRows(model, GivenDraws(model, posterior.sample(23, rng)), pr.VaR(0.5))),
        Threads(DirichletRows(model, posterior.counts, 0.85)),
    ]


def apply(operator, value):
    q = np.empty(12)
    operator.backup(value, np.arange(12), q)
    return q


values = st.lists(st.floats(-10, 10), min_size=4, max_size=4).map(np.array)


@given(values, values, st.floats(-100, 100))
@settings(max_examples=25)
def test_operators_contract_shift_and_are_monotone(one, other, shift):
    for operator in operators(np.random.default_rng(8)):
        a, b = apply(operator, one), apply(operator, other)
        assert np.abs(a - b).max() <= 0.9 * np.abs(one - other).max() + 1e-9
        np.testing.assert_allclose(apply(operator, one + shift), a + 0.9 * shift, atol=1e-8)
        assert (apply(operator, np.maximum(one, other)) >= np.maximum(a, b) - 1e-9).all()


@given(values)
@settings(max_examples=25)
def test_linearised_chains_touch_the_operator(value):
    for operator in operators(np.random.default_rng(9)):
        q = apply(operator, value)
        pairs = np.array([1, 3, 8, 11])
        chain = operator.linearise(value, pairs)
        np.testing.assert_allclose(chain.reward + 0.9 * chain.dense() @ value, q[pairs], atol=1e-9)
        np.testing.assert_allclose(chain.dense().sum(axis=1), 1.0, atol=1e-12)


@given(values, values)
@settings(max_examples=25)
def test_linearise_needs_no_backup(value, other):
    """Chains asked for first, after a backup elsewhere, and after a backup of other pairs, touch at ``value``."""
    pairs = np.array([1, 3, 8, 11])
    for before in (
        lambda operator: None,
        lambda operator: apply(operator, other),
        lambda operator: operator.backup(value, np.array([0, 3]), np.empty(12)),
    ):
        for operator in operators(np.random.default_rng(10)):
            before(operator)
            chain = operator.linearise(value, pairs)
            q = apply(operator, value)[pairs]
            np.testing.assert_allclose(chain.reward + 0.9 * chain.dense() @ value, q, atol=1e-9)


# -- options -------------------------------------------------------------------------------------------------


def test_options_are_keywords_in_one_object():
    rng = np.random.default_rng(11)
    mdp = random_mdp(rng, 5, 3, 0.9)
    model, posterior = small_uncertain(rng)
    problem = pr.BayesianRiskMDP(model, posterior, 0.6)
    for keywords in ({"tol": 1e-3}, {"method": "value_iteration", "tol": 1e-4}, {"sweeps": 4}, {"max_iterations": 50}):
        options = SolverOptions(**keywords)
        for call in (
            lambda **how: pr.solve(mdp, **how),
            lambda **how: pr.evaluate(mdp, [0, 1, 2, 1, 0], **how),
            lambda **how: problem.solve(**how),
            lambda **how: problem.evaluate([0, 1, 2, 1], draws=20, rng=1, **how),
        ):
            one, other = call(**keywords), call(options=options)
            np.testing.assert_array_equal(one.value, other.value)
            assert (one.iterations, one.message) == (other.iterations, other.message)
            with refused(ParameterError, "conflicting-arguments", argument="tol"):
                call(options=options, tol=1e-5)
    with refused(ParameterError, "conflicting-arguments", argument="sweeps"):
        pr.solve(mdp, options=SolverOptions(), sweeps=3)
    with refused(ParameterError, "wrong-type", argument="options", value=1e-8):
        pr.solve(mdp, options=1e-8)
    with pytest.raises(TypeError):
        pr.solve(mdp, tolerance=1e-8)
    for call in (lambda: pr.solve(mdp, terminal=[0.0]), lambda: pr.evaluate(mdp, [0, 1, 2, 1], terminal=[0.0])):
        with pytest.raises(TypeError) as caught:
            call()
        assert "'terminal_value'" in str(caught.value)  # the closest name there is
    assert set(SolverKeywords.__annotations__) | {"tol"} == {each.name for each in fields(SolverOptions)}


@pytest.mark.parametrize("draws", [None, 30])
def test_iterations_count_every_backup(monkeypatch, draws):
    """Also those of the first guess; the last backup, of all actions for q, is the only one that is not counted."""
    done = []
    plain = Threads._back_up
    monkeypatch.setattr(Threads, "_back_up", lambda self, *rest: (done.append(1), plain(self, *rest))[1])
    model, posterior = small_uncertain(np.random.default_rng(12))
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    rng = None if draws is None else 1
    solution = problem.solve(draws=draws, rng=rng)
    solution.q  # noqa: B018  # under exact risk worked out now
    assert solution.iterations == len(done) - 1
    assert f"after {solution.iterations} backups" in solution.message
    for cap in (1, 2, 3):  # the guess counts against the cap
        done.clear()
        with warned(ConvergenceWarning, "iteration-cap", iterations=cap):
            assert problem.solve(draws=draws, rng=rng, max_iterations=cap).iterations == cap
        assert len(done) == cap + (draws is not None)


# -- results and bad input -----------------------------------------------------------------------------------


def test_results_are_labelled():
    mdp = pr.MDP(
        [[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0, 1], [2, 0]], 0.5, states=["dry", "wet"], actions=["stay", "go"]
    )
    solution = pr.solve(mdp)
    assert solution.policy_names == ("go", "stay")
    data = solution.to_xarray()
    assert float(data.value.sel(state="wet")) == pytest.approx(4.0)
    assert data.policy.sel(state="dry").item() == "go"
    assert data.q.sel(state="dry", action="stay").item() == pytest.approx(1.5)
    assert "error bound" in repr(solution)
    by_name = pr.evaluate(mdp, ["stay", "stay"])
    np.testing.assert_array_equal(by_name.policy, [0, 0])


def test_bad_input_is_named():
    rng = np.random.default_rng(0)
    model, posterior = small_uncertain(rng)
    mdp = random_mdp(rng, 3, 2, 0.9)
    with refused(ParameterError, "not-positive", argument="tol"):
        pr.solve(mdp, tol=0)
    with refused(ParameterError, "unknown-option", argument="method", value="magic"):
        pr.solve(mdp, method="magic")
    with refused(ParameterError, "integer-range", argument="sweeps", value=0):
        pr.solve(mdp, sweeps=0)
    with refused(ParameterError, "wrong-shape", argument="initial_value"):
        pr.solve(mdp, initial_value=[0, 0])
    with refused(ModelError, "wrong-type", value="UncertainMDP"):
        pr.solve(model)
    with refused(ModelError, "wrong-type", argument="model"):
        pr.BayesianRiskMDP(mdp, posterior, 0.5)
    with refused(ParameterError, "alpha-range", argument="alpha"):
        pr.BayesianRiskMDP(model, posterior, 1)
    with refused(ParameterError, "missing-argument", argument="alpha"):
        pr.BayesianRiskMDP(model, posterior)
    with refused(ParameterError, "no-exact-form"):
        pr.BayesianRiskMDP(model, posterior, risk=pr.risk.ModifiedCVaR(0.5)).solve()
    with refused(PosteriorError, "wrong-shape", argument="posterior"):
        pr.BayesianRiskMDP(model, [[1, 1], [1, 1]], 0.5)
    with refused(PosteriorError, "wrong-shape", argument="reward_posterior"):
        pr.BayesianRiskMDP(model, posterior, 0.5, reward_posterior=pr.posteriors.BetaPosterior([1, 1], [1, 1]))
    with refused(ParameterError, "wrong-shape", argument="policy", value=2, expected=3):
        pr.evaluate(mdp, [0, 0])
    with refused(ParameterError, "index-range", argument="policy", index=(1,), value=2):
        pr.evaluate(mdp, [0, 2, 0])
    problem = pr.BayesianRiskMDP(model, posterior, 0.5)
    with refused(ParameterError, "integer-range", argument="draws", value=0):
        problem.solve(draws=0)
    with refused(PosteriorError, "wrong-shape", argument="draws"):
        problem.solve(draws=[[[1.0]]])
    wrong = posterior.sample(3, 0)
    wrong[2, 5] *= 1.1
    with refused(PosteriorError, "sum-not-one", argument="draws"):
        problem.solve(draws=wrong)


def test_a_count_for_an_outcome_the_model_lacks_is_named():
    model = pr.UncertainMDP([[0], [1]], [[[0, 1]], [[0, -1]]], [[1.0], [0.0]], 0.9)
    with refused(PosteriorError, "unknown-outcome"):
        pr.BayesianRiskMDP(model, [[1, 1], [1, 2]], 0.5)


# -- start-up ------------------------------------------------------------------------------------------------


def printed(code):
    """Run ``code`` in a fresh process and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_loads_nothing_heavy():
    heavy = ("numpy", "numba", "scipy", "xarray", "gymnasium", "matplotlib", "pandas")
    assert printed(f"import sys, prudent; print([name for name in {heavy} if name in sys.modules])") == "[]"


def test_later_processes_compile_nothing():
    code = (
        "import prudent as pr; from numba.core import event;"
        "model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9);"
        "listener = event.RecordingListener(); event.register('numba:compile', listener);"
        "pr.BayesianRiskMDP(model, [[8, 2], [1, 1], [5, 5], [9, 1]], 0.9).solve(); print(len(listener.buffer))"
    )
    printed(code)  # whoever comes first compiles
    assert printed(code) == "0"


def test_names_resolve_in_any_order():
    code = "import prudent as pr; pr.BayesianRiskMDP; pr.solve.__call__; [getattr(pr, n) for n in dir(pr)]; print(0)"
    assert printed(code) == "0"
    with pytest.raises(AttributeError):
        pr.nonsense  # noqa: B018


def test_nothing_warns_on_import():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = "import warnings; warnings.simplefilter('error'); import prudent as pr; pr.solve; print(0)"
        assert printed(code) == "0"
