"""Figure of an explanation: the posterior of each action's one-step value, and what drives the tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...types import FloatArray
from ..explanation import ActionView, outcome_named
from ..style import Entry, hex_of
from ..words import name_of
from .base import Figure, Panel, label, row_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_ACTIONS = 8
SHOWN_OUTCOMES = 8
Density: TypeAlias = tuple[FloatArray, FloatArray]


def draw(state: Any, risk: str, actions: Sequence[ActionView], densities: Sequence[Density]) -> Figure:
    """Return the posterior of each action's one-step value and what drives the tail of the chosen one.

    ``actions`` has the chosen action first; ``densities`` are points and heights of the posterior density of each of
    the first ``SHOWN_ACTIONS``, empty where there is none.
    """
    views, chosen = actions[:SHOWN_ACTIONS], actions[0]
    title = f"What the actions are worth in {name_of('state', state)}"
    if len(views) < len(actions):
        title += f" (best {len(views)} of {len(actions)})"
    panels = [Panel(title, lambda axes: _draw_worths(axes, views, densities))]
    legend = [Entry("value", "law", mark="dot") if risk == "value" else Entry("average", "ink", mark="dot")]
    if risk not in ("value", "mean"):
        mood = "caution" if chosen.value <= chosen.mean else "optimism"
        legend.append(Entry(f"with {mood}: {risk}", "brps-0.99", mark="diamond"))
    if risk != "value":
        legend.append(Entry("posterior; line: 5% to 95%", "law", mark="area"))
        if any(outcome.contribution > 0.0 for outcome in chosen.outcomes):
            title = f"What makes bad cases of {name_of('action', chosen.action)} bad"
            panels.append(Panel(title, lambda axes: _draw_drivers(axes, chosen)))
            legend.append(Entry("probability on average", "ink", mark="ring"))
            legend.append(Entry("in the bad cases", "brps-0.99", mark="dot"))
    height = max(2.2, 0.5 * max(len(views), 4) + 0.8)
    return Figure("explanation", "", tuple(panels), tuple(legend), len(panels), (4.9, height))


def _draw_worths(axes: Axes, views: Sequence[ActionView], densities: Sequence[Density]) -> None:
    for row, view in enumerate(views):
        colour = hex_of("law" if view.chosen else "neutral")
        if not views[0].quantiles:  # a known model
            axes.plot([view.value], [row], "o", color=colour, ms=6)
            continue
        x, height = densities[row]
        if x.size:
            axes.fill_between(x, row, row - 0.72 * height / height.max(), color=colour, alpha=0.25, lw=0)
        axes.plot([view.quantiles[0.05], view.quantiles[0.95]], [row, row], color=colour, lw=2.2)
        axes.plot([view.mean], [row], "o", color=hex_of("ink"), ms=5)
        if view.value != view.mean:
            axes.plot([view.value], [row], "D", mfc="white", mec=hex_of("brps-0.99"), ms=5.5, mew=1.4)
    names = [label(v.action if isinstance(v.action, str) else name_of("action", v.action)) for v in views]
    row_axis(axes, names, above=1.0)
    axes.get_yticklabels()[0].set_fontweight("bold")
    axes.set(xlabel="one-step value: reward now and discounted value later", xmargin=0.06)


def _draw_drivers(axes: Axes, view: ActionView) -> None:
    shown = [o for o in view.outcomes if o.contribution > 0.0][:SHOWN_OUTCOMES]
    shares = [f"{outcome.contribution / (view.mean - view.value):.0%}" for outcome in shown]
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
    for row, text in zip((*range(len(shown)), -0.6), (*shares, "share"), strict=True):
        axes.annotate(text, (1.0, row), va="center", size=8, **beside)
    for row, outcome in enumerate(shown):
        ends = [outcome.probability, outcome.tail_probability]
        axes.plot(ends, [row, row], color=hex_of("neutral"), lw=1.0)
        axes.plot(ends[:1], [row], "o", mfc="white", mec=hex_of("ink"), ms=5)
        axes.plot(ends[1:], [row], "o", color=hex_of("brps-0.99"), ms=5)
    names = [label(_unquoted(outcome_named(view, outcome))) for outcome in shown]
    row_axis(axes, names, above=1.0, below=max(len(shown), 3) - len(shown) + 0.5)
    axes.set(xlabel="probability of the outcome", xmargin=0.08)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.3g}" if x else "0")


def _unquoted(text: str) -> str:
    """Return the name in a text that is nothing but a quoted name."""
    return text[1:-1] if text[0] == text[-1] and text[0] in "'\"" else text
