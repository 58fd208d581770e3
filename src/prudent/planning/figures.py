"""Pictures of a solution and of an explanation, in the look of all our figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray, IntArray
from ..data.labels import is_numbered
from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of
from .explain import ActionView, Explanation, dirichlet_quantiles, in_words, outcome_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from .solution import Solution

__all__ = ["action_colours", "explanation_figure", "short", "solution_figure", "solution_panels"]

FEW = 40  # states that get a line and a name each
PALETTE = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "brps-0.5", "other")
TERMINAL = -1  # in the place of an action
MOST_STRIPS = 12  # actions that get a line each in the figure of many states
MOST_ACTIONS = 8  # in the figure of an explanation
MOST_OUTCOMES = 8
LONGEST = 28  # letters of a name
EDGES = np.concatenate(([0.001, 0.003], np.linspace(0.01, 0.99, 79), [0.997, 0.999]))  # probabilities


# -- a solution --------------------------------------------------------------------------------------------


def solution_figure(solution: Solution) -> Canvas:
    """Return values and actions of a solution: line by line for few states, by action for many."""
    return drawn(solution_panels(solution))


def solution_panels(solution: Solution) -> Figure:
    """Return the same as panels for a page."""
    actions = np.where(solution._terminal, TERMINAL, solution.chosen)
    colours = action_colours(actions)
    shown = [a for a, colour in colours.items() if colour != "neutral"]
    legend = [Entry(_action_label(solution, a), colours[a], mark="dot") for a in shown]
    if len(shown) < len(colours):
        legend.append(Entry(f"{len(colours) - len(shown)} other actions", "neutral", mark="dot"))
    kind = _by_state if solution.value.size <= FEW else _by_action
    return kind(solution, actions, colours, legend)


def action_colours(actions: IntArray) -> dict[int, str]:
    """Return a colour for each action that the policy takes, most frequent first; those left over are grey."""
    found, often = np.unique(actions, return_counts=True)
    ordered = [a for a in found[np.argsort(-often, kind="stable")].tolist() if a != TERMINAL]
    colours = {a: PALETTE[i] if i < len(PALETTE) else "neutral" for i, a in enumerate(ordered)}
    return colours | ({TERMINAL: "ink"} if found[0] == TERMINAL else {})


def _by_state(solution: Solution, actions: IntArray, colours: dict[int, str], legend: list[Entry]) -> Figure:
    n = solution.value.size
    rows = np.arange(n)
    gap = solution._runners_up()[1]
    rivals = np.flatnonzero(np.isfinite(gap))
    second = (solution.value - gap)[rivals]
    states = [short(s) for s in (range(n) if solution.states is None else solution.states)]

    def draw(axes: Axes) -> None:
        axes.hlines(rivals, second, solution.value[rivals], color=hex_of("neutral"), lw=1.0)
        axes.plot(second, rivals, "o", ms=5, mfc="none", mec=hex_of("neutral"), ls="none")
        for a, colour in colours.items():
            at = rows[actions == a]
            axes.plot(solution.value[at], at, "o", ms=6, color=hex_of(colour), ls="none")
        axes.set_yticks(rows, states)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_xlabel("value")
        axes.set_ylabel("state" if is_numbered(solution.states) else "")
        axes.margins(x=0.06)
        axes.grid(axis="y", visible=False)
        beside = axes.twinx()  # what is done there, at the right edge
        beside.set_ylim(n - 0.5, -0.5)
        beside.set_yticks(rows, ["" if a is None else short(a) for a in solution.policy_names])
        beside.tick_params(length=0)
        beside.grid(visible=False)
        beside.set_ylabel("action" if is_numbered(solution.actions) else "")

    if rivals.size:
        legend = [*legend, Entry("best other action", "neutral", mark="ring")]
    height = max(2.3, 0.24 * n + 0.7)
    return Figure("solution", "", (Panel("Value and action in each state", draw),), tuple(legend), 1, (6.4, height))


def _by_action(solution: Solution, actions: IntArray, colours: dict[int, str], legend: list[Entry]) -> Figure:
    value = solution.value
    gap = solution._runners_up()[1]
    size = 3.0 if value.size <= 300 else 2.0

    def values(axes: Axes) -> None:
        strips = list(colours)[:MOST_STRIPS]
        for row, a in enumerate(strips):
            at = np.flatnonzero(actions == a)
            spread = (at * 0.6180339887) % 1.0 - 0.5  # apart, and the same every time
            axes.plot(value[at], row + 0.6 * spread, "o", ms=size, mew=0, color=hex_of(colours[a]), ls="none")
        counts = [f"{_action_label(solution, a)}  ({int((actions == a).sum()):,})" for a in strips]
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

    panels = [Panel(f"Values of {value.size:,} states, by action", values)]
    if (gap > 0.0).any():
        panels.append(Panel("How clear the choice is", gaps))
    return Figure("solution", "", tuple(panels), tuple(legend), len(panels), (4.8, 3.4))


def _action_label(solution: Solution, a: int) -> str:
    if a == TERMINAL:
        return "terminal"
    return f"action {a}" if solution.actions is None or is_numbered(solution.actions) else short(solution.actions[a])


# -- an explanation ----------------------------------------------------------------------------------------


def explanation_figure(why: Explanation) -> Canvas:
    """Return the posterior of the worth of each action and what drives the tail of the chosen one."""
    views = why.actions[:MOST_ACTIONS]
    left = f"What the actions are worth in {in_words('state', why.state)}"
    if len(views) < len(why.actions):
        left += f" (best {len(views)} of {len(why.actions)})"
    panels = [Panel(left, _worths(views))]
    legend = []
    if why.risk == "value":
        legend.append(Entry("value", "law", mark="dot"))
    else:
        chosen = why.actions[0]
        legend.append(Entry("average", "ink", mark="dot"))
        if why.risk != "mean":
            mood = "caution" if chosen.value <= chosen.mean else "optimism"
            legend.append(Entry(f"with {mood}: {why.risk}", "brps-0.99", mark="diamond"))
        legend.append(Entry("posterior; line: 5% to 95%", "law", mark="area"))
        if any(outcome.contribution > 0.0 for outcome in chosen.outcomes):
            panels.append(Panel(f"What makes bad cases of {in_words('action', chosen.action)} bad", _drivers(chosen)))
            legend.append(Entry("probability on average", "ink", mark="ring"))
            legend.append(Entry("in the bad cases", "brps-0.99", mark="dot"))
    height = max(2.2, 0.5 * max(len(views), 4) + 0.8)
    return drawn(Figure("explanation", "", tuple(panels), tuple(legend), len(panels), (4.9, height)))


def _worths(views: tuple[ActionView, ...]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        known = not views[0].quantiles
        for row, view in enumerate(views):
            colour = hex_of("law" if view.chosen else "neutral")
            if known:
                axes.plot([view.value], [row], "o", color=colour, ms=6)
                continue
            x, height = _density(view)
            if x.size:
                axes.fill_between(x, row, row - 0.72 * height / height.max(), color=colour, alpha=0.25, lw=0)
            axes.plot([view.quantiles[0.05], view.quantiles[0.95]], [row, row], color=colour, lw=2.2)
            axes.plot([view.mean], [row], "o", color=hex_of("ink"), ms=5)
            if view.value != view.mean:
                axes.plot([view.value], [row], "D", mfc="white", mec=hex_of("brps-0.99"), ms=5.5, mew=1.4)
        axes.set_yticks(range(len(views)), [short(in_words("action", v.action), v.action) for v in views])
        axes.get_yticklabels()[0].set_fontweight("bold")
        axes.set_ylim(len(views) - 0.5, -1.0)
        axes.set_xlabel("one-step value: reward now and discounted value later")
        axes.margins(x=0.06)
        axes.grid(axis="y", visible=False)

    return draw


def _density(view: ActionView) -> tuple[FloatArray, FloatArray]:
    """Return places and heights of the posterior density, from exact quantiles; nothing where there is none."""
    empty = np.empty(0)
    if view.total_count is None or not view.sd > 0.0:
        return empty, empty
    worth = np.array([[outcome.value for outcome in view.outcomes]])
    counts = np.array([[outcome.probability * view.total_count for outcome in view.outcomes]])
    x = dirichlet_quantiles(worth, counts, EDGES)[0]
    wide = np.diff(x) > 1e-9 * np.ptp(x)
    if wide.sum() < 3:
        return empty, empty
    height = np.zeros(wide.size)
    np.divide(np.diff(EDGES), np.diff(x), out=height, where=wide)
    height = np.minimum(height, 6.0 / (x[-1] - x[0] + 1e-300))  # a spike would flatten all the rest
    return 0.5 * (x[1:] + x[:-1]), height


def _drivers(view: ActionView) -> Callable[[Axes], None]:
    shown = [o for o in view.outcomes if o.contribution > 0.0][:MOST_OUTCOMES]
    price = view.mean - view.value

    def beside(axes: Axes, text: str, row: float) -> None:
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
        axes.annotate(text, (1.0, row), va="center", size=8, **at)

    def draw(axes: Axes) -> None:
        rows = range(len(shown))
        for row, outcome in zip(rows, shown, strict=True):
            ends = [outcome.probability, outcome.tail_probability]
            axes.plot(ends, [row, row], color=hex_of("neutral"), lw=1.0)
            axes.plot(ends[:1], [row], "o", mfc="white", mec=hex_of("ink"), ms=5)
            axes.plot(ends[1:], [row], "o", color=hex_of("brps-0.99"), ms=5)
            beside(axes, f"{outcome.contribution / price:.0%}", row)
        beside(axes, "share", -0.6)
        axes.set_yticks(rows, [short(outcome_in_words(view, outcome), outcome.next_state) for outcome in shown])
        axes.set_ylim(max(len(shown), 3) - 0.5, -1.0)
        axes.set_xlabel("probability of the outcome")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.3g}" if x else "0")
        axes.margins(x=0.08)
        axes.grid(axis="y", visible=False)

    return draw


def short(text: Any, name: Any = None) -> str:
    """Return text, or rather a name that is a string itself, cut where it is too long; no mathematics by accident."""
    told = str(name if isinstance(name, str) and text == repr(name) else text)
    told = told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"
    return told.replace("$", r"\$")
