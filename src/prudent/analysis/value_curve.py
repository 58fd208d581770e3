"""Values of all states as a function of the value of one state.

Data on a source that only state s draws from changes only what s is worth. Hold V(s) at some v: the best values of all
other states are then a curve W(v) that does not depend on the data. Given the curve, a data set is one equation with
one unknown, v = max_a Q_a(W(v)) in state s.

Let d = W - V be the distance from the present values. A pair p is worth V(state of p) + lead_p + slope_p . d one step
ahead, where slope_p are discounted probabilities of next states: those of the mean at level 0, those of the tail under
CVaR, which is concave, so that this is an upper bound there and what it lacks is the *bend*. Hence

    d = (I - slope of the policy)^-1 (lead + bend)   with row s replaced by d(s) = v - V(s).

The inverse is that of the present policy, with a column for each state that has another action on this part of the
curve (Sherman and Morrison). Where an action elsewhere takes the lead a new part of the curve begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from ..types import FloatArray, IntArray

MAX_DENSE_STATES = 2_000  # number of states up to which the inverse is dense


class Rows:
    """All pairs P as rows over the states S, linear around some values V: the first S of them are the policy's."""

    def __init__(self, slope: sparse.csr_array, reward: FloatArray, state: IntArray, value: FloatArray) -> None:
        """``slope`` [P, S] discounted chances of next states, ``reward`` and ``state`` [P], ``value`` [S]."""
        self.slope, self.state, self.value = slope, state, value
        self.lead = reward + slope @ value - value[state]  # [P] over the policy
        self._chain = sparse.csc_array(sparse.eye_array(value.size) - slope[: value.size])
        self.inverse: Callable[[FloatArray], FloatArray]
        self._dense: FloatArray | None = None
        if value.size <= MAX_DENSE_STATES:
            self._dense = np.linalg.inv(self._chain.toarray())
            self.inverse = self._dense.__matmul__
        else:
            self.inverse = splu(self._chain).solve

    def row(self, p: int) -> tuple[npt.NDArray[Any], FloatArray]:
        """Return the next states of a pair and their discounted chances."""
        part = slice(self.slope.indptr[p], self.slope.indptr[p + 1])
        return self.slope.indices[part], self.slope.data[part]

    def visits(self, start: FloatArray) -> FloatArray:
        """Return the discounted visits [S] of the policy from ``start`` [S]."""
        return np.asarray(splu(sparse.csc_array(self._chain.T)).solve(start))

    def follow(self, s: int) -> FloatArray:
        """Return by how much each state [S] rises with state s."""
        column = self.inverse(np.eye(1, self.value.size, s)[0]) if self._dense is None else self._dense[:, s]
        return column / column[s]


class Held:
    """The policy's rows with the value of state s held, and with other actions in a few states."""

    def __init__(self, rows: Rows, s: int) -> None:
        self.rows, self.s = rows, s
        self.pairs = np.arange(rows.value.size)  # [S] the pair of each state
        self._changes: list[tuple[FloatArray, npt.NDArray[Any], FloatArray]] = []
        self.follow = rows.follow(s)  # [S] by how much each state rises with s

    def switch(self, p: int) -> None:
        """Replace the action of a state by that of pair p."""
        j = int(self.rows.state[p])
        (new, gained), (old, lost) = self.rows.row(p), self.rows.row(self.pairs[j])
        where, weight = np.concatenate([new, old]), np.concatenate([gained, -lost])
        column = self._solve(np.eye(1, self.pairs.size, j)[0])
        self._changes.append((column / (1.0 - weight @ column[where]), where, weight))
        self.pairs[j] = p
        column = self._solve(np.eye(1, self.pairs.size, self.s)[0])
        self.follow = column / column[self.s]

    def distance(self, t: FloatArray, bend: FloatArray | float = 0.0) -> FloatArray:
        """Return d [S, N] where state s is held ``t`` [N] above its present value and rows lack ``bend`` [S, N]."""
        right = self.rows.lead[self.pairs][:, np.newaxis] + bend
        right = np.broadcast_to(right, (right.shape[0], t.size)).copy() if np.ndim(bend) else right
        right[self.s] = 0.0
        free = self._solve(right)
        return free + self.follow[:, np.newaxis] * (t - free[self.s])

    def _solve(self, right: FloatArray) -> FloatArray:
        answer = self.rows.inverse(right)
        for column, where, weight in self._changes:
            answer = answer + np.multiply.outer(column, weight @ answer[where])
        return answer


def between(t: FloatArray, nodes: FloatArray, y: FloatArray, slope: FloatArray) -> FloatArray:
    """Return the cubic through ``y`` [..., N] with derivatives ``slope`` at ``nodes``, at ``t`` [M] within them."""
    sign = 1.0 if nodes[-1] >= nodes[0] else -1.0
    i = np.clip(np.searchsorted(sign * nodes, sign * t, side="right") - 1, 0, nodes.size - 2)
    return _cubic(t, nodes[i], nodes[i + 1], y[..., i], y[..., i + 1], slope[..., i], slope[..., i + 1])[0]


def derivatives(nodes: FloatArray, y: FloatArray) -> FloatArray:
    """Return derivatives of ``y`` [..., N] at the nodes: exact for what is quadratic."""
    return np.asarray(np.gradient(y, nodes, axis=-1, edge_order=2 if nodes.size > 2 else 1))


def _cubic(t: Any, a: Any, b: Any, ya: Any, yb: Any, da: Any, db: Any) -> tuple[FloatArray, FloatArray]:
    """Return Hermite's cubic on [a, b] at t, and its derivative."""
    h = b - a
    x = (t - a) / h
    rise = (yb - ya) / h
    c, e = 3.0 * rise - 2.0 * da - db, da + db - 2.0 * rise
    return ya + h * x * (da + x * (c + x * e)), da + x * (2.0 * c + 3.0 * x * e)


class Curve:
    """Quantities [C] along the curve, and the number of the best course of action on each piece.

    Parameters
    ----------
    pieces : list of tuple
        For each piece its nodes [N], ascending or descending, the quantities [C, N] there, and its course.
    """

    def __init__(self, pieces: list[tuple[FloatArray, FloatArray, int]]) -> None:
        parts = []
        for nodes, y, course in sorted(pieces, key=lambda piece: float(piece[0].min())):
            at_nodes = [np.ascontiguousarray(array.T) for array in (nodes[np.newaxis], y, derivatives(nodes, y))]
            order = np.argsort(nodes)
            ends = [array[index] for array in at_nodes for index in (order[:-1], order[1:])]
            parts.append((*ends, np.full(nodes.size - 1, course)))
        *self._ends, self._course = map(np.concatenate, zip(*parts, strict=True))
        self.low, self.high = float(self._ends[0][0, 0]), float(self._ends[1][-1, 0])

    def at(self, t: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return the quantities [M, C], their derivatives, and the courses [M] at ``t`` [M]."""
        i = np.clip(np.searchsorted(self._ends[0][:, 0], t, side="right") - 1, 0, self._course.size - 1)
        value, slope = _cubic(t[:, np.newaxis], *(end[i] for end in self._ends))
        return value, slope, self._course[i]
