"""The tail of a Dirichlet mean, by steepest descent: the kernels behind :mod:`prudent.exact`.

Let w ~ Dirichlet(psi) over K outcomes with values v, total n = sum(psi), and X = w.v. With independent
g_k ~ Gamma(psi_k, 1) and U(x) = sum_k g_k (x - v_k) = (sum g)(x - X), whose moment generating function is
M(z) = prod_k (1 - z d_k)^(-psi_k), d_k = x - v_k,

    G(x)   = E[(x - X)+]          = (1/n)     (1/2 pi i) int M(z) / z^2             dz
    Q_k(x) = E[w_k; X <= x]       = (psi_k/n) (1/2 pi i) int M(z) r_k / z           dz,   r_k = 1/(1 - z d_k)
    D_k(x) = dQ_k/dx              = (psi_k/n) (1/2 pi i) int M(z) r_k (S + r_k)     dz,   S = sum_j psi_j r_j

over any path from below to above that crosses the real axis in (0, 1/max d). F = sum_k Q_k is the distribution
function of X and f = sum_k D_k its density. With F(x*) = p, CVaR is x* - G(x*)/p and q = Q(x*)/p are the
tail means E[w | X <= x*].

The path is the steepest descent of phi = log M - 2 log z from its saddle c, in the parameter u with
phi(z(u)) = phi(c) - u^2: integrands become exp(-u^2) times a smooth function, which the trapezoid rule integrates
to machine precision in about twenty nodes, whatever the sizes of the counts. The path never meets the real axis again
(Im phi = 0 on it, and on the axis Im phi is a non-zero multiple of pi times counts), so principal logarithms are right.
Where the path passes close by another saddle (counts well below one at the lowest values) equidistant nodes are
wasteful, and Gauss-Legendre panels that shrink with the distance from the singularity take over.

Each of the identities sum_k d_k Q_k = G and sum_k Q_k = F is the integral of a total derivative: it
holds for the integrals, not for a quadrature of them, so its defect measures the quadrature error at no cost.

Values are measured from that of the outcome with the largest count, where the mass is: with counts of 1 against
1e9 the quantile keeps all its digits.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .normal import normal_pdf, normal_quantile

__all__ = ["tail_of_row"]


EPS = 2.220446049250313e-16
LAST = 14.0  # exp(-14^2) = 1e-85: no path is followed further than this
STRETCH = 2.0  # u = STRETCH sinh(v): equidistant in v is denser where the integrand is large
FIRST_STEP = 0.12
SHARP = 1e-11  # accepted defect, relative to G
NEAR = 1e-6  # |F - p| / p at which the corrections below are exact to rounding
ROUGH_TOP = 0.7  # Laplace's approximation may stay below p for ever when p is close to one
GL_NODES, GL_WEIGHTS = np.polynomial.legendre.leggauss(12)


@kernel
def _saddle(t, a, psi, n, order, guess):
    """Return the minimum of log M(z) - order log z on (0, 1/max d)."""
    widest = 0.0
    for k in range(n):
        widest = max(widest, t - a[k])
    left, right = 0.0, 1.0 / widest
    z = guess if 0.0 < guess < right else 0.5 * right
    for _ in range(200):
        slope, curve = (
            -float(order),
            0.0,
        )  # z phi'(z), and its derivative up to a positive factor near the root
        for k in range(n):
            d = t - a[k]
            r = 1.0 / (1.0 - z * d)
            slope += psi[k] * z * d * r
            curve += psi[k] * d * r * r
        if slope > 0.0:
            right = z
        else:
            left = z
        new = z - slope / curve
        if not left < new < right:  # also when curve <= 0
            new = 0.5 * (left + right)
        moved = abs(new - z)
        z = new
        if moved <= 1e-13 * z:
            break
    return z


@kernel
def _rough_log_cdf(t, a, psi, n, guess):
    """Return Laplace's approximation of log F(t) (within 10% for counts of one or more), its slope and the saddle."""
    c = _saddle(t, a, psi, n, 1, guess)
    height, curve, s = -math.log(c), 1.0 / (c * c), 0.0
    for k in range(n):
        d = t - a[k]
        r = 1.0 / (1.0 - c * d)
        height -= psi[k] * math.log1p(-c * d)
        curve += psi[k] * (d * r) ** 2
        s += psi[k] * r
    return height - 0.5 * math.log(2.0 * math.pi * curve), c * s, c


@kernel
def _onto_path(y, target, slack, e, psi, n):
    """Return the point near y with phi(y) - phi(0) = target, by Halley's iteration.

    Here y = (z - c)/s is measured from the saddle, so that small differences of phi keep their digits; the factor
    z^-2 of the integrand is one more "outcome" with psi = 2. ``slack`` is phi'(0), zero but for rounding.
    """
    for _ in range(40):
        x, h = y.real, y.imag
        m = x * x + h * h
        real, imag = -slack * x - target, -slack * h
        first, second = complex(-slack, 0.0), 0.0j
        for k in range(n):
            # 1 - y e = A - iB; log1p keeps the digits that large counts multiply
            A, B = 1.0 - e[k] * x, e[k] * h
            real -= 0.5 * psi[k] * math.log1p(e[k] * (e[k] * m - 2.0 * x))
            imag += psi[k] * math.atan2(B, A)
            w = e[k] / (A * A + B * B)
            g = complex(A * w, B * w)
            first += psi[k] * g
            second += psi[k] * g * g
        newton = complex(real, imag) / first
        new = y - newton / (1.0 - 0.5 * newton * second / first)
        if new.imag <= 0.0:  # the path stays in the upper half-plane
            y = complex(new.real, 0.5 * h)
        else:
            y = new
            if abs(real) + abs(imag) < 1e-5 * min(1.0, -target):  # cubic convergence: the step made it 1e-15
                break
    return y


@kernel
def _add_node(y, u, weight, slack, c, s, e, r, psi, n, Q, D):
    """Add the node y(u) to the sums; return its parts of G and F, its size and three derivatives of y in u."""
    first, second, third, S = complex(-slack, 0.0), 0.0j, 0.0j, 0.0j
    for k in range(n):
        A, B = 1.0 - e[k] * y.real, e[k] * y.imag
        w = 1.0 / (A * A + B * B)
        g = complex(A * w, B * w)
        if k < n - 1:
            S += psi[k] * r[k] * g
        g *= e[k]
        first += psi[k] * g
        second += psi[k] * g * g
        third += 2.0 * psi[k] * g * g * g
    dy = -2.0 * u / first
    d2y = -(2.0 + second * dy * dy) / first
    d3y = -(third * dy * dy * dy + 3.0 * second * dy * d2y) / first
    W = (weight * s) * dy
    Wz = W * (c + s * y)
    Wzz = Wz * (c + s * y)
    for k in range(n - 1):
        A, B = 1.0 - e[k] * y.real, e[k] * y.imag
        w = r[k] / (A * A + B * B)
        g = complex(A * w, B * w)  # 1 / (1 - z d)
        Q[k] += (Wz * g).imag
        D[k] += (Wzz * g * (S + g)).imag
    return W.imag, Wz.imag, abs(Wz * S), dy, d2y, d3y


@kernel
def _ahead(y, h, dy, d2y, d3y):
    """Predict y(u + h) from the derivatives at u, staying in the upper half-plane."""
    new = y + h * (dy + h * (0.5 * d2y + h * d3y / 6.0))
    if new.imag <= 0.0:
        new = complex(new.real, 0.5 * y.imag)
    return new


@kernel
def _integrals(t, n, total, step, work):
    """Fill Q and D; return G(t), its absolute error and the relative error of F(t), by the defects of the identities.

    ``step`` is the spacing of the trapezoid rule; zero asks for adaptive panels.
    """
    a, psi, e, r, Q, D = work[0], work[1], work[2], work[3], work[4], work[5]
    c = _saddle(t, a, psi, n, 2, -1.0)
    height, size = -2.0 * math.log(c), 2.0
    second, lowest = 2.0 / (c * c), 0
    for k in range(n):
        d = t - a[k]
        r[k] = 1.0 / (1.0 - c * d)
        e[k] = d * r[k]
        height -= psi[k] * math.log1p(-c * d)
        second += psi[k] * e[k] * e[k]
        size += psi[k] * abs(c * d)
        Q[k] = D[k] = 0.0
        if a[k] < a[lowest]:
            lowest = k
    s = math.sqrt(2.0 / second)
    e[n], psi[n] = -1.0 / c, 2.0
    slack, third = 0.0, 0.0
    for k in range(n + 1):
        e[k] *= s
        slack += psi[k] * e[k]
        third += 2.0 * psi[k] * e[k] ** 3
    bend = third / 12.0
    G, F, bulk, bulks = 0.0, 0.0, 1.0, 0.0
    if step > 0.0:
        # a count below one at the lowest value narrows the strip of analyticity near u = 0
        stretch = STRETCH * math.sqrt(min(1.0, psi[lowest]))
        v = 0.5 * step
        u = stretch * math.sinh(v)
        y = complex(bend * u * u, u)
        while u < LAST and bulk > EPS * bulks:
            y = _onto_path(y, -u * u, slack, e, psi, n + 1)
            weight = math.exp(-u * u) * stretch * math.cosh(v)
            part, mass, bulk, dy, d2y, d3y = _add_node(y, u, weight, slack, c, s, e, r, psi, n + 1, Q, D)
            G += part
            F += mass
            bulks += bulk
            v += step
            new = stretch * math.sinh(v)
            y = _ahead(y, new - u, dy, d2y, d3y)
            u = new
        weight = step
    else:
        start, u = 0.0, 0.0
        y = 0.0j
        dy, d2y, d3y = 1.0j, complex(2.0 * bend, 0.0), 0.0j
        while start < LAST and bulk > EPS * bulks:
            # y behaves like the square root of the distance from the nearest singularity
            near = 0.5 * abs(dy / d2y)
            if d3y != 0.0:
                near = min(near, 1.5 * abs(d2y / d3y))
            length = min(max(0.3 * near, 1e-6), 0.5)
            for i in range(GL_NODES.size):
                new = start + 0.5 * length * (1.0 + GL_NODES[i])
                y = _onto_path(_ahead(y, new - u, dy, d2y, d3y), -new * new, slack, e, psi, n + 1)
                u = new
                weight = 0.5 * length * GL_WEIGHTS[i] * math.exp(-u * u)
                part, mass, bulk, dy, d2y, d3y = _add_node(y, u, weight, slack, c, s, e, r, psi, n + 1, Q, D)
                G += part
                F += mass
                bulks += bulk
            bulk /= 0.5 * length * GL_WEIGHTS[-1]
            start += length
        weight = 1.0
    factor = math.exp(height) * weight / (math.pi * total)
    G *= factor
    F *= factor * total
    sum_Q, sum_dQ = 0.0, 0.0
    for k in range(n):
        Q[k] *= psi[k] * factor
        D[k] *= psi[k] * factor
        sum_Q += Q[k]
        sum_dQ += (t - a[k]) * Q[k]
    return G, 8.0 * abs(G - sum_dQ) + 4.0 * EPS * (4.0 + size) * G, abs(F / sum_Q - 1.0)


@kernel
def _best_integrals(t, n, total, p, work):
    """Refine until the error of G is small beside G or beside values of size one, and F is good enough to find x*.

    F is hard to get where the quantile all but sits on the value of an outcome that has nearly all the mass. G is not,
    and CVaR needs only G there; its error is then a small fraction (1e-8 at the most seen) of that of F.
    """
    step = FIRST_STEP
    while True:
        G, error, miss = _integrals(t, n, total, step, work)
        if (error <= max(SHARP * G, 0.1 * EPS * p) and miss <= 0.1 * NEAR) or step == 0.0:
            return G, error + (1e-13 + 1e-8 * min(1.0, miss)) * G, miss
        step = 0.5 * step if step > 0.04 else 0.0


@kernel
def tail_of_row(values, counts, p, start, work, q):
    """CVaR of w.values for w ~ Dirichlet(counts), where p = 1 - alpha is the mass of the tail.

    ``values``, ``counts``, ``q`` [K]; ``work`` [6, K + 1] is scratch. ``start`` is the quantile in standard
    deviations from the mean, from an earlier call with similar values, or NaN. Fills ``q`` with the tail means
    and returns (CVaR, quantile, start for the next call, bound on the error of CVaR).
    """
    a, psi, Q, D = work[0], work[1], work[4], work[5]
    n = 0
    biggest, low, high = -1.0, np.inf, -np.inf
    reference = 0.0
    total = 0.0
    for k in range(values.size):
        q[k] = 0.0
        if counts[k] > 0.0:
            a[n] = values[k]
            psi[n] = counts[k]
            total += counts[k]
            low, high = min(low, values[k]), max(high, values[k])
            if counts[k] > biggest:
                biggest, reference = counts[k], values[k]
            n += 1
    spread = high - low
    if not spread > 0.0 or p >= 1.0:
        mean = 0.0
        for k in range(values.size):
            q[k] = counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        return reference + mean, high, start, EPS * (size + (4.0 + n) * spread)
    mean, variance = 0.0, 0.0
    for k in range(n):
        a[k] = (a[k] - reference) / spread
        mean += psi[k] * a[k]
    mean /= total
    for k in range(n):
        variance += psi[k] * (a[k] - mean) ** 2
    sd = math.sqrt(variance / (total * (total + 1.0)))
    left, right = (low - reference) / spread, (high - reference) / spread

    # a first guess of the quantile: the caller's, or a root of Laplace's approximation of log F
    t = mean + start * sd
    if not left < t < right:
        t = mean + normal_quantile(p) * sd
        lo, hi = left, right
        guess, miss = -1.0, 1.0
        for _ in range(12):
            if not lo < t < hi:
                t = 0.5 * (lo + hi)
            log_cdf, slope, guess = _rough_log_cdf(t, a, psi, n, guess)
            miss = math.log(min(p, ROUGH_TOP)) - log_cdf
            if abs(miss) < 1e-3:
                break
            if miss > 0.0:
                lo = t
            else:
                hi = t
            t += miss / slope
        if not (left < t < right and abs(miss) < 1.0):
            t = mean

    # Newton on the normal scale, where F is close to a line; bisection where it stalls or leaves the bracket
    lo, hi = left, right
    goal = normal_quantile(p)
    G, defect, miss, F, f = 0.0, 0.0, 0.0, 0.0, 1.0
    wide, slow = hi - lo, 0  # the bracket when it was last halved, and the steps since
    for _ in range(200):
        G, defect, miss = _best_integrals(t, n, total, p, work)
        F, f = 0.0, 0.0
        for k in range(n):
            F += Q[k]
            f += D[k]
        if abs(F - p) <= NEAR * p * (1.0 - p) or hi - lo < 1e-17:
            break
        if p > F:
            lo = t
        else:
            hi = t
        new = t
        if f > 0.0 and 1e-12 < F < 1.0 - 1e-12:  # beyond, f is rounding
            here = normal_quantile(F)
            new = t + (goal - here) * normal_pdf(here) / f
        slow += 1
        if hi - lo <= 0.5 * wide:
            wide, slow = hi - lo, 0
        if not lo < new < hi or new == t or slow > 2:  # a spike in the density makes Newton jump from side to side
            new = 0.5 * (lo + hi)
        if new in (lo, hi):
            break
        t = new

    # CVaR is the maximum of x - G(x)/p: second-order step to the top, first-order step for its gradient
    off = p - F
    norm = 0.0
    stuck = abs(off) > 10.0 * NEAR * p * (1.0 - p)
    if stuck or miss > 0.1 * NEAR:
        # the quantile all but sits on a value, at the limit of resolution, and so does the mass missing or in excess
        nearest = 0
        for k in range(n):
            near, so_far = abs(t - a[k]), abs(t - a[nearest])
            if near < so_far or (near == so_far and psi[k] > psi[nearest]):
                nearest = k
        Q[nearest] += off
        excess = t - G / p
        error = (defect + hi - lo) / p if stuck else defect / p
        error += 2.0 * min(1.0, miss) * abs(t - a[nearest]) / p
    else:
        step = off / f
        excess = t - G / p + 0.5 * off * step / p
        error = defect / p + abs(off * step / p) * abs(off) / p
        for k in range(n):
            Q[k] += step * D[k]
    for k in range(n):
        Q[k] = max(Q[k], 0.0)
        norm += Q[k]
    n = 0
    for k in range(values.size):
        if counts[k] > 0.0:
            q[k] = Q[n] / norm
            n += 1
    excess = min(max(excess, left), mean)
    result = reference + spread * excess
    error = spread * (error + 64.0 * EPS) + EPS * abs(result)
    return result, reference + spread * t, (t - mean) / sd, error
