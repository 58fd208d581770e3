"""Agents against a known truth, many times over: compiled replication loops, results as an xarray Dataset.

Replication r of seed q gives the environment the generator of SeedSequence(q, spawn_key=(r, 0)) and the agent that of
(r, 1). So results do not depend on threads or order, more replications keep the old ones, and all agents meet the
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

from .._numerics.compile import default_threads, each_row, over_rows
from .._support.checks import FloatArray, IntArray, index_array, risk_level, whole_number
from .._support.cluster import replicated
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..agents.optimistic_vi import OptimisticSettings, OptimisticVIAgent
from ..agents.posterior_sampling import PosteriorSamplingAgent, SamplingSettings
from ..envs.problem import Problem
from ..errors import ConvergenceWarning, ModelError, ParameterError, PosteriorError
from ..models.uncertain import UncertainMDP
from ..planning.inner import Known, known_part, work_space
from ..planning.options import SolverOptions
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.solve import solve
from .loops import Trace, Truth, run_optimistic, run_sampling

if TYPE_CHECKING:
    import xarray

    from ..envs.gymnasium import GymnasiumModel

__all__ = ["learn", "simulate"]


Settings = SamplingSettings | OptimisticSettings
RECORDS = {"states": ("step", np.int32), "policies": ("state", np.int16), "rewards": ("step", np.float64)}
CACHE = 1 << 20  # numbers kept about policies, for each thread
BR_TOLERANCE = 1e-13  # of the values that BR-regret subtracts; the solver stops where rounding does not allow it


def simulate(
    problem: Problem | tuple[UncertainMDP, Any],
    agents: Settings | Sequence[Settings],
    *,
    episodes: int = 400,
    replications: int = 100,
    episode_length: int = 10,
    seed: int = 0,
    prior: Any = 1.0,
    start: int | None = None,
    br_episodes: Any = (),
    levels: float | Sequence[float] | None = None,
    record: Sequence[str] = (),
    first_replication: int = 0,
    threads: int | None = None,
    client: Any = None,
) -> xarray.Dataset:
    """Run every agent ``replications`` times for ``episodes`` episodes, the state running on from one to the next.

    ``problem`` is a model with its true theta [B, K], as the functions of :mod:`prudent.envs` return it; ``agents`` are
    settings such as ``brps_rl(0.9)``. Returns a Dataset with

    - ``regret`` (agent, replication, episode): cumulative; ``reward``: earned in the episode;
    - ``br_regret`` (agent, replication, br_episode, level) of the episodes ``br_episodes``, at the risk levels
      ``levels``; without these there is no such axis and each agent is measured at its own level;
    - as ``record`` asks: ``states`` and ``rewards`` (..., step), ``policies`` (..., state) as indices;
    - ``margin`` (agent, replication), with optimistic agents: the least Q - Q* in the run (guaranteed not negative).

    ``start`` is the index of the first state (default: the problem's) and of the one after an end of the process;
    ``prior`` counts as for the agents.
    Replications are numbered from ``first_replication``.

    ``client`` has the work done by the workers of a dask cluster, each thread of theirs for itself: a Client of
    dask.distributed, a cluster object, or the address of a scheduler. The dataset is the same to the last bit.

    >>> from prudent.agents.posterior_sampling import brps_rl, ts_rl
    >>> from prudent.envs.frozen_lake import frozen_lake
    >>> runs = simulate(frozen_lake(p_h=0.2), [ts_rl(), brps_rl(0.9)], episodes=20, replications=5)
    >>> dict(runs.regret.sizes), runs.agent.values.tolist()
    ({'agent': 2, 'replication': 5, 'episode': 20}, ['TS-RL', 'BRPS-RL 0.9'])
    """
    import xarray

    task = problem if isinstance(problem, Problem) else Problem(*problem)
    settings = _checked_agents(agents)
    labels = [each.label for each in settings]
    recorded = tuple(record)
    unknown = [what for what in recorded if what not in RECORDS]
    if unknown:
        raise ParameterError(f"record has {unknown[0]!r}, expected some of {', '.join(map(repr, RECORDS))}")
    n_episodes = whole_number(episodes, "episodes")
    moments = index_array(np.atleast_1d(br_episodes), "br_episodes", n_episodes, ParameterError)
    if levels is not None and not moments.size:
        raise ParameterError("levels are those of BR-regret; say of which episodes as br_episodes")
    run = _Run(
        task=task,
        episodes=n_episodes,
        length=whole_number(episode_length, "episode_length"),
        replications=whole_number(replications, "replications"),
        first=whole_number(first_replication, "first_replication", 0),
        seed=whole_number(seed, "seed", 0),
        prior=_checked_prior(task, prior),
        start=task.start if start is None else int(index_array(start, "start", task.model.n_states, ParameterError)),
        moments=moments,
        record=recorded,
        threads=default_threads() if threads is None else whole_number(threads, "threads"),
    )
    measured: list[tuple[float, ...]] = _levels(levels, settings) if moments.size else [()] * len(settings)
    parts = []
    for each, pieces in zip(settings, run.everything(settings, measured, client), strict=True):
        failures = sum(stopped for _, stopped in pieces)
        if failures:
            warnings.warn(
                f"{each.label}: {failures} of {run.replications * n_episodes} policies stopped at the cap of backups",
                ConvergenceWarning,
                stacklevel=2,
            )
        found = [data for data, _ in pieces]
        whole = xarray.concat(found, dim="replication", data_vars="minimal", coords="minimal", compat="override")
        parts.append(found[0] if len(found) == 1 else whole)
    data = xarray.concat(parts, dim="agent", data_vars="all", coords="minimal", compat="override", join="outer")
    data = data.assign_coords(agent=labels)
    if moments.size and levels is None:
        data = data.squeeze("level", drop=True)
    elif moments.size:
        data = data.assign_coords(level=list(measured[0]))
    data.attrs = {
        "seed": run.seed,
        "episode_length": run.length,
        "discount": task.model.discount,
        "n_states": task.model.n_states,
        "n_actions": task.model.n_actions,
    }
    return data


def _checked_agents(agents: Any) -> list[Settings]:
    given = [agents] if isinstance(agents, Settings) else list(agents)
    if not given:
        raise ParameterError("agents must have at least one, got none")
    for i, each in enumerate(given):
        if not isinstance(each, Settings):
            raise ParameterError(f"agents[{i}] is {each!r}, expected settings such as brps_rl(0.9)")
    labels = [each.label for each in given]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            first = labels.index(label)
            raise ParameterError(
                f"agents[{first}] and agents[{i}] have the same label, {label!r}; give one a label of its own"
            )
    return given


def _levels(levels: Any, settings: list[Settings]) -> list[tuple[float, ...]]:
    """Return the risk levels of BR-regret for each agent."""
    if levels is not None:
        given = tuple(risk_level(level, "levels") for level in np.atleast_1d(levels))
        return [given] * len(settings)
    own: list[tuple[float, ...]] = []
    for i, each in enumerate(settings):
        if not isinstance(each.alpha, float):
            raise ParameterError(f"levels must be given: agents[{i}], {each.label}, has no single risk level")
        own.append((each.alpha,))
    return own


def _checked_prior(task: Problem, prior: Any) -> FloatArray:
    """Return counts [B, K] under which everything that happens is possible."""
    counts = task.model.prior(prior) if np.ndim(prior) == 0 else task.model.count([], prior)
    hidden = (counts == 0.0) & (task.theta > 0.0)
    if hidden.any():
        b, k = (int(i) for i in np.argwhere(hidden)[0])
        raise PosteriorError(f"prior[{b}, {k}] is 0, but this outcome happens with probability {task.theta[b, k]}")
    return counts


@dataclass(frozen=True, eq=False)
class _Run:
    """One problem, to be met by several agents."""

    task: Problem
    episodes: int
    length: int  # steps in an episode
    replications: int
    first: int  # the number of the first of them
    seed: int
    prior: FloatArray  # [B, K]
    start: int
    moments: IntArray  # [M] the episodes of which BR-regret is measured
    record: tuple[str, ...]
    threads: int

    @cached_property
    def known(self) -> Known:
        """The known part of the model."""
        return known_part(self.task.model)

    @cached_property
    def scale(self) -> float:
        """The largest reward in size, or one."""
        return max(1.0, float(abs(self.task.model.entries.reward).max()))

    @cached_property
    def optimum(self) -> Solution:
        """The optimum of the true model. Policies are compared by their values, so it needs the last digits too."""
        return solve(self.task.mdp(), tol=1e-12 * self.scale)

    def truth(self) -> Truth:
        """Return the truth with a cache of its own."""
        states = self.task.model.n_states
        rows = max(16, min(1024, CACHE // states))
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

    def everything(
        self, settings: list[Settings], levels: list[tuple[float, ...]], client: Any
    ) -> list[list[tuple[Any, int]]]:
        """Return for each agent what :meth:`agent` says, of one or several ranges of replications."""
        self.optimum  # noqa: B018  # before threads ask for it, or workers
        if client is not None:
            of_one_thread = replace(self, threads=1)
            of_one_thread.__dict__["optimum"] = self.optimum
            agents = list(zip(settings, levels, strict=True))
            return replicated(client, of_one_thread.agent, agents, self.replications, self.first)
        progress = Progress("simulating")
        parts = []
        for i, (each, own) in enumerate(zip(settings, levels, strict=True)):
            lock, done = threading.Lock(), 0

            def tell(i: int = i, lock: threading.Lock = lock) -> None:
                nonlocal done
                with lock:
                    done += 1
                    at = f"agent {i + 1} of {len(settings)}, replication {done} of {self.replications}"
                    progress.show(at)

            parts.append([self.agent(each, own, self.first, self.replications, tell)])
        progress.close()
        return parts

    def agent(
        self,
        settings: Settings,
        levels: tuple[float, ...],
        start: int,
        n: int,
        tell: Callable[[], None] = lambda: None,
    ) -> tuple[Any, int]:
        """Return the Dataset of ``n`` replications of one agent, without its name, and how many policies are no optima.

        ``tell`` is called when a replication is done.
        """
        import xarray

        model, T, L = self.task.model, self.episodes, self.length
        regret, reward = np.empty((n, T)), np.empty((n, T))
        lengths = {"step": L, "state": model.n_states}
        recorded = {what: np.empty((n, T, lengths[RECORDS[what][0]]), RECORDS[what][1]) for what in self.record}
        br_regret = np.full((n, self.moments.size, len(levels)), np.nan)
        answers = np.empty(n)  # of the loop: failures of the solver, or the margin of optimism
        at = np.zeros(T, dtype=np.int64)
        at[self.moments] = 1 + np.arange(self.moments.size)
        known, run, plan = self.known, *self._loop(settings)

        def work(first: int, last: int) -> None:
            arrays, truth = work_space(model, settings.most_draws), self.truth()
            rewards, visited = np.empty((T, L)), np.empty((T, L), dtype=np.int64)
            followed = np.empty((T, model.n_states), dtype=np.int64)
            snapshots = np.empty((self.moments.size, *self.prior.shape))
            happened = {"rewards": rewards, "states": visited, "policies": followed}
            for r in each_row(first, last):
                env, rng = replication_streams(self.seed, start + r)
                trace = Trace(regret[r], rewards, visited, followed, at, snapshots)
                answers[r] = run(env, rng, known, arrays, truth, self.prior.copy(), plan, trace)
                reward[r] = rewards.sum(axis=1)
                for what, array in recorded.items():
                    array[r] = happened[what]
                br_regret[r] = self._br_regrets(snapshots, followed, visited, levels)
                tell()

        over_rows(work, n, self.threads, long=True)
        found: dict[str, Any] = {
            "regret": (("replication", "episode"), regret),
            "reward": (("replication", "episode"), reward),
        }
        coords: dict[str, Any] = {"replication": np.arange(start, start + n), "episode": np.arange(T)}
        for what, array in recorded.items():
            found[what] = (("replication", "episode", RECORDS[what][0]), array)
        if self.moments.size:
            found["br_regret"] = (("replication", "br_episode", "level"), br_regret)
            coords["br_episode"] = self.moments
        if isinstance(settings, OptimisticSettings):
            found["margin"] = (("replication",), answers)
        failures = int(answers.sum()) if isinstance(settings, SamplingSettings) else 0
        return xarray.Dataset(found, coords=coords), failures

    def _loop(self, settings: Settings) -> tuple[Any, Any]:
        """Return the compiled loop for these settings, and its plan."""
        if isinstance(settings, SamplingSettings):
            return run_sampling, settings.plan(self.prior, self.episodes, self.episodes * self.length)
        horizon = settings.horizon or self.episodes * self.length
        return run_optimistic, replace(settings, horizon=horizon).plan(self.task.model)

    def _br_regrets(
        self, snapshots: FloatArray, followed: IntArray, visited: IntArray, levels: tuple[float, ...]
    ) -> FloatArray:
        """Return the BR-regret [M, level] of the chosen episodes of one replication."""
        found = np.empty((self.moments.size, len(levels)))
        options = SolverOptions(tol=BR_TOLERANCE * self.scale)
        for i, t in enumerate(self.moments):
            for j, level in enumerate(levels):
                brmdp = BayesianRiskMDP(self.task.model, snapshots[i], level)
                best = brmdp.solve(options=options, threads=1)
                own = brmdp.evaluate(followed[t], initial_value=best.value, options=options, threads=1)
                found[i, j] = (best.value - own.value)[visited[t]].sum()
        return found


def learn(
    agent: PosteriorSamplingAgent | OptimisticVIAgent,
    env: GymnasiumModel | Any,
    steps: int,
    seed: int | None = None,
) -> FloatArray:
    """Let ``agent`` act and learn for ``steps`` steps in a Gymnasium environment; return the rewards [T].

    ``env`` is a :class:`prudent.envs.GymnasiumModel`, for environments about which nothing is known, and the agent
    one for its ``model``; or one of our own environments, and the agent one for its problem (by index). The
    environment is reset from ``seed``, and again whenever it ends.

    >>> from prudent.agents.posterior_sampling import PosteriorSamplingAgent
    >>> from prudent.envs.gymnasium import GymnasiumModel
    >>> world = GymnasiumModel("FrozenLake-v1", discount=0.95, rewards=(0, 1))
    >>> agent = PosteriorSamplingAgent(world.model, alpha=0.5, prior=0.1, seed=1)
    >>> learn(agent, world, steps=100, seed=1).size
    100
    """
    from ..envs.gymnasium import GymnasiumModel, TabularEnv

    inner = getattr(env, "unwrapped", env)
    if isinstance(env, GymnasiumModel):
        model, world = env.model, env.env
    elif isinstance(inner, TabularEnv):
        model, world = inner.problem.model, env
    else:
        raise ModelError(f"env is {env}, expected a GymnasiumModel or one of the environments of prudent")
    if agent.model != model:
        raise ModelError(f"the agent is for {agent.model!r}, the environment is {model!r}")
    rewards = np.empty(whole_number(steps, "steps", 0))
    observation, _ = world.reset(seed=seed)
    for t in range(rewards.size):
        state = env.state(observation) if isinstance(env, GymnasiumModel) else int(observation)
        action = agent.act(state)
        if isinstance(env, GymnasiumModel):
            observation, reward, terminated, truncated, _ = world.step(env.action(action))
            agent.observe(state, action, *env.transition(observation, reward, terminated))
        else:
            observation, reward, terminated, truncated, info = world.step(action)
            agent.observe(state, action, None if info.get("ended") else int(observation), info.get("outcome"))
        rewards[t] = reward
        if terminated or truncated:
            observation, _ = world.reset()
    return rewards
