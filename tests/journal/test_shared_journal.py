"""The journal of a bandit with shared features: slates, exactly-once rewards, and the bandit bit for bit."""

import json
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from _learned import learned
from _rewrite import execute, rewrite
from refusals import refused

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.errors import DataError, ParameterError, StateFileError
from prudent.journal import Journal

FAST = {"synchronous": "NORMAL"}
NAMES = ["a", "b", "c", 7]


def fresh(dim=2, seed=3, **options):
    return SharedLinearBandit(dim, rng=seed, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def used(path, bandit=None, steps=20, **options):
    """A journal with some slates and rewards; returns the ids of all places."""
    rng = np.random.default_rng(0)
    ids = []
    with Journal(path, bandit or fresh(), **FAST, **options) as live:
        for i in range(steps):
            decision = live.select(rng.normal(size=(4, 2)), NAMES, top=1 + i % 3)
            ids += decision.ids
            live.reward(ids[:: 1 + i % 2][-2:], rng.normal(size=len(ids[:: 1 + i % 2][-2:])))
    return ids


OPTIONS = [
    {},
    {"alpha": 0.7, "offsets": True, "min_propensity": 0.05},
    {"draws": "joint", "alpha": 0.5, "offsets": True, "half_life": 7},
    {"noise_sd": 0.5, "half_life": timedelta(milliseconds=50), "intercept": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_interruptions_leave_the_bandit_identical(path, options):
    rng = np.random.default_rng(1)
    plain = fresh(**options)
    rewards, seen = {}, []
    live = Journal(path, fresh(**options), snapshot_every=7, **FAST)
    for i in range(60):
        rows, top = rng.normal(size=(4, 2)), 1 + i % 3
        arms = None if i % 4 == 0 and not options.get("offsets") else NAMES
        decision = live.select(rows, arms, top=top)
        again = live.as_of(decision.id).select(rows, arms, top)
        assert (decision.slate, decision.scores.tolist()) == (again.slate, again.scores.tolist())
        assert decision.propensity == again.propensity
        assert len(set(decision.ids)) == top
        assert decision.ids[0] == decision.id
        for place, id in enumerate(decision.ids):
            seen.append((id, decision.chosen[place], decision.slate[place]))
        id, row, arm = seen.pop(rng.integers(len(seen)))  # late and in any order
        rewards[id] = float(rng.normal())
        assert live.reward(id, rewards[id]) == "ok"
        assert live.reward(id, 5.0) == "duplicate"
        plain.update(row, [arm], rewards[id])
        if i % 9 == 0:
            live.close()
            live = Journal(path, **FAST)
        elif i % 9 == 5:
            live._replica.bandit = None  # as after an interrupt: rebuilt from the file
        elif i % 9 == 7:
            live.forget(0.9)
            plain.forget(0.9)
    if "half_life" not in options:  # else evidence fades with decisions, or with the clock
        assert learned(live.bandit) == learned(plain)
    now = learned(live.bandit)
    assert live.verify() == 60
    found = {row["id"]: row["reward"] for row in live.rows()}
    assert {id: reward for id, reward in found.items() if reward is not None} == rewards
    live.close()
    with Journal(path, fresh(**options)) as live:  # the bandit it began with fits
        assert learned(live.bandit) == now


def test_two_open_journals_are_one(path):
    rng = np.random.default_rng(2)
    one, two, plain = Journal(path, fresh(), **FAST), Journal(path, fresh(), **FAST), fresh()
    for _ in range(20):
        for live in (one, two):
            rows = rng.normal(size=(3, 2))
            decision = live.select(rows, top=2)
            assert (two if live is one else one).reward(decision.ids, [1.0, 0.5]) == ["ok", "ok"]
            plain.update(decision.chosen, decision.slate, [1.0, 0.5])
    assert learned(one.bandit) == learned(two.bandit) == learned(plain)
    one.close()
    two.close()


def test_rows_hold_what_evaluation_and_learning_need(path, tmp_path):
    used(path, fresh(offsets=True))
    with Journal(path) as live:
        rows = list(live.rows())
        assert len(rows) == sum(1 + i % 3 for i in range(20))
        for row in rows:
            assert row["features"][row["arms"].index(row["arm"])] == row["context"]
            assert (row["propensity"] is None) == (row["place"] > 0)
            assert row["arms"] == NAMES
        paid = [row for row in rows if row["reward"] is not None]
        again = SharedLinearBandit.from_log(pd.DataFrame(paid)[["context", "arm", "reward"]], offsets=True)
        assert again.pulls == {name: count for name, count in live.bandit.pulls.items() if count}
        table = live.to_pandas()
        assert table["place"].tolist() == [row["place"] for row in rows]
        for suffix in ("parquet", "csv", "jsonl"):
            assert live.export(tmp_path / f"log.{suffix}") == len(rows)
    back = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert back == rows
    frame = pd.read_csv(tmp_path / "log.csv")
    assert [json.loads(text) for text in frame["features"]] == [row["features"] for row in rows]
    frame = pd.read_parquet(tmp_path / "log.parquet")
    assert [json.loads(name) for name in frame["arm"]] == [row["arm"] for row in rows]
    np.testing.assert_array_equal(np.stack(frame["features"].iloc[3]).tolist(), rows[3]["features"])


def test_slates_together_are_written_all_or_none(path):
    rng = np.random.default_rng(4)
    slates = rng.normal(size=(5, 3, 2))
    with Journal(path, fresh(), **FAST) as live:
        decisions = live.select(slates, arms=iter("abc"), top=2)
        assert {each.arms for each in decisions} == {("a", "b", "c")}
        assert live.verify() == 5
        before = learned(live.bandit)
        slates[3, 1, 0] = np.nan
        with refused(DataError, "not-finite", argument="context"):
            live.select(slates)
        with refused(ParameterError, "integer-range", argument="top"):
            live.select(np.ones((2, 3, 2)), top=4)
        assert learned(live.bandit) == before
        assert len(list(live.rows())) == 10


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda live: live.select([1.0, 2.0]), DataError, "wrong-shape"),
        (lambda live: live.select([[1.0, 2.0, 3.0]]), DataError, "wrong-shape"),
        (lambda live: live.select([[1.0, 2.0]], arms=["a", "b"]), ParameterError, "wrong-shape"),
        (lambda live: live.select([[1.0, 2.0]] * 2, arms=["a", "a"]), ParameterError, "duplicate-name"),
        (lambda live: live.select([[1.0, 2.0]], top=2), ParameterError, "integer-range"),
        (lambda live: live.select(), DataError, "missing-argument"),
        (lambda live: live.add_arm("z"), ParameterError, "no-arms"),
        (lambda live: live.remove_arm("z"), ParameterError, "no-arms"),
        (lambda live: live.forget(2.0), ParameterError, "probability-range"),
    ],
)
def test_what_cannot_be_is_not_stored(path, call, error, code):
    with Journal(path, fresh(), **FAST) as live:
        live.select([[1.0, 2.0]])
        before = learned(live.bandit)
        with refused(error, code):
            call(live)
        assert learned(live.bandit) == before
        assert len(list(live.rows())) == 1


def test_journals_of_one_kind_refuse_bandits_of_the_other(tmp_path):
    Journal(tmp_path / "items", fresh()).close()
    Journal(tmp_path / "arms", LinearBandit(2, 2)).close()
    with refused(ParameterError, "bandit-mismatch", argument="bandit"):
        Journal(tmp_path / "items", LinearBandit(2, 2))
    with refused(ParameterError, "bandit-mismatch", argument="bandit"):
        Journal(tmp_path / "arms", fresh())
    with refused(ParameterError, "bandit-mismatch", argument="bandit"):
        Journal(tmp_path / "items", fresh(alpha=0.5))
    with Journal(tmp_path / "arms") as live, refused(ParameterError, "no-slate", argument="top"):
        live.select([1.0, 2.0], top=2)


def test_compaction_drops_decisions_and_keeps_what_was_learned(path):
    ids = used(path)
    with Journal(path) as live:
        before = learned(live.bandit)
        assert live.compact(before=4e9) > 0
        assert learned(live.bandit) == before
        assert live.reward(ids[0], 1.0) == "unknown"
        for row in live.rows():
            assert row["context"] in row["features"]
        live.select(np.ones((2, 2)), top=2)
    with Journal(path) as live:
        assert learned(live.bandit) == before


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"arm": '"b"'}, "damaged-file"),
        ({"arm": "null"}, "damaged-file"),
        ({"arms": '{"a": 1}'}, "damaged-file"),
        ({"context": b"12345"}, "damaged-file"),
        ({"options": '{"slate": "ab"}'}, "damaged-file"),
        ({"options": '{"slate": ["zzz", "a"], "scores": [1.0, 0.0]}'}, "damaged-file"),
        ({"options": "[1]"}, "damaged-file"),
        ({"options": "[" * 100_000}, "damaged-file"),
        ({"score": 9.0}, "decision-differs"),
        ({"propensity": 0.9}, "decision-differs"),
    ],
)
def test_forged_decisions_with_the_right_checksum_are_refused(path, fields, code):
    used(path)
    fields = dict(fields)
    number = 2 if "score" not in fields else 1  # a slate of two; of one, whose score is in the row
    if fields.get("arm") == '"b"' and execute(path, "SELECT arm FROM decision WHERE number = 2") == [('"b"',)]:
        fields["arm"] = '"a"'  # another one than the first of the slate
    rewrite(path, number, **fields)
    with refused(StateFileError, code), Journal(path) as live:
        _ = list(live.rows()), live.verify()


def test_features_of_candidates_are_stored_once(path):
    rng = np.random.default_rng(0)
    catalogue = rng.normal(size=(300, 20))
    with Journal(path, SharedLinearBandit(20, rng=1), **FAST) as live:
        live.select(catalogue)
        size = path.stat().st_size + path.with_name(path.name + "-wal").stat().st_size
        before = execute(path, "SELECT count(*), sum(length(data)) FROM content")[0]
        for _ in range(50):
            live.select(catalogue)
        assert execute(path, "SELECT count(*), sum(length(data)) FROM content")[0] == before
        assert before[0] == 301
        changed = catalogue.copy()
        changed[7] += 1.0  # a new version of one item: its features, and the set of candidates
        live.select(changed)
        assert execute(path, "SELECT count(*) FROM content")[0] == (303,)
        few = live.select(catalogue[:5])
        assert execute(path, "SELECT count(*) FROM content")[0] == (304,)
        assert size > 48_000
        assert live.verify() == 53
        rows = list(live.rows())
        assert rows[-1]["features"] == catalogue[:5].tolist()
        assert rows[-1]["id"] == few.id
    execute(path, "DELETE FROM content WHERE hash = (SELECT min(hash) FROM content)")
    with Journal(path) as live, refused(StateFileError, "damaged-file"):
        list(live.rows())


def test_other_laws_of_time_and_names(path):
    frame = pd.DataFrame({"price": [1.0, 2.0], "age": [0.5, 0.1]}, index=["tea", "coffee"])
    with Journal(path, fresh(half_life=timedelta(hours=1)), **FAST) as live:
        decision = live.select(frame)
        assert decision.arm in ("tea", "coffee")
        assert live.reward(decision.id, 1.0) == "ok"
        row = next(live.rows())
        assert row["arms"] == ["tea", "coffee"]
