"""Locks and forks: a base class with locks, and one registry of what happens when the process forks.

A forked child has only the thread that forked. A lock that another thread held would stay taken for ever, so locks of
a child are new. What another thread was changing would stay half changed, so a fork waits until nobody is changing a
registered object. It does not wait for threads that only read or decide, and it waits for at most ``PATIENCE`` in all:
a fork never hangs. An object that was still being changed then cannot be used in the child, where it raises an error.

Random streams need no registry, see ``streams``.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from functools import partial
from itertools import groupby
from typing import Any, NoReturn, Protocol, Self
from weakref import ref

from ..errors import PrudentError

PATIENCE = 2.0  # seconds that a fork waits for other threads, in all


class ForkAware(Protocol):
    """An object whose methods run at a fork, see `register_fork`.

    ``_fork_order`` is the order in which locks are taken: an object that takes the lock of another object while it
    holds its own has the lower number. ``_changing`` says whether the fork has to wait while the lock is taken.
    """

    _fork_order: int
    _changing: bool

    def _before_fork(self, patience: float) -> bool:
        """Take the lock within so many seconds; return whether it was taken."""

    def _after_fork(self, child: bool) -> None:
        """Release the lock in the parent, if it was taken; or start anew in the ``child``, whether it was or not."""


_registered: dict[int, ref[Any]] = {}  # by the id of the object
_thread = threading.local()  # resting: objects whose locks this thread has taken


def register_fork(member: ForkAware) -> None:
    """Call the fork methods of ``member``, which must be ready for them, at every fork as long as the object lives."""
    key = id(member)
    # without a line of Python, in which a signal could be handled: what its handler raises there is lost
    _registered[key] = ref(member, partial(_registered.pop, key))


def _members() -> list[Any]:
    """Return the registered objects in the order of their locks."""
    # a list of the values is made in one step, whatever other threads register
    alive = [member for weak in list(_registered.values()) if (member := weak()) is not None]
    return sorted(alive, key=_order)


def _order(member: Any) -> int:
    return int(member._fork_order)


def _before_fork() -> None:
    """Take all locks that are free, then those of objects that other threads are changing, as soon as they have."""
    resting: list[Any] = []
    _thread.resting = resting
    deadline = time.monotonic() + PATIENCE
    for _, group in groupby(_members(), _order):
        left, patience = list(group), 0.0
        while left:
            asked, left = left, []
            for member in asked:
                held = member._before_fork(patience if member._changing else 0.0)
                (resting if held else left).append(member)
            patience = max(0.0, deadline - time.monotonic())
            if patience == 0.0 or not any(member._changing for member in left):
                break


def _after_fork_in_parent() -> None:
    resting = _thread.resting
    while resting:
        resting.pop()._after_fork(False)


def _after_fork_in_child() -> None:
    _thread.resting = []
    for member in _members():
        member._after_fork(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _free(lock: Any) -> bool:
    """Return whether no other thread held a lock when this process forked."""
    return bool(lock.acquire(blocking=False))


class Changing:
    """Context in which a `Guarded` object, whose lock is held, is being changed. It is not nested."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Guarded) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._owner._changing = True

    def __exit__(self, *details: object) -> None:
        self._owner._changing = False


class TornLock:
    """Lock of an object that another thread was changing when the process forked: it cannot be taken."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> NoReturn:
        message = (
            f"this {self._name} cannot be used in this process: another thread was changing it for more than "
            f"{PATIENCE:g} s when the process forked; fork before threads start, or load its state here"
        )
        raise PrudentError(message, code="changed-at-fork", value=self._name)

    def __exit__(self, *details: object) -> None:
        """Do nothing: it was never taken."""

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """Return False: it cannot be taken."""
        return False


class Guarded:
    """Base class with a re-entrant lock that is not copied or pickled and is fork-safe.

    Whoever changes what cannot be computed again says so, by `Changing` or by setting ``_changing`` while it holds the
    lock.
    """

    __slots__ = ("__dict__", "__weakref__", "_changing", "_lock")

    _fork_order = 1
    _lock: Any
    _changing: bool

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Return an object with a lock."""
        self = super().__new__(cls)
        self._lock, self._changing = threading.RLock(), False
        register_fork(self)
        return self

    def _before_fork(self, patience: float) -> bool:
        return bool(self._lock.acquire(timeout=patience))

    def _after_fork(self, child: bool) -> None:
        if not child:
            self._lock.release()
            return
        used = not _free(self._lock)
        torn, self._lock = used and self._changing, threading.RLock()
        try:
            if used and not torn:
                self._compute_again()
        except Exception:  # another thread was making it, and nobody knows it here
            torn = True
        if torn:
            self._lock = TornLock(type(self).__name__)

    def _compute_again(self) -> None:
        """Compute again what another thread was computing when the process forked."""

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # a shallow copy would share arrays under two locks
