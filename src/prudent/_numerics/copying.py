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


@lean
def put_columns(columns: Any, rows: Any) -> None:
    """Write ``rows`` [T,D] into the first T of ``columns`` [D,W], eight rows at a time."""
    count, dim = rows.shape
    whole = count // 8 * 8
    for t in range(0, whole, 8):
        a, b, c, d = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        e, f, g, h = rows[t + 4], rows[t + 5], rows[t + 6], rows[t + 7]
        for j in range(dim):
            column = columns[j]
            column[t], column[t + 1], column[t + 2], column[t + 3] = a[j], b[j], c[j], d[j]
            column[t + 4], column[t + 5], column[t + 6], column[t + 7] = e[j], f[j], g[j], h[j]
    for t in range(whole, count):
        for j in range(dim):
            columns[j, t] = rows[t, j]
