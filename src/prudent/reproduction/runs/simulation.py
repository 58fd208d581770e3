"""Simulations of one agent in one environment: the runs of nearly all studies and of sweeps."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from ..._support.content import Content
from ...agents.optimistic_vi import OptimisticSettings
from ...agents.sampling_settings import SamplingSettings
from ...agents.tabular import TabularAgent
from ...bandits.settings import BanditSettings
from ...envs.bandits import BanditEnvironment
from ...envs.linear_bandit import LinearBanditEnv
from ...envs.problem import Problem
from ...models.uncertain import UncertainMDP
from ...posteriors.dirichlet import prior_counts
from ...schedules import Schedule, named_schedule, saved_schedule
from ...simulation.custom import new_agent
from ...types import IntArray
from .base import Arrays, Run, grid


@dataclass(frozen=True)
class Component:
    """An environment or an agent: the function that makes it, and the options of that function.

    Attributes
    ----------
    path : str
        The function, as ``"module:function"``.
    options : str
        Options of the function, as JSON.
    label : str
        Name in datasets. The numbers do not depend on it.
    """

    path: str
    options: str
    label: str = ""

    @classmethod
    def of(cls, path: str, **options: Any) -> Component:
        """Return the component made by the function at ``path`` with these options.

        Examples
        --------
        >>> Component.of("prudent.envs:frozen_lake", p_h=0.1).make().start
        0
        """
        return cls(path, json.dumps(options, sort_keys=True, default=_encoded))

    def make(self) -> Any:
        """Return the environment, or the settings of the agent; equal components share one object."""
        return made(self.path, self.options)


def _encoded(value: Any) -> dict[str, Any]:
    if isinstance(value, Schedule):
        return {"schedule": saved_schedule(value)}
    raise TypeError(f"{value!r} cannot be written as JSON")


def _decoded(value: dict[str, Any]) -> Any:
    return named_schedule(value["schedule"]) if set(value) == {"schedule"} else value


@cache
def made(path: str, options: str) -> Any:
    """Return what the function at ``path`` makes of ``options``: once, until ``forget_made`` is called.

    Of a class of agents it is the class with these options, which makes an agent from a model.
    """
    function, keywords = pkgutil.resolve_name(path), json.loads(options, object_hook=_decoded)
    if isinstance(function, type) and all(hasattr(function, name) for name in ("act", "observe")):
        return partial(function, **keywords)
    return function(**keywords)


def forget_made() -> None:
    """Have everything made anew when it is next used: the files that the functions read may have changed."""
    made.cache_clear()


def _of_model(model: UncertainMDP) -> Any:
    return model.entries, model.terminal, model.terminal_value, model.names()


def _of_problem(problem: Problem) -> Any:
    return problem.model, problem.theta, problem.start, problem.observed


def _of_agent(agent: TabularAgent) -> Any:
    try:
        return agent.state()
    except TypeError:  # it cannot be saved
        return {name: value for name, value in vars(agent).items() if name not in ("_reader", "_model")}


KNOWN: dict[type, Callable[[Any], Any]] = {Problem: _of_problem, TabularAgent: _of_agent, UncertainMDP: _of_model}
"""What a problem, a model and an agent are known by; other attributes are caches, or for display."""


@dataclass(frozen=True)
class SimulationRun(Run):
    """One agent in one environment, with regret recorded at some times.

    Attributes
    ----------
    environment, agent : Component
        What is simulated.
    steps : int
        Length of a replication: episodes, or decisions of a bandit.
    points : int
        Number of recorded times.
    geometric : bool
        Whether the recorded times are spaced geometrically.
    also : tuple of int
        Further recorded times.
    alphas : tuple of float
        Risk levels at which BR-regret is measured.
    episode_length : int
        Steps in an episode; bandits have no episodes.
    pairing : str
        How agents share random numbers; bandits share them by step.
    """

    kind: ClassVar[str] = "simulation"
    environment: Component
    agent: Component
    steps: int
    points: int
    geometric: bool = False
    also: tuple[int, ...] = ()
    alphas: tuple[float, ...] = ()
    episode_length: int = 10
    pairing: str = "step"

    @property
    def modules(self) -> set[str]:
        """See ``Run``; the modules of an environment and of an agent of this package count."""
        paths = {pkgutil.resolve_name(part.path).__module__ for part in (self.environment, self.agent)}
        return super().modules | {path for path in paths if path.startswith("prudent.")}

    @property
    def is_bandit(self) -> bool:
        """Whether the environment is a bandit."""
        return isinstance(self.environment.make(), BanditEnvironment)

    @property
    def along(self) -> str:
        """Name of the dimension of the recorded times."""
        return "time" if self.is_bandit else "episode"

    @property
    def times(self) -> IntArray:
        """Recorded episodes or steps [T], counted from 1."""
        return np.union1d(grid(self.steps, self.points, self.geometric), np.array(self.also, dtype=np.int64))

    def identity(self) -> dict[str, Any]:
        """See ``Run``; environment and agent count by their content, not by their names."""
        return {name: value for name, value in super().identity().items() if name not in ("environment", "agent")}

    def content(self) -> Content:
        """See ``Run``: the environment, and what the agent does there."""
        environment, agent = self.environment.make(), self.agent.make()
        plan = agent
        if isinstance(environment, Problem) and isinstance(agent, SamplingSettings):
            plan = agent.plan(prior_counts(environment.model), self.steps, self.steps * self.episode_length)
        elif isinstance(environment, Problem) and isinstance(agent, OptimisticSettings):
            plan = replace(agent, horizon=agent.horizon or self.steps * self.episode_length).plan(environment.model)
        elif callable(agent):  # what it makes may rest on a file that it reads
            plan = agent, self._new(environment, agent)
        elif isinstance(agent, BanditSettings):
            plan = replace(agent, label="")
        return Content(type(self), environment, plan, known=KNOWN)

    def _new(self, environment: Any, factory: Any) -> Any:
        """Return an agent of any class before it learns."""
        rng = np.random.default_rng(self.seed)
        if not isinstance(environment, Problem):
            return factory(environment.n_arms, environment.dim, rng)
        agent = new_agent(factory, environment.model, self.agent.label)
        agent.reset(rng)
        return agent

    @property
    def seconds(self) -> float:
        """See ``Run``."""
        environment = self.environment.make()
        if self.is_bandit:
            return (8e-8 * environment.n_arms if isinstance(environment, LinearBanditEnv) else 5e-5) * self.steps
        if callable(self.agent.make()):
            return 2e-5 * self.steps * self.episode_length
        share = environment.model.entries.next_state.size / 200  # of the entries of Frozen Lake
        return share * (2.5e-5 * self.steps + 0.02 * len(self.alphas) * self.points)

    def compute(self, first: int, count: int) -> Arrays:
        """Return regret and total_reward [R, T], and br_regret [R, L, T], as far as the environment knows them."""
        from ...simulation.bandits import simulate_bandit
        from ...simulation.tabular import simulate

        environment, agent, times = self.environment.make(), self.agent.make(), self.times
        options: dict[str, Any] = {"replications": count, "first_replication": first, "rng": self.seed, "threads": 1}
        if callable(agent):
            agent = {self.agent.label or "agent": agent}
        if self.is_bandit:
            runs = simulate_bandit(environment, agent, horizon=self.steps, times=times, alphas=self.alphas, **options)
            recorded = ["regret", "total_reward", *(["br_regret"] if self.alphas else [])]
            return {name: runs[name].values[0] for name in recorded if name in runs}
        options |= {"alphas": self.alphas, "br_episodes": times - 1} if self.alphas else {}
        options |= {"episode_length": self.episode_length, "pairing": self.pairing}
        runs = simulate(environment, agent, episodes=self.steps, **options)
        arrays = {
            "regret": runs.regret.values[0][:, times - 1],
            "total_reward": runs.reward.values[0].cumsum(axis=1)[:, times - 1],
        }
        if self.alphas:
            arrays["br_regret"] = runs.br_regret.values[0].swapaxes(1, 2)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}
