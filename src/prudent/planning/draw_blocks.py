"""Posterior draws in blocks of sources: made by us and drawn again when memory is short, or given by the caller."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np

from .._numerics.dirichlet_draws import draw_slots
from .._support.checks import FloatArray
from .._support.progress import Progress
from ..models.entries import Entries
from ..models.uncertain import UncertainMDP

KEPT_BYTES = 2**29  # draws that are kept; more are drawn again when needed
BLOCK_BYTES = 2**25  # draws that are made at once then


class SlotDraws:
    """Draws of a Dirichlet posterior by slots [F, N], block by block of sources: the numbers of one generator.

    What does not fit into ``kept_bytes`` is not kept but drawn again, from where the generator was, when it is needed.
    """

    def __init__(self, entries: Entries, counts: FloatArray, n: int, rng: np.random.Generator, kept_bytes: int) -> None:
        """``counts`` [F] by slots; ``rng`` draws everything now."""
        self._begin, self.counts, self.n = entries.begin, counts, n
        slots = int(entries.begin[-1])
        all_kept = 8 * n * slots <= kept_bytes
        size = slots if all_kept else max(1, min(slots, BLOCK_BYTES // (8 * n)))
        edges = np.searchsorted(entries.begin, np.arange(0, slots + size, size).clip(max=slots))
        self.edges: list[tuple[int, int]] = list(pairwise(np.unique(edges).tolist()))  # of the sources of each block
        self._kept: list[FloatArray | None] = []
        self._streams: list[np.random.Generator] = []
        progress = Progress("drawing")
        for block in range(len(self.edges)):
            progress.show(f"block {block + 1} of {len(self.edges)}")
            self._streams.append(rng if all_kept else copy.deepcopy(rng))
            theta = self._draw(block, rng)
            kept_bytes -= theta.nbytes
            self._kept.append(theta if kept_bytes >= 0 else None)
        progress.close()

    def _draw(self, block: int, rng: np.random.Generator) -> FloatArray:
        first, last = self.edges[block]
        begin = self._begin[first : last + 1]
        theta = np.empty((begin[-1] - begin[0], self.n))
        draw_slots(rng, self.counts[begin[0] : begin[-1]], begin - begin[0], theta, np.empty(self.n))
        return theta

    def block(self, block: int) -> FloatArray:
        """Return the draws of one block [slots of the block, N]."""
        kept = self._kept[block]
        return self._draw(block, copy.deepcopy(self._streams[block])) if kept is None else kept


class GivenDraws:
    """Draws of the caller, in one block."""

    def __init__(self, model: UncertainMDP, theta: FloatArray) -> None:
        """``theta`` [N, B, K]."""
        self.n = theta.shape[0]
        self.edges = [(0, theta.shape[1])]
        self.theta = np.ascontiguousarray(model.entries.pack(theta).T)
        if model.terminal.any():
            self.theta[-1] = 1.0  # an end is certain, whatever the caller's rounding

    def block(self, block: int) -> FloatArray:
        """Return all draws [F, N]."""
        return self.theta
