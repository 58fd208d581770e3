"""Value of more observations of each source, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..style import Entry, hex_of
from ..words import plural
from .base import Figure, Panel, labels, row_axis

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MAX_SOURCES = 15


def draw(table: pandas.DataFrame, observations: int, alpha: float) -> Figure:
    """Return the figure of the most valuable sources.

    Parameters
    ----------
    table : DataFrame
        A row for each source, most valuable first, with columns source, gain, gain_error, value_change,
        value_change_error and method.
    observations : int
        Number of further observations of a source.
    alpha : float
        Risk level of the problem.

    Returns
    -------
    Figure
        Two panels: the gain of the mean return and the rise of the value, with 95% intervals.
    """
    visible = [abs(table[name]) > 1e-4 * abs(table[name]).max() for name in ("gain", "value_change")]
    shown = table[visible[0] | visible[1]].head(MAX_SOURCES)
    rows = np.arange(len(shown))
    names = labels(map(_source_name, shown["source"]), 40)

    def bars(column: str, colour: str, text: str, ticks: list[str], title: str) -> Panel:
        value, error = shown[column].to_numpy(), 1.96 * shown[f"{column}_error"].to_numpy()
        noisy = error > 0.0

        def onto(axes: Axes) -> None:
            if not rows.size:
                axes.text(0.5, 0.5, "no source can change the decision", ha="center", transform=axes.transAxes)
            axes.barh(rows, value, color=hex_of(colour), height=0.65)
            ink = hex_of("ink")
            axes.errorbar(value[noisy], rows[noisy], xerr=error[noisy], fmt="none", ecolor=ink, elinewidth=1.0)
            row_axis(axes, ticks, above=0.6, below=max(rows.size, 3) - rows.size + 0.6)
            axes.set_xlabel(text)
            axes.axvline(0.0, color=ink, lw=0.7)

        return Panel(title, onto)

    some = f"{len(shown)} of {len(table)} sources" if len(shown) < len(table) else "of each source"
    title = f"{plural(observations, 'more observation')}, {some}"
    removed = "Caution removed" if alpha else ""
    panels = (
        bars("gain", "law", "expected gain of the mean return", names, title),
        bars("value_change", "brps-0.9", "expected rise of the value itself", [""] * rows.size, removed),
    )
    legend = (Entry("95% interval, where data was sampled", "ink"),) if (shown["method"] == "sampled").any() else ()
    return Figure("value-of-data", "", panels, legend, 2, (4.6, max(2.0, 0.26 * rows.size + 0.9)))


def _source_name(source: object) -> str:
    """Return the name of a source on an axis: ``ill, drug`` for a pair, ``source 3`` for a number."""
    if isinstance(source, int | np.integer):
        return f"source {source}"
    if not isinstance(source, tuple):
        return str(source)
    if len(source) == 2 and all(isinstance(part, int) for part in source):
        return f"state {source[0]}, action {source[1]}"
    return ", ".join(map(str, source))
