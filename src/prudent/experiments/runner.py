"""Runs studies in chunks of replications, keeps what is finished, and writes one dataset for each.

Replications are independent and seeded by their number, so workers, chunks and interruptions leave no trace in the
datasets: they are the same bytes, save those of runs that measure time. How long the computing took goes to a file of
its own, ``timings.json``.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import whole_number
from .._support.datasets import read_dataset
from ..errors import DataError, ParameterError
from .intervals import Claim, rank
from .run import Arrays, Run, key, versions
from .scale import SCALES, Scale
from .store import Store, StoreError, missing, write
from .studies import STUDIES
from .study import Study

if TYPE_CHECKING:
    import xarray

__all__ = ["Progress", "Silent", "conclude", "judge", "load", "run"]

Task = tuple[Run, int, int]  # a run, the first of its replications, how many
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
    cluster: str | None = None,
) -> dict[str, Path]:
    """Run the studies called ``names`` (default: all), write their datasets to ``out`` and return the files.

    ``workers`` threads work (default: as many as there are cores), on ``chunk`` replications at a time; or the workers
    of a dask cluster at the address ``cluster``. Neither changes the datasets. What an earlier run of the same
    spec finished is used again; ``KeyboardInterrupt`` passes through after finished chunks are kept.

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
        _compute(store, unique, names_of, seed, chunk, workers, cluster, progress)
        times = _read_times(folder)
        files = {}
        for study in chosen:
            results, spent = [], 0.0
            for part in plans[study.name]:
                pieces, seconds = store.get(names_of[part], part)
                results.append(_joined(pieces, part))
                spent += seconds
            data = study.dataset(size, results)
            data.attrs |= _attributes(study, size, seed, plans[study.name])
            files[study.name] = folder / f"{study.name}.nc"
            write(files[study.name], bytes(data.to_netcdf(engine="scipy")))
            times.setdefault("experiments", {})[study.name] = spent
        times["total_seconds"] = time.perf_counter() - began
        times["workers"] = workers
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


def _joined(pieces: list[tuple[int, Arrays]], part: Run) -> Arrays:
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


def _compute(
    store: Store,
    parts: list[Run],
    names: dict[Run, str],
    seed: int,
    chunk: int | None,
    workers: int,
    cluster: str | None,
    progress: Progress,
) -> None:
    """Compute and keep every chunk that is not there yet; what measures time comes last, with none beside it."""
    tasks: list[Task] = []
    for part in parts:
        pieces, _ = store.get(names[part], part)
        size = chunk or max(1, round(CHUNK_SECONDS / part.seconds))
        tasks += [(part, *gap) for gap in missing(pieces, part.replications, size)]
    total = sum(part.seconds * part.replications for part in parts)
    left = math.fsum(part.seconds * count for part, _, count in tasks)
    progress.begin(total, total - left)

    def keep(future: Future[Any], task: Task) -> None:
        part, first, count = task
        arrays, seconds = future.result()
        store.put(names[part], first, count, arrays, seconds)
        progress.advance(part.kind, part.seconds * count)

    _work([task for task in tasks if not task[0].timed], seed, _executor(workers, cluster), keep, progress)
    _work([task for task in tasks if task[0].timed], seed, _executor(1, None), keep, progress)


def _work(
    tasks: list[Task],
    seed: int,
    executor: AbstractContextManager[tuple[Executor, int]],
    keep: Callable[[Future[Any], Task], None],
    progress: Progress,
) -> None:
    """Compute the chunks, as many at a time as the executor should have, and keep each when it is done."""
    with executor as (pool, width):
        running: dict[Future[Any], Task] = {}

        def settle(done: Any) -> None:
            for future in done:
                keep(future, running[future])
                del running[future]  # after it is kept: an interrupt must not lose it

        try:
            for task in tasks:
                running[pool.submit(compute_chunk, task[0], seed, *task[1:])] = task
                if len(running) >= width:
                    settle(wait(running, return_when=FIRST_COMPLETED).done)
            while running:
                settle(wait(running, return_when=FIRST_COMPLETED).done)
        except KeyboardInterrupt:
            progress.say("interrupted; keeping what is done in a moment (Ctrl-C again: leave at once)")
            under_way = {future: task for future, task in running.items() if not future.cancel()}
            for future in wait(under_way, timeout=GRACE).done:
                keep(future, under_way[future])
            raise


@contextmanager
def _executor(workers: int, cluster: str | None) -> Iterator[tuple[Executor, int]]:
    """Give an executor and how many tasks it should have at a time."""
    if cluster is None:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="prudent")
        try:
            yield pool, workers + 1  # one in waiting, so that no worker ever does
        finally:
            # a second Ctrl-C must not wait for threads; the rest has been waited for already
            pool.shutdown(wait=False, cancel_futures=True)
        return
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ParameterError(
            "a cluster needs dask.distributed, which is not installed: pip install distributed"
        ) from None
    try:
        client = distributed.Client(cluster, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ParameterError(f"no dask cluster answers at {cluster!r}: {error}") from None
    with client:
        yield client.get_executor(), max(2, 2 * sum(client.ncores().values()))
