"""The tail of a Dirichlet mean: CVaR, VaR and their gradients, the kernels behind ``prudent.exact``.

G, F, Q and D are those of ``prudent._numerics.dirichlet_contour``. With F(x*) = p, CVaR is x* - G(x*)/p and
q = Q(x*)/p are the tail means E[w | X <= x*]; VaR is x* itself, and D(x*)/f(x*) are the means E[w | X = x*].

**The quantile.** x - G(x)/p is concave with maximum CVaR, so tangents at a point on either side of the maximum
bound it from above: a rigorous bracket, also where the quantile itself cannot be resolved. That happens: where the
counts of all other outcomes add up to less than one, F rises at the value of an outcome like |x - v_k| to that
small power. CVaR is then as good as ever, and the mass that cannot be told apart belongs to that outcome.

For VaR the quantile is the answer, so F is evaluated as well as it can be, and at a point on either side of x*: where
both are clear of p they bound x*, however F behaves between them. Where F is flat, that bound is wide.

**Spikes.** Where all counts but one add up to less than 1/2, it takes F at a few values to find between which two it
passes p, and then a model of F with the right power beside either of them. Below 1 ms for 100 outcomes all the same;
`make bench` prints it.

**Limits.** Where sd sqrt((1 - p)/p) is below rounding, CVaR and the quantile are the mean (Cantelli's inequality bounds
their distance from it by that). Where the total of the counts is below rounding, all weight is on one outcome, k with
probability psi_k/total, and CVaR is that of this discrete distribution: the mean distance is at most the total.

Values are measured from that of the outcome with the largest count, where the mass is: with counts of 1 against
1e9 the quantile keeps all its digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .compensated import EPS
from .compile import kernel
from .dirichlet_contour import (
    LUCKY_DEFECT,
    NEAR_QUANTILE,
    SEARCH_ACCURACY,
    SPIKE_COUNTS,
    Row,
    integrals,
    rough_log_cdf,
    slack,
)
from .normal import normal_pdf, normal_quantile

SCRATCH = 7  # rows of the scratch array of tail_of_row
FINEST_ACCURACY = 1e-12  # of CVaR, in units of the range of the values: always aimed at
COARSEST_ACCURACY = 1e-4  # less would not be cheaper
FADING_COUNTS = 2.0  # if all counts but one add up to less than this, M fades too slowly to judge by it
SAME_VALUE = 1e-18  # of the spread: values no further apart are one, which changes less than rounding does
NO_COUNT = 1e-200  # stands for counts that are smaller than that
LARGEST_COUNT = 1e100  # above, counts are scaled down together: the mean has no spread left
SMALLEST_TOTAL = 1e-24  # below, a quantile is a value: mass beyond 1e-12 from it is below rounding
SMALLEST_COUNT = 1e-100  # below, they are scaled up together: the weights are all on one outcome
MAX_VAGUE_POINTS = 6  # points at which F cannot be told from p: more of them, and it is flat there
MAX_HALVINGS = 100  # of the bracket, after which it is as good as it gets
GUESS_TOP = 0.7  # Laplace's approximation may stay below p for ever when p is close to one


@kernel
def _next_spike(row, lo, hi, F_lo, F_hi, p):
    """Return the value of an outcome strictly between lo and hi where F should pass p, or NaN if there is none.

    Where spikes are, nearly all mass is on the values: F is interpolated by their counts.
    """
    mass = 0.0
    for k in range(row.n):
        if row.total - row.psi[k] < SPIKE_COUNTS and lo <= row.value[k] <= hi:
            mass += row.psi[k] if lo < row.value[k] < hi else 0.5 * row.psi[k]
    wanted = mass * (p - F_lo) / (F_hi - F_lo)
    best, mass = np.nan, 0.0
    for k in range(row.n):
        if row.total - row.psi[k] < SPIKE_COUNTS and lo <= row.value[k] < hi:
            if lo < row.value[k]:
                best = row.value[k]
                mass += row.psi[k]
            else:
                mass += 0.5 * row.psi[k]
            if mass >= wanted and best == best:
                break
    return best


@kernel
def _first_guess(row, p, mean, sd):
    """Return a guess of the quantile: a root of Laplace's approximation of log F, or the mean."""
    left, right = row.value[0], row.value[row.n - 1]
    x = mean + normal_quantile(p) * sd
    lo, hi = left, right
    miss = 1.0
    for _ in range(12):
        if not lo < x < hi:
            x = 0.5 * (lo + hi)
        log_cdf, slope = rough_log_cdf(x, row)
        miss = math.log(min(p, GUESS_TOP)) - log_cdf
        if abs(miss) < 1e-2:
            break
        if miss > 0.0:
            lo = x
        else:
            hi = x
        x += miss / slope
    return x if left < x < right and abs(miss) < 1.0 else mean


@kernel
def _moved(x, step, anchor):
    """Return x + step, but never beyond ``anchor``: long steps towards it shrink the distance by a factor instead."""
    distance = x - anchor
    if step * distance < 0.0 and abs(step) > 0.3 * abs(distance):
        return anchor + distance * math.exp(max(step / distance, -7.0))
    return x + step


@kernel
def _between_spikes(row, lo, hi, F_lo, F_hi, x, F, f, p, closest):
    """Return where F should pass p between lo and hi, if the next values on both sides have spikes; or NaN.

    Close to a spike, F moves like a power of the distance. So it is taken for a (t^m) - b (l - t)^n + const, where t is
    the distance from the lower and l - t that from the upper value: through its values at lo and hi, and with its slope
    at x if that is known, else with a and b as the counts have it. No point is returned that
    lies closer to a value than ``closest``.
    """
    below, above = -1, -1
    for k in range(row.n):
        if row.value[k] <= lo:
            below = k
        elif above < 0 and row.value[k] >= hi:
            above = k
    if below < 0 or above != below + 1 or row.total - min(row.psi[below], row.psi[above]) >= SPIKE_COUNTS:
        return np.nan
    left, right = row.value[below], row.value[above]
    m, n = row.total - row.psi[below], row.total - row.psi[above]
    rise_a, rise_b = (hi - left) ** m - (lo - left) ** m, (right - lo) ** n - (right - hi) ** n
    a, b = -1.0, -1.0
    if f > 0.0 and x in (lo, hi):
        slope_a, slope_b = m * (x - left) ** (m - 1.0), n * (right - x) ** (n - 1.0)
        scale = rise_a * slope_b - rise_b * slope_a
        a, b = ((F_hi - F_lo) * slope_b - f * rise_b) / scale, (f * rise_a - (F_hi - F_lo) * slope_a) / scale
    if not (a >= 0.0 and b >= 0.0):
        a, b = row.psi[below] / (right - left) ** m, row.psi[above] / (right - left) ** n
        scale = (F_hi - F_lo) / (a * rise_a + b * rise_b)
        a, b = scale * a, scale * b
    # bisection in the logarithm of the distance from the nearer value
    wanted = p - F_lo + a * (lo - left) ** m - b * (right - lo) ** n
    middle = 0.5 * (left + right)
    lower = a * (middle - left) ** m - b * (right - middle) ** n > wanted
    near, far = math.log(closest), math.log(0.5 * (right - left))
    for _ in range(40):
        distance = math.exp(0.5 * (near + far))
        t = distance if lower else right - left - distance
        if (a * t**m - b * (right - left - t) ** n > wanted) == lower:
            far = 0.5 * (near + far)
        else:
            near = 0.5 * (near + far)
    distance = math.exp(0.5 * (near + far))
    return left + distance if lower else right - distance


class Quantile(NamedTuple):
    """Where the search for the quantile ended, and what is known there."""

    x: float
    top: float  # x - G(x)/p
    off: float  # p - F(x)
    f: float
    error: float  # of top
    gap: float  # how far CVaR can lie above top
    nearest: int  # outcome whose value is closest to x


@kernel
def _search(row, p, x, warm, sharp, mean):
    """Return the p-quantile of X, looked for from x, as closely as CVaR to ``sharp`` needs it; fill Q and D there."""
    left, right = row.value[0], row.value[row.n - 1]
    goal = normal_quantile(p)
    # x - G(x)/p is ``top`` at x; the ends of the bracket are exact to begin with
    lo, top_lo, F_lo, error_lo = left, left, 0.0, 0.0
    hi, top_hi, F_hi, error_hi = right, right - (right - mean) / p, 1.0, 0.0
    fine = warm
    near = max(NEAR_QUANTILE * p * (1.0 - p), 1e-13)
    beside = 0.3 * sharp
    narrowest, slow, turns = np.inf, 0, 0
    spike, F_spike = left, 0.0  # the last value of an outcome where F was evaluated
    while True:
        if not row.spiky:
            for k in range(row.n):
                if row.value[k] == x:
                    x += 1e-7 * (hi - x)  # f is not known at a value
        G, F, doubt, f, error = integrals(x, p, sharp, 0.3 * sharp if fine else SEARCH_ACCURACY, 0.0, row)
        off = p - F
        top = x - G / p
        clear = abs(off) > doubt
        if clear and off > 0.0:
            lo, top_lo, F_lo, error_lo = x, top, F - doubt, error / p
        elif clear:
            hi, top_hi, F_hi, error_hi = x, top, F + doubt, error / p
        # where the tangents at lo and hi meet, no value of x - G/p lies above theirs
        rise, fall = 1.0 - F_lo / p, F_hi / p - 1.0
        cut = (top_hi + fall * hi - top_lo + rise * lo) / (rise + fall)
        most_lo, most_hi, most = top_lo + rise * (hi - lo), top_hi + fall * (hi - lo), top_lo + rise * (cut - lo)
        gap = max(min(most + max(error_lo, error_hi), most_lo + error_lo, most_hi + error_hi) - top, 0.0)
        # nor above the tangent here, the only one to tell where the quantile is a value
        gap = min(gap, (abs(off) + doubt) / p * max(hi - x, x - lo))
        nearest = 0
        for k in range(row.n):
            if abs(x - row.value[k]) < abs(x - row.value[nearest]):
                nearest = k
        apart = x - row.value[nearest]
        if apart == 0.0:
            spike, F_spike = x, F
        at = Quantile(x, top, off, f, error / p, gap, nearest)
        smooth = abs(off) <= min(1e-3 * p * (1.0 - p), slack(sharp * p, f, np.inf if row.fades else abs(apart)))
        if abs(off) <= near or smooth or not clear or max(gap - 2.0 * error / p, abs(off * apart) / p) <= 0.3 * sharp:
            if fine or (error <= sharp * p and doubt <= LUCKY_DEFECT):
                return at
            fine = True
            continue
        new = np.nan
        if row.spiky:
            new = _next_spike(row, lo, hi, F_lo, F_hi, p)
            if not lo < new < hi:
                new = _between_spikes(row, lo, hi, F_lo, F_hi, x, F, f, p, beside)
            if not lo < new < hi:
                # one end has a spike: the quantile may be closer to it than numbers can tell
                for k in range(row.n):
                    if row.total - row.psi[k] < SPIKE_COUNTS and row.value[k] == lo:
                        new = lo + beside
                    elif row.total - row.psi[k] < SPIKE_COUNTS and row.value[k] == hi and not lo < new < hi:
                        new = hi - beside
        power = row.total - row.psi[nearest]
        same_side = row.value[nearest] == spike and (p - F_spike) * (F - F_spike) > 0.0
        if not lo < new < hi and power < SPIKE_COUNTS and same_side and abs(apart) <= 2.0 * beside:
            # this close to a spike F moves like that power of the distance
            new = spike + apart * math.exp(min(max(math.log((p - F_spike) / (F - F_spike)) / power, -9.0), 9.0))
        if not lo < new < hi and f > 0.0 and 1e-12 < F < 1.0 - 1e-12:
            # Newton on the normal scale, where F is close to a line
            here = normal_quantile(F)
            step = (goal - here) * normal_pdf(here) / f
            if power < SPIKE_COUNTS and apart != 0.0:  # a line in the logarithm of the distance, rather
                new = row.value[nearest] + apart * math.exp(min(max(step / apart, -12.0), 12.0))
            else:
                new = _moved(x, step, left if step < 0.0 else right)
        slow += 1
        if hi - lo <= 0.25 * narrowest:
            narrowest, slow = hi - lo, 0
        if not lo < new < hi or slow > 5:
            if turns > MAX_HALVINGS:
                return at
            new = cut if turns % 2 and lo < cut < hi else 0.5 * (lo + hi)
            if turns % 2 == 0 and row.spiky and (lo - spike) * (hi - spike) > 0.0:
                # half-way in the logarithm of the distance
                new = spike + math.copysign(math.sqrt((lo - spike) * (hi - spike)), lo - spike)
            turns += 1
            narrowest, slow = hi - lo, 0
        if not lo < new < hi:  # neighbouring numbers
            if fine:
                return at
            fine = True
            continue
        fine = abs(off) < 2e-3 * p * (1.0 - p)
        if row.spiky:
            fine = (fine and f > 0.0 and abs(off) < 1e-4) or min(new - lo, hi - new) <= 1.01 * beside
        x = new


@kernel
def _search_quantile(row, p, x, width):
    """Return the p-quantile of X, looked for from x to about ``width``, and a bound on its error; fill D beside it."""
    left, right = row.value[0], row.value[row.n - 1]
    goal = normal_quantile(p)
    lo, hi = left, right  # F is clear of p at both
    narrowest, slow, patience, turns, vague = np.inf, 0, 6, 0, 0
    best, error = x, right - left
    for _ in range(MAX_HALVINGS):
        _, F, doubt, f, _ = integrals(x, p, width, SEARCH_ACCURACY, width, row)
        off = p - F
        if off > doubt:
            lo = x
        elif off < -doubt:
            hi = x
        else:
            vague += 1
        closest = np.inf
        for k in range(row.n):
            closest = min(closest, abs(x - row.value[k]))
        new = np.nan
        best = x
        if f > 0.0 and 1e-12 < F < 1.0 - 1e-12:
            # Newton on the normal scale, and a little further: then the quantile lies between this point and the next
            here = normal_quantile(F)
            step = (goal - here) * normal_pdf(here) / f
            best = _moved(x, step, left if step < 0.0 else right)
            margin = max(0.5 * width, 2.0 * doubt / f)
            above, below = hi - best > 2.0 * margin, best - lo > 2.0 * margin  # whether an end is still to be found
            if lo < best < hi and not above and not below and (margin <= width or margin < 0.1 * closest):
                error = max(hi - best, best - lo)
                break
            new = best + margin if above and (off > 0.0 or not below) else best - margin
        best = min(max(best, lo), hi)
        error = max(hi - best, best - lo)
        if error <= width or vague > MAX_VAGUE_POINTS:
            break
        slow += 1
        if hi - lo <= 0.25 * narrowest:
            narrowest, slow = hi - lo, 0
        if not lo < new < hi or slow > patience:
            new = _cut(row, lo, hi, width, turns % 3)
            turns, patience, narrowest, slow = turns + 1, max(patience // 2, 1), hi - lo, 0
        if not lo < new < hi:  # neighbouring numbers
            break
        x = new
    return best, error


@kernel
def _cut(row, lo, hi, width, turn):
    """Return a point between lo and hi: the middle, or that of the logarithm of the distance from a value beside them.

    Beside a value F may rise like a small power of the distance. From the value itself the step is ``width``.
    """
    middle = 0.5 * (lo + hi)
    if turn == 0 or not hi - lo > 4.0 * width:
        return middle
    below, above = row.value[0], row.value[row.n - 1]
    for k in range(row.n):
        if row.value[k] <= lo:
            below = row.value[k]
        elif row.value[k] >= hi:
            above = min(above, row.value[k])
    if turn == 1:
        return below + math.sqrt(max(lo - below, width) * (hi - below)) if lo > below else lo + width
    return above - math.sqrt(max(above - hi, width) * (above - lo)) if above > hi else hi - width


@kernel
def _conditional_means(row, x):
    """Turn D beside the quantile x into Q, the means E[w | X = x]: they sum to one, and their mean value is x."""
    n, value, Q, D = row.n, row.value, row.Q, row.D
    norm, reached = 0.0, 0.0
    for k in range(n):
        Q[k] = max(D[k], 0.0)
        norm += Q[k]
        reached += Q[k] * value[k]
    if not 0.0 < norm < np.inf:  # at a value, where f is not known
        nearest = 0
        for k in range(n):
            Q[k] = 0.0
            if abs(x - value[k]) < abs(x - value[nearest]):
                nearest = k
        Q[nearest], norm, reached = 1.0, 1.0, value[nearest]
    reached /= norm
    end = 0 if reached > x else n - 1
    share = min((x - reached) / (value[end] - reached), 1.0) if reached != x else 0.0
    for k in range(n):
        Q[k] *= (1.0 - share) / norm
    Q[end] += share


@kernel
def _top(row, p, mean, at):
    """Return CVaR and a bound on its error; turn Q at the quantile into multiples of the tail means that give CVaR.

    CVaR is the maximum of x - G(x)/p: a second-order step to the top, a first-order step for its gradient.
    """
    n, value, Q, D = row.n, row.value, row.Q, row.D
    left = value[0]
    top, error = at.top, at.error
    if abs(at.off) <= 1e-2 * p * (1.0 - p) and at.f > 0.0:
        step = at.off / at.f
        rest = min(0.5 * at.off * step / p, at.gap)
        top += rest
        error += rest
        # the same step, but so that the tail means reproduce CVaR to the last digit
        short, slope = 0.0, 0.0
        for k in range(n):
            short += (top - value[k]) * Q[k]
            slope += (value[k] - top) * D[k]
        if slope > 0.0:
            step = short / slope
        for k in range(n):
            Q[k] += step * D[k]
    else:
        Q[at.nearest] += at.off
        error += at.gap
    top = min(max(top, left), mean)  # the lowest value and the mean bracket CVaR
    norm, reached = 0.0, 0.0
    for k in range(n):
        Q[k] = max(Q[k], 0.0)
        norm += Q[k]
        reached += Q[k] * value[k]
    reached /= norm
    # what rounding left between the tail means and CVaR goes to the lowest outcome, or to all of them
    if reached > top:
        share = (reached - top) / (reached - left)
        for k in range(n):
            Q[k] *= 1.0 - share
        Q[0] += share * norm
    elif reached < top:
        share = (top - reached) / (mean - reached)
        for k in range(n):
            Q[k] += share * (row.psi[k] / row.total * norm - Q[k])
    for k in range(n):
        Q[k] /= norm
    return top, error


@kernel
def _sorted(values, counts, value, order):
    """Sort the values that can happen into ``value``, their places into ``order``.

    Returns how many, the factor of absurdly large or small counts, the total of the counts, and the value of the
    largest count.
    """
    n, total, biggest, reference = 0, 0.0, -1.0, 0.0
    for k in range(values.size):
        if counts[k] > biggest:
            biggest, reference = counts[k], values[k]
    factor = 1.0
    if biggest > LARGEST_COUNT:
        factor = LARGEST_COUNT / biggest
    elif biggest < SMALLEST_COUNT:
        factor = SMALLEST_COUNT / biggest
    for k in range(values.size):
        if counts[k] > 0.0:
            total += factor * counts[k]
            i = n
            while i > 0 and value[i - 1] > values[k]:
                value[i], order[i] = value[i - 1], order[i - 1]
                i -= 1
            value[i], order[i] = values[k], k
            n += 1
    return n, factor, total, reference


@kernel
def _merged(values, counts, given, factor, total, reference, spread, work):
    """Return the row in which outcomes of equal value are one, given the order of ``_sorted``; mean and sd of X."""
    value, count, order = work[0], work[1], work[6]
    n = 0
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if n > 0 and here - value[n - 1] <= SAME_VALUE:
            count[n - 1] += max(factor * counts[k], NO_COUNT)
        else:
            value[n], count[n] = here, max(factor * counts[k], NO_COUNT)
            n += 1
    mean, biggest = 0.0, 0.0
    for k in range(n):
        mean += count[k] * value[k]
        biggest = max(biggest, count[k])
    mean /= total
    variance = 0.0
    for k in range(n):
        variance += count[k] * (value[k] - mean) ** 2
    spiky, fades = total - biggest < SPIKE_COUNTS, total - biggest > FADING_COUNTS
    row = Row(n, value, count, total, spiky, fades, work[2], work[3], work[4], work[5])
    return row, mean, math.sqrt(variance / (total * (total + 1.0)))


@kernel
def _begin(row, p, start, mean, sd):
    """Return where to look for the quantile first, and whether that is near, after an earlier call."""
    left, right = row.value[0], row.value[row.n - 1]
    x = mean + start * sd
    warm = left < x < right
    if not warm and row.spiky:
        x = _next_spike(row, left, right, 0.0, 1.0, p)
    elif not warm:
        x = _first_guess(row, p, mean, sd)
    return x if left < x < right else mean, warm


@kernel
def _hand_out(values, counts, given, factor, reference, spread, row, order, q):
    """Write Q into ``q`` [K], for the outcomes as they were given."""
    for k in range(values.size):
        q[k] = 0.0
    j = -1
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if j < 0 or here - row.value[j] > SAME_VALUE:
            j += 1
        q[k] = row.Q[j] * (max(factor * counts[k], NO_COUNT) / row.psi[j])


@kernel
def _concentrated(row):
    """Fill Q with the mean weights, which all weights are where the counts are huge."""
    for k in range(row.n):
        row.Q[k] = row.psi[k] / row.total


@kernel
def _is_finite(row):
    """Return whether all of Q is finite."""
    total = 0.0
    for k in range(row.n):
        total += abs(row.Q[k])
    return total < np.inf


@kernel
def _discrete(row, p, quantile):
    """Return CVaR where all weight is on one outcome; fill Q with tail means, D[0] and D[1] with quantile and error.

    At the quantile all weight is on its outcome. The quantile is that outcome's value unless p is so close to a step of
    the distribution function that the next outcome may be meant.
    """
    n, value, Q, D = row.n, row.value, row.Q, row.D
    below, top = 0.0, 0.0
    for k in range(n):
        Q[k] = 0.0
    for k in range(n):
        mass = row.psi[k] / row.total
        Q[k] = max(min(mass, p - below), 0.0) / p
        top += Q[k] * value[k]
        if below + mass >= p or k == n - 1:
            doubt = row.total / FINEST_ACCURACY + 4.0 * EPS  # mass further than that from its outcome, and rounding
            error = FINEST_ACCURACY
            if p - below <= doubt and k > 0:
                error = max(error, value[k] - value[k - 1])
            if below + mass - p <= doubt and k < n - 1:
                error = max(error, value[k + 1] - value[k])
            if quantile:
                Q[:n] = 0.0
                Q[k] = 1.0
            D[0], D[1] = value[k], error
            break
        below += mass
    return max(top, value[0])


@kernel
def tail_of_row(values, counts, p, start, accuracy, work, q):
    """CVaR of w.values for w ~ Dirichlet(counts), where p = 1 - alpha is the mass of the tail.

    ``values``, ``counts``, ``q`` [K]; ``work`` [SCRATCH, K] is scratch. ``start`` is the quantile in standard
    deviations from the mean, from an earlier call with similar values, or NaN. ``accuracy`` is the error of CVaR
    that may be left; zero asks for the sharpest. Fills ``q`` with the tail means and returns (CVaR, quantile, start
    for the next call, bound on the error of CVaR).
    """
    given, factor, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    if not spread > 0.0 or p >= 1.0:
        mean = 0.0
        for k in range(values.size):
            q[k] = factor * counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        return reference + mean, high, start, EPS * (size + (4.0 + given) * spread)

    row, mean, sd = _merged(values, counts, given, factor, total, reference, spread, work)
    left = row.value[0]
    reach = sd * math.sqrt((1.0 - p) / p)
    if reach < FINEST_ACCURACY or total < FINEST_ACCURACY * p:
        if reach < FINEST_ACCURACY:
            _concentrated(row)
            top, x = mean, mean
        else:
            top = _discrete(row, p, False)
            x = row.D[0]
        _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
        result = reference + spread * top
        error = spread * (min(reach, total / p, mean - left) + 64.0 * EPS) + EPS * abs(result)
        return result, reference + spread * x, start, error
    x, warm = _begin(row, p, start, mean, sd)
    at = _search(row, p, x, warm, min(max(accuracy / spread, FINEST_ACCURACY), COARSEST_ACCURACY), mean)
    top, error = _top(row, p, mean, at)
    if not (abs(top) < np.inf and error >= 0.0 and _is_finite(row)):  # no contour was found: the mean, Cantelli's bound
        _concentrated(row)
        top, error = mean, reach
    _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
    result = reference + spread * top
    error = spread * (min(error, mean - left) + 64.0 * EPS) + EPS * abs(result)
    return result, reference + spread * at.x, (at.x - mean) / sd, error


def tails_of(level: FloatArray, quantile: bool) -> tuple[FloatArray, FloatArray]:
    """Return the mass of the tail and its side, 1 below and -1 above, of risk levels in (-1, 1] of CVaR, or of VaR.

    A quantile is looked for from the side that is nearer, where the mass beyond it is known to the last digit.
    """
    sign = np.where(level < 0.0, -1.0, 1.0)
    tail = 1.0 - abs(level)
    if not quantile:
        return tail, sign
    far = tail > 0.5
    return np.where(far, abs(level), tail), np.where(far, -sign, sign)


@kernel
def quantile_of_row(values, counts, p, start, accuracy, work, q):
    """The p-quantile of w.values for w ~ Dirichlet(counts): VaR at level 1 - p.

    Arguments and results as for ``tail_of_row``, but that ``q`` are the means of w at the quantile, which comes
    first as well as second. At p = 0 and 1 it is the lowest and the highest value that can happen.
    """
    given, factor, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    if not spread > 0.0 or p >= 1.0 or p <= 0.0:
        end, mass = low if p <= 0.0 else high, 0.0
        for k in range(values.size):
            q[k] = max(factor * counts[k], NO_COUNT) if values[k] == end and counts[k] > 0.0 else 0.0
            mass += q[k]
        for k in range(values.size):
            q[k] /= mass
        return end, end, start, 0.0

    row, mean, sd = _merged(values, counts, given, factor, total, reference, spread, work)
    reach = sd * math.sqrt(max((1.0 - p) / p, p / (1.0 - p)))
    if reach < FINEST_ACCURACY or total < SMALLEST_TOTAL:
        if reach < FINEST_ACCURACY:
            _concentrated(row)
            x, error = mean, reach
        else:
            _discrete(row, p, True)
            x, error = row.D[0], row.D[1]
        _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
        result = reference + spread * x
        return result, result, start, spread * (error + 64.0 * EPS) + EPS * abs(result)
    x, _ = _begin(row, p, start, mean, sd)
    x, error = _search_quantile(row, p, x, min(max(accuracy / spread, FINEST_ACCURACY), COARSEST_ACCURACY))
    _conditional_means(row, x)
    if not (abs(x) < np.inf and error >= 0.0 and _is_finite(row)):
        _concentrated(row)
        x, error = mean, min(reach, 1.0)
    _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
    result = reference + spread * x
    return result, result, (x - mean) / sd, spread * (error + 64.0 * EPS) + EPS * abs(result)
