"""From an operator to a Solution: first guesses, devices, and Q on request."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._support.checks import BoolArray, FloatArray, finite_array
from .._support.progress import Progress
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from .execute.executor import Executor
from .execute.threads import Threads
from .newton import Iteration
from .options import SolverOptions
from .row_risks import MeanRows
from .solution import Ahead, Solution

if TYPE_CHECKING:
    from .problem import BayesianRiskMDP

__all__ = ["Guess", "known_operator", "placed", "q_when_read", "rough_guess", "solve_operator"]

ROUGH = 1e-6  # tolerance of a first guess
FEW_DIGITS, FEW_BACKUPS = 1e-4, 20  # of one by an operator that is itself no better, and may not even converge


def known_operator(mdp: MDP) -> Executor:
    """Return the expected backup of a known model."""
    if not isinstance(mdp, MDP):
        hint = "; use BayesianRiskMDP(model, posterior, alpha)" if isinstance(mdp, UncertainMDP) else ""
        raise ModelError(f"expected an MDP, got {type(mdp).__name__}{hint}")
    return Threads(MeanRows(mdp.transition, mdp.reward, mdp.discount, mdp.leaks))


class Guess(NamedTuple):
    """A first guess of the values, and the backups it took."""

    value: FloatArray  # [S]
    iterations: int


def rough_guess(operator: Executor, model: MDP | UncertainMDP, policy: Any, options: SolverOptions) -> Guess:
    """Return rough values of an operator that is cheaper than the one to solve, in fewer backups than there may be."""
    cap = options.cap
    tol: float | None = ROUGH
    if operator.approximate:
        tol, cap = None, min(cap, FEW_BACKUPS)
    if cap < 2:
        return Guess(np.zeros(model.n_states), 0)
    iteration = Iteration(placed(operator, options), model.admissible, _actions(model, policy))
    iteration.digits = FEW_DIGITS
    end = iteration.to_tolerance(np.zeros(model.n_states), tol, cap - 1, newton=True)
    return Guess(np.asarray(end.point.moved(end.shift)), end.iterations)


def placed(operator: Executor, options: SolverOptions) -> Executor:
    """Return the operator on the device that is asked for."""
    if options.device == "cpu":
        return operator
    from .execute.cuda import Cuda

    return Cuda.of(operator)


def solve_operator(
    operator: Executor,
    model: MDP | UncertainMDP,
    policy: Any,
    options: SolverOptions,
    start: Any = None,
    guess: Guess | None = None,
    problem: MDP | BayesianRiskMDP | None = None,
) -> Solution:
    """Return the fixed point of ``operator`` on ``model``, for control or (``policy`` [S]) evaluation.

    It starts from the caller's ``start`` [S], or else from our own ``guess``, or else from zero. The solution keeps
    ``problem`` for those who ask it why.
    """
    operator = placed(operator, options)
    iteration = Iteration(operator, model.admissible, _actions(model, policy))
    if start is not None:
        value = _checked_start(start, model.n_states)
    elif guess is not None:
        value, iteration.iterations = guess
    else:
        value = np.zeros(model.n_states)
    if options.sweeps is not None:
        end = iteration.sweep(value, options.sweeps)
    else:
        end = iteration.to_tolerance(value, options.tol, options.cap, newton=options.method == "newton")
    if end.reason.capped:
        warnings.warn(end.reason.message, ConvergenceWarning, stacklevel=4)
    at = end.point
    value = np.asarray(at.moved(end.shift))
    if model.terminal.any():  # known without solving
        value[model.terminal] = model.terminal_value[model.terminal]
    q: Any = Ahead(np.asarray(at.value), end.shift, operator.accuracy, operator.threads)
    if not operator.lazy_q or policy is not None or problem is None:
        q = _whole(model, iteration.q_at(at, end.shift))
    return Solution(
        value=value,
        policy=np.asarray(at.actions),
        q=q,
        residual=at.residual,
        error_bound=end.error,
        iterations=end.iterations,
        converged=end.reason.converged,
        message=end.reason.message,
        states=model.states,
        actions=model.actions,
        terminal=model.terminal,
        _problem=problem,
    )


def q_when_read(problem: MDP | BayesianRiskMDP, ahead: Ahead, asked: BoolArray, *, best: bool = False) -> FloatArray:
    """Return Q [S, A] one step ahead of where a solver stopped, where it is ``asked`` for [S, A]; elsewhere -inf.

    With ``best`` only the greatest of each state need be Q, and the others are below it.
    """
    model: MDP | UncertainMDP
    operator: Executor
    if isinstance(problem, MDP):
        model, operator = problem, known_operator(problem)
    else:
        model, operator = problem.model, problem._operator(None, None, ahead.threads)
    progress = Progress("comparing actions")
    operator.accuracy = ahead.accuracy
    operator.tell = lambda done: progress.show(f"{done:.0%} done")
    q = np.full(asked.shape, -np.inf)
    back_up = operator.back_up_best if best else operator.backup
    back_up(ahead.value, np.flatnonzero(asked), q.reshape(-1))
    progress.close()
    return np.where(asked, _whole(model, q + ahead.shift), -np.inf)


def _whole(model: MDP | UncertainMDP, q: FloatArray) -> FloatArray:
    """Return ``q`` [S, A] with what is known of terminal states without solving."""
    if not model.terminal.any():
        return q
    return np.where(model.terminal[:, None] & model.admissible, model.terminal_value[:, None], q)


def _actions(model: MDP | UncertainMDP, policy: Any) -> npt.NDArray[Any] | None:
    """Return the actions [S] or the probabilities [S, A] of a policy to evaluate, or None for control."""
    return None if policy is None else model.read_policy(policy)


def _checked_start(start: Any, n_states: int) -> FloatArray:
    """Return the caller's first guess as an array of our own."""
    value = finite_array(start, "start", ndim=1, error=ParameterError)
    if value.size != n_states:
        raise ParameterError(f"start has {value.size} values, the model has {n_states} states")
    return value.copy()
