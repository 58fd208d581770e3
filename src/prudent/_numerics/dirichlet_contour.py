"""The distribution of a Dirichlet mean at one point, by a contour integral.

Let w ~ Dirichlet(psi) over K outcomes with values v, total n = sum(psi), and X = w.v. With independent
g_k ~ Gamma(psi_k, 1) and U(x) = sum_k g_k (x - v_k) = (sum g)(x - X), whose moment generating function is
M(z) = prod_k (1 - z d_k)^(-psi_k), d_k = x - v_k,

    G(x)   = E[(x - X)+]    = (1/n)     (1/2 pi i) int M(z) / z^2         dz
    Q_k(x) = E[w_k; X <= x] = (psi_k/n) (1/2 pi i) int M(z) r_k / z       dz,   r_k = 1/(1 - z d_k)
    D_k(x) = dQ_k/dx        = (psi_k/n) (1/2 pi i) int M(z) r_k (S + r_k) dz,   S = sum_j psi_j r_j

over any path from below to above that crosses the real axis in (0, 1/max d). F = sum_k Q_k is the distribution
function of X and f = sum_k D_k its density.

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
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .compensated import EPS
from .compile import kernel, summing
from .logarithms import sum_logs_and_angles

LUCKY_DEFECT = 1e-8  # a defect that passes through zero looks small; F, less well known, then tells
ROUNDING_DEFECT = 2e-20  # defect that may remain for each count where rounding stands in the way
SEARCH_ACCURACY = 1e-5  # accuracy of G, relative to G, while the quantile is being looked for
STEP = 0.066  # of the midpoint rule in v
SMALLEST_STEP = 0.003
CAPPED_SPACING = 3.3  # of far nodes, where the integrand ends in a fast turn
OPEN_SPACING = 1e9  # of far nodes, where the integrand fades slowly
FARTHEST_NODE = 300.0  # no path is followed further than exp(300) times its scale
NEGLIGIBLE_NODE = 1e-17  # a node of this size, relative to all before it, is the last
PATH_WIDTH = 1.4  # in units of the integrand's own scale
NEAR_QUANTILE = 1e-6  # |F - p| / (p (1 - p)) at which the corrections below are exact to rounding
CLOSE_OUTCOME = 1e-4  # an outcome closer to x than this is far along the path
SPIKE_COUNTS = 0.5  # F has a spike at a value if all other counts add up to less than this
# sinh s, cosh s and ds/dv at the midpoints of a third of the step, where nodes are not capped
_S = 0.5 * math.pi * np.sinh(np.arange(0.5 * STEP / 3.0, math.asinh(2.0 * FARTHEST_NODE / math.pi), STEP / 3.0))
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
def rough_log_cdf(x, row):
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
    least, most, bend, cap = -1.0, 1.0, curl, OPEN_SPACING
    turning = False
    y, height = 0.5 * h, 0.0
    for _ in range(60):
        turn, fall = _turn_and_fall(y, row.n, row.e, row.psi)
        square = c * c + y * y
        turn, fall = turn - 2.0 * c * y / square, max(fall + 2.0 * y * y / square, 1e-300)
        if turn > 1.0:  # a path that bends the other way must not let the integrand grow here
            least = max(least, -0.5 * fall / turn)
        elif turn < -1.0:
            most = min(most, -0.5 * fall / turn)
        far = math.asinh(y / (PATH_WIDTH * h))
        if not turning and abs(turn) * STEP * math.sqrt(0.25 * math.pi**2 + far * far) > 1.0:  # per node
            turning = True
            bend = turn / fall
            if far > CAPPED_SPACING:
                cap = CAPPED_SPACING
        elif turning and turn * bend > 0.0 and abs(turn) > fall * abs(bend):
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
    node, stride = -1, round(3.0 * step / STEP)
    if cap == OPEN_SPACING and step >= STEP:
        node = int(3.0 * v / STEP)
    while True:
        if node >= 0:
            if node >= TABLE.shape[0]:
                break
            sinh, cosh, spacing = TABLE[node, 0], TABLE[node, 1], TABLE[node, 2]
            node += stride
        else:
            s = 0.5 * math.pi * math.sinh(v)
            spacing = 0.5 * math.pi * math.cosh(v) / math.sqrt(1.0 + (s / cap) ** 2)
            s = cap * math.asinh(s / cap)
            if s > FARTHEST_NODE:
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
        if not (here > NEGLIGIBLE_NODE * bulk or here_G > NEGLIGIBLE_NODE * bulk_G):
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
def slack(error, f, closest):
    """Return by how much F may be wrong at the quantile if CVaR is to be wrong by less than ``error`` / p.

    f must not change much on the way, and does so at the value of the closest outcome.
    """
    return min(math.sqrt(0.1 * error * f), 0.1 * f * closest) if f > 0.0 else 0.0


@kernel
def integrals(x, p, sharp, relative, width, row):
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
    log_M = height + 2.0 * math.log(c) if row.total < SPIKE_COUNTS else np.nan
    path = Path(c, PATH_WIDTH * scale, bend, cap, log_M)
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
            caution = 0.3 if not row.fades and (closest > CLOSE_OUTCOME or step < 0.9 * STEP) else 16.0
            doubt = caution * abs(F * here / total - (P * here if row.fades else F_before)) + c * row.total * defect
            off = abs(p - F * here / total)
            enough = max(0.3 * sharp * p, relative * G * here / row.total)
            rounded = step < 0.01 and defect > 0.5 * before and doubt > 0.5 * doubt_before  # nothing else is left
            allowed = 0.2 * width * f * here / total if width > 0.0 else 0.1 * NEAR_QUANTILE * p * (1.0 - p)
            smooth = 0.0
            if on < 0 and not width > 0.0:
                smooth = slack(sharp * p, f * here / total, np.inf if row.fades else closest)
            settled = defect <= enough or (step < 0.01 and defect > 0.5 * before)
            decided = doubt <= max(0.2 * off, allowed, smooth)
            trusted = step < 0.9 * STEP or relative == SEARCH_ACCURACY or doubt <= LUCKY_DEFECT
            if step < SMALLEST_STEP or rounded or (settled and decided and trusted):
                failed = defect > max(enough, 100.0 * noise * G * here / row.total)
                if rounded:  # another path is not worth its time
                    failed = failed and defect > ROUNDING_DEFECT * p * row.total
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
