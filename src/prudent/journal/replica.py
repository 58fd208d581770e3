"""The bandit that a journal describes: rebuilt from a snapshot and the events after it, and kept up with the file."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from .._support.progress import Progress
from ..bandits.decision import Arm
from ..errors import JournalError, ParameterError, StateFileError
from .codec import AnyBandit, AnyDecision, Records, bandit_of, records_of
from .file import Event, JournalFile

__all__ = ["CHUNK", "Replica", "timed"]


CHUNK = 2000  # events read at a time
_FAR = 1000  # events to catch up with, from which on a later snapshot is worth loading
# what may differ between the bandit that a journal began with and one that fits it
_OF_CHANCE = ("rng", "uniforms", "decisions", "tries", "tick", "root", "absorbed")


class Replica:
    """The bandit as of event ``seq`` of a file; None if it is to be rebuilt. Its methods need a transaction."""

    records: Records  # how this kind of bandit is recorded, known with the first snapshot

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
        """Raise unless a decision is the one on record, score included."""
        same, arm, score = self._again(event, decision)
        told = event.score if event.score is not None else np.nan
        if not same or not abs(told - score) <= 1e-9 * abs(score):
            raise StateFileError(
                f"{self.path}: decision {event.seq} is on record as arm {event.arm} with score {told}, "
                f"but the bandit decides for {json.dumps(arm)} with score {score}"
            )

    def _again(self, event: Event, decision: AnyDecision | None) -> tuple[bool, Arm, float]:
        """Return whether a decision is the one on record, and what it says."""
        try:
            if decision is None:
                raise ValueError("it is of no decision")
            return self.records.again(event, decision)
        except (TypeError, ValueError, RecursionError) as error:
            raise self.broken([event], error) from error

    def caught_up(self) -> AnyBandit:
        """Return the bandit with all that was written; the caller puts it back when it is what the file says."""
        bandit, self.bandit = self.bandit, None
        last = self._file.last()
        if bandit is not None and last == self.seq:
            return bandit
        near = bandit is not None and (last - self.seq <= _FAR or self._file.snapshots()[0] <= self.seq)
        if bandit is not None and near and self._replay(bandit, last):
            return bandit
        return self._rebuilt(last)

    def _rebuilt(self, last: int) -> AnyBandit:
        """Return the bandit made from a snapshot, the latest that is sound, and the events after it."""
        failure = StateFileError(f"{self.path} is damaged: it holds no snapshot")
        for seq in self._file.snapshots():
            if seq > last:
                raise StateFileError(f"{self.path} is damaged: it ends with event {last}, before its snapshot {seq}")
            try:
                bandit = self.snapshot(seq)
            except StateFileError as error:
                failure = error
                continue
            self.seq = seq
            if self._replay(bandit, last):
                return bandit
            failure = StateFileError(f"{self.path} is damaged: the event after event {self.seq} is missing")
        raise failure

    def _replay(self, bandit: AnyBandit, last: int) -> bool:
        """Repeat the events up to ``last``; return whether none was missing."""
        progress, differs = Progress("rebuilding the bandit from the journal"), None
        while self.seq < last:
            events = self._file.events(self.seq, min(CHUNK, last - self.seq))
            for event in events:
                if event.seq != self.seq + 1:
                    return False
                again = self.repeat(bandit, event)
                if not isinstance(again, bool) and differs is None and not self._again(event, again)[0]:
                    differs = event, again
                self.seq = event.seq
            if not events:
                return False
            progress.show(f"event {self.seq} of {last}")
        progress.close()
        if differs is not None:
            event, again = differs
            warnings.warn(
                f"{self.path}: decision {event.seq} is on record for arm {event.arm}, repeated it is {again.arm!r}. "
                "Rewards are learned as recorded. Was it written by another version of prudent, or changed?",
                stacklevel=2,
            )
        return True

    def repeat(self, bandit: AnyBandit, event: Event) -> AnyDecision | bool:
        """Do with a bandit what an event says; return the decision, or whether something was learned."""
        records = self.records
        try:
            if event.kind == "decision":
                decision: AnyDecision | None = records.repeat(bandit, event, timed(bandit, event.time))
                return False if decision is None else decision
            if event.kind == "reward":
                of = self._file.decision(event.decision or 0)
                if of is None:
                    raise ValueError(f"decision {event.decision} is missing")
                return records.learn(bandit, of, event.reward, timed(bandit, of.time))
            if event.kind not in records.calls:
                raise ValueError(f"unknown kind {event.kind!r}")
            getattr(bandit, event.kind)(**json.loads(event.options or ""))
        except (TypeError, ValueError, RecursionError) as error:
            raise self.broken([event], error) from error
        return False

    def broken(self, events: list[Event], error: Exception) -> Exception:
        """Return what is to be said of an event that cannot be; or of none, the error itself."""
        if isinstance(error, (StateFileError, JournalError)) or not events:
            return error
        event = events[-1]
        return StateFileError(f"{self.path} is damaged: event {event.seq}, a {event.kind}, cannot be: {error}"[:500])

    def require_fit(self, given: AnyBandit, found: AnyBandit) -> None:
        """Raise unless the bandit is the one that the journal was started with, also with today's arms, or today's."""
        seq = self._file.snapshots()[-1]
        first = self.snapshot(seq)
        changed = first.copy()
        for event in self._file.changes():
            if event.kind in self.records.calls and event.seq > seq:
                self.repeat(changed, event)
        unlike = [_unlike(given, each) for each in (first, changed, found)]
        if all(unlike):
            raise ParameterError(
                f"bandit does not fit the journal {self.path}: {unlike[0]}. Open it without a bandit to go on with "
                "its own, or start another journal"
            )


def timed(bandit: AnyBandit, at: float) -> dict[str, Any]:
    """Return the argument ``time`` of a bandit whose evidence fades with time."""
    half = bandit.half_life
    return {} if half is None or half.unit == "decisions" else {"time": at}


def _unlike(one: AnyBandit, two: AnyBandit) -> str:
    """Return in words how two bandits differ, random streams aside."""
    if type(one) is not type(two):
        return f"it is a {type(one).__name__}, the journal's is a {type(two).__name__}"
    if one.dim != two.dim:
        return f"it has {one.dim} features, the journal's has {two.dim}"
    (values, arrays), (other_values, other_arrays) = one._state(), two._state()
    if one.features is None:  # it does not say what they are called
        values["features"] = other_values["features"]
    for name in other_values:
        if name not in _OF_CHANCE and values[name] != other_values[name]:
            return f"its {name} is {values[name]!r}, the journal's is {other_values[name]!r}"[:300]
    for name in other_arrays:
        if name not in _OF_CHANCE and not np.array_equal(arrays[name], other_arrays[name]):
            return f"its {name} is not the journal's: it was made otherwise, or has learned other rewards"
    return ""
