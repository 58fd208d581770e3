"""A supervised dataset as a bandit: a context is a row of features, an arm is a class, the right class pays 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, flag, require_shape
from ..data.columns import as_column
from ..data.labels import Labels
from ..errors import DataError
from ..types import ArrayLike, Label


@dataclass(frozen=True, eq=False)
class ClassificationEnv:
    """Environment of `classification`: one pass through the rows, in another order for every run.

    Parameters
    ----------
    X : ndarray of float
        Features [N, D].
    labels : ndarray of int
        Index of the class of each row [N].
    classes : tuple of hashable
        Names of the arms.
    shuffle : bool, default=True
        Whether the order differs between runs.

    Attributes
    ----------
    X : ndarray of float
        Features [N, D].
    labels : ndarray of int
        Index of the class of each row [N].
    classes : tuple of hashable
        Names of the arms.
    shuffle : bool
        Whether the order differs between runs.
    """

    X: FloatArray
    labels: IntArray
    classes: tuple[Any, ...]
    shuffle: bool = True
    _order: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False, init=False)

    @property
    def n_arms(self) -> int:
        """Number of arms A, one for each class."""
        return len(self.classes)

    @property
    def dim(self) -> int:
        """Number of features D."""
        return int(self.X.shape[1])

    @property
    def steps(self) -> int:
        """Number of rows, after which a run ends."""
        return len(self.X)

    def start(self, rng: np.random.Generator) -> Self:
        """Return the environment of one run, with a random order of the rows.

        Parameters
        ----------
        rng : Generator
            Source of randomness.

        Returns
        -------
        ClassificationEnv
            The environment.
        """
        if not self.shuffle:
            return self
        shuffled = replace(self)
        object.__setattr__(shuffled, "_order", rng.permutation(self.steps))
        return shuffled

    def _row(self, t: int) -> int:
        return int(self._order[t - 1]) if self._order.size else t - 1

    def context(self, t: int, rng: np.random.Generator) -> FloatArray:
        """Return the features of the row of a step.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        rng : Generator
            Not used.

        Returns
        -------
        ndarray of float
            Context [D].
        """
        return self.X[self._row(t)]

    def reward(self, t: int, context: ArrayLike, arm: int, rng: np.random.Generator) -> float:
        """Return the reward of an arm.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Not used.
        arm : int
            The arm.
        rng : Generator
            Not used.

        Returns
        -------
        float
            1 if `arm` is the class of the row, else 0.
        """
        return float(self.labels[self._row(t)] == arm)

    def mean_rewards(self, t: int, context: ArrayLike) -> FloatArray:
        """Return the rewards of all arms.

        Parameters
        ----------
        t : int
            The step, counting from 1.
        context : array_like
            Not used.

        Returns
        -------
        ndarray of float
            Rewards [A].
        """
        return np.equal(np.arange(self.n_arms), self.labels[self._row(t)]).astype(np.float64)


def classification(X: ArrayLike, y: ArrayLike | Sequence[Label], *, shuffle: bool = True) -> ClassificationEnv:
    """Return a supervised dataset as a bandit: the right class pays 1.

    Put the features on one scale first.

    Parameters
    ----------
    X : array_like
        Features [N, D].
    y : array_like
        Classes [N], names or numbers. There are at least two.
    shuffle : bool, default=True
        Whether the rows come in another order in each run, drawn from the stream of the run (the same for all agents).

    Returns
    -------
    ClassificationEnv
        The environment.

    Raises
    ------
    DataError
        If shapes do not match, or there is one class only.

    Examples
    --------
    >>> env = classification([[0.0], [1.0], [0.9]], ["cat", "dog", "dog"], shuffle=False)
    >>> env.classes, env.dim, env.steps
    (('cat', 'dog'), 1, 3)
    >>> rng = np.random.default_rng(0)
    >>> env.reward(2, env.context(2, rng), arm=1, rng=rng)
    1.0
    """
    points = finite_array(X, "X", ndim=2).copy()
    column = as_column(y)
    require_shape(column, "y", points.shape[:1], "[N]")
    if not points.size:
        text = f"X has shape {points.shape}, expected at least one row and one feature"
        raise DataError(text, code="wrong-shape", argument="X", value=points.shape)
    classes = Labels.of("class", None, column)
    if classes.size < 2:
        text = f"y holds {classes.size} class, expected at least two"
        raise DataError(text, code="too-few-classes", argument="y", value=classes.size)
    codes = classes.find_all(column)
    if (codes < 0).any():
        row = int(np.argmin(codes))
        raise DataError(f"y row {row}: y is {column[row]!r}, expected a class", code="missing-value", row=row)
    return ClassificationEnv(points, codes, classes.names, flag(shuffle, "shuffle"))
