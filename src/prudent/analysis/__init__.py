"""Questions about a policy: returns over the posterior, which alpha, what to measure next."""

from __future__ import annotations

from .posterior_returns import posterior_returns
from .profile import RiskProfile, risk_profile
from .returns_figure import plot_returns
from .simulated_returns import Returns, returns
from .value_of_data import ValueOfData, value_of_data

__all__ = [
    "Returns",
    "RiskProfile",
    "ValueOfData",
    "plot_returns",
    "posterior_returns",
    "returns",
    "risk_profile",
    "value_of_data",
]
