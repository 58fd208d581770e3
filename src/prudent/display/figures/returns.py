"""Distributions of returns: of several policies over the posterior, and of simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import FloatArray
from ..style import Entry, hex_of
from ..words import percent
from .base import Figure, Panel, kernel_density, labels, row_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 0.8  # of a density, in rows
MAX_BARS = 25  # distinct simulated returns up to which each has its own bar
BINS = 60


def draw(
    draws: FloatArray,
    names: Sequence[object],
    *,
    mean: FloatArray,
    cvar: FloatArray,
    quantile: FloatArray,
    risk_value: FloatArray,
    tail_alpha: float,
    probability: float,
    start: str,
) -> Figure:
    """Return the figure of returns over the posterior.

    Parameters
    ----------
    draws : ndarray [N, J]
        Return of each policy under each posterior draw.
    names : sequence
        Names of the J policies; a float is a risk level.
    mean, cvar, quantile, risk_value : ndarray [J]
        Points to mark for each policy. NaN marks nothing.
    tail_alpha : float
        Level of the CVaR.
    probability : float
        Probability of the quantile.
    start : str
        Start of the process in words.

    Returns
    -------
    Figure
        One panel.
    """
    rows_named = labels((f"α = {name:g}" if isinstance(name, float) else name for name in names), 32)
    marks = [
        (mean, "o", Entry("mean", "ink", mark="dot")),
        (cvar, "o", Entry(f"CVaR, α = {tail_alpha:g}", "brps-0.99", mark="ring")),
        (quantile, "s", Entry(f"{percent(probability)} quantile", "brps-0.9", mark="square")),
    ]
    if np.isfinite(risk_value).any():
        marks.append((risk_value, "D", Entry("Bayesian-risk value (not a forecast)", "neutral", mark="diamond")))

    def onto(axes: Axes) -> None:
        for row, sample in enumerate(draws.T):
            _draw_density(axes, sample, row)
        rows = np.arange(len(rows_named))
        for values, marker, entry in marks:
            colour = hex_of(entry.colour)
            look: Any = {"markerfacecolor": colour if entry.mark == "dot" else "none", "markersize": 5.5, "zorder": 4}
            axes.plot(values, rows, marker=marker, color=colour, linestyle="none", **look)
        row_axis(axes, rows_named, above=0.95, below=0.35)
        axes.set(xlabel=f"discounted return from {start}", xmargin=0.03)
        low, high = axes.get_xlim()
        size = max(abs(low), abs(high))
        if high - low < 1e-6 * size:  # all the same: do not magnify rounding
            axes.set_xlim(low - 0.01 * size, high + 0.01 * size)

    size = (6.4, max(2.4, 0.75 + 0.6 * len(rows_named)))  # readable on a narrow page too
    legend = (Entry("true return over the posterior", "law", mark="area"), *(entry for *_, entry in marks))
    panel = Panel("True returns over the posterior", onto)
    return Figure("returns", "Returns over the posterior", (panel,), legend, 1, size)


def _draw_density(axes: Axes, sample: FloatArray, row: int) -> None:
    """Draw a kernel density above the line ``row``; a sample without spread is a vertical stroke."""
    colour = hex_of("law")
    x, height = kernel_density(sample)
    if not x.size:
        axes.plot([sample[0], sample[0]], [row, row - HEIGHT], color=colour)
        return
    top = row - HEIGHT * height
    axes.fill_between(x, row, top, color=colour, alpha=0.25, linewidth=0)
    axes.plot(x, top, color=colour, linewidth=1.2)
    axes.plot(x[[0, -1]], [row, row], color=colour, linewidth=0.8)


def draw_simulated(
    draws: FloatArray, *, quantile: float, cvar: float, evar: float, tail_alpha: float, x_label: str
) -> Figure:
    """Return the figure of simulated returns.

    Parameters
    ----------
    draws : ndarray [N]
        Return of each run.
    quantile, cvar, evar : float
        The 5% quantile, the CVaR and the EVaR of the returns.
    tail_alpha : float
        Level of CVaR and EVaR.
    x_label : str
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
        axes.set(xlabel=x_label, ylabel="share of runs")
        axes.grid(axis="x", visible=False)

    panel = Panel(f"Returns of {draws.size:,} runs", onto)
    return Figure("returns", "", (panel,), tuple(entry for _, entry in marks), 1, (6.0, 3.3))
