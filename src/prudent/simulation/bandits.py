"""Many replications of bandit agents on an environment, compiled, as labelled datasets.

Random streams are those of :mod:`prudent._support.streams`: all agents face the same contexts and noise.

**Regret.** Conventional: the sum over t of max_a s'theta_a - s'theta_{a_t}. BR-regret at a level:
the sum of max_a r^t(s, a) - r^t(s, a_t), where r^t(s, a) is CVaR of s'theta under the agent's own posterior of arm a:
its normal posterior with the sd of the noise (whatever sd the agent samples with), clipped to [0, 1] for an agent that
clips. Both by closed form, at every step, recorded on a grid of times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compile import default_threads, each_row, kernel, lean, over_rows
from .._numerics.copying import put
from .._numerics.normal import clipped_normal_cvar, normal_tail
from .._support.checks import FloatArray, IntArray, positive, risk_level, whole_number
from .._support.cluster import replicated
from .._support.streams import replication_streams
from ..bandits.kernels.layout import PULLS, Arms, Rule, arms_at, arms_of, handle_of, rule_at
from ..bandits.kernels.step import decide, learn
from ..bandits.kernels.stream import BLOCK, refill
from ..bandits.settings import BanditSettings
from ..envs.linear_bandit import LinearBanditEnv, draw_context, draw_noise, reward_of
from ..errors import ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from ..schedules import Schedule
from .play import makers, play, time_grid

if TYPE_CHECKING:
    import xarray

__all__ = ["simulate_bandit"]


def simulate_bandit(
    env: Any,
    agents: Any,
    *,
    horizon: int | None = None,
    replications: int = 1,
    seed: int = 0,
    levels: Sequence[float] = (0.5, 0.8, 0.9),
    times: Any = None,
    noise_sd: float | None = None,
    prior_precision: Any = 1.0,
    first_replication: int = 0,
    threads: int | None = None,
    client: Any = None,
) -> xarray.Dataset:
    """Run agents with these settings on ``env``, ``replications`` times, and return their cumulative regrets.

    The dataset has ``regret`` (agent, replication, time), ``br_regret`` (agent, replication, level, time) at the
    risk ``levels``, and ``pulls`` (agent, replication, arm). ``times`` are the steps to record, out of ``horizon``; by
    default 200 evenly spaced ones. The agents take the noise to have sd ``noise_sd``, by default that of the
    environment. Replications are numbered from ``first_replication``.

    ``env`` may also be any :class:`prudent.envs.BanditEnvironment` (a dataset as a bandit, clicks, drift, your own),
    and ``agents`` a dict from labels to options of :class:`LinearBandit` or to functions of (n_arms, dim, rng) that
    return a bandit of any class. Then ``bandits/play.py`` runs it: the dataset has ``reward``,
    ``total_reward``, ``pulls``, and ``regret`` where the environment knows its mean rewards.

    ``client`` has the work done by the workers of a dask cluster, each thread of theirs for itself: a Client of
    dask.distributed, a cluster object, or the address of a scheduler. The dataset is the same to the last bit.

    >>> from prudent.bandits import brps_cmab, thompson_sampling
    >>> from prudent.envs import gaussian_bandit
    >>> runs = simulate_bandit(
    ...     gaussian_bandit(), [thompson_sampling(), brps_cmab(0.8)], horizon=100, replications=3, times=[50, 100]
    ... )
    >>> dict(runs.br_regret.sizes)
    {'agent': 2, 'replication': 3, 'level': 3, 'time': 2}
    """
    import xarray

    if not isinstance(env, LinearBanditEnv) or isinstance(agents, Mapping):
        options: dict[str, Any] = {} if noise_sd is None else {"noise_sd": noise_sd}
        options |= {"horizon": horizon, "seed": seed, "times": times, "prior_precision": prior_precision}
        if client is not None:
            return _played_there(client, env, agents, replications, first_replication, options)
        return play(env, agents, replications=replications, first_replication=first_replication, **options)
    played = [agents] if isinstance(agents, BanditSettings) else list(agents)
    for i, settings in enumerate(played):
        if not isinstance(settings, BanditSettings):
            raise ParameterError(f"agents[{i}] must be a BanditSettings, got {settings!r}")
        if isinstance(settings.alpha, Schedule):
            raise ParameterError(
                f"agents[{i}] has a level that falls, which compiled simulations do not take; give options of a "
                'bandit instead, which learns noise and level itself: {"falling": {"alpha": Decay(0.9, 100)}}'
            )
    labels = [settings.label for settings in played]
    if not labels or len(set(labels)) < len(labels):
        raise ParameterError(f"agents must be some with different labels, got {labels}; set label to tell them apart")
    horizon = whole_number(horizon, "horizon")
    count = whole_number(replications, "replications")
    first = whole_number(first_replication, "first_replication", minimum=0)
    whole_number(seed, "seed", minimum=0)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    grid = time_grid(times, horizon)
    alphas = np.array([risk_level(level, f"levels[{i}]") for i, level in enumerate(levels)], dtype=np.float64)
    tails = 1.0 - abs(alphas)
    quantiles, densities = normal_tail(tails)
    metric = Metric(tails, quantiles, np.copysign(densities, alphas) / tails)
    blank = LinearGaussianPosterior(
        env.dim, prior_precision, positive(env.noise_sd if noise_sd is None else noise_sd, "noise_sd")
    )
    task = _Task(
        Truth(env.theta, env.noise_sd, env.bounded),
        blank,
        [settings.rule(env.dim, blank.noise_sd) for settings in played],
        metric,
        grid,
        seed,
        workers if client is None else 1,
    )
    if client is None:
        parts: list[Any] = [task.rows(0, len(played), first, count)]
    else:
        agents_there = [(i, i + 1) for i in range(len(played))]
        found = replicated(client, task.rows, agents_there, count, first, "bandits at play")
        parts = [tuple(np.concatenate(pieces, axis=1) for pieces in zip(*each, strict=True)) for each in found]
    regret, br_regret, pulls = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return xarray.Dataset(
        {
            "regret": (("agent", "replication", "time"), regret),
            "br_regret": (("agent", "replication", "level", "time"), br_regret),
            "pulls": (("agent", "replication", "arm"), pulls),
        },
        coords={
            "agent": labels,
            "replication": np.arange(first, first + count),
            "level": alphas,
            "time": grid,
            "arm": np.arange(env.n_arms),
        },
        attrs={"seed": seed, "horizon": horizon, "noise_sd": blank.noise_sd},
    )


def _played_there(
    client: Any, env: Any, agents: Any, replications: Any, first_replication: Any, options: dict[str, Any]
) -> xarray.Dataset:
    """Return what :func:`play` returns, computed by the workers of a cluster."""
    import xarray

    given: dict[str, Any] = {name: options.pop(name) for name in ("noise_sd", "prior_precision") if name in options}
    count = whole_number(replications, "replications")
    first = whole_number(first_replication, "first_replication", minimum=0)
    named = [({label: maker},) for label, maker in makers(agents, given).items()]
    found = replicated(client, partial(_play_some, env, options), named, count, first, "bandits at play")
    joined: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "combine_attrs": "override"}
    return xarray.concat([xarray.concat(parts, "replication", **joined) for parts in found], "agent", **joined)


def _play_some(env: Any, options: dict[str, Any], agent: dict[str, Any], first: int, count: int) -> xarray.Dataset:
    return play(env, agent, replications=count, first_replication=first, **options)


class _Task(NamedTuple):
    """Replications of several agents, to be computed here or on a worker."""

    truth: Truth
    blank: LinearGaussianPosterior
    rules: list[Rule]
    metric: Metric
    times: IntArray  # [T]
    seed: int
    threads: int

    def rows(self, begin: int, end: int, first: int, count: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return regret [A, R, T], br_regret [A, R, L, T] and pulls [A, R, arms] of the agents from begin to end."""
        n_arms, dim = self.truth.theta.shape
        shape = (end - begin, count)
        regret = np.empty((*shape, self.times.size))
        br_regret = np.empty((*shape, self.metric.tail.size, self.times.size))
        pulls = np.zeros((*shape, n_arms), dtype=np.int64)

        def work(start: int, stop: int) -> None:
            for row in each_row(start, stop):
                place = divmod(row, count)
                sums = np.zeros((n_arms, 2, dim + 1, dim + 1))
                arms = arms_of(self.blank.prior, self.blank.noise_sd, sums)
                streams = replication_streams(self.seed, first + place[1])
                trace = Trace(self.times, regret[place], br_regret[place], pulls[place])
                handle = handle_of(arms, self.rules[begin + place[0]], False)
                _run_bandit(self.truth, handle, self.metric, *streams, trace)

        over_rows(work, (end - begin) * count, self.threads, long=True)
        return regret, br_regret, pulls


class Truth(NamedTuple):
    """An environment as the kernel reads it."""

    theta: FloatArray  # [A,D]
    noise_sd: float
    bounded: bool


class Metric(NamedTuple):
    """The L levels at which BR-regret is measured."""

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
    """Return how far the CVaR of the chosen arm is below the highest of all arms, at one level of :class:`Metric`."""
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
    gram, parts, pool, marks, times = arms.gram, arms.parts, arms.pool, arms.marks, trace.times
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
        learn(gram, arms.root, parts, pool, marks, arms.extra, context, chosen, reward, 1.0)
        if t == times[place]:
            trace.regret[place] = total
            put(trace.br_regret[:, place], br_total)
            place += 1
    put(trace.pulls, marks[:, PULLS])
