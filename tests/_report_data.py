"""A small output folder of `prudent reproduce`, for the tests of the report: real simulators, tiny scale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from prudent.agents.optimistic_vi import optimistic_vi
from prudent.agents.posterior_sampling import brps_rl, ts_rl
from prudent.bandits.settings import BanditSettings
from prudent.bandits.simulate import simulate_bandit
from prudent.envs.frozen_lake import ACTIONS, frozen_lake
from prudent.envs.linear_bandit import gaussian_bandit
from prudent.planning.solver import solve
from prudent.simulation.tabular import simulate
from prudent.theory import limit_law

ALL = (
    "bandit-four",
    "bandit-br",
    "bandit-conventional",
    "lake-regret",
    "lake-long",
    "optimal-policy",
    "limit-law",
    "beyond",
)
PAPER_SECONDS = {
    "TS-RL": 10.45,
    "BRPS-RL 0.5": 13.01,
    "BRPS-RL 0.8": 20.95,
    "BRPS-RL 0.9": 33.88,
    "BRPS-RL 0.99": 253.43,
}
CLAIMS = [
    {
        "id": "bandit-br-beats-ts",
        "statement": "BRPS-CMAB has less BR-regret than TS-CMAB at 0.5, 0.8 and 0.9",
        "source": "BR-regret by risk level",
        "verdict": "reproduced",
        "test": "paired t intervals, 95%",
        "evidence": [
            {"quantity": "TS-CMAB minus BRPS-CMAB 0.8", "estimate": 12.25, "low": 9.5, "high": 15.0},
            {"quantity": "TS-CMAB minus BRPS-CMAB 0.9", "estimate": 20.0, "low": 14.0, "high": 26.0},
        ],
    },
    {
        "id": "lake-high-level-pays-early",
        "statement": "A high risk level helps in the short term",
        "source": "result 3 of the Frozen Lake study",
        "verdict": "inconclusive at this scale",
        "test": "paired t interval, 95%",
        "evidence": [{"quantity": "after 20 episodes", "estimate": 0.25, "low": -0.5, "high": 1.0}],
    },
    {
        "id": "policy-table",
        "statement": "The printed policy is optimal in all cells",
        "source": "optimal-policy table",
        "verdict": "not reproduced",
        "test": "exact comparison",
        "evidence": [
            {"quantity": "cells that agree, <left>", "estimate": 14, "low": None, "high": None},
            *({"quantity": f"number {i}", "estimate": float(i), "low": i - 0.5, "high": i + 0.5} for i in range(5)),
        ],
    },
]


def write(
    out: Path,
    names: Sequence[str] = ALL,
    *,
    horizon: int = 60,
    episodes: int = 6,
    replications: int = 5,
    points: int = 12,
    timings: bool = True,
    claims: bool = True,
) -> Path:
    """Write datasets, claims and times to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    grid = np.unique(np.linspace(1, horizon, points).astype(int))
    makers: dict[str, Any] = {
        "bandit-four": lambda: _bandit_four(horizon, grid, replications),
        "bandit-br": lambda: _bandit(1.0, horizon, grid, replications),
        "bandit-conventional": lambda: _bandit_conventional(horizon, grid, replications),
        "lake-regret": lambda: _lake(episodes, replications, np.arange(1, episodes + 1)),
        "lake-long": lambda: _lake(3 * episodes, replications, np.linspace(1, 3 * episodes, points).astype(int)),
        "optimal-policy": _optimal_policy,
        "limit-law": lambda: _limit_law(10 * replications),
        "beyond": lambda: _beyond(episodes, replications),
    }
    for name in names:
        data = makers[name]()
        data.attrs = {
            "title": name,
            "seed": 1,
            "scale": "quick",
            "spec": json.dumps({"name": name, "replications": replications, "a < b & c": "<script>"}),
            "versions": json.dumps({"prudent": "0.1.0", "numpy": np.__version__}),
        }
        data.to_netcdf(out / f"{name}.nc", engine="scipy")
    if timings:
        (out / "timings.json").write_text(json.dumps(_timings()))
    if claims:
        (out / "claims.json").write_text(json.dumps(CLAIMS))
    return out


def _timings() -> dict[str, Any]:
    seconds = dict(zip(PAPER_SECONDS, (0.02, 0.025, 0.03, 0.05, 0.3), strict=True))
    return {
        "computing-time": {
            "seconds": seconds,
            "paper_seconds": PAPER_SECONDS,
            "newton_seconds": dict(zip(PAPER_SECONDS, (0.01, 0.011, 0.013, 0.016, 0.05), strict=True)),
            "samples": {"sweeps": {agent: [0.9 * mean, mean, 1.1 * mean] for agent, mean in seconds.items()}},
            "episodes": 400,
            "replications": 3,
            "p_h": 0.1,
        },
        "experiments": {"bandit-br": 12.5, "lake-regret": 3.25},
        "total_seconds": 17.0,
        "workers": 2,
    }


def _policies(factor: float) -> list[BanditSettings]:
    sd = None if factor == 1.0 else factor
    levels = {"TS-CMAB": 0.0, "BRPS-CMAB 0.5": 0.5, "BRPS-CMAB 0.8": 0.8, "BRPS-CMAB 0.9": 0.9}
    return [BanditSettings(alpha, sampling_sd=sd, label=name) for name, alpha in levels.items()]


def _bandit(factor: float, horizon: int, grid: Any, replications: int) -> xarray.Dataset:
    runs = simulate_bandit(
        gaussian_bandit(), _policies(factor), horizon=horizon, replications=replications, times=grid, threads=1
    )
    return runs.drop_vars(["pulls", "arm"])


def _bandit_conventional(horizon: int, grid: Any, replications: int) -> xarray.Dataset:
    factors = (1.0, 2.0, 3.0)
    parts = [_bandit(factor, horizon, grid, replications).regret for factor in factors]
    return xarray.concat(parts, dim="nu").assign_coords(nu=list(factors)).to_dataset()


def _bandit_four(horizon: int, grid: Any, replications: int) -> xarray.Dataset:
    wide = 0.75 * np.sqrt(6.0 * np.log(2.0 * horizon))
    policies = [
        BanditSettings(0.8, label="BRPS-CMAB 0.8"),
        BanditSettings(0.8, sampling_sd=wide, label="BRPS-CMAB_nu 0.8"),
        BanditSettings(label="TS-CMAB"),
        BanditSettings(sampling_sd=wide, label="TS-CMAB_nu"),
    ]
    runs = simulate_bandit(
        gaussian_bandit(),
        policies,
        horizon=horizon,
        replications=replications,
        times=grid,
        levels=[0.8],
        threads=1,
    )
    return runs.drop_vars(["pulls", "arm"])


def _lake(episodes: int, replications: int, grid: Any) -> xarray.Dataset:
    agents = [ts_rl(), *(brps_rl(alpha) for alpha in (0.5, 0.8, 0.9, 0.99))]
    chances = (0.1, 0.2, 0.6, 0.8)
    parts = [
        simulate(frozen_lake(p), agents, episodes=episodes, replications=replications, threads=1)
        .regret.isel(episode=np.unique(grid) - 1)
        .assign_coords(episode=np.unique(grid))
        for p in chances
    ]
    return xarray.concat(parts, dim="p_h").assign_coords(p_h=list(chances)).to_dataset()


def _optimal_policy() -> xarray.Dataset:
    lake = frozen_lake(0.1)
    solution = solve(lake.model.mdp(lake.theta))
    arrows = {"l": "left", "d": "down", "r": "right"}
    printed = [arrows[letter] for letter in "drdl dddl rddd rrr".replace(" ", "")]
    return xarray.Dataset(
        {
            "q": (("state", "action"), solution.q),
            "value": ("state", solution.value),
            "policy": ("state", solution.policy),
            "paper_policy": ("state", [*map(ACTIONS.index, printed), -1]),
            "hole": ("state", np.array([c == "H" for c in "".join(lake.layout)], dtype=np.int8)),
            "p_h": 0.1,
        },
        coords={"state": np.arange(16), "action": list(ACTIONS)},
    )


def _limit_law(replications: int) -> xarray.Dataset:
    lake = frozen_lake(0.1)
    mdp = lake.model.mdp(lake.theta)
    law = limit_law(mdp, solve(mdp).policy, 0.9)
    mean, sd = float(law.mean[10]), float(np.sqrt(law.cov[10, 10]))
    sizes = np.array([10_000, 50_000, 100_000, 1_000_000])
    rng = np.random.default_rng(3)
    exact = rng.normal(mean, sd, (sizes.size, replications)) + 20.0 * sd / np.sqrt(sizes)[:, np.newaxis]
    sampled = exact + rng.normal(0.0, 0.1 * sd, exact.shape)
    return xarray.Dataset(
        {
            "scaled_error": (("method", "size", "replication"), np.stack([sampled, exact])),
            "limit_mean": mean,
            "limit_sd": sd,
        },
        coords={"method": ["sampled", "exact"], "size": sizes, "replication": np.arange(replications)},
    )


def _beyond(episodes: int, replications: int) -> xarray.Dataset:
    moments = np.arange(0, episodes, 2)
    lake = frozen_lake(0.1)
    levels = [ts_rl(), brps_rl(0.5), brps_rl(0.9)]
    risk = simulate(
        lake, levels, episodes=episodes, replications=replications, br_episodes=moments, br_alpha=0.9, threads=1
    )
    rivals = [*levels, optimistic_vi(0.9, horizon=10 * episodes)]
    runs = simulate(lake, rivals, episodes=episodes, replications=replications, threads=1)
    br_regret = risk.br_regret.squeeze("metric", drop=True).rename(br_episode="episode")
    br_regret = br_regret.assign_coords(episode=moments + 1)
    regret = runs.regret.assign_coords(episode=np.arange(1, episodes + 1))
    return xarray.merge([br_regret, regret], join="outer", compat="no_conflicts")
