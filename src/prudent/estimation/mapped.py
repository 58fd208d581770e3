"""The states of a log of features, by the arguments ``features`` and ``states`` of ``from_log``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import axes_of
from ..data.state_map import StateMap
from ..errors import ParameterError
from ..types import Label, TableLike
from .feature_log import FeatureLog
from .rows import OpenLog
from .state_choice import LEVELS, MIN_COUNT, StateChoice, choose, refuse_few_episodes

_WORDS = ("auto", "as they are")


class Mapped(NamedTuple):
    """A log with states.

    Attributes
    ----------
    opened : OpenLog
        The log with states.
    other : OpenLog or None
        The other log of ``prior_from``, in the same states.
    names : tuple
        Names of the states in order, terminal outcomes last.
    terminal : dict
        Values of the terminal states.
    state_map : StateMap
        The fitted map.
    choice : StateChoice or None
        How it was chosen.
    notes : tuple of str
        Remarks for the summary.
    """

    opened: OpenLog
    other: OpenLog | None
    names: tuple[Hashable, ...]
    terminal: dict[Hashable, float]
    state_map: StateMap
    choice: StateChoice | None
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the states are called in tables."""
        how = self.state_map.method if self.choice is None else self.choice.design
        return f"{len(self.state_map.states)} states by {how}"


def map_states(
    log: TableLike,
    discount: float,
    features: Sequence[str] | StateMap | None,
    states: Any,
    min_count: float | None,
    prior: Any,
    support: Any,
    terminal: Any,
    columns: Mapping[str, Any] | None,
    end: Hashable,
    gaps: str = "error",
    duration: Label = None,
    group: str | None = None,
    prior_from: TableLike | None = None,
) -> Mapped | None:
    """Return a log with states of its features; None where its states are in a column.

    Maps are fitted and chosen by ``log`` alone; ``prior_from`` gets the states of the map.
    """
    choice = states if isinstance(states, StateChoice) else None
    if choice is not None:
        states = choice.chosen
    if isinstance(states, str) and states not in _WORDS:
        message = f"states is {states!r}, expected a StateMap, 'auto', 'as they are' or names in order"
        raise ParameterError(message, code="unknown-option", argument="states", value=states)
    if features is None and not isinstance(states, StateMap):
        if states == "auto":
            message = "states='auto' makes states of columns; name them: features=[...]"
            raise ParameterError(message, code="missing-argument", argument="features")
        return None
    base = _base(features, states, discount)
    read = FeatureLog.read(log, base, columns, end, gaps, duration=duration, group=group)
    declared = _declared(terminal)
    if isinstance(states, StateMap):
        fitted = base if base.fitted else base.fit_sample(read.sample)
    elif isinstance(states, str) and states == "as they are":
        fitted = replace(base, method="cuts", cuts=_every_value(read), min_rows=1).fit_sample(read.sample)
    else:
        refuse_few_episodes(read)
        mass = float(prior) if axes_of(prior) == 0 and not isinstance(prior, str) else 1.0
        choice = choose(
            read, base, discount, None, LEVELS, MIN_COUNT if min_count is None else min_count, mass,
            support if isinstance(support, str) else "state", declared,
        )  # fmt: skip
        fitted = choice.chosen
    logs = [read]
    if prior_from is not None:
        logs.append(FeatureLog.read(prior_from, fitted, columns, end, gaps, duration=duration, argument="prior_from"))
    outcomes = tuple(dict.fromkeys(name for each in logs for name in each.outcomes if name not in fitted.states))
    strange = fitted.codes(read.features)[1]
    notes = [] if choice is None else [choice.sentence]
    if choice is None and strange.any():
        notes.append(f"{int(strange.sum()):,} of {strange.size:,} rows are like nothing that the state map has seen")
    names = (*fitted.states, *outcomes)
    opened, other = [*(each.opened(fitted) for each in logs), None][:2]
    assert opened is not None
    values = dict.fromkeys(outcomes, 0.0) | declared
    return Mapped(opened, other, names, values, fitted, choice, tuple(notes))


def _base(features: Sequence[str] | StateMap | None, states: Any, discount: float) -> StateMap:
    """Return the settings that all candidates share."""
    if isinstance(features, StateMap) and not isinstance(states, StateMap):
        return replace(features, discount=discount if features.discount is None else features.discount)
    if isinstance(features, StateMap):
        features = features.features
    if not isinstance(states, StateMap):
        if states is not None and not isinstance(states, str):
            message = "states has names, and features say what the states are; leave out one of them"
            raise ParameterError(message, code="conflicting-arguments", argument="states")
        assert features is not None
        listed: Any = features
        return StateMap(listed if isinstance(listed, str) else tuple(listed), discount=discount)
    if features is not None and tuple(features) != states.features:
        message = f"features is {list(features)}, but the state map has {list(states.features)}; leave out features"
        raise ParameterError(message, code="conflicting-arguments", argument="features", value=list(features))
    return states if states.fitted or states.discount is not None else replace(states, discount=discount)


def _every_value(read: FeatureLog) -> dict[str, list[float]]:
    """Return cuts that keep all values of numeric columns apart."""
    cuts = {}
    for name, feature in read.features.items():
        if feature.numeric:
            values = np.unique(feature.cells[~feature.missing].astype(np.float64))
            cuts[name] = values[1:].tolist() or [float(values[0])]
    return cuts


def _declared(terminal: Any) -> dict[Hashable, float]:
    """Return declared terminal states and their values."""
    if terminal is None:
        return {}
    if hasattr(terminal, "items"):
        return {name: float(value) for name, value in terminal.items()}
    return dict.fromkeys([terminal] if isinstance(terminal, str) else terminal, 0.0)
