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
gives every estimate and its interval: ``prudent.evaluation.limits``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from .._support.checks import one_of, open_probability, positive, whole_number
from .._support.progress import Progress
from ..data.state_map import StateMap
from ..data.transformers import FeaturesLike, encoder_of
from ..display.words import listing
from ..errors import DataError, OverlapWarning, ParameterError
from ..types import ArmLike, FloatArray, IntArray, Label, PolicyLike, RngLike, TableLike
from .episodes.evaluate import QUANTILES, Options, evaluate_episodes
from .episodes.result import EpisodeEstimates
from .estimates import OffPolicyEstimates, Trace
from .estimators import Estimate, R, W, estimates_at
from .limits import INTERVALS, Ranges, limits_of
from .logs import BLOCK, BanditLog, Block, Layout, feature_columns, is_independent
from .moments import Moments, curve_marks, pieces
from .policies import Chances, Regressor, RewardModelLike, TargetLike, arms_of, policy_of, reading_of
from .reward_models import RewardModel, fitted

LARGEST_WEIGHT = 1e40
RE_PAIRED = 5  # times that the weights of a block are paired with its rewards, to see how large products can be
FEW_REWARDS = 20.0  # effective number of rewarded rows below which a warning is given
MAX_CHANCES = 2_000_000  # computed at a time, which bounds the memory


class RowKeywords(TypedDict, total=False):
    """Keywords of ``off_policy`` for independent decisions."""

    episode: str | bool | None
    reward_model: RewardModelLike
    clip: float | None
    switch: float | None
    confidence: float
    interval: str | None
    folds: int
    reward_range: Sequence[float] | None
    max_weight: float | None
    logging_policy: TargetLike | None
    features: FeaturesLike | None
    arms: Iterable[ArmLike] | None
    columns: Mapping[str, Any] | None
    missing_reward: float | str | None
    block: int


class EpisodeKeywords(TypedDict, total=False):
    """Keywords of ``off_policy`` for episodes."""

    episode: str | bool | None
    confidence: float
    interval: str | None
    folds: int
    logging_policy: TargetLike | PolicyLike | None
    columns: Mapping[str, Any] | None
    q_model: Regressor | None
    markov: bool
    marginal: str
    propensities: str | None
    features: Sequence[str] | None
    states: StateMap | None
    terminal: Iterable[Label] | None
    horizon: int | None
    unfinished: str
    return_range: Sequence[float] | None
    quantiles: Sequence[float]
    tail_alpha: float
    draws: int
    rng: RngLike


@overload
def off_policy(
    log: TableLike, target: TargetLike, *, discount: None = None, **keywords: Unpack[RowKeywords]
) -> OffPolicyEstimates: ...


@overload
def off_policy(
    log: TableLike, target: TargetLike | PolicyLike, *, discount: float, **keywords: Unpack[EpisodeKeywords]
) -> EpisodeEstimates: ...


def off_policy(
    log: TableLike,
    target: TargetLike | PolicyLike,
    *,
    discount: float | None = None,
    episode: str | bool | None = None,
    reward_model: RewardModelLike = None,
    clip: float | None = None,
    switch: float | None = None,
    confidence: float = 0.95,
    interval: str | None = None,
    folds: int = 5,
    reward_range: Sequence[float] | None = None,
    max_weight: float | None = None,
    logging_policy: TargetLike | PolicyLike | None = None,
    arms: Iterable[ArmLike] | None = None,
    columns: Mapping[str, Any] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
    q_model: Regressor | None = None,
    markov: bool = False,
    marginal: str = "step",
    propensities: str | None = None,
    features: FeaturesLike | None = None,
    states: StateMap | None = None,
    terminal: Iterable[Label] | None = None,
    horizon: int | None = None,
    unfinished: str = "error",
    return_range: Sequence[float] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    tail_alpha: float = 0.9,
    draws: int = 1000,
    rng: RngLike = 1,
) -> OffPolicyEstimates | EpisodeEstimates:
    """Estimate what a target policy would have earned, from a log of another policy.

    Without ``discount`` the rows are independent decisions of a bandit, and the estimates are per decision. With it,
    rows follow each other in episodes, and the estimates are of the discounted return of an episode.

    The how-to pages "off-policy evaluation" and "would another policy have earned more?" have worked examples; the
    formulas are in ``prudent.evaluation.off_policy`` and ``prudent.evaluation.episodes.weights``.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table, Journal or rows
        The decisions. Columns of episodes are ``episode``, ``action``, ``reward`` and, if there are any, ``step``,
        ``state``, ``next_state``, ``done`` and ``propensity``; all others are features. Columns of a bandit are
        ``arm``, ``reward``, ``propensity`` (the probability with which the arm was chosen) and, if there are any,
        ``context`` (D numbers in a cell) and ``arms`` (the eligible arms, by default all). Rows are dicts or tuples
        (context, arm, reward, propensity).
    target : bandit, array_like, callable, str or dict
        The policy to evaluate: a bandit (its exact probabilities as it is now), an array or DataFrame [T, A] of
        probabilities or [T] of arms, a function of contexts [T, D] that returns one of these, the name of an arm, a
        dict of probabilities, ``"uniform"`` or ``"logged"``. Columns of an array stand for `arms`, by default the
        sorted arms of the log. For episodes: a Solution, or an action or probabilities of actions for each state (as
        for ``posterior_returns``) or for each row, a function of the columns of the log (a DataFrame, or a row as a
        dict) that returns one of these, the name of an action, ``"uniform"`` or ``"logged"``.
    discount : float, optional
        Discount factor in [0, 1] of the rewards of an episode; 1 is their sum.
    episode : str or False, optional
        Name of the column of episodes. False says that the rows of a log with such a column are independent decisions;
        by default such a log needs `discount`.
    reward_model : estimator or array_like [T, A], optional
        An unfitted object with ``fit`` and ``predict``, or a table of predictions. By default a ridge regression for
        each arm, cross-fitted (``prudent.evaluation.reward_models``).

    Returns
    -------
    OffPolicyEstimates or EpisodeEstimates
        A table with columns estimate, low, high, and ess, the effective sample size. Its rows are ips, snips,
        clipped_ips, dm, dr, sndr and switch_dr; for episodes is, wis, pdis, wpdis, dr, wdr, mis, fqe and model, with a
        further column answers.

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
    interval : {"bernstein", "normal", "bootstrap"}, optional
        Kind of the intervals, by default "bernstein" for decisions and "bootstrap" (of whole episodes, studentised) for
        episodes. "bernstein" holds at every number of rows, also for the log of a policy that learned, if rewards and
        weights stay within `reward_range` and `max_weight`. "normal" is narrower and right only if many rewarded rows
        or episodes count: with few of them it is too narrow.
    reward_range : pair of float, optional
        Lowest and highest possible reward. By default 0 and 1 if every reward is one of these, else as seen in the log.
    max_weight : float, optional
        Largest possible weight. By default as seen in the log, or what is missing to a mean weight of 1.
    logging_policy : bandit, array_like, callable, str or dict, optional
        The policy that acted, for a log without propensities; same kinds as `target`.
    arms : iterable, optional
        Names of the arms.
    columns : dict, optional
        Names of the columns that differ from the default, such as ``{"arm": "action"}``.
    missing_reward : float or "skip", optional
        What to do with a row without a reward: take this number, or skip the row. By default it is an error.
    block : int, default=16384
        Number of rows that are read at a time.
    q_model : regressor, optional
        For episodes: an object with fit and predict, such as a regressor of scikit-learn, for the values in dr, wdr and
        fqe. By default a table of states, and trees on the columns of a log without states; always cross-fitted.
    markov : bool, default=False
        For episodes: says that the future depends on the state alone. Then mis and fqe can answer where weights do not.
    marginal : {"step", "state"}, default="step"
        For episodes: whether mis has weights of states at each step, or the same probabilities at all steps.
    propensities : {"log", "counts", "logit"}, optional
        For episodes: propensities of the log, or estimated by the frequencies in each state, or by a multinomial logit
        of `features`. By default those of the log if it has any, else by states if it has states.
    features : sequence of str or Features, optional
        For decisions: the columns of a wide table that make the context, or ``Features`` that make numbers of columns,
        for `reward_model`. Features with names, in the log and in a bandit, are matched by name; a bandit finds its
        features in a wide table without this. For episodes: columns for the logit and `q_model`, by default all that
        have no other meaning.
    states : StateMap, optional
        For episodes: map that gives rows their states; fitted to the log unless it is fitted already.
    terminal : iterable of hashable, optional
        For episodes: states where the process ends.
    horizon : int, optional
        For episodes: count the first steps only.
    unfinished : {"error", "drop", "end"}, default="error"
        For episodes: what to do with those that are not over and shorter than others.
    return_range : pair of float, optional
        For episodes: lowest and highest possible return, by default as seen. Used by safe_low and safe_high.
    quantiles : sequence of float, default=(0.05, 0.25, 0.5, 0.75, 0.95)
        For episodes: probabilities of the quantiles of the return.
    tail_alpha : float, default=0.9
        For episodes: level of the CVaR of the return.
    draws : int, default=1000
        For episodes: number of replicates of the bootstrap.
    rng : int or Generator, default=1
        For episodes: source of the replicates.

    Raises
    ------
    DataError
        If the log is malformed, has no propensities, or contradicts `reward_range`, `max_weight` or the policies; or
        if it has a column of episodes and neither `discount` nor ``episode=False`` is given.
    ParameterError
        If an argument is out of range, of the wrong kind, or for the other kind of log.

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
    Thomas, Brunskill (2016), Data-efficient off-policy policy evaluation for reinforcement learning.

    Examples
    --------
    >>> log = {"context": [[0.0], [1.0]] * 100, "arm": ["a", "a", "b", "b"] * 50,
    ...        "reward": [0.0, 1.0, 0.5, 0.5] * 50, "propensity": [0.5] * 200}
    >>> estimates = off_policy(log, lambda x: np.where(x[:, 0] > 0.5, "a", "b"))
    >>> [float(estimates.loc[name, "estimate"]) for name in ("ips", "dr")], float(estimates.loc["ips", "ess"])
    ([0.75, 0.75], 100.0)

    Episodes of two steps, in which the second action earns 1 or 3:

    >>> log = {"episode": [i // 2 for i in range(400)], "state": ["new", "old"] * 200, "action": ["call", "mail"] * 200,
    ...        "reward": [0.0, 1.0, 0.0, 3.0] * 100}
    >>> log["action"][1::4] = ["call"] * 100
    >>> found = off_policy(log, {"new": "call", "old": "mail"}, discount=1.0)
    >>> found.recommended, round(float(found.loc["wdr", "estimate"]), 3), found.value
    ('wdr', 3.0, 2.0)
    """
    for_rows: dict[str, Any] = {
        "reward_model": reward_model,
        "clip": clip,
        "switch": switch,
        "reward_range": reward_range,
        "max_weight": max_weight,
        "arms": arms,
        "missing_reward": missing_reward,
    }
    shared: dict[str, Any] = {
        "folds": folds,
        "confidence": confidence,
        "columns": columns,
        "logging_policy": logging_policy,
    }
    for_episodes: dict[str, Any] = {
        "q_model": q_model,
        "markov": markov,
        "marginal": marginal,
        "propensities": propensities,
        "features": features,
        "states": states,
        "terminal": terminal,
        "horizon": horizon,
        "unfinished": unfinished,
        "return_range": return_range,
        "quantiles": quantiles,
        "tail_alpha": tail_alpha,
        "draws": draws,
        "rng": rng,
    }
    if discount is not None or isinstance(episode, str):
        _refuse_given(for_rows, dict.fromkeys(for_rows), "decisions, without discount")
        if discount is None:
            message = "discount is missing: give that of the rewards of an episode, 1 for their sum"
            raise ParameterError(message, code="missing-argument", argument="discount")
        if isinstance(episode, bool):
            message = f"episode={episode} cannot be combined with discount; give the name of the column of episodes"
            raise ParameterError(message, code="conflicting-arguments", argument="episode", value=episode)
        kind = "bootstrap" if interval is None else interval
        options = Options(discount, episode, **shared, **for_episodes, interval=kind)
        return evaluate_episodes(log, target, options)
    usual = Options(1.0)
    encoder, for_episodes["features"] = encoder_of(features), None
    _refuse_given(for_episodes, {name: getattr(usual, name) for name in for_episodes}, "episodes, with discount")
    interval = "bernstein" if interval is None else interval
    confidence = open_probability(confidence, "confidence")
    one_of(interval, "interval", INTERVALS)
    folds = whole_number(folds, "folds", minimum=2, maximum=10_000)
    wide = feature_columns(features) if encoder is None else None
    layout = Layout(wide, columns, arms, missing_reward, block, False, encoder, is_independent(episode), learn=True)
    limits = (clip, switch, max_weight, reward_range)
    found = collected(log, target, reward_model, logging_policy, folds, layout, *limits)
    estimates = estimates_of(found, confidence, interval)
    if set(estimates.warning_codes) - {"skipped-rows"}:  # the caller asked to skip rows
        message = "; ".join(estimates.warnings)
        warnings.warn(OverlapWarning(message, code="overlap", value=estimates.warning_codes), stacklevel=2)
    return estimates


def collected(
    log: TableLike,
    target: TargetLike,
    reward_model: RewardModelLike,
    logging_policy: TargetLike | None,
    folds: int,
    layout: Layout,
    clip: float | None = None,
    switch: float | None = None,
    max_weight: float | None = None,
    reward_range: Sequence[float] | None = None,
) -> Collected:
    """Read a log once, and return what all intervals are made of; arguments as for ``off_policy``."""
    first_arms = [*arms_of(target), *arms_of(logging_policy)]
    if hasattr(reward_model, "columns"):
        first_arms += arms_of(reward_model)
    features = reading_of(target) or reading_of(logging_policy)
    if features is not None or layout.features is None:
        layout = layout._replace(features=features, learn=False)
    with BanditLog(log, layout, first_arms) as read:
        root = math.sqrt(read.n)
        bounds = Bounds(
            clip=root if clip is None else positive(clip, "clip"),
            switch=root if switch is None else positive(switch, "switch"),
            weight=None if max_weight is None else positive(max_weight, "max_weight"),
            rewards=read.reward_range(reward_range),
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
    return Collected(read, bounds, reward_range is not None, model, sums)


def _refuse_given(given: Mapping[str, Any], defaults: Mapping[str, Any], kind: str) -> None:
    """Raise if a keyword that is for logs of another kind differs from its default."""
    for name, value in given.items():
        if value is not defaults[name] and not (isinstance(value, (str, int, float)) and value == defaults[name]):
            message = f"{name} is for logs of {kind}"
            raise ParameterError(message, code="conflicting-arguments", argument=name, value=value)


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


def chosen_chances(chances: FloatArray, block: Block, arms: Sequence[ArmLike]) -> FloatArray:
    """Return what a logging policy, with the chances [T, A], gives the chosen arms of a block; raise if that is 0."""
    p = chances[np.arange(len(block)), block.arms]
    if (p <= 0.0).any():
        t = int(np.argmax(p <= 0.0))
        row, arm = int(block.rows[t]), arms[block.arms[t]]
        message = f"log row {row}: logging_policy gives the chosen arm {arm!r} probability 0"
        raise DataError(message, code="zero-propensity", argument="logging_policy", index=row, arm=arm)
    return p


def require_weights(weights: FloatArray, chances: FloatArray, rows: IntArray) -> None:
    """Raise if the weight of a row [T] is too large to be computed with; ``chances`` are those it was logged with."""
    if not (weights <= LARGEST_WEIGHT).all():
        t = int(np.argmax(weights))
        given = f"propensity {chances[t]} gives the weight {weights[t]}"
        message = f"log row {rows[t]}: {given}, above {LARGEST_WEIGHT:g}"
        raise DataError(message, code="weight-range", index=int(rows[t]), value=float(weights[t]))


class Bounds(NamedTuple):
    """Bounds on weights and rewards."""

    clip: float
    switch: float
    weight: float | None  # None: that of the log
    rewards: tuple[float, float]


class _Sums:
    """Sums over the rows of the log, collected in one pass."""

    def __init__(self, log: BanditLog, bounds: Bounds) -> None:
        self.log, self.bounds = log, bounds
        # Rewards enter relative to their mean: squares of large rewards would hide small differences.
        self.centre = log.mean
        self.all = Moments(9)
        self.marks = curve_marks(log.n)
        self.snapshots: list[Moments] = []
        self.chosen = np.zeros((self.marks.size, len(log.arms)))  # [G,A] chances of the target, summed between marks
        self.logged = np.zeros((self.marks.size, len(log.arms)))  # [G,A] how often each arm was logged
        self.top = self.uncovered = 0.0
        self.rewarded = np.zeros(3)  # rows with a weight and a reward other than 0: number, sum of w, sum of w^2
        self.lowest, self.highest = math.inf, -math.inf  # predictions
        self.products = np.array([[math.inf, -math.inf]] * 3)  # lowest and highest w r, w (r - centre), w (r - q)

    def add(self, block: Block, target: Chances, logging: Chances | None, model: RewardModel) -> None:
        """Add the rows of a block."""
        chances = target(block)
        rows = np.arange(len(block))
        p = block.chances
        if logging is not None:
            logging_chances = logging(block)
            p = chosen_chances(logging_chances, block, self.log.arms)
            self.uncovered += float(chances[logging_chances <= 0.0].sum())
        with np.errstate(over="ignore"):  # refused below
            w = chances[rows, block.arms] / p
        require_weights(w, p, block.rows)
        predictions = model.predict(block)
        model.observe(block, predictions, chances)
        q = predictions[rows, block.arms]
        likely = chances > 0.0
        for values in (predictions if likely.all() else predictions[likely], q):
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
        for i, column in enumerate((block.rewards, r, residual)):
            for shift in range(RE_PAIRED):
                product = w * np.roll(column, shift)
                self.products[i] = min(self.products[i, 0], product.min()), max(self.products[i, 1], product.max())
        rewarded = w[(w > 0.0) & (block.rewards != 0.0)]
        self.rewarded += rewarded.size, rewarded.sum(), np.square(rewarded).sum()  # without threads of BLAS
        for piece, mark, complete in pieces(self.marks, self.all.count, len(block)):
            self.all.add(values[piece])
            self.chosen[mark] += np.ones(piece.stop - piece.start) @ chances[piece]
            self.logged[mark] += np.bincount(block.arms[piece], minlength=len(self.log.arms))
            if complete:
                self.snapshots.append(self.all.copy())


class Collected(NamedTuple):
    """What one pass over a log leaves."""

    log: BanditLog
    bounds: Bounds
    given_range: bool
    model: RewardModel
    sums: _Sums


def estimates_of(collected: Collected, confidence: float, interval: str) -> OffPolicyEstimates:
    """Return the result, from the sums over all rows."""
    import pandas

    log, bounds, given_range, model, sums = collected
    covariance = sums.all.covariance()
    seen = {"rewards": not given_range and not log.binary, "weights": bounds.weight is None and sums.top != 0.0}
    max_weight = bounds.weight or _largest_weight(sums, covariance)
    if sums.top > max_weight * (1.0 + 1e-9):
        message = f"the largest weight in log is {sums.top}, above max_weight {max_weight}"
        raise DataError(message, code="weight-range", argument="max_weight", value=sums.top, expected=max_weight)
    predictions = (sums.lowest, sums.highest)
    ranges = Ranges(
        bounds.rewards, max_weight, bounds.clip, bounds.switch, predictions, sums.products if seen["rewards"] else None
    )
    spread = model.spread()

    def limits(name: str) -> tuple[float, float]:
        same = {"clipped_ips": "ips", "switch_dr": "dr"}.get(name)
        if same in ends and sums.top <= getattr(bounds, "clip" if same == "ips" else "switch"):
            return ends[same]  # no weight is clipped or switched
        return limits_of(
            name,
            sums.all,
            sums.centre,
            ranges,
            confidence,
            interval=interval,
            planned=log.n,
            spread=spread if name == "dm" else 0.0,
        )

    rows, ends = {}, dict[str, tuple[float, float]]()
    for name, estimate in estimates_at(sums.all.mean, sums.centre).items():
        ends[name] = limits(name)
        missing = estimate.weight is not None and sums.all.mean[W] <= 0.0
        rows[name] = {
            "estimate": math.nan if missing else estimate.value,
            "low": ends[name][0],
            "high": ends[name][1],
            "ess": _rows_worth(estimate, sums, covariance),
        }
    width = np.diff(sums.marks, prepend=0)[:, np.newaxis]
    doubts = _doubts(log, sums, covariance, rows["ips"]["ess"], bounds)
    logged = limits("logged")
    return OffPolicyEstimates(
        table=pandas.DataFrame.from_dict(rows, orient="index").rename_axis("estimator"),
        confidence=confidence,
        interval=interval,
        n=log.n,
        left_out=log.left_out,
        arms=tuple(log.arms),
        value=float(sums.centre + sums.all.mean[R]),
        value_low=logged[0],
        value_high=logged[1],
        rewarded=int(sums.rewarded[0]),
        reward_model=model.name,
        clip=bounds.clip,
        switch=bounds.switch,
        reward_range=bounds.rewards,
        max_weight=max_weight,
        observed=tuple(name for name, is_seen in seen.items() if is_seen),
        warnings=tuple(doubts.values()),
        warning_codes=tuple(doubts),
        trace=Trace(sums.centre, sums.marks, sums.snapshots, sums.chosen / width, sums.logged / width, ranges),
    )


def _largest_weight(sums: _Sums, covariance: FloatArray) -> float:
    """Return the largest weight of the log, or the one that is missing if the weights average clearly less than 1.

    Weights have mean 1. If they have not, the log does not show the rows in which the target would do what was rarely
    done, and one more row with the weight n (1 - mean) would make up for it.
    """
    n, mean = sums.all.count, float(sums.all.mean[W])
    error = math.sqrt(max(float(covariance[W, W]), 0.0) / n) if n > 1 else 0.0
    return max(sums.top, n * (1.0 - mean - 2.0 * error))


def _rows_worth(estimate: Estimate, sums: _Sums, covariance: FloatArray) -> float:
    """Return the effective sample size of the weights of an estimate."""
    n, weight = sums.all.count, estimate.weight
    if weight is None:
        return float(n)
    square = float(sums.all.mean[weight]) ** 2
    second = float(covariance[weight, weight]) * (n - 1) / n if n > 1 else 0.0
    return float(n * square / (second + square)) if square > 0.0 else 0.0


def _doubts(log: BanditLog, sums: _Sums, covariance: FloatArray, ess: float, bounds: Bounds) -> dict[str, str]:
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
    count, total, squares = sums.rewarded.tolist()
    worth = total**2 / squares if squares > 0.0 else 0.0
    if log.lowest == log.highest and n > 1:
        known = bounds.rewards[0] < bounds.rewards[1]
        what = f"{bounds.rewards} are taken as possible" if known else "give reward_range to get intervals"
        doubts["constant-reward"] = f"every reward in the log is {log.lowest:g}: {what}"
    elif worth < FEW_REWARDS:
        doubts["few-rewards"] = (
            f"the estimates rest on {count:.0f} rewarded rows of what the target does, which count like {worth:.3g}"
        )
    return doubts
