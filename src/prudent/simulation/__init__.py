"""Simulations of agents: compiled replications of tabular problems and of bandits, and learning in Gymnasium."""

from __future__ import annotations

from .bandits import simulate_bandit
from .learning import learn
from .tabular import simulate

__all__ = ["learn", "simulate", "simulate_bandit"]
