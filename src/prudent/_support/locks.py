"""Objects that threads share without care: a lock of their own, which is no part of their state."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from typing import Any, Self

__all__ = ["Guarded"]


class Guarded:
    """Has a lock, ``self._lock``, that copies do not share, that files do not hold, and that survives a fork."""

    __slots__ = ("__dict__", "__weakref__", "_lock")

    _lock: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Return an object with a lock."""
        made = super().__new__(cls)
        made._lock = threading.RLock()
        _alive.add(made)
        return made

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # arrays that two shared would be guarded by two locks


# A thread of the parent may be inside an object while another one forks: the child would find its lock taken for ever,
# and what it guards half done.
_alive: weakref.WeakSet[Guarded] = weakref.WeakSet()
_held: list[Guarded] = []


def _hold_all() -> None:
    _held.extend(sorted(_alive, key=id))
    for each in _held:
        each._lock.acquire()


def _release_all() -> None:
    while _held:
        _held.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)
