"""The page: one HTML file with everything in it, made of the figures, the tables and the words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from .figures import COLOURS, Entry, Figure, css_variable, inline_panels
from .results import Results, Section, make
from .tables import KINDS, Table, number, rich, with_interval

__all__ = ["render"]

# Verdicts in the order of the table: what does not reproduce comes first.
VERDICTS = {
    "not reproduced": ("not", "✗"),
    "inconclusive at this scale": ("open", "?"),
    "reproduced": ("yes", "✓"),
}
PAGE_COLOURS = {
    "page": ("#ffffff", "#15171a"),
    "card": ("#f5f5f3", "#1e2125"),
    "line": ("#dededa", "#34383e"),
    "soft": ("#5d5f63", "#a3a6ab"),
    "link": ("#005a8f", "#7cc0ee"),
    "bad": ("#b02a1b", "#ff8a75"),
    "open": ("#7a5a00", "#e8bf4d"),
    "good": ("#00694c", "#4fd1a5"),
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


def _swatch(entry: Entry) -> str:
    colour = f"var({css_variable(entry.colour)})"
    dashes = {"--": "5 3", ":": "1.5 2.5", "-.": "6 2 1.5 2"}.get(entry.dash, "")
    line = f'<line x1="1" y1="6" x2="29" y2="6" stroke="{colour}" stroke-width="2.4" stroke-dasharray="{dashes}"/>'
    shape = {
        "dot": f'<circle cx="15" cy="6" r="4" fill="{colour}"/>',
        "ring": f'<circle cx="15" cy="6" r="4" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "square": f'<path d="M11 2h8v8h-8z" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "area": f'<path d="M1 1h28v10h-28z" fill="{colour}" fill-opacity=".3"/>',
        "diamond": f'<path d="M15 1l5 5l-5 5l-5 -5z" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        "arrow": f'<path d="M3 6h18" stroke="{colour}" stroke-width="2"/><path d="M19 1l9 5l-9 5z" fill="{colour}"/>',
    }.get(entry.mark, line)
    return f'<svg viewBox="0 0 30 12" aria-hidden="true">{shape}</svg>'


def _figure(figure: Figure, says: str) -> str:
    panels = []
    for panel, svg in zip(figure.panels, inline_panels(figure), strict=True):
        label = escape(f"{figure.title}: {panel.title}" if len(figure.panels) > 1 else figure.title, quote=True)
        heading = f"<h4>{rich(panel.title)}</h4>" if len(figure.panels) > 1 else ""
        drawn = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        panels.append(f'<div class="panel">{heading}{drawn}</div>')
    legend = "".join(f"<li>{_swatch(entry)}{escape(entry.label)}</li>" for entry in figure.legend)
    links = " · ".join(f'<a href="figures/{figure.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
    shape = {1: " one", 2: " two"}.get(figure.columns, "")
    return (
        f"<blockquote><b>The paper says</b>{rich(says)}</blockquote>"
        f'<figure id="figure-{figure.name}"><figcaption>{rich(figure.title)}</figcaption>'
        f'<ul class="legend">{legend}</ul><div class="panels{shape}">{"".join(panels)}</div>'
        f'<div class="files">This figure as {links}</div></figure>'
    )


def _section(section: Section, figures: Sequence[Figure]) -> str:
    """Return the section of a study; ``figures`` are those that it asks for."""
    parts = [f'<section id="{escape(section.name, quote=True)}"><h2>{escape(section.title)}</h2>']
    parts.append(f'<p class="setting">{rich(section.setting)}</p>')
    parts.append(f'<p class="meta">{_provenance(section)}</p>')
    parts += [_figure(figure, str(spec.get("says", ""))) for figure, spec in zip(figures, section.figures, strict=True)]
    parts += [_table(section, spec) for spec in section.tables]
    parts.append(_folded("Specification", f"<pre>{escape(_pretty(section.data.attrs.get('spec')))}</pre>"))
    return "".join(parts) + "</section>"


def _table(section: Section, spec: Mapping[str, Any]) -> str:
    table = make(section, KINDS, spec, "caption")
    if not table.rows:
        return ""
    return _folded(str(spec["fold"]), table.html()) if spec.get("fold") else table.html()


def _folded(summary: str, what: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{what}</details>"


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
    links = [("claims", "Claims"), *((section.name, section.title) for section in results.sections)]
    links += [("run", "The run"), ("cite", "How to cite")]
    contents = "".join(
        f'<li><a href="#{escape(target, quote=True)}">{escape(label)}</a></li>' for target, label in links
    )
    versions = _versions(results)
    missing = escape("; ".join(results.missing))
    said = f'<p class="missing">Not run, hence not shown: {missing}.</p>' if missing else ""
    claims = _claims(results.claims) if results.claims else "<p>No claims were judged.</p>"
    sections = "".join(_section(section, figures[section.name]) for section in results.sections)
    rows = [[escape(name), escape(version)] for name, version in versions.items()]
    citations = escape(f"{CITE_PAPER}\n\n{CITE_PRUDENT.format(version=versions.get('prudent', 'unknown'))}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Online Bayesian risk-averse reinforcement learning, reproduced</title>
<style>
{_colour_rules()}
{files(__package__).joinpath("style.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<div class="layout">
<header>
<h1>Online Bayesian risk-averse reinforcement learning, reproduced</h1>
<p class="lead">The experiments of Wang and Zhou, run by prudent, and what became of the paper’s conclusions.
{escape(BANDS)}</p>
<p class="meta">{_settings(results)}</p>
{said}
</header>
<div class="columns">
<nav aria-label="Contents"><h2>Contents</h2><ol>{contents}</ol></nav>
<main>
<section id="claims"><h2>Claims</h2>{claims}</section>
{sections}
<section id="run"><h2>The run</h2>{Table("Versions", ["software", "version"], rows).html()}
{_run_table(results.timings)}</section>
<section id="cite"><h2>How to cite</h2><p>The paper, and the software.</p><pre>{citations}</pre></section>
</main>
</div>
</div>
</body>
</html>
"""


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


def _colour_rules() -> str:
    colours = {**COLOURS, **PAGE_COLOURS}
    light, dark = ("".join(f"{css_variable(name)}:{pair[i]};" for name, pair in colours.items()) for i in (0, 1))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
