"""Readable names of states that a state map makes: ``pressure 70-99, falling``.

Bounds are half-open, from the lower one on and below the upper one. Columns of whole numbers are named by the numbers
that they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


class Limits:
    """What a state allows in one column: a range, an arc, some categories, or missing values."""

    def __init__(self, column: dict[str, Any]) -> None:
        self.column = column
        self.low, self.high = -math.inf, math.inf
        self.arcs: list[tuple[float, float]] = []  # of a cyclic column, all of which hold
        self.missing: bool | None = None
        self.excluded: set[Any] = set()
        self.only: Any = None
        self.chosen = False  # whether ``only`` is set

    def copy(self) -> Limits:
        """Return a copy."""
        other = Limits(self.column)
        other.__dict__.update(self.__dict__, arcs=list(self.arcs), excluded=set(self.excluded))
        return other

    @property
    def order(self) -> tuple[Any, ...]:
        """Key by which states are ordered: by lower bounds, missing values last."""
        kind, low = self.column["kind"], self.low
        if kind == "category":
            values = self.column["values"]
            low = values.index(self.only) if self.chosen else min(_places(values, self.excluded), default=len(values))
        elif kind == "cyclic" and self.arcs:
            low = min(_turns(self.arcs, self.column["period"]), default=(0.0, 0.0))[0]
        return (self.missing is True, low, self.high)

    def text(self, shared: frozenset[Any]) -> str:
        """Return the words for it, empty if everything is allowed; ``shared`` are labels of several columns."""
        name, kind = self.column["name"], self.column["kind"]
        if self.missing is True:
            return f"{name} missing"
        if kind == "category":
            return self._category(shared)
        if kind == "cyclic":
            return self._arc()
        if self.low == -math.inf and self.high == math.inf:
            return f"{name} known" if self.missing is False and self.column["missing"] else ""
        return f"{name} {_range(self.low, self.high, self.column['whole'])}"

    def _category(self, shared: frozenset[Any]) -> str:
        name = self.column["name"]
        plain = all(isinstance(value, str) and value not in shared for value in self.column["values"])
        prefix = "" if plain else f"{name} "
        if self.chosen:
            return f"{prefix}{self.only}"
        if not self.excluded:
            return ""
        left = [value for value in self.column["values"] if value not in self.excluded]
        if 0 < len(left) <= 2 and not self.column["missing"]:
            return prefix + " or ".join(map(str, left))
        return prefix + "not " + " or ".join(str(v) for v in self.column["values"] if v in self.excluded)

    def _arc(self) -> str:
        name, period, whole = self.column["name"], self.column["period"], self.column["whole"]
        turns = _turns(self.arcs, period)
        if not turns or turns == [(0.0, period)]:
            return ""
        parts = []
        for low, high in turns:
            if whole:
                first, last = math.ceil(low), math.ceil(high) - 1
                last %= math.ceil(period)
                parts.append(f"{first}" if first == last else f"{first}-{last}")
            else:
                parts.append(f"{low:g} to {high % period or period:g}")
        return f"{name} " + " and ".join(parts)


def _places(values: Sequence[Any], excluded: set[Any]) -> list[int]:
    return [i for i, value in enumerate(values) if value not in excluded]


def _turns(arcs: Iterable[tuple[float, float]], period: float) -> list[tuple[float, float]]:
    """Return the arcs [low, high) of a circle that all ``arcs`` allow; an arc over the end has high > period."""
    arcs = list(arcs)
    if not arcs:
        return []
    marks = sorted({edge % period for arc in arcs for edge in arc})
    pieces = []
    for i, low in enumerate(marks):
        high = marks[i + 1] if i + 1 < len(marks) else marks[0] + period
        middle = 0.5 * (low + high)
        if all((middle - one) % period < (two - one if two - one < period else period) for one, two in arcs):
            pieces.append((low, high))
    joined: list[tuple[float, float]] = []
    for low, high in pieces:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    if len(joined) > 1 and joined[-1][1] - period == joined[0][0]:
        joined[0] = (joined[-1][0], joined[0][1] + period)
        joined.pop()
    return joined


def _range(low: float, high: float, whole: bool) -> str:
    if whole:
        first = None if low == -math.inf else math.ceil(low)
        last = None if high == math.inf else math.ceil(high) - 1
        if first is None:
            return f"below {math.ceil(high):g}"
        if last is None:
            return f"{first:g} or more"
        if first == last:
            return f"{first:g}"
        return f"{first:g}-{last:g}" if first >= 0 else f"{first:g} to {last:g}"
    if low == -math.inf:
        return f"below {_short(high)}"
    return f"{_short(low)} or more" if high == math.inf else f"{_short(low)} to {_short(high)}"


def _short(number: float) -> str:
    text = f"{number:.6g}"
    return text if float(text) == number else repr(number)


def named(limits: Sequence[Sequence[Limits]]) -> list[str]:
    """Return a distinct name for each state, given by its limits in each column."""
    columns = [limit.column for limit in limits[0]]
    labels = [set(column["values"]) for column in columns if column["kind"] == "category"]
    shared = frozenset(value for i, one in enumerate(labels) for two in labels[:i] for value in one & two)
    return distinct([", ".join(filter(None, (part.text(shared) for part in state))) or "any" for state in limits])


def distinct(names: Sequence[str]) -> list[str]:
    """Return names that differ: those that occur again are numbered."""
    times: dict[str, int] = {}
    listed = []
    for name in names:
        times[name] = times.get(name, 0) + 1
        listed.append(name if times[name] == 1 else f"{name} ({times[name]})")
    return listed


def readable_cut(below: float, above: float, span: float) -> float:
    """Return the shortest number in (below, above] near the middle; ``span`` is the width of the column."""
    middle = below + 0.5 * (above - below)
    for more in range(18):
        cut = round(middle, _digits(span) + more)
        if below < cut <= above:
            return cut
    return above


def rounded_cut(cut: float, span: float) -> float:
    """Return a cut with about three digits, which may move it by half a percent of the column."""
    return round(cut, _digits(span) + 2) + 0.0  # not -0


def _digits(span: float) -> int:
    return 0 if span <= 0.0 else -math.floor(math.log10(span))
