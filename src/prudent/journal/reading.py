"""Decisions of a journal as rows, in the order in which they were written and in little memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .._support.progress import Progress
from ..bandits.decision import Arm
from ..errors import PrudentWarning, StateFileError
from .codec import AnyBandit, longer
from .export import Row
from .replica import Replica
from .store import CHUNK, Entry, Place, Store, Taken, id_of

_BROKEN = (TypeError, ValueError, RecursionError, AttributeError, KeyError)


def decision_rows(
    store: Store, replica: Replica, require_open: Callable[[], None], skip: bool, since: float | None, bandit: AnyBandit
) -> Iterator[Row]:
    """Yield the decisions up to now, with all features of a bandit; with ``skip``, warn of damaged events and go on.

    Decisions that are added meanwhile are left out; the store is free between chunks.
    """
    progress, nr, last = Progress("reading the journal"), 0, None
    every = ArmsThen(_sound(store, Entry, store.raw_changes(), skip))
    while True:
        require_open()
        with store.reading():
            last = store.last_row() if last is None else last
            found = [row for row in store.raw_decisions(nr, CHUNK, since) if row[0] <= last]
            if not found:
                break
            taken = _sound(store, Taken, [row[1:] for row in found], skip)
            entries = _sound(store, Entry, store.raw_rewards(found[0][0], found[-1][0]), skip)
            notes = store.notes(found[0][0], found[-1][0])
        nr = found[-1][0]
        rewards: dict[Place, Entry] = {(entry.stream, entry.number, entry.place): entry for entry in entries}
        for row in taken:
            try:
                yield from _rows(replica, row, rewards, notes, every, bandit)
            except _BROKEN as error:
                failure = replica.broken(f"decision {row.id}", error, event=row.number)
                if not skip:
                    raise failure from error
                _skipped(store, failure)
        progress.show(f"row {nr} of {last}")
    progress.close()


class ArmsThen:
    """All arms that there were when a decision was taken."""

    def __init__(self, changes: list[Entry]) -> None:
        self._known = [(entry.seq, json.loads(entry.arms)) for entry in changes if entry.arms is not None]

    def at(self, seq: int) -> list[Arm]:
        """Return the arms after an entry."""
        found: list[Arm] = []
        for known, arms in self._known:
            if known > seq:
                break
            found = arms
        return list(found)


def _rows(
    replica: Replica,
    row: Taken,
    rewards: dict[Place, Entry],
    notes: dict[tuple[int, int], str | None],
    every: ArmsThen,
    bandit: AnyBandit,
) -> Iterator[Row]:
    """Yield the rows of a decision, one for each position of its slate."""
    choice, codec = replica.codec.read(row), replica.codec
    arms = every.at(row.seq) if choice.arms is None else choice.arms
    text = notes.get((row.stream, row.number))
    for place, arm in enumerate(choice.slate):
        reward = rewards.get((row.stream, row.number, place))
        found: Row = {
            "id": id_of((row.stream, row.number, place)),
            "time": row.time,
            "context": longer(choice.points[place], bandit).tolist(),
            "arms": list(arms),
            "arm": arm,
            "propensity": None if place else row.propensity,
            "score": choice.scores[place],
            "reward": None if reward is None else reward.reward,
            "reward_time": None if reward is None else reward.time,
            "note": None if text is None else json.loads(text)["note"],
        }
        yield found | {"place": place, "features": longer(choice.context, bandit).tolist()} if codec.items else found


def _sound(store: Store, kind: type[Any], rows: list[tuple[Any, ...]], skip: bool) -> list[Any]:
    """Return rows of the store as what they are; with ``skip``, without those that are damaged."""
    found = []
    for row in rows:
        try:
            found.append(store.checked(kind, row))
        except StateFileError as error:
            if not skip:
                raise
            _skipped(store, error)
    return found


def _skipped(store: Store, error: Exception) -> None:
    event = getattr(error, "fields", {}).get("event")
    warning = PrudentWarning(f"{error}; it was left out", code="damaged-event", path=store.path, event=event)
    warnings.warn(warning, stacklevel=2)
