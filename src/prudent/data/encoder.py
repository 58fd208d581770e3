"""Features: from rows as people have them (dicts, tables, records) to the numbers that a bandit learns from.

A row becomes a vector of fixed length with named places; ``cell_encoders`` has the mathematics of the columns. What an
encoder learns are events (a scale is settled, a category gets a slot), and no event changes the meaning of a place that
was different from zero before. So vectors that were encoded earlier stay right, and coefficients that were learned by
place as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Self, TypeVar

from .._support.checks import FloatArray, flag, one_of
from ..display.words import visible
from ..errors import DataError, ParameterError
from ..types import ContextLike, TableLike
from .cell_encoders import CellEncoder, number_of
from .context_encoder import ContextEncoder, FitMethod
from .feature_rows import Sparse, rows_of, sample_rows
from .features import Names, shown
from .slot_encoders import KINDS, CrossEncoder, SlotEncoder, options_of

_VERSION = 1
Code = TypeVar("Code")


class Features(ContextEncoder):
    """Columns of contexts and how they become numbers: categories, tags, counts, times, missing values, crosses.

    Give it to a bandit as ``features=``; the bandit keeps a copy. Columns learn their scales and categories from the
    contexts that the bandit sees, or from a sample before, by ``fit``.

    Parameters
    ----------
    columns : mapping of str to str or mapping, optional
        Kinds of columns by name, as an alternative to keyword arguments, for names that are no identifiers.
    cross : sequence, optional
        Products: tuples of names of columns, or mappings ``{"columns": (...), "slots": 32, "shared": 8}``.
    extra : {"refuse", "ignore"}, default="refuse"
        What to do with columns of a context that are not declared.
    **named : str or mapping
        Kind of each column: ``"number"``, ``"flag"`` (0 or 1, taken as it is), ``"count"`` (its logarithm), ``"bins"``
        (intervals), ``"category"``, ``"tags"`` (several in one cell), ``"time"`` (a moment), ``"hour"``, ``"weekday"``,
        ``"month"`` or ``"cycle"`` (numbers that start anew after a period). With options it is a mapping such as
        ``{"kind": "category", "slots": 60}``.

    Raises
    ------
    ParameterError
        If a kind or an option is unknown, or a cross names a column that is not declared.

    See Also
    --------
    LinearBandit, SharedLinearBandit

    Notes
    -----
    A column that a row lacks is missing there, as None and NaN are. Options are ``missing`` (whether a place says so),
    ``centre``, ``scale`` and ``rows`` of numbers and counts, ``bins`` or ``edges`` of intervals, ``period`` of cycles,
    ``slots``, ``shared`` and ``values`` of categories and tags, and ``separator`` of tags.

    Examples
    --------
    >>> features = Features(country="category", price={"kind": "number", "centre": 50.0, "scale": 20.0})
    >>> features.learn({"country": "DE", "price": 70.0}).transform({"country": "DE", "price": 70.0}).nonzero()[0]
    array([ 0, 21])
    >>> features.names[0], features.names[1], features.names[21], features.dim
    ('country=DE', 'country slot 1', 'price', 23)
    >>> sample = [{"device": "phone", "visits": 3}, {"device": "tablet", "visits": 250}]
    >>> Features.fit(sample).declared()
    {'device': 'category', 'visits': 'count'}
    """

    fit = FitMethod()

    def __init__(
        self,
        columns: Mapping[str, Any] | None = None,
        /,
        *,
        cross: Sequence[Any] = (),
        extra: str = "refuse",
        **named: str | Mapping[str, Any],
    ) -> None:
        self._extra = one_of(extra, "extra", ("refuse", "ignore"))
        self._frozen = False
        self._encoders: list[CellEncoder] = []
        self._crosses: list[tuple[CrossEncoder, tuple[str, ...]]] = []
        self._first = 0
        self._names: Names | None = None
        for name, spec in {**(columns or {}), **named}.items():
            self._add(str(name), spec)
        if not self._encoders:
            message = "columns are missing: declare at least one, such as country='category'; or Features.fit(rows)"
            raise ParameterError(message, code="missing-argument", argument="columns")
        self._by_name = {one.name: one for one in self._encoders}
        self._known, self._kinds = frozenset(self._by_name), self.declared()
        if not isinstance(cross, (list, tuple)):
            message = f"cross must be a list of tuples of columns, got {cross!r:.80}"
            raise ParameterError(message, code="wrong-type", argument="cross", value=cross)
        for i, spec in enumerate(cross):
            self._add_cross(spec, f"cross[{i}]")
        self._settle()

    # -- declaration ---------------------------------------------------------------------------------------

    def _add(self, name: str, spec: Any) -> None:
        options = {"kind": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}
        kind = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            message = f"{name} is {spec!r}, expected one of {', '.join(KINDS)}, or a mapping with such a kind"
            raise ParameterError(message, code="unknown-kind", argument=name, value=spec, expected=tuple(KINDS))
        encoder, defaults = KINDS[kind]
        try:
            made = encoder(name, self._first, **(defaults | options))
        except TypeError:
            known = options_of(encoder)
            wrong = [option for option in options if option not in known]
            message = f"{name} is a {kind} with the options {wrong or options}; there are {', '.join(known)}"
            raise ParameterError(message, code="unknown-option", argument=name, value=wrong) from None
        except DataError as fault:
            value = fault.fields["value"]
            message = f"{name} has the option {value!r:.80}, {fault}"
            raise ParameterError(message, code="not-a-number", argument=name, value=value) from None
        self._encoders.append(made)
        self._first += made.width

    def _add_cross(self, spec: Any, where: str) -> None:
        options = dict(spec) if isinstance(spec, Mapping) else {"columns": spec}
        listed = options.pop("columns", ())
        names = tuple(listed) if isinstance(listed, (tuple, list)) else (listed,)
        for name in names:
            if not isinstance(name, str) or name not in self._by_name:
                message = f"{where} names {name!r}, which is not one of the columns {shown(self.columns)}"
                raise ParameterError(message, code="unknown-name", argument=where, value=name)
        if len(names) < 2 or len(set(names)) < len(names) or not options.keys() <= {"slots", "shared"}:
            message = f"{where} must be two or more columns, such as ('country', 'device'), got {spec!r}"
            raise ParameterError(message, code="wrong-type", argument=where, value=spec)
        made = CrossEncoder([self._by_name[name] for name in names], self._first, **options)
        self._crosses.append((made, names))
        self._first += made.width

    def declared(self) -> dict[str, Any]:
        """Return the kinds of the columns.

        Returns
        -------
        dict of str to str
            Kinds by name.
        """
        return {one.name: one.kind for one in self._encoders}

    @property
    def columns(self) -> Names:
        """Names of the columns that are read."""
        return tuple(one.name for one in self._encoders)

    def spans(self) -> dict[str, slice]:
        """Return the places that each column has for itself, without crosses.

        Returns
        -------
        dict of str to slice
            Places of an encoded row by column.
        """
        return {one.name: slice(one.first, one.first + one.width) for one in self._encoders}

    @property
    def dim(self) -> int:
        """Number of places D of an encoded row."""
        return self._first

    @property
    def names(self) -> Names:
        """Names of the places; that of a slot says so until a category gets it."""
        if self._names is None:
            found: dict[str, None] = {}
            for one in self._all():
                for name in one.names():
                    while name in found:
                        name = f"{name} ({len(found)})"  # until it is a new one
                    found[name] = None
            self._names = tuple(found)
        return self._names

    @property
    def frozen(self) -> bool:
        """Whether nothing more is learned."""
        return self._frozen

    @property
    def digest(self) -> str:
        """Hash of declaration and of what was learned, 32 hexadecimal digits: equal ones encode rows equally."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _all(self) -> list[CellEncoder]:
        return [*self._encoders, *(cross for cross, _ in self._crosses)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}={kind!r}" for name, kind in self.declared().items())
        crosses = f", cross={[names for _, names in self._crosses]}" if self._crosses else ""
        return visible(f"Features({columns}{crosses}; dim={self.dim}{', frozen' if self._frozen else ''})")

    # -- encoding ------------------------------------------------------------------------------------------

    def transform(self, rows: ContextLike) -> FloatArray:
        """Return rows as numbers, without learning from them.

        Parameters
        ----------
        rows : mapping, DataFrame, or sequence of mappings
            A row with names, or rows.

        Returns
        -------
        ndarray of float, [D] or [T, D]
            Numbers in the order of ``names``.

        Raises
        ------
        DataError
            If a cell cannot be encoded, or rows have no names.

        Examples
        --------
        >>> Features(hour="hour", vip="flag").transform([{"hour": 6, "vip": True}, {"hour": None, "vip": False}])
        array([[1., 0., 0., 1., 0.],
               [0., 0., 1., 0., 0.]])
        """
        found = self.encode(rows)
        if found is None:
            message = f"rows have no names; the columns are {shown(self.columns)}"
            raise DataError(message, code="no-names", argument="rows")
        return found

    def encode(self, context: ContextLike) -> FloatArray | None:
        """Return a context [D] or rows [T, D] as numbers; None if nothing in it has a name.

        Parameters
        ----------
        context : object
            What ``transform`` takes, or anything else.

        Returns
        -------
        ndarray of float or None
            Numbers.
        """
        found = self.sparse(context)
        return None if found is None else found.dense(self._first)

    def sparse(self, context: ContextLike) -> Sparse | None:
        """Return a context or rows without their zeros; None if nothing in it has a name.

        Parameters
        ----------
        context : object
            What ``transform`` takes, or anything else.

        Returns
        -------
        Sparse or None
            Places and values.
        """
        found = rows_of(context, self._kinds, self._extra)
        if found is None:
            return None
        places: list[list[int]] = []
        values: list[list[float]] = []
        for t, row in enumerate(found.rows):
            some: list[int] = []
            numbers: list[float] = []
            get = row.get
            if self._extra == "refuse" and not row.keys() <= self._known:
                at = None if found.single else t
                if not self._take_by_output(row, some, numbers, at):
                    self._refuse(row, at)
                places.append(some)
                values.append(numbers)
                continue
            one: CellEncoder | None = None
            try:
                for one in self._encoders:
                    one.put(get(one.name), some, numbers)
                for one, names in self._crosses:
                    one.put([get(name) for name in names], some, numbers)
            except DataError as fault:
                assert one is not None
                at = None if found.single else t
                raise self._fault(fault, one.column_of(fault.fields["value"], row), at) from None
            places.append(some)
            values.append(numbers)
        return Sparse(places, values, found.single)

    def _take_by_output(self, row: Mapping[str, Any], places: list[int], values: list[float], t: int | None) -> bool:
        """Append what a row that names the places says, as exported logs do; return whether it does."""
        if row.keys() != set(self.names):
            return False
        places += range(self._first)
        for name in self.names:
            try:
                values.append(number_of(row[name]))
            except DataError as fault:
                raise self._fault(fault, name, t) from None
        return True

    def _fault(self, fault: DataError, column: str, t: int | None) -> DataError:
        """Return the error of a cell with what only the row knows: column and index."""
        where, cell = "context" if t is None else f"context[{t}]", fault.fields.pop("value")
        large = isinstance(cell, int) and not -(2**63) <= cell < 2**63  # which may have too many digits to be shown
        shortened = "a number out of range" if large else repr(cell)[:80]
        index = {} if t is None else {"index": (t,)}
        fault.args = (f"{where}[{column!r}] is {shortened}, {fault}",)
        fault.fields = {"argument": "context", "column": column, "value": shortened, **index}
        return fault

    def _refuse(self, row: Mapping[str, Any], t: int | None) -> None:
        more = [str(name) for name in row if name not in self._known]
        where = "context" if t is None else f"context[{t}]"
        message = (
            f"{where} has {shown(more)} besides the columns {shown(self.columns)}. Declare them, leave them out, or "
            "use extra='ignore'"
        )
        raise DataError(message, code="different-features", argument="context", missing=[], unknown=more)

    # -- learning ------------------------------------------------------------------------------------------

    def encode_and_learn(self, context: ContextLike) -> FloatArray | None:
        """Learn from contexts, unless frozen, and return them as numbers; None if nothing in them has a name.

        Parameters
        ----------
        context : object
            What ``transform`` takes, or anything else.

        Returns
        -------
        ndarray of float or None
            Numbers, of a context [D] or rows [T, D]. All rows are encoded after all were learned from.
        """
        return self.learning(self.encode, context)

    def learning(self, code: Callable[[ContextLike], Code], context: ContextLike) -> Code:
        """Learn from contexts, unless frozen, and return their code.

        Parameters
        ----------
        code : callable
            Method ``encode`` or ``sparse`` of these features.
        context : object
            What ``transform`` takes, or anything else.

        Returns
        -------
        object
            What `code` returns after learning.
        """
        for slot in self._open_slots:
            slot.missed = False
        found = code(context)
        new = self._open_numbers or any(slot.missed for slot in self._open_slots)
        return code(context) if found is not None and new and self._look(context, take=True) else found

    def _settle(self) -> None:
        """Bring up to date what depends on what was learned."""
        self._names = None
        waiting = [] if self._frozen else [one for one in self._all() if not one.settled]
        self._open_slots = [one for one in waiting if isinstance(one, SlotEncoder)]
        self._open_numbers = len(waiting) > len(self._open_slots)

    def notice(self, context: ContextLike) -> bool:
        """Collect what contexts tell of scales; return whether there is something to learn from them.

        Parameters
        ----------
        context : object
            What ``transform`` takes, or anything else.

        Returns
        -------
        bool
            Whether ``learn`` would change how rows are encoded.
        """
        return self._look(context, take=False)

    def learn(self, context: ContextLike) -> Self:
        """Learn scales and categories from contexts, unless frozen.

        Parameters
        ----------
        context : mapping, DataFrame, or sequence of mappings
            A row with names, or rows; anything else is left alone.

        Returns
        -------
        Features
            The features themselves.

        Raises
        ------
        DataError
            If a cell cannot be encoded.
        """
        self._look(context, take=True)
        return self

    def _look(self, context: Any, take: bool) -> bool:
        if not self._open_numbers and not self._open_slots:
            return False
        open_ones = [(one, one.name) for one in self._encoders if not one.settled]
        open_crosses = [(cross, names) for cross, names in self._crosses if not cross.settled]
        found = rows_of(context, self._kinds, self._extra)
        changed = False
        for t, row in enumerate([] if found is None else found.rows):
            one: CellEncoder | None = None
            get = row.get
            try:
                for one, name in open_ones:
                    cell = get(name)
                    if one.notice(cell):
                        changed = True
                        if take:
                            one.take(cell)
                for one, names in open_crosses:
                    cells = [get(name) for name in names]
                    if one.notice(cells):
                        changed = True
                        if take:
                            one.take(cells)
            except DataError as fault:
                assert one is not None
                at = t if found and not found.single else None
                raise self._fault(fault, one.column_of(fault.fields["value"], row), at) from None
        if changed and take:
            self._settle()
        return changed

    def fit_sample(self, rows: TableLike) -> Self:
        """Learn scales and categories of the declared columns from a sample: ``fit`` of an instance.

        Parameters
        ----------
        rows : TableLike
            The sample.

        Returns
        -------
        Features
            The features themselves.

        Raises
        ------
        DataError
            If the sample is empty, or a column holds what cannot be encoded.
        """
        sample = sample_rows(rows)
        for one in self._encoders:
            self._fit_one(one, [row.get(one.name) for row in sample])
        for cross, names in self._crosses:
            self._fit_one(cross, [[row.get(name) for name in names] for row in sample])
        self._settle()
        return self

    def _fit_one(self, one: CellEncoder, cells: list[Any]) -> None:
        try:
            one.fit(cells)
        except DataError as fault:
            raise self._fault(fault, one.name, None) from None

    def freeze(self) -> Self:
        """Stop learning: the code of a row never changes from now on.

        New categories go to shared places. A number whose scale is unknown gets that of the values seen so far; if
        there are not two different ones, it stays zero.

        Returns
        -------
        Features
            The features themselves.

        Examples
        --------
        >>> features = Features(price="number").learn([{"price": 10.0}, {"price": 30.0}]).freeze()
        >>> features.frozen, features.transform({"price": 20.0})
        (True, array([0., 0.]))
        """
        if not self._frozen:
            for one in self._all():
                if not one.settled and len(set(one.seen)) > 1:
                    one.take(None)
            self._frozen = True
            self._settle()
        return self

    def copy(self) -> Features:
        """Return features that learn by themselves from now on.

        Returns
        -------
        Features
            An independent copy.
        """
        return deepcopy(self)

    # -- state ---------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, Any]:
        """Return what was learned, as JSON holds it.

        Returns
        -------
        dict
            ``columns`` and ``cross``: centre and scale, ends of intervals, or categories in the order of their slots;
            and ``frozen``.
        """
        columns = {one.name: one.learned() for one in self._encoders}
        return {
            "columns": {name: value for name, value in columns.items() if value is not None},
            "cross": [cross.learned() for cross, _ in self._crosses],
            "frozen": self._frozen,
        }

    def take(self, learned: Mapping[str, Any]) -> Self:
        """Take what ``learned`` of features with the same declaration returned.

        Parameters
        ----------
        learned : mapping
            What it returned.

        Returns
        -------
        Features
            The features themselves.

        Raises
        ------
        DataError
            If it is not that of such features.
        """
        before = deepcopy(self.__dict__)
        try:
            columns, crosses = dict(learned["columns"]), list(learned["cross"])
            if not columns.keys() <= self._known or len(crosses) != len(self._crosses):
                raise ValueError("it has other columns")
            for one in self._encoders:
                one.restore(columns.get(one.name))
            for (cross, _), value in zip(self._crosses, crosses, strict=True):
                cross.restore(value)
            self._frozen = flag(learned["frozen"], "frozen")
        except (KeyError, TypeError, ValueError) as error:
            self.__dict__.update(before)
            message = f"learned is not what such features have learned: {error}"
            raise DataError(message, code="wrong-format", argument="learned") from None
        self._settle()
        return self

    def seen(self) -> dict[str, Any]:
        """Return values that were noticed before there were enough for a scale, as JSON holds them.

        Returns
        -------
        dict of str to list of float
            Values by column.
        """
        return {one.name: list(one.seen) for one in self._encoders if one.seen}

    def resume(self, seen: Mapping[str, Any]) -> Self:
        """Take what ``seen`` returned.

        Parameters
        ----------
        seen : mapping of str to list of float
            Values by column.

        Returns
        -------
        Features
            The features themselves.
        """
        for name, values in seen.items():
            if name in self._by_name:
                self._by_name[name].seen = values
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return declaration and what was learned, as JSON holds it.

        Returns
        -------
        dict
            What ``from_dict`` reads.
        """
        return {
            "format": "features",
            "version": _VERSION,
            "columns": {one.name: one.options() for one in self._encoders},
            "cross": [cross.options() for cross, _ in self._crosses],
            "extra": self._extra,
            "learned": self.learned(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the features that ``to_dict`` was called on.

        Parameters
        ----------
        values : mapping
            What it returned.

        Returns
        -------
        Features
            Features that encode rows equally.

        Raises
        ------
        DataError
            If it is no such mapping, or of another version.

        Examples
        --------
        >>> features = Features(country="category").learn({"country": "DE"})
        >>> Features.from_dict(features.to_dict()) == features
        True
        """
        try:
            version, columns, learned = values["version"], values["columns"], values["learned"]
            if version == _VERSION:
                return cls(columns, cross=values["cross"], extra=values["extra"]).take(learned)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"values are not those of features: {error!r}", code="wrong-format", argument="values"
            ) from None
        message = f"values have the version {version!r}, this prudent reads {_VERSION}"
        raise DataError(message, code="wrong-version", argument="values", value=version, expected=_VERSION)
