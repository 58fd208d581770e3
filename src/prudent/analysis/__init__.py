"""Questions about a policy: its returns over the posterior, which alpha, what to measure next, why this action."""

from __future__ import annotations

from .profile import RiskProfile, risk_profile
from .returns import posterior_returns
from .returns_figure import plot_returns

__all__ = ["RiskProfile", "plot_returns", "posterior_returns", "risk_profile"]
