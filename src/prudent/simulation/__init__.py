"""Simulations of agents: compiled replications of tabular problems and of bandits, and learning in Gymnasium."""

from __future__ import annotations

from .bandits import simulate_bandit
from .foreign import ForeignBandit, TellingBandit, adapt_bandit
from .learning import learn
from .table import RegretTable, regret_table
from .tabular import simulate

__all__ = [
    "ForeignBandit",
    "RegretTable",
    "TellingBandit",
    "adapt_bandit",
    "learn",
    "regret_table",
    "simulate",
    "simulate_bandit",
]
