"""Files of an output folder, written completely or not at all."""

from __future__ import annotations

from pathlib import Path

from ..errors import StoreError
from .files import write_atomically


def prepare(folder: Path) -> None:
    """Create ``folder`` if needed and check that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ".writable", b"")
        (folder / ".writable").unlink()
    except OSError as error:
        message = f"cannot write to the folder {folder}: {error.strerror or error}"
        raise StoreError(message, code="not-writable", path=str(folder)) from error


def write(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in an output folder, completely or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}; finished work is stored: run again to continue"
        raise StoreError(message, code="not-writable", path=str(path)) from error
