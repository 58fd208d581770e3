"""Row risks: Q of one state-action pair, as scalar functions that threads, the GPU and compiled loops share.

For a value function V every admissible pair (s, a) has a value Q(s, a):

    mean             r(s, a) + gamma sum_s' P(s' | s, a) V(s')
    draws            rho of the N numbers Z_i = r_i(s, a) + sum_k theta_i[b, k] (r(s, a, k) + gamma V(next(s, a, k)))
    Dirichlet        rho of the same Z under theta[b] ~ Dirichlet(psi[b]),      b = source(s, a)
    entropic         -(1/beta) log E[exp(-beta (r + gamma V(s')))]

The second is the approximate Bayesian-risk operator T-hat of the paper (with any spectral rho in place of CVaR), the
third is T^psi itself. All are monotone and translation equivariant: adding c to V adds gamma (1 - leak) c to Q. The
leak of a row is one minus its sum. Hence maximising over actions, or following a policy, gives a contraction with
MacQueen's bounds (see ``prudent.planning.certificate``). An outcome that ends the process has no next value, so its
probability is a leak.

All but the last are also piecewise smooth in V with a known gradient, and concave at levels of 0 and above. The
gradient is a vector of outcome probabilities; for CVaR these are the probabilities in the tail. They define a Markov
chain with rewards that is tangent to the backup at V. Solving that chain is the Newton step.

Pairs are numbered s * A + a. The classes of ``prudent.planning.row_risks`` hold a model and loop over pairs with these
functions.

**The screen.** Control needs Q of the best action of each state. Of the other actions it only needs to know that they
are not better. A screened backup may therefore store an upper bound in place of Q, if the largest entry of each state
is Q itself. Comparisons of actions stay correct: the greedy action is the same, and an action that the certificate
excludes by its upper bound is suboptimal. The Dirichlet risk has two upper bounds, each of which costs a few additions:

- CVaR of X, the mean of its lower tail, is at most the mean of X. Other measures exceed the mean by at most a known
  number of standard deviations (see ``Levels.of``).
- Q is monotone and translation equivariant. If V rises by at most c after a pair was evaluated, its Q rises by at most
  gamma (1 - leak) c, with the leak that gives the larger bound. So a pair that was evaluated once stays bounded.

The action that is most likely the best is evaluated first: the greedy action of the last backup, or else the best
action by the approximation of ``prudent._numerics.dirichlet_moments``. Then only the actions whose bound is not below
the best Q so far are evaluated. Bounds are rounded upwards. The error of Q is also that of the largest entry of a
state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS, two_product, two_sum
from .._numerics.compile import inlined, kernel, lean
from .._numerics.dirichlet_moments import Shape, moments_of_row, rough_quantile, rough_tail, shape_of
from .._numerics.dirichlet_tail import quantile_of_row, tail_of_row, tails_of
from .._numerics.order_statistics import spectral, two_lowest, weighted_draws
from .._support.checks import BoolArray, FloatArray, IntArray
from ..risk import ExactForm


@inlined
def later_value(target, discount, value):
    """Return gamma V(s') of an outcome with next state ``target``; 0 if it is negative, the end of the process."""
    # an unsigned index needs no test for negative values, which takes a third of the time of a row
    return discount * value[np.uint64(target)] if target >= 0 else 0.0


@inlined
def outcome_values(p, entries, discount, value, y):
    """Write r + gamma V(s') of each outcome of pair p into y; return the largest absolute sum |r| + |gamma V(s')|.

    ``entries`` has first, next_state and reward.
    """
    size = 0.0
    begin = entries.first[p]
    for j in range(entries.first[p + 1] - begin):
        later = later_value(entries.next_state[begin + j], discount, value)
        y[j] = entries.reward[begin + j] + later
        size = max(size, abs(entries.reward[begin + j]) + abs(later))
    return size


# -- mean: known probabilities -----------------------------------------------------------------------------


@kernel
def expected_rows(rows, discount, value, pairs, q):
    """Write r + gamma P V into ``q`` for ``pairs``; return the largest absolute reward and gamma max |V|."""
    indptr, indices, data, reward = rows
    top = 0.0
    for s in range(value.size):
        top = max(top, abs(value[s]))
    biggest = 0.0
    if top == 0.0:  # as before the first step
        for p in pairs:
            q[p] = reward[p]
            biggest = max(biggest, abs(reward[p]))
        return biggest, 0.0
    for i in range(pairs.size):
        p = np.uint64(pairs[i])  # an unsigned index needs no test for negative values, which halves the time
        total = 0.0
        for j in range(np.uint64(indptr[p]), np.uint64(indptr[p + np.uint64(1)])):
            total += data[j] * value[np.uint64(indices[j])]
        q[p] = reward[p] + discount * total
        biggest = max(biggest, abs(reward[p]))
    return biggest, discount * top


@kernel
def expected_residuals(rows, discount, value, rest, n_actions, pairs, out):
    """Write r + gamma P V - V for V = value + rest into ``out``; return the magnitude of the terms that cancel."""
    indptr, indices, data, reward = rows
    top, size = 0.0, 0.0
    for s in range(value.size):
        top = max(top, abs(value[s]))
    for p in pairs:
        total, low = 0.0, 0.0
        for j in range(indptr[p], indptr[p + 1]):
            product, lost = two_product(data[j], value[indices[j]])
            low += lost + data[j] * rest[indices[j]]
            total, lost = two_sum(total, product)
            low += lost
        later, lost = two_product(discount, total)
        low = lost + discount * low
        total, lost = two_sum(reward[p], -value[p // n_actions])
        low += lost - rest[p // n_actions]
        total, lost = two_sum(total, later)
        out[p] = total + (low + lost)
        size = max(size, abs(reward[p]))
    return size + 2.0 * top


# -- draws of the posterior --------------------------------------------------------------------------------


class Draws(NamedTuple):
    """Posterior draws and the weights of a risk measure."""

    theta: FloatArray  # [F, N] by slots; draws last, so that the sum over outcomes runs over contiguous memory
    offset: int  # slot of the first row of theta, which may hold only a block of the sources
    rewards: FloatArray  # [S*A, N] added to the rewards of the model, or [0, 0]
    weights: FloatArray  # [M] of the lowest draws in ascending order, or of the highest in descending order
    is_mean: bool  # whether all weights are equal: the draws need not be sorted


@inlined
def draws_of_pair(p, entries, draws, n, sign, value, z):
    """Write ``sign`` times Z_1, ..., Z_n of pair p at ``value`` into z; return the largest magnitude of their terms."""
    biggest = 0.0
    if draws.rewards.size:
        for i in range(n):
            z[i] = sign * draws.rewards[p, i]
            biggest = max(biggest, abs(z[i]))
    else:
        for i in range(n):
            z[i] = 0.0
    extra = biggest
    first = entries.first[p]
    slot = entries.begin[entries.source[p]] - draws.offset
    for j in range(entries.first[p + 1] - first):
        earned = entries.reward[first + j]
        later = later_value(entries.next_state[first + j], entries.discount, value)
        y = sign * (earned + later)
        biggest = max(biggest, abs(earned) + abs(later) + extra)
        row = draws.theta[slot + j]
        for i in range(n):
            z[i] += row[i] * y
    return biggest


@inlined
def back_up_pair(p, entries, draws, n, share, value, z, order):
    """Return Q of pair p at ``value``, and the largest magnitude of its terms.

    The first ``n`` draws are used. A negative ``n`` is minus their number, and the weights are those of the highest
    draws. If ``share`` is positive, the outermost draw has this weight and the next one the rest, and the weights of
    ``draws`` are ignored. ``z`` and ``order`` are scratch of size n.
    """
    sign = 1.0 if n > 0 else -1.0
    n = abs(n)
    biggest = draws_of_pair(p, entries, draws, n, sign, value, z)
    if n == 1:
        return sign * z[0], biggest
    if share > 0.0:
        return sign * two_lowest(z[:n], order, share), biggest
    return sign * (z[:n].mean() if draws.is_mean else spectral(z[:n], order[:n], draws.weights)), biggest


@inlined
def tail_of_pair(p, entries, draws, n, share, value, z, order, means):
    """Write the gradient of ``back_up_pair`` into ``means``, in the order of the entries; return the mean drawn reward.

    The gradient is the mean of the outcome probabilities over the draws in the tail at ``value``.
    """
    slot = entries.begin[entries.source[p]] - draws.offset
    size = entries.first[p + 1] - entries.first[p]
    sign = 1.0 if n > 0 else -1.0
    n = abs(n)
    if n == 1:
        for j in range(size):
            means[j] = draws.theta[slot + j, 0]
        return draws.rewards[p, 0] if draws.rewards.size else 0.0
    if share > 0.0:
        draws_of_pair(p, entries, draws, n, sign, value, z)
        two_lowest(z[:n], order, share)
        for j in range(size):
            row = draws.theta[slot + j]
            means[j] = share * row[order[0]] + (1.0 - share) * row[order[1]]
        return 0.0  # schedules have no reward draws
    if draws.is_mean:
        for i in range(n):
            order[i] = i
    else:
        draws_of_pair(p, entries, draws, n, sign, value, z)
        spectral(z[:n], order[:n], draws.weights)
    for j in range(size):
        means[j] = weighted_draws(draws.theta[slot + j], order, draws.weights)
    return weighted_draws(draws.rewards[p], order, draws.weights) if draws.rewards.size else 0.0


@inlined
def lowest_of_pair(p, slot, first, next_state, reward, discount, theta, n, sign, value, z):
    """Return the lowest of ``sign`` times Z_1, ..., Z_n of pair p, whose outcomes begin at ``slot``, and its index.

    This is ``back_up_pair`` with all weight on the lowest draw, for lean kernels that call it for every pair. ``p``,
    ``slot`` and all indices are unsigned: they need no test for negative values, which takes a third of the time.
    """
    none, one, two = np.uint64(0), np.uint64(1), np.uint64(2)
    low = np.inf
    index: Any = none
    begin, end = np.uint64(first[p]), np.uint64(first[p + one])
    if n == 1:
        low = 0.0
        for j in range(begin, end):
            y = sign * (reward[j] + later_value(next_state[j], discount, value))
            low += theta[slot + (j - begin), none] * y
    elif end - begin <= 3:
        # one draw at a time: with few draws the overhead of an inner loop is larger than its work
        y0, y1, y2 = 0.0, 0.0, 0.0
        for j in range(begin, end):
            y0, y1, y2 = y1, y2, sign * (reward[j] + later_value(next_state[j], discount, value))
        last = slot + (end - begin) - one
        r0, r1 = last - min(last, two), last - min(last, one)  # any valid row where y is zero
        for i in range(np.uint64(n)):
            x = theta[r0, i] * y0 + theta[r1, i] * y1 + theta[last, i] * y2
            index = i if x < low else index
            low = min(low, x)
    else:
        for i in range(np.uint64(n)):
            z[i] = 0.0
        for j in range(begin, end):
            y = sign * (reward[j] + later_value(next_state[j], discount, value))
            row = theta[slot + (j - begin)]
            for i in range(np.uint64(n)):
                z[i] += row[i] * y
        count, four = np.uint64(n), np.uint64(4)
        least, other = np.inf, np.inf  # of every other draw: a chain of comparisons is what takes the time
        third, fourth = np.inf, np.inf
        whole = count - count % four
        for i in range(none, whole, four):
            least, other = min(least, z[i]), min(other, z[i + one])
            third, fourth = min(third, z[i + two]), min(fourth, z[i + two + one])
        for i in range(whole, count):
            least = min(least, z[i])
        low = min(min(least, other), min(third, fourth))
        while index < count and z[index] != low:
            index += one
        index = index if index < count else none
    return low, index


# -- Dirichlet posteriors ---------------------------------------------------------------------------------


class Levels(NamedTuple):
    """The exact form of a measure for kernels: a mixture of J CVaRs or of J quantiles."""

    tail: FloatArray  # [J] mass of the tail
    sign: FloatArray  # [J] 1.0: lower tail, -1.0: upper tail
    weight: FloatArray  # [J]
    z: FloatArray  # [J] standard normal quantile with the mass of the tail above it
    quantile: bool  # a mixture of quantiles, not of CVaRs
    reach: float  # the measure exceeds the mean by at most this number of standard deviations

    @classmethod
    def of(cls, form: ExactForm) -> Levels:
        """Return the levels of an exact form.

        CVaR of a lower tail is at most the mean. By Cantelli's inequality a quantile with mass p below it exceeds the
        mean by at most sqrt(p / (1 - p)) standard deviations. CVaR of an upper tail of mass p exceeds the mean by at
        most sqrt((1 - p) / p) standard deviations.
        """
        tail, sign = tails_of(form.levels, form.quantile)
        below = np.where(sign > 0.0, tail, 1.0 - tail)  # mass below a quantile
        with np.errstate(divide="ignore"):
            reach = np.sqrt(below / (1.0 - below)) if form.quantile else np.sqrt((1.0 - tail) / tail) * (sign < 0.0)
        z = [shape_of(1.0 - float(mass)).z if 0.0 < mass < 1.0 else np.nan for mass in tail]
        used = form.weights > 0.0
        most = float((form.weights[used] * reach[used]).sum()) if (form.weights >= 0.0).all() else np.inf
        weight = np.ascontiguousarray(form.weights, dtype=np.float64)
        return cls(tail, sign, weight, np.array(z), form.quantile, most * (1.0 + 16.0 * EPS))

    def shape(self) -> Shape:
        """Return the shape whose rough tail approximates this measure, to first order in the skewness."""
        kappa, lean = 0.0, 0.0
        for mass, sign, weight, z in zip(self.tail, self.sign, self.weight, self.z, strict=True):
            if np.isnan(z):  # the mean, or an extreme value, which moments do not determine
                continue
            own = -float(z) if self.quantile else shape_of(1.0 - float(mass)).kappa
            kappa += weight * sign * own
            lean += weight * ((1.0 - z * z) if self.quantile else own * z)
        return Shape(float(lean / kappa) if kappa else 0.0, float(kappa))


class Memory(NamedTuple):
    """State of the exact operator between backups, for its P = S*A pairs and their E entries."""

    start: FloatArray  # [P, J] last quantiles in standard deviations from the mean, or NaN
    upper: FloatArray  # [P] Q is at most this plus the bound on its rise since the first backup; infinity if unknown
    best: IntArray  # [S] greedy pair of the last backup, or -1
    means: FloatArray  # [E] tail means
    has_means: BoolArray  # [P] whether the tail means are those at the values of the last backup


class Scratch(NamedTuple):
    """Scratch memory for one state."""

    y: FloatArray  # [K] r + gamma V(s') of the outcomes
    work: FloatArray  # [SCRATCH, K] of the contour integrals
    means: FloatArray  # [K] tail means
    guess: FloatArray  # [A] approximate Q of the actions


@inlined
def counts_of(p, entries, counts):
    """Return the counts of the outcomes of pair p."""
    slot = entries.begin[entries.source[p]]
    return counts[slot : slot + entries.first[p + 1] - entries.first[p]]


@kernel
def best_of_group(pairs, entries, counts, levels, shape, accuracy, value, memory, risen, scratch, q):
    """Write Q of the best of ``pairs``, all of one state, and upper bounds of the others; return the error.

    ``risen`` bounds the rise of Q since the first backup. It is not used for a group of one pair.
    """
    y, work, means, guess = scratch
    for i in range(pairs.size):
        guess[i] = 0.0
        if pairs.size > 1:
            p = pairs[i]
            size = outcome_values(p, entries, entries.discount, value, y)
            row = counts_of(p, entries, counts)
            low, mean, sd, skew, _ = moments_of_row(y[: row.size], row)
            q[p] = mean + (3.0 * row.size + 16.0) * EPS * size
            if levels.reach > 0.0:
                q[p] += (1.0 + (4.0 * row.size + 32.0) * EPS) * levels.reach * (sd + EPS * size)
            q[p] = min(q[p], memory.upper[p] + risen + EPS * (abs(memory.upper[p]) + abs(risen)))
            guess[i] = rough_tail(low, mean, sd, skew, shape)
            if p == memory.best[p // entries.n_actions]:
                guess[i] = np.inf
    best, worst = -np.inf, 0.0
    while True:
        # the pair with the best approximation among those that can still be the best
        i = -1
        for j in range(pairs.size):
            if guess[j] > -np.inf and (pairs.size == 1 or q[pairs[j]] >= best) and (i < 0 or guess[j] > guess[i]):
                i = j
        if i < 0:
            return worst
        guess[i] = -np.inf
        p = pairs[i]
        size = outcome_values(p, entries, entries.discount, value, y)
        row = counts_of(p, entries, counts)
        gradient = memory.means[entries.first[p] : entries.first[p + 1]]
        q[p], error = risk_of_row(y[: row.size], row, levels, memory.start[p], accuracy, work, means, gradient)
        memory.has_means[p] = True
        error += 2.0 * EPS * size
        worst = max(worst, error)
        if pairs.size > 1:
            upper = q[p] + error - risen
            memory.upper[p] = upper + 2.0 * EPS * (abs(upper) + abs(risen))
            if q[p] > best:
                memory.best[p // entries.n_actions] = p
        best = max(best, q[p])


@kernel
def risk_of_row(y, counts, levels, start, accuracy, work, means, out):
    """Return the risk of w.y for w ~ Dirichlet(counts), and a bound on its error; write its gradient into ``out``.

    ``start`` [J] has the quantiles of the last call, which are replaced; y, work and means are scratch.
    """
    n, size = y.size, 0.0
    for k in range(n):
        out[k] = 0.0
        size = max(size, abs(y[k]))
    if start[0] != start[0]:
        _, _, _, skew, total = moments_of_row(y, counts)
        for j in range(start.size):
            start[j] = rough_quantile(levels.sign[j] * skew, total, Shape(levels.z[j], 0.0))
    total, error, sign = 0.0, 0.0, 1.0
    for j in range(levels.tail.size):
        if levels.sign[j] != sign:
            sign = -sign
            for k in range(n):
                y[k] = -y[k]
        if levels.quantile:
            risk, _, start[j], doubt = quantile_of_row(y, counts, levels.tail[j], start[j], accuracy, work, means[:n])
        else:
            risk, _, start[j], doubt = tail_of_row(y, counts, levels.tail[j], start[j], accuracy, work, means[:n])
        total += sign * levels.weight[j] * risk
        error += levels.weight[j] * doubt
        for k in range(n):
            out[k] += levels.weight[j] * means[k]
    if levels.tail.size > 1:  # rounding of products, sums and weights
        error += 3.0 * (levels.tail.size + 1.0) * EPS * size
    return total, error


# -- the best of each state --------------------------------------------------------------------------------


@lean
def greedy(q, value, policy):
    """Write the largest entry of each row of ``q`` [S, A] into ``value`` and its first index into ``policy``.

    Returns the largest difference between the best and another finite entry of a row.
    """
    widest = 0.0
    for s in range(q.shape[0]):
        # without branches, which a processor cannot predict here
        best, worst, action = q[s, 0], np.inf, 0
        for a in range(q.shape[1]):
            here = q[s, a]
            action = a if here > best else action
            best = max(best, here)
            worst = min(worst, here if here > -np.inf else np.inf)
        value[s] = best
        policy[s] = action
        widest = max(widest, best - worst)
    return widest


@kernel
def keep_close(q, value, distance, pairs):
    """Move the pairs with q within ``distance`` of ``value`` to the front of ``pairs``; set q of the others to -inf.

    ``q`` [S, A], ``value`` [S], ``pairs`` ascending. Returns the number of pairs kept.
    """
    kept, s = 0, 0
    end = n_actions = q.shape[1]
    flat = q.reshape(-1)
    for i in range(pairs.size):
        p = np.uint64(pairs[i])
        while p >= end:
            s += 1
            end += n_actions
        # without branches, which a processor cannot predict here
        close = not flat[p] < value[s] - distance
        flat[p] = flat[p] if close else -np.inf
        pairs[kept] = pairs[i]
        kept += close
    return kept
