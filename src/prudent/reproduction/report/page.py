"""The page of a reproduction: claims, and for each study its words, figures and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from ...display.figures.base import Figure
from ...display.pages.frame import Part, document, figure_html, folded
from ...display.pages.tables import Table, rich
from ...display.words import number, with_interval
from .results import Results, Section, make
from .tables import KINDS

__all__ = ["render"]

TITLE = "Online Bayesian risk-averse reinforcement learning, reproduced"

# Verdicts by how they begin, in the order of the table: what does not reproduce comes first.
VERDICTS = {
    "not reproduced": ("not", "✗", "not reproduced"),
    "inconclusive": ("open", "?", "inconclusive at this scale"),
    "reproduced when": ("when", "✓", "reproduced under another reading"),
    "reproduced": ("yes", "✓", "reproduced"),
}
READINGS = (
    "What the paper leaves open can be read in several ways. Each claim is judged as written and under every other "
    "reading that is kept, with the number on which the verdict hangs and its interval. Intervals hold at 99% for "
    "all comparisons of a claim together. Trying many readings is testing many times, so the other readings of a claim "
    "share another 99% between them (Bonferroni). The bandit's readings were picked from some forty that were "
    "looked at with few replications, which these intervals do not count."
)
BEYOND = "beyond the paper"  # the source of claims that are our own
OURS = "What we say of things that are not in the paper, judged by the same rules."
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
    """Return the paper's claims, and apart from them our own."""
    own = [claim for claim in claims if claim.get("source") == BEYOND]
    papers = [claim for claim in claims if claim.get("source") != BEYOND]
    parts = [_judged(papers, READINGS, "what the paper says")] if papers else []
    if own:
        parts.append(f'<h3 id="claims-beyond">Beyond the paper</h3>{_judged(own, OURS, "what we say")}')
    return "".join(parts)


def _judged(claims: Sequence[dict[str, Any]], words: str, head: str) -> str:
    counts = "".join(
        f"<li>{_badge(start, str(count))}</li>"
        for start in VERDICTS
        if (count := sum(_kind(claim["verdict"]) == start for claim in claims))
    )
    rows = "".join(
        f'<tr id="claim-{escape(str(claim["id"]), quote=True)}">'
        f"<td>{rich(str(claim['statement']))}<small>{escape(str(claim.get('source', '')))}</small></td>"
        f'<td data-label="as written">{_as_written(claim)}</td>'
        f'<td data-label="holds when">{_holds(claim)}</td><td>{_details(claim)}</td></tr>'
        for claim in sorted(claims, key=lambda claim: list(VERDICTS).index(_kind(claim["verdict"])))
    )
    return (
        f'<ul class="counts">{counts}</ul><p class="setting">{escape(words)}</p><table class="claims"><thead><tr>'
        f'<th scope="col">{head}</th><th scope="col">as written</th><th scope="col">under which reading it '
        f'holds</th><th scope="col">all numbers</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _kind(verdict: str) -> str:
    """Return the kind of a verdict, one of ``VERDICTS``; of one that nobody knows, the first."""
    return next((start for start in VERDICTS if verdict.startswith(start)), next(iter(VERDICTS)))


def _badge(verdict: str, count: str = "") -> str:
    kind, sign, words = VERDICTS[_kind(verdict)]
    return f'<span class="badge {kind}">{sign} {count} {escape(words)}</span>'


def _as_written(claim: Mapping[str, Any]) -> str:
    verdict = str(claim.get("as_written", claim["verdict"]))
    return f"{_badge(verdict)}{_decisive(claim.get('evidence', []))}"


def _holds(claim: Mapping[str, Any]) -> str:
    """Return under which readings a claim holds beside its words, the first with what decides it; or what was tried."""
    readings = _readings(claim)
    if not readings:
        return "<small>no other reading</small>"
    as_written = claim.get("as_written") == "reproduced"
    holds = [each for each in readings if each["verdict"] == "reproduced"]
    if as_written and len(holds) == len(readings):
        return f"<small>as written, and under all {len(readings)} other readings</small>"
    also = "<small>as written, and</small>" if as_written and holds else ""
    lines = [f"when {rich(str(each['reading']))}" for each in holds]
    if holds:
        lines[0] += _decisive(holds[0]["evidence"])
    else:
        head = "as written only" if as_written else "none for certain" if _unsure(readings) else "none"
        lines = [f"<small>{head}; tried: {'; '.join(rich(str(each['reading'])) for each in readings)}</small>"]
    return also + '<ul class="readings">' + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"


def _unsure(readings: Sequence[Mapping[str, Any]]) -> bool:
    return any(str(each["verdict"]).startswith("inconclusive") for each in readings)


def _readings(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the other readings of a claim; those that are no readings are left out."""
    found = claim.get("readings", [])
    complete = {"reading", "verdict", "evidence"}
    return (
        [each for each in found if isinstance(each, dict) and complete <= set(each)] if isinstance(found, list) else []
    )


def _decisive(evidence: Any) -> str:
    """Return the number on which a verdict hangs."""
    chosen = [each for each in evidence if isinstance(each, dict) and each.get("decisive")]
    return "".join(f'<div class="evidence">{_measured(each)}</div>' for each in chosen[:1])


def _details(claim: Mapping[str, Any]) -> str:
    """Return all numbers behind a claim, under every reading, folded away."""
    readings = _readings(claim)
    parts = [_listed(claim.get("evidence", []), "<b>As written</b>" if readings else "")]
    parts += [
        _listed(each["evidence"], f"<b>When {rich(str(each['reading']))}</b>: {_badge(str(each['verdict']))}")
        for each in readings
    ]
    test = f"<small>{rich(str(claim.get('test', '')))}</small>"
    return folded("numbers", "".join(parts) + test)


def _listed(evidence: Any, head: str) -> str:
    lines = evidence if isinstance(evidence, list) else [evidence]
    heading = f"<div>{head}</div>" if head else ""
    return f'{heading}<ul class="evidence">{"".join(f"<li>{_measured(each)}</li>" for each in lines)}</ul>'


def _measured(item: Any) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("estimate"), (int, float)):
        return rich(str(item.get("quantity", item) if isinstance(item, dict) else item))
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
