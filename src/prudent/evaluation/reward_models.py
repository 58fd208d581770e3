"""Reward models of the direct method and the doubly robust estimators: predicted rewards of all arms.

A model must not have seen the reward that it is compared with. Rows are dealt into F folds (row i belongs to fold
i mod F), and the rewards of a fold are predicted by a model that was fitted to the other folds. Given the contexts,
the prediction then does not depend on the row's own arm and reward, so that w (r - q) has mean zero for every q and the
doubly robust estimate is unbiased, if rows do not influence each other. (The log of a bandit that learned while it
decided does not quite have this: a later choice depends on earlier rewards. The bias is of the order of 1/n.)

By default the model is a ridge regression for every arm, with an intercept. It does not depend on units: the rewards
are taken relative to their mean, and the prior of a coefficient weighs as much as one observation of a feature of
average size. It needs sums alone. Without contexts it is the mean reward of the arm.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..errors import DataError, ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from ..types import FloatArray
from .logs import BanditLog, Block
from .policies import RewardModelLike, table_reader


class RewardModel(ABC):
    """Predictions of the rewards of all arms in the rows of a log."""

    name = ""

    @abstractmethod
    def predict(self, block: Block) -> FloatArray:
        """Return predictions [T,A] by models that have not seen the rows."""

    def spread(self) -> float:
        """Return the variance of the direct method's mean that comes from the model's own error."""
        return 0.0

    def observe(self, block: Block, predictions: FloatArray, chances: FloatArray) -> None:  # noqa: B027
        """Add a block to the sums that ``spread`` needs; without ``spread`` there is nothing to add."""


def fitted(given: RewardModelLike, log: BanditLog, folds: int) -> RewardModel:
    """Return the reward model of an argument, fitted to ``log``."""
    if given is None:
        return _Ridge(log, folds)
    if hasattr(given, "fit") and hasattr(given, "predict") and not isinstance(given, type):
        return _Estimator(given, log, folds)
    if isinstance(given, (str, bytes)) or callable(given):
        message = f"reward_model must be None, an object with fit and predict, or a table, got {given!r}"
        raise ParameterError(message, code="wrong-type", argument="reward_model", value=given)
    return _Table(given, log)


class _Table(RewardModel):
    name = "the table given"

    def __init__(self, given: Any, log: BanditLog) -> None:
        self._rows = table_reader(given, log, "reward_model")

    def predict(self, block: Block) -> FloatArray:
        return _require_finite(self._rows(block), block)


def _require_finite(predictions: FloatArray, block: Block) -> FloatArray:
    """Return predictions [T,A] if all are finite."""
    if not np.isfinite(predictions).all():
        t, a = np.argwhere(~np.isfinite(predictions))[0].tolist()
        row, value = int(block.rows[t]), float(predictions[t, a])
        message = f"reward_model predicts {value} for arm {a} in log row {row}, expected a finite number"
        raise DataError(message, code="not-finite", argument="reward_model", index=(row, a), value=value)
    return predictions


class _FoldModel(RewardModel):
    """A model for each fold of rows, which was fitted to the other folds."""

    def __init__(self, log: BanditLog, folds: int) -> None:
        self._folds, self._size = folds, len(log.arms)
        counts, totals = np.zeros(folds), np.zeros(folds)
        for block in log.blocks():
            counts += np.bincount(block.rows % folds, minlength=folds)
            totals += np.bincount(block.rows % folds, weights=block.rewards, minlength=folds)
        others = counts.sum() - counts
        # mean rewards [F] outside each fold
        self._means = np.divide(totals.sum() - totals, others, out=np.zeros(folds), where=others > 0.0)

    def predict(self, block: Block) -> FloatArray:
        predictions = np.empty((len(block), self._size))
        points = self._points(block.contexts)
        for fold in range(self._folds):
            rows = np.flatnonzero(block.rows % self._folds == fold)
            if rows.size:
                predictions[rows] = self._predict_fold(fold, points[rows])
        return predictions

    def _points(self, contexts: FloatArray) -> FloatArray:
        """Return what the models predict from."""
        return contexts

    @abstractmethod
    def _predict_fold(self, fold: int, points: FloatArray) -> FloatArray:
        """Return predictions [M, A] of the model of a fold."""


class _Ridge(_FoldModel):
    def __init__(self, log: BanditLog, folds: int) -> None:
        super().__init__(log, folds)
        self.name = f"ridge for each arm, {log.dim} features" if log.dim else "the mean of each arm (no contexts)"
        self._n, width = log.n, log.dim + 1
        gram = np.zeros((folds, self._size, width + 1, width + 1))  # sums of products of features and reward
        squares = np.zeros(width)
        centre = float(self._means.mean())
        for block in log.blocks():
            points = self._points(block.contexts)
            squares += (points**2).sum(axis=0)
            group = (block.rows % folds) * self._size + block.arms
            order = np.argsort(group, kind="stable")
            ends = np.flatnonzero(np.diff(group[order])) + 1
            for rows in np.split(order, ends):
                fold, arm = divmod(int(group[rows[0]]), self._size)
                both = np.column_stack([points[rows], block.rewards[rows] - centre])
                gram[fold, arm] += both.T @ both
        size = squares / log.n
        self._prior = np.diag(np.where(size > 0.0, size, 1.0))
        self._coefficients = np.empty((folds, self._size, width))
        empty = np.zeros((width + 1, width + 1))
        solver = self._posterior(empty)
        for fold, arm in np.ndindex(folds, self._size):
            # the sums are of r - centre; a fold's own rewards must not enter, so its model has its own centre
            others = np.delete(gram[:, arm], fold, axis=0).sum(axis=0)
            solver.gram = np.stack([_moved(others, float(self._means[fold]) - centre), empty])
            self._coefficients[fold, arm] = solver.mean()
        self._gram = gram.sum(axis=0)
        self._load = np.zeros((self._size, width))
        self._noise = np.zeros((self._size, width, width))

    def _posterior(self, gram: FloatArray) -> LinearGaussianPosterior:
        return LinearGaussianPosterior.of_sums(self._prior, 1.0, np.stack([gram, np.zeros_like(gram)]))

    def _points(self, contexts: FloatArray) -> FloatArray:
        return np.column_stack([np.ones(len(contexts)), contexts])

    def _predict_fold(self, fold: int, points: FloatArray) -> FloatArray:
        return self._means[fold] + points @ self._coefficients[fold].T

    def observe(self, block: Block, predictions: FloatArray, chances: FloatArray) -> None:
        points = self._points(block.contexts)
        self._load += chances.T @ points
        residual = block.rewards - np.take_along_axis(predictions, block.arms[:, np.newaxis], axis=1)[:, 0]
        for arm in np.unique(block.arms).tolist():
            score = points[block.arms == arm] * residual[block.arms == arm, np.newaxis]
            self._noise[arm] += score.T @ score

    def spread(self) -> float:
        """Return g'V^-1 (sum e^2 x x') V^-1 g summed over the arms, g the target's mean features.

        That is right if the mean rewards are linear.
        """
        total = 0.0
        for arm in np.flatnonzero(self._load.any(axis=1)):
            sums = self._gram[arm].copy()
            sums[:-1, -1] = sums[-1, :-1] = self._load[arm] / self._n
            pull = self._posterior(sums).mean()  # V^-1 g, where V^-1 itself may overflow
            total += float(pull @ self._noise[arm] @ pull)
        return total


def _moved(gram: FloatArray, shift: float) -> FloatArray:
    """Return the sums [D+1,D+1] of the same rows with ``shift`` taken from every reward; feature 0 is constant."""
    moved = gram.copy()
    moved[:-1, -1] -= shift * gram[:-1, 0]
    moved[-1, :-1] = moved[:-1, -1]
    moved[-1, -1] += shift * (shift * gram[0, 0] - 2.0 * gram[0, -1])
    return moved


class _Estimator(_FoldModel):
    """Copies of an object with fit and predict, one for each arm and fold; the log is held in memory."""

    def __init__(self, given: Any, log: BanditLog, folds: int) -> None:
        log.require_contexts("reward_model, an object with fit and predict,")
        super().__init__(log, folds)
        self.name = type(given).__name__ + " for each arm"
        parts = [(part.rows, part.contexts, part.arms, part.rewards) for part in log.blocks()]
        rows, contexts, arms, rewards = map(np.concatenate, zip(*parts, strict=True))
        self._models: dict[tuple[int, int], Any] = {}
        for fold, arm in np.ndindex(folds, self._size):
            chosen = np.flatnonzero((rows % folds != fold) & (arms == arm))
            if chosen.size:
                self._models[fold, arm] = copy.deepcopy(given)
                self._models[fold, arm].fit(contexts[chosen], rewards[chosen])

    def predict(self, block: Block) -> FloatArray:
        return _require_finite(super().predict(block), block)

    def _predict_fold(self, fold: int, points: FloatArray) -> FloatArray:
        predictions = np.full((len(points), self._size), self._means[fold])
        for (other, arm), model in self._models.items():
            if other != fold:
                continue
            if hasattr(model, "predict_proba"):  # the expected reward of a classifier, not the likeliest one
                classes = np.asarray(model.classes_, dtype=np.float64)
                predictions[:, arm] = model.predict_proba(points) @ classes
            else:
                predictions[:, arm] = model.predict(points)
        return predictions
