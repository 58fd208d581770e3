"""Figure of a plan for a finite horizon: actions by time and state, and values over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import FloatArray, IntArray
from ..style import Entry, hex_of
from .base import Figure, Panel, label
from .policy import action_colours, action_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

NAMED_STATES = 24  # up to this number, states have their names on the axis
LINE_COLOURS = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "brps-0.5")  # one for each state drawn


def draw(
    value: FloatArray,
    actions: IntArray,
    states: Sequence[Any] | None,
    action_names: Sequence[Any] | None,
    *,
    likeliest: bool,
) -> Figure:
    """Return actions [T, S] by time and state, and values [T + 1, S] over time.

    ``likeliest`` says that the actions are the likeliest ones of a random policy.
    """
    horizon, n_states = actions.shape
    colours = action_colours(actions)
    names = [label(name) for name in (range(n_states) if states is None else states)]

    def draw_actions(axes: Axes) -> None:
        from matplotlib.colors import to_rgba

        rank = {a: i for i, a in enumerate(colours)}
        table = np.array([to_rgba(hex_of(colour), 0.85) for colour in colours.values()])
        index = np.vectorize(rank.__getitem__, otypes=[np.int64])(actions.T)  # [S, T]
        axes.imshow(
            table[index], aspect="auto", interpolation="nearest", extent=(-0.5, horizon - 0.5, n_states - 0.5, -0.5)
        )
        if n_states <= NAMED_STATES:
            axes.set_yticks(range(n_states), names)
        axes.set_xlabel("time")
        axes.set_ylabel("state" if states is None or n_states > NAMED_STATES else "")
        axes.locator_params(axis="x", integer=True)
        axes.grid(visible=False)

    lines = np.unique(np.linspace(0, n_states - 1, min(len(LINE_COLOURS), n_states)).round().astype(int))

    def draw_values(axes: Axes) -> None:
        for state, colour in zip(lines, LINE_COLOURS, strict=False):
            marker = "o" if horizon <= 20 else ""
            axes.plot(value[:, state], color=hex_of(colour), marker=marker, ms=3, label=names[state])
        axes.legend(title="state" if states is None else None, loc="best")
        axes.set_xlabel("time")
        axes.set_ylabel("value of the steps that remain")
        axes.locator_params(axis="x", integer=True)

    legend = [Entry(action_label(action_names, a), c, mark="dot") for a, c in colours.items() if c != "neutral"]
    others = sum(colour == "neutral" for colour in colours.values())
    if others:
        legend.append(Entry(f"{others} other actions", "neutral", mark="dot"))
    title = "Likeliest action" if likeliest else "Action"
    some = f", {lines.size} of {n_states:,} states" if lines.size < n_states else ""
    parts = (Panel(f"{title} by time and state", draw_actions), Panel(f"Value over time{some}", draw_values))
    height = min(max(3.2, 0.2 * min(n_states, NAMED_STATES) + 1.2), 6.0)
    return Figure("plan", "", parts, tuple(legend), 2, (4.6, height))
