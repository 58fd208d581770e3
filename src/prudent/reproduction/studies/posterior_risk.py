"""Beyond the paper: the best policy for the worst tenth of the posterior, beside methods without a bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...types import FloatArray
from ..claims import BEYOND, Data, claim, gap
from ..distributions import Shares
from ..rules import Interval, Samples, mean_intervals
from ..runs.base import Arrays
from ..runs.static_risk import (
    ASCENT,
    BEST,
    FAMILIES,
    GRADIENT,
    METHODS,
    MIXED,
    NESTED,
    SEARCHES,
    StaticRun,
    StaticTimeRun,
)
from ..scale import Scale
from ..study import Coordinates, Figure, Parts, Quantity, Study, Table, quantities

PROVED = 1e-6  # gap, as a share of the value
ROWS, VENTURE = FAMILIES
BY_METHOD = ("family", "agent", "replication")
BY_SEARCH = ("family", "search", "replication")


def _plan(scale: Scale) -> dict[Coordinates, StaticRun]:
    plan: dict[Coordinates, StaticRun] = {}
    for family in FAMILIES:
        plan[family, "values"] = StaticRun(scale.static_replications, family)
    for family in FAMILIES:
        plan[family, "times"] = StaticTimeRun(scale.static_timed, family)
    return plan


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    def joined(what: str, name: str) -> FloatArray:
        return np.stack([results[(family, what)][name].T for family in FAMILIES])

    variables = {name: joined("values", name) for name in ("worth", "fresh_worth", "fresh_mean")}
    variables |= {name: joined("values", name) for name in ("upper_bound", "gap", "nodes")}
    seconds = np.full(variables["worth"].shape, np.nan)
    seconds[..., : scale.static_timed] = joined("times", "seconds")[..., : scale.static_replications]
    coords = {
        "family": list(FAMILIES),
        "agent": list(METHODS),
        "search": list(SEARCHES),
        "replication": np.arange(scale.static_replications),
    }
    return {**variables, "seconds": seconds}, coords


def _best_level(data: Data, family: str) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the tail under fresh draws of the level that the draws of the search choose."""
    part = data.sel(family=family, agent=list(NESTED))
    chosen = part.worth.values.argmax(axis=0)
    tail, mean = (part[name].values[chosen, np.arange(chosen.size)] for name in ("fresh_worth", "fresh_mean"))
    return mean, tail


def _nodes(data: Data) -> list[Interval]:
    return [
        Interval(f"{family}: nodes of the search, median", float(data.nodes.sel(family=family, search=BEST).median()))
        for family in FAMILIES
    ]


@claim(
    "beyond-static-proved",
    "The search proves its policy the best for its draws, to a millionth, in more than 90% of problems",
    BEYOND,
    rule=Shares(0.9),
    also=_nodes,
)
def _proved(data: Data) -> Samples:
    share = data.gap.sel(search=BEST) / abs(data.worth.sel(agent=BEST))
    return {
        f"{family}: share of problems with a gap below {PROVED:g}": (share.sel(family=family).values < PROVED) * 1.0
        for family in FAMILIES
    }


def _over_levels(data: Data, family: str) -> Samples:
    quantity = f"{family}: CVaR under fresh draws, {BEST} minus the best level"
    return {quantity: data.fresh_worth.sel(family=family, agent=BEST).values - _best_level(data, family)[1]}


@claim(
    "beyond-static-dial",
    "In the venture no level of the dial reaches the best policy for the worst tenth: under fresh draws it is better "
    "than the best of four levels, chosen by the same draws",
    BEYOND,
    also=lambda data: mean_intervals(_over_levels(data, ROWS)),
)
def _dial(data: Data) -> Samples:
    return _over_levels(data, VENTURE)


@claim(
    "beyond-static-both",
    "In the venture it is better than level 0.9 in the mean and in the tail, under fresh draws",
    BEYOND,
)
def _both(data: Data) -> Samples:
    part = data.sel(family=VENTURE)
    return {
        f"{words} under fresh draws: {BEST} minus {NESTED[2]}": gap(part[name], BEST, NESTED[2])
        for name, words in (("fresh_mean", "mean"), ("fresh_worth", "CVaR"))
    }


@claim(
    "beyond-static-ascent",
    "Coordinate ascent from the neutral policy ends below the best policy",
    BEYOND,
)
def _ascent(data: Data) -> Samples:
    return {
        f"{family}: CVaR under the draws, {BEST} minus {ASCENT}": gap(data.worth.sel(family=family), BEST, ASCENT)
        for family in FAMILIES
    }


@claim(
    "beyond-static-gradient",
    "A policy gradient from the uniform policy ends below the randomised policy of the search",
    BEYOND,
)
def _gradient(data: Data) -> Samples:
    return {
        f"{family}: CVaR under the draws, {MIXED} minus {GRADIENT}": gap(data.worth.sel(family=family), MIXED, GRADIENT)
        for family in FAMILIES
    }


def _series(variable: str) -> list[dict[str, object]]:
    return [{"label": family, "variable": variable, "where": {"family": family}} for family in FAMILIES]


STUDY = Study(
    name="posterior-risk",
    order=110,
    title="Beyond the paper: the risk of the return over the posterior",
    setting="Which policy has the best worst tenth of the return, if one of the drawn models is true and stays? "
    "Problems with random rows (5 states, 3 actions), and a venture: a gamble by a known or a new option, then a chain "
    "of six stages that can be sold at any time. 60 draws choose the policies, 4,000 fresh ones judge them. "
    "The search knows an upper bound; the nested solutions of a dial, coordinate ascent (CADP) and the policy gradient "
    "know none.",
    variables={
        "worth": Quantity("CVaR of the return under the draws", "reward", BY_METHOD),
        "fresh_worth": Quantity("CVaR of the return under fresh draws", "reward", BY_METHOD),
        "fresh_mean": Quantity("mean return under fresh draws", "reward", BY_METHOD),
        "upper_bound": Quantity("upper bound of the search", "reward", BY_SEARCH),
        "gap": Quantity("gap of the search", "reward", BY_SEARCH),
        "nodes": Quantity("nodes of the search", "", BY_SEARCH),
        "seconds": Quantity("processor time", "s", BY_METHOD),
    },
    coords=quantities("replication", family="family of problems", agent="method", search="search"),
    plan=_plan,
    assemble=_assemble,
    claims=(_proved, _dial, _both, _ascent, _gradient),
    figures=(
        Figure(
            "multiples",
            "posterior-risk",
            "CVaR of the return under fresh draws",
            "Nothing about this figure: the paper’s risk is nested. Wang, Lin and Zhou (2025) ask for the risk of the "
            "whole return, by a policy gradient.",
            {"series": _series("fresh_worth"), "label": f"CVaR as a multiple of {BEST}’s"},
        ),
    ),
    tables=(
        Table("series", "CVaR of the return under the draws that chose the policy", {"series": _series("worth")}),
        Table("series", "CVaR of the return under fresh draws", {"series": _series("fresh_worth")}),
        Table("series", "Mean return under fresh draws", {"series": _series("fresh_mean")}),
        Table("series", "Processor seconds of a problem", {"series": _series("seconds")}, fold="Times"),
    ),
)
