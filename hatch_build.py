"""Build hook of the wheel: kernels that were compiled in advance, where ``make wheel`` names their folder."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):
    """Put the folder ``PRUDENT_KERNELS`` into the wheel, which is then one for this platform and this Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder; without it the wheel is for every platform, and kernels are compiled where it is used."""
        folder = os.environ.get("PRUDENT_KERNELS")
        if not folder or self.target_name != "wheel" or version == "editable":
            return
        if not any(Path(folder).rglob("*.nbc")):
            raise RuntimeError(f"there are no kernels in PRUDENT_KERNELS={folder}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # machine code that Numba loads: it needs no C library beyond what Numba's own wheels need
        platform = platform.replace("linux_", "manylinux_2_17_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"
        build_data["force_include"][folder] = "prudent/_kernels"
