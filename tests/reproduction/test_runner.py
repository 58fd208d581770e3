"""The runner: the same bytes whatever happens, chunks used again only when they may be, faults survived."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from _child import environment
from _tiny import REPEATABLE, TINY, digests
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from prudent._support import pool
from prudent._support.output import write
from prudent.errors import ParameterError, StoreError
from prudent.reproduction import STUDIES, load_datasets, run
from prudent.reproduction import runner as module
from prudent.reproduction.runner import conclude
from prudent.reproduction.store import Store, missing

FEW = ["bandit-br", "lake-long", "limit-law"]


class Notes:
    """Keeps what the runner says."""

    def __init__(self):
        self.said, self.total, self.done, self.steps = [], 0.0, 0.0, 0

    def begin(self, total, done):
        self.total, self.done = total, done

    def advance(self, what, amount):
        self.done += amount
        self.steps += 1

    def say(self, message):
        self.said.append(message)


def go(out, names=FEW, **options):
    notes = Notes()
    run(names, **({"scale": TINY, "out": out, "workers": 1, "rng": 3, "progress": notes} | options))
    return notes


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    run(REPEATABLE, TINY, out, 1, 3)
    return digests(out)


def few(undisturbed):
    return {f"{name}.nc": undisturbed[f"{name}.nc"] for name in FEW}


# -- the same bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "chunk"), [(2, 1), (3, 4), (1, 1000)])
def test_same_bytes_whatever_the_workers_and_chunks(undisturbed, tmp_path, workers, chunk):
    notes = go(tmp_path, REPEATABLE, workers=workers, chunk=chunk)
    assert digests(tmp_path) == undisturbed
    assert notes.done == pytest.approx(notes.total)


def test_another_seed_gives_other_bytes(undisturbed, tmp_path):
    go(tmp_path, rng=4)
    assert not set(digests(tmp_path).values()) & set(undisturbed.values())


SCRIPT = """
import sys
from _tiny import TINY, REPEATABLE
from prudent.reproduction import run
run(REPEATABLE, TINY, sys.argv[1], int(sys.argv[2]), 3, chunk=int(sys.argv[3]))
"""


def start(out, workers, chunk):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(out), str(workers), str(chunk)], env=environment())


def chunks(out):
    return set(out.glob("chunks/*/*.chunk"))


def killed_and_resumed(out, kills, dice):
    """Kill -9 so many times, each a few chunks and some milliseconds after the last, then run to the end."""
    for _ in range(kills):
        before = len(chunks(out))
        process = start(out, dice.choice((1, 2)), dice.choice((1, 2, 3)))
        more = dice.randrange(0, 50)
        deadline = time.monotonic() + 60
        while process.poll() is None and len(chunks(out)) < before + more and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(dice.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start(out, dice.choice((1, 2)), dice.choice((1, 2, 3))).wait() == 0


def test_killed_twice_and_resumed(undisturbed, tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    print(f"moments from seed {seed}")
    killed_and_resumed(tmp_path, 2, random.Random(seed))
    assert digests(tmp_path) == undisturbed
    assert not list(tmp_path.glob("**/.*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_many_times_and_resumed(undisturbed, tmp_path, seed):
    killed_and_resumed(tmp_path, 12, random.Random(seed))
    assert digests(tmp_path) == undisturbed


# -- what is used again ------------------------------------------------------------------------------------


def test_finished_chunks_are_used_again(undisturbed, tmp_path):
    first = go(tmp_path, chunk=2)
    stamps = {file: file.stat().st_mtime_ns for file in chunks(tmp_path)}
    assert first.steps == len(stamps) > 40
    for file in list(stamps)[::3]:
        file.unlink()
    again = go(tmp_path, chunk=2, workers=2)
    assert again.steps == len(list(stamps)[::3])
    assert all(file.stat().st_mtime_ns == stamp for file, stamp in stamps.items() if file in list(stamps)[1::3])
    assert digests(tmp_path) == few(undisturbed)
    assert go(tmp_path).steps == 0


@pytest.mark.parametrize(
    "change",
    [
        {"rng": 4},
        {"scale": dataclasses.replace(TINY, horizon=201, draws=51)},
    ],
)
def test_a_changed_spec_uses_nothing(tmp_path, change):
    names = ["bandit-br", "limit-law"]
    whole = go(tmp_path, names, chunk=1)
    before = chunks(tmp_path)
    changed = go(tmp_path, names, **change, chunk=1)
    assert changed.steps == len(chunks(tmp_path) - before) > 0.6 * whole.steps
    fresh = tmp_path / "fresh"
    go(fresh, names, **change, chunk=1)
    assert digests(fresh) == digests(tmp_path)


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ({"name": "other"}, 0),
        ({"bandit_replications": 5, "limit_replications": 3}, 0),
        ({"bandit_replications": 7, "limit_replications": 6}, 12 + 2),
    ],
)
def test_another_number_of_replications_uses_what_is_there(tmp_path, change, steps):
    names = ["bandit-br", "limit-law"]
    scale = dataclasses.replace(TINY, **change)
    go(tmp_path, names, chunk=1)
    assert go(tmp_path, names, scale=scale, chunk=1).steps == steps
    go(tmp_path / "fresh", names, scale=scale)
    assert digests(tmp_path / "fresh") == digests(tmp_path)


def test_a_new_version_uses_nothing(tmp_path, monkeypatch):
    whole = go(tmp_path, ["limit-law"], chunk=1)
    monkeypatch.setattr("prudent.__version__", "99.0")
    assert go(tmp_path, ["limit-law"], chunk=1).steps == whole.steps


def test_shared_runs_are_computed_once(tmp_path):
    names = ["bandit-br", "bandit-four", "bandit-conventional"]
    plans = [set(STUDIES[name].plan(TINY).values()) for name in names]
    assert plans[0] & plans[1]
    assert plans[0] & plans[2]
    assert go(tmp_path, names[:1], chunk=100).steps == len(plans[0])
    assert go(tmp_path, names, chunk=100).steps == len((plans[1] | plans[2]) - plans[0])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6), st.integers(0, 5), st.integers(1, 7))
def test_missing_completes_what_is_there(pieces, rest, chunk):
    there, at = [], 0
    for gap, size in pieces:
        there.append((at + gap, {"x": np.zeros((size, 1))}))
        at += gap + size
    total = at + rest
    gaps = missing(there, total, chunk)
    covered = sorted(
        [r for first, arrays in there for r in range(first, first + arrays["x"].shape[0])]
        + [r for first, count in gaps for r in range(first, first + count)]
    )
    assert covered == list(range(total))
    assert all(1 <= count <= chunk for _, count in gaps)


# -- faults ------------------------------------------------------------------------------------------------


def flip(data):
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


@pytest.mark.parametrize(
    "damage", [flip, lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\x00\xff" * 50]
)
def test_damaged_chunks_are_said_and_computed_again(undisturbed, tmp_path, damage):
    go(tmp_path, chunk=2)
    hurt = sorted(chunks(tmp_path))[3]
    hurt.write_bytes(damage(hurt.read_bytes()))
    notes = go(tmp_path, chunk=2)
    first, last = (int(part) for part in hurt.stem.split("-"))
    assert len(notes.said) == 1
    assert f"{hurt} is damaged" in notes.said[0]
    assert f"its replications {first} to {last} are computed again" in notes.said[0]
    assert notes.steps == 1
    assert digests(tmp_path) == few(undisturbed)


def test_a_full_disk_loses_nothing(undisturbed, tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def full(number):
        if not stat.S_ISDIR(os.fstat(number).st_mode):  # folders are flushed too
            calls.append(number)
        if len(calls) > 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with refused(StoreError, "not-writable") as caught:
            go(tmp_path, chunk=2, workers=2)
    assert caught.value.fields["path"].endswith(".chunk")
    assert len(chunks(tmp_path)) == 7
    assert not list(tmp_path.glob("**/.*.tmp"))
    notes = go(tmp_path, chunk=2)
    assert notes.done == pytest.approx(notes.total)
    assert digests(tmp_path) == few(undisturbed)


def test_a_dataset_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    go(tmp_path, ["optimal-policy"])
    before = digests(tmp_path)

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refuse)
    with refused(StoreError, "not-writable", path=str(tmp_path / "optimal-policy.nc")):
        go(tmp_path, ["optimal-policy"], rng=9)
    assert digests(tmp_path) == before


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("here")
    with refused(StoreError, "not-writable", path=str(tmp_path / "file" / "out")):
        go(tmp_path / "file" / "out")


def test_a_read_only_folder(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with refused(StoreError, "not-writable", path=str(tmp_path / "out")):
        go(tmp_path / "out")


def test_two_runs_in_one_folder(tmp_path):
    with (
        Store(tmp_path, print),
        refused(StoreError, "locked-folder", path=str(tmp_path)),
    ):
        go(tmp_path)
    go(tmp_path, ["optimal-policy"])


def test_a_damaged_dataset_is_named(tmp_path):
    go(tmp_path, ["optimal-policy"])
    (tmp_path / "optimal-policy.nc").write_bytes(b"CDF\x02 and no more")
    with refused(StoreError, "damaged-file", path=str(tmp_path / "optimal-policy.nc")):
        load_datasets(tmp_path)


def test_damaged_times_of_a_run_are_no_obstacle(tmp_path):
    (tmp_path / "timings.json").write_text("{")
    go(tmp_path, ["optimal-policy"])
    assert set(json.loads((tmp_path / "timings.json").read_text())["experiments"]) == {"optimal-policy"}


def test_measured_times_are_kept_until_something_changes(tmp_path, monkeypatch):
    go(tmp_path, ["computing-time"])
    first = load_datasets(tmp_path)["computing-time"].seconds
    assert go(tmp_path, ["computing-time"]).steps == 0
    assert load_datasets(tmp_path)["computing-time"].seconds.equals(first)
    assert go(tmp_path, ["computing-time"], rng=8).steps > 0
    monkeypatch.setattr("prudent.__version__", "99.0")
    assert go(tmp_path, ["computing-time"]).steps > 0


def test_what_measures_time_runs_alone_and_last(tmp_path, monkeypatch):
    real, events, lock = module.compute_chunk, [], threading.Lock()

    def watched(part, *arguments):
        with lock:
            events.append(("begin", part.timed))
        found = real(part, *arguments)
        with lock:
            events.append(("end", part.timed))
        return found

    monkeypatch.setattr(module, "compute_chunk", watched)
    go(tmp_path, ["computing-time", "limit-law"], workers=3, chunk=1)
    kinds = [timed for _, timed in events]
    assert set(kinds) == {False, True}
    assert kinds == sorted(kinds)
    alone = [what for what, timed in events if timed]
    assert alone == ["begin", "end"] * (len(alone) // 2)


def test_an_error_in_a_worker_comes_out(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("in a worker")

    monkeypatch.setattr(module, "compute_chunk", broken)
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        go(tmp_path)


@pytest.mark.parametrize(
    ("code", "argument", "value"),
    [
        ("unknown-option", "names", ["nope"]),
        ("unknown-option", "scale", "huge"),
        ("integer-range", "workers", 0),
        ("integer-range", "chunk", -2),
        ("integer-range", "rng", -1),
        ("not-an-integer", "rng", 1.5),
    ],
)
def test_bad_input(tmp_path, code, argument, value):
    with refused(ParameterError, code, argument=argument):
        go(tmp_path / "out", **{argument: value})
    assert not (tmp_path / "out").exists()


def test_writes_are_atomic(tmp_path):
    target = tmp_path / "a" / "b.txt"
    write(target, b"one")
    write(target, b"two")
    assert target.read_bytes() == b"two"
    assert [file.name for file in target.parent.iterdir()] == ["b.txt"]


# -- interruption, and no cluster -----------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_under_way(undisturbed, tmp_path, monkeypatch):
    real, calls = pool.wait, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(pool, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, workers=2, chunk=1)
    kept = len(chunks(tmp_path))
    assert kept >= 5
    resumed = go(tmp_path, chunk=1)
    assert resumed.steps == len(chunks(tmp_path)) - kept
    assert digests(tmp_path) == few(undisturbed)


def test_a_cluster_without_dask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refused(ParameterError, "missing-package"):
        go(tmp_path, cluster="tcp://here:8786")


def test_claims_are_written(tmp_path):
    go(tmp_path, ["optimal-policy"])
    found = conclude(tmp_path)
    text = (tmp_path / "claims.json").read_text()
    assert [claim.id for claim in found] == ["optimal-policy-table"]
    assert '"as_written": "not reproduced"' in text
    (tmp_path / "optimal-policy.nc").unlink()
    assert conclude(tmp_path) == []
