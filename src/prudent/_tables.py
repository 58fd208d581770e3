"""Reading what users hand over: tables become columns, labels become indices, matrices become entries.

Whatever is wrong is said with the number of the row (counting from 0) and the value found there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ._checks import FloatArray, IntArray, number_array
from .errors import ModelError, ParameterError, PrudentError

Column = npt.NDArray[Any]
Names = Iterable[Hashable] | None
Shape = tuple[int, int]
Indices = npt.NDArray[np.integer[Any]]
Dynamics = tuple[IntArray, npt.NDArray[np.int32], FloatArray]  # source, next_state, reward


class Labels:
    """The labels of one axis. Labels that are just 0, 1, ..., n-1 are their own indices and need no names."""

    def __init__(self, what: str, names: Names, size: int) -> None:
        self.what = what
        self.size = size
        self.names: tuple[Hashable, ...] | None = None
        self._index: dict[Hashable, int] = {}
        if names is None:
            return
        given = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
        if len(given) != size:
            raise ModelError(f"{what}: {len(given)} names were given, expected {size}")
        for i, name in enumerate(given):
            try:
                first = self._index.setdefault(name, i)
            except TypeError:
                raise ModelError(f"the name of {what} {i} is {name!r}, which is not hashable") from None
            if first != i:
                raise ModelError(f"the names of {what} {first} and {what} {i} are the same, {name!r}")
        if given != tuple(range(size)):
            self.names = given

    @classmethod
    def learn(cls, what: str, *columns: Iterable[Hashable]) -> Labels:
        """Return the labels that occur: sorted, or as first seen if they cannot be compared."""
        values = chain.from_iterable(_distinct(column) for column in columns)
        try:
            names: list[Any] = list(dict.fromkeys(_whole(value) for value in values if not _is_missing(value)))
        except TypeError as fault:
            raise ModelError(f"table has a label of {what} that cannot be a name: {fault}") from None
        with suppress(TypeError):
            names.sort()
        return cls(what, names, len(names))

    def find(self, label: Any) -> int:
        """Return the index of a label, or -1 if there is no such label."""
        with suppress(TypeError):  # from labels that cannot be hashed, or are no numbers
            if self.names is not None:
                return self._index.get(label, -1)
            index = operator.index(_whole(label))
            return index if 0 <= index < self.size else -1
        return -1

    def index(self, label: Any) -> int:
        """Return the index of a label, or raise."""
        index = self.find(label)
        if index < 0:
            raise ParameterError(f"{self.what} is {label!r}, expected {self.expected()}")
        return index

    def encode(
        self, column: Column, what: str, *, table: str, error: type[PrudentError], gaps: bool = False
    ) -> IntArray:
        """Return the indices of a column of labels; with ``gaps`` an empty cell or -1 becomes -1."""
        if self.names is None and column.dtype.kind in "iuf":
            within = (column >= 0) & (column < self.size)
            indices = np.where(within, column, -1).astype(np.int64)
            bad = ~within | (indices != column)
            if gaps:
                bad &= ~((column == -1) | np.isnan(column))
        else:
            values = column.tolist()
            indices = np.fromiter(map(self.find, values), dtype=np.int64, count=len(values))
            bad = indices < 0
            if gaps:
                bad &= np.fromiter((not _is_gap(value) for value in values), dtype=np.bool_, count=len(values))
        if bad.any():
            row = int(np.argmax(bad))
            raise error(f"{table} row {row}: {what} is {_cell(column, row)!r}, expected {self.expected()}")
        return indices

    def expected(self) -> str:
        """Return what a valid label looks like."""
        if self.names is None:
            return f"a whole number from 0 to {self.size - 1}"
        shown = ", ".join(map(repr, self.names[:5]))
        return f"one of {shown}" + (f", ... ({self.size} in all)" if self.size > 5 else "")

    def show(self, index: int) -> str:
        """Return how to call the member with this index in a message: ``state 'red'``."""
        return f"{self.what} {index if self.names is None else repr(self.names[index])}"


def encode_each(
    labels: Sequence[Labels],
    which: IntArray,
    column: Column,
    what: str,
    *,
    table: str,
    error: type[PrudentError],
    gaps: bool = False,
) -> IntArray:
    """Return the indices of a column in which row i is a label of ``labels[which[i]]``."""
    indices = np.empty(column.size, dtype=np.int64)
    for row, (one, value) in enumerate(zip(which.tolist(), column.tolist(), strict=True)):
        indices[row] = labels[one].find(value)
        if indices[row] < 0 and not (gaps and _is_gap(value)):
            raise error(f"{table} row {row}: {what} is {value!r}, expected {labels[one].expected()}")
    return indices


def _distinct(column: Iterable[Hashable]) -> Iterable[Any]:
    if not isinstance(column, np.ndarray):
        return column
    return (np.unique(column) if column.dtype.kind in "iuf" else column).tolist()


def _whole(value: Any) -> Any:
    """Return 3 for 3.0: tables of numbers often hold their labels as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or pandas' NA, which cannot be compared."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _is_gap(value: Any) -> bool:
    """Return whether a cell says that the outcome was not observed."""
    return _is_missing(value) or (isinstance(value, (int, float)) and value == -1)


def _cell(column: Column, row: int) -> Any:
    return column[row : row + 1].tolist()[0]  # a plain Python value, and tuples stay whole


def read_columns(
    given: Any,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    table: str,
    error: type[PrudentError],
) -> dict[str, Column]:
    """Return the columns of a DataFrame, a dict of columns, a structured array, or rows in this order."""
    wanted = (*required, *optional)
    held = _column_names(given)
    if held is None:
        by_position = _by_position(given, len(required), len(wanted), table, error)
        found = dict(zip(wanted, by_position, strict=False))
    else:
        for name in required:
            if name not in held:
                raise error(f"{table} has no column {name!r}; its columns are {list(held)}")
        found = {name: _column(given[name]) for name in wanted if name in held}
    first = found[required[0]]
    for name, column in found.items():
        if column.ndim != 1 or column.size != first.size:
            raise error(f"column {name!r} of {table} has shape {column.shape}, but {required[0]!r} has {first.shape}")
    return found


def read_numbers(column: Column, what: str, *, table: str, error: type[PrudentError]) -> FloatArray:
    """Return a column of finite numbers."""
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.array([_number(value) for value in column.tolist()])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise error(f"{table} row {row}: {what} is {_cell(column, row)!r}, expected a finite number")
    return numbers


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _column_names(given: Any) -> Sequence[Any] | None:
    if isinstance(given, Mapping):
        return list(given)
    if isinstance(given, np.ndarray):
        return given.dtype.names
    return list(given.columns) if hasattr(given, "columns") else None


def _column(values: Any) -> Column:
    """Return an array of cells in which every label stays whole, even a tuple."""
    if hasattr(values, "dtype"):
        return np.asarray(values)
    cells = list(values)
    if all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in set(map(type, cells))):
        return np.asarray(cells)
    return np.fromiter(cells, dtype=object, count=len(cells))


def _by_position(given: Any, fewest: int, most: int, table: str, error: type[PrudentError]) -> list[Column]:
    width = str(fewest) if fewest == most else f"{fewest} to {most}"
    if isinstance(given, np.ndarray) and given.size:
        if given.ndim != 2 or not fewest <= given.shape[1] <= most:
            raise error(f"{table} has shape {given.shape}, expected rows of {width} values")
        return list(given.T)
    try:
        rows = list(given)
    except TypeError:
        raise error(f"{table} must hold rows of {width} values, got {given!r}") from None
    for i, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__len__") or not fewest <= len(row) <= most:
            raise error(f"{table} row {i} is {row!r}, expected {width} values")
    if not rows:
        return [np.empty(0, dtype=np.int64)] * fewest
    widths = set(map(len, rows))
    if len(widths) > 1:
        rows = [(*row, *[None] * (max(widths) - len(row))) for row in rows]
    return [_column(cells) for cells in zip(*rows, strict=True)]


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
