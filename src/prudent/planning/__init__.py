"""Planning: Bellman operators, solvers with a certificate, and the Bayesian risk MDP."""

from __future__ import annotations

from .brmdp import BayesianRiskMDP
from .explain import Explanation
from .finite_solution import FiniteSolution
from .objectives import Entropic, EVaR
from .solution import Solution
from .solver import SolverOptions, evaluate, solve
from .static_risk import RiskSolution

__all__ = [
    "BayesianRiskMDP",
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
