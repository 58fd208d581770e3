"""Codes of errors and warnings, read from the source: which class carries each, with which fields."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "prudent"
ERRORS = ast.parse((SOURCE / "errors.py").read_text())
CLASSES = {node.name for node in ERRORS.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}
FIELDS_FIRST = ("argument", "value", "index", "expected")
INTERNAL = {"error", "name", "label", "hint", "stacklevel", "where"}  # parameters of our own checks, not fields
MARK = "<!-- codes -->"
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")


class Site(NamedTuple):
    """A call in the source that makes an error or a warning, or that says which code it has."""

    path: str
    line: int
    name: str  # of the class, or of the function or variable that stands for it
    code: str | None  # None where there is none, or none that is written out
    fields: tuple[str, ...]


def sites(source: Path = SOURCE) -> Iterator[Site]:
    """Yield every call that makes one of our errors or warnings, and those of functions with a parameter ``code``."""
    trees = {file: ast.parse(file.read_text()) for file in sorted(source.rglob("*.py")) if file.name != "errors.py"}
    makers: dict[str, tuple[int, int]] = {}  # place of the parameter among the positional ones, whether of a method
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
                if "code" in names:
                    makers[node.name] = (names.index("code"), names[0] in ("self", "cls"))
                elif "code" in (argument.arg for argument in node.args.kwonlyargs):
                    makers[node.name] = (-1, 0)
    for file, tree in trees.items():
        path = file.relative_to(source).as_posix()
        for call, passed_on in _calls(tree, False):
            name = _name(call.func)
            words = {word.arg: word.value for word in call.keywords if word.arg}
            code = words.pop("code", None)
            if name in makers and code is None:
                index = makers[name][0] - makers[name][1]
                code = call.args[index] if 0 <= index < len(call.args) else None
                if isinstance(code, ast.Constant) and not KEBAB.fullmatch(str(code.value)):
                    code = None  # another function of this name
            ours = name in CLASSES or (name == "error" and isinstance(call.func, ast.Name))
            if isinstance(code, ast.Constant):
                yield Site(path, call.lineno, name, code.value, tuple(words))
            elif isinstance(code, ast.IfExp):
                for branch in (code.body, code.orelse):
                    text = branch.value if isinstance(branch, ast.Constant) else None
                    yield Site(path, call.lineno, name, text, tuple(words))
            elif passed_on and isinstance(code, ast.Name) and code.id == "code":
                continue  # the caller of this function has written it out
            elif ours or (name == "warn" and any(_name(word) in CLASSES for word in call.args)):
                yield Site(path, call.lineno, name, None, tuple(words))


def _calls(node: ast.AST, within: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls below a node, and whether they are in a function with a parameter ``code``."""
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, ast.FunctionDef):
            arguments = child.args
            names = [argument.arg for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
            inside = within or "code" in names
        if isinstance(child, ast.Call):
            yield child, inside
        yield from _calls(child, inside)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def table() -> str:
    """Return the table of all codes as Markdown."""
    classes: dict[str, set[str]] = defaultdict(set)
    fields: dict[str, set[str]] = defaultdict(set)
    rooms: dict[str, set[str]] = defaultdict(set)
    for site in sites():
        if site.code:
            classes[site.code] |= {site.name} & CLASSES
            fields[site.code] |= set(site.fields) - INTERNAL
            rooms[site.code].add(site.path.split("/")[0].removesuffix(".py"))
    lines = ["| code | class | fields | raised in |", "|---|---|---|---|"]
    for code in sorted(classes):
        order = sorted(fields[code], key=lambda name: (name not in FIELDS_FIRST, name))
        cells = (sorted(classes[code]), order, sorted(rooms[code]))
        words = [", ".join(f"`{word}`" for word in cell) for cell in cells]
        if not classes[code]:
            words[0] = "that of the argument"
        lines.append(f"| `{code}` | {' | '.join(words)} |")
    return "\n".join(lines)
