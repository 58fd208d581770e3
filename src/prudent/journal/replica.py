"""The bandit of a journal: rebuilt from a snapshot and the entries of the log after it, and kept up to date."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from .._support.progress import Progress
from ..bandits.decision import Arm
from ..bandits.shared import SharedLinearBandit
from ..errors import JournalError, ParameterError, StateFileError
from .codec import CALLS, AnyBandit, Codec, bandit_of, name_of
from .store import CHUNK, Entry, New, Store, Taken

_FAR = 2000  # number of missing entries from which a later snapshot is loaded instead
# parts of the state that may differ between the first bandit of a journal and one that fits it
_RANDOM_STATE = ("rng", "uniforms", "decisions", "tries", "tick", "root", "absorbed", "seen")


class Lag(NamedTuple):
    """How far a replica is behind the log of its journal.

    Attributes
    ----------
    entries : int
        Number of entries that it has not learned.
    seconds : float
        Age of the oldest of them; 0 if there is none.
    """

    entries: int
    seconds: float


class Replica:
    """The bandit after entry ``seq`` of the log, None if it must be rebuilt. Callers hold the lock of the journal."""

    codec: Codec  # of this kind of bandit, set with the first snapshot

    def __init__(self, store: Store) -> None:
        self._store, self.path = store, store.path
        self.bandit: AnyBandit | None = None
        self.seq = 0
        self.applied: Callable[[AnyBandit, Entry, str], None] = lambda bandit, entry, status: None
        self.forget_counts()

    def like(self, store: Store) -> Replica:
        """Return a replica that reads the same journal by another store object, and follows nothing."""
        other = Replica(store)
        other.codec = Codec(self.codec.items, store.content)
        return other

    @property
    def store(self) -> Store:
        """The store that it reads."""
        return self._store

    # -- states --------------------------------------------------------------------------------------------

    def snapshot(self, seq: int) -> AnyBandit:
        """Return the bandit of a snapshot."""
        bandit = bandit_of(self._store.snapshot(seq), f"{self.path}, snapshot {seq}")
        if not hasattr(self, "codec"):
            self.codec = Codec(isinstance(bandit, SharedLinearBandit), self._store.content)
        return bandit

    def follow(self, limit: int | None = None) -> AnyBandit:
        """Learn entries that are new, at most ``limit`` of them, and return the bandit."""
        if self.bandit is None:
            self._rebuild()
            limit = None
        elif limit is None and self._store.last() - self.seq > _FAR and self._store.snapshots()[0] > self.seq:
            self._rebuild()
        self._learn_more(limit)
        assert self.bandit is not None
        return self.bandit

    def _rebuild(self) -> None:
        """Take the latest sound snapshot."""
        last, failure = self._store.last(), self._store.damaged("it holds no snapshot")
        for seq in self._store.snapshots():
            if seq > last:
                raise self._store.damaged(f"it ends with entry {last}, before its snapshot {seq}")
            try:
                bandit = self.snapshot(seq)
            except StateFileError as error:
                failure = error
                continue
            self.bandit, self.seq = bandit, seq
            self.use_counts()
            return
        raise failure

    def _learn_more(self, limit: int | None) -> None:
        progress = Progress("rebuilding the bandit from the journal")
        left = limit
        while left is None or left > 0:
            try:
                found = self._store.following(self.seq, CHUNK if left is None else min(left, CHUNK))
            except StateFileError as error:
                if error.code != "missing-event" or self._store.snapshots()[0] <= self.seq:
                    raise
                self._rebuild()  # another process has dropped it
                continue
            self.learn(found)
            left = None if left is None else left - len(found)
            if len(found) < CHUNK:
                break
            progress.show(f"entry {self.seq}")
        progress.close()

    def learn(self, found: Sequence[tuple[Entry, Taken | None]]) -> None:
        """Apply the entries that come next."""
        bandit, self.bandit = self.bandit, None  # to be rebuilt if something interrupts this
        assert bandit is not None
        for entry, taken in found:
            status = self.apply(bandit, entry, taken)
            self.seq = entry.seq
            self.applied(bandit, entry, status)
        self.bandit = bandit

    def apply(self, bandit: AnyBandit, entry: Entry, taken: Taken | None) -> str:
        """Apply an entry to a bandit; return what became of a reward, ``"ok"`` of another entry."""
        try:
            if entry.kind == "reward":
                if taken is None:
                    raise ValueError(f"decision {entry.number} of stream {entry.stream} is missing")
                return self.codec.learn(bandit, taken, entry.place or 0, entry.reward)
            if entry.kind == "erase":
                return "ok"
            if entry.kind not in CALLS or not hasattr(bandit, entry.kind):
                raise ValueError(f"unknown kind {entry.kind!r}")
            getattr(bandit, entry.kind)(**json.loads(entry.options or ""))
        except (TypeError, ValueError, RecursionError, AttributeError) as error:
            raise self.broken(f"entry {entry.seq}, a {entry.kind}", error, event=entry.seq) from error
        return "ok"

    def state_at(self, seq: int) -> AnyBandit:
        """Return the bandit after entry ``seq``, made from the latest snapshot before it."""
        failure: Exception = self._store.damaged(f"no snapshot is left from before entry {seq}", code="missing-event")
        for start in self._store.snapshots():
            if start > seq:
                continue
            try:
                bandit = self.snapshot(start)
            except StateFileError as error:
                failure = error
                continue
            while start < seq:
                for entry, taken in self._store.following(start, min(CHUNK, seq - start)):
                    self.apply(bandit, entry, taken)
                    start = entry.seq
            return bandit
        raise failure

    def broken(self, what: str, error: Exception, **fields: Any) -> Exception:
        """Return the error for something in the store that is invalid."""
        if isinstance(error, (StateFileError, JournalError)):
            return error
        return self._store.damaged(f"{what}, is invalid: {error}", **fields)

    def lag(self) -> Lag:
        """Return how far the replica is behind the log."""
        behind = self._store.last() - self.seq
        oldest = self._store.entry_at(self.seq + 1) if behind > 0 else None
        return Lag(behind, 0.0 if oldest is None else max(0.0, time.time() - oldest.time))

    # -- numbers of decisions ------------------------------------------------------------------------------

    def forget_counts(self) -> None:
        """Count from the first decision on."""
        self._row = 0
        self._others: Counter[str | None] = Counter()  # decisions of other processes by arm, as JSON
        self._own: Counter[Arm] = Counter()

    def written(self, new: New) -> None:
        """Count a decision of this process, which is in the store or will be soon."""
        self._own[name_of(new.row.arm or "null")] += 1
        if new.contents:
            self.codec.written(new)

    def count_others(self, stream: int) -> None:
        """Count the decisions that other processes have written since the last call."""
        self._row, found = self._store.tally(self._row, stream)
        self._others.update(found)
        if found:
            self.use_counts()

    def use_counts(self) -> None:
        """Tell the bandit how many decisions there were, in all processes."""
        if self.bandit is None:
            return
        first = self._store.settings.get("clock") or {"decisions": 0, "tries": []}
        tries = Counter(dict(first["tries"])) + self._own
        for name, count in self._others.items():
            with suppress(TypeError, ValueError):  # of a row that is damaged
                tries[json.loads(name or "")] += count
        total = first["decisions"] + sum(self._own.values()) + sum(self._others.values())
        self.bandit.set_clock(total, tries)

    # -- fitting -------------------------------------------------------------------------------------------

    def require_fit(self, bandit: AnyBandit, current: AnyBandit) -> None:
        """Raise unless a bandit equals the first one of the journal, that one with the current arms, or the current."""
        seq = self._store.snapshots()[-1]
        first = self.snapshot(seq)
        changed = first.copy()
        for entry in self._store.changes():
            if entry.kind in CALLS and entry.kind != "fade" and entry.seq > seq:
                self.apply(changed, entry, None)
        differences = [_difference(bandit, other) for other in (first, changed, current)]
        if all(differences):
            text = (
                f"bandit does not fit the journal {self.path}: {differences[0]}. Open it without a bandit to continue "
                "with its own, or start another journal"
            )
            raise ParameterError(text, code="bandit-mismatch", argument="bandit", path=self.path)


def _difference(one: AnyBandit, two: AnyBandit) -> str:
    """Return how two bandits differ, random streams aside; "" if they do not."""
    if type(one) is not type(two):
        return f"it is a {type(one).__name__}, the journal's is a {type(two).__name__}"
    if one.dim != two.dim:
        return f"it has {one.dim} features, the journal's has {two.dim}"
    (values, arrays), (other_values, other_arrays) = one.state(), two.state()
    if one.features is None:  # its features have no names
        values["features"] = other_values["features"]
    for name in other_values:
        if name not in _RANDOM_STATE and values.get(name) != other_values[name]:
            return f"its {name} is {values.get(name)!r}, the journal's is {other_values[name]!r}"[:300]
    for name in other_arrays:
        if name not in _RANDOM_STATE and not np.array_equal(arrays[name], other_arrays[name]):
            return f"it differs from the journal's in `{name}`: different construction or other rewards"
    return ""
