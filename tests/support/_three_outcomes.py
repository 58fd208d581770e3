"""CVaR over a Dirichlet posterior of the CVaR of three outcomes, in 20 digits: another integral, another library."""

from functools import cache
from itertools import pairwise

import numpy as np
from flint import arb, ctx
from scipy import special

from prudent.planning.luck_three import ThreeCounts, _above, _quantiles

BITS = 100


@cache
def _nodes():
    """Return the double-exponential rule: shares of a panel from both ends, and weights."""
    step, found = arb(1) / 12, []
    for k in range(-52, 53):
        u = step * k
        right, left = (1 / (1 + (sign * arb.pi() * u.sinh()).exp()) for sign in (-1, 1))
        found.append((right.mid(), left.mid(), (step * arb.pi() * u.cosh() * right * left).mid()))
    return found


def beyond(a, b, x):
    """Return P(B > x) of B ~ Beta(a, b)."""
    if x <= 0 or x >= 1:
        return arb(int(x <= 0))
    # near an end the smaller part has the digits
    below = (
        x.beta_lower(a, b, regularized=True)
        if x < (0.5 if a < 20 and b < 200 else 1e-6)
        else 1 - (1 - x).beta_lower(b, a, regularized=True)
    )
    return (1 - below).mid()


def excess(psi, a, t, x):
    """Return E (H - x)+ and P(H > x), by an integral over C_1 of closed forms over B (see ``luck_three``)."""
    first, second, third = psi
    rest, mean = second + third, second / (second + third)
    scale = (first + rest).lgamma() - first.lgamma() - rest.lgamma()
    term = (rest.lgamma() - second.lgamma() - third.lgamma()).exp() / second
    end = (t * x).mid()
    low = max(arb(0), (t * (x - 1 + a) / a).mid())
    cuts = [low, end, t]
    spread = (first * rest / (first + rest + 1)).sqrt() / (first + rest)
    wide = (second * third / (rest + 1)).sqrt() / rest
    for j in (-8, -4, -2, 0, 2, 4, 8):
        beta = mean + j * wide
        cuts += [first / (first + rest) + j * spread, (end - (1 - a) * beta) / (a + (1 - a) * (1 - beta))]
    cuts = sorted((c.mid() for c in cuts if low <= c <= t), key=float)
    mass = beyond(first, rest, t)
    total = (1 - x) * mass
    for begin, stop in pairwise(cuts):
        for right, left, weight in _nodes():
            c, other = (begin + (stop - begin) * right).mid(), (1 - stop + (stop - begin) * left).mid()
            if c <= 0 or other <= 0:
                continue
            density = weight * (stop - begin) * ((first - 1) * c.log() + (rest - 1) * other.log() + scale).exp()
            if density < 1e-24:
                continue
            b = ((end - c) / ((1 - a) * other)).mid()
            full = ((t - c) / other).mid() if t < 1 else arb(1)
            q, z = beyond(second, third, b), beyond(second, third, full)
            later, last = (
                share + ((second * at.log() + third * (1 - at).log()).exp() * term if 0 < at < 1 else 0)
                for share, at in ((q, b), (z, full))
            )
            v = (c * (q - z) + other * mean * (later - last)) / t + z
            total += density * ((a * c / t - x) * q + (1 - a) * v)
            mass += density * q
    return total, mass


def least(a, b, t):
    """Return E min(C, t) of C ~ Beta(a, b)."""
    return a / (a + b) * (1 - beyond(a + 1, b, t)) + t * beyond(a, b, t)


def true_value(y, psi, alpha, level):
    """Return CVaR at ``alpha`` over the posterior of CVaR at ``level`` of outcomes y (arb); None if no x was found."""
    before, ctx.prec = ctx.prec, BITS
    try:
        sign = 1 if level >= 0.0 else -1
        order = sorted(range(3), key=lambda k: float(sign * y[k]))
        y, psi = [sign * y[k] for k in order], [float(psi[k]) for k in order]
        a, t = (y[1] - y[0]) / (y[2] - y[0]), 1.0 - abs(level)
        share, lower = 1.0 - abs(alpha), (alpha >= 0.0) == (level >= 0.0)
        part = share if lower else 1.0 - share
        of = ThreeCounts(*(np.array([p]) for p in psi), np.array([float(a)]), t)
        surely = special.betaincc(of.first, of.rest, t)
        exact, counts = arb(t), [arb(p) for p in psi]
        if part >= 1.0:
            x = 0.0
        else:
            x = float(_quantiles(of, part, surely, lambda rows, at: _above(rows, at)[0])[0][0])
        if x == 1.0:
            total, mass = arb(0), beyond(counts[0], counts[1] + counts[2], exact)
        else:
            total, mass = excess(counts, a, exact, arb(x))
            if not abs(float(mass) - part) < 1e-8:
                return None
        high = arb(x) * arb(part) + total  # E[H; the highest share of it]
        if not lower:
            every = a * least(counts[0], counts[1] + counts[2], exact)
            every += (1 - a) * least(counts[0] + counts[1], counts[2], exact)
            high = every / exact - high
        return sign * (y[2] - (y[2] - y[0]) * high / arb(share))
    finally:
        ctx.prec = before
