"""Tables of a page, and text with mathematics as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple


def rich(text: str) -> str:
    """Return ``text`` as HTML, with its mathematical symbols typeset.

    Examples
    --------
    >>> rich("sqrt(N) at p_h < 1")
    '√N at <i>p</i><sub>h</sub> &lt; 1'
    """
    signs = {"p_h": "<i>p</i><sub>h</sub>", "V_N": "<i>V</i><sub>N</sub>", "sqrt(N)": "√N", "_nu": "-ν"}
    html = escape(text)
    for plain, sign in signs.items():
        html = html.replace(plain, sign)
    return html


def best(cell: str) -> str:
    """Return a cell in bold."""
    return f'<span class="best">{cell}</span>'


class Table(NamedTuple):
    """A table whose rows begin with a heading.

    Attributes
    ----------
    caption : str
        Text above the table.
    columns : sequence of str
        Headings of the columns, as text.
    rows : sequence of sequences of str
        Cells, as HTML; the first cell of a row is its heading.
    style : str
        CSS class of the table: ``"number tight"`` for numbers, ``"facts"`` for text.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    style: str = "number tight"

    @classmethod
    def of(cls, caption: str, records: Sequence[Mapping[str, str]], style: str = "number tight") -> Table:
        """Return the table of records, dicts from headings of columns to cells."""
        return cls(caption, list(records[0]), [list(record.values()) for record in records], style)

    def html(self) -> str:
        """Return the table; on a narrow screen each row becomes a card whose lines name their column."""
        head = "".join(f'<th scope="col">{rich(column)}</th>' for column in self.columns)
        body = "".join(
            f'<tr><th scope="row">{row[0]}</th>'
            + "".join(
                f'<td data-label="{escape(column, quote=True)}"><span>{cell}</span></td>'
                for column, cell in zip(self.columns[1:], row[1:], strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<table class="{self.style}"><caption>{rich(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
