"""Logs of decisions of bandits, read once and kept in blocks of arrays.

A log is any table (``prudent.data.source.TableSource``), a Journal, or rows: dicts, as a Decision gives them with
a reward added, or tuples (context, arm, reward, propensity). It is read once, in blocks. A binary copy is kept in
memory while it is small, and else in a temporary file, about 8 (D + 5) bytes a row, so that every log can be read
again in bounded memory, even one that comes from a generator.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from .._support.checks import finite_array, items_of, require_scale, whole_number
from .._support.output import plain_cell
from .._support.progress import Progress
from ..data.columns import Cells, TableBlock, as_column
from ..data.context_encoder import ContextEncoder
from ..data.features import NamedValues, Names, read_named
from ..data.source import TableSource
from ..errors import DataError, ParameterError
from ..types import BoolArray, FloatArray, IntArray, TableLike
from .episodes.log import episode_columns

BLOCK = 16_384  # rows read at a time
IN_MEMORY = 2**26  # bytes; a larger copy goes to a file
LARGEST = 1e100  # of rewards and features: products of them are squared
COLUMNS = ("context", "arm", "reward", "propensity", "arms", "time")


class Layout(NamedTuple):
    """Description of a log by the caller.

    Attributes
    ----------
    wide : sequence of str, optional
        Columns that make a context.
    columns : mapping, optional
        Our names of columns and those of the log.
    arms : iterable, optional
        All arms; by default those of the log and of the policy.
    missing_reward : float or "skip", optional
        What an empty reward means; by default it is an error.
    block : int
        Rows read at a time.
    timed : bool
        Whether times are needed.
    features : sequence of str or ContextEncoder, optional
        Features of a bandit: columns that make a context if there is no other; or what makes numbers of contexts.
    independent : bool
        Whether the caller says that rows are independent decisions, also if there is a column of episodes.
    learn : bool
        Whether such an encoder, which is ours then, learns from the log.
    """

    wide: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    arms: Iterable[Any] | None = None
    missing_reward: float | str | None = None
    block: int = BLOCK
    timed: bool = False
    features: Sequence[str] | ContextEncoder | None = None
    independent: bool = False
    learn: bool = False


def feature_columns(features: Any) -> tuple[str, ...] | None:
    """Return the columns that ``features`` names as those that make a context; None if it is not given."""
    return None if features is None else tuple(items_of(features, "features"))


def is_independent(episode: Any) -> bool:
    """Return whether the argument ``episode`` says that rows are independent: it is False, or not given."""
    if episode is not None and episode is not False:
        message = f"episode is {episode!r}, expected False: here rows are independent decisions"
        raise ParameterError(message, code="unknown-option", argument="episode", value=episode)
    return episode is False


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a log, T of them; arms are indices.

    Attributes
    ----------
    rows : int64 [T]
        Numbers of the rows in the log.
    contexts : float64 [T, D]
        Contexts.
    arms : int64 [T]
        Logged arms.
    rewards : float64 [T]
        Rewards.
    chances : float64 [T]
        Propensities of the logged arms; NaN if the log has none.
    times : float64 [T]
        Seconds since 1970; NaN if times are not needed.
    which : int64 [T]
        Number of the set of eligible arms, -1 for all.
    members, ends : int64
        The different sets, one after the other, and where each of them ends.
    """

    rows: IntArray
    contexts: FloatArray
    arms: IntArray
    rewards: FloatArray
    chances: FloatArray
    times: FloatArray
    which: IntArray
    members: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return self.rows.size

    def part(self, chosen: Any) -> Block:
        """Return some of the rows."""
        first = {field.name: getattr(self, field.name)[chosen] for field in fields(self)[:7]}
        return replace(self, **first)

    def sets(self) -> Iterator[tuple[IntArray | None, IntArray]]:
        """Yield each set of eligible arms, None for all, with the rows [M] of the block that have it."""
        for number in np.unique(self.which).tolist():
            begin = self.ends[number - 1] if number > 0 else 0
            members = None if number < 0 else self.members[begin : self.ends[number]]
            yield members, np.flatnonzero(self.which == number)

    def eligible(self, size: int) -> BoolArray | None:
        """Return which of so many arms are eligible in each row, [T,A]; None if all are in all rows."""
        if (self.which < 0).all():
            return None
        mask = np.ones((len(self), size), dtype=np.bool_)
        for members, rows in self.sets():
            if members is not None:
                mask[rows] = np.isin(np.arange(size), members)
        return mask


class BanditLog:
    """A log that was read; ``blocks`` goes through it as often as needed, until it is closed.

    Parameters
    ----------
    log : TableLike or Journal
        The log.
    layout : Layout
        Its description.
    first_arms : iterable, default=()
        Arms that the caller has, in order.

    Attributes
    ----------
    arms : tuple
        Names of the arms: first those that the caller has, then others, sorted.
    n, left_out, rows : int
        Rows that are used, rows without a reward, and all rows.
    counts : int64 [A]
        How often each arm was logged.
    dim : int
        Number of features D.
    features : tuple of str or None
        Names of the features.
    columns : list
        Names of the columns of the log.
    has_propensities : bool
        Whether the log has propensities.
    lowest, highest, mean : float
        Range and mean of the rewards.
    binary : bool
        Whether every reward is 0 or 1.
    """

    def __init__(self, log: TableLike, layout: Layout, first_arms: Iterable[Any] = ()) -> None:
        size = whole_number(layout.block, "block")
        rows = getattr(log, "rows", None)  # of a Journal
        source = TableSource(rows() if callable(rows) else log, "log")
        reader = _Reader(layout, first_arms, source.is_text)
        self._copy = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # lives as long as the log
        self._blocks: list[int] = []  # where each begins
        self.n = self.rows = 0
        self.lowest, self.highest, self.binary, self.mean = np.inf, -np.inf, True, 0.0
        counted: Counter[int] = Counter()
        try:
            with closing(Progress("reading the log")) as line:
                for table in source.blocks(size, COLUMNS):
                    block = reader.block(table)
                    self.rows += table.size
                    if len(block):
                        self._keep(block)
                        counted.update(dict(enumerate(np.bincount(block.arms).tolist())))
                    line.show(f"{self.rows:,} rows")
            if not self.n:
                none = f"none of the {self.rows} rows of log has a reward"
                raise DataError(none if self.rows else "log is empty: it has no rows", code="no-rows", argument="log")
            require_scale((self.lowest, self.highest), "evaluation of a log", error=DataError)
        except BaseException:
            self.close()
            raise
        self.left_out = self.rows - self.n
        self.arms, self._order = reader.settled()
        self.dim, self.columns, self.has_propensities = reader.dim or 0, reader.columns, reader.has_propensities
        self.features = reader.features
        if self.features is None and callable(rows):
            self.features = getattr(getattr(log, "bandit", None), "features", None)
        self.encoder: ContextEncoder | None = reader.encoder if reader.encoded else None
        if self.encoder is None and callable(rows):
            self.encoder = getattr(getattr(log, "bandit", None), "encoder", None)
        self.counts = np.zeros(len(self.arms), dtype=np.int64)
        self.counts[self._order[list(counted)]] = list(counted.values())

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, block: Block) -> None:
        self.n += len(block)
        self.mean += (float(block.rewards.mean()) - self.mean) * (len(block) / self.n)
        self.lowest = min(self.lowest, float(block.rewards.min()))
        self.highest = max(self.highest, float(block.rewards.max()))
        self.binary = self.binary and bool(((block.rewards == 0.0) | (block.rewards == 1.0)).all())
        try:
            self._blocks.append(self._copy.tell())
            arrays = [getattr(block, field.name) for field in fields(block)]
            pickle.dump(arrays, self._copy, protocol=5)  # a file without a name, which nobody else can write
        except OSError as error:
            message = f"log does not fit into {tempfile.gettempdir()}: {error}; set TMPDIR"
            raise DataError(message, code="no-space", argument="log") from error

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, in order."""
        for begin in self._blocks:
            self._copy.seek(begin)
            block = Block(*pickle.load(self._copy))
            yield replace(block, arms=self._order[block.arms], members=self._order[block.members])

    def reward_range(self, given: Sequence[float] | None) -> tuple[float, float]:
        """Return the range of rewards that the caller gives, else 0 to 1 for a log of these, else that of the log."""
        seen = (self.lowest, self.highest)
        if given is None:
            return (0.0, 1.0) if self.binary else seen
        ends = finite_array(given, "reward_range", ndim=1, error=ParameterError).tolist()
        if len(ends) != 2 or not 0.0 < ends[1] - ends[0] < np.inf:
            message = f"reward_range must be the lowest and the highest possible reward, got {given!r}"
            raise ParameterError(message, code="wrong-range", argument="reward_range", value=given)
        require_scale(ends, "evaluation of a log", error=ParameterError)
        low, high = ends
        if self.lowest < low or self.highest > high:
            message = f"rewards go from {self.lowest} to {self.highest}, beyond reward_range {(low, high)}"
            raise DataError(message, code="reward-range", argument="reward_range", value=seen, expected=(low, high))
        return low, high

    def require_contexts(self, what: str) -> None:
        """Raise if the log has no contexts, which ``what`` needs."""
        if not self.dim:
            message = (
                f"{what} needs contexts, and log has no column 'context'; name the columns of features: "
                f"features=[...]; its columns are {self.columns}"
            )
            raise ParameterError(message, code="missing-column", argument="log", column="context")

    def index(self, name: Any) -> int:
        """Return the index of an arm, or -1."""
        plain = _plain(name)
        return self.arms.index(plain) if plain in self.arms else -1


# -- from columns to blocks --------------------------------------------------------------------------------


class _Reader:
    """Checks tables and makes blocks of them; learns the names of the arms on the way."""

    def __init__(self, layout: Layout, arms: Iterable[Any], text: bool) -> None:
        self._layout, self._text = layout, text
        if layout.columns is not None and not isinstance(layout.columns, Mapping):
            message = f"columns must be a mapping such as {{'arm': 'action'}}, got {layout.columns!r}"[:300]
            raise ParameterError(message, code="wrong-type", argument="columns")
        renamed = dict(layout.columns or {})
        for name in renamed:
            if name not in COLUMNS:
                message = f"columns names {name!r}, expected some of {list(COLUMNS)}"
                raise ParameterError(message, code="unknown-option", argument="columns", value=name)
        self._names = dict(zip(COLUMNS, COLUMNS, strict=True)) | renamed
        self.features: Names | None = None
        self.encoder = layout.features if isinstance(layout.features, ContextEncoder) else None
        self.encoded = False  # whether the encoder was used
        missing = layout.missing_reward
        is_number = isinstance(missing, Real) and not isinstance(missing, bool) and np.isfinite(float(missing))
        if not (missing is None or is_number or (isinstance(missing, str) and missing == "skip")):
            message = f"missing_reward must be None, 'skip' or a number, got {missing!r}"
            raise ParameterError(message, code="unknown-option", argument="missing_reward", value=missing)
        self._index: dict[Any, int] = {}
        declared = arms if layout.arms is None else layout.arms
        if isinstance(declared, str):
            message = f"arms must be a list of arms, got the string {declared!r}"
            raise ParameterError(message, code="wrong-type", argument="arms", value=declared)
        for name in items_of(declared, "arms"):
            if not isinstance(name, Hashable):
                message = f"arms has {name!r}, expected a name"[:300]
                raise ParameterError(message, code="wrong-type", argument="arms")
            self._index.setdefault(_plain(name), len(self._index))
        self._declared = len(self._index)
        self.dim: int | None = None
        self.has_propensities = False
        self.columns: list[Any] = []

    def settled(self) -> tuple[tuple[Any, ...], IntArray]:
        """Return the arms in their final order, and the final index of each in the order of their occurrence."""
        names = list(self._index)
        later = sorted(names[self._declared :], key=lambda name: (isinstance(name, str), name))
        final = names[: self._declared] + later
        index = {name: i for i, name in enumerate(final)}
        return tuple(final), np.array([index[name] for name in names], dtype=np.int64)

    def block(self, table: TableBlock) -> Block:
        """Return the rows of a table that have a reward."""
        self.columns, count = list(table.columns), table.size
        self._refuse_episodes()
        cells = self._column(table, "reward")
        rewards, empty = _numbers(cells), _series(cells).isna().to_numpy()
        self._require(table, empty | (np.abs(rewards) <= LARGEST), "reward", f"a number of at most {LARGEST:g}")
        missing = self._layout.missing_reward
        if empty.any() and missing is None:
            message = (
                "there is no reward; give missing_reward='skip' to leave such rows out, which is right if whether a "
                "reward is observed does not depend on its value, or a number to use in its place"
            )
            raise table.fault(int(np.argmax(empty)), message, "missing-value", column="reward")
        keep = ~empty if isinstance(missing, str) else np.ones(count, dtype=np.bool_)
        if isinstance(missing, Real):
            rewards = np.where(empty, float(missing), rewards)
        contexts = self._contexts(table)
        arms = self._arms(table)
        which, members, ends = self._sets(table, arms)
        chances = np.full(count, np.nan)
        self.has_propensities = self._names["propensity"] in table.columns
        if self.has_propensities:
            chances = _numbers(self._column(table, "propensity"))
            self._require(table, (chances > 0.0) & (chances <= 1.0 + 1e-9), "propensity", "a probability above 0")
        rows = np.arange(table.first, table.first + count)
        times = self._times(table) if self._layout.timed else np.full(count, np.nan)
        return Block(rows, contexts, arms, rewards, chances, times, which, members, ends).part(keep)

    def _refuse_episodes(self) -> None:
        """Raise if the log has a column of episodes and nobody says that rows are independent."""
        found = [] if self._layout.independent else episode_columns(self.columns)
        found = [name for name in found if name not in self._names.values()]
        if found:
            message = (
                f"log has the column {found[0]!r}: if its rows follow each other in episodes, use "
                f"off_policy(log, policy, discount=..., episode={found[0]!r}); if they are independent decisions, say "
                "so: episode=False"
            )
            raise DataError(message, code="episodes", argument="episode", column=found[0])

    def _column(self, table: TableBlock, name: str) -> Cells:
        wanted = self._names[name]
        return _cells(table, wanted, f"; if it has another name: columns={{{name!r}: ...}}" if wanted == name else "")

    def _require(self, table: TableBlock, good: Any, name: str, expected: str, cells: Cells = None) -> None:
        """Raise for the first row that is not good."""
        if not good.all():
            row = int(np.argmin(good))
            value = (self._column(table, name) if cells is None else cells)[row]
            value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            message = f"{name} is {value!r}, expected {expected}"
            raise table.fault(row, message, "value-range", column=name, value=value, expected=expected)

    def _times(self, table: TableBlock) -> FloatArray:
        """Return a column of times, seconds or dates with times, as seconds since 1970."""
        import pandas

        column = _series(self._column(table, "time"))
        if not pandas.api.types.is_numeric_dtype(column):
            dates = pandas.to_datetime(column, utc=True, errors="coerce") - pandas.Timestamp(0, tz="UTC")
            column = dates.dt.total_seconds()
        seconds: FloatArray = column.to_numpy(np.float64)
        self._require(table, np.isfinite(seconds), "time", "a time")
        return seconds

    def _contexts(self, table: TableBlock) -> FloatArray:
        context: Any = self._layout.wide
        if context is None and self._names["context"] in table.columns:
            context = self._names["context"]
        elif context is None:
            theirs = {str(name): name for name in table.columns}
            features = self._layout.features
            if isinstance(features, ContextEncoder):
                cells = {name: list(_cells(table, theirs[name])) for name in features.columns if name in theirs}
                return self._with_names(self._encoded(table, cells) if cells else np.empty((table.size, 0)))
            context = [theirs.get(name, name) for name in features or ()]
            if not any(name in table.columns for name in context):  # it has no contexts at all
                return np.empty((table.size, 0))
        if not isinstance(context, str):
            points = np.empty((table.size, len(context)))
            for i, name in enumerate(context):
                points[:, i] = _numbers(_cells(table, name))
                self._require(table, np.isfinite(points[:, i]), name, "a finite number", table.columns[name])
            self.features = tuple(map(str, context))
        else:
            points, self.features = self._points(table, _cells(table, context))
        return self._with_names(points) if self.encoded else self._checked(table, points)

    def _checked(self, table: TableBlock, points: FloatArray) -> FloatArray:
        """Return contexts; raise unless they are as long as before and not too large."""
        if self.dim is None:
            self.dim = points.shape[1]
        if points.shape[1] != self.dim:
            message = f"context has {points.shape[1]} features, before it had {self.dim}"
            raise table.fault(0, message, "wrong-shape", column="context")
        small = np.abs(points).max(axis=1, initial=0.0) <= LARGEST
        self._require(table, small, "context", f"numbers of at most {LARGEST:g}", points)
        return points

    def _encoded(self, table: TableBlock, rows: Any) -> FloatArray:
        """Return contexts with names as numbers."""
        encoder = self.encoder
        assert encoder is not None
        points = (encoder.encode_and_learn if self._layout.learn else encoder.encode)(rows)
        if points is None or points.shape != (table.size, encoder.dim):
            message = "context has no names, and features read columns by name"
            raise table.fault(0, message, "no-names", column="context")
        self.encoded = True
        return points

    def _with_names(self, points: FloatArray) -> FloatArray:
        """Return encoded contexts, whose names are those that the encoder has by now."""
        if self.encoder is not None and self.encoded:
            self.features, self.dim = self.encoder.names, points.shape[1]
        return points

    def _points(self, table: TableBlock, cells: Cells) -> NamedValues:
        """Return a column of contexts as an array [T,D], and the names of the features, if contexts name them."""
        if isinstance(cells, np.ndarray) and (cells.ndim == 2 or cells.dtype.kind in "iufb"):
            points = cells  # a column of numbers is a single feature
        else:
            rows = list(cells)
            if rows and all(isinstance(row, str) for row in rows):
                try:
                    rows = json.loads("[" + ",".join(rows) + "]")
                except ValueError:
                    rows = []
                if len(rows) != len(cells):  # find the row at fault
                    rows = [_parsed(table, i, row, "context") for i, row in enumerate(cells)]
            named = None
            if self.encoder is None:
                named = read_named(rows, self.features, "log.context", first=table.first)
            elif any(isinstance(row, Mapping) for row in rows):
                return NamedValues(self._encoded(table, rows), self.encoder.names)
            if named is not None:
                return named
            widths = [np.size(row) if np.ndim(row) == 1 else -1 for row in rows]
            if -1 in widths or len(set(widths)) > 1:
                row = next(i for i, width in enumerate(widths) if width < 0 or width != widths[0])
                message = f"context is {rows[row]!r}, expected {max(widths[0], 1)} numbers"
                raise table.fault(row, message, "wrong-shape", column="context", value=rows[row])
            points = np.array(rows)
        try:
            points = np.asarray(points, dtype=np.float64).reshape(len(cells), -1 if len(cells) else 0)
        except (TypeError, ValueError, OverflowError):
            for i, row in enumerate(points):
                wrong = ~np.isfinite(_numbers(row))
                if wrong.any():
                    value = np.asarray(row, dtype=object)[wrong][0]
                    message = f"context has {value!r}, expected finite numbers"
                    raise table.fault(i, message, "not-finite", column="context", value=value) from None
            raise DataError("context must hold numbers", code="not-numbers", column="context") from None
        self._require(table, np.isfinite(points).all(axis=1), "context", "finite numbers", points)
        return NamedValues(points, self.features)

    def _arms(self, table: TableBlock) -> IntArray:
        import pandas

        column = _series(self._column(table, "arm"))
        try:
            codes, names = pandas.factorize(column)
        except TypeError:  # a list or an array in place of a name
            for row, name in enumerate(column):
                self._arm_index(name, table, row, "arm")
            raise
        self._require(table, codes >= 0, "arm", "the name of an arm")
        index = [self._arm_index(name, table, int(np.argmax(codes == i)), "arm") for i, name in enumerate(names)]
        return np.array(index, dtype=np.int64)[codes]

    def _arm_index(self, name: Any, table: TableBlock, row: int, what: str) -> int:
        """Return the index of an arm, a new one for a new arm."""
        plain = _plain(name)
        if not isinstance(plain, (str, int)) or isinstance(plain, bool):
            message = f"{what} is {name!r}, expected a string or a whole number"
            raise table.fault(row, message, "wrong-type", column=what, value=name)
        if plain not in self._index and self._text:
            # a text file does not tell the arm '1' from the arm 1: it is the one that is known
            twin = str(plain) if isinstance(plain, int) else int(plain) if plain.isdecimal() else plain
            plain = twin if twin in self._index else plain
            if isinstance(plain, str) and plain[:1] == "'" and plain_cell(plain[1:]) == plain:
                plain = plain[1:]  # an apostrophe of ours, for spreadsheets
        if plain not in self._index:
            if self._layout.arms is not None:
                message = f"{what} is {plain!r}, which is not one of arms {list(self._index)}"
                raise table.fault(row, message, "unknown-arm", column=what, arm=plain)
            self._index[plain] = len(self._index)
        return self._index[plain]

    def _sets(self, table: TableBlock, arms: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the number of the set of eligible arms of each row, the sets, and where each of them ends."""
        import pandas

        cells = table.columns.get(self._names["arms"])
        if cells is None:
            return np.full(table.size, -1), *np.empty((2, 0), dtype=np.int64)
        which = np.empty(table.size, dtype=np.int64)
        seen: dict[Hashable, int] = {}
        sets: list[list[int]] = []
        for i, eligible in enumerate(cells):
            if eligible is None or eligible is pandas.NA or (isinstance(eligible, float) and np.isnan(eligible)):
                which[i] = -1
                continue
            try:
                key = eligible if isinstance(eligible, str) else tuple(eligible)
            except TypeError:
                message = f"arms is {eligible!r}, expected a list of arms"
                raise table.fault(i, message, "wrong-type", column="arms", value=eligible) from None
            number = seen.get(key)
            if number is None:
                names = _parsed(table, i, key, "arms") if isinstance(key, str) else key
                members = [self._arm_index(name, table, i, f"arms[{j}]") for j, name in enumerate(names)]
                if not members or len(set(members)) < len(members):
                    message = f"arms is {eligible!r}, expected different arms, at least one"
                    raise table.fault(i, message, "duplicate-name", column="arms", value=eligible)
                number = seen[key] = len(sets)
                sets.append(members)
            which[i] = number
            if arms[i] not in sets[number]:
                shown = key if isinstance(key, str) else list(key)
                message = f"the logged arm is not among the eligible arms {shown}"
                raise table.fault(i, message, "ineligible-arm", column="arms", value=shown)
        ends = np.cumsum([len(members) for members in sets], dtype=np.int64)
        return which, np.array([arm for members in sets for arm in members], dtype=np.int64), ends


def _plain(name: Any) -> Any:
    """Return NumPy's strings and integers as Python's own, and 3 for 3.0, which an empty cell makes of a column."""
    plain = name.item() if isinstance(name, np.generic) else name
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _cells(table: TableBlock, name: Any, hint: str = "") -> Cells:
    """Return the cells of a column."""
    if not isinstance(name, Hashable) or name not in table.columns:
        message = f"log has no column {name!r}{hint}; its columns are {list(table.columns)}"
        raise DataError(message, code="missing-column", argument="log", column=name)
    return table.columns[name]


def _series(cells: Cells) -> Any:
    """Return a column as a Series of pandas, in which a number beside strings stays a number."""
    import pandas

    return pandas.Series(as_column(cells)).infer_objects()


def _numbers(cells: Cells) -> FloatArray:
    """Return a column of numbers, NaN where a cell is none."""
    import pandas

    return np.asarray(pandas.to_numeric(_series(cells), errors="coerce"), dtype=np.float64)


def _parsed(table: TableBlock, row: int, text: str, what: str) -> list[Any]:
    """Return a list that is written as JSON."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        message = f"{what} is {text!r}, expected a list as JSON writes it: [1.0, 2.5]"
        raise table.fault(row, message, "wrong-format", column=what, value=text)
    return values
