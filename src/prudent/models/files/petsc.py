"""PETSc's binary matrices, which madupite reads: transition probabilities (S*A) x S and rewards (or costs) S x A.

A file holds big-endian numbers: the class of a matrix, rows, columns, stored entries; then the number of entries of
each row, the column of each entry, and the entries. -1 stored entries mark a dense matrix.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy

from ..._support.files import write_atomically
from ..._support.memory import require_memory
from ...errors import ModelError
from ...types import FloatArray, PathLike

MATRIX, DENSE = 1211216, -1
LARGEST = np.iinfo(np.int32).max


def write_matrix(path: PathLike, matrix: scipy.sparse.csr_array) -> None:
    """Write a sparse matrix with indices of 32 bits."""
    if max(matrix.nnz, *matrix.shape) > LARGEST:
        message = (
            f"{path}: PETSc's format with 32 bits holds at most {LARGEST:,} entries, the matrix has {matrix.nnz:,}"
        )
        raise ModelError(message, code="too-large", argument="path", value=matrix.nnz)
    head = np.array([MATRIX, *matrix.shape, matrix.nnz], dtype=">i4")
    parts = (head, np.diff(matrix.indptr).astype(">i4"), matrix.indices.astype(">i4"), matrix.data.astype(">f8"))
    write_atomically(Path(path), *(part.tobytes() for part in parts))


def read_matrix(path: PathLike, argument: str) -> scipy.sparse.csr_array:
    """Read a matrix, sparse or dense, with indices of 32 or 64 bits."""
    try:
        content = Path(path).read_bytes()
    except OSError as fault:
        raise _fault(path, argument, str(fault.strerror)) from None
    for width in (4, 8):
        if len(content) >= 4 * width and np.frombuffer(content, f">i{width}", 1)[0] == MATRIX:
            break
    else:
        raise _fault(path, argument, "it does not begin with the number of a matrix")
    rows, columns, stored = np.frombuffer(content, f">i{width}", 4)[1:].tolist()
    if rows < 0 or columns < 0 or stored < DENSE:
        raise _fault(path, argument, f"it has {rows} rows, {columns} columns and {stored} entries")
    require_memory(8.0 * max(rows, columns), "path", f"{path}, a matrix of {rows:,} x {columns:,},")
    body = 4 * width
    if stored == DENSE:
        _require_size(content, body + 8 * rows * columns, path, argument)
        dense: FloatArray = np.frombuffer(content, ">f8", rows * columns, body).astype(np.float64)
        return scipy.sparse.csr_array(dense.reshape(rows, columns))
    _require_size(content, body + width * (rows + stored) + 8 * stored, path, argument)
    sizes = np.frombuffer(content, f">i{width}", rows, body).astype(np.int64)
    indices = np.frombuffer(content, f">i{width}", stored, body + width * rows).astype(np.int64)
    data: FloatArray = np.frombuffer(content, ">f8", stored, body + width * (rows + stored)).astype(np.float64)
    if (sizes < 0).any() or sizes.sum() != stored or (indices < 0).any() or (indices >= columns).any():
        raise _fault(path, argument, "its rows or columns do not fit its sizes")
    return scipy.sparse.csr_array((data, indices, np.concatenate(([0], np.cumsum(sizes)))), shape=(rows, columns))


def _require_size(content: bytes, expected: int, path: PathLike, argument: str) -> None:
    if len(content) != expected:
        raise _fault(path, argument, f"it has {len(content):,} bytes, expected {expected:,}")


def _fault(path: PathLike, argument: str, text: str) -> ModelError:
    message = f"{argument} {path} is no matrix that can be read: {text}"
    return ModelError(message, code="wrong-format", argument=argument, path=str(path))
