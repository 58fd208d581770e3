"""Planning: Bellman operators, solvers with a certificate, and the Bayesian risk MDP."""

from __future__ import annotations

from .cluster import ClusterModel
from .explain import Explanation
from .finite_solution import FiniteSolution
from .objectives import Entropic, EVaR
from .options import SolverOptions
from .problem import BayesianRiskMDP
from .return_risk import RiskSolution
from .solution import Solution
from .solve import evaluate, solve

__all__ = [
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
]
