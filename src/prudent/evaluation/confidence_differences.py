r"""Intervals for the difference of two arms that may be looked at after every reward.

A player bets on both arms at once. The capital is the product of those against candidates u and v of the two means, or
a mixture of such products: it is a supermartingale at the true means however the arms are assigned, if the assignment
depends on the past alone. All pairs (u, v) whose capital is below 1/delta are a confidence set, and the interval is the
set of their differences u - v.

``normal``
    Bets (l_1, l_0) ~ Normal(0, C), C = (1/rho) [[1, -k], [-k, 1]] in units of the sds s_i, k = 0.8: mostly against each
    other, because that is what a difference is decided by. With V = diag(n_1, n_0) the set is an ellipse, and

        half length^2 = (2 log(1/delta) + log det(1 + C V)) (c' N^-1 (V + C^-1) N^-1 c),   c = (s_1, -s_0), N = V.

    rho = planned / 4. With the sds given this holds for sub-Gaussian rewards at every n. Without them, the variances of
    the rewards take their place, and the first factor R becomes f (exp(R / f) - 1), f = min(n_1, n_0) - 1, as for a t
    distribution: right asymptotically (Waudby-Smith and others, 2024), and by simulation also early.

``bernstein``
    The bets of ``prudent.evaluation.confidence_sequences`` on y = x - u for the first arm and on
    v - x for the second, J sizes each. The mixture has 3/4 of its weight on bets of equal size and 1/4 on all pairs of
    sizes. The product of both capitals is bounded from below over each interval between neighbouring candidates, where
    the one capital falls and the other rises, so the grid loses a little width and no confidence.
"""

from __future__ import annotations

import math

import numpy as np

from .._support.checks import one_of, open_probability
from ..types import ArrayLike, FloatArray
from .confidence import bounded_number, checked_range, in_unit, planned_of, require_inside, reward_array
from .confidence_sequences import Sums, bet_sizes, log_capitals

KINDS = ("bernstein", "normal")
_TOGETHER = 0.8  # k: how much the bets are against each other
_EQUAL = 0.75  # weight of bets of equal size on both arms
_LOCAL = 400  # candidates near the means, and as many over the whole range
_STEPS = 40  # of bisection


class DifferenceSequence:
    """An interval for the difference of the means of two arms that holds at all times together.

    Parameters
    ----------
    kind : {"normal", "bernstein"}, default="normal"
        What the interval rests on: normal tails, or a known range of rewards.
    value_range : pair of float, optional
        Lowest and highest possible reward, for ``"bernstein"``.
    sd : float, optional
        For ``"normal"``: a bound on the sub-Gaussian sd of a reward; half the length of their range is one. By default
        the sds are learned, and the interval is asymptotic.
    confidence : float, default=0.95
        Confidence of all intervals together, in (0, 1).
    planned : int, optional
        Number of rewards of each arm at which the interval should be narrowest; it holds at other numbers too. The
        default is 100 for ``"normal"``, and no number in particular for ``"bernstein"``.

    Raises
    ------
    ParameterError
        If an argument is out of range, missing or does not suit `kind`.

    See Also
    --------
    ConfidenceSequence : For one mean, and by importance weights for the difference of two policies.

    Examples
    --------
    >>> import numpy as np
    >>> from prudent.evaluation import DifferenceSequence
    >>> rng = np.random.default_rng(1)
    >>> found = DifferenceSequence(sd=1.0)
    >>> found = found.update(1, rng.normal(0.5, 1.0, 300)).update(0, rng.normal(0.0, 1.0, 300))
    >>> found.counts, found.interval()[0] > 0.0
    ((300, 300), True)
    """

    def __init__(
        self,
        kind: str = "normal",
        *,
        value_range: ArrayLike | None = None,
        sd: float | None = None,
        confidence: float = 0.95,
        planned: int | None = None,
    ) -> None:
        self._kind = one_of(kind, "kind", KINDS)
        self._range = checked_range(kind, value_range, sd)
        self._sd = None if sd is None else bounded_number(sd, "sd")
        self._confidence = open_probability(confidence, "confidence")
        self._planned = planned_of(kind, planned)
        self._sums = np.zeros((2, 3))  # arm 0 and arm 1: number, sum and sum of squares
        self._origin = math.nan

    def update(self, arm: int, values: ArrayLike) -> DifferenceSequence:
        """Take rewards of an arm.

        Parameters
        ----------
        arm : {0, 1}
            The arm; the difference is that of arm 1 to arm 0.
        values : array_like
            A reward, or rewards [N].

        Returns
        -------
        DifferenceSequence
            Itself.

        Raises
        ------
        DataError
            If a reward is outside the range; nothing is learned then.
        """
        arm = int(one_of(arm, "arm", (0, 1)))
        x = reward_array(values)
        if not x.size:
            return self
        if self._kind == "normal":
            if math.isnan(self._origin):
                self._origin = float(x[0])
            unit = x - self._origin
        else:
            require_inside(x, self._range)
            unit = in_unit(x, self._range)
        self._sums[arm] += [x.size, unit.sum(), (unit * unit).sum()]
        return self

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of rewards of arm 0 and of arm 1."""
        return int(self._sums[0, 0]), int(self._sums[1, 0])

    @property
    def difference(self) -> float:
        """Estimate of the difference; NaN without rewards of both arms."""
        if not self._sums[:, 0].all():
            return math.nan
        means = self._sums[:, 1] / self._sums[:, 0]
        return float(means[1] - means[0]) * self._range[1]

    def interval(self) -> tuple[float, float]:
        """Return the interval for the difference of arm 1 to arm 0.

        Returns
        -------
        tuple of float
            Lower and upper limit; infinite, or the length of the range, while nothing is known.
        """
        if self._kind == "normal":
            if not self._sums[:, 0].all():
                return -math.inf, math.inf
            n, first, second = self._sums.T
            variance = np.maximum(second / n - (first / n) ** 2, 0.0)
            half = float(difference_widths(n[1], n[0], variance[1], variance[0], self._sd, self._confidence,
                                           self._planned or 100))  # fmt: skip
            return self.difference - half, self.difference + half
        span = self._range[1]
        low = _lower(self._sums[1], self._sums[0], self._confidence, self._planned)
        high = -_lower(self._sums[0], self._sums[1], self._confidence, self._planned)
        return span * low, span * high

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"DifferenceSequence({self._kind!r}, counts={self.counts}, interval=({low:.6g}, {high:.6g}))"


def difference_widths(
    n: ArrayLike,
    others: ArrayLike,
    variance: ArrayLike,
    others_variance: ArrayLike,
    sd: float | None,
    confidence: float,
    planned: int,
) -> FloatArray:
    """Return half the lengths of ``normal`` intervals after so many rewards of both arms.

    >>> round(float(difference_widths(63, 63, 1.0, 1.0, 1.0, 0.95, 63)), 2)
    0.56
    """
    n, m = np.asarray(n, dtype=float), np.asarray(others, dtype=float)
    rho = planned / 4.0
    rest = 1.0 - _TOGETHER**2
    precision = rho / rest  # C^-1 = precision [[1, k], [k, 1]]
    determinant = (1.0 + n / rho) * (1.0 + m / rho) - _TOGETHER**2 * n * m / rho**2
    goal = np.log(determinant) - 2.0 * math.log(1.0 - confidence)
    one, two = (sd, sd) if sd is not None else (np.sqrt(variance), np.sqrt(others_variance))
    if sd is None:
        freedom = np.minimum(n, m) - 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            known = (freedom > 0.0) & (np.minimum(variance, others_variance) > 0.0)
            goal = np.where(known, freedom * np.expm1(np.minimum(goal / freedom, 700.0)), np.inf)
    spread = one**2 * (n + precision) / n**2 + two**2 * (m + precision) / m**2
    spread = spread - 2.0 * _TOGETHER * precision * one * two / (n * m)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(goal), np.inf, np.sqrt(goal * spread)))


def _lower(better: FloatArray, worse: FloatArray, confidence: float, planned: int | None) -> float:
    """Return the lower limit of the difference of two means in [0, 1], by ``bernstein``."""
    if not (better[0] and worse[0]):
        return -1.0
    shares, weights = bet_sizes(confidence, None if planned is None else 4 * planned)  # smaller bets than for one mean
    goal = math.log(2.0 / (1.0 - confidence))
    points = _candidates(better, worse)
    up = bet_capitals(better, points, shares, 1.0)  # [J, P] against u: they fall as u rises
    down = bet_capitals(worse, points, shares, -1.0)  # against v: they rise
    up = np.maximum.accumulate(up[:, ::-1], axis=1)[:, ::-1]
    down = np.maximum.accumulate(down, axis=1)

    column = weights[:, np.newaxis]
    one, two = np.logaddexp.reduce(up + column, axis=0), np.logaddexp.reduce(down + column, axis=0)

    def refuted(d: float) -> bool:
        """Return whether all pairs with the difference d have a capital of 1/delta."""
        # v between two candidates: the first bounds the capital against v, and the next one above v + d that against u
        v, top = points[:-1], points[1:] + d
        k = np.flatnonzero((top >= 0.0) & (v + d <= 1.0))  # pairs of which some are in the range
        ends = np.minimum(np.searchsorted(points, top[k]), points.size - 1)
        left = one[ends] + two[k] < goal - math.log1p(-_EQUAL)  # the bets of all pairs of sizes do not suffice
        return bool((pair_capital(up[:, ends[left]], down[:, k[left]], weights) >= goal).all())

    estimate = float(better[1] / better[0] - worse[1] / worse[0])
    if not refuted(-1.0):
        return -1.0
    low, high = -1.0, estimate
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _candidates(better: FloatArray, worse: FloatArray) -> FloatArray:
    """Return candidates of a mean: over the whole range, and close to each other near both means."""
    points = [np.sin(np.linspace(0.0, 0.5 * math.pi, _LOCAL)) ** 2]
    for n, first, second in (better, worse):
        mean = first / n
        reach = 8.0 * (math.sqrt(max(second / n - mean * mean, 0.0) / n) + 2.0 / n)
        points.append(np.clip(np.linspace(mean - reach, mean + reach, _LOCAL), 0.0, 1.0))
    return np.unique(np.concatenate(points))


def bet_capitals(sums: FloatArray, m: FloatArray, bets: FloatArray, sign: float) -> FloatArray:
    """Return the logarithms of the capitals [J, P] of single bets against candidates [P], from sums [3] or [3, P]."""
    n, first, second = sums
    return log_capitals(Sums(first - n * m, second - 2.0 * m * first + n * m * m, -m, 1.0 - m, n), bets, sign)


def pair_capital(up: FloatArray, down: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the logarithm of the mixture [P] of the capitals [J, P] against pairs of means."""
    column = weights[:, np.newaxis]
    pairs = np.logaddexp.reduce(up + column, axis=0) + np.logaddexp.reduce(down + column, axis=0)
    equal = np.logaddexp.reduce(up + down + column, axis=0)
    return np.asarray(np.logaddexp(pairs + math.log1p(-_EQUAL), equal + math.log(_EQUAL)))
