"""A problem to test agents on: a model and the truth about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from ..errors import ParameterError
from ..models.known import MDP
from ..models.uncertain import UncertainMDP

__all__ = ["Problem"]


class _Pair(NamedTuple):
    model: UncertainMDP
    theta: FloatArray  # [B, K]


class Problem(_Pair):
    """A model with its true outcome probabilities; unpacks as ``model, theta``.

    ``start`` is the index of the first state; ``observed`` says whether the outcome of a step is seen or only the
    next state; ``layout`` are the rows of a map, one letter for each state, for problems that live on one.

    >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    >>> problem = Problem(model, [[0.5, 0.5], [0.1, 0.9]])
    >>> problem.mdp().dense()[1]
    array([[0.1, 0.9]])
    """

    start: int
    observed: bool
    layout: tuple[str, ...] | None

    def __new__(
        cls,
        model: UncertainMDP,
        theta: Any,
        start: int = 0,
        observed: bool = True,
        layout: tuple[str, ...] | None = None,
    ) -> Problem:
        """Check ``theta`` against ``model``."""
        rows = np.array(theta, dtype=np.float64)
        model.mdp(rows)  # raises if theta is not that of the model
        self = super().__new__(cls, model, rows)
        if not 0 <= start < model.n_states:
            raise ParameterError(f"start is {start}, expected a state from 0 to {model.n_states - 1}")
        self.start, self.observed, self.layout = int(start), bool(observed), layout
        return self

    def mdp(self) -> MDP:
        """Return the true :class:`prudent.MDP`."""
        return self.model.mdp(self.theta)
