"""The picture of a plan for a finite horizon: actions by time and state, and values over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..data.labels import is_numbered
from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of
from .figures import action_colours, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from .finite_solution import FiniteSolution

__all__ = ["finite_figure"]

NAMED = 24  # states that get a name
LINES = 6  # states whose values are drawn
TERMINAL = -1  # in the place of an action
LINE_COLOURS = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "brps-0.5")


def finite_figure(solution: FiniteSolution) -> Canvas:
    """Return what is done when and where, and what it is worth."""
    horizon, n_states = solution.horizon, solution.value.shape[1]
    ended = np.zeros(n_states, dtype=np.bool_) if solution.terminal is None else solution.terminal
    actions = np.where(ended, TERMINAL, solution.chosen)
    colours = action_colours(actions)
    names = [short(name) for name in (range(n_states) if solution.states is None else solution.states)]

    def plan(axes: Axes) -> None:
        from matplotlib.colors import to_rgba

        places = {a: i for i, a in enumerate(colours)}
        table = np.array([to_rgba(hex_of(colour), 0.85) for colour in colours.values()])
        index = np.vectorize(places.__getitem__, otypes=[np.int64])(actions.T)  # [S, T]
        axes.imshow(
            table[index], aspect="auto", interpolation="nearest", extent=(-0.5, horizon - 0.5, n_states - 0.5, -0.5)
        )
        if n_states <= NAMED:
            axes.set_yticks(range(n_states), names)
        axes.set_xlabel("time")
        axes.set_ylabel("state" if is_numbered(solution.states) or n_states > NAMED else "")
        axes.locator_params(axis="x", integer=True)
        axes.grid(visible=False)

    drawn_states = np.unique(np.linspace(0, n_states - 1, min(LINES, n_states)).round().astype(int))

    def values(axes: Axes) -> None:
        for state, colour in zip(drawn_states, LINE_COLOURS, strict=False):
            marker = "o" if horizon <= 20 else ""
            axes.plot(solution.value[:, state], color=hex_of(colour), marker=marker, ms=3, label=names[state])
        axes.legend(title="state" if is_numbered(solution.states) else None, loc="best")
        axes.set_xlabel("time")
        axes.set_ylabel("value of the steps that remain")
        axes.locator_params(axis="x", integer=True)

    legend = [Entry(_called(solution, a), colour, mark="dot") for a, colour in colours.items() if colour != "neutral"]
    others = sum(colour == "neutral" for colour in colours.values())
    if others:
        legend.append(Entry(f"{others} other actions", "neutral", mark="dot"))
    chosen = "Likeliest action" if solution.policy.ndim == 3 else "Action"
    some = f", {drawn_states.size} of {n_states:,} states" if drawn_states.size < n_states else ""
    panels = (Panel(f"{chosen} by time and state", plan), Panel(f"Value over time{some}", values))
    height = min(max(3.2, 0.2 * min(n_states, NAMED) + 1.2), 6.0)
    return drawn(Figure("plan", "", panels, tuple(legend), 2, (4.6, height)))


def _called(solution: FiniteSolution, action: int) -> str:
    if action == TERMINAL:
        return "terminal"
    return (
        f"action {action}"
        if solution.actions is None or is_numbered(solution.actions)
        else short(solution.actions[action])
    )
