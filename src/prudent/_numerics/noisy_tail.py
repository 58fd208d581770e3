"""The tail of a Dirichlet mean plus normal noise: Z = w.v + sd N, for rewards whose mean is not known for certain.

With G(y) = E[(y - w.v)+], F its distribution function and Q(y) = E[w; w.v <= y] from
``prudent._numerics.dirichlet_contour``, those of Z are convolutions with the normal density,

    G_Z(x) = E[G(x - sd N)],    F_Z(x) = E[F(x - sd N)],    Q_Z(x) = E[Q(x - sd N)],

and CVaR is the maximum over x of x - G_Z(x)/p, where F_Z(x) = p: an error of x counts in second order only. Above the
highest value G is linear and below the lowest one it is 0, which leaves an integral over the range of the values.

**The integral.** G is smooth but at the values of outcomes: beside v_k it has a part that goes like |y - v_k| to the
power 1 + (sum of the other counts). The range is cut at values where that power is low, and at multiples of the two
standard deviations. Each part is integrated by Gauss and Kronrod's pair of rules of 7 and 15 nodes, and halved until
the difference of the two says that it is accurate. The sum of these differences, as QUADPACK scales them, and the
errors of G itself are the error of the result.
"""

from __future__ import annotations

import math

import numpy as np

from .compensated import EPS
from .compile import kernel
from .dirichlet_contour import SEARCH_ACCURACY, integrals
from .dirichlet_tail import COARSEST_ACCURACY, _hand_out, _merged, _sorted
from .normal import normal_cdf, normal_pdf, normal_quantile

NOISY_SCRATCH = 9  # rows of the scratch array of noisy_tail_of_row: those of tail_of_row, and two for sums
FARTHEST = 8.5  # standard deviations of the noise, beyond which nothing is left in 64-bit floats
ROUGH_POWER = 8.0  # cut at values where the other counts add up to less
PARTS = 64  # parts that wait
MAX_PARTS = 400  # parts in all
FINEST = 1e-11  # of CVaR, in units of the range of the values or of the noise: always aimed at
ROUGH = 1e-5  # accuracy on the way to the quantile
MAX_STEPS = 40  # on the way to the quantile

# nodes of Kronrod's rule in [0, 1], its weights, and those of Gauss's rule at every second node
_NODES = np.array(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691693013,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
        0.0,
    ]
)
_KRONROD = np.array(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
        0.209482141084727828012999174891714,
    ]
)
_GAUSS = np.array(
    [
        0.129484966168869693270611432679082,
        0.279705391489276667901467771423780,
        0.381830050505118944950369775488975,
        0.417959183673469387755102040816327,
    ]
)


@kernel
def _convolved(x, p, sharp, sd, row, mean, spread_sd, total, part):
    """Return G_Z(x), F_Z(x), its density, and an error of G_Z; write Q_Z into ``total`` [n]; ``part`` [n] is scratch.

    All in units of the range of the values. ``sharp`` is the error of G_Z/p to aim at.
    """
    # a Dirichlet mean is sub-Gaussian with variance 1 / (4 (total + 1)) in units of the range (Marchal and Arbel,
    # 2017): beyond this distance from its mean less than 1e-18 of it is left
    reach = 4.55 / math.sqrt(row.total + 1.0)
    left, right = max(row.value[0], mean - reach), min(row.value[row.n - 1], mean + reach)
    begin, end = max(left, x - FARTHEST * sd), min(right, x + FARTHEST * sd)
    beyond = (x - right) / sd
    above, below = normal_cdf(beyond), normal_pdf(beyond)
    G, F, f, error = (x - mean) * above + sd * below, above, 0.0, 16.0 * EPS * (abs(x - mean) + sd)
    for k in range(row.n):
        total[k] = row.psi[k] / row.total * above
    if not begin < end:
        return G, F, f, error
    # where to cut at first: rough values, and a few standard deviations around the mean of X and around x
    cuts = np.empty(PARTS)
    cuts[0], n = begin, 1
    for k in range(1, row.n - 1):
        if begin < row.value[k] < end and row.total - row.psi[k] < ROUGH_POWER and n < PARTS // 2:
            cuts[n] = row.value[k]
            n += 1
    for i in range(-2, 3):
        for center, width in ((mean, 3.0 * spread_sd), (x, 3.0 * sd)):
            at = center + i * width
            if begin < at < end:
                cuts[n] = at
                n += 1
    cuts[n] = end
    cuts = np.sort(cuts[: n + 1])
    lows, highs = np.empty(2 * PARTS), np.empty(2 * PARTS)
    waiting = 0
    for i in range(n):
        if cuts[i + 1] > cuts[i]:
            lows[waiting], highs[waiting] = cuts[i], cuts[i + 1]
            waiting += 1
    enough, done = 0.05 * sharp * p, 0
    relative = SEARCH_ACCURACY if sharp >= ROUGH else 0.1 * sharp
    while waiting > 0:
        waiting -= 1
        a, b = lows[waiting], highs[waiting]
        half, middle = 0.5 * (b - a), 0.5 * (a + b)
        fine, coarse, size, masses, density, doubt = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(row.n):
            part[k] = 0.0
        for j in range(8):
            for side in (-1.0, 1.0):
                if j == 7 and side > 0.0:
                    continue
                y = middle + side * half * _NODES[j]
                g, mass, _, slope, off = integrals(y, p, 0.1 * sharp, relative, 0.0, row)
                weight = half * normal_pdf((x - y) / sd) / sd
                heavy = weight * _KRONROD[j]
                fine += heavy * g
                size += heavy * g
                masses += heavy * mass
                density += heavy * slope
                doubt += heavy * off
                if j % 2 == 1:
                    coarse += weight * _GAUSS[j // 2] * g
                for k in range(row.n):
                    part[k] += heavy * row.Q[k]
        miss = abs(fine - coarse)
        if size > 0.0 and miss > 0.0:
            miss = max(min(miss, size * min(1.0, (200.0 * miss / size) ** 1.5)), 8.0 * EPS * size)
        done += 1
        if miss > enough and done < MAX_PARTS and waiting + 2 < 2 * PARTS and half > 1e-14:
            lows[waiting], highs[waiting], lows[waiting + 1], highs[waiting + 1] = a, middle, middle, b
            waiting += 2
            continue
        G, F, f, error = G + fine, F + masses, f + density, error + miss + doubt
        for k in range(row.n):
            total[k] += part[k]
    return G, F, f, error


@kernel
def noisy_tail_of_row(values, counts, sd, p, start, accuracy, work, q):
    """CVaR of w.values + sd N for w ~ Dirichlet(counts) and a standard normal N, sd > 0.

    Arguments and results are those of ``prudent._numerics.dirichlet_tail.tail_of_row``; ``start`` is the quantile in
    standard deviations of the sum. ``q`` are the means of w in the tail of the sum. ``work`` is [NOISY_SCRATCH, K].
    """
    given, factor, total, reference = _sorted(values, counts, work[0], work[6])
    low, high = work[0, 0], work[0, given - 1]
    spread = high - low
    z = normal_quantile(p) if p < 1.0 else 0.0
    if p >= 1.0 or not spread > 1e-13 * sd:  # the mean, or a normal
        mean = 0.0
        for k in range(values.size):
            q[k] = factor * counts[k] / total
            mean += q[k] * (values[k] - reference)
        size = max(abs(low), abs(high))
        lower = 0.0 if p >= 1.0 else sd * normal_pdf(z) / p
        error = EPS * (size + 8.0 * lower + (4.0 + given) * spread)
        return reference + mean - lower, reference + mean + sd * z, z, error + (0.0 if p >= 1.0 else spread)

    row, mean, own = _merged(values, counts, given, factor, total, reference, spread, work)
    noise = sd / spread
    wide = math.sqrt(own * own + noise * noise)
    sharp = min(max(accuracy / spread, FINEST * max(1.0, noise)), COARSEST_ACCURACY)
    here = start if start == start else z
    lo, hi, fine = -np.inf, np.inf, False
    G, F, f, error = 0.0, 0.0, 0.0, 0.0
    x, rest = mean, np.inf
    for step in range(MAX_STEPS):
        x = mean + here * wide
        G, F, f, error = _convolved(x, p, sharp if fine else max(ROUGH, sharp), noise, row, mean, own, work[7], work[8])
        off = p - F
        # a second-order step to the top of x - G/p
        rest = off * off / (2.0 * p * f) if f > 0.0 else np.inf
        if (rest <= 0.3 * sharp and abs(off) <= 0.05 * p) or step == MAX_STEPS - 1:
            if fine or sharp >= ROUGH:
                break
            fine = True
            continue
        if off > 0.0:
            lo = here
        else:
            hi = here
        new = np.nan
        if f > 0.0 and 1e-12 < F < 1.0 - 1e-12:  # Newton on the normal scale, where F is close to a line
            at = normal_quantile(F)
            new = here + (z - at) * normal_pdf(at) / (f * wide)
        if not lo < new < hi:
            new = 0.5 * (lo + hi) if lo > -np.inf and hi < np.inf else (here + 2.0 if hi == np.inf else here - 2.0)
        here = new
    # x - G/p is concave: it cannot rise further than along its tangent, up to the end of the bracket
    rest = min(rest, abs(p - F) / p * (min(hi, here + 8.0) - max(lo, here - 8.0)) * wide)
    norm = 0.0
    for k in range(row.n):
        row.Q[k] = max(work[7, k], 0.0)
        norm += row.Q[k]
    for k in range(row.n):
        row.Q[k] /= norm
    _hand_out(values, counts, given, factor, reference, spread, row, work[6], q)
    result = reference + spread * (x - G / p + rest)
    error = spread * (error / p + rest + 64.0 * EPS * (1.0 + noise)) + EPS * abs(result)
    return result, reference + spread * x, here, error
