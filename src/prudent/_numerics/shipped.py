"""Kernels that come with a wheel, compiled for a common processor, so that the first call compiles nothing.

A wheel for one platform and one Python holds the machine code of what ``prudent compile`` compiles, in the folder
``_kernels``, a file of code and an index for each kernel as in Numba's own cache. It is used where nothing was compiled
on this machine, if all of this holds: the same version of Numba, the same source of the kernel and of everything that
it imports (Numba's index has both), the same platform, and a processor that has every feature of ``TARGET``. Otherwise
the kernel is compiled as if the folder were not there. ``PRUDENT_SHIPPED_KERNELS=0`` turns it off: then kernels are
compiled for exactly this processor.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core import caching, config

PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = PACKAGE / "_kernels"
TARGET = "x86-64-v3"
"""Processors since about 2013 (Haswell, Zen), as LLVM calls them."""

FEATURES = ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse4.2", "xsave")
"""What processors of ``TARGET`` have beyond the oldest ones of 64 bits."""


@cache
def usable() -> bool:
    """Return whether there are kernels that this processor can run, and nobody has asked for others."""
    if not FOLDER.is_dir() or os.environ.get("PRUDENT_SHIPPED_KERNELS") == "0":
        return False
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:  # chosen by the user: NUMBA_CPU_NAME
        return False
    host = binding.get_host_cpu_features()
    return all(host.get(feature, False) for feature in FEATURES)


class ShippedFile:
    """The machine code of one kernel in the folder of the package.

    Parameters
    ----------
    source : Path
        File that defines the kernel.
    base : str
        Begin of the names of the kernel's files.
    stamp : str
        Digest of the source, as in the index.
    """

    def __init__(self, source: Path, base: str, stamp: str) -> None:
        place = FOLDER / source.resolve().parent.relative_to(PACKAGE)
        self._file = caching.IndexDataCacheFile(str(place), base, stamp)

    def load(self, key: tuple[Any, tuple[str, str, str], Any]) -> Any:
        """Return the data of a kernel for the key of Numba's index on this processor; None if there are none."""
        signature, (platform, *_), code = key
        return self._file.load((signature, (platform, TARGET, ""), code))
