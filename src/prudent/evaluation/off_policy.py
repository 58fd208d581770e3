r"""What another policy would have earned, from the log of the one that acted.

Row i of a log holds the context x, the arm a, its reward r, and the chance p with which it was chosen; the target
would have chosen it with chance pi(a|x). With weights w = pi(a|x) / p, predictions q(x, a) of a reward model and
q(x, pi) = sum_a pi(a|x) q(x, a), the estimates are means over the rows:

    ips          w r                                  unbiased
    snips        (mean of w r) / (mean of w)          steadier; bias of the order 1/n
    clipped_ips  min(w, clip) r                       less variance, biased towards zero where w > clip
    dm           q(x, pi)                             as good as the reward model
    dr           q(x, pi) + w (r - q(x, a))           unbiased, whatever the reward model
    sndr         q(x, pi) + w (r - q(x, a)) / mean w
    switch_dr    the same as dr where w <= switch, else q(x, pi)

Formulas as in Dudik et al. (2014), Swaminathan and Joachims (2015) and Wang et al. (2017); ``benchmarks/off_policy.py``
compares them with the Open Bandit Pipeline. All are functions of the means of a few columns, so that one pass of sums
gives every estimate, and the delta method its variance.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, finite_array, open_probability, positive, whole_number
from .._support.progress import Progress
from ..errors import DataError, OverlapWarning, ParameterError
from .logs import BLOCK, BanditLog, Block, Layout
from .moments import Moments, bernstein, half_width, marks_of
from .policies import Chances, known_arms, known_features, policy_of
from .reward_models import RewardModel, fitted

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

__all__ = ["OffPolicyEstimates", "off_policy"]

LARGEST_WEIGHT = 1e40
CELLS = 2_000_000  # chances worked out at a time, which bounds the memory
NAMES = ("ips", "snips", "clipped_ips", "dm", "dr", "sndr", "switch_dr")
# Columns whose means are kept: w, w r; both with w clipped; q(x, pi); w (r - q), the same switched, w switched; r
W, WR, C, CR, Q, E, S, V, R = range(9)


def off_policy(
    log: Any,
    target: Any,
    *,
    reward_model: Any = None,
    clip: float | None = None,
    switch: float | None = None,
    level: float = 0.95,
    folds: int = 5,
    reward_range: Sequence[float] | None = None,
    max_weight: float | None = None,
    logging_policy: Any = None,
    context: str | Sequence[str] | None = None,
    arms: Iterable[Any] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
) -> OffPolicyEstimates:
    """Estimate what ``target`` would have earned per decision, from a ``log`` of decisions of another policy.

    ``log`` is a DataFrame, a dict of columns, a Parquet, CSV or JSON-lines file, a table of pyarrow, or rows (dicts, or
    tuples (context, arm, reward, propensity)). Its columns are ``arm``, ``reward``, ``propensity`` (the chance with
    which the arm was chosen), and if there are any ``context`` (D numbers in a cell) and ``arms`` (the arms that were
    eligible; by default all). ``context=["age", "price"]`` makes features of columns of a wide table,
    ``columns={"arm": "action"}`` gives other names. Features that have names, in the log and in a bandit, are matched
    by name; a bandit that knows them finds them in a wide table by itself. Logs of any length are gone through in
    blocks.

    ``target`` is a bandit (its exact chances as it is now), an array or DataFrame [T,A] of chances or [T] of arms, a
    function that returns one of these for contexts [T,D], the name of an arm, a dict of chances, ``"uniform"``, or
    ``"logged"``. The columns of an array stand for ``arms``, by default the sorted arms of the log.
    ``logging_policy``, one of the same, is for logs without propensities.

    ``reward_model`` is by default a ridge regression for each arm, cross-fitted in ``folds`` (:mod:`reward_models
    <prudent.evaluation.reward_models>`); or an unfitted object with fit and predict, or a table [T,A] of predictions.
    ``clip`` and ``switch`` bound the weights, by default sqrt(n). A row without a reward is an error unless
    ``missing_reward`` is ``"skip"`` or the number to put there.

    The result is a table: ``estimate``; ``low`` and ``high``, the normal interval at ``level``; ``low_eb`` and
    ``high_eb``, the empirical-Bernstein interval, which holds at every sample size if rewards lie in ``reward_range``
    and weights are at most ``max_weight`` (by default as the log shows them: then the interval is as good as these);
    and ``ess``, the effective number of rows. The interval of ``dm`` takes the model for right, and those of
    clipped_ips and switch_dr do not know of their bias. Poor overlap is an :class:`OverlapWarning`.

    >>> log = {"context": [[0.0], [1.0], [0.0], [1.0]] * 50, "arm": ["a", "a", "b", "b"] * 50,
    ...        "reward": [0.0, 1.0, 0.5, 0.5] * 50, "propensity": [0.5] * 200}
    >>> found = off_policy(log, lambda x: np.where(x[:, 0] > 0.5, "a", "b"))
    >>> [float(found.loc[name, "estimate"]) for name in ("ips", "dr")], float(found.loc["ips", "ess"])
    ([0.75, 0.75], 100.0)
    """
    level = open_probability(level, "level")
    folds = whole_number(folds, "folds", minimum=2)
    known = [*known_arms(target), *known_arms(logging_policy)]
    if hasattr(reward_model, "columns"):
        known += known_arms(reward_model)
    features = known_features(target) or known_features(logging_policy)
    with BanditLog(log, Layout(context, columns, arms, missing_reward, block, False, features), known) as read:
        root = math.sqrt(read.n)
        bounds = Bounds(
            clip=root if clip is None else positive(clip, "clip"),
            switch=root if switch is None else positive(switch, "switch"),
            weight=None if max_weight is None else positive(max_weight, "max_weight"),
            rewards=_reward_range(reward_range, read),
        )
        chances = policy_of(target, read)
        logging = _logging(target, chances, logging_policy, read)
        model = fitted(reward_model, read, folds)
        sums = _Sums(read, bounds)
        line = Progress("off-policy evaluation")
        try:
            for part in read.blocks():
                step = max(1, CELLS // len(read.arms))
                for first in range(0, len(part), step):
                    sums.add(part.part(slice(first, first + step)), chances, logging, model)
                line.show(f"{sums.all.count:,} of {read.n:,} rows")
        finally:
            line.close()
    found = OffPolicyEstimates(read, bounds, level, model, sums)
    if len(found.warnings) > bool(found.left_out):  # that rows were skipped as asked is no news by itself
        warnings.warn("; ".join(found.warnings), OverlapWarning, stacklevel=2)
    return found


def _logging(target: Any, chances: Chances, logging_policy: Any, log: BanditLog) -> Chances | None:
    """Return the policy that acted; None if the log has propensities."""
    if isinstance(target, str) and target == "logged":
        return chances  # the weights are one
    if logging_policy is not None:
        return policy_of(logging_policy, log, "logging_policy")
    if not log.has_propensities:
        raise DataError(
            "log has no column 'propensity': say columns={'propensity': ...} if it has another name, or give the "
            f"policy that acted as logging_policy ('uniform', say); its columns are {log.columns}"
        )
    return None


class Bounds(NamedTuple):
    """What the caller says of weights and rewards."""

    clip: float
    switch: float
    weight: float | None
    rewards: tuple[float, float] | None


def _reward_range(given: Sequence[float] | None, log: BanditLog) -> tuple[float, float] | None:
    if given is None:
        return None
    low, high = (
        finite_array(given, "reward_range", ndim=1, error=ParameterError).tolist() if len(given) == 2 else (1, 0)
    )
    if low >= high:
        raise ParameterError(f"reward_range must be the lowest and the highest reward possible, got {given!r}")
    if log.lowest < low or log.highest > high:
        raise DataError(f"rewards go from {log.lowest} to {log.highest}, beyond reward_range {(low, high)}")
    return low, high


class _Sums:
    """All that one pass through the log collects."""

    def __init__(self, log: BanditLog, bounds: Bounds) -> None:
        self.log, self.bounds = log, bounds
        # Rewards enter relative to a number near their mean: squares of large rewards would hide small differences.
        self.centre = 0.5 * (log.lowest + log.highest)
        self.all = Moments(9)
        self.marks = marks_of(log.n)
        self.snapshots: list[Moments] = []
        self.chosen = np.zeros((self.marks.size, len(log.arms)))  # [G,A] chances of the target, added up between marks
        self.logged = np.zeros((self.marks.size, len(log.arms)))  # [G,A] how often each arm was logged
        self.mass = np.zeros(len(log.arms))
        self.top = 0.0
        self.uncovered = 0.0
        self.lowest, self.highest = math.inf, -math.inf  # predictions

    def add(self, block: Block, target: Chances, logging: Chances | None, model: RewardModel) -> None:
        size = len(self.log.arms)
        chances = target(block)
        rows = np.arange(len(block))
        p = block.chances
        if logging is not None:
            theirs = logging(block)
            p = theirs[rows, block.arms]
            if (p <= 0.0).any():
                t = int(np.argmax(p <= 0.0))
                raise DataError(
                    f"log row {block.rows[t]}: arm {self.log.arms[block.arms[t]]!r} was chosen, to which "
                    "logging_policy gives no chance"
                )
            self.uncovered += float(chances[theirs <= 0.0].sum())
        w = chances[rows, block.arms] / p
        if not (w <= LARGEST_WEIGHT).all():
            t = int(np.argmax(w))
            raise DataError(
                f"log row {block.rows[t]}: propensity is {p[t]}, so small that the weight {w[t]} says nothing"
            )
        predictions = model.predict(block)
        model.observe(block, predictions, chances)
        relevant = predictions[chances > 0.0]
        q = predictions[rows, block.arms]
        for values in (relevant, q):
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))
        r = block.rewards - self.centre
        expected = (chances * (predictions - self.centre)).sum(axis=1)
        clipped, switched = np.minimum(w, self.bounds.clip), np.where(w <= self.bounds.switch, w, 0.0)
        left = block.rewards - q
        columns = [w, w * r, clipped, clipped * r, expected, w * left, switched * left, switched, r]
        values = np.column_stack(columns)
        self.top = max(self.top, float(w.max()))
        self.mass += chances.sum(axis=0)
        begin = self.all.count
        cuts = self.marks[(self.marks > begin) & (self.marks <= begin + len(block))] - begin
        at = 0
        for cut in [*cuts.tolist(), len(block)]:
            if cut > at:
                segment = int(np.searchsorted(self.marks, begin + cut))
                self.all.add(values[at:cut])
                self.chosen[segment] += chances[at:cut].sum(axis=0)
                self.logged[segment] += np.bincount(block.arms[at:cut], minlength=size)
                if self.marks[segment] == begin + cut:
                    self.snapshots.append(self.all.copy())
                at = cut


class _Estimate(NamedTuple):
    """An estimate as a function of the means of the columns: its value, its gradient, and the column of its weights."""

    value: float
    gradient: FloatArray
    weight: int | None


def _estimates(mean: FloatArray, centre: float) -> dict[str, _Estimate]:
    """Return every estimate at these means [9]; NaN where no weight is above zero."""

    def linear(weight: int | None, shift: float, factors: dict[int, float]) -> _Estimate:
        gradient = np.zeros(9)
        gradient[list(factors)] = list(factors.values())
        return _Estimate(shift + float(gradient @ mean), gradient, weight)

    def ratio(top: int, shift: float, base: int | None) -> _Estimate:
        """Return shift + mean[top] / mean[W], with mean[base] added."""
        gradient = np.zeros(9)
        share = mean[top] / mean[W] if mean[W] > 0.0 else math.nan
        gradient[top] = 1.0 / mean[W] if mean[W] > 0.0 else math.nan
        gradient[W] = -share * gradient[top]
        if base is not None:
            gradient[base] = 1.0
            shift += mean[base]
        return _Estimate(float(shift + share), gradient, W)

    return {
        "ips": linear(W, 0.0, {WR: 1.0, W: centre}),
        "snips": ratio(WR, centre, None),
        "clipped_ips": linear(C, 0.0, {CR: 1.0, C: centre}),
        "dm": linear(None, centre, {Q: 1.0}),
        "dr": linear(W, centre, {Q: 1.0, E: 1.0}),
        "sndr": ratio(E, centre, Q),
        "switch_dr": linear(V, centre, {Q: 1.0, S: 1.0}),
    }


class OffPolicyEstimates:
    """The table of :func:`off_policy`: a row for each estimator, and what to know before trusting it.

    It reads like a DataFrame (``found.loc["dr", "low"]``, ``found["estimate"]``); ``to_pandas()`` gives one. ``value``
    is the mean reward of the log itself, ``warnings`` says in words what is doubtful. ``curve("dr")`` follows an
    estimate over the rows, :meth:`plot` draws.

    >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
    >>> found = off_policy(log, {"a": 0.25, "b": 0.75})
    >>> float(found.loc["ips", "estimate"]), found.value, found.warnings
    (0.75, 0.5, ())
    """

    def __init__(self, log: BanditLog, bounds: Bounds, level: float, model: RewardModel, sums: _Sums) -> None:
        self.level = level
        self.n = log.n
        self.arms = log.arms
        self.left_out = log.left_out
        self.reward_model = model.name
        self.clip, self.switch = bounds.clip, bounds.switch
        self.reward_range = bounds.rewards or (log.lowest, log.highest)
        self.max_weight = bounds.weight or sums.top
        if sums.top > self.max_weight * (1.0 + 1e-9):
            raise DataError(f"the largest weight in log is {sums.top}, above max_weight {self.max_weight}")
        self._observed = [
            name
            for name, given in (("rewards", bounds.rewards), ("weights", bounds.weight))
            if given is None and not (name == "weights" and sums.top == 0.0)
        ]
        self._sums = sums
        self._spread = model.spread()
        mean = sums.all.mean
        self.value = float(sums.centre + mean[R])
        covariance = sums.all.covariance()
        self.value_half_width = half_width(float(covariance[R, R]), self.n, level)
        self._rows = {name: self._row(name, each, covariance) for name, each in self._at(sums.all).items()}
        self.warnings = tuple(self._doubts(log, covariance))

    def _at(self, moments: Moments) -> dict[str, _Estimate]:
        return _estimates(moments.mean, self._sums.centre)

    def _row(self, name: str, each: _Estimate, covariance: FloatArray) -> dict[str, float]:
        mean, n = self._sums.all.mean, self.n
        if each.weight is not None and mean[W] <= 0.0:  # zero with an interval of no width would be a lie
            return (
                {"estimate": math.nan, "low": -math.inf, "high": math.inf}
                | dict.fromkeys(("low_eb", "high_eb"), math.nan)
                | {"ess": 0.0}
            )
        variance = float(each.gradient @ covariance @ each.gradient)
        half = half_width(variance + (n * self._spread if name == "dm" else 0.0), n, self.level)
        span = self._span(name)
        sure = math.nan if span is None else bernstein(max(variance, 0.0), span, n, self.level)
        ess = float(n)
        if each.weight is not None:
            second = float(covariance[each.weight, each.weight]) * (n - 1) / n if n > 1 else 0.0
            ess = n * mean[each.weight] ** 2 / (second + mean[each.weight] ** 2) if mean[each.weight] > 0.0 else 0.0
        return {
            "estimate": each.value,
            "low": each.value - half,
            "high": each.value + half,
            "low_eb": each.value - sure,
            "high_eb": each.value + sure,
            "ess": float(ess),
        }

    def _span(self, name: str) -> float | None:
        """Return how far apart the values of two rows can be; None for estimates that are not means of rows."""
        low, high = self.reward_range
        if name in ("ips", "clipped_ips"):
            top = min(self.max_weight, self.clip) if name == "clipped_ips" else self.max_weight
            return top * (max(high, 0.0) - min(low, 0.0))
        if name in ("dr", "switch_dr"):
            top = min(self.max_weight, self.switch) if name == "switch_dr" else self.max_weight
            least, most = self._sums.lowest, self._sums.highest
            return (most - least) + top * (max(high - least, 0.0) - min(low - most, 0.0))
        return None

    def _doubts(self, log: BanditLog, covariance: FloatArray) -> list[str]:
        sums, n = self._sums, self.n
        mean, doubts = float(sums.all.mean[W]), []
        if self.left_out:
            doubts.append(f"{self.left_out} of {log.rows} rows have no reward and were left out")
        if mean <= 0.0:
            return [*doubts, "the log never shows an arm that the target would choose: only dm is an estimate, a guess"]
        never = [log.arms[a] for a in np.flatnonzero((log.counts == 0) & (sums.mass > 1e-9 * n))]
        if never:
            share = float(sums.mass[log.counts == 0].sum()) / n
            shown = ", ".join(map(repr, never[:5])) + (", ..." if len(never) > 5 else "")
            doubts.append(f"{share:.1%} of the target's choices are arms that were never logged ({shown})")
        if sums.uncovered > 1e-6 * n:
            doubts.append(f"{sums.uncovered / n:.1%} of the target's choices had no chance under the logging policy")
        error = math.sqrt(max(float(covariance[W, W]), 0.0) / n) if n > 1 else math.inf
        if abs(mean - 1.0) > 5.0 * error + 1e-6:
            doubts.append(
                f"the weights average {mean:.3g} where 1 is expected: propensities are wrong, or the log does not "
                "cover what the target does"
            )
        ess = self._rows["ips"]["ess"]
        if ess < 50.0 or ess < 0.02 * n:
            doubts.append(f"overlap is poor: the {n} rows count like {ess:.3g}, so that intervals may be too narrow")
        if n > 1 and sums.top > 0.1 * n * mean:
            doubts.append(f"a single row has {sums.top / (n * mean):.0%} of all weight (weight {sums.top:.3g})")
        if log.lowest == log.highest and n > 1:
            doubts.append(f"every reward in the log is {log.lowest:g}: intervals without width mean nothing")
        return doubts

    # -- as a table ----------------------------------------------------------------------------------------

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a DataFrame with a row for each estimator.

        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> list(off_policy(log, "b").to_pandas().columns)
        ['estimate', 'low', 'high', 'low_eb', 'high_eb', 'ess']
        """
        import pandas

        frame = pandas.DataFrame.from_dict(self._rows, orient="index")
        frame.index.name = "estimator"
        return frame

    @property
    def loc(self) -> Any:
        """Rows and columns by name, as a DataFrame has them."""
        return self.to_pandas().loc

    @property
    def index(self) -> Any:
        """The names of the estimators."""
        return self.to_pandas().index

    @property
    def columns(self) -> Any:
        """The names of the columns."""
        return self.to_pandas().columns

    def __getitem__(self, name: str) -> Any:
        """Return a column, or the row of an estimator."""
        frame = self.to_pandas()
        if name in frame.index:
            return frame.loc[name]
        if name not in frame.columns:
            raise KeyError(f"{name!r} is neither an estimator {list(frame.index)} nor a column {list(frame.columns)}")
        return frame[name]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        ranges = f"rewards in [{self.reward_range[0]:g}, {self.reward_range[1]:g}], weights up to {self.max_weight:.4g}"
        seen = f" ({' and '.join(self._observed)} as seen)" if self._observed else ""
        lines = [
            f"Off-policy estimates from {self.n:,} rows, intervals at {self.level:g}",
            self.to_pandas().to_string(float_format=lambda x: f"{x:.6g}"),
            f"log itself: {self.value:.6g} ± {self.value_half_width:.3g}; reward model: {self.reward_model}",
            f"low_eb, high_eb for {ranges}{seen}; clip {self.clip:.4g}, switch {self.switch:.4g}",
        ]
        return "\n".join([*lines, *(f"warning: {doubt}" for doubt in self.warnings)])

    # -- over time -----------------------------------------------------------------------------------------

    def curve(self, estimator: str = "dr") -> pandas.DataFrame:
        """Return an estimate from the rows up to each of at most 200 marks: estimate, low, high, and the log's own.

        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> off_policy(log, "b").curve("ips").loc[400].round(3).tolist()
        [1.0, 0.902, 1.098, 0.5, 0.451, 0.549]
        """
        import pandas

        if estimator not in NAMES:
            raise ParameterError(f"estimator must be one of {list(NAMES)}, got {estimator!r}")
        rows = []
        for moments in self._sums.snapshots:
            each, covariance = self._at(moments)[estimator], moments.covariance()
            half = half_width(float(each.gradient @ covariance @ each.gradient), moments.count, self.level)
            own = self._sums.centre + float(moments.mean[R])
            width = half_width(float(covariance[R, R]), moments.count, self.level)
            rows.append([each.value, each.value - half, each.value + half, own, own - width, own + width])
        names = ["estimate", "low", "high", "logged", "logged_low", "logged_high"]
        return pandas.DataFrame(rows, columns=names, index=pandas.Index(self._sums.marks, name="rows"))

    def propensities(self) -> pandas.DataFrame:
        """Return the target's mean chance of each arm in the rows between marks, a column for each arm.

        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> off_policy(log, {"a": 0.25, "b": 0.75}).propensities().loc[400].tolist()
        [0.25, 0.75]
        """
        return self._shares(self._sums.chosen)

    def _shares(self, sums: FloatArray) -> pandas.DataFrame:
        import pandas

        width = np.diff(self._sums.marks, prepend=0)[:, np.newaxis]
        return pandas.DataFrame(
            sums / width, columns=list(self.arms), index=pandas.Index(self._sums.marks, name="rows")
        )

    def plot(self, kind: str = "estimates", estimator: str = "dr") -> Figure:
        """Return a figure of matplotlib: ``"estimates"``, ``"reward"`` over the rows, or ``"propensities"`` over them.

        >>> log = [([1.0], arm, float(arm == "b"), 0.5) for arm in "ab" * 200]
        >>> len(off_policy(log, "b").plot().axes)
        1
        """
        from . import figures

        drawings: dict[str, Callable[[], Figure]] = {
            "estimates": lambda: figures.estimates(self.to_pandas(), self.value, self.level),
            "reward": lambda: figures.reward(self.curve(estimator), estimator, self.level),
            "propensities": lambda: figures.propensities(self.propensities(), self._shares(self._sums.logged)),
        }
        if kind not in drawings:
            raise ParameterError(f"kind must be one of {list(drawings)}, got {kind!r}")
        return drawings[kind]()
