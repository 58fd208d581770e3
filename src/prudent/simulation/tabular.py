"""Replications of agents on tabular problems with known truth: compiled loops, results as an xarray Dataset.

Replication r of seed q gives the environment the generator of SeedSequence(q, spawn_key=(r, 0)) and the agent that of
(r, 1). So results do not depend on threads or order, more replications keep the old ones, and all agents face the
same random numbers: compare them replication by replication.

Regret after T episodes is the sum over all visited states of V*(s) - V^pi(s), pi being the policy of the episode, both
exact in the true model (the paper's conventional regret for RL). BR-regret of an episode is the sum over its visited
states of V^{psi,*}(s) - V^{psi,pi}(s), exact under the agent's own posterior psi at the start of the episode.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads, each_row, over_rows
from .._support.checks import (
    FloatArray,
    IntArray,
    index_array,
    items_of,
    one_of,
    open_probability,
    refuse,
    require_axes,
    require_scale,
    risk_levels,
    whole_number,
)
from .._support.cluster import replicated
from .._support.content import Content
from .._support.memory import require_memory
from .._support.progress import Progress
from .._support.provenance import provenance
from .._support.streams import can_restart, replication_streams, seed_of, source_key, state_memory, stream_states
from ..agents.optimistic_vi import OptimisticSettings, OptimisticVIAgent
from ..agents.posterior_sampling import PosteriorSamplingAgent
from ..agents.protocol import Agent, AgentFactory
from ..agents.sampling_settings import SamplingSettings
from ..envs.problem import Problem, start_index
from ..errors import ConvergenceWarning, ParameterError, PosteriorError
from ..models.transitions import Uses
from ..models.uncertain import UncertainMDP
from ..planning.inner import known_part, work_space
from ..planning.options import SolverOptions
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.solve import solve
from ..posteriors.dirichlet import prior_counts
from ..types import ArrayLike, Label, RngLike
from .agents import Custom, checked_agents, described
from .custom import Stage, is_compiled, new_agent, play_compiled
from .loops import Restarts, Trace, Truth, run_optimistic, run_sampling
from .summary import MOST, summarised

if TYPE_CHECKING:
    import xarray

Settings = SamplingSettings | OptimisticSettings
AnyAgent = Settings | Custom
PAIRINGS = ("step", "source")
KEPT = ("runs", "summary")
LONGEST = 10_000  # numbers of an array that an attribute lists
Arrays = dict[str, npt.NDArray[Any]]
RECORDS = {"states": ("step", np.int32), "policies": ("state", np.int16), "rewards": ("step", np.float64)}
DIMENSIONS = {
    "regret": ("episode",),
    "reward": ("episode",),
    **{name: ("episode", axis) for name, (axis, _) in RECORDS.items()},
    "br_regret": ("br_episode", "alpha"),
    "margin": (),
}
MOST_TOGETHER = 256  # replications in one call of a kernel
WORK_TOGETHER = 100_000  # and about how many transitions are looked at there
CACHED_NUMBERS = 1 << 20  # size of the cache of policy values, for each thread
BR_TOLERANCE = 1e-13  # of the values that BR-regret subtracts; the solver stops where rounding does not allow it


def simulate(
    problem: Problem | tuple[UncertainMDP, ArrayLike],
    agents: Settings | AgentFactory | Sequence[Settings | AgentFactory] | Mapping[str, Settings | AgentFactory],
    *,
    episodes: int = 400,
    replications: int = 100,
    episode_length: int = 10,
    rng: RngLike = 0,
    prior: ArrayLike | None = None,
    start: Label | None = None,
    episodic: bool = False,
    pairing: str = "step",
    br_episodes: ArrayLike = (),
    alphas: float | Sequence[float] | None = None,
    record: Sequence[str] = (),
    keep: str = "runs",
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    first_replication: int = 0,
    threads: int | None = None,
    client: Any = None,
) -> xarray.Dataset:
    """Run agents on a problem many times and measure their regret.

    The state runs on from one episode to the next, unless they are `episodic`.

    Parameters
    ----------
    problem : Problem or tuple
        A model with its true probabilities theta [B, K], as the functions of `prudent.envs` return it.
    agents : settings, agent factory, or sequence or dict of these
        Settings such as ``brps_rl(0.9)``, which run compiled; or a class or function that makes an agent of your own
        from a model (see `prudent.agents.Agent`), which runs at the speed of Python, or compiled if it is a
        ``jitclass`` of Numba. A dict gives their labels. Labels must differ.
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
    start : hashable, optional
        Index or name of the first state, and of the state after an end of the process; a number is an index. The
        default is that of the problem.
    episodic : bool, default=False
        Whether each episode begins in `start` and ends after `episode_length` steps. Regret is then that of the finite
        horizon: the optimal value of `start` minus that of the policy shown at the first step.
    pairing : {"step", "source"}, default="step"
        How agents share random numbers: by the number of the step, or by the k-th use of each source of the model. By
        source they stay paired after their paths part.

    Returns
    -------
    xarray.Dataset
        ``regret`` (agent, replication, episode), cumulative; ``reward`` (agent, replication, episode);
        ``br_regret`` (agent, replication, br_episode, alpha); recorded ``states``, ``rewards`` (..., step) and
        ``policies`` (..., state) as indices; and, with optimistic agents, ``margin`` (agent, replication), the least
        Q - Q* of the run. ``regret`` is NaN for an agent of your own that shows no policy, and a policy that depends on
        chance or on the step is recorded as -1.

    Other Parameters
    ----------------
    br_episodes : array_like of int, optional
        Episodes of which BR-regret is measured. The default is none.
    alphas : float or sequence of float, optional
        Risk levels at which BR-regret is measured. By default each agent is measured at its own level, and there is no
        dimension ``alpha``.
    record : sequence of {"states", "policies", "rewards"}, optional
        What to record of every episode.
    keep : {"runs", "summary"}, default="runs"
        Whether to keep every replication, or only running statistics: then there are ``regret_mean``,
        ``regret_variance`` (agent, episode), ``regret_quantile`` (agent, quantile, quantile_episode),
        ``regret_covariance`` (agent, other_agent) of the last episode, the same of ``total_reward``, and
        ``replications`` (agent). Memory does not grow with the number of replications.
    quantiles : sequence of float, default=(0.05, 0.25, 0.5, 0.75, 0.95)
        Probabilities of the quantiles of a summary, which have a relative error of at most 0.5%.
    first_replication : int, default=0
        Number of the first replication.
    threads : int, optional
        Number of threads. The default is the number of cores.
    client : object, optional
        Computes on a dask cluster: a Client of dask.distributed, a cluster object, or the address of a scheduler. The
        dataset is the same to the last bit.

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

    if not isinstance(problem, tuple) or len(problem) != 2:
        text = f"problem is {problem!r}, expected a Problem, as prudent.envs returns them, or a model and its theta"
        raise ParameterError(text, code="wrong-type", argument="problem", value=problem)
    task = problem if isinstance(problem, Problem) else Problem(*problem)
    model = task.model
    if not episodic:
        model.require_discounted("a simulation that is not episodic")
    require_scale(model.entries.reward, "a simulation")
    expected = "settings such as brps_rl(0.9), or a class or function that makes an agent from a model"
    settings: list[AnyAgent] = checked_agents(agents, Settings, expected, factories=True)
    n_episodes = whole_number(episodes, "episodes", memory=64.0)
    measured = np.atleast_1d(index_array(br_episodes, "br_episodes", n_episodes, ParameterError))
    require_axes(measured, "br_episodes", 1, ParameterError)
    if alphas is not None and not measured.size:
        message = "alphas are those of BR-regret; give its episodes as br_episodes"
        raise ParameterError(message, code="missing-argument", argument="br_episodes")
    levels: list[tuple[float, ...]] = [()] * len(settings)
    if measured.size:
        if episodic:
            text = "br_episodes: BR-regret is measured for processes that run on, not with episodic=True"
            raise ParameterError(text, code="conflicting-arguments", argument="br_episodes")
        levels = _metric_levels(alphas, settings)
    counts = prior_counts(model, prior)
    impossible = (counts == 0.0) & (task.theta > 0.0)
    expected = "a positive count: this outcome happens"
    refuse(impossible, counts, "prior", expected, error=PosteriorError, code="impossible-outcome")
    scale = max(1.0, float(abs(model.entries.reward).max()))
    length = whole_number(episode_length, "episode_length")
    if episodic:
        optimum = solve(task.mdp(), horizon=length)
    else:
        optimum = solve(task.mdp(), tol=1e-12 * scale)
    run = _Run(
        task=task,
        episodes=n_episodes,
        length=length,
        replications=whole_number(replications, "replications"),
        first=whole_number(first_replication, "first_replication", 0),
        seed=seed_of(rng),
        prior=counts,
        start=task.start if start is None else start_index(model, start),
        episodic=bool(episodic),
        by_source=one_of(pairing, "pairing", PAIRINGS) == "source",
        measured=measured,
        record=tuple(one_of(name, "record", RECORDS) for name in items_of(record, "record")),
        threads=default_threads() if threads is None else whole_number(threads, "threads"),
        optimum=optimum,
        br_options=SolverOptions(tol=BR_TOLERANCE * scale),
    )
    for i, agent in enumerate(settings):
        if isinstance(agent, Custom):
            new = run.new(agent)  # raises if it cannot be made
            if measured.size and not hasattr(new, "counts"):
                text = f"br_episodes need agents with Dirichlet counts, and agents[{i}], {agent.label}, has none"
                raise ParameterError(text, code="conflicting-arguments", argument="br_episodes", index=(i,))
    names = [agent.label for agent in settings]
    attributes = _attributes(run, settings, pairing)
    if one_of(keep, "keep", KEPT) == "summary":
        if measured.size or run.record:
            text = "keep='summary' has neither BR-regret nor records; leave out br_episodes and record"
            raise ParameterError(text, code="conflicting-arguments", argument="keep")
        shares = [open_probability(share, f"quantiles[{i}]") for i, share in enumerate(quantiles)]

        def block(first: int, count: int) -> list[Arrays]:
            return replace(run, first=first, replications=count).all_agents(settings, levels, client)

        variables, coords = summarised(block, len(settings), n_episodes, run.first, run.replications, shares)
        coords |= {"agent": names, "other_agent": names, "episode": np.arange(n_episodes)}
        return xarray.Dataset(variables, coords=coords, attrs=attributes)
    require_memory(run.bytes(len(settings)), "replications", run.replications, "take fewer, or keep='summary'")
    parts = run.all_agents(settings, levels, client)
    for agent, part in zip(settings, parts, strict=True):
        failures = int(part.pop("failures", np.zeros(0)).sum())
        if failures:
            total = run.replications * n_episodes
            message = f"{agent.label}: {failures} of {total} policies stopped at the maximum number of backups"
            warning = ConvergenceWarning(message, code="policy-not-optimal", agent=agent.label, value=failures)
            warnings.warn(warning, stacklevel=2)
    coords = {
        "agent": names,
        "replication": np.arange(run.first, run.first + run.replications),
        "episode": np.arange(n_episodes),
    }
    variables = {
        name: (("agent", "replication", *dims), _joined(name, parts))
        for name, dims in DIMENSIONS.items()
        if any(name in part for part in parts)
    }
    if measured.size:
        coords |= {"br_episode": measured, "alpha": list(levels[0])}
    runs = xarray.Dataset(variables, coords=coords, attrs=attributes)
    return runs.isel(alpha=0, drop=True) if measured.size and alphas is None else runs


def _attributes(run: _Run, settings: list[AnyAgent], pairing: str) -> dict[str, Any]:
    """Return all that the numbers depend on: seed, agents, prior, truth, software, commit and processor."""
    model = run.task.model
    return {
        "seed": run.seed,
        "pairing": pairing,
        "episode_length": run.length,
        "episodic": int(run.episodic),
        "start": run.start,
        "discount": model.discount,
        "n_states": model.n_states,
        "n_actions": model.n_actions,
        "agents": json.dumps({agent.label: described(agent) for agent in settings}),
        "prior": _listed(run.prior),
        "truth": _listed(run.task.theta),
        "problem": Content(model.entries, model.terminal, model.terminal_value, run.task.theta).hexdigest(),
        **provenance(),
    }


def _listed(array: FloatArray) -> str:
    """Return an array as JSON, or its digest if it is large."""
    return json.dumps(array.tolist()) if array.size <= LONGEST else f"sha256 {Content(array).hexdigest()}"


def _answer(settings: AnyAgent, episodic: bool) -> str:
    """Return what the loop of an agent answers: the least margin, or how often its solver failed."""
    return "margin" if isinstance(settings, OptimisticSettings) and not episodic else "failures"


def _joined(name: str, parts: list[Arrays]) -> npt.NDArray[Any]:
    """Return the arrays of all agents as one; NaN for agents that have none."""
    shape = next(part[name].shape for part in parts if name in part)
    return np.stack([part[name] if name in part else np.full(shape, np.nan) for part in parts])


def _metric_levels(alphas: Any, settings: list[AnyAgent]) -> list[tuple[float, ...]]:
    """Return the risk levels of BR-regret for each agent."""
    if alphas is not None:
        levels = np.atleast_1d(risk_levels(alphas, "alphas"))
        require_axes(levels, "alphas", 1, ParameterError)
        return [tuple(levels.tolist())] * len(settings)
    for i, agent in enumerate(settings):
        if not isinstance(getattr(agent, "alpha", None), float):
            message = f"alphas must be given: agents[{i}], {agent.label}, has no single risk level"
            raise ParameterError(message, code="missing-argument", argument="alphas", index=(i,))
    return [(agent.alpha,) for agent in settings]  # type: ignore[misc, union-attr]


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
    episodic: bool  # whether each episode begins in the start
    by_source: bool  # whether random numbers go by the use of sources
    measured: IntArray  # [M] episodes of which BR-regret is measured
    record: tuple[str, ...]
    threads: int
    optimum: Solution  # of the true model, to the last digits: regrets are small differences of values
    br_options: SolverOptions  # of the solver behind BR-regret
    states: npt.NDArray[np.uint64] | None = None  # [R, 2, 4] of the streams, which agents with short replications share

    def bytes(self, agents: int) -> float:
        """Return the size of the arrays of all replications."""
        rows = self.replications * agents
        lengths = {"step": self.length, "state": self.task.model.n_states}
        each = 16.0 + sum(lengths[RECORDS[name][0]] * np.dtype(RECORDS[name][1]).itemsize for name in self.record)
        return rows * self.episodes * each + self.episodes * 8.0 * (2 * self.length + self.task.model.n_states)

    def truth(self) -> Truth:
        """Return the truth with a new cache."""
        states = self.task.model.n_states
        rows = max(16, min(1024, CACHED_NUMBERS // states))
        return Truth(
            theta=self.task.model.entries.pack(self.task.theta),
            course=self.task.model.course(self.task.theta, self.start),
            best=self.optimum.value[0] if self.episodic else self.optimum.value,
            best_q=(self.optimum.q[0] if self.episodic else self.optimum.q).reshape(-1),
            start=self.start,
            observed=self.task.observed,
            keys=np.zeros((rows, states), dtype=np.int64),
            values=np.zeros((rows, states)),
            full=np.zeros(rows, dtype=np.int64),
            uses=Uses(np.zeros(2, np.uint64), np.zeros(len(self.prior) if self.by_source else 0, np.int64)),
        )

    def together(self, settings: AnyAgent) -> int:
        """Return how many replications one call of a kernel runs: several if they are short."""
        if self.episodic or not isinstance(settings, SamplingSettings) or not can_restart():
            return 1
        looked_at = self.episodes * (self.length + self.task.model.entries.next_state.size)
        return max(1, min(MOST_TOGETHER, WORK_TOGETHER // looked_at))

    def streams(self, first: int, n: int) -> tuple[np.random.Generator, np.random.Generator, Restarts]:
        """Return the streams of environments and agents in replications that run in one call."""
        env, rng = replication_streams(self.seed, first)
        keys = np.zeros((n, 2), np.uint64)
        if self.by_source:
            keys[...] = [source_key(self.seed, r) for r in range(first, first + n)]
        if n == 1:
            nothing = np.empty(0, np.uint64)
            return env, rng, Restarts(nothing, nothing, np.empty((1, 2, 0), np.uint64), keys)
        known = self.states
        states = stream_states(self.seed, first, n) if known is None else known[first - self.first :][:n]
        return env, rng, Restarts(state_memory(env), state_memory(rng), states, keys)

    def all_agents(self, settings: list[AnyAgent], levels: list[tuple[float, ...]], client: Any) -> list[Arrays]:
        """Return the arrays of `agent` for each agent, computed here or on a cluster."""
        tasks = list(zip(settings, levels, strict=True))
        if client is not None:
            pieces = replicated(client, replace(self, threads=1).agent, tasks, self.replications, self.first)
            return [{name: np.concatenate([piece[name] for piece in part]) for name in part[0]} for part in pieces]
        progress = Progress("simulating")
        parts, run = [], self
        if self.replications <= MOST and sum(self.together(agent) > 1 for agent in settings) > 1:
            run = replace(self, states=stream_states(self.seed, self.first, self.replications))
        for i, (agent, alphas) in enumerate(tasks):
            done = itertools.count(1)

            def advance(head: str = f"agent {i + 1} of {len(tasks)}", done: itertools.count[int] = done) -> None:
                progress.show(f"{head}, replication {next(done)} of {self.replications}")

            parts.append(run.agent(agent, alphas, self.first, self.replications, advance))
        progress.close()
        return parts

    def agent(
        self,
        settings: AnyAgent,
        alphas: tuple[float, ...],
        first: int,
        n: int,
        advance: Callable[[], None] = lambda: None,
    ) -> Arrays:
        """Return arrays [replication, ...] of one agent by name, with the number of ``failures`` of the solver.

        ``advance`` is called after each replication.
        """
        model, T, L = self.task.model, self.episodes, self.length
        lengths = {"step": L, "state": model.n_states}
        arrays: Arrays = {"regret": np.empty((n, T)), "reward": np.empty((n, T))}
        arrays |= {name: np.empty((n, T, lengths[RECORDS[name][0]]), RECORDS[name][1]) for name in self.record}
        if self.measured.size:
            arrays["br_regret"] = np.full((n, self.measured.size, len(alphas)), np.nan)
        answers = arrays[_answer(settings, self.episodic)] = np.zeros(n)
        at = np.zeros(T, dtype=np.int64)
        at[self.measured] = 1 + np.arange(self.measured.size)

        most = self.together(settings)

        def work(begin: int, end: int) -> None:
            truth = self.truth()
            live = self._life(settings, truth)
            rewards, visited = np.empty((most, T, L)), np.empty((most, T, L), dtype=np.int64)
            followed = np.empty((most, T, model.n_states), dtype=np.int64)
            snapshots = np.empty((most, self.measured.size, *self.prior.shape))
            traced = {"rewards": rewards, "states": visited, "policies": followed}
            for row in each_row(0, -(-(end - begin) // most)):
                r = begin + row * most
                part = slice(r, min(r + most, end))
                m = part.stop - r
                trace = Trace(arrays["regret"][part], rewards[:m], visited[:m], followed[:m], at, snapshots[:m])
                try:
                    live(first + r, trace, answers[part])
                except Exception as error:
                    error.add_note(f"in replication {first + r}")
                    raise
                arrays["reward"][part] = rewards[:m].sum(axis=2)
                for name in self.record:
                    arrays[name][part] = traced[name][:m]
                for i, (j, t) in itertools.product(range(m), enumerate(self.measured)):
                    for k, alpha in enumerate(alphas):
                        found = self._br_regret(snapshots[i, j], followed[i, t], visited[i, t], alpha)
                        arrays["br_regret"][r + i, j, k] = found
                for _ in range(m):
                    advance()

        over_rows(work, n, self.threads if self._is_compiled(settings) else 1, long=True)
        return arrays

    def _is_compiled(self, settings: AnyAgent) -> bool:
        """Return whether an agent leaves Python while it runs, so that threads help."""
        if self.episodic or not isinstance(settings, Custom):
            return not self.episodic
        return is_compiled(self.new(settings))

    def new(self, settings: AnyAgent) -> Agent:
        """Return a new agent of any kind, which follows the protocol."""
        if isinstance(settings, Custom):
            return new_agent(settings.factory, self.task.model, settings.label)
        shared: dict[str, Any] = {"settings": self._complete(settings), "prior": self.prior, "indices": True}
        if isinstance(settings, SamplingSettings):
            return PosteriorSamplingAgent(self.task.model, episode_length=self.length, **shared)
        return OptimisticVIAgent(self.task.model, **shared)

    def _complete(self, settings: Settings) -> Settings:
        """Return settings with a horizon, if they need one."""
        if isinstance(settings, SamplingSettings):
            return settings
        return replace(settings, horizon=settings.horizon or self.episodes * self.length)

    def _life(self, settings: AnyAgent, truth: Truth) -> Callable[[int, Trace, FloatArray], None]:
        """Return a function that lets an agent live through replications, and fills their traces and answers.

        It takes the number of the first one. There are several only if they run `together`.
        """
        model = self.task.model
        if not self.episodic and isinstance(settings, SamplingSettings):
            known, space = known_part(model), work_space(model, settings.most_draws)
            plan = settings.plan(self.prior, self.episodes, self.episodes * self.length)

            def several(first: int, traces: Trace, answers: FloatArray) -> None:
                run_sampling(*self.streams(first, answers.size), known, space, truth, self.prior, plan, traces, answers)

            return several
        one = self._one_life(settings, truth)

        def alone(first: int, traces: Trace, answers: FloatArray) -> None:
            env, rng, restarts = self.streams(first, 1)
            truth.uses.key[...], truth.uses.used[...] = restarts.keys[0], 0
            regret, rewards, visited, followed, at, snapshots = traces
            answers[0] = one(env, rng, Trace(regret[0], rewards[0], visited[0], followed[0], at, snapshots[0]))

        return alone

    def _one_life(self, settings: AnyAgent, truth: Truth) -> Callable[..., float]:
        """Return a function that lets an agent live through a replication, given its streams and its trace."""
        model = self.task.model
        if self.episodic or isinstance(settings, Custom):
            horizon = self.length if self.episodic else 0
            stage, agent = Stage(self.task, truth, work_space(model, 1), horizon, settings.label), self.new(settings)

            def live(env: np.random.Generator, rng: np.random.Generator, trace: Trace) -> float:
                agent.reset(rng)
                (play_compiled if is_compiled(agent) and not horizon else Stage.play)(stage, agent, env, trace)
                return 0.0

            return live
        known, space, complete = known_part(model), work_space(model, settings.most_draws), self._complete(settings)
        plan: Any = complete.plan(model)  # type: ignore[arg-type]
        return lambda env, rng, trace: run_optimistic(env, rng, known, space, truth, self.prior.copy(), plan, trace)

    def _br_regret(self, counts: FloatArray, policy: IntArray, visited: IntArray, alpha: float) -> float:
        """Return the BR-regret of an episode, from the posterior counts at its start."""
        brmdp = BayesianRiskMDP(self.task.model, counts, alpha)
        best = brmdp.solve(options=self.br_options, threads=1)
        own = brmdp.evaluate(policy, initial_value=best.value, options=self.br_options, threads=1)
        return float((best.value - own.value)[visited].sum())
