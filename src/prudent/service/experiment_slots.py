"""Experiments of the slots of a server: opened with them, followed when others change them, and their rules run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from ..journal import Journal
from .experiment_store import ExperimentStore
from .experiments import Experiment
from .registry import Registry, SlotRow

_REST = 20.0  # times as long as a look takes before the next one: rules take at most 5% of a core


class OpenSlot(Protocol):
    """What an experiment needs of a slot."""

    row: SlotRow
    journal: Journal
    decider: Any
    spec: Any


class Experiments:
    """Experiments of open slots. Methods block: call them in a thread.

    Parameters
    ----------
    registry : Registry
        Where they are kept.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, ExperimentStore(registry)
        self._open: dict[str, Experiment] = {}
        self._next: dict[str, float] = {}
        self._lock = threading.RLock()

    def journal(self, row: SlotRow) -> Journal | None:
        """Return the journal of a slot if its experiment has it open."""
        with self._lock:
            experiment = self._open.get(row.name)
            state = None if experiment is None else experiment.state
            if experiment is None or state is None:
                return None
            experiment.refresh()
            found = experiment.state
            return experiment.champion if found is not None and found.champion == row.journal else None

    def follow(self, slots: Mapping[str, OpenSlot]) -> None:
        """Open the experiments of slots, and read what other servers have changed."""
        numbers = self._store.numbers()
        with self._lock:
            for name, slot in slots.items():
                if name not in numbers:
                    continue
                experiment = self.of(slot)
                if experiment.version != numbers[name]:
                    experiment.refresh()
                slot.decider, slot.journal = experiment, experiment.champion

    def of(self, slot: OpenSlot) -> Experiment:
        """Return the experiment of a slot, which may have none yet."""
        with self._lock:
            found = self._open.get(slot.row.name)
            if found is None:
                options = slot.spec.journal_options()
                found = self._open[slot.row.name] = Experiment(self._registry, slot.row.name, slot.journal, options)
            return found

    def act(self, slot: OpenSlot) -> dict[str, Any] | None:
        """Let the rules of a slot's experiment act, and its shadows learn; None if it is too early to look again."""
        experiment = self._open.get(slot.row.name)
        state = None if experiment is None else experiment.state
        if experiment is None or state is None or state.status != "running":
            return None
        if time.monotonic() < self._next.get(slot.row.name, 0.0):
            return None
        began = time.monotonic()
        found = experiment.act()
        self._next[slot.row.name] = time.monotonic() + _REST * (time.monotonic() - began)
        return found

    def close(self, name: str) -> None:
        """Close the journals of a slot's experiment."""
        with self._lock:
            experiment = self._open.pop(name, None)
        if experiment is not None:
            experiment.close(given=True)
