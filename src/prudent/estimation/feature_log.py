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
from ..data.feature_columns import ROLES, Feature, read_feature_columns
from ..data.flow import Flow, flow_of
from ..data.labels import Labels, is_missing, object_array
from ..data.state_growth import Sample, follow
from ..data.state_map import StateMap
from ..errors import DataError
from ..types import BoolArray, FloatArray, IntArray, Label, TableLike
from .rows import LogRows, OpenLog

ANY = "any"  # the one state of rows that have no states yet


@dataclass(frozen=True, eq=False)
class FeatureLog:
    """A log of features, read once.

    Attributes
    ----------
    held : TableColumns
        The columns.
    features, following : dict of str to Feature
        Features of each row, and of what came after it (its own where nothing did).
    flow : Flow
        Which row follows which, and where the process ended.
    sample : Sample
        The rows whose outcome is known.
    """

    held: TableColumns
    features: dict[str, Feature]
    following: dict[str, Feature]
    flow: Flow
    sample: Sample

    @classmethod
    def read(
        cls,
        log: TableLike,
        states: StateMap,
        columns: Mapping[str, Any] | None,
        end: Hashable,
        gaps: str = "error",
        *,
        duration: Label = None,
        group: str | None = None,
        argument: str = "log",
    ) -> FeatureLog:
        """Read a log by the columns of a map, fitted or not; other arguments are those of ``from_log``."""
        named = {name: theirs for name, theirs in (("duration", duration), ("group", group)) if theirs is not None}
        roles = (*ROLES, *named)
        held = read_feature_columns(log, states.features, ("action",), roles, {**(columns or {}), **named}, argument)
        if not held.size:
            raise DataError(f"{held.table} has no rows", code="no-rows", argument=argument)
        features = states.read(held)
        given = None
        told = states.read(held, "next") if f"next {states.features[0]}" in held else None
        if told is not None:
            given = ~np.all([feature.missing for feature in told.values()], axis=0)
        elif "episode" not in held:
            names = [*held.used.values(), *held.ignored]
            message = (
                f"{held.table} has no column of episodes whose rows follow each other, and no "
                f"next_{states.features[0]}; its columns are {names}; if one of them has another name: "
                "columns={'episode': ...}"
            )
            raise DataError(message, code="missing-column", column="episode")
        flow = flow_of(held, given, end, gaps)
        if not (flow.alive & ~is_missing(held["action"])).any():
            message = f"{held.table} has {held.size} rows, none of which says what followed"
            raise DataError(message, code="no-rows", argument=argument)
        sample = Sample.of(features, held, flow, told)
        return cls(held, features, follow(flow, features, told), flow, sample)

    @property
    def outcomes(self) -> tuple[Hashable, ...]:
        """Names of the terminal outcomes."""
        return tuple(dict.fromkeys(label for label in self.flow.ended.tolist() if label is not None))

    def codes(self, states: StateMap) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the state of each row, the state that its columns say it led to, and which rows are unseen."""
        here, strange = states.codes(self.features)
        told = states.codes(self.following)[0] if self.flow.given.any() else here
        return here, told, strange

    def opened(self, states: StateMap | None) -> OpenLog:
        """Return the log with the columns ``state`` and ``next_state`` of a fitted map; None: one state for all."""
        names = object_array([*(states.states if states else [ANY]), None])
        here = told = np.zeros(self.held.size, dtype=np.int64)
        if states is not None:
            here, told, _ = self.codes(states)
        kept = {name: column for name, column in self.held.items() if " " not in name and name != "done"}
        kept["state"] = names[here]
        kept["next_state"] = names[np.where(self.flow.given, told, -1)]
        return OpenLog(self.held.with_columns(kept), self.flow, True)


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
        here, told, strange = self.log.codes(fitted)
        read, S = self.read, len(fitted.states)
        then = np.where(read.leads >= 0, here[read.leads], told[read.row])
        names = [*fitted.states, *read.by_state.names[1:]]
        goes_on = read.target == 0
        filler: FloatArray = np.zeros(S)
        made = read._replace(
            state=here[read.row],
            target=np.where(goes_on, then, S - 1 + read.target),
            by_state=Labels("state", names, len(names), DataError),
            terminal=np.concatenate((np.zeros(S, dtype=np.bool_), read.terminal[1:])),
            terminal_value=np.concatenate((filler, read.terminal_value[1:])),
            absorbing=np.zeros(len(names), dtype=np.bool_),
            absorbing_reward=np.zeros(len(names)),
        )
        if self.inspect is not None:
            self.inspect(self, training, made, strange[read.row])
        return made
