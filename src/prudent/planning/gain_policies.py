"""Policy iteration for a gain in twice the precision: for models that hardly ever leave parts of themselves.

If a process leaves a part of the model with a probability of e, relative values h are of the size 1 / e, and
Th - h is lost in the rounding of h before it is small. Nothing is lost if h is the sum of two floats and only
differences of it are used. With rows that are divided by their sums,

    (Th - h)(s) = max over a of r(s, a) + sum over t of p(t | s, a) (h(t) - h(s)).

Between parts h(t) - h(s) is of the size 1 / e, but p is of the size e, so that the sum is as large as rewards are, and
its rounding error is as small. ``Differences`` bounds that error for every row.

A policy is evaluated by elimination: h is 0 in one state, and the gain takes the place of that unknown. The rest of the
equation, in twice the precision, is solved for a correction until it no longer falls. The bounds are those of
``prudent.planning.average``: the extremes of Th - h, for any h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

from .._numerics.compensated import EPS, two_sums
from ..types import FloatArray, IntArray
from .long_run import Known

DIRECT = 3_000  # states up to which chains are eliminated as dense matrices
MAX_POLICIES = 100
CORRECTIONS = 30


class PolicyGain(NamedTuple):
    """Bounds of the best gain, and the policy that was found."""

    low: float
    high: float
    policy: IntArray  # [S]
    policies: int  # how many were evaluated


class Differences:
    """Backups less the value of their state, [S*A], of h = ``high + low``; with a bound on the error of each."""

    def __init__(self, rows: Known) -> None:
        matrix = rows.transition
        self.reward = rows.reward.reshape(-1)
        sizes = np.diff(matrix.indptr)
        self.pair = np.repeat(np.arange(sizes.size), sizes)
        self.state, self.target, self.data = self.pair // rows.reward.shape[1], matrix.indices, matrix.data
        total = np.bincount(self.pair, weights=self.data, minlength=sizes.size)
        self.total = np.where(total > 0.0, total, 1.0)
        self.roundings = (float(sizes.max(initial=0)) + 12.0 + rows.roundings) * EPS

    def __call__(self, high: FloatArray, low: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the differences [S*A] and bounds on their errors."""
        step, rest = two_sums(high[self.target], -high[self.state])
        step = step + (rest + (low[self.target] - low[self.state]))
        part = self.data * step
        size = self.total.size
        sums = np.bincount(self.pair, weights=part, minlength=size) / self.total
        sizes = np.bincount(self.pair, weights=abs(part), minlength=size) / self.total
        # low is itself rounded, far below the sizes of steps
        lost = np.bincount(
            self.pair, weights=self.data * (abs(low[self.target]) + abs(low[self.state])), minlength=size
        )
        return self.reward + sums, self.roundings * (sizes + abs(self.reward)) + 4.0 * EPS * lost / self.total


def _factored(matrix: scipy.sparse.csr_array, reference: int) -> Any:
    """Return the solver of (I - P) h + gain = right side, with the gain in the place of h at ``reference``."""
    size = matrix.shape[0]
    if size <= DIRECT:
        system = np.eye(size) - matrix.toarray()
        system[:, reference] = 1.0
        factors = scipy.linalg.lu_factor(system, overwrite_a=True, check_finite=False)
        return lambda right: scipy.linalg.lu_solve(factors, right, check_finite=False)
    kept = scipy.sparse.diags_array((np.arange(size) != reference).astype(np.float64))
    column = scipy.sparse.csr_array((np.ones(size), (np.arange(size), np.full(size, reference))), shape=(size, size))
    return scipy.sparse.linalg.splu(((scipy.sparse.eye_array(size) - matrix) @ kept + column).tocsc()).solve


def _evaluated(rows: Known, policy: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the relative values of a policy as two floats; None if it has several gains."""
    chain = rows.followed(policy)
    differences, matrix = Differences(chain), chain.transition
    reference = int(np.argmax(np.asarray(matrix.sum(axis=0)).reshape(-1)))
    try:
        solve = _factored(matrix, reference)
    except (RuntimeError, ValueError):  # singular
        return None
    high, low, least = np.zeros(policy.size), np.zeros(policy.size), np.inf
    for _ in range(CORRECTIONS):
        change, error = differences(high, low)
        spread = float(np.ptp(change))
        if not spread < 0.5 * least:
            break
        best, least = (high, low), spread
        if spread <= 2.0 * float(error.max()):
            break
        step = solve(change - change.mean())
        if not np.isfinite(step).all():
            return None
        step[reference] = 0.0
        high, rest = two_sums(high, step)
        high, low = two_sums(high, low + rest)
    return best


def policy_gain(rows: Known, policy: IntArray, aim: float) -> PolicyGain | None:
    """Return bounds of the best gain of a model that has only one, from a policy [S]; None if a policy has several.

    It ends where the bounds are closer than ``aim``, or rounding hides what is left.
    """
    differences, shape = Differences(rows), rows.reward.shape
    states, best = np.arange(shape[0]), None
    for number in range(1, MAX_POLICIES + 1):
        relative = _evaluated(rows, policy)
        if relative is None:
            return best
        change, error = differences(*relative)
        change = np.where(rows.admissible, change.reshape(shape), -np.inf)
        error = np.where(rows.admissible, error.reshape(shape), 0.0)
        better = change.argmax(axis=1)
        low = float((change - error).max(axis=1).min())
        high = float((change + error).max(axis=1).max())
        if best is None or high - low < best.high - best.low:
            best = PolicyGain(low, high, policy, number)
        ahead = change[states, better] - change[states, policy]
        switch = ahead > 2.0 * (error[states, better] + error[states, policy])
        if high - low <= aim or not switch.any():
            break
        policy = np.where(switch, better, policy)
    return best
