"""The tail of a Dirichlet mean, by a contour integral: the kernels behind :mod:`prudent.exact`.

Let w ~ Dirichlet(psi) over K outcomes with values v, total n = sum(psi), and X = w.v. With independent
g_k ~ Gamma(psi_k, 1) and U(x) = sum_k g_k (x - v_k) = (sum g)(x - X), whose moment generating function is
M(z) = prod_k (1 - z d_k)^(-psi_k), d_k = x - v_k,

    G(x)   = E[(x - X)+]    = (1/n)     (1/2 pi i) int M(z) / z^2         dz
    Q_k(x) = E[w_k; X <= x] = (psi_k/n) (1/2 pi i) int M(z) r_k / z       dz,   r_k = 1/(1 - z d_k)
    D_k(x) = dQ_k/dx        = (psi_k/n) (1/2 pi i) int M(z) r_k (S + r_k) dz,   S = sum_j psi_j r_j

over any path from below to above that crosses the real axis in (0, 1/max d). F = sum_k Q_k is the distribution
function of X and f = sum_k D_k its density. With F(x*) = p, CVaR is x* - G(x*)/p and q = Q(x*)/p are the
tail means E[w | X <= x*].

**The path.** z(v) = c + h (i sinh s - b (cosh s - 1)), s = (pi/2) sinh v, with the midpoint rule in v: equidistant
nodes in v are spaced like the logarithm of the distance from c, so few of them see every scale, from that of the
largest count to that of the smallest, and the rule converges exponentially. About 25 nodes give ten digits, whatever
the counts; a third of the step (the midpoints nest) roughly cubes the error.

- c is the minimum of log M - 2 log z on the axis, with at least one count on the lowest outcome. A lowest outcome of
  tiny count would draw the minimum to its branch point 1/max d, where it does no good: the singularity is weak.
- b bends the path. Along a straight one an outcome with a large count and d close to zero makes the integrand
  turn, exp(i y psi d), long before it makes it small. ``_bend`` looks at log M along the straight path, scale by
  scale: where the integrand first turns faster than the nodes can follow, it bends towards steepest descent; never so
  that the integrand would grow at another scale.

The path meets the real axis only in c, so principal logarithms are right.

**What judges it.** The identity sum_k d_k Q_k = G is the integral of a total derivative: it holds for the
integrals, not for a quadrature of them. Its defect measures the quadrature error at the cost of one more sum.

**The quantile.** x - G(x)/p is concave with maximum CVaR, so tangents at a point on either side of the maximum
bound it from above: a rigorous bracket, also where the quantile itself cannot be resolved. That happens: where the
counts of all other outcomes add up to less than one, F rises at the value of an outcome like |x - v_k| to that
small power. CVaR is then as good as ever, and the mass that cannot be told apart belongs to that outcome.

**Time.** `make bench` prints it: with 100 outcomes below 1 ms, but 1 to 5 ms where all counts but one add up to less
than 1/2: the spikes take some ten evaluations.

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
from .normal import normal_pdf, normal_quantile

__all__ = ["SCRATCH", "tail_of_row"]

SCRATCH = 7  # rows of the scratch array of tail_of_row
SHARPEST = 1e-12  # accuracy of CVaR, in units of the range of the values, that is always aimed at
BLUNTEST = 1e-4  # less would not be cheaper
LUCK = 1e-8  # a defect that passes through zero passes for a small one, but then F, less well known, tells
ROUGH = 1e-5  # accuracy of G, relative to G, while the quantile is being looked for
STEP = 0.066  # of the midpoint rule in v
SMALLEST_STEP = 0.003
CAP, OPEN = 3.3, 1e9  # spacing of far nodes where the integrand ends in a fast turn, and where it fades slowly
FARTHEST = 300.0  # no path is followed further than exp(300) times its scale
NEGLIGIBLE = 1e-17  # a node of this size, relative to all before it, is the last
WIDTH = 1.4  # of the path, in units of the integrand's own scale
NEAR = 1e-6  # |F - p| / (p (1 - p)) at which the corrections below are exact to rounding
SPIKE = 0.5  # F has a spike at a value if all other counts add up to less than this
FEW, SMALL = 4, 4.0  # so many equal counts, if they are small, are worth multiplying before taking a logarithm
ROUGH_TOP = 0.7  # Laplace's approximation may stay below p for ever when p is close to one
# sinh s, cosh s and ds/dv at the midpoints of a third of the step, where nodes are not capped
_S = 0.5 * math.pi * np.sinh(np.arange(0.5 * STEP / 3.0, math.asinh(2.0 * FARTHEST / math.pi), STEP / 3.0))
TABLE = np.stack([np.sinh(_S), np.cosh(_S), np.hypot(0.5 * math.pi, _S)], axis=1)


class Row(NamedTuple):
    """One row of outcomes with different values, lowest first, and the arrays to work in; all [K]."""

    n: int  # outcomes in use
    value: FloatArray  # from 0 at the largest count, in units of the range
    psi: FloatArray
    total: float
    common: float  # a small count that many outcomes share, or -1
    spiky: bool  # F has a spike at the value of some outcome
    e: FloatArray  # d / (1 - c d)
    r: FloatArray  # 1 / (1 - c d)
    Q: FloatArray
    D: FloatArray


class Path(NamedTuple):
    """Where the contour crosses the axis, its width and its bend."""

    c: float
    h: float
    b: float
    cap: float  # largest spacing of nodes, in units of the step and e-folds of the distance from c


class Sums(NamedTuple):
    """Imaginary parts of the sums over nodes of M/z^2, M sum(psi d r)/z, M/z, M S/z and M sum(psi r (S + r))."""

    G: float
    dQ: float
    P: float
    F: float
    f: float
    grows: bool  # the integrand grows along this path, which is useless


@kernel
def _saddle(x, row, order, extra):
    """Return about where log M(z) - order log z is least on (0, 1/max d), given ``extra`` counts of the lowest."""
    left, right = 0.0, 1.0 / (x - row.value[0])
    z = 0.5 * right
    for _ in range(200):
        d = x - row.value[0]
        r = 1.0 / (1.0 - z * d)
        slope, curve = extra * z * d * r - order, extra * d * r * r  # z phi', and its derivative near the root
        for k in range(row.n):
            d = x - row.value[k]
            r = 1.0 / (1.0 - z * d)
            slope += row.psi[k] * z * d * r
            curve += row.psi[k] * d * r * r
        if slope > 0.0:
            right = z
        else:
            left = z
        new = z - slope / curve
        if not left < new < right:  # also when curve <= 0
            new = 0.5 * (left + right)
        moved = abs(new - z)
        z = new
        if moved <= 1e-3 * z:  # a point near it serves as well
            break
    return z


@kernel
def _rough_log_cdf(x, row):
    """Return Laplace's approximation of log F(x) (within 10% for counts of one or more) and its slope."""
    c = _saddle(x, row, 1.0, 0.0)
    height, curve, s = -math.log(c), 1.0 / (c * c), 0.0
    for k in range(row.n):
        d = x - row.value[k]
        r = 1.0 / (1.0 - c * d)
        height -= row.psi[k] * math.log1p(-c * d)
        curve += row.psi[k] * (d * r) ** 2
        s += row.psi[k] * r
    return height - 0.5 * math.log(2.0 * math.pi * curve), c * s


@kernel
def _bend(c, h, curl, row):
    """Return the bend of the path through c with width h; ``curl`` is that of steepest descent at c."""
    least, most, bend, cap = -1.0, 1.0, curl, OPEN
    found = False
    y, height = 0.5 * h, 0.0
    for _ in range(60):
        slope = -2.0 / complex(c, y)  # of log M - 2 log z at c + iy
        for k in range(row.n):
            x = y * row.e[k]
            w = row.psi[k] * row.e[k] / (1.0 + x * x)
            slope += complex(w, w * x)
        turn, fall = slope.real * y, max(slope.imag * y, 1e-300)  # per e-fold of y: of the angle, of the logarithm
        if turn > 1.0:  # a path that bends the other way must not let the integrand grow here
            least = max(least, -0.5 * fall / turn)
        elif turn < -1.0:
            most = min(most, -0.5 * fall / turn)
        far = math.asinh(y / (WIDTH * h))
        if not found and abs(turn) * STEP * math.sqrt(0.25 * math.pi**2 + far * far) > 1.0:  # per node
            found = True
            bend = turn / fall
            if far > CAP:
                cap = CAP
        elif found and turn * bend > 0.0 and abs(turn) > fall * abs(bend):
            bend = turn / fall  # the turn goes on
        y *= 4.0
        height -= 2.0 * math.log(2.0) * (fall - 2.0)  # of M, which F needs
        if height < -40.0:
            break
    return min(max(bend, least), most), cap


@kernel
def _sum_nodes(v, step, path, row, means):
    """Sum the nodes at v, v + step, ... up to the last that counts; with ``means``, add to Q and D as well."""
    c, h, b, cap = path
    G, dQ, P, F, f, bulk, bulk_G = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    place, stride = -1, round(3.0 * step / STEP)
    if cap == OPEN and step >= STEP:
        place = int(3.0 * v / STEP)
    while True:
        if place >= 0:
            if place >= TABLE.shape[0]:
                break
            sinh, cosh, spacing = TABLE[place, 0], TABLE[place, 1], TABLE[place, 2]
            place += stride
        else:
            s = 0.5 * math.pi * math.sinh(v)
            spacing = 0.5 * math.pi * math.cosh(v) / math.sqrt(1.0 + (s / cap) ** 2)
            s = cap * math.asinh(s / cap)
            if s > FARTHEST:
                break
            sinh, cosh = math.sinh(s), math.cosh(s)
        X, Y = -b * h * (cosh - 1.0), h * sinh  # z = c + X + iY
        square = X * X + Y * Y
        size = -math.log1p((square / c + 2.0 * X) / c)  # log |M/z^2|, and its angle, from their values at c
        angle = -2.0 * math.atan2(Y, c + X)
        Pr, Pi, Sr, Si, Tr, Ti = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # sums of psi d r, psi r, psi r^2
        product_r, product_i, halves, side = 1.0, 0.0, 0, 0.0
        for k in range(row.n):
            e, psi = row.e[k], row.psi[k]
            A, B = 1.0 - X * e, Y * e  # (1 - z d) / (1 - c d) = A - iB
            more = e * (e * square - 2.0 * X)  # |A - iB|^2 - 1
            g = 1.0 / (1.0 + more)
            gr, gi = g * A, g * B
            Pr += psi * e * gr
            Pi += psi * e * gi
            gr *= row.r[k]
            gi *= row.r[k]
            Sr += psi * gr
            Si += psi * gi
            Tr += psi * (gr * gr - gi * gi)
            Ti += psi * gr * gi
            if psi != row.common:
                size -= 0.5 * psi * math.log1p(more)
                angle += psi * math.atan2(B, A)
            elif e != 0.0:
                # Equal counts multiply before the logarithm is taken. All factors turn the way of the sign of e, each
                # by less than half a turn: the imaginary part changes its sign with every half-turn.
                if e * side < 0.0 or abs(product_r) + abs(product_i) > 1e20:
                    size, angle = _add_product(size, angle, psi, product_r, product_i, halves, side)
                    product_r, product_i, halves = 1.0, 0.0, 0
                before = product_i
                product_r, product_i = product_r * A - product_i * B, product_i * A + product_r * B
                halves += before * product_i < 0.0
                side = math.copysign(1.0, e)
        if side != 0.0:
            size, angle = _add_product(size, angle, row.common, product_r, product_i, halves, side)
        if size > 2.0:
            return Sums(0.0, 0.0, 0.0, 0.0, 0.0, True)
        weight = math.exp(size) * (h * spacing)
        W = weight * complex(math.cos(angle), math.sin(angle)) * complex(-b * sinh, cosh)
        z = complex(c + X, Y)
        Wz = W * z
        Wzz = Wz * z
        S = complex(Sr, Si)
        part = Wz * S
        G += W.imag
        dQ += (Wz * complex(Pr, Pi)).imag
        P += Wz.imag
        F += part.imag
        f += (Wzz * (S * S + complex(Tr, 2.0 * Ti))).imag
        if means:
            for k in range(row.n):
                e = row.e[k]
                g = row.r[k] / (1.0 + e * (e * square - 2.0 * X))
                r = complex(g * (1.0 - X * e), g * Y * e)
                row.Q[k] += (Wz * r).imag
                row.D[k] += (Wzz * r * (S + r)).imag
        here, here_G = abs(part), abs(W)
        bulk, bulk_G = bulk + here, bulk_G + here_G
        # S alone may fade too early: where the values lie evenly around x, its leading terms cancel
        if not (here > NEGLIGIBLE * bulk or here_G > NEGLIGIBLE * bulk_G):
            break
        v += step
    return Sums(G, dQ, P, F, f, False)


@kernel
def _add_product(size, angle, psi, real, imag, halves, side):
    """Take a product of factors A + iB that has made so many half-turns, to the power -psi, into size and angle."""
    turn = side * math.atan2(imag, real) + math.pi * (halves + halves % 2)
    return size - 0.5 * psi * math.log(real * real + imag * imag), angle + psi * side * turn


@kernel
def _slack(error, f, spiky):
    """Return by how much F may be wrong at the quantile if CVaR is to be wrong by less than ``error`` / p."""
    return math.sqrt(0.1 * error * f) if f > 0.0 and not spiky else 0.0


@kernel
def _integrals(x, p, sharp, relative, row, means):
    """Return G(x), F(x), a bound on its error, f(x) and a bound on the error of G; with ``means``, fill Q and D.

    The step is refined until the error of G is below ``sharp`` p or ``relative`` G, or no longer falls, and it is
    clear on which side of p F lies.
    """
    extra = max(0.0, 1.0 - row.psi[0])
    c = _saddle(x, row, 2.0, extra)
    height, second, third, size = -2.0 * math.log(c), 2.0 / (c * c), -4.0 / (c * c * c), 2.0
    on = -1
    for k in range(row.n):
        d = x - row.value[k]
        row.r[k] = 1.0 / (1.0 - c * d)
        row.e[k] = e = d * row.r[k]
        if d == 0.0:
            on = k
        height -= row.psi[k] * math.log1p(-c * d)
        psi = row.psi[k] + (extra if k == 0 else 0.0)
        second += psi * e * e
        third += 2.0 * psi * e * e * e
        size += row.psi[k] * abs(c * d)
        row.Q[k] = row.D[k] = 0.0
    total = row.total
    if on >= 0:
        # X lies below the value of an outcome if the mean of the others does, whatever the weight of that outcome
        total -= row.psi[on]
        row.r[on] = 0.0
    scale = 1.0 / math.sqrt(second)
    bend, cap = _bend(c, scale, -0.5 * third * scale**3, row)
    path = Path(c, WIDTH * scale, bend, cap)
    unit = math.exp(height) / math.pi
    noise = 4.0 * EPS * (4.0 + size + max(row.common, 0.0) * row.n)  # of rounding, relative to G
    while True:
        step = 3.0 * STEP if row.spiky else STEP  # where F is judged by the last two steps, one more is needed
        sums = _sum_nodes(0.5 * step, step, path, row, means)
        G, dQ, P, F, f = sums.G, sums.dQ, sums.P, sums.F, sums.f
        failed = sums.grows
        before, F_before, defect, doubt = np.inf, np.inf, np.inf, np.inf
        while not failed:
            here = unit * step
            defect = 8.0 * abs(dQ - G) * here / row.total
            # F twice over: by M/z, or, where that fades too slowly because of a spike, by the last two steps. The pole
            # at zero spoils M/z and M S/z alike; what it does to them it does to G as well, in units of 1/c.
            doubt = 16.0 * abs(F * here / total - (F_before if row.spiky else P * here)) + c * row.total * defect
            off = abs(p - F * here / total)
            enough = max(0.3 * sharp * p, relative * G * here / row.total)
            if step < SMALLEST_STEP or (
                (defect <= enough or (step < 0.01 and defect > 0.5 * before))
                and doubt <= max(0.2 * off, 0.1 * NEAR * p * (1.0 - p), _slack(sharp * p, f * here / total, row.spiky))
                and (step < 0.9 * STEP or relative == ROUGH or doubt <= LUCK)
            ):
                failed = defect > max(enough, 100.0 * noise * G * here / row.total)
                break
            before, F_before = defect, F * here / total
            for shift in (0, 2):
                sums = _sum_nodes((shift + 0.5) * step / 3.0, step, path, row, means)
                G, dQ, P, F, f = G + sums.G, dQ + sums.dQ, P + sums.P, F + sums.F, f + sums.f
            step /= 3.0
        if not failed or path.b == 0.0:
            break
        # bent too far: the integrand grows or fades too late, and the identity tells
        path = Path(c, path.h, 0.5 * path.b if abs(path.b) > 0.1 else 0.0, cap)
        for k in range(row.n):
            row.Q[k] = row.D[k] = 0.0
    unit *= step
    F *= unit / total
    if means:
        for k in range(row.n):
            row.Q[k] *= row.psi[k] * unit / row.total
            row.D[k] *= row.psi[k] * unit / row.total
        if on >= 0:
            row.Q[on] = row.psi[on] / row.total * F
    G *= unit / row.total
    return G, F, doubt, f * unit / total, 4.0 * defect + noise * G  # a small defect may be a lucky one


@kernel
def _next_spike(row, lo, hi, F_lo, F_hi, p):
    """Return the value of an outcome strictly between lo and hi where F should pass p, or NaN if there is none.

    Where spikes are, nearly all mass is on the values: F is interpolated by their counts.
    """
    mass = 0.0
    for k in range(row.n):
        if row.total - row.psi[k] < SPIKE and lo <= row.value[k] <= hi:
            mass += row.psi[k] if lo < row.value[k] < hi else 0.5 * row.psi[k]
    wanted = mass * (p - F_lo) / (F_hi - F_lo)
    best, mass = np.nan, 0.0
    for k in range(row.n):
        if row.total - row.psi[k] < SPIKE and lo <= row.value[k] < hi:
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
        log_cdf, slope = _rough_log_cdf(x, row)
        miss = math.log(min(p, ROUGH_TOP)) - log_cdf
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
def tail_of_row(values, counts, p, start, accuracy, work, q):
    """CVaR of w.values for w ~ Dirichlet(counts), where p = 1 - alpha is the mass of the tail.

    ``values``, ``counts``, ``q`` [K]; ``work`` [SCRATCH, K] is scratch. ``start`` is the quantile in standard
    deviations from the mean, from an earlier call with similar values, or NaN. ``accuracy`` is the error of CVaR
    that may be left; zero asks for the sharpest. Fills ``q`` with the tail means and returns (CVaR, quantile, start
    for the next call, bound on the error of CVaR).
    """
    value, count, order = work[0], work[1], work[6]
    n = 0
    total, biggest, reference = 0.0, -1.0, 0.0
    for k in range(values.size):
        q[k] = 0.0
        if counts[k] > 0.0:
            total += counts[k]
            if counts[k] > biggest:
                biggest, reference = counts[k], values[k]
            i = n
            while i > 0 and value[i - 1] > values[k]:
                value[i], order[i] = value[i - 1], order[i - 1]
                i -= 1
            value[i], order[i] = values[k], k
            n += 1
    given = n
    low, high = value[0], value[n - 1]
    spread = high - low
    if not spread > 0.0 or p >= 1.0:
        mean = 0.0
        for k in range(values.size):
            q[k] = counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        return reference + mean, high, start, EPS * (size + (4.0 + n) * spread)

    sharp = min(max(accuracy / spread, SHARPEST), BLUNTEST)
    # outcomes of equal value are one outcome
    n = 0
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if n > 0 and here == value[n - 1]:
            count[n - 1] += counts[k]
        else:
            value[n], count[n] = here, counts[k]
            n += 1
    mean, least, alike = 0.0, np.inf, 0
    for k in range(n):
        mean += count[k] * value[k]
        if count[k] < least:
            least, alike = count[k], 0
        alike += count[k] == least
        biggest = max(biggest, count[k])
    mean /= total
    variance = 0.0
    for k in range(n):
        variance += count[k] * (value[k] - mean) ** 2
    sd = math.sqrt(variance / (total * (total + 1.0)))
    common = least if alike >= FEW and least <= SMALL else -1.0
    spiky = total - biggest < SPIKE
    row = Row(n, value, count, total, common, spiky, work[2], work[3], work[4], work[5])

    left, right = value[0], value[n - 1]
    goal = normal_quantile(p)
    # x - G(x)/p is ``top`` at x; the ends of the bracket are exact to begin with
    lo, top_lo, F_lo, error_lo = left, left, 0.0, 0.0
    hi, top_hi, F_hi, error_hi = right, right - (right - mean) / p, 1.0, 0.0
    x = mean + start * sd
    warm = left < x < right
    if not warm and spiky:
        x = _next_spike(row, lo, hi, F_lo, F_hi, p)
    elif not warm:
        x = _first_guess(row, p, mean, sd)
    if not left < x < right:
        x = mean
    means, spike_next = warm, spiky and not warm
    near = max(NEAR * p * (1.0 - p), 1e-13)
    beside = 0.3 * sharp
    gap, narrowest, slow, turns, nearest = np.inf, np.inf, 0, 0, 0
    spike, F_spike = left, 0.0  # the last value of an outcome where F was evaluated
    G, F, f, error, off = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(200):
        G, F, doubt, f, error = _integrals(x, p, sharp, 0.3 * sharp if means or spike_next else ROUGH, row, means)
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
        gap = max(top_lo + rise * (cut - lo) - top, 0.0)
        nearest = 0
        for k in range(n):
            if abs(x - value[k]) < abs(x - value[nearest]):
                nearest = k
        apart = x - value[nearest]
        if apart == 0.0:
            spike, F_spike = x, F
        smooth = f > 0.0 and abs(off) <= 1e-3 * p * (1.0 - p) and off * off <= 0.1 * sharp * f * p
        if abs(off) <= near or smooth or not clear or max(gap, abs(off * apart) / p) <= 0.3 * sharp:
            if means:
                break
            means = True
            continue
        new = np.nan
        spike_next = False
        if spiky:
            new = _next_spike(row, lo, hi, F_lo, F_hi, p)
            spike_next = lo < new < hi
            if not spike_next:
                # none inside the bracket; if one is its end, the quantile may be closer to it than numbers can tell
                for k in range(n):
                    if total - count[k] < SPIKE and value[k] == lo:
                        new = lo + beside
                    elif total - count[k] < SPIKE and value[k] == hi and not lo < new < hi:
                        new = hi - beside
        power = total - count[nearest]
        known = value[nearest] == spike and (p - F_spike) * (F - F_spike) > 0.0
        if not lo < new < hi and power < SPIKE and known and abs(apart) <= 2.0 * beside:
            # this close to a spike F moves like that power of the distance
            new = spike + apart * math.exp(min(max(math.log((p - F_spike) / (F - F_spike)) / power, -9.0), 9.0))
        if not lo < new < hi and f > 0.0 and 1e-12 < F < 1.0 - 1e-12:
            # Newton on the normal scale, where F is close to a line
            here = normal_quantile(F)
            step = (goal - here) * normal_pdf(here) / f
            if power < SPIKE and apart != 0.0:  # a line in the logarithm of the distance, rather
                new = value[nearest] + apart * math.exp(min(max(step / apart, -12.0), 12.0))
            else:
                new = _moved(x, step, left if step < 0.0 else right)
        slow += 1
        if hi - lo <= 0.25 * narrowest:
            narrowest, slow = hi - lo, 0
        if not lo < new < hi or slow > 5:
            new = cut if turns % 2 and lo < cut < hi else 0.5 * (lo + hi)
            if turns % 2 == 0 and spiky and (lo - spike) * (hi - spike) > 0.0:  # half-way in the log of the distance
                new = spike + math.copysign(math.sqrt((lo - spike) * (hi - spike)), lo - spike)
            turns += 1
            narrowest, slow = hi - lo, 0
        if not lo < new < hi:  # neighbouring numbers
            if means:
                break
            means = True
            continue
        means = abs(off) < 2e-3 * p * (1.0 - p) or (spiky and min(new - lo, hi - new) <= 1.01 * beside)
        x = new

    # CVaR is the maximum of x - G(x)/p: second-order step to the top, first-order step for its gradient
    top = x - G / p
    error /= p
    if abs(off) <= 1e-2 * p * (1.0 - p) and f > 0.0:
        step = off / f
        rest = min(0.5 * off * step / p, gap + max(error_lo, error_hi))
        top += rest
        error += rest
        # the same step, but so that the tail means reproduce CVaR to the last digit
        short, slope = 0.0, 0.0
        for k in range(n):
            short += (top - value[k]) * row.Q[k]
            slope += (value[k] - top) * row.D[k]
        if slope > 0.0:
            step = short / slope
        for k in range(n):
            row.Q[k] += step * row.D[k]
    else:
        row.Q[nearest] += off
        error += gap + max(error_lo, error_hi)
    top = min(max(top, left), mean)  # the lowest value and the mean bracket CVaR
    norm, reached = 0.0, 0.0
    for k in range(n):
        row.Q[k] = max(row.Q[k], 0.0)
        norm += row.Q[k]
        reached += row.Q[k] * value[k]
    reached /= norm
    # what rounding left between the tail means and CVaR goes to the lowest outcome, or to all of them
    if reached > top:
        share = (reached - top) / (reached - left)
        for k in range(n):
            row.Q[k] *= 1.0 - share
        row.Q[0] += share * norm
    elif reached < top:
        share = (top - reached) / (mean - reached)
        for k in range(n):
            row.Q[k] += share * (count[k] / total * norm - row.Q[k])
    j = -1
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if j < 0 or here != value[j]:
            j += 1
        q[k] = row.Q[j] / norm * (counts[k] / count[j])
    result = reference + spread * top
    error = spread * (min(error, mean - left) + 64.0 * EPS) + EPS * abs(result)
    return result, reference + spread * x, (x - mean) / sd, error
