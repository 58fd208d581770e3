"""A policy on a square grid: arrows, values, and the cells where a printed policy differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import BoolArray, FloatArray
from ..style import Entry, hex_of
from .base import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ARROWS = {"left": (-1, 0), "down": (0, 1), "right": (1, 0), "up": (0, -1)}


def draw(
    name: str,
    title: str,
    optimal: Sequence[str],
    printed: Sequence[str],
    actions: Sequence[str],
    q: FloatArray,
    value: FloatArray,
    hole: BoolArray,
) -> Figure:
    """Return the figure of a policy over the cells of a square grid, row by row.

    Parameters
    ----------
    name, title : str
        Stem of the files and title of the figure.
    optimal, printed : sequence of str
        Action of each cell: left, down, right or up. An empty printed action marks the goal.
    actions : sequence of str
        Names of the columns of ``q``.
    q : ndarray [S, A]
        Value of each action in each cell.
    value : ndarray [S]
        Value of each cell.
    hole : ndarray of bool [S]
        Whether a cell is a hole.

    Returns
    -------
    Figure
        The figure.
    """
    width = round(np.sqrt(len(optimal)))

    def arrow(axes: Axes, x: float, y: float, action: str, colour: str) -> None:
        dx, dy = (0.17 * step for step in _ARROWS[action])
        look: Any = {"arrowstyle": "-|>", "mutation_scale": 13, "color": hex_of(colour), "linewidth": 1.6}
        axes.annotate("", (x + dx, y + dy), (x - dx, y - dy), arrowprops={**look, "shrinkA": 0, "shrinkB": 0})

    def onto(axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        for s, action in enumerate(optimal):
            row, column = divmod(s, width)
            goal = not printed[s]
            fill = "brps-0.8" if goal else "law" if hole[s] else None
            box = Rectangle((column, row), 1, 1, facecolor=hex_of(fill) if fill else "none", alpha=0.22, linewidth=0)
            axes.add_patch(box)
            axes.text(column + 0.06, row + 0.07, f"[{row},{column}]", va="top", fontsize=7, color=hex_of("neutral"))
            kind = "goal" if goal else "hole" if hole[s] else ""
            axes.text(column + 0.94, row + 0.07, kind, va="top", ha="right", fontsize=7, color=hex_of("neutral"))
            middle, bottom = row + 0.5, row + 0.86
            if goal or printed[s] == action:
                axes.text(column + 0.5, bottom, f"{value[s]:.4f}", ha="center", va="center", fontsize=8)
            if goal:
                axes.text(column + 0.5, middle, "★", ha="center", va="center", fontsize=16)
            elif printed[s] == action:
                arrow(axes, column + 0.5, middle, action, "ink")
            else:
                for x, taken, colour in ((0.27, action, "ink"), (0.74, printed[s], "brps-0.99")):
                    arrow(axes, column + x, middle, taken, colour)
                    worth = f"{q[s, actions.index(taken)]:.4f}"
                    axes.text(column + x, bottom, worth, ha="center", va="center", fontsize=7.5, color=hex_of(colour))
        for edge in range(width + 1):
            axes.plot([edge, edge], [0, width], color=hex_of("neutral"), linewidth=0.8)
            axes.plot([0, width], [edge, edge], color=hex_of("neutral"), linewidth=0.8)
        axes.set(xlim=(-0.02, width + 0.02), ylim=(width + 0.02, -0.02), aspect="equal")
        axes.axis("off")

    legend = (
        Entry("optimal action, its value below", "ink", mark="arrow"),
        Entry("printed action where it differs, its value below", "brps-0.99", mark="arrow"),
    )
    return Figure(name, title, (Panel(title, onto),), legend, columns=1, size=(5.2, 5.2))
