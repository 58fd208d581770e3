"""The distribution of simulated returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from .simulated_returns import Returns

__all__ = ["rollouts_figure"]

FEW = 25  # different returns that get a bar each
BINS = 60


def rollouts_figure(returns: Returns, alpha: float) -> Canvas:
    """Return the distribution with its mean, CVaR, EVaR and 5% quantile."""
    draws = np.asarray(returns)
    marks = (
        (float(draws.mean()), Entry("mean", "ink")),
        (float(np.quantile(draws, 0.05)), Entry("5% quantile", "brps-0.9", "-.")),
        (returns.cvar(alpha), Entry(f"CVaR, α = {alpha:g}", "brps-0.99", "--")),
        (returns.evar(alpha), Entry(f"EVaR, α = {alpha:g}", "law", ":")),
    )

    def onto(axes: Axes) -> None:
        levels, counts = np.unique(draws, return_counts=True)
        colour: Any = {"color": hex_of("law"), "alpha": 0.3, "linewidth": 0}
        if levels.size <= FEW:
            gap = float(np.diff(levels).min()) if levels.size > 1 else 1.0
            axes.bar(levels, counts / draws.size, width=max(0.8 * gap, 0.004 * float(np.ptp(levels))), **colour)
        else:
            axes.hist(draws, bins=BINS, weights=np.full(draws.size, 1.0 / draws.size), **colour)
        for place, entry in marks:
            axes.axvline(place, color=hex_of(entry.colour), linestyle=entry.dash)
        axes.set_xlabel(f"{returns.label} from {returns.start}")
        axes.set_ylabel("share of runs")
        axes.grid(axis="x", visible=False)

    legend = tuple(entry for _, entry in marks)
    title = f"What {draws.size:,} runs earn"
    return drawn(Figure("returns", "", (Panel(title, onto),), legend, 1, (6.0, 3.3)))
