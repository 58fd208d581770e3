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
from ..claims import BEYOND, Claim
from ..error_rates import measured
from ..rules import Verdict
from .results import Results, Section, make
from .tables import KINDS

TITLE = "Online Bayesian risk-averse reinforcement learning, reproduced"

VERDICTS = {  # CSS class, sign and words
    Verdict.NOT_REPRODUCED: ("not", "✗", "not reproduced"),
    Verdict.INCONCLUSIVE: ("open", "?", "inconclusive at this scale"),
    Verdict.COMPATIBLE: ("open", "≈", "compatible, not shown"),
    Verdict.REPRODUCED_WHEN: ("when", "✓", "reproduced under another reading"),
    Verdict.REPRODUCED: ("yes", "✓", "reproduced"),
}
READINGS = (
    "What the paper leaves open can be read in several ways. Each claim is judged as written and under every other "
    "reading that is kept, with the number on which the verdict hangs and its interval. Reproduced: the interval or "
    "the confidence set lies inside what the claim says. Compatible: the estimates are as claimed, but the interval "
    "also holds what the claim excludes. Not reproduced: it lies apart from the claim. A rule calls a false claim "
    "reproduced with probability at most 1%; the other readings of a claim share another 1% between them. Beside each "
    "claim stands how often its rule did so in simulated studies of worlds where the claim is false. The bandit's "
    "readings were picked from some forty that were looked at with few replications, which these rates do not count."
)
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
        figure_html(
            figure, f"<blockquote><b>The paper says</b>{rich(str(spec.get('says', '')))}</blockquote>", files=True
        )
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
    counts = [
        int(count) for name in data.data_vars if str(name).endswith("_replications") for count in data[name].values.flat
    ]
    if counts := sorted(filter(None, counts or [data.sizes.get("replication", 0)])):
        facts.append(f"{' to '.join(f'{count:,}' for count in dict.fromkeys((counts[0], counts[-1])))} replications")
    scalars = {str(name): str(coord.item()) for name, coord in data.coords.items() if coord.ndim == 0}
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


def _claims(claims: Sequence[Claim]) -> str:
    """Return the paper's claims, and apart from them our own."""
    own = [claim for claim in claims if claim.source == BEYOND]
    papers = [claim for claim in claims if claim.source != BEYOND]
    parts = [_judged(papers, READINGS, "what the paper says")] if papers else []
    if own:
        parts.append(f'<h3 id="claims-beyond">Beyond the paper</h3>{_judged(own, OURS, "what we say")}')
    return "".join(parts)


def _judged(claims: Sequence[Claim], words: str, head: str) -> str:
    counts = "".join(
        f"<li>{_badge(verdict, str(count))}</li>"
        for verdict in Verdict
        if (count := sum(claim.kind is verdict for claim in claims))
    )
    rows = "".join(
        f'<tr id="claim-{escape(claim.id, quote=True)}">'
        f"<td>{rich(claim.statement)}<small>{escape(claim.source)}</small>{_false_alarms(claim)}</td>"
        f'<td data-label="as written">{_badge(claim.as_written)}{_decisive(claim.evidence)}{_needed(claim.needed)}</td>'
        f'<td data-label="holds when">{_holds(claim)}</td>'
        f"<td>{_details(claim)}</td></tr>"
        for claim in sorted(claims, key=lambda claim: claim.kind.rank)
    )
    return (
        f'<ul class="counts">{counts}</ul><p class="setting">{escape(words)}</p><table class="claims"><thead><tr>'
        f'<th scope="col">{head}</th><th scope="col">as written</th><th scope="col">under which reading it '
        'holds</th><th scope="col">all numbers</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _badge(verdict: Verdict, count: str = "") -> str:
    style, sign, words = VERDICTS[verdict]
    return f'<span class="badge {style}">{sign} {count} {escape(words)}</span>'


def _holds(claim: Claim) -> str:
    """Return the other readings under which a claim holds, the first with what decides it; or what was tried."""
    if not claim.readings:
        return "<small>no other reading</small>"
    as_written = claim.as_written is Verdict.REPRODUCED
    holding = [reading for reading in claim.readings if reading["verdict"] is Verdict.REPRODUCED]
    if as_written and len(holding) == len(claim.readings):
        return f"<small>as written, and under all {len(claim.readings)} other readings</small>"
    also = "<small>as written, and</small>" if as_written and holding else ""
    lines = [f"when {rich(reading['reading'])}" for reading in holding]
    if holding:
        lines[0] += _decisive(holding[0]["evidence"])
    else:
        unsure = any(reading["verdict"].undecided for reading in claim.readings)
        head = "as written only" if as_written else "none for certain" if unsure else "none"
        lines = [f"<small>{head}; tried: {'; '.join(rich(reading['reading']) for reading in claim.readings)}</small>"]
    return also + '<ul class="readings">' + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"


def _decisive(evidence: Sequence[Mapping[str, Any]]) -> str:
    """Return the number that decides a verdict."""
    chosen = [item for item in evidence if item.get("decisive")]
    return "".join(f'<div class="evidence">{_measured(item)}</div>' for item in chosen[:1])


def _needed(replications: int | None) -> str:
    """Return how many replications would decide an undecided verdict."""
    return "" if replications is None else f"<small>some {replications:,} replications would decide it</small>"


def _false_alarms(claim: Claim) -> str:
    """Return how often the rule of a claim calls it reproduced in worlds where it is false."""
    if claim.error == 0.0:
        return "<small>exact, no sampling</small>"
    rates = measured().get(claim.id)
    if not rates:
        return f"<small>reproduced where false, promised: at most {claim.error:.0%}; not simulated</small>"
    edge, false = (max(getattr(rate, kind) for rate in rates.values()) for kind in ("edge", "false"))
    studies = min(rate.studies for rate in rates.values())
    shares = f"{edge:.2%} at the edge, {false:.2%} beyond it"
    return f"<small>reproduced where false, simulated: {shares}, of {studies:,} studies in each world</small>"


def _details(claim: Claim) -> str:
    """Return all numbers behind a claim, under every reading, folded away."""
    parts = [_listed(claim.evidence, "<b>As written</b>" if claim.readings else "")]
    parts += [
        _listed(
            reading["evidence"],
            f"<b>When {rich(reading['reading'])}</b>: {_badge(reading['verdict'])}{_needed(reading.get('needed'))}",
        )
        for reading in claim.readings
    ]
    return folded("numbers", "".join(parts) + f"<small>{rich(claim.test)}</small>")


def _listed(evidence: Sequence[Mapping[str, Any]], head: str) -> str:
    heading = f"<div>{head}</div>" if head else ""
    return f'{heading}<ul class="evidence">{"".join(f"<li>{_measured(item)}</li>" for item in evidence)}</ul>'


def _measured(item: Mapping[str, Any]) -> str:
    quantity, value, low, high = (item.get(name) for name in ("quantity", "estimate", "low", "high"))
    if not isinstance(value, (int, float)):
        return rich(str(quantity))
    text = number(value, 6) if low is None or high is None else with_interval(value, low, high)
    return f"{rich(str(quantity))}: <b>{text}</b>"


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
    recorded = {
        key: {str(section.data.attrs.get(key, "")): None for section in results.sections} for key in ("scale", "seed")
    }
    return " · ".join(
        f"{key} {escape(', '.join(filter(None, values)))}" for key, values in recorded.items() if any(values)
    )


def _versions(results: Results) -> dict[str, str]:
    """Return the versions that the datasets record; all of them where datasets differ."""
    recorded: dict[str, dict[str, None]] = {}
    for section in results.sections:
        for name, version in json.loads(section.data.attrs.get("versions", "{}")).items():
            recorded.setdefault(name, {})[str(version)] = None
    return {name: ", ".join(versions) for name, versions in recorded.items()}
