"""Random streams of simulations and of workers.

Simulations: replication r of seed q gives the environment SeedSequence(q, spawn_key=(r, 0)) and the agent (r, 1). So
results do not depend on threads or on which other replications run, and all agents face the same contexts and noise.

Workers that share a saved state: the hashed state of its Generator is the entropy; the number of the worker and a nonce
are the spawn key. The nonce is random for each process and counts its calls, so a state that is loaded again and again
never gives the same stream twice: a worker that restarts for every request would else repeat one random number.

Forks: a stream belongs to the process whose number (`PROCESS`) it carries. The number is on a page of memory that the
system clears in every child, so it is right even where the handlers of ``os.register_at_fork`` do not run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
from functools import cache
from typing import Any

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


def state_memory(rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    """Return the memory [4] that holds the state of a Generator of PCG64; the array does not keep it alive.

    Numbers written there are its next state: see `stream_states`.
    """
    holder: int = rng.bit_generator.ctypes.state_address
    place = ctypes.c_uint64.from_address(holder).value  # the first field of the holder points to the state
    return np.ctypeslib.as_array((ctypes.c_uint64 * 4).from_address(place))


def _words(bits: np.random.BitGenerator) -> list[int]:
    """Return a state of PCG64 as four numbers below 2**64."""
    state: Any = bits.state["state"]
    return [number >> shift & (2**64 - 1) for number in (state["state"], state["inc"]) for shift in (0, 64)]


@cache
def _order() -> list[int] | None:
    """Return at which places of the memory the numbers of `_words` stand; None where NumPy keeps states otherwise."""
    rng = np.random.Generator(np.random.PCG64(1))
    here, words = state_memory(rng).tolist(), _words(rng.bit_generator)
    return [here.index(word) for word in words] if sorted(here) == sorted(words) else None


def can_restart() -> bool:
    """Return whether states of Generators can be written to their memory.

    >>> can_restart() in (True, False)
    True
    """
    return _order() is not None


def stream_states(seed: int, first: int, count: int) -> npt.NDArray[np.uint64]:
    """Return the states [count, 2, 4] of `replication_streams`, as `state_memory` has them.

    >>> rng = np.random.default_rng(0)
    >>> state_memory(rng)[:] = stream_states(seed=1, first=5, count=1)[0, 1]
    >>> rng.random() == replication_streams(seed=1, replication=5)[1].random()
    True
    """
    states = np.empty((count, 2, 4), dtype=np.uint64)
    order = _order()
    for r in range(count):
        for part in (0, 1):
            bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(first + r, part)))
            states[r, part, order] = _words(bits)
    return states


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


_nonce = [0, 0, 0]  # number of the process that it belongs to, random part, calls


def nonce() -> tuple[int, int]:
    """Return two numbers that no other call has returned: one of this process, and how often it was asked.

    >>> nonce() == nonce()
    False
    """
    number = process_number()
    if _nonce[0] != number or not _nonce[1]:
        _nonce[:] = [number, int.from_bytes(os.urandom(16), "little"), 0]
    _nonce[2] += 1
    return _nonce[1], _nonce[2]


# -- the number of this process ----------------------------------------------------------------------------

_WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux, which the module mmap does not name


class _ProcessById:
    """What stands for the page where the system has none: the first entry is 0 if the process is another one."""

    def __init__(self) -> None:
        self._id, self._number = os.getpid(), 0

    def __getitem__(self, place: int) -> int:
        return self._number if self._id == os.getpid() else 0

    def __setitem__(self, place: int, number: int) -> None:
        self._id, self._number = os.getpid(), number


def _cleared_page() -> Any:
    """Return a page of memory that is zero in every forked process; see ``PROCESS``."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPE_ON_FORK)
    except (AttributeError, OSError, ValueError):  # no Linux, or an old one
        return _ProcessById()
    return page


PROCESS: Any = _cleared_page()
"""The first entry is the number of this process among its forked ancestors, or 0 until `process_number` is called."""
PROCESS[0] = 1
_latest = 1


def process_number() -> int:
    """Return ``PROCESS[0]``, after this process has got a number that none of its ancestors has."""
    global _latest
    if PROCESS[0] == 0:
        _latest = PROCESS[0] = _latest % 255 + 1
    return int(PROCESS[0])
