"""Whether terms predict rewards that came after they were found better than features alone do.

Evidence judges terms by the rewards among which they were searched. Where models are wrong, as those of bounded rewards
are, it takes too much: a step that separates 100 rows well may rank arms worse than the line that it replaces. So terms
are first tried: as found among the first rewards, they and the features alone predict the rewards that follow, from
what was learned of the first ones. A prediction beyond all rewards seen counts as the extreme one.
"""

from __future__ import annotations

import numpy as np

from ..._support.checks import FloatArray, IntArray


def squares_saved(
    plain: FloatArray,
    wide: FloatArray,
    priors: tuple[FloatArray, FloatArray],
    rows: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    first: int,
    level: float,
) -> FloatArray:
    """Return by how much smaller squared errors are with terms, for each of the rewards after the first ones.

    Parameters
    ----------
    plain, wide : ndarray of float, [n, D] and [n, D+K]
        Features, and features with terms.
    priors : tuple of ndarray of float, [D, D] and [D+K, D+K]
        Prior precisions of both, in units of the noise.
    rows : ndarray of int, [n]
        Arms.
    rewards, weights : ndarray of float, [n]
        Rewards, and how often each counts.
    first : int
        Number of rewards that predictions are learned from.
    level : float
        Prior mean of rewards.

    Returns
    -------
    ndarray of float, [n-first]
        Differences of weighted squared errors; 0 where a prediction is no number.
    """
    low, high = float(rewards[:first].min()), float(rewards[:first].max())
    squares = [
        (np.clip(_predicted(*model, rows, rewards, weights, first, level), low, high) - rewards[first:]) ** 2
        for model in ((plain, priors[0]), (wide, priors[1]))
    ]
    saved = weights[first:] * (squares[0] - squares[1])
    return np.asarray(np.where(np.isfinite(saved), saved, 0.0))


def _predicted(
    design: FloatArray,
    prior: FloatArray,
    rows: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    first: int,
    level: float,
) -> FloatArray:
    """Return the predictions of the rewards after the first ones."""
    found = np.full(len(rows) - first, level)
    for arm in np.unique(rows[first:]):
        own, new = np.flatnonzero(rows[:first] == arm), rows[first:] == arm
        weighted = weights[own, np.newaxis] * design[own]
        moments = weighted.T @ (rewards[own] - level)
        try:
            mean = np.linalg.solve(prior + weighted.T @ design[own], moments)
        except np.linalg.LinAlgError:  # features that cannot be told apart
            mean = np.full(len(moments), np.nan)
        found[new] += design[first:][new] @ mean
    return found
