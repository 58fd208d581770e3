"""The most valuable sources as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.frame import Figure, Panel
from ..display.style import Entry, hex_of
from .returns_figure import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .value_of_data import ValueOfData

__all__ = ["in_words", "value_of_data_figure"]

DRAWN = 15  # sources in a figure


def in_words(m: int) -> str:
    """Return ``3 more observations``."""
    return f"{m:,} more observation{'s' * (m > 1)}"


def _label(source: Any) -> str:
    """Return how a tick calls a source: ``ill, drug``."""
    if isinstance(source, int | np.integer):
        return f"source {source}"
    if not isinstance(source, tuple):
        return str(source)
    bare = all(isinstance(each, int) for each in source) and len(source) == 2
    return f"state {source[0]}, action {source[1]}" if bare else ", ".join(map(str, source))


def value_of_data_figure(result: ValueOfData) -> Figure:
    """Return gain, and rise of the value, of the first sources as bars with 95% intervals."""
    table = result.to_pandas()
    visible = [abs(table[name]) > 1e-4 * abs(table[name]).max() for name in ("gain", "value_change")]
    shown = table[visible[0] | visible[1]].head(DRAWN)
    rows = np.arange(len(shown))
    names = [shortened(_label(source), 40) for source in shown["source"]]

    def bars(column: str, colour: str, label: str, ticks: list[str], title: str) -> Panel:
        value, error = shown[column].to_numpy(), 1.96 * shown[f"{column}_error"].to_numpy()
        noisy = error > 0.0

        def draw(axes: Axes) -> None:
            if not rows.size:
                axes.text(0.5, 0.5, "no source can change the decision", ha="center", transform=axes.transAxes)
            axes.barh(rows, value, color=hex_of(colour), height=0.65)
            axes.errorbar(
                value[noisy], rows[noisy], xerr=error[noisy], fmt="none", ecolor=hex_of("ink"), elinewidth=1.0
            )
            axes.set_yticks(rows, [text.replace("$", r"\$") for text in ticks])
            axes.set_ylim(max(rows.size, 3) - 0.4, -0.6)
            axes.set_xlabel(label)
            axes.axvline(0.0, color=hex_of("ink"), lw=0.7)
            axes.grid(axis="y", visible=False)

        return Panel(title, draw)

    some = f"{len(shown)} of {len(table)} sources" if len(shown) < len(table) else "of each source"
    panels = (
        bars("gain", "law", "expected gain of the mean return", names, f"{in_words(result.observations)}, {some}"),
        bars(
            "value_change",
            "brps-0.9",
            "expected rise of the value itself",
            [""] * rows.size,
            "Caution removed" if result.alpha else "",
        ),
    )
    legend = (Entry("95% interval, where data was sampled", "ink"),) if (shown["method"] == "sampled").any() else ()
    return Figure("value-of-data", "", panels, legend, 2, (4.6, max(2.0, 0.26 * rows.size + 0.9)))
