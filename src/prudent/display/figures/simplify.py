"""Figure of simplified policies: what is lost with fewer rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...types import FloatArray, IntArray
from ..style import Entry, hex_of
from .base import PALETTE, Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(rules: IntArray, mean: FloatArray, worst: FloatArray | None, full: float, start: str) -> Figure:
    """Return the loss of return by the number of rules: on average, and the mean of the worst tenth of the posterior.

    ``full`` is the return of the whole policy from ``start``, in words.
    """

    def curve(axes: Axes) -> None:
        axes.axhline(0.0, color=hex_of("neutral"), lw=1.0)
        axes.plot(rules, mean, "o-", color=hex_of(PALETTE[0]), ms=6)
        if worst is not None:
            axes.plot(rules, worst, "s--", color=hex_of(PALETTE[1]), ms=5)
        axes.set(xlabel="number of rules", ylabel=f"return lost, of {full:.4g}")
        axes.set_xticks(rules)

    legend = [Entry("on average", PALETTE[0], mark="dot")]
    if worst is not None:
        legend.append(Entry("worst tenth of the posterior", PALETTE[1], mark="dot"))
    return Figure("simplify", "", (Panel(f"What fewer rules lose, from {start}", curve),), tuple(legend), 1, (5.6, 3.4))
