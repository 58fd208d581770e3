"""Processes that write to one journal and are killed at random moments: ``_journal_writers.py FOLDER KILLS SEED``.

Each writer tells over a pipe what was acknowledged to it. In the end every acknowledged decision and reward must be in
the file once, and the bandit of the journal must be that of one process that does the same in the order of the file.
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

from prudent.bandits import Journal, LinearBandit

WRITERS = 4


def fresh():
    return LinearBandit(["a", "b", "c"], 3, alpha=0.5, noise_sd=1.0, seed=5)


def write_for_ever(live, pipe, ids, dice):
    """Decide and report rewards, of these decisions and of one's own, some of them twice."""
    said = lambda *words: os.write(pipe, (json.dumps(words) + "\n").encode())  # noqa: E731
    own = []
    while True:
        lot = dice.random()
        if lot < 0.5:
            context = [dice.random() for _ in range(3)]
            decision = live.select(context, None if lot < 0.4 else ["c", "a"])
            said("decision", decision.id, decision.arm, context, decision.propensity)
            ids.append(decision.id)
        elif lot < 0.98 and ids:
            which = dice.choice(ids)
            value = dice.gauss(0.0, 1.0)
            said("reward", which, value, live.reward(which, value))
        elif lot < 0.99:
            own.append(f"{os.getpid()} {len(own)}")
            live.add_arm(own[-1])
            said("add", own[-1])
        elif own:
            live.remove_arm(own.pop())


def start(live, path, ids, dice):
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
        mine = live if inherit else Journal(path, fresh(), synchronous=mode, snapshot_every=200)
        write_for_ever(mine, pipe, list(ids), random.Random(seed))
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


def run(folder, kills, seed):
    dice, path = random.Random(seed), Path(folder) / "journal.db"
    told, ids = {}, []
    with Journal(path, fresh(), synchronous="NORMAL", snapshot_every=200) as live:
        decision = live.select([0.0, 0.0, 1.0])  # everything is compiled before the first fork
        live.reward(decision.id, 1.0)
        writers = [start(live, path, ids, dice) for _ in range(WRITERS)]
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
                writers.append(start(live, path, ids[-300:], dice))
    said = [json.loads(line) for lines in told.values() for line in whole(lines)]
    return check(path, said)


def whole(said):
    return said.split(b"\n")[:-1]


def check(path, said):
    """Compare what was acknowledged with the file, read without the library."""
    db = sqlite3.connect(path)
    columns = "seq, kind, writer, decision, arm, arms, context, propensity, reward, options"
    events = db.execute(f"SELECT {columns} FROM event").fetchall()
    decisions = {f"{event[0]}-{event[2]:08x}": event for event in events if event[1] == "decision"}
    rewards = Counter(event[3] for event in events if event[1] == "reward")
    values = {event[3]: event[8] for event in events if event[1] == "reward"}
    assert all(count == 1 for count in rewards.values())
    assert [event[0] for event in events] == list(range(len(events)))
    learned = Counter()
    for kind, *words in said:
        if kind == "decision":
            event = decisions[words[0]]
            assert json.loads(event[4]) == words[1]
            assert np.frombuffer(event[6]).tolist() == words[2]
            assert event[7] == words[3]
        elif kind == "reward":
            which, value, status = words
            assert status in ("ok", "duplicate", "arm removed"), status
            assert rewards[decisions[which][0]] == 1
            if status != "duplicate":
                assert values[decisions[which][0]] == value
                learned[which] += 1
    assert len(Counter(words[1] for words in said if words[0] == "decision")) == sum(w[0] == "decision" for w in said)
    assert all(count == 1 for count in learned.values())

    plain, by_number = fresh(), {event[0]: event for event in events}
    for _, kind, _, of, arm, arms, context, _, reward, options in events:
        if kind == "decision":
            assert plain.select(np.frombuffer(context), arms and json.loads(arms)).arm == json.loads(arm)
        elif kind == "reward":
            if (pulled := json.loads(by_number[of][4])) in plain.arms:
                plain.update(np.frombuffer(by_number[of][6]), pulled, reward)
        elif kind != "start":
            getattr(plain, kind)(**json.loads(options))
    with Journal(path) as live:
        assert live.bandit.to_bytes() == plain.to_bytes()
        assert live.verify() == len(decisions)
    counts = Counter(words[0] for words in said)
    return f"{counts['decision']} of {len(decisions)} decisions, {len(learned)} of {len(rewards)} rewards acknowledged"


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
