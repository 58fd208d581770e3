"""A problem to test agents on: a model of what they know, and the true probabilities, which they do not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from ..data.labels import Labels
from ..errors import ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..types import ArrayLike, Label


def start_index(model: UncertainMDP, start: Label) -> int:
    """Return the index of a start by name or by index, or raise if it is terminal or none of the model."""
    number = isinstance(start, int | np.integer)
    labels = Labels("start", None, model.n_states) if number else model.state_labels
    index = labels.index(start, "start")
    if model.terminal[index]:
        text = f"start is {model.state_labels.show(index)}, which is terminal"
        raise ParameterError(text, code="terminal-start", argument="start", value=index)
    return index


class _Pair(NamedTuple):
    model: UncertainMDP
    theta: FloatArray  # [B, K]


class Problem(_Pair):
    """Uncertain model with its true outcome probabilities; unpacks as ``model, theta``.

    `prudent.simulate` runs agents on it, `TabularEnv` makes it a Gymnasium environment.

    Parameters
    ----------
    model : UncertainMDP
        What agents know. A discount of 1 is for episodic simulations.
    theta : array_like
        True probabilities [B, K].
    start : hashable, default=0
        Index of the first state, or its name; a number is an index. It is not terminal.
    observed : bool, default=True
        Whether agents see the outcome of a step, or only the next state.
    layout : sequence of str, optional
        Rows of a map with one letter for each state.

    Attributes
    ----------
    model : UncertainMDP
        What agents know.
    theta : ndarray of float
        True probabilities [B, K].
    start : int
        Index of the first state.
    observed : bool
        Whether agents see outcomes.
    layout : tuple of str or None
        Rows of the map.

    Raises
    ------
    ModelError
        If `theta` does not fit the model.
    ParameterError
        If `start` or `layout` does not fit the model.

    Examples
    --------
    >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
    >>> problem = Problem(model, theta=[[0.5, 0.5], [0.1, 0.9]], start=1)
    >>> problem.mdp().dense()[1]
    array([[0.1, 0.9]])
    >>> model, theta = problem
    >>> theta.shape
    (2, 2)
    """

    start: int
    observed: bool
    layout: tuple[str, ...] | None

    def __new__(
        cls,
        model: UncertainMDP,
        theta: ArrayLike,
        start: Label = 0,
        observed: bool = True,
        layout: Sequence[str] | None = None,
    ) -> Problem:
        """Check ``theta`` against ``model``."""
        if not isinstance(model, UncertainMDP):
            text = f"model is {model!r}, expected an UncertainMDP"
            raise ParameterError(text, code="wrong-type", argument="model", value=model)
        model.mdp(theta)  # raises if theta is not one of the model
        self = super().__new__(cls, model, model.with_end(np.array(theta, dtype=np.float64)))
        self.start = start_index(model, start)
        self.observed = bool(observed)
        self.layout = None if layout is None else tuple(layout)
        if self.layout is not None and sum(map(len, self.layout)) != model.n_states:
            text = f"layout is {self.layout}, expected one letter for each of {model.n_states} states"
            raise ParameterError(text, code="wrong-shape", argument="layout", expected=model.n_states)
        return self

    def __getnewargs__(self) -> Any:
        return self.model, self.theta, self.start, self.observed, self.layout

    def mdp(self) -> MDP:
        """Return the true model.

        Returns
        -------
        MDP
            The model with the true probabilities.

        Examples
        --------
        >>> from prudent.envs import frozen_lake
        >>> frozen_lake(p_h=0.1).mdp()
        MDP(16 states, 4 actions, 200 transitions, discount 0.8)
        """
        return self.model.mdp(self.theta)
