"""Rows over sets of probabilities: the worst, or the best, distribution that a set allows.

    intervals        Q = min { q.y :  low_k <= q_k <= high_k,  sum_k q_k = 1 }
    weighted balls   Q = min { q.y :  q_k >= 0,  sum_k q_k = sum_k p_k,  sum_k w_k |q_k - p_k| <= radius }

with y_k = r(s, a, k) + gamma V(next(s, a, k)); the optimist's Q is the greatest, minus the least of -y. Each pair
has its own set, and nature chooses from it anew at every step. Both are concave in y (convex for the optimist),
monotone, and shifted by c where y is, so that the certificate and Newton's method are those of every other row.

**Intervals.** Every outcome has its least probability, and what is left of one goes to the outcomes in ascending order
of y, up to their greatest probability: O(K log K) for the order.

**Balls.** Let lambda be the price of the budget ``radius``. The dual of the linear programme has one dimension:

    g(lambda) = s m - lambda radius + sum_k p_k min(y_k - m, lambda w_k),   m(lambda) = min_k (y_k + lambda w_k),

with s = sum_k p_k. m is the lower envelope of K lines, which one pass finds after a sort by y. Outcome k gives away its
mass while y_k > m + lambda w_k, so that the budget that is spent falls in lambda; bisection finds the line on which it
meets the radius, a second sort the lambda. All of it takes O(K log K). Any lambda >= 0 gives a lower bound and any q in
the ball an upper one. The error of a row is the gap of the two plus rounding, whatever the loops did.

``docs/mathematics/robust-sets.md`` has the proofs. An outcome with weight 0 is impossible, and keeps its centre, 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._numerics.compensated import EPS, sums_and_leaks, two_sum
from .._numerics.compile import kernel
from .._support.checks import FloatArray, IntArray
from ..models.entries import END
from ..models.uncertain import UncertainMDP
from .chain import Chain
from .row_risks import OutcomeRows, Task
from .rows import counts_of, outcome_values


class Sets(NamedTuple):
    """Sets of probabilities, by slots: intervals, or weighted balls."""

    low: FloatArray  # [F] least probabilities; or centres of balls
    high: FloatArray  # [F] greatest probabilities; or weights, 0 for an impossible outcome
    radius: FloatArray  # [B] radii of balls, or [0]
    sign: float  # 1.0: the worst of a set, -1.0: the best


class SetScratch(NamedTuple):
    """Scratch memory for one row."""

    y: FloatArray  # [K]
    order: IntArray  # [K]
    hull: IntArray  # [K] lines of the lower envelope
    begin: FloatArray  # [K] where they begin
    key: FloatArray  # [K]
    q: FloatArray  # [K]


@kernel
def sort_by(key, order, n):
    """Rearrange the first n places of ``order`` so that ``key`` of them ascends: a heap sort, without memory."""
    for end in range(n - 1, -1, -1):
        # make the heap first, then move its top to the end
        first, last = (n // 2 - 1, n) if end == n - 1 else (0, end + 1)
        if end < n - 1:
            order[0], order[end + 1] = order[end + 1], order[0]
        for root in range(first, -1, -1):
            at = root
            while 2 * at + 1 < last:
                child = 2 * at + 1
                if child + 1 < last and key[order[child + 1]] > key[order[child]]:
                    child += 1
                if key[order[child]] <= key[order[at]]:
                    break
                order[at], order[child] = order[child], order[at]
                at = child


@kernel
def fill_of_row(y, low, high, scratch):
    """Write the worst distribution of a row of intervals into ``scratch.q``; return Q and a bound on its error."""
    n, order, q = y.size, scratch.order, scratch.q
    total, rest = 0.0, 0.0
    for k in range(n):
        order[k] = k
        q[k] = low[k]
        total, lost = two_sum(total, low[k])
        rest += lost
    sort_by(y, order, n)
    left = (1.0 - total) - rest
    least, most = y[order[0]], y[order[n - 1]]
    for i in range(n):
        if left <= 0.0:
            break
        k = order[i]
        room = high[k] - low[k]
        if room < left:
            q[k] = high[k]
            left -= room
        else:
            q[k] = low[k] + left
            left = 0.0
    mass, rest, above = 0.0, 0.0, 0.0
    for k in range(n):
        mass, lost = two_sum(mass, q[k])
        rest += lost
        above += q[k] * (y[k] - least)
    # what the steps of filling lost of one is no choice of the set: only intervals that do not reach one lack mass
    if abs((1.0 - mass) - rest) <= 2.0 * n * EPS:
        mass, rest = 1.0, 0.0
    return (mass + rest) * least + above, 2.0 * EPS * abs(least) + (6.0 * n + 16.0) * EPS * (most - least)


@kernel
def _spent(y, p, w, j, price):
    """Return the budget that is spent at a price if outcome j receives what the others give away."""
    total = 0.0
    for k in range(y.size):
        if y[k] - y[j] > price * (w[k] + w[j]) and w[k] > 0.0:
            total += p[k] * (w[k] + w[j])
    return total


@kernel
def _give(y, p, w, radius, j, other, end, n, scratch):
    """Move mass from the outcomes in ``scratch.order`` to j, or in part to ``other``; return the price.

    ``other`` follows j on the lower envelope, where the price is ``end``; -1 if none does.
    """
    order, q, key = scratch.order, scratch.q, scratch.key
    for i in range(n):
        k = order[i]
        key[k] = -(y[k] - y[j]) / (w[k] + w[j])
    sort_by(key, order, n)
    to, spent, moved, price = j, 0.0, 0.0, 0.0
    if other >= 0:
        # whether the outcomes that give at the end of the line exhaust the budget already
        for i in range(n):
            k = order[i]
            if -key[k] >= end:
                spent += p[k] * (w[k] + w[j])
        if spent > radius:
            to, price = other, end
        spent = 0.0
    for i in range(n):
        k = order[i]
        if key[k] >= 0.0 or (to != j and -key[k] < end):
            break
        need = p[k] * (w[k] + w[to])
        if spent + need > radius:
            part = (radius - spent) / (w[k] + w[to])
            q[k] -= part
            moved += part
            spent = radius
            price = end if to != j else -key[k]
            break
        q[k] = 0.0
        moved += p[k]
        spent += need
    back = 0.0
    if to != j and spent < radius:
        back = min(moved, (radius - spent) / (w[j] - w[to]))
    q[to] += moved - back
    q[j] += back
    return price


@kernel
def ball_of_row(y, p, w, radius, scratch):
    """Write the worst distribution of a weighted ball into ``scratch.q``; return Q and a bound on its error."""
    order, hull, begin, q = scratch.order, scratch.hull, scratch.begin, scratch.q
    n, lines = 0, 0
    total, rest = 0.0, 0.0
    for k in range(y.size):
        q[k] = p[k]
        total, lost = two_sum(total, p[k])
        rest += lost
        if w[k] > 0.0:
            order[n] = k
            n += 1
    sort_by(y, order, n)
    least, most = y[order[0]], y[order[n - 1]]
    for i in range(n):  # the lower envelope of y + price w: lines with less and less slope
        k = order[i]
        if lines > 0 and w[k] >= w[hull[lines - 1]]:
            continue
        where = 0.0
        while lines > 0:
            where = (y[k] - y[hull[lines - 1]]) / (w[hull[lines - 1]] - w[k])
            if where > begin[lines - 1]:
                break
            lines -= 1
        hull[lines] = k
        begin[lines] = where if lines > 0 else 0.0
        lines += 1
    price = 0.0
    if _spent(y, p, w, hull[0], 0.0) <= radius:  # all mass can go to the worst outcome
        j = hull[0]
        for k in range(y.size):
            if y[k] > y[j] and w[k] > 0.0:
                q[j] += p[k]
                q[k] = 0.0
    else:
        first, last = 0, lines
        while last - first > 1:
            middle = (first + last) // 2
            if _spent(y, p, w, hull[middle], begin[middle]) > radius:
                first = middle
            else:
                last = middle
        other, end = (hull[first + 1], begin[first + 1]) if first + 1 < lines else (-1, np.inf)
        price = _give(y, p, w, radius, hull[first], other, end, n, scratch)
    # both bounds, relative to the worst outcome; the lower one holds at any price
    top = np.inf
    for i in range(n):
        k = order[i]
        top = min(top, (y[k] - least) + price * w[k])
    above, below = 0.0, 0.0
    for k in range(y.size):
        above += q[k] * (y[k] - least)
        if w[k] > 0.0:
            below += p[k] * min((y[k] - least) - top, price * w[k])
    below += (total + rest) * top - price * radius
    span = most - least
    return (total + rest) * least + above, max(0.0, above - below) + 2.0 * EPS * abs(least) + (
        8.0 * y.size + 32.0
    ) * EPS * span


@kernel
def set_of_pair(p, entries, sets, value, scratch):
    """Write the worst distribution of pair p at ``value`` into ``scratch.q``; return Q and a bound on its error.

    For ``sets.sign`` -1 it is the best one.
    """
    size = outcome_values(p, entries, entries.discount, value, scratch.y)
    low, high = counts_of(p, entries, sets.low), counts_of(p, entries, sets.high)
    y = scratch.y[: low.size]
    if sets.sign < 0.0:
        for k in range(y.size):
            y[k] = -y[k]
    if sets.radius.size > 0:
        q, error = ball_of_row(y, low, high, sets.radius[entries.source[p]], scratch)
    else:
        q, error = fill_of_row(y, low, high, scratch)
    return sets.sign * q, error + 2.0 * EPS * size


@kernel
def _set_values(pairs, entries, sets, value, longest, q):
    scratch = _scratch(longest)
    worst = 0.0
    for p in pairs:
        q[p], error = set_of_pair(p, entries, sets, value, scratch)
        worst = max(worst, error)
    return worst


@kernel
def _set_chances(pairs, entries, sets, value, longest, starts, chances):
    scratch = _scratch(longest)
    for i in range(pairs.size):
        set_of_pair(pairs[i], entries, sets, value, scratch)
        for k in range(starts[i + 1] - starts[i]):
            chances[starts[i] + k] = scratch.q[k]


@kernel
def _scratch(longest):
    whole = np.empty(longest, np.int64)
    return SetScratch(
        np.empty(longest), whole, np.empty(longest, np.int64), np.empty(longest), np.empty(longest), np.empty(longest)
    )


class SetRows(OutcomeRows):
    """The worst or the best of sets of probabilities, one for each source."""

    def __init__(self, model: UncertainMDP, sets: Sets) -> None:
        super().__init__(model)
        self.sets = sets
        self.leaks = self._leaks(model)

    def tasks(self, value: FloatArray, pairs: IntArray, q: FloatArray, accuracy: float, best: bool) -> Iterator[Task]:
        """See ``RowRisk.tasks``."""
        more, later = self.discount * self.later.rounding(value), self.later.extended(value)
        rows = self.entries, self.sets, later, self.longest, q
        run = lambda i, j: more + float(_set_values(pairs[i:j], *rows))  # noqa: E731
        yield Task(run, pairs.size, max(1, 20_000 // self.longest))

    def gradient(self, value: FloatArray, pairs: IntArray) -> Chain:
        """See ``SmoothRows.gradient``: the worst distributions at ``value``."""
        return self._chain(*self.chosen(value, pairs))

    def chosen(self, value: FloatArray, pairs: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Return what nature chooses at ``value``: probabilities, their entries, and where those of a pair begin."""
        entries, starts = self.entries.of_pairs(pairs)
        chances = np.empty(entries.size)
        _set_chances(pairs, self.entries, self.sets, self.later.extended(value), self.longest, starts, chances)
        return chances, entries, starts

    def _leaks(self, model: UncertainMDP) -> tuple[float, float]:
        """Return bounds on what the distributions of the sets lack to sum to one, ends of the process included."""
        least, greatest = missing_mass(self.sets, self.entries.begin)
        ends = model.entries.next_state == END
        if self.survival is not None:
            return min(least, 0.0) + self.leaks[0], min(1.0, self.leaks[1] + max(greatest, 0.0))
        if not ends.any():
            return least, greatest
        # the chance of an end is the value of a step that pays 1 if it is the last one
        over = np.full(ends.size, END, dtype=np.int32)
        paid = model.entries._replace(next_state=over, reward=ends.astype(np.float64))
        pairs, q = np.flatnonzero(paid.source >= 0), np.empty(paid.source.size)
        found = []
        for sign in (1.0, -1.0):
            error = _set_values(pairs, paid, self.sets._replace(sign=sign), np.zeros(1), self.longest, q)
            found.append((float(q[pairs].min()) - error, float(q[pairs].max()) + error))
        return max(0.0, found[0][0]) + min(least, 0.0), min(1.0, found[1][1]) + max(greatest, 0.0)


def missing_mass(sets: Sets, begin: IntArray) -> tuple[float, float]:
    """Return bounds on what the distributions of the sources lack to sum to one; 0 for rows that do but for rounding.

    A ball keeps the mass of its centre, as given. Intervals whose bounds do not reach one, or exceed it, keep that.
    """
    every, sums = np.ones(begin.size - 1, dtype=np.bool_), np.empty(begin.size - 1)
    if sets.radius.size:
        return sums_and_leaks(begin, sets.low, every, sums)
    highest = np.empty(sums.size)
    sums_and_leaks(begin, sets.low, every, sums)
    sums_and_leaks(begin, sets.high, every, highest)
    lack = np.where(sums > 1.0, 1.0 - sums, np.where(highest < 1.0, 1.0 - highest, 0.0))
    lack[abs(lack) <= (2.0 * np.diff(begin) - 1.0) * EPS] = 0.0  # see ``fill_of_row``
    margin = 4.0 * EPS * float(lack.any())
    return float(lack.min()) - margin, float(lack.max()) + margin
