r"""Off-policy evaluation: what another policy would have earned, from the log of the policy that acted.

Row i of a log holds the context x, the arm a, its reward r, and the chance p with which it was chosen; the target
would have chosen it with chance pi(a|x). With weights w = pi(a|x) / p, predictions q(x, a) of a reward model and
q(x, pi) = sum_a pi(a|x) q(x, a), the estimates are means over the rows:

    ips          w r                                  unbiased
    snips        (mean of w r) / (mean of w)          less variance; bias of the order 1/n
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from .._support.checks import finite_array, open_probability, positive, whole_number
from .._support.intervals import bernstein_half_width, normal_half_width
from .._support.progress import Progress
from ..display.words import listing
from ..errors import DataError, OverlapWarning, ParameterError
from ..types import ArmLike, FloatArray, TableLike
from .estimates import Estimate, OffPolicyEstimates, R, Trace, W, estimates_at
from .logs import BLOCK, BanditLog, Block, Layout
from .moments import Moments, curve_marks, pieces
from .policies import Chances, RewardModelLike, TargetLike, arms_of, features_of, policy_of
from .reward_models import RewardModel, fitted

LARGEST_WEIGHT = 1e40
MAX_CHANCES = 2_000_000  # computed at a time, which bounds the memory


def off_policy(
    log: TableLike,
    target: TargetLike,
    *,
    reward_model: RewardModelLike = None,
    clip: float | None = None,
    switch: float | None = None,
    confidence: float = 0.95,
    folds: int = 5,
    reward_range: Sequence[float] | None = None,
    max_weight: float | None = None,
    logging_policy: TargetLike | None = None,
    context: str | Sequence[str] | None = None,
    arms: Iterable[ArmLike] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
) -> OffPolicyEstimates:
    """Estimate what a target policy would have earned per decision, from a log of another policy.

    The parameters are, in this order: log and target, estimators, intervals, and the format of the log. Logs of any
    length are read in blocks. The how-to page "off-policy evaluation" has worked examples; the formulas are
    in ``prudent.evaluation.off_policy``.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table, Journal or rows
        The decisions. Columns are ``arm``, ``reward``, ``propensity`` (the probability with which the arm was chosen)
        and, if there are any, ``context`` (D numbers in a cell) and ``arms`` (the eligible arms, by default all). Rows
        are dicts or tuples (context, arm, reward, propensity).
    target : bandit, array_like, callable, str or dict
        The policy to evaluate: a bandit (its exact probabilities as it is now), an array or DataFrame [T, A] of
        probabilities or [T] of arms, a function of contexts [T, D] that returns one of these, the name of an arm, a
        dict of probabilities, ``"uniform"`` or ``"logged"``. Columns of an array stand for `arms`, by default the
        sorted arms of the log.
    reward_model : estimator or array_like [T, A], optional
        An unfitted object with ``fit`` and ``predict``, or a table of predictions. By default a ridge regression for
        each arm, cross-fitted (``prudent.evaluation.reward_models``).

    Returns
    -------
    OffPolicyEstimates
        A table with rows ips, snips, clipped_ips, dm, dr, sndr and switch_dr and columns estimate; low and high, the
        normal interval; low_eb and high_eb, the empirical-Bernstein interval, which holds at every sample size within
        `reward_range` and `max_weight`; and ess, the effective sample size.

    Other Parameters
    ----------------
    folds : int, default=5
        Number of folds of the cross-fit.
    clip : float, optional
        Largest weight of ``clipped_ips``, by default sqrt(n).
    switch : float, optional
        Weight above which ``switch_dr`` uses the reward model alone, by default sqrt(n).
    confidence : float, default=0.95
        Confidence of the intervals, in (0, 1).
    reward_range : pair of float, optional
        Lowest and highest possible reward, for the empirical-Bernstein interval. By default as seen in the log.
    max_weight : float, optional
        Largest possible weight, for the empirical-Bernstein interval. By default as seen in the log.
    logging_policy : bandit, array_like, callable, str or dict, optional
        The policy that acted, for a log without propensities; same kinds as `target`.
    context : str or sequence of str, optional
        Column of the context, or the columns of a wide table that are features. Features with names, in the log and in
        a bandit, are matched by name; a bandit finds its features in a wide table without this.
    arms : iterable, optional
        Names of the arms.
    columns : dict, optional
        Names of the columns that differ from the default, such as ``{"arm": "action"}``.
    missing_reward : float or "skip", optional
        What to do with a row without a reward: take this number, or skip the row. By default it is an error.
    block : int, default=16384
        Number of rows that are read at a time.

    Raises
    ------
    DataError
        If the log is malformed, has no propensities, or contradicts `reward_range`, `max_weight` or the policies.
    ParameterError
        If an argument is out of range or of the wrong kind.

    Warns
    -----
    OverlapWarning
        If the log says too little about the target for the estimates to be reliable.

    See Also
    --------
    replay : Evaluate a bandit that learns.
    tune : Compare settings of a bandit.

    References
    ----------
    Dudik, Erhan, Langford, Li (2014), Doubly robust policy evaluation and optimization.
    Swaminathan, Joachims (2015), The self-normalized estimator for counterfactual learning.
    Wang, Agarwal, Dudik (2017), Optimal and adaptive off-policy evaluation in contextual bandits.

    Examples
    --------
    >>> log = {"context": [[0.0], [1.0]] * 100, "arm": ["a", "a", "b", "b"] * 50,
    ...        "reward": [0.0, 1.0, 0.5, 0.5] * 50, "propensity": [0.5] * 200}
    >>> estimates = off_policy(log, lambda x: np.where(x[:, 0] > 0.5, "a", "b"))
    >>> [float(estimates.loc[name, "estimate"]) for name in ("ips", "dr")], float(estimates.loc["ips", "ess"])
    ([0.75, 0.75], 100.0)
    """
    confidence = open_probability(confidence, "confidence")
    folds = whole_number(folds, "folds", minimum=2)
    first_arms = [*arms_of(target), *arms_of(logging_policy)]
    if hasattr(reward_model, "columns"):
        first_arms += arms_of(reward_model)
    features = features_of(target) or features_of(logging_policy)
    with BanditLog(log, Layout(context, columns, arms, missing_reward, block, False, features), first_arms) as read:
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
        step = max(1, MAX_CHANCES // len(read.arms))
        with closing(Progress("off-policy evaluation")) as line:
            for part in read.blocks():
                for first in range(0, len(part), step):
                    sums.add(part.part(slice(first, first + step)), chances, logging, model)
                line.show(f"{sums.all.count:,} of {read.n:,} rows")
    estimates = _estimates_of(read, bounds, reward_range is not None, confidence, model, sums)
    if set(estimates.warning_codes) - {"skipped-rows"}:  # the caller asked to skip rows
        message = "; ".join(estimates.warnings)
        warnings.warn(OverlapWarning(message, code="overlap", value=estimates.warning_codes), stacklevel=2)
    return estimates


def _logging(target: TargetLike, chances: Chances, logging_policy: TargetLike | None, log: BanditLog) -> Chances | None:
    """Return the policy that acted, None if the log has propensities."""
    if isinstance(target, str) and target == "logged":
        return chances  # the weights are one
    if logging_policy is not None:
        return policy_of(logging_policy, log, "logging_policy")
    if not log.has_propensities:
        message = (
            "log has no column 'propensity': give columns={'propensity': ...} if it has another name, or the policy "
            f"that acted as logging_policy, for instance 'uniform'; its columns are {log.columns}"
        )
        raise DataError(message, code="missing-column", column="propensity")
    return None


class Bounds(NamedTuple):
    """Bounds on weights and rewards."""

    clip: float
    switch: float
    weight: float | None  # None: that of the log
    rewards: tuple[float, float]


def _reward_range(given: Sequence[float] | None, log: BanditLog) -> tuple[float, float]:
    """Return the range of rewards that the caller gives, else that of the log."""
    seen = (log.lowest, log.highest)
    if given is None:
        return seen
    ends = finite_array(given, "reward_range", ndim=1, error=ParameterError).tolist()
    if len(ends) != 2 or ends[0] >= ends[1]:
        message = f"reward_range must be the lowest and the highest possible reward, got {given!r}"
        raise ParameterError(message, code="wrong-range", argument="reward_range", value=given)
    low, high = ends
    if log.lowest < low or log.highest > high:
        message = f"rewards go from {log.lowest} to {log.highest}, beyond reward_range {(low, high)}"
        raise DataError(message, code="reward-range", argument="reward_range", value=seen, expected=(low, high))
    return low, high


class _Sums:
    """Sums over the rows of the log, collected in one pass."""

    def __init__(self, log: BanditLog, bounds: Bounds) -> None:
        self.log, self.bounds = log, bounds
        # Rewards enter relative to a number near their mean: squares of large rewards would hide small differences.
        self.centre = 0.5 * (log.lowest + log.highest)
        self.all = Moments(9)
        self.marks = curve_marks(log.n)
        self.snapshots: list[Moments] = []
        self.chosen = np.zeros((self.marks.size, len(log.arms)))  # [G,A] chances of the target, summed between marks
        self.logged = np.zeros((self.marks.size, len(log.arms)))  # [G,A] how often each arm was logged
        self.top = self.uncovered = 0.0
        self.lowest, self.highest = math.inf, -math.inf  # predictions

    def add(self, block: Block, target: Chances, logging: Chances | None, model: RewardModel) -> None:
        """Add the rows of a block."""
        chances = target(block)
        rows = np.arange(len(block))
        p = block.chances
        if logging is not None:
            logging_chances = logging(block)
            p = logging_chances[rows, block.arms]
            if (p <= 0.0).any():
                t = int(np.argmax(p <= 0.0))
                row, arm = int(block.rows[t]), self.log.arms[block.arms[t]]
                message = f"log row {row}: logging_policy gives the chosen arm {arm!r} probability 0"
                raise DataError(message, code="zero-propensity", argument="logging_policy", index=row, arm=arm)
            self.uncovered += float(chances[logging_chances <= 0.0].sum())
        w = chances[rows, block.arms] / p
        if not (w <= LARGEST_WEIGHT).all():
            t = int(np.argmax(w))
            message = f"log row {block.rows[t]}: propensity {p[t]} gives the weight {w[t]}, above {LARGEST_WEIGHT:g}"
            raise DataError(message, code="weight-range", index=int(block.rows[t]), value=float(w[t]))
        predictions = model.predict(block)
        model.observe(block, predictions, chances)
        q = predictions[rows, block.arms]
        for values in (predictions[chances > 0.0], q):
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))
        r = block.rewards - self.centre
        expected = (chances * (predictions - self.centre)).sum(axis=1)
        clipped, switched = np.minimum(w, self.bounds.clip), np.where(w <= self.bounds.switch, w, 0.0)
        residual = block.rewards - q
        values = np.column_stack(
            [w, w * r, clipped, clipped * r, expected, w * residual, switched * residual, switched, r]
        )
        self.top = max(self.top, float(w.max()))
        for piece, mark, complete in pieces(self.marks, self.all.count, len(block)):
            self.all.add(values[piece])
            self.chosen[mark] += chances[piece].sum(axis=0)
            self.logged[mark] += np.bincount(block.arms[piece], minlength=len(self.log.arms))
            if complete:
                self.snapshots.append(self.all.copy())


def _estimates_of(
    log: BanditLog, bounds: Bounds, given_range: bool, confidence: float, model: RewardModel, sums: _Sums
) -> OffPolicyEstimates:
    """Return the result, from the sums over all rows."""
    import pandas

    seen = {"rewards": not given_range, "weights": bounds.weight is None and sums.top != 0.0}
    max_weight = bounds.weight or sums.top
    if sums.top > max_weight * (1.0 + 1e-9):
        message = f"the largest weight in log is {sums.top}, above max_weight {max_weight}"
        raise DataError(message, code="weight-range", argument="max_weight", value=sums.top, expected=max_weight)
    bounds = bounds._replace(weight=max_weight)
    covariance = sums.all.covariance()
    spread = model.spread()
    rows = {
        name: _row(name, estimate, covariance, sums, bounds, confidence, spread if name == "dm" else 0.0)
        for name, estimate in estimates_at(sums.all.mean, sums.centre).items()
    }
    width = np.diff(sums.marks, prepend=0)[:, np.newaxis]
    doubts = _doubts(log, sums, covariance, rows["ips"]["ess"])
    return OffPolicyEstimates(
        table=pandas.DataFrame.from_dict(rows, orient="index").rename_axis("estimator"),
        confidence=confidence,
        n=log.n,
        left_out=log.left_out,
        arms=tuple(log.arms),
        value=float(sums.centre + sums.all.mean[R]),
        value_half_width=normal_half_width(float(covariance[R, R]), log.n, confidence),
        reward_model=model.name,
        clip=bounds.clip,
        switch=bounds.switch,
        reward_range=bounds.rewards,
        max_weight=max_weight,
        observed=tuple(name for name, is_seen in seen.items() if is_seen),
        warnings=tuple(doubts.values()),
        warning_codes=tuple(doubts),
        trace=Trace(sums.centre, sums.marks, sums.snapshots, sums.chosen / width, sums.logged / width),
    )


def _row(
    name: str, estimate: Estimate, covariance: FloatArray, sums: _Sums, bounds: Bounds, confidence: float, spread: float
) -> dict[str, float]:
    """Return a row of the table; ``spread`` is the variance that comes from the reward model's own error."""
    mean, n, weight = sums.all.mean, sums.all.count, estimate.weight
    if weight is not None and mean[W] <= 0.0:  # an interval of width zero around zero would be wrong
        ends = {"low": -math.inf, "high": math.inf, "low_eb": math.nan, "high_eb": math.nan}
        return {"estimate": math.nan} | ends | {"ess": 0.0}
    variance = float(estimate.gradient @ covariance @ estimate.gradient)
    half = normal_half_width(variance + n * spread, n, confidence)
    span = _span(name, bounds, sums)
    bound = math.nan if span is None else bernstein_half_width(max(variance, 0.0), span, n, confidence)
    ess = float(n)
    if weight is not None:
        second = float(covariance[weight, weight]) * (n - 1) / n if n > 1 else 0.0
        ess = n * mean[weight] ** 2 / (second + mean[weight] ** 2) if mean[weight] > 0.0 else 0.0
    value = estimate.value
    ends = {"low": value - half, "high": value + half, "low_eb": value - bound, "high_eb": value + bound}
    return {"estimate": value} | ends | {"ess": float(ess)}


def _span(name: str, bounds: Bounds, sums: _Sums) -> float | None:
    """Return how far apart the values of two rows can be; None for estimates that are not means of rows."""
    assert bounds.weight is not None
    low, high = bounds.rewards
    top = min(bounds.weight, {"clipped_ips": bounds.clip, "switch_dr": bounds.switch}.get(name, math.inf))
    if name in ("ips", "clipped_ips"):
        return top * (max(high, 0.0) - min(low, 0.0))
    if name in ("dr", "switch_dr"):
        least, most = sums.lowest, sums.highest
        return (most - least) + top * (max(high - least, 0.0) - min(low - most, 0.0))
    return None


def _doubts(log: BanditLog, sums: _Sums, covariance: FloatArray, ess: float) -> dict[str, str]:
    """Return reasons to doubt the estimates: a sentence for each code."""
    n, mean = sums.all.count, float(sums.all.mean[W])
    doubts: dict[str, str] = {}
    if log.left_out:
        doubts["skipped-rows"] = f"{log.left_out} of {log.rows} rows have no reward and were left out"
    if mean <= 0.0:
        doubts["no-overlap"] = "the log never shows an arm that the target would choose: only dm is an estimate"
        return doubts
    mass = sums.chosen.sum(axis=0)
    never = [log.arms[a] for a in np.flatnonzero((log.counts == 0) & (mass > 1e-9 * n))]
    if never:
        share = float(mass[log.counts == 0].sum()) / n
        names = listing(map(repr, never), 5)
        doubts["never-logged"] = f"{share:.1%} of the target's choices are arms that were never logged ({names})"
    if sums.uncovered > 1e-6 * n:
        share = sums.uncovered / n
        doubts["uncovered"] = f"{share:.1%} of the target's choices had probability 0 under the logging policy"
    error = math.sqrt(max(float(covariance[W, W]), 0.0) / n) if n > 1 else math.inf
    if abs(mean - 1.0) > 5.0 * error + 1e-6:
        doubts["mean-weight"] = (
            f"the weights average {mean:.3g}, expected 1: propensities are wrong, or the log does not cover the target"
        )
    if ess < 50.0 or ess < 0.02 * n:
        doubts["poor-overlap"] = f"overlap is poor: the {n} rows count like {ess:.3g}, so intervals may be too narrow"
    if n > 1 and sums.top > 0.1 * n * mean:
        share = sums.top / (n * mean)
        doubts["dominant-row"] = f"a single row has {share:.0%} of all weight (weight {sums.top:.3g})"
    if log.lowest == log.highest and n > 1:
        doubts["constant-reward"] = f"every reward in the log is {log.lowest:g}: intervals have no width"
    return doubts
