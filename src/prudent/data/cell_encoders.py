"""Encoders of single columns: from a cell as people have it to numbers at fixed places.

Every encoder owns ``width`` places of the encoded row. A place keeps its meaning for ever once it can be different from
zero, since a bandit learns coefficients by place:

- a number is (x - centre) / scale; until centre and scale are known its place is zero, so that nothing is learned of
  it, and its coefficient still has its prior when the place comes alive;
- a category has a slot of its own, given in order of appearance; a slot that nobody has is zero. When all slots are
  taken, further categories share the places that a hash (CRC-32) of their text says.

So what a streaming encoder learns is a short list of events: a scale is settled, a slot is given. ``notice`` collects
what an event needs and says whether one is due, ``take`` makes it happen, and nothing else changes a code.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from .._support.checks import flag, positive, whole_number
from ..errors import DataError, ParameterError

CLIP = 10.0  # largest code of a number, in units of its scale
_ROWS = 30  # values that settle a scale
_ROWS_OF_BIN = 10  # values for each bin that settle its edges
_NUMERIC = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction)
_PLAIN = frozenset({float, int, bool})
_DAY, _WEEK = 2.0 * math.pi / 24.0, 2.0 * math.pi / 7.0
Token = tuple[str, float]


def empty(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NaT or NA of pandas.

    >>> [empty(cell) for cell in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if cell is None:
        return True
    if isinstance(cell, (float, np.floating, np.datetime64)):
        return bool(cell != cell)
    return type(cell).__name__ in ("NAType", "NaTType")


def number_of(cell: Any) -> float:
    """Return a finite number; raise DataError for anything else, texts included."""
    if not isinstance(cell, _NUMERIC):
        raise DataError("expected a number", code="not-a-number", value=cell)
    try:
        value = float(cell)
    except (OverflowError, ValueError):
        value = math.inf
    if not math.isfinite(value):
        raise DataError("expected a finite number", code="not-finite", value=cell)
    return value


def label_of(cell: Any) -> str:
    """Return the text of a category; 3, 3.0 and "3" are the same one.

    >>> label_of(3), label_of(3.0), label_of("DE"), label_of(True)
    ('3', '3', 'DE', 'True')
    """
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, (float, np.floating)) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, (bool, *_NUMERIC, date)):
        return str(cell)
    raise DataError("expected a text or a number", code="not-a-category", value=cell)


class CellEncoder(ABC):
    """Base class of encoders; ``first`` is its first place in the encoded row.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether the last place says that the cell is missing; without it such a cell is all zeros.
    """

    kind: ClassVar[str]
    fixed: ClassVar[bool] = True  # whether the labels of tokens are known beforehand

    def __init__(self, name: str, first: int, missing: bool = True) -> None:
        self.name, self.first = name, first
        self.missing = flag(missing, f"{name}.missing")
        self.width = self._width() + self.missing
        self._last = first + self.width - 1

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"kind": self.kind, "missing": self.missing}

    @abstractmethod
    def _width(self) -> int:
        """Return the number of places without the one for missing cells."""

    @abstractmethod
    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""

    @abstractmethod
    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""

    def column_of(self, cell: Any, row: Mapping[str, Any]) -> str:
        """Return the column of a row that a cell at fault is in."""
        return self.name

    def names(self) -> list[str]:
        """Return the names of the places."""
        return [*self._names(), *([f"{self.name} missing"] if self.missing else [])]

    @abstractmethod
    def _names(self) -> list[str]: ...

    def _put_missing(self, places: list[int], values: list[float]) -> None:
        if self.missing:
            places.append(self._last)
            values.append(1.0)

    # -- what is learned -----------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Whether nothing more can be learned."""
        return True

    def notice(self, cell: Any) -> bool:
        """Collect what a cell tells; return whether something is to be taken."""
        return False

    def take(self, cell: Any) -> None:
        """Let happen what ``notice`` has said is due."""
        return

    def fit(self, cells: list[Any]) -> None:
        """Learn from a sample at once."""
        return

    def learned(self) -> Any:
        """Return what was learned, as JSON holds it; None if nothing was."""
        return None

    def restore(self, learned: Any) -> None:
        """Take what ``learned`` returned; raise ValueError if that cannot be."""
        if learned is not None:
            raise ValueError(f"{self.name!r} learns nothing, and is to take {learned!r}"[:200])

    @property
    def seen(self) -> list[float]:
        """Values that were noticed before there were enough of them."""
        return []

    @seen.setter
    def seen(self, values: Iterable[float]) -> None:
        return


class _Measured(CellEncoder):
    """Base class of encoders that learn from numbers: the first ``rows`` values settle what they need."""

    rows: int

    def __init__(self, name: str, first: int, missing: bool = True) -> None:
        super().__init__(name, first, missing)
        self._seen: list[float] = []

    @property
    def seen(self) -> list[float]:
        """Values that were noticed before there were enough of them."""
        return self._seen

    @seen.setter
    def seen(self, values: Iterable[float]) -> None:
        self._seen = [float(value) for value in values][-self.rows :]

    def value(self, cell: Any) -> float:
        """Return the number of a cell before it is put on a scale."""
        return cell if type(cell) is float and -math.inf < cell < math.inf else number_of(cell)

    def notice(self, cell: Any) -> bool:
        """Collect what a cell tells; return whether something is to be taken."""
        if self.settled or empty(cell):
            return False
        if len(self._seen) >= self.rows:  # all equal so far
            del self._seen[0]
        self._seen.append(self.value(cell))
        return len(self._seen) >= self.rows and min(self._seen) < max(self._seen)

    def take(self, cell: Any) -> None:
        """Let happen what ``notice`` has said is due."""
        self._settle(np.array(self._seen))
        self._seen = []

    def fit(self, cells: list[Any]) -> None:
        """Learn from a sample at once."""
        found = np.array([self.value(cell) for cell in cells if not empty(cell)])
        if not self.settled and found.size > 1 and found.min() < found.max():
            self._settle(found)
            self._seen = []

    @abstractmethod
    def _settle(self, values: np.ndarray[Any, Any]) -> None: ...


class NumberEncoder(_Measured):
    """Number on a scale of its own: (x - centre) / scale, at most ``CLIP`` from zero.

    The centre is the median and the scale 0.7413 times the distance of the quartiles, the sd of a normal law; the sd if
    that distance is zero.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether there is a place for missing cells.
    centre, scale : float, optional
        Centre and scale, if they are known.
    rows : int
        Number of values that settle them.
    """

    kind = "number"
    _plain: Callable[[Any], float] = staticmethod(float)  # of a cell that may be NaN

    def __init__(
        self,
        name: str,
        first: int,
        missing: bool = True,
        centre: float | None = None,
        scale: float | None = None,
        rows: int = _ROWS,
    ) -> None:
        self.rows = whole_number(rows, f"{name}.rows", 2, 100_000)
        super().__init__(name, first, missing)
        if (centre is None) != (scale is None):
            message = f"{name} has a centre or a scale: give both, or none to learn them"
            raise ParameterError(message, code="missing-argument", argument=name)
        self.given = centre is not None
        self.centre, self._factor = 0.0, 0.0
        if centre is not None:
            self._set(number_of(centre), positive(scale, f"{name}.scale"))

    def _set(self, centre: float, scale: float) -> None:
        self.centre, self.scale, self._factor = centre, scale, 1.0 / scale

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        given = {"centre": self.centre, "scale": self.scale} if self.given else {}
        return super().options() | given | ({"rows": self.rows} if self.rows != _ROWS else {})

    def _width(self) -> int:
        return 1

    def _names(self) -> list[str]:
        return [self.name]

    @property
    def settled(self) -> bool:
        """Whether nothing more can be learned."""
        return self._factor > 0.0

    def _settle(self, values: np.ndarray[Any, Any]) -> None:
        low, centre, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        self._set(centre, (high - low) * 0.7413 or float(values.std()))

    def code(self, cell: Any) -> float:
        """Return the code of a cell that is not missing; 0 while the scale is unknown."""
        code = (self.value(cell) - self.centre) * self._factor
        return code if -CLIP <= code <= CLIP else math.copysign(CLIP, code)

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        return [("", self.code(cell))]

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if cell.__class__ in _PLAIN:
            try:
                code = (self._plain(cell) - self.centre) * self._factor
            except OverflowError:  # of an integer
                code = math.nan
            if -CLIP <= code <= CLIP:  # which NaN is not
                places.append(self.first)
                values.append(code)
                return
        if empty(cell):
            self._put_missing(places, values)
            return
        places.append(self.first)
        values.append(self.code(cell))

    def learned(self) -> Any:
        """Return what was learned, as JSON holds it; None if nothing was."""
        return None if self.given or not self.settled else [self.centre, self.scale]

    def restore(self, learned: Any) -> None:
        """Take what ``learned`` returned; raise ValueError if that cannot be."""
        if learned is not None:
            centre, scale = map(float, learned)
            if self.given or not (math.isfinite(centre) and 0.0 < scale < math.inf):
                raise ValueError(f"{self.name!r} cannot have centre and scale {learned!r}"[:200])
            self._set(centre, scale)
            self._seen = []


class CountEncoder(NumberEncoder):
    """Count or amount of any size: log(1 + x) on a scale of its own."""

    kind = "count"
    _plain = staticmethod(lambda cell: math.log1p(cell) if cell >= 0.0 else math.nan)

    def value(self, cell: Any) -> float:
        """Return the number of a cell before it is put on a scale."""
        count = number_of(cell)
        if count < 0.0:
            raise DataError("expected a number of at least 0", code="negative", value=cell)
        return math.log1p(count)


class BinEncoder(_Measured):
    """Number by intervals, one place each.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether there is a place for missing cells.
    bins : int
        Number of intervals, whose ends are learned: each is to hold the same share of the values.
    edges : sequence of float, optional
        Ends of the intervals, ascending, if they are known. A number belongs to the interval that it begins.
    """

    kind = "bins"

    def __init__(
        self, name: str, first: int, missing: bool = True, bins: int = 8, edges: Sequence[float] | None = None
    ) -> None:
        self.given = edges is not None
        self.edges = [number_of(edge) for edge in (() if edges is None else edges)]
        if self.given and (not self.edges or sorted(set(self.edges)) != self.edges):
            message = f"{name}.edges must be ascending numbers, got {edges!r}"[:200]
            raise ParameterError(message, code="not-ascending", argument=name, value=edges)
        self.bins = len(self.edges) + 1 if self.given else whole_number(bins, f"{name}.bins", 2, 1000)
        self.rows = _ROWS_OF_BIN * self.bins
        super().__init__(name, first, missing)

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        return super().options() | ({"edges": self.edges} if self.given else {"bins": self.bins})

    def _width(self) -> int:
        return self.bins

    def _names(self) -> list[str]:
        if not self.edges:
            return [f"{self.name} bin {i}" for i in range(self.bins)]
        ends = [f"{edge:.4g}" for edge in self.edges]
        between = [f"{ends[i]} <= {self.name} < {ends[i + 1]}" for i in range(len(ends) - 1)]
        listed = [f"{self.name} < {ends[0]}", *between]
        spare = range(len(self.edges) + 1, self.bins)
        return [*distinct([*listed, f"{self.name} >= {ends[-1]}"]), *(f"{self.name} bin {i}" for i in spare)]

    @property
    def settled(self) -> bool:
        """Whether nothing more can be learned."""
        return bool(self.edges)

    def _settle(self, values: np.ndarray[Any, Any]) -> None:
        edges = np.unique(np.quantile(values, np.arange(1, self.bins) / self.bins))
        edges = edges[edges > values.min()]
        self.edges = edges.tolist() or [float(values.max())]

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        value = self.value(cell)
        return [(str(bisect_right(self.edges, value)), 1.0)] if self.edges else []

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if empty(cell):
            self._put_missing(places, values)
            return
        value = self.value(cell)
        if self.edges:
            places.append(self.first + bisect_right(self.edges, value))
            values.append(1.0)

    def learned(self) -> Any:
        """Return what was learned, as JSON holds it; None if nothing was."""
        return None if self.given else self.edges or None

    def restore(self, learned: Any) -> None:
        """Take what ``learned`` returned; raise ValueError if that cannot be."""
        if learned is not None:
            edges = [float(edge) for edge in learned]
            if self.given or not edges or len(edges) >= self.bins or sorted(set(edges)) != edges:
                raise ValueError(f"{self.name!r} cannot have the edges {learned!r}"[:200])
            self.edges, self._seen = edges, []


class CycleEncoder(CellEncoder):
    """Number that starts anew after a period, such as the hour of a day: its sine and cosine.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        First place.
    missing : bool
        Whether there is a place for missing cells.
    period : float
        Length of the period.
    """

    kind = "cycle"

    def __init__(self, name: str, first: int, missing: bool = True, period: float = 24.0) -> None:
        super().__init__(name, first, missing)
        self.period = positive(period, f"{name}.period")
        self._speed = 2.0 * math.pi / self.period

    def options(self) -> dict[str, Any]:
        """Return the declaration."""
        return super().options() | {"period": self.period}

    def _width(self) -> int:
        return 2

    def _names(self) -> list[str]:
        return [f"{self.name} sin", f"{self.name} cos"]

    def _angle(self, cell: Any) -> float:
        number = cell if cell.__class__ is int and -(2**53) < cell < 2**53 else number_of(cell)
        return math.fmod(number, self.period) * self._speed

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        angle = self._angle(cell)
        return [("sin", math.sin(angle)), ("cos", math.cos(angle))]

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if empty(cell):
            self._put_missing(places, values)
            return
        angle = self._angle(cell)
        places += (self.first, self.first + 1)
        values += (math.sin(angle), math.cos(angle))


class TimeEncoder(CellEncoder):
    """Moment: sine and cosine of the time of the day and of the time of the week.

    A cell is a datetime (by its own clock), a date, a text that ``datetime.fromisoformat`` reads, or seconds since 1970
    (UTC). A number of at most 24 is the hour of a day. What a cell does not say is zero.
    """

    kind = "time"
    PARTS = ("day sin", "day cos", "week sin", "week cos")

    def _width(self) -> int:
        return 4

    def _names(self) -> list[str]:
        return [f"{self.name} {part}" for part in self.PARTS]

    def tokens(self, cell: Any) -> list[Token]:
        """Return labels and values of a cell that is not missing."""
        day, week = _clock(cell)
        values = [(math.sin(angle), math.cos(angle)) if angle is not None else (0.0, 0.0) for angle in (day, week)]
        return list(zip(self.PARTS, [*values[0], *values[1]], strict=True))

    def put(self, cell: Any, places: list[int], values: list[float]) -> None:
        """Append places and values of a cell."""
        if empty(cell):
            self._put_missing(places, values)
            return
        day, week = _clock(cell)
        first = self.first
        if day is not None:
            places += (first, first + 1)
            values += (math.sin(day), math.cos(day))
        if week is not None:
            places += (first + 2, first + 3)
            values += (math.sin(week), math.cos(week))


def _clock(cell: Any) -> tuple[float | None, float | None]:
    """Return the angles of the time of the day and of the time of the week, None for what is not known."""
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, str):
        try:
            cell = datetime.fromisoformat(cell)
        except ValueError:
            raise DataError("expected a time such as '2026-03-01T17:30'", code="not-a-time", value=cell) from None
    if not isinstance(cell, date):  # of which datetime is one
        if isinstance(cell, bool) or not isinstance(cell, _NUMERIC):
            raise DataError("expected a time", code="not-a-time", value=cell)
        seconds = number_of(cell)
        if 0.0 <= seconds <= 24.0:
            return seconds * _DAY, None
        if not abs(seconds) < 1e12:
            raise DataError("expected seconds since 1970, or an hour from 0 to 24", code="not-a-time", value=cell)
        days = seconds / 86400.0 + 3.0  # 1970 began on a Thursday
        return (days % 1.0) * 24.0 * _DAY, (days % 7.0) * _WEEK
    if not isinstance(cell, datetime):
        return None, (cell.weekday() + 0.5) * _WEEK
    hours = cell.hour + cell.minute / 60.0 + (cell.second + cell.microsecond * 1e-6) / 3600.0
    return hours * _DAY, (cell.weekday() + hours / 24.0) * _WEEK


def distinct(names: list[str]) -> list[str]:
    """Return names all different: a second one gets its position."""
    known: set[str] = set()
    found = []
    for i, name in enumerate(names):
        found.append(f"{name} ({i})" if name in known else name)
        known.add(name)
    return found
