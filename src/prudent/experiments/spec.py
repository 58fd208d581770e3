"""What is to be computed, as frozen values: a run simulates one agent on one problem for some replications.

A run is hashable and says all that its numbers depend on besides the seed, so it is at once the recipe, the record in
the dataset and the key under which finished parts are kept. Experiments that contain the same run share it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import scipy

import prudent

from .._support.checks import FloatArray, IntArray

__all__ = ["BanditRun", "LakeRun", "LimitRun", "Run", "Scale", "grid", "key", "versions"]

Arrays = dict[str, FloatArray]


@dataclass(frozen=True)
class Scale:
    """How large the experiments are.

    >>> Scale("tiny", horizon=100).horizon
    100
    """

    name: str
    bandit_replications: int = 200
    horizon: int = 200_000
    lake_replications: int = 500
    episodes: int = 400
    long_replications: int = 100
    long_episodes: int = 4_000
    limit_replications: int = 500
    sizes: tuple[int, ...] = (10_000, 50_000, 100_000, 1_000_000)
    draws: int = 5_000
    beyond_replications: int = 100
    beyond_episodes: int = 2_000
    timing_replications: int = 10
    timing_episodes: int = 400


def grid(last: int, points: int, geometric: bool = False) -> IntArray:
    """Return up to ``points`` whole numbers from 1 or its neighbours to ``last``, evenly or geometrically spaced.

    >>> grid(1000, 5), grid(1000, 4, geometric=True)
    (array([ 200,  400,  600,  800, 1000]), array([   1,   10,  100, 1000]))
    """
    points = min(points, last)
    places = np.geomspace(last, 1, points) if geometric else last * np.arange(1, points + 1) / points
    return np.unique(np.rint(places).astype(np.int64))


@dataclass(frozen=True)
class Run(ABC):
    """One simulation: ``replications`` of them, numbered from 0, independent of each other."""

    kind: ClassVar[str]
    replications: int

    @abstractmethod
    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return arrays with one row for each of the replications ``first``, ..., ``first + count - 1``."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """A rough guess of the time of one replication, for progress and the size of chunks."""

    def record(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class BanditRun(Run):
    """Algorithm 2 at risk level ``alpha`` on the Gaussian bandit, sampling with sd ``sampling_sd`` (1: the noise's)."""

    kind: ClassVar[str] = "bandit"
    alpha: float
    sampling_sd: float
    horizon: int
    points: int
    levels: tuple[float, ...]

    @property
    def times(self) -> IntArray:
        """The recorded steps [T]."""
        return grid(self.horizon, self.points)

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 0.6e-6 * self.horizon

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, L, T]."""
        from ..bandits import BanditSettings
        from ..bandits.simulate import simulate_bandit
        from ..envs import gaussian_bandit

        runs = simulate_bandit(
            gaussian_bandit(),
            BanditSettings(self.alpha, sampling_sd=self.sampling_sd),
            horizon=self.horizon,
            replications=count,
            seed=seed,
            levels=self.levels,
            times=self.times,
            first_replication=first,
            threads=1,
        )
        return {"regret": runs.regret.values[0], "br_regret": runs.br_regret.values[0]}


@dataclass(frozen=True)
class LakeRun(Run):
    """An agent on Frozen Lake: BRPS-RL at level ``alpha`` (0: Thompson sampling), or optimistic value iteration.

    Regret is recorded after the episodes of a grid, BR-regret at ``br_levels`` in these episodes.
    """

    kind: ClassVar[str] = "lake"
    p_h: float
    alpha: float
    episodes: int
    points: int
    geometric: bool = False
    br_levels: tuple[float, ...] = ()
    optimistic: bool = False
    sweeps: int | None = None

    @property
    def grid(self) -> IntArray:
        """The recorded episodes [T], counted from 1."""
        return grid(self.episodes, self.points, self.geometric)

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 4e-5 * self.episodes + 0.02 * len(self.br_levels) * min(self.points, self.episodes)

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return regret [R, T] and br_regret [R, T, L]."""
        from ..agents.optimistic_vi import optimistic_vi
        from ..agents.posterior_sampling import brps_rl
        from ..envs.frozen_lake import frozen_lake
        from ..simulation.tabular import simulate

        places = self.grid - 1
        runs = simulate(
            frozen_lake(self.p_h),
            optimistic_vi(self.alpha) if self.optimistic else brps_rl(self.alpha, sweeps=self.sweeps),
            episodes=self.episodes,
            replications=count,
            seed=seed,
            br_episodes=places if self.br_levels else (),
            levels=self.br_levels or None,
            first_replication=first,
            threads=1,
        )
        found = {"regret": np.ascontiguousarray(runs.regret.values[0][:, places])}
        if self.br_levels:
            found["br_regret"] = runs.br_regret.values[0]
        return found


@dataclass(frozen=True)
class LimitRun(Run):
    """sqrt(N) (V_N - V*) in one state of Frozen Lake, from the first N steps of a trajectory of the optimal policy."""

    kind: ClassVar[str] = "limit"
    p_h: float
    alpha: float
    state: int
    sizes: tuple[int, ...]
    draws: int

    @property
    def seconds(self) -> float:
        """See :class:`Run`."""
        return 2e-8 * self.sizes[-1] + len(self.sizes) * (0.004 + 1.2e-5 * self.draws)

    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return scaled_error [R, 2, sizes]: from ``draws`` posterior draws, and exact."""
        from .._support.streams import replication_streams

        study = _limit_study(self.p_h, self.alpha)
        found = np.empty((count, 2, len(self.sizes)))
        for r in range(count):
            env, agent = replication_streams(seed, first + r)
            for i, (size, counts) in enumerate(zip(self.sizes, study.counts(env, self.sizes), strict=True)):
                for j, draws in enumerate((self.draws, None)):
                    value = study.value_of(counts, draws, agent)[self.state]
                    found[r, j, i] = np.sqrt(size) * (value - study.value[self.state])
        return {"scaled_error": found}


class LimitStudy:
    """The normality study: the true Frozen Lake, its optimal policy, and Bayesian-risk values of that policy."""

    def __init__(self, p_h: float, alpha: float) -> None:
        from ..envs.frozen_lake import frozen_lake
        from ..models.logs import cumulative_rows
        from ..models.uncertain import UncertainMDP
        from ..planning.solver import evaluate, solve
        from ..theory import limit_law

        self.alpha = alpha
        self.problem = frozen_lake(p_h)
        mdp = self.problem.mdp()
        states = np.arange(mdp.n_states)
        self.policy = solve(mdp, tol=1e-12).policy
        self.value = evaluate(mdp, self.policy, tol=1e-14).value
        self.law = limit_law(mdp, self.policy, alpha)
        self.cumulative = cumulative_rows(self.problem.theta)
        # only the pairs of the policy matter for its value: one action
        self.model = UncertainMDP.direct(mdp.reward[states, self.policy][:, np.newaxis], mdp.discount)

    def counts(self, rng: np.random.Generator, sizes: tuple[int, ...]) -> list[FloatArray]:
        """Return the posterior counts [S, S] after the first ``sizes`` steps of one trajectory, priors of ones."""
        from ..models.logs import walk

        model, n = self.problem.model, self.value.size
        state, before, seen, found = self.problem.start, 0, np.ones(n * n), []
        for size in sizes:
            log = np.empty((size - before, 4), dtype=np.int64)
            uniforms = rng.random(size - before)
            walk(model.source, model.next_state, self.cumulative, self.policy, uniforms, state, log)
            seen = seen + np.bincount(log[:, 0] * n + log[:, 2], minlength=n * n)
            found.append(seen.reshape(n, n))
            state, before = int(log[-1, 2]), size
        return found

    def value_of(self, counts: FloatArray, draws: int | None, rng: np.random.Generator) -> FloatArray:
        """Return the Bayesian-risk values [S] of the policy, from draws or exact."""
        from ..planning.brmdp import BayesianRiskMDP

        brmdp = BayesianRiskMDP(self.model, counts, self.alpha)
        policy = np.zeros(self.value.size, dtype=np.int64)
        return brmdp.evaluate(policy, draws, rng, start=self.value, tol=1e-12, threads=1).value


@functools.lru_cache(maxsize=4)
def _limit_study(p_h: float, alpha: float) -> LimitStudy:
    return LimitStudy(p_h, alpha)


# -- identity ----------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Return the versions of all that numbers depend on.

    >>> sorted(versions())
    ['numba', 'numpy', 'prudent', 'python', 'scipy']
    """
    return {
        "numba": numba.__version__,
        "numpy": np.__version__,
        "prudent": prudent.__version__,
        "python": platform.python_version(),
        "scipy": scipy.__version__,
    }


@functools.cache
def _code() -> str:
    """Return a digest of our source, so that a change of the code is a change of the spec."""
    root = Path(prudent.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root).as_posix()
        if not place.startswith("report/") and place not in ("cli.py", "experiments/claims.py"):
            digest.update(place.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def key(run: Run, seed: int, scale: str) -> str:
    """Return the name under which parts of a run are kept: it changes with all that its numbers depend on.

    >>> run = BanditRun(10, alpha=0.5, sampling_sd=1.0, horizon=100, points=10, levels=())
    >>> key(run, 1, "quick") == key(run, 2, "quick")
    False
    """
    about = {"run": run.record(), "seed": seed, "scale": scale, "versions": versions(), "code": _code()}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
