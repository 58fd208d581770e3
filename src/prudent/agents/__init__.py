"""Agents for tabular models: they decide from what they have seen, and know no environment."""

from __future__ import annotations

from .optimistic_vi import OptimisticPolicy, OptimisticVIAgent, optimistic_vi
from .posterior_sampling import (
    PosteriorSamplingAgent,
    SamplingPolicy,
    brps_rl,
    certainty_equivalence,
    ts_rl,
    worst_case,
)

__all__ = [
    "OptimisticPolicy",
    "OptimisticVIAgent",
    "PosteriorSamplingAgent",
    "SamplingPolicy",
    "brps_rl",
    "certainty_equivalence",
    "optimistic_vi",
    "ts_rl",
    "worst_case",
]
