"""Off-policy estimates: intervals of the estimators, reward over time, chances of the arms over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..style import Entry, hex_of
from ..words import percent
from .base import PALETTE, Figure, Panel, count_axis, intervals, row_axis

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MAX_SPANS = 50  # in a figure of shares


def draw_estimates(table: pandas.DataFrame, logged: float, confidence: float) -> Figure:
    """Return the figure of off-policy estimates against the mean reward of the log.

    Parameters
    ----------
    table : DataFrame
        A row for each estimator with columns estimate, low and high.
    logged : float
        Mean reward of the log.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    Figure
        One panel.
    """
    legend = (
        Entry("estimate", "law", mark="dot"),
        Entry(f"{percent(confidence)} interval", "law"),
        Entry("mean reward of the log", "neutral", ":"),
    )

    def onto(axes: Axes) -> None:
        axes.axvline(logged, color=hex_of("neutral"), linestyle=":")
        finite = table[["low", "high"]].replace([np.inf, -np.inf], np.nan)
        intervals(axes, table["estimate"].to_numpy(), finite["low"].to_numpy(), finite["high"].to_numpy())
        row_axis(axes, list(table.index))
        axes.set_xlabel("mean reward per decision")

    return Figure("off-policy", "", (Panel("What the target would have earned", onto),), legend, 1, (6.4, 3.2))


def draw_episode_estimates(
    table: pandas.DataFrame, logged: float, confidence: float, recommended: str | None
) -> Figure:
    """Return the figure of off-policy estimates of episodes against the mean return of the log.

    Parameters
    ----------
    table : DataFrame
        A row for each estimator with columns estimate, low, high and answers.
    logged : float
        Mean return of the log.
    confidence : float
        Confidence of the intervals.
    recommended : str, optional
        Estimator whose name is marked.

    Returns
    -------
    Figure
        One panel.
    """
    legend = (
        Entry("estimate", "law", mark="dot"),
        Entry(f"{percent(confidence)} interval", "law"),
        Entry("the log cannot answer", "neutral", mark="ring"),
        Entry("mean return of the log", "neutral", ":"),
    )
    shown = table[table["estimate"].notna()]
    good = shown["answers"].to_numpy(dtype=np.bool_)
    middle = shown["estimate"].to_numpy()
    finite = shown[["low", "high"]].replace([np.inf, -np.inf], np.nan)
    low, high = finite["low"].fillna(shown["estimate"]).to_numpy(), finite["high"].fillna(shown["estimate"]).to_numpy()

    def onto(axes: Axes) -> None:
        axes.axvline(logged, color=hex_of("neutral"), linestyle=":")
        rows = np.arange(len(shown))
        for which, colour, face in ((good, "law", None), (~good, "neutral", "none")):
            axes.hlines(rows[which], low[which], high[which], color=hex_of(colour), linewidth=2)
            colours: dict[str, Any] = {"color": hex_of(colour), "markerfacecolor": face or hex_of(colour)}
            axes.plot(middle[which], rows[which], "o", markersize=5, linestyle="none", **colours)
        row_axis(axes, [f"{name} (recommended)" if name == recommended else str(name) for name in shown.index])
        if good.any() and not good.all():  # an estimate that does not answer may be anywhere
            ends = np.array([*low[good], *high[good], logged])
            reach = 0.75 * max(float(np.ptp(ends)), 1e-9 * max(abs(logged), 1.0))
            left, right = axes.get_xlim()
            axes.set_xlim(max(left, float(ends.min()) - reach), min(right, float(ends.max()) + reach))
        axes.set_xlabel("mean return of an episode")

    panel = Panel("What the policy would have earned", onto)
    return Figure("off-policy-episodes", "", (panel,), legend, 1, (6.4, 1.4 + 0.3 * len(shown)))


def draw_steps(table: pandas.DataFrame, episodes: int) -> Figure:
    """Return the figure of the effective number of episodes by step.

    Parameters
    ----------
    table : DataFrame
        A row for each step with columns episodes and ess.
    episodes : int
        Number of episodes of the log.

    Returns
    -------
    Figure
        One panel.
    """
    legend = (Entry("effective number of episodes", "law"), Entry("episodes that last so long", "neutral", "--"))

    def onto(axes: Axes) -> None:
        steps = np.asarray(table.index, dtype=np.float64)
        axes.plot(steps, np.maximum(table["ess"], 0.5), color=hex_of("law"))
        axes.plot(steps, table["episodes"], color=hex_of("neutral"), linestyle="--")
        axes.set(ylabel="episodes", yscale="log", ylim=(0.5, 2.0 * episodes))
        count_axis(axes, "step")

    return Figure("off-policy-steps", "", (Panel("How many episodes count", onto),), legend, 1, (6.4, 3.2))


def draw_reward(curve: pandas.DataFrame, name: str, confidence: float) -> Figure:
    """Return the figure of an estimate over the rows of the log beside the mean reward of the log.

    Parameters
    ----------
    curve : DataFrame
        A row for each point, indexed by the number of rows, with columns estimate, low, high, logged, logged_low and
        logged_high.
    name : str
        Name of the estimate.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    Figure
        One panel.
    """
    legend = (
        Entry(f"target ({name})", "law"),
        Entry("log", "neutral"),
        Entry(f"{percent(confidence)} interval", "neutral", mark="area"),
    )

    def onto(axes: Axes) -> None:
        late = curve.iloc[len(curve) // 20 :]  # the intervals of the first rows are too wide to show
        x = np.asarray(late.index, dtype=np.float64)
        for middle, limits, colour in (("estimate", "", "law"), ("logged", "logged_", "neutral")):
            axes.plot(x, late[middle], color=hex_of(colour))
            low, high = late[f"{limits}low"], late[f"{limits}high"]
            axes.fill_between(x, low, high, color=hex_of(colour), alpha=0.16, linewidth=0)
        count_axis(axes, str(curve.index.name or "rows"))
        axes.set_ylabel("mean reward so far")

    return Figure("reward", "", (Panel("Mean reward so far", onto),), legend, 1, (6.4, 3.4))


def draw_propensities(target: pandas.DataFrame, logged: pandas.DataFrame) -> Figure:
    """Return the figure of the arms' chances over the rows of the log.

    Parameters
    ----------
    target, logged : DataFrame
        Mean chance of each arm (a column) in the rows up to each point (the index): under the target policy, and as
        chosen in the log.

    Returns
    -------
    Figure
        Two panels.
    """
    target, logged = _coarse(target), _coarse(logged)
    likeliest = target.mean().sort_values(ascending=False, kind="stable").index[: len(PALETTE)]
    colours = dict(zip(likeliest, PALETTE, strict=False))
    legend = [Entry(str(arm), colour) for arm, colour in colours.items()]
    others = [arm for arm in target.columns if arm not in colours]
    if others:
        legend.append(Entry(f"{len(others)} other arms together", "neutral"))

    def lines(shares: pandas.DataFrame) -> list[tuple[Any, str]]:
        pairs: list[tuple[Any, str]] = [(shares[arm], colour) for arm, colour in colours.items()]
        return [*pairs, (shares[others].sum(axis=1), "neutral")] if others else pairs

    top = max(float(line.max()) for shares in (target, logged) for line, _ in lines(shares))

    def panel(title: str, shares: pandas.DataFrame) -> Panel:
        def onto(axes: Axes) -> None:
            for line, colour in lines(shares):
                axes.plot(np.asarray(shares.index, dtype=np.float64), line, color=hex_of(colour))
            axes.set(ylabel="chance", ylim=(0.0, min(1.02, 1.1 * top)))
            count_axis(axes, str(shares.index.name or "rows"))

        return Panel(title, onto)

    return Figure("propensities", "", (panel("Target", target), panel("Log", logged)), tuple(legend))


def draw_settings(table: pandas.DataFrame, confidence: float) -> Figure:
    """Return the figure of mean rewards of settings with their intervals.

    Parameters
    ----------
    table : DataFrame
        A row for each setting, in order, with columns mean, low and high.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    Figure
        One panel.
    """
    legend = (Entry("mean", "law", mark="dot"), Entry(f"{percent(confidence)} interval", "law"))

    def onto(axes: Axes) -> None:
        intervals(axes, table["mean"].to_numpy(), table["low"].to_numpy(), table["high"].to_numpy())
        row_axis(axes, list(table.index))
        axes.set_xlabel("mean reward per decision")

    return Figure("settings", "", (Panel("Settings replayed", onto),), legend, 1, (6.4, 1.0 + 0.35 * len(table)))


def _coarse(shares: pandas.DataFrame) -> pandas.DataFrame:
    """Return the shares averaged over at most MAX_SPANS spans: shares of few rows are noisy."""
    step = -(-len(shares) // MAX_SPANS)
    spans = np.arange(len(shares)) // step
    ends = shares.index[np.minimum(np.arange(spans[-1] + 1) * step + step, len(shares)) - 1]
    return shares.groupby(spans).mean().set_axis(ends, axis=0)
