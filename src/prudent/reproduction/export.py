"""Claims as tables for papers: one row for each measured quantity with its interval, as a DataFrame, CSV or LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..display.words import number
from .claims import Claim
from .error_rates import measured

if TYPE_CHECKING:
    import pandas

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "×": r"$\times$",
    "√": r"$\surd$",
    "−": "$-$",
    "≈": r"$\approx$",
    "ν": r"$\nu$",
    "’": "'",
    "<": "$<$",
    ">": "$>$",
}


def claims_table(claims: Iterable[Claim]) -> pandas.DataFrame:
    """Return all measured quantities of claims, under every reading.

    Parameters
    ----------
    claims : iterable of Claim
        The claims, from ``judge``.

    Returns
    -------
    pandas.DataFrame
        Columns ``claim``, ``statement``, ``reading`` (empty for as written), ``verdict`` under that reading,
        ``quantity``, ``estimate``, ``low``, ``high``, ``decisive``, ``needed`` and ``error_rate`` (promised).

    Examples
    --------
    >>> claims_table([]).columns.tolist()[:4]
    ['claim', 'statement', 'reading', 'verdict']
    """
    import pandas

    columns = [
        "claim",
        "statement",
        "reading",
        "verdict",
        "quantity",
        "estimate",
        "low",
        "high",
        "decisive",
        "needed",
        "error_rate",
    ]
    rows = []
    for claim in claims:
        as_written = {"reading": "", "verdict": claim.as_written, "evidence": claim.evidence, "needed": claim.needed}
        for case in (as_written, *claim.readings):
            share = claim.error / (max(len(claim.readings), 1) if case["reading"] else 1)
            for item in case["evidence"]:
                numbers = [item.get(name) for name in ("quantity", "estimate", "low", "high", "decisive")]
                before = (claim.id, claim.statement, case["reading"], str(case["verdict"]))
                rows.append((*before, *numbers, case.get("needed"), share))
    return pandas.DataFrame(rows, columns=columns)


def claims_latex(claims: Iterable[Claim]) -> str:
    """Return the claims as a LaTeX table (booktabs): verdict, the number that decides with its interval, error rate.

    Parameters
    ----------
    claims : iterable of Claim
        The claims, from ``judge``.

    Returns
    -------
    str
        A ``tabular`` with the columns claim, as written, what decides, and summary over all readings.

    Examples
    --------
    >>> print(claims_latex([]).splitlines()[1])
    \\toprule
    """
    claims = list(claims)
    lines = [
        r"\begin{tabular}{p{0.34\linewidth}p{0.12\linewidth}p{0.3\linewidth}p{0.16\linewidth}}",
        r"\toprule",
        r"claim & as written & what decides, with its interval & all readings \\",
        r"\midrule",
    ]
    for claim in claims:
        decisive = next((item for item in claim.evidence if item.get("decisive")), None)
        cells = (claim.statement, str(claim.as_written), _measured(decisive) if decisive else "", claim.verdict)
        lines.append(" & ".join(map(escaped, cells)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", _note(claims)]) + "\n"


def _note(claims: Sequence[Claim]) -> str:
    rates = [rate for claim in claims for rate in measured().get(claim.id, {}).values()]
    if not rates:
        return "% Error rates were not simulated."
    largest, studies = max(rate.largest for rate in rates), min(rate.studies for rate in rates)
    return escaped(
        f"A false claim is called reproduced with probability at most 1%; simulated, in {studies:,} studies of each "
        f"world where a claim is false: at most {largest:.2%}."
    )


def _measured(item: Mapping[str, Any]) -> str:
    value, low, high = (item.get(name) for name in ("estimate", "low", "high"))
    if value is None:
        return str(item["quantity"])
    interval = "" if low is None or high is None else f" [{number(low, 3)}, {number(high, 3)}]"
    return f"{item['quantity']}: {number(value, 4)}{interval}"


def escaped(text: str) -> str:
    r"""Return text with the characters that mean something to LaTeX escaped.

    Examples
    --------
    >>> escaped("p_h = 50%")
    'p\\_h = 50\\%'
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)
