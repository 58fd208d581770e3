"""Kernels that come with the package: used where they fit, and never where they do not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding

import prudent
from prudent._numerics.shipped import FEATURES, TARGET

binding.initialize_native_target()
pytestmark = pytest.mark.skipif(
    not all(binding.get_host_cpu_features().get(feature) for feature in FEATURES), reason=f"this is no {TARGET}"
)

CALL = """
import numpy as np
from numba.core import event
from prudent._numerics import shipped
from prudent._numerics.copying import put

class Compilations(event.Listener):
    count = 0
    def on_start(self, event):
        Compilations.count += 1
    def on_end(self, event):
        pass

event.register("numba:compile", Compilations())
target = np.zeros(4)
put(target, np.arange(3.0))
assert target.tolist() == [0.0, 1.0, 2.0, 0.0]
print(Compilations.count, len(put.overloads))
"""


def compilations(package: Path, cache: Path, **settings: str) -> int:
    """Return how often a new process compiles to call one kernel of ``package``, with an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PRUDENT_"))}
    chosen = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(cache)}
    call = [sys.executable, "-c", CALL]
    env = clean | chosen | settings
    done = subprocess.run(call, env=env, capture_output=True, text=True, cwd=package.parent, check=False)
    assert done.returncode == 0, done.stderr
    compiled, overloads = map(int, done.stdout.split())
    assert overloads == 1
    return compiled


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A copy of the package with one compiled kernel in it, made as ``release/kernels.py`` makes all of them."""
    folder = tmp_path_factory.mktemp("wheel")
    found = folder / "prudent"
    source = Path(prudent.__file__).parent
    shutil.copytree(source, found, ignore=shutil.ignore_patterns("__pycache__", "_kernels"))
    cache = folder / "cache"
    assert compilations(found, cache, NUMBA_CPU_NAME=TARGET, NUMBA_CPU_FEATURES="") == 1
    place = found / "_kernels" / "_numerics"
    place.mkdir(parents=True)
    for file in cache.rglob("copying.put-*"):
        shutil.move(file, place / file.name)
    assert {file.suffix for file in place.iterdir()} == {".nbi", ".nbc"}
    return found


def test_a_shipped_kernel_is_not_compiled(package, tmp_path):
    assert compilations(package, tmp_path / "cache") == 0


@pytest.mark.parametrize(
    "settings",
    [{"PRUDENT_SHIPPED_KERNELS": "0"}, {"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_NAME": TARGET}],
    ids=["turned off", "another processor", "asked for"],
)
def test_it_is_compiled_if_the_user_asks_for_it(package, tmp_path, settings):
    assert compilations(package, tmp_path / "cache", **settings) == 1


def test_it_is_compiled_if_the_source_is_another_one(package, tmp_path):
    other = tmp_path / "prudent"
    shutil.copytree(package, other)
    file = other / "_support" / "locks.py"  # which the kernel's file imports at second hand
    file.write_text(file.read_text() + "\n# changed\n")
    assert compilations(other, tmp_path / "cache") == 1


@pytest.mark.parametrize("damage", ["truncated", "gone", "foreign"])
def test_it_is_compiled_if_its_file_is_damaged(package, tmp_path, damage):
    other = tmp_path / "prudent"
    shutil.copytree(package, other)
    (code,) = (other / "_kernels" / "_numerics").glob("*.nbc")
    if damage == "gone":
        code.unlink()
    else:
        code.write_bytes(code.read_bytes()[:1000] if damage == "truncated" else b"no machine code")
    assert compilations(other, tmp_path / "cache") == 1
