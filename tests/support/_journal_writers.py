"""Processes that write to one journal and are killed at random moments: ``_journal_writers.py FOLDER KILLS SEED KIND``.

With the FOLDER ``postgres`` a PostgreSQL server is started, and killed and restarted as well.

Each writer tells over a pipe what was acknowledged to it. In the end every acknowledged decision and reward must be in
the store once, the bandit of the journal must be that of one process that learns the same in the order of the store,
and every decision must be what its state gives.
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
from _learned import learned
from _postgres import Server

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

    def point(self, tables, row, place):
        """Return what the reward of a position is learned with."""
        return np.frombuffer(row["context"]), json.loads(row["arm"])

    def told(self, tables, row):
        """Return arms and context as they were told."""
        return [(json.loads(row["arm"]), np.frombuffer(row["context"]).tolist(), row["propensity"])]

    def learn(self, plain, point, arm, reward):
        if arm in plain.arms:
            plain.update(point, arm, reward)


class Items:
    """The same with slates of a SharedLinearBandit: items have offsets, and features have names."""

    def fresh(self):
        return SharedLinearBandit(3, alpha=0.5, offsets=True, rng=5)

    def begin(self, live):
        live.name_features(["x", "y", "z"])
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

    def _slate(self, tables, row):
        data = tables["content"][row["context"]]
        size = int.from_bytes(data[:8], "little")
        rows = [np.frombuffer(tables["content"][data[8 + 16 * i : 24 + 16 * i]]) for i in range(size)]
        features = dict(zip(json.loads(data[8 + 16 * size :]), rows, strict=True))
        return features, json.loads(row["options"] or "{}").get("slate", [json.loads(row["arm"])])

    def point(self, tables, row, place):
        features, slate = self._slate(tables, row)
        return features[slate[place]], slate[place]

    def told(self, tables, row):
        features, slate = self._slate(tables, row)
        first = (slate[0], [number for each in features.values() for number in each], row["propensity"])
        return [first, *((arm, features[arm].tolist(), None) for arm in slate[1:])]

    def learn(self, plain, point, arm, reward):
        plain.update(point, arm, reward)


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


def start(kind, live, path, ids, dice, server):
    """Fork a writer; it goes on with the journal that is open here, or opens its own."""
    reader, pipe = os.pipe()
    inherit, mode, seed = dice.random() < 0.5, dice.choice(["FULL", "NORMAL"]), dice.random()
    mode = mode if server is None else "FULL"  # with NORMAL a server that is killed may lose the last commits
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
    """Kill writers, and the server if ``folder`` is "postgres", and check what is left."""
    dice, told, ids = random.Random(seed), {}, []
    server = Server() if folder == "postgres" else None
    path = Path(folder) / "journal.db" if server is None else server.address
    try:
        with Journal(path, kind.fresh(), synchronous="NORMAL" if server is None else "FULL") as live:
            kind.begin(live)  # before the first fork
            writers = [start(kind, live, path, ids, dice, server) for _ in range(WRITERS)]
            for kill in range(kills + WRITERS):
                if kill < kills:
                    time.sleep(dice.uniform(0.0, 0.08 if server is None else 0.25))
                if server is not None and kill < kills and dice.random() < 0.2:
                    server.kill()
                    time.sleep(dice.uniform(0.0, 0.1))
                    server.start()
                pid, reader = writers.pop(dice.randrange(len(writers)))
                os.kill(pid, signal.SIGKILL)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, "a writer failed"
                told[pid, kill] = told.pop(pid, b"") + drain(reader)
                os.close(reader)
                for other, pipe in writers:
                    told[other] = told.get(other, b"") + drain(pipe)
                if kill < kills:
                    words = (line for said in told.values() for line in whole(said) if b'"decision"' in line)
                    ids = [json.loads(line)[1] for line in words]
                    writers.append(start(kind, live, path, ids[-300:], dice, server))
        said = [json.loads(line) for lines in told.values() for line in whole(lines)]
        return check(path, said, kind, server)
    finally:
        if server is not None:
            server.close()


def whole(said):
    return said.split(b"\n")[:-1]


def read(path, server):
    """Return the tables of a journal, read without the library."""
    found = {}
    for table, order in (("decision", "nr"), ("entry", "seq"), ("content", "hash")):
        query = f"SELECT * FROM {table} ORDER BY {order}"
        if server is None:
            db = sqlite3.connect(path)
            cursor = db.execute(query)
        else:
            import psycopg

            db = psycopg.connect(server.address, autocommit=True)
            cursor = db.execute(query.replace("FROM ", "FROM prudent_journal."))
        names = [column[0] for column in cursor.description]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        db.close()
    found["content"] = {row["hash"]: row["data"] for row in found["content"]}
    return found


def check(path, said, kind, server):
    """Compare what was acknowledged with the store, read without the library."""
    tables = read(path, server)
    decisions = {}  # by id: row, position
    for row in tables["decision"]:
        name = f"{row['number']}-{row['stream']:016x}"
        for place, words in enumerate(kind.told(tables, row)):
            decisions[name + (f"-{place}" if place else "")] = row, place, words
    log = tables["entry"]
    assert [entry["seq"] for entry in log] == list(range(len(log)))
    rewards = {}
    for entry in log:
        if entry["kind"] == "reward":
            name = f"{entry['number']}-{entry['stream']:016x}" + (f"-{entry['place']}" if entry["place"] else "")
            assert name not in rewards
            rewards[name] = entry["reward"]
    learned_once = Counter()
    for what, *words in said:
        if what == "decision":
            assert list(decisions[words[0]][2]) == words[1:]
        else:
            which, value, status = words
            assert status in ("ok", "duplicate", "arm removed"), status
            assert which in rewards
            if status != "duplicate":
                assert rewards[which] == value
                learned_once[which] += 1
    assert len({words[1] for words in said if words[0] == "decision"}) == sum(w[0] == "decision" for w in said)
    assert all(count == 1 for count in learned_once.values())

    plain = kind.fresh()
    by_place = {(row["stream"], row["number"]): row for row in tables["decision"]}
    for entry in log:
        if entry["kind"] == "reward":
            row = by_place[entry["stream"], entry["number"]]
            kind.learn(plain, *kind.point(tables, row, entry["place"]), entry["reward"])
        elif entry["kind"] != "start":
            getattr(plain, entry["kind"])(**json.loads(entry["options"]))
    with Journal(path) as live:
        assert learned(live.bandit) == learned(plain)
        assert live.verify() == len(tables["decision"])
    counts = Counter(words[0] for words in said)
    told = f"{counts['decision']} of {len(decisions)} decisions"
    return f"{told}, {len(learned_once)} of {len(rewards)} rewards acknowledged"


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), KINDS[sys.argv[4]]()))
