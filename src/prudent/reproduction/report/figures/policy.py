"""A policy on a square grid: arrows, values, and where the printed policy differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....display.frame import Figure, Panel
from ....display.style import Entry, hex_of
from ..results import action_names

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = ["policy"]

_ARROWS = {"left": (-1, 0), "down": (0, 1), "right": (1, 0), "up": (0, -1)}


def policy(data: xarray.Dataset, name: str, title: str) -> Figure:
    """Return the figure of the variables policy, paper_policy, q, value and hole over the cells, row by row."""
    ours, printed = action_names(data, "policy"), action_names(data, "paper_policy")
    actions = [str(action) for action in data.action.values]
    q, value, hole = data.q.values, data.value.values, data.hole.values
    width = round(np.sqrt(len(ours)))

    def arrow(axes: Axes, x: float, y: float, action: str, colour: str) -> None:
        dx, dy = (0.17 * step for step in _ARROWS[action])
        look: Any = {"arrowstyle": "-|>", "mutation_scale": 13, "color": hex_of(colour), "linewidth": 1.6}
        axes.annotate("", (x + dx, y + dy), (x - dx, y - dy), arrowprops={**look, "shrinkA": 0, "shrinkB": 0})

    def onto(axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        for s, action in enumerate(ours):
            row, column = divmod(s, width)
            goal = not printed[s]
            fill = "brps-0.8" if goal else "law" if hole[s] else None
            box = Rectangle((column, row), 1, 1, facecolor=hex_of(fill) if fill else "none", alpha=0.22, linewidth=0)
            axes.add_patch(box)
            axes.text(column + 0.06, row + 0.07, f"[{row},{column}]", va="top", fontsize=7, color=hex_of("neutral"))
            kind = "goal" if goal else "hole" if hole[s] else ""
            axes.text(column + 0.94, row + 0.07, kind, va="top", ha="right", fontsize=7, color=hex_of("neutral"))
            middle, bottom = row + 0.5, row + 0.86
            if goal:
                axes.text(column + 0.5, middle, "★", ha="center", va="center", fontsize=16)
                axes.text(column + 0.5, bottom, f"{value[s]:.4f}", ha="center", va="center", fontsize=8)
            elif printed[s] == action:
                arrow(axes, column + 0.5, middle, action, "ink")
                axes.text(column + 0.5, bottom, f"{value[s]:.4f}", ha="center", va="center", fontsize=8)
            else:
                for x, taken, colour in ((0.27, action, "ink"), (0.74, printed[s], "brps-0.99")):
                    arrow(axes, column + x, middle, taken, colour)
                    worth = f"{q[s, actions.index(taken)]:.4f}"
                    axes.text(column + x, bottom, worth, ha="center", va="center", fontsize=7.5, color=hex_of(colour))
        for edge in range(width + 1):
            axes.plot([edge, edge], [0, width], color=hex_of("neutral"), linewidth=0.8)
            axes.plot([0, width], [edge, edge], color=hex_of("neutral"), linewidth=0.8)
        axes.set_xlim(-0.02, width + 0.02)
        axes.set_ylim(width + 0.02, -0.02)
        axes.set_aspect("equal")
        axes.axis("off")

    legend = (
        Entry("optimal action, its value below", "ink", mark="arrow"),
        Entry("printed action where it differs, its value below", "brps-0.99", mark="arrow"),
    )
    return Figure(name, title, (Panel(title, onto),), legend, columns=1, size=(5.2, 5.2))
