"""Tables of the law of W, the weighted lowest of n standard normals, as piecewise quintics.

See ``prudent.bandits.law.score_law`` for the mathematics.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._support.checks import FloatArray

_CELLS = 1800
LEAST = 1e-17  # the chance that the ends of the table leave out


class TableLaw(NamedTuple):
    """The law of W as kernels read it."""

    kind: int
    n: int  # draws; below zero, the highest count
    first: float  # weight of the lowest draw
    low: float  # where the table begins; no draw of a clipped pair falls below it
    step: float  # between the cells of the table
    cells: FloatArray  # [cells, 6] coefficients


_Values = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # x, G, G', G''


def order_statistic_table(n: int, k: int) -> _Values:
    """Return the law of the k-th lowest of ``n`` standard normals."""
    from scipy import special

    low = special.ndtri(special.betaincinv(k, n - k + 1, LEAST))
    high = -special.ndtri(special.betaincinv(n - k + 1, k, LEAST))
    x = np.linspace(low, high, _CELLS + 1)
    log_pdf = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
    log_cdf, log_survival = special.log_ndtr(x), special.log_ndtr(-x)
    density = np.exp(log_pdf + (k - 1) * log_cdf + (n - k) * log_survival - special.betaln(k, n - k + 1))
    slope = -x + (k - 1) * np.exp(log_pdf - log_cdf) - (n - k) * np.exp(log_pdf - log_survival)
    return np.asarray(x), special.betainc(k, n - k + 1, special.ndtr(x)), density, density * slope


def mirrored(x: FloatArray, value: FloatArray, slope: FloatArray, bend: FloatArray) -> _Values:
    """Return the law of -W, given that of W."""
    return -x[::-1], 1.0 - value[::-1], slope[::-1], -bend[::-1]


def cvar_table(n: int, weights: FloatArray) -> _Values:
    """Return the law of the weighted lowest of ``n`` normals, all weights but the last being equal."""
    from scipy import special

    lowest = weights.size
    tail = special.betaincinv([lowest, n - lowest + 1], [n - lowest + 1, lowest], 1e-20)
    z = np.linspace(special.ndtri(tail[0]), -special.ndtri(tail[1]), 1201)
    log_pdf = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    log_cdf, log_survival = special.log_ndtr(z), special.log_ndtr(-z)
    log_density = (
        log_pdf + (lowest - 1) * log_cdf + (n - lowest) * log_survival - special.betaln(lowest, n - lowest + 1)
    )
    mass = np.exp(log_density) * (z[1] - z[0])
    # mean and sd of W from those of a normal truncated above z
    hazard = np.exp(log_pdf - log_cdf)
    mean_given = weights[-1] * z - weights[0] * (lowest - 1) * hazard
    variance_given = weights[0] ** 2 * (lowest - 1) * np.maximum(1.0 - hazard * (z + hazard), 0.0)
    mean = float(mass @ mean_given)
    sd = math.sqrt(float(mass @ (variance_given + (mean_given - mean) ** 2)))
    # a period of 64 sd keeps the copies of the density apart; the characteristic function has decayed at 40 / sd
    period, below = 64.0 * sd, 48.0 * sd
    frequency = 2.0 * math.pi / period * np.arange(1, 410)[:, np.newaxis]
    u = frequency * weights[0]
    # E[exp(iuZ); Z <= z] = exp(-u^2/2) Phi(z - iu), by the Faddeeva function where it is small
    wave = 0.5 * np.exp(-0.5 * z * z + 1j * u * z)
    left = wave * special.wofz((np.where(z < 0.0, -1.0, 1.0) * u + 1j * np.abs(z)) / math.sqrt(2.0))
    truncated = np.where(z < 0.0, left, np.exp(-0.5 * u * u) - left) / np.exp(log_cdf)
    transform = (truncated ** (lowest - 1) * np.exp(1j * frequency * (weights[-1] * z - mean))) @ mass
    y = np.linspace(-below, period - below, 3 * _CELLS + 1)
    phases = np.exp(-1j * frequency * y)
    density = (1.0 + 2.0 * (transform @ phases).real) / period
    slope = 2.0 * ((-1j * frequency[:, 0] * transform) @ phases).real / period
    inside = np.flatnonzero(density * sd > 1e-14)
    first, last = inside[0], inside[-1]
    keep = slice(first, last + 1)
    antiderivative = 2.0 * ((transform / (-1j * frequency[:, 0])) @ (phases[:, keep] - phases[:, :1])).real
    cdf = (antiderivative + (y[keep] - y[0])) / period
    return mean + y[keep], np.clip(cdf, 0.0, 1.0), density[keep], slope[keep]


def quintics(x: FloatArray, value: FloatArray, slope: FloatArray, bend: FloatArray) -> tuple[float, float, FloatArray]:
    """Return the start, the step and, per cell, the six coefficients in (x - left end) / step."""
    step = float(x[1] - x[0])
    c0, c1, c2 = value[:-1], step * slope[:-1], 0.5 * step * step * bend[:-1]
    gap = value[1:] - (c0 + c1 + c2)
    gap_slope = step * slope[1:] - (c1 + 2.0 * c2)
    gap_bend = step * step * bend[1:] - 2.0 * c2
    c3 = 10.0 * gap - 4.0 * gap_slope + 0.5 * gap_bend
    c4 = -15.0 * gap + 7.0 * gap_slope - gap_bend
    c5 = 6.0 * gap - 3.0 * gap_slope + 0.5 * gap_bend
    return float(x[0]), step, np.column_stack([c0, c1, c2, c3, c4, c5])
