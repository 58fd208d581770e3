"""Forge rows of a journal in an SQLite file, with the right checksum."""

import sqlite3

from prudent.journal.store import Entry, Taken
from prudent.journal.store.rows import checksum_of


def execute(path, statement, *values):
    db = sqlite3.connect(path)
    found = db.execute(statement, values).fetchall()
    db.commit()
    db.close()
    return found


def rewrite(path, which, /, *, snapshots=False, **fields):
    """Change a decision of the only stream, or an entry of the log if ``which`` is ``{"seq": n}``.

    Later snapshots are deleted unless ``snapshots``, so that everything is learned again.
    """
    kind, table, where = (Entry, "entry", "seq = ?") if isinstance(which, dict) else (Taken, "decision", "number = ?")
    value = which["seq"] if isinstance(which, dict) else which
    (row,) = execute(path, f"SELECT {', '.join(kind._fields)} FROM {table} WHERE {where}", value)
    row = kind(*row)._replace(**fields)
    for name, each in fields.items():
        execute(path, f"UPDATE {table} SET {name} = ? WHERE {where}", each, value)
    now = fields.get(where.split()[0], value)
    execute(path, f"UPDATE {table} SET checksum = ? WHERE {where}", checksum_of(row), now)
    if not snapshots:
        execute(path, "DELETE FROM snapshot WHERE seq > 0")
