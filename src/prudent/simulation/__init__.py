"""Agents and environments side by side: compiled replications of tabular problems and of bandits."""

from __future__ import annotations

from .bandits import simulate_bandit
from .tabular import learn, simulate

__all__ = ["learn", "simulate", "simulate_bandit"]
