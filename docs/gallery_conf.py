"""How the gallery shows figures: in the look of the library, and those that `plot()` returns, which pyplot does not know."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure
from mkdocs_gallery.scrapers import matplotlib_scraper

from prudent._drawing.style import RC, hex_of

CYCLE = ("law", "brps-0.9", "brps-0.8", "brps-0.99", "optimistic", "neutral", "brps-0.5", "ink")


def look(gallery_conf: Any, script: Any) -> None:
    """Set the look before each script."""
    plt.rcParams.update(RC)
    plt.rcParams["axes.prop_cycle"] = cycler(color=[hex_of(name) for name in CYCLE])
    plt.rcParams["figure.constrained_layout.use"] = True


def figures(block: Any, script: Any) -> str:
    """Return the Markdown of all figures of a cell: those of pyplot, and new ones among the names of the script."""
    known = script.run_vars.__dict__.setdefault("figures_shown", [])
    for value in list(script.run_vars.example_globals.values()):
        if isinstance(value, Figure) and not any(value is one for one in known):
            known.append(value)
            plt.figure(value)
    known += [plt.figure(number) for number in plt.get_fignums()]
    return str(matplotlib_scraper(block, script))


conf = {"image_scrapers": (figures,), "reset_modules": ("matplotlib", look), "image_srcset": ["2x"]}
