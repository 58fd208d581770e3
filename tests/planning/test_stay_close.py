"""Staying close to a baseline, and excluded actions: against linear programs, enumeration and plain solves."""

import itertools

import numpy as np
import pytest
from refusals import refused
from scipy.optimize import linprog

import prudent as pr
from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
from prudent.errors import ParameterError, PosteriorError
from prudent.planning.stay_close import Allowed, best_mixtures


def random_problem(rng, alpha, S=4, A=3, most=12, discount=0.9):
    """Return a problem with uneven data, some pairs never seen, and its observations [S, A]."""
    model = UncertainMDP.direct(rng.normal(size=(S, A)), discount=discount)
    prior = np.full((S * A, S), 0.5)
    data = rng.multinomial(1, np.full(S, 1 / S), size=S * A) * rng.integers(0, most, size=(S * A, 1))
    data = data + rng.integers(0, 3, size=data.shape) * (rng.random((S * A, 1)) < 0.7)
    posterior = DirichletPosterior(prior + data, prior=prior)
    return BayesianRiskMDP(model, posterior, alpha), data.sum(axis=1).reshape(S, A).astype(float)


def one_step(problem, value):
    """Return Q [S, A] by the public functions of ``prudent.exact``, which the solver does not call."""
    model = problem.model
    y = np.broadcast_to(model.reward + model.discount * value[model.next_state], model.next_state.shape)
    return pr.exact.cvar_dirichlet(y, problem.posterior.counts[model.source], problem.alpha)


def best_by_program(q, b, price, budget):
    """Return the largest value of an allowed mixture, by a linear program over (pi, |pi - b|)."""
    A = q.size
    bound = np.isinf(price)
    finite = np.where(bound, 0.0, price)
    rows = [np.concatenate([np.zeros(A), finite])]
    sides = [budget]
    for sign in (1.0, -1.0):
        for a in range(A):
            row = np.zeros(2 * A)
            row[a], row[A + a] = sign, -1.0
            rows.append(row)
            sides.append(sign * b[a])
    whole = np.concatenate([np.ones(A), np.zeros(A)])[None]
    limits = [(b[a], b[a]) if bound[a] else (0, 1) for a in range(A)] + [(0, None)] * A
    found = linprog(np.concatenate([-q, np.zeros(A)]), np.array(rows), sides, whole, [1.0], bounds=limits)
    assert found.status == 0
    return -found.fun


def fixed_point(problem, b, price, budget, start):
    """Return the fixed point by value iteration with a linear program in every state."""
    value = start
    for _ in range(400):
        q = one_step(problem, value)
        after = np.array([best_by_program(*row, budget) for row in zip(q, b, price, strict=True)])
        if abs(after - value).max() < 1e-9:
            return after
        value = after
    raise AssertionError("no fixed point")


def prices(visits, min_visits=0.0, epsilon=np.inf):
    with np.errstate(divide="ignore"):
        price = 1.0 / np.sqrt(visits) if epsilon < np.inf else np.zeros(visits.shape)
    return np.where(visits >= min_visits, price, np.inf), 0.0 if epsilon == np.inf else epsilon


def test_mixtures_are_those_of_the_linear_program(rng):
    for _ in range(300):
        A = int(rng.integers(1, 7))
        q, b = rng.normal(size=A).round(int(rng.integers(0, 4))), rng.dirichlet(np.ones(A))
        b[rng.random(A) < 0.3] = 0.0
        b = b / b.sum() if b.sum() else np.eye(A)[0]
        price = rng.choice([0.0, 0.1, 0.5, 1.0, np.inf], size=A)
        budget = float(rng.choice([0.0, 0.05, 0.3, 1.0, 3.0]))
        value, policy, error = Allowed(b[None], price[None], budget).best(q[None])
        assert value[0] == pytest.approx(best_by_program(q, b, price, budget), abs=1e-8)
        assert error < 1e-12
        pi = policy[0]
        assert pi.min() >= 0
        assert pi.sum() == pytest.approx(1, abs=1e-14)
        np.testing.assert_array_equal(pi[np.isinf(price)], b[np.isinf(price)])
        moved = np.where(np.isinf(price), 0.0, price) @ abs(pi - b)
        assert moved <= budget + 1e-12
        assert pi @ q == pytest.approx(value[0], abs=1e-13)


def test_mixtures_take_large_and_small_numbers(rng):
    """The dual bound is part of the error: it must hold for numbers of any size."""
    for scale in (1e-200, 1e-9, 1e9, 1e200):
        q, b = scale * rng.normal(size=(50, 5)), rng.dirichlet(np.ones(5), 50)
        price = rng.choice([0.0, 1e-8, 1.0, 1e8], size=(50, 5))
        value, policy = np.empty(50), np.empty((50, 5))
        gap, size = best_mixtures(q, b, price, 0.3, value, policy)
        assert gap <= 1e-12 * size
        assert np.isfinite(value).all()
        assert (value >= (b * q).sum(axis=1) - 1e-12 * size).all()
        assert (value <= q.max(axis=1) + 1e-12 * size).all()


@pytest.mark.parametrize("alpha", [0.0, 0.7, -0.5])
@pytest.mark.parametrize("settings", [{"min_visits": 4}, {"epsilon": 0.3}, {"min_visits": 3, "epsilon": 0.2}])
def test_solutions_are_those_of_the_program(rng, alpha, settings):
    problem, visits = random_problem(rng, alpha, S=3, discount=0.7)
    b = rng.dirichlet(np.ones(3), 3)
    found = problem.solve(baseline=b, **settings)
    truth = fixed_point(problem, b, *prices(visits, **settings), found.value + 0.01)
    assert found.converged
    assert abs(found.value - truth).max() <= found.error_bound + 1e-7
    assert found.policy.shape == (3, 3)
    again = problem.evaluate(found)
    assert abs(again.value - found.value).max() <= again.error_bound + found.error_bound + 1e-12
    assert found.policy == pytest.approx(again.policy, abs=1e-15)


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_hard_constraint_is_the_best_of_all_allowed_policies(rng, alpha):
    """The best policy chooses one free action in each state: enumerate them."""
    for _ in range(4):
        problem, visits = random_problem(rng, alpha, S=3)
        b = rng.dirichlet(np.ones(3), 3)
        free = visits >= 3
        choices = [np.flatnonzero(row).tolist() or [None] for row in free]
        best = np.full(3, -np.inf)
        for chosen in itertools.product(*choices):
            pi = np.where(free, 0.0, b)
            for s, a in enumerate(chosen):
                if a is not None:
                    pi[s, a] += b[s, free[s]].sum()
            best = np.maximum(best, problem.evaluate(pi).value)
        found = problem.solve(baseline=b, min_visits=3)
        assert abs(found.value - best).max() <= 2 * found.error_bound + 1e-9


def test_bounds_are_never_false(rng):
    """Certificates at rough tolerances, against the same problem solved to ten digits more."""
    for i in range(40):
        alpha = float(rng.choice([-0.9, 0.0, 0.3, 0.9, 0.99]))
        problem, _ = random_problem(rng, alpha, S=6, A=4, discount=float(rng.choice([0.5, 0.9, 0.99])))
        b = rng.dirichlet(np.ones(4), 6)
        settings = [{"min_visits": 5}, {"epsilon": 0.2}, {"min_visits": 2, "epsilon": 0.5}][i % 3]
        sharp = problem.solve(baseline=b, **settings)
        for more in ({"tol": 0.1}, {"sweeps": 3}, {"tol": 1e-3, "method": "value_iteration"}):
            rough = problem.solve(baseline=b, **settings, **more)
            assert abs(rough.value - sharp.value).max() <= rough.error_bound + sharp.error_bound
        assert sharp.converged
        assert sharp.error_bound <= 1e-9 * abs(sharp.value).max()
        free, base = problem.solve(), problem.evaluate(b)
        assert (sharp.value <= free.value + 1e-8).all()
        assert (sharp.value >= base.value - 1e-8).all()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_no_constraint_is_the_plain_solve_and_infinite_is_the_baseline(rng, alpha):
    problem, _ = random_problem(rng, alpha, S=6)
    b = rng.dirichlet(np.ones(3), 6)
    plain, none = problem.solve(), problem.solve(baseline=b, min_visits=0)
    np.testing.assert_array_equal(plain.value, none.value)
    np.testing.assert_array_equal(plain.q, none.q)
    np.testing.assert_array_equal(plain.policy, none.chosen)
    assert plain.error_bound == none.error_bound
    assert none.policy.shape == (6, 3)
    base = problem.evaluate(b)
    for settings in ({"min_visits": np.inf}, {"epsilon": 0}):
        all_of_it = problem.solve(baseline=b, **settings)
        np.testing.assert_allclose(all_of_it.policy, b, atol=1e-15)
        assert abs(all_of_it.value - base.value).max() <= all_of_it.error_bound + base.error_bound
    everywhere = problem.solve(baseline=b, min_visits=1e-9, draws=30, rng=1)
    assert everywhere.policy.shape == (6, 3)


def test_policies_improve_with_what_is_allowed(rng):
    problem, _ = random_problem(rng, 0.5, S=8)
    values = [problem.solve(baseline="log", min_visits=n).value for n in (np.inf, 10, 5, 2, 1, 0)]
    assert all((later >= earlier - 1e-9).all() for earlier, later in itertools.pairwise(values))
    values = [problem.solve(baseline="log", epsilon=e).value for e in (0, 0.1, 0.5, 2, np.inf)]
    assert all((later >= earlier - 1e-9).all() for earlier, later in itertools.pairwise(values))


def test_what_was_never_seen_stays_as_it_is_in_the_soft_form(rng):
    problem, visits = random_problem(rng, 0.5, S=8)
    b = rng.dirichlet(np.ones(3), 8)
    for epsilon in (0.5, 1e9, np.inf):
        found = problem.solve(baseline=b, epsilon=epsilon)
        # Rows of the baseline are divided by their sums, which may move the last digit.
        np.testing.assert_allclose(found.policy[visits == 0], b[visits == 0], rtol=1e-14)
    np.testing.assert_allclose(found.value, problem.solve(baseline=b, min_visits=1e-9).value, atol=1e-8)


def test_draws_and_horizons_take_a_baseline(rng):
    problem, visits = random_problem(rng, 0.5, S=5)
    b = rng.dirichlet(np.ones(3), 5)
    drawn = problem.solve(draws=50, rng=3, baseline=b, min_visits=3)
    theta = problem.posterior.sample(50, 3)
    model = problem.model
    y = model.reward + 0.9 * drawn.value[model.next_state]
    q = pr.cvar(np.einsum("nsak,sak->nsa", theta[:, model.source], y), 0.5)
    value, _, _ = Allowed(b, *prices(visits, 3)).best(q)
    np.testing.assert_allclose(value, drawn.value, atol=1e-8)
    plan = problem.solve(horizon=3, baseline=b, min_visits=3)
    value = np.zeros(5)
    for step in (2, 1, 0):
        value, policy, _ = Allowed(b, *prices(visits, 3)).best(one_step(problem, value))
        np.testing.assert_allclose(plan.value[step], value, atol=1e-9)
        np.testing.assert_allclose(plan.policy[step], policy, atol=1e-12)
    assert problem.solve(horizon=3, baseline=b, min_visits=0).policy.shape == (3, 5, 3)


def test_constrained_solutions_print_explain_plot_and_convert(rng):
    log = [("ill", "wait", "ill", 0, 60), ("ill", "wait", "well", 1, 30), ("ill", "drug", "well", 1, 2)]
    log += [("weak", "wait", "ill", 0, 20), ("weak", "drug", "well", 1, 25), ("weak", "drug", "ill", 0, 5)]
    problem = BayesianRiskMDP(*pr.from_log(log, 0.95, terminal=["well"]), alpha=0.5)
    found = problem.solve(baseline="log", min_visits=5)
    assert found.policy_names[found.states.index("weak")] == {"drug": 1.0}
    ill = found.policy_names[found.states.index("ill")]
    assert set(ill) == {"drug", "wait"}
    assert 0.02 < ill["drug"] < 0.04
    table = found.to_pandas()
    assert table["probability"].between(0.9, 1).all()
    assert "Solution(" in repr(found)
    assert found.to_xarray().policy.dims == ("state", "action")
    assert '"probabilities"' in found.to_json()
    why = found.explain("ill")
    assert why.action == "wait"
    assert why.kept == {"drug": ill["drug"]}
    assert "baseline" in str(why)
    assert found.explain("weak").kept == {}
    found.plot()
    again = pr.posterior_returns(problem.model, problem.posterior, {"close": found}, start="ill", draws=20, rng=1)
    assert np.isfinite(again["mean"].values).all()


def test_the_policy_of_the_log_is_estimated_and_smoothed():
    log = [("a", "x", "b", 0, 6), ("a", "y", "b", 0, 2), ("b", "x", "a", 1, 3), ("b", "z", "a", 1, 1)]
    model, posterior = pr.from_log(log, 0.9)
    raw = pr.planning.log_policy(model, posterior, smoothing=0)
    np.testing.assert_allclose(raw, [[0.75, 0.25, 0], [0.75, 0, 0.25]])
    usual = np.array([9, 2, 1]) / 12
    smooth = pr.planning.log_policy(model, posterior, smoothing=4)
    for s, row in enumerate(([6, 2, 0], [3, 0, 1])):
        share = np.where(np.array(row) > 0, usual, 0)
        expected = np.array(row) + 4 * share / share.sum()
        np.testing.assert_allclose(smooth[s], expected / expected.sum())
    with refused(ParameterError, "negative", argument="smoothing"):
        pr.planning.log_policy(model, posterior, smoothing=-1)


def test_what_is_excluded_is_not_done(rng):
    problem, _ = random_problem(rng, 0.5, S=4)
    plain = problem.solve()
    best = plain.policy
    exclude = {s: int(best[s]) for s in range(4)}
    found = problem.solve(exclude=exclude)
    assert (found.policy != best).all()
    values = [
        problem.evaluate(list(policy)).value
        for policy in itertools.product(range(3), repeat=4)
        if all(a != best[s] for s, a in enumerate(policy))
    ]
    assert abs(found.value - np.max(values, axis=0)).max() < 1e-8
    assert (found.q[np.arange(4), best] == -np.inf).all()
    assert all(exclude[s] not in [view.action for view in found.explain(s).actions] for s in range(4))
    pairs = list(exclude.items())
    np.testing.assert_array_equal(problem.solve(exclude=pairs).value, found.value)
    known = problem.mean_mdp()
    assert (pr.solve(known, exclude=exclude).policy != best).all()
    nowhere = problem.solve(exclude={s: [0] for s in range(4)})  # an action that no state has left
    assert (nowhere.policy != 0).all()
    assert (problem.without(dict.fromkeys(range(4), 0)).mean_mdp().admissible[:, 0] == 0).all()
    assert (pr.solve(known, horizon=2, exclude=exclude).policy != best).all()


def test_excluded_actions_are_not_in_the_baseline(rng):
    problem, _ = random_problem(rng, 0.5)
    b = np.full((4, 3), 1 / 3)
    found = problem.solve(exclude={0: [1]}, baseline=b, min_visits=np.inf)
    np.testing.assert_allclose(found.policy[0], [0.5, 0, 0.5])
    with refused(ParameterError, "inadmissible-action", argument="baseline", state=0):
        problem.solve(exclude={0: [1]}, baseline=[1, 0, 0, 0], min_visits=2)


def test_wrong_constraints_are_refused(rng):
    problem, _ = random_problem(rng, 0.5)
    model, b = problem.model, np.full((4, 3), 1 / 3)
    with refused(ParameterError, "unknown-state", value=9):
        problem.solve(exclude={9: [0]})
    with refused(ParameterError, "unknown-action", value=7):
        problem.solve(exclude={0: [0, 7]})
    with refused(ParameterError, "no-action", argument="exclude", state=2):
        problem.solve(exclude={2: [0, 1, 2]})
    with refused(ParameterError, "wrong-type", argument="exclude"):
        problem.solve(exclude="drug")
    with refused(ParameterError, "wrong-type", argument="exclude"):
        problem.solve(exclude=[(0, 1, 2)])
    with refused(ParameterError, "missing-argument", argument="baseline"):
        problem.solve(min_visits=3)
    with refused(ParameterError, "missing-argument", argument="min_visits"):
        problem.solve(baseline=b)
    for name, value in (("min_visits", -1), ("epsilon", np.nan), ("min_visits", "many")):
        with refused(ParameterError, "negative", argument=name):
            problem.solve(baseline=b, **{name: value})
    with refused(ParameterError, "unknown-option", argument="baseline"):
        problem.solve(baseline="logs", min_visits=2)
    with refused(PosteriorError, "no-data", argument="baseline"):
        BayesianRiskMDP(model, problem.posterior.counts, 0.5).solve(baseline="log", min_visits=2)
    with refused(PosteriorError, "no-data", argument="baseline"):
        BayesianRiskMDP(model, problem.posterior.counts, 0.5).solve(baseline=b, min_visits=2)
    with refused(ParameterError, "no-data", argument="baseline"):
        pr.solve(problem.mean_mdp(), baseline=b, min_visits=2)
    with refused(ParameterError, "conflicting-arguments", argument="baseline"):
        problem.solve(baseline=b, min_visits=1e6, device="gpu")
    with refused(ParameterError, "conflicting-arguments", argument="client"):
        problem.solve(exclude={0: [0]}, client="nowhere")
    shared = UncertainMDP([[0, 0]], next_state=[[[0, 0], [0, 0]]], reward=[[[0, 1], [1, 0]]], discount=0.9)
    posterior = DirichletPosterior([[2.0, 3.0]], prior=[[1.0, 1.0]])
    with refused(PosteriorError, "shared-source", argument="baseline"):
        BayesianRiskMDP(shared, posterior, 0.5).solve(baseline="log", min_visits=1)
    with pytest.raises(TypeError):
        problem.evaluate(b, exclude={0: [1]})
