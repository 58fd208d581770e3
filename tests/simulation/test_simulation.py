"""The simulator: the same story as the Python agents, the same numbers as separate solves."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused, warned

import prudent as pr
from prudent._support.streams import replication_streams
from prudent.agents import (
    PosteriorSamplingAgent,
    SamplingSettings,
    brps_rl,
    certainty_equivalence,
    ts_rl,
    worst_case,
)
from prudent.agents.optimistic_vi import OptimisticVIAgent, optimistic_vi
from prudent.envs.frozen_lake import frozen_lake
from prudent.envs.gymnasium import TabularEnv
from prudent.envs.inventory import inventory
from prudent.envs.random_model import random_model
from prudent.errors import ModelError, ParameterError, PosteriorError
from prudent.risk import MeanCVaR
from prudent.simulation import tabular as simulation
from prudent.simulation.tabular import simulate

LAKE = frozen_lake(0.2)
EVERY = [
    ts_rl(),
    brps_rl(0.99),
    brps_rl(0.7),
    brps_rl(0.7, estimator="modified"),
    brps_rl(0.9, sweeps=100),
    brps_rl(0.9, draws=40),
    brps_rl([0.9, 0.9, 0.0]),
    certainty_equivalence(),
    worst_case(30),
    SamplingSettings(risk=MeanCVaR(0.8, weight=0.5)),
]
PROBLEMS = {
    "lake": LAKE,
    "inventory": inventory(),
    "censored": inventory(censored=True),
    "random": random_model(6, 3, branching=4, rng=5),
}


def by_hand(problem, agent, env_rng, episodes, length):
    """Let a Python agent act in the Gymnasium environment; return states, rewards and policies."""
    env = TabularEnv(problem)
    state, _ = env.reset()
    env.np_random = env_rng
    states, rewards, policies = [], [], []
    for _ in range(episodes):
        for i in range(length):
            action = agent.act(state)
            if i == 0:
                policies.append(agent.policy)
            target, reward, _, _, info = env.step(action)
            agent.observe(state, action, target, info.get("outcome"))
            states.append(state)
            rewards.append(reward)
            state = target
    shape = (episodes, length)
    return np.reshape(states, shape), np.reshape(rewards, shape), np.array(policies)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("settings", EVERY, ids=lambda each: each.label)
def test_simulator_and_python_agent_give_the_same_trajectory(name, settings):
    problem = PROBLEMS[name]
    runs = simulate(
        problem, settings, episodes=12, episode_length=7, replications=2, rng=11,
        record=("states", "rewards", "policies"),
    )  # fmt: skip
    for r in range(2):
        env_rng, agent_rng = replication_streams(11, r)
        agent = PosteriorSamplingAgent(problem.model, settings=settings, episode_length=7, rng=agent_rng, indices=True)
        states, rewards, policies = by_hand(problem, agent, env_rng, 12, 7)
        one = runs.isel(agent=0, replication=r)
        assert (one.states == states).all()
        assert (one.policies == policies).all()
        assert (one.rewards == rewards).all()
        assert (one.reward == rewards.sum(axis=1)).all()


def test_optimistic_agent_gives_the_same_trajectory():
    problem = random_model(2, 2, discount=0.3, rng=3)
    runs = simulate(
        problem, optimistic_vi(0.5), episodes=60, episode_length=50, replications=2, rng=1,
        record=("states", "rewards", "policies"),
    )  # fmt: skip
    assert len(np.unique(runs.policies[0, 0].values, axis=0)) > 1  # it has learned something
    for r in range(2):
        env_rng, agent_rng = replication_streams(1, r)
        agent = OptimisticVIAgent(problem.model, 0.5, horizon=3000, rng=agent_rng)
        states, rewards, policies = by_hand(problem, agent, env_rng, 60, 50)
        one = runs.isel(agent=0, replication=r)
        assert (one.states == states).all()
        assert (one.rewards == rewards).all()
        assert (one.policies == policies).all()


@pytest.mark.parametrize("problem", [LAKE, inventory(), random_model(400, 2, branching=3, rng=0)], ids=str)
def test_regret_is_that_of_separate_exact_solves(problem, monkeypatch):
    monkeypatch.setattr(simulation, "CACHED_NUMBERS", 1)  # the smallest cache, so that policies push each other out
    runs = simulate(problem, [ts_rl(), brps_rl(0.9)], episodes=15, replications=2, record=("states", "policies"))
    mdp = problem.mdp()
    scale = abs(problem.model.reward).max() / (1 - problem.model.discount)
    best = pr.solve(mdp, tol=1e-11 * scale).value
    for a in range(2):
        for r in range(2):
            one, total = runs.isel(agent=a, replication=r), 0.0
            for t in range(15):
                own = pr.evaluate(mdp, one.policies[t].values.astype(int), tol=1e-11 * scale).value
                total += (best - own)[one.states[t].values].sum()
                assert one.regret[t] == pytest.approx(total, abs=1e-7 * scale)
    assert (runs.regret.diff("episode") >= -1e-8 * scale).all()


def test_br_regret_is_exact_and_never_negative():
    runs = simulate(
        LAKE, [ts_rl(), brps_rl(0.9), certainty_equivalence()], episodes=31, replications=8, br_episodes=[0, 4, 30],
        alphas=[0.0, 0.5, 0.99], record=("states", "policies"),
    )  # fmt: skip
    assert runs.br_regret.dims == ("agent", "replication", "br_episode", "alpha")
    assert runs.alpha.values.tolist() == [0.0, 0.5, 0.99]
    assert runs.br_episode.values.tolist() == [0, 4, 30]
    assert float(runs.br_regret.min()) > -1e-11
    # the policy of certainty equivalence is the best one at alpha = 0
    assert float(abs(runs.br_regret.sel(agent="certainty equivalence", alpha=0.0)).max()) < 1e-8
    assert float(runs.br_regret.sel(agent="TS-RL", alpha=0.0).mean()) > 0.01
    # by hand: the prior is the posterior of episode 0
    brmdp = pr.BayesianRiskMDP(LAKE.model, LAKE.model.prior(), 0.5)
    best = brmdp.solve(tol=1e-12).value
    for r in range(8):
        one = runs.isel(agent=0, replication=r, episode=0)
        own = brmdp.evaluate(one.policies.values.astype(int), tol=1e-12).value
        expected = (best - own)[one.states.values].sum()
        assert runs.br_regret.sel(br_episode=0, alpha=0.5)[0, r] == pytest.approx(expected, abs=1e-9)


def test_br_regret_at_each_agents_own_level():
    runs = simulate(LAKE, [ts_rl(), brps_rl(0.9)], episodes=3, replications=3, br_episodes=2)
    assert runs.br_regret.dims == ("agent", "replication", "br_episode")
    both = simulate(LAKE, [ts_rl(), brps_rl(0.9)], episodes=3, replications=3, br_episodes=2, alphas=[0.0, 0.9])
    for a in range(2):
        assert (runs.br_regret[a] == both.br_regret[a, ..., a]).all()
        assert (runs.br_regret[a] != both.br_regret[a, ..., 1 - a]).any()  # the other level would have been seen


def test_threads_order_and_replications_do_not_matter():
    agents = [ts_rl(), brps_rl(0.9)]
    one = simulate(LAKE, agents, episodes=30, replications=9, threads=1, br_episodes=[5], record=("states",))
    two = simulate(LAKE, agents, episodes=30, replications=9, threads=2, br_episodes=[5], record=("states",))
    assert one.equals(two)
    more = simulate(LAKE, agents[::-1], episodes=30, replications=13, br_episodes=[5], record=("states",))
    assert more.sel(agent=list(one.agent.values), replication=slice(0, 8)).equals(one)
    other = simulate(LAKE, agents, episodes=30, replications=9, rng=1)
    assert not (other.regret == one.regret).all()
    later = simulate(
        LAKE, agents, episodes=30, replications=4, first_replication=5, br_episodes=[5], record=("states",)
    )
    assert one.sel(replication=slice(5, 8)).equals(later)
    longer = simulate(LAKE, agents, episodes=60, replications=9)
    assert (longer.regret[:, :, :30].values == one.regret.values).all()


def test_agents_meet_the_same_random_numbers():
    """One source decides where every action leads: agents that act differently must still see the same states."""
    rng = np.random.default_rng(1)
    next_state = np.broadcast_to(np.arange(5), (5, 3, 5))
    model = pr.UncertainMDP(np.zeros((5, 3), dtype=int), next_state, rng.random((5, 3, 5)), 0.9)
    runs = simulate(
        (model, [[0.1, 0.3, 0.2, 0.15, 0.25]]), [ts_rl(), worst_case(50), certainty_equivalence()], episodes=20,
        replications=3, record=("states", "policies"),
    )  # fmt: skip
    for other in (1, 2):
        assert (runs.policies[0].values != runs.policies[other].values).any()
        assert (runs.states[0].values == runs.states[other].values).all()
    assert (runs.states[0, 0].values != runs.states[0, 1].values).any()  # replications differ


def test_dataset():
    runs = simulate(
        LAKE, ts_rl(), episodes=4, replications=3, episode_length=5, record=("states", "policies", "rewards")
    )
    assert dict(runs.sizes) == {"agent": 1, "replication": 3, "episode": 4, "step": 5, "state": 16}
    assert set(runs.data_vars) == {"regret", "reward", "rewards", "states", "policies"}
    assert runs.attrs["episode_length"] == 5
    assert runs.states[0, :, 0, 0].values.tolist() == [0, 0, 0]
    elsewhere = simulate(LAKE, ts_rl(), episodes=1, replications=2, start=9, record=("states",))
    assert elsewhere.states[0, :, 0, 0].values.tolist() == [9, 9]
    mixed = simulate(random_model(3, 2, discount=0.5, rng=0), [ts_rl(), optimistic_vi(0.5)], episodes=2, replications=3)
    assert np.isnan(mixed.margin.sel(agent="TS-RL")).all()
    assert (mixed.margin.sel(agent="optimistic VI 0.5") > 0).all()


def test_a_prior_that_knows_the_truth_has_no_regret():
    runs = simulate(LAKE, ts_rl(), episodes=5, replications=2, prior=1e9 * LAKE.theta)
    assert float(abs(runs.regret).max()) < 1e-9


@pytest.mark.parametrize("pairing", ["step", "source"])
def test_short_replications_run_together_with_the_same_bits(pairing, seed, monkeypatch):
    options = {"episodes": 3, "replications": 7, "pairing": pairing, "first_replication": 2, "rng": seed}
    options |= {"br_episodes": [2], "alphas": 0.5, "record": ("states", "policies", "rewards"), "threads": 1}
    sizes = []
    real = simulation.run_sampling
    monkeypatch.setattr(simulation, "run_sampling", lambda *each: sizes.append(each[-1].size) or real(*each))
    monkeypatch.setattr(simulation, "MOST_TOGETHER", 3)
    together = simulate(LAKE, [ts_rl(), brps_rl(0.9)], **options)
    monkeypatch.setattr(simulation, "can_restart", lambda: False)  # as where NumPy keeps states otherwise
    alone = simulate(LAKE, [ts_rl(), brps_rl(0.9)], **options)
    assert sizes == [3, 3, 1] * 2 + [1] * 14
    assert together.identical(alone)


def test_a_solver_at_its_cap_is_not_silent(monkeypatch):
    monkeypatch.setattr(simulation, "run_sampling", lambda *arguments: arguments[-1].fill(2))
    with warned(pr.errors.ConvergenceWarning, "policy-not-optimal", agent="TS-RL", value=6):
        simulate(LAKE, ts_rl(), episodes=5, replications=3)


@pytest.mark.parametrize(
    ("options", "error", "code", "fields"),
    [
        ({"agents": []}, ParameterError, "empty", {"argument": "agents"}),
        ({"agents": [0.9]}, ParameterError, "wrong-type", {"argument": "agents", "index": (0,), "value": 0.9}),
        ({"agents": [ts_rl(), brps_rl(0)]}, ParameterError, "duplicate-label", {"argument": "agents"}),
        ({"episodes": 0}, ParameterError, "integer-range", {"argument": "episodes", "value": 0}),
        ({"replications": 1.5}, ParameterError, "not-an-integer", {"argument": "replications", "value": 1.5}),
        ({"rng": -1}, ParameterError, "integer-range", {"argument": "rng", "value": -1}),
        ({"start": 16}, ParameterError, "unknown-start", {"argument": "start", "value": 16}),
        ({"br_episodes": [3]}, ParameterError, "index-range", {"argument": "br_episodes", "index": (0,), "value": 3}),
        ({"br_episodes": [0], "alphas": 1.0}, ParameterError, "alpha-range", {"argument": "alphas", "value": 1.0}),
        ({"alphas": 0.9}, ParameterError, "missing-argument", {"argument": "br_episodes"}),
        (
            {"br_episodes": [0], "agents": [ts_rl(), brps_rl([0.5, 0.1])]},
            ParameterError,
            "missing-argument",
            {"argument": "alphas", "index": (1,)},
        ),
        ({"record": ["colours"]}, ParameterError, "unknown-option", {"argument": "record", "value": "colours"}),
        (
            {"prior": LAKE.model.prior() * (np.arange(11) > 0)},
            PosteriorError,
            "impossible-outcome",
            {"argument": "prior", "index": (0, 0)},
        ),
        ({"agents": [optimistic_vi()], "problem": inventory()}, ModelError, "reward-range", {}),
    ],
)
def test_bad_input(options, error, code, fields):
    given = {"problem": LAKE, "agents": [ts_rl()], "episodes": 2, "replications": 1} | options
    with refused(error, code, **fields):
        simulate(**given)


@pytest.mark.slow
@pytest.mark.parametrize("p_h", [0.1, 0.2, 0.6, 0.8])
def test_risk_aversion_lowers_regret(p_h):
    """500 replications, 400 episodes: paired differences to Thompson sampling, below zero by 4.75 standard errors.

    If an agent had the same regret as Thompson sampling, this would pass with probability 1e-6.
    """
    runs = simulate(frozen_lake(p_h), [ts_rl()] + [brps_rl(a) for a in (0.5, 0.8, 0.9)], replications=500)
    final = runs.regret.isel(episode=-1)
    gain = final[1:] - final[0]
    error = gain.std("replication", ddof=1) / np.sqrt(500)
    mean = gain.mean("replication")
    print(p_h, final.mean("replication").values.round(2), mean.values.round(2), error.values.round(2))
    assert (mean < -4.75 * error).all()
