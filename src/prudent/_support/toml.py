"""TOML files that people write, read within bounds, so that a file that was made to hang a reader is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..types import PathLike

LARGEST_FILE = 2**20  # bytes
_MOST_DOTS = 100  # between commas: nested tables take a time that grows with the square of the depth


class TooLargeError(ValueError):
    """A file is larger than such files are."""


def read_toml(path: PathLike) -> dict[str, Any]:
    """Return the content of a file; raise an OSError if there is none, else a ValueError that says what is wrong.

    >>> read_toml("no-file.toml")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-file.toml'
    """
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise TooLargeError(f"it has more than {LARGEST_FILE} bytes")
    text = content.decode("utf-8")
    deep = next((number for number, line in enumerate(text.split("\n"), 1) if _dots(line) > _MOST_DOTS), None)
    if deep is not None:
        raise ValueError(f"line {deep} has more than {_MOST_DOTS} dots between commas")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _dots(line: str) -> int:
    """Return the largest number of dots between two commas of a line that is no comment."""
    return 0 if line.lstrip().startswith("#") else max(part.count(".") for part in line.split(","))
