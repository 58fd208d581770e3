"""A supervised dataset as a bandit: a context is a row of features, an arm is a class, and the right class pays 1."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array
from ..data.labels import Labels
from ..errors import DataError

__all__ = ["ClassificationEnv", "classification"]


@dataclass(frozen=True, eq=False)
class ClassificationEnv:
    """The environment of :func:`classification`: one pass through the rows, in an order of its own for every run.

    ``classes`` are the names of the arms. A run has ``steps`` steps, one for each row.
    """

    X: FloatArray  # [N,D]
    labels: IntArray  # [N]
    classes: tuple[Any, ...]
    shuffle: bool = True
    _order: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)

    @property
    def n_arms(self) -> int:
        """The number of arms A, one for each class."""
        return len(self.classes)

    @property
    def dim(self) -> int:
        """The number of features D."""
        return int(self.X.shape[1])

    @property
    def steps(self) -> int:
        """The number of rows, after which a run ends."""
        return len(self.X)

    def start(self, rng: np.random.Generator) -> Self:
        """Return the environment of one run, with an order of the rows drawn from ``rng``."""
        return replace(self, _order=rng.permutation(self.steps)) if self.shuffle else self

    def _row(self, t: int) -> int:
        return int(self._order[t - 1]) if self._order.size else t - 1

    def context(self, t: int, rng: np.random.Generator) -> FloatArray:
        """Return the features [D] of the row of step ``t``."""
        return self.X[self._row(t)]

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        """Return 1 if ``arm`` is the class of the row, else 0."""
        return float(self.labels[self._row(t)] == arm)

    def mean_rewards(self, t: int, context: Any) -> FloatArray:
        """Return what every arm would pay [A]."""
        return np.equal(np.arange(self.n_arms), self.labels[self._row(t)]).astype(np.float64)


def classification(X: Any, y: Any, *, shuffle: bool = True) -> ClassificationEnv:
    """Return a dataset as a bandit: features ``X`` [N,D], classes ``y`` [N], names or numbers.

    In each run of :func:`prudent.simulation.simulate_bandit` the rows come in another order, drawn from the run's
    stream (the
    same for all agents); ``shuffle=False`` keeps the order. Put the features on one scale first.

    >>> env = classification([[0.0], [1.0], [0.9]], ["cat", "dog", "dog"], shuffle=False)
    >>> env.classes, env.dim, env.steps
    (('cat', 'dog'), 1, 3)
    >>> rng = np.random.default_rng(0)
    >>> env.reward(2, env.context(2, rng), arm=1, rng=rng)
    1.0
    """
    points = finite_array(X, "X", ndim=2).copy()
    column = np.asarray(y)
    if column.shape != (len(points),):
        raise DataError(f"y has shape {column.shape}, expected ({len(points)},), one class for each row of X")
    if not points.size:
        raise DataError(f"X has shape {points.shape}, expected at least one row and one feature")
    classes = Labels.of("class", None, column)
    if classes.size < 2:
        raise DataError(f"y holds {classes.size} class, expected at least two", code="too-few-classes", argument="y")
    codes = classes.find_all(column)
    if (codes < 0).any():
        row = int(np.argmin(codes))
        raise DataError(f"y row {row}: y is {column[row]!r}, expected a class", code="missing-value", row=row)
    return ClassificationEnv(points, codes, classes.names, bool(shuffle))
