"""A store in one file: SQLite with a write-ahead log, for processes of one machine.

Two connections, so that nobody who decides waits for the disk: one writes, one reads. Who wants to write asks again
after a fraction of a millisecond: SQLite itself waits in steps of up to 100 ms, and one of four writers then waits for
a second now and then. No error of sqlite3 leaves this module.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ...errors import ParameterError, PrudentError
from ...types import PathLike
from .base import Store
from .tables import TABLES, VERSION

_APPLICATION = int.from_bytes(b"prdj", "big")
_PAGE = 2048  # bytes
_PAGES = 8000  # size of the write-ahead log before it is copied to the database: 16 MB
_CROSSED: set[tuple[int, int]] = set()  # files to which a connection of the parent was open when this process forked
_LAST = "SELECT seq FROM entry ORDER BY seq DESC LIMIT 1"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_REFUSED = {
    sqlite3.SQLITE_FULL: ("disk-full", "no space left on the disk"),
    sqlite3.SQLITE_READONLY: ("not-writable", "it cannot be written: no permission, or a read-only disk"),
    sqlite3.SQLITE_PERM: ("not-readable", "it cannot be opened: no permission"),
    sqlite3.SQLITE_CANTOPEN: (
        "not-readable",
        "it cannot be opened: no such folder, no permission, or no space for the files beside it",
    ),
    sqlite3.SQLITE_IOERR: ("disk-failure", "the disk failed"),
    sqlite3.SQLITE_NOMEM: ("not-enough-memory", "out of memory"),
    sqlite3.SQLITE_NOLFS: ("file-too-large", "it is larger than the file system allows"),
    sqlite3.SQLITE_TOOBIG: ("file-too-large", "SQLite stores at most a billion bytes in one state or context"),
}


class SqliteStore(Store):
    """A journal in an SQLite file.

    Parameters
    ----------
    path : path-like
        The file.
    synchronous : {"FULL", "NORMAL"}
        Whether a commit waits for the disk.
    timeout : float
        Seconds to wait for other writers.
    key : bytes, optional
        Secret that signs all rows.
    """

    def __init__(self, path: PathLike, synchronous: str, timeout: float, key: bytes | None = None) -> None:
        try:
            text = os.fsdecode(os.fspath(path))
        except TypeError:
            text = ""
        if text in ("", ":memory:") or "\0" in text:
            message = f"path must be the path of a file or an address postgresql://..., got {path!r}"
            raise ParameterError(message, code="wrong-type", argument="path", value=path)
        super().__init__(os.path.abspath(text), sqlite3.Error, timeout, key)
        self._synchronous = synchronous
        self._inode = (0, 0)
        self._busy = False  # a thread writes, or was interrupted when it did

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, create: bool) -> bool:
        """Open the file and return whether it holds a journal; see ``Store.open``."""
        if not create and not os.path.exists(self.path):
            raise FileNotFoundError(f"there is no journal {self.path}, and no bandit to start one")
        try:
            try:
                self._reader = self._connect("rwc" if create else "rw")
                held = self._require_ours()
                if not held and not create:
                    raise self.damaged("it is empty and holds no journal", code="wrong-format")
                if not held:
                    self._set_wal(self._reader)
                self._writer = self._connect("rw", writes=True)
                if held:
                    self._inode = self._identity()
                    self.read_settings()
            except BaseException:
                self.disconnect()
                raise
        except sqlite3.Error as error:
            raise self._translated(error) from error
        self._inode = self._identity()
        return held

    def _identity(self) -> tuple[int, int]:
        """Return device and inode of the file at the path."""
        try:
            status = os.stat(self.path)
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino

    def _connect(self, mode: str, writes: bool = False) -> sqlite3.Connection:
        if _CROSSED and self._identity() in _CROSSED:
            # SQLite takes locks of the parent for its own and would write without them
            text = "another thread was using it when this process forked; fork before threads start, or start anew"
            raise self.failed(text, "open-at-fork")
        where = f"file:{quote(os.fsencode(self.path))}?mode={mode}"
        db = sqlite3.connect(where, self.timeout, 0, None, check_same_thread=False, uri=True)
        db.text_factory = lambda text: text.decode(errors="backslashreplace")  # what is damaged has no checksum
        try:
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cell_size_check = ON")
            db.execute(f"PRAGMA synchronous = {self._synchronous}")
            db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")
            if writes:
                db.execute("PRAGMA busy_timeout = 0")  # we ask again ourselves, see the module
        except BaseException:
            db.close()
            raise
        return db

    def _require_ours(self) -> bool:
        """Return whether the file holds a journal; raise if it holds something else."""
        fetch = self.fetch
        application, version = (fetch(f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version"))
        objects = {name: (kind, sql) for kind, name, sql in fetch("SELECT type, name, sql FROM sqlite_master")}
        if not objects and application == 0:
            return False
        if application != _APPLICATION:
            raise self.damaged("it is an SQLite database of another program, not a journal", code="wrong-format")
        self._require_version(version)
        for name, sql in TABLES.items():
            if objects.get(name, ("", sql if name == "decision_time" else ""))[1] != sql:
                raise self.damaged(f"its {name!r} is not that of a journal")
        triggers = [name for name, (kind, _) in objects.items() if kind == "trigger"]
        if triggers:
            raise self.damaged(f"it holds the trigger {triggers[0]!r}, which would change what is written")
        return True

    def _set_wal(self, db: sqlite3.Connection) -> None:
        """Choose the write-ahead log."""
        db.execute(f"PRAGMA page_size = {_PAGE}")  # a commit writes three or four pages
        for _ in self._patience():
            try:
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
                continue
            if mode != "wal":
                raise self.failed("this file system cannot hold a journal: no write-ahead log", "no-write-ahead-log")
            return
        raise self._late()

    def _exists(self) -> bool:
        if not self.fetch("SELECT count(*) FROM sqlite_master")[0][0]:
            return False
        self._require_ours()
        return True

    def _create(self, names: Sequence[str]) -> None:
        for name in names:
            self.execute(TABLES[name])
        self.execute(f"PRAGMA application_id = {_APPLICATION}")
        self.execute(f"PRAGMA user_version = {VERSION}")

    def abandon(self) -> None:
        """Leave the connections of the parent process alone; see ``Connections.abandon``."""
        if self._reader is not None or self._writer is not None:
            _CROSSED.add(self._identity())
        super().abandon()

    # -- transactions and errors ---------------------------------------------------------------------------

    def _begin_reading(self) -> Any:
        self._require_place()
        self._reader = self._reader or self._connect("rw")
        self._begin(self._reader, "BEGIN")
        return self._reader

    def _writing(self, ordered: bool) -> _Writing:
        return _Writing(self)

    def begin_writing(self) -> None:
        """Begin the transaction that writes."""
        self._require_place()
        try:
            self._writer = self._writer or self._connect("rw", writes=True)
            self._busy = self._local.writing = True
            self._begin(self._writer, "BEGIN IMMEDIATE")
        except BaseException as error:
            self.undo_writing(error)
            raise

    def end_writing(self) -> None:
        """Commit the transaction that writes."""
        try:
            self._writer.execute("COMMIT")
        except BaseException as error:
            self.undo_writing(error)
            raise
        self._busy = self._local.writing = False

    def undo_writing(self, error: BaseException) -> None:
        """Undo the transaction that writes after an error; one of sqlite3 is raised as one of prudent."""
        with suppress(sqlite3.Error, AttributeError):  # SQLite may have done it already, or there is no connection
            self._writer.execute("ROLLBACK")
        self._busy = self._local.writing = False
        if isinstance(error, sqlite3.Error):
            raise self._translated(error) from error

    def _begin(self, db: sqlite3.Connection, begin: str) -> None:
        """Begin a transaction; wait for others."""
        if db.in_transaction:  # an interrupt came before the end of the last one
            db.execute("ROLLBACK")
        with suppress(sqlite3.OperationalError):
            db.execute(begin)
            return
        for _ in self._patience():
            try:
                db.execute(begin)
                return
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
        raise self._late()

    def _patience(self) -> Iterator[None]:
        """Iterate until the time to wait is over, first at once and then after short times by chance."""
        deadline, tries = time.monotonic() + self.timeout, 0
        while True:
            yield
            tries += 1
            if time.monotonic() > deadline:
                return
            time.sleep(random.uniform(1e-4, 6e-4 if tries < 100 else 5e-3))

    def _late(self) -> PrudentError:
        text = f"another process held the lock for more than {self.timeout:g} s; nothing was written, try again"
        return self.failed(text, "lock-timeout")

    def _require_place(self) -> None:
        if self._identity() != self._inode:  # what is written now would be lost when the file is closed
            raise self.failed("it was moved, deleted or replaced while it was open", "file-moved")

    def _translated(self, error: sqlite3.Error) -> PrudentError:
        """Return the error of prudent for one of sqlite3."""
        result = _code(error)
        if result in _BUSY:
            return self._late()
        if result in _REFUSED:
            code, text = _REFUSED[result]
            return self.failed(f"{text} ({error}); acknowledged events are kept", code)
        return self.damaged(f"it is damaged, or not a journal: {error}")

    # -- queries -------------------------------------------------------------------------------------------

    def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; see ``Store.fetch``."""
        return self._db().execute(query, values).fetchall()

    def execute(self, statement: str, *values: Any) -> int:
        """Execute a statement; see ``Store.execute``."""
        return self._db().execute(statement, values).rowcount

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement for many rows; see ``Store.execute_many``."""
        return self._db().executemany(statement, rows).rowcount

    def behind(self, seq: int) -> bool:
        """Return whether the log may have entries after number ``seq``; see ``Store.behind``."""
        if not self._busy and self._writer is not None:  # what it has read stays valid until another process writes
            with suppress(sqlite3.Error):
                return bool(self._writer.execute(_LAST).fetchall() != [(seq,)])
        with self._lock, self._translating():
            return self._reader is None or bool(self._reader.execute(_LAST).fetchall() != [(seq,)])

    def tell(self) -> None:
        """Do nothing: other processes look before they decide."""

    def require_sound(self) -> None:
        """Raise if tables and indices contradict each other; see ``Store.require_sound``."""
        with self.reading():
            ((answer,),) = self.fetch("PRAGMA integrity_check(1)")
        if answer != "ok":
            raise self.damaged(answer)

    def shrink(self) -> None:
        """Return unused space to the file system; see ``Store.shrink``."""
        with self._lock, self._translating():
            if self._writer is not None:
                for _ in self._patience():
                    try:
                        self._writer.execute("VACUUM")
                        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                        return
                    except sqlite3.OperationalError as error:
                        if _code(error) not in _BUSY:
                            raise
                raise self._late()


class _Writing:
    """The transaction of an SQLite store that writes. Every decision opens one, and a generator would cost 2 us."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._store.begin_writing()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._store.end_writing()
        else:
            self._store.undo_writing(error)


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code of SQLite; None for an error of the module sqlite3 itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
