"""Builders of models from matrices, tables, functions and Gymnasium environments.

Builders called ``known_`` return the arguments of ``MDP.of_steps``, those called ``uncertain_`` the arguments of
``UncertainMDP.from_entries``. The constructor then checks the complete model; a builder checks only what can no longer
be named afterwards, such as the row of a table or the call of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._support.checks import integer_array, items_of, mask_array, number_array, refuse, require_shape
from ..data.columns import TableColumns
from ..data.labels import Labels, is_missing
from ..data.naming import NEXT_STATES, PAIRS
from ..data.source import TableSource
from ..data.transitions import TransitionTable
from ..errors import ModelError
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, NamesLike, SparseLike, TableLike, TerminalLike
from .base import Shape, admissible_mask, plural, read_terminal
from .entries import END, NONE, Outcomes

Indices = npt.NDArray[np.integer[Any]]
Arguments = dict[str, Any]
BY_PAIR = {"sources": PAIRS, "outcomes": NEXT_STATES}  # the names of a model in which every pair has its own source

# -- matrices ----------------------------------------------------------------------------------------------


def read_transitions(transition: Any, actions_first: bool) -> tuple[scipy.sparse.csr_array, Shape]:
    """Return P(s' | s, a) as a new canonical matrix (S*A) x S, and (S, A); its entries are not checked."""
    if isinstance(transition, (list, tuple)) and any(map(_is_sparse, transition)):
        S, A = np.shape(transition[0])[0], len(transition)
        for a, matrix in enumerate(transition):
            if not _is_sparse(matrix) or matrix.shape != (S, S):
                got = f"shape {matrix.shape}" if _is_sparse(matrix) else type(matrix).__name__
                message = f"the transition matrix of action {a} must be sparse with shape {(S, S)}, got {got}"
                raise ModelError(message, code="wrong-shape", argument="transition", action=a)
        by_action = _csr(scipy.sparse.vstack(transition, format="csr"))
        return canonical(by_action[np.arange(S * A).reshape(A, S).T.ravel()]), (S, A)
    if _is_sparse(transition):
        if actions_first:
            message = "actions_first is for arrays [A, S, S]; row s*A + a of a sparse matrix is (s, a)"
            raise ModelError(message, code="conflicting-arguments", argument="actions_first")
        rows, S = transition.shape
        if S == 0 or rows == 0 or rows % S:
            message = f"a sparse transition must have shape (S*A, S), got {transition.shape}"
            raise ModelError(message, code="wrong-shape", argument="transition", value=transition.shape)
        return canonical(_csr(transition)), (S, rows // S)
    dense = number_array(transition, "transition", error=ModelError)
    order = "[A, S, S]" if actions_first else "[S, A, S]"
    if dense.ndim != 3 or dense.shape[2] != dense.shape[1 if actions_first else 0]:
        swapped = not actions_first and dense.ndim == 3 and dense.shape[1] == dense.shape[2]
        hint = "; for [A, S, S] pass actions_first=True" if swapped else ""
        message = f"transition must have the axes {order}, got shape {dense.shape}{hint}"
        raise ModelError(message, code="wrong-shape", argument="transition", value=dense.shape)
    if actions_first:
        dense = dense.swapaxes(0, 1)
    S, A, _ = dense.shape
    return canonical(_csr(dense.reshape(S * A, S))), (S, A)


def _is_sparse(value: Any) -> bool:
    return bool(scipy.sparse.issparse(value))


def _csr(matrix: Any) -> scipy.sparse.csr_array:
    rows = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True)
    try:
        rows.check_format(full_check=True)
    except ValueError as fault:  # an index beyond the shape would be read blindly by every kernel
        message = f"the sparse transition is corrupt: {fault}"
        raise ModelError(message, code="wrong-format", argument="transition") from None
    return rows


def canonical(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the matrix, in place: sorted, no duplicates, no stored zeros, int32 indices if they fit."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    index = np.int32 if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max else np.int64
    matrix.indices = matrix.indices.astype(index, copy=False)
    matrix.indptr = matrix.indptr.astype(index, copy=False)
    return matrix


def row_numbers(matrix: scipy.sparse.csr_array) -> Indices:
    """Return the row of each stored entry; in a matrix (S*A) x S that is its pair s*A + a."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def pair_sums(pairs: Indices, weights: FloatArray, shape: Shape) -> FloatArray:
    """Return [S, A]: the sum of the weights of each pair s*A + a."""
    return np.bincount(pairs, weights=weights, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def places_in(groups: Indices) -> IntArray:
    """Return the place 0, 1, ... of each entry within its group; entries are sorted by group."""
    sizes = np.bincount(groups)
    return np.arange(groups.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def own_sources(admissible: BoolArray) -> IntArray:
    """Return source numbers [S, A] that give every admissible pair a source of its own."""
    return np.where(admissible, np.cumsum(admissible).reshape(admissible.shape) - 1, -1)


def read_dense(
    next_state: ArrayLike, reward: ArrayLike, used: BoolArray
) -> tuple[int, tuple[IntArray, npt.NDArray[np.int32], IntArray, FloatArray]]:
    """Read next states [S, A, K] and rewards of the pairs that are ``used`` [S, A].

    Returns K, and how many outcomes each pair has with their numbers, next states and rewards, sorted by pair.
    """
    given = integer_array(next_state, "next_state", ndim=3, error=ModelError)
    S, K = used.shape[0], given.shape[2]
    require_shape(given, "next_state", (*used.shape, K), "[S, A, K]", error=ModelError)
    kept = (given != NONE) & used[:, :, None]
    expected = f"a state from 0 to {S - 1}, or -1 for no such outcome, or -2 for the end"
    bad = kept & ((given < END) | (given >= S))
    refuse(bad, given, "next_state", expected, error=ModelError, code="index-range")
    earned = number_array(reward, "reward", error=ModelError)
    if earned.ndim == 2:
        require_shape(earned, "reward", used.shape, "[S, A]", error=ModelError)
        earned = np.broadcast_to(earned[:, :, None], given.shape)
    else:
        require_shape(earned, "reward", given.shape, "[S, A, K]", error=ModelError)
    refuse(kept & ~np.isfinite(earned), earned, "reward", "a finite number", error=ModelError, code="not-finite")
    numbers = np.broadcast_to(np.arange(K, dtype=np.int32), given.shape)
    return K, (np.count_nonzero(kept, axis=2).reshape(-1), numbers[kept], given[kept], earned[kept])


def uncertain_direct(
    reward: ArrayLike,
    support: ArrayLike | SparseLike | None,
    admissible: ArrayLike | None,
    states: NamesLike,
    terminal: TerminalLike,
) -> Arguments:
    """Read the direct parametrisation: a source for each pair, whose outcomes are its (possible) next states."""
    given = number_array(reward, "reward", error=ModelError)
    if given.ndim not in (2, 3):
        message = f"reward must have the axes [S, A] or [S, A, S], got shape {given.shape}"
        raise ModelError(message, code="wrong-shape", argument="reward", value=given.shape)
    S, A = given.shape[:2]
    if given.ndim == 3:
        require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
    allowed = admissible_mask(admissible, (S, A))
    if terminal is not None:
        allowed &= ~read_terminal(terminal, Labels("state", states, S))[0][:, None]
    source = own_sources(allowed)
    if support is None:
        next_state = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S))
        return {"source": source, "next_state": next_state, "reward": given, **BY_PAIR}
    if scipy.sparse.issparse(support):
        matrix: Any = support
        require_shape(matrix, "support", (S * A, S), "(S*A, S)", error=ModelError)
        pairs, targets = matrix.nonzero()
    else:
        possible = mask_array(support, "support", (S, A, S), "[S, A, S]", error=ModelError)
        pairs, targets = np.nonzero(possible.reshape(S * A, S))
    order = np.lexsort((targets, pairs))
    order = order[allowed.reshape(-1)[pairs[order]]]
    pairs, targets = pairs[order].astype(np.int64), targets[order].astype(np.int64)
    where = pairs, targets if given.ndim == 3 else 0
    earned = given.reshape(S * A, -1)[where]
    bad = np.zeros(given.shape, dtype=np.bool_)
    bad.reshape(S * A, -1)[where] = ~np.isfinite(earned)
    refuse(bad, given, "reward", "a finite number", error=ModelError, code="not-finite")
    arrays: Arguments = {"source": source, "pair": pairs, "outcome": places_in(pairs)}
    return arrays | {"next_state": targets, "reward": earned, **BY_PAIR}


# -- tables ------------------------------------------------------------------------------------------------


def known_table(
    table: TableLike, states: NamesLike, actions: NamesLike, columns: Mapping[str, Any] | None
) -> Arguments:
    """Read a long table: state, action, next_state, probability, reward."""
    needed = ("state", "action", "next_state", "probability", "reward")
    held = TableSource(table, error=ModelError).read(needed, named=("sample",), columns=columns)
    read, notes = _transitions(held, states, actions)
    chances, reward = held.probabilities(), held.numbers("reward")
    steps = Steps(read.state, read.action, read.next_state, chances, reward, np.zeros(reward.size, dtype=np.bool_))
    return {"steps": steps, "shape": read.shape, "notes": notes} | _names(read)


def uncertain_table(
    table: TableLike, states: NamesLike, actions: NamesLike, columns: Mapping[str, Any] | None
) -> Arguments:
    """Read a long table of known dynamics: state, action, outcome, next_state, reward and perhaps source.

    Without outcomes, every pair has its own source, and its outcomes are the next states (and rewards) that are listed.
    """
    source = TableSource(table, error=ModelError)
    if source.named:
        needed: tuple[str, ...] = ("state", "action", "next_state", "reward")
        held = source.read(needed, named=("outcome", "source", "probability", "sample"), columns=columns)
    else:
        needed = ("state", "action", "outcome", "next_state", "reward")
        held = source.read(needed, ("source",), columns=columns)
    read, notes = _transitions(held, states, actions, ends=True)
    reward, pair = held.numbers("reward"), read.pair
    names = _names(read)
    if "outcome" not in held:
        if "probability" in held:
            notes = (*notes, "the probabilities of the table were not used: they are what a posterior is about")
        return names | {"notes": notes} | _listed_steps(read, reward)
    b, by_source = np.zeros_like(pair), Labels("source", None, 1)
    if "source" in held:
        by_source = Labels.of("source", None, held["source"])
        b = held.indices("source", by_source)
    seen: list[list[Hashable]] = [[] for _ in range(int(b.max()) + 1)]
    for number, outcome in zip(b.tolist(), held["outcome"].tolist(), strict=True):
        seen[number].append(outcome)
    labels = [Labels.of("outcome", None, outcomes) for outcomes in seen]
    k = held.outcomes("outcome", labels, b)
    _, first, of_pair = np.unique(pair, return_index=True, return_inverse=True)
    mixed = b[first][of_pair] != b
    if mixed.any():
        row = int(np.argmax(mixed))
        message = f"source is {held['source'].tolist()[row]!r}, unlike in the first row of the same pair"
        raise held.fault(row, message, "conflicting-rows", column="source")
    _, once = np.unique(pair * max(axis.size for axis in labels) + k, return_index=True)
    if once.size < k.size:
        row = int(np.setdiff1d(np.arange(k.size), once)[0])
        message = f"outcome is {held['outcome'].tolist()[row]!r}, which this pair has already"
        raise held.fault(row, message, "duplicate-row", column="outcome")
    sources = np.full(read.shape, -1, dtype=np.int64)
    sources[read.state, read.action] = b
    arrays: Arguments = {"source": sources, "pair": pair, "outcome": k, "next_state": read.next_state, "reward": reward}
    arrays |= {"sources": None if by_source.numbered else by_source.names, "outcomes": [axis.names for axis in labels]}
    return arrays | names | {"notes": notes}


def _listed_steps(read: TransitionTable, reward: FloatArray) -> Arguments:
    """Give every pair its own source: an outcome is a next state, or a next state with one of its rewards."""
    which_reward = np.unique(reward, return_inverse=True)[1].reshape(-1)
    once = np.unique(np.stack([read.pair, read.next_state, which_reward]), axis=1, return_index=True)[1]
    pair, target, earned = read.pair[once], read.next_state[once], reward[once]
    admissible = np.bincount(pair, minlength=read.shape[0] * read.shape[1]).reshape(read.shape) > 0
    _, sizes = np.unique(np.stack([pair, target]), axis=1, return_counts=True)
    arrays: Arguments = {"source": own_sources(admissible), "pair": pair, "outcome": places_in(pair)}
    arrays |= {"next_state": target, "reward": earned, **BY_PAIR}
    if (sizes > 1).any():
        arrays["outcomes"] = called_outcomes(pair, target, earned, read.states)
    return arrays


def called_outcomes(
    pair: IntArray, target: IntArray, reward: FloatArray, states: Labels, duration: FloatArray | None = None
) -> list[list[Hashable]]:
    """Name outcomes, sorted by pair and target: by next state, or (next_state, reward) if it has several rewards.

    With durations they are called (next_state, duration), or (next_state, duration, reward).
    """
    alike = (np.diff(pair) == 0) & (np.diff(target) == 0)
    names = states.names
    called: list[Any] = [None if t < 0 else names[t] for t in target.tolist()]
    if duration is not None:
        alike &= np.diff(duration) == 0.0
        called = list(zip(called, duration.tolist(), strict=True))
    for e in np.flatnonzero(np.append(alike, False) | np.append(False, alike)):
        name = (called[e],) if duration is None else called[e]
        called[e] = (*name, float(reward[e]))
    ends = np.cumsum(np.unique(pair, return_counts=True)[1]).tolist()
    return [called[i:j] for i, j in zip([0, *ends], ends, strict=False)]


def _transitions(
    columns: TableColumns, states: NamesLike, actions: NamesLike, ends: bool = False
) -> tuple[TransitionTable, tuple[str, ...]]:
    """Return the transitions of a table and notes; with ``ends`` a missing next state is the end of the process."""
    if not columns.size:
        raise ModelError(f"{columns.table} has no rows", code="no-rows", argument=columns.table)
    models = len(set(columns["sample"].tolist())) if "sample" in columns else 1
    if models > 1:
        message = (
            f"{columns.table} holds {models} models, one for each {columns.used['sample']!r}; as draws of one model: "
            "BayesianRiskMDP.from_table"
        )
        raise ModelError(message, code="several-models", argument=columns.table, value=models)
    ended = is_missing(columns["next_state"]) if ends else None
    read = TransitionTable.of(columns, states, actions, error=ModelError, ended=ended)
    action, by_action, notes = without_idle(read.action, read.actions)
    return read._replace(action=action, actions=by_action), notes


def without_idle(action: IntArray, by_action: Labels) -> tuple[IntArray, Labels, tuple[str, ...]]:
    """Drop the labels of actions that no state admits."""
    used = np.unique(action)
    idle = np.setdiff1d(np.arange(by_action.size), used)
    if not idle.size:
        return action, by_action, ()
    shown = ", ".join(map(repr, by_action.names_at(idle)))
    note = f"no state admits {plural(idle.size, 'action')}, dropped: {shown}"
    return np.searchsorted(used, action), Labels("action", by_action.names_at(used), used.size), (note,)


def _names(read: TransitionTable) -> Arguments:
    return {"states": read.states.names, "actions": read.actions.names}


class Steps(NamedTuple):
    """Steps [M] that a known model can take."""

    state: IntArray
    action: IntArray
    next_state: IntArray
    probability: FloatArray
    reward: FloatArray
    ends: BoolArray  # whether the step is the last one

    def one_by_one(self, pair: IntArray, n_pairs: int) -> Outcomes | None:
        """Return the steps, if adding up those to the same state would hide that they earn different rewards."""
        target = np.where(self.ends, END, self.next_state)
        used = np.flatnonzero(self.probability > 0.0)
        order = used[np.lexsort((self.reward[used], target[used], pair[used]))]
        pair, target, reward = pair[order], target[order], self.reward[order]
        if not ((np.diff(pair) == 0) & (np.diff(target) == 0) & (np.diff(reward) != 0.0)).any():
            return None
        first = np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=n_pairs))))
        return Outcomes(first, target.astype(np.int32), reward, self.probability[order])


# -- functions ---------------------------------------------------------------------------------------------


def uncertain_dynamics(
    dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
    states: Iterable[Hashable],
    actions: Iterable[Hashable],
    noise: Iterable[Hashable] | Mapping[Hashable, Iterable[Hashable]],
    source: Callable[[Any, Any], Hashable] | None,
    admissible: Callable[[Any, Any], bool] | None,
    terminal: TerminalLike = None,
) -> Arguments:
    """Call ``dynamics`` on every admissible pair and outcome."""
    named = dict(noise) if isinstance(noise, Mapping) else {"noise": noise}
    if not named or (len(named) > 1 and source is None):
        message = f"noise has {len(named)} sources; source(state, action) must say which one acts"
        raise ModelError(message, code="missing-argument", argument="source")
    outcomes = [tuple(items_of(values, "noise", error=ModelError)) for values in named.values()]
    places = tuple(items_of(states, "states", error=ModelError))
    moves = tuple(items_of(actions, "actions", error=ModelError))
    by_source, by_state = Labels("source", named, len(named)), Labels("state", places, len(places))
    over, _ = read_terminal(terminal, by_state)
    sources = np.full((len(places), len(moves)), -1, dtype=np.int64)
    steps: list[tuple[int, int, int, float]] = []
    for s, state in enumerate(places):
        for a, action in enumerate(moves):
            if over[s] or (admissible is not None and not admissible(state, action)):
                continue
            name = next(iter(named)) if source is None else source(state, action)
            b = sources[s, a] = by_source.find(name)
            if b < 0:
                raise by_source.unknown(name, f"source({state!r}, {action!r})", ModelError)
            for k, drawn in enumerate(outcomes[b]):
                call = f"dynamics({state!r}, {action!r}, {drawn!r})"
                steps.append((s * len(moves) + a, k, *_read_step(dynamics(state, action, drawn), call, by_state)))
    for b, name in enumerate(named):
        if sources.size and b not in sources:
            raise ModelError(f"no admissible pair uses the source {name!r}", code="unused-source", value=name)
    columns = np.array(steps, dtype=[("pair", "i8"), ("outcome", "i8"), ("next_state", "i8"), ("reward", "f8")])
    by_action = Labels("action", moves, len(moves))
    used, by_action, notes = without_idle(np.nonzero(sources >= 0)[1], by_action)
    if notes and used.size:
        kept = (sources >= 0).any(axis=0)
        sources = sources[:, kept]
        columns["pair"] = (
            columns["pair"] // kept.size * by_action.size + (np.cumsum(kept) - 1)[columns["pair"] % kept.size]
        )
    return {
        "source": sources,
        **{name: np.ascontiguousarray(columns[name]) for name in columns.dtype.names or ()},
        "states": places,
        "actions": by_action.names if used.size else moves,
        "sources": tuple(named) if isinstance(noise, Mapping) else None,
        "outcomes": outcomes,
        "notes": notes,
    }


def _read_step(step: Any, call: str, by_state: Labels) -> tuple[int, float]:
    """Return the index of the next state and the reward of what ``dynamics`` returned."""
    try:
        target, earned = step
        reward = float(earned)
    except (TypeError, ValueError):
        message = f"{call} is {step!r}, expected (next_state, reward)"
        raise ModelError(message, code="wrong-type", argument="dynamics", value=step) from None
    index = by_state.find(target)
    if index < 0 and target is None:
        index = END
    elif index < 0:
        message = f"{call} leads to {target!r}, expected {by_state.expected()}"
        raise ModelError(message, code="unknown-state", argument="dynamics", value=target)
    if not np.isfinite(reward):
        message = f"{call} earns {earned!r}, expected a finite number"
        raise ModelError(message, code="not-finite", argument="dynamics", value=earned)
    return index, reward


# -- Gymnasium ---------------------------------------------------------------------------------------------


def discrete_environment(env: Any) -> Any:
    """Return a Gymnasium environment, given itself or by its id, after a check that its spaces are Discrete."""
    if isinstance(env, str):
        import gymnasium  # takes a while to load, and an environment that exists already does not need it

        try:
            env = gymnasium.make(env)
        except gymnasium.error.Error as fault:
            message = f"gymnasium cannot make {env!r}: {fault}"
            raise ModelError(message, code="unknown-environment", value=env) from fault
    for kind in ("observation", "action"):
        space = getattr(env, f"{kind}_space", None)
        if not (hasattr(space, "n") and hasattr(space, "start")):  # only Discrete has both
            message = f"the {kind} space of {env} is {space}, expected a Discrete one"
            raise ModelError(message, code="wrong-type", value=space)
    return env


def known_gymnasium(env: Any) -> Arguments:
    """Read the table ``env.unwrapped.P`` of an environment, or of the one with this id."""
    env = discrete_environment(env)
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if not isinstance(table, Mapping):
        message = f"{env} has no table of transition probabilities env.unwrapped.P"
        raise ModelError(message, code="missing-column", column="env.unwrapped.P")
    try:
        rows = [
            (s, a, target, probability, reward, bool(ends))
            for s, by_action in table.items()
            for a, steps in by_action.items()
            for probability, target, reward, ends in steps
        ]
        listed = Steps(*map(np.array, zip(*rows, strict=True)))
    except (AttributeError, TypeError, ValueError):
        form = "{state: {action: [(probability, next_state, reward, terminated), ...]}}"
        raise ModelError(f"env.unwrapped.P must have the form {form}", code="wrong-format") from None
    S, A = int(env.observation_space.n), int(env.action_space.n)
    for what, indices, size in zip(("state", "action", "next state"), listed[:3], (S, A, S), strict=True):
        outside = (indices < 0) | (indices >= size)
        if outside.any():
            value = indices[outside][0]
            message = f"env.unwrapped.P has the {what} {value}, expected one from 0 to {size - 1}"
            raise ModelError(message, code="index-range", value=int(value))
    return {"steps": listed, "shape": (S, A)}
