"""Future data sets: the counts of m more observations of one source, and their probabilities.

The counts c are Dirichlet-multinomial: theta from the posterior, then c from theta. All c are enumerated if they are
few. Otherwise c is sampled, half of them from a posterior that is twice as wide, with weights, because the data that
changes a policy may be rare.

**Standard errors of few replications.** An error is calibrated so that the mean plus or minus 1.96 errors covers the
expectation in about 95% of samples, also of 20 replications: Student's quantile stands for the normal one, and one more
replication with the largest effect is added to the variance, because the data set with a large effect may not be among
those drawn. If all data sets drawn have the same effect, the largest effect is that of a few extreme data sets, in
which all observations are of one outcome.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, stdtrit

from ..posteriors.dirichlet import DirichletPosterior
from ..types import FloatArray, IntArray

MAX_ENUMERATED = 300  # data sets; more are sampled
EXTREMES = 8  # data sets with all observations of one outcome, for the likeliest outcomes


class DataSets(NamedTuple):
    """Possible data sets, and weights for averages over them."""

    counts: FloatArray  # [U, K] distinct data sets, and after them the extreme ones
    drawn: IntArray  # [R] data set of each replication
    weight: FloatArray  # [R] sums to one
    halves: tuple[slice, ...]  # strata of R; none if all data sets are enumerated

    def mean_and_error(self, values: FloatArray) -> tuple[float, float]:
        """Return the mean of ``values`` [U] and its standard error, calibrated for few replications."""
        sample = values[self.drawn]
        mean = float(self.weight @ sample)
        if not self.halves:
            return mean, 0.0
        deviation = self.weight * (sample - mean)
        variance = sum(deviation[half].size * float(deviation[half].var(ddof=1)) for half in self.halves)
        if np.ptp(sample) > 0.0:
            unseen = float(np.abs(sample - mean).max()) / self.weight.size
        else:
            unseen = float(np.abs(values - mean).max() * self.weight.max())
        smallest = min(half.stop - half.start for half in self.halves)
        quantile = float(stdtrit(smallest - 1, 0.975)) / 1.959964
        return mean, quantile * math.sqrt(variance + unseen**2)

    def singly(self, replications: int, rng: np.random.Generator) -> DataSets:
        """Return the same with a data set for each replication, since each will also have rewards of its own."""
        if self.halves:
            return DataSets(self.counts[self.drawn], np.arange(self.drawn.size), self.weight, self.halves)
        drawn = rng.choice(self.weight.size, replications, p=self.weight)
        halves = (slice(0, replications // 2), slice(replications // 2, replications))
        even = np.full(replications, 1.0 / replications)
        return DataSets(self.counts[self.drawn[drawn]], np.arange(replications), even, halves)


def data_sets(psi: FloatArray, m: int, replications: int, rng: np.random.Generator) -> DataSets:
    """Return all data sets of m observations if they are few, or else a sample.

    Half of a sample has counts psi, half psi / 4, which is twice as wide and contains more of the rare data sets that
    change a policy; the weights correct for it.
    """
    outcomes = np.flatnonzero(psi > 0.0)
    n = outcomes.size
    halves: tuple[slice, ...] = ()
    if math.comb(m + n - 1, n - 1) <= max(MAX_ENUMERATED, replications):
        distinct = _every_count(n, m)
        index = np.arange(len(distinct))
        log_weight = _log_probability(psi[outcomes], distinct)
    else:
        halves = (slice(0, replications // 2), slice(replications // 2, replications))
        drawn = []
        for half, wide in zip(halves, (1.0, 4.0), strict=True):
            theta = DirichletPosterior(psi[outcomes] / wide).sample(half.stop - half.start, rng)[:, 0]
            drawn.append(rng.multinomial(m, theta))
        distinct, index = np.unique(np.concatenate(drawn), axis=0, return_inverse=True)
        likeliest = np.argsort(-psi[outcomes], kind="stable")[:EXTREMES]
        distinct = np.concatenate([distinct, m * np.eye(n, dtype=distinct.dtype)[likeliest]])
        wider = _log_probability(psi[outcomes] / 4.0, distinct) - _log_probability(psi[outcomes], distinct)
        log_weight = -np.logaddexp(0.0, wider)[index]
    weight = np.exp(log_weight - log_weight.max())
    counts = np.zeros((len(distinct), psi.size))
    counts[:, outcomes] = distinct
    return DataSets(counts, index.reshape(-1), weight / weight.sum(), halves)


def _every_count(n: int, m: int) -> IntArray:
    """Return all ways [R, K] in which m observations can fall on n outcomes."""
    if n == 1:
        return np.full((1, 1), m)
    bars = np.array(list(combinations(range(m + n - 1), n - 1))).reshape(-1, n - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), m + n - 1)])
    return np.diff(edges, axis=1) - 1


def _log_probability(psi: FloatArray, counts: IntArray) -> FloatArray:
    """Return the logarithm of the Dirichlet-multinomial probability of ``counts`` [R, K]."""

    def rising(base: Any, steps: Any) -> FloatArray:  # of base (base + 1) ... (base + steps - 1) / steps!
        log = np.zeros(steps.shape)
        some = steps > 0
        log[some] = -betaln(np.broadcast_to(base, steps.shape)[some], steps[some]) - np.log(steps[some])
        return log

    return rising(psi, counts).sum(axis=1) - rising(psi.sum(), counts.sum(axis=1))
