"""Copies of arrays inside kernels.

Numba compiles the text of an error message for every kernel that assigns one array to a slice of another: that took a
sixth of the time of ``prudent compile``. A loop has no such message.
"""

from __future__ import annotations

from typing import Any

from .compile import lean


@lean
def put(target: Any, source: Any) -> None:
    """Write ``source`` [n] over the first n elements of ``target``; if they overlap, ``source`` is the later one."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@lean
def put_rows(target: Any, source: Any) -> None:
    """Write ``source`` [m,n] over the first n elements of the first m rows of ``target``."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]
