"""Bounds on costs, against linear programs over occupation measures, and over all policies of tiny models."""

from itertools import product

import numpy as np
import pytest
from refusals import refused
from scipy.optimize import linprog

import prudent as pr
from prudent.errors import ModelError, ParameterError
from prudent.planning import AtMost


def random_mdp(rng, S=5, A=3, discount=0.9):
    return pr.MDP(rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A)), discount)


def by_linear_program(mdp, costs, bounds, start):
    """The best return, over occupations d(s, a) >= 0 with flow(d) = start and costs at most their bounds."""
    S, A = mdp.admissible.shape
    flow = np.repeat(np.eye(S), A, axis=1) - mdp.discount * mdp.dense().reshape(S * A, S).T
    rows = [cost.ravel() for cost in costs]
    precise = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(-mdp.reward.ravel(), A_ub=rows, b_ub=bounds, A_eq=flow, b_eq=start, method="highs", options=precise)


def expected(mdp, reward, start, policy):
    return float(start @ pr.evaluate(pr.MDP(mdp.transition, reward, mdp.discount), policy).value)


@pytest.mark.parametrize(("discount", "number"), [(0.5, 1), (0.95, 1), (0.8, 2), (0.9, 3)])
def test_the_optimum_is_that_of_the_linear_program(rng, discount, number):
    for _ in range(5):
        mdp, start = random_mdp(rng, discount=discount), rng.dirichlet(np.ones(5))
        costs = {f"cost {j}": rng.random((5, 3)) for j in range(number)}
        # bounds that some random policy keeps, just or easily
        keeps, bounds = rng.dirichlet(np.full(3, 0.3), 5), {}
        for name, cost in costs.items():
            bounds[name] = expected(mdp, cost, start, keeps) * rng.uniform(1.0, 1.05)
        solution = pr.solve(mdp, costs=costs, at_most=bounds, start=start, tol=1e-11)
        found, program = solution.constraint, by_linear_program(mdp, costs.values(), list(bounds.values()), start)
        assert found.objective_value == pytest.approx(-program.fun, abs=1e-8)
        assert found.gap <= 1e-8
        assert len(found.policies) <= number + 1
        marginals = np.maximum(0.0, -program.ineqlin.marginals)
        np.testing.assert_allclose(list(found.multiplier.values()), marginals, atol=1e-6)
        assert expected(mdp, mdp.reward, start, solution) == pytest.approx(found.objective_value, abs=1e-8)
        for name, cost in costs.items():
            assert found.cost[name] <= bounds[name] + 1e-9
            if found.multiplier[name] > 1e-6:
                assert found.cost[name] == pytest.approx(bounds[name], abs=1e-9)
            # the stationary policy, and the mixture, have the same return and the same costs
            assert expected(mdp, cost, start, solution) == pytest.approx(found.cost[name], abs=1e-8)
            parts = zip(found.probabilities, found.policies, strict=True)
            mixed = sum(p * expected(mdp, cost, start, policy) for p, policy in parts)
            assert mixed == pytest.approx(found.cost[name], abs=1e-8)


def best_mixture(model, theta, cost, bound, alpha, start):
    """The best mixture of all policies of a tiny model whose CVaR over draws keeps a bound, by a linear program."""
    policies = list(product(*(range(model.n_actions) for _ in range(model.n_states))))
    earns, costs = np.empty((len(policies), len(theta))), np.empty((len(policies), len(theta)))
    for i, one in enumerate(theta):
        mdp = model.mdp(one)
        for k, policy in enumerate(policies):
            earns[k, i] = expected(mdp, mdp.reward, start, policy)
            costs[k, i] = expected(mdp, cost, start, policy)
    K, N = costs.shape
    bounded = np.concatenate([np.zeros(K), [1.0], np.full(N, 1.0 / (N * (1.0 - alpha)))])
    over = np.hstack([costs.T, -np.ones((N, 1)), -np.eye(N)])
    program = linprog(
        np.concatenate([-earns.mean(axis=1), np.zeros(1 + N)]),
        A_ub=np.vstack([bounded, over]),
        b_ub=np.concatenate([[bound], np.zeros(N)]),
        A_eq=[np.concatenate([np.ones(K), np.zeros(1 + N)])],
        b_eq=[1.0],
        bounds=[(0, None)] * K + [(None, None)] + [(0, None)] * N,
        method="highs",
    )
    tails = [-pr.CVaR(alpha)(-row) for row in costs]
    return -program.fun if program.status == 0 else -np.inf, tails


def test_the_cvar_of_a_cost_over_the_posterior(rng):
    model = pr.UncertainMDP.direct(rng.random((3, 2)), 0.8)
    posterior = pr.DirichletPosterior(rng.integers(1, 6, (6, 3)))
    problem, cost, start = pr.BayesianRiskMDP(model, posterior, 0.0), rng.random((3, 2)), np.array([1.0, 0.0, 0.0])
    theta = posterior.sample(12, rng)
    _, tails = best_mixture(model, theta, cost, 0.0, 0.75, start)
    bound = min(tails) + 0.4 * (max(tails) - min(tails))
    best, _ = best_mixture(model, theta, cost, bound, 0.75, start)
    solution = problem.solve(
        costs={"stops": cost}, at_most={"stops": AtMost(bound, pr.CVaR(0.75))}, start=0, draws=theta
    )
    found = solution.constraint
    assert found.draws == 12
    assert found.cost["stops"] <= bound + 1e-8
    assert found.objective_value <= best + 1e-7
    assert found.upper_bound >= best - 1e-7
    assert found.objective_value >= best - 0.05 * found.gap - 1e-5  # a local search: nearly always the best
    # what is said of the mixture is so, and the stationary policy keeps the bound too
    costs = np.zeros(12)
    for share, policy in zip(found.probabilities, found.policies, strict=True):
        costs += [share * expected(model.mdp(one), cost, start, policy) for one in theta]
    assert -pr.CVaR(0.75)(-costs) == pytest.approx(found.cost["stops"], abs=1e-9)
    own = np.array([expected(model.mdp(one), cost, start, solution) for one in theta])
    assert -pr.CVaR(0.75)(-own) <= bound + 1e-8


def test_a_posterior_that_knows_gives_the_optimum_of_the_model(rng):
    mdp = random_mdp(rng, S=4, A=2)
    model, start = pr.UncertainMDP.direct(mdp.reward, 0.9), rng.dirichlet(np.ones(4))
    draws, cost = np.repeat(mdp.dense().reshape(1, 8, 4), 5, axis=0), rng.random((4, 2))
    low = -expected(mdp, -cost, start, pr.solve(pr.MDP(mdp.transition, -cost, 0.9)))
    bound = low + 0.5 * (expected(mdp, cost, start, pr.solve(mdp)) - low) + 1e-3
    sure = pr.BayesianRiskMDP(model, draws=draws, alpha=0.0)
    found = sure.solve(costs={"x": cost}, at_most={"x": AtMost(bound, pr.CVaR(0.9))}, start=start).constraint
    known = pr.solve(mdp, costs={"x": cost}, at_most={"x": bound}, start=start).constraint
    assert found.objective_value == pytest.approx(known.objective_value, abs=1e-7)
    assert -1e-9 <= found.gap <= 1e-7  # knowing the model is worth nothing here


def test_a_bound_that_does_not_bind_changes_nothing(rng):
    mdp = random_mdp(rng)
    solution = pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 100.0})
    assert solution.constraint.multiplier == {"x": 0.0}
    np.testing.assert_array_equal(solution.policy, pr.solve(mdp).policy)
    np.testing.assert_allclose(solution.value, pr.solve(mdp).value, rtol=1e-9)


def test_a_process_that_ends_and_a_posterior_at_level_zero(rng):
    model = pr.UncertainMDP.direct(rng.random((4, 2)), 1.0, terminal=[3])
    problem = pr.BayesianRiskMDP(model, model.prior(), 0.0)
    cost = np.array([[0.0, 1.0]] * 4)
    free = pr.solve(problem.mean_mdp(), costs={"b": cost}, at_most={"b": 1e6}, start=0)
    bound = 0.5 * free.constraint.cost["b"] + 1e-3
    solution = problem.solve(costs={"b": cost}, at_most={"b": bound}, start=0)
    assert solution.constraint.cost["b"] <= bound + 1e-9
    assert solution.constraint.gap <= 1e-8


def test_what_cannot_be_kept_is_refused(rng):
    mdp = random_mdp(rng)
    with refused(ModelError, "infeasible", argument="at_most"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 1.0})
    with refused(ParameterError, "wrong-type", argument="at_most") as caught:
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"y": 1.0})
    assert "'x'" in str(caught.value)
    assert "'y'" in str(caught.value)
    with refused(ModelError, "infeasible", argument="at_most"):
        pr.solve(mdp, costs={"x": np.ones(5), "y": -np.ones(5)}, at_most={"x": 11.0, "y": -11.0})
    with refused(ParameterError, "conflicting-arguments", argument="at_most"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": AtMost(1.0, pr.CVaR(0.5))})
    with refused(ParameterError, "wrong-type", argument="risk"):
        AtMost(1.0, pr.CVaR(-0.5))
    careful = pr.BayesianRiskMDP(pr.UncertainMDP.direct(mdp.reward, 0.9), np.ones((15, 5)), 0.5)
    with refused(ParameterError, "conflicting-arguments", argument="costs"):
        careful.solve(costs={"x": np.ones(5)}, at_most={"x": 1.0})
    with refused(ParameterError, "conflicting-arguments", argument="horizon"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 1.0}, horizon=3)
