"""Pages of the reference, one for each room: the names that a page does not list itself are added at its end."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "prudent"
PAGES = Path(__file__).with_name("reference")
MARK = "<!-- members -->"
LISTED = re.compile(r"^::: prudent\.(\S+)$", re.MULTILINE)


def exported(room: str) -> list[str]:
    """Return the names in ``__all__`` of a room, or in its stub if they are imported on first use."""
    stub = SOURCE / room / "__init__.pyi"
    if stub.exists():
        imports = (node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom))
        return sorted(alias.name for node in imports for alias in node.names)
    file = SOURCE / room / "__init__.py" if (SOURCE / room).is_dir() else SOURCE / f"{room}.py"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def completed(room: str, markdown: str) -> str:
    """Return the page of a room, with the names that no page lists in place of the mark."""
    listed = {name.split(".")[-1] for page in PAGES.glob("*.md") for name in LISTED.findall(page.read_text())}
    others = [name for name in exported(room) if name not in listed]
    return markdown.replace(MARK, "\n\n".join(f"::: prudent.{room}.{name}" for name in others))
