"""The known model that remains when the outcome probabilities of an uncertain one are given."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._support.checks import FloatArray, IntArray

__all__ = ["END", "NONE", "expected_model"]

NONE, END = -1, -2  # in place of a next state: no such outcome; the process ends


def expected_model(
    source: IntArray,  # [S, A], -1 where inadmissible
    next_state: npt.NDArray[np.int32],  # [S, A, K]
    reward: FloatArray,  # [S, A, K]
    theta: FloatArray,  # [B, K]
) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
    """Return the transition matrix (S*A) x S, the mean rewards and the chances to end [S, A] under ``theta``.

    A row has an entry for each outcome of positive probability that does not end the process; outcomes that lead to the
    same state are not added up.
    """
    n_states, n_actions, n_outcomes = next_state.shape
    weights = np.where(source[..., np.newaxis] >= 0, theta[source], 0.0)  # [S, A, K]
    entries = np.flatnonzero((weights > 0.0) & (next_state >= 0))
    ends = np.cumsum(np.bincount(entries // n_outcomes, minlength=n_states * n_actions))
    rows = (weights.reshape(-1)[entries], next_state.reshape(-1)[entries], np.concatenate(([0], ends)))
    matrix = sparse.csr_array(rows, shape=(n_states * n_actions, n_states))
    ending = np.where(next_state == END, weights, 0.0).sum(axis=2)
    return matrix, np.einsum("sak,sak->sa", weights, reward), ending
