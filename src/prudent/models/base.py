"""What known and uncertain models share: sizes, names, admissible actions, and how a policy is read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, ClassVar, Self, SupportsInt

import numpy as np
from scipy import sparse

from .._support.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    discount_factor,
    finite_array,
    index_array,
    mask_array,
    non_negative_array,
    number_array,
    refuse,
    require_shape,
    require_sum_of_one,
)
from ..data.labels import Labels, Names
from ..errors import ModelError, ParameterError

Shape = tuple[int, int]  # (S, A)


class TabularModel:
    """States, actions, which actions a state admits, and the discount."""

    _compared: ClassVar[tuple[str, ...]]  # what two equal models have in common

    discount: float
    n_states: int
    n_actions: int
    admissible: BoolArray  # [S, A]
    terminal: BoolArray  # [S] True where there is nothing to decide: the process ends there
    terminal_value: FloatArray  # [S] what that is worth, 0 elsewhere
    arrival_value: FloatArray  # [S] what arriving is worth with no step left: of states that were said to be terminal
    state_labels: Labels  # how logs and messages call the states; for users there is ``states``
    action_labels: Labels
    notes: tuple[str, ...] = ()  # what a builder did unasked, such as dropping an action that is never used
    summary: Any = None  # the LogSummary of a model made by ``from_log``

    @classmethod
    def _noted(cls, arguments: dict[str, Any], discount: Any, make: Callable[..., Self] | None = None) -> Self:
        """Return the model of a builder's arguments, with its notes; ``make`` is by default the constructor."""
        notes = arguments.pop("notes", ())
        build: Any = make or cls
        model: Self = build(**arguments, discount=discount)
        model.notes = notes
        return model

    def _frame(
        self, admissible: BoolArray, discount: Any, states: Names, actions: Names, terminal: BoolArray | None = None
    ) -> None:
        self.discount = discount_factor(discount, one=True)
        self.arrival_value = np.zeros(admissible.shape[0])
        self.n_states, self.n_actions = admissible.shape
        self.admissible = admissible
        self.state_labels = Labels("state", states, self.n_states)
        self.action_labels = Labels("action", actions, self.n_actions)
        if not admissible.size:
            raise ModelError(f"a model needs states and actions, got {self.n_states} and {self.n_actions}")
        idle = ~admissible.any(axis=1)
        if terminal is not None:
            idle &= ~terminal
            admissible = admissible & ~terminal[:, None]
        if idle.any():
            state = self.state_labels.show(int(np.argmax(idle)))
            hint = "" if terminal is None else ", one that ends the process is terminal"
            raise ModelError(f"{state} has no admissible action; a state that absorbs needs a loop to itself{hint}")
        if not admissible.any():
            raise ModelError("every state is terminal; a model needs one to act in")
        idle = ~admissible.any(axis=0)
        if idle.any():
            raise ModelError(f"{self.action_labels.show(int(np.argmax(idle)))} is admissible in no state")

    @property
    def states(self) -> tuple[Hashable, ...] | None:
        """The names of the states, or None where they are just 0, 1, ..., S-1."""
        return self.state_labels.names

    @property
    def actions(self) -> tuple[Hashable, ...] | None:
        """The names of the actions, or None where they are just 0, 1, ..., A-1."""
        return self.action_labels.names

    def state_index(self, name: Hashable) -> int:
        """Return the index of a state by its name (by its number, if states have no names).

        >>> import prudent as pr
        >>> pr.MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"]).state_index("wet")
        1
        """
        return self.state_labels.index(name)

    def action_index(self, name: Hashable) -> int:
        """Return the index of an action by its name (by its number, if actions have no names).

        >>> import prudent as pr
        >>> pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"]).action_index("go")
        1
        """
        return self.action_labels.index(name)

    def policy_indices(self, policy: Any) -> IntArray:
        """Return a policy, one admissible action for each state, as action indices int64 [S].

        A mapping or a pandas Series goes by the names of states and actions (by numbers, where they have none), and
        needs all states but the terminal ones, and no others. A ``Solution`` stands for its policy. A list goes by the
        order of the states; it may give actions by name, and numbers are indices if no action has a number for a name.
        Every number in an array is an index.

        >>> import prudent as pr
        >>> stay_or_go, names = [[[1, 0], [0, 1]]] * 2, {"states": ["dry", "wet"], "actions": ["wait", "go"]}
        >>> mdp = pr.MDP(stay_or_go, reward=[1, 2], discount=0.5, **names)
        >>> mdp.policy_indices({"wet": "go", "dry": "wait"})
        array([0, 1])
        """
        given: Any = self._by_state(policy)
        if given is None:
            try:
                given = policy if isinstance(policy, np.ndarray) else list(policy)
                size = len(given)
            except TypeError:
                raise ParameterError(f"policy must hold an action for each state, got {policy!r}") from None
            if size != self.n_states:
                raise ParameterError(f"policy has {size} actions, the model has {self.n_states} states")
            if self.actions is not None and not (isinstance(given, np.ndarray) and given.dtype.kind in "iu"):
                given = [self._named_action(action, f"policy[{s}]") for s, action in enumerate(given)]
        actions = index_array(given, "policy", self.n_actions, ParameterError)
        require_shape(actions, "policy", (self.n_states,), "[S]", error=ParameterError)
        actions = np.where(self.terminal, self.admissible.argmax(axis=1), actions)  # there is nothing to decide
        barred = ~self.admissible[np.arange(self.n_states), actions]
        if barred.any():
            s = int(np.argmax(barred))
            state = self.state_labels.show(s)
            called = "" if self.actions is None else f", which {self.actions[actions[s]]!r} is not"
            raise ParameterError(f"policy[{s}] is {actions[s]}, expected an admissible action of {state}{called}")
        return actions

    def _by_state(self, policy: Any) -> list[int] | None:
        """Return the action indices of a policy that names its states, or None if it does not."""
        if _is_solution(policy):
            if policy.states == self.states and policy.actions == self.actions:
                return list(policy.policy)
            states = range(len(policy.policy)) if policy.states is None else policy.states
            items: Any = zip(states, policy.policy_names, strict=True)
        elif hasattr(policy, "to_series"):  # a DataArray, such as the policy of Solution.to_xarray
            items = policy.to_series().items()
        elif hasattr(policy, "keys") and hasattr(policy, "items") and np.ndim(policy) < 2:  # a mapping or a Series
            items = policy.items()
        else:
            return None
        found = [-1] * self.n_states
        for state, action in items:
            s = self.state_labels.index(state, "a state of policy")
            if found[s] >= 0:
                raise ParameterError(f"policy has {self.state_labels.show(s)} twice")
            if not self.terminal[s]:
                found[s] = self.action_labels.index(action, f"policy[{state!r}]")
        found = [0 if a < 0 and self.terminal[s] else a for s, a in enumerate(found)]  # there is nothing to decide
        missing = [self.state_labels.show(s) for s, a in enumerate(found) if a < 0]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise ParameterError(f"policy has no action for {', '.join(missing[:5])}{more}")
        return found

    def start_distribution(self, start: Any = None) -> FloatArray:
        """Return where the process starts, as probabilities float64 [S].

        ``start`` is the name of a state (its number, if states have no names), a mapping from names to probabilities,
        or probabilities [S]. None is uniform over the states that are not terminal. No start is terminal.

        >>> import prudent as pr
        >>> mdp = pr.MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"])
        >>> mdp.start_distribution("wet"), mdp.start_distribution({"dry": 0.25, "wet": 0.75})
        (array([0., 1.]), array([0.25, 0.75]))
        """
        if start is None:
            if self.terminal.all():
                raise ParameterError("start must be given: every state is terminal")
            return np.where(self.terminal, 0.0, 1.0 / np.count_nonzero(~self.terminal))
        chances = np.zeros(self.n_states)
        if hasattr(start, "items"):  # a mapping or a pandas Series
            for name, chance in start.items():
                chances[self.state_labels.index(name, "start")] = finite_array(
                    chance, f"start[{name!r}]", ndim=0, error=ParameterError
                )
        elif self.state_labels.find(start) >= 0 or np.ndim(start) == 0:
            chances[self.state_labels.index(start, "start")] = 1.0
        else:
            chances = non_negative_array(start, "start", ndim=1, error=ParameterError).copy()
            require_shape(chances, "start", (self.n_states,), "[S]", error=ParameterError)
        refuse(chances < 0.0, chances, "start", "a probability", error=ParameterError)
        require_sum_of_one(chances, "start", error=ParameterError)
        ended = self.terminal & (chances > 0.0)
        if ended.any():
            state = self.state_labels.show(int(np.argmax(ended)))
            raise ParameterError(f"start has {state}, which is terminal: nothing happens there")
        return chances

    def _named_action(self, action: Any, name: str) -> Any:
        """Return the index of a name; a number is left to be read as an index, unless some names are numbers."""
        index = self.action_labels.find(action)
        numbered = any(isinstance(each, int | float) for each in self.actions or ())
        if index < 0 and (numbered or isinstance(action, str)):
            return self.action_labels.index(action, name)
        return action if index < 0 else index

    def policy_matrix(self, policy: Any) -> FloatArray:
        """Return a policy as probabilities of actions, float64 [S, A], rows that sum to one.

        A stochastic policy is an array [S, A], a DataFrame with a row for each state and a column for each action, or a
        mapping {state: {action: probability}}, by name; what is not mentioned (or NaN, in a DataFrame) has probability
        zero. Any other policy is one action for each state, see :meth:`policy_indices`. What is said of terminal states
        is not looked at.

        >>> import prudent as pr
        >>> mdp = pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"])
        >>> mdp.policy_matrix({0: {"wait": 0.25, "go": 0.75}}), mdp.policy_matrix(["go"])
        (array([[0.25, 0.75]]), array([[0., 1.]]))
        """
        read = self.read_policy(policy)
        if read.ndim == 2:
            return read
        matrix = np.zeros(self.admissible.shape)
        matrix[np.arange(self.n_states), read] = 1.0
        return matrix

    def read_policy(self, policy: Any) -> Any:
        """Return a policy as action indices int64 [S], or probabilities float64 [S, A] if it is given by such.

        >>> import prudent as pr
        >>> pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5).read_policy([[0.5, 0.5]])
        array([[0.5, 0.5]])
        """
        if _is_solution(policy) and policy.policy.ndim == 2:
            states, actions = (
                range(size) if names is None else names
                for names, size in zip((policy.states, policy.actions), policy.policy.shape, strict=True)
            )
            policy = {
                s: dict(zip(actions, row, strict=True)) for s, row in zip(states, policy.policy.tolist(), strict=True)
            }
        only = self.admissible.argmax(axis=1)  # action of a terminal state
        if not self._is_stochastic(policy):
            if isinstance(policy, list | tuple) and len(policy) == self.n_states and self.terminal.any():
                policy = [int(only[s]) if self.terminal[s] else action for s, action in enumerate(policy)]
            return self.policy_indices(policy)
        if hasattr(policy, "columns"):  # a DataFrame
            rows = zip(policy.index.tolist(), policy.fillna(0.0).to_numpy().tolist(), strict=True)
            policy = {state: dict(zip(policy.columns, row, strict=True)) for state, row in rows}
        if hasattr(policy, "items"):
            matrix = self._named_chances(policy)
        else:
            matrix = np.array(number_array(policy, "policy", error=ParameterError))
            require_shape(matrix, "policy", self.admissible.shape, "[S, A]", error=ParameterError)
        matrix[self.terminal] = 0.0
        matrix[self.terminal, only[self.terminal]] = 1.0
        matrix = non_negative_array(matrix, "policy", ndim=2, error=ParameterError)
        barred = (matrix > 0.0) & ~self.admissible
        if barred.any():
            pair = self.pair_name(np.argmax(barred))
            raise ParameterError(f"policy gives {pair} the probability {matrix[barred][0]}, but it is not admissible")
        require_sum_of_one(matrix, "policy", error=ParameterError)
        return matrix / matrix.sum(axis=1, keepdims=True)

    def _named_chances(self, policy: Any) -> FloatArray:
        """Return {state: {action: probability}} as [S, A]."""
        matrix = np.zeros(self.admissible.shape)
        missing = ~self.terminal
        for state, row in policy.items():
            s = self.state_labels.index(state, "policy")
            missing[s] = False
            if self.terminal[s]:
                continue
            if not hasattr(row, "items"):
                raise ParameterError(f"policy[{state!r}] is {row!r}, expected probabilities of actions")
            for action, chance in row.items():
                a = self.action_labels.index(action, f"policy[{state!r}]")
                name = f"policy[{state!r}][{action!r}]"
                matrix[s, a] = finite_array(chance, name, ndim=0, error=ParameterError)
        if missing.any():
            raise ParameterError(f"policy says nothing about {self.state_labels.show(int(np.argmax(missing)))}")
        return matrix

    def _is_stochastic(self, policy: Any) -> bool:
        if hasattr(policy, "columns"):
            return True
        if isinstance(policy, Mapping):
            return any(isinstance(row, Mapping) for row in policy.values())
        if isinstance(policy, list | tuple) and all(self.action_labels.find(action) >= 0 for action in policy):
            return False  # actions whose names are tuples
        try:
            return not hasattr(policy, "items") and np.ndim(policy) == 2
        except ValueError:  # rows of unequal length
            return False

    def require_discounted(self, who: str) -> None:
        """Raise if nothing is discounted, which ``who`` (in a message, "agents") cannot do with."""
        if self.discount == 1.0:
            raise ParameterError(f"discount must be below 1 for {who}, the model has discount 1.0")

    def pair_name(self, pair: SupportsInt) -> str:
        """Return how messages call the pair s*A + a: ``state 3, action 'go'``."""
        s, a = divmod(int(pair), self.n_actions)
        return f"{self.state_labels.show(s)}, {self.action_labels.show(a)}"

    def _sizes(self) -> list[str]:
        """Return the parts of a repr that both models have."""
        parts = [plural(self.n_states, "state"), plural(self.n_actions, "action")]
        if self.terminal.any():
            parts[0] += f" ({np.count_nonzero(self.terminal)} terminal)"
        barred = ~(self.admissible | self.terminal[:, None])
        if barred.any():
            parts.append(plural(int(barred.sum()), "inadmissible pair"))
        return parts

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can change


def _is_solution(policy: Any) -> bool:
    """Return whether this is a ``Solution``, which models know nothing of."""
    return hasattr(policy, "policy_names") and hasattr(policy, "states")


def admissible_mask(admissible: Any, shape: Shape) -> BoolArray:
    """Return the admissible pairs as bool [S, A]; None stands for all."""
    if admissible is None:
        return np.ones(shape, dtype=np.bool_)
    return mask_array(admissible, "admissible", shape, "[S, A]", error=ModelError)


def held(values: Any) -> Any:
    """Return ``values``, an iterator as a list: what is read twice must not be used up."""
    return list(values) if isinstance(values, Iterator) else values


def read_terminal(terminal: Any, labels: Labels, name: str = "terminal") -> tuple[BoolArray, FloatArray]:
    """Return which states are terminal, bool [S], and what they are worth [S], 0 elsewhere.

    ``terminal`` is a mapping from states to values, a list of states, or a mask bool [S]; None is no state at all.
    """
    mask, values = np.zeros(labels.size, dtype=np.bool_), np.zeros(labels.size)
    if terminal is None:
        return mask, values
    if isinstance(terminal, np.ndarray) and terminal.dtype == np.bool_:
        return mask_array(terminal, name, mask.shape, "[S]", error=ModelError), values
    if isinstance(terminal, str) or (np.ndim(terminal) == 0 and not isinstance(terminal, Mapping | set | frozenset)):
        terminal = [terminal]  # one state
    given = terminal.items() if hasattr(terminal, "items") else ((state, 0.0) for state in terminal)
    for state, value in given:
        s = labels.index(state, name, ModelError)
        mask[s], values[s] = True, finite_array(value, f"{name}[{state!r}]", ndim=0, error=ModelError)
    return mask, values


def plural(count: int, noun: str) -> str:
    """Return ``1 state``, ``2 states``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple) and hasattr(one, "_fields"):
        return all(map(_equal, one, other))
    if isinstance(one, sparse.csr_array):  # canonical, so equal matrices are stored alike
        return all(_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
