"""Planning: problems, solvers with a certificate, and solutions.

A problem (``prudent.MDP`` or ``BayesianRiskMDP``) is solved by ``solve``, which asks it for a Bellman
operator, iterates that to a certified tolerance and returns a ``Solution``.
"""

from __future__ import annotations

from ..display.explanation import ActionView, OutcomeView
from .acting import policy_code
from .base import AtMost, Constraint, OutOfSample, PlanningProblem, PolicySearch
from .cluster import ClusterModel
from .explain import Explanation
from .intervals import IntervalMDP
from .learning import LearningPlan
from .objectives import Entropic, EVaR, Objective, PosteriorRisk
from .options import SolverOptions
from .problem import BayesianRiskMDP
from .robust import L1Ball, RobustMDP
from .simplify import Rule, RuleList, Simplified
from .solution import Solution
from .solve import evaluate, solve
from .stay_close import log_policy

__all__ = [
    "ActionView",
    "AtMost",
    "BayesianRiskMDP",
    "ClusterModel",
    "Constraint",
    "EVaR",
    "Entropic",
    "Explanation",
    "IntervalMDP",
    "L1Ball",
    "LearningPlan",
    "Objective",
    "OutOfSample",
    "OutcomeView",
    "PlanningProblem",
    "PolicySearch",
    "PosteriorRisk",
    "RobustMDP",
    "Rule",
    "RuleList",
    "Simplified",
    "Solution",
    "SolverOptions",
    "evaluate",
    "log_policy",
    "policy_code",
    "solve",
]
