"""Docstrings as Markdown, for the site: lists of parameters, examples, names of other things."""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"^(\*{0,2}\w[\w.]*(?:, \*{0,2}\w[\w.]*)*) : (.*)$")
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")


def markdown(text: str) -> str:
    """Return a docstring of ours as Markdown."""
    text = ROLE.sub(lambda found: f"`{found[1].removeprefix('prudent.')}`", text.replace("``", "`"))
    lines: list[str] = []
    example = entry = False
    for line in text.splitlines():
        if set(line) == {"-"} and lines and lines[-1]:  # the heading of a section
            lines[-1] = f"**{lines[-1]}**"
            lines.append("")
            continue
        begins = line.startswith(">>>")
        if begins and not example:
            lines += ["", "```pycon"]
        elif example and not line:
            lines.append("```")
        example = begins or (example and bool(line))
        found = None if example else ENTRY.match(line)
        if found:
            lines += [""] * (not entry and bool(lines and lines[-1]))
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            line = f"- {names}: {found[2]}"
        elif entry and line and not line.startswith(" "):
            lines.append("")
        entry = bool(found) or (entry and line.startswith(" ")) or (entry and not line)
        lines.append(line)
    return "\n".join([*lines, "```"] if example else lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
