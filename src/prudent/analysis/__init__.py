"""Analysis of policies: returns over the posterior, choice of the risk level, value of further data."""

from __future__ import annotations

from .check import CheckReport, check
from .decision_comparison import DecisionComparison, compare
from .findings import Finding
from .log_study import LogStudy, study_log
from .posterior_returns import posterior_returns
from .profile import RiskProfile, risk_profile
from .profile_rows import BestTail
from .return_distribution import ReturnDistribution, plot_returns
from .saved_decision import SavedDecision, load, save
from .simulated_returns import Returns, returns
from .today import Today
from .value_of_data import ValueOfData, value_of_data

__all__ = [
    "BestTail",
    "CheckReport",
    "DecisionComparison",
    "Finding",
    "LogStudy",
    "ReturnDistribution",
    "Returns",
    "RiskProfile",
    "SavedDecision",
    "Today",
    "ValueOfData",
    "check",
    "compare",
    "load",
    "plot_returns",
    "posterior_returns",
    "returns",
    "risk_profile",
    "save",
    "study_log",
    "value_of_data",
]
