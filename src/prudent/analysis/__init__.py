"""Questions about a policy: returns over the posterior, which alpha, what to measure next, and why this action.

Before them stands ``from_log``, which makes a model and its posterior from a log of transitions.
"""

from __future__ import annotations

from .from_log import from_log
from .log_summary import LogSummary
from .over_posterior import posterior_returns
from .profile import RiskProfile, risk_profile
from .returns_figure import plot_returns
from .rollouts import Returns, returns
from .value_of_data import ValueOfData, value_of_data

__all__ = [
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
]
