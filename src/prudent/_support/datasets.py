"""Reader of NetCDF files, and a writer of those that are too large for memory."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, StoreError

if TYPE_CHECKING:
    import xarray

LARGEST_VARIABLE = 2**31 - 2**20
"""Bytes of a variable that NetCDF-3 can hold."""


def read_dataset(file: Path) -> xarray.Dataset:
    """Return the dataset in a NetCDF-3 file, loaded into memory."""
    import xarray

    try:
        return xarray.load_dataset(file, engine="scipy")
    except Exception as error:  # a damaged file makes the reader raise errors of many kinds
        raise DataError(f"cannot read {file} as NetCDF: {error}", code="damaged-file", path=str(file)) from error


def has_large_files() -> bool:
    """Return whether NetCDF-4 files can be written here, by the package h5netcdf."""
    return importlib.util.find_spec("h5netcdf") is not None


def write_large(
    file: Path,
    coords: Mapping[str, Any],
    variables: Mapping[str, tuple[str, ...]],
    counts: Mapping[str, tuple[str, ...]],
    attributes: Mapping[str, Mapping[str, Any]],
    fill: Callable[[Callable[[str, Any, Any], None]], None],
) -> xarray.Dataset:
    """Write a NetCDF-4 file part by part; return its dataset, of which parts are read when they are used.

    Parameters
    ----------
    file : Path
        Where to write. The file has its name only when it is complete.
    coords : mapping of str to array_like
        Coordinates, one for each dimension.
    variables : mapping of str to tuple of str
        Dimensions of the variables: float64, NaN where nothing is put.
    counts : mapping of str to tuple of str
        Dimensions of further variables: int32, 0 where nothing is put.
    attributes : mapping of str to mapping
        Attributes of variables and coordinates, and under ``""`` those of the dataset.
    fill : callable
        Function of ``put(name, place, array)``, which writes a part of a variable.

    Returns
    -------
    xarray.Dataset
        The dataset.
    """
    import xarray

    h5netcdf = importlib.import_module("h5netcdf")
    draft = file.with_name(f".{file.name}.draft")
    try:
        with h5netcdf.File(draft, "w") as out:
            out.dimensions = {name: len(values) for name, values in coords.items()}
            for name, values in coords.items():
                array = np.asarray(values)
                text = array.dtype.kind in "OU"
                kind = importlib.import_module("h5py").string_dtype() if text else array.dtype
                out.create_variable(name, (name,), dtype=kind)[...] = array.astype(object) if text else array
            for name, dims in variables.items():
                out.create_variable(name, dims, dtype=np.float64, fillvalue=np.nan)
            for name, dims in counts.items():
                out.create_variable(name, dims, dtype=np.int32)[...] = 0
            for name, entries in attributes.items():
                place = out.variables[name].attrs if name else out.attrs
                for key, value in entries.items():
                    place[key] = value

            def put(name: str, place: Any, array: Any) -> None:
                out.variables[name][place] = array

            fill(put)
        os.replace(draft, file)
    except OSError as error:
        message = f"cannot write {file}: {error}; finished work is stored: run again to continue"
        raise StoreError(message, code="not-writable", path=str(file)) from error
    finally:
        draft.unlink(missing_ok=True)
    return xarray.open_dataset(file, engine="h5netcdf")
