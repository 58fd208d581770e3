"""Simulations of agents: compiled replications of tabular problems and of bandits, and learning in Gymnasium."""

from __future__ import annotations

from .bandits import simulate_bandit
from .learning import learn
from .table import RegretTable, regret_table
from .tabular import simulate

__all__ = ["RegretTable", "learn", "regret_table", "simulate", "simulate_bandit"]
