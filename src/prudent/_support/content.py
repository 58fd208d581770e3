"""Digest of a value by its content: numbers, arrays, settings, and the code that a function or a class runs.

Two values have the same digest if they hold the same data and run the same code, in this process or in another, however
and where they were made. Arrays count by type, shape and bytes; objects by their class and their state; functions by
their bytecode, their defaults, what they close over, and the globals that they name, followed through modules of the
user. Modules that are installed, and those of this package, count by name and version.

Not seen: what code looks up by a name that is made while it runs, and files that it reads while it runs. An object
that cannot be pickled counts by its class.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes)
_SKIPPED = {
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__slotnames__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}


class Content:
    """The digest of some values, in order.

    Parameters
    ----------
    *values : object
        What to digest.
    known : mapping of type to callable, optional
        Functions that return what an object of a class is known by, in its place.

    Attributes
    ----------
    runs_foreign_code : bool
        Whether there is code among the values that is neither installed nor of this package.

    Examples
    --------
    >>> Content([1, 2.0]).hexdigest() == Content([1, 2.0]).hexdigest() != Content([1, 2]).hexdigest()
    True
    """

    def __init__(self, *values: Any, known: Mapping[type, Callable[[Any], Any]] | None = None) -> None:
        self.runs_foreign_code = False
        self._known = dict(known or {})
        self._hash = hashlib.sha256()
        self._places: dict[int, int] = {}  # of objects that were met, by identity
        self._alive: list[Any] = []  # so that no identity is used twice
        for value in values:
            self._add(value)

    def hexdigest(self) -> str:
        """Return the digest as 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def _put(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _add(self, value: Any) -> None:
        """Digest one value; an object that was met before counts by its place."""
        if value is None or value is Ellipsis or value is NotImplemented:
            self._put("constant", value)
            return
        if type(value) in _PLAIN:
            self._put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if id(value) in self._places:
            self._put("again", self._places[id(value)])
            return
        self._places[id(value)] = len(self._places)
        self._alive.append(value)
        for kind, state in self._known.items():
            if isinstance(value, kind):
                self._put("known", kind.__qualname__)
                self._add(type(value))
                self._add(state(value))
                return
        self._add_object(value)

    def _add_object(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            self._put("array", array.dtype.str, array.shape)
            if array.dtype.hasobject:
                self._add(array.tolist())
            else:
                self._put(np.ascontiguousarray(array).tobytes())
        elif isinstance(value, np.dtype):
            self._put("dtype", value.str)
        elif isinstance(value, types.ModuleType):
            self._put("module", value.__name__, _version(value.__name__))
        elif isinstance(value, types.CodeType):
            self._add_code(value, {})
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, types.MethodType):
            self._put("method")
            self._add(value.__func__)
            self._add(value.__self__)
        elif isinstance(value, types.BuiltinFunctionType):
            self._put("builtin", value.__module__, value.__qualname__)
        elif isinstance(value, functools.partial):
            self._put("partial")
            for part in (value.func, value.args, value.keywords):
                self._add(part)
        elif isinstance(value, property):
            self._put("property")
            for accessor in (value.fget, value.fset, value.fdel):
                self._add(accessor)
        elif isinstance(value, staticmethod | classmethod):
            self._put(type(value).__name__)
            self._add(value.__func__)
        elif callable(getattr(value, "py_func", None)):  # compiled by Numba
            self._put("compiled")
            self._add(value.py_func)
        elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):  # functools.cache and the like
            self._put("wrapped")
            self._add(value.__wrapped__)
        else:
            self._add_state(value)

    def _add_state(self, value: Any) -> None:
        """Digest a container or an object by its class and its state."""
        self._add(type(value))
        if isinstance(value, dict):
            self._put("dict", len(value))
            for key, item in value.items():
                self._add(key)
                self._add(item)
        elif isinstance(value, list | tuple):
            self._put("list", len(value))
            for item in value:
                self._add(item)
            for name, item in getattr(value, "__dict__", {}).items():
                self._put(name)
                self._add(item)
        elif isinstance(value, set | frozenset):
            self._put("set", *sorted(Content(item, known=self._known).hexdigest() for item in value))
        elif isinstance(value, types.CellType):
            try:
                self._add(value.cell_contents)
            except ValueError:  # empty
                self._put("empty")
        elif is_dataclass(value):
            for field in fields(value):
                self._put(field.name)
                self._add(getattr(value, field.name))
        elif isinstance(value, _PLAIN):  # of a subclass
            self._put(repr(value))
        else:
            self._add_pickled(value)

    def _add_pickled(self, value: Any) -> None:
        """Digest an object by what pickle would write."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # a lock, a file, an object of an extension
            self._put("opaque")
            return
        if isinstance(reduced, str):
            self._put("global", reduced)
            return
        _, arguments, *rest = reduced
        self._add(tuple(arguments))
        for part in rest:
            self._add(part if part is None or isinstance(part, dict | tuple | list | str | bytes) else _listed(part))

    def _add_class(self, kind: type) -> None:
        self._put("class", kind.__qualname__)
        if not _foreign(kind.__module__):
            self._put(kind.__module__, _version(kind.__module__))
            return
        self.runs_foreign_code = True
        for base in kind.__bases__:
            self._add(base)
        for name, member in list(vars(kind).items()):  # pickling an object notes its slots in the class
            if name not in _SKIPPED:
                self._put(name)
                self._add(member)

    def _add_function(self, function: types.FunctionType) -> None:
        module = str(function.__module__)
        if not _foreign(module):
            self._put("function", module, function.__qualname__, _version(module))
            return
        self.runs_foreign_code = True
        self._put("function")
        self._add_code(function.__code__, function.__globals__)
        for part in (function.__defaults__, function.__kwdefaults__, function.__closure__):
            self._add(part)

    def _add_code(self, code: types.CodeType, namespace: Mapping[str, Any]) -> None:
        self._put("code", code.co_code, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
        self._put(*code.co_names, "/", *code.co_varnames, "/", *code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, namespace)
            else:
                self._add(constant)
        for name in code.co_names:
            value = namespace.get(name, sys.modules.get(name))
            if name in namespace:
                self._put("global", name)
                self._add(value)
            if isinstance(value, types.ModuleType) and _foreign(value.__name__):  # what the code may use of it
                for attribute in code.co_names:
                    if attribute in vars(value):
                        self._put("attribute", name, attribute)
                        self._add(vars(value)[attribute])


def _listed(part: Any) -> Any:
    """Return the items that pickle iterates over, or the state itself."""
    return list(part) if hasattr(part, "__next__") else part


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _foreign(module: str) -> bool:
    """Return whether a module is neither of this package, nor installed, nor built in."""
    top = module.partition(".")[0]
    if top == PACKAGE or top in sys.builtin_module_names:
        return False
    if top == "__main__":
        return True
    loaded = sys.modules.get(module) or sys.modules.get(top)
    file = getattr(loaded, "__file__", None)
    if file is None:
        return loaded is None  # a frozen module or a namespace has no file
    return not file.startswith(_installed_folders())


def _version(module: str) -> str:
    return str(getattr(sys.modules.get(module.partition(".")[0]), "__version__", ""))
