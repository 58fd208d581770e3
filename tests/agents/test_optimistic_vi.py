"""Algorithm 3: its update written out again, its optimism, its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.agents.optimistic_vi import OptimisticSettings, OptimisticVIAgent, optimistic_vi
from prudent.envs.random_model import random_model
from prudent.errors import ModelError, ParameterError
from prudent.simulation.tabular import simulate
from prudent.theory import optimistic_vi_regret_bound


def test_update_is_that_of_the_paper():
    """With a prior so strong that draws are its mean, the algorithm is deterministic: write it down again.

    The bonus counts visits, not prior counts, so it shrinks as it would with real data.
    """
    model = pr.UncertainMDP.direct([[0.1, 0.3], [0.2, 0.0]], discount=0.3)
    theta = np.array([[0.3, 0.7], [0.6, 0.4], [0.8, 0.2], [0.5, 0.5]])
    gamma, alpha, delta, T, S, A = 0.3, 0.8, 0.1, 4000, 2, 2
    agent = OptimisticVIAgent(model, alpha, horizon=T, delta=delta, prior=1e14 * theta, rng=1)
    n = 5
    evidence = math.log(4 * (n + 1) * S**2 * A * T / delta)
    q, v, visits = np.full((S, A), 1 / (1 - gamma)), np.full(S, 1 / (1 - gamma)), np.zeros((S, A))
    chance, reward = model.mdp(theta).dense(), model.mdp(theta).reward
    rng, state = np.random.default_rng(0), 0
    for _ in range(T):
        action = agent.act(state)
        assert q[state, action] == pytest.approx(q[state].max(), abs=1e-5)
        target = int(rng.random() < chance[state, action, 1])
        agent.observe(state, action, target)
        bonus = 3 * gamma / (1 - gamma) * np.sqrt(S**2 / (2 * (visits + 1)) * evidence)
        q = np.minimum(q, reward + gamma * chance @ v + bonus)
        v = q.max(axis=1)
        visits[state, action] += 1
        state = target
    assert (q < 1 / (1 - gamma) - 0.1).any()  # the bonus has shrunk enough to tell
    assert agent.q == pytest.approx(q, abs=1e-5)
    assert agent.value == pytest.approx(v, abs=1e-5)
    assert (agent.policy == q.argmax(axis=1)).all()


def test_draws_come_from_the_posterior_before_the_step():
    """What is drawn at a step may not know of it: two agents that see different things still agree after the step.

    Rewards and the discount are so small that every bonus lets the pair be drawn.
    """
    model = pr.UncertainMDP.direct([[0.1], [0.4]], discount=0.05)
    one, two = (OptimisticVIAgent(model, 0.5, horizon=1, delta=0.99, rng=3) for _ in range(2))
    for agent in (one, two):
        agent.observe(0, 0, 0)
    assert one.value[0] != one.value[1]  # from now on it matters what is drawn
    before = one.q
    one.observe(0, 0, 0)
    two.observe(0, 0, 1)
    assert (one.q == two.q).all()
    assert (one.q < before).any()
    one.observe(0, 0, 0)
    two.observe(0, 0, 0)
    assert not (one.q == two.q).all()


@pytest.mark.parametrize("alpha", [0.0, 0.9])
def test_regret_stays_below_the_bound_and_q_above_its_optimum(alpha):
    """T = 40,000 steps, where the bound says more than that rewards are at most 1."""
    problem = random_model(2, 2, discount=0.3, rng=11)
    T, delta, replications = 40_000, 0.1, 20
    runs = simulate(
        problem, optimistic_vi(alpha, delta=delta), episodes=T // 50, episode_length=50, replications=replications,
        record=("states", "rewards"),
    )  # fmt: skip
    bound = optimistic_vi_regret_bound(T, 2, 2, alpha, 0.3, delta)
    assert bound < T / (1 - 0.3)
    # of the stationary policies in use
    assert (runs.regret.isel(episode=-1) <= bound).all()
    # of the learner itself, whose value is the expected discounted sum of what it earned: the theorem's own definition
    best = pr.solve(problem.mdp(), tol=1e-12).value
    states = runs.states.values.reshape(replications, T)
    rewards = runs.rewards.values.reshape(replications, T)
    earned = np.zeros((replications, T + 1))
    for t in range(T - 1, -1, -1):
        earned[:, t] = rewards[:, t] + 0.3 * earned[:, t + 1]
    regret = np.cumsum(best[states] - earned[:, :T], axis=1)[:, : T - 60]  # 0.3^60 is nothing
    steps = np.unique(np.geomspace(1, T - 60, 40).astype(int))
    assert (regret[:, steps - 1].mean(axis=0) <= optimistic_vi_regret_bound(steps, 2, 2, alpha, 0.3)).all()
    assert (regret[:, steps - 1] <= optimistic_vi_regret_bound(steps, 2, 2, alpha, 0.3, delta)).all()
    # optimism may fail in delta of the replications; were its probability delta, more than 11 of 20 failures had 1e-7
    assert (runs.margin < 0).sum() <= 11
    assert (runs.margin >= 0).mean() >= 1 - delta
    # and it does learn: the policies in use at the end are better than at the start
    late = runs.regret.isel(episode=-1) - runs.regret.isel(episode=-100)
    early = runs.regret.isel(episode=99)
    assert float(late.mean()) < 0.5 * float(early.mean())


def test_bound_by_hand():
    T, S, A, alpha, gamma, delta = 1000, 3, 2, 0.75, 0.5, 0.05
    first = 6 * 0.5 / 0.25 * math.sqrt(9 / 2 * math.log(4 * 1.5 * 9 * 2 * 1000 / (0.25 * 0.05)))
    first *= min(3 * math.sqrt(1001), math.sqrt(3 * 1001 * math.log(1001)))
    tail = 0.5 * 8 / 0.25 + 2 * 0.5 / 0.25 * math.sqrt(2000 * math.log(2 / 0.05))
    assert optimistic_vi_regret_bound(T, S, A, alpha, gamma, delta) == pytest.approx(first + tail, rel=1e-14)
    first = 6 * 0.5 / 0.25 * math.sqrt(9 / 2 * math.log(4 * 1.5 * 9 * 2 * 1000**2 / 0.25))
    first *= min(3 * math.sqrt(1001), math.sqrt(3 * 1001 * math.log(1001)))
    tail = 0.5 * 8 / 0.25 + 2 * 0.5 / 0.25 * math.sqrt(2000 * math.log(2000)) + 2
    assert optimistic_vi_regret_bound(T, S, A, alpha, gamma) == pytest.approx(first + tail, rel=1e-14)


@pytest.mark.parametrize(
    ("options", "code", "fields"),
    [
        ({"delta": 0.0}, "probability-range", {"value": 0.0}),
        ({"delta": 1.0}, "probability-range", {"value": 1.0}),
        ({"T": [5, 0]}, "value-range", {"index": (1,), "value": 0.0}),
        ({"T": 2.5}, "not-an-integer", {"value": 2.5}),
        ({"S": 2.5}, "not-an-integer", {"value": 2.5}),
        ({"alpha": 1.0}, "alpha-range", {"value": 1.0}),
        ({"discount": 1.0}, "discount-range", {"value": 1.0}),
    ],
)
def test_bad_bounds(options, code, fields):
    given = {"T": 10, "S": 2, "A": 2, "alpha": 0.5, "discount": 0.5, "delta": 0.1} | options
    with refused(ParameterError, code, argument=next(iter(options)), **fields):
        optimistic_vi_regret_bound(**given)


def test_bad_settings():
    model, _ = random_model(2, 2, rng=0)
    with refused(ParameterError, "integer-range", argument="horizon", value=0):
        OptimisticVIAgent(model, horizon=0)
    with refused(ParameterError, "probability-range", argument="delta", value=2.0):
        OptimisticVIAgent(model, horizon=10, delta=2)
    with refused(ParameterError, "missing-argument", argument="horizon"):
        OptimisticSettings().plan(model)
    large = pr.UncertainMDP.direct([[0.5], [3.0]], discount=0.5)
    with refused(ModelError, "reward-range", argument="reward", index=(1, 0, 0), value=3.0):
        OptimisticVIAgent(large, horizon=10)
    varied = pr.UncertainMDP([[0]], [[[0, 0]]], [[[0.0, 1.0]]], 0.5)
    with refused(ModelError, "reward-varies", argument="reward"):
        OptimisticVIAgent(varied, horizon=10)
