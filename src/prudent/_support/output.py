"""Files of an output folder, written completely or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from .files import write_atomically

if TYPE_CHECKING:
    import pandas

FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    *"\uff1d\uff0b\uff0d\uff20",
)  # how a text begins that spreadsheets may run
UNSEEN = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*"
)  # which some of them skip


def prepare(folder: Path) -> None:
    """Create ``folder`` if needed and check that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ".writable", b"")
        (folder / ".writable").unlink()
    except OSError as error:
        message = f"cannot write to the folder {folder}: {error.strerror or error}"
        raise StoreError(message, code="not-writable", path=str(folder)) from error


def write_table(path: Path, table: pandas.DataFrame) -> None:
    """Write a table as CSV that is safe to open in a spreadsheet."""
    write(path, table_text(table).encode())


def table_text(table: pandas.DataFrame) -> str:
    """Return a table as CSV that is safe to open in a spreadsheet.

    A text that begins like a formula (=, +, -, @, also in full width or after characters that are not shown) and is no
    number gets an apostrophe in front, which spreadsheets do not show.
    """
    safe = table.rename(columns=plain_cell)
    for name in safe.columns:
        if safe[name].dtype.kind not in "biuf":
            safe[name] = [plain_cell(cell) for cell in safe[name]]
    return str(safe.to_csv(index=False))


def plain_cell(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula.

    >>> plain_cell("=1+2"), plain_cell("-1.5"), plain_cell("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    if not isinstance(cell, (str, tuple)):
        return cell
    text = str(cell).replace("\r", "\\r")  # a carriage return would end the row
    if "\r" in str(cell):
        return f"'{text}"
    if not text.startswith(FORMULA) and not UNSEEN.sub("", text, count=1).startswith(FORMULA):
        return cell
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return cell


def write(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in an output folder, completely or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}; finished work is stored: run again to continue"
        raise StoreError(message, code="not-writable", path=str(path)) from error
