"""Figure of a plan that learns: how likely each action is at each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...types import FloatArray
from ..style import Entry, hex_of
from ..words import shorten
from .base import PALETTE, Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(shares: FloatArray, actions: Sequence[str]) -> Figure:
    """Return the probabilities [T, A] of the actions over time, stacked; actions beyond the colours are one band."""
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    order = order[shares.sum(axis=0)[order] > 0.0]
    shown, rest = order[: len(PALETTE)], order[len(PALETTE) :]
    if rest.size:
        shown, rest = order[: len(PALETTE) - 1], order[len(PALETTE) - 1 :]
    bands = [*(shares[:, a] for a in shown), *([shares[:, rest].sum(axis=1)] if rest.size else [])]
    labels = [*(shorten(actions[a], 40) for a in shown), *([f"{rest.size} other actions"] if rest.size else [])]
    times = np.arange(shares.shape[0] + 1)

    def stacked(axes: Axes) -> None:
        below = np.zeros(times.size)
        for colour, band in zip(PALETTE, bands, strict=False):
            top = below + np.append(band, band[-1])
            axes.fill_between(times, below, top, step="post", color=hex_of(colour), lw=0.4, ec="white")
            below = top
        axes.set(xlabel="time (steps taken)", ylabel="probability of the action", ylim=(0.0, 1.0))
        axes.set_xlim(0, times[-1])
        axes.xaxis.get_major_locator().set_params(integer=True)

    legend = tuple(Entry(label, colour, mark="dot") for label, colour in zip(labels, PALETTE, strict=False))
    panel = Panel("What the plan does, as the posterior predicts", stacked)
    return Figure("learning", "", (panel,), legend, 1, (5.6, 3.4))
