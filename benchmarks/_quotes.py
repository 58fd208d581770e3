"""Lines of pages that quote the table of benchmarks, so that no two pages say different numbers.

A quote is a row of a Markdown table, named by its first cell; the cells after it are written from the table.
``python -m benchmarks --page docs/benchmarks.md`` writes them, and a test compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from . import _table
from ._page import ratio
from ._table import Table
from ._timing import Row, number

ROOT = Path(__file__).resolve().parents[1]
README, PRODUCTION, LARGE = "README.md", "docs/howto/bandits-in-production.md", "docs/howto/large-models.md"
COMPARED = "docs/compared.md"
OURS, BOTH, FASTEST = ("ours",), ("ours", "other", "ratio"), ("ours", "fastest", "ratio")


class Quote(NamedTuple):
    """A row of a page: its first cells, where its numbers come from, and which they are."""

    page: str
    cells: str  # that the line begins with
    piece: str
    row: str  # begin of its name
    shown: tuple[str, ...] = BOTH


QUOTES = (
    Quote(
        README,
        "known model, 10,000 states x 10 actions, gamma 0.99, to residual 1e-8: fastest of quantecon, mdpsolver, "
        "mdpax, SciPy",
        "core.plain",
        "plain model, gamma 0.99: ",
        FASTEST,
    ),
    Quote(
        README,
        "exact Bayesian risk, Frozen Lake, to 1e-10: the same sampled with 5,000 draws",
        "core.exact_lake",
        "exact Frozen Lake",
    ),
    Quote(
        README,
        "exact Bayesian risk, 100,000 states x 10 actions, 2 threads: without the screen",
        "core.large",
        "exact, 100,000 states: no screen",
    ),
    Quote(
        README,
        "bandit `select` + `update`, 10 arms: fastest peer that samples from a posterior (coba)",
        "bandit.peers",
        "select + update, Thompson",
    ),
    Quote(
        README,
        "bandit with a journal on disk (NORMAL), 20 arms, propensity included, a decision",
        "journal",
        "a decision, NORMAL",
        OURS,
    ),
    Quote(README, "`import prudent`", "core.start_up", "import prudent", OURS),
    Quote(
        README,
        "the first exact solve after installing a wheel with kernels (`make wheel`), imports included",
        "first_contact",
        "first call: exact Bayesian risk, two states",
        OURS,
    ),
    Quote(PRODUCTION, "`select` + `update`, 10 arms", "bandit.peers", "select + update, Thompson", OURS),
    Quote(PRODUCTION, "the same, and `decision.propensity` read", "bandit.peers", "  with exact propensity", OURS),
    Quote(
        PRODUCTION,
        "with a journal on disk, `NORMAL`, 20 arms, propensity included",
        "journal",
        "a decision, NORMAL",
        OURS,
    ),
    Quote(PRODUCTION, "`import prudent`", "core.start_up", "import prudent", OURS),
    Quote(
        COMPARED,
        "`select + update, Thompson` against the fastest that samples from a posterior, coba",
        "bandit.peers",
        "select + update, Thompson",
    ),
    Quote(
        COMPARED,
        "`with exact propensity` against the same, which has none",
        "bandit.peers",
        "  with exact propensity",
    ),
    Quote(LARGE, "100,000 x 10 x 5 | two cores", "core.large", "exact, 100,000 states: no screen", OURS),
)


def line_of(quote: Quote, table: Table) -> str:
    """Return the line that a page must have."""
    rows = [row for row in _table.items_of(table["pieces"][quote.piece]) if row.name.startswith(quote.row)]
    if not rows:
        raise LookupError(f"no row of {quote.piece} begins with {quote.row!r}")
    row: Row = min(rows, key=lambda row: row.other) if "fastest" in quote.shown else rows[0]
    told = {"ours": number(row.ours, row.unit), "other": number(row.other, row.unit), "ratio": ratio(row.ratio)}
    told["fastest"] = told["other"]
    return " | ".join([f"| {quote.cells}", *(told[name] for name in quote.shown)])


def quoted(text: str, page: str, table: Table) -> str:
    """Return the text of a page with the numbers of the table."""
    lines = text.split("\n")
    for quote in QUOTES:
        if quote.page != page:
            continue
        begin = f"| {quote.cells} |"
        (place,) = (i for i, line in enumerate(lines) if line.startswith(begin))
        line = line_of(quote, table) + " |"
        lines[place] = line + " |" * (lines[place].count("|") - line.count("|"))  # cells that stay empty
    return "\n".join(lines)


def write(table: Table) -> None:
    """Write the numbers of the table into all pages that quote it."""
    for page in dict.fromkeys(quote.page for quote in QUOTES):
        path = ROOT / page
        path.write_text(quoted(path.read_text(), page, table))
