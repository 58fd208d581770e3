"""Processes that write to one journal and are killed at random moments: ``_journal_writers.py FOLDER KILLS SEED KIND``.

Each writer tells over a pipe what was acknowledged to it. In the end every acknowledged decision and reward must be in
the file once, and the bandit of the journal must be that of one process that does the same in the order of the file.
KIND is ``arms`` or ``items``: the journal of a LinearBandit, or of a SharedLinearBandit with slates.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.journal import Journal

WRITERS = 4


class Arms:
    """What the writers of a LinearBandit do: decisions, changes of the arms; and how one process repeats it."""

    def __init__(self):
        self._own = []

    def fresh(self):
        return LinearBandit(["a", "b", "c"], 3, alpha=0.5, noise_sd=1.0, rng=5)

    def begin(self, live):
        live.reward(live.select([0.0, 0.0, 1.0]).id, 1.0)

    def decide(self, live, dice):
        """Return what is acknowledged: id, arm, context and propensity of each event."""
        context, few = [dice.random() for _ in range(3)], dice.random() < 0.2
        decision = live.select(context, ["c", "a"] if few else None)
        return [(decision.id, decision.arm, context, decision.propensity)]

    def change(self, live, dice):
        if dice.random() < 0.5:
            self._own.append(f"{os.getpid()} {len(self._own)}")
            live.add_arm(self._own[-1])
        elif self._own:
            live.remove_arm(self._own.pop())

    def repeat(self, plain, event):
        """Decide again."""
        arms = event["arms"] and json.loads(event["arms"])
        assert plain.select(np.frombuffer(event["context"]), arms).arm == json.loads(event["arm"])
        return True

    def learn(self, plain, event, reward):
        if (pulled := json.loads(event["arm"])) in plain.arms:
            plain.update(np.frombuffer(event["context"]), pulled, reward)


class Items:
    """The same with slates of a SharedLinearBandit: items have offsets, and features get names on the way."""

    def fresh(self):
        return SharedLinearBandit(3, alpha=0.5, offsets=True, half_life=200, rng=5)

    def begin(self, live):
        slate = live.select({"a": [0.0, 0.0, 1.0], "b": [1.0, 0.0, 0.0], "c": [0.0, 1.0, 0.0]}, top=2)
        live.reward(slate.ids, [1.0, 0.0])

    def decide(self, live, dice):
        rows = {name: [dice.random() for _ in range(3)] for name in dice.sample("abcdefghi", 4)}
        if dice.random() < 0.5:  # in the order of the names, whoever writes first
            given = {name: dict(zip("zyx", reversed(row), strict=True)) for name, row in rows.items()}
            given[next(iter(given))] = dict(zip("xyz", next(iter(rows.values())), strict=True))
        else:
            given = rows
        slate = live.select(given, top=dice.choice([1, 3]))
        first = (slate.ids[0], slate.arm, [number for row in rows.values() for number in row], slate.propensity)
        further = zip(slate.ids[1:], slate.slate[1:], (rows[name] for name in slate.slate[1:]), strict=True)
        return [first, *((*words, None) for words in further)]

    def change(self, live, dice):
        live.forget(0.99)

    def repeat(self, plain, event):
        told = json.loads(event["options"] or "{}")
        if "of" in told:
            return False
        rows, names = np.frombuffer(event["context"]).reshape(-1, 3), json.loads(event["arms"])
        slate = plain.select(rows, names, len(told.get("slate", [0]))).slate
        assert list(slate) == told.get("slate", [json.loads(event["arm"])])
        return True

    def learn(self, plain, event, reward):
        rows, arm = np.frombuffer(event["context"]).reshape(-1, 3), json.loads(event["arm"])
        row = rows[json.loads(event["arms"]).index(arm)] if event["arms"] else rows[0]
        plain.update(row, arm, reward)


KINDS = {"arms": Arms, "items": Items}


def write_for_ever(kind, live, pipe, ids, dice):
    """Decide and report rewards, of these decisions and of one's own, some of them twice."""
    said = lambda *words: os.write(pipe, (json.dumps(words) + "\n").encode())  # noqa: E731
    while True:
        lot = dice.random()
        if lot < 0.5:
            for words in kind.decide(live, dice):
                said("decision", *words)
                ids.append(words[0])
        elif lot < 0.98 and ids:
            which = dice.choice(ids)
            value = dice.gauss(0.0, 1.0)
            said("reward", which, value, live.reward(which, value))
        else:
            kind.change(live, dice)


def start(kind, live, path, ids, dice):
    """Fork a writer; it goes on with the journal that is open here, or opens its own."""
    reader, pipe = os.pipe()
    inherit, mode, seed = dice.random() < 0.5, dice.choice(["FULL", "NORMAL"]), dice.random()
    pid = os.fork()
    if pid:
        os.close(pipe)
        os.set_blocking(reader, False)
        return pid, reader
    try:
        os.close(reader)
        mine = live if inherit else Journal(path, kind.fresh(), synchronous=mode, snapshot_every=200)
        write_for_ever(kind, mine, pipe, list(ids), random.Random(seed))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def drain(reader):
    parts = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except BlockingIOError:
            return parts
        if not part:
            return parts
        parts += part


def run(folder, kills, seed, kind):
    dice, path = random.Random(seed), Path(folder) / "journal.db"
    told, ids = {}, []
    with Journal(path, kind.fresh(), synchronous="NORMAL", snapshot_every=200) as live:
        kind.begin(live)  # everything is compiled before the first fork
        writers = [start(kind, live, path, ids, dice) for _ in range(WRITERS)]
        for kill in range(kills + WRITERS):
            if kill < kills:
                time.sleep(dice.uniform(0.0, 0.08))
            pid, reader = writers.pop(dice.randrange(len(writers)))
            os.kill(pid, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, "a writer failed"
            told[pid, kill] = told.pop(pid, b"") + drain(reader)
            os.close(reader)
            for other, pipe in writers:
                told[other] = told.get(other, b"") + drain(pipe)
            if kill < kills:
                ids = [json.loads(line)[1] for said in told.values() for line in whole(said) if b'"decision"' in line]
                writers.append(start(kind, live, path, ids[-300:], dice))
    said = [json.loads(line) for lines in told.values() for line in whole(lines)]
    return check(path, said, kind)


def whole(said):
    return said.split(b"\n")[:-1]


def check(path, said, kind):
    """Compare what was acknowledged with the file, read without the library."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    events = db.execute("SELECT * FROM event").fetchall()
    decisions = {f"{event['seq']}-{event['writer']:08x}": event for event in events if event["kind"] == "decision"}
    rewards = Counter(event["decision"] for event in events if event["kind"] == "reward")
    values = {event["decision"]: event["reward"] for event in events if event["kind"] == "reward"}
    assert all(count == 1 for count in rewards.values())
    assert [event["seq"] for event in events] == list(range(len(events)))
    learned = Counter()
    for what, *words in said:
        if what == "decision":
            event = decisions[words[0]]
            assert json.loads(event["arm"]) == words[1]
            assert np.frombuffer(event["context"]).tolist() == words[2]
            assert event["propensity"] == words[3]
        else:
            which, value, status = words
            assert status in ("ok", "duplicate", "arm removed"), status
            assert rewards[decisions[which]["seq"]] == 1
            if status != "duplicate":
                assert values[decisions[which]["seq"]] == value
                learned[which] += 1
    assert len(Counter(words[1] for words in said if words[0] == "decision")) == sum(w[0] == "decision" for w in said)
    assert all(count == 1 for count in learned.values())

    plain, by_number, taken = kind.fresh(), {event["seq"]: event for event in events}, 0
    for event in events:
        if event["kind"] == "decision":
            taken += kind.repeat(plain, event)
        elif event["kind"] == "reward":
            kind.learn(plain, by_number[event["decision"]], event["reward"])
        elif event["kind"] != "start":
            getattr(plain, event["kind"])(**json.loads(event["options"]))
    with Journal(path) as live:
        assert live.bandit.to_bytes() == plain.to_bytes()
        assert live.verify() == taken
    counts = Counter(words[0] for words in said)
    return f"{counts['decision']} of {len(decisions)} decisions, {len(learned)} of {len(rewards)} rewards acknowledged"


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), KINDS[sys.argv[4]]()))
