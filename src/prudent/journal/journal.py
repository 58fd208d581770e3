"""A bandit whose decisions and rewards are written to disk before they are returned, and that is rebuilt from them.

All processes that share a journal append their events to one file, and each applies the events of the others to its own
bandit before it decides: the same calls in the same order, random draws included. So the bandits of all processes are
equal to the last bit, each random number is used once, and the bandit after a restart is that of an uninterrupted run.
The order of the file is the order of learning.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._support.checks import instance_of, one_of, positive, whole_number
from .._support.locks import register_fork
from .._support.progress import Progress
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm, Decision
from ..bandits.fading import seconds_of
from ..bandits.shared import SharedLinearBandit
from ..errors import DataError, ParameterError, PrudentError, PrudentWarning, StateFileError
from ..types import ContextLike, PathLike
from .audit import Verification, verified
from .codec import AnyBandit, bandit_of, propensity_of, reward_number, timed, warm_up
from .export import Row, table_of, write_rows
from .file import Event, JournalFile
from .reading import decision_rows
from .replica import Replica

if TYPE_CHECKING:
    import pandas

_ID = re.compile(r"([0-9]{1,18})-([0-9a-f]{8})")


class Journal:
    """A bandit that writes every decision and reward to disk and survives crashes.

    When `select` or `reward` has returned, its event is in the file: it survives ``kill -9`` and, as far as SQLite
    guarantees it, power loss. A reward is learned exactly once, however often, late and in whichever order rewards are
    reported. After a restart the bandit is rebuilt from the last snapshot and the events after it, bit for bit as in an
    uninterrupted run, random stream included.

    Parameters
    ----------
    path : path-like
        The SQLite database. It must be on a local disk, not on a network file system.
    bandit : LinearBandit or SharedLinearBandit, optional
        Starts a new journal, with a copy of this bandit. An existing journal needs none, and refuses one that does not
        fit (other arms, features, settings, or rewards learned elsewhere).
    synchronous : {"FULL", "NORMAL"}, default="FULL"
        With ``"NORMAL"`` the last calls before a power cut may be lost, never the file; calls are several times faster.
    snapshot_every : int, default=10000
        Number of events between snapshots.
    timeout : float, default=30
        Seconds to wait for other writers.
    key : bytes, optional
        Secret of at least 16 bytes that signs all events of a new journal (HMAC-SHA256, chained). Who writes to a
        signed journal must have the key; reading it works without.

    Raises
    ------
    ParameterError
        If an argument is out of range, or `bandit` does not fit the journal.
    StateFileError
        If the file is damaged, or not a journal.
    JournalError
        If input or output fails (disk full, permission, lock timeout). It is safe to retry.

    Notes
    -----
    Threads may share a journal. So may processes, forked or not: each opens the same file and learns everything. The
    files ``PATH-wal`` and ``PATH-shm`` belong to the journal as long as a process has it open, and after a crash.

    Examples
    --------
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

    _fork_order = 0  # its lock is taken before that of its bandit
    _changing = True  # SQLite must be at rest

    def __init__(
        self,
        path: PathLike,
        bandit: AnyBandit | None = None,
        *,
        synchronous: str = "FULL",
        snapshot_every: int = 10_000,
        timeout: float = 30.0,
        key: bytes | None = None,
    ) -> None:
        one_of(synchronous, "synchronous", ("FULL", "NORMAL"))
        if bandit is not None and not isinstance(bandit, (LinearBandit, SharedLinearBandit)):
            text = f"bandit must be a LinearBandit or a SharedLinearBandit, got {bandit!r}"
            raise ParameterError(text, code="wrong-type", argument="bandit", value=bandit)
        self._snapshot_every = whole_number(snapshot_every, "snapshot_every")
        options = {"synchronous": synchronous, "snapshot_every": snapshot_every, "timeout": timeout, "key": key}
        self._options: Any = options
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            text = "key must be at least 16 bytes, for instance secrets.token_bytes(32)"
            raise ParameterError(text, code="wrong-type", argument="key")
        self._file = JournalFile(path, synchronous, positive(timeout, "timeout"), key)
        self._lock = RLock()
        self._open = True
        self._replica = Replica(self._file)
        self._wrote = False
        self._writer = _new_writer()
        register_fork(self)
        with self._lock:  # a fork waits for it
            self._open_with(bandit)

    def _open_with(self, bandit: AnyBandit | None) -> None:
        """Open the file, start it if it is empty, and rebuild the bandit."""
        held = self._file.open(create=bandit is not None)
        try:
            if bandit is not None and not held:
                self._start(bandit)
            with self._reading() as current:
                if bandit is not None:
                    self._replica.require_fit(bandit, current)
                twin = current.copy()
            warm_up(twin)
        except BaseException:
            self._open = False
            self._file.disconnect()
            raise

    def _start(self, bandit: AnyBandit) -> None:
        with self._file.transaction():
            self._file.create(Event(0, time.time(), "start", self._writer, arms=_arms(bandit)), bandit.to_bytes())

    # -- decisions and rewards -----------------------------------------------------------------------------

    def select(
        self, context: ContextLike | None = None, arms: Iterable[Arm] | None = None, top: int | None = None
    ) -> Any:
        """Choose among the eligible arms and record the decision.

        Parameters
        ----------
        context : context
            Context [D]; or contexts [T, D], which give T decisions that are recorded together, all or none: several
            times faster than one by one. With a SharedLinearBandit the features [k, D] of the candidates. Features may
            have names, as in ``select`` of the bandit; names that are new are recorded too.
        arms : iterable, optional
            Eligible arms, by default all; with a SharedLinearBandit names of the candidates.
        top : int, optional
            Length of the slate of a SharedLinearBandit.

        Returns
        -------
        Decision or list of Decision
            A decision has an ``id`` to report its reward by, unique over all processes; its ``propensity`` is recorded.
            Every position of a slate has its own id in ``decision.ids``.

        Raises
        ------
        DataError
            If the context is invalid. Nothing is recorded then.
        ParameterError
            If `arms` or `top` is invalid.
        JournalError
            If input or output fails.

        Examples
        --------
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
        slate = {} if top is None else {"top": top}
        with self._turn() as bandit:
            if slate and not isinstance(bandit, SharedLinearBandit):
                text = "top is for a SharedLinearBandit: the bandit of this journal chooses one arm"
                raise ParameterError(text, code="no-slate", argument="top", value=top)
            features = bandit.features
            several = bandit.checked_contexts(context, names, **slate)
            if several is None:
                result: Any = self._decide(bandit, context, names, slate)
            else:
                result, progress = [], Progress("deciding")
                for one in several:
                    result.append(self._decide(bandit, one, names, slate))
                    progress.show(f"decision {len(result)} of {len(several)}")
                progress.close()
            if bandit.features != features:  # the first context with names
                self._record(bandit, "name_features", {"features": bandit.features})
        return result

    def _decide(self, bandit: Any, context: Any, arms: Iterable[Arm] | None, slate: dict[str, int]) -> Decision:
        """Take one decision and record it, inside a turn."""
        at = time.time()
        decision: Decision = bandit.select(context, arms, **slate, **timed(bandit, at))
        chance = propensity_of(decision)
        events = self._replica.codec.write(bandit, decision, self._replica.seq + 1, at, self._writer, chance)
        for event in events:
            self._write(bandit, event)
        decision.time, decision.id = at, events[0].id
        decision.ids = None if decision.candidates is None else tuple(event.id for event in events)
        return decision

    def reward(self, id: str | Sequence[str], reward: float | Sequence[float]) -> Any:
        """Report the reward of a decision; it is learned if it is the first report.

        Parameters
        ----------
        id : str or sequence of str
            Id of a decision, or ids; several are recorded together, all or none.
        reward : float or sequence of float
            Its reward, or rewards. -0.0 is recorded as 0.0.

        Returns
        -------
        str or list of str
            ``"ok"``; ``"duplicate"`` if the decision already had a reward, which stays; ``"unknown"`` if there is no
            such decision; ``"arm removed"`` if the bandit no longer has the arm: the reward is recorded, not learned.

        Raises
        ------
        DataError
            If a reward is not a finite number of the right kind. Nothing is recorded then.
        ParameterError
            If an id is not a string.
        JournalError
            If input or output fails.
        """
        several = hasattr(id, "__len__") and not isinstance(id, (str, bytes))
        ids: Any = id if several else [id]
        rewards: Any = reward if several else [reward]
        if not hasattr(rewards, "__len__") or isinstance(rewards, (str, bytes)) or len(ids) != len(rewards):
            text = f"reward must have one number for each of the {len(ids)} ids, got {reward!r}"[:300]
            raise DataError(text, code="wrong-shape", argument="reward", expected=len(ids))
        values = [reward_number(number, f"reward[{i}]" if several else "reward") for i, number in enumerate(rewards)]
        with self._turn() as bandit:
            bandit.require_rewards(reward, np.array(values, dtype=np.float64))
            statuses = [self._learn(bandit, one, value) for one, value in zip(ids, values, strict=True)]
        return statuses if several else statuses[0]

    def _learn(self, bandit: AnyBandit, id: Any, value: float) -> str:
        parts = _ID.fullmatch(instance_of(id, "id", str))
        decision = self._file.decision(int(parts[1])) if parts else None
        if parts is None or decision is None or decision.writer != int(parts[2], 16):
            return "unknown"
        if self._file.has_reward(decision.seq):
            return "duplicate"
        try:
            learned = self._replica.codec.learn(bandit, decision, value)
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error, DataError) and error.code == "too-large":  # a posterior would be out of range
                raise
            raise self._replica.broken([decision], error) from error
        self._write(bandit, self._next_event("reward", decision=decision.seq, reward=value))
        return "ok" if learned else "arm removed"

    def add_arm(self, arm: Arm, **options: Any) -> None:
        """Add an arm, in all processes.

        Parameters
        ----------
        arm : hashable
            Name of the arm.
        **options
            Options of ``LinearBandit.add_arm``.

        Raises
        ------
        ParameterError
            If the bandit has no arms of its own, or there is such an arm.
        """
        self._call("add_arm", {"arm": arm, **options})

    def remove_arm(self, arm: Arm) -> None:
        """Remove an arm and what was learned of it, in all processes; its decisions and rewards stay recorded.

        Parameters
        ----------
        arm : hashable
            Name of the arm.

        Raises
        ------
        ParameterError
            If there is no such arm.
        """
        self._call("remove_arm", {"arm": arm})

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor, in all processes.

        Parameters
        ----------
        factor : float
            Number in [0, 1].

        Raises
        ------
        ParameterError
            If `factor` is not in [0, 1].
        """
        self._call("forget", {"factor": factor})

    def name_features(self, features: Iterable[str]) -> None:
        """Name the features, in all processes.

        Parameters
        ----------
        features : iterable of str
            Names in the order of positions.

        Raises
        ------
        ParameterError
            If the names are not valid.
        """
        self._call("name_features", {"features": features if isinstance(features, str) else list(features)})

    def _call(self, kind: str, options: dict[str, Any]) -> None:
        """Call a method that changes the bandit, and record it with the arms afterwards."""
        with self._turn() as bandit:
            if not hasattr(bandit, kind):
                text = f"{kind} is not for a {type(bandit).__name__}: it has no arms of its own"
                raise ParameterError(text, code="no-arms", value=kind)
            getattr(bandit, kind)(**options)
            self._record(bandit, kind, options)

    def _record(self, bandit: AnyBandit, kind: str, options: dict[str, Any]) -> None:
        """Record a change of the bandit, inside a turn."""
        arguments = json.dumps(options, default=lambda value: value.item())  # NumPy's numbers and strings
        self._write(bandit, self._next_event(kind, arms=_arms(bandit), options=arguments))

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._file.path

    @property
    def bandit(self) -> AnyBandit:
        """Copy of the current bandit, with all events of all processes."""
        with self._reading() as bandit:
            return bandit.copy()

    def rows(self, *, damaged: str = "raise") -> Iterator[Row]:
        """Iterate over all decisions up to now, in order and in little memory.

        Parameters
        ----------
        damaged : {"raise", "skip"}, default="raise"
            What to do at an event that is damaged: raise an error that names it, or warn and go on with the rest.

        Yields
        ------
        dict of str to object
            id, time, context, arms, arm, propensity, score, reward and reward_time. Times are seconds since 1970;
            reward and reward_time are None as long as there is no reward. Of a SharedLinearBandit there is a row for
            each position of a slate: its context is the features of the item, its ``place`` counts from 0, and it has
            the ``features`` of all candidates. Further positions have no propensity.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
        ...     _ = live.reward(live.select([2.0]).id, 1.0), live.select([3.0], arms=[0])
        ...     [(row["context"], row["arms"], row["reward"]) for row in live.rows()]
        [([2.0], [0, 1], 1.0), ([3.0], [0], None)]
        """
        skip = one_of(damaged, "damaged", ("raise", "skip")) == "skip"
        yield from decision_rows(self._file, self._replica, self._locked_read, skip)

    def to_pandas(self, *, damaged: str = "raise") -> pandas.DataFrame:
        """Return `rows` as a DataFrame.

        Parameters
        ----------
        damaged : {"raise", "skip"}, default="raise"
            What to do at an event that is damaged; see `rows`.

        Returns
        -------
        pandas.DataFrame
            One row for each decision, times as timestamps in UTC.
        """
        return table_of(self.rows(damaged=damaged), self._replica.codec.columns)

    def export(self, path: PathLike, *, damaged: str = "raise") -> int:
        """Write `rows` to a file, in little memory.

        Parameters
        ----------
        path : path-like
            A ``.parquet`` (needs pyarrow), ``.csv`` or ``.jsonl`` file, which is replaced atomically. In CSV, contexts
            and arms are JSON lists.
        damaged : {"raise", "skip"}, default="raise"
            What to do at an event that is damaged; see `rows`.

        Returns
        -------
        int
            Number of rows.

        Raises
        ------
        ParameterError
            If the format is unknown.
        """
        return write_rows(self.rows(damaged=damaged), path, self._replica.codec.columns, lambda: self._names(damaged))

    def _names(self, damaged: str) -> set[Arm]:
        """Return all arms that ever were, or all candidates."""
        if damaged == "skip" or isinstance(self.bandit, SharedLinearBandit):
            with warnings.catch_warnings(action="ignore", category=PrudentWarning):  # the rows are read again, and warn
                return {name for row in self.rows(damaged=damaged) for name in row["arms"]}
        with self._lock, self._read():
            return {name for event in self._file.changes() for name in json.loads(event.arms or "[]")}

    def verify(self) -> Verification:
        """Replay everything from the first event on and compare it with the record.

        Every recorded choice, score (to 1e-9 of itself) and propensity (to 1e-6) must be what the bandit decides there,
        times must not go back by more than an hour, and all snapshots and the live bandit must be what the replay
        gives. Checksums of all events, their signatures if there are any, and the structure of the database are
        checked as well. Dropped events (see `compact`) cannot be verified.

        Returns
        -------
        Verification
            Number of decisions, an int, with what was compared and what could not be (``gaps``).

        Raises
        ------
        StateFileError
            If an event, a snapshot or the live bandit differs, or an event is missing, damaged or wrongly signed.

        Warns
        -----
        PrudentWarning
            If the first snapshot is gone, so that earlier events cannot be verified.
        """
        with self._reading() as live:
            self._file.require_sound()
            last, copied = self._replica.seq, live.copy()

        found = verified(self._file, self._replica, copied, last, self._locked_read)
        if found.gaps and not found.gaps[0].startswith("events are not"):
            message = f"{self.path}: not everything can be verified: {'; '.join(found.gaps)}"
            warnings.warn(PrudentWarning(message, code="not-verified", path=self.path), stacklevel=2)
        return found

    @property
    def signature(self) -> str | None:
        """Signature of the latest event as 64 hexadecimal digits, which stands for all events; None if not signed.

        Keep it elsewhere now and then: it shows later that no events were removed at the end.
        """
        with self._reading():
            return self._file.signature(self._replica.seq)

    # -- upkeep --------------------------------------------------------------------------------------------

    def compact(self, before: datetime | float | None = None) -> int:
        """Take a snapshot and return unused space to the file system.

        Parameters
        ----------
        before : datetime or float, optional
            Decisions before this time (seconds since 1970) and their rewards are dropped from the record, not from
            what the bandit has learned: export them first. A reward that still comes for one of them is "unknown".

        Returns
        -------
        int
            Number of decisions dropped.

        Raises
        ------
        ParameterError
            If `before` is not a time.
        """
        dropped = 0
        when = None if before is None else seconds_of(before, "before")
        with self._lock:
            with self._turn() as bandit:
                self._snapshot(bandit, required=True)
                if when is not None:
                    dropped = self._file.drop(when)
            self._file.shrink()
        return dropped

    def close(self) -> None:
        """Take a snapshot, if something was written, and close the file; closing twice is allowed."""
        with self._lock:
            if not self._open:
                return
            try:
                if self._wrote and self._replica.bandit is not None:
                    with self._turn() as bandit:
                        self._snapshot(bandit)
            finally:
                self._open = False
                self._replica.bandit = None
                self._file.disconnect()

    def _before_fork(self, patience: float) -> bool:
        """Take the lock and close the connection: SQLite connections must not cross a fork."""
        taken = self._lock.acquire(timeout=patience)
        if taken:
            self._file.disconnect()
        return taken

    def _after_fork(self, child: bool) -> None:
        """Release the lock, or in the child start as another writer with a bandit to be rebuilt."""
        if not child:
            self._lock.release()
            return
        self._lock = RLock()
        self._writer = _new_writer()
        self._wrote = False
        self._replica.bandit = None  # another thread may have been changing it
        self._file.abandon()

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
        return partial(Journal, **self._options), (self.path,)  # another process opens the file itself

    def __repr__(self) -> str:
        return f"Journal({self.path!r}, {self._replica.bandit if self._open else 'closed'})"

    # -- one event at a time -------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if not self._open:
            raise self._file.failed("it is closed", "closed")

    def _read(self) -> AbstractContextManager[None]:
        """Open a read transaction."""
        self._require_open()
        return self._file.transaction(write=False)

    @contextmanager
    def _locked_read(self) -> Iterator[None]:
        """Open a read transaction with the lock held."""
        with self._lock, self._read():
            yield

    @contextmanager
    def _turn(self) -> Iterator[AnyBandit]:
        """Yield the current bandit in a write transaction, which records what happens to it."""
        with self._lock:
            self._require_open()
            self._file.require_writable()
            if self._replica.bandit is None:
                with self._reading():  # the long part, while others may write
                    pass
            with self._file.transaction():
                bandit, seq = self._replica.caught_up(), self._replica.seq
                features = bandit.features
                try:
                    yield bandit
                except (DataError, ParameterError):
                    if self._replica.seq == seq and bandit.features == features:  # refused, nothing changed
                        self._replica.bandit = bandit
                    raise
            self._replica.bandit = bandit  # only after the commit: on an error the file is right

    @contextmanager
    def _reading(self) -> Iterator[AnyBandit]:
        """Yield the current bandit in a read transaction."""
        with self._lock, self._read():
            self._replica.bandit = self._replica.caught_up()
            yield self._replica.bandit

    def _next_event(self, kind: str, **fields: Any) -> Event:
        """Return the event that follows the last one, now."""
        return Event(self._replica.seq + 1, time.time(), kind, self._writer, **fields)

    def _write(self, bandit: AnyBandit, event: Event) -> None:
        """Record an event that was applied to the bandit."""
        self._file.append(event)
        self._replica.seq, self._wrote = event.seq, True
        if event.seq % self._snapshot_every == 0:
            self._snapshot(bandit)

    def _snapshot(self, bandit: AnyBandit, required: bool = False) -> None:
        """Write a snapshot, if it can be read back; else warn, or raise if it is ``required``."""
        state = bandit.to_bytes()
        try:
            bandit_of(state, f"{self.path}, a new snapshot")
        except StateFileError as error:
            if required:
                raise
            message = f"{error}; no snapshot was taken, and older ones and all events stay"
            warnings.warn(PrudentWarning(message, code="no-snapshot", path=self.path), stacklevel=2)
            return
        self._file.write_snapshot(self._replica.seq, state)
        if required and self._file.snapshot(self._replica.seq) != state:
            raise self._file.damaged("the snapshot that was just written reads otherwise")


def _new_writer() -> int:
    return int.from_bytes(os.urandom(4), "little")


def _arms(bandit: AnyBandit) -> str:
    """Return the arms that a bandit has before decisions name them, as JSON."""
    return json.dumps(bandit.arms if isinstance(bandit, LinearBandit) else [])
