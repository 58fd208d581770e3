"""Rejection replay: what a bandit that learns would have earned, from a log with known propensities.

The decisions of a bandit that learns depend on earlier rows, so rows cannot be weighted one by one. Replay (Li et al.,
2011) lets the bandit choose in every row and keeps the row only if the choice is the logged arm; the bandit then learns
that reward. If the arms of the log were chosen uniformly, the kept rows are distributed like a run of the bandit, and
their mean reward is unbiased. For other propensities p a matching row is kept with probability p_min / p, which has the
same effect. A log of n rows and k arms gives a run of about n / k decisions.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from .._support.checks import flag, generator, one_of, open_probability, probability
from .._support.progress import Progress
from ..display.figures import off_policy as figures
from ..errors import DataError, OverlapWarning, ParameterError
from ..types import ArmLike, FloatArray, RngLike, TableLike
from .limits import INTERVALS, mean_limits
from .logs import BLOCK, BanditLog, Block, Layout, feature_columns, is_independent
from .moments import Moments, curve_marks, pieces
from .policies import Chances, Learner, TargetLike, adopt, contexts_for, policy_of, reading_of

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

FEW_REWARDS = 20  # rewarded rows below which a warning is given
FALSE_REFUSAL = 1e-6  # probability of refusing a log that is uniform


def replay(
    log: TableLike,
    bandit: Learner,
    *,
    learn: bool = True,
    confidence: float = 0.95,
    interval: str = "bernstein",
    reward_range: Sequence[float] | None = None,
    rng: RngLike = 0,
    logging_policy: TargetLike | None = None,
    min_propensity: float | None = None,
    features: Sequence[str] | None = None,
    arms: Iterable[ArmLike] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
    episode: bool | None = None,
) -> Replay:
    """Replay a log to a copy of a bandit and return what it would have earned while it learned.

    The parameters are, in this order: log and bandit, the run, the propensities, and the format of the log.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table, Journal or rows
        The decisions, as for ``off_policy``. A log without propensities is taken for uniform over the eligible
        arms, unless a test refutes that, or for that of `logging_policy`. A bandit whose half-life is a time needs a
        column ``time``.
    bandit : bandit
        Any object with ``arms``, ``select(context, arms)`` and ``update(context, arm, reward)``. It is copied and stays
        as it is.
    learn : bool, default=True
        Whether the copy learns.
    confidence : float, default=0.95
        Confidence of the intervals, in (0, 1). They cover the noise of rewards in this run, not how another run might
        learn.
    interval, reward_range
        Kind of the intervals and range of the rewards, as for ``off_policy``.
    rng : int, Generator or None, default=0
        Source of randomness, which decides which rows are kept.

    Returns
    -------
    Replay
        Mean reward of the kept rows with its interval, and the bandit after the run.

    Other Parameters
    ----------------
    logging_policy : bandit, array_like, callable, str or dict, optional
        The policy that acted, for a log without propensities; as for ``off_policy``.
    min_propensity : float, optional
        Lowest propensity of an eligible arm, by default the lowest in the log.
    features, arms, columns, missing_reward, block
        Format of the log, as for ``off_policy``.
    episode : False, optional
        False says that the rows of a log with a column of episodes are independent decisions.

    Raises
    ------
    DataError
        If the log is malformed or not uniform, or an arm of the bandit was never logged.
    ParameterError
        If `bandit` cannot decide or learn, or `min_propensity` is above the lowest in the log.

    Warns
    -----
    OverlapWarning
        If fewer than 20 of the kept rows have a reward other than 0.

    See Also
    --------
    off_policy : Evaluate a fixed policy with all rows.
    tune : Compare settings of a bandit.

    References
    ----------
    Li, Chu, Langford, Wang (2011), Unbiased offline evaluation of contextual-bandit-based news article recommendation
    algorithms.

    Examples
    --------
    >>> import prudent as pr
    >>> rng = np.random.default_rng(1)
    >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in rng.choice(["a", "b"], 1000).tolist()]
    >>> run = replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1))
    >>> run.rows, 400 < run.matched < 600, run.mean > 0.8
    (1000, True, True)
    """
    confidence = open_probability(confidence, "confidence")
    one_of(interval, "interval", INTERVALS)
    _require_bandit(bandit)
    learn = flag(learn, "learn")
    random = generator(rng)
    timed = fades_with_time(bandit)
    reading, independent = reading_of(bandit, learn=True), is_independent(episode)
    wide = feature_columns(features)
    layout = Layout(wide, columns, arms, missing_reward, block, timed, reading, independent, learn=True)
    with BanditLog(log, layout, bandit.arms) as read:
        read.require_contexts("bandit")
        rewards = read.reward_range(reward_range)
        run = Run(copy.deepcopy(bandit), learn)
        adopt(run.bandit, read)
        rates = KeepRates(read, logging_policy, min_propensity)
        require_logged(bandit.arms, read)
        marks = curve_marks(read.n)
        logged, points = Moments(1), list[Point]()
        with closing(Progress("replay")) as line:
            for part, thresholds in thresholds_of(read, rates, random):
                for piece, _, complete in pieces(marks, logged.count, len(part)):
                    rows = part.part(piece)
                    run.go(rows, thresholds[piece], read)
                    logged.add(rows.rewards[:, np.newaxis])
                    if complete:
                        points.append(Point(logged.count, run.paid.copy(), logged.copy()))
                line.show(f"{logged.count:,} of {read.n:,} rows, {run.paid.count:,} matched")
    intervals = Intervals(rewards, confidence, interval)
    means = (*intervals.of(run.paid), *intervals.of(logged))
    if run.rewarded < FEW_REWARDS:
        message = few_rewards(run.rewarded, run.paid.count)
        warnings.warn(OverlapWarning(message, code="few-rewards", value=run.rewarded), stacklevel=2)
    return Replay(read.n, run.paid.count, run.rewarded, *means, confidence, intervals, rates.floor, run.bandit, points)


def few_rewards(rewarded: int, kept: int) -> str:
    """Return what is said of a mean of few rewarded rows."""
    return f"the mean rests on {rewarded:,} rewarded rows of {kept:,} that matched"


def _require_bandit(bandit: object) -> None:
    for name in ("arms", "select", "update"):
        if not hasattr(bandit, name):
            message = f"bandit must have arms, select and update, got {bandit!r}, which has no {name}"
            raise ParameterError(message, code="wrong-type", argument="bandit", value=bandit, expected=name)


def fades_with_time(bandit: object) -> bool:
    """Return whether evidence of a bandit fades with time, so that decisions need times."""
    return getattr(getattr(bandit, "half_life", None), "unit", "") == "seconds"


def require_logged(arms: Iterable[ArmLike], log: BanditLog) -> None:
    """Raise if an arm was never logged: a row in which it is chosen can never match."""
    for arm in arms:
        if not log.counts[log.index(arm)]:
            message = f"arm {arm!r} of the bandit was never logged, so no row can match it; remove the arm"
            raise DataError(message, code="never-logged", arm=arm)


class KeepRates:
    """Probability of keeping a matching row: the lowest propensity over that of the row."""

    def __init__(self, log: BanditLog, logging_policy: TargetLike | None, min_propensity: float | None) -> None:
        self._policy: Chances | None = None
        if logging_policy is not None:
            self._policy = policy_of(logging_policy, log, "logging_policy")
        elif not log.has_propensities:
            self._policy = policy_of("uniform", log, "logging_policy")
            _require_uniform(log, self._policy)
        lowest = min(float(self.of(block).min()) for block in log.blocks())
        if lowest <= 0.0:
            message = "logging_policy gives a logged arm probability 0"
            raise DataError(message, code="zero-propensity", argument="logging_policy")
        self.floor = lowest if min_propensity is None else probability(min_propensity, "min_propensity")
        if not 0.0 < self.floor <= lowest * (1.0 + 1e-9):
            message = f"min_propensity is {self.floor}, expected at most the lowest in log, {lowest}"
            raise ParameterError(
                message, code="probability-range", argument="min_propensity", value=self.floor, expected=lowest
            )

    def of(self, block: Block) -> FloatArray:
        """Return the propensities [T] of the logged arms."""
        return block.chances if self._policy is None else self._policy(block)[np.arange(len(block)), block.arms]


def _require_uniform(log: BanditLog, uniform: Chances) -> None:
    """Raise if a chi-square test refutes that the arms of a log without propensities were chosen uniformly."""
    expected, variance = np.zeros(len(log.arms)), np.zeros(len(log.arms))
    for block in log.blocks():
        chances = uniform(block)
        expected += chances.sum(axis=0)
        variance += (chances * (1.0 - chances)).sum(axis=0)
    free = variance > 0.0
    # each term has mean one; with equal chances k/(k-1) times their sum is Pearson's statistic
    k = int(free.sum())
    score = float((((log.counts - expected)[free]) ** 2 / variance[free]).sum()) * (k - 1) / max(k, 1)
    if k > 1 and expected.min() >= 5.0 and chdtrc(k - 1, score) < FALSE_REFUSAL:
        a = int(np.argmax(np.abs(log.counts - expected)))
        message = (
            f"log has no column 'propensity' and is not uniform: arm {log.arms[a]!r} was chosen {log.counts[a]} times, "
            f"expected about {expected[a]:.0f}; give the policy that acted as logging_policy"
        )
        raise DataError(
            message, code="not-uniform", arm=log.arms[a], value=int(log.counts[a]), expected=float(expected[a])
        )


def thresholds_of(log: BanditLog, rates: KeepRates, rng: np.random.Generator) -> Iterator[tuple[Block, FloatArray]]:
    """Yield the blocks of a log, each with thresholds [T]: a row is kept if its arm's probability is above.

    A threshold is u p / p_min with u uniform, so an arm of probability pi is kept with probability pi p_min / p.
    """
    for block in log.blocks():
        yield block, rng.random(len(block)) * (rates.of(block) / rates.floor)


class Run:
    """A bandit that goes through a log, and the rewards of the rows that matched."""

    def __init__(self, bandit: Any, learn: bool = True) -> None:
        self.bandit = bandit
        self.paid = Moments(1)
        self.rewarded = 0  # of the rows that matched, those with a reward other than 0
        self._learn = learn
        self._mine = set(bandit.arms)
        self._timed = fades_with_time(bandit)
        # A choice that does not match must leave no trace, and choosing counts decisions: propensities are used.
        # Only choosing lets evidence fade with time.
        self._asks = hasattr(bandit, "propensities") and not self._timed

    def go(self, block: Block, thresholds: FloatArray, log: BanditLog) -> None:
        """Go through some rows with their thresholds [T], see ``thresholds_of``."""
        names: dict[int, Any] = {}
        for members, rows in block.sets():
            able = log.arms if members is None else [log.arms[i] for i in members]
            mine = [arm for arm in able if arm in self._mine]
            if not mine:
                row = int(block.rows[rows[0]])
                message = f"log row {row}: no eligible arm is one of the arms of the bandit"
                raise DataError(message, code="no-arms", row=row)
            names[int(block.which[rows[0]])] = mine
        paid: list[float] = []
        contexts = contexts_for(self.bandit, block, log)
        arrays: tuple[Any, ...] = (block.which, block.arms, block.rewards, thresholds, block.times)
        columns = (array.tolist() for array in arrays)
        for point, which, index, reward, threshold, time in zip(contexts, *columns, strict=True):
            arm = log.arms[index]
            when = {"time": time} if self._timed else {}
            # no probability is above such a threshold
            if threshold < 1.0 and arm in self._mine and self._takes(point, arm, names[which], threshold, when):
                paid.append(reward)
                if self._learn:
                    self.bandit.update(point, arm, reward, **when)
        self.paid.add(np.array(paid)[:, np.newaxis])
        self.rewarded += int(np.count_nonzero(paid))

    def _takes(self, point: FloatArray, arm: Any, able: list[Any], threshold: float, when: dict[str, float]) -> bool:
        """Return whether the bandit takes ``arm``; if not, nothing has happened to it."""
        if not self._asks:
            return self.bandit.select(point, able, **when).arm == arm
        if self.bandit.propensities(point[np.newaxis], able)[0, able.index(arm)] <= threshold:
            return False
        if self._learn:
            self.bandit.select(point, [arm])  # it must count its decision
        return True


class Intervals(NamedTuple):
    """Kind of the intervals of mean rewards."""

    rewards: tuple[float, float]
    confidence: float
    kind: str

    def of(self, moments: Moments) -> tuple[float, float, float]:
        """Return the mean of the first column with its interval; NaN between infinities without rows."""
        n = moments.count
        mean, variance = float(moments.mean[0]) if n else math.nan, float(moments.covariance()[0, 0])
        ends = mean_limits(mean, variance, n, self.rewards, self.confidence, interval=self.kind, planned=max(n, 1))
        return mean, *ends


class Point(NamedTuple):
    """A point of the curve."""

    rows: int
    paid: Moments
    logged: Moments


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """Outcome of a replay: the result of ``replay``.

    Attributes
    ----------
    rows : int
        Number of rows of the log.
    matched : int
        Number of rows that were kept.
    rewarded : int
        Number of kept rows with a reward other than 0; a warning is given below 20.
    mean, low, high : float
        Mean reward of the kept rows with its interval.
    logged, logged_low, logged_high : float
        Mean reward of the log with its interval.
    confidence : float
        Confidence of the intervals.
    intervals : Intervals
        Their kind, and the range of rewards that they assume.
    min_propensity : float
        Lowest propensity, as given or as in the log.
    bandit : bandit
        The copy of the bandit after the run.
    points : sequence of Point
        Sums at the points of the curve.

    See Also
    --------
    replay : Replay a log.
    """

    rows: int
    matched: int
    rewarded: int
    mean: float
    low: float
    high: float
    logged: float
    logged_low: float
    logged_high: float
    confidence: float
    intervals: Intervals
    min_propensity: float
    bandit: Any
    points: Sequence[Point]

    def curve(self) -> pandas.DataFrame:
        """Return the mean reward so far at up to 200 points of the run, beside that of the log.

        Returns
        -------
        DataFrame
            Columns matched, cumulative, estimate, low, high, logged, logged_low and logged_high, indexed by the number
            of rows.

        Examples
        --------
        >>> import prudent as pr
        >>> log = [([1.0], arm, 1.0, 0.5) for arm in "ab" * 50]
        >>> replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1)).curve().columns.tolist()
        ['matched', 'cumulative', 'estimate', 'low', 'high', 'logged', 'logged_low', 'logged_high']
        """
        import pandas

        rows = [
            (paid.count, paid.count * paid.mean[0], *self.intervals.of(paid), *self.intervals.of(logged))
            for _, paid, logged in self.points
        ]
        names = ["matched", "cumulative", "estimate", "low", "high", "logged", "logged_low", "logged_high"]
        return pandas.DataFrame(rows, pandas.Index([point.rows for point in self.points], name="rows"), names)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the mean rewards with their intervals.

        Returns
        -------
        DataFrame
            Rows replay and log; columns mean, low, high and decisions.
        """
        import pandas

        rows = {
            "replay": [self.mean, self.low, self.high, self.matched],
            "log": [self.logged, self.logged_low, self.logged_high, self.rows],
        }
        return pandas.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "decisions"])

    def to_xarray(self) -> xarray.Dataset:
        """Return the curve as a dataset over ``rows``.

        Returns
        -------
        xarray.Dataset
            The columns of ``curve``; confidence as an attribute.
        """
        return self.curve().to_xarray().assign_attrs(confidence=self.confidence)

    def plot(self) -> Figure:
        """Plot the mean reward so far, with its interval, against that of the log.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> import prudent as pr
        >>> log = [([1.0], arm, float(i % 3), 0.5) for i, arm in enumerate("ab" * 50)]
        >>> len(replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1)).plot().axes)
        1
        """
        return figures.draw_reward(self.curve(), "replay", self.confidence).to_matplotlib()

    def __repr__(self) -> str:
        return (
            f"Replay({self.matched:,} of {self.rows:,} rows matched, mean reward {self.mean:.6g} "
            f"[{self.low:.6g}, {self.high:.6g}] at {self.confidence:g}; log {self.logged:.6g})"
        )
