"""How kernels are compiled, and how they use threads.

Every kernel releases the GIL and is cached on disk, so a machine compiles each one once per installation, also when
many processes start at the same time: the first compiles, the others wait for it. A folder that cannot be written, as
in a container, is read all the same. What is in none, or does not fit on the disk, is compiled in memory. Threads are
plain Python threads over ranges of rows: no Numba threading layer, hence nothing that breaks when the caller has
threads of its own, no parallel compilation to wait for, and Ctrl-C works while they compute. While the main thread
compiles, Ctrl-C waits for the end of the kernel: LLVM calls back into Python, where an exception would be dropped.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numba
from llvmlite.binding import ffi
from numba.core import caching, compiler_lock, event, sigutils
from numba.core.runtime import rtsys

from .._support.files import leave_turn, take_turn
from .._support.locks import register_fork
from .inner_code import (
    COLLECTOR,
    KernelCompiler,
    compiling,
    is_compiling_inner,
    is_inner,
    is_kept_inner,
    rebuilt,
)
from .shipped import ShippedFile, usable

F = TypeVar("F", bound=Callable[..., Any])


WAIT = 100.0  # seconds that a process waits for another one that compiles the same kernel


_COMPILING = 20.0  # seconds that a fork waits for a thread that compiles


_IMPORT = re.compile(rb"^from (\.+)([\w.]*) import", re.MULTILINE)


@cache
def _imported(file: Path) -> tuple[bytes, list[Path]]:
    """Return the bytes of one of our files, and which of our files it imports."""
    content = file.read_bytes()
    names = {(len(dots), name.decode()) for dots, name in _IMPORT.findall(content)}
    modules = [file.parents[up - 1].joinpath(*name.split(".")) for up, name in names]
    paths = [path for module in modules for path in (module.with_suffix(".py"), module / "__init__.py")]
    return content, sorted(path for path in paths if path.is_file())


@cache
def source_stamp(file: Path) -> str:
    """Return a digest of ``file`` and of everything of ours that it imports, at first or second hand."""
    files, todo = {file}, [file]
    while todo:
        new = set(_imported(todo.pop())[1]) - files
        files |= new
        todo += new
    return hashlib.sha256(b"".join(_imported(source)[0] for source in sorted(files))).hexdigest()


def kernel(function: F) -> F:
    """Compile ``function`` on first call: no GIL, cached on disk, NumPy's rules for division."""
    return _compiled(function, inline="never")


def lean(function: F) -> F:
    """Compile a kernel that makes no arrays and returns none: references to its arguments are not counted.

    Counting takes two calls for each array that is named, passed on or taken from a bundle, which is longer than much
    of the work in small loops. Slices are fine; Numba refuses most functions of NumPy, which allocate. A kernel that
    returns an array, or calls a kernel that returns one, would free memory in use or never free it: compiling it raises
    a TypeError. Only other kernels may pass a Generator: one that comes from Python would never be released.
    """
    compiled: Any = _compiled(function, counted=False, inline="never")
    add = compiled.add_overload

    def add_guarded(result: Any) -> None:
        if not isinstance(result.type_annotation, str):  # as it is of kernels that were kept
            _refuse_references(function, result)
        add(result)

    compiled.add_overload = add_guarded
    return cast(F, compiled)


def _refuse_references(function: Callable[..., Any], result: Any) -> None:
    """Raise if a lean kernel, or a kernel that it calls, returns something with counted references."""
    models, types = result.target_context.data_model_manager, result.type_annotation.typemap
    returned = {f"{function.__qualname__} returns": result.signature.return_type}
    for expression, signature in result.type_annotation.calltypes.items():
        called = getattr(expression, "op", None) == "call" and types.get(expression.func.name)
        if isinstance(called, numba.types.Dispatcher):
            name = called.dispatcher.py_func.__qualname__
            returned[f"{function.__qualname__} calls {name}, which returns"] = signature.return_type
    for what, kind in returned.items():
        if models[kind].contains_nrt_meminfo():
            raise TypeError(f"lean kernel {what} {kind}: references are not counted there; use kernel instead of lean")


def summing(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, which lets them become vector code."""
    return _compiled(function, inline="never", fastmath={"reassoc", "contract"})


def inlined(function: F) -> F:
    """Compile a kernel into its callers: for little work on named bundles.

    Numba counts references to the arrays of a bundle at every call, which would take longer than such work itself.
    """
    return _compiled(function, inline="always")


class _Interrupts:
    """Holds Ctrl-C back while the main thread compiles; the second one is honoured at once."""

    def __init__(self) -> None:
        self._handler: Any = None  # of the program, while ours is in its place
        self._pressed = 0

    def _press(self, signum: int, frame: Any) -> None:
        self._pressed += 1
        if self._pressed > 1:
            self._handler(signum, frame)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hand an interrupt in the block to the handler of the program after the block."""
        main = threading.current_thread() is threading.main_thread()
        if not main or self._handler is not None or not callable(signal.getsignal(signal.SIGINT)):
            yield
            return
        self._take()
        try:
            yield
        finally:
            self._hand_back()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Give the handler of the program its place back in a block that only waits."""
        if self._handler is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._hand_back()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._pressed = 0
        self._handler = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._press)

    def _hand_back(self) -> None:
        handler, self._handler = self._handler, None
        if handler is None:  # the block that waited ended with an interrupt
            return
        if signal.getsignal(signal.SIGINT) == self._press:  # else somebody has changed it in the meantime
            signal.signal(signal.SIGINT, handler)
        if self._pressed:
            self._pressed = 0
            handler(signal.SIGINT, None)


_INTERRUPTS = _Interrupts()


def _compiled(function: F, counted: bool = True, **options: Any) -> F:
    if hasattr(numba.core.options.DefaultOptions, "_nrt"):  # no promise of Numba's; without it references are counted
        options["_nrt"] = counted  # said in any case: a kernel would do as the one that first calls it
    # nobody calls kernels through pointers, and each wrapper for that takes time to compile
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
    compiled: Any = numba.njit(**options)(function)
    compiled.compile = _held(compiled, compiled.compile)
    compiled.add_overload = _added(compiled, compiled.add_overload)
    try:
        compiled._cache = cache = _Cache(function)
    except RuntimeError:  # Numba found no folder at all
        cache = None
    if cache is None or not cache.writable:
        _NOTICE.unkept = "no folder to keep them in can be written"
    return cast(F, compiled)


def _held(compiled: Any, compile_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the compiler of one kernel, with Ctrl-C held back."""

    def compile_held(signature: Any) -> Any:
        # under Numba's lock, since another thread may be compiling a kernel that calls this one
        with _INTERRUPTS.held(), compiler_lock.global_compiler_lock, compiling() as inner:
            arguments, _ = sigutils.normalize_signature(signature)
            known = None if inner else compiled.overloads.get(arguments)
            if known is not None and is_inner(known):  # Python calls it for the first time
                del compiled.overloads[arguments]
            return compile_one(signature)

    return compile_held


def _added(compiled: Any, add: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the method by which one kernel takes a signature: Python cannot call one that only others call."""

    def add_overload(result: Any) -> None:
        if is_inner(result):
            compiled.overloads[tuple(result.signature.args)] = result
            return
        for environment in result._find_referenced_environments():  # of the inner kernels
            result.library.codegen.set_env(environment.env_name, environment)
        add(result)

    return add_overload


class _Readable:
    """Mixed into a locator of Numba: a folder that is there, though it cannot be written."""

    def ensure_cache_path(self) -> None:
        """Raise unless there is such a folder."""
        path = self.get_cache_path()  # type: ignore[attr-defined]
        if not os.path.isdir(path):
            raise FileNotFoundError(path)


_WRITABLE: set[str] = set()  # folders in which a file was made


class _Tried:
    """Mixed into a locator of Numba: a folder is tried out by a file in it once, and not for every kernel."""

    def ensure_cache_path(self) -> None:
        """Make the folder; raise if it cannot be written."""
        path = self.get_cache_path()  # type: ignore[attr-defined]
        if path not in _WRITABLE or not os.path.isdir(path):
            super().ensure_cache_path()  # type: ignore[misc]
            _WRITABLE.add(path)


class _Places(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Where kernels may be kept: folders that can be written come first, but for the one that the user names."""

    _kinds = caching.CompileResultCacheImpl._locator_classes
    _given, *_others = (type(kind.__name__, (_Tried, kind), {}) for kind in _kinds)
    _read, *_rest = (type(kind.__name__, (_Readable, kind), {}) for kind in _kinds)
    _locator_classes: ClassVar[list[Any]] = [_given, _read, *_others, *_rest]

    def rebuild(self, context: Any, kept: Any) -> Any:
        """Return a kernel of which this was kept; None if Python calls it and it has no machine code."""
        if is_kept_inner(kept):
            return rebuilt(context, kept) if is_compiling_inner() else None
        return super().rebuild(context, kept)


class _CacheFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Numba's files of one kernel, safe against a crash, a full disk and other processes at any moment.

    Numba numbers the machine code and writes the index first. If the second write fails, the index points to what had
    that number before, and two processes may give one number to two signatures. Hence names that nothing else has, and
    the index last.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep the machine code ``data`` of the signature ``key``."""
        stem = self._index_name.removesuffix(".nbi")
        name = f"{stem}.{hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()[:16]}.nbc"
        self._save_data(name, data)
        overloads = self._known()
        if not overloads:  # what is there is of other sources
            for stale in set(Path(self._cache_path).glob(f"{stem}.*.nbc")) - {Path(self._data_path(name))}:
                stale.unlink(missing_ok=True)
        self._save_index(overloads | {key: name})

    def _known(self) -> dict[Any, str]:
        try:
            return self._load_index()
        except Exception:  # damaged: it is written anew
            return {}


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel, which never stands in the way of the kernel itself."""

    _impl_class = _Places

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        # Numba looks only at the file that holds a kernel; a change in a kernel that it calls from another file
        # would go unseen and the old machine code run on. Hence a stamp of all the files behind it.
        source = Path(function.__code__.co_filename)
        stamp = source_stamp(source)
        self._cache_file = _CacheFile(self._cache_path, self._impl.filename_base, stamp)
        self._shipped = ShippedFile(source, self._impl.filename_base, stamp) if usable() else None
        self._turn_file = Path(self._cache_path) / f"{self._impl.filename_base}.compiling"
        self._turn: int | None = None
        self.writable = not isinstance(self._impl.locator, _Readable)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code of a signature, or None if it is our turn to compile it."""
        code = self._loaded(sig, target_context)
        if code is None and self._turn is None:
            with suppress(OSError):
                self._turn_file.parent.mkdir(parents=True, exist_ok=True)
            with _INTERRUPTS.let_through():
                self._turn = take_turn(self._turn_file, WAIT)
            code = self._loaded(sig, target_context)  # another process may have compiled it in the meantime
            if code is not None:
                self.end_turn()
        return code

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code that is kept, or came with the package; a file that cannot be read is not there."""
        # Numba would first load its tables of types and implementations, a quarter of a second in every process. What
        # compiles needs them, and loads them itself; machine code needs only the functions of the runtime.
        rtsys.initialize(target_context)
        with suppress(Exception):  # whatever a damaged file makes the reader say
            code = self._load_overload(sig, target_context)
            if code is not None:
                return code
        if self._shipped is not None:
            with suppress(Exception):
                data = self._shipped.load(self._index_key(sig, target_context.codegen()))
                return None if data is None else self._impl.rebuild(target_context, data)
        return None

    def end_turn(self) -> None:
        """Let other processes compile this kernel: it is done, or it failed."""
        if self._turn is not None:
            leave_turn(self._turn_file, self._turn)
            self._turn = None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code of a signature if that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _NOTICE.not_kept(f"cannot write to {self._cache_path}: {error.strerror or error}")
        finally:
            self.end_turn()


class _CompilationNotice(event.Listener):  # type: ignore[misc]
    """Says on stderr, once per process, that kernels are being compiled: it takes seconds, once per installation."""

    def __init__(self) -> None:
        self.unkept = ""  # why compiled kernels are not kept for other processes
        self._said = False

    def on_start(self, event: Any) -> None:
        dispatcher = (event.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "") or ""
        if not self._said and module.startswith("prudent"):
            self._said = True
            only = f"for this process only ({self.unkept}; set NUMBA_CACHE_DIR)"
            self._say(f"compiling kernels, {only if self.unkept else 'once per installation'} ...")

    def on_end(self, event: Any) -> None:
        cache = getattr((event.data or {}).get("dispatcher"), "_cache", None)
        failure, *_ = getattr(event, "_exc_details", None) or (None,)  # Numba's own ``is_failed`` is always False
        if failure is not None and isinstance(cache, _Cache):  # nothing will be kept, which ends a turn otherwise
            cache.end_turn()

    def not_kept(self, why: str) -> None:
        """Take note that a kernel could not be kept, and say so the first time."""
        if not self.unkept:
            self.unkept = why
            self._say(f"compiled kernels are not kept: {why}")

    def _say(self, what: str) -> None:
        print(f"prudent: {what}", file=sys.stderr, flush=True)


_NOTICE = _CompilationNotice()
event.register("numba:compile", _NOTICE)


_LOCKS: tuple[Any, Any] = compiler_lock.global_compiler_lock, getattr(ffi.lib, "_lock", None)


class _CompilerAtFork:
    """Numba's compiler at a fork: the child must not inherit a lock of a thread that compiles or loads a kernel."""

    _fork_order = -1  # who compiles may hold the lock of a bandit
    _changing = True

    def _before_fork(self, patience: float) -> bool:
        return bool(_LOCKS[0]._lock.acquire(timeout=_COMPILING if patience > 0.0 else 0.0))

    def _after_fork(self, child: bool) -> None:
        if not child:
            _LOCKS[0]._lock.release()
            return
        for holder in _LOCKS:
            holder._lock = threading.RLock()
        COLLECTOR.resume()


# no promise of Numba's: without these attributes its locks are left as they are
if all(hasattr(getattr(holder, "_lock", None), "acquire") for holder in _LOCKS):
    _at_fork = _CompilerAtFork()
    register_fork(_at_fork)


def unkept() -> str:
    """Return why kernels that were compiled are not kept for later processes; "" if they are."""
    return _NOTICE.unkept


def default_threads() -> int:
    """Return the number of threads kernels use by default: ``PRUDENT_THREADS`` or the cores we may use."""
    setting = os.environ.get("PRUDENT_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_rows(
    work: Callable[[int, int], Any], rows: int, threads: int, smallest: int = 1, *, long: bool = False
) -> list[Any]:
    """Call ``work(start, stop)`` over ranges that cover ``rows``, on up to ``threads`` threads.

    Ranges are small enough to share out evenly and never shorter than ``smallest``. Results come in order.

    Ctrl-C takes effect at once where threads do the work: their ranges are given up, and what is inside a kernel is
    left to end by itself. Alone, the calling thread notices it between two ranges. With ``long``, for rows that may
    take seconds each, a thread does the work even if it is the only one; such work goes through ``each_row``.
    """
    threads = min(threads, max(1, rows // smallest))
    alone = threads == 1 and not (long and threading.current_thread() is threading.main_thread())
    pieces = 1 if threads == 1 and long else min(64 if alone else 8 * threads, max(threads, rows // smallest))
    ranges = list(pairwise(rows * i // pieces for i in range(pieces + 1)))
    return [work(*ends) for ends in ranges] if alone else _on_threads(work, ranges, threads)


class _GivenUp(BaseException):
    """Ends the work of a thread whose caller is gone."""


_thread = threading.local()  # given_up: the event that tells this thread that its caller is gone


def each_row(start: int, stop: int) -> Iterator[int]:
    """Yield the rows of a range of ``over_rows`` until its caller is interrupted."""
    given_up = getattr(_thread, "given_up", None)
    for row in range(start, stop):
        if given_up is not None and given_up.is_set():
            raise _GivenUp
        yield row


def _on_threads(work: Callable[[int, int], Any], ranges: list[tuple[int, int]], threads: int) -> list[Any]:
    results: list[Any] = [None] * len(ranges)
    left = deque(enumerate(ranges))
    failures: list[BaseException] = []
    given_up = threading.Event()

    def run() -> None:
        _thread.given_up = given_up
        try:
            while left:
                try:
                    i, ends = left.popleft()
                except IndexError:  # another thread was faster
                    return
                results[i] = work(*ends)
        except _GivenUp:
            pass
        except BaseException as error:
            failures.append(error)
            left.clear()
            given_up.set()

    # daemons: a process that ends does not wait for what nobody waits for any more
    workers = [threading.Thread(target=run, name=f"prudent-rows-{i}", daemon=True) for i in range(threads)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException:
        left.clear()
        given_up.set()
        raise
    if failures:
        raise failures[0]
    return results
