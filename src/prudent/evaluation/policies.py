"""Policies and reward models as users give them; a policy is read as probabilities of the arms of a log."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .._support.checks import first_place, number_array
from ..data.context_encoder import ContextEncoder
from ..data.features import order_of
from ..errors import DataError, ParameterError, PrudentError
from ..types import ArrayLike, FloatArray, PolicyFunction
from .logs import BanditLog, Block

if TYPE_CHECKING:
    import pandas

TOLERANCE = 1e-6  # of a sum of probabilities: tables are often kept in single precision


class Learner(Protocol):
    """A bandit: an object that decides and learns, such as a ``prudent.LinearBandit``."""

    @property
    def arms(self) -> Any:
        """Names of the arms."""

    def select(self, context: Any, arms: Any = ..., /) -> Any:
        """Return a decision with an ``arm``."""

    def update(self, context: Any, arm: Any, reward: Any, /) -> Any:
        """Learn a reward."""


class Regressor(Protocol):
    """A regression or classification model as in scikit-learn."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Fit the model to contexts and rewards."""

    def predict(self, X: Any, /) -> Any:
        """Return predictions of rewards."""


TargetLike: TypeAlias = "ArrayLike | pandas.DataFrame | Mapping[Any, float] | PolicyFunction | Learner"
"""Policy of a bandit: a bandit, probabilities [T, A], arms [T], a function of contexts, an arm, or a dict."""
RewardModelLike: TypeAlias = "ArrayLike | pandas.DataFrame | Regressor | None"
"""Predictions [T, A], an unfitted object with fit and predict, or None for the default."""
Chances: TypeAlias = Callable[[Block], FloatArray]
"""Function that returns the probabilities [T, A] of all arms of a log in the rows of a block."""


def arms_of(policy: Any) -> Iterable[Any]:
    """Return the arms that a policy names, in its order."""
    if isinstance(policy, Mapping):
        return list(policy)
    if hasattr(policy, "columns"):
        return list(policy.columns)
    return policy.arms if _is_bandit(policy) else ()


def reading_of(policy: Any, learn: bool = False) -> tuple[str, ...] | ContextEncoder | None:
    """Return what reads the contexts of a log for a bandit: its encoder, to ``learn`` a copy, or names of features."""
    encoder = getattr(policy, "encoder", None)
    if isinstance(encoder, ContextEncoder):
        return copy.deepcopy(encoder) if learn else encoder
    return features_of(policy)


def adopt(bandit: Any, log: BanditLog) -> None:
    """Let a bandit take the scales and categories that contexts of a log were encoded with, before it plays."""
    mine = getattr(bandit, "encoder", None)
    if isinstance(mine, ContextEncoder) and log.encoder is not None and mine.declaration() == log.encoder.declaration():
        bandit.learn_features(log.encoder.learned())


def features_of(policy: Any) -> tuple[str, ...] | None:
    """Return the names of the features of a bandit, in its order."""
    names = getattr(policy, "features", None)
    return names if isinstance(names, tuple) and all(isinstance(name, str) for name in names) else None


def contexts_for(bandit: Any, block: Block, log: BanditLog) -> FloatArray:
    """Return the contexts [T, D] of a block with the features in the order of a bandit, if both have names."""
    names, encoder = features_of(bandit), getattr(bandit, "encoder", None)
    if isinstance(encoder, ContextEncoder) and log.encoder is not None:
        if encoder.digest != log.encoder.digest:
            message = (
                "log was encoded by other Features than those of the bandit: they have other columns, or have learned "
                "other scales or categories. Give a log of the columns themselves"
            )
            raise ParameterError(message, code="different-features", argument="log")
        return block.contexts
    order = None if names is None or log.features is None else order_of(log.features, names, "context of log")[0]
    return block.contexts if order is None else block.contexts[:, order]


def _is_bandit(policy: Any) -> bool:
    return hasattr(policy, "arms") and (hasattr(policy, "select") or hasattr(policy, "propensities"))


def policy_of(policy: Any, log: BanditLog, name: str = "target") -> Chances:
    """Return the probabilities that a policy gives to the arms of ``log``; ``name`` is that of the argument."""
    size = len(log.arms)
    raw: Chances
    if _is_bandit(policy):
        raw = _bandit(policy, log, name)
    elif isinstance(policy, str) and policy in ("uniform", "logged"):
        if policy in log.arms:
            message = f"{name} is {policy!r}, which is also the name of an arm; give a function instead"
            raise ParameterError(message, code="ambiguous-policy", argument=name, value=policy)
        raw = _uniform(size) if policy == "uniform" else lambda block: _one_hot(block.arms, size)
    elif isinstance(policy, (str, int, np.integer)) and not isinstance(policy, bool):
        raw = _constant({policy: 1.0}, log, name)
    elif isinstance(policy, Mapping):
        raw = _constant(policy, log, name)
    elif callable(policy):
        raw = _function(policy, log, name)
    else:
        raw = table_reader(policy, log, name)

    def checked(block: Block) -> FloatArray:
        chances = raw(block)
        _require_probabilities(chances, block, log, name)
        return chances

    return checked


def _require_probabilities(chances: FloatArray, block: Block, log: BanditLog, name: str) -> None:
    """Raise unless each row of ``chances`` [T, A] is a distribution over the eligible arms."""

    def fault(bad: Any, expected: str, code: str) -> DataError:
        t, *arm = first_place(bad)
        value, row = float(chances[t, *arm].sum()), int(block.rows[t])
        what = f"arm {log.arms[arm[0]]!r} the probability" if arm else "probabilities with the sum"
        message = f"{name} gives {what} {value} in log row {row}, expected {expected}"
        return DataError(message, code=code, argument=name, row=row, value=value, expected=expected)

    outside = ~((chances >= 0.0) & (chances <= 1.0 + TOLERANCE))
    if outside.any():
        raise fault(outside, "a number from 0 to 1", "probability-range")
    eligible = block.eligible(len(log.arms))
    if eligible is not None and (chances > 0.0)[~eligible].any():
        raise fault((chances > 0.0) & ~eligible, "0 for an arm that is not eligible", "ineligible-arm")
    off = np.abs(chances.sum(axis=1) - 1.0) > TOLERANCE
    if off.any():
        raise fault(off, "1", "sum-not-one")


def _unknown_arm(arm: Any, log: BanditLog, name: str) -> ParameterError:
    message = f"{name} has the arm {arm!r}, expected one of {log.arms}, 'uniform' or 'logged'"
    return ParameterError(message, code="unknown-arm", argument=name, arm=arm, expected=log.arms)


def _bandit(bandit: Any, log: BanditLog, name: str) -> Chances:
    log.require_contexts(f"{name}, a bandit,")
    mine = np.array([log.index(arm) for arm in bandit.arms])  # index in the log of each arm of the bandit
    if not log.counts[mine[mine >= 0]].any():
        message = f"no arm of log is one of the arms of {name}: {log.arms[:8]} and {tuple(bandit.arms)[:8]}"
        raise DataError(message, code="unknown-arm", argument=name, value=tuple(bandit.arms))
    if not hasattr(bandit, "propensities"):
        message = f"{name} is {bandit!r}, which has no propensities; give a function of the contexts"
        raise ParameterError(message, code="wrong-type", argument=name, value=bandit, expected="propensities")

    def chances(block: Block) -> FloatArray:
        result = np.zeros((len(block), len(log.arms)))
        contexts = contexts_for(bandit, block, log)
        for members, rows in block.sets():
            able = np.flatnonzero(mine >= 0 if members is None else np.isin(mine, members))
            if not able.size:
                row = int(block.rows[rows[0]])
                message = f"log row {row}: no eligible arm is one of the arms of {name}"
                raise DataError(message, code="no-arms", argument=name, row=row)
            names = None if able.size == mine.size else [bandit.arms[i] for i in able]
            try:
                result[np.ix_(rows, mine[able])] = bandit.propensities(contexts[rows], names)
            except PrudentError as error:
                message = f"{name} cannot decide in the contexts of log: {error}"
                raise type(error)(message, code=error.code, **error.fields) from None
        return result

    return chances


def _uniform(size: int) -> Chances:
    def chances(block: Block) -> FloatArray:
        eligible = block.eligible(size)
        if eligible is None:
            return np.full((len(block), size), 1.0 / size)
        return eligible / eligible.sum(axis=1, keepdims=True)

    return chances


def _constant(mixture: Mapping[Any, Any], log: BanditLog, name: str) -> Chances:
    fixed = np.zeros(len(log.arms))
    for arm, chance in mixture.items():
        if log.index(arm) < 0:
            raise _unknown_arm(arm, log, name)
        fixed[log.index(arm)] = number_array(chance, f"{name}[{arm!r}]", error=ParameterError)
    return lambda block: np.tile(fixed, (len(block), 1))


def _function(function: Callable[[FloatArray], Any], log: BanditLog, name: str) -> Chances:
    log.require_contexts(f"{name}, a function,")

    def chances(block: Block) -> FloatArray:
        result = function(block.contexts.copy())
        if hasattr(result, "columns"):
            result = result.reindex(columns=list(log.arms), fill_value=0.0)
        return _rows_of(_read_table(result, log, name, len(block), DataError), block, log, name)

    return chances


def table_reader(table: Any, log: BanditLog, name: str) -> Chances:
    """Return the function that returns the rows [T, A] of a block in a table with a row for each row of the log.

    Columns of a DataFrame are names of arms. A single column of names is the policy that chooses them.
    """
    values = _read_table(table, log, name, log.rows, ParameterError)

    def rows_of(block: Block) -> FloatArray:
        rows = block.rows
        adjacent = rows.size > 0 and bool((np.diff(rows) == 1).all())  # then no copy is needed
        return _rows_of(values[rows[0] : rows[-1] + 1] if adjacent else values[rows], block, log, name)

    return rows_of


def _read_table(table: Any, log: BanditLog, name: str, size: int, error: type[PrudentError]) -> npt.NDArray[Any]:
    """Return names of arms [M], or numbers [M, A] with a column for each arm of the log."""
    names = getattr(table, "columns", None)
    try:
        values = np.asarray(table)
    except ValueError:
        values = np.empty(())
    expected = (size, len(log.arms) if names is None else len(names))
    if values.shape not in ((size,), expected):
        shown = f"shape {values.shape}" if values.ndim else repr(table)
        message = (
            f"{name} has {shown}, expected {expected}: rows and arms, or ({size},): the name of an arm for each row"
        )
        raise error(message, code="wrong-shape", argument=name, value=values.shape, expected=expected)
    if values.ndim == 1:
        return values
    numbers = number_array(values, name)
    if names is None:
        return numbers
    result = np.zeros((size, len(log.arms)))
    for column, numbers_of_arm in zip(names, numbers.T, strict=True):
        if log.index(column) < 0:
            raise _unknown_arm(column, log, name)
        result[:, log.index(column)] = numbers_of_arm
    return result


def _rows_of(values: npt.NDArray[Any], block: Block, log: BanditLog, name: str) -> FloatArray:
    """Return numbers [T, A] as they are, and names of arms [T] as probabilities 0 and 1."""
    if values.ndim == 2:
        return values
    indices = np.array([log.index(arm) for arm in values.tolist()])
    if (indices < 0).any():
        t = int(np.argmin(indices))
        arm, row = values.tolist()[t], int(block.rows[t])
        message = f"{name} chooses {arm!r} in log row {row}, which is not one of {log.arms}"
        raise DataError(message, code="unknown-arm", argument=name, arm=arm, row=row)
    return _one_hot(indices, len(log.arms))


def _one_hot(indices: npt.NDArray[Any], size: int) -> FloatArray:
    return np.equal(np.arange(size), indices[:, np.newaxis]).astype(np.float64)
