"""Numbers of rows of a store, counted as they come: rows that were counted are not read again."""

from __future__ import annotations

from typing import Any

from .base import CHUNK, Store

_TABLES = (("decision", "nr", ""), ("entry", "seq", " AND stream IS NOT NULL"))


class Tally:
    """Counts of decisions and rewards of a store, whose transactions are opened by the caller.

    Parameters
    ----------
    store : Store
        The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first: Any = None  # row number of the first decision
        self._known = {table: (-1, 0) for table, *_ in _TABLES}  # last row that was counted, and how many there were

    def counts(self) -> dict[str, int]:
        """Return the numbers of decisions, of entries of the log, and of rewards."""
        ((first,),) = self._store.fetch("SELECT min(nr) FROM decision")
        if first != self._first:  # the first count, or some were dropped
            self._first, self._known = first, {table: (-1, 0) for table, *_ in _TABLES}
        decisions, rewards = (self._count(*each) for each in _TABLES)
        return {"decisions": decisions, "entries": self._store.last(), "rewards": rewards}

    def _count(self, table: str, column: str, condition: str) -> int:
        known, number = self._known[table]
        ((last,),) = self._store.fetch(f"SELECT max({column}) FROM {table}")
        settled = (last or 0) - CHUNK  # rows of other processes may become visible after younger ones
        query = f"SELECT count(*) FROM {table} WHERE {column} > ? AND {column} <= ?{condition}"
        if settled > known:
            number += self._store.fetch(query, known, settled)[0][0]
            self._known[table] = known, number = settled, number
        return int(number + self._store.fetch(query, known, max(known, last or 0))[0][0])
