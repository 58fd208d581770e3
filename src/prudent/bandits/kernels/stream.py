"""Uniforms of a random stream, taken in blocks."""

from __future__ import annotations

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.copying import put
from ..._support.checks import FloatArray
from ..._support.streams import nonce, process_number, spawned

BLOCK = 1024  # uniforms taken from the Generator at a time


class Uniforms:
    """Uniforms of a Generator, taken in blocks. The stream does not depend on how it is cut into blocks.

    A stream belongs to one process, whose number it carries as ``home``. In a forked process it goes on as a new
    stream, so two processes never use the same uniforms. Whoever reads ``block`` and ``next`` calls ``reserve``, or
    compares ``home`` with ``PROCESS[0]``, first.
    """

    __slots__ = ("block", "drawn", "home", "next", "rng")

    def __init__(self, rng: np.random.Generator, unused: FloatArray) -> None:
        self.rng = rng
        self.block = unused
        self.next = 0  # the first unused one
        self.drawn = unused.size  # taken from the Generator since the stream began, where that is known
        self.home = process_number()

    @classmethod
    def at(cls, entropy: int, position: int) -> Uniforms:
        """Return the stream of an entropy, after ``position`` of its uniforms were used."""
        bits = np.random.PCG64(np.random.SeedSequence(entropy))
        stream = cls(np.random.Generator(bits.advance(position)), np.empty(0))
        stream.drawn = position
        return stream

    @property
    def position(self) -> int:
        """Number of uniforms used since the stream began."""
        return self.drawn - self.block.size + self.next

    def __getstate__(self) -> tuple[np.random.Generator, FloatArray]:
        return self.here().rng, self.unused

    def __setstate__(self, state: tuple[np.random.Generator, FloatArray]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def here(self) -> Uniforms:
        """Return the stream itself, after it has become one of this process."""
        number = process_number()
        if self.home != number:
            # nothing of the old Generator is read: another thread may have been using it when the process forked
            self.rng = np.random.Generator(type(self.rng.bit_generator)(np.random.SeedSequence()))
            self.block, self.next, self.drawn, self.home = np.empty(0), 0, 0, number
        return self

    @property
    def unused(self) -> FloatArray:
        """Those that were taken from the Generator and not used up."""
        return self.block[self.next :]

    def reserve(self, need: int) -> None:
        """Have at least ``need`` unused ones."""
        unused = self.here().unused
        if unused.size >= need:
            return
        # Simulations do the same with the kernel refill. It is no use here: passing a Generator to a kernel takes
        # longer than drawing a block.
        size = max(BLOCK, need)  # whatever was needed before, so that a loaded bandit draws as many at a time
        if self.block.size != size:
            self.block = np.empty(size)
        self.block[: unused.size] = unused
        self.rng.random(out=self.block[unused.size :])
        self.drawn += size - unused.size
        self.next = 0

    def spawn(self, key: int) -> None:
        """Go on with a new stream of worker ``key``, which no other call, here or in another process, gives."""
        self.rng = spawned(self.here().rng, (key, *nonce()), self.unused.tobytes())
        self.block, self.next, self.drawn = np.empty(0), 0, 0


@kernel
def refill(rng: np.random.Generator, uniforms: FloatArray, start: int) -> None:
    """Move the uniforms from ``start`` on to the front, and draw new ones behind them."""
    left = uniforms.shape[0] - start
    put(uniforms, uniforms[start:])
    for i in range(left, uniforms.shape[0]):
        uniforms[i] = rng.random()
