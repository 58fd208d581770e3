"""Agents for tabular models: they decide from what they have seen, and know no environment."""

from __future__ import annotations

from .optimistic_vi import OptimisticSettings, OptimisticVIAgent, optimistic_vi
from .posterior_sampling import (
    PosteriorSamplingAgent,
    SamplingSettings,
    brps_rl,
    certainty_equivalence,
    ts_rl,
    worst_case,
)

__all__ = [
    "OptimisticSettings",
    "OptimisticVIAgent",
    "PosteriorSamplingAgent",
    "SamplingSettings",
    "brps_rl",
    "certainty_equivalence",
    "optimistic_vi",
    "ts_rl",
    "worst_case",
]
