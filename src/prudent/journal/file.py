"""The file of a journal: an SQLite database with one table of events and one of snapshots.

    event      seq (0, 1, 2, ... in the order in which all processes wrote), time, kind, and what happened
    snapshot   seq, and the state of the bandit after that event: the bytes of its state file

Kinds of events: ``start``, ``decision``, ``reward`` (of the decision with number ``decision``), and calls that change
the arms. Arms are written as JSON, contexts as little-endian float64. Events are appended and never changed; each has
a checksum, since SQLite itself has none. Whatever is wrong with a file is a StateFileError, and whatever the machine
refuses a JournalError: no error of sqlite3 leaves this module.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import JournalError, PrudentError, StateFileError

__all__ = ["Event", "JournalFile"]


_APPLICATION = int.from_bytes(b"prdj", "big")
_VERSION = 1
_PAGES = 4000  # of the write-ahead log, before they are copied to the database: 16 MB
_CHANGES = "kind <> 'decision' AND kind <> 'reward'"
_SCHEMA = {
    "event": (
        "CREATE TABLE event (seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, writer INTEGER NOT NULL, "
        "decision INTEGER, arm TEXT, arms TEXT, context BLOB, score REAL, propensity REAL, reward REAL, options TEXT, "
        "checksum INTEGER NOT NULL)"
    ),
    "reward_of": "CREATE UNIQUE INDEX reward_of ON event (decision) WHERE decision IS NOT NULL",
    "change": f"CREATE INDEX change ON event (kind) WHERE {_CHANGES}",
    "snapshot": "CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, time REAL NOT NULL, state BLOB NOT NULL)",
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_REFUSED = {
    sqlite3.SQLITE_FULL: "there is no space left for it",
    sqlite3.SQLITE_READONLY: "it cannot be written: no permission, or a disk that is read-only",
    sqlite3.SQLITE_PERM: "it cannot be opened: no permission",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: no such folder, no permission, or no room for the files beside it",
    sqlite3.SQLITE_IOERR: "the disk failed",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_NOLFS: "it is larger than the file system allows",
    sqlite3.SQLITE_TOOBIG: "SQLite holds no state and no context of more than a billion bytes",
}


class Event(NamedTuple):
    """One row of the journal."""

    seq: int
    time: float  # seconds since 1970
    kind: str
    writer: int  # a random number that each process draws when it opens the journal
    decision: int | None = None  # that a reward belongs to
    arm: str | None = None  # that was chosen
    arms: str | None = None  # eligible ones, None for all; all arms after a start or a change
    context: bytes | None = None
    score: float | None = None
    propensity: float | None = None
    reward: float | None = None
    options: str | None = None  # arguments of a change

    @property
    def id(self) -> str:
        """What callers know a decision by."""
        return f"{self.seq}-{self.writer:08x}"

    def checksum(self) -> int:
        """Return the CRC-32 of the row."""
        return zlib.crc32(self.context or b"", zlib.crc32(repr((*self[:7], *self[8:])).encode()))


_COLUMNS = ", ".join((*Event._fields, "checksum"))
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES ({', '.join('?' * (len(Event._fields) + 1))})"


_DECISION = f"SELECT {_COLUMNS} FROM event WHERE seq = ? AND kind = 'decision'"


class JournalFile:
    """An open journal file; the caller sees to it that one thread uses it at a time."""

    def __init__(self, path: str | os.PathLike[str], synchronous: str, timeout: float) -> None:
        self.path = os.path.abspath(os.fsdecode(os.fspath(path)))
        self._synchronous = synchronous
        self._timeout = timeout
        self._db: sqlite3.Connection | None = None
        self._inode = (0, 0)

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, create: bool) -> bool:
        """Open the file and return whether it holds a journal; if not, it is empty and may become one."""
        if not create and not os.path.exists(self.path):
            raise FileNotFoundError(f"there is no journal {self.path}, and no bandit to start one with")
        try:
            db = self._connect("rwc" if create else "rw")
            try:
                held = self._require_ours(db)
                if not held and not create:
                    raise StateFileError(f"{self.path} is empty: it holds no journal")
                self._prepare(db, fresh=not held)
            except BaseException:
                db.close()
                raise
        except sqlite3.Error as error:
            raise self._translated(error) from error
        self._db = db
        self._inode = self._found()
        return held

    def _found(self) -> tuple[int, int]:
        """Return what tells the file at the path from another one."""
        try:
            found = os.stat(self.path)
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def _connect(self, mode: str) -> sqlite3.Connection:
        where = f"file:{quote(Path(self.path).as_posix())}?mode={mode}"
        return sqlite3.connect(where, self._timeout, 0, None, check_same_thread=False, uri=True)

    def _require_ours(self, db: sqlite3.Connection) -> bool:
        """Raise if this is no journal, before anything in the file is changed; return False if it is empty."""
        application, version = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        found = {name: (kind, sql) for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master")}
        if not found and application == 0:
            return False
        if application != _APPLICATION:
            raise StateFileError(f"{self.path} is an SQLite database of another program, not a journal")
        if not 1 <= version <= _VERSION:
            raise StateFileError(f"{self.path} is a journal of version {version}, this prudent reads up to {_VERSION}")
        for name, sql in _SCHEMA.items():
            if found.get(name, ("", ""))[1] != sql:
                raise StateFileError(f"{self.path} is damaged: its {name!r} is not that of a journal")
        active = [name for name, (kind, _) in found.items() if kind == "trigger"]
        if active:
            raise StateFileError(f"{self.path} holds the trigger {active[0]!r}, which would change what is written")
        return True

    def _prepare(self, db: sqlite3.Connection, fresh: bool) -> None:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        if fresh:
            self._set_wal(db)
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")

    def _set_wal(self, db: sqlite3.Connection) -> None:
        """Choose the write-ahead log, for which SQLite does not wait when another process is about to do the same."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)
        if mode != "wal":
            raise JournalError(f"{self.path} is on a file system that cannot hold a journal: no write-ahead log")

    def create(self, first: Event, state: bytes) -> None:
        """Make an empty file a journal, inside a transaction; do nothing if another process just has."""
        db = self.db
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._require_ours(db)
            return
        for sql in _SCHEMA.values():
            db.execute(sql)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        self.append(first)
        self.write_snapshot(first.seq, state)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection, opened again if it was closed for a fork."""
        if self._db is None:
            db = self._connect("rw")
            self._prepare(db, fresh=False)
            self._db = db
        return self._db

    def disconnect(self) -> None:
        """Close the connection; the next call opens a new one."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    # -- transactions and errors ---------------------------------------------------------------------------

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[None]:
        """Write all or nothing, alone among all processes; or read what was there at one moment."""
        try:
            db = self.db
            if self._found() != self._inode:  # what was written now would be lost when the file is closed
                raise JournalError(f"{self.path} was moved, deleted or replaced while it was open")
            if db.in_transaction:  # an interrupt came between two lines below
                db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have done it already
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> PrudentError:
        """Return our error in the place of one of sqlite3."""
        code = _code(error)
        if code in _BUSY:
            text = f"{self.path} was locked by another process for more than {self._timeout:g} s"
            return JournalError(f"{text}; nothing was written, try again")
        if code in _REFUSED:
            return JournalError(f"{self.path}: {_REFUSED[code]} ({error}); what was acknowledged before is kept")
        return StateFileError(f"{self.path} is damaged, or no journal: {error}")

    # -- events --------------------------------------------------------------------------------------------

    def append(self, event: Event) -> None:
        """Write an event, inside a transaction."""
        self.db.execute(_INSERT, (*event, event.checksum()))

    def last(self) -> int:
        """Return the number of the latest event."""
        found = self.db.execute("SELECT max(seq) FROM event").fetchone()[0]
        if type(found) is not int or not 0 <= found < 2**62:
            raise StateFileError(f"{self.path} is damaged: its latest event has the number {found!r}")
        return found

    def decision(self, seq: int) -> Event | None:
        """Return the decision with this number."""
        found = self.db.execute(_DECISION, (seq,)).fetchone()
        return None if found is None else self._checked(found)

    def has_reward(self, seq: int) -> bool:
        """Return whether there is a reward of the decision with this number."""
        return self.db.execute("SELECT 1 FROM event WHERE decision = ?", (seq,)).fetchone() is not None

    def rewards(self, first: int, last: int) -> dict[int, Event]:
        """Return the rewards of the decisions ``first`` to ``last``, by the number of the decision."""
        query = f"SELECT {_COLUMNS} FROM event WHERE decision BETWEEN ? AND ?"
        return {event.decision or 0: event for event in map(self._checked, self.db.execute(query, (first, last)))}

    def require_rewards(self, found: int, last: int) -> None:
        """Raise unless so many decisions have a reward up to event ``last``: they were found by way of an index."""
        query = (
            "SELECT count(*) FROM event AS reward NOT INDEXED WHERE seq <= ? AND decision IS NOT NULL "
            "AND EXISTS (SELECT 1 FROM event WHERE event.seq = reward.decision)"
        )
        (there,) = self.db.execute(query, (last,)).fetchone()
        if there != found:
            raise StateFileError(f"{self.path} is damaged: {found} of its {there} rewards are in its index")

    def require_sound(self) -> None:
        """Raise if tables and indices contradict each other."""
        (said,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise StateFileError(f"{self.path} is damaged: {said}")

    def events(self, after: int, most: int, rewards: bool = True) -> list[Event]:
        """Return events with numbers beyond ``after``, in order, at most so many; without ``rewards`` if told."""
        rest = "" if rewards else "AND kind <> 'reward'"
        query = f"SELECT {_COLUMNS} FROM event WHERE seq > ? {rest} ORDER BY seq LIMIT ?"
        return [self._checked(row) for row in self.db.execute(query, (after, most))]

    def changes(self) -> list[Event]:
        """Return the start and all changes of the arms, in order."""
        query = f"SELECT {_COLUMNS} FROM event WHERE {_CHANGES} ORDER BY seq"
        return [self._checked(row) for row in self.db.execute(query)]

    def _checked(self, row: tuple[Any, ...]) -> Event:
        event = Event(*row[:-1])
        if event.checksum() != row[-1]:
            raise StateFileError(f"{self.path} is damaged: the checksum of event {event.seq!r} does not match")
        return event

    # -- snapshots -----------------------------------------------------------------------------------------

    def write_snapshot(self, seq: int, state: bytes) -> None:
        """Write the state after event ``seq``; keep the first snapshot and the last two."""
        self.db.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", (seq, time.time(), state))
        self.db.execute(
            "DELETE FROM snapshot WHERE seq > (SELECT min(seq) FROM snapshot) AND seq NOT IN "
            "(SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 2)"
        )

    def snapshots(self) -> list[int]:
        """Return the numbers of the events after which there is a snapshot, the latest first."""
        return [seq for (seq,) in self.db.execute("SELECT seq FROM snapshot ORDER BY seq DESC")]

    def snapshot(self, seq: int) -> bytes:
        """Return the state after event ``seq``."""
        (state,) = self.db.execute("SELECT state FROM snapshot WHERE seq = ?", (seq,)).fetchone()
        if not isinstance(state, bytes):
            raise StateFileError(f"{self.path} is damaged: snapshot {seq} holds no bytes")
        return state

    # -- compaction ----------------------------------------------------------------------------------------

    def drop(self, before: float) -> int:
        """Delete decisions older than ``before`` and their rewards, inside a transaction; return how many.

        The latest event stays: its number is where the next one goes on.
        """
        db = self.db
        old = "SELECT seq FROM event WHERE kind = 'decision' AND time < ? AND seq < (SELECT max(seq) FROM event)"
        db.execute(f"DELETE FROM event WHERE decision IN ({old}) AND seq < (SELECT max(seq) FROM event)", (before,))
        return db.execute(f"DELETE FROM event WHERE seq IN ({old})", (before,)).rowcount

    def shrink(self) -> None:
        """Give the space of what was deleted back to the disk."""
        try:
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise self._translated(error) from error


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code of SQLite; None for what the module sqlite3 itself says."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
