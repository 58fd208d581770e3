"""The bandit of a journal: rebuilt from a snapshot and the events after it, and kept up to date with the file."""

from __future__ import annotations

import json
import warnings

import numpy as np

from .._support.progress import Progress
from ..bandits.decision import Decision
from ..errors import JournalError, ParameterError, PrudentWarning, StateFileError
from .codec import CALLS, AnyBandit, Codec, bandit_of, difference
from .file import Event, JournalFile

_FAR = 1000  # number of missing events from which a later snapshot is loaded instead
# parts of the state that may differ between the first bandit of a journal and one that fits it
_RANDOM_STATE = ("rng", "uniforms", "decisions", "tries", "tick", "root", "absorbed")


class Replica:
    """The bandit after event ``seq`` of a file, None if it must be rebuilt. Its methods need a transaction."""

    codec: Codec  # of this kind of bandit, set with the first snapshot

    def __init__(self, file: JournalFile) -> None:
        self._file, self.path = file, file.path
        self.bandit: AnyBandit | None = None
        self.seq = 0

    def snapshot(self, seq: int) -> AnyBandit:
        """Return the bandit of a snapshot."""
        bandit = bandit_of(self._file.snapshot(seq), f"{self.path}, snapshot {seq}")
        self.codec = Codec(bandit)
        return bandit

    def caught_up(self) -> AnyBandit:
        """Return the bandit after all events; the caller stores it again once the file holds the same state."""
        bandit, self.bandit = self.bandit, None
        last = self._file.last()
        if bandit is not None and last == self.seq:
            return bandit
        if bandit is not None and (last - self.seq <= _FAR or self._file.snapshots()[0] <= self.seq):
            try:
                return self._replay(bandit, last)
            except StateFileError as error:
                if error.code != "missing-event":  # another process has dropped it
                    raise
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
            return self._replay(bandit, last)
        raise failure

    def _replay(self, bandit: AnyBandit, last: int) -> AnyBandit:
        """Apply the events up to ``last`` to the bandit and return it; warn if a decision differs from its record."""
        progress, text = Progress("rebuilding the bandit from the journal"), ""
        while self.seq < last:
            for event in self._file.following(self.seq, last):
                again = self.apply(bandit, event)
                if isinstance(again, Decision) and not text:
                    text, first = difference(event, self.codec.write(bandit, again, event.seq)[0]), event
                self.seq = event.seq
            progress.show(f"event {self.seq} of {last}")
        progress.close()
        if text:
            message = (
                f"{self.path}: decision {first.seq} is {text}. Rewards are learned as recorded. "
                "The file was changed or written by another version."
            )
            warning = PrudentWarning(message, code="decision-differs", path=self.path, event=first.seq)
            warnings.warn(warning, stacklevel=2)
        return bandit

    def apply(self, bandit: AnyBandit, event: Event, decision: Event | None = None) -> Decision | bool:
        """Apply an event to the bandit; return the decision, or whether something was learned.

        ``decision`` is the decision of a reward, if it was read already.
        """
        try:
            if event.kind == "decision":
                return self.codec.decide(bandit, event) or False
            if event.kind == "reward":
                rewarded = decision or self._file.decision(event.decision or 0)
                if rewarded is None:
                    raise ValueError(f"decision {event.decision} is missing")
                return self.codec.learn(bandit, rewarded, event.reward)
            if event.kind not in CALLS or not hasattr(bandit, event.kind):
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
            if event.kind in CALLS and event.seq > seq:
                self.apply(changed, event)
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
        if name not in _RANDOM_STATE and values[name] != other_values[name]:
            return f"its {name} is {values[name]!r}, the journal's is {other_values[name]!r}"[:300]
    for name in other_arrays:
        if name not in _RANDOM_STATE and not np.array_equal(arrays[name], other_arrays[name]):
            return f"it differs from the journal's in `{name}`: different construction or other rewards"
    return ""
