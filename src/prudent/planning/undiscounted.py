"""Discount 1 without a horizon: processes that end with certainty.

A value of endlessly many undiscounted steps exists if the process ends, whatever is done: it ends, or reaches states
where nothing is ever earned again. Here it does so under every policy (or, to evaluate one, under that policy) with
positive probability within S steps from everywhere, which is a fact about the graph and is checked there: if it fails,
some state can be among a set that some choice of actions never leaves.

**The certificate.** Let xi(s) >= 1 + max over a of sum_s' P(s' | s, a) xi(s') until the end, so that xi bounds the
expected time that is left. If |TV - V| <= d everywhere, then V + d xi is a point that T lowers and V - d xi one that it
raises, hence

    |V* - V| <= d xi,         TV - d (xi - 1) <= V* <= TV + d (xi - 1).

These are MacQueen's bounds of ``prudent.planning.newton`` for a leak of 1/max(xi) at every step, which is all that
the solver is told. The longest expected times are found by policy iteration, roughly, and then proved: xi is accepted
if one backup shows that it falls by half a step at every step, rounding included, and scaled so that it falls by one.

**Where going on only costs.** In a known model some policies may go on for ever, if that is never worth it: a walk
against a wall that costs 1 for each step. The actions that are nearly the best at a discount of almost 1 are solved for
alone, with a certificate. If all of them end the process, and the others are then worse by more than the error, every
policy that takes those without end loses without end: the values are those of the whole model.

Under a posterior the probabilities of a step are those of its tail. A coherent risk changes by at most the upper risk
of |V - U| if V changes to U, so xi is the expected time if everything delays the end: the worst tail and the worst
action.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compensated import EPS
from .._support.checks import BoolArray, FloatArray
from ..errors import ModelError
from ..models.base import TabularModel
from ..models.builders import canonical
from ..models.entries import END, likely_outcomes
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from .base import Ended
from .chain import DENSE, MAX_PRODUCTS, Chain, chain_values, sparse_elimination
from .ends import find_over, taken_pairs
from .execute.executor import Executor
from .execute.threads import Threads
from .horizon import follow
from .newton import Iteration
from .options import SolverOptions
from .row_risks import MeanRows, NegatedRows
from .rows import greedy
from .solution import Solution

LEAST_FALL = 0.5  # of a step, by which expected times must be seen to fall at every step
NEAR_ONE = 1.0 - 1e-9  # discount at which actions are compared that may go on for ever
NEAR_BEST = 1e-6  # of the largest value: actions no further below the best are tried
TIME_RESIDUAL = 0.1  # of a step: residual to which expected times are solved
GUESS_RESIDUAL = 1e-10  # of the largest reward: residual of the values to start from
MAX_POLICIES = 100  # policies that are tried


def _policy_iteration(
    executor: Executor, admissible: BoolArray, policy: npt.NDArray[Any] | None, over: BoolArray, digits: float
) -> Iterator[tuple[FloatArray, FloatArray, float]]:
    """Yield values [S] of up to ``MAX_POLICIES`` policies, these values backed up [S], and the error of the backup.

    This is policy iteration without a safeguard. Values are zero where it is ``over``.
    """
    n_states, n_actions = admissible.shape
    pairs = np.flatnonzero(admissible) if policy is None else taken_pairs(policy, n_actions)
    q = np.full((n_states, n_actions), -np.inf)
    value, actions = np.zeros(n_states), np.empty(n_states, np.int64)
    for _ in range(MAX_POLICIES):
        after, error = np.empty(n_states), executor.backup(value, pairs, q.reshape(-1))
        if policy is None:
            greedy(q, after, actions)
        else:
            after, more = follow(executor, policy, q)
            error += more
        yield value, after, error
        followed = actions if policy is None else policy
        chain = executor.linearise(value, taken_pairs(followed, n_actions))
        value = _chain_values(chain, followed, np.where(over, 0.0, after), digits)
        value[over] = 0.0


def _chain_values(chain: Chain, policy: npt.NDArray[Any], guess: FloatArray, digits: float) -> FloatArray:
    """Return the values of a chain over the pairs of a policy, to a residual of ``digits`` of the largest reward."""
    size = guess.size
    matrix = scipy.sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(chain.reward.size, size))
    reward = chain.reward
    if policy.ndim == 2:
        state, _ = np.nonzero(policy)
        shares = scipy.sparse.csr_array(
            (policy[policy > 0.0], (state, np.arange(state.size))), shape=(size, state.size)
        )
        matrix, reward = shares @ matrix, shares @ reward
    if size > DENSE:
        x, target = guess.copy(), digits * float(abs(reward).max())
        rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, reward
        chain_values(Chain(*rows), 1.0, x, target, False, MAX_PRODUCTS)
        if abs(reward + matrix @ x - x).max() <= 2.0 * target:
            return x
    try:
        if size <= DENSE:
            return np.asarray(np.linalg.solve(np.eye(size) - matrix.toarray(), reward))
        return sparse_elimination(matrix, reward)
    except (np.linalg.LinAlgError, RuntimeError):  # singular: within rounding of going on for ever
        return np.full(size, 1.0 / EPS)


def ending_leaks(
    times: Executor, admissible: BoolArray, policy: npt.NDArray[Any] | None, over: BoolArray
) -> tuple[float, float]:
    """Return bounds on a leak that bound values as well as the expected time to the end does.

    ``times`` is the backup that adds 1 for each step to the longest expected time after it, and 0 where it is over.
    """
    if over.all():
        return (1.0, 1.0)
    longest = 0.0
    for xi, after, error in _policy_iteration(times, admissible, policy, over, TIME_RESIDUAL):
        falls = (xi - (after - 1.0))[~over]
        longest = max(longest, float(xi.max()))
        fall = float(falls.min()) - error - 4.0 * EPS * (longest + 1.0)
        if fall >= LEAST_FALL and xi.min() >= 0.0:
            return (fall / float(xi.max()) * (1.0 - 8.0 * EPS), 1.0)
    message = (
        f"at discount 1 the process takes so long to end (about {longest:.2g} steps) that 64-bit floats cannot bound "
        "its values; give a horizon, or a discount below 1"
    )
    raise ModelError(message, code="endless-process", steps=longest)


def guess_values(
    executor: Executor, model: TabularModel, policy: npt.NDArray[Any] | None, over: BoolArray
) -> FloatArray:
    """Return values [S] to start a certified solver from."""
    best, least = np.zeros(over.size), np.inf
    for value, after, error in _policy_iteration(executor, model.admissible, policy, over, GUESS_RESIDUAL):
        change = float(abs(after - value).max())
        if not change < least:
            break
        best, least = value, change
        if change <= 4.0 * error:
            break
    return best


# -- known models ------------------------------------------------------------------------------------------


def ended_mdp(mdp: MDP, policy: Any) -> Ended:
    """Return a known model in which no step leaves a state where it is over, and a leak that certifies its values."""
    actions = None if policy is None else mdp.read_policy(policy)
    outcomes, near = mdp.outcomes(), None
    try:
        over = find_over(mdp, outcomes, actions)
    except ModelError as fault:
        if policy is not None:
            raise
        near = _near_optimal(mdp)
        try:
            over = find_over(mdp, outcomes, near)
        except ModelError:
            raise fault from None
    twin = copy.copy(mdp)
    if near is not None:
        twin.admissible = near
    if over.any():
        twin.transition = mdp.transition.copy()
        twin.transition.data[np.repeat(np.repeat(over, mdp.n_actions), np.diff(twin.transition.indptr))] = 0.0
        canonical(twin.transition)
        twin.terminal = mdp.terminal | over
        twin.terminal_value = np.where(over, 0.0, mdp.terminal_value)
    live = ~over[:, np.newaxis] & twin.admissible
    times = Threads(MeanRows(twin.transition, np.where(live, 1.0, 0.0), 1.0))
    leaks = ending_leaks(times, twin.admissible, actions, over)
    executor = Threads(MeanRows(twin.transition, np.where(live, mdp.reward, 0.0), 1.0, leaks))
    left_out = None if near is None else mdp.admissible & ~near
    return Ended(twin, executor, guess_values(executor, twin, actions, over), left_out)


def _near_optimal(mdp: MDP) -> BoolArray:
    """Return the actions [S, A] that are among the best, or nearly so, at a discount of almost 1."""
    iteration = Iteration(Threads(MeanRows(mdp.transition, mdp.reward, NEAR_ONE, mdp.leaks)), mdp.admissible, None)
    with np.errstate(all="ignore"):
        # the result is proved afterwards, so it need not have converged
        end = iteration.to_tolerance(np.zeros(mdp.n_states), None, SolverOptions().cap, newton=True)
        value, q = end.point.moved(end.shift), iteration.q_at(end.point, end.shift)
    if not np.isfinite(value).all():  # rewards are too large to compare actions
        return mdp.admissible
    lead = np.where(mdp.admissible & ~mdp.terminal[:, np.newaxis], value[:, np.newaxis] - q, np.inf)
    lead[mdp.terminal[:, np.newaxis] & mdp.admissible] = 0.0  # their value is known
    value = np.where(mdp.terminal, mdp.terminal_value, value)
    return np.asarray(lead <= NEAR_BEST * float(abs(value).max()))


def with_all_actions(mdp: MDP, solution: Solution, left_out: BoolArray) -> Solution:
    """Return the solution of the model without some actions as that of the whole: these must be worse for sure."""
    executor = Threads(MeanRows(mdp.transition, mdp.reward, 1.0, mdp.leaks))
    q = np.full(mdp.admissible.shape, -np.inf)
    error = executor.backup(solution.value, np.flatnonzero(mdp.admissible), q.reshape(-1))
    lead = (solution.value[:, np.newaxis] - q)[left_out]
    if not float(lead.min()) > 2.1 * solution.error_bound + error:
        pair = int(np.flatnonzero(left_out)[np.argmin(lead)])
        message = f"at discount 1 it cannot be decided whether {mdp.pair_name(pair)} is worth it; give a horizon"
        raise ModelError(message, code="undecided-action", state=pair // mdp.n_actions, action=pair % mdp.n_actions)
    return replace(solution, q_source=np.where(solution.q > -np.inf, solution.q, q))


# -- under a posterior -------------------------------------------------------------------------------------


def ended_uncertain(
    model: UncertainMDP, theta: FloatArray, policy: Any, executor_of: Callable[[UncertainMDP, bool], Executor]
) -> Ended:
    """Do the same as ``ended_mdp`` under a posterior with mean ``theta`` [B, K].

    ``executor_of(model, times)`` returns the backup of the same posterior on a model with other rewards and ends; with
    ``times`` no rewards are added to those of the model.
    """
    entries = model.entries
    actions = None if policy is None else model.read_policy(policy)
    over = find_over(model, likely_outcomes(entries, theta), actions)
    over_here = np.repeat(over, model.n_actions)[entries.pairs()]
    ends = np.where(over_here, np.int32(END), entries.next_state)
    counting = _with(model, next_state=ends, reward=np.where(over_here, 0.0, -1.0))
    counted = executor_of(counting, True)
    times = Threads(NegatedRows(counted.rows), counted.threads)
    leaks = ending_leaks(times, model.admissible, actions, over)
    executor = executor_of(_with(model, next_state=ends, reward=np.where(over_here, 0.0, entries.reward)), False)
    executor.leaks, executor.refines = leaks, False
    twin = copy.copy(model)
    twin.terminal = model.terminal | over
    twin.terminal_value = np.where(over, 0.0, model.terminal_value)
    return Ended(twin, executor, guess_values(executor, model, actions, over))


def _with(model: UncertainMDP, **changes: Any) -> UncertainMDP:
    """Return the model with other entries."""
    twin = copy.copy(model)
    twin.entries = model.entries._replace(**changes)
    for made in ("next_state", "reward", "absorbing"):
        twin.__dict__.pop(made, None)
    return twin
