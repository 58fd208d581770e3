"""How tables, functions and Gymnasium environments become the arrays of a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._support.checks import FloatArray, IntArray, number_array
from .._support.labels import Column, Labels, Names
from ..errors import ModelError

Shape = tuple[int, int]


Indices = npt.NDArray[np.integer[Any]]


Dynamics = tuple[IntArray, npt.NDArray[np.int32], FloatArray]  # source, next_state, reward


def read_pairs(columns: dict[str, Column], states: Names, actions: Names) -> tuple[list[IntArray], Labels, Labels]:
    """Return a table's states, actions and next states as indices, and the labels of states and actions."""
    if not columns["state"].size:
        raise ModelError("table has no rows")
    if states is None:
        by_state = Labels.learn("state", columns["state"], columns["next_state"])
    else:
        names = tuple(states)
        by_state = Labels("state", names, len(names))
    if actions is None:
        by_action = Labels.learn("action", columns["action"])
    else:
        names = tuple(actions)
        by_action = Labels("action", names, len(names))
    indices = [
        labels.encode(columns[what], what, table="table", error=ModelError)
        for what, labels in (("state", by_state), ("action", by_action), ("next_state", by_state))
    ]
    return indices, by_state, by_action


def read_transitions(transition: Any, actions_first: bool) -> tuple[sparse.csr_array, Shape]:
    """Return P(s' | s, a) as a new canonical matrix (S*A) x S, and (S, A); its entries are not checked."""
    if isinstance(transition, (list, tuple)) and any(map(_is_sparse, transition)):
        S, A = np.shape(transition[0])[0], len(transition)
        for a, matrix in enumerate(transition):
            if not _is_sparse(matrix) or matrix.shape != (S, S):
                found = f"shape {matrix.shape}" if _is_sparse(matrix) else type(matrix).__name__
                raise ModelError(f"the transition matrix of action {a} must be sparse with shape {(S, S)}, got {found}")
        by_action = _csr(sparse.vstack(transition, format="csr"))
        return canonical(by_action[np.arange(S * A).reshape(A, S).T.ravel()]), (S, A)
    if _is_sparse(transition):
        if actions_first:
            raise ModelError("actions_first is for arrays [A, S, S]; row s*A + a of a sparse matrix is (s, a)")
        rows, S = transition.shape
        if S == 0 or rows == 0 or rows % S:
            raise ModelError(f"a sparse transition must have shape (S*A, S), got {transition.shape}")
        return canonical(_csr(transition)), (S, rows // S)
    dense = number_array(transition, "transition", error=ModelError)
    order = "[A, S, S]" if actions_first else "[S, A, S]"
    if dense.ndim != 3 or dense.shape[2] != dense.shape[1 if actions_first else 0]:
        swapped = not actions_first and dense.ndim == 3 and dense.shape[1] == dense.shape[2]
        hint = "; for [A, S, S] pass actions_first=True" if swapped else ""
        raise ModelError(f"transition must have the axes {order}, got shape {dense.shape}{hint}")
    if actions_first:
        dense = dense.swapaxes(0, 1)
    S, A, _ = dense.shape
    return canonical(_csr(dense.reshape(S * A, S))), (S, A)


def _is_sparse(value: Any) -> bool:
    return bool(sparse.issparse(value))


def _csr(matrix: Any) -> sparse.csr_array:
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    try:
        rows.check_format(full_check=True)
    except ValueError as fault:  # an index beyond the shape would be read blindly by every kernel
        raise ModelError(f"the sparse transition is corrupt: {fault}") from None
    return rows


def canonical(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix, in place: sorted, no duplicates, no stored zeros, int32 indices if they fit."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    index = np.int32 if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max else np.int64
    matrix.indices = matrix.indices.astype(index, copy=False)
    matrix.indptr = matrix.indptr.astype(index, copy=False)
    return matrix


def pair_sums(pairs: Indices, weights: FloatArray, shape: Shape) -> FloatArray:
    """Return [S, A]: the sum of the weights of each pair s*A + a."""
    return np.bincount(pairs, weights=weights, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def packed(pairs: Indices, targets: Indices, shape: Shape) -> npt.NDArray[np.int32]:
    """Return [S, A, K]: the targets of each pair (entries sorted by pair) in front, -1 behind them."""
    sizes = np.bincount(pairs, minlength=shape[0] * shape[1])
    rows = np.full((sizes.size, max(1, int(sizes.max(initial=0)))), -1, dtype=np.int32)
    rows[pairs, np.arange(pairs.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = targets
    return rows.reshape(*shape, -1)


def tabulate(
    dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
    states: Sequence[Hashable],
    actions: Sequence[Hashable],
    noise: Mapping[Hashable, Sequence[Hashable]],
    source: Callable[[Any, Any], Hashable],
    admissible: Callable[[Any, Any], bool],
) -> Dynamics:
    """Call ``dynamics`` on every admissible pair and outcome; return source, next_state and reward."""
    by_source, by_state = Labels("source", noise, len(noise)), Labels("state", states, len(states))
    outcomes = list(noise.values())
    sources = np.full((len(states), len(actions)), -1, dtype=np.int64)
    next_state = np.full((*sources.shape, max(map(len, outcomes))), -1, dtype=np.int32)
    reward = np.zeros(next_state.shape)
    for (s, a), _ in np.ndenumerate(sources):
        state, action = states[s], actions[a]
        if not admissible(state, action):
            continue
        name = source(state, action)
        b = sources[s, a] = by_source.find(name)
        if b < 0:
            raise ModelError(f"source({state!r}, {action!r}) is {name!r}, expected {by_source.expected()}")
        for k, drawn in enumerate(outcomes[b]):
            call = f"dynamics({state!r}, {action!r}, {drawn!r})"
            step = dynamics(state, action, drawn)
            try:
                target, earned = step
                reward[s, a, k] = earned
            except (TypeError, ValueError):
                raise ModelError(f"{call} is {step!r}, expected (next_state, reward)") from None
            next_state[s, a, k] = by_state.find(target)
            if next_state[s, a, k] < 0:
                raise ModelError(f"{call} leads to {target!r}, expected {by_state.expected()}")
            if not np.isfinite(earned):
                raise ModelError(f"{call} earns {earned!r}, expected a finite number")
    for b, name in enumerate(noise):
        if sources.size and b not in sources:
            raise ModelError(f"no admissible pair uses the source {name!r}")
    return sources, next_state, reward
