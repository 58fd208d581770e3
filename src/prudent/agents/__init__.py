"""Agents for tabular models: they learn from transitions, and do not know the environment."""

from __future__ import annotations

from .model_sampling import ModelPosterior, ModelSamplingAgent
from .optimistic_vi import OptimisticSettings, OptimisticVIAgent, optimistic_vi
from .posterior_sampling import PosteriorSamplingAgent
from .protocol import Agent, AgentFactory
from .q_learning import QLearningAgent, QLearningSettings, brql
from .sampling_settings import SamplingSettings, brps_rl, certainty_equivalence, ts_rl, worst_case
from .tabular import TabularAgent

__all__ = [
    "Agent",
    "AgentFactory",
    "ModelPosterior",
    "ModelSamplingAgent",
    "OptimisticSettings",
    "OptimisticVIAgent",
    "PosteriorSamplingAgent",
    "QLearningAgent",
    "QLearningSettings",
    "SamplingSettings",
    "TabularAgent",
    "brps_rl",
    "brql",
    "certainty_equivalence",
    "optimistic_vi",
    "ts_rl",
    "worst_case",
]
