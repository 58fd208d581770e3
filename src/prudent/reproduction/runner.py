"""Runs studies in chunks of replications, keeps what is finished, and writes one dataset for each.

Replications are independent and seeded by their number, so workers, chunks and interruptions leave no trace in the
datasets: they are the same bytes, save those of runs that measure time. How long the computing took goes to a file of
its own, ``timings.json``.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import whole_number
from .._support.cluster import on_cluster
from .._support.datasets import read_dataset
from .._support.pool import on_threads, work
from .._support.versions import versions
from ..errors import ClusterError, DataError, ParameterError, StoreError
from .intervals import Claim, rank
from .run import Arrays, Run, key
from .scale import SCALES, Scale
from .store import Store, missing, write
from .studies import STUDIES
from .study import Study

if TYPE_CHECKING:
    import xarray

__all__ = ["Progress", "Silent", "compute", "conclude", "joined", "judge", "load", "run"]

Task = tuple[Run, int, int, int]  # a run, the seed, the first of its replications, how many
CHUNK_SECONDS = 1.5  # what a chunk should take; long enough to be worth a file, short enough to lose
GRACE = 2.0  # seconds that an interrupt waits for the chunks under way


class Progress(Protocol):
    """What the runner tells while it works."""

    def begin(self, total: float, done: float) -> None:
        """Announce the work: seconds of computing in all, and those that an earlier run did."""

    def advance(self, what: str, amount: float) -> None:
        """Say that so much was done."""

    def say(self, message: str) -> None:
        """Pass on a message for the user."""


class Silent:
    """Says nothing but warnings, on stderr."""

    def begin(self, total: float, done: float) -> None:
        """See :class:`Progress`."""

    def advance(self, what: str, amount: float) -> None:
        """See :class:`Progress`."""

    def say(self, message: str) -> None:
        """See :class:`Progress`."""
        print(f"prudent: {message}", file=sys.stderr, flush=True)


def run(
    names: Sequence[str] = (),
    scale: str | Scale = "quick",
    out: str | Path = "reproduction",
    workers: int | None = None,
    seed: int = 1,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
    cluster: Any = None,
) -> dict[str, Path]:
    """Run the studies called ``names`` (default: all), write their datasets to ``out`` and return the files.

    ``workers`` threads work (default: as many as there are cores), on ``chunk`` replications at a time; or the workers
    of a dask ``cluster``: the address of its scheduler, a cluster object or a client. None of these changes the
    datasets. What measures time is computed here, alone. What an earlier run of the same spec finished is used again;
    ``KeyboardInterrupt`` passes through after finished chunks are kept, and so does the loss of a cluster.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     [path.name for path in run(["optimal-policy"], out=out).values()]
    ['optimal-policy.nc']
    """
    chosen = _chosen(names)
    size = _scale(scale)
    seed = whole_number(seed, "seed", 0)
    workers = default_threads() if workers is None else whole_number(workers, "workers")
    chunk = None if chunk is None else whole_number(chunk, "chunk")
    progress = Silent() if progress is None else progress
    began = time.perf_counter()
    folder = Path(out)
    with Store(folder, progress.say) as store:
        plans = {study.name: study.plan(size) for study in chosen}
        unique = list(dict.fromkeys(part for plan in plans.values() for part in plan))
        names_of = {part: key(part, seed, size.name) for part in unique}
        compute(store, unique, names_of, seed, chunk, workers, cluster, progress)
        times = _read_times(folder)
        files = {}
        for study in chosen:
            results, spent = [], 0.0
            for part in plans[study.name]:
                pieces, seconds = store.get(names_of[part], part)
                results.append(joined(pieces, part))
                spent += seconds
            data = study.dataset(size, results)
            data.attrs |= _attributes(study, size, seed, plans[study.name])
            files[study.name] = folder / f"{study.name}.nc"
            write(files[study.name], bytes(data.to_netcdf(engine="scipy")))
            times.setdefault("experiments", {})[study.name] = spent
        times["total_seconds"] = time.perf_counter() - began
        times["workers"] = workers if cluster is None else "the cluster's"
        write(folder / "timings.json", _json(times))
    return files


def load(out: str | Path) -> dict[str, xarray.Dataset]:
    """Return the datasets in a folder, by study.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     files = run(["optimal-policy"], out=out)
    ...     list(load(out))
    ['optimal-policy']
    """
    files = {name: Path(out) / f"{name}.nc" for name in STUDIES}
    try:
        return {name: read_dataset(file) for name, file in files.items() if file.exists()}
    except DataError as error:
        raise StoreError(f"{error}; run this experiment again") from error


def judge(datasets: Mapping[str, xarray.Dataset]) -> list[Claim]:
    """Return the paper's claims about the studies that are there, those that do not reproduce first.

    >>> judge({})
    []
    """
    claims = [claim for name, study in STUDIES.items() if name in datasets for claim in study.claims(datasets[name])]
    return sorted(claims, key=lambda claim: rank(claim.verdict))


def conclude(out: str | Path) -> list[Claim]:
    """Judge the paper's claims by the datasets in ``out``, write ``claims.json`` and return the claims."""
    claims = judge(load(out))
    write(Path(out) / "claims.json", _json([asdict(claim) for claim in claims]))
    return claims


# -- parts of it -------------------------------------------------------------------------------------------


def _chosen(names: Sequence[str]) -> list[Study]:
    for name in names:
        if name not in STUDIES:
            raise ParameterError(f"there is no experiment {name!r}, expected some of {', '.join(STUDIES)}")
    return [study for name, study in STUDIES.items() if not names or name in names]


def _scale(scale: str | Scale) -> Scale:
    if isinstance(scale, Scale):
        return scale
    if scale not in SCALES:
        raise ParameterError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    return SCALES[scale]


def _attributes(study: Study, scale: Scale, seed: int, plan: tuple[Run, ...]) -> dict[str, Any]:
    spec = {"experiment": study.name, "scale": asdict(scale), "seed": seed, "runs": [part.record() for part in plan]}
    return {
        "scale": scale.name,
        "seed": seed,
        "spec": json.dumps(spec, sort_keys=True),
        "versions": json.dumps(versions(), sort_keys=True),
        "studies": json.dumps({name: each.title for name, each in STUDIES.items()}),
    }


def joined(pieces: list[tuple[int, Arrays]], part: Run) -> Arrays:
    """Return the arrays of all replications of a run from those of its chunks."""
    if missing(pieces, part.replications, part.replications):
        raise StoreError("a chunk was lost or damaged after it had been written; run again to compute it anew")
    return {name: np.concatenate([arrays[name] for _, arrays in pieces]) for name in pieces[0][1]}


def _json(what: Any) -> bytes:
    return (json.dumps(what, indent=1, allow_nan=False) + "\n").encode()


def _read_times(folder: Path) -> dict[str, Any]:
    try:
        times = json.loads((folder / "timings.json").read_text())
    except (OSError, ValueError):
        return {}  # none, or none that can be read
    return times if isinstance(times, dict) else {}


def compute_chunk(part: Run, seed: int, first: int, count: int) -> tuple[Arrays, float]:
    """Return the arrays of some replications and the processor seconds that they took; runs on a worker."""
    began = time.thread_time()
    return part.compute(seed, first, count), time.thread_time() - began


def compute(
    store: Store,
    parts: list[Run],
    names: Mapping[Run, str],
    seed: int,
    chunk: int | None,
    workers: int,
    cluster: Any,
    progress: Progress,
) -> None:
    """Compute and keep every chunk that is not there yet; what measures time comes last, with none beside it."""
    tasks: list[Task] = []
    for part in parts:
        pieces, _ = store.get(names[part], part)
        size = chunk or max(1, round(CHUNK_SECONDS / part.seconds))
        tasks += [(part, seed, *gap) for gap in missing(pieces, part.replications, size)]
    total = sum(part.seconds * part.replications for part in parts)
    left = math.fsum(part.seconds * count for part, _, _, count in tasks)
    progress.begin(total, total - left)

    def keep(task: Task, result: tuple[Arrays, float]) -> None:
        part, _, first, count = task
        store.put(names[part], first, count, *result)
        progress.advance(part.kind, part.seconds * count)

    shared = [task for task in tasks if not task[0].timed]
    alone = [task for task in tasks if task[0].timed]
    for some, threads, where in ((shared, workers, cluster), (alone, 1, None)):
        if not some and where is None:
            continue
        try:
            with on_threads(threads) if where is None else on_cluster(where, progress.say) as pool:
                work(pool, compute_chunk, some, keep, grace=GRACE, say=progress.say)
        except ClusterError as error:
            raise ClusterError(f"{error}; what was finished is kept, mend this and run again") from error
