"""How much items differ beyond their features: the prior precision q of their offsets that has the most evidence.

Items have offsets b_i ~ Normal(0, nu^2 / q). With the sums S of z z' over all rewards z = (x, r), and s_i and w_i the
sum of the z of item i and their weight, the rewards given theta and q leave least squares in theta with the sums
S - sum_i s_i s_i' / (q + w_i). A noise with the reference prior, and a flat prior of the level, leave the log evidence

    -1/2 sum_i log(1 + w_i / q) - 1/2 log det V - (n - 1)/2 log Q,

with V the precision of theta and Q the residual sum of squares. If the noise is given, the last term is -Q / 2 nu^2.
Offsets cost exploration, so that they are next to nothing unless others are e^CAUTION times likelier: a few clicks that
happen to be those of one item are no evidence.
"""

from __future__ import annotations

import math

import numpy as np

from ..._support.checks import FloatArray

WEAKEST = 1e4  # the largest precision that is learned, and the one before data: offsets of next to nothing
_PRECISIONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, WEAKEST)
_TIE = 1e-9  # of the evidence: below, the larger precision is taken, however sums were rounded
CAUTION = 3.0
_EXACT = 1e-10  # of the squares of rewards: residuals below are rounding


def likeliest_precision(
    raw: FloatArray, z: FloatArray, weights: FloatArray, prior: FloatArray, intercept: bool, noise_sd: float | None
) -> float:
    """Return the precision with the most evidence among a few, the largest one if the sums say nothing.

    Parameters
    ----------
    raw : ndarray of float, [D+1, D+1]
        Sums of z z' over all rewards.
    z : ndarray of float, [I, D+1]
        Sums of z of every item.
    weights : ndarray of float, [I]
        Weights of the rewards of every item.
    prior : ndarray of float, [D, D]
        Prior precision of theta, in units of the noise.
    intercept : bool
        Whether the first feature is constant.
    noise_sd : float or None
        Sd of the noise; None if it is learned.

    Returns
    -------
    float
        Prior precision of the offsets, in units of the noise.
    """
    free = float(weights.sum()) - intercept
    wide = prior.copy()
    if intercept and noise_sd is None:  # its prior mean is learned
        wide[0], wide[:, 0] = 0.0, 0.0
    best, found = -math.inf, WEAKEST
    for q in reversed(_PRECISIONS):
        sums = raw - (z / (q + weights)[:, np.newaxis]).T @ z
        try:
            factor = np.linalg.cholesky(wide + sums[:-1, :-1])
        except np.linalg.LinAlgError:  # fewer rewards than features, or features that cannot be told apart
            continue
        half = np.linalg.solve(factor, sums[:-1, -1])
        left = float(sums[-1, -1] - half @ half)
        if not left > _EXACT * float(raw[-1, -1]) or not free > 0.0:
            continue
        evidence = -0.5 * float(np.log1p(weights / q).sum()) - float(np.log(np.diagonal(factor)).sum())
        evidence -= 0.5 * (free * math.log(left) if noise_sd is None else left / noise_sd**2)
        if best == -math.inf:
            best = evidence + CAUTION  # of offsets of next to nothing
        elif evidence > best + _TIE * abs(best):
            best, found = evidence, q
    return found
