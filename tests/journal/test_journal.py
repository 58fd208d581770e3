"""The journal: nothing acknowledged is lost, nothing is learned twice, and the bandit comes back bit for bit."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import _journal_writers
import numpy as np
import pytest
from _child import environment
from _disk import Disk
from _learned import learned
from _rewrite import rewrite
from refusals import refused

from prudent.bandits import BanditSettings, Decay, LinearBandit, brps_cmab, brps_cmab_clipped
from prudent.errors import DataError, JournalError, ParameterError, PrudentError, StateFileError
from prudent.journal import Journal

FAST = {"synchronous": "NORMAL"}


def fresh(seed=3, arms=("a", "b", "c"), alpha=0.5, dim=2, **options):
    return LinearBandit(arms, dim, alpha=alpha, noise_sd=1.0, rng=seed, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def rows_of(path):
    with Journal(path) as live:
        return list(live.rows())


def used(path, steps=30, **options):
    """A journal with some decisions and rewards; returns the ids."""
    rng = np.random.default_rng(0)
    with Journal(path, fresh(), **FAST, **options) as live:
        ids = [live.select(rng.random(2), ["a", "c"] if i % 3 == 0 else None).id for i in range(steps)]
        live.reward(ids[::2], rng.random(len(ids[::2])))
    return ids


# -- once and in order ---------------------------------------------------------------------------------------


def test_a_reward_is_learned_once_whenever_it_comes(path):
    plain = fresh()
    with Journal(path, fresh(), **FAST) as live:
        points = np.random.default_rng(1).random((20, 2))
        decisions = [live.select(point) for point in points]
        for point, decision in zip(points, decisions, strict=True):
            assert live.as_of(decision.id).select(point).score == decision.score
        order = np.random.default_rng(2).permutation(20)
        for i in order:
            assert live.reward(decisions[i].id, 0.5 * i) == "ok"
            assert live.reward(decisions[i].id, -1.0) == "duplicate"
            plain.update(points[i], decisions[i].arm, 0.5 * i)
        assert learned(live.bandit) == learned(plain)
        assert live.bandit.arms == ("a", "b", "c")
        for unknown in (
            "",
            "x",
            "999-000000000000000000000000",
            decisions[0].id[:-1],
            "9" * 40 + "-0000000000000000",
            f"{decisions[0].id} ",
        ):
            assert live.reward(unknown, 1.0) == "unknown"
        other = f"1-{(int(decisions[0].id[2:], 16) + 1) % 2**63:016x}"  # of another journal, or of a lost backup
        assert live.reward(other, 1.0) == "unknown"
        live.remove_arm(decisions[0].arm)
        assert live.reward(decisions[0].id, 1.0) == "duplicate"
        assert learned(live.bandit) == learned(plain.remove_arm(decisions[0].arm))


def test_a_reward_of_a_removed_arm_is_recorded_and_not_learned(path):
    with Journal(path, fresh(), **FAST) as live:
        decision = live.select([1.0, 2.0], arms=["b"])
        live.remove_arm("b")
        before = learned(live.bandit)
        assert live.reward(decision.id, 4.0) == "arm removed"
        assert live.reward(decision.id, 4.0) == "duplicate"
        assert learned(live.bandit) == before
        live.add_arm("b")
        assert live.bandit.pulls["b"] == 0
    (row,) = rows_of(path)
    assert (row["arms"], row["arm"], row["reward"]) == (["b"], "b", 4.0)


@pytest.mark.parametrize(
    "settings", [brps_cmab(0.7), brps_cmab_clipped(0.9), BanditSettings(delta=0.1)], ids=lambda each: each.label
)
@pytest.mark.parametrize("seed", range(3))
def test_interruptions_leave_the_bandit_identical(path, settings, seed):
    """Closed, or left as a killed process leaves it, at random moments; the same belief as without a journal."""
    dice, plain, pending, taken = random.Random(seed), fresh(settings=settings, alpha=None), [], 0
    live = Journal(path, fresh(settings=settings, alpha=None), snapshot_every=17, **FAST)
    for step in range(150):
        lot = dice.random()
        if lot < 0.1:
            if dice.random() < 0.5:
                live.close()
            live = Journal(path, fresh(settings=settings, alpha=None), snapshot_every=17, **FAST)
        elif lot < 0.13:
            live.add_arm(step)
            plain.add_arm(step)
        elif lot < 0.15 and len(plain.arms) > 3:
            arm = dice.choice(plain.arms[3:])
            live.remove_arm(arm)
            plain.remove_arm(arm)
        elif lot < 0.6 or not pending:
            point = [dice.gauss(0, 1), dice.gauss(0, 1)]
            arms = None if dice.random() < 0.5 else dice.sample(plain.arms, 2)
            decision, taken = live.select(point, arms), taken + 1
            assert decision.arms == (plain.arms if arms is None else tuple(arms))
            assert decision.version[1] == plain.n_rewards
            pending.append((decision.id, point, decision.arm))
        else:
            which, point, arm = pending.pop(dice.randrange(len(pending)))
            value = dice.choice([0.0, -0.0, dice.random()])
            if arm in plain.arms:
                plain.update(point, arm, value + 0.0)  # a journal writes -0.0 as 0.0
                assert live.reward(which, value) == "ok"
            else:
                assert live.reward(which, value) == "arm removed"
    live.close()
    with Journal(path) as again:
        assert learned(again.bandit) == learned(plain)
        assert again.verify() == again.bandit.decisions == taken


def test_a_stream_that_was_cut_into_long_blocks_is_repeated(path):
    """One decision between many arms, then some between few: what is left in memory does not count."""
    with Journal(path, LinearBandit(1500, 1, noise_sd=1.0, rng=2), **FAST) as live:
        live.select([1.0])
        decisions = [live.select([1.0], arms=[1, 2, 3]) for _ in range(500)]
        for decision in decisions[::100]:
            assert live.as_of(decision.id).select([1.0], arms=[1, 2, 3]).score == decision.score
        assert len({decision.score for decision in decisions}) == 500
        assert live.verify() == 501


def test_two_open_journals_are_one(path):
    first, second = Journal(path, fresh(), **FAST), Journal(path, fresh(), **FAST)
    plain, writers = fresh(), random.Random(4)
    for _ in range(60):
        one, other = writers.sample([first, second], 2)
        point = [writers.random(), 1.0]
        decision = one.select(point)
        if writers.random() < 0.7:
            assert other.reward(decision.id, 2.0) == "ok"
            assert one.reward(decision.id, 2.0) == "duplicate"
            plain.update(point, decision.arm, 2.0)
    for journal in (first, second):
        assert learned(journal.bandit) == learned(plain)
        journal.close()


def test_rewards_come_in_lists(path):
    with Journal(path, fresh(), **FAST) as live:
        ids = [live.select([1.0, 0.0]).id for _ in range(4)]
        assert live.reward([ids[2], "x", ids[0], ids[2]], [1.0, 2.0, 3.0, 4.0]) == ["ok", "unknown", "ok", "duplicate"]
        assert live.reward(np.array(ids), np.zeros(4)) == ["duplicate", "ok", "duplicate", "ok"]
        more = [live.select([1.0, 0.0]).id for _ in range(2)]
        with refused(DataError, "not-finite", argument="reward"):
            live.reward(more, [1.0, np.nan])
        with refused(ParameterError, "wrong-type", argument="id", value=7):
            live.reward([more[0], 7], [1.0, 1.0])
        with refused(DataError, "wrong-shape", argument="reward", expected=2):
            live.reward(more, [1.0])
        assert sum(live.bandit.pulls.values()) == 4
        assert live.reward(more, [1.0, 1.0]) == ["ok", "ok"]


@pytest.mark.parametrize(
    "wrong", [np.nan, np.inf, -np.inf, 1e151, "1.0", b"1", None, [1.0], np.ones(1), 1j, 10**400, {}]
)
def test_what_is_no_reward_is_not_stored(path, wrong):
    with Journal(path, fresh(), **FAST) as live:
        which = live.select([1.0, 0.0]).id
        with refused(DataError, "not-finite", argument="reward"):
            live.reward(which, wrong)
        assert live.reward(which, np.float32(1.0)) == "ok"
    (row,) = rows_of(path)
    assert row["reward"] == 1.0


@pytest.mark.parametrize(
    ("context", "arms", "error", "code"),
    [
        ([1.0], None, DataError, "wrong-shape"),
        ([[[1.0, 2.0]]], None, DataError, "wrong-shape"),
        ([[1.0, 2.0], [3.0]], None, DataError, "not-numbers"),
        ([[1.0, 2.0], [3.0, np.inf]], None, DataError, "not-finite"),
        ([[1.0, 2.0, 3.0]], None, DataError, "wrong-shape"),
        ([[1.0, 2.0]], ["a", "a"], ParameterError, "duplicate-name"),
        ([[1.0, 2.0]], "a", ParameterError, "wrong-type"),
        ([[1.0, 2.0]], 7, ParameterError, "wrong-type"),
        ([1.0, np.nan], None, DataError, "not-finite"),
        ([1.0, "x"], None, DataError, "not-numbers"),
        (3.0, None, DataError, "wrong-shape"),
        ([1.0, 2.0], ["z"], ParameterError, "unknown-arm"),
        ([1.0, 2.0], [], ParameterError, "empty"),
    ],
)
def test_what_is_no_decision_is_not_stored(path, context, arms, error, code):
    with Journal(path, fresh(), **FAST) as live:
        with refused(error, code):
            live.select(context, arms)
        with refused(ParameterError, "duplicate-name", argument="arm"):
            live.add_arm("a")
        with refused(ParameterError, "wrong-type", argument="arm"):
            live.add_arm(1.5)
        assert live.select([1.0, 2.0]).id.startswith("1-")
        assert live.verify() == 1


@pytest.mark.parametrize("options", [{}, {"min_propensity": 0.05}, {"first_pulls": 4}, {"half_life": 20}])
def test_contexts_together_are_decided_as_one_by_one(path, tmp_path, options):
    contexts = np.random.default_rng(1).random((40, 2))
    with Journal(path, fresh(**options), **FAST, snapshot_every=7) as many:
        batch = many.select(contexts, (name for name in ("c", "a")))
        assert {decision.arms for decision in batch} == {("c", "a")}
        assert many.reward([d.id for d in batch], contexts[:, 0]) == ["ok"] * 40
        assert many.select(np.empty((0, 2))) == []
        with refused(ParameterError, "many-contexts", argument="key"):
            many.select(contexts, key="one")
        plain = fresh(**options)
        if "half_life" not in options:
            for context, decision in zip(contexts, batch, strict=True):
                plain.update(context, decision.arm, context[0])
            assert learned(many.bandit) == learned(plain)
    with Journal(path) as again:
        assert again.verify() == 40
        assert [row["id"] for row in again.rows()] == [d.id for d in batch]


def test_contexts_together_are_written_all_or_none(path, monkeypatch):
    contexts = np.random.default_rng(1).random((40, 2))
    with Journal(path, fresh(), **FAST) as live:
        write = live._store.execute_many

        def interrupted(statement, rows):
            write(statement, rows[:20])
            raise KeyboardInterrupt

        monkeypatch.setattr(live._store, "execute_many", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.select(contexts)
        monkeypatch.undo()
        assert list(live.rows()) == []
        live.select(contexts[0])
        assert live.verify() == 1


# -- opening -------------------------------------------------------------------------------------------------


def test_an_existing_journal_needs_no_bandit_and_accepts_the_one_it_began_with(path):
    used(path)
    with Journal(path) as live:
        live.add_arm("new")
        now = live.bandit
    for fits in (fresh(), fresh(seed=99), fresh(arms=("a", "b", "c", "new")), now):
        with Journal(path, fits) as live:
            assert learned(live.bandit) == learned(now)


@pytest.mark.parametrize(
    ("bandit", "message"),
    [
        (fresh(arms=("a", "b")), r"its arms is \['a', 'b'\], the journal's is \['a', 'b', 'c'\]"),
        (fresh(arms=("a", "c", "b")), "its arms is"),
        (fresh(dim=3), "it has 3 features, the journal's has 2"),
        (fresh(alpha=0.6), "its settings is .*0.6"),
        (fresh(prior_precision=2.0), "it differs from the journal's in `prior_precision`"),
        (
            fresh().update([1.0, 1.0], "a", 1.0),
            "it differs from the journal's in `gram`: different construction or other rewards",
        ),
    ],
)
def test_a_bandit_that_does_not_fit_is_refused(path, bandit, message):
    used(path)
    before = path.read_bytes()
    with refused(ParameterError, "bandit-mismatch", argument="bandit"):
        Journal(path, bandit)
    assert path.read_bytes() == before


def test_a_journal_goes_on_from_what_a_bandit_knows_and_leaves_it_alone(path):
    bandit = fresh().update([1.0, 1.0], "a", 1.0)
    before = bandit.to_bytes()
    with Journal(path, bandit, **FAST) as live:
        live.reward(live.select([1.0, 0.0]).id, 1.0)
        assert sum(live.bandit.pulls.values()) == 2
        live.bandit.update([1.0, 0.0], "a", 5.0)  # of a copy
        assert sum(live.bandit.pulls.values()) == 2
    assert bandit.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"synchronous": "OFF"}, "unknown-option"),
        ({"snapshot_every": 0}, "integer-range"),
        ({"timeout": -1}, "not-positive"),
        ({"bandit": "x"}, "wrong-type"),
        ({"path": ":memory:"}, "wrong-type"),
        ({"path": ""}, "wrong-type"),
        ({"path": 3.5}, "wrong-type"),
    ],
)
def test_wrong_arguments(path, arguments, code):
    with refused(ParameterError, code):
        Journal(**({"path": path, "bandit": fresh()} | arguments))


def test_odd_names_of_files_and_arms(tmp_path):
    arms = ["ü 1", "\ud800", "x\0y", "'; DROP TABLE event;", 2**70, -5, "-5", '"']
    path = tmp_path / "a?b#c%20 ü.db"
    with Journal(path, fresh(arms=arms), **FAST) as live:
        for arm in arms:
            assert live.reward(live.select([1.0, 0.0], arms=[arm]).id, 1.0) == "ok"
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]
    with Journal(os.fsencode(path)) as live:
        assert [row["arm"] for row in live.rows()] == arms
        assert set(live.bandit.pulls.values()) == {1}
        for suffix in ("csv", "parquet", "jsonl"):
            assert live.export(tmp_path / f"x.{suffix}") == len(arms)


def test_a_missing_folder_and_a_missing_file(tmp_path):
    with refused(JournalError, "not-readable"):
        Journal(tmp_path / "no" / "j.db", fresh())
    with refused(JournalError, "not-readable"):
        Journal(tmp_path, fresh())
    with pytest.raises(FileNotFoundError, match="no bandit to start one"):
        Journal(tmp_path / "j.db")
    assert not list(tmp_path.iterdir())
    (tmp_path / "j.db").touch()
    with refused(StateFileError, "wrong-format"):
        Journal(tmp_path / "j.db")
    with Journal(tmp_path / "j.db", fresh()) as live:
        assert live.bandit.decisions == 0


def test_a_closed_journal_says_so(path):
    live = Journal(path, fresh())
    live.close()
    live.close()
    assert "closed" in repr(live)
    for call in (
        lambda: live.select([1.0, 2.0]),
        lambda: live.reward("1-0000000000000000", 1.0),
        lambda: live.bandit,
        lambda: list(live.rows()),
        live.compact,
        live.verify,
    ):
        with refused(JournalError, "closed"):
            call()


# -- files that are not right ----------------------------------------------------------------------------------


def foreign(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize("bandit", [None, fresh()], ids=["alone", "with a bandit"])
def test_foreign_files_are_refused_and_not_touched(path, tmp_path, bandit):
    cases = {
        "text": lambda: path.write_bytes(b"hello, this is no database at all" * 10),
        "short": lambda: path.write_bytes(b"SQLite format 3\0"),
        "state": lambda: fresh().save(path),
        "other": lambda: foreign(path, "CREATE TABLE users (name)"),
        "named": lambda: foreign(path, "PRAGMA application_id = 77"),
    }
    for make in cases.values():
        path.unlink(missing_ok=True)
        make()
        before = path.read_bytes()
        with pytest.raises(StateFileError, match=r"not a journal"):
            Journal(path, bandit)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("PRAGMA user_version = 3", "wrong-version"),
        ("PRAGMA user_version = -1", "wrong-version"),
        ("CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END", "damaged-file"),
        ("DROP INDEX reward_of", "damaged-file"),
        ("ALTER TABLE decision ADD COLUMN more", "damaged-file"),
        ("DROP TABLE snapshot", "damaged-file"),
        ("DELETE FROM entry", "missing-event"),
        ("DELETE FROM entry WHERE seq > 0", "damaged-file"),
        ("DELETE FROM journal", "wrong-version"),
        ("DELETE FROM snapshot", "damaged-file"),
        ("UPDATE snapshot SET state = x'00'", "wrong-format"),
        ("UPDATE snapshot SET state = 'text'", "damaged-file"),
    ],
)
def test_files_that_were_changed_are_refused(path, statement, code):
    used(path, snapshot_every=10)
    foreign(path, statement)
    with refused(StateFileError, code):
        Journal(path)


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ({"seq": 3}, {"kind": "evil"}),
        ({"seq": 3}, {"kind": "load"}),
        ({"seq": 5}, {"reward": None}),
        ({"seq": 5}, {"reward": np.inf}),
        ({"seq": 5}, {"number": 2000}),
        ({"seq": 5}, {"place": 7}),
        ({"seq": 5}, {"kind": "add_arm", "stream": None, "options": '{"arm": "a"}'}),
        ({"seq": 5}, {"kind": "add_arm", "stream": None, "options": '{"arm": "z", "x": 1}'}),
        ({"seq": 5}, {"kind": "add_arm", "stream": None, "options": "[]"}),
        ({"seq": 5}, {"kind": "add_arm", "stream": None}),
        ({"seq": 15}, {"seq": 16}),
        ({"seq": 15}, {"seq": 2**62}),
        (3, {"context": b"123"}),  # of a decision whose reward is learned
        (3, {"context": np.array([np.nan, 1.0]).tobytes()}),
        (3, {"context": np.zeros(3).tobytes()}),
        (3, {"context": None}),
        (3, {"arms": "["}),
        (3, {"arms": "3"}),
        (3, {"arm": "{"}),
        (3, {"arms": "[" * 100_000}),
        (3, {"options": '{"clock": 7}'}),
    ],
)
def test_forged_rows_with_the_right_checksum_are_refused(path, where, fields):
    used(path)
    rewrite(path, where, **fields)
    with pytest.raises(StateFileError) as caught:
        Journal(path)
    assert caught.value.code in ("damaged-file", "missing-event")


def test_forged_decisions_without_a_reward_are_refused_by_verify(path):
    used(path)
    for fields in ({"arms": '["z"]'}, {"context": b"123"}, {"seq": 77}, {"position": -1}):
        rewrite(path, 2, **fields)
        with Journal(path) as live, pytest.raises(StateFileError) as caught:
            live.verify()
        assert caught.value.code in ("damaged-file", "decision-differs")


def test_a_choice_that_was_changed_is_noticed(path):
    used(path)
    recorded = rows_of(path)[4]["arm"]
    rewrite(path, 5, arm=json.dumps(next(arm for arm in "abc" if arm != recorded)))
    with Journal(path) as live, refused(StateFileError, "decision-differs", event=5):
        live.verify()


def outcome(path):
    """What a file gives: its rows and its bandit, or our error."""
    try:
        with warnings.catch_warnings(), Journal(path, timeout=1) as live:
            warnings.simplefilter("ignore")
            found = list(live.rows()), learned(live.bandit)
            live.verify()
            return found
    except StateFileError:
        return None


def test_damaged_and_truncated_files_are_refused_or_harmless(path, tmp_path):
    used(path, snapshot_every=1000)
    content, right, broken = path.read_bytes(), outcome(path), tmp_path / "broken.db"
    dice = random.Random(5)
    lengths = [*range(0, len(content), 4096), *(dice.randrange(len(content)) for _ in range(20))]
    for length in lengths[1:]:
        broken.write_bytes(content[:length])
        found = outcome(broken)
        assert found is None or (length % 4096 and found == right), length
    harmless = 0
    for _ in range(120):
        flipped = bytearray(content)
        flipped[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        broken.write_bytes(flipped)
        found = outcome(broken)
        assert found in (None, right)
        harmless += found is not None
        for beside in tmp_path.glob("broken.db-*"):
            beside.unlink()
    assert harmless < 120


def test_a_damaged_snapshot_falls_back_on_an_older_one(path):
    used(path, snapshot_every=10)
    with Journal(path) as live:
        right = learned(live.bandit)
    foreign(path, "UPDATE snapshot SET state = x'00' WHERE seq = (SELECT max(seq) FROM snapshot)")
    with Journal(path) as live:
        assert learned(live.bandit) == right


# -- a machine that refuses ------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(disk, mode):
    path, plain, told = disk.path / "j.db", fresh(), []
    live = Journal(path, fresh(), synchronous=mode, snapshot_every=50)
    failures = []
    for room in (8, 3, 20, 1, 60):
        disk.room(room)
        for _ in range(400):
            try:
                decision = live.select([1.0, len(told)])
                told.append(decision.id)
                live.reward(decision.id, 1.0)
            except JournalError as error:
                failures.append(error)
                break
    assert len(failures) == 5
    assert all(error.code in ("disk-full", "not-readable") for error in failures), [str(error) for error in failures]
    disk.room(2000)
    live.reward(live.select([0.0, 0.0]).id, 1.0)
    rows = list(live.rows())
    assert [row["id"] for row in rows if row["id"] in set(told)] == told
    for row in rows:
        if row["reward"] is not None:
            plain.update(row["context"], row["arm"], 1.0)
    assert learned(live.bandit) == learned(plain)
    now = learned(live.bandit)
    live.close()
    with Journal(path) as live:
        assert learned(live.bandit) == now
        live.verify()


def in_a_child(work, rights=False):
    """Run ``work`` in a forked process, as a user without rights unless told; return what it returned or raised."""
    reader, pipe = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if not rights and os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(pipe, str(said).encode()[:60_000])
        os._exit(0)
    os.close(pipe)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said


def test_a_file_that_may_only_be_read(tmp_path):
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "j.db"
        used(path)
        path.chmod(0o444)
        before = path.read_bytes()

        def reading():
            with Journal(path) as live:
                return sum(1 for _ in live.rows())

        def writing():
            with Journal(path) as live:
                live.select([1.0, 0.0])

        said = in_a_child(reading)
        assert said == "30" or said.startswith("JournalError"), said  # SQLite may need files beside it to read
        said = in_a_child(writing)
        assert said.startswith("JournalError"), said
        assert "no permission" in said
        assert path.read_bytes() == before
        folder.chmod(0o777)  # now it can be read, and still not written
        assert in_a_child(reading) == "30"
        said = in_a_child(writing)
        assert said.startswith("JournalError"), said
        assert "it cannot be written" in said


def test_a_file_that_is_locked_for_long(path):
    used(path)
    live = Journal(path, timeout=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with refused(JournalError, "lock-timeout"):
        live.select([1.0, 0.0])
    assert len(list(live.rows())) == 30  # reading goes on
    other.execute("ROLLBACK")
    assert live.verify() == 30  # what could not be written was not taken
    live.select([1.0, 0.0])
    assert len(list(live.rows())) == 31
    other.close()
    live.close()


# -- processes and threads -------------------------------------------------------------------------------------


def test_a_fork_in_the_middle(path):
    live = Journal(path, fresh(), **FAST)
    mine = [live.select([1.0, 0.5]) for _ in range(5)]

    def work():
        found = [live.select([1.0, 0.5]) for _ in range(20)]
        statuses = [live.reward(decision.id, 1.0) for decision in (*mine, *found)]
        return json.dumps([[(decision.id, decision.score) for decision in found], statuses])

    reader = threading.Thread(target=lambda: [live.select([0.0, 1.0]) for _ in range(200)])
    reader.start()  # a thread that writes while the process forks
    theirs, statuses = json.loads(in_a_child(work, rights=True))
    reader.join()
    assert statuses == ["ok"] * 25
    mine += [live.select([1.0, 0.5]) for _ in range(20)]
    ids = [decision.id for decision in mine] + [each for each, _ in theirs]
    assert len(set(ids)) == len(ids) == 45
    assert {each[-16:] for each, _ in theirs} != {mine[0].id[-16:]}
    assert not {score for _, score in theirs} & {decision.score for decision in mine}
    assert sum(live.bandit.pulls.values()) == 25
    assert live.verify() == 245
    live.close()


def test_a_journal_can_be_sent_to_another_process(path):
    used(path)
    with Journal(path, snapshot_every=7) as live, pickle.loads(pickle.dumps(live)) as twin:
        assert twin.reward(twin.select([1.0, 0.0]).id, 1.0) == "ok"
        assert learned(live.bandit) == learned(twin.bandit)


def test_a_file_that_was_taken_away_is_noticed(path, tmp_path):
    used(path)
    live = Journal(path)
    path.rename(tmp_path / "elsewhere.db")
    for call in (lambda: live.select([1.0, 0.0]), lambda: list(live.rows()), live.compact):
        with refused(JournalError, "file-moved"):
            call()
    (tmp_path / "elsewhere.db").rename(path)
    live.select([1.0, 0.0])
    assert len(list(live.rows())) == 31
    path.rename(tmp_path / "elsewhere.db")
    used(path)
    for call in (lambda: live.select([1.0, 0.0]), live.close):
        with refused(JournalError, "file-moved"):
            call()


def test_threads_share_a_journal(path):
    live, told, wrong = Journal(path, fresh(), **FAST), [], []

    def work(number):
        try:
            for i in range(40):
                decision = live.select([number, i])
                told.append(decision.id)
                assert live.reward(decision.id, 1.0) == "ok"
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(set(told)) == 320
    assert sum(live.bandit.pulls.values()) == 320
    assert live.verify() == 320
    live.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # see below
def test_interrupts_at_random_moments_leave_the_bandit_right(path):
    """A signal whose handler raises: whatever it interrupts, memory and file agree afterwards."""
    live, told, caught = Journal(path, fresh(), snapshot_every=20, **FAST), [], 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    dice, deadline = random.Random(), time.monotonic() + 60
    try:
        while caught < 60 and time.monotonic() < deadline:
            try:
                # again after half a second: Python drops what a handler raises in a weakref callback or destructor
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, 2e-3), 0.5)
                while True:
                    decision = live.select([1.0, 0.5])
                    told.append(decision.id)
                    live.reward(decision.id, 1.0)
            except KeyboardInterrupt:
                caught += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    now = learned(live.bandit)
    live._replica.bandit = None  # rebuilt from the file
    assert learned(live.bandit) == now
    assert set(told) <= {row["id"] for row in live.rows()}
    live.verify()
    live.close()


def killed(folder, kills, kind):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    script = [sys.executable, "-W", "error", _journal_writers.__file__, str(folder), str(kills), str(seed), kind]
    done = subprocess.run(script, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert "acknowledged" in done.stdout


@pytest.mark.parametrize("kind", ["arms", "items"])
def test_ten_kills_among_four_writers(tmp_path, kind):
    killed(tmp_path, 10, kind)


@pytest.mark.slow  # a read in flight when the server dies may end in a JournalError, which the writers do not retry
def test_kills_of_writers_and_of_the_server(server):
    killed("postgres", 6, "arms")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "items"])
def test_two_hundred_kills_among_four_writers(tmp_path, kind):
    killed(tmp_path, 200, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "items"])
def test_two_hundred_kills_of_writers_and_of_the_server(server, kind):
    killed("postgres", 200, kind)


# -- reading ---------------------------------------------------------------------------------------------------


def test_rows_are_the_decisions_with_their_rewards(path):
    with Journal(path, fresh(), **FAST) as live:
        began = time.time()
        first = live.select([1.0, 2.0], arms=["c", "a"])
        live.add_arm("new")
        second = live.select(np.array([3, 4]))
        assert second.arms == ("a", "b", "c", "new")
        live.reward(second.id, -2.0)
        rows = list(live.rows())
    for row, decision in zip(rows, (first, second), strict=True):
        expected = decision.to_dict()
        del expected["version"]
        assert {name: row[name] for name in expected} == expected
        assert began <= row["time"] <= time.time()
    assert [row["reward"] for row in rows] == [None, -2.0]
    assert rows[0]["reward_time"] is None
    assert rows[1]["reward_time"] >= rows[1]["time"]


def test_exports_hold_what_rows_hold(path, tmp_path):
    import pandas as pd

    used(path, steps=50)
    rows = rows_of(path)
    columns = ["id", "time", "context", "arms", "arm", "propensity", "score", "reward", "reward_time", "note"]
    with Journal(path) as live:
        frame = live.to_pandas()
        for suffix in ("parquet", "csv", "jsonl"):
            assert live.export(tmp_path / f"log.{suffix}") == 50
        with refused(ParameterError, "unknown-option", argument="path"):
            live.export(tmp_path / "log.xlsx")
    assert list(frame.columns) == list(rows[0]) == columns
    assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == rows
    parquet, text = pd.read_parquet(tmp_path / "log.parquet"), pd.read_csv(tmp_path / "log.csv")
    assert list(parquet.columns) == list(text.columns) == columns
    for table, lists in ((frame, list), (parquet, list), (text, json.loads)):
        for name in ("id", "arm"):
            assert table[name].tolist() == [row[name] for row in rows]
        for name in ("propensity", "score"):
            np.testing.assert_allclose(table[name], [row[name] for row in rows], rtol=1e-15)  # of pandas' reader
        for name in ("context", "arms"):
            assert [lists(cell) for cell in table[name]] == [row[name] for row in rows]
        rewards = np.array([row["reward"] for row in rows], dtype=float)
        np.testing.assert_allclose(table["reward"], rewards, rtol=1e-15)
        seconds = pd.to_datetime(table["time"], utc=True).map(lambda each: each.timestamp())
        np.testing.assert_allclose(seconds, [row["time"] for row in rows], atol=1e-6, rtol=0)
        assert table["reward_time"].isna().tolist() == [row["reward_time"] is None for row in rows]


def test_an_export_that_fails_leaves_the_old_file(path, tmp_path):
    used(path)
    target = tmp_path / "log.csv"
    target.write_text("old")
    rewrite(path, 20, arms="{", snapshots=True)
    with Journal(path) as live, refused(StateFileError, "damaged-file"):
        live.export(target)
    assert target.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


def test_an_empty_journal_gives_an_empty_table(path, tmp_path):
    with Journal(path, fresh()) as live:
        assert len(live.to_pandas()) == 0
        assert live.export(tmp_path / "x.parquet") == live.export(tmp_path / "x.csv") == 0
        assert live.verify() == 0
        assert live.compact() == 0


def test_compaction_keeps_the_bandit_and_drops_what_it_is_told(path):
    behind = Journal(path, fresh(), **FAST)
    ids = used(path, steps=600)
    with Journal(path, **FAST) as live:
        now = learned(live.bandit)
        with refused(ParameterError, "not-a-time", argument="before"):
            live.compact("yesterday")
        assert live.compact() == 0
        assert len(list(live.rows())) == 600
        size = path.stat().st_size
        cut = datetime.now(UTC)
        late = live.select([1.0, 1.0])
        assert live.compact(before=cut) == 600
        assert path.stat().st_size < size / 2
        assert live.reward(ids[1], 1.0) == live.reward(ids[0], 1.0) == "unknown"
        assert live.reward(late.id, 1.0) == "ok"
        assert [row["id"] for row in live.rows()] == [late.id]
        assert live.rows().__next__()["arms"] == ["a", "b", "c"]
        then = learned(live.bandit)
        assert then != now
        live.select([1.0, 1.0])
        assert live.compact(before=time.time() + 10) == 1  # all but the latest
        assert live.reward(live.select([1.0, 1.0]).id, 2.0) == "ok"
        then = learned(live.bandit)
        assert learned(behind.bandit) == then  # a process that had not seen what was dropped
        behind.close()
        with refused(StateFileError, "missing-event", event=1):
            live.verify()
    with Journal(path, fresh()) as live:
        assert learned(live.bandit) == then


def test_propensities_that_are_not_known_are_left_out(path):
    settings = BanditSettings(0.5, draws=10, clip=True)
    with Journal(path, fresh(settings=settings, alpha=None), **FAST) as live:
        decision = live.select([1.0, 0.0])
        with pytest.raises(PrudentError):
            decision.propensity  # noqa: B018
        assert next(live.rows())["propensity"] is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": "by arm", "first_pulls": 2},
        {"half_life": 20, "min_propensity": 0.1},
        {"half_life": timedelta(seconds=0.05)},
        {"alpha": Decay(0.9, half=10), "intercept": False},
    ],
    ids=str,
)
def test_whatever_the_bandit_learns_comes_back(path, options):
    """Learned noise, first pulls, floors, evidence that fades with decisions or with time, levels that fall."""
    options = {"arms": ["a", "b", "c"], "dim": 2, "rng": 3} | options
    rng, ids = np.random.default_rng(0), []
    live = Journal(path, LinearBandit(**options), snapshot_every=19, **FAST)
    for step in range(120):
        ids.append(live.select(rng.random(2), ["a", "b"] if step % 5 == 0 else None).id)
        if step > 20:
            live.reward(ids[step - 20], rng.normal())
        if step == 60:
            live.add_arm("d", like=["a", "b"])
            live.forget(0.9)
        if step % 17 == 0:
            live._replica.bandit = None  # as after a crash: from the last snapshot
    now = learned(live.bandit)
    live._replica.bandit = None
    assert learned(live.bandit) == now
    assert live.verify() == 120
    live.close()
    with Journal(path, LinearBandit(**options)) as again:
        assert learned(again.bandit) == now


@pytest.mark.parametrize(
    ("made", "kernels"),
    [
        ("LinearBandit(2, dim=1)", "step.decide_one, step.learn_one"),
        ("SharedLinearBandit(1)", "items.item_moments, items.draw_scores"),
    ],
)
def test_kernels_are_there_before_anybody_waits(tmp_path, made, kernels):
    """A kernel that is compiled inside a transaction would keep other processes from their turn, for a minute."""
    program = (
        "import prudent as pr; from prudent.bandits.kernels import items, step; "
        f"live = pr.Journal({str(tmp_path / 'j')!r}, pr.{made}); "
        f"print([len(each.signatures) > 0 for each in ({kernels})], live.bandit.decisions)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert told.stdout == "[True, True] 0\n"
