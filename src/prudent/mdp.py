"""Tabular models: ``MDP``, whose probabilities are known, and ``UncertainMDP``, whose probabilities are not.

A known model has transition probabilities P(s' | s, a), mean rewards r(s, a) and a discount, as in Section 2
of the paper. A step may also end the process, with probability ``termination[s, a]``: the value after it is
zero, and P[s, a].sum() + termination[s, a] = 1.

An uncertain model separates what is known from what is not. B sources each draw one of up to K outcomes from
a categorical distribution that nobody knows; what an outcome leads to is known:

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

The paper's direct parametrisation has one source for each pair (s, a), and the next state itself is the
outcome; its Frozen Lake has three sources. Beliefs about theta are Dirichlet counts [B, K];
``UncertainMDP.count`` makes them from a log of transitions.

Letters: S states, A actions, K outcomes, B sources, M rows of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, SupportsInt

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ._checks import (
    FloatArray,
    IntArray,
    discount_factor,
    finite_array,
    first_index,
    integer_array,
    mask_array,
    number_array,
    positive,
    require_shape,
    whole_number,
)
from ._logs import add_log, cumulative_rows, first_impossible, walk
from ._tables import (
    Indices,
    Labels,
    Names,
    Shape,
    canonical,
    encode_each,
    packed,
    pair_sums,
    read_columns,
    read_numbers,
    read_pairs,
    read_transitions,
    tabulate,
)
from .errors import DataError, ModelError, ParameterError, PosteriorError, PrudentError

__all__ = ["MDP", "UncertainMDP"]

BoolArray = npt.NDArray[np.bool_]

_ROW_SUM_TOLERANCE = 1e-9


class _Tabular:
    """What both models share: sizes, names, the discount, and which actions a state admits."""

    _compared: ClassVar[tuple[str, ...]]

    discount: float
    n_states: int
    n_actions: int
    admissible: BoolArray  # [S, A]

    def _frame(self, admissible: BoolArray, discount: Any, states: Names, actions: Names) -> None:
        self.discount = discount_factor(discount)
        self.n_states, self.n_actions = admissible.shape
        self.admissible = admissible
        self._state_labels = Labels("state", states, self.n_states)
        self._action_labels = Labels("action", actions, self.n_actions)
        if not admissible.size:
            raise ModelError(f"a model needs states and actions, got {self.n_states} and {self.n_actions}")
        idle = ~admissible.any(axis=1)
        if idle.any():
            state = self._state_labels.show(int(np.argmax(idle)))
            raise ModelError(f"{state} has no admissible action; a state that absorbs needs a loop to itself")
        idle = ~admissible.any(axis=0)
        if idle.any():
            raise ModelError(f"{self._action_labels.show(int(np.argmax(idle)))} is admissible in no state")

    @property
    def states(self) -> tuple[Hashable, ...] | None:
        """The names of the states, or None where they are just 0, 1, ..., S-1."""
        return self._state_labels.names

    @property
    def actions(self) -> tuple[Hashable, ...] | None:
        """The names of the actions, or None where they are just 0, 1, ..., A-1."""
        return self._action_labels.names

    def state_index(self, name: Hashable) -> int:
        """Return the index of a state by its name (by its number, if states have no names).

        >>> MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"]).state_index("wet")
        1
        """
        return self._state_labels.index(name)

    def action_index(self, name: Hashable) -> int:
        """Return the index of an action by its name (by its number, if actions have no names).

        >>> MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"]).action_index("go")
        1
        """
        return self._action_labels.index(name)

    def _pair(self, pair: SupportsInt) -> str:
        """Return how to call the pair s*A + a in a message: ``state 3, action 'go'``."""
        s, a = divmod(int(pair), self.n_actions)
        return f"{self._state_labels.show(s)}, {self._action_labels.show(a)}"

    def _size(self) -> list[str]:
        parts = [_plural(self.n_states, "state"), _plural(self.n_actions, "action")]
        if not self.admissible.all():
            parts.append(_plural(int((~self.admissible).sum()), "inadmissible pair"))
        return parts

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can change


class MDP(_Tabular):
    """A Markov decision process with known transition probabilities.

    Parameters
    ----------
    transition : P(s' | s, a) as an array [S, A, S]; or [A, S, S] with ``actions_first=True``; or a SciPy
        sparse matrix (S*A) x S whose row s*A + a belongs to the pair (s, a); or a list of A sparse S x S
        matrices (stored duplicates add up). Each row, with ``termination``, must sum to 1 within 1e-9.
        Rows are used as given and never renormalised: a sum that is off by 1e-10 stays off by 1e-10.
    reward : mean reward [S, A]; or [S], the same for every action; or one for each transition, [S, A, S]
        ([A, S, S] with ``actions_first``), which is averaged over the next state.
    discount : in [0, 1).
    termination : [S, A], the probability that this step is the last one; nothing is earned after it.
    admissible : bool [S, A]; what is given for the other pairs is not looked at. Default: all.
    states, actions : names, unique and hashable. Names 0, 1, ..., n-1 are the same as no names.

    Attributes
    ----------
    transition : ``scipy.sparse.csr_array`` (S*A) x S, row s*A + a; sorted, no duplicates, no stored zeros.
        Rows of inadmissible pairs are empty.
    reward : float64 [S, A], zero for inadmissible pairs.
    termination : float64 [S, A], or None if the process never ends.
    admissible : bool [S, A].

    Examples
    --------
    >>> stay, go = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> mdp = MDP([stay, go], reward=[[0, -1], [1, 0]], discount=0.9, actions_first=True)
    >>> mdp
    MDP(2 states, 2 actions, 4 transitions, discount 0.9)
    >>> mdp.dense()[0, 1]
    array([0., 1.])
    """

    _compared = ("discount", "states", "actions", "admissible", "reward", "termination", "transition")

    transition: sparse.csr_array  # (S*A) x S
    reward: FloatArray  # [S, A]
    termination: FloatArray | None  # [S, A]

    def __init__(
        self,
        transition: Any,
        reward: Any,
        discount: float,
        *,
        actions_first: bool = False,
        termination: Any = None,
        admissible: Any = None,
        states: Names = None,
        actions: Names = None,
    ) -> None:
        self.transition, shape = read_transitions(transition, actions_first)
        self._frame(_admissible(admissible, shape), discount, states, actions)
        if not self.admissible.all():
            self.transition.data[~self.admissible.ravel()[self._pairs()]] = 0.0
            canonical(self.transition)
        self.termination = self._checked_termination(termination)
        self._check_rows()
        self.reward = self._mean_reward(reward, actions_first)

    def _pairs(self) -> Indices:
        """Return the pair s*A + a of each stored transition."""
        return np.repeat(np.arange(self.admissible.size), np.diff(self.transition.indptr))

    def _checked_termination(self, termination: Any) -> FloatArray | None:
        if termination is None:
            return None
        ending = self._of_pairs(termination, "termination")
        bad = (ending < 0.0) | (ending > 1.0)
        if bad.any():
            value, pair = ending[bad][0], self._pair(np.argmax(bad))
            raise ModelError(f"the termination of {pair} is {value}, expected a number in [0, 1]")
        return ending if ending.any() else None

    def _of_pairs(self, values: Any, what: str) -> FloatArray:
        """Return finite numbers [S, A], zero for inadmissible pairs."""
        given = number_array(values, what, error=ModelError)
        require_shape(given, what, self.admissible.shape, "[S, A]", error=ModelError)
        numbers = np.ascontiguousarray(np.where(self.admissible, given, 0.0))
        bad = ~np.isfinite(numbers)
        if bad.any():
            value, pair = numbers[bad][0], self._pair(np.argmax(bad))
            raise ModelError(f"the {what} of {pair} is {value}, expected a finite number")
        return numbers

    def _check_rows(self) -> None:
        probabilities = self.transition.data
        bad = ~((probabilities >= 0.0) & (probabilities < np.inf))  # written so that NaN is bad
        if bad.any():
            i = int(np.argmax(bad))
            pair, value = self._pair(self._pairs()[i]), probabilities[i]
            target = self._state_labels.show(int(self.transition.indices[i]))
            raise ModelError(f"the transition probability of {pair} to {target} is {value}, expected one in [0, 1]")
        total = (self.transition @ np.ones(self.n_states)).reshape(self.admissible.shape)
        sums = total[self.admissible]
        self.row_sums = (float(sums.min()), float(sums.max()))
        what = "transition probabilities"
        if self.termination is not None:
            total += self.termination
            what += " and termination"
        off = self.admissible & (np.abs(total - 1.0) > _ROW_SUM_TOLERANCE)
        if off.any():
            value, pair = float(total[off][0]), self._pair(np.argmax(off))
            hint = "; is the pair admissible?" if value == 0.0 else ""
            raise ModelError(f"the {what} of {pair} sum to {value!r}, expected 1{hint}")

    def _mean_reward(self, reward: Any, actions_first: bool) -> FloatArray:
        given = number_array(reward, "reward", error=ModelError)
        S, A = self.admissible.shape
        if given.ndim == 1:
            require_shape(given, "reward", (S,), "[S]", error=ModelError)
            given = np.broadcast_to(given[:, None], (S, A))
        if given.ndim == 3:
            if self.termination is not None:
                raise ModelError("reward [S, A, S] is silent on steps that end the process; give means [S, A]")
            given = given.swapaxes(0, 1) if actions_first else given
            require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
            pairs = self._pairs()
            earned = given[pairs // A, pairs % A, self.transition.indices]
            given = pair_sums(pairs, earned * self.transition.data, (S, A))
        return self._of_pairs(given, "reward")

    @classmethod
    def from_table(cls, table: Any, discount: float, *, states: Names = None, actions: Names = None) -> MDP:
        """Return the model of a long table: state, action, next_state, probability, reward.

        The table is a DataFrame, a dict of columns, a structured array, or rows of five values in that order.
        Rows with the same (state, action, next_state) add up their probability; the reward of a pair is the
        mean over its rows. Pairs that are not listed are inadmissible. Labels 0, 1, ..., n-1 are kept as
        indices; any others become names, in sorted order (or as first seen, if they cannot be compared),
        unless ``states`` and ``actions`` say otherwise.

        >>> rows = [("dry", "wait", "dry", 0.8, 0.0), ("dry", "wait", "wet", 0.2, -1.0),
        ...         ("wet", "wait", "dry", 1.0, 0.0)]
        >>> mdp = MDP.from_table(rows, discount=0.9)
        >>> mdp.states
        ('dry', 'wet')
        >>> mdp.reward.ravel()
        array([-0.2, 0. ])
        """
        needed = ("state", "action", "next_state", "probability", "reward")
        columns = read_columns(table, needed, table="table", error=ModelError)
        indices, by_state, by_action = read_pairs(columns, states, actions)
        probability = read_numbers(columns["probability"], "probability", table="table", error=ModelError)
        if (probability < 0.0).any():  # before it can hide in the sum with another row
            row = int(np.argmax(probability < 0.0))
            raise ModelError(f"table row {row}: probability is {probability[row]}, expected one in [0, 1]")
        return cls._from_steps(
            indices,
            probability,
            read_numbers(columns["reward"], "reward", table="table", error=ModelError),
            ends=np.zeros(indices[0].size, dtype=np.bool_),
            shape=(by_state.size, by_action.size),
            discount=discount,
            states=by_state.names,
            actions=by_action.names,
        )

    @classmethod
    def from_gymnasium(cls, env: Any, discount: float) -> MDP:
        """Return the model of a Gymnasium environment that has a table ``env.unwrapped.P``, as FrozenLake-v1.

        Transitions flagged as terminated go into ``termination``; values have one entry for each observation.
        ``env`` may also be the id of a registered environment.

        >>> MDP.from_gymnasium("FrozenLake-v1", discount=0.99).n_states
        16
        """
        if isinstance(env, str):
            import gymnasium  # not needed for an environment that exists already

            try:
                env = gymnasium.make(env)
            except gymnasium.error.Error as fault:
                raise ModelError(f"gymnasium cannot make {env!r}: {fault}") from fault
        spaces: dict[str, Any] = {kind: getattr(env, f"{kind}_space", None) for kind in ("observation", "action")}
        for kind, space in spaces.items():
            if not (hasattr(space, "n") and hasattr(space, "start")):  # only Discrete has both
                raise ModelError(f"the {kind} space of {env} is {space}, expected a Discrete one")
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
            s, a, target, probability, reward, ends = map(np.array, zip(*rows, strict=True))
        except (AttributeError, TypeError, ValueError):
            form = "{state: {action: [(probability, next_state, reward, terminated), ...]}}"
            raise ModelError(f"env.unwrapped.P must have the form {form}") from None
        S, A = (int(space.n) for space in spaces.values())
        for what, indices, size in (("state", s, S), ("action", a, A), ("next state", target, S)):
            outside = (indices < 0) | (indices >= size)
            if outside.any():
                value = indices[outside][0]
                raise ModelError(f"env.unwrapped.P has the {what} {value}, expected one from 0 to {size - 1}")
        return cls._from_steps([s, a, target], probability, reward, ends=ends, shape=(S, A), discount=discount)

    @classmethod
    def _from_steps(
        cls,
        indices: Sequence[IntArray],  # states, actions and next states
        probability: FloatArray,
        reward: FloatArray,
        *,
        ends: BoolArray,
        shape: Shape,
        discount: float,
        states: Names = None,
        actions: Names = None,
    ) -> MDP:
        """Return the model of a list of steps: those of a pair add up, pairs without any are inadmissible."""
        S, A = shape
        s, a, target = indices
        pair, goes_on = s * A + a, ~ends
        entries = (probability[goes_on], (pair[goes_on], target[goes_on]))
        return cls(
            sparse.coo_array(entries, shape=(S * A, S)),
            pair_sums(pair, probability * reward, shape),
            discount,
            termination=pair_sums(pair, probability * ends, shape),
            admissible=np.bincount(pair, minlength=S * A).reshape(shape) > 0,
            states=states,
            actions=actions,
        )

    def dense(self) -> FloatArray:
        """Return the transition probabilities as an array [S, A, S].

        >>> MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9).dense()[0]
        array([[0.5, 0.5]])
        """
        return self.transition.toarray().reshape(self.n_states, self.n_actions, self.n_states)

    def __repr__(self) -> str:
        parts = [*self._size(), _plural(self.transition.nnz, "transition")]
        if self.termination is not None:
            parts.append("steps that end")
        return f"MDP({', '.join(parts)}, discount {self.discount})"


class UncertainMDP(_Tabular):
    """Known dynamics driven by sources whose distributions are not known.

    Action a in state s draws an outcome k from source ``source[s, a]``, leads to ``next_state[s, a, k]`` and
    earns ``reward[s, a, k]``.

    Parameters
    ----------
    source : int [S, A], numbers 0..B-1, all of them used; -1 where the action is not admissible.
    next_state : int [S, A, K]; -1 where the source has no such outcome. All pairs that share a source must
        agree on which outcomes it has.
    reward : [S, A, K], or [S, A] if it does not depend on the outcome. What is given where there is no
        outcome is not looked at.
    discount : in [0, 1).
    states, actions : names, unique and hashable. Names 0, 1, ..., n-1 are the same as no names.
    outcomes : B sequences of names, one for each outcome of the source.

    Attributes
    ----------
    source : int64 [S, A].
    next_state : int32 [S, A, K], -1 where there is no outcome.
    reward : float64 [S, A, K], 0 where there is no outcome.
    admissible : bool [S, A].
    outcome_mask : bool [B, K], True where the source has the outcome.

    Examples
    --------
    A coin of unknown bias decides whether the next state is 0 or 1, and pays for 1:

    >>> model = UncertainMDP(source=[[0], [0]], next_state=[[[0, 1]], [[0, 1]]],
    ...                      reward=[[[-1, 1]], [[-1, 1]]], discount=0.9)
    >>> model
    UncertainMDP(2 states, 1 action, 1 source, 2 outcomes, discount 0.9)
    >>> model.mdp([[0.25, 0.75]]).reward.ravel()
    array([0.5, 0.5])
    """

    _compared = ("discount", "states", "actions", "outcomes", "source", "next_state", "reward")

    n_sources: int
    n_outcomes: int
    source: IntArray  # [S, A]
    next_state: npt.NDArray[np.int32]  # [S, A, K]
    reward: FloatArray  # [S, A, K]
    outcome_mask: BoolArray  # [B, K]

    def __init__(
        self,
        source: Any,
        next_state: Any,
        reward: Any,
        discount: float,
        *,
        states: Names = None,
        actions: Names = None,
        outcomes: Sequence[Iterable[Hashable]] | None = None,
    ) -> None:
        self.source = np.array(integer_array(source, "source", ndim=2, error=ModelError), np.int64, order="C")
        bad = self.source < -1
        if bad.any():
            value = self.source[bad][0]
            raise ModelError(f"source{first_index(bad)} is {value}, expected 0 or more, or -1 if inadmissible")
        self._frame(self.source >= 0, discount, states, actions)
        numbers, first = np.unique(self.source[self.admissible], return_index=True)
        self.n_sources = numbers.size
        gap = numbers != np.arange(self.n_sources)
        if gap.any():
            raise ModelError(f"no pair uses source {np.argmax(gap)}, but there is a source {numbers[-1]}")
        self.next_state = self._checked_next_state(next_state)
        self.n_outcomes = self.next_state.shape[2]
        exists = self.next_state >= 0
        first = np.flatnonzero(self.admissible)[first]  # the first pair that uses each source
        self.outcome_mask = exists.reshape(self.source.size, self.n_outcomes)[first]
        self._check_shared_outcomes(exists, first)
        self.reward = self._checked_reward(reward, exists)
        self._outcome_labels = self._named_outcomes(outcomes)

    def _checked_next_state(self, next_state: Any) -> npt.NDArray[np.int32]:
        given = integer_array(next_state, "next_state", ndim=3, error=ModelError)
        require_shape(given, "next_state", (*self.source.shape, given.shape[2]), "[S, A, K]", error=ModelError)
        bad = ((given < -1) | (given >= self.n_states)) & self.admissible[:, :, None]
        if bad.any():
            wanted = f"a state from 0 to {self.n_states - 1}, or -1 for no such outcome"
            raise ModelError(f"next_state{first_index(bad)} is {given[bad][0]}, expected {wanted}")
        targets = np.array(given, dtype=np.int32, order="C")
        targets[~self.admissible] = -1
        return targets

    def _check_shared_outcomes(self, exists: BoolArray, first: IntArray) -> None:
        empty = ~self.outcome_mask.any(axis=1)
        if empty.any():
            b = int(np.argmax(empty))
            raise ModelError(f"{self._pair(first[b])} has no outcome (source {b})")
        odd = (exists != self.outcome_mask[self.source]) & self.admissible[:, :, None]
        if odd.any():
            pair, k = divmod(int(np.argmax(odd)), self.n_outcomes)
            b = int(self.source.flat[pair])
            having, lacking = (first[b], pair) if self.outcome_mask[b, k] else (pair, first[b])
            raise ModelError(
                f"outcome {k} of source {b} has a next state for {self._pair(having)} but none for "
                f"{self._pair(lacking)}; pairs that share a source must share its outcomes"
            )

    def _checked_reward(self, reward: Any, exists: BoolArray) -> FloatArray:
        given = number_array(reward, "reward", error=ModelError)
        if given.ndim == 2:
            require_shape(given, "reward", self.source.shape, "[S, A]", error=ModelError)
            given = given[:, :, None]
        else:
            require_shape(given, "reward", exists.shape, "[S, A, K]", error=ModelError)
        return finite_array(np.where(exists, given, 0.0), "reward", error=ModelError)

    def _named_outcomes(self, outcomes: Sequence[Iterable[Hashable]] | None) -> list[Labels] | None:
        if outcomes is None:
            return None
        if len(outcomes) != self.n_sources:
            raise ModelError(f"outcomes has names for {len(outcomes)} sources, expected {self.n_sources}")
        sizes = self.n_outcomes - np.argmax(self.outcome_mask[:, ::-1], axis=1)
        labels = [
            Labels(f"outcome of source {b}" if self.n_sources > 1 else "outcome", names, int(size))
            for b, (names, size) in enumerate(zip(outcomes, sizes, strict=True))
        ]
        return labels if any(each.names is not None for each in labels) else None

    @property
    def outcomes(self) -> tuple[tuple[Hashable, ...], ...] | None:
        """The names of the outcomes of each source, or None where they are just 0, 1, ..., K-1."""
        if self._outcome_labels is None:
            return None
        return tuple(each.names or tuple(range(each.size)) for each in self._outcome_labels)

    @classmethod
    def direct(
        cls,
        reward: Any,
        discount: float,
        *,
        support: Any = None,
        admissible: Any = None,
        states: Names = None,
        actions: Names = None,
    ) -> UncertainMDP:
        """Return the model in which every row of the transition matrix is unknown (direct parametrisation).

        Each pair has its own source, numbered s*A + a, whose outcome is the next state: K = S and
        next_state[s, a, k] = k. If some pairs are inadmissible, the others are numbered in that order
        without gaps. ``reward`` is [S, A], or [S, A, S] if it depends on the next state.

        ``support``, bool [S, A, S], says which next states are possible at all: then the outcomes of a pair
        are its possible next states in order, and K is the largest number of them.

        >>> model = UncertainMDP.direct([[0.0, 1.0], [2.0, 3.0]], discount=0.9)
        >>> model.source
        array([[0, 1],
               [2, 3]])
        >>> model.next_state[1, 0]
        array([0, 1], dtype=int32)
        """
        given = number_array(reward, "reward", error=ModelError)
        if given.ndim not in (2, 3):
            raise ModelError(f"reward must have the axes [S, A] or [S, A, S], got shape {given.shape}")
        S, A = given.shape[:2]
        if given.ndim == 3:
            require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
        allowed = _admissible(admissible, (S, A))
        if support is None:
            next_state = np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S))
        else:
            possible = mask_array(support, "support", (S, A, S), "[S, A, S]", error=ModelError)
            possible &= allowed[:, :, None]
            pairs, targets = np.nonzero(possible.reshape(S * A, S))
            next_state = packed(pairs, targets, (S, A))
            if given.ndim == 3:
                given = np.take_along_axis(given, np.maximum(next_state, 0), axis=2)
        return cls(_own_source(allowed), next_state, given, discount, states=states, actions=actions)

    @classmethod
    def from_mdp(cls, mdp: MDP) -> UncertainMDP:
        """Return the direct model on the transitions that a known MDP has; their probabilities are forgotten.

        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9)
        >>> UncertainMDP.from_mdp(mdp).next_state.tolist()
        [[[0, 1]], [[1, -1]]]
        """
        if mdp.termination is not None:
            pair = int(np.argmax(mdp.termination > 0.0))
            raise ModelError(
                f"{mdp._pair(pair)} ends the process with probability {mdp.termination.flat[pair]}, which an "
                "uncertain model cannot; send such steps to an absorbing state with reward 0 instead"
            )
        return cls(
            _own_source(mdp.admissible),
            packed(mdp._pairs(), mdp.transition.indices, mdp.admissible.shape),
            mdp.reward,
            mdp.discount,
            states=mdp.states,
            actions=mdp.actions,
        )

    @classmethod
    def from_dynamics(
        cls,
        dynamics: Callable[[Any, Any, Any], tuple[Any, float]],
        states: Iterable[Hashable],
        actions: Iterable[Hashable],
        noise: Iterable[Hashable] | Mapping[Hashable, Iterable[Hashable]],
        discount: float,
        *,
        source: Callable[[Any, Any], Hashable] | None = None,
        admissible: Callable[[Any, Any], bool] | None = None,
    ) -> UncertainMDP:
        """Return the model of ``dynamics(state, action, noise) -> (next_state, reward)`` on your own labels.

        ``noise`` lists the outcomes of the only source; or it maps the name of each source to its outcomes,
        and ``source(state, action)`` names the one that acts. Sources are numbered in the order of the
        mapping. ``admissible(state, action)`` says which actions are allowed (default: all).

        Inventory control with unknown demand:

        >>> def day(stock, order, demand):
        ...     sold = min(stock + order, demand)
        ...     return stock + order - sold, 5.0 * sold - 2.0 * order
        >>> UncertainMDP.from_dynamics(day, states=range(11), actions=range(6), noise=range(8), discount=0.95,
        ...                            admissible=lambda stock, order: stock + order <= 10)
        UncertainMDP(11 states, 6 actions, 15 inadmissible pairs, 1 source, 8 outcomes, discount 0.95)
        """
        sources = dict(noise) if isinstance(noise, Mapping) else {"noise": noise}
        if len(sources) != 1 and source is None:
            raise ModelError(f"noise has {len(sources)} sources; source(state, action) must say which one acts")
        drawn = {name: tuple(values) for name, values in sources.items()}
        only = next(iter(drawn), None)
        places, moves = tuple(states), tuple(actions)
        arrays = tabulate(
            dynamics, places, moves, drawn, source or (lambda s, a: only), admissible or (lambda s, a: True)
        )
        return cls(*arrays, discount, states=places, actions=moves, outcomes=list(drawn.values()))

    @classmethod
    def from_table(cls, table: Any, discount: float, *, states: Names = None, actions: Names = None) -> UncertainMDP:
        """Return the model of a long table of known dynamics.

        Its columns are state, action, outcome, next_state, reward and optionally source: a DataFrame, a dict
        of columns, a structured array, or rows of values in that order. Without sources, one drives every
        pair. Pairs that are not listed are inadmissible. The labels of states, actions, sources, and of the
        outcomes of each source become indices as in ``MDP.from_table``.

        >>> rows = [("up", "bet", "win", "up", 1.0), ("up", "bet", "loss", "down", -1.0),
        ...         ("down", "bet", "win", "up", 1.0), ("down", "bet", "loss", "down", -1.0)]
        >>> model = UncertainMDP.from_table(rows, discount=0.9)
        >>> model.outcomes
        (('loss', 'win'),)
        >>> model.compatible("up", "bet", "down")
        array([0])
        """
        needed = ("state", "action", "outcome", "next_state", "reward")
        columns = read_columns(table, needed, ("source",), table="table", error=ModelError)
        (s, a, target), by_state, by_action = read_pairs(columns, states, actions)
        reward = read_numbers(columns["reward"], "reward", table="table", error=ModelError)
        b = np.zeros_like(s)
        if "source" in columns:
            names = Labels.learn("source", columns["source"])
            b = names.encode(columns["source"], "source", table="table", error=ModelError)
        seen: list[list[Hashable]] = [[] for _ in range(int(b.max()) + 1)]
        for number, outcome in zip(b.tolist(), columns["outcome"].tolist(), strict=True):
            seen[number].append(outcome)
        labels = [Labels.learn("outcome", outcomes) for outcomes in seen]
        k = encode_each(labels, b, columns["outcome"], "outcome", table="table", error=ModelError)

        shape = (by_state.size, by_action.size, max(each.size for each in labels))
        pair = s * shape[1] + a
        _, first, of_pair = np.unique(pair, return_index=True, return_inverse=True)
        mixed = b[first][of_pair] != b
        if mixed.any():
            row = int(np.argmax(mixed))
            value = columns["source"].tolist()[row]
            raise ModelError(f"table row {row}: source is {value!r}, unlike in the first row of the same pair")
        _, once = np.unique(pair * shape[2] + k, return_index=True)
        if once.size < k.size:
            row = int(np.setdiff1d(np.arange(k.size), once)[0])
            value = columns["outcome"].tolist()[row]
            raise ModelError(f"table row {row}: outcome is {value!r}, which this pair has already")
        source = np.full(shape[:2], -1, dtype=np.int64)
        next_state, rewards = np.full(shape, -1, dtype=np.int32), np.zeros(shape)
        source[s, a] = b
        next_state[s, a, k] = target
        rewards[s, a, k] = reward
        outcomes = [each.names or range(each.size) for each in labels]
        return cls(
            source,
            next_state,
            rewards,
            discount,
            states=by_state.names,
            actions=by_action.names,
            outcomes=outcomes,
        )

    def mdp(self, theta: Any) -> MDP:
        """Return the MDP in which source b draws its outcomes with probabilities ``theta[b]``, theta [B, K].

        Outcomes that lead to the same state add up; the reward is the mean over the outcomes.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).mdp([[0.25, 0.75], [1.0, 0.0]]).dense()[0]
        array([[0.25, 0.75]])
        """
        drawn = self._distributions(theta)[self.source]  # [S, A, K]
        exists = self.next_state >= 0
        ends = np.cumsum(np.count_nonzero(exists, axis=2))  # of the rows of the matrix
        rows = (drawn[exists], self.next_state[exists], np.concatenate(([0], ends)))
        return MDP(
            sparse.csr_array(rows, shape=(self.source.size, self.n_states)),
            np.einsum("sak,sak->sa", drawn, self.reward),
            self.discount,
            admissible=self.admissible,
            states=self.states,
            actions=self.actions,
        )

    def _distributions(self, theta: Any) -> FloatArray:
        rows = self._of_outcomes(theta, "theta", ModelError)
        total = rows.sum(axis=1)
        off = np.abs(total - 1.0) > _ROW_SUM_TOLERANCE
        if off.any():
            raise ModelError(f"theta{first_index(off)} sums to {float(total[off][0])!r}, expected 1")
        return rows

    def _of_outcomes(self, values: Any, name: str, error: type[PrudentError]) -> FloatArray:
        """Return non-negative numbers [B, K] that are zero where a source has no such outcome."""
        array = finite_array(values, name, ndim=2, error=error)
        require_shape(array, name, self.outcome_mask.shape, "[B, K]", error=error)
        for bad, wanted in (
            (array < 0.0, "a number that is not negative"),
            ((array > 0.0) & ~self.outcome_mask, "0: this source has no such outcome"),
        ):
            if bad.any():
                raise error(f"{name}{first_index(bad)} is {array[bad][0]}, expected {wanted}")
        return array

    def prior(self, count: float = 1.0) -> FloatArray:
        """Return Dirichlet counts [B, K]: ``count`` for every outcome a source has, 0 elsewhere.

        >>> UncertainMDP.direct([[1.0], [0.0]], discount=0.5).prior()
        array([[1., 1.],
               [1., 1.]])
        """
        return np.where(self.outcome_mask, positive(count, "count"), 0.0)

    def compatible(self, state: Hashable, action: Hashable, next_state: Hashable) -> IntArray:
        """Return the outcomes that lead from ``state`` by ``action`` to ``next_state``; there may be none.

        >>> UncertainMDP([[0]], next_state=[[[0, 0, -1]]], reward=[[1.0]], discount=0.5).compatible(0, 0, 0)
        array([0, 1])
        """
        s, a, target = self.state_index(state), self.action_index(action), self.state_index(next_state)
        if not self.admissible[s, a]:
            raise ParameterError(f"{self._pair(s * self.n_actions + a)} is not admissible")
        return np.flatnonzero(self.next_state[s, a] == target)

    def count(self, log: Any, prior: Any, *, indices: bool = False) -> FloatArray:
        """Return the Dirichlet counts [B, K] after a log of transitions: ``prior`` [B, K] plus what was seen.

        The log has rows (state, action, next_state) or (state, action, next_state, outcome): tuples, an array
        [M, 3] or [M, 4], or a DataFrame or dict with these columns. What has a name goes by its name, unless
        ``indices=True``: then everything goes by index, as in a log made by ``simulate``. An outcome of None,
        NaN or -1 was not observed.

        If the outcome is known, or only one leads to the next state, the counts are those of the exact
        posterior. If several do, the count of 1 is split over them in proportion to their posterior means
        given the rows before: an approximation, which depends on the order of the rows. If any row is
        impossible, a ``DataError`` names it and nothing is counted.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.count([(0, 0, 1), (1, 0, 1), (1, 0, 0)], prior=model.prior())
        array([[1., 2.],
               [2., 2.]])
        """
        counts = self._of_outcomes(prior, "prior", PosteriorError).copy()
        rows = self._read_log(log, indices)
        row = first_impossible(self.source, self.next_state, counts, rows)
        if row >= 0:
            raise DataError(f"log row {row}: {self._why_impossible(rows[row])}")
        add_log(self.source, self.next_state, counts, rows)
        return counts

    def _read_log(self, log: Any, by_index: bool) -> IntArray:
        """Return the log as indices, int64 [M, 4], with -1 for an outcome that was not observed."""
        needed = ("state", "action", "next_state")
        columns = read_columns(log, needed, ("outcome",), table="log", error=DataError)
        labels = [self._state_labels, self._action_labels, self._state_labels]
        if by_index:
            labels = [Labels(each.what, None, each.size) for each in labels]
        rows = np.full((columns["state"].size, 4), -1, dtype=np.int64)
        for i, what in enumerate(needed):
            rows[:, i] = labels[i].encode(columns[what], what, table="log", error=DataError)
        b = self.source[rows[:, 0], rows[:, 1]]
        if (b < 0).any():
            row = int(np.argmax(b < 0))
            pair = self._pair(rows[row, 0] * self.n_actions + rows[row, 1])
            raise DataError(f"log row {row}: {pair} is not admissible")
        if "outcome" in columns:
            told: dict[str, Any] = {"table": "log", "error": DataError, "gaps": True}
            if by_index or self._outcome_labels is None:
                rows[:, 3] = Labels("outcome", None, self.n_outcomes).encode(columns["outcome"], "outcome", **told)
            else:
                rows[:, 3] = encode_each(self._outcome_labels, b, columns["outcome"], "outcome", **told)
        return rows

    def _why_impossible(self, row: IntArray) -> str:
        s, a, target, k = row.tolist()
        pair, arrival = self._pair(s * self.n_actions + a), self._state_labels.show(target)
        b, leads = int(self.source[s, a]), self.next_state[s, a]
        if k < 0:
            if (leads == target).any():
                return f"{pair} leads to {arrival} only by outcomes whose prior count is 0"
            return f"{pair} never leads to {arrival}"
        outcome = f"outcome {k}" if self._outcome_labels is None else self._outcome_labels[b].show(k)
        if leads[k] < 0:
            return f"{pair} has no {outcome}"
        if leads[k] != target:
            return f"{pair} leads by {outcome} to {self._state_labels.show(int(leads[k]))}, not to {arrival}"
        return f"{pair} leads to {arrival} by {outcome}, whose prior count is 0"

    def simulate(
        self,
        theta: Any,
        policy: Any,
        steps: int,
        state: int = 0,
        rng: np.random.Generator | int | None = None,
    ) -> IntArray:
        """Return a log int64 [M, 4] of one trajectory: rows (state, action, next_state, outcome), as indices.

        Sources draw from ``theta`` [B, K]; ``policy`` [S] gives the action in each state; ``state`` is the
        index of the first. From the same seed, a longer log begins with the shorter one. Count it with
        ``count(log, prior, indices=True)``, or plainly if the model has no names.

        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> model.simulate([[0.0, 1.0], [1.0, 0.0]], policy=[0, 0], steps=3)
        array([[0, 0, 1, 1],
               [1, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        probabilities = self._distributions(theta)
        chosen = self._checked_policy(policy)
        start = Labels("state", None, self.n_states).index(state)
        uniforms = np.random.default_rng(rng).random(whole_number(steps, "steps", 0))
        log = np.empty((uniforms.size, 4), dtype=np.int64)
        walk(self.source, self.next_state, cumulative_rows(probabilities), chosen, uniforms, start, log)
        return log

    def _checked_policy(self, policy: Any) -> IntArray:
        chosen = np.array(integer_array(policy, "policy", ndim=1, error=ParameterError), dtype=np.int64)
        require_shape(chosen, "policy", (self.n_states,), "[S]", error=ParameterError)
        bad = (chosen < 0) | (chosen >= self.n_actions)
        bad |= ~self.admissible[np.arange(self.n_states), np.where(bad, 0, chosen)]
        if bad.any():
            value, state = chosen[bad][0], self._state_labels.show(int(np.argmax(bad)))
            raise ParameterError(f"policy{first_index(bad)} is {value}, expected an admissible action of {state}")
        return chosen

    def __repr__(self) -> str:
        most = "" if self.outcome_mask.all() else "up to "
        parts = [*self._size(), _plural(self.n_sources, "source"), most + _plural(self.n_outcomes, "outcome")]
        return f"UncertainMDP({', '.join(parts)}, discount {self.discount})"


def _admissible(admissible: Any, shape: Shape) -> BoolArray:
    if admissible is None:
        return np.ones(shape, dtype=np.bool_)
    return mask_array(admissible, "admissible", shape, "[S, A]", error=ModelError)


def _own_source(admissible: BoolArray) -> IntArray:
    """Return source numbers [S, A] that give every admissible pair its own."""
    return np.where(admissible, np.cumsum(admissible).reshape(admissible.shape) - 1, -1)


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, sparse.csr_array):  # canonical, so equal matrices are stored alike
        return all(_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
