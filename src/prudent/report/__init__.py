"""The report of `prudent reproduce`: figures, tables and one self-contained page, from the files of a run.

It reads datasets and imports no solver: what it shows is what was written down.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["build"]


def build(out: str | os.PathLike[str]) -> Path:
    """Draw the figures and write the page for the results in ``out``; return the path of report.html.

    Reads the datasets (<experiment>.nc), claims.json and timings.json that are there; experiments that were not run
    are left out, and the page says so. Writes figures/<name>.svg and .png, and report.html.

    >>> build("no-such-folder")
    Traceback (most recent call last):
    prudent.errors.DataError: no-such-folder is no folder; it should hold what `prudent reproduce` wrote
    """
    from .figures import computing_time, draw, save
    from .page import ratios, render, times
    from .results import read

    folder = Path(out)
    results = read(folder)
    figures = {name: draw(name, data) for name, data in results.datasets.items()}
    measured = times(results.timings)
    if measured:
        figures["computing-time"] = [computing_time([row.agent for row in measured], ratios(measured))]
    for group in figures.values():
        for figure in group:
            save(figure, folder / "figures")
    target = folder / "report.html"
    draft = folder / "report.html.part"
    draft.write_text(render(results, figures), encoding="utf-8")
    os.replace(draft, target)  # so that nobody ever opens half a page
    return target
