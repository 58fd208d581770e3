"""Finished work on disk: written completely or not at all, checked when read, never mixed up with other work.

A chunk file is one line of JSON (the SHA-256 of the rest, the time it took) and the arrays in NumPy's npz format. It
is written under another name, flushed, and renamed, so a file with its proper name is complete. Its folder is named by
the key of the run, its name by its replications.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._support.output import write
from ..errors import StoreError
from .runs.base import Arrays, Run


class Store:
    """The chunks of one output folder, which is locked inside the ``with`` block."""

    def __init__(self, out: Path, warn: Callable[[str], None]) -> None:
        self.out, self._warn = out, warn
        self._lock: Any = None

    def __enter__(self) -> Store:
        try:
            (self.out / "chunks").mkdir(parents=True, exist_ok=True)
            self._lock = (self.out / "chunks" / ".lock").open("w")
            with contextlib.suppress(ImportError):  # not on this system
                import fcntl

                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system drops it however we end
            for draft in self.out.glob("**/.*.tmp"):  # of a run that was killed while it wrote
                draft.unlink(missing_ok=True)
        except BlockingIOError as error:
            self.__exit__()
            message = f"another run is writing to {self.out}; wait for it or choose another folder"
            raise StoreError(message, code="locked-folder", path=str(self.out)) from error
        except OSError as error:
            self.__exit__()
            message = f"cannot write to the folder {self.out}: {error.strerror or error}"
            raise StoreError(message, code="not-writable", path=str(self.out)) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def _file(self, name: str, first: int, count: int) -> Path:
        return self.out / "chunks" / name / f"{first:06d}-{first + count - 1:06d}.chunk"

    def put(self, name: str, first: int, count: int, arrays: Arrays, seconds: float) -> None:
        """Store ``count`` replications of the run with the key ``name``."""
        payload = io.BytesIO()
        np.savez(payload, allow_pickle=False, **arrays)
        body = payload.getvalue()
        header = json.dumps({"sha256": hashlib.sha256(body).hexdigest(), "seconds": seconds})
        write(self._file(name, first, count), header.encode() + b"\n" + body)

    def get(self, name: str, run: Run) -> tuple[list[tuple[int, Arrays]], float]:
        """Return the stored chunks as (first replication, arrays), in order and without overlap, and their seconds.

        A damaged chunk is reported and removed, so that it is computed again.
        """
        chunks: list[tuple[int, Arrays]] = []
        total, after = 0.0, 0
        for file in sorted((self.out / "chunks" / name).glob("*.chunk")):
            match = re.fullmatch(r"(\d+)-(\d+)\.chunk", file.name)
            first, last = (int(part) for part in match.groups()) if match else (-1, -1)
            if not 0 <= first <= last < run.replications or first < after:
                continue  # of another chunk size, and its replications are in other chunks
            try:
                arrays, seconds = _read(file, last - first + 1)
            except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
                self._warn(f"{file} is damaged ({error}): its replications {first} to {last} are computed again")
                with contextlib.suppress(OSError):
                    file.unlink()
                continue
            chunks.append((first, arrays))
            total += seconds
            after = last + 1
        return chunks, total


def _read(file: Path, count: int) -> tuple[Arrays, float]:
    header, _, body = file.read_bytes().partition(b"\n")
    facts = json.loads(header)
    if hashlib.sha256(body).hexdigest() != facts["sha256"]:
        raise ValueError("its checksum is wrong")
    with np.load(io.BytesIO(body), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    if any(array.shape[0] != count for array in arrays.values()):
        raise ValueError("it does not have the replications that its name says")
    return arrays, float(facts["seconds"])


def missing(chunks: list[tuple[int, Arrays]], replications: int, size: int) -> list[tuple[int, int]]:
    """Return the replications that no chunk has, as (first, count), at most ``size`` at once.

    Examples
    --------
    >>> missing([(2, {"x": np.zeros((3, 1))})], 10, 4)
    [(0, 2), (5, 4), (9, 1)]
    """
    gaps, after = [], 0
    ends = [(first, first + next(iter(arrays.values())).shape[0]) for first, arrays in chunks]
    for start, stop in [*ends, (replications, replications)]:
        gaps += [(first, min(size, start - first)) for first in range(after, start, size)]
        after = stop
    return gaps
