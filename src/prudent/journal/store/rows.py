"""Rows of a store: decisions, which have no order, and entries of the log, which have one."""

from __future__ import annotations

import re
import zlib
from struct import Struct
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

Place: TypeAlias = tuple[int, int, int]
"""Stream, number and position on the slate of a decision: what its id says."""

_ID = re.compile(r"([0-9]{1,18})-([0-9a-f]{16})(?:-([0-9]{1,6}))?")


class Taken(NamedTuple):
    """A decision, with all that makes it repeatable."""

    stream: int  # random number that a process draws: what its random stream is made from
    number: int  # of the decision in its stream, from 1
    time: float  # seconds since 1970
    seq: int  # entries of the log that the state had learned
    position: int  # uniforms of the stream that were used before
    arm: str | None  # chosen arm, as JSON
    arms: str | None  # eligible arms, as JSON; None for all
    context: bytes | None  # float64 of arms; hash of the candidates of items
    score: float | None
    propensity: float | None
    options: str | None  # as JSON: slate and scores, numbers of decisions, whether somebody else decided
    key: str | None  # of the request, as JSON
    note: bytes | None  # digest of the note

    @property
    def id(self) -> str:
        """Id of the decision."""
        return id_of((self.stream, self.number, 0))


class Entry(NamedTuple):
    """An entry of the log: the start, a reward, or a call that changes the bandit."""

    seq: int  # 0, 1, 2, ... without gaps
    time: float
    kind: str
    writer: int  # stream of the process that wrote it
    stream: int | None = None  # decision that a reward belongs to
    number: int | None = None
    place: int | None = None
    reward: float | None = None
    arms: str | None = None  # all arms after a start or a change, as JSON
    options: str | None = None  # arguments of a change, as JSON


class Report(NamedTuple):
    """A reward that was reported and is held until the window of its decision closes."""

    stream: int
    number: int
    place: int
    time: float
    reward: float


Row = Taken | Entry | Report
_WHOLE, _MAYBE = ("seq", "position", "writer"), ("stream", "number", "place")
TYPES: dict[str, tuple[type, ...]] = {"time": (float,), "kind": (str,), "context": (bytes, NoneType)}
TYPES |= dict.fromkeys(_WHOLE, (int,)) | dict.fromkeys(_MAYBE, (int, NoneType)) | {"note": (bytes, NoneType)}
TYPES |= dict.fromkeys(("arm", "arms", "options", "key"), (str, NoneType))
TYPES |= dict.fromkeys(("score", "propensity", "reward"), (float, NoneType))
_SOUND: dict[type, set[tuple[type, ...]]] = {Taken: set(), Entry: set(), Report: set()}  # types that rows have had


_TAKEN, _REWARD = Struct("<qqdqqddBqq"), Struct("<cqdqqqqd")


def content_of(row: Row) -> bytes:
    """Return the bytes of a row from which its checksum and its signature are made.

    Numbers are as they are in memory, which takes a third of the time of writing all of them out.
    """
    if type(row) is Taken and None not in row[:2]:
        stream, number, time, seq, position, arm, arms, context, score, chance, options, key, note = row
        absent = (score is None) + 2 * (chance is None)
        sizes = -1 if context is None else len(context), -1 if note is None else len(note)
        numbers = _TAKEN.pack(stream, number, time, seq, position, score or 0.0, chance or 0.0, absent, *sizes)
        return b"".join((numbers, context or b"", note or b"", repr((arm, arms, options, key)).encode()))
    if type(row) is Entry and None not in row[4:8]:
        numbers = _REWARD.pack(b"r", *row[:2], *row[3:8])
        return numbers + repr((row.kind, row.arms, row.options)).encode()
    return f"({', '.join(map(repr, row))})".encode()


def checksum_of(row: Row) -> int:
    """Return the CRC-32 of a row."""
    return zlib.crc32(content_of(row))


def fault_of(row: Row, checksum: Any) -> str:
    """Return what is wrong with a row that was read; "" if nothing is."""
    types = tuple(map(type, row))
    if types not in _SOUND[type(row)]:
        for name, value in zip(row._fields, row, strict=True):
            if type(value) not in TYPES[name]:
                return f"its {name} is {value!r}"[:200]
        _SOUND[type(row)].add(types)
    return "" if checksum_of(row) == checksum else "its checksum does not match"


def id_of(place: Place) -> str:
    """Return the id of a position on the slate of a decision."""
    stream, number, position = place
    return f"{number}-{stream:016x}" + (f"-{position}" if position else "")


def place_of(id: str) -> Place | None:
    """Return what an id says; None if it is none."""
    parts = _ID.fullmatch(id)
    if parts is None:
        return None
    number, digits, position = parts.groups()
    stream = int(digits, 16)
    return None if stream >= 2**63 or position == "0" else (stream, int(number), int(position or 0))
