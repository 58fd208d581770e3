"""The page of a reproduction: claims, and for each study its words, figures and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from .figures import Figure
from .frame import Part, document, figure_html, folded
from .results import Results, Section, make
from .tables import KINDS, Table, number, rich, with_interval

__all__ = ["render"]

TITLE = "Online Bayesian risk-averse reinforcement learning, reproduced"

# Verdicts in the order of the table: what does not reproduce comes first.
VERDICTS = {
    "not reproduced": ("not", "✗"),
    "inconclusive at this scale": ("open", "?"),
    "reproduced": ("yes", "✓"),
}
BANDS = (
    "Lines are means over replications, bands their 95% confidence intervals by Student’s t. In each replication all "
    "agents meet the same random numbers."
)

CITE_PAPER = """@article{wang-zhou-online-brrl,
  title  = {Online Bayesian Risk-Averse Reinforcement Learning},
  author = {Wang, Yuhao and Zhou, Enlu}
}"""

CITE_PRUDENT = """@software{{prudent,
  title   = {{prudent: decisions that hedge against what the data has not yet taught}},
  author  = {{{{The prudent developers}}}},
  version = {{{version}}}
}}"""


# -- figures and sections ----------------------------------------------------------------------------------


def _section(section: Section, figures: Sequence[Figure]) -> Part:
    """Return the section of a study; ``figures`` are those that it asks for."""
    parts = [f'<p class="setting">{rich(section.setting)}</p>']
    parts.append(f'<p class="meta">{_provenance(section)}</p>')
    parts += [
        figure_html(figure, f"<blockquote><b>The paper says</b>{rich(str(spec.get('says', '')))}</blockquote>")
        for figure, spec in zip(figures, section.figures, strict=True)
    ]
    parts += [_table(section, spec) for spec in section.tables]
    parts.append(folded("Specification", f"<pre>{escape(_pretty(section.data.attrs.get('spec')))}</pre>"))
    return Part(section.name, section.title, "".join(parts))


def _table(section: Section, spec: Mapping[str, Any]) -> str:
    table = make(section, KINDS, spec, "caption")
    if not table.rows:
        return ""
    return folded(str(spec["fold"]), table.html()) if spec.get("fold") else table.html()


def _provenance(section: Section) -> str:
    """Return scale, seed, replications, the scalar coordinates and the file of a dataset."""
    data, file = section.data, f"{section.name}.nc"
    facts = [f"{key} {escape(str(data.attrs[key]))}" for key in ("scale", "seed") if key in data.attrs]
    if "replication" in data.sizes:
        facts.append(f"{data.sizes['replication']:,} replications")
    scalars = {str(name): str(place.item()) for name, place in data.coords.items() if place.ndim == 0}
    facts += [f"{rich(name)} = {escape(value)}" for name, value in scalars.items()]
    return " · ".join([*facts, f'data: <a href="{quote(file)}">{escape(file)}</a>'])


def _run_table(timings: dict[str, Any]) -> str:
    """Return the table of the time that each experiment took; nothing if it was not recorded."""
    rows = [[escape(name), number(float(s), 3)] for name, s in timings.get("experiments", {}).items()]
    if not rows:
        return ""
    if "total_seconds" in timings:
        rows.append(
            [f"last run, {timings.get('workers', 1)} workers, from start to end", number(timings["total_seconds"], 3)]
        )
    note = "; shared simulations are counted in each experiment that uses them"
    return Table(f"Seconds of computing{note}", ["experiment", "seconds"], rows).html()


def _pretty(spec: Any) -> str:
    """Return JSON text laid out for reading, one line for each item of a list; anything else as it is."""
    try:
        fields = json.loads(spec)
        lines = []
        for key, value in fields.items():
            several = isinstance(value, list) and any(isinstance(item, dict) for item in value)
            text = "".join(f"\n  {_compact(item)}" for item in value) if several else f" {_compact(value)}"
            lines.append(f"{key}:{text}")
        return "\n".join(lines)
    except (AttributeError, TypeError, ValueError):
        return "not recorded" if spec is None else str(spec)


def _compact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_compact(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- claims ------------------------------------------------------------------------------------------------


def _claims(claims: Sequence[dict[str, Any]]) -> str:
    order = list(VERDICTS)
    ranked = sorted(claims, key=lambda claim: order.index(claim["verdict"]) if claim["verdict"] in order else -1)
    counts = "".join(
        f"<li>{_badge(verdict, str(sum(claim['verdict'] == verdict for claim in claims)))}</li>" for verdict in VERDICTS
    )
    rows = "".join(
        f'<tr id="claim-{escape(str(claim["id"]), quote=True)}"><td>{_badge(claim["verdict"])}</td>'
        f"<td>{rich(str(claim['statement']))}<br><small>{escape(str(claim.get('source', '')))}</small></td>"
        f"<td>{_evidence(claim)}<small>{escape(str(claim.get('test', '')))}</small></td></tr>"
        for claim in ranked
    )
    return (
        f'<ul class="counts">{counts}</ul><table class="claims"><thead><tr><th scope="col">verdict</th>'
        f'<th scope="col">claim</th><th scope="col">what was measured</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _badge(verdict: str, count: str = "") -> str:
    kind, sign = VERDICTS.get(verdict, ("not", "!"))
    return f'<span class="badge {kind}">{sign} {count} {escape(verdict)}</span>'


def _evidence(claim: dict[str, Any]) -> str:
    """Return the numbers behind a claim with their intervals; many of them fold away unless the claim fails."""
    evidence = claim.get("evidence", [])
    if not isinstance(evidence, list):
        return f'<div class="evidence">{rich(str(evidence))}</div>'
    lines = "".join(f"<li>{_measured(item)}</li>" for item in evidence)
    listed = f'<ul class="evidence">{lines}</ul>'
    if len(evidence) <= 4:
        return listed
    shown = " open" if claim["verdict"] == "not reproduced" else ""
    return f"<details{shown}><summary>{len(evidence)} numbers</summary>{listed}</details>"


def _measured(item: Any) -> str:
    if not isinstance(item, dict) or "estimate" not in item:
        return rich(str(item))
    value, low, high = float(item["estimate"]), item.get("low"), item.get("high")
    text = number(value, 6) if low is None or high is None else with_interval(value, float(low), float(high))
    return f"{rich(str(item.get('quantity', '')))}: <b>{text}</b>"


# -- the page ----------------------------------------------------------------------------------------------


def render(results: Results, figures: Mapping[str, Sequence[Figure]]) -> str:
    """Return the page; ``figures`` are those of each section."""
    versions = _versions(results)
    missing = escape("; ".join(results.missing))
    said = f'<p class="missing">Not run, hence not shown: {missing}.</p>' if missing else ""
    rows = [[escape(name), escape(version)] for name, version in versions.items()]
    citations = escape(f"{CITE_PAPER}\n\n{CITE_PRUDENT.format(version=versions.get('prudent', 'unknown'))}")
    run = f"{Table('Versions', ['software', 'version'], rows).html()}\n{_run_table(results.timings)}"
    head = f"""<p class="lead">The experiments of Wang and Zhou, run by prudent, and what became of the paper’s
conclusions. {escape(BANDS)}</p>
<p class="meta">{_settings(results)}</p>
{said}"""
    parts = [
        Part("claims", "Claims", _claims(results.claims) if results.claims else "<p>No claims were judged.</p>"),
        *(_section(section, figures[section.name]) for section in results.sections),
        Part("run", "The run", run),
        Part("cite", "How to cite", f"<p>The paper, and the software.</p><pre>{citations}</pre>"),
    ]
    return document(TITLE, head, parts)


def _settings(results: Results) -> str:
    """Return the scales and seeds that the datasets record, usually one of each."""
    found = {
        key: {str(section.data.attrs.get(key, "")): None for section in results.sections} for key in ("scale", "seed")
    }
    return " · ".join(
        f"{key} {escape(', '.join(filter(None, values)))}" for key, values in found.items() if any(values)
    )


def _versions(results: Results) -> dict[str, str]:
    """Return the versions that the datasets record; several of one name, if datasets differ, are all told."""
    found: dict[str, list[str]] = {}
    for data in (section.data for section in results.sections):
        for name, version in json.loads(data.attrs.get("versions", "{}")).items():
            if str(version) not in found.setdefault(name, []):
                found[name].append(str(version))
    return {name: ", ".join(versions) for name, versions in found.items()}
