"""Questions about a policy: returns over the posterior, which alpha, what to measure next, and why this action."""

from __future__ import annotations

from .value_of_data import ValueOfData, value_of_data

__all__ = ["ValueOfData", "value_of_data"]
