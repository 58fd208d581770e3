"""Who draws from which random stream.

Simulations: replication r of seed q gives the environment SeedSequence(q, spawn_key=(r, 0)) and the agent (r, 1). So
results do not depend on threads or on which other replications run, and all agents face the same contexts and noise.

Workers that share a saved state: the state of its Generator, hashed, is the entropy, and the worker's number the spawn
key. A worker has the same stream whenever it starts from the same state, and never that of another worker.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from .checks import whole_number
from .state import generator_state

__all__ = ["replication_streams", "spawned"]


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


def spawned(rng: np.random.Generator, key: tuple[int, ...], more: bytes = b"") -> np.random.Generator:
    """Return a Generator of the same kind, made from the state of ``rng``, ``more`` of that state, and a key.

    >>> rng = np.random.default_rng(1)
    >>> spawned(rng, (0,)).random() == spawned(rng, (1,)).random()
    False
    >>> spawned(rng, (0,)).random() == spawned(rng, (0,)).random()
    True
    """
    state = json.dumps(generator_state(rng), sort_keys=True).encode()
    entropy = int.from_bytes(hashlib.sha256(state + more).digest(), "little")
    return np.random.Generator(type(rng.bit_generator)(np.random.SeedSequence(entropy, spawn_key=key)))
