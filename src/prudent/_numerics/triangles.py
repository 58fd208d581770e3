"""Symmetric and lower triangular matrices: half of the memory of square ones.

A *triangle* holds the rows of a lower triangle one after another, D(D+1)/2 numbers: row i begins at i(i+1)/2. Kernels
that read matrices by ``row_of`` and ``entry_of`` take triangles, and the D^2 numbers of a square array in one row.

The rounding error of a sum is at most half a unit in the last place of it. Its *half*, the upper 32 of its 64 bits,
has 21 significant bits, so that a sum and the half of its rounding error have 74.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from .._support.checks import FloatArray, IntArray
from .compile import inlined

HalfArray = np.ndarray[Any, np.dtype[np.uint32]]
_BITS = 32
_KEPT = 64  # rows of triangles whose places are kept
_NEAREST = 1 << (_BITS - 1)  # added to the bits before the lower ones are dropped


# -- kernels -----------------------------------------------------------------------------------------------


@inlined
def is_square(matrix: Any, size: int) -> bool:
    """Return whether a matrix of ``size`` rows is a square array in one row, and not a triangle; one entry is both."""
    return matrix.shape[0] == size * size


@inlined
def row_of(matrix: Any, i: int, size: int) -> Any:
    """Return row ``i`` up to the diagonal."""
    start = i * size if matrix.shape[0] == size * size else i * (i + 1) // 2
    return matrix[start : start + i + 1]


@inlined
def entry_of(matrix: Any, i: int, j: int, size: int) -> Any:
    """Return entry i, j of a symmetric matrix."""
    row, column = max(i, j), min(i, j)
    return matrix[(row * size if matrix.shape[0] == size * size else row * (row + 1) // 2) + column]


def error_of(rest: Any) -> Any:
    """Return a rounding error, given itself or its half."""
    return _whole(rest) if isinstance(rest, np.uint32) else rest


@overload(error_of, inline="always", strict=False)
def _error_of(rest: Any) -> Any:
    if rest == types.uint32:
        return lambda rest: _whole(rest)
    return lambda rest: rest


def keeps_halves(errors: Any) -> bool:
    """Return whether rounding errors are kept as halves."""
    return bool(errors.dtype == np.uint32)


@overload(keeps_halves, inline="always", strict=False)
def _keeps_halves(errors: Any) -> Any:
    if errors.dtype == types.uint32:
        return lambda errors: True
    return lambda errors: False


@inlined
def _whole(half: Any) -> Any:
    return np.int64(np.int64(half) << _BITS).view(np.float64)


@inlined
def half_of(number: Any) -> Any:
    """Return the half of a number, in a kernel."""
    return np.uint32((np.float64(number).view(np.int64) + _NEAREST) >> _BITS)


# -- arrays ------------------------------------------------------------------------------------------------


def size_of(triangle: int) -> int:
    """Return the number of rows of a triangle that has so many entries."""
    return int(((8 * triangle + 1) ** 0.5 - 1.0) / 2.0 + 0.5)


def _places(size: int) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the entries of a triangle."""
    return _kept_places(size) if size <= _KEPT else np.tril_indices(size)


@lru_cache(maxsize=16)
def _kept_places(size: int) -> tuple[IntArray, IntArray]:
    return np.tril_indices(size)


@lru_cache(maxsize=16)
def diagonal_of(size: int) -> IntArray:
    """Return where the diagonal of ``size`` entries is in a triangle."""
    rows = np.arange(size)
    return np.asarray(rows * (rows + 3) // 2)


def triangle_of(matrix: FloatArray) -> FloatArray:
    """Return the lower triangles [..., D(D+1)/2] of matrices [..., D, D]."""
    rows, columns = _places(matrix.shape[-1])
    return np.ascontiguousarray(matrix[..., rows, columns])


def lower_of(triangle: FloatArray) -> FloatArray:
    """Return the lower triangular matrices [..., D, D] of triangles."""
    size = size_of(triangle.shape[-1])
    rows, columns = _places(size)
    matrix = np.zeros((*triangle.shape[:-1], size, size))
    matrix[..., rows, columns] = triangle
    return matrix


def symmetric_of(triangle: FloatArray) -> FloatArray:
    """Return the symmetric matrices [..., D, D] of triangles."""
    matrix = lower_of(triangle)
    rows, columns = _places(matrix.shape[-1])
    matrix[..., columns, rows] = triangle
    return matrix


def halves_of(errors: FloatArray) -> HalfArray:
    """Return the halves of rounding errors."""
    bits = np.ascontiguousarray(errors, dtype=np.float64).view(np.int64)
    return ((bits + _NEAREST) >> _BITS).astype(np.uint32)


def errors_of(halves: HalfArray) -> FloatArray:
    """Return the rounding errors that have these halves."""
    return (halves.astype(np.int64) << _BITS).view(np.float64)


def flat(*matrices: FloatArray) -> tuple[FloatArray, ...]:
    """Return views of square arrays, which lie in one piece, as kernels take them: in one row."""
    return tuple(matrix.reshape(-1) for matrix in matrices)
