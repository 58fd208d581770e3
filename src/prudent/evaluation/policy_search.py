"""Search for the policy with the highest lower confidence bound of its doubly robust value.

Row t of a log has a doubly robust score G[t, a] for every arm: an estimate of what arm a would have earned there. The
value of a policy is the mean of y_t = G[t, policy(x_t)], with the mean m, the variance v and the lower confidence bound

    m - c sqrt(v),    c = z / sqrt(n), z the normal quantile of the confidence.

The bound is no sum over rows, but it is bounded from below by one: for any m0 and s > 0,

    -sqrt(v) >= -(v / s + s) / 2    and    v <= mean of (y_t - m0)^2,

with equality at m0 = m, s = sqrt(v). So a policy that is better in the mean of G - (c / 2s) (G - m0)^2 has a higher
bound. This is repeated until the bound does not rise (minorisation and maximisation). Each step is a search with
additive scores:

- a tree of depth 0, 1 or 2 with thresholds at quantiles: the best one, found by sums over cells of two features at a
  time (Zhou, Athey and Wager, Operations Research 71, 2023, search by sorting);
- linear scores, argmax over arms of w_a'x: from the ridge regression of the scores, and from there along the gradient
  of softmax choices with L-BFGS; the better one is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from ..types import BoolArray, FloatArray, IntArray

BINS = 16  # cells of a feature, between quantiles
MOST_FEATURES = 24  # that trees of depth 2 split on: those that are best at depth 1
ROUNDS = 6  # of minorisation
SHARPEST = 300  # steps of L-BFGS
LEAST_ROWS = 20  # of a leaf
LEAST_SHARE = 0.01  # of the rows


class Scores(NamedTuple):
    """Contexts and doubly robust scores of the rows that a policy is learned from.

    Attributes
    ----------
    contexts : ndarray of float, [T, D]
        Contexts.
    values : ndarray of float, [T, A]
        Doubly robust scores; of an arm that is not eligible, the mean of those that are.
    eligible : ndarray of bool, [T, A], optional
        Which arms are eligible; None if all are.
    unit : float
        What the values are multiples of, a power of two: no square of a value overflows.
    """

    contexts: FloatArray
    values: FloatArray
    eligible: BoolArray | None
    unit: float

    @classmethod
    def of(cls, contexts: FloatArray, values: FloatArray, eligible: BoolArray | None) -> Scores:
        """Return scores in a unit close to the largest of them; refuse those that are not finite."""
        if not np.isfinite(values).all():
            message = "predicted rewards of log are not finite: contexts are too small or too large; scale the features"
            raise DataError(message, code="not-finite", argument="log")
        unit = math.ldexp(0.5, math.frexp(float(abs(values).max(initial=0.0)))[1])
        return cls(contexts, values / unit, eligible, unit)

    def part(self, rows: Any) -> Scores:
        """Return some of the rows."""
        eligible = None if self.eligible is None else self.eligible[rows]
        return Scores(self.contexts[rows], self.values[rows], eligible, self.unit)


class Bound(NamedTuple):
    """Mean, sd and lower confidence bound of the value of a policy."""

    mean: float
    sd: float
    lower: float


@dataclass(frozen=True, eq=False)
class Tree:
    """Tree of depth 2 at most; a node without a split has the feature -1.

    Attributes
    ----------
    features : ndarray of int, [3]
        Feature of the root, and of its two children; -1 for none.
    thresholds : ndarray of float, [3]
        A context goes left if its feature is at most this.
    ranks : ndarray of int, [4, A]
        Arms of each leaf, best first; of the leaves of a node without a split the left one counts.
    """

    features: IntArray
    thresholds: FloatArray
    ranks: IntArray

    def leaves(self, contexts: FloatArray) -> IntArray:
        """Return the leaves [T] of contexts [T, D]."""

        def right(node: int) -> IntArray:
            if self.features[node] < 0:
                return np.zeros(len(contexts), dtype=np.int64)
            return (contexts[:, self.features[node]] > self.thresholds[node]).astype(np.int64)

        first = right(0)
        return 2 * first + np.where(first == 1, right(2), right(1))

    def preferences(self, contexts: FloatArray) -> FloatArray:
        """Return numbers [T, A], the highest for the arm that is chosen."""
        size = self.ranks.shape[1]
        order = np.empty((4, size))
        np.put_along_axis(order, self.ranks, np.tile(np.arange(size, 0.0, -1.0), (4, 1)), axis=1)
        return order[self.leaves(contexts)]

    @property
    def depth(self) -> int:
        """Number of questions that are asked at most."""
        return 0 if self.features[0] < 0 else 1 + int((self.features[1:] >= 0).any())


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear scores of the arms.

    Attributes
    ----------
    coefficients : ndarray of float, [A, D + 1]
        Coefficients, the constant first.
    """

    coefficients: FloatArray

    def preferences(self, contexts: FloatArray) -> FloatArray:
        """Return the scores [T, A] of contexts [T, D]."""
        return self.coefficients[:, 0] + contexts @ self.coefficients[:, 1:].T


Rule = Tree | Linear


def choose(rule: Rule, contexts: FloatArray, eligible: BoolArray | None) -> IntArray:
    """Return the arms [T] that a rule chooses."""
    preferences = rule.preferences(contexts)
    if eligible is not None:
        preferences = np.where(eligible, preferences, -np.inf)
    return preferences.argmax(axis=1)


def bound_of(rule: Rule, scores: Scores, z: float) -> Bound:
    """Return the mean, the sd and the lower confidence bound of a rule's value."""
    chosen = choose(rule, scores.contexts, scores.eligible)
    values = scores.values[np.arange(len(chosen)), chosen]
    mean, sd = float(values.mean()), float(values.std())
    return Bound(mean, sd, mean - z * sd / math.sqrt(len(values)))


def best_rule(kind: str, scores: Scores, z: float) -> Rule:
    """Return the rule of a kind with the highest lower bound that the search finds.

    Parameters
    ----------
    kind : {"arm", "split", "tree", "linear"}
        One arm, a tree of depth 1 or 2, or linear scores.
    scores : Scores
        What it is learned from.
    z : float
        Normal quantile of the confidence.

    Returns
    -------
    Tree or Linear
        The rule.
    """
    search = _LinearSearch(scores) if kind == "linear" else _TreeSearch(scores, {"arm": 0, "split": 1, "tree": 2}[kind])
    best: tuple[float, Rule | None] = (-math.inf, None)
    for first in (False, True):  # from the best mean, and from the best single arm
        surrogate = scores.values
        if first:
            alone = [column.mean() - z * column.std() / math.sqrt(len(column)) for column in scores.values.T]
            start = scores.values[:, int(np.argmax(alone))]
            surrogate = _surrogate(scores, float(start.mean()), float(start.std()), z)
        last = -math.inf
        for _ in range(ROUNDS):
            rule = search.best(surrogate)
            bound = bound_of(rule, scores, z)
            if bound.lower > best[0]:
                best = bound.lower, rule
            if not bound.lower > last + 1e-12 * abs(last) or not bound.sd > 0.0:
                break
            last = bound.lower
            surrogate = _surrogate(scores, bound.mean, bound.sd, z)
    assert best[1] is not None
    return best[1]


def _surrogate(scores: Scores, mean: float, sd: float, z: float) -> FloatArray:
    """Return scores [T, A] whose mean bounds the lower bound from below."""
    if not sd > 0.0:
        return scores.values
    weight = z / (2.0 * sd * math.sqrt(len(scores.values)))
    return np.asarray(scores.values - weight * (scores.values - mean) ** 2)


class _TreeSearch:
    """Search for the best tree, by sums over cells."""

    def __init__(self, scores: Scores, depth: int) -> None:
        self._contexts, self._depth = scores.contexts, depth
        self._least = max(LEAST_ROWS, math.ceil(LEAST_SHARE * len(scores.contexts)))
        count = scores.contexts.shape[1] if depth else 0
        shares = np.arange(1, BINS) / BINS
        edges = [np.unique(np.quantile(scores.contexts[:, d], shares, method="inverted_cdf")) for d in range(count)]
        top = scores.contexts.max(axis=0) if count else np.empty(0)
        self._edges = [edge[edge < top[d]] for d, edge in enumerate(edges)]  # what lies above the last one is no cell
        self._cells = np.zeros((count, len(scores.contexts)), dtype=np.int64)
        for d, edge in enumerate(self._edges):
            self._cells[d] = np.searchsorted(edge, scores.contexts[:, d], side="left")  # x <= edge goes left

    def best(self, values: FloatArray) -> Tree:
        """Return the tree with the highest mean of ``values`` [T, A]."""
        features, thresholds = np.full(3, -1), np.zeros(3)
        everything = np.arange(len(values))
        if self._depth == 2:
            features, thresholds = self._two(values)
        elif self._depth == 1:
            features[0], thresholds[0], _ = self._one(everything, values)
        tree = Tree(features, thresholds, np.zeros((4, values.shape[1]), dtype=np.int64))
        leaves = tree.leaves(self._contexts)
        totals = np.stack([values[leaves == leaf].sum(axis=0) for leaf in range(4)])
        empty = np.bincount(leaves, minlength=4) == 0
        totals[empty] = values.sum(axis=0)
        return Tree(features, thresholds, np.argsort(-totals, axis=1, kind="stable"))

    def _histogram(self, d: int, rows: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sums [BINS, A] and numbers [BINS] of rows by the cells of a feature."""
        cells = self._cells[d, rows]
        sums = [np.bincount(cells, weights=column, minlength=BINS) for column in values[rows].T]
        return np.stack(sums, axis=1), np.bincount(cells, minlength=BINS).astype(np.float64)

    def _gains(self, rows: IntArray, values: FloatArray) -> FloatArray:
        """Return what one split of each feature adds to the sum, [D]."""
        base, gains = float(values[rows].sum(axis=0).max()), np.full(len(self._edges), -np.inf)
        for d, edge in enumerate(self._edges):
            if edge.size:
                sums, counts = self._histogram(d, rows, values)
                gains[d] = _split(sums, counts, self._least)[: edge.size].max() - base
        return gains

    def _one(self, rows: IntArray, values: FloatArray) -> tuple[int, float, float]:
        """Return feature, threshold and sum of the best single split of some rows; -1 if none is better than none."""
        best = -1, 0.0, float(values[rows].sum(axis=0).max()) if rows.size else 0.0
        for d, edge in enumerate(self._edges):
            if edge.size:
                sums, counts = self._histogram(d, rows, values)
                totals = _split(sums, counts, self._least)[: edge.size]
                at = int(totals.argmax())
                if totals[at] > best[2] + 1e-12 * abs(best[2]):
                    best = d, float(edge[at]), float(totals[at])
        return best

    def _two(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return features and thresholds [3] of the best tree of depth 2."""
        everything, size = np.arange(len(values)), values.shape[1]
        used = [d for d in range(len(self._edges)) if self._edges[d].size]
        if len(used) > MOST_FEATURES:
            gains = self._gains(everything, values)
            used = sorted(sorted(used, key=lambda d: -gains[d])[:MOST_FEATURES])
        whole, total = self._one(everything, values), -math.inf
        best = (whole[0], whole[1]) if whole[0] >= 0 else None
        total = whole[2]
        for d in used:
            cuts = self._edges[d].size
            upto = np.zeros((2, cuts))  # the best sums of the two sides of each cut
            upto[0], upto[1] = -np.inf, -np.inf
            alone, number = self._histogram(d, everything, values)
            left_sums, left_counts = alone.cumsum(axis=0)[:cuts], number.cumsum()[:cuts]
            upto[0] = np.where(left_counts >= self._least, left_sums.max(axis=1), -np.inf)
            rest = alone.sum(axis=0) - left_sums
            upto[1] = np.where(number.sum() - left_counts >= self._least, rest.max(axis=1), -np.inf)
            for other in used:
                pairs = self._cells[d] * BINS + self._cells[other]
                table = np.empty((BINS, BINS, size))
                for a in range(size):
                    table[:, :, a] = np.bincount(pairs, weights=values[:, a], minlength=BINS**2).reshape(BINS, BINS)
                counts = np.bincount(pairs, minlength=BINS**2).reshape(BINS, BINS).astype(np.float64)
                below, within = table.cumsum(axis=0)[:cuts], counts.cumsum(axis=0)[:cuts]
                above, beyond = table.sum(axis=0) - below, counts.sum(axis=0) - within
                limit = self._edges[other].size
                for side, (sums, numbers) in enumerate(((below, within), (above, beyond))):
                    np.maximum(upto[side], _split(sums, numbers, self._least)[:, :limit].max(axis=1), out=upto[side])
            both = upto.sum(axis=0)
            at = int(both.argmax())
            if both[at] > total + 1e-12 * abs(total):
                total, best = float(both[at]), (d, float(self._edges[d][at]))
        features, thresholds = np.full(3, -1), np.zeros(3)
        if best is not None:
            features[0], thresholds[0] = best
            right = self._contexts[:, best[0]] > best[1]
            for node, rows in ((1, np.flatnonzero(~right)), (2, np.flatnonzero(right))):
                features[node], thresholds[node], _ = self._one(rows, values)
        return features, thresholds


def _split(sums: FloatArray, counts: FloatArray, least: int) -> FloatArray:
    """Return the best sums [..., BINS] of rows cut after each cell; -inf where a side has fewer than ``least``."""
    left, number = sums.cumsum(axis=-2), counts.cumsum(axis=-1)
    right, rest = left[..., -1:, :] - left, number[..., -1:] - number
    return np.where((number >= least) & (rest >= least), left.max(axis=-1) + right.max(axis=-1), -np.inf)


class _LinearSearch:
    """Search for linear scores."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._centre, spread = scores.contexts.mean(axis=0), scores.contexts.std(axis=0)
        self._spread = np.where(spread > 0.0, spread, 1.0)
        points = (scores.contexts - self._centre) / self._spread
        self._points = np.column_stack([np.ones(len(points)), points])

    def best(self, values: FloatArray) -> Linear:
        """Return linear scores with a high mean of ``values`` [T, A]."""
        from scipy.optimize import minimize

        points, count = self._points, len(values)
        size = float(values.std()) or 1.0
        target = (values - values.mean()) / size
        plain = np.linalg.solve(points.T @ points + np.eye(points.shape[1]), points.T @ target).T  # [A, D + 1]
        margin = points @ plain.T
        scale = 3.0 / max(float((margin.max(axis=1) - margin.mean(axis=1)).mean()), 1e-12)
        shape = plain.shape

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            logits = points @ weights.T
            if self._scores.eligible is not None:
                logits = np.where(self._scores.eligible, logits, -1e300)
            chances = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            value = (chances * target).sum(axis=1, keepdims=True)
            slope = (chances * (target - value)).T @ points / count
            decay = 0.5 / count
            loss = -float(value.mean()) + decay * float((weights[:, 1:] ** 2).sum()) / 10.0
            gradient = -slope
            gradient[:, 1:] += decay * weights[:, 1:] / 5.0
            return loss, gradient.reshape(-1)

        found = minimize(
            objective, scale * plain.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": SHARPEST}
        )
        rules = [self._rule(scale * plain), self._rule(found.x.reshape(shape))]
        means = [self._mean(rule, values) for rule in rules]
        return rules[int(np.argmax(means))]

    def _mean(self, rule: Linear, values: FloatArray) -> float:
        chosen = choose(rule, self._scores.contexts, self._scores.eligible)
        return float(values[np.arange(len(chosen)), chosen].mean())

    def _rule(self, weights: FloatArray) -> Linear:
        """Return linear scores in the units of the contexts, of weights [A, D + 1] in units of their sds."""
        slopes = weights[:, 1:] / self._spread
        return Linear(np.column_stack([weights[:, 0] - slopes @ self._centre, slopes]))
