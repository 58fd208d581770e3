"""Verification of a journal: everything is done again from the first snapshot on, and compared with the record.

The log is replayed in its order. Each decision is taken again when the replay has the state that took it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Self

import numpy as np

from .._support.progress import Progress
from ..display.words import listing
from .codec import AnyBandit
from .replica import Replica
from .store import CHUNK, Entry, Store, Taken

_SAME = 1e-9  # of itself, by which numbers of a state may differ on another machine
_CLOCK = 3600.0  # seconds that a clock may be set back
_SOLVED = ("root", "mean", "absorbed")  # of a state, what follows from the sums
_COUNTS = ("rng", "uniforms", "decisions", "tries", "seen")  # what decisions change, and nobody learns from


class Verification(int):
    """Number of decisions that `Journal.verify` took again, and what it could and could not compare.

    Parameters
    ----------
    decisions : int
        Number of decisions.
    snapshots : int
        Number of states that were compared.
    signed : bool
        Whether signatures were checked.
    gaps : tuple of str
        What could not be verified.

    Attributes
    ----------
    snapshots : int
        Number of snapshots, the live bandit included, that were compared with the replay.
    signed : bool
        Whether signatures of all events were checked.
    gaps : tuple of str
        What could not be verified, in words; empty if everything was.

    Examples
    --------
    >>> import tempfile
    >>> import prudent as pr
    >>> with tempfile.TemporaryDirectory() as folder, pr.Journal(f"{folder}/j", pr.LinearBandit(2, dim=1)) as live:
    ...     _ = live.select([1.0])
    ...     found = live.verify()
    >>> found, found.signed, found.gaps
    (1, False, ('events are not signed: edits with a recomputed checksum may go unseen',))
    """

    snapshots: int
    signed: bool
    gaps: tuple[str, ...]

    def __new__(cls, decisions: int, snapshots: int, signed: bool, gaps: tuple[str, ...]) -> Self:
        """Return the number of decisions with what was compared."""
        self = super().__new__(cls, decisions)
        self.snapshots, self.signed, self.gaps = snapshots, signed, gaps
        return self


def verified(store: Store, replica: Replica, live: AnyBandit, last: int) -> Verification:
    """Replay the log up to entry ``last`` and take all decisions again; ``live`` is the bandit after that entry.

    Raises StateFileError at a difference.
    """
    snapshots = store.snapshots()
    first, compared, before = snapshots[-1], 0, -np.inf
    bandit = replica.snapshot(first)
    with store.reading():
        order, end = store.by_state(), store.last()
    if order and not all(type(seq) is int for _, seq in order):
        raise store.damaged("a decision does not say how many entries its state had learned")
    if order and order[-1][1] > end:
        text = f"a decision says that its state had learned {order[-1][1]} entries, and there are {end}"
        raise store.damaged(text, code="decision-differs", event=order[-1][1])
    decisions = _Decisions(store, replica, [nr for nr, seq in order if first <= seq <= last])
    seq, progress = first, Progress("verifying the journal")
    unknown = list[str]()
    if store.signed:
        with store.reading():
            store.require_signatures(first - 1, 1)
            unknown = store.require_signed_decisions()
    begun = store.entry_at(first)
    if begun is not None:
        _require_form(store, begun, bandit)
        before = begun.time
    while True:
        decisions.take(bandit, seq, before)
        if seq >= last:
            break
        found = store.following(seq, min(CHUNK, last - seq))
        if not found:
            raise store.damaged(f"entry {seq + 1} is missing", code="missing-event", event=seq + 1)
        if store.signed:
            with store.reading():
                store.require_signatures(seq, len(found))
        for entry, taken in found:
            decisions.take(bandit, seq, before)
            least = before if taken is None else max(before, taken.time)
            if not least - _CLOCK <= entry.time < np.inf:
                text = f"entry {entry.seq} is {least - entry.time:.0f} s before what precedes it"
                raise store.damaged(text, code="time-differs", event=entry.seq)
            before = max(before, entry.time)
            replica.apply(bandit, entry, taken)
            _require_form(store, entry, bandit)
            seq = entry.seq
            if seq in snapshots:
                _require_state(store, f"snapshot {seq}", replica.snapshot(seq), bandit, seq)
                compared += 1
        progress.show(f"entry {seq} of {last}")
    progress.close()
    _require_state(store, "the live bandit", live, bandit, seq)
    gaps = _gaps(store, first, compared, unknown) + decisions.gaps(sum(1 for _, seq in order if seq < first))
    return Verification(decisions.count, compared + 1, store.signed, gaps)


class _Decisions:
    """Decisions in the order of the states that took them, to be taken again."""

    def __init__(self, store: Store, replica: Replica, numbers: list[int]) -> None:
        self._store, self._replica, self._numbers = store, replica, numbers
        self._next: list[Taken] = []
        self.count, self._given = 0, 0
        self._clocks: dict[int, float] = {}  # latest time of each stream

    def take(self, bandit: AnyBandit, seq: int, since: float) -> None:
        """Take the decisions of the state after entry ``seq``, of time ``since``, again; raise unless as recorded."""
        while True:
            if not self._next and self._numbers:
                some, self._numbers = self._numbers[:CHUNK], self._numbers[CHUNK:]
                with self._store.reading():
                    self._next = self._store.rows_of(some)[::-1]
                    for taken in self._next:
                        _require_note(self._store, taken)
            if not self._next or self._next[-1].seq != seq:
                return
            taken = self._next.pop()
            least = max(since, self._clocks.get(taken.stream, -np.inf))
            if not least - _CLOCK <= taken.time < np.inf:
                text = f"decision {taken.id} is {least - taken.time:.0f} s before what precedes it"
                raise self._store.damaged(text, code="time-differs", event=taken.number, id=taken.id)
            self._clocks[taken.stream] = max(taken.time, self._clocks.get(taken.stream, -np.inf))
            self._repeat(bandit, taken)

    def _repeat(self, bandit: AnyBandit, taken: Taken) -> None:
        try:
            choice = self._replica.codec.read(taken)
            if choice.given:
                self._given += 1
                return
            text = self._replica.codec.difference(taken, choice, self._replica.codec.decide(bandit, taken, choice))
        except (TypeError, ValueError, RecursionError, AttributeError) as error:
            what = f"decision {taken.id}"
            raise self._replica.broken(what, error, event=taken.number, id=taken.id) from error
        if text:
            text = f"decision {taken.id} is {text}"
            raise self._store.damaged(text, code="decision-differs", event=taken.number, id=taken.id)
        self.count += 1

    def gaps(self, early: int) -> tuple[str, ...]:
        """Return what could not be verified, in words."""
        gaps = [f"decisions that others took: {self._given}"] if self._given else []
        return (*gaps, *([f"{early} decisions from before the first snapshot"] if early else []))


def _require_note(store: Store, taken: Taken) -> None:
    """Raise unless the note of a decision is there as it was, or a tombstone says that it was erased."""
    note = store.note(taken.stream, taken.number)
    fault = ""
    if taken.note is None:
        fault = "" if note is None else "it has a note that was not given"
    elif note is None:
        fault = "its note is missing"
    elif note[0] is None:
        fault = "" if note[1] is not None else "its note is empty"
    elif note[1] is not None or not isinstance(note[0], str):
        fault = "its note is there and was erased, or is no text"
    elif hashlib.sha256(note[0].encode()).digest() != taken.note:
        fault = "its note was changed"
    if fault:
        raise store.damaged(f"decision {taken.id}: {fault}", code="note-differs", event=taken.number, id=taken.id)


def _require_form(store: Store, entry: Entry, bandit: AnyBandit) -> None:
    """Raise unless an entry has the fields of its kind, and names the arms that there are after it."""
    about = None not in (entry.stream, entry.number, entry.place, entry.reward)
    none = entry.stream is entry.number is entry.place is entry.reward is None
    known = getattr(bandit, "arms", [])
    if not (about if entry.kind == "reward" else none) or (entry.kind == "start") != (entry.seq == 0):
        fault = f"a {entry.kind!r} cannot have its fields"
    elif entry.arms is not None and entry.arms != json.dumps(known):
        fault = "its arms are not those that there were"
    elif entry.arms is None and entry.kind not in ("reward", "erase"):
        fault = "it does not say which arms there were"
    else:
        return
    raise store.damaged(f"entry {entry.seq} is damaged: {fault}", event=entry.seq)


def _require_state(store: Store, what: str, one: AnyBandit, replayed: AnyBandit, seq: int) -> None:
    """Raise unless a bandit has the state of the replayed one."""
    where = "its kind"
    if type(one) is type(replayed):
        (values, arrays), (its_values, its_arrays) = one.state(), replayed.state()
        for solved in _SOLVED:
            for side in (values["belief"], its_values["belief"], arrays, its_arrays):
                side.pop(solved, None)
        for name in _COUNTS:
            for side in (values, its_values, arrays, its_arrays):
                side.pop(name, None)
        where = next((name for name in its_values if not _near(values.get(name), its_values[name])), "") or next(
            (name for name in its_arrays if not _near(arrays.get(name), its_arrays[name])), ""
        )
    if where:
        text = f"{what} differs from what replaying the events gives, in `{where}`: it is not that of the record"
        raise store.damaged(text, code="state-differs", event=seq)


def _near(one: Any, two: Any) -> bool:
    """Return whether two values of a state are the same but for rounding on another machine."""
    if isinstance(two, dict):
        return isinstance(one, dict) and one.keys() == two.keys() and all(_near(one[key], two[key]) for key in two)
    if isinstance(two, np.ndarray) and two.dtype == np.float64:
        if not isinstance(one, np.ndarray) or one.shape != two.shape:
            return False
        unit = np.abs(two).max(initial=0.0, where=np.isfinite(two))
        with np.errstate(invalid="ignore"):
            return bool(((one == two) | (np.abs(one - two) <= _SAME * unit)).all())
    if isinstance(two, float) and isinstance(one, float):
        return one == two or abs(one - two) <= _SAME * abs(two)
    return np.array_equal(one, two) if isinstance(two, np.ndarray) else bool(one == two)


def _gaps(store: Store, first: int, compared: int, unknown: list[str]) -> tuple[str, ...]:
    """Return what could not be verified, in words."""
    gaps = []
    if first > 0:
        gaps.append(f"entries up to {first}: the first snapshot is gone, and nothing says what the bandit was before")
    if not compared and not store.signed and first > 0:
        gaps.append("rewards up to the only snapshot: there is no other state to compare with")
    if unknown:
        gaps.append(f"the signature of decision {listing(unknown, 3)}: the decisions before it in its stream are gone")
    if not store.signed:
        gaps.append("events are not signed: edits with a recomputed checksum may go unseen")
    return tuple(gaps)
