"""Figure of an explanation: the posterior of each action's one-step value, and what drives the tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...types import FloatArray
from ..explanation import ActionView, outcome_named
from ..style import Entry, hex_of
from ..words import name_of
from .base import Figure, Panel, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SHOWN_ACTIONS", "draw"]

SHOWN_ACTIONS = 8
SHOWN_OUTCOMES = 8
Density: TypeAlias = tuple[FloatArray, FloatArray]


def draw(state: Any, risk: str, actions: Sequence[ActionView], densities: Sequence[Density]) -> Figure:
    """Return the posterior of each action's one-step value and what drives the tail of the chosen one.

    ``actions`` has the chosen action first; ``densities`` are places and heights of the posterior density of each of
    the first ``SHOWN_ACTIONS``, empty where there is none.
    """
    views = actions[:SHOWN_ACTIONS]
    title = f"What the actions are worth in {name_of('state', state)}"
    if len(views) < len(actions):
        title += f" (best {len(views)} of {len(actions)})"
    parts = [Panel(title, _worths(views, densities))]
    legend = []
    if risk == "value":
        legend.append(Entry("value", "law", mark="dot"))
    else:
        chosen = actions[0]
        legend.append(Entry("average", "ink", mark="dot"))
        if risk != "mean":
            mood = "caution" if chosen.value <= chosen.mean else "optimism"
            legend.append(Entry(f"with {mood}: {risk}", "brps-0.99", mark="diamond"))
        legend.append(Entry("posterior; line: 5% to 95%", "law", mark="area"))
        if any(outcome.contribution > 0.0 for outcome in chosen.outcomes):
            parts.append(Panel(f"What makes bad cases of {name_of('action', chosen.action)} bad", _drivers(chosen)))
            legend.append(Entry("probability on average", "ink", mark="ring"))
            legend.append(Entry("in the bad cases", "brps-0.99", mark="dot"))
    height = max(2.2, 0.5 * max(len(views), 4) + 0.8)
    return Figure("explanation", "", tuple(parts), tuple(legend), len(parts), (4.9, height))


def _worths(views: Sequence[ActionView], densities: Sequence[Density]) -> Callable[[Axes], None]:
    def paint(axes: Axes) -> None:
        certain = not views[0].quantiles
        for row, view in enumerate(views):
            colour = hex_of("law" if view.chosen else "neutral")
            if certain:
                axes.plot([view.value], [row], "o", color=colour, ms=6)
                continue
            x, height = densities[row]
            if x.size:
                axes.fill_between(x, row, row - 0.72 * height / height.max(), color=colour, alpha=0.25, lw=0)
            axes.plot([view.quantiles[0.05], view.quantiles[0.95]], [row, row], color=colour, lw=2.2)
            axes.plot([view.mean], [row], "o", color=hex_of("ink"), ms=5)
            if view.value != view.mean:
                axes.plot([view.value], [row], "D", mfc="white", mec=hex_of("brps-0.99"), ms=5.5, mew=1.4)
        axes.set_yticks(
            range(len(views)),
            [label(v.action if isinstance(v.action, str) else name_of("action", v.action)) for v in views],
        )
        axes.get_yticklabels()[0].set_fontweight("bold")
        axes.set_ylim(len(views) - 0.5, -1.0)
        axes.set_xlabel("one-step value: reward now and discounted value later")
        axes.margins(x=0.06)
        axes.grid(axis="y", visible=False)

    return paint


def _drivers(view: ActionView) -> Callable[[Axes], None]:
    shown = [o for o in view.outcomes if o.contribution > 0.0][:SHOWN_OUTCOMES]
    price = view.mean - view.value

    def beside(axes: Axes, text: str, row: float) -> None:
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
        axes.annotate(text, (1.0, row), va="center", size=8, **at)

    def paint(axes: Axes) -> None:
        rows = range(len(shown))
        for row, outcome in zip(rows, shown, strict=True):
            ends = [outcome.probability, outcome.tail_probability]
            axes.plot(ends, [row, row], color=hex_of("neutral"), lw=1.0)
            axes.plot(ends[:1], [row], "o", mfc="white", mec=hex_of("ink"), ms=5)
            axes.plot(ends[1:], [row], "o", color=hex_of("brps-0.99"), ms=5)
            beside(axes, f"{outcome.contribution / price:.0%}", row)
        beside(axes, "share", -0.6)
        axes.set_yticks(rows, [label(_unquoted(outcome_named(view, outcome))) for outcome in shown])
        axes.set_ylim(max(len(shown), 3) - 0.5, -1.0)
        axes.set_xlabel("probability of the outcome")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.3g}" if x else "0")
        axes.margins(x=0.08)
        axes.grid(axis="y", visible=False)

    return paint


def _unquoted(text: str) -> str:
    """Return the name in a text that is nothing but a quoted name."""
    return text[1:-1] if text[0] == text[-1] and text[0] in "'\"" else text
