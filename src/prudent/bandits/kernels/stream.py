"""Uniforms of a random stream, taken in blocks."""

from __future__ import annotations

import os
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.copying import put
from ..._support.checks import FloatArray
from ..._support.streams import spawned

__all__ = ["BLOCK", "Uniforms", "refill"]


BLOCK = 1024  # uniforms taken from the Generator at a time


class Uniforms:
    """Uniforms of a Generator, taken in blocks. The stream does not depend on how it is cut into blocks.

    A forked process goes on with a stream of its own: two processes never use the same uniforms.
    """

    __slots__ = ("__weakref__", "block", "next", "rng")

    def __new__(cls, *arguments: Any) -> Self:  # noqa: D102
        stream = super().__new__(cls)  # also of copies and of what is unpickled, which have no __init__
        _STREAMS.add(stream)
        return stream

    def __init__(self, rng: np.random.Generator, unused: FloatArray) -> None:
        self.rng = rng
        self.block = unused
        self.next = 0  # the first unused one

    @property
    def unused(self) -> FloatArray:
        """Those that were taken from the Generator and not used up."""
        return self.block[self.next :]

    def reserve(self, need: int) -> None:
        """Have at least ``need`` unused ones."""
        unused = self.unused
        if unused.size >= need:
            return
        # Simulations do the same with the kernel refill. It is no use here: passing a Generator to a kernel takes
        # longer than drawing a block.
        size = max(BLOCK, need)  # whatever was needed before, so that a loaded bandit draws as many at a time
        if self.block.size != size:
            self.block = np.empty(size)
        self.block[: unused.size] = unused
        self.rng.random(out=self.block[unused.size :])
        self.next = 0

    def spawn(self, key: int) -> None:
        """Go on with the stream that this one gives to worker ``key``."""
        self.rng = spawned(self.rng, (key,), self.unused.tobytes())
        self.block, self.next = np.empty(0), 0


_STREAMS: WeakSet[Uniforms] = WeakSet()


def _part_ways() -> None:
    """Give each stream of a forked process a key that no other process has."""
    for stream in list(_STREAMS):
        stream.spawn(int.from_bytes(os.urandom(16), "little"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_ways)


@kernel
def refill(rng: np.random.Generator, uniforms: FloatArray, start: int) -> None:
    """Move the uniforms from ``start`` on to the front, and draw new ones behind them."""
    left = uniforms.shape[0] - start
    put(uniforms, uniforms[start:])
    for i in range(left, uniforms.shape[0]):
        uniforms[i] = rng.random()
