"""The base of a journal: its store, its replica and random stream, commits, forks, opening and closing."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import RLock
from types import TracebackType
from typing import Any, Self

import numpy as np

from .._support.checks import flag, one_of, positive, whole_number
from .._support.locks import register_fork
from .._support.streams import process_number
from ..bandits.bandit import LinearBandit
from ..bandits.fading import HalfLife
from ..bandits.shared import SharedLinearBandit
from ..errors import ParameterError, PrudentError, PrudentWarning, StateFileError
from ..types import PathLike
from .codec import CALLS, AnyBandit, bandit_of, reward_number, warm_up
from .replica import Replica
from .store import Entry, Job, Store, Tally, Turn, store_of
from .turns import Sweeper, Window
from .writer import GroupWriter

_SWEPT = 100  # windows that are closed in passing, at most
_EVENTS = 256  # decisions that are committed together at most, if answers do not wait for commits


class StoredBandit:
    """Base class of ``Journal``: a bandit in a store, with a replica in this process.

    Two locks: ``_lock`` is that of the replica and of the random stream, and the turn to commit is that of the writer.
    Who has the turn may take the lock, and never the other way round.
    """

    _fork_order = 0  # its lock is taken before that of its bandit
    _changing = True  # connections must be at rest

    def __init__(
        self,
        path: PathLike,
        bandit: AnyBandit | None = None,
        *,
        synchronous: str = "FULL",
        snapshot_every: int = 10_000,
        timeout: float = 30.0,
        key: bytes | None = None,
        window: timedelta | float | None = None,
        default: float = 0.0,
        provisional: bool = False,
        name: str | None = None,
        answer: str = "after commit",
        group: float = 0.005,
    ) -> None:
        one_of(synchronous, "synchronous", ("FULL", "NORMAL"))
        if bandit is not None and not isinstance(bandit, (LinearBandit, SharedLinearBandit)):
            text = f"bandit must be a LinearBandit or a SharedLinearBandit, got {bandit!r}"
            raise ParameterError(text, code="wrong-type", argument="bandit", value=bandit)
        self._snapshot_every = whole_number(snapshot_every, "snapshot_every")
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            text = "key must be at least 16 bytes, for instance secrets.token_bytes(32)"
            raise ParameterError(text, code="wrong-type", argument="key")
        self._later = one_of(answer, "answer", ("after commit", "before commit")) == "before commit"
        self._options: Any = {
            "synchronous": synchronous,
            "snapshot_every": snapshot_every,
            "timeout": timeout,
            "key": key,
            "name": name,
            "answer": answer,
            "group": group,
        }
        self._asked = _window_settings(window, default, provisional)
        self._path = path
        self._store = store_of(path, name, synchronous, positive(timeout, "timeout"), key)
        self._writer = GroupWriter(self._store, positive(group, "group"), _EVENTS)
        self._lock = RLock()  # of the replica and the random stream
        self._open = True
        self._replica = Replica(self._store)
        self._replica.applied = self._applied
        self._tally = Tally(self._store)
        self._asides: set[Store] = set()  # opened once more by threads that read for long
        self._unlearned: dict[int, str] = {}  # entries of rewards that were not learned, and why
        self._snapshots: list[tuple[int, bytes]] = []  # to be written
        self._wrote = False
        self._seen: AnyBandit | None = None  # the bandit that draws from the stream
        self._new_stream()
        register_fork(self)
        with self._lock:  # a fork waits for it
            self._open_with(bandit)

    def _open_with(self, bandit: AnyBandit | None) -> None:
        """Open the store, start it if it is empty, and rebuild the bandit."""
        held = self._store.open(create=bandit is not None)
        try:
            if bandit is not None and not held:
                self._start(bandit)
            self._use_window()
            current = self._replica.follow()
            if bandit is not None:
                self._replica.require_fit(bandit, current)
            warm_up(current.copy())
        except BaseException:
            self._open = False
            self._store.disconnect()
            raise

    def _start(self, bandit: AnyBandit) -> None:
        clock = bandit.clock()
        settings = self._asked or {"window": None, "default": 0.0, "provisional": False}
        if settings["window"] is not None:
            bandit.require_rewards(settings["default"], np.array([settings["default"]]))
        settings = settings | {"clock": clock | {"tries": list(clock["tries"].items())}}
        first = Entry(0, time.time(), "start", self._stream, arms=_arms(bandit))
        self._store.start(first, bandit.to_bytes(), settings)
        self._store.read_settings()

    def _use_window(self) -> None:
        """Take the window of the journal; raise if another one was asked for."""
        found = {name: self._store.settings.get(name) for name in ("window", "default", "provisional")}
        if self._asked is not None and self._asked != found:
            text = f"window of {self.path} is {found}, got {self._asked}: leave it out, or start another journal"
            raise ParameterError(text, code="window-mismatch", argument="window", path=self.path)
        self._window = Window.of(found)
        self._sweeper = None if self._window is None else Sweeper(self._window)
        self._swept = time.monotonic()

    @property
    def path(self) -> str:
        """Path of the file, or address of the database without its password."""
        return self._store.path

    # -- the replica ---------------------------------------------------------------------------------------

    def _new_stream(self) -> None:
        """Draw the number of a new random stream."""
        self._stream, self._number = int.from_bytes(os.urandom(8), "little") >> 1, 0
        self._home = process_number()

    def _current(self, limit: int | None) -> AnyBandit:
        """Return the bandit after it has learned what is new, at most ``limit`` entries; the lock is held."""
        self._require_open()
        replica = self._replica
        if replica.bandit is None or limit is None or (limit and self._store.behind(replica.seq)):
            replica.follow(limit)
        bandit = replica.bandit
        assert bandit is not None
        if bandit is not self._seen or self._home != process_number():
            self._new_stream()  # nobody knows what another bandit object has drawn
            replica.forget_counts()
            self._seen = bandit.seek(self._stream)
        if counting(bandit):
            replica.count_others(self._stream)
        return bandit

    def _applied(self, bandit: AnyBandit, entry: Entry, status: str) -> None:
        """Take a snapshot of the bandit after an entry, if its number says so and this process wrote it."""
        if status != "ok" and entry.writer == self._stream:
            self._unlearned[entry.seq] = status
        if entry.seq % self._snapshot_every == 0 and entry.writer == self._stream:
            state = self._snapshot_state(bandit)
            if state is not None:
                self._snapshots.append((entry.seq, state))

    def _snapshot_state(self, bandit: AnyBandit, required: bool = False) -> bytes | None:
        """Return the state of a bandit, if it can be read back; else warn, or raise if it is ``required``."""
        state = bandit.to_bytes()
        try:
            bandit_of(state, f"{self.path}, a new snapshot")
        except StateFileError as error:
            if required:
                raise
            message = f"{error}; no snapshot was taken, and older ones and all events stay"
            warnings.warn(PrudentWarning(message, code="no-snapshot", path=self.path), stacklevel=2)
            return None
        return state

    @contextmanager
    def _aside(self) -> Iterator[Replica]:
        """Open the store once more, for reading that takes long: nobody who decides waits for it."""
        self._require_open()
        self._writer.flush()
        with self._store.reading():  # the store is where it was
            pass
        options = (self._options[name] for name in ("name", "synchronous", "timeout", "key"))
        store = store_of(self._path, *options)
        self._asides.add(store)
        try:
            store.open(create=False)
            yield self._replica.like(store)
        finally:
            self._asides.discard(store)
            store.disconnect()

    # -- writing -------------------------------------------------------------------------------------------

    def _write(self, job: Job, now: bool = True) -> Job:
        """Write a job: now, or soon if answers do not wait for commits."""
        if self._later and not now:
            self._writer.later(job)
        else:
            self._writer.commit(job)
        self._wrote = True
        for new in job.decisions:
            if new.earlier is None:
                self._replica.written(new)
        return job

    def _tend(self) -> None:
        """Do what is due now and then: write snapshots, close windows."""
        while self._snapshots:
            self._write(Job(snapshot=self._snapshots.pop()))
        if self._window is not None and time.monotonic() - self._swept > max(1.0, self._window.seconds / 1000.0):
            self._swept = time.monotonic()
            self._sweep(time.time(), _SWEPT)

    def _sweep(self, at: float, limit: int) -> int:
        """Close windows that have ended; return how many."""
        assert self._sweeper is not None
        return int(self._write(Job(plan=self._sweeper.plan(self._stream, at, limit))).result)

    def _append(self, kind: str, options: dict[str, Any], only_after: int | None = None) -> None:
        """Append a call that changes the bandit to the log; with ``only_after``, if that entry is still the last."""
        try:
            arguments = json.dumps(options, default=lambda value: value.item())  # NumPy's numbers and strings
        except (AttributeError, TypeError, ValueError):
            message = f"{kind} of a journal takes what JSON can hold, got {options!r:.200}"
            raise ParameterError(message, code="wrong-type", value=kind) from None

        def plan(turn: Turn) -> PrudentError | None:
            if only_after is not None and turn.last != only_after:
                return None
            with self._lock:
                try:
                    trial = self._replica.follow(None).copy()
                    for entry in turn.entries:
                        if entry.kind in CALLS:
                            self._replica.apply(trial, entry, None)
                    if not hasattr(trial, kind):
                        text = f"{kind} is not for a {type(trial).__name__}: it has no arms of its own"
                        raise ParameterError(text, code="no-arms", value=kind)
                    getattr(trial, kind)(**options)
                except PrudentError as error:
                    return error
            turn.append(kind, self._stream, time.time(), arms=_arms(trial), options=arguments)
            return None

        self._require_writable()
        error = self._write(Job(plan=plan)).result
        if error is not None:
            raise error
        with self._lock:
            self._current(None)

    def _require_open(self) -> None:
        if not self._open:
            raise self._store.failed("it is closed", "closed")

    def _require_writable(self) -> None:
        self._require_open()
        self._store.require_writable()

    # -- closing and forks ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is left, take a snapshot if something was written, and close; closing twice is allowed."""
        if not self._open:
            return
        try:
            self._writer.flush()
            if self._wrote:
                with self._lock:
                    bandit, seq = self._current(None), self._replica.seq
                    state = self._snapshot_state(bandit)
                if state is not None:
                    self._write(Job(snapshot=(seq, state)))
        finally:
            with self._lock:
                self._open = False
                self._replica.bandit = self._seen = None
                self._store.disconnect()

    def _before_fork(self, patience: float) -> bool:
        """Take the turn and the lock, and close the connections: they must not cross a fork."""
        if not self._writer.rest(patience):
            return False
        if not self._lock.acquire(timeout=patience):
            self._writer.go_on()
            return False
        for store in {self._store, *self._asides}:
            store.disconnect()
        return True

    def _after_fork(self, child: bool) -> None:
        """Release the locks, or in the child start as another process with a bandit to be rebuilt."""
        if not child:
            self._lock.release()
            self._writer.go_on()
            return
        self._lock = RLock()
        self._writer.reset()
        self._wrote = False
        self._snapshots, self._seen = [], None
        self._replica.bandit = None  # another thread may have been changing it
        for store in {self._store, *self._asides}:
            store.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except PrudentError:
            if error is None:
                raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._options), (self._path,)  # another process opens the store itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, {self._replica.bandit if self._open else 'closed'})"


def counting(bandit: AnyBandit) -> bool:
    """Return whether decisions of a bandit depend on how many there were."""
    half = bandit.half_life
    return bandit.counting or (half is not None and half.unit == "decisions")


def _window_settings(window: Any, default: Any, provisional: Any) -> dict[str, Any] | None:
    """Return what a user says of the window of rewards; None if nothing."""
    usual, soon = reward_number(default, "default"), flag(provisional, "provisional")
    if window is None:
        if usual != 0.0 or soon:
            name = "default" if usual != 0.0 else "provisional"
            text = f"{name} is for a journal with a window: give window too"
            raise ParameterError(text, code="missing-argument", argument="window")
        return None
    if not isinstance(window, (timedelta, np.timedelta64)):
        seconds = positive(window, "window")
        if not 1e-6 <= seconds <= 1e12:
            text = f"window must be from a microsecond to 1e12 seconds, got {seconds!r}"
            raise ParameterError(text, code="value-range", argument="window", value=seconds)
        window = timedelta(seconds=seconds)
    half = HalfLife.of(window)
    assert half is not None
    return {"window": half.length, "default": usual, "provisional": soon}


def _arms(bandit: AnyBandit) -> str:
    """Return the arms that a bandit has before decisions name them, as JSON."""
    return json.dumps(bandit.arms if isinstance(bandit, LinearBandit) else [])
