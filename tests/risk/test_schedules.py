"""Levels below zero and levels that change, in agents and in their simulation."""

from itertools import pairwise

import numpy as np
import pytest
from _draws import draws_of
from refusals import refused

import prudent as pr
from prudent._support.streams import replication_streams
from prudent.errors import ParameterError
from prudent.planning.inner import grid, grid_place
from prudent.risk import CVaR
from prudent.schedules import Decay, Falling, FunctionSchedule

LAKE = pr.envs.frozen_lake(0.2)
RIVER = pr.envs.river_swim(4)
SHARED = pr.envs.river_swim(sources="shared")


# -- negative levels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [LAKE, RIVER], ids=["lake", "river"])
@pytest.mark.parametrize("alpha", [-0.5, -0.7, -0.9])
def test_an_optimistic_agent_values_actions_by_its_highest_draws(problem, alpha):
    """Its values are those of the same draws in the certified solver."""
    agent = pr.PosteriorSamplingAgent(problem.model, alpha=alpha, rng=5)
    theta = draws_of(problem.model.prior(), pr.sample_size(alpha), rng=5)
    solution = pr.BayesianRiskMDP(problem.model, draws=theta, alpha=alpha).solve(tol=1e-11)
    np.testing.assert_allclose(agent.value, solution.value, atol=1e-8)
    by_sweeps = pr.PosteriorSamplingAgent(problem.model, alpha=alpha, rng=5, sweeps=600)
    np.testing.assert_allclose(by_sweeps.value, solution.value, atol=1e-8)
    careful = pr.PosteriorSamplingAgent(problem.model, alpha=-alpha, rng=5)
    assert (careful.value < agent.value).all()


def test_other_measures_of_both_signs():
    for risk in (pr.MeanCVaR(-0.8, weight=0.5), pr.VaR(-0.8), pr.risk.Mixture((-0.5, 0.5), (0.5, 0.5))):
        agent = pr.PosteriorSamplingAgent(RIVER.model, risk=risk, draws=10, rng=2)
        theta = draws_of(RIVER.model.prior(), 10, rng=2)
        solution = pr.BayesianRiskMDP(RIVER.model, draws=theta, risk=risk).solve(tol=1e-11)
        np.testing.assert_allclose(agent.value, solution.value, atol=1e-8)


# -- schedules -------------------------------------------------------------------------------------------------


def regrets(problem, settings, **options):
    options = {"episodes": 30, "replications": 2, "seed": 4, "threads": 1} | options
    return pr.simulate(problem, [settings], **options).regret.values


@pytest.mark.parametrize("level", [0.0, 0.5, 0.9, 0.7, -0.8, -0.37])
def test_a_constant_schedule_is_the_level(level):
    for problem in (LAKE, RIVER):
        one = regrets(problem, pr.brps_rl(level))
        np.testing.assert_array_equal(one, regrets(problem, pr.brps_rl(lambda e, v: level)))
        np.testing.assert_array_equal(one, regrets(problem, pr.brps_rl(FunctionSchedule(lambda e, v: level + 0.0 * v))))


def test_a_schedule_over_episodes_is_a_list_of_levels():
    schedule = Falling(0.9, scale=5)
    listed = pr.brps_rl(schedule.level(np.arange(30)).tolist())
    np.testing.assert_array_equal(regrets(RIVER, listed), regrets(RIVER, pr.brps_rl(schedule)))
    halving = Decay(-0.9, half=4)
    listed = pr.brps_rl(halving.level(np.arange(30)).tolist())
    np.testing.assert_array_equal(regrets(LAKE, listed), regrets(LAKE, pr.brps_rl(halving)))


def test_visits_are_observations_of_the_source():
    """Each source is drawn at the level of its own visits: the agent's values are those of draws made by hand."""

    def level(episode, visits):
        return 0.9 if visits >= 2 else -0.5 if visits == 1 else 0.0

    agent = pr.PosteriorSamplingAgent(RIVER.model, alpha=level, episode_length=None, rng=3)
    agent.observe(0, 1, 1)
    agent.observe(0, 0, 0)
    agent.observe(0, 0, 0)
    counts = agent.posterior.counts
    agent.refresh()
    # the same draws, one source after the other
    rng = np.random.default_rng(3)
    entries, model = RIVER.model.entries, RIVER.model
    visits = (counts - model.prior()).sum(axis=1).round()
    theta = []
    for b in range(model.n_sources):
        own = counts[b, entries.outcome[entries.begin[b] : entries.begin[b + 1]]]
        n = {0: 1, 1: 2, 2: 10}[int(visits[b])]
        gammas = np.array([rng.standard_gamma(c, n) for c in own])
        theta.append((gammas / gammas.sum(axis=0)).T)
    value = np.zeros(model.n_states)
    for _ in range(700):
        q = np.full((model.n_states, 2), -np.inf)
        for s in range(model.n_states):
            for a in range(2):
                b = model.source[s, a]
                k = entries.outcome[entries.begin[b] : entries.begin[b + 1]]
                z = theta[b] @ (model.reward[s, a, k] + model.discount * value[model.next_state[s, a, k]])
                q[s, a] = CVaR({0: 0.0, 1: -0.5, 2: 0.9}[int(visits[b])])(z)
        value = q.max(axis=1)
    np.testing.assert_allclose(agent.value, value, atol=1e-8)


def test_the_agent_and_the_simulation_follow_one_schedule():
    """The compiled loop against the plain agent, whose table has one row: the same policies."""
    settings = pr.brps_rl(Falling(0.9, scale=2, unseen=-0.5))
    data = pr.simulate(RIVER, [settings], episodes=25, replications=1, rng=9, threads=1, record=["states", "policies"])
    _, rng = replication_streams(9, 0)
    agent = pr.PosteriorSamplingAgent(RIVER.model, settings=settings, episode_length=None, rng=rng, indices=True)
    for t in range(25):
        agent.refresh()
        np.testing.assert_array_equal(agent.policy, data.policies.values[0, 0, t])
        path = data.states.values[0, 0, t : t + 2].reshape(-1)[:11].tolist()  # and the first state of the next episode
        for s, after in pairwise(path if t < 24 else ()):
            agent.observe(s, int(agent.policy[s]), after)


def test_levels_of_named_schedules():
    assert Falling(0.9, scale=5).level([0, 5], [3, 0]).tolist() == [0.9, 0.45]
    assert Falling(0.9, scale=5, unseen=-0.5).level(0, [0, 1]).tolist() == [-0.5, 0.9]
    assert Falling(0.9, scale=5).most_draws == 10
    assert Falling(0.5, scale=5, unseen=-0.9).most_draws == 10
    n, share = Falling(0.7, scale=1).rule(0)
    assert (int(n), float(share)) == (4, pytest.approx(CVaR(0.7).lowest_weights(4)[0]))
    for level in np.linspace(-0.99, 0.99, 67):
        n, share = FunctionSchedule(lambda e, v, level=level: level).rule(0)
        weights, sign = CVaR(level).outermost(pr.sample_size(level))
        assert int(n) == int(sign) * pr.sample_size(level)
        assert float(share) == pytest.approx(weights[0], abs=1e-12)
    assert pr.brps_rl(Falling(0.9, scale=5)).label == "BRPS-RL 0.9, falling"
    assert pr.brps_rl(Decay(0.9, half=5)).label == "BRPS-RL 0.9, halving"
    assert pr.brps_rl(Falling(0.9, scale=5, unseen=0)).label == "BRPS-RL 0.9, falling, 0 unseen"


def test_the_grid_of_a_table_keeps_three_digits():
    numbers = grid(10**7)
    assert (np.diff(numbers) > 0).all()
    for i in (0, 1, 999, 1000, 1009, 1010, 9_999, 10_000, 123_456, 9_999_999):
        assert numbers[grid_place(i)] == (i if i < 1000 else i - i % 10 ** (len(str(i)) - 3))


def test_schedules_are_saved_by_name(tmp_path):
    for schedule in (Falling(0.9, scale=5, unseen=-0.5), Decay(0.9, half=3)):
        agent = pr.PosteriorSamplingAgent(RIVER.model, alpha=schedule, rng=1)
        for _ in range(12):
            agent.observe(0, agent.act(0), 0 if agent.policy[0] == 0 else 1)
        agent.save(tmp_path / "agent.state")
        again = pr.PosteriorSamplingAgent.load(tmp_path / "agent.state")
        assert again.settings == agent.settings
        for each in (agent, again):
            each.refresh()
        np.testing.assert_array_equal(again.value, agent.value)
    own = pr.PosteriorSamplingAgent(RIVER.model, alpha=lambda e, v: 0.5, rng=1)
    with refused(ParameterError, "not-savable"):
        own.save(tmp_path / "own.state")


@pytest.mark.parametrize(
    ("call", "code", "fields"),
    [
        (lambda: Falling(1.0, scale=5), "alpha-range", {"argument": "start", "value": 1.0}),
        (lambda: Falling(0.9, scale=0), "not-positive", {"argument": "scale", "value": 0.0}),
        (lambda: Falling(0.9, scale=5, unseen=-1), "alpha-range", {"argument": "unseen", "value": -1.0}),
        (lambda: pr.brps_rl(Falling(0.9, 5), draws=3), "conflicting-arguments", {}),
        (lambda: pr.brps_rl(Falling(0.9, 5), estimator="modified"), "conflicting-arguments", {}),
        (lambda: regrets(RIVER, pr.brps_rl(lambda e, v: 1.0)), "alpha-range", {"argument": "alpha", "value": 1.0}),
        (lambda: regrets(RIVER, pr.brps_rl(lambda e, v: "x")), "not-a-number", {"argument": "alpha", "value": "x"}),
        (lambda: regrets(RIVER, pr.brps_rl(lambda e, v: float("nan"))), "alpha-range", {"argument": "alpha"}),
        (lambda: pr.envs.river_swim(1), "integer-range", {"argument": "n_states", "value": 1}),
        (lambda: pr.envs.river_swim(sources="all"), "unknown-option", {}),
    ],
)
def test_bad_schedules_are_named(call, code, fields):
    with refused(ParameterError, code, **fields):
        call()


# -- what they are for -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_named_schedule_gets_stuck_in_the_river():
    """Mean regret of 40 replications: within three times Thompson sampling's if what is unseen is not feared.

    The ratio is near one, each mean is known to a third of itself or better: a false alarm takes six standard errors.
    """
    agents = [pr.agents.ts_rl(), pr.brps_rl(0.9), pr.brps_rl(Falling(0.9, 5, unseen=0.0)), pr.brps_rl(Falling(0.9, 5))]
    data = pr.simulate(SHARED, agents, episodes=300, replications=40, rng=2, threads=1).regret.mean("replication")
    last = data.isel(episode=-1).values
    half = data.isel(episode=149).values
    assert last[2] < 3.0 * last[0]
    assert last[1] > 50.0 * last[0]  # a level that stays
    assert last[3] - half[3] < 0.01 * last[3]  # one that falls pays early and no more
