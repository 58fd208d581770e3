"""The two connections of a store, one that writes and one that reads, and the transaction that reads."""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...errors import JournalError, PrudentError, StateFileError


class Connections(ABC):
    """Two connections to a database; base class of ``Store``. Members say how to begin, and which errors there are.

    Parameters
    ----------
    path : str
        What errors call it.
    failures : type of Exception
        Base class of the errors of the driver of the database.
    """

    def __init__(self, path: str, failures: type[Exception]) -> None:
        self.path, self._failures = path, failures
        self._reader: Any = None
        self._writer: Any = None
        self._new_locks()

    def _new_locks(self) -> None:
        self._lock = threading.RLock()  # of the connection that reads
        self._local = threading.local()  # writing: this thread has the transaction that writes; depth: of reading

    @abstractmethod
    def _begin_reading(self) -> Any:
        """Begin a transaction of the connection that reads, and return the connection."""

    @abstractmethod
    def _translated(self, error: Any) -> PrudentError:
        """Return the error of prudent for one of the driver."""

    def damaged(self, text: str, code: str = "damaged-file", **fields: Any) -> StateFileError:
        """Return the error of a store that is not as a journal leaves it."""
        return StateFileError(f"{self.path}: {text}"[:500], code=code, path=self.path, **fields)

    def failed(self, text: str, code: str) -> JournalError:
        """Return the error of input or output that failed."""
        return JournalError(f"{self.path}: {text}", code=code, path=self.path)

    def disconnect(self) -> None:
        """Close the connections; the next call opens new ones."""
        for connection in (self._writer, self._reader):
            if connection is not None:
                with suppress(self._failures):
                    connection.close()
        self._reader = self._writer = None

    def abandon(self) -> None:
        """Leave the connections of the parent process alone, after a fork: they may be neither used nor closed."""
        for connection in (self._reader, self._writer):
            if connection is not None:  # nothing closes it, not even the end of the process
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        self._reader = self._writer = None
        self._new_locks()

    @property
    def _inside(self) -> bool:
        """Whether this thread has a transaction open."""
        return getattr(self._local, "writing", False) or getattr(self._local, "depth", 0) > 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open a transaction that reads one consistent state."""
        if self._inside:
            yield
            return
        with self._lock, self._translating():
            db = self._begin_reading()
            self._local.depth = 1
            try:
                yield
            finally:
                self._local.depth = 0
                with suppress(self._failures):  # it is closed, say
                    db.execute("ROLLBACK")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            raise self._translated(error) from error

    def _db(self) -> Any:
        """Return the connection of the transaction that this thread has open."""
        db = self._writer if getattr(self._local, "writing", False) else self._reader
        if db is None:
            raise self.failed("it is closed", "closed")
        return db
