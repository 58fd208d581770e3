"""The Beta distribution in 40 digits: the reference for rows of two values."""

import mpmath as mp
from scipy import stats


def beta_cdf(a, b, y, rest):
    """Regularised incomplete beta function at y = 1 - rest by its continued fraction (Lentz), to 40 digits."""
    if y > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(b, a, rest, y)
    c, d = mp.mpf(1), 1 / (1 - (a + b) * y / (a + 1))
    h, m, factor = d, 0, mp.mpf(0)
    while abs(factor - 1) > mp.mpf(10) ** -42:
        m += 1
        even = m * (b - m) * y / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        h *= d * c
        odd = -(a + m) * (a + b + m) * y / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        factor = d * c
        h *= factor
    return beta_mass(a, b, y, rest) / a * h


def beta_mass(a, b, y, rest):
    """y^a (1 - y)^b / B(a, b): the density times y (1 - y)."""
    return mp.exp(a * mp.log(y) + b * mp.log(rest) + mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b))


def beta_cvar(low, high, alpha):
    """CVaR of a Beta(high, low) variable in 40 digits: E[X; X <= y] / p, where F(y) = p.

    By the recurrence of the incomplete beta function, E[X; X <= y] = mean (F(y) - y^a (1 - y)^b / (a B(a, b))).
    """
    with mp.workdps(50):
        a, b, p = mp.mpf(high), mp.mpf(low), 1 - mp.mpf(alpha)
        return a / (a + b) if p == 1 else a / (a + b) * (1 - _quantile(low, high, alpha)[1] / a / p)


def beta_quantile(low, high, alpha):
    """The (1 - alpha)-quantile of a Beta(high, low) variable."""
    return _quantile(low, high, alpha)[0]


def _quantile(low, high, alpha):
    """Return y with F(y) = 1 - alpha, and the density there times y (1 - y).

    y is looked for as t = log(y / (1 - y)), so that it may be closer to 0 or 1 than floats can tell.
    """
    with mp.workdps(50):
        a, b, p = mp.mpf(high), mp.mpf(low), 1 - mp.mpf(alpha)
        near = float(stats.beta.ppf(float(p), float(high), float(low)))
        bottom, top = mp.mpf(-4) / min(a, mp.mpf(1)) * 10**2, mp.mpf(4) / min(b, mp.mpf(1)) * 10**2
        t = mp.log(near) - mp.log1p(-near) if 0.0 < near < 1.0 else (bottom + top) / 2
        for _ in range(400):
            y, rest = 1 / (1 + mp.exp(-t)), 1 / (1 + mp.exp(t))
            mass, slope = beta_cdf(a, b, y, rest), beta_mass(a, b, y, rest)
            miss = p - mass
            if abs(miss) <= mp.mpf(10) ** -25 * p:
                break
            bottom, top = (t, top) if miss > 0 else (bottom, t)
            t += miss / slope if slope > 0 else 0
            if not bottom < t < top:
                t = (bottom + top) / 2
        else:
            raise AssertionError(f"no quantile of Beta({high}, {low}) at {alpha}")
        return y, slope
