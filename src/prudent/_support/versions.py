"""What the numbers of a run depend on besides its recipe: the software, by version and by source."""

from __future__ import annotations

import hashlib
import importlib
import platform
from functools import cache
from pathlib import Path

PACKAGES = ("numba", "numpy", "prudent", "scipy")


def versions() -> dict[str, str]:
    """Return the versions of all that numbers depend on.

    >>> sorted(versions())
    ['numba', 'numpy', 'prudent', 'python', 'scipy']
    """
    packages = {name: str(importlib.import_module(name).__version__) for name in PACKAGES}
    return packages | {"python": platform.python_version()}


def stamp() -> dict[str, str]:
    """Return the versions and a digest of our own source files: equal stamps compute equal numbers.

    >>> sorted(set(stamp()) - set(versions()))
    ['source']
    """
    return versions() | {"source": _source()}


@cache
def _source() -> str:
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


_source()  # now: a file that is edited later is not what this process runs
