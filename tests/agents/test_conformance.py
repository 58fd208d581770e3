"""What every tabular agent and every tabular environment must do. A new one joins by an entry in a registry below.

Environments join by being registered with Gymnasium, too.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.agents import TabularAgent
from prudent.envs.gymnasium import MAKERS, TabularEnv
from prudent.errors import DataError, ModelError, ParameterError
from prudent.schedules import Falling

AGENTS = (
    {  # problem, seed -> an agent that goes by index
        each.label: lambda problem, seed, each=each: pr.PosteriorSamplingAgent(
            problem.model, settings=each, episode_length=7, rng=seed, indices=True
        )
        for each in (
            pr.agents.ts_rl(),
            pr.brps_rl(0.9),
            pr.brps_rl(0.7, estimator="modified", label="mine"),
            pr.brps_rl(-0.8),
            pr.brps_rl(Falling(0.9, scale=3, unseen=-0.5), label="falling"),
            pr.brps_rl([0.99, 0.5, 0.0], sweeps=30),
            pr.agents.certainty_equivalence(),
            pr.agents.worst_case(5),
            pr.agents.SamplingSettings(risk=pr.MeanCVaR(0.8, weight=0.5)),
            pr.agents.SamplingSettings(risk=pr.Spectral(lambda u: 1 - (1 - u) ** 2), draws=6, label="spectral"),
        )
    }
    | {
        "optimistic": lambda problem, seed: pr.OptimisticVIAgent(
            problem.model, settings=pr.agents.optimistic_vi(0.5, horizon=500, label="hopeful"), rng=seed, indices=True
        ),
    }
    | {
        each.label: lambda problem, seed, each=each: pr.agents.QLearningAgent(
            problem.model, settings=each, rng=seed, indices=True
        )
        for each in (
            pr.agents.brql(0.5, batch=7, updates=3),
            pr.agents.brql(0.5, batch=3, updates=2, pairs="visited"),
            pr.agents.brql(0.5, risk="var", draws=20, batch=7, updates=3),
        )
    }
)


def barred():
    """Some actions are not admissible, some sources are shared, some outcomes are missing."""
    source = [[0, -1, 1], [1, 0, -1], [-1, -1, 0]]
    next_state = np.array([[[0, 1, 2]] * 3, [[1, 2, 2]] * 3, [[2, 0, 1]] * 3])
    next_state[[0, 1], [2, 0], 2] = -1
    reward = np.broadcast_to(np.array([0.1, 0.5, 0.9])[:, None], (3, 3))
    return pr.envs.Problem(pr.UncertainMDP(source, next_state, reward, 0.8), [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])


PROBLEMS = {
    "one escape source": pr.envs.frozen_lake(0.2),
    "censored demand": pr.envs.inventory(censored=True),
    "direct": pr.envs.random_model(6, 3, branching=4, discount=0.5, rng=5),
    "barred actions": barred(),
} | {name: env.problem for name in MAKERS if isinstance(env := gymnasium.make(name).unwrapped, TabularEnv)}

every_agent = pytest.mark.parametrize("kind", AGENTS)
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def agent_for(kind, problem, seed=3):
    """Return a registered agent; a problem that does not suit it (rewards beyond [0, 1]) is left out."""
    try:
        return AGENTS[kind](problem, seed)
    except ModelError as reason:
        pytest.skip(str(reason))


def live(agent, problem, steps, seed, state=None):
    """Let an agent act and learn; return its log with rows (state, action, next_state, outcome or -1)."""
    env, log = TabularEnv(problem), []
    state, info = env.reset(seed=seed, options={} if state is None else {"state": state})
    for _ in range(steps):
        action = agent.act(state)
        assert info["action_mask"][action]
        target, _, _, _, info = env.step(action)
        outcome = info.get("outcome")
        agent.observe(state, action, target, outcome)
        log.append((state, action, target, -1 if outcome is None else outcome))
        state = target
    return log


# -- agents ----------------------------------------------------------------------------------------------------


def test_every_kind_of_agent_is_registered():
    kinds = {each for each in vars(pr.agents).values() if isinstance(each, type) and issubclass(each, TabularAgent)}
    kinds.remove(TabularAgent)
    assert kinds == {type(make(PROBLEMS["direct"], 0)) for make in AGENTS.values()}


@every_agent
@every_problem
def test_an_agent_acts_admissibly_and_counts_what_it_saw(kind, name):
    problem = PROBLEMS[name]
    agent = agent_for(kind, problem)
    log = live(agent, problem, 40, seed=1)
    counts = problem.model.count(log, problem.model.prior(), indices=True)
    assert agent.posterior == pr.DirichletPosterior(counts, problem.model.prior())
    if agent.policy.ndim == 2:  # one that explores
        np.testing.assert_allclose(agent.policy.sum(axis=1), 1.0)
        assert not agent.policy[~problem.model.admissible].any()
    else:
        assert problem.model.admissible[np.arange(problem.model.n_states), agent.policy].all()
    assert np.isfinite(agent.value).all()


@every_agent
@every_problem
def test_an_agent_is_decided_by_its_seed(kind, name):
    problem = PROBLEMS[name]
    one, two = agent_for(kind, problem), agent_for(kind, problem)
    assert live(one, problem, 30, seed=2) == live(two, problem, 30, seed=2)
    assert one.value.tolist() == two.value.tolist()


@every_agent
@every_problem
@pytest.mark.parametrize("before", [0, 10])
def test_a_saved_agent_goes_on_bit_for_bit(tmp_path, kind, name, before):
    problem = PROBLEMS[name]
    agent = agent_for(kind, problem)
    live(agent, problem, before, seed=1)
    agent.save(tmp_path / "agent.state")
    loaded = type(agent).load(tmp_path / "agent.state")
    assert live(loaded, problem, 30, seed=2) == live(agent, problem, 30, seed=2)
    assert loaded.value.tolist() == agent.value.tolist()
    assert loaded.posterior == agent.posterior
    assert loaded.model == agent.model
    assert loaded.settings.label == agent.settings.label
    assert repr(loaded) == repr(agent)
    if "spectral" not in kind:  # a function cannot be saved, its weights are
        assert loaded.settings == agent.settings


@every_agent
@every_problem
def test_an_agent_refuses_what_the_model_does_not_have(kind, name):
    problem = PROBLEMS[name]
    agent, size = agent_for(kind, problem), problem.model.n_states
    before = agent.posterior
    with refused(ParameterError, "unknown-state", argument="state", value=size):
        agent.act(size)
    action = agent.act(problem.start)
    for row, what, code in (
        ((size, action, 0), "state", "unknown-state"),
        ((problem.start, problem.model.n_actions, 0), "action", "unknown-action"),
        ((problem.start, action, "nowhere"), "next_state", "unknown-state"),
        ((problem.start, action, 0, 99), "outcome", "unknown-outcome"),
    ):
        with refused(DataError, code, argument=what):
            agent.observe(*row)
    assert agent.posterior == before


@every_agent
@every_problem
def test_an_agent_goes_through_a_simulation(kind, name):
    problem = PROBLEMS[name]
    settings = agent_for(kind, problem).settings
    runs = pr.simulate(problem, settings, episodes=3, episode_length=5, replications=2, threads=1)
    assert runs.agent.values.tolist() == [settings.label]
    steps = runs.regret.diff("episode")
    assert (steps >= -1e-9 * abs(problem.model.reward).max() / (1.0 - problem.model.discount)).all()


# -- environments ------------------------------------------------------------------------------------------------


@every_problem
def test_a_truth_is_a_distribution_on_the_outcomes_of_its_model(name):
    model, theta = PROBLEMS[name]
    assert theta.shape == model.outcome_mask.shape
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (theta >= 0.0).all()
    assert (theta[~model.outcome_mask] == 0.0).all()


@every_problem
def test_a_problem_can_be_solved_and_caution_costs(name):
    problem = PROBLEMS[name]
    true = pr.solve(problem.mdp())
    assert true.converged
    assert (pr.evaluate(problem.mdp(), true.policy).value >= true.value - 2.0 * true.error_bound - 1e-9).all()
    bold, careful = (pr.BayesianRiskMDP(problem.model, problem.model.prior(), alpha).solve() for alpha in (0.0, 0.8))
    assert bold.converged
    assert careful.converged
    assert (careful.value <= bold.value + bold.error_bound + careful.error_bound).all()


@every_problem
def test_the_environment_follows_the_law_of_the_model(name, rng):
    """Frequencies of next states: binomial tests at 1e-10 each, exact, fewer than 5,000 in all (false alarm 5e-7)."""
    problem, n = PROBLEMS[name], 1000
    env = TabularEnv(problem)
    chance = problem.mdp().dense()
    pairs = np.argwhere(problem.model.admissible)
    for s, a in rng.permutation(pairs)[:4]:
        seen = np.zeros(problem.model.n_states, dtype=int)
        for _ in range(n):
            env.reset(options={"state": int(s)})
            target, reward, terminated, truncated, _ = env.step(int(a))
            assert not terminated
            assert not truncated
            arrives = problem.model.next_state[s, a] == target
            assert reward in problem.model.reward[s, a, arrives]
            seen[target] += 1
        for times, p in zip(seen.tolist(), chance[s, a].tolist(), strict=True):
            assert stats.binomtest(times, n, min(p, 1.0)).pvalue > 1e-10
