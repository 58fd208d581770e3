"""State maps: columns of numbers and categories become states, by rules that are learned from a log.

There are four methods. *Cuts* are given. *Quantiles* cut every column into bins with about as many rows. A *tree* is
grown on what matters: with mu the policy of the log, its targets are the mean return after each action, the
probability of each action, and the features one step later, all of them smoothed by a forest of trees. So the rows of
a state agree in what actions lead to and in how they were chosen; the second is needed, since an action that was
chosen for a reason within the state would otherwise be judged by that reason. *Clusters* are found by k-means.

What a row's state is depends on its own features alone: never on its reward or on what came later. Rules are plain
values (``state_rules``), which JSON holds and plain Python evaluates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import one_of, positive, require_scale, whole_number
from ..errors import DataError, ParameterError, StateFileError
from ..types import BoolArray, FloatArray, IntArray, TableLike
from .columns import TableColumns
from .feature_columns import Feature, feature_of, read_feature_columns
from .flow import flow_of
from .labels import Column, object_array
from .state_growth import FORMAT, Sample, grow
from .state_rules import locate
from .state_vectors import centre_states, grid_states, leaf_states, numbers_of, term_column

ByFeature = Mapping[str, Any] | tuple[tuple[str, Any], ...]
METHODS = ("tree", "quantiles", "clusters", "cuts")
_MOST = 10**9  # states, and rows of a state
_SLACK = 0.1  # part of the range of a column by which a number may exceed it


class Located(NamedTuple):
    """Where an observation belongs.

    Attributes
    ----------
    state : str
        Name of the state, or of the nearest one.
    unseen : str or None
        Why the log has nothing like this observation; None if it has.
    """

    state: str
    unseen: str | None


@dataclass(frozen=True, repr=False)
class StateMap:
    """A map from columns of a log to states.

    A map is immutable: ``fit`` returns a fitted one. Two maps are equal if their settings and their rules are.

    Parameters
    ----------
    features : sequence of str
        Columns that say what state a row is in.
    method : {"tree", "quantiles", "clusters", "cuts"}, default="tree"
        How states are found: a tree grown on what follows, bins with equal numbers of rows in every column,
        k-means, or the given cuts alone. All but cuts and quantiles need scikit-learn (``prudent[states]``).
    n_states : int, default=32
        Largest number of states of a tree or of clusters.
    bins : int or mapping, default=4
        Number of quantile bins of each column.
    cuts : mapping, optional
        Cuts of columns: ``{"pressure": [70, 100]}`` are the bins below 70, from 70 to below 100, and from 100 on. They
        replace the quantiles of a column.
    cyclic : mapping, optional
        Columns that start again after a period: ``{"hour": 24}``.
    categorical : sequence of str, optional
        Columns of numbers that are labels. Columns of texts always are.
    min_rows : int, default=10
        Smallest number of rows of a state. Rarer cells of a grid belong to the nearest state.
    discount : float, default=0.95
        Discount of the returns that a tree is grown on; ``from_log`` takes that of the model.
    fitted : str, optional
        The rules as JSON. Left to ``fit``.

    Attributes
    ----------
    states : tuple of str
        Names of the states, in order.

    See Also
    --------
    prudent.from_log : Takes a map as ``states``, or finds one.

    Notes
    -----
    A missing value is a value of its own: a bin of its own, a split of a tree, a coordinate of a cluster. An
    observation is *unseen* if it has a category that the log does not have, misses a value that is never missing there,
    exceeds the range of a column by more than a tenth of it, or lies in a cell of a grid with fewer than ``min_rows``
    rows. It still has a nearest state; ``transform`` and ``Solution.act`` say what to do with it.

    Examples
    --------
    >>> log = {"pressure": [65, 80, 90, 110, 72, 120], "trend": ["falling", "falling", "rising"] * 2}
    >>> states = StateMap(["pressure", "trend"], method="cuts", cuts={"pressure": [70, 100]}, min_rows=1).fit(log)
    >>> states.states
    ('pressure below 70, falling', 'pressure 70-99, falling', 'pressure 70-99, rising', 'pressure 100 or more, falling',
    'pressure 100 or more, rising')
    >>> states.transform({"pressure": [75, 300], "trend": ["falling", "rising"]}).tolist()
    ['pressure 70-99, falling', 'pressure 100 or more, rising']
    >>> states.locate({"pressure": 300, "trend": "rising"}).unseen
    'pressure is 300, and 65 to 120 in the log'
    """

    features: Sequence[str]
    method: str = "tree"
    n_states: int = 32
    bins: int | ByFeature = 4
    cuts: ByFeature = ()
    cyclic: ByFeature = ()
    categorical: Sequence[str] = ()
    min_rows: int = 10
    discount: float | None = None
    fitted: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "features", _names(self.features, "features"))
        if not self.features:
            raise ParameterError("features is empty: name at least one column", code="empty", argument="features")
        one_of(self.method, "method", METHODS)
        put(self, "n_states", whole_number(self.n_states, "n_states", maximum=_MOST))
        put(self, "min_rows", whole_number(self.min_rows, "min_rows", maximum=_MOST))
        put(self, "categorical", _names(self.categorical, "categorical", self.features))
        put(self, "cyclic", self._pairs("cyclic", lambda period, name: positive(period, name)))
        put(self, "cuts", self._pairs("cuts", _checked_cuts))
        if isinstance(self.bins, (Mapping, tuple)):
            put(self, "bins", self._pairs("bins", lambda count, name: whole_number(count, name)))
        else:
            put(self, "bins", whole_number(self.bins, "bins"))
        if self.discount is not None and not 0.0 <= self.discount <= 1.0:
            message = f"discount is {self.discount!r}, expected a number in [0, 1]"
            raise ParameterError(message, code="value-range", argument="discount", value=self.discount)
        for name in dict(self.cuts):
            if name in self.categorical:
                message = f"cuts has {name!r}, which is categorical"
                raise ParameterError(message, code="conflicting-arguments", argument="cuts", value=name)

    def _pairs(self, argument: str, read: Any) -> tuple[tuple[str, Any], ...]:
        """Return a mapping by feature as pairs, in the order of the features."""
        given = getattr(self, argument)
        try:
            held = dict(given)
        except (TypeError, ValueError):
            message = f"{argument} is {given!r}, expected a mapping from features"
            raise ParameterError(message, code="wrong-type", argument=argument, value=given) from None
        _names(held, argument, self.features)
        return tuple((name, read(held[name], f"{argument}[{name!r}]")) for name in self.features if name in held)

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, log: TableLike, columns: Mapping[str, Any] | None = None) -> StateMap:
        """Learn the states of a log.

        Parameters
        ----------
        log : TableLike
            A table with the features. A tree also needs the action, the reward, and the rows of an episode (or columns
            ``next_NAME`` for all features); see ``from_log``. What follows a gap in its steps is not used.
        columns : mapping, optional
            Names of columns, as for ``from_log``.

        Returns
        -------
        StateMap
            The fitted map.

        Raises
        ------
        DataError
            If a column is missing or cannot be read.
        ParameterError
            If scikit-learn is needed and missing.
        """
        held = read_feature_columns(log, self.features, columns=columns)
        if not held.size:
            raise DataError(f"{held.table} has no rows", code="no-rows", argument="log")
        features, given = self.read(held), None
        following = self.read(held, "next") if f"next {self.features[0]}" in held else None
        if following is not None:
            given = ~np.all([feature.missing for feature in following.values()], axis=0)
        uneven = "episode" in held and "step" in held
        flow = flow_of(held, given, gaps="cut" if uneven else "error")
        return self.fit_sample(Sample.of(features, held, flow, following))

    def fit_sample(self, sample: Sample) -> StateMap:
        """Learn the states of rows that were read before.

        Parameters
        ----------
        sample : Sample
            Features of rows and what followed.

        Returns
        -------
        StateMap
            The fitted map.
        """
        columns = [self._column(name, sample.features[name]) for name in self.features]
        if sample.reward is not None:
            require_scale(sample.reward[np.isfinite(sample.reward)], "states from a log")
        grown = grow(
            self.method, columns, self._codes_of(sample, columns), sample,
            n_states=self.n_states, bins=dict(self.bins) if isinstance(self.bins, tuple) else self.bins,
            cuts=dict(self.cuts), min_rows=self.min_rows, discount=0.95 if self.discount is None else self.discount,
        )  # fmt: skip
        rules = {"format": FORMAT, "columns": columns, "partition": grown.partition, "states": list(grown.names)}
        fitted = replace(self, fitted=json.dumps(rules, ensure_ascii=False, allow_nan=False))
        return fitted

    def _column(self, name: str, feature: Feature) -> dict[str, Any]:
        """Return what a column of the log holds, as a part of the rules."""
        gone = feature.missing
        column: dict[str, Any] = {"name": name, "missing": bool(gone.any())}
        if gone.all():
            raise DataError(f"column {name!r} has no values", code="missing-value", column=name)
        known = feature.cells[~gone]
        if not feature.numeric:
            values = list(dict.fromkeys(known.tolist()))
            try:
                values.sort()
            except TypeError:
                values.sort(key=str)
            return column | {"kind": "category", "values": values}
        numbers = known.astype(np.float64)
        if not np.isfinite(numbers).all():
            message = (
                f"column {name!r} holds infinite numbers; expected finite ones, or empty cells where it is missing"
            )
            raise DataError(message, code="not-finite", column=name)
        whole = bool((numbers == np.round(numbers)).all())
        period = dict(self.cyclic).get(name)
        if period is not None:
            turned = np.mod(numbers, period)
            return column | {"kind": "cyclic", "period": period, "whole": whole, "fill": float(np.median(turned))}
        low, high = float(numbers.min()), float(numbers.max())
        slack = _SLACK * (high - low) or abs(low) or 1.0
        fill = float(np.median(numbers))
        column |= {"kind": "number", "whole": whole, "fill": fill, "low": low, "high": high}
        return column | {"least": low - slack, "most": high + slack}

    def _codes_of(self, sample: Sample, columns: list[dict[str, Any]]) -> list[FloatArray]:
        """Return each column as numbers: categories by position, NaN where it is missing."""
        return [numbers_of(column, sample.features[column["name"]])[0] for column in columns]

    def read(self, held: TableColumns, prefix: str = "feature") -> dict[str, Feature]:
        """Return the features of a table that was read.

        Parameters
        ----------
        held : TableColumns
            Columns called ``feature NAME``, or by another prefix.
        prefix : str, default="feature"
            The prefix.

        Returns
        -------
        dict of str to Feature
            Columns by name.
        """
        kinds: dict[str, bool | None] = dict.fromkeys(self.features)
        kinds |= dict.fromkeys((*dict(self.cuts), *dict(self.cyclic)), True)
        kinds |= dict.fromkeys(self.categorical, False)
        if self.fitted:
            kinds = {column["name"]: column["kind"] != "category" for column in self.rules["columns"]}
        return {name: feature_of(held, f"{prefix} {name}", kinds[name]) for name in self.features}

    # -- using ---------------------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> dict[str, Any]:
        """The rules as plain values."""
        if not self.fitted:
            message = "this state map is not fitted; call fit(log) and use what it returns"
            raise ParameterError(message, code="not-fitted")
        return dict(json.loads(self.fitted))

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, in order; empty before ``fit``."""
        return tuple(self.rules["states"]) if self.fitted else ()

    def transform(self, rows: TableLike, unseen: str = "nearest") -> Column:
        """Return the state of each row.

        Parameters
        ----------
        rows : TableLike
            A table with the features.
        unseen : {"nearest", "none", "refuse"}, default="nearest"
            What to do with rows like nothing in the log: take the nearest state, None, or raise.

        Returns
        -------
        ndarray of object of shape (M,)
            Names of states.

        Raises
        ------
        DataError
            If a column is missing or cannot be read, or a row is refused.
        """
        one_of(unseen, "unseen", ("nearest", "none", "refuse"))
        held = read_feature_columns(rows, self.features, roles=(), argument="rows")
        features = self.read(held)
        codes, strange = self.codes(features)
        if unseen == "refuse" and strange.any():
            row = int(np.argmax(strange))
            reason = locate(self.rules, {name: feature.cells[row] for name, feature in features.items()})[1]
            raise held.fault(row, f"nothing in the log is like this: {reason}", "unseen-observation")
        names = object_array([*self.states, None])
        return names[np.where(strange, -1, codes) if unseen == "none" else codes]

    def codes(self, features: Mapping[str, Feature]) -> tuple[IntArray, BoolArray]:
        """Return numbers of states [M], and which rows are unseen [M].

        Parameters
        ----------
        features : mapping
            Columns of this map, as ``read`` returns them.

        Returns
        -------
        states : ndarray of int
            Numbers of the (nearest) states.
        unseen : ndarray of bool
            Rows like nothing in the log.
        """
        rules, partition = self.rules, self.rules["partition"]
        size = features[self.features[0]].cells.size
        unseen = np.zeros(size, dtype=np.bool_)
        cells = []
        for column in rules["columns"]:
            values, strange = numbers_of(column, features[column["name"]])
            unseen |= strange
            cells.append(values)
        if partition["kind"] == "grid":
            codes, off = grid_states(rules["columns"], partition, cells)
            return codes, unseen | off
        terms = np.stack([term_column(rules["columns"], term, cells) for term in partition["terms"]], axis=1)
        if partition["kind"] == "tree":
            return leaf_states(partition["nodes"], terms), unseen
        return centre_states(np.asarray(partition["centres"]), terms), unseen

    def locate(self, observation: Mapping[str, Any]) -> Located:
        """Return the state of one observation.

        Parameters
        ----------
        observation : mapping
            Values of the features by name; others are ignored.

        Returns
        -------
        Located
            The (nearest) state, and why the log has nothing like it.

        Raises
        ------
        DataError
            If a feature is not there or is no number.
        """
        rules = self.rules
        try:
            state, reason = locate(rules, observation)
        except KeyError as fault:
            name = fault.args[0]
            message = f"observation has no {name!r}; expected values of {', '.join(self.features)} (None if missing)"
            raise DataError(message, code="missing-column", column=name) from None
        except (TypeError, ValueError) as fault:
            message = f"observation is {dict(observation)!r}: {fault}"
            raise DataError(message, code="not-finite", argument="observation") from None
        return Located(rules["states"][state], reason)

    # -- files ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return settings and rules as plain values that JSON can hold.

        Returns
        -------
        dict
            Input of ``from_dict``.
        """
        settings = {
            "features": list(self.features),
            "method": self.method,
            "n_states": self.n_states,
            "bins": dict(self.bins) if isinstance(self.bins, tuple) else self.bins,
            "cuts": {name: list(cuts) for name, cuts in dict(self.cuts).items()},
            "cyclic": dict(self.cyclic),
            "categorical": list(self.categorical),
            "min_rows": self.min_rows,
            "discount": self.discount,
        }
        return settings | {"rules": self.rules if self.fitted else None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> StateMap:
        """Return the map of ``to_dict``.

        Parameters
        ----------
        record : mapping
            Settings and rules.

        Returns
        -------
        StateMap
            An equal map.

        Raises
        ------
        StateFileError
            If the record is not one of a state map, or of another version.
        """
        try:
            settings = dict(record)
            rules = settings.pop("rules")
            fitted = "" if rules is None else json.dumps(rules, ensure_ascii=False, allow_nan=False)
            made = cls(**settings, fitted=fitted)
            if rules is not None:
                if rules["format"] != FORMAT:
                    message = f"the state map has format {rules['format']}, this prudent reads {FORMAT}"
                    raise StateFileError(message, code="wrong-version", value=rules["format"], expected=FORMAT)
                names = [column["name"] for column in rules["columns"]]
                if names != list(made.features) or not rules["states"]:
                    raise ValueError("its columns are not its features")
                blank = {name: Feature(np.array([np.nan]), True) for name in made.features}
                blank |= {
                    column["name"]: Feature(object_array([None]), False)
                    for column in rules["columns"]
                    if column["kind"] == "category"
                }
                made.codes(blank)
        except StateFileError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, ParameterError) as fault:
            raise StateFileError(f"this is no state map: {fault}", code="damaged-file") from fault
        return made

    def __repr__(self) -> str:
        by = {"tree": "a tree", "quantiles": "quantiles", "clusters": "clusters", "cuts": "given cuts"}[self.method]
        text = f"StateMap({', '.join(self.features)} by {by}"
        if not self.fitted:
            return f"{text}, not fitted)"
        shown = "; ".join(self.states[:3]) + ("; ..." if len(self.states) > 3 else "")
        return f"{text}, {len(self.states)} states: {shown})"


def _names(given: Any, argument: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"{argument} is {given!r}, expected names of columns"
        raise ParameterError(message, code="wrong-type", argument=argument, value=given)
    names = tuple(given)
    for i, name in enumerate(names):
        if not isinstance(name, str) or name in names[:i] or (known is not None and name not in known):
            expected = f"different names of features ({', '.join(known)})" if known else "different names of columns"
            message = f"{argument} has {name!r}, expected {expected}"
            raise ParameterError(message, code="unknown-feature", argument=argument, value=name)
    return names


def _checked_cuts(given: Any, name: str) -> tuple[float, ...]:
    try:
        cuts = tuple(float(cut) for cut in given)
    except (TypeError, ValueError):
        cuts = (math.nan,)
    if not cuts or not all(map(math.isfinite, cuts)) or list(cuts) != sorted(set(cuts)):
        message = f"{name} is {given!r}, expected increasing numbers"
        raise ParameterError(message, code="not-increasing", argument=name, value=given)
    return cuts
