"""The report of `prudent reproduce`: figures, tables and one self-contained page, from the files of a run.

It imports no solver. What it shows is what the datasets hold, and how it is shown stands in their attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...types import PathLike

if TYPE_CHECKING:
    import xarray

__all__ = ["build"]


def build(out: PathLike, datasets: Mapping[str, xarray.Dataset] | None = None) -> Path:
    """Draw the figures and write the page for the results in a folder.

    Studies that were not run are left out, and the page says so. Writes ``figures/<name>.svg`` and ``.png``, and
    ``report.html``.

    Parameters
    ----------
    out : path-like
        Folder with claims.json, timings.json and the datasets.
    datasets : mapping of str to xarray.Dataset, optional
        The datasets to show; the default is to read all that the folder holds (``<name>.nc``).

    Returns
    -------
    Path
        Path of ``report.html``.

    Raises
    ------
    DataError
        If a file is missing, damaged or lacks what the report shows.
    """
    from ..._support.output import write
    from .figures import KINDS
    from .page import render
    from .results import make, read

    folder = Path(out)
    results = read(folder, datasets)
    figures = {
        section.name: [make(section, KINDS, figure, "name", "title") for figure in section.figures]
        for section in results.sections
    }
    page = render(results, figures)
    for group in figures.values():
        for figure in group:
            figure.save(folder / "figures")
    write(folder / "report.html", page.encode())
    return folder / "report.html"
