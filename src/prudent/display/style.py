"""Colours, dashes and the names of agents: one look in all figures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

# Okabe-Ito, safe for colour-blind eyes: on white, and on the dark page.
COLOURS = {
    "ink": ("#1b1c1e", "#e4e4e2"),
    "grid": ("#d9d9d6", "#3b3f45"),
    "neutral": ("#6b6b6e", "#a3a3a8"),
    "ts": ("#000000", "#c8c8c6"),
    "brps-0.5": ("#56b4e9", "#56b4e9"),
    "brps-0.8": ("#009e73", "#1fb88c"),
    "brps-0.9": ("#e69f00", "#e69f00"),
    "brps-0.99": ("#d55e00", "#ee7a22"),
    "optimistic": ("#cc79a7", "#d68fb7"),
    "law": ("#0072b2", "#4ba0d8"),
    "other": ("#8c564b", "#b58478"),
}
PAPER = "#ffffff"  # the background in files; none on the page
DASHES = ("-", "--", ":", "-.")
RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5,
    "text.color": COLOURS["ink"][0],
    "axes.labelcolor": COLOURS["ink"][0],
    "axes.edgecolor": COLOURS["ink"][0],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": COLOURS["grid"][0],
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": COLOURS["ink"][0],
    "ytick.color": COLOURS["ink"][0],
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "svg.fonttype": "path",
    "svg.hashsalt": "prudent",
}


class Entry(NamedTuple):
    """A line of a legend: what, in which colour of ``COLOURS``, and the mark: line, area, dot, ring, ..."""

    label: str
    colour: str
    dash: str = "-"
    mark: str = "line"


def agent_label(agent: str) -> str:
    """Return how figures and tables call an agent.

    >>> agent_label("BRPS-CMAB_nu 0.8")
    'BRPS-CMAB-ν, α = 0.8'
    >>> agent_label("BRPS-RL -0.8")
    'BRPS-RL, α = −0.8'
    """
    named = re.sub(r" (-?0?\.\d+)$", r", α = \1", agent.replace("_nu", "-ν"))
    return named.replace("= -", "= −")


def agent_styles(agents: Iterable[str]) -> list[Entry]:
    """Return the style of each agent: one colour per algorithm in all figures, dashes where two would be alike.

    >>> [(style.colour, style.dash) for style in agent_styles(["TS-CMAB", "TS-CMAB_nu", "BRPS-RL 0.9"])]
    [('ts', '-'), ('ts', '--'), ('brps-0.9', '-')]
    """
    styles: list[Entry] = []
    for agent in agents:
        level = "".join(re.findall(r"-?\d?\.\d+$", agent))
        rules = {
            "ts": agent.startswith("TS"),
            "brps-0.8": "unseen" in agent,
            "law": "falling" in agent or "halving" in agent,
            "optimistic": agent.lower().startswith("optimistic") or level.startswith("-"),
        }
        own = f"brps-{level}" if agent.startswith("BRPS") and f"brps-{level}" in COLOURS else "other"
        colour = next((name for name, fits in rules.items() if fits), own)
        taken = {style.dash for style in styles if style.colour == colour}
        free = [dash for dash in DASHES[1 if "_nu" in agent else 0 :] if dash not in taken]
        styles.append(Entry(agent_label(agent), colour, (free or DASHES)[0]))
    return styles


def hex_of(colour: str) -> str:
    """Return the colour in files, and on a light page."""
    return COLOURS[colour][0]


def css_variable(colour: str) -> str:
    """Return how the page's style sheet calls a colour.

    >>> css_variable("brps-0.9")
    '--brps-09'
    """
    return f"--{colour.replace('.', '')}"
