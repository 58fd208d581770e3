"""The paper's numerical study, experiment by experiment: which runs it takes and how they make a dataset.

What the paper leaves open is decided here once: prior N(0, I) and noise sd 1 in the bandit; TS_nu and BRPS_nu sample
with sd (3/4) sqrt(6 ln T) and (3/4) sqrt(6 ln 2T); Frozen Lake as in :mod:`prudent.envs.frozen_lake`; episodes of 10
steps; the normality study observes one trajectory per replication, whose first N steps are the data of size N.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .claims import judge
from .spec import Arrays, BanditRun, LakeRun, LimitRun, LimitStudy, Run, Scale, versions

if TYPE_CHECKING:
    import xarray

__all__ = ["EXPERIMENTS", "PAPER_SECONDS", "SCALES", "Experiment", "judge", "measure_times"]

SCALES = {
    "quick": Scale(
        "quick",
        bandit_replications=40,
        horizon=50_000,
        lake_replications=150,
        long_replications=20,
        long_episodes=1_000,
        limit_replications=300,
        sizes=(10_000, 50_000, 100_000, 1_000_000),
        draws=1_000,
        beyond_replications=12,
        beyond_episodes=400,
        timing_replications=8,
        timing_episodes=100,
    ),
    "paper": Scale("paper"),
}

BANDIT_LEVELS = (0.5, 0.8, 0.9)
BANDIT_AGENTS = {"TS-CMAB": 0.0} | {f"BRPS-CMAB {alpha}": alpha for alpha in BANDIT_LEVELS}
LAKE_AGENTS = {"TS-RL": 0.0} | {f"BRPS-RL {alpha}": alpha for alpha in (0.5, 0.8, 0.9, 0.99)}
ESCAPES = (0.1, 0.2, 0.6, 0.8)  # p_h
WIDTHS = (1.0, 2.0, 3.0)  # of sampling, in standard deviations of the posterior
POINTS = 200
OPTIMIST = "optimistic VI 0.9"
METRIC = 0.9  # level at which BR-regret on the lake is measured
LIMIT = {"p_h": 0.1, "alpha": 0.9, "state": 10}
# the arrows of the optimal-policy table, row by row
PRINTED = "down right down left / down down down left / right down down down / right right right"
PAPER_SECONDS = {
    "TS-RL": 10.45,
    "BRPS-RL 0.5": 13.01,
    "BRPS-RL 0.8": 20.95,
    "BRPS-RL 0.9": 33.88,
    "BRPS-RL 0.99": 253.43,
}


@dataclass(frozen=True)
class Experiment:
    """One experiment: its name, what the paper says about it, its runs at a scale and the dataset they make.

    >>> EXPERIMENTS["limit-law"].title
    'Limit law of Bayesian-risk values'
    """

    name: str
    title: str
    paper_says: str
    figures: tuple[str, ...]
    plan: Callable[[Scale], tuple[Run, ...]]
    assemble: Callable[[Scale, list[Arrays]], xarray.Dataset]
    timed: bool = False  # measures times, and has no dataset


# -- bandits -----------------------------------------------------------------------------------------------


def _bandit(scale: Scale, alpha: float, sd: float = 1.0, levels: tuple[float, ...] = BANDIT_LEVELS) -> BanditRun:
    return BanditRun(scale.bandit_replications, alpha, sd, scale.horizon, POINTS, levels)


def _four(scale: Scale) -> dict[str, Run]:
    narrow, wide = (0.75 * math.sqrt(6.0 * math.log(factor * scale.horizon)) for factor in (1.0, 2.0))
    return {
        "BRPS-CMAB 0.8": _bandit(scale, 0.8),
        "BRPS-CMAB_nu 0.8": _bandit(scale, 0.8, wide),
        "TS-CMAB": _bandit(scale, 0.0),
        "TS-CMAB_nu": _bandit(scale, 0.0, narrow),
    }


def _four_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    place = BANDIT_LEVELS.index(0.8)
    return _bandit_data(
        scale,
        {
            "regret": (("agent", "replication", "time"), _stacked(results, "regret")),
            "br_regret": (
                ("agent", "replication", "level", "time"),
                _stacked(results, "br_regret")[:, :, place : place + 1],
            ),
        },
        {"agent": list(_four(scale)), "level": [0.8]},
    )


def _br_plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(_bandit(scale, alpha) for alpha in BANDIT_AGENTS.values())


def _br_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    return _bandit_data(
        scale,
        {
            "regret": (("agent", "replication", "time"), _stacked(results, "regret")),
            "br_regret": (("agent", "replication", "level", "time"), _stacked(results, "br_regret")),
        },
        {"agent": list(BANDIT_AGENTS), "level": list(BANDIT_LEVELS)},
    )


def _wide_plan(scale: Scale) -> tuple[Run, ...]:
    # at width 1 these are the runs of bandit-br
    return tuple(
        _bandit(scale, alpha, width, BANDIT_LEVELS if width == 1.0 else ())
        for width in WIDTHS
        for alpha in BANDIT_AGENTS.values()
    )


def _wide_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    regret = _stacked(results, "regret")
    regret = regret.reshape(len(WIDTHS), len(BANDIT_AGENTS), *regret.shape[1:])
    return _bandit_data(
        scale,
        {"regret": (("nu", "agent", "replication", "time"), regret)},
        {"nu": list(WIDTHS), "agent": list(BANDIT_AGENTS)},
    )


def _bandit_data(scale: Scale, found: dict[str, Any], coords: dict[str, Any]) -> xarray.Dataset:
    return _dataset(
        found,
        coords | {"replication": np.arange(scale.bandit_replications), "time": _bandit(scale, 0.0).times},
    )


# -- Frozen Lake -------------------------------------------------------------------------------------------


def _lake_plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(
        LakeRun(scale.lake_replications, p_h, alpha, scale.episodes, scale.episodes)
        for p_h, alpha in itertools.product(ESCAPES, LAKE_AGENTS.values())
    )


def _long_plan(scale: Scale) -> tuple[Run, ...]:
    return tuple(
        LakeRun(scale.long_replications, p_h, alpha, scale.long_episodes, POINTS)
        for p_h, alpha in itertools.product(ESCAPES, LAKE_AGENTS.values())
    )


def _lake_data(runs: tuple[Run, ...], results: list[Arrays]) -> xarray.Dataset:
    regret = _stacked(results, "regret")
    regret = regret.reshape(len(ESCAPES), len(LAKE_AGENTS), *regret.shape[1:])
    return _dataset(
        {"regret": (("p_h", "agent", "replication", "episode"), regret)},
        {
            "p_h": list(ESCAPES),
            "agent": list(LAKE_AGENTS),
            "replication": np.arange(runs[0].replications),
            "episode": runs[0].grid,  # type: ignore[attr-defined]
        },
    )


def _beyond_plan(scale: Scale) -> tuple[Run, ...]:
    def lake(alpha: float, levels: tuple[float, ...] = (METRIC,), optimistic: bool = False) -> LakeRun:
        return LakeRun(scale.beyond_replications, 0.1, alpha, scale.beyond_episodes, 12, True, levels, optimistic)

    # the optimist changes its policy within an episode, so a BR-regret of the episode's policy would not be its own
    return (*(lake(alpha) for alpha in LAKE_AGENTS.values()), lake(0.9, (), optimistic=True))


def _beyond_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    runs = _beyond_plan(scale)
    regret = _stacked(results, "regret")
    br_regret = np.full_like(regret, np.nan)
    br_regret[:-1] = _stacked(results[:-1], "br_regret")[..., 0]
    axes = ("agent", "replication", "episode")
    data = _dataset(
        {"regret": (axes, regret), "br_regret": (axes, br_regret)},
        {
            "agent": [*LAKE_AGENTS, OPTIMIST],
            "replication": np.arange(scale.beyond_replications),
            "episode": runs[0].grid,  # type: ignore[attr-defined]
        },
    )
    data.br_regret.attrs |= {"level": METRIC, "long_name": f"BR-regret of the episode, at level {METRIC}"}
    return data


# -- exact results -----------------------------------------------------------------------------------------


def _policy_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    from ..envs.frozen_lake import ACTIONS, frozen_lake
    from ..planning.solver import solve

    problem = frozen_lake(0.1)
    cells = np.array(list("".join(problem.layout or ())))
    solution = solve(problem.mdp(), tol=1e-12)
    goal = cells == "G"
    return _dataset(
        {
            "q": (("state", "action"), solution.q),
            "value": (("state",), solution.value),
            "policy": (("state",), np.where(goal, -1, solution.policy).astype(np.int32)),
            "paper_policy": (
                ("state",),
                np.array([*map(ACTIONS.index, PRINTED.replace("/", "").split()), -1], dtype=np.int32),
            ),
            "hole": (("state",), (cells == "H").astype(np.int8)),
            "p_h": ((), 0.1),
        },
        {"state": np.arange(cells.size), "action": list(ACTIONS)},
    )


def _limit_plan(scale: Scale) -> tuple[Run, ...]:
    return (
        LimitRun(scale.limit_replications, LIMIT["p_h"], LIMIT["alpha"], int(LIMIT["state"]), scale.sizes, scale.draws),
    )


def _limit_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    law = LimitStudy(LIMIT["p_h"], LIMIT["alpha"]).law
    state = int(LIMIT["state"])
    return _dataset(
        {
            "scaled_error": (("method", "size", "replication"), results[0]["scaled_error"].transpose(1, 2, 0)),
            "limit_mean": ((), float(law.mean[state])),
            "limit_sd": ((), math.sqrt(law.cov[state, state])),
        },
        {
            "method": ["sampled", "exact"],
            "size": np.array(scale.sizes),
            "replication": np.arange(scale.limit_replications),
        },
    )


# -- datasets ----------------------------------------------------------------------------------------------

ABOUT = {
    "regret": {"long_name": "cumulative regret", "units": "reward"},
    "br_regret": {"long_name": "cumulative BR-regret", "units": "reward"},
    "agent": {"long_name": "algorithm"},
    "replication": {"long_name": "replication"},
    "level": {"long_name": "risk level of the metric"},
    "time": {"long_name": "steps taken", "units": "steps"},
    "episode": {"long_name": "episodes finished", "units": "episodes"},
    "nu": {"long_name": "sd of sampling", "units": "standard deviations of the posterior"},
    "p_h": {"long_name": "chance to leave a hole"},
    "q": {"long_name": "optimal value of an action", "units": "discounted reward"},
    "value": {"long_name": "optimal value", "units": "discounted reward"},
    "policy": {"long_name": "optimal action, -1 in the goal"},
    "paper_policy": {"long_name": "action printed in the paper, -1 in the goal"},
    "hole": {"long_name": "1 in a hole"},
    "state": {"long_name": "cell of the lake, row by row"},
    "action": {"long_name": "direction"},
    "method": {"long_name": "evaluation of the Bayesian risk"},
    "size": {"long_name": "number of observations N", "units": "observations"},
    "scaled_error": {"long_name": "sqrt(N) (V_N - V*) in state 10", "units": "discounted reward"},
    "limit_mean": {"long_name": "mean of the limit law", "units": "discounted reward"},
    "limit_sd": {"long_name": "standard deviation of the limit law", "units": "discounted reward"},
}


def _stacked(results: list[Arrays], name: str) -> Any:
    return np.stack([arrays[name] for arrays in results])


def _dataset(found: dict[str, Any], coords: dict[str, Any]) -> xarray.Dataset:
    import xarray

    arrays = {name: np.asarray(values) for name, values in coords.items()}
    # NetCDF-3 has no 64-bit integers
    small = {name: array.astype(np.int32) if array.dtype == np.int64 else array for name, array in arrays.items()}
    data = xarray.Dataset(found, small)
    for name in data.variables:
        data[name].attrs = dict(ABOUT.get(str(name), {}))
    return data


# -- computing time ----------------------------------------------------------------------------------------


def measure_times(scale: Scale, seed: int, before: dict[str, Any]) -> dict[str, Any]:
    """Return seconds per replication of each agent on one thread: the paper's sweeps, and our solver.

    ``before`` is what an earlier run measured, and is returned if it was of the same spec.
    """
    about = {"scale": asdict(scale), "seed": seed, "versions": versions()}
    spec = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    if before.get("spec") == spec:
        return before
    samples: dict[str, dict[str, list[float]]] = {}
    for method, sweeps in (("sweeps", 100), ("newton", None)):
        samples[method] = {}
        for name, alpha in LAKE_AGENTS.items():
            part = LakeRun(1, 0.1, alpha, scale.timing_episodes, 1, sweeps=sweeps)
            LakeRun(1, 0.1, alpha, 1, 1, sweeps=sweeps).compute(seed, 0, 1)  # compiles
            samples[method][name] = []
            for r in range(scale.timing_replications):
                began = time.thread_time()  # of this thread, whatever else the machine does
                part.compute(seed, r, 1)
                samples[method][name].append(time.thread_time() - began)
    means = {method: {name: float(np.mean(times)) for name, times in each.items()} for method, each in samples.items()}
    return {
        "spec": spec,
        "episodes": scale.timing_episodes,
        "replications": scale.timing_replications,
        "p_h": 0.1,
        "seconds": means["sweeps"],
        "paper_seconds": PAPER_SECONDS,
        "newton_seconds": means["newton"],
        "samples": samples,
    }


def _nothing(scale: Scale) -> tuple[Run, ...]:
    return ()


def _no_data(scale: Scale, results: list[Arrays]) -> xarray.Dataset:
    return _dataset({}, {})


EXPERIMENTS = {
    each.name: each
    for each in (
        Experiment(
            "bandit-four",
            "Four bandit algorithms: BR-regret and conventional regret",
            "The variants that sample more widely, as the bounds on conventional regret ask, do much worse by both "
            "measures than those that sample from the posterior itself.",
            ("bandit-four",),
            lambda scale: tuple(_four(scale).values()),
            _four_data,
        ),
        Experiment(
            "bandit-br",
            "BR-regret of BRPS-CMAB and Thompson sampling by risk level",
            "BRPS-CMAB has the lower BR-regret at each of the three levels, and the gap closes as the level falls.",
            ("bandit-br",),
            _br_plan,
            _br_data,
        ),
        Experiment(
            "bandit-conventional",
            "Conventional regret of BRPS-CMAB and Thompson sampling",
            "At levels 0.5 and 0.8 BRPS-CMAB beats Thompson sampling; at 0.9 it leads early, around 50,000 steps, and "
            "has the highest regret of all after 200,000.",
            ("bandit-conventional",),
            _wide_plan,
            _wide_data,
        ),
        Experiment(
            "lake-regret",
            "Regret on Frozen Lake by risk level",
            "Levels 0.5, 0.8 and 0.9 beat Thompson sampling whatever the chance p_h to leave a hole; the best level "
            "is 0.99, 0.9, 0.8, 0.8 for p_h = 0.1, 0.2, 0.6, 0.8, lower where holes are less of a danger.",
            ("lake-regret",),
            _lake_plan,
            lambda scale, results: _lake_data(_lake_plan(scale), results),
        ),
        Experiment(
            "lake-long",
            "Regret on Frozen Lake in the long run",
            "Too high a level costs much regret in the long run, yet pays in the short run, while little is known.",
            ("lake-long",),
            _long_plan,
            lambda scale, results: _lake_data(_long_plan(scale), results),
        ),
        Experiment(
            "computing-time",
            "Computing time on Frozen Lake by risk level",
            "The effort grows with the number of posterior draws, 1/(1 - alpha): level 0.99 takes about eight times "
            "as long as 0.9 for a regret that is only slightly better.",
            ("computing-time",),
            _nothing,
            _no_data,
            timed=True,
        ),
        Experiment(
            "optimal-policy",
            "Optimal policy of Frozen Lake",
            "A table of arrows gives the optimal action of every cell at p_h = 0.1.",
            ("optimal-policy",),
            _nothing,
            _policy_data,
        ),
        Experiment(
            "limit-law",
            "Limit law of Bayesian-risk values",
            "As observations accumulate, the scaled error of the Bayesian-risk value tends to the normal law of the "
            "weak-convergence theorem, by densities and by Q-Q plots.",
            ("limit-law-density", "limit-law-qq"),
            _limit_plan,
            _limit_data,
        ),
        Experiment(
            "beyond",
            "Beyond the paper: BR-regret on Frozen Lake, and optimism",
            "Not in the paper: BR-regret for RL needs values that it calls too hard to compute, and its optimistic "
            "algorithm is analysed there and not run.",
            ("beyond-br-regret", "beyond-optimism"),
            _beyond_plan,
            _beyond_data,
        ),
    )
}
