"""Processes that decide and report rewards on one journal at the same time: pairs a second, and the worst select."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prudent.journal import Journal

SECONDS = 2.0
_ANSWER = struct.Struct("<qdd")


def measured(opened: Callable[[], Journal], writers: int, dim: int, seconds: float = SECONDS) -> tuple[float, float]:
    """Return the pairs of select and reward a second of all writers, and the longest select in seconds."""
    pipes, begin = [], os.pipe()
    for number in range(writers):
        reader, pipe = os.pipe()
        if not os.fork():
            os.close(begin[1])
            with opened() as live:
                contexts = np.random.default_rng(number).random((1000, dim))
                for context in contexts[:20]:
                    live.reward(live.select(context).id, 1.0)
                os.write(pipe, b"r")
                os.read(begin[0], 1)  # until the parent closes it
                count, worst, first = 0, 0.0, time.perf_counter()
                while (began := time.perf_counter()) - first < seconds:
                    decision = live.select(contexts[count % 1000])
                    worst = max(worst, time.perf_counter() - began)
                    live.reward(decision.id, 1.0)
                    count += 1
                os.write(pipe, _ANSWER.pack(count, time.perf_counter() - first, worst))
            os._exit(0)
        os.close(pipe)
        pipes.append(reader)
    os.close(begin[0])
    for reader in pipes:
        os.read(reader, 1)
    os.close(begin[1])
    answers = [_ANSWER.unpack(os.read(reader, _ANSWER.size)) for reader in pipes]
    for reader in pipes:
        os.close(reader)
    for _ in range(writers):
        os.wait()
    return sum(count / spent for count, spent, _ in answers), max(worst for *_, worst in answers)


def server() -> Any:
    """Return a PostgreSQL server of the tests, with a disk that it waits for; raise if there is none."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    import _postgres

    if _postgres.programs() is None:
        raise RuntimeError("no PostgreSQL on this machine")
    _postgres.SETTINGS.pop("fsync", None)
    return _postgres.Server()
