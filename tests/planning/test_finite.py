"""Finite horizons: against hand computation, exact fractions, the discounted limit; policies that depend on time."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent.errors import ModelError, ParameterError

STAY, GO = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
NAMED = pr.MDP(
    [STAY, GO], [[1, 0], [3, 0]], 1.0, actions_first=True, states=["low", "high"], actions=["stay", "go"]
)  # fmt: skip


def random_mdp(seed, n_states=4, n_actions=3, discount=0.9, ends=False):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.7), (n_states, n_actions))
    admissible = rng.random((n_states, n_actions)) < 0.8
    admissible[:, 0] = True
    admissible[0] = True
    termination = None
    if ends:
        termination = np.where(rng.random((n_states, n_actions)) < 0.5, rng.random((n_states, n_actions)), 0.0)
        transition *= (1.0 - termination)[..., None]
    reward = rng.normal(size=(n_states, n_actions))
    return pr.MDP(transition, reward, discount, termination=termination, admissible=admissible)


def fractions_of(mdp, horizon, final, policy=None):
    """Backward induction in exact arithmetic, for the numbers as stored."""
    P = mdp.dense()
    gamma = Fraction(mdp.discount)
    value = [Fraction(float(v)) for v in final]
    values = [value]
    for t in range(horizon - 1, -1, -1):
        rows = []
        for s in range(mdp.n_states):
            q = {
                a: Fraction(float(mdp.reward[s, a]))
                + gamma * sum(Fraction(float(p)) * v for p, v in zip(P[s, a], value, strict=True))
                for a in range(mdp.n_actions)
                if mdp.admissible[s, a]
            }
            rows.append(max(q.values()) if policy is None else q[int(policy[t][s])])
        value = rows
        values.insert(0, value)
    return values


def furthest(found, exact):
    return max(
        abs(Fraction(float(v)) - w)
        for row, other in zip(found, exact, strict=True)
        for v, w in zip(row, other, strict=True)
    )


def test_two_steps_by_hand():
    plan = pr.solve(NAMED, horizon=2)
    assert plan.value.tolist() == [[3.0, 6.0], [1.0, 3.0], [0.0, 0.0]]
    assert plan.policy_names == (("go", "stay"), ("stay", "stay"))
    worth = pr.solve(NAMED, horizon=2, terminal_value={"low": 10.0})
    assert worth.value.tolist() == [[12.0, 13.0], [11.0, 10.0], [10.0, 0.0]]
    assert worth.policy_names == (("stay", "stay"), ("stay", "go"))  # 13 = 3 + 10: stay, then go


@example(seed=999999, horizon=5, discount=0.5, ends=True, given_policy=False)  # the error of a later time is larger
@given(
    st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 0.5, 0.9, 0.999, 1.0]), st.booleans(), st.booleans()
)
def test_values_are_those_of_exact_fractions_up_to_the_bound(seed, horizon, discount, ends, given_policy):
    mdp = random_mdp(seed, 3, 2, discount, ends)
    rng = np.random.default_rng(seed)
    final = rng.normal(size=3) * 10.0 ** rng.integers(-5, 6)
    if given_policy:
        policy = np.array([[rng.choice(np.flatnonzero(row)) for row in mdp.admissible] for _ in range(horizon)])
        found = pr.evaluate(mdp, [np.array(row) for row in policy], horizon=horizon, terminal_value=final)
        assert (found.policy == np.where(mdp.terminal, found.policy, policy)).all()
        exact = fractions_of(mdp, horizon, final, found.policy)
    else:
        found = pr.solve(mdp, horizon=horizon, terminal_value=final)
        exact = fractions_of(mdp, horizon, final)
    assert furthest(found.value, exact) <= Fraction(found.error_bound)
    assert found.converged
    assert found.error_bound <= 1e-12 * max(1.0, abs(found.value).max())


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_a_long_horizon_is_the_discounted_problem(discount):
    mdp = random_mdp(3, 6, 3, discount)
    endless = pr.solve(mdp)
    horizon = int(np.ceil(np.log(1e-12) / np.log(discount)))
    plan = pr.solve(mdp, horizon=horizon)
    most = abs(mdp.reward).max() / (1.0 - discount)
    for left in (1, 5, horizon):  # steps
        gap = abs(plan.value[horizon - left] - endless.value).max()
        assert gap <= discount**left * most + 1e-9
    assert (plan.policy[0] == endless.policy).all()
    # begun at the values of the endless problem, it stays there
    start = pr.solve(mdp, horizon=4, terminal_value=endless.value)
    np.testing.assert_allclose(start.value, np.tile(endless.value, (5, 1)), rtol=0, atol=1e-9)


def test_a_bayesian_risk_plan_against_cvar_by_hand():
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
    counts = np.array([[3.0, 2.0], [1.0, 1.0], [2.0, 5.0], [4.0, 1.0]])
    problem = pr.BayesianRiskMDP(model, counts, alpha=0.8)
    plan = problem.solve(horizon=3, terminal_value=[0.5, -0.5])
    value = np.array([0.5, -0.5])
    for t in (2, 1, 0):
        ahead = model.reward[..., 0][:, :, None] + 0.9 * value  # [S, A, S']
        q = np.array([[pr.exact.cvar_dirichlet(ahead[s, a], counts[2 * s + a], 0.8) for a in (0, 1)] for s in (0, 1)])
        value = q.max(axis=1)
        np.testing.assert_allclose(plan.value[t], value, rtol=0, atol=1e-12 + plan.error_bound)
        np.testing.assert_allclose(plan.at(t).q, q, rtol=0, atol=1e-10)
    followed = problem.evaluate(plan, horizon=3, terminal_value=[0.5, -0.5])
    np.testing.assert_allclose(followed.value, plan.value, rtol=0, atol=1e-12)
    long = problem.solve(horizon=300).value[0]
    np.testing.assert_allclose(long, problem.solve().value, rtol=0, atol=0.9**300 * 10 + 1e-8)


def test_draws_and_level_zero_have_plans_too():
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=1.0)
    neutral = pr.BayesianRiskMDP(model, model.prior(2.0), alpha=0.0)
    np.testing.assert_allclose(
        neutral.solve(horizon=7).value, pr.solve(neutral.mean_mdp(), horizon=7).value, rtol=0, atol=1e-13
    )
    theta = pr.DirichletPosterior(model.prior()).sample(50, rng=1)
    drawn = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5)
    plan = drawn.solve(horizon=2)
    q = np.array([[pr.cvar(theta[:, 2 * s + a] @ plan.value[1], 0.5) for a in (0, 1)] for s in (0, 1)])
    np.testing.assert_allclose(plan.value[0], (q + np.array([[0.0, 0.1], [1.0, 0.0]])).max(axis=1), rtol=0, atol=1e-13)
    same = pr.BayesianRiskMDP(model, model.prior(), alpha=0.5)
    one, other = (same.solve(20, 7, horizon=3).value for _ in range(2))
    assert (one == other).all()


def test_arriving_in_a_terminal_state_counts_whenever_that_is():
    game = pr.UncertainMDP(
        [[0], [-1], [-1]],
        [[[0, 1, 2]]] * 3,
        [[0.0]] * 3,
        discount=0.5,
        states=["play", "won", "lost"],
        terminal={"won": 1.0, "lost": -1.0},
    )
    problem = pr.BayesianRiskMDP(game, [[1.0, 2.0, 1.0]], 0.0)
    for plan in (problem.solve(horizon=1), pr.solve(problem.mean_mdp(), horizon=1)):
        assert plan.value[0] == pytest.approx([0.5 * (0.5 - 0.25), 1.0, -1.0], abs=1e-15)
        assert plan.value[1].tolist() == [0.0, 1.0, -1.0]
        assert plan.policy_names == ((0, None, None),)
    plan = pr.solve(problem.mean_mdp(), horizon=1, terminal_value={"play": 8.0})
    assert plan.value[0, 0] == pytest.approx(0.5 * (0.25 * 8.0 + 0.25), abs=1e-15)


def test_stochastic_policies_that_depend_on_time():
    mdp = random_mdp(5, 3, 2, 0.9)
    rng = np.random.default_rng(0)
    chances = rng.dirichlet([1.0, 1.0], (4, 3))
    chances = np.where(mdp.admissible, chances, 0.0)
    chances /= chances.sum(axis=2, keepdims=True)
    found = pr.evaluate(mdp, chances, horizon=4)
    value = np.zeros(3)
    for t in (3, 2, 1, 0):
        value = (chances[t] * (mdp.reward + 0.9 * mdp.dense() @ value)).sum(axis=1)
        np.testing.assert_allclose(found.value[t], value, rtol=0, atol=1e-14)
    assert found.policy.shape == (4, 3, 2)
    table = found.to_pandas()
    assert list(table.columns) == ["time", "state", "action", "probability", "value"]
    assert len(table) == 12
    shorter = pr.evaluate(mdp, chances, horizon=2)  # its first two steps
    assert shorter.policy.shape[0] == 2


def test_every_way_to_write_a_policy_over_time_is_read_alike():
    plan = pr.solve(NAMED, horizon=3)
    ways = [
        plan,
        plan.policy,
        plan.policy.tolist(),
        [dict(zip(["low", "high"], row, strict=True)) for row in plan.policy_names],
        [list(row) for row in plan.policy_names],
        plan.to_xarray().policy,
        np.eye(2)[plan.policy],
    ]
    for way in ways:
        found = pr.evaluate(NAMED, way, horizon=3)
        assert (found.value == plan.value).all(), way
    stationary = pr.evaluate(NAMED, ["stay", "stay"], horizon=3)
    assert stationary.value[0].tolist() == [3.0, 9.0]
    assert pr.evaluate(NAMED, [[0.5, 0.5], [1.0, 0.0]], horizon=1).value[0].tolist() == [0.5, 3.0]


def test_tables_names_and_pictures():
    plan = pr.solve(NAMED, horizon=3)
    table = plan.to_pandas()
    assert table.loc[0].tolist() == [0, "low", "go", plan.value[0, 0]]
    data = plan.to_xarray()
    assert data.value.sel(time=0, state="high").item() == 9.0
    assert data.policy.sel(step=2, state="low").item() == "stay"
    assert plan.at(1).policy_names == plan.policy_names[1]
    assert (plan.q[0] == plan.at(0).q).all()
    assert plan.q.shape == (3, 2, 2)
    assert "3 steps" in repr(plan)
    assert len(plan.plot().axes) == 2
    assert pr.evaluate(NAMED, np.full((30, 2, 2), 0.5), horizon=30).plot().axes
    many = pr.envs.random_model(60, 3, branching=3, rng=0).mdp()
    assert pr.solve(many, horizon=40).plot().axes


@pytest.mark.parametrize(
    ("call", "code", "argument"),
    [
        (lambda: pr.solve(NAMED, horizon=0), "integer-range", "horizon"),
        (lambda: pr.solve(NAMED, horizon=2.5), "not-an-integer", "horizon"),
        (lambda: pr.solve(NAMED, horizon=10**12), "too-large", "horizon"),
        (lambda: pr.solve(NAMED, horizon=3, initial_value=[0, 0]), "conflicting-arguments", "initial_value"),
        (lambda: pr.solve(NAMED, horizon=3, sweeps=2), "conflicting-arguments", "sweeps"),
        (lambda: pr.solve(NAMED, horizon=3, draws=10), "conflicting-arguments", "draws"),
        (lambda: pr.solve(NAMED, rng=1), "conflicting-arguments", "rng"),
        (lambda: pr.solve(NAMED, client="tcp://nowhere"), "conflicting-arguments", "client"),
        (lambda: pr.solve(NAMED, horizon=3, terminal_value=[1.0]), "wrong-shape", "terminal_value"),
        (lambda: pr.solve(NAMED, horizon=3, terminal_value=[np.nan, 0]), "not-finite", "terminal_value"),
        (lambda: pr.solve(NAMED, terminal_value=[0, 0]), "missing-argument", "horizon"),
        (lambda: pr.solve(NAMED, horizon=3).at(3), "integer-range", "time"),
        (lambda: pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.5)).at(3), "no-time-axis", "time"),
    ],
)
def test_invalid_arguments_are_refused(call, code, argument):
    with refused(ParameterError, code, argument=argument):
        call()


@pytest.mark.parametrize("method", ["q_of", "runners_up"])
def test_calls_without_a_meaning_over_time_are_refused(method):
    plan = pr.solve(NAMED, horizon=3)
    arguments = {"q_of": ([0, 0],), "runners_up": ()}
    with refused(ParameterError, "time-axis", method=method):
        getattr(plan, method)(*arguments[method])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: pr.solve(NAMED, horizon=3, terminal_value={"mid": 1.0}), ParameterError),
        (lambda: pr.evaluate(NAMED, [[0, 1]], horizon=3), ParameterError),
        (lambda: pr.evaluate(NAMED, [[0, 2], [0, 0], [0, 0]], horizon=3), ParameterError),
        (lambda: pr.evaluate(NAMED, np.eye(2, dtype=int), horizon=2), ParameterError),
        (lambda: pr.evaluate(NAMED, np.full((3, 2, 2), 0.4), horizon=3), ParameterError),
        (lambda: pr.evaluate(NAMED, [{"low": "go"}] * 3, horizon=3), ParameterError),
        (lambda: pr.solve(pr.UncertainMDP.direct([[1.0]], 0.9), horizon=3), ModelError),
    ],
)
def test_invalid_policies_and_models_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_inadmissible_actions_at_some_time_are_named():
    mdp = pr.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0]] * 2, 0.9, admissible=[[True, False], [True, True]])
    with pytest.raises(ParameterError):
        pr.evaluate(mdp, [[0, 1], [1, 1], [0, 0]], horizon=3)


def test_models_without_a_discount_are_refused_where_they_mean_nothing():
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=1.0)
    for call in (
        lambda: pr.PosteriorSamplingAgent(model, alpha=0.5),
        lambda: pr.OptimisticVIAgent(model, alpha=0.5, horizon=10),
        lambda: pr.theory.limit_law(model.mdp([[0.5, 0.5]] * 4), [0, 0], 0.5),
    ):
        with pytest.raises(ParameterError):
            call()
    for call in (  # it never ends
        lambda: pr.posterior_returns(model, model.prior(), [0, 0]),
        lambda: pr.risk_profile(model, model.prior(), (0.0,)),
        lambda: pr.value_of_data(model, model.prior(), 0.5),
    ):
        with refused(ModelError, "endless-process"):
            call()
    with refused(ParameterError, "discount-range", argument="discount"):
        pr.MDP([[[1.0]]], [[1.0]], 1.5)


def test_trajectories_follow_a_policy_over_time_and_start_anew_after_it():
    model = pr.UncertainMDP.direct([[0.0, 0.0], [0.0, 0.0]], discount=0.9)
    theta = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]  # action 0 stays, action 1 moves
    plan = np.array([[1, 0], [0, 0], [0, 1]])
    log = model.trajectory(theta, plan, 7, state=0, rng=0)
    assert log[:, :3].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]]
    chances = np.eye(2)[plan]
    assert (model.trajectory(theta, chances, 7, state=0, rng=0) == log).all()
    solution = pr.evaluate(model.mdp(theta), plan, horizon=3)
    assert (model.trajectory(theta, solution, 7, state=0, rng=0) == log).all()
    risky = pr.solve(model.mdp(theta), objective=pr.Entropic(1.0))  # goes on after its last step
    assert (model.trajectory(theta, risky, 9, rng=0)[:, 0] == 0).all()
