"""The distributions of returns over the posterior, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import FloatArray
from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of
from ..errors import DataError

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["plot_returns", "returns_figure", "shortened"]


POINTS = 201  # of a density


def plot_returns(returns: xarray.Dataset) -> Canvas:
    """Return a figure of matplotlib: the distribution of the true return of each policy, one above the other.

    ``returns`` is what :func:`posterior_returns` gave. Marked are the mean, the lowest of the quantiles, the CVaR and,
    for a policy that came as a :class:`Solution`, its Bayesian-risk value: it takes the risk anew at every step, and so
    may lie far to the left of all returns.

    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.2], [1.0, 0.0]], discount=0.9)
    >>> figure = plot_returns(pr.analysis.posterior_returns(model, model.prior(), {"a": [0, 0], "b": [1, 0]}, rng=0))
    >>> len(figure.axes)
    1
    """
    return drawn(returns_figure(returns))


def returns_figure(returns: xarray.Dataset) -> Figure:
    """Return the same as panels for a page."""
    missing = {"returns", "mean", "cvar", "quantile", "risk_value"} - set(getattr(returns, "data_vars", ()))
    if missing:
        raise DataError(f"expected a dataset of posterior_returns; it has no variable {min(missing)!r}")
    data = np.asarray(returns.returns.values)
    names = [shortened(f"α = {n:g}" if isinstance(n, float) else n, 32) for n in returns.policy.values]
    level, alpha = float(returns.level.values[0]), float(returns.attrs["alpha"])
    valued = bool(np.isfinite(returns.risk_value.values).any())
    entries = [
        Entry("true return over the posterior", "law", mark="area"),
        Entry("mean", "ink", mark="dot"),
        Entry(f"CVaR, α = {alpha:g}", "brps-0.99", mark="ring"),
        Entry(f"{100 * level:g}% quantile", "brps-0.9", mark="square"),
    ]
    if valued:
        entries.append(Entry("Bayesian-risk value (no forecast)", "neutral", mark="diamond"))

    def onto(axes: Axes) -> None:
        height = 0.8
        for row, draws in enumerate(data.T):
            _density(axes, draws, row, height)
            marks = (
                (returns["mean"].values[row], "o", "ink", True),
                (returns["cvar"].values[row], "o", "brps-0.99", False),
                (returns["quantile"].values[row, 0], "s", "brps-0.9", False),
                (returns["risk_value"].values[row], "D", "neutral", False),
            )
            for value, marker, colour, solid in marks:
                look: Any = {"markerfacecolor": hex_of(colour) if solid else "none", "markersize": 5.5, "zorder": 4}
                axes.plot([value], [row], marker=marker, color=hex_of(colour), linestyle="none", **look)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 1 + 0.35, -0.95)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"discounted return from {returns.attrs['start']}")
        axes.margins(x=0.03)
        low, high = axes.get_xlim()
        size = max(abs(low), abs(high))
        if high - low < 1e-6 * size:  # all the same: rounding is nothing to look at
            axes.set_xlim(low - 0.01 * size, high + 0.01 * size)

    size = (6.4, max(2.4, 0.75 + 0.6 * len(names)))  # readable on a narrow page too
    return Figure(
        "returns",
        "Returns over the posterior",
        (Panel("True returns over the posterior", onto),),
        tuple(entries),
        1,
        size,
    )


def shortened(name: Any, most: int) -> str:
    """Return a name in at most so many letters: its beginning and its end, which tell numbered names apart.

    >>> shortened("ward 14, patient type 143", 16)
    'ward 14…type 143'
    """
    text = str(name)
    text = text if len(text) <= most else f"{text[: most // 2 - 1].rstrip(' ,')}…{text[-(most // 2) :].lstrip()}"
    return text.replace("$", r"\$")  # no mathematics by accident


def _density(axes: Axes, draws: FloatArray, row: float, height: float) -> None:
    """Draw a kernel density above the line ``row``; a distribution without spread is a stroke."""
    low, high = float(draws.min()), float(draws.max())
    colour = hex_of("law")
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        axes.plot([low, low], [row, row - height], color=colour)
        return
    quartiles = np.quantile(draws, (0.25, 0.75))
    spread = min(float(draws.std()), float(quartiles[1] - quartiles[0]) / 1.349) or float(draws.std())
    width = max(0.9 * spread * draws.size**-0.2, 1e-3 * (high - low))  # Silverman's rule
    x = np.linspace(low, high, POINTS)
    density = np.zeros(POINTS)
    for part in np.array_split(draws, -(-draws.size // 10_000)):
        density += np.exp(-0.5 * ((x[:, np.newaxis] - part) / width) ** 2).sum(axis=1)
    top = row - height * density / density.max()
    axes.fill_between(x, row, top, color=colour, alpha=0.25, linewidth=0)
    axes.plot(x, top, color=colour, linewidth=1.2)
    axes.plot([low, high], [row, row], color=colour, linewidth=0.8)
