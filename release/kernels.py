"""Compile the kernels that a wheel brings along: ``python release/kernels.py OUT``, called by ``make wheel``.

The package is copied to a folder of its own and compiled there for the processors that ``prudent/_numerics/shipped.py``
names. The compiled files go to OUT, in the folders of their rooms.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from prudent._numerics.shipped import TARGET

SOURCE = Path(__file__).resolve().parents[1] / "src" / "prudent"


def main(out: Path) -> None:
    """Compile all kernels into the folder ``out``, which is made anew."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "prudent"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "_kernels"))
        settings = {"PYTHONPATH": folder, "NUMBA_CPU_NAME": TARGET, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": ""}
        subprocess.run([sys.executable, "-m", "prudent", "compile"], env=os.environ | settings, cwd=folder, check=True)
        files = sorted(file for kind in ("nbi", "nbc") for file in package.rglob(f"__pycache__/*.{kind}"))
        for file in files:
            place = out / file.parent.parent.relative_to(package)
            place.mkdir(parents=True, exist_ok=True)
            shutil.move(file, place / file.name)
    print(f"{len(files)} files in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
