"""Agents and environments side by side: compiled replications of tabular problems."""

from __future__ import annotations

from .tabular import learn, simulate

__all__ = ["learn", "simulate"]
