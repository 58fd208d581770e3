"""Beyond the paper: what a plan is worth that knows it will learn, and what caution makes of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from ..claims import BEYOND, Data, claim
from ..rules import Interval, Means, Samples, mean_intervals
from ..runs.base import Arrays
from ..runs.learning import CASES, LearningRun
from ..scale import Scale
from ..study import Coordinates, Parts, Quantity, Study, Table, curve, curves, quantities

ALPHAS = (-0.5, 0.0, 0.5, 0.9)
HORIZON = 6
PLANS = ("learns", "fixed")
TRIAL, SHOP, GAMBLER = CASES


def _plan(scale: Scale) -> dict[Coordinates, LearningRun]:
    return {(case,): LearningRun(scale.learning_replications, case, ALPHAS, HORIZON) for case in CASES}


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    parts = {name: np.stack([results[(case,)][name] for case in CASES]) for name in (*PLANS, "error_bound")}
    variables = {
        "value": np.stack([parts[name] for name in PLANS], axis=1),
        "value_of_learning": parts["learns"] - parts["fixed"],
        "error_bound": parts["error_bound"].max(axis=1),
    }
    replications = np.arange(scale.learning_replications)
    return variables, {"case": list(CASES), "agent": list(PLANS), "replication": replications, "level": list(ALPHAS)}


def _worth(data: Data, case: str, level: float) -> np.ndarray:
    return np.asarray(data.value_of_learning.sel(case=case, level=level).values)


def _neutral(data: Data, case: str) -> Samples:
    return {f"{case}: value of learning at level 0": _worth(data, case, 0.0)}


@claim(
    "beyond-learning-pays",
    "At level 0 learning is worth something in a clinical trial",
    BEYOND,
    also=lambda data: [
        *mean_intervals(_neutral(data, SHOP)),
        Interval("largest certified error of a plan", float(data.error_bound.max())),
    ],
)
def _pays(data: Data) -> Samples:
    return _neutral(data, TRIAL)


@claim(
    "beyond-learning-correlates",
    "At level 0 learning costs a gambler: a fixed posterior takes the games for independent",
    BEYOND,
    rule=Means(-math.inf, 0.0),
)
def _correlates(data: Data) -> Samples:
    return _neutral(data, GAMBLER)


@claim(
    "beyond-learning-costs",
    "At level 0.9 learning is worth less than nothing: the nested risk is taken at every look at the data",
    BEYOND,
    rule=Means(-math.inf, 0.0),
)
def _costs(data: Data) -> Samples:
    return {f"{case}: value of learning at level 0.9": _worth(data, case, 0.9) for case in CASES}


@claim(
    "beyond-learning-falls",
    "The more cautious the plan, the less learning is worth, in a clinical trial and in a shop",
    BEYOND,
)
def _falls(data: Data) -> Samples:
    return {
        f"{case}: value of learning at {low:g} minus that at {high:g}": _worth(data, case, low)
        - _worth(data, case, high)
        for case in (TRIAL, SHOP)
        for low, high in itertools.pairwise(ALPHAS)
    }


STUDY = Study(
    name="learning",
    order=120,
    title="Beyond the paper: learning inside the horizon",
    setting=f"Plans of {HORIZON} steps that update the posterior on the way, and plans that keep it fixed, both exact: "
    "a clinical trial of two treatments, of which 20 and 4 patients are known; a shop that has seen 4 days of demand; "
    "a gambler who has seen 4 games and may stop. Each replication has other data, drawn from the uniform prior.",
    variables={
        "value": Quantity("value of the plan", "reward", ("case", "agent", "replication", "level")),
        "value_of_learning": Quantity("value of learning", "reward", ("case", "replication", "level")),
        "error_bound": Quantity("largest certified error of a plan", "reward", ("case", "level")),
    },
    coords=quantities("replication", case="problem", agent="plan", level="risk level"),
    plan=_plan,
    assemble=_assemble,
    claims=(_pays, _correlates, _costs, _falls),
    figures=(
        curves(
            "learning",
            "Plans that learn and plans that do not",
            "Nothing about this figure: the posterior is updated between episodes only. Lin, Ren and Zhou (2022) "
            "define the plan that learns.",
            [curve("value", case, case=case) for case in CASES],
            columns=3,
            size=[3.1, 2.7],
        ),
    ),
    tables=tuple(
        Table(
            "series",
            f"Value of the plan, {case}",
            {
                "series": [
                    {"label": f"level {level:g}", "variable": "value", "where": {"case": case, "level": level}}
                    for level in ALPHAS
                ]
            },
        )
        for case in CASES
    ),
)
