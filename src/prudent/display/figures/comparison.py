"""Figure of a decision beside a new log: what was promised and what is earned, and the changes that matter most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...types import FloatArray
from ..style import Entry, hex_of
from .base import PALETTE, Figure, Panel, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 12  # changes in the figure


def draw(
    names: Sequence[str], returns: FloatArray, confidence: float, changes: Sequence[str], worth: FloatArray
) -> Figure:
    """Return the figure of a comparison.

    Parameters
    ----------
    names : sequence of str
        What the returns are of.
    returns : ndarray of shape (3, n)
        Mean, low and high of each return.
    confidence : float
        Probability of the intervals.
    changes : sequence of str
        States where the new policy differs, with both actions, most important first.
    worth : ndarray of shape (len(changes),)
        What each change adds to the mean return.

    Returns
    -------
    Figure
        Returns with intervals; and the most important changes, if there are any.
    """

    def intervals(axes: Axes) -> None:
        place = -np.arange(len(names))
        mean, low, high = returns
        axes.hlines(place, low, high, color=hex_of(PALETTE[0]), lw=2.5)
        axes.plot(mean, place, "o", color=hex_of(PALETTE[0]), ms=7)
        axes.set(xlabel="return from the start", ylim=(0.6 - len(names), 0.6))
        axes.set_yticks(place, labels(list(names), 40))
        axes.grid(axis="y", visible=False)

    def bars(axes: Axes) -> None:
        shown = len(worth[:SHOWN])
        place = -np.arange(shown)
        axes.axvline(0.0, color=hex_of("neutral"), lw=1.0)
        axes.barh(place, worth[:SHOWN], height=0.6, color=hex_of(PALETTE[1]))
        axes.set(xlabel="what the change adds to the mean return", ylim=(0.6 - shown, 0.6))
        axes.set_yticks(place, labels(list(changes[:SHOWN]), 40))
        axes.grid(axis="y", visible=False)

    panels = [Panel(f"Returns, with intervals of {confidence:.0%} probability", intervals)]
    if len(changes):
        more = f" ({SHOWN} of {len(changes)})" if len(changes) > SHOWN else ""
        panels.append(Panel(f"Changes that matter most{more}", bars))
    legend = (Entry("mean and interval of the return", PALETTE[0], mark="dot"),)
    return Figure("comparison", "", tuple(panels), legend, 1, (6.4, 2.0 + 0.22 * min(len(changes), SHOWN)))
