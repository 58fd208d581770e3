"""Quantities of agents as multiples of the first agent's, one row for each agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....display.frame import Figure, Panel
from ....display.style import Entry, agent_styles, hex_of
from ..results import relative

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = ["multiples"]

_MARKS = {"dot": ("o", 5.0), "diamond": ("D", 7.5), "square": ("s", 7.5), "ring": ("o", 10.0)}  # shape and size


def multiples(
    data: xarray.Dataset, name: str, title: str, *, series: Sequence[Mapping[str, Any]], label: str
) -> Figure:
    """Return the figure of some quantities of each agent, as multiples of the first agent's.

    A quantity is a variable at coordinates ``where``, with its ``label``; of replications the mean is taken.
    """
    styles = agent_styles(map(str, data.agent.values))
    ratios = relative(data, series)
    if len(ratios) > len(_MARKS):
        raise ValueError(f"{len(ratios)} quantities, and there are marks for {len(_MARKS)}")
    marks = dict(zip(ratios, _MARKS, strict=False))

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        for y, style in enumerate(styles):
            numbers = [numbers[y] for numbers in ratios.values()]
            axes.plot([min(numbers), max(numbers)], [y, y], color=hex_of("grid"), linewidth=2.0, zorder=1)
            for what, number in zip(ratios, numbers, strict=True):
                colour = hex_of(style.colour)
                face = colour if marks[what] == "dot" else "none"
                shape, size = _MARKS[marks[what]]
                axes.plot([number], [y], marker=shape, markersize=size, markerfacecolor=face, color=colour)
        axes.set_yticks(range(len(styles)), [style.label for style in styles])
        axes.set_ylim(len(styles) - 0.5, -0.5)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.08)
        axes.set_xlabel(label)

    legend = tuple(Entry(what, "ink", mark=mark) for what, mark in marks.items())
    return Figure(name, title, (Panel(title, onto),), legend, columns=1, size=(5.8, 2.9))
