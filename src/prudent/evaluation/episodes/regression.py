"""Fitted Q evaluation with any regressor of scikit-learn's kind on the columns of a log.

Iteration k fits r + gamma sum_a' pi(a'|s') Q_k-1(s', a') to the columns of a row, with one regressor for each action,
so that Q_k is the value of k steps (Ernst, Geurts and Wehenkel 2005; Le, Voloshin and Yue 2019). With a horizon of H
steps the row at step t has the value Q_H-t. Without one, iterations go on until values no longer change or as many were
done as the longest episode has steps. Episodes are dealt into folds, and the values of a fold come from regressors that
were fitted to the other folds.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..._support.progress import Progress
from ...errors import DataError, ParameterError
from ...types import BoolArray, FloatArray
from .log import EpisodeLog

SETTLED = 1e-3  # change of values, relative to their spread, at which iterations stop


def fitted_values(
    log: EpisodeLog, points: FloatArray, chances: FloatArray, discount: float, regressor: Any, folds: int
) -> tuple[FloatArray, FloatArray]:
    """Return values q, v [M] of the rows by regressors that were not fitted to their episodes.

    ``points`` [M, D] describe the rows and ``chances`` [M, A] are the target.
    """
    if isinstance(regressor, type) or not (hasattr(regressor, "fit") and hasattr(regressor, "predict")):
        message = (
            f"q_model must be an object with fit and predict, such as a regressor of scikit-learn, got {regressor!r}"
        )
        raise ParameterError(message, code="wrong-type", argument="q_model", value=regressor)
    fold = log.episode % folds
    q, v = np.empty((2, log.row.size))
    line = Progress("fitted Q evaluation")
    for k in range(folds):
        held_out = fold == k
        q[held_out], v[held_out] = _one_fold(log, points, chances, discount, regressor, ~held_out, held_out)
        line.show(f"{k + 1} of {folds} folds")
    line.close()
    return q, v


def _one_fold(
    log: EpisodeLog,
    points: FloatArray,
    chances: FloatArray,
    discount: float,
    regressor: Any,
    training: BoolArray,
    asked: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return q and v of the rows ``asked``, by regressors fitted to the rows ``training``."""
    last = log.place == log.lengths[log.episode] - 1
    over = last & log.ended[log.episode]
    steps = log.longest if log.horizon is None else log.horizon
    q_rows, v_rows = np.zeros((2, log.row.size))
    ahead = np.zeros(log.row.size)
    for k in range(1, steps + 1):
        usable = training & (~last | over | (k == 1))
        every = _fit(log, points, log.reward + discount * ahead, regressor, usable)
        v = (chances * every).sum(axis=1)
        q = every[np.arange(log.row.size), log.action]
        if log.horizon is None:
            done = np.ptp(v) * SETTLED >= abs(v - v_rows).max()
            q_rows, v_rows = q, v
            if done:
                break
        else:
            here = log.place == steps - k
            q_rows[here], v_rows[here] = q[here], v[here]
        ahead = np.where(last, 0.0, np.append(v[1:], 0.0))
    return q_rows[asked], v_rows[asked]


def _fit(log: EpisodeLog, points: FloatArray, goal: FloatArray, regressor: Any, rows: BoolArray) -> FloatArray:
    """Return predictions [M, A] of goals [M] by a regressor for each action."""
    every = np.full((log.row.size, log.by_action.size), float(goal[rows].mean()))
    for action in np.unique(log.action[rows]).tolist():
        chosen = rows & (log.action == action)
        model = copy.deepcopy(regressor)
        model.fit(points[chosen], goal[chosen])
        every[:, action] = np.asarray(model.predict(points), dtype=np.float64)
    if not np.isfinite(every).all():
        message = "q_model predicts numbers that are not finite"
        raise DataError(message, code="not-finite", argument="q_model")
    return every
