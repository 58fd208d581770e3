"""Gymnasium ids of our environments; their classes are loaded when one is made."""

from __future__ import annotations

__all__ = ["IDS", "register_envs"]

IDS = {
    "prudent/FrozenLake-v0": "frozen_lake_env",
    "prudent/Inventory-v0": "inventory_env",
    "prudent/RandomModel-v0": "random_model_env",
}


def register_envs() -> None:
    """Register our environments with Gymnasium; a second call does nothing.

    >>> register_envs()
    >>> import gymnasium
    >>> gymnasium.make("prudent/FrozenLake-v0", p_h=0.2).observation_space
    Discrete(16)
    """
    from gymnasium.envs.registration import register, registry

    for name, maker in IDS.items():
        if name not in registry:
            register(id=name, entry_point=f"prudent.envs._tabular_env:{maker}")
