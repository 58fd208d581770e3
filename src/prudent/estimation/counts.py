"""Distinct transitions of a log, pairs that were tried often enough, and outcomes that are possible."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._support.checks import mask_array, one_of
from ..errors import DataError, ParameterError
from ..models.base import plural
from ..types import BoolArray, FloatArray, IntArray
from .rows import LogRows

DOUBT = 0.05  # the chance that a next state was not seen by accident
SUPPORTS = {"action": "seen after the action", "state": "seen after any action in the state", "all": "all states"}


def sums(group: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """Return the sum of the weights of each group [size]."""
    return np.bincount(group, weights, size).astype(np.float64, copy=False)


class Arrivals(NamedTuple):
    """What transitions can come to [N]: a state, or a state after a time; rows of a log have an index into this."""

    state: IntArray  # [N]
    duration: FloatArray | None  # [N]
    of_row: IntArray  # [M]

    @classmethod
    def of(cls, read: LogRows) -> Arrivals:
        """Return the arrivals of a log; without durations they are the states."""
        if read.duration is None:
            return cls(np.arange(read.by_state.size), None, read.target)
        lengths, which = np.unique(read.duration, return_inverse=True)
        codes, of_row = np.unique(read.target * lengths.size + which, return_inverse=True)
        return cls(codes // lengths.size, lengths[codes % lengths.size], of_row)


class Transitions(NamedTuple):
    """The distinct transitions (s, a, arrival) of the log [E], sorted; with ``by_reward`` their rewards apart."""

    pair: IntArray
    arrival: IntArray  # index into ``arrivals``
    times: FloatArray  # how often
    reward: FloatArray | None  # the mean
    spread: FloatArray | None  # sum of squares around it, weighted
    visits: FloatArray  # [S, A]
    arrivals: Arrivals
    of_row: IntArray  # [M] which of them each row is

    @property
    def target(self) -> IntArray:
        """The next states."""
        return self.arrivals.state[self.arrival]

    @property
    def duration(self) -> FloatArray | None:
        """The times that they take; None if one unit each."""
        return None if self.arrivals.duration is None else self.arrivals.duration[self.arrival]

    @classmethod
    def of(cls, read: LogRows, by_reward: bool) -> Transitions:
        """Count the rows."""
        return DistinctRows.of(read, by_reward).weighted(read, read.times)

    def some(self, which: BoolArray) -> Transitions:
        """Return some of the transitions, and the visits that they make; rows of others are numbered -1."""
        pair, times = self.pair[which], self.times[which]
        reward = None if self.reward is None else self.reward[which]
        spread = None if self.spread is None else self.spread[which]
        visits = sums(pair, times, self.visits.size).reshape(self.visits.shape)
        numbers = np.append(np.where(which, np.cumsum(which) - 1, -1), -1)
        return Transitions(
            pair, self.arrival[which], times, reward, spread, visits, self.arrivals, numbers[self.of_row]
        )


class DistinctRows(NamedTuple):
    """Which transition each row of a log is: found once, after which any weights of the rows can be counted."""

    pair: IntArray  # [E]
    arrival: IntArray  # [E]
    of_row: IntArray  # [M] transition of each row
    arrivals: Arrivals

    @classmethod
    def of(cls, read: LogRows, by_reward: bool) -> DistinctRows:
        """Find the distinct transitions; with ``by_reward`` each of their rewards is one of its own."""
        arrivals = Arrivals.of(read)
        N = arrivals.state.size
        key = (read.state * read.shape[1] + read.action) * N + arrivals.of_row
        distinct, of_row = np.unique(key, return_inverse=True)
        if by_reward and read.reward is not None:
            _, which = np.unique(read.reward, return_inverse=True)
            finer, of_row = np.unique(of_row * (int(which.max()) + 1) + which, return_inverse=True)
            distinct = distinct[finer // (int(which.max()) + 1)]
        return cls(distinct // N, distinct % N, of_row, arrivals)

    def weighted(self, read: LogRows, weights: FloatArray) -> Transitions:
        """Return the transitions, each row counted ``weights`` [M] times; those of weight 0 are left out."""
        S, A = read.shape
        of_row, size = self.of_row, self.pair.size
        times = sums(of_row, weights, size)
        visits = sums(self.pair, times, S * A).reshape(S, A)
        mean = spread = None
        if read.reward is not None:
            mean = sums(of_row, weights * read.reward, size) / np.maximum(times, np.finfo(np.float64).tiny)
            first = np.zeros(size)
            used = weights > 0.0
            first[of_row[used]] = read.reward[used]
            off = np.bincount(of_row, used & (read.reward != first[of_row]), size) > 0
            mean = np.where(off, mean, first)  # a reward that never varies is kept to the last digit
            spread = sums(of_row, weights * (read.reward - mean[of_row]) ** 2, size)
        every = Transitions(self.pair, self.arrival, times, mean, spread, visits, self.arrivals, of_row)
        return every if times.all() else every.some(times > 0.0)


def often_tried(visits: FloatArray, threshold: float) -> tuple[BoolArray, int]:
    """Return which pairs are admissible [S, A], and how many of them only because no other is in their state."""
    kept = (visits >= threshold) & (visits > 0.0)
    poor = np.asarray(~kept.any(axis=1) & visits.any(axis=1))
    best = poor[:, np.newaxis] & (visits == visits.max(axis=1, keepdims=True))
    return kept | best, int(best.sum())


class Outcomes(NamedTuple):
    """The outcomes of the model [E], sorted by pair: all of them possible, not all of them seen."""

    pair: IntArray
    target: IntArray
    times: FloatArray  # how often seen
    seen: IntArray  # which of ``Transitions`` it is, or -1
    duration: FloatArray | None = None


def supported(read: LogRows, seen: Transitions, kept: BoolArray, support: Any) -> Outcomes:
    """Return the outcomes of admissible pairs."""
    (S, A), N = read.shape, seen.arrivals.state.size
    of_kept = kept.reshape(-1)[seen.pair]
    key = seen.pair[of_kept] * N + seen.arrival[of_kept]
    if read.duration is not None and not (isinstance(support, str) and support in ("action", "state")):
        message = "support must be 'action' or 'state' where transitions have durations: others say nothing of these"
        raise ParameterError(message, code="conflicting-arguments", argument="support", value=support)
    if isinstance(support, str):
        possible = _named_support(one_of(support, "support", SUPPORTS), read, seen, kept, key)
    else:
        possible = _given_support(support, read, kept, key)
        outside = ~np.isin(key, possible)
        if outside.any():
            pair, target = divmod(int(key[outside][0]), S)
            i = int(np.argmax((read.state * A + read.action == pair) & (read.target == target)))
            labels, arrival = (read.by_state, read.by_action), read.by_state.show(target)
            (state, action), names = divmod(pair, A), [axis.names for axis in labels]
            where = f"{labels[0].show(state)}, {labels[1].show(action)}"
            message = f"{where} led to {arrival}, which support does not allow"
            fields = {"state": names[0][state], "action": names[1][action]}
            raise read.held.fault(int(read.row[i]), message, "outside-support", **fields)
    shown = np.flatnonzero(of_kept)
    place = np.minimum(np.searchsorted(key, possible), max(key.size - 1, 0))  # both are sorted
    unseen = possible[key[place] != possible] if key.size else possible
    every = np.concatenate((key, unseen))
    order = np.argsort(every, kind="stable")
    which = np.concatenate((shown, np.full(unseen.size, -1)))[order]
    times = np.where(which >= 0, seen.times[which], 0.0)
    pairs, arrivals = np.divmod(every[order], N)
    lasting = seen.arrivals.duration
    return Outcomes(pairs, seen.arrivals.state[arrivals], times, which, None if lasting is None else lasting[arrivals])


def overlooked(read: LogRows, seen: Transitions, kept: BoolArray) -> tuple[int, int, int] | None:
    """Return how many pairs may have been tried too seldom to see all that can happen, and one with a next state.

    That next state was seen after other actions in the state, so often that it is no wonder (a chance of 5% or more) if
    this action, were it the same, had not shown it yet.
    """
    S, A = read.shape
    wider = supported(read, seen, kept, "state")
    arrivals, which = np.unique((seen.pair // A) * S + seen.target, return_inverse=True)
    rates = sums(which, seen.times, arrivals.size) / seen.visits.sum(axis=1)[arrivals // S]
    rate = rates[np.searchsorted(arrivals, (wider.pair // A) * S + wider.target)]
    silent = np.where(wider.times == 0.0, (1.0 - rate) ** seen.visits.reshape(-1)[wider.pair], 0.0)
    doubtful = silent >= DOUBT
    if not doubtful.any():
        return None
    worst = int(np.argmax(np.where(doubtful, rate, 0.0)))
    return np.unique(wider.pair[doubtful]).size, int(wider.pair[worst]), int(wider.target[worst])


def _named_support(support: str, read: LogRows, seen: Transitions, kept: BoolArray, key: IntArray) -> IntArray:
    S, A = read.shape
    N = seen.arrivals.state.size
    if support == "action":
        return key[np.append(True, np.diff(key) > 0)] if key.size else key
    pairs = np.flatnonzero(kept)
    if support == "all":
        alive = kept.any(axis=1) | read.terminal | read.absorbing
        alive[key % S] = True
        every = np.flatnonzero(alive)
        return np.repeat(pairs, every.size) * S + np.tile(every, pairs.size)
    left, right = np.divmod(np.unique(seen.pair // A * N + seen.arrival), N)
    sizes = np.bincount(left, minlength=S)
    first = np.cumsum(sizes) - sizes
    times = sizes[pairs // A]
    place = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(pairs, times) * N + right[np.repeat(first[pairs // A], times) + place]


def _given_support(support: Any, read: LogRows, kept: BoolArray, key: IntArray) -> IntArray:
    S, A = read.shape
    if not hasattr(support, "items"):
        allowed = mask_array(support, "support", (S, A, S), "[S, A, S]", error=ParameterError)
        allowed &= kept[:, :, np.newaxis]
        return np.flatnonzero(allowed)
    listed = np.zeros(S * A, dtype=np.bool_)
    keys = []
    for name, targets in support.items():
        s = read.by_state.find(name)
        pairs = s * A + np.flatnonzero(kept[s]) if s >= 0 else _pair_of(name, read)
        ends = [read.by_state.index(target, f"support[{name!r}]", ParameterError) for target in targets]
        listed[pairs] = True
        keys += [pair * S + target for pair in pairs.tolist() if kept.flat[pair] for target in ends]
    return np.unique(np.concatenate((np.array(keys, dtype=np.int64), key[~listed[key // S]])))


def _pair_of(name: Any, read: LogRows) -> IntArray:
    if isinstance(name, tuple) and len(name) == 2:
        s, a = read.by_state.find(name[0]), read.by_action.find(name[1])
        if s >= 0 and a >= 0:
            return np.array([s * read.by_action.size + a])
    message = f"support has {name!r}, expected a state or a pair (state, action) of the log"
    raise ParameterError(message, code="unknown-state", argument="support", value=name)


def refuse_dead_ends(read: LogRows, kept: BoolArray, entries: Outcomes) -> None:
    """Raise if outcomes lead to states that have no action and are neither terminal nor absorbing."""
    arrived = np.bincount(entries.target, minlength=read.by_state.size) > 0
    dead = np.flatnonzero(arrived & ~kept.any(axis=1) & ~read.terminal & ~read.absorbing)
    if not dead.size:
        return
    names, arrivals = read.by_state.names_at(dead), np.bincount(read.target, read.times, read.by_state.size)[dead]
    shown = ", ".join(
        f"{name!r} ({times:g} arrival{'' if times == 1 else 's'})"
        for name, times in zip(names[:20], arrivals.tolist(), strict=False)
    )
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    listed = "[" + ", ".join(map(repr, names[:20])) + (", ..." if more else "") + "]"
    message = (
        f"{read.held.table} arrives in {plural(len(names), 'state')} that it never leaves: {shown}{more}; say what "
        f"happens there: terminal={listed} if the process ends (or a mapping to what that is worth), or "
        f"absorbing={listed} if it stays; or, if the log stops before the process does, truncated='drop' leaves such "
        "rows out and truncated='mean' lets them lead where the other rows of their state lead"
    )
    raise DataError(message, code="dead-end", argument="log", states=tuple(names))
