"""Tables of a store, in the SQL of SQLite; ``postgres`` replaces the types."""

from __future__ import annotations

VERSION = 1
CHANGES = "kind <> 'reward'"
TABLES = {
    "journal": "CREATE TABLE journal (version INTEGER NOT NULL)",
    "stream": "CREATE TABLE stream (stream INTEGER PRIMARY KEY, time REAL NOT NULL, token BLOB NOT NULL)",
    "decision": (
        "CREATE TABLE decision (nr INTEGER PRIMARY KEY, stream INTEGER NOT NULL, number INTEGER NOT NULL, "
        "time REAL NOT NULL, seq INTEGER NOT NULL, position INTEGER NOT NULL, arm TEXT, arms TEXT, context BLOB, "
        "score REAL, propensity REAL, options TEXT, key TEXT, note BLOB, checksum INTEGER NOT NULL, signature BLOB)"
    ),
    "decision_id": "CREATE UNIQUE INDEX decision_id ON decision (stream, number)",
    "decision_key": "CREATE UNIQUE INDEX decision_key ON decision (key) WHERE key IS NOT NULL",
    "decision_time": "CREATE INDEX decision_time ON decision (time)",
    "entry": (
        "CREATE TABLE entry (seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, writer INTEGER NOT NULL, "
        "stream INTEGER, number INTEGER, place INTEGER, reward REAL, arms TEXT, options TEXT, "
        "checksum INTEGER NOT NULL, signature BLOB)"
    ),
    "reward_of": "CREATE UNIQUE INDEX reward_of ON entry (stream, number, place) WHERE stream IS NOT NULL",
    "change": f"CREATE INDEX change ON entry (kind) WHERE {CHANGES}",
    "report": (
        "CREATE TABLE report (stream INTEGER NOT NULL, number INTEGER NOT NULL, place INTEGER NOT NULL, "
        "time REAL NOT NULL, reward REAL NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (stream, number, place))"
    ),
    "note": (
        "CREATE TABLE note (stream INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT, erased REAL, "
        "PRIMARY KEY (stream, number))"
    ),
    "content": "CREATE TABLE content (hash BLOB PRIMARY KEY, data BLOB NOT NULL)",
    "snapshot": "CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, time REAL NOT NULL, state BLOB NOT NULL)",
}
