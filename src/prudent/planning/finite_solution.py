"""What backward induction returns: values and a policy for each time, labelled by the names of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._support.checks import BoolArray, FloatArray, IntArray, whole_number
from ..data.labels import is_numbered
from ..models.mdp import MDP
from .solution import Solution

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from .problem import BayesianRiskMDP

__all__ = ["FiniteSolution"]


@dataclass(frozen=True, eq=False)
class FiniteSolution:
    """Values and a policy that depend on time, as :func:`solve` returns them for a ``horizon`` of T steps.

    ``value[t, s]`` is what the remaining T - t steps are worth in state s, discounted to time t; ``policy[t, s]`` is
    what to do there. ``value[0]`` belongs to the whole problem.

    >>> from prudent import MDP, solve
    >>> stay, go = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> mdp = MDP([stay, go], reward=[[1, 0], [3, 0]], discount=1.0, actions_first=True, actions=["stay", "go"])
    >>> plan = solve(mdp, horizon=3)
    >>> plan.value
    array([[6., 9.],
           [3., 6.],
           [1., 3.],
           [0., 0.]])
    >>> plan.policy_names[0], plan.policy_names[2]
    (('go', 'stay'), ('stay', 'stay'))
    """

    value: FloatArray  # [T + 1, S]
    policy: npt.NDArray[Any]  # [T, S] the best action; or the policy that was evaluated, also [T, S, A]
    error_bound: float  # certified: no entry of value is further than this from the truth
    converged: bool  # error_bound <= tol
    message: str  # what the bound says
    states: tuple[Any, ...] | None = None
    actions: tuple[Any, ...] | None = None
    terminal: BoolArray | None = None  # [S] True where there is nothing to decide
    later: npt.NDArray[Any] | None = None  # [S] what to do from time T on, if the process goes on
    _problem: MDP | BayesianRiskMDP | None = field(default=None, repr=False)
    _one_step: Callable[[FloatArray, int], FloatArray] | None = field(default=None, repr=False)

    @property
    def horizon(self) -> int:
        """The number of steps T."""
        return int(self.policy.shape[0])

    def policy_at(self, time: int) -> npt.NDArray[Any]:
        """Return the policy at one time, [S] or [S, A]; from T on that for later, if there is one."""
        last = self.horizon - 1 if self.later is None else None
        step = whole_number(time, "time", 0, last)
        if step < self.horizon or self.later is None:
            return np.asarray(self.policy[step])
        return self.later

    def at(self, time: int) -> Solution:
        """Return values, policy and Q at one time as a :class:`Solution`, which prints, plots and has tables.

        >>> from prudent import MDP, solve
        >>> solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), horizon=2).at(0).q
        array([[2., 3.]])
        """
        step = whole_number(time, "time", 0, self.horizon - 1)
        assert self._one_step is not None
        return Solution(
            value=self.value[step],
            policy=np.asarray(self.policy[step]),
            q=self._one_step(self.value[step + 1], step),
            residual=0.0,
            error_bound=self.error_bound,
            iterations=self.horizon - step,
            converged=self.converged,
            message=f"step {step} of {self.horizon}: {self.message}",
            states=self.states,
            actions=self.actions,
            terminal=self.terminal,
        )

    @property
    def q(self) -> FloatArray:
        """What each action is worth at each time, [T, S, A]; minus infinity where it is not admissible.

        It is worked out anew whenever it is read.
        """
        return np.stack([self.at(time).q for time in range(self.horizon)])

    @property
    def policy_names(self) -> tuple[tuple[Any, ...], ...]:
        """The policy by the names of its actions, a row for each time; None in terminal states."""
        return tuple(self._names_at(step) for step in self.policy)

    def _names_at(self, policy: npt.NDArray[Any]) -> tuple[Any, ...]:
        value = self.value[0]
        one = Solution(
            value, policy, value[:, np.newaxis], 0.0, 0.0, 0, True, "", self.states, self.actions, self.terminal
        )
        return one.policy_names

    @property
    def chosen(self) -> IntArray:
        """The action at each time in each state [T, S], as an index; the likeliest one of probabilities."""
        return self.policy if self.policy.ndim == 2 else self.policy.argmax(axis=2)

    def to_xarray(self) -> xarray.Dataset:
        """Return value (time, state) and policy (step, state) by name, the certificate as attributes.

        Probabilities of actions are (step, state, action). ``time`` runs from 0 to T, ``step`` from 0 to T - 1.
        """
        import xarray

        actions = _labels(self.actions, self.policy.shape[2] if self.policy.ndim == 3 else self._n_actions)
        by_name = self.policy.ndim == 2
        return xarray.Dataset(
            {
                "value": (("time", "state"), self.value),
                "policy": (
                    (("step", "state"), actions[self.policy]) if by_name else (("step", "state", "action"), self.policy)
                ),
            },
            coords={
                "time": np.arange(self.horizon + 1),
                "step": np.arange(self.horizon),
                "state": _labels(self.states, self.value.shape[1]),
            }
            | ({} if by_name else {"action": actions}),
            attrs={"error_bound": self.error_bound, "converged": int(self.converged), "message": self.message},
        )

    @property
    def _n_actions(self) -> int:
        return int(self.policy.max()) + 1 if self.actions is None else len(self.actions)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each time and state: time, state, action and value, by name.

        ``probability`` follows the action if the policy has probabilities; the action is then the likeliest. A terminal
        state has no action.
        """
        import pandas

        n_states = self.value.shape[1]
        names = [name for step in self.chosen for name in self._names_at(step)]
        columns: dict[str, Any] = {
            "time": np.repeat(np.arange(self.horizon), n_states),
            "state": np.tile(_labels(self.states, n_states), self.horizon),
            "action": _labels(names, len(names)),
        }
        if self.policy.ndim == 3:
            columns["probability"] = self.policy.max(axis=2).ravel()
        columns["value"] = self.value[:-1].ravel()
        return pandas.DataFrame(columns).infer_objects()

    def plot(self) -> Figure:
        """Return a figure of matplotlib: what is done when and where, and how values fall towards the end."""
        from .finite_figure import finite_figure

        return finite_figure(self)

    def __repr__(self) -> str:
        first = self.value[0]
        return (
            f"{type(self).__name__}({self.horizon} steps, {first.size} states, value at the start "
            f"{first.min():.6g} to {first.max():.6g}, {self.message})"
        )


def _labels(names: Any, size: int) -> npt.NDArray[Any]:
    """Return names as a one-dimensional array, also where each is a tuple; numbers if there are none."""
    if names is None or is_numbered(names):
        return np.arange(size)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
