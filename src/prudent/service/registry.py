"""The registry of slots: one table in the store, so that a server starts from the address of the store alone.

In SQLite the store is a folder: ``slots.db`` is the registry, and every journal a file beside it. In PostgreSQL the
registry is the schema ``prudent_service``, and every journal a schema of its own. A change is one transaction: after
``kill -9`` it is there or not. The journal of a new slot is made first, under a random name; a server that is killed in
between leaves a journal that no slot refers to.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from ..bandits.bandit import LinearBandit
from ..bandits.shared import SharedLinearBandit
from ..errors import JournalError, ParameterError
from ..journal import Journal
from ..journal.store import patience_of

STATES = ("active", "paused", "archived")
_TABLE = (
    "CREATE TABLE IF NOT EXISTS slot (name TEXT PRIMARY KEY, state TEXT NOT NULL, journal TEXT NOT NULL, "
    "spec TEXT NOT NULL, version BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL)"
)
_BEAT = "CREATE TABLE IF NOT EXISTS heartbeat (server TEXT PRIMARY KEY, time DOUBLE PRECISION NOT NULL)"
_BEATS = 5.0  # seconds between two writes that show that the store can be written
_COLUMNS = "name, state, journal, spec, version, created, changed"


class SlotRow(NamedTuple):
    """A slot in the registry; ``version`` is the number of the change that wrote it."""

    name: str
    state: str
    journal: str
    spec: str  # JSON
    version: int
    created: float
    changed: float


class Registry:
    """Slots of a store.

    Parameters
    ----------
    store : str
        ``sqlite:FOLDER`` or ``postgresql://...``.
    synchronous : {"FULL", "NORMAL"}, default="FULL"
        Of the journals.
    timeout : float, default=5
        Seconds to wait for the store.
    """

    def __init__(self, store: str, synchronous: str = "FULL", timeout: float = 5.0) -> None:
        self._synchronous, self._timeout = synchronous, timeout
        self._lock = threading.Lock()
        self._connection: Any = None
        if store.startswith("sqlite:"):
            self.folder: str | None = os.path.abspath(store.removeprefix("sqlite:"))
            if os.path.isfile(self.folder):
                text = f"store {self.folder} is a file; give a folder, which holds a journal for each slot"
                raise ParameterError(text, code="not-a-folder", argument="store", value=store)
            os.makedirs(self.folder, exist_ok=True)
            self._address = os.path.join(self.folder, "slots.db")
        elif store.startswith(("postgresql://", "postgres://")):
            self.folder, self._address = None, store
        else:
            text = f"store must be sqlite:FOLDER or postgresql://..., got {store.partition('@')[2] or store!r}"
            raise ParameterError(text, code="store-address", argument="store")
        self._server, self._beat = secrets.token_hex(8), 0.0
        self._do(lambda run: (run(_TABLE), run(_BEAT)), create=True)

    # -- queries -------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[Any], Any], create: bool = False) -> Any:
        """Return what ``work`` returns in a transaction; it is given a function that runs SQL."""
        with self._lock:
            return self._in_sqlite(work) if self.folder is not None else self._in_postgres(work, create)

    def _in_sqlite(self, work: Callable[[Any], Any]) -> Any:
        try:
            with closing(sqlite3.connect(self._address, self._timeout, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    result = work(lambda sql, *values: db.execute(sql, values).fetchall())
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
                return result
        except sqlite3.Error as error:
            text = f"{self._address}: the registry of slots cannot be used: {error}"
            raise JournalError(text, code="registry-away", path=self._address) from error

    def _in_postgres(self, work: Callable[[Any], Any], create: bool) -> Any:
        try:
            import psycopg
        except ImportError:
            text = "a store in PostgreSQL needs psycopg: pip install prudent[postgres]"
            raise ParameterError(text, code="missing-package", argument="store") from None

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = self._connection.execute(sql.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []

        try:
            if self._connection is None or self._connection.closed:
                options: Any = patience_of(self._address, self._timeout)
                self._connection = psycopg.connect(self._address, application_name="prudent", **options)
            with self._connection.transaction():
                run("SELECT pg_advisory_xact_lock(hashtext('prudent_service'))")
                if create:
                    run("CREATE SCHEMA IF NOT EXISTS prudent_service")
                run("SET LOCAL search_path TO prudent_service")
                return work(run)
        except psycopg.Error as error:
            if self._connection is not None:
                self._connection.close()
            text = f"the registry of slots cannot be used: {str(error).strip().partition(chr(10))[0]}"
            raise JournalError(text, code="registry-away") from error

    def transact(self, work: Callable[[Any], Any]) -> Any:
        """Return what ``work`` returns in one transaction of the registry; it is given a function that runs SQL."""
        return self._do(work)

    def slots(self) -> dict[str, SlotRow]:
        """Return all slots by name."""
        rows = self._do(lambda run: run(f"SELECT {_COLUMNS} FROM slot ORDER BY name"))
        return {row[0]: SlotRow(*row) for row in rows}

    def require_writable(self) -> None:
        """Raise unless the store can be written; it writes the time of this server, every few seconds."""
        now = time.time()
        if 0.0 <= now - self._beat < _BEATS:
            return

        def work(run: Any) -> None:
            run("DELETE FROM heartbeat WHERE server = ? OR time < ?", self._server, now - 86400.0)
            run("INSERT INTO heartbeat (server, time) VALUES (?, ?)", self._server, now)

        self._beat = 0.0
        self._do(work)
        self._beat = now

    def put(self, name: str, state: str, journal: str, spec: str, expected: int | None) -> SlotRow | None:
        """Write a slot if its version is still ``expected`` (None: there is none); return None if it is not."""
        now = time.time()

        def work(run: Any) -> SlotRow | None:
            found = run(f"SELECT {_COLUMNS} FROM slot WHERE name = ?", name)
            if (found[0][4] if found else None) != expected:
                return None
            ((last,),) = run("SELECT coalesce(max(version), 0) FROM slot")
            created = found[0][5] if found else now
            row = SlotRow(name, state, journal, spec, last + 1, created, now)
            run("DELETE FROM slot WHERE name = ?", name)
            run(f"INSERT INTO slot ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
            return row

        return self._do(work)

    # -- journals ------------------------------------------------------------------------------------------

    def new_name(self) -> str:
        """Return a name for a new journal."""
        return f"slot_{secrets.token_hex(8)}"

    def journal(self, name: str, bandit: LinearBandit | SharedLinearBandit | None = None, **options: Any) -> Journal:
        """Open the journal of a slot, or start it with a bandit."""
        options |= {"synchronous": self._synchronous, "timeout": self._timeout}
        if self.folder is not None:
            return Journal(os.path.join(self.folder, f"{name}.db"), bandit, **options)
        return Journal(self._address, bandit, name=name, **options)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
