"""Hooks of the site: draw figures, list the codes of errors, turn formulas into MathML, which needs no script."""

from __future__ import annotations

import re
import runpy
import sys
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))
import codes
import members

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)

THUMBNAIL = re.compile(r'(<a class="reference internal" href="\w+)"')


def on_pre_build(config: Any) -> None:
    """Draw the figures of pages; the gallery draws its own."""
    runpy.run_path(str(Path(config.docs_dir) / "figures.py"), run_name="__main__")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return pages of the reference with the names of their room, and that of errors with the table of codes."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == "reference":
        if members.MARK in markdown:
            markdown = members.completed(name, markdown)
        markdown = markdown.replace(codes.MARK, codes.table())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Return a page with its formulas as MathML, and links of the gallery to files: it takes pages for folders."""
    html = THUMBNAIL.sub(r'\1.html"', html)
    return FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    if found[1] == "span":
        return convert(unescape(found[2]))
    return f'<div class="formula">{convert(unescape(found[2]), display="block")}</div>'
