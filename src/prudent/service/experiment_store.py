"""Experiments in the store: every change is a row that stays, and the last one is the state."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import msgspec

from .experiment_specs import ExperimentState
from .registry import Registry

_TABLES = (
    "CREATE TABLE IF NOT EXISTS experiment (slot TEXT NOT NULL, number BIGINT NOT NULL, "
    "time DOUBLE PRECISION NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL, state TEXT NOT NULL, "
    "PRIMARY KEY (slot, number))",
    "CREATE TABLE IF NOT EXISTS metric (slot TEXT NOT NULL, decision TEXT NOT NULL, name TEXT NOT NULL, "
    "value DOUBLE PRECISION NOT NULL, time DOUBLE PRECISION NOT NULL, PRIMARY KEY (slot, decision, name))",
)
_APPEND_ONLY = {
    True: (  # SQLite
        "CREATE TRIGGER IF NOT EXISTS experiment_{} BEFORE {} ON experiment "
        "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
    ),
    False: "CREATE OR REPLACE RULE experiment_{} AS ON {} TO experiment DO INSTEAD NOTHING",
}


class Change(NamedTuple):
    """A change of an experiment, with the state after it."""

    number: int
    state: ExperimentState


class ExperimentStore:
    """Experiments of all slots of a registry.

    Parameters
    ----------
    registry : Registry
        The registry, whose database holds them.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

        def work(run: Any) -> None:
            for table in _TABLES:
                run(table)
            for verb in ("UPDATE", "DELETE"):
                run(_APPEND_ONLY[registry.folder is not None].format(verb.lower(), verb))

        registry.transact(work)

    def last(self, slot: str) -> Change | None:
        """Return the last change of a slot; None if there was none."""
        sql = "SELECT number, state FROM experiment WHERE slot = ? ORDER BY number DESC LIMIT 1"
        rows = self._registry.transact(lambda run: run(sql, slot))
        return Change(rows[0][0], msgspec.json.decode(rows[0][1], type=ExperimentState)) if rows else None

    def numbers(self) -> dict[str, int]:
        """Return the number of the last change of every slot that has one."""
        rows = self._registry.transact(lambda run: run("SELECT slot, max(number) FROM experiment GROUP BY slot"))
        return dict(rows)

    def append(
        self,
        slot: str,
        after: int,
        who: str,
        what: str,
        detail: dict[str, Any],
        state: ExperimentState,
        journal: str | None = None,
        spec: str | None = None,
    ) -> bool:
        """Append a change unless there is one after ``after``; with ``journal`` the slot gets it in the same commit."""
        now, text = time.time(), msgspec.json.encode(state).decode()

        def work(run: Any) -> bool:
            ((last,),) = run("SELECT coalesce(max(number), 0) FROM experiment WHERE slot = ?", slot)
            if last != after:
                return False
            run(
                "INSERT INTO experiment (slot, number, time, who, what, detail, state) VALUES (?, ?, ?, ?, ?, ?, ?)",
                slot, last + 1, now, who, what, json.dumps(detail), text,
            )  # fmt: skip
            if journal is not None:
                ((version,),) = run("SELECT coalesce(max(version), 0) FROM slot")
                run("UPDATE slot SET journal = ?, version = ?, changed = ? WHERE name = ?",
                    journal, version + 1, now, slot)  # fmt: skip
                if spec is not None:
                    run("UPDATE slot SET spec = ? WHERE name = ?", spec, slot)
            return True

        return bool(self._registry.transact(work))

    def audit(self, slot: str) -> list[dict[str, Any]]:
        """Return all changes of a slot, oldest first."""
        sql = "SELECT number, time, who, what, detail FROM experiment WHERE slot = ? ORDER BY number"
        rows = self._registry.transact(lambda run: run(sql, slot))
        names = ("number", "time", "who", "what", "detail")
        return [dict(zip(names, (*row[:4], json.loads(row[4])), strict=True)) for row in rows]

    def report(self, slot: str, decision: str, name: str, value: float) -> bool:
        """Record a metric of a decision; return whether it is the first report."""

        def work(run: Any) -> bool:
            sql = "SELECT 1 FROM metric WHERE slot = ? AND decision = ? AND name = ?"
            if run(sql, slot, decision, name):
                return False
            run("INSERT INTO metric (slot, decision, name, value, time) VALUES (?, ?, ?, ?, ?)",
                slot, decision, name, value, time.time())  # fmt: skip
            return True

        return bool(self._registry.transact(work))

    def metrics(self, slot: str) -> dict[str, dict[str, float]]:
        """Return all metrics of a slot: values by name and decision."""
        rows = self._registry.transact(lambda run: run("SELECT name, decision, value FROM metric WHERE slot = ?", slot))
        found: dict[str, dict[str, float]] = {}
        for name, decision, value in rows:
            found.setdefault(name, {})[decision] = value
        return found
