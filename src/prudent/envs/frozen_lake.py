"""Frozen Lake as in the paper's numerical study: slippery ice, holes one can climb out of, a goal that relocates.

Three kinds of chance are unknown. On ice the intended direction is taken, or one of its two perpendiculars (slip: 3
outcomes). In a hole the intended move succeeds with probability p_h, else the player stays; ice does not matter there
(escape: 2 outcomes). The step after the goal puts the player on one of the ice cells (relocation: one outcome
per cell). Moves off the grid leave the player where she is. The reward is 1 for a step taken in the goal state.

The paper leaves open which chances the player takes to be the same: whether a step out of one hole is evidence about
the next hole, or a slip to the left about one upwards. The true model is the same in all readings, and so is the
optimal policy; but with more sources there is more to learn, and caution about each of them lasts longer.

States are numbered along the rows; actions as in Gymnasium: 0 left, 1 down, 2 right, 3 up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._support.checks import FloatArray, distribution, one_of, probability, refuse, require_length
from ..errors import ModelError, ParameterError
from ..models.uncertain import UncertainMDP
from ..types import ArrayLike
from .problem import Problem

MAP = ("SFFF", "FHFH", "FFFH", "HFFG")  # the paper's: holes at [1,1], [1,3], [2,3], [3,0], the goal at [3,3]
ACTIONS = ("left", "down", "right", "up")
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
_ICE, _HOLE, _GOAL = range(3)  # kinds of chance, in the order of their sources

SOURCES: dict[str, Callable[[int, int, int], tuple[int, int, int]]] = {
    "shared": lambda kind, s, a: (kind, 0, 0),
    "by hole": lambda kind, s, a: (kind, s if kind == _HOLE else 0, 0),
    "by action": lambda kind, s, a: (kind, 0, a if kind == _ICE else 0),
    "by pair": lambda kind, s, a: (0, s, a),
}
"""Key of the source of (kind of chance, state, action), by name: triples with equal keys share a source."""


def frozen_lake(
    p_h: float = 0.1,
    *,
    sources: str = "shared",
    slip: float | Sequence[float] = 0.25,
    relocation: ArrayLike | None = None,
    layout: Sequence[str] = MAP,
    discount: float = 0.8,
) -> Problem:
    """Return the Frozen Lake of the paper's numerical study: its model, and the true probabilities of its sources.

    Parameters
    ----------
    p_h : float, default=0.1
        Probability to leave a hole.
    sources : {"shared", "by hole", "by action", "by pair"}, default="shared"
        What the player takes to be the same, and so learns together. ``"shared"``: one slip, one probability to leave a
        hole, one relocation, as the paper has it. ``"by hole"``: each hole has its own unknown probability to leave it
        (in truth all are `p_h`); this gives the paper's figures. ``"by action"``: each of the four directions has its
        own unknown slip. ``"by pair"``: every state and action has its own source, number ``4 s + a``.
    slip : float or sequence of float, default=0.25
        Probability of each perpendicular direction: one number, or two, for the directions before and after the
        intended one in the order left, down, right, up.
    relocation : array_like, optional
        Distribution over the ice cells after the goal. The default is uniform.
    layout : sequence of str, optional
        Rows of S (start, ice), F (ice), H (hole) and G (goal). Sources that a map does not need are left out.
    discount : float, default=0.8
        Discount factor in [0, 1).

    Returns
    -------
    Problem
        Model and true probabilities.

    Raises
    ------
    ParameterError
        If an argument is out of range.
    ModelError
        If the layout is invalid.

    Examples
    --------
    >>> model, theta = frozen_lake(p_h=0.2)
    >>> model
    UncertainMDP(16 states, 4 actions, 3 sources, up to 11 outcomes, discount 0.8)
    >>> theta[:2, :3]
    array([[0.5 , 0.25, 0.25],
           [0.2 , 0.8 , 0.  ]])
    >>> frozen_lake(p_h=0.2, sources="by hole").model.n_sources
    6
    """
    one_of(sources, "sources", SOURCES)
    rows = _checked_layout(layout)
    height, width = len(rows), len(rows[0])
    cells = "".join(rows)
    ice = [s for s, cell in enumerate(cells) if cell in "SF"]
    kinds = [{"H": _HOLE, "G": _GOAL}.get(cell, _ICE) for cell in cells]
    places = np.full(len(ice), 1.0 / len(ice))
    if relocation is not None:
        places = distribution(relocation, "relocation", ndim=1, error=ParameterError)
        require_length(places, "relocation", len(ice), "cell of ice", error=ParameterError)
    chances = (_slip(slip), np.array([probability(p_h, "p_h"), 1.0 - float(p_h)]), places)
    shape = (len(cells), len(ACTIONS))
    keys = [[SOURCES[sources](kind, s, a) for a in range(shape[1])] for s, kind in enumerate(kinds)]
    number = {key: b for b, key in enumerate(sorted({key for row in keys for key in row}))}
    source = np.array([[number[key] for key in row] for row in keys])
    theta = np.zeros((len(number), max(chances[kind].size for kind in kinds)))
    for s, kind in enumerate(kinds):
        theta[source[s], : chances[kind].size] = chances[kind]

    def move(s: int, direction: int) -> int:
        i, j = divmod(s, width)
        i, j = i + _MOVES[direction][0], j + _MOVES[direction][1]
        return i * width + j if 0 <= i < height and 0 <= j < width else s

    next_state = np.full((*shape, theta.shape[1]), -1, dtype=np.int64)
    for s, a in np.ndindex(shape):
        slips = [move(s, a), move(s, (a - 1) % 4), move(s, (a + 1) % 4)]
        targets = (slips, [move(s, a), s], ice)[kinds[s]]
        next_state[s, a, : len(targets)] = targets
    reward = np.where(np.array(kinds) == _GOAL, 1.0, 0.0)[:, np.newaxis].repeat(len(ACTIONS), axis=1)
    model = UncertainMDP(source, next_state, reward, discount)
    start = cells.index("S") if "S" in cells else ice[0]
    return Problem(model, theta, start=start, layout=rows)


def _checked_layout(layout: Sequence[str]) -> tuple[str, ...]:
    rows = tuple(layout)
    if not rows or not all(isinstance(row, str) for row in rows):
        text = f"layout must be rows of letters, got {layout!r}"
        raise ModelError(text, code="wrong-type", argument="layout", value=layout)
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]) or not row:
            text = f"layout[{i}] is {row!r}, expected {len(rows[0])} letters as in the first row"
            raise ModelError(text, code="wrong-shape", argument="layout", index=(i,), value=row)
    cells = np.array([list(row) for row in rows])
    refuse(~np.isin(cells, list("SFHG")), cells, "layout", "S, F, H or G", error=ModelError, code="unknown-option")
    starts = int((cells == "S").sum())
    if starts > 1:
        text = f"layout has {starts} starts S, expected one"
        raise ModelError(text, code="several-starts", argument="layout", value=starts)
    if not np.isin(cells, ("S", "F")).any():
        raise ModelError("layout has no ice (S or F)", code="no-ice", argument="layout")
    return rows


def _slip(slip: Any) -> FloatArray:
    sides = list(slip) if isinstance(slip, (list, tuple)) or np.ndim(slip) else [slip, slip]
    require_length(sides, "slip", 2, "perpendicular direction", error=ParameterError)
    before, after = (probability(side, "slip") for side in sides)
    if before + after > 1.0:
        text = f"slip must leave a chance for the intended direction, got {before} + {after} > 1"
        raise ParameterError(text, code="probability-range", argument="slip", value=before + after)
    return np.array([1.0 - before - after, before, after])
