"""Memory that a call would need, checked before anything is allocated.

Without a check a number such as 99999999999 ends in a MemoryError somewhere inside, or the system ends the process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..errors import ParameterError

UNKNOWN = 2**40  # bytes that are taken for available where the system does not say
MEMINFO = Path("/proc/meminfo")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
SMALL = 2**26  # bytes for which nobody is asked


def available_memory() -> int:
    """Return the bytes that can be allocated: what the system has available, at most the limit of a container.

    >>> available_memory() > 0
    True
    """
    found = []
    with suppress(OSError, ValueError):
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    for path in LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            found.append(int(path.read_text()))
    if not found and hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=UNKNOWN)


def require_memory(needed: float, argument: str, value: object, advice: str = "") -> None:
    """Raise if ``needed`` bytes, because of this argument, are more than is available; ``advice`` says what to do.

    >>> require_memory(8.0 * 1000, "draws", 1000)
    """
    if needed <= SMALL:
        return
    available = available_memory()
    if needed > available:
        message = (
            f"{argument} = {value} needs about {_in_words(needed)} of memory, and {_in_words(available)} are available"
            + (f"; {advice}" if advice else "")
        )
        raise ParameterError(message, code="memory", argument=argument, value=value, expected=available)


def _in_words(size: float) -> str:
    return f"{size / 2**30:,.3g} GiB"
