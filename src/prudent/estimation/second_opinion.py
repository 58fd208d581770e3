"""Second opinions: a policy that was made with one state map is judged in the states of the others.

The model of a coarse map can be wrong about its own policies in a way that held-out episodes of the same states do not
show: rows that differ are mixed, and the policy moves the mixture. In finer states of the same rows it shows. For a
policy pi of features and a judging map with states j, the rows of the judging part whose action is the one of pi make
the chain

    P(j, j') = share of the matching rows of j that lead to j',        V = r + gamma P V,

with one row's worth of what the log did in j added, which is all there is where no row matches.

**Calibration.** The value of what the log did is known without a model, from the returns of its episodes. With V the
value of the log's policy in the judging states, the mean over episodes of

    D = sum over t of gamma^t (r_t + gamma V(s_{t+1}) - V(s_t))

is the observed mean return minus that of the model, and what lies beyond the last row cancels. It is zero if the states
are Markov. Where transitions take long, t is the time and not the number of rows. ``gap`` is minus its mean: how much
the model overrates what is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from ..types import BoolArray, FloatArray, IntArray
from .counts import sums
from .rows import LogRows

_SHARE_OF_LOG = 1.0  # rows' worth of what the log did in every judging state


class Opinions(NamedTuple):
    """What judging maps say, means over folds.

    Attributes
    ----------
    gain : dict
        By design and level, and by judge: the value of the policy minus that of what the log did.
    gap : dict
        By judge: how much its model overrates what the log did.
    gap_error : dict
        Standard errors of the gaps.
    """

    gain: dict[tuple[str, float], dict[str, float]]
    gap: dict[str, float]
    gap_error: dict[str, float]

    def least(self, design: str, alpha: float) -> float:
        """Return the lowest of the gains that judges see."""
        return min(self.gain[design, alpha].values())

    def dispute(self, design: str, alpha: float) -> float:
        """Return how far the lowest gain is below the one in the states of the design itself."""
        return self.gain[design, alpha][design] - self.least(design, alpha)

    @property
    def best_judge(self) -> str:
        """The judge whose model is nearest to what the log earned."""
        return min(self.gap, key=lambda name: abs(self.gap[name]))


class Panel:
    """Collects states and policies of a fold, and judges them when the next fold begins."""

    def __init__(self, rows: LogRows, discount: float) -> None:
        self._rows, self._discount = rows, discount
        order = np.lexsort((-rows.waits, rows.place, rows.episode))  # steps that were filled in come before their row
        begins = np.append(True, np.diff(rows.episode[order]) != 0)
        first = np.maximum.accumulate(np.where(begins, np.arange(order.size), 0))
        self._first = np.zeros(order.size, dtype=np.bool_)
        self._first[order] = begins
        span = np.maximum(rows.waits, 1.0) if rows.duration is None else rows.duration
        since = np.cumsum(span[order]) - span[order]
        self._weight = np.empty(order.size)
        self._weight[order] = discount ** (since - since[first])
        filled = rows.waits > 1.0  # which stand for several steps
        self._weight[filled] *= (1.0 - discount ** rows.waits[filled]) / (1.0 - discount)
        self._judging: BoolArray | None = None
        self._made: dict[str, LogRows] = {}
        self._actions: dict[tuple[str, float], IntArray] = {}
        self._gain: dict[tuple[str, float], dict[str, list[float]]] = {}
        self._gap: dict[str, list[tuple[float, float]]] = {}

    def add_states(self, design: str, training: BoolArray, made: LogRows) -> None:
        """Take the states of a fold."""
        judging = ~training
        if self._judging is None or not np.array_equal(judging, self._judging):
            self._judge()
            self._judging = judging
        self._made[design] = made

    def add_policy(self, design: str, alpha: float, policy: IntArray) -> None:
        """Take a policy [S] of a design of this fold."""
        self._actions[design, alpha] = policy[self._made[design].state].astype(np.int32)

    def opinions(self) -> Opinions:
        """Return the means over folds."""
        self._judge()
        gain = {key: {judge: float(np.mean(seen)) for judge, seen in by.items()} for key, by in self._gain.items()}
        gaps = {judge: np.array(parts) for judge, parts in self._gap.items()}
        errors = {judge: float(np.sqrt((parts[:, 1] ** 2).mean() / 2.0)) for judge, parts in gaps.items()}
        return Opinions(gain, {judge: float(parts[:, 0].mean()) for judge, parts in gaps.items()}, errors)

    def _judge(self) -> None:
        if self._judging is None:
            return
        used = self._judging
        for judge, made in self._made.items():
            chain = _Judge(made, used, self._discount, self._first)
            today = chain.value(np.zeros(used.size, dtype=np.bool_))
            self._gap.setdefault(judge, []).append(self._calibration(chain, made))
            for key, actions in self._actions.items():
                value = chain.value(actions == made.action)
                self._gain.setdefault(key, {}).setdefault(judge, []).append(value - today)
        self._made, self._actions, self._judging = {}, {}, None

    def _calibration(self, chain: _Judge, made: LogRows) -> tuple[float, float]:
        """Return the gap of the model of what the log did, and its standard error."""
        assert made.reward is not None
        assert self._judging is not None
        rows = np.flatnonzero(self._judging)
        value = chain.last
        later = np.broadcast_to(made.discounts(self._discount), made.state.shape)[rows]
        surprise = made.reward[rows] + later * value[made.target[rows]] - value[made.state[rows]]
        names, which = np.unique(made.episode[rows], return_inverse=True)
        sums_of = sums(which, self._weight[rows] * surprise, names.size)
        return -float(sums_of.mean()), float(sums_of.std() / max(names.size - 1, 1) ** 0.5)


class _Judge:
    """The chain of policies in the states of one judging map."""

    def __init__(self, made: LogRows, used: BoolArray, discount: float, first: BoolArray) -> None:
        S = made.by_state.size
        left = np.bincount(made.state[used], minlength=S) > 0
        self.rows = np.flatnonzero(used & (left | made.terminal)[made.target])
        self.state, self.target = made.state[self.rows], made.target[self.rows]
        assert made.reward is not None
        self.reward, self.size, self.times = made.reward[self.rows], S, made.times[self.rows]
        self.later = np.broadcast_to(made.discounts(discount), made.state.shape)[self.rows]
        self.start = np.bincount(made.state[used & first], minlength=S).astype(np.float64)
        self.start /= max(self.start.sum(), 1.0)
        self.fixed = np.where(made.terminal, made.terminal_value, 0.0)
        times = np.bincount(self.state, self.times, S)
        self.share: FloatArray = _SHARE_OF_LOG / np.maximum(times, 1.0)
        self.last: FloatArray = self.fixed

    def value(self, matches: BoolArray) -> float:
        """Return the value at the start of a policy whose action ``matches`` [M] that of a row."""
        weight = self.times * (matches[self.rows] + self.share[self.state])
        total = sums(self.state, weight, self.size)
        weight = weight / np.maximum(total, np.finfo(np.float64).tiny)[self.state]
        flow = -sums(self.state * self.size + self.target, weight * self.later, self.size**2)
        flow = flow.reshape(self.size, self.size)
        flow.flat[:: self.size + 1] += 1.0
        self.last = scipy.linalg.solve(
            flow, sums(self.state, weight * self.reward, self.size) + self.fixed, overwrite_a=True
        )
        return float(self.start @ self.last)
