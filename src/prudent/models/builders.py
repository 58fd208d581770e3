"""How other people's things become models: matrices, tables, functions, Gymnasium environments.

A builder reads one of them and returns ``Arguments``, the keyword arguments of the constructor: of ``MDP`` for the
names in ``known_``, of ``UncertainMDP`` for those in ``uncertain_``. The constructor then checks the model as a whole;
a builder checks only what can no longer be named afterwards, such as the row of a table or the call of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._support.checks import BoolArray, FloatArray, IntArray, mask_array, number_array, require_shape
from ..data.labels import Column, Labels, Names, encode_each, is_missing
from ..data.naming import NEXT_STATES, PAIRS
from ..data.tables import Columns, has_names, read_columns, read_numbers
from ..errors import ModelError
from .base import Shape, admissible_mask, plural, read_terminal
from .entries import END, Outcomes

Indices = npt.NDArray[np.integer[Any]]
Arguments = dict[str, Any]
_BY_PAIR = {"sources": PAIRS, "outcomes": NEXT_STATES}  # the names of a model in which every pair has its own source

# -- matrices ----------------------------------------------------------------------------------------------


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


def row_numbers(matrix: sparse.csr_array) -> Indices:
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


def uncertain_direct(reward: Any, support: Any, admissible: Any, states: Names, terminal: Any) -> Arguments:
    """Read the direct parametrisation: a source for each pair, whose outcomes are its (possible) next states."""
    given = number_array(reward, "reward", error=ModelError)
    if given.ndim not in (2, 3):
        raise ModelError(f"reward must have the axes [S, A] or [S, A, S], got shape {given.shape}")
    S, A = given.shape[:2]
    if given.ndim == 3:
        require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
    allowed = admissible_mask(admissible, (S, A))
    if terminal is not None:
        allowed &= ~read_terminal(terminal, Labels("state", states, S))[0][:, None]
    source = own_sources(allowed)
    if support is None:
        next_state = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S))
        return {"source": source, "next_state": next_state, "reward": given, **_BY_PAIR}
    if _is_sparse(support):
        if support.shape != (S * A, S):
            raise ModelError(f"a sparse support must have shape (S*A, S) = {(S * A, S)}, got {support.shape}")
        pairs, targets = np.nonzero(support)
    else:
        possible = mask_array(support, "support", (S, A, S), "[S, A, S]", error=ModelError)
        pairs, targets = np.nonzero(possible.reshape(S * A, S))
    order = np.lexsort((targets, pairs))
    order = order[allowed.reshape(-1)[pairs[order]]]
    pairs, targets = pairs[order].astype(np.int64), targets[order].astype(np.int64)
    earned = given.reshape(S * A, -1)[pairs, targets if given.ndim == 3 else 0]
    finite = np.isfinite(earned)
    if not finite.all():
        e = int(np.argmin(finite))
        place = [*divmod(int(pairs[e]), A), *[int(targets[e])] * (given.ndim == 3)]
        raise ModelError(f"reward{place} is {earned[e]}, expected a finite number")
    return {
        "source": source,
        "pair": pairs,
        "outcome": places_in(pairs),
        "next_state": targets,
        "reward": earned,
        **_BY_PAIR,
    }


# -- tables ------------------------------------------------------------------------------------------------


def known_table(table: Any, states: Names, actions: Names, columns: Mapping[str, Any] | None) -> Arguments:
    """Read a long table: state, action, next_state, probability, reward."""
    needed = ("state", "action", "next_state", "probability", "reward")
    held = read_columns(table, needed, table="table", error=ModelError, named=("sample",), columns=columns)
    read = _read_pairs(held, states, actions)
    probability = read_numbers(held, "probability", error=ModelError)
    if (probability < 0.0).any():  # before it can hide in the sum with another row
        row = int(np.argmax(probability < 0.0))
        raise ModelError(f"{held.place(row)}: probability is {probability[row]}, expected one in [0, 1]")
    reward = read_numbers(held, "reward", error=ModelError)
    steps = _Steps(read.state, read.action, read.next_state, probability, reward, np.zeros(reward.size, dtype=np.bool_))
    return _add_up(steps, read.shape) | read.names()


def uncertain_table(table: Any, states: Names, actions: Names, columns: Mapping[str, Any] | None) -> Arguments:
    """Read a long table of known dynamics: state, action, outcome, next_state, reward and perhaps source.

    Without outcomes, every pair has its own source, and its outcomes are the next states (and rewards) that are listed.
    """
    told: Arguments = {"table": "table", "error": ModelError, "columns": columns}
    if has_names(table):
        needed: tuple[str, ...] = ("state", "action", "next_state", "reward")
        held = read_columns(table, needed, named=("outcome", "source", "probability", "sample"), **told)
    else:
        needed = ("state", "action", "outcome", "next_state", "reward")
        held = read_columns(table, needed, ("source",), **told)
    read = _read_pairs(held, states, actions, ends=True)
    reward = read_numbers(held, "reward", error=ModelError)
    if "outcome" not in held:
        return _listed_steps(held, read, reward)
    (s, a), S, A = read[:2], *read.shape
    b, by_source = np.zeros_like(s), Labels("source", None, 1)
    if "source" in held:
        by_source = Labels.learn("source", held["source"])
        b = by_source.encode(held["source"], "source", place=held.place, error=ModelError)
    seen: list[list[Hashable]] = [[] for _ in range(int(b.max()) + 1)]
    for number, outcome in zip(b.tolist(), held["outcome"].tolist(), strict=True):
        seen[number].append(outcome)
    labels = [Labels.learn("outcome", outcomes) for outcomes in seen]
    k = encode_each(labels, b, held["outcome"], "outcome", place=held.place, error=ModelError)

    shape = (S, A, max(each.size for each in labels))
    pair = s * A + a
    _, first, of_pair = np.unique(pair, return_index=True, return_inverse=True)
    mixed = b[first][of_pair] != b
    if mixed.any():
        row = int(np.argmax(mixed))
        value = held["source"].tolist()[row]
        raise ModelError(f"{held.place(row)}: source is {value!r}, unlike in the first row of the same pair")
    _, once = np.unique(pair * shape[2] + k, return_index=True)
    if once.size < k.size:
        row = int(np.setdiff1d(np.arange(k.size), once)[0])
        value = held["outcome"].tolist()[row]
        raise ModelError(f"{held.place(row)}: outcome is {value!r}, which this pair has already")
    source = np.full(shape[:2], -1, dtype=np.int64)
    source[s, a] = b
    arrays = {"source": source, "pair": pair, "outcome": k, "next_state": read.next_state, "reward": reward}
    names = {"sources": by_source.names, "outcomes": [each.names or range(each.size) for each in labels]}
    return arrays | names | read.names()


def _listed_steps(held: Columns, read: _Pairs, reward: FloatArray) -> Arguments:
    """Give every pair its own source: an outcome is a next state, or a next state with one of its rewards."""
    pair = read.state * read.shape[1] + read.action
    which_reward = np.unique(reward, return_inverse=True)[1].reshape(-1)
    once = np.unique(np.stack([pair, read.next_state, which_reward]), axis=1, return_index=True)[1]
    pair, target, earned = pair[once], read.next_state[once], reward[once]
    admissible = np.bincount(pair, minlength=read.shape[0] * read.shape[1]).reshape(read.shape) > 0
    _, sizes = np.unique(np.stack([pair, target]), axis=1, return_counts=True)
    arrays: Arguments = {"source": own_sources(admissible), "pair": pair, "outcome": places_in(pair)}
    arrays |= {"next_state": target, "reward": earned, **_BY_PAIR}
    if (sizes > 1).any():
        arrays["outcomes"] = called_outcomes(pair, target, earned, read.by_state)
    if "probability" in held:
        note = "the probabilities of the table were not used: they are what a posterior is about"
        return arrays | read.names(note)
    return arrays | read.names()


def called_outcomes(pair: IntArray, target: IntArray, reward: FloatArray, states: Labels) -> list[list[Hashable]]:
    """Name outcomes, sorted by pair and target: by next state, or (next_state, reward) if it has several rewards."""
    alike = (np.diff(pair) == 0) & (np.diff(target) == 0)
    several = np.append(alike, False) | np.append(False, alike)
    names = states.names or range(states.size)
    called: list[Any] = [None if t < 0 else names[t] for t in target.tolist()]
    for e in np.flatnonzero(several):
        called[e] = (called[e], float(reward[e]))
    ends = np.cumsum(np.unique(pair, return_counts=True)[1]).tolist()
    return [called[i:j] for i, j in zip([0, *ends], ends, strict=False)]


class _Pairs(NamedTuple):
    """The states, actions and next states of a table as indices [M], and their labels."""

    state: IntArray
    action: IntArray
    next_state: IntArray
    by_state: Labels
    by_action: Labels
    notes: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        """The numbers of states and actions."""
        return self.by_state.size, self.by_action.size

    def names(self, *notes: str) -> Arguments:
        """Return the names and notes as arguments."""
        names = {"states": self.by_state.names, "actions": self.by_action.names}
        return names | {"notes": (*self.notes, *notes)}


def _read_pairs(columns: Columns, states: Names, actions: Names, ends: bool = False) -> _Pairs:
    """Return what every table has; with ``ends`` a missing next state is the end of the process."""
    if not columns["state"].size:
        raise ModelError(f"{columns.table} has no rows")
    if "sample" in columns and len(set(columns["sample"].tolist())) > 1:
        models, called = len(set(columns["sample"].tolist())), columns.used["sample"]
        raise ModelError(
            f"{columns.table} holds {models} models, one for each {called!r}; as draws of one model: "
            "BayesianRiskMDP.from_table"
        )
    by_state = _given_or_learned("state", states, columns["state"], columns["next_state"])
    by_action = _given_or_learned("action", actions, columns["action"])
    over = is_missing(columns["next_state"]) if ends else np.zeros(columns["next_state"].size, dtype=np.bool_)
    if over.any():  # any state will do until the others are read
        columns["next_state"] = np.where(over, columns["state"], columns["next_state"])
    s, a, target = (
        labels.encode(columns[what], what, place=columns.place, error=ModelError)
        for what, labels in (("state", by_state), ("action", by_action), ("next_state", by_state))
    )
    target[over] = END
    a, by_action, notes = _without_idle(a, by_action)
    return _Pairs(s, a, target, by_state, by_action, notes)


def _without_idle(action: IntArray, by_action: Labels) -> tuple[IntArray, Labels, tuple[str, ...]]:
    """Drop the names of actions that no state admits."""
    used = np.unique(action)
    idle = sorted(set(range(by_action.size)) - set(used.tolist()))
    if not idle:
        return action, by_action, ()
    names = by_action.names or tuple(range(by_action.size))
    note = f"no state admits {plural(len(idle), 'action')}, dropped: {', '.join(repr(names[i]) for i in idle)}"
    return np.searchsorted(used, action), Labels("action", [names[i] for i in used], used.size), (note,)


def _given_or_learned(what: str, given: Names, *columns: Column) -> Labels:
    if given is None:
        return Labels.learn(what, *columns)
    names = tuple(given)
    return Labels(what, names, len(names))


class _Steps(NamedTuple):
    """A list of steps [M] that a known model can take."""

    state: IntArray
    action: IntArray
    next_state: IntArray
    probability: FloatArray
    reward: FloatArray
    ends: BoolArray  # whether the step is the last one


class Earned(NamedTuple):
    """What single steps earn, times their probability."""

    places: IntArray  # [M] (s*A + a)*S + s' of those that go on
    amounts: FloatArray  # [M]
    last: FloatArray  # [S, A] of those that end the process
    outcomes: Outcomes | None  # steps one by one, where some share a next state and differ in what they earn


def _one_by_one(pair: IntArray, steps: _Steps, n_pairs: int) -> Outcomes | None:
    """Return the steps, if adding up those to the same state would hide that they earn different rewards."""
    target = np.where(steps.ends, END, steps.next_state)
    used = np.flatnonzero(steps.probability > 0.0)
    order = used[np.lexsort((steps.reward[used], target[used], pair[used]))]
    pair, target, reward = pair[order], target[order], steps.reward[order]
    if not ((np.diff(pair) == 0) & (np.diff(target) == 0) & (np.diff(reward) != 0.0)).any():
        return None
    first = np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=n_pairs))))
    return Outcomes(first, target.astype(np.int32), reward, steps.probability[order])


def _add_up(steps: _Steps, shape: Shape) -> Arguments:
    """Add up the steps of each pair, those that end the process apart; pairs without any are inadmissible."""
    S, A = shape
    pair, goes_on = steps.state * A + steps.action, ~steps.ends
    earned = steps.probability * steps.reward
    entries = (steps.probability[goes_on], (pair[goes_on], steps.next_state[goes_on]))
    return {
        "transition": sparse.coo_array(entries, shape=(S * A, S)),
        "reward": pair_sums(pair, earned, shape),
        "_earned": Earned(
            pair[goes_on] * S + steps.next_state[goes_on],
            earned[goes_on],
            pair_sums(pair, earned * steps.ends, shape),
            _one_by_one(pair, steps, S * A),
        ),
        "termination": pair_sums(pair, steps.probability * steps.ends, shape),
        "admissible": np.bincount(pair, minlength=S * A).reshape(shape) > 0,
    }


# -- functions ---------------------------------------------------------------------------------------------


def uncertain_dynamics(
    dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
    states: Iterable[Hashable],
    actions: Iterable[Hashable],
    noise: Iterable[Hashable] | Mapping[Hashable, Iterable[Hashable]],
    source: Callable[[Any, Any], Hashable] | None,
    admissible: Callable[[Any, Any], bool] | None,
    terminal: Any = None,
) -> Arguments:
    """Call ``dynamics`` on every admissible pair and outcome."""
    named = dict(noise) if isinstance(noise, Mapping) else {"noise": noise}
    if not named or (len(named) > 1 and source is None):
        raise ModelError(f"noise has {len(named)} sources; source(state, action) must say which one acts")
    outcomes = [tuple(values) for values in named.values()]
    places, moves = tuple(states), tuple(actions)
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
                raise ModelError(f"source({state!r}, {action!r}) is {name!r}, expected {by_source.expected()}")
            for k, drawn in enumerate(outcomes[b]):
                call = f"dynamics({state!r}, {action!r}, {drawn!r})"
                steps.append((s * len(moves) + a, k, *_read_step(dynamics(state, action, drawn), call, by_state)))
    for b, name in enumerate(named):
        if sources.size and b not in sources:
            raise ModelError(f"no admissible pair uses the source {name!r}")
    columns = np.array(steps, dtype=[("pair", "i8"), ("outcome", "i8"), ("next_state", "i8"), ("reward", "f8")])
    by_action = Labels("action", moves, len(moves))
    used, by_action, notes = _without_idle(np.nonzero(sources >= 0)[1], by_action)
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
        raise ModelError(f"{call} is {step!r}, expected (next_state, reward)") from None
    index = by_state.find(target)
    if index < 0 and target is None:
        index = END
    elif index < 0:
        raise ModelError(f"{call} leads to {target!r}, expected {by_state.expected()}")
    if not np.isfinite(reward):
        raise ModelError(f"{call} earns {earned!r}, expected a finite number")
    return index, reward


# -- Gymnasium ---------------------------------------------------------------------------------------------


def discrete_environment(env: Any) -> Any:
    """Return a Gymnasium environment, given itself or by its id, after a check that its spaces are Discrete."""
    if isinstance(env, str):
        import gymnasium  # takes a while to load, and an environment that exists already does not need it

        try:
            env = gymnasium.make(env)
        except gymnasium.error.Error as fault:
            raise ModelError(f"gymnasium cannot make {env!r}: {fault}") from fault
    for kind in ("observation", "action"):
        space = getattr(env, f"{kind}_space", None)
        if not (hasattr(space, "n") and hasattr(space, "start")):  # only Discrete has both
            raise ModelError(f"the {kind} space of {env} is {space}, expected a Discrete one")
    return env


def known_gymnasium(env: Any) -> Arguments:
    """Read the table ``env.unwrapped.P`` of an environment, or of the one with this id."""
    env = discrete_environment(env)
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if not isinstance(table, Mapping):
        raise ModelError(f"{env} has no table of transition probabilities env.unwrapped.P")
    try:
        rows = [
            (s, a, target, probability, reward, bool(ends))
            for s, by_action in table.items()
            for a, steps in by_action.items()
            for probability, target, reward, ends in steps
        ]
        listed = _Steps(*map(np.array, zip(*rows, strict=True)))
    except (AttributeError, TypeError, ValueError):
        form = "{state: {action: [(probability, next_state, reward, terminated), ...]}}"
        raise ModelError(f"env.unwrapped.P must have the form {form}") from None
    S, A = int(env.observation_space.n), int(env.action_space.n)
    for what, indices, size in zip(("state", "action", "next state"), listed[:3], (S, A, S), strict=True):
        outside = (indices < 0) | (indices >= size)
        if outside.any():
            value = indices[outside][0]
            raise ModelError(f"env.unwrapped.P has the {what} {value}, expected one from 0 to {size - 1}")
    return _add_up(listed, (S, A))
