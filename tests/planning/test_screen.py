"""The screen of the exact operator: the same certificate from fewer evaluations, and q when it is read."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent._numerics.dirichlet_moments import (
    moments_of_row,
    rough_quantile,
    rough_tail,
    rough_tail_means,
    shape_of,
)
from prudent.planning.base import DeferredQ
from prudent.planning.execute.threads import Threads
from prudent.planning.fixed_point import solve_operator
from prudent.planning.options import SolverOptions
from prudent.planning.row_risks import DirichletRows

END = -2


def random_problem(rng, *, outcomes=16, lowest=0.5, highest=1e6, alphas=(0.5, 0.9, 0.99), odd=False):
    """A problem of any size and scale; an odd one has ends, ties, ragged rows, shared sources, inadmissible actions."""
    n_states, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    shape = (n_states, n_actions, outcomes)
    next_state = rng.integers(0, n_states, shape)
    reward = rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 3)
    source = np.arange(n_states * n_actions).reshape(n_states, n_actions)
    counts = np.exp(rng.uniform(np.log(lowest), np.log(highest), (source.size, outcomes)))
    keywords = {}
    if odd:
        next_state[rng.random(shape) < 0.1] = END
        if n_actions > 1:  # a twin of the first action, and one that is always worth the same
            next_state[:, -1], reward[:, -1], source[:, -1] = next_state[:, 0], reward[:, 0], source[:, 0]
        if n_actions > 2:
            next_state[:, 1], reward[:, 1] = next_state[:, 1, :1], reward[:, 1, :1]
        absent = rng.random(counts.shape) < 0.3
        absent[:, 0] = False
        counts[absent | (rng.random(counts.shape) < 0.1)] = 0.0  # no such outcome; one that has no count
        counts[:, 0] += 0.5
        next_state[absent[source]] = -1
        banned = rng.random((n_states, n_actions)) < 0.2
        banned[np.arange(n_states), rng.integers(n_actions, size=n_states)] = False
        banned[0] = False
        if n_states > 2:
            keywords["terminal"] = [int(rng.integers(1, n_states))]
            banned[keywords["terminal"]] = True
        source[banned] = -1
        used, source[~banned] = np.unique(source[~banned], return_inverse=True)
        counts = counts[used]
    discount = float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999]))
    model = pr.UncertainMDP(source, next_state, reward, discount, **keywords)
    return pr.BayesianRiskMDP(model, counts, float(rng.choice(alphas)))


def unscreened(problem):
    """The same problem from the values at the posterior mean, with every action evaluated in every backup."""
    operator = Threads(DirichletRows(problem.model, problem.posterior.counts, problem.alpha, screens=False))
    mean = pr.solve(problem.mean_mdp()).value
    return solve_operator(operator, problem.model, None, SolverOptions(), initial_value=mean)


def agree(problem):
    ours, plain = problem.solve(threads=1), unscreened(problem)
    assert ours.converged or ours.error_bound <= 10.0 * plain.error_bound  # both may meet the floor of rounding
    close = ours.error_bound + plain.error_bound
    assert np.abs(ours.value - plain.value).max() <= close
    finite = np.isfinite(plain.q)
    np.testing.assert_array_equal(np.isfinite(ours.q), finite)
    assert np.abs(ours.q[finite] - plain.q[finite]).max() <= 2.0 * close
    # and no other action is better than the one chosen
    chosen = ours.q[np.arange(ours.value.size), ours.policy]
    assert (chosen >= ours.q.max(axis=1) - close).all()
    np.testing.assert_allclose(chosen, ours.value, rtol=0.0, atol=close)


# -- solves --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::prudent.errors.ConvergenceWarning")  # of models with few digits
@pytest.mark.parametrize("odd", [False, True])
def test_screened_and_unscreened_solves_agree_to_the_certificate(odd):
    rng = np.random.default_rng(31)
    for _ in range(25):
        agree(random_problem(rng, odd=odd))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::prudent.errors.ConvergenceWarning")  # of models with few digits
@pytest.mark.parametrize("odd", [False, True])
def test_screened_and_unscreened_solves_agree_on_a_thousand_models(odd):
    rng = np.random.default_rng(32)
    for _ in range(1000):
        agree(random_problem(rng, odd=odd))


@pytest.mark.parametrize(
    ("lowest", "highest", "alpha"),
    [(1e-3, 1.0, 0.9), (0.5, 50.0, 0.9999), (0.5, 50.0, 1e-6), (0.5, 50.0, 1e-17), (1e-3, 1e9, 0.999)],
)
def test_so_they_do_with_extreme_counts_and_levels(lowest, highest, alpha):
    rng = np.random.default_rng(33)
    for odd in (False, True) * 3:
        agree(random_problem(rng, outcomes=4, lowest=lowest, highest=highest, alphas=(alpha,), odd=odd))


def test_large_models_are_screened_in_the_same_way_on_any_number_of_threads():
    model = pr.envs.random_model(400, 6, branching=4, rng=5).model
    problem = pr.BayesianRiskMDP(model, 0.5 + np.random.default_rng(6).poisson(2.0, model.outcome_mask.shape), 0.9)
    one, two = (problem.solve(threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.value, two.value)
    np.testing.assert_array_equal(one.q, two.q)
    plain = unscreened(problem)
    assert np.abs(one.value - plain.value).max() <= one.error_bound + plain.error_bound


def test_identical_actions_are_a_tie_that_the_first_one_wins():
    rng = np.random.default_rng(34)
    next_state = np.repeat(rng.integers(0, 5, (5, 1, 4)), 3, axis=1)
    source = np.repeat(np.arange(5)[:, None], 3, axis=1)
    model = pr.UncertainMDP(source, next_state, np.repeat(rng.random((5, 1, 4)), 3, axis=1), 0.9)
    solution = pr.BayesianRiskMDP(model, rng.uniform(0.5, 9.0, (5, 4)), 0.9).solve()
    assert solution.policy.tolist() == [0] * 5
    np.testing.assert_array_equal(solution.q, solution.q[:, [0]].repeat(3, axis=1))
    table = solution.to_pandas()
    assert (table["gap"] == 0.0).all()


# -- one backup ----------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=4), st.booleans())
@settings(max_examples=40)
def test_only_the_greatest_of_a_state_is_q_and_the_others_bound_theirs(seed, steps, odd):
    """Whatever the course of V, up or down: bounds from earlier backups hold as well."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, outcomes=4, lowest=0.1, highest=100.0, odd=odd)
    model, counts = problem.model, problem.posterior.counts
    screened, plain = (
        Threads(DirichletRows(model, counts, problem.alpha, screens=screens)) for screens in (True, False)
    )
    pairs = np.flatnonzero(model.admissible)
    value = rng.normal(size=model.n_states)
    for step in steps:
        value = value + step * rng.normal(1.0, 0.1, model.n_states)
        some, q = (np.full(model.admissible.shape, -np.inf) for _ in range(2))
        errors = screened.back_up_best(value, pairs, some.reshape(-1)) + plain.backup(value, pairs, q.reshape(-1))
        np.testing.assert_allclose(some.max(axis=1), q.max(axis=1), rtol=0.0, atol=errors)
        assert (some >= q - errors).all()
        # the greatest can be linearised: its tail means are at hand, and give Q
        best = np.arange(model.n_states) * model.n_actions + some.argmax(axis=1)
        chain = screened.linearise(value, best)
        ahead = chain.reward + model.discount * np.add.reduceat(chain.data * value[chain.indices], chain.indptr[:-1])
        size = np.abs(model.entries.reward).max() + np.abs(value).max()
        np.testing.assert_allclose(ahead, some.max(axis=1), rtol=0.0, atol=errors + 1e-12 * size)


def test_few_actions_are_evaluated():
    """Half the actions earn far less: none of them is looked at. At values that hardly change, one action is enough."""
    rng = np.random.default_rng(35)
    reward = rng.random((30, 10)) - 50.0 * (np.arange(10) >= 5)
    model = pr.UncertainMDP(np.arange(300).reshape(30, 10), rng.integers(0, 30, (30, 10, 4)), reward, 0.9)
    operator = Threads(DirichletRows(model, rng.uniform(0.5, 3.0, (300, 4)), 0.9))
    q = np.empty((30, 10))
    value = rng.random(30)
    operator.back_up_best(value, np.arange(300), q.reshape(-1))
    done = operator.rows.memory.has_means.reshape(30, 10)
    assert not done[:, 5:].any()
    assert done.any(axis=1).all()
    second = np.partition(q, -2, axis=1)[:, -2]
    clear = q.max(axis=1) - second > 1e-3
    assert clear.sum() > 20
    operator.back_up_best(value + 1e-6 * rng.random(30), np.arange(300), q.reshape(-1))
    assert (operator.rows.memory.has_means.reshape(30, 10).sum(axis=1)[clear] == 1).all()


# -- q when it is read ---------------------------------------------------------------------------------------


def small():
    rng = np.random.default_rng(36)
    model = pr.UncertainMDP.direct(rng.random((5, 4)), discount=0.9, actions=["a", "b", "c", "d"])
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(rng.uniform(0.5, 9.0, (20, 5))), 0.9)


def waits(solution):
    return "q" not in vars(solution) and isinstance(solution.q_source, DeferredQ)


def test_q_is_worked_out_when_it_is_read_and_is_that_of_the_solution():
    problem = small()
    solution = problem.solve()
    repr(solution), solution.policy_names, solution.value
    assert json.loads(solution.to_json())["actions"] == ["a", "b", "c", "d"]
    assert waits(solution)
    ahead = solution.q_source
    q = solution.q
    assert not waits(solution)
    assert solution.q is q
    plain = Threads(DirichletRows(problem.model, problem.posterior.counts, 0.9, screens=False))
    expected = np.empty((5, 4))
    error = plain.backup(ahead.value, np.arange(20), expected.reshape(-1))
    np.testing.assert_allclose(q, expected + ahead.shift, rtol=0.0, atol=error + ahead.accuracy + 1e-14 * abs(q).max())
    np.testing.assert_allclose(q.max(axis=1), solution.value, rtol=0.0, atol=2.0 * solution.error_bound)
    np.testing.assert_array_equal(q.argmax(axis=1), solution.policy)


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), replace])
def test_copies_and_pickles_have_the_same_q(twin):
    solution = small().solve()
    other = twin(solution)
    assert waits(other)
    np.testing.assert_array_equal(other.q, small().solve().q)
    np.testing.assert_array_equal(twin(other).q, solution.q)


def test_a_posterior_that_learns_does_not_change_what_is_read_later():
    problem = small()
    early, late = problem.solve(), problem.solve()
    q = early.q
    problem.posterior.update(0, 1, 100)
    np.testing.assert_array_equal(late.q, q)
    assert not np.array_equal(problem.solve().q, q)


def test_terminal_states_and_inadmissible_actions_have_their_q():
    model = pr.UncertainMDP(
        [[0, 1], [-1, 2], [-1, -1]],
        [[[1, 2], [0, 1]], [[0, 2], [1, 2]], [[2, 2], [2, 2]]],
        [[1.0, 0.5], [0.0, 0.0], [0.0, 0.0]],
        0.9,
        terminal={2: 7.0},
    )
    problem = pr.BayesianRiskMDP(model, np.full((3, 2), 2.0), 0.9)
    solution = problem.solve()
    assert solution.q[1, 0] == -np.inf
    assert np.isfinite(solution.q[0]).all()
    assert solution.value[2] == solution.q[2].max() == 7.0


def test_some_of_q_can_be_had_without_the_rest():
    """One action of each state, or the best but one: the very numbers that q has."""
    rng = np.random.default_rng(39)
    for odd in (False, True) * 5:
        problem = random_problem(rng, outcomes=4, lowest=0.5, highest=50.0, odd=odd)
        solution, whole = problem.solve(threads=1), problem.solve(threads=1)
        whole.q  # noqa: B018  # worked out now
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in problem.model.admissible])
        np.testing.assert_array_equal(solution.q_of(actions), whole.q[np.arange(actions.size), actions])
        (second, gap), (expected, width) = solution.runners_up(), whole.runners_up()
        assert waits(solution)
        np.testing.assert_array_equal(second[np.isfinite(gap)], expected[np.isfinite(gap)])
        np.testing.assert_array_equal(gap, width)
        other = solution.with_policy(actions)
        assert waits(other)
        np.testing.assert_array_equal(other.policy, actions)
        np.testing.assert_array_equal(other.q, whole.q)
    with refused(pr.errors.ParameterError, "index-range", argument="actions", index=(0,)):
        solution.q_of(np.full(solution.value.size, 99))


def test_a_policy_is_evaluated_at_once_and_its_table_has_runners_up():
    problem = small()
    best = problem.solve()
    evaluated = problem.evaluate(best.policy)
    assert not waits(evaluated)
    np.testing.assert_array_equal(evaluated.to_pandas()["runner_up"], best.to_pandas()["runner_up"])
    np.testing.assert_allclose(evaluated.to_pandas()["gap"], best.to_pandas()["gap"], rtol=1e-6)


# -- moments -------------------------------------------------------------------------------------------------


rows = st.integers(1, 8).flatmap(
    lambda k: st.tuples(
        st.lists(st.floats(-1e3, 1e3), min_size=k, max_size=k),
        st.lists(st.floats(0.01, 1e4), min_size=k, max_size=k),
    )
)


@given(rows, st.sampled_from([0.01, 0.5, 0.9, 0.9999]))
@settings(max_examples=60)
def test_moments_are_those_of_the_dirichlet_and_the_approximation_keeps_its_bounds(row, alpha):
    values, counts = (np.array(x) for x in row)
    low, mean, sd, skew, total = moments_of_row(values, counts)
    assert total == pytest.approx(counts.sum())
    size = max(np.abs(values).max(), 1e-300)
    d = (values - counts @ values / total) / size
    second, third = ((counts * d**n).sum() / total for n in (2, 3))
    assert low == values.min()
    assert mean == pytest.approx(counts @ values / total, abs=1e-12 * size)
    assert sd / size == pytest.approx(np.sqrt(second / (total + 1.0)), abs=1e-7)
    if np.ptp(values) > 1e-3 * size:
        cube = 2.0 * third / ((total + 1.0) * (total + 2.0))
        assert skew * (sd / size) ** 3 == pytest.approx(cube, rel=1e-6, abs=1e-9)
    shape = shape_of(alpha)
    about = rough_tail(low, mean, sd, skew, shape)
    assert low <= about <= max(mean, low)
    weights = np.full(values.size, np.nan)
    rough_tail_means(values, counts, shape, weights)
    assert (weights >= -1e-12).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights @ values == pytest.approx(about, abs=1e-9 * size)


def test_the_approximation_is_close_where_there_is_data():
    rng = np.random.default_rng(37)
    for alpha in (0.1, 0.5, 0.9, 0.99):
        shape = shape_of(alpha)
        for _ in range(20):
            values, counts = rng.normal(size=6), rng.uniform(3.0, 50.0, 6)
            low, mean, sd, skew, total = moments_of_row(values, counts)
            tail = pr.exact.dirichlet_tail(values, counts, alpha)
            assert abs(rough_tail(low, mean, sd, skew, shape) - float(tail.cvar)) < 0.05 * sd
            quantile = mean + sd * rough_quantile(skew, total, shape)
            assert abs(quantile - float(tail.quantile)) < 0.1 * sd


def test_the_approximate_operator_has_the_gradient_that_it_says():
    problem = small()
    operator = Threads(DirichletRows(problem.model, problem.posterior.counts, 0.5)).approximation()
    value, pairs = np.random.default_rng(38).normal(size=5), np.arange(0, 20, 4)
    chain = operator.linearise(value, pairs)

    def ahead(value):
        q = np.empty(20)
        operator.backup(value, pairs, q)
        return q[pairs]

    ascent = np.stack([(ahead(value + h) - ahead(value - h)) / 2e-6 for h in 1e-6 * np.eye(5)], axis=1)
    np.testing.assert_allclose(0.9 * chain.dense(), ascent, atol=1e-8)
    np.testing.assert_allclose(chain.reward + 0.9 * chain.dense() @ value, ahead(value), atol=1e-12)


MEASURES = [
    pr.CVaR(-0.9),
    pr.CVaR(-0.2),
    pr.VaR(0.9),
    pr.VaR(0.3),
    pr.VaR(-0.8),
    pr.MeanCVaR(0.9, weight=0.3),
    pr.risk.Mixture((-0.7, 0.0, 0.5, 0.95), (0.2, 0.1, 0.4, 0.3)),
    pr.risk.WorstCase(),
]


@pytest.mark.parametrize("risk", MEASURES, ids=repr)
def test_the_screen_changes_no_measure(risk):
    """Other measures than CVaR lie above the mean at times: screened backups against backups of every pair."""
    form = risk.exact_form()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n_states, n_actions, n_outcomes = 12, 4, 5
        model = pr.UncertainMDP(
            np.arange(n_states * n_actions).reshape(n_states, n_actions),
            rng.integers(0, n_states, (n_states, n_actions, n_outcomes)),
            rng.normal(size=(n_states, n_actions, n_outcomes)),
            discount=0.9,
        )
        counts = np.exp(rng.uniform(np.log(0.3), np.log(100.0), (n_states * n_actions, n_outcomes)))
        screened, plain = (Threads(DirichletRows(model, counts, form, screens=screens)) for screens in (True, False))
        pairs = np.arange(n_states * n_actions)
        value = np.zeros(n_states)
        for _ in range(4):
            q, every = np.full((n_states, n_actions), -np.inf), np.full((n_states, n_actions), -np.inf)
            error = screened.back_up_best(value, pairs, q.reshape(-1)) + plain.backup(value, pairs, every.reshape(-1))
            assert abs(q.max(axis=1) - every.max(axis=1)).max() <= error
            assert (q >= every - error).all()  # Q itself or a bound above it
            value = every.max(axis=1) + rng.normal(scale=0.3, size=n_states)
