"""Pictures of an evaluation: estimates with their intervals, reward over time, chances of the arms over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["estimates", "intervals", "propensities", "reward"]

HUES = ("law", "brps-0.9", "brps-0.8", "optimistic", "brps-0.5", "brps-0.99", "other")
SHOWN = len(HUES)  # arms that get a colour of their own


def _percent(level: float) -> str:
    return f"{100 * level:g}%"


def estimates(table: pandas.DataFrame, value: float, level: float) -> Canvas:
    """Draw the estimates of :func:`~prudent.evaluation.off_policy` against the mean reward of the log."""
    legend = (
        Entry("estimate", "law", mark="dot"),
        Entry(f"{_percent(level)} normal", "law"),
        Entry(f"{_percent(level)} empirical Bernstein", "brps-0.5", "--"),
        Entry("mean reward of the log", "neutral", ":"),
    )

    def onto(axes: Axes) -> None:
        y = np.arange(len(table))[::-1]
        axes.axvline(value, color=hex_of("neutral"), linestyle=":")
        for place, (_, row) in zip(y, table.iterrows(), strict=True):
            axes.plot([row.low_eb, row.high_eb], [place, place], color=hex_of("brps-0.5"), linestyle="--", linewidth=1)
            axes.plot([row.low, row.high], [place, place], color=hex_of("law"), linewidth=2)
            axes.plot(row.estimate, place, "o", color=hex_of("law"), markersize=5)
        axes.set_yticks(y, list(table.index))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("mean reward per decision")
        # a bound that says nothing must not squeeze what says something: the normal intervals get a third of the room
        told = table[["low", "high"]].replace([np.inf, -np.inf], np.nan)
        low, high = np.nanmin([told.low.min(), value]), np.nanmax([told.high.max(), value])
        room = max(high - low, 1e-12)
        sure = table[["low_eb", "high_eb"]]
        axes.set_xlim(
            max(low - room, np.nanmin([sure.low_eb.min(), low]) - 0.05 * room),
            min(high + room, np.nanmax([sure.high_eb.max(), high]) + 0.05 * room),
        )

    return drawn(Figure("off-policy", "", (Panel("What the target would have earned", onto),), legend, 1, (6.4, 3.2)))


def reward(curve: pandas.DataFrame, name: str, level: float) -> Canvas:
    """Draw an estimate over the rows, and what the log earned, with their intervals."""
    legend = (
        Entry(f"target ({name})", "law"),
        Entry("log", "neutral"),
        Entry(f"{_percent(level)} interval", "neutral", mark="area"),
    )
    bands = (("estimate", "low", "high", "law"), ("logged", "logged_low", "logged_high", "neutral"))

    def onto(axes: Axes) -> None:
        x = np.asarray(curve.index, dtype=np.float64)
        late = slice(len(x) // 20, None)  # the first rows say nothing and would take most of the room
        for middle, low, high, colour in bands:
            axes.plot(x[late], curve[middle].iloc[late], color=hex_of(colour))
            axes.fill_between(
                x[late], curve[low].iloc[late], curve[high].iloc[late], color=hex_of(colour), alpha=0.16, linewidth=0
            )
        _count_axis(axes, str(curve.index.name or "rows"))
        axes.set_ylabel("mean reward so far")

    return drawn(Figure("reward", "", (Panel("Mean reward so far", onto),), legend, 1, (6.4, 3.4)))


def propensities(target: pandas.DataFrame, logged: pandas.DataFrame) -> Canvas:
    """Draw the chances of the arms over the rows, the target's beside the shares in the log."""
    target, logged = _coarse(target), _coarse(logged)
    most = target.mean().sort_values(ascending=False, kind="stable").index[:SHOWN]
    hues = dict(zip(most, HUES, strict=False))
    legend = [Entry(str(arm), hue) for arm, hue in hues.items()]
    rest = [arm for arm in target.columns if arm not in hues]
    if rest:
        legend.append(Entry(f"{len(rest)} other arms together", "neutral"))

    def lines(shares: pandas.DataFrame) -> list[tuple[Any, str]]:
        found: list[tuple[Any, str]] = [(shares[arm], hue) for arm, hue in hues.items()]
        return [*found, (shares[rest].sum(axis=1), "neutral")] if rest else found

    top = max(float(line.max()) for shares in (target, logged) for line, _ in lines(shares))

    def panel(title: str, shares: pandas.DataFrame) -> Panel:
        def onto(axes: Axes) -> None:
            for line, hue in lines(shares):
                axes.plot(np.asarray(shares.index, dtype=np.float64), line, color=hex_of(hue))
            axes.set_ylim(0.0, min(1.02, 1.1 * top))
            axes.set_ylabel("chance")
            _count_axis(axes, str(shares.index.name or "rows"))

        return Panel(title, onto)

    panels = (panel("Target", target), panel("Log", logged))
    return drawn(Figure("propensities", "", panels, tuple(legend)))


def _coarse(shares: pandas.DataFrame) -> pandas.DataFrame:
    """Return the shares over up to 50 longer spans: shares of few rows are mostly noise."""
    step = -(-len(shares) // 50)
    spans = np.arange(len(shares)) // step
    ends = shares.index[np.minimum(np.arange(spans[-1] + 1) * step + step, len(shares)) - 1]
    return shares.groupby(spans).mean().set_axis(ends, axis=0)


def intervals(names: Sequence[str], rows: pandas.DataFrame, title: str, label: str, level: float) -> Canvas:
    """Draw a mean with its interval for each name, the best one on top."""
    legend = (Entry("mean", "law", mark="dot"), Entry(f"{_percent(level)} interval", "law"))

    def onto(axes: Axes) -> None:
        y = np.arange(len(rows))[::-1]
        for place, low, high, middle in zip(y, rows["low"], rows["high"], rows["mean"], strict=True):
            axes.plot([low, high], [place, place], color=hex_of("law"), linewidth=2)
            axes.plot(middle, place, "o", color=hex_of("law"), markersize=5)
        axes.set_yticks(y, list(names))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(label)

    return drawn(Figure("settings", "", (Panel(title, onto),), legend, 1, (6.4, 1.0 + 0.35 * len(rows))))


def _count_axis(axes: Axes, label: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel(label)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
