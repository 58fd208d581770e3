"""What a solver returns: values, a policy and a certificate, labelled by the names of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._support.checks import BoolArray, FloatArray

if TYPE_CHECKING:
    import xarray

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """A value function with its certificate, as :func:`solve` and :class:`BayesianRiskMDP` return it."""

    value: FloatArray  # [S]
    policy: npt.NDArray[Any]  # [S] the greedy action, or the policy that was evaluated, [S] or [S, A]
    q: FloatArray  # [S, A] one step ahead of value; minus infinity where an action is not admissible
    residual: float  # largest |TV - V| where the solver stopped, V shifted to the middle of its bounds
    error_bound: float  # certified: no entry of value is further than this from the fixed point
    iterations: int  # backups of the whole model, those of a first guess included
    converged: bool  # error_bound <= tol; with a given number of sweeps: the sweeps were done
    message: str  # why the solver stopped
    states: tuple[Any, ...] | None = None
    actions: tuple[Any, ...] | None = None
    terminal: BoolArray | None = None  # [S] True where there is nothing to decide

    @property
    def policy_names(self) -> tuple[Any, ...]:
        """The policy by the names of its actions (numbers where actions have no names); None in terminal states.

        Where it chooses at random, the actions that it takes with their probabilities.
        """
        over = np.zeros(self.value.size, dtype=np.bool_) if self.terminal is None else self.terminal
        return tuple(None if ended else self._called(choice) for choice, ended in zip(self.policy, over, strict=True))

    def _called(self, choice: Any) -> Any:
        """Return the name of an action, or of those with a probability above zero."""
        if np.ndim(choice):
            return {self._called(a): float(choice[a]) for a in np.flatnonzero(choice)}
        return int(choice) if self.actions is None else self.actions[choice]

    def to_xarray(self) -> xarray.Dataset:
        """Return value, policy and q labelled by state and action, the certificate as attributes."""
        import xarray

        states = np.arange(self.value.size) if self.states is None else _labels(self.states)
        actions = np.arange(self.q.shape[1]) if self.actions is None else _labels(self.actions)
        return xarray.Dataset(
            {
                "value": ("state", self.value),
                "policy": ("state", actions[self.policy])
                if self.policy.ndim == 1
                else (("state", "action"), self.policy),
                "q": (("state", "action"), self.q),
            },
            coords={"state": states, "action": actions},
            attrs={
                "residual": self.residual,
                "error_bound": self.error_bound,
                "iterations": self.iterations,
                "converged": int(self.converged),
                "message": self.message,
            },
        )

    def __repr__(self) -> str:
        return (
            f"Solution({self.value.size} states, value {self.value.min():.6g} to {self.value.max():.6g}, "
            f"error bound {self.error_bound:.2g}, {self.message})"
        )


def _labels(names: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Return names as a one-dimensional array, also where each name is a tuple."""
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
