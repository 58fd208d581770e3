"""Samples against a normal law: kernel densities, and quantiles against quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv

from ..._support.intervals import mean_and_half_width
from ...types import FloatArray
from ..style import Entry, hex_of
from .base import BAND, CONFIDENCE, Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = (("other", "--", "ring"), ("ink", "-", "dot"))  # colour, dash and mark of the first and the second series


@dataclass(frozen=True)
class Samples:
    """Samples of several series in several panels, and the normal law that they are compared with.

    Attributes
    ----------
    values : ndarray [series, panels, R]
        The samples.
    series : list of str
        Names of the series.
    titles : list of str
        Titles of the panels.
    mean, sd : float
        Mean and standard deviation of the law.
    """

    values: FloatArray
    series: list[str]
    titles: list[str]
    mean: float
    sd: float

    @property
    def law(self) -> NormalDist:
        """The normal law."""
        return NormalDist(self.mean, self.sd)

    @property
    def limits(self) -> tuple[float, float]:
        """Range of the samples and of the law."""
        reach = 4 * self.sd
        return min(float(self.values.min()), self.mean - reach), max(float(self.values.max()), self.mean + reach)

    @property
    def entries(self) -> list[Entry]:
        """Legend entries of the series."""
        looks = [*LOOKS, *[("other", "-", "dot")] * len(self.series)]
        return [Entry(f"{name} values", *look) for name, look in zip(self.series, looks, strict=False)]


def draw_densities(name: str, title: str, samples: Samples, label: str) -> Figure:
    """Return the figure of kernel densities beside the density of the law."""
    law, values, (low, high) = samples.law, samples.values, samples.limits
    entries = [entry._replace(mark="line") for entry in samples.entries]
    x = np.linspace(low, high, 161)
    # The kernel density is a mean over replications, so its band is that of any mean. Silverman's rule.
    width = 1.06 * np.maximum(values.std(axis=2), 1e-9 * law.stdev) * values.shape[2] ** -0.2
    standard = (x - values[..., np.newaxis]) / width[..., np.newaxis, np.newaxis]  # [series, panel, R, x]
    heights = np.exp(-0.5 * standard**2) / (width[..., np.newaxis, np.newaxis] * np.sqrt(2 * np.pi))
    middle, half = mean_and_half_width(heights, CONFIDENCE, axis=2)
    top = 1.05 * max(float(np.nanmax(np.fmax(middle + half, middle))), law.pdf(law.mean))

    def density(i: int, axes: Axes) -> None:
        axes.plot(x, [law.pdf(point) for point in x], color=hex_of("law"), linewidth=2.4)
        for entry, line, spread in zip(entries, middle[:, i], half[:, i], strict=True):
            colour = hex_of(entry.colour)
            axes.fill_between(x, np.maximum(line - spread, 0), line + spread, color=colour, alpha=0.12, linewidth=0)
            axes.plot(x, line, color=colour, linestyle=entry.dash)
        axes.set(xlim=(low, high), ylim=(0.0, top), xlabel=label, ylabel="density")

    panels = tuple(Panel(heading, partial(density, i)) for i, heading in enumerate(samples.titles))
    return Figure(name, title, panels, (Entry("limit law", "law"), *entries, BAND))


def draw_quantiles(name: str, title: str, samples: Samples) -> Figure:
    """Return the figure of observed quantiles against those of the law, with the band of samples from the law."""
    law, values = samples.law, samples.values
    count = values.shape[2]
    rank = np.arange(1, count + 1)
    theory = np.array([law.inv_cdf(p) for p in (rank - 0.5) / count])
    # Order statistic j of a sample from the limit law is Beta(j, n + 1 - j) on the scale of its cdf.
    edges = [
        [law.inv_cdf(min(max(p, 1e-15), 1 - 1e-15)) for p in betaincinv(rank, count + 1 - rank, tail)]
        for tail in (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)
    ]

    def against(i: int, axes: Axes) -> None:
        axes.fill_between(theory, edges[0], edges[1], color=hex_of("law"), alpha=0.18, lw=0)
        axes.plot(theory[[0, -1]], theory[[0, -1]], color=hex_of("law"), linewidth=1.6)
        for entry, sample in zip(samples.entries, values[:, i], strict=True):
            colour = hex_of(entry.colour)
            look: Any = {"markersize": 3.6, "markeredgewidth": 0.6, "markeredgecolor": colour}
            look |= {"marker": "o", "markerfacecolor": "none"} if entry.mark == "ring" else {"marker": "."}
            axes.plot(theory, np.sort(sample), linestyle="none", color=colour, **look)
        axes.set(ylim=samples.limits, xlabel="quantile of the limit law", ylabel="observed quantile")

    panels = tuple(Panel(heading, partial(against, i)) for i, heading in enumerate(samples.titles))
    legend = (Entry("limit law; band: 95% of samples from it", "law"), *samples.entries)
    return Figure(name, title, panels, legend, size=(4.3, 3.4))
