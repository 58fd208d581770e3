"""The file of a journal: an SQLite database with one table of events and one of snapshots.

    event      seq (0, 1, 2, ... in the order in which all processes wrote), time, kind, and what happened
    snapshot   seq, and the state of the bandit after that event: the bytes of its state file
    signature  if there is a key: seq, and the HMAC-SHA256 of the event and of the signature before it

Kinds of events: ``start``, ``decision``, ``reward`` (of the decision with number ``decision``), and calls that change
the bandit. Arms are written as JSON, contexts as little-endian float64. Events are appended and never changed; each has
a checksum, since SQLite itself has none. A damaged or foreign file raises StateFileError, failed input or output raises
JournalError: no error of sqlite3 leaves this module.
"""

from __future__ import annotations

import ctypes
import hmac
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import JournalError, ParameterError, PrudentError, StateFileError
from ..types import PathLike

_APPLICATION = int.from_bytes(b"prdj", "big")
_VERSION = 1
CHUNK = 2000  # events read at a time
_PAGES = 4000  # size of the write-ahead log before it is copied to the database: 16 MB
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
_SIGNATURES = "CREATE TABLE signature (seq INTEGER PRIMARY KEY, code BLOB NOT NULL)"
_CROSSED: set[tuple[int, int]] = set()  # files to which a connection of the parent was open when this process forked
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


class Event(NamedTuple):
    """One row of the journal."""

    seq: int
    time: float  # seconds since 1970
    kind: str
    writer: int  # random number that each process draws when it opens the journal
    decision: int | None = None  # number of the decision that a reward belongs to
    arm: str | None = None  # chosen arm
    arms: str | None = None  # eligible arms, None for all; all arms after a start or a change
    context: bytes | None = None
    score: float | None = None
    propensity: float | None = None
    reward: float | None = None
    options: str | None = None  # arguments of a change

    @property
    def id(self) -> str:
        """Id of a decision for callers."""
        return f"{self.seq}-{self.writer:08x}"

    def checksum(self) -> int:
        """Return the CRC-32 of the row."""
        return zlib.crc32(self.context or b"", zlib.crc32(self._text()))

    def content(self) -> bytes:
        """Return the bytes that are signed."""
        return self._text() + b"\0" + (self.context or b"")

    def _text(self) -> bytes:
        return repr((*self[:7], *self[8:])).encode()


_TYPES: dict[str, tuple[type, ...]] = {"seq": (int,), "time": (float,), "kind": (str,), "writer": (int,)}
_TYPES |= {"decision": (int, NoneType), "context": (bytes, NoneType)}
_TYPES |= dict.fromkeys(("arm", "arms", "options"), (str, NoneType))
_TYPES |= dict.fromkeys(("score", "propensity", "reward"), (float, NoneType))
_COLUMNS = ", ".join((*Event._fields, "checksum"))
_INSERT = f"INSERT INTO event ({_COLUMNS}) VALUES ({', '.join('?' * (len(Event._fields) + 1))})"


_DECISION = f"SELECT {_COLUMNS} FROM event WHERE seq = ? AND kind = 'decision'"


class JournalFile:
    """An open journal file, to be used by one thread at a time."""

    def __init__(self, path: PathLike, synchronous: str, timeout: float, key: bytes | None = None) -> None:
        try:
            text = os.fsdecode(os.fspath(path))
        except TypeError:
            text = ""
        if text in ("", ":memory:") or "\0" in text:
            message = f"path must be the path of a file, got {path!r}"
            raise ParameterError(message, code="wrong-type", argument="path", value=path)
        self.path = os.path.abspath(text)
        self._synchronous = synchronous
        self._timeout = timeout
        self._key = key
        self.signed = False  # whether events have signatures
        self._db: sqlite3.Connection | None = None
        self._inode = (0, 0)

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, create: bool) -> bool:
        """Open the file and return whether it holds a journal; otherwise it is empty."""
        if not create and not os.path.exists(self.path):
            raise FileNotFoundError(f"there is no journal {self.path}, and no bandit to start one")
        try:
            try:
                db = self._connect("rwc" if create else "rw")
                held = self._require_ours(db)
                if not held and not create:
                    raise self.damaged("it is empty and holds no journal", code="wrong-format")
                self._prepare(db, fresh=not held)
                if held:
                    self._require_key(db)
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

    def damaged(self, text: str, code: str = "damaged-file", **fields: Any) -> StateFileError:
        """Return the error for a file that is not a sound journal."""
        return StateFileError(f"{self.path}: {text}"[:500], code=code, path=self.path, **fields)

    def failed(self, text: str, code: str) -> JournalError:
        """Return the error for input or output that failed."""
        return JournalError(f"{self.path}: {text}", code=code, path=self.path)

    def _connect(self, mode: str) -> sqlite3.Connection:
        if _CROSSED and self._identity() in _CROSSED:
            # SQLite takes locks of the parent for its own and would write without them
            text = "another thread was using it when this process forked; fork before threads start, or start anew"
            raise self.failed(text, "open-at-fork")
        where = f"file:{quote(Path(self.path).as_posix())}?mode={mode}"
        self._db = sqlite3.connect(where, self._timeout, 0, None, check_same_thread=False, uri=True)
        self._db.text_factory = lambda text: text.decode(errors="backslashreplace")  # what is damaged has no checksum
        return self._db

    def _require_ours(self, db: sqlite3.Connection) -> bool:
        """Raise if this is not a journal, before anything in the file is changed; return False if it is empty."""
        application, version = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        objects = {name: (kind, sql) for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master")}
        if not objects and application == 0:
            return False
        if application != _APPLICATION:
            raise self.damaged("it is an SQLite database of another program, not a journal", code="wrong-format")
        if version != _VERSION:
            text = f"it is a journal of version {version}, this prudent reads version {_VERSION}"
            raise self.damaged(text, code="wrong-version", value=version, expected=_VERSION)
        for name, sql in _SCHEMA.items():
            if objects.get(name, ("", ""))[1] != sql:
                raise self.damaged(f"its {name!r} is not that of a journal")
        triggers = [name for name, (kind, _) in objects.items() if kind == "trigger"]
        if triggers:
            raise self.damaged(f"it holds the trigger {triggers[0]!r}, which would change what is written")
        return True

    def _prepare(self, db: sqlite3.Connection, fresh: bool) -> None:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        if fresh:
            self._set_wal(db)
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")

    def _set_wal(self, db: sqlite3.Connection) -> None:
        """Choose the write-ahead log; SQLite itself does not wait while another process does the same."""
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
            raise self.failed("this file system cannot hold a journal: no write-ahead log", "no-write-ahead-log")

    def create(self, first: Event, state: bytes) -> None:
        """Make an empty file a journal, inside a transaction; do nothing if another process already has."""
        db = self.db
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._require_ours(db)
            self._require_key(db)
            return
        for sql in _SCHEMA.values():
            db.execute(sql)
        if self._key is not None:
            db.execute(_SIGNATURES)
        self.signed = self._key is not None
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        self.append(first)
        self.write_snapshot(first.seq, state)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection, opened again if it was closed for a fork."""
        if self._db is not None:
            return self._db
        db = self._connect("rw")
        try:
            self._prepare(db, fresh=False)
        except BaseException:
            self.disconnect()
            raise
        return db

    def abandon(self) -> None:
        """Leave the connection of the parent process alone, after a fork: it may be neither used nor closed here."""
        db, self._db = self._db, None
        if db is not None:
            _CROSSED.add(self._identity())
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # nothing closes it, not even the end of the process

    def disconnect(self) -> None:
        """Close the connection; the next call opens a new one."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    # -- transactions and errors ---------------------------------------------------------------------------

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[None]:
        """Open a transaction: to write, exclusively and all or nothing, or to read one consistent state."""
        try:
            db = self.db
            if self._identity() != self._inode:  # events written now would be lost when the file is closed
                raise self.failed("it was moved, deleted or replaced while it was open", "file-moved")
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
        """Return the error of prudent for one of sqlite3."""
        result = _code(error)
        if result in _BUSY:
            text = f"another process held the lock for more than {self._timeout:g} s; nothing was written, try again"
            return self.failed(text, "lock-timeout")
        if result in _REFUSED:
            code, text = _REFUSED[result]
            return self.failed(f"{text} ({error}); acknowledged events are kept", code)
        return self.damaged(f"it is damaged, or not a journal: {error}")

    # -- events --------------------------------------------------------------------------------------------

    def append(self, event: Event) -> None:
        """Write an event, inside a transaction."""
        self.db.execute(_INSERT, (*event, event.checksum()))
        if self._key is not None:
            self.db.execute("INSERT INTO signature VALUES (?, ?)", (event.seq, self._signature_of(event)))

    # -- signatures ----------------------------------------------------------------------------------------

    def require_writable(self) -> None:
        """Raise unless there is a key where events are signed."""
        if self.signed and self._key is None:
            text = f"key is missing: events of {self.path} are signed, give the key to write to it"
            raise ParameterError(text, code="missing-key", argument="key", path=self.path)

    def _require_key(self, db: sqlite3.Connection) -> None:
        """Find out whether events are signed, and raise unless the key, if there is one, is that of the last event."""
        query = "SELECT sql FROM sqlite_master WHERE name = 'signature'"
        self.signed = db.execute(query).fetchone() == (_SIGNATURES,)
        if self._key is None:
            return
        if not self.signed:
            text = f"key was given, but the events of {self.path} are not signed: start another journal with the key"
            raise ParameterError(text, code="not-signed", argument="key", path=self.path)
        self.require_signature(self.last())

    def signature(self, seq: int) -> str | None:
        """Return the signature of an event as hexadecimal digits; None if there is none."""
        code = self._stored_signature(seq) if self.signed else None
        return None if code is None else code.hex()

    def _stored_signature(self, seq: int) -> bytes | None:
        row = self.db.execute("SELECT code FROM signature WHERE seq = ?", (seq,)).fetchone()
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    def _signature_of(self, event: Event) -> bytes:
        """Return the HMAC of an event and of the signature of the one before it."""
        before = self._stored_signature(event.seq - 1) or b""
        return hmac.digest(self._key or b"", before + event.content(), "sha256")

    def require_signature(self, seq: int) -> None:
        """Raise unless an event has a signature and, if the key is known, that of the key."""
        found = self._stored_signature(seq)
        row = self.db.execute(f"SELECT {_COLUMNS} FROM event WHERE seq = ?", (seq,)).fetchone()
        if row is None:
            return
        expected = found if self._key is None else self._signature_of(self.checked(row))
        if found is None or expected is None or not hmac.compare_digest(found, expected):
            text = (
                f"event {seq} is not signed with this key: it or an event before it was changed, or the key is another"
            )
            raise self.damaged(text, code="wrong-signature", event=seq)

    # -- reading events ------------------------------------------------------------------------------------

    def last(self) -> int:
        """Return the number of the latest event."""
        seq = self.db.execute("SELECT max(seq) FROM event").fetchone()[0]
        if type(seq) is not int or not 0 <= seq < 2**62:
            raise self.damaged(f"its latest event has the number {seq!r}")
        return seq

    def decision(self, seq: int) -> Event | None:
        """Return the decision with this number."""
        row = self.db.execute(_DECISION, (seq,)).fetchone()
        return None if row is None else self.checked(row)

    def has_reward(self, seq: int) -> bool:
        """Return whether there is a reward of the decision with this number."""
        return self.db.execute("SELECT 1 FROM event WHERE decision = ?", (seq,)).fetchone() is not None

    def rows(self, after: int, limit: int, last: int) -> list[tuple[Any, ...]]:
        """Return at most ``limit`` events but rewards after number ``after`` and up to ``last``, not checked."""
        query = f"SELECT {_COLUMNS} FROM event WHERE seq > ? AND seq <= ? AND kind <> 'reward' ORDER BY seq LIMIT ?"
        return self.db.execute(query, (after, last, limit)).fetchall()

    def reward_rows(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return the rewards of the decisions ``first`` to ``last``, not checked."""
        query = f"SELECT {_COLUMNS} FROM event WHERE decision BETWEEN ? AND ?"
        return self.db.execute(query, (first, last)).fetchall()

    def require_rewards(self, indexed: int, last: int) -> None:
        """Raise unless ``indexed`` decisions, as counted by way of an index, have a reward up to event ``last``."""
        query = (
            "SELECT count(*) FROM event AS reward NOT INDEXED WHERE seq <= ? AND decision IS NOT NULL "
            "AND EXISTS (SELECT 1 FROM event WHERE event.seq = reward.decision)"
        )
        (total,) = self.db.execute(query, (last,)).fetchone()
        if total != indexed:
            raise self.damaged(f"{indexed} of its {total} rewards are in its index")

    def require_sound(self) -> None:
        """Raise if tables and indices contradict each other."""
        (answer,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        if answer != "ok":
            raise self.damaged(answer)

    def following(self, seq: int, last: int) -> list[Event]:
        """Return the events after number ``seq`` and up to ``last``, or the first of many; raise if one is missing."""
        query = f"SELECT {_COLUMNS} FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
        events = [self.checked(row) for row in self.db.execute(query, (seq, min(CHUNK, last - seq)))]
        numbers = [event.seq for event in events]
        if not events or numbers != list(range(seq + 1, seq + 1 + len(events))):
            missing = next((i for i, number in enumerate(numbers, seq + 1) if i != number), seq + 1 + len(events))
            text = f"event {missing} is missing: it was dropped or deleted"
            raise self.damaged(text, code="missing-event", event=missing)
        return events

    def changes(self) -> list[Event]:
        """Return the start and all changes of the bandit, in order."""
        query = f"SELECT {_COLUMNS} FROM event WHERE {_CHANGES} ORDER BY seq"
        return [self.checked(row) for row in self.db.execute(query)]

    def checked(self, row: tuple[Any, ...]) -> Event:
        """Return a row of the database as an event, or raise an error that names it."""
        event = Event(*row[:-1])
        wrong = [name for name, value in zip(Event._fields, event, strict=True) if type(value) not in _TYPES[name]]
        if wrong or event.checksum() != row[-1]:
            fault = f"{wrong[0]} of event {event.seq!r} is {getattr(event, wrong[0])!r}" if wrong else ""
            fault = fault or f"the checksum of event {event.seq!r} does not match"
            raise self.damaged(fault, event=event.seq)
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
            raise self.damaged(f"snapshot {seq} holds no bytes")
        return state

    # -- compaction ----------------------------------------------------------------------------------------

    def drop(self, before: float) -> int:
        """Delete decisions older than ``before`` and their rewards, inside a transaction; return how many.

        The latest event stays: the next event has the number after it.
        """
        db = self.db
        old = "SELECT seq FROM event WHERE kind = 'decision' AND time < ? AND seq < (SELECT max(seq) FROM event)"
        db.execute(f"DELETE FROM event WHERE decision IN ({old}) AND seq < (SELECT max(seq) FROM event)", (before,))
        return db.execute(f"DELETE FROM event WHERE seq IN ({old})", (before,)).rowcount

    def shrink(self) -> None:
        """Return the space of deleted events to the file system."""
        try:
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise self._translated(error) from error


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code of SQLite; None for an error of the module sqlite3 itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
