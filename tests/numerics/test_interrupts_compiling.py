"""Ctrl-C while a kernel compiles: held back to its end, never lost and never an error of Numba."""

import subprocess
import sys
from pathlib import Path

import pytest
from _child import environment

SCRIPT = Path(__file__).parents[1] / "support" / "_presses.py"


def pressed(cache, *arguments):
    env = environment(NUMBA_CACHE_DIR=str(cache))
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=True).stdout


def test_ctrl_c_where_llvm_calls_back(tmp_path):
    """Once, twice, with a handler of the program's own, and in a thread that is not the main one."""
    assert pressed(tmp_path, "hook").split("\n") == [
        *("done", "done"),  # nobody presses
        *("interrupted", "done"),  # and the kernel is there afterwards
        *("interrupted", "done"),
        *("done, 1 seen", "handler kept"),
        *("done", "default", ""),
    ]


@pytest.mark.slow
def test_ctrl_c_at_fifty_random_moments(tmp_path, seed):
    assert pressed(tmp_path, seed, 50).strip() == "{'interrupted': 50}"
