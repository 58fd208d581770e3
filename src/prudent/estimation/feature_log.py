"""Logs whose states are columns of features: how they are read, and how a state map gives them states.

The next state of a row is the map applied to the features of the next row of its episode, or to its columns
``next_NAME``. A column ``done`` (``terminated``, ``is_terminal``, ...) says after which rows the process ended: a flag,
or the name of the outcome. What the map says of a row depends on the features of this row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.columns import TableColumns
from ..data.feature_columns import ROLES, Feature, Flow, flow_of, read_feature_columns
from ..data.labels import Labels, is_missing, object_array
from ..data.state_growth import Sample
from ..data.state_map import StateMap
from ..errors import DataError
from ..types import BoolArray, FloatArray, IntArray, TableLike
from .rows import LogRows

ANY = "any"  # the one state of rows that have no states yet


@dataclass(frozen=True, eq=False)
class FeatureLog:
    """A log of features, read once.

    Attributes
    ----------
    held : TableColumns
        The columns.
    features, following : dict of str to Feature
        Features of each row, and of what came after it (anything where nothing did).
    flow : Flow
        Which row follows which, and where the process ended.
    sample : Sample
        The rows whose outcome is known.
    given_next : bool
        Whether the log has columns of the next features.
    gaps : str
        What to do where steps are not even, as for ``from_log``.
    """

    held: TableColumns
    features: dict[str, Feature]
    following: dict[str, Feature]
    flow: Flow
    sample: Sample
    given_next: bool
    gaps: str = "error"

    @classmethod
    def read(
        cls,
        log: TableLike,
        states: StateMap,
        columns: Mapping[str, Any] | None,
        end: Hashable,
        gaps: str = "error",
    ) -> FeatureLog:
        """Read a log by the columns of a map, fitted or not."""
        held = read_feature_columns(log, states.features, ("action",), ROLES, columns)
        if not held.size:
            raise DataError(f"{held.table} has no rows", code="no-rows", argument="log")
        flow = _without_marks(flow_of(held, end), held)
        if end is not None and f"next {states.features[0]}" not in held:
            last = (flow.follower < 0) & ~flow.left & ~is_missing(held["action"])
            ended = flow.ended.copy()
            ended[last] = object_array([end])
            flow = flow._replace(ended=ended)
        features = states.read(held)
        given_next = f"next {states.features[0]}" in held
        if not given_next and flow.episode is None:
            names = [*held.used.values(), *held.ignored]
            message = (
                f"{held.table} has no column of episodes whose rows follow each other, and no "
                f"next_{states.features[0]}; its columns are {names}; if one of them has another name: "
                "columns={'episode': ...}"
            )
            raise DataError(message, code="missing-column", column="episode")
        if given_next:
            following = states.read(held, "next")
            empty = np.all([feature.missing for feature in following.values()], axis=0)
            then = np.where(flow.follower >= 0, flow.follower, np.arange(held.size))
            for name, feature in following.items():
                feature.cells[empty] = features[name].cells[then[empty]]
            known = ~empty | flow.left
        else:
            then = np.where(flow.follower >= 0, flow.follower, np.arange(held.size))
            following = {name: Feature(one.cells[then], one.numeric) for name, one in features.items()}
            known = flow.left
        usable = known & ~is_missing(held["action"])
        if not usable.any():
            message = f"{held.table} has {held.size} rows, none of which says what followed"
            raise DataError(message, code="no-rows", argument="log")
        sample = Sample.of(features, held, flow, following if given_next else None)
        return cls(held, features, following, flow, sample, given_next, gaps)

    @property
    def outcomes(self) -> tuple[Hashable, ...]:
        """Names of the terminal outcomes."""
        return tuple(dict.fromkeys(label for label in self.flow.ended.tolist() if label is not None))

    def columns(self, states: StateMap | None) -> TableColumns:
        """Return the log with the columns ``state`` and ``next_state`` of a fitted map; None: one state for all."""
        held, flow = self.held, self.flow
        made = TableColumns(held.table, DataError)
        made.__dict__.update(held.__dict__)
        made.update({name: column for name, column in held.items() if name in ROLES and name != "done"})
        names = object_array([*(states.states if states else [ANY]), None])
        here = self._codes(states, self.features)
        then = np.full(held.size, -1, dtype=np.int64)
        if self.given_next:
            known = (flow.follower >= 0) | ~np.all([one.missing for one in self.following.values()], axis=0)
            then = np.where(known, self._codes(states, self.following), -1)
        made["state"] = names[here]
        target = names[then]
        over = np.array([label is not None for label in flow.ended], dtype=np.bool_)
        target[over] = flow.ended[over]
        made["next_state"] = target
        return made

    def _codes(self, states: StateMap | None, features: dict[str, Feature]) -> IntArray:
        return np.zeros(self.held.size, dtype=np.int64) if states is None else states.codes(features)[0]


def _without_marks(flow: Flow, held: TableColumns) -> Flow:
    """Return the flow with the outcome of a row without an action moved to the row before it."""
    over = np.array([label is not None for label in flow.ended], dtype=np.bool_)
    marks = np.flatnonzero(over & is_missing(held["action"]))
    if not marks.size:
        return flow
    ended, follower = flow.ended.copy(), flow.follower.copy()
    before = np.full(held.size, -1, dtype=np.int64)
    linked = np.flatnonzero(flow.follower >= 0)
    before[flow.follower[linked]] = linked
    arrivals = before[marks]
    ended[arrivals[arrivals >= 0]] = flow.ended[marks[arrivals >= 0]]
    ended[marks] = None
    follower[arrivals[arrivals >= 0]] = -1
    return flow._replace(ended=ended, follower=follower)


@dataclass(eq=False)
class MapDesign:
    """A state map as a design of ``honest_values``: fitted anew on the training episodes of every fold.

    Attributes
    ----------
    name : str
        What it is called in tables.
    read : LogRows
        The rows, all in one state.
    maker : StateMap
        The settings of the map.
    log : FeatureLog
        The log.
    shared : dict
        The training rows of the last fold, shared by all designs, which keeps what trees are grown on.
    inspect : callable, optional
        Called with the design, the training rows and the states of a fold.
    """

    name: str
    read: LogRows
    maker: StateMap
    log: FeatureLog
    shared: dict[bytes, Sample] = field(default_factory=dict)
    inspect: Callable[[MapDesign, BoolArray, LogRows, BoolArray], None] | None = None

    def states(self, training: BoolArray) -> LogRows:
        """Return the rows with states of the map that is fitted on ``training``."""
        key = training.tobytes()
        if key not in self.shared:
            self.shared.clear()
            place = np.full(self.log.held.size, -1, dtype=np.int64)
            place[self.log.sample.row] = np.arange(self.log.sample.row.size)
            chosen = place[self.read.row[training]]
            self.shared[key] = self.log.sample.some(np.sort(chosen[chosen >= 0]))
        fitted = self.maker.fit_sample(self.shared[key])
        here, strange = fitted.codes(self.log.features)
        then, _ = fitted.codes(self.log.following)
        read, S = self.read, len(fitted.states)
        names = [*fitted.states, *read.by_state.names[1:]]
        goes_on = read.target == 0
        filler: FloatArray = np.zeros(S)
        made = read._replace(
            state=here[read.row],
            target=np.where(goes_on, then[read.row], S - 1 + read.target),
            by_state=Labels("state", names, len(names), DataError),
            terminal=np.concatenate((np.zeros(S, dtype=np.bool_), read.terminal[1:])),
            terminal_value=np.concatenate((filler, read.terminal_value[1:])),
            absorbing=np.zeros(len(names), dtype=np.bool_),
            absorbing_reward=np.zeros(len(names)),
        )
        if self.inspect is not None:
            self.inspect(self, training, made, strange[read.row])
        return made
