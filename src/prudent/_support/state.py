"""State files: arrays and plain values in one file, with nothing in it that could be executed.

Layout, all integers little-endian:

    8 bytes   the magic b"PRUDENT\x1a"
    4 bytes   version of this layout (1)
    8 bytes   length of the header
    header    JSON: kind and version of what is saved, its values, and name, type and shape of every array
    arrays    their bytes, one after the other, C order, little-endian
    32 bytes  SHA-256 of everything before

A file is written next to its place and then moved there, so a reader finds the old state or the new one. It is
checked to the last byte before anything in it is believed; see :class:`prudent.errors.StateFileError`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StateFileError
from .files import write_atomically

__all__ = ["Load", "generator_from_state", "generator_state", "read_state", "write_state"]


_MAGIC = b"PRUDENT\x1a"
_LAYOUT = 1
_HEAD = struct.Struct("<8sIQ")
_DIGEST = hashlib.sha256().digest_size
_TYPES = {"float64": "<f8", "int64": "<i8"}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")
Arrays = dict[str, np.ndarray[Any, Any]]


def write_state(path: str | os.PathLike[str], kind: str, version: int, values: dict[str, Any], arrays: Arrays) -> None:
    """Write ``values`` (what JSON can hold) and ``arrays`` (float64 or int64), atomically."""
    table = [{"name": name, "type": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()]
    header = json.dumps({"kind": kind, "version": version, "values": values, "arrays": table}).encode()
    parts = [_HEAD.pack(_MAGIC, _LAYOUT, len(header)), header]
    parts += [np.ascontiguousarray(a, dtype=_TYPES[a.dtype.name]).tobytes() for a in arrays.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    write_atomically(Path(path), *parts, digest.digest())


def read_state(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Any], Arrays]:
    """Return the values and arrays saved as ``kind``, of ``version`` or earlier.

    A missing file is the usual FileNotFoundError; anything else that is wrong is a :class:`StateFileError`.
    """
    content = Path(path).read_bytes()
    name = os.fspath(path)
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
        header = json.loads(body[_HEAD.size : _HEAD.size + length])
        found, made = header["kind"], int(header["version"])
        values, table = dict(header["values"]), header["arrays"]
        arrays: Arrays = {}
        offset = _HEAD.size + length
        for entry in table:
            shape = tuple(int(size) for size in entry["shape"])
            count = math.prod(shape)
            flat = np.frombuffer(body, dtype=_TYPES[entry["type"]], count=count, offset=offset)
            # a copy is writable, aligned and of the machine's own byte order
            arrays[entry["name"]] = flat.astype(entry["type"]).reshape(shape)
            offset += flat.nbytes
        if offset != len(body):
            raise ValueError(f"{len(body) - offset} bytes are left over")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateFileError(f"{name} has a broken header: {error}") from error
    if found != kind:
        raise StateFileError(f"{name} holds a {found}, expected a {kind}")
    if not 1 <= made <= version:
        raise StateFileError(f"{name} is {kind} state version {made}, this prudent reads up to {version}")
    return values, arrays


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a Generator as plain values."""
    return _plain(rng.bit_generator.state)


def generator_from_state(state: dict[str, Any]) -> np.random.Generator:
    """Return a Generator that goes on where :func:`generator_state` was taken."""
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"unknown bit generator {name!r}")
    bits = getattr(np.random, name)(0)
    bits.state = _arrays(state)
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
    """The method ``load`` of whatever has ``_from_state(path)``.

    ``Kind.load(path)`` makes a new one; ``one.load(path)`` replaces the state of that one, or changes nothing.
    """

    def __get__(self, instance: Any, kind: Any) -> Callable[[Any], Any]:
        def load(path: str | os.PathLike[str]) -> Any:
            """Return what was saved at ``path``, or raise :class:`StateFileError` and change nothing."""
            loaded = kind._from_state(path)
            if instance is None:
                return loaded
            instance.__dict__.update(loaded.__dict__)
            return instance

        return load
