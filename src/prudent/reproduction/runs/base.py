"""Base class of runs, and the key under which finished parts of a run are stored."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..._support.content import Content
from ..._support.sources import source_digest
from ..._support.versions import stamp, versions
from ...types import FloatArray, IntArray

Arrays = dict[str, FloatArray]
"""Arrays by name, with one row for each replication."""


@dataclass(frozen=True)
class Run(ABC):
    """A computation of independent replications, numbered from 0.

    A run is hashable and says all that its numbers depend on. Studies that contain the same run share it.

    Attributes
    ----------
    replications : int
        Number of replications.
    seed : int
        Seed; replication r draws from the streams of r.
    """

    kind: ClassVar[str]
    timed: ClassVar[bool] = False  # measures time: computed last, on this machine, with nothing else running
    replications: int
    seed: int = field(default=1, kw_only=True)

    @abstractmethod
    def compute(self, first: int, count: int) -> Arrays:
        """Return arrays with one row for each of the replications ``first``, ..., ``first + count - 1``."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Estimated time of one replication, for progress and the size of chunks."""

    @property
    def modules(self) -> set[str]:
        """Modules of this package that the numbers depend on, with all that these import."""
        return {kind.__module__ for kind in type(self).__mro__ if issubclass(kind, Run)}

    def record(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {"kind": self.kind, **asdict(self)}

    def identity(self) -> dict[str, Any]:
        """Return what the numbers of a replication depend on, for JSON: by default all fields but their number.

        A run that reads a file adds a digest of what it read.
        """
        return {name: value for name, value in self.record().items() if name != "replications"}

    def content(self) -> Content:
        """Return the content of the code, outside this package, that computes the numbers."""
        return Content(type(self))


def key(run: Run) -> str:
    """Return the name under which parts of a run are stored.

    It changes with the content of the run (the arrays, the settings and the code of what its functions return), with
    the versions of the software, and with the source of the modules of this package that the run imports. Text,
    figures, pages and the command line are not among these. A run whose code is not of this package may use all of it.

    Examples
    --------
    >>> from prudent.reproduction.runs.limit_law import LimitRun
    >>> run = LimitRun(10, p_h=0.1, alpha=0.5, state=3, sizes=(100,), draws=10)
    >>> more = LimitRun(20, p_h=0.1, alpha=0.5, state=3, sizes=(100,), draws=10)
    >>> key(run) == key(more)
    True
    """
    content = run.content()
    source = stamp()["source"] if content.runs_foreign_code else source_digest(run.modules)
    parts = {"run": run.identity(), "content": content.hexdigest(), "versions": versions(), "source": source}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def grid(last: int, points: int, geometric: bool = False) -> IntArray:
    """Return up to ``points`` integers up to ``last``, evenly or geometrically spaced.

    Examples
    --------
    >>> grid(1000, 5), grid(1000, 4, geometric=True)
    (array([ 200,  400,  600,  800, 1000]), array([   1,   10,  100, 1000]))
    """
    points = min(points, last)
    times = np.geomspace(last, 1, points) if geometric else last * np.arange(1, points + 1) / points
    return np.unique(np.rint(times).astype(np.int64))
