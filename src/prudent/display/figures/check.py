"""Promised and honest values of policies, beside what the log did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..style import Entry, hex_of
from ..words import percent
from .base import Figure, Panel, intervals, label, row_axis

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MAX_ROWS = 24


def draw(table: pandas.DataFrame, best: int, confidence: float) -> Figure:
    """Return the figure of promised and honest values.

    Parameters
    ----------
    table : DataFrame
        A row for each design and level with columns design, alpha (NaN for what the log did), promised, honest, low
        and high.
    best : int
        The recommended row.
    confidence : float
        Confidence of the intervals.

    Returns
    -------
    Figure
        One panel.
    """
    logged = table["alpha"].isna().to_numpy()
    order = np.argsort(-table["honest"].to_numpy(), kind="stable")
    rows = [best, *(i for i in order.tolist() if i != best and not logged[i])][:MAX_ROWS]
    shown = table.iloc[rows]
    done = float(table["honest"][logged & (table["design"] == table["design"].iloc[best]).to_numpy()].iloc[0])
    several = table["design"].nunique() > 1
    names = [
        (f"{label(row.design)}, " if several else "") + f"level {row.alpha:g}" + (" *" if i == 0 else "")
        for i, row in enumerate(shown.itertuples())
    ]
    legend = (
        Entry("promised by the model that chose it", "brps-0.9", mark="dot"),
        Entry(f"honest: by the other episodes, {percent(confidence)} interval", "law", mark="dot"),
        Entry("what the log did", "neutral", ":"),
    )

    def onto(axes: Axes) -> None:
        axes.axvline(done, color=hex_of("neutral"), linestyle=":")
        intervals(axes, *(shown[name].to_numpy() for name in ("honest", "low", "high")))
        places = np.arange(len(shown))
        axes.plot(shown["promised"], places, "o", color=hex_of("brps-0.9"), markersize=5, linestyle="none")
        row_axis(axes, names)
        axes.set_xlabel("discounted return from the start")

    title = "Promised and honest values; *: best by this check"
    return Figure("check", "", (Panel(title, onto),), legend, 1, (6.4, 1.6 + 0.35 * len(shown)))
