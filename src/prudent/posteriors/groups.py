"""Posteriors of sources that were seen only in part: a draw was one of several outcomes, and nobody knows which.

With psi the Dirichlet counts (prior and draws that were seen) and m_G draws of which only the group G of outcomes is
known, the posterior density is proportional to

    prod_k theta_k^(psi_k - 1)  prod_G (sum_{k in G} theta_k)^(m_G).

- If any two groups are nested or disjoint, it is a tree of independent Dirichlet distributions, one for each group over
  its parts: a part has the sum of its psi and of the m of all groups within it. Draws and moments are exact.
- Else, if the draws can be assigned to outcomes in few ways, it is a mixture of Dirichlet distributions, one for each
  way. Draws and moments are exact.
- Else draws come from a Gibbs sampler, which assigns the draws at random given theta, and draws theta given the
  assignment. Many chains run side by side until their variances within and between agree.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import scipy

from .._support.notices import warn_caller
from ..errors import ConvergenceWarning, DataError
from ..types import FloatArray

_MOST_WAYS = 20_000  # of assigning draws to outcomes, which are enumerated
_MOMENT_DRAWS = 4_000  # of a Gibbs sampler, for moments
_MOST_SWEEPS = 4_096


class Group(NamedTuple):
    """Draws of a source of which only a group of outcomes is known.

    Attributes
    ----------
    source : int
        Index of the source.
    outcomes : tuple of int
        Indices of the outcomes, ascending.
    times : float
        Number of such draws.
    """

    source: int
    outcomes: tuple[int, ...]
    times: float


def added_up(counts: FloatArray, groups: Iterable[Group]) -> tuple[FloatArray, tuple[Group, ...], FloatArray]:
    """Return counts [B, K] with the draws that are certain, the groups that say something, and all draws of groups [B].

    A group of one outcome is certain. A group of all outcomes that a source has says nothing.
    """
    counts = counts.copy()
    sizes = np.count_nonzero(counts, axis=1)
    ambiguous = np.zeros(counts.shape[0])
    added: dict[tuple[int, tuple[int, ...]], float] = {}
    for group in groups:
        try:
            source, outcomes, count = operator.index(group[0]), tuple(map(operator.index, group[1])), float(group[2])
            possible = tuple(sorted({k for k in outcomes if k >= 0 and counts[source, k] > 0.0}))
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            message = f"groups has {reprlib.repr(tuple(group))}, expected (source, outcomes, times): {error}"
            raise DataError(message, code="wrong-type", argument="groups", value=group) from error
        if not possible or not 0.0 <= count < math.inf or source < 0:
            message = f"group {tuple(outcomes)} of source {source} with count {count} has no outcome that is possible"
            raise DataError(message, code="impossible-outcome", source=source, value=count)
        added[source, possible] = added.get((source, possible), 0.0) + count
    kept = []
    for (source, distinct), count in sorted(added.items()):
        if len(distinct) == 1:
            counts[source, distinct[0]] += count
            continue
        ambiguous[source] += count
        if count > 0.0 and len(distinct) < sizes[source]:
            kept.append(Group(source, distinct, count))
    return counts, tuple(kept), ambiguous


def by_source(counts: FloatArray, groups: Iterable[Group]) -> Iterator[tuple[int, GroupedSource]]:
    """Yield the sources that have groups, with their posteriors."""
    found: dict[int, dict[tuple[int, ...], float]] = {}
    for source, outcomes, count in groups:
        found.setdefault(source, {})[outcomes] = count
    for source, mine in sorted(found.items()):
        yield source, grouped_source(counts[source], mine)


def matched_counts(counts: FloatArray, groups: Iterable[Group]) -> FloatArray:
    """Return Dirichlet counts [B, K] in place of the posterior with groups, which are not surer than it.

    A source keeps its means, with the largest total count at which no outcome has a smaller variance than in the
    posterior.
    """
    counts = counts.copy()
    for source, posterior in by_source(counts, groups):
        mean, variance = posterior.moments()
        inner = (mean > 0.0) & (mean < 1.0)
        counts[source] = mean * float(np.min(mean[inner] * (1.0 - mean[inner]) / variance[inner] - 1.0))
    return counts


# -- one source --------------------------------------------------------------------------------------------


class GroupedSource:
    """Posterior of one source; this class draws by a Gibbs sampler."""

    def __init__(self, counts: FloatArray, groups: dict[tuple[int, ...], float]) -> None:
        self.counts, self.groups = counts, groups

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return means and variances [K]."""
        draws = self.sample(_MOMENT_DRAWS, np.random.default_rng(0))  # the same question has the same answer
        return draws.mean(axis=0), draws.var(axis=0)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return draws [N, K] of a Gibbs sampler, one from each of N chains."""
        groups = [(np.array(outcomes), round(count)) for outcomes, count in self.groups.items()]
        if any(count != self.groups[tuple(outcomes.tolist())] for outcomes, count in groups):
            message = "counts of groups that overlap must be whole numbers"
            raise DataError(message, code="not-an-integer", argument="count")
        chains = max(n, 200)
        theta = _dirichlet(np.broadcast_to(self.counts, (chains, self.counts.size)), rng)
        first: FloatArray | None = None
        for sweep in range(1, _MOST_SWEEPS + 1):
            counts = np.tile(self.counts, (chains, 1))
            for outcomes, count in groups:
                shares = theta[:, outcomes] + 1e-300
                counts[:, outcomes] += rng.multinomial(count, shares / shares.sum(axis=1, keepdims=True))
            theta = _dirichlet(counts, rng)
            if sweep & (sweep - 1) == 0 and sweep >= 16:  # compare with half as many sweeps
                if first is not None and _alike(first, theta):
                    return theta[:n]
                first = theta
        message = f"{_MOST_SWEEPS} sweeps of the Gibbs sampler did not converge; draws of ambiguous sources are rough"
        warn_caller(ConvergenceWarning(message, code="iteration-cap", iterations=_MOST_SWEEPS))
        return theta[:n]


def _alike(before: FloatArray, after: FloatArray) -> bool:
    """Return whether chains have the same law at two times: correlation and means within what chance allows."""
    sd = np.maximum(after.std(axis=0), 1e-12)
    moved = abs(after.mean(axis=0) - before.mean(axis=0)) / sd
    centred = (before - before.mean(axis=0)) * (after - after.mean(axis=0))
    correlation = abs(centred.mean(axis=0)) / np.maximum(before.std(axis=0) * sd, 1e-24)
    chance = 4.0 / np.sqrt(after.shape[0])
    return bool((moved < 1.5 * chance).all() and (correlation < chance).all())


class _Mixture(GroupedSource):
    """A mixture of Dirichlet distributions, one for each way to assign the draws."""

    def _parts(self) -> tuple[FloatArray, FloatArray]:
        """Return the counts [W, K] and the probabilities [W] of the parts."""
        ways = [list(_compositions(round(count), len(outcomes))) for outcomes, count in self.groups.items()]
        added, log_weight = [], []
        for way in product(*ways):
            counts = self.counts.copy()
            weight = 0.0
            for outcomes, share in zip(self.groups, way, strict=True):
                counts[list(outcomes)] += share
                weight -= float(scipy.special.gammaln(np.array(share) + 1.0).sum())
            possible = counts > 0.0
            added.append(counts)
            log_weight.append(weight + float(scipy.special.gammaln(counts[possible]).sum()))
        weights = np.exp(np.array(log_weight) - max(log_weight))
        return np.array(added), weights / weights.sum()

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """See ``GroupedSource``."""
        counts, weights = self._parts()
        total = counts.sum(axis=1, keepdims=True)
        mean = weights @ (counts / total)
        return mean, weights @ (counts * (counts + 1.0) / (total * (total + 1.0))) - mean**2

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """See ``GroupedSource``."""
        counts, weights = self._parts()
        return _dirichlet(counts[rng.choice(weights.size, n, p=weights)], rng)


class _Tree(GroupedSource):
    """A tree of Dirichlet distributions: groups that are nested or disjoint."""

    def _nodes(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], FloatArray]]:
        """Yield each group, from the largest, with its parts and their Dirichlet counts."""
        every = tuple(np.flatnonzero(self.counts).tolist())
        family = sorted({*self.groups, every}, key=len, reverse=True)
        for group in family:
            inside = [other for other in family if len(other) < len(group) and set(other) <= set(group)]
            parts: list[tuple[int, ...]] = []
            for other in inside:  # the largest ones first
                if not any(set(other) <= set(part) for part in parts):
                    parts.append(other)
            single = set(group) - {k for part in parts for k in part}
            parts += [(k,) for k in sorted(single)]
            weights = [
                self.counts[list(part)].sum() + sum(m for other, m in self.groups.items() if set(other) <= set(part))
                for part in parts
            ]
            yield group, parts, np.array(weights)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """See ``GroupedSource``."""
        first, second = np.ones(self.counts.size), np.ones(self.counts.size)
        for _, parts, weights in self._nodes():
            total = weights.sum()
            for part, weight in zip(parts, weights, strict=True):
                first[list(part)] *= weight / total
                second[list(part)] *= weight * (weight + 1.0) / (total * (total + 1.0))
        impossible = self.counts == 0.0
        first[impossible] = second[impossible] = 0.0
        return first, second - first**2

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """See ``GroupedSource``."""
        theta = np.where(self.counts > 0.0, np.ones((n, 1)), 0.0)
        for _, parts, weights in self._nodes():
            shares = _dirichlet(np.broadcast_to(weights, (n, weights.size)), rng)
            for i, part in enumerate(parts):
                theta[:, list(part)] *= shares[:, i : i + 1]
        return theta / theta.sum(axis=1, keepdims=True)


def grouped_source(counts: FloatArray, groups: dict[tuple[int, ...], float]) -> GroupedSource:
    """Return the posterior of one source, exact if it can be."""
    sets = [set(outcomes) for outcomes in groups]
    if all(a <= b or b <= a or not a & b for a, b in combinations(sets, 2)):
        return _Tree(counts, groups)
    ways = 1
    for outcomes, count in groups.items():
        ways *= math.comb(round(count) + len(outcomes) - 1, len(outcomes) - 1)
        if ways > _MOST_WAYS or count != round(count):
            return GroupedSource(counts, groups)
    return _Mixture(counts, groups)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``total`` as a sum of ``parts`` whole numbers."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _dirichlet(counts: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return one draw for each row of counts [N, K]."""
    # counts so small that their inverse overflows: one outcome has everything, as with slightly larger ones
    counts = counts * np.maximum(1.0, 1e-200 / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300))
    # log of a gamma variate below one: that of count + 1 plus log(U) / count, which does not underflow
    safe = np.where(counts > 0.0, counts, 1.0)
    with np.errstate(over="ignore"):  # of one count that is tiny beside the others: its share is 0
        log = np.log(rng.standard_gamma(safe + 1.0)) + np.log(rng.random(counts.shape)) / safe
    log = np.where(counts > 0.0, log, -np.inf)
    draws = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))
