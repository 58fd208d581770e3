"""The page of a check, and its section on other pages: findings first, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ..figures.base import Figure
from ..words import number
from .frame import Part, document, figure_html, paragraphs
from .tables import Table, best

MOST_ROWS = 30


def render(record: Mapping[str, Any], figure: Figure, name: str) -> str:
    """Return the page of a check.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.
    figure : Figure
        Promised and honest values.
    name : str
        Name of the log.

    Returns
    -------
    str
        The HTML document.
    """
    serious = sum(finding["severity"] == "serious" for finding in record["findings"])
    verdict = f"{serious} serious findings" if serious != 1 else "1 serious finding"
    head = f'<p class="lead">{escape(f"Does the model of {name} hold? {verdict}.")}</p>'
    parts = [
        Part("findings", "Findings", findings(record)),
        Part("honest", "Promised and honest values", honest(record, figure)),
        Part("tests", "Tests", tests(record)),
        Part("log", "The log", paragraphs(*(f"{title.capitalize()}: {text}." for title, text in record["reading"]))),
    ]
    return document(f"Does the model hold? {name}", head, parts)


def findings(record: Mapping[str, Any]) -> str:
    """Return the findings and the assumptions as HTML.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.

    Returns
    -------
    str
        HTML.
    """
    return found(record) + assumed(record)


def found(record: Mapping[str, Any]) -> str:
    """Return the findings as HTML.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.

    Returns
    -------
    str
        HTML.
    """
    items = ""
    for finding in record["findings"]:
        mark = "<strong>Serious.</strong> " if finding["severity"] == "serious" else "Note. "
        kind = ' class="missing"' if finding["severity"] == "serious" else ""
        items += f"<p{kind}>{mark}{escape(finding['message'])} <small>({escape(finding['code'])})</small></p>"
    if not items:
        items = paragraphs("The checks found nothing against the model.")
    return items


def assumed(record: Mapping[str, Any]) -> str:
    """Return the assumptions as HTML.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.

    Returns
    -------
    str
        HTML.
    """
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in record["assumed"])
    return f"<p>All numbers assume what no log can prove in full:</p><ul>{sentences}</ul>"


def honest(record: Mapping[str, Any], figure: Figure, recommended: float | None = None) -> str:
    """Return the table and the figure of honest values as HTML.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.
    figure : Figure
        Promised and honest values.
    recommended : float, optional
        Level that the page recommends, if that is not by honest values.

    Returns
    -------
    str
        HTML.
    """
    chosen, done = record["recommended"], record["log"]
    gain, other = chosen["gain"], recommended is not None and recommended != chosen["alpha"]
    said, bold = (
        ("By this check alone one would take", "what this check would take")
        if other
        else ("Recommended is", "recommended")
    )
    text = (
        "The episodes were split into parts. A policy was made from one part and judged by a model of the other, which "
        "it was not fitted to. That is its honest value; the promised value is that in its own model. What the log "
        f"did is worth {number(done['honest'])} ({number(done['low'])} to {number(done['high'])}) by the same rule.",
        f"{said} level {chosen['alpha']:g}: {number(chosen['honest'])}, which is {number(gain['value'])} "
        f"({number(gain['low'])} to {number(gain['high'])}) more than what the log did.",
        *(
            f"Against level {apart['alpha']:g} the difference is {number(apart['value'])} "
            f"({number(apart['low'])} to {number(apart['high'])})."
            for apart in chosen["differences"]
        ),
        "Observations were split, since the log has no episodes: this is the weaker check."
        + (f" So the page keeps to level {recommended:g}, which it recommends by its bad cases." if other else "")
        if record["by_rows"]
        else "",
    )
    keys = ("design", "alpha", "prior", "support")
    rows = [
        {
            "states": escape(row["design"]),
            "risk level": best(f"{row['alpha']:g}") if all(row[k] == chosen[k] for k in keys) else f"{row['alpha']:g}",
            "promised": number(row["promised"]),
            "honest": number(row["honest"]),
            f"{chosen['confidence']:.0%} interval over episodes": f"{number(row['low'])} to {number(row['high'])}",
            "unknown to the judges": f"{row['unknown']:.0%}",
        }
        for row in sorted(record["cells"], key=lambda row: -row["honest"])[:MOST_ROWS]
    ]
    return paragraphs(*text) + Table.of(f"Policies by honest value; bold: {bold}", rows).html() + figure_html(figure)


def tests(record: Mapping[str, Any]) -> str:
    """Return the table of the tests of the Markov property as HTML.

    Parameters
    ----------
    record : mapping
        Content of ``check.json``.

    Returns
    -------
    str
        HTML.
    """
    if not record["tests"]:
        return paragraphs("The log has no episodes, so the past could not be tested.")
    rows = [
        {
            "given state and action, does ... tell": escape(test["past"]),
            "about": escape(test["what"]),
            "P value, adjusted": f"{test['p']:.2g}",
            "size": f"{test['effect']:.3g} bits"
            if test["what"] == "next state"
            else f"{test['effect']:.1%} of the surprise",
        }
        for test in record["tests"]
    ]
    text = (
        "If the state says all that matters, rows with the same state and action can exchange what followed them. P is "
        "the probability of so large a statistic under such exchanges, adjusted for the number of tests (Holm). Below "
        "0.01 it is a finding: that happens in at most one of a hundred logs of a model that holds."
    )
    return paragraphs(text) + Table.of("Tests of the Markov property", rows).html()
