"""How a bandit that learns would have done: rejection replay of a log whose propensities are known.

A learner cannot be weighted row by row, because what it does depends on what it saw before. Replay (Li et al., 2011)
goes through the log, lets the bandit choose in every row, and keeps the row only if it chose what was logged; it then
learns that reward. If the log was made by a uniform choice, the rows that are kept look exactly like a run of the
bandit in the world: its mean reward is unbiased. For other propensities p a matching row is kept with chance p_min / p,
which makes the log uniform in effect. A log of n rows and k arms gives a run of about n / k decisions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from .._support.checks import FloatArray, generator, open_probability, probability
from .._support.progress import Progress
from ..errors import DataError, ParameterError
from .logs import BLOCK, BanditLog, Block, Layout
from .moments import Moments, half_width, marks_of
from .policies import Chances, contexts_for, known_features, policy_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

__all__ = ["Replay", "Run", "lottery", "replay"]

NOT_UNIFORM = 1e-6  # chance to refuse a log that is uniform


def replay(
    log: Any,
    bandit: Any,
    *,
    learn: bool = True,
    level: float = 0.95,
    logging_policy: Any = None,
    min_propensity: float | None = None,
    seed: Any = 0,
    context: str | Sequence[str] | None = None,
    arms: Iterable[Any] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
) -> Replay:
    """Replay a ``log`` to a copy of ``bandit`` and return what it would have earned while it learned.

    ``bandit`` is any object with ``arms``, ``select(context, arms)`` and ``update(context, arm, reward)``; it is copied
    and stays as it is. With ``learn=False`` the copy does not learn. The log is as in :func:`off_policy`; one without
    propensities is taken for uniform over the eligible arms, unless it plainly is not, or for that of
    ``logging_policy``. ``min_propensity`` is the lowest chance that an eligible arm had, by default the lowest seen;
    ``seed`` decides which rows are kept. Features that have names, in the log and in the bandit, are matched by name.
    A bandit whose half-life is a time needs a column ``time``.

    The interval at ``level`` is that of this run: it knows the noise of rewards, and not how another run might learn.

    >>> import prudent as pr
    >>> rng = np.random.default_rng(1)
    >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in rng.choice(["a", "b"], 1000).tolist()]
    >>> found = replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1))
    >>> found.rows, 400 < found.matched < 600, found.mean > 0.8
    (1000, True, True)
    """
    level = open_probability(level, "level")
    _require_bandit(bandit)
    rng = generator(seed, "seed")
    timed = fades_with_time(bandit)
    layout = Layout(context, columns, arms, missing_reward, block, timed, known_features(bandit))
    with BanditLog(log, layout, bandit.arms) as read:
        read.require_contexts("bandit")
        run = Run(copy.deepcopy(bandit), learn)
        kept = Lots(read, logging_policy, min_propensity)
        require_logged(bandit.arms, read)
        marks = marks_of(read.n)
        logged, snapshots, begin = Moments(1), [], 0
        line = Progress("replay")
        try:
            for part, chances in lottery(read, kept, rng):
                cuts = marks[(marks > begin) & (marks <= begin + len(part))] - begin
                at = 0
                for cut in [*cuts.tolist(), len(part)]:
                    piece = part.part(slice(at, cut))
                    run.go(piece, chances[at:cut], read)
                    logged.add(piece.rewards[:, np.newaxis])
                    if cut in cuts:
                        snapshots.append((begin + cut, run.paid.copy(), logged.copy()))
                    at = cut
                begin += len(part)
                line.show(f"{begin:,} of {read.n:,} rows, {run.paid.count:,} matched")
        finally:
            line.close()
    return Replay(read, run, snapshots, kept.floor, level)


def _require_bandit(bandit: Any) -> None:
    for name in ("arms", "select", "update"):
        if not hasattr(bandit, name):
            raise ParameterError(f"bandit is {bandit!r}, which has no {name}; replay needs one that decides and learns")


def fades_with_time(bandit: Any) -> bool:
    """Return whether evidence of a bandit fades with the clock, so that it must be told the time."""
    return getattr(getattr(bandit, "half_life", None), "unit", "") == "seconds"


def require_logged(arms: Iterable[Any], log: BanditLog) -> None:
    """Raise if an arm was never logged: a row in which it is chosen can never match."""
    for arm in arms:
        if not log.counts[log.index(arm)]:
            raise DataError(f"arm {arm!r} of the bandit was never logged, so that a replay cannot judge it; remove it")


class Lots:
    """The chance with which a matching row is kept: lowest propensity over that of the row."""

    def __init__(self, log: BanditLog, logging_policy: Any, min_propensity: float | None) -> None:
        self._policy: Chances | None = None
        if logging_policy is not None:
            self._policy = policy_of(logging_policy, log, "logging_policy")
        elif not log.has_propensities:
            self._policy = policy_of("uniform", log, "logging_policy")
            _require_uniform(log, self._policy)
        lowest = min(float(self.of(block).min()) for block in log.blocks())
        if lowest <= 0.0:
            raise DataError("logging_policy gives no chance to an arm that was logged")
        self.floor = lowest if min_propensity is None else probability(min_propensity, "min_propensity")
        if not 0.0 < self.floor <= lowest * (1.0 + 1e-9):
            raise ParameterError(f"min_propensity is {self.floor}, expected at most the lowest in log, {lowest}")

    def of(self, block: Block) -> FloatArray:
        """Return the propensities [T] of the logged arms."""
        return block.chances if self._policy is None else self._policy(block)[np.arange(len(block)), block.arms]


def _require_uniform(log: BanditLog, uniform: Chances) -> None:
    """Raise if the arms of a log without propensities are plainly not chosen uniformly (chi-square)."""
    expected, variance = np.zeros(len(log.arms)), np.zeros(len(log.arms))
    for block in log.blocks():
        chances = uniform(block)
        expected += chances.sum(axis=0)
        variance += (chances * (1.0 - chances)).sum(axis=0)
    free = variance > 0.0
    # each term has mean one; with equal chances k/(k-1) times their sum is Pearson's statistic
    k = int(free.sum())
    score = float((((log.counts - expected)[free]) ** 2 / variance[free]).sum()) * (k - 1) / max(k, 1)
    if k > 1 and expected.min() >= 5.0 and chdtrc(k - 1, score) < NOT_UNIFORM:
        a = int(np.argmax(np.abs(log.counts - expected)))
        raise DataError(
            f"log has no column 'propensity' and is not uniform: arm {log.arms[a]!r} was chosen {log.counts[a]} times, "
            f"expected about {expected[a]:.0f}; give the policy that acted as logging_policy"
        )


def lottery(log: BanditLog, lots: Lots, rng: np.random.Generator) -> Iterator[tuple[Block, FloatArray]]:
    """Yield the blocks of a log, each with thresholds [T]: a row is kept if its arm's chance is above the threshold.

    A threshold is u p / p_min with u uniform, so that an arm of chance pi is kept with chance pi p_min / p.
    """
    for block in log.blocks():
        yield block, rng.random(len(block)) * (lots.of(block) / lots.floor)


class Run:
    """One bandit on its way through a log, and what it was paid."""

    def __init__(self, bandit: Any, learn: bool = True) -> None:
        self.bandit = bandit
        self.paid = Moments(1)
        self._learn = learn
        self._mine = set(bandit.arms)
        self._timed = fades_with_time(bandit)
        # A choice that does not match must leave no trace, and choosing counts decisions: chances are asked instead.
        # Only choosing lets evidence fade with time.
        self._asks = hasattr(bandit, "propensities") and not self._timed

    def go(self, block: Block, thresholds: FloatArray, log: BanditLog) -> None:
        """Go through some rows, with their ``thresholds`` [T] of :func:`lottery`."""
        names: dict[int, Any] = {}
        for members, rows in block.sets():
            able = log.arms if members is None else [log.arms[i] for i in members]
            mine = [arm for arm in able if arm in self._mine]
            if not mine:
                raise DataError(f"log row {block.rows[rows[0]]}: no eligible arm is one of the bandit's arms")
            names[int(block.which[rows[0]])] = mine
        paid: list[float] = []
        contexts = contexts_for(self.bandit, block, log)
        arrays: tuple[Any, ...] = (block.which, block.arms, block.rewards, thresholds, block.times)
        columns = (array.tolist() for array in arrays)
        for point, which, place, reward, threshold, time in zip(contexts, *columns, strict=True):
            arm = log.arms[place]
            when = {"time": time} if self._timed else {}
            # no chance exceeds one: whoever is above it need not be asked
            if threshold < 1.0 and arm in self._mine and self._takes(point, arm, names[which], threshold, when):
                paid.append(reward)
                if self._learn:
                    self.bandit.update(point, arm, reward, **when)
        self.paid.add(np.array(paid)[:, np.newaxis])

    def _takes(self, point: FloatArray, arm: Any, able: list[Any], threshold: float, when: dict[str, float]) -> bool:
        """Return whether the bandit takes ``arm``; if not, nothing has happened to it."""
        if not self._asks:
            return self.bandit.select(point, able, **when).arm == arm
        if self.bandit.propensities(point[np.newaxis], able)[0, able.index(arm)] <= threshold:
            return False
        if self._learn:
            self.bandit.select(point, [arm])  # it must count its decision
        return True


class _Point(NamedTuple):
    rows: int
    paid: Moments
    logged: Moments


class Replay:
    """What :func:`replay` found: ``matched`` of ``rows`` rows were kept, and paid ``mean``, from ``low`` to ``high``.

    ``logged`` is the mean reward of the log, ``bandit`` the copy after the run, ``curve()`` follows the means.
    """

    def __init__(
        self, log: BanditLog, run: Run, points: Iterable[tuple[int, Moments, Moments]], floor: float, level: float
    ) -> None:
        self.rows = log.n
        self.matched = run.paid.count
        self.level = level
        self.bandit = run.bandit
        self.min_propensity = floor
        self._points = [_Point(*point) for point in points]
        self.mean, self.low, self.high = _interval(run.paid, level)
        self.logged, self.logged_low, self.logged_high = _interval(self._points[-1].logged, level)

    def curve(self) -> pandas.DataFrame:
        """Return the mean reward so far at up to 200 points of the run, with intervals, and that of the log.

        >>> import prudent as pr
        >>> log = [([1.0], arm, 1.0, 0.5) for arm in "ab" * 50]
        >>> replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1)).curve().columns.tolist()
        ['matched', 'cumulative', 'estimate', 'low', 'high', 'logged', 'logged_low', 'logged_high']
        """
        import pandas

        rows = []
        for point in self._points:
            mean, low, high = _interval(point.paid, self.level)
            total = point.paid.count * point.paid.mean[0]
            rows.append([point.paid.count, total, mean, low, high, *_interval(point.logged, self.level)])
        names = ["matched", "cumulative", "estimate", "low", "high", "logged", "logged_low", "logged_high"]
        index = pandas.Index([point.rows for point in self._points], name="rows")
        return pandas.DataFrame(rows, columns=names, index=index)

    def plot(self) -> Figure:
        """Return a figure of matplotlib: the mean reward so far, with its interval, against that of the log.

        >>> import prudent as pr
        >>> log = [([1.0], arm, float(i % 3), 0.5) for i, arm in enumerate("ab" * 50)]
        >>> len(replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1)).plot().axes)
        1
        """
        from . import figures

        return figures.reward(self.curve(), "replay", self.level)

    def __repr__(self) -> str:
        return (
            f"Replay({self.matched:,} of {self.rows:,} rows matched, mean reward {self.mean:.6g} "
            f"[{self.low:.6g}, {self.high:.6g}] at {self.level:g}; log {self.logged:.6g})"
        )


def _interval(moments: Moments, level: float) -> tuple[float, float, float]:
    if not moments.count:
        return math.nan, -math.inf, math.inf
    mean = float(moments.mean[0])
    half = half_width(float(moments.covariance()[0, 0]), moments.count, level)
    return mean, mean - half, mean + half
