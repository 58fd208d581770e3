"""What is to be computed, as frozen values: a run simulates one agent on one problem for some replications.

A run is hashable and says all that its numbers depend on besides the seed, so it is at once the recipe, the record in
the dataset and the key under which finished parts are kept. Studies that contain the same run share it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import prudent

from .._support.checks import FloatArray, IntArray
from .._support.versions import versions

__all__ = ["Arrays", "Run", "grid", "key", "stacked"]

Arrays = dict[str, FloatArray]


@dataclass(frozen=True)
class Run(ABC):
    """One simulation: ``replications`` of them, numbered from 0, independent of each other."""

    kind: ClassVar[str]
    timed: ClassVar[bool] = False  # measures time: computed after all others, on this machine, with none beside it
    replications: int

    @abstractmethod
    def compute(self, seed: int, first: int, count: int) -> Arrays:
        """Return arrays with one row for each of the replications ``first``, ..., ``first + count - 1``."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """A rough guess of the time of one replication, for progress and the size of chunks."""

    def record(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {"kind": self.kind, **asdict(self)}


def grid(last: int, points: int, geometric: bool = False) -> IntArray:
    """Return up to ``points`` whole numbers from 1 or its neighbours to ``last``, evenly or geometrically spaced.

    >>> grid(1000, 5), grid(1000, 4, geometric=True)
    (array([ 200,  400,  600,  800, 1000]), array([   1,   10,  100, 1000]))
    """
    points = min(points, last)
    places = np.geomspace(last, 1, points) if geometric else last * np.arange(1, points + 1) / points
    return np.unique(np.rint(places).astype(np.int64))


def stacked(results: list[Arrays], name: str) -> FloatArray:
    """Return the array ``name`` of all runs, one after the other along a new first axis."""
    return np.stack([arrays[name] for arrays in results])


# -- identity ----------------------------------------------------------------------------------------------


@functools.cache
def _code(kind: type[Run]) -> str:
    """Return a digest of the source that a kind of run depends on, so that new code never meets old numbers.

    The report, the command line and the verdicts compute no run. Nor do the files of the studies, which hold text
    and claims; but the file that defines this kind of run counts, wherever it is.
    """
    root = Path(prudent.__file__).parent
    digest = hashlib.sha256()
    for own in (each for each in kind.__mro__ if issubclass(each, Run)):
        digest.update(Path(inspect.getfile(own)).read_bytes() + b"\0")
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root).as_posix()
        study = file.parent.name == "studies" and not file.name.startswith("_")
        if not study and not place.startswith(("reproduction/report/", "cli/", "display/", "journal/")):
            digest.update(place.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def key(run: Run, seed: int, scale: str) -> str:
    """Return the name under which parts of a run are kept: it changes with all that its numbers depend on.

    >>> from prudent.reproduction.studies.limit_law import LimitRun
    >>> run = LimitRun(10, p_h=0.1, alpha=0.5, state=3, sizes=(100,), draws=10)
    >>> key(run, 1, "quick") == key(run, 2, "quick")
    False
    """
    about = {"run": run.record(), "seed": seed, "scale": scale, "versions": versions(), "code": _code(type(run))}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
