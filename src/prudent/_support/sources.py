"""Digest of the source that a computation depends on: its modules and everything that they import.

Imports are read from the syntax tree, those inside functions included. Rooms that compute no number are not followed:
``display``, which results import to draw themselves, ``cli`` and ``journal``.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = "prudent"
FOLDER = Path(__file__).parents[1]
NOT_FOLLOWED = tuple(f"{PACKAGE}.{room}." for room in ("cli", "display", "journal"))


def source_digest(modules: Iterable[str], folder: Path = FOLDER) -> str:
    """Return a digest of the source of ``modules`` and of all that they import, directly or not.

    Parameters
    ----------
    modules : iterable of str
        Names of modules of this package; others are left out.
    folder : Path, optional
        Folder of this package; the default is the one that is running.

    Returns
    -------
    str
        Hexadecimal digest. It depends on the content of the files, not on their names.

    Examples
    --------
    >>> source_digest(["prudent.errors"]) == source_digest(["prudent.types"])
    False
    """
    return _digest_once(frozenset(modules)) if folder is FOLDER else _digest(modules, folder)


def _digest(modules: Iterable[str], folder: Path) -> str:
    contents = {hashlib.sha256(file.read_bytes()).digest() for file in imported_files(modules, folder).values()}
    return hashlib.sha256(b"".join(sorted(contents))).hexdigest()


@cache
def _digest_once(modules: frozenset[str]) -> str:
    """Return the digest of modules of the running package, which do not change while it runs."""
    return _digest(modules, FOLDER)


def imported_files(modules: Iterable[str], folder: Path = FOLDER) -> dict[str, Path]:
    """Return the files of ``modules`` and of all that they import, by the name of the module.

    Imports of modules of this package are followed. Code of others counts by its content (``_support/content.py``).

    Examples
    --------
    >>> sorted(imported_files(["prudent.types"]))
    ['prudent.types']
    """
    waiting = list(modules)
    files: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        if name in files or f"{name}.".startswith(NOT_FOLLOWED) or name.partition(".")[0] != PACKAGE:
            continue
        file = _file(name, folder)
        if file is None:
            continue  # a name inside a module
        files[name] = file
        waiting += _imports(file, name, file.stat().st_mtime_ns)
    return files


def _file(name: str, folder: Path) -> Path | None:
    """Return the file of a module of this package, or None if there is no such module."""
    stem = folder.joinpath(*name.split(".")[1:])
    candidates = (stem / "__init__.py", stem.with_suffix(".py")) if name != PACKAGE else (folder / "__init__.py",)
    return next((file for file in candidates if file.is_file()), None)


@cache
def _imports(file: Path, name: str, _: int) -> tuple[str, ...]:
    """Return the names that a file imports; what is no module is sorted out by the caller."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    return tuple(_imported_names(ast.parse(file.read_bytes()), package))


def _imported_names(tree: ast.Module, package: list[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
