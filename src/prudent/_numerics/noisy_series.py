"""A Dirichlet mean plus normal noise, Z = X + sd N, by a series with a rigorous bound on its error.

Let m be the mean of X, t >= 0, s^2 = sd^2 + t^2, u = (x - m)/s, and b_j = t^j E[He_j((X - m)/t)] / (s^j sqrt(j!)),
which for t = 0 is E[(X - m)^j] / (s^j sqrt(j!)). With Hermite polynomials h_j = He_j / sqrt(j!) and the normal density
n and distribution function N, the expansion of E[(x - X - sd N)+] in Hermite polynomials of X - m is

    G_Z(x)/s = u N(u) + n(u) + n(u) sum_{j >= 2} b_j h_{j-2}(u) / sqrt(j (j - 1))
    F_Z(x)   = N(u) - n(u) sum_{j >= 1} b_j h_{j-1}(u) / sqrt(j)
    s f_Z(x) = n(u) sum_{j >= 0} b_j h_j(u).

**Its error.** By Cramer's inequality n |h_j| <= 0.4335 everywhere. So for t = 0, Taylor's series, what is left out of
G_Z/s from an even J on is at most 0.4335 b_J / sqrt(J (J - 1)): moments of even order are not negative. For t > 0 the
same inequality bounds |b_j| by 1.0865 C (t/s)^j, C = E[exp((X - m)^2 / (4 t^2))]. A Dirichlet mean is sub-Gaussian with
variance v = range^2 / (4 (n + 1)) (Marchal and Arbel, 2017), so C <= (1 - v / (2 t^2))^(-1/2); here t^2 = 0.55 v.

**The moments.** For w ~ Dirichlet(psi), total n, and d_k = v_k - m, prod_k (1 - z d_k)^(-psi_k) generates
(n)_j / j! E[(X - m)^j]. Its logarithmic derivative gives each moment from those before it and the sums
sum_k psi_k d_k^i, of which the first is 0. A Dirichlet with one more count of outcome k has the generating function
times 1/(1 - z d_k), and E[w_k g(X)] = psi_k/n E[g(X)] under it: the tail means need no more than a sum each.

Taylor's series converges like (sd(X)/sd)^J, or for few counts like (B/sd)^J / sqrt(J!) with the largest distance B of a
value from the mean. Hermite's converges like (t/s)^J, also where the noise is below sd(X). Where terms grow before they
shrink, rounding grows with them, and the bound contains that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .compensated import EPS
from .compile import kernel
from .normal import normal_cdf, normal_pdf

MOST_TERMS = 200
CRAMER = 0.4335  # 1.0865 / sqrt(2 pi)
BASE = 0.55  # t^2 / v
GROWTH = 1.0865 * CRAMER / math.sqrt(1.0 - 0.5 / BASE)  # of the remainder of Hermite's series


class Series(NamedTuple):
    """The terms of the series."""

    sd: float  # s
    square: float  # (t/s)^2
    terms: int  # 0: no series
    error: float  # of G_Z
    b: FloatArray  # [MOST_TERMS + 1]
    moments: FloatArray  # [MOST_TERMS + 1] b for t = 0


@kernel
def _plan(noise, enough, row):
    """Return t^2 of the series that is expected to need fewer terms, and their number."""
    largest = max(noise.mean - row.value[0], row.value[row.n - 1] - noise.mean) / noise.sd
    goal = math.log(enough / noise.sd)
    taylor = goal / math.log(noise.own / noise.sd) if noise.own < noise.sd else np.inf
    J = 4.0
    while taylor > J and J <= MOST_TERMS and J * math.log(largest) - 0.5 * math.lgamma(J + 1.0) > goal:
        J += 4.0
    taylor = min(taylor, J) if J <= MOST_TERMS else taylor
    square = BASE * 0.25 / (row.total + 1.0)
    hermite = 2.0 * (goal - 2.0) / math.log(square / (square + noise.sd**2))
    return (0.0, taylor) if taylor < 1.5 * hermite else (square, hermite)


@kernel
def _moments(terms, sd, noise, row, moments):
    """Fill ``moments`` with E[(X - m)^j] / (sd^j sqrt(j!)) up to ``terms``."""
    n = row.total
    largest = max(noise.mean - row.value[0], row.value[row.n - 1] - noise.mean)
    power, d = np.ones(row.n), np.empty(row.n)
    for k in range(row.n):
        d[k] = (row.value[k] - noise.mean) / largest
    sums, ratio = np.empty(terms + 1), np.empty(terms + 1)
    scale = largest / sd
    moments[0] = 1.0
    for j in range(1, terms + 1):
        ratio[j - 1] = scale * math.sqrt(float(j)) / (n + j - 1.0)
        total = 0.0
        for k in range(row.n):
            power[k] *= d[k]
            total += row.psi[k] * power[k]
        sums[j] = total if j > 1 else 0.0
        here, product = 0.0, ratio[j - 1]
        for i in range(2, j + 1):
            product *= ratio[j - i]
            here += sums[i] * moments[j - i] * product
        moments[j] = here / j


@kernel
def series_of_row(noise, enough, row):
    """Return a series whose error of G_Z is at most ``enough``, or one without terms if there is none."""
    none = np.empty(0)
    shift, terms = _plan(noise, enough, row)
    if not terms <= 1.1 * MOST_TERMS:
        return Series(0.0, 0.0, 0, np.inf, none, none)
    sd = math.sqrt(noise.sd**2 + shift)
    square = shift / sd**2
    J = min(2 * (int(0.5 * terms) + 2), MOST_TERMS)
    moments = np.empty(MOST_TERMS + 1)
    while True:
        _moments(J, sd, noise, row, moments)
        b, size = moments, 0.0
        if shift > 0.0:
            b = np.empty(MOST_TERMS + 1)
        for j in range(J + 1):
            total, whole, factor, rest = 0.0, 0.0, 1.0, j
            i = 0
            while rest >= 0 and (i == 0 or shift > 0.0):
                total += factor * moments[rest]
                whole += abs(factor * moments[rest])
                i += 1
                factor *= -0.5 * square / i * math.sqrt(rest * (rest - 1.0))
                rest -= 2
            b[j] = total
            size += whole * (1.0 + 0.1 * j)
        error = 8.0 * EPS * CRAMER * size
        if shift > 0.0:
            root = math.sqrt(square)
            error += GROWTH * root**J / ((1.0 - root) * math.sqrt(J * (J - 1.0)))
        else:
            error += CRAMER * b[J] / math.sqrt(J * (J - 1.0))
        if error * sd <= enough:
            return Series(sd, square, J, error * sd, b, moments)
        if J == MOST_TERMS or 8.0 * EPS * CRAMER * size * sd > enough:
            return Series(0.0, 0.0, 0, np.inf, none, none)
        J = min(2 * (J // 2 + J // 4 + 1), MOST_TERMS)


@kernel
def sums_of_series(x, mean, series):
    """Return G_Z, F_Z and its density at x."""
    u, b = (x - mean) / series.sd, series.b
    below, density = normal_cdf(u), normal_pdf(u)
    G, F, f = 0.0, 0.0, 1.0
    before, here = 1.0, u  # h_{j-2} and h_{j-1}; b_1 is 0
    for j in range(2, series.terms):
        root = math.sqrt(float(j))
        G += b[j] * before / (root * math.sqrt(j - 1.0))
        F -= b[j] * here / root
        before, here = here, (u * here - math.sqrt(j - 1.0) * before) / root
        f += b[j] * here
    return series.sd * (u * below + density * (1.0 + G)), below + density * F, density * f / series.sd


@kernel
def means_of_series(x, mean, series, row):
    """Fill ``row.Q`` with E[w; Z <= x]."""
    u, J, n = (x - mean) / series.sd, series.terms, row.total
    below, density = normal_cdf(u), normal_pdf(u)
    weight = np.zeros(J)  # of the moments in the sum over j, of which each has a part in several terms
    before, here = 0.0, 1.0  # h_{j-2} and h_{j-1}
    for j in range(1, J):
        root = math.sqrt(float(j))
        factor, rest, i = here / root, j, 0
        while rest >= 0 and (i == 0 or series.square > 0.0):
            weight[rest] += factor
            i += 1
            factor *= -0.5 * series.square / i * math.sqrt(rest * (rest - 1.0))
            rest -= 2
        before, here = here, (u * here - math.sqrt(j - 1.0) * before) / root
    for k in range(row.n):
        d = (row.value[k] - mean) / series.sd
        moment, total = 1.0, weight[0]
        for j in range(1, J):
            moment = (n * series.moments[j] + d * math.sqrt(float(j)) * moment) / (n + j)
            total += moment * weight[j]
        row.Q[k] = row.psi[k] / n * (below - density * total)
