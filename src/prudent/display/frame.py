"""The frame of a figure: panels, a legend, and how they become SVG and PNG.

Files show the panels side by side, with the legend below. The page takes each panel as an SVG of its own, so that they
wrap on a narrow screen, and the colours in it become CSS variables, so that they suit light and dark. Bytes depend on
the data alone: no dates, a fixed salt for the ids in SVG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._support.output import write
from .style import COLOURS, PAPER, RC, Entry, css_variable, hex_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["BAND", "Figure", "Panel", "drawn", "inline_panels", "save"]

BAND = Entry("95% confidence", "neutral", mark="area")


class Panel(NamedTuple):
    """One pair of axes and what is drawn on it; ``title`` also tells a screen reader what it shows."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """Panels that belong together, with one legend; ``name`` is the stem of the files."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    legend: tuple[Entry, ...]
    columns: int = 2
    size: tuple[float, float] = (4.3, 3.1)  # of a panel, in inches


def drawn(figure: Figure) -> Canvas:
    """Return ``figure`` as a figure of matplotlib: all panels, titles and the legend."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    rows = -(-len(figure.panels) // figure.columns)
    with matplotlib.rc_context(RC):
        size = (figure.size[0] * figure.columns, figure.size[1] * rows + 0.45)
        canvas = Canvas(figsize=size, layout="constrained")
        canvas.get_layout_engine().set(h_pad=0.09, w_pad=0.09)  # type: ignore[union-attr,call-arg]
        grid = canvas.subplots(rows, figure.columns, squeeze=False).ravel()
        for panel, axes in zip(figure.panels, grid, strict=False):
            panel.draw(axes)
            axes.set_title(re.sub(r"\bp_h\b", "$p_h$", panel.title))
        for axes in grid[len(figure.panels) :]:
            axes.set_axis_off()
        if figure.legend:
            handles = [_handle(entry) for entry in figure.legend]
            longest = max(len(entry.label) for entry in figure.legend)
            columns = min(len(handles), max(1, int(size[0] / (0.6 + 0.08 * longest))))  # inches, at this font size
            canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
    return canvas


def save(figure: Figure, folder: Path) -> None:
    """Write ``figure`` as <name>.svg and <name>.png into ``folder``: all panels, titles and the legend."""
    import matplotlib

    canvas = drawn(figure)
    options: dict[str, Any] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 200, "metadata": {"Software": None}}}
    with matplotlib.rc_context(RC):
        for kind, told in options.items():
            file = io.BytesIO()
            canvas.savefig(file, format=kind, **told)
            canvas.set_layout_engine("none")  # what was laid out once may stay where it is
            write(folder / f"{figure.name}.{kind}", file.getvalue())


def _handle(entry: Entry) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = hex_of(entry.colour)
    if entry.mark == "area":
        return Patch(facecolor=colour, alpha=0.25, linewidth=0, label=entry.label)
    line = Line2D([], [], label=entry.label, color=colour)
    if entry.mark == "line":
        line.set_linestyle(entry.dash)  # type: ignore[arg-type]
    else:
        line.set_linestyle("none")
        line.set_marker({"diamond": "D", "square": "s", "arrow": r"$\rightarrow$"}.get(entry.mark, "o"))
        line.set_markersize(11 if entry.mark == "arrow" else 5)
        line.set_markerfacecolor("none" if entry.mark in ("ring", "diamond", "square") else colour)
    return line


def inline_panels(figure: Figure) -> list[str]:
    """Return each panel as an SVG element for the page: colours as CSS variables, ids of its own, no background."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    elements = []
    for i, panel in enumerate(figure.panels):
        with matplotlib.rc_context(RC):
            canvas = Canvas(figsize=figure.size, layout="constrained")
            panel.draw(canvas.subplots())
            text = io.StringIO()
            canvas.savefig(text, format="svg", metadata={"Date": None})
        elements.append(_for_page(text.getvalue(), f"{figure.name}-{i}-"))
    return elements


def _for_page(svg: str, prefix: str) -> str:
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
