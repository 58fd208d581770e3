"""The page of the benchmarks, and its figures, made from the table alone: the same table gives the same page."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from . import _table
from ._run import BUDGET, BY_NAME, exponent
from ._table import Fit, Limit, Table
from ._timing import Row, number

FIGURES = "benchmark-figures"
TITLES = {
    "first_contact": "The first call",
    "core": "Planning",
    "average": "Average rewards",
    "bandit": "Bandits: speed",
    "bandit_peers": "Bandits: how well they learn",
    "bandit_check": "Bandits: false alarms of check",
    "shared": "Items with features, clicks",
    "journal": "The journal",
    "features": "Features",
    "off_policy": "Off-policy evaluation",
    "rl": "Agents",
    "analysis": "Questions about a policy",
    "value_of_data": "What to measure next",
    "posterior_risk": "Risk of the return over a posterior",
    "learning": "Learning inside the horizon",
    "robust": "Interval models",
    "cluster": "A cluster",
    "gpu": "A GPU",
}
INTRODUCTION = """\
# Benchmarks

This page is generated: `python -m benchmarks --page docs/benchmarks.md` writes it from `benchmarks/table.json`, which
`python -m benchmarks --write` measures. `make bench` runs the same pieces in under {minutes:.0f} minutes on two quiet
cores and names what became slower by more than {slower:.0f}% since the table was written. Pieces that take longer run
when they are named (`python -m benchmarks {by_name}`); `python -m benchmarks --list` says what each takes.

{machine}

## How to read it

- Both sides run in one process and take turns. A time is the median of the repeats, after one run that does not count:
  seconds on the processor, with one thread for everybody, and of the clock where a row has several threads or a disk.
- Solvers run to the same residual, which is checked afterwards with the same code for all. One that stops short of it
  is shown, and does not count.
- *Ratio* is how many times better ours is. **Where the other one is better, the row is bold and says why.**
- A limit is a number that we require of ourselves; it was not measured. Rows with a limit are compared with later runs
  by a fixed piece of work that is timed with them.
- A peer that is not installed or fails says so in its row, and does not stop the others.
"""
GROWTH = """\
## Growth

Exponents of time and memory: the slope of log time over log size by least squares, with its standard error, on one
thread (`benchmarks/growth.py`). Time is that on the processor, the median of some repeats. Memory is the peak of making
the problem and solving it, above what the process had after a tiny one; no exponent is fitted where all of it is below
4 MB. Below 1 are jobs with a cost that does not grow: policy evaluation does not grow with the number of actions, and
exact risk is worked out only for the actions that the [moment screen](mathematics/screen.md) leaves. Above the
expected ones are those that outgrow a cache on the way.

"""
LIMIT = """\
## The limit

What a kernel must move and do, at rates of this machine that are measured in the same run (`benchmarks/limits.py`). The
*fraction* is the share of the time that could not be saved; above 100% the kernel is faster than the code that the rate
was measured with.

"""
PUBLISHED = """\
## Not measured here

- **craam2** (robust MDPs in C++, with an interface for R) has no package for Python: its
  [README](https://github.com/marekpetrik/craam2) calls that interface broken. It solves another problem, worst cases
  over L1 balls instead of CVaR over a posterior, so that seconds could not be set side by side anyway. What is
  published: its authors report that their Bellman updates are more than 1,000 times faster than a linear program solved
  by Gurobi on small instances (Ho, Petrik and Wiesemann, *Fast Bellman Updates for Robust MDPs*, ICML 2018, abstract).
  We found no table of seconds for it that could be checked.
"""


def write(table: Table, path: Path) -> None:
    """Write the page, and its figures into a folder beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(table))
    folder = path.parent / FIGURES
    folder.mkdir(exist_ok=True)
    for name, content in figures(table).items():
        (folder / f"{name}.svg").write_bytes(content)


def page(table: Table) -> str:
    """Return the page as Markdown."""
    parts = [
        INTRODUCTION.format(
            minutes=BUDGET / 60.0,
            slower=100.0 * (_table.SLOWER - 1.0),
            by_name=" ".join(BY_NAME),
            machine=_machine(table),
        ),
        *_ratios(table),
    ]
    fits = _items(table, "growth")
    if fits:
        parts += [GROWTH + _growth(fits)]
    limits = _items(table, "limits")
    if limits:
        parts += [LIMIT + _limits(limits)]
    return "\n".join([*parts, PUBLISHED])


def _items(table: Table, kind: str) -> list[Any]:
    return [item for piece in table["pieces"].values() if piece["kind"] == kind for item in _table.items_of(piece)]


def _machine(table: Table) -> str:
    told = table["machine"]
    lines = [
        f"Measured on {table['date']}: {told['processor']}, {told['cores']} cores, cache {told['cache']}, "
        f"{told['system']}, Python {told['python']}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in table["versions"].items()) + ".",
    ]
    here = (table["date"], told["processor"])
    elsewhere = []
    for name, piece in table["pieces"].items():
        if (piece["date"], piece["processor_name"]) != here:
            where = "" if piece["processor_name"] == told["processor"] else f", {piece['processor_name']}"
            elsewhere.append(f"{name} ({piece['date']}{where})")
    if elsewhere:
        lines += ["Measured another time: " + ", ".join(elsewhere) + "."]
    return "\n".join(lines)


def _ratios(table: Table) -> list[str]:
    suites: dict[str, list[Row]] = {}
    for name, piece in sorted(table["pieces"].items(), key=lambda each: each[0] != "core.plain"):  # it comes first
        if piece["kind"] == "rows":
            suites.setdefault(name.partition(".")[0], []).extend(_table.items_of(piece))
    parts = []
    if suites:
        lost = [row for rows in suites.values() for row in rows if row.lost]
        measured = [row for rows in suites.values() for row in rows if not row.missing and not row.fixed and row.counts]
        gone = [row for rows in suites.values() for row in rows if row.missing]
        told = f"{len(measured)} comparisons, {len(lost)} of them lost, {len(gone)} not available."
        parts += [f"## Ratios\n\n{told}\n"]
    for suite in [*(name for name in TITLES if name in suites), *(name for name in suites if name not in TITLES)]:
        lines = [f"### {TITLES.get(suite, suite)}", "", "| | ours | other | ratio | |", "|---|---|---|---|---|"]
        lines += [_row(row) for row in suites[suite]]
        parts += ["\n".join(lines) + "\n"]
    return parts


def _row(row: Row) -> str:
    name = _cell(("… " if row.name.startswith(" ") else "") + row.name.strip())
    if row.missing:
        return f"| {name} | | | | not available: {_cell(row.missing)} |"
    ours, other = number(row.ours, row.unit), number(row.other, row.unit)
    if row.fixed:
        other = f"limit {other}"
    told = row.note if row.met else f"{row.note}; required: {row.required}".removeprefix("; ")
    cells = [name, ours, other, "" if row.fixed else ratio(row.ratio)]
    if row.lost:
        cells = [f"**{cell}**" for cell in cells]
        told = f"{told}; **{row.why or 'we do not know why'}**".removeprefix("; ")
    return "| " + " | ".join([*cells, _cell(told)]) + " |"


def ratio(x: float) -> str:
    """Return a ratio as tables show it."""
    if not math.isfinite(x):
        return ""
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}" if x >= 0.1 else f"{x:.1g}"


def _growth(fits: list[Fit]) -> str:
    lines = ["| job | in | sizes | time | memory | expected: time; memory |", "|---|---|---|---|---|---|"]
    for fit in fits:
        sizes = f"{fit.sizes[0]:,} to {fit.sizes[-1]:,}"
        memory = exponent(fit.memory_exponent, fit.memory_error)
        if memory == "-":
            memory = "below 4 MB"
        time = exponent(fit.time_exponent, fit.time_error)
        lines.append(f"| {fit.job} | {fit.dimension} | {sizes} | {time} | {memory} | {fit.expected} |")
    pictures = [
        f"![Time over size, both logarithmic, one panel for each dimension]({FIGURES}/growth-time.svg)",
        f"![Peak memory over size, both logarithmic, one panel for each dimension]({FIGURES}/growth-memory.svg)",
    ]
    return "\n".join(lines) + "\n\n" + "\n\n".join(pictures) + "\n"


def _limits(limits: list[Limit]) -> str:
    lines = ["| kernel | takes | least | fraction | must do | at | |", "|---|---|---|---|---|---|---|"]
    for limit in limits:
        cells = [
            limit.kernel,
            number(limit.seconds, "s"),
            number(limit.least, "s"),
            f"{100 * limit.fraction:.2g}%" if limit.fraction < 0.995 else f"{100 * limit.fraction:.0f}%",
            limit.work,
            limit.rate,
            limit.note,
        ]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def figures(table: Table) -> dict[str, bytes]:
    """Return the figures of the page as SVG, by name."""
    fits = _items(table, "growth")
    if not fits:
        return {}
    return {
        "growth-time": _drawn("growth-time", fits, lambda fit: fit.seconds, "seconds"),
        "growth-memory": _drawn(
            "growth-memory", [fit for fit in fits if fit.memory_exponent == fit.memory_exponent], _memory, "megabytes"
        ),
    }


def _memory(fit: Fit) -> list[float]:
    return fit.megabytes


def _drawn(name: str, fits: list[Fit], values: Any, unit: str) -> bytes:
    """Return one figure: a panel for each dimension, a line for each job with the slope that was fitted."""
    import matplotlib
    from matplotlib.ticker import LogLocator, NullLocator

    from prudent.display.figures.base import Figure, Panel
    from prudent.display.style import RC, Entry, hex_of

    jobs = list(dict.fromkeys(fit.job for fit in fits))
    colours = dict(
        zip(jobs, ("ts", "brps-0.99", "brps-0.5", "brps-0.8", "law", "optimistic", "brps-0.9"), strict=False)
    )

    def panel(dimension: str) -> Panel:
        def draw(axes: Any) -> None:
            for fit in fits:
                if fit.dimension != dimension:
                    continue
                colour, y = hex_of(colours[fit.job]), values(fit)
                slope = fit.time_exponent if unit == "seconds" else fit.memory_exponent
                axes.plot(fit.sizes, y, "o", color=colour, markersize=4)
                middle = math.exp(sum(map(math.log, fit.sizes)) / len(fit.sizes))
                level = math.exp(sum(map(math.log, y)) / len(y))
                axes.plot(fit.sizes, [level * (n / middle) ** slope for n in fit.sizes], color=colour)
                at = level * (fit.sizes[-1] / middle) ** slope
                axes.annotate(
                    f"{slope:.2f}", (fit.sizes[-1], at), (4, 0), textcoords="offset points", color=colour, va="center"
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            sizes = sorted({n for fit in fits if fit.dimension == dimension for n in fit.sizes})
            if len(sizes) > 5:  # two jobs at different sizes
                sizes = [n for n in (10**power for power in range(1, 7)) if sizes[0] / 2 <= n <= 2 * sizes[-1]]
            axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_locator(NullLocator())
            axes.set_xlabel(dimension)
            axes.set_ylabel(unit)
            axes.margins(x=0.14)

        return Panel(dimension, draw)

    dimensions = list(dict.fromkeys(fit.dimension for fit in fits))
    legend = tuple(Entry(job, colours[job]) for job in jobs)
    figure = Figure(name, name, tuple(panel(dimension) for dimension in dimensions), legend, columns=2, size=(4.0, 2.5))
    file = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.to_matplotlib().savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
