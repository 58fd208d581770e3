"""Figure of a policy: values and actions of each state, or of many states by action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import FloatArray, IntArray
from ..style import Entry, hex_of
from .base import PALETTE, Figure, Panel, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TERMINAL", "action_colours", "action_label", "draw"]

LISTED_STATES = 40  # up to this number, every state has a line with its name
TERMINAL = -1  # stands for the action of a terminal state
LISTED_ACTIONS = 12  # actions with a line each in the figure of many states


def draw(
    value: FloatArray,
    actions: IntArray,
    gap: FloatArray,
    states: Sequence[Any] | None,
    action_names: Sequence[Any] | None,
    policy_names: Sequence[Any],
) -> Figure:
    """Return values [S] and actions [S]: state by state for few states, by action for many.

    ``actions`` are indices, or ``TERMINAL``; ``gap`` [S] is the lead over the best other action, NaN where there is
    none; ``policy_names`` [S] say in words what is done.
    """
    colours = action_colours(actions)
    shown = [a for a, colour in colours.items() if colour != "neutral"]
    legend = [Entry(action_label(action_names, a), colours[a], mark="dot") for a in shown]
    if len(shown) < len(colours):
        legend.append(Entry(f"{len(colours) - len(shown)} other actions", "neutral", mark="dot"))
    if value.size > LISTED_STATES:
        return _by_action(value, actions, gap, action_names, colours, legend)
    return _by_state(value, actions, gap, states, action_names is None, policy_names, colours, legend)


def action_colours(actions: IntArray) -> dict[int, str]:
    """Return a colour for each action that the policy takes, most frequent first; those left over are grey."""
    present, counts = np.unique(actions, return_counts=True)
    ordered = [a for a in present[np.argsort(-counts, kind="stable")].tolist() if a != TERMINAL]
    colours = {a: PALETTE[i] if i < len(PALETTE) else "neutral" for i, a in enumerate(ordered)}
    return colours | ({TERMINAL: "ink"} if present[0] == TERMINAL else {})


def action_label(names: Sequence[Any] | None, action: int) -> str:
    """Return the label of an action in a legend."""
    if action == TERMINAL:
        return "terminal"
    name = action if names is None else names[action]
    return f"action {name}" if isinstance(name, int) else label(name)


def _by_state(
    value: FloatArray,
    actions: IntArray,
    gap: FloatArray,
    states: Sequence[Any] | None,
    numbered_actions: bool,
    policy_names: Sequence[Any],
    colours: dict[int, str],
    legend: list[Entry],
) -> Figure:
    n = value.size
    rows = np.arange(n)
    rivals = np.flatnonzero(np.isfinite(gap))
    second = (value - gap)[rivals]
    names = [label(s) for s in (range(n) if states is None else states)]

    def draw_states(axes: Axes) -> None:
        axes.hlines(rivals, second, value[rivals], color=hex_of("neutral"), lw=1.0)
        axes.plot(second, rivals, "o", ms=5, mfc="none", mec=hex_of("neutral"), ls="none")
        for a, colour in colours.items():
            at = rows[actions == a]
            axes.plot(value[at], at, "o", ms=6, color=hex_of(colour), ls="none")
        axes.set_yticks(rows, names)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_xlabel("value")
        axes.set_ylabel("state" if states is None else "")
        axes.margins(x=0.06)
        axes.grid(axis="y", visible=False)
        beside = axes.twinx()  # the actions, at the right edge
        beside.set_ylim(n - 0.5, -0.5)
        beside.set_yticks(rows, ["" if name is None else label(name) for name in policy_names])
        beside.tick_params(length=0)
        beside.grid(visible=False)
        beside.set_ylabel("action" if numbered_actions else "")

    if rivals.size:
        legend = [*legend, Entry("best other action", "neutral", mark="ring")]
    height = max(2.3, 0.24 * n + 0.7)
    return Figure(
        "solution", "", (Panel("Value and action in each state", draw_states),), tuple(legend), 1, (6.4, height)
    )


def _by_action(
    value: FloatArray,
    actions: IntArray,
    gap: FloatArray,
    names: Sequence[Any] | None,
    colours: dict[int, str],
    legend: list[Entry],
) -> Figure:
    size = 3.0 if value.size <= 300 else 2.0

    def values(axes: Axes) -> None:
        strips = list(colours)[:LISTED_ACTIONS]
        for row, a in enumerate(strips):
            at = np.flatnonzero(actions == a)
            spread = (at * 0.6180339887) % 1.0 - 0.5  # a deterministic jitter
            axes.plot(value[at], row + 0.6 * spread, "o", ms=size, mew=0, color=hex_of(colours[a]), ls="none")
        counts = [f"{action_label(names, a)}  ({int((actions == a).sum()):,})" for a in strips]
        axes.set_yticks(range(len(strips)), counts)
        axes.set_ylim(len(strips) - 0.4, -0.6)
        axes.set_xlabel("value")
        axes.grid(axis="y", visible=False)
        if len(colours) > len(strips):
            axes.set_ylabel(f"the {len(strips)} most frequent of {len(colours)} actions")

    def gaps(axes: Axes) -> None:
        for a, colour in reversed(colours.items()):
            at = np.flatnonzero((actions == a) & (gap > 0.0))
            axes.plot(value[at], gap[at], "o", ms=size, mew=0, color=hex_of(colour), ls="none")
        axes.set_yscale("log")
        axes.set_xlabel("value")
        axes.set_ylabel("lead over the best other action")

    parts = [Panel(f"Values of {value.size:,} states, by action", values)]
    if (gap > 0.0).any():
        parts.append(Panel("How clear the choice is", gaps))
    return Figure("solution", "", tuple(parts), tuple(legend), len(parts), (4.8, 3.4))
