"""A bandit whose decisions and rewards are written down before they count, and that is rebuilt from what was written.

All processes that share a journal write their events one after the other into one file, and each repeats the events of
the others on its own bandit before it decides: the same calls in the same order, random draws included. So the bandits
of all processes are equal to the last bit, each random number is used once, and the bandit after a restart is that of
an undisturbed run. The order of the file is the order of learning.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from threading import RLock
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from .._support.checks import positive, whole_number
from .._support.progress import Progress
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm
from ..bandits.kernels.step import LARGEST
from ..bandits.shared import SharedLinearBandit
from ..errors import DataError, JournalError, ParameterError, PrudentError, StateFileError
from .codec import AnyBandit, AnyDecision, records_of
from .export import Row, table_of, write_rows
from .file import Event, JournalFile
from .replica import CHUNK, Replica, timed

__all__ = ["Journal"]


_ID = re.compile(r"([0-9]{1,18})-([0-9a-f]{8})")


class Journal:
    """A bandit that writes down every decision and reward, and survives whatever happens to it.

    It is a :class:`LinearBandit` or a :class:`SharedLinearBandit`, which decides and learns through the journal.
    ``path`` is an SQLite database. ``bandit`` starts a new journal, which goes on with a copy of it; an existing one
    needs none, and refuses one that does not fit (other arms, features, settings, or rewards learned elsewhere). When
    :meth:`select` or :meth:`reward` has returned, what it did is in the file: it survives ``kill -9`` and, as far as
    SQLite promises, power loss. With ``synchronous="NORMAL"`` it survives ``kill -9`` all the same, but the last calls
    before a power cut may be lost, never the file; the calls are several times faster.

    A reward is learned exactly once, however often, late and in whichever order rewards are reported. After a restart
    the bandit is rebuilt from the last snapshot, taken every ``snapshot_every`` events, and the events after it: bit
    for bit the bandit of an undisturbed run, random stream included.

    Threads may share a journal. So may processes, forked or not: each opens the same file and learns everything.
    Writers wait for each other at most ``timeout`` seconds. SQLite's promises end where its locks do: the file must be
    on a disk of the machine, not on a network file system; disks must not lie about having written; and the files
    ``PATH-wal`` and ``PATH-shm`` belong to it as long as a process has it open, and after a kill.

    >>> import tempfile
    >>> import prudent as pr
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/decisions.db"
    >>> with Journal(path, pr.LinearBandit(["red", "blue"], dim=2, rng=7)) as live:
    ...     decision = live.select([1.0, 0.5])
    ...     live.reward(decision.id, 12.5), live.reward(decision.id, 12.5), live.reward("1-00000000", 3.0)
    ('ok', 'duplicate', 'unknown')
    >>> with Journal(path) as live:  # after a restart
    ...     live.bandit.pulls[decision.arm]
    1
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        bandit: AnyBandit | None = None,
        *,
        synchronous: str = "FULL",
        snapshot_every: int = 10_000,
        timeout: float = 30.0,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ParameterError(f"synchronous must be 'FULL' or 'NORMAL', got {synchronous!r}")
        if bandit is not None and not isinstance(bandit, (LinearBandit, SharedLinearBandit)):
            raise ParameterError(f"bandit must be a LinearBandit or a SharedLinearBandit, got {bandit!r}")
        self._snapshot_every = whole_number(snapshot_every, "snapshot_every")
        self._options = {"synchronous": synchronous, "snapshot_every": snapshot_every, "timeout": timeout}
        self._file = JournalFile(_checked_path(path), synchronous, positive(timeout, "timeout"))
        self._lock = RLock()
        self._open = True
        self._replica = Replica(self._file)
        self._wrote = False
        self._writer = _new_writer()
        self._json: dict[Arm, str] = {}
        held = self._file.open(create=bandit is not None)
        _JOURNALS.add(self)
        try:
            if bandit is not None and not held:
                self._start(bandit)
            with self._reading() as found:
                if bandit is not None:
                    self._replica.require_fit(bandit, found)
                twin = found.copy()
            _rehearse(twin)
        except BaseException:
            self._open = False
            self._file.disconnect()
            raise

    def _start(self, bandit: AnyBandit) -> None:
        arms = json.dumps(records_of(bandit).arms(bandit))
        with self._file.transaction():
            self._file.create(Event(0, time.time(), "start", self._writer, arms=arms), bandit.to_bytes())

    # -- decisions and rewards -----------------------------------------------------------------------------

    def select(self, context: Any = None, arms: Iterable[Arm] | None = None, top: int | None = None) -> Any:
        """Choose among the eligible ``arms`` (by default all) in a context [D], and write the decision down.

        The :class:`Decision` has an ``id`` to report its reward by, unique over all processes; its ``propensity`` is
        recorded. Contexts [T,D] give a list of T decisions, taken one after the other and written together, all or
        none: several times faster than one by one.

        With a :class:`SharedLinearBandit` give the features [k,D] of the candidates and their names, as in its own
        ``select``; ``top`` is the length of the slate. Every place of the slate has an id of its own in
        ``decision.ids``. The features of all candidates are written down, 8 bytes a number.

        Contexts may have names, as in ``select`` of the bandit; those first seen are written down too.

        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     decisions = live.select([[1.0], [2.0], [3.0]])
        ...     live.reward([decision.id for decision in decisions], [0.5, 1.0, 1.5])
        ['ok', 'ok', 'ok']
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.SharedLinearBandit(1)) as live:
        ...     slate = live.select([[1.0], [2.0], [3.0]], arms=["a", "b", "c"], top=2)
        ...     live.reward(slate.ids, [0.5, 1.0]), live.reward(slate.ids[1], 1.0)
        (['ok', 'ok'], 'duplicate')
        """
        names = arms if arms is None or isinstance(arms, str) or not isinstance(arms, Iterable) else list(arms)
        with self._turn() as bandit:
            features = bandit.features
            several = self._replica.records.together(bandit, context, names, top)
            decisions, progress = [], Progress("deciding")
            for each in [context] if several is None else several:
                decisions.append(self._decide(bandit, each, names, top))
                progress.show(f"decision {len(decisions)} of {len(several or decisions)}")
            progress.close()
            if bandit.features != features:  # the first context with names
                self._record(bandit, "name_features", {"features": bandit.features})
        return decisions[0] if several is None else decisions

    def _decide(self, bandit: AnyBandit, context: Any, arms: Iterable[Arm] | None, top: int | None) -> AnyDecision:
        """Take one decision and write it down, inside a turn."""
        at = time.time()
        decision: AnyDecision = self._replica.records.select(bandit, context, arms, top, timed(bandit, at))
        common = {"arm": self._name(decision.arm), "propensity": _propensity(decision)}
        ids = []
        for facts in self._replica.records.facts(decision, arms, self._replica.seq + 1):
            event = self._event("decision", at, **(common | facts))
            self._write(bandit, event)
            ids.append(event.id)
        decision.time, decision.id = at, ids[0]
        if decision.candidates is not None:
            decision.ids = tuple(ids)
        return decision

    def reward(self, id: Any, reward: Any) -> Any:
        """Report the reward of a decision, and learn it if it is the first report.

        Returns ``"ok"``; ``"duplicate"`` if the decision had a reward, which stays; ``"unknown"`` if the journal has
        no such decision; ``"arm removed"`` if the bandit no longer has the arm: the reward is recorded, not learned.
        Lists of ids and of rewards are written together, all or none, and give a list. -0.0 is written as 0.0. Each
        place of a slate has an id and a reward of its own: ``reward(decision.ids, rewards)``.
        """
        if hasattr(id, "__len__") and not isinstance(id, (str, bytes)):
            if not hasattr(reward, "__len__") or isinstance(reward, (str, bytes)) or len(id) != len(reward):
                raise DataError(f"reward must have one number for each of the {len(id)} ids, got {reward!r}"[:300])
            values = [_number(each, f"reward[{i}]") for i, each in enumerate(reward)]
            with self._turn() as bandit:
                self._replica.records.require_rewards(bandit, reward, np.array(values, dtype=np.float64))
                return [self._learn(bandit, each, value) for each, value in zip(id, values, strict=True)]
        value = _number(reward, "reward")
        with self._turn() as bandit:
            self._replica.records.require_rewards(bandit, reward, np.array([value]))
            return self._learn(bandit, id, value)

    def _learn(self, bandit: AnyBandit, id: Any, value: float) -> str:
        if not isinstance(id, str):
            raise ParameterError(f"id must be the id of a decision, a string, got {id!r}")
        parts = _ID.fullmatch(id)
        decision = self._file.decision(int(parts[1])) if parts else None
        if parts is None or decision is None or decision.writer != int(parts[2], 16):
            return "unknown"
        if self._file.has_reward(decision.seq):
            return "duplicate"
        event = self._event("reward", time.time(), decision=decision.seq, reward=value)
        learned = self._replica.repeat(bandit, event)
        self._write(bandit, event)
        return "ok" if learned else "arm removed"

    def add_arm(self, arm: Arm, **options: Any) -> None:
        """Add an arm, in all processes; ``options`` are those of :meth:`LinearBandit.add_arm`."""
        self._call("add_arm", {"arm": arm, **options})

    def remove_arm(self, arm: Arm) -> None:
        """Remove an arm and what was learned of it, in all processes; its decisions and rewards stay on record."""
        self._call("remove_arm", {"arm": arm})

    def forget(self, factor: float) -> None:
        """Multiply all evidence by ``factor``, in all processes, see ``forget`` of the bandit."""
        self._call("forget", {"factor": factor})

    def name_features(self, features: Iterable[str]) -> None:
        """Give the features names, in all processes, see ``name_features`` of the bandit."""
        self._call("name_features", {"features": features if isinstance(features, str) else list(features)})

    def _call(self, kind: str, options: dict[str, Any]) -> None:
        """Call a method that changes the bandit, and write it down with the arms that there are afterwards."""
        with self._turn() as bandit:
            if kind not in self._replica.records.calls:
                raise ParameterError(f"{kind} is not for a {type(bandit).__name__}: it has no arms of its own")
            getattr(bandit, kind)(**options)
            self._record(bandit, kind, options)

    def _record(self, bandit: AnyBandit, kind: str, options: dict[str, Any]) -> None:
        """Write down a change of the bandit, inside a turn."""
        told = json.dumps(options, default=lambda value: value.item())  # NumPy's numbers and strings
        event = self._event(kind, time.time(), arms=json.dumps(self._replica.records.arms(bandit)), options=told)
        self._write(bandit, event)

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Where the journal is."""
        return self._file.path

    @property
    def bandit(self) -> AnyBandit:
        """A copy of the bandit as it is now, with all that any process has written."""
        with self._reading() as bandit:
            return bandit.copy()

    def rows(self) -> Iterator[Row]:
        """Go through all decisions up to now, in order and in little memory.

        A row is a dict with id, time, context, arms, arm, propensity, score, reward and reward_time. Times are seconds
        since 1970; reward and reward_time are None as long as there is no reward. Of a :class:`SharedLinearBandit`
        there is a row for each place of a slate: its context is the features of the item, its ``place`` counts from 0,
        and it has the ``features`` of all candidates. Further places have no propensity.

        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     _ = live.reward(live.select([2.0]).id, 1.0), live.select([3.0], arms=[0])
        ...     [(row["context"], row["arms"], row["reward"]) for row in live.rows()]
        [([2.0], [0, 1], 1.0), ([3.0], [0], None)]
        """
        latest: list[Event] = []

        def events() -> Iterator[tuple[Event, Event | None]]:
            for chunk, rewards in self._chunks():
                for event in chunk:
                    latest[:] = [event]
                    yield event, rewards.get(event.seq)

        try:
            yield from self._replica.records.rows(events())
        except (TypeError, ValueError, RecursionError) as error:
            raise self._replica.broken(latest, error) from error

    def to_pandas(self) -> Any:
        """Return :meth:`rows` as a DataFrame, times as timestamps in UTC."""
        return table_of(self.rows(), self._replica.records.columns)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write :meth:`rows` to a ``.parquet``, ``.csv`` or ``.jsonl`` file, in little memory; return their number.

        The file appears whole or not at all. Parquet needs pyarrow. In CSV, contexts and arms are JSON lists.
        """
        return write_rows(self.rows(), path, self._replica.records.columns, self._names)

    def _names(self) -> set[Arm]:
        """Return all arms that ever were, or all candidates."""
        if isinstance(self.bandit, SharedLinearBandit):
            return {name for row in self.rows() for name in row["arms"]}
        with self._lock, self._read():
            return {name for event in self._file.changes() for name in json.loads(event.arms or "[]")}

    def verify(self) -> int:
        """Decide everything again, from the first event on; return the number of decisions, or raise StateFileError.

        Every recorded choice and score must be what the bandit decides in that place, to 1e-9 of the score. The
        checksums of all events and the structure of the database are checked as well. Needs the whole journal: what
        :meth:`compact` has dropped cannot be verified.
        """
        with self._reading():
            self._file.require_sound()
            first, last = self._file.snapshots()[-1], self._replica.seq
            bandit = self._replica.snapshot(first)
        latest: AnyDecision | None = None  # that further places of a slate belong to
        seq, count, progress = first, 0, Progress("verifying the journal")
        while seq < last:
            with self._lock, self._read():
                events = self._file.events(seq, min(CHUNK, last - seq))
                for event in events:
                    if event.seq != seq + 1:
                        raise StateFileError(f"{self.path}: event {seq + 1} is missing, it was dropped or deleted")
                    again = self._replica.repeat(bandit, event)
                    if not isinstance(again, bool):
                        count, latest = count + 1, again
                    if event.kind == "decision":
                        self._replica.require_same(event, latest)
                    seq = event.seq
            if not events:
                raise StateFileError(f"{self.path}: event {seq + 1} is missing, it was dropped or deleted")
            progress.show(f"event {seq} of {last}")
        progress.close()
        return count

    def _chunks(self) -> Iterator[tuple[list[Event], dict[int, Event]]]:
        """Go through the events but rewards, in order, each chunk with the rewards of its decisions.

        They are those that were there at the beginning; the lock is free between chunks.
        """
        progress, seq, last, count = Progress("reading the journal"), -1, None, 0
        while True:
            with self._lock, self._read():
                last = self._file.last() if last is None else last
                events = [event for event in self._file.events(seq, CHUNK, rewards=False) if event.seq <= last]
                if not events:
                    self._file.require_rewards(count, last)
                    break
                found = self._file.rewards(events[0].seq, events[-1].seq)
            rewards = {of: reward for of, reward in found.items() if reward.seq <= last}
            seq, count = events[-1].seq, count + len(rewards)
            yield events, rewards
            progress.show(f"event {seq} of {last}")
        progress.close()

    # -- upkeep --------------------------------------------------------------------------------------------

    def compact(self, before: datetime | float | None = None) -> int:
        """Take a snapshot and give unused space back to the disk; return the number of decisions dropped.

        Decisions older than ``before`` (a datetime, or seconds since 1970) and their rewards are dropped from the
        record, not from what the bandit knows: export them first. Their rewards, if they still come, are "unknown".
        """
        dropped = 0
        when = None if before is None else _seconds(before)
        with self._lock:
            with self._turn() as bandit:
                self._file.write_snapshot(self._replica.seq, bandit.to_bytes())
                if when is not None:
                    dropped = self._file.drop(when)
            self._file.shrink()
        return dropped

    def close(self) -> None:
        """Take a snapshot, if something was written, and close the file. A closed journal may be closed again."""
        with self._lock:
            if not self._open:
                return
            try:
                if self._wrote and self._replica.bandit is not None:
                    with self._turn() as bandit:
                        self._file.write_snapshot(self._replica.seq, bandit.to_bytes())
            finally:
                self._open = False
                self._replica.bandit = None
                self._file.disconnect()

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
        return _reopened, (self.path, self._options)  # a process that gets a journal opens the file itself

    def __repr__(self) -> str:
        return f"Journal({self.path!r}, {self._replica.bandit if self._open else 'closed'})"

    # -- one event at a time -------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if not self._open:
            raise JournalError(f"{self.path} is closed")

    def _read(self) -> AbstractContextManager[None]:
        """Give a moment of the file to read from."""
        self._require_open()
        return self._file.transaction(write=False)

    @contextmanager
    def _turn(self) -> Iterator[AnyBandit]:
        """Give the bandit with all that was written, and let nobody else write before what happens to it is."""
        with self._lock:
            self._require_open()
            if self._replica.bandit is None:
                with self._reading():  # what takes long is done while others may write
                    pass
            with self._file.transaction():
                bandit, seq = self._replica.caught_up(), self._replica.seq
                features = bandit.features
                try:
                    yield bandit
                except (DataError, ParameterError):
                    if self._replica.seq == seq and bandit.features == features:  # it was refused and nothing changed
                        self._replica.bandit = bandit
                    raise
            self._replica.bandit = bandit  # not before it is written; whatever went wrong, the file is right

    @contextmanager
    def _reading(self) -> Iterator[AnyBandit]:
        """Give the bandit with all that was written, to look at."""
        with self._lock, self._read():
            self._replica.bandit = self._replica.caught_up()
            yield self._replica.bandit

    def _event(self, kind: str, at: float, **fields: Any) -> Event:
        return Event(self._replica.seq + 1, at, kind, self._writer, **fields)

    def _write(self, bandit: AnyBandit, event: Event) -> None:
        """Write down what just happened to the bandit."""
        self._file.append(event)
        self._replica.seq, self._wrote = event.seq, True
        if event.seq % self._snapshot_every == 0:
            self._file.write_snapshot(event.seq, bandit.to_bytes())

    def _name(self, arm: Arm) -> str:
        text = self._json.get(arm)
        if text is None:
            text = self._json[arm] = json.dumps(arm)
        return text


def _reopened(path: str, options: dict[str, Any]) -> Journal:
    return Journal(path, **options)


# -- what callers give -------------------------------------------------------------------------------------


def _checked_path(path: Any) -> str:
    try:
        text = os.fsdecode(os.fspath(path))
    except TypeError:
        raise ParameterError(f"path must be the path of a file, got {path!r}") from None
    if text in ("", ":memory:") or "\0" in text:
        raise ParameterError(f"path must be the path of a file, got {path!r}")
    return text


def _number(reward: Any, name: str) -> float:
    try:
        value = float("nan") if isinstance(reward, (str, bytes)) or np.ndim(reward) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not abs(value) <= LARGEST:
        raise DataError(f"{name} is {reward!r}, expected a finite number of at most {LARGEST}")
    return value + 0.0  # SQLite does not know -0.0


def _seconds(before: Any) -> float:
    value = before.timestamp() if isinstance(before, datetime) else before
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value:
        raise ParameterError(f"before must be a datetime or seconds since 1970, got {before!r}")
    return float(value)


def _rehearse(twin: AnyBandit) -> None:
    """Decide and learn: what must be compiled is compiled now, and not while other processes wait for their turn."""
    shared = isinstance(twin, SharedLinearBandit)
    point = np.zeros((2, twin.dim) if shared else twin.dim)
    with suppress(PrudentError):  # settings that want fewer arms than there are, say
        for reward in (0.0, 1.0, 0.0):  # when nothing is known yet, and when something is
            decision: Any = twin.select(point, [0, 1] if shared else None)
            _propensity(decision)
            twin.update(decision.context, decision.arm, reward)


def _propensity(decision: AnyDecision) -> float | None:
    try:
        return decision.propensity
    except ParameterError:  # not known for these settings
        return None


# -- forks: a connection of SQLite must not be there when a process forks --------------------------------------


_JOURNALS: WeakSet[Journal] = WeakSet()
_forking: list[Journal] = []


def _new_writer() -> int:
    return int.from_bytes(os.urandom(4), "little")


def _before_fork() -> None:
    for journal in list(_JOURNALS):
        journal._lock.acquire()
        journal._file.disconnect()
        _forking.append(journal)


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop()._lock.release()


def _after_fork_in_child() -> None:
    while _forking:
        journal = _forking.pop()
        journal._lock = RLock()
        journal._writer = _new_writer()
        journal._wrote = False
        journal._replica.bandit = None  # its random stream is no longer that of the journal


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
