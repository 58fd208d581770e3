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

from .._support.checks import FloatArray, distribution, probability
from ..errors import ModelError, ParameterError
from ..models.uncertain import UncertainMDP
from ..types import ArrayLike
from .problem import Problem

__all__ = ["ACTIONS", "MAP", "SOURCES", "frozen_lake"]

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
    if not isinstance(sources, str) or sources not in SOURCES:
        text = f"sources must be one of {', '.join(map(repr, SOURCES))}, got {sources!r}"
        raise ParameterError(text, code="unknown-option", argument="sources", value=sources)
    rows = _checked_layout(layout)
    height, width = len(rows), len(rows[0])
    cells = "".join(rows)
    ice = [s for s, cell in enumerate(cells) if cell in "SF"]
    kinds = [_HOLE if cell == "H" else _GOAL if cell == "G" else _ICE for cell in cells]
    chances = (
        _slip(slip),
        np.array([probability(p_h, "p_h"), 1.0 - float(p_h)]),
        _relocation(relocation, len(ice)),
    )
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
    for s, cell in enumerate(cells):
        for a in range(len(ACTIONS)):
            if cell == "G":
                targets = ice
            elif cell == "H":
                targets = [move(s, a), s]
            else:
                targets = [move(s, a), move(s, (a - 1) % 4), move(s, (a + 1) % 4)]
            next_state[s, a, : len(targets)] = targets
    reward = np.where(np.array(list(cells)) == "G", 1.0, 0.0)[:, np.newaxis].repeat(len(ACTIONS), axis=1)
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
        for j, cell in enumerate(row):
            if cell not in "SFHG":
                text = f"layout[{i}][{j}] is {cell!r}, expected one of S, F, H, G"
                raise ModelError(text, code="unknown-option", argument="layout", index=(i, j), value=cell)
    cells = "".join(rows)
    if cells.count("S") > 1:
        text = f"layout has {cells.count('S')} starts S, expected one"
        raise ModelError(text, code="several-starts", argument="layout", value=cells.count("S"))
    if not set(cells) & set("SF"):
        raise ModelError("layout has no ice (S or F)", code="no-ice", argument="layout")
    return rows


def _slip(slip: Any) -> FloatArray:
    sides = [slip, slip] if np.ndim(slip) == 0 else list(slip)
    if len(sides) != 2:
        text = f"slip must be a number or two of them, got {len(sides)}"
        raise ParameterError(text, code="wrong-shape", argument="slip", value=len(sides))
    before, after = (probability(side, "slip") for side in sides)
    if before + after > 1.0:
        text = f"slip must leave a chance for the intended direction, got {before} + {after} > 1"
        raise ParameterError(text, code="probability-range", argument="slip", value=before + after)
    return np.array([1.0 - before - after, before, after])


def _relocation(relocation: Any, n_ice: int) -> FloatArray:
    if relocation is None:
        return np.full(n_ice, 1.0 / n_ice)
    chances = distribution(relocation, "relocation", ndim=1, error=ParameterError)
    if chances.size != n_ice:
        text = f"relocation has {chances.size} probabilities, the map has {n_ice} ice cells"
        raise ParameterError(text, code="wrong-shape", argument="relocation", value=chances.size, expected=n_ice)
    return chances
