"""Reads transitions of one uncertain model: complete logs, and single steps of agents.

A log becomes int64 [M, 4] with rows (state, action, next_state, outcome), all indices; the outcome is -1 where it was
not observed, the next state -2 where the process ended. Rows that cannot have happened are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._support.checks import flag
from ..data.labels import Column, Labels, is_gap
from ..data.source import TableSource
from ..data.transitions import TransitionTable
from ..errors import DataError, PrudentError
from ..types import BoolArray, FloatArray, IntArray, TableLike
from .entries import END, NONE
from .outcomes import OutcomeModel
from .transitions import first_impossible


class LogReader:
    """Reader of the transitions of one model, by name, or with ``indices`` by index only.

    Rows that are wrong raise a ``DataError``, whether they come as a log or one by one.
    """

    def __init__(self, model: OutcomeModel, indices: bool) -> None:
        self._model, self._indices = model, flag(indices, "indices")
        self.states, self.actions = model.state_labels, model.action_labels
        if indices:
            self.states, self.actions = (Labels(axis.what, None, axis.size) for axis in (self.states, self.actions))
        self._any_outcome = [Labels("outcome", None, model.n_outcomes)]
        self._row = np.empty((1, 4), dtype=np.int64)

    @cached_property
    def _outcomes(self) -> Sequence[Labels] | None:
        """Labels of the outcomes of each source, which only a log with outcomes needs."""
        return None if self._indices else self._model.naming.outcomes

    def rows(
        self, log: TableLike, counts: FloatArray, columns: Mapping[str, Any] | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return a log [M, 4], whose rows are possible where ``counts`` [B, K] are positive, and their counts [M]."""
        needed = ("state", "action", "next_state")
        held = TableSource(log, "log").read(needed, ("outcome",), named=("count",), columns=columns)
        ended = self._ended(held["next_state"])
        table = TransitionTable.of(held, self.states, self.actions, error=DataError, ended=ended)
        rows = np.full((held.size, 4), -1, dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = table.state, table.action, table.next_state
        b = self._model.source[table.state, table.action]
        for wrong in (self._model.terminal[table.state], b < 0):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise self._refusal(rows[row], partial(held.fault, row))
        if "outcome" in held:
            rows[:, 3] = held.outcomes("outcome", self._outcomes or self._any_outcome, b, gaps=True)
        impossible = first_impossible(self._model.entries, counts, rows)
        if impossible >= 0:
            raise self._refusal(rows[impossible], partial(held.fault, impossible))
        return rows, held.counts()

    def row(
        self, state: Hashable, action: Hashable, next_state: Hashable, outcome: Hashable, counts: FloatArray
    ) -> IntArray:
        """Return one transition as a log [1, 4]; the array is overwritten by the next call.

        This does the same as ``rows`` without its tables, which would take longer than the decision of an agent.
        """
        row = self._row[0]
        s = row[0] = self.states.index(state, "state", DataError)
        a = row[1] = self.actions.index(action, "action", DataError)
        over = self._model.ends and self.states.find(next_state) < 0 and _is_end(next_state)
        row[2] = END if over else self.states.index(next_state, "next_state", DataError)
        row[3] = -1
        b, terminal = self._model.source[s, a], self._model.terminal[s]
        if outcome is not None and b >= 0 and not terminal:
            labels = self._any_outcome[0] if self._outcomes is None else self._outcomes[b]
            row[3] = labels.find(outcome)
            if row[3] < 0 and not is_gap(outcome):
                raise labels.unknown(outcome, "outcome", DataError)
        if terminal or b < 0 or first_impossible(self._model.entries, counts, self._row) >= 0:
            raise self._refusal(row, DataError)
        return self._row

    def _ended(self, column: Column) -> BoolArray:
        """Return which next states say that the process ended: empty cells and -2, unless a state has that name."""
        if not self._model.ends:
            return np.zeros(column.size, dtype=np.bool_)
        if self.states.numbered and column.dtype.kind in "iuf":
            return (column == END) | (column != column)
        return np.fromiter((self.states.find(v) < 0 and _is_end(v) for v in column.tolist()), np.bool_, column.size)

    def _refusal(self, row: IntArray, error: Callable[..., PrudentError]) -> PrudentError:
        """Return the error that says why a row cannot have happened."""
        model = self._model
        s, a, target, k = row.tolist()
        pair = s * model.n_actions + a
        name, fields = model.pair_name(pair), model.pair_fields(pair)
        if model.terminal[s]:
            message = f"{model.state_labels.show(s)} is terminal, nothing follows it"
            return error(message, code="terminal-state", **fields)
        if model.source[s, a] < 0:
            return error(f"{name} is not admissible", code="inadmissible-action", **fields)
        return error(f"{name} {self._why_impossible(pair, target, k)}", code="impossible-transition", **fields)

    def _why_impossible(self, pair: int, target: int, k: int) -> str:
        arrival, leads = self._arrival(target), self._model.leads(pair)
        if k < 0:
            if (leads == target).any():
                return f"leads to {arrival} only by outcomes whose prior count is 0"
            return f"never leads to {arrival}"
        names = self._model.naming.outcomes
        outcome = f"outcome {k}" if names is None else names[int(self._model.entries.source[pair])].show(k)
        if leads[k] == NONE:
            return f"has no {outcome}"
        if leads[k] != target:
            return f"leads by {outcome} to {self._arrival(int(leads[k]))}, not to {arrival}"
        return f"leads to {arrival} by {outcome}, whose prior count is 0"

    def _arrival(self, target: int) -> str:
        return "the end of the process" if target == END else self._model.state_labels.show(target)


def _is_end(value: Any) -> bool:
    return is_gap(value) if not isinstance(value, (int, float)) or value != value else value == END
