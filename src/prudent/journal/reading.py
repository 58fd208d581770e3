"""Decisions of a journal as rows, in order and in little memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from .._support.progress import Progress
from ..errors import PrudentWarning, StateFileError
from .codec import RowReader
from .export import Row
from .file import CHUNK, Event, JournalFile
from .replica import Replica


def decision_rows(
    file: JournalFile, replica: Replica, reading: Callable[[], AbstractContextManager[Any]], skip: bool
) -> Iterator[Row]:
    """Yield the decisions up to now as rows; with ``skip``, warn of damaged events and go on."""
    reader = RowReader(replica.codec)
    for events, rewards in _chunks(file, reading, skip):
        for event in events:
            try:
                row = reader.row(event, rewards.get(event.seq))
            except (TypeError, ValueError, RecursionError, AttributeError) as error:
                failure = replica.broken([event], error)
                if not skip:
                    raise failure from error
                _skipped(file, failure)
                continue
            if row is not None:
                yield row


def _chunks(
    file: JournalFile, reading: Callable[[], AbstractContextManager[Any]], skip: bool
) -> Iterator[tuple[list[Event], dict[int, Event]]]:
    """Iterate over the events but rewards in order, each chunk with the rewards of its decisions.

    Events that are added meanwhile are left out; the lock is free between chunks.
    """
    progress, seq, last, count = Progress("reading the journal"), -1, None, 0
    while True:
        with reading():
            last = file.last() if last is None else last
            found = file.rows(seq, CHUNK, last)
            if not found:
                if not skip:
                    file.require_rewards(count, last)
                break
            events = _sound(file, found, skip)
            seen = _sound(file, file.reward_rows(found[0][0], found[-1][0]), skip)
        rewards = {event.decision or 0: event for event in seen if event.seq <= last}
        seq, count = found[-1][0], count + len(rewards)
        yield events, rewards
        progress.show(f"event {seq} of {last}")
    progress.close()


def _sound(file: JournalFile, rows: list[tuple[Any, ...]], skip: bool) -> list[Event]:
    """Return rows of the database as events; with ``skip``, without those that are damaged."""
    events = []
    for row in rows:
        try:
            events.append(file.checked(row))
        except StateFileError as error:
            if not skip:
                raise
            _skipped(file, error)
    return events


def _skipped(file: JournalFile, error: Exception) -> None:
    event = getattr(error, "fields", {}).get("event")
    warning = PrudentWarning(f"{error}; it was left out", code="damaged-event", path=file.path, event=event)
    warnings.warn(warning, stacklevel=2)
