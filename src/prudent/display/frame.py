"""Old names of ``prudent.display.figures.base``, until all figures have moved there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .figures.base import BAND, Figure, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

__all__ = ["BAND", "Figure", "Panel", "drawn"]


def drawn(figure: Figure) -> Canvas:
    """Return the matplotlib figure."""
    return figure.to_matplotlib()
