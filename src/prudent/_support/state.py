"""State files: arrays and plain values in one file, with nothing in it that could be executed.

Layout, all integers little-endian:

    8 bytes   the magic b"PRUDENT\x1a"
    4 bytes   version of this layout (1)
    8 bytes   length of the header
    header    JSON: kind and version of what is saved, its values, and name, type and shape of every array
    arrays    their bytes, one after the other, C order, little-endian
    32 bytes  SHA-256 of everything before

A file is written beside its final path and then moved there, so a reader sees the old state or the new one. The
checksum is verified first; see `prudent.errors.StateFileError`. A checksum can be forged, so sizes in the header
are compared with the length of the file before memory is allocated, and the object that was loaded must have the same
state as the file, field by field.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from contextlib import nullcontext
from itertools import compress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ..errors import StateFileError
from .files import write_atomically

_MAGIC = b"PRUDENT\x1a"
_LAYOUT = 1
_HEAD = struct.Struct("<8sIQ")
_DIGEST = hashlib.sha256().digest_size
_TYPES = {"float64": "<f8", "int64": "<i8"}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")
_LONGEST_MESSAGE = 500  # a forged value may be a long one
LARGEST_COUNT = 2**53  # largest number of events, exact as a float
Arrays = dict[str, np.ndarray[Any, Any]]
State = tuple[dict[str, Any], Arrays]


def write_state(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    values: dict[str, Any],
    arrays: Arrays,
    make: Callable[[dict[str, Any], Arrays], Any] | None = None,
) -> None:
    """Write ``values`` (what JSON can hold) and ``arrays`` (float64 or int64), atomically.

    With ``make``, the file is read back before it replaces an older one, and must be the state of what ``make`` builds.
    """
    name = os.fspath(path)

    def check(content: bytes) -> None:
        if make is not None:
            restore_bytes(content, f"{name}, which was not replaced,", kind, version, make)

    write_atomically(Path(path), *state_parts(kind, version, values, arrays), check=check)


def state_parts(kind: str, version: int, values: dict[str, Any], arrays: Arrays) -> list[bytes]:
    """Return the bytes of a state file, in parts to be written one after the other."""
    table = [{"name": name, "type": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()]
    fields = {"kind": kind, "version": version, "values": values, "arrays": table}
    header = json.dumps(fields, allow_nan=False).encode()
    parts = [_HEAD.pack(_MAGIC, _LAYOUT, len(header)), header]
    parts += [np.ascontiguousarray(a, dtype=_TYPES[a.dtype.name]).tobytes() for a in arrays.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def read_state(path: str | os.PathLike[str], kind: str, version: int) -> State:
    """Return the values and arrays saved as ``kind`` of ``version``.

    A missing file is the usual FileNotFoundError; anything else that is wrong is a `StateFileError`.
    """
    return _parsed(Path(path).read_bytes(), os.fspath(path), kind, version)


def _parsed(content: bytes, name: str, kind: str, version: int) -> State:
    """Return the values and arrays of a state file; ``name`` is its name in messages."""
    if len(content) < _HEAD.size + _DIGEST or not content.startswith(_MAGIC):
        if content and _MAGIC.startswith(content[: len(_MAGIC)]):
            raise _refused(f"{name} is truncated: it has only {len(content)} bytes", "damaged-file", name)
        raise _refused(f"{name} is not a prudent state file: it starts with {content[:8]!r}", "wrong-format", name)
    _, layout, length = _HEAD.unpack_from(content)
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        text = f"{name} is damaged or truncated: the checksum of its {len(content)} bytes does not match"
        raise _refused(text, "damaged-file", name)
    if layout != _LAYOUT:
        text = f"{name} has layout version {layout}, this prudent reads version {_LAYOUT}"
        raise _refused(text, "wrong-version", name, value=layout, expected=_LAYOUT)
    try:
        header, arrays = _read_header(body, length)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _refused(f"{name} has a broken header: {error}", "damaged-file", name) from error
    if header["kind"] != kind:
        text = f"{name} holds a {header['kind']}, expected a {kind}"
        raise _refused(text, "wrong-kind", name, value=header["kind"], expected=kind)
    if header["version"] != version:
        text = f"{name} is {kind} state version {header['version']}, this prudent reads version {version}"
        raise _refused(text, "wrong-version", name, value=header["version"], expected=version)
    return header["values"], arrays


def _refused(text: str, code: str, path: str, **fields: Any) -> StateFileError:
    return StateFileError(text[:_LONGEST_MESSAGE], code=code, path=path, **fields)


def _read_header(body: bytes, length: int) -> State:
    """Return the header and the arrays of a state file, or raise ValueError, KeyError or TypeError."""
    if length > len(body) - _HEAD.size:
        raise ValueError(f"it should have {length} bytes")
    text = body[_HEAD.size : _HEAD.size + length]
    header = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    types = {key: type(field) for key, field in header.items()}
    if types != {"kind": str, "version": int, "values": dict, "arrays": list}:
        raise ValueError(f"its fields are {', '.join(f'{key} ({kind.__name__})' for key, kind in types.items())}")
    return header, _read_arrays(header["arrays"], memoryview(body)[_HEAD.size + length :])


def saved_kind(content: bytes) -> str:
    """Return the kind in the header of a state file, without checks; "" if there is none."""
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
    """Return a JSON object; a key that occurs twice is an error."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _no_number(literal: str) -> None:
    raise ValueError(f"{literal} is not a number")


# -- from a state to an object -----------------------------------------------------------------------------


class Saved(Protocol):
    """An object that can be saved."""

    def state(self) -> State:
        """Return the values and arrays to save."""


Kind = TypeVar("Kind", bound=Saved)
Make = Callable[[dict[str, Any], Arrays], Kind]


def restore(path: str | os.PathLike[str], kind: str, version: int, make: Make[Kind]) -> Kind:
    """Return the object that ``make`` builds from a state file; a wrong file is a `StateFileError`."""
    return restore_bytes(Path(path).read_bytes(), os.fspath(path), kind, version, make)


def restore_bytes(content: bytes, name: str, kind: str, version: int, make: Make[Kind]) -> Kind:
    """Return the object that ``make`` builds from the bytes of a state file called ``name``.

    The object must have the state that was read. So no field of a file is ignored, rounded or converted: unknown
    fields, 1 for True, "3" for 3 and a generator state out of range are errors.
    """
    values, arrays = _parsed(content, name, kind, version)
    try:
        with np.errstate(all="ignore"):
            made = make(values, {name: array.copy() for name, array in arrays.items()})
            made_values, made_arrays = made.state()
        require_same(values, made_values)
        require_same(arrays, made_arrays)
    except Exception as error:  # forged contents can fail in our own checks or anywhere in NumPy
        text = f"{name} is not the state of a {kind}: {error}"
        raise _refused(text, "damaged-file", name, expected=kind) from error
    return made


def require_same(saved: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise ValueError unless two dicts have the same keys and equal values, types included."""
    unknown = [name for name in saved if name not in expected]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    for name, value in expected.items():
        if _text(saved[name]) != _text(value):
            raise ValueError(f"{name} is {saved[name]!r}, expected {value!r}")


def require_like(saved: Arrays, fresh: Arrays) -> None:
    """Raise ValueError unless saved arrays have the types and shapes of those of a new object, which is the schema."""
    for name, array in fresh.items():
        kind, shape = saved[name].dtype, saved[name].shape
        if (kind, shape) != (array.dtype, array.shape):
            raise ValueError(f"{name} is {kind} {shape}, expected {array.dtype} {array.shape}")
        if not np.isfinite(saved[name]).all():
            raise ValueError(f"{name} holds a number that is not finite")


def _text(value: Any) -> Any:
    """Return a value that is equal for equal values of equal types."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return json.dumps(value, sort_keys=True)


def require_counts(array: np.ndarray[Any, Any], name: str) -> None:
    """Raise ValueError unless the array holds numbers of events."""
    if array.dtype != np.int64 or (array.size and not 0 <= array.min() <= array.max() <= LARGEST_COUNT):
        raise ValueError(f"{name} must be numbers of events")


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a Generator as plain values."""
    return _plain(rng.bit_generator.state)


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """Return a Generator that continues from the state of `generator_state`."""
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"unknown bit generator {name!r}")
    bits = getattr(np.random, name)(0)
    # NumPy does not check these; a position out of range would be read from beyond the end
    inner = state["state"]
    faults = {
        "pos": name == "MT19937" and not 0 <= inner["pos"] <= 624,
        "key": name == "MT19937" and not any(inner["key"]),
        "buffer_pos": name == "Philox" and not 0 <= state["buffer_pos"] <= 4,
        "has_uint32": state.get("has_uint32", 0) not in (0, 1),
        "inc": name.startswith("PCG") and inner["inc"] % 2 == 0,
    }
    if any(faults.values()):
        raise ValueError(f"{', '.join(compress(faults, faults.values()))} of the bit generator is out of range")
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
    """Method ``load`` of a class with a class method ``read(path, **options)``.

    ``Class.load(path)`` returns a new object; ``instance.load(path)`` replaces the state of the instance, or raises and
    changes nothing.
    """

    def __get__(self, instance: Any, kind: Any) -> Callable[..., Any]:
        def load(path: str | os.PathLike[str], **options: Any) -> Any:
            """Return the object that was saved at ``path``.

            Called on an instance, it replaces the state of that instance and returns it.

            Parameters
            ----------
            path : path-like
                State file that ``save`` of the same class wrote.
            **options
                Options of the class, for instance ``stream`` of a bandit.

            Returns
            -------
            object
                The loaded object.

            Raises
            ------
            StateFileError
                If the file is truncated, damaged, of another kind or of another version. Nothing is changed then.
            """
            loaded = kind.read(path, **options)
            if instance is None:
                return loaded
            with getattr(instance, "_lock", nullcontext()):
                instance.__dict__.update(loaded.__dict__)
            return instance

        return load
