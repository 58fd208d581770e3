r"""Intervals for a mean that may be looked at after every reward: confidence sequences of four kinds of knowledge.

An interval of a confidence sequence holds at all numbers of rewards together with the given confidence, so that an
experiment may be stopped, extended or looked at whenever somebody likes. Each kind is a capital K_n(m) that a player
has who bets against the mean m: at the true mean it is a non-negative supermartingale with K_0 = 1, so by Ville's
inequality it ever reaches 1/delta with probability at most delta = 1 - confidence. The interval is the set of all m
with K_n(m) < 1/delta.

``bernstein``, rewards in a known range
    The mixture of empirical Bernstein bets of ``prudent.evaluation.confidence_sequences``. Its state is five sums, its
    width adapts to the variance. With importance weights w_i = pi(a_i) / p_i of another policy pi, at most W, the same
    bets are made on y_i(m) = w_i (x_i - m), or for the difference to a second policy with the weights v_i on y_i(m) =
    (w_i - v_i)(x_i - c) - m, c the middle of the range: their mean is zero given the past, because E[w_i] = E[v_i] = 1.

``betting``, rewards in a known range, a few hundred of them
    The capital itself, K_n(m) = sum_j q_j prod_i (1 + lambda_j(m)(x_i - m)), on a grid of m, with a fixed mixture of
    bets in place of one that is learned. It is narrower than ``bernstein`` for few rewards and takes memory for the
    grid. K falls in m, so what is refuted at a point of the grid is refuted below it.

``normal`` with an sd, sub-Gaussian rewards
    E[exp(l (x - mu))] <= exp(l^2 sd^2 / 2): normal rewards with this sd, or rewards in a range of the length 2 sd.
    Bets l ~ Normal(0, 1 / (rho sd^2)) give half the length sd sqrt((n + rho) log((n + rho) / (rho delta^2))) / n.

``normal`` without an sd
    Right-Haar prior on the sd and Normal(0, 1/rho) on the mean over the sd:
    K_n(m) = sqrt(rho / (n + rho)) ((s^2 + d^2) / (s^2 + d^2 rho / (n + rho)))^(n/2), d = mean - m, s^2 the variance of
    the n rewards. It is exact for normal rewards with an unknown sd, and for others with a finite variance right
    asymptotically: the interval becomes that of Waudby-Smith and others (2024) with a t correction. While all rewards
    are equal it is infinite. It is not for rare or skewed rewards: with 1% of clicks the first hundred say little about
    the variance. ``bernstein`` is right for these.

rho is chosen for the narrowest interval at ``planned`` rewards, rho = planned / (a + log(1 + a)), a = -2 log delta.

References
----------
Robbins (1970), Statistical methods related to the law of the iterated logarithm.
Howard, Ramdas, McAuliffe, Sekhon (2021), Time-uniform, nonparametric, nonasymptotic confidence sequences.
Waudby-Smith, Ramdas (2024), Estimating means of bounded random variables by betting.
Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (2024), Time-uniform central limit theory and asymptotic confidence
sequences.
Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro (2024), Anytime-valid off-policy inference for contextual bandits.
Wang, Ramdas (2025), Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support.checks import (
    finite_array,
    finite_number,
    flag,
    one_of,
    open_probability,
    positive,
    refuse,
    require_shape,
    whole_number,
)
from .._support.notices import warn_caller
from ..errors import CautionWarning, DataError, ParameterError
from ..types import ArrayLike, FloatArray
from .confidence_sequences import Sums, bet_sizes, limits_of_sums, log_capital

KINDS = ("bernstein", "betting", "normal")
LARGEST = 1e75  # absolute value of a reward
PLANNED = {"bernstein": None, "betting": 1000, "normal": 100}  # if nothing is said
_GRID = np.sin(np.linspace(0.0, 0.5 * math.pi, 257)) ** 2  # candidates of betting, dense near the ends of the range
_LARGEST_BET = 0.95  # share of the largest bet that cannot lose more than all
_STRONGEST = 16.0  # bet of ``betting`` on a reward in [0, 1]
_FAR = 1e100  # from an estimate; what is further away is refuted no less
_ROWS = 4096  # intervals that are computed together


class ConfidenceSequence:
    """An interval for a mean that holds at all times together, from rewards that come one by one.

    Rewards may depend on what was seen before, as in a bandit that learns. The state is small and does not grow.

    Parameters
    ----------
    kind : {"bernstein", "betting", "normal"}, default="bernstein"
        What the interval rests on: a known range of rewards, or normal tails. ``"betting"`` is narrower than
        ``"bernstein"`` for a few hundred rewards.
    value_range : pair of float, optional
        Lowest and highest possible reward, for ``"bernstein"`` and ``"betting"``.
    sd : float, optional
        For ``"normal"``: a bound on the sub-Gaussian sd; half the length of the range of rewards is one. By default
        it is learned; the interval is then exact for normal rewards and asymptotic for others.
    largest_weight : float, default=1
        With importance weights: the largest possible one, 1 over the smallest propensity. Only ``"bernstein"``.
    relative : bool, default=False
        With importance weights: the interval is for how much more the policy earns than another one whose weights are
        `baseline` of ``update``; 1 is the policy that acted.
    confidence : float, default=0.95
        Confidence of all intervals together, in (0, 1).
    planned : int, optional
        Number of rewards at which the interval should be narrowest; it holds at other numbers too. The default is 100
        for ``"normal"``, 1,000 for ``"betting"``, and for ``"bernstein"`` no number in particular.

    Attributes
    ----------
    count : int
        Number of rewards.

    Raises
    ------
    ParameterError
        If an argument is out of range, missing or does not suit `kind`.

    See Also
    --------
    DifferenceSequence : For the difference of two arms.
    confidence_sequence : The intervals after each row of an array.

    Examples
    --------
    >>> from prudent.evaluation import ConfidenceSequence
    >>> clicks = ConfidenceSequence("bernstein", value_range=(0.0, 1.0))
    >>> clicks.update([0.0, 1.0, 0.0, 0.0] * 250).count
    1000
    >>> [round(end, 2) for end in clicks.interval()]
    [0.2, 0.3]
    >>> clicks.evidence(0.5) > 20  # 0.5 is refuted at 95%
    True
    """

    def __init__(
        self,
        kind: str = "bernstein",
        *,
        value_range: ArrayLike | None = None,
        sd: float | None = None,
        largest_weight: float = 1.0,
        relative: bool = False,
        confidence: float = 0.95,
        planned: int | None = None,
    ) -> None:
        self._kind = one_of(kind, "kind", KINDS)
        self._range = checked_range(kind, value_range, sd)
        self._sd = None if sd is None else bounded_number(sd, "sd")
        self._confidence = open_probability(confidence, "confidence")
        self._planned = planned_of(kind, planned)
        self._weight, self._relative = bounded_number(largest_weight, "largest_weight"), flag(relative, "relative")
        if (self._weight != 1.0 or self._relative) and kind != "bernstein":
            text = f"largest_weight and relative are for kind='bernstein', got {kind!r}"
            raise ParameterError(text, code="conflicting-arguments", argument="largest_weight")
        self.count = 0
        self._sums = np.zeros(5)  # of b, a, b^2, a b, a^2, where y(m) = a - b m
        if kind == "betting":
            self._bets = Bets(self._confidence, self._planned)
            self._capital = np.zeros((2, *self._bets.up.shape))

    # -- learning ------------------------------------------------------------------------------------------

    def update(
        self, values: ArrayLike, weights: ArrayLike | None = None, *, baseline: ArrayLike = 1.0
    ) -> ConfidenceSequence:
        """Take one reward or several.

        Parameters
        ----------
        values : array_like
            A reward, or rewards [N].
        weights : array_like, optional
            Importance weights: the probability of the decision under the policy in question over its propensity.
        baseline : array_like, default=1
            With `relative`: the same of the other policy.

        Returns
        -------
        ConfidenceSequence
            Itself.

        Raises
        ------
        DataError
            If a reward is outside the range or a weight above the largest; nothing is learned then.
        """
        x = reward_array(values)
        if weights is not None and self._kind != "bernstein":
            text = f"weights are for kind='bernstein', not for {self._kind!r}"
            raise ParameterError(text, code="conflicting-arguments", argument="weights")
        if self._kind != "normal":
            require_inside(x, self._range)
        elif not self.count and x.size:
            self._range = float(x[0]), 1.0  # so that squares of large rewards lose no digits
        unit = in_unit(x, self._range)
        if weights is None and not self._relative:
            b: Any = np.ones(x.shape)
        else:
            b = self._checked_weights(1.0 if weights is None else weights, "weights", x.shape)
        a = b * unit
        if self._relative:
            a = (b - self._checked_weights(baseline, "baseline", x.shape)) * (unit - 0.5)
            b = np.ones(x.shape)
        if self._kind == "betting":
            found, times = np.unique(unit, return_counts=True)
            for start in range(0, found.size, 64):
                part, often = found[start : start + 64], times[start : start + 64].astype(float)
                self._capital += self._bets.logs(part, often)
        self._sums += [b.sum(), a.sum(), (b * b).sum(), (a * b).sum(), (a * a).sum()]
        self.count += x.size
        return self

    def _checked_weights(self, values: ArrayLike, name: str, shape: tuple[int, ...]) -> FloatArray:
        array = finite_array(values, name)
        if array.ndim:
            require_shape(array, name, shape, "[N], as values")
        array = np.broadcast_to(array, shape)
        refuse(
            (array < 0.0) | (array > self._weight * (1.0 + 1e-12)),
            array,
            name,
            f"a weight from 0 to largest_weight = {self._weight}",
            error=DataError,
            code="value-range",
        )
        return array

    # -- what is known -------------------------------------------------------------------------------------

    @property
    def mean(self) -> float:
        """Estimate of the mean; NaN without rewards."""
        low, span = self._range
        if not self._sums[0] > 0.0:
            return math.nan
        unit = float(self._sums[1] / self._sums[0])
        return span * unit if self._relative else low + span * unit

    def interval(self) -> tuple[float, float]:
        """Return the interval for the mean.

        Returns
        -------
        tuple of float
            Lower and upper limit; infinite, or the ends of the range, while nothing is known.
        """
        low, span = self._range
        if self._kind == "normal":
            if not self.count:
                return -math.inf, math.inf
            n = np.array([float(self.count)])
            half = float(normal_widths(n, self._variance(), self._sd, self._confidence, self._planned)[0])
            return self.mean - half, self.mean + half
        if self._kind == "betting":
            sides = self._bets.limits(self._capital)
            return low + span * float(sides[0]), low + span * float(sides[1])
        first, last = (-1.0, 1.0) if self._relative else (0.0, 1.0)
        ends = first, last
        if self._sums[0] > 0.0:
            guess = min(max(float(self._sums[1] / self._sums[0]), first), last)
            found = limits_of_sums(
                self._at, np.array([guess]), first, last, self._largest(), self._confidence, self._planned
            )
            ends = float(found[0][0]), float(found[1][0])
        shift = 0.0 if self._relative else low
        return shift + span * ends[0], shift + span * ends[1]

    def evidence(self, mean: float) -> float:
        """Return the evidence against a mean: how often a player who bets against it has won the stake.

        It is an e-value: at the true mean it ever reaches 1/p with probability at most p, whenever one looks. The mean
        is outside the interval if the evidence is 1 / (1 - `confidence`) or more.

        Parameters
        ----------
        mean : float
            Candidate of the mean.

        Returns
        -------
        float
            Evidence; infinite outside the range of rewards.
        """
        low, span = self._range
        mean = finite_number(mean, "mean")
        m = mean / span if self._relative else (mean - low) / span
        if self._kind == "normal":
            if not self.count:
                return 1.0
            far = min(max(self.mean - mean, -_FAR), _FAR)  # its square is finite
            d, n = np.array([far]), np.array([float(self.count)])
            logs = normal_capital(n, d, self._variance(), self._sd, self._confidence, self._planned)
            return float(np.exp(np.minimum(logs[0], 700.0)))
        if not (-1.0 if self._relative else 0.0) <= m <= 1.0:
            return math.inf
        if self._kind == "betting":
            sides = list(self._bets.at(self._capital, m))
        else:
            shares, weights = bet_sizes(self._confidence, self._planned)
            found = self._at(np.array([m]))
            bets = shares / self._largest()
            sides = [float(log_capital(found, bets, weights, sign)[0]) for sign in (1.0, -1.0)]
        return 0.5 * math.exp(min(max(sides), 700.0))

    def _largest(self) -> float:
        """Return a bound on the absolute value of y."""
        return 0.5 * self._weight + 1.0 if self._relative else self._weight

    def _at(self, m: FloatArray) -> Sums:
        b, a, bb, ab, aa = self._sums
        total, square = a - b * m, aa - 2.0 * m * ab + m * m * bb
        if self._relative:
            return Sums(total, square, -0.5 * self._weight - m, 0.5 * self._weight - m)
        count = self.count if self._weight == 1.0 else None  # chords of weighted rewards are of no use
        return Sums(total, square, -self._weight * m, self._weight * (1.0 - m), count)

    def _variance(self) -> FloatArray:
        n, total, square = self._sums[0], self._sums[1], self._sums[4]
        return np.array([max(square / n - (total / n) ** 2, 0.0)])

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"ConfidenceSequence({self._kind!r}, count={self.count}, interval=({low:.6g}, {high:.6g}))"


# -- the kinds ---------------------------------------------------------------------------------------------


def bounded_number(value: float, name: str) -> float:
    """Return a positive number whose square is neither zero nor infinite."""
    number = positive(value, name)
    if not 1.0 / LARGEST <= number <= LARGEST:
        text = f"{name} is {number}, expected a number from {1.0 / LARGEST} to {LARGEST}"
        raise ParameterError(text, code="value-range", argument=name, value=number)
    return number


def reward_array(values: ArrayLike, *, several: bool = False) -> FloatArray:
    """Return rewards as an array [N], or [..., N] of ``several`` experiments, whose squares are finite."""
    x = np.atleast_1d(finite_array(values, "values"))
    if x.ndim > 1 and not several:
        text = f"values has shape {x.shape}, expected a number or [N]"
        raise DataError(text, code="wrong-shape", argument="values", value=x.shape)
    refuse(np.abs(x) > LARGEST, x, "values", f"a number of at most {LARGEST}", code="too-large")
    return x


def planned_of(kind: str, planned: int | None) -> int | None:
    """Return the number of rewards at which the interval is to be narrowest."""
    return PLANNED[kind] if planned is None else whole_number(planned, "planned")


def checked_range(kind: str, value_range: ArrayLike | None, sd: float | None) -> tuple[float, float]:
    """Return the lowest reward and the length of the range; 0 and 1 for rewards without a range."""
    if kind == "normal":
        if value_range is not None:
            text = "value_range is for rewards in a range: with kind='normal' give sd, half its length for instance"
            raise ParameterError(text, code="conflicting-arguments", argument="value_range")
        return 0.0, 1.0
    if sd is not None:
        text = f"sd is for kind='normal', not for {kind!r}"
        raise ParameterError(text, code="conflicting-arguments", argument="sd")
    if value_range is None:
        text = f"kind={kind!r} needs value_range, the lowest and the highest possible reward"
        raise ParameterError(text, code="missing-argument", argument="value_range")
    ends = finite_array(value_range, "value_range", ndim=1, error=ParameterError).tolist()
    if len(ends) != 2 or not 1.0 / LARGEST < ends[1] - ends[0] <= 2.0 * LARGEST:
        message = f"value_range must be the lowest and the highest possible value, got {value_range!r}"
        raise ParameterError(message, code="wrong-range", argument="value_range", value=value_range)
    return ends[0], ends[1] - ends[0]


def in_unit(x: FloatArray, value_range: tuple[float, float]) -> FloatArray:
    """Return rewards as parts of the range."""
    return np.asarray((x - value_range[0]) / value_range[1])


def require_inside(x: FloatArray, value_range: tuple[float, float], name: str = "values") -> None:
    """Raise if a reward is outside the range."""
    low, high = value_range[0], value_range[0] + value_range[1]
    outside = (x < low) | (x > high)
    if outside.any():
        place = np.unravel_index(int(np.argmax(outside)), x.shape)
        index = int(place[0]) if x.ndim == 1 else tuple(map(int, place))
        label = ", ".join(str(int(i)) for i in place)
        message = f"{name}[{label}] is {x[place]}, outside value_range {(low, high)}"
        raise DataError(message, code="value-range", argument=name, index=index, value=float(x[place]))


def mixture_rho(confidence: float, planned: float) -> float:
    """Return rho of the normal mixture whose interval is narrowest at so many rewards.

    >>> round(mixture_rho(0.95, 100), 2)
    12.6
    """
    a = max(-2.0 * math.log1p(-confidence), 1e-9)
    return planned / (a + math.log1p(a))


def normal_widths(
    n: FloatArray, variance: FloatArray, sd: float | None, confidence: float, planned: int | None
) -> FloatArray:
    """Return half the lengths of ``normal`` intervals after n rewards with these variances."""
    rho = mixture_rho(confidence, planned or 100)
    goal = np.log((n + rho) / rho) - 2.0 * math.log(1.0 - confidence)
    if sd is not None:
        return np.asarray(sd * np.sqrt((n + rho) * goal) / n)
    rest = rho / (n + rho)
    q = np.expm1(np.minimum(goal / n, 700.0))  # (s^2 + d^2) / (s^2 + rest d^2) - 1 at the limit
    slope = 1.0 - rest * (1.0 + q)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((slope > 0.0) & (variance > 0.0), np.sqrt(variance * q / slope), np.inf)


def normal_capital(
    n: FloatArray, d: FloatArray, variance: FloatArray, sd: float | None, confidence: float, planned: int | None
) -> FloatArray:
    """Return the logarithm of the ``normal`` capital against means that are d away from the estimate."""
    rho = mixture_rho(confidence, planned or 100)
    start = -0.5 * np.log((n + rho) / rho)
    if sd is not None:
        with np.errstate(over="ignore"):  # the capital is infinite then
            return np.asarray(start + 0.5 * (n * d / sd) ** 2 / (n + rho))
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log1p(d * d * (n / (n + rho)) / (variance + d * d * (rho / (n + rho))))
    return np.asarray(start + 0.5 * n * np.where(d == 0.0, 0.0, gain))


class Bets:
    """The bets of ``betting`` for rewards in [0, 1]: J of them at each candidate of a grid [G]."""

    def __init__(self, confidence: float, planned: int | None) -> None:
        smallest = math.sqrt(4.0 * math.log(2.0 / (1.0 - confidence)) / (planned or 1000))
        number = 1 + max(0, math.ceil(math.log2(_STRONGEST / smallest)))
        self.sizes = _STRONGEST * 0.5 ** np.arange(number)
        self.goal = math.log(2.0 * number / (1.0 - confidence))  # equal weights
        self.up = self.allowed(_GRID)  # [J, G] bets that the mean is above a candidate
        self.down = self.allowed(1.0 - _GRID)

    def allowed(self, most: FloatArray) -> FloatArray:
        """Return the bets [J, G] if a bet can lose so much [G] times itself."""
        return np.minimum(self.sizes[:, np.newaxis], _LARGEST_BET / np.maximum(most, 1e-300))

    def logs(self, unit: FloatArray, times: FloatArray) -> FloatArray:
        """Return what rewards [N], each seen so many times, add to the logarithms of capital [2, J, G]."""
        gain = unit[:, np.newaxis, np.newaxis] - _GRID
        up, down = np.log1p(self.up * gain), np.log1p(-self.down * gain)
        return np.stack([np.tensordot(times, up, 1), np.tensordot(times, down, 1)])

    def limits(self, capital: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the limits [...] of capitals [2, J, ..., G]."""
        up, down = (np.logaddexp.reduce(side, axis=0) >= self.goal for side in capital)
        low = np.where(up.any(axis=-1), _GRID[_GRID.size - 1 - np.argmax(up[..., ::-1], axis=-1)], 0.0)
        high = np.where(down.any(axis=-1), _GRID[np.argmax(down, axis=-1)], 1.0)
        return low, high

    def at(self, capital: FloatArray, m: float) -> tuple[float, float]:
        """Return lower bounds of the logarithms of both capitals at m: those of the next point of the grid."""
        above = min(int(np.searchsorted(_GRID, m)), _GRID.size - 1)
        below = max(int(np.searchsorted(_GRID, m, side="right")) - 1, 0)
        shift = math.log(self.sizes.size)
        up, down = (np.logaddexp.reduce(capital[i, :, place]) - shift for i, place in enumerate((above, below)))
        return float(up), float(down)


def confidence_sequence(
    values: ArrayLike,
    value_range: ArrayLike | None = None,
    *,
    kind: str = "bernstein",
    sd: float | None = None,
    confidence: float = 0.95,
    planned: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return an interval for the mean after each row; all of them hold together with the given confidence.

    So it is allowed to look after every row and to stop whenever the interval is narrow enough. Rows may depend on
    earlier rows, as in the log of a bandit that learns.

    Parameters
    ----------
    values : array_like [..., N]
        The values in the order in which they were observed, of one experiment or of many.
    value_range : pair of float, optional
        Lowest and highest possible value; ``"normal"`` needs none.
    kind : {"bernstein", "betting", "normal"}, default="bernstein"
        What the intervals rest on; see ``ConfidenceSequence``.
    sd : float, optional
        Bound on the sub-Gaussian sd for ``"normal"``; by default it is learned.
    confidence : float, default=0.95
        Confidence of all intervals together, in (0, 1).
    planned : int, optional
        Number of rows at which the intervals should be narrowest; they hold for other numbers too. The default is 100
        for ``"normal"``, 1,000 for ``"betting"``, and for ``"bernstein"`` no number in particular.

    Returns
    -------
    low : ndarray [..., N]
        Lower limits after each row; they never fall.
    high : ndarray [..., N]
        Upper limits after each row; they never rise. Once no mean is in all intervals so far, the limits are those of
        the current one alone.

    Raises
    ------
    DataError
        If a value is outside `value_range`.
    ParameterError
        If an argument is out of range, missing or does not suit `kind`.

    Warns
    -----
    CautionWarning
        If no mean is in all intervals, which has at most the probability 1 - `confidence`.

    See Also
    --------
    ConfidenceSequence : The same for rewards that come one by one.
    off_policy : Uses the same bounds for values of policies.

    Examples
    --------
    >>> low, high = confidence_sequence([0.0, 1.0] * 200, (0.0, 1.0), planned=400)
    >>> [round(float(x), 2) for x in (low[9], high[9], low[-1], high[-1])]
    [0.0, 1.0, 0.42, 0.58]
    """
    one_of(kind, "kind", KINDS)
    confidence = open_probability(confidence, "confidence")
    planned, ends = planned_of(kind, planned), checked_range(kind, value_range, sd)
    x = reward_array(values, several=True)
    if kind != "normal":
        require_inside(x, ends)
    if not x.size:
        return x.copy(), x.copy()
    rows = in_unit(x, ends).reshape(-1, x.shape[-1])
    origin = rows[:, :1] if kind == "normal" else np.zeros((1, 1))  # so that squares of large values lose no digits
    rows = rows - origin
    n = np.arange(1.0, x.shape[-1] + 1.0)
    if kind == "betting":
        limits = _betting(rows, Bets(confidence, planned))
    else:
        first, second = rows.cumsum(axis=1), (rows * rows).cumsum(axis=1)
        if kind == "normal":
            variance = np.maximum(second / n - (first / n) ** 2, 0.0)
            half = normal_widths(n, variance, None if sd is None else bounded_number(sd, "sd"), confidence, planned)
            limits = np.stack([first / n - half, first / n + half])
        else:
            limits = _bernstein(first, second, n, confidence, planned)
    limits += origin
    low, high = np.maximum.accumulate(limits[0], axis=1), np.minimum.accumulate(limits[1], axis=1)
    crossed = low > high
    if crossed.any():
        text = "no mean is in all intervals: the noise is larger than was said, or the mean changes"
        warn_caller(CautionWarning(text, code="empty-interval"))
        low, high = np.where(crossed, limits[0], low), np.where(crossed, limits[1], high)
    return ends[0] + ends[1] * low.reshape(x.shape), ends[0] + ends[1] * high.reshape(x.shape)


def _bernstein(
    first: FloatArray, second: FloatArray, n: FloatArray, confidence: float, planned: int | None
) -> FloatArray:
    """Return limits [2, E, N] from the sums of rewards and of their squares [E, N]."""
    every = np.broadcast_to(n, first.shape).ravel()
    a_all, b_all = first.ravel(), second.ravel()
    limits = np.empty((2, every.size))
    for start in range(0, every.size, _ROWS):
        part = slice(start, start + _ROWS)
        count, a, b = every[part], a_all[part], b_all[part]

        def sums(m: FloatArray, count: FloatArray = count, a: FloatArray = a, b: FloatArray = b) -> Sums:
            return Sums(a - count * m, b - 2.0 * m * a + count * m * m, -m, 1.0 - m, count)

        limits[:, part] = limits_of_sums(sums, a / count, 0.0, 1.0, 1.0, confidence, planned)
    return limits.reshape(2, *first.shape)


def _betting(rows: FloatArray, bets: Bets) -> FloatArray:
    """Return limits [2, E, N] of rewards [E, N]."""
    limits = np.empty((2, *rows.shape))
    for start in range(0, len(rows), 256):
        part = rows[start : start + 256]
        capital = np.zeros((2, bets.sizes.size, len(part), _GRID.size))
        for t in range(part.shape[1]):
            gain = part[:, t, np.newaxis] - _GRID
            capital[0] += np.log1p(bets.up[:, np.newaxis] * gain)
            capital[1] += np.log1p(-bets.down[:, np.newaxis] * gain)
            limits[:, start : start + 256, t] = bets.limits(capital)
    return limits
