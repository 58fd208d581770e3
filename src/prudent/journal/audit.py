"""Verification of a journal: everything is done again from the first snapshot on, and compared with the record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from .._support.progress import Progress
from ..bandits.decision import Decision
from .codec import AnyBandit, difference, propensity_of
from .file import Event, JournalFile
from .replica import Replica

_SAME = 1e-9  # of itself, by which numbers of a state may differ on another machine
_SAME_CHANCE = 1e-6
_CLOCK = 3600.0  # seconds that a clock may be set back
_SOLVED = ("root", "mean", "absorbed")  # of a state, what follows from the sums


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


def verified(
    file: JournalFile, replica: Replica, live: AnyBandit, last: int, reading: Callable[[], AbstractContextManager[Any]]
) -> Verification:
    """Replay the events up to ``last``; ``live`` is the bandit after them. Raises StateFileError at a difference."""
    with reading():
        snapshots = file.snapshots()
    first, count, compared, before = snapshots[-1], 0, 0, -np.inf
    bandit = _loaded(replica, first, reading)
    decided: dict[int, Event] = {}  # events of the latest decision, as they should be
    seq, progress = first, Progress("verifying the journal")
    if file.signed:
        with reading():
            file.require_signature(first)
    while seq < last:
        with reading():
            for event in file.following(seq, last):
                if file.signed:
                    file.require_signature(event.seq)
                if not before - _CLOCK <= event.time < np.inf:
                    text = f"event {event.seq} is {before - event.time:.0f} s before the one that precedes it"
                    raise file.damaged(text, code="time-differs", event=event.seq)
                before = max(before, event.time)
                again = replica.apply(bandit, event)
                if isinstance(again, Decision):
                    count += 1
                    written = replica.codec.write(bandit, again, event.seq, chance=propensity_of(again))
                    decided = {one.seq: one for one in written}
                if event.kind == "decision":
                    _require_same(file, event, decided.get(event.seq), again)
                seq = event.seq
                if seq in snapshots:
                    _require_state(file, f"snapshot {seq}", replica.snapshot(seq), bandit, seq)
                    compared += 1
        progress.show(f"event {seq} of {last}")
    progress.close()
    _require_state(file, "the live bandit", live, bandit, seq)
    return Verification(count, compared + 1, file.signed, _gaps(file, first, compared))


def _loaded(replica: Replica, seq: int, reading: Callable[[], AbstractContextManager[Any]]) -> AnyBandit:
    with reading():
        return replica.snapshot(seq)


def _require_same(file: JournalFile, event: Event, replayed: Event | None, decision: Any) -> None:
    """Raise unless the event of a decision is what replaying it gives."""
    text = "of no slate" if replayed is None else difference(event, replayed, score=True)
    if not text and replayed is not None and isinstance(decision, Decision):
        found, expected = event.propensity, replayed.propensity
        slack = _SAME_CHANCE + 10.0 * (decision.propensity_error or 0.0 if expected is not None else 0.0)
        if (found is None) != (expected is None) or abs((found or 0.0) - (expected or 0.0)) > slack:
            text = f"recorded with the propensity {found}, but replaying it gives {expected}"
    if text:
        text = f"decision {event.seq} is {text}"
        raise file.damaged(text, code="decision-differs", event=event.seq)


def _require_state(file: JournalFile, what: str, one: AnyBandit, replayed: AnyBandit, seq: int) -> None:
    """Raise unless a bandit has the state of the replayed one."""
    where = "its kind"
    if type(one) is type(replayed):
        (values, arrays), (its_values, its_arrays) = one.state(), replayed.state()
        for solved in _SOLVED:
            for side in (values["belief"], its_values["belief"], arrays, its_arrays):
                side.pop(solved, None)
        where = next((name for name in its_values if not _near(values.get(name), its_values[name])), "") or next(
            (name for name in its_arrays if not _near(arrays.get(name), its_arrays[name])), ""
        )
    if where:
        text = f"{what} differs from what replaying the events gives, in `{where}`: it is not that of the record"
        raise file.damaged(text, code="state-differs", event=seq)


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


def _gaps(file: JournalFile, first: int, compared: int) -> tuple[str, ...]:
    """Return what could not be verified, in words."""
    gaps = []
    if first > 0:
        gaps.append(f"events up to {first}: the first snapshot is gone, and nothing says what the bandit was before")
    if not compared and not file.signed and first > 0:
        gaps.append("rewards up to the only snapshot: there is no other state to compare with")
    if not file.signed:
        gaps.append("events are not signed: edits with a recomputed checksum may go unseen")
    return tuple(gaps)
