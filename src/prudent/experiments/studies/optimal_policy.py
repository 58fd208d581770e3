"""The optimal policy of Frozen Lake, beside the one that the paper prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..intervals import NOT_REPRODUCED, REPRODUCED, Claim, Interval, claim
from ..run import Arrays, Run
from ..scale import Scale
from ..study import Figure, Quantity, Study, Table
from ._lake import P_H

if TYPE_CHECKING:
    import xarray

ESCAPE = 0.1  # p_h
# the arrows of the optimal-policy table, row by row
PRINTED = "down right down left / down down down left / right down down down / right right right"
SAME = 1e-9  # values that differ by less are equal


def _plan(scale: Scale) -> tuple[Run, ...]:
    return ()  # nothing is simulated


def _assemble(scale: Scale, results: list[Arrays]) -> tuple[dict[str, Any], dict[str, Any]]:
    from ...envs.frozen_lake import ACTIONS, frozen_lake
    from ...planning.solver import solve

    problem = frozen_lake(ESCAPE)
    cells = np.array(list("".join(problem.layout or ())))
    solution = solve(problem.mdp(), tol=1e-12)
    printed = [*map(ACTIONS.index, PRINTED.replace("/", "").split()), -1]
    return (
        {
            "q": solution.q,
            "value": solution.value,
            "policy": np.where(cells == "G", -1, solution.policy).astype(np.int32),
            "paper_policy": np.array(printed, dtype=np.int32),
            "hole": (cells == "H").astype(np.int8),
            "p_h": ESCAPE,
        },
        {"state": np.arange(cells.size), "action": list(ACTIONS)},
    )


def _claims(data: xarray.Dataset) -> list[Claim]:
    printed, value, q = data.paper_policy.values, data.q.values.max(axis=1), data.q.values
    cells = np.flatnonzero(printed >= 0)
    loss = value[cells] - q[cells, printed[cells]]
    side = round(math.sqrt(value.size))
    names = [str(name) for name in data.action.values]
    evidence = [Interval("cells whose printed action is optimal", int((loss <= SAME).sum()))]
    for cell, lost in zip(cells, loss, strict=True):
        if lost > SAME:
            place = f"[{cell // side},{cell % side}]"
            best = names[int(q[cell].argmax())]
            evidence += [
                Interval(f"value of {names[printed[cell]]} in {place}, as printed", float(q[cell, printed[cell]])),
                Interval(f"value of {best} in {place}", float(value[cell])),
            ]
    return [
        claim(
            "optimal-policy-table",
            f"The printed actions are optimal in all {cells.size} cells at p_h = 0.1",
            "Normality study, table of the optimal policy",
            evidence,
            test="exact: values by a linear solve, certified to 1e-12",
            verdict=REPRODUCED if (loss <= SAME).all() else NOT_REPRODUCED,
        )
    ]


STUDY = Study(
    name="optimal-policy",
    order=70,
    title="Frozen Lake: the optimal policy",
    setting="Frozen Lake with known probabilities, solved to rounding error. Holes are blue, the goal is green.",
    variables={
        "q": Quantity("optimal value of an action", "discounted reward", ("state", "action")),
        "value": Quantity("optimal value", "discounted reward", ("state",)),
        "policy": Quantity("optimal action, -1 in the goal", dims=("state",)),
        "paper_policy": Quantity("action printed in the paper, -1 in the goal", dims=("state",)),
        "hole": Quantity("1 in a hole", dims=("state",)),
        "p_h": P_H,
    },
    coords={"state": Quantity("cell of the lake, row by row"), "action": Quantity("direction")},
    plan=_plan,
    assemble=_assemble,
    claims=_claims,
    figures=(
        Figure(
            "policy",
            "optimal-policy",
            f"Optimal policy and values, p_h = {ESCAPE:g}",
            "A table of arrows gives the optimal action in every cell; the limit law below is "
            "studied under this policy.",
        ),
    ),
    tables=(
        Table("policy", "The printed policy agrees in"),
        Table("action values", "Value of each action", fold="All values"),
    ),
)
