"""Runs studies in chunks of replications, keeps what is finished, and writes one dataset for each study.

Replications are independent and seeded by their number, so workers, chunks and interruptions leave no trace in the
datasets: they are the same bytes, save those of runs that measure time. How long the computing took goes to a file of
its own, ``timings.json``.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import one_of, whole_number
from .._support.cluster import on_cluster
from .._support.datasets import LARGEST_VARIABLE, read_dataset
from .._support.output import write
from .._support.pool import on_threads, work
from .._support.provenance import provenance
from ..errors import ClusterError, DataError, ParameterError, StoreError
from ..types import PathLike
from .claims import Claim
from .export import claims_latex, claims_table
from .runs.base import Arrays, Run, key
from .runs.simulation import SimulationRun, forget_made
from .scale import SCALES, Scale
from .store import Store, missing
from .studies import OWN, STUDIES, study_of
from .study import Coordinates, Study

if TYPE_CHECKING:
    import xarray

Task: TypeAlias = tuple[Run, int, int, str]
"""A run, the first of its replications, how many of them to compute, and the key of the run."""
CHUNK_SECONDS = 1.5  # estimated time of a chunk: long enough to be worth a file, short enough to lose
GRACE = 2.0  # seconds that an interrupt waits for the chunks under way


class Progress(Protocol):
    """Receiver of the progress of a run."""

    def begin(self, total: float, done: float) -> None:
        """Announce the work: estimated seconds of computing, and how much of them an earlier run did."""

    def advance(self, kind: str, amount: float) -> None:
        """Add to the work that is done, by runs of this kind."""

    def say(self, message: str) -> None:
        """Show a message to the user."""


class Silent:
    """Progress that shows messages only, on stderr."""

    def begin(self, total: float, done: float) -> None:
        """See ``Progress``."""

    def advance(self, kind: str, amount: float) -> None:
        """See ``Progress``."""

    def say(self, message: str) -> None:
        """See ``Progress``."""
        print(f"prudent: {message}", file=sys.stderr, flush=True)


def run(
    names: Sequence[str] = (),
    scale: str | Scale = "quick",
    out: PathLike = "reproduction",
    workers: int | None = None,
    rng: int = 1,
    *,
    chunk: int | None = None,
    progress: Progress | None = None,
    cluster: object = None,
) -> dict[str, Path]:
    """Run studies and write their datasets.

    What an earlier run of the same studies finished is used again. ``KeyboardInterrupt`` and the loss of a cluster
    pass through after the finished chunks are stored.

    Parameters
    ----------
    names : sequence of str, optional
        Studies to run; the default is all of this package. ``"module:STUDY"`` is a study of your own.
    scale : str or Scale, default="quick"
        Size of the studies: ``"quick"``, ``"paper"`` or a ``Scale``.
    out : path-like, default="reproduction"
        Folder for the datasets.
    workers : int, optional
        Number of threads; the default is the number of cores. The datasets do not depend on it.
    rng : int, default=1
        Seed of all random numbers.
    chunk : int, optional
        Replications that are computed and stored at a time. The datasets do not depend on it.
    progress : Progress, optional
        Receiver of the progress.
    cluster : str, dask cluster or dask client, optional
        Where to compute; what measures time is computed on this machine. The datasets do not depend on it.

    Returns
    -------
    dict of str to Path
        File of the dataset of each study.

    Raises
    ------
    ParameterError
        If a study or the scale is unknown, or an argument is out of range.
    StoreError
        If the folder cannot be written, or another run is writing to it.
    ClusterError
        If the cluster is lost.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     [path.name for path in run(["optimal-policy"], out=out).values()]
    ['optimal-policy.nc']
    """
    wanted = [study_of(name) for name in names] or OWN
    chosen = [study for name, study in STUDIES.items() if name in wanted]
    size = scale if isinstance(scale, Scale) else SCALES[one_of(scale, "scale", SCALES)]
    seed = whole_number(rng, "rng", 0)
    forget_made()
    began, folder = time.perf_counter(), Path(out)
    plans: dict[str, dict[Coordinates, Run]] = {
        study.name: {where: replace(part, seed=seed) for where, part in study.plan(size).items()} for study in chosen
    }
    for name, plan in plans.items():
        _check_size(name, list(plan.values()))
    files = {}
    while plans:  # a study that goes on until its claims are decided comes back with more replications
        runs = [part for plan in plans.values() for part in plan.values()]
        further: dict[str, dict[Coordinates, Run]] = {}
        with computed(folder, runs, workers, chunk, progress, cluster) as result_of:
            times = _read_times(folder)
            for name, plan in plans.items():
                study = STUDIES[name]
                results = {where: result_of(part) for where, part in plan.items()}
                data = study.dataset(size, {where: arrays for where, (arrays, _) in results.items()}, plan)
                data.attrs |= _attributes(study, size, seed, list(plan.values()))
                files[name] = folder / f"{name}.nc"
                write(files[name], bytes(data.to_netcdf(engine="scipy")))
                times.setdefault("experiments", {})[name] = math.fsum(seconds for _, seconds in results.values())
                more = study.further(size, data) if study.further else None
                if more is not None:
                    further[name] = {where: replace(part, seed=seed) for where, part in more.items()}
            times["total_seconds"] = time.perf_counter() - began
            times["workers"] = (workers or default_threads()) if cluster is None else "the cluster's"
            write(folder / "timings.json", _json(times))
        plans = further
    return files


def load_datasets(out: PathLike) -> dict[str, xarray.Dataset]:
    """Return the datasets in a folder, by study.

    Parameters
    ----------
    out : path-like
        Folder that ``run`` wrote.

    Returns
    -------
    dict of str to xarray.Dataset
        The datasets that are there.

    Raises
    ------
    StoreError
        If a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     files = run(["optimal-policy"], out=out)
    ...     list(load_datasets(out))
    ['optimal-policy']
    """
    files = {name: Path(out) / f"{name}.nc" for name in STUDIES}
    try:
        return {name: read_dataset(file) for name, file in files.items() if file.exists()}
    except DataError as error:
        raise StoreError(f"{error}; run this experiment again", code="damaged-file", **error.fields) from error


def judge(datasets: Mapping[str, xarray.Dataset]) -> list[Claim]:
    """Return the claims about some datasets, those that do not reproduce first.

    Parameters
    ----------
    datasets : mapping of str to xarray.Dataset
        Datasets by study.

    Returns
    -------
    list of Claim
        The claims.

    Examples
    --------
    >>> judge({})
    []
    """
    claims = [claim for name, study in STUDIES.items() if name in datasets for claim in study.judge(datasets[name])]
    return sorted(claims, key=lambda claim: claim.kind.rank)


def conclude(out: PathLike, datasets: Mapping[str, xarray.Dataset] | None = None) -> list[Claim]:
    """Judge the claims by the datasets in a folder, and write ``claims.json``, ``claims.csv`` and ``claims.tex`` there.

    Parameters
    ----------
    out : path-like
        Folder that ``run`` wrote.
    datasets : mapping of str to xarray.Dataset, optional
        The datasets, if they have been loaded.

    Returns
    -------
    list of Claim
        The claims.
    """
    claims = judge(load_datasets(out) if datasets is None else datasets)
    write(Path(out) / "claims.json", _json([asdict(claim) for claim in claims]))
    write(Path(out) / "claims.csv", claims_table(claims).to_csv(index=False).encode())
    write(Path(out) / "claims.tex", claims_latex(claims).encode())
    return claims


# -- parts of a run ----------------------------------------------------------------------------------------


def _check_size(name: str, runs: list[Run]) -> None:
    """Refuse a study whose dataset no NetCDF-3 file can hold, before anything is computed."""
    simulations = [part for part in runs if isinstance(part, SimulationRun)]
    if simulations:
        rows = len(runs) * max(part.replications for part in runs)
        size = 8 * rows * max(part.times.size * max(1, len(part.alphas)) for part in simulations)
        if size > LARGEST_VARIABLE:
            text = f"scale: a variable of {name} has {size / 2**30:.3g} GiB, more than NetCDF-3 can hold; take less"
            raise ParameterError(text, code="too-large", argument="scale", value=size)


def _attributes(study: Study, scale: Scale, seed: int, runs: list[Run]) -> dict[str, Any]:
    spec = {"experiment": study.name, "scale": asdict(scale), "seed": seed, "runs": [part.record() for part in runs]}
    return {
        "scale": scale.name,
        "seed": seed,
        "spec": json.dumps(spec, sort_keys=True),
        **provenance(),
        "studies": json.dumps({name: other.title for name, other in STUDIES.items()}),
    }


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def _read_times(folder: Path) -> dict[str, Any]:
    try:
        times = json.loads((folder / "timings.json").read_text())
    except (OSError, ValueError):
        return {}  # missing or damaged
    return times if isinstance(times, dict) else {}


@contextmanager
def computed(
    folder: Path, runs: Sequence[Run], workers: int | None, chunk: int | None, progress: Progress | None, cluster: Any
) -> Iterator[Callable[[Run], tuple[Arrays, float]]]:
    """Compute the chunks of ``runs`` that ``folder`` lacks, and yield a function that reads the result of a run.

    The function returns the arrays of all replications and the processor seconds that they took. The folder is locked
    until the block ends. ``workers``, ``chunk``, ``progress`` and ``cluster`` are those of ``run``.
    """
    workers = default_threads() if workers is None else whole_number(workers, "workers")
    chunk = None if chunk is None else whole_number(chunk, "chunk")
    progress = Silent() if progress is None else progress
    with Store(folder, progress.say) as store:
        names = {part: key(part) for part in dict.fromkeys(runs)}
        _compute(store, names, chunk, workers, cluster, progress)

        def result_of(part: Run) -> tuple[Arrays, float]:
            pieces, seconds = store.get(names[part], part)
            if missing(pieces, part.replications, part.replications):
                message = "a chunk was lost or damaged after it had been written; run again to compute it anew"
                raise StoreError(message, code="damaged-file", path=str(folder))
            return {name: np.concatenate([arrays[name] for _, arrays in pieces]) for name in pieces[0][1]}, seconds

        yield result_of


def _compute(
    store: Store, names: Mapping[Run, str], chunk: int | None, workers: int, cluster: Any, progress: Progress
) -> None:
    """Compute and store every missing chunk; what measures time comes last, with nothing else running."""
    tasks: list[Task] = []
    for part, name in names.items():
        pieces, _ = store.get(name, part)
        size = chunk or max(1, round(CHUNK_SECONDS / part.seconds))
        tasks += [(part, *gap, name) for gap in missing(pieces, part.replications, size)]
    total = sum(part.seconds * part.replications for part in names)
    remaining = math.fsum(part.seconds * count for part, _, count, _ in tasks)
    progress.begin(total, total - remaining)

    def keep(task: Task, result: tuple[Arrays, float]) -> None:
        part, first, count, name = task
        store.put(name, first, count, *result)
        progress.advance(part.kind, part.seconds * count)

    shared = [task for task in tasks if not task[0].timed]
    alone = [task for task in tasks if task[0].timed]
    for some, threads, where in ((shared, workers, cluster), (alone, 1, None)):
        if not some and where is None:
            continue
        try:
            with on_threads(threads) if where is None else on_cluster(where, progress.say) as pool:
                work(pool, compute_chunk if where is None else check_chunk, some, keep, grace=GRACE, say=progress.say)
        except ClusterError as error:
            message = f"{error}; finished chunks are stored: run again to continue"
            raise type(error)(message, code=error.code, **error.fields) from error


def compute_chunk(part: Run, first: int, count: int, name: str) -> tuple[Arrays, float]:
    """Return the arrays of some replications and the processor seconds that they took."""
    began = time.thread_time()
    return part.compute(first, count), time.thread_time() - began


def check_chunk(part: Run, first: int, count: int, name: str) -> tuple[Arrays, float]:
    """As ``compute_chunk`` on a worker of a cluster, which must have made the same environment and agent."""
    if _key_here(part) != name:  # perhaps since a file has changed after something was made of it here
        forget_made()
        _key_here.cache_clear()
    if _key_here(part) != name:
        message = (
            f"a worker of the cluster does not make of {part.record()} what this machine makes of it: its modules or "
            "its data files are others. Give it the same files and restart it"
        )
        raise ClusterError(message, code="worker-content", value=name)
    return compute_chunk(part, first, count, name)


@functools.lru_cache(maxsize=1024)
def _key_here(part: Run) -> str:
    """Return the key of a run in this process, from before it was first computed here."""
    return key(part)
