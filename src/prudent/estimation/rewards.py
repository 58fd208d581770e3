"""What each outcome of a model made from a log earns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array
from ..data.tables import has_names, read_columns, read_numbers
from ..errors import DataError, ModelError, ParameterError
from .counts import Outcomes, Transitions, sums
from .rows import LogRows, names_of


class Told(NamedTuple):
    """What there is to say of rewards."""

    text: str
    varying: int = 0
    sd: float = 0.0
    guessed: int = 0
    wide: float = 0.0  # the sd of all rewards


def rewards_of(rewards: Any, read: LogRows, seen: Transitions, entries: Outcomes) -> tuple[FloatArray, Told]:
    """Return the reward of each outcome of the model."""
    if isinstance(rewards, str) and rewards in ("mean", "outcomes"):
        if seen.reward is None or seen.spread is None:
            others = list(read.held.ignored)
            called = f"; if one of the columns {others} holds them: columns={{'reward': ...}}" if others else ""
            raise DataError(
                f"{read.held.table} has no rewards; give them: rewards=0, a function of (state, action, next_state), "
                f"or a table{called}"
            )
        return _seen_rewards(rewards, read, seen, entries)
    S, A = read.shape
    if isinstance(rewards, bool) or (isinstance(rewards, str) and not Path(rewards).exists()):
        raise ParameterError(
            f"rewards is {rewards!r}, expected 'mean', 'outcomes', a number, a function of (state, action, "
            "next_state), or a table or its file"
        )
    if callable(rewards):
        return _called_rewards(rewards, read, entries), Told("by a function of the caller")
    if np.ndim(rewards) == 0 and not isinstance(rewards, str | Mapping) and not has_names(rewards):
        amount = finite_array(rewards, "rewards", ndim=0, error=ParameterError)
        return np.full(entries.pair.size, float(amount)), Told(f"{float(amount):g} for every step")
    if not has_names(rewards):
        given = finite_array(rewards, "rewards", error=ParameterError)
        if given.shape == (S, A):
            return given.reshape(-1)[entries.pair], Told("as given for each pair")
        raise ParameterError(f"rewards has shape {given.shape}, expected [S, A] = {(S, A)}, a table, or a function")
    return _table_rewards(rewards, read, entries), Told("by a table")


def _seen_rewards(how: str, read: LogRows, seen: Transitions, entries: Outcomes) -> tuple[FloatArray, Told]:
    assert seen.reward is not None
    assert seen.spread is not None
    reward = np.where(entries.seen >= 0, seen.reward[entries.seen], 0.0)
    unseen = np.flatnonzero(entries.seen < 0)
    rest = ""
    if unseen.size:
        reward[unseen], law = _guessed(seen, entries.pair[unseen], entries.target[unseen], read.shape)
        what = "transition never seen earns" if unseen.size == 1 else "transitions never seen earn"
        rest = f"; {unseen.size:,} {what} {law}"
    varying = int(np.count_nonzero(seen.spread > 0.0))
    if how == "outcomes":
        key = seen.pair * read.by_state.size + seen.target
        varying = int(np.count_nonzero(np.unique(key, return_counts=True)[1] > 1))
        text = f"by transition, each reward of the {varying:,} that vary an outcome of its own"
        return reward, Told(text + rest, varying, guessed=unseen.size)
    if not varying:
        return reward, Told("by transition" + rest, guessed=unseen.size)
    assert read.reward is not None
    spare = read.times.sum() - seen.times.size
    sd = float(np.sqrt(seen.spread.sum() / max(spare, 1.0)))
    middle = np.average(read.reward, weights=read.times)
    wide = float(np.sqrt(np.average((read.reward - middle) ** 2, weights=read.times)))
    return reward, Told(
        f"by transition, the means of the {varying:,} that vary (sd {sd:.3g}){rest}",
        varying,
        sd,
        unseen.size,
        max(sd, wide),
    )


def _guessed(seen: Transitions, pair: IntArray, target: IntArray, shape: tuple[int, int]) -> tuple[FloatArray, str]:
    """Return rewards for transitions that nobody has seen, and by which law."""
    S, A = shape
    assert seen.reward is not None
    earned = seen.times * seen.reward

    def means(group: IntArray, size: int) -> tuple[FloatArray, FloatArray]:
        total = sums(group, seen.times, size)
        return sums(group, earned, size) / np.maximum(total, np.finfo(np.float64).tiny), total

    by_pair, _ = means(seen.pair, S * A)
    if np.allclose(by_pair[seen.pair], seen.reward, rtol=1e-12, atol=0.0):
        return by_pair[pair], "what others of the same pair do"
    by_target, arrivals = means(seen.target, S)
    steps, place = np.unique(seen.pair // A * S + seen.target, return_inverse=True)
    by_step, _ = means(place, steps.size)
    wanted = pair // A * S + target
    at = np.minimum(np.searchsorted(steps, wanted), steps.size - 1)
    guess = np.where(arrivals[target] > 0.0, by_target[target], by_pair[pair])
    return np.where(steps[at] == wanted, by_step[at], guess), "what other arrivals in the same state do"


def _called_rewards(rewards: Callable[..., Any], read: LogRows, entries: Outcomes) -> FloatArray:
    A = read.shape[1]
    states, actions = names_of(read.by_state), names_of(read.by_action)
    found = np.empty(entries.pair.size)
    for i, (pair, target) in enumerate(zip(entries.pair.tolist(), entries.target.tolist(), strict=True)):
        call = states[pair // A], actions[pair % A], states[target]
        value = rewards(*call)
        try:
            found[i] = float(value)
        except (TypeError, ValueError):
            found[i] = np.nan
        if not np.isfinite(found[i]):
            raise ModelError(f"rewards{call!r} is {value!r}, expected a finite number")
    return found


def _table_rewards(rewards: Any, read: LogRows, entries: Outcomes) -> FloatArray:
    keys = ("state", "action", "next_state")
    held = read_columns(rewards, ("reward",), table="rewards", error=ModelError, named=keys)
    amounts = read_numbers(held, "reward", error=ModelError)
    A = read.by_action.size
    axes = {"state": (read.by_state, entries.pair // A), "action": (read.by_action, entries.pair % A)}
    axes["next_state"] = (read.by_state, entries.target)
    used = [name for name in keys if name in held]
    if not used:
        raise ModelError("rewards has a column reward, but none of state, action, next_state that says what for")
    listed, wanted = np.zeros(amounts.size, dtype=np.int64), np.zeros(entries.pair.size, dtype=np.int64)
    known = np.ones(amounts.size, dtype=np.bool_)
    for name in used:
        labels, index = axes[name]
        found = np.fromiter(map(labels.find, held[name].tolist()), np.int64, amounts.size)  # it may list others too
        known &= found >= 0
        listed, wanted = listed * labels.size + found, wanted * labels.size + index
    distinct, first = np.unique(listed[known], return_index=True)
    odd = amounts[known][first][np.searchsorted(distinct, listed[known])] != amounts[known]
    if odd.any():
        row = int(np.flatnonzero(known)[odd][0])
        raise ModelError(f"{held.place(row)}: reward is {amounts[row]:g}, unlike in an earlier row for the same")
    at = np.minimum(np.searchsorted(distinct, wanted), max(distinct.size - 1, 0))
    lacking = np.ones(wanted.size, dtype=np.bool_) if not distinct.size else distinct[at] != wanted
    if lacking.any():
        i = int(np.argmax(lacking))
        what = ", ".join(f"{name} {names_of(axes[name][0])[int(axes[name][1][i])]!r}" for name in used)
        raise ModelError(f"rewards has no row for {what}")
    return amounts[known][first][at]
