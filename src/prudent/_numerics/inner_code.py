"""Kernels that only other kernels call are kept as LLVM code, without machine code of their own.

Numba links the code of an inner kernel into every kernel that calls it, and optimises the whole and makes machine code
of it. What it would make of the inner kernel alone, and the wrapper by which Python would call that, are used by
nobody, and take two fifths of the time of a compilation. They are made when Python calls the inner kernel, if ever:
then it is compiled once more.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from llvmlite import binding
from numba import _dynfunc
from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import register_pass

_thread = threading.local()  # depth: how many kernels this thread compiles now, one for the sake of the other


class Collector:
    """Python's search for garbage, which rests while kernels are compiled, under the lock of the compiler.

    Most objects that the compiler makes stay. Looking through them takes a sixth of its time.
    """

    def __init__(self) -> None:
        self._rests = False

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let it rest in the block."""
        if not gc.isenabled():
            yield
            return
        self._rests = True
        gc.disable()
        try:
            yield
        finally:
            self.resume()

    def resume(self) -> None:
        """Let it work again, also in the child of a process that was compiling."""
        if self._rests:
            self._rests = False
            gc.enable()


COLLECTOR = Collector()


@contextmanager
def compiling() -> Iterator[bool]:
    """Yield whether what is compiled in the block is an inner kernel: another kernel is being compiled here."""
    depth: int = getattr(_thread, "depth", 0)
    _thread.depth = depth + 1
    try:
        with COLLECTOR.resting(), _numba_inner() if depth == 0 else nullcontext():
            yield depth > 0
    finally:
        _thread.depth = depth


def is_compiling_inner() -> bool:
    """Return whether this thread is in a kernel that another kernel calls."""
    return getattr(_thread, "depth", 0) > 1


class _InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code that others link in; what links it optimises all of it together and makes the machine code."""

    def __init__(self, generator: Any, name: str, code: bytes | None = None) -> None:
        super().__init__(generator, name)
        if code is not None:  # as it was kept
            self._final_module = self._shared_module = binding.parse_bitcode(code)
            self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return what is kept of it."""
        return self.name, _KIND, self._get_module_for_linking().as_bitcode()

    def _optimize_final_module(self) -> None:
        """Leave the code as its functions are: optimised once here and again with each caller it is no faster."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


_KIND = "inner kernel"


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Numba's lowering without machine code and without a wrapper for Python."""

    _name = "native_lowering"

    def run_pass(self, state: Any) -> bool:
        """Run the pass."""
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_cpython_wrapper = state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        token = _token(state.library, lowered.fndesc, lowered.env)
        state.targetctx.insert_user_function(token, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=token)
        return True


def _token(library: Any, descriptor: Any, environment: Any) -> Any:
    """Return the object that stands for an inner kernel where others call it; Python must not."""
    return _dynfunc.make_function(descriptor.lookup_module(), descriptor.qualname, "", 0, environment, (library,))


class KernelCompiler(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler, which stops at LLVM code for inner kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return the pass managers."""
        managers: list[Any] = super().define_pipelines()
        if is_compiling_inner():
            _stop_early(managers)
        return managers


def _stop_early(managers: list[Any]) -> None:
    """Put lowering without machine code in the place of Numba's."""
    for manager in managers:
        manager.passes[:] = [
            (_InnerLowering, what) if step is typed_passes.NativeLowering else (step, what)
            for step, what in manager.passes
        ]


@contextmanager
def _numba_inner() -> Iterator[None]:
    """Let Numba stop at LLVM code for functions of its own that kernels call, as it does for inner kernels.

    That is four fifths of the functions of Numba's in a kernel: those that Python cannot call. The block is under the
    lock of the compiler.
    """
    original = compiler.Compiler.define_pipelines

    def define_pipelines(self: compiler.Compiler) -> list[Any]:
        managers: list[Any] = original(self)
        flags = self.state.flags
        if not isinstance(self, KernelCompiler) and flags.no_cpython_wrapper and self.state.library is None:
            _stop_early(managers)
        return managers

    compiler.Compiler.define_pipelines = define_pipelines
    try:
        yield
    finally:
        compiler.Compiler.define_pipelines = original


def is_inner(result: Any) -> bool:
    """Return whether a compiled kernel has no machine code."""
    return isinstance(result.library, _InnerLibrary)


def is_kept_inner(kept: Any) -> bool:
    """Return whether an entry of Numba's cache is an inner kernel."""
    (_, kind, _), *_ = kept
    return bool(kind == _KIND)


def rebuilt(context: Any, kept: Any) -> Any:
    """Return the inner kernel of an entry of Numba's cache."""
    (name, _, code), descriptor, environment, signature, objects, lifted, annotation, reloads, others = kept
    library = _InnerLibrary(context.codegen(), name, code)
    token = _token(library, descriptor, environment)
    return compiler.compile_result(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=token,
        type_annotation=annotation,
        signature=signature,
        objectmode=objects,
        lifted=lifted,
        fndesc=descriptor,
        library=library,
        environment=environment,
        reload_init=reloads,
        referenced_envs=others,
    )
