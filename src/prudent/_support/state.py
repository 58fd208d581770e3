"""State files: arrays and plain values in one file, with nothing in it that could be executed.

Layout, all integers little-endian:

    8 bytes   the magic b"PRUDENT\x1a"
    4 bytes   version of this layout (1)
    8 bytes   length of the header
    header    JSON: kind and version of what is saved, its values, and name, type and shape of every array
    arrays    their bytes, one after the other, C order, little-endian
    32 bytes  SHA-256 of everything before

A file is written next to its place and then moved there, so a reader finds the old state or the new one. It is
checked to the last byte before anything in it is believed; see :class:`prudent.errors.StateFileError`. A checksum can
be forged: no size in the header is believed before the file is known to be as long, and what was loaded must be what
would be saved again, field by field.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ..errors import StateFileError
from .files import write_atomically

__all__ = [
    "Load",
    "generator_from_state",
    "generator_state",
    "read_state",
    "restore",
    "restore_bytes",
    "saved_kind",
    "state_parts",
    "write_state",
]


_MAGIC = b"PRUDENT\x1a"
_LAYOUT = 1
_HEAD = struct.Struct("<8sIQ")
_DIGEST = hashlib.sha256().digest_size
_TYPES = {"float64": "<f8", "int64": "<i8"}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")
_LONGEST_MESSAGE = 500  # a forged value may be a long one
LARGEST_COUNT = 2**53  # of events; nobody lives to see so many
Arrays = dict[str, np.ndarray[Any, Any]]
State = tuple[dict[str, Any], Arrays]


def write_state(path: str | os.PathLike[str], kind: str, version: int, values: dict[str, Any], arrays: Arrays) -> None:
    """Write ``values`` (what JSON can hold) and ``arrays`` (float64 or int64), atomically."""
    write_atomically(Path(path), *state_parts(kind, version, values, arrays))


def state_parts(kind: str, version: int, values: dict[str, Any], arrays: Arrays) -> list[bytes]:
    """Return the bytes of a state file, in parts to be written one after the other."""
    table = [{"name": name, "type": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()]
    whole = {"kind": kind, "version": version, "values": values, "arrays": table}
    header = json.dumps(whole, allow_nan=False).encode()
    parts = [_HEAD.pack(_MAGIC, _LAYOUT, len(header)), header]
    parts += [np.ascontiguousarray(a, dtype=_TYPES[a.dtype.name]).tobytes() for a in arrays.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def read_state(path: str | os.PathLike[str], kind: str, version: int) -> State:
    """Return the values and arrays saved as ``kind``, of ``version`` or earlier.

    A missing file is the usual FileNotFoundError; anything else that is wrong is a :class:`StateFileError`.
    """
    return _parsed(Path(path).read_bytes(), os.fspath(path), kind, version)


def _parsed(content: bytes, name: str, kind: str, version: int) -> State:
    """Return what a state file holds; ``name`` says in errors which one it is."""
    if len(content) < _HEAD.size + _DIGEST or not content.startswith(_MAGIC):
        if content and _MAGIC.startswith(content[: len(_MAGIC)]):
            raise StateFileError(f"{name} is truncated: it has only {len(content)} bytes")
        raise StateFileError(f"{name} is not a prudent state file: it starts with {content[:8]!r}")
    _, layout, length = _HEAD.unpack_from(content)
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise StateFileError(f"{name} is damaged or truncated: the checksum of its {len(content)} bytes does not match")
    if layout != _LAYOUT:
        raise StateFileError(f"{name} has layout version {layout}, this prudent reads version {_LAYOUT}")
    try:
        if length > len(body) - _HEAD.size:
            raise ValueError(f"it should have {length} bytes")
        header = json.loads(
            body[_HEAD.size : _HEAD.size + length], object_pairs_hook=_distinct, parse_constant=_no_number
        )
        found, made, values, table = (header[key] for key in ("kind", "version", "values", "arrays"))
        if len(header) > 4:
            raise ValueError(f"unknown field {(set(header) - {'kind', 'version', 'values', 'arrays'}).pop()!r}")
        for key, kind_of in (("kind", str), ("version", int), ("values", dict), ("arrays", list)):
            if type(header[key]) is not kind_of:
                raise ValueError(f"{key} is a {type(header[key]).__name__}")
        arrays = _read_arrays(table, memoryview(body)[_HEAD.size + length :])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateFileError(f"{name} has a broken header: {error}"[:_LONGEST_MESSAGE]) from error
    if found != kind:
        raise StateFileError(f"{name} holds a {found}, expected a {kind}")
    if not 1 <= made <= version:
        raise StateFileError(f"{name} is {kind} state version {made}, this prudent reads up to {version}")
    return values, arrays


def saved_kind(content: bytes) -> str:
    """Return the kind that a state file says it is of, unchecked; nothing if it says none."""
    try:
        _, _, length = _HEAD.unpack_from(content)
        return str(json.loads(content[_HEAD.size : _HEAD.size + length])["kind"])
    except (struct.error, LookupError, TypeError, ValueError, RecursionError):
        return ""


def _read_arrays(table: list[Any], content: memoryview) -> Arrays:
    """Return the arrays of a table; nothing is allocated before their sizes are known to be those of ``content``."""
    arrays: Arrays = {}
    offset = 0
    for entry in table:
        name, kind, shape = entry["name"], entry["type"], tuple(entry["shape"])
        if len(entry) > 3 or type(name) is not str or name in arrays:
            raise ValueError(f"entry {entry!r} of the arrays")
        dtype = np.dtype(_TYPES[kind])
        for size in shape:
            if type(size) is not int or not 0 <= size < 2**31:
                raise ValueError(f"array {name!r} has the size {size!r}")
        count = math.prod(shape)
        if count * dtype.itemsize > len(content) - offset:
            raise ValueError(f"array {name!r} of shape {shape} is longer than the file")
        flat = np.frombuffer(content, dtype=dtype, count=count, offset=offset)
        # a copy is writable, aligned and of the machine's own byte order
        arrays[name] = flat.astype(kind).reshape(shape)
        offset += flat.nbytes
    if offset != len(content):
        raise ValueError(f"{len(content) - offset} bytes are left over")
    return arrays


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, of which JSON itself would keep the last of equal keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_number(literal: str) -> None:
    raise ValueError(f"{literal} is no number")


# -- from a state to an object -----------------------------------------------------------------------------


class _Saved(Protocol):
    def _state(self) -> State:
        """Return the values and arrays to save."""


Kind = TypeVar("Kind", bound=_Saved)


def restore(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    make: Callable[[dict[str, Any], Arrays], Kind],
    upgrade: Callable[[dict[str, Any], Arrays], State] | None = None,
) -> Kind:
    """Return what ``make`` makes of a state file; whatever is wrong with it is a :class:`StateFileError`."""
    return restore_bytes(Path(path).read_bytes(), os.fspath(path), kind, version, make, upgrade)


def restore_bytes(
    content: bytes,
    name: str,
    kind: str,
    version: int,
    make: Callable[[dict[str, Any], Arrays], Kind],
    upgrade: Callable[[dict[str, Any], Arrays], State] | None = None,
) -> Kind:
    """Return what ``make`` makes of the bytes of a state file called ``name``.

    What was made must have the state that was read. So nothing in a file is ignored, rounded or taken for something
    else: unknown fields, 1 for True, "3" for 3, a generator state out of range. ``upgrade`` makes the state of an
    earlier version one of this version, and returns that of this version as it is.
    """
    values, arrays = _parsed(content, name, kind, version)
    try:
        if upgrade is not None:
            values, arrays = upgrade(values, arrays)
        with np.errstate(all="ignore"):
            made = make(values, {name: array.copy() for name, array in arrays.items()})
            own_values, own_arrays = made._state()
        _require_same(values, own_values)
        _require_same(arrays, own_arrays)
    except Exception as error:  # whatever forged contents make our own checks, or NumPy, say
        text = f"{name} is not the state of a {kind}: {error}"
        raise StateFileError(text[:_LONGEST_MESSAGE]) from error
    return made


def _require_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    unknown = [name for name in found if name not in expected]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    for name, value in expected.items():
        if _text(found[name]) != _text(value):
            raise ValueError(f"{name} is {found[name]!r}, expected {value!r}")


def _text(value: Any) -> Any:
    """Return what tells two values apart, types included."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return json.dumps(value, sort_keys=True)


def require_counts(array: np.ndarray[Any, Any], name: str) -> None:
    """Raise unless these are numbers of events."""
    if array.dtype != np.int64 or (array.size and not 0 <= array.min() <= array.max() <= LARGEST_COUNT):
        raise ValueError(f"{name} must be numbers of events")


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a Generator as plain values."""
    return _plain(rng.bit_generator.state)


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """Return a Generator that goes on where :func:`generator_state` was taken."""
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"unknown bit generator {name!r}")
    bits = getattr(np.random, name)(0)
    # NumPy does not look at these; a place out of range would be read from beyond the end
    inner = state["state"]
    places = {"MT19937": (inner, "pos", 624), "Philox": (state, "buffer_pos", 4)}
    if name in places:
        holder, place, last = places[name]
        if not 0 <= holder[place] <= last:
            raise ValueError(f"{place} of the bit generator is {holder[place]!r}")
    if state.get("has_uint32", 0) not in (0, 1):
        raise ValueError(f"has_uint32 of the bit generator is {state['has_uint32']!r}")
    if name.startswith("PCG") and inner["inc"] % 2 == 0:
        raise ValueError(f"inc of the bit generator is {inner['inc']!r}, an even number")
    if name == "MT19937" and not any(inner["key"]):
        raise ValueError("the key of the bit generator is zero")
    bits.state = _arrays(state)
    if json.dumps(_plain(bits.state), sort_keys=True) != json.dumps(state, sort_keys=True):
        raise ValueError(f"the state of the bit generator {name} is out of range")
    return np.random.Generator(bits)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value


class Load:
    """The method ``load`` of whatever has ``_from_state(path)``, which may have options.

    ``Kind.load(path)`` makes a new one; ``one.load(path)`` replaces the state of that one, or changes nothing.
    """

    def __get__(self, instance: Any, kind: Any) -> Callable[..., Any]:
        def load(path: str | os.PathLike[str], **options: Any) -> Any:
            """Return what was saved at ``path``, or raise :class:`StateFileError` and change nothing."""
            loaded = kind._from_state(path, **options)
            if instance is None:
                return loaded
            with getattr(instance, "_lock", nullcontext()):
                instance.__dict__.update(loaded.__dict__)
            return instance

        return load
