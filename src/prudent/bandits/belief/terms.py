"""Terms: features that are made of others, thresholds, hinges and products, and the search for those that are there.

With standardised features z a part is one of

    z (cut off at +-4),    1{z > c},    max(z - c, 0) (at most 8),

with c at quantiles, and a term is a part or a product of two, centred and divided by its sd. Terms come after the
features of a context: rewards are linear in both, so nothing else of a bandit changes.

**The search.** Given the noise, arm a has rewards y_a with the design F_a, and its coefficients the prior precision P
in units of the noise. With V_a = F_a'F_a + P, and Q the sum over arms of y_a'y_a - y_a'F_a V_a^-1 F_a'y_a, a noise with
the reference prior leaves the log evidence

    -1/2 sum_a log(det V_a / det P) - (n - 1)/2 log Q.

A term h with the prior precision p, the same for all arms, changes it by

    -1/2 sum_a log(k_a / p) - (n - 1)/2 log(1 - sum_a g_a^2 / k_a / Q),

with k_a = p + h'h - h'F_a V_a^-1 F_a'h and g_a the inner product of h with the residuals. That is exact, and costs one
triangular solve for all candidates of an arm. The best candidate is taken as long as it gains ``log C + CAUTION``: C
candidates share a prior chance of exp(-CAUTION). Only for the search, the features themselves have the prior precision
that has the most evidence: a prior that is too wide takes noise for signal, and then finds terms in the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from ..._numerics.compile import kernel
from ..._support.checks import BoolArray, FloatArray, IntArray
from ..._support.state import Arrays

VALUE, STEP, HINGE = range(3)
CAUTION = 3.0
_CUT_OFF, _LARGEST_HINGE = 4.0, 8.0
_MOST_TERMS, _ROWS_EACH = 24, 32  # terms at most, and rows for each of them
_PRECISIONS = (0.1, 0.3, 1.0, 3.0, 10.0)  # of terms
_PRIORS = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # of features, in the search
_MOST_PAIRS = 2500
_LEAST_SD = 0.01  # of a term: one that holds, or fails, once in 10^4 contexts says nothing
_TIE = 1e-9  # of the evidence: below, the first candidate is taken, however sums were rounded
_LEAST_TARGET = 1e-100
_EXACT = 1e-10  # of the sum of squares: residuals below are none

Part = tuple[int, int, float]  # feature, kind, cut


class Terms(NamedTuple):
    """Terms of contexts: where they come from, and how they are scaled.

    Attributes
    ----------
    mean, sd : ndarray of float, [D]
        Moments by which features are standardised; a feature with sd 0 counts as 0.
    feature, kind : ndarray of int, [K, 2]
        Parts of the terms; feature -1 for none.
    cut : ndarray of float, [K, 2]
        Cuts c of the parts.
    centre, scale, precision : ndarray of float, [K]
        Mean and sd of the terms, and their prior precision.
    ridge : ndarray of float, [1]
        Prior precision of the standardised features that has the most evidence, at least 1.
    """

    mean: FloatArray
    sd: FloatArray
    feature: IntArray
    kind: IntArray
    cut: FloatArray
    centre: FloatArray
    scale: FloatArray
    precision: FloatArray
    ridge: FloatArray

    @classmethod
    def none(cls, dim: int) -> Self:
        """Return no terms of ``dim`` features."""
        pairs, numbers = np.zeros((0, 2), dtype=np.int64), np.zeros(0)
        return cls(np.zeros(dim), np.zeros(dim), pairs, pairs, np.zeros((0, 2)), numbers, numbers, numbers, np.ones(1))

    @property
    def size(self) -> int:
        """Number of terms K."""
        return len(self.centre)

    def expanded(self, contexts: FloatArray, first: int) -> FloatArray:
        """Return contexts [T, D+K] of contexts [T, D]; ``first`` is 1 if place 0 is the constant feature."""
        return contexts if not self.size else _expanded(*self[:-2], contexts, first)

    def named(self, names: Sequence[str]) -> list[str]:
        """Return names of the terms, given those of the features."""
        return [
            " x ".join(self._part(names, *part) for part in zip(*parts, strict=True) if part[0] >= 0)
            for parts in zip(self.feature.tolist(), self.kind.tolist(), self.cut.tolist(), strict=True)
        ]

    def _part(self, names: Sequence[str], feature: int, kind: int, cut: float) -> str:
        at = f"{self.mean[feature] + self.sd[feature] * cut:.4g}"
        name = names[feature]
        return (name, f"({name} > {at})", f"max({name} - {at}, 0)")[kind]

    def prior(self, given: FloatArray, intercept: int) -> FloatArray:
        """Return the prior precision of features and terms, where that of the features is ``given``.

        As soon as there are terms, the default, 1, gives way to that of standardised features with the most evidence.
        """
        plain = len(given)
        size = plain + self.size
        prior = np.zeros((size, size))
        prior[:plain, :plain] = given
        if self.size and np.array_equal(given, np.eye(plain)):
            sd = np.where(self.sd > 0.0, self.sd, 1.0)
            turn = np.eye(plain)  # to the coefficients of standardised features
            turn[range(intercept, plain), range(intercept, plain)] = sd if intercept else np.hypot(sd, self.mean)
            turn[:intercept, intercept:] = self.mean
            own = np.full(plain, self.ridge[0])
            own[:intercept] = 1.0
            product = turn.T @ (own[:, np.newaxis] * turn)
            prior[:plain, :plain] = 0.5 * (product + product.T)
        prior[range(plain, size), range(plain, size)] = self.precision
        return prior

    def arrays(self) -> Arrays:
        """Return the arrays of a state file."""
        return {f"term_{name}": value for name, value in self._asdict().items()}

    @classmethod
    def of(cls, arrays: Arrays, dim: int) -> Self:
        """Return the terms of a state file; raise ValueError if it cannot hold them."""
        terms = cls(*(np.ascontiguousarray(arrays[f"term_{name}"]) for name in cls._fields))
        like, count = cls.none(dim), len(terms.centre)
        for name, value, model in zip(cls._fields, terms, like, strict=True):
            shape = model.shape if name in ("mean", "sd", "ridge") else (count, *model.shape[1:])
            if value.shape != shape or value.dtype != model.dtype or not np.isfinite(value).all():
                raise ValueError(f"term_{name} is an array {value.shape} of {value.dtype}, expected {shape}")
        sound = (terms.feature[:, 0] >= 0).all() and (terms.feature >= -1).all() and (terms.feature < dim).all()
        sound &= (terms.kind >= VALUE).all() and (terms.kind <= HINGE).all() and count <= _MOST_TERMS
        if not (
            sound
            and (terms.sd >= 0.0).all()
            and (terms.scale >= _LEAST_SD).all()
            and (terms.precision > 0.0).all()
            and terms.ridge[0] > 0.0
        ):
            raise ValueError("terms that cannot be")
        return terms


@kernel
def _expanded(
    mean: FloatArray,
    sd: FloatArray,
    feature: IntArray,
    kind: IntArray,
    cut: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    contexts: FloatArray,
    first: int,
) -> FloatArray:
    count, dim = contexts.shape
    rows = np.empty((count, dim + centre.shape[0]))
    for t in range(count):
        for i in range(dim):
            rows[t, i] = contexts[t, i]
        for k in range(centre.shape[0]):
            product = 1.0
            for side in range(2):
                j = feature[k, side]
                if j < 0:
                    continue
                z = (contexts[t, first + j] - mean[j]) / sd[j] if sd[j] > 0.0 else 0.0
                c = cut[k, side]
                if kind[k, side] == VALUE:
                    product *= min(max(z, -_CUT_OFF), _CUT_OFF)
                elif kind[k, side] == STEP:
                    product *= 1.0 if z > c else 0.0
                else:
                    product *= min(max(z - c, 0.0), _LARGEST_HINGE)
            rows[t, dim + k] = (product - centre[k]) / scale[k]
    return rows


# -- the search --------------------------------------------------------------------------------------------


def found_terms(
    points: FloatArray,
    rows: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    intercept: bool,
    caution: float = CAUTION,
) -> Terms:
    """Return the terms that rewards [n] of arms ``rows`` [n] in contexts [n,D], without constant, give evidence of."""
    used = weights > 0.0
    order = np.argsort(rows[used], kind="stable")  # arms one after the other
    points, rows, rewards, weights = points[used][order], rows[used][order], rewards[used][order], weights[used][order]
    size, dim = points.shape
    none = Terms.none(dim)
    if size < 2 or not dim:
        return none
    mean, sd = points.mean(axis=0), points.std(axis=0)
    sd = np.where(sd > 1e-9 * np.abs(points).max(axis=0), sd, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(sd > 0.0, (points - mean) / sd, 0.0)
    root = np.sqrt(weights)
    target = root * (rewards - np.average(rewards, weights=weights) if intercept else rewards)
    if not target.any():
        return none
    largest = float(np.abs(target).max())
    if (
        not _LEAST_TARGET <= largest <= 1.0 / _LEAST_TARGET
    ):  # a power of two, so that squares neither vanish nor overflow
        target = np.ldexp(target, -math.frexp(largest)[1])
    design = root[:, np.newaxis] * np.concatenate([np.ones((size, int(intercept))), z], axis=1)
    edges = np.flatnonzero(np.diff(rows)) + 1
    arms = [slice(*ends) for ends in zip([0, *edges], [*edges, size], strict=True)]
    residuals = _linear(design, target, arms, int(intercept), size)
    candidates = _candidates(z, residuals.left, arms)
    if not candidates:
        return none
    columns, centre, scale = _columns(z, candidates)
    chosen = _chosen(root[:, np.newaxis] * columns, design, target, arms, residuals.precision, scale > 0.0, caution)
    if not chosen:
        return none
    places, precision = [place for place, _ in chosen], np.array([p for _, p in chosen])
    parts = [(*candidates[place], (-1, 0, 0.0))[:2] for place in places]
    feature, kind, cut = (np.array([[part[i] for part in pair] for pair in parts]) for i in range(3))
    fields = feature.astype(np.int64), kind.astype(np.int64), cut, centre[places], scale[places], precision
    return Terms(mean, sd, *fields, np.maximum(residuals.precision[-1:], 1.0))


class _Linear(NamedTuple):
    """Features alone: the prior precisions [D] that have the most evidence, and the residuals."""

    precision: FloatArray
    left: FloatArray  # [n]


def _linear(design: FloatArray, target: FloatArray, arms: list[slice], intercept: int, size: int) -> _Linear:
    best, found = -math.inf, None
    sums = [(design[arm].T @ design[arm], design[arm].T @ target[arm]) for arm in arms]
    total = float(target @ target)
    for prior in _PRIORS:
        precision = np.full(design.shape[1], prior)
        precision[:intercept] = 1.0
        evidence, square, means = 0.0, total, []
        for gram, moment in sums:
            factor = np.linalg.cholesky(gram + np.diag(precision))
            half = np.linalg.solve(factor, moment)
            means.append(np.linalg.solve(factor.T, half))
            square -= float(half @ half)
            evidence -= float(np.log(np.diag(factor)).sum() - 0.5 * np.log(precision).sum())
        evidence -= 0.5 * (size - 1) * math.log(max(square, _EXACT * total))
        if evidence > best + _TIE:
            left = np.concatenate([target[arm] - design[arm] @ mean for arm, mean in zip(arms, means, strict=True)])
            best, found = evidence, _Linear(precision, left)
    assert found is not None
    return found


def _candidates(z: FloatArray, left: FloatArray, arms: list[slice]) -> list[tuple[Part, ...]]:
    """Return the terms to choose among: of single features, and of pairs of them as far as there are not too many."""
    live = [int(j) for j in np.flatnonzero(z.any(axis=0))]
    cuts = {j: _cuts(z[:, j], 15 if len(live) <= 20 else 7 if len(live) <= 50 else 3) for j in live}
    graded = [j for j in live if len(cuts[j]) > 1]
    terms: list[tuple[Part, ...]] = []
    for j in graded:
        terms += [((j, STEP, cut),) for cut in cuts[j]]
        terms += [((j, HINGE, cut),) for cut in _cuts(z[:, j], 7)]
        terms.append(((j, VALUE, 0.0), (j, VALUE, 0.0)))
    pairs = list(combinations(live, 2))
    if len(pairs) > _MOST_PAIRS:
        pairs = _screened(z, left, arms, live)
    terms += [((i, VALUE, 0.0), (j, VALUE, 0.0)) for i, j in pairs]
    count = 3 if len(live) <= 18 else 1 if len(live) <= 40 else 0
    sides = {j: [(j, STEP, cut) for cut in _cuts(z[:, j], count)] if j in graded else [(j, VALUE, 0.0)] for j in live}
    if count:
        terms += [
            (one, other) for i, j in pairs if i in graded or j in graded for one in sides[i] for other in sides[j]
        ]
    return terms


def _screened(z: FloatArray, left: FloatArray, arms: list[slice], live: list[int]) -> list[tuple[int, int]]:
    """Return the pairs whose product goes best with the residuals of the features, the first in order."""
    score = np.zeros((len(live), len(live)))
    for arm in arms:
        own = np.clip(z[arm][:, live], -_CUT_OFF, _CUT_OFF)
        square = (own**2).T @ own**2
        score += ((own * left[arm, np.newaxis]).T @ own) ** 2 / np.maximum(square, 1.0)
    above = np.triu_indices(len(live), 1)
    best = np.sort(np.argsort(-score[above], kind="stable")[: _MOST_PAIRS // 5])
    return [(live[above[0][k]], live[above[1][k]]) for k in best]


def _cuts(values: FloatArray, count: int) -> list[float]:
    """Return at most ``count`` cuts at quantiles; between neighbours where there are few values."""
    seen = np.unique(values)
    if len(seen) <= count + 1:
        return (0.5 * (seen[1:] + seen[:-1])).tolist()
    places = np.arange(1, count + 1) * len(values) // (count + 1)
    ordered = np.sort(values)
    at = ordered[places]
    below = seen[np.maximum(np.searchsorted(seen, at) - 1, 0)]
    return np.unique(0.5 * (at + below)).tolist()


def _columns(z: FloatArray, terms: list[tuple[Part, ...]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return terms [n,C], centred and scaled, their means and their sds; the sd 0 is for one that hardly varies."""
    made: dict[Part, FloatArray] = {}

    def part(feature: int, kind: int, cut: float) -> FloatArray:
        key, own = (feature, kind, cut), z[:, feature]
        if key not in made:
            if kind == VALUE:
                made[key] = np.clip(own, -_CUT_OFF, _CUT_OFF)
            else:
                made[key] = (own > cut).astype(np.float64) if kind == STEP else np.clip(own - cut, 0.0, _LARGEST_HINGE)
        return made[key]

    columns = np.empty((len(z), len(terms)))
    for k, term in enumerate(terms):
        columns[:, k] = part(*term[0]) * part(*term[1]) if len(term) == 2 else part(*term[0])
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    scale[scale < _LEAST_SD] = 0.0
    columns -= centre
    columns /= np.where(scale > 0.0, scale, 1.0)
    return columns, centre, scale


class _Side(NamedTuple):
    """One arm in the search; all but the first are changed in place as terms are taken."""

    rows: slice
    square: FloatArray  # [C] h'h - h'F V^-1 F'h
    moment: FloatArray  # [C] of candidates with the residuals
    solved: list[FloatArray]  # rows [C] of L^-1 F'H


def _chosen(
    columns: FloatArray,
    design: FloatArray,
    target: FloatArray,
    arms: list[slice],
    precision: FloatArray,
    usable: BoolArray,
    caution: float,
) -> list[tuple[int, float]]:
    """Return places and precisions of the candidates that are taken, the best first."""
    size, count = columns.shape
    total = float(target @ target)
    sides, square = [], total
    for arm in arms:
        own, reward = columns[arm], target[arm]
        factor = np.linalg.cholesky(design[arm].T @ design[arm] + np.diag(precision))
        solved = np.linalg.solve(factor, design[arm].T @ own)
        half = np.linalg.solve(factor, design[arm].T @ reward)
        square -= float(half @ half)
        spread, moment = (own**2).sum(axis=0) - (solved**2).sum(axis=0), own.T @ reward - solved.T @ half
        sides.append(_Side(arm, spread, moment, list(solved)))
    open_ = usable.copy()
    found: list[tuple[int, float]] = []
    while len(found) < min(_MOST_TERMS, size // _ROWS_EACH):
        square = max(square, _EXACT * total)
        spreads = np.maximum(np.array([side.square for side in sides]), 0.0)
        moments = np.array([side.moment for side in sides])
        best, place, precise = math.log(count) + caution, -1, 0.0
        for p in _PRECISIONS:
            wide = p + spreads
            left = np.maximum(square - (moments**2 / wide).sum(axis=0), _EXACT * total)
            gain = -0.5 * np.log(wide / p).sum(axis=0) - 0.5 * (size - 1) * np.log(left / square)
            gain[~open_] = -math.inf
            k = int(np.argmax(gain >= gain.max() - _TIE * abs(gain.max())))
            if gain[k] > best + _TIE * abs(best):
                best, place, precise = float(gain[k]), k, p
        if place < 0:
            break
        found.append((place, precise))
        open_[place] = False
        for side in sides:
            width = math.sqrt(precise + max(float(side.square[place]), 0.0))
            cross = columns[side.rows, place] @ columns[side.rows]
            for row in side.solved:
                cross -= row[place] * row
            cross /= width
            step = float(side.moment[place]) / width
            side.square[:] -= cross**2
            side.moment[:] -= step * cross
            side.solved.append(cross)
            square -= step**2
    return found
