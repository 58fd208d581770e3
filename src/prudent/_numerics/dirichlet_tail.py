"""The tail of a Dirichlet mean, by a contour integral: the kernels behind :mod:`prudent.exact`.

Let w ~ Dirichlet(psi) over K outcomes with values v, total n = sum(psi), and X = w.v. With independent
g_k ~ Gamma(psi_k, 1) and U(x) = sum_k g_k (x - v_k) = (sum g)(x - X), whose moment generating function is
M(z) = prod_k (1 - z d_k)^(-psi_k), d_k = x - v_k,

    G(x)   = E[(x - X)+]    = (1/n)     (1/2 pi i) int M(z) / z^2         dz
    Q_k(x) = E[w_k; X <= x] = (psi_k/n) (1/2 pi i) int M(z) r_k / z       dz,   r_k = 1/(1 - z d_k)
    D_k(x) = dQ_k/dx        = (psi_k/n) (1/2 pi i) int M(z) r_k (S + r_k) dz,   S = sum_j psi_j r_j

over any path from below to above that crosses the real axis in (0, 1/max d). F = sum_k Q_k is the distribution
function of X and f = sum_k D_k its density. With F(x*) = p, CVaR is x* - G(x*)/p and q = Q(x*)/p are the
tail means E[w | X <= x*]; VaR is x* itself, and D(x*)/f(x*) are the means E[w | X = x*].

**The path.** z(v) = c + h (i sinh s - b (cosh s - 1)), s = (pi/2) sinh v, with the midpoint rule in v: equidistant
nodes in v are spaced like the logarithm of the distance from c, so few of them see every scale, from that of the
largest count to that of the smallest, and the rule converges exponentially. About 25 nodes give ten digits, whatever
the counts; a third of the step (the midpoints nest) roughly cubes the error. Sums over outcomes are vector code.

- c is the minimum of log M - 2 log z on the axis, with at least one count on the lowest outcome. A lowest outcome of
  tiny count would draw the minimum to its branch point 1/max d, where it does no good: the singularity is weak.
- b bends the path. Along a straight one an outcome with a large count and d close to zero makes the integrand
  turn, exp(i y psi d), long before it makes it small. ``_bend`` looks at log M along the straight path, scale by
  scale: where the integrand first turns faster than the nodes can follow, it bends towards steepest descent; never so
  that the integrand would grow at another scale.

The path meets the real axis only in c, so principal logarithms are right.

**What judges it.** Integrals of total derivatives vanish, quadratures of them do not: of M/z (which is the identity
sum_k d_k Q_k = G), of M/z^2 and, where it fades fast enough, of M itself (which gives F twice over). One of them alone
may pass through zero by chance; in thousands of random rows the error of G was below a third of the largest.

**The quantile.** x - G(x)/p is concave with maximum CVaR, so tangents at a point on either side of the maximum
bound it from above: a rigorous bracket, also where the quantile itself cannot be resolved. That happens: where the
counts of all other outcomes add up to less than one, F rises at the value of an outcome like |x - v_k| to that
small power. CVaR is then as good as ever, and the mass that cannot be told apart belongs to that outcome.

For VaR the quantile is the answer, so F is evaluated as well as it can be, and at a point on either side of x*: where
both are clear of p they bound x*, however F behaves between them. Where F is flat, that bound is wide.

**Spikes.** Where all counts but one add up to less than 1/2, it takes F at a few values to find between which two it
passes p, and then a model of F with the right power beside either of them. Below 1 ms for 100 outcomes all the same;
`make bench` prints it.

Values are measured from that of the outcome with the largest count, where the mass is: with counts of 1 against
1e9 the quantile keeps all its digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .compensated import EPS
from .compile import kernel, summing
from .logarithms import sum_logs_and_angles
from .normal import normal_pdf, normal_quantile

__all__ = ["SCRATCH", "quantile_of_row", "tail_of_row", "tails_of"]

SCRATCH = 7  # rows of the scratch array of tail_of_row
SHARPEST = 1e-12  # accuracy of CVaR, in units of the range of the values, that is always aimed at
BLUNTEST = 1e-4  # less would not be cheaper
FADING = 2.0  # if all counts but one add up to less than this, M fades too slowly to judge by it
LUCK = 1e-8  # a defect that passes through zero passes for a small one, but then F, less well known, tells
TOLERABLE = 2e-20  # and that may remain for each count where rounding stands in the way
ROUGH = 1e-5  # accuracy of G, relative to G, while the quantile is being looked for
STEP = 0.066  # of the midpoint rule in v
SMALLEST_STEP = 0.003
CAP, OPEN = 3.3, 1e9  # spacing of far nodes where the integrand ends in a fast turn, and where it fades slowly
FARTHEST = 300.0  # no path is followed further than exp(300) times its scale
NEGLIGIBLE = 1e-17  # a node of this size, relative to all before it, is the last
WIDTH = 1.4  # of the path, in units of the integrand's own scale
NEAR = 1e-6  # |F - p| / (p (1 - p)) at which the corrections below are exact to rounding
CLOSE = 1e-4  # an outcome closer to x than this is far along the path
ALIKE = 1e-140  # of the spread: values no further apart are one, since squares of less underflow
SPIKE = 0.5  # F has a spike at a value if all other counts add up to less than this
MOST_VAGUE = 6  # points at which F cannot be told from p: more of them, and it is flat there
MOST_TURNS = 100  # halvings of the bracket, after which it is as good as it gets
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
    spiky: bool  # F has a spike at the value of some outcome
    fades: bool  # M fades fast enough along the path to be judged by
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
    log_M: float  # log M at c if it is close to zero all along, because all counts are tiny; or NaN


class Sums(NamedTuple):
    """Imaginary parts of sums over nodes, with R = sum(psi d r): M/z^2, M (R/z - 1/z^2), M (R/z^2 - 2/z^3), M/z, ...

    ... M S/z and M sum(psi r (S + r)).
    """

    G: float
    flat: float  # zero, were it not for the quadrature
    flatter: float  # the same
    P: float
    F: float
    f: float
    grows: bool  # the integrand grows along this path, which is useless


@summing
def _slope_and_curve(x, z, n, value, psi):
    """Return z times the slope of log M at z on the axis, and its derivative where that is about zero."""
    slope, curve = 0.0, 0.0
    for k in range(n):
        d = x - value[k]
        r = 1.0 / (1.0 - z * d)
        slope += psi[k] * z * d * r
        curve += psi[k] * d * r * r
    return slope, curve


@kernel
def _saddle(x, row, order, extra):
    """Return about where log M(z) - order log z is least on (0, 1/max d), given ``extra`` counts of the lowest."""
    pole = 1.0 / (x - row.value[0])
    left, right, z = 0.0, pole, 0.5 * pole
    for _ in range(200):
        d = x - row.value[0]
        r = 1.0 / (1.0 - z * d)
        slope, curve = _slope_and_curve(x, z, row.n, row.value, row.psi)
        slope, curve = slope + extra * z * d * r - order, curve + extra * d * r * r
        if slope > 0.0:
            right = z
        else:
            left = z
        new = min(z - slope / curve, pole - 0.25 * (pole - z))  # a step too close to the pole takes long to undo
        if not left < new < right:  # also when curve <= 0
            new = 0.5 * (left + right)
        moved = abs(new - z)
        z = new
        if moved <= 1e-3 * min(z, pole - z):  # a point near it serves as well
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


@summing
def _turn_and_fall(y, n, e, psi):
    """Return how fast the angle and the logarithm of M change at c + iy, per e-fold of y."""
    turn, fall = 0.0, 0.0
    for k in range(n):
        x = y * e[k]
        w = psi[k] * x / (1.0 + x * x)
        turn += w
        fall += w * x
    return turn, fall


@kernel
def _bend(c, h, curl, row):
    """Return the bend of the path through c with width h; ``curl`` is that of steepest descent at c."""
    least, most, bend, cap = -1.0, 1.0, curl, OPEN
    found = False
    y, height = 0.5 * h, 0.0
    for _ in range(60):
        turn, fall = _turn_and_fall(y, row.n, row.e, row.psi)
        square = c * c + y * y
        turn, fall = turn - 2.0 * c * y / square, max(fall + 2.0 * y * y / square, 1e-300)
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
def _sum_nodes(v, step, path, row):
    """Sum the nodes at v, v + step, ... up to the last that counts; add to Q and D as well."""
    c, h, b, cap, log_M = path
    n, psi, e, r, Q, D = row.n, row.psi, row.e, row.r, row.Q, row.D
    G, flat, flatter, P, F, f, bulk, bulk_G = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
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
        logs, angles = sum_logs_and_angles(X, Y, square, n, e, psi)
        size -= 0.5 * logs
        angle += angles
        if size > 2.0:
            return Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, True)
        weight = math.exp(size) * (h * spacing)
        W = weight * complex(math.cos(angle), math.sin(angle)) * complex(-b * sinh, cosh)
        z = complex(c + X, Y)
        Wz = W * z
        Wzz = Wz * z
        V = W
        if log_M == log_M:  # M - 1 in place of M, which is close to one everywhere: 1/z^2 integrates to zero
            half, a = math.sin(0.5 * angles), log_M - 0.5 * logs
            less = complex(math.expm1(a) * math.cos(angles) - 2.0 * half * half, math.exp(a) * math.sin(angles))
            u = z.conjugate() * (c / (z.real**2 + z.imag**2))
            V = less * (u * u) * complex(-b * sinh, cosh) * (math.exp(-log_M) * h * spacing)
        Rr, Ri, Sr, Si, Tr, Ti = _rational_sums(X, Y, square, n, e, r, psi)
        S = complex(Sr, Si)
        part = Wz * S
        G += V.imag
        flat += Wz.real * Ri + Wz.imag * Rr - V.imag
        flatter += W.real * Ri + W.imag * Rr - 2.0 * (V.imag * z.real - V.real * z.imag) / (z.real**2 + z.imag**2)
        P += Wz.imag
        F += part.imag
        f += (Wzz * (S * S + complex(Tr, 2.0 * Ti))).imag
        _add_means(X, Y, square, Wz, Wzz, S, n, e, r, Q, D)
        here, here_G = abs(part.real) + abs(part.imag), abs(V.real) + abs(V.imag)  # cheaper than the modulus
        bulk, bulk_G = bulk + here, bulk_G + here_G
        # S alone may fade too early: where the values lie evenly around x, its leading terms cancel
        if not (here > NEGLIGIBLE * bulk or here_G > NEGLIGIBLE * bulk_G):
            break
        v += step
    return Sums(G, flat, flatter, P, F, f, False)


@summing
def _rational_sums(X, Y, square, n, e, r, psi):
    """Return the sums over outcomes of psi d r, psi r and psi r^2 (the last without the two) at c + X + iY."""
    Pr, Pi, Sr, Si, Tr, Ti = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        g = 1.0 / (1.0 + e[k] * (e[k] * square - 2.0 * X))  # (1 - z d) / (1 - c d) = A - iB, and g is |A - iB|^-2
        gr, gi = g * (1.0 - X * e[k]), g * (Y * e[k])
        Pr += psi[k] * e[k] * gr
        Pi += psi[k] * e[k] * gi
        gr *= r[k]
        gi *= r[k]
        Sr += psi[k] * gr
        Si += psi[k] * gi
        Tr += psi[k] * (gr * gr - gi * gi)
        Ti += psi[k] * gr * gi
    return Pr, Pi, Sr, Si, Tr, Ti


@kernel
def _add_means(X, Y, square, Wz, Wzz, S, n, e, r, Q, D):
    """Add Im(M r / z) and Im(M r (S + r)) at a node to Q and D, in real arithmetic that becomes vector code."""
    wr, wi, ur, ui, Sr, Si = Wz.real, Wz.imag, Wzz.real, Wzz.imag, S.real, S.imag
    for k in range(n):
        g = r[k] / (1.0 + e[k] * (e[k] * square - 2.0 * X))
        gr, gi = g * (1.0 - X * e[k]), g * (Y * e[k])
        Q[k] += wr * gi + wi * gr
        tr, ti = Sr + gr, Si + gi
        D[k] += ur * (gr * ti + gi * tr) + ui * (gr * tr - gi * ti)


@kernel
def _slack(error, f, closest):
    """Return by how much F may be wrong at the quantile if CVaR is to be wrong by less than ``error`` / p.

    f must not change much on the way, and does so at the value of the closest outcome.
    """
    return min(math.sqrt(0.1 * error * f), 0.1 * f * closest) if f > 0.0 else 0.0


@kernel
def _integrals(x, p, sharp, relative, width, row):
    """Return G(x), F(x), a bound on its error, f(x) and a bound on the error of G; fill Q and D.

    At the value of an outcome f is not known: 0.

    The step is refined until the error of G is below ``sharp`` p or ``relative`` G, or no longer falls, and it is
    clear on which side of p F lies: as clear as CVaR needs it, or so that the quantile is known to ``width``, if that
    is above zero.
    """
    extra = max(0.0, 1.0 - row.psi[0])
    c = _saddle(x, row, 2.0, extra)
    height, second, third, size = -2.0 * math.log(c), 2.0 / (c * c), -4.0 / (c * c * c), 2.0
    on, closest = -1, np.inf
    for k in range(row.n):
        d = x - row.value[k]
        row.r[k] = 1.0 / (1.0 - c * d)
        row.e[k] = e = d * row.r[k]
        if d == 0.0:
            on = k
        else:
            closest = min(closest, abs(d))
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
    log_M = height + 2.0 * math.log(c) if row.total < SPIKE else np.nan
    path = Path(c, WIDTH * scale, bend, cap, log_M)
    unit = math.exp(height) / math.pi
    noise = 4.0 * EPS * (4.0 + size)  # of rounding, relative to G
    while True:
        step = STEP if row.fades else 3.0 * STEP  # where F is judged by the last two steps, one more is needed
        sums = _sum_nodes(0.5 * step, step, path, row)
        G, flat, flatter, P, F, f, _ = sums
        failed, rounded = sums.grows, False
        before, F_before, doubt_before, defect, doubt = np.inf, np.inf, np.inf, np.inf, np.inf
        while not failed:
            here = unit * step
            defect = max(abs(flat), c * abs(flatter))
            defect = max(defect, abs(F - total * P) / c) if row.fades else 4.0 * defect
            defect *= 2.0 * here / row.total
            # F twice over: by M/z, or, where that fades too slowly, by the last two steps. The pole
            # at zero spoils M/z and M S/z alike; what it does to them it does to G as well, in units of 1/c.
            # A third of the step cubes the error, at first not where an outcome close to x shows only far along.
            caution = 0.3 if not row.fades and (closest > CLOSE or step < 0.9 * STEP) else 16.0
            doubt = caution * abs(F * here / total - (P * here if row.fades else F_before)) + c * row.total * defect
            off = abs(p - F * here / total)
            enough = max(0.3 * sharp * p, relative * G * here / row.total)
            rounded = step < 0.01 and defect > 0.5 * before and doubt > 0.5 * doubt_before  # nothing else is left
            if (
                step < SMALLEST_STEP
                or rounded
                or (
                    (defect <= enough or (step < 0.01 and defect > 0.5 * before))
                    and doubt
                    <= max(
                        0.2 * off,
                        0.2 * width * f * here / total if width > 0.0 else 0.1 * NEAR * p * (1.0 - p),
                        0.0
                        if on >= 0 or width > 0.0
                        else _slack(sharp * p, f * here / total, np.inf if row.fades else closest),
                    )
                    and (step < 0.9 * STEP or relative == ROUGH or doubt <= LUCK)
                )
            ):
                failed = defect > max(enough, 100.0 * noise * G * here / row.total)
                if rounded:  # another path is not worth its time
                    failed = failed and defect > TOLERABLE * p * row.total
                break
            before, F_before, doubt_before = defect, F * here / total, doubt
            for shift in (0, 2):
                sums = _sum_nodes((shift + 0.5) * step / 3.0, step, path, row)
                G, flat, flatter = G + sums.G, flat + sums.flat, flatter + sums.flatter
                P, F, f = P + sums.P, F + sums.F, f + sums.f
            step /= 3.0
        if not failed or path.b == 0.0:
            break
        # bent too far: the integrand grows or fades too late, and the identity tells
        path = Path(c, path.h, 0.5 * path.b if abs(path.b) > 0.1 else 0.0, cap, log_M)
        for k in range(row.n):
            row.Q[k] = row.D[k] = 0.0
    unit *= step
    F *= unit / total
    for k in range(row.n):
        row.Q[k] *= row.psi[k] * unit / row.total
        row.D[k] *= row.psi[k] * unit / row.total
    if on >= 0:
        row.Q[on] = row.psi[on] / row.total * F
    G *= unit / row.total
    f = 0.0 if on >= 0 else f * unit / total  # others say how often X lies below a value, but not how F rises there
    if width > 0.0:
        doubt += noise * F
    # the error of G is usually far below its defect; one that is all rounding is doubled no more
    return G, F, doubt, f, (1.0 if rounded else 2.0 if row.fades else 4.0) * defect + noise * G


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
    if below < 0 or above != below + 1 or row.total - min(row.psi[below], row.psi[above]) >= SPIKE:
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
    near = max(NEAR * p * (1.0 - p), 1e-13)
    beside = 0.3 * sharp
    narrowest, slow, turns = np.inf, 0, 0
    spike, F_spike = left, 0.0  # the last value of an outcome where F was evaluated
    while True:
        if not row.spiky:
            for k in range(row.n):
                if row.value[k] == x:
                    x += 1e-7 * (hi - x)  # f is not known at a value
        G, F, doubt, f, error = _integrals(x, p, sharp, 0.3 * sharp if fine else ROUGH, 0.0, row)
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
        smooth = abs(off) <= min(1e-3 * p * (1.0 - p), _slack(sharp * p, f, np.inf if row.fades else abs(apart)))
        if abs(off) <= near or smooth or not clear or max(gap - 2.0 * error / p, abs(off * apart) / p) <= 0.3 * sharp:
            if fine or (error <= sharp * p and doubt <= LUCK):
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
                    if row.total - row.psi[k] < SPIKE and row.value[k] == lo:
                        new = lo + beside
                    elif row.total - row.psi[k] < SPIKE and row.value[k] == hi and not lo < new < hi:
                        new = hi - beside
        power = row.total - row.psi[nearest]
        known = row.value[nearest] == spike and (p - F_spike) * (F - F_spike) > 0.0
        if not lo < new < hi and power < SPIKE and known and abs(apart) <= 2.0 * beside:
            # this close to a spike F moves like that power of the distance
            new = spike + apart * math.exp(min(max(math.log((p - F_spike) / (F - F_spike)) / power, -9.0), 9.0))
        if not lo < new < hi and f > 0.0 and 1e-12 < F < 1.0 - 1e-12:
            # Newton on the normal scale, where F is close to a line
            here = normal_quantile(F)
            step = (goal - here) * normal_pdf(here) / f
            if power < SPIKE and apart != 0.0:  # a line in the logarithm of the distance, rather
                new = row.value[nearest] + apart * math.exp(min(max(step / apart, -12.0), 12.0))
            else:
                new = _moved(x, step, left if step < 0.0 else right)
        slow += 1
        if hi - lo <= 0.25 * narrowest:
            narrowest, slow = hi - lo, 0
        if not lo < new < hi or slow > 5:
            if turns > MOST_TURNS:
                return at
            new = cut if turns % 2 and lo < cut < hi else 0.5 * (lo + hi)
            if (
                turns % 2 == 0 and row.spiky and (lo - spike) * (hi - spike) > 0.0
            ):  # half-way in the log of the distance
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
    for _ in range(MOST_TURNS):
        _, F, doubt, f, _ = _integrals(x, p, width, ROUGH, width, row)
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
        if error <= width or vague > MOST_VAGUE:
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
    place = 0 if reached > x else n - 1
    share = min((x - reached) / (value[place] - reached), 1.0) if reached != x else 0.0
    for k in range(n):
        Q[k] *= (1.0 - share) / norm
    Q[place] += share


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

    Returns how many, the total of the counts, and the value of the largest count.
    """
    n, total, biggest, reference = 0, 0.0, -1.0, 0.0
    for k in range(values.size):
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
    return n, total, reference


@kernel
def _merged(values, counts, given, total, reference, spread, work):
    """Return the row in which outcomes of equal value are one, given the order of :func:`_sorted`; mean and sd of X."""
    value, count, order = work[0], work[1], work[6]
    n = 0
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if n > 0 and here - value[n - 1] <= ALIKE:
            count[n - 1] += counts[k]
        else:
            value[n], count[n] = here, counts[k]
            n += 1
    mean, biggest = 0.0, 0.0
    for k in range(n):
        mean += count[k] * value[k]
        biggest = max(biggest, count[k])
    mean /= total
    variance = 0.0
    for k in range(n):
        variance += count[k] * (value[k] - mean) ** 2
    spiky, fades = total - biggest < SPIKE, total - biggest > FADING
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
def _hand_out(values, counts, given, reference, spread, row, order, q):
    """Write Q into ``q`` [K], for the outcomes as they were given."""
    for k in range(values.size):
        q[k] = 0.0
    j = -1
    for i in range(given):
        k = int(order[i])
        here = (values[k] - reference) / spread
        if j < 0 or here - row.value[j] > ALIKE:
            j += 1
        q[k] = row.Q[j] * (counts[k] / row.psi[j])


@kernel
def tail_of_row(values, counts, p, start, accuracy, work, q):
    """CVaR of w.values for w ~ Dirichlet(counts), where p = 1 - alpha is the mass of the tail.

    ``values``, ``counts``, ``q`` [K]; ``work`` [SCRATCH, K] is scratch. ``start`` is the quantile in standard
    deviations from the mean, from an earlier call with similar values, or NaN. ``accuracy`` is the error of CVaR
    that may be left; zero asks for the sharpest. Fills ``q`` with the tail means and returns (CVaR, quantile, start
    for the next call, bound on the error of CVaR).
    """
    given, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    if not spread > 0.0 or p >= 1.0:
        mean = 0.0
        for k in range(values.size):
            q[k] = counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        return reference + mean, high, start, EPS * (size + (4.0 + given) * spread)

    row, mean, sd = _merged(values, counts, given, total, reference, spread, work)
    left = row.value[0]
    x, warm = _begin(row, p, start, mean, sd)
    at = _search(row, p, x, warm, min(max(accuracy / spread, SHARPEST), BLUNTEST), mean)
    top, error = _top(row, p, mean, at)
    _hand_out(values, counts, given, reference, spread, row, work[6], q)
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

    Arguments and results as for :func:`tail_of_row`, but that ``q`` are the means of w at the quantile, which comes
    first as well as second. At p = 0 and 1 it is the lowest and the highest value that can happen.
    """
    given, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    if not spread > 0.0 or p >= 1.0 or p <= 0.0:
        end, mass = low if p <= 0.0 else high, 0.0
        for k in range(values.size):
            q[k] = counts[k] if values[k] == end else 0.0
            mass += q[k]
        for k in range(values.size):
            q[k] /= mass
        return end, end, start, 0.0

    row, mean, sd = _merged(values, counts, given, total, reference, spread, work)
    x, _ = _begin(row, p, start, mean, sd)
    x, error = _search_quantile(row, p, x, min(max(accuracy / spread, SHARPEST), BLUNTEST))
    _conditional_means(row, x)
    _hand_out(values, counts, given, reference, spread, row, work[6], q)
    result = reference + spread * x
    return result, result, (x - mean) / sd, spread * (error + 64.0 * EPS) + EPS * abs(result)
