"""Figures of a policy: values and actions of each state, of many states by action, and over a finite horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import FloatArray, IntArray
from ..style import Entry, hex_of
from .base import PALETTE, Figure, Panel, label, labels, row_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LISTED_STATES = 40  # up to this number, every state has a line with its name
TERMINAL = -1  # stands for the action of a terminal state
LISTED_ACTIONS = 12  # actions with a line each in the figure of many states
NAMED_STATES = 24  # up to this number, states of a plan have their names on the axis


def draw(
    value: FloatArray,
    actions: IntArray,
    gap: FloatArray,
    states: Sequence[Any] | None,
    action_names: Sequence[Any] | None,
    policy_names: Sequence[Any],
    quantity: str = "value",
) -> Figure:
    """Return values [S] (the axis says of which ``quantity``) and actions [S]: by state, or by action for many states.

    ``actions`` are indices, or ``TERMINAL``; ``gap`` [S] is the lead over the best other action, NaN where there is
    none; ``policy_names`` [S] say in words what is done.
    """
    colours = _action_colours(actions)
    legend = _action_legend(colours, action_names)
    n = value.size
    size = 3.0 if n <= 300 else 2.0  # of a dot, where there are many
    rivals = np.flatnonzero(np.isfinite(gap))

    def by_state(axes: Axes) -> None:
        second = (value - gap)[rivals]
        axes.hlines(rivals, second, value[rivals], color=hex_of("neutral"), lw=1.0)
        axes.plot(second, rivals, "o", ms=5, mfc="none", mec=hex_of("neutral"), ls="none")
        for a, colour in colours.items():
            at = np.flatnonzero(actions == a)
            axes.plot(value[at], at, "o", ms=6, color=hex_of(colour), ls="none")
        row_axis(axes, labels(range(n) if states is None else states))
        axes.set(xlabel=quantity, ylabel="state" if states is None else "", xmargin=0.06)
        beside = axes.twinx()  # the actions, at the right edge
        row_axis(beside, labels("" if name is None else _mixture(name) for name in policy_names))
        beside.tick_params(length=0)
        beside.grid(visible=False)
        beside.set_ylabel("action" if action_names is None else "")

    def by_action(axes: Axes) -> None:
        strips = list(colours)[:LISTED_ACTIONS]
        for row, a in enumerate(strips):
            at = np.flatnonzero(actions == a)
            spread = (at * 0.6180339887) % 1.0 - 0.5  # a deterministic jitter
            axes.plot(value[at], row + 0.6 * spread, "o", ms=size, mew=0, color=hex_of(colours[a]), ls="none")
        counts = [f"{_action_label(action_names, a)}  ({int((actions == a).sum()):,})" for a in strips]
        row_axis(axes, counts, above=0.6, below=0.6)
        axes.set_xlabel(quantity)
        if len(colours) > len(strips):
            axes.set_ylabel(f"the {len(strips)} most frequent of {len(colours)} actions")

    def leads(axes: Axes) -> None:
        for a, colour in reversed(colours.items()):
            at = np.flatnonzero((actions == a) & (gap > 0.0))
            axes.plot(value[at], gap[at], "o", ms=size, mew=0, color=hex_of(colour), ls="none")
        axes.set(xlabel=quantity, ylabel="lead over the best other action", yscale="log")

    if n <= LISTED_STATES:
        if rivals.size:
            legend.append(Entry("best other action", "neutral", mark="ring"))
        panel = Panel(f"{quantity.capitalize()} and action in each state", by_state)
        return Figure("solution", "", (panel,), tuple(legend), 1, (6.4, max(2.3, 0.24 * n + 0.7)))
    panels = [Panel(f"{quantity.capitalize()} of {n:,} states, by action", by_action)]
    if (gap > 0.0).any():
        panels.append(Panel("How clear the choice is", leads))
    return Figure("solution", "", tuple(panels), tuple(legend), len(panels), (4.8, 3.4))


def draw_plan(
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
    colours = _action_colours(actions)
    names = labels(range(n_states) if states is None else states)
    lines = np.unique(np.linspace(0, n_states - 1, min(6, n_states)).round().astype(int))  # states with a line

    def draw_actions(axes: Axes) -> None:
        from matplotlib.colors import to_rgba

        image = np.empty((n_states, horizon, 4))
        for a, colour in colours.items():
            image[np.equal(actions.T, a)] = to_rgba(hex_of(colour), 0.85)
        extent = (-0.5, horizon - 0.5, n_states - 0.5, -0.5)
        axes.imshow(image, aspect="auto", interpolation="nearest", extent=extent)
        if n_states <= NAMED_STATES:
            axes.set_yticks(range(n_states), names)
        axes.set(xlabel="time", ylabel="state" if states is None or n_states > NAMED_STATES else "")
        axes.locator_params(axis="x", integer=True)
        axes.grid(visible=False)

    def draw_values(axes: Axes) -> None:
        for state, colour in zip(lines, PALETTE, strict=False):
            marker = "o" if horizon <= 20 else ""
            axes.plot(value[:, state], color=hex_of(colour), marker=marker, ms=3, label=names[state])
        axes.legend(title="state" if states is None else None, loc="best")
        axes.set(xlabel="time", ylabel="value of the steps that remain")
        axes.locator_params(axis="x", integer=True)

    title = "Likeliest action" if likeliest else "Action"
    some = f", {lines.size} of {n_states:,} states" if lines.size < n_states else ""
    panels = (Panel(f"{title} by time and state", draw_actions), Panel(f"Value over time{some}", draw_values))
    height = min(max(3.2, 0.2 * min(n_states, NAMED_STATES) + 1.2), 6.0)
    return Figure("plan", "", panels, tuple(_action_legend(colours, action_names)), 2, (4.6, height))


def _action_colours(actions: IntArray) -> dict[int, str]:
    """Return a colour for each action that the policy takes, most frequent first; those left over are grey."""
    present, counts = np.unique(actions, return_counts=True)
    ordered = [a for a in present[np.argsort(-counts, kind="stable")].tolist() if a != TERMINAL]
    colours = {a: PALETTE[i] if i < len(PALETTE) else "neutral" for i, a in enumerate(ordered)}
    return colours | ({TERMINAL: "ink"} if present[0] == TERMINAL else {})


def _action_legend(colours: dict[int, str], names: Sequence[Any] | None) -> list[Entry]:
    """Return the legend of actions with a colour of their own, and the number of the others."""
    legend = [Entry(_action_label(names, a), c, mark="dot") for a, c in colours.items() if c != "neutral"]
    if len(legend) < len(colours):
        legend.append(Entry(f"{len(colours) - len(legend)} other actions", "neutral", mark="dot"))
    return legend


def _mixture(choice: Any) -> Any:
    """Return the name of an action, or those of a mapping to probabilities, the likeliest first."""
    if not isinstance(choice, Mapping):
        return choice
    likely = sorted(choice.items(), key=lambda item: -item[1])
    if likely[0][1] > 0.9995:
        return likely[0][0]
    return ", ".join(f"{name} {share:.0%}" for name, share in likely)


def _action_label(names: Sequence[Any] | None, action: int) -> str:
    """Return the label of an action in a legend."""
    if action == TERMINAL:
        return "terminal"
    name = action if names is None else names[action]
    return f"action {name}" if isinstance(name, int) else label(name)
