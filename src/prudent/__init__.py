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
    from . import analysis as analysis
    from . import bandits as bandits
    from . import envs as envs
    from . import errors as errors
    from . import evaluation as evaluation
    from . import exact as exact
    from . import models as models
    from . import planning as planning
    from . import posteriors as posteriors
    from . import risk as risk
    from . import simulation as simulation
    from . import theory as theory
    from .agents import OptimisticSettings as OptimisticSettings
    from .agents import OptimisticVIAgent as OptimisticVIAgent
    from .agents import PosteriorSamplingAgent as PosteriorSamplingAgent
    from .agents import SamplingSettings as SamplingSettings
    from .agents import brps_rl as brps_rl
    from .agents import certainty_equivalence as certainty_equivalence
    from .agents import optimistic_vi as optimistic_vi
    from .agents import ts_rl as ts_rl
    from .agents import worst_case as worst_case
    from .analysis import LogSummary as LogSummary
    from .analysis import Returns as Returns
    from .analysis import RiskProfile as RiskProfile
    from .analysis import ValueOfData as ValueOfData
    from .analysis import from_log as from_log
    from .analysis import plot_returns as plot_returns
    from .analysis import posterior_returns as posterior_returns
    from .analysis import returns as returns
    from .analysis import risk_profile as risk_profile
    from .analysis import value_of_data as value_of_data
    from .bandits import BanditSettings as BanditSettings
    from .bandits import BatchDecision as BatchDecision
    from .bandits import Decay as Decay
    from .bandits import Decision as Decision
    from .bandits import Journal as Journal
    from .bandits import JournalError as JournalError
    from .bandits import LinearBandit as LinearBandit
    from .bandits import SharedDecision as SharedDecision
    from .bandits import SharedLinearBandit as SharedLinearBandit
    from .bandits import brps_cmab as brps_cmab
    from .bandits import brps_cmab_clipped as brps_cmab_clipped
    from .bandits import brps_cmab_inflated as brps_cmab_inflated
    from .bandits import simulate_bandit as simulate_bandit
    from .bandits import thompson_sampling as thompson_sampling
    from .bandits import thompson_sampling_inflated as thompson_sampling_inflated
    from .errors import CautionWarning as CautionWarning
    from .errors import ClusterError as ClusterError
    from .errors import ConvergenceWarning as ConvergenceWarning
    from .errors import DataError as DataError
    from .errors import ModelError as ModelError
    from .errors import ParameterError as ParameterError
    from .errors import PosteriorError as PosteriorError
    from .errors import PrudentError as PrudentError
    from .errors import StateFileError as StateFileError
    from .evaluation import OffPolicyEstimates as OffPolicyEstimates
    from .evaluation import OverlapWarning as OverlapWarning
    from .evaluation import Replay as Replay
    from .evaluation import Tuning as Tuning
    from .evaluation import off_policy as off_policy
    from .evaluation import replay as replay
    from .evaluation import tune as tune
    from .models import MDP as MDP
    from .models import UncertainMDP as UncertainMDP
    from .planning import BayesianRiskMDP as BayesianRiskMDP
    from .planning import ClusterModel as ClusterModel
    from .planning import Entropic as Entropic
    from .planning import EVaR as EVaR
    from .planning import Explanation as Explanation
    from .planning import FiniteSolution as FiniteSolution
    from .planning import RiskSolution as RiskSolution
    from .planning import Solution as Solution
    from .planning import SolverOptions as SolverOptions
    from .planning import evaluate as evaluate
    from .planning import solve as solve
    from .posteriors import BetaPosterior as BetaPosterior
    from .posteriors import DirichletPosterior as DirichletPosterior
    from .posteriors import LinearGaussianPosterior as LinearGaussianPosterior
    from .posteriors import LogisticPosterior as LogisticPosterior
    from .posteriors import NormalPosterior as NormalPosterior
    from .posteriors import PoissonPosterior as PoissonPosterior
    from .posteriors import posterior_from_log as posterior_from_log
    from .risk import CVaR as CVaR
    from .risk import Mean as Mean
    from .risk import MeanCVaR as MeanCVaR
    from .risk import Mixture as Mixture
    from .risk import ModifiedCVaR as ModifiedCVaR
    from .risk import RiskMeasure as RiskMeasure
    from .risk import Spectral as Spectral
    from .risk import VaR as VaR
    from .risk import WorstCase as WorstCase
    from .risk import cvar as cvar
    from .risk import lowest_normals as lowest_normals
    from .risk import modified_cvar as modified_cvar
    from .risk import sample_size as sample_size
    from .schedules import Falling as Falling
    from .schedules import Schedule as Schedule
    from .simulation import learn as learn
    from .simulation import simulate as simulate

# Which room has which name. Reading the rooms' own lists would import them; a test compares.
_HOME = {
    "agents": [
        "OptimisticSettings",
        "OptimisticVIAgent",
        "PosteriorSamplingAgent",
        "SamplingSettings",
        "brps_rl",
        "certainty_equivalence",
        "optimistic_vi",
        "ts_rl",
        "worst_case",
    ],
    "analysis": [
        "LogSummary",
        "Returns",
        "RiskProfile",
        "ValueOfData",
        "from_log",
        "plot_returns",
        "posterior_returns",
        "returns",
        "risk_profile",
        "value_of_data",
    ],
    "bandits": [
        "BanditSettings",
        "BatchDecision",
        "Decay",
        "Decision",
        "Journal",
        "JournalError",
        "LinearBandit",
        "SharedDecision",
        "SharedLinearBandit",
        "brps_cmab",
        "brps_cmab_clipped",
        "brps_cmab_inflated",
        "simulate_bandit",
        "thompson_sampling",
        "thompson_sampling_inflated",
    ],
    "errors": [
        "CautionWarning",
        "ClusterError",
        "ConvergenceWarning",
        "DataError",
        "ModelError",
        "ParameterError",
        "PosteriorError",
        "PrudentError",
        "StateFileError",
    ],
    "evaluation": [
        "OffPolicyEstimates",
        "OverlapWarning",
        "Replay",
        "Tuning",
        "off_policy",
        "replay",
        "tune",
    ],
    "models": [
        "MDP",
        "UncertainMDP",
    ],
    "planning": [
        "BayesianRiskMDP",
        "ClusterModel",
        "EVaR",
        "Entropic",
        "Explanation",
        "FiniteSolution",
        "RiskSolution",
        "Solution",
        "SolverOptions",
        "evaluate",
        "solve",
    ],
    "posteriors": [
        "BetaPosterior",
        "DirichletPosterior",
        "LinearGaussianPosterior",
        "LogisticPosterior",
        "NormalPosterior",
        "PoissonPosterior",
        "posterior_from_log",
    ],
    "risk": [
        "CVaR",
        "Mean",
        "MeanCVaR",
        "Mixture",
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
    "schedules": ["Falling", "Schedule"],
    "simulation": [
        "learn",
        "simulate",
    ],
}
_MODULES = [
    "agents",
    "analysis",
    "bandits",
    "envs",
    "errors",
    "evaluation",
    "exact",
    "models",
    "planning",
    "posteriors",
    "risk",
    "simulation",
    "theory",
]
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
