"""What holds in every store: the same suite on an SQLite file and on a PostgreSQL server."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from _learned import learned
from refusals import refused

from prudent.bandits import Decay, LinearBandit, SharedLinearBandit
from prudent.errors import DataError, ParameterError, StateFileError
from prudent.journal import Journal
from prudent.journal.store.rows import checksum_of


def fresh(arms=("a", "b", "c"), **options):
    return LinearBandit(arms, 2, **({"noise_sd": 1.0, "rng": 3} | options))


def in_children(count, work):
    """Run ``work(number)`` in forked processes at the same time; return what they returned, as JSON can hold it."""
    pipes = []
    for number in range(count):
        reader, pipe = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.write(pipe, json.dumps(work(number)).encode())
                os._exit(0)
            except BaseException as error:
                os.write(pipe, json.dumps(f"{type(error).__name__}: {error}").encode())
                os._exit(1)
        os.close(pipe)
        pipes.append((pid, reader))
    found = []
    for pid, reader in pipes:
        with os.fdopen(reader, "rb") as file:
            found.append(json.loads(file.read()))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, found[-1]
    return found


# -- decisions and rewards -------------------------------------------------------------------------------------


def test_answers_and_what_is_learned(place):
    live, plain = place(fresh()), fresh()
    decisions = [live.select([1.0, float(i)], ["c", "a"] if i % 2 else None) for i in range(6)]
    for i in (3, 0, 5, 1):
        assert live.reward(decisions[i].id, 0.25 * i) == "ok"
        assert live.reward(decisions[i].id, 0.25 * i) == "duplicate"
        plain.update([1.0, float(i)], decisions[i].arm, 0.25 * i)
    assert live.reward(["x", "7-00000000000000ff", decisions[2].id + "-1"], [1.0] * 3) == ["unknown"] * 3
    assert learned(live.bandit) == learned(plain)
    assert live.bandit.decisions == 6
    assert live.pending() == [decisions[2].id, decisions[4].id]
    assert live.pending(before=decisions[4].time) == [decisions[2].id]
    live.remove_arm("b")
    live.add_arm("d", like=["a"])
    found = live.select([0.0, 0.0], ["d"])
    live.remove_arm("d")
    assert live.reward(found.id, 1.0) == "arm removed"
    with refused(ParameterError, "unknown-arm"):
        live.remove_arm("b")
    assert live.verify() == 7
    other = place()
    assert learned(other.bandit) == learned(live.bandit)
    assert [row["id"] for row in other.rows()] == [*(decision.id for decision in decisions), found.id]


def test_odd_names_and_texts(place):
    arms = ["ü 1", "\ud800", "x\0y", "'; DROP TABLE entry;", 2**70, -5, "-5", '"', "%s", "?"]
    live = place(LinearBandit(arms, 1))
    for arm in arms:
        decision = live.select([1.0], [arm], key=f"key {arm!r}", note={"text": arm, "\0": None})
        assert live.reward(decision.id, 1.0) == "ok"
    assert [row["arm"] for row in live.rows()] == arms
    assert [row["note"]["text"] for row in live.rows()] == arms
    assert live.verify() == len(arms)


@pytest.mark.parametrize(
    "options",
    [
        {"first_pulls": 3},
        {"alpha": Decay(0.9, half=10)},
        {"half_life": 10},
        {"half_life": timedelta(milliseconds=50), "min_propensity": 0.1},
    ],
    ids=str,
)
def test_what_depends_on_the_number_of_decisions_is_repeated(place, options):
    """Two processes' worth of journals in turn: each counts what the other decided, and all of it is verified."""
    one, two = place(fresh(**options)), place()
    rng = np.random.default_rng(1)
    for i in range(60):
        live = (one, two)[i % 2]
        decision = live.select(rng.normal(size=2))
        if i % 3:
            (two, one)[i % 2].reward(decision.id, float(rng.normal()))
    assert one.bandit.decisions == two.bandit.decisions == 60
    assert one.verify() == 60
    if "first_pulls" in options:
        first = [row["arm"] for row in one.rows()][:9]
        assert {arm: first.count(arm) for arm in "abc"} == {"a": 3, "b": 3, "c": 3}


def test_slates(place):
    live = place(SharedLinearBandit(2, offsets=True, rng=1))
    rng = np.random.default_rng(2)
    for i in range(12):
        slate = live.select(rng.normal(size=(4, 2)), ["a", "b", "c", 7], top=1 + i % 3)
        assert live.reward(slate.ids[-1], 1.0) == "ok"
        assert live.pending() == [] or all(each not in live.pending() for each in slate.ids[-1:])
    assert len(live.pending()) == sum(i % 3 for i in range(12))
    assert all(live.knows(id) for id in slate.ids)
    assert not live.knows(f"{slate.id}-{len(slate.ids)}")
    assert live.verify() == 12


# -- many processes --------------------------------------------------------------------------------------------


def test_processes_decide_at_once_and_their_logs_say_the_truth(place, seed):
    """Counts of arms are within five standard errors of the sums of the logged propensities, replicas with lag.

    Three processes take 300 decisions each, with rewards, a floor, and a batch of old ids that keeps replicas behind.
    Decisions are independent given their states, so counts minus sums are a martingale with the variances p (1 - p).
    Three arms in each of two stores: false alarms below 1e-5.
    """
    place(fresh(min_propensity=0.05, alpha=0.5)).close()

    def work(number):
        rng, own, behind = np.random.default_rng([seed, number]), [], 0
        with Journal(place.path, **place.options, synchronous="NORMAL") as live:
            for i in range(300):
                decision = live.select(rng.normal(size=2))
                chances = dict(zip(decision.arms, decision.propensities.tolist(), strict=True))
                own.append([decision.id, decision.arm, decision.score, chances])
                behind = max(behind, live.lag.entries) if i % 20 == 0 else behind
                if i % 2:
                    value = float(rng.normal({"a": 0.5, "b": 0.0, "c": -0.5}[decision.arm]))
                    assert live.reward(decision.id, value) == "ok"
        return own, behind

    told = in_children(3, work)
    rows = [row for own, _ in told for row in own]
    assert len({row[0] for row in rows}) == 900
    assert len({row[2] for row in rows}) == 900  # no random number was used twice
    for arm in "abc":
        chances = np.array([row[3][arm] for row in rows])
        count = sum(row[1] == arm for row in rows)
        assert chances.min() >= 0.05 - 1e-9
        assert abs(count - chances.sum()) <= 5.0 * np.sqrt((chances * (1.0 - chances)).sum())
    with Journal(place.path, **place.options) as live:
        assert live.verify() == 900
        assert live.bandit.n_rewards == 450
        logged = {row["id"]: row["propensity"] for row in live.rows()}
        assert all(logged[row[0]] == pytest.approx(row[3][row[1]], abs=1e-9) for row in rows)


def test_lag_is_what_has_not_been_learned(place):
    one, two = place(fresh()), place()
    assert two.lag == (0, 0.0)
    for i in range(5):
        one.reward(one.select([1.0, float(i)]).id, 1.0)
    assert one.lag.entries == 0
    assert two.lag.entries == 5
    assert 0.0 < two.lag.seconds < 60.0
    deadline = time.monotonic() + 10.0
    while two.select([1.0, 1.0]) and two.lag.entries and time.monotonic() < deadline:
        pass
    assert two.lag == (0, 0.0)


def test_threads_commit_together(place):
    live, wrong = place(fresh()), []

    def work(number):
        try:
            for i in range(25):
                assert live.reward(live.select([number, i]).id, 1.0) == "ok"
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert live.bandit.n_rewards == 150
    assert live.verify() == 150


def test_answers_before_the_commit(place):
    live = place(fresh(), answer="before commit", group=0.002)
    decisions = [live.select([1.0, float(i)]) for i in range(300)]
    assert live.reward([decision.id for decision in decisions], [1.0] * 300) == ["ok"] * 300
    last = live.select([0.0, 0.0])
    other, deadline = place(), time.monotonic() + 20.0
    while last.id not in other.pending() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert other.pending() == [last.id]
    live.select([0.0, 1.0])
    live.close()
    assert other.verify() == 302


# -- keys and notes --------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_decision(place):
    one, two = place(fresh()), place()
    first = one.select([1.0, 0.0], ["a", "b"], key="request 1")
    for live in (one, two, place()):
        again = live.select([1.0, 0.0], ["a", "b"], key="request 1")
        told = ("id", "arm", "arms", "propensity", "score", "time")
        assert [getattr(again, name) for name in told] == [getattr(first, name) for name in told]
        assert json.loads(again.to_json())["id"] == first.id
        with refused(ParameterError, "not-recorded"):
            _ = again.mean
    assert two.reward(first.id, 1.0) == "ok"
    for context, arms in (([1.0, 5.0], ["a", "b"]), ([1.0, 0.0], None)):
        with refused(DataError, "key-reused", argument="key", id=first.id):
            two.select(context, arms, key="request 1")
    with refused(ParameterError, "wrong-type", argument="key"):
        one.select([1.0, 0.0], key=7)
    assert len(list(one.rows())) == one.bandit.decisions == one.verify() == 1


def test_the_same_key_at_the_same_time(place):
    place(fresh()).close()

    def work(number):
        with Journal(place.path, **place.options) as live:
            return [live.select([float(i), 1.0], key=f"request {i}").id for i in range(20)]

    told = in_children(3, work)
    assert told[0] == told[1] == told[2]
    live = place()
    assert live.verify() == len(list(live.rows())) == 20


def test_the_same_key_of_a_slate(place):
    live = place(SharedLinearBandit(1, rng=1))
    items = {"x": [1.0], "y": [2.0], "z": [3.0]}
    first, again = (live.select(items, top=2, key="k") for _ in range(2))
    assert (first.slate, first.ids, first.scores.tolist()) == (again.slate, again.ids, again.scores.tolist())
    assert again.chosen.tolist() == first.chosen.tolist()
    with refused(DataError, "key-reused"):
        live.select(items, top=1, key="k")


def test_notes_are_kept_and_erased(place, tmp_path):
    live = place(fresh())
    for i in range(6):
        live.select([1.0, float(i)], note={"user": f"u{i % 2}", "page": i})
    live.select([1.0, 9.0])
    assert [row["note"] for row in live.rows()][:2] == [{"user": "u0", "page": 0}, {"user": "u1", "page": 1}]
    assert live.erase({"user": "u1", "page": 77}) == 0
    assert live.erase({"user": "u1"}) == 3
    assert live.erase({"user": "u1"}) == 0
    assert [row["note"] is None for row in live.rows()] == [False, True, False, True, False, True, True]
    assert live.verify() == 7
    assert "u1" not in live.to_pandas()["note"].map(str).str.cat()
    for wrong in ({}, "u1"):
        with pytest.raises(ParameterError):
            live.erase(wrong)
    for wrong in ({"user": object()}, {3: "x"}, ["x"], {"x": float("nan")}):
        with refused(ParameterError, "wrong-type", argument="note"):
            live.select([1.0, 0.0], note=wrong)
    live._store.disconnect()
    with live._store._writing(ordered=False):
        live._store.execute("UPDATE note SET text = ? WHERE number = 1", '{"salt": "", "note": {"user": "me"}}')
    with refused(StateFileError, "note-differs", event=1):
        live.verify()


# -- windows ---------------------------------------------------------------------------------------------------


def test_rewards_are_held_until_the_window_closes(place):
    live = place(fresh(), window=timedelta(seconds=1000), default=-1.0)
    decisions = [live.select([1.0, float(i)]) for i in range(4)]
    assert live.reward(decisions[1].id, 5.0) == "ok"
    assert live.reward(decisions[1].id, 6.0) == "duplicate"
    assert live.bandit.n_rewards == 0
    assert live.expire() == 0
    assert live.pending() == [decision.id for decision in decisions]
    end = decisions[2].time + 1000.0
    assert live.expire(now=np.nextafter(end, np.inf)) == 3
    assert live.pending() == [decisions[3].id]
    assert [row["reward"] for row in live.rows()] == [-1.0, 5.0, -1.0, None]
    assert live.reward(decisions[1].id, 7.0) == "duplicate"
    assert live.reward(decisions[0].id, 7.0) == "late"
    assert live.expire(now=datetime.now(UTC) + timedelta(seconds=2000)) == 1
    plain = fresh()
    for decision, reward in zip(decisions, (-1.0, 5.0, -1.0, -1.0), strict=True):
        plain.update(decision.context, decision.arm, reward)
    assert learned(live.bandit) == learned(plain)
    assert live.verify() == 4
    assert place().bandit.n_rewards == 4  # the window is that of the journal
    with refused(ParameterError, "window-mismatch", argument="window"):
        place(window=5.0)


def test_provisional_rewards_are_revised(place):
    live = place(fresh(), window=1000.0, provisional=True)
    one, two = live.select([1.0, 0.0]), live.select([1.0, 1.0])
    assert [live.reward(one.id, value) for value in (1.0, 2.0, 1.5)] == ["ok", "revised", "revised"]
    assert live.expire(now=two.time + 2000.0) == 2
    assert [row["reward"] for row in live.rows()] == [1.5, 0.0]
    assert live.reward(one.id, 9.0) == "duplicate"


def test_windows_close_in_passing(place):
    live = place(fresh(), window=0.5)
    first = live.select([1.0, 0.0])
    assert live.reward(first.id, 1.0) == "ok"
    time.sleep(1.6)
    live.select([1.0, 0.0])
    assert live.reward(first.id, 1.0) == "duplicate"
    assert live.bandit.n_rewards >= 1


def test_windows_of_slates_close_place_by_place(place):
    live = place(SharedLinearBandit(1, rng=1), window=100.0)
    slates = [live.select([[1.0], [2.0], [3.0]], top=2) for _ in range(3)]
    assert live.reward(slates[1].ids[1], 4.0) == "ok"
    assert live.expire(now=time.time() + 1000.0) == 6
    assert [row["reward"] for row in live.rows()] == [0.0, 0.0, 0.0, 4.0, 0.0, 0.0]


def test_what_is_no_window(place):
    for arguments, code in (({"window": -1}, "not-positive"), ({"default": 1.0}, "missing-argument")):
        with refused(ParameterError, code):
            place(fresh(), **arguments)
    with refused(DataError, "wrong-reward"):
        place(LinearBandit(2, 1, rewards="bernoulli"), window=10.0, default=0.5)
    live = place(fresh())
    with refused(ParameterError, "no-window", argument="window"):
        live.expire()


# -- the past --------------------------------------------------------------------------------------------------


def test_states_of_the_past(place):
    live, rng = place(fresh(first_pulls=1), snapshot_every=7), np.random.default_rng(3)
    told, moments = [], []
    for _ in range(40):
        context = rng.normal(size=2)
        decision = live.select(context)
        told.append((decision, context, learned(live.bandit)))
        moments.append(time.time())
        live.reward(decision.id, float(rng.normal()))
    for decision, context, then in told[::6]:
        past = live.as_of(decision.id)
        assert learned(past) == then
        again = past.select(context)
        assert (again.arm, again.score, again.propensity) == (decision.arm, decision.score, decision.propensity)
        assert repr(decision.arm) in str(live.explain(decision.id))
    assert learned(live.as_of(moments[20])) == told[20][2]
    assert live.as_of(datetime.fromtimestamp(moments[0], UTC)).n_rewards == 0
    assert learned(live.as_of(time.time())) == learned(live.bandit)
    for wrong in ("x", "1-00000000000000aa"):
        with refused(ParameterError, "unknown-decision", argument="id"):
            live.as_of(wrong)
    assert [row["id"] for row in live.rows(since=moments[29])] == [each[0].id for each in told[30:]]


def test_decisions_of_others_are_recorded(place):
    live = place(fresh())
    which = live.record([1.0, 2.0], "b", 0.25, 3.0, note={"who": "rule"})
    later = live.record([1.0, 0.0], "a", 1.0)
    assert live.reward(later, 1.0) == "ok"
    assert live.reward(which, 1.0) == "duplicate"
    live.select([1.0, 1.0])
    plain = fresh().update([1.0, 2.0], "b", 3.0).update([1.0, 0.0], "a", 1.0)
    assert learned(live.bandit) == learned(plain)
    rows = list(live.rows())
    assert [(row["arm"], row["propensity"], row["score"]) for row in rows][:2] == [("b", 0.25, None), ("a", 1.0, None)]
    found = live.verify()
    assert found == 1
    assert "decisions that others took: 2" in found.gaps
    for wrong in (0.0, 1.5, float("nan"), "x"):
        with pytest.raises(ParameterError):
            live.record([1.0, 2.0], "b", wrong)
    with refused(ParameterError, "unknown-arm"):
        live.record([1.0, 2.0], "z", 0.5)


def test_decisions_of_others_between_items(place):
    live = place(SharedLinearBandit(2, rng=1))
    live.reward(live.record([1.0, 2.0], "tea", 0.5), 1.0)
    assert live.bandit.n_rewards == 1
    assert next(live.rows())["arm"] == "tea"


def test_signatures(place):
    key = bytes(range(32))
    live = place(fresh(), key=key)
    decisions = [live.select([1.0, float(i)], note={"i": i}) for i in range(5)]
    live.reward([decision.id for decision in decisions], [1.0] * 5)
    live.close()
    live = place(key=key)
    live.select([1.0, 1.0])
    found = live.verify()
    assert (found, found.signed, found.gaps) == (6, True, ())
    reader = place()
    with refused(ParameterError, "missing-key", argument="key"):
        reader.select([1.0, 0.0])


@pytest.mark.parametrize(
    "attack",
    ["UPDATE entry SET reward = 0.5, checksum = {} WHERE seq = 3", "UPDATE entry SET signature = NULL WHERE seq = 3"],
)
def test_an_edit_without_the_key_is_seen(place, attack):
    key = bytes(range(32))
    live = place(fresh(), key=key)
    for i in range(5):
        live.reward(live.select([1.0, float(i)]).id, 1.0)
    store = live._store
    with store.reading():
        (row,) = store._entry_rows("seq = ?", 3)
    with store._writing(ordered=True):
        assert store.execute(attack.format(checksum_of(row._replace(reward=0.5)))) == 1
    live.close()
    again = place(key=key)
    with refused(StateFileError, "wrong-signature", event=3):
        again.verify()


def test_held_reports_of_a_signed_journal(place):
    key = bytes(range(32))
    live = place(fresh(), key=key, window=1000.0, default=0.0)
    live.reward(live.select([1.0, 2.0]).id, 1.0)
    live.close()
    live = place(key=key)
    assert live.expire(time.time() + 2000.0) == 1
    assert (live.bandit.n_rewards, live.verify()) == (1, 1)
    decision = live.select([1.0, 2.0])
    live.reward(decision.id, 1.0)
    with live._store._writing(ordered=True):
        assert live._store.execute("UPDATE report SET reward = 100.0") > 0
    with refused(StateFileError, "damaged-file"):
        live.expire(time.time() + 2000.0)


def test_compaction(place):
    live = place(fresh())
    decisions = [live.select([1.0, float(i)]) for i in range(20)]
    live.reward([decision.id for decision in decisions[:10]], [1.0] * 10)
    now = learned(live.bandit)
    assert live.compact(before=decisions[15].time) == 15
    assert [live.knows(decision.id) for decision in decisions] == [False] * 15 + [True] * 5
    assert live.reward(decisions[0].id, 1.0) == "unknown"
    assert live.reward(decisions[15].id, 1.0) == "ok"
    assert learned(place().bandit) == learned(live.bandit) != now
