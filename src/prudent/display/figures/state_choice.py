"""Candidates for a state map compared: gain over the log, and how well states predict and are covered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..style import Entry, hex_of
from .base import Figure, Panel

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


def draw(table: pandas.DataFrame) -> Figure:
    """Return the figure of a choice of states.

    Parameters
    ----------
    table : DataFrame
        A row for each candidate, with columns design, states, promised, honest, low, high, log, predicts, coverage and
        chosen.

    Returns
    -------
    Figure
        Two panels.
    """
    legend = (
        Entry("promised by the model", "brps-0.9", mark="dot"),
        Entry("on held-out episodes, with interval", "law", mark="dot"),
        Entry("what the log did", "neutral", mark="line"),
        Entry("chosen", "brps-0.99", mark="ring"),
        Entry("variance explained", "optimistic", mark="dot"),
        Entry("rows whose pair has enough data", "brps-0.8", mark="dot"),
    )
    panels = (
        Panel("Value at the best level", lambda axes: _draw_values(axes, table)),
        Panel("Prediction and coverage", lambda axes: _draw_shares(axes, table)),
    )
    return Figure("state-choice", "How the states were chosen", panels, legend, 2, (4.6, 3.3))


def _draw_values(axes: Axes, table: pandas.DataFrame) -> None:
    x = table["states"].to_numpy()
    honest = table["honest"].to_numpy()
    errors = [honest - table["low"].to_numpy(), table["high"].to_numpy() - honest]
    look: Any = {"linestyle": "none", "marker": "o", "markersize": 4.5}
    axes.errorbar(x, honest, yerr=errors, color=hex_of("law"), elinewidth=0.8, **look)
    axes.plot(x, table["promised"].to_numpy(), color=hex_of("brps-0.9"), **look)
    order = x.argsort()
    axes.plot(x[order], table["log"].to_numpy()[order], color=hex_of("neutral"), linewidth=1.0)
    _ring(axes, x, honest, table["chosen"].to_numpy())
    _number_axis(axes, x)
    axes.set(xlabel="number of states", ylabel="discounted return")


def _draw_shares(axes: Axes, table: pandas.DataFrame) -> None:
    x = table["states"].to_numpy()
    look: Any = {"linestyle": "none", "marker": "o", "markersize": 4.5}
    for name, colour in (("predicts", "optimistic"), ("coverage", "brps-0.8")):
        axes.plot(x, table[name].to_numpy(), color=hex_of(colour), **look)
        _ring(axes, x, table[name].to_numpy(), table["chosen"].to_numpy())
    _number_axis(axes, x)
    axes.set_ylim(min(0.0, float(table["predicts"].min())) - 0.05, 1.05)
    axes.set(xlabel="number of states", ylabel="share on held-out episodes")


def _number_axis(axes: Axes, states: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(states, [str(count) for count in states], minor=False)
    axes.set_xticks([], minor=True)


def _ring(axes: Axes, x: Any, y: Any, chosen: Any) -> None:
    ring: Any = {"markerfacecolor": "none", "markersize": 10.5, "markeredgewidth": 1.6, "zorder": 4}
    axes.plot(x[chosen], y[chosen], marker="o", color=hex_of("brps-0.99"), linestyle="none", **ring)
