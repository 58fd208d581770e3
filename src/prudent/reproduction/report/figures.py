"""The figures of the report: what each kind takes from a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._support.intervals import mean_and_half_width
from ...display.figures import curves, grid_policy, limit_law
from ...display.figures.base import CONFIDENCE, Figure
from .results import action_names, chosen, label_of, relative

if TYPE_CHECKING:
    import xarray


def _curves(
    data: xarray.Dataset, name: str, title: str, *, panels: Sequence[Mapping[str, Any]], **options: Any
) -> Figure:
    """Return curves of the agents; a panel has variable, title, where, agents and log."""
    shown = []
    for panel in panels:
        part = chosen(data, panel["variable"], panel.get("where"))
        part = part if panel.get("agents") is None else part.sel(agent=panel["agents"])
        if part.dims[:2] != ("agent", "replication") or part.ndim != 3:
            raise ValueError(f"{panel['variable']} has dimensions {part.dims}, expected agent, replication and time")
        part = part.dropna("agent", how="all")
        along = part[part.dims[-1]]
        agents = [str(agent) for agent in part.agent.values]
        labels = label_of(along), label_of(part)
        shown.append(curves.Curves(panel["title"], agents, along.values, part.values, *labels, bool(panel.get("log"))))
    if "size" in options:
        options["size"] = tuple(options["size"])
    return curves.draw(name, title, shown, [str(agent) for agent in data.agent.values], **options)


def _samples(data: xarray.Dataset, variable: str, mean: str, sd: str, panel: str) -> limit_law.Samples:
    """Return samples with the dimensions series, panel and replication, in this order."""
    sample = data[variable]
    series, across, _ = sample.dims
    return limit_law.Samples(
        np.asarray(sample.values),
        [str(name) for name in data[series].values],
        [f"{panel} {int(size):,}" for size in data[across].values],
        float(data[mean]),
        float(data[sd]),
    )


def _densities(data: xarray.Dataset, name: str, title: str, *, label: str, **options: str) -> Figure:
    return limit_law.draw_densities(name, title, _samples(data, **options), label)


def _quantiles(data: xarray.Dataset, name: str, title: str, **options: str) -> Figure:
    return limit_law.draw_quantiles(name, title, _samples(data, **options))


def _multiples(
    data: xarray.Dataset, name: str, title: str, *, series: Sequence[Mapping[str, Any]], label: str
) -> Figure:
    return curves.draw_multiples(
        name, title, [str(agent) for agent in data.agent.values], relative(data, series), label
    )


def _excess(
    data: xarray.Dataset,
    name: str,
    title: str,
    *,
    variable: str,
    across: str,
    panels: Sequence[Mapping[str, Any]],
    label: str,
) -> Figure:
    """Return how much more than the best each agent has at the end, by the places of a dimension; paired."""
    shown = []
    for panel in panels:
        part = chosen(data, variable, panel["where"])
        (along,) = (str(dim) for dim in part.dims if dim not in (across, "agent", "replication"))
        last = part.isel({along: -1}).transpose(across, "replication", "agent")
        found = []
        for values in last:
            runs = values.dropna("replication").values
            best = int(np.argmin(runs.mean(axis=0)))
            found.append(mean_and_half_width(runs - runs[:, [best]], CONFIDENCE))
        means, halves = (np.stack(parts) for parts in zip(*found, strict=True))
        places = [f"{place:g}" for place in data[across].values]
        shown.append(curves.Excess(str(panel["title"]), places, means, halves))
    agents = [str(agent) for agent in data.agent.values]
    return curves.draw_excess(name, title, agents, shown, (label_of(data[across]), label))


def _policy(data: xarray.Dataset, name: str, title: str) -> Figure:
    """Return the variables policy, paper_policy, q, value and hole over the cells of a grid."""
    return grid_policy.draw(
        name,
        title,
        action_names(data, "policy"),
        action_names(data, "paper_policy"),
        [str(action) for action in data.action.values],
        data.q.values,
        data.value.values,
        data.hole.values.astype(np.bool_),
    )


KINDS: dict[str, Callable[..., Figure]] = {
    "curves": _curves,
    "densities": _densities,
    "excess": _excess,
    "multiples": _multiples,
    "policy": _policy,
    "quantiles": _quantiles,
}
"""The function that draws each kind of figure: it takes the dataset, the name, the title and the options."""
