"""Compiled replications: walk, learn, measure the regret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numerics.compile import kernel
from .._support.checks import FloatArray, IntArray
from ..agents.optimistic_vi import optimistic_update, start_optimistic
from ..models.logs import add_log, walk
from ..planning.compiled import Known, Work, _solve_chain, refresh

__all__ = ["Truth", "run_optimistic", "run_sampling"]


class Truth(NamedTuple):
    """What the simulator knows and the agents do not."""

    theta: FloatArray  # [B, K]
    cumulative: FloatArray  # [B, K], 1 from the last possible outcome on
    best: FloatArray  # [S] optimal values
    keys: IntArray  # [C, S] policies whose values are known
    values: FloatArray  # [C, S]
    full: IntArray  # [C] 1 where there is one


# -- the simulator -----------------------------------------------------------------------------------------


@kernel
def _true_values(known: Known, work: Work, truth: Truth, policy: IntArray) -> int:
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
        b = known.source[s * work.q.shape[1] + policy[s]]
        for k in range(work.rows.shape[1]):
            work.rows[s, k] = truth.theta[b, k]
    work.swept[:] = truth.best
    _solve_chain(known, work, policy, work.trial)
    truth.values[row] = work.trial
    truth.keys[row] = policy
    truth.full[row] = 1
    return row


@kernel
def _walk_episode(
    env: np.random.Generator,
    known: Known,
    work: Work,
    truth: Truth,
    policy: IntArray,
    state: int,
    observed: bool,
    uniforms: FloatArray,  # [L]
    log: IntArray,  # [L, 4], filled; outcomes become -1 if they are not observed
    rewards: FloatArray,  # [L], filled
) -> float:
    """Walk one episode in the true model and return its regret."""
    for i in range(uniforms.size):
        uniforms[i] = env.random()
    walk(known.source_of, known.next_of, truth.cumulative, policy, uniforms, state, log)
    row = _true_values(known, work, truth, policy)
    regret = 0.0
    for i in range(uniforms.size):
        s = log[i, 0]
        regret += truth.best[s] - truth.values[row, s]
        rewards[i] = known.reward[s * work.q.shape[1] + log[i, 1], log[i, 3]]
        if not observed:
            log[i, 3] = -1
    return regret


@kernel
def run_sampling(
    env: np.random.Generator,
    rng: np.random.Generator,
    known: Known,
    work: Work,
    truth: Truth,
    counts: FloatArray,  # [B, K], updated
    n: IntArray,  # [E] draws in episode t (the last for all that follow)
    weights: FloatArray,  # [E, M]
    lengths: IntArray,  # [E] how many of the weights count
    sweeps: int,
    state: int,
    observed: bool,
    regret: FloatArray,  # [T], cumulative
    rewards: FloatArray,  # [T, L]
    states: IntArray,  # [T, L]
    policies: IntArray,  # [T, S]
    moments: IntArray,  # [T] 1 + the place of this episode's counts in ``snapshots``, or 0
    snapshots: FloatArray,  # [M, B, K]
) -> int:
    """Run one replication of BRPS-RL; return the number of episodes whose solver did not converge."""
    n_steps = rewards.shape[1]
    uniforms = np.empty(n_steps)
    log = np.empty((n_steps, 4), np.int64)
    value = np.zeros(work.swept.size)
    policy = np.zeros(work.swept.size, np.int64)
    total = 0.0
    failures = 0
    for t in range(regret.size):
        e = min(t, n.size - 1)
        if moments[t]:
            snapshots[moments[t] - 1] = counts
        if not refresh(rng, known, work, counts, n[e], weights[e, : lengths[e]], sweeps, value, policy):
            failures += 1
        total += _walk_episode(env, known, work, truth, policy, state, observed, uniforms, log, rewards[t])
        add_log(known.source_of, known.next_of, counts, log)
        state = log[n_steps - 1, 2]
        regret[t] = total
        policies[t] = policy
        states[t] = log[:, 0]
    return failures


@kernel
def run_optimistic(
    env: np.random.Generator,
    rng: np.random.Generator,
    known: Known,
    work: Work,
    truth: Truth,
    counts: FloatArray,
    n: int,
    weights: FloatArray,
    scale: float,
    optimum: FloatArray,  # [S, A] optimal Q in the true model
    state: int,
    observed: bool,
    regret: FloatArray,  # [T], cumulative
    rewards: FloatArray,  # [T, L]
    states: IntArray,  # [T, L]
    policies: IntArray,  # [T, S] at the start of the episode
    moments: IntArray,  # [T]
    snapshots: FloatArray,  # [M, B, K]
) -> float:
    """Run one replication of Algorithm 3, which learns after every step; return the least Q - Q* it ever had."""
    log = np.empty((1, 4), np.int64)
    uniforms = np.empty(1)
    value = np.empty(work.swept.size)
    policy = np.empty(work.swept.size, np.int64)
    visits = np.zeros(known.source.size, np.int64)
    start_optimistic(known, work.q, value, policy)
    total = 0.0
    margin = np.inf
    for t in range(regret.size):
        policies[t] = policy
        if moments[t]:
            snapshots[moments[t] - 1] = counts
        for i in range(rewards.shape[1]):
            states[t, i] = state
            total += _walk_episode(
                env, known, work, truth, policy, state, observed, uniforms, log, rewards[t, i : i + 1]
            )
            if optimistic_update(rng, known, work, counts, visits, n, weights, scale, value, policy):
                for p in range(known.source.size):
                    if known.source[p] >= 0:
                        margin = min(margin, work.q.reshape(-1)[p] - optimum.reshape(-1)[p])
            add_log(known.source_of, known.next_of, counts, log)
            visits[state * work.q.shape[1] + log[0, 1]] += 1
            state = log[0, 2]
        regret[t] = total
    return margin
