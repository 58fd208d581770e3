"""Several sites in one log: what the data of others says about one of them.

Let n_g(s, a, .) be the counts of site g, N_g(s, a) their sum, and phi(s, a, .) the prior counts of the model. Sites are
alike but not the same: theta_g(s, a) ~ Dirichlet(kappa mu(s, a)) around a common mu(s, a), where the similarity kappa
says how much. An observation of another site then tells less of this one than its own, and the more other sites have
seen, the less each of their observations adds. For two steps of such a hierarchy the variances add up, 1/kappa + 1/N,
so that N observations elsewhere are worth N kappa / (N + kappa) observations here: at most kappa. Hence

    m_g(s, a, .)     = sum over j != g of  kappa / (kappa + N_j(s, a))  n_j(s, a, .),    M_g its sum
    prior_g(s, a, .) = phi(s, a, .) + kappa / (kappa + M_g(s, a))  m_g(s, a, .)

and theta_g ~ Dirichlet(prior_g + n_g). At kappa = 0 the sites are fitted apart, at infinity they are one site.

**kappa is learned** by leave-one-site-out evidence: the probability of each site's transitions, given those of all
others, is Dirichlet-multinomial with the counts prior_g, and

    L(kappa) = sum over g and (s, a) of  log Gamma(|prior_g|) - log Gamma(|prior_g| + N_g)
               + sum over s' of  log Gamma(prior_g + n_g) - log Gamma(prior_g)

is largest at the kappa that predicts sites best from the others. It is searched on a grid over all scales, and then
refined. The posterior plugs that kappa in; what is not known about kappa itself is not part of the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import scipy

from .._support.progress import Progress
from ..models.log_summary import Pooling
from ..types import FloatArray, IntArray

GRID = np.concatenate(([0.0], np.geomspace(1e-2, 1e6, 49), [np.inf]))
REFINEMENTS = 12  # steps of the golden section around the best point of the grid, to less than a hundredth
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def pooled_priors(
    counts: FloatArray, pair: IntArray, base: FloatArray, similarity: float, sites: range | None = None
) -> FloatArray:
    """Return the prior counts of sites.

    Parameters
    ----------
    counts : ndarray [G, E]
        How often each site saw each outcome.
    pair : ndarray of int [E]
        The pair of each outcome.
    base : ndarray [E]
        Prior counts without other sites.
    similarity : float
        The kappa of the module; 0 is apart, infinity is one site.
    sites : range, optional
        The sites in question, by default all of them.

    Returns
    -------
    ndarray [len(sites), E]
        Prior counts.
    """
    asked = range(counts.shape[0]) if sites is None else sites
    if similarity == 0.0:
        return np.tile(base, (len(asked), 1))
    discounted = counts * _worth(similarity, _totals(counts, pair))[:, pair]
    everyone = discounted.sum(axis=0)
    others = np.maximum(everyone - discounted[list(asked)], 0.0)
    others[counts.sum(axis=0) - counts[list(asked)] <= 0.0] = 0.0  # what only this site saw, but for rounding
    return np.asarray(base + others * _worth(similarity, _totals(others, pair))[:, pair])


def _totals(counts: FloatArray, pair: IntArray) -> FloatArray:
    """Return the sums over the outcomes of each pair [G, P]."""
    size = int(pair.max()) + 1
    return np.stack([np.bincount(pair, row, size) for row in counts]).astype(np.float64)


def _worth(similarity: float, totals: FloatArray) -> FloatArray:
    """Return what each of a number of observations elsewhere is worth here."""
    return np.ones(totals.shape) if similarity == np.inf else similarity / (similarity + totals)


def log_evidence(
    counts: FloatArray, pair: IntArray, base: FloatArray, similarity: float, sites: range | None = None
) -> float:
    """Return L of the module: the log probability of each site's transitions given those of the others.

    Arguments as for ``pooled_priors``.
    """
    asked = range(counts.shape[0]) if sites is None else sites
    priors, own = pooled_priors(counts, pair, base, similarity, asked), counts[list(asked)]
    seen = own > 0.0
    rows = scipy.special.gammaln(priors[seen] + own[seen]) - scipy.special.gammaln(priors[seen])
    before, after = _totals(priors, pair), _totals(priors + own, pair)
    tried = after > before
    return float(rows.sum() - (scipy.special.gammaln(after[tried]) - scipy.special.gammaln(before[tried])).sum())


def _seen_somewhere(counts: FloatArray, pair: IntArray, base: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return counts, pairs and prior counts in which the outcomes of a pair that no site saw are one.

    The evidence is the same: it depends on them by the sum of their prior counts only.
    """
    seen, size = counts.any(axis=0), int(pair.max()) + 1
    rest = np.bincount(pair[~seen], base[~seen], size)
    return (
        np.concatenate((counts[:, seen], np.zeros((counts.shape[0], size))), axis=1),
        np.concatenate((pair[seen], np.arange(size))),
        np.concatenate((base[seen], rest)),
    )


def learn_similarity(
    names: tuple[Hashable, ...], counts: FloatArray, pair: IntArray, base: FloatArray, sites: range | None = None
) -> Pooling:
    """Return the similarity with the largest evidence, and the evidence for it; arguments as for ``pooled_priors``."""
    shown = _seen_somewhere(counts, pair, base)
    progress, curve = Progress("learning how alike groups are"), np.empty(GRID.size)
    for i, kappa in enumerate(GRID.tolist()):
        curve[i] = log_evidence(*shown, kappa, sites)
        progress.show(f"{i + 1} of {GRID.size} similarities")
    progress.close()
    best = int(np.argmax(curve))
    found, top = float(GRID[best]), float(curve[best])
    if 0 < best < GRID.size - 1:
        low, high = (float(np.log(GRID[i])) for i in (max(best - 1, 1), min(best + 1, GRID.size - 2)))
        found, top = _refined(lambda x: log_evidence(*shown, float(np.exp(x)), sites), low, high, found, top)
    asked = list(range(counts.shape[0]) if sites is None else sites)
    borrowed = (pooled_priors(*shown, found, sites) - shown[2]).sum(axis=1)
    others = counts.sum() - counts[asked].sum(axis=1)
    weights = np.divide(borrowed, others, out=np.zeros(len(asked)), where=others > 0.0)
    return Pooling(
        names=names,
        observations=tuple(counts.sum(axis=1).tolist()),
        similarity=found,
        weights=tuple(weights.tolist()),
        evidence_over_apart=top - float(curve[0]),
        evidence_over_pooled=top - float(curve[-1]),
        grid=tuple(GRID.tolist()),
        evidence=tuple(curve.tolist()),
    )


def _refined(
    function: Callable[[float], float], low: float, high: float, kappa: float, top: float
) -> tuple[float, float]:
    """Return the best point of a golden section search in [low, high], which are logarithms, or the given one."""
    for _ in range(REFINEMENTS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        values = function(left), function(right)
        x, value = (left, values[0]) if values[0] >= values[1] else (right, values[1])
        low, high = (low, right) if values[0] >= values[1] else (left, high)
        if value > top:
            kappa, top = float(np.exp(x)), value
    return kappa, top
