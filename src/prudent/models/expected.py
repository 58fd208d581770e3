"""The known model that remains when the outcome probabilities of an uncertain one are given."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .._support.checks import FloatArray, IntArray

__all__ = ["expected_model"]


def expected_model(
    source: IntArray,  # [S, A], -1 where inadmissible
    next_state: npt.NDArray[np.int32],  # [S, A, K]
    reward: FloatArray,  # [S, A, K]
    theta: FloatArray,  # [B, K]
) -> tuple[sparse.csr_array, FloatArray]:
    """Return the transition matrix (S*A) x S and the mean rewards [S, A] under outcome probabilities ``theta``.

    A row has an entry for each outcome of positive probability; outcomes that lead to the same state are not added up.
    """
    n_states, n_actions, n_outcomes = next_state.shape
    weights = np.where(source[..., np.newaxis] >= 0, theta[source], 0.0)  # [S, A, K]
    entries = np.flatnonzero(weights.reshape(-1) > 0.0)
    ends = np.cumsum(np.bincount(entries // n_outcomes, minlength=n_states * n_actions))
    rows = (weights.reshape(-1)[entries], next_state.reshape(-1)[entries], np.concatenate(([0], ends)))
    matrix = sparse.csr_array(rows, shape=(n_states * n_actions, n_states))
    return matrix, np.einsum("sak,sak->sa", weights, reward)
