"""How kernels are compiled, and how they use threads.

Every kernel releases the GIL and is cached on disk, so a machine compiles each one once per installation.
Threads are plain Python threads over ranges of rows: no Numba threading layer, hence nothing that breaks when
the caller has threads of its own, and no parallel compilation to wait for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

__all__ = ["default_threads", "inlined", "kernel", "over_rows"]


F = TypeVar("F", bound=Callable[..., Any])


def _source_stamp() -> tuple[float, int]:
    """Return the newest change and the total size of our files that hold kernels."""
    files = [file for file in Path(__file__).parent.parent.rglob("*.py") if b"@kernel" in file.read_bytes()]
    stats = [file.stat() for file in files]
    return max(stat.st_mtime for stat in stats), sum(stat.st_size for stat in stats)


_STAMP = _source_stamp()


def kernel(function: F) -> F:
    """Compile ``function`` on first call: no GIL, cached on disk, NumPy's rules for division."""
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    # Numba's cache looks only at the file that holds a kernel; a change in a kernel that it calls from another file
    # would go unseen and the old machine code run on. Hence one stamp for all our kernels.
    compiled._cache._cache_file._source_stamp = _STAMP
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Have ``function`` compiled into every kernel that calls it, for small steps of hot loops.

    A call that is not inlined copies every field of every array in its NamedTuples: a hundred nanoseconds for two.
    """
    return cast(F, numba.njit(inline="always", nogil=True, error_model="numpy")(function))


class _CompilationNotice(event.Listener):  # type: ignore[misc]
    """Says on stderr, once per process, that kernels are being compiled: it takes seconds, once per installation."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        dispatcher = (event.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "") or ""
        if not self._said and module.startswith("prudent"):
            self._said = True
            print("prudent: compiling kernels, once per installation ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _CompilationNotice())


def default_threads() -> int:
    """Return the number of threads kernels use unless told: ``PRUDENT_THREADS`` or the cores we may use."""
    told = os.environ.get("PRUDENT_THREADS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_rows(work: Callable[[int, int], Any], rows: int, threads: int, smallest: int = 1) -> list[Any]:
    """Call ``work(start, stop)`` over ranges that cover ``rows``, on up to ``threads`` threads.

    Ranges are small enough to share out evenly and never shorter than ``smallest``. Results come in order.
    """
    threads = min(threads, max(1, rows // smallest))
    if threads == 1:
        return [work(0, rows)]
    pieces = min(8 * threads, max(threads, rows // smallest))
    edges = [rows * i // pieces for i in range(pieces + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))
