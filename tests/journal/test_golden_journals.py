"""Journals of version 1 of the format, one for each kind of decision, stay readable and replay bit for bit."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from prudent.journal import Journal

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("kind", "decisions", "rows"),
    [
        ("arms", 28, 28),
        ("clicks", 28, 28),
        ("beta", 24, 24),
        ("items", 18, 35),
    ],
)
def test_golden_journals_replay_bit_for_bit(kind, decisions, rows, tmp_path):
    path = tmp_path / "journal.db"
    shutil.copy(GOLDEN / f"journal-{kind}.db", path)
    db = sqlite3.connect(path)
    (state,) = db.execute("SELECT state FROM snapshot ORDER BY seq DESC").fetchone()
    db.execute("DELETE FROM snapshot WHERE seq > 0")  # so that the bandit is made from the events alone
    db.commit()
    db.close()
    with Journal(path) as live:
        assert live.bandit.to_bytes() == state
        assert live.verify() == decisions
        assert len(list(live.rows())) == rows
