"""Where a journal keeps its decisions and rewards: one interface, in SQLite for one machine or PostgreSQL for many.

**Decisions need no order, rewards do.** What a bandit has learned is a function of the rewards, and of calls that
change it, in the order of the *log*. A decision changes nothing that others learn from. So there are two tables:

    entry      the log: seq = 0, 1, 2, ... without gaps; start, rewards, calls that change the bandit
    decision   stream and number, without any order; and with it what makes the decision repeatable

A process has a *replica*: the bandit after the first ``seq`` entries of the log. It decides from its replica at once,
without a lock that other processes take, and writes down

    seq        the version of the state: how many entries the replica had learned
    stream     a random number that the process drew when it opened the journal: its random stream is made from it
    position   how many uniforms of the stream were used before
    number     of the decision in its stream

State, stream and position give the decision again, bit by bit, and its propensity is exact given that state, however
far the replica was behind. ``Journal.verify`` does so for every decision. Streams are never used twice: a process that
is forked, restarted or copied draws a new number, which is registered. What depends on how many decisions there were (a
schedule of the level, first pulls) is in the row of the decision as well, and evidence that fades does so by entries of
the log, so that it fades at the same place for all.

    stream     numbers of streams in use
    report     rewards that are held until the window of their decision closes
    note       notes of decisions, apart from them so that they can be erased; the decision has the digest
    content    features of candidates and sets of candidates, once each, by their hash
    snapshot   states of the bandit after entries of the log, so that a replica need not start from the first
    journal    version of these tables; with what the journal was started is in its first entry

**Commits.** Rows of a process are written in groups: while one thread commits, the others queue up, and the next one
commits for all (``prudent.journal.writer``). Rewards are appended in turn, by who holds the write lock of the SQLite
file or an advisory lock of the PostgreSQL database; a decision in PostgreSQL takes no lock. All writers of an SQLite
file share its one write lock, for about a tenth of a millisecond each; that is a property of SQLite, and the reason for
the other member.

Every row has a checksum and, if there is a key, a signature: HMAC-SHA256 of the row and of the signature before it, in
the log or in the stream of the decision.
"""

from __future__ import annotations

import os
from typing import Any

from ...errors import ParameterError
from .base import CHUNK, Job, New, Store, Turn
from .postgres import PostgresStore, patience_of
from .rows import Entry, Place, Report, Taken, id_of, place_of
from .sqlite import SqliteStore
from .tally import Tally

__all__ = [
    "CHUNK",
    "Entry",
    "Job",
    "New",
    "Place",
    "PostgresStore",
    "Report",
    "SqliteStore",
    "Store",
    "Taken",
    "Tally",
    "Turn",
    "id_of",
    "is_address",
    "patience_of",
    "place_of",
    "store_of",
]


def is_address(path: Any) -> bool:
    """Return whether this is the address of a PostgreSQL database."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def store_of(path: Any, name: str | None, synchronous: str, timeout: float, key: bytes | None) -> Store:
    """Return the store of a path or an address; it is not opened yet."""
    if is_address(path):
        return PostgresStore(os.fspath(path), "journal" if name is None else name, synchronous, timeout, key)
    if name is not None:
        text = f"name is for a PostgreSQL database, which holds many journals; a file is one journal, got {name!r}"
        raise ParameterError(text, code="conflicting-arguments", argument="name", value=name)
    return SqliteStore(path, synchronous, timeout, key)
