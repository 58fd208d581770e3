"""Rules for claims about distributions: their distance to a law, and shares of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from ..types import FloatArray
from .rules import Ends, IntervalRule, Region, Rule, Samples


@dataclass(frozen=True)
class Distance(IntervalRule):
    """Standardised samples [R] tend to the standard normal law: the last is close to it, and closer than the first.

    The empirical distribution lies within the band sqrt(ln(2 m / error) / 2 R) of the true one, for all m samples
    together, and so does its Kolmogorov distance to the law. That the distance falls needs two bands between them.

    Attributes
    ----------
    limit : float
        Largest Kolmogorov distance that counts as close.
    """

    limit: float
    smooth = False
    fewest = 1

    @property
    def words(self) -> str:
        """See ``Rule``."""
        return (
            "Dvoretzky-Kiefer-Wolfowitz bands of the Kolmogorov distance, all of them together: it falls from the "
            f"smallest N to the largest, and lies below {self.limit:g} there"
        )

    def ends(self, samples: Samples, error: float) -> Ends:
        """See ``IntervalRule``; the last interval is that of the fall."""
        scores = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
        count = next(iter(scores.values())).shape[-1]
        band = math.sqrt(math.log(2.0 * len(scores) / error) / (2.0 * count))
        distances = {name: kolmogorov(values) for name, values in scores.items()}
        shown = {
            f"{name}: Kolmogorov distance to the limit law": (d, np.maximum(d - band, 0.0), np.minimum(d + band, 1.0))
            for name, d in distances.items()
        }
        first, *_, last = distances.values()
        fall = first - last
        return Ends.of(
            shown | {"smallest N: distance minus that at the largest": (fall, fall - 2.0 * band, fall + 2.0 * band)}
        )

    def regions_of(self, names: Sequence[str]) -> Sequence[Region]:
        """See ``IntervalRule``."""
        return [(-math.inf, math.inf)] * (len(names) - 2) + [(-math.inf, self.limit), (0.0, math.inf)]

    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """See ``Rule``; samples are shifted until their distance is that of the edge."""
        scores = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
        names = list(scores)
        shape = scores[names[-1]]
        shape = shape - shape.mean()
        error = 0.5 / math.sqrt(shape.size)  # largest standard error of an empirical distribution
        far = _shifted(shape, 0.99)

        def world(first: FloatArray, last: FloatArray) -> dict[str, FloatArray]:
            return {name: last if name == names[-1] else first for name in names}

        return {
            f"edge: distance {self.limit:g} at the end": world(far, _shifted(shape, self.limit)),
            f"false: distance {self.limit + error:.3g} at the end": world(far, _shifted(shape, self.limit + error)),
            "edge: the distance does not fall": world(*[_shifted(shape, 0.5 * self.limit)] * 2),
            "false: the distance rises": world(
                _shifted(shape, 0.5 * self.limit), _shifted(shape, min(0.5 * self.limit + error, 0.9 * self.limit))
            ),
        }

    @property
    def threshold(self) -> str:
        """See ``Rule``."""
        return f"Kolmogorov distance below {self.limit:g}"

    def scaled(self, factor: float) -> Rule:
        """See ``Rule``."""
        return Distance(self.limit * factor)


def _shifted(scores: FloatArray, distance: float) -> FloatArray:
    """Return scores, shifted up so far that their Kolmogorov distance to the standard normal law is ``distance``."""
    low, high = 0.0, 20.0
    if kolmogorov(scores) >= distance:  # too far away by its shape: a normal sample of the same size
        scores = ndtri((np.arange(scores.size) + 0.5) / scores.size)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kolmogorov(scores + middle) < distance else (low, middle)
    return scores + high


def kolmogorov(scores: FloatArray) -> FloatArray:
    """Return the largest distance between the empirical distribution of scores [..., R] and the standard normal.

    >>> float(kolmogorov(np.zeros(1)))
    0.5
    """
    n = scores.shape[-1]
    chances = ndtr(np.sort(scores, axis=-1))
    above = (np.arange(1, n + 1) / n - chances).max(axis=-1)
    return np.asarray(np.maximum(above, (chances - np.arange(n) / n).max(axis=-1)))


@dataclass(frozen=True)
class Shares(IntervalRule):
    """The share of runs that do something exceeds ``least``; samples [R] are 1 for runs that do and 0 for others.

    Attributes
    ----------
    least : float
        Edge of the claim.
    """

    least: float

    smooth = False
    fewest = 1

    @property
    def words(self) -> str:
        """See ``Rule``."""
        return f"Clopper-Pearson intervals of shares of runs, above {self.least:g}; all shares have to be"

    def ends(self, samples: Samples, error: float) -> Ends:
        """See ``IntervalRule``.

        A false claim has a share at the edge or below it, and is reproduced only if the low end of that one share is
        wrong. So low ends have the whole error rate each, and high ends share it.
        """
        found = {}
        for name, values in samples.items():
            runs = np.asarray(values, dtype=np.float64)
            count, those = runs.shape[-1], runs.sum(axis=-1)
            low = np.where(those > 0, betaincinv(np.maximum(those, 1.0), count - those + 1.0, error), 0.0)
            rest = np.maximum(count - those, 1.0)
            high = np.where(those < count, betaincinv(those + 1.0, rest, 1.0 - error / len(samples)), 1.0)
            found[name] = (those / count, low, high)
        return Ends.of(found)

    def regions_of(self, names: Sequence[str]) -> Sequence[Region]:
        """See ``IntervalRule``."""
        return [(self.least, math.inf)] * len(names)

    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """See ``Rule``; populations of 10,000 runs."""
        count = len(np.asarray(next(iter(samples.values()))))
        beyond = math.sqrt(self.least * (1.0 - self.least) / count)
        everyone = np.ones(10_000)

        def population(share: float) -> FloatArray:
            return (np.arange(everyone.size) < share * everyone.size).astype(np.float64)

        return {
            f"{kind}: {name} = {self.least:g}": {
                each: population(share) if each == name else everyone for each in samples
            }
            for name in samples
            for kind, share in (("edge", self.least), ("false", max(self.least - beyond, 0.0)))
        }

    @property
    def threshold(self) -> str:
        """See ``Rule``."""
        return f"shares above {self.least:g}"

    def scaled(self, factor: float) -> Rule:
        """See ``Rule``; the share that may fail is multiplied."""
        return Shares(1.0 - factor * (1.0 - self.least))
