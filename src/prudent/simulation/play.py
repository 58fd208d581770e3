"""Bandits of any class played on any environment, step by step: the general path of :func:`simulate_bandit`.

Slower than the compiled loops for linear bandits, and open to every environment that follows the protocol
:class:`prudent.envs.BanditEnvironment` and every bandit with ``select(context)`` and ``update(context, arm, reward)``.
Random streams are those of :mod:`prudent._support.streams`, so that all agents face the same contexts and noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, index_array, whole_number
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..bandits.bandit import LinearBandit
from ..bandits.settings import BanditSettings
from ..errors import DataError, ParameterError

if TYPE_CHECKING:
    import xarray

__all__ = ["makers", "play", "time_grid"]

Maker = Callable[[int, int, np.random.Generator], Any]  # n_arms, dim and a stream give a bandit


def play(
    env: Any,
    agents: Any,
    *,
    horizon: int | None = None,
    replications: int = 1,
    seed: int = 0,
    times: Any = None,
    first_replication: int = 0,
    **options: Any,
) -> xarray.Dataset:
    """Play agents on ``env``, ``replications`` times, and return what they earned.

    ``agents`` are :class:`BanditSettings`, one or several, or a dict from labels to options of :class:`LinearBandit` or
    to functions of (n_arms, dim, rng) that return a bandit of any class; ``options`` go to every LinearBandit. The
    dataset has ``total_reward`` (agent, replication, time), the reward up to a time; ``reward``, its mean per step;
    ``regret``, if the environment knows its mean rewards; and ``pulls`` (agent, replication, arm).

    >>> from prudent.envs import classification
    >>> env = classification([[0.0], [1.0]] * 20, ["left", "right"] * 20)
    >>> runs = play(env, {"cautious": {"alpha": 0.5}, "neutral": {}}, replications=2)
    >>> dict(runs.reward.sizes)
    {'agent': 2, 'replication': 2, 'time': 40}
    """
    import xarray

    for name in ("n_arms", "dim", "context", "reward"):
        if not hasattr(env, name):
            raise ParameterError(f"env is {env!r}, which has no {name}: expected an environment for bandits")
    made = makers(agents, options)
    n_arms, dim = whole_number(env.n_arms, "env.n_arms"), whole_number(env.dim, "env.dim", minimum=0)
    steps = getattr(env, "steps", None)
    if horizon is None:
        if steps is None:
            raise ParameterError("horizon is needed: the environment has no end of its own")
        horizon = steps
    horizon = whole_number(horizon, "horizon", maximum=steps)
    count = whole_number(replications, "replications")
    first = whole_number(first_replication, "first_replication", minimum=0)
    grid = time_grid(times, horizon)
    shape = (len(made), count, grid.size)
    earned, regret = np.empty(shape), np.empty(shape)
    pulls = np.zeros((len(made), count, n_arms), dtype=np.int64)
    knows = hasattr(env, "mean_rewards")
    line = Progress("bandits at play")
    try:
        for i, (label, maker) in enumerate(made.items()):
            for j in range(count):
                line.show(f"{label}, run {j + 1} of {count}")
                world, agent_rng = replication_streams(seed, first + j)
                stage = env.start(world) if hasattr(env, "start") else env
                bandit = maker(n_arms, dim, agent_rng)
                _one_run(stage, bandit, world, grid, earned[i, j], regret[i, j] if knows else None, pulls[i, j])
    finally:
        line.close()
    dims = ("agent", "replication", "time")
    variables: dict[str, Any] = {"reward": (dims, earned / grid), "total_reward": (dims, earned)}
    if knows:
        variables["regret"] = (dims, regret)
    variables["pulls"] = (("agent", "replication", "arm"), pulls)
    coords = {
        "agent": list(made),
        "replication": np.arange(first, first + count),
        "time": grid,
        "arm": np.arange(n_arms),
    }
    return xarray.Dataset(variables, coords=coords, attrs={"seed": seed, "horizon": horizon})


def makers(agents: Any, options: dict[str, Any]) -> dict[str, Maker]:
    """Return by label what makes each bandit; ``agents`` and ``options`` are those of :func:`play`."""

    def linear(chosen: dict[str, Any]) -> Maker:
        return lambda n_arms, dim, rng: LinearBandit(n_arms, dim, rng=rng, **options | chosen)

    if isinstance(agents, Mapping):
        named = list(agents.items())
    else:
        several = agents if isinstance(agents, Sequence) else [agents]
        named = [(getattr(each, "label", i), each) for i, each in enumerate(several)]
    found: dict[str, Maker] = {}
    for label, each in named:
        if isinstance(each, BanditSettings):
            maker = linear({"settings": each})
        elif isinstance(each, Mapping):
            maker = linear(dict(each))
        elif callable(each):
            maker = each
        else:
            raise ParameterError(
                f"agents[{label!r}] is {each!r}, expected BanditSettings, options of LinearBandit, or a function that "
                "makes a bandit from (n_arms, dim, rng)"
            )
        if str(label) in found:
            raise ParameterError(f"two agents are called {label!r}; set label to tell them apart")
        found[str(label)] = maker
    if not found:
        raise ParameterError("agents is empty")
    return found


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
    place = 0
    for t in range(1, int(grid[-1]) + 1):
        context = env.context(t, rng)
        arm = bandit.select(context).arm
        reward = float(env.reward(t, context, arm, rng))
        if not math.isfinite(reward):
            raise DataError(f"the environment paid {reward} for arm {arm} at step {t}")
        bandit.update(context, arm, reward)
        total += reward
        pulls[arm] += 1
        if regret is not None:
            means = finite_array(env.mean_rewards(t, context), "mean_rewards", ndim=1)
            missed += float(means.max() - means[arm])
        if t == grid[place]:
            earned[place] = total
            if regret is not None:
                regret[place] = missed
            place += 1


def time_grid(times: Any, horizon: int) -> IntArray:
    """Return the steps to record, by default 200 evenly spaced ones."""
    if times is None:
        return np.unique(np.linspace(horizon / min(200, horizon), horizon, min(200, horizon)).astype(np.int64))
    grid = index_array(times, "times", horizon + 1, error=ParameterError)
    if grid.ndim != 1 or not grid.size or grid[0] < 1 or (np.diff(grid) <= 0).any():
        raise ParameterError(f"times must be a rising list of steps from 1 to {horizon}, got {times!r}")
    return grid
