"""Who draws from which random stream in a simulation.

Replication r of seed q gives the environment SeedSequence(q, spawn_key=(r, 0)) and the agent (r, 1). So results do not
depend on threads or on which other replications run, and all agents face the same contexts and noise.
"""

from __future__ import annotations

import numpy as np

from .checks import whole_number

__all__ = ["replication_streams"]


def replication_streams(seed: int, replication: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the Generators of the environment and of the agent in one replication.

    >>> environment, agent = replication_streams(seed=1, replication=0)
    >>> environment.random() == agent.random()
    False
    """
    seed = whole_number(seed, "seed", minimum=0)
    replication = whole_number(replication, "replication", minimum=0)
    keys = [np.random.SeedSequence(seed, spawn_key=(replication, part)) for part in (0, 1)]
    return np.random.default_rng(keys[0]), np.random.default_rng(keys[1])
