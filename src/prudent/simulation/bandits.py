"""Replications of bandit agents on an environment, as labelled datasets; compiled for linear bandits.

Random streams are those of `prudent._support.streams`: all agents face the same contexts and noise.

**Regret.** Conventional: the sum over t of max_a s'theta_a - s'theta_{a_t}. BR-regret at a risk level alpha:
the sum of max_a r^t(s, a) - r^t(s, a_t), where r^t(s, a) is CVaR of s'theta under the agent's own posterior of arm a:
its normal posterior with the sd of the noise (whatever sd the agent samples with), clipped to [0, 1] for an agent that
clips. Both by closed form, at every step, recorded on a grid of times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compile import default_threads, each_row, kernel, lean, over_rows
from .._numerics.copying import put
from .._numerics.normal import clipped_normal_cvar, normal_tail
from .._support.checks import FloatArray, IntArray, positive, require_shape, risk_levels, whole_number
from .._support.cluster import replicated
from .._support.content import Content
from .._support.memory import require_memory
from .._support.provenance import provenance
from .._support.streams import replication_streams, seed_of
from ..bandits.kernels.layout import PULLS, Arms, Rule, arms_at, arms_of, handle_of, rule_at
from ..bandits.kernels.step import decide, learn
from ..bandits.kernels.stream import BLOCK, refill
from ..bandits.settings import BanditSettings
from ..envs.bandits import BanditEnvironment
from ..envs.linear_bandit import LinearBanditEnv, draw_context, draw_noise, reward_of
from ..errors import ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from ..types import ArrayLike, RngLike
from .agents import Custom, checked_agents, described
from .play import Maker, checked_horizon, makers, play, require_time, time_grid

if TYPE_CHECKING:
    import xarray

Agents = BanditSettings | Sequence[BanditSettings] | Mapping[str, Mapping[str, Any] | Callable[..., Any]]


def simulate_bandit(
    env: BanditEnvironment,
    agents: Agents,
    *,
    horizon: int | None = None,
    replications: int = 1,
    rng: RngLike = 0,
    alphas: Sequence[float] = (0.5, 0.8, 0.9),
    times: ArrayLike | None = None,
    noise_sd: float | None = None,
    prior_precision: ArrayLike = 1.0,
    first_replication: int = 0,
    threads: int | None = None,
    client: Any = None,
) -> xarray.Dataset:
    """Run bandit agents on an environment many times and measure their regret.

    Settings on a `prudent.envs.LinearBanditEnv` run compiled. Everything else is played step by step.

    Parameters
    ----------
    env : BanditEnvironment
        A linear bandit, a dataset as a bandit, clicks, drift, or an environment of your own.
    agents : BanditSettings, sequence of BanditSettings, or dict
        Settings such as ``brps_cmab(0.8)``; or a dict from labels to options of `prudent.LinearBandit` or to
        functions of (n_arms, dim, rng) that return a bandit of any class.
    horizon : int, optional
        Number of steps. It may be left out if the environment has an end.
    replications : int, default=1
        Number of replications R.
    rng : int, Generator or None, default=0
        Seed. A Generator (or None) gives a seed by one draw. Equal seeds give equal datasets.
    alphas : sequence of float, default=(0.5, 0.8, 0.9)
        Risk levels at which BR-regret is measured in compiled runs.
    times : array_like of int, optional
        Steps to record. The default is 200 evenly spaced ones.

    Returns
    -------
    xarray.Dataset
        Compiled runs: cumulative ``regret`` (agent, replication, time) and ``br_regret`` (agent, replication, alpha,
        time), and ``pulls`` (agent, replication, arm). Other runs: ``reward`` (the mean up to a time),
        ``total_reward``, ``pulls``, and ``regret`` if the environment has mean rewards.

    Other Parameters
    ----------------
    noise_sd : float, optional
        Standard deviation of the noise that the agents assume. The default is that of the environment.
    prior_precision : float or array_like, default=1
        Prior precision of the agents.
    first_replication : int, default=0
        Number of the first replication.
    threads : int, optional
        Number of threads of compiled runs. The default is the number of cores.
    client : object, optional
        Computes on a dask cluster: a Client of dask.distributed, a cluster object, or the address of a scheduler. The
        dataset is the same to the last bit.

    Raises
    ------
    ParameterError
        If an argument is out of range, or labels are equal.
    DataError
        If the environment pays a reward that is not finite.

    See Also
    --------
    simulate : The same for tabular problems.

    Examples
    --------
    >>> from prudent.bandits import brps_cmab, thompson_sampling
    >>> from prudent.envs import gaussian_bandit
    >>> runs = simulate_bandit(
    ...     gaussian_bandit(), [thompson_sampling(), brps_cmab(0.8)], horizon=100, replications=3, times=[50, 100]
    ... )
    >>> dict(runs.br_regret.sizes)
    {'agent': 2, 'replication': 3, 'alpha': 3, 'time': 2}
    """
    count = whole_number(replications, "replications", memory=256.0)
    first = whole_number(first_replication, "first_replication", minimum=0)
    seed = seed_of(rng)
    if not isinstance(env, LinearBanditEnv) or isinstance(agents, Mapping):
        options: dict[str, Any] = {"prior_precision": prior_precision}
        options |= {} if noise_sd is None else {"noise_sd": noise_sd}
        horizon = checked_horizon(env, horizon)
        made, grid = makers(agents, options), time_grid(times, horizon)
        _require_memory(len(made), count, grid.size)
        require_time(len(made), count, int(grid[-1]))
        labels, variables = list(made), _played(env, made, grid, seed, first, count, client)
        return _dataset(labels, variables, grid, horizon, seed, first, env, _descriptions(agents))
    settings: list[BanditSettings] = checked_agents(agents, BanditSettings, "BanditSettings such as brps_cmab(0.8)")
    for i, agent in enumerate(settings):
        if agent.falling:
            message = (
                f"agents[{i}] has a level that falls, which compiled simulations do not take; "
                "give options of a bandit instead, which learns noise and level itself: "
                '{"falling": {"alpha": Decay(0.9, 100)}}'
            )
            raise ParameterError(message, code="schedule", argument="agents", index=(i,))
    horizon = whole_number(horizon, "horizon", maximum=2**53)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    grid = time_grid(times, horizon)
    levels = np.atleast_1d(risk_levels(alphas, "alphas"))
    require_shape(levels, "alphas", (levels.size,), "[A]", error=ParameterError)
    tails = 1.0 - abs(levels)
    quantiles, densities = normal_tail(tails)
    _require_memory(len(settings), count, grid.size * (1 + levels.size))
    require_time(len(settings), count, int(grid[-1]))
    metric = Metric(tails, quantiles, np.copysign(densities, levels) / tails)
    blank = LinearGaussianPosterior(
        env.dim, prior_precision, positive(env.noise_sd if noise_sd is None else noise_sd, "noise_sd")
    )
    rules = [agent.rule(env.dim, blank.noise_sd) for agent in settings]
    truth = Truth(env.theta, env.noise_sd, env.bounded)
    task = _Task(truth, blank, rules, metric, grid, seed, workers if client is None else 1)
    ranges = [(i, i + 1) for i in range(len(settings))]
    regret, br_regret, pulls = _computed(client, task.rows, (0, len(settings)), ranges, count, first)
    variables = {
        "regret": (("agent", "replication", "time"), regret),
        "br_regret": (("agent", "replication", "alpha", "time"), br_regret),
        "pulls": (("agent", "replication", "arm"), pulls),
    }
    data = _dataset(
        [agent.label for agent in settings], variables, grid, horizon, seed, first, env, _descriptions(settings)
    )
    return data.assign_coords(alpha=levels).assign_attrs(
        noise_sd=blank.noise_sd, prior=json.dumps(blank.prior.tolist())
    )


def _descriptions(agents: Any) -> str:
    """Return the full settings of all agents by label, as JSON."""
    if isinstance(agents, Mapping):
        named = {str(label): Custom(agent, str(label)) if callable(agent) else agent for label, agent in agents.items()}
    else:
        several = agents if isinstance(agents, Sequence) else [agents]
        named = {str(getattr(agent, "label", i)): agent for i, agent in enumerate(several)}
    return json.dumps({label: described(agent) for label, agent in named.items()})


def _require_memory(agents: int, replications: int, times: int) -> None:
    """Refuse arrays that do not fit into memory."""
    require_memory(8.0 * agents * replications * times, "replications", replications, "take fewer, or fewer times")


def _dataset(
    labels: list[str],
    variables: dict[str, Any],
    grid: IntArray,
    horizon: int,
    seed: int,
    first: int,
    env: Any,
    agents: str,
) -> xarray.Dataset:
    """Return arrays as a dataset; replications are numbered from ``first``."""
    import xarray

    _, count, n_arms = variables["pulls"][1].shape
    coords = {"agent": labels, "replication": np.arange(first, first + count), "time": grid, "arm": np.arange(n_arms)}
    attributes = {"seed": seed, "horizon": horizon, "agents": agents, "truth": Content(env).hexdigest()} | provenance()
    return xarray.Dataset(variables, coords=coords, attrs=attributes)


def _computed(
    client: Any, rows: Callable[..., Any], everyone: tuple[Any, ...], agents: list[Any], count: int, first: int
) -> Any:
    """Return the arrays [agent, replication, ...] of ``rows``, for all agents here or for each of them on a cluster."""
    if client is None:
        return rows(*everyone, first, count)
    parts = replicated(client, rows, agents, count, first, "simulating bandits")
    joined = [[np.concatenate(arrays, axis=1) for arrays in zip(*pieces, strict=True)] for pieces in parts]
    return [np.concatenate(arrays) for arrays in zip(*joined, strict=True)]


def _played(
    env: Any, made: dict[str, Maker], grid: IntArray, seed: int, first: int, count: int, client: Any
) -> dict[str, Any]:
    """Return the variables of bandits that are played step by step, here or by the workers of a cluster."""
    named = [({label: maker},) for label, maker in made.items()]
    earned, regret, pulls = _computed(client, partial(play, env, grid, seed), (made,), named, count, first)
    dims = ("agent", "replication", "time")
    variables: dict[str, Any] = {"reward": (dims, earned / grid), "total_reward": (dims, earned)}
    if hasattr(env, "mean_rewards"):
        variables["regret"] = (dims, regret)
    variables["pulls"] = (("agent", "replication", "arm"), pulls)
    return variables


class _Task(NamedTuple):
    """Replications of several agents, computed in this process or on a worker."""

    truth: Truth
    blank: LinearGaussianPosterior
    rules: list[Rule]
    metric: Metric
    times: IntArray  # [T]
    seed: int
    threads: int

    def rows(self, begin: int, end: int, first: int, count: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return regret [A, R, T], br_regret [A, R, L, T] and pulls [A, R, arms] of the agents from begin to end."""
        n_arms = len(self.truth.theta)
        shape = (end - begin, count)
        regret = np.empty((*shape, self.times.size))
        br_regret = np.empty((*shape, self.metric.tail.size, self.times.size))
        pulls = np.zeros((*shape, n_arms), dtype=np.int64)

        def work(start: int, stop: int) -> None:
            for row in each_row(start, stop):
                cell = divmod(row, count)
                arms = arms_of(self.blank.prior, self.blank.noise_sd, n_arms)
                streams = replication_streams(self.seed, first + cell[1])
                trace = Trace(self.times, regret[cell], br_regret[cell], pulls[cell])
                handle = handle_of(arms, self.rules[begin + cell[0]], False)
                _run_bandit(self.truth, handle, self.metric, *streams, trace)

        over_rows(work, (end - begin) * count, self.threads, long=True)
        return regret, br_regret, pulls


class Truth(NamedTuple):
    """An environment as the kernel reads it."""

    theta: FloatArray  # [A,D]
    noise_sd: float
    bounded: bool


class Metric(NamedTuple):
    """The L risk levels at which BR-regret is measured."""

    tail: FloatArray  # [L] 1 - |level|
    quantile: FloatArray  # [L] of the standard normal at the tail
    depth: FloatArray  # [L] of the tail's mean below the mean, in sds of a normal; below zero for the upper tail


class Trace(NamedTuple):
    """Where the results of one replication go."""

    times: IntArray  # [T]
    regret: FloatArray  # [T]
    br_regret: FloatArray  # [L,T]
    pulls: IntArray  # [A]


class Space(NamedTuple):
    """Arrays to work in."""

    every: IntArray  # [A] all arms
    context: FloatArray  # [D]
    moments: FloatArray  # [4,A]
    uniforms: FloatArray
    br_total: FloatArray  # [L], zeros


@kernel
def _clipped_cvar(mean: float, sd: float, tail: float, quantile: float, upper: bool) -> float:
    """Return CVaR of Normal(mean, sd^2), clipped to [0, 1], of the lower or of the upper tail."""
    if upper:
        return 1.0 - clipped_normal_cvar(1.0 - mean, sd, tail, quantile, False)
    return clipped_normal_cvar(mean, sd, tail, quantile, False)


@lean
def _br_regret(
    means: FloatArray, sds: FloatArray, chosen: int, clip: bool, tail: float, quantile: float, depth: float
) -> float:
    """Return how far the CVaR of the chosen arm is below the highest of all arms, at one level of `Metric`."""
    if not clip:
        own = means[chosen] - sds[chosen] * depth
        top = own
        for a in range(means.shape[0]):
            here = means[a] - sds[a] * depth
            top = here if here > top else top
        return top - own
    upper = depth < 0.0
    own = _clipped_cvar(means[chosen], sds[chosen], tail, quantile, upper)
    top = own
    for a in range(means.shape[0]):
        # CVaR is at most the quantile that begins the tail, which spares most arms the work
        if upper or min(max(means[a] + sds[a] * quantile, 0.0), 1.0) > top:
            top = max(top, _clipped_cvar(means[a], sds[a], tail, quantile, upper))
    return top - own


@kernel
def _run_bandit(
    truth: Truth,
    handle: IntArray,
    metric: Metric,
    environment_rng: np.random.Generator,
    agent_rng: np.random.Generator,
    trace: Trace,
) -> None:
    """Run one replication from arms without data; write regrets at the recorded times and pulls."""
    arms, rule = arms_at(handle), rule_at(handle)
    size, dim = truth.theta.shape
    uniforms = np.empty(max(BLOCK, size * rule.per_arm + 1))
    space = Space(np.arange(size), np.empty(dim), np.empty((4, size)), uniforms, np.zeros(metric.tail.shape[0]))
    _play(truth, arms, rule, metric, environment_rng, agent_rng, space, trace)


@lean
def _play(
    truth: Truth,
    arms: Arms,
    rule: Rule,
    metric: Metric,
    environment_rng: np.random.Generator,
    agent_rng: np.random.Generator,
    space: Space,
    trace: Trace,
) -> None:
    theta, bounded = truth.theta, truth.bounded
    tail, quantile, depth = metric
    gram, lost, parts, pool, marks, times = arms.gram, arms.lost, arms.parts, arms.pool, arms.marks, trace.times
    every, context, moments, uniforms, br_total = space
    size, dim = theta.shape
    means, sds = moments[0], moments[1]
    need = size * rule.per_arm + 1
    after = uniforms.shape[0]
    total = 0.0
    place = 0
    for t in range(1, times[-1] + 1):
        draw_context(environment_rng, bounded, context)
        noise = draw_noise(environment_rng, bounded)
        if after + need > uniforms.shape[0]:
            refill(agent_rng, uniforms, after)
            after = 0
        chosen, _, after = decide(arms, rule, t, context, every, uniforms, after, moments, False)
        best = -math.inf
        paid = 0.0
        for a in range(size):
            expected = 0.0
            for i in range(dim):
                expected += theta[a, i] * context[i]
            best = max(best, expected)
            if a == chosen:
                paid = expected
        total += best - paid
        for level in range(br_total.shape[0]):
            br_total[level] += _br_regret(means, sds, chosen, rule.clip, tail[level], quantile[level], depth[level])
        reward = reward_of(paid, noise, bounded, truth.noise_sd)
        learn(gram, lost, arms.root, parts, pool, marks, arms.extra, context, chosen, reward, 1.0)
        if t == times[place]:
            trace.regret[place] = total
            put(trace.br_regret[:, place], br_total)
            place += 1
    put(trace.pulls, marks[:, PULLS])
