"""The bandit of a journal: rebuilt from a snapshot and the events after it, and kept up to date with the file."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from .._support.progress import Progress
from ..errors import JournalError, ParameterError, PrudentWarning, StateFileError
from .codec import AnyBandit, AnyDecision, Records, ReplayedDecision, bandit_of, records_of
from .file import Event, JournalFile

__all__ = ["CHUNK", "Replica", "timed"]


CHUNK = 2000  # events read at a time
_FAR = 1000  # number of missing events from which a later snapshot is loaded instead
# parts of the state that may differ between the first bandit of a journal and one that fits it
_RANDOM_STATE = ("rng", "uniforms", "decisions", "tries", "tick", "root", "absorbed")


class Replica:
    """The bandit after event ``seq`` of a file, None if it must be rebuilt. Its methods need a transaction."""

    records: Records  # codec of this kind of bandit, set with the first snapshot

    def __init__(self, file: JournalFile) -> None:
        self._file, self.path = file, file.path
        self.bandit: AnyBandit | None = None
        self.seq = 0

    def snapshot(self, seq: int) -> AnyBandit:
        """Return the bandit of a snapshot."""
        bandit = bandit_of(self._file.snapshot(seq), f"{self.path}, snapshot {seq}")
        self.records = records_of(bandit)
        return bandit

    def require_same(self, event: Event, decision: AnyDecision | None) -> None:
        """Raise unless a decision is the recorded one, score included."""
        replay = self._compare(event, decision)
        score, replayed = event.score if event.score is not None else np.nan, replay.score
        if not replay.same or not abs(score - replayed) <= 1e-9 * abs(replayed):
            text = f"decision {event.seq} is {replay.text(f' and score {score}', f' and score {replayed}')}"
            raise self._file.damaged(text, code="decision-differs", event=event.seq, arm=replay.arm)

    def _compare(self, event: Event, decision: AnyDecision | None) -> ReplayedDecision:
        """Return what an event records and what a decision gives for it."""
        try:
            if decision is None:
                raise ValueError("it belongs to no decision")
            return self.records.compare(event, decision)
        except (TypeError, ValueError, RecursionError) as error:
            raise self.broken([event], error) from error

    def caught_up(self) -> AnyBandit:
        """Return the bandit after all events; the caller stores it again once the file holds the same state."""
        bandit, self.bandit = self.bandit, None
        last = self._file.last()
        if bandit is not None and last == self.seq:
            return bandit
        near = bandit is not None and (last - self.seq <= _FAR or self._file.snapshots()[0] <= self.seq)
        if bandit is not None and near and self._replay(bandit, last):
            return bandit
        return self._rebuilt(last)

    def _rebuilt(self, last: int) -> AnyBandit:
        """Return the bandit made from the latest sound snapshot and the events after it."""
        failure = self._file.damaged("it holds no snapshot")
        for seq in self._file.snapshots():
            if seq > last:
                raise self._file.damaged(f"it ends with event {last}, before its snapshot {seq}")
            try:
                bandit = self.snapshot(seq)
            except StateFileError as error:
                failure = error
                continue
            self.seq = seq
            if self._replay(bandit, last):
                return bandit
            failure = self._file.damaged(f"the event after event {self.seq} is missing")
        raise failure

    def _replay(self, bandit: AnyBandit, last: int) -> bool:
        """Apply the events up to ``last``; return whether none was missing."""
        progress, differs = Progress("rebuilding the bandit from the journal"), None
        while self.seq < last:
            events = self._file.events(self.seq, min(CHUNK, last - self.seq))
            for event in events:
                if event.seq != self.seq + 1:
                    return False
                again = self.apply(bandit, event)
                if not isinstance(again, bool) and differs is None:
                    replay = self._compare(event, again)
                    differs = None if replay.same else (event, replay)
                self.seq = event.seq
            if not events:
                return False
            progress.show(f"event {self.seq} of {last}")
        progress.close()
        if differs is not None:
            event, replay = differs
            text = (
                f"{self.path}: decision {event.seq} is {replay.text()}. Rewards are learned as recorded. "
                "The file was changed or written by another version."
            )
            warnings.warn(
                PrudentWarning(text, code="decision-differs", path=self.path, event=event.seq, arm=replay.arm),
                stacklevel=2,
            )
        return True

    def apply(self, bandit: AnyBandit, event: Event, decision: Event | None = None) -> AnyDecision | bool:
        """Apply an event to the bandit; return the decision, or whether something was learned.

        ``decision`` is the decision of a reward, if it was read already.
        """
        records = self.records
        try:
            if event.kind == "decision":
                again: AnyDecision | None = records.repeat(bandit, event, timed(bandit, event.time))
                return False if again is None else again
            if event.kind == "reward":
                rewarded = decision or self._file.decision(event.decision or 0)
                if rewarded is None:
                    raise ValueError(f"decision {event.decision} is missing")
                return records.learn(bandit, rewarded, event.reward, timed(bandit, rewarded.time))
            if event.kind not in records.calls:
                raise ValueError(f"unknown kind {event.kind!r}")
            getattr(bandit, event.kind)(**json.loads(event.options or ""))
        except (TypeError, ValueError, RecursionError) as error:
            raise self.broken([event], error) from error
        return False

    def broken(self, events: list[Event], error: Exception) -> Exception:
        """Return the error for the last of these events, which is invalid; without events, the error itself."""
        if isinstance(error, (StateFileError, JournalError)) or not events:
            return error
        event = events[-1]
        return self._file.damaged(f"event {event.seq}, a {event.kind}, is invalid: {error}", event=event.seq)

    def require_fit(self, bandit: AnyBandit, current: AnyBandit) -> None:
        """Raise unless a bandit equals the first one of the journal, that one with the current arms, or the current."""
        seq = self._file.snapshots()[-1]
        first = self.snapshot(seq)
        changed = first.copy()
        for event in self._file.changes():
            if event.kind in self.records.calls and event.seq > seq:
                self.apply(changed, event)
        differences = [_difference(bandit, other) for other in (first, changed, current)]
        if all(differences):
            text = (
                f"bandit does not fit the journal {self.path}: {differences[0]}. Open it without a bandit to continue "
                "with its own, or start another journal"
            )
            raise ParameterError(text, code="bandit-mismatch", argument="bandit", path=self.path)


def timed(bandit: AnyBandit, at: float) -> dict[str, Any]:
    """Return the argument ``time`` of a bandit whose evidence fades with time."""
    half = bandit.half_life
    return {} if half is None or half.unit == "decisions" else {"time": at}


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
        if name not in _RANDOM_STATE and values[name] != other_values[name]:
            return f"its {name} is {values[name]!r}, the journal's is {other_values[name]!r}"[:300]
    for name in other_arrays:
        if name not in _RANDOM_STATE and not np.array_equal(arrays[name], other_arrays[name]):
            return f"it differs from the journal's in `{name}`: different construction or other rewards"
    return ""
