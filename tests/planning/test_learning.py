"""Plans that learn inside the horizon: against recursion over whole histories, closed forms and laws."""

from functools import cache

import mpmath
import numpy as np
import pytest
from refusals import refused
from scipy import special

import prudent as pr
from prudent.errors import ParameterError, PosteriorError
from prudent.planning import LearningPlan
from prudent.planning.learning_nodes import Nodes, PairTable

ARMS = pr.UncertainMDP(source=[[0, 1]], next_state=[[[0, 0], [0, 0]]], reward=[[[0, 1], [0, 1]]], discount=1)


def plan_of(model, counts, alpha, horizon, **keywords):
    return pr.BayesianRiskMDP(model, counts, alpha).solve(horizon=horizon, learning=True, **keywords)


# -- known values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("horizon", "value"), [(1, 0.5), (2, 13 / 12), (5, 26 / 9)])
def test_two_uniform_arms(horizon, value):
    plan = plan_of(ARMS, np.ones((2, 2)), 0, horizon)
    assert plan.value == pytest.approx([value], abs=1e-12)
    assert plan.start_value == plan.value[0]
    assert plan.converged


def test_one_uniform_arm_against_a_known_one():
    """The break-even price of a uniform arm over two pulls: try it if 1/2 + max(E[success], known) is worth it."""
    model = pr.UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], [[[0, 1], [0.55, 0.55]]], discount=1)
    plan = plan_of(model, [[1, 1], [1, 0]], 0, 2)
    assert plan.value == pytest.approx([max(1.10, 0.5 + 0.5 * 2 / 3 + 0.5 * 0.55)], abs=1e-12)
    assert plan.policy.tolist() == [0]
    assert plan.act(0, [[2, 1], [1, 0]]) == 1  # the arm failed


# -- recursion over all histories --------------------------------------------------------------------------


@cache
def tail_mean(a, b, alpha):
    """Return CVaR of a Beta(a, b) variable in 30 digits."""
    with mpmath.workdps(30):
        p = 1 - abs(mpmath.mpf(alpha))
        mean = mpmath.mpf(a) / (a + b)
        if p == 1:
            return mean
        upper = alpha < 0
        mass = 1 - p if upper else p
        x = mpmath.mpf(float(special.betaincinv(a, b, float(mass))))  # a first guess, and Newton's steps from there
        for _ in range(8):
            density = x ** (mpmath.mpf(a) - 1) * (1 - x) ** (mpmath.mpf(b) - 1) / mpmath.beta(a, b)
            missed = mpmath.betainc(a, b, 0, x, regularized=True) - mass
            x -= missed / density
        assert abs(mpmath.betainc(a, b, 0, x, regularized=True) - mass) < 1e-25
        below = mean * mpmath.betainc(a + 1, b, 0, x, regularized=True)
        return (mean - below) / p if upper else below / p


def by_recursion(model, counts, alpha, horizon, final):
    """Return V_0 [S], without merging histories, in 30 digits; sources have two outcomes."""
    source, follows, reward = model.source, model.next_state, model.reward

    def value(time, state, seen):
        if time == horizon:
            return mpmath.mpf(float(final[state]))
        best = None
        for action in np.flatnonzero(model.admissible[state]):
            b = source[state, action]
            y = []
            for k in range(2):
                more = list(seen)
                more[2 * b + k] += 1
                later = value(time + 1, int(follows[state, action, k]), tuple(more))
                y.append(mpmath.mpf(float(reward[state, action, k])) + mpmath.mpf(float(model.discount)) * later)
            psi = [counts[b, k] + seen[2 * b + k] for k in range(2)]
            low, high = (0, 1) if y[0] <= y[1] else (1, 0)
            share = tail_mean(float(psi[high]), float(psi[low]), alpha)
            q = y[low] + (y[high] - y[low]) * share
            best = q if best is None else max(best, q)
        return best

    with mpmath.workdps(30):
        return [float(value(0, state, (0,) * counts.size)) for state in range(model.n_states)]


def random_case(rng):
    n_states, n_actions, n_sources = int(rng.integers(1, 4)), 2, int(rng.integers(1, 3))
    source = rng.integers(0, n_sources, (n_states, n_actions))
    source.ravel()[:n_sources] = np.arange(n_sources)[: source.size]
    follows = rng.integers(0, n_states, (n_states, n_actions, 2))
    reward = rng.normal(size=(n_states, n_actions, 2)).round(3)
    model = pr.UncertainMDP(source, follows, reward, discount=float(rng.choice([0.5, 0.9, 1.0])))
    counts = rng.choice([0.5, 1.0, 2.0, 7.5], (model.source.max() + 1, 2))
    return model, counts, float(rng.choice([-0.9, -0.5, 0.0, 0.5, 0.9, 0.99])), int(rng.integers(1, 4))


@pytest.mark.parametrize("part", [range(12), pytest.param(range(12, 200), marks=pytest.mark.slow)], ids=["few", "many"])
def test_plans_equal_the_recursion_over_histories(part):
    for case in part:
        rng = np.random.default_rng(case)
        model, counts, alpha, horizon = random_case(rng)
        final = rng.normal(size=model.n_states)
        plan = plan_of(model, counts, alpha, horizon, terminal_value=final)
        truth = by_recursion(model, counts, alpha, horizon, final)
        assert np.abs(plan.value - truth).max() <= max(plan.error_bound, 1e-12), case
        assert plan.error_bound < 1e-9


# -- laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.9])
def test_one_step_teaches_too_late(alpha):
    model, _ = pr.envs.frozen_lake(0.2)
    plan = plan_of(model, model.prior(), alpha, 1)
    assert plan.value_of_learning == pytest.approx(np.zeros(model.n_states), abs=1e-10)


def test_learning_helps_neutral_bandits():
    rng = np.random.default_rng(2)
    for _ in range(10):
        reward = rng.normal(size=(1, 2, 2))
        model = pr.UncertainMDP([[0, 1]], [[[0, 0], [0, 0]]], reward, discount=0.9)
        plan = plan_of(model, rng.uniform(0.2, 4.0, (2, 2)), 0, 6)
        assert plan.value_of_learning[0] >= -plan.error_bound


def test_uses_of_one_source_are_not_independent():
    """To be free after at most two tries: 1 - E[(1-p)^2] = 2/3 for a uniform p, where a fixed posterior says 3/4."""
    hole = pr.UncertainMDP([[0], [1]], [[[0, 1]], [[1, 1]]], [[[0, 1]], [[0, 0]]], discount=1)
    plan = plan_of(hole, [[1, 1], [1, 0]], 0, 2)
    assert plan.value[0] == pytest.approx(2 / 3, abs=1e-12)
    assert plan.fixed_value[0] == pytest.approx(3 / 4, abs=1e-12)


def test_caution_may_make_learning_cost():
    """The nested risk is taken at every look: found for the level 0.9."""
    assert plan_of(ARMS, np.ones((2, 2)), 0.9, 20).value_of_learning[0] < -0.4
    assert plan_of(ARMS, np.ones((2, 2)), 0.5, 20).value_of_learning[0] > 0.2


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.9])
def test_a_well_known_model_has_nothing_to_learn(alpha):
    rng = np.random.default_rng(4)
    plan = plan_of(ARMS, rng.uniform(1e7, 2e7, (2, 2)), alpha, 6)
    assert plan.value_of_learning == pytest.approx([0.0], abs=1e-6)


def test_measures_without_a_bound_are_evaluated_everywhere():
    counts = np.ones((2, 2))
    mixed = pr.BayesianRiskMDP(ARMS, counts, risk=pr.MeanCVaR(0.9, weight=1.0))
    assert mixed.solve(horizon=4, learning=True).value == pytest.approx(plan_of(ARMS, counts, 0.0, 4).value, abs=1e-10)


def test_terminal_states_end_the_plan():
    game = pr.UncertainMDP(
        [[0], [-1], [-1]],
        [[[0, 1, 2]]] * 3,
        [[0.0]] * 3,
        discount=0.9,
        states=["play", "won", "lost"],
        terminal={"won": 1.0, "lost": -1.0},
    )
    problem = pr.BayesianRiskMDP(game, [[2, 1, 1]], 0.0)
    plan = problem.solve(horizon=3, learning=True)
    assert plan.value[0] == pytest.approx(0.0, abs=1e-12)  # as likely won as lost
    assert np.isnan(plan.value[1:]).all()
    # a step goes on with 2/4, then 3/5; the step after the game is that of its end
    assert plan.action_shares.sum(axis=1) == pytest.approx([1.0, 1.0, 0.5], abs=1e-12)


def test_a_plan_may_be_over_before_its_horizon():
    """Both states end after a step: the later times have no node."""
    model = pr.UncertainMDP([[0], [1]], [[[-2, -2]], [[-2, -2]]], [[[1.0, 3.0]], [[0.0, 2.0]]], discount=0.5)
    plan = pr.BayesianRiskMDP(model, [[1, 3], [1, 1]], 0.0).solve(horizon=5, learning=True)
    assert plan.value == pytest.approx([2.5, 1.0], abs=1e-12)
    assert plan.action_shares[:, 0] == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0], abs=1e-12)
    assert plan.to_xarray().sizes["node"] == plan.nodes == 2


# -- what a plan can do ------------------------------------------------------------------------------------


def test_a_plan_is_labelled_and_prints():
    plan = plan_of(ARMS, np.ones((2, 2)), 0.5, 4)
    tree = plan.to_xarray()
    assert tree.sizes["node"] == plan.nodes == 35
    assert (tree.seen.sum("outcome") == tree.time).all()
    for node in range(0, plan.nodes, 7):
        counts = 1 + tree.seen.values[node].reshape(2, 2)
        assert plan.value_at(0, counts) == tree.value.values[node]
        assert plan.act(0, pr.DirichletPosterior(counts)) == tree.action.values[node]
    assert list(plan.to_pandas().columns) == ["action", "value", "fixed_value", "value_of_learning"]
    assert "35 nodes" in str(plan)
    assert plan.action_shares.sum(axis=1) == pytest.approx(np.ones(4))
    assert plan.plot().axes


def test_start_and_exclude():
    model, _ = pr.envs.frozen_lake(0.2)
    problem = pr.BayesianRiskMDP(model, model.prior(), 0.5)
    whole, one = (problem.solve(horizon=3, learning=True, start=start) for start in (None, 6))
    assert one.value[6] == whole.value[6]
    assert np.isnan(one.value[5])
    barred = problem.solve(horizon=3, learning=True, start=6, exclude={6: [int(whole.policy[6])]})
    assert barred.policy[6] != whole.policy[6]
    assert barred.value[6] <= whole.value[6]


def test_what_cannot_be_planned_is_refused(monkeypatch):
    problem = pr.BayesianRiskMDP(ARMS, np.ones((2, 2)), 0.5)
    with refused(ParameterError, "missing-argument", argument="horizon"):
        problem.solve(learning=True)
    with refused(ParameterError, "conflicting-arguments", argument="rng"):
        problem.solve(rng=1, horizon=2, learning=True)
    with refused(ParameterError, "conflicting-arguments", argument="initial_value"):
        problem.solve(initial_value=[0.0], horizon=2, learning=True)
    with refused(ParameterError, "conflicting-arguments", argument="learning"):
        pr.BayesianRiskMDP(ARMS, alpha=0.5, draws=np.full((3, 2, 2), 0.5)).solve(horizon=2, learning=True)
    monkeypatch.setattr("prudent.planning.learning.MAX_ENTRIES", 20_000)
    with refused(ParameterError, "too-large", argument="horizon"):
        direct = pr.UncertainMDP.direct(np.zeros((8, 3)), 0.9)
        pr.BayesianRiskMDP(direct, direct.prior(), 0.5).solve(horizon=50, learning=True)
    plan = problem.solve(horizon=3, learning=True)
    assert isinstance(plan, LearningPlan)
    with refused(PosteriorError, "other-posterior", argument="counts"):
        plan.act(0, [[1.5, 1], [1, 1]])
    with refused(ParameterError, "not-reached", argument="counts"):
        plan.act(0, [[9, 1], [1, 1]])
    with refused(ParameterError, "not-reached", argument="counts"):
        plan.act(0, [[2, 1], [1, 1]], time=0)


def test_a_plan_that_is_too_large_is_refused_before_its_nodes_are_made(monkeypatch):
    def made(*_):
        raise AssertionError("a layer was made")

    monkeypatch.setattr(Nodes, "layer", made)
    direct = pr.UncertainMDP.direct(np.zeros((10, 3)), 0.9)
    with refused(ParameterError, "too-large", argument="horizon", value=200):
        pr.BayesianRiskMDP(direct, direct.prior(), 0.5).solve(horizon=200, learning=True)


def test_no_time_has_fewer_nodes_than_the_bound_says(rng):
    """Whole trees of random models: each time has at least as many nodes as outcomes lead to it, by most parents."""
    for _ in range(60):
        n_states, n_actions, n_outcomes, horizon = (int(n) for n in rng.integers(1, [5, 4, 4, 7]))
        _, source = np.unique(rng.integers(0, 3, (n_states, n_actions)), return_inverse=True)
        source, follows = (
            source.reshape(n_states, n_actions),
            rng.integers(-2 if rng.random() < 0.3 else 0, n_states, (n_states, n_actions, n_outcomes)),
        )
        follows[follows == -1] = -2
        model = pr.UncertainMDP(source, follows, np.zeros(follows.shape), discount=0.9)
        table, slots = PairTable.of(model, np.ones((model.n_sources, n_outcomes)))
        nodes = Nodes(table, n_states, slots.size, horizon)
        joined, code = nodes.most_parents(horizon), np.arange(n_states).astype(nodes.weights.dtype)
        for time in range(1, horizon):
            layer, later = nodes.layer(code)
            assert later.size >= np.count_nonzero(layer.child >= 0) / joined[time]
            code = later


def test_a_plan_does_not_act_on_counts_it_cannot_come_to():
    """Six times the first outcome has the code of one of the second, in radix 6; an impossible outcome was seen."""
    plan = plan_of(ARMS, np.ones((2, 2)), 0.0, 5)
    assert plan.value_at(0, [[1, 2], [1, 1]], time=1) > 0.0
    with refused(ParameterError, "not-reached", argument="counts"):
        plan.act(0, [[7, 1], [1, 1]], time=1)
    sure = plan_of(ARMS, [[1, 1], [0, 1]], 0.0, 5)
    assert sure.act(0, [[1, 1], [0, 9]], time=0) == 1  # of a known outcome any number may be counted
    with refused(PosteriorError, "other-posterior", argument="counts"):
        sure.act(0, [[1, 1], [3, 1]], time=0)


def test_many_outcomes_need_long_codes():
    """Codes beyond 64 bits are Python integers."""
    model = pr.UncertainMDP.direct(np.arange(24.0).reshape(6, 4) % 5, 0.9)
    problem = pr.BayesianRiskMDP(model, model.prior(), 0)
    plan = problem.solve(horizon=2, learning=True, start=0)
    by_hand = []
    for action in range(4):
        psi = np.ones(6)
        later = [max(model.reward[s, :, 0]) for s in range(6)]
        by_hand.append(model.reward[0, action, 0] + 0.9 * (psi / psi.sum()) @ later)
    assert plan.value[0] == pytest.approx(max(by_hand), rel=1e-12)


# -- bounds where exact is too large -------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.5, 0.9])
def test_bounds_hold_the_exact_value(alpha, monkeypatch, seed):
    """The bounds hold together with probability 0.999; 12 plans with three bounds each, 10 wide margins beyond that."""
    monkeypatch.setattr("prudent.planning.learning.MAX_LEAVES", 12)
    monkeypatch.setattr("prudent.planning.learning_rollout.CONFIDENCE", 1.0 - 1e-9)
    for case in range(3):
        model, counts, _, _ = random_case(np.random.default_rng(case))
        exact = plan_of(model, counts, alpha, 6)
        problem = pr.BayesianRiskMDP(model, counts, alpha)
        bounded = problem.solve(horizon=6, learning=True, draws=100, rng=seed)
        assert (bounded.value <= exact.value + exact.error_bound).all()
        assert (exact.value <= bounded.upper_bound + exact.error_bound).all()
        assert bounded.depth < 6
        assert (bounded.gap >= 0.0).all()
        assert not bounded.converged
        assert exact.gap == pytest.approx(np.zeros(model.n_states), abs=0.0)


def test_a_bounded_plan_acts_while_it_is_exact(monkeypatch, seed):
    monkeypatch.setattr("prudent.planning.learning.MAX_LEAVES", 60)
    problem = pr.BayesianRiskMDP(ARMS, np.ones((2, 2)), 0.0)
    plan = problem.solve(horizon=20, learning=True, draws=200, rng=seed)
    assert 2 < plan.depth < 20
    assert plan.value[0] < 12.4313 < plan.upper_bound[0]
    assert plan.gap[0] < 6.0  # 2 without the width of the intervals
    assert plan.act(0, [[1, 1], [1, 1]]) in (0, 1)
    assert "upper_bound" in plan.to_pandas()
    assert plan.to_xarray().sizes["node"] == plan.nodes
    with refused(ParameterError, "not-reached", argument="counts"):
        plan.act(0, [[20, 1], [1, 1]])
