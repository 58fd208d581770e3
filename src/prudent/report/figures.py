"""The figures: what is drawn, in which colours, and how it becomes SVG and PNG.

A :class:`Figure` is a row of panels and a legend. Files show the panels side by side, with the legend below. The page
takes each panel as an SVG of its own, so that they wrap on a narrow screen, and the colours in it become CSS variables,
so that they suit light and dark. Bytes depend on the data alone: no dates, a fixed salt for the ids in SVG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from .results import LEVEL, mean_and_half_width

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "Entry", "Figure", "Panel", "agent_label", "agent_styles", "draw", "inline_panels", "save"]

# Okabe-Ito, safe for colour-blind eyes: on white, and on the dark page.
COLOURS = {
    "ink": ("#1b1c1e", "#e4e4e2"),
    "grid": ("#d9d9d6", "#3b3f45"),
    "neutral": ("#6b6b6e", "#a3a3a8"),
    "ts": ("#000000", "#c8c8c6"),
    "brps-0.5": ("#56b4e9", "#56b4e9"),
    "brps-0.8": ("#009e73", "#1fb88c"),
    "brps-0.9": ("#e69f00", "#e69f00"),
    "brps-0.99": ("#d55e00", "#ee7a22"),
    "optimistic": ("#cc79a7", "#d68fb7"),
    "law": ("#0072b2", "#4ba0d8"),
    "other": ("#8c564b", "#b58478"),
}
_PAPER = "#ffffff"  # the background in files; none on the page
_DASHES = ("-", "--", ":", "-.")
_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5,
    "text.color": COLOURS["ink"][0],
    "axes.labelcolor": COLOURS["ink"][0],
    "axes.edgecolor": COLOURS["ink"][0],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": COLOURS["grid"][0],
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": COLOURS["ink"][0],
    "ytick.color": COLOURS["ink"][0],
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "figure.facecolor": _PAPER,
    "svg.fonttype": "path",
    "svg.hashsalt": "prudent",
}


class Entry(NamedTuple):
    """A line of a legend: what, in which colour of :data:`COLOURS`, and the mark: line, area, dot, ring, ..."""

    label: str
    colour: str
    dash: str = "-"
    mark: str = "line"


class Panel(NamedTuple):
    """One pair of axes and what is drawn on it; ``title`` also tells a screen reader what it shows."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """Panels that belong together, with one legend; ``name`` is the stem of the files."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    legend: tuple[Entry, ...]
    columns: int = 2
    size: tuple[float, float] = (4.3, 3.1)  # of a panel, in inches


# -- styles ------------------------------------------------------------------------------------------------


def agent_label(agent: str) -> str:
    """Return how figures and tables call an agent.

    >>> agent_label("BRPS-CMAB_nu 0.8")
    'BRPS-CMAB-ν, α = 0.8'
    """
    return re.sub(r" (0?\.\d+)$", r", α = \1", agent.replace("_nu", "-ν"))


def agent_styles(agents: Iterable[str]) -> list[Entry]:
    """Return the style of each agent: one colour per algorithm in all figures, dashes where two would be alike.

    >>> [(style.colour, style.dash) for style in agent_styles(["TS-CMAB", "TS-CMAB_nu", "BRPS-RL 0.9"])]
    [('ts', '-'), ('ts', '--'), ('brps-0.9', '-')]
    """
    styles: list[Entry] = []
    for agent in agents:
        level = re.search(r"(\d?\.\d+)$", agent)
        if agent.startswith("TS"):
            colour = "ts"
        elif agent.lower().startswith("optimistic"):
            colour = "optimistic"
        elif agent.startswith("BRPS") and level and f"brps-{level[1]}" in COLOURS:
            colour = f"brps-{level[1]}"
        else:
            colour = "other"
        taken = {style.dash for style in styles if style.colour == colour}
        free = [dash for dash in _DASHES[1 if "_nu" in agent else 0 :] if dash not in taken]
        styles.append(Entry(agent_label(agent), colour, (free or _DASHES)[0]))
    return styles


def _hex(colour: str) -> str:
    return COLOURS[colour][0]


# -- the figures of each experiment ------------------------------------------------------------------------


def draw(name: str, data: xarray.Dataset) -> list[Figure]:
    """Return the figures of the experiment ``name``."""
    return _FIGURES[name](data)


def curves(
    data: xarray.DataArray,
    title: str,
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    styles: Sequence[Entry] | None = None,
) -> Panel:
    """Return the panel of means over replications with their 95% bands; ``data`` is (agent, replication, x)."""
    shown = agent_styles(map(str, data.agent.values)) if styles is None else styles
    x = np.asarray(data[data.dims[-1]].values, dtype=np.float64)
    geometric = np.median(x) < 0.25 * x[-1]  # recorded more often in the beginning: show the beginning

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        bottom = np.inf
        for values, style in zip(np.asarray(data.values), shown, strict=True):
            seen = ~np.isnan(values).all(axis=0)  # an agent may be recorded at fewer times than another
            mean, half = mean_and_half_width(values[:, seen])
            if not mean.size:
                continue
            colour = _hex(style.colour)
            few: Any = {"marker": "o", "markersize": 3.0} if mean.size <= 25 else {}
            # regret is never negative; on a log scale a band that reaches below zero ends at the mean
            lower = np.where(mean - half > 0, mean - half, np.where(mean > 0, mean, np.nan) if log else 0.0)
            axes.fill_between(x[seen], lower, mean + half, color=colour, alpha=0.16, linewidth=0)
            axes.plot(x[seen], mean, color=colour, linestyle=style.dash, **few)
            bottom = min(bottom, float(mean[mean.size // 25]))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.margins(x=0.02)
        thousands = FuncFormatter(lambda value, _: f"{value:,.10g}")
        if geometric:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(thousands)
        if log:
            axes.set_yscale("log")
            if 0 < bottom < np.inf:
                axes.set_ylim(bottom=0.7 * bottom)  # not the steep first steps, which would take most of the room
        else:
            axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_formatter(thousands)

    return Panel(title, onto)


_BAND = Entry("95% confidence", "neutral", mark="area")


def _legend_of(data: xarray.DataArray) -> tuple[Entry, ...]:
    return (*agent_styles(map(str, data.agent.values)), _BAND)


def _bandit_four(data: xarray.Dataset) -> list[Figure]:
    level = float(data.level[0])
    panels = (
        curves(
            data.br_regret.isel(level=0),
            f"BR-regret at level {level:g}",
            "step",
            "cumulative BR-regret (reward)",
            log=True,
        ),
        curves(data.regret, "Conventional regret", "step", "cumulative regret (reward)", log=True),
    )
    return [Figure("bandit-four", "Four bandit algorithms, cumulative regret", panels, _legend_of(data.regret))]


def _bandit_br(data: xarray.Dataset) -> list[Figure]:
    legend = _legend_of(data.br_regret)
    agents = [str(agent) for agent in data.agent.values]
    panels = []
    for i, level in enumerate(map(float, data.level.values)):
        # as in the paper: at each metric level, Thompson sampling and BRPS at that level
        pair = [j for j, agent in enumerate(agents) if agent.startswith("TS") or agent.endswith(f" {level:g}")]
        part = data.br_regret.isel(level=i, agent=pair)
        title = f"BR-regret at level {level:g}"
        panels.append(curves(part, title, "step", "cumulative BR-regret (reward)", styles=[legend[j] for j in pair]))
    return [Figure("bandit-br", "Cumulative BR-regret by risk level", tuple(panels), legend, columns=3)]


def _bandit_conventional(data: xarray.Dataset) -> list[Figure]:
    panels = []
    for i, nu in enumerate(map(float, data.nu.values)):
        title = f"Sampling sd × {nu:g}" + (" (the paper’s)" if nu == 1 else "")
        panels.append(curves(data.regret.isel(nu=i), title, "step", "cumulative regret (reward)"))
    title = "Conventional cumulative regret by risk level"
    return [Figure("bandit-conventional", title, tuple(panels), _legend_of(data.regret), columns=3)]


def _lake(name: str, title: str) -> Callable[[xarray.Dataset], list[Figure]]:
    def figures(data: xarray.Dataset) -> list[Figure]:
        panels = tuple(
            curves(data.regret.isel(p_h=i), f"p_h = {p_h:g}", "episode (10 steps)", "cumulative regret (reward)")
            for i, p_h in enumerate(map(float, data.p_h.values))
        )
        return [Figure(name, title, panels, _legend_of(data.regret))]

    return figures


def _beyond(data: xarray.Dataset) -> list[Figure]:
    measured = data.br_regret.dropna("agent", how="all")
    level = data.br_regret.attrs.get("level")
    at = f" at level {float(level):g}" if level is not None else ""
    risk = curves(
        measured, f"BR-regret of single episodes{at}", "episode (10 steps)", "BR-regret in the episode (reward)"
    )
    rivals = curves(data.regret, "Conventional regret", "episode (10 steps)", "cumulative regret (reward)", log=True)
    return [
        Figure("beyond-br-regret", f"BR-regret on Frozen Lake{at}", (risk,), _legend_of(measured), 1, (5.6, 3.4)),
        Figure("beyond-optimism", "Optimism and posterior sampling", (rivals,), _legend_of(data.regret), 1, (5.6, 3.4)),
    ]


def _limit_law(data: xarray.Dataset) -> list[Figure]:
    mean, sd = float(data.limit_mean), float(data.limit_sd)
    law = NormalDist(mean, sd)
    errors = np.asarray(data.scaled_error.values)
    methods = [str(method) for method in data.method.values]
    looks = {"sampled": ("other", "--", "o"), "exact": ("ink", "-", ".")}
    low = min(float(errors.min()), mean - 4 * sd)
    high = max(float(errors.max()), mean + 4 * sd)
    x = np.linspace(low, high, 161)
    unit = r"$\sqrt{N}\,(V_N - V^*)$ in state 10"

    # The kernel density is a mean over replications, so its band is that of any mean. Silverman's rule.
    width = 1.06 * np.maximum(errors.std(axis=2), 1e-9 * sd) * errors.shape[2] ** -0.2
    standard = (x - errors[..., np.newaxis]) / width[..., np.newaxis, np.newaxis]  # [method, size, R, x]
    heights = np.exp(-0.5 * standard**2) / (width[..., np.newaxis, np.newaxis] * np.sqrt(2 * np.pi))
    middle, half = mean_and_half_width(heights, axis=2)
    top = 1.05 * max(float(np.nanmax(np.fmax(middle + half, middle))), law.pdf(mean))

    def density(i: int) -> Callable[[Axes], None]:
        def onto(axes: Axes) -> None:
            axes.plot(x, [law.pdf(point) for point in x], color=_hex("law"), linewidth=2.4)
            for method, line, spread in zip(methods, middle[:, i], half[:, i], strict=True):
                colour, dash, _ = looks.get(method, ("other", "-", "."))
                lower = np.maximum(line - spread, 0)
                axes.fill_between(x, lower, line + spread, color=_hex(colour), alpha=0.12, linewidth=0)
                axes.plot(x, line, color=_hex(colour), linestyle=dash)
            axes.set_xlim(low, high)
            axes.set_ylim(0.0, top)
            axes.set_xlabel(unit)
            axes.set_ylabel("density")

        return onto

    def quantiles(i: int) -> Callable[[Axes], None]:
        def onto(axes: Axes) -> None:
            count = errors.shape[2]
            rank = np.arange(1, count + 1)
            theory = np.array([law.inv_cdf(p) for p in (rank - 0.5) / count])
            # Order statistic j of a sample from the limit law is Beta(j, n + 1 - j) on the scale of its cdf.
            edges = [
                [law.inv_cdf(min(max(p, 1e-15), 1 - 1e-15)) for p in betaincinv(rank, count + 1 - rank, tail)]
                for tail in (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
            ]
            axes.fill_between(theory, edges[0], edges[1], color=_hex("law"), alpha=0.18, lw=0)
            axes.plot(theory[[0, -1]], theory[[0, -1]], color=_hex("law"), linewidth=1.6)
            for method, sample in zip(methods, errors[:, i], strict=True):
                colour, _, marker = looks.get(method, ("other", "-", "."))
                face = "none" if marker == "o" else _hex(colour)
                axes.plot(
                    theory,
                    np.sort(sample),
                    linestyle="none",
                    marker=marker,
                    markersize=3.6,
                    markeredgewidth=0.6,
                    markerfacecolor=face,
                    markeredgecolor=_hex(colour),
                )
            axes.set_ylim(low, high)
            axes.set_xlabel("quantile of the limit law")
            axes.set_ylabel("observed quantile")

        return onto

    titles = [f"N = {int(size):,}" for size in data["size"].values]
    lines = [Entry(f"{method} values", *looks.get(method, ("other", "-"))[:2]) for method in methods]
    dots = [
        entry._replace(mark="ring" if method == "sampled" else "dot")
        for entry, method in zip(lines, methods, strict=True)
    ]
    return [
        Figure(
            "limit-law-density",
            "Density of the scaled error",
            tuple(Panel(title, density(i)) for i, title in enumerate(titles)),
            (Entry("limit law", "law"), *lines, _BAND),
        ),
        Figure(
            "limit-law-qq",
            "Q-Q plot against the limit law",
            tuple(Panel(title, quantiles(i)) for i, title in enumerate(titles)),
            (Entry("limit law; band: 95% of samples from it", "law"), *dots),
            size=(4.3, 3.4),
        ),
    ]


_ARROWS = {"left": (-1, 0), "down": (0, 1), "right": (1, 0), "up": (0, -1)}


def action_names(data: xarray.Dataset, variable: str) -> list[str]:
    """Return the action of each state by name; "" where there is none (the goal)."""
    actions = [str(action) for action in data.action.values]
    names = []
    for entry in data[variable].values.tolist():
        if isinstance(entry, (int, float)):
            names.append(actions[int(entry)] if 0 <= entry < len(actions) else "")
        else:
            names.append(str(entry) if str(entry) in actions else "")
    return names


def _optimal_policy(data: xarray.Dataset) -> list[Figure]:
    ours, printed = action_names(data, "policy"), action_names(data, "paper_policy")
    actions = [str(action) for action in data.action.values]
    q, value, hole = data.q.values, data.value.values, data.hole.values
    width = round(np.sqrt(len(ours)))

    def arrow(axes: Axes, x: float, y: float, action: str, colour: str) -> None:
        dx, dy = (0.17 * step for step in _ARROWS[action])
        look: Any = {"arrowstyle": "-|>", "mutation_scale": 13, "color": _hex(colour), "linewidth": 1.6}
        axes.annotate("", (x + dx, y + dy), (x - dx, y - dy), arrowprops={**look, "shrinkA": 0, "shrinkB": 0})

    def onto(axes: Axes) -> None:
        from matplotlib.patches import Rectangle

        for s, action in enumerate(ours):
            row, column = divmod(s, width)
            goal = not printed[s]
            fill = "brps-0.8" if goal else "law" if hole[s] else None
            box = Rectangle((column, row), 1, 1, facecolor=_hex(fill) if fill else "none", alpha=0.22, linewidth=0)
            axes.add_patch(box)
            axes.text(column + 0.06, row + 0.07, f"[{row},{column}]", va="top", fontsize=7, color=_hex("neutral"))
            kind = "goal" if goal else "hole" if hole[s] else ""
            axes.text(column + 0.94, row + 0.07, kind, va="top", ha="right", fontsize=7, color=_hex("neutral"))
            middle, bottom = row + 0.5, row + 0.86
            if goal:
                axes.text(column + 0.5, middle, "★", ha="center", va="center", fontsize=16)
                axes.text(column + 0.5, bottom, f"{value[s]:.4f}", ha="center", va="center", fontsize=8)
            elif printed[s] == action:
                arrow(axes, column + 0.5, middle, action, "ink")
                axes.text(column + 0.5, bottom, f"{value[s]:.4f}", ha="center", va="center", fontsize=8)
            else:
                for x, name, colour in ((0.27, action, "ink"), (0.74, printed[s], "brps-0.99")):
                    arrow(axes, column + x, middle, name, colour)
                    worth = f"{q[s, actions.index(name)]:.4f}"
                    axes.text(column + x, bottom, worth, ha="center", va="center", fontsize=7.5, color=_hex(colour))
        for edge in range(width + 1):
            axes.plot([edge, edge], [0, width], color=_hex("neutral"), linewidth=0.8)
            axes.plot([0, width], [edge, edge], color=_hex("neutral"), linewidth=0.8)
        axes.set_xlim(-0.02, width + 0.02)
        axes.set_ylim(width + 0.02, -0.02)
        axes.set_aspect("equal")
        axes.axis("off")

    title = f"Optimal policy and values, p_h = {float(data.p_h):g}" if "p_h" in data else "Optimal policy and values"
    legend = (
        Entry("optimal action, its value below", "ink", mark="arrow"),
        Entry("printed action where it differs, its value below", "brps-0.99", mark="arrow"),
    )
    return [Figure("optimal-policy", title, (Panel(title, onto),), legend, columns=1, size=(5.2, 5.2))]


_FIGURES: dict[str, Callable[[Any], list[Figure]]] = {
    "bandit-four": _bandit_four,
    "bandit-br": _bandit_br,
    "bandit-conventional": _bandit_conventional,
    "lake-regret": _lake("lake-regret", "Cumulative regret on Frozen Lake"),
    "lake-long": _lake("lake-long", "Cumulative regret on Frozen Lake, long runs"),
    "optimal-policy": _optimal_policy,
    "limit-law": _limit_law,
    "beyond": _beyond,
}


def computing_time(agents: Sequence[str], ratios: Mapping[str, Sequence[float]]) -> Figure:
    """Return the figure of times as multiples of Thompson sampling's: by what was timed, one number per agent."""
    styles = agent_styles(agents)
    marks = dict(zip(ratios, ("dot", "diamond", "ring"), strict=False))

    def onto(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        for y, style in enumerate(styles):
            numbers = [numbers[y] for numbers in ratios.values()]
            axes.plot([min(numbers), max(numbers)], [y, y], color=_hex("grid"), linewidth=2.0, zorder=1)
            for what, number in zip(ratios, numbers, strict=True):
                colour, mark = _hex(style.colour), marks[what]
                face = colour if mark == "dot" else "none"
                shape, size = {"dot": ("o", 5.0), "diamond": ("D", 7.5), "ring": ("s", 7.5)}[mark]
                axes.plot([number], [y], marker=shape, markersize=size, markerfacecolor=face, color=colour)
        axes.set_yticks(range(len(styles)), [style.label for style in styles])
        axes.set_ylim(len(styles) - 0.5, -0.5)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.08)
        axes.set_xlabel("time as a multiple of Thompson sampling’s")

    legend = tuple(Entry(what, "ink", mark="square" if mark == "ring" else mark) for what, mark in marks.items())
    title = "Computing time, relative to Thompson sampling"
    return Figure("computing-time", title, (Panel(title, onto),), legend, columns=1, size=(5.8, 2.9))


# -- files and inline SVG ----------------------------------------------------------------------------------


def save(figure: Figure, folder: Path) -> None:
    """Write ``figure`` as <name>.svg and <name>.png into ``folder``: all panels, titles and the legend."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    rows = -(-len(figure.panels) // figure.columns)
    with matplotlib.rc_context(_RC):
        size = (figure.size[0] * figure.columns, figure.size[1] * rows + 0.45)
        canvas = Canvas(figsize=size, layout="constrained")
        canvas.get_layout_engine().set(h_pad=0.09, w_pad=0.09)  # type: ignore[union-attr,call-arg]
        grid = canvas.subplots(rows, figure.columns, squeeze=False).ravel()
        for panel, axes in zip(figure.panels, grid, strict=False):
            panel.draw(axes)
            axes.set_title(re.sub(r"\bp_h\b", "$p_h$", panel.title))
        for axes in grid[len(figure.panels) :]:
            axes.set_axis_off()
        handles = [_handle(entry) for entry in figure.legend]
        longest = max(len(entry.label) for entry in figure.legend)
        columns = min(len(handles), max(1, int(size[0] / (0.6 + 0.08 * longest))))  # inches, at this font size
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        folder.mkdir(parents=True, exist_ok=True)
        canvas.savefig(folder / f"{figure.name}.svg", metadata={"Date": None})
        canvas.savefig(folder / f"{figure.name}.png", dpi=200, metadata={"Software": None})


def _handle(entry: Entry) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = _hex(entry.colour)
    if entry.mark == "area":
        return Patch(facecolor=colour, alpha=0.25, linewidth=0, label=entry.label)
    line = Line2D([], [], label=entry.label, color=colour)
    if entry.mark == "line":
        line.set_linestyle(entry.dash)  # type: ignore[arg-type]
    else:
        line.set_linestyle("none")
        line.set_marker({"diamond": "D", "square": "s", "arrow": r"$\rightarrow$"}.get(entry.mark, "o"))
        line.set_markersize(11 if entry.mark == "arrow" else 5)
        line.set_markerfacecolor("none" if entry.mark in ("ring", "diamond", "square") else colour)
    return line


def inline_panels(figure: Figure) -> list[str]:
    """Return each panel as an SVG element for the page: colours as CSS variables, ids of its own, no background."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    elements = []
    for i, panel in enumerate(figure.panels):
        with matplotlib.rc_context(_RC):
            canvas = Canvas(figsize=figure.size, layout="constrained")
            panel.draw(canvas.subplots())
            text = io.StringIO()
            canvas.savefig(text, format="svg", metadata={"Date": None})
        elements.append(_for_page(text.getvalue(), f"{figure.name}-{i}-"))
    return elements


def _for_page(svg: str, prefix: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", svg)
    svg = svg.replace(_PAPER, "none")
    for name, (light, _) in COLOURS.items():
        svg = svg.replace(light, f"var(--{name.replace('.', '')})")
    head, body = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)  # the page sets the width; viewBox keeps the shape
    return f"{head}>{body}"
