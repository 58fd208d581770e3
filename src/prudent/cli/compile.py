"""Compile every kernel that users reach ahead of time: ``prudent compile``.

Numba compiles one kernel at a time in a process, so there is a process per core, which compiles one part after the
other: what a part has compiled or loaded need not be loaded again for the next.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .._numerics.compile import default_threads
from ..errors import StoreError

PARTS = (
    "bandits",
    "plans",
    "simulations",
    "objectives",
    "clicks and items",
    "unknown rewards",
    "simulated bandits",
)
"""What is compiled together; what takes longest first, and what calls kernels of others after them. A part takes at
most a quarter of it all, so that two processes end together."""


KERNELS = 640
"""How many kernels are compiled, about: where the progress bar ends."""

_COMPILED = "+"  # what a process prints when it has compiled a kernel


def compile_all(tell: Callable[[str], None], advance: Callable[[], object] = lambda: None) -> None:
    """Compile all parts and keep them; ``tell`` gets a line for each part, ``advance`` is called for each kernel."""
    jobs = min(default_threads(), len(PARTS)) if sys.executable else 1
    left = deque(enumerate(PARTS, 1))

    def compile_parts(compile_part: Callable[[str], str]) -> None:
        while True:
            try:
                place, name = left.popleft()
            except IndexError:  # all are taken
                return
            tell(f"compiling {place} of {len(PARTS)}: {name} ...")
            _require_kept(compile_part(name))

    def in_child(_: int) -> None:
        call = [sys.executable, "-m", f"{__package__}.kernels", _COMPILED]
        with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            try:
                compile_parts(lambda name: _ask(child, name, advance))
            except BaseException:
                left.clear()  # the other processes finish their part and end
                raise
            finally:
                child.kill()  # all is kept; taking the compiler apart, object by object, would take a second

    if jobs == 1:
        from numba.core import event

        from .kernels import Counter, compile_part  # the compiler, which is not needed here otherwise

        with event.install_listener("numba:compile", Counter(advance)):
            compile_parts(compile_part)
    else:
        with ThreadPoolExecutor(jobs, thread_name_prefix="prudent") as pool:
            list(pool.map(in_child, range(jobs)))


def _ask(child: subprocess.Popen[str], name: str, advance: Callable[[], object]) -> str:
    """Return what ``compile_part`` returns in another process; call ``advance`` for each kernel."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        print(name, file=child.stdin, flush=True)
        while (answer := child.stdout.readline()) == f"{_COMPILED}\n":
            advance()
    except BrokenPipeError:
        answer = ""
    if not answer:
        message = f"the process that compiled {name} ended with code {child.wait()}; what is done is kept, try again"
        raise StoreError(message, code="process-killed", value=child.returncode)
    return answer.strip()


def _require_kept(reason: str) -> None:
    if reason:
        message = f"compiled kernels cannot be kept: {reason}; set NUMBA_CACHE_DIR to a folder for them"
        raise StoreError(message, code="not-writable", reason=reason)
