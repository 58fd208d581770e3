"""Environments: problems with known truth, to test agents on, and adapters to Gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bandits import BanditEnvironment, DriftingEnv, LogisticBanditEnv, drifting, logistic_bandit
from .classification import ClassificationEnv, classification
from .frozen_lake import frozen_lake
from .inventory import inventory
from .linear_bandit import LinearBanditEnv, bounded_bandit, gaussian_bandit
from .problem import Problem
from .random_model import random_model
from .river_swim import river_swim

if TYPE_CHECKING:
    from .gymnasium import GymnasiumModel, LinearBanditGym, TabularEnv

__all__ = [
    "BanditEnvironment",
    "ClassificationEnv",
    "DriftingEnv",
    "GymnasiumModel",
    "LinearBanditEnv",
    "LinearBanditGym",
    "LogisticBanditEnv",
    "Problem",
    "TabularEnv",
    "bounded_bandit",
    "classification",
    "drifting",
    "frozen_lake",
    "gaussian_bandit",
    "inventory",
    "logistic_bandit",
    "random_model",
    "register_gymnasium",
    "river_swim",
]


def register_gymnasium() -> None:
    """Register the environments of prudent with Gymnasium, under ``prudent/...``.

    Examples
    --------
    >>> register_gymnasium()
    >>> import gymnasium
    >>> gymnasium.make("prudent/GaussianBandit-v0", steps=5).observation_space.shape
    (3,)
    >>> gymnasium.make("prudent/FrozenLake-v0", p_h=0.2).observation_space
    Discrete(16)
    """
    from .gymnasium import register

    register()


def __getattr__(name: str) -> Any:
    if name in ("GymnasiumModel", "LinearBanditGym", "TabularEnv"):  # gymnasium takes a while to load
        from . import gymnasium

        return getattr(gymnasium, name)
    raise AttributeError(f"module 'prudent.envs' has no attribute {name!r}")
