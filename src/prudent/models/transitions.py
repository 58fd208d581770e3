"""Compiled loops over transitions of an uncertain model: counting a log, and drawing a trajectory.

A log is int64 [M, 4] with rows (state, action, next_state, outcome), all indices; the outcome is -1 where it was not
observed, the next state -2 where the process ended. Kernels trust it. They read the entries of the model; counts are
[B, K].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compile import kernel
from .._numerics.philox import uniform_at
from ..posteriors.groups import Group
from ..types import BoolArray, FloatArray, IntArray
from .entries import Entries

# -- count -------------------------------------------------------------------------------------------------


@kernel
def first_impossible(entries: Entries, counts: FloatArray, log: IntArray) -> int:
    """Return the first row that no outcome with a positive count explains, or -1."""
    for i in range(log.shape[0]):
        target, outcome = log[i, 2], log[i, 3]
        p = log[i, 0] * entries.n_actions + log[i, 1]
        b = entries.source[p]
        shift = entries.begin[b] - entries.first[p]  # from an entry to its slot
        possible = False
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                k = entries.outcome[e + shift]
                possible = possible or ((outcome < 0 or outcome == k) and counts[b, k] > 0.0)
        if not possible:
            return i
    return -1


@kernel
def explanations(entries: Entries, counts: FloatArray, log: IntArray) -> IntArray:
    """Return how many outcomes with a positive count explain each row [M]; 1 where the outcome is known."""
    found = np.ones(log.shape[0], np.int64)
    for i in range(log.shape[0]):
        if log[i, 3] >= 0:
            continue
        p = log[i, 0] * entries.n_actions + log[i, 1]
        b = entries.source[p]
        shift = entries.begin[b] - entries.first[p]  # from an entry to its slot
        found[i] = 0
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == log[i, 2] and counts[b, entries.outcome[e + shift]] > 0.0:
                found[i] += 1
    return found


def ambiguous_groups(
    entries: Entries, counts: FloatArray, log: IntArray, times: FloatArray
) -> tuple[BoolArray, list[Group]]:
    """Return which rows one outcome explains [M], and the outcomes that explain the others, each ``times`` [M]."""
    clear = explanations(entries, counts, log) == 1
    groups: list[Group] = []
    unclear = log[~clear]
    if unclear.size:
        pair = unclear[:, 0] * entries.n_actions + unclear[:, 1]
        arrivals, place = np.unique(np.stack((pair, unclear[:, 2]), axis=1), axis=0, return_inverse=True)
        seen = np.bincount(place.reshape(-1), weights=times[~clear])
        for (p, target), count in zip(arrivals.tolist(), seen.tolist(), strict=True):
            b = int(entries.source[p])
            led = np.flatnonzero(entries.next_state[entries.first[p] : entries.first[p + 1]] == target)
            outcomes = entries.outcome[entries.begin[b] + led]
            groups.append(Group(b, tuple(outcomes[counts[b, outcomes] > 0.0].tolist()), count))
    return clear, groups


@kernel
def add_log(entries: Entries, counts: FloatArray, log: IntArray, times: FloatArray | None = None) -> None:
    """Count the rows of a log in place and in order, each once or ``times`` [M]; every row must be possible.

    A count of unknown outcome is split by posterior means. That leaves the ratios of the counts as they are, so several
    at once are the same as one after the other.
    """
    for i in range(log.shape[0]):
        target, outcome = log[i, 2], log[i, 3]
        p = log[i, 0] * entries.n_actions + log[i, 1]
        b = entries.source[p]
        once = 1.0 if times is None else times[i]
        if outcome >= 0:
            counts[b, outcome] += once
            continue
        shift = entries.begin[b] - entries.first[p]  # from an entry to its slot
        total = 0.0
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                total += counts[b, entries.outcome[e + shift]]
        for e in range(entries.first[p], entries.first[p + 1]):
            if entries.next_state[e] == target:
                k = entries.outcome[e + shift]
                counts[b, k] += once * (counts[b, k] / total)  # exactly 1 if this outcome is the only one


# -- walk --------------------------------------------------------------------------------------------------


def cumulative_rows(theta: FloatArray) -> FloatArray:
    """Return cumulative probabilities [B, K]; the last possible outcome takes what rounding leaves of one."""
    cumulative = np.cumsum(theta, axis=1)
    last = theta.shape[1] - 1 - np.argmax(theta[:, ::-1] > 0.0, axis=1)
    cumulative[np.arange(theta.shape[1]) >= last[:, None]] = 1.0
    return cumulative


@kernel
def earned(entries: Entries, s: int, a: int, outcome: int) -> float:
    """Return the reward of an outcome of a pair."""
    p = s * entries.n_actions + a
    begin, end = entries.begin[entries.source[p]], entries.begin[entries.source[p] + 1]
    return float(entries.reward[entries.first[p] + np.searchsorted(entries.outcome[begin:end], outcome)])


class Course(NamedTuple):
    """A model with its true probabilities."""

    entries: Entries
    terminal: BoolArray  # [S]
    cumulative: FloatArray  # [F] by slots, 1 from the last possible outcome of a source on
    restarts: FloatArray  # [S] cumulative probabilities of the state after an end


class Plan(NamedTuple):
    """A policy at each time after a start; the last row holds for all later times."""

    actions: IntArray  # [T, S], or [0, 0]
    choices: FloatArray  # [T, S, A] cumulative probabilities of actions instead, or [0, 0, 0]
    length: int  # steps after which the process starts anew; 0: never


def plan_of(steps: npt.NDArray[Any], later: npt.NDArray[Any] | None) -> Plan:
    """Return the parts of a ``prudent.data.policy.Policy`` as kernels read them."""
    rows = steps if later is None else np.concatenate((steps, later[np.newaxis]))
    length = steps.shape[0] if later is None else 0
    if steps.ndim == 2:
        return Plan(np.ascontiguousarray(rows), np.empty((0, 0, 0)), length)
    flat = cumulative_rows(rows.reshape(-1, rows.shape[2]))
    return Plan(np.empty((0, 0), np.int64), np.ascontiguousarray(flat.reshape(rows.shape)), length)


class Uses(NamedTuple):
    """Uniform numbers by the k-th use of each source, in place of one for each step."""

    key: npt.NDArray[np.uint64]  # [2]
    used: IntArray  # [B] how often each source was used, or [0]: one for each step after all


@kernel
def draw(cumulative: FloatArray, uniform: float) -> int:
    """Return the place at which cumulative probabilities first exceed ``uniform``."""
    return int(np.searchsorted(cumulative, uniform, side="right"))


@kernel
def walk(
    course: Course,
    policy: IntArray,  # [S]
    choices: FloatArray,  # [S, A] cumulative probabilities of actions instead of ``policy``, or [0, 0]
    uniforms: FloatArray,  # [M, 1 to 3], in [0, 1): for outcomes, for choices if any, for restarts if not certain
    state: int,
    log: IntArray,  # [M, 4], filled
    plan: Plan | None = None,  # instead of ``policy`` and ``choices``
    uses: Uses | None = None,  # instead of the first column of ``uniforms``
) -> int:
    """Write the trajectory that starts in ``state``; return the state after it."""
    entries, last, time = course.entries, uniforms.shape[1] - 1, 0
    for i in range(uniforms.shape[0]):
        if plan is None:
            action = draw(choices[state], uniforms[i, 1]) if choices.size else policy[state]
        else:
            now = min(time, plan.actions.shape[0] + plan.choices.shape[0] - 1)
            action = draw(plan.choices[now, state], uniforms[i, 1]) if plan.choices.size else plan.actions[now, state]
        p = state * entries.n_actions + action
        b = entries.source[p]
        begin, end = entries.begin[b], entries.begin[b + 1]
        uniform = uniforms[i, 0]
        if uses is not None and uses.used.size:
            uniform = uniform_at(uses.key, b, uses.used[b])
            uses.used[b] += 1
        place = draw(course.cumulative[begin:end], uniform)
        log[i, 0] = state
        log[i, 1] = action
        state = int(entries.next_state[entries.first[p] + place])
        log[i, 2] = state
        log[i, 3] = entries.outcome[begin + place]
        time += 1
        if state < 0 or course.terminal[state] or (plan is not None and time == plan.length):
            state = draw(course.restarts, uniforms[i, last])
            time = 0
    return state
