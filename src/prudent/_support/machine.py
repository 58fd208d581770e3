"""The machine that a program runs on, and the commit of its source, for records of runs."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return system, processor, cores and memory of this machine.

    >>> sorted(machine())
    ['architecture', 'cores', 'memory_gib', 'processor', 'system']
    """
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
    }


@cache
def processor() -> str:
    """Return the name of the processor; the architecture where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def commit() -> dict[str, Any] | None:
    """Return the commit of our source and whether files of it were changed since; None if it is not a checkout."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()

    try:
        if not git("ls-files", "--", Path(__file__).name):  # installed into a checkout of something else
            return None
        return {"id": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "--", str(folder.parent)))}
    except (OSError, subprocess.SubprocessError):
        return None
