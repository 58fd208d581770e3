"""Forge one event of a journal."""

import sqlite3

from prudent.journal.file import Event


def rewrite(path, seq, **fields):
    """Change an event and give it the right checksum."""
    db = sqlite3.connect(path)
    names = ", ".join(Event._fields)
    event = Event(*db.execute(f"SELECT {names} FROM event WHERE seq = ?", (seq,)).fetchone())._replace(**fields)
    for name, value in fields.items():
        db.execute(f"UPDATE event SET {name} = ? WHERE seq = ?", (value, seq))
    db.execute("UPDATE event SET checksum = ? WHERE seq = ?", (event.checksum(), event.seq))
    db.execute("DELETE FROM snapshot WHERE seq > 0")
    db.commit()
    db.close()
