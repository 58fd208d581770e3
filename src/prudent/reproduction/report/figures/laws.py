"""Samples beside a normal law: densities, and quantiles against quantiles.

A sample has the dimensions series, panel and replication, in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from ....display.frame import BAND, Figure, Panel
from ....display.style import Entry, hex_of
from ...._support.checks import FloatArray
from ...._support.intervals import mean_and_half_width
from ..results import LEVEL

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = ["densities", "quantiles"]

LOOKS = (("other", "--", "ring"), ("ink", "-", "dot"))  # of the first series and the second: colour, dash, mark


class _Sample(NamedTuple):
    """What both figures are drawn from."""

    law: NormalDist
    values: FloatArray  # [series, panel, R]
    entries: list[Entry]  # of the series, as lines
    titles: list[str]  # of the panels
    low: float
    high: float

    @classmethod
    def of(cls, data: xarray.Dataset, variable: str, mean: str, sd: str, panel: str) -> _Sample:
        law = NormalDist(float(data[mean]), float(data[sd]))
        sample = data[variable]
        series, across, _ = sample.dims
        looks = [*LOOKS, *[("other", "-", "dot")] * sample.shape[0]]
        return cls(
            law,
            np.asarray(sample.values),
            [
                Entry(f"{name} values", *look[:2])
                for name, look in zip(map(str, data[series].values), looks, strict=False)
            ],
            [f"{panel} {int(place):,}" for place in data[across].values],
            min(float(sample.min()), law.mean - 4 * law.stdev),
            max(float(sample.max()), law.mean + 4 * law.stdev),
        )


def densities(
    data: xarray.Dataset, name: str, title: str, *, variable: str, mean: str, sd: str, panel: str, label: str
) -> Figure:
    """Return the figure of kernel densities beside the density of the law with this mean and standard deviation."""
    law, values, entries, titles, low, high = _Sample.of(data, variable, mean, sd, panel)
    x = np.linspace(low, high, 161)
    # The kernel density is a mean over replications, so its band is that of any mean. Silverman's rule.
    width = 1.06 * np.maximum(values.std(axis=2), 1e-9 * law.stdev) * values.shape[2] ** -0.2
    standard = (x - values[..., np.newaxis]) / width[..., np.newaxis, np.newaxis]  # [series, panel, R, x]
    heights = np.exp(-0.5 * standard**2) / (width[..., np.newaxis, np.newaxis] * np.sqrt(2 * np.pi))
    middle, half = mean_and_half_width(heights, LEVEL, axis=2)
    top = 1.05 * max(float(np.nanmax(np.fmax(middle + half, middle))), law.pdf(law.mean))

    def density(i: int) -> Callable[[Axes], None]:
        def onto(axes: Axes) -> None:
            axes.plot(x, [law.pdf(point) for point in x], color=hex_of("law"), linewidth=2.4)
            for entry, line, spread in zip(entries, middle[:, i], half[:, i], strict=True):
                colour = hex_of(entry.colour)
                axes.fill_between(x, np.maximum(line - spread, 0), line + spread, color=colour, alpha=0.12, linewidth=0)
                axes.plot(x, line, color=colour, linestyle=entry.dash)
            axes.set_xlim(low, high)
            axes.set_ylim(0.0, top)
            axes.set_xlabel(label)
            axes.set_ylabel("density")

        return onto

    panels = tuple(Panel(each, density(i)) for i, each in enumerate(titles))
    return Figure(name, title, panels, (Entry("limit law", "law"), *entries, BAND))


def quantiles(data: xarray.Dataset, name: str, title: str, *, variable: str, mean: str, sd: str, panel: str) -> Figure:
    """Return the figure of observed quantiles against those of the law, with the band of samples from the law."""
    law, values, entries, titles, low, high = _Sample.of(data, variable, mean, sd, panel)
    marks = [look[2] for look in LOOKS] + ["dot"] * len(entries)
    dots = [entry._replace(mark=mark) for entry, mark in zip(entries, marks, strict=False)]
    count = values.shape[2]
    rank = np.arange(1, count + 1)
    theory = np.array([law.inv_cdf(p) for p in (rank - 0.5) / count])
    # Order statistic j of a sample from the limit law is Beta(j, n + 1 - j) on the scale of its cdf.
    edges = [
        [law.inv_cdf(min(max(p, 1e-15), 1 - 1e-15)) for p in betaincinv(rank, count + 1 - rank, tail)]
        for tail in (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
    ]

    def against(i: int) -> Callable[[Axes], None]:
        def onto(axes: Axes) -> None:
            axes.fill_between(theory, edges[0], edges[1], color=hex_of("law"), alpha=0.18, lw=0)
            axes.plot(theory[[0, -1]], theory[[0, -1]], color=hex_of("law"), linewidth=1.6)
            for dot, sample in zip(dots, values[:, i], strict=True):
                colour = hex_of(dot.colour)
                look: Any = {"markersize": 3.6, "markeredgewidth": 0.6, "markeredgecolor": colour}
                look |= {"marker": "o", "markerfacecolor": "none"} if dot.mark == "ring" else {"marker": "."}
                axes.plot(theory, np.sort(sample), linestyle="none", color=colour, **look)
            axes.set_ylim(low, high)
            axes.set_xlabel("quantile of the limit law")
            axes.set_ylabel("observed quantile")

        return onto

    panels = tuple(Panel(each, against(i)) for i, each in enumerate(titles))
    legend = (Entry("limit law; band: 95% of samples from it", "law"), *dots)
    return Figure(name, title, panels, legend, size=(4.3, 3.4))
