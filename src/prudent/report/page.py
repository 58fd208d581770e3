"""The page: one HTML file with everything in it, made of the figures, the tables and the words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .figures import COLOURS, Entry, Figure, action_names, agent_label, inline_panels
from .results import Results, mean_and_half_width
from .text import BANDS, CITE_PAPER, CITE_PRUDENT, SECTIONS, Section

if TYPE_CHECKING:
    import xarray

__all__ = ["Time", "render", "times"]

# Verdicts in the order of the table: what does not reproduce comes first.
VERDICTS = {
    "not reproduced": ("not", "✗"),
    "inconclusive at this scale": ("open", "?"),
    "reproduced": ("yes", "✓"),
}
_PAGE_COLOURS = {
    "page": ("#ffffff", "#15171a"),
    "card": ("#f5f5f3", "#1e2125"),
    "line": ("#dededa", "#34383e"),
    "soft": ("#5d5f63", "#a3a6ab"),
    "link": ("#005a8f", "#7cc0ee"),
    "bad": ("#b02a1b", "#ff8a75"),
    "open": ("#7a5a00", "#e8bf4d"),
    "good": ("#00694c", "#4fd1a5"),
}


# -- numbers and tables ------------------------------------------------------------------------------------


def number(value: float, digits: int = 4) -> str:
    """Return ``value`` to ``digits`` significant digits, without an exponent where a reader can do without.

    >>> number(1234.56), number(0.012345), number(3e-9)
    ('1,235', '0.01235', '3e-09')
    """
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "∞" if value > 0 else "−∞"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e9:
        return f"{value:.{digits}g}".replace("-", "−", int(value < 0))
    decimals = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size else 0
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text
    return text.replace("-", "−")


def plus_minus(mean: float, half: float) -> str:
    """Return a mean and its half width, both to the second significant digit of the half width.

    >>> plus_minus(123.456, 2.345), plus_minus(2.0, float("nan"))
    ('123.5 ± 2.3', '2.000')
    """
    if not np.isfinite(half):
        return number(mean) if not float(mean).is_integer() else f"{mean:,.3f}"
    if half < 1e-4:
        return f"{number(mean, 2)} ± {number(half, 2)}"
    decimals = max(0, 1 - int(np.floor(np.log10(half))))
    return f"{mean:z,.{decimals}f} ± {half:,.{decimals}f}".replace("-", "−")


class Table(NamedTuple):
    """A table of HTML cells; the first of each row is its heading."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        """Return the table; on a narrow screen each row becomes a card whose lines name their column."""
        head = "".join(f'<th scope="col">{_rich(column)}</th>' for column in self.columns)
        body = "".join(
            f'<tr><th scope="row">{row[0]}</th>'
            + "".join(
                f'<td data-label="{escape(label, quote=True)}"><span>{cell}</span></td>'
                for label, cell in zip(self.columns[1:], row[1:], strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<table class="number tight"><caption>{_rich(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def final_table(data: xarray.DataArray, facet: str | None, caption: str, facet_label: str = "") -> Table:
    """Return means and 95% half widths at the last time: agents down, facets across, the least in bold."""
    last = data.isel({data.dims[-1]: -1})
    parts = [last] if facet is None else [last.isel({facet: i}) for i in range(data.sizes[facet])]
    columns = ["agent"]
    columns += [""] if facet is None else [f"{facet_label} {float(value):g}" for value in data[facet].values]
    pairs = [mean_and_half_width(part.transpose("agent", "replication").values, axis=1) for part in parts]
    rows = []
    for j, agent in enumerate(map(str, data.agent.values)):
        cells = []
        for mean, half in pairs:
            cell = plus_minus(float(mean[j]), float(half[j]))
            cells.append(f'<span class="best">{cell}</span>' if j == int(np.argmin(mean)) else cell)
        rows.append([escape(agent_label(agent)), *cells])
    return Table(caption, columns, rows)


def _regret_tables(name: str, data: xarray.Dataset) -> list[Table]:
    if name == "beyond":
        return _beyond_tables(data)
    axis = "episode" if name.startswith("lake") else "time"
    end = f"{'episode' if axis == 'episode' else 'step'} {int(data[axis][-1]):,}"
    tables = []
    if name in ("bandit-four", "bandit-br"):
        caption = f"BR-regret up to {end}, by metric level; the least in bold"
        tables.append(final_table(data.br_regret, "level", caption, "level"))
    if name == "bandit-four":
        table = final_table(data.regret, None, f"Conventional regret up to {end}; the least in bold")
        tables.append(table._replace(columns=["agent", "regret"]))
    if name == "bandit-conventional":
        caption = f"Conventional regret up to {end}, by sampling sd; the least in bold"
        tables.append(final_table(data.regret, "nu", caption, "sd ×"))
    if name.startswith("lake"):
        tables.append(final_table(data.regret, "p_h", f"Regret up to {end}; the least in bold", "p_h ="))
    return tables


def _beyond_tables(data: xarray.Dataset) -> list[Table]:
    risk = data.br_regret.dropna("agent", how="all").mean("episode").expand_dims(episode=1, axis=-1)
    caption = "BR-regret of an episode, mean over the recorded episodes; the least in bold"
    regret = data.regret.dropna("episode", how="all")
    end = f"Conventional regret up to episode {int(regret.episode[-1]):,}; the least in bold"
    return [
        final_table(risk, None, caption)._replace(columns=["agent", "BR-regret"]),
        final_table(regret, None, end)._replace(columns=["agent", "regret"]),
    ]


def _limit_tables(data: xarray.Dataset) -> list[Table]:
    rows = []
    for i, size in enumerate(data["size"].values):
        for j, method in enumerate(map(str, data.method.values)):
            sample = data.scaled_error.values[j, i]
            mean, half = mean_and_half_width(sample)
            spread = number(float(np.std(sample, ddof=1))) if sample.size > 1 else "–"
            rows.append([f"N = {int(size):,}, {escape(method)}", plus_minus(float(mean), float(half)), spread])
    rows.append(["limit law", number(float(data.limit_mean)), number(float(data.limit_sd))])
    return [Table("The scaled error √N (V_N − V*) in state 10", ["", "mean", "standard deviation"], rows)]


def _policy_tables(data: xarray.Dataset) -> list[Table]:
    ours, printed = action_names(data, "policy"), action_names(data, "paper_policy")
    actions = [str(action) for action in data.action.values]
    width = round(np.sqrt(len(ours)))
    rows = []
    for s, (here, there) in enumerate(zip(ours, printed, strict=True)):
        if there and here != there:
            worth = [f"{name}, {data.q.values[s, actions.index(name)]:.6f}" for name in (here, there)]
            rows.append([f"[{s // width},{s % width}]", *worth])
    compared = sum(map(bool, printed))
    caption = f"The printed policy agrees in {compared - len(rows)} of {compared} cells"
    return [Table(f"{caption}; it differs in", ["cell", "optimal, value", "printed, value"], rows)] if rows else []


def _q_table(data: xarray.Dataset) -> Table:
    width = round(np.sqrt(data.sizes["state"]))
    rows = []
    for s, values in enumerate(data.q.values):
        best = values >= values.max() - 1e-12
        cells = [f'<span class="best">{v:.6f}</span>' if b else f"{v:.6f}" for v, b in zip(values, best, strict=True)]
        rows.append([f"[{s // width},{s % width}]", *cells])
    return Table("Value of each action", ["cell", *map(str, data.action.values)], rows)


# -- computing time ----------------------------------------------------------------------------------------


class Time(NamedTuple):
    """Seconds of one replication: mean, half width (NaN: unknown), in the paper, by our own solver (NaN: not timed)."""

    agent: str
    seconds: float
    half: float
    paper: float
    solver: float


def times(timings: dict[str, Any]) -> list[Time]:
    """Return the measured times of the agents, Thompson sampling first, and the paper's.

    >>> times({"computing-time": {"seconds": {"TS-RL": 0.5}, "paper_seconds": {"TS-RL": 10.45}}})
    [Time(agent='TS-RL', seconds=0.5, half=nan, paper=10.45, solver=nan)]
    """
    record = timings.get("computing-time", {})
    paper, solver = record.get("paper_seconds", {}), record.get("newton_seconds", {})
    samples = record.get("samples", {}).get("sweeps", {})
    rows = []
    for agent, seconds in record.get("seconds", {}).items():
        half = mean_and_half_width(samples.get(agent, [seconds]))[1]
        others = [float(each.get(agent, np.nan)) for each in (paper, solver)]
        rows.append(Time(agent, float(seconds), float(half), *others))
    return sorted(rows, key=lambda row: (not row.agent.startswith("TS"), row.agent))


def ratios(rows: Sequence[Time]) -> dict[str, list[float]]:
    """Return the times as multiples of the first row's, by what was timed."""
    kinds = {"here, 100 sweeps as in the paper": "seconds", "in the paper": "paper", "here, prudent’s solver": "solver"}
    found = {what: [getattr(row, field) / getattr(rows[0], field) for row in rows] for what, field in kinds.items()}
    return {what: numbers for what, numbers in found.items() if not np.isnan(numbers).any()}


def _time_tables(timings: dict[str, Any]) -> list[Table]:
    rows = times(timings)
    relative = ratios(rows)
    cells = [
        [escape(agent_label(row.agent)), plus_minus(row.seconds, row.half), number(row.paper), number(row.solver, 3)]
        for row in rows
    ]
    columns = ["agent", "here, 100 sweeps", "in the paper", "here, prudent’s solver"]
    tables = [Table("Seconds for one replication", columns, cells)]
    cells = [
        [escape(agent_label(row.agent)), *(f"{numbers[i]:,.2f}×" for numbers in relative.values())]
        for i, row in enumerate(rows)
    ]
    return [*tables, Table("Ratios to Thompson sampling", ["agent", *relative], cells)]


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


# -- figures and sections ----------------------------------------------------------------------------------


def _variable(colour: str) -> str:
    return f"var(--{colour.replace('.', '')})"


def _swatch(entry: Entry) -> str:
    colour = _variable(entry.colour)
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
        heading = f"<h4>{_rich(panel.title)}</h4>" if len(figure.panels) > 1 else ""
        drawn = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        panels.append(f'<div class="panel">{heading}{drawn}</div>')
    legend = "".join(f"<li>{_swatch(entry)}{escape(entry.label)}</li>" for entry in figure.legend)
    links = " · ".join(f'<a href="figures/{figure.name}.{kind}">{kind.upper()}</a>' for kind in ("svg", "png"))
    shape = {1: " one", 2: " two"}.get(figure.columns, "")
    return (
        f"<blockquote><b>The paper says</b>{_rich(says)}</blockquote>"
        f'<figure id="figure-{figure.name}"><figcaption>{_rich(figure.title)}</figcaption>'
        f'<ul class="legend">{legend}</ul><div class="panels{shape}">{"".join(panels)}</div>'
        f'<div class="files">This figure as {links}</div></figure>'
    )


def _section(section: Section, figures: Sequence[Figure], results: Results) -> str:
    data = results.datasets.get(section.name)
    parts = [f'<section id="{section.name}"><h2>{escape(section.heading)}</h2>']
    parts.append(f'<p class="setting">{_rich(section.setting)}</p>')
    facts = _timing_facts(results.timings) if data is None else _provenance(section.name, data)
    parts.append(f'<p class="meta">{facts}</p>')
    parts += [_figure(figure, section.says[figure.name]) for figure in figures]
    if data is None:
        parts += [table.html() for table in _time_tables(results.timings)]
        return "".join(parts) + "</section>"
    makers = {"limit-law": _limit_tables, "optimal-policy": _policy_tables}
    tables = makers[section.name](data) if section.name in makers else _regret_tables(section.name, data)
    parts += [table.html() for table in tables]
    if section.name == "optimal-policy":
        parts.append(f"<details><summary>All values</summary>{_q_table(data).html()}</details>")
    parts.append(
        f"<details><summary>Specification</summary><pre>{escape(_pretty(data.attrs.get('spec')))}</pre></details>"
    )
    return "".join(parts) + "</section>"


def _provenance(name: str, data: xarray.Dataset) -> str:
    facts = [f"{key} {escape(str(data.attrs[key]))}" for key in ("scale", "seed") if key in data.attrs]
    if "replication" in data.sizes:
        facts.append(f"{data.sizes['replication']:,} replications")
    return " · ".join([*facts, f'data: <a href="{name}.nc">{name}.nc</a>'])


def _timing_facts(timings: dict[str, Any]) -> str:
    record = timings.get("computing-time", {})
    facts = [f"{escape(str(record[key]))} {key}" for key in ("replications", "episodes") if key in record]
    facts += [f"p_h = {escape(str(record['p_h']))}"] if "p_h" in record else []
    return " · ".join([*facts, 'data: <a href="timings.json">timings.json</a>'])


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
        f"<td>{_rich(str(claim['statement']))}<br><small>{escape(str(claim.get('source', '')))}</small></td>"
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
        return f'<div class="evidence">{_rich(str(evidence))}</div>'
    lines = "".join(f"<li>{_measured(item)}</li>" for item in evidence)
    listed = f'<ul class="evidence">{lines}</ul>'
    if len(evidence) <= 4:
        return listed
    shown = " open" if claim["verdict"] == "not reproduced" else ""
    return f"<details{shown}><summary>{len(evidence)} numbers</summary>{listed}</details>"


def _measured(item: Any) -> str:
    if not isinstance(item, dict) or "estimate" not in item:
        return _rich(str(item))
    value, low, high = float(item["estimate"]), item.get("low"), item.get("high")
    text = number(value, 6) if low is None or high is None else _with_interval(value, float(low), float(high))
    return f"{_rich(str(item.get('quantity', '')))}: <b>{text}</b>"


def _with_interval(value: float, low: float, high: float) -> str:
    """Return a number and its interval, to the second significant digit of the half width.

    >>> _with_interval(12.2519, 9.512, 15.034)
    '12.3 [9.5, 15.0]'
    """
    half = 0.5 * (high - low)
    if not np.isfinite(half) or half <= 0 or half < 1e-4:
        return f"{number(value)} [{number(low)}, {number(high)}]"
    decimals = max(0, 1 - int(np.floor(np.log10(half))))
    return f"{value:z,.{decimals}f} [{low:z,.{decimals}f}, {high:z,.{decimals}f}]".replace("-", "−")


def _rich(text: str) -> str:
    """Return ``text`` as HTML, with its mathematics set as it should be.

    >>> _rich("sqrt(N) at p_h < 1")
    '√N at <i>p</i><sub>h</sub> &lt; 1'
    """
    signs = {"p_h": "<i>p</i><sub>h</sub>", "V_N": "<i>V</i><sub>N</sub>", "sqrt(N)": "√N", "_nu": "-ν"}
    html = escape(text)
    for plain, sign in signs.items():
        html = html.replace(plain, sign)
    return html


# -- the page ----------------------------------------------------------------------------------------------


def render(results: Results, figures: dict[str, list[Figure]]) -> str:
    """Return the page; ``figures`` are those of each section that there are results for."""
    shown = [section for section in SECTIONS if section.name in figures]
    missing = [section.heading for section in SECTIONS if section.name not in figures]
    links = [("claims", "Claims"), *((section.name, section.heading) for section in shown), ("run", "The run")]
    links.append(("cite", "How to cite"))
    contents = "".join(f'<li><a href="#{target}">{escape(label)}</a></li>' for target, label in links)
    versions = _versions(results)
    said = f'<p class="missing">Not run, hence not shown: {escape("; ".join(missing))}.</p>' if missing else ""
    claims = _claims(results.claims) if results.claims else "<p>No claims were judged.</p>"
    sections = "".join(_section(section, figures[section.name], results) for section in shown)
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
        key: {str(data.attrs.get(key, "")): None for data in results.datasets.values()} for key in ("scale", "seed")
    }
    return " · ".join(
        f"{key} {escape(', '.join(filter(None, values)))}" for key, values in found.items() if any(values)
    )


def _versions(results: Results) -> dict[str, str]:
    """Return the versions that the datasets record; several of one name, if datasets differ, are all told."""
    found: dict[str, list[str]] = {}
    for data in results.datasets.values():
        for name, version in json.loads(data.attrs.get("versions", "{}")).items():
            if str(version) not in found.setdefault(name, []):
                found[name].append(str(version))
    return {name: ", ".join(versions) for name, versions in found.items()}


def _colour_rules() -> str:
    colours = {**COLOURS, **_PAGE_COLOURS}
    light, dark = ("".join(f"--{name.replace('.', '')}:{pair[i]};" for name, pair in colours.items()) for i in (0, 1))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
