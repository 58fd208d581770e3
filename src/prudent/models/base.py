"""Properties that known and uncertain models share: sizes, names, admissible actions, policies and starts."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, SupportsInt

import numpy as np
import scipy

from .._support import checks
from ..data.labels import Labels
from ..data.policy import Policy, PolicySpace
from ..errors import ModelError, ParameterError
from ..types import (
    ArrayLike,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    NamesLike,
    PairsLike,
    PolicyLike,
    StartLike,
    TerminalLike,
)
from .log_summary import LogSummary

Shape = tuple[int, int]  # (S, A)


class TabularModel:
    """Base of the models with finitely many states and actions.

    Attributes
    ----------
    discount : float
        Discount factor in [0, 1].
    n_states, n_actions : int
        Numbers of states and actions.
    admissible : bool [S, A]
        Actions that a state admits.
    terminal : bool [S]
        States in which the process ends, so that there is no decision.
    terminal_value : float64 [S]
        What these states are worth, 0 elsewhere.
    arrival_value : float64 [S]
        What arriving in a state is worth when no step is left: the value of states that were declared terminal.
    state_labels, action_labels : Labels
        Labels of states and actions, which find the index of a name.
    notes : tuple of str
        What a builder did without being asked, such as dropping an action that is never used.
    """

    _compared: ClassVar[tuple[str, ...]]  # attributes that two equal models have in common

    discount: float
    n_states: int
    n_actions: int
    admissible: BoolArray
    terminal: BoolArray
    terminal_value: FloatArray
    arrival_value: FloatArray
    state_labels: Labels
    action_labels: Labels
    notes: tuple[str, ...] = ()
    _summary: LogSummary | None = None

    def _frame(
        self,
        admissible: BoolArray,
        discount: float,
        states: NamesLike,
        actions: NamesLike,
        terminal: BoolArray | None = None,
    ) -> None:
        """Check and store what all models have."""
        self.discount = checks.discount_factor(discount, one=True)
        self.arrival_value = np.zeros(admissible.shape[0])
        self.n_states, self.n_actions = admissible.shape
        self.admissible = admissible
        self.state_labels = Labels("state", states, self.n_states)
        self.action_labels = Labels("action", actions, self.n_actions)
        if not admissible.size:
            message = f"a model needs states and actions, got {self.n_states} and {self.n_actions}"
            raise ModelError(message, code="empty")
        idle = ~admissible.any(axis=1)
        if terminal is not None:
            idle &= ~terminal
            admissible = admissible & ~terminal[:, None]
        if idle.any():
            s = int(np.argmax(idle))
            hint = "" if terminal is None else ", and a state that ends the process is declared terminal"
            message = (
                f"{self.state_labels.show(s)} has no admissible action; one that absorbs needs a loop to itself{hint}"
            )
            raise ModelError(message, code="no-action", state=self.states[s])
        if not admissible.any():
            raise ModelError("every state is terminal; a model needs one to act in", code="all-terminal")
        idle = ~admissible.any(axis=0)
        if idle.any():
            a = int(np.argmax(idle))
            message = f"{self.action_labels.show(a)} is admissible in no state"
            raise ModelError(message, code="unused-action", action=self.actions[a])

    @property
    def summary(self) -> LogSummary:
        """Summary of the log of a model that ``prudent.from_log`` made; other models have none and raise."""
        if self._summary is None:
            raise ModelError("the model has no summary: it was not made by from_log", code="no-summary")
        return self._summary

    def with_summary(self, summary: LogSummary) -> Self:
        """Return the model with another summary of its log.

        Parameters
        ----------
        summary : LogSummary
            The summary.

        Returns
        -------
        MDP or UncertainMDP
            A copy that shares its arrays with this model.
        """
        twin = copy.copy(self)
        twin._summary = summary
        return twin

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Names of the states, by default 0, 1, ..., S-1."""
        return self.state_labels.names

    @property
    def actions(self) -> tuple[Hashable, ...]:
        """Names of the actions, by default 0, 1, ..., A-1."""
        return self.action_labels.names

    def state_index(self, name: Label) -> int:
        """Return the index of a state.

        Parameters
        ----------
        name : hashable
            Name of the state.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        ParameterError
            If no state has this name.

        Examples
        --------
        >>> import prudent as pr
        >>> pr.MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"]).state_index("wet")
        1
        """
        return self.state_labels.index(name)

    def action_index(self, name: Label) -> int:
        """Return the index of an action.

        Parameters
        ----------
        name : hashable
            Name of the action.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        ParameterError
            If no action has this name.

        Examples
        --------
        >>> import prudent as pr
        >>> pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"]).action_index("go")
        1
        """
        return self.action_labels.index(name)

    def read_policy(self, policy: PolicyLike) -> Any:
        """Return a policy as actions, or as probabilities of actions if it is given by such.

        Parameters
        ----------
        policy : PolicyLike
            A policy that does not depend on time; ``prudent.data.policy.Policy`` lists the forms. A mapping or
            Series must name all states that are not terminal, and no others. A list may give actions by name, and its
            numbers are indices unless some actions are named by numbers. Every number of an array is an index. What is
            said of terminal states is ignored.

        Returns
        -------
        int64 [S] or float64 [S, A]
            Indices of actions, or probabilities that sum to one.

        Raises
        ------
        ParameterError
            If it is no policy, names an unknown state or action, or takes an inadmissible action.

        Examples
        --------
        >>> import prudent as pr
        >>> pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5).read_policy([[0.5, 0.5]])
        array([[0.5, 0.5]])
        """
        return Policy.read(policy, self).stationary

    def policy_indices(self, policy: PolicyLike) -> IntArray:
        """Return a deterministic policy as indices of actions.

        Parameters
        ----------
        policy : PolicyLike
            One admissible action for each state; see ``read_policy``.

        Returns
        -------
        int64 [S]
            Indices of actions.

        Raises
        ------
        ParameterError
            If it is no such policy.

        Examples
        --------
        >>> import prudent as pr
        >>> stay_or_go, names = [[[1, 0], [0, 1]]] * 2, {"states": ["dry", "wet"], "actions": ["wait", "go"]}
        >>> mdp = pr.MDP(stay_or_go, reward=[1, 2], discount=0.5, **names)
        >>> mdp.policy_indices({"wet": "go", "dry": "wait"})
        array([0, 1])
        """
        actions: IntArray = self.read_policy(policy)
        if actions.ndim != 1:
            message = f"policy has probabilities of actions {actions.shape}, expected an action for each state"
            raise ParameterError(message, code="stochastic-policy", argument="policy", value=actions.shape)
        return actions

    def policy_matrix(self, policy: PolicyLike) -> FloatArray:
        """Return a policy as probabilities of actions.

        Parameters
        ----------
        policy : PolicyLike
            An action for each state, or probabilities of actions; see ``read_policy``. In a mapping or DataFrame,
            actions that are missing (or NaN) have probability zero.

        Returns
        -------
        float64 [S, A]
            Probabilities, rows that sum to one.

        Raises
        ------
        ParameterError
            If it is no policy of this model.

        Examples
        --------
        >>> import prudent as pr
        >>> mdp = pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, actions=["wait", "go"])
        >>> mdp.policy_matrix({0: {"wait": 0.25, "go": 0.75}}), mdp.policy_matrix(["go"])
        (array([[0.25, 0.75]]), array([[0., 1.]]))
        """
        return Policy.read(policy, self).weights(self.n_actions)

    def start_distribution(self, start: StartLike = None) -> FloatArray:
        """Return the distribution of the first state.

        Parameters
        ----------
        start : StartLike
            The name of a state, a mapping from names to probabilities, or probabilities [S]. None is uniform over the
            states that are not terminal.

        Returns
        -------
        float64 [S]
            Probabilities.

        Raises
        ------
        ParameterError
            If a state is unknown or terminal, or the probabilities do not sum to one.

        Examples
        --------
        >>> import prudent as pr
        >>> mdp = pr.MDP([[[1, 0]], [[0, 1]]], reward=[1, 2], discount=0.5, states=["dry", "wet"])
        >>> mdp.start_distribution("wet"), mdp.start_distribution({"dry": 0.25, "wet": 0.75})
        (array([0., 1.]), array([0.25, 0.75]))
        """
        if start is None:
            if self.terminal.all():
                message = "start must be given: every state is terminal"
                raise ParameterError(message, code="missing-argument", argument="start")
            return np.where(self.terminal, 0.0, 1.0 / np.count_nonzero(~self.terminal))
        chances = np.zeros(self.n_states)
        if hasattr(start, "items"):  # a mapping or a pandas Series
            for name, chance in start.items():
                chances[self.state_labels.index(name, "start")] = checks.finite_array(
                    chance, f"start[{name!r}]", ndim=0, error=ParameterError
                )
        elif self.state_labels.find(start) >= 0 or not (isinstance(start, (list, tuple)) or np.ndim(start)):  # type: ignore[arg-type]
            chances[self.state_labels.index(start, "start")] = 1.0
        else:
            chances = checks.non_negative_array(start, "start", ndim=1, error=ParameterError).copy()
            checks.require_shape(chances, "start", (self.n_states,), "[S]", error=ParameterError)
        checks.refuse(chances < 0.0, chances, "start", "a probability", error=ParameterError, code="negative")
        checks.require_sum_of_one(chances, "start", error=ParameterError)
        ended = self.terminal & (chances > 0.0)
        if ended.any():
            s = int(np.argmax(ended))
            message = f"start has {self.state_labels.show(s)}, which is terminal: nothing happens there"
            raise ParameterError(message, code="terminal-start", argument="start", state=self.states[s])
        return chances

    def final_values(self, terminal_value: ArrayLike | Mapping[Label, float] | None) -> FloatArray:
        """Return what each state is worth when no step is left.

        Parameters
        ----------
        terminal_value : array_like or mapping, optional
            A number for all states, values [S], or a mapping (or Series) from states to values. States that a mapping
            does not name keep ``arrival_value``, which is also the default.

        Returns
        -------
        float64 [S]
            Values.
        """
        final = self.arrival_value.copy()
        if terminal_value is None:
            return final
        if hasattr(terminal_value, "items"):
            for state, value in terminal_value.items():
                s = self.state_labels.index(state, "terminal_value")
                final[s] = checks.finite_array(value, f"terminal_value[{state!r}]", ndim=0, error=ParameterError)
            return final
        given = checks.finite_array(terminal_value, "terminal_value", error=ParameterError)
        if given.ndim:
            checks.require_shape(given, "terminal_value", (self.n_states,), "[S]", error=ParameterError)
        return np.broadcast_to(given, final.shape).copy()

    def without(self, exclude: PairsLike) -> Self:
        """Return the model with fewer admissible actions.

        Parameters
        ----------
        exclude : PairsLike
            What must not be done: a mapping from states to an action or a list of actions, or a list of pairs (state,
            action). Pairs that are not admissible anyway, and those of terminal states, may be named.

        Returns
        -------
        MDP or UncertainMDP
            A copy that shares its arrays with this model; sources and their numbers are the same.

        Raises
        ------
        ParameterError
            If a state or action is unknown, or a state is left without an action.

        Examples
        --------
        >>> import prudent as pr
        >>> mdp = pr.MDP([[[1], [1]]], reward=[[1, 2]], discount=0.5, states=["ill"], actions=["wait", "go"])
        >>> mdp.without({"ill": "go"}).admissible
        array([[ True, False]])
        """
        barred = read_pairs(exclude, self, "exclude") & ~self.terminal[:, np.newaxis]
        twin = copy.copy(self)
        twin.admissible = self.admissible & ~barred
        idle = ~twin.admissible.any(axis=1)
        if idle.any():
            s = int(np.argmax(idle))
            message = (
                f"exclude leaves no action in {self.state_labels.show(s)}; keep one of those that the model has there, "
                "or declare the state terminal if nothing is to be decided there"
            )
            raise ParameterError(message, code="no-action", argument="exclude", state=self.states[s])
        return twin

    def with_discount(self, discount: float) -> Self:
        """Return the model with another discount.

        Parameters
        ----------
        discount : float
            Discount factor in [0, 1].

        Returns
        -------
        MDP or UncertainMDP
            A copy that shares its arrays with this model.

        Raises
        ------
        ParameterError
            If `discount` is not in [0, 1].

        Examples
        --------
        >>> import prudent as pr
        >>> pr.MDP([[[1]]], reward=[[1]], discount=0.5).with_discount(1).discount
        1.0
        """
        twin = copy.copy(self)
        twin.discount = checks.discount_factor(discount, one=True)
        return twin

    def require_discounted(self, who: str) -> None:
        """Raise if the discount is 1, which ``who`` (in the message: "agents") cannot handle."""
        if self.discount == 1.0:
            message = f"discount must be below 1 for {who}, the model has discount 1.0"
            raise ParameterError(message, code="discount-range", argument="discount", value=1.0)

    def pair_name(self, pair: SupportsInt) -> str:
        """Format the pair s*A + a for messages: ``state 3, action 'go'``."""
        s, a = divmod(int(pair), self.n_actions)
        return f"{self.state_labels.show(s)}, {self.action_labels.show(a)}"

    def pair_fields(self, pair: SupportsInt) -> dict[str, Hashable]:
        """Return the names of the pair s*A + a as fields of an error."""
        s, a = divmod(int(pair), self.n_actions)
        return {"state": self.states[s], "action": self.actions[a]}

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


def admissible_mask(admissible: ArrayLike | None, shape: Shape) -> BoolArray:
    """Return the admissible pairs as bool [S, A]; None stands for all."""
    if admissible is None:
        return np.ones(shape, dtype=np.bool_)
    return checks.mask_array(admissible, "admissible", shape, "[S, A]", error=ModelError)


def read_pairs(pairs: PairsLike, model: PolicySpace, name: str) -> BoolArray:
    """Return pairs of states and actions as bool [S, A].

    ``pairs`` is a mapping from states to an action or to several, or pairs (state, action); None is no pair at all.
    """
    mask = np.zeros(model.admissible.shape, dtype=np.bool_)
    if pairs is None:
        return mask
    given: Any = pairs
    one = isinstance(given, str | bytes) or (isinstance(given, np.ndarray) and not given.ndim)
    if one or not (hasattr(given, "items") or isinstance(given, Iterable)):
        message = f"{name} must be a mapping from states to actions, or pairs (state, action), got {given!r}"
        raise ParameterError(message, code="wrong-type", argument=name, value=given)
    listed: list[tuple[Any, Any]] = []
    if hasattr(given, "items"):
        for state, actions in given.items():
            several = isinstance(actions, list | tuple | set | frozenset) and model.action_labels.find(actions) < 0
            listed += [(state, action) for action in (actions if several else [actions])]
    else:
        for pair in given:
            if not isinstance(pair, tuple | list | np.ndarray) or getattr(pair, "ndim", 1) < 1 or len(pair) != 2:
                message = f"{name} has {pair!r}, expected a pair (state, action)"
                raise ParameterError(message, code="wrong-type", argument=name, value=pair)
            listed.append((pair[0], pair[1]))
    for state, action in listed:
        s = model.state_labels.index(state, f"a state of {name}")
        mask[s, model.action_labels.index(action, f"{name}[{state!r}]")] = True
    return mask


def held(values: Any) -> Any:
    """Return ``values``, an iterator as a list, so that it can be read twice."""
    return list(values) if isinstance(values, Iterator) else values


def read_terminal(terminal: TerminalLike, labels: Labels, name: str = "terminal") -> tuple[BoolArray, FloatArray]:
    """Return which states are terminal, bool [S], and what they are worth [S], 0 elsewhere.

    ``terminal`` is a mapping from states to values, a list of states, or a mask bool [S]; None is no state at all.
    """
    mask, values = np.zeros(labels.size, dtype=np.bool_), np.zeros(labels.size)
    if terminal is None:
        return mask, values
    if isinstance(terminal, np.ndarray) and terminal.dtype == np.bool_:
        return checks.mask_array(terminal, name, mask.shape, "[S]", error=ModelError), values
    given: Any = terminal
    if isinstance(terminal, str) or (
        checks.axes_of(given) == 0 and not isinstance(terminal, Mapping | set | frozenset)
    ):
        given = [terminal]  # one state
    for state, value in given.items() if hasattr(given, "items") else ((state, 0.0) for state in given):
        s = labels.index(state, name, ModelError)
        mask[s], values[s] = True, checks.finite_array(value, f"{name}[{state!r}]", ndim=0, error=ModelError)
    return mask, values


def plural(count: int, noun: str) -> str:
    """Return ``1 state``, ``2 states``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple) and hasattr(one, "_fields"):
        return all(map(_equal, one, other))
    if isinstance(one, scipy.sparse.csr_array):  # canonical, so equal matrices are stored alike
        return all(_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data"))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
