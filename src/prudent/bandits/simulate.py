"""Many replications of bandit agents on an environment, compiled, as labelled datasets.

Random streams are those of :mod:`prudent._streams`: all agents face the same contexts and noise.

**Regret.** Conventional: the sum over t of max_a s'theta_a - s'theta_{a_t}. BR-regret at a metric level:
the sum of max_a r^t(s, a) - r^t(s, a_t), where r^t(s, a) is CVaR of s'theta under the agent's own posterior of arm a:
its normal posterior with the sd of the noise (whatever sd the agent samples with), clipped to [0, 1] for an agent that
clips. Both by closed form, at every step, recorded on a grid of times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numerics.compile import default_threads, kernel, over_rows
from .._numerics.least_squares import add_observation, solve_posterior
from .._numerics.normal import normal_cdf, normal_pdf
from .._support.checks import FloatArray, IntArray, index_array, positive, risk_level, whole_number
from .._support.streams import replication_streams
from ..envs.linear_bandit import LinearBanditEnv, draw_context, draw_noise, reward_of
from ..errors import ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from .settings import BanditSettings
from .step import best_score, inflated_sd, predict, screen_of

if TYPE_CHECKING:
    import xarray

__all__ = ["simulate_bandit"]


def simulate_bandit(
    env: LinearBanditEnv,
    policies: BanditSettings | Sequence[BanditSettings],
    *,
    horizon: int,
    replications: int,
    seed: int = 0,
    levels: Sequence[float] = (0.5, 0.8, 0.9),
    times: Any = None,
    noise_sd: float | None = None,
    prior_precision: Any = 1.0,
    first_replication: int = 0,
    threads: int | None = None,
) -> xarray.Dataset:
    """Run every policy on ``env`` for ``horizon`` steps, ``replications`` times, and return cumulative regrets.

    The dataset has ``regret`` (agent, replication, time), ``br_regret`` (agent, replication, level, time) at the
    metric ``levels``, and ``pulls`` (agent, replication, arm). ``times`` are the steps to record, 200 evenly spaced
    ones unless told. The agents take the noise to have sd ``noise_sd``, that of the environment if left out.
    Replications are numbered from ``first_replication``.

    >>> from prudent.bandits import brps_cmab, thompson_sampling
    >>> from prudent.envs import gaussian_bandit
    >>> runs = simulate_bandit(
    ...     gaussian_bandit(), [thompson_sampling(), brps_cmab(0.8)], horizon=100, replications=3, times=[50, 100]
    ... )
    >>> dict(runs.br_regret.sizes)
    {'agent': 2, 'replication': 3, 'level': 3, 'time': 2}
    """
    import xarray

    if not isinstance(env, LinearBanditEnv):
        raise ParameterError(f"env must be a LinearBanditEnv, got {env!r}")
    agents = [policies] if isinstance(policies, BanditSettings) else list(policies)
    for i, policy in enumerate(agents):
        if not isinstance(policy, BanditSettings):
            raise ParameterError(f"policies[{i}] must be a BanditSettings, got {policy!r}")
    names = [policy.name for policy in agents]
    if not names or len(set(names)) < len(names):
        raise ParameterError(f"policies must be some with different names, got {names}; set name to tell them apart")
    horizon = whole_number(horizon, "horizon")
    count = whole_number(replications, "replications")
    first = whole_number(first_replication, "first_replication", minimum=0)
    whole_number(seed, "seed", minimum=0)
    grid = _time_grid(times, horizon)
    metric = np.array([risk_level(level, f"levels[{i}]") for i, level in enumerate(levels)], dtype=np.float64)
    blank = LinearGaussianPosterior(
        env.dim, prior_precision, positive(env.noise_sd if noise_sd is None else noise_sd, "noise_sd")
    )
    quantile, density = _tail_normal(metric)
    regret = np.empty((len(agents), count, grid.size))
    br_regret = np.empty((len(agents), count, metric.size, grid.size))
    pulls = np.zeros((len(agents), count, env.n_arms), dtype=np.int64)
    prepared = [(p.n, p.weights, p.clip, screen_of(p.n) if p.weights.size == 1 else np.zeros(2)) for p in agents]

    def work(start: int, stop: int) -> None:
        for row in range(start, stop):
            agent, replication = divmod(row, count)
            policy = agents[agent]
            environment_rng, agent_rng = replication_streams(seed, first + replication)
            _run_bandit(
                env.theta,
                env.bounded,
                env.noise_sd,
                blank.prior,
                blank.noise_sd,
                *prepared[agent],
                0.0 if policy.delta is None else policy.delta,
                policy.nu(1, env.dim, blank.noise_sd),
                1.0 - metric,
                quantile,
                density,
                grid,
                environment_rng,
                agent_rng,
                regret[agent, replication],
                br_regret[agent, replication],
                pulls[agent, replication],
            )

    over_rows(work, len(agents) * count, threads or default_threads())
    return xarray.Dataset(
        {
            "regret": (("agent", "replication", "time"), regret),
            "br_regret": (("agent", "replication", "level", "time"), br_regret),
            "pulls": (("agent", "replication", "arm"), pulls),
        },
        coords={
            "agent": names,
            "replication": np.arange(first, first + count),
            "level": metric,
            "time": grid,
            "arm": np.arange(env.n_arms),
        },
        attrs={"seed": seed, "horizon": horizon, "noise_sd": blank.noise_sd},
    )


def _time_grid(times: Any, horizon: int) -> IntArray:
    if times is None:
        return np.unique(np.linspace(horizon / min(200, horizon), horizon, min(200, horizon)).astype(np.int64))
    grid = index_array(times, "times", horizon + 1, error=ParameterError)
    if grid.ndim != 1 or not grid.size or grid[0] < 1 or (np.diff(grid) <= 0).any():
        raise ParameterError(f"times must be a rising list of steps from 1 to {horizon}, got {times!r}")
    return grid


def _tail_normal(levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the (1 - level)-quantile of the standard normal and the density there."""
    from scipy.special import ndtri

    quantile = ndtri(1.0 - levels)  # plus infinity at level 0
    return quantile, np.exp(-0.5 * quantile**2) / math.sqrt(2.0 * math.pi)


@kernel
def _cvar(mean: float, sd: float, clip: bool, tail: float, quantile: float, density: float) -> float:
    """Return CVaR of Normal(mean, sd^2), clipped to [0, 1] if ``clip``: see prudent.exact for many digits at once."""
    if not clip:
        return mean - sd * density / tail
    if sd == 0.0:
        return min(max(mean, 0.0), 1.0)
    x = min(max(mean + sd * quantile, 0.0), 1.0)
    high = (x - mean) / sd
    low = -mean / sd
    # E[(x - Y)+] of the normal, less its part below 0
    shortfall = normal_pdf(high) + high * normal_cdf(high) - normal_pdf(low) - low * normal_cdf(low)
    return min(max(x - sd * shortfall / tail, 0.0), x)


@kernel
def _run_bandit(
    theta: FloatArray,
    bounded: bool,
    true_sd: float,
    prior: FloatArray,
    noise_sd: float,
    n: int,
    weights: FloatArray,
    clip: bool,
    screen: FloatArray,
    delta: float,
    nu: float,
    tails: FloatArray,
    quantiles: FloatArray,
    densities: FloatArray,
    times: IntArray,
    environment_rng: np.random.Generator,
    agent_rng: np.random.Generator,
    regret: FloatArray,
    br_regret: FloatArray,
    pulls: IntArray,
) -> None:
    """Run one replication; write regret [T], br_regret [L,T] at the recorded times, and pulls [A]."""
    arms, dim = theta.shape
    lowest = weights.shape[0]
    gram = np.zeros((arms, 2, dim + 1, dim + 1))
    root = np.empty((arms, dim, dim))
    mean = np.empty((arms, dim))
    for a in range(arms):
        solve_posterior(gram[a], prior, root[a], mean[a])
    context = np.empty(dim)
    means = np.empty(arms)
    sds = np.empty(arms)
    spread = np.empty(arms)
    draws = np.empty(lowest)
    need = arms * (lowest + 1)
    uniforms = np.empty(max(1024, need))
    after = uniforms.shape[0]
    total = 0.0
    br_total = np.zeros(tails.shape[0])
    place = 0
    for t in range(1, times[-1] + 1):
        draw_context(environment_rng, bounded, context)
        noise = draw_noise(environment_rng, bounded)
        # decide, as LinearBandit.select does
        if after + need > uniforms.shape[0]:
            left = uniforms.shape[0] - after
            for i in range(left):
                uniforms[i] = uniforms[after + i]
            for i in range(left, uniforms.shape[0]):
                uniforms[i] = agent_rng.random()
            after = 0
        if delta > 0.0:
            nu = inflated_sd(float(t), dim, delta)
        scale = nu / noise_sd
        for a in range(arms):
            means[a], width = predict(root[a], mean[a], context)
            sds[a] = noise_sd * width
            spread[a] = scale * sds[a]
        chosen, _, after = best_score(
            means, spread, n, weights, clip, screen, uniforms, after, after + arms * lowest, draws
        )
        # what it costs
        best = -math.inf
        paid = 0.0
        for a in range(arms):
            expected = 0.0
            for i in range(dim):
                expected += theta[a, i] * context[i]
            best = max(best, expected)
            if a == chosen:
                paid = expected
        total += best - paid
        for level in range(tails.shape[0]):
            own = _cvar(means[chosen], sds[chosen], clip, tails[level], quantiles[level], densities[level])
            top = own
            for a in range(arms):
                # CVaR is at most the quantile that begins the tail, which spares most arms the work
                if not clip or min(max(means[a] + sds[a] * quantiles[level], 0.0), 1.0) > top:
                    value = _cvar(means[a], sds[a], clip, tails[level], quantiles[level], densities[level])
                    top = max(top, value)
            br_total[level] += top - own
        # learn
        reward = reward_of(paid, noise, bounded, true_sd)
        add_observation(gram[chosen], context, reward)
        solve_posterior(gram[chosen], prior, root[chosen], mean[chosen])
        pulls[chosen] += 1
        if t == times[place]:
            regret[place] = total
            for level in range(tails.shape[0]):
                br_regret[level, place] = br_total[level]
            place += 1
