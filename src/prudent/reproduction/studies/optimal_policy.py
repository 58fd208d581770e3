"""The optimal policy of Frozen Lake, beside the one that the paper prints, and where the printed one is optimal.

The printed table has a cell that is not optimal with the parameters as written. So ask the other way round: for which
p_h, with the slip as written, and for which slip, with p_h as written, are all printed actions optimal?
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from ...types import FloatArray, IntArray
from ..claims import Data, claim
from ..rules import Finding, Interval, Verdict
from ..runs.base import Arrays
from ..scale import Scale
from ..study import Coordinates, Figure, Parts, Quantity, Study, Table, quantities
from ._lake import P_H

ESCAPE = 0.1  # p_h
# the arrows of the optimal-policy table, row by row
PRINTED = "down right down left / down down down left / right down down down / right right right"
CELLS = len(PRINTED.replace("/", "").split())  # all but the goal
SAME = 1e-9  # values that differ by less are equal
SLIP = 0.25  # on each side
# where the printed policy is looked for
TRIED = {"p_h": np.geomspace(0.001, 1.0, 40), "slip": np.linspace(0.0, 0.5, 40)}
NAMES = {"p_h": "p_h", "slip": "the slip on each side"}


def _assemble(scale: Scale, results: Mapping[Coordinates, Arrays]) -> Parts:
    from ...envs.frozen_lake import ACTIONS, frozen_lake
    from ...planning.solve import solve

    problem = frozen_lake(ESCAPE)
    cells = np.array(list("".join(problem.layout or ())))
    solution = solve(problem.mdp(), tol=1e-12)
    printed = np.array([*map(ACTIONS.index, PRINTED.replace("/", "").split()), -1])
    variables = {
        "q": solution.q,
        "value": solution.value,
        "policy": np.where(cells == "G", -1, solution.policy).astype(np.int32),
        "paper_policy": printed.astype(np.int32),
        "hole": (cells == "H").astype(np.int8),
        "p_h": ESCAPE,
        "printed_is_optimal": np.array(printed_is_optimal(tuple(printed.tolist()))),
    }
    coords = {"state": np.arange(cells.size), "action": ACTIONS, "parameter": list(TRIED), "end": ["lowest", "highest"]}
    return variables, coords


def _losses(q: FloatArray, printed: IntArray) -> FloatArray:
    """Return how much less the printed action is worth than the best, in each cell where one is printed."""
    cells = np.flatnonzero(printed >= 0)
    return q[cells].max(axis=1) - q[cells, printed[cells]]


@functools.cache
def printed_is_optimal(printed: tuple[int, ...]) -> tuple[tuple[float, float], ...]:
    """Return the lowest and the highest p_h, and the same for slip, at which all actions of a policy are optimal."""
    from ...envs.frozen_lake import frozen_lake
    from ...planning.solve import solve

    def optimal(p_h: float, slip: float) -> bool:
        q = solve(frozen_lake(p_h, slip=slip).mdp(), tol=1e-12).q
        return bool(_losses(q, np.array(printed)).max() <= SAME)

    return (
        _where(lambda p_h: optimal(p_h, SLIP), TRIED["p_h"]),
        _where(lambda slip: optimal(ESCAPE, slip), TRIED["slip"]),
    )


def _where(holds: Callable[[float], bool], tried: FloatArray) -> tuple[float, float]:
    """Return the ends of the longest range of ``tried`` in which ``holds``; NaN if there is none."""
    true = np.array([False, *map(holds, tried), False])
    begins, ends = np.flatnonzero(true[1:] & ~true[:-1]), np.flatnonzero(true[:-1] & ~true[1:]) - 1
    if not begins.size:
        return math.nan, math.nan
    longest = int(np.argmax(ends - begins))
    first, last = int(begins[longest]), int(ends[longest])
    return (
        _edge(holds, tried[first], tried[max(first - 1, 0)]),
        _edge(holds, tried[last], tried[min(last + 1, tried.size - 1)]),
    )


def _edge(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return a number next to the edge between the two, on the inside."""
    while abs(outside - inside) > 1e-6:
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return float(inside)


def _reading(data: Data, parameter: str) -> tuple[str, Finding]:
    """Return for which values of a parameter the printed policy is optimal, in words and in numbers."""
    low, high = data.printed_is_optimal.sel(parameter=parameter).values.tolist()
    name, least, most = NAMES[parameter], TRIED[parameter][0], TRIED[parameter][-1]
    if math.isnan(low):
        nowhere = Interval(f"values of {name} at which all {CELLS} printed actions are optimal", 0)
        return f"{name} is another", Finding([nowhere], Verdict.NOT_REPRODUCED)
    # rounded to the inside
    lowest, highest = f"{math.ceil(1e4 * low) / 1e4:.4f}", f"{math.floor(1e4 * high) / 1e4:.4f}"
    words = f"at most {highest}" if low == least else f"at least {lowest}"
    words = words if low == least or high == most else f"from {lowest} to {highest}"
    evidence = [
        Interval(f"{end} value of {name} at which all {CELLS} printed actions are optimal", edge)
        for end, edge in (("lowest", low), ("highest", high))
    ]
    return f"{name} is {words}", Finding(evidence, Verdict.REPRODUCED, decisive=0 if high == most else 1)


@claim(
    "optimal-policy-table",
    f"The printed actions are optimal in all {CELLS} cells at p_h = 0.1",
    "Normality study, table of the optimal policy",
    rule=None,
    test="exact: values by a linear solve, certified to 1e-12",
    others=lambda data: dict(_reading(data, str(parameter)) for parameter in data.parameter.values),
)
def _agrees(data: Data) -> Finding:
    printed, value, q = data.paper_policy.values, data.q.values.max(axis=1), data.q.values
    cells, loss = np.flatnonzero(printed >= 0), _losses(q, printed)
    side = round(math.sqrt(value.size))
    names = [str(name) for name in data.action.values]
    evidence = [Interval("cells whose printed action is optimal", int((loss <= SAME).sum()))]
    for cell, lost in zip(cells, loss, strict=True):
        if lost > SAME:
            where = f"[{cell // side},{cell % side}]"
            best = names[int(q[cell].argmax())]
            evidence += [
                Interval(f"value of {names[printed[cell]]} in {where}, as printed", float(q[cell, printed[cell]])),
                Interval(f"value of {best} in {where}", float(value[cell])),
            ]
    agrees = bool((loss <= SAME).all())
    return Finding(evidence, Verdict.REPRODUCED if agrees else Verdict.NOT_REPRODUCED, decisive=0)


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
        "printed_is_optimal": Quantity("where all printed actions are optimal", dims=("parameter", "end")),
    },
    coords=quantities(
        state="cell of the lake, row by row",
        action="direction",
        parameter="parameter of the lake",
        end="end of the range",
    ),
    plan=lambda scale: {},  # nothing is simulated
    assemble=_assemble,
    claims=(_agrees,),
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
