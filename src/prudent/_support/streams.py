"""Random streams of simulations and of workers.

Simulations: replication r of seed q gives the environment SeedSequence(q, spawn_key=(r, 0)) and the agent (r, 1). So
results do not depend on threads or on which other replications run, and all agents face the same contexts and noise.

Workers that share a saved state: the hashed state of its Generator is the entropy, and the number of the worker the
spawn key. A worker has the same stream whenever it starts from the same state, and never that of another worker.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import numpy.typing as npt

from ..types import RngLike
from .checks import generator, whole_number
from .state import generator_state


def seed_of(rng: RngLike, name: str = "rng") -> int:
    """Return an int seed: an int is returned as it is, a Generator or None gives one by one draw below 2**63.

    >>> seed_of(7), seed_of(np.random.default_rng(1)) == seed_of(np.random.default_rng(1))
    (7, True)
    """
    if isinstance(rng, (int, np.integer)):
        return whole_number(rng, name, minimum=0)
    return int(generator(rng, name).integers(2**63))


def replication_streams(seed: int, replication: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the Generators of the environment and of the agent in one replication.

    >>> environment, agent = replication_streams(seed=1, replication=0)
    >>> environment.random() == agent.random()
    False
    """
    seed = whole_number(seed, "seed", minimum=0)
    replication = whole_number(replication, "replication", minimum=0)
    first, second = (np.random.SeedSequence(seed, spawn_key=(replication, part)) for part in (0, 1))
    return np.random.default_rng(first), np.random.default_rng(second)


def source_key(seed: int, replication: int) -> npt.NDArray[np.uint64]:
    """Return the key [2] of the numbers that the environment of one replication draws by source.

    It is made of the seed sequence of the environment.

    >>> source_key(seed=1, replication=0).size
    2
    """
    state = np.random.SeedSequence(seed, spawn_key=(replication, 0)).generate_state(2, np.uint64)
    return state.astype(np.uint64)


def spawned(rng: np.random.Generator, key: tuple[int, ...], more: bytes = b"") -> np.random.Generator:
    """Return a Generator of the same kind, made from the state of ``rng``, further bytes of state and a key.

    >>> rng = np.random.default_rng(1)
    >>> spawned(rng, (0,)).random() == spawned(rng, (1,)).random()
    False
    >>> spawned(rng, (0,)).random() == spawned(rng, (0,)).random()
    True
    """
    state = json.dumps(generator_state(rng), sort_keys=True).encode()
    entropy = int.from_bytes(hashlib.sha256(state + more).digest(), "little")
    return np.random.Generator(type(rng.bit_generator)(np.random.SeedSequence(entropy, spawn_key=key)))
