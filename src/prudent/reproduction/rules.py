"""Rules that turn measured data into verdicts: a few types, each a pure function of samples and of an error rate.

Samples are arrays by quantity whose rows are replications. Row r of all of them belongs to replication r, in which all
agents face the same random numbers, so agents are compared within replications. A rule computes a confidence set of
everything that a claim is about, at ``1 - error`` for all quantities together, and compares it with the claim:

    reproduced       the confidence set lies inside what the claim says
    not reproduced   it lies apart from what the claim says
    compatible       neither, and the estimates themselves are as the claim says
    inconclusive     neither, and some estimate is not as the claim says; or the study does not reach the claim's time

A false claim is "reproduced" only if the confidence set misses the truth: with probability at most ``error``, for the
laws that the intervals assume. ``Rule.worlds`` makes worlds of measured data in which the claim is false, or true and
false at once (the edge), so that the error rate of every rule can be measured by simulation (``error_rates``). There
samples have a leading axis of simulated studies, and all of them are judged at once (``Rule.reproduced``).

Types of rules, here and in ``choices`` and ``distributions``:

    Means       means in a region: Student's t intervals with allowance for skewness and rare replications,
                Bonferroni. Paired differences above 0 are an ordering
    Ratios      ratios of means in regions: Fieller's intervals, with the same allowance
    BestOptions the best of several options in each of several groups: sets by multiple comparisons with the best,
                at several looks at growing data, among which the error rate is split
    Distance    Kolmogorov distances to a law: Dvoretzky-Kiefer-Wolfowitz bands
    Shares      shares of runs: Clopper-Pearson bounds
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from ..types import ArrayLike, BoolArray, FloatArray
from .draws import Draw

ERROR = 0.01
"""Largest probability with which a false claim is called reproduced, for one reading of the paper as written."""
POWER = 0.8  # probability of a decision at the size that an undecided verdict names
MOST = 10**9  # replications: a size beyond this is not named
FEWEST = 100
"""Replications below which intervals of means decide nothing.

Where one replication in thirty decides a mean, samples of 30 often miss it and look even: in such a world a claim of
the bandit study was called reproduced in 10% of studies of 30 at its edge, in 2.4% of studies of 60, in 0.7% of studies
of 100 (``error_rates``).
"""

REPEATED = 1
"""How often the most extreme replication is counted once more, in the end of an interval on its side.

Where one replication in a hundred decides a mean, a third of the samples of 100 miss it and look even. With 100
replications a claim of the lake study, under a reading with such replications, was called reproduced in 4.6% of studies
at its edge; with the lowest replication counted twice in 1.6%, and no more often than in 1% with 500 replications
(``error_rates``). No rule can do without: what no replication shows is in no interval.
"""

Samples: TypeAlias = Mapping[str, ArrayLike]
"""Samples [R] or [R, k] by quantity; rows are replications."""
Region: TypeAlias = tuple[float, float]
"""What a claim says of a quantity: it lies strictly between two numbers."""


class Verdict(StrEnum):
    """What became of a claim, in the order of lists: what does not reproduce comes first."""

    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive at this scale"
    COMPATIBLE = "compatible"
    REPRODUCED_WHEN = "reproduced when"  # under another reading than as written
    REPRODUCED = "reproduced"

    @property
    def rank(self) -> int:
        """Place in lists of claims."""
        return list(Verdict).index(self)

    @property
    def undecided(self) -> bool:
        """Whether more data could change the verdict."""
        return self in (Verdict.INCONCLUSIVE, Verdict.COMPATIBLE)


@dataclass(frozen=True)
class Interval:
    """A measured quantity with its interval.

    Attributes
    ----------
    quantity : str
        What is measured.
    estimate : float
        Its value.
    low, high : float or None
        Ends of the interval; None for an exact value.
    """

    quantity: str
    estimate: float
    low: float | None = None
    high: float | None = None

    def side(self, region: Region) -> int:
        """Return 1 if the interval lies inside the region, -1 if it lies apart from it, else 0.

        Examples
        --------
        >>> Interval("x", 1.0, 0.5, 1.5).side((0.0, 2.0)), Interval("x", 1.0, 0.5, 1.5).side((1.0, 2.0))
        (1, 0)
        """
        low = self.estimate if self.low is None else self.low
        high = self.estimate if self.high is None else self.high
        if region[0] < low and high < region[1]:
            return 1
        return -1 if high < region[0] or low > region[1] else 0


class Finding(NamedTuple):
    """What was measured under one reading of the paper.

    Attributes
    ----------
    intervals : sequence of Interval
        The measured quantities.
    verdict : Verdict
        The verdict.
    decisive : int
        Index of the interval that decides.
    needed : int or None
        Replications that would decide with a probability of 80% if the estimates were the truth; None for a verdict
        that is decided, and where no number of replications would do.
    """

    intervals: Sequence[Interval]
    verdict: Verdict
    decisive: int = 0
    needed: int | None = None


class Rule(ABC):
    """A rule: a pure function of samples and of an error rate to a verdict.

    Attributes
    ----------
    smooth : bool
        Whether the samples are numbers that a normal law can be fitted to.
    multiples : tuple of int
        Sizes at which growing data is looked at, in multiples of the first.
    """

    smooth: ClassVar[bool] = True
    multiples: tuple[int, ...] = (1,)

    @property
    @abstractmethod
    def words(self) -> str:
        """How the rule decides, in words."""

    @abstractmethod
    def judge(self, samples: Samples, error: float = ERROR) -> Finding:
        """Return the verdict on samples, with a probability of at most ``error`` that a false claim is reproduced.

        Parameters
        ----------
        samples : mapping of str to array-like
            Samples by quantity.
        error : float, default=0.01
            Error rate.

        Returns
        -------
        Finding
            Measured quantities and the verdict.
        """

    @abstractmethod
    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """Return worlds in which the claim is false, made of measured samples.

        Parameters
        ----------
        samples : mapping of str to array-like
            Measured samples.

        Returns
        -------
        dict of str to dict
            Populations to draw from, by a name that begins with ``"edge"`` or ``"false"``. At the edge one quantity
            lies where the claim ends to be true; in false worlds it lies one standard error of the study beyond. All
            other quantities are as the claim says, clearly: this is where errors are most likely.
        """

    @abstractmethod
    def reproduced(self, draw: Draw, names: Sequence[str], studies: int, first: int, error: float) -> BoolArray:
        """Return which of several simulated studies call the claim reproduced, as ``judge`` does of their samples.

        Parameters
        ----------
        draw : Draw
            Draws further replications of all studies.
        names : sequence of str
            The quantities.
        studies : int
            Number of studies.
        first : int
            Replications at the first look.
        error : float
            Error rate.

        Returns
        -------
        ndarray of bool
            For each study.
        """

    def undecided(self, samples: Samples, error: float = ERROR) -> list[str]:
        """Return the quantities of which a further look would need more replications; none with a single look."""
        return []

    @property
    def threshold(self) -> str:
        """Our own threshold, in words; empty if the rule has none."""
        return ""

    def scaled(self, factor: float) -> Rule:
        """Return the rule with our own threshold multiplied by ``factor``; the same rule if it has none."""
        return self


# -- intervals ---------------------------------------------------------------------------------------------


def mean_intervals(samples: Samples, error: float = ERROR) -> list[Interval]:
    """Return the means of samples [R] with intervals that hold together at ``1 - error`` (Bonferroni).

    Student's t, made wider on the side of the longer tail by Hall's transformation, which allows for skewness, and with
    the most extreme replication on each side counted twice for the end there: where rare replications decide a mean,
    most samples miss some of them. Samples without any spread have intervals without ends.

    Parameters
    ----------
    samples : mapping of str to array-like
        Samples by quantity.
    error : float, default=0.01
        Error rate of all intervals together.

    Returns
    -------
    list of Interval
        The intervals.

    Examples
    --------
    >>> (interval,) = mean_intervals({"x": [1.0, 2.0, 3.0]}, 0.05)
    >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
    (2.0, -0.628, 4.628)
    """
    return mean_ends(samples, error).intervals()


class Ends(NamedTuple):
    """Simultaneous intervals of one study, or of several at once.

    Attributes
    ----------
    names : sequence of str
        The quantities.
    estimates, lows, highs : ndarray
        Estimates and ends of intervals [..., quantities].
    """

    names: Sequence[str]
    estimates: FloatArray
    lows: FloatArray
    highs: FloatArray

    @classmethod
    def of(cls, ends: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]]) -> Ends:
        """Return intervals that were found one quantity after the other."""
        estimates, lows, highs = (np.stack(each, axis=-1) for each in zip(*ends.values(), strict=True))
        return cls(list(ends), estimates, lows, highs)

    def intervals(self) -> list[Interval]:
        """Return the intervals of a single study."""
        columns = (self.estimates.tolist(), self.lows.tolist(), self.highs.tolist())
        return [Interval(*each) for each in zip(self.names, *columns, strict=True)]


def mean_ends(samples: Samples, error: float) -> Ends:
    """Return the intervals of ``mean_intervals``, of samples [R] or [studies, R]."""
    level = 0.5 * error / len(samples)
    return Ends.of({name: _mean_ends(np.asarray(values, dtype=np.float64), level) for name, values in samples.items()})


def _mean_ends(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the means of samples [..., R], and the ends of their intervals, each at ``level``.

    Hall (1992): with skewness g and n rows, T + g (2 T^2 + 1) / (6 sqrt n) + g^2 T^3 / (27 n) is closer to normal than
    Student's T. It rises in T, and its inverse at the quantiles gives the interval. The low end is that of the sample
    with ``REPEATED`` more rows like its lowest, the high end that with as many more like its highest.
    """
    count = values.shape[-1]
    means = values.mean(axis=-1)
    if count < 2:
        return means, np.full_like(means, -np.inf), np.full_like(means, np.inf)
    centred = values - means[..., np.newaxis]
    lowest, highest = centred.min(axis=-1), centred.max(axis=-1)
    none = highest - lowest <= 1e-12 * np.maximum(np.abs(means + lowest), np.abs(means + highest))
    powers = centred * centred
    second = powers.sum(axis=-1)
    powers *= centred
    third = powers.sum(axis=-1)
    rows, quantile = count + REPEATED, float(stdtrit(count - 1, 1.0 - level))
    root = math.sqrt(count)  # of what was measured
    ends = []
    for sign, extreme in ((1.0, lowest), (-1.0, highest)):  # T at its high quantile is the low end
        shift = REPEATED * extreme / rows
        apart = extreme - shift
        sd = np.sqrt((second + count * shift**2 + REPEATED * apart**2) / (rows - 1.0))
        cubes = third - 3.0 * shift * second - count * shift**3 + REPEATED * apart**3
        skew = cubes / rows / (np.where(none, 1.0, sd) ** 3 * root)
        some = np.abs(skew) > 1e-9
        inner = 1.0 + skew * (sign * quantile - skew / 6.0)
        hall = sign * 3.0 / np.where(some, skew, 1.0) * (np.cbrt(inner) - 1.0)
        reach = np.where(some, np.maximum(hall, quantile), quantile)
        ends.append(means + shift - sign * np.where(none, np.inf, reach * sd / root))
    return means, ends[0], ends[1]


def ratio_interval(quantity: str, above: ArrayLike, below: ArrayLike, error: float = ERROR) -> Interval:
    """Return the interval of a ratio of means.

    Fieller's interval holds all r for which the mean of ``above - r below`` may be zero; it has no ends if the mean of
    ``below`` may be zero. Each end is the farther one of Fieller's and of the delta method with allowance for skewness
    (``mean_intervals``).

    Parameters
    ----------
    quantity : str
        What is measured.
    above, below : array-like
        Samples [R].
    error : float, default=0.01
        Error rate.

    Returns
    -------
    Interval
        The interval.

    Examples
    --------
    >>> found = ratio_interval("x", [2.0, 4.1, 5.9], [1.0, 2.0, 3.0], 0.05)
    >>> round(found.estimate, 2), found.low < 2.0 < found.high
    (2.0, True)
    """
    ends = _ratio_ends(np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64), error)
    return Ends.of({quantity: ends}).intervals()[0]


def _ratio_ends(top: FloatArray, bottom: FloatArray, error: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the ratios of means of samples [..., R], and the ends of their intervals."""
    mean, base, count = top.mean(axis=-1), bottom.mean(axis=-1), top.shape[-1]
    ratio = np.divide(mean, base, out=np.full_like(mean, np.nan), where=base != 0.0)
    if count < 2:
        return ratio, np.full_like(ratio, -np.inf), np.full_like(ratio, np.inf)
    square = float(stdtrit(count - 1, 1.0 - 0.5 * error)) ** 2 / count
    above, below = top - mean[..., np.newaxis], bottom - base[..., np.newaxis]
    vaa, vab, vbb = (
        square * (one * other).sum(axis=-1) / (count - 1.0)
        for one, other in ((above, above), (above, below), (below, below))
    )
    lead, middle = base * base - vbb, mean * base - vab
    ends = (base > 0.0) & (lead > 0.0)
    safe, scale = np.where(ends, lead, 1.0), np.where(ends, base, 1.0)
    root = np.sqrt(np.maximum(middle * middle - lead * (mean * mean - vaa), 0.0))
    residual = (above - np.where(ends, ratio, 0.0)[..., np.newaxis] * below) / scale[..., np.newaxis]
    _, low, high = _mean_ends(residual, 0.5 * error)
    lows = np.where(ends, np.minimum(ratio + low, (middle - root) / safe), -np.inf)
    highs = np.where(ends, np.maximum(ratio + high, (middle + root) / safe), np.inf)
    return ratio, lows, highs


def inside(intervals: Sequence[Interval], regions: Sequence[Region], count: int, error: float = ERROR) -> Finding:
    """Return the finding on the claim that every quantity lies in its region.

    Parameters
    ----------
    intervals : sequence of Interval
        Simultaneous intervals.
    regions : sequence of tuple
        What the claim says of each of them.
    count : int
        Replications that were measured.
    error : float, default=0.01
        Error rate of all intervals together.

    Returns
    -------
    Finding
        The finding. The interval nearest to leaving its region decides or, if the claim fails, the one farthest out.

    Examples
    --------
    >>> found = inside([Interval("x", 1.0, 0.5, 1.5), Interval("y", 1.0, -0.5, 2.5)], [(0.0, math.inf)] * 2, 50)
    >>> str(found.verdict), found.decisive, found.needed
    ('compatible', 1, 191)
    """
    sides = [interval.side(region) for interval, region in zip(intervals, regions, strict=True)]
    margins = [_margin(interval, region) for interval, region in zip(intervals, regions, strict=True)]
    if min(sides) < 0:
        return Finding(intervals, Verdict.NOT_REPRODUCED, int(np.argmin(margins)))
    if min(sides) > 0:
        return Finding(intervals, Verdict.REPRODUCED, int(np.argmin(margins)))
    agree = min(margins) > 0.0
    # how many half widths an interval must be away from the edge for a decision in four of five studies
    reach = 1.0 + float(ndtri(POWER) / ndtri(1.0 - 0.5 * error / len(intervals)))
    sizes = [count * (reach / margin) ** 2 if margin else math.inf for margin in margins]
    wanted = (
        max(size for size, side in zip(sizes, sides, strict=True) if not side)
        if agree
        else min(size for size, margin in zip(sizes, margins, strict=True) if not margin > 0.0)
    )
    verdict = Verdict.COMPATIBLE if agree else Verdict.INCONCLUSIVE
    return Finding(intervals, verdict, int(np.argmin(margins)), size_of(wanted))


def _margin(interval: Interval, region: Region) -> float:
    """Return how far an estimate lies inside a region, in half widths of its interval; negative if it lies outside."""
    estimate, (lowest, highest) = interval.estimate, region
    if math.isnan(estimate) or interval.low is None or interval.high is None:
        return math.nan if math.isnan(estimate) else math.copysign(math.inf, interval.side(region))
    below, above = estimate - interval.low, interval.high - estimate
    gaps = [
        distance / half if half else math.copysign(math.inf, distance)
        for distance, half in (
            (estimate - lowest, below if estimate > lowest else above),
            (highest - estimate, above if estimate < highest else below),
        )
        if not math.isinf(distance)
    ]
    return min(gaps, default=math.inf)


def size_of(wanted: float) -> int | None:
    """Return a number of replications as a whole number; None if it is beyond reach."""
    return math.ceil(wanted) if wanted <= MOST else None


class IntervalRule(Rule):
    """A rule by simultaneous intervals: every quantity lies in its region.

    Attributes
    ----------
    fewest : int
        Replications below which the intervals decide nothing.
    """

    fewest: ClassVar[int] = FEWEST

    @abstractmethod
    def ends(self, samples: Samples, error: float) -> Ends:
        """Return the intervals, at ``1 - error`` together; samples may have a leading axis of studies."""

    @abstractmethod
    def regions_of(self, names: Sequence[str]) -> Sequence[Region]:
        """Return the regions of the quantities that ``ends`` names."""

    def judge(self, samples: Samples, error: float = ERROR) -> Finding:
        """See ``Rule``."""
        found = self.ends(samples, error)
        count = len(np.asarray(next(iter(samples.values()))))
        finding = inside(found.intervals(), self.regions_of(found.names), count, error)
        if count >= self.fewest or finding.verdict is Verdict.INCONCLUSIVE:
            return finding
        agree = finding.verdict in (Verdict.REPRODUCED, Verdict.COMPATIBLE)
        verdict = Verdict.COMPATIBLE if agree else Verdict.INCONCLUSIVE
        return finding._replace(verdict=verdict, needed=max(finding.needed or 0, self.fewest))

    def reproduced(self, draw: Draw, names: Sequence[str], studies: int, first: int, error: float) -> BoolArray:
        """See ``Rule``; the same comparison as ``Interval.side``."""
        if first < self.fewest:
            return np.zeros(studies, dtype=np.bool_)
        found = self.ends(draw.replications(names, np.arange(studies), first), error)
        lowest, highest = np.transpose(self.regions_of(found.names))
        return np.asarray(((found.lows > lowest) & (found.highs < highest)).all(axis=-1))


# -- means and ratios --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Means(IntervalRule):
    """The means of all samples [R] lie in one region; paired differences above 0 are an ordering of means.

    Attributes
    ----------
    low, high : float
        Ends of the region.
    """

    low: float = 0.0
    high: float = math.inf

    @property
    def words(self) -> str:
        """See ``Rule``."""
        above = "" if self.low == 0.0 and math.isinf(self.high) else f" in ({self.low:g}, {self.high:g})"
        return (
            f"paired Student t intervals of means{above} with allowance for skewness and rare replications, "
            "all of them together (Bonferroni)"
        )

    def ends(self, samples: Samples, error: float) -> Ends:
        """See ``IntervalRule``."""
        return mean_ends(samples, error)

    def regions_of(self, names: Sequence[str]) -> Sequence[Region]:
        """See ``IntervalRule``."""
        return [(self.low, self.high)] * len(names)

    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """See ``Rule``."""
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
        centred = {name: np.asarray(values - values.mean()) for name, values in arrays.items()}
        spread = {name: float(values.std(ddof=1)) or 1.0 for name, values in centred.items()}
        ends = [(end, sign) for end, sign in ((self.low, -1.0), (self.high, 1.0)) if math.isfinite(end)]

        def deep(name: str) -> float:
            if len(ends) == 2:
                return 0.5 * (self.low + self.high)
            return ends[0][0] - 1e3 * ends[0][1] * spread[name]

        worlds = {}
        for name, (end, sign) in itertools.product(samples, ends):
            beyond = sign * spread[name] / math.sqrt(centred[name].size)
            for kind, mean in (("edge", end), ("false", end + beyond)):
                worlds[f"{kind}: {name} = {end:g}"] = {
                    each: values + (mean if each == name else deep(each)) for each, values in centred.items()
                }
        return worlds


@dataclass(frozen=True)
class Ratios(IntervalRule):
    """Ratios of means lie in regions; samples are [R, 2], above and below.

    Attributes
    ----------
    regions : tuple of tuple
        Region of each ratio.
    factor : float or None
        The factor, if each region is what lies within a factor of a value (``near``).
    """

    regions: tuple[Region, ...]
    factor: float | None = None

    @classmethod
    def near(cls, values: Sequence[float], factor: float) -> Ratios:
        """Return the rule that each ratio lies within a factor of its value."""
        return cls(tuple((value / factor, value * factor) for value in values), factor)

    @property
    def words(self) -> str:
        """See ``Rule``."""
        within = f", within a factor {self.factor:.3g}" if self.factor else ""
        return (
            "Fieller's intervals of ratios of means with allowance for skewness and rare replications, "
            f"all together (Bonferroni){within}"
        )

    def ends(self, samples: Samples, error: float) -> Ends:
        """See ``IntervalRule``."""
        pairs = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
        each = error / len(pairs)
        return Ends.of({name: _ratio_ends(pair[..., 0], pair[..., 1], each) for name, pair in pairs.items()})

    def regions_of(self, names: Sequence[str]) -> Sequence[Region]:
        """See ``IntervalRule``."""
        return self.regions

    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """See ``Rule``; what is above the line is multiplied."""
        pairs = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
        ratios = {name: float(values[:, 0].mean() / values[:, 1].mean()) for name, values in pairs.items()}

        def deep(low: float, high: float) -> float:
            if low > 0.0:
                return math.sqrt(low * high) if math.isfinite(high) else 100.0 * low
            return 0.01 * high

        def at(name: str, ratio: float) -> FloatArray:
            return pairs[name] * (ratio / ratios[name], 1.0)

        worlds = {}
        for name, region in zip(pairs, self.regions, strict=True):
            for end, sign in zip(region, (-1.0, 1.0), strict=True):
                if not math.isfinite(end) or end <= 0.0:
                    continue
                edge = at(name, end)
                beyond = float(np.std(edge[:, 0] - end * edge[:, 1], ddof=1) / edge[:, 1].mean()) / math.sqrt(len(edge))
                for kind, ratio in (("edge", end), ("false", max(end + sign * beyond, 0.5 * end))):
                    worlds[f"{kind}: {name} = {end:.4g}"] = {
                        each: at(each, ratio if each == name else deep(*other))
                        for each, other in zip(pairs, self.regions, strict=True)
                    }
        return worlds

    @property
    def threshold(self) -> str:
        """See ``Rule``; a lower end such as 1 is what a claim says, and not ours."""
        if self.factor is not None:
            return f"within a factor {self.factor:.3g}"
        highest = self.regions[0][1]
        return f"below {highest:g}" if math.isfinite(highest) else ""

    def scaled(self, factor: float) -> Rule:
        """See ``Rule``; a region around a value is scaled in its logarithm, another one in its upper end."""
        if self.factor is not None:
            return Ratios.near([math.sqrt(low * high) for low, high in self.regions], self.factor**factor)
        return replace(self, regions=tuple((low, high * factor) for low, high in self.regions))
