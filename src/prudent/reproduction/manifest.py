"""The manifest of a reproduction: with what software, on which machine, from which seeds, and the hashes of all files.

Datasets are the same bytes on machines of one type, save those of runs that measure time. So whoever runs the command
of a manifest again can compare the hashes, file by file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._support.machine import changed, commit, machine
from .._support.output import write
from .._support.versions import stamp
from ..errors import DataError
from ..types import PathLike
from .runner import load_datasets
from .studies import STUDIES

if TYPE_CHECKING:
    import xarray

FILE = "manifest.json"


def manifest(out: PathLike, datasets: Mapping[str, xarray.Dataset] | None = None) -> dict[str, Any]:
    """Return the manifest of the results in a folder.

    Parameters
    ----------
    out : path-like
        Folder that ``run`` wrote.
    datasets : mapping of str to xarray.Dataset, optional
        The datasets, if they have been loaded.

    Returns
    -------
    dict
        ``prudent`` (version, commit of the source, whether files were changed since, digest of the source),
        ``versions``, ``machine``, ``written`` (the time), ``datasets`` (file, SHA-256, size, scale, seed, and the
        versions that computed it) and ``files`` (SHA-256 of claims and report).

    Examples
    --------
    >>> import tempfile
    >>> from prudent.reproduction import run
    >>> with tempfile.TemporaryDirectory() as out:
    ...     files = run(["optimal-policy"], out=out)
    ...     found = manifest(out)["datasets"]["optimal-policy"]
    >>> found["seed"], len(found["sha256"])
    (1, 64)
    """
    folder = Path(out)
    datasets = load_datasets(folder) if datasets is None else datasets
    software = stamp()
    source = {"commit": commit(), "changed": changed(), "source": software.pop("source")}
    return {
        "prudent": {"version": software.pop("prudent"), **source},
        "versions": software,
        "machine": machine(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "datasets": {name: _entry(folder / f"{name}.nc", data) for name, data in datasets.items()},
        "files": {name: _digest(folder / name) for name in ("claims.json", "report.html") if (folder / name).exists()},
    }


def _entry(file: Path, data: xarray.Dataset) -> dict[str, Any]:
    timed = any(run.get("kind") == "time" for run in json.loads(data.attrs["spec"])["runs"])
    return {
        "file": file.name,
        "sha256": _digest(file),
        "bytes": file.stat().st_size,
        "scale": data.attrs["scale"],
        "seed": int(data.attrs["seed"]),
        "versions": json.loads(data.attrs["versions"]),
        "repeatable": not timed,
    }


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_manifest(out: PathLike, datasets: Mapping[str, xarray.Dataset] | None = None) -> Path:
    """Write ``manifest.json`` into a folder of results.

    Parameters
    ----------
    out : path-like
        Folder that ``run`` wrote.
    datasets : mapping of str to xarray.Dataset, optional
        The datasets, if they have been loaded.

    Returns
    -------
    Path
        The file.
    """
    file = Path(out) / FILE
    write(file, (json.dumps(manifest(out, datasets), indent=1) + "\n").encode())
    return file


def differences(out: PathLike, other: PathLike) -> list[str]:
    """Return how the results in a folder differ from a manifest: nothing if all repeatable datasets are the same bytes.

    Parameters
    ----------
    out : path-like
        Folder that ``run`` wrote.
    other : path-like
        A manifest.

    Returns
    -------
    list of str
        What differs, in words.

    Raises
    ------
    DataError
        If the manifest cannot be read.
    """
    file = Path(other)
    try:
        known = json.loads(file.read_text(encoding="utf-8"))["datasets"]
        expected = {name: (str(entry["sha256"]), bool(entry["repeatable"])) for name, entry in known.items()}
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}", code="missing-file", path=str(file)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} is not a manifest: {error!r}", code="wrong-format", path=str(file)) from error
    found = []
    for name, (digest, repeatable) in expected.items():
        here = Path(out) / f"{name}.nc"
        if name not in STUDIES or not here.exists():
            found.append(f"{name}: there is no dataset")
        elif repeatable and _digest(here) != digest:
            found.append(f"{name}: other bytes")
    return found
