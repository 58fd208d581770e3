"""Histogram of simulated returns with the mean and risk measures marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import FloatArray
from ..style import Entry, hex_of
from .base import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

MAX_BARS = 25  # distinct returns up to which each has its own bar
BINS = 60


def draw(draws: FloatArray, *, quantile: float, cvar: float, evar: float, tail_alpha: float, label: str) -> Figure:
    """Return the figure of simulated returns.

    Parameters
    ----------
    draws : ndarray [N]
        Return of each run.
    quantile, cvar, evar : float
        The 5% quantile, the CVaR and the EVaR of the returns.
    tail_alpha : float
        Level of CVaR and EVaR.
    label : str
        Label of the axis of returns.

    Returns
    -------
    Figure
        One panel.
    """
    marks = (
        (float(draws.mean()), Entry("mean", "ink")),
        (quantile, Entry("5% quantile", "brps-0.9", "-.")),
        (cvar, Entry(f"CVaR, α = {tail_alpha:g}", "brps-0.99", "--")),
        (evar, Entry(f"EVaR, α = {tail_alpha:g}", "law", ":")),
    )

    def onto(axes: Axes) -> None:
        atoms, counts = np.unique(draws, return_counts=True)
        look: Any = {"color": hex_of("law"), "alpha": 0.3, "linewidth": 0}
        if atoms.size <= MAX_BARS:
            gap = float(np.diff(atoms).min()) if atoms.size > 1 else 1.0
            axes.bar(atoms, counts / draws.size, width=max(0.8 * gap, 0.004 * float(np.ptp(atoms))), **look)
        else:
            axes.hist(draws, bins=BINS, weights=np.full(draws.size, 1.0 / draws.size), **look)
        for value, entry in marks:
            axes.axvline(value, color=hex_of(entry.colour), linestyle=entry.dash)
        axes.set_xlabel(label)
        axes.set_ylabel("share of runs")
        axes.grid(axis="x", visible=False)

    panel = Panel(f"Returns of {draws.size:,} runs", onto)
    return Figure("returns", "", (panel,), tuple(entry for _, entry in marks), 1, (6.0, 3.3))
