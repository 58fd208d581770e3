"""A line on the terminal for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time

PATIENCE = 2.0  # seconds before anything is shown
INTERVAL = 0.5


class Progress:
    """Rewrites one line on stderr: nothing in the first two seconds, nothing if stderr is not a terminal.

    Silent off the main thread; the caller shows overall progress.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = self._shown = time.perf_counter()
        self._live = False
        self._silent = threading.current_thread() is not threading.main_thread()

    def show(self, state: str) -> None:
        """Say how far the work is."""
        now = time.perf_counter()
        if self._silent or now - self._began < PATIENCE or now - self._shown < INTERVAL or not sys.stderr.isatty():
            return
        self._shown, self._live = now, True
        line = f"\r\x1b[Kprudent: {self._what}, {state}, {now - self._began:.0f} s"
        print(line, end="", file=sys.stderr, flush=True)

    def say(self, message: str) -> None:
        """Say something at once, on a line of its own."""
        self.close()
        print(f"prudent: {message}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._live = False
