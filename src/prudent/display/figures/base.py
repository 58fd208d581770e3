"""Figures: panels with one legend, and how they become matplotlib figures, SVG and PNG.

Files show the panels side by side, with the legend below. A page takes each panel as an SVG element of its own, so that
panels wrap on a narrow screen; their colours are CSS variables, so that they suit light and dark pages. The bytes
depend on the data alone: no dates, and a fixed salt for the ids in SVG.

A module of this room draws one kind of figure. Its function ``draw`` takes arrays, labels and data frames and returns a
``Figure``; ``draw(...).to_matplotlib()`` is what the ``plot`` methods of results return.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._support.output import write
from ...types import FloatArray
from ..style import COLOURS, PAPER, RC, Entry, css_variable, hex_of
from ..words import shorten, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CONFIDENCE = 0.95  # of every interval and band in a figure or table
BAND = Entry("95% confidence", "neutral", mark="area")
PALETTE = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "brps-0.5", "other")
"""Colours of categories such as actions or arms, in the order in which they are used."""


class Panel(NamedTuple):
    """One pair of axes.

    Attributes
    ----------
    title : str
        Heading; also the description for screen readers.
    draw : callable
        Function that draws on the matplotlib axes that it is given.
    """

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """Panels that belong together, with one legend.

    Attributes
    ----------
    name : str
        Stem of the files.
    title : str
        Title on a page.
    panels : tuple of Panel
        The panels, row by row.
    legend : tuple of Entry
        Lines of the legend.
    columns : int
        Number of panels in a row.
    size : tuple of float
        Width and height of a panel in inches.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    legend: tuple[Entry, ...]
    columns: int = 2
    size: tuple[float, float] = (4.3, 3.1)

    def to_matplotlib(self) -> Canvas:
        """Return the matplotlib figure: all panels with their titles, and the legend."""
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        rows = -(-len(self.panels) // self.columns)
        with matplotlib.rc_context(RC):
            size = (self.size[0] * self.columns, self.size[1] * rows + 0.45)
            canvas = Canvas(figsize=size, layout="constrained")
            canvas.get_layout_engine().set(h_pad=0.09, w_pad=0.09)  # type: ignore[union-attr,call-arg]
            grid = canvas.subplots(rows, self.columns, squeeze=False).ravel()
            for panel, axes in zip(self.panels, grid, strict=False):
                panel.draw(axes)
                axes.set_title(re.sub(r"\bp_h\b", "$p_h$", panel.title))
            for axes in grid[len(self.panels) :]:
                axes.set_axis_off()
            if self.legend:
                handles = [_legend_handle(entry) for entry in self.legend]
                longest = max(len(entry.label) for entry in self.legend)
                columns = min(len(handles), max(1, int(size[0] / (0.6 + 0.08 * longest))))  # inches, at this font size
                canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        return canvas

    def save(self, folder: Path) -> None:
        """Write the figure as <name>.svg and <name>.png into ``folder``."""
        import matplotlib

        canvas = self.to_matplotlib()
        formats: dict[str, dict[str, Any]] = {
            "svg": {"metadata": {"Date": None}},
            "png": {"dpi": 200, "metadata": {"Software": None}},
        }
        with matplotlib.rc_context(RC):
            for kind, options in formats.items():
                file = io.BytesIO()
                canvas.savefig(file, format=kind, **options)
                canvas.set_layout_engine("none")  # the second format keeps the layout of the first
                write(folder / f"{self.name}.{kind}", file.getvalue())

    def svg_panels(self) -> list[str]:
        """Return each panel as an SVG element for a page: CSS variables as colours, unique ids, no background."""
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        elements = []
        for i, panel in enumerate(self.panels):
            with matplotlib.rc_context(RC):
                canvas = Canvas(figsize=self.size, layout="constrained")
                panel.draw(canvas.subplots())
                text = io.StringIO()
                canvas.savefig(text, format="svg", metadata={"Date": None})
            elements.append(_page_svg(text.getvalue(), f"{self.name}-{i}-"))
        return elements


def _legend_handle(entry: Entry) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = hex_of(entry.colour)
    if entry.mark == "area":
        return Patch(facecolor=colour, alpha=0.25, linewidth=0, label=entry.label)
    look: dict[str, Any] = {"linestyle": entry.dash}
    if entry.mark != "line":
        shape = {"diamond": "D", "square": "s", "arrow": r"$\rightarrow$"}.get(entry.mark, "o")
        face = "none" if entry.mark in ("ring", "diamond", "square") else colour
        size = 11 if entry.mark == "arrow" else 5
        look = {"linestyle": "none", "marker": shape, "markersize": size, "markerfacecolor": face}
    return Line2D([], [], label=entry.label, color=colour, **look)


def _page_svg(svg: str, prefix: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", svg)
    svg = svg.replace(PAPER, "none")
    for name, (light, _) in COLOURS.items():
        svg = svg.replace(light, f"var({css_variable(name)})")
    head, body = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)  # the page sets the width; viewBox keeps the shape
    return f"{head}>{body}"


# -- parts of panels ---------------------------------------------------------------------------------------


def label(name: object, longest: int = 28) -> str:
    """Return a name for a figure: shortened, with ``$`` escaped, which matplotlib would read as mathematics.

    Examples
    --------
    >>> label("costs $5")
    'costs \\\\$5'
    """
    return visible(shorten(name, longest)).replace("$", r"\$")


def labels(names: Iterable[object], longest: int = 28) -> list[str]:
    """Return names for a figure, shortened as ``label`` does, but never so that two different ones look the same.

    Examples
    --------
    >>> labels(["ward 14, bed 1, north", "ward 14, bed 2, north"], 12)
    ['ward 14…1, north', 'ward 14…2, north']
    """
    texts = [str(name) for name in names]
    while len({shorten(text, longest) for text in texts}) < len(set(texts)):
        longest += 4
    return [label(text, longest) for text in texts]


def row_axis(axes: Axes, names: Sequence[str], above: float = 0.5, below: float = 0.5) -> None:
    """Give each row of a panel its name on the y axis, the first row at the top, with margins in units of rows."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 1 + below, -above)
    axes.grid(axis="y", visible=False)


def thousands(value: float, _: object = None) -> str:
    """Return the label of a tick, with commas between thousands.

    Examples
    --------
    >>> thousands(12000.0)
    '12,000'
    """
    return f"{value:,.10g}"


def count_axis(axes: Axes, text: str) -> None:
    """Label an x axis of counts: few ticks, at integers, with commas between thousands."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=text, xmargin=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(thousands)


def intervals(axes: Axes, middle: FloatArray, low: FloatArray, high: FloatArray, colour: str = "law") -> None:
    """Draw a point with its interval in each row of a panel."""
    rows = np.arange(len(middle))
    axes.hlines(rows, low, high, color=hex_of(colour), linewidth=2)
    axes.plot(middle, rows, "o", color=hex_of(colour), markersize=5, linestyle="none")


def kernel_density(draws: FloatArray, points: int = 201) -> tuple[FloatArray, FloatArray]:
    """Return places [points] and heights [points] of a kernel density of ``draws`` [N] (Silverman's rule).

    The largest height is 1. A sample without spread gives empty arrays.

    Examples
    --------
    >>> x, height = kernel_density(np.array([0.0, 1.0, 2.0]), points=5)
    >>> x.tolist(), float(height.max())
    ([0.0, 0.5, 1.0, 1.5, 2.0], 1.0)
    """
    low, high = float(draws.min()), float(draws.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return np.empty(0), np.empty(0)
    quartiles = np.quantile(draws, (0.25, 0.75))
    spread = min(float(draws.std()), float(quartiles[1] - quartiles[0]) / 1.349) or float(draws.std())
    width = max(0.9 * spread * draws.size**-0.2, 1e-3 * (high - low))
    x = np.linspace(low, high, points)
    height = np.zeros(points)
    for part in np.array_split(draws, -(-draws.size // 10_000)):
        height += np.exp(-0.5 * ((x[:, np.newaxis] - part) / width) ** 2).sum(axis=1)
    return x, height / height.max()
