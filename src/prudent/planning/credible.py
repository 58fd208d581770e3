"""Credible regions of Dirichlet posteriors as sets of probabilities, with their coverage.

Sources are independent under the posterior, so that sets which each hold their source with probability c^(1/B) hold all
B of them with probability c. Sources with one possible outcome are certain and do not count.
"""

from __future__ import annotations

import numpy as np
import scipy

from .._support.checks import generator, open_probability
from ..posteriors.dirichlet import DirichletPosterior
from ..types import FloatArray, RngLike

DRAWN_NUMBERS = 2**22  # numbers that are drawn at once
DRAW_DOUBT = 1e-6  # probability, over the draws of all sources, that some radius is too small


def source_doubts(counts: FloatArray, coverage: float, joint: bool) -> FloatArray:
    """Return the probability that the set of each source may miss [B], 0 for sources that are certain."""
    level = open_probability(coverage, "coverage")
    unknown = np.count_nonzero(counts, axis=1) > 1
    n = int(unknown.sum()) if joint else 1
    doubt = -np.expm1(np.log(level) / max(n, 1))
    return np.where(unknown, doubt, 0.0)


def marginal_intervals(counts: FloatArray, coverage: float, joint: bool) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds [B, K] from the Beta marginals, with equal tails.

    The marginals of K outcomes share the doubt of their source (Bonferroni); for two outcomes they are one event.
    """
    doubt = source_doubts(counts, coverage, joint)[:, np.newaxis]
    total, size = counts.sum(axis=1, keepdims=True), np.count_nonzero(counts, axis=1)[:, np.newaxis]
    tail = doubt / (2.0 * np.maximum(np.where(size == 2, 1, size), 1))
    possible = (counts > 0.0) & (size > 1)
    one, other = np.where(possible, counts, 1.0), np.where(possible, total - counts, 1.0)
    # rounded outwards by more than the digits that the inverse loses
    lower = scipy.special.betaincinv(one, other, tail) * (1.0 - 1e-12)
    upper = np.minimum(scipy.special.betainccinv(one, other, tail) * (1.0 + 1e-12), 1.0)
    certain = (counts > 0.0) & (size == 1)
    return np.where(certain, 1.0, np.where(possible, lower, 0.0)), np.where(
        certain, 1.0, np.where(possible, upper, 0.0)
    )


def ball_radii(
    posterior: DirichletPosterior, coverage: float, joint: bool, weights: FloatArray | None, draws: int, rng: RngLike
) -> FloatArray:
    """Return radii [B] of weighted balls around the posterior mean.

    Each is the lesser of two bounds on a quantile of the distance: an order statistic of draws, and the tail bound
    P(distance >= eps) <= (2^K - 2) exp(-(n + 1) eps^2 / 2) of a Dirichlet with total n (times the largest weight). The
    distance is twice the greatest excess of the probability of a set of outcomes, and each of these is Beta, hence
    sub-Gaussian with variance proxy 1 / (4 (n + 1)) (Marchal and Arbel, 2017).
    """
    counts = posterior.counts
    doubt = source_doubts(counts, coverage, joint)
    weight = np.ones(counts.shape) if weights is None else np.broadcast_to(weights, counts.shape)
    unknown = np.flatnonzero(doubt)
    radii = np.zeros(counts.shape[0])
    if not unknown.size:
        return radii
    chance = doubt[unknown[0]]  # the same for all
    n, size = counts[unknown].sum(axis=1), np.count_nonzero(counts[unknown], axis=1)
    subsets = np.log(2.0) * size + np.log1p(-np.exp2(1.0 - size))
    heaviest = np.where(counts[unknown] > 0.0, weight[unknown], 0.0).max(axis=1)
    bound = np.minimum(np.sqrt(2.0 * (subsets - np.log(chance)) / (n + 1.0)), 2.0) * heaviest
    # the j-th of n distances covers c with the probability that fewer than j of n uniforms fall below c
    from scipy.stats import binom  # takes a while to load

    j = int(binom.isf(DRAW_DOUBT / unknown.size, draws, 1.0 - chance)) + 1
    if j <= draws:
        random, mean = generator(rng), posterior.mean()
        step = max(1, DRAWN_NUMBERS // (draws * counts.shape[1]))
        for i in range(0, unknown.size, step):
            some = unknown[i : i + step]
            theta = DirichletPosterior(counts[some]).sample(draws, random)
            far = (abs(theta - mean[some]) * weight[some]).sum(axis=2)
            bound[i : i + step] = np.minimum(bound[i : i + step], np.partition(far, j - 1, axis=0)[j - 1])
    radii[unknown] = bound
    return radii
