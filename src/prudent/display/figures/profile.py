"""Risk levels compared: mean against tail of the return, and the actions that change with the level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import BoolArray, FloatArray
from ..style import Entry, hex_of
from .base import Figure, Panel, labels, row_axis

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MAX_STATES = 16  # shown in the panel of actions


def draw(
    table: pandas.DataFrame,
    *,
    tail_alpha: float,
    states: Sequence[object],
    actions: Sequence[Sequence[object]],
    differs: BoolArray,
    changed: int,
    today: pandas.Series | None = None,
) -> Figure:
    """Return the figure of a risk profile.

    Parameters
    ----------
    table : DataFrame
        A row for each of L risk levels (the index), with columns mean, mean_se, cvar, cvar_se and recommended.
    tail_alpha : float
        Level of the CVaR.
    states : sequence
        Names of the M states to show, most visited first.
    actions : sequence of sequences
        Names [L, M] of the actions there.
    differs : ndarray [L, M]
        Whether an action is not the one of level 0.
    changed : int
        Number of states whose action changes with the level, shown or not.
    today : Series, optional
        The same columns for what is done today.

    Returns
    -------
    Figure
        Two panels.
    """
    title = "Actions by level"
    if changed > len(states):
        title += f", {len(states)} of {changed} states that change"
    legend: tuple[Entry, ...] = (
        Entry("risk level, ± 2 standard errors", "law", mark="dot"),
        Entry("recommended", "brps-0.99", mark="ring"),
        Entry("another action than at α = 0", "brps-0.9", mark="area"),
    )
    if today is not None:
        legend = (*legend, Entry("what is done today", "ink", mark="diamond"))
    panels = (
        Panel("What caution costs and buys", lambda axes: _draw_frontier(axes, table, tail_alpha, today)),
        Panel(title, lambda axes: _draw_actions(axes, table.index.tolist(), states, actions, differs)),
    )
    return Figure("risk-profile", "Risk profile", panels, legend, 2, (5.0, max(3.3, 0.9 + 0.24 * len(states))))


def _draw_frontier(axes: Axes, table: pandas.DataFrame, tail_alpha: float, today: pandas.Series | None) -> None:
    x, y = table["cvar"].to_numpy(), table["mean"].to_numpy()
    axes.plot(x, y, color=hex_of("law"), linewidth=0.8, alpha=0.5)
    look: Any = {"color": hex_of("law"), "linestyle": "none", "marker": "o", "markersize": 4.5, "elinewidth": 0.8}
    axes.errorbar(x, y, xerr=2.0 * table["cvar_se"].to_numpy(), yerr=2.0 * table["mean_se"].to_numpy(), **look)
    best = table["recommended"].to_numpy()
    ring: Any = {"markerfacecolor": "none", "markersize": 10.5, "markeredgewidth": 1.6, "zorder": 4}
    axes.plot(x[best], y[best], marker="o", color=hex_of("brps-0.99"), linestyle="none", **ring)
    for alphas, point in _point_labels(table.index.tolist(), x, y):
        some = f"{alphas[0]:g} to {alphas[-1]:g}" if len(alphas) > 3 else ", ".join(f"{alpha:g}" for alpha in alphas)
        axes.annotate(f"α = {some}", point, (7, 5), textcoords="offset points", fontsize=8)
    if today is not None:
        mark: Any = {"marker": "D", "color": hex_of("ink"), "markerfacecolor": "none", "markersize": 6.5}
        axes.plot([float(today["cvar"])], [float(today["mean"])], linestyle="none", zorder=4, **mark)
        axes.annotate("today", (today["cvar"], today["mean"]), (7, -11), textcoords="offset points", fontsize=8)
    axes.margins(x=0.22, y=0.15)
    axes.set(xlabel=f"CVaR of the true return, α = {tail_alpha:g}", ylabel="mean true return")


def _point_labels(
    alphas: Sequence[float], x: FloatArray, y: FloatArray
) -> list[tuple[list[float], tuple[float, float]]]:
    """Return the levels at each point; points too close for two labels share one."""
    widths = [max(float(np.ptp(values)), 1e-300) for values in (x, y)]
    groups: list[tuple[list[float], tuple[float, float]]] = []
    for alpha, a, b in zip(alphas, x, y, strict=True):
        for members, (c, d) in groups:
            if abs(a - c) <= 0.25 * widths[0] and abs(b - d) <= 0.08 * widths[1]:
                members.append(alpha)
                break
        else:
            groups.append(([alpha], (float(a), float(b))))
    return groups


def _draw_actions(
    axes: Axes,
    alphas: Sequence[float],
    states: Sequence[object],
    actions: Sequence[Sequence[object]],
    differs: BoolArray,
) -> None:
    from matplotlib.patches import Rectangle

    axes.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    axes.set(xlabel="risk level α", xlim=(-0.5, len(alphas) - 0.5))
    axes.grid(visible=False)
    if not states:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "every level takes the same actions", ha="center", va="center", transform=axes.transAxes)
        return
    row_axis(axes, labels(states, 20))
    fill = hex_of("brps-0.9")
    taken = list(dict.fromkeys(str(name) for names in actions for name in names))
    short = dict(zip(taken, labels(taken, 12), strict=True))
    for column, names in enumerate(actions):
        for row, name in enumerate(names):
            if differs[column, row]:
                corner = (column - 0.48, row - 0.46)
                axes.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=fill, alpha=0.3, linewidth=0))
            axes.text(column, row, short[str(name)], ha="center", va="center", fontsize=7.5)
    axes.set_ylabel("state, most visited first")
    axes.tick_params(length=0)
