"""The one reader of rows of transitions (state, action, next state), which become indices.

Tables that define models, logs that are counted, and logs that models are estimated from are read here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import PrudentError
from ..types import BoolArray, IntArray
from .columns import TableColumns
from .labels import Column, Labels, Names

END = -2  # in place of a next state: the process ends


class TransitionTable(NamedTuple):
    """Transitions [M] as indices, and the labels of their states and actions.

    Attributes
    ----------
    columns : TableColumns
        The columns that were read, also those that are not about transitions.
    states, actions : Labels
        Labels of states and actions.
    state, action, next_state : int64 [M]
        Indices; a next state of -2 is the end of the process.
    """

    columns: TableColumns
    states: Labels
    actions: Labels
    state: IntArray
    action: IntArray
    next_state: IntArray

    @classmethod
    def of(
        cls,
        columns: TableColumns,
        states: Labels | Names,
        actions: Labels | Names,
        *,
        error: type[PrudentError],
        ended: BoolArray | None = None,
        next_states: Column | None = None,
        rows: IntArray | None = None,
    ) -> TransitionTable:
        """Return the transitions in the columns ``state``, ``action`` and ``next_state``.

        Parameters
        ----------
        columns : TableColumns
            The columns of a table.
        states, actions : Labels or iterable of hashable, optional
            Labels; by default those that occur, sorted.
        error : type of PrudentError
            Raised for names that cannot be labels.
        ended : bool [M], optional
            Rows whose next state is the end of the process.
        next_states : array [M], optional
            Used in place of the column ``next_state``.
        rows : int [M], optional
            Rows to use; by default all.

        Returns
        -------
        TransitionTable
            The transitions of these rows.
        """
        state, action = columns["state"], columns["action"]
        target = columns["next_state"] if next_states is None else next_states
        if ended is not None and ended.any():
            target = np.where(ended, state, target)  # any label will do until the others are read
        if rows is not None:
            state, action, target = state[rows], action[rows], target[rows]
        if not isinstance(states, Labels):
            states = Labels.of("state", states, state, target, error=error)
        if not isinstance(actions, Labels):
            actions = Labels.of("action", actions, action, error=error)
        s = columns.indices("state", states, column=state, rows=rows)
        a = columns.indices("action", actions, column=action, rows=rows)
        t = columns.indices("next_state", states, column=target, rows=rows)
        if ended is not None:
            t[ended if rows is None else ended[rows]] = END
        return cls(columns, states, actions, s, a, t)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states and actions."""
        return self.states.size, self.actions.size

    @property
    def pair(self) -> IntArray:
        """Pair s*A + a of each row."""
        return self.state * self.actions.size + self.action
