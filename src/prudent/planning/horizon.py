"""Finite horizons: backward induction, one backup of an operator for each step.

With V_T what states are worth when no step is left, V_t = T V_{t+1} for t = T-1, ..., 0: the value of the T - t steps
that remain, discounted to time t. Nothing has to converge, and the discount may be 1. The error bound is what rounding
(and the operator's own error) can add: e_t = eta_t + g e_{t+1}, with g the most by which a backup stretches an error,
gamma times the largest sum of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS
from .._support.checks import positive, whole_number
from .._support.memory import require_memory
from .._support.progress import Progress
from ..data.policy import Policy
from ..errors import ParameterError
from ..models.base import TabularModel, plural
from ..types import FloatArray, PolicyLike, RngLike, TerminalValueLike
from .base import PlanningProblem
from .ends import steps_worth, taken_pairs
from .execute.executor import Executor
from .rows import greedy
from .solution import Solution
from .stay_close import Allowed

DIGITS = 1e-10  # default tolerance, relative to the largest value
BACKUP_SHARE = 0.02  # share of the tolerance that all backups together may use
MAX_BYTES = 2**33  # of values and policies

Mix = Callable[[Executor, FloatArray, FloatArray], FloatArray]


class Induction(NamedTuple):
    """The result of backward induction: all times, or (``value`` [1, S] and no policy) the first one only.

    ``value`` is [T + 1, S] and ``policy`` [T, S] or [T, S, A]. No value at time 0 is further than ``error`` from the
    truth, and none at any time further than ``largest_error``: discounting may shrink the error of later times.
    """

    value: FloatArray
    policy: npt.NDArray[Any]
    error: float
    largest_error: float


def average(operator: Executor, shares: FloatArray, q: FloatArray) -> FloatArray:
    """Return the mean over actions [S] of ``q`` [S, A], which may be anything where a share is zero."""
    return np.asarray((shares * np.where(shares > 0.0, q, 0.0)).sum(axis=1))


def follow(operator: Executor, policy: npt.NDArray[Any], q: FloatArray, mix: Mix = average) -> tuple[FloatArray, float]:
    """Return what a policy, [S] or [S, A], makes of ``q`` [S, A], and what rounding adds to its error."""
    if policy.ndim == 1:
        return q[np.arange(policy.size), policy], 0.0
    taken = policy > 0.0
    return mix(operator, policy, q), (6.0 * policy.shape[1] + 64.0) * EPS * float(abs(q[taken]).max())


def backward_induction(
    operator_at: Callable[[int], Executor],
    model: TabularModel,
    horizon: int,
    final: FloatArray,
    policy: Policy | None = None,
    *,
    keep: bool = True,
    tol: float | None = None,
    mix: Mix = average,
    progress: Progress | None = None,
    error: float = 0.0,
    allowed: Allowed | None = None,
) -> Induction:
    """Go back from ``final`` [S], known up to ``error``, by ``horizon`` steps of ``operator_at(time)``.

    The best action of each state, the best mixture that is ``allowed``, or those of ``policy``. Without ``keep`` only
    the values at time 0 are returned.
    """
    n_states, n_actions = model.admissible.shape
    kept, mixed = horizon if keep else 0, allowed is not None or (policy is not None and policy.mixed)
    needed = 8 * (kept + 1) * n_states * (1 + (n_actions if mixed else 1))
    if needed > MAX_BYTES:
        size = f"{needed / 2**30:,.0f} GiB"
        message = f"horizon {horizon:,} with {n_states:,} states needs {size} for values and actions"
        raise ParameterError(message, code="too-large", argument="horizon", value=horizon)
    require_memory(needed, "horizon", horizon)
    values, shape = np.empty((kept + 1, n_states)), (kept, n_states)
    steps: npt.NDArray[Any] = np.empty((*shape, n_actions)) if mixed else np.empty(shape, np.int64)
    q = np.full((n_states, n_actions), -np.inf)
    every, chosen = np.flatnonzero(model.admissible), np.empty(n_states, np.int64)
    values[-1] = value = final
    largest = error
    shown = Progress("backward induction") if progress is None else progress
    for time in range(horizon - 1, -1, -1):
        operator = operator_at(time)
        stretch = max(0.0, operator.discount * (1.0 - operator.leaks[0])) * (1.0 + 4.0 * EPS)
        aim = DIGITS * float(abs(value).max()) if tol is None else tol
        operator.accuracy = BACKUP_SHARE * aim / steps_worth(stretch, horizon)
        actions: npt.NDArray[Any] = chosen if policy is None else policy.at(time)
        error *= stretch
        error += operator.backup(value, every if policy is None else taken_pairs(actions, n_actions), q.reshape(-1))
        error += operator.measure_error(value)
        if allowed is not None:
            value, actions, more = allowed.best(q)
            error += more
        elif policy is None:
            value = np.empty(n_states)
            greedy(q, value, chosen)
        else:
            value, more = follow(operator, actions, q, mix)
            error += more
        largest = max(largest, error)
        if keep:
            values[time] = value
            steps[time] = actions
        shown.show(f"{horizon - time:,} of {horizon:,} steps")
    if progress is None:
        shown.close()
    values[0] = value
    if not np.isfinite(value).all():
        message = "the values of this horizon are too large for 64-bit floats"
        raise ParameterError(message, code="overflow", argument="horizon")
    return Induction(values, steps, error, largest)


def solve_horizon(
    problem: PlanningProblem,
    policy: PolicyLike | None,
    horizon: int,
    terminal_value: TerminalValueLike,
    tol: float | None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    allowed: Allowed | None = None,
) -> Solution:
    """Return the values of ``horizon`` steps, for control or for a policy that may depend on time."""
    operator, model = problem.operator(draws, rng, threads), problem.model
    steps = whole_number(horizon, "horizon")
    aim = None if tol is None else positive(tol, "tol")
    final = model.final_values(terminal_value)
    timed = None if policy is None else Policy.read(policy, model, steps)
    if timed is not None:
        timed.require(steps)
    induction = backward_induction(lambda _: operator, model, steps, final, timed, tol=aim, allowed=allowed)
    enough = DIGITS * float(abs(induction.value).max()) if aim is None else aim
    end = reached(induction.largest_error, enough, steps)
    q_source = partial(one_step, operator, model)
    return timed_solution(problem.snapshot(draws), induction, q_source, induction.largest_error, end, allowed=allowed)


def timed_solution(
    problem: PlanningProblem,
    induction: Induction,
    q_source: Callable[[FloatArray, int], FloatArray],
    error: float,
    end: tuple[bool, str],
    **fields: Any,
) -> Solution:
    """Return a solution with a time axis; ``end`` says whether the error is small enough, and this in words."""
    return Solution(
        value=induction.value,
        policy=induction.policy,
        q_source=q_source,
        residual=0.0,
        error_bound=float(error),
        iterations=induction.policy.shape[0],
        converged=end[0],
        message=end[1],
        states=problem.model.states,
        actions=problem.model.actions,
        terminal=problem.model.terminal,
        problem=problem,
        **fields,
    )


def reached(error: float, enough: float, steps: int) -> tuple[bool, str]:
    """Return whether an error bound is small enough, and this in words."""
    converged = bool(error <= enough)
    relation = "<=" if converged else "is as small as 64-bit floats allow, above"
    return converged, f"error bound {error:.2g} {relation} {enough:.2g} after {plural(steps, 'step')}"


def one_step(operator: Executor, model: TabularModel, value: FloatArray, time: int) -> FloatArray:
    """Return Q [S, A] one step ahead of ``value``; minus infinity where an action is not admissible."""
    q = np.full(model.admissible.shape, -np.inf)
    operator.backup(value, np.flatnonzero(model.admissible), q.reshape(-1))
    return q
