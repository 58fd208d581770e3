"""From an operator to a Solution: the fixed point, where to start from, and the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._support.checks import finite_array, require_shape
from .._support.notices import warn_caller
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..types import FloatArray, PolicyLike
from .base import DeferredQ, PlanningProblem, with_terminal_values
from .ends import taken_pairs
from .execute.executor import Executor
from .newton import DIGITS, End, Iteration
from .options import SolverOptions
from .solution import Solution
from .stay_close import Allowed

GUESS_TOLERANCE = 1e-6  # of a first guess
ROUGH_DIGITS = 1e-4  # relative tolerance of a first guess by an operator that is itself an approximation
ROUGH_BACKUPS = 20  # cap of its backups: it may not even converge


class Guess(NamedTuple):
    """A first guess of the values [S], and the backups it took."""

    value: FloatArray
    iterations: int


def rough_guess(
    operator: Executor,
    model: MDP | UncertainMDP,
    policy: PolicyLike | None,
    options: SolverOptions,
    allowed: Allowed | None = None,
) -> Guess:
    """Return rough values of an operator that is cheaper than the one to solve, in fewer backups than the cap."""
    cap = options.cap
    tol: float | None = GUESS_TOLERANCE
    if operator.approximate:
        tol, cap = None, min(cap, ROUGH_BACKUPS)
    if cap < 2:
        return Guess(np.zeros(model.n_states), 0)
    iteration = Iteration(on_device(operator, options), model.admissible, _actions(model, policy), allowed)
    iteration.digits = ROUGH_DIGITS
    with np.errstate(over="ignore", invalid="ignore"):  # the solution is checked
        end = iteration.to_tolerance(np.zeros(model.n_states), tol, cap - 1, newton=True)
        return Guess(np.asarray(end.point.moved(end.shift)), end.iterations)


def on_device(operator: Executor, options: SolverOptions) -> Executor:
    """Return the operator on the device of the options."""
    if options.device == "cpu":
        return operator
    from .execute.cuda import Cuda

    return Cuda.of(operator)


def solve_operator(
    operator: Executor,
    model: MDP | UncertainMDP,
    policy: PolicyLike | None,
    options: SolverOptions,
    initial_value: npt.ArrayLike | None = None,
    guess: Guess | None = None,
    problem: PlanningProblem | None = None,
    *,
    defer_q: bool | None = None,
    allowed: Allowed | None = None,
) -> Solution:
    """Return the fixed point of ``operator`` on ``model``, for control or, with a ``policy``, for evaluation.

    Control is constrained to mixtures that are ``allowed``.

    The iteration starts from ``initial_value`` [S] of the caller, else from ``guess``, else from zero. ``problem`` is
    stored for ``Solution.explain``. By default Q is deferred where the operator says so and a problem can compute
    it; otherwise it is computed here.
    """
    operator = on_device(operator, options)
    iteration = Iteration(operator, model.admissible, _actions(model, policy), allowed)
    if initial_value is not None:
        value = finite_array(initial_value, "initial_value", ndim=1, error=ParameterError)
        require_shape(value, "initial_value", (model.n_states,), "[S]", error=ParameterError)
        value = value.copy()
    elif guess is not None:
        value, iteration.iterations = guess
    else:
        value = np.zeros(model.n_states)
    with np.errstate(over="ignore", invalid="ignore"):
        if options.sweeps is not None:
            end = iteration.sweep(value, options.sweeps)
        else:
            end = iteration.to_tolerance(value, options.tol, options.cap, newton=options.method == "newton")
        at = end.point
        value = np.asarray(at.moved(end.shift))
    _require_trusted(end, value, options)
    if model.terminal.any():  # known without solving
        value[model.terminal] = model.terminal_value[model.terminal]
    if defer_q is None:
        defer_q = operator.lazy_q and policy is None and problem is not None
    if defer_q:
        q: Any = DeferredQ(np.asarray(at.value), end.shift, operator.accuracy, operator.threads)
    else:
        q = with_terminal_values(model, iteration.q_at(at, end.shift))
    # the fixed points of two contractions are as far apart as the operators are, times 1/(1 - g)
    measured = operator.measure_error(value) * (1.0 + iteration.certificate.widest)
    message = end.reason.message
    if measured > 0.0:
        message += f"; the lines that replace the distortion add {measured:.2g}, which more pieces make smaller"
    actions = np.asarray(at.actions)
    message += operator.remark(value, taken_pairs(actions, model.n_actions))
    return Solution(
        value=value,
        policy=actions,
        q_source=q,
        residual=at.residual,
        error_bound=end.error + measured,
        iterations=end.iterations,
        converged=end.reason.converged,
        message=message,
        states=model.states,
        actions=model.actions,
        terminal=model.terminal,
        problem=problem,
        allowed=allowed,
    )


def _require_trusted(end: End, value: FloatArray, options: SolverOptions) -> None:
    """Raise if values overflow; warn if the iteration was cut short or the certified error exceeds ten digits."""
    if not (np.isfinite(value).all() and np.isfinite(end.error)):
        message = "the values of this model are too large for 64-bit floats; measure rewards in a larger unit"
        raise ModelError(message, code="overflow", argument="reward")
    facts = {"iterations": end.iterations, "error_bound": end.error}
    if end.reason.capped:
        warn_caller(ConvergenceWarning(end.reason.message, code="iteration-cap", **facts))
    elif options.sweeps is None and not end.reason.converged:
        promised = DIGITS * float(np.abs(value).max(initial=0.0)) + np.finfo(np.float64).tiny
        if end.error > 2.0 * promised:  # a bound that is hardly above the aim is no news
            message = f"{end.reason.message}: fewer than ten digits of the values"
            warn_caller(ConvergenceWarning(message, code="few-digits", expected=promised, **facts))


def _actions(model: MDP | UncertainMDP, policy: PolicyLike | None) -> npt.NDArray[Any] | None:
    """Return the actions [S] or the probabilities [S, A] of a policy to evaluate, or None for control."""
    return None if policy is None else model.read_policy(policy)
