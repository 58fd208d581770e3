"""Kernels that only kernels call have no machine code; they give the same numbers, from Python too."""

import gc
import json
import math
import threading
from pathlib import Path

import numba
import numpy as np
import pytest
from _child import environment, python
from numba.core.caching import NullCache

from prudent._numerics.compile import kernel, lean
from prudent._numerics.inner_code import is_inner


def kinds(compiled):
    """Return whether each signature of a kernel is one that only kernels call."""
    return [is_inner(result) for result in compiled.overloads.values()]


def forgotten(function):
    """Compile a kernel anew in each run of the tests."""
    compiled = kernel(function)
    compiled._cache = NullCache()
    return compiled


def make_kernels(compile_one):
    """Return an outer kernel, the one it calls, and the one that this calls, which raises and allocates."""

    @compile_one
    def first_of(values, n):
        if n > values.size:
            raise ValueError("too few values")
        found = np.empty(n)
        for i in range(n):
            found[i] = values[i]
        return found

    @compile_one
    def middle(values, n):
        total, scale = 0.0, np.ones(2)
        for x in first_of(values, n):
            total += math.exp(x) / scale[0] - x**2
        return total, n

    @compile_one
    def outer(values, n):
        total, used = middle(values, n)
        return total / used

    return outer, middle, first_of


def test_numbers_are_those_of_numba(rng):
    ours = make_kernels(forgotten)
    theirs = make_kernels(numba.njit(error_model="numpy"))
    for _ in range(200):
        values, n = rng.normal(0.0, 100.0, rng.integers(1, 30)), int(rng.integers(0, 31))
        found = []
        for outer, _, _ in (ours, theirs):
            try:
                found.append(np.float64(outer(values, n)).tobytes())
            except ValueError as error:
                found.append(str(error))
        assert found[0] == found[1]
    assert [kinds(each) for each in ours] == [[False], [True], [True]]


def test_python_calls_an_inner_kernel():
    outer, middle, first_of = make_kernels(forgotten)
    values = np.array([3.0, 1.0, 2.0])
    assert outer(values, 2) == pytest.approx((math.exp(3) - 9 + math.e - 1) / 2)
    assert kinds(first_of) == [True]
    assert first_of(values, 2).tolist() == [3.0, 1.0]
    assert kinds(first_of) == [False]
    assert middle(values, 1) == (math.exp(3) - 9, 1)
    with pytest.raises(ValueError) as raised:
        first_of(values, 4)
    assert str(raised.value) == "too few values"
    assert outer(values[[1, 0, 2]], 2) == outer(values, 2)
    assert outer(values[:2].astype(np.float32), 2) > 0.0  # a new signature, of all three
    assert (kinds(outer), kinds(middle), kinds(first_of)) == ([False, False], [False, True], [False, True])


def test_lean_kernels_are_guarded_as_inner_kernels():
    @lean
    def itself(values):
        return values

    @kernel
    def outer(values):
        return itself(values)[0]

    with pytest.raises(TypeError):
        outer(np.ones(2))


def test_threads_that_call_an_inner_kernel_while_others_compile_its_callers():
    _, _, first_of = make_kernels(forgotten)
    failures = []

    def caller(k):
        @forgotten
        def outer(values):
            return first_of(values, 1)[0] + k

        return outer

    def work(k):
        values = np.array([1.0, 3.0]).astype([np.float64, np.float32, np.int64, np.int32][k % 4])
        try:
            assert caller(k)(values) == 1.0 + k
            assert first_of(values, 1).tolist() == [1.0]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_garbage_is_looked_for_again_after_a_compilation():
    assert gc.isenabled()
    outer, _, _ = make_kernels(forgotten)
    outer(np.ones(2), 1)
    assert gc.isenabled()
    with pytest.raises(numba.errors.TypingError):
        make_kernels(forgotten)[0]("no array", 1)
    assert gc.isenabled()
    gc.disable()
    try:
        make_kernels(forgotten)[0](np.ones(2), 1)
        assert not gc.isenabled()  # as the program has it
    finally:
        gc.enable()


MODULE = """
import numpy as np
from prudent._numerics.compile import kernel

@kernel
def inner(values):
    return values.min() / 3.0

@kernel
def first(values):
    return inner(values) + 1.0

@kernel
def second(values):
    return inner(values) - 1.0
"""
PROGRAM = """
import json, sys
import numpy as np
from numba.core import event

sys.path.insert(0, sys.argv[1])
import mine

class Compilations(event.Listener):
    names = []
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__ == "mine":
            self.names.append(function.__name__)
    def on_end(self, event): ...

event.register("numba:compile", Compilations())
found = [getattr(mine, name)(np.array([3.0, 1.0])) for name in sys.argv[2:]]
print(json.dumps([found, Compilations.names]))
"""


def test_they_are_kept_for_other_processes(tmp_path: Path):
    (tmp_path / "mine.py").write_text(MODULE)
    env = environment(NUMBA_CACHE_DIR=str(tmp_path / "cache"))

    def process(*names):
        done = python(PROGRAM, tmp_path, *names, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    third = 1.0 / 3.0
    assert process("first") == [[third + 1.0], ["first", "inner"]]
    assert process("second") == [[third - 1.0], ["second"]]  # linked from what was kept
    assert process("first", "second") == [[third + 1.0, third - 1.0], []]
    assert process("inner") == [[third], ["inner"]]  # machine code, for the first time
    assert process("inner", "first") == [[third, third + 1.0], []]
    for file in (tmp_path / "cache").rglob("*first*.nbc"):
        file.unlink()
    assert process("first") == [[third + 1.0], ["first"]]
