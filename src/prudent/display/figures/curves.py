"""Agents compared: means over replications with their confidence bands, and quantities as multiples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._support.intervals import mean_and_half_width
from ...types import FloatArray
from ..style import Entry, agent_styles, hex_of
from .base import BAND, CONFIDENCE, Figure, Panel, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = {"dot": ("o", 5.0), "diamond": ("D", 7.5), "square": ("s", 7.5), "ring": ("o", 10.0)}  # shape and size


class Curves(NamedTuple):
    """The curves of one panel.

    Attributes
    ----------
    title : str
        Title of the panel.
    agents : sequence of str
        Names of the agents.
    x : ndarray [T]
        Recorded times.
    runs : ndarray [agents, R, T]
        Values of each agent in each replication; NaN where an agent was not recorded.
    x_label, y_label : str
        Labels of the axes.
    log : bool
        Whether the y axis is logarithmic.
    """

    title: str
    agents: Sequence[str]
    x: FloatArray
    runs: FloatArray
    x_label: str
    y_label: str
    log: bool = False


def draw(
    name: str,
    title: str,
    panels: Sequence[Curves],
    agents: Sequence[str],
    *,
    columns: int = 2,
    size: tuple[float, float] = (4.3, 3.1),
    share_rows: bool = False,
) -> Figure:
    """Return the figure with one panel for each of ``panels``.

    Parameters
    ----------
    name, title : str
        Stem of the files and title of the figure.
    panels : sequence of Curves
        What the panels show.
    agents : sequence of str
        Order of the agents in the legend. Agents that no panel shows are left out.
    columns : int, default=2
        Number of panels in a row.
    size : tuple of float, default=(4.3, 3.1)
        Size of a panel in inches.
    share_rows : bool, default=False
        Whether panels in one row have the same y axis.

    Returns
    -------
    Figure
        The figure.
    """
    measured = {agent for panel in panels for agent in panel.agents}
    order = [agent for agent in agents if agent in measured]
    styles = dict(zip(order, agent_styles(order), strict=True))
    tops = _row_tops(panels, columns) if share_rows else [None] * len(panels)
    drawn = tuple(
        _panel(panel, [styles[agent] for agent in panel.agents], top) for panel, top in zip(panels, tops, strict=True)
    )
    return Figure(name, title, drawn, (*styles.values(), BAND), columns, size)


def _row_tops(panels: Sequence[Curves], columns: int) -> list[float | None]:
    """Return for each panel the top of its y axis: just above the bands of all panels in its row."""
    bands = [mean_and_half_width(panel.runs, CONFIDENCE, axis=1) for panel in panels]
    tops = [float(np.fmax(mean, mean + half).max()) for mean, half in bands]  # one replication has no band
    return [1.04 * max(tops[i // columns * columns :][:columns]) for i in range(len(tops))]


def _panel(curves: Curves, styles: Sequence[Entry], top: float | None) -> Panel:
    x = np.asarray(curves.x, dtype=np.float64)
    geometric = np.median(x) < 0.25 * x[-1]  # most recorded times are early: a logarithmic axis shows them

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        bottom = np.inf
        for runs, style in zip(curves.runs, styles, strict=True):
            values = runs[~np.isnan(runs).all(axis=1)]  # an agent may have fewer replications than another
            recorded = ~np.isnan(values).all(axis=0)  # an agent may be recorded at fewer times than another
            mean, half = mean_and_half_width(values[:, recorded], CONFIDENCE)
            colour = hex_of(style.colour)
            marker: Any = {"marker": "o", "markersize": 3.0} if mean.size <= 25 else {}
            # regret is never negative; on a log scale a band that reaches below zero ends at the mean
            lower = np.where(mean - half > 0, mean - half, np.where(mean > 0, mean, np.nan) if curves.log else 0.0)
            axes.fill_between(x[recorded], lower, mean + half, color=colour, alpha=0.16, linewidth=0)
            axes.plot(x[recorded], mean, color=colour, linestyle=style.dash, **marker)
            bottom = min(bottom, float(mean[mean.size // 25]))
        axes.set(xlabel=curves.x_label, ylabel=curves.y_label, xmargin=0.02)
        if geometric:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(thousands)
        if curves.log:
            axes.set_yscale("log")
            if 0 < bottom < np.inf:
                axes.set_ylim(bottom=0.7 * bottom)  # without the steep first steps, which would take most of the room
        else:
            axes.set_ylim(0.0, top)
        axes.yaxis.set_major_formatter(thousands)

    return Panel(curves.title, onto)


def draw_multiples(
    name: str, title: str, agents: Sequence[str], ratios: Mapping[str, FloatArray], label: str
) -> Figure:
    """Return the figure of up to four quantities of each agent: ``ratios`` [agents] by the name of the quantity."""
    styles = agent_styles(agents)
    if len(ratios) > len(_MARKS):
        raise ValueError(f"{len(ratios)} quantities, but only {len(_MARKS)} marks")

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import NullFormatter

        for y, style in enumerate(styles):
            values = [float(ratio[y]) for ratio in ratios.values()]
            axes.plot([min(values), max(values)], [y, y], color=hex_of("grid"), linewidth=2.0, zorder=1)
            colour = hex_of(style.colour)
            for mark, value in zip(_MARKS, values, strict=False):
                shape, size = _MARKS[mark]
                face = colour if mark == "dot" else "none"
                axes.plot([value], [y], marker=shape, markersize=size, markerfacecolor=face, color=colour)
        axes.set_yticks(range(len(styles)), [style.label for style in styles])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set(xlabel=label, xmargin=0.08, ylim=(len(styles) - 0.5, -0.5))

    legend = tuple(Entry(quantity, "ink", mark=mark) for quantity, mark in zip(ratios, _MARKS, strict=False))
    return Figure(name, title, (Panel(title, onto),), legend, columns=1, size=(5.8, 2.9))


class Excess(NamedTuple):
    """How much more than the best each agent has, in several places: one panel.

    Attributes
    ----------
    title : str
        Title of the panel.
    places : sequence of str
        Names of the places.
    mean, half : ndarray [places, agents]
        Excess over the agent with the least mean, 0 for that one, and the half widths of the intervals.
    """

    title: str
    places: Sequence[str]
    mean: FloatArray
    half: FloatArray


def draw_excess(
    name: str, title: str, agents: Sequence[str], panels: Sequence[Excess], labels: tuple[str, str]
) -> Figure:
    """Return the figure of the excess of agents over the best, with intervals; ``labels`` are those of the axes."""
    styles = agent_styles(agents)

    def panel_of(excess: Excess) -> Panel:
        def onto(axes: Axes) -> None:
            at = np.arange(len(excess.places))
            for j, style in enumerate(styles):
                shift = 0.16 * (j - 0.5 * (len(styles) - 1))
                half = np.where(np.isfinite(excess.half[:, j]), excess.half[:, j], 0.0)
                options: Any = {"fmt": "o", "markersize": 4.5, "color": hex_of(style.colour), "capsize": 2.5}
                axes.errorbar(at + shift, excess.mean[:, j], yerr=half, **options)
            axes.set_xticks(at, list(excess.places))
            axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(-0.5, at.size - 0.5))
            axes.yaxis.set_major_formatter(thousands)

        return Panel(excess.title, onto)

    legend = tuple(style._replace(mark="dot") for style in styles)
    return Figure(name, title, tuple(map(panel_of, panels)), legend)
