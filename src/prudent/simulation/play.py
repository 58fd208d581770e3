"""Bandits of any class played on any environment, step by step: the general path of `simulate_bandit`.

Slower than the compiled loops for linear bandits, and open to every environment that follows the protocol
`prudent.envs.BanditEnvironment` and every bandit with ``select(context)`` and ``update(context, arm, reward)``.
Random streams are those of `prudent._support.streams`, so that all agents face the same contexts and noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, index_array, whole_number
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..bandits.bandit import LinearBandit
from ..bandits.settings import BanditSettings
from ..errors import DataError, ParameterError

Maker = Callable[[int, int, np.random.Generator], Any]  # a bandit from n_arms, dim and a stream


def play(
    env: Any, grid: IntArray, seed: int, agents: dict[str, Maker], first: int, count: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return total reward and regret [agent, replication, time] and pulls [agent, replication, arm].

    Replications are numbered from ``first``. Regret is not set if the environment has no ``mean_rewards``.
    """
    shape = (len(agents), count)
    earned, regret = np.empty((*shape, grid.size)), np.empty((*shape, grid.size))
    pulls = np.zeros((*shape, env.n_arms), dtype=np.int64)
    has_means = hasattr(env, "mean_rewards")
    progress = Progress("simulating bandits")
    try:
        for i, (label, maker) in enumerate(agents.items()):
            for j in range(count):
                progress.show(f"{label}, run {j + 1} of {count}")
                env_rng, agent_rng = replication_streams(seed, first + j)
                stage = env.start(env_rng) if hasattr(env, "start") else env
                bandit = maker(env.n_arms, env.dim, agent_rng)
                _one_run(stage, bandit, env_rng, grid, earned[i, j], regret[i, j] if has_means else None, pulls[i, j])
    finally:
        progress.close()
    return earned, regret, pulls


MOST_STEPS = 10**12  # of a simulation: about a week of one core, compiled


def checked_horizon(env: Any, horizon: int | None) -> int:
    """Return the number of steps, or raise if ``env`` is not an environment for bandits or ends before."""
    for name in ("n_arms", "dim", "context", "reward"):
        if not hasattr(env, name):
            text = f"env is {env!r}, which has no {name}: expected an environment for bandits"
            raise ParameterError(text, code="wrong-type", argument="env", value=env)
    whole_number(env.n_arms, "env.n_arms")
    whole_number(env.dim, "env.dim", minimum=0)
    steps = getattr(env, "steps", None)
    if horizon is None and steps is None:
        text = "horizon is needed: the environment has no end of its own"
        raise ParameterError(text, code="missing-argument", argument="horizon")
    return whole_number(steps if horizon is None else horizon, "horizon", maximum=steps or MOST_STEPS)


def require_time(agents: int, replications: int, last: int) -> None:
    """Raise if a simulation up to step ``last`` has so many steps in all that it would not end within days."""
    steps = agents * replications * last
    if steps > MOST_STEPS:
        days = steps * 0.5e-6 / 86_400
        message = (
            f"horizon and replications make {steps:.3g} steps, more than {MOST_STEPS:g}: at 0.5 microseconds each they "
            f"take {days:,.0f} days of one core; simulate fewer of them, or parts by first_replication"
        )
        raise ParameterError(message, code="too-long", argument="horizon", value=last, expected=MOST_STEPS)


def makers(agents: Any, options: dict[str, Any]) -> dict[str, Maker]:
    """Return by label the function that makes each bandit; ``options`` go to every LinearBandit."""

    if isinstance(agents, Mapping):
        named = list(agents.items())
    else:
        several = agents if isinstance(agents, Sequence) else [agents]
        named = [(getattr(agent, "label", i), agent) for i, agent in enumerate(several)]
    if not named:
        raise ParameterError("agents must have at least one, got none", code="empty", argument="agents")
    made: dict[str, Maker] = {}
    for label, agent in named:
        if isinstance(agent, BanditSettings | Mapping):
            own = {"settings": agent} if isinstance(agent, BanditSettings) else dict(agent)
            maker = partial(_linear, options | own)
        elif callable(agent):
            maker = agent
        else:
            message = (
                f"agents[{label!r}] is {agent!r}, expected BanditSettings, options of LinearBandit, or a function that "
                "makes a bandit from (n_arms, dim, rng)"
            )
            raise ParameterError(message, code="wrong-type", argument="agents", index=label, value=agent)
        if str(label) in made:
            message = f"two of the agents are called {label!r}; set label to tell them apart"
            raise ParameterError(message, code="duplicate-label", argument="agents", value=label)
        made[str(label)] = maker
    return made


def _linear(options: dict[str, Any], n_arms: int, dim: int, rng: np.random.Generator) -> LinearBandit:
    return LinearBandit(n_arms, dim, rng=rng, **options)


def _one_run(
    env: Any,
    bandit: Any,
    rng: np.random.Generator,
    grid: IntArray,
    earned: FloatArray,
    regret: FloatArray | None,
    pulls: IntArray,
) -> None:
    total = missed = 0.0
    recorded = 0
    for t in range(1, int(grid[-1]) + 1):
        context = env.context(t, rng)
        arm = bandit.select(context).arm
        reward = float(env.reward(t, context, arm, rng))
        if not math.isfinite(reward):
            text = f"the environment paid the reward {reward} for arm {arm} at step {t}"
            raise DataError(text, code="not-finite", argument="reward", value=reward, arm=arm, index=(t,))
        bandit.update(context, arm, reward)
        total += reward
        pulls[arm] += 1
        if regret is not None:
            means = finite_array(env.mean_rewards(t, context), "mean_rewards", ndim=1)
            missed += float(means.max() - means[arm])
        if t == grid[recorded]:
            earned[recorded] = total
            if regret is not None:
                regret[recorded] = missed
            recorded += 1


def time_grid(times: Any, horizon: int) -> IntArray:
    """Return the steps to record, by default 200 evenly spaced ones."""
    if times is None:
        return np.unique(np.linspace(horizon / min(200, horizon), horizon, min(200, horizon)).astype(np.int64))
    grid = index_array(times, "times", horizon + 1, error=ParameterError)
    if grid.ndim != 1 or not grid.size or grid[0] < 1 or (np.diff(grid) <= 0).any():
        text = f"times must be a rising list of steps from 1 to {horizon}, got {times!r}"
        raise ParameterError(text, code="not-rising", argument="times", value=times)
    return grid
