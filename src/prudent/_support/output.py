"""Files of an output folder: written whole or not at all, and one error when that is not possible."""

from __future__ import annotations

from pathlib import Path

from ..errors import StoreError
from .files import write_atomically

__all__ = ["prepare", "write"]


def prepare(folder: Path) -> None:
    """Make sure, before the work begins, that ``folder`` is there and can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ".writable", b"")
        (folder / ".writable").unlink()
    except OSError as error:
        raise StoreError(
            f"cannot write to the folder {folder}: {error.strerror or error}", code="not-writable", path=str(folder)
        ) from error


def write(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in an output folder, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; finished work is kept, run again when it can be written",
            code="not-writable",
            path=str(path),
        ) from error
