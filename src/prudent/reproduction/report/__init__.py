"""The report of `prudent reproduce`: figures, tables and one self-contained page, from the files of a run.

It reads datasets and imports no solver: what it shows is what was written down, and how it is shown stands in the
attributes of the datasets.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

__all__ = ["build"]


def build(out: str | os.PathLike[str], names: Collection[str] | None = None) -> Path:
    """Draw the figures and write the page for the results in ``out``; return the path of report.html.

    Reads the datasets (<name>.nc) called ``names`` (default: all that are there), claims.json and timings.json.
    Studies that were not run are left out, and the page says so. Writes figures/<name>.svg and .png, and report.html.

    >>> build("no-such-folder")
    Traceback (most recent call last):
    prudent.errors.DataError: no-such-folder is no folder; it should hold what `prudent reproduce` wrote
    """
    from ..._support.output import write
    from .figures import KINDS
    from .page import render
    from .results import make, read

    folder = Path(out)
    results = read(folder, names)
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
