"""Commits in groups: while one thread commits, others queue up, and the next one commits for all of them.

A call that is alone commits at once. With ``later`` a call does not wait: a thread commits what is in the queue after
a few milliseconds, or the call does when the queue is long. What has not been committed is lost if the process dies.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from ..errors import JournalError, PrudentWarning
from .store import Job, Store

_MOST = 1000  # jobs in one commit


class GroupWriter:
    """Queue of what the threads of a process write to a store."""

    def __init__(self, store: Store, delay: float, events: int) -> None:
        self._store, self._delay, self._events = store, delay, events
        self.reset()

    def reset(self) -> None:
        """Start with an empty queue and new locks, as after a fork."""
        self._queue: deque[Job] = deque()  # any thread appends, who has the turn takes
        self._guard = threading.Condition()  # of the thread that commits later
        self._turn = threading.Lock()  # who has it commits
        self._thread: threading.Thread | None = None
        self._lost: BaseException | None = None

    def commit(self, job: Job) -> Job:
        """Write a job, with all that is in the queue, and return it when it is written."""
        if self._lost is not None:
            self._raise_lost()
        self._queue.append(job)
        with self._turn:
            while not job.done:
                self._commit_some()
        if job.error is not None:
            raise job.error
        return job

    def later(self, job: Job) -> None:
        """Write a job soon."""
        self._raise_lost()
        with self._guard:
            self._queue.append(job)
            full = len(self._queue) >= self._events
            if self._thread is None:
                self._thread = threading.Thread(target=self._commit_for_ever, name="prudent journal", daemon=True)
                self._thread.start()
            else:
                self._guard.notify()
        if full:
            self.flush()

    def flush(self) -> None:
        """Write all that is in the queue."""
        with self._turn:
            while self._queue:
                self._commit_some()
        self._raise_lost()

    def alone(self, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns, while nobody else in this process commits."""
        with self._turn:
            return work()

    def rest(self, patience: float) -> bool:
        """Commit what is in the queue and let nobody commit until ``go_on``; return False if that takes too long."""
        if not self._turn.acquire(timeout=patience):
            return False
        try:
            while self._queue:
                self._commit_some()
        except BaseException:
            self._turn.release()
            raise
        return True

    def go_on(self) -> None:
        """Let threads commit again."""
        self._turn.release()

    def _raise_lost(self) -> None:
        error, self._lost = self._lost, None
        if error is not None:
            raise error

    def _commit_some(self) -> None:
        """Write the first jobs of the queue in one transaction."""
        queue, jobs = self._queue, list[Job]()
        error: BaseException | None = None
        try:
            while queue and len(jobs) < _MOST:
                jobs.append(queue.popleft())
            if jobs:
                self._store.commit(jobs)
        except Exception as failure:
            error = failure
        except BaseException:
            error = JournalError(
                f"{self._store.path}: the commit was interrupted in another thread; try again",
                code="interrupted",
                path=self._store.path,
            )
            raise
        finally:
            for job in jobs:
                job.error, job.done = error, True
            if error is not None and self._thread is not None:
                self._lost = error if any(job.decisions for job in jobs) else self._lost

    def _commit_for_ever(self) -> None:
        while True:
            with self._guard:
                while not self._queue:
                    self._guard.wait()
            time.sleep(self._delay)
            try:
                with self._turn:
                    self._commit_some()
            except BaseException as error:  # of the interpreter that ends, say
                warnings.warn(PrudentWarning(f"{error}", code="not-written", path=self._store.path), stacklevel=2)
                return
