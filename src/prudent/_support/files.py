"""Files that are either the old one or the new one, whatever happens."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


_TOKEN = "[a-z0-9_]{8}"  # what tempfile puts for the star in ".NAME.*.tmp"


def write_atomically(path: Path, *parts: bytes, check: Callable[[bytes], Any] | None = None) -> None:
    """Write ``parts`` to ``path``, one after the other, so that nobody ever finds half of it there.

    ``check`` is called with what the disk gives back before it takes the place of an older file; it may raise an error.
    """
    with replacing(path) as file:
        file.writelines(parts)
        if check is not None:
            file.seek(0)
            check(file.read())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the place of ``path`` when the block ends without an error.

    It is a draft beside ``path``, ``.NAME.*.tmp``, flushed to the disk and then moved. A failure removes the draft.
    A killed process cannot, so the next write of the same name does: a draft is locked as long as its writer lives.
    """
    _remove_abandoned(path)
    file, draft = _locked_draft(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # a draft is private to its owner; the file gets the mode of the file it replaces, or the usual one
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(draft, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
            if fcntl is None:
                file.close()  # only a closed file can be moved there
            os.replace(draft, path)  # before the lock is gone
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the move itself must survive a power cut
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _locked_draft(path: Path) -> tuple[BinaryIO, str]:
    """Return a new draft, locked until it is closed, and its name."""
    while True:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        file = os.fdopen(handle, "w+b")
        # another writer may take it for an abandoned one before it is locked
        if _lock(file.fileno()) is not False and os.path.exists(draft):
            return file, draft
        file.close()
        with suppress(OSError):
            os.unlink(draft)


def _remove_abandoned(path: Path) -> None:
    """Remove the drafts of ``path`` whose writers were killed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.{_TOKEN}\.tmp")
    with suppress(OSError):  # a folder that we may write to but not list, say
        for name in filter(pattern.fullmatch, os.listdir(path.parent)):
            with suppress(OSError):
                _remove_unless_locked(path.parent / name)


def _remove_unless_locked(draft: Path) -> None:
    with draft.open("rb") as file:
        if fcntl is not None and _lock(file.fileno()):
            os.unlink(draft)
    if fcntl is None:
        os.unlink(draft)  # fails if its writer has it open


def _lock(handle: int) -> bool | None:
    """Lock an open file without waiting; return False if another writer has locked it, None where locks are unknown."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


# -- one process at a time ---------------------------------------------------------------------------------


def take_turn(path: Path, patience: float) -> int | None:
    """Wait until no other process holds the lock file ``path``, and hold it: a handle for `leave_turn`.

    Returns None where there are no locks, or after ``patience`` seconds: whoever holds it may have been stopped. The
    system takes the lock from a process that ends.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        locked = _lock(handle)
        if locked and _is_at(handle, path):
            return handle
        os.close(handle)
        if locked is None or time.monotonic() > deadline:
            return None
        if not locked:
            time.sleep(0.02)


def leave_turn(path: Path, handle: int) -> None:
    """Let go of a lock file and remove it."""
    with suppress(OSError):
        os.unlink(path)
    if fcntl is not None:  # a child that was forked in the meantime has the handle, too
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is the one that has this name now; the last to hold it has removed it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False
