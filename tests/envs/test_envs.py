"""Environments: Gymnasium's own checks, the same random numbers as the simulator, inventory by hand."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from refusals import refused

import prudent as pr
from prudent.agents import PosteriorSamplingAgent
from prudent.envs.frozen_lake import frozen_lake
from prudent.envs.gymnasium import MAKERS, GymnasiumModel, TabularEnv, register
from prudent.envs.inventory import inventory
from prudent.envs.problem import Problem
from prudent.envs.random_model import random_model
from prudent.errors import DataError, ModelError, ParameterError
from prudent.simulation import learn

register()


# -- what every registered environment does ----------------------------------------------------------------


every_environment = pytest.mark.parametrize("name", MAKERS)


def modes(name):
    """The ways in which this environment can be drawn, None included; bandits draw nothing."""
    return [None, *gymnasium.make(name).metadata["render_modes"]]


def walked(env, seed, steps=40):
    """Everything that random actions from this seed show."""
    env.action_space.seed(seed)
    shown = [env.reset(seed=seed)]
    for _ in range(steps):
        shown.append(env.step(env.action_space.sample(shown[-1][-1].get("action_mask"))))
    return shown


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in MAKERS for mode in modes(name)])
def test_gymnasium_accepts_it(name, mode):
    env = gymnasium.make(name) if mode is None else gymnasium.make(name, render_mode=mode)
    with warnings.catch_warnings():
        # Gymnasium warns that spec.max_episode_steps is unset, and that other modes were not looked at
        warnings.simplefilter("ignore", UserWarning)
        check_env(env.unwrapped, skip_render_check=mode is None)


@every_environment
def test_the_seed_decides_everything(name):
    one, two = (walked(gymnasium.make(name).unwrapped, seed=3) for _ in range(2))
    np.testing.assert_equal(one, two)
    with pytest.raises(AssertionError):  # two walks of 40 random steps do not agree by chance
        np.testing.assert_equal(one, walked(gymnasium.make(name).unwrapped, seed=4))


@every_environment
def test_a_wrong_action_is_refused_and_nothing_happens(name):
    env, twin = gymnasium.make(name).unwrapped, gymnasium.make(name).unwrapped
    env.reset(seed=1)
    twin.reset(seed=1)
    for wrong in (-1, env.action_space.n, "left", None, 0.5):
        code = "inadmissible-action" if isinstance(env, TabularEnv) else "unknown-arm"
        with refused(ParameterError, code, argument="action", value=wrong):
            env.step(wrong)
    np.testing.assert_equal(env.step(0), twin.step(0))


def test_options_reach_the_problem():
    env = gymnasium.make("prudent/FrozenLake-v0", p_h=0.35)
    assert env.unwrapped.problem.theta[1, 0] == 0.35
    register()  # twice does no harm


# -- problems as environments ------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [frozen_lake(0.3), inventory(), random_model(6, 2, branching=3, rng=1)])
def test_walks_as_the_model_does(problem):
    """Environment and ``UncertainMDP.trajectory`` invert the same uniforms."""
    policy = np.random.default_rng(0).integers(problem.model.n_actions, size=problem.model.n_states)
    env = TabularEnv(problem)
    state, info = env.reset(seed=5)
    env.np_random = np.random.default_rng(9)
    log = problem.model.trajectory(problem.theta, policy, steps=300, state=problem.start, rng=9)
    for s, a, target, outcome in log.tolist():
        assert state == s
        state, reward, terminated, truncated, info = env.step(a)
        assert (state, info["outcome"], terminated, truncated) == (target, outcome, False, False)
        assert reward == problem.model.reward[s, a, outcome]


def test_reset_elsewhere_and_mask():
    model = pr.UncertainMDP([[0, -1], [0, 0]], [[[0, 1], [-1, -1]], [[0, 1], [1, 0]]], [[0.0, 0.0]] * 2, discount=0.5)
    env = TabularEnv(Problem(model, [[0.5, 0.5]]))
    state, info = env.reset(options={"state": 1})
    assert state == 1
    assert info["action_mask"].tolist() == [1, 1]
    state, info = env.reset()
    assert info["action_mask"].tolist() == [1, 0]
    with refused(ParameterError, "inadmissible-action", argument="action", value=1, state=0):
        env.step(1)
    with refused(ParameterError, "inadmissible-action", argument="action", value=7):
        env.step(7)
    with refused(ParameterError, "unknown-state", argument="options", value=2):
        env.reset(options={"state": 2})
    with refused(ParameterError, "unknown-option", argument="render_mode", value="human"):
        TabularEnv(Problem(model, [[0.5, 0.5]]), render_mode="human")


def test_pictures_show_the_state():
    env = TabularEnv(frozen_lake(), render_mode="rgb_array")
    env.reset()
    first = env.render()
    assert first.shape == (128, 128, 3)
    assert first.dtype == np.uint8
    env.reset(options={"state": 6})
    second = env.render()
    differs = np.argwhere((first != second).any(axis=2)) // 32
    assert {tuple(cell) for cell in differs.tolist()} == {(0, 0), (1, 2)}
    env = TabularEnv(frozen_lake(), render_mode="ansi")
    env.reset(options={"state": 6})
    assert env.render().splitlines()[1] == " F H[F]H"
    env.step(2)
    assert env.render().splitlines()[-1] == "(right)"
    stock = TabularEnv(inventory(capacity=4, backlog=2), render_mode="ansi")
    stock.reset()
    assert stock.render() == "state 0 (3 of 7)"
    large = TabularEnv(random_model(40, 2, branching=2, rng=0), render_mode="rgb_array")
    large.reset()
    assert large.render().shape == (3 * 32, 16 * 32, 3)
    assert TabularEnv(frozen_lake()).render() is None


# -- inventory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [0, 3])
def test_inventory_by_hand(backlog):
    price, cost, holding, penalty = 5.0, 2.0, 0.3, 1.5
    model, _ = inventory(
        np.full(6, 1 / 6), capacity=7, max_order=4, backlog=backlog, price=price, cost=cost, holding=holding,
        penalty=penalty,
    )  # fmt: skip
    assert model.n_states == 8 + backlog
    for s, stock in enumerate(range(-backlog, 8)):
        for order in range(5):
            delivered = min(order, 7 - stock)
            for demand in range(6):
                there = stock + delivered
                if backlog == 0:
                    left, sold = max(there - demand, 0), min(there, demand)
                    gain = price * sold - cost * delivered - holding * left - penalty * (demand - sold)
                else:
                    left = max(there - demand, -3)
                    gain = price * (there - left) - cost * delivered
                    gain -= holding * max(left, 0) + penalty * max(-left, 0)
                assert model.next_state[s, order, demand] == left + backlog
                assert model.reward[s, order, demand] == pytest.approx(gain, abs=1e-12)


def test_default_demand_is_binomial():
    _, theta = inventory()
    assert theta.sum() == pytest.approx(1.0)
    assert (theta @ np.arange(9)).item() == pytest.approx(3.2)


def test_stock_out_hides_demand():
    problem = inventory(np.full(5, 0.2), capacity=4, max_order=4, censored=True)
    assert not problem.observed
    env = TabularEnv(problem)
    env.reset(seed=1)
    assert "outcome" not in env.step(0)[4]
    agent = PosteriorSamplingAgent(problem.model, rng=1)
    agent.observe(0, 2, 1)  # demand was 1, and that is certain
    assert agent.posterior.counts.tolist() == [[1, 2, 1, 1, 1]]
    agent.observe(0, 2, 0)  # demand was 2, 3 or 4
    assert agent.posterior.counts[0] == pytest.approx([1, 2, 4 / 3, 4 / 3, 4 / 3])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"demand": [0.5, 0.6]}, "sum-not-one"),
        ({"demand": [1.5, -0.5]}, "negative"),
        ({"capacity": 0}, "integer-range"),
        ({"backlog": -1}, "integer-range"),
        ({"start": 11}, "unknown-state"),
        ({"start": -2, "backlog": 1, "capacity": 2}, "unknown-state"),
        ({"price": float("nan")}, "not-a-number"),
    ],
)
def test_bad_inventory(options, code):
    with refused(ParameterError, code, argument=next(iter(options))):
        inventory(**options)


# -- random models, problems -------------------------------------------------------------------------------


def test_random_models():
    one, two = (random_model(7, 3, branching=2, rng=4) for _ in range(2))
    assert one.model == two.model
    assert (one.theta == two.theta).all()
    assert (one.mdp().dense() > 0).sum(axis=2).tolist() == [[2] * 3] * 7
    assert random_model(4, 2, rng=0).model.n_outcomes == 4
    assert np.isfinite(random_model(4, 2, concentration=1e-5, rng=0).theta).all()
    with refused(ParameterError, "integer-range", argument="branching", value=5):
        random_model(4, 2, branching=5)


def test_problem_checks_itself():
    model = pr.UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    with refused(ModelError, "sum-not-one", argument="theta", index=(1,)):
        Problem(model, [[0.5, 0.5], [0.4, 0.5]])
    with refused(ParameterError, "unknown-start", argument="start", value=2):
        Problem(model, np.full((2, 2), 0.5), start=2)
    with refused(ParameterError, "wrong-shape", argument="layout", expected=2):
        Problem(model, np.full((2, 2), 0.5), layout=["SF", "F"])


def test_pictures_of_other_maps():
    """Letters without a colour, and actions that are not the lake's four directions."""
    model = pr.UncertainMDP.direct(np.zeros((2, 5)), discount=0.5)
    problem = Problem(model, np.full((10, 2), 0.5), layout=["XY"])
    drawn = TabularEnv(problem, render_mode="rgb_array")
    drawn.reset(seed=1)
    assert drawn.render().shape == (32, 64, 3)
    written = TabularEnv(problem, render_mode="ansi")
    written.reset(seed=1)
    written.step(4)
    assert written.render().splitlines()[-1] == "(4)"


# -- environments about which nothing is known -------------------------------------------------------------


def test_learns_gymnasiums_own_lake():
    """Random play reaches this goal about once in 500 steps; agents do so ten times as often.

    Sixty other seeds gave 32 to 63 times, with mean 47 and sd 8: ten are five sd below.
    """
    world = GymnasiumModel(gymnasium.make("FrozenLake-v1", is_slippery=False), discount=0.95, rewards=(0, 1))
    for seed in range(4):
        agent = PosteriorSamplingAgent(
            world.model, alpha=0.0, prior=world.model.prior(0.02), episode_length=20, rng=seed
        )
        rewards = learn(agent, world, steps=4000, rng=seed)
        assert rewards[-500:].sum() >= 10
        # what was seen is counted: the goal ends the game and pays
        prior = agent.posterior.prior
        ends = agent.posterior.counts[[13 * 4 + 2, 14 * 4 + 2], 17 + world.end] - prior[0, 0]
        assert ends[1] == pytest.approx(rewards.sum())


def test_learns_in_our_own_environment():
    env = gymnasium.make("prudent/FrozenLake-v0", p_h=0.2)
    agent = PosteriorSamplingAgent(frozen_lake(0.2).model, alpha=0.9, rng=1)
    assert learn(agent, env, steps=200, rng=1).shape == (200,)
    assert agent.posterior.counts.sum() == 16 + 200


def test_refuses_what_it_cannot_learn():
    with refused(ModelError, "wrong-type"):
        GymnasiumModel("CartPole-v1", discount=0.9)
    with refused(ModelError, "wrong-type"):
        GymnasiumModel(_Continuous(), discount=0.9)
    with refused(ModelError, "unknown-environment", value="NoSuchEnv-v7"):
        GymnasiumModel("NoSuchEnv-v7", discount=0.9)
    with refused(ParameterError, "empty", argument="rewards"):
        GymnasiumModel("FrozenLake-v1", discount=0.9, rewards=[])
    world = GymnasiumModel("FrozenLake-v1", discount=0.9, rewards=(0.0, 2.0))
    with refused(DataError, "unknown-reward", argument="reward", value=1.0):
        world.transition(3, 1.0, False)
    with refused(ModelError, "model-mismatch", argument="agent"):
        learn(PosteriorSamplingAgent(frozen_lake().model, rng=1), world, steps=1)
    with refused(ModelError, "wrong-type", argument="env"):
        learn(PosteriorSamplingAgent(frozen_lake().model, rng=1), gymnasium.make("FrozenLake-v1"), steps=1)


class _Continuous(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Box(-1.0, 1.0)


def test_spaces_that_start_elsewhere():
    env = gymnasium.make("FrozenLake-v1")
    env.observation_space = gymnasium.spaces.Discrete(16, start=5)
    env.action_space = gymnasium.spaces.Discrete(4, start=2)
    world = GymnasiumModel(env, discount=0.9)
    assert (world.state(5), world.action(0)) == (0, 2)
    assert world.transition(20, 1, False) == (15, 17 + 15)
    assert world.transition(20, 0, True) == (16, 16)
