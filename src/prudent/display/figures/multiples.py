"""Quantities of agents as multiples of the first agent's, one row for each agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...types import FloatArray
from ..style import Entry, agent_styles, hex_of
from .base import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_MARKS = {"dot": ("o", 5.0), "diamond": ("D", 7.5), "square": ("s", 7.5), "ring": ("o", 10.0)}  # shape and size


def draw(name: str, title: str, agents: Sequence[str], ratios: Mapping[str, FloatArray], label: str) -> Figure:
    """Return the figure of up to four quantities of each agent: ``ratios`` [agents] by the name of the quantity."""
    styles = agent_styles(agents)
    if len(ratios) > len(_MARKS):
        raise ValueError(f"{len(ratios)} quantities, but only {len(_MARKS)} marks")
    marks = dict(zip(ratios, _MARKS, strict=False))

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        for y, style in enumerate(styles):
            values = [float(ratio[y]) for ratio in ratios.values()]
            axes.plot([min(values), max(values)], [y, y], color=hex_of("grid"), linewidth=2.0, zorder=1)
            for quantity, value in zip(ratios, values, strict=True):
                colour = hex_of(style.colour)
                face = colour if marks[quantity] == "dot" else "none"
                shape, size = _MARKS[marks[quantity]]
                axes.plot([value], [y], marker=shape, markersize=size, markerfacecolor=face, color=colour)
        axes.set_yticks(range(len(styles)), [style.label for style in styles])
        axes.set_ylim(len(styles) - 0.5, -0.5)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.08)
        axes.set_xlabel(label)

    legend = tuple(Entry(quantity, "ink", mark=mark) for quantity, mark in marks.items())
    return Figure(name, title, (Panel(title, onto),), legend, columns=1, size=(5.8, 2.9))
