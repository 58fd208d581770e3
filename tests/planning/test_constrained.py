"""Bounds on a cost, against a linear program over occupation measures."""

import numpy as np
import pytest
from refusals import refused
from scipy.optimize import linprog

import prudent as pr
from prudent.errors import ModelError, ParameterError


def random_mdp(rng, S=5, A=3, discount=0.9):
    return pr.MDP(rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A)), discount)


def by_linear_program(mdp, cost, bound, start):
    """The best return, over occupations d(s, a) >= 0 with flow(d) = start and cost at most the bound."""
    S, A = mdp.admissible.shape
    flow = np.repeat(np.eye(S), A, axis=1) - mdp.discount * mdp.dense().reshape(S * A, S).T
    return linprog(-mdp.reward.ravel(), A_ub=[cost.ravel()], b_ub=[bound], A_eq=flow, b_eq=start, method="highs")


@pytest.mark.parametrize("discount", [0.5, 0.95])
def test_the_optimum_is_that_of_the_linear_program(rng, discount):
    for _ in range(10):
        mdp, cost = random_mdp(rng, discount=discount), rng.random((5, 3))
        start = rng.dirichlet(np.ones(5))
        free = pr.solve(mdp)
        dearest = float(start @ pr.evaluate(pr.MDP(mdp.transition, cost, discount), free).value)
        cheapest = -float(start @ pr.solve(pr.MDP(mdp.transition, -cost, discount)).value)
        bound = cheapest + rng.uniform(0.05, 1.2) * (dearest - cheapest)
        solution = pr.solve(mdp, costs={"stops": cost}, at_most={"stops": bound}, start=start, tol=1e-11)
        found, program = solution.constraint, by_linear_program(mdp, cost, bound, start)
        assert found.objective_value == pytest.approx(-program.fun, abs=1e-8)
        assert found.cost <= bound + 1e-9
        assert found.gap <= 1e-8
        assert found.multiplier == pytest.approx(max(0.0, -program.ineqlin.marginals[0]), abs=1e-6)
        # the stationary policy, and the mixture of the two, have the same return and the same cost
        costs = pr.MDP(mdp.transition, cost, discount)
        assert start @ pr.evaluate(mdp, solution).value == pytest.approx(found.objective_value, abs=1e-8)
        assert start @ pr.evaluate(costs, solution).value == pytest.approx(found.cost, abs=1e-8)
        mixed = sum(
            p * (start @ pr.evaluate(mdp, policy).value)
            for p, policy in zip(found.probabilities, found.policies, strict=True)
        )
        assert mixed == pytest.approx(found.objective_value, abs=1e-8)


def test_a_bound_that_does_not_bind_changes_nothing(rng):
    mdp = random_mdp(rng)
    solution = pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 100.0})
    assert solution.constraint.multiplier == 0.0
    np.testing.assert_array_equal(solution.policy, pr.solve(mdp).policy)
    np.testing.assert_allclose(solution.value, pr.solve(mdp).value, rtol=1e-9)


def test_a_process_that_ends_and_a_posterior_at_level_zero(rng):
    model = pr.UncertainMDP.direct(rng.random((4, 2)), 1.0, terminal=[3])
    problem = pr.BayesianRiskMDP(model, model.prior(), 0.0)
    cost = np.array([[0.0, 1.0]] * 4)
    free = pr.solve(problem.mean_mdp(), costs={"b": cost}, at_most={"b": 1e6}, start=0)
    bound = 0.5 * free.constraint.cost + 1e-3
    solution = problem.solve(costs={"b": cost}, at_most={"b": bound}, start=0)
    assert solution.constraint.cost <= bound + 1e-9
    assert solution.constraint.gap <= 1e-8


def test_what_cannot_be_kept_is_refused(rng):
    mdp = random_mdp(rng)
    with refused(ModelError, "infeasible", argument="at_most"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 1.0})
    with refused(ParameterError, "wrong-type", argument="at_most"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"y": 1.0})
    with refused(ParameterError, "too-many", argument="costs"):
        pr.solve(mdp, costs={"x": np.ones(5), "y": np.ones(5)}, at_most={"x": 1.0, "y": 1.0})
    careful = pr.BayesianRiskMDP(pr.UncertainMDP.direct(mdp.reward, 0.9), np.ones((15, 5)), 0.5)
    with refused(ParameterError, "conflicting-arguments", argument="costs"):
        careful.solve(costs={"x": np.ones(5)}, at_most={"x": 1.0})
    with refused(ParameterError, "conflicting-arguments", argument="horizon"):
        pr.solve(mdp, costs={"x": np.ones(5)}, at_most={"x": 1.0}, horizon=3)
