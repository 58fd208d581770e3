"""A real dask cluster on this machine: a scheduler and workers, each a process of its own, all gone in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from _child import environment

STARTS = 120.0  # seconds in which a process must have started, also on a busy machine


class Loopback:
    """A scheduler and ``workers`` workers with a thread each; ``settings`` are dask's, by their environment names."""

    def __init__(self, folder: Path, workers: int = 3, **settings: str) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.settings = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "30s", "PRUDENT_THREADS": "1"} | settings
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._wanted = workers

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show")
            for _ in range(self._wanted):
                self.add()
            deadline = time.monotonic() + STARTS
            while not (written := self.file.read_text() if self.file.exists() else "").endswith("}"):
                assert self.scheduler.poll() is None, self.said()
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.02)
            self.address = str(json.loads(written)["address"])
        except BaseException:
            self.end()
            raise
        return self

    def _start(self, kind: str, *options: str, **extra: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        command += ["--scheduler-file", str(self.file), "--no-dashboard"]
        env = environment(**self.settings) | extra
        with (self.folder / f"{kind}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def add(self, **extra: str) -> subprocess.Popen[bytes]:
        """Start one more worker, in an environment with some more."""
        options = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--local-directory", str(self.folder))
        self.workers.append(self._start("worker", *options, **extra))
        return self.workers[-1]

    def said(self) -> str:
        """Return what all processes wrote."""
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        """End all processes, also those that are stopped."""
        for process in self.processes:
            process.kill()  # SIGKILL ends a stopped process, too
        for process in self.processes:
            process.wait(30)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.said())
        self.end()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Pause a process."""
    os.kill(process.pid, signal.SIGSTOP)


def go_on(process: subprocess.Popen[bytes]) -> None:
    """Let a paused process continue."""
    os.kill(process.pid, signal.SIGCONT)
