"""Replications of agents on tabular problems with known truth: compiled loops, results as an xarray Dataset.

Replication r of seed q gives the environment the generator of SeedSequence(q, spawn_key=(r, 0)) and the agent that of
(r, 1). So results do not depend on threads or order, more replications keep the old ones, and all agents face the
same random numbers: compare them replication by replication.

Regret after T episodes is the sum over all visited states of V*(s) - V^pi(s), pi being the policy of the episode, both
exact in the true model (the paper's conventional regret for RL). BR-regret of an episode is the sum over its visited
states of V^{psi,*}(s) - V^{psi,pi}(s), exact under the agent's own posterior psi at the start of the episode.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads, each_row, over_rows
from .._support.checks import FloatArray, IntArray, index_array, risk_level, whole_number
from .._support.cluster import replicated
from .._support.progress import Progress
from .._support.streams import replication_streams, seed_of
from ..agents.optimistic_vi import OptimisticSettings
from ..agents.sampling_settings import SamplingSettings
from ..envs.problem import Problem
from ..errors import ConvergenceWarning, ParameterError, PosteriorError
from ..models.uncertain import UncertainMDP
from ..planning.inner import Known, known_part, work_space
from ..planning.options import SolverOptions
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.solve import solve
from ..posteriors.dirichlet import prior_counts
from ..types import ArrayLike, RngLike
from .loops import Trace, Truth, run_optimistic, run_sampling

if TYPE_CHECKING:
    import xarray

__all__ = ["simulate"]


Settings = SamplingSettings | OptimisticSettings
Arrays = dict[str, npt.NDArray[Any]]
RECORDS = {"states": ("step", np.int32), "policies": ("state", np.int16), "rewards": ("step", np.float64)}
DIMENSIONS = {
    "regret": ("episode",),
    "reward": ("episode",),
    **{name: ("episode", axis) for name, (axis, _) in RECORDS.items()},
    "br_regret": ("br_episode", "alpha"),
    "margin": (),
}
CACHED_NUMBERS = 1 << 20  # size of the cache of policy values, for each thread
BR_TOLERANCE = 1e-13  # of the values that BR-regret subtracts; the solver stops where rounding does not allow it


def simulate(
    problem: Problem | tuple[UncertainMDP, ArrayLike],
    agents: Settings | Sequence[Settings],
    *,
    episodes: int = 400,
    replications: int = 100,
    episode_length: int = 10,
    rng: RngLike = 0,
    prior: ArrayLike | None = None,
    start: int | None = None,
    br_episodes: ArrayLike = (),
    alphas: float | Sequence[float] | None = None,
    record: Sequence[str] = (),
    first_replication: int = 0,
    threads: int | None = None,
    client: Any = None,
) -> xarray.Dataset:
    """Run agents on a problem many times and measure their regret.

    The state runs on from one episode to the next.

    Parameters
    ----------
    problem : Problem or tuple
        A model with its true probabilities theta [B, K], as the functions of `prudent.envs` return it.
    agents : SamplingSettings, OptimisticSettings or sequence of these
        Settings such as ``brps_rl(0.9)``. Labels must differ.
    episodes : int, default=400
        Number of episodes T.
    replications : int, default=100
        Number of replications R.
    episode_length : int, default=10
        Steps in an episode.
    rng : int, Generator or None, default=0
        Seed. A Generator (or None) gives a seed by one draw. Equal seeds give equal datasets.
    prior : float or array_like, optional
        Prior of the agents. A number is the mass of a pair of state and action, spread evenly over its outcomes; an
        array [B, K] gives every Dirichlet count. The default is a count of one for every outcome.
    start : int, optional
        Index of the first state, and of the state after an end of the process. The default is that of the problem.
    br_episodes : array_like of int, optional
        Episodes of which BR-regret is measured. The default is none.
    alphas : float or sequence of float, optional
        Risk levels at which BR-regret is measured. By default each agent is measured at its own level, and there is no
        dimension ``alpha``.
    record : sequence of {"states", "policies", "rewards"}, optional
        What to record of every episode.
    first_replication : int, default=0
        Number of the first replication.
    threads : int, optional
        Number of threads. The default is the number of cores.
    client : object, optional
        Computes on a dask cluster: a Client of dask.distributed, a cluster object, or the address of a scheduler. The
        dataset is the same to the last bit.

    Returns
    -------
    xarray.Dataset
        ``regret`` (agent, replication, episode), cumulative; ``reward`` (agent, replication, episode);
        ``br_regret`` (agent, replication, br_episode, alpha); recorded ``states``, ``rewards`` (..., step) and
        ``policies`` (..., state) as indices; and, with optimistic agents, ``margin`` (agent, replication), the least
        Q - Q* of the run.

    Raises
    ------
    ParameterError
        If an argument is out of range, or labels are equal.
    PosteriorError
        If the prior excludes an outcome that happens.

    See Also
    --------
    simulate_bandit : The same for bandits.
    learn : One agent in a Gymnasium environment.

    Examples
    --------
    >>> from prudent.agents import brps_rl, ts_rl
    >>> from prudent.envs import frozen_lake
    >>> runs = simulate(frozen_lake(p_h=0.2), [ts_rl(), brps_rl(0.9)], episodes=20, replications=5)
    >>> dict(runs.regret.sizes), runs.agent.values.tolist()
    ({'agent': 2, 'replication': 5, 'episode': 20}, ['TS-RL', 'BRPS-RL 0.9'])
    """
    import xarray

    task = problem if isinstance(problem, Problem) else Problem(*problem)
    settings = _checked_agents(agents)
    n_episodes = whole_number(episodes, "episodes")
    measured = index_array(np.atleast_1d(br_episodes), "br_episodes", n_episodes, ParameterError)
    if alphas is not None and not measured.size:
        text = "alphas are those of BR-regret; give its episodes as br_episodes"
        raise ParameterError(text, code="missing-argument", argument="br_episodes")
    run = _Run(
        task=task,
        episodes=n_episodes,
        length=whole_number(episode_length, "episode_length"),
        replications=whole_number(replications, "replications"),
        first=whole_number(first_replication, "first_replication", 0),
        seed=seed_of(rng),
        prior=_checked_prior(task, prior),
        start=task.start if start is None else int(index_array(start, "start", task.model.n_states, ParameterError)),
        measured=measured,
        record=_checked_record(record),
        threads=default_threads() if threads is None else whole_number(threads, "threads"),
    )
    metric_alphas: list[tuple[float, ...]] = [()] * len(settings)
    if measured.size:
        metric_alphas = _metric_alphas(alphas, settings)
    parts = []
    for agent, pieces in zip(settings, run.all_agents(settings, metric_alphas, client), strict=True):
        failures = sum(stopped for _, stopped in pieces)
        if failures:
            count = run.replications * n_episodes
            text = f"{agent.label}: {failures} of {count} policies stopped at the maximum number of backups"
            warnings.warn(
                ConvergenceWarning(text, code="policy-not-optimal", agent=agent.label, value=failures), stacklevel=2
            )
        arrays = [piece for piece, _ in pieces]
        parts.append({name: np.concatenate([piece[name] for piece in arrays]) for name in arrays[0]})
    joined = {name: _joined(name, parts) for name in DIMENSIONS if any(name in part for part in parts)}
    coords: dict[str, Any] = {
        "agent": [agent.label for agent in settings],
        "replication": np.arange(run.first, run.first + run.replications),
        "episode": np.arange(n_episodes),
    }
    if measured.size:
        coords["br_episode"] = measured
    variables = {name: (("agent", "replication", *DIMENSIONS[name]), array) for name, array in joined.items()}
    if measured.size and alphas is None:
        variables["br_regret"] = (("agent", "replication", "br_episode"), joined["br_regret"][..., 0])
    elif measured.size:
        coords["alpha"] = list(metric_alphas[0])
    attributes = {
        "seed": run.seed,
        "episode_length": run.length,
        "discount": task.model.discount,
        "n_states": task.model.n_states,
        "n_actions": task.model.n_actions,
    }
    return xarray.Dataset(variables, coords=coords, attrs=attributes)


def _joined(name: str, parts: list[Arrays]) -> npt.NDArray[Any]:
    """Return the arrays of all agents as one; NaN for agents that have none."""
    shape = next(part[name].shape for part in parts if name in part)
    return np.stack([part[name] if name in part else np.full(shape, np.nan) for part in parts])


def _checked_record(record: Sequence[str]) -> tuple[str, ...]:
    for name in record:
        if name not in RECORDS:
            text = f"record has {name!r}, expected some of {', '.join(map(repr, RECORDS))}"
            raise ParameterError(text, code="unknown-option", argument="record", value=name)
    return tuple(record)


def _checked_agents(agents: Any) -> list[Settings]:
    settings = [agents] if isinstance(agents, Settings) else list(agents)
    if not settings:
        raise ParameterError("agents must have at least one, got none", code="empty", argument="agents")
    labels: list[str] = []
    for i, agent in enumerate(settings):
        if not isinstance(agent, Settings):
            text = f"agents[{i}] is {agent!r}, expected settings such as brps_rl(0.9)"
            raise ParameterError(text, code="wrong-type", argument="agents", index=(i,), value=agent)
        if agent.label in labels:
            text = f"agents[{labels.index(agent.label)}] and agents[{i}] have the same label, {agent.label!r}"
            raise ParameterError(
                f"{text}; give one another label", code="duplicate-label", argument="agents", value=agent.label
            )
        labels.append(agent.label)
    return settings


def _metric_alphas(alphas: Any, settings: list[Settings]) -> list[tuple[float, ...]]:
    """Return the risk levels of BR-regret for each agent."""
    if alphas is not None:
        common = tuple(risk_level(alpha, "alphas") for alpha in np.atleast_1d(alphas))
        return [common] * len(settings)
    single: list[tuple[float, ...]] = []
    for i, agent in enumerate(settings):
        if not isinstance(agent.alpha, float):
            text = f"alphas must be given: agents[{i}], {agent.label}, has no single risk level"
            raise ParameterError(text, code="missing-argument", argument="alphas", index=(i,))
        single.append((agent.alpha,))
    return single


def _checked_prior(task: Problem, prior: ArrayLike | None) -> FloatArray:
    """Return counts [B, K] under which everything that happens is possible."""
    counts = prior_counts(task.model, prior)
    hidden = (counts == 0.0) & (task.theta > 0.0)
    if hidden.any():
        b, k = (int(i) for i in np.argwhere(hidden)[0])
        text = f"prior[{b}, {k}] is 0, but this outcome happens with probability {task.theta[b, k]}"
        raise PosteriorError(text, code="impossible-outcome", argument="prior", index=(b, k))
    return counts


@dataclass(frozen=True, eq=False)
class _Run:
    """Replications of several agents on one problem."""

    task: Problem
    episodes: int
    length: int  # steps in an episode
    replications: int
    first: int  # number of the first replication
    seed: int
    prior: FloatArray  # [B, K]
    start: int
    measured: IntArray  # [M] episodes of which BR-regret is measured
    record: tuple[str, ...]
    threads: int

    @cached_property
    def known(self) -> Known:
        """The known part of the model."""
        return known_part(self.task.model)

    @cached_property
    def scale(self) -> float:
        """The largest absolute reward, or one."""
        return max(1.0, float(abs(self.task.model.entries.reward).max()))

    @cached_property
    def optimum(self) -> Solution:
        """Optimum of the true model, to the last digits: regrets are small differences of values."""
        return solve(self.task.mdp(), tol=1e-12 * self.scale)

    def truth(self) -> Truth:
        """Return the truth with a new cache."""
        states = self.task.model.n_states
        rows = max(16, min(1024, CACHED_NUMBERS // states))
        return Truth(
            theta=self.task.model.entries.pack(self.task.theta),
            course=self.task.model.course(self.task.theta, self.start),
            best=self.optimum.value,
            best_q=self.optimum.q.reshape(-1),
            start=self.start,
            observed=self.task.observed,
            keys=np.zeros((rows, states), dtype=np.int64),
            values=np.zeros((rows, states)),
            full=np.zeros(rows, dtype=np.int64),
        )

    def all_agents(
        self, settings: list[Settings], alphas: list[tuple[float, ...]], client: Any
    ) -> list[list[tuple[Arrays, int]]]:
        """Return for each agent the results of `agent`, for one or several ranges of replications."""
        self.optimum  # noqa: B018  # before threads or workers need it
        if client is not None:
            single = replace(self, threads=1)
            single.__dict__["optimum"] = self.optimum
            return replicated(
                client, single.agent, list(zip(settings, alphas, strict=True)), self.replications, self.first
            )
        progress = Progress("simulating")
        parts = []
        for i, (agent, levels) in enumerate(zip(settings, alphas, strict=True)):
            lock, done = threading.Lock(), 0

            def advance(i: int = i, lock: threading.Lock = lock) -> None:
                nonlocal done
                with lock:
                    done += 1
                    progress.show(f"agent {i + 1} of {len(settings)}, replication {done} of {self.replications}")

            parts.append([self.agent(agent, levels, self.first, self.replications, advance)])
        progress.close()
        return parts

    def agent(
        self,
        settings: Settings,
        alphas: tuple[float, ...],
        first: int,
        n: int,
        advance: Callable[[], None] = lambda: None,
    ) -> tuple[Arrays, int]:
        """Return arrays [replication, ...] of one agent by name, and the number of policies that are not optimal.

        ``advance`` is called after each replication.
        """
        model, T, L = self.task.model, self.episodes, self.length
        lengths = {"step": L, "state": model.n_states}
        arrays: Arrays = {"regret": np.empty((n, T)), "reward": np.empty((n, T))}
        arrays |= {name: np.empty((n, T, lengths[RECORDS[name][0]]), RECORDS[name][1]) for name in self.record}
        if self.measured.size:
            arrays["br_regret"] = np.full((n, self.measured.size, len(alphas)), np.nan)
        answers = np.empty(n)  # of the loop: failures of the solver, or the margin of optimism
        at = np.zeros(T, dtype=np.int64)
        at[self.measured] = 1 + np.arange(self.measured.size)
        known, run, plan = self.known, *self._loop(settings)

        def work(begin: int, end: int) -> None:
            space, truth = work_space(model, settings.most_draws), self.truth()
            rewards, visited = np.empty((T, L)), np.empty((T, L), dtype=np.int64)
            followed = np.empty((T, model.n_states), dtype=np.int64)
            snapshots = np.empty((self.measured.size, *self.prior.shape))
            traced = {"rewards": rewards, "states": visited, "policies": followed}
            for r in each_row(begin, end):
                env, rng = replication_streams(self.seed, first + r)
                trace = Trace(arrays["regret"][r], rewards, visited, followed, at, snapshots)
                answers[r] = run(env, rng, known, space, truth, self.prior.copy(), plan, trace)
                arrays["reward"][r] = rewards.sum(axis=1)
                for name in self.record:
                    arrays[name][r] = traced[name]
                if self.measured.size:
                    arrays["br_regret"][r] = self._br_regrets(snapshots, followed, visited, alphas)
                advance()

        over_rows(work, n, self.threads, long=True)
        if isinstance(settings, OptimisticSettings):
            return arrays | {"margin": answers}, 0
        return arrays, int(answers.sum())

    def _loop(self, settings: Settings) -> tuple[Any, Any]:
        """Return the compiled loop for these settings, and its plan."""
        if isinstance(settings, SamplingSettings):
            return run_sampling, settings.plan(self.prior, self.episodes, self.episodes * self.length)
        horizon = settings.horizon or self.episodes * self.length
        return run_optimistic, replace(settings, horizon=horizon).plan(self.task.model)

    def _br_regrets(
        self, snapshots: FloatArray, followed: IntArray, visited: IntArray, alphas: tuple[float, ...]
    ) -> FloatArray:
        """Return the BR-regret [M, alpha] of the measured episodes of one replication."""
        regrets = np.empty((self.measured.size, len(alphas)))
        options = SolverOptions(tol=BR_TOLERANCE * self.scale)
        for i, t in enumerate(self.measured):
            for j, alpha in enumerate(alphas):
                brmdp = BayesianRiskMDP(self.task.model, snapshots[i], alpha)
                best = brmdp.solve(options=options, threads=1)
                followed_value = brmdp.evaluate(followed[t], initial_value=best.value, options=options, threads=1).value
                regrets[i, j] = (best.value - followed_value)[visited[t]].sum()
        return regrets
