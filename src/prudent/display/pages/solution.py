"""The page of one solution: what to do in each state, how sure the numbers are, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..._support.output import table_text
from ..figures.base import Figure
from ..words import number, plural
from .frame import Part, attachment, document, figure_html, folded, framed, paragraphs
from .tables import Table

if TYPE_CHECKING:
    import pandas

OPEN_ROWS = 60  # rows of the table that are shown without a click
LARGEST_FILES = 8_000_000  # characters of policy.csv and policy.json that a page holds
COLUMNS = {
    "time": "step",
    "state": "state",
    "action": "what to do",
    "probability": "how often",
    "value": "value",
    "bias": "bias",
    "runner_up": "next best",
    "gap": "loses",
    "evidence": "seen",
}


def render(
    name: str,
    unit: str,
    facts: Sequence[str],
    sentences: Sequence[str],
    table: pandas.DataFrame,
    record: Mapping[str, Any],
    text: str,
    figure: Figure,
) -> str:
    """Return the page.

    Parameters
    ----------
    name : str
        Name of the problem in the heading.
    unit : str
        What values are measured in; may be empty.
    facts : sequence of str
        Discount, risk and size of the problem.
    sentences : sequence of str
        Rules to remember; may be empty.
    table : pandas.DataFrame
        ``Solution.to_pandas``.
    record : mapping
        ``Solution.to_json``, as a mapping.
    text : str
        The same as text.
    figure : Figure
        Values and actions.

    Returns
    -------
    str
        The HTML document.
    """
    head = '<p class="lead">What to do in each state, worked out by prudent.</p>'
    head += f'<p class="meta">{escape(" · ".join(facts))}</p>'
    rules = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    shown = _table(table, unit).html()
    rows = plural(len(table), "row")
    do = (f"<ol>{rules}</ol>" if rules else "") + (shown if len(table) <= OPEN_ROWS else folded(f"All {rows}", shown))
    comma = table_text(table)
    files = ""
    if len(comma) + len(text) <= LARGEST_FILES:
        links = (
            attachment("policy.csv", "text/csv", comma.encode()),
            attachment("policy.json", "application/json", text.encode()),
        )
        files = f'<p class="files">In this page: {" and ".join(links)}</p>'
    parts = [
        Part("do", "What to do", do),
        *([Part("bounds", "Bounds on costs", _bounds(record["bounds"]))] if "bounds" in record else []),
        Part("sure", "How sure the numbers are", _certificate(record["certificate"], unit)),
        Part("values", "Values", figure_html(figure)),
        Part("run", "The files", files or paragraphs("The tables are too large for a page.")),
    ]
    return document(f"What to do: {name}", head, parts)


def in_notebook(page: str) -> str:
    """Return the page in a frame of its own."""
    return framed(page)


def _table(table: pandas.DataFrame, unit: str) -> Table:
    """Return the table of what to do, with the columns that it has."""
    left_out = {"runner_up", "gap"} if "probability" in table.columns else set()  # of a random policy
    found = [
        column
        for column in COLUMNS
        if column in table.columns and column not in left_out and table[column].notna().any()
    ]
    named = table[table["action"].notna()]
    rows = [
        [escape(str(cell)) if isinstance(cell, str | tuple) else _cell(cell) for cell in row]
        for row in named[found].itertuples(index=False, name=None)
    ]
    ordered = [found.index("state"), *(i for i in range(len(found)) if found[i] != "state")]
    rows = [[row[i] for i in ordered] for row in rows]
    caption = "What to do, and what the next best action loses" if "gap" in found else "What to do"
    named_so = COLUMNS | ({"value": "average reward"} if "bias" in found else {})
    heads = [named_so[found[i]] for i in ordered]
    return Table(caption + (f", in {unit}" if unit else ""), heads, rows, "number tight")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        if value != value:
            return ""
        whole = abs(value - round(value)) <= 1e-9 * max(1.0, abs(value)) and abs(value) < 1e15
        return f"{value:,.0f}" if whole else number(value)
    return escape(str(value))


def _bounds(bounds: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the bounds on costs."""
    records = [
        {
            "cost": escape(str(bound["cost"])),
            "bounded": "expectation" if not bound["alpha"] else f"mean of the worst {1.0 - bound['alpha']:.4g}",
            "at most": number(bound["at_most"]),
            "found": number(bound["found"]),
            "one unit more earns": number(bound["multiplier"]),
        }
        for bound in bounds
    ]
    return Table.of("Bounds on costs from the start", records).html()


def _certificate(certificate: Mapping[str, Any], unit: str) -> str:
    """Return the certificate in sentences."""
    error = certificate["error_bound"]
    told = (
        ""
        if error is None
        else f"No value is further than {error:.2g}{' ' + unit if unit else ''} from the truth of the model."
    )
    whether = "" if certificate["converged"] else "The solver did not come to its tolerance."
    return paragraphs(told, whether, f"The solver: {certificate['message']}.")
