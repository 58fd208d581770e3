"""Frame of a page: one HTML file with figures and style inside, for light and dark themes, wide and narrow screens."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from ..figures.base import Figure
from ..style import COLOURS, Entry, css_variable
from .tables import rich

PAGE_COLOURS = {
    "page": ("#ffffff", "#15171a"),
    "card": ("#f5f5f3", "#1e2125"),
    "line": ("#dededa", "#34383e"),
    "soft": ("#5d5f63", "#a3a6ab"),
    "link": ("#005a8f", "#7cc0ee"),
    "bad": ("#b02a1b", "#ff8a75"),
    "open": ("#7a5a00", "#e8bf4d"),
    "good": ("#00694c", "#4fd1a5"),
}


class Part(NamedTuple):
    """A section of a page.

    Attributes
    ----------
    name : str
        Identifier of the section, the target of links.
    title : str
        Heading, as text.
    body : str
        Content, as HTML.
    """

    name: str
    title: str
    body: str

    def html(self) -> str:
        """Return the section."""
        return f'<section id="{escape(self.name, quote=True)}"><h2>{escape(self.title)}</h2>{self.body}</section>'


def document(title: str, head: str, parts: Sequence[Part]) -> str:
    """Return a page.

    Parameters
    ----------
    title : str
        Title, as text.
    head : str
        Content below the title, as HTML.
    parts : sequence of Part
        Sections, which the table of contents lists.

    Returns
    -------
    str
        The HTML document.
    """
    contents = "".join(
        f'<li><a href="#{escape(part.name, quote=True)}">{escape(part.title)}</a></li>' for part in parts
    )
    sections = "\n".join(part.html() for part in parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{_colour_rules()}
{files(__package__).joinpath("style.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div class="layout">
<header>
<h1>{escape(title)}</h1>
{head}
</header>
<div class="columns">
<nav aria-label="Contents"><h2>Contents</h2><ol>{contents}</ol></nav>
<main id="main">
{sections}
</main>
</div>
</div>
</body>
</html>
"""


def _swatch(entry: Entry) -> str:
    colour = f"var({css_variable(entry.colour)})"
    dashes = {"--": "5 3", ":": "1.5 2.5", "-.": "6 2 1.5 2"}.get(entry.dash, "")
    line = f'<line x1="1" y1="6" x2="29" y2="6" stroke="{colour}" stroke-width="2.4" stroke-dasharray="{dashes}"/>'
    shape = {
        "dot": f'<circle cx="15" cy="6" r="4" fill="{colour}"/>',
        "ring": f'<circle cx="15" cy="6" r="4" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "square": f'<path d="M11 2h8v8h-8z" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "area": f'<path d="M1 1h28v10h-28z" fill="{colour}" fill-opacity=".3"/>',
        "diamond": f'<path d="M15 1l5 5l-5 5l-5 -5z" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "arrow": f'<path d="M3 6h18" stroke="{colour}" stroke-width="2"/><path d="M19 1l9 5l-9 5z" fill="{colour}"/>',
    }.get(entry.mark, line)
    return f'<svg viewBox="0 0 30 12" aria-hidden="true">{shape}</svg>'


def figure_html(figure: Figure, before: str = "", *, files: bool = False) -> str:
    """Return a figure as HTML, after the HTML ``before``: its title, its legend, its panels; links to its ``files``."""
    panels, title = [], figure.title or figure.panels[0].title
    for panel, svg in zip(figure.panels, figure.svg_panels(), strict=True):
        label = escape(f"{title}: {panel.title}" if len(figure.panels) > 1 else title, quote=True)
        heading = f"<h3>{rich(panel.title)}</h3>" if len(figure.panels) > 1 else ""
        described = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        panels.append(f'<div class="panel">{heading}{described}</div>')
    legend = "".join(f"<li>{_swatch(entry)}{_legend_text(entry.label)}</li>" for entry in figure.legend)
    links = " · ".join(f'<a href="figures/{figure.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
    below = f'<div class="files">This figure as {links}</div>' if files else ""
    shape = {1: " one", 2: " two"}.get(figure.columns, "") + " wide" * (figure.size[0] > 6.0)
    return (
        f'{before}<figure id="figure-{figure.name}"><figcaption>{rich(title)}</figcaption>'
        f'<ul class="legend">{legend}</ul><div class="panels{shape}">{"".join(panels)}</div>'
        f"{below}</figure>"
    )


def _legend_text(label: str) -> str:
    """Return a label of a figure as HTML, without the escapes of matplotlib."""
    return escape(label.replace(r"\$", "$"))


def attachment(name: str, kind: str, content: bytes) -> str:
    """Return a link to a file that the page itself holds.

    Parameters
    ----------
    name : str
        Name under which a browser saves the file.
    kind : str
        Media type, such as ``"text/csv"``.
    content : bytes
        The file.

    Returns
    -------
    str
        HTML.
    """
    data = base64.b64encode(content).decode()
    return f'<a download="{escape(name, quote=True)}" href="data:{kind};base64,{data}">{escape(name)}</a>'


def framed(page: str, height: str = "75vh") -> str:
    """Return a whole page as an element of a notebook, whose style does not mix with that of the notebook.

    Parameters
    ----------
    page : str
        HTML document.
    height : str, default="75vh"
        Height of the frame in CSS.

    Returns
    -------
    str
        HTML.
    """
    style = f"width:100%;height:{height};border:1px solid #8888"
    return f'<iframe srcdoc="{escape(page, quote=True)}" title="Report" style="{style}"></iframe>'


def folded(summary: str, body: str) -> str:
    """Return HTML that is hidden until its summary is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def paragraphs(*texts: str) -> str:
    """Return each text that is not empty as a paragraph."""
    return "".join(f'<p class="setting">{escape(text)}</p>' for text in texts if text)


def _colour_rules() -> str:
    colours = {**COLOURS, **PAGE_COLOURS}
    light, dark = ("".join(f"{css_variable(name)}:{pair[i]};" for name, pair in colours.items()) for i in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
