"""Curves: means over replications with their bands, one line for each agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....display.frame import BAND, Figure, Panel
from ....display.style import Entry, agent_styles, hex_of
from ...._support.intervals import mean_and_half_width
from ..results import LEVEL, chosen, label_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = ["curves"]


def curves(
    data: xarray.Dataset,
    name: str,
    title: str,
    *,
    panels: Sequence[Mapping[str, Any]],
    columns: int = 2,
    size: Sequence[float] = (4.3, 3.1),
    share_rows: bool = False,
) -> Figure:
    """Return the figure with a panel for each of ``panels``: variable, title, where, agents and log.

    A variable has, at the coordinates ``where``, the dimensions agent, replication and one more, which is drawn
    along the x axis. Agents that were not measured are left out. With ``share_rows`` panels in one row of ``columns``
    have the same y axis.
    """
    parts = [_part(data, **panel) for panel in panels]
    measured = {str(agent) for part in parts for agent in part.agent.values}
    agents = [agent for agent in map(str, data.agent.values) if agent in measured]
    styles = dict(zip(agents, agent_styles(agents), strict=True))
    limits = _row_tops(parts, columns) if share_rows else [None] * len(parts)
    drawn = tuple(
        _panel(part, panel["title"], [styles[str(agent)] for agent in part.agent.values], bool(panel.get("log")), top)
        for part, panel, top in zip(parts, panels, limits, strict=True)
    )
    return Figure(name, title, drawn, (*styles.values(), BAND), columns, (size[0], size[1]))


def _row_tops(parts: Sequence[xarray.DataArray], columns: int) -> list[float | None]:
    """Return for each panel the top of its y axis: just above the bands of all panels in its row."""
    bands = [mean_and_half_width(part.transpose("replication", ...).values, LEVEL) for part in parts]
    tops = [float(np.fmax(mean, mean + half).max()) for mean, half in bands]  # one replication has no band
    return [1.04 * max(tops[i // columns * columns :][:columns]) for i in range(len(tops))]


def _part(data: xarray.Dataset, variable: str, where: Any = None, agents: Any = None, **_: Any) -> xarray.DataArray:
    part = chosen(data, variable, where)
    part = part if agents is None else part.sel(agent=agents)
    if part.dims[:2] != ("agent", "replication") or part.ndim != 3:
        raise ValueError(f"{variable} has dimensions {part.dims}, expected agent, replication and one more")
    return part.dropna("agent", how="all")


def _panel(data: xarray.DataArray, title: str, styles: Sequence[Entry], log: bool, top: float | None = None) -> Panel:
    along = data[data.dims[-1]]
    x = np.asarray(along.values, dtype=np.float64)
    geometric = np.median(x) < 0.25 * x[-1]  # recorded more often in the beginning: show the beginning

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        bottom = np.inf
        for runs, style in zip(np.asarray(data.values), styles, strict=True):
            values = runs[~np.isnan(runs).all(axis=1)]  # an agent may have fewer replications than another
            seen = ~np.isnan(values).all(axis=0)  # an agent may be recorded at fewer times than another
            mean, half = mean_and_half_width(values[:, seen], LEVEL)
            colour = hex_of(style.colour)
            few: Any = {"marker": "o", "markersize": 3.0} if mean.size <= 25 else {}
            # regret is never negative; on a log scale a band that reaches below zero ends at the mean
            lower = np.where(mean - half > 0, mean - half, np.where(mean > 0, mean, np.nan) if log else 0.0)
            axes.fill_between(x[seen], lower, mean + half, color=colour, alpha=0.16, linewidth=0)
            axes.plot(x[seen], mean, color=colour, linestyle=style.dash, **few)
            bottom = min(bottom, float(mean[mean.size // 25]))
        axes.set_xlabel(label_of(along))
        axes.set_ylabel(label_of(data))
        axes.margins(x=0.02)
        thousands = FuncFormatter(lambda value, _: f"{value:,.10g}")
        if geometric:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(thousands)
        if log:
            axes.set_yscale("log")
            if 0 < bottom < np.inf:
                axes.set_ylim(bottom=0.7 * bottom)  # not the steep first steps, which would take most of the room
        else:
            axes.set_ylim(0.0, top)
        axes.yaxis.set_major_formatter(thousands)

    return Panel(title, onto)
