"""Off-policy evaluation of episodes: all estimates, their intervals and the verdict."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._support.checks import (
    discount_factor,
    finite_array,
    flag,
    generator,
    items_of,
    one_of,
    open_probability,
    risk_level,
    whole_number,
)
from ...data.state_map import StateMap
from ...errors import DataError, OverlapWarning, ParameterError, PrudentError
from ...types import BoolArray, FloatArray, Label, RngLike, TableLike
from . import marginal, tabular
from .intervals import Interval, Resamples, bootstrap, bootstrap_mean, safe_limits, student
from .log import EpisodeLog, read_episodes
from .policies import Behaviour, Target, actions_of, design_matrix, feature_names, read_behaviour, read_target
from .policies import state_means as mean_policy
from .posterior import model_returns
from .regression import fitted_values
from .result import EpisodeEstimates
from .verdict import UNCHECKED, Facts, Reason, mean_weight, model_check, overlap, per_decision_ess, recommended
from .weights import RatioSum, Weights, effective, weighted_estimates

ESTIMATORS = ("is", "wis", "pdis", "wpdis", "dr", "wdr", "mis", "fqe", "model")
INTERVALS = ("bootstrap", "normal")
MARGINALS = ("step", "state")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
NO_STATES = Reason("no-states", "it needs states: a column 'state', or a state map as states=")
NOT_OF_STATES = Reason("not-of-states", "the policy depends on more than the state")
NO_VALUES = Reason(
    "no-values",
    "values need states, a regressor of the columns (q_model=), or scikit-learn: pip install 'prudent[states]'",
)
NEVER_ENDS = Reason("never-ends", "under the policy the process need not end, and the discount is 1")
TREES = {"n_estimators": 50, "min_samples_leaf": 5, "random_state": 0}


class Options(NamedTuple):
    """Keywords of ``off_policy`` for episodes.

    Attributes
    ----------
    discount : float
        Discount factor in [0, 1].
    episode : str, optional
        Column of episodes.
    horizon : int, optional
        Number of steps that count.
    terminal : iterable, optional
        States where the process ends.
    unfinished : str
        What to do with unfinished episodes.
    states : StateMap, optional
        Map that gives rows their states.
    features : sequence of str, optional
        Columns that describe a row.
    logging_policy : policy, optional
        The policy that acted.
    propensities : str, optional
        How propensities are found.
    q_model : regressor, optional
        Regressor of values.
    marginal : str
        Weights of ``mis``.
    markov : bool
        Whether states are Markov.
    folds : int
        Folds of the cross-fit.
    confidence : float
        Confidence of intervals.
    interval : str
        Kind of intervals.
    return_range : pair of float, optional
        Range of returns.
    quantiles : sequence of float
        Probabilities of the quantiles of the return.
    tail_alpha : float
        Level of the CVaR of the return.
    draws : int
        Replicates of the bootstrap.
    rng : seed
        Source of randomness.
    columns : mapping, optional
        Names of columns.
    """

    discount: float
    episode: str | None = None
    horizon: int | None = None
    terminal: Iterable[Label] | None = None
    unfinished: str = "error"
    states: StateMap | None = None
    features: Sequence[str] | None = None
    logging_policy: Any = None
    propensities: str | None = None
    q_model: Any = None
    marginal: str = "step"
    markov: bool = False
    folds: int = 5
    confidence: float = 0.95
    interval: str = "bootstrap"
    return_range: Sequence[float] | None = None
    quantiles: Sequence[float] = QUANTILES
    tail_alpha: float = 0.9
    draws: int = 1000
    rng: RngLike = 1
    columns: Mapping[str, Any] | None = None


class _Row(NamedTuple):
    """One estimate."""

    value: float
    interval: Interval
    facts: Facts | None
    influence: FloatArray | None
    reason: Reason | None
    safe: Interval | None = None


def evaluate_episodes(log: TableLike, policy: Any, options: Options) -> EpisodeEstimates:
    """Return all estimates of what a policy would have earned; ``off_policy`` has the description."""
    chosen = _checked(options)
    read = read_episodes(
        log,
        episode=chosen.episode,
        columns=chosen.columns,
        horizon=chosen.horizon,
        terminal=chosen.terminal,
        unfinished=chosen.unfinished,
        states=_state_map(chosen.states, policy, log),
    )
    if read.n < 2:
        raise DataError("log has one episode, expected at least two", code="few-episodes", argument="log", value=read.n)
    read = read.with_actions([*actions_of(policy), *actions_of(chosen.logging_policy)])
    target = read_target(policy, read, "target")
    features = None if chosen.features is None else items_of(chosen.features, "features")
    behaviour = read_behaviour(read, chosen.logging_policy, chosen.propensities, features)
    mine = target.rows[np.arange(read.row.size), read.action]
    logged = isinstance(policy, str) and policy == "logged" and read.by_action.find(policy) < 0
    weights = Weights.of(read, np.ones(read.row.size) if logged else mine / behaviour.chances)
    return _Work(read, target, behaviour, weights, chosen, features).result()


def _checked(options: Options) -> Options:
    one_of(options.interval, "interval", INTERVALS)
    one_of(options.marginal, "marginal", MARGINALS)
    given = finite_array(options.quantiles, "quantiles", ndim=1, error=ParameterError)
    if not given.size:
        raise ParameterError("quantiles must hold a probability, got none", code="empty", argument="quantiles")
    chances = [open_probability(q, "quantiles") for q in given]
    return options._replace(
        discount=discount_factor(options.discount, one=True),
        markov=flag(options.markov, "markov"),
        folds=whole_number(options.folds, "folds", minimum=2, maximum=10_000),
        confidence=open_probability(options.confidence, "confidence"),
        quantiles=sorted(set(chances)),
        tail_alpha=risk_level(options.tail_alpha, "tail_alpha", cautious=True),
        draws=whole_number(options.draws, "draws", minimum=100, memory=64.0),
    )


def _state_map(states: StateMap | None, policy: Any, log: TableLike) -> StateMap | None:
    """Return the map that gives rows their states: as given, or that of a solution whose log had features."""
    if states is not None:
        if not isinstance(states, StateMap):
            message = f"states must be a StateMap, got {states!r}"
            raise ParameterError(message, code="wrong-type", argument="states", value=states)
        return states
    model = getattr(getattr(policy, "_problem", None), "model", None)
    found = getattr(getattr(model, "summary", None), "state_map", None)
    return found if isinstance(found, StateMap) else None


class _Work:
    """The estimates of one log and one policy."""

    def __init__(
        self,
        log: EpisodeLog,
        target: Target,
        behaviour: Behaviour,
        weights: Weights,
        options: Options,
        features: list[str] | None,
    ) -> None:
        self.log, self.target, self.behaviour, self.weights = log, target, behaviour, weights
        self.options, self.features = options, features
        self.rng = generator(options.rng)
        self.chunks = Resamples(log.n, options.draws, self.rng)
        self.folds = min(options.folds, log.n)
        self.q_name = "none"
        self.fitted: tuple[FloatArray | None, FloatArray | None] = (None, None)

    def result(self) -> EpisodeEstimates:
        """Return the result."""
        import pandas

        log, options = self.log, self.options
        earned = log.returns(options.discount)
        ends, observed = self._range(earned)
        rows = self._by_weights(earned, ends)
        rows |= self._by_states(rows)
        ordered = {name: rows[name] for name in ESTIMATORS}
        table = pandas.DataFrame.from_dict(
            {name: _cells(row) for name, row in ordered.items()}, orient="index"
        ).rename_axis("estimator")
        best = recommended({name: row.reason for name, row in ordered.items()})
        verdict = _verdict(best, ordered)
        if best is None:
            codes = tuple(dict.fromkeys(row.reason.code for row in ordered.values() if row.reason is not None))
            warnings.warn(OverlapWarning(verdict, code="overlap", value=codes), stacklevel=4)
        own = student(float(earned.mean()), earned - earned.mean(), 0.0, options.confidence)
        return EpisodeEstimates(
            table=table,
            by_step=self._steps(),
            returns=self._returns(earned),
            recommended=best,
            verdict=verdict,
            value=float(earned.mean()),
            value_low=own.low,
            value_high=own.high,
            confidence=options.confidence,
            interval=options.interval,
            discount=options.discount,
            horizon=log.horizon,
            n=log.n,
            rows=log.row.size,
            dropped=log.dropped,
            propensities=self.behaviour.source,
            calibration=self.behaviour.calibration,
            calibration_error=self.behaviour.error,
            q_model=self.q_name,
            return_range=ends,
            range_observed=observed,
        )

    def _range(self, earned: FloatArray) -> tuple[tuple[float, float], bool]:
        """Return the range of returns, and whether it is that of the log."""
        given = self.options.return_range
        seen = float(earned.min()), float(earned.max())
        if given is None:
            return seen, True
        ends = finite_array(given, "return_range", ndim=1, error=ParameterError).tolist()
        if len(ends) != 2 or not ends[0] < ends[1]:
            message = f"return_range must be the lowest and the highest possible return, got {given!r}"
            raise ParameterError(message, code="wrong-range", argument="return_range", value=given)
        slack = 1e-9 * max(abs(ends[0]), abs(ends[1]))
        if seen[0] < ends[0] - slack or seen[1] > ends[1] + slack:
            message = f"returns go from {seen[0]} to {seen[1]}, beyond return_range {tuple(ends)}"
            raise DataError(message, code="reward-range", argument="return_range", value=seen, expected=tuple(ends))
        return (ends[0], ends[1]), False

    def _interval(self, estimate: RatioSum) -> Interval:
        if self.options.interval == "normal":
            return student(estimate.value, estimate.influence, 0.0, self.options.confidence)
        return bootstrap(estimate, self.chunks, self.options.confidence)

    def _mean_interval(self, value: float, influence: FloatArray, extra: float) -> Interval:
        if self.options.interval == "normal":
            return student(value, influence, extra, self.options.confidence)
        return bootstrap_mean(value, influence, extra, self.chunks, self.options.confidence)

    # -- by weights ----------------------------------------------------------------------------------------

    def _by_weights(self, earned: FloatArray, ends: tuple[float, float]) -> dict[str, _Row]:
        """Return is, wis, pdis, wpdis, dr and wdr."""
        log, weights, discount = self.log, self.weights, self.options.discount
        self.fitted = q, v = self._values()
        found = weighted_estimates(log, weights, discount, q, v)
        alive = log.padded(np.ones(log.row.size))
        rewards = log.padded(log.reward) * discount ** np.arange(log.longest)
        whole, each = effective(weights.last), per_decision_ess(weights.upto, rewards, alive)
        share = float(weights.last.max() / weights.last.sum()) if whole > 0.0 else math.nan
        uncovered = self._uncovered()
        stray = mean_weight(weights.upto)
        safe = safe_limits(weights.last, earned, ends, self.options.confidence) if ends[0] < ends[1] else None
        rows = {}
        for name in ESTIMATORS[:6]:
            if name not in found:
                rows[name] = _missing(NO_VALUES)
                continue
            estimate = found[name]
            ess = whole if name in ("is", "wis") else each
            facts = Facts(ess, share if whole > 0.0 else 1.0, log.n, estimate.influence, uncovered)
            reason = overlap(facts, "episodes") or stray
            interval = self._interval(estimate)
            bounds = safe if name in ("is", "wis") else None
            rows[name] = _Row(estimate.value, interval, facts, estimate.influence, reason, bounds)
        return rows

    def _uncovered(self) -> float:
        """Return the share of the target's choices that are actions which the log never shows.

        That a rare state lacks an action is chance where propensities are known, and weights make up for it.
        """
        log = self.log
        seen = np.bincount(log.action, minlength=log.by_action.size) > 0
        lacking = self.target.rows[:, ~seen].sum(axis=1)
        before = self.weights.before[log.episode, log.place] * self.options.discount**log.place
        total = float(before.sum())
        return float(before @ lacking / total) if total > 0.0 else 1.0

    def _values(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return values q, v [M] by models that have not seen the episode."""
        log, options = self.log, self.options
        regressor = options.q_model
        if regressor is None and log.state is not None:
            self.q_name = f"table of states, {self.folds} folds"
            return self._tabular_values()
        if regressor is None:
            try:
                ensemble = importlib.import_module("sklearn.ensemble")
            except ImportError:
                return None, None
            regressor = ensemble.ExtraTreesRegressor(**TREES)
        self.q_name = f"{type(regressor).__name__} of columns, {self.folds} folds"
        points = design_matrix(log.frame, feature_names(log, self.features))
        return fitted_values(log, points, self.target.rows, options.discount, regressor, self.folds)

    def _tabular_values(self) -> tuple[FloatArray | None, FloatArray | None]:
        log, discount = self.log, self.options.discount
        groups = tabular.pairs_of(log)
        action, fold = _actions(log, groups), log.episode % self.folds
        by_state = self.target.by_state or _fixed(mean_policy(self.target, log))
        q, v = np.empty((2, log.row.size))
        for k in range(self.folds):
            table = tabular.tabulate(log, groups, fold != k, tabular.SHRINKAGE)
            policy = tabular.followed(table, by_state, action, self.target.stationary)
            found = tabular.values(log, table, policy, discount, self.target.rows)
            if found is None:  # a process that need not end: values of as many steps as the longest episode has
                found = tabular.values(log.until(log.longest), table, policy, discount, self.target.rows)
            assert found is not None
            q[fold == k], v[fold == k] = found.q[fold == k], found.v[fold == k]
        return q, v

    # -- by states -----------------------------------------------------------------------------------------

    def _by_states(self, others: Mapping[str, _Row]) -> dict[str, _Row]:
        """Return mis, fqe and model."""
        log, discount = self.log, self.options.discount
        if log.state is None or log.by_state is None:
            rows = {name: _missing(NO_STATES) for name in ("mis", "fqe", "model")}
            if "dr" in others and others["dr"].facts is not None:
                rows["fqe"] = self._regressed(others["dr"])
            return rows
        everything = np.ones(log.row.size, dtype=np.bool_)
        rows = {"mis": self._marginal(everything, others)}
        if self.target.by_state is None and not self._is_logged():
            return rows | {"fqe": _missing(NOT_OF_STATES), "model": _missing(NOT_OF_STATES)}
        by_state = self.target.by_state or _fixed(mean_policy(self.target, log))
        groups = tabular.pairs_of(log)
        table = tabular.tabulate(log, groups, everything)
        policy = tabular.followed(table, by_state, _actions(log, groups), self.target.stationary)
        found = tabular.evaluate(log, table, policy, discount)
        if found is None:
            return rows | {"fqe": _missing(NEVER_ENDS), "model": _missing(NEVER_ENDS)}
        facts = _facts(found.weight, found.influence, found.unseen)
        interval = self._mean_interval(found.value, found.influence, found.extra)
        reason = self._markov_doubt(found.value, facts, others)
        rows["fqe"] = _Row(found.value, interval, facts, found.influence, reason)
        if self.options.q_model is not None and others["dr"].facts is not None:
            rows["fqe"] = self._regressed(others["dr"])
        rows["model"] = self._model(by_state, found, facts, reason)
        return rows

    def _is_logged(self) -> bool:
        return bool((self.weights.ratio == 1.0).all())

    def _regressed(self, other: _Row) -> _Row:
        """Return fqe by a regressor; its interval contains that of dr, which measures the error of the values."""
        v = self.fitted[1]
        assert v is not None
        first = v[self.log.first]
        value = float(first.mean())
        own = self._mean_interval(value, first - value, 0.0)
        interval = Interval(min(own.low, other.interval.low), max(own.high, other.interval.high), own.error)
        facts = other.facts
        assert facts is not None
        reason = other.reason
        if reason is None and not other.interval.low <= value <= other.interval.high:
            reason = Reason("model-check", "it lies outside the interval of dr: the regressor does not fit")
        return _Row(value, interval, facts, first - value, reason)

    def _marginal(self, everything: BoolArray, others: Mapping[str, _Row]) -> _Row:
        log, discount, ratio = self.log, self.options.discount, self.weights.ratio
        uncovered = self._uncovered()
        if self.options.marginal == "step":
            found = marginal.by_step(log, ratio, discount)
            facts = _facts(found.weight, found.influence, uncovered)
            value, influence, extra = found.value, found.influence, 0.0
        else:
            groups = tabular.states_of(log, ratio)
            table = tabular.tabulate(log, groups, everything)
            one = tabular.Policy(lambda _: np.ones(groups.state.size), np.zeros(groups.state.size), True)
            chain = tabular.evaluate(log, table, one, discount)
            if chain is None:
                return _missing(NEVER_ENDS)
            facts = _facts(chain.weight, chain.influence, uncovered)
            value, influence, extra = chain.value, chain.influence, chain.extra
        interval = self._mean_interval(value, influence, extra)
        return _Row(value, interval, facts, influence, self._markov_doubt(value, facts, others))

    def _markov_doubt(self, value: float, facts: Facts, others: Mapping[str, _Row]) -> Reason | None:
        """Return the reason against an estimate that needs Markov states."""
        found = overlap(facts, "rows")
        if found is not None or self.options.markov:
            return found
        name = recommended({name: row.reason for name, row in others.items()})
        if name is None:
            return UNCHECKED
        row = others[name]
        assert row.influence is not None
        return model_check(value, facts.influence, row.value, row.influence, name)

    def _model(self, by_state: Any, fqe: tabular.Evaluation, facts: Facts, reason: Reason | None) -> _Row:
        stationary, draws = self.target.stationary, min(self.options.draws, 400)
        try:
            returns = model_returns(self.log, by_state, stationary, self.options.discount, fqe.start, draws, self.rng)
        except PrudentError as fault:
            return _missing(Reason(fault.code, str(fault)))
        tail = 0.5 * (1.0 - self.options.confidence)
        low, high = np.quantile(returns, (tail, 1.0 - tail))
        interval = Interval(float(low), float(high), float(returns.std(ddof=1)))
        return _Row(float(returns.mean()), interval, facts, None, reason)

    # -- other tables --------------------------------------------------------------------------------------

    def _steps(self) -> Any:
        import pandas

        log, upto = self.log, self.weights.upto
        last = np.bincount(log.lengths, minlength=log.longest + 1)
        totals = upto.sum(axis=0)
        return pandas.DataFrame(
            {
                "episodes": log.n - np.cumsum(last)[:-1],
                "ess": [effective(column) for column in upto.T],
                "largest_weight": upto.max(axis=0),
                "largest_share": upto.max(axis=0) / np.where(totals > 0.0, totals, np.nan),
                "mean_weight": upto.mean(axis=0),
            },
            index=pandas.RangeIndex(log.longest, name="step"),
        )

    def _returns(self, earned: FloatArray) -> Any:
        """Return quantiles and CVaR of the return by weights of episodes, and those of the log."""
        import pandas

        order = np.argsort(earned, kind="stable")
        sorted_returns, weight = earned[order], self.weights.last[order]
        probabilities, tail = np.asarray(self.options.quantiles), 1.0 - self.options.tail_alpha
        names = [f"quantile {q:g}" for q in probabilities] + [f"cvar {self.options.tail_alpha:g}"]
        if not weight.sum() > 0.0:
            blank = np.full((3, len(names)), np.nan)
        else:
            value = _distribution(sorted_returns, weight[np.newaxis], probabilities, tail)[0]
            drawn = []
            for counts in self.chunks:
                again = counts[:, order] * weight
                drawn.append(_distribution(sorted_returns, again[again.sum(axis=1) > 0.0], probabilities, tail))
            edge = 0.5 * (1.0 - self.options.confidence)
            blank = np.stack([value, *np.quantile(np.concatenate(drawn), (edge, 1.0 - edge), axis=0)])
        logged = _distribution(sorted_returns, np.ones((1, earned.size)), probabilities, tail)[0]
        columns = dict(zip(("estimate", "low", "high", "logged"), [*blank, logged], strict=True))
        return pandas.DataFrame(columns, index=pandas.Index(names, name="measure"))


def _distribution(values: FloatArray, weights: FloatArray, quantiles: FloatArray, tail: float) -> FloatArray:
    """Return quantiles and the mean of the lowest ``tail`` [B, Q + 1] of sorted values [n] with weights [B, n]."""
    share = np.cumsum(weights, axis=1)
    share /= share[:, -1:]
    places = np.stack([(share < q - 1e-12).sum(axis=1) for q in quantiles], axis=1)
    part = np.diff(np.minimum(share, tail), axis=1, prepend=0.0)
    return np.column_stack([values[np.minimum(places, values.size - 1)], part @ values / tail])


def _cells(row: _Row) -> dict[str, Any]:
    facts, reason, safe = row.facts, row.reason, row.safe
    return {
        "estimate": row.value,
        "low": row.interval.low,
        "high": row.interval.high,
        "ess": math.nan if facts is None else facts.ess,
        "answers": reason is None,
        "error": row.interval.error,
        "largest": math.nan if facts is None else facts.largest,
        "safe_low": math.nan if safe is None else safe.low,
        "safe_high": math.nan if safe is None else safe.high,
        "code": "" if reason is None else reason.code,
        "reason": "" if reason is None else reason.text,
    }


def _missing(reason: Reason) -> _Row:
    return _Row(math.nan, Interval(-math.inf, math.inf, math.nan), None, None, reason)


def _facts(weight: FloatArray, influence: FloatArray, uncovered: float) -> Facts:
    ess = effective(weight)
    largest = float(weight.max() / weight.sum()) if ess > 0.0 else 1.0
    return Facts(ess, largest, weight.size, influence, uncovered)


def _actions(log: EpisodeLog, groups: tabular.Groups) -> Any:
    """Return the action of each pair."""
    action = np.empty(groups.state.size, dtype=np.int64)
    action[groups.of_row] = log.action
    return action


def _fixed(table: FloatArray) -> Any:
    return lambda _: table


def _verdict(best: str | None, rows: Mapping[str, _Row]) -> str:
    if best is not None:
        needs = ", if the states are Markov" if best in ("fqe", "mis") else ""
        return f"the log can answer{needs}; take {best}"
    why = rows["wdr"].reason or rows["wpdis"].reason
    assert why is not None
    text = f"the log cannot answer: {why.text}"
    if rows["fqe"].reason is UNCHECKED:
        text += "; if the states are Markov, fqe says what it would (markov=True)"
    return text
