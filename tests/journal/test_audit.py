"""What verify() compares, signatures, damaged values, and snapshots that are read back."""

import json
import secrets
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest
from _learned import learned
from _rewrite import execute, rewrite
from refusals import refused, warned

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import ParameterError, PrudentWarning, StateFileError
from prudent.journal import Journal
from prudent.journal.store import Entry, Report, Taken
from prudent.journal.store.rows import checksum_of

KEY = secrets.token_bytes(32)


def fresh(seed=3, **options):
    return LinearBandit(["a", "b", "c"], 2, alpha=0.5, rng=seed, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "j.db"


def used(path, steps=30, **options):
    rng = np.random.default_rng(1)
    with Journal(path, fresh(), **options) as live:
        for _ in range(steps):
            decision = live.select(rng.normal(size=2))
            live.reward(decision.id, float(rng.normal()))


# -- verify ----------------------------------------------------------------------------------------------------


def test_a_sound_journal_is_verified(path):
    used(path, snapshot_every=20)
    with Journal(path) as live:
        found = live.verify()
    assert (found, found.snapshots, found.signed) == (30, 3, False)  # after 20 and 30 rewards, and the live bandit
    assert len(found.gaps) == 1


def test_a_foreign_bandit_in_the_last_snapshot_fails(path):
    used(path)
    state = fresh(seed=9).update(np.ones((9, 2)), ["a"] * 9, np.arange(9.0)).to_bytes()
    execute(path, "UPDATE snapshot SET state = ? WHERE seq > 0", state)
    with Journal(path) as live, refused(StateFileError, "state-differs", event=30):
        live.verify()


def test_a_live_bandit_that_is_not_that_of_the_record_fails(path):
    used(path)
    with Journal(path) as live:
        live._replica.bandit.update([1.0, 1.0], "a", 5.0)  # behind the back of the journal
        with refused(StateFileError, "state-differs"):
            live.verify()


@pytest.mark.parametrize(
    ("which", "fields", "code"),
    [
        (21, {"propensity": 0.123}, "decision-differs"),
        (21, {"propensity": None}, "decision-differs"),
        (21, {"score": 77.0}, "decision-differs"),
        (21, {"position": 3}, "decision-differs"),
        (21, {"seq": 3}, "decision-differs"),
        ({"seq": 21}, {"time": 1.0}, "time-differs"),
        ({"seq": 30}, {"reward": 123.0}, "state-differs"),  # the last one: no later decision depends on it
    ],
)
def test_edits_with_the_right_checksum_are_seen(path, which, fields, code):
    used(path)
    rewrite(path, which, snapshots=True, **fields)
    with Journal(path) as live, refused(StateFileError, code):
        live.verify()


def test_one_snapshot_left_says_what_cannot_be_verified(path):
    used(path)
    execute(path, "DELETE FROM snapshot WHERE seq = 0")
    with Journal(path) as live, warned(PrudentWarning, "not-verified"):
        found = live.verify()
    assert found == 0
    assert found.gaps[0].startswith("entries up to 30")


def test_journals_of_items_are_verified_with_propensities(path):
    rng = np.random.default_rng(2)
    for draws in ("independent", "joint"):
        with Journal(f"{path}{draws}", SharedLinearBandit(2, draws=draws, rng=1), snapshot_every=7) as live:
            for _ in range(12):
                slate = live.select(rng.normal(size=(4, 2)), top=2)
                live.reward(slate.ids, rng.normal(size=2).tolist())
            assert live.verify() == 12


# -- signatures ------------------------------------------------------------------------------------------------


def test_a_signed_journal_goes_on_with_its_key_only(path):
    used(path, key=KEY)
    with Journal(path, key=KEY) as live:
        before = live.signature
        assert live.reward("unknown", 1.0) == "unknown"
        live.select([1.0, 2.0])
        assert live.signature == before  # that of the log
        assert len(live.signature) == 64
        found = live.verify()
        assert (found, found.signed, found.gaps) == (31, True, ())
    with refused(StateFileError, "wrong-signature", event=0):
        Journal(path, key=secrets.token_bytes(32))
    with Journal(path) as live:
        assert len(list(live.rows())) == 31
        with refused(ParameterError, "missing-key", argument="key"):
            live.select([1.0, 2.0])
        assert live.bandit.decisions == 31


@pytest.mark.parametrize("setting", [{"window": 7200.0}, {"default": 1.0}, {"provisional": True}])
def test_the_window_is_signed(path, setting):
    used(path, key=KEY, window=3600.0)
    ((options,),) = execute(path, "SELECT options FROM entry WHERE seq = 0")
    rewrite(path, {"seq": 0}, options=json.dumps(json.loads(options) | setting))
    with refused(StateFileError, "wrong-signature", event=0):
        Journal(path, key=KEY)


@pytest.mark.parametrize("fields", [{"reward": 0.25}, {"time": 2e9}])
def test_edits_without_the_key_are_seen(path, fields):
    """The last reward and its time: with the snapshot gone, only the signature tells."""
    used(path, key=KEY)
    rewrite(path, {"seq": 30}, **fields)
    with refused(StateFileError, "wrong-signature", event=30):
        Journal(path, key=KEY)


def test_an_early_edit_is_seen_by_the_chain(path):
    used(path, key=KEY)
    rewrite(path, {"seq": 2}, snapshots=True, time=1.9e9)
    with Journal(path, key=KEY) as live, refused(StateFileError, "wrong-signature", event=2):
        live.verify()


def test_decisions_are_signed_in_their_streams(path):
    used(path, key=KEY)
    rewrite(path, 7, snapshots=True, time=1.9e9)
    with Journal(path, key=KEY) as live, refused(StateFileError, "wrong-signature"):
        live.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stream SET stream = stream + 1",  # signatures were looked up by this table
        "DELETE FROM stream",
        "UPDATE decision SET number = -number WHERE number = 30",
        "UPDATE decision SET number = -1 WHERE number = 30",
    ],
)
def test_decisions_cannot_hide_from_their_signatures(path, statement):
    used(path, key=KEY)
    execute(path, "DELETE FROM entry WHERE seq = 30")  # so that the last decision has no reward
    rewrite(path, 30, snapshots=True, key='"forged"')
    execute(path, "DELETE FROM snapshot WHERE seq = 30")
    execute(path, statement)
    ((row,),) = [execute(path, "SELECT rowid FROM decision WHERE key IS NOT NULL")]
    fields = execute(path, f"SELECT {', '.join(Taken._fields)} FROM decision WHERE rowid = ?", *row)[0]
    execute(path, "UPDATE decision SET checksum = ? WHERE rowid = ?", checksum_of(Taken(*fields)), *row)
    with Journal(path, key=KEY) as live, refused(StateFileError, "wrong-signature"):
        live.verify()


@pytest.mark.parametrize("stamp", [0.0, 1e6, 4e9, float("inf")])
@pytest.mark.parametrize("which", [1, 11, 29])
def test_times_of_decisions_are_compared(path, which, stamp):
    """With what they had learned, with their rewards, and with those before them in their stream."""
    used(path)
    rewrite(path, which, snapshots=True, time=stamp)
    with Journal(path) as live, refused(StateFileError, "time-differs"):
        live.verify()


@pytest.mark.parametrize(
    ("seq", "fields"),
    [
        (0, {"kind": "reward"}),
        (0, {"arms": None}),
        (0, {"arms": '["a", "b"]'}),
        (0, {"reward": 1.0}),
        (3, {"arms": '["a", "b"]'}),
        (31, {"reward": 1.0, "stream": 1, "number": 1, "place": 0}),
        (31, {"arms": '["a", "b", "c"]'}),
    ],
)
def test_entries_have_the_form_of_their_kind(path, seq, fields):
    used(path)
    with Journal(path) as live:
        live.add_arm("d")
    rewrite(path, {"seq": seq}, snapshots=True, **fields)
    with pytest.raises(StateFileError), Journal(path) as live:
        live.verify()


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE entry SET signature = {value} WHERE seq = {seq}" for seq in (0, 30) for value in (-1, 2**62, 0.5)),
        "UPDATE decision SET seq = 'x' WHERE number = 7",
        "UPDATE note SET text = x'00'",
        "UPDATE note SET erased = 1.0",
    ],
)
def test_seals_and_notes_of_any_type_are_our_error(path, statement, signed):
    used(path, key=KEY if signed else None)
    with Journal(path, key=KEY if signed else None) as live:
        live.select([1.0, 2.0], note={"who": "me"})
    execute(path, statement)
    with pytest.raises(StateFileError), Journal(path, key=KEY if signed else None) as live:
        live.verify()


def test_a_decision_that_was_removed_breaks_its_stream(path):
    used(path, key=KEY)
    with Journal(path, key=KEY) as live:
        ids = [live.select([1.0, 1.0]).id for _ in range(3)]
    execute(path, "DELETE FROM decision WHERE number = 2 AND seq = 30")
    with Journal(path, key=KEY) as live, refused(StateFileError, "wrong-signature"):
        live.verify()
    assert len(ids) == 3


def test_a_signed_journal_that_was_compacted_goes_on(path):
    used(path, key=KEY)
    with Journal(path, key=KEY) as live:
        live.compact(before=2e9)
        live.select([1.0, 2.0])
    with Journal(path, key=KEY) as live:
        assert live.signature is not None


def test_a_signed_journal_that_was_compacted_has_missing_events_and_no_forged_ones(path):
    used(path, key=KEY)
    ((middle,),) = execute(path, "SELECT time FROM decision WHERE number = 20")
    with Journal(path, key=KEY) as live:
        assert live.compact(before=middle) > 0
        with refused(StateFileError, "missing-event", event=1):
            live.verify()


def test_two_swapped_entries_are_seen(path):
    used(path, key=KEY)
    names = [name for name in Entry._fields if name != "seq"]
    (five,), (six,) = (execute(path, f"SELECT {', '.join(names)} FROM entry WHERE seq = ?", seq) for seq in (5, 6))
    execute(path, "UPDATE entry SET place = 9 WHERE seq = 5")  # a decision has one reward
    for seq, row in ((6, five), (5, six)):
        rewrite(path, {"seq": seq}, snapshots=True, **dict(zip(names, row, strict=True)))
    with Journal(path, key=KEY) as live, refused(StateFileError, "wrong-signature", event=5):
        live.verify()


def test_an_old_file_is_told_by_the_signature_that_was_kept(path):
    """Nothing in an older file is wrong: what the owner of the key has noted tells."""
    used(path, key=KEY)
    old = path.read_bytes()
    with Journal(path, key=KEY) as live:
        live.reward(live.select([1.0, 2.0]).id, 1.0)
        noted = live.signature
    path.write_bytes(old)
    with Journal(path, key=KEY) as live:
        assert live.verify() == 30
        assert live.signature != noted


def test_decisions_dropped_at_the_start_of_a_stream_are_named(path):
    """The first decision that is left is signed together with one that is gone, and may have been changed."""
    with Journal(path, fresh(), key=KEY) as live:
        for _ in range(3):
            live.select([1.0, 2.0])
    execute(path, "DELETE FROM decision WHERE number = 1")
    rewrite(path, 2, snapshots=True, key='"another"')
    with Journal(path, key=KEY) as live:
        with warned(PrudentWarning, "not-verified"):
            found = live.verify()
        assert "the signature of decision 2-" in found.gaps[0]


def test_a_held_report_is_not_forged(path):
    """It becomes an entry, signed with the key, when its window closes."""
    with Journal(path, fresh(), key=KEY, window=1000.0, default=0.0) as live:
        live.reward(live.select([1.0, 2.0]).id, 1.0)
    with Journal(path) as live:  # without the key it can be read
        assert len(list(live.rows())) == 1
    (row,) = execute(path, f"SELECT {', '.join(Report._fields)} FROM report")
    forged = checksum_of(Report(*row)._replace(reward=100.0))
    execute(path, "UPDATE report SET reward = 100.0, checksum = ?", forged)
    with Journal(path, key=KEY) as live, refused(StateFileError, "damaged-file"):
        live.expire(4e9)


@pytest.mark.parametrize("key", [b"short", "text" * 9, 5])
def test_what_is_no_key(path, key):
    with refused(ParameterError, "wrong-type", argument="key"):
        Journal(path, fresh(), key=key)


def test_a_key_for_a_journal_without_signatures(path):
    used(path)
    with refused(ParameterError, "not-signed", argument="key"):
        Journal(path, key=KEY)


# -- damaged values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column", [f"decision.{name}" for name in Taken._fields] + [f"entry.{n}" for n in Entry._fields[1:]]
)
@pytest.mark.parametrize("value", [1.5, 7, "text", b"\xff\xfe", None])
def test_damaged_values_of_any_type_name_the_event_and_leave_the_rest_readable(path, column, value):
    used(path, steps=5)
    table, _, name = column.partition(".")
    where = "number" if table == "decision" else "seq"
    try:
        execute(path, f"UPDATE {table} SET {name} = ? WHERE {where} = 3", value)
    except sqlite3.IntegrityError:
        pytest.skip("the database itself refuses it")
    with Journal(path) as live:  # the bandit is in the last snapshot
        try:
            assert len(list(live.rows())) == 5  # what SQLite converts, or what was there before
        except StateFileError as error:
            if name not in ("stream", "number") and error.fields.get("event") not in (3, None):
                raise
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                rows = list(live.rows(damaged="skip"))
                assert len(live.to_pandas(damaged="skip")) == len(rows)
            assert len(rows) >= 4
            assert {warning.message.code for warning in caught} <= {"damaged-event"}


def test_a_number_in_a_context_is_our_error(path):
    used(path, steps=5)
    execute(path, "UPDATE decision SET context = 1.5 WHERE number = 3")
    with Journal(path) as live:
        with refused(StateFileError, "damaged-file", event=3):
            list(live.rows())
        with warned(PrudentWarning, "damaged-event", event=3):
            rows = list(live.rows(damaged="skip"))
        assert len(rows) == 4


@pytest.mark.parametrize("kind", ["arms", "items"])
def test_tables_and_files_leave_a_damaged_decision_out_on_request(path, tmp_path, kind):
    bandit = fresh() if kind == "arms" else SharedLinearBandit(2, rng=1)
    with Journal(path, bandit) as live:
        ids = [live.select([1.0, 2.0]).id if kind == "arms" else live.select(np.eye(2)).id for _ in range(5)]
    damaged = 2
    execute(path, "UPDATE decision SET context = 1.5 WHERE number = ?", damaged)
    with Journal(path) as live:
        for suffix in (".csv", ".jsonl", ".parquet"):
            with refused(StateFileError, "damaged-file", event=damaged):
                live.export(tmp_path / f"all{suffix}")
            assert not (tmp_path / f"all{suffix}").exists()
            with warned(PrudentWarning, "damaged-event", event=damaged):
                assert live.export(tmp_path / f"rest{suffix}", damaged="skip") == 4
        with refused(StateFileError, "damaged-file", event=damaged):
            live.to_pandas()
        with warned(PrudentWarning, "damaged-event", event=damaged):
            table = live.to_pandas(damaged="skip")
        with refused(ParameterError, "unknown-option", argument="damaged"):
            live.to_pandas(damaged="ignore")
        with refused(ParameterError, "unknown-option", argument="damaged"):
            live.export(tmp_path / "x.parquet", damaged="ignore")
    assert list(table.id) == [ids[0], *ids[2:]]
    assert list(pd.read_parquet(tmp_path / "rest.parquet").id) == list(table.id)
    assert list(pd.read_csv(tmp_path / "rest.csv").id) == list(table.id)


# -- snapshots are read back -----------------------------------------------------------------------------------


def test_compaction_keeps_everything_if_its_snapshot_cannot_be_read(path, monkeypatch):
    used(path)
    with Journal(path) as live:
        right = learned(live.bandit)
        monkeypatch.setattr(LinearBandit, "to_bytes", lambda self: b"PRUDENT\x1a" + bytes(100))
        with refused(StateFileError, "damaged-file"):
            live.compact(before=2e9)
        assert live.bandit.decisions == 30
        live._wrote = True
        with warned(PrudentWarning, "no-snapshot"):
            live.close()
    monkeypatch.undo()
    with Journal(path) as live:
        assert learned(live.bandit) == right
        assert len(list(live.rows())) == 30


def test_a_save_that_cannot_be_loaded_leaves_the_older_file(tmp_path, monkeypatch):
    bandit = fresh()
    bandit.save(tmp_path / "s")
    before = (tmp_path / "s").read_bytes()
    bandit.update([1.0, 1.0], "a", 1.0)
    bandit.belief.table.gram[0] = np.nan
    with refused(StateFileError, "damaged-file"):
        bandit.save(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
