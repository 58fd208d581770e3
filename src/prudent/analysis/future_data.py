"""The data that may come: m more observations of one source.

Before they are made their counts c are Dirichlet-multinomial: theta from the posterior, then c from theta. All c are
enumerated if they are few. Else c is sampled, half of them from a posterior that is twice as wide, with weights,
because the data that changes a policy may be rare.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from .._support.checks import FloatArray, IntArray
from ..posteriors.dirichlet import DirichletPosterior

__all__ = ["DataSets", "data_sets"]

FEW = 300  # data sets that are enumerated rather than sampled


class DataSets(NamedTuple):
    """Data sets that may come, and how to average over them."""

    counts: FloatArray  # [U, K] different ones
    place: IntArray  # [R] which of them is meant
    weight: FloatArray  # [R] sums to one
    halves: tuple[slice, ...]  # of R, sampled each in its own way; none if all that may come are there

    def mean_and_error(self, values: FloatArray) -> tuple[float, float]:
        """Return the mean of ``values`` [U] and its standard error."""
        each = values[self.place]
        mean = float(self.weight @ each)
        deviation = self.weight * (each - mean)
        return mean, math.sqrt(sum(deviation[half].size * float(deviation[half].var(ddof=1)) for half in self.halves))


def data_sets(psi: FloatArray, m: int, replications: int, rng: np.random.Generator) -> DataSets:
    """Return all data sets of m observations if they are few, or else a sample.

    Half of a sample has counts psi, half psi / 4, which is twice as wide and finds the rare data sets that change a
    policy; weights make up for it.
    """
    outcomes = np.flatnonzero(psi > 0.0)
    n = outcomes.size
    halves: tuple[slice, ...] = ()
    if math.comb(m + n - 1, n - 1) <= max(FEW, replications):
        found = _every_count(n, m)
        place = np.arange(len(found))
        log_weight = _log_chance(psi[outcomes], found)
    else:
        halves = (slice(0, replications // 2), slice(replications // 2, replications))
        drawn_counts = []
        for half, wide in zip(halves, (1.0, 4.0), strict=True):
            theta = DirichletPosterior(psi[outcomes] / wide).sample(half.stop - half.start, rng)[:, 0]
            drawn_counts.append(rng.multinomial(m, theta))
        found, place = np.unique(np.concatenate(drawn_counts), axis=0, return_inverse=True)
        wider = _log_chance(psi[outcomes] / 4.0, found) - _log_chance(psi[outcomes], found)
        log_weight = -np.logaddexp(0.0, wider)[place]
    weight = np.exp(log_weight - log_weight.max())
    counts = np.zeros((len(found), psi.size))
    counts[:, outcomes] = found
    return DataSets(counts, place.reshape(-1), weight / weight.sum(), halves)


def _every_count(n: int, m: int) -> IntArray:
    """Return all ways [R, K] in which m observations can fall on n outcomes."""
    bars = np.array(list(combinations(range(m + n - 1), n - 1))).reshape(-1, n - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), m + n - 1)])
    return np.diff(edges, axis=1) - 1


def _log_chance(psi: FloatArray, counts: IntArray) -> FloatArray:
    """Return the logarithm of the Dirichlet-multinomial probability of ``counts`` [R, K]."""

    def rising(base: Any, steps: Any) -> FloatArray:  # of base (base + 1) ... (base + steps - 1) / steps!
        found = np.zeros(steps.shape)
        some = steps > 0
        found[some] = -betaln(np.broadcast_to(base, steps.shape)[some], steps[some]) - np.log(steps[some])
        return found

    return rising(psi, counts).sum(axis=1) - rising(psi.sum(), counts.sum(axis=1))
