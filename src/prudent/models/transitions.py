"""Logs of transitions of an ``UncertainMDP``: reading them, counting them, and drawing them.

Inside, a log is int64 [M, 4] with rows (state, action, next_state, outcome), all indices; the outcome is -1 where it
was not observed, the next state -2 where the process ended. ``LogReader`` makes one from what people have, and refuses
rows that cannot have happened. Kernels trust it. They read the entries of the model; counts are [B, K].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compile import kernel
from .._support.checks import BoolArray, FloatArray, IntArray
from ..data.labels import Column, Labels, encode_each, is_gap
from ..data.tables import read_columns, read_counts
from ..errors import DataError
from .entries import END, NONE, Entries

if TYPE_CHECKING:
    from .uncertain import UncertainMDP

# -- read --------------------------------------------------------------------------------------------------


class LogReader:
    """Reads transitions of one model by the names it has, or with ``indices`` by numbers only.

    What is wrong with them is a ``DataError``, whether they come as a log or one by one.
    """

    def __init__(self, model: UncertainMDP, indices: bool) -> None:
        self.model = model
        self._indices = indices
        self.states, self.actions = model.state_labels, model.action_labels
        if indices:
            self.states, self.actions = (Labels(each.what, None, each.size) for each in (self.states, self.actions))
        self._source, self._entries = model.source, model.entries
        self._any_outcome = Labels("outcome", None, model.n_outcomes)
        self._row = np.empty((1, 4), dtype=np.int64)

    @cached_property
    def _outcomes(self) -> Sequence[Labels] | None:
        """The labels of the outcomes of each source, which only a log with outcomes needs."""
        return None if self._indices else self.model.naming.outcomes

    def rows(
        self, log: Any, counts: FloatArray, columns: Mapping[str, Any] | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return a whole log [M, 4], every row of which is possible where ``counts`` [B, K] are positive.

        With it come numbers [M]: how often each row was seen.
        """
        needed = ("state", "action", "next_state")
        held = read_columns(log, needed, ("outcome",), table="log", error=DataError, named=("count",), columns=columns)
        rows = np.full((held.size, 4), -1, dtype=np.int64)
        ended = self._ended(held["next_state"])
        if ended.any():  # any name will do until the others are read
            held["next_state"] = held["next_state"].copy()
            held["next_state"][ended] = 0 if self.states.names is None else self.states.names[0]
        for i, (what, labels) in enumerate(zip(needed, (self.states, self.actions, self.states), strict=True)):
            rows[:, i] = labels.encode(held[what], what, place=held.place, error=DataError)
        rows[ended, 2] = END
        over = self.model.terminal[rows[:, 0]]
        if over.any():
            row = int(np.argmax(over))
            raise DataError(f"{held.place(row)}: {self._over(rows[row])}")
        b = self._source[rows[:, 0], rows[:, 1]]
        if (b < 0).any():
            row = int(np.argmax(b < 0))
            raise DataError(f"{held.place(row)}: {self._inadmissible(rows[row])}")
        if "outcome" in held:
            told: dict[str, Any] = {"place": held.place, "error": DataError, "gaps": True}
            if self._outcomes is None:
                rows[:, 3] = self._any_outcome.encode(held["outcome"], "outcome", **told)
            else:
                rows[:, 3] = encode_each(self._outcomes, b, held["outcome"], "outcome", **told)
        impossible = first_impossible(self._entries, counts, rows)
        if impossible >= 0:
            raise DataError(f"{held.place(impossible)}: {self._why_impossible(rows[impossible])}")
        times = read_counts(held, error=DataError)
        return rows, np.ones(len(rows)) if times is None else times

    def row(self, state: Any, action: Any, next_state: Any, outcome: Any, counts: FloatArray) -> IntArray:
        """Return one transition as a log [1, 4]; the array is overwritten by the next call.

        This is :meth:`rows` without its tables, which would cost an agent more than its decision.
        """
        row = self._row[0]
        s = row[0] = self.states.index(state, "state", DataError)
        a = row[1] = self.actions.index(action, "action", DataError)
        over = self.model.ends and self.states.find(next_state) < 0 and _is_end(next_state)
        row[2] = END if over else self.states.index(next_state, "next_state", DataError)
        row[3] = -1
        if self.model.terminal[s]:
            raise DataError(self._over(row))
        b = self._source[s, a]
        if b < 0:
            raise DataError(self._inadmissible(row))
        if outcome is not None:
            names = self._outcomes
            labels = self._any_outcome if names is None else names[b]
            try:
                row[3] = labels.index(outcome, "outcome", DataError)
            except DataError:
                if not is_gap(outcome):
                    raise
        if first_impossible(self._entries, counts, self._row) >= 0:
            raise DataError(self._why_impossible(row))
        return self._row

    def _ended(self, column: Column) -> BoolArray:
        """Return which next states say that the process ended: empty cells and -2, unless a state has that name."""
        if not self.model.ends:
            return np.zeros(column.size, dtype=np.bool_)
        if self.states.names is None and column.dtype.kind in "iuf":
            return (column == END) | (column != column)
        return np.fromiter((self.states.find(v) < 0 and _is_end(v) for v in column.tolist()), np.bool_, column.size)

    def _over(self, row: IntArray) -> str:
        return f"{self.model.state_labels.show(int(row[0]))} is terminal, nothing follows it"

    def _inadmissible(self, row: IntArray) -> str:
        return f"{self.model.pair_name(row[0] * self.model.n_actions + row[1])} is not admissible"

    def _why_impossible(self, row: IntArray) -> str:
        model = self.model
        s, a, target, k = row.tolist()
        pair, arrival = model.pair_name(s * model.n_actions + a), self._arrival(target)
        b, leads = int(model.source[s, a]), model.leads(s * model.n_actions + a)
        if k < 0:
            if (leads == target).any():
                return f"{pair} leads to {arrival} only by outcomes whose prior count is 0"
            return f"{pair} never leads to {arrival}"
        names = model.naming.outcomes
        outcome = f"outcome {k}" if names is None else names[b].show(k)
        if leads[k] == NONE:
            return f"{pair} has no {outcome}"
        if leads[k] != target:
            return f"{pair} leads by {outcome} to {self._arrival(int(leads[k]))}, not to {arrival}"
        return f"{pair} leads to {arrival} by {outcome}, whose prior count is 0"

    def _arrival(self, target: int) -> str:
        return "the end of the process" if target == END else self.model.state_labels.show(target)


def _is_end(value: Any) -> bool:
    return is_gap(value) if not isinstance(value, (int, float)) or value != value else value == END


# -- count -------------------------------------------------------------------------------------------------


@kernel
def first_impossible(entries: Entries, counts: FloatArray, log: IntArray) -> int:
    """Return the first row that no outcome with a positive count explains, or -1."""
    for i in range(log.shape[0]):
        target, outcome = log[i, 2], log[i, 3]
        p = log[i, 0] * entries.n_actions + log[i, 1]
        b = entries.source[p]
        shift = entries.begin[b] - entries.first[p]  # from an entry to its slot
        possible = False
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                k = entries.outcome[e + shift]
                possible = possible or ((outcome < 0 or outcome == k) and counts[b, k] > 0.0)
        if not possible:
            return i
    return -1


@kernel
def add_log(entries: Entries, counts: FloatArray, log: IntArray, times: FloatArray | None = None) -> None:
    """Count the rows of a log in place and in order, each once or ``times`` [M]; every row must be possible.

    A count of unknown outcome is split by posterior means. That leaves the ratios of the counts as they are, so several
    at once are the same as one after the other.
    """
    for i in range(log.shape[0]):
        target, outcome = log[i, 2], log[i, 3]
        p = log[i, 0] * entries.n_actions + log[i, 1]
        b = entries.source[p]
        once = 1.0 if times is None else times[i]
        if outcome >= 0:
            counts[b, outcome] += once
            continue
        shift = entries.begin[b] - entries.first[p]  # from an entry to its slot
        total = 0.0
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                total += counts[b, entries.outcome[e + shift]]
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                k = entries.outcome[e + shift]
                counts[b, k] += once * (counts[b, k] / total)  # exactly 1 if this outcome is the only one


# -- walk --------------------------------------------------------------------------------------------------


def cumulative_rows(theta: FloatArray) -> FloatArray:
    """Return cumulative probabilities [B, K]; the last possible outcome takes what rounding leaves of one."""
    cumulative = np.cumsum(theta, axis=1)
    last = theta.shape[1] - 1 - np.argmax(theta[:, ::-1] > 0.0, axis=1)
    cumulative[np.arange(theta.shape[1]) >= last[:, None]] = 1.0
    return cumulative


@kernel
def earned(entries: Entries, s: int, a: int, outcome: int) -> float:
    """Return the reward of an outcome of a pair."""
    p = s * entries.n_actions + a
    begin, end = entries.begin[entries.source[p]], entries.begin[entries.source[p] + 1]
    return float(entries.reward[entries.first[p] + np.searchsorted(entries.outcome[begin:end], outcome)])


class Course(NamedTuple):
    """What happens to a policy: the model with its true probabilities."""

    entries: Entries
    terminal: BoolArray  # [S]
    cumulative: FloatArray  # [F] by slots, 1 from the last possible outcome of a source on
    restarts: FloatArray  # [S] cumulative probabilities of the state after an end


class Plan(NamedTuple):
    """What to do at each time after a start; the last row holds for ever."""

    actions: IntArray  # [T, S], or [0, 0]
    choices: FloatArray  # [T, S, A] cumulative probabilities of actions instead, or [0, 0, 0]
    length: int  # steps after which the process starts anew; 0: never


@kernel
def draw(cumulative: FloatArray, uniform: float) -> int:
    """Return the place at which cumulative probabilities first exceed ``uniform``."""
    return int(np.searchsorted(cumulative, uniform, side="right"))


@kernel
def walk(
    course: Course,
    policy: IntArray,  # [S]
    choices: FloatArray,  # [S, A] cumulative probabilities of actions instead of ``policy``, or [0, 0]
    uniforms: FloatArray,  # [M, 1 to 3], in [0, 1): for outcomes, for choices if any, for restarts if not certain
    state: int,
    log: IntArray,  # [M, 4], filled
    plan: Plan | None = None,  # instead of ``policy`` and ``choices``
) -> int:
    """Write the trajectory that starts in ``state``; return the state after it."""
    entries, last, time = course.entries, uniforms.shape[1] - 1, 0
    for i in range(uniforms.shape[0]):
        if plan is None:
            action = draw(choices[state], uniforms[i, 1]) if choices.size else policy[state]
        else:
            now = min(time, plan.actions.shape[0] + plan.choices.shape[0] - 1)
            action = draw(plan.choices[now, state], uniforms[i, 1]) if plan.choices.size else plan.actions[now, state]
        p = state * entries.n_actions + action
        begin, end = entries.begin[entries.source[p]], entries.begin[entries.source[p] + 1]
        place = draw(course.cumulative[begin:end], uniforms[i, 0])
        log[i, 0] = state
        log[i, 1] = action
        state = int(entries.next_state[entries.first[p] + place])
        log[i, 2] = state
        log[i, 3] = entries.outcome[begin + place]
        time += 1
        if state < 0 or course.terminal[state] or (plan is not None and time == plan.length):
            state = draw(course.restarts, uniforms[i, last])
            time = 0
    return state
