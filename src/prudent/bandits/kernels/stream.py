"""Uniforms of a random stream, taken in blocks."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.copying import put
from ..._support.checks import FloatArray
from ..._support.locks import register_fork
from ..._support.streams import spawned

BLOCK = 1024  # uniforms taken from the Generator at a time


class Uniforms:
    """Uniforms of a Generator, taken in blocks. The stream does not depend on how it is cut into blocks.

    A forked process goes on with a stream of its own: two processes never use the same uniforms.
    """

    __slots__ = ("__weakref__", "block", "next", "rng")
    fork_order = 2  # after the bandit that has the stream

    def __new__(cls, *arguments: Any) -> Self:  # noqa: D102
        stream = super().__new__(cls)  # also of copies and of what is unpickled, which have no __init__
        register_fork(stream)
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

    def before_fork(self) -> None:
        """Do nothing; see ``ForkAware``."""

    def after_fork(self, child: bool) -> None:
        """Give the stream of a forked process a key that no other process has."""
        if child and hasattr(self, "rng"):  # another thread may have been making the stream
            self.spawn(int.from_bytes(os.urandom(16), "little"))


@kernel
def refill(rng: np.random.Generator, uniforms: FloatArray, start: int) -> None:
    """Move the uniforms from ``start`` on to the front, and draw new ones behind them."""
    left = uniforms.shape[0] - start
    put(uniforms, uniforms[start:])
    for i in range(left, uniforms.shape[0]):
        uniforms[i] = rng.random()
