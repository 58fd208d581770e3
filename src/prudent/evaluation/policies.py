"""Policies as users give them, read as chances of the arms: a bandit, a table, a function, the name of an arm, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .._support.checks import FloatArray
from ..data.features import order_of
from ..errors import DataError, ParameterError, PrudentError
from .logs import BanditLog, Block

__all__ = ["Chances", "contexts_for", "known_arms", "known_features", "policy_of", "table_reader"]

Chances = Callable[[Block], FloatArray]  # chances [T,A] of all arms of the log in the rows of a block
TOLERANCE = 1e-6  # of the sum of chances: tables are often kept in single precision


def known_arms(policy: Any) -> Iterable[Any]:
    """Return the arms that a policy names, in its order."""
    if isinstance(policy, Mapping):
        return list(policy)
    if hasattr(policy, "columns"):
        return list(policy.columns)
    return policy.arms if _is_bandit(policy) else ()


def known_features(policy: Any) -> tuple[str, ...] | None:
    """Return the names of the features of a bandit, in its order."""
    names = getattr(policy, "features", None)
    return names if isinstance(names, tuple) and all(isinstance(name, str) for name in names) else None


def contexts_for(bandit: Any, block: Block, log: BanditLog) -> FloatArray:
    """Return the contexts [T,D] of a block in the order that a bandit has them in, if both have names."""
    known = known_features(bandit)
    order = None if known is None or log.features is None else order_of(log.features, known, "context of log")[0]
    return block.contexts if order is None else block.contexts[:, order]


def _is_bandit(policy: Any) -> bool:
    return hasattr(policy, "arms") and hasattr(policy, "select")


def policy_of(policy: Any, log: BanditLog, name: str = "target") -> Chances:
    """Return the chances that a policy gives to the arms of ``log``; ``name`` is the argument that it was given as."""
    if _is_bandit(policy):
        log.require_contexts(f"{name}, a bandit,")
        if not any(arm in policy.arms for arm in log.arms if log.counts[log.index(arm)]):
            raise DataError(f"no arm of log is one of the arms of {name}: {log.arms[:8]} and {tuple(policy.arms)[:8]}")
        raw = _bandit(policy, log, name)
    elif isinstance(policy, str) and policy in ("uniform", "logged"):
        if policy in log.arms:
            raise ParameterError(f"{name} is {policy!r}, which is also the name of an arm; give a function instead")
        raw = _uniform(log) if policy == "uniform" else _logged(log)
    elif isinstance(policy, (str, int, np.integer)) and not isinstance(policy, bool):
        if log.index(policy) < 0:
            hint = " or 'uniform' or 'logged'" if isinstance(policy, str) else ""
            raise ParameterError(f"{name} is {policy!r}, expected one of the arms {log.arms}{hint}")
        raw = _constant({policy: 1.0}, log, name)
    elif isinstance(policy, Mapping):
        raw = _constant(policy, log, name)
    elif callable(policy):
        log.require_contexts(f"{name}, a function,")
        raw = _function(policy, log, name)
    else:
        raw = table_reader(policy, log, name)

    def checked(block: Block) -> FloatArray:
        chances = raw(block)
        fault = _fault(chances, block, log)
        if fault:
            raise DataError(f"{name} {fault}")
        return chances

    return checked


def _fault(chances: FloatArray, block: Block, log: BanditLog) -> str:
    """Return what is wrong with chances [T,A], nothing if nothing is."""
    bad = ~((chances >= 0.0) & (chances <= 1.0 + TOLERANCE))
    if bad.any():
        t, a = np.argwhere(bad)[0]
        return f"gives arm {log.arms[a]!r} the chance {chances[t, a]} in log row {block.rows[t]}"
    eligible = block.eligible(len(log.arms))
    if eligible is not None and (chances > 0.0)[~eligible].any():
        t, a = np.argwhere((chances > 0.0) & ~eligible)[0]
        return f"gives arm {log.arms[a]!r} a chance in log row {block.rows[t]}, where it is not eligible"
    total = chances.sum(axis=1)
    off = np.abs(total - 1.0) > TOLERANCE
    if off.any():
        return f"gives chances that sum to {total[off][0]} in log row {block.rows[off][0]}, expected 1"
    return ""


def _bandit(bandit: Any, log: BanditLog, name: str) -> Chances:
    mine = np.array([log.index(arm) for arm in bandit.arms])  # where the log has each of the bandit's arms
    ask = getattr(bandit, "propensities", None)
    if ask is None:
        raise ParameterError(f"{name} is {bandit!r}, which has no propensities; give a function of the contexts")

    def chances(block: Block) -> FloatArray:
        found = np.zeros((len(block), len(log.arms)))
        contexts = contexts_for(bandit, block, log)
        for members, rows in block.sets():
            able = np.flatnonzero(mine >= 0) if members is None else np.flatnonzero(np.isin(mine, members))
            if not able.size:
                raise DataError(f"log row {block.rows[rows[0]]}: no eligible arm is one of the arms of {name}")
            names = None if able.size == mine.size else [bandit.arms[i] for i in able]
            try:
                found[np.ix_(rows, mine[able])] = ask(contexts[rows], names)
            except PrudentError as error:
                raise type(error)(f"{name} cannot decide in the contexts of log: {error}") from None
        return found

    return chances


def _uniform(log: BanditLog) -> Chances:
    def chances(block: Block) -> FloatArray:
        eligible = block.eligible(len(log.arms))
        if eligible is None:
            return np.full((len(block), len(log.arms)), 1.0 / len(log.arms))
        return eligible / eligible.sum(axis=1, keepdims=True)

    return chances


def _logged(log: BanditLog) -> Chances:
    """Return the policy that does what was done: its estimates are plain means."""

    def chances(block: Block) -> FloatArray:
        return np.equal(np.arange(len(log.arms)), block.arms[:, np.newaxis]).astype(np.float64)

    return chances


def _constant(mixture: Mapping[Any, Any], log: BanditLog, name: str) -> Chances:
    fixed = np.zeros(len(log.arms))
    for arm, chance in mixture.items():
        if log.index(arm) < 0:
            raise ParameterError(f"{name} names the arm {arm!r}, expected one of {log.arms}")
        try:
            fixed[log.index(arm)] = chance
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(f"{name}[{arm!r}] is {chance!r}, expected a probability") from None
    return lambda block: np.tile(fixed, (len(block), 1))


def _function(function: Callable[[FloatArray], Any], log: BanditLog, name: str) -> Chances:
    def chances(block: Block) -> FloatArray:
        found = function(block.contexts.copy())
        if hasattr(found, "columns"):
            found = found.reindex(columns=list(log.arms), fill_value=0.0)
        given = np.asarray(found)
        if given.shape == (len(block),):
            return _one_hot(given, block, log, name)
        if given.shape != (len(block), len(log.arms)):
            raise DataError(
                f"{name} returned shape {given.shape} for {len(block)} contexts, expected ({len(block)}, "
                f"{len(log.arms)}), chances of the arms {log.arms}, or ({len(block)},), an arm for each"
            )
        return _floats(given, name)

    return chances


def table_reader(table: Any, log: BanditLog, name: str) -> Chances:
    """Return the rows [T,A] of a table that has one for each row of the log: an array, or a DataFrame of named arms.

    A column of names is a policy that chooses them.
    """
    named = hasattr(table, "columns")
    try:
        values = table.to_numpy() if named else np.asarray(table)
    except (TypeError, ValueError, OverflowError):
        values = np.empty(())
    if values.ndim not in (1, 2) or len(values) != log.rows:
        shown = f"shape {values.shape}" if values.ndim else repr(table)
        raise ParameterError(f"{name} is {shown}, expected a row for each of the {log.rows} rows of log")
    if values.ndim == 1:
        return lambda block: _one_hot(values[block.rows], block, log, name)
    values = _floats(values, name)
    places = [log.index(column) for column in table.columns] if named else list(range(values.shape[1]))
    if -1 in places or (not named and len(places) != len(log.arms)):
        raise ParameterError(f"{name} has {values.shape[1]} columns, expected the arms {log.arms}, in this order")

    def rows(block: Block) -> FloatArray:
        found = np.zeros((len(block), len(log.arms)))
        found[:, places] = values[block.rows]
        return found

    return rows


def _one_hot(names: Any, block: Block, log: BanditLog, name: str) -> FloatArray:
    places = np.array([log.index(arm) for arm in names.tolist()])
    if (places < 0).any():
        t = int(np.argmax(places < 0))
        raise DataError(
            f"{name} chooses {names.tolist()[t]!r} in log row {block.rows[t]}, which is not one of {log.arms}"
        )
    return np.equal(np.arange(len(log.arms)), places[:, np.newaxis]).astype(np.float64)


def _floats(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{name} must hold numbers, got {np.asarray(values).dtype}") from None
