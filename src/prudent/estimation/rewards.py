"""Rewards of the outcomes of a model that is estimated from a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import axes_of, finite_array
from ..data.source import TableSource
from ..errors import DataError, ModelError, ParameterError
from ..posteriors.scalar import NormalPosterior
from ..types import FloatArray, IntArray, TableLike
from .counts import Outcomes, Transitions, sums
from .rows import LogRows


class RewardFacts(NamedTuple):
    """Facts about rewards for the summary."""

    text: str
    varying: int = 0  # transitions with several rewards
    sd: float = 0.0  # around the mean of their transition, pooled
    guessed: int = 0  # transitions that were never seen
    total_sd: float = 0.0  # of all rewards

    def posterior(self, visits: FloatArray) -> NormalPosterior | None:
        """Return the posterior [S, A] of what is to be added to mean rewards; None where rewards do not vary.

        ``visits`` [S, A] says how often each pair was seen, 0 where it is not admissible.
        """
        if self.sd <= 0.0:
            return None
        unknown = NormalPosterior(np.zeros(visits.shape), self.total_sd, self.sd)
        unknown.pulls[...] = visits
        return unknown


def rewards_of(rewards: Any, read: LogRows, seen: Transitions, entries: Outcomes) -> tuple[FloatArray, RewardFacts]:
    """Return the reward of each outcome of the model."""
    if isinstance(rewards, str) and rewards in ("mean", "outcomes"):
        if seen.reward is None or seen.spread is None:
            others = list(read.held.ignored)
            called = f"; if one of the columns {others} holds them: columns={{'reward': ...}}" if others else ""
            message = (
                f"{read.held.table} has no rewards; give them: rewards=0, a function of (state, action, next_state), "
                f"or a table{called}"
            )
            raise DataError(message, code="missing-column", column="reward")
        return _seen_rewards(rewards, read, seen, entries)
    S, A = read.shape
    if isinstance(rewards, bool) or (isinstance(rewards, str) and not Path(rewards).exists()):
        message = (
            f"rewards is {rewards!r}, expected 'mean', 'outcomes', a number, a function of (state, action, "
            "next_state), or a table or its file"
        )
        raise ParameterError(message, code="unknown-option", argument="rewards", value=rewards)
    if callable(rewards):
        return _called_rewards(rewards, read, entries), RewardFacts("by a function of the caller")
    named = isinstance(rewards, str | Mapping) or TableSource(rewards, "rewards", ModelError).named
    if axes_of(rewards) == 0 and not named:
        amount = finite_array(rewards, "rewards", ndim=0, error=ParameterError)
        return np.full(entries.pair.size, float(amount)), RewardFacts(f"{float(amount):g} for every step")
    if not named:
        given = finite_array(rewards, "rewards", error=ParameterError)
        if given.shape == (S, A):
            return given.reshape(-1)[entries.pair], RewardFacts("as given for each pair")
        message = f"rewards has shape {given.shape}, expected [S, A] = {(S, A)}, a table, or a function"
        raise ParameterError(message, code="wrong-shape", argument="rewards", value=given.shape)
    return _table_rewards(rewards, read, entries), RewardFacts("by a table")


def _seen_rewards(how: str, read: LogRows, seen: Transitions, entries: Outcomes) -> tuple[FloatArray, RewardFacts]:
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
        key = seen.pair * seen.arrivals.state.size + seen.arrival
        varying = int(np.count_nonzero(np.unique(key, return_counts=True)[1] > 1))
        text = f"by transition, each reward of the {varying:,} that vary an outcome of its own"
        return reward, RewardFacts(text + rest, varying, guessed=unseen.size)
    if not varying:
        return reward, RewardFacts("by transition" + rest, guessed=unseen.size)
    total = float(seen.times.sum())
    sd = float(np.sqrt(seen.spread.sum() / max(total - seen.times.size, 1.0)))
    middle = np.average(seen.reward, weights=seen.times)
    wide = float(np.sqrt((seen.spread.sum() + seen.times @ (seen.reward - middle) ** 2) / total))
    return reward, RewardFacts(
        f"by transition, the means of the {varying:,} that vary (sd {sd:.3g}), which are uncertain{rest}",
        varying,
        sd,
        unseen.size,
        max(sd, wide),
    )


def _guessed(seen: Transitions, pair: IntArray, target: IntArray, shape: tuple[int, int]) -> tuple[FloatArray, str]:
    """Return rewards for transitions that were never seen, and where they come from."""
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
    states, actions = read.by_state.names, read.by_action.names
    earned = np.empty(entries.pair.size)
    for i, (pair, target) in enumerate(zip(entries.pair.tolist(), entries.target.tolist(), strict=True)):
        call = states[pair // A], actions[pair % A], states[target]
        value = rewards(*call)
        try:
            earned[i] = float(value)
        except (TypeError, ValueError):
            earned[i] = np.nan
        if not np.isfinite(earned[i]):
            message = f"rewards{call!r} is {value!r}, expected a finite number"
            raise ModelError(message, code="not-finite", argument="rewards", value=value)
    return earned


def _table_rewards(rewards: TableLike, read: LogRows, entries: Outcomes) -> FloatArray:
    keys = ("state", "action", "next_state")
    held = TableSource(rewards, "rewards", ModelError).read(("reward",), named=keys)
    amounts = held.numbers("reward")
    A = read.by_action.size
    axes = {"state": (read.by_state, entries.pair // A), "action": (read.by_action, entries.pair % A)}
    axes["next_state"] = (read.by_state, entries.target)
    used = [name for name in keys if name in held]
    if not used:
        message = "rewards has a column reward, but none of state, action, next_state that says what for"
        raise ModelError(message, code="missing-column", argument="rewards", column="state")
    listed, wanted = np.zeros(amounts.size, dtype=np.int64), np.zeros(entries.pair.size, dtype=np.int64)
    valid = np.ones(amounts.size, dtype=np.bool_)
    for name in used:
        labels, index = axes[name]
        places = labels.find_all(held[name])  # a table may also list other names
        valid &= places >= 0
        listed, wanted = listed * labels.size + places, wanted * labels.size + index
    distinct, first = np.unique(listed[valid], return_index=True)
    odd = amounts[valid][first][np.searchsorted(distinct, listed[valid])] != amounts[valid]
    if odd.any():
        row = int(np.flatnonzero(valid)[odd][0])
        message = f"reward is {amounts[row]:g}, unlike in an earlier row for the same"
        raise held.fault(row, message, "conflicting-rows", column="reward", value=amounts[row])
    at = np.minimum(np.searchsorted(distinct, wanted), max(distinct.size - 1, 0))
    lacking = np.ones(wanted.size, dtype=np.bool_) if not distinct.size else distinct[at] != wanted
    if lacking.any():
        i = int(np.argmax(lacking))
        what = ", ".join(f"{name} {axes[name][0].names[int(axes[name][1][i])]!r}" for name in used)
        raise ModelError(f"rewards has no row for {what}", code="missing-row", argument="rewards")
    return amounts[valid][first][at]
