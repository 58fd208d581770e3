"""Studies of many simulated logs: one task for each, on several processes, kept as they end.

A task is a tuple of texts and numbers, and its result is made of texts, numbers, lists and dicts, so both are lines of
JSON. A study that is run again with the same file goes on where it was stopped. Results do not depend on the number of
processes, since each task has its own seed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SHOWN = 20.0  # seconds between two lines of progress


def one_thread() -> None:
    """Let every process use one thread, before anything loads a BLAS: the workers use all cores already."""
    for name in THREADS:
        os.environ[name] = "1"


def results(
    judged: Callable[[Any], Any], tasks: Sequence[tuple[Any, ...]], workers: int, keep: Path | None
) -> list[Any]:
    """Return what ``judged`` says of each task, in their order; what the file ``keep`` has is not done again.

    A task that fails is named, and the others go on; then the first error is raised.
    """
    found = _kept(keep)
    left = [task for task in tasks if _key(task) not in found]
    line = _Progress(len(tasks), len(tasks) - len(left))
    failed: BaseException | None = None
    with open(os.devnull if keep is None else keep, "a", encoding="utf-8") as file:

        def done(task: tuple[Any, ...], said: Any) -> None:
            found[_key(task)] = said
            file.write(json.dumps({"task": task, "said": said}) + "\n")
            file.flush()
            line.step()

        if workers < 2:
            for task in left:
                done(task, judged(task))
        else:
            with ProcessPoolExecutor(workers) as pool:
                waiting = {pool.submit(judged, task): task for task in left}
                for future in as_completed(waiting):
                    try:
                        done(waiting[future], future.result())
                    except Exception as error:  # the other tasks go on
                        print(f"{waiting[future]} failed: {error}", file=sys.stderr)
                        failed = failed or error
    if failed is not None:
        raise failed
    return [found[_key(task)] for task in tasks]


def _key(task: Sequence[Any]) -> str:
    return json.dumps(task)


def _kept(keep: Path | None) -> dict[str, Any]:
    """Return what a file has; its last line may have been cut off."""
    found: dict[str, Any] = {}
    if keep is None or not keep.exists():
        return found
    text = keep.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        keep.write_text(text, encoding="utf-8")
    for line in text.splitlines():
        record = json.loads(line)
        found[_key(record["task"])] = record["said"]
    return found


class _Progress:
    """How many tasks are done, and how long the others may take, on stderr."""

    def __init__(self, tasks: int, kept: int) -> None:
        self.tasks, self.kept, self.count = tasks, kept, kept
        self.began = self.last = time.monotonic()

    def step(self) -> None:
        """Count one more."""
        self.count += 1
        now = time.monotonic()
        if now - self.last < SHOWN and self.count < self.tasks:
            return
        self.last, spent = now, now - self.began
        rest = spent * (self.tasks - self.count) / (self.count - self.kept)
        print(f"{self.count} of {self.tasks} logs, {spent:.0f} s, about {rest:.0f} s left", file=sys.stderr, flush=True)
