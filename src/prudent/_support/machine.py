"""The machine that a program runs on, and the commit of its source, for records of runs."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
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


@cache
def commit() -> str:
    """Return the commit of our source as 40 digits; empty if it is not run from a checkout of its own repository.

    A copy that is installed or unpacked inside another repository, ours included, has no commit: what that repository
    has checked out says nothing about the copy.
    """
    try:
        name = tomllib.loads((_checkout() / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        top, found = _git("rev-parse", "--show-toplevel", "HEAD").splitlines()
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return ""
    return found if name == "prudent" and Path(top).resolve() == _checkout() else ""


def changed() -> bool:
    """Return whether files of our source were changed since its commit; also if git cannot say that they were not."""
    try:
        return bool(commit() and _git("status", "--porcelain", "--", "src"))
    except (OSError, subprocess.SubprocessError):
        return True


def _checkout() -> Path:
    """Return the folder that our source would be a checkout of, as the repository has it: ``CHECKOUT/src/prudent``."""
    package = Path(__file__).resolve().parents[1]
    return package.parents[1] if package.parent.name == "src" else package


def _git(*arguments: str) -> str:
    """Return what git says in our checkout, whichever repository the environment names, as it does in hooks."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(_checkout()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20, env=clean).stdout.strip()
