"""A store in PostgreSQL, for processes of many machines. It needs psycopg 3 (``pip install prudent[postgres]``).

The tables of a journal are in a schema of their own, so one database holds many journals. Who appends to the log takes
an advisory lock until its commit: the order of numbers is that in which others see them. Decisions take no lock.
Replicas LISTEN on a channel; a commit that appends to the log NOTIFYs it. A server that is away or restarts is tried
again until the time to wait is over. Writing again is safe: decisions have numbers of their process, rewards exist
once, and the entry of a reward says who wrote it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import Any

from ...errors import ParameterError, PrudentError
from .base import CHUNK, Job, Read, Store, Turn
from .rows import Entry, Place, Report, Taken
from .tables import TABLES

_TYPES = {
    "nr INTEGER PRIMARY KEY": "nr bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "INTEGER": "bigint",
    "REAL": "double precision",
    "BLOB": "bytea",
}
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_ROWS = 256  # of one statement, at most
_POLL = 1.0  # seconds after which a replica looks even if it was told nothing
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_FIRST = 5.0  # seconds in which a server may start whose address was never tried
_WRONG = ("authentication", "does not exist", "translate host", "pg_hba", "invalid")  # addresses that stay wrong
_PAUSE = 0.05  # seconds between two tries to reach a server


class PostgresStore(Store):
    """A journal in a schema of a PostgreSQL database.

    Parameters
    ----------
    address : str
        Address of the database, ``postgresql://...``.
    name : str
        Name of the journal.
    synchronous : {"FULL", "NORMAL"}
        Whether a commit waits for the disk of the server (``synchronous_commit``).
    timeout : float
        Seconds to wait for other writers, and for a server that is away.
    key : bytes, optional
        Secret that signs all rows.
    """

    def __init__(self, address: str, name: str, synchronous: str, timeout: float, key: bytes | None = None) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            text = f"name must be lower-case letters, digits and _, at most 41, got {name!r}"
            raise ParameterError(text, code="wrong-type", argument="name", value=name)
        try:
            self._psycopg: Any = import_module("psycopg")
        except ImportError:
            text = "path is that of a PostgreSQL database, which needs psycopg: pip install prudent[postgres]"
            raise ParameterError(text, code="missing-package", argument="path", value="psycopg") from None
        shown = re.sub(r"(://[^/@:]*):[^@/]*@", r"\1@", address)  # without the password
        super().__init__(f"{shown} ({name})", self._psycopg.Error, timeout, key)
        self._address, self._schema, self._channel = address, f"prudent_{name}", f"prudent_{name}"
        self._wait = "on" if synchronous == "FULL" else "off"
        self._told, self._looked = True, 0.0
        self._single = False  # one statement writes all that is to be committed, by who has the turn
        self._inserter: Any = None

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, create: bool) -> bool:
        """Connect, and return whether there is a journal; see ``Store.open``."""
        found = self._told_by("SELECT to_regnamespace(%s)", self._schema)[0][0] is not None
        if not found and not create:
            raise FileNotFoundError(f"there is no journal {self.path}, and no bandit to start one")
        if found:
            rows = self._told_by(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", self._schema
            )
            tables = {name for name, sql in TABLES.items() if sql.startswith("CREATE TABLE")}
            missing = tables - {name for (name,) in rows}
            if missing:
                raise self.damaged(f"its {sorted(missing)[0]!r} is not that of a journal")
            self.looked(self.read_settings)
        return found

    def _told_by(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, which is asked again if the connection is lost."""
        with self._translating():
            found: list[tuple[Any, ...]] = self._retrying(lambda: self._reader.execute(query, values).fetchall())
        return found

    def _connected(self, listen: bool) -> Any:
        """Return a new connection; wait for a server that starts."""
        began = time.monotonic()
        deadline = began + self.timeout
        while True:
            try:
                return self._new_connection(listen)
            except self._psycopg.OperationalError as error:
                known = self._reader is not None or self.settings  # the address is right
                wait = deadline if known else min(deadline, began + _FIRST)
                if time.monotonic() > wait or (not known and any(text in str(error) for text in _WRONG)):
                    raise
            time.sleep(_PAUSE)

    def _new_connection(self, listen: bool) -> Any:
        options: Any = patience_of(self._address, self.timeout)
        connection = self._psycopg.connect(self._address, autocommit=True, application_name="prudent", **options)
        try:
            connection.execute(f"SET search_path TO {self._schema}")
            connection.execute(f"SET lock_timeout TO {int(1000 * self.timeout)}")
            connection.execute(f"SET synchronous_commit TO {self._wait}")
            if listen:
                connection.execute(f"LISTEN {self._channel}")
                self._told = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _exists(self) -> bool:
        self.fetch("SELECT pg_advisory_xact_lock(hashtext(?))", self._schema)
        return self.fetch("SELECT to_regnamespace(?)", self._schema)[0][0] is not None

    def _create(self, names: Sequence[str]) -> None:
        self.execute(f"CREATE SCHEMA {self._schema}")
        for name in names:
            sql = TABLES[name]
            for ours, theirs in _TYPES.items():
                sql = sql.replace(ours, theirs)
            self.execute(sql)

    # -- transactions and errors ---------------------------------------------------------------------------

    def _begin_reading(self) -> Any:
        self._retrying(lambda: self._reader.execute(_BEGIN))
        return self._reader

    def _retrying(self, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns with the connection that reads; connect again if that is lost."""
        since = time.monotonic()
        while True:
            try:
                if self._reader is None or self._reader.closed:
                    self._reader = self._connected(listen=True)
                return work()
            except self._psycopg.OperationalError:
                if self._reader is None or not self._reader.closed or time.monotonic() - since > self.timeout:
                    raise
            time.sleep(_PAUSE)

    def looked(self, work: Callable[[], Read]) -> Read:
        """Return what ``work`` reads; see ``Store.looked``. It is done again if the server went away meanwhile."""

        def once() -> Read:
            self._reader.execute(_BEGIN)
            try:
                return work()
            finally:
                with suppress(self._psycopg.Error):
                    self._reader.execute("ROLLBACK")

        return self._alone(work, once)

    def following(self, seq: int, limit: int = CHUNK) -> list[tuple[Entry, Taken | None]]:
        """Return the entries after number ``seq``; see ``Store.following``. One query needs no transaction."""

        def read() -> list[tuple[Entry, Taken | None]]:
            return super(PostgresStore, self).following(seq, limit)

        return self._alone(read, read)

    def _alone(self, within: Callable[[], Read], once: Callable[[], Read]) -> Read:
        """Return what ``within`` reads in the transaction that is open, or ``once``, as often as needed, if none is."""
        if self._inside:
            return within()
        with self._lock, self._translating():
            self._local.depth = 1
            try:
                found: Read = self._retrying(once)
            finally:
                self._local.depth = 0
        return found

    @contextmanager
    def _writing(self, ordered: bool) -> Iterator[None]:
        with self._translating():
            if self._writer is None or self._writer.closed:
                self._writer = self._connected(listen=False)
            self._local.writing = True
            try:
                if self._single:
                    yield
                    return
                with self._writer.transaction():
                    if ordered:
                        self._writer.execute("SELECT pg_advisory_xact_lock('entry'::regclass::oid::bigint)")
                    yield
            finally:
                self._local.writing = False

    def _commit(self, jobs: Sequence[Job], signatures: dict[int, bytes]) -> None:
        with self._translating():
            if self._writer is None or self._writer.closed:
                self._writer = self._connected(listen=False)
            self._single = self._fit_one_statement(jobs)
            try:
                if self._single:
                    super()._commit(jobs, signatures)
                    return
            finally:
                self._single = False
            with self._writer.pipeline():  # a round trip where something is read, and one for the rest
                super()._commit(jobs, signatures)

    def _fit_one_statement(self, jobs: Sequence[Job]) -> bool:
        """Return whether all that jobs write are decisions of one statement, which is a transaction by itself."""
        rows, kinds = 0, set()
        for job in jobs:
            if job.plan is not None or job.snapshot is not None or job.erased:
                return False
            for new in job.decisions:
                row, rows = new.row, rows + 1
                if row.key is not None or new.note is not None or new.contents or row.stream not in self._streams:
                    return False
                kinds.add(tuple(map(type, row)))  # a statement is prepared for one kind of rows
        return 0 < rows <= _ROWS and len(kinds) == 1

    def _turn(self, wanted: Sequence[Place]) -> Turn:
        """Return the turn of a transaction that is ordered; see ``Store``. All queries go in one round trip."""
        if not wanted:
            return super()._turn(wanted)
        streams, numbers = [place[0] for place in wanted], [place[1] for place in wanted]
        asked = "(SELECT DISTINCT * FROM unnest(%s::bigint[], %s::bigint[]) AS w (stream, number)) AS w"
        kinds: list[tuple[type[Any], str]] = [(Taken, "decision"), (Entry, "entry"), (Report, "report")]
        found = []
        end = self._writer.execute("SELECT seq, signature FROM entry ORDER BY seq DESC LIMIT 1")
        for kind, table in kinds:
            names = ", ".join(f"t.{name}" for name in (*kind._fields, "checksum"))
            query = f"SELECT {names} FROM {asked} JOIN {table} AS t ON t.stream = w.stream AND t.number = w.number"
            found.append(self._writer.execute(query, [streams, numbers]))
        rows = end.fetchall()
        if not rows:
            raise self.damaged("it holds no entries")
        turn = Turn(self, self._number(rows[0][0]), bytes(rows[0][1] or b""))
        decisions, entries, reports = (
            [self.checked(kind, row) for row in cursor.fetchall()]
            for (kind, _), cursor in zip(kinds, found, strict=True)
        )
        turn.decisions = {row[:2]: row for row in decisions}
        turn.rewards = {(row.stream, row.number, row.place): row for row in entries}
        turn.reports = {row[:3]: row for row in reports}
        return turn

    def retried(self, error: Exception, since: float) -> bool:
        """Return whether a write is tried again: the connection was lost, and there is time left; see ``Store``."""
        if getattr(error, "code", "") != "store-away" or time.monotonic() - since > self.timeout:
            return False
        time.sleep(_PAUSE)
        return True

    def _translated(self, error: Any) -> PrudentError:
        """Return the error of prudent for one of psycopg."""
        state = getattr(error, "sqlstate", None) or ""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if state in ("55P03", "57014"):
            return self.failed(
                f"another process held the lock for more than {self.timeout:g} s; try again", "lock-timeout"
            )
        if state.startswith("53"):
            code = "disk-full" if state == "53100" else "store-full"
            return self.failed(f"the server has no room left ({text}); acknowledged events are kept", code)
        if state in ("42501", "28000", "28P01", "25006"):
            return self.failed(f"the server refuses it: {text}", "not-writable")
        lost = any(each is not None and each.closed for each in (self._reader, self._writer))
        kinds = (self._psycopg.OperationalError, self._psycopg.InterfaceError)
        if lost or isinstance(error, kinds) or state[:2] in ("57", "08") or state == "40001":
            return self.failed(f"the server is away ({text}); it is safe to try again", "store-away")
        return self.damaged(f"it is damaged, or not a journal: {text}")

    # -- queries -------------------------------------------------------------------------------------------

    def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; see ``Store.fetch``."""
        rows: list[tuple[Any, ...]] = self._db().execute(query.replace("?", "%s"), values).fetchall()
        return rows

    def execute(self, statement: str, *values: Any) -> int:
        """Execute a statement; see ``Store.execute``."""
        return int(self._db().execute(statement.replace("?", "%s"), values or None).rowcount)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement for many rows; see ``Store.execute_many``."""
        if not rows:
            return 0
        if self._single:
            return self._insert_at_once(statement, rows)
        with self._db().cursor() as cursor:
            if len(rows) == 1:
                cursor.execute(statement.replace("?", "%s"), rows[0])
            else:
                cursor.executemany(statement.replace("?", "%s"), rows)
            return int(cursor.rowcount) if cursor.rowcount >= 0 else 0

    def _insert_at_once(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows by one prepared statement, of which there are few: the last row fills it up, to no effect."""
        if self._inserter is None or self._inserter.connection is not self._writer:
            numbers, strings = self._psycopg.types.numeric, self._psycopg.types.string
            self._inserter = self._psycopg.RawCursor(self._writer)
            for kind, dumper in (
                (int, numbers.Int8BinaryDumper),
                (float, numbers.FloatBinaryDumper),
                (str, strings.StrBinaryDumper),
                (bytes, strings.BytesBinaryDumper),
            ):
                self._inserter.adapters.register_dumper(kind, dumper)
        half = 1 << max(0, (len(rows) - 1).bit_length() - 1)
        size = next(size for size in (half, half * 3 // 2, 2 * half) if size >= len(rows))
        values = list(chain.from_iterable(rows)) + list(rows[-1]) * (size - len(rows))
        done = self._inserter.execute(_of_rows(statement, size, len(rows[0])), values, prepare=True)
        return int(done.rowcount)

    def behind(self, seq: int) -> bool:
        """Return whether the log may have entries after number ``seq``; see ``Store.behind``."""
        with self._lock, self._translating():
            if self._reader is None or self._reader.closed:
                return True
            connection = self._reader.pgconn
            try:
                connection.consume_input()
            except self._psycopg.OperationalError:  # the server is away: go on with what is known
                self._reader.close()
                return False
            while connection.notifies() is not None:
                self._told = True
            now = time.monotonic()
            if self._told or now - self._looked > _POLL:
                self._told, self._looked = False, now
                return True
        return False

    def tell(self) -> None:
        """Notify the replicas of other processes."""
        self.execute(f"NOTIFY {self._channel}")

    def require_sound(self) -> None:
        """Do nothing: the server keeps tables and indices in step."""

    def shrink(self) -> None:
        """Do nothing: the server returns space by itself."""


@lru_cache(64)
def _of_rows(statement: str, count: int, width: int) -> str:
    """Return a statement that inserts one row as one that inserts several."""
    head, _, rest = statement.partition(" VALUES (")
    marks = [f"({', '.join(f'${row * width + i + 1}' for i in range(width))})" for row in range(count)]
    return f"{head} VALUES {', '.join(marks)}{rest.partition(')')[2]}"


def patience_of(address: str, timeout: float) -> dict[str, int]:
    """Return options of a connection that notice within about ``timeout`` seconds that a server is gone."""
    wait = max(2, int(timeout))
    options = {
        "connect_timeout": wait,
        "keepalives_idle": wait,
        "keepalives_interval": max(1, wait // 3),
        "keepalives_count": 3,
        "tcp_user_timeout": 1000 * wait,  # milliseconds
    }
    return {name: value for name, value in options.items() if name not in address}
