"""Journals that were written once, one for each kind of decision, stay readable and are what their log gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from _rewrite import execute

from prudent.journal import Journal

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("kind", "rows"), [("arms", 24), ("clicks", 24), ("beta", 24), ("items", 48)])
def test_golden_journals_are_verified(kind, rows, tmp_path):
    path = tmp_path / "journal.db"
    shutil.copy(GOLDEN / f"journal-{kind}.db", path)
    with Journal(path) as live:
        known = live.bandit.n_rewards
        found = live.verify()  # every decision, and the snapshots
        assert (found, found.snapshots) == (24, 4 if kind in ("arms", "items") else 3)
        assert len(list(live.rows())) == rows
        assert live.bandit.decisions == 24
    execute(path, "DELETE FROM snapshot WHERE seq > 0")  # so that the bandit is made from the log alone
    with Journal(path) as live:
        assert live.bandit.n_rewards == known
        assert live.verify() == 24
        before = len(live.pending())
        context = [0.5] * live.bandit.dim
        given = ([context, context], [0, 1]) if kind == "items" else (context,)
        ids = [live.select(*given).id for _ in range(3)]
        assert live.reward(ids, [1, 0, 1]) == ["ok", "ok", "ok"]
        assert len(live.pending()) == before
    assert execute(path, "PRAGMA user_version") == [(1,)]
    with Journal(path) as live:
        assert live.verify() == 27
