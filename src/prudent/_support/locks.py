"""Locks and forks: a base class with a lock, and one registry of what happens when the process forks.

A thread of the parent may hold the lock of an object while another thread forks. Without a handler the child would
inherit a lock that nobody releases, around data that is half changed.
"""

from __future__ import annotations

import copy
import os
import threading
from typing import Any, Protocol, Self
from weakref import WeakSet


class ForkAware(Protocol):
    """An object with methods that run at a fork, see `register_fork`.

    ``fork_order`` is the order in which locks are taken: an object that takes the lock of another object while it
    holds its own has the lower number.
    """

    fork_order: int

    def before_fork(self) -> None:
        """Prepare for a fork: take locks, close connections."""

    def after_fork(self, child: bool) -> None:
        """Continue after the fork, in the parent or in the ``child``."""


_registered: WeakSet[Any] = WeakSet()
_prepared: list[Any] = []  # objects between before_fork and after_fork


def register_fork(member: ForkAware) -> None:
    """Call the fork methods of ``member`` at every fork, as long as the object lives."""
    _registered.add(member)


def _members() -> list[Any]:
    """Return the registered objects in the order of their locks."""
    while True:
        try:
            return sorted(_registered, key=lambda member: (member.fork_order, id(member)))
        except RuntimeError:  # another thread has registered an object during the iteration
            continue


def _before_fork() -> None:
    for member in _members():
        member.before_fork()
        _prepared.append(member)


def _after_fork(child: bool) -> None:
    while _prepared:
        _prepared.pop().after_fork(child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )


class Guarded:
    """Base class with a re-entrant lock that is not copied or pickled and is fork-safe."""

    __slots__ = ("__dict__", "__weakref__", "_lock")

    fork_order = 1
    _lock: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Return an object with a lock."""
        self = super().__new__(cls)
        self._lock = threading.RLock()
        register_fork(self)
        return self

    def before_fork(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    def after_fork(self, child: bool) -> None:
        """Release the lock."""
        self._lock.release()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # a shallow copy would share arrays under two locks
