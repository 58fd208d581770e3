"""Compiled replications: walk, learn, measure the regret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compile import kernel, lean
from .._numerics.copying import put, put_rows
from .._support.checks import FloatArray, IntArray
from ..agents.optimistic_vi import OptimisticPlan, optimistic_update, start_optimistic
from ..models.transitions import Course, Uses, add_log, earned, walk
from ..planning.inner import Known, Plan, Work, draw_and_solve, solve_chain


class Truth(NamedTuple):
    """The true model, which the agents do not know, and a cache of values."""

    theta: FloatArray  # [F] by slots
    course: Course
    best: FloatArray  # [S] optimal values
    best_q: FloatArray  # [S*A]
    start: int  # the first state, and the one after an end
    observed: bool  # whether agents see outcomes, or next states only
    keys: IntArray  # [C, S] policies whose values are known
    values: FloatArray  # [C, S]
    full: IntArray  # [C] 1 where there is one
    uses: Uses  # uniform numbers by source, if agents are paired by these


class Restarts(NamedTuple):
    """What two Generators are set to before each of n replications, so that one call of a kernel runs them all."""

    env: npt.NDArray[np.uint64]  # [W] memory of the Generator of the environment; W = 0 leaves both as they are
    rng: npt.NDArray[np.uint64]  # [W] memory of that of the agent
    states: npt.NDArray[np.uint64]  # [n, 2, W]
    keys: npt.NDArray[np.uint64]  # [n, 2] of uniform numbers by source


class Trace(NamedTuple):
    """Record of one replication: T episodes of L steps. A kernel that runs several has an axis more, the first one."""

    regret: FloatArray  # [T], cumulative
    rewards: FloatArray  # [T, L]
    visited: IntArray  # [T, L] states
    followed: IntArray  # [T, S] policies at the start of the episode
    at: IntArray  # [T] 1 + the row of the episode's counts in ``snapshots``, or 0
    snapshots: FloatArray  # [M, B, K] posterior counts at the start of the episode


@lean
def true_values(known: Known, work: Work, truth: Truth, policy: IntArray) -> int:
    """Return the row of ``truth.values`` with the exact values of ``policy`` in the true model."""
    mark = np.uint64(14695981039346656037)
    for s in range(policy.size):
        mark = (mark ^ np.uint64(policy[s])) * np.uint64(1099511628211)
    row = int((mark >> np.uint64(20)) % np.uint64(truth.full.size))
    if truth.full[row]:
        same = True
        for s in range(policy.size):
            same = same and truth.keys[row, s] == policy[s]
        if same:
            return row
    for s in range(policy.size):
        b = known.entries.source[s * work.q.shape[1] + policy[s]]
        begin = known.entries.begin[b]
        for j in range(known.entries.begin[b + 1] - begin):
            work.rows[s, j] = truth.theta[begin + j]
    put(work.swept, truth.best)
    solve_chain(known, work, policy, work.trial)
    put(truth.values[row], work.trial)
    put(truth.keys[row], policy)
    truth.full[row] = 1
    return row


@lean
def _walk_episode(
    env: np.random.Generator,
    known: Known,
    work: Work,
    truth: Truth,
    policy: IntArray,
    state: int,
    uniforms: FloatArray,  # [L, 1]
    log: IntArray,  # [L, 4], filled; outcomes become -1 if they are not observed
    rewards: FloatArray,  # [L], filled
) -> tuple[float, int]:
    """Walk one episode in the true model; return its regret, and the state after it."""
    for i in range(uniforms.size):
        uniforms[i, 0] = env.random()
    state = walk(truth.course, policy, work.none, uniforms, state, log, None, truth.uses)
    row = true_values(known, work, truth, policy)
    regret = 0.0
    for i in range(uniforms.size):
        s = log[i, 0]
        regret += truth.best[s] - truth.values[row, s]
        rewards[i] = earned(known.entries, s, log[i, 1], log[i, 3])
        if not truth.observed:
            log[i, 3] = -1
    return regret, state


@lean
def _count_anew(uses: Uses, key: npt.NDArray[np.uint64]) -> None:
    """Set a new key of uniform numbers by source."""
    put(uses.key, key)
    uses.used[:] = 0


@kernel
def run_sampling(
    env: np.random.Generator,
    rng: np.random.Generator,
    restarts: Restarts,
    known: Known,
    work: Work,
    truth: Truth,
    prior: FloatArray,  # [B, K]
    plan: Plan,
    trace: Trace,  # of n replications
    failures: FloatArray,  # [n], filled: the number of episodes whose solver did not converge
) -> None:
    """Run replications of BRPS-RL."""
    n_steps = trace.rewards.shape[2]
    uniforms = np.empty((n_steps, 1))
    log = np.empty((n_steps, 4), np.int64)
    value = np.empty(work.swept.size)
    policy = np.empty(work.swept.size, np.int64)
    counts = np.empty(prior.shape)
    for r in range(failures.size):
        if restarts.env.size:
            put(restarts.env, restarts.states[r, 0])
            put(restarts.rng, restarts.states[r, 1])
        _count_anew(truth.uses, restarts.keys[r])
        put_rows(counts, prior)
        value[:] = 0.0
        policy[:] = 0
        state = truth.start
        total = 0.0
        failures[r] = 0.0
        for t in range(trace.regret.shape[1]):
            if trace.at[t]:
                put_rows(trace.snapshots[r, trace.at[t] - 1], counts)
            if not draw_and_solve(rng, known, work, counts, plan, t, value, policy):
                failures[r] += 1.0
            regret, state = _walk_episode(env, known, work, truth, policy, state, uniforms, log, trace.rewards[r, t])
            total += regret
            add_log(known.entries, counts, log)
            trace.regret[r, t] = total
            put(trace.followed[r, t], policy)
            put(trace.visited[r, t], log[:, 0])


@kernel
def run_optimistic(
    env: np.random.Generator,
    rng: np.random.Generator,
    known: Known,
    work: Work,
    truth: Truth,
    counts: FloatArray,  # [B, K], updated
    plan: OptimisticPlan,
    trace: Trace,
) -> float:
    """Run one replication of Algorithm 3, which learns after every step; return the least Q - Q* it ever had."""
    log = np.empty((1, 4), np.int64)
    uniforms = np.empty((1, 1))
    value = np.empty(work.swept.size)
    policy = np.empty(work.swept.size, np.int64)
    visits = np.zeros(truth.best_q.size, np.int64)
    start_optimistic(known, work.q, value, policy)
    q = work.q.reshape(-1)
    state = truth.start
    total = 0.0
    margin = np.inf
    for t in range(trace.regret.size):
        put(trace.followed[t], policy)
        if trace.at[t]:
            put_rows(trace.snapshots[trace.at[t] - 1], counts)
        for i in range(trace.rewards.shape[1]):
            trace.visited[t, i] = state
            reward = trace.rewards[t, i : i + 1]
            here = state
            regret, state = _walk_episode(env, known, work, truth, policy, here, uniforms, log, reward)
            total += regret
            if optimistic_update(rng, known, work, counts, visits, plan, value, policy):
                for p in range(q.size):
                    if known.entries.source[p] >= 0:
                        margin = min(margin, q[p] - truth.best_q[p])
            add_log(known.entries, counts, log)
            visits[here * work.q.shape[1] + log[0, 1]] += 1
        trace.regret[t] = total
    return margin
