"""Planning: Bellman operators, solvers with a certificate, and the Bayesian risk MDP."""

from __future__ import annotations

from .brmdp import BayesianRiskMDP
from .cluster import ClusterModel
from .explain import Explanation
from .solution import Solution
from .solver import SolverOptions, evaluate, solve

__all__ = ["BayesianRiskMDP", "ClusterModel", "Explanation", "Solution", "SolverOptions", "evaluate", "solve"]
