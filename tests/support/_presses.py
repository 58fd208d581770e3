"""Press Ctrl-C while kernels compile: ``_presses.py SEED PRESSES`` at random moments, ``_presses.py hook`` in LLVM.

LLVM calls back into Python when machine code is ready, and Python drops exceptions of such functions: there an
interrupt would be lost, or end in an error of Numba.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
from numba.core.codegen import JITCodeLibrary

from prudent._numerics.compile import kernel

SOURCE = """
def f{i}(x):
    total, other = {i}.0, np.empty(3)
    for k in range(x.shape[0]):
        other[k % 3] = math.exp(-x[k] * {i}) + total
        total += math.sqrt(abs(other.sum()))
    return total
"""
X = np.arange(5.0)


def fresh(i: int) -> Any:
    """Return a kernel that nobody has compiled yet."""
    space: dict[str, Any] = {"np": np, "math": math, "__name__": "made"}
    exec(compile(SOURCE.format(i=i), __file__, "exec"), space)
    return kernel(space[f"f{i}"])


def ended(call: Any, *arguments: Any) -> str:
    """Return how a call ended, in a word."""
    try:
        call(*arguments)
    except KeyboardInterrupt:
        return "interrupted"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def press_after(seconds: float) -> None:
    """Press Ctrl-C in this process."""
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)


def at_random(seed: int, presses: int) -> Counter[str]:
    """Press at a random moment of the compilation of each of many kernels."""
    dice, ends = random.Random(seed), Counter[str]()
    clock = time.monotonic()
    fresh(0)(X)
    once = time.monotonic() - clock
    for i in range(1, presses + 1):
        made = fresh(i)
        presser = threading.Thread(target=press_after, args=(dice.uniform(0.0, once),))
        presser.start()

        def work(made: Any = made, presser: Any = presser) -> None:
            made(X)
            presser.join()
            time.sleep(0.01)  # a press at the very end is delivered here

        ends[ended(work)] += 1
        presser.join()
        made(X)  # what was compiled is there, and works
    return ends


def in_the_hook() -> list[str]:
    """Press where LLVM calls back: once, twice, with a handler of the program's own, and in another thread."""
    original, presses = JITCodeLibrary._object_compiled_hook.__func__, [0]

    def pressing(cls: Any, module: Any, buffer: Any) -> None:
        for _ in range(presses[0]):
            presses[0] -= 1
            signal.raise_signal(signal.SIGINT)
        original(cls, module, buffer)

    JITCodeLibrary._object_compiled_hook = classmethod(pressing)
    found = []
    for i, times in enumerate((0, 1, 2), 100):
        made, presses[0] = fresh(i), times
        found.append(ended(made, X))
        found.append(ended(made, X))
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda signum, frame: seen.append(signum))
    made, presses[0] = fresh(200), 1
    found.append(f"{ended(made, X)}, {len(seen)} seen")
    mine = signal.signal(signal.SIGINT, before)
    found.append("handler kept" if mine.__name__ == "<lambda>" else f"handler {mine!r}")
    worker = threading.Thread(target=lambda: found.append(ended(fresh(300), X)))  # no handler can be set there
    worker.start()
    worker.join()
    found.append("default" if signal.getsignal(signal.SIGINT) is signal.default_int_handler else "changed")
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in background jobs
    if sys.argv[1] == "hook":
        print(*in_the_hook(), sep="\n")
    else:
        print(dict(at_random(int(sys.argv[1]), int(sys.argv[2]))))
