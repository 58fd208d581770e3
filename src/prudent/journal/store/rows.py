"""Rows of a store: decisions, which have no order, and entries of the log, which have one."""

from __future__ import annotations

import re
import zlib
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


def content_of(row: Row) -> bytes:
    """Return the bytes of a row that its checksum and its signature are made from."""
    return repr(tuple(row)).encode()


def checksum_of(row: Row) -> int:
    """Return the CRC-32 of a row."""
    return zlib.crc32(content_of(row))


def fault_of(row: Row, checksum: Any) -> str:
    """Return what is wrong with a row that was read; "" if nothing is."""
    for name, value in zip(row._fields, row, strict=True):
        if type(value) not in TYPES[name]:
            return f"its {name} is {value!r}"[:200]
    return "" if checksum_of(row) == checksum else "its checksum does not match"


def id_of(place: Place) -> str:
    """Return the id of a position on the slate of a decision."""
    stream, number, position = place
    return f"{number}-{stream:016x}" + (f"-{position}" if position else "")


def place_of(id: str) -> Place | None:
    """Return what an id says; None if it is none."""
    parts = _ID.fullmatch(id)
    if parts is None or int(parts[2], 16) >= 2**63 or parts[3] == "0":
        return None
    return int(parts[2], 16), int(parts[1]), int(parts[3] or 0)
