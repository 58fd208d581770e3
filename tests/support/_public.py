"""The public surface of the library: rooms, what they export, and the public methods of that."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from types import ModuleType

import prudent as pr

HIDDEN = {"cli"}  # the command line has a page of its own


def rooms() -> dict[str, ModuleType]:
    """Return the public modules of the library that export names."""
    names = (module.name for module in pkgutil.iter_modules(pr.__path__) if not module.name.startswith("_"))
    modules = {name: importlib.import_module(f"prudent.{name}") for name in names if name not in HIDDEN}
    return {name: module for name, module in modules.items() if getattr(module, "__all__", ())}


def members(room: ModuleType) -> dict[str, object]:
    """Return the functions and classes that a room exports and their own public methods, by path within the room.

    Aliases of types and constants have no signature and are left out, as is what a class inherits.
    """
    surface: dict[str, object] = {}
    for name in room.__all__:
        member = getattr(room, name)
        if not getattr(member, "__module__", "").startswith("prudent"):
            continue
        if inspect.isclass(member):
            surface[name] = member
            surface |= {
                f"{name}.{key}": value
                for key, value in vars(member).items()
                if _is_public_method(key, value) and not _inherits_its_docstring(member, key, value)
            }
        elif callable(member):
            surface[name] = member
    return surface


def _is_public_method(name: str, value: object) -> bool:
    kinds = (property, functools.cached_property, classmethod, staticmethod)
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))


def _inherits_its_docstring(member: type, name: str, value: object) -> bool:
    return not value.__doc__ and any(getattr(vars(base).get(name), "__doc__", None) for base in member.__mro__[1:])


def parameters(member: object) -> dict[str, inspect.Parameter]:
    """Return the parameters of a public callable, without self; of a property, none."""
    member = getattr(member, "__func__", member)
    if not callable(member):
        return {}
    try:
        found = inspect.signature(member).parameters
    except (TypeError, ValueError):
        return {}
    return {name: parameter for name, parameter in found.items() if name not in ("self", "cls")}
