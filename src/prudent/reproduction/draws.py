"""Replications of simulated studies, and the sums of them that comparisons of means need.

Sums are drawn from their own law where it is known, without the replications: sums of rows of a normal law by
Bartlett's decomposition of the Wishart law, and sums of many rows of a small population by how often each was drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..types import ArrayLike, FloatArray, IntArray

BLOCK = 2**20  # numbers of samples that are drawn at a time


class Sums(NamedTuple):
    """All that comparisons of means need to know of samples [..., R, k].

    Attributes
    ----------
    size : ndarray
        Replications [...].
    total : ndarray
        Sums [..., k].
    products : ndarray
        Sums of products [..., k, k].
    """

    size: FloatArray
    total: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, values: ArrayLike) -> Sums:
        """Return the sums of samples."""
        data = np.asarray(values, dtype=np.float64)
        size = np.full(data.shape[:-2], float(data.shape[-2]))
        return cls(size, data.sum(axis=-2), np.swapaxes(data, -1, -2) @ data)

    @classmethod
    def none(cls, studies: int, k: int) -> Sums:
        """Return the sums of several studies without replications."""
        return cls(np.zeros(studies), np.zeros((studies, k)), np.zeros((studies, k, k)))

    def add(self, more: Sums, studies: IntArray) -> None:
        """Add the sums of further replications of some studies, given by index."""
        for own, other in zip(self, more, strict=True):
            own[studies] += other


class Draw(ABC):
    """Draws of replications, paired over quantities, for several studies at once."""

    @abstractmethod
    def replications(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, FloatArray]:
        """Return ``count`` further replications [n, count] or [n, count, k] of n studies, by quantity."""

    def sums(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, Sums]:
        """Return the sums of ``count`` further replications [n, count, k] of n studies, by quantity."""
        parts = [self.replications(names, studies, rows) for rows in _parts(count, BLOCK // (16 * studies.size))]
        return {name: _added([Sums.of(part[name]) for part in parts]) for name in names}


class Resampled(Draw):
    """Draws whole replications of populations, with replacement.

    Parameters
    ----------
    world : mapping of str to ndarray
        Populations by quantity.
    rng : Generator
        Source of randomness.
    """

    def __init__(self, world: Mapping[str, FloatArray], rng: np.random.Generator) -> None:
        self._world, self._rng = world, rng

    def replications(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, FloatArray]:
        """See ``Draw``."""
        places = self._rng.random((studies.size, count))
        rows = {size: (places * size).astype(np.int64) for size in {len(self._world[name]) for name in names}}
        return {name: self._world[name][rows[len(self._world[name])]] for name in names}

    def sums(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, Sums]:
        """See ``Draw``; populations of one size, few for so many draws, are drawn by how often each row occurs."""
        sizes = {len(self._world[name]) for name in names}
        if len(sizes) > 1 or 2 * max(sizes) > count:
            return super().sums(names, studies, count)
        (size,) = sizes
        often = self._rng.multinomial(count, np.full(size, 1.0 / size), studies.size).astype(np.float64)
        found = {}
        for name in names:
            rows = self._world[name]
            k = rows.shape[1]
            products = often @ (rows[:, :, np.newaxis] * rows[:, np.newaxis, :]).reshape(size, k * k)
            found[name] = Sums(np.full(studies.size, float(count)), often @ rows, products.reshape(-1, k, k))
        return found


class Normal(Draw):
    """Draws from the normal law with the means and covariances of populations, all quantities together.

    Parameters
    ----------
    world : mapping of str to ndarray
        Populations by quantity.
    rng : Generator
        Source of randomness.
    """

    def __init__(self, world: Mapping[str, FloatArray], rng: np.random.Generator) -> None:
        self._rng = rng
        self._shapes = {name: values.shape[1:] for name, values in world.items()}
        self._flat = {name: values.reshape(len(values), -1) for name, values in world.items()}
        self._means = {name: values.mean(axis=0) for name, values in self._flat.items()}
        self._rows = min(map(len, self._flat.values()))
        self._made: dict[tuple[str, ...], list[FloatArray]] = {}

    def _factors(self, names: Sequence[str]) -> list[FloatArray]:
        """Return the blocks of columns of a matrix F for which F' F is the covariance."""
        if tuple(names) not in self._made:
            stacked = np.concatenate([self._flat[name][: self._rows] for name in names], axis=1)
            factor = np.linalg.qr(stacked - stacked.mean(axis=0), mode="r") / np.sqrt(self._rows - 1.0)
            ends = np.cumsum([self._flat[name].shape[1] for name in names])[:-1]
            self._made[tuple(names)] = np.split(factor, ends, axis=1)
        return self._made[tuple(names)]

    def replications(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, FloatArray]:
        """See ``Draw``."""
        blocks = self._factors(names)
        noise = self._rng.standard_normal((studies.size * count, blocks[0].shape[0]))
        return {
            name: (self._means[name] + noise @ block).reshape(studies.size, count, *self._shapes[name])
            for name, block in zip(names, blocks, strict=True)
        }

    def sums(self, names: Sequence[str], studies: IntArray, count: int) -> dict[str, Sums]:
        """See ``Draw``; the products around the mean have a Wishart law with ``count - 1`` degrees of freedom."""
        blocks, n = self._factors(names), studies.size
        width = blocks[0].shape[0]
        if count <= width:
            return super().sums(names, studies, count)
        root = np.tril(self._rng.standard_normal((n, width, width)), -1)
        root[:, range(width), range(width)] = np.sqrt(self._rng.chisquare(count - 1.0 - np.arange(width), (n, width)))
        centre = self._rng.standard_normal((n, width)) / np.sqrt(count)
        found = {}
        for name, block in zip(names, blocks, strict=True):
            half = np.swapaxes(root, 1, 2) @ block
            total = count * (self._means[name] + centre @ block)
            products = np.swapaxes(half, 1, 2) @ half + total[:, :, np.newaxis] * total[:, np.newaxis, :] / count
            found[name] = Sums(np.full(n, float(count)), total, products)
        return found


def _parts(count: int, largest: int) -> list[int]:
    """Return whole numbers up to ``largest`` that sum to ``count``."""
    step = max(1, largest)
    return [min(step, count - begin) for begin in range(0, count, step)]


def _added(parts: Sequence[Sums]) -> Sums:
    return Sums(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))
