"""How the gallery shows figures: in the look of the library, also those of `plot()`, which pyplot does not know."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure
from mkdocs_gallery.scrapers import matplotlib_scraper

from prudent.display.style import RC, hex_of

CYCLE = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "neutral", "brps-0.5", "ink")


def look(gallery_conf: Any, script: Any) -> None:
    """Set the look before each script."""
    plt.rcParams.update(RC)
    plt.rcParams["axes.prop_cycle"] = cycler(color=[hex_of(name) for name in CYCLE])
    plt.rcParams["figure.constrained_layout.use"] = True


def figures(block: Any, script: Any) -> str:
    """Return the Markdown of all figures of a cell: those of pyplot, and new ones among the names of the script."""
    for value in list(script.run_vars.example_globals.values()):
        if isinstance(value, Figure) and not hasattr(value, "in_gallery"):
            plt.figure(value)
    for number in plt.get_fignums():
        plt.figure(number).in_gallery = True  # type: ignore[attr-defined]
    text = str(matplotlib_scraper(block, script))
    return text.replace("../images/", "images/")  # it takes every page for a folder, which ours are not


conf = {
    "image_scrapers": (figures,),
    "reset_modules": ("matplotlib", look),
    "image_srcset": ["2x"],
    "capture_repr": ("_repr_html_",),  # not what `legend()` returns at the end of a cell
    "remove_config_comments": True,
}
