"""The figures: one module for each kind of picture, a frame around them, and one style."""

from __future__ import annotations

from collections.abc import Callable

from ....display.frame import Figure, Panel, inline_panels, save
from ....display.style import COLOURS, Entry, agent_label, agent_styles, css_variable
from .curves import curves
from .laws import densities, quantiles
from .multiples import multiples
from .policy import policy

__all__ = [
    "COLOURS",
    "KINDS",
    "Entry",
    "Figure",
    "Panel",
    "agent_label",
    "agent_styles",
    "css_variable",
    "inline_panels",
    "save",
]

KINDS: dict[str, Callable[..., Figure]] = {
    "curves": curves,
    "densities": densities,
    "multiples": multiples,
    "policy": policy,
    "quantiles": quantiles,
}
"""The function that draws each kind of figure: it takes the dataset, the name, the title and the options."""
