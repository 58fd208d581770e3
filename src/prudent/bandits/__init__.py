"""Contextual bandits with a risk dial."""

from __future__ import annotations

from .bandit import LinearBandit
from .decision import Decision
from .settings import (
    BanditSettings,
    brps_cmab,
    brps_cmab_clipped,
    brps_cmab_inflated,
    thompson_sampling,
    thompson_sampling_inflated,
)
from .simulate import simulate_bandit

__all__ = [
    "BanditSettings",
    "Decision",
    "LinearBandit",
    "brps_cmab",
    "brps_cmab_clipped",
    "brps_cmab_inflated",
    "simulate_bandit",
    "thompson_sampling",
    "thompson_sampling_inflated",
]
