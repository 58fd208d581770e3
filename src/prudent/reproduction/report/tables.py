"""The tables of the report: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._support.intervals import mean_and_half_width
from ...display.figures.base import CONFIDENCE
from ...display.pages.tables import Table, best
from ...display.style import agent_label
from ...display.words import number, plus_minus
from .results import action_names, chosen, relative

if TYPE_CHECKING:
    import xarray


def agents(
    data: xarray.Dataset,
    caption: str,
    *,
    variable: str,
    head: str,
    across: str | None = None,
    over: str = "last",
    where: Mapping[str, Any] | None = None,
) -> Table:
    """Return means over replications with 95% half widths: agents down, the least of each column in bold.

    There is a column for each place of the dimension ``across``, at the coordinates ``where``. Along what is left, time
    or episodes, the table shows the last value, or the mean.
    """
    selected = chosen(data, variable, where).dropna("agent", how="all")
    (along,) = (str(dim) for dim in selected.dims if dim not in ("agent", "replication", across))
    shown = selected.mean(along) if over == "mean" else selected.isel({along: -1})
    parts = [shown] if across is None else [shown.isel({across: i}) for i in range(data.sizes[across])]
    heads = [head] if across is None else [_heading(head, value) for value in data[across].values.tolist()]
    values = [part.transpose("agent", "replication").dropna("replication", how="all").values for part in parts]
    pairs = [mean_and_half_width(column, CONFIDENCE, axis=1) for column in values]
    rows = []
    for j, agent in enumerate(map(str, selected.agent.values)):
        cells = []
        for mean, half in pairs:
            cell = plus_minus(float(mean[j]), float(half[j]))
            cells.append(best(cell) if j == int(np.argmin(mean)) else cell)
        rows.append([escape(agent_label(agent)), *cells])
    if over == "last":
        unit = data[along].attrs.get("long_name", along)
        caption = f"{caption} up to {unit} {int(data[along][-1]):,}"
    fewest = min(column.shape[1] for column in values)
    if fewest < data.sizes["replication"]:
        caption = f"{caption}, {fewest:,} replications"
    return Table(f"{caption}; the least in bold", ["agent", *heads], rows)


def _heading(head: str, value: Any) -> str:
    return f"{head} {value if isinstance(value, str) else format(value, 'g')}".strip()


def series(data: xarray.Dataset, caption: str, *, series: Sequence[Mapping[str, Any]]) -> Table:
    """Return some quantities of each agent, with 95% half widths where there are replications."""
    columns = []
    for quantity in series:
        part = chosen(data, quantity["variable"], quantity.get("where"))
        if "replication" in part.dims:
            means, halves = mean_and_half_width(part.transpose("agent", "replication").values, CONFIDENCE, axis=1)
            columns.append([plus_minus(float(mean), float(half)) for mean, half in zip(means, halves, strict=True)])
        else:
            columns.append([number(float(value)) for value in part.values])
    return _by_agent(data, caption, [str(quantity["label"]) for quantity in series], columns)


def multiples(data: xarray.Dataset, caption: str, *, series: Sequence[Mapping[str, Any]]) -> Table:
    """Return the means of some quantities of each agent, as multiples of the first agent's."""
    ratios = relative(data, series)
    return _by_agent(data, caption, list(ratios), [[f"{x:,.2f}×" for x in numbers] for numbers in ratios.values()])


def _by_agent(data: xarray.Dataset, caption: str, heads: list[str], columns: list[list[str]]) -> Table:
    names = [escape(agent_label(str(agent))) for agent in data.agent.values]
    return Table(caption, ["agent", *heads], [list(row) for row in zip(names, *columns, strict=True)])


def law(data: xarray.Dataset, caption: str, *, variable: str, mean: str, sd: str, row: str) -> Table:
    """Return mean and standard deviation of samples [series, place, R], and those of the law beneath them."""
    sample = data[variable]
    kind, across, _ = sample.dims
    rows = []
    for i, size in enumerate(data[across].values):
        for j, name in enumerate(map(str, data[kind].values)):
            values = sample.values[j, i]
            middle, half = mean_and_half_width(values, CONFIDENCE)
            spread = number(float(np.std(values, ddof=1))) if values.size > 1 else "–"
            heading = f"{escape(row)} {int(size):,}, {escape(name)}"
            rows.append([heading, plus_minus(float(middle), float(half)), spread])
    rows.append(["limit law", number(float(data[mean])), number(float(data[sd]))])
    return Table(caption, ["", "mean", "standard deviation"], rows)


def policy(data: xarray.Dataset, caption: str) -> Table:
    """Return the cells where the printed policy differs from the optimal one; the caption says how many agree."""
    ours, printed = action_names(data, "policy"), action_names(data, "paper_policy")
    names = [str(action) for action in data.action.values]
    rows = []
    for s, (here, there) in enumerate(zip(ours, printed, strict=True)):
        if there and here != there:
            worth = [f"{name}, {data.q.values[s, names.index(name)]:.6f}" for name in (here, there)]
            rows.append([_cell(data, s), *map(escape, worth)])
    compared = sum(map(bool, printed))
    caption = f"{caption} {compared - len(rows)} of {compared} cells; it differs in"
    return Table(caption, ["cell", "optimal, value", "printed, value"], rows)


def action_values(data: xarray.Dataset, caption: str) -> Table:
    """Return the value of each action in each cell, the best in bold."""
    rows = []
    for s, values in enumerate(data.q.values):
        highest = values >= values.max() - 1e-12
        rows.append(
            [_cell(data, s), *(best(f"{v:.6f}") if b else f"{v:.6f}" for v, b in zip(values, highest, strict=True))]
        )
    return Table(caption, ["cell", *map(str, data.action.values)], rows)


def _cell(data: xarray.Dataset, state: int) -> str:
    width = round(np.sqrt(data.sizes["state"]))
    return f"[{state // width},{state % width}]"


KINDS: dict[str, Callable[..., Table]] = {
    "action values": action_values,
    "agents": agents,
    "law": law,
    "multiples": multiples,
    "policy": policy,
    "series": series,
}
"""The function that makes each kind of table: it takes the dataset, the caption and the options."""
