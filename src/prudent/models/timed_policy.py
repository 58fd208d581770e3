"""Policies that change with time.

Such a policy has an action for each time and state [T, S], or probabilities of actions [T, S, A]; what is done from
time T on, if anything, is a policy as :meth:`TabularModel.read_policy` reads it. One that does not change is all
``later``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._support.checks import (
    BoolArray,
    finite_array,
    first_index,
    index_array,
    non_negative_array,
    require_shape,
    require_sum_of_one,
)
from ..data.labels import Labels
from ..errors import ParameterError
from .base import TabularModel
from .transitions import Plan, cumulative_rows

__all__ = ["TimedPolicy", "final_values", "read_timed"]


class TimedPolicy(NamedTuple):
    """A policy for times 0, ..., T-1, and perhaps one for all times after them."""

    steps: npt.NDArray[Any]  # actions int64 [T, S], or probabilities float64 [T, S, A]; T may be 0
    later: npt.NDArray[Any] | None  # int64 [S] or float64 [S, A]

    @property
    def mixed(self) -> bool:
        """Whether it has probabilities of actions."""
        return self.steps.ndim == 3

    def at(self, time: int) -> npt.NDArray[Any]:
        """Return actions [S] or probabilities [S, A] at one time."""
        if time < self.steps.shape[0]:
            return np.asarray(self.steps[time])
        assert self.later is not None
        return self.later

    def plan(self) -> Plan:
        """Return the policy as kernels want it."""
        rows = self.steps if self.later is None else np.concatenate((self.steps, self.later[np.newaxis]))
        length = self.steps.shape[0] if self.later is None else 0
        if not self.mixed:
            return Plan(np.ascontiguousarray(rows), np.empty((0, 0, 0)), length)
        flat = cumulative_rows(rows.reshape(-1, rows.shape[2]))
        return Plan(np.empty((0, 0), np.int64), np.ascontiguousarray(flat.reshape(rows.shape)), length)

    def require(self, horizon: int) -> None:
        """Raise unless the policy says what to do in the first ``horizon`` steps."""
        if self.later is None and self.steps.shape[0] < horizon:
            raise ParameterError(f"policy has actions for {self.steps.shape[0]} steps, the horizon is {horizon}")


def read_timed(model: TabularModel, policy: Any, horizon: int | None = None) -> TimedPolicy:
    """Return any policy as one that may depend on time.

    That is: a Solution with a time axis; whole numbers [T, S]; probabilities [T, S, A]; a list of policies, one for
    each time, of which each is what :meth:`TabularModel.read_policy` reads; a DataArray with a dimension ``step``.
    Any other policy is the same at all times. An array [S, A] of probabilities stays one, also where T = S = A.
    """
    if getattr(policy, "horizon", None) is not None:  # a Solution with a time axis
        if (policy.states, policy.actions) != (model.states, model.actions):
            raise ParameterError("policy is a solution of a model whose states or actions have other names")
        later = None if policy.later is None else model.read_policy(policy.later)
        return TimedPolicy(_checked(model, policy.policy), later)
    if hasattr(policy, "dims") and "step" in policy.dims:
        return _listed(model, [policy.isel(step=t) for t in range(policy.sizes["step"])])
    if isinstance(policy, list | tuple) and len(policy) and _is_list_of_policies(model, policy):
        return _listed(model, list(policy))
    given = _as_array(model, policy)
    if given is not None and (given.ndim == 3 or (given.ndim == 2 and _counts_time(model, given, horizon))):
        return TimedPolicy(_checked(model, given), None)
    stationary = model.read_policy(policy)
    return TimedPolicy(np.empty((0, *stationary.shape), stationary.dtype), stationary)


def _is_list_of_policies(model: TabularModel, policy: Any) -> bool:
    """Return whether each entry is a policy of its own; rows of probabilities are not."""
    if all(model.action_labels.find(action) >= 0 for action in policy):
        return False  # actions whose names are tuples
    return all(map(_is_policy, policy))


def _is_policy(entry: Any) -> bool:
    """Return whether this is a policy by name, or an array of actions [S] or of probabilities [S, A]."""
    if hasattr(entry, "policy_names") or hasattr(entry, "items"):
        return True
    if isinstance(entry, np.ndarray):
        return entry.ndim == 2 or (entry.ndim == 1 and entry.dtype.kind != "f")
    return isinstance(entry, list | tuple) and any(isinstance(action, str) for action in entry)


def _as_array(model: TabularModel, policy: Any) -> npt.NDArray[Any] | None:
    if not isinstance(policy, list | tuple | np.ndarray) or not len(policy):
        return None
    if not isinstance(policy, np.ndarray) and all(model.action_labels.find(action) >= 0 for action in policy):
        return None
    try:
        given = np.asarray(policy)
    except ValueError:  # rows of unequal length
        return None
    return given if given.dtype.kind in "iuf" else None


def _counts_time(model: TabularModel, given: npt.NDArray[Any], horizon: int | None) -> bool:
    """Return whether an array [., .] holds an action for each time and state."""
    if given.dtype.kind == "f" or given.shape[1] != model.n_states:
        return False
    if given.shape != model.admissible.shape:
        return True
    chances = bool((given >= 0).all() and (given.sum(axis=1) == 1).all())
    if chances and horizon == given.shape[0]:
        raise ParameterError(
            f"policy has shape {given.shape}, which may be actions [T, S] or probabilities [S, A]; "
            "give probabilities as floats, or actions as a list of arrays [S]"
        )
    return not chances


def _listed(model: TabularModel, policies: list[Any]) -> TimedPolicy:
    read = []
    for time, each in enumerate(policies):
        try:
            read.append(model.read_policy(each))
        except ParameterError as fault:
            raise ParameterError(f"at time {time}: {fault}") from None
    if any(each.ndim == 2 for each in read):
        read = [each if each.ndim == 2 else model.policy_matrix(each) for each in read]
    return TimedPolicy(np.stack(read), None)


def _checked(model: TabularModel, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return actions [T, S] or probabilities [T, S, A] that the model admits."""
    n_steps, only = given.shape[0], model.admissible.argmax(axis=1)  # action of a terminal state
    if given.ndim == 2:
        require_shape(given, "policy", (n_steps, model.n_states), "[T, S]", error=ParameterError)
        actions = index_array(given, "policy", model.n_actions, ParameterError)
        actions = np.where(model.terminal, only, actions)
        _refuse_barred(model, ~model.admissible[np.arange(model.n_states), actions], actions)
        return actions
    require_shape(given, "policy", (n_steps, *model.admissible.shape), "[T, S, A]", error=ParameterError)
    chances = non_negative_array(given, "policy", ndim=3, error=ParameterError).copy()
    chances[:, model.terminal] = 0.0
    chances[:, model.terminal, only[model.terminal]] = 1.0
    _refuse_barred(model, (chances > 0.0) & ~model.admissible, chances)
    require_sum_of_one(chances, "policy", error=ParameterError)
    return np.asarray(chances / chances.sum(axis=2, keepdims=True))


def _refuse_barred(model: TabularModel, barred: BoolArray, policy: npt.NDArray[Any]) -> None:
    if barred.any():
        place = [int(i) for i in np.argwhere(barred)[0]]
        action = int(policy[tuple(place)]) if policy.ndim == 2 else place[2]
        pair = model.pair_name(place[1] * model.n_actions + action)
        raise ParameterError(f"policy{first_index(barred)} takes {pair}, which is not admissible")


def final_values(model: TabularModel, terminal_value: Any) -> Any:
    """Return what each state is worth when no step is left, float64 [S].

    ``terminal_value`` is a number for all states, values [S], or a mapping (a Series) from states to values, 0
    elsewhere. None is 0. States that were said to be terminal keep their own value where it says nothing of them.
    """
    final = model.arrival_value.copy()
    if terminal_value is None:
        return final
    if hasattr(terminal_value, "items"):
        labels: Labels = model.state_labels
        for state, value in terminal_value.items():
            name = f"terminal_value[{state!r}]"
            final[labels.index(state, "terminal_value")] = finite_array(value, name, ndim=0, error=ParameterError)
        return final
    given = finite_array(terminal_value, "terminal_value", error=ParameterError)
    if given.ndim:
        require_shape(given, "terminal_value", (model.n_states,), "[S]", error=ParameterError)
    return np.broadcast_to(given, final.shape).copy()
