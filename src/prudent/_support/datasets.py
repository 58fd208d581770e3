"""Reader of NetCDF files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError

if TYPE_CHECKING:
    import xarray


def read_dataset(file: Path) -> xarray.Dataset:
    """Return the dataset in a NetCDF-3 file, loaded into memory."""
    import xarray

    try:
        return xarray.load_dataset(file, engine="scipy")
    except Exception as error:  # a damaged file makes the reader raise errors of many kinds
        raise DataError(f"cannot read {file} as NetCDF: {error}", code="damaged-file", path=str(file)) from error
