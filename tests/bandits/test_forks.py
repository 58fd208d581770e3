"""Forks: random numbers of children, and locks and states that other threads had in their hands."""

import ctypes
import json
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from _child import python
from refusals import refused

from prudent._numerics import compile as compiling
from prudent._support import locks, streams
from prudent.bandits import LinearBandit, SharedLinearBandit
from prudent.bandits.kernels.stream import Uniforms
from prudent.errors import JournalError, PrudentError
from prudent.journal import Journal

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
PATIENCE = 60.0  # seconds after which a child hangs
FORKS = Path(__file__).parents[1] / "support" / "_forks.py"


def fresh(**options):
    return LinearBandit(["a", "b", "c"], 3, alpha=0.5, noise_sd=0.5, rng=8, **options)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile kernels before the first child needs them."""
    bandit, items = fresh(), SharedLinearBandit(3, noise_sd=1.0)
    for each in (bandit, items):
        each.select(np.eye(3)).score  # noqa: B018
        each.update(np.eye(3), ["a", "b", "c"], [1.0, 2.0, 3.0]).predict(np.eye(3))
    bandit.select(np.ones(3))
    LinearBandit(3, dim=0, rewards="bernoulli").select()


def in_a_child(work, fork=os.fork):
    """Return what ``work`` returns in a forked process, as JSON gives it back."""
    reader, pipe = os.pipe()
    pid = fork()
    if not pid:
        try:
            os.write(pipe, json.dumps(work()).encode())
        except BaseException as error:
            os.write(pipe, json.dumps(f"{type(error).__name__}: {error}").encode())
        finally:
            os._exit(0)
    os.close(pipe)
    deadline = time.monotonic() + PATIENCE
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.002)
    with os.fdopen(reader, "rb") as file:
        return json.loads(file.read())


@contextmanager
def another_thread(held):
    """Have another thread inside a context."""
    inside, done = threading.Event(), threading.Event()

    def run():
        with held:
            inside.set()
            done.wait()

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def code_of(call):
    """Return the code of the error that a call raises, or "ok"."""
    try:
        call()
    except PrudentError as error:
        return error.code
    return "ok"


# -- random numbers --------------------------------------------------------------------------------------------


def test_a_stream_that_is_half_built_does_not_disturb_the_others():
    """Another thread that copies a bandit has such a stream in its hands."""
    bandit, twin = fresh(), fresh()
    half = Uniforms.__new__(Uniforms)
    half.rng = np.random.default_rng(1)
    child = in_a_child(lambda: [bandit.select(np.ones(3)).score, twin.select(np.ones(3)).score])
    assert len({*child, bandit.select(np.ones(3)).score}) == 3
    assert not hasattr(half, "block")


def test_a_fork_without_handlers_has_streams_of_its_own():
    """C code that forks need not tell Python; the system itself clears the page with the number of the process."""
    bandit, items = fresh(), SharedLinearBandit(3, noise_sd=1.0, rng=8)
    beta = LinearBandit(3, dim=0, rewards="bernoulli", rng=8)
    points, rows = np.ones((5, 3)), np.eye(3)

    def drawn():
        found = [bandit.select(points[0]).score, *bandit.copy().select(points).score.tolist()]
        found += [items.select(rows).score, beta.select().score]
        return found + LinearBandit.from_bytes(bandit.to_bytes()).state()[1]["uniforms"][:3].tolist()

    libc = ctypes.PyDLL(None)
    children = [in_a_child(drawn, fork) for fork in (libc.fork, libc.fork, os.fork)]
    nested = in_a_child(lambda: in_a_child(drawn, libc.fork), libc.fork)
    everything = [score for found in (*children, nested, drawn()) for score in found]
    assert len(set(everything)) == len(everything) == 5 * 11


def test_processes_are_told_apart_by_their_id_where_there_is_no_page(monkeypatch):
    monkeypatch.setattr(streams, "PROCESS", streams._ProcessById())
    streams.PROCESS[0] = 7
    assert streams.process_number() == 7
    monkeypatch.setattr(streams, "_latest", 7)
    assert in_a_child(lambda: [streams.process_number(), streams.process_number()]) == [8, 8]
    assert streams.process_number() == 7


def test_the_parent_goes_on_with_its_own_numbers():
    bandit, twin = fresh(), fresh()
    in_a_child(lambda: bandit.select(np.ones(3)).score)
    assert bandit.select(np.ones(3)).score == twin.select(np.ones(3)).score


# -- locks -----------------------------------------------------------------------------------------------------


def test_a_thread_that_reads_does_not_hold_up_a_fork():
    bandit = fresh().update(np.ones((4, 3)), ["a", "b", "c", "a"], [1.0, 2.0, 3.0, 4.0])
    expected = bandit.predict(np.ones(3))[0].tolist()
    items = SharedLinearBandit(3, rng=1).update(np.eye(3), None, [1.0, 2.0, 3.0])
    told = items.predict(np.eye(3))[0].tolist()
    with another_thread(bandit._lock), another_thread(items._lock):
        began = time.monotonic()
        found = in_a_child(lambda: [bandit.predict(np.ones(3))[0].tolist(), items.predict(np.eye(3))[0].tolist()])
        assert time.monotonic() - began < locks.PATIENCE
    assert found == [expected, told]
    assert bandit.predict(np.ones(3))[0].tolist() == expected


def test_what_another_thread_was_changing_cannot_be_used_in_the_child(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    bandit, other = fresh(), fresh()
    with another_thread(bandit._lock):
        bandit._changing = True
        codes = in_a_child(
            lambda: [
                code_of(lambda: bandit.select(np.ones(3))),
                code_of(lambda: bandit.update(np.ones(3), "a", 1.0)),
                code_of(bandit.to_bytes),
                code_of(bandit.copy),
                code_of(lambda: other.select(np.ones(3))),
            ]
        )
    assert codes == ["changed-at-fork"] * 4 + ["ok"]
    bandit._changing = False
    bandit.select(np.ones(3))
    assert isinstance(in_a_child(lambda: bandit.select(np.ones(3)).score), float)


def test_a_fork_waits_for_a_change_to_end():
    bandit = fresh()
    began = threading.Event()

    def change():
        with bandit._lock, locks.Changing(bandit):
            began.set()
            time.sleep(0.1)
            bandit._rewards = 17

    thread = threading.Thread(target=change)
    thread.start()
    began.wait()
    assert in_a_child(lambda: bandit.n_rewards) == 17
    thread.join()


@pytest.mark.parametrize("change", ["update", "batch", "forget", "merge", "add_arm", "remove_arm", "fade"])
def test_every_change_says_that_it_is_one(change, monkeypatch):
    """A change calls a method of the belief; while it runs, a fork has to wait."""
    bandit = fresh(**({"half_life": 1} if change == "fade" else {}))
    bandit.update(np.ones(3), "a", 1.0)
    other, seen = bandit.copy().update(np.ones(3), "a", 2.0), []
    past = bandit.copy()
    methods = ("learn_one", "learn", "forget", "merge", "add_row", "remove_row")
    for name in methods:
        method = getattr(bandit.belief, name)

        def watched(*arguments, method=method):
            seen.append(bandit._changing)
            return method(*arguments)

        monkeypatch.setattr(bandit.belief, name, watched)
    calls = {
        "update": lambda: bandit.update(np.ones(3), "a", 1.0),
        "batch": lambda: bandit.update(np.ones((2, 3)), ["a", "b"], [1.0, 2.0]),
        "forget": lambda: bandit.forget(0.5),
        "merge": lambda: bandit.merge(other, since=past),
        "add_arm": lambda: bandit.add_arm("d"),
        "remove_arm": lambda: bandit.remove_arm("b"),
        "fade": lambda: [bandit.select(np.ones(3)) for _ in range(3)],
    }
    calls[change]()
    assert seen
    assert all(seen)
    assert bandit._changing is False


def test_a_thread_that_compiles_leaves_no_lock_to_the_child(monkeypatch):
    monkeypatch.setattr(compiling, "_COMPILING", 0.1)

    def compiled():
        return int(compiling.kernel(lambda x: x + 1)(1))

    for holder in compiling._LOCKS:
        with another_thread(holder._lock):
            assert in_a_child(compiled) == 2
    assert compiled() == 2


def test_a_journal_that_another_thread_uses_at_a_fork(tmp_path, monkeypatch):
    """SQLite would take locks of the parent for those of the child, and write without them."""
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    path = tmp_path / "j"
    with Journal(path, fresh()) as live:
        live.select(np.ones(3))

        def codes():
            return [code_of(lambda: live.select(np.ones(3))), code_of(lambda: Journal(path).close())]

        with another_thread(live._lock):
            assert in_a_child(codes) == ["open-at-fork"] * 2
        assert in_a_child(codes) == ["ok", "ok"]
        assert live.verify() == 2
    with Journal(path) as live:
        assert live.bandit.decisions == 2
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_error_says_what_to_do():
    with refused(PrudentError, "changed-at-fork", value="LinearBandit"), locks.TornLock("LinearBandit"):
        pass
    assert issubclass(JournalError, PrudentError)


def forks_under_threads(count):
    done = python(FORKS.read_text(), count)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr


def test_forks_under_six_threads():
    forks_under_threads(12)


@pytest.mark.slow
def test_two_thousand_forks_under_six_threads():
    forks_under_threads(2000)
