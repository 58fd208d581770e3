"""Coefficients of the arms of a bandit with intervals: a panel for the intercepts, and one for each arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...types import FloatArray
from ..style import Entry, hex_of
from ..words import percent
from .base import Figure, Panel, label, row_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ARMS = 12
MAX_FEATURES = 24
_LONGEST = 24  # characters of a name


def draw(
    mean: FloatArray,
    sd: FloatArray,
    *,
    arms: Sequence[object],
    features: Sequence[str],
    score: str,
    confidence: float,
) -> Figure:
    """Return the figure of coefficients.

    Parameters
    ----------
    mean, sd : ndarray of float, [A, D]
        Posterior means and standard deviations. Of more than 24 features those whose means are the most standard
        deviations from zero are shown.
    arms : sequence
        Names of the A arms; the first 12 are shown.
    features : sequence of str
        Names of the D features. The intercept, if there is one, comes first and is called that.
    score : str
        What the coefficients add up to, for instance ``"mean reward"``.
    confidence : float
        Probability of an interval.

    Returns
    -------
    Figure
        Panels with common limits of the x axes, except for the intercepts.
    """
    from scipy.special import ndtri

    mean, reach = mean[:MAX_ARMS], float(ndtri(0.5 + 0.5 * confidence)) * sd[:MAX_ARMS]
    names = [label(f"arm {arm}" if isinstance(arm, (int, np.integer)) else arm, _LONGEST) for arm in arms[:MAX_ARMS]]
    first = int(features[:1] == ["intercept"])
    slopes = np.arange(first, len(features))
    if slopes.size > MAX_FEATURES:
        clear = (np.abs(mean[:, slopes]) / sd[:MAX_ARMS, slopes]).max(axis=0)
        slopes = np.sort(slopes[np.argsort(-clear, kind="stable")[:MAX_FEATURES]])
    shown = [label(features[j], _LONGEST) for j in slopes.tolist()]
    panels = [_panel("Intercept", names, mean[:, 0], reach[:, 0], f"{score} at zero")] * first
    if slopes.size:
        low, high = ((mean + side * reach)[:, slopes] for side in (-1, 1))
        limits = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
        text = f"coefficient ({score})"
        panels += [
            _panel(name, shown, centre, width, text, limits)
            for name, centre, width in zip(names, mean[:, slopes], reach[:, slopes], strict=True)
        ]
    legend = (Entry(f"{percent(confidence)} interval", "law"), Entry("the interval holds zero", "neutral"))
    columns = min(len(panels), 2 if len(panels) == 4 else 3)
    size = (3.6, max(1.7, 0.19 * max(len(names) * first, slopes.size) + 0.9))
    return Figure("coefficients", "", tuple(panels), legend if slopes.size else legend[:1], columns, size)


def _panel(
    title: str,
    names: list[str],
    mean: FloatArray,
    reach: FloatArray,
    text: str,
    limits: tuple[float, float] | None = None,
) -> Panel:
    """Return a panel of intervals; with ``limits`` of the x axis, those that hold zero are marked."""

    def draw_rows(axes: Axes) -> None:
        rows = np.arange(len(names))
        clear = (np.abs(mean) > reach) | (limits is None)
        if limits is not None:
            axes.axvline(0.0, color=hex_of("ink"), linewidth=0.7)
        for at, colour in ((clear, "law"), (~clear, "neutral")):
            axes.hlines(rows[at], (mean - reach)[at], (mean + reach)[at], color=hex_of(colour), linewidth=1.6)
            axes.plot(mean[at], rows[at], "o", markersize=4, color=hex_of(colour), linestyle="none")
        row_axis(axes, names, above=0.6, below=0.6)
        axes.set_xlabel(text)
        if limits is not None and limits[1] > limits[0]:
            room = 0.04 * (limits[1] - limits[0])
            axes.set_xlim(limits[0] - room, limits[1] + room)

    return Panel(title, draw_rows)
