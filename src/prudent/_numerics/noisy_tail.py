"""The tail of a Dirichlet mean plus normal noise: Z = X + sd N with X = w.v, for rewards whose mean is uncertain.

With G(y) = E[(y - X)+], F its distribution function and Q(y) = E[w; X <= y] from
``prudent._numerics.dirichlet_contour``, those of Z are convolutions with the normal density,

    G_Z(x) = E[G(x - sd N)],    F_Z(x) = E[F(x - sd N)],    Q_Z(x) = E[Q(x - sd N)],

and CVaR is the maximum over x of x - G_Z(x)/p, where F_Z(x) = p: an error of x counts in second order only.

**The integral.** G, F and Q are evaluated once, at nodes y that do not depend on x; every step of the search for the
quantile is then a sum of normal densities over the nodes, and so are the tail means. Two rules place the nodes.

- *Trapezoid.* Let g(y) be G of the normal with the mean and the variance of X. Its convolution is known, and G - g
  vanishes on both sides, so the trapezoidal rule for its convolution converges exponentially: about 20 nodes.
- *Panels.* Beside the value of an outcome G has a part like |y - v_k| to the power 1 + (sum of the other counts).
  Where that power is low, the range is cut at these values, and each panel is integrated by Gauss's rule, in a variable
  that makes its ends smooth. Above the range G is linear, below it is 0.

**What judges it.** Integrals of total derivatives are known, quadratures of them are not: of the derivatives of
n(x - y) G(y) and (x - y) n(x - y) G(y), with the normal density n. Both contain F, which is rougher than G. What they
miss by, in units of G, is an over-estimate of the error of G_Z, not a proof: in 700 random rows at four accuracies the
error was never above half of it (``tests/planning/test_noisy_tail.py``). A rule that misses by too much is refined.
Where the noise is large, ``noisy_series`` takes the place of nodes, with a rigorous bound.

**Limits.** For any X, with kappa = pdf(z)/p at the normal quantile z of p, Jensen's inequality and the superadditivity
of CVaR give

    max(CVaR(X) - kappa sd, mean - kappa sd - sd(X) sqrt((1 - p)/p)) <= CVaR(Z) <= min(CVaR(X), mean - kappa sd),

which is the answer, with an enclosure as its error, where the noise or the spread of X is below the accuracy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray, IntArray
from .compensated import EPS
from .compile import kernel
from .dirichlet_contour import SEARCH_ACCURACY, integrals
from .dirichlet_tail import (
    COARSEST_ACCURACY,
    FINEST_ACCURACY,
    _begin,
    _hand_out,
    _merged,
    _search,
    _sorted,
    tail_of_row,
)
from .noisy_series import Series, means_of_series, series_of_row, sums_of_series
from .normal import normal_cdf, normal_pdf, normal_quantile

FINEST = 1e-10  # of CVaR, in standard deviations of Z: always aimed at
MARGIN = 1.0  # by how many sd of the noise the quantile may differ from where it was expected
SMOOTHEST = 5.0  # panels have a smoother variable where the power of G at an end is below
ROUGHEST = 2.6  # the same, for a still smoother one
MAX_STEPS = 100  # on the way to the quantile
MAX_PASSES = 8  # of nodes around a new guess of the quantile
_ORDERS = np.array([6, 8, 10, 12, 16, 20, 24, 28, 32])  # of Gauss's rules
_RULES = np.zeros((_ORDERS.size, 2, 32))  # nodes in [0, 1] and weights
for _i, _m in enumerate(_ORDERS):
    _x, _w = np.polynomial.legendre.leggauss(int(_m))
    _RULES[_i, 0, :_m], _RULES[_i, 1, :_m] = 0.5 * (1.0 + _x), 0.5 * _w


class Nodes(NamedTuple):
    """Nodes of the rule, and what is known there; all are [T] unless said."""

    y: FloatArray  # from the center of the rule on, so that narrow noise has all its digits
    weight: FloatArray
    G: FloatArray  # less that of the normal, for the trapezoid
    F: FloatArray  # the same
    doubt: FloatArray  # error of G
    Q: FloatArray  # [T, K]
    panel: IntArray  # first node of panel i
    edges: FloatArray  # [T, 4] ends of panel i, from the center on, and G there


class Rule(NamedTuple):
    """How convolutions are evaluated near a point: by a series, or by nodes."""

    series: Series  # without terms: by nodes
    center: float
    used: int  # nodes
    panels: int
    control: bool  # a normal was subtracted at the nodes
    top: float  # end of the panels, above which G is linear
    lost: float  # error of what has no nodes
    nodes: Nodes


class Noise(NamedTuple):
    """The noise, the law of X, and what is asked for, in units of the range of the values."""

    sd: float
    mean: float
    own: float  # standard deviation of X
    p: float
    sharp: float  # error of G_Z / p to aim at


@kernel
def _look(y, noise, base, row):
    """Return G, F and the error of G at y; fill ``row.Q``. Those of a normal with sd ``base`` > 0 are subtracted."""
    G, F, doubt = 0.0, 0.0, 0.0
    if y <= row.value[0]:
        for k in range(row.n):
            row.Q[k] = 0.0
    elif y >= row.value[row.n - 1]:
        G, F = y - noise.mean, 1.0
        for k in range(row.n):
            row.Q[k] = row.psi[k] / row.total
    elif row.total < FINEST_ACCURACY * noise.p:  # all weight is on one outcome
        for k in range(row.n):
            row.Q[k] = row.psi[k] / row.total if row.value[k] <= y else 0.0
            G, F = G + row.Q[k] * (y - row.value[k]), F + row.Q[k]
        doubt = row.total
    else:
        sharp = min(0.3 * noise.sharp, SEARCH_ACCURACY)
        G, F, _, _, doubt = integrals(y, noise.p, sharp, sharp, 0.0, row)
    if base > 0.0:
        u = (y - noise.mean) / base
        below = normal_cdf(u)
        G -= base * (u * below + normal_pdf(u))
        F -= below
        for k in range(row.n):
            row.Q[k] -= row.psi[k] / row.total * below
    return G, F, doubt


@kernel
def _add(i, x, y, weight, noise, base, row, nodes):
    """Evaluate node i at x + y."""
    nodes.y[i], nodes.weight[i] = y, weight
    nodes.G[i], nodes.F[i], nodes.doubt[i] = _look(x + y, noise, base, row)
    for k in range(row.n):
        nodes.Q[i, k] = row.Q[k]


@kernel
def _reach(x, tail, noise, row):
    """Return between which points G differs from its limits, and the noise takes x, but for exp(-tail) of the mass.

    P(X <= mean - t) is at most exp(-n t^2 / (2 (s^2 + a t))), with the total n of the counts, the variance s^2 of the
    values and the distance a of the lowest one from the mean: Bernstein's inequality for U in ``dirichlet_contour``.
    """
    n, square = row.total, noise.own * noise.own * (row.total + 1.0)
    a, b = noise.mean - row.value[0], row.value[row.n - 1] - noise.mean
    left = min((tail * a + math.sqrt(tail * tail * a * a + 2.0 * n * tail * square)) / n, a)
    right = min((tail * b + math.sqrt(tail * tail * b * b + 2.0 * n * tail * square)) / n, b)
    far = (math.sqrt(2.0 * tail) + MARGIN) * noise.sd
    return noise.mean - left, noise.mean + right, x - far, x + far


@kernel
def _sum(x, noise, rule):
    """Return G_Z, F_Z and its density at x, and an error of G_Z: of the nodes, and what they miss identities by."""
    if rule.series.terms > 0:
        G, F, f = sums_of_series(x, noise.mean, rule.series)
        return G, F, f, rule.series.error
    sd, nodes = noise.sd, rule.nodes
    if rule.control:
        wide = math.hypot(noise.own, sd)
        u = (x - noise.mean) / wide
        below, density = normal_cdf(u), normal_pdf(u)
        G, F, f = wide * (u * below + density), below, density / wide
    else:
        u = (x - rule.top) / sd
        below, density = normal_cdf(u), normal_pdf(u)
        G, F, f = (x - noise.mean) * below + sd * density, below, density / sd
    error = rule.lost
    for i in range(rule.panels):
        last = nodes.panel[i + 1] if i + 1 < rule.panels else rule.used
        part, miss = _sum_panel(x - rule.center, i, last, noise, nodes)
        G, F, f, error = G + part[0], F + part[1], f + part[2], error + part[3] + miss
    return G, F, f, error


@kernel
def _sum_panel(x, i, last, noise, nodes):
    """Return what the nodes of panel i add to G_Z, F_Z, its density and the errors of G; and by what they miss.

    ``x`` is measured from the center of the rule.
    """
    sd = noise.sd
    G, F, f, doubt, one, two = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(nodes.panel[i], last):
        u = (x - nodes.y[j]) / sd
        w = nodes.weight[j] * normal_pdf(u) / sd
        here, slope = w * nodes.G[j], w * sd * nodes.F[j]
        G += here
        F += w * nodes.F[j]
        f -= w * u / sd * nodes.F[j]
        doubt += abs(w) * nodes.doubt[j]
        one += u * here + slope
        two += (u * u - 1.0) * here + u * slope
    for end in range(2):
        u = (x - nodes.edges[i, 2 * end]) / sd
        here = normal_pdf(u) * nodes.edges[i, 2 * end + 1] * (-1.0 if end == 1 else 1.0)
        one += here
        two += u * here
    return (G, F, f, doubt), max(abs(one), abs(two))


@kernel
def _trapezoid(x, tail, enough, noise, row, nodes):
    """Fill the nodes of a trapezoidal rule, halve its step as needed; return their number and what it misses by."""
    left, right, begin, end = _reach(x, tail, noise, row)
    far = math.sqrt(2.0 * tail)
    begin = max(begin, min(left, noise.mean - far * noise.own))
    end = min(end, max(right, noise.mean + far * noise.own))
    nodes.panel[0] = 0
    nodes.edges[0] = 0.0
    if not begin < end:
        return 0, 0.0
    step = 2.0 * math.pi / far / math.sqrt(1.0 / noise.sd**2 + 1.0 / noise.own**2)
    count = int((end - begin) / step) + 1
    begin -= 0.5 * (count * step - (end - begin))
    miss, total = np.inf, 0
    for halving in range(3):
        if halving > 0:
            step *= 0.5
            for j in range(total):
                nodes.weight[j] *= 0.5
        new = count + 1 if halving == 0 else count * 2 ** (halving - 1)
        if total + new > nodes.y.size:
            break
        for j in range(new):
            y = (begin - x) + (j * step if halving == 0 else (2 * j + 1) * step)
            _add(total + j, x, y, step, noise, noise.own, row, nodes)
        total += new
        miss = _sum_panel(0.0, nodes.panel[0], total, noise, nodes)[1]  # of panel 0
        if miss <= enough:
            break
    return total, miss


@kernel
def _panels(x, tail, enough, power, noise, row, nodes):
    """Fill the nodes of panels between rough values; return their number and that of panels, where they end, and ...

    ... infinity if there was no room for them, else 0.
    """
    left, right, begin, end = _reach(x, tail, noise, row)
    begin, end = max(begin, left), min(end, right)
    count, panels = 0, 0
    if not begin < end:
        return count, panels, right, 0.0
    scale = 1.0 / math.sqrt(1.0 / noise.sd**2 + 1.0 / noise.own**2)
    room = nodes.y.size
    ends = np.empty(4 * row.n + 64)  # of panels that wait, the lowest last
    ends[0], waiting = end, 1
    middle = (noise.mean + 7.0 * noise.own, noise.mean - 7.0 * noise.own)
    high = end
    for k in range(row.n - 1, -2, -1):
        low = row.value[k] if k >= 0 else -np.inf
        if k >= 0 and not (begin < low < high and row.total - row.psi[k] + 1.0 < power):
            continue
        low = max(low, begin)
        for at in middle:
            if low + 0.5 * scale < at < high - 0.5 * scale:
                ends[waiting], waiting = at, waiting + 1
                high = at
        ends[waiting], waiting = low, waiting + 1
        high = low
    far = math.sqrt(2.0 * tail)
    fair = enough / waiting
    a = ends[waiting - 1]
    G_a = _look(a, noise, 0.0, row)[0]
    waiting -= 1
    while waiting > 0:
        b = ends[waiting - 1]
        lowest = np.inf  # power of G at an end
        for k in range(row.n):
            if row.value[k] == a or row.value[k] == b:
                lowest = min(lowest, row.total - row.psi[k] + 1.0)
        need = 5.0 + 0.23 * far * (b - a) / scale
        need *= 1.7 if lowest < ROUGHEST else 1.3 if lowest < SMOOTHEST else 1.0
        if need > 33.0 and waiting + 1 < ends.size and 0.5 * (a + b) > a:
            ends[waiting], waiting = 0.5 * (a + b), waiting + 1
            continue
        if G_a - (a - noise.mean) <= 0.01 * fair:  # G is linear from here on
            break
        G_b = _look(b, noise, 0.0, row)[0]
        if G_b <= 0.01 * fair:  # G is about 0 up to here
            a, G_a, waiting = b, G_b, waiting - 1
            continue
        i = 0
        while i + 1 < _ORDERS.size and _ORDERS[i] < need:
            i += 1
        m = _ORDERS[i]
        if count + m > room:
            return count, panels, a, np.inf
        for j in range(m):
            u, weight = _RULES[i, 0, j], _RULES[i, 1, j]
            low, high, rate = _smooth(u, lowest)
            y = (a - x) + (b - a) * low if low < 0.5 else (b - x) - (b - a) * high
            _add(count + j, x, y, weight * rate * (b - a), noise, 0.0, row, nodes)
        nodes.edges[panels, 0], nodes.edges[panels, 1] = a - x, G_a
        nodes.edges[panels, 2], nodes.edges[panels, 3] = b - x, G_b
        nodes.panel[panels] = count
        miss = _sum_panel(0.0, panels, count + m, noise, nodes)[1]
        if miss > fair and waiting + 1 < ends.size and b - a > 1e-13 and count + 3 * m + 16 * waiting <= room:
            ends[waiting], waiting = 0.5 * (a + b), waiting + 1
            continue
        count, panels, waiting = count + m, panels + 1, waiting - 1
        a, G_a = b, G_b
    return count, panels, a, 0.0


@kernel
def _smooth(u, power):
    """Return a smooth variable in [0, 1] at u, one minus it, and its slope, for functions of low power at the ends."""
    v = 1.0 - u
    if power < ROUGHEST:
        low, high = u**3 * (10.0 - 15.0 * u + 6.0 * u * u), v**3 * (10.0 - 15.0 * v + 6.0 * v * v)
        return low, high, 30.0 * u * u * v * v
    if power < SMOOTHEST:
        return u * u * (3.0 - 2.0 * u), v * v * (3.0 - 2.0 * v), 6.0 * u * v
    return u, v, 1.0


@kernel
def _guess(noise, row, z, wide):
    """Return about where the quantile of Z is: by that of X, or by the moments of both."""
    if noise.sd < noise.own:
        x, warm = _begin(row, noise.p, np.nan, noise.mean, noise.own)
        return _search(row, noise.p, x, warm, COARSEST_ACCURACY, noise.mean).x
    third = 0.0
    for k in range(row.n):
        third += row.psi[k] * (row.value[k] - noise.mean) ** 3
    third *= 2.0 / (row.total * (row.total + 1.0) * (row.total + 2.0))
    skew = min(max(third / wide**3, -1.0), 1.0)
    return noise.mean + wide * (z + (z * z - 1.0) * skew / 6.0)


@kernel
def _room(size, n):
    """Return nodes for ``size`` points of rows with n outcomes."""
    table = np.empty((5, size))
    Q, panel, edges = np.empty((size, n)), np.empty(size, np.int64), np.empty((size, 4))
    return Nodes(table[0], table[1], table[2], table[3], table[4], Q, panel, edges)


@kernel
def _rule(x, enough, series, noise, row, nodes):
    """Fill the nodes for quantiles near x, so that the error of G_Z is at most ``enough`` if that is possible."""
    wide = math.hypot(noise.own, noise.sd)
    tail = max(math.log(15.0 * wide / enough), 4.0)  # exp(-tail) of the mass may be cut off
    # a power above this does no harm to the trapezoidal rule with its step
    power = tail / math.log(math.sqrt(2.0 * tail) * wide / noise.sd)
    left, right, begin, end = _reach(x, tail, noise, row)
    rough = False
    for k in range(row.n):
        if row.total - row.psi[k] + 1.0 < power and max(begin, left) <= row.value[k] <= min(end, right):
            rough = True
    if not rough:
        count, miss = _trapezoid(x, tail, enough, noise, row, nodes)
        if miss <= enough:
            return Rule(series, x, count, 1, True, right, 0.0, nodes)
    count, panels, top, lost = _panels(x, tail, enough, power, noise, row, nodes)
    return Rule(series, x, count, panels, False, top, lost, nodes)


@kernel
def _quantile(x, lo, hi, z, wide, noise, rule):
    """Return the quantile of Z near x, its bracket, G_Z and its error there, and how far x - G_Z/p may still rise.

    ``lo`` and ``hi`` are known to bracket it. Nodes tell nothing far from where they are: the search ends there.
    """
    p, center, rest = noise.p, x, np.inf
    G, F, f, error = 0.0, 0.0, 0.0, np.inf
    for _ in range(MAX_STEPS):
        G, F, f, error = _sum(x, noise, rule)
        off = p - F
        rest = off * off / (2.0 * p * f) if f > 0.0 else np.inf  # a second-order step to the top of x - G/p
        if rest <= 0.01 * noise.sharp and abs(off) <= 0.01 * p:
            break
        if off > 0.0:
            lo = x
        else:
            hi = x
        new = np.nan
        if f > 0.0 and 1e-12 < F < 1.0 - 1e-12:  # Newton on the normal scale, where F is close to a line
            at = normal_quantile(F)
            new = x + (z - at) * normal_pdf(at) / f
        if not lo < new < hi:
            new = 0.5 * (lo + hi) if lo > -np.inf and hi < np.inf else (x + wide if hi == np.inf else x - wide)
        if not lo < new < hi:  # neighbouring numbers
            break
        x = new
        if rule.series.terms == 0 and abs(x - center) > MARGIN * noise.sd:
            break
    # x - G/p is concave: it cannot rise further than along its tangent, up to the end of the bracket
    rest = min(rest, abs(p - F) / p * (min(hi, x + 8.0 * wide) - max(lo, x - 8.0 * wide)))
    return x, lo, hi, G, error, rest


@kernel
def _fill_means(x, noise, rule, row):
    """Fill ``row.Q`` with the means of w in the tail up to x."""
    if rule.series.terms > 0:
        means_of_series(x, noise.mean, rule.series, row)
    else:
        u = (x - noise.mean) / math.hypot(noise.own, noise.sd) if rule.control else (x - rule.top) / noise.sd
        below, nodes = normal_cdf(u), rule.nodes
        for k in range(row.n):
            row.Q[k] = row.psi[k] / row.total * below
        for j in range(rule.used):
            weight = nodes.weight[j] * normal_pdf((x - rule.center - nodes.y[j]) / noise.sd) / noise.sd
            for k in range(row.n):
                row.Q[k] += weight * nodes.Q[j, k]
    norm = 0.0
    for k in range(row.n):
        row.Q[k] = max(row.Q[k], 0.0)
        norm += row.Q[k]
    for k in range(row.n):
        row.Q[k] /= norm


@kernel
def noisy_tail_of_row(values, counts, sd, p, start, accuracy, work, q):
    """CVaR of w.values + sd N for w ~ Dirichlet(counts) and a standard normal N, sd > 0.

    Arguments and results are those of ``prudent._numerics.dirichlet_tail.tail_of_row``; ``start`` is the quantile in
    standard deviations of the sum. ``q`` are the means of w in the tail of the sum.
    """
    given, factor, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    z = normal_quantile(p) if p < 1.0 else 0.0
    kappa = normal_pdf(z) / p if p < 1.0 else 0.0
    if p >= 1.0 or not spread > 1e-13 * sd:  # the mean, or a normal
        mean = 0.0
        for k in range(values.size):
            q[k] = factor * counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        error = EPS * (size + 8.0 * kappa * sd + (4.0 + given) * spread)
        return reference + mean - kappa * sd, reference + mean + sd * z, z, error + (0.0 if p >= 1.0 else spread)

    row, mean, own = _merged(values, counts, given, factor, total, reference, spread, work)
    noise = sd / spread
    wide = math.hypot(own, noise)
    sharp = max(accuracy / spread, FINEST * wide)
    reach = own * math.sqrt((1.0 - p) / p)
    if reach <= max(FINEST_ACCURACY, 0.2 * sharp):
        for k in range(row.n):
            row.Q[k] = row.psi[k] / row.total
        _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
        result = reference + spread * max(mean - kappa * wide, mean - kappa * noise - reach)
        error = spread * (reach + 64.0 * EPS * (1.0 + noise)) + EPS * abs(result)
        return result, reference + spread * (mean + z * wide), z, error
    if kappa * noise <= max(FINEST_ACCURACY, 0.2 * sharp):
        result, x, start, error = tail_of_row(values, counts, p, start, accuracy, work, q)
        return result, x, start, error + kappa * sd
    sharp = min(sharp, COARSEST_ACCURACY * max(1.0, noise))
    ask = Noise(noise, mean, own, p, sharp)
    enough = 0.3 * sharp * p
    series = series_of_row(ask, enough, row)
    nodes = _room(0 if series.terms > 0 else 640 + 24 * row.n, row.n)
    lo, hi = -np.inf, np.inf
    if series.terms > 0:
        rule = Rule(series, 0.0, 0, 0, False, 0.0, 0.0, nodes)
        x = mean + (start if start == start else z) * wide
        x, lo, hi, G, error, rest = _quantile(x, lo, hi, z, wide, ask, rule)
    else:
        x = mean + start * wide if start == start else _guess(ask, row, z, wide)
        for _ in range(MAX_PASSES):
            center = x
            rule = _rule(x, enough, series, ask, row, nodes)
            x, lo, hi, G, error, rest = _quantile(x, lo, hi, z, wide, ask, rule)
            if abs(x - center) <= MARGIN * noise:
                break
        error += 0.1 * enough  # that was cut off
        if not error / p + rest < kappa * noise or abs(x - center) > MARGIN * noise:  # not found
            result, x, _, error = tail_of_row(values, counts, p, np.nan, accuracy, work, q)
            return result, x, np.nan, error + kappa * sd
    _fill_means(x, ask, rule, row)
    _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
    result = min(max(x - G / p + rest, mean - kappa * noise - reach), mean - kappa * noise)
    error = min(error / p + rest, reach) + 64.0 * EPS * (1.0 + noise)
    result = reference + spread * result
    return result, reference + spread * x, (x - mean) / wide, spread * error + EPS * abs(result)
