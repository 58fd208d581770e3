"""prudent: decisions that hedge against what the data has not yet taught.

Bayesian risk MDPs after Wang and Zhou, *Online Bayesian Risk-Averse Reinforcement Learning*: write down a
model, feed it counts, and get the risk-averse policy with certified values.

Names are imported on first use, so that ``import prudent`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import agents as agents
    from . import envs as envs
    from . import errors as errors
    from . import exact as exact
    from . import risk as risk
    from . import theory as theory
    from .agents import BanditPolicy as BanditPolicy
    from .agents import Decision as Decision
    from .agents import LinearBandit as LinearBandit
    from .agents import OptimisticPolicy as OptimisticPolicy
    from .agents import OptimisticVIAgent as OptimisticVIAgent
    from .agents import PosteriorSamplingAgent as PosteriorSamplingAgent
    from .agents import SamplingPolicy as SamplingPolicy
    from .agents import brps_cmab as brps_cmab
    from .agents import brps_cmab_clipped as brps_cmab_clipped
    from .agents import brps_cmab_inflated as brps_cmab_inflated
    from .agents import brps_rl as brps_rl
    from .agents import certainty_equivalence as certainty_equivalence
    from .agents import optimistic_vi as optimistic_vi
    from .agents import thompson_sampling as thompson_sampling
    from .agents import thompson_sampling_inflated as thompson_sampling_inflated
    from .agents import ts_rl as ts_rl
    from .agents import worst_case as worst_case
    from .bandit_simulation import simulate_bandit as simulate_bandit
    from .brmdp import BayesianRiskMDP as BayesianRiskMDP
    from .errors import ConvergenceWarning as ConvergenceWarning
    from .errors import DataError as DataError
    from .errors import ModelError as ModelError
    from .errors import ParameterError as ParameterError
    from .errors import PosteriorError as PosteriorError
    from .errors import PrudentError as PrudentError
    from .errors import StateFileError as StateFileError
    from .mdp import MDP as MDP
    from .mdp import UncertainMDP as UncertainMDP
    from .posteriors import BetaPosterior as BetaPosterior
    from .posteriors import DirichletPosterior as DirichletPosterior
    from .posteriors import LinearGaussianPosterior as LinearGaussianPosterior
    from .posteriors import NormalPosterior as NormalPosterior
    from .posteriors import posterior_from_log as posterior_from_log
    from .risk import CVaR as CVaR
    from .risk import Mean as Mean
    from .risk import MeanCVaR as MeanCVaR
    from .risk import ModifiedCVaR as ModifiedCVaR
    from .risk import RiskMeasure as RiskMeasure
    from .risk import Spectral as Spectral
    from .risk import VaR as VaR
    from .risk import WorstCase as WorstCase
    from .risk import cvar as cvar
    from .risk import lowest_normals as lowest_normals
    from .risk import modified_cvar as modified_cvar
    from .risk import sample_size as sample_size
    from .simulation import learn as learn
    from .simulation import simulate as simulate
    from .solver import Solution as Solution
    from .solver import evaluate as evaluate
    from .solver import solve as solve

_HOME = {
    "agents": [
        "BanditPolicy",
        "Decision",
        "LinearBandit",
        "OptimisticPolicy",
        "OptimisticVIAgent",
        "PosteriorSamplingAgent",
        "SamplingPolicy",
        "brps_cmab",
        "brps_cmab_clipped",
        "brps_cmab_inflated",
        "brps_rl",
        "certainty_equivalence",
        "optimistic_vi",
        "thompson_sampling",
        "thompson_sampling_inflated",
        "ts_rl",
        "worst_case",
    ],
    "bandit_simulation": ["simulate_bandit"],
    "brmdp": ["BayesianRiskMDP"],
    "errors": [
        "ConvergenceWarning",
        "DataError",
        "ModelError",
        "ParameterError",
        "PosteriorError",
        "PrudentError",
        "StateFileError",
    ],
    "mdp": ["MDP", "UncertainMDP"],
    "posteriors": [
        "BetaPosterior",
        "DirichletPosterior",
        "LinearGaussianPosterior",
        "NormalPosterior",
        "posterior_from_log",
    ],
    "risk": [
        "CVaR",
        "Mean",
        "MeanCVaR",
        "ModifiedCVaR",
        "RiskMeasure",
        "Spectral",
        "VaR",
        "WorstCase",
        "cvar",
        "lowest_normals",
        "modified_cvar",
        "sample_size",
    ],
    "simulation": ["learn", "simulate"],
    "solver": ["Solution", "evaluate", "solve"],
}
_MODULES = ["agents", "envs", "errors", "exact", "risk", "theory"]
_ORIGIN = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_ORIGIN, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _ORIGIN:
        value = getattr(importlib.import_module(f".{_ORIGIN[name]}", __name__), name)
    elif name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'prudent' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
