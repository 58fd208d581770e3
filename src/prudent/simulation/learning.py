"""One agent that acts and learns in a Gymnasium environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray, whole_number
from .._support.streams import seed_of
from ..agents.protocol import Agent
from ..agents.tabular import TabularAgent
from ..errors import ModelError
from ..types import RngLike

if TYPE_CHECKING:
    import gymnasium

    from ..envs.gymnasium import GymnasiumModel


def learn(
    agent: TabularAgent | Agent, env: GymnasiumModel | gymnasium.Env, steps: int, rng: RngLike = None
) -> FloatArray:
    """Let an agent act and learn in a Gymnasium environment.

    Parameters
    ----------
    agent : TabularAgent or Agent
        An agent for the model of `env`. It is not reset, so that it can learn on.
    env : GymnasiumModel or gymnasium.Env
        A `prudent.envs.GymnasiumModel`, for environments about which nothing is known; or one of the
        environments of prudent, and the agent one for its problem, with ``indices=True`` if the model has names.
    steps : int
        Number of steps T.
    rng : int, Generator or None, optional
        Seed of the first reset; a Generator gives one by one draw. None continues the stream of the environment. It is
        reset again whenever it ends.

    Returns
    -------
    ndarray of float
        Rewards [T].

    Raises
    ------
    ModelError
        If `env` is another environment, or the agent is for another model.

    Examples
    --------
    >>> from prudent.agents import PosteriorSamplingAgent
    >>> from prudent.envs.gymnasium import GymnasiumModel
    >>> world = GymnasiumModel("FrozenLake-v1", discount=0.95, rewards=(0, 1))
    >>> agent = PosteriorSamplingAgent(world.model, alpha=0.5, prior=world.model.prior(0.1), rng=1)
    >>> learn(agent, world, steps=100, rng=1).size
    100
    """
    from ..envs.gymnasium import GymnasiumModel, TabularEnv

    inner: Any = getattr(env, "unwrapped", env)
    if isinstance(env, GymnasiumModel):
        model, world = env.model, env.env
    elif isinstance(inner, TabularEnv):
        model, world = inner.problem.model, env
    else:
        text = f"env is {env}, expected a GymnasiumModel or one of the environments of prudent"
        raise ModelError(text, code="wrong-type", argument="env")
    if isinstance(agent, TabularAgent) and agent.model != model:
        text = f"the agent is for {agent.model!r}, the environment is {model!r}"
        raise ModelError(text, code="model-mismatch", argument="agent")
    rewards = np.empty(whole_number(steps, "steps", 0, memory=16.0))
    observation, _ = world.reset(seed=None if rng is None else seed_of(rng))
    for t in range(rewards.size):
        state = env.state(observation) if isinstance(env, GymnasiumModel) else int(observation)
        action = agent.act(state)
        if isinstance(env, GymnasiumModel):
            observation, reward, terminated, truncated, _ = world.step(env.action(action))
            agent.observe(state, action, *env.transition(observation, reward, terminated), float(reward))
        else:
            observation, reward, terminated, truncated, info = world.step(action)
            after = None if info.get("ended") else int(observation)
            agent.observe(state, action, after, info.get("outcome"), float(reward))
        rewards[t] = reward
        if terminated or truncated:
            observation, _ = world.reset()
    return rewards
