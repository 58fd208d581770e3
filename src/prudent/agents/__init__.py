"""Agents: they decide from what they have seen, and know nothing of the environments that test them."""

from __future__ import annotations

from .linear_bandit import (
    BanditPolicy,
    Decision,
    LinearBandit,
    brps_cmab,
    brps_cmab_clipped,
    brps_cmab_inflated,
    thompson_sampling,
    thompson_sampling_inflated,
)
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
    "BanditPolicy",
    "Decision",
    "LinearBandit",
    "OptimisticPolicy",
    "OptimisticVIAgent",
    "PosteriorSamplingAgent",
    "SamplingPolicy",
    "brps_cmab",
    "brps_cmab_clipped",
    "brps_cmab_inflated",
    "brps_rl",
    "certainty_equivalence",
    "optimistic_vi",
    "thompson_sampling",
    "thompson_sampling_inflated",
    "ts_rl",
    "worst_case",
]
