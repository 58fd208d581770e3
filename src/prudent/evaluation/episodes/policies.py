"""The target and the policy that acted, as probabilities of actions in the rows of a log of episodes.

A target is a policy of states (``prudent.data.policy.Policy``: a Solution, a dict, an array, a table), a function of
the columns of the log, an array with a row for each row of the log, the name of an action, ``"uniform"``, or
``"logged"``.

Where the log has no propensities they are estimated: by the counts of each state, shrunk towards the frequencies of all
states, or by a multinomial logit of the columns (scikit-learn). Both are fitted to the whole log, which is what makes
estimated propensities no worse than known ones; how well calibrated they are is measured on episodes that were left
out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._support.checks import first_place, number_array, one_of
from ...data.labels import Labels, cell
from ...data.policy import Policy
from ...errors import DataError, ParameterError
from ...types import BoolArray, FloatArray, HasPolicy, IntArray
from .log import EpisodeLog

if TYPE_CHECKING:
    import pandas

TOLERANCE = 1e-6  # of a sum of probabilities
PROPENSITIES = ("log", "counts", "logit")
MASS = 1.0  # of the frequencies of all states in those of one state
BINS = 10  # of a table of calibration
FOLDS = 5


@dataclass
class Space:
    """States and actions that a policy of states is read for."""

    state_labels: Labels
    action_labels: Labels
    admissible: BoolArray
    terminal: BoolArray


@dataclass(frozen=True, eq=False)
class Target:
    """Probabilities of actions.

    Attributes
    ----------
    rows : float64 [M, A]
        In the rows of the log.
    by_state : function of the step, optional
        Probabilities [S, A] of all states that the log acts in, at a step; None if the policy does not depend on the
        state and the step alone.
    stationary : bool
        Whether ``by_state`` is the same at all steps.
    """

    rows: FloatArray
    by_state: Callable[[int], FloatArray] | None
    stationary: bool = True


class Behaviour(NamedTuple):
    """Propensities of the logged actions.

    Attributes
    ----------
    chances : float64 [M]
        Probability of the logged action.
    source : str
        Where they come from.
    calibration : DataFrame, optional
        Predicted and observed frequencies of actions in episodes that were left out; None if not estimated.
    error : float
        Mean difference between predicted and observed frequencies, weighted by the number of rows; NaN if not
        estimated.
    """

    chances: FloatArray
    source: str
    calibration: pandas.DataFrame | None
    error: float


# -- the target --------------------------------------------------------------------------------------------


def actions_of(policy: Any) -> list[Any]:
    """Return the names of actions that a policy has."""
    if isinstance(policy, HasPolicy):
        return list(policy.actions)
    if hasattr(policy, "columns"):
        return list(policy.columns)
    if isinstance(policy, Mapping):
        inner = [list(choice) if isinstance(choice, Mapping) else [choice] for choice in policy.values()]
        return [name for names in inner for name in names if isinstance(name, str | int | np.integer | tuple)]
    return []


def read_target(policy: Any, log: EpisodeLog, name: str = "policy") -> Target:
    """Return the probabilities of a policy; ``name`` is that of the argument."""
    size = log.by_action.size
    if isinstance(policy, str) and policy in ("uniform", "logged") and log.by_action.find(policy) < 0:
        if policy == "uniform":
            return _same(np.full(size, 1.0 / size), log)
        return Target(np.eye(size)[log.action], None)
    if isinstance(policy, str | int | np.integer) and not isinstance(policy, bool):
        chosen = log.by_action.find(policy)
        if chosen < 0:
            message = f"{name} is {policy!r}, expected {log.by_action.expected()}, 'uniform' or 'logged'"
            raise ParameterError(message, code="unknown-action", argument=name, value=policy)
        return _same(np.eye(size)[chosen], log)
    if callable(policy) and not isinstance(policy, HasPolicy | Mapping):
        return _checked(_of_function(policy, log, name), log, name)
    _require_shape(policy, name)
    by_row = _by_row(policy, log, name)
    if by_row is not None:
        return _checked(by_row, log, name)
    return _of_states(policy, log, name)


def _require_shape(policy: Any, name: str) -> None:
    """Raise if an array or a list has no rows, or rows of several lengths."""
    try:
        fits = not isinstance(policy, np.ndarray | list) or np.ndim(policy) > 0
    except ValueError:  # ragged
        fits = False
    if not fits:
        message = f"{name} must have an action, or probabilities of the actions, for each state or row, got {policy!r}"
        raise ParameterError(message[:300], code="wrong-shape", argument=name)


def _same(chances: FloatArray, log: EpisodeLog) -> Target:
    """Return the policy that does the same everywhere."""
    table = None if log.by_state is None else np.tile(chances, (log.by_state.size, 1))
    return Target(np.tile(chances, (log.row.size, 1)), None if table is None else lambda _: table)


def _of_states(policy: Any, log: EpisodeLog, name: str) -> Target:
    if log.by_state is None or log.state is None:
        message = (
            f"{name} is a policy of states, and log has no column 'state'; give columns={{'state': ...}}, a state map "
            "as states=, or a function of the columns of the log"
        )
        raise ParameterError(message, code="missing-column", argument=name, column="state")
    known = log.by_state.names
    order = {state: s for s, state in enumerate(known)}
    states = [*known, *(state for state in _states_of(policy, log) if state not in order)]
    numbers = [state for state in known if isinstance(state, int) and state >= 0]
    rows = np.shape(policy)[-2 if np.ndim(policy) == 3 else 0] if isinstance(policy, np.ndarray | list) else 0
    if len(numbers) == len(known) and rows > max(
        numbers
    ):  # by number, as arrays go, and not by rank among the states of the log
        states = list(range(rows))
    at = {state: s for s, state in enumerate(states)}
    labels = Labels("state", states, len(states), ParameterError)
    acting = np.zeros(len(states), dtype=np.bool_)
    acting[[at[state] for state in known]] = True
    shape = len(states), log.by_action.size
    read = Policy.read(policy, Space(labels, log.by_action, np.ones(shape, dtype=np.bool_), ~acting))
    places = np.array([at[state] for state in known])
    if read.later is None:
        read.require(log.longest)

    def by_state(step: int) -> FloatArray:
        part = read.at(step)
        return part[places] if part.ndim == 2 else np.eye(shape[1])[part[places]]

    stationary = not read.steps.shape[0]
    if stationary:
        fixed = by_state(0)
        return Target(fixed[log.state], lambda _: fixed)
    rows_of = np.empty((log.row.size, shape[1]))
    for step in range(log.longest):
        here = log.place == step
        rows_of[here] = by_state(step)[log.state[here]]
    return Target(rows_of, by_state, False)


def _states_of(policy: Any, log: EpisodeLog) -> list[Any]:
    """Return the names of states that a policy has."""
    if isinstance(policy, HasPolicy):
        return list(policy.states)
    if hasattr(policy, "columns") or hasattr(policy, "iloc"):
        return list(policy.index)
    return list(policy) if isinstance(policy, Mapping) else []


def _by_row(policy: Any, log: EpisodeLog, name: str) -> Any:
    """Return what a policy says in each row of the log, None if it is not by row."""
    if isinstance(policy, HasPolicy | Mapping) or (log.by_state is not None and log.by_state.size == log.rows):
        return None
    if not (isinstance(policy, np.ndarray | list) or hasattr(policy, "iloc")):
        return None
    values: npt.NDArray[Any] = np.asarray(policy)
    if values.ndim not in (1, 2) or values.shape[0] != log.rows:
        return None
    names = list(policy.columns) if hasattr(policy, "columns") else None
    return _numbers(values[log.row], names, log, name)


def _of_function(function: Callable[[Any], Any], log: EpisodeLog, name: str) -> Any:
    """Return what a function of the columns says: of all rows at once, or of each row."""
    frame, size, why = log.frame, log.row.size, ""
    try:
        result = function(frame.copy())
        wide = not isinstance(result, str | Mapping) and np.shape(result)[:1] == (size,)
    except Exception as fault:  # a function of a single row
        result, wide, why = None, False, f"; of the whole table: {type(fault).__name__}: {fault}"
    if not wide:
        found: list[Any] = []
        try:
            found.extend(function(row) for row in frame.to_dict("records"))
        except Exception as fault:
            row = int(log.row[len(found)])
            message = (
                f"{name} failed in log row {row} ({type(fault).__name__}: {fault}{why}); it gets a row as a dict, or "
                f"the whole table, with the columns {list(frame.columns)}"
            )
            raise ParameterError(message, code="policy-failed", argument=name, row=row) from fault
        if all(isinstance(row, Mapping) for row in found):
            chances = np.zeros((size, log.by_action.size))
            for i, row in enumerate(found):
                for action, chance in row.items():
                    chances[i, _action(action, log, name, i)] = chance
            return chances
        result = found
    names = list(result.columns) if hasattr(result, "columns") else None
    return _numbers(np.asarray(result), names, log, name)


def _numbers(values: npt.NDArray[Any], names: list[Any] | None, log: EpisodeLog, name: str) -> FloatArray:
    """Return probabilities [M, A] from numbers [M, A] or names of actions [M]."""
    size = log.by_action.size
    if values.ndim == 1:
        found = log.by_action.find_all(values)
        if (found < 0).any():
            i = int(np.argmin(found))
            _action(cell(values, i), log, name, i)
        return np.eye(size)[found]
    expected = len(names) if names is not None else size
    if values.ndim != 2 or values.shape[1] != expected:
        message = f"{name} has shape {values.shape}, expected ({log.row.size}, {expected}): rows and actions"
        raise ParameterError(message, code="wrong-shape", argument=name, value=values.shape)
    numbers = number_array(values, name, error=ParameterError)
    if names is None:
        return numbers
    chances = np.zeros((values.shape[0], size))
    for action, column in zip(names, numbers.T, strict=True):
        chances[:, _action(action, log, name)] = column
    return chances


def _action(action: Any, log: EpisodeLog, name: str, i: int | None = None) -> int:
    """Return the index of an action, which the policy gives in the i-th row that is used."""
    found = log.by_action.find(action)
    if found < 0:
        where = "has the action" if i is None else f"in log row {int(log.row[i])} gives the action"
        message = f"{name} {where} {action!r}, expected {log.by_action.expected()}"
        raise ParameterError(message, code="unknown-action", argument=name, value=action)
    return found


def _checked(chances: FloatArray, log: EpisodeLog, name: str) -> Target:
    """Return the policy of probabilities by row [M, A], after checks; by state if it depends on the state alone."""
    bad = ~((chances >= 0.0) & (chances <= 1.0 + TOLERANCE))
    off = abs(chances.sum(axis=1) - 1.0) > TOLERANCE
    if bad.any() or off.any():
        i, *a = first_place(bad) if bad.any() else first_place(off)
        row, value = int(log.row[i]), float(chances[i, a[0]] if a else chances[i].sum())
        what = f"action {log.by_action.names[a[0]]!r} the probability" if a else "probabilities with the sum"
        message = f"{name} gives {what} {value} in log row {row}, expected {'one in [0, 1]' if a else '1'}"
        if a:
            raise DataError(message, code="probability-range", argument=name, row=row, value=value)
        raise DataError(message, code="sum-not-one", argument=name, row=row, value=value)
    chances = chances / chances.sum(axis=1, keepdims=True)
    if log.state is None or log.by_state is None:
        return Target(chances, None)
    table = np.zeros((log.by_state.size, chances.shape[1]))
    table[log.state] = chances
    same = bool((abs(table[log.state] - chances) <= TOLERANCE).all())
    return Target(chances, (lambda _: table) if same else None)


def state_means(target: Target, log: EpisodeLog) -> FloatArray:
    """Return the mean probabilities [S, A] of a policy in the rows of each state."""
    assert log.by_state is not None
    assert log.state is not None
    totals = np.zeros((log.by_state.size, target.rows.shape[1]))
    np.add.at(totals, log.state, target.rows)
    return totals / np.bincount(log.state, minlength=log.by_state.size)[:, np.newaxis]


# -- the policy that acted ---------------------------------------------------------------------------------


def read_behaviour(log: EpisodeLog, given: Any, kind: str | None, features: list[str] | None) -> Behaviour:
    """Return the propensities of a log: of a given policy, of the log, or estimated."""
    if given is not None and kind is not None:
        message = "propensities cannot be combined with logging_policy"
        raise ParameterError(message, code="conflicting-arguments", argument="propensities", value=kind)
    if given is not None:
        if isinstance(given, str) and given == "logged":
            message = "logging_policy must be a policy; 'logged' is only a target"
            raise ParameterError(message, code="unknown-option", argument="logging_policy", value=given)
        acted = read_target(given, log, "logging_policy").rows[np.arange(log.row.size), log.action]
        if not (acted > 0.0).all():
            row = int(log.row[np.argmin(acted)])
            message = f"log row {row}: logging_policy gives the chosen action probability 0"
            raise DataError(message, code="zero-propensity", argument="logging_policy", index=row)
        return Behaviour(acted, "logging_policy", None, np.nan)
    if kind is None:
        kind = "log" if log.propensity is not None else "counts" if log.state is not None else "logit"
    one_of(kind, "propensities", PROPENSITIES)
    if kind == "log":
        if log.propensity is None:
            names = [*log.held.used.values(), *log.held.ignored]
            message = (
                "log has no column 'propensity'; give columns={'propensity': ...}, propensities='counts' or 'logit' to "
                f"estimate them, or the policy that acted as logging_policy; its columns are {names}"
            )
            raise DataError(message, code="missing-column", column="propensity")
        return Behaviour(log.propensity, "the log", None, np.nan)
    fit: Callable[[BoolArray], FloatArray]
    if kind == "counts":
        if log.state is None:
            message = "propensities='counts' needs a column 'state'; use 'logit'"
            raise ParameterError(message, code="missing-column", argument="propensities", column="state")
        fit, source = _counts(log), "counts of each state"
    else:
        fit, source = _logit(log, features), "logit of columns"
    everything = np.ones(log.row.size, dtype=np.bool_)
    calibration, error = _calibration(log, fit)
    return Behaviour(fit(everything)[np.arange(log.row.size), log.action], source, calibration, error)


def _counts(log: EpisodeLog) -> Callable[[BoolArray], FloatArray]:
    """Return the function that returns probabilities [M, A], learned from some rows."""
    assert log.by_state is not None
    state, shape = log.state, (log.by_state.size, log.by_action.size)
    assert state is not None
    pair = state * shape[1] + log.action

    def fit(rows: BoolArray) -> FloatArray:
        counts = np.bincount(pair[rows], minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        overall = counts.sum(axis=0) / counts.sum()
        totals = counts.sum(axis=1, keepdims=True)
        return ((counts + MASS * overall) / (totals + MASS))[state]

    return fit


def design_matrix(frame: pandas.DataFrame, names: list[str]) -> FloatArray:
    """Return columns as numbers [M, D]: standardised, with a column of zeros and ones for each category."""
    import pandas

    parts = []
    for name in names:
        if name not in frame:
            message = f"log has no column {name!r}, which features names; its columns are {list(frame.columns)}"
            raise DataError(message, code="missing-column", argument="features", column=name)
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        if numbers.notna().all() and frame[name].dtype != bool:
            values = numbers.to_numpy(np.float64)
            sd = float(values.std())
            parts.append(((values - values.mean()) / (sd if sd > 0.0 else 1.0))[:, np.newaxis])
        else:
            parts.append(pandas.get_dummies(frame[name], dtype=np.float64).to_numpy())
    return np.concatenate(parts, axis=1)


def feature_names(log: EpisodeLog, features: list[str] | None) -> list[str]:
    """Return the columns that describe a row: those given, else all that have no other meaning."""
    if features:
        return features
    roles = {*log.held.used.values()} - ({log.held.used.get("state")} if log.state is not None else set())
    names = [name for name in log.frame.columns if name not in roles and not str(name).startswith("next_")]
    if not names:
        message = "log has no columns besides those of episodes; name those that describe a row: features=[...]"
        raise DataError(message, code="missing-column", argument="features", column="features")
    return names


def _logit(log: EpisodeLog, features: list[str] | None) -> Callable[[BoolArray], FloatArray]:
    try:
        linear = importlib.import_module("sklearn.linear_model")
    except ImportError as fault:
        message = "propensities='logit' needs scikit-learn: pip install 'prudent[states]'"
        raise ParameterError(message, code="missing-package", argument="propensities") from fault
    points = design_matrix(log.frame, feature_names(log, features))

    def fit(rows: BoolArray) -> FloatArray:
        chances = np.zeros((log.row.size, log.by_action.size))
        seen: IntArray = np.unique(log.action[rows])
        if seen.size == 1:
            chances[:, seen[0]] = 1.0
        else:
            model = linear.LogisticRegression(max_iter=1000).fit(points[rows], log.action[rows])
            chances[:, model.classes_] = model.predict_proba(points)
        return np.asarray(np.maximum(chances, 1e-12))

    return fit


def _calibration(log: EpisodeLog, fit: Callable[[BoolArray], FloatArray]) -> tuple[pandas.DataFrame, float]:
    """Return predicted and observed frequencies in episodes that were left out, and their mean difference."""
    import pandas

    folds = min(FOLDS, log.n)
    if folds < 2:
        return pandas.DataFrame({"predicted": [], "observed": [], "rows": []}), np.nan
    fold = log.episode % folds
    predicted = np.empty((log.row.size, log.by_action.size))
    for k in range(folds):
        predicted[fold == k] = fit(fold != k)[fold == k]
    hits = np.eye(log.by_action.size)[log.action]
    which = np.minimum((predicted * BINS).astype(np.int64), BINS - 1).reshape(-1)
    rows = np.bincount(which, minlength=BINS)
    sums = [np.bincount(which, values.reshape(-1), BINS) for values in (predicted, hits)]
    some = rows > 0
    means = [values[some] / rows[some] for values in sums]
    table = pandas.DataFrame({"predicted": means[0], "observed": means[1], "rows": rows[some]})
    return table, float(np.average(abs(means[0] - means[1]), weights=rows[some]))
