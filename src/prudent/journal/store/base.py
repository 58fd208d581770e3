"""The store of a journal: the interface, and what members that speak SQL share."""

from __future__ import annotations

import hmac
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from zlib import crc32

from ...errors import ParameterError
from .connections import Connections
from .rows import Entry, Place, Report, Row, Taken, checksum_of, content_of, fault_of
from .tables import CHANGES, TABLES, VERSION

Read = TypeVar("Read")
CHUNK = 2000  # rows read at a time
_SNAPSHOTS = 64  # kept at most, the first and the last two always
_DECISION = ", ".join(Taken._fields)
_ENTRY = ", ".join(Entry._fields)
_REPORT = ", ".join(Report._fields)
_PLACE = "stream = ? AND number = ? AND place = ?"
_PUT_DECISION = (
    f"INSERT INTO decision ({_DECISION}, checksum, signature) VALUES ({', '.join('?' * (len(Taken._fields) + 2))}) "
    "ON CONFLICT DO NOTHING"
)
_PUT_ENTRY = f"INSERT INTO entry ({_ENTRY}, checksum, signature) VALUES ({', '.join('?' * (len(Entry._fields) + 2))})"
_WANTED = (  # a decision and the reward of one of its places
    f"SELECT {', '.join(f'd.{name}' for name in (*Taken._fields, 'checksum'))}, "
    f"{', '.join(f'e.{name}' for name in (*Entry._fields, 'checksum'))} FROM decision AS d LEFT JOIN entry AS e "
    "ON e.stream = d.stream AND e.number = d.number AND e.place = ? WHERE d.stream = ? AND d.number = ?"
)
_KEYS = 500  # keys that are looked up in one query


@dataclass(slots=True)
class New:
    """A decision to be written."""

    row: Taken
    note: str | None = None  # text of the note
    contents: dict[bytes, bytes] = field(default_factory=dict)  # by hash, what the row refers to
    earlier: Taken | None = None  # the decision that already has its key


@dataclass(slots=True)
class Job:
    """What one call writes: decisions, or entries that ``plan`` appends in its turn; the result is what it returns."""

    decisions: Sequence[New] = ()
    plan: Callable[[Turn], Any] | None = None
    wanted: Sequence[Place] = ()  # decisions that the plan looks at
    snapshot: tuple[int, bytes] | None = None  # number of an entry and the state after it
    erased: Sequence[tuple[int, int]] = ()  # decisions whose notes are erased
    result: Any = None
    error: BaseException | None = None
    done: bool = False


class Turn:
    """The turn of a process to append to the log: what it may look at, and the entries that it appends."""

    def __init__(self, store: Store, last: int, signature: bytes) -> None:
        self._store, self._last, self._signature = store, last, signature
        self.decisions: dict[tuple[int, int], Taken] = {}
        self.rewards: dict[Place, Entry] = {}
        self.reports: dict[Place, Report] = {}
        self.entries: list[Entry] = []
        self.signatures: list[bytes | None] = []
        self.held: list[Report] = []

    @property
    def last(self) -> int:
        """Number of the last entry."""
        return self._last

    def append(self, kind: str, writer: int, at: float, **fields: Any) -> Entry:
        """Append an entry and return it."""
        self._last += 1
        entry = Entry(self._last, at, kind, writer, **fields)
        self._signature = self._store.signed_content(entry, self._signature) or b""
        self.entries.append(entry)
        self.signatures.append(self._signature or None)
        if entry.kind == "reward" and entry.stream is not None:
            self.rewards[entry.stream, entry.number or 0, entry.place or 0] = entry
        return entry

    def report(self, report: Report) -> None:
        """Keep a reward until the window of its decision closes, in place of one that was reported before."""
        self.reports[report[:3]] = report
        self.held.append(report)

    def open_before(self, before: float, after: float, limit: int) -> list[tuple[Taken, int]]:
        """Return decisions of a time without a learned reward, with their positions; see ``Store.open_rows``."""
        return self._store.open_rows(before, after, limit)

    def held_before(self, before: float, after: float) -> dict[Place, Report]:
        """Return the rewards that are held for decisions of a time; see ``Store.held_rows``."""
        return self._store.held_rows(before, after)


class Store(Connections):
    """Where a journal keeps its decisions and its log. Threads may share a store.

    The module ``prudent.journal.store`` explains the tables. Members are ``SqliteStore`` and ``PostgresStore``: they
    connect, open transactions and translate errors. All other work is done here, in SQL that both understand.

    Parameters
    ----------
    path : str
        What errors call it.
    failures : type of Exception
        Base class of the errors of the driver of the database.
    timeout : float
        Seconds to wait for other writers, or for a server that is away.
    key : bytes or None
        Secret that signs all rows.
    """

    def __init__(self, path: str, failures: type[Exception], timeout: float, key: bytes | None) -> None:
        super().__init__(path, failures)
        self.timeout, self._key = timeout, key
        self.signed = False
        self.settings: dict[str, Any] = {}
        self._chain: dict[int, bytes] = {}  # signatures of the latest decisions of streams of this process
        self._streams: set[int] = set()  # that are registered

    # -- what members do -----------------------------------------------------------------------------------

    @abstractmethod
    def open(self, create: bool) -> bool:
        """Connect, and return whether there is a journal; with ``create``, its place may be empty."""

    @abstractmethod
    def _writing(self, ordered: bool) -> AbstractContextManager[None]:
        """Open a transaction that writes all or nothing; with ``ordered``, as the only one that appends to the log."""

    @abstractmethod
    def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, of the transaction that is open or by itself."""

    @abstractmethod
    def execute(self, statement: str, *values: Any) -> int:
        """Execute a statement of a transaction that writes; return the number of rows."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement for many rows; return how many rows it changed."""

    @abstractmethod
    def behind(self, seq: int) -> bool:
        """Return whether the log may have entries after number ``seq``; it is asked before every decision."""

    @abstractmethod
    def tell(self) -> None:
        """Tell the other processes, with the transaction that writes, that the log has grown."""

    @abstractmethod
    def require_sound(self) -> None:
        """Raise if tables and indices contradict each other."""

    @abstractmethod
    def shrink(self) -> None:
        """Return unused space."""

    def retried(self, error: Exception, since: float) -> bool:
        """Return whether a write that failed is tried again; nothing of it was done, or it can be done again."""
        return False

    def looked(self, work: Callable[[], Read]) -> Read:
        """Return what ``work`` reads in one transaction; members may do it again if the connection was lost."""
        with self.reading():
            return work()

    # -- a new journal -------------------------------------------------------------------------------------

    def start(self, first: Entry, state: bytes, settings: dict[str, Any]) -> None:
        """Make an empty store a journal; do nothing if another process has."""
        with self._writing(ordered=False):
            if self._exists():
                return
            self._create([name for name in TABLES if name != "decision_time" or settings["window"] is not None])
            self.execute("INSERT INTO journal (version) VALUES (?)", VERSION)
            self.signed = self._key is not None
            turn = Turn(self, -1, b"")
            turn.append("start", first.writer, first.time, arms=first.arms, options=json.dumps(settings))
            self._flush(turn)
            self._put_snapshot(0, state)

    @abstractmethod
    def _exists(self) -> bool:
        """Return whether the tables are there."""

    @abstractmethod
    def _create(self, names: Sequence[str]) -> None:
        """Make tables and indices."""

    def read_settings(self) -> None:
        """Read what the journal was started with, which the first entry holds, and check the key."""
        versions = self.fetch("SELECT version FROM journal")
        self._require_version(versions[0][0] if len(versions) == 1 else None)
        rows = self.fetch(f"SELECT {_ENTRY}, checksum, signature FROM entry WHERE seq = 0")
        if not rows:
            raise self.damaged("its first entry is missing", code="missing-event", event=0)
        first, self.signed = self.checked(Entry, rows[0]), rows[0][-1] is not None
        if self._key is not None and not self.signed:
            text = f"key was given, but the events of {self.path} are not signed: start another journal with the key"
            raise ParameterError(text, code="not-signed", argument="key", path=self.path)
        if self._key is not None:
            self.require_signatures(-1, 0)
            self.require_signatures(self.last() - 1, 1)
        try:
            self.settings = dict(json.loads(first.options or ""))
        except (TypeError, ValueError, RecursionError) as error:
            raise self.damaged(f"its settings cannot be read: {error!r}") from error

    def _require_version(self, version: Any) -> None:
        if version != VERSION:
            text = f"it is a journal of version {version}, this prudent reads version {VERSION}"
            raise self.damaged(text, code="wrong-version", value=version, expected=VERSION)

    def require_writable(self) -> None:
        """Raise unless there is a key where rows are signed."""
        if self.signed and self._key is None:
            text = f"key is missing: events of {self.path} are signed, give the key to write to it"
            raise ParameterError(text, code="missing-key", argument="key", path=self.path)

    # -- writing -------------------------------------------------------------------------------------------

    def commit(self, jobs: Sequence[Job]) -> None:
        """Write what jobs ask for, in one transaction: decisions first, then entries of the log in their order."""
        since = time.monotonic()
        while True:
            chain = dict(self._chain) if self._chain else {}
            try:
                self._commit(jobs, chain)
                self._chain = chain
                return
            except KeyTakenError:
                continue
            except Exception as error:
                if not self.retried(error, since):
                    raise

    def _commit(self, jobs: Sequence[Job], chain: dict[int, bytes]) -> None:
        new = [each for job in jobs for each in job.decisions]
        ordered = [job for job in jobs if job.plan is not None]
        with self._writing(ordered=bool(ordered)):
            if new:
                self._insert(new, chain)
            for job in jobs:
                if job.snapshot is not None:
                    self._write_snapshot(*job.snapshot)
                if job.erased:
                    statement = "UPDATE note SET text = NULL, erased = ? WHERE stream = ? AND number = ?"
                    self.execute_many(statement, [(time.time(), *place) for place in job.erased])
            if ordered:
                turn = self._turn(sorted({place for job in ordered for place in job.wanted}))
                for job in ordered:
                    job.result = job.plan(turn) if job.plan is not None else None
                self._flush(turn)
        self._streams.update([each.row.stream for each in new])

    def _insert(self, new: list[New], chain: dict[int, bytes]) -> None:
        for stream in {each.row.stream for each in new} - self._streams:
            self._register(stream)
        keyed = [each for each in new if each.row.key is not None]
        if keyed:
            keys = self._by_keys([each.row.key for each in keyed])
            for each in keyed:  # of this commit the first decision with a key is the one that is written
                first = keys.setdefault(each.row.key, each.row)
                each.earlier = first if first[:2] != each.row[:2] else None
        rows, contents, notes = [], {}, []
        fresh = [each for each in new if each.earlier is None] if keyed else new
        for each in fresh:
            row = each.row
            content = content_of(row)
            signature = self._signed(content, chain.get(row.stream, b""))
            if signature is not None:
                chain[row.stream] = signature
            rows.append((*row, crc32(content), signature))
            contents.update(each.contents)
            if each.note is not None:
                notes.append((row.stream, row.number, each.note))
        if contents:
            statement = "INSERT INTO content (hash, data) VALUES (?, ?) ON CONFLICT DO NOTHING"
            self.execute_many(statement, list(contents.items()))
        written = self.execute_many(_PUT_DECISION, rows)
        if notes:
            statement = "INSERT INTO note (stream, number, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            self.execute_many(statement, notes)
        if keyed and written < len(rows):  # another process may have been first, between the two queries
            wanted = {each.row.key: each.row[:2] for each in fresh if each.row.key is not None}
            found = self._by_keys(list(wanted))
            if any(key not in found or found[key][:2] != place for key, place in wanted.items()):
                raise KeyTakenError

    def _register(self, stream: int) -> None:
        """Note that a stream is in use; raise if another process has drawn the same number."""
        token = hmac.digest(stream.to_bytes(8, "little"), str(id(self)).encode(), "sha256")
        self.execute(
            "INSERT INTO stream (stream, time, token) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            *(stream, time.time(), token),
        )
        ((found,),) = self.fetch("SELECT token FROM stream WHERE stream = ?", stream)
        if bytes(found) != token:
            raise self.damaged(f"stream {stream:016x} is in use by another process: open the journal again")

    def _turn(self, wanted: Sequence[Place]) -> Turn:
        """Return the turn of a transaction that is ordered, with what it wants to look at."""
        turn = Turn(self, *self._end())
        size, held = len(Taken._fields) + 1, self.settings.get("window") is not None
        for at in wanted:
            for row in self.fetch(_WANTED, at[2], at[0], at[1]):
                if at[:2] not in turn.decisions:
                    turn.decisions[at[:2]] = self.checked(Taken, row)
                if row[size] is not None:
                    turn.rewards[at] = self.checked(Entry, row[size:])
            if held:
                for report in self._report_rows(_PLACE, *at):
                    turn.reports[at] = report
        return turn

    def _end(self) -> tuple[int, bytes]:
        """Return number and signature of the last entry."""
        rows = self.fetch("SELECT seq, signature FROM entry ORDER BY seq DESC LIMIT 1")
        if not rows:
            raise self.damaged("it holds no entries")
        return self._number(rows[0][0]), self._seal(rows[0][1])

    def _flush(self, turn: Turn) -> None:
        """Write the entries of a turn."""
        pairs = zip(turn.entries, turn.signatures, strict=True)
        rows = [(*entry, checksum_of(entry), signature) for entry, signature in pairs]
        if rows:
            self.execute_many(_PUT_ENTRY, rows)
        if turn.held:
            self.execute_many(
                f"INSERT INTO report ({_REPORT}, checksum) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (stream, number, place) DO UPDATE SET time = excluded.time, reward = excluded.reward, "
                "checksum = excluded.checksum",
                [(*report, self._mark(report)) for report in turn.held],
            )
        if rows or turn.held:
            self.tell()

    # -- signatures ----------------------------------------------------------------------------------------

    def signed_content(self, row: Taken | Entry, before: bytes) -> bytes | None:
        """Return the HMAC of a row and of the signature before it; None without a key."""
        return None if self._key is None else self._signed(content_of(row), before)

    def _signed(self, content: bytes, before: bytes) -> bytes | None:
        return None if self._key is None else hmac.digest(self._key, before + content, "sha256")

    def _mark(self, row: Row) -> int:
        """Return the checksum of a row; of a report, which becomes an entry later, part of an HMAC if one has a key."""
        if self._key is None or not isinstance(row, Report):
            return checksum_of(row)
        return int.from_bytes(hmac.digest(self._key, b"report" + content_of(row), "sha256")[:7], "little")

    def require_signatures(self, after: int, limit: int) -> None:
        """Raise unless entries have a signature and, if the key is known, that of the key."""
        rows = self.fetch(
            f"SELECT {_ENTRY}, checksum, signature FROM entry WHERE seq >= ? ORDER BY seq LIMIT ?", after, limit + 1
        )
        before, last = b"" if after < 0 else None, -1  # None: the entry before was dropped, and its signature with it
        for row in rows:
            found = self._seal(row[-1])
            if row[0] > after:
                if before is not None and row[0] != last + 1:
                    text = f"entry {last + 1} is missing: it was dropped or deleted"
                    raise self.damaged(text, code="missing-event", event=last + 1)
                known = self._key is not None and before is not None
                expected = self.signed_content(self.checked(Entry, row), before or b"") if known else found
                self._require_signature(found, expected, f"entry {row[0]}", event=row[0])
            before, last = found, row[0]

    def _seal(self, signature: Any) -> bytes:
        """Return a signature as it is in the store; nothing where there is none."""
        if not isinstance(signature, bytes | memoryview | None):
            raise self.damaged(f"a signature is {signature!r}"[:200])
        return bytes(signature or b"")

    def _require_signature(self, found: bytes, expected: bytes | None, what: str, **fields: Any) -> None:
        if not found or expected is None or not hmac.compare_digest(found, expected):
            text = f"{what} is not signed with this key: it or one before it was changed, or the key is another"
            raise self.damaged(text, code="wrong-signature", **fields)

    def require_signed_decisions(self) -> list[str]:
        """Raise unless all decisions are signed, each together with the one before it in its stream.

        Returns the ids of those before which others were dropped, so that their signatures cannot be checked.
        """
        unknown = []
        for (stream,) in self.fetch("SELECT DISTINCT stream FROM decision ORDER BY stream"):
            number, before, first = -(2**63), b"", True
            while rows := self.fetch(
                f"SELECT {_DECISION}, checksum, signature FROM decision WHERE stream = ? AND number > ? "
                "ORDER BY number LIMIT ?",
                *(stream, number, CHUNK),
            ):
                for row in rows:
                    taken, found = self.checked(Taken, row), self._seal(row[-1])
                    known = self._key is not None and not (first and row[1] > 1)  # what was dropped is not known
                    unknown += [] if known else [taken.id] * first
                    expected = self.signed_content(taken, before) if known else found
                    self._require_signature(found, expected, f"decision {taken.id}", id=taken.id)
                    number, before, first = row[1], found, False
        return unknown

    def signature(self) -> str | None:
        """Return the signature of the last entry as hexadecimal digits; None if there is none."""
        return (self._end()[1].hex() or None) if self.signed else None

    # -- reading -------------------------------------------------------------------------------------------

    def checked(self, kind: type[Any], row: Sequence[Any]) -> Any:
        """Return a row of the database as what it is, or raise an error that names it."""
        size = len(kind._fields)
        found = kind(*row[:size])
        sealed = kind is Report and self.signed  # which only the key can check
        fault = fault_of(found, checksum_of(found) if sealed else row[size])
        if sealed and not fault and self._key is not None and self._mark(found) != row[size]:
            fault = "it was not reported with this key"
        if not fault:
            return found
        if kind is Entry:
            raise self.damaged(f"entry {found.seq!r} is damaged: {fault}", event=found.seq)
        raise self.damaged(f"decision {found.number!r}-{found.stream!r} is damaged: {fault}", event=found.number)

    def _decision_rows(self, where: str, *values: Any) -> list[Taken]:
        rows = self.fetch(f"SELECT {_DECISION}, checksum FROM decision WHERE {where}", *values)
        return [self.checked(Taken, row) for row in rows]

    def _entry_rows(self, where: str, *values: Any) -> list[Entry]:
        return [
            self.checked(Entry, row)
            for row in self.fetch(f"SELECT {_ENTRY}, checksum FROM entry WHERE {where}", *values)
        ]

    def _report_rows(self, where: str, *values: Any) -> list[Report]:
        rows = self.fetch(f"SELECT {_REPORT}, checksum FROM report WHERE {where}", *values)
        return [self.checked(Report, row) for row in rows]

    def _by_keys(self, keys: Sequence[str | None]) -> dict[str | None, Taken]:
        """Return the decisions of requests, by key."""
        found: dict[str | None, Taken] = {}
        for i in range(0, len(keys), _KEYS):
            some = keys[i : i + _KEYS]
            found |= {row.key: row for row in self._decision_rows(f"key IN ({', '.join('?' * len(some))})", *some)}
        return found

    def by_key(self, key: str) -> Taken | None:
        """Return the decision of a request."""
        return self.looked(lambda: self._by_keys([key]).get(key))

    def decision(self, stream: int, number: int) -> Taken | None:
        """Return a decision by stream and number."""
        return self.looked(lambda: next(iter(self._decision_rows("stream = ? AND number = ?", stream, number)), None))

    def _number(self, seq: Any) -> int:
        if type(seq) is not int or not 0 <= seq < 2**62:
            raise self.damaged(f"its latest entry has the number {seq!r}")
        return seq

    def last(self) -> int:
        """Return the number of the last entry."""
        return self.looked(lambda: self._end()[0])

    def following(self, seq: int, limit: int = CHUNK) -> list[tuple[Entry, Taken | None]]:
        """Return the entries after number ``seq``, those of rewards with their decisions; raise if one is missing."""
        names = ", ".join(f"e.{name}" for name in (*Entry._fields, "checksum"))
        names += ", " + ", ".join(f"d.{name}" for name in (*Taken._fields, "checksum"))
        query = (
            f"SELECT {names} FROM entry AS e LEFT JOIN decision AS d ON d.stream = e.stream AND d.number = e.number "
            "WHERE e.seq > ? ORDER BY e.seq LIMIT ?"
        )
        with self.reading():
            rows, found = self.fetch(query, seq, limit), []
        size = len(Entry._fields) + 1
        for place, row in enumerate(rows, seq + 1):
            entry = self.checked(Entry, row[:size])
            if entry.seq != place:
                text = f"entry {place} is missing: it was dropped or deleted"
                raise self.damaged(text, code="missing-event", event=place)
            found.append((entry, None if row[size] is None else self.checked(Taken, row[size:])))
        return found

    def raw_changes(self) -> list[tuple[Any, ...]]:
        """Return the start and all changes of the bandit, in order, not checked."""
        return self.looked(lambda: self.fetch(f"SELECT {_ENTRY}, checksum FROM entry WHERE {CHANGES} ORDER BY seq"))

    def changes(self) -> list[Entry]:
        """Return the start and all changes of the bandit, in order."""
        return [self.checked(Entry, row) for row in self.raw_changes()]

    def entry_at(self, seq: int) -> Entry | None:
        """Return an entry."""
        return self.looked(lambda: next(iter(self._entry_rows("seq = ?", seq)), None))

    def last_before(self, when: float) -> int:
        """Return the number of the last entry of a time or before it."""
        return self.looked(lambda: int(self.fetch("SELECT max(seq) FROM entry WHERE time <= ?", when)[0][0] or 0))

    def content(self, name: bytes) -> bytes | None:
        """Return what has a hash."""
        rows = self.looked(lambda: self.fetch("SELECT data FROM content WHERE hash = ?", name))
        return bytes(rows[0][0]) if rows else None

    def raw_decisions(self, after: int, limit: int, since: float | None) -> list[tuple[Any, ...]]:
        """Return decisions after a row number, not checked: the number, then the fields and the checksum."""
        names, bound = f"nr, {_DECISION}, checksum", "" if since is None else " AND time >= ?"
        values = (after, limit) if since is None else (after, since, limit)
        return self.fetch(f"SELECT {names} FROM decision WHERE nr > ?{bound} ORDER BY nr LIMIT ?", *values)

    def raw_rewards(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return the rewards of the decisions with these row numbers, not checked."""
        names = ", ".join(f"e.{name}" for name in (*Entry._fields, "checksum"))
        join = "FROM decision AS d JOIN entry AS e ON e.stream = d.stream AND e.number = d.number"
        return self.fetch(f"SELECT {names} {join} WHERE d.nr BETWEEN ? AND ?", first, last)

    def notes(self, first: int, last: int) -> dict[tuple[int, int], str | None]:
        """Return the notes of the decisions with these row numbers; None for one that was erased."""
        query = "FROM decision AS d JOIN note AS n ON n.stream = d.stream AND n.number = d.number"
        rows = self.fetch(f"SELECT n.stream, n.number, n.text {query} WHERE d.nr BETWEEN ? AND ?", first, last)
        return {(stream, number): text for stream, number, text in rows}

    def note(self, stream: int, number: int) -> tuple[str | None, float | None] | None:
        """Return the text of a note and when it was erased; None if there is none."""
        rows = self.fetch("SELECT text, erased FROM note WHERE stream = ? AND number = ?", stream, number)
        return rows[0] if rows else None

    def last_row(self) -> int:
        """Return the row number of the latest decision."""
        return int(self.fetch("SELECT max(nr) FROM decision")[0][0] or 0)

    def by_state(self) -> list[tuple[int, int]]:
        """Return the row numbers of all decisions with the number of entries they knew, in the order of the latter."""
        return self.fetch("SELECT nr, seq FROM decision ORDER BY seq, nr")

    def rows_of(self, numbers: Sequence[int]) -> list[Taken]:
        """Return decisions by row number."""
        return [self._decision_rows("nr = ?", number)[0] for number in numbers]

    def tally(self, after: int, stream: int) -> tuple[int, dict[str, int]]:
        """Return the last row number, and how many decisions of other streams after a row number chose each arm."""
        query = "SELECT arm, count(*) FROM decision WHERE nr > ? AND nr <= ? AND stream <> ? GROUP BY arm"

        def count() -> tuple[int, dict[str, int]]:
            last = self.last_row()
            return last, dict(self.fetch(query, after, last, stream)) if last > after else {}

        return self.looked(count)

    def open_rows(self, before: float, after: float, limit: int) -> list[tuple[Taken, int]]:
        """Return decisions from a time to another without a learned reward, oldest first, with their positions."""
        names = ", ".join(f"d.{name}" for name in (*Taken._fields, "checksum"))
        query = (
            f"SELECT d.nr, e.place, {names} FROM decision AS d "
            "LEFT JOIN entry AS e ON e.stream = d.stream AND e.number = d.number WHERE d.time >= ? AND d.time < ? "
            "AND (d.time > ? OR d.nr > ?) AND (e.seq IS NULL OR d.options LIKE ?) ORDER BY d.time, d.nr LIMIT ?"
        )
        found: list[tuple[Taken, int]] = []
        at, nr, full = after, -1, True
        while full and len(found) < limit:
            rows = self.fetch(query, at, before, at, nr, '%"slate"%', CHUNK)
            full = len(rows) == CHUNK
            if full:  # the rest of the last decision may be behind the end
                rows = [row for row in rows if row[0] != rows[-1][0]]
            closed: dict[int, set[int]] = {}
            for row in rows:
                closed.setdefault(row[0], set()).add(row[1])
            for row in {row[0]: row for row in rows}.values():
                taken = self.checked(Taken, row[2:])
                at, nr, size = taken.time, row[0], len(json.loads(taken.options or "{}").get("slate", [0]))
                found += [(taken, place) for place in range(size) if place not in closed[nr]]
        return found[:limit]

    def held_rows(self, before: float, after: float) -> dict[Place, Report]:
        """Return the rewards that are held for decisions from a time to another."""
        names = ", ".join(f"r.{name}" for name in (*Report._fields, "checksum"))
        query = (
            f"SELECT {names} FROM decision AS d JOIN report AS r ON r.stream = d.stream AND r.number = d.number "
            "WHERE d.time >= ? AND d.time < ?"
        )
        rows = [self.checked(Report, row) for row in self.fetch(query, after, before)]
        return {(row.stream, row.number, row.place): row for row in rows}

    # -- snapshots -----------------------------------------------------------------------------------------

    def _write_snapshot(self, seq: int, state: bytes) -> None:
        """Write the state after entry ``seq``; many snapshots are thinned out, the older ones first."""
        self._put_snapshot(seq, state)
        known = [number for (number,) in self.fetch("SELECT seq FROM snapshot ORDER BY seq")]
        if len(known) > _SNAPSHOTS:
            for number in known[1 : len(known) // 2 : 2]:
                self.execute("DELETE FROM snapshot WHERE seq = ?", number)

    def _put_snapshot(self, seq: int, state: bytes) -> None:
        self.execute(
            "INSERT INTO snapshot (seq, time, state) VALUES (?, ?, ?) ON CONFLICT (seq) "
            "DO UPDATE SET time = excluded.time, state = excluded.state",
            *(seq, time.time(), state),
        )

    def snapshots(self) -> list[int]:
        """Return the numbers of the entries after which there is a snapshot, the latest first."""
        return self.looked(lambda: [seq for (seq,) in self.fetch("SELECT seq FROM snapshot ORDER BY seq DESC")])

    def snapshot(self, seq: int) -> bytes:
        """Return the state after entry ``seq``."""
        rows = self.looked(lambda: self.fetch("SELECT state FROM snapshot WHERE seq = ?", seq))
        if not rows or not isinstance(rows[0][0], bytes):
            raise self.damaged(f"snapshot {seq} holds no state")
        return rows[0][0]

    # -- erasing and dropping ------------------------------------------------------------------------------

    def all_notes(self) -> Iterator[list[tuple[int, int, str]]]:
        """Iterate over the notes that are not erased, in chunks."""
        at = (-1, -1)
        while True:
            with self.reading():
                rows = self.fetch(
                    "SELECT stream, number, text FROM note WHERE text IS NOT NULL AND (stream > ? OR (stream = ? AND "
                    "number > ?)) ORDER BY stream, number LIMIT ?",
                    *(at[0], at[0], at[1], CHUNK),
                )
            if not rows:
                return
            at = rows[-1][:2]
            yield rows

    def drop(self, before: float, last: int) -> int:
        """Delete decisions older than ``before`` and their rewards up to entry ``last``; return how many decisions."""
        with self._writing(ordered=True):
            old = "SELECT stream, number FROM decision WHERE time < ? AND nr < (SELECT max(nr) FROM decision)"
            for table in ("entry", "report", "note"):
                bound = f" AND seq <= {last} AND seq < (SELECT max(seq) FROM entry)" if table == "entry" else ""
                self.execute(f"DELETE FROM {table} WHERE (stream, number) IN ({old}){bound}", before)
            return self.execute(f"DELETE FROM decision WHERE (stream, number) IN ({old})", before)


class KeyTakenError(Exception):
    """Another process has written a decision with the same key meanwhile."""
