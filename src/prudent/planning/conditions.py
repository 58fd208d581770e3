"""Conditions on states, which rules of thumb are made of: masks over states with a text.

Columns describe the states: given by the caller, read from the rules of a state map (a tree or a grid of number columns
and categories), or from the names of the states (numbers, parts of tuples, texts). A number column gives the conditions
"x below c" and "x c or more" for every c between two states, a category column "x is v". A state of a state map is a
range [low, high) of a number, or has several categories: a condition may cut through it, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import items_of
from ..errors import ModelError, ParameterError
from ..types import BoolArray, FloatArray

STEP = "step"  # the column of the time, of a policy with a horizon
MAX_CUTS = 30  # of one number column; with more values, quantiles of them


class Condition(NamedTuple):
    """Where a condition holds, and what it says."""

    text: str
    holds: BoolArray  # [S]
    cuts: BoolArray  # [S] where it holds for a part of the state only
    column: str  # that it speaks of; empty for several
    otherwise: str  # what its opposite says

    @property
    def opposite(self) -> Condition:
        """The condition that holds where this one does not."""
        return Condition(self.otherwise, ~self.holds & ~self.cuts, self.cuts, self.column, self.text)


class NumberColumn(NamedTuple):
    """Ranges [low, high) of a number in each state; ``low`` = ``high`` for a known value, NaN where there is none."""

    name: str
    low: FloatArray  # [S]
    high: FloatArray  # [S]


class CategoryColumn(NamedTuple):
    """A label for each state, None where there is none; or several that a state may have."""

    name: str
    values: tuple[Any, ...]  # [S]
    several: tuple[frozenset[Any], ...] = ()  # [S] empty sets where there is at most one


Column = NumberColumn | CategoryColumn


def read_columns(columns: Any, model: Any) -> list[Column]:
    """Return columns that describe the states of a model: as given, or from its state map or its names."""
    states = model.states
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, Mapping) or hasattr(columns, "columns"):
        return [_given(str(name), columns[name], states) for name in columns]
    summary = _summary_of(model)
    found = [] if summary is None or summary.state_map is None else _of_map(summary.state_map, states)
    found = found or _of_names(states)
    if columns is None:
        return found
    known = {column.name: column for column in found}
    names = items_of(columns, "columns")
    for name in names:
        if not isinstance(name, str) or name not in known:
            message = f"columns has {name!r}, expected some of {', '.join(map(repr, known))}, or values by state"
            raise ParameterError(message, code="unknown-option", argument="columns", value=name)
    return [known[name] for name in names]


def read_timed_columns(columns: Any, model: Any, steps: int) -> list[Column]:
    """Return columns of the pairs of step and state [T S]: those of the states, and the step itself.

    Where ``columns`` is a list, the step is one of them only if it has ``"step"``.
    """
    names = [columns] if isinstance(columns, str) else columns
    listed = names is not None and not (isinstance(names, Mapping) or hasattr(names, "columns"))
    timed = True
    if listed:
        asked = items_of(names, "columns")
        timed = STEP in asked
        names = [name for name in asked if name != STEP]
    found = [] if listed and not names else read_columns(names, model)
    repeated = [
        CategoryColumn(column.name, column.values * steps, column.several * steps)
        if isinstance(column, CategoryColumn)
        else NumberColumn(column.name, np.tile(column.low, steps), np.tile(column.high, steps))
        for column in found
    ]
    number = np.repeat(np.arange(float(steps)), model.n_states)
    return [*repeated, NumberColumn(STEP, number, number)] if timed else repeated


def _summary_of(model: Any) -> Any:
    try:
        return model.summary
    except ModelError:
        return None


def _given(name: str, values: Any, states: Sequence[Any]) -> Column:
    """Return a column of values by state: a mapping, or one value for each state in order."""
    if isinstance(values, Mapping):
        listed = [values.get(state) for state in states]
    else:
        listed = items_of(values, f"columns[{name!r}]")
        if len(listed) != len(states):
            message = f"columns[{name!r}] has {len(listed)} values, expected one for each of {len(states)} states"
            raise ParameterError(message, code="wrong-length", argument="columns", value=len(listed))
    return _column(name, listed)


def _column(name: str, listed: list[Any]) -> Column:
    """Return numbers as a number column, anything else as categories."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in listed]
    if not all(isinstance(value, Hashable) for value in plain):
        message = f"columns[{name!r}] must hold numbers or names, got {plain!r}"[:300]
        raise ParameterError(message, code="wrong-type", argument="columns")
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in plain):
        numbers = np.array([math.nan if value is None else float(value) for value in plain])
        return NumberColumn(name, numbers, numbers)
    return CategoryColumn(name, tuple(plain))


def _of_names(states: Sequence[Any]) -> list[Column]:
    """Return columns made from the names of states: parts of tuples, parts of texts between commas, or the names."""
    listed = list(states)
    tuples = [name for name in listed if isinstance(name, tuple)]
    if tuples and len({len(name) for name in tuples}) == 1:
        size = len(tuples[0])
        parts = [[name[i] if isinstance(name, tuple) else None for name in listed] for i in range(size)]
        return [_column(f"part {i + 1} of the state", part) for i, part in enumerate(parts)]
    return [_column("state", listed)]


def _of_map(state_map: Any, states: Sequence[Any]) -> list[Column]:
    """Return columns of a state map by a tree; none for other maps, whose names are used."""
    rules = state_map.rules
    partition, columns = rules["partition"], rules["columns"]
    if partition["kind"] != "tree" or any(column["kind"] == "cyclic" for column in columns):
        return []
    place = {name: i for i, name in enumerate(rules["states"])}
    n = len(rules["states"])
    low, high = np.full((len(columns), n), np.inf), np.full((len(columns), n), -np.inf)
    allowed: list[list[set[Any]]] = [[set() for _ in range(n)] for _ in columns]

    def walk(node: int, bounds: list[tuple[float, float]], values: list[set[Any]]) -> None:
        entry = partition["nodes"][node]
        if len(entry) == 1:
            for j, (least, most) in enumerate(bounds):
                low[j, entry[0]] = min(low[j, entry[0]], least)
                high[j, entry[0]] = max(high[j, entry[0]], most)
                allowed[j][entry[0]] |= values[j]
            return
        term, cut, left, right = entry
        kind, j, *rest = partition["terms"][term]
        for branch, below in ((left, True), (right, False)):
            edges, kept = list(bounds), [set(part) for part in values]
            if kind == "value":
                point = rest[0] + rest[1] * cut
                least, most = edges[j]
                edges[j] = (least, min(most, point)) if below else (max(least, point), most)
            elif kind == "is":
                kept[j] = kept[j] - {rest[0]} if below else kept[j] & {rest[0]}
            walk(branch, edges, kept)

    every = [set(column.get("values", ())) for column in columns]
    walk(0, [(-math.inf, math.inf)] * len(columns), every)
    at = np.array([place.get(state, -1) for state in states])
    found: list[Column] = []
    for j, column in enumerate(columns):
        if column["kind"] == "number":
            edges = [np.where(at >= 0, bound[j][np.maximum(at, 0)], np.nan) for bound in (low, high)]
            found.append(NumberColumn(column["name"], *edges))
        else:
            single = [allowed[j][i] if i >= 0 else set() for i in at.tolist()]
            values = tuple(next(iter(part)) if len(part) == 1 else None for part in single)
            several = tuple(frozenset(part if len(part) > 1 else ()) for part in single)
            found.append(CategoryColumn(column["name"], values, several))
    return found


def conditions_of(columns: Sequence[Column], acting: BoolArray) -> list[Condition]:
    """Return the distinct conditions that hold in some of the ``acting`` states [S], and not in some others."""
    found: dict[bytes, Condition] = {}

    def add(column: str, text: str, holds: BoolArray, cuts: BoolArray, otherwise: str) -> None:
        where, cut = holds & acting, cuts & acting
        if where.any() and (acting & ~where & ~cut).any():
            texts = [f"{column} is {words}" for words in (text, otherwise)]
            found.setdefault(where.tobytes() + cut.tobytes(), Condition(texts[0], where, cut, column, texts[1]))

    for column in columns:
        if isinstance(column, CategoryColumn):
            sets = column.several or (frozenset(),) * len(column.values)
            values = list(dict.fromkeys((*column.values, *(value for part in sets for value in part))))
            for value in values:
                if value is not None:
                    holds = np.array([other == value for other in column.values])
                    cuts = np.array([value in part for part in sets])
                    rest = [other for other in values if other != value]
                    one = len(rest) == 1 and rest[0] is not None
                    add(column.name, f"{value}", holds, cuts, f"{rest[0]}" if one else f"not {value}")
            continue
        for cut in _cuts(column, acting):
            exact = column.low == column.high
            below, above = np.where(exact, column.low < cut, column.high <= cut), column.low >= cut
            cuts = ~below & ~above & ~np.isnan(column.low)
            whole = bool((below | above | cuts)[acting].all())  # no state is without a value
            add(column.name, f"below {cut:g}", below, cuts, f"{cut:g} or more" if whole else f"not below {cut:g}")
            add(column.name, f"{cut:g} or more", above, cuts, f"below {cut:g}" if whole else f"not {cut:g} or more")
    return list(found.values())


def _cuts(column: NumberColumn, acting: BoolArray) -> FloatArray:
    """Return numbers between the values of states, or the edges of their ranges."""
    known = acting & ~np.isnan(column.low)
    if (column.low == column.high)[known].all():
        values = np.unique(column.low[known])
        cuts = _short_between(values[:-1], values[1:]) if values.size > 1 else np.empty(0)
    else:
        edges = np.unique(np.concatenate((column.low[known], column.high[known])))
        cuts = edges[np.isfinite(edges)]
    if cuts.size > MAX_CUTS:
        cuts = cuts[np.unique(np.linspace(0, cuts.size - 1, MAX_CUTS).round().astype(int))]
    return np.asarray(cuts)


def _short_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the number with the fewest digits above ``low`` and at most ``high``, for each pair."""
    whole = (low == np.round(low)) & (high == np.round(high))
    return np.asarray(np.where(whole, high, 0.5 * (low + high)))


def both(first: Condition, second: Condition) -> Condition:
    """Return the condition that both hold."""
    holds = first.holds & second.holds
    cuts = (first.holds | first.cuts) & (second.holds | second.cuts) & ~holds
    texts = f"{first.text} and {second.text}", f"{first.otherwise} or {second.otherwise}"
    return Condition(texts[0], holds, cuts, "", texts[1])


def said_terms(terms: Sequence[Condition]) -> list[Condition]:
    """Return conditions that hold together, column by column, without those that others of the same column imply."""
    first = {term.column: i for i, term in reversed(list(enumerate(terms)))}
    kept = sorted(terms, key=lambda term: first[term.column])
    for each in list(terms):
        others = [other for other in kept if other is not each and other.column == each.column]
        if others and not (np.logical_and.reduce([other.holds for other in others]) & ~each.holds).any():
            kept = [other for other in kept if other is not each]
    return kept
