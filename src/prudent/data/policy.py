"""The one reader of policies of tabular models.

A policy says what to do in every state, perhaps depending on the time. ``Policy.read`` accepts

- actions [S], by index or by name, and probabilities of actions [S, A];
- a mapping or a Series from states to actions, a mapping from states to mappings from actions to probabilities, a
  DataFrame with a row for each state and a column for each action, a DataArray, and a function of the state;
- actions [T, S] or probabilities [T, S, A] for T steps, a DataArray with a dimension ``step``, and a list of policies;
- an object that has a policy, such as a Solution (``prudent.types.HasPolicy``).

One rule tells the entry of a sequence or mapping apart (``entry_kind``): it is an *action*, a *row* of numbers, or
a *policy* on its own. A sequence of actions is a policy, a sequence of policies is one that depends on time, and rows
of numbers are probabilities [S, A] if they have fractions or are rows of zeros with a one, else actions [T, S].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .._support import checks
from ..errors import ParameterError
from ..types import BoolArray, FloatArray, HasPolicy, IntArray, PolicyLike
from .labels import Labels

_SHOWN = 5  # states that a message lists


class PolicySpace(Protocol):
    """States and actions that a policy is read for; a tabular model has them."""

    state_labels: Labels
    action_labels: Labels
    admissible: BoolArray  # [S, A]
    terminal: BoolArray  # [S], states without a decision


class Policy(NamedTuple):
    """Policy for times 0, ..., T-1, and perhaps one for all times after them.

    Attributes
    ----------
    steps : int64 [T, S] or float64 [T, S, A]
        Actions, or probabilities of actions, at each time. T is 0 if the policy does not depend on time.
    later : int64 [S] or float64 [S, A], optional
        Policy from time T on.

    Examples
    --------
    >>> import prudent as pr
    >>> mdp = pr.MDP([[[1, 0], [0, 1]]] * 2, reward=[1, 2], discount=0.5, states=["dry", "wet"], actions=["wait", "go"])
    >>> Policy.read({"wet": "go", "dry": "wait"}, mdp).stationary
    array([0, 1])
    >>> Policy.read([["go", "wait"], ["wait", "wait"]], mdp).steps
    array([[1, 0],
           [0, 0]])
    """

    steps: npt.NDArray[Any]
    later: npt.NDArray[Any] | None

    @classmethod
    def read(cls, policy: PolicyLike, model: PolicySpace, horizon: int | None = None) -> Policy:
        """Return any policy of a model.

        Parameters
        ----------
        policy : PolicyLike
            The policy; see the module. What it says of terminal states is ignored.
        model : PolicySpace
            The model.
        horizon : int, optional
            Number of steps in question. Integers [S, A] with T = S = ``horizon`` that are zeros and ones are refused:
            they may be actions [T, S] or probabilities.

        Returns
        -------
        Policy
            The policy by indices; probabilities sum to one.

        Raises
        ------
        ParameterError
            If something is no policy, names an unknown state or action, or takes an inadmissible action.
        """
        given: Any = policy
        if isinstance(given, HasPolicy):
            return _of_object(given, model)
        if hasattr(given, "dims"):  # a DataArray
            if "step" in given.dims:
                return _of_sequence([given.isel(step=t) for t in range(given.sizes["step"])], model)
            given = given.to_pandas()
        items = _items(given, model)
        if items is not None:
            return cls._constant(_by_state(items, model))
        array = _as_array(given, model)
        if isinstance(array, list):
            if any(entry_kind(entry, model.action_labels) == "policy" for entry in array):
                return _of_sequence(array, model)
            return cls._constant(_actions(_listed_actions(array, model), model))
        if array.ndim == 3:
            return cls(_chances(array, model), None)
        if array.ndim == 2 and not _are_chances(array, model, horizon):
            return cls(_actions(array, model), None)
        return cls._constant(_actions(array, model) if array.ndim < 2 else _chances(array, model))

    @classmethod
    def _constant(cls, policy: npt.NDArray[Any]) -> Policy:
        return cls(np.empty((0, *policy.shape), policy.dtype), policy)

    @property
    def mixed(self) -> bool:
        """Whether the policy has probabilities of actions."""
        return self.steps.ndim == 3

    @property
    def stationary(self) -> npt.NDArray[Any]:
        """Actions [S] or probabilities [S, A] of a policy that does not depend on time; others are refused."""
        if self.later is None or self.steps.shape[0]:
            message = (
                f"policy depends on time, it has {self.steps.shape[0]} steps; expected actions [S] or probabilities "
                "[S, A]"
            )
            raise ParameterError(message, code="time-dependent-policy", argument="policy", value=self.steps.shape)
        return self.later

    def weights(self, n_actions: int) -> FloatArray:
        """Return the probabilities [S, A] of a policy that does not depend on time."""
        policy = self.stationary
        return policy if self.mixed else np.eye(n_actions)[policy]

    def plan(self, horizon: int, n_actions: int) -> FloatArray:
        """Return the probabilities [T, S, A] of the first ``horizon`` steps; [1, S, A] if they are the same at all."""
        self.require(horizon)
        steps = [self.later] if not self.steps.shape[0] else [self.at(time) for time in range(horizon)]
        stacked = np.stack([np.asarray(step) for step in steps])
        return np.ascontiguousarray(stacked if self.mixed else np.eye(n_actions)[stacked])

    def at(self, time: int) -> npt.NDArray[Any]:
        """Return actions [S] or probabilities [S, A] at one time."""
        if time < self.steps.shape[0]:
            return np.asarray(self.steps[time])
        assert self.later is not None
        return self.later

    def require(self, horizon: int) -> None:
        """Raise unless the policy has actions for the first ``horizon`` steps."""
        if self.later is None and self.steps.shape[0] < horizon:
            message = f"policy has actions for {self.steps.shape[0]} steps, the horizon is {horizon}"
            raise ParameterError(message, code="policy-too-short", argument="policy", value=self.steps.shape[0])


def entry_kind(entry: Any, actions: Labels) -> str:
    """Return what an entry of a sequence or mapping is: an ``"action"``, a ``"row"`` of numbers, or a ``"policy"``.

    Examples
    --------
    >>> actions = Labels("action", ["wait", "go"], 2)
    >>> [entry_kind(entry, actions) for entry in ("go", 1, [0.5, 0.5], ["go", "wait"], {"ill": "go"})]
    ['action', 'action', 'row', 'policy', 'policy']
    """
    if actions.find(entry) >= 0:
        return "action"  # also one whose name is a tuple
    if isinstance(entry, HasPolicy | Mapping) or hasattr(entry, "items") or hasattr(entry, "dims"):
        return "policy"
    if isinstance(entry, np.ndarray):
        if not entry.ndim:
            return "action"
        return "row" if entry.ndim == 1 and entry.dtype.kind == "f" else "policy"
    if not isinstance(entry, list | tuple):
        return "action"
    numbers = all(isinstance(value, int | float | np.number) or value is None for value in entry)
    return "row" if numbers else "policy"


def named_policies(policies: Any, model: PolicySpace) -> list[tuple[Hashable, Any]]:
    """Return several policies with their names, none of them read yet.

    ``policies`` is a mapping {name: policy}, a list of policies, or one policy. A mapping from states to actions, or to
    probabilities of actions, is one policy.
    """
    message = f"policies must be a policy, a list or a dict of policies, got {policies!r}"
    if isinstance(policies, str) or not (isinstance(policies, HasPolicy) or hasattr(policies, "__iter__")):
        raise ParameterError(message, code="wrong-type", argument="policies", value=policies)
    if isinstance(policies, np.ndarray) and not policies.ndim:
        raise ParameterError(message, code="wrong-type", argument="policies", value=policies)
    if not isinstance(policies, HasPolicy) and not hasattr(policies, "__len__"):
        policies = list(policies)
    if not isinstance(policies, HasPolicy) and len(policies) == 0:
        raise ParameterError("policies holds no policy", code="empty", argument="policies")
    actions = model.action_labels
    if isinstance(policies, Mapping):
        kinds = {entry_kind(choice, actions) for choice in policies.values()}
        if kinds == {"action"} or _are_rows_by_state(policies, model):
            return [("policy", policies)]
        return list(policies.items())
    several = False
    if isinstance(policies, list | tuple):
        kinds = {entry_kind(entry, actions) for entry in policies}
        array = _as_array(policies, model)
        if isinstance(array, np.ndarray) and kinds == {"row"}:
            several = array.ndim == 2 and not _are_chances(array, model, array.shape[0])
        else:
            several = bool(kinds & {"policy", "row"})
    return [(f"policy {i}", policy) for i, policy in enumerate(policies)] if several else [("policy", policies)]


def _are_rows_by_state(policies: Mapping[Any, Any], model: PolicySpace) -> bool:
    return all(
        model.state_labels.find(state) >= 0
        and isinstance(row, Mapping)
        and all(model.action_labels.find(action) >= 0 for action in row)
        for state, row in policies.items()
    )


# -- by name -----------------------------------------------------------------------------------------------


def _items(policy: Any, model: PolicySpace) -> list[tuple[Any, Any]] | None:
    """Return the states and choices of a policy that names its states, or None if it does not."""
    if callable(policy):
        states: Iterable[Any] = model.state_labels.names
        return [(state, policy(state)) for state, ended in zip(states, model.terminal, strict=True) if not ended]
    if hasattr(policy, "columns"):  # a DataFrame
        rows = policy.fillna(0.0).to_numpy().tolist()
        chances = [dict(zip(policy.columns, row, strict=True)) for row in rows]
        return list(zip(policy.index.tolist(), chances, strict=True))
    return list(policy.items()) if hasattr(policy, "items") and hasattr(policy, "keys") else None


def _by_state(items: list[tuple[Any, Any]], model: PolicySpace) -> npt.NDArray[Any]:
    """Return actions [S], or probabilities [S, A] if some choices are mappings."""
    states, actions = model.state_labels, model.action_labels
    mixed = any(isinstance(choice, Mapping) for _, choice in items)
    chances, chosen = np.zeros(model.admissible.shape), np.zeros(states.size, dtype=np.int64)
    missing = np.ones(states.size, dtype=np.bool_)
    for state, choice in items:
        s, place = states.index(state, "a state of policy"), f"policy[{state!r}]"
        if not missing[s]:
            message = f"policy has {states.show(s)} twice"
            raise ParameterError(message, code="duplicate-name", argument="policy", state=state)
        missing[s] = False
        if model.terminal[s]:
            continue
        if not mixed:
            chosen[s] = actions.index(choice, place)
            continue
        if not isinstance(choice, Mapping):
            message = f"{place} is {choice!r}, expected probabilities of actions"
            raise ParameterError(message, code="wrong-type", argument="policy", state=state, value=choice)
        for action, chance in choice.items():
            a = actions.index(action, place)
            chances[s, a] = checks.finite_array(chance, f"{place}[{action!r}]", ndim=0, error=ParameterError)
    _refuse_missing(missing, model)
    return _chances(chances, model) if mixed else _actions(chosen, model)


def _refuse_missing(missing: BoolArray, model: PolicySpace) -> None:
    """Raise if some states [S] in which one must act have no action."""
    lost = np.flatnonzero(missing & ~model.terminal).tolist()
    if lost:
        states, more = model.state_labels, f" and {len(lost) - _SHOWN} more" if lost[_SHOWN:] else ""
        message = f"policy has no action for {', '.join(map(states.show, lost[:_SHOWN]))}{more}"
        raise ParameterError(message, code="missing-state", argument="policy", state=states.names[lost[0]])


def _of_object(policy: HasPolicy, model: PolicySpace) -> Policy:
    """Return the policy of a solution, by name where the model has other names or another order."""
    given, later = np.asarray(policy.policy), getattr(policy, "later", None)
    parts = [given, *([] if later is None else [np.asarray(later)])]
    mixed = given.dtype.kind == "f"
    names = (tuple(policy.states), tuple(policy.actions))
    if names != (model.state_labels.names, model.action_labels.names):
        parts = [_renamed(part, *names, model) for part in parts]
    parts = [_chances(part, model) if mixed else _actions(part, model) for part in parts]
    if given.ndim == 1 + mixed:
        return Policy(np.empty((0, *given.shape), parts[0].dtype), parts[0])
    return Policy(parts[0], parts[1] if later is not None else None)


def _renamed(
    policy: npt.NDArray[Any], states: tuple[Any, ...], actions: tuple[Any, ...], model: PolicySpace
) -> npt.NDArray[Any]:
    """Return a policy [..., S] or [..., S, A] over other names in the order of the model."""
    at = {model.state_labels.index(state, "a state of policy"): i for i, state in enumerate(states)}
    rows = np.array([at.get(s, -1) for s in range(model.state_labels.size)])
    _refuse_missing(rows < 0, model)
    if policy.dtype.kind != "f":
        moved = np.full(len(actions), -1)
        for a in np.unique(policy).tolist():
            moved[a] = model.action_labels.index(actions[a], "policy")
        return moved[policy[..., rows]]
    chances = np.zeros((*policy.shape[:-2], *model.admissible.shape))
    for i, name in enumerate(actions):
        if policy[..., i].any():
            chances[..., model.action_labels.index(name, "policy")] = policy[..., rows, i]
    return chances


def _of_sequence(policies: list[Any], model: PolicySpace) -> Policy:
    """Return the policy that follows one policy at each time."""
    read: list[npt.NDArray[Any]] = []
    for time, policy in enumerate(policies):
        try:
            read.append(Policy.read(policy, model).stationary)
        except ParameterError as fault:
            raise type(fault)(f"at time {time}: {fault}", code=fault.code, time=time, **fault.fields) from None
    if any(step.ndim == 2 for step in read):
        read = [step if step.ndim == 2 else np.eye(model.action_labels.size)[step] for step in read]
    return Policy(np.stack(read), None)


# -- by position -------------------------------------------------------------------------------------------


def _as_array(policy: Any, model: PolicySpace) -> npt.NDArray[Any] | list[Any]:
    """Return a policy as a numeric array, or as the list of its entries if it is none."""
    if isinstance(policy, np.ndarray) and policy.dtype.kind in "iuf":
        return policy
    try:
        entries = list(policy)
    except TypeError:
        message = f"policy must hold an action for each state, got {policy!r}"
        raise ParameterError(message, code="wrong-type", argument="policy", value=policy) from None
    if all(model.action_labels.find(entry) >= 0 for entry in entries) and not model.action_labels.numbered:
        return entries
    try:
        array = np.asarray(entries)
    except ValueError:  # rows of unequal length
        return entries
    named = array.ndim == 1 and not model.action_labels.numbered
    return entries if named or array.dtype.kind not in "iuf" or not entries else array


def _listed_actions(entries: list[Any], model: PolicySpace) -> list[Any]:
    """Return indices of actions, given by name; a number is an index, unless some names are numbers."""
    actions, size = model.action_labels, model.state_labels.size
    checks.require_length(entries, "policy", size, "state", error=ParameterError)
    numbers = any(isinstance(name, int | float) for name in actions.names)
    listed = []
    for s, action in enumerate(entries):
        index = 0 if model.terminal[s] else actions.find(action)
        if index < 0 and (isinstance(action, str) or (numbers and not actions.numbered)):
            raise actions.unknown(action, f"policy[{s}]", ParameterError)
        listed.append(action if index < 0 else index)
    return listed


def _are_chances(array: npt.NDArray[Any], model: PolicySpace, horizon: int | None) -> bool:
    """Return whether an array [., .] holds probabilities of actions, not an action for each time and state."""
    if array.dtype.kind == "f" or array.shape[1] != model.state_labels.size:
        return True
    if array.shape != model.admissible.shape:
        return False
    chances = bool((array >= 0).all() and (array.sum(axis=1) == 1).all())
    if chances and horizon == array.shape[0]:
        message = (
            f"policy has shape {array.shape}, which may be actions [T, S] or probabilities [S, A]; "
            "give probabilities as floats, or actions as a list of arrays [S]"
        )
        raise ParameterError(message, code="ambiguous-policy", argument="policy", value=array.shape)
    return chances


def _actions(policy: Any, model: PolicySpace) -> IntArray:
    """Return actions [S] or [T, S] that the model admits; those of terminal states are arbitrary."""
    size = model.state_labels.size
    try:
        given = np.asarray(policy)
    except ValueError:  # rows of unequal length
        given = np.array([None])
        checks.index_array(policy, "policy", model.action_labels.size, ParameterError)
    if given.ndim == 1:
        checks.require_length(given, "policy", size, "state", error=ParameterError)
    actions = checks.index_array(given, "policy", model.action_labels.size, ParameterError)
    expected = (*actions.shape[:-1], size)
    checks.require_shape(actions, "policy", expected, "[S]" if actions.ndim == 1 else "[T, S]", error=ParameterError)
    actions = np.where(model.terminal, model.admissible.argmax(axis=1), actions)
    _refuse_inadmissible(~model.admissible[np.arange(size), actions], actions, model)
    return actions


def _chances(policy: Any, model: PolicySpace) -> FloatArray:
    """Return probabilities [S, A] or [T, S, A] that the model admits, with sums of one."""
    chances = np.array(checks.number_array(policy, "policy", error=ParameterError))
    letters = "[S, A]" if chances.ndim == 2 else "[T, S, A]"
    expected = (*chances.shape[:-2], *model.admissible.shape)
    checks.require_shape(chances, "policy", expected, letters, error=ParameterError)
    chances[..., model.terminal, :] = 0.0
    chances[..., model.terminal, model.admissible.argmax(axis=1)[model.terminal]] = 1.0
    chances = checks.non_negative_array(chances, "policy", error=ParameterError)
    _refuse_inadmissible((chances > 0.0) & ~model.admissible, chances, model)
    checks.require_sum_of_one(chances, "policy", error=ParameterError)
    return np.asarray(chances / chances.sum(axis=-1, keepdims=True))


def _refuse_inadmissible(barred: BoolArray, policy: npt.NDArray[Any], model: PolicySpace) -> None:
    if barred.any():
        place = checks.first_place(barred)
        mixed = policy.dtype.kind == "f"
        s, a = place[-2:] if mixed else (place[-1], int(policy[place]))
        state, action = model.state_labels.show(s), model.action_labels.show(a)
        how = f"gives it the probability {policy[place]}" if mixed else f"takes {action}"
        message = f"policy{checks.first_index(barred)} {how} in {state}, where {action} is not admissible"
        fields = {"state": model.state_labels.names[s], "action": model.action_labels.names[a]}
        raise ParameterError(message, code="inadmissible-action", argument="policy", index=place, **fields)
