"""Policies that choose at random, and problems that have only draws, against NumPy."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from scipy import stats

import prudent as pr
from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
from prudent.errors import ModelError, ParameterError, PosteriorError


def random_problem(seed, S=5, A=3):
    problem = pr.envs.random_model(S, A, branching=3, rng=seed, discount=0.9)
    pi = np.random.default_rng(seed).dirichlet(np.ones(A), S)
    pi[0] = np.eye(A)[1]
    return problem, pi


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["newton", "value_iteration"])
def test_known_values_are_those_of_the_linear_system(seed, method):
    problem, pi = random_problem(seed)
    mdp = problem.mdp()
    P, r = np.einsum("sa,sat->st", pi, mdp.dense()), (pi * mdp.reward).sum(axis=1)
    found = pr.evaluate(mdp, pi, method=method)
    truth = np.linalg.solve(np.eye(5) - 0.9 * P, r)
    assert abs(found.value - truth).max() <= found.error_bound + 1e-13
    assert found.converged
    np.testing.assert_array_equal(found.policy.shape, (5, 3))
    np.testing.assert_allclose((pi * np.where(pi > 0, found.q, 0.0)).sum(axis=1), found.value, atol=1e-8)
    assert found.policy_names[0] == {1: 1.0}
    assert found.to_xarray().policy.dims == ("state", "action")


@pytest.mark.parametrize("draws", [None, 40])
def test_risk_is_taken_for_each_pair(draws):
    problem, pi = random_problem(7)
    model = problem.model
    counts = 1.0 + 5.0 * problem.theta
    risky = BayesianRiskMDP(model, counts, alpha=0.8)
    rng = None if draws is None else 1
    found = risky.evaluate(pi, draws, rng, tol=1e-11)
    y = model.reward + 0.9 * found.value[model.next_state]
    if draws is None:
        q = pr.exact.cvar_dirichlet(y, counts[model.source], 0.8)
    else:
        theta = DirichletPosterior(counts).sample(draws, 1)
        q = pr.cvar(np.einsum("nsak,sak->nsa", theta[:, model.source], y), 0.8)
    np.testing.assert_allclose((pi * q).sum(axis=1), found.value, atol=1e-9)
    certain = np.eye(3)[[2, 0, 1, 1, 0]]
    mixed, plain = risky.evaluate(certain, draws, rng), risky.evaluate([2, 0, 1, 1, 0], draws, rng)
    assert abs(mixed.value - plain.value).max() <= mixed.error_bound + plain.error_bound
    assert plain.policy.ndim == 1


def test_large_models_mix_their_rows():
    problem = pr.envs.random_model(320, 2, branching=3, rng=0)
    pi = np.random.default_rng(0).dirichlet([1.0, 1.0], 320)
    mdp = problem.mdp()
    P, r = np.einsum("sa,sat->st", pi, mdp.dense()), (pi * mdp.reward).sum(axis=1)
    found = pr.evaluate(mdp, pi)
    assert abs(found.value - np.linalg.solve(np.eye(320) - 0.9 * P, r)).max() <= found.error_bound + 1e-12


def named():
    source, targets = [[0, 1], [0, -1], [-1, -1]], [[[0, 1, 2]] * 2] * 3
    names = {"states": ["a", "b", "end"], "actions": ["stay", "go"]}
    return UncertainMDP(source, targets, [[1.0, 0.0]] * 3, 0.9, terminal={"end": 2.0}, **names)


def test_policies_are_read_by_name():
    model = named()
    matrix = [[0.25, 0.75], [1.0, 0.0], [1.0, 0.0]]
    by_name = {"b": {"stay": 1.0}, "a": {"go": 0.75, "stay": 0.25}}
    frame = pd.DataFrame([[0.75, 0.25], [0.0, 1.0]], index=["a", "b"], columns=["go", "stay"])
    for policy in (by_name, by_name | {"end": {}}, frame, matrix, np.array(matrix), [[0.25, 0.75], [1, 0], [7, 7]]):
        np.testing.assert_array_equal(model.policy_matrix(policy), matrix)
    np.testing.assert_array_equal(model.policy_matrix(["go", "stay", None]), [[0, 1], [1, 0], [1, 0]])
    solution = BayesianRiskMDP(model, model.prior(), 0.5).solve()
    assert solution.policy_names[2] is None
    again = BayesianRiskMDP(model, model.prior(), 0.5).evaluate(solution.policy_names)
    np.testing.assert_allclose(again.value, solution.value, atol=1e-8)
    for bad in (
        {"a": {"stay": 1.0}},
        by_name | {"c": {}},
        by_name | {"b": {"run": 1.0}},
        by_name | {"b": {"go": 1.0}},
        by_name | {"b": {"stay": 0.5}},
        by_name | {"b": {"stay": np.nan}},
        [[0.5, 0.5]],
        [[1.5, -0.5], [1, 0], [1, 0]],
    ):
        with pytest.raises(ParameterError):
            model.policy_matrix(bad)


def test_actions_with_names_that_are_tuples_are_actions():
    mdp = pr.MDP([[[1, 0], [0, 1]]] * 2, [0.0, 1.0], 0.9, actions=[(0, 0), (0, 1)])
    assert mdp.policy_matrix([(0, 1), (0, 0)]).tolist() == [[0, 1], [1, 0]]


def test_trajectories_follow_the_probabilities():
    """The counts of actions in each state are binomial; false alarms 1e-6 for each state."""
    problem, pi = random_problem(3)
    log = problem.model.trajectory(problem.theta, pi, 20_000, rng=1, start=[0.2] * 5)
    for s in range(1, 5):
        seen = log[log[:, 0] == s, 1]
        assert stats.binomtest(int((seen == 0).sum()), seen.size, pi[s, 0]).pvalue > 1e-6
    assert (log[log[:, 0] == 0, 1] == 1).all()
    np.testing.assert_array_equal(log[:50], problem.model.trajectory(problem.theta, pi, 50, rng=1, start=[0.2] * 5))
    plain = problem.model.trajectory(problem.theta, np.eye(3)[[0] * 5], 5, rng=2)
    assert (plain[:, 1] == 0).all()


# -- draws only ----------------------------------------------------------------------------------------------


def test_problems_of_draws_are_sampled_problems():
    problem, pi = random_problem(5)
    counts = 1.0 + 5.0 * problem.theta
    theta = DirichletPosterior(counts).sample(24, 1)
    expected = BayesianRiskMDP(problem.model, counts, 0.75).solve(draws=theta)
    only = BayesianRiskMDP(problem.model, draws=theta, alpha=0.75)
    np.testing.assert_array_equal(only.solve().value, expected.value)
    found = only.evaluate(pi)
    np.testing.assert_allclose(
        found.value, BayesianRiskMDP(problem.model, counts, 0.75).evaluate(pi, draws=theta).value, atol=1e-10
    )
    neutral = BayesianRiskMDP(problem.model, draws=theta, alpha=0).solve()
    mean = pr.solve(problem.model.mdp(theta.mean(axis=0)))
    assert abs(neutral.value - mean.value).max() <= neutral.error_bound + mean.error_bound + 1e-12
    shape = theta.reshape(4, 6, *theta.shape[1:])
    array = xr.DataArray(shape, dims=("chain", "draw", "source", "outcome"))
    shuffled = array.assign_coords(source=np.arange(15)).isel(source=slice(None, None, -1))
    tree = xr.DataTree.from_dict({"posterior": array.rename("theta").to_dataset()})
    for given in (
        array,
        array.transpose("outcome", "chain", "source", "draw"),
        shuffled,
        array.rename(source="b", outcome="k"),
        array.stack(sample=("chain", "draw")),
        array.rename("theta").to_dataset(),
        tree,
    ):
        np.testing.assert_array_equal(BayesianRiskMDP(problem.model, given, 0.75).draws, theta)
        np.testing.assert_array_equal(BayesianRiskMDP(problem.model, draws=given, alpha=0.75).draws, theta)
    both = xr.Dataset({"theta": array, "other": array * 0})
    np.testing.assert_array_equal(BayesianRiskMDP(problem.model, both, 0.75, variable="theta").draws, theta)
    one = array.isel(chain=0, draw=0)
    for call, error, code, argument in (
        (lambda: only.solve(draws=10), ParameterError, "conflicting-arguments", "draws"),
        (lambda: only.solve(rng=1), ParameterError, "conflicting-arguments", "rng"),
        (lambda: BayesianRiskMDP(problem.model, both, 0.5), ParameterError, "missing-argument", "variable"),
        (lambda: BayesianRiskMDP(problem.model, both, 0.5, variable="x"), ParameterError, "unknown-option", "variable"),
        (lambda: BayesianRiskMDP(problem.model, alpha=0.5), ParameterError, "missing-argument", "posterior"),
        (
            lambda: BayesianRiskMDP(problem.model, counts, 0.5, draws=theta),
            ParameterError,
            "conflicting-arguments",
            "posterior",
        ),
        (lambda: BayesianRiskMDP(problem.model, draws=theta[:, 1:], alpha=0.5), PosteriorError, "wrong-shape", "draws"),
        (lambda: BayesianRiskMDP(problem.model, draws=theta * 1.1, alpha=0.5), PosteriorError, "sum-not-one", "draws"),
        (lambda: BayesianRiskMDP(problem.model, draws=one, alpha=0), PosteriorError, "wrong-dimensions", "draws"),
    ):
        with refused(error, code, argument=argument):
            call()


def test_the_row_of_terminal_states_may_be_left_out():
    model = named()
    theta = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    whole = np.vstack((theta, [1, 0, 0]))
    np.testing.assert_array_equal(model.mdp(theta).reward, model.mdp(whole).reward)
    counts = 10 * theta
    for given in (counts, DirichletPosterior(counts)):
        found = BayesianRiskMDP(model, given, 0.5).solve()
        np.testing.assert_array_equal(found.value, BayesianRiskMDP(model, 10 * whole, 0.5).solve().value)
    assert BayesianRiskMDP(model, draws=theta[None], alpha=0.5).solve().value[2] == 2.0
    log = [("a", "go", "end"), ("b", "stay", "a")]
    np.testing.assert_array_equal(model.count(log, np.ones((2, 3)))[:2], [[2, 1, 1], [1, 1, 2]])


def test_tables_with_a_column_of_samples():
    problem, _ = random_problem(2, S=4, A=2)
    model, rng = problem.model, np.random.default_rng(0)
    theta = DirichletPosterior(1 + 5 * problem.theta).sample(10, rng)
    rows = [
        (s, a, int(model.next_state[s, a, k]), theta[n, model.source[s, a], k], model.reward[s, a, k], n + 1)
        for n in range(10)
        for s, a, k in np.ndindex(model.next_state.shape)
    ]
    frame = pd.DataFrame(rows, columns=["state", "action", "next_state", "probability", "reward", "sample"])
    expected = BayesianRiskMDP(model, draws=theta, alpha=0.7).solve()
    for table in (rows, frame, frame.sample(frac=1.0, random_state=1), dict(frame)):
        found = BayesianRiskMDP.from_table(table, 0.9, 0.7)
        assert found.draws.shape[0] == 10
        np.testing.assert_allclose(found.solve().value, expected.value, atol=1e-9)
    # a reward that differs from sample to sample is an outcome of its own, one that is split adds up
    split = [(0, 0, 0, 0.5, 1.0, 0), (0, 0, 0, 0.5, 1.0, 0), (0, 0, 0, 1.0, 3.0, 1)]
    two = BayesianRiskMDP.from_table(split, 0.5, 0)
    np.testing.assert_allclose(two.draws[:, 0], [[1, 0], [0, 1]])
    assert two.solve().value[0] == pytest.approx(4.0, abs=1e-9)
    ends = BayesianRiskMDP.from_table([("a", "x", "end", 1.0, 1.0, 0)], 0.5, 0, terminal={"end": 8.0})
    assert ends.solve().value.tolist() == [5.0, 8.0]
    for bad, code, fields in (
        (frame.query("not (sample == 3 and state == 1)"), "missing-row", {"index": (2, 2)}),
        (frame.assign(probability=0.5), "sum-not-one", {"value": 1.5}),
        (frame.assign(probability=-0.1), "probability-range", {"row": 0, "value": -0.1}),
        (frame.iloc[:0], "no-rows", {}),
    ):
        with refused(ModelError, code, **fields):
            BayesianRiskMDP.from_table(bad, 0.9, 0.7)


# -- unknown rewards -----------------------------------------------------------------------------------------


def test_unknown_rewards_leave_ends_alone():
    """State 1 absorbs, state 2 is terminal: only state 0 earns what the posterior adds."""
    model = UncertainMDP([[0], [1], [-1]], [[[0, 1, 2]], [[1, -1, -1]], [[0, 0, 0]]], [[0.0]] * 3, 0.5, terminal=[2])
    assert model.absorbing.tolist() == [False, True, False]
    unknown = pr.posteriors.NormalPosterior(np.full((3, 1), 100.0), 1e-6, 1.0)
    found = BayesianRiskMDP(model, [[1, 1, 2], [1, 0, 0], [1, 0, 0]], 0.5, reward_posterior=unknown).solve(
        draws=9, rng=1
    )
    assert found.value[1] == pytest.approx(0.0, abs=1e-12)
    assert found.value[2] == 0.0
    assert found.value[0] > 99.0
    bandit = UncertainMDP([[0, 1]], [[[0], [0]]], [[0.0, 0.0]], 0.5)  # all of it absorbs
    unknown = pr.posteriors.NormalPosterior([[1.0, 2.0]], 1e-9, 1.0)
    found = BayesianRiskMDP(bandit, [[1.0], [1.0]], 0.5, reward_posterior=unknown).solve(draws=9, rng=1)
    assert found.value[0] == pytest.approx(4.0, abs=1e-3)
