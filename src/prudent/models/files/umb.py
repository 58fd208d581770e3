"""UMB, the binary format for models that PRISM, Storm and Modest share: a tar archive of arrays with an index in JSON.

Arrays are little-endian and read whole, so that a model of any size takes no loop in Python. A file may describe much
that is no Markov decision process (games, continuous time, intervals): that is refused by name.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._support.files import replacing
from ..._support.memory import require_memory
from ...errors import ModelError, ParameterError, PrudentError
from ...types import FloatArray, IntArray, PathLike
from ..base import TabularModel
from ..builders import Arguments
from .choices import Choices, chosen_discount, described, known_choices, mean_rewards, read_description

TOOL = "prudent"
INTEGERS = {(kind, 8 * size): f"<{kind[0]}{size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)}
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_LEAST_LIMIT, _MOST_TIMES, _MOST_FILES = 2**26, 200, 10_000  # bytes that an archive may unpack to, and its files
DOUBLE = {"type": "double", "size": 64}


# -- writing -----------------------------------------------------------------------------------------------


def write_umb(path: PathLike, model: TabularModel, choices: Choices, start: int) -> None:
    """Write a model; ``start`` is the index of its initial state."""
    S, C, M = choices.n_states, choices.state.size, choices.target.size
    names = [str(name) for name in model.actions]
    initial = np.zeros(-(-S // 64) * 64, dtype=np.bool_)
    initial[start] = True
    ended = np.zeros_like(initial)
    arrays: dict[str, npt.NDArray[Any] | bytes] = {
        "state-is-initial.bin": np.packbits(initial, bitorder="little"),
        "state-to-choices.bin": np.concatenate(([0], np.cumsum(choices.sizes()))).astype("<u8"),
        "choice-to-branches.bin": choices.first.astype("<u8"),
        "branch-to-target.bin": choices.target.astype("<u8"),
        "branch-to-probability.bin": choices.probability.astype("<f8"),
    }
    assert choices.action is not None
    arrays["actions/choices/values.bin"] = choices.action.astype("<u4")
    texts = [name.encode() for name in names]
    arrays["actions/choices/strings.bin"] = b"".join(texts)
    arrays["actions/choices/string-mapping.bin"] = np.cumsum([0, *map(len, texts)]).astype("<u8")
    where, earned = (
        ("choices", choices.reward) if choices.branch_reward is None else ("branches", choices.branch_reward)
    )
    annotations: dict[str, Any] = {"rewards": {"reward": {"applies-to": [where], "type": DOUBLE}}}
    arrays[f"annotations/rewards/reward/{where}/values.bin"] = earned.astype("<f8")
    if choices.end >= 0:
        ended[choices.end] = True
        annotations["aps"] = {"end": {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}}
        arrays["annotations/aps/end/states/values.bin"] = np.packbits(ended, bitorder="little")
    version = str(importlib.import_module("prudent").__version__)
    index = {
        "format-version": 0,
        "format-revision": 1,
        "file-data": {"tool": TOOL, "tool-version": version, "parameters": described(model, choices.end)},
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": S,
            "#initial-states": 1,
            "#choices": C,
            "#choice-actions": len(names),
            "#branches": M,
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": DOUBLE,
        },
        "annotations": annotations,
    }
    with replacing(Path(path)) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for name, content in {"index.json": json.dumps(index).encode(), **arrays}.items():
            data = content if isinstance(content, bytes) else content.tobytes()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


# -- reading -----------------------------------------------------------------------------------------------


def known_umb(path: PathLike, discount: float | None, reward: str | None, costs: bool) -> Arguments:
    """Read a model; return the arguments of ``MDP.of_steps``."""
    try:
        return _Reader(path).arguments(discount, reward, -1.0 if costs else 1.0)
    except (AttributeError, KeyError, TypeError, OverflowError) as fault:  # JSON of another form than the format's
        raise _fault(str(path), f"index.json has another form than expected ({fault})") from None


class _Unpacker(io.RawIOBase):
    """What comes out of a compressed archive, up to a number of bytes."""

    def __init__(self, path: PathLike) -> None:
        with Path(path).open("rb") as file:
            size, head = os.fstat(file.fileno()).st_size, file.read(6)
        known = (opener for magic, opener in _OPENERS.items() if head.startswith(magic))
        self._file: Any = next(known, open)(path, "rb")
        self.limit = self._left = _LEAST_LIMIT + _MOST_TIMES * size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; raise if they are more than any model of such a file has."""
        found: bytes = self._file.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to more than {self.limit:,} bytes")
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _unpacked(path: PathLike) -> dict[str, bytes]:
    """Return all files of an archive, read once from its beginning to its end, so that check sums are compared."""
    found: dict[str, bytes] = {}
    try:
        with _Unpacker(path) as content, tarfile.open(fileobj=content, mode="r|") as archive:
            total = 0
            for number, member in enumerate(archive):
                total += member.size
                if number == _MOST_FILES or total > content.limit:
                    raise _fault(str(path), f"it has {number + 1:,} files of {total:,} bytes, too much for its size")
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    require_memory(2.0 * total, "path", f"{path}, {member.name}")
                    found[member.name] = file.read()
            while content.read(2**20):
                pass
    except PrudentError:
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as fault:
        text = getattr(fault, "strerror", None) or str(fault)
        raise _fault(str(path), text) from None
    return found


def _fault(path: str, text: str) -> ModelError:
    return ModelError(f"{path} is no UMB file that can be read: {text}", code="wrong-format", path=path)


class _Reader:
    """The files of an archive and its index."""

    def __init__(self, path: PathLike) -> None:
        self.path, self.files = str(path), _unpacked(path)
        try:
            index = json.loads(self.bytes("index.json"))
        except PrudentError:
            raise
        except (ValueError, RecursionError) as fault:
            raise self.fault(f"index.json: {fault}") from None
        if not isinstance(index, dict) or not isinstance(index.get("transition-system"), dict):
            raise self.fault("index.json describes no transition system")
        self.index: dict[str, Any] = index
        if index.get("format-version") != 0:
            raise self.fault(f"its format has the version {index.get('format-version')!r}, expected 0")
        self.system: dict[str, Any] = index["transition-system"]
        self.sizes = {what: self._count(f"#{what}") for what in ("states", "choices", "branches")}
        about = index.get("file-data")
        self.description: dict[str, Any] = {}
        if isinstance(about, dict) and about.get("tool") == TOOL:
            self.description = read_description(about.get("parameters"), self.path)

    def fault(self, text: str) -> ModelError:
        return _fault(self.path, text)

    def _count(self, name: str) -> int:
        count = self.system.get(name, 0)
        if type(count) is not int or not 0 <= count < 2**62:
            raise self.fault(f"{name} is {count!r}")
        return count

    def bytes(self, name: str, size: int | None = None) -> bytes:
        """Return the content of a file, whose size must be as expected."""
        if name not in self.files:
            raise self.fault(f"it has no {name}")
        content = self.files[name]
        if size is not None and len(content) != size:
            raise self.fault(f"{name} has {len(content):,} bytes, expected {size:,}")
        return content

    def array(self, name: str, dtype: str, size: int) -> npt.NDArray[Any]:
        return np.frombuffer(self.bytes(name, size * np.dtype(dtype).itemsize), dtype)

    def numbers(self, name: str, kind: Any, size: int) -> FloatArray:
        """Return an array of numbers of any type that has one number for each entry."""
        kind = kind if isinstance(kind, dict) else {}
        what, bits = kind.get("type"), kind.get("size", 64)
        if what == "double" and bits == 64:
            return self.array(name, "<f8", size).astype(np.float64)
        if what == "rational" and bits in (64, 128):
            letters = f"{bits // 16}"
            parts = self.array(name, f"<i{letters}", 2 * size).reshape(size, 2)
            below = np.ascontiguousarray(parts[:, 1]).view(f"<u{letters}")
            if (below == 0).any():
                raise self.fault(f"{name} has a fraction with the denominator 0")
            return parts[:, 0] / below
        if (what, bits) in INTEGERS:
            return self.array(name, INTEGERS[what, bits], size).astype(np.float64)
        raise self.fault(f"{name} has numbers of the type {what!r} with {bits} bits, which a known model cannot have")

    def offsets(self, name: str, size: int, total: int) -> IntArray:
        """Return where each of ``size`` groups begins, and the end; without the file each group has one member."""
        if name not in self.files:
            if size != total:
                raise self.fault(f"it has no {name}")
            require_memory(8.0 * size, "path", f"{self.path}, with {size:,} groups,")
            return np.arange(size + 1)
        first = self.array(name, "<u8", size + 1)
        if first[0] != 0 or first[-1] != total or (first[1:] < first[:-1]).any():
            raise self.fault(f"{name} must rise from 0 to {total:,}")
        return first.astype(np.int64)

    def arguments(self, discount: float | None, reward: str | None, sign: float) -> Arguments:
        time, players = self.system.get("time"), self.system.get("#players")
        if time != "discrete" or players not in (0, 1):
            what = f"time is {time!r}" if time != "discrete" else f"it has {players} players"
            raise self.fault(f"{what}, expected discrete time and at most one player")
        if self.system.get("#observations"):
            raise self.fault("it has observations: partially observed models cannot be solved here")
        S, C, M = self.sizes["states"], self.sizes["choices"], self.sizes["branches"]
        by_state = self.offsets("state-to-choices.bin", S, C)
        first = self.offsets("choice-to-branches.bin", C, M)
        target = self.array("branch-to-target.bin", "<u8", M)
        if (target >= S).any():
            raise self.fault(f"branch-to-target.bin has the state {int(target.max())}, expected one below {S}")
        if "branch-probability-type" in self.system:
            chance = self.numbers("branch-to-probability.bin", self.system["branch-probability-type"], M)
        elif M == C:
            chance = np.ones(M)
        else:
            raise self.fault("its choices have several branches without probabilities")
        notes, means, single = self.rewards(reward, sign, by_state, first, chance)
        end = -1
        if self.description.get("end"):
            end = S - 1
        state = np.repeat(np.arange(S), np.diff(by_state))
        action, actions = self.actions(C)
        choices = Choices(S, state, action, means, first, target.astype(np.int64), chance, single, end)
        states = self.description.get("states") if self.description else self.valued_names(S)
        if "actions" in self.description:
            actions = self.description["actions"]
        found = known_choices(choices, states, actions, notes)
        return found | {"discount": chosen_discount(discount, self.description, self.path)}

    def actions(self, C: int) -> tuple[IntArray | None, tuple[str, ...] | None]:
        """Return the action of each choice and the names of actions."""
        count = self._count("#choice-actions")
        if not count or "actions/choices/values.bin" not in self.files:
            return None, None
        action = self.array("actions/choices/values.bin", "<u4", C).astype(np.int64)
        if (action >= count).any():
            raise self.fault(
                f"actions/choices/values.bin has the action {int(action.max())}, expected one below {count}"
            )
        if "actions/choices/strings.bin" not in self.files:
            return action, tuple(map(str, range(count)))
        texts = self.bytes("actions/choices/strings.bin")
        at = self.offsets("actions/choices/string-mapping.bin", count, len(texts)).tolist()
        names = tuple(texts[i:j].decode(errors="replace") for i, j in pairwise(at))
        return action, names if len(set(names)) == count else tuple(f"{i} {name}" for i, name in enumerate(names))

    def rewards(
        self, wanted: str | None, sign: float, by_state: IntArray, first: IntArray, chance: FloatArray
    ) -> tuple[tuple[str, ...], FloatArray, FloatArray | None]:
        """Return notes, mean rewards of choices, and rewards of branches where they differ."""
        groups = self.index.get("annotations") or {}
        listed = groups.get("rewards") or {}
        known: dict[str, Mapping[str, Any]] = {name: about for name, about in listed.items() if isinstance(about, dict)}
        S, C, M = by_state.size - 1, first.size - 1, chance.size
        titles = {str(about.get("alias", name)): name for name, about in known.items()} | {name: name for name in known}
        choosable = sorted(known)
        if wanted is None and len(choosable) > 1:
            message = f"{self.path} has several rewards, {', '.join(choosable)}: reward must name one"
            raise ParameterError(message, code="missing-argument", argument="reward", value=choosable)
        if wanted is not None and wanted not in titles:
            message = f"{self.path} has no reward {wanted!r}; it has {', '.join(choosable) or 'none'}"
            raise ParameterError(message, code="unknown-name", argument="reward", value=wanted)
        if not choosable:
            return ("the file has no rewards: all are zero",), np.zeros(C), None
        name = choosable[0] if wanted is None else titles[wanted]
        parts = {
            where: sign * self.numbers(f"annotations/rewards/{name}/{where}/values.bin", known[name].get("type"), size)
            for where, size in (("states", S), ("choices", C), ("branches", M))
            if where in (known[name].get("applies-to") or ())
        }
        means = np.zeros(C)
        if "states" in parts:
            means += np.repeat(parts["states"], np.diff(by_state))
        if "choices" in parts:
            means += parts["choices"]
        choice = np.repeat(np.arange(C), np.diff(first))
        single = None
        if "branches" in parts:
            single = means[choice] + parts["branches"]
            means = mean_rewards(single, chance, first)
        return (), means, single

    def valued_names(self, S: int) -> tuple[str, ...] | None:
        """Return names of states from the values of variables, ``x=1, y=0``; None if some states have the same."""
        about = (self.index.get("valuations") or {}).get("states") or {}
        classes = about.get("classes") or []
        if len(classes) != 1 or "valuations/states/valuations.bin" not in self.files:
            return None
        fields = classes[0].get("variables") or []
        known = [width for field in fields if (width := _width(field)) is not None]
        if len(known) < len(fields) or sum(known) % 8:
            return None
        size = sum(known) // 8
        rows = np.frombuffer(self.bytes("valuations/states/valuations.bin", S * size), np.uint8).reshape(S, size)
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        ends = np.cumsum(known).tolist()
        columns = [
            (str(field["name"]), _values(field, bits[:, end - width : end]))
            for field, width, end in zip(fields, known, ends, strict=True)
            if "padding" not in field
        ]
        called = [[f"{name}={value}" for value in values] for name, values in columns]
        names = [", ".join(parts) for parts in zip(*called, strict=True)]
        return tuple(names) if columns and len(set(names)) == S else None


def _width(field: Any) -> int | None:
    """Return the bits of a variable or of padding; None for one that cannot be read."""
    if "padding" in field:
        return int(field["padding"])
    kind = str((field.get("type") or {}).get("type"))
    bits = field["type"].get("size", 1 if kind == "bool" else 64)
    fits = (kind in ("bool", "int", "uint") and bits <= 64) or (kind, bits) == ("double", 64)
    return int(bits) + bool(field.get("is-optional")) if fits else None


def _values(field: Any, bits: npt.NDArray[np.uint8]) -> list[Any]:
    """Return the values of a variable, one for each state, from its bits, the least one first."""
    missing = np.zeros(len(bits), dtype=np.bool_)
    if field.get("is-optional"):
        missing, bits = bits[:, 0] == 0, bits[:, 1:]
    kind, width = field["type"]["type"], bits.shape[1]
    padded = np.zeros((len(bits), 64), dtype=np.uint8)
    padded[:, :width] = bits
    if kind == "int":
        padded[:, width:] = bits[:, -1:]  # the sign
    words = np.packbits(padded, axis=1, bitorder="little").view({"double": "<f8", "int": "<i8"}.get(kind, "<u8"))[:, 0]
    values: list[Any] = (words == 1).tolist() if kind == "bool" else (words + field.get("offset", 0)).tolist()
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
