"""Bayesian-risk Q-learning: convergence to the certified value of the Bayesian risk MDP."""

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.agents import QLearningAgent, brql
from prudent.errors import ParameterError

MEASURES = {"cvar": pr.CVaR, "var": pr.VaR}


@pytest.mark.parametrize("risk", MEASURES)
def test_exact_rows_converge_to_the_certified_value(rng, risk):
    """The error shrinks by 1 - (1 - gamma) lambda in every update, so that a bound on it is known."""
    problem = pr.envs.random_model(5, 2, branching=3, discount=0.5, rng=rng)
    settings = brql(0.7, risk=risk, power=0.5, batch=10**6)
    agent = QLearningAgent(problem.model, settings=settings, rng=rng, indices=True)
    for row in problem.model.trajectory(problem.theta, np.zeros(5, int), 200, rng=rng):
        agent.observe(*row[:3])
    wanted = pr.BayesianRiskMDP(problem.model, agent.posterior, risk=MEASURES[risk](0.7)).solve()
    first = abs(wanted.value).max() / 0.5
    agent.learn(1_500)
    shrunk = np.prod(1.0 - 0.5 * (1.0 + np.arange(1_500)) ** -0.5)
    assert shrunk < 1e-14
    assert abs(agent.value - wanted.value).max() <= first * shrunk + wanted.error_bound + 1e-8


def visit_all(agent, model):
    """Let the agent see a transition of every pair."""
    for s, a in zip(*np.nonzero(model.admissible), strict=True):
        agent.observe(s, a, int(model.next_state[s, a, 0]))


@pytest.mark.parametrize("risk", MEASURES)
def test_asynchronous_updates_converge_to_the_certified_value(rng, risk):
    """A pass over all pairs shrinks the largest error at least by 1 - (1 - gamma) lambda, as an update of all does."""
    problem = pr.envs.random_model(5, 2, branching=3, discount=0.5, rng=rng)
    settings = brql(0.7, risk=risk, power=0.5, batch=10**5, pairs="visited")
    agent = QLearningAgent(problem.model, settings=settings, rng=rng, indices=True)
    visit_all(agent, problem.model)
    wanted = pr.BayesianRiskMDP(problem.model, agent.posterior, risk=MEASURES[risk](0.7)).solve()
    first = abs(wanted.value).max() / 0.5
    agent.learn(150)
    shrunk = np.prod(1.0 - 0.5 * (1.0 + np.arange(150)) ** -0.5)
    assert shrunk < 1e-5
    assert abs(agent.value - wanted.value).max() <= first * shrunk + wanted.error_bound + 1e-8


def test_asynchronous_updates_move_what_was_visited_one_after_the_other(rng):
    """By hand: with rate 1 the second pair of a batch sees the new value of the first."""
    model = pr.UncertainMDP.direct([[1.0, 0.0], [0.0, 2.0]], discount=0.5)
    settings = brql(0.0, batch=2, updates=1, power=0.0, epsilon=0.0, pairs="visited")
    agent = QLearningAgent(model, settings=settings, rng=rng, indices=True)
    agent.observe(1, 1, 1)
    assert (agent.q == 0.0).all()
    agent.observe(0, 0, 1)
    # counts are now [1, 1] but for the two pairs, which have [1, 2]: Q(1,1) = 2, then Q(0,0) = 1 + (1/2)(2/3) 2
    np.testing.assert_allclose(agent.q, [[1.0 + 2.0 / 3.0, 0.0], [0.0, 2.0]], atol=1e-8)
    agent.observe(1, 0, 0)
    agent.observe(1, 0, 0)  # twice in one batch: the second time nothing new is seen, since the pair is not its own
    np.testing.assert_allclose(agent.q[1, 0], 0.5 * (0.75 * 5.0 / 3.0 + 0.25 * 2.0), atol=1e-8)


@pytest.mark.parametrize("risk", MEASURES)
def test_draws_converge_to_the_certified_value_of_their_estimator(rng, risk):
    """Fresh draws of each update: the mean of their estimator is that of many draws, but for its bias in 1/n.

    The noise of the last Q is about the noise of a row times the root of the rate: far below the tolerance.
    """
    problem = pr.envs.random_model(4, 2, branching=3, discount=0.5, rng=rng)
    settings = brql(0.5, risk=risk, draws=400, power=0.8, batch=10**6)
    agent = QLearningAgent(problem.model, settings=settings, rng=rng, indices=True)
    for row in problem.model.trajectory(problem.theta, np.zeros(4, int), 300, rng=rng):
        agent.observe(*row[:3])
    agent.learn(600)
    wanted = pr.BayesianRiskMDP(problem.model, agent.posterior, risk=MEASURES[risk](0.5)).solve()
    assert abs(agent.value - wanted.value).max() <= 0.02 * abs(wanted.value).max()


def test_few_draws_promise_too_much(rng):
    """CVaR of draws is a maximum of means, so that its mean is too high: Q tends to a fixed point above the certified.

    One pull of an arm: the fixed point is the mean of CVaR of four draws, here by 300,000 sets of NumPy. With the rate
    1/k Q is the mean of k targets; six standard errors of 3,000 are a false alarm below 1e-8.
    """
    model = pr.UncertainMDP([[0]], [[[0, 0]]], [[[0.0, 1.0]]], discount=0.0)
    sets = np.sort(rng.beta(2.0, 3.0, (300_000, 4)), axis=1)[:, :2].mean(axis=1)
    agent = QLearningAgent(model, settings=brql(0.5, draws=4, power=1.0, batch=10**6), prior=[[3.0, 2.0]], rng=rng)
    agent.learn(3_000)
    spread = sets.std() / np.sqrt(3_000)
    certified = pr.BayesianRiskMDP(model, agent.posterior, 0.5).solve()
    assert abs(agent.value[0] - sets.mean()) < 6.0 * spread
    assert agent.value[0] > certified.value[0] + certified.error_bound + 6.0 * spread


def test_ties_are_broken_at_random(rng):
    """Before it has learned anything the agent takes any action: each about as often, with z below 5."""
    world = pr.envs.frozen_lake(0.2)
    agent = QLearningAgent(world.model, settings=brql(0.5, epsilon=0.0, pairs="visited"), rng=rng)
    taken = np.bincount([agent.act(0) for _ in range(4_000)], minlength=4)
    assert (abs(taken - 1_000) <= 5.0 * np.sqrt(4_000 * 3 / 16)).all()
    np.testing.assert_array_equal(agent.policy, np.full((16, 4), 0.25))


@pytest.mark.slow
def test_asynchronous_updates_reach_the_regret_of_updates_of_all_pairs():
    """Frozen Lake: the regret of an episode falls from 1.9 to that of updates of all pairs, 0.31, within a fifth."""
    runs = pr.simulate(pr.envs.frozen_lake(0.2), brql(0.5, pairs="visited"), episodes=1_500, replications=4, rng=1)
    regret = np.asarray(runs.regret).reshape(4, -1)
    assert (regret[:, -1] - regret[:, 1_000]).mean() / 499.0 < 1.2 * 0.314


def test_a_posterior_that_concentrates_leads_to_the_truth(rng):
    problem = pr.envs.random_model(4, 2, branching=3, discount=0.5, rng=rng)
    agent = QLearningAgent(problem.model, settings=brql(0.9, batch=10**6, power=0.0), rng=rng, indices=True)
    agent.counts[...] += 1e9 * problem.theta
    agent.learn(60)
    np.testing.assert_allclose(agent.value, pr.solve(problem.mdp()).value, rtol=1e-3)


def test_what_is_refused():
    with refused(ParameterError, "unknown-option", argument="risk", value="mean"):
        brql(0.5, risk="mean")
    with refused(ParameterError, "alpha-range", argument="alpha", value=-0.5):
        brql(-0.5, risk="var")
    with refused(ParameterError, "unknown-option", argument="pairs", value="one"):
        brql(0.5, pairs="one")
    with refused(ParameterError, "integer-range", argument="batch", value=10**7):
        brql(0.5, batch=10**7, pairs="visited")
    model = pr.UncertainMDP.direct([[0.0]], 0.5)
    with refused(ParameterError, "conflicting-arguments", argument="settings"):
        QLearningAgent(model, 0.5, settings=brql(0.5))
