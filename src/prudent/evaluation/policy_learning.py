"""Policies from logs: the highest lower confidence bound of the doubly robust value, and an honest value beside it.

``prudent.evaluation.policy_search`` has the search. A kind of policy (one arm, trees, linear scores) is chosen on a
third of the rows by a search on the others, and learned again on all. What a search has maximised is optimistic. So the
whole procedure, choice of the kind included, is repeated without each of F folds, and the policies so learned are
evaluated in the fold that they have not seen, by the estimators of ``off_policy``. Reward models of a held-out fold and
of the rows that a policy is learned from are fitted to other rows (``prudent.evaluation.reward_models``): no reward
enters the value of a policy that it has shaped. The honest value is that of policies learned from a share 1 - 1/F of
the rows, which is a little less than that of the policy returned. Rows are taken to be independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._support.checks import items_of, one_of, open_probability, whole_number
from .._support.progress import Progress
from ..data.transformers import FeaturesLike, encoder_of
from ..errors import DataError, ParameterError
from ..types import ArmLike, BoolArray, FloatArray, IntArray, TableLike
from .learned_policy import LearnedPolicy
from .logs import BLOCK, BanditLog, Block, Layout, feature_columns, is_independent
from .off_policy import chosen_chances, collected, estimates_of, require_weights
from .policies import RewardModelLike, TargetLike, arms_of, policy_of, reading_of
from .policy_search import Rule, Scores, best_rule, bound_of, choose
from .reward_models import fitted

KINDS = ("arm", "split", "tree", "linear")
LEAST_ROWS = 100
_CHOICE = 3  # of as many rows one is kept to choose the kind


def learn_policy(
    log: TableLike,
    *,
    kinds: Iterable[str] = KINDS,
    confidence: float = 0.95,
    folds: int = 5,
    reward_model: RewardModelLike = None,
    logging_policy: TargetLike | None = None,
    interval: str = "bernstein",
    reward_range: Sequence[float] | None = None,
    max_weight: float | None = None,
    features: FeaturesLike | None = None,
    arms: Iterable[ArmLike] | None = None,
    columns: Mapping[str, Any] | None = None,
    missing_reward: float | str | None = None,
    episode: bool | None = None,
) -> LearnedPolicy:
    """Learn a policy from a log of decisions, and say honestly what it would have earned.

    The policy has the highest lower confidence bound of the doubly robust value that is found among single arms, trees
    of depth 1 and 2, and linear scores. Its ``value`` comes from held-out folds. The log is held in memory.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table, Journal or rows
        The decisions, as for ``off_policy``, with contexts.
    kinds : iterable of {"arm", "split", "tree", "linear"}, optional
        Kinds of policies to choose from: one arm, trees of depth 1 and 2, linear scores. The default is all.
    confidence : float, default=0.95
        Confidence of the lower bound, and of the intervals.
    folds : int, default=5
        Number of folds, of the honest value and of the cross-fit of reward models.
    reward_model : estimator, optional
        An unfitted object with ``fit`` and ``predict``. By default a ridge regression for each arm.
    logging_policy : bandit, array_like, callable, str or dict, optional
        The policy that acted, for a log without propensities.
    interval : {"bernstein", "normal"}, default="bernstein"
        Kind of the intervals of honest values, as for ``off_policy``.
    reward_range : pair of float, optional
        Lowest and highest possible reward.
    max_weight : float, optional
        Largest possible weight.
    features : sequence of str or Features, optional
        The columns of a wide table that make the context, or ``Features`` that make numbers of columns.
    arms : iterable, optional
        Names of the arms.
    columns : dict, optional
        Names of the columns that differ from the default.
    missing_reward : float or "skip", optional
        What to do with a row without a reward.
    episode : False, optional
        False says that the rows of a log with a column of episodes are independent decisions.

    Returns
    -------
    LearnedPolicy
        The policy, with its honest value.

    Raises
    ------
    DataError
        If the log is malformed or has fewer than 100 rows.
    ParameterError
        If an argument is out of range.

    Warns
    -----
    OverlapWarning
        If the log says too little about the policies for honest values to be reliable.

    See Also
    --------
    off_policy : Evaluate a policy that is given.

    References
    ----------
    Dudik, Langford, Li (2011), Doubly robust policy evaluation and learning.
    Athey, Wager (2021), Policy learning with observational data.
    Swaminathan, Joachims (2015), Counterfactual risk minimization.

    Examples
    --------
    >>> import prudent as pr
    >>> log = [([x / 9], arm, float(arm == ("b" if x > 4 else "a")), 0.5) for x in range(10) for arm in "ab" * 60]
    >>> print(pr.learn_policy(log, kinds=["arm", "split"]))
    Policy learned from 1,200 rows: a tree of depth 1
      x0 <= 0.4444: a
      x0 > 0.4444: b
    honest value from held-out folds: 1 [0.96315, 1] at 0.95; log itself: 0.5
    """
    wanted = tuple(dict.fromkeys(one_of(kind, "kinds", KINDS) for kind in items_of(kinds, "kinds")))
    if not wanted:
        raise ParameterError("kinds is empty: name at least one kind of policy", code="empty", argument="kinds")
    level, size = open_probability(confidence, "confidence"), whole_number(folds, "folds", minimum=2, maximum=100)
    one_of(interval, "interval", ("bernstein", "normal"))
    encoder = encoder_of(features)
    reading = reading_of(logging_policy)
    wide = feature_columns(features) if encoder is None else None
    layout = Layout(
        wide, columns, arms, missing_reward, BLOCK, False, encoder or reading, is_independent(episode), learn=True
    )
    held = _held(log, layout, logging_policy)
    with closing(Progress("learning a policy")) as line:
        learner = _Learner(held, wanted, level, size, reward_model, line)
        chosen = learner.honest()
        everything = np.arange(len(held.block))
        kind, rule = learner.learn(everything, "all rows")
    return _result(held, kind, rule, learner, chosen, level, interval, reward_range, max_weight)


@dataclass(frozen=True)
class _Held:
    """A log in memory, as reward models and ``off_policy`` read it; rows are numbered 0, 1, ..."""

    block: Block
    arms: tuple[Any, ...]
    dim: int
    features: tuple[str, ...]
    encoder: Any
    log: BanditLog

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.block)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows."""
        yield self.block

    def require_contexts(self, what: str) -> None:
        """Do nothing: it has contexts."""

    def part(self, rows: IntArray) -> _Held:
        """Return some of the rows, numbered anew."""
        return replace(self, block=replace(self.block.part(rows), rows=np.arange(rows.size)))


def _held(log: TableLike, layout: Layout, logging_policy: TargetLike | None) -> _Held:
    with BanditLog(log, layout, arms_of(logging_policy)) as read:
        read.require_contexts("learn_policy")
        if read.n < LEAST_ROWS:
            message = f"log has {read.n} rows with a reward, expected at least {LEAST_ROWS} to learn a policy from"
            raise DataError(message, code="too-few-rows", argument="log", value=read.n, expected=LEAST_ROWS)
        logging = None if logging_policy is None else policy_of(logging_policy, read, "logging_policy")
        if logging is None and not read.has_propensities:
            message = (
                "log has no column 'propensity': give columns={'propensity': ...} if it has another name, or the "
                "policy that acted as logging_policy, for instance 'uniform'"
            )
            raise DataError(message, code="missing-column", column="propensity")
        parts = []
        for block in read.blocks():
            chances = block.chances
            if logging is not None:
                chances = chosen_chances(logging(block), block, read.arms)
            with np.errstate(over="ignore"):  # refused
                require_weights(1.0 / chances, chances, block.rows)
            parts.append((block.contexts, block.arms, block.rewards, chances, block.eligible(len(read.arms))))
        contexts, chosen, rewards, chances = (np.concatenate([part[i] for part in parts]) for i in range(4))
        masks = [part[4] for part in parts]
        eligible: BoolArray | None = None
        if any(mask is not None for mask in masks):
            full = [np.ones((len(part[0]), len(read.arms)), dtype=np.bool_) for part in parts]
            eligible = np.concatenate([one if mask is None else mask for one, mask in zip(full, masks, strict=True)])
        which, members, ends = _sets(eligible, len(chosen))
        names = read.features or tuple(f"x{j}" for j in range(read.dim))
        block = Block(
            np.arange(len(chosen)),
            contexts,
            chosen,
            rewards,
            chances,
            np.full(len(chosen), np.nan),
            which,
            members,
            ends,
        )
        return _Held(block, read.arms, read.dim, tuple(names), read.encoder, read)


def _sets(eligible: BoolArray | None, count: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the number of the set of eligible arms of each row, the sets, and where each of them ends."""
    if eligible is None:
        return np.full(count, -1), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    different, which = np.unique(eligible, axis=0, return_inverse=True)
    members = [np.flatnonzero(mask) for mask in different]
    return which.reshape(-1), np.concatenate(members), np.cumsum([one.size for one in members])


class _Learner:
    """The whole procedure, on some rows of a log."""

    def __init__(
        self, held: _Held, kinds: tuple[str, ...], confidence: float, folds: int, model: RewardModelLike, line: Progress
    ) -> None:
        from scipy.special import ndtri

        self.held, self.kinds, self.folds, self.model, self._line = held, kinds, folds, model, line
        self.z = float(ndtri(confidence))
        self._tasks, self._done = (folds + 1) * (len(kinds) + 1), 0

    def scores(self, rows: IntArray) -> Scores:
        """Return the doubly robust scores of rows, by reward models that were fitted to these rows alone."""
        part = self.held.part(rows)
        model: Any = fitted(self.model, part, self.folds)  # type: ignore[arg-type]
        block = part.block
        values: FloatArray = model.predict(block)
        at = np.arange(len(block)), block.arms
        values[at] += (block.rewards - values[at]) / block.chances
        eligible = block.eligible(len(part.arms))
        if eligible is not None:
            mean = (values * eligible).sum(axis=1, keepdims=True) / eligible.sum(axis=1, keepdims=True)
            values = np.where(eligible, values, mean)
        return Scores.of(block.contexts, values, eligible)

    def learn(self, rows: IntArray, name: str) -> tuple[str, dict[str, Rule]]:
        """Return the kind that is chosen, and the rules of all kinds."""
        scores = self.scores(rows)
        apart = np.arange(rows.size) // self.folds % _CHOICE == 0  # the folds of reward models are dealt likewise
        bounds = {}
        for kind in self.kinds if len(self.kinds) > 1 else ():
            self._step(name)
            rule = best_rule(kind, scores.part(~apart), self.z)
            bounds[kind] = bound_of(rule, scores.part(apart), self.z).lower
        self._step(name)
        rules = {kind: best_rule(kind, scores, self.z) for kind in self.kinds}
        return max(bounds, key=lambda kind: bounds[kind]) if bounds else self.kinds[0], rules

    def _step(self, name: str) -> None:
        self._done += 1
        self._line.show(f"{name}, {self._done} of {self._tasks} steps")

    def honest(self) -> dict[str, Any]:
        """Return, for each kind and for the procedure, the arms [T] chosen by policies that have not seen the row."""
        held, count = self.held, self.held.n
        found: dict[str, Any] = {kind: np.zeros(count, dtype=np.int64) for kind in (*self.kinds, "learned")}
        shares = dict.fromkeys(self.kinds, 0)
        mask = held.block.eligible(len(held.arms))
        fold = held.block.rows % self.folds
        for f in range(self.folds):
            mine = np.flatnonzero(fold == f)
            best, rules = self.learn(np.flatnonzero(fold != f), f"fold {f + 1} of {self.folds}")
            shares[best] += 1
            for kind, rule in rules.items():
                found[kind][mine] = choose(rule, held.block.contexts[mine], None if mask is None else mask[mine])
            found["learned"][mine] = found[best][mine]
        return found | {"shares": shares}


def _result(
    held: _Held,
    kind: str,
    rules: dict[str, Rule],
    learner: _Learner,
    chosen: dict[str, Any],
    confidence: float,
    interval: str,
    reward_range: Sequence[float] | None,
    max_weight: float | None,
) -> LearnedPolicy:
    import warnings

    import pandas

    from ..errors import OverlapWarning

    block = held.block
    frame: dict[str, Any] = {
        "context": block.contexts,
        "arm": [held.arms[a] for a in block.arms.tolist()],
        "reward": block.rewards,
        "propensity": block.chances,
    }
    eligible = block.eligible(len(held.arms))
    if eligible is not None:
        frame["arms"] = [[held.arms[a] for a in np.flatnonzero(mask)] for mask in eligible]
    layout = Layout(arms=held.arms)
    shares = chosen.pop("shares")
    rows, estimates = {}, None
    for name in ("learned", *learner.kinds):
        target = np.zeros((held.n, len(held.arms)))
        target[np.arange(held.n), chosen[name]] = 1.0
        sums = collected(
            frame, target, learner.model, None, learner.folds, layout, None, None, max_weight, reward_range
        )
        found = estimates_of(sums, confidence, interval)
        rows[name] = {
            **found.table.loc["dr", ["estimate", "low", "high"]].to_dict(),
            "chosen": 1.0 if name == "learned" else shares[name] / learner.folds,
        }
        estimates = found if name == "learned" else estimates
    assert estimates is not None
    if estimates.warnings:
        warnings.warn(
            OverlapWarning("; ".join(estimates.warnings), code="overlap", value=estimates.warning_codes), stacklevel=3
        )
    table = pandas.DataFrame.from_dict(rows, orient="index").rename_axis("kind")
    value = table.loc["learned"]
    scores = learner.scores(np.arange(held.n))
    return LearnedPolicy(
        kind,
        held.arms,
        held.features,
        rules[kind],
        value=float(value["estimate"]),
        low=float(value["low"]),
        high=float(value["high"]),
        lower_bound=scores.unit * bound_of(rules[kind], scores, learner.z).lower,
        logged=estimates.value,
        confidence=confidence,
        n=held.n,
        table=table,
        encoder=held.encoder,
        estimates=estimates,
    )
