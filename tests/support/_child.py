"""Processes of their own for tests: they see this very library, and SIGINT as a shell in the foreground gives it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PATIENCE = 300.0  # seconds after which a child hangs; what is interrupted in the tests would take longer by far


def environment(**extra: str) -> dict[str, str]:
    """Return the environment in which a child imports what we import: the library here, and the tests."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return os.environ | {"PYTHONPATH": path} | extra


def python(program: str, *arguments: object, env: dict[str, str] | None = None, **options: Any) -> Any:
    """Run a program to its end and return what became of it."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(
        command, **({"env": env or environment(), "capture_output": True, "text": True, "timeout": PATIENCE} | options)
    )


def on_a_terminal(
    program: str, arguments: Iterable[object], presses: Callable[[str], bool], **extra: str
) -> tuple[int, str]:
    """Run a program in the foreground of a terminal of its own; press Ctrl-C whenever ``presses(shown)`` says so.

    Returns the exit code and all that was shown on stdout and stderr.
    """
    ours, theirs = pty.openpty()

    def to_the_foreground() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if pytest itself runs in the background of a shell
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="100", **extra),
        start_new_session=True,
        preexec_fn=to_the_foreground,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.01)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                shown += part
            if presses(shown.decode(errors="replace")):
                os.write(ours, b"\x03")
        # where colorama is installed, Numba has it reset the terminal at the end
        return process.wait(10), shown.decode(errors="replace").replace("\x1b[0m", "")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
