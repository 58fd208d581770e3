"""Slots: named bandits with a journal each, and a lane in which requests wait to be decided together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import msgspec

from ..bandits.bandit import LinearBandit
from ..bandits.decision import Decision
from ..bandits.explain import Explanation
from ..errors import DataError, JournalError, PrudentError, StateFileError
from ..journal import Journal, Lag
from .bodies import SlotSpec, checked_slot
from .experiment_slots import Experiments
from .problems import ServiceError
from .registry import Registry, SlotRow

_LOG = logging.getLogger("prudent.serve")
_MOST = 256  # requests that are decided together, at most
_DEPTH = 20_000  # requests that wait for one slot, at most
_TURN = 16  # such groups of one slot before others have their turn
_PAUSE = 0.25  # seconds after a failure of the store before a request tries it again
_CROWD = 6  # requests that wait for one slot before a second thread works for it
_THREADS = 16
_BEHIND = 1000  # entries that a replica may lack after catching up: written meanwhile


class Decider(Protocol):
    """What a slot needs to decide and learn; a ``Journal`` is one, behind ``JournalDecider``."""

    def decide(self, requests: list[dict[str, Any]]) -> list[Decision | PrudentError]:
        """Return decisions for requests, or their errors."""
        ...

    def reward(self, reports: list[tuple[str, float, str | None]]) -> list[str | PrudentError]:
        """Return the status of each reward, or its error."""
        ...

    def explain(self, id: str) -> Explanation:
        """Return why a decision was taken; raise if there is none with this id."""
        ...

    def rows(self, since: float | None) -> Iterator[dict[str, Any]]:
        """Iterate over all decisions with their rewards; damaged ones are left out with a warning."""
        ...

    def catch_up(self) -> Lag:
        """Learn what is new and close windows that have ended; return how far the champion is behind."""
        ...

    @property
    def divided(self) -> bool:
        """Whether several bandits decide, which must have the same arms and features."""
        ...


class JournalDecider:
    """The decider of a slot without an experiment: its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def decide(self, requests: list[dict[str, Any]]) -> list[Decision | PrudentError]:
        """Return decisions for requests, or their errors."""
        return self._journal.select_each(requests)

    def reward(self, reports: list[tuple[str, float, str | None]]) -> list[str | PrudentError]:
        """Return the status of each reward, or its error."""
        found: list[Any] = [None] * len(reports)
        places = []
        for i, (_, _, metric) in enumerate(reports):
            if metric is None:
                places.append(i)
            else:
                text = f"metric is {metric!r}, and this slot has no experiment with guardrail metrics"
                found[i] = DataError(text, code="unknown-metric", argument="metric", value=metric)
        if places:
            statuses = self._journal.reward_each([reports[i][:2] for i in places])
            for i, status in zip(places, statuses, strict=True):
                found[i] = status
        return found

    def explain(self, id: str) -> Explanation:
        """Return why a decision was taken; raise if there is none with this id."""
        return self._journal.explain(id)

    def rows(self, since: float | None) -> Iterator[dict[str, Any]]:
        """Iterate over all decisions with their rewards; damaged ones are left out with a warning."""
        return self._journal.rows(since=since, damaged="skip")

    def catch_up(self) -> Lag:
        """Learn what is new and close windows that have ended; return how far the journal is behind."""
        return self._journal.catch_up()

    @property
    def divided(self) -> bool:
        """Whether several bandits decide, which must have the same arms and features."""
        return False


class Waiting(NamedTuple):
    """Requests of one call, and the future of their answers."""

    kind: str  # "decide", "reward", or "call": one function
    items: Any
    future: asyncio.Future[Any]


class Slot:
    """A slot that this server has open.

    Parameters
    ----------
    row : SlotRow
        Its row in the registry.
    journal : Journal
        Its journal.
    pool : ThreadPoolExecutor
        Threads that decide.
    """

    def __init__(self, row: SlotRow, journal: Journal, pool: ThreadPoolExecutor) -> None:
        self.row, self.journal = row, journal
        self.spec: SlotSpec = msgspec.json.decode(row.spec, type=SlotSpec)
        self.decider: Decider = JournalDecider(journal)
        self.failing: BaseException | None = None  # why the store is away
        self.waiting: deque[Waiting] = deque()
        self._pool, self._guard = pool, threading.Lock()
        self._busy = 0  # threads that work for it
        self._size, self._failed, self._ended = 0, 0.0, False

    def submit(self, kind: str, items: Any) -> asyncio.Future[Any]:
        """Queue requests; the future gives their answers, after they were committed.

        While the store is away one request tries it and the others are answered at once.
        """
        loop = asyncio.get_running_loop()
        waiting = Waiting(kind, items, loop.create_future())
        size = len(items) if kind != "call" else 1
        with self._guard:
            error = self._refusal(kind, size)
            crowded = self._busy == 1 and self._size + size >= _CROWD  # one waits for the store: another decides
            start = error is None and (not self._busy or crowded)
            if error is None:
                self._busy += start
                self._size += size
                self.waiting.append(waiting)
        if error is not None:
            waiting.future.set_result(error if kind == "call" else [error] * size)
        elif start:  # after the requests that are ready in this turn of the loop: they are decided together
            loop.call_soon(self._pool.submit, self._work, loop)
        return waiting.future

    def _refusal(self, kind: str, size: int) -> BaseException | None:
        """Return why requests are not queued; None if they are."""
        if self._ended:
            return archived(self.row.name)
        if self._size + size > _DEPTH:
            text = f"slot {self.row.name!r}: {self._size} requests are waiting; try again"
            return ServiceError(text, code="overloaded", slot=self.row.name, retry_after=1)
        failing = self.failing
        if failing is None or kind == "call":
            return None
        return failing if self._busy or time.monotonic() - self._failed < _PAUSE else None

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(_TURN):
            with self._guard:
                batch, count = [], 0
                while self.waiting and count < _MOST:
                    one = self.waiting.popleft()
                    batch.append(one)
                    count += len(one.items) if one.kind != "call" else 1
                self._size -= count
                if not batch:
                    self._busy -= 1
                    return
            done: list[tuple[asyncio.Future[Any], Any]] = []
            decider = self.decider
            for kind, ask in (("decide", decider.decide), ("reward", decider.reward)):
                chosen = [one for one in batch if one.kind == kind]
                if chosen:
                    answers = self._answered(ask, [item for one in chosen for item in one.items])
                    first = 0
                    for _, items, future in chosen:
                        done.append((future, answers[first : first + len(items)]))
                        first += len(items)
            done += [(one.future, _outcome(one.items)) for one in batch if one.kind == "call"]
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(_deliver, done)
        with suppress(RuntimeError):  # so that other slots have their turn
            self._pool.submit(self._work, loop)

    def _answered(self, ask: Callable[[list[Any]], list[Any]], items: list[Any]) -> list[Any]:
        try:
            found = ask(items)
            self.failing = None
            return found
        except Exception as error:
            if away(error):
                self.failing, self._failed = error, time.monotonic()
            return [error] * len(items)

    def end(self) -> None:
        """Refuse new requests, finish those that wait, and close the journal."""
        self._ended = True
        while self._busy:
            time.sleep(0.002)
        self.journal.close()


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return error


def _deliver(done: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in done:
        if not future.done():
            future.set_result(answer)


class Slots:
    """All slots of a server. Its methods block, but for those that say otherwise: call them in a thread.

    Parameters
    ----------
    registry : Registry
        Where they are kept.
    most_arms : int
        Arms of a slot, at most.
    """

    def __init__(self, registry: Registry, most_arms: int) -> None:
        self.registry, self._most_arms = registry, most_arms
        self.pool = ThreadPoolExecutor(_THREADS, "prudent-serve")
        self.open: dict[str, Slot] = {}
        self.rows: dict[str, SlotRow] = {}
        self.failures: dict[str, BaseException] = {}
        self.experiments = Experiments(registry)
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Read the registry and open what is new; a journal that cannot be opened is tried again next time."""
        with self._lock:
            rows = self.registry.slots()
            for name in set(self.failures) - {name for name, row in rows.items() if row.state != "archived"}:
                del self.failures[name]
            for name, row in rows.items():
                slot = self.open.get(name)
                if slot is not None and slot.row.version == row.version:
                    continue
                if slot is not None and slot.row.journal == row.journal:
                    slot.row, slot.spec = row, msgspec.json.decode(row.spec, type=SlotSpec)
                elif row.state != "archived":
                    self._open(row)
                if row.state == "archived" and name in self.open:
                    self._close(name)
            self.rows = rows
            self.experiments.follow(self.open)

    def _open(self, row: SlotRow) -> Slot | None:
        try:
            journal = self.experiments.journal(row)  # open already, if the experiment has promoted it
            slot = Slot(row, journal or self.registry.journal(row.journal), self.pool)
        except (PrudentError, OSError) as error:
            self.failures[row.name] = error
            return None
        self.failures.pop(row.name, None)
        self.open[row.name] = slot
        return slot

    def _close(self, name: str) -> None:
        slot = self.open.pop(name)
        self.experiments.close(name)
        try:
            slot.end()
        except (PrudentError, OSError) as error:  # what was acknowledged is in the store
            _LOG.warning(msgspec.json.encode({"slot": name, "closing": str(error)}).decode())

    def find(self, name: str) -> Slot:
        """Return an open slot; raise if there is none. It does not block."""
        slot = self.open.get(name)
        if slot is not None:
            return slot
        if name in self.failures:
            raise self.failures[name]
        self.row(name)
        raise archived(name)

    def row(self, name: str) -> SlotRow:
        """Return the row of a slot; raise if there is none."""
        row = self.rows.get(name)
        if row is None:
            raise ServiceError(f"there is no slot {name[:60]!r}", code="unknown-slot", slot=name[:60])
        return row

    def describe(self, row: SlotRow) -> dict[str, Any]:
        """Return what the service says of a slot. It does not block."""
        slot = self.open.get(row.name)
        spec = msgspec.json.decode(row.spec)
        return {
            "slot": row.name,
            "state": row.state,
            "version": row.version,
            "created": row.created,
            "changed": row.changed,
            "spec": spec,
            "available": slot is not None and slot.failing is None,
        }

    def failing(self) -> bool:
        """Return whether the store of an open slot was away at the last request. It does not block."""
        return any(slot.failing is not None for slot in list(self.open.values()))

    # -- changes -------------------------------------------------------------------------------------------

    def put(self, name: str, spec: SlotSpec) -> tuple[SlotRow, bool]:
        """Create a slot, or change its arms and fallback; return its row, and whether it is new."""
        checked_slot(name)
        bandit = spec.bandit(self._most_arms)
        text = msgspec.json.encode(spec).decode()
        with self._lock:
            self.refresh()
            row = self.rows.get(name)
            if row is None:
                journal_name = self.registry.new_name()
                journal = self.registry.journal(journal_name, bandit, **spec.journal_options())
                return self._started(name, journal_name, journal, text), True
            if row.spec == text:
                return row, False
            self._change(row, spec, bandit)
            return self._written(row, row.state, text), False

    def _started(self, name: str, journal_name: str, journal: Journal, spec: str) -> SlotRow:
        row = self.registry.put(name, "active", journal_name, spec, None)
        if row is None:
            journal.close()
            raise ServiceError(f"slot {name!r} was made by another request", code="slot-exists", slot=name)
        self.open[name] = Slot(row, journal, self.pool)
        self.rows[name] = row
        return row

    def _written(self, row: SlotRow, state: str, spec: str) -> SlotRow:
        new = self.registry.put(row.name, state, row.journal, spec, row.version)
        if new is None:
            raise ServiceError(f"slot {row.name!r} was changed by another request", code="slot-changed", slot=row.name)
        self.rows[row.name] = new
        slot = self.open.get(row.name)
        if slot is not None:
            slot.row, slot.spec = new, msgspec.json.decode(spec, type=SlotSpec)
        return new

    def _change(self, row: SlotRow, spec: SlotSpec, bandit: Any) -> None:
        """Give the bandit of a slot the arms and named features of a new spec; raise if anything else would change."""
        old = msgspec.json.decode(row.spec, type=SlotSpec)
        named = isinstance(old.features, list) and isinstance(spec.features, list)
        free = ("arms", "fallback", "features") if named else ("arms", "fallback")
        for name in SlotSpec.__struct_fields__:
            if name not in free and getattr(old, name) != getattr(spec, name):
                text = f"slot {row.name!r} was made with another {name}; only {', '.join(free)} can be changed"
                raise ServiceError(text, code="slot-exists", slot=row.name, argument=name)
        for name in ("features", "arms"):
            if getattr(old, name) != getattr(spec, name) and self.find(row.name).decider.divided:
                text = f"slot {row.name!r} has an experiment: its {name} can be changed before and after it"
                raise ServiceError(text, code="slot-exists", slot=row.name, argument=name)
        if isinstance(spec.features, list) and old.features != spec.features:
            self._migrate(self.find(row.name), spec)
        if old.arms != spec.arms and isinstance(bandit, LinearBandit):
            journal = self.find(row.name).journal
            there = list(getattr(journal.bandit, "arms", ()))
            for arm in bandit.arms:
                if arm not in there:
                    journal.add_arm(arm)
            for arm in there:
                if arm not in bandit.arms:
                    journal.remove_arm(arm)

    def _migrate(self, slot: Slot, spec: SlotSpec) -> None:
        """Give the bandit of a slot the named features of a new spec."""
        known = slot.journal.bandit.features or ()
        features = [*known, *(name for name in spec.features or () if name not in known)]
        msgspec.structs.replace(spec, features=features).bandit(self._most_arms)  # raises if they are too many
        slot.journal.migrate(spec.features or ())

    def set_state(self, name: str, state: str) -> SlotRow:
        """Pause, archive or restore a slot."""
        with self._lock:
            self.refresh()
            row = self.row(name)
            if row.state == state:
                return row
            new = self._written(row, state, row.spec)
            if state == "archived" and name in self.open:
                self._close(name)
            elif name not in self.open and state != "archived":
                self._open(new)
            return new

    def copy(self, name: str, to: str) -> SlotRow:
        """Start a slot with what another one has learned; decisions and rewards stay with the first."""
        checked_slot(to)
        with self._lock:
            self.refresh()
            source = self.find(name)
            if to in self.rows:
                raise ServiceError(f"there is a slot {to!r} already", code="slot-exists", slot=to)
            journal_name = self.registry.new_name()
            options = source.spec.journal_options()
            journal = self.registry.journal(journal_name, source.journal.bandit, **options)
            return self._started(to, journal_name, journal, source.row.spec)

    def check_store(self) -> None:
        """Learn what is new and close windows; raise unless the store can be written and every slot is caught up."""
        self.refresh()
        self.registry.require_writable()
        for error in list(self.failures.values()):
            raise error
        for name, slot in list(self.open.items()):
            lag = slot.decider.catch_up()
            slot.failing = None
            if lag.entries > _BEHIND:
                text = f"slot {name!r} is {lag.entries} entries behind the log"
                raise ServiceError(text, code="catching-up", slot=name)

    def close(self) -> None:
        """Finish what waits and close all journals."""
        with ThreadPoolExecutor(_THREADS, "prudent-close") as pool:
            list(pool.map(self._close, list(self.open)))
        self.pool.shutdown(wait=True)
        self.registry.close()


def away(error: Any) -> bool:
    """Return whether an answer says that the store is away."""
    return isinstance(error, JournalError | StateFileError | OSError)


def archived(name: str) -> ServiceError:
    """Return the error for a slot that is archived."""
    return ServiceError(f"slot {name!r} is archived: restore it first", code="slot-archived", slot=name)
