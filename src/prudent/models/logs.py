"""Kernels that count logs of transitions and simulate them.

The arrays are those of ``UncertainMDP``: source [S, A], next_state [S, A, K]; counts are [B, K]; a log is
int64 [M, 4] with rows (state, action, next_state, outcome), the outcome -1 where it was not observed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._numerics.compile import kernel
from .._support.checks import FloatArray, IntArray

Targets = npt.NDArray[np.int32]


def cumulative_rows(theta: FloatArray) -> FloatArray:
    """Return cumulative probabilities [B, K]; the last possible outcome takes what rounding leaves of one."""
    cumulative = np.cumsum(theta, axis=1)
    last = theta.shape[1] - 1 - np.argmax(theta[:, ::-1] > 0.0, axis=1)
    cumulative[np.arange(theta.shape[1]) >= last[:, None]] = 1.0
    return cumulative


@kernel
def add_transition(
    source: IntArray, next_state: Targets, counts: FloatArray, s: int, a: int, target: int, outcome: int
) -> None:
    """Count one possible transition in place; a count of unknown outcome is split by posterior means."""
    b = source[s, a]
    if outcome >= 0:
        counts[b, outcome] += 1.0
        return
    total = 0.0
    for k in range(next_state.shape[2]):
        if next_state[s, a, k] == target:
            total += counts[b, k]
    for k in range(next_state.shape[2]):
        if next_state[s, a, k] == target:
            counts[b, k] += counts[b, k] / total  # exactly 1 if this outcome is the only one


@kernel
def add_log(source: IntArray, next_state: Targets, counts: FloatArray, log: IntArray) -> None:
    """Count the rows of a log in place and in order; every row must be possible."""
    for i in range(log.shape[0]):
        add_transition(source, next_state, counts, log[i, 0], log[i, 1], log[i, 2], log[i, 3])


@kernel
def first_impossible(source: IntArray, next_state: Targets, counts: FloatArray, log: IntArray) -> int:
    """Return the first row that no outcome with a positive count explains, or -1."""
    for i in range(log.shape[0]):
        s, a, target, outcome = log[i, 0], log[i, 1], log[i, 2], log[i, 3]
        possible = False
        for k in range(next_state.shape[2]):
            if (outcome < 0 or outcome == k) and next_state[s, a, k] == target:
                possible = possible or counts[source[s, a], k] > 0.0
        if not possible:
            return i
    return -1


@kernel
def walk(
    source: IntArray,
    next_state: Targets,
    cumulative: FloatArray,  # [B, K], 1 from the last possible outcome on
    policy: IntArray,  # [S]
    uniforms: FloatArray,  # [M], in [0, 1)
    state: int,
    log: IntArray,  # filled
) -> None:
    """Write the trajectory that starts in ``state``: step i inverts the distribution at ``uniforms[i]``."""
    for i in range(uniforms.size):
        action = policy[state]
        outcome = np.searchsorted(cumulative[source[state, action]], uniforms[i], side="right")
        log[i, 0] = state
        log[i, 1] = action
        state = int(next_state[state, action, outcome])
        log[i, 2] = state
        log[i, 3] = outcome
