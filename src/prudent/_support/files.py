"""Files that are either the old one or the new one, whatever happens."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, *parts: bytes) -> None:
    """Write ``parts`` to ``path``, one after the other, so that nobody ever finds half of it there.

    They are written to a draft beside it, flushed to the disk and moved; a draft of a killed process is called
    ``.NAME.*.tmp``.
    """
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        # a draft is private to its owner; the file gets the mode of the file it replaces, or the usual one
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the move itself must survive a power cut
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
