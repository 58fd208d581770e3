"""Growth of the rules of a state map: bins, trees and clusters of the rows of a log.

Scikit-learn grows trees and clusters. Trees see ranks, not values, since its trees work in single precision; the cut
between two values is then the shortest number between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, ParameterError
from ..types import BoolArray, FloatArray, IntArray
from .columns import TableColumns
from .feature_columns import Feature
from .flow import Flow
from .labels import Labels, is_missing
from .state_names import Limits, distinct, named, readable_cut, rounded_cut
from .state_vectors import numbers_of, term_column

FORMAT = 1
_TREES, _LEAF = 40, 20  # of the forests that smooth what trees are grown on
_MOST_ROWS = 30_000  # that forests and trees see
_WEIGHT_NEXT = 0.5  # of the features one step later, besides returns and the policy of the log
_LEAST_ADVANTAGE = 0.05
_MOST_CATEGORIES = 50


class Grown(NamedTuple):
    """A partition of the rules, and the names of its states."""

    partition: dict[str, Any]
    names: list[str]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a log whose outcome is known, and what followed them [N].

    Attributes
    ----------
    features, following : dict of str to Feature
        Features of the rows, and of the rows after them (anything where the process ended).
    row : int64
        Number of each row in the log.
    action : int64 or None
        Number of the action.
    reward : float64 or None
        The reward.
    ended : bool
        Whether the process ended after the row.
    after : int64
        Position in the sample of the next row of the episode, -1 where there is none.
    actions : Labels or None
        Names of the actions.
    elapsed : float64
        Time from the row to what followed.
    repeats : float64
        How many steps the row stands for: more than one before a gap that is filled.
    """

    features: dict[str, Feature]
    following: dict[str, Feature] | None
    row: IntArray
    action: IntArray | None
    reward: FloatArray | None
    ended: BoolArray
    after: IntArray
    actions: Labels | None
    elapsed: FloatArray
    repeats: FloatArray

    @classmethod
    def of(
        cls,
        features: dict[str, Feature],
        held: TableColumns,
        flow: Flow,
        following: dict[str, Feature] | None = None,
    ) -> Sample:
        """Return the rows of a log that something follows, all rows if that is not known."""
        left = flow.alive & (flow.given | flow.over | (flow.follower >= 0))
        if "action" in held:
            left &= ~is_missing(held["action"])
        plain = not left.any()
        row = np.arange(held.size) if plain else np.flatnonzero(left)
        place = np.full(held.size + 1, -1, dtype=np.int64)
        place[row] = np.arange(row.size)
        actions = Labels.of("action", None, held["action"][row], error=DataError) if "action" in held else None
        if not plain:
            following = {
                name: Feature(f.cells[row], f.numeric) for name, f in follow(flow, features, following).items()
            }
        return cls(
            features={name: Feature(f.cells[row], f.numeric) for name, f in features.items()},
            following=following,
            row=row,
            action=None if actions is None else held.indices("action", actions, column=held["action"][row], rows=row),
            reward=held.numbers("reward")[row] if "reward" in held else None,
            ended=flow.over[row],
            after=place[flow.follower[row]],
            actions=actions,
            elapsed=(1.0 + flow.waits if flow.duration is None else flow.duration)[row],
            repeats=1.0 + flow.waits[row],
        )

    def some(self, chosen: IntArray) -> Sample:
        """Return the rows of some positions, in order."""
        place = np.full(self.row.size + 1, -1, dtype=np.int64)
        place[chosen] = np.arange(chosen.size)

        def cut(held: dict[str, Feature] | None) -> dict[str, Feature] | None:
            return None if held is None else {name: Feature(f.cells[chosen], f.numeric) for name, f in held.items()}

        return replace(
            self,
            features=cut(self.features) or {},
            following=cut(self.following),
            row=self.row[chosen],
            action=None if self.action is None else self.action[chosen],
            reward=None if self.reward is None else self.reward[chosen],
            ended=self.ended[chosen],
            after=place[self.after[chosen]],
            elapsed=self.elapsed[chosen],
            repeats=self.repeats[chosen],
        )

    def returns(self, discount: float, beyond: FloatArray) -> FloatArray:
        """Return discounted sums of rewards to the end, with ``beyond`` [N] after rows whose next row is not known."""
        assert self.reward is not None
        later, times = discount**self.elapsed, self.repeats
        if (times > 1.0).any():
            times = (1.0 - discount**times) / (1.0 - discount) if discount < 1.0 else times
        earned = self.reward * times
        total = earned + later * np.where(self.ended, 0.0, beyond)
        chain = np.flatnonzero(self.after < 0)
        before = np.full(self.row.size, -1, dtype=np.int64)
        linked = np.flatnonzero(self.after >= 0)
        before[self.after[linked]] = linked
        while chain.size:  # from the last rows of all episodes backwards
            earlier = before[chain]
            chain, after = earlier[earlier >= 0], chain[earlier >= 0]
            total[chain] = earned[chain] + later[chain] * total[after]
        return np.asarray(total)

    @cached_property
    def _targets(self) -> dict[Any, FloatArray]:
        return {}

    def targets(self, columns: list[dict[str, Any]], terms: FloatArray, discount: float) -> FloatArray:
        """Return what a tree is grown on [N, targets]; it is computed once for all sizes of a tree."""
        key = discount
        if key not in self._targets:
            self._targets[key] = _targets(self, columns, terms, discount)
        return self._targets[key]


def follow(flow: Flow, features: dict[str, Feature], given: dict[str, Feature] | None) -> dict[str, Feature]:
    """Return the features of what followed each row: those of the next row, or ``given`` ones; else its own."""
    then = np.where(flow.follower >= 0, flow.follower, np.arange(flow.follower.size))
    following = {name: Feature(one.cells[then], one.numeric) for name, one in features.items()}
    for name, one in (given or {}).items():
        following[name].cells[flow.given] = one.cells[flow.given]
    return following


def grow(
    method: str,
    columns: list[dict[str, Any]],
    cells: list[FloatArray],
    sample: Sample,
    *,
    n_states: int,
    bins: Any,
    cuts: Mapping[str, Any],
    min_rows: int,
    discount: float,
) -> Grown:
    """Return the partition of a method."""
    if method in ("quantiles", "cuts"):
        return _grid(columns, cells, method, bins, cuts, min_rows)
    if method == "clusters":
        return _clusters(columns, cells, n_states, min_rows)
    return _tree(columns, cells, sample, n_states, min_rows, discount)


def sklearn(part: str) -> Any:
    """Return a module of scikit-learn, or raise our error."""
    import importlib

    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError:
        message = "method='tree' and 'clusters' need scikit-learn: pip install 'prudent[states]'"
        raise ParameterError(message, code="missing-package", argument="method", package="scikit-learn") from None


# -- grids -------------------------------------------------------------------------------------------------


def _grid(
    columns: list[dict[str, Any]],
    cells: list[FloatArray],
    method: str,
    bins: Any,
    given: Mapping[str, Any],
    min_rows: int,
) -> Grown:
    edges: list[list[float]] = []
    for column, values in zip(columns, cells, strict=True):
        name = column["name"]
        if name in given:
            edges.append(list(given[name]))
        elif column["kind"] == "category":
            edges.append([])
        elif method == "cuts":
            message = f"cuts has no cuts of {name!r}; give some, or use method='quantiles'"
            raise ParameterError(message, code="missing-cuts", argument="cuts", value=name)
        else:
            count = bins.get(name, 4) if isinstance(bins, Mapping) else bins
            edges.append(_quantiles(column, values[~np.isnan(values)], count))
    coded = []
    for column, cuts, values in zip(columns, edges, cells, strict=True):
        codes = values if column["kind"] == "category" else np.searchsorted(cuts, values, side="right")
        if column["kind"] == "cyclic" and cuts:
            codes = codes % len(cuts)
        coded.append(np.where(np.isnan(values), -1, codes).astype(np.int64))
    distinct_cells, times = np.unique(np.stack(coded, axis=1), axis=0, return_counts=True)
    common = times >= min(min_rows, int(times.max()))
    kept = [tuple(cell) for cell in distinct_cells[common].tolist()]
    kept.sort(key=lambda cell: tuple((code < 0, code) for code in cell))
    names = named(
        [[_bin(column, cuts, code) for column, cuts, code in zip(columns, edges, cell, strict=True)] for cell in kept]
    )
    return Grown({"kind": "grid", "cuts": edges, "cells": [list(cell) for cell in kept]}, names)


def _quantiles(column: dict[str, Any], values: FloatArray, count: int) -> list[float]:
    """Return cuts between values, so that bins have about as many rows; fewer where values are tied."""
    distinct_values = np.unique(values)
    if distinct_values.size < 2 or count < 2:
        return []
    parts = np.arange(count) + 0.5 if column["kind"] == "cyclic" else np.arange(1, count)
    wanted = np.quantile(values, parts / count, method="inverted_cdf")
    places = np.unique(np.searchsorted(distinct_values, wanted, side="right"))
    places = places[(places > 0) & (places < distinct_values.size)]
    if not places.size:
        places = np.array([distinct_values.size - 1 if wanted[0] == distinct_values[-1] else 1])
    span = float(distinct_values[-1] - distinct_values[0])
    cuts = [readable_cut(float(distinct_values[i - 1]), float(distinct_values[i]), span) for i in places]
    short = sorted({rounded_cut(cut, span) for cut in cuts})
    filled = np.unique(np.searchsorted(short, values, side="right")).size == len(short) + 1
    return short if len(short) == len(cuts) and filled else cuts


def _bin(column: dict[str, Any], cuts: list[float], code: int) -> Limits:
    limits = Limits(column)
    if code < 0:
        limits.missing = True
    elif column["kind"] == "category":
        limits.only, limits.chosen = column["values"][code], True
    elif column["kind"] == "cyclic":
        if len(cuts) > 1:
            low = cuts[code - 1] if code else cuts[-1] - column["period"]
            limits.arcs.append((low, cuts[code]))
    else:
        limits.low = cuts[code - 1] if code else limits.low
        limits.high = cuts[code] if code < len(cuts) else limits.high
    return limits


# -- trees -------------------------------------------------------------------------------------------------


def _tree_terms(columns: list[dict[str, Any]]) -> list[list[Any]]:
    terms: list[list[Any]] = []
    for i, column in enumerate(columns):
        if column["kind"] == "category":
            if len(column["values"]) > _MOST_CATEGORIES:
                message = (
                    f"column {column['name']!r} has {len(column['values'])} different texts, more than "
                    f"{_MOST_CATEGORIES}; is it a name or a number? Group its values, or leave it out"
                )
                raise DataError(message, code="many-categories", column=column["name"], value=len(column["values"]))
            terms += [["is", i, value] for value in column["values"]]
        else:
            terms.append(["value", i, 0.0, 1.0])
            if column["kind"] == "cyclic":
                terms.append(["turned", i])
        if column["missing"]:
            terms.append(["missing", i])
    return terms


def _tree(
    columns: list[dict[str, Any]],
    cells: list[FloatArray],
    sample: Sample,
    n_states: int,
    min_rows: int,
    discount: float,
) -> Grown:
    terms = _tree_terms(columns)
    matrix = np.stack([term_column(columns, term, cells) for term in terms], axis=1)
    size = len(matrix)
    root = [Limits(column) for column in columns]
    if n_states < 2 or size < 2 * min_rows:
        return Grown({"kind": "tree", "terms": terms, "nodes": [[0]]}, named([root]))
    ranks = np.stack([np.unique(column, return_inverse=True)[1].reshape(-1) for column in matrix.T], axis=1)
    targets = sample.targets(columns, ranks.astype(np.float64), discount)
    shown = _shown(size)
    learner = sklearn("tree").DecisionTreeRegressor(max_leaf_nodes=n_states, min_samples_leaf=min_rows, random_state=0)
    tree = learner.fit(ranks[shown], targets[shown]).tree_
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, list[Limits]]] = []

    def grow_node(at: int, rows: IntArray, limits: list[Limits]) -> int:
        place = len(nodes)
        nodes.append([0])
        term = int(tree.feature[at])
        go = ranks[rows, term] <= tree.threshold[at] if term >= 0 else np.zeros(rows.size, dtype=np.bool_)
        if term < 0 or not go.any() or go.all():
            leaves.append((place, limits))
            return place
        values = matrix[rows, term]
        span = float(np.ptp(matrix[:, term]))
        cut = readable_cut(float(values[go].max()), float(values[~go].min()), span)
        short = rounded_cut(cut, span)
        if min_rows <= np.count_nonzero(values < short) <= rows.size - min_rows:
            cut = short
        go = values < cut
        if not min_rows <= np.count_nonzero(go) <= rows.size - min_rows and shown.size == size:
            leaves.append((place, limits))  # shorter numbers above have moved rows elsewhere
            return place
        sides = _sides(terms[term], cut, limits, columns)
        left = grow_node(int(tree.children_left[at]), rows[go], sides[0])
        right = grow_node(int(tree.children_right[at]), rows[~go], sides[1])
        nodes[place] = [term, cut, left, right]
        return place

    grow_node(0, np.arange(size), root)
    leaves.sort(key=lambda leaf: tuple(limit.order for limit in leaf[1]))
    for state, (place, _) in enumerate(leaves):
        nodes[place] = [state]
    return Grown({"kind": "tree", "terms": terms, "nodes": nodes}, named([limits for _, limits in leaves]))


def _sides(
    term: list[Any], cut: float, limits: list[Limits], columns: list[dict[str, Any]]
) -> tuple[list[Limits], list[Limits]]:
    """Return the limits below a cut of a term, and from it on."""
    kind, i = term[0], term[1]
    sides = [limit.copy() for limit in limits], [limit.copy() for limit in limits]
    below, above = sides[0][i], sides[1][i]
    if kind == "missing":
        below.missing, above.missing = False, True
    elif kind == "is":
        below.excluded.add(term[2])
        above.only, above.chosen = term[2], True
    elif columns[i]["kind"] == "cyclic":
        period = columns[i]["period"]
        turn = period / 2.0 if kind == "turned" else 0.0
        below.arcs.append((-turn, cut - turn))
        above.arcs.append((cut - turn, period - turn))
    else:
        below.high, above.low = min(below.high, cut), max(above.low, cut)
    return sides


def _shown(size: int) -> IntArray:
    """Return the rows that learners see: all, or some of very many."""
    if size <= _MOST_ROWS:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).choice(size, _MOST_ROWS, replace=False))


def _targets(sample: Sample, columns: list[dict[str, Any]], terms: FloatArray, discount: float) -> FloatArray:
    """Return what follows rows: returns and chances of actions, smoothed, and the features one step later."""
    if sample.action is None or sample.actions is None or sample.following is None:
        message = (
            "a tree is grown on what follows: the log needs a column action, and episode (or next_NAME for all "
            "features); without them use method='quantiles' or 'clusters'"
        )
        raise DataError(message, code="missing-column", column="action" if sample.action is None else "episode")
    shown = _shown(len(terms))
    ensemble = sklearn("ensemble")
    settings = {"n_estimators": _TREES, "min_samples_leaf": min(_LEAF, max(1, shown.size // 10)), "random_state": 0}
    actions = range(sample.actions.size)
    chance = np.zeros((len(terms), sample.actions.size))
    forest = ensemble.ExtraTreesClassifier(**settings).fit(terms[shown], sample.action[shown])
    chance[:, forest.classes_] = forest.predict_proba(terms)
    usual = chance.mean(axis=0)
    # by the spread of the actions themselves: where the log chose at random, differences of chances are noise
    parts = [(chance - usual) / max(float(np.sqrt((usual * (1.0 - usual)).mean())), 1e-9)]
    if sample.reward is not None and np.ptp(sample.reward) + sample.ended.any() > 0.0:
        first = sample.returns(discount, np.zeros(len(terms)))
        smooth = ensemble.ExtraTreesRegressor(**settings).fit(terms[shown], first[shown])
        # after a cut the row itself stands for the next one, which is near it
        earned = sample.returns(discount, smooth.predict(terms))
        worth = np.zeros_like(chance)
        settings["min_samples_leaf"] = max(1, settings["min_samples_leaf"] // 2)
        for a in actions:
            mine = shown[sample.action[shown] == a]
            if mine.size >= 2 * settings["min_samples_leaf"]:
                worth[:, a] = ensemble.ExtraTreesRegressor(**settings).fit(terms[mine], earned[mine]).predict(terms)
            else:
                worth[:, a] = earned[shown].mean()
        value = (chance * worth).sum(axis=1, keepdims=True)
        least = _LEAST_ADVANTAGE * float(value.std())  # smaller differences between actions are noise of the forest
        parts += [_scaled(value), _scaled(worth - value, least)]
    for column in columns:
        if column["kind"] == "category":
            continue
        now, then = (numbers_of(column, held[column["name"]])[0] for held in (sample.features, sample.following))
        then = np.where(sample.ended | np.isnan(then), np.where(np.isnan(now), column["fill"], now), then)
        if column["kind"] == "cyclic":
            angle = 2.0 * np.pi * then / column["period"]
            parts.append(_WEIGHT_NEXT * np.stack([np.cos(angle), np.sin(angle)], axis=1))
        else:
            parts.append(_WEIGHT_NEXT * _scaled(then[:, np.newaxis]))
    return np.concatenate(parts, axis=1)


def _scaled(part: FloatArray, least: float = 0.0) -> FloatArray:
    """Return columns divided by their common spread, or by ``least`` if that is more; zeros if they are constant."""
    largest = float(np.abs(part).max(initial=0.0))
    if largest > 1e150:  # squares would overflow
        return _scaled(part / largest, least / largest)
    spread = max(float(np.sqrt(part.var(axis=0).mean())), least)
    if spread <= 1e-9 * largest:
        return np.zeros_like(part)
    return np.asarray((part - part.mean(axis=0)) / spread)


# -- clusters ----------------------------------------------------------------------------------------------


def _clusters(columns: list[dict[str, Any]], cells: list[FloatArray], n_states: int, min_rows: int) -> Grown:
    terms: list[list[Any]] = []
    for i, (column, values) in enumerate(zip(columns, cells, strict=True)):
        if column["kind"] == "category":
            terms += [["is", i, value] for value in column["values"]]
        elif column["kind"] == "cyclic":
            terms += [["cos", i, 1.0], ["sin", i, 1.0]]
        else:
            size = float(np.nanmax(np.abs(values))) or 1.0  # squares of large numbers overflow
            spread = size * float(np.nanstd(values / size)) or 1.0
            terms.append(["value", i, float(np.nanmean(values)), spread])
        if column["missing"]:
            terms.append(["missing", i])
    points = np.stack([term_column(columns, term, cells) for term in terms], axis=1)
    shown = _shown(len(points))
    count = min(n_states, len(np.unique(points[shown], axis=0)))
    means = sklearn("cluster").KMeans(count, n_init=1, random_state=0).fit(points[shown])
    times = np.bincount(means.labels_, minlength=count)
    common = times >= min(min_rows, int(times.max()))
    centres = means.cluster_centers_[common]
    texts = [_centre(columns, terms, centre) for centre in centres]
    order = sorted(range(len(centres)), key=lambda i: tuple(centres[i]))
    partition = {"kind": "clusters", "terms": terms, "centres": centres[order].tolist()}
    return Grown(partition, distinct([texts[i] for i in order]))


def _centre(columns: list[dict[str, Any]], terms: list[list[Any]], centre: FloatArray) -> str:
    """Return the name of a cluster: the values of its centre."""
    parts: dict[int, str] = {}
    best: dict[int, float] = {}
    for term, value in zip(terms, centre.tolist(), strict=True):
        kind, i = term[0], term[1]
        column = columns[i]
        if kind == "value":
            parts[i] = f"{column['name']} near {value * term[3] + term[2]:.3g}"
        elif kind == "is" and value > best.get(i, 0.0):
            best[i], parts[i] = value, str(term[2]) if isinstance(term[2], str) else f"{column['name']} {term[2]}"
        elif kind == "missing" and value > 0.5:
            parts[i] = f"{column['name']} missing"
        elif kind == "cos":
            sine = centre[[t[:2] for t in terms].index(["sin", i])]
            turn = np.arctan2(sine, value) / (2.0 * np.pi) * column["period"] % column["period"]
            parts[i] = f"{column['name']} near {turn:.3g}"
    return ", ".join(parts[i] for i in sorted(parts))
